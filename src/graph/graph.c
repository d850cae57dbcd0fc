/* The builder: graphs grow by appending, each node checked and its types inferred as it comes.
 * Everything lies in one arena, so that a limit holds for all of it and freeing is one step. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

struct graph {
    shoal_graph data; /* its address is what regions refer to; its arrays are those below */
    base_arena *arena;
    base_arena own; /* of the outermost graph; regions share it */
    shoal_node *nodes;
    shoal_value *values;
    uint32_t *inputs, *outputs;
    size_t node_room, value_room, input_room, output_room;
    const char *location, *scope;
};

shoal_status graph_new(size_t limit, graph **out) {
    graph *g = calloc(1, sizeof *g);
    if (!g) return base_fail(SHOAL_NO_MEMORY, "no memory for a graph");
    base_arena_init(&g->own, limit);
    g->arena = &g->own;
    *out = g;
    return SHOAL_OK;
}

void graph_destroy(graph **g) {
    if (!*g) return;
    base_arena_fini(&(*g)->own);
    free(*g);
    *g = NULL;
}

const shoal_graph *graph_data(const graph *g) { return &g->data; }

base_arena *graph_arena(graph *g) { return g->arena; }

/* Makes room for `more` items behind `count`. The old array stays in the arena until the end: at
 * most as much again. */
static shoal_status reserve(graph *g, void **data, size_t *room, size_t count, size_t more,
                            size_t item) {
    if (count + more <= *room) return SHOAL_OK;
    size_t bigger = *room ? 2 * *room : 4;
    if (bigger < count + more) bigger = count + more;
    void *copy = base_arena_alloc_array(g->arena, item, bigger);
    if (!copy) return SHOAL_NO_MEMORY;
    if (count) memcpy(copy, *data, count * item);
    *data = copy;
    *room = bigger;
    return SHOAL_OK;
}

static shoal_status reserve_values(graph *g, size_t more) {
    SHOAL_TRY(
        reserve(g, (void **)&g->values, &g->value_room, g->data.n_values, more, sizeof *g->values));
    g->data.values = g->values;
    return SHOAL_OK;
}

shoal_status graph_reserve(graph *g, size_t nodes, size_t values) {
    SHOAL_TRY(reserve_values(g, values));
    SHOAL_TRY(
        reserve(g, (void **)&g->nodes, &g->node_room, g->data.n_nodes, nodes, sizeof *g->nodes));
    g->data.nodes = g->nodes;
    return SHOAL_OK;
}

static shoal_status push_number(graph *g, uint32_t **list, size_t *room, uint32_t *count,
                                uint32_t number) {
    if (*count == GRAPH_MAX_NODES)
        return base_fail(SHOAL_INVALID, "a graph has at most %d inputs and outputs",
                         GRAPH_MAX_NODES);
    SHOAL_TRY(reserve(g, (void **)list, room, *count, 1, sizeof **list));
    (*list)[(*count)++] = number;
    return SHOAL_OK;
}

shoal_status graph_add_input(graph *g, const shoal_type *type, uint32_t *value) {
    int64_t elements;
    shoal_status status = base_type_elements(type, &elements);
    if (status != SHOAL_OK) return base_fail_prefix(status, "input %u: ", g->data.n_inputs);
    SHOAL_TRY(reserve_values(g, 1));
    uint32_t index = g->data.n_inputs;
    SHOAL_TRY(push_number(g, &g->inputs, &g->input_room, &g->data.n_inputs, g->data.n_values));
    g->data.inputs = g->inputs;
    *value = g->data.n_values++;
    g->values[*value] = (shoal_value){.node = SHOAL_NO_NODE, .index = index};
    shoal_type *kept = &g->values[*value].type;
    kept->dtype = type->dtype;
    kept->rank = type->rank;
    memcpy(kept->dims, type->dims, type->rank * sizeof type->dims[0]);
    return SHOAL_OK;
}

/* Copies one attribute's array; elements of constants are aligned for vector code. */
static shoal_status copy_attr(graph *g, shoal_attr *attr) {
    size_t bytes = attr->count, room;
    const void *from;
    void *to;
    switch (attr->kind) {
    case SHOAL_ATTR_KIND_INTS:
        from = attr->u.ints;
        room = bytes = attr->count * sizeof(int64_t);
        break;
    case SHOAL_ATTR_KIND_STRING:
        from = attr->u.string;
        room = bytes + 1;
        break;
    case SHOAL_ATTR_KIND_BYTES:
        from = attr->u.bytes;
        room = bytes < 64 ? 64 : bytes;
        break;
    default: return SHOAL_OK;
    }
    to = base_arena_alloc(g->arena, room);
    if (!to) return SHOAL_NO_MEMORY;
    if (bytes) memcpy(to, from, bytes);
    attr->u.bytes = to;
    return SHOAL_OK;
}

