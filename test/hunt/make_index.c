/* Nodes that pick elements by numbers, put them in order, or choose what runs. */
#include "make.h"

#include <stdlib.h>
#include <string.h>

/* ---- boxes at given indices ---- */

static bool dynamic(maker *m, uint16_t op) {
    uint32_t in[2 + SHOAL_MAX_RANK] = {make_any(m, NULL, 0)}, out, n = 1;
    shoal_type type = *make_type(m, in[0]), part = type;
    for (uint32_t i = 0; i < type.rank; i++)
        part.dims[i] = MAKE_CHANCE(40) ? type.dims[i] : MAKE_BELOW(type.dims[i] + 1);
    if (op == GRAPH_DYNAMIC_UPDATE_SLICE) in[n++] = make_like(m, part);
    uint8_t dtype = make_dtype(m, "iu");
    for (uint32_t i = 0; i < type.rank; i++)
        in[n++] = make_numbers(m, (shoal_type){.dtype = dtype});
    shoal_attr sizes = MAKE_INTS(SLICE_SIZES, part.dims, type.rank);
    return make_node(m, op, in, n, &sizes, op == GRAPH_DYNAMIC_SLICE, NULL, 0, &out);
}

/* ---- gather and scatter ---- */

/* What both have: an operand, indices, and where their axes go. */
typedef struct indexing {
    shoal_type operand, indices, result; /* result: of gather, updates of scatter */
    int64_t window[SHOAL_MAX_RANK], dropped[SHOAL_MAX_RANK], operand_batching[SHOAL_MAX_RANK],
        index_batching[SHOAL_MAX_RANK], map[SHOAL_MAX_RANK], sizes[SHOAL_MAX_RANK];
    uint32_t n_window, n_dropped, n_batching, n_map;
    int64_t vector;
    bool rows; /* whole ones along an axis, whose place their numbers' axes take */
} indexing;

/* Roles of the operand's axes: batching, dropped (one element each), or a box; and which of them an
 * index chooses. */
static void choose_axes(maker *m, indexing *x) {
    int64_t order[SHOAL_MAX_RANK], axis = x->operand.rank ? MAKE_BELOW(x->operand.rank) : 0;
    x->rows = x->operand.rank && x->operand.dims[axis] && MAKE_CHANCE(20);
    if (x->rows) {
        memcpy(x->sizes, x->operand.dims, x->operand.rank * sizeof *x->sizes);
        x->sizes[axis] = 1;
        x->dropped[x->n_dropped++] = x->map[x->n_map++] = axis;
        return;
    }
    make_permutation(m, x->operand.rank, order);
    for (uint32_t i = 0; i < x->operand.rank; i++) {
        bool batching = x->operand.rank > 1 && !x->n_batching && MAKE_CHANCE(15);
        bool dropped = !batching && x->operand.dims[i] > 0 && MAKE_CHANCE(45);
        int64_t extent = x->operand.dims[i];
        x->sizes[i] = batching || dropped ? 1 : MAKE_CHANCE(50) ? extent : MAKE_BELOW(extent + 1);
        if (batching && !extent) batching = false, x->sizes[i] = 0;
        if (batching) x->operand_batching[x->n_batching++] = i;
        if (dropped) x->dropped[x->n_dropped++] = i;
    }
    for (uint32_t i = 0; i < x->operand.rank; i++) {
        bool batching = x->n_batching && x->operand_batching[0] == order[i];
        if (!batching && MAKE_CHANCE(70)) x->map[x->n_map++] = order[i];
    }
}

/* The shape of the indices: places, among them one for the batch, and the axis of the numbers. */
static void choose_indices(maker *m, indexing *x) {
    uint32_t places = MAKE_BELOW(3);
    shoal_type *indices = &x->indices;
    for (uint32_t i = 0; i < places; i++) indices->dims[indices->rank++] = make_extent(m);
    if (x->n_batching) {
        uint32_t at = MAKE_BELOW(indices->rank + 1u);
        memmove(indices->dims + at + 1, indices->dims + at,
                (indices->rank - at) * sizeof *indices->dims);
        indices->dims[at] = x->operand.dims[x->operand_batching[0]];
        indices->rank++;
        x->index_batching[0] = at;
    }
    x->vector = MAKE_CHANCE(60) ? indices->rank : MAKE_BELOW(indices->rank + 1u);
    if (x->n_map == 1 && MAKE_CHANCE(40)) {
        x->vector = indices->rank; /* the axis of one number is not there */
        return;
    }
    memmove(indices->dims + x->vector + 1, indices->dims + x->vector,
            (size_t)(indices->rank - x->vector) * sizeof *indices->dims);
    indices->dims[x->vector] = x->n_map;
    indices->rank++;
    if (x->n_batching && x->index_batching[0] >= x->vector) x->index_batching[0]++;
}

