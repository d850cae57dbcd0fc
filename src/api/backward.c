/* Gradients of tensors. What the tape holds of the outputs becomes a graph, which is
 * differentiated; of that, only nodes that the gradients need and that have not been computed are
 * recorded, with existing tensors as their operands. So a step of training, forward, backward and
 * update, is one program as long as nothing is read in between, and nothing is computed twice. */
#include "api/state.h"

#include <stdlib.h>
#include <string.h>

/* A leaf's value: it has more than one when it was changed in place between two uses. */
typedef struct use {
    shoal_tensor *tensor;
    uint32_t value, next; /* number + 1 of another use of the leaf */
} use;

typedef struct backward {
    shoal_session *session;
    graph *g;
    BASE_VEC(api_origin *) origins; /* that outputs derive from, in the order of recording */
    BASE_VEC(use) uses;
    BASE_VEC(shoal_tensor *) bound; /* per value of g: the tensor that has it, held, or NULL */
    base_map inputs;                /* handle -> value + 1 */
    uint32_t n_forward;             /* nodes that stand for the tape's */
    bool *needed;                   /* per node */
} backward;

/* ---- what the outputs derive from ---- */

static shoal_status push_origin(backward *b, shoal_tensor *tensor) {
    api_origin *origin = tensor->origin;
    if (!origin || origin->mark == b->session->mark) return SHOAL_OK;
    origin->mark = b->session->mark;
    origin->first = 0;
    origin->via = tensor;
    return base_vec_push(&b->origins, origin) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = (*(api_origin *const *)a)->number, y = (*(api_origin *const *)b)->number;
    return (x > y) - (x < y);
}

static shoal_status spent(const api_origin *origin) {
    return base_fail(SHOAL_INVALID,
                     "gradient: the operands of %s%s%s%s have been freed by an earlier gradient; "
                     "keep them with retain_graph",
                     shoal_op_name(origin->op), origin->location ? " (" : "",
                     origin->location ? origin->location : "", origin->location ? ")" : "");
}

static shoal_status collect(backward *b, shoal_tensor *const *outputs, uint32_t n) {
    b->session->mark++;
    for (uint32_t i = 0; i < n; i++) SHOAL_TRY(push_origin(b, outputs[i]));
    for (size_t at = 0; at < b->origins.count; at++) {
        api_origin *origin = b->origins.data[at];
        if (origin->spent) return spent(origin);
        for (uint32_t i = 0; i < origin->n_inputs; i++)
            SHOAL_TRY(push_origin(b, origin->inputs[i]));
    }
    if (b->origins.count)
        qsort(b->origins.data, b->origins.count, sizeof *b->origins.data, by_number);
    return SHOAL_OK;
}

/* ---- the graph ---- */

/* Notes the tensor of a value. It is held: its last other holder may be another thread. */
static shoal_status bind(backward *b, uint32_t value, shoal_tensor *tensor) {
    while (b->bound.count <= value)
        if (!base_vec_push(&b->bound, (shoal_tensor *)NULL)) return SHOAL_NO_MEMORY;
    b->bound.data[value] = shoal_tensor_retain(tensor);
    return SHOAL_OK;
}

/* A number is stated again, so that loops tell how often they go round; anything else is an input.
 */
static shoal_status add_value(backward *b, shoal_tensor *tensor, uint32_t *value) {
    const shoal_type *type = &tensor->type;
    const shoal_tensor *number = api_base(tensor);
    if (!number->is_number || type->rank) return graph_add_input(b->g, type, value);
    return graph_add_constant(b->g, type, &number->whole_number,
                              shoal_dtype_size((shoal_dtype)type->dtype), value);
}

static shoal_status input_value(backward *b, shoal_tensor *tensor, uint32_t *value) {
    uint64_t key = (uint64_t)(uintptr_t)api_base(tensor);
    api_origin *leaf = tensor->origin;
    if (leaf) {
        for (uint32_t at = leaf->first; at; at = b->uses.data[at - 1].next)
            if (api_base(b->uses.data[at - 1].tensor) == api_base(tensor)) {
                *value = b->uses.data[at - 1].value;
                return SHOAL_OK;
            }
    } else {
        uintptr_t known = (uintptr_t)base_map_get(&b->inputs, key);
        *value = (uint32_t)(known - 1);
        if (known) return SHOAL_OK;
    }
    SHOAL_TRY(add_value(b, tensor, value));
    SHOAL_TRY(bind(b, *value, tensor));
    if (!leaf) return base_map_set(&b->inputs, key, (void *)((uintptr_t)*value + 1));
    if (!base_vec_push(&b->uses, ((use){tensor, *value, leaf->first}))) return SHOAL_NO_MEMORY;
    leaf->first = (uint32_t)b->uses.count;
    return SHOAL_OK;
}

