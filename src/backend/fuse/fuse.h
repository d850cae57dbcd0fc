/* Forming kernels: which operations of a graph are one pass over memory, and what that pass is, as
 * data. A backend runs a kernel in tiles (cpu), renders it to source (render.h) or interprets it
 * (test/hunt/run_fuse.c); nothing here knows how wide its registers are.
 *
 * Reading order: this header; view.c (values that lie in others' memory), form.c (which nodes
 * become one kernel), kernel.c (what that kernel is), text.c (as text); render.h with render.c and
 * render_op.c.
 *
 * Ownership: a plan, with all that it points to, lies in the caller's arena and borrows the graph.
 * Errors: NO_MEMORY alone; a graph that graph_verify accepts always has a plan.
 * Threads: nothing is shared. */
#ifndef FUSE_FUSE_H
#define FUSE_FUSE_H

#include "base/arena.h"
#include "base/str.h"
#include "graph/graph.h"

/* ---- what a backend says of itself ---- */

typedef enum fuse_role {
    FUSE_OWN,    /* a step of its own, which the backend runs as it likes */
    FUSE_HEAD,   /* the same, of one result, which may go on in a kernel element by element */
    FUSE_MAP,    /* a part of a kernel: elementwise; or what only moves elements, as a load */
    FUSE_REDUCE, /* a part of a kernel: a reduction of one operand, by one operation */
} fuse_role;

/* What the backend does with one node: fuse_may_take says which roles a node can have. */
typedef struct fuse_choice {
    uint8_t role;
    uint32_t views; /* operands that may be views: bit i is operand i; from 31 on they share one */
} fuse_choice;

/* FUSE_MAP or FUSE_REDUCE where a node can have that role at all, else FUSE_OWN. Any node may be
 * FUSE_OWN, any node of one result FUSE_HEAD. */
fuse_role fuse_may_take(const shoal_graph *g, const shoal_node *node);

/* What its kernels are limited to. */
typedef struct fuse_limits {
    /* At most, in a kernel of several nodes; a reduction that ends one is not counted. */
    uint32_t operations, loads;
    /* Reductions that may follow on one another; 0: a reduction ends its kernel, which has no other
     * result. */
    uint32_t passes;
    bool any_stride; /* loads step along their last axis by any number; else by 0 or 1 */
} fuse_limits;

/* ---- kernels ---- */

enum { FUSE_MAX_LOADS = 4096, FUSE_MAX_ARGS = 3, FUSE_NOWHERE = UINT16_MAX };

/* Where an element lies, in elements: start + the sum of index * stride. A stride of 0 repeats
 * elements; one below 0 runs backwards. */
typedef struct fuse_index {
    int64_t start, strides[SHOAL_MAX_RANK];
} fuse_index;

/* The loops around the body, the last one innermost. Reduced ones are those that reductions run
 * along: what depends on them is `inner`. The order is that of memory where there is a choice; the
 * results do not depend on it, but for how sums are rounded. */
typedef struct fuse_loop {
    int64_t extent;
    bool reduced;
} fuse_loop;

typedef enum fuse_load_kind {
    FUSE_MEMORY,   /* an element of `value`'s root */
    FUSE_RESULT,   /* of the head's result, which need not lie in memory */
    FUSE_LITERAL,  /* the element that `literal` points to */
    FUSE_POSITION, /* the number `index` itself, as iota has it */
} fuse_load_kind;

/* What the body reads. A load that is bounded reads only where each loop's index i has
 * begin <= i < end and lies a multiple of `every` behind begin: the element there is
 * start + the sum of (i - begin) / every * stride. Elsewhere it is what load number `outside` is.
 */
typedef struct fuse_load {
    uint8_t kind, dtype;
    bool inner, bounded;
    uint16_t outside;
    uint32_t value; /* of the graph; a literal's and a position's are those of their node */
    const void *literal;
    fuse_index index; /* over the loops, from the root's first element */
    int64_t begin[SHOAL_MAX_RANK], end[SHOAL_MAX_RANK], every[SHOAL_MAX_RANK];
} fuse_load;

/* Operations in single assignment. A number below n_loads is a load, n_loads + i operation i; an
 * operation reads what has a smaller number. An operation rounds its result to its element type.
 *
 * A reduction (op is GRAPH_REDUCE) joins args[0] over all reduced loops by `combine`, beginning
 * with args[1], in elements of `sum`, and rounds once, at the end. What is inner and reads its
 * result is another pass over the reduced loops: `pass` says after how many of them an operation
 * can be done, and what several passes need is kept or computed again, as the backend likes. */
typedef struct fuse_operation {
    uint16_t op;         /* GRAPH_ADD, …: of ops.def */
    uint8_t dtype, from; /* element type of the result; of the last operand */
    uint8_t n_args, pass;
    bool inner;
    uint8_t sum;
    uint16_t combine;
    uint16_t args[FUSE_MAX_ARGS];
    const shoal_node *node; /* for its attributes */
} fuse_operation;

/* Each iteration writes one element of an inner result; else each one of the parallel loops does.
 */
