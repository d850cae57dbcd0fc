/* Gradients of what picks elements by numbers. A gather and an adding scatter with the same
 * dimension numbers are each other's gradient; a gather moves indices inside, a scatter leaves out
 * what lies outside, and each rule makes up for that. */
#include "graph/maker.h"
#include "graph/rules.h"

/* ---- boxes at given indices ---- */

/* dynamic_update_slice(x, update, starts...), the starts being the operands from `first` on. */
static uint32_t update_box(maker *m, const graph_backward *b, uint32_t x, uint32_t update,
                           uint32_t first) {
    uint32_t inputs[2 + SHOAL_MAX_RANK] = {x, update}, n = b->call->n_inputs - first;
    memcpy(inputs + 2, b->inputs + first, n * sizeof *inputs);
    return node(m, GRAPH_DYNAMIC_UPDATE_SLICE, inputs, 2 + n, NULL, 0, NULL);
}

GRADIENT(dynamic_slice) {
    maker m = {b->g, SHOAL_OK};
    b->gradients[0] = update_box(&m, b, splat(&m, b->call->inputs[0], 0), b->seeds[0], 1);
    return m.status;
}

GRADIENT(dynamic_update_slice) {
    maker m = {b->g, SHOAL_OK};
    const shoal_type *update = &b->call->inputs[1];
    uint32_t g = b->seeds[0], inputs[1 + SHOAL_MAX_RANK] = {g}, n = b->call->n_inputs - 2;
    shoal_attr attr = graph_ints(SHOAL_ATTR_SLICE_SIZES, update->dims, update->rank);
    memcpy(inputs + 1, b->inputs + 2, n * sizeof *inputs);
    if (b->wanted[0]) b->gradients[0] = update_box(&m, b, g, splat(&m, *update, 0), 2);
    if (b->wanted[1])
        b->gradients[1] = node(&m, GRAPH_DYNAMIC_SLICE, inputs, 1 + n, &attr, 1, NULL);
    return m.status;
}

/* ---- gather and scatter ---- */

/* The dimension numbers of either, under the keys of the other: window, dropped, operand batching,
 * index batching, map, in this order. */
enum { LISTS = 5 };
static const shoal_attr_key gather_keys[LISTS] = {
    SHOAL_ATTR_OFFSET_DIMS, SHOAL_ATTR_COLLAPSED_SLICE_DIMS, SHOAL_ATTR_OPERAND_BATCHING_DIMS,
    SHOAL_ATTR_START_INDICES_BATCHING_DIMS, SHOAL_ATTR_START_INDEX_MAP};
static const shoal_attr_key scatter_keys[LISTS] = {
    SHOAL_ATTR_UPDATE_WINDOW_DIMS, SHOAL_ATTR_INSERTED_WINDOW_DIMS, SHOAL_ATTR_INPUT_BATCHING_DIMS,
    SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS, SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS};

typedef struct numbering {
    const int64_t *lists[LISTS];
    uint32_t counts[LISTS];
    int64_t vector;
    int64_t sizes[SHOAL_MAX_RANK]; /* of a window, per axis of the operand */
} numbering;

static numbering numbering_of(const graph_call *call, const shoal_attr_key *keys) {
    numbering d = {.vector = graph_call_attr(call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i};
    for (int i = 0; i < LISTS; i++) d.lists[i] = graph_call_ints(call, keys[i], &d.counts[i]);
    return d;
}

/* Attributes under these keys; returns their number. There is room for one more. */
static uint16_t numbering_attrs(const numbering *d, const shoal_attr_key *keys, shoal_attr *attrs) {
    for (int i = 0; i < LISTS; i++) attrs[i] = graph_ints(keys[i], d->lists[i], d->counts[i]);
    attrs[LISTS] = graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, d->vector);
    return LISTS + 1;
}

static uint32_t gathered(maker *m, uint32_t x, uint32_t indices, const numbering *d) {
    shoal_attr attrs[LISTS + 2];
    uint16_t n = numbering_attrs(d, gather_keys, attrs);
    attrs[n++] = graph_ints(SHOAL_ATTR_SLICE_SIZES, d->sizes, type_of(m, x)->rank);
    return node(m, GRAPH_GATHER, (uint32_t[]){x, indices}, 2, attrs, n, NULL);
}

