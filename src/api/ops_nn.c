/* The composites. */
#include "api/ops.h"

shoal_status shoal_gelu(shoal_tensor *x, bool tanh, shoal_tensor **out) {
    shoal_attr attr = graph_string(SHOAL_ATTR_APPROXIMATE, tanh ? "tanh" : "none");
    return api_apply1(GRAPH_GELU, x, &attr, 1, out);
}

/* An operation along one axis, with further operands up to the first that is NULL. */
static shoal_status along(uint16_t op, shoal_tensor *const *operands, uint32_t n, int64_t axis,
                          const shoal_attr *more, uint16_t n_more, shoal_tensor **out) {
    *out = NULL;
    SHOAL_TRY(api_find_axis(shoal_op_name(op), &operands[0]->type, axis, &axis));
    shoal_attr attrs[4] = {graph_int(SHOAL_ATTR_DIMENSION, axis)};
    for (uint16_t i = 0; i < n_more; i++) attrs[1 + i] = more[i];
    uint32_t given = 0;
    while (given < n && operands[given]) given++;
    for (uint32_t i = given; i < n; i++)
        if (operands[i])
            return base_fail(SHOAL_INVALID, "%s: operand %u needs operand %u", shoal_op_name(op), i,
                             given);
    return shoal_apply(operands[0]->session, op, operands, given, attrs, (uint16_t)(1 + n_more),
                       NULL, 0, out, 1);
}

shoal_status shoal_softmax(shoal_tensor *x, int64_t axis, shoal_tensor **out) {
    return along(GRAPH_SOFTMAX, &x, 1, axis, NULL, 0, out);
}

shoal_status shoal_log_softmax(shoal_tensor *x, int64_t axis, shoal_tensor **out) {
    return along(GRAPH_LOG_SOFTMAX, &x, 1, axis, NULL, 0, out);
}

shoal_status shoal_rms_norm(shoal_tensor *x, shoal_tensor *scale, int64_t axis, double epsilon,
                            shoal_tensor **out) {
    shoal_attr attr = graph_float(SHOAL_ATTR_EPSILON, epsilon);
    return along(GRAPH_RMS_NORM, (shoal_tensor *[]){x, scale}, 2, axis, &attr, 1, out);
}

shoal_status shoal_layer_norm(shoal_tensor *x, shoal_tensor *scale, shoal_tensor *bias,
                              int64_t axis, double epsilon, shoal_tensor **out) {
    shoal_attr attr = graph_float(SHOAL_ATTR_EPSILON, epsilon);
    return along(GRAPH_LAYER_NORM, (shoal_tensor *[]){x, scale, bias}, 3, axis, &attr, 1, out);
}

shoal_status shoal_cross_entropy(shoal_tensor *logits, shoal_tensor *labels, int64_t axis,
                                 const int64_t *ignored, shoal_tensor **out) {
    shoal_attr attr = graph_int(SHOAL_ATTR_IGNORE_INDEX, ignored ? *ignored : 0);
    return along(GRAPH_CROSS_ENTROPY, (shoal_tensor *[]){logits, labels}, 2, axis, &attr,
                 ignored ? 1 : 0, out);
}

shoal_status shoal_attention(shoal_tensor *q, shoal_tensor *k, shoal_tensor *v,
                             const shoal_attention_options *options, shoal_tensor **out) {
    shoal_tensor *operands[5] = {q, k, v};
    shoal_attr attrs[2];
    uint32_t n = 3;
    uint16_t n_attrs = 0;
    *out = NULL;
    if (options && options->mask) operands[n++] = options->mask;
    if (options && options->length) operands[n++] = options->length;
    if (options && options->causal) attrs[n_attrs++] = graph_int(SHOAL_ATTR_CAUSAL, 0);
    if (options && options->scale != 0)
        attrs[n_attrs++] = graph_float(SHOAL_ATTR_SCALE, options->scale);
    return shoal_apply(q->session, GRAPH_ATTENTION, operands, n, attrs, n_attrs, NULL, 0, out, 1);
}

shoal_status shoal_rope(shoal_tensor *x, shoal_tensor *positions, shoal_tensor *frequencies,
                        int64_t axis, double theta, bool interleaved, shoal_tensor **out) {
    const shoal_attr attrs[] = {graph_float(SHOAL_ATTR_THETA, theta > 0 ? theta : 10000),
                                graph_bool(SHOAL_ATTR_INTERLEAVED, interleaved)};
    return along(GRAPH_ROPE, (shoal_tensor *[]){x, positions, frequencies}, 3, axis, attrs, 2, out);
}

shoal_status shoal_dequantize(shoal_tensor *bytes, const char *format, shoal_dtype dtype,
                              shoal_tensor **out) {
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DTYPE, dtype),
                                graph_string(SHOAL_ATTR_FORMAT, format)};
    return api_apply1(GRAPH_DEQUANTIZE, bytes, attrs, 2, out);
}

shoal_status shoal_convolve(shoal_tensor *x, shoal_tensor *kernels, const int64_t *strides,
                            const int64_t *padding, const int64_t *dilation, int64_t groups,
                            shoal_tensor **out) {
    *out = NULL;
    char text[BASE_TYPE_TEXT];
    uint32_t rank = x->type.rank, n = rank - 2u;
    int64_t ones[SHOAL_MAX_RANK], none[2 * SHOAL_MAX_RANK] = {0}, axes[3 * SHOAL_MAX_RANK];
    if (rank < 2 || kernels->type.rank != rank)
        return base_fail(
            SHOAL_INVALID,
            "convolve: %s and kernels of rank %u; both have as many axes, two at least",
            base_type_text(&x->type, text), kernels->type.rank);
    /* Batch, features, space; of the kernels input features, output features, space. */
    for (uint32_t i = 0; i < rank; i++) {
        ones[i] = 1;
        axes[i] = axes[rank + i] = axes[2 * rank + i] = i;
    }
    axes[rank] = 1;
    axes[rank + 1] = 0;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_WINDOW_STRIDES, strides ? strides : ones, n),
                                graph_ints(SHOAL_ATTR_PADDING, padding ? padding : none, 2 * n),
                                graph_ints(SHOAL_ATTR_LHS_DILATION, ones, n),
                                graph_ints(SHOAL_ATTR_RHS_DILATION, dilation ? dilation : ones, n),
                                graph_ints(SHOAL_ATTR_WINDOW_REVERSAL, none, n),
                                graph_ints(SHOAL_ATTR_CONVOLUTION_DIMENSIONS, axes, 3 * rank),
                                graph_int(SHOAL_ATTR_FEATURE_GROUP_COUNT, groups),
                                graph_int(SHOAL_ATTR_BATCH_GROUP_COUNT, 1)};
    shoal_tensor *operands[2] = {x, kernels};
    return shoal_apply(x->session, GRAPH_CONVOLUTION, operands, 2, attrs, 8, NULL, 0, out, 1);
}
