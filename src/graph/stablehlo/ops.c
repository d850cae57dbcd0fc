/* Operations: most are rows of ops.def with the same name and attributes; the others have a rule
 * here, or in another file of this folder. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"
#include "graph/rules.h"

#include <stdio.h>

/* What pretty forms call attributes. */
static const struct {
    shoal_attr_key key;
    const char *name;
} pretty_names[] = {
    {SHOAL_ATTR_BROADCAST_DIMENSIONS, "dims"},
    {SHOAL_ATTR_PERMUTATION, "dims"},
    {SHOAL_ATTR_DIMENSIONS, "dims"},
    {SHOAL_ATTR_IOTA_DIMENSION, "dim"},
    {SHOAL_ATTR_DIMENSION, "dim"},
    {SHOAL_ATTR_SLICE_SIZES, "sizes"},
    {SHOAL_ATTR_EDGE_PADDING_LOW, "low"},
    {SHOAL_ATTR_EDGE_PADDING_HIGH, "high"},
    {SHOAL_ATTR_INTERIOR_PADDING, "interior"},
    {SHOAL_ATTR_COMPARISON_DIRECTION, "word"},
};

hlo_rule *hlo_look_up(const hlo_named_rule *table, const char *name) {
    while (table->name && strcmp(table->name, name)) table++;
    return table->rule;
}

/* ---- rows ---- */

static const hlo_attr *find_key(const hlo_call *c, uint16_t key, const graph_key_group *group) {
    const char *pretty = NULL;
    for (size_t i = 0; i < sizeof pretty_names / sizeof *pretty_names; i++)
        if (pretty_names[i].key == key) pretty = pretty_names[i].name;
    if (!graph_group_has(group, key)) return hlo_attr_of(c, graph_attr_name(key), pretty);
    const hlo_attr *numbers = hlo_attr_of(c, group->attribute, NULL);
    return numbers ? hlo_find(numbers->items, graph_attr_name(key)) : NULL;
}

static shoal_status attr_of(const hlo_call *c, uint16_t key, const hlo_attr *attr,
                            shoal_attr *out) {
    parse_numbers list;
    int64_t value;
    switch (graph_attr_kind(key)) {
    case SHOAL_ATTR_KIND_INT:
    case SHOAL_ATTR_KIND_BOOL:
        SHOAL_TRY(hlo_int(c, attr, 0, &value));
        *out = graph_attr_kind(key) == SHOAL_ATTR_KIND_INT ? graph_int((shoal_attr_key)key, value)
                                                           : graph_bool((shoal_attr_key)key, value);
        return SHOAL_OK;
    case SHOAL_ATTR_KIND_INTS:
        SHOAL_TRY(hlo_ints(c, attr, &list));
        *out = graph_ints((shoal_attr_key)key, list.data, list.count);
        return SHOAL_OK;
    case SHOAL_ATTR_KIND_STRING: {
        char *text = base_arena_alloc(&c->s->in->r.p.arena, attr ? attr->text.n + 1 : 1);
        if (!text) return SHOAL_NO_MEMORY;
        if (attr) memcpy(text, attr->text.at, attr->text.n);
        *out = graph_string((shoal_attr_key)key, text);
        return SHOAL_OK;
    }
    default: return hlo_fail(c, "attribute %s is not one of StableHLO's", graph_attr_name(key));
    }
}