static uint32_t scattered(maker *m, uint32_t x, uint32_t indices, uint32_t updates,
                          const numbering *d, const shoal_graph *body) {
    shoal_attr attrs[LISTS + 1];
    uint16_t n = numbering_attrs(d, scatter_keys, attrs);
    return node(m, GRAPH_SCATTER, (uint32_t[]){x, indices, updates}, 3, attrs, n, body);
}

static uint32_t scatter_added(maker *m, uint32_t x, uint32_t indices, uint32_t updates,
                              const numbering *d) {
    const shoal_graph *body = NULL;
    if (!m->status)
        m->status = graph_add_body(m->g, GRAPH_ADD, (shoal_dtype)type_of(m, x)->dtype, &body);
    return scattered(m, x, indices, updates, d, body);
}

/* One number per axis of the operand, for those that an index chooses: in the shape of the indices
 * (int64). */
static uint32_t per_index(maker *m, const int64_t *of_axes, const shoal_type *indices,
                          const numbering *d) {
    int64_t values[SHOAL_MAX_RANK], n = d->counts[4];
    for (int64_t i = 0; i < n; i++) values[i] = of_axes[d->lists[4][i]];
    return per_number(m, indices, d->vector, values, n);
}

/* The greatest index at which a window lies inside. */
static uint32_t greatest(maker *m, const shoal_type *operand, const shoal_type *indices,
                         const numbering *d) {
    int64_t most[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < operand->rank; i++) most[i] = operand->dims[i] - d->sizes[i];
    return per_index(m, most, indices, d);
}

GRADIENT(gather) {
    maker m = {b->g, SHOAL_OK};
    const shoal_type *operand = &b->call->inputs[0];
    numbering d = numbering_of(b->call, gather_keys);
    uint32_t n;
    const int64_t *sizes = graph_call_ints(b->call, SHOAL_ATTR_SLICE_SIZES, &n);
    memcpy(d.sizes, sizes, n * sizeof *sizes);
    uint32_t indices = with_sign(&m, b->inputs[1]);
    uint32_t most = greatest(&m, operand, &b->call->inputs[1], &d);
    indices = two(&m, GRAPH_MINIMUM, indices, most);
    indices = two(&m, GRAPH_MAXIMUM, indices, like(&m, indices, 0));
    b->gradients[0] = scatter_added(&m, splat(&m, *operand, 0), indices, b->seeds[0], &d);
    return m.status;
}

/* ---- scatter ---- */

typedef struct scatter {
    maker m;
    const graph_backward *b;
    numbering d;
    const shoal_type *input, *updates;
    uint32_t indices; /* int64 */
    bool partly; /* a window may lie inside in part: what does is added, what does not is not */
} scatter;

static scatter scatter_of(const graph_backward *b) {
    scatter s = {{b->g, SHOAL_OK}, b, numbering_of(b->call, scatter_keys)};
    s.input = &b->call->inputs[0];
    s.updates = &b->call->inputs[2];
    s.indices = with_sign(&s.m, b->inputs[1]);
    for (uint32_t i = 0, at = 0; i < s.input->rank; i++) {
        bool dropped = graph_has(s.d.lists[1], s.d.counts[1], i);
        bool batching = graph_has(s.d.lists[2], s.d.counts[2], i);
        s.d.sizes[i] = dropped    ? 1
                       : batching ? s.input->dims[i] != 0
                                  : s.updates->dims[s.d.lists[0][at++]];
        if (s.d.sizes[i] > 1 && graph_has(s.d.lists[4], s.d.counts[4], i)) s.partly = true;
    }
    return s;
}

/* Per element of the updates, whether it found a place. */
static uint32_t inside(scatter *s) {
    maker *m = &s->m;
    shoal_type flags = *s->updates;
    const shoal_type *indices = &s->b->call->inputs[1];
    flags.dtype = SHOAL_BOOL;
    if (!s->d.counts[4]) return splat(m, flags, 1);
    uint32_t most = greatest(m, s->input, indices, &s->d);
    uint32_t low = compare(m, "LT", s->indices, like(m, s->indices, 0));
    uint32_t wrong = two(m, GRAPH_OR, low, compare(m, "GT", s->indices, most));
    if (s->d.vector < indices->rank) {
        uint32_t count = join(m, GRAPH_ADD, convert(m, wrong, SHOAL_I64), s->d.vector);
        wrong = compare(m, "NE", count, like(m, count, 0));
    }
    int64_t axes[SHOAL_MAX_RANK];
    for (uint32_t i = 0, n = 0; i < flags.rank; i++)
        if (!graph_has(s->d.lists[0], s->d.counts[0], i)) axes[n++] = i;
    return one(m, GRAPH_NOT, spread(m, wrong, &flags, axes));
}