static shoal_status value_of(backward *b, shoal_tensor *tensor, uint32_t *value) {
    api_origin *origin = tensor->origin;
    if (!origin || origin->leaf) return input_value(b, tensor, value);
    *value = origin->first + tensor->result;
    return SHOAL_OK;
}

/* Holds a tensor unless its last holder has let go. */
static bool hold(shoal_tensor *tensor) {
    int refs = atomic_load(&tensor->refs);
    while (refs)
        if (atomic_compare_exchange_weak(&tensor->refs, &refs, refs + 1)) return true;
    return false;
}

/* Results that are there, or about to be, need not be computed. */
static shoal_status bind_results(backward *b, const api_origin *origin) {
    for (uint16_t o = 0; o < origin->n_outputs && !origin->again; o++) {
        shoal_tensor *tensor = origin->outputs[o];
        if (!tensor || api_base(tensor)->gone || !hold(tensor)) continue;
        shoal_status status = bind(b, origin->first + o, tensor);
        shoal_tensor_free(&tensor);
        SHOAL_TRY(status);
    }
    return SHOAL_OK;
}

static shoal_status add_origin(backward *b, api_origin *origin) {
    if (origin->leaf) return SHOAL_OK; /* its values come with its uses */
    uint32_t few[8], *inputs = few;
    const shoal_graph *bodies[8], **regions = bodies;
    if (origin->n_inputs > 8 && !(inputs = malloc(origin->n_inputs * sizeof *inputs)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for %u operands", origin->n_inputs);
    if (origin->n_regions > 8)
        regions = base_arena_alloc_array(graph_arena(b->g), sizeof *regions, origin->n_regions);
    shoal_status status = regions ? SHOAL_OK : SHOAL_NO_MEMORY;
    for (uint16_t r = 0; r < origin->n_regions && !status; r++)
        regions[r] = graph_data(origin->bodies[r]);
    for (uint32_t i = 0; i < origin->n_inputs && !status; i++)
        status = value_of(b, origin->inputs[i], &inputs[i]);
    if (!status) status = graph_at(b->g, origin->location, origin->backward);
    if (!status)
        status = graph_add(b->g, origin->op, inputs, origin->n_inputs, origin->attrs,
                           origin->n_attrs, regions, origin->n_regions, &origin->first);
    if (!status) status = bind_results(b, origin);
    if (inputs != few) free(inputs);
    return status;
}

static shoal_status ones(graph *g, const shoal_type *type, uint32_t *value) {
    static const unsigned char bits[SHOAL_DTYPE_COUNT][8] = {
        [SHOAL_F16] = {0, 0x3c},
        [SHOAL_BF16] = {0x80, 0x3f},
        [SHOAL_F32] = {0, 0, 0x80, 0x3f},
        [SHOAL_F64] = {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}};
    return graph_add_constant(g, type, bits[type->dtype],
                              shoal_dtype_size((shoal_dtype)type->dtype), value);
}

static shoal_status seed_of(backward *b, const shoal_tensor *output, shoal_tensor *seed,
                            uint32_t *value) {
    char x[BASE_TYPE_TEXT], y[BASE_TYPE_TEXT];
    if (!seed && base_type_count(&output->type) != 1)
        return base_fail(SHOAL_INVALID,
                         "gradient: the output is %s; a gradient of it must be given unless it is "
                         "one number",
                         base_type_text(&output->type, x));
    if (!seed) return ones(b->g, &output->type, value);
    if (seed->session != b->session)
        return base_fail(SHOAL_INVALID, "gradient: a seed belongs to another session");
    if (!base_type_equal(&seed->type, &output->type))
        return base_fail(SHOAL_INVALID, "gradient: the seed is %s; the output is %s",
                         base_type_text(&seed->type, x), base_type_text(&output->type, y));
    /* An input, whatever it derives from: that matters for gradients of gradients alone. */
    SHOAL_TRY(graph_add_input(b->g, &seed->type, value));
    return bind(b, *value, seed);
}

static shoal_status build(backward *b, shoal_tensor *const *outputs, uint32_t n) {
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        if (outputs[i]->session != b->session)
            return base_fail(SHOAL_INVALID, "gradient: output %u belongs to another session", i);
        any = any || outputs[i]->origin;
    }
    if (!any)
        return base_fail(SHOAL_INVALID,
                         "gradient: the output does not derive from a tensor that requires "
                         "gradients, or did so under no_grad");
    SHOAL_TRY(collect(b, outputs, n));
    SHOAL_TRY(graph_new(0, &b->g));
    for (size_t i = 0; i < b->origins.count; i++) SHOAL_TRY(add_origin(b, b->origins.data[i]));
    return SHOAL_OK;
}

/* ---- differentiating ---- */

/* The values of a tensor whose gradient is wanted: n of them, from at on; none that any output
 * derives from: 0. */
typedef struct target {
    uint32_t at, n;
} target;

static shoal_status targets_of(backward *b, shoal_tensor *const *wrt, uint32_t n_wrt,
                               uint32_t *values, target *targets, uint32_t *n_values) {
    for (uint32_t i = 0; i < n_wrt; i++) {
        char text[BASE_TYPE_TEXT];
        const api_origin *origin = wrt[i]->origin;
        if (!origin || wrt[i]->session != b->session)
            return base_fail(SHOAL_INVALID, "gradient: input %u, %s, does not require gradients", i,
                             base_type_text(&wrt[i]->type, text));
        targets[i] = (target){*n_values, 0};
        if (origin->mark != b->session->mark) continue;
        for (uint32_t at = origin->leaf ? origin->first : 0; at; at = b->uses.data[at - 1].next)
            values[*n_values + targets[i].n++] = b->uses.data[at - 1].value;
        if (!origin->leaf) values[*n_values + targets[i].n++] = origin->first + wrt[i]->result;
        *n_values += targets[i].n;
    }
    return SHOAL_OK;
}

/* gradients[i]: the value in b->g, or GRAPH_NO_VALUE. */
static shoal_status differentiate(backward *b, shoal_tensor *const *outputs,
                                  shoal_tensor *const *seeds, uint32_t n, shoal_tensor *const *wrt,
                                  uint32_t n_wrt, uint32_t *gradients) {
    base_arena *arena = graph_arena(b->g);
    /* A tensor may be named twice; its uses count each time. */
    size_t room = n_wrt * (b->uses.count + 1) + 1;
    uint32_t *values = base_arena_array(arena, uint32_t, 2 * room);
    uint32_t *ends = base_arena_array(arena, uint32_t, 2 * (size_t)n + 1);
    target *targets = base_arena_array(arena, target, n_wrt + 1);
    if (!values || !ends || !targets) return SHOAL_NO_MEMORY;
    uint32_t *found = values + room, n_values = 0, n_ends = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!outputs[i]->origin) continue;
        SHOAL_TRY(value_of(b, outputs[i], &ends[n_ends]));
        SHOAL_TRY(seed_of(b, outputs[i], seeds ? seeds[i] : NULL, &ends[n + n_ends]));
        n_ends++;
    }
    SHOAL_TRY(targets_of(b, wrt, n_wrt, values, targets, &n_values));
    b->n_forward = graph_data(b->g)->n_nodes;
    SHOAL_TRY(graph_differentiate(b->g, ends, ends + n, n_ends, values, n_values, NULL, found));
    for (uint32_t i = 0; i < n_wrt; i++) {
        gradients[i] = GRAPH_NO_VALUE;
        for (uint32_t k = targets[i].at; k < targets[i].at + targets[i].n; k++) {
            if (found[k] == GRAPH_NO_VALUE) continue;
            if (gradients[i] == GRAPH_NO_VALUE)
                gradients[i] = found[k];
            else
                SHOAL_TRY(graph_add(b->g, GRAPH_ADD, (uint32_t[]){gradients[i], found[k]}, 2, NULL,
                                    0, NULL, 0, &gradients[i]));
        }
    }
    return SHOAL_OK;
}

