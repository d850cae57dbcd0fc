/* Examples of composites and of their gradients, for gradient_test.c. */
#include "backend/gradient_testing.h"

#define EPSILON graph_float(SHOAL_ATTR_EPSILON, 1e-2)
IS(gelu, ADD(GELU, X, STRING(APPROXIMATE, "none")))
IS(gelu_tanh, ADD(GELU, X, STRING(APPROXIMATE, "tanh")))
IS(softmax, ADD(SOFTMAX, X, AXIS(1)))
IS(log_softmax, ADD(LOG_SOFTMAX, X, AXIS(0)))
IS(rms_norm, ADD(RMS_NORM, XY, AXIS(1), EPSILON))
IS(rms_norm_alone, ADD(RMS_NORM, X, AXIS(0), EPSILON))
IS(layer_norm, ADD(LAYER_NORM, XYZ, AXIS(1), EPSILON))
IS(layer_norm_alone, ADD(LAYER_NORM, X, AXIS(0), EPSILON))
IS(cross_entropy, ADD(CROSS_ENTROPY, VALUES(in[0], INDICES(T(I64, 3), 1, -7, 0)), AXIS(1),
                      graph_int(SHOAL_ATTR_IGNORE_INDEX, -7)))
IS(attention, test_add(g, GRAPH_ATTENTION, XYZ, NULL, 0))
IS(attention_causal,
   ADD(ATTENTION, XYZ, graph_float(SHOAL_ATTR_SCALE, 0.7), graph_int(SHOAL_ATTR_CAUSAL, 0)))
IS(attention_masked, test_add(g, GRAPH_ATTENTION,
                              VALUES(in[0], in[1], in[2], in[3], INDICES(SCALAR(I64), 3)), NULL, 0))
/* An operand that is given more than once. */
IS(attention_self, test_add(g, GRAPH_ATTENTION, VALUES(in[0], in[0], in[0]), NULL, 0))
IS(softmax_gradient, ADD(SOFTMAX_GRADIENT, XY, AXIS(1)))
IS(rms_norm_gradient, ADD(RMS_NORM_GRADIENT, XY, AXIS(1), EPSILON))
IS(layer_norm_gradient, ADD(LAYER_NORM_GRADIENT, XY, AXIS(0), EPSILON))
IS(layer_norm_gradient_scaled, ADD(LAYER_NORM_GRADIENT, XYZ, AXIS(1), EPSILON))
IS(rms_norm_scale_gradient, ADD(RMS_NORM_SCALE_GRADIENT, XY, AXIS(1), EPSILON))
IS(layer_norm_scale_gradient, ADD(LAYER_NORM_SCALE_GRADIENT, XY, AXIS(0), EPSILON))
IS(cross_entropy_gradient,
   ADD(CROSS_ENTROPY_GRADIENT, VALUES(in[0], in[1], INDICES(T(I64, 3), 1, -7, 0)), AXIS(1),
       graph_int(SHOAL_ATTR_IGNORE_INDEX, -7)))
/* The three results, whose last axes are alike, one after the other. */
static uint32_t joined(graph *g, uint32_t first, int64_t axis) {
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    return test_add(g, GRAPH_CONCATENATE, VALUES(first, first + 1, first + 2), &attr, 1);
}
IS(attention_gradient,
   joined(g,
          test_add(g, GRAPH_ATTENTION_GRADIENT, VALUES(in[0], in[1], in[2], in[3], in[4]), NULL, 0),
          1))
IS(attention_gradient_masked,
   joined(g,
          ADD(ATTENTION_GRADIENT,
              VALUES(in[0], in[1], in[2], in[3], in[4], in[5], INDICES(SCALAR(I64), 3)),
              graph_float(SHOAL_ATTR_SCALE, 0.7), graph_int(SHOAL_ATTR_CAUSAL, 1)),
          1))
IS(adam, joined(g, test_add(g, GRAPH_ADAM, VALUES(in[0], in[1], in[2], in[3], in[4]), NULL, 0), 0))
IS(adam_largest,
   joined(g, 1 + test_add(g, GRAPH_ADAM, VALUES(in[0], in[1], in[2], in[3], in[4], in[5]), NULL, 0),
          0))
IS(silu_gradient, test_add(g, GRAPH_SILU_GRADIENT, XY, NULL, 0))
IS(gelu_gradient, ADD(GELU_GRADIENT, XY, STRING(APPROXIMATE, "none")))
IS(gelu_tanh_gradient, ADD(GELU_GRADIENT, XY, STRING(APPROXIMATE, "tanh")))
IS(rope, ADD(ROPE, VALUES(in[0], INDICES(T(I64, 3), 0, 4, 2)), AXIS(0)))
IS(rope_pairs, ADD(ROPE, VALUES(in[0], INDICES(T(I64, 3), 0, 4, 2)), AXIS(0),
                   graph_bool(SHOAL_ATTR_INTERLEAVED, 1)))