/* x in the shape of the updates, of which some may lie inside in part: from x with room around it
 * for whole windows. */
static uint32_t back_partly(scatter *s, uint32_t x, double outside) {
    maker *m = &s->m;
    const shoal_type *indices = &s->b->call->inputs[1];
    int64_t room[SHOAL_MAX_RANK] = {0}, none[SHOAL_MAX_RANK] = {0}, least[SHOAL_MAX_RANK];
    const shoal_type scalar = {.dtype = type_of(m, x)->dtype};
    for (uint32_t i = 0; i < s->input->rank; i++) {
        if (graph_has(s->d.lists[4], s->d.counts[4], i)) room[i] = s->d.sizes[i];
        least[i] = -room[i];
    }
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_EDGE_PADDING_LOW, room, s->input->rank),
                                graph_ints(SHOAL_ATTR_EDGE_PADDING_HIGH, room, s->input->rank),
                                graph_ints(SHOAL_ATTR_INTERIOR_PADDING, none, s->input->rank)};
    uint32_t padded =
        node(m, GRAPH_PAD, (uint32_t[]){x, splat(m, scalar, outside)}, 2, attrs, 3, NULL);
    uint32_t at = two(m, GRAPH_MINIMUM, s->indices, per_index(m, s->input->dims, indices, &s->d));
    at = two(m, GRAPH_MAXIMUM, at, per_index(m, least, indices, &s->d));
    at = two(m, GRAPH_ADD, at, per_index(m, room, indices, &s->d));
    return gathered(m, padded, at, &s->d);
}

/* What lies in x where each element of the updates went; `outside` for those that went nowhere. */
static uint32_t back(scatter *s, uint32_t x, double outside) {
    if (s->m.status) return 0;
    if (s->partly) return back_partly(s, x, outside);
    uint32_t found = gathered(&s->m, x, s->indices, &s->d);
    return s->m.status ? 0 : choose(&s->m, inside(s), found, like(&s->m, found, outside));
}

static void scatter_add(scatter *s) {
    if (s->b->wanted[0]) s->b->gradients[0] = s->b->seeds[0];
    if (s->b->wanted[2]) s->b->gradients[2] = back(s, s->b->seeds[0], 0);
}

/* Of several updates of one element the last is there: it alone has a gradient. Each update's
 * number is set and looked up to see whose is there. */
static void scatter_set(scatter *s) {
    maker *m = &s->m;
    const graph_backward *b = s->b;
    uint32_t g = b->seeds[0];
    if (b->wanted[0])
        b->gradients[0] =
            scattered(m, g, s->indices, splat(m, *s->updates, 0), &s->d, b->call->regions[0]);
    if (!b->wanted[2]) return;
    const shoal_attr *unique = graph_call_attr(b->call, SHOAL_ATTR_UNIQUE_INDICES);
    b->gradients[2] = back(s, g, 0);
    if (unique && unique->u.i) return;
    shoal_type flat = {.dtype = SHOAL_I64, .rank = 1, .dims = {base_type_count(s->updates)}};
    shoal_type shape = *s->updates, whole = *s->input;
    shape.dtype = whole.dtype = SHOAL_I64;
    uint32_t ids = reshape(m, numbers(m, &flat, 0), &shape);
    graph *body = NULL;
    uint32_t in[2];
    const shoal_type scalar = {.dtype = SHOAL_I64};
    if (!m->status) m->status = graph_add_region(m->g, &body);
    for (int i = 0; i < 2 && !m->status; i++) m->status = graph_add_input(body, &scalar, &in[i]);
    if (!m->status) m->status = graph_add_output(body, in[1]);
    if (m->status) return;
    uint32_t there = scattered(m, splat(m, whole, -1), s->indices, ids, &s->d, graph_data(body));
    uint32_t won = compare(m, "EQ", back(s, there, -1), ids);
    b->gradients[2] = choose(m, won, b->gradients[2], like(m, b->gradients[2], 0));
}

