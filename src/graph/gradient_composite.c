/* Gradients of composites that are shorter than those of their decompositions. As there, float16
 * and bfloat16 are computed in float32. */
#include "graph/maker.h"
#include "graph/rules.h"

static int64_t axis_of(const graph_call *call) {
    return graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
}

static uint32_t narrow(maker *m, uint32_t x, const graph_backward *b) {
    return convert(m, x, b->call->inputs[0].dtype);
}

/* A gradient that is a composite of its own, with the same attributes. */
static uint32_t gradient_node(maker *m, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
                              const graph_call *call) {
    return node(m, op, inputs, n_inputs, call->attrs, call->n_attrs, NULL);
}

/* One of the gradient and an operand or result. */
static shoal_status gradient_of_two(const graph_backward *b, uint16_t op, uint32_t x) {
    maker m = {b->g, SHOAL_OK};
    b->gradients[0] = gradient_node(&m, op, (uint32_t[]){b->seeds[0], x}, 2, b->call);
    return m.status;
}

GRADIENT(silu) { return gradient_of_two(b, GRAPH_SILU_GRADIENT, b->inputs[0]); }
GRADIENT(gelu) { return gradient_of_two(b, GRAPH_GELU_GRADIENT, b->inputs[0]); }
GRADIENT(softmax) { return gradient_of_two(b, GRAPH_SOFTMAX_GRADIENT, b->outputs[0]); }

/* g - e^y (sum of g) */
GRADIENT(log_softmax) {
    maker m = {b->g, SHOAL_OK};
    uint32_t g = widen(&m, b->seeds[0]), y = one(&m, GRAPH_EXPONENTIAL, widen(&m, b->outputs[0]));
    uint32_t moved = sub(&m, g, mul(&m, y, join_like(&m, GRAPH_ADD, g, axis_of(b->call))));
    b->gradients[0] = narrow(&m, moved, b);
    return m.status;
}

GRADIENT(cross_entropy) {
    maker m = {b->g, SHOAL_OK};
    const uint32_t inputs[] = {b->seeds[0], b->inputs[0], b->inputs[1]};
    b->gradients[0] = gradient_node(&m, GRAPH_CROSS_ENTROPY_GRADIENT, inputs, 3, b->call);
    return m.status;
}

/* A mask that is added and whose gradient is wanted takes the long way. */
GRADIENT(attention) {
    maker m = {b->g, SHOAL_OK};
    const graph_call *call = b->call;
    uint32_t inputs[GRAPH_MAX_COMPOSITE_INPUTS] = {b->seeds[0], b->outputs[0]};
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        if (i > 2 && b->wanted[i] && graph_kind(&call->inputs[i]) == 'f')
            return graph_gradient_composite(b);
        inputs[2 + i] = b->inputs[i];
    }
    uint32_t first = gradient_node(&m, GRAPH_ATTENTION_GRADIENT, inputs, 2 + call->n_inputs, call);
    for (uint32_t i = 0; i < 3; i++)
        if (b->wanted[i]) b->gradients[i] = first + i;
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

static shoal_status norm(const graph_backward *b, uint16_t gradient, uint16_t scale_gradient) {
    maker m = {b->g, SHOAL_OK};
    const graph_call *call = b->call;
    const uint32_t inputs[] = {b->seeds[0], b->inputs[0], call->n_inputs > 1 ? b->inputs[1] : 0};
    if (b->wanted[0])
        b->gradients[0] = gradient_node(&m, gradient, inputs, call->n_inputs > 1 ? 3 : 2, call);
    if (call->n_inputs > 1 && b->wanted[1])
        b->gradients[1] = gradient_node(&m, scale_gradient, inputs, 2, call);
    if (call->n_inputs > 2 && b->wanted[2])
        b->gradients[2] = along(&m, widen(&m, inputs[0]), axis_of(call), call->inputs[2].dtype);
    return m.status;
}

GRADIENT(rms_norm) { return norm(b, GRAPH_RMS_NORM_GRADIENT, GRAPH_RMS_NORM_SCALE_GRADIENT); }
GRADIENT(layer_norm) { return norm(b, GRAPH_LAYER_NORM_GRADIENT, GRAPH_LAYER_NORM_SCALE_GRADIENT); }
