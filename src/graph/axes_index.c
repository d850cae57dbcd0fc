/* Axis rules, and attributes of parts, of the operations that pick elements by numbers, sort, or
 * make random numbers. */
#include "graph/rules.h"

#include <string.h>

/* ---- moving ---- */

/* The axis of the bytes of one element is not cut. */
AXES(bitcast_convert) {
    graph_loops_of_result(&outputs[0], out);
    uint32_t rank = call->inputs[0].rank, kept = rank < outputs[0].rank ? rank : outputs[0].rank;
    for (uint32_t i = 0; i < rank; i++) out->inputs[0][i] = i < kept ? (int8_t)i : GRAPH_WHOLE;
    for (uint32_t i = kept; i < outputs[0].rank; i++) out->granule[i] = 0;
    return SHOAL_OK;
}

/* An axis that is not padded is carried; of another each part takes its own from the whole. */
AXES(pad) {
    graph_loops_of_result(&outputs[0], out);
    uint32_t n;
    const int64_t *low = graph_call_ints(call, SHOAL_ATTR_EDGE_PADDING_LOW, &n);
    const int64_t *high = graph_call_ints(call, SHOAL_ATTR_EDGE_PADDING_HIGH, &n);
    const int64_t *interior = graph_call_ints(call, SHOAL_ATTR_INTERIOR_PADDING, &n);
    for (uint32_t i = 0; i < n; i++)
        out->inputs[0][i] = low[i] || high[i] || interior[i] ? GRAPH_WHOLE : (int8_t)i;
    return SHOAL_OK;
}

static int64_t *copy_of(shoal_attr *attr, base_arena *arena) {
    int64_t *copy = base_arena_copy(arena, attr->u.ints, attr->count * sizeof *copy);
    attr->u.ints = copy;
    return copy;
}

LOCALISE(pad) {
    int64_t *low = copy_of(graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_EDGE_PADDING_LOW), arena);
    int64_t *high = copy_of(graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_EDGE_PADDING_HIGH), arena);
    const int64_t *interior = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_INTERIOR_PADDING)->u.ints;
    if (!low || !high) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < call->inputs[0].rank; i++) {
        int64_t extent = call->inputs[0].dims[i];
        if (axes->inputs[0][i] != GRAPH_WHOLE) continue;
        low[i] -= start[i];
        high[i] = size[i] - low[i] - extent - (extent ? extent - 1 : 0) * interior[i];
    }
    return SHOAL_OK;
}

AXES(reverse) {
    uint32_t n;
    const int64_t *axes = graph_call_ints(call, SHOAL_ATTR_DIMENSIONS, &n);
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t i = 0; i < outputs[0].rank; i++) {
        out->granule[i] = !graph_has(axes, n, i);
        out->inputs[0][i] = (int8_t)i;
    }
    return SHOAL_OK;
}

/* ---- boxes at given indices ---- */

/* An axis of the operand alone, whose elements are in some part of it, and each in one: the others
 * add nothing. */
static int8_t add_search(graph_axes *out, int64_t extent) {
    uint32_t loop = out->n_loops++;
    out->extent[loop] = extent;
    out->granule[loop] = 1;
    out->contracted[loop] = out->picks[loop] = true;
    return (int8_t)loop;
}

/* An axis that is taken whole is carried; where the box may move, the result's axis is not cut, and
 * the operand's is searched. */
AXES(dynamic_slice) {
    graph_loops_of_result(&outputs[0], out);
    out->part = graph_part_dynamic_slice;
    for (uint32_t i = 0; i < outputs[0].rank; i++) {
        out->granule[i] = outputs[0].dims[i] == call->inputs[0].dims[i];
        out->inputs[0][i] = out->granule[i] ? (int8_t)i : add_search(out, call->inputs[0].dims[i]);
    }
    return SHOAL_OK;
}

LOCALISE(dynamic_slice) {
    int64_t *sizes = copy_of(graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_SLICE_SIZES), arena);
    if (!sizes) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < call->inputs[0].rank; i++) sizes[i] = size[i];
    return SHOAL_OK;
}

/* Of an update that may lie anywhere along an axis each part takes what falls into it. */
AXES(dynamic_update_slice) {
    graph_loops_of_result(&outputs[0], out);
    out->part = graph_part_dynamic_update_slice;
    for (uint32_t i = 0; i < outputs[0].rank; i++) {
        bool all = outputs[0].dims[i] == call->inputs[1].dims[i];
        out->inputs[0][i] = (int8_t)i;
        out->inputs[1][i] = all ? (int8_t)i : GRAPH_WHOLE;
        out->picks[i] = !all;
    }
    return SHOAL_OK;
}

