/* From a graph to bytes: the messages of graph.proto in an arena, then packed. */
#include "graph/graph.h"

#include "base/map.h"
#include "base/vec.h"
#include "graph.pb-c.h"

#include <stdlib.h>
#include <string.h>

typedef struct encoder {
    base_arena arena;
    bool with_locations;
    uint32_t *operation_index; /* per operation number: its place in `operations`, plus 1 */
    base_map string_index;     /* hash of a text -> its entry */
    BASE_VEC(char *) operations;
    BASE_VEC(char *) strings;
    BASE_VEC(Shoal__Ir__Function *) functions;
} encoder;

typedef struct entry {
    const char *text;
    uint32_t number;
} entry;

static shoal_status operation_index(encoder *e, uint16_t op, uint32_t *out) {
    if (!e->operation_index[op]) {
        /* protobuf-c's structures are not const; packing does not write. */
        char *name = (char *)(uintptr_t)shoal_op_name(op);
        if (!base_vec_push(&e->operations, name)) return SHOAL_NO_MEMORY;
        e->operation_index[op] = (uint32_t)e->operations.count;
    }
    *out = e->operation_index[op] - 1;
    return SHOAL_OK;
}

static shoal_status string_number(encoder *e, const char *text, uint32_t *out) {
    *out = 0;
    if (!text) return SHOAL_OK;
    uint64_t key = base_hash(text, strlen(text));
    entry *known;
    while ((known = base_map_get(&e->string_index, key)) && strcmp(known->text, text)) key++;
    if (!known) {
        known = base_arena_alloc(&e->arena, sizeof *known);
        if (!known || !base_vec_push(&e->strings, (char *)(uintptr_t)text)) return SHOAL_NO_MEMORY;
        *known = (entry){text, (uint32_t)e->strings.count};
        SHOAL_TRY(base_map_set(&e->string_index, key, known));
    }
    *out = known->number;
    return SHOAL_OK;
}

/* An array of `count` new messages of a type, into `list`. */
#define NEW_MESSAGES(e, type, init, count, list)                                                   \
    do {                                                                                           \
        type *made_ = base_arena_array(&(e)->arena, type, count);                                  \
        (list) = base_arena_array(&(e)->arena, type *, count);                                     \
        if (!made_ || !(list)) return SHOAL_NO_MEMORY;                                             \
        for (size_t i_ = 0; i_ < (count); i_++) {                                                  \
            init(&made_[i_]);                                                                      \
            (list)[i_] = &made_[i_];                                                               \
        }                                                                                          \
    } while (0)

static void fill_attribute(const shoal_attr *attr, Shoal__Ir__Attribute *out) {
    out->key = attr->key;
    switch (graph_attr_kind(attr->key)) {
    case SHOAL_ATTR_KIND_INT:
    case SHOAL_ATTR_KIND_BOOL: out->number = attr->u.i; break;
    case SHOAL_ATTR_KIND_INTS:
        out->n_numbers = attr->count;
        out->numbers = (int64_t *)(uintptr_t)attr->u.ints;
        break;
    case SHOAL_ATTR_KIND_STRING: out->text = (char *)(uintptr_t)attr->u.string; break;
    case SHOAL_ATTR_KIND_BYTES:
        out->data = (ProtobufCBinaryData){attr->count, (uint8_t *)(uintptr_t)attr->u.bytes};
        break;
    case SHOAL_ATTR_KIND_FLOAT: out->real = attr->u.f; break;
    }
}

static shoal_status encode_function(encoder *e, const shoal_graph *g, uint32_t *index);

