/* Writing nodes, for decompositions and gradients: expressions over values of a graph. The first
 * failure stays in the maker, and what follows does nothing; the status is looked at once, at the
 * end, and before anything that depends on the type of a value just made. */
#ifndef GRAPH_MAKER_H
#define GRAPH_MAKER_H

#include "graph/graph.h"

#include <math.h>
#include <string.h>

typedef struct maker {
    graph *g;
    shoal_status status;
} maker;

static inline const shoal_type *type_of(const maker *m, uint32_t x) {
    return &graph_data(m->g)->values[x].type;
}

/* ---- any node ---- */

static inline uint32_t node(maker *m, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
                            const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *body) {
    uint32_t out = 0;
    if (!m->status)
        m->status =
            graph_add(m->g, op, inputs, n_inputs, attrs, n_attrs, &body, body ? 1 : 0, &out);
    return out;
}

static inline uint32_t one(maker *m, uint16_t op, uint32_t x) {
    return node(m, op, &x, 1, NULL, 0, NULL);
}

static inline uint32_t two(maker *m, uint16_t op, uint32_t x, uint32_t y) {
    return node(m, op, (uint32_t[]){x, y}, 2, NULL, 0, NULL);
}

static inline uint32_t add(maker *m, uint32_t x, uint32_t y) { return two(m, GRAPH_ADD, x, y); }
static inline uint32_t sub(maker *m, uint32_t x, uint32_t y) {
    return two(m, GRAPH_SUBTRACT, x, y);
}
static inline uint32_t mul(maker *m, uint32_t x, uint32_t y) {
    return two(m, GRAPH_MULTIPLY, x, y);
}
static inline uint32_t over(maker *m, uint32_t x, uint32_t y) { return two(m, GRAPH_DIVIDE, x, y); }

static inline uint32_t choose(maker *m, uint32_t when, uint32_t x, uint32_t y) {
    return node(m, GRAPH_SELECT, (uint32_t[]){when, x, y}, 3, NULL, 0, NULL);
}

static inline uint32_t compare(maker *m, const char *direction, uint32_t x, uint32_t y) {
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, direction);
    return node(m, GRAPH_COMPARE, (uint32_t[]){x, y}, 2, &attr, 1, NULL);
}

static inline uint32_t convert(maker *m, uint32_t x, uint8_t dtype) {
    if (m->status || type_of(m, x)->dtype == dtype) return x;
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, dtype);
    return node(m, GRAPH_CONVERT, &x, 1, &attr, 1, NULL);
}

/* ---- constants ---- */

/* These elements, or one for all. */
static inline uint32_t elements(maker *m, const shoal_type *type, const void *data, size_t bytes) {
    uint32_t out = 0;
    if (!m->status) m->status = graph_add_constant(m->g, type, data, bytes, &out);
    return out;
}

/* One number everywhere, of any element type; a half is one of float32, converted. */
static inline uint32_t splat(maker *m, shoal_type type, double value) {
    float single = (float)value;
    int64_t whole = shoal_dtype_kind((shoal_dtype)type.dtype) == 'f' ? 0 : (int64_t)value;
    uint8_t dtype = type.dtype;
    if (dtype == SHOAL_F16 || dtype == SHOAL_BF16) type.dtype = SHOAL_F32;
    /* The low bytes of an integer come first. */
    const void *bytes = type.dtype == SHOAL_F32   ? (const void *)&single
                        : type.dtype == SHOAL_F64 ? (const void *)&value
                                                  : (const void *)&whole;
    return convert(m, elements(m, &type, bytes, shoal_dtype_size((shoal_dtype)type.dtype)), dtype);
}

static inline uint32_t like(maker *m, uint32_t x, double value) {
    return splat(m, *type_of(m, x), value);
}

static inline uint32_t times(maker *m, uint32_t x, double factor) {
    return two(m, GRAPH_MULTIPLY, x, like(m, x, factor));
}

static inline uint32_t plus(maker *m, uint32_t x, double term) {
    return two(m, GRAPH_ADD, x, like(m, x, term));
}

/* Integers as int64; those beyond it, as indices or lengths larger than anything, as a large one.
 */
static inline uint32_t with_sign(maker *m, uint32_t x) {
    if (!m->status && type_of(m, x)->dtype == SHOAL_U64)
        x = two(m, GRAPH_MINIMUM, x, like(m, x, 0x1p62));
    return convert(m, x, SHOAL_I64);
}

/* 0, 1, 2, ... along an axis, as int64. */
static inline uint32_t numbers(maker *m, const shoal_type *shape, int64_t axis) {
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, axis),
                                graph_ints(SHOAL_ATTR_SHAPE, shape->dims, shape->rank),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_I64)};
    return node(m, GRAPH_IOTA, NULL, 0, attrs, 3, NULL);
}

/* ---- element types ---- */

/* The element type in which a composite on `dtype` is computed. */
static inline uint8_t wide(uint8_t dtype) { return dtype == SHOAL_F64 ? SHOAL_F64 : SHOAL_F32; }

static inline uint32_t widen(maker *m, uint32_t x) {
    return convert(m, x, wide(type_of(m, x)->dtype));
}

/* ---- shapes ---- */

static inline uint32_t reshape(maker *m, uint32_t x, const shoal_type *shape) {
    shoal_attr attr = graph_ints(SHOAL_ATTR_SHAPE, shape->dims, shape->rank);
    return node(m, GRAPH_RESHAPE, &x, 1, &attr, 1, NULL);
}