shoal_status hlo_row_of(hlo_call *c, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
                        const shoal_attr *others, uint16_t n_others,
                        const shoal_graph *const *regions, uint16_t n_regions) {
    const graph_op_def *def = graph_op(op);
    const graph_key_group *group = graph_group_of(def);
    shoal_attr attrs[SHOAL_ATTR_KEY_COUNT];
    uint16_t n = 0;
    graph_keys has = def->attrs_required | def->attrs_optional, given = 0;
    for (; n < n_others; n++) {
        attrs[n] = others[n];
        given |= (graph_keys)1 << others[n].key;
    }
    for (uint16_t key = 0; key < SHOAL_ATTR_KEY_COUNT; key++) {
        if (!(has >> key & 1) || given >> key & 1) continue;
        if (key == SHOAL_ATTR_SHAPE || key == SHOAL_ATTR_DTYPE) {
            shoal_type type;
            SHOAL_TRY(key == SHOAL_ATTR_SHAPE ? hlo_shape(c, UINT32_MAX, &type)
                                              : hlo_stated(c, 0, &type));
            int64_t *dims = base_arena_copy(&c->s->in->r.p.arena, type.dims, sizeof type.dims);
            if (!dims) return SHOAL_NO_MEMORY;
            attrs[n++] = key == SHOAL_ATTR_SHAPE ? graph_ints(SHOAL_ATTR_SHAPE, dims, type.rank)
                                                 : graph_int(SHOAL_ATTR_DTYPE, type.dtype);
            continue;
        }
        const hlo_attr *attr = find_key(c, key, group);
        if (!attr && (!graph_group_has(group, key) || def->attrs_optional >> key & 1)) continue;
        SHOAL_TRY(attr_of(c, key, attr, &attrs[n++]));
    }
    uint32_t first;
    SHOAL_TRY(graph_add(c->s->g, op, inputs, n_inputs, attrs, n, regions, n_regions, &first));
    uint32_t made = graph_data(c->s->g)->n_values - first;
    if (made < c->n_out) return hlo_fail(c, "it has %u results, not %u", made, c->n_out);
    for (uint32_t i = 0; i < c->n_out; i++) c->out[i] = first + i;
    return SHOAL_OK;
}

shoal_status hlo_row(hlo_call *c, uint16_t op, const shoal_attr *others, uint16_t n_others,
                     const shoal_graph *const *regions, uint16_t n_regions) {
    return hlo_row_of(c, op, c->in, c->n_in, others, n_others, regions, n_regions);
}

/* The row of the operation's own name; its regions are reducers. */
static shoal_status plain(hlo_call *c) {
    uint16_t op;
    uint16_t n = 0;
    SHOAL_TRY(shoal_op_find(strchr(c->op->name, '.') + 1, &op));
    const shoal_graph **bodies =
        base_arena_alloc_array(&c->s->in->r.p.arena, sizeof *bodies, c->op->n_regions);
    if (!bodies) return SHOAL_NO_MEMORY;
    for (const hlo_region *region = c->op->regions; region; region = region->next)
        SHOAL_TRY(hlo_reducer(c, region, &bodies[n++]));
    return hlo_row(c, op, NULL, 0, bodies, n);
}

/* ---- rules ---- */

static shoal_status constant(hlo_call *c) {
    shoal_type type;
    const void *data;
    size_t bytes;
    const hlo_attr *value = hlo_attr_of(c, "value", NULL);
    SHOAL_TRY(hlo_need(c, 0, 1));
    if (!value) return hlo_fail(c, "its value is missing");
    hlo_type scalar;
    const hlo_type *stated = c->types;
    /* "arith.constant 5 : i64" */
    if (value->kind == HLO_WORD && value->type && !value->type->tensor) {
        scalar = *value->type;
        scalar.type.dtype = SHOAL_I64;
        scalar.tensor = hlo_is(scalar.text, "index");
        for (int i = 0; i < SHOAL_DTYPE_COUNT && !scalar.tensor; i++) {
            scalar.tensor = hlo_is(scalar.text, base_dtype_mlir((shoal_dtype)i));
            scalar.type.dtype = (uint8_t)i;
        }
        stated = &scalar;
        c->types = NULL;
    }
    hlo_call own = *c;
    own.types = stated;
    SHOAL_TRY(hlo_shape(&own, UINT32_MAX, &type));
    SHOAL_TRY(hlo_elements(c, value, &type, &data, &bytes));
    const shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, data, bytes),
                                graph_int(SHOAL_ATTR_DTYPE, type.dtype),
                                graph_ints(SHOAL_ATTR_SHAPE, type.dims, type.rank)};
    return hlo_row(c, GRAPH_CONSTANT, attrs, 3, NULL, 0);
}

