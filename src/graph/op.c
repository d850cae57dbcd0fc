/* The table of operations: rows from ops.def and rows added at run time; the gates that check a
 * call before a row's rules see it; attributes. */
#include "graph/rules.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define graph_axes_none NULL
#define graph_localise_none NULL
#define graph_cost_none NULL
#define graph_decompose_none NULL
#define graph_gradient_none NULL
#define graph_batch_none NULL

static const graph_op_def built_in[] = {
#define OP(name, NAME, category, least, most, required, optional, regions, shape, axis, local,     \
           cost, kernel, decomposition, derivative, batching, reads, summary)                      \
    {#name,                                                                                        \
     summary,                                                                                      \
     category,                                                                                     \
     least,                                                                                        \
     most,                                                                                         \
     required,                                                                                     \
     optional,                                                                                     \
     regions,                                                                                      \
     graph_infer_##shape,                                                                          \
     graph_axes_##axis,                                                                            \
     graph_localise_##local,                                                                       \
     graph_cost_##cost,                                                                            \
     graph_decompose_##decomposition,                                                              \
     graph_gradient_##derivative,                                                                  \
     graph_batch_##batching,                                                                       \
     reads},
#include "graph/ops.def"
#undef OP
};

enum { MAX_OPS = 1024 };

/* Rows added at run time. Readers take no lock: a row is in place before the count shows it. */
static const graph_op_def *added[MAX_OPS - GRAPH_OP_BUILT_IN];
static atomic_uint op_count = GRAPH_OP_BUILT_IN;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const graph_op_def *graph_op(uint16_t op) {
    if (op < GRAPH_OP_BUILT_IN) return &built_in[op];
    return op < atomic_load_explicit(&op_count, memory_order_acquire)
               ? added[op - GRAPH_OP_BUILT_IN]
               : NULL;
}

uint16_t shoal_op_count(void) { return (uint16_t)atomic_load(&op_count); }

const char *shoal_op_name(uint16_t op) {
    const graph_op_def *def = graph_op(op);
    return def ? def->name : NULL;
}

const char *shoal_op_summary(uint16_t op) {
    const graph_op_def *def = graph_op(op);
    return def ? def->summary : NULL;
}

const char *shoal_op_category(uint16_t op) {
    const graph_op_def *def = graph_op(op);
    return def ? def->category : NULL;
}

/* The number of the operation with that name, or the count of operations. */
static uint16_t find(const char *name) {
    uint16_t count = shoal_op_count(), op = 0;
    while (op < count && strcmp(graph_op(op)->name, name)) op++;
    return op;
}

shoal_status shoal_op_find(const char *name, uint16_t *out) {
    uint16_t op = find(name);
    if (!graph_op(op)) return base_fail(SHOAL_NOT_FOUND, "there is no operation '%.64s'", name);
    *out = op;
    return SHOAL_OK;
}

static shoal_status add_row(const graph_op_def *def, uint16_t *out) {
    if (graph_op(find(def->name)))
        return base_fail(SHOAL_INVALID, "operation '%s' exists already", def->name);
    unsigned count = atomic_load(&op_count);
    if (count == MAX_OPS)
        return base_fail(SHOAL_NO_MEMORY, "no room for operation '%s': %d exist", def->name,
                         MAX_OPS);
    added[count - GRAPH_OP_BUILT_IN] = def;
    atomic_store_explicit(&op_count, count + 1, memory_order_release);
    *out = (uint16_t)count;
    return SHOAL_OK;
}

shoal_status graph_op_register(const graph_op_def *def, uint16_t *out) {
    if (!def->name || !def->name[0]) return base_fail(SHOAL_INVALID, "an operation needs a name");
    if (!def->infer || !def->axes)
        return base_fail(SHOAL_INVALID, "operation '%s' needs the functions infer and axes",
                         def->name);
    pthread_mutex_lock(&adding);
    shoal_status status = add_row(def, out);
    pthread_mutex_unlock(&adding);
    return status;
}

bool graph_op_is_standard(uint16_t op) { return strcmp(graph_dialect(op), "shoal") != 0; }

const char *graph_dialect(uint16_t op) {
    static const uint16_t own[] = {GRAPH_ARGMAX, GRAPH_ARGMIN, GRAPH_CUMULATE, GRAPH_RANDOM,
                                   GRAPH_IN_RANGE};
    if (op >= GRAPH_OP_BUILT_IN) return "shoal";
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (op == own[i]) return "shoal";
    if (op == GRAPH_ERF || op == GRAPH_TOP_K) return "chlo";
    bool ours = built_in[op].decompose || !strcmp(built_in[op].category, "shoal");
    return ours ? "shoal" : "stablehlo";
}

