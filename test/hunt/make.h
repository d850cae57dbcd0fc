/* What makes programs: a graph that grows, with the values that its nodes have. */
#ifndef HUNT_MAKE_H
#define HUNT_MAKE_H

#include "hunt.h"

enum {
    MAKE_EXTENTS = 5,
    MAKE_INPUTS = 10,
    MAKE_ELEMENTS = 1 << 14,
    MAKE_JOINED = 4, /* operands of one node that are joined, or sorted together */
    MAKE_DEPTH = 3,  /* of bodies within each other */
};

typedef struct maker {
    hunt_random random;
    graph *g;
    const hunt_shape *shape;
    base_arena *arena; /* of the values */
    void **at;         /* per value of g */
    size_t room;       /* of `at` */
    bool wild;         /* infinities, NaN and the largest numbers are welcome */
    bool has_rows;     /* one axis is long, and much runs along it */
    bool has_matrices; /* axes are long enough for products in blocks */
    bool has_views;    /* what is joined is repeated, and parts of that are read */
    bool has_blocks;   /* values reach beyond the blocks that kernels work in */
    bool whole;        /* all numbers are: sums are the same in any order */
    bool speck;        /* one element, or one row, of an input is to be no ordinary number, */
    bool specked;      /* or is none; what comes of that is welcome, too */
    bool body;         /* of an operation: no inputs of its own */
    uint8_t depth;     /* bodies around it */
    uint8_t dtype;     /* of most values */
    uint32_t n_inputs;
    int64_t extents[MAKE_EXTENTS]; /* that axes have */
    int64_t elements;              /* at most, of a value */
    BASE_VEC(uint32_t) usable;     /* values that others may read, the newest last */
} maker;

static inline const shoal_type *make_type(const maker *m, uint32_t value) {
    return &graph_data(m->g)->values[value].type;
}

/* Whether gradients will pass through. */
static inline bool make_smooth(const maker *m) { return m->shape->style >= HUNT_SMOOTH; }

/* Appends a node if it can be inferred and its values are fit to go on with; false: it is not
 * there, or nobody will read it. */
bool make_node(maker *m, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
               const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *const *regions,
               uint16_t n_regions, uint32_t *out);
/* Begins and ends what makes a body: a graph of its own, whose arguments have the values `at`. */
maker make_body(maker *m, const uint32_t *arguments, uint32_t n);
/* NULL: no result of these types could be found. */
const shoal_graph *make_body_done(maker *body, const uint32_t *results, uint32_t n);
/* Some nodes of the simpler kind. */
void make_some(maker *m, uint32_t n);

/* An extent, mostly one that other axes have. */
int64_t make_extent(maker *m);
shoal_type make_shape(maker *m, uint8_t dtype, uint32_t least_rank, uint32_t most_rank);
/* One of the element types of these kinds (NULL: any). */
uint8_t make_dtype(maker *m, const char *kinds);
/* Some value of one of these kinds, with at least so many axes; made if there is none. */
uint32_t make_any(maker *m, const char *kinds, uint32_t least_rank);
/* Some value whose elements are to be joined: now and then of a type that has few numbers. */
uint32_t make_joined(maker *m, uint32_t least_rank);
/* A value of just this type: one that is there, or made from one, or new. */
uint32_t make_like(maker *m, shoal_type want);
/* The same as a part of another, turned, or repeated: what lies with strides. */
uint32_t make_view(maker *m, shoal_type type);
/* A value of the type of one of integers or flags, made from it. */
uint32_t make_changed(maker *m, uint32_t x);
/* As make_like, now and then changed: indices, labels and the like, which are few. */
uint32_t make_numbers(maker *m, shoal_type type);
uint32_t make_scalar(maker *m, uint8_t dtype);
uint32_t make_input(maker *m, shoal_type type);
uint32_t make_constant(maker *m, shoal_type type);
/* A constant that holds this. */
uint32_t make_given(maker *m, shoal_type type, const void *data);
/* That a value may have: ways that take many values for one have need of an axis. */
uint32_t make_most_axes(const maker *m);
/* Axes 0 to n - 1 in random order. */
void make_permutation(maker *m, uint32_t n, int64_t *out);

/* Appends a node of this operation; false: it did not work out. */
typedef bool (*make_op)(maker *m, uint16_t op);
bool make_elementwise(maker *m, uint16_t op);
bool make_create(maker *m, uint16_t op);
bool make_move(maker *m, uint16_t op);
bool make_reduce(maker *m, uint16_t op);
bool make_dot(maker *m, uint16_t op);
bool make_index(maker *m, uint16_t op);
bool make_order(maker *m, uint16_t op);
bool make_control(maker *m, uint16_t op);
bool make_window(maker *m, uint16_t op);
bool make_composite(maker *m, uint16_t op);

/* A body that joins two scalars by a random operation that suits the type; `sums`: always add. */
const shoal_graph *make_join(maker *m, uint8_t dtype, bool sums);
/* Of two numbers the larger magnitude, by two nodes. */
const shoal_graph *make_magnitude(maker *m, uint8_t dtype);
/* A body of one result for each of these operands, of which there are at most MAKE_JOINED. */
const shoal_graph *make_joint(maker *m, const uint32_t *in, uint32_t n);
/* Operands beside in[0] of other element types, so that there are n, all of one shape. */
void make_beside(maker *m, shoal_type type, uint32_t *in, uint32_t n);
/* A comparator of these operands' elements; stable: whether equals have to stay as they are. */
const shoal_graph *make_comparator(maker *m, const uint32_t *in, uint32_t n, int64_t axis,
                                   bool *stable);
/* What a value of this type holds that nothing computes. */
void make_fill(maker *m, const shoal_type *type, void *data);
/* A node that is there, once more, with one thing about it changed; false: it did not work out. */
bool make_again(maker *m);
/* Some operations beyond the blocks that kernels work in. */
void make_blocks(maker *m);

#define MAKE_BELOW(n) hunt_below(&m->random, (uint32_t)(n))
#define MAKE_CHANCE(percent) hunt_chance(&m->random, percent)
#define MAKE_INTS(key, list, n) graph_ints(SHOAL_ATTR_##key, list, n)

#endif
