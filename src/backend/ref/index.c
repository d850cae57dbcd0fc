/* Picking elements by numbers: pad, reverse, dynamic_slice, dynamic_update_slice, gather, scatter.
 * Start indices of boxes are moved so that the box lies inside; what scatter would write outside is
 * left out. Updates are joined in row-major order. */
#include "backend/ref/ref.h"

#include "graph/graph.h"

static size_t element_bytes(const ref_call *call) {
    return shoal_dtype_size((shoal_dtype)ref_output(call)->dtype);
}

static const int64_t *ints(const ref_call *call, shoal_attr_key key) {
    return ref_attr(call, key)->u.ints;
}

static bool names(const shoal_attr *list, int64_t axis) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->u.ints[i] == axis) return true;
    return false;
}

/* The coordinates of element number `index`. */
static void unravel(const shoal_type *type, int64_t index, int64_t *at) {
    for (uint32_t i = type->rank; i-- > 0; index /= type->dims[i]) at[i] = index % type->dims[i];
}

static int64_t ravel(const shoal_type *type, const int64_t *at) {
    int64_t index = 0;
    for (uint32_t i = 0; i < type->rank; i++) index = index * type->dims[i] + at[i];
    return index;
}

static void copy_element(void *to, int64_t at, const void *from, int64_t from_at, size_t bytes) {
    memcpy((char *)to + (size_t)at * bytes, (const char *)from + (size_t)from_at * bytes, bytes);
}

shoal_status ref_pad(const ref_call *call) {
    const shoal_type *in = ref_input(call, 0), *out = ref_output(call);
    const int64_t *low = ints(call, SHOAL_ATTR_EDGE_PADDING_LOW);
    const int64_t *interior = ints(call, SHOAL_ATTR_INTERIOR_PADDING);
    size_t bytes = element_bytes(call);
    int64_t n_out = base_type_count(out), n_in = base_type_count(in), at[SHOAL_MAX_RANK];
    for (int64_t i = 0; i < n_out; i++)
        copy_element(call->outputs[0], i, call->inputs[1], 0, bytes);
    for (int64_t i = 0; i < n_in; i++) {
        bool inside = true;
        unravel(in, i, at);
        for (uint32_t k = 0; k < in->rank; k++) {
            at[k] = low[k] + at[k] * (interior[k] + 1);
            inside = inside && at[k] >= 0 && at[k] < out->dims[k];
        }
        if (inside) copy_element(call->outputs[0], ravel(out, at), call->inputs[0], i, bytes);
    }
    return SHOAL_OK;
}

shoal_status ref_reverse(const ref_call *call) {
    const shoal_type *type = ref_output(call);
    const shoal_attr *axes = ref_attr(call, SHOAL_ATTR_DIMENSIONS);
    ref_view view = {.rank = type->rank};
    memcpy(view.dims, type->dims, sizeof view.dims);
    ref_strides(type, view.to);
    memcpy(view.from, view.to, sizeof view.from);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!names(axes, i)) continue;
        view.from_start += (type->dims[i] - 1) * view.from[i];
        view.from[i] = -view.from[i];
    }
    ref_copy_view(&view, call->outputs[0], call->inputs[0], element_bytes(call));
    return SHOAL_OK;
}

/* ---- indices ---- */

shoal_status ref_in_range(const ref_call *call) {
    const shoal_type *type = ref_output(call);
    const shoal_attr *ignored = ref_attr(call, SHOAL_ATTR_IGNORE_INDEX);
    const shoal_attr *name = ref_attr(call, SHOAL_ATTR_NAME);
    int64_t start = *ints(call, SHOAL_ATTR_START_INDICES);
    int64_t limit = *ints(call, SHOAL_ATTR_LIMIT_INDICES);
    const char *location = call->node->location;
    bool is_unsigned = ref_class_of(type->dtype) == REF_U;
    int64_t count = base_type_count(type);
    ref_chunk chunk;
    for (int64_t at = 0; at < count; at += REF_CHUNK) {
        int64_t n = count - at < REF_CHUNK ? count - at : REF_CHUNK;
        ref_load(&chunk, type->dtype, call->inputs[0], at, n);
        for (int64_t i = 0; i < n; i++) {
            int64_t index = is_unsigned && chunk.u[i] > INT64_MAX ? INT64_MAX : chunk.i[i];
            if ((index >= start && index < limit) || (ignored && index == ignored->u.i)) continue;
            if (name)
                return base_fail(SHOAL_RANGE, "%s%s%s", location ? location : "",
                                 location ? ": " : "", name->u.string);
            base_fail(SHOAL_RANGE, "index %lld is out of range: it must be from %lld to %lld",
                      (long long)index, (long long)start, (long long)limit - 1);
            if (limit <= start)
                base_fail(SHOAL_RANGE, "index %lld is out of range: there are no elements",
                          (long long)index);
            return base_fail_prefix(SHOAL_RANGE, "%s%s", location ? location : "",
                                    location ? ": " : "");
        }
    }
    memcpy(call->outputs[0], call->inputs[0], (size_t)base_type_bytes(type));
    return SHOAL_OK;
}

