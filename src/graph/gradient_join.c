/* Gradients of what joins and orders elements along axes: reduce, cumulate, sort, top_k. */
#include "graph/maker.h"
#include "graph/rules.h"

static uint32_t sum_of_all(maker *m, uint32_t x) {
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    return join_axes(m, GRAPH_ADD, x, all, type_of(m, x)->rank);
}

/* ---- along one axis ---- */

static uint32_t reversed(maker *m, uint32_t x, int64_t axis) {
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, &axis, 1);
    return node(m, GRAPH_REVERSE, &x, 1, &attr, 1, NULL);
}

/* All elements up to each, joined by add, multiply or (of int64 from 0 on) maximum. */
static uint32_t cumulated(maker *m, uint16_t op, uint32_t x, int64_t axis) {
    const shoal_graph *body = NULL;
    shoal_type scalar = {.dtype = type_of(m, x)->dtype};
    uint32_t initial = splat(m, scalar, op == GRAPH_ADD ? 0 : op == GRAPH_MULTIPLY ? 1 : -1);
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    if (!m->status) m->status = graph_add_body(m->g, op, (shoal_dtype)scalar.dtype, &body);
    return node(m, GRAPH_CUMULATE, (uint32_t[]){x, initial}, 2, &attr, 1, body);
}

/* Elements `by` places further on along the axis, where `other` moves in; below 0: further back. */
static uint32_t moved(maker *m, uint32_t x, int64_t axis, int64_t by, uint32_t other) {
    int64_t low[SHOAL_MAX_RANK] = {0}, high[SHOAL_MAX_RANK] = {0}, between[SHOAL_MAX_RANK] = {0};
    if (m->status) return 0;
    uint32_t rank = type_of(m, x)->rank;
    low[axis] = by;
    high[axis] = -by;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_EDGE_PADDING_LOW, low, rank),
                                graph_ints(SHOAL_ATTR_EDGE_PADDING_HIGH, high, rank),
                                graph_ints(SHOAL_ATTR_INTERIOR_PADDING, between, rank)};
    return node(m, GRAPH_PAD, (uint32_t[]){x, other}, 2, attrs, 3, NULL);
}

/* The product of all elements before each: 1 for the first. */
static uint32_t product_before(maker *m, uint32_t x, int64_t axis) {
    uint32_t one_ = splat(m, (shoal_type){.dtype = type_of(m, x)->dtype}, 1);
    return moved(m, cumulated(m, GRAPH_MULTIPLY, x, axis), axis, 1, one_);
}

/* The product of all other elements: no division, so that zeros do no harm. */
static uint32_t product_of_others(maker *m, uint32_t x, int64_t axis) {
    uint32_t before = product_before(m, x, axis);
    uint32_t after = reversed(m, product_before(m, reversed(m, x, axis), axis), axis);
    return mul(m, before, after);
}

/* ---- reduce ---- */

static void reduce_product(maker *m, const graph_backward *b, const int64_t *axes, uint32_t n) {
    uint32_t x = b->inputs[0], initial = b->inputs[1], g = b->seeds[0];
    const shoal_type *shape = &b->call->inputs[0];
    if (b->wanted[0]) {
        uint32_t others = spread(m, initial, shape, NULL);
        if (n) { /* else each element is alone, and there may be no room for an axis of one */
            uint32_t rows = graph_gather_axes(m, x, axes, n, false, shape), made = rows;
            if (!m->status) made = product_of_others(m, rows, type_of(m, rows)->rank - 1);
            others = mul(m, graph_gather_axes(m, made, axes, n, true, shape), others);
        }
        b->gradients[0] = mul(m, spread_over(m, g, shape, axes, n), others);
    }
    if (b->wanted[1]) {
        uint32_t from_one = splat(m, b->call->inputs[1], 1);
        uint32_t whole = node(m, GRAPH_REDUCE, (uint32_t[]){x, from_one}, 2, b->call->attrs,
                              b->call->n_attrs, b->call->regions[0]);
        b->gradients[1] = sum_of_all(m, mul(m, g, whole));
    }
}

/* The sum of those gradients whose results are the initial value. */
static uint32_t sum_of_initial(maker *m, const graph_backward *b, uint32_t g) {
    uint32_t y = b->outputs[0], initial = spread(m, b->inputs[1], type_of(m, y), NULL);
    return sum_of_all(m, choose(m, compare(m, "EQ", y, initial), g, like(m, g, 0)));
}