/* x's axis i becomes axis axes[i] of `shape`. */
static inline uint32_t spread(maker *m, uint32_t x, const shoal_type *shape, const int64_t *axes) {
    const shoal_attr attrs[] = {
        graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, axes, type_of(m, x)->rank),
        graph_ints(SHOAL_ATTR_SHAPE, shape->dims, shape->rank)};
    return node(m, GRAPH_BROADCAST_IN_DIM, &x, 1, attrs, 2, NULL);
}

/* An int64 for each number of an index, in the shape of the indices. */
static inline uint32_t per_number(maker *m, const shoal_type *indices, int64_t vector,
                                  const int64_t *values, int64_t n) {
    shoal_type shape = *indices;
    shape.dtype = SHOAL_I64;
    if (vector == indices->rank) return elements(m, &shape, values, sizeof *values);
    const shoal_type row = {.dtype = SHOAL_I64, .rank = 1, .dims = {n}};
    return spread(m, elements(m, &row, values, (size_t)n * sizeof *values), &shape, &vector);
}

/* x, whose axes are the last of `shape` or 1. */
static inline uint32_t spread_last(maker *m, uint32_t x, const shoal_type *shape) {
    int64_t axes[SHOAL_MAX_RANK];
    uint32_t rank = type_of(m, x)->rank;
    for (uint32_t i = 0; i < rank; i++) axes[i] = shape->rank - rank + i;
    return spread(m, x, shape, axes);
}

/* x, which is `shape` without these axes. */
static inline uint32_t spread_over(maker *m, uint32_t x, const shoal_type *shape,
                                   const int64_t *gone, uint32_t n_gone) {
    int64_t axes[SHOAL_MAX_RANK];
    for (uint32_t i = 0, n = 0; i < shape->rank; i++) {
        bool is_gone = false;
        for (uint32_t k = 0; k < n_gone; k++) is_gone = is_gone || gone[k] == i;
        if (!is_gone) axes[n++] = i;
    }
    return spread(m, x, shape, axes);
}

/* x, which is `shape` without axis `axis`. */
static inline uint32_t spread_without(maker *m, uint32_t x, const shoal_type *shape, int64_t axis) {
    return spread_over(m, x, shape, &axis, 1);
}

/* ---- sums ---- */

/* Joins axes by maximum or add. */
static inline uint32_t join_axes(maker *m, uint16_t op, uint32_t x, const int64_t *axes,
                                 uint32_t n_axes) {
    const shoal_graph *body = NULL;
    uint8_t dtype = type_of(m, x)->dtype;
    uint32_t initial = splat(m, (shoal_type){.dtype = dtype}, op == GRAPH_MAXIMUM ? -INFINITY : 0);
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, axes, n_axes);
    if (!m->status) m->status = graph_add_body(m->g, op, (shoal_dtype)dtype, &body);
    return node(m, GRAPH_REDUCE, (uint32_t[]){x, initial}, 2, &attr, 1, body);
}

static inline uint32_t join(maker *m, uint16_t op, uint32_t x, int64_t axis) {
    return join_axes(m, op, x, &axis, 1);
}

/* The same, with the result repeated along the axis. */
static inline uint32_t join_like(maker *m, uint16_t op, uint32_t x, int64_t axis) {
    shoal_type shape = *type_of(m, x);
    return spread_without(m, join(m, op, x, axis), &shape, axis);
}

/* Every step-th element along an axis, from `from` to before `to`. */
static inline uint32_t slice_along(maker *m, uint32_t x, int64_t axis, int64_t from, int64_t to,
                                   int64_t step) {
    int64_t start[SHOAL_MAX_RANK] = {0}, stride[SHOAL_MAX_RANK];
    if (m->status) return 0;
    shoal_type type = *type_of(m, x);
    for (uint32_t i = 0; i < type.rank; i++) stride[i] = 1;
    start[axis] = from;
    type.dims[axis] = to;
    stride[axis] = step;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, start, type.rank),
                                graph_ints(SHOAL_ATTR_LIMIT_INDICES, type.dims, type.rank),
                                graph_ints(SHOAL_ATTR_STRIDES, stride, type.rank)};
    return node(m, GRAPH_SLICE, &x, 1, attrs, 3, NULL);
}

/* The mean along an axis, repeated along it. */
static inline uint32_t mean(maker *m, uint32_t x, int64_t axis) {
    uint32_t sum = join_like(m, GRAPH_ADD, x, axis);
    return two(m, GRAPH_DIVIDE, sum, like(m, x, (double)type_of(m, x)->dims[axis]));
}

/* Sums of products over n axes of x and as many of y, for each index of the first axes. */
static inline uint32_t product_over(maker *m, uint32_t x, uint32_t y, uint32_t batch,
                                    const int64_t *lhs, const int64_t *rhs, uint32_t n) {
    static const int64_t first[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, first, batch),
                                graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, first, batch),
                                graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, lhs, n),
                                graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, rhs, n)};
    return node(m, GRAPH_DOT_GENERAL, (uint32_t[]){x, y}, 2, attrs, 4, NULL);
}

static inline uint32_t product(maker *m, uint32_t x, uint32_t y, uint32_t batch, int64_t lhs,
                               int64_t rhs) {
    return product_over(m, x, y, batch, &lhs, &rhs, 1);
}

#endif
