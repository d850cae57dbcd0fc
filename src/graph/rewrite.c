/* Simplifying graphs: one pass from the first node to the last. Operands are simplified before the
 * nodes that read them, so each node is looked at once: a rule of the table may name a value that
 * is the node's result, or change the node; what has only constant operands is computed; and a node
 * that is there already is not made again. What nobody reads is left out at the end.
 *
 * Results stay the same bits, but for the sign of a zero: x + 0 becomes x. */
#include "graph/rules.h"

#include "base/map.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FOLDED = 1024, MOST_OPERANDS = 16 };

/* The pass, and the node at hand: its operands are values of `to`. */
typedef struct rewriter {
    graph *to;
    graph_evaluate evaluate;
    void *context;
    base_map known; /* hash of a node of `to` -> its number + 1 */
    const shoal_graph *from;
    const uint32_t *reads; /* per value of `from`: how often it is an operand or an output */
    uint16_t op;
    const shoal_node *node; /* of the source; its attributes unless changed by a rule */
    uint32_t n_inputs;
    uint32_t *inputs;
    uint16_t n_attrs;
    const shoal_attr *attrs;
    const shoal_graph *const *regions;
    shoal_type result; /* type of the first result */
} rewriter;

static const shoal_graph *target(const rewriter *r) { return graph_data(r->to); }

static const shoal_type *type_of(const rewriter *r, uint32_t input) {
    return &target(r)->values[r->inputs[input]].type;
}

/* The node of `to` that defines operand `input`; NULL when it is an input of the graph. */
static const shoal_node *definition(const rewriter *r, uint32_t input) {
    uint32_t node = target(r)->values[r->inputs[input]].node;
    return node == SHOAL_NO_NODE ? NULL : &target(r)->nodes[node];
}

static const shoal_node *defined_by(const rewriter *r, uint32_t input, uint16_t op) {
    const shoal_node *node = definition(r, input);
    return node && node->op == op ? node : NULL;
}

static const shoal_attr *attr_of(const rewriter *r, shoal_attr_key key) {
    for (uint16_t i = 0; i < r->n_attrs; i++)
        if (r->attrs[i].key == key) return &r->attrs[i];
    return NULL;
}

/* The one element of a constant operand whose elements are all the same; else NULL. */
static const void *splat_of(const rewriter *r, uint32_t input) {
    const shoal_node *node = defined_by(r, input, GRAPH_CONSTANT);
    if (!node) return NULL;
    const shoal_attr *value = shoal_node_attr(node, SHOAL_ATTR_VALUE);
    size_t size = shoal_dtype_size((shoal_dtype)type_of(r, input)->dtype);
    return value->count == size ? value->u.bytes : NULL;
}

/* ---- rules: true when *value is the result; they may change the node and return false ---- */

typedef bool (*rule)(rewriter *r, uint32_t *value);

static bool is(rewriter *r, uint32_t input, uint32_t *value) {
    *value = r->inputs[input];
    return true;
}

static bool is_identity(const rewriter *r, uint32_t input, uint16_t op) {
    return graph_is_identity(target(r), r->inputs[input], op);
}

/* Constants stand behind, else the older value in front. */
static void put_in_order(rewriter *r) {
    bool constant = defined_by(r, 0, GRAPH_CONSTANT), other = defined_by(r, 1, GRAPH_CONSTANT);
    if (constant == other ? r->inputs[0] <= r->inputs[1] : other) return;
    uint32_t swap = r->inputs[0];
    r->inputs[0] = r->inputs[1];
    r->inputs[1] = swap;
}

static bool add(rewriter *r, uint32_t *value) {
    put_in_order(r);
    return is_identity(r, 1, GRAPH_ADD) && is(r, 0, value);
}

static bool multiply(rewriter *r, uint32_t *value) {
    put_in_order(r);
    return is_identity(r, 1, GRAPH_MULTIPLY) && is(r, 0, value);
}

static bool subtract(rewriter *r, uint32_t *value) {
    return is_identity(r, 1, GRAPH_ADD) && is(r, 0, value);
}

static bool divide(rewriter *r, uint32_t *value) {
    return is_identity(r, 1, GRAPH_MULTIPLY) && is(r, 0, value);
}

