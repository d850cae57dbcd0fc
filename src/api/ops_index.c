/* Operations that pick elements by numbers, and random numbers. */
#include "api/ops.h"

#include <string.h>

shoal_status shoal_clamp(shoal_tensor *x, shoal_tensor *least, shoal_tensor *most,
                         shoal_tensor **out) {
    *out = NULL;
    shoal_tensor *operands[3] = {NULL, x, NULL}, *const bounds[3] = {least, NULL, most};
    shoal_status status = SHOAL_OK;
    for (int i = 0; i < 3 && status == SHOAL_OK; i += 2)
        status = bounds[i]->type.rank ? api_stretch(bounds[i], &x->type, &operands[i])
                                      : (operands[i] = shoal_tensor_retain(bounds[i]), SHOAL_OK);
    if (status == SHOAL_OK)
        status = shoal_apply(x->session, GRAPH_CLAMP, operands, 3, NULL, 0, NULL, 0, out, 1);
    shoal_tensor_free(&operands[0]);
    shoal_tensor_free(&operands[2]);
    return status;
}

shoal_status shoal_bitcast(shoal_tensor *x, shoal_dtype dtype, shoal_tensor **out) {
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, (int64_t)dtype);
    return api_apply1(GRAPH_BITCAST_CONVERT, x, &attr, 1, out);
}

shoal_status shoal_reduce_precision(shoal_tensor *x, int exponent_bits, int mantissa_bits,
                                    shoal_tensor **out) {
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_EXPONENT_BITS, exponent_bits),
                                graph_int(SHOAL_ATTR_MANTISSA_BITS, mantissa_bits)};
    return api_apply1(GRAPH_REDUCE_PRECISION, x, attrs, 2, out);
}

shoal_status shoal_pad(shoal_tensor *x, shoal_tensor *value, const int64_t *low,
                       const int64_t *high, const int64_t *interior, shoal_tensor **out) {
    *out = NULL;
    static const int64_t none[SHOAL_MAX_RANK];
    const shoal_attr attrs[] = {
        graph_ints(SHOAL_ATTR_EDGE_PADDING_LOW, low, x->type.rank),
        graph_ints(SHOAL_ATTR_EDGE_PADDING_HIGH, high, x->type.rank),
        graph_ints(SHOAL_ATTR_INTERIOR_PADDING, interior ? interior : none, x->type.rank)};
    shoal_tensor *operands[2] = {x, value};
    return shoal_apply(x->session, GRAPH_PAD, operands, 2, attrs, 3, NULL, 0, out, 1);
}

shoal_status shoal_reverse(shoal_tensor *x, const int64_t *axes, uint32_t n_axes,
                           shoal_tensor **out) {
    *out = NULL;
    int64_t list[SHOAL_MAX_RANK];
    if (n_axes > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "reverse: %u axes; there are at most %d", n_axes,
                         SHOAL_MAX_RANK);
    for (uint32_t i = 0; i < n_axes; i++)
        SHOAL_TRY(api_find_axis("reverse", &x->type, axes[i], &list[i]));
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, list, n_axes);
    return api_apply1(GRAPH_REVERSE, x, &attr, 1, out);
}

shoal_status shoal_dynamic_slice(shoal_tensor *x, shoal_tensor *const *starts, const int64_t *sizes,
                                 shoal_tensor **out) {
    *out = NULL;
    shoal_tensor *operands[1 + SHOAL_MAX_RANK] = {x};
    for (uint32_t i = 0; i < x->type.rank; i++) operands[1 + i] = starts[i];
    shoal_attr attr = graph_ints(SHOAL_ATTR_SLICE_SIZES, sizes, x->type.rank);
    return shoal_apply(x->session, GRAPH_DYNAMIC_SLICE, operands, 1u + x->type.rank, &attr, 1, NULL,
                       0, out, 1);
}

shoal_status shoal_dynamic_update_slice(shoal_tensor *x, shoal_tensor *update,
                                        shoal_tensor *const *starts, shoal_tensor **out) {
    *out = NULL;
    shoal_tensor *operands[2 + SHOAL_MAX_RANK] = {x, update};
    for (uint32_t i = 0; i < x->type.rank; i++) operands[2 + i] = starts[i];
    return shoal_apply(x->session, GRAPH_DYNAMIC_UPDATE_SLICE, operands, 2u + x->type.rank, NULL, 0,
                       NULL, 0, out, 1);
}

shoal_status shoal_take(shoal_tensor *x, shoal_tensor *indices, int64_t axis, shoal_tensor **out) {
    *out = NULL;
    SHOAL_TRY(api_find_axis("take", &x->type, axis, &axis));
    int64_t offset[SHOAL_MAX_RANK], sizes[SHOAL_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->type.rank; i++) {
        sizes[i] = i == axis ? 1 : x->type.dims[i];
        if (i != axis) offset[n++] = i < axis ? i : (int64_t)i + indices->type.rank - 1;
    }
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_OFFSET_DIMS, offset, n),
                                graph_ints(SHOAL_ATTR_COLLAPSED_SLICE_DIMS, &axis, 1),
                                graph_ints(SHOAL_ATTR_OPERAND_BATCHING_DIMS, NULL, 0),
                                graph_ints(SHOAL_ATTR_START_INDICES_BATCHING_DIMS, NULL, 0),
                                graph_ints(SHOAL_ATTR_START_INDEX_MAP, &axis, 1),
                                graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, indices->type.rank),
                                graph_ints(SHOAL_ATTR_SLICE_SIZES, sizes, x->type.rank)};
    shoal_tensor *operands[2] = {x, indices};
    return shoal_apply(x->session, GRAPH_GATHER, operands, 2, attrs, 7, NULL, 0, out, 1);
}

shoal_status shoal_top_k(shoal_tensor *x, int64_t k, shoal_tensor **values,
                         shoal_tensor **indices) {
    shoal_tensor *results[2] = {NULL, NULL};
    shoal_attr attr = graph_int(SHOAL_ATTR_K, k);
    shoal_status status =
        shoal_apply(x->session, GRAPH_TOP_K, &x, 1, &attr, 1, NULL, 0, results, 2);
    *values = results[0];
    *indices = results[1];
    return status;
}

static shoal_status extreme(uint16_t op, shoal_tensor *x, int64_t axis, shoal_tensor **out) {
    *out = NULL;
    SHOAL_TRY(api_find_axis(shoal_op_name(op), &x->type, axis, &axis));
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, axis),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_I64)};
    return api_apply1(op, x, attrs, 2, out);
}

shoal_status shoal_argmax(shoal_tensor *x, int64_t axis, shoal_tensor **out) {
    return extreme(GRAPH_ARGMAX, x, axis, out);
}

shoal_status shoal_argmin(shoal_tensor *x, int64_t axis, shoal_tensor **out) {
    return extreme(GRAPH_ARGMIN, x, axis, out);
}

shoal_status shoal_random(shoal_tensor *seed, shoal_tensor *stream, const char *distribution,
                          shoal_dtype dtype, uint32_t rank, const int64_t *dims,
                          shoal_tensor **out) {
    *out = NULL;
    const shoal_attr attrs[] = {graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, distribution),
                                graph_int(SHOAL_ATTR_DTYPE, (int64_t)dtype),
                                graph_ints(SHOAL_ATTR_SHAPE, dims, rank)};
    shoal_tensor *operands[2] = {seed, stream};
    return shoal_apply(seed->session, GRAPH_RANDOM, operands, stream ? 2 : 1, attrs, 3, NULL, 0,
                       out, 1);
}
