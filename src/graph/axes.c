/* Axis rules: the iteration space of a call and where each axis lies in it; and what becomes of
 * the attributes when only a part of that space is run. */
#include "base/box.h"
#include "graph/rules.h"

#include <string.h>

void graph_loops_of_result(const shoal_type *result, graph_axes *out) {
    out->n_loops = result->rank;
    for (uint32_t i = 0; i < result->rank; i++) {
        out->extent[i] = result->dims[i];
        out->granule[i] = 1;
        out->outputs[0][i] = (int8_t)i;
    }
}

void graph_whole(const shoal_type *type, int8_t *map) {
    for (uint32_t i = 0; i < type->rank; i++) map[i] = GRAPH_WHOLE;
}

/* Operands have the result's shape, or are scalars (select's predicate): every axis is carried. */
AXES(elementwise) {
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t k = 0; k < call->n_inputs; k++)
        for (uint32_t i = 0; i < call->inputs[k].rank; i++) out->inputs[k][i] = (int8_t)i;
    return SHOAL_OK;
}

AXES(select) { return graph_axes_elementwise(call, outputs, n_outputs, arena, out); }

AXES(create) {
    graph_loops_of_result(&outputs[0], out);
    return SHOAL_OK;
}

/* An operand axis that is repeated is needed by every part; others are carried. */
AXES(broadcast_in_dim) {
    graph_loops_of_result(&outputs[0], out);
    uint32_t count;
    const int64_t *axes = graph_call_ints(call, SHOAL_ATTR_BROADCAST_DIMENSIONS, &count);
    for (uint32_t i = 0; i < count; i++)
        out->inputs[0][i] =
            call->inputs[0].dims[i] == outputs[0].dims[axes[i]] ? (int8_t)axes[i] : GRAPH_WHOLE;
    return SHOAL_OK;
}

int64_t graph_common(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* An axis is carried when both shapes have it with the same extent and as many elements before it:
 * then a part of one is the same elements as the part of the other. Other axes are merged or split.
 * Of those that are merged with others or split into others the first on each side may be cut where
 * a cut of the one is a cut of the other, as both run slowest through the same elements; the rest
 * is needed whole, and the result's rest not cut. */
AXES(reshape) {
    const shoal_type *in = &call->inputs[0], *result = &outputs[0];
    graph_loops_of_result(result, out);
    graph_whole(in, out->inputs[0]);
    for (uint32_t i = 0; i < result->rank; i++) out->granule[i] = 0;
    int64_t before_in = 1, before_result = 1;
    for (uint32_t i = 0, k = 0; i < in->rank && k < result->rank;) {
        int64_t from = in->dims[i], to = result->dims[k];
        bool level = before_in == before_result;
        if (level && from > 1 && to > 1 && graph_common(from, to) > 1) {
            out->inputs[0][i] = (int8_t)k;
            out->granule[k] = to / graph_common(from, to);
        }
        if (level && from == to) {
            out->inputs[0][i] = (int8_t)k;
            out->granule[k] = 1;
            before_in *= in->dims[i++];
            before_result *= result->dims[k++];
        } else if (before_in < before_result || (level && from == 1)) {
            before_in *= in->dims[i++];
        } else {
            before_result *= result->dims[k++];
        }
    }
    return SHOAL_OK;
}

AXES(transpose) {
    graph_loops_of_result(&outputs[0], out);
    uint32_t count;
    const int64_t *axes = graph_call_ints(call, SHOAL_ATTR_PERMUTATION, &count);
    for (uint32_t i = 0; i < count; i++) out->inputs[0][axes[i]] = (int8_t)i;
    return SHOAL_OK;
}

/* An axis taken whole is carried. Of a range every part takes its own. */
AXES(slice) {
    graph_loops_of_result(&outputs[0], out);
    uint32_t n;
    const int64_t *strides = graph_call_ints(call, SHOAL_ATTR_STRIDES, &n);
    const int64_t *starts = graph_call_ints(call, SHOAL_ATTR_START_INDICES, &n);
    out->part = graph_part_slice;
    out->ranges = base_arena_array(arena, graph_range, SHOAL_MAX_RANK);
    if (!out->ranges) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        bool all = call->inputs[0].dims[i] == outputs[0].dims[i] && strides[i] == 1;
        out->inputs[0][i] = all ? (int8_t)i : GRAPH_WHOLE;
        out->ranges[i] = (graph_range){all ? GRAPH_WHOLE : (int8_t)i, starts[i], strides[i]};
    }
    return SHOAL_OK;
}

/* The joined axis is not cut, for a part of it would be made of ranges of some operands only. */
AXES(concatenate) {
    graph_loops_of_result(&outputs[0], out);
    int64_t axis = graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
    out->granule[axis] = 0;
    for (uint32_t k = 0; k < call->n_inputs; k++)
        for (uint32_t i = 0; i < outputs[0].rank; i++)
            out->inputs[k][i] = i == axis ? GRAPH_WHOLE : (int8_t)i;
    return SHOAL_OK;
}