/* x op x = x */
static bool idempotent(rewriter *r, uint32_t *value) {
    put_in_order(r);
    return r->inputs[0] == r->inputs[1] && is(r, 0, value);
}

static bool commutes(rewriter *r, uint32_t *value) {
    put_in_order(r);
    return false;
}

/* Its own inverse: op(op(x)) = x. */
static bool involution(rewriter *r, uint32_t *value) {
    const shoal_node *inner = defined_by(r, 0, r->op);
    if (inner) *value = inner->inputs[0];
    return inner != NULL;
}

/* op(op(x)) = op(x) */
static bool settled(rewriter *r, uint32_t *value) {
    return defined_by(r, 0, r->op) && is(r, 0, value);
}

static bool same_type(rewriter *r, uint32_t *value) {
    return base_type_equal(type_of(r, 0), &r->result) && is(r, 0, value);
}

static bool reshape(rewriter *r, uint32_t *value) {
    const shoal_node *inner = defined_by(r, 0, GRAPH_RESHAPE);
    if (inner) r->inputs[0] = inner->inputs[0];
    return same_type(r, value);
}

/* A list of numbers in `to`'s arena that replaces an attribute; false without memory, which leaves
 * the node as it is. */
static bool replace_ints(rewriter *r, shoal_attr_key key, const int64_t *numbers, size_t n) {
    shoal_attr *attrs = base_arena_array(graph_arena(r->to), shoal_attr, r->n_attrs);
    int64_t *copy = base_arena_copy(graph_arena(r->to), numbers, n * sizeof *copy);
    if (!attrs || !copy) return false;
    memcpy(attrs, r->attrs, r->n_attrs * sizeof *attrs);
    *graph_find_attr(attrs, r->n_attrs, key) = graph_ints(key, copy, n);
    r->attrs = attrs;
    return true;
}

/* The transposed product of two matrices is the product of the second with the first, if these are
 * looked at the other way round. A product that somebody else reads, too, stays. */
static bool turn_product(rewriter *r) {
    const shoal_node *product = defined_by(r, 0, GRAPH_DOT_GENERAL);
    uint32_t operand = r->node->inputs[0], maker = r->from->values[operand].node;
    if (!product || r->reads[operand] > 1 || maker == SHOAL_NO_NODE ||
        r->from->nodes[maker].op != GRAPH_DOT_GENERAL)
        return false;
    static const shoal_attr_key keys[] = {
        SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, SHOAL_ATTR_RHS_BATCHING_DIMENSIONS,
        SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS};
    const int64_t *order = attr_of(r, SHOAL_ATTR_PERMUTATION)->u.ints;
    uint32_t batch = shoal_node_attr(product, keys[0])->count;
    uint32_t sums = shoal_node_attr(product, keys[2])->count, rank = r->result.rank;
    uint32_t first = target(r)->values[product->inputs[0]].type.rank - batch - sums;
    uint32_t second = rank - batch - first;
    for (uint32_t i = 0; i < rank; i++)
        if (order[i] != (i < batch ? i : i < batch + second ? i + first : i - second)) return false;
    shoal_attr *attrs = base_arena_array(graph_arena(r->to), shoal_attr, product->n_attrs);
    uint32_t *inputs = base_arena_array(graph_arena(r->to), uint32_t, 2);
    if (!attrs || !inputs) return false;
    memcpy(attrs, product->attrs, product->n_attrs * sizeof *attrs);
    for (int k = 0; k < 4; k++) {
        const shoal_attr *other = shoal_node_attr(product, keys[k ^ 1]);
        *graph_find_attr(attrs, product->n_attrs, keys[k]) =
            graph_ints(keys[k], other->u.ints, other->count);
    }
    inputs[0] = product->inputs[1];
    inputs[1] = product->inputs[0];
    r->op = GRAPH_DOT_GENERAL;
    r->inputs = inputs;
    r->n_inputs = 2;
    r->attrs = attrs;
    r->n_attrs = product->n_attrs;
    return true;
}

