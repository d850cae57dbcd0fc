/* Batch rules: one call for each index of a batch as one call for all. Operands that differ from
 * index to index have an axis more, the first; so have all results. Most operations only need their
 * operands so and their axis numbers moved by one; a composite whose rule does not fit is taken
 * apart. As the `vmap` of JAX and PyTorch. */
#include "graph/maker.h"
#include "graph/rules.h"

/* ---- attributes ---- */

/* Axis numbers are moved by one, and each list gets what it says of the new axis. */
static const struct {
    shoal_attr_key key;
    enum { MOVED, WITH_0, WITH_1, WITH_N, MOVED_WITH_0, PAIR_WITH_0 } how;
} edits[] = {
    {SHOAL_ATTR_DIMENSION, MOVED},
    {SHOAL_ATTR_DIMENSIONS, MOVED},
    {SHOAL_ATTR_BROADCAST_DIMENSIONS, MOVED_WITH_0},
    {SHOAL_ATTR_PERMUTATION, MOVED_WITH_0},
    {SHOAL_ATTR_START_INDICES, WITH_0},
    {SHOAL_ATTR_LIMIT_INDICES, WITH_N},
    {SHOAL_ATTR_STRIDES, WITH_1},
    {SHOAL_ATTR_SHAPE, WITH_N},
    {SHOAL_ATTR_SLICE_SIZES, WITH_N},
    {SHOAL_ATTR_EDGE_PADDING_LOW, WITH_0},
    {SHOAL_ATTR_EDGE_PADDING_HIGH, WITH_0},
    {SHOAL_ATTR_INTERIOR_PADDING, WITH_0},
    {SHOAL_ATTR_WINDOW_DIMENSIONS, WITH_1},
    {SHOAL_ATTR_WINDOW_STRIDES, WITH_1},
    {SHOAL_ATTR_BASE_DILATIONS, WITH_1},
    {SHOAL_ATTR_WINDOW_DILATIONS, WITH_1},
    {SHOAL_ATTR_PADDING, PAIR_WITH_0},
};

/* The rule at work: its attributes may be changed. */
typedef struct batcher {
    const graph_batching *b;
    maker m;
    shoal_attr *attrs;
} batcher;

static batcher begin(const graph_batching *b) {
    batcher r = {b, {b->g, SHOAL_OK}, NULL};
    r.attrs = base_arena_array(graph_arena(b->g), shoal_attr, b->call->n_attrs + 1u);
    if (!r.attrs)
        r.m.status = SHOAL_NO_MEMORY;
    else if (b->call->n_attrs)
        memcpy(r.attrs, b->call->attrs, b->call->n_attrs * sizeof *r.attrs);
    return r;
}

/* A list with `n_before` numbers in front, and its own moved by `by`. */
static void edit(batcher *r, shoal_attr *attr, int64_t before, uint32_t n_before, int64_t by) {
    int64_t *list = base_arena_array(graph_arena(r->b->g), int64_t, attr->count + n_before);
    if (!list) {
        r->m.status = SHOAL_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < n_before; i++) list[i] = before;
    for (uint32_t i = 0; i < attr->count; i++) list[n_before + i] = attr->u.ints[i] + by;
    *attr = graph_ints((shoal_attr_key)attr->key, list, attr->count + n_before);
}

static void edit_key(batcher *r, shoal_attr_key key, int64_t before, uint32_t n_before,
                     int64_t by) {
    if (!r->m.status)
        edit(r, graph_find_attr(r->attrs, r->b->call->n_attrs, key), before, n_before, by);
}

static void edit_all(batcher *r) {
    for (uint16_t i = 0; i < r->b->call->n_attrs && !r->m.status; i++)
        for (size_t k = 0; k < sizeof edits / sizeof *edits; k++) {
            shoal_attr *attr = &r->attrs[i];
            if (edits[k].key != attr->key) continue;
            switch (edits[k].how) {
            case MOVED:
                if (attr->kind == SHOAL_ATTR_KIND_INT)
                    attr->u.i++;
                else
                    edit(r, attr, 0, 0, 1);
                break;
            case WITH_0: edit(r, attr, 0, 1, 0); break;
            case WITH_1: edit(r, attr, 1, 1, 0); break;
            case WITH_N: edit(r, attr, r->b->n, 1, 0); break;
            case MOVED_WITH_0: edit(r, attr, 0, 1, 1); break;
            case PAIR_WITH_0: edit(r, attr, 0, 2, 0); break;
            }
            break;
        }
}

