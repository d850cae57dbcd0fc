/* What a kernel is: from nodes to loops, loads, operations in single assignment and stores. */
#include "backend/fuse/fuse.h"

#include <stdlib.h>
#include <string.h>

/* ---- loops ---- */

static bool merges(const int64_t *extents, int64_t *const *strides, uint32_t n_strides,
                   uint32_t outer, uint32_t inner) {
    for (uint32_t k = 0; k < n_strides; k++)
        if (strides[k][outer] != strides[k][inner] * extents[inner]) return false;
    return true;
}

uint32_t fuse_merge_loops(uint32_t n, int64_t *extents, bool *apart, int64_t *const *strides,
                          uint32_t n_strides) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (extents[i] == 1) continue;
        bool joined = left > 0 && (!apart || apart[left - 1] == apart[i]) &&
                      merges(extents, strides, n_strides, left - 1, i);
        uint32_t to = joined ? left - 1 : left++;
        extents[to] = joined ? extents[to] * extents[i] : extents[i];
        if (apart) apart[to] = apart[i];
        for (uint32_t k = 0; k < n_strides; k++) strides[k][to] = strides[k][i];
    }
    return left;
}

/* The axes that have more than one element, and are not left out. */
static uint32_t long_axes(const shoal_type *type, const bool *left_out, uint32_t *axes) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dims[i] != 1 && !(left_out && left_out[i])) axes[n++] = i;
    return n;
}

bool fuse_spread(const shoal_type *space, const bool *reduced, const shoal_type *type,
                 const fuse_index *index, int64_t *strides) {
    uint32_t to[SHOAL_MAX_RANK], from[SHOAL_MAX_RANK];
    memset(strides, 0, SHOAL_MAX_RANK * sizeof *strides);
    if (!type->rank) return true;
    if (fuse_same_shape(type, space)) {
        for (uint32_t i = 0; i < type->rank; i++)
            strides[i] = type->dims[i] == 1 ? 0 : index->strides[i];
        return true;
    }
    uint32_t n = long_axes(space, reduced, to);
    if (long_axes(type, NULL, from) != n) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (type->dims[from[i]] != space->dims[to[i]]) return false;
        strides[to[i]] = index->strides[from[i]];
    }
    return true;
}

/* ---- building ---- */

typedef struct builder {
    const fuse_plan *plan;
    const shoal_graph *g;
    const fuse_part *part;
    fuse_kernel *kernel;
    fuse_load *loads;
    fuse_operation *operations;
    fuse_store *stores;
    uint16_t *made; /* per node of the part: its number; operations count from FUSE_MAX_LOADS on */
} builder;

