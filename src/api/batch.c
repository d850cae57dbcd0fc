/* Batches: handles that stand for one index of a tensor, whose operations compute for all indices
 * at once by the batch rules (src/graph/batch.c). The handle has the type of one index; `whole` has
 * the values of all, along its first axis. What is done to the wholes is recorded as any operation
 * is, so that a whole may itself be one index of a batch outside, and gradients pass inside and
 * outside alike. */
#include "api/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- handles ---- */

static shoal_status wrap(shoal_tensor *whole, const shoal_type *type, uint32_t level, bool each,
                         shoal_tensor **out) {
    SHOAL_TRY(api_tensor_alloc(whole->session, type, out));
    (*out)->whole = shoal_tensor_retain(whole);
    (*out)->level = level;
    (*out)->each = each;
    return SHOAL_OK;
}

static shoal_status batch(shoal_tensor *x, uint32_t level, bool each, shoal_tensor **out) {
    char text[BASE_TYPE_TEXT];
    shoal_type type = x->type;
    SHOAL_TRY(api_check(x->session));
    if (level <= api_base(x)->level)
        return base_fail(SHOAL_INVALID, "vmap: level %u is not above that of the tensor, %u", level,
                         api_base(x)->level);
    if (each && !type.rank)
        return base_fail(SHOAL_INVALID, "vmap: %s has no axis", base_type_text(&x->type, text));
    if (each) memmove(type.dims, type.dims + 1, --type.rank * sizeof *type.dims);
    return wrap(x, &type, level, each, out);
}

shoal_status shoal_tensor_batch(shoal_tensor *x, uint32_t level, bool each, shoal_tensor **out) {
    *out = NULL;
    pthread_mutex_lock(&x->session->lock);
    shoal_status status = batch(x, level, each, out);
    pthread_mutex_unlock(&x->session->lock);
    return status;
}

shoal_tensor *shoal_tensor_whole(shoal_tensor *x, uint32_t *level, bool *each) {
    const shoal_tensor *base = api_base(x);
    *level = base->level;
    *each = base->each;
    return shoal_tensor_retain(base->whole);
}

shoal_status api_batch_detach(shoal_tensor *x, shoal_tensor **out) {
    const shoal_tensor *base = api_base(x);
    shoal_tensor *whole;
    if (!base->whole) return api_alias(x, out);
    SHOAL_TRY(api_batch_detach(base->whole, &whole));
    shoal_status status = wrap(whole, &x->type, base->level, base->each, out);
    shoal_tensor_free(&whole);
    return status;
}

/* ---- operations ---- */

typedef struct batching {
    shoal_session *session;
    graph *g;
    uint32_t level;
    int64_t n;
    bool any;             /* some operand differs from index to index */
    shoal_tensor **bound; /* per value of g: its tensor */
    bool *held;           /* and whether it is to be freed */
    shoal_type *types;    /* per operand, for one index */
    uint32_t *inputs;
    bool *each;
} batching;

static shoal_status add_operands(batching *b, shoal_tensor *const *inputs, uint32_t n_inputs) {
    base_arena *arena = graph_arena(b->g);
    b->types = base_arena_array(arena, shoal_type, n_inputs + 1u);
    b->inputs = base_arena_array(arena, uint32_t, n_inputs + 1u);
    b->each = base_arena_array(arena, bool, n_inputs + 1u);
    if (!b->types || !b->inputs || !b->each) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n_inputs; i++) {
        const shoal_tensor *base = api_base(inputs[i]);
        bool inside = base->level == b->level;
        b->types[i] = inputs[i]->type;
        b->each[i] = inside && base->each;
        SHOAL_TRY(
            graph_add_input(b->g, b->each[i] ? &base->whole->type : &b->types[i], &b->inputs[i]));
        if (!b->each[i]) continue;
        int64_t n = base->whole->type.dims[0];
        if (b->any && n != b->n)
            return base_fail(SHOAL_INVALID, "vmap: batches of %lld and of %lld meet",
                             (long long)b->n, (long long)n);
        b->any = true;
        b->n = n;
    }
    return SHOAL_OK;
}

/* Records a node of g; its results are bound. */
static shoal_status emit(batching *b, const shoal_node *node, const char *at, const char *scope) {
    shoal_tensor *outputs[GRAPH_MAX_OUTPUTS];
    base_arena *arena = graph_arena(b->g);
    shoal_tensor **inputs = base_arena_alloc_array(arena, sizeof *inputs, node->n_inputs + 1u);
    const shoal_graph **regions =
        base_arena_alloc_array(arena, sizeof *regions, node->n_regions + 1u);
    if (!inputs || !regions) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = b->bound[node->inputs[i]];
    if (!b->session->trace) SHOAL_TRY(graph_new(0, &b->session->trace));
    for (uint16_t r = 0; r < node->n_regions; r++)
        SHOAL_TRY(graph_copy_body(b->session->trace, node->regions[r], &regions[r]));
    SHOAL_TRY(api_apply_at(b->session, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                           regions, node->n_regions, at, scope, outputs, node->n_outputs));
    for (uint16_t o = 0; o < node->n_outputs; o++) {
        b->bound[node->first_output + o] = outputs[o];
        b->held[node->first_output + o] = true;
    }
    return SHOAL_OK;
}