/* A sorted copy of the attributes' heads; their arrays are still the caller's. */
static shoal_status sort_attrs(graph *g, const shoal_attr *attrs, uint16_t n, shoal_attr **out) {
    shoal_attr *sorted = base_arena_array(g->arena, shoal_attr, n);
    if (!sorted) return SHOAL_NO_MEMORY;
    for (uint16_t i = 0; i < n; i++) {
        uint16_t at = i;
        for (; at && sorted[at - 1].key > attrs[i].key; at--) sorted[at] = sorted[at - 1];
        sorted[at] = attrs[i];
    }
    *out = sorted;
    return SHOAL_OK;
}

static shoal_status infer(graph *g, const graph_call *call, const uint32_t *inputs,
                          shoal_type *results, uint16_t *n_results) {
    shoal_type few[8], *types = few;
    /* Most nodes have few operands; the types of many are no longer needed after this. */
    if (call->n_inputs > 8 && !(types = malloc(call->n_inputs * sizeof *types)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for %u operands", call->n_inputs);
    for (uint32_t i = 0; i < call->n_inputs; i++) types[i] = g->values[inputs[i]].type;
    graph_call full = *call;
    full.inputs = types;
    shoal_status status = graph_infer(&full, results, graph_result_room(call), n_results);
    if (types != few) free(types);
    return status;
}

/* Keeps a checked node. */
static shoal_status keep(graph *g, const graph_call *call, shoal_attr *attrs,
                         const uint32_t *inputs, const shoal_type *results, uint16_t n_results) {
    for (uint16_t i = 0; i < call->n_attrs; i++) SHOAL_TRY(copy_attr(g, &attrs[i]));
    SHOAL_TRY(reserve(g, (void **)&g->nodes, &g->node_room, g->data.n_nodes, 1, sizeof *g->nodes));
    g->data.nodes = g->nodes;
    SHOAL_TRY(reserve_values(g, n_results));
    shoal_node node = {.op = call->op,
                       .n_attrs = call->n_attrs,
                       .n_outputs = n_results,
                       .n_regions = call->n_regions,
                       .n_inputs = call->n_inputs,
                       .first_output = g->data.n_values,
                       .attrs = attrs,
                       .location = g->location,
                       .scope = g->scope};
    node.inputs = base_arena_copy(g->arena, inputs, call->n_inputs * sizeof *inputs);
    node.regions =
        base_arena_copy(g->arena, call->regions, call->n_regions * sizeof *call->regions);
    if (!node.inputs || !node.regions) return SHOAL_NO_MEMORY;
    for (uint16_t i = 0; i < n_results; i++)
        g->values[g->data.n_values++] = (shoal_value){results[i], g->data.n_nodes, i};
    g->nodes[g->data.n_nodes++] = node;
    return SHOAL_OK;
}

shoal_status graph_add(graph *g, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
                       const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *const *regions,
                       uint16_t n_regions, uint32_t *first_output) {
    const char *name = shoal_op_name(op);
    if (!name) return base_fail(SHOAL_INVALID, "operation number %u does not exist", op);
    if (g->data.n_nodes == GRAPH_MAX_NODES)
        return base_fail(SHOAL_INVALID, "a graph has at most %d nodes", GRAPH_MAX_NODES);
    if (n_attrs > SHOAL_ATTR_KEY_COUNT)
        return base_fail(SHOAL_INVALID, "%s: %u attributes; there are only %d", name, n_attrs,
                         SHOAL_ATTR_KEY_COUNT);
    for (uint32_t i = 0; i < n_inputs; i++)
        if (inputs[i] >= g->data.n_values)
            return base_fail(SHOAL_INVALID, "%s: operand %u: there is no value %u", name, i,
                             inputs[i]);
    shoal_attr *sorted;
    SHOAL_TRY(sort_attrs(g, attrs, n_attrs, &sorted));
    shoal_type few[GRAPH_MAX_JOINED], *results = few;
    graph_call call = {.op = op,
                       .n_inputs = n_inputs,
                       .n_attrs = n_attrs,
                       .attrs = sorted,
                       .n_regions = n_regions,
                       .regions = regions};
    uint16_t n_results, room = graph_result_room(&call);
    if (room > GRAPH_MAX_JOINED && !(results = malloc(room * sizeof *results)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for %u results", room);
    uint32_t first = g->data.n_values;
    shoal_status status = infer(g, &call, inputs, results, &n_results);
    if (status == SHOAL_OK) status = keep(g, &call, sorted, inputs, results, n_results);
    if (results != few) free(results);
    if (status == SHOAL_OK && first_output) *first_output = first;
    return status;
}

shoal_status graph_add_constant(graph *g, const shoal_type *type, const void *data, size_t bytes,
                                uint32_t *value) {
    const shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, data, bytes),
                                graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank),
                                graph_int(SHOAL_ATTR_DTYPE, type->dtype)};
    return graph_add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, value);
}

