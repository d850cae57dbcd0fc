/* What the gradients of composites mean that are composites themselves, in primitives: those of
 * elementwise functions, and of what goes along the rows of an axis. As everywhere, float16 and
 * bfloat16 are computed in float32 and rounded once, at the end. */
#include "graph/maker.h"
#include "graph/rules.h"

static shoal_status finish(maker *m, uint32_t x, uint8_t dtype, uint32_t *outputs) {
    outputs[0] = convert(m, x, dtype);
    return m->status;
}

static int64_t axis_of(const graph_call *call) {
    return graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
}

/* ---- element by element ---- */

/* 1 - x */
static uint32_t rest(maker *m, uint32_t x) { return sub(m, like(m, x, 1), x); }

/* g s (1 + x (1 - s)), s being logistic(x) */
DECOMPOSE(silu_gradient) {
    maker m = {g, SHOAL_OK};
    uint32_t of = widen(&m, inputs[0]), x = widen(&m, inputs[1]), s = one(&m, GRAPH_LOGISTIC, x);
    uint32_t slope = mul(&m, s, plus(&m, mul(&m, x, rest(&m, s)), 1));
    return finish(&m, mul(&m, of, slope), call->inputs[0].dtype, outputs);
}

/* g (Phi(x) + x phi(x)), phi being the normal distribution's density; by tanh, with
 * s = logistic(2 y), y as in gelu: g (s + x s (1 - s) 2 y'). */
DECOMPOSE(gelu_gradient) {
    maker m = {g, SHOAL_OK};
    const shoal_attr *kind = graph_call_attr(call, SHOAL_ATTR_APPROXIMATE);
    uint32_t of = widen(&m, inputs[0]), x = widen(&m, inputs[1]), square = mul(&m, x, x), slope;
    if (kind && !strcmp(kind->u.string, "tanh")) {
        const double root = 1.59576912160573071176; /* 2 sqrt(2/pi) */
        uint32_t twice = times(&m, mul(&m, x, plus(&m, times(&m, square, 0.044715), 1)), root);
        uint32_t s = one(&m, GRAPH_LOGISTIC, twice);
        uint32_t rise = times(&m, plus(&m, times(&m, square, 3 * 0.044715), 1), root);
        slope = two(&m, GRAPH_ADD, s, mul(&m, mul(&m, x, rise), mul(&m, s, rest(&m, s))));
    } else {
        uint32_t erf = one(&m, GRAPH_ERF, times(&m, x, 0.70710678118654752440));
        uint32_t bell = one(&m, GRAPH_EXPONENTIAL, times(&m, square, -0.5));
        uint32_t density = times(&m, bell, 0.39894228040143267794); /* 1 / sqrt(2 pi) */
        slope = two(&m, GRAPH_ADD, times(&m, plus(&m, erf, 1), 0.5), mul(&m, x, density));
    }
    return finish(&m, mul(&m, of, slope), call->inputs[0].dtype, outputs);
}

/* ---- along one axis ---- */

/* y (g - sum of g y) */
DECOMPOSE(softmax_gradient) {
    maker m = {g, SHOAL_OK};
    uint32_t of = widen(&m, inputs[0]), y = widen(&m, inputs[1]);
    uint32_t sum = join_like(&m, GRAPH_ADD, mul(&m, of, y), axis_of(call));
    return finish(&m, mul(&m, y, sub(&m, of, sum)), call->inputs[0].dtype, outputs);
}

/* g (softmax(x) - 1 at the label); 0 where the label is ignored, whatever x is. */
DECOMPOSE(cross_entropy_gradient) {
    maker m = {g, SHOAL_OK};
    int64_t axis = axis_of(call);
    uint32_t of = widen(&m, inputs[0]), x = widen(&m, inputs[1]);
    uint32_t labels = convert(&m, inputs[2], SHOAL_I64);
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    uint32_t y = node(&m, GRAPH_SOFTMAX, &x, 1, &attr, 1, NULL);
    if (m.status) return m.status;
    shoal_type shape = *type_of(&m, y);
    labels = spread_without(&m, labels, &shape, axis);
    uint32_t hit = compare(&m, "EQ", numbers(&m, &shape, axis), labels);
    y = sub(&m, y, convert(&m, hit, shape.dtype));
    y = mul(&m, spread_without(&m, of, &shape, axis), y);
    const shoal_attr *ignored = graph_call_attr(call, SHOAL_ATTR_IGNORE_INDEX);
    if (ignored && !m.status) {
        uint32_t is = compare(&m, "EQ", labels, like(&m, labels, (double)ignored->u.i));
        y = choose(&m, is, like(&m, y, 0), y);
    }
    return finish(&m, y, call->inputs[1].dtype, outputs);
}

/* ---- norms ---- */

/* The normalised row u = (x - mean) r, the mean only where `centred`. */
typedef struct normal {
    uint32_t u, r;
} normal;

static normal normalise(maker *m, const graph_call *call, uint32_t x, bool centred) {
    int64_t axis = axis_of(call);
    double epsilon = graph_call_attr(call, SHOAL_ATTR_EPSILON)->u.f;
    if (centred) x = sub(m, x, mean(m, x, axis));
    uint32_t r = one(m, GRAPH_RSQRT, plus(m, mean(m, mul(m, x, x), axis), epsilon));
    return (normal){mul(m, x, r), r};
}

/* With h the gradient of u, that of the result times the scale: r (h - mean(h) - u mean(h u));
 * without mean(h) where no mean was taken away. */
static shoal_status norm_gradient(const graph_call *call, graph *g, const uint32_t *inputs,
                                  uint32_t *outputs, bool centred) {
    maker m = {g, SHOAL_OK};
    int64_t axis = axis_of(call);
    uint32_t h = widen(&m, inputs[0]);
    normal row = normalise(&m, call, widen(&m, inputs[1]), centred);
    if (m.status) return m.status;
    shoal_type shape = *type_of(&m, row.u);
    if (call->n_inputs > 2) h = mul(&m, h, spread(&m, widen(&m, inputs[2]), &shape, &axis));
    uint32_t moved = sub(&m, h, mul(&m, row.u, mean(&m, mul(&m, h, row.u), axis)));
    if (centred) moved = sub(&m, moved, mean(&m, h, axis));
    return finish(&m, mul(&m, moved, row.r), call->inputs[0].dtype, outputs);
}

DECOMPOSE(rms_norm_gradient) { return norm_gradient(call, g, inputs, outputs, false); }
DECOMPOSE(layer_norm_gradient) { return norm_gradient(call, g, inputs, outputs, true); }

/* The sum of g u over all other axes. */
static shoal_status scale_gradient(const graph_call *call, graph *g, const uint32_t *inputs,
                                   uint32_t *outputs, bool centred) {
    maker m = {g, SHOAL_OK};
    int64_t axis = axis_of(call), others[SHOAL_MAX_RANK];
    uint32_t n = 0, of = widen(&m, inputs[0]);
    for (uint32_t i = 0; i < call->inputs[0].rank; i++)
        if (i != axis) others[n++] = i;
    uint32_t sum = mul(&m, of, normalise(&m, call, widen(&m, inputs[1]), centred).u);
    if (n) sum = join_axes(&m, GRAPH_ADD, sum, others, n);
    return finish(&m, sum, call->inputs[0].dtype, outputs);
}

DECOMPOSE(rms_norm_scale_gradient) { return scale_gradient(call, g, inputs, outputs, false); }
DECOMPOSE(layer_norm_scale_gradient) { return scale_gradient(call, g, inputs, outputs, true); }
