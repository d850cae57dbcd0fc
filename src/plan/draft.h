/* A draft of a plan: what lowering decides before it writes any program. Only lower.c, divide.c,
 * draft.c, granule.c, order.c, emit.c and explain.c include this.
 *
 * A value exists in one or more forms, each a layout. Steps make forms: a step computes one node,
 * divided over slots, or exchanges one form into another. The steps stand in the order in which
 * every program will run its part of them: this is the global schedule of exchanges. */
#ifndef PLAN_DRAFT_H
#define PLAN_DRAFT_H

#include "base/map.h"
#include "base/vec.h"
#include "plan/lower.h"

typedef struct plan_form {
    plan_layout layout;
    uint32_t value;  /* of the whole graph */
    uint32_t maker;  /* the live step that makes it, as drafted, plus 1; 0: an input (plan_order) */
    bool *needed;    /* per slot of the layout: whether anything depends on the piece */
    uint32_t *local; /* per slot of the layout: the value in that slot's program, once it is made */
    /* Per slot of the layout: further summands, in the values behind `local`, that `combine` has
     * yet to join: it is done where the form is first read. */
    uint32_t *unjoined;
    uint16_t combine;
    uint32_t hops;              /* exchanges that have led to it */
    bool covers;                /* all of the value, and not only what somebody reads of it */
    uint32_t counted;           /* the last step whose bytes it is among, plus 1 */
    uint32_t readers;           /* live steps and outputs that read it (panel.c) */
    struct plan_panels *panels; /* NULL: it is there in one piece */
    double *at;                 /* per slot: when it is there (span.c) */
} plan_form;

/* The parts in which a form exists instead, in order of the first dimension, then of the second.
 * Where a slot's part is empty, it is not needed there. */
typedef struct plan_panels {
    int8_t axis[2]; /* of the form, that each dimension cuts; -1: none */
    uint32_t count[2];
    plan_form **forms;
    bool beside;                  /* it is there in one piece as well */
    const struct plan_form *next; /* whose panels it is passed on to, and cut by; NULL: none */
    struct plan_step *source;     /* the exchange that would have made the form; NULL: none */
    struct plan_step **steps;     /* that make the parts; NULL: computations do */
    bool *whole;                  /* per slot of the form: put together again by now */
} plan_panels;

/* What there is of a form: its parts, or itself. */
static inline uint32_t plan_n_parts(const plan_form *form) {
    const plan_panels *panels = form->panels;
    return panels && !panels->beside ? panels->count[0] * panels->count[1] : 1;
}

static inline plan_form *plan_part(plan_form *form, uint32_t i) {
    return form->panels && !form->panels->beside ? form->panels->forms[i] : form;
}

/* The forms of a value, in order of their making; place shares them between two values: so many, of
 * which others may be made. */
enum { PLAN_MOST_SOURCES = 64 };
typedef struct plan_forms {
    plan_form *form;
    struct plan_forms *next;
} plan_forms;

typedef struct plan_held {
    plan_forms *forms;
    const plan_layout *want; /* a layout it will be asked for, or NULL */
    /* A deferred value is computed in each layout in which it is needed, not beforehand: its node
     * makes more bytes than it reads, as constants and broadcasts do. */
    bool deferred;
    uint32_t depth; /* of a deferred value: how many it is made of, one by way of the next */
    /* A place is not always done beforehand: not of a value that is made where it is needed, and
     * not of summands when it is only suggested. Its value then has the forms of its operand, value
     * `source`, and this layout for readers to follow, or not, if it was not given. */
    const plan_layout *placed;
    uint32_t source;
    bool has_hint;
    plan_layout hint; /* of a deferred value: the layout that follows from its operands */
    int64_t units[SHOAL_MAX_RANK]; /* granule.c; 0: as many as elements */
    /* Nodes that pick elements of it, or replace some: of it, or of what has become of it. */
    uint32_t picks;
} plan_held;

/* An exchange of a form in panels into one in one piece: a step for each, of one channel. */
typedef struct plan_joint {
    struct plan_step **steps;
    uint32_t n, emitted;
    int64_t channel;
} plan_joint;

