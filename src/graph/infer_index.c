/* Shape rules of operations that pick elements by numbers: pad, reverse, dynamic_slice,
 * dynamic_update_slice, gather, scatter. Kernels rely on what is checked here. */
#include "graph/rules.h"

#include <string.h>

static bool is_integer(const shoal_type *type) {
    return graph_kind(type) == 'i' || graph_kind(type) == 'u';
}

/* A list with one number per axis of a type. */
static shoal_status per_axis(const graph_call *call, shoal_attr_key key, const shoal_type *type,
                             const int64_t **list) {
    uint32_t count;
    *list = graph_call_ints(call, key, &count);
    if (count == type->rank) return SHOAL_OK;
    return base_fail(SHOAL_INVALID, "%s: %s has %u numbers; %s has %u axes", graph_call_name(call),
                     graph_attr_name((uint16_t)key), count, GRAPH_TEXT(type), type->rank);
}

INFER(pad) {
    const shoal_type *in = &call->inputs[0];
    shoal_type type = *in, scalar = {.dtype = in->dtype};
    const int64_t *low, *high, *interior;
    if (!base_type_equal(&call->inputs[1], &scalar))
        return base_fail(SHOAL_INVALID, "pad: the padding of %s must be %s, not %s", GRAPH_TEXT(in),
                         GRAPH_TEXT(&scalar), GRAPH_TEXT(&call->inputs[1]));
    SHOAL_TRY(per_axis(call, SHOAL_ATTR_EDGE_PADDING_LOW, in, &low));
    SHOAL_TRY(per_axis(call, SHOAL_ATTR_EDGE_PADDING_HIGH, in, &high));
    SHOAL_TRY(per_axis(call, SHOAL_ATTR_INTERIOR_PADDING, in, &interior));
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t gaps = in->dims[i] ? in->dims[i] - 1 : 0;
        if (interior[i] < 0)
            return base_fail(SHOAL_INVALID, "pad: interior_padding %lld of axis %u is negative",
                             (long long)interior[i], i);
        bool over = base_mul_overflow(gaps, interior[i], &gaps) ||
                    base_add_overflow(in->dims[i], gaps, &type.dims[i]) ||
                    base_add_overflow(type.dims[i], low[i], &type.dims[i]) ||
                    base_add_overflow(type.dims[i], high[i], &type.dims[i]);
        if (over || type.dims[i] < 0)
            return base_fail(SHOAL_INVALID,
                             "pad: %lld below, %lld above and %lld between leave no extent for "
                             "axis %u of %s",
                             (long long)low[i], (long long)high[i], (long long)interior[i], i,
                             GRAPH_TEXT(in));
    }
    return GRAPH_ONE(&type);
}

INFER(reverse) {
    const int64_t *axes;
    uint32_t count;
    SHOAL_TRY(graph_check_axes(call, SHOAL_ATTR_DIMENSIONS, &call->inputs[0], &axes, &count));
    return GRAPH_ONE(&call->inputs[0]);
}

/* One number each: where indices may begin, and where they end. */
INFER(in_range) {
    const shoal_attr *start = graph_call_attr(call, SHOAL_ATTR_START_INDICES);
    const shoal_attr *limit = graph_call_attr(call, SHOAL_ATTR_LIMIT_INDICES);
    if (!is_integer(&call->inputs[0]))
        return base_fail(SHOAL_INVALID, "in_range: the indices are %s; they must be integers",
                         GRAPH_TEXT(&call->inputs[0]));
    if (start->count != 1 || limit->count != 1)
        return base_fail(SHOAL_INVALID,
                         "in_range: %u start_indices and %u limit_indices; one each is needed",
                         start->count, limit->count);
    return GRAPH_ONE(&call->inputs[0]);
}

/* ---- boxes at given indices ---- */