/* Whether a node is of an operation, or a body of its has one that is. */
static bool is_or_has(const shoal_node *node, uint16_t op) {
    bool found = node->op == op;
    for (uint32_t i = 0; i < node->n_regions; i++)
        for (uint32_t n = 0; n < node->regions[i]->n_nodes && !found; n++)
            found = is_or_has(&node->regions[i]->nodes[n], op);
    return found;
}

bool graph_may_fail(const shoal_node *node) { return is_or_has(node, GRAPH_IN_RANGE); }
bool graph_may_go_on(const shoal_node *node) { return is_or_has(node, GRAPH_WHILE); }

/* ---- attributes ---- */

static const struct {
    const char *name;
    shoal_attr_kind kind;
} keys[] = {
#define XX(name, text, kind) {text, SHOAL_ATTR_KIND_##kind},
    SHOAL_ATTR_MAP(XX)
#undef XX
};

const char *graph_attr_name(uint16_t key) {
    return key < SHOAL_ATTR_KEY_COUNT ? keys[key].name : "?";
}

shoal_attr_kind graph_attr_kind(uint16_t key) { return keys[key].kind; }

static const graph_key_group groups[] = {
    {"dot_dimension_numbers", "dot", SHOAL_ATTR_LHS_BATCHING_DIMENSIONS,
     SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, false},
    {"dimension_numbers", "gather", SHOAL_ATTR_OFFSET_DIMS, SHOAL_ATTR_START_INDEX_MAP, true},
    {"scatter_dimension_numbers", "scatter", SHOAL_ATTR_UPDATE_WINDOW_DIMS,
     SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, true},
};

const graph_key_group *graph_group_of(const graph_op_def *def) {
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (def->attrs_required >> groups[i].first & 1) return &groups[i];
    return NULL;
}

bool graph_group_has(const graph_key_group *group, uint16_t key) {
    return group && ((key >= group->first && key <= group->last) ||
                     (group->has_vector && key == SHOAL_ATTR_INDEX_VECTOR_DIM));
}

shoal_attr graph_int(shoal_attr_key key, int64_t value) {
    return (shoal_attr){(uint16_t)key, SHOAL_ATTR_KIND_INT, 1, .u.i = value};
}

shoal_attr graph_ints(shoal_attr_key key, const int64_t *values, size_t count) {
    return (shoal_attr){(uint16_t)key, SHOAL_ATTR_KIND_INTS, (uint32_t)count, .u.ints = values};
}

/* A number other than 0 and 1 stays, to be refused with the call. */
shoal_attr graph_bool(shoal_attr_key key, int64_t value) {
    return (shoal_attr){(uint16_t)key, SHOAL_ATTR_KIND_BOOL, 1, .u.i = value};
}

shoal_attr graph_float(shoal_attr_key key, double value) {
    return (shoal_attr){(uint16_t)key, SHOAL_ATTR_KIND_FLOAT, 1, .u.f = value};
}

shoal_attr graph_string(shoal_attr_key key, const char *text) {
    return (shoal_attr){(uint16_t)key, SHOAL_ATTR_KIND_STRING, (uint32_t)strlen(text),
                        .u.string = text};
}

shoal_attr graph_bytes(shoal_attr_key key, const void *data, size_t bytes) {
    return (shoal_attr){(uint16_t)key, SHOAL_ATTR_KIND_BYTES, (uint32_t)bytes, .u.bytes = data};
}

static const shoal_attr *find_attr(const shoal_attr *attrs, uint16_t n, shoal_attr_key key) {
    for (uint16_t i = 0; i < n && attrs[i].key <= key; i++)
        if (attrs[i].key == key) return &attrs[i];
    return NULL;
}

const shoal_attr *graph_call_attr(const graph_call *call, shoal_attr_key key) {
    return find_attr(call->attrs, call->n_attrs, key);
}

const shoal_attr *shoal_node_attr(const shoal_node *node, shoal_attr_key key) {
    return find_attr(node->attrs, node->n_attrs, key);
}

const int64_t *graph_call_ints(const graph_call *call, shoal_attr_key key, uint32_t *count) {
    const shoal_attr *attr = graph_call_attr(call, key);
    *count = attr->count;
    return attr->u.ints;
}