/* What there is to do: operations on elements of a class, and bytes read and written. */
typedef struct plan_work {
    double flops, bytes;
    base_figure products;
} plan_work;

typedef struct plan_step {
    uint32_t node;        /* SHOAL_NO_NODE: an exchange */
    plan_layout division; /* of a computation: over the loops of `axes` */
    const graph_axes *axes;
    plan_form **inputs, **outputs;
    plan_work work;       /* of the whole node */
    plan_form *from, *to; /* of an exchange */
    plan_moves moves;
    bool live;      /* something depends on it, */
    bool *needed;   /* and that on these slots of a computation's division */
    double seconds; /* expected, of what is live */
    double delay;   /* the part of an exchange's seconds that does not depend on its bytes */
    uint64_t bytes; /* moved between slots, of what is live */
    struct plan_step *whole; /* of which this is a panel, */
    uint32_t panel, panels;  /* this one of so many; for a whole step: 0 of 0 */
    plan_joint *joint;       /* of an exchange; NULL: it stands alone */
    size_t ordinal;          /* of its first move */
    uint32_t drafted;        /* its number before plan_order */
    struct plan_ends *ends;  /* of an exchange: its moves by their ends (emit.c) */
} plan_step;

static inline bool plan_is_exchange(const plan_step *step) { return step->node == SHOAL_NO_NODE; }

/* Seconds that the bytes of an exchange take. */
static inline double plan_transfer(const plan_step *step) {
    double seconds = step->seconds - step->delay;
    return seconds > 0 ? seconds : 0;
}

typedef struct plan_draft {
    const shoal_graph *g;
    const plan_pool *pool;
    base_map index; /* slot number -> &pool->slots[i] */
    base_map links; /* plan_link_key -> &pool->links[i] */
    base_map asked; /* plan_link_key of those whose speed was asked for -> anything, */
    bool asked_all; /* or there was no memory to note it */
    base_arena arena, scratch;
    bool *eligible; /* per pool slot: may compute in this draft */
    plan_held *values;
    graph_axes **axes; /* per node, once it has been asked for */
    BASE_VEC(plan_step *) steps;
    plan_form **outputs; /* per output of g */
    double seconds;
    uint64_t bytes;
    uint32_t figures; /* of devices, that it depends on: bits */
    bool bound;       /* some division follows a layout that a user gave */
    int64_t since;    /* of this thread's time: when planning began, */
    int64_t until;    /* and when it has to end; 0: it takes as long as it takes */
    int64_t look;     /* when that may have passed */
    uint32_t looks;   /* how often that was asked */
    bool paced;       /* it was extended by how slow the machine is */
} plan_draft;

/* Fails when planning has taken too long; to be asked before each step of the work. */
shoal_status plan_patience(plan_draft *d) SHOAL_CHECK_RESULT;

/* ---- draft.c: forms, routes between them, and what they cost ---- */

/* The value that has the forms of a value: another one behind places that are not done. */
uint32_t plan_source(const plan_draft *d, uint32_t value);
/* The place of a slot in the pool; UINT32_MAX when it is none of the pool's. */
uint32_t plan_pool_index(const plan_draft *d, uint32_t slot);
/* The place of the first slot of a slot's peer. */
uint32_t plan_first_slot(const plan_draft *d, uint32_t slot);
/* What a form has per slot of its layout; nothing is made yet. */
shoal_status plan_form_slots(plan_draft *d, plan_form *form) SHOAL_CHECK_RESULT;
/* A new form of a value. The layout is taken as it is and lives in d->arena. */
shoal_status plan_add_form(plan_draft *d, uint32_t value, const plan_layout *layout,
                           plan_form **out) SHOAL_CHECK_RESULT;
/* The layout that operands of later nodes should follow; false when nothing speaks for one. */
shoal_status plan_natural_layout(plan_draft *d, uint32_t value, plan_layout *out,
                                 bool *found) SHOAL_CHECK_RESULT;
/* Seconds and bytes to have a value in a layout, from the forms there are. */
shoal_status plan_need_cost(plan_draft *d, uint32_t value, const plan_layout *to, double *seconds,
                            int64_t *bytes) SHOAL_CHECK_RESULT;