static shoal_status emit_all(batching *b, shoal_tensor *const *inputs, uint32_t n_inputs,
                             const char *at, const char *scope) {
    const shoal_graph *data = graph_data(b->g);
    b->bound = base_arena_alloc_array(graph_arena(b->g), sizeof *b->bound, data->n_values + 1u);
    b->held = base_arena_array(graph_arena(b->g), bool, data->n_values + 1u);
    if (!b->bound || !b->held) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n_inputs; i++) {
        shoal_tensor *base = api_base(inputs[i]);
        b->bound[b->inputs[i]] = base->level == b->level ? base->whole : inputs[i];
    }
    for (uint32_t i = 0; i < data->n_nodes; i++) SHOAL_TRY(emit(b, &data->nodes[i], at, scope));
    return SHOAL_OK;
}

/* The call for one index, as a graph: checked, with its attributes in order. */
static shoal_status single(batching *b, const graph_call *call, graph *one) {
    uint32_t first, *inputs = base_arena_array(graph_arena(one), uint32_t, call->n_inputs + 1u);
    if (!inputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < call->n_inputs; i++)
        SHOAL_TRY(graph_add_input(one, &b->types[i], &inputs[i]));
    SHOAL_TRY(graph_add(one, call->op, inputs, call->n_inputs, call->attrs, call->n_attrs,
                        call->regions, call->n_regions, &first));
    for (uint16_t o = 0; o < graph_data(one)->nodes[0].n_outputs; o++)
        SHOAL_TRY(graph_add_output(one, first + o));
    return SHOAL_OK;
}

static shoal_status apply(batching *b, const graph_call *call, graph *one,
                          shoal_tensor *const *inputs, const char *at, const char *scope,
                          shoal_tensor **outputs, uint16_t n_outputs) {
    uint32_t found[GRAPH_MAX_OUTPUTS];
    SHOAL_TRY(add_operands(b, inputs, call->n_inputs));
    SHOAL_TRY(single(b, call, one));
    const shoal_graph *data = graph_data(one);
    if (b->any)
        SHOAL_TRY(graph_batch_graph(data, b->g, b->n, b->inputs, b->each, found));
    else
        SHOAL_TRY(graph_add(b->g, call->op, b->inputs, call->n_inputs, call->attrs, call->n_attrs,
                            call->regions, call->n_regions, &found[0]));
    SHOAL_TRY(emit_all(b, inputs, call->n_inputs, at, scope));
    for (uint16_t o = 0; o < n_outputs; o++)
        SHOAL_TRY(wrap(b->bound[b->any ? found[o] : found[0] + o],
                       &data->values[data->outputs[o]].type, b->level, b->any, &outputs[o]));
    return SHOAL_OK;
}

uint32_t api_batch_level(shoal_tensor *const *inputs, uint32_t n_inputs) {
    uint32_t level = 0;
    for (uint32_t i = 0; i < n_inputs; i++)
        if (api_base(inputs[i])->level > level) level = api_base(inputs[i])->level;
    return level;
}

shoal_status api_batch_apply(shoal_session *session, uint32_t level, const graph_call *call,
                             shoal_tensor *const *inputs, const char *at, const char *scope,
                             shoal_tensor **outputs, uint16_t n_outputs) {
    batching b = {.session = session, .level = level};
    for (uint32_t i = 0; i < call->n_inputs; i++)
        if (inputs[i]->session != session)
            return base_fail(SHOAL_INVALID, "%s: operand %u belongs to another session",
                             shoal_op_name(call->op), i);
    graph *one = NULL;
    shoal_status status = graph_new(0, &b.g);
    if (status == SHOAL_OK) status = graph_new(0, &one);
    if (status == SHOAL_OK) status = apply(&b, call, one, inputs, at, scope, outputs, n_outputs);
    bool noted = false;
    for (uint32_t i = 0; i < call->n_inputs; i++) noted |= inputs[i]->origin != NULL;
    if (status == SHOAL_OK && noted)
        status = api_note(session, call->op, inputs, call->n_inputs, call->attrs, call->n_attrs,
                          call->regions, call->n_regions, at, outputs, n_outputs);
    for (uint32_t v = 0; b.held && v < graph_data(b.g)->n_values; v++)
        if (b.held[v]) shoal_tensor_free(&b.bound[v]);
    for (uint16_t o = 0; o < n_outputs && status != SHOAL_OK; o++) shoal_tensor_free(&outputs[o]);
    graph_destroy(&one);
    graph_destroy(&b.g);
    return status;
}