/* Axes of the result: those of boxes at random places, in order, those of the indices between. */
static bool choose_result(maker *m, indexing *x) {
    uint32_t boxes = x->operand.rank - x->n_dropped - x->n_batching;
    uint32_t places = x->indices.rank - (x->vector < x->indices.rank);
    uint32_t rank = boxes + places, index = 0, axis = 0;
    if (rank > make_most_axes(m) || x->indices.rank > make_most_axes(m)) return false;
    x->result.rank = (uint8_t)rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t left = boxes - x->n_window;
        bool beside = i < x->dropped[0] || i >= x->dropped[0] + places;
        if (x->rows ? beside : left && MAKE_BELOW(rank - i) < left) {
            bool kept = false;
            while (!kept) {
                kept = true;
                for (uint32_t k = 0; k < x->n_dropped; k++) kept &= x->dropped[k] != axis;
                for (uint32_t k = 0; k < x->n_batching; k++) kept &= x->operand_batching[k] != axis;
                axis += !kept;
            }
            x->window[x->n_window++] = i;
            x->result.dims[i] = x->sizes[axis++];
        } else {
            index += index == x->vector;
            x->result.dims[i] = x->indices.dims[index++];
        }
    }
    /* Where slices have no elements there may be any number of indices. */
    return base_type_count(&x->result) <= m->elements &&
           base_type_count(&x->indices) <= m->elements;
}

/* The first argument, the second, their sum, or the larger. */
static const shoal_graph *update_body(maker *m, uint8_t dtype) {
    if (MAKE_CHANCE(60)) return make_join(m, dtype, MAKE_CHANCE(50));
    graph *body;
    uint32_t in[2];
    shoal_type scalar = {.dtype = dtype};
    hunt_must(graph_add_region(m->g, &body));
    for (int i = 0; i < 2; i++) hunt_must(graph_add_input(body, &scalar, &in[i]));
    hunt_must(graph_add_output(body, in[MAKE_CHANCE(85)]));
    return graph_data(body);
}

/* Whether boxes of different indices have no element in common. */
static bool are_apart(const indexing *x) {
    for (uint32_t i = 0; i < x->n_map; i++)
        if (x->sizes[x->map[i]] != 1) return false;
    return true;
}

/* Indices inside the operand, in rising order or no two of them alike, as attributes then say;
 * constants, so that they stay so whatever inputs hold. False: there are not so many. */
static bool said(maker *m, indexing *x, bool sorted, bool unique, uint32_t *out) {
    int64_t count = 1, total = 1, inner = 1, at = 0;
    for (uint32_t i = 0; i < x->n_map; i++) total *= x->operand.dims[x->map[i]];
    for (uint32_t i = 0; i < x->indices.rank; i++) {
        count *= i == x->vector ? 1 : x->indices.dims[i];
        inner *= i > x->vector ? x->indices.dims[i] : 1;
    }
    if (!total || total > INT32_MAX || (unique && count > total)) return false;
    x->indices.dtype = MAKE_CHANCE(50) ? SHOAL_I32 : SHOAL_I64;
    int64_t *chosen = hunt_alloc((size_t)(count + 1) * sizeof *chosen);
    for (int64_t i = 0; i < count; i++) { /* a number of each, the first axis changing least */
        int64_t room = unique ? total - at - (count - i) : (total - 1 - at) / 2;
        at += MAKE_BELOW((unique ? room / (count - i) : room) + 1);
        chosen[i] = at;
        at += unique;
    }
    for (int64_t i = count; i > 1 && !sorted; i--) {
        int64_t k = MAKE_BELOW(i), swap = chosen[k];
        chosen[k] = chosen[i - 1], chosen[i - 1] = swap;
    }
    void *data = hunt_alloc((size_t)base_type_bytes(&x->indices));
    bool has_axis = x->vector < x->indices.rank;
    for (int64_t i = 0; i < count; i++) {
        int64_t left = chosen[i], place = has_axis ? i / inner * inner * x->n_map + i % inner : i;
        for (uint32_t k = x->n_map; k-- > 0; left /= x->operand.dims[x->map[k]])
            hunt_put(x->indices.dtype, data, place + k * (has_axis ? inner : 0),
                     (double)(left % x->operand.dims[x->map[k]]));
    }
    *out = make_given(m, x->indices, data);
    free(chosen);
    free(data);
    return true;
}

