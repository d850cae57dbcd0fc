/* Gradients of reductions by any body, of any number of tensors: the body is written for pairs of
 * neighbours, of these results for pairs again, and so on, in the order of the elements; and that
 * is differentiated. A body is associative, so that this is what the reduction means. */
#include "graph/maker.h"
#include "graph/rules.h"

uint32_t graph_gather_axes(maker *m, uint32_t x, const int64_t *axes, uint32_t n, bool back,
                           const shoal_type *shape) {
    int64_t order[SHOAL_MAX_RANK], inverse[SHOAL_MAX_RANK];
    uint32_t kept = 0;
    shoal_type moved = *shape, flat;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (!graph_has(axes, n, i)) order[kept++] = i;
    memcpy(order + kept, axes, n * sizeof *order);
    for (uint32_t i = 0; i < shape->rank; i++) {
        moved.dims[i] = shape->dims[order[i]];
        inverse[order[i]] = i;
    }
    flat = moved;
    flat.rank = (uint8_t)(kept + 1);
    flat.dims[kept] = 1;
    for (uint32_t i = kept; i < shape->rank; i++) flat.dims[kept] *= moved.dims[i];
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, back ? inverse : order, shape->rank);
    if (back) x = reshape(m, x, &moved);
    x = node(m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL);
    return back ? x : reshape(m, x, &flat);
}

/* The tensors that are reduced, with the axes that go at their end as one. */
typedef struct tree {
    maker m;
    const shoal_graph *body;
    uint32_t count; /* of tensors */
    bool *each;     /* 2 * count times true */
    uint32_t *state, *pairs;
} tree;

static shoal_status start_tree(const graph_backward *b, tree *t) {
    base_arena *arena = graph_arena(b->g);
    *t = (tree){.m = {b->g, SHOAL_OK}, .body = b->call->regions[0], .count = b->call->n_inputs / 2};
    t->each = base_arena_array(arena, bool, 2 * (size_t)t->count);
    t->state = base_arena_array(arena, uint32_t, (size_t)t->count);
    t->pairs = base_arena_array(arena, uint32_t, 2 * (size_t)t->count);
    if (!t->each || !t->state || !t->pairs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < 2 * t->count; i++) t->each[i] = true;
    return SHOAL_OK;
}

/* The body of the first half of t->pairs and the second, element by element, becomes the state. */
static void join_pairs(tree *t) {
    maker *m = &t->m;
    if (m->status) return;
    shoal_type shape = *type_of(m, t->pairs[0]);
    shoal_type flat = {.rank = 1, .dims = {base_type_count(&shape)}};
    memcpy(t->state, t->pairs, t->count * sizeof *t->state);
    if (!flat.dims[0]) return;
    for (uint32_t i = 0; i < 2 * t->count; i++) t->pairs[i] = reshape(m, t->pairs[i], &flat);
    if (m->status) return;
    m->status = graph_batch_graph(t->body, m->g, flat.dims[0], t->pairs, t->each, t->state);
    for (uint32_t i = 0; i < t->count; i++) t->state[i] = reshape(m, t->state[i], &shape);
}

/* Every stride-th element of the last axis. */
static uint32_t every(maker *m, uint32_t x, int64_t start, int64_t limit, int64_t stride) {
    if (m->status) return 0;
    return slice_along(m, x, type_of(m, x)->rank - 1, start, limit, stride);
}

/* Of n elements, half as many; one that is left over stays at the end. */
static int64_t halve(tree *t, int64_t n) {
    maker *m = &t->m;
    int64_t even = n - n % 2;
    uint32_t *rest = base_arena_array(graph_arena(m->g), uint32_t, (size_t)t->count);
    if (!rest) m->status = SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < t->count && !m->status; i++) {
        t->pairs[i] = every(m, t->state[i], 0, even, 2);
        t->pairs[t->count + i] = every(m, t->state[i], 1, even, 2);
        if (even < n) rest[i] = every(m, t->state[i], even, n, 1);
    }
    join_pairs(t);
    for (uint32_t i = 0; i < t->count && even < n && !m->status; i++) {
        shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, type_of(m, rest[i])->rank - 1);
        t->state[i] =
            node(m, GRAPH_CONCATENATE, (uint32_t[]){t->state[i], rest[i]}, 2, &attr, 1, NULL);
    }
    return even / 2 + n % 2;
}

/* The initial values come first; of no elements they are the result. */
static void finish(tree *t, const graph_backward *b, bool empty) {
    maker *m = &t->m;
    for (uint32_t i = 0; i < t->count && !m->status; i++) {
        const shoal_type type = *type_of(m, b->outputs[i]);
        t->pairs[i] = spread(m, b->inputs[t->count + i], &type, NULL);
        t->pairs[t->count + i] = empty ? t->pairs[i] : reshape(m, t->state[i], &type);
    }
    if (empty)
        memcpy(t->state, t->pairs, t->count * sizeof *t->state);
    else
        join_pairs(t);
}

shoal_status graph_gradient_of_reduction(const graph_backward *b, const int64_t *axes, uint32_t n) {
    tree t;
    uint32_t first = graph_data(b->g)->n_nodes;
    int64_t size = 1;
    const shoal_type *shape = &b->call->inputs[0];
    SHOAL_TRY(start_tree(b, &t));
    for (uint32_t i = 0; i < n; i++) size *= shape->dims[axes[i]];
    for (uint32_t i = 0; i < t.count; i++)
        t.state[i] =
            n ? graph_gather_axes(&t.m, b->inputs[i], axes, n, false, shape) : b->inputs[i];
    for (int64_t left = size; left > 1 && !t.m.status;) left = halve(&t, left);
    finish(&t, b, !size);
    return t.m.status ? t.m.status : graph_gradient_written(b, first, t.state);
}
