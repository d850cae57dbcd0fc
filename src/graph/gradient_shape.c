/* Gradients of what moves elements, and of products. */
#include "graph/maker.h"
#include "graph/rules.h"

GRADIENT(reshape) {
    maker m = {b->g, SHOAL_OK};
    b->gradients[0] = reshape(&m, b->seeds[0], &b->call->inputs[0]);
    return m.status;
}

static uint32_t permuted(maker *m, uint32_t x, const int64_t *axes) {
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, axes, type_of(m, x)->rank);
    return node(m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL);
}

GRADIENT(transpose) {
    maker m = {b->g, SHOAL_OK};
    uint32_t rank;
    const int64_t *axes = graph_call_ints(b->call, SHOAL_ATTR_PERMUTATION, &rank);
    int64_t back[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) back[axes[i]] = i;
    b->gradients[0] = permuted(&m, b->seeds[0], back);
    return m.status;
}

/* What was repeated is summed. */
GRADIENT(broadcast_in_dim) {
    maker m = {b->g, SHOAL_OK};
    const shoal_type *in = &b->call->inputs[0], result = *type_of(&m, b->seeds[0]);
    uint32_t n, n_summed = 0;
    const int64_t *axes = graph_call_ints(b->call, SHOAL_ATTR_BROADCAST_DIMENSIONS, &n);
    int64_t summed[SHOAL_MAX_RANK], order[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < result.rank; i++) {
        bool kept = false;
        for (uint32_t k = 0; k < n; k++)
            kept = kept || (axes[k] == i && in->dims[k] == result.dims[i]);
        if (!kept) summed[n_summed++] = i;
    }
    uint32_t g = b->seeds[0];
    if (n_summed) g = join_axes(&m, GRAPH_ADD, g, summed, n_summed);
    /* Axes of the operand may lie in another order in the result. */
    bool in_order = true;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (graph_has(summed, n_summed, axes[k])) continue;
        int64_t before = 0;
        for (uint32_t j = 0; j < n; j++)
            before += axes[j] < axes[k] && !graph_has(summed, n_summed, axes[j]);
        in_order = in_order && before == kept;
        order[kept++] = before;
    }
    if (!in_order) g = permuted(&m, g, order);
    if (!m.status && !base_type_equal(type_of(&m, g), in)) g = reshape(&m, g, in);
    b->gradients[0] = g;
    return m.status;
}

/* ---- parts ---- */

static uint32_t padded(maker *m, uint32_t x, const int64_t *low, const int64_t *high,
                       const int64_t *interior) {
    uint32_t rank = type_of(m, x)->rank;
    uint32_t zero = splat(m, (shoal_type){.dtype = type_of(m, x)->dtype}, 0);
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_EDGE_PADDING_LOW, low, rank),
                                graph_ints(SHOAL_ATTR_EDGE_PADDING_HIGH, high, rank),
                                graph_ints(SHOAL_ATTR_INTERIOR_PADDING, interior, rank)};
    return node(m, GRAPH_PAD, (uint32_t[]){x, zero}, 2, attrs, 3, NULL);
}

static uint32_t sliced(maker *m, uint32_t x, const int64_t *start, const int64_t *limit,
                       const int64_t *stride) {
    uint32_t rank = type_of(m, x)->rank;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, start, rank),
                                graph_ints(SHOAL_ATTR_LIMIT_INDICES, limit, rank),
                                graph_ints(SHOAL_ATTR_STRIDES, stride, rank)};
    return node(m, GRAPH_SLICE, &x, 1, attrs, 3, NULL);
}

/* Zeros around and between. */
GRADIENT(slice) {
    maker m = {b->g, SHOAL_OK};
    const shoal_type *in = &b->call->inputs[0];
    uint32_t n;
    const int64_t *start = graph_call_ints(b->call, SHOAL_ATTR_START_INDICES, &n);
    const int64_t *stride = graph_call_ints(b->call, SHOAL_ATTR_STRIDES, &n);
    int64_t low[SHOAL_MAX_RANK], high[SHOAL_MAX_RANK], interior[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < n; i++) {
        int64_t count = type_of(&m, b->seeds[0])->dims[i];
        low[i] = count ? start[i] : 0;
        interior[i] = count > 1 ? stride[i] - 1 : 0;
        high[i] = in->dims[i] - low[i] - (count ? (count - 1) * (interior[i] + 1) + 1 : 0);
    }
    b->gradients[0] = padded(&m, b->seeds[0], low, high, interior);
    return m.status;
}

/* Edges off, then every element that was there. Padding below zero took elements away: these get
 * zeros. The value of the padding gets the sum of the rest. */
GRADIENT(pad) {
    maker m = {b->g, SHOAL_OK};
    static const int64_t none[SHOAL_MAX_RANK], all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const shoal_type *in = &b->call->inputs[0];
    uint32_t n, g = b->seeds[0];
    const int64_t *low = graph_call_ints(b->call, SHOAL_ATTR_EDGE_PADDING_LOW, &n);
    const int64_t *high = graph_call_ints(b->call, SHOAL_ATTR_EDGE_PADDING_HIGH, &n);
    const int64_t *interior = graph_call_ints(b->call, SHOAL_ATTR_INTERIOR_PADDING, &n);
    int64_t start[SHOAL_MAX_RANK] = {0}, below[SHOAL_MAX_RANK], above[SHOAL_MAX_RANK];
    int64_t stride[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < n; i++) {
        below[i] = -low[i];
        above[i] = -high[i];
        stride[i] = interior[i] + 1;
    }
    if (b->wanted[0]) {
        uint32_t bare = padded(&m, g, below, above, none);
        if (m.status) return m.status;
        shoal_type limit = *type_of(&m, bare);
        b->gradients[0] = sliced(&m, bare, start, limit.dims, stride);
    }
    if (b->wanted[1]) {
        uint32_t inside = padded(&m, splat(&m, *in, 1), low, high, interior);
        uint32_t outside = compare(&m, "EQ", inside, like(&m, inside, 0));
        /* Chosen, not multiplied by 0: a gradient that is infinite inside is of no matter. */
        b->gradients[1] = join_axes(&m, GRAPH_ADD, choose(&m, outside, g, like(&m, g, 0)), all, n);
    }
    return m.status;
}

