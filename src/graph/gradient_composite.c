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

/* y (g - sum of g y) */
GRADIENT(softmax) {
    maker m = {b->g, SHOAL_OK};
    uint32_t g = widen(&m, b->seeds[0]), y = widen(&m, b->outputs[0]);
    uint32_t moved = sub(&m, g, join_like(&m, GRAPH_ADD, mul(&m, g, y), axis_of(b->call)));
    b->gradients[0] = narrow(&m, mul(&m, y, moved), b);
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