/* Equal elements that are the largest share the gradient, and leave nothing to an initial value
 * that equals them: how often that takes part is open. Where it is larger still, none is, and all
 * is its own; dividing by nothing would reach second gradients. */
static void reduce_extreme(maker *m, const graph_backward *b, const int64_t *axes, uint32_t n) {
    const shoal_type *shape = &b->call->inputs[0];
    uint32_t x = b->inputs[0];
    uint32_t hit = compare(m, "EQ", x, spread_over(m, b->outputs[0], shape, axes, n));
    uint32_t count = join_axes(m, GRAPH_ADD, convert(m, hit, shape->dtype), axes, n);
    uint32_t g = b->seeds[0];
    if (m->status) return;
    if (b->wanted[0]) {
        uint32_t share = two(m, GRAPH_DIVIDE, g, two(m, GRAPH_MAXIMUM, count, like(m, count, 1)));
        b->gradients[0] = choose(m, hit, spread_over(m, share, shape, axes, n), like(m, x, 0));
    }
    if (b->wanted[1]) {
        uint32_t any = compare(m, "GT", count, like(m, count, 0));
        b->gradients[1] = sum_of_initial(m, b, choose(m, any, like(m, g, 0), g));
    }
}

GRADIENT(reduce) {
    maker m = {b->g, SHOAL_OK};
    const graph_call *call = b->call;
    uint32_t n;
    const int64_t *axes = graph_call_ints(call, SHOAL_ATTR_DIMENSIONS, &n);
    uint16_t op = call->n_inputs == 2 ? graph_body_op(call->regions[0]) : UINT16_MAX;
    if (op == GRAPH_ADD) {
        if (b->wanted[0]) b->gradients[0] = spread_over(&m, b->seeds[0], &call->inputs[0], axes, n);
        if (b->wanted[1]) b->gradients[1] = sum_of_all(&m, b->seeds[0]);
    } else if (op == GRAPH_MULTIPLY) {
        reduce_product(&m, b, axes, n);
    } else if (op == GRAPH_MAXIMUM || op == GRAPH_MINIMUM) {
        reduce_extreme(&m, b, axes, n);
    } else {
        return graph_gradient_of_reduction(b, axes, n);
    }
    return m.status;
}

/* ---- cumulate ---- */

/* With S[i] = sum over k >= i of g[k] x[i+1] ... x[k], the gradient of x[i] is S[i] times what
 * stands before it. The products are those of a matrix, for which division by zeros is no danger.
 */
static uint32_t cumulate_product(maker *m, const graph_backward *b, int64_t axis) {
    uint32_t x = b->inputs[0];
    shoal_type shape = b->call->inputs[0], square = shape;
    if (shape.rank == SHOAL_MAX_RANK) {
        m->status = base_fail(SHOAL_UNSUPPORTED, "of products there is one up to rank %d",
                              SHOAL_MAX_RANK - 1);
        return 0;
    }
    int64_t last = shape.rank, order[SHOAL_MAX_RANK];
    square.dims[square.rank++] = shape.dims[axis]; /* i; k is along `axis` */
    uint32_t k = numbers(m, &square, axis), i = numbers(m, &square, last);
    uint32_t ones = splat(m, square, 1), zeros = splat(m, square, 0);
    uint32_t after = choose(m, compare(m, "GT", k, i), spread_without(m, x, &square, last), ones);
    uint32_t products = cumulated(m, GRAPH_MULTIPLY, after, axis);
    products = choose(m, compare(m, "GE", k, i), products, zeros);
    uint32_t terms = mul(m, spread_without(m, b->seeds[0], &square, last), products);
    uint32_t sums = join(m, GRAPH_ADD, terms, axis); /* i is the last axis: back to its place */
    for (int64_t a = 0, from = 0; a < shape.rank; a++) order[a] = a == axis ? last - 1 : from++;
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, order, shape.rank);
    sums = node(m, GRAPH_TRANSPOSE, &sums, 1, &attr, 1, NULL);
    uint32_t initial = spread(m, b->inputs[1], &shape, NULL);
    return mul(m, mul(m, product_before(m, x, axis), initial), sums);
}

/* To where the latest element lies that is the largest up to here; to the initial value where none
 * of them is as large. */