/* ---- operands and results ---- */

static shoal_type with_axis(const shoal_type *type, int64_t n) {
    shoal_type more = *type;
    more.rank++;
    more.dims[0] = n;
    memcpy(more.dims + 1, type->dims, type->rank * sizeof *type->dims);
    return more;
}

/* Operand i with the axis of the batch in front, repeated along it if need be. */
static uint32_t brought(batcher *r, uint32_t i) {
    const graph_batching *b = r->b;
    if (b->each[i] || r->m.status) return b->inputs[i];
    shoal_type all = with_axis(&b->call->inputs[i], b->n);
    return spread_without(&r->m, b->inputs[i], &all, 0);
}

/* The node with these operands and the attributes as they are now. */
static shoal_status made(batcher *r, const uint32_t *inputs, uint32_t n_inputs) {
    const graph_call *call = r->b->call;
    uint32_t first = 0;
    SHOAL_TRY(r->m.status);
    SHOAL_TRY(graph_add(r->b->g, call->op, inputs, n_inputs, r->attrs, call->n_attrs, call->regions,
                        call->n_regions, &first));
    const shoal_node *node = &graph_data(r->b->g)->nodes[graph_data(r->b->g)->values[first].node];
    for (uint16_t o = 0; o < node->n_outputs; o++) r->b->outputs[o] = first + o;
    return SHOAL_OK;
}

/* x with axis `from` as axis `to`. */
static uint32_t moved(batcher *r, uint32_t x, uint32_t from, uint32_t to) {
    int64_t order[SHOAL_MAX_RANK];
    if (r->m.status || from == to) return x;
    uint32_t rank = type_of(&r->m, x)->rank;
    for (uint32_t i = 0, k = 0; i < rank; i++) {
        k += k == from;
        order[i] = i == to ? from : k++;
    }
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, order, rank);
    return node(&r->m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL);
}

static shoal_status front_result(batcher *r, uint32_t axis) {
    r->b->outputs[0] = moved(r, r->b->outputs[0], axis, 0);
    return r->m.status;
}

/* ---- most operations ---- */

static shoal_status taken_apart(const graph_batching *b) {
    graph *parts;
    uint32_t *values = base_arena_array(graph_arena(b->g), uint32_t, b->call->n_inputs + 1u);
    uint32_t found[GRAPH_MAX_JOINED];
    shoal_type types[GRAPH_MAX_JOINED];
    uint16_t n_outputs;
    if (!values) return SHOAL_NO_MEMORY;
    SHOAL_TRY(graph_infer(b->call, types, GRAPH_MAX_JOINED, &n_outputs));
    SHOAL_TRY(graph_new(0, &parts));
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < b->call->n_inputs && !status; i++)
        status = graph_add_input(parts, &b->call->inputs[i], &values[i]);
    if (!status) status = graph_op(b->call->op)->decompose(b->call, parts, values, found);
    for (uint16_t o = 0; o < n_outputs && !status; o++) status = graph_add_output(parts, found[o]);
    if (!status)
        status = graph_batch_graph(graph_data(parts), b->g, b->n, b->inputs, b->each, b->outputs);
    graph_destroy(&parts);
    return status;
}

static shoal_status lacking(const graph_batching *b, const char *why) {
    return base_fail(SHOAL_UNSUPPORTED, "vmap: %s has no batch rule%s", graph_call_name(b->call),
                     why);
}