/* ---- recording ---- */

static shoal_tensor *bound_to(const backward *b, uint32_t value) {
    return value < b->bound.count ? b->bound.data[value] : NULL;
}

/* Marks nodes that the gradients need and whose results no tensor has. */
static shoal_status mark_needed(backward *b, const uint32_t *gradients, uint32_t n) {
    const shoal_graph *data = graph_data(b->g);
    bool *wanted = base_arena_array(graph_arena(b->g), bool, data->n_values + (size_t)1);
    b->needed = base_arena_array(graph_arena(b->g), bool, data->n_nodes + (size_t)1);
    if (!wanted || !b->needed) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if (gradients[i] != GRAPH_NO_VALUE) wanted[gradients[i]] = true;
    for (uint32_t at = data->n_nodes; at-- > 0;) {
        const shoal_node *node = &data->nodes[at];
        for (uint32_t v = node->first_output; v < node->first_output + node->n_outputs; v++)
            b->needed[at] = b->needed[at] || (wanted[v] && !bound_to(b, v));
        for (uint32_t i = 0; b->needed[at] && i < node->n_inputs; i++)
            wanted[node->inputs[i]] = true;
    }
    return SHOAL_OK;
}

/* Records one node; its results are bound to it. A node of the tape is one that is computed again,
 * in a scope of its own, so that the first one is not found and taken. */