void gradient_composites(void (*visit)(const example *e)) {
    const example list[] = {
        {"gelu", GRAPH_GELU, gelu, -3, 3, 1, {F(3, 4)}},
        {"gelu by tanh", GRAPH_GELU, gelu_tanh, -3, 3, 1, {F(3, 4)}},
        {"softmax", GRAPH_SOFTMAX, softmax, -2, 2, 1, {F(2, 4, 2)}},
        {"log_softmax", GRAPH_LOG_SOFTMAX, log_softmax, -2, 2, 1, {F(4, 2)}},
        {"rms_norm", GRAPH_RMS_NORM, rms_norm, -2, 2, 2, {F(2, 4), F(4)}},
        {"rms_norm without a scale", GRAPH_RMS_NORM, rms_norm_alone, -2, 2, 1, {F(3, 2)}},
        {"layer_norm", GRAPH_LAYER_NORM, layer_norm, -2, 2, 3, {F(2, 4), F(4), F(4)}},
        {"layer_norm without a scale", GRAPH_LAYER_NORM, layer_norm_alone, -2, 2, 1, {F(3, 2)}},
        {"cross_entropy", GRAPH_CROSS_ENTROPY, cross_entropy, -2, 2, 1, {F(3, 4)}},
        {"attention", GRAPH_ATTENTION, attention, -1, 1, 3, {F(2, 3, 2), F(2, 4, 2), F(2, 4, 3)}},
        {"attention, causal and grouped",
         GRAPH_ATTENTION,
         attention_causal,
         -1,
         1,
         3,
         {F(2, 2, 3, 2), F(2, 3, 2), F(2, 3, 2)}},
        {"attention with a mask and a length",
         GRAPH_ATTENTION,
         attention_masked,
         -1,
         1,
         4,
         {F(2, 3, 2), F(2, 4, 2), F(2, 4, 2), F(3, 4)}},
        {"attention of a tensor to itself", GRAPH_ATTENTION, attention_self, -1, 1, 1, {F(3, 2)}},
        {"softmax_gradient",
         GRAPH_SOFTMAX_GRADIENT,
         softmax_gradient,
         -1,
         1,
         2,
         {F(2, 4), F(2, 4)}},
        {"rms_norm_gradient",
         GRAPH_RMS_NORM_GRADIENT,
         rms_norm_gradient,
         -2,
         2,
         2,
         {F(2, 4), F(2, 4)}},
        {"layer_norm_gradient",
         GRAPH_LAYER_NORM_GRADIENT,
         layer_norm_gradient,
         -2,
         2,
         2,
         {F(4, 2), F(4, 2)}},
        {"layer_norm_gradient with a scale",
         GRAPH_LAYER_NORM_GRADIENT,
         layer_norm_gradient_scaled,
         -2,
         2,
         3,
         {F(2, 4), F(2, 4), F(4)}},
        {"rms_norm_scale_gradient",
         GRAPH_RMS_NORM_SCALE_GRADIENT,
         rms_norm_scale_gradient,
         -2,
         2,
         2,
         {F(3, 4), F(3, 4)}},
        {"layer_norm_scale_gradient",
         GRAPH_LAYER_NORM_SCALE_GRADIENT,
         layer_norm_scale_gradient,
         -2,
         2,
         2,
         {F(4, 3), F(4, 3)}},
        {"cross_entropy_gradient",
         GRAPH_CROSS_ENTROPY_GRADIENT,
         cross_entropy_gradient,
         -2,
         2,
         2,
         {F(3), F(3, 4)}},
        {"attention_gradient",
         GRAPH_ATTENTION_GRADIENT,
         attention_gradient,
         -1,
         1,
         5,
         {F(2, 3, 2), F(2, 3, 2), F(2, 3, 2), F(2, 4, 2), F(2, 4, 2)}},
        {"attention_gradient with a mask and a length",
         GRAPH_ATTENTION_GRADIENT,
         attention_gradient_masked,
         -1,
         1,
         6,
         {F(1, 3, 2), F(1, 3, 2), F(1, 3, 2), F(1, 4, 2), F(1, 4, 2), F(3, 4)}},
        {"adam", GRAPH_ADAM, adam, 0.5, 2, 5, {F(3), F(3), F(3), F(3), F(8)}},
        {"adam with the largest",
         GRAPH_ADAM,
         adam_largest,
         0.5,
         2,
         6,
         {F(2), F(2), F(2), F(2), F(8), F(2)}},
        {"silu_gradient", GRAPH_SILU_GRADIENT, silu_gradient, -3, 3, 2, {F(5), F(5)}},
        {"gelu_gradient", GRAPH_GELU_GRADIENT, gelu_gradient, -3, 3, 2, {F(5), F(5)}},
        {"gelu_gradient by tanh", GRAPH_GELU_GRADIENT, gelu_tanh_gradient, -3, 3, 2, {F(5), F(5)}},
        {"rope", GRAPH_ROPE, rope, -1, 1, 1, {F(3, 4)}},
        {"rope of neighbours", GRAPH_ROPE, rope_pairs, -1, 1, 1, {F(3, 2, 4)}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) visit(&list[i]);
}