static bool transpose(rewriter *r, uint32_t *value) {
    const shoal_node *inner = defined_by(r, 0, GRAPH_TRANSPOSE);
    const shoal_attr *outer = attr_of(r, SHOAL_ATTR_PERMUTATION);
    if (inner) {
        const int64_t *first = shoal_node_attr(inner, SHOAL_ATTR_PERMUTATION)->u.ints;
        int64_t both[SHOAL_MAX_RANK];
        for (uint32_t i = 0; i < outer->count; i++) both[i] = first[outer->u.ints[i]];
        if (!replace_ints(r, SHOAL_ATTR_PERMUTATION, both, outer->count)) return false;
        r->inputs[0] = inner->inputs[0];
        outer = attr_of(r, SHOAL_ATTR_PERMUTATION);
    }
    bool moves = false;
    for (uint32_t i = 0; i < outer->count; i++) moves |= outer->u.ints[i] != i;
    if (!moves) return is(r, 0, value);
    turn_product(r);
    return false;
}

static bool broadcast(rewriter *r, uint32_t *value) {
    const shoal_node *inner = defined_by(r, 0, GRAPH_BROADCAST_IN_DIM);
    const shoal_attr *outer = attr_of(r, SHOAL_ATTR_BROADCAST_DIMENSIONS);
    if (inner) {
        const shoal_attr *first = shoal_node_attr(inner, SHOAL_ATTR_BROADCAST_DIMENSIONS);
        int64_t both[SHOAL_MAX_RANK];
        for (uint32_t i = 0; i < first->count; i++) both[i] = outer->u.ints[first->u.ints[i]];
        if (!replace_ints(r, SHOAL_ATTR_BROADCAST_DIMENSIONS, both, first->count)) return false;
        r->inputs[0] = inner->inputs[0];
        outer = attr_of(r, SHOAL_ATTR_BROADCAST_DIMENSIONS);
    }
    for (uint32_t i = 0; i < outer->count; i++)
        if (outer->u.ints[i] != i) return false;
    return same_type(r, value);
}

static bool reverse(rewriter *r, uint32_t *value) {
    const shoal_attr *axes = attr_of(r, SHOAL_ATTR_DIMENSIONS);
    if (!axes->count) return is(r, 0, value);
    const shoal_node *inner = defined_by(r, 0, GRAPH_REVERSE);
    if (!inner) return false;
    const shoal_attr *first = shoal_node_attr(inner, SHOAL_ATTR_DIMENSIONS);
    if (first->count != axes->count) return false;
    for (uint32_t i = 0; i < axes->count; i++)
        if (!graph_has(first->u.ints, first->count, axes->u.ints[i])) return false;
    *value = inner->inputs[0];
    return true;
}

static bool pad(rewriter *r, uint32_t *value) {
    static const shoal_attr_key keys[] = {SHOAL_ATTR_EDGE_PADDING_LOW, SHOAL_ATTR_EDGE_PADDING_HIGH,
                                          SHOAL_ATTR_INTERIOR_PADDING};
    for (int k = 0; k < 3; k++) {
        const shoal_attr *attr = attr_of(r, keys[k]);
        for (uint32_t i = 0; i < attr->count; i++)
            if (attr->u.ints[i]) return false;
    }
    return is(r, 0, value);
}

static bool concatenate(rewriter *r, uint32_t *value) {
    return r->n_inputs == 1 && is(r, 0, value);
}

static bool choose(rewriter *r, uint32_t *value) {
    if (r->inputs[1] == r->inputs[2]) return is(r, 1, value);
    const unsigned char *flag = splat_of(r, 0);
    return flag && is(r, *flag ? 1 : 2, value);
}