GRADIENT(concatenate) {
    maker m = {b->g, SHOAL_OK};
    int64_t axis = graph_call_attr(b->call, SHOAL_ATTR_DIMENSION)->u.i, at = 0;
    int64_t start[SHOAL_MAX_RANK] = {0}, stride[SHOAL_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t i = 0; i < b->call->n_inputs; i++) {
        shoal_type limit = b->call->inputs[i];
        start[axis] = at;
        at += limit.dims[axis];
        limit.dims[axis] = at;
        if (b->wanted[i]) b->gradients[i] = sliced(&m, b->seeds[0], start, limit.dims, stride);
    }
    return m.status;
}

GRADIENT(reverse) {
    maker m = {b->g, SHOAL_OK};
    b->gradients[0] = node(&m, GRAPH_REVERSE, b->seeds, 1, b->call->attrs, b->call->n_attrs, NULL);
    return m.status;
}

/* ---- products ---- */

/* The axes of a side of a product, in the order in which they are named or lie. */
typedef struct side {
    const shoal_type *type;
    const int64_t *batch, *contracting;
    uint32_t n_batch, n_contracting, n_free;
    int64_t free[SHOAL_MAX_RANK];
} side;

static side side_of(const graph_call *call, uint32_t input) {
    side s = {.type = &call->inputs[input]};
    s.batch = graph_call_ints(
        call, input ? SHOAL_ATTR_RHS_BATCHING_DIMENSIONS : SHOAL_ATTR_LHS_BATCHING_DIMENSIONS,
        &s.n_batch);
    s.contracting = graph_call_ints(
        call, input ? SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS : SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS,
        &s.n_contracting);
    for (uint32_t i = 0; i < s.type->rank; i++)
        if (!graph_has(s.batch, s.n_batch, i) && !graph_has(s.contracting, s.n_contracting, i))
            s.free[s.n_free++] = i;
    return s;
}

/* Those axes of the other side that are contracted, in the order in which they lie, as axes of this
 * one. */
static void partners(const side *own, const side *other, int64_t *out) {
    for (uint32_t i = 0; i < other->n_contracting; i++) {
        uint32_t before = 0;
        for (uint32_t k = 0; k < other->n_contracting; k++)
            before += other->contracting[k] < other->contracting[i];
        out[before] = own->contracting[i];
    }
}

/* Axis `order[i]` of the wanted operand is axis i of x. */
static uint32_t in_order(maker *m, uint32_t x, const int64_t *order, uint32_t rank) {
    int64_t back[SHOAL_MAX_RANK];
    bool same = true;
    for (uint32_t i = 0; i < rank; i++) {
        back[order[i]] = i;
        same = same && order[i] == i;
    }
    return same ? x : permuted(m, x, back);
}

static uint32_t dot(maker *m, uint32_t x, uint32_t y, const int64_t *x_batch,
                    const int64_t *y_batch, uint32_t n_batch, const int64_t *x_axes,
                    const int64_t *y_axes, uint32_t n_axes) {
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, x_batch, n_batch),
                                graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, y_batch, n_batch),
                                graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, x_axes, n_axes),
                                graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, y_axes, n_axes)};
    return node(m, GRAPH_DOT_GENERAL, (uint32_t[]){x, y}, 2, attrs, 4, NULL);
}

/* The result has the batch, then the left's free axes, then the right's. Left: g by the right, over
 * the right's free axes; right: the left by g, over the left's. Both come out in the order that a
 * plain product needs no transpose of. */
GRADIENT(dot_general) {
    maker m = {b->g, SHOAL_OK};
    side l = side_of(b->call, 0), r = side_of(b->call, 1);
    int64_t first[SHOAL_MAX_RANK], axes[SHOAL_MAX_RANK], order[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < SHOAL_MAX_RANK; i++) first[i] = i;
    memcpy(order, l.batch, l.n_batch * sizeof *order);
    if (b->wanted[0]) {
        for (uint32_t i = 0; i < r.n_free; i++) axes[i] = l.n_batch + l.n_free + i;
        uint32_t x =
            dot(&m, b->seeds[0], b->inputs[1], first, r.batch, l.n_batch, axes, r.free, r.n_free);
        memcpy(order + l.n_batch, l.free, l.n_free * sizeof *order);
        partners(&l, &r, order + l.n_batch + l.n_free);
        b->gradients[0] = in_order(&m, x, order, l.type->rank);
    }
    memcpy(order, r.batch, r.n_batch * sizeof *order);
    if (b->wanted[1]) {
        for (uint32_t i = 0; i < l.n_free; i++) axes[i] = l.n_batch + i;
        uint32_t y =
            dot(&m, b->inputs[0], b->seeds[0], l.batch, first, l.n_batch, l.free, axes, l.n_free);
        partners(&r, &l, order + r.n_batch);
        memcpy(order + r.n_batch + r.n_contracting, r.free, r.n_free * sizeof *order);
        b->gradients[1] = in_order(&m, y, order, r.type->rank);
    }
    return m.status;
}