/* The first n operands are brought to the front; others have to be the same for all indices. */
static shoal_status front(const graph_batching *b, uint32_t n) {
    batcher r = begin(b);
    uint32_t *inputs = base_arena_array(graph_arena(b->g), uint32_t, b->call->n_inputs + 1u);
    if (!inputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < b->call->n_inputs; i++) {
        if (i >= n && b->each[i])
            return graph_op(b->call->op)->decompose
                       ? taken_apart(b)
                       : lacking(b, " where its initial value differs");
        inputs[i] = i < n ? brought(&r, i) : b->inputs[i];
    }
    edit_all(&r);
    return made(&r, inputs, b->call->n_inputs);
}

BATCH(all) { return front(b, b->call->n_inputs); }
BATCH(one) { return front(b, 1); }
BATCH(two) { return front(b, 2); }
BATCH(three) { return front(b, 3); }
BATCH(five) { return front(b, 5); }
BATCH(half) { return front(b, b->call->n_inputs / 2); }
BATCH(apart) { return taken_apart(b); }

/* Bounds, or a condition, that are one number for a whole tensor. */
BATCH(choice) {
    batcher r = begin(b);
    uint32_t inputs[3];
    for (uint32_t i = 0; i < 3; i++) {
        bool number = !b->call->inputs[i].rank && b->call->inputs[1].rank;
        inputs[i] = number && !b->each[i] ? b->inputs[i] : brought(&r, i);
        if (!number || !b->each[i] || r.m.status) continue;
        shoal_type all = with_axis(&b->call->inputs[1], b->n);
        all.dtype = b->call->inputs[i].dtype;
        inputs[i] = spread(&r.m, inputs[i], &all, (const int64_t[]){0});
    }
    return made(&r, inputs, 3);
}

/* Attributes are no axes. */
BATCH(plain) {
    batcher r = begin(b);
    return made(&r, b->inputs, b->call->n_inputs);
}

/* ---- products ---- */

/* An axis that only one operand has is a free axis of the product. */
BATCH(dot_general) {
    static const shoal_attr_key batching[] = {SHOAL_ATTR_LHS_BATCHING_DIMENSIONS,
                                              SHOAL_ATTR_RHS_BATCHING_DIMENSIONS};
    static const shoal_attr_key contracting[] = {SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS,
                                                 SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS};
    batcher r = begin(b);
    uint32_t n_batch, n_sums, both = b->each[0] && b->each[1];
    graph_call_ints(b->call, batching[0], &n_batch);
    graph_call_ints(b->call, contracting[0], &n_sums);
    for (int k = 0; k < 2; k++) {
        if (!b->each[k]) continue;
        edit_key(&r, batching[k], 0, both, 1);
        edit_key(&r, contracting[k], 0, 0, 1);
    }
    SHOAL_TRY(made(&r, b->inputs, 2));
    return front_result(&r, both ? 0 : b->each[0] ? n_batch : b->call->inputs[0].rank - n_sums);
}

/* x, whose first axis is that of the batch, with this axis joined to one of the others, given by
 * its number without the first: indices of the batch run slowest. */
static uint32_t folded(batcher *r, uint32_t x, uint32_t axis) {
    x = moved(r, x, 0, axis);
    if (r->m.status) return x;
    shoal_type type = *type_of(&r->m, x);
    type.dims[axis] *= type.dims[axis + 1];
    for (uint32_t i = axis + 1; i + 1u < type.rank; i++) type.dims[i] = type.dims[i + 1];
    type.rank--;
    return reshape(&r->m, x, &type);
}

/* The contrary for the result. */
static shoal_status unfold_result(batcher *r, uint32_t axis) {
    shoal_type type = *type_of(&r->m, r->b->outputs[0]);
    for (uint32_t i = type.rank; i > axis; i--) type.dims[i] = type.dims[i - 1];
    type.rank++;
    type.dims[axis] = r->b->n;
    type.dims[axis + 1] /= r->b->n ? r->b->n : 1;
    r->b->outputs[0] = reshape(&r->m, r->b->outputs[0], &type);
    return front_result(r, axis);
}

/* Images that differ are a larger batch, kernels that differ more features; both together are
 * groups of their own. */