shoal_status graph_add_output(graph *g, uint32_t value) {
    if (value >= g->data.n_values)
        return base_fail(SHOAL_INVALID, "output %u: there is no value %u", g->data.n_outputs,
                         value);
    SHOAL_TRY(push_number(g, &g->outputs, &g->output_room, &g->data.n_outputs, value));
    g->data.outputs = g->outputs;
    return SHOAL_OK;
}

void graph_clear_outputs(graph *g) { g->data.n_outputs = 0; }

shoal_status graph_add_region(graph *g, graph **out) {
    graph *region = base_arena_alloc(g->arena, sizeof *region);
    if (!region) return SHOAL_NO_MEMORY;
    region->arena = g->arena;
    *out = region;
    return SHOAL_OK;
}

shoal_status graph_add_body(graph *g, uint16_t op, shoal_dtype dtype, const shoal_graph **out) {
    shoal_type scalar = {.dtype = (uint8_t)dtype};
    graph *body;
    uint32_t inputs[2], output;
    SHOAL_TRY(graph_add_region(g, &body));
    SHOAL_TRY(graph_add_input(body, &scalar, &inputs[0]));
    SHOAL_TRY(graph_add_input(body, &scalar, &inputs[1]));
    SHOAL_TRY(graph_add(body, op, inputs, 2, NULL, 0, NULL, 0, &output));
    SHOAL_TRY(graph_add_output(body, output));
    *out = &body->data;
    return SHOAL_OK;
}

uint16_t graph_body_op(const shoal_graph *body) {
    if (body->n_inputs != 2 || body->n_outputs != 1 || body->n_nodes != 1) return UINT16_MAX;
    const shoal_node *node = &body->nodes[0];
    bool plain = node->n_inputs == 2 && node->n_outputs == 1 && node->n_attrs == 0 &&
                 node->first_output == body->outputs[0] && node->inputs[0] == body->inputs[0] &&
                 node->inputs[1] == body->inputs[1];
    return plain ? node->op : UINT16_MAX;
}

/* Locations repeat from node to node: one copy serves them all. */
static shoal_status keep_string(graph *g, const char **kept, const char *text) {
    if (text && *kept && !strcmp(text, *kept)) return SHOAL_OK;
    const char *copy = base_arena_string(g->arena, text);
    if (text && !copy) return SHOAL_NO_MEMORY;
    *kept = copy;
    return SHOAL_OK;
}

shoal_status graph_at(graph *g, const char *location, const char *scope) {
    if ((location && strnlen(location, GRAPH_MAX_TEXT + 1) > GRAPH_MAX_TEXT) ||
        (scope && strnlen(scope, GRAPH_MAX_TEXT + 1) > GRAPH_MAX_TEXT))
        return base_fail(SHOAL_INVALID, "the source line or the scope of a node has over %d bytes",
                         GRAPH_MAX_TEXT);
    SHOAL_TRY(keep_string(g, &g->location, location));
    return keep_string(g, &g->scope, scope);
}

graph_call graph_node_call(const shoal_graph *g, const shoal_node *node, shoal_type *types) {
    for (uint32_t i = 0; i < node->n_inputs; i++) types[i] = g->values[node->inputs[i]].type;
    return (graph_call){.op = node->op,
                        .n_inputs = node->n_inputs,
                        .inputs = types,
                        .n_attrs = node->n_attrs,
                        .attrs = node->attrs,
                        .n_regions = node->n_regions,
                        .regions = node->regions};
}