/* The node of the part that makes a value, counted from 1; 0 when none does. */
static uint32_t maker(const builder *b, uint32_t value) {
    uint32_t node = b->g->values[b->plan->values[value].root].node, low = 0;
    for (uint32_t high = b->part->n_nodes; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (b->part->nodes[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->part->n_nodes && b->part->nodes[low] == node ? low + 1 : 0;
}

/* ---- loads ---- */

static uint16_t add_load(builder *b, const fuse_load *load) {
    fuse_kernel *k = b->kernel;
    for (uint32_t i = 0; i < k->n_loads && !load->bounded; i++) {
        const fuse_load *x = &b->loads[i];
        if (x->value == load->value && x->kind == load->kind && x->inner == load->inner &&
            !x->bounded && !memcmp(&x->index, &load->index, sizeof x->index))
            return (uint16_t)i;
    }
    b->loads[k->n_loads] = *load;
    return (uint16_t)k->n_loads++;
}

/* The element of a constant that has one for all; NULL: it has not. */
static const void *element_of(const builder *b, uint32_t value) {
    uint32_t node = b->g->values[value].node;
    if (node == SHOAL_NO_NODE || b->g->nodes[node].op != GRAPH_CONSTANT) return NULL;
    const shoal_attr *data = shoal_node_attr(&b->g->nodes[node], SHOAL_ATTR_VALUE);
    return data->count == shoal_dtype_size((shoal_dtype)b->g->values[value].type.dtype)
               ? data->u.bytes
               : NULL;
}

/* A load from an operand, by an index over the space. whole: it has all axes of the space, and so,
 * where one of them is empty, no element that could be read outside of that loop. */
static fuse_load load_by(const builder *b, uint32_t value, const fuse_index *index, bool whole) {
    uint32_t root = b->plan->values[value].root;
    uint32_t node = b->g->values[root].node;
    fuse_load load = {.kind = FUSE_MEMORY,
                      .dtype = b->g->values[value].type.dtype,
                      .outside = FUSE_NOWHERE,
                      .value = value,
                      .index = *index};
    /* One that is read as more than that has been stored. */
    if (b->plan->values[root].is_view || base_type_count(&b->g->values[root].type) == 1)
        load.literal = element_of(b, root);
    if (load.literal) {
        load.kind = FUSE_LITERAL;
        load.index = (fuse_index){0};
    } else if (node != SHOAL_NO_NODE && node == b->part->head) {
        load.kind = FUSE_RESULT;
    }
    for (uint32_t i = 0; i < b->part->space->rank; i++) {
        load.end[i] = b->part->space->dims[i];
        load.every[i] = 1;
        if (b->part->space->dims[i] == 1) load.index.strides[i] = 0;
        load.inner |=
            b->part->reduced[i] && (load.index.strides[i] != 0 || (whole && !load.end[i]));
    }
    return load;
}

/* What an operation reads. */
static uint16_t number_of(builder *b, uint32_t value) {
    uint32_t from = maker(b, value);
    if (from) return b->made[from - 1];
    fuse_index lies = fuse_index_of(b->plan, value), index = {.start = lies.start};
    fuse_spread(b->part->space, b->part->reduced, &b->g->values[value].type, &lies, index.strides);
    const shoal_type *type = &b->g->values[value].type, *space = b->part->space;
    fuse_load load = load_by(b, value, &index, fuse_same_shape(type, space));
    return add_load(b, &load);
}

static uint16_t load_literal(builder *b, const shoal_node *node) {
    fuse_load load = {.kind = FUSE_LITERAL,
                      .dtype = b->g->values[node->first_output].type.dtype,
                      .outside = FUSE_NOWHERE,
                      .value = node->first_output,
                      .literal = element_of(b, node->first_output)};
    return add_load(b, &load);
}

static uint16_t load_position(builder *b, const shoal_node *node) {
    const shoal_attr *start = shoal_node_attr(node, SHOAL_ATTR_START_INDICES);
    int64_t axis = shoal_node_attr(node, SHOAL_ATTR_IOTA_DIMENSION)->u.i;
    fuse_load load = {.kind = FUSE_POSITION,
                      .dtype = b->g->values[node->first_output].type.dtype,
                      .outside = FUSE_NOWHERE,
                      .value = node->first_output};
    load.index.start = start ? start->u.ints[axis] : 0;
    load.index.strides[axis] = b->part->space->dims[axis] > 1;
    load.inner = b->part->reduced[axis] && b->part->space->dims[axis] > 1;
    return add_load(b, &load);
}

static void bound(const builder *b, fuse_load *load, uint32_t axis, int64_t begin, int64_t end,
                  int64_t every) {
    load->bounded = true;
    load->begin[axis] = begin;
    load->end[axis] = end;
    load->every[axis] = every;
    load->inner |= b->part->reduced[axis];
}

/* What a load is where it reads nothing. */
static void fall_back(const builder *b, fuse_load *load, uint16_t outside) {
    load->outside = outside;
    if (outside != FUSE_NOWHERE) load->inner |= b->loads[outside].inner;
}

static uint16_t load_padded(builder *b, const shoal_node *node) {
    const shoal_type *in = &b->g->values[node->inputs[0]].type;
    const int64_t *low = shoal_node_attr(node, SHOAL_ATTR_EDGE_PADDING_LOW)->u.ints;
    const int64_t *gaps = shoal_node_attr(node, SHOAL_ATTR_INTERIOR_PADDING)->u.ints;
    fuse_index index = fuse_index_of(b->plan, node->inputs[0]);
    fuse_load load = load_by(b, node->inputs[0], &index, true);
    /* Strides are wanted along axes of one element too, where the operand has several. */
    if (load.kind != FUSE_LITERAL) load.index = index;
    for (uint32_t i = 0; i < in->rank; i++)
        bound(b, &load, i, low[i],
              low[i] + (in->dims[i] ? (in->dims[i] - 1) * (gaps[i] + 1) + 1 : 0), gaps[i] + 1);
    fall_back(b, &load, number_of(b, node->inputs[1]));
    return in->rank ? add_load(b, &load) : number_of(b, node->inputs[0]);
}

/* The last operand that has elements, else the one before, and so on. */
static uint16_t load_joined(builder *b, const shoal_node *node) {
    int64_t axis = shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i;
    int64_t begin = b->part->space->dims[axis];
    uint16_t last = FUSE_NOWHERE;
    for (uint32_t k = node->n_inputs; k-- > 0;) {
        int64_t size = b->g->values[node->inputs[k]].type.dims[axis];
        if (!size && (k || last != FUSE_NOWHERE)) continue;
        begin -= size;
        fuse_index index = fuse_index_of(b->plan, node->inputs[k]);
        fuse_load load = load_by(b, node->inputs[k], &index, true);
        if (last == FUSE_NOWHERE && begin == 0) return add_load(b, &load);
        bound(b, &load, (uint32_t)axis, begin, begin + size, 1);
        fall_back(b, &load, last);
        last = add_load(b, &load);
    }
    return last;
}

static uint16_t load_moved(builder *b, const shoal_node *node) {
    fuse_index index = {0};
    switch (node->op) {
    case GRAPH_IOTA: return load_position(b, node);
    case GRAPH_PAD: return load_padded(b, node);
    case GRAPH_CONCATENATE: return load_joined(b, node);
    case GRAPH_CONSTANT: return load_literal(b, node);
    default: {
        fuse_index in = fuse_index_of(b->plan, node->inputs[0]);
        fuse_moved_index(b->g, node, &in, &index);
        fuse_load load = load_by(b, node->inputs[0], &index, true);
        return add_load(b, &load);
    }
    }
}

/* ---- operations ---- */

static void set_sum(const shoal_node *node, fuse_operation *op) {
    op->combine = graph_body_op(node->regions[0]);
    op->sum = op->dtype == SHOAL_F16 || op->dtype == SHOAL_BF16 ? SHOAL_F32 : op->dtype;
}

static uint16_t add_operation(builder *b, const shoal_node *node) {
    fuse_operation *op = &b->operations[b->kernel->n_operations];
    *op = (fuse_operation){.op = node->op,
                           .dtype = b->g->values[node->first_output].type.dtype,
                           .from = b->g->values[node->inputs[node->n_inputs - 1]].type.dtype,
                           .n_args = (uint8_t)node->n_inputs,
                           .node = node};
    for (uint32_t k = 0; k < node->n_inputs; k++) op->args[k] = number_of(b, node->inputs[k]);
    if (node->op == GRAPH_REDUCE) set_sum(node, op);
    return (uint16_t)(FUSE_MAX_LOADS + b->kernel->n_operations++);
}

static void add_store(builder *b, uint32_t value, uint16_t from) {
    const shoal_type *type = &b->g->values[value].type;
    fuse_store *store = &b->stores[b->kernel->n_stores++];
    const fuse_index index = fuse_dense(type);
    *store = (fuse_store){
        .value = value, .from = from, .dtype = type->dtype, .inner = !b->part->outer[value]};
    fuse_spread(b->part->space, b->part->reduced, type, &index, store->index.strides);
}

/* ---- finishing ---- */

/* Now that all loads are known, operations are numbered behind them. */
static void number_operations(builder *b) {
    fuse_kernel *k = b->kernel;
    uint16_t less = (uint16_t)(FUSE_MAX_LOADS - k->n_loads);
    for (uint32_t i = 0; i < k->n_operations; i++) {
        fuse_operation *op = &b->operations[i];
        for (uint32_t a = 0; a < op->n_args; a++) {
            if (op->args[a] >= FUSE_MAX_LOADS) op->args[a] = (uint16_t)(op->args[a] - less);
            uint32_t from = op->args[a];
            bool inner =
                from < k->n_loads ? b->loads[from].inner : b->operations[from - k->n_loads].inner;
            uint8_t pass = from < k->n_loads ? 0 : b->operations[from - k->n_loads].pass;
            op->inner |= inner;
            if (pass > op->pass) op->pass = pass;
        }
        if (op->op != GRAPH_REDUCE) continue;
        op->inner = false;
        if (++op->pass > k->passes) k->passes = op->pass;
    }
    for (uint32_t i = 0; i < k->n_stores; i++) {
        fuse_store *store = &b->stores[i];
        if (store->from >= FUSE_MAX_LOADS) store->from = (uint16_t)(store->from - less);
        uint32_t pass = store->from < k->n_loads ? 0 : b->operations[store->from - k->n_loads].pass;
        if (k->passes && store->inner && pass + 1 > k->passes) k->passes = pass + 1;
    }
}

static void set_loops(builder *b, int64_t **strides) {
    fuse_kernel *k = b->kernel;
    const shoal_type *space = b->part->space;
    int64_t extents[SHOAL_MAX_RANK];
    bool reduced[SHOAL_MAX_RANK], bounded = false;
    uint32_t n = 0;
    memcpy(extents, space->dims, sizeof extents);
    memcpy(reduced, b->part->reduced, sizeof reduced);
    for (uint32_t i = 0; i < k->n_loads; i++) {
        strides[n++] = b->loads[i].index.strides;
        bounded |= b->loads[i].bounded;
    }
    for (uint32_t i = 0; i < k->n_stores; i++) strides[n++] = b->stores[i].index.strides;
    k->n_loops = space->rank;
    if (!bounded) k->n_loops = fuse_merge_loops(space->rank, extents, reduced, strides, n);
    for (uint32_t i = 0; i < k->n_loops; i++) k->loops[i] = (fuse_loop){extents[i], reduced[i]};
}

static void build(builder *b) {
    const fuse_part *part = b->part;
    if (part->head != SHOAL_NO_NODE) {
        uint32_t value = b->g->nodes[part->head].first_output;
        uint16_t head = number_of(b, value);
        if (part->used[value]) add_store(b, value, head);
    }
    for (uint32_t i = 0; i < part->n_nodes; i++) {
        const shoal_node *node = &b->g->nodes[part->nodes[i]];
        b->made[i] = fuse_is_move(node->op) ? load_moved(b, node) : add_operation(b, node);
        if (part->used[node->first_output]) add_store(b, node->first_output, b->made[i]);
    }
    number_operations(b);
}

shoal_status fuse_kernel_make(const fuse_plan *plan, const fuse_part *part, base_arena *arena,
                              const fuse_kernel **out) {
    size_t n_loads = 1, n = part->n_nodes;
    for (uint32_t i = 0; i < n; i++)
        n_loads += plan->graph->nodes[part->nodes[i]].n_inputs + (size_t)1;
    fuse_kernel *k = base_arena_alloc(arena, sizeof *k);
    fuse_operation *operations = base_arena_array(arena, fuse_operation, n);
    builder b = {.plan = plan,
                 .g = plan->graph,
                 .part = part,
                 .kernel = k,
                 .operations = operations,
                 .loads = calloc(n_loads, sizeof *b.loads),
                 .stores = calloc(n + 1, sizeof *b.stores),
                 .made = calloc(n + 1, sizeof *b.made)};
    int64_t **strides = calloc(n_loads + n + 1, sizeof *strides);
    shoal_status status = SHOAL_OK;
    if (!b.loads || !b.stores || !b.made || !strides)
        status = base_fail(SHOAL_NO_MEMORY, "no memory to form kernels");
    else if (!k || !operations)
        status = SHOAL_NO_MEMORY;
    if (!status) {
        build(&b);
        set_loops(&b, strides);
        k->operations = operations;
        k->loads = base_arena_copy(arena, b.loads, k->n_loads * sizeof *b.loads);
        k->stores = base_arena_copy(arena, b.stores, k->n_stores * sizeof *b.stores);
        if (!k->loads || !k->stores) status = SHOAL_NO_MEMORY;
    }
    free(b.loads);
    free(b.stores);
    free(b.made);
    free(strides);
    *out = k;
    return status;
}

/* ---- questions ---- */

bool fuse_may_overwrite(const fuse_kernel *k, uint32_t store, uint32_t load) {
    const fuse_load *from = &k->loads[load];
    const fuse_store *to = &k->stores[store];
    return from->kind == FUSE_MEMORY && !from->bounded && k->passes == 0 &&
           shoal_dtype_size((shoal_dtype)from->dtype) == shoal_dtype_size((shoal_dtype)to->dtype) &&
           from->index.start == to->index.start &&
           !memcmp(from->index.strides, to->index.strides, k->n_loops * sizeof *to->index.strides);
}