/* Axes of the indices are carried, with the operand's batching axes; axes of the operand that are
 * taken whole, too. Those of which an index says one element are searched. The others of the
 * operand are needed whole, those of the result not cut. */
AXES(gather) {
    uint32_t n_offset, n_dropped, n_batching, n_map, n;
    const int64_t *map = graph_call_ints(call, SHOAL_ATTR_START_INDEX_MAP, &n_map);
    const int64_t *offset = graph_call_ints(call, SHOAL_ATTR_OFFSET_DIMS, &n_offset);
    const int64_t *dropped = graph_call_ints(call, SHOAL_ATTR_COLLAPSED_SLICE_DIMS, &n_dropped);
    const int64_t *left = graph_call_ints(call, SHOAL_ATTR_OPERAND_BATCHING_DIMS, &n_batching);
    const int64_t *right = graph_call_ints(call, SHOAL_ATTR_START_INDICES_BATCHING_DIMS, &n);
    const int64_t *sizes = graph_call_ints(call, SHOAL_ATTR_SLICE_SIZES, &n);
    int64_t vector = graph_call_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i;
    graph_loops_of_result(&outputs[0], out);
    graph_whole(&call->inputs[0], out->inputs[0]);
    graph_whole(&call->inputs[1], out->inputs[1]);
    for (uint32_t loop = 0, at = 0; loop < out->n_loops; loop++) {
        if (graph_has(offset, n_offset, loop)) continue;
        at += at == vector;
        out->inputs[1][at++] = (int8_t)loop;
    }
    for (uint32_t i = 0; i < n_batching; i++) out->inputs[0][left[i]] = out->inputs[1][right[i]];
    out->part = graph_part_gather;
    for (uint32_t i = 0, at = 0; i < call->inputs[0].rank; i++) {
        if (graph_has(dropped, n_dropped, i) && graph_has(map, n_map, i))
            out->inputs[0][i] = add_search(out, call->inputs[0].dims[i]);
        if (graph_has(dropped, n_dropped, i) || graph_has(left, n_batching, i)) continue;
        int64_t loop = offset[at++];
        out->granule[loop] = sizes[i] == call->inputs[0].dims[i];
        if (out->granule[loop]) out->inputs[0][i] = (int8_t)loop;
    }
    return SHOAL_OK;
}

LOCALISE(gather) {
    int64_t *sizes = copy_of(graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_SLICE_SIZES), arena);
    uint32_t n;
    const int64_t *batching = graph_call_ints(call, SHOAL_ATTR_OPERAND_BATCHING_DIMS, &n);
    if (!sizes) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < call->inputs[0].rank; i++) {
        int8_t loop = axes->inputs[0][i];
        if (loop == GRAPH_WHOLE || axes->contracted[loop]) continue;
        sizes[i] = graph_has(batching, n, i) ? size[loop] > 0 : size[loop];
    }
    return SHOAL_OK;
}

/* The axes of updates that are axes of the indices, too: batching ones are carried, and along the
 * others a body that joins may be run in parts, for one input. */
static void scatter_along_indices(const graph_call *call, bool joins, graph_axes *out) {
    uint32_t n = (call->n_inputs - 1) / 2, n_window, n_batching;
    const int64_t *window = graph_call_ints(call, SHOAL_ATTR_UPDATE_WINDOW_DIMS, &n_window);
    const int64_t *left = graph_call_ints(call, SHOAL_ATTR_INPUT_BATCHING_DIMS, &n_batching);
    const int64_t *right =
        graph_call_ints(call, SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS, &n_batching);
    int64_t vector = graph_call_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i;
    const shoal_type *updates = &call->inputs[n + 1];
    for (uint32_t k = 0, at = 0; k < updates->rank; k++) {
        if (graph_has(window, n_window, k)) continue;
        at += at == vector;
        uint32_t axis = at++, b = 0, loop;
        while (b < n_batching && right[b] != axis) b++;
        if (b < n_batching) {
            loop = (uint32_t)left[b];
        } else {
            if (!joins) continue;
            loop = out->n_loops++;
            out->extent[loop] = updates->dims[k];
            out->contracted[loop] = true;
        }
        out->granule[loop] = 1;
        out->inputs[n + 1][k] = out->inputs[n][axis] = (int8_t)loop;
    }
}

/* Loops are the input's axes, and those that updates and indices have in common. Batching axes, and
 * window axes that updates have whole and no index moves along, are carried; of one along which an
 * index says one element each part takes the updates that fall into it; the input's others are not
 * cut. For parts along the indices the same holds as for those of a reduction. */
