/* Operations with bodies: loops, choices, calls, reductions. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"

/* ---- loops and choices ---- */

/* What the bodies take from around them is carried along, unchanged. */
static shoal_status while_loop(hlo_call *c) {
    hlo_captures captures;
    const shoal_graph *bodies[2];
    base_arena *arena = &c->s->in->r.p.arena;
    if (c->op->n_regions != 2) return hlo_fail(c, "it has %u bodies, not 2", c->op->n_regions);
    SHOAL_TRY(hlo_need(c, c->n_in, c->n_in));
    SHOAL_TRY(hlo_capture(c, c->op->regions, &captures));
    size_t n = (size_t)c->n_in + captures.handed;
    uint32_t *inputs = base_arena_array(arena, uint32_t, n), at = c->n_in;
    shoal_type *types = base_arena_array(arena, shoal_type, (size_t)c->n_in);
    if (!inputs || !types) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < c->n_in; i++) {
        inputs[i] = c->in[i];
        types[i] = *hlo_type_of(c, i);
    }
    for (uint32_t i = 0; i < captures.count; i++)
        if (!captures.is_constant[i]) inputs[at++] = captures.values[i];
    const hlo_region *region = c->op->regions;
    for (int i = 0; i < 2; i++, region = region->next) {
        if (region->arguments.count != c->n_in)
            return hlo_fail(c, "body %d takes %zu arguments, not %u", i, region->arguments.count,
                            c->n_in);
        SHOAL_TRY(hlo_body(c, region, types, &captures, i == 1, &bodies[i]));
    }
    return hlo_row_of(c, GRAPH_WHILE, inputs, (uint32_t)n, NULL, 0, bodies, 2);
}

static shoal_status choice(hlo_call *c, uint16_t op) {
    hlo_captures captures;
    base_arena *arena = &c->s->in->r.p.arena;
    uint16_t n = 0;
    if (c->n_in != 1) return hlo_fail(c, "it has %u operands, not 1", c->n_in);
    SHOAL_TRY(hlo_capture(c, c->op->regions, &captures));
    const shoal_graph **bodies = base_arena_alloc_array(arena, sizeof *bodies, c->op->n_regions);
    uint32_t *inputs = base_arena_array(arena, uint32_t, 1 + (size_t)captures.handed), at = 1;
    if (!bodies || !inputs) return SHOAL_NO_MEMORY;
    inputs[0] = c->in[0];
    for (uint32_t i = 0; i < captures.count; i++)
        if (!captures.is_constant[i]) inputs[at++] = captures.values[i];
    for (const hlo_region *region = c->op->regions; region; region = region->next) {
        if (region->arguments.count) return hlo_fail(c, "its bodies take no arguments");
        SHOAL_TRY(hlo_body(c, region, NULL, &captures, false, &bodies[n++]));
    }
    return hlo_row_of(c, op, inputs, at, NULL, 0, bodies, n);
}

static shoal_status if_else(hlo_call *c) { return choice(c, GRAPH_IF); }
static shoal_status switch_case(hlo_call *c) { return choice(c, GRAPH_CASE); }

/* ---- calls ---- */

static shoal_status call(hlo_call *c) {
    const hlo_attr *callee = hlo_attr_of(c, "callee", "symbol");
    if (!callee) return hlo_fail(c, "it does not say which function");
    return hlo_inline(c, callee->text);
}

/* What a composite means is a function of the text. */
static shoal_status composite(hlo_call *c) {
    const hlo_attr *body = hlo_attr_of(c, "decomposition", NULL);
    if (!body || body->kind != HLO_SYMBOL) return hlo_fail(c, "its decomposition is missing");
    return hlo_inline(c, body->text);
}

/* ---- bodies of scalars ---- */

static shoal_status reduce(hlo_call *c) {
    const hlo_attr *applies = hlo_attr_of(c, "applies", NULL);
    const shoal_graph *body;
    uint16_t op;
    if (!applies) {
        SHOAL_TRY(hlo_reducer(c, c->op->regions, &body));
        return hlo_row(c, GRAPH_REDUCE, NULL, 0, &body, 1);
    }
    char name[64];
    hlo_copy(applies->text, name, sizeof name);
    const char *dot_at = strchr(name, '.');
    if (!dot_at || shoal_op_find(dot_at + 1, &op) != SHOAL_OK || c->n_in != 2)
        return hlo_fail(c, "it applies %s, which joins no two numbers", name);
    SHOAL_TRY(graph_add_body(c->s->g, op, (shoal_dtype)hlo_type_of(c, 0)->dtype, &body));
    return hlo_row(c, GRAPH_REDUCE, NULL, 0, &body, 1);
}

