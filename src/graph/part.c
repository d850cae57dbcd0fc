/* Parts of calls that are no call of the same operation with other attributes: what picks elements
 * by numbers finds those alone that lie in its part of the operand. A part of a read gives -0 for
 * the others, which leaves as it is what it is added to; a part of a write leaves them out. */
#include "graph/maker.h"
#include "graph/rules.h"

static uint32_t nothing(maker *m, shoal_type type) { return splat(m, type, -0.0); }

static uint32_t number(maker *m, int64_t value) {
    return elements(m, &(shoal_type){.dtype = SHOAL_I64}, &value, sizeof value);
}

static uint32_t clamped(maker *m, uint32_t least, uint32_t x, uint32_t most) {
    return node(m, GRAPH_CLAMP, (uint32_t[]){least, x, most}, 3, NULL, 0, NULL);
}

/* Whether the part has not all of a loop's operand. */
static bool is_cut(const graph_part *p, int loop) { return p->size[loop] != p->axes->extent[loop]; }

shoal_status graph_part_call(const graph_part *p, const uint32_t *inputs, const shoal_attr *attrs,
                             uint16_t n_attrs, uint32_t *first) {
    const graph_call *call = p->call;
    return graph_add(p->g, call->op, inputs, call->n_inputs, attrs, n_attrs, p->regions,
                     call->n_regions, first);
}

/* ---- a range ---- */

/* Positions are those of the whole operand; of a piece that is the range itself nothing is left to
 * do. */
PART(slice) {
    shoal_attr *starts = graph_find_attr(attrs, n_attrs, SHOAL_ATTR_START_INDICES);
    shoal_attr *limits = graph_find_attr(attrs, n_attrs, SHOAL_ATTR_LIMIT_INDICES);
    const int64_t *strides = graph_find_attr(attrs, n_attrs, SHOAL_ATTR_STRIDES)->u.ints;
    const shoal_type *piece = &graph_data(p->g)->values[p->inputs[0]].type;
    int64_t from[SHOAL_MAX_RANK], to[SHOAL_MAX_RANK];
    bool all = true;
    for (uint32_t i = 0; i < piece->rank; i++) {
        bool none = limits->u.ints[i] == starts->u.ints[i];
        int64_t before = p->axes->inputs[0][i] == GRAPH_WHOLE ? p->from[i] : 0;
        from[i] = none ? 0 : starts->u.ints[i] - before;
        to[i] = none ? 0 : limits->u.ints[i] - before;
        all = all && from[i] == 0 && to[i] == piece->dims[i] && (strides[i] == 1 || to[i] < 2);
    }
    *first = p->inputs[0];
    if (all) return SHOAL_OK;
    starts->u.ints = from;
    limits->u.ints = to;
    return graph_part_call(p, p->inputs, attrs, n_attrs, first);
}

/* ---- a box at given indices ---- */

/* Along each axis of the operand that is cut: the box has `wide` elements of what there is of it,
 * from `at` on; `ahead` is where its first one is meant to be, relative to that. */
typedef struct window {
    bool cut[SHOAL_MAX_RANK], any, empty;
    int64_t wide[SHOAL_MAX_RANK];
    uint32_t at[SHOAL_MAX_RANK], ahead[SHOAL_MAX_RANK]; /* int64 scalars */
} window;

/* sizes: of the whole box, or, along axes that are not cut, of this part of it; indices: the first
 * operand that is an index; loops: of each axis of the operand, where it may be cut. */
static window find_window(maker *m, const graph_part *p, const int64_t *sizes, uint32_t indices,
                          const int8_t *loops) {
    const shoal_type *whole = &p->call->inputs[0];
    window w = {0};
    for (uint32_t i = 0; i < whole->rank; i++) {
        w.cut[i] = loops[i] != GRAPH_WHOLE && is_cut(p, loops[i]);
        w.any = w.any || w.cut[i];
        w.empty = w.empty || (w.cut[i] && !p->size[loops[i]]);
    }
    for (uint32_t i = 0; i < whole->rank && w.any && !w.empty; i++) {
        uint32_t zero = number(m, 0), index = with_sign(m, p->inputs[indices + i]);
        int64_t piece = p->size[loops[i] == GRAPH_WHOLE ? 0 : loops[i]];
        w.wide[i] = sizes[i];
        w.at[i] = index;
        w.ahead[i] = zero;
        if (!w.cut[i]) continue;
        if (w.wide[i] > piece) w.wide[i] = piece;
        uint32_t meant = clamped(m, zero, index, number(m, whole->dims[i] - sizes[i]));
        meant = sub(m, meant, number(m, p->start[loops[i]]));
        w.at[i] = clamped(m, zero, meant, number(m, piece - w.wide[i]));
        w.ahead[i] = sub(m, meant, w.at[i]);
    }
    return w;
}

static uint32_t box_at(maker *m, uint32_t x, const uint32_t *at, const int64_t *sizes) {
    uint32_t inputs[1 + SHOAL_MAX_RANK] = {x}, rank = m->status ? 0 : type_of(m, x)->rank;
    for (uint32_t i = 0; i < rank; i++) inputs[1 + i] = at[i];
    shoal_attr attr = graph_ints(SHOAL_ATTR_SLICE_SIZES, sizes, rank);
    return node(m, GRAPH_DYNAMIC_SLICE, inputs, 1 + rank, &attr, 1, NULL);
}