/* Operands from number `first` on: one integer scalar per axis, of one type. */
static shoal_status check_starts(const graph_call *call, uint32_t first) {
    const shoal_type *in = call->inputs;
    if (call->n_inputs - first != in[0].rank)
        return base_fail(SHOAL_INVALID, "%s: %u indices; %s has %u axes", graph_call_name(call),
                         call->n_inputs - first, GRAPH_TEXT(&in[0]), in[0].rank);
    for (uint32_t i = first; i < call->n_inputs; i++)
        if (in[i].rank || !is_integer(&in[i]) || in[i].dtype != in[first].dtype)
            return base_fail(SHOAL_INVALID,
                             "%s: operand %u is %s; indices are integer scalars of one type",
                             graph_call_name(call), i, GRAPH_TEXT(&in[i]));
    return SHOAL_OK;
}

static shoal_status check_sizes(const graph_call *call, const shoal_type *in,
                                const int64_t **sizes) {
    SHOAL_TRY(per_axis(call, SHOAL_ATTR_SLICE_SIZES, in, sizes));
    for (uint32_t i = 0; i < in->rank; i++)
        if ((*sizes)[i] < 0 || (*sizes)[i] > in->dims[i])
            return base_fail(SHOAL_INVALID,
                             "%s: slice_sizes: %lld is not 0 to %lld, as axis %u of "
                             "%s",
                             graph_call_name(call), (long long)(*sizes)[i], (long long)in->dims[i],
                             i, GRAPH_TEXT(in));
    return SHOAL_OK;
}

INFER(dynamic_slice) {
    const int64_t *sizes;
    SHOAL_TRY(check_starts(call, 1));
    SHOAL_TRY(check_sizes(call, &call->inputs[0], &sizes));
    shoal_type type = call->inputs[0];
    for (uint32_t i = 0; i < type.rank; i++) type.dims[i] = sizes[i];
    return GRAPH_ONE(&type);
}

INFER(dynamic_update_slice) {
    const shoal_type *in = call->inputs;
    SHOAL_TRY(check_starts(call, 2));
    bool fits = in[0].dtype == in[1].dtype && in[0].rank == in[1].rank;
    for (uint32_t i = 0; fits && i < in[0].rank; i++) fits = in[1].dims[i] <= in[0].dims[i];
    if (!fits)
        return base_fail(SHOAL_INVALID, "dynamic_update_slice: %s is no part of %s",
                         GRAPH_TEXT(&in[1]), GRAPH_TEXT(&in[0]));
    return GRAPH_ONE(&in[0]);
}

/* ---- gather and scatter ---- */

/* A list of axes in rising order. */
static shoal_status rising(const graph_call *call, shoal_attr_key key, const shoal_type *type,
                           const int64_t **list, uint32_t *count) {
    SHOAL_TRY(graph_check_axes(call, key, type, list, count));
    for (uint32_t i = 1; i < *count; i++)
        if ((*list)[i] < (*list)[i - 1])
            return base_fail(SHOAL_INVALID, "%s: %s is not in rising order", graph_call_name(call),
                             graph_attr_name((uint16_t)key));
    return SHOAL_OK;
}

static shoal_status apart(const graph_call *call, shoal_attr_key a, shoal_attr_key b) {
    uint32_t n, m;
    const int64_t *left = graph_call_ints(call, a, &n), *right = graph_call_ints(call, b, &m);
    for (uint32_t i = 0; i < n; i++)
        if (graph_has(right, m, left[i]))
            return base_fail(SHOAL_INVALID, "%s: axis %lld is in %s and in %s",
                             graph_call_name(call), (long long)left[i],
                             graph_attr_name((uint16_t)a), graph_attr_name((uint16_t)b));
    return SHOAL_OK;
}

/* The keys of gather and scatter that mean the same. */
typedef struct index_keys {
    shoal_attr_key window, dropped, operand_batching, index_batching, map;
} index_keys;
static const index_keys of_gather = {
    SHOAL_ATTR_OFFSET_DIMS, SHOAL_ATTR_COLLAPSED_SLICE_DIMS, SHOAL_ATTR_OPERAND_BATCHING_DIMS,
    SHOAL_ATTR_START_INDICES_BATCHING_DIMS, SHOAL_ATTR_START_INDEX_MAP};