/* Seconds and bytes between two layouts of a value, without making anything. */
shoal_status plan_move_cost(plan_draft *d, uint32_t value, const plan_layout *from,
                            const plan_layout *to, double *seconds,
                            int64_t *bytes) SHOAL_CHECK_RESULT;
/* The form of a value in a layout, made by steps when there is none yet. */
shoal_status plan_need(plan_draft *d, uint32_t value, const plan_layout *to,
                       plan_form **out) SHOAL_CHECK_RESULT;
/* Adds the step that computes a node, and those that bring its operands. */
shoal_status plan_add_compute(plan_draft *d, uint32_t node, const graph_axes *axes,
                              const plan_layout *division) SHOAL_CHECK_RESULT;
/* Where partial results of a value are joined: each summand's owner takes one part of its box. */
shoal_status plan_join_layout(plan_draft *d, base_arena *arena, uint32_t value,
                              const plan_layout *partial, plan_layout *out) SHOAL_CHECK_RESULT;
/* Marks what the outputs depend on, and adds up what that costs. */
shoal_status plan_draft_finish(plan_draft *d) SHOAL_CHECK_RESULT;
/* What was measured of the way from one peer to another; NULL: nothing. */
const plan_link *plan_link_between(const plan_draft *d, uint32_t from, uint32_t to);
/* The link's part of a set of moves: seconds, of these those that do not depend on bytes, and bytes
 * that leave their slot. to: the form they make, of which only the needed pieces count, or NULL to
 * count all. */
void plan_moves_cost(const plan_draft *d, const plan_moves *moves, const plan_form *to,
                     size_t element_bytes, double *seconds, double *delay, uint64_t *bytes);

/* ---- granule.c: where axes may be cut ---- */

/* Equal pieces between which an axis may be cut, and elements of each. */
int64_t plan_units(const plan_draft *d, uint32_t value, uint32_t axis);
int64_t plan_granule(const plan_draft *d, uint32_t value, uint32_t axis);
/* That of a loop: the rule's own, and those of all axes along it. */
int64_t plan_loop_granule(const plan_draft *d, uint32_t node, const graph_axes *axes,
                          uint32_t loop);
/* What a node's results are cut by, and its own rule, count for what it reads. */
void plan_granules_back(plan_draft *d, uint32_t node, const graph_axes *axes);
/* A node that is made where it is needed: what its operands are cut by counts for its results. */
void plan_granules_on(plan_draft *d, uint32_t node, const graph_axes *axes);
/* Moves the cut points of a layout of a value to the nearest multiples of its granules. */
shoal_status plan_round_cuts(plan_draft *d, uint32_t value, plan_layout *layout) SHOAL_CHECK_RESULT;

/* ---- lift.c: layouts of tensors and divisions of loops ---- */

/* An empty division: every loop whole, no slots yet, but room for so many. */
shoal_status plan_division(base_arena *arena, const graph_axes *axes, uint32_t room,
                           plan_layout *out) SHOAL_CHECK_RESULT;
/* Whether parts of the contracted loops may be joined by `combine`: each part starts from the
 * initial operand, if there is one, so that only an identity leaves the result as it is. */
bool plan_may_contract(const plan_draft *d, uint32_t node, const graph_axes *axes);
/* Whether every box of a layout has an owner. */
bool plan_covered(const plan_layout *layout);
/* A layout of a tensor as a division of loops, as far as they may be cut and its slots may compute;
 * map: the loop of each axis; ranges: of axes that have none, or NULL.
 * *valid is false when some box would have no owner. */
shoal_status plan_lift(plan_draft *d, base_arena *arena, uint32_t node, const graph_axes *axes,
                       const plan_layout *layout, const int8_t *map, const graph_range *ranges,
                       plan_layout *out, bool *valid) SHOAL_CHECK_RESULT;
/* The layout of a result under a division: cut contracted loops make summands. */
shoal_status plan_result_layout(base_arena *arena, const graph_axes *axes,
                                const plan_layout *division, const shoal_type *type,
                                uint32_t result, plan_layout *out) SHOAL_CHECK_RESULT;
/* Whether a division that follows ranges of its operand leaves the work to few slots, for no gain.
 */