/* Loops are the operand's axes; the reduced ones are contracted. A body that is one of these
 * operations joins parts as it joins elements; another is not cut along them. Every part starts
 * from the initial value. For maximum, minimum, and add and multiply of bool (or, and) that does no
 * harm, as x op x = x; for sums and products it must be the identity, which only lowering can see:
 * `initial` names the operand to be asked about. */
AXES(reduce) {
    uint32_t count, kept = 0;
    const int64_t *axes = graph_call_ints(call, SHOAL_ATTR_DIMENSIONS, &count);
    const shoal_type *in = &call->inputs[0];
    uint16_t body = n_outputs == 1 ? graph_body_op(call->regions[0]) : UINT16_MAX;
    bool sums = body == GRAPH_ADD || body == GRAPH_MULTIPLY;
    bool joins = sums || body == GRAPH_MAXIMUM || body == GRAPH_MINIMUM;
    out->n_loops = in->rank;
    for (uint32_t i = 0; i < in->rank; i++) {
        out->extent[i] = in->dims[i];
        out->contracted[i] = graph_has(axes, count, i);
        out->granule[i] = !out->contracted[i] || joins;
        for (uint32_t k = 0; k < n_outputs; k++) {
            out->inputs[k][i] = (int8_t)i;
            if (!out->contracted[i]) out->outputs[k][kept] = (int8_t)i;
        }
        kept += !out->contracted[i];
    }
    out->combine = joins ? body : GRAPH_ADD;
    out->initial = sums && in->dtype != SHOAL_BOOL ? 1 : -1;
    return SHOAL_OK;
}

/* Loops: batching axes, free axes of lhs, free axes of rhs (these three make up the result), then
 * the contracting ones. Parts along those give partial sums. */
AXES(dot_general) {
    uint32_t n_batch, n_contracted;
    const int64_t *batch[2] = {graph_call_ints(call, SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, &n_batch),
                               graph_call_ints(call, SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, &n_batch)};
    const int64_t *contracted[2] = {
        graph_call_ints(call, SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &n_contracted),
        graph_call_ints(call, SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &n_contracted)};
    graph_loops_of_result(&outputs[0], out);
    uint32_t free_loop = n_batch;
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < n_batch; i++) out->inputs[k][batch[k][i]] = (int8_t)i;
        for (uint32_t i = 0; i < n_contracted; i++)
            out->inputs[k][contracted[k][i]] = (int8_t)(outputs[0].rank + i);
        for (uint32_t i = 0; i < call->inputs[k].rank; i++)
            if (!graph_has(batch[k], n_batch, i) && !graph_has(contracted[k], n_contracted, i))
                out->inputs[k][i] = (int8_t)free_loop++;
    }
    for (uint32_t i = 0; i < n_contracted; i++) {
        uint32_t loop = out->n_loops++;
        out->extent[loop] = call->inputs[0].dims[contracted[0][i]];
        out->granule[loop] = 1;
        out->contracted[loop] = true;
    }
    return SHOAL_OK;
}

/* ---- attributes of a part ---- */

shoal_attr *graph_find_attr(shoal_attr *attrs, uint16_t n, shoal_attr_key key) {
    for (uint16_t i = 0; i < n; i++)
        if (attrs[i].key == key) return &attrs[i];
    return NULL;
}

void graph_insert_attr(shoal_attr *attrs, uint16_t *n, shoal_attr attr) {
    uint16_t at = (*n)++;
    for (; at && attrs[at - 1].key > attr.key; at--) attrs[at] = attrs[at - 1];
    attrs[at] = attr;
}

/* The part's extents along the axes of result 0, which must be n. */
static shoal_status set_sizes(shoal_attr *attr, const graph_axes *axes, const int64_t *size,
                              base_arena *arena) {
    int64_t *shape = base_arena_array(arena, int64_t, attr->count);
    if (!shape) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < attr->count; i++) shape[i] = size[axes->outputs[0][i]];
    attr->u.ints = shape;
    return SHOAL_OK;
}

LOCALISE(shape) {
    return set_sizes(graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_SHAPE), axes, size, arena);
}

/* Takes the box's elements out of a constant that has them all. */
static shoal_status cut_elements(shoal_attr *value, const shoal_type *type, const int64_t *start,
                                 const int64_t *size, base_arena *arena) {
    base_box box = {.rank = type->rank};
    memcpy(box.start, start, type->rank * sizeof *start);
    memcpy(box.size, size, type->rank * sizeof *size);
    size_t element = shoal_dtype_size((shoal_dtype)type->dtype);
    size_t bytes = (size_t)base_box_count(&box) * element;
    void *part = base_arena_alloc(arena, bytes < 64 ? 64 : bytes);
    if (!part) return SHOAL_NO_MEMORY;
    base_box_gather(part, value->u.bytes, type->dims, &box, element, 0, bytes);
    value->u.bytes = part;
    value->count = (uint32_t)bytes;
    return SHOAL_OK;
}