static shoal_status fill_node(encoder *e, const shoal_node *node, const uint32_t *number,
                              Shoal__Ir__Node *out) {
    SHOAL_TRY(operation_index(e, node->op, &out->operation));
    out->n_inputs = node->n_inputs;
    out->inputs = base_arena_array(&e->arena, uint32_t, node->n_inputs);
    out->n_regions = node->n_regions;
    out->regions = base_arena_array(&e->arena, uint32_t, node->n_regions);
    if (!out->inputs || !out->regions) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_inputs; i++) out->inputs[i] = number[node->inputs[i]];
    for (uint16_t i = 0; i < node->n_regions; i++)
        SHOAL_TRY(encode_function(e, node->regions[i], &out->regions[i]));
    out->n_attributes = node->n_attrs;
    NEW_MESSAGES(e, Shoal__Ir__Attribute, shoal__ir__attribute__init, node->n_attrs,
                 out->attributes);
    for (uint16_t i = 0; i < node->n_attrs; i++)
        fill_attribute(&node->attrs[i], out->attributes[i]);
    if (e->with_locations) SHOAL_TRY(string_number(e, node->location, &out->location));
    return string_number(e, node->scope, &out->scope);
}

/* Values in canonical order: inputs, then results. */
static uint32_t *number_values(encoder *e, const shoal_graph *g) {
    uint32_t *number = base_arena_array(&e->arena, uint32_t, g->n_values), next = 0;
    if (!number) return NULL;
    for (uint32_t i = 0; i < g->n_inputs; i++) number[g->inputs[i]] = next++;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint16_t i = 0; i < g->nodes[n].n_outputs; i++)
            number[g->nodes[n].first_output + i] = next++;
    return number;
}

static shoal_status encode_function(encoder *e, const shoal_graph *g, uint32_t *index) {
    Shoal__Ir__Function *f = base_arena_alloc(&e->arena, sizeof *f);
    uint32_t *number = number_values(e, g);
    if (!f || !number) return SHOAL_NO_MEMORY;
    shoal__ir__function__init(f);
    f->n_inputs = g->n_inputs;
    NEW_MESSAGES(e, Shoal__Ir__Type, shoal__ir__type__init, g->n_inputs, f->inputs);
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const shoal_type *type = &g->values[g->inputs[i]].type;
        f->inputs[i]->dtype = type->dtype;
        f->inputs[i]->n_dims = type->rank;
        f->inputs[i]->dims = (int64_t *)(uintptr_t)type->dims;
    }
    f->n_nodes = g->n_nodes;
    NEW_MESSAGES(e, Shoal__Ir__Node, shoal__ir__node__init, g->n_nodes, f->nodes);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        SHOAL_TRY(fill_node(e, &g->nodes[i], number, f->nodes[i]));
    f->n_outputs = g->n_outputs;
    f->outputs = base_arena_array(&e->arena, uint32_t, g->n_outputs);
    if (!f->outputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_outputs; i++) f->outputs[i] = number[g->outputs[i]];
    *index = (uint32_t)e->functions.count; /* after the bodies, which come first */
    return base_vec_push(&e->functions, f) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* protobuf-c's sink that appends to a base_str. */
typedef struct sink {
    ProtobufCBuffer base;
    base_str *out;
} sink;

static void append(ProtobufCBuffer *buffer, size_t bytes, const uint8_t *data) {
    base_str_bytes(((sink *)buffer)->out, data, bytes);
}

static shoal_status encode(encoder *e, const shoal_graph *g, base_str *out) {
    e->operation_index = base_arena_array(&e->arena, uint32_t, shoal_op_count());
    if (!e->operation_index) return SHOAL_NO_MEMORY;
    uint32_t index;
    SHOAL_TRY(encode_function(e, g, &index));
    Shoal__Ir__Module module = SHOAL__IR__MODULE__INIT;
    module.version = SHOAL_IR_VERSION;
    module.n_operations = e->operations.count;
    module.operations = e->operations.data;
    module.n_strings = e->strings.count;
    module.strings = e->strings.data;
    module.n_functions = e->functions.count;
    module.functions = e->functions.data;
    sink to = {{append}, out};
    protobuf_c_message_pack_to_buffer(&module.base, &to.base);
    return base_str_status(out);
}

shoal_status graph_encode(const shoal_graph *g, bool with_locations, base_str *out) {
    encoder e = {.with_locations = with_locations};
    base_arena_init(&e.arena, 0);
    base_map_init(&e.string_index);
    shoal_status status = encode(&e, g, out);
    base_map_fini(&e.string_index);
    free(e.operations.data);
    free(e.strings.data);
    free(e.functions.data);
    base_arena_fini(&e.arena);
    return status;
}