static const struct {
    uint16_t op;
    rule apply;
} rules[] = {
    {GRAPH_ADD, add},
    {GRAPH_SUBTRACT, subtract},
    {GRAPH_MULTIPLY, multiply},
    {GRAPH_DIVIDE, divide},
    {GRAPH_MAXIMUM, idempotent},
    {GRAPH_MINIMUM, idempotent},
    {GRAPH_AND, idempotent},
    {GRAPH_OR, idempotent},
    {GRAPH_XOR, commutes},
    {GRAPH_NEGATE, involution},
    {GRAPH_NOT, involution},
    {GRAPH_ABS, settled},
    {GRAPH_CEIL, settled},
    {GRAPH_FLOOR, settled},
    {GRAPH_SIGN, settled},
    {GRAPH_CONVERT, same_type},
    {GRAPH_BITCAST_CONVERT, same_type},
    {GRAPH_RESHAPE, reshape},
    {GRAPH_TRANSPOSE, transpose},
    {GRAPH_BROADCAST_IN_DIM, broadcast},
    {GRAPH_SLICE, same_type},
    {GRAPH_DYNAMIC_SLICE, same_type},
    {GRAPH_REVERSE, reverse},
    {GRAPH_PAD, pad},
    {GRAPH_CONCATENATE, concatenate},
    {GRAPH_SELECT, choose},
};

static bool simplify(rewriter *r, uint32_t *value) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].op == r->op) return rules[i].apply(r, value);
    return false;
}

/* ---- constants ---- */

/* Element by element: what is one number everywhere stays so. in_range may fail, which is for the
 * run to say. */
static bool is_elementwise(uint16_t op) {
    const graph_op_def *def = graph_op(op);
    return op != GRAPH_PLACE && op != GRAPH_IN_RANGE && op != GRAPH_CUSTOM && !def->decompose &&
           (def->axes == graph_axes_elementwise || def->axes == graph_axes_select);
}

static bool only_moves(uint16_t op) {
    return op == GRAPH_RESHAPE || op == GRAPH_TRANSPOSE || op == GRAPH_BROADCAST_IN_DIM ||
           op == GRAPH_SLICE || op == GRAPH_REVERSE;
}

/* Computes the node with operands of the given types and elements. */
static shoal_status evaluate(rewriter *r, const shoal_type *types, const void *const *data,
                             void *result) {
    graph *g;
    uint32_t in[MOST_OPERANDS], out;
    SHOAL_TRY(graph_new(0, &g));
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < r->n_inputs && !status; i++)
        status = graph_add_input(g, &types[i], &in[i]);
    if (!status)
        status = graph_add(g, r->op, in, r->n_inputs, r->attrs, r->n_attrs, r->regions,
                           r->node->n_regions, &out);
    if (!status) status = graph_add_output(g, out);
    if (!status) status = r->evaluate(r->context, graph_data(g), data, (void *const[]){result});
    graph_destroy(&g);
    return status;
}

/* Whether the node is worth computing now, all operands being constants; *splat: as one element. */
static bool may_fold(const rewriter *r, bool *splat) {
    *splat = is_elementwise(r->op) && r->op != GRAPH_CONSTANT;
    const char *category = graph_op(r->op)->category;
    if (!r->n_inputs || r->n_inputs > MOST_OPERANDS || r->node->n_outputs != 1) return false;
    if (graph_op(r->op)->decompose || !strcmp(category, "shoal") || !strcmp(category, "control") ||
        !strcmp(category, "window") || !strcmp(category, "random"))
        return false;
    size_t bytes = (size_t)base_type_bytes(&r->result);
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        if (!defined_by(r, i, GRAPH_CONSTANT)) return false;
        *splat = *splat && splat_of(r, i);
        bytes += (size_t)base_type_bytes(type_of(r, i));
    }
    return *splat || bytes <= MOST_FOLDED;
}

/* The elements of a constant operand, each of them; `store` has room where they must be repeated.
 */
static const void *elements(const rewriter *r, uint32_t input, char *store) {
    const shoal_attr *value = shoal_node_attr(definition(r, input), SHOAL_ATTR_VALUE);
    size_t size = shoal_dtype_size((shoal_dtype)type_of(r, input)->dtype);
    size_t bytes = (size_t)base_type_bytes(type_of(r, input));
    if (value->count != size || bytes == size) return value->u.bytes;
    for (size_t at = 0; at < bytes; at += size) memcpy(store + at, value->u.bytes, size);
    return store;
}

