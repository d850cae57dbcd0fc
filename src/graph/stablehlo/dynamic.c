/* Dynamic operations: their shapes are operands, which have to follow from constants. Then they are
 * the static ones. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"

static shoal_attr shape_attr(const shoal_type *type) {
    return graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank);
}

/* An operation whose operand `shape_at` is the shape, and which takes those before it. */
static shoal_status shaped(hlo_call *c, uint16_t op, uint32_t shape_at) {
    shoal_type type;
    if (c->n_in <= shape_at) return hlo_fail(c, "its shape is missing");
    SHOAL_TRY(hlo_shape(c, shape_at, &type));
    const shoal_attr attrs[] = {shape_attr(&type), graph_int(SHOAL_ATTR_DTYPE, type.dtype)};
    return hlo_row_of(c, op, c->in, shape_at, attrs, op == GRAPH_IOTA ? 2 : 1, NULL, 0);
}

static shoal_status dynamic_iota(hlo_call *c) { return shaped(c, GRAPH_IOTA, 0); }
static shoal_status dynamic_reshape(hlo_call *c) { return shaped(c, GRAPH_RESHAPE, 1); }
static shoal_status dynamic_broadcast(hlo_call *c) { return shaped(c, GRAPH_BROADCAST_IN_DIM, 1); }

/* Lists of numbers that are operands, from number `first` on. */
static shoal_status known_lists(const hlo_call *c, uint32_t first, const shoal_attr_key *keys,
                                uint32_t n, shoal_attr *attrs) {
    for (uint32_t i = 0; i < n; i++) {
        parse_numbers list;
        SHOAL_TRY(hlo_known(c, first + i, &list));
        attrs[i] = graph_ints(keys[i], list.data, list.count);
    }
    return SHOAL_OK;
}

static shoal_status dynamic_pad(hlo_call *c) {
    static const shoal_attr_key keys[] = {SHOAL_ATTR_EDGE_PADDING_LOW, SHOAL_ATTR_EDGE_PADDING_HIGH,
                                          SHOAL_ATTR_INTERIOR_PADDING};
    shoal_attr attrs[3];
    SHOAL_TRY(hlo_need(c, 5, 1));
    SHOAL_TRY(known_lists(c, 2, keys, 3, attrs));
    return hlo_row_of(c, GRAPH_PAD, c->in, 2, attrs, 3, NULL, 0);
}

static shoal_status real_dynamic_slice(hlo_call *c) {
    static const shoal_attr_key keys[] = {SHOAL_ATTR_START_INDICES, SHOAL_ATTR_LIMIT_INDICES,
                                          SHOAL_ATTR_STRIDES};
    shoal_attr attrs[3];
    SHOAL_TRY(hlo_need(c, 4, 1));
    SHOAL_TRY(known_lists(c, 1, keys, 3, attrs));
    return hlo_row_of(c, GRAPH_SLICE, c->in, 1, attrs, 3, NULL, 0);
}

static shoal_status dynamic_gather(hlo_call *c) {
    static const shoal_attr_key keys[] = {SHOAL_ATTR_SLICE_SIZES};
    shoal_attr sizes;
    SHOAL_TRY(hlo_need(c, 3, 1));
    SHOAL_TRY(known_lists(c, 2, keys, 1, &sizes));
    return hlo_row_of(c, GRAPH_GATHER, c->in, 2, &sizes, 1, NULL, 0);
}

static shoal_status get_dimension_size(hlo_call *c) {
    int64_t axis;
    SHOAL_TRY(hlo_need(c, 1, 1));
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, "dimension", "dim"), -1, &axis));
    const shoal_type *type = hlo_type_of(c, 0);
    if (axis < 0 || axis >= type->rank)
        return hlo_fail(c, "there is no axis %lld", (long long)axis);
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = splat(&m, (shoal_type){.dtype = SHOAL_I32}, (double)type->dims[axis]);
    return m.status;
}

/* The size has to be the one that it is. */
static shoal_status set_dimension_size(hlo_call *c) {
    int64_t axis;
    parse_numbers size;
    SHOAL_TRY(hlo_need(c, 2, 1));
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, "dimension", "dim"), -1, &axis));
    SHOAL_TRY(hlo_known(c, 1, &size));
    const shoal_type *type = hlo_type_of(c, 0);
    if (axis < 0 || axis >= type->rank || size.count != 1 || size.data[0] != type->dims[axis])
        return hlo_fail(c, "the size is not that of the axis; shapes are static");
    c->out[0] = c->in[0];
    return SHOAL_OK;
}

/* Shapes as tensors: "tensor.from_elements", of scalars. */
static shoal_status from_elements(hlo_call *c) {
    shoal_type type;
    int64_t zero = 0;
    SHOAL_TRY(hlo_shape(c, UINT32_MAX, &type));
    maker m = {c->s->g, SHOAL_OK};
    shoal_type single = {.dtype = type.dtype, .rank = 1, .dims = {1}};
    uint32_t *parts = base_arena_array(&c->s->in->r.p.arena, uint32_t, (size_t)c->n_in);
    if (!parts) return SHOAL_NO_MEMORY;
    if (!c->n_in) return hlo_fail(c, "it has no elements");
    for (uint32_t i = 0; i < c->n_in; i++) parts[i] = reshape(&m, c->in[i], &single);
    shoal_attr along = graph_int(SHOAL_ATTR_DIMENSION, zero);
    c->out[0] = reshape(&m, node(&m, GRAPH_CONCATENATE, parts, c->n_in, &along, 1, NULL), &type);
    return m.status;
}

hlo_rule *hlo_dynamic_rule(const char *name) {
    static const hlo_named_rule rules[] = {
        {"stablehlo.dynamic_iota", dynamic_iota},
        {"stablehlo.dynamic_reshape", dynamic_reshape},
        {"stablehlo.dynamic_broadcast_in_dim", dynamic_broadcast},
        {"stablehlo.dynamic_pad", dynamic_pad},
        {"stablehlo.real_dynamic_slice", real_dynamic_slice},
        {"stablehlo.dynamic_gather", dynamic_gather},
        {"stablehlo.get_dimension_size", get_dimension_size},
        {"stablehlo.set_dimension_size", set_dimension_size},
        {"tensor.from_elements", from_elements},
        {NULL, NULL}};
    return hlo_look_up(rules, name);
}