static shoal_status convert_to(hlo_call *c) {
    shoal_type type;
    SHOAL_TRY(hlo_need(c, 1, 1));
    SHOAL_TRY(hlo_stated(c, 0, &type));
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = convert(&m, c->in[0], type.dtype);
    return m.status;
}

/* Results are operands. */
static shoal_status identity(hlo_call *c) {
    if (c->n_in < c->n_out)
        return hlo_fail(c, "it has %u operands and %u results", c->n_in, c->n_out);
    for (uint32_t i = 0; i < c->n_out; i++) c->out[i] = c->in[i];
    return SHOAL_OK;
}

/* Integers that are ordered as the total order has floating numbers: -NaN, -inf, ..., -0, +0, ...,
 * inf, NaN. The bits of those below zero are turned round. */
static uint32_t total_order(maker *m, uint32_t x) {
    static const uint8_t of_size[9] = {
        [1] = SHOAL_I8, [2] = SHOAL_I16, [4] = SHOAL_I32, [8] = SHOAL_I64};
    if (m->status) return x;
    size_t size = shoal_dtype_size((shoal_dtype)type_of(m, x)->dtype);
    shoal_attr as = graph_int(SHOAL_ATTR_DTYPE, of_size[size]);
    uint32_t bits = node(m, GRAPH_BITCAST_CONVERT, &x, 1, &as, 1, NULL);
    if (m->status) return x;
    uint32_t sign =
        two(m, GRAPH_SHIFT_RIGHT_ARITHMETIC, bits, like(m, bits, (double)(8 * size - 1)));
    uint32_t mask = two(m, GRAPH_SHIFT_RIGHT_LOGICAL, sign, like(m, bits, 1));
    return two(m, GRAPH_XOR, bits, mask);
}

static shoal_status compare_them(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 2, 1));
    const hlo_attr *type = hlo_attr_of(c, "compare_type", NULL);
    const hlo_attr *direction = hlo_attr_of(c, "comparison_direction", "word");
    if (!type && direction && hlo_is(direction->name, "word"))
        type = hlo_find(direction->next, "word");
    char kind = shoal_dtype_kind((shoal_dtype)hlo_type_of(c, 0)->dtype);
    bool total = kind == 'f' && type && hlo_is(type->text, "TOTALORDER");
    maker m = {c->s->g, SHOAL_OK};
    uint32_t in[2] = {c->in[0], c->in[1]};
    for (int i = 0; i < 2 && total; i++) in[i] = total_order(&m, in[i]);
    return m.status ? m.status : hlo_row_of(c, GRAPH_COMPARE, in, 2, NULL, 0, NULL, 0);
}

/* Products of narrow numbers may be stated to be summed in a wider type: then they are of that. */
shoal_status hlo_product(hlo_call *c, uint16_t op, const shoal_attr *attrs, uint16_t n) {
    shoal_type type;
    uint32_t in[2];
    SHOAL_TRY(hlo_stated(c, 0, &type));
    maker m = {c->s->g, SHOAL_OK};
    for (int i = 0; i < 2; i++) in[i] = convert(&m, c->in[i], type.dtype);
    return m.status ? m.status : hlo_row_of(c, op, in, 2, attrs, n, NULL, 0);
}

/* "batching_dims = [0] x [0], contracting_dims = [2] x [1]" */
static shoal_status dot_general(hlo_call *c) {
    static const struct {
        const char *name;
        shoal_attr_key keys[2];
    } forms[] = {
        {"batching_dims", {SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, SHOAL_ATTR_RHS_BATCHING_DIMENSIONS}},
        {"contracting_dims",
         {SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS}}};
    shoal_attr attrs[4];
    SHOAL_TRY(hlo_need(c, 2, 1));
    if (hlo_attr_of(c, "dot_dimension_numbers", NULL))
        return hlo_product(c, GRAPH_DOT_GENERAL, NULL, 0);
    for (int i = 0; i < 2; i++) {
        const hlo_attr *both = hlo_attr_of(c, forms[i].name, NULL);
        const hlo_attr *side = both ? both->items : NULL;
        for (int k = 0; k < 2; k++) {
            parse_numbers list = {0};
            if (both && (!side || side->kind != HLO_LIST))
                return hlo_fail(c, "%s must be two lists, [..] x [..]", forms[i].name);
            if (side) SHOAL_TRY(hlo_ints(c, side, &list));
            attrs[2 * i + k] = graph_ints(forms[i].keys[k], list.data, list.count);
            side = side ? side->next : NULL;
        }
    }
    return hlo_product(c, GRAPH_DOT_GENERAL, attrs, 4);
}