static shoal_status fold(rewriter *r, bool *done, uint32_t *value) {
    bool splat;
    *done = false;
    if (only_moves(r->op) && splat_of(r, 0)) {
        *done = true;
        return graph_add_constant(r->to, &r->result, splat_of(r, 0),
                                  shoal_dtype_size((shoal_dtype)r->result.dtype), value);
    }
    if (!r->evaluate || !may_fold(r, &splat)) return SHOAL_OK;
    shoal_type types[MOST_OPERANDS], result = r->result;
    const void *data[MOST_OPERANDS];
    _Alignas(64) char store[MOST_FOLDED + 64 * MOST_OPERANDS], out[MOST_FOLDED + 64];
    size_t at = 0;
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        types[i] = *type_of(r, i);
        data[i] = splat ? splat_of(r, i) : elements(r, i, store + at);
        if (splat) types[i].rank = 0;
        if (!splat) at += ((size_t)base_type_bytes(&types[i]) + 63) / 64 * 64;
    }
    if (splat) result.rank = 0;
    SHOAL_TRY(evaluate(r, types, data, out));
    *done = true;
    return graph_add_constant(r->to, &r->result, out, (size_t)base_type_bytes(&result), value);
}

/* ---- nodes that are there already ---- */

static uint64_t mix(uint64_t hash, uint64_t other) {
    return (hash ^ other) * UINT64_C(0x9E3779B97F4A7C15) + (hash >> 29);
}

static uint64_t hash_of(const rewriter *r) {
    uint64_t hash = mix(r->op, base_hash(r->inputs, r->n_inputs * sizeof *r->inputs));
    for (uint16_t i = 0; i < r->n_attrs; i++) {
        const shoal_attr *a = &r->attrs[i];
        hash = mix(hash, a->key);
        switch (a->kind) {
        case SHOAL_ATTR_KIND_INTS:
            hash = mix(hash, base_hash(a->u.ints, a->count * sizeof *a->u.ints));
            break;
        case SHOAL_ATTR_KIND_STRING:
        case SHOAL_ATTR_KIND_BYTES: hash = mix(hash, base_hash(a->u.bytes, a->count)); break;
        default: hash = mix(hash, (uint64_t)a->u.i); break;
        }
    }
    return hash;
}

static bool same_attr(const shoal_attr *a, const shoal_attr *b) {
    if (a->key != b->key || a->kind != b->kind || a->count != b->count) return false;
    size_t bytes = a->count;
    if (a->kind == SHOAL_ATTR_KIND_INTS) bytes *= sizeof *a->u.ints;
    if (a->kind == SHOAL_ATTR_KIND_INTS || a->kind == SHOAL_ATTR_KIND_STRING ||
        a->kind == SHOAL_ATTR_KIND_BYTES)
        return !bytes || !memcmp(a->u.bytes, b->u.bytes, bytes);
    return !memcmp(&a->u, &b->u, sizeof a->u.i);
}

static bool same_region(const shoal_graph *a, const shoal_graph *b) {
    base_str x, y;
    base_str_init(&x);
    base_str_init(&y);
    bool same = !graph_encode(a, false, &x) && !graph_encode(b, false, &y) && x.size == y.size &&
                !memcmp(x.data, y.data, x.size);
    base_str_fini(&x);
    base_str_fini(&y);
    return same;
}

static bool same_node(const rewriter *r, const shoal_node *node) {
    const char *scope = r->node->scope;
    bool same = node->op == r->op && node->n_inputs == r->n_inputs && node->n_attrs == r->n_attrs &&
                node->n_regions == r->node->n_regions && (node->scope != NULL) == (scope != NULL) &&
                (!scope || !strcmp(scope, node->scope)) &&
                !memcmp(node->inputs, r->inputs, r->n_inputs * sizeof *r->inputs);
    for (uint16_t i = 0; same && i < r->n_attrs; i++)
        same = same_attr(&node->attrs[i], &r->attrs[i]);
    for (uint16_t i = 0; same && i < node->n_regions; i++)
        same = same_region(node->regions[i], r->regions[i]);
    return same;
}