AXES(scatter) {
    uint32_t n = (call->n_inputs - 1) / 2, n_window, n_dropped, n_batching, n_map;
    const int64_t *window = graph_call_ints(call, SHOAL_ATTR_UPDATE_WINDOW_DIMS, &n_window);
    const int64_t *dropped = graph_call_ints(call, SHOAL_ATTR_INSERTED_WINDOW_DIMS, &n_dropped);
    const int64_t *left = graph_call_ints(call, SHOAL_ATTR_INPUT_BATCHING_DIMS, &n_batching);
    const int64_t *map = graph_call_ints(call, SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &n_map);
    const shoal_type *input = &call->inputs[0], *updates = &call->inputs[n + 1];
    uint16_t body = n == 1 ? graph_body_op(call->regions[0]) : UINT16_MAX;
    bool sums = body == GRAPH_ADD || body == GRAPH_MULTIPLY;
    bool joins = sums || body == GRAPH_MAXIMUM || body == GRAPH_MINIMUM;
    graph_loops_of_result(input, out);
    int8_t *of_updates = out->inputs[n + 1];
    graph_whole(updates, of_updates);
    graph_whole(&call->inputs[n], out->inputs[n]);
    for (uint32_t i = 0, at = 0; i < input->rank; i++) {
        bool alone = graph_has(dropped, n_dropped, i);
        out->granule[i] = out->picks[i] = alone && graph_has(map, n_map, i);
        if (graph_has(left, n_batching, i) || alone) continue;
        int64_t axis = window[at++];
        if (updates->dims[axis] != input->dims[i] || graph_has(map, n_map, i)) continue;
        out->granule[i] = 1;
        of_updates[axis] = (int8_t)i;
    }
    out->part = graph_part_scatter;
    scatter_along_indices(call, joins, out);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < input->rank; i++)
            out->inputs[k][i] = out->outputs[k][i] = (int8_t)i;
        if (k) memcpy(out->inputs[n + 1 + k], of_updates, updates->rank);
    }
    out->combine = joins ? body : GRAPH_ADD;
    out->initial = sums && input->dtype != SHOAL_BOOL ? 0 : -1;
    return SHOAL_OK;
}

COST(scatter) { return 8 * (double)base_type_count(&call->inputs[call->n_inputs - 1]); }

/* ---- order ---- */

AXES(sort) {
    int64_t axis = graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
    graph_loops_of_result(&outputs[0], out);
    out->granule[axis] = 0;
    for (uint32_t k = 0; k < call->n_inputs; k++)
        for (uint32_t i = 0; i < outputs[0].rank; i++)
            out->inputs[k][i] = out->outputs[k][i] = (int8_t)i;
    return SHOAL_OK;
}

AXES(top_k) {
    uint32_t last = outputs[0].rank - 1u;
    graph_loops_of_result(&outputs[0], out);
    out->granule[last] = 0;
    for (uint32_t i = 0; i <= last; i++) {
        out->inputs[0][i] = i < last ? (int8_t)i : GRAPH_WHOLE;
        out->outputs[1][i] = (int8_t)i;
    }
    return SHOAL_OK;
}

AXES(argmax) {
    int64_t axis = graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t i = 0, kept = 0; i < call->inputs[0].rank; i++)
        out->inputs[0][i] = i == axis ? GRAPH_WHOLE : (int8_t)kept++;
    return SHOAL_OK;
}

/* Comparisons: n log n. */
COST(sort) {
    double n = (double)base_type_count(&call->inputs[0]), steps = 1;
    for (double rest = n; rest > 2; rest /= 2) steps++;
    return 2 * n * steps;
}

/* ---- random ---- */

AXES(random) {
    graph_loops_of_result(&outputs[0], out);
    return SHOAL_OK;
}

/* A part keeps the numbers that its elements have in the whole. */
LOCALISE(random) {
    uint32_t rank = axes->n_loops;
    const shoal_attr *shape = graph_call_attr(call, SHOAL_ATTR_SHAPE);
    const shoal_attr *given = graph_call_attr(call, SHOAL_ATTR_START_INDICES);
    int64_t *from = base_arena_array(arena, int64_t, rank);
    if (!from) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < rank; i++) from[i] = start[i] + (given ? given->u.ints[i] : 0);
    SHOAL_TRY(graph_localise_shape(call, axes, start, size, arena, attrs, n_attrs));
    shoal_attr starts = graph_ints(SHOAL_ATTR_START_INDICES, from, rank);
    if (given) {
        *graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_START_INDICES) = starts;
        return SHOAL_OK;
    }
    graph_insert_attr(attrs, n_attrs, starts);
    graph_insert_attr(attrs, n_attrs, graph_ints(SHOAL_ATTR_WHOLE_SHAPE, shape->u.ints, rank));
    return SHOAL_OK;
}