BATCH(convolution) {
    batcher r = begin(b);
    uint32_t rank = b->call->inputs[0].rank, n;
    const int64_t *lhs = graph_call_ints(b->call, SHOAL_ATTR_CONVOLUTION_DIMENSIONS, &n);
    const int64_t *rhs = lhs + rank, *result = rhs + rank;
    shoal_attr *features =
        graph_find_attr(r.attrs, b->call->n_attrs, SHOAL_ATTR_FEATURE_GROUP_COUNT);
    shoal_attr *batches = graph_find_attr(r.attrs, b->call->n_attrs, SHOAL_ATTR_BATCH_GROUP_COUNT);
    SHOAL_TRY(r.m.status);
    if (!b->n || rank == SHOAL_MAX_RANK) return lacking(b, " for so many axes, or no index");
    uint32_t inputs[] = {b->inputs[0], b->inputs[1]}, axis = (uint32_t)result[1];
    if (!b->each[1] && batches->u.i == 1) {
        inputs[0] = folded(&r, inputs[0], (uint32_t)lhs[0]);
        axis = (uint32_t)result[0];
    } else if (!b->each[0] && batches->u.i == 1 && features->u.i == 1) {
        inputs[1] = folded(&r, inputs[1], (uint32_t)rhs[1]);
    } else {
        shoal_attr *groups = batches->u.i > 1 ? batches : features;
        inputs[0] = folded(&r, brought(&r, 0), (uint32_t)lhs[groups == features]);
        inputs[1] = folded(&r, brought(&r, 1), (uint32_t)rhs[1]);
        groups->u.i *= b->n;
    }
    SHOAL_TRY(made(&r, inputs, 2));
    return unfold_result(&r, axis);
}

/* ---- indices ---- */

static void forget_order(batcher *r) {
    shoal_attr *sorted =
        graph_find_attr(r->attrs, r->b->call->n_attrs, SHOAL_ATTR_INDICES_ARE_SORTED);
    if (sorted) sorted->u.i = 0;
}

/* A table that differs is a window with an axis more; indices that differ are more of them; and if
 * both do, each index looks into its own table. */