static void cumulate_extreme(maker *m, const graph_backward *b, int64_t axis) {
    uint32_t x = b->inputs[0], g = b->seeds[0], zero = like(m, g, 0);
    uint32_t at = numbers(m, &b->call->inputs[0], axis), none = like(m, at, -1);
    at = choose(m, compare(m, "EQ", x, b->outputs[0]), at, none);
    at = cumulated(m, GRAPH_MAXIMUM, at, axis);
    uint32_t valid = compare(m, "GE", at, like(m, at, 0));
    if (b->wanted[0])
        b->gradients[0] = graph_add_along(m, zero, choose(m, valid, at, like(m, at, 0)),
                                          choose(m, valid, g, zero), axis);
    if (b->wanted[1]) b->gradients[1] = sum_of_initial(m, b, choose(m, valid, zero, g));
}

/* The slopes of a body of two numbers, in a graph of its own. */
static shoal_status slopes_of(const shoal_graph *body, graph *to) {
    uint32_t gradients[2];
    SHOAL_TRY(
        graph_extract(body, body->inputs, body->n_inputs, body->outputs, body->n_outputs, to));
    maker m = {to, SHOAL_OK};
    uint32_t output = graph_data(to)->outputs[0], inputs[2];
    memcpy(inputs, graph_data(to)->inputs, sizeof inputs);
    const shoal_type scalar = *type_of(&m, output);
    uint32_t seed = splat(&m, scalar, 1);
    SHOAL_TRY(m.status);
    SHOAL_TRY(graph_differentiate(to, &output, &seed, 1, inputs, 2, NULL, gradients));
    graph_clear_outputs(to);
    for (int i = 0; i < 2; i++) {
        if (gradients[i] == GRAPH_NO_VALUE) gradients[i] = splat(&m, scalar, 0);
        SHOAL_TRY(m.status);
        SHOAL_TRY(graph_add_output(to, gradients[i]));
    }
    return SHOAL_OK;
}

/* A graph of two numbers, for each element of two tensors: a batch for each axis, the last one
 * first. */
static shoal_status for_each(const shoal_graph *from, const shoal_type *shape, uint32_t axis,
                             graph *g, const uint32_t *inputs, uint32_t *outputs) {
    static const bool each[2] = {true, true};
    graph *inner = NULL;
    uint32_t in[2], out[2];
    if (axis + 1 == shape->rank)
        return graph_batch_graph(from, g, shape->dims[axis], inputs, each, outputs);
    SHOAL_TRY(graph_new(0, &inner));
    shoal_type rest = {.dtype = shape->dtype, .rank = (uint8_t)(shape->rank - axis - 1)};
    memcpy(rest.dims, shape->dims + axis + 1, rest.rank * sizeof *rest.dims);
    shoal_status status = SHOAL_OK;
    for (int i = 0; i < 2 && !status; i++) status = graph_add_input(inner, &rest, &in[i]);
    if (!status) status = for_each(from, shape, axis + 1, inner, in, out);
    for (int i = 0; i < 2 && !status; i++) status = graph_add_output(inner, out[i]);
    if (!status)
        status = graph_batch_graph(graph_data(inner), g, shape->dims[axis], inputs, each, outputs);
    graph_destroy(&inner);
    return status;
}

static void slopes_at(maker *m, const shoal_graph *body, const uint32_t *inputs, uint32_t *slopes) {
    graph *of_one = NULL;
    if (m->status) return;
    const shoal_type shape = *type_of(m, inputs[0]);
    m->status = graph_new(0, &of_one);
    if (!m->status) m->status = slopes_of(body, of_one);
    if (!m->status) m->status = for_each(graph_data(of_one), &shape, 0, m->g, inputs, slopes);
    graph_destroy(&of_one);
}

/* Any body f of y[k] = f(y[k - 1], x[k]): what reaches y[k] is its own gradient, and what reaches
 * y[k + 1] times the slope there. Of these the parts of two, four, ... in a row are summed up. */