/* The first result of the node, which is made unless it is there. */
static shoal_status make(rewriter *r, uint32_t *value) {
    uint64_t key = hash_of(r);
    void *known;
    for (; (known = base_map_get(&r->known, key)); key++) {
        const shoal_node *node = &target(r)->nodes[(uintptr_t)known - 1];
        if (r->op == GRAPH_EXCHANGE || !same_node(r, node)) continue;
        *value = node->first_output;
        return SHOAL_OK;
    }
    SHOAL_TRY(graph_add(r->to, r->op, r->inputs, r->n_inputs, r->attrs, r->n_attrs, r->regions,
                        r->node->n_regions, value));
    return base_map_set(&r->known, key, (void *)(uintptr_t)target(r)->n_nodes);
}

/* ---- the pass ---- */

static shoal_status copy_regions(rewriter *r) {
    uint16_t n = r->node->n_regions;
    const shoal_graph **regions = base_arena_alloc_array(graph_arena(r->to), sizeof *regions, n);
    if (!regions) return SHOAL_NO_MEMORY;
    for (uint16_t i = 0; i < n; i++) {
        const shoal_graph *from = r->node->regions[i];
        graph *region;
        SHOAL_TRY(graph_add_region(r->to, &region));
        SHOAL_TRY(graph_extract(from, from->inputs, from->n_inputs, from->outputs, from->n_outputs,
                                region));
        regions[i] = graph_data(region);
    }
    r->regions = regions;
    return SHOAL_OK;
}

static shoal_status rewrite_node(rewriter *r, const shoal_graph *from, uint32_t *map) {
    const shoal_node *node = r->node;
    r->op = node->op;
    r->n_inputs = node->n_inputs;
    r->n_attrs = node->n_attrs;
    r->attrs = node->attrs;
    r->inputs = base_arena_array(graph_arena(r->to), uint32_t, node->n_inputs);
    if (!r->inputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_inputs; i++) r->inputs[i] = map[node->inputs[i]];
    SHOAL_TRY(copy_regions(r));
    SHOAL_TRY(graph_at(r->to, node->location, node->scope));
    if (node->n_outputs == 1) {
        bool done;
        uint32_t *value = &map[node->first_output];
        r->result = from->values[node->first_output].type;
        if (simplify(r, value)) return SHOAL_OK;
        SHOAL_TRY(fold(r, &done, value));
        if (done) return SHOAL_OK;
    }
    uint32_t first;
    SHOAL_TRY(make(r, &first));
    for (uint16_t i = 0; i < node->n_outputs; i++) map[node->first_output + i] = first + i;
    return SHOAL_OK;
}

static shoal_status rewrite(rewriter *r, const shoal_graph *from, uint32_t *map, graph *to) {
    for (uint32_t i = 0; i < from->n_inputs; i++)
        SHOAL_TRY(
            graph_add_input(r->to, &from->values[from->inputs[i]].type, &map[from->inputs[i]]));
    for (uint32_t n = 0; n < from->n_nodes; n++) {
        r->node = &from->nodes[n];
        SHOAL_TRY(rewrite_node(r, from, map));
    }
    for (uint32_t i = 0; i < from->n_outputs; i++)
        SHOAL_TRY(graph_add_output(r->to, map[from->outputs[i]]));
    const shoal_graph *all = graph_data(r->to);
    return graph_extract(all, all->inputs, all->n_inputs, all->outputs, all->n_outputs, to);
}

static void count_reads(const shoal_graph *g, uint32_t *reads) {
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t i = 0; i < g->nodes[n].n_inputs; i++) reads[g->nodes[n].inputs[i]]++;
    for (uint32_t i = 0; i < g->n_outputs; i++) reads[g->outputs[i]]++;
}

shoal_status graph_rewrite(const shoal_graph *from, graph_evaluate how, void *context, graph *to) {
    rewriter r = {.evaluate = how, .context = context, .from = from};
    /* Values of `to` by those of the source, and behind them how often each is read. */
    uint32_t *map = calloc(from->n_values + (size_t)1, 2 * sizeof *map);
    if (!map) return base_fail(SHOAL_NO_MEMORY, "no memory for %u values", from->n_values);
    count_reads(from, map + from->n_values);
    r.reads = map + from->n_values;
    base_map_init(&r.known);
    shoal_status status = graph_new(0, &r.to);
    if (!status) status = rewrite(&r, from, map, to);
    graph_destroy(&r.to);
    base_map_fini(&r.known);
    free(map);
    return status;
}