static shoal_status record(backward *b, uint32_t at) {
    const shoal_node *node = &graph_data(b->g)->nodes[at];
    shoal_tensor *outputs[GRAPH_MAX_OUTPUTS];
    shoal_tensor **inputs =
        base_arena_alloc_array(graph_arena(b->g), sizeof *inputs, node->n_inputs);
    const shoal_graph **regions =
        base_arena_alloc_array(graph_arena(b->g), sizeof *regions, node->n_regions);
    if (!inputs || !regions) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = bound_to(b, node->inputs[i]);
    if (!b->session->trace) SHOAL_TRY(graph_new(0, &b->session->trace));
    for (uint16_t r = 0; r < node->n_regions; r++)
        SHOAL_TRY(graph_copy_body(b->session->trace, node->regions[r], &regions[r]));
    api_scope scope;
    api_scope_of(node->scope, &scope);
    SHOAL_TRY(api_scope_push(&scope));
    shoal_status status =
        api_apply_at(b->session, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                     regions, node->n_regions, node->location,
                     at < b->n_forward ? "again" : node->scope, outputs, node->n_outputs);
    api_scope_pop();
    SHOAL_TRY(status);
    for (uint16_t o = 0; o < node->n_outputs; o++) {
        uint32_t value = node->first_output + o;
        if (!status && !bound_to(b, value)) status = bind(b, value, outputs[o]);
        shoal_tensor_free(&outputs[o]);
    }
    return status;
}

static shoal_status record_needed(backward *b, const uint32_t *gradients, uint32_t n_wrt,
                                  bool create_graph, bool allow_unused, shoal_tensor **out) {
    int was = *api_mode();
    for (uint32_t i = 0; i < n_wrt; i++)
        if (gradients[i] == GRAPH_NO_VALUE && !allow_unused)
            return base_fail(SHOAL_INVALID,
                             "gradient: no output derives from input %u; if that is right, ask "
                             "with allow_unused",
                             i);
    SHOAL_TRY(mark_needed(b, gradients, n_wrt));
    *api_mode() = create_graph ? SHOAL_GRADIENTS_ON : SHOAL_GRADIENTS_OFF;
    shoal_status status = SHOAL_OK;
    uint32_t n = graph_data(b->g)->n_nodes;
    for (uint32_t at = 0; at < n && !status; at++)
        if (b->needed[at]) status = record(b, at);
    *api_mode() = was;
    for (uint32_t i = 0; i < n_wrt && !status; i++)
        if (gradients[i] != GRAPH_NO_VALUE) out[i] = shoal_tensor_retain(bound_to(b, gradients[i]));
    return status;
}

static void finish(backward *b) {
    for (size_t i = 0; i < b->bound.count; i++) shoal_tensor_free(&b->bound.data[i]);
    graph_destroy(&b->g);
    base_map_fini(&b->inputs);
    free(b->bound.data);
    free(b->uses.data);
    free(b->origins.data);
}

/* ---- the calls ---- */