typedef struct fuse_store {
    uint32_t value;
    uint16_t from;
    uint8_t dtype;
    bool inner;
    fuse_index index;
} fuse_store;

typedef struct fuse_kernel {
    uint32_t n_loops, n_loads, n_operations, n_stores;
    uint32_t passes; /* over the reduced loops; 0: there are none */
    fuse_loop loops[SHOAL_MAX_RANK];
    const fuse_load *loads;
    const fuse_operation *operations;
    const fuse_store *stores;
} fuse_kernel;

static inline uint8_t fuse_dtype_of(const fuse_kernel *k, uint32_t number) {
    return number < k->n_loads ? k->loads[number].dtype : k->operations[number - k->n_loads].dtype;
}
static inline bool fuse_is_inner(const fuse_kernel *k, uint32_t number) {
    return number < k->n_loads ? k->loads[number].inner : k->operations[number - k->n_loads].inner;
}

/* Whether result number `store` may be written over what load number `load` reads: it reads just
 * the element that the same iteration writes. Who writes before it has read all that it reads of
 * this element has to look at that as well. */
bool fuse_may_overwrite(const fuse_kernel *k, uint32_t store, uint32_t load);

/* Joins neighbouring loops that all strides step through alike, and drops those of one element.
 * strides[k]: those of one operand. apart: loops for which it differs are not joined (NULL: it does
 * not). Of all of these there are n; returns how many are left. */
uint32_t fuse_merge_loops(uint32_t n, int64_t *extents, bool *apart, int64_t *const *strides,
                          uint32_t n_strides);

/* ---- plans ---- */

/* Where the elements of a value are: its own memory, or that of its root. */
typedef struct fuse_value {
    uint32_t root; /* the value whose memory it shares; itself for most */
    bool is_view;  /* by `index`, over its own axes; else element by element, in the same order */
    fuse_index index;
} fuse_value;

/* A node, a kernel, or a node whose result goes on in a kernel. */
typedef struct fuse_step {
    uint32_t node; /* or SHOAL_NO_NODE */
    const fuse_kernel *kernel;
} fuse_step;

typedef struct fuse_plan {
    const shoal_graph *graph;
    uint32_t n_steps;
    const fuse_step *steps;   /* in an order in which they can run */
    const fuse_value *values; /* per value of the graph */
} fuse_plan;

/* choices: per node of the graph. Values that no step writes are inputs, constants, or lie in their
 * root's memory. */
shoal_status fuse_plan_make(const shoal_graph *g, const fuse_choice *choices,
                            const fuse_limits *limits, base_arena *arena,
                            fuse_plan *out) SHOAL_CHECK_RESULT;

/* Appends lines that say what a plan's steps, or one kernel, do. */
void fuse_print(const fuse_plan *plan, base_str *out);
void fuse_print_kernel(const fuse_kernel *k, base_str *out);

/* ---- between the files of this folder ---- */

/* Whether a node only moves elements, or makes them from nothing, so that a kernel loads them. */
bool fuse_is_move(uint16_t op);
bool fuse_same_shape(const shoal_type *x, const shoal_type *y);
/* The index of a dense tensor, over its axes. */
fuse_index fuse_dense(const shoal_type *type);
/* A value's elements as they lie in its root's memory, over its own axes. */
fuse_index fuse_index_of(const fuse_plan *plan, uint32_t value);
/* The index of a node's result in the memory of its operand, whose own is `in`; false where there
 * is none. */
bool fuse_moved_index(const shoal_graph *g, const shoal_node *node, const fuse_index *in,
                      fuse_index *out);
/* Finds which values have to be dense, or near: with a last axis that is dense or repeated. */
enum { FUSE_NEEDS_DENSE = 1, FUSE_NEEDS_NEAR = 2 };
void fuse_mark_needs(const shoal_graph *g, const fuse_choice *choices, const fuse_limits *limits,
                     uint8_t *needs);
/* Settles a node without a step, if that is possible. values: those before it are. */
bool fuse_share(const shoal_graph *g, const shoal_node *node, const fuse_limits *limits,
                const uint8_t *needs, fuse_value *values);

/* What form.c has found to be one kernel. */
typedef struct fuse_part {
    const uint32_t *nodes; /* in rising order */
    uint32_t n_nodes;
    uint32_t head;                /* node, or SHOAL_NO_NODE */
    const shoal_type *space;      /* over whose axes the loops run */
    bool reduced[SHOAL_MAX_RANK]; /* axes of it */
    const bool *used;             /* per value: somebody else reads it */
    const bool *outer;            /* per value: it has no reduced axes */
} fuse_part;
shoal_status fuse_kernel_make(const fuse_plan *plan, const fuse_part *part, base_arena *arena,
                              const fuse_kernel **out) SHOAL_CHECK_RESULT;
/* Strides over the axes of `space` of a dense tensor of `type`, which has its axes, or those that
 * are not reduced, apart from axes of one element; false when it has neither. Rank 0 repeats. */
bool fuse_spread(const shoal_type *space, const bool *reduced, const shoal_type *type,
                 const fuse_index *index, int64_t *strides);

#endif