/* Whatever is equal to what came out shares the gradient. */
static void scatter_extreme(scatter *s) {
    maker *m = &s->m;
    const graph_backward *b = s->b;
    uint32_t y = b->outputs[0], x = b->inputs[0], u = b->inputs[2];
    uint32_t from_x = convert(m, compare(m, "EQ", x, y), s->input->dtype);
    shoal_type flags = *s->input;
    flags.dtype = SHOAL_BOOL;
    uint32_t from_u = compare(m, "EQ", u, back(s, y, 0)), found = back(s, splat(m, flags, 1), 0);
    from_u = convert(m, two(m, GRAPH_AND, from_u, found), s->input->dtype);
    uint32_t share =
        two(m, GRAPH_DIVIDE, b->seeds[0], scatter_added(m, from_x, s->indices, from_u, &s->d));
    if (b->wanted[0]) b->gradients[0] = two(m, GRAPH_MULTIPLY, from_x, share);
    if (b->wanted[2]) b->gradients[2] = two(m, GRAPH_MULTIPLY, from_u, back(s, share, 0));
}

/* Factors of nothing but one update each: of x the product of them, of an update what it
 * multiplies.
 */
static void scatter_product(scatter *s) {
    maker *m = &s->m;
    const graph_backward *b = s->b;
    const shoal_graph *body = b->call->regions[0];
    uint32_t x = b->inputs[0], u = b->inputs[2], g = b->seeds[0], one_ = splat(m, *s->input, 1);
    if (b->wanted[0]) b->gradients[0] = mul(m, g, scattered(m, one_, s->indices, u, &s->d, body));
    if (!b->wanted[2]) return;
    const shoal_attr *unique = graph_call_attr(b->call, SHOAL_ATTR_UNIQUE_INDICES);
    if (unique && unique->u.i) {
        b->gradients[2] = back(s, mul(m, g, x), 0);
        return;
    }
    /* Several may multiply one element: the product of those that are not 0, without the one. It is
     * of the others where they have no 0 among them. */
    uint32_t is_zero = compare(m, "EQ", u, splat(m, *s->updates, 0));
    uint32_t zeros = convert(m, is_zero, s->updates->dtype);
    uint32_t count = scatter_added(m, splat(m, *s->input, 0), s->indices, zeros, &s->d);
    uint32_t factors = choose(m, is_zero, splat(m, *s->updates, 1), u);
    uint32_t all = scattered(m, one_, s->indices, factors, &s->d, body);
    uint32_t others = over(m, back(s, mul(m, mul(m, g, x), all), 0), factors);
    uint32_t alone = compare(m, "EQ", back(s, count, 0), zeros);
    b->gradients[2] = choose(m, alone, others, splat(m, *s->updates, 0));
}

GRADIENT(scatter) {
    if (b->call->n_inputs != 3)
        return base_fail(SHOAL_UNSUPPORTED, "there is one for one tensor at a time");
    const shoal_graph *body = b->call->regions[0];
    uint16_t op = graph_body_op(body);
    bool sets = !body->n_nodes && body->outputs[0] == body->inputs[1];
    if (!sets && op != GRAPH_ADD && op != GRAPH_MULTIPLY && op != GRAPH_MAXIMUM &&
        op != GRAPH_MINIMUM)
        return base_fail(SHOAL_UNSUPPORTED, "there is one for bodies that set, add, multiply, or "
                                            "take the maximum or minimum");
    scatter s = scatter_of(b);
    if (sets)
        scatter_set(&s);
    else if (op == GRAPH_ADD)
        scatter_add(&s);
    else if (op == GRAPH_MULTIPLY)
        scatter_product(&s);
    else
        scatter_extreme(&s);
    return s.m.status;
}

/* ---- along an axis ---- */

uint32_t graph_add_along(maker *m, uint32_t x, uint32_t indices, uint32_t updates, int64_t axis) {
    int64_t others[SHOAL_MAX_RANK];
    uint32_t n = 0, rank = type_of(m, x)->rank;
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis) others[n++] = i;
    numbering d = {
        .lists = {NULL, &axis, others, others, &axis}, .counts = {0, 1, n, n, 1}, .vector = rank};
    return scatter_added(m, x, indices, updates, &d);
}