static bool indexed(maker *m, uint16_t op) {
    uint32_t in[2 * MAKE_JOINED + 1] = {make_any(m, NULL, 0)}, out, n = 1;
    indexing x = {.operand = *make_type(m, in[0])};
    choose_axes(m, &x);
    choose_indices(m, &x);
    x.indices.dtype = make_dtype(m, "iu");
    x.result.dtype = x.operand.dtype;
    if (!choose_result(m, &x)) return false;
    bool scatters = op == GRAPH_SCATTER, sorted = MAKE_CHANCE(60);
    bool unique = scatters && are_apart(&x) && (!sorted || MAKE_CHANCE(50));
    bool says = (sorted || unique) && MAKE_CHANCE(15) && said(m, &x, sorted, unique, &in[1]);
    if (!says) in[1] = make_numbers(m, x.indices);
    const shoal_graph *body = NULL;
    if (scatters) {
        uint32_t numbers = in[1];
        n = make_smooth(m) || !MAKE_CHANCE(15) ? 1 : 2 + MAKE_BELOW(MAKE_JOINED - 1);
        make_beside(m, x.operand, in, n);
        in[n] = numbers;
        for (uint32_t i = 0; i < n; i++) {
            x.result.dtype = make_type(m, in[i])->dtype;
            in[n + 1 + i] = make_like(m, x.result);
        }
        body = n > 1 ? make_joint(m, in, n) : update_body(m, x.operand.dtype);
    }
    shoal_attr attrs[] = {
        graph_ints(scatters ? SHOAL_ATTR_UPDATE_WINDOW_DIMS : SHOAL_ATTR_OFFSET_DIMS, x.window,
                   x.n_window),
        graph_ints(scatters ? SHOAL_ATTR_INSERTED_WINDOW_DIMS : SHOAL_ATTR_COLLAPSED_SLICE_DIMS,
                   x.dropped, x.n_dropped),
        graph_ints(scatters ? SHOAL_ATTR_INPUT_BATCHING_DIMS : SHOAL_ATTR_OPERAND_BATCHING_DIMS,
                   x.operand_batching, x.n_batching),
        graph_ints(scatters ? SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS
                            : SHOAL_ATTR_START_INDICES_BATCHING_DIMS,
                   x.index_batching, x.n_batching),
        graph_ints(scatters ? SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS : SHOAL_ATTR_START_INDEX_MAP,
                   x.map, x.n_map),
        graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, x.vector),
        scatters ? graph_bool(SHOAL_ATTR_UNIQUE_INDICES, unique)
                 : MAKE_INTS(SLICE_SIZES, x.sizes, x.operand.rank),
        graph_bool(SHOAL_ATTR_INDICES_ARE_SORTED, sorted)};
    uint16_t n_attrs = says ? 8 : scatters ? 6 : 7;
    return make_node(m, op, in, scatters ? 2 * n + 1 : 2, attrs, n_attrs, &body, scatters, &out);
}

bool make_index(maker *m, uint16_t op) {
    if (op == GRAPH_GATHER || op == GRAPH_SCATTER) return indexed(m, op);
    return dynamic(m, op);
}

/* ---- order ---- */

bool make_order(maker *m, uint16_t op) {
    uint32_t in[MAKE_JOINED], out, n = 1;
    in[0] = op == GRAPH_TOP_K ? make_any(m, "iuf", 1) : make_joined(m, 1);
    shoal_type type = *make_type(m, in[0]);
    shoal_attr attrs[2] = {graph_int(SHOAL_ATTR_DIMENSION, MAKE_BELOW(type.rank))};
    uint16_t n_attrs = 1;
    const shoal_graph *body = NULL;
    if (op == GRAPH_TOP_K) {
        int64_t last = type.dims[type.rank - 1], most = last > 40 && MAKE_CHANCE(50) ? 40 : last;
        attrs[0] = graph_int(SHOAL_ATTR_K, MAKE_BELOW(most + 1));
    } else if (op == GRAPH_SORT) {
        bool stable;
        n = 1 + MAKE_BELOW(3);
        make_beside(m, type, in, n);
        body = make_comparator(m, in, n, attrs[0].u.i, &stable);
        attrs[n_attrs++] = graph_bool(SHOAL_ATTR_IS_STABLE, stable);
    } else if (op == GRAPH_CUMULATE) {
        body = make_join(m, type.dtype, MAKE_CHANCE(60));
        in[n++] = make_scalar(m, type.dtype);
    } else {
        attrs[n_attrs++] = graph_int(SHOAL_ATTR_DTYPE, MAKE_CHANCE(50) ? SHOAL_I32 : SHOAL_I64);
    }
    return make_node(m, op, in, n, attrs, n_attrs, &body, body != NULL, &out);
}