/* ---- boxes at given indices ---- */

int64_t ref_index_at(const ref_call *call, uint32_t input, int64_t at) {
    uint8_t dtype = ref_input(call, input)->dtype;
    ref_chunk one;
    ref_load(&one, dtype, call->inputs[input], at, 1);
    return ref_class_of(dtype) == REF_U && one.u[0] > INT64_MAX ? INT64_MAX : one.i[0];
}

static int64_t clamped(int64_t index, int64_t extent, int64_t size) {
    return index < 0 ? 0 : index > extent - size ? extent - size : index;
}

/* Where a box of `size` begins inside `type`, by scalar operands from number `first` on. */
static int64_t start_of(const ref_call *call, uint32_t first, const shoal_type *type,
                        const int64_t *size) {
    int64_t at[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        at[i] = clamped(ref_index_at(call, first + i, 0), type->dims[i], size[i]);
    return ravel(type, at);
}

shoal_status ref_dynamic_slice(const ref_call *call) {
    const shoal_type *in = ref_input(call, 0), *out = ref_output(call);
    ref_view view = {.rank = out->rank};
    memcpy(view.dims, out->dims, sizeof view.dims);
    ref_strides(out, view.to);
    ref_strides(in, view.from);
    view.from_start = start_of(call, 1, in, out->dims);
    ref_copy_view(&view, call->outputs[0], call->inputs[0], element_bytes(call));
    return SHOAL_OK;
}

ref_view ref_update_view(const ref_call *call) {
    const shoal_type *out = ref_output(call), *update = ref_input(call, 1);
    ref_view view = {.rank = out->rank};
    memcpy(view.dims, update->dims, sizeof view.dims);
    ref_strides(out, view.to);
    ref_strides(update, view.from);
    view.to_start = start_of(call, 2, out, update->dims);
    return view;
}

shoal_status ref_dynamic_update_slice(const ref_call *call) {
    const shoal_type *out = ref_output(call);
    ref_view view = ref_update_view(call);
    memcpy(call->outputs[0], call->inputs[0], (size_t)base_type_bytes(out));
    ref_copy_view(&view, call->outputs[0], call->inputs[1], element_bytes(call));
    return SHOAL_OK;
}

/* ---- gather and scatter ---- */

ref_indexing ref_gather_of(const ref_call *call) {
    return (ref_indexing){ref_input(call, 0),
                          ref_input(call, 1),
                          ref_output(call),
                          1,
                          ref_attr(call, SHOAL_ATTR_OFFSET_DIMS),
                          ref_attr(call, SHOAL_ATTR_COLLAPSED_SLICE_DIMS),
                          ref_attr(call, SHOAL_ATTR_OPERAND_BATCHING_DIMS),
                          ref_attr(call, SHOAL_ATTR_START_INDICES_BATCHING_DIMS),
                          ref_attr(call, SHOAL_ATTR_START_INDEX_MAP),
                          ref_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i};
}

ref_indexing ref_scatter_of(const ref_call *call) {
    uint32_t n = (call->node->n_inputs - 1) / 2;
    return (ref_indexing){ref_input(call, 0),
                          ref_input(call, n),
                          ref_input(call, n + 1),
                          n,
                          ref_attr(call, SHOAL_ATTR_UPDATE_WINDOW_DIMS),
                          ref_attr(call, SHOAL_ATTR_INSERTED_WINDOW_DIMS),
                          ref_attr(call, SHOAL_ATTR_INPUT_BATCHING_DIMS),
                          ref_attr(call, SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS),
                          ref_attr(call, SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                          ref_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i};
}

/* Where in the operand the element `at` of the result lies: `start` by the indices, `offset` inside
 * the box. */
static void place_of(const ref_call *call, const ref_indexing *x, const int64_t *at, int64_t *start,
                     int64_t *offset) {
    int64_t batch[SHOAL_MAX_RANK + 1] = {0}, window[SHOAL_MAX_RANK];
    uint32_t n_batch = 0, n_window = 0;
    for (uint32_t i = 0; i < x->result->rank; i++) {
        if (names(x->window, i)) {
            window[n_window++] = at[i];
            continue;
        }
        n_batch += n_batch == x->vector;
        batch[n_batch++] = at[i];
    }
    for (uint32_t i = 0, k = 0; i < x->operand->rank; i++) {
        start[i] = 0;
        offset[i] = names(x->dropped, i) || names(x->operand_batching, i) ? 0 : window[k++];
    }
    for (uint32_t i = 0; i < x->operand_batching->count; i++)
        start[x->operand_batching->u.ints[i]] = batch[x->index_batching->u.ints[i]];
    for (uint32_t i = 0; i < x->map->count; i++) {
        if (x->vector < x->indices->rank) batch[x->vector] = i;
        start[x->map->u.ints[i]] = ref_index_at(call, x->indices_input, ravel(x->indices, batch));
    }
}

shoal_status ref_gather(const ref_call *call) {
    ref_indexing x = ref_gather_of(call);
    const int64_t *sizes = ints(call, SHOAL_ATTR_SLICE_SIZES);
    size_t bytes = element_bytes(call);
    int64_t count = base_type_count(x.result);
    for (int64_t i = 0; i < count; i++) {
        int64_t at[SHOAL_MAX_RANK], start[SHOAL_MAX_RANK], offset[SHOAL_MAX_RANK];
        unravel(x.result, i, at);
        place_of(call, &x, at, start, offset);
        for (uint32_t k = 0; k < x.operand->rank; k++)
            start[k] = clamped(start[k], x.operand->dims[k], sizes[k]) + offset[k];
        copy_element(call->outputs[0], i, call->inputs[0], ravel(x.operand, start), bytes);
    }
    return SHOAL_OK;
}

/* outputs[k][to] = body(outputs..., updates...)[k], for all k at once. */
static shoal_status join(const ref_call *call, ref_frame *frame, uint32_t n, int64_t to,
                         int64_t update) {
    const void *in[2 * GRAPH_MAX_JOINED];
    void *out[GRAPH_MAX_JOINED];
    uint64_t results[GRAPH_MAX_JOINED];
    for (uint32_t k = 0; k < n; k++) {
        size_t bytes = shoal_dtype_size((shoal_dtype)ref_input(call, k)->dtype);
        in[k] = (const char *)call->outputs[k] + (size_t)to * bytes;
        in[n + k] = (const char *)call->inputs[n + 1 + k] + (size_t)update * bytes;
        out[k] = &results[k];
    }
    SHOAL_TRY(ref_frame_run(frame, in, out));
    for (uint32_t k = 0; k < n; k++) {
        size_t bytes = shoal_dtype_size((shoal_dtype)ref_input(call, k)->dtype);
        copy_element(call->outputs[k], to, &results[k], 0, bytes);
    }
    return SHOAL_OK;
}

shoal_status ref_scatter(const ref_call *call) {
    ref_indexing x = ref_scatter_of(call);
    uint32_t n = x.indices_input;
    for (uint32_t k = 0; k < n; k++)
        memcpy(call->outputs[k], call->inputs[k], (size_t)base_type_bytes(ref_input(call, k)));
    ref_frame *frame;
    SHOAL_TRY(ref_frame_new(call->node->regions[0], &frame));
    int64_t count = base_type_count(x.result);
    shoal_status status = SHOAL_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        int64_t at[SHOAL_MAX_RANK], start[SHOAL_MAX_RANK], offset[SHOAL_MAX_RANK];
        bool inside = true;
        unravel(x.result, i, at);
        place_of(call, &x, at, start, offset);
        for (uint32_t k = 0; k < x.operand->rank; k++) {
            /* Compared before it is added: an index may be the largest number there is. */
            inside = inside && start[k] < x.operand->dims[k] && start[k] >= -offset[k] &&
                     start[k] + offset[k] < x.operand->dims[k];
            if (inside) start[k] += offset[k];
        }
        if (inside) status = join(call, frame, n, ravel(x.operand, start), i);
    }
    ref_frame_destroy(&frame);
    return status;
}