/* Elements of x from `at` on, along the axes that are cut, and nothing where it has none: up to
 * `around` of them lie before it and behind it. */
static uint32_t box_around(maker *m, uint32_t x, const window *w, const uint32_t *at,
                           const int64_t *around, const int64_t *sizes) {
    static const int64_t none[SHOAL_MAX_RANK];
    int64_t edges[SHOAL_MAX_RANK];
    uint32_t begin[SHOAL_MAX_RANK], rank = m->status ? 0 : type_of(m, x)->rank;
    for (uint32_t i = 0; i < rank; i++) {
        edges[i] = w->cut[i] ? around[i] : 0;
        begin[i] = w->cut[i] ? add(m, at[i], number(m, edges[i])) : number(m, 0);
    }
    if (m->status) return 0;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_EDGE_PADDING_LOW, edges, rank),
                                graph_ints(SHOAL_ATTR_EDGE_PADDING_HIGH, edges, rank),
                                graph_ints(SHOAL_ATTR_INTERIOR_PADDING, none, rank)};
    uint32_t inputs[] = {x, nothing(m, (shoal_type){.dtype = type_of(m, x)->dtype})};
    return box_at(m, node(m, GRAPH_PAD, inputs, 2, attrs, 3, NULL), begin, sizes);
}

PART(dynamic_slice) {
    maker m = {.g = p->g};
    const int64_t *sizes = graph_find_attr(attrs, n_attrs, SHOAL_ATTR_SLICE_SIZES)->u.ints;
    int8_t loops[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < p->call->inputs[0].rank; i++) {
        loops[i] = p->axes->inputs[0][i];
        if (!p->axes->contracted[loops[i]]) loops[i] = GRAPH_WHOLE;
    }
    window w = find_window(&m, p, sizes, 1, loops);
    if (!w.any) return graph_part_call(p, p->inputs, attrs, n_attrs, first);
    shoal_type result = p->call->inputs[0];
    for (uint32_t i = 0; i < result.rank; i++) result.dims[i] = sizes[i];
    if (w.empty)
        *first = nothing(&m, result);
    else
        *first = box_around(&m, box_at(&m, p->inputs[0], w.at, w.wide), &w, w.ahead, sizes, sizes);
    return m.status;
}

/* Which elements of the window are given: those whose number in the update is one of its numbers.
 */
static uint32_t given(maker *m, const window *w, const shoal_type *old, const int64_t *sizes) {
    uint32_t all = GRAPH_NO_VALUE;
    for (uint32_t i = 0; i < old->rank; i++) {
        if (!w->cut[i]) continue;
        const shoal_type line = {.dtype = SHOAL_I64, .rank = 1, .dims = {old->dims[i]}};
        const int64_t axis = i;
        uint32_t at = sub(m, numbers(m, &line, 0), spread(m, w->ahead[i], &line, NULL));
        uint32_t low = compare(m, "GE", at, splat(m, line, 0));
        uint32_t high = compare(m, "LT", at, splat(m, line, (double)sizes[i]));
        uint32_t both = spread(m, two(m, GRAPH_AND, low, high), old, &axis);
        all = all == GRAPH_NO_VALUE ? both : two(m, GRAPH_AND, all, both);
    }
    return all;
}

PART(dynamic_update_slice) {
    maker m = {.g = p->g};
    shoal_type update = graph_data(p->g)->values[p->inputs[1]].type;
    int8_t loops[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < update.rank; i++)
        loops[i] = p->axes->inputs[1][i] == GRAPH_WHOLE ? (int8_t)i : GRAPH_WHOLE;
    window w = find_window(&m, p, update.dims, 2, loops);
    if (!w.any) return graph_part_call(p, p->inputs, attrs, n_attrs, first);
    *first = p->inputs[0];
    if (w.empty) return m.status;
    uint32_t back[SHOAL_MAX_RANK], inputs[2 + SHOAL_MAX_RANK] = {p->inputs[0]};
    for (uint32_t i = 0; i < update.rank; i++) {
        back[i] = w.cut[i] ? one(&m, GRAPH_NEGATE, w.ahead[i]) : w.ahead[i];
        inputs[2 + i] = w.at[i];
    }
    uint32_t old = box_at(&m, p->inputs[0], w.at, w.wide);
    if (m.status) return m.status;
    shoal_type type = *type_of(&m, old);
    uint32_t taken = box_around(&m, p->inputs[1], &w, back, w.wide, w.wide);
    inputs[1] = choose(&m, given(&m, &w, &type, update.dims), taken, old);
    return m.status ? m.status : graph_part_call(p, inputs, attrs, n_attrs, first);
}

/* ---- many indices ---- */