/* ---- control ---- */

static uint32_t constant_i32(maker *m, int32_t number) {
    uint32_t out;
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &number, sizeof number),
                          graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32)};
    if (!make_node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, &out))
        hunt_must(base_fail(SHOAL_INTERNAL, "hunt: no constant"));
    return out;
}

/* Some nodes of a body; now and then it chooses again what runs, or how often. */
static void make_inner(maker *body) {
    static const uint16_t ops[] = {GRAPH_IF, GRAPH_CASE, GRAPH_WHILE};
    make_some(body, hunt_below(&body->random, 4));
    if (body->depth < MAKE_DEPTH && hunt_chance(&body->random, 30))
        make_control(body, ops[hunt_below(&body->random, 3)]);
}

/* A body of a few nodes with results of these types. */
static const shoal_graph *branch(maker *m, const uint32_t *in, uint32_t n, const shoal_type *types,
                                 uint32_t n_results) {
    maker body = make_body(m, in, n);
    uint32_t results[4];
    make_inner(&body);
    for (uint32_t i = 0; i < n_results; i++) results[i] = make_like(&body, types[i]);
    return make_body_done(&body, results, n_results);
}

/* (i, x, ...): while i < limit, (i + 1, ...). */
static bool loop(maker *m) {
    uint32_t in[4], out, n = 2 + MAKE_BELOW(2);
    shoal_type types[4];
    in[0] = constant_i32(m, 0);
    for (uint32_t i = 1; i < n; i++) in[i] = make_any(m, NULL, 0);
    for (uint32_t i = 0; i < n; i++) types[i] = *make_type(m, in[i]);
    maker test = make_body(m, in, n), body = make_body(m, in, n);
    shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    uint32_t both[] = {test.usable.data[0], constant_i32(&test, (int32_t)MAKE_BELOW(5))}, go;
    if (!make_node(&test, GRAPH_COMPARE, both, 2, &less, 1, NULL, 0, &go)) return false;
    uint32_t results[4], next[] = {body.usable.data[0], constant_i32(&body, 1)};
    if (!make_node(&body, GRAPH_ADD, next, 2, NULL, 0, NULL, 0, &results[0])) return false;
    make_inner(&body);
    for (uint32_t i = 1; i < n; i++) results[i] = make_like(&body, types[i]);
    const shoal_graph *bodies[] = {make_body_done(&test, &go, 1),
                                   make_body_done(&body, results, n)};
    return make_node(m, GRAPH_WHILE, in, n, NULL, 0, bodies, 2, &out);
}

bool make_control(maker *m, uint16_t op) {
    if (op == GRAPH_WHILE) return loop(m);
    uint32_t in[4], out, n = 1 + MAKE_BELOW(3), n_results = 1 + MAKE_BELOW(2);
    uint16_t n_bodies = op == GRAPH_IF ? 2 : (uint16_t)(1 + MAKE_BELOW(4));
    const shoal_graph *bodies[4];
    shoal_type types[2];
    in[0] = make_scalar(m, op == GRAPH_IF ? SHOAL_BOOL : SHOAL_I32);
    for (uint32_t i = 1; i <= n; i++) in[i] = make_any(m, NULL, 0);
    for (uint32_t i = 0; i < n_results; i++)
        types[i] = make_shape(m, make_type(m, in[1 + MAKE_BELOW(n)])->dtype, 0, 3);
    for (uint16_t i = 0; i < n_bodies; i++) bodies[i] = branch(m, in + 1, n, types, n_results);
    return make_node(m, op, in, 1 + n, NULL, 0, bodies, n_bodies, &out);
}