static const index_keys of_scatter = {
    SHOAL_ATTR_UPDATE_WINDOW_DIMS, SHOAL_ATTR_INSERTED_WINDOW_DIMS, SHOAL_ATTR_INPUT_BATCHING_DIMS,
    SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS, SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS};

/* What both need of operand and indices. *window: the number of operand axes that remain. */
static shoal_status check_index(const graph_call *call, const index_keys *keys,
                                const shoal_type *operand, const shoal_type *indices,
                                uint32_t *window) {
    const int64_t *dropped, *left, *right, *map;
    uint32_t n_dropped, n_left, n_right, n_map;
    if (!is_integer(indices))
        return base_fail(SHOAL_INVALID, "%s: the indices are %s; they must be integers",
                         graph_call_name(call), GRAPH_TEXT(indices));
    int64_t vector = graph_call_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i;
    if (vector < 0 || vector > indices->rank)
        return base_fail(SHOAL_INVALID, "%s: index_vector_dim %lld is not 0 to %u",
                         graph_call_name(call), (long long)vector, indices->rank);
    SHOAL_TRY(rising(call, keys->dropped, operand, &dropped, &n_dropped));
    SHOAL_TRY(rising(call, keys->operand_batching, operand, &left, &n_left));
    SHOAL_TRY(graph_check_axes(call, keys->index_batching, indices, &right, &n_right));
    SHOAL_TRY(graph_check_axes(call, keys->map, operand, &map, &n_map));
    SHOAL_TRY(apart(call, keys->dropped, keys->operand_batching));
    SHOAL_TRY(apart(call, keys->map, keys->operand_batching));
    if (n_left != n_right)
        return base_fail(SHOAL_INVALID, "%s: %u batching axes of the operand, %u of the indices",
                         graph_call_name(call), n_left, n_right);
    for (uint32_t i = 0; i < n_left; i++)
        if (right[i] == vector || operand->dims[left[i]] != indices->dims[right[i]])
            return base_fail(SHOAL_INVALID, "%s: batching axes %lld of %s and %lld of %s differ",
                             graph_call_name(call), (long long)left[i], GRAPH_TEXT(operand),
                             (long long)right[i], GRAPH_TEXT(indices));
    int64_t length = vector < indices->rank ? indices->dims[vector] : 1;
    if (length != n_map)
        return base_fail(SHOAL_INVALID, "%s: an index has %lld numbers, %s names %u axes",
                         graph_call_name(call), (long long)length,
                         graph_attr_name((uint16_t)keys->map), n_map);
    *window = operand->rank - n_dropped - n_left;
    return SHOAL_OK;
}

INFER(gather) {
    const shoal_type *operand = &call->inputs[0], *indices = &call->inputs[1];
    uint32_t window, n_offset, n_dropped, n_batching;
    const int64_t *sizes, *offset;
    SHOAL_TRY(check_index(call, &of_gather, operand, indices, &window));
    SHOAL_TRY(check_sizes(call, operand, &sizes));
    const int64_t *dropped = graph_call_ints(call, SHOAL_ATTR_COLLAPSED_SLICE_DIMS, &n_dropped);
    const int64_t *batching = graph_call_ints(call, SHOAL_ATTR_OPERAND_BATCHING_DIMS, &n_batching);
    int64_t vector = graph_call_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i;
    uint32_t rank = window + indices->rank - (vector < indices->rank);
    if (rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "gather: the result has rank %u; the limit is %d", rank,
                         SHOAL_MAX_RANK);
    shoal_type type = {.dtype = operand->dtype, .rank = (uint8_t)rank};
    SHOAL_TRY(rising(call, SHOAL_ATTR_OFFSET_DIMS, &type, &offset, &n_offset));
    if (n_offset != window)
        return base_fail(SHOAL_INVALID, "gather: offset_dims names %u axes; %u of %s remain",
                         n_offset, window, GRAPH_TEXT(operand));
    uint32_t at_offset = 0, at_index = 0;
    for (uint32_t i = 0; i < operand->rank; i++) {
        bool is_dropped = graph_has(dropped, n_dropped, i);
        if (!is_dropped && !graph_has(batching, n_batching, i)) {
            type.dims[offset[at_offset++]] = sizes[i];
        } else if (sizes[i] != (is_dropped || operand->dims[i])) {
            return base_fail(SHOAL_INVALID,
                             "gather: slice_sizes: %lld for axis %u, which is not in the result; "
                             "it must be 1",
                             (long long)sizes[i], i);
        }
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (graph_has(offset, n_offset, i)) continue;
        at_index += at_index == vector;
        type.dims[i] = indices->dims[at_index++];
    }
    return GRAPH_ONE(&type);
}