LOCALISE(constant) {
    shoal_type type;
    uint16_t n;
    SHOAL_TRY(graph_infer_constant(call, &type, 1, &n));
    shoal_attr *value = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_VALUE);
    /* One element for all stays as it is, whatever the shape. */
    if (value->count != shoal_dtype_size((shoal_dtype)type.dtype))
        SHOAL_TRY(cut_elements(value, &type, start, size, arena));
    return graph_localise_shape(call, axes, start, size, arena, attrs, n_attrs);
}

LOCALISE(iota) {
    uint32_t rank = axes->n_loops;
    const shoal_attr *given = graph_call_attr(call, SHOAL_ATTR_START_INDICES);
    int64_t *from = base_arena_array(arena, int64_t, rank);
    if (!from) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < rank; i++) from[i] = start[i] + (given ? given->u.ints[i] : 0);
    SHOAL_TRY(graph_localise_shape(call, axes, start, size, arena, attrs, n_attrs));
    shoal_attr *old = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_START_INDICES);
    if (old) {
        old->u.ints = from;
        return SHOAL_OK;
    }
    graph_insert_attr(attrs, n_attrs, graph_ints(SHOAL_ATTR_START_INDICES, from, rank));
    return SHOAL_OK;
}

LOCALISE(slice) {
    shoal_attr *starts = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_START_INDICES);
    shoal_attr *limits = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_LIMIT_INDICES);
    const int64_t *strides = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_STRIDES)->u.ints;
    uint32_t rank = starts->count;
    int64_t *from = base_arena_array(arena, int64_t, rank);
    int64_t *to = base_arena_array(arena, int64_t, rank);
    if (!from || !to) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < rank; i++) {
        /* The operand's part of a carried axis begins at 0. */
        bool carried = axes->inputs[0][i] != GRAPH_WHOLE;
        from[i] = carried ? 0 : starts->u.ints[i] + (size[i] ? start[i] * strides[i] : 0);
        to[i] = size[i] ? from[i] + (size[i] - 1) * strides[i] + 1 : from[i];
    }
    starts->u.ints = from;
    limits->u.ints = to;
    return SHOAL_OK;
}

/* ---- identities ---- */

/* Bit patterns of 1, infinity and minus infinity of each floating type. */
static const struct {
    uint64_t one, infinity, sign;
} floats[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F16] = {0x3c00, 0x7c00, 0x8000},
    [SHOAL_BF16] = {0x3f80, 0x7f80, 0x8000},
    [SHOAL_F32] = {0x3f800000, 0x7f800000, 0x80000000},
    [SHOAL_F64] = {0x3ff0000000000000, 0x7ff0000000000000, 0x8000000000000000},
};

static bool element_is_identity(const unsigned char *at, shoal_dtype dtype, uint16_t combine) {
    size_t size = shoal_dtype_size(dtype);
    uint64_t bits = 0;
    for (size_t i = size; i-- > 0;) bits = bits << 8 | at[i];
    uint64_t all = size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1;
    char kind = shoal_dtype_kind(dtype);
    uint64_t least = 0, most = all;
    if (kind == 'b') most = 1;
    if (kind == 'i') {
        most = all >> 1;
        least = most + 1;
    }
    if (kind == 'f') {
        most = floats[dtype].infinity;
        least = most | floats[dtype].sign;
    }
    switch (combine) {
    case GRAPH_ADD: return bits == 0 || (kind == 'f' && bits == floats[dtype].sign);
    case GRAPH_MULTIPLY: return bits == (kind == 'f' ? floats[dtype].one : 1);
    case GRAPH_MAXIMUM: return bits == least;
    case GRAPH_MINIMUM: return bits == most;
    default: return false;
    }
}

bool graph_is_identity(const shoal_graph *g, uint32_t value, uint16_t combine) {
    const shoal_value *v = &g->values[value];
    if (v->node == SHOAL_NO_NODE || g->nodes[v->node].op != GRAPH_CONSTANT) return false;
    const shoal_attr *data = shoal_node_attr(&g->nodes[v->node], SHOAL_ATTR_VALUE);
    shoal_dtype dtype = (shoal_dtype)v->type.dtype;
    size_t size = shoal_dtype_size(dtype);
    const unsigned char *bytes = data->u.bytes;
    for (size_t at = 0; at < data->count; at += size)
        if (!element_is_identity(bytes + at, dtype, combine)) return false;
    return true;
}
