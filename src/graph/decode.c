/* From bytes of anybody to a graph. protobuf-c allocates from an arena with a limit, everything is
 * then built through graph_add, which checks it: there is no second set of rules. */
#include "graph/graph.h"

#include "graph.pb-c.h"

#include <stdlib.h>
#include <string.h>

typedef struct decoder {
    const Shoal__Ir__Module *module;
    base_arena *arena;
    uint16_t *operations; /* numbers here, per module->operations */
    graph **functions;    /* those built so far; NULL once used as a region */
    uint32_t *depth;      /* of regions inside, per function */
} decoder;

static shoal_status read_type(const Shoal__Ir__Type *from, shoal_type *to) {
    if (from->dtype >= SHOAL_DTYPE_COUNT || from->n_dims > SHOAL_MAX_RANK)
        return base_fail(SHOAL_FORMAT, "element type %u or rank %zu does not exist", from->dtype,
                         from->n_dims);
    *to = (shoal_type){.dtype = (uint8_t)from->dtype, .rank = (uint8_t)from->n_dims};
    if (from->n_dims) memcpy(to->dims, from->dims, from->n_dims * sizeof *from->dims);
    return SHOAL_OK;
}

static shoal_status read_attr(const Shoal__Ir__Attribute *from, shoal_attr *to) {
    if (from->key >= SHOAL_ATTR_KEY_COUNT)
        return base_fail(SHOAL_FORMAT, "attribute key %u does not exist", from->key);
    if (from->n_numbers > UINT32_MAX || from->data.len > UINT32_MAX)
        return base_fail(SHOAL_FORMAT, "attribute %s is over 4 GiB",
                         graph_attr_name((uint16_t)from->key));
    shoal_attr_key key = (shoal_attr_key)from->key;
    switch (graph_attr_kind(key)) {
    case SHOAL_ATTR_KIND_INT: *to = graph_int(key, from->number); break;
    case SHOAL_ATTR_KIND_INTS: *to = graph_ints(key, from->numbers, from->n_numbers); break;
    case SHOAL_ATTR_KIND_STRING: *to = graph_string(key, from->text); break;
    case SHOAL_ATTR_KIND_BYTES: *to = graph_bytes(key, from->data.data, from->data.len); break;
    case SHOAL_ATTR_KIND_FLOAT: *to = graph_float(key, from->real); break;
    case SHOAL_ATTR_KIND_BOOL: *to = graph_bool(key, from->number); break;
    }
    return SHOAL_OK;
}

static shoal_status read_string(const decoder *d, uint32_t number, const char **out) {
    if (number > d->module->n_strings)
        return base_fail(SHOAL_FORMAT, "string %u of %zu", number, d->module->n_strings);
    *out = number ? d->module->strings[number - 1] : NULL;
    return SHOAL_OK;
}

/* Takes a function as a region; `depth` becomes what its user has inside. */
static shoal_status take_region(decoder *d, uint32_t function, uint32_t number,
                                const shoal_graph **out) {
    if (number >= function || !d->functions[number])
        return base_fail(SHOAL_FORMAT, "region %u is not a function before it, used once", number);
    *out = graph_data(d->functions[number]);
    d->functions[number] = NULL;
    if (d->depth[function] < d->depth[number] + 1) d->depth[function] = d->depth[number] + 1;
    if (d->depth[function] > GRAPH_MAX_DEPTH)
        return base_fail(SHOAL_INVALID, "regions are nested deeper than %d", GRAPH_MAX_DEPTH);
    return SHOAL_OK;
}

static shoal_status read_node(decoder *d, uint32_t function, const Shoal__Ir__Node *node,
                              graph *to) {
    shoal_attr attrs[SHOAL_ATTR_KEY_COUNT] = {0};
    const char *location = NULL, *scope = NULL;
    if (node->operation >= d->module->n_operations)
        return base_fail(SHOAL_FORMAT, "operation %u of %zu", node->operation,
                         d->module->n_operations);
    if (node->n_attributes > SHOAL_ATTR_KEY_COUNT || node->n_regions > UINT16_MAX ||
        node->n_inputs > UINT32_MAX)
        return base_fail(SHOAL_FORMAT, "%zu attributes, %zu regions and %zu operands",
                         node->n_attributes, node->n_regions, node->n_inputs);
    const shoal_graph **regions = base_arena_array(d->arena, const shoal_graph *, node->n_regions);
    if (!regions) return SHOAL_NO_MEMORY;
    for (size_t i = 0; i < node->n_attributes; i++)
        SHOAL_TRY(read_attr(node->attributes[i], &attrs[i]));
    for (size_t i = 0; i < node->n_regions; i++)
        SHOAL_TRY(take_region(d, function, node->regions[i], &regions[i]));
    SHOAL_TRY(read_string(d, node->location, &location));
    SHOAL_TRY(read_string(d, node->scope, &scope));
    SHOAL_TRY(graph_at(to, location, scope));
    return graph_add(to, d->operations[node->operation], node->inputs, (uint32_t)node->n_inputs,
                     attrs, (uint16_t)node->n_attributes, regions, (uint16_t)node->n_regions, NULL);
}