bool graph_has(const int64_t *list, uint32_t count, int64_t number) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == number) return true;
    return false;
}

const char *graph_call_name(const graph_call *call) { return graph_op(call->op)->name; }

shoal_status graph_check_axis(const graph_call *call, shoal_attr_key key, int64_t axis,
                              const shoal_type *type) {
    if (axis < 0 || axis >= type->rank)
        return base_fail(SHOAL_INVALID, "%s: %s: axis %lld is not in %s", graph_call_name(call),
                         graph_attr_name((uint16_t)key), (long long)axis, GRAPH_TEXT(type));
    return SHOAL_OK;
}

shoal_status graph_check_axes(const graph_call *call, shoal_attr_key key, const shoal_type *type,
                              const int64_t **list, uint32_t *count) {
    *list = graph_call_ints(call, key, count);
    for (uint32_t i = 0; i < *count; i++) {
        SHOAL_TRY(graph_check_axis(call, key, (*list)[i], type));
        if (graph_has(*list, i, (*list)[i]))
            return base_fail(SHOAL_INVALID, "%s: %s: axis %lld is named twice",
                             graph_call_name(call), graph_attr_name((uint16_t)key),
                             (long long)(*list)[i]);
    }
    return SHOAL_OK;
}

shoal_status graph_one(shoal_type *outputs, uint16_t max, uint16_t *n, const shoal_type *type) {
    if (!max) return base_fail(SHOAL_INVALID, "no room for a result");
    outputs[0] = *type;
    *n = 1;
    return SHOAL_OK;
}

/* ---- the gates ---- */

static shoal_status check_attrs(const graph_call *call, const graph_op_def *def) {
    graph_keys seen = 0;
    for (uint16_t i = 0; i < call->n_attrs; i++) {
        const shoal_attr *attr = &call->attrs[i];
        if (attr->key >= SHOAL_ATTR_KEY_COUNT)
            return base_fail(SHOAL_INVALID, "%s: attribute key %u does not exist", def->name,
                             attr->key);
        const char *name = keys[attr->key].name;
        graph_keys bit = (graph_keys)1 << attr->key;
        if (!(bit & (def->attrs_required | def->attrs_optional)))
            return base_fail(SHOAL_INVALID, "%s: attribute %s does not belong to it", def->name,
                             name);
        if (seen & bit)
            return base_fail(SHOAL_INVALID, "%s: attribute %s is given twice", def->name, name);
        if (seen >= bit)
            return base_fail(SHOAL_INVALID, "%s: attribute %s is out of order", def->name, name);
        seen |= bit;
        if (attr->kind != keys[attr->key].kind)
            return base_fail(SHOAL_INVALID, "%s: attribute %s has the wrong kind", def->name, name);
        if (attr->kind == SHOAL_ATTR_KIND_STRING && strlen(attr->u.string) != attr->count)
            return base_fail(SHOAL_INVALID, "%s: attribute %s has a zero byte inside", def->name,
                             name);
        if (attr->kind == SHOAL_ATTR_KIND_BOOL && attr->u.i != 0 && attr->u.i != 1)
            return base_fail(SHOAL_INVALID, "%s: attribute %s is %lld; it is 0 or 1", def->name,
                             name, (long long)attr->u.i);
        if (attr->kind == SHOAL_ATTR_KIND_FLOAT && !isfinite(attr->u.f))
            return base_fail(SHOAL_INVALID, "%s: attribute %s is not finite", def->name, name);
    }
    graph_keys missing = def->attrs_required & ~seen;
    for (uint16_t key = 0; missing; key++, missing >>= 1)
        if (missing & 1)
            return base_fail(SHOAL_INVALID, "%s: attribute %s is missing", def->name,
                             keys[key].name);
    return SHOAL_OK;
}