/* Whether an operation makes a number of nothing, that is, a constant. */
static bool is_constant(const hlo_op *op) {
    return !op->operands.count && hlo_is_called(op, "constant");
}

/* Arguments of a body as those of whole tensors, and behind them what it takes from around it. */
static shoal_status whole_arguments(const hlo_call *c, const hlo_region *region,
                                    const hlo_captures *captures, hlo_region *whole,
                                    uint32_t *values) {
    const shoal_type *shape = hlo_type_of(c, 0);
    const shoal_graph *g = graph_data(c->s->g);
    for (uint32_t i = 0; i < c->n_in; i++) {
        whole->arguments.data[i].name = region->arguments.data[i].name;
        values[i] = c->in[i];
    }
    maker m = {c->s->g, SHOAL_OK};
    for (uint32_t i = 0; i < captures->count; i++) {
        if (captures->count != captures->names.count || g->values[captures->values[i]].type.rank)
            return hlo_fail(c, "its body uses what is around it; that must be single numbers");
        whole->arguments.data[c->n_in + i].name = captures->names.data[i];
        values[c->n_in + i] = spread(&m, captures->values[i], shape, NULL);
        g = graph_data(c->s->g);
    }
    SHOAL_TRY(m.status);
    whole->arguments.count = (size_t)c->n_in + captures->count;
    for (size_t i = 0; i < whole->arguments.count; i++)
        whole->arguments.data[i].type =
            (hlo_type){.tensor = true, .type = graph_data(c->s->g)->values[values[i]].type};
    return SHOAL_OK;
}

/* A body of elementwise operations does for whole tensors what it does for one element. */
static shoal_status map_elements(hlo_call *c) {
    const hlo_region *region = c->op->regions;
    hlo_captures captures;
    if (!region || !c->n_in || region->arguments.count != c->n_in || c->n_out != 1)
        return hlo_fail(c, "its body takes one argument for each operand");
    for (uint32_t i = 1; i < c->n_in; i++) {
        shoal_type same = *hlo_type_of(c, i);
        same.dtype = hlo_type_of(c, 0)->dtype;
        if (!base_type_equal(&same, hlo_type_of(c, 0)))
            return hlo_fail(c, "operand %u has another shape than the first", i);
    }
    SHOAL_TRY(hlo_capture(c, region, &captures));
    hlo_region whole = {.first = region->first};
    base_arena *arena = &c->s->in->r.p.arena;
    size_t n = (size_t)c->n_in + captures.count;
    uint32_t *values = base_arena_array(arena, uint32_t, n);
    whole.arguments.data = base_arena_array(arena, hlo_argument, n);
    if (!values || !whole.arguments.data) return SHOAL_NO_MEMORY;
    SHOAL_TRY(whole_arguments(c, region, &captures, &whole, values));
    for (hlo_op *op = whole.first; op; op = op->next)
        if ((!op->operands.count && !is_constant(op)) || op->n_regions)
            return hlo_fail(c, "'%.64s' in its body does not work on whole tensors", op->name);
    /* The types that the body states are those of one element. */
    for (hlo_op *op = whole.first; op; op = op->next)
        for (size_t i = 0; i < op->types.count; i++) {
            hlo_type *type = &op->types.data[i];
            if (!type->tensor || type->type.rank) continue;
            type->type.rank = hlo_type_of(c, 0)->rank;
            memcpy(type->type.dims, hlo_type_of(c, 0)->dims, sizeof type->type.dims);
        }
    return hlo_splice(c, &whole, values, c->out, 1);
}

static shoal_status sort(hlo_call *c) {
    const shoal_graph *body;
    int64_t axis;
    SHOAL_TRY(hlo_need(c, c->n_in, c->n_in));
    SHOAL_TRY(hlo_reducer(c, c->op->regions, &body));
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, "dimension", NULL), -1, &axis));
    if (c->n_in && axis < 0) axis += hlo_type_of(c, 0)->rank;
    const shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    return hlo_row(c, GRAPH_SORT, &attr, 1, &body, 1);
}

hlo_rule *hlo_control_rule(const char *name) {
    static const hlo_named_rule rules[] = {{"stablehlo.while", while_loop},
                                           {"stablehlo.if", if_else},
                                           {"stablehlo.case", switch_case},
                                           {"func.call", call},
                                           {"call", call},
                                           {"stablehlo.composite", composite},
                                           {"stablehlo.custom_call", hlo_custom_call},
                                           {"stablehlo.reduce", reduce},
                                           {"stablehlo.map", map_elements},
                                           {"stablehlo.sort", sort},
                                           {NULL, NULL}};
    return hlo_look_up(rules, name);
}