/* The loop of an axis along which an index says one element, where the piece has not all of it. */
static int loop_along(const graph_part *p, shoal_attr_key dropped, int64_t axis) {
    uint32_t n;
    const int64_t *list = graph_call_ints(p->call, dropped, &n);
    int8_t loop = p->axes->inputs[0][axis];
    return loop != GRAPH_WHOLE && graph_has(list, n, axis) && is_cut(p, loop) ? loop : GRAPH_WHOLE;
}

/* Indices into the piece there is of the operand. sizes: of what is gathered, whose indices are
 * moved inside the whole before; NULL: of what is scattered those outside remain so, and of others
 * than the loops' own a part may lie inside. most: to be filled with the last index into the piece.
 */
static uint32_t moved(maker *m, const graph_part *p, uint32_t indices, shoal_attr_key dropped,
                      const int64_t *map, uint32_t n, const int64_t *sizes, uint32_t *most) {
    int64_t vector = graph_call_attr(p->call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i;
    int64_t least[SHOAL_MAX_RANK], last[SHOAL_MAX_RANK], start[SHOAL_MAX_RANK], end[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < n; i++) {
        int loop = loop_along(p, dropped, map[i]);
        int64_t extent = p->call->inputs[0].dims[map[i]];
        bool any = !sizes && loop == GRAPH_WHOLE;
        least[i] = sizes ? 0 : any ? INT64_MIN : -1;
        last[i] = sizes ? extent - sizes[map[i]] : any ? INT64_MAX : extent;
        start[i] = loop == GRAPH_WHOLE ? 0 : p->start[loop];
        end[i] = loop == GRAPH_WHOLE ? last[i] : p->size[loop] - 1;
    }
    uint32_t x = with_sign(m, indices);
    if (m->status) return 0;
    shoal_type type = *type_of(m, x);
    x = clamped(m, per_number(m, &type, vector, least, n), x,
                per_number(m, &type, vector, last, n));
    *most = per_number(m, &type, vector, end, n);
    return sub(m, x, per_number(m, &type, vector, start, n));
}

/* Whether there is such an axis, and whether the piece has nothing of one. */
static bool along_cut(const graph_part *p, shoal_attr_key dropped, const int64_t *map, uint32_t n,
                      bool *empty) {
    bool any = *empty = false;
    for (uint32_t i = 0; i < n; i++) {
        int loop = loop_along(p, dropped, map[i]);
        if (loop == GRAPH_WHOLE) continue;
        any = true;
        *empty |= !p->size[loop];
    }
    return any;
}

PART(gather) {
    maker m = {.g = p->g};
    uint32_t n, n_offset, n_sizes;
    const int64_t *map = graph_call_ints(p->call, SHOAL_ATTR_START_INDEX_MAP, &n);
    const int64_t *offset = graph_call_ints(p->call, SHOAL_ATTR_OFFSET_DIMS, &n_offset);
    const int64_t *sizes = graph_call_ints(p->call, SHOAL_ATTR_SLICE_SIZES, &n_sizes);
    int64_t vector = graph_call_attr(p->call, SHOAL_ATTR_INDEX_VECTOR_DIM)->u.i;
    bool empty;
    if (!along_cut(p, SHOAL_ATTR_COLLAPSED_SLICE_DIMS, map, n, &empty))
        return graph_part_call(p, p->inputs, attrs, n_attrs, first);
    shoal_type result = {.dtype = p->call->inputs[0].dtype, .rank = 0};
    for (uint32_t l = 0; l < p->axes->n_loops; l++)
        if (!p->axes->contracted[l]) result.dims[result.rank++] = p->size[l];
    if (empty) {
        *first = nothing(&m, result);
        return m.status;
    }
    uint32_t most,
        at = moved(&m, p, p->inputs[1], SHOAL_ATTR_COLLAPSED_SLICE_DIMS, map, n, sizes, &most);
    if (m.status) return m.status;
    shoal_type zeros = *type_of(&m, at);
    uint32_t inside = clamped(&m, splat(&m, zeros, 0), at, most);
    uint32_t outside = compare(&m, "NE", at, inside), found;
    if (vector < zeros.rank) outside = join(&m, GRAPH_ADD, outside, vector);
    SHOAL_TRY(m.status);
    SHOAL_TRY(graph_part_call(p, (uint32_t[]){p->inputs[0], inside}, attrs, n_attrs, &found));
    outside = spread_over(&m, outside, &result, offset, n_offset);
    *first = choose(&m, outside, nothing(&m, result), found);
    return m.status;
}

/* What lies outside is left out, as scattering does. */
PART(scatter) {
    maker m = {.g = p->g};
    uint32_t inputs[129], n_inputs = p->call->n_inputs, n = (n_inputs - 1) / 2, n_map, most;
    const int64_t *map = graph_call_ints(p->call, SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &n_map);
    bool empty;
    memcpy(inputs, p->inputs, n_inputs * sizeof *inputs);
    if (along_cut(p, SHOAL_ATTR_INSERTED_WINDOW_DIMS, map, n_map, &empty))
        inputs[n] =
            moved(&m, p, p->inputs[n], SHOAL_ATTR_INSERTED_WINDOW_DIMS, map, n_map, NULL, &most);
    return m.status ? m.status : graph_part_call(p, inputs, attrs, n_attrs, first);
}