static shoal_status check_call(const graph_call *call) {
    const graph_op_def *def = graph_op(call->op);
    if (!def) return base_fail(SHOAL_INVALID, "operation number %u does not exist", call->op);
    if (call->n_inputs < def->min_inputs || call->n_inputs > def->max_inputs) {
        if (def->min_inputs == def->max_inputs)
            return base_fail(SHOAL_INVALID, "%s: takes %u operands, not %u", def->name,
                             def->min_inputs, call->n_inputs);
        return base_fail(SHOAL_INVALID, "%s: takes %u to %u operands, not %u", def->name,
                         def->min_inputs, def->max_inputs, call->n_inputs);
    }
    if (def->n_regions == GRAPH_ANY_REGIONS && !call->n_regions)
        return base_fail(SHOAL_INVALID, "%s: takes one or more regions", def->name);
    if (def->n_regions != GRAPH_ANY_REGIONS && call->n_regions != def->n_regions)
        return base_fail(SHOAL_INVALID, "%s: takes %u regions, not %u", def->name, def->n_regions,
                         call->n_regions);
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        int64_t elements;
        shoal_status status = base_type_elements(&call->inputs[i], &elements);
        if (status != SHOAL_OK) return base_fail_prefix(status, "%s: operand %u: ", def->name, i);
    }
    return check_attrs(call, def);
}

uint16_t graph_result_room(const graph_call *call) {
    uint32_t most = GRAPH_MAX_JOINED;
    if (call->n_regions && call->n_inputs > most) most = call->n_inputs;
    for (uint16_t i = 0; i < call->n_regions; i++)
        if (call->regions[i]->n_outputs > most) most = call->regions[i]->n_outputs;
    return (uint16_t)(most < GRAPH_MAX_OUTPUTS ? most : GRAPH_MAX_OUTPUTS);
}

shoal_status graph_infer(const graph_call *call, shoal_type *outputs, uint16_t max_outputs,
                         uint16_t *n_outputs) {
    SHOAL_TRY(check_call(call));
    SHOAL_TRY(graph_op(call->op)->infer(call, outputs, max_outputs, n_outputs));
    for (uint16_t i = 0; i < *n_outputs; i++) {
        int64_t elements;
        shoal_status status = base_type_elements(&outputs[i], &elements);
        if (status != SHOAL_OK)
            return base_fail_prefix(status, "%s: the result: ", graph_call_name(call));
    }
    return SHOAL_OK;
}

bool graph_picks(uint16_t op) {
    return op == GRAPH_SLICE || op == GRAPH_DYNAMIC_SLICE || op == GRAPH_GATHER;
}

double graph_cost(const graph_call *call, const shoal_type *outputs, uint16_t n_outputs) {
    const graph_op_def *def = graph_op(call->op);
    if (def->cost) return def->cost(call, outputs, n_outputs);
    double elements = 0;
    for (uint16_t i = 0; i < n_outputs; i++) elements += (double)base_type_count(&outputs[i]);
    return elements;
}

shoal_status graph_axes_of(const graph_call *call, const shoal_type *outputs, uint16_t n_outputs,
                           base_arena *arena, graph_axes *out) {
    const graph_op_def *def = graph_op(call->op);
    if (!def->axes) return base_fail(SHOAL_INVALID, "%s has no axis rule", def->name);
    *out = (graph_axes){.combine = GRAPH_ADD, .initial = -1};
    out->inputs = base_arena_alloc_array(arena, sizeof *out->inputs, call->n_inputs);
    out->outputs = base_arena_alloc_array(arena, sizeof *out->outputs, n_outputs);
    if (!out->inputs || !out->outputs) return SHOAL_NO_MEMORY;
    return def->axes(call, outputs, n_outputs, arena, out);
}

shoal_status graph_localise(const graph_call *call, const graph_axes *axes, const int64_t *start,
                            const int64_t *size, base_arena *arena, const shoal_attr **attrs,
                            uint16_t *n_attrs) {
    const graph_op_def *def = graph_op(call->op);
    shoal_attr *copy = base_arena_array(arena, shoal_attr, (size_t)call->n_attrs + 2);
    if (!copy) return SHOAL_NO_MEMORY;
    if (call->n_attrs) memcpy(copy, call->attrs, call->n_attrs * sizeof *copy);
    *attrs = copy;
    *n_attrs = call->n_attrs;
    if (!def->localise) return SHOAL_OK;
    return def->localise(call, axes, start, size, arena, copy, n_attrs);
}

shoal_status graph_add_part(const graph_part *p, base_arena *arena, uint32_t *first) {
    const shoal_attr *attrs;
    uint16_t n_attrs;
    SHOAL_TRY(graph_localise(p->call, p->axes, p->start, p->size, arena, &attrs, &n_attrs));
    if (p->axes->part) return p->axes->part(p, (shoal_attr *)attrs, n_attrs, first);
    return graph_part_call(p, p->inputs, attrs, n_attrs, first);
}