static shoal_status check_updates(const graph_call *call, const shoal_type *input,
                                  const shoal_type *indices, const shoal_type *updates,
                                  uint32_t window) {
    uint32_t n_dropped, n_batching, n_window;
    const int64_t *dropped = graph_call_ints(call, SHOAL_ATTR_INSERTED_WINDOW_DIMS, &n_dropped);
    const int64_t *batching = graph_call_ints(call, SHOAL_ATTR_INPUT_BATCHING_DIMS, &n_batching);
    int64_t vector = graph_call_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i;
    const int64_t *axes;
    SHOAL_TRY(rising(call, SHOAL_ATTR_UPDATE_WINDOW_DIMS, updates, &axes, &n_window));
    bool fits = n_window == window && updates->dtype == input->dtype &&
                updates->rank == window + indices->rank - (vector < indices->rank);
    for (uint32_t i = 0, at = 0; fits && i < input->rank; i++)
        if (!graph_has(dropped, n_dropped, i) && !graph_has(batching, n_batching, i))
            fits = updates->dims[axes[at++]] <= input->dims[i];
    for (uint32_t i = 0, at = 0; fits && i < updates->rank; i++) {
        if (graph_has(axes, n_window, i)) continue;
        at += at == vector;
        fits = updates->dims[i] == indices->dims[at++];
    }
    if (fits) return SHOAL_OK;
    return base_fail(SHOAL_INVALID,
                     "scatter: updates %s do not fit: input %s, indices %s, %u window axes",
                     GRAPH_TEXT(updates), GRAPH_TEXT(input), GRAPH_TEXT(indices), n_window);
}

INFER(scatter) {
    uint32_t n = (call->n_inputs - 1) / 2, window;
    const shoal_type *in = call->inputs, *indices = &in[n];
    if (call->n_inputs % 2 == 0 || n > max_outputs)
        return base_fail(SHOAL_INVALID,
                         "scatter: %u operands; they are n inputs, the indices, n updates",
                         call->n_inputs);
    for (uint32_t i = 0; i < n; i++) {
        shoal_type same = in[i];
        same.dtype = in[0].dtype;
        if (!base_type_equal(&same, &in[0]))
            return base_fail(SHOAL_INVALID, "scatter: inputs of different shapes: %s and %s",
                             GRAPH_TEXT(&in[0]), GRAPH_TEXT(&in[i]));
        SHOAL_TRY(check_index(call, &of_scatter, &in[i], indices, &window));
        SHOAL_TRY(check_updates(call, &in[i], indices, &in[n + 1 + i], window));
        same = in[n + 1 + i];
        same.dtype = in[n + 1].dtype;
        if (!base_type_equal(&same, &in[n + 1]))
            return base_fail(SHOAL_INVALID, "scatter: updates of different shapes");
        outputs[i] = in[i];
    }
    if (!graph_body_fits(call->regions[0], in, n, true, false))
        return base_fail(SHOAL_INVALID,
                         "scatter: the body must take %u scalars, of each input's element type one "
                         "in front and one behind, and return %u",
                         2 * n, n);
    *n_outputs = (uint16_t)n;
    return SHOAL_OK;
}