/* Vectors and matrices: the last axis with the first. */
static shoal_status dot(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 2, 1));
    static const int64_t zero;
    int64_t last = hlo_type_of(c, 0)->rank - 1;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
                                graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
                                graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &last, 1),
                                graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &zero, 1)};
    return hlo_product(c, GRAPH_DOT_GENERAL, attrs, 4);
}

/* The format may be written as e5m10. */
static shoal_status reduce_precision(hlo_call *c) {
    const hlo_attr *format = hlo_attr_of(c, "format", NULL);
    SHOAL_TRY(hlo_need(c, 1, 1));
    if (!format) return hlo_row(c, GRAPH_REDUCE_PRECISION, NULL, 0, NULL, 0);
    char text[32], after;
    int exponent, mantissa;
    hlo_copy(format->text, text, sizeof text);
    if (sscanf(text, "e%3dm%3d%c", &exponent, &mantissa, &after) != 2)
        return hlo_fail(c, "the format '%s' is not as e5m10", text);
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_EXPONENT_BITS, exponent),
                                graph_int(SHOAL_ATTR_MANTISSA_BITS, mantissa)};
    return hlo_row(c, GRAPH_REDUCE_PRECISION, attrs, 2, NULL, 0);
}

/* In front of the axes that there are. */
static shoal_status broadcast(hlo_call *c) {
    int64_t axes[SHOAL_MAX_RANK];
    shoal_type type;
    SHOAL_TRY(hlo_need(c, 1, 1));
    SHOAL_TRY(hlo_shape(c, UINT32_MAX, &type));
    uint32_t rank = hlo_type_of(c, 0)->rank;
    if (type.rank < rank) return hlo_fail(c, "the result has fewer axes than the operand");
    for (uint32_t i = 0; i < rank; i++) axes[i] = type.rank - rank + i;
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = spread(&m, c->in[0], &type, axes);
    return m.status;
}

/* Of unsigned numbers, what added to them gives 0. */
static shoal_status negate(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 1, 1));
    if (shoal_dtype_kind((shoal_dtype)hlo_type_of(c, 0)->dtype) != 'u')
        return hlo_row(c, GRAPH_NEGATE, NULL, 0, NULL, 0);
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = two(&m, GRAPH_SUBTRACT, like(&m, c->in[0], 0), c->in[0]);
    return m.status;
}

/* Which of several programs runs: there is one. */
static shoal_status first_program(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 0, 1));
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = splat(&m, (shoal_type){.dtype = SHOAL_U32}, 0);
    return m.status;
}

/* ---- what cannot be imported ---- */

static const struct {
    const char *name, *why;
} refused[] = {
    {"after_all", "tokens order what programs do to the world outside, which Shoal's do not"},
    {"create_token", "tokens order what programs do to the world outside, which Shoal's do not"},
    {"infeed", "programs take what they need as arguments"},
    {"outfeed", "programs hand over what they make as results"},
    {"send", "programs do not talk to others; Shoal itself divides a program"},
    {"recv", "programs do not talk to others; Shoal itself divides a program"},
    {"async_start", "programs do not wait for others; Shoal itself runs in parallel what it can"},
    {"async_done", "programs do not wait for others; Shoal itself runs in parallel what it can"},
    {"all_gather", "Shoal divides programs itself; hand it the one that is not divided"},
    {"all_reduce", "Shoal divides programs itself; hand it the one that is not divided"},
    {"all_to_all", "Shoal divides programs itself; hand it the one that is not divided"},
    {"reduce_scatter", "Shoal divides programs itself; hand it the one that is not divided"},
    {"cross-replica-sum", "Shoal divides programs itself; hand it the one that is not divided"},
    {"collective_broadcast", "Shoal divides programs itself; hand it the one that is not divided"},
    {"collective_permute", "Shoal divides programs itself; hand it the one that is not divided"},
    {"complex", "there are no complex numbers; carry the two parts as two tensors"},
    {"fft", "there are no complex numbers; write the transform as products with sines and cosines"},
    {"uniform_quantize",
     "there are no quantized types of MLIR; write scale and offset as operations"},
    {"uniform_dequantize",
     "there are no quantized types of MLIR; write scale and offset as operations"},
};