static shoal_status gradients_of(backward *b, shoal_tensor *const *outputs,
                                 shoal_tensor *const *seeds, uint32_t n_outputs,
                                 shoal_tensor *const *wrt, uint32_t n_wrt,
                                 const shoal_gradient_options *options, shoal_tensor **out) {
    SHOAL_TRY(build(b, outputs, n_outputs));
    uint32_t *gradients = base_arena_array(graph_arena(b->g), uint32_t, n_wrt + (size_t)1);
    if (!gradients) return SHOAL_NO_MEMORY;
    SHOAL_TRY(differentiate(b, outputs, seeds, n_outputs, wrt, n_wrt, gradients));
    SHOAL_TRY(
        record_needed(b, gradients, n_wrt, options->create_graph, options->allow_unused, out));
    for (size_t i = 0; i < b->origins.count && !options->retain_graph && !options->create_graph;
         i++)
        api_origin_spend(b->origins.data[i]);
    return SHOAL_OK;
}

shoal_status shoal_gradients(shoal_tensor *const *outputs, shoal_tensor *const *seeds,
                             uint32_t n_outputs, shoal_tensor *const *wrt, uint32_t n_wrt,
                             const shoal_gradient_options *given, shoal_tensor **gradients) {
    shoal_gradient_options options = {0};
    for (uint32_t i = 0; i < n_wrt; i++) gradients[i] = NULL;
    if (given && (!given->size || given->size > sizeof options))
        return base_fail(SHOAL_INVALID,
                         "shoal_gradient_options.size is %zu; set it to "
                         "sizeof(shoal_gradient_options)",
                         given->size);
    if (given) memcpy(&options, given, given->size);
    if (!n_outputs) return base_fail(SHOAL_INVALID, "gradient: no outputs were given");
    backward b = {.session = outputs[0]->session};
    base_map_init(&b.inputs);
    pthread_mutex_lock(&b.session->lock);
    shoal_status status = api_check(b.session);
    if (status == SHOAL_OK) status = api_scope_refresh(b.session);
    api_drain(b.session);
    if (status == SHOAL_OK)
        status = gradients_of(&b, outputs, seeds, n_outputs, wrt, n_wrt, &options, gradients);
    finish(&b);
    if (status == SHOAL_OK && api_trace_is_full(b.session))
        status = api_flush(b.session, NULL, NULL, 0, NULL);
    pthread_mutex_unlock(&b.session->lock);
    for (uint32_t i = 0; i < n_wrt && status != SHOAL_OK; i++) shoal_tensor_free(&gradients[i]);
    return status;
}

static void list(shoal_tensor *tensor, shoal_tensor **targets, uint32_t room, uint32_t *n) {
    if (!tensor || !hold(tensor)) return;
    if (*n < room)
        targets[*n] = tensor;
    else
        shoal_tensor_free(&tensor);
    ++*n;
}

static shoal_status list_targets(backward *b, shoal_tensor *const *outputs, uint32_t n_outputs,
                                 shoal_tensor **targets, uint32_t room, uint32_t *n) {
    SHOAL_TRY(collect(b, outputs, n_outputs));
    for (size_t i = 0; i < b->origins.count; i++) {
        const api_origin *origin = b->origins.data[i];
        if (origin->leaf) list(origin->via, targets, room, n);
        for (uint16_t o = 0; o < origin->n_outputs; o++)
            if (origin->watched >> o & 1) list(origin->outputs[o], targets, room, n);
    }
    return SHOAL_OK;
}

shoal_status shoal_gradient_targets(shoal_tensor *const *outputs, uint32_t n_outputs,
                                    shoal_tensor **targets, uint32_t *count) {
    uint32_t room = *count;
    *count = 0;
    if (!n_outputs) return base_fail(SHOAL_INVALID, "gradient: no outputs were given");
    backward b = {.session = outputs[0]->session};
    base_map_init(&b.inputs);
    pthread_mutex_lock(&b.session->lock);
    shoal_status status = api_check(b.session);
    if (status == SHOAL_OK) status = list_targets(&b, outputs, n_outputs, targets, room, count);
    finish(&b);
    pthread_mutex_unlock(&b.session->lock);
    for (uint32_t i = 0; i < *count && i < room && status != SHOAL_OK; i++)
        shoal_tensor_free(&targets[i]);
    return status;
}
