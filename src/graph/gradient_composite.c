/* Gradients of composites that are shorter than those of their decompositions. As there, float16
 * and bfloat16 are computed in float32. */
#include "graph/maker.h"
#include "graph/rules.h"

static int64_t axis_of(const graph_call *call) {
    return graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
}

static uint32_t mul(maker *m, uint32_t x, uint32_t y) { return two(m, GRAPH_MULTIPLY, x, y); }
static uint32_t sub(maker *m, uint32_t x, uint32_t y) { return two(m, GRAPH_SUBTRACT, x, y); }

static uint32_t narrow(maker *m, uint32_t x, const graph_backward *b) {
    return convert(m, x, b->call->inputs[0].dtype);
}

/* A gradient that is a composite of its own, along the same axis. */
static uint32_t row_gradient(maker *m, uint16_t op, uint32_t g, uint32_t x,
                             const graph_call *call) {
    return node(m, op, (uint32_t[]){g, x}, 2, call->attrs, call->n_attrs, NULL);
}

GRADIENT(softmax) {
    maker m = {b->g, SHOAL_OK};
    b->gradients[0] = row_gradient(&m, GRAPH_SOFTMAX_GRADIENT, b->seeds[0], b->outputs[0], b->call);
    return m.status;
}

/* g - e^y (sum of g) */
GRADIENT(log_softmax) {
    maker m = {b->g, SHOAL_OK};
    uint32_t g = widen(&m, b->seeds[0]), y = one(&m, GRAPH_EXPONENTIAL, widen(&m, b->outputs[0]));
    uint32_t moved = sub(&m, g, mul(&m, y, join_like(&m, GRAPH_ADD, g, axis_of(b->call))));
    b->gradients[0] = narrow(&m, moved, b);
    return m.status;
}

/* g (softmax(x) - 1 at the label), nothing where the label is ignored. */
GRADIENT(cross_entropy) {
    maker m = {b->g, SHOAL_OK};
    int64_t axis = axis_of(b->call);
    uint32_t x = b->inputs[0], g = widen(&m, b->seeds[0]);
    uint32_t labels = convert(&m, b->inputs[1], SHOAL_I64);
    const shoal_attr *ignored = graph_call_attr(b->call, SHOAL_ATTR_IGNORE_INDEX);
    if (ignored) {
        uint32_t is = compare(&m, "EQ", labels, like(&m, labels, (double)ignored->u.i));
        g = choose(&m, is, like(&m, g, 0), g);
    }
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    uint32_t y = widen(&m, node(&m, GRAPH_SOFTMAX, &x, 1, &attr, 1, NULL));
    if (m.status) return m.status;
    shoal_type shape = *type_of(&m, y);
    uint32_t hit =
        compare(&m, "EQ", numbers(&m, &shape, axis), spread_without(&m, labels, &shape, axis));
    y = sub(&m, y, convert(&m, hit, shape.dtype));
    b->gradients[0] = narrow(&m, mul(&m, spread_without(&m, g, &shape, axis), y), b);
    return m.status;
}

/* ---- norms ---- */

/* The sum over all axes but one, as the gradient of a scale or bias along it. */
static uint32_t along(maker *m, uint32_t x, int64_t axis, uint8_t dtype) {
    int64_t others[SHOAL_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < type_of(m, x)->rank; i++)
        if (i != axis) others[n++] = i;
    return convert(m, n ? join_axes(m, GRAPH_ADD, x, others, n) : x, dtype);
}

static shoal_status norm(const graph_backward *b, uint16_t gradient) {
    maker m = {b->g, SHOAL_OK};
    const graph_call *call = b->call;
    int64_t axis = axis_of(call);
    uint32_t g = b->seeds[0], x = b->inputs[0], h = g;
    if (call->n_inputs > 1) h = mul(&m, g, spread(&m, b->inputs[1], &call->inputs[0], &axis));
    if (b->wanted[0]) b->gradients[0] = row_gradient(&m, gradient, h, x, call);
    if (call->n_inputs > 1 && b->wanted[1]) {
        uint32_t u = node(&m, call->op, &x, 1, call->attrs, call->n_attrs, NULL);
        uint32_t products = mul(&m, widen(&m, g), widen(&m, u));
        b->gradients[1] = along(&m, products, axis, call->inputs[1].dtype);
    }
    if (call->n_inputs > 2 && b->wanted[2])
        b->gradients[2] = along(&m, widen(&m, g), axis, call->inputs[2].dtype);
    return m.status;
}

GRADIENT(rms_norm) { return norm(b, GRAPH_RMS_NORM_GRADIENT); }
GRADIENT(layer_norm) { return norm(b, GRAPH_LAYER_NORM_GRADIENT); }