static size_t find_refused(const char *name) {
    size_t i = 0, n = sizeof refused / sizeof *refused;
    while (i < n && strcmp(refused[i].name, name)) i++;
    return i;
}

static shoal_status refuse(hlo_call *c) {
    size_t i = find_refused(strchr(c->op->name, '.') + 1);
    return hlo_fail(c, "this operation cannot be imported: %s", refused[i].why);
}

shoal_status hlo_refuse(const hlo_call *c) {
    return hlo_fail(c, hlo_is_foreign(c->op->name) ? HLO_FOREIGN
                                                   : "this operation cannot be imported");
}

/* The parts of numbers that are not complex. */
static shoal_status part_of(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 1, 1));
    maker m = {c->s->g, SHOAL_OK};
    bool real = !strcmp(strchr(c->op->name, '.'), ".real");
    if (shoal_dtype_kind((shoal_dtype)hlo_type_of(c, 0)->dtype) != 'f')
        return hlo_fail(c, "it works on floating types");
    c->out[0] = real ? c->in[0] : like(&m, c->in[0], 0);
    return m.status;
}

/* ---- which rule ---- */

static const hlo_named_rule rules[] = {{"stablehlo.constant", constant},
                                       {"arith.constant", constant},
                                       {"stablehlo.convert", convert_to},
                                       {"stablehlo.compare", compare_them},
                                       {"stablehlo.dot_general", dot_general},
                                       {"stablehlo.dot", dot},
                                       {"stablehlo.reduce_precision", reduce_precision},
                                       {"stablehlo.broadcast", broadcast},
                                       {"stablehlo.negate", negate},
                                       {"stablehlo.optimization_barrier", identity},
                                       {"stablehlo.copy", identity},
                                       {"sdy.sharding_constraint", identity},
                                       {"tensor.cast", identity},
                                       {"builtin.unrealized_conversion_cast", identity},
                                       {"stablehlo.partition_id", first_program},
                                       {"stablehlo.replica_id", first_program},
                                       {"stablehlo.real", part_of},
                                       {"stablehlo.imag", part_of},
                                       {NULL, NULL}};

hlo_rule *hlo_rule_of(const char *name) {
    static hlo_rule *(*const tables[])(const char *name) = {
        hlo_control_rule, hlo_window_rule, hlo_dynamic_rule, hlo_random_rule,
        hlo_linear_rule,  hlo_norm_rule,   hlo_chlo_rule,    hlo_idiom_rule};
    char standard[64];
    if (!strncmp(name, "mhlo.", 5)) { /* StableHLO's older name */
        snprintf(standard, sizeof standard, "stablehlo.%s", name + 5);
        name = standard;
    }
    hlo_rule *rule = hlo_look_up(rules, name);
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !rule; i++) rule = tables[i](name);
    if (rule) return rule;
    const char *dot_at = strchr(name, '.');
    if (!strncmp(name, "stablehlo.", 10) &&
        find_refused(dot_at + 1) < sizeof refused / sizeof *refused)
        return refuse;
    uint16_t op;
    if (!dot_at || shoal_op_find(dot_at + 1, &op) != SHOAL_OK) return NULL;
    size_t n = (size_t)(dot_at - name);
    bool own = strlen(graph_dialect(op)) == n && !strncmp(graph_dialect(op), name, n);
    return own && graph_op_is_standard(op) ? plain : NULL;
}
