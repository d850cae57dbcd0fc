/* Lowering: one graph over the pool becomes one graph per slot, with exchange nodes between.
 *
 * For every node a division of its loops over slots is chosen (a plan_layout over the loops): the
 * cheapest of those that follow from its operands' layouts, from a wanted layout of its results,
 * from the pool's weights, and of one slot alone. Operands that lie otherwise are resharded. Only
 * axis rules are read: no operation is named here, but `place`, `exchange`, `concatenate` and
 * `slice`. */
#ifndef PLAN_LOWER_H
#define PLAN_LOWER_H

#include "base/map.h"
#include "base/speed.h"
#include "graph/graph.h"
#include "plan/reshard.h"

typedef struct plan_slot {
    uint32_t slot; /* pool-wide number */
    uint32_t peer;
    bool compute;       /* false: memory of a client, holds inputs and results only */
    double weight;      /* share when nothing else is said; 0 keeps work away */
    base_speeds speeds; /* measured or assumed; 0, but for products of f32: not counted */
    uint64_t memory;    /* bytes of the device itself; 0: unknown */
    const char *name;   /* "w1/cpu", for explain */
    uint64_t machine;   /* the same for slots that share its cores; 0: unknown */
    uint32_t online;    /* cores of that machine, */
    uint32_t cores;     /* those of them that the peer may use, */
    uint32_t threads;   /* and those that computing takes */
    double per_byte;    /* seconds of a core that the peer takes for a byte that is encrypted */
} plan_slot;

/* What was measured of the way from one peer to another. */
typedef struct plan_link {
    uint32_t from, to; /* peers */
    double bytes;      /* per second */
    bool relayed;      /* by way of the hub */
    bool sealed;       /* encrypted and decrypted by the processors of both */
} plan_link;

static inline uint64_t plan_link_key(uint32_t from, uint32_t to) {
    return ((uint64_t)from << 32 | to) + 1;
}

/* Along one axis, at most. */
enum { PLAN_MOST_PANELS = 64 };

typedef struct plan_pool {
    uint32_t n_slots;
    const plan_slot *slots;
    const base_speeds *shown; /* per slot, by what its programs took; 0: unknown; NULL: of none. It
                                 is told by explanations, and changes no choice */
    bool by_speed;     /* nobody gave weights, and all speeds are known: shares follow these */
    double link_bytes; /* bytes per second between peers that are not in `links` */
    double link_delay; /* seconds per exchange between peers */
    uint32_t panels;   /* for tests: all that can be is done in so many; 0: where it is worth it */
    uint32_t n_links;
    const plan_link *links;
    size_t most;      /* bytes that a plan's draft and its programs may take, each; 0: any number */
    int64_t patience; /* of this thread's time that planning may take, ns; 0: any. On a machine that
                         is slower than PLAN_PACE it is as much more, */
    int64_t pace;     /* by what plan_pace says; 0: it is asked once the time is over */
} plan_pool;

/* The program of one slot. Locals: inputs[i] is bound to input number input_of[i] of the whole
 * graph, outputs likewise. */
typedef struct plan_program {
    uint32_t slot;
    base_str encoded;             /* its graph, with source lines (graph_encode) */
    uint32_t n_inputs, n_outputs; /* of the graph */
    uint32_t *input_of;
    uint32_t *output_of;
    uint64_t peak;      /* bytes that one run needs at most beside its inputs, outputs included; */
    uint64_t exchanged; /* and those of all values of its own that it sends of or that come */
    double flops;
    double seconds;  /* expected, of computing; */
    double bound;    /* those of them in which nothing but products of a class decides, */
    double products; /* and the operations of these products */
    base_figure figure;
} plan_program;

typedef struct plan_result {
    base_arena arena;
    uint32_t n_programs;
    plan_program *programs;
    plan_layout *outputs; /* per output of the graph: where it lies afterwards */
    double seconds;       /* expected */
    uint64_t bytes_moved; /* between slots */
    base_map links;       /* plan_link_key of those whose speed it depends on -> anything */
    bool all_links;       /* it may depend on any */
    uint32_t figures;     /* of devices, on which it depends: bits of base_figure */
    char *explain;        /* text of several lines; NULL unless asked for */
    char *explain_json;
} plan_result;

/* inputs: the layout of each input of g. wanted: per output the layout it must have, or NULL (the
 * array, or an entry: as it comes; partial results are then joined). Fails with INVALID, naming
 * node and slot. The result is initialised on success only. */
shoal_status plan_lower(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
                        const plan_layout *const *wanted, plan_result *out) SHOAL_CHECK_RESULT;
/* The same, and fills explain and explain_json, which takes longer than the plan itself. */
shoal_status plan_lower_explained(const shoal_graph *g, const plan_pool *pool,
                                  const plan_layout *inputs, const plan_layout *const *wanted,
                                  plan_result *out) SHOAL_CHECK_RESULT;
void plan_result_fini(plan_result *result);
/* How long this thread takes to plan a certain small program, in nanoseconds, by planning it a few
 * times; PLAN_PACE is what a processor of 2023 takes. */
shoal_status plan_pace(int64_t *out) SHOAL_CHECK_RESULT;
enum { PLAN_PACE = 13000000 };

#endif