static shoal_status read_function(decoder *d, uint32_t index, graph *to) {
    const Shoal__Ir__Function *f = d->module->functions[index];
    SHOAL_TRY(graph_reserve(to, f->n_nodes, f->n_inputs + f->n_nodes));
    for (size_t i = 0; i < f->n_inputs; i++) {
        shoal_type type;
        uint32_t value;
        SHOAL_TRY(read_type(f->inputs[i], &type));
        SHOAL_TRY(graph_add_input(to, &type, &value));
    }
    for (size_t i = 0; i < f->n_nodes; i++) {
        shoal_status status = read_node(d, index, f->nodes[i], to);
        if (status != SHOAL_OK) return base_fail_prefix(status, "node %zu: ", i);
    }
    for (size_t i = 0; i < f->n_outputs; i++) SHOAL_TRY(graph_add_output(to, f->outputs[i]));
    return SHOAL_OK;
}

static shoal_status read_module(decoder *d, graph *g) {
    const Shoal__Ir__Module *m = d->module;
    if (m->version != SHOAL_IR_VERSION)
        return base_fail(SHOAL_VERSION, "version %u; this is %d", m->version, SHOAL_IR_VERSION);
    if (!m->n_functions || m->n_functions > UINT32_MAX)
        return base_fail(SHOAL_FORMAT, "%zu functions", m->n_functions);
    d->operations = base_arena_array(d->arena, uint16_t, m->n_operations);
    d->functions = base_arena_array(d->arena, graph *, m->n_functions);
    d->depth = base_arena_array(d->arena, uint32_t, m->n_functions);
    if (!d->operations || !d->functions || !d->depth) return SHOAL_NO_MEMORY;
    for (size_t i = 0; i < m->n_operations; i++)
        SHOAL_TRY(shoal_op_find(m->operations[i], &d->operations[i]));
    uint32_t last = (uint32_t)m->n_functions - 1;
    for (uint32_t i = 0; i <= last; i++) {
        d->functions[i] = g;
        if (i < last) SHOAL_TRY(graph_add_region(g, &d->functions[i]));
        shoal_status status = read_function(d, i, d->functions[i]);
        if (status != SHOAL_OK) return base_fail_prefix(status, "function %u: ", i);
    }
    for (uint32_t i = 0; i < last; i++)
        if (d->functions[i]) return base_fail(SHOAL_FORMAT, "function %u is not used", i);
    return SHOAL_OK;
}

/* protobuf-c's allocator over the arena; the arena frees everything at once. */
static void *allocate(void *arena, size_t bytes) { return base_arena_alloc(arena, bytes); }
static void release(void *arena, void *data) {}

static shoal_status decode(base_arena *arena, const void *data, size_t bytes, size_t limit,
                           graph **out) {
    ProtobufCAllocator allocator = {allocate, release, arena};
    base_fail(SHOAL_FORMAT, "malformed"); /* unless the arena says that there is no memory */
    Shoal__Ir__Module *module = shoal__ir__module__unpack(&allocator, bytes, data);
    if (!module) return base_fail_prefix(SHOAL_FORMAT, "%zu bytes of a graph: ", bytes);
    decoder d = {.module = module, .arena = arena};
    /* The messages stay until the graph is made: it gets what they left of the limit. */
    size_t rest = arena->held < limit ? limit - arena->held : 1;
    graph *g;
    SHOAL_TRY(graph_new(limit ? rest : 0, &g));
    shoal_status status = read_module(&d, g);
    if (status != SHOAL_OK) {
        graph_destroy(&g);
        return base_fail_prefix(status, "malformed graph: ");
    }
    *out = g;
    return SHOAL_OK;
}

shoal_status graph_decode(const void *data, size_t bytes, size_t limit, graph **out) {
    base_arena arena;
    base_arena_init(&arena, limit);
    shoal_status status = decode(&arena, data, bytes, limit, out);
    base_arena_fini(&arena);
    return status;
}