BATCH(gather) {
    batcher r = begin(b);
    bool table = b->each[0], places = b->each[1], both = table && places;
    edit_key(&r, SHOAL_ATTR_OFFSET_DIMS, 0, !places, 1);
    if (table) {
        edit_key(&r, SHOAL_ATTR_COLLAPSED_SLICE_DIMS, 0, 0, 1);
        edit_key(&r, SHOAL_ATTR_OPERAND_BATCHING_DIMS, 0, both, 1);
        edit_key(&r, SHOAL_ATTR_START_INDEX_MAP, 0, 0, 1);
        edit_key(&r, SHOAL_ATTR_SLICE_SIZES, both ? 1 : b->n, 1, 0);
    }
    if (places) {
        edit_key(&r, SHOAL_ATTR_START_INDICES_BATCHING_DIMS, 0, both, 1);
        if (!r.m.status)
            graph_find_attr(r.attrs, b->call->n_attrs, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i++;
        forget_order(&r);
    }
    return made(&r, b->inputs, 2);
}

/* Everything is brought to the front but indices that are the same for all. */
BATCH(scatter) {
    batcher r = begin(b);
    uint32_t at = (b->call->n_inputs - 1) / 2;
    bool places = b->each[at];
    uint32_t *inputs = base_arena_array(graph_arena(b->g), uint32_t, b->call->n_inputs);
    if (!inputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < b->call->n_inputs; i++)
        inputs[i] = i == at ? b->inputs[i] : brought(&r, i);
    edit_key(&r, SHOAL_ATTR_UPDATE_WINDOW_DIMS, 0, !places, 1);
    edit_key(&r, SHOAL_ATTR_INSERTED_WINDOW_DIMS, 0, 0, 1);
    edit_key(&r, SHOAL_ATTR_INPUT_BATCHING_DIMS, 0, places, 1);
    edit_key(&r, SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, 0, 0, 1);
    if (places) {
        edit_key(&r, SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS, 0, 1, 1);
        if (!r.m.status)
            graph_find_attr(r.attrs, b->call->n_attrs, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i++;
        forget_order(&r);
    }
    return made(&r, inputs, b->call->n_inputs);
}

/* A box that begins at the same indices for all: at 0 along the new axis. */
static shoal_status box_at(const graph_batching *b, uint32_t n_operands) {
    batcher r = begin(b);
    uint32_t inputs[SHOAL_MAX_RANK + 3], n = b->call->n_inputs;
    for (uint32_t i = 0; i < n; i++) {
        if (i >= n_operands && b->each[i]) return lacking(b, " for indices that differ");
        inputs[i + (i >= n_operands)] = i < n_operands ? brought(&r, i) : b->inputs[i];
    }
    shoal_type index =
        n > n_operands ? b->call->inputs[n_operands] : (shoal_type){.dtype = SHOAL_I64};
    inputs[n_operands] = splat(&r.m, index, 0);
    edit_all(&r);
    return made(&r, inputs, n + 1);
}

BATCH(dynamic_slice) { return box_at(b, 1); }
BATCH(dynamic_update_slice) { return box_at(b, 2); }

/* ---- calls and graphs ---- */

shoal_status graph_batch(const graph_batching *b) {
    const graph_op_def *def = graph_op(b->call->op);
    for (uint32_t i = 0; i < b->call->n_inputs; i++)
        if (b->call->inputs[i].rank >= SHOAL_MAX_RANK)
            return lacking(b, " for tensors of so many axes");
    return def->batch ? def->batch(b) : lacking(b, "");
}

/* A node of another graph, whose bodies may end with that one. */
static shoal_status batch_node(const shoal_graph *from, const shoal_node *at, graph *g, int64_t n,
                               uint32_t *values, bool *each) {
    base_arena *arena = graph_arena(g);
    uint32_t *inputs = base_arena_array(arena, uint32_t, at->n_inputs + 1u), first;
    bool *differ = base_arena_array(arena, bool, at->n_inputs + 1u), any = false;
    shoal_type *types = base_arena_array(arena, shoal_type, at->n_inputs + 1u);
    const shoal_graph **bodies = base_arena_alloc_array(arena, sizeof *bodies, at->n_regions + 1u);
    if (!inputs || !differ || !types || !bodies) return SHOAL_NO_MEMORY;
    graph_call call = graph_node_call(from, at, types);
    call.regions = bodies;
    for (uint16_t r = 0; r < at->n_regions; r++)
        SHOAL_TRY(graph_copy_body(g, at->regions[r], &bodies[r]));
    for (uint32_t i = 0; i < at->n_inputs; i++) {
        inputs[i] = values[at->inputs[i]];
        differ[i] = each[at->inputs[i]];
        any |= differ[i];
    }
    for (uint16_t o = 0; o < at->n_outputs; o++) each[at->first_output + o] = any;
    if (any)
        return graph_batch(
            &(graph_batching){g, &call, n, inputs, differ, values + at->first_output});
    SHOAL_TRY(graph_add(g, at->op, inputs, at->n_inputs, at->attrs, at->n_attrs, bodies,
                        at->n_regions, &first));
    for (uint16_t o = 0; o < at->n_outputs; o++) values[at->first_output + o] = first + o;
    return SHOAL_OK;
}

shoal_status graph_batch_graph(const shoal_graph *from, graph *g, int64_t n, const uint32_t *inputs,
                               const bool *each, uint32_t *outputs) {
    uint32_t *values = base_arena_array(graph_arena(g), uint32_t, from->n_values + 1u);
    bool *differ = base_arena_array(graph_arena(g), bool, from->n_values + 1u);
    if (!values || !differ) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < from->n_inputs; i++) {
        values[from->inputs[i]] = inputs[i];
        differ[from->inputs[i]] = each[i];
    }
    for (uint32_t i = 0; i < from->n_nodes; i++)
        SHOAL_TRY(batch_node(from, &from->nodes[i], g, n, values, differ));
    batcher r = {.m = {g, SHOAL_OK}};
    for (uint32_t o = 0; o < from->n_outputs; o++) {
        uint32_t value = from->outputs[o];
        shoal_type all = with_axis(&from->values[value].type, n);
        outputs[o] = differ[value] ? values[value] : spread_without(&r.m, values[value], &all, 0);
    }
    return r.m.status;
}