static void cumulate_any(maker *m, const graph_backward *b, int64_t axis) {
    const shoal_type *shape = &b->call->inputs[0];
    uint32_t slopes[2], sums = b->seeds[0], inputs[2] = {0, b->inputs[0]};
    uint32_t zero = splat(m, (shoal_type){.dtype = shape->dtype}, 0);
    if (!base_type_count(shape)) {
        for (int i = 0; i < 2; i++)
            if (b->wanted[i]) b->gradients[i] = splat(m, b->call->inputs[i], 0);
        return;
    }
    inputs[0] = moved(m, b->outputs[0], axis, 1, b->inputs[1]);
    slopes_at(m, b->call->regions[0], inputs, slopes);
    if (m->status) return;
    uint32_t factors = moved(m, slopes[0], axis, -1, zero);
    for (int64_t n = 1; n < shape->dims[axis]; n *= 2) {
        sums = add(m, sums, mul(m, factors, moved(m, sums, axis, -n, zero)));
        factors = mul(m, factors, moved(m, factors, axis, -n, zero));
    }
    if (b->wanted[0]) b->gradients[0] = mul(m, sums, slopes[1]);
    if (!b->wanted[1]) return;
    uint32_t places = numbers(m, shape, axis);
    if (m->status) return;
    uint32_t is_first = compare(m, "EQ", places, like(m, places, 0));
    b->gradients[1] = sum_of_all(m, choose(m, is_first, mul(m, sums, slopes[0]), like(m, sums, 0)));
}

GRADIENT(cumulate) {
    maker m = {b->g, SHOAL_OK};
    int64_t axis = graph_call_attr(b->call, SHOAL_ATTR_DIMENSION)->u.i;
    uint16_t op = graph_body_op(b->call->regions[0]);
    uint32_t g = b->seeds[0];
    if (op == GRAPH_ADD) {
        if (b->wanted[0])
            b->gradients[0] =
                reversed(&m, cumulated(&m, GRAPH_ADD, reversed(&m, g, axis), axis), axis);
        if (b->wanted[1]) b->gradients[1] = sum_of_all(&m, g);
    } else if (op == GRAPH_MULTIPLY) {
        if (b->wanted[0]) b->gradients[0] = cumulate_product(&m, b, axis);
        if (b->wanted[1])
            b->gradients[1] =
                sum_of_all(&m, mul(&m, g, cumulated(&m, GRAPH_MULTIPLY, b->inputs[0], axis)));
    } else if (op == GRAPH_MAXIMUM || op == GRAPH_MINIMUM) {
        cumulate_extreme(&m, b, axis);
    } else {
        cumulate_any(&m, b, axis);
    }
    return m.status;
}

/* ---- order ---- */

/* The comparator with one operand more, at which it does not look. */
static shoal_status wider_body(graph *g, const shoal_graph *body, const shoal_graph **out) {
    graph *region;
    uint32_t unused;
    const shoal_type number = {.dtype = SHOAL_I64};
    SHOAL_TRY(graph_add_region(g, &region));
    SHOAL_TRY(
        graph_extract(body, body->inputs, body->n_inputs, body->outputs, body->n_outputs, region));
    SHOAL_TRY(graph_add_input(region, &number, &unused));
    SHOAL_TRY(graph_add_input(region, &number, &unused));
    *out = graph_data(region);
    return SHOAL_OK;
}

/* Sorted once more, with numbers beside the operands: these are where each element came from. */
GRADIENT(sort) {
    maker m = {b->g, SHOAL_OK};
    const graph_call *call = b->call;
    int64_t axis = graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
    uint32_t n = call->n_inputs, inputs[GRAPH_MAX_OUTPUTS];
    if (n >= GRAPH_MAX_OUTPUTS)
        return base_fail(SHOAL_UNSUPPORTED, "of %u operands; there is one for less than %d", n,
                         GRAPH_MAX_OUTPUTS);
    const shoal_graph *body;
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, axis),
                                graph_bool(SHOAL_ATTR_IS_STABLE, 1)};
    SHOAL_TRY(wider_body(b->g, call->regions[0], &body));
    memcpy(inputs, b->inputs, n * sizeof *inputs);
    inputs[n] = numbers(&m, &call->inputs[0], axis);
    uint32_t from = node(&m, GRAPH_SORT, inputs, n + 1, attrs, 2, body) + n;
    for (uint32_t i = 0; i < n && !m.status; i++)
        if (b->wanted[i] && b->seeds[i] != GRAPH_NO_VALUE)
            b->gradients[i] =
                graph_add_along(&m, like(&m, b->seeds[i], 0), from, b->seeds[i], axis);
    return m.status;
}

GRADIENT(top_k) {
    maker m = {b->g, SHOAL_OK};
    const shoal_type *in = &b->call->inputs[0];
    b->gradients[0] =
        graph_add_along(&m, splat(&m, *in, 0), b->outputs[1], b->seeds[0], in->rank - 1);
    return m.status;
}