bool plan_gathers_on_few(const plan_draft *d, uint32_t node, const graph_axes *axes,
                         const plan_layout *division);
/* The layout in which a node needs an operand under a division, and what it costs to have it. Of
 * one that is read in ranges it is all, or these alone: what takes less time. */
shoal_status plan_operand(plan_draft *d, base_arena *arena, uint32_t node, const graph_axes *axes,
                          const plan_layout *division, uint32_t operand, plan_layout *out,
                          double *seconds, int64_t *bytes) SHOAL_CHECK_RESULT;

/* ---- divide.c: the division of a node's loops ---- */

/* The axis rule of a node; it lives as long as the draft. */
shoal_status plan_node_axes(plan_draft *d, uint32_t node,
                            const graph_axes **out) SHOAL_CHECK_RESULT;
shoal_status plan_node_work(plan_draft *d, uint32_t node, plan_work *out) SHOAL_CHECK_RESULT;
/* What any graph's node does: nothing, if it is used where it lies in a file. */
shoal_status plan_work_of(const shoal_graph *g, const shoal_node *node, base_arena *arena,
                          plan_work *out) SHOAL_CHECK_RESULT;
/* Seconds that a slot takes for a share of some work, and for starting it. */
double plan_work_seconds(const plan_slot *slot, const plan_work *work, double share);
/* All operands' layouts lifted and joined, as far as that is valid. */
shoal_status plan_follow(plan_draft *d, base_arena *arena, uint32_t node, const graph_axes *axes,
                         plan_layout *out, bool *valid) SHOAL_CHECK_RESULT;
/* The cheapest division of a node; lives in d->arena. */
shoal_status plan_divide(plan_draft *d, uint32_t node, const graph_axes *axes,
                         plan_layout *out) SHOAL_CHECK_RESULT;
/* Expected seconds of the slowest slot. needed: per slot, or NULL for all. */
double plan_compute_seconds(const plan_draft *d, const graph_axes *axes,
                            const plan_layout *division, const plan_work *work, const bool *needed);
/* Memory that each slot of the pool would need at once, in bytes. */
typedef struct plan_load {
    double *bytes;
} plan_load;
shoal_status plan_load_begin(const plan_draft *d, base_arena *arena,
                             plan_load *out) SHOAL_CHECK_RESULT;
/* The pieces of a value; of those that are needed, or NULL for all. Where a file is used as it lies
 * they take no memory. */
void plan_load_add(const plan_draft *d, plan_load *load, const plan_layout *layout, uint32_t value,
                   const bool *needed);
/* Seconds that the worst slot loses to what its device has no memory for, which goes over from the
 * machine's each time it is used. */
double plan_load_seconds(const plan_draft *d, const plan_load *load);
/* The part of all iterations that the slot with index i does. */
double plan_share(const graph_axes *axes, const plan_layout *division, uint32_t i);

/* ---- panel.c, span.c, order.c, emit.c, explain.c ---- */

/* Lets what is worth it be done in panels: steps of a finished draft are replaced. */
shoal_status plan_panel(plan_draft *d) SHOAL_CHECK_RESULT;
/* Expected seconds of a computation, of its operands' coming and its results' leaving, which go on
 * at once as far as panels are worth it. */
double plan_overlap(double coming, double work, double leaving);
/* Expected seconds of the steps in their order, when what can go on at once does. */
shoal_status plan_span(plan_draft *d, double *out) SHOAL_CHECK_RESULT;

/* Puts the live steps of a finished draft in the order in which programs run them. */
shoal_status plan_order(plan_draft *d) SHOAL_CHECK_RESULT;
/* Writes the programs of a finished draft; step forms get their local values. */
shoal_status plan_emit(plan_draft *d, plan_result *out) SHOAL_CHECK_RESULT;
/* Fills out->explain and out->explain_json of the draft that was chosen: that of the pool or that
 * of one slot alone, `single`; NULL when there is nothing to compare. */
shoal_status plan_explain(const plan_draft *chosen, const plan_draft *pooled,
                          const plan_draft *alone, const plan_slot *single,
                          plan_result *out) SHOAL_CHECK_RESULT;

#endif
