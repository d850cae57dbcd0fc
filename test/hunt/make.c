/* Programs from a seed. Each node is run as soon as it is there, so that what is made goes on from
 * numbers that are worth going on with. */
#include "make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static void *room_for(maker *m, uint32_t value) {
    uint32_t n = graph_data(m->g)->n_values;
    if (n > m->room) {
        size_t room = n * (size_t)2 + 64;
        void **grown = base_arena_array(m->arena, void *, room);
        if (!grown) hunt_must(SHOAL_NO_MEMORY);
        if (m->room) memcpy(grown, m->at, m->room * sizeof *grown);
        m->at = grown;
        m->room = room;
    }
    m->at[value] = base_arena_alloc(m->arena, (size_t)base_type_bytes(make_type(m, value)) + 64);
    if (!m->at[value]) hunt_must(SHOAL_NO_MEMORY);
    return m->at[value];
}

static void use(maker *m, uint32_t value) {
    if (!base_vec_push(&m->usable, value)) hunt_must(SHOAL_NO_MEMORY);
}

/* Whether at least half of the elements are numbers that further steps can work with. */
static bool is_fit(maker *m, uint32_t value) {
    const shoal_type *type = make_type(m, value);
    int64_t count = base_type_count(type), good = 0;
    if (shoal_dtype_kind((shoal_dtype)type->dtype) != 'f' || m->wild || m->specked) return true;
    double most = type->dtype == SHOAL_F16 ? 1e3 : 1e6;
    for (int64_t i = 0; i < count; i++)
        good += fabs(hunt_number(type->dtype, m->at[value], i)) < most;
    /* Gradients of what is nowhere near a number tell nothing. */
    return make_smooth(m) ? good == count : 2 * good >= count;
}

uint32_t make_most_axes(const maker *m) {
    return m->shape->style == HUNT_NARROW ? SHOAL_MAX_RANK - 1 : SHOAL_MAX_RANK;
}

bool make_node(maker *m, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
               const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *const *regions,
               uint16_t n_regions, uint32_t *out) {
    uint32_t first;
    if (graph_add(m->g, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions, &first))
        return false;
    const shoal_graph *g = graph_data(m->g);
    const shoal_node *node = &g->nodes[g->n_nodes - 1];
    bool fit = true;
    for (uint16_t i = 0; i < node->n_outputs; i++) {
        const shoal_type *type = &g->values[first + i].type;
        bool large = base_type_count(type) > m->elements || type->rank > make_most_axes(m);
        if (large && op != GRAPH_CONSTANT)
            fit = false; /* it may be larger than memory */
        else
            room_for(m, first + i);
    }
    if (!fit) return false;
    shoal_status status = hunt_run_node(g, node, m->at, NULL);
    if (status == SHOAL_NO_MEMORY) return false;
    hunt_must(status);
    for (uint16_t i = 0; i < node->n_outputs; i++) fit = fit && is_fit(m, first + i);
    if (!fit) return false;
    for (uint16_t i = 0; i < node->n_outputs; i++) use(m, first + i);
    *out = first;
    return true;
}

/* ---- types ---- */

int64_t make_extent(maker *m) {
    if (MAKE_CHANCE(80)) return m->extents[MAKE_BELOW(MAKE_EXTENTS)];
    return MAKE_CHANCE(60) ? 1 : 1 + MAKE_BELOW(6);
}

/* Five large extents have more elements than an integer counts. */
static bool is_large(const maker *m, const shoal_type *type) {
    double count = 1;
    for (uint32_t i = 0; i < type->rank; i++) count *= (double)type->dims[i];
    return count > (double)m->elements;
}

shoal_type make_shape(maker *m, uint8_t dtype, uint32_t least_rank, uint32_t most_rank) {
    static const uint8_t ranks[] = {0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5};
    shoal_type type = {.dtype = dtype};
    do type.rank = ranks[MAKE_BELOW(sizeof ranks)];
    while (type.rank < least_rank || type.rank > most_rank);
    if (most_rank > 3 && MAKE_CHANCE(2))
        type.rank = (uint8_t)(6 + MAKE_BELOW(make_most_axes(m) - 5));
    for (uint32_t i = 0; i < type.rank; i++) type.dims[i] = make_extent(m);
    while (is_large(m, &type)) type.dims[MAKE_BELOW(type.rank)] = 1;
    return type;
}

uint8_t make_dtype(maker *m, const char *kinds) {
    uint8_t dtype = m->dtype;
    if (make_smooth(m) && (!kinds || strchr(kinds, 'f'))) return m->dtype;
    for (int turn = 0; turn < 100; turn++) {
        if (!kinds || strchr(kinds, shoal_dtype_kind((shoal_dtype)dtype)))
            if (turn || MAKE_CHANCE(85)) return dtype;
        dtype = (uint8_t)MAKE_BELOW(SHOAL_DTYPE_COUNT);
    }
    return dtype;
}

void make_permutation(maker *m, uint32_t n, int64_t *out) {
    for (uint32_t i = 0; i < n; i++) out[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = MAKE_BELOW(i);
        int64_t swap = out[k];
        out[k] = out[i - 1], out[i - 1] = swap;
    }
}

/* ---- new values ---- */

uint32_t make_input(maker *m, shoal_type type) {
    uint32_t value;
    if (m->body || m->n_inputs >= MAKE_INPUTS) return make_constant(m, type);
    hunt_must(graph_add_input(m->g, &type, &value));
    make_fill(m, &type, room_for(m, value));
    m->n_inputs++;
    use(m, value);
    return value;
}

uint32_t make_given(maker *m, shoal_type type, const void *data) {
    uint32_t value;
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, data, (size_t)base_type_bytes(&type)),
                          graph_ints(SHOAL_ATTR_SHAPE, type.dims, type.rank),
                          graph_int(SHOAL_ATTR_DTYPE, type.dtype)};
    if (!make_node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, &value))
        hunt_must(base_fail(SHOAL_INTERNAL, "no constant of %s", shoal_error_message()));
    return value;
}

uint32_t make_constant(maker *m, shoal_type type) {
    uint32_t value;
    size_t size = shoal_dtype_size((shoal_dtype)type.dtype);
    size_t bytes = (size_t)base_type_bytes(&type);
    char few[4096];
    bool splat = bytes > sizeof few || (bytes && MAKE_CHANCE(60));
    shoal_type filled = splat ? (shoal_type){.dtype = type.dtype} : type;
    make_fill(m, &filled, few);
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, few, splat ? size : bytes),
                          graph_ints(SHOAL_ATTR_SHAPE, type.dims, type.rank),
                          graph_int(SHOAL_ATTR_DTYPE, type.dtype)};
    if (make_node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, &value)) return value;
    /* Values that are not fit: zeros are. */
    memset(few, 0, size);
    attrs[0] = graph_bytes(SHOAL_ATTR_VALUE, few, size);
    if (!make_node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, &value))
        hunt_must(base_fail(SHOAL_INTERNAL, "no constant of %s", shoal_error_message()));
    return value;
}

/* ---- values that are there ---- */

static bool suits(maker *m, uint32_t value, const char *kinds, uint32_t least_rank) {
    const shoal_type *type = make_type(m, value);
    char kind = shoal_dtype_kind((shoal_dtype)type->dtype);
    if (make_smooth(m) && kind == 'f' && type->dtype != m->dtype) return false;
    return type->rank >= least_rank && (!kinds || strchr(kinds, kind));
}

uint32_t make_any(maker *m, const char *kinds, uint32_t least_rank) {
    for (int turn = 0; m->usable.count && turn < 12; turn++) {
        size_t n = m->usable.count, back = MAKE_CHANCE(50) && n > 4 ? 4 : n;
        uint32_t value = m->usable.data[n - 1 - MAKE_BELOW(back)];
        if (suits(m, value, kinds, least_rank)) return value;
    }
    for (size_t i = m->usable.count; i-- > 0;)
        if (suits(m, m->usable.data[i], kinds, least_rank)) return m->usable.data[i];
    return make_input(m, make_shape(m, make_dtype(m, kinds), least_rank, make_most_axes(m)));
}

uint32_t make_joined(maker *m, uint32_t least_rank) {
    static const uint8_t few[] = {SHOAL_BOOL, SHOAL_BOOL, SHOAL_U8, SHOAL_I8};
    if (make_smooth(m) || !MAKE_CHANCE(12)) return make_any(m, NULL, least_rank);
    return make_like(m, make_shape(m, few[MAKE_BELOW(4)], least_rank, 4));
}

void make_beside(maker *m, shoal_type type, uint32_t *in, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        type.dtype = make_dtype(m, NULL);
        in[i] = make_like(m, type);
    }
}

static bool same_dims(const shoal_type *a, const shoal_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

static bool same_type(const shoal_type *a, const shoal_type *b) {
    return a->dtype == b->dtype && same_dims(a, b);
}

/* Some of the axes of `want`, in rising order, that a value with these dims could be repeated
 * along; -1: there are none. */
static int broadcast_axes(const shoal_type *from, const shoal_type *want, int64_t *axes) {
    uint32_t at = want->rank;
    for (uint32_t i = from->rank; i-- > 0;) {
        while (at > 0 && from->dims[i] != 1 && want->dims[at - 1] != from->dims[i]) at--;
        if (!at) return -1;
        axes[i] = --at;
    }
    return from->rank;
}

/* A value of the shape `want` (its element type aside) made from x; x where it did not work out. */
static uint32_t reshaped(maker *m, uint32_t x, const shoal_type *want) {
    const shoal_type from = *make_type(m, x);
    int64_t axes[SHOAL_MAX_RANK], start[SHOAL_MAX_RANK], limit[SHOAL_MAX_RANK],
        stride[SHOAL_MAX_RANK];
    uint32_t out = x;
    if (same_dims(&from, want)) return x;
    if (base_type_count(&from) == base_type_count(want)) {
        shoal_attr shape = MAKE_INTS(SHAPE, want->dims, want->rank);
        make_node(m, GRAPH_RESHAPE, &x, 1, &shape, 1, NULL, 0, &out);
        return out;
    }
    int n = broadcast_axes(&from, want, axes);
    if (n >= 0) {
        shoal_attr attrs[] = {MAKE_INTS(BROADCAST_DIMENSIONS, axes, (size_t)n),
                              MAKE_INTS(SHAPE, want->dims, want->rank)};
        make_node(m, GRAPH_BROADCAST_IN_DIM, &x, 1, attrs, 2, NULL, 0, &out);
        return out;
    }
    bool larger = from.rank == want->rank;
    for (uint32_t i = 0; larger && i < from.rank; i++) larger = from.dims[i] >= want->dims[i];
    if (!larger) return x;
    for (uint32_t i = 0; i < from.rank; i++) {
        int64_t rest = from.dims[i] - want->dims[i];
        start[i] = MAKE_BELOW(rest + 1);
        stride[i] = 1;
        if (want->dims[i] > 1 && start[i] + 2 * (want->dims[i] - 1) < from.dims[i]) stride[i] = 2;
        limit[i] = want->dims[i] ? start[i] + (want->dims[i] - 1) * stride[i] + 1 : start[i];
    }
    shoal_attr attrs[] = {MAKE_INTS(START_INDICES, start, from.rank),
                          MAKE_INTS(LIMIT_INDICES, limit, from.rank),
                          MAKE_INTS(STRIDES, stride, from.rank)};
    make_node(m, GRAPH_SLICE, &x, 1, attrs, 3, NULL, 0, &out);
    return out;
}

static uint32_t converted(maker *m, uint32_t x, uint8_t dtype) {
    uint32_t out = x;
    shoal_attr to = graph_int(SHOAL_ATTR_DTYPE, dtype);
    if (make_type(m, x)->dtype != dtype) make_node(m, GRAPH_CONVERT, &x, 1, &to, 1, NULL, 0, &out);
    return out;
}

uint32_t make_like(maker *m, shoal_type want) {
    uint32_t found[16], n = 0;
    for (size_t i = m->usable.count; i-- > 0 && n < 16;)
        if (same_type(make_type(m, m->usable.data[i]), &want)) found[n++] = m->usable.data[i];
    if (n && MAKE_CHANCE(60)) return found[MAKE_BELOW(n)];
    bool smooth = make_smooth(m);
    const char *kinds = want.dtype == SHOAL_BOOL ? "b" : smooth ? "f" : "iuf";
    if (smooth && shoal_dtype_kind((shoal_dtype)want.dtype) != 'f') return make_constant(m, want);
    for (int turn = 0; m->usable.count && turn < 4 && MAKE_CHANCE(80); turn++) {
        uint32_t x = m->usable.data[MAKE_BELOW(m->usable.count)];
        if (!suits(m, x, kinds, 0)) continue;
        x = reshaped(m, x, &want);
        if (!same_dims(make_type(m, x), &want)) continue;
        x = converted(m, x, want.dtype);
        if (same_type(make_type(m, x), &want)) return x;
    }
    if (n && MAKE_CHANCE(70)) return found[MAKE_BELOW(n)];
    return MAKE_CHANCE(80) ? make_input(m, want) : make_constant(m, want);
}

uint32_t make_view(maker *m, shoal_type want) {
    int64_t axes[SHOAL_MAX_RANK], start[SHOAL_MAX_RANK], limit[SHOAL_MAX_RANK],
        stride[SHOAL_MAX_RANK];
    shoal_type whole = want;
    uint32_t x, out;
    make_permutation(m, want.rank, axes);
    if (want.rank && MAKE_CHANCE(25)) { /* some axes repeated */
        int64_t kept[SHOAL_MAX_RANK];
        uint32_t n = 0;
        whole.rank = 0;
        for (uint32_t i = 0; i < want.rank; i++) {
            if (MAKE_CHANCE(40)) continue;
            kept[n++] = i;
            whole.dims[whole.rank++] = want.dims[i];
        }
        x = make_like(m, whole);
        shoal_attr attrs[] = {MAKE_INTS(BROADCAST_DIMENSIONS, kept, n),
                              MAKE_INTS(SHAPE, want.dims, want.rank)};
        return make_node(m, GRAPH_BROADCAST_IN_DIM, &x, 1, attrs, 2, NULL, 0, &out)
                   ? out
                   : make_like(m, want);
    }
    /* A part of something larger, whose axes are then turned. */
    for (uint32_t i = 0; i < want.rank; i++) {
        bool all = MAKE_CHANCE(50);
        start[i] = all ? 0 : MAKE_BELOW(3);
        stride[i] = all ? 1 : 1 + MAKE_BELOW(3);
        int64_t length = want.dims[axes[i]];
        limit[i] = length ? start[i] + (length - 1) * stride[i] + 1 : start[i];
        whole.dims[i] = limit[i] + (all ? 0 : MAKE_BELOW(3));
    }
    if (base_type_count(&whole) > m->elements) return make_like(m, want);
    x = make_like(m, whole);
    shoal_attr slice[] = {MAKE_INTS(START_INDICES, start, want.rank),
                          MAKE_INTS(LIMIT_INDICES, limit, want.rank),
                          MAKE_INTS(STRIDES, stride, want.rank)};
    if (!make_node(m, GRAPH_SLICE, &x, 1, slice, 3, NULL, 0, &x)) return make_like(m, want);
    int64_t back[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < want.rank; i++) back[axes[i]] = i;
    shoal_attr order = MAKE_INTS(PERMUTATION, back, want.rank);
    return make_node(m, GRAPH_TRANSPOSE, &x, 1, &order, 1, NULL, 0, &out) ? out
                                                                          : make_like(m, want);
}

uint32_t make_scalar(maker *m, uint8_t dtype) { return make_like(m, (shoal_type){.dtype = dtype}); }

/* ---- bodies ---- */

maker make_body(maker *m, const uint32_t *arguments, uint32_t n) {
    maker body = {.random = {hunt_next(&m->random)},
                  .shape = m->shape,
                  .arena = m->arena,
                  .wild = m->wild,
                  .specked = m->specked,
                  .body = true,
                  .depth = (uint8_t)(m->depth + 1),
                  .dtype = m->dtype,
                  .elements = m->elements};
    memcpy(body.extents, m->extents, sizeof body.extents);
    hunt_must(graph_add_region(m->g, &body.g));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value;
        shoal_type type = *make_type(m, arguments[i]);
        hunt_must(graph_add_input(body.g, &type, &value));
        memcpy(room_for(&body, value), m->at[arguments[i]], (size_t)base_type_bytes(&type));
        use(&body, value);
    }
    return body;
}

const shoal_graph *make_body_done(maker *body, const uint32_t *results, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) hunt_must(graph_add_output(body->g, results[i]));
    free(body->usable.data);
    return graph_data(body->g);
}

/* ---- whole programs ---- */

/* Who makes nodes of an operation, and how often it is tried. */
static const struct maker_row {
    make_op make;
    uint8_t weight;
} makers[GRAPH_OP_BUILT_IN] = {
#define ROW(name, how, weight) [GRAPH_##name] = {make_##how, weight}
    ROW(NEGATE, elementwise, 2),
    ROW(ABS, elementwise, 2),
    ROW(EXPONENTIAL, elementwise, 2),
    ROW(LOG, elementwise, 1),
    ROW(SQRT, elementwise, 1),
    ROW(TANH, elementwise, 2),
    ROW(LOGISTIC, elementwise, 1),
    ROW(ADD, elementwise, 6),
    ROW(SUBTRACT, elementwise, 4),
    ROW(MULTIPLY, elementwise, 6),
    ROW(DIVIDE, elementwise, 2),
    ROW(MAXIMUM, elementwise, 3),
    ROW(MINIMUM, elementwise, 2),
    ROW(POWER, elementwise, 1),
    ROW(COMPARE, elementwise, 3),
    ROW(SELECT, elementwise, 3),
    ROW(CONVERT, elementwise, 3),
    ROW(CONSTANT, create, 1),
    ROW(IOTA, create, 2),
    ROW(BROADCAST_IN_DIM, move, 7),
    ROW(RESHAPE, move, 6),
    ROW(TRANSPOSE, move, 7),
    ROW(SLICE, move, 6),
    ROW(CONCATENATE, move, 4),
    ROW(REDUCE, reduce, 8),
    ROW(DOT_GENERAL, dot, 10),
    ROW(ERF, elementwise, 1),
    ROW(RSQRT, elementwise, 1),
    ROW(COSINE, elementwise, 1),
    ROW(SINE, elementwise, 1),
    ROW(SILU, composite, 1),
    ROW(GELU, composite, 1),
    ROW(SOFTMAX, composite, 2),
    ROW(LOG_SOFTMAX, composite, 1),
    ROW(RMS_NORM, composite, 2),
    ROW(LAYER_NORM, composite, 2),
    ROW(CROSS_ENTROPY, composite, 1),
    ROW(ATTENTION, composite, 3),
    ROW(ROPE, composite, 2),
    ROW(CBRT, elementwise, 1),
    ROW(CEIL, elementwise, 1),
    ROW(FLOOR, elementwise, 1),
    ROW(TAN, elementwise, 1),
    ROW(EXPONENTIAL_MINUS_ONE, elementwise, 1),
    ROW(LOG_PLUS_ONE, elementwise, 1),
    ROW(ROUND_NEAREST_AFZ, elementwise, 1),
    ROW(ROUND_NEAREST_EVEN, elementwise, 1),
    ROW(SIGN, elementwise, 1),
    ROW(NOT, elementwise, 1),
    ROW(POPCNT, elementwise, 1),
    ROW(COUNT_LEADING_ZEROS, elementwise, 1),
    ROW(IS_FINITE, elementwise, 1),
    ROW(AND, elementwise, 1),
    ROW(OR, elementwise, 1),
    ROW(XOR, elementwise, 1),
    ROW(ATAN2, elementwise, 1),
    ROW(REMAINDER, elementwise, 1),
    ROW(SHIFT_LEFT, elementwise, 1),
    ROW(SHIFT_RIGHT_ARITHMETIC, elementwise, 1),
    ROW(SHIFT_RIGHT_LOGICAL, elementwise, 1),
    ROW(CLAMP, elementwise, 2),
    ROW(BITCAST_CONVERT, elementwise, 2),
    ROW(REDUCE_PRECISION, elementwise, 1),
    ROW(PAD, move, 4),
    ROW(REVERSE, move, 4),
    ROW(DYNAMIC_SLICE, index, 3),
    ROW(DYNAMIC_UPDATE_SLICE, index, 3),
    ROW(GATHER, index, 4),
    ROW(SCATTER, index, 4),
    ROW(SORT, order, 2),
    ROW(TOP_K, order, 2),
    ROW(ARGMAX, order, 2),
    ROW(ARGMIN, order, 2),
    ROW(CUMULATE, order, 3),
    ROW(RANDOM, create, 1),
    ROW(WHILE, control, 1),
    ROW(IF, control, 1),
    ROW(CASE, control, 1),
    ROW(CONVOLUTION, window, 4),
    ROW(REDUCE_WINDOW, window, 3),
    ROW(SELECT_AND_SCATTER, window, 2),
    ROW(SOFTMAX_GRADIENT, composite, 1),
    ROW(RMS_NORM_GRADIENT, composite, 1),
    ROW(LAYER_NORM_GRADIENT, composite, 1),
    ROW(RMS_NORM_SCALE_GRADIENT, composite, 1),
    ROW(LAYER_NORM_SCALE_GRADIENT, composite, 1),
    ROW(CROSS_ENTROPY_GRADIENT, composite, 1),
    ROW(SILU_GRADIENT, composite, 1),
    ROW(GELU_GRADIENT, composite, 1),
    ROW(ATTENTION_GRADIENT, composite, 1),
    ROW(ADAM, composite, 1),
    ROW(DEQUANTIZE, composite, 2),
    ROW(IN_RANGE, elementwise, 1),
#undef ROW
};

static uint16_t any_op(maker *m) {
    static const uint16_t along[] = {GRAPH_REDUCE,      GRAPH_REDUCE,  GRAPH_DOT_GENERAL,
                                     GRAPH_ARGMAX,      GRAPH_ARGMIN,  GRAPH_CUMULATE,
                                     GRAPH_SORT,        GRAPH_SOFTMAX, GRAPH_LAYER_NORM,
                                     GRAPH_LOG_SOFTMAX, GRAPH_TOP_K};
    static const uint16_t chains[] = {
        GRAPH_DOT_GENERAL, GRAPH_DOT_GENERAL, GRAPH_DOT_GENERAL, GRAPH_ADD,
        GRAPH_MULTIPLY,    GRAPH_MAXIMUM,     GRAPH_TANH,        GRAPH_SLICE,
        GRAPH_SLICE,       GRAPH_CONCATENATE, GRAPH_CONCATENATE, GRAPH_BROADCAST_IN_DIM,
        GRAPH_TRANSPOSE,   GRAPH_REDUCE,      GRAPH_REDUCE,      GRAPH_SOFTMAX,
        GRAPH_PAD,         GRAPH_REVERSE,     GRAPH_ATTENTION};
    static const uint16_t views[] = {
        GRAPH_REDUCE, GRAPH_BROADCAST_IN_DIM, GRAPH_BROADCAST_IN_DIM, GRAPH_SLICE,
        GRAPH_SLICE,  GRAPH_TRANSPOSE,        GRAPH_RESHAPE,          GRAPH_REVERSE,
        GRAPH_ADD,    GRAPH_MULTIPLY,         GRAPH_RMS_NORM};
    uint32_t total = 0;
    if (m->shape->style == HUNT_CHAINS && MAKE_CHANCE(85))
        return chains[MAKE_BELOW(sizeof chains / sizeof *chains)];
    if (m->has_rows && MAKE_CHANCE(40)) return along[MAKE_BELOW(11)];
    if (m->has_matrices && MAKE_CHANCE(30)) return GRAPH_DOT_GENERAL;
    if (m->has_views && MAKE_CHANCE(70)) return views[MAKE_BELOW(sizeof views / sizeof *views)];
    for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++) total += makers[op].weight;
    uint32_t at = MAKE_BELOW(total);
    uint16_t op = 0;
    while (at >= makers[op].weight) at -= makers[op++].weight;
    return op;
}

static bool is_wanted(const maker *m, uint16_t op) {
    if (m->depth >= MAKE_DEPTH && makers[op].make == make_control) return false;
    /* The gradient of reduce_precision is that of the number itself, which differences deny. */
    return !make_smooth(m) || (graph_op(op)->gradient && op != GRAPH_REDUCE_PRECISION);
}

void make_some(maker *m, uint32_t n) {
    for (uint32_t turn = 0; n && turn < 20; turn++) {
        uint16_t op = any_op(m);
        if (MAKE_CHANCE(5) ? make_again(m) : is_wanted(m, op) && makers[op].make(m, op)) n--;
    }
}

static void set_extents(maker *m) {
    static const uint8_t small[] = {1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9};
    static const uint8_t middle[] = {15, 16, 17, 31, 32, 33};
    bool wide = !m->has_blocks && MAKE_CHANCE(3) && m->shape->style == HUNT_ALL;
    m->elements = wide ? 1 << 17 : MAKE_CHANCE(20) ? 1 << 12 : 1 << 9;
    /* Gradients of products along an axis take its square. */
    if (make_smooth(m)) m->elements = 1 << 7;
    for (int i = 0; i < MAKE_EXTENTS; i++) {
        m->extents[i] = MAKE_CHANCE(m->elements == 1 << 12 ? 55 : 75) ? small[MAKE_BELOW(12)]
                                                                      : middle[MAKE_BELOW(6)];
        if (wide && MAKE_CHANCE(40)) m->extents[i] = 60 + MAKE_BELOW(400);
        if (wide && MAKE_CHANCE(20)) m->extents[i] = 380 + MAKE_BELOW(500); /* blocks of products */
    }
    m->has_matrices = wide;
    if (MAKE_CHANCE(15)) m->extents[0] = 1;
    if (MAKE_CHANCE(4)) m->extents[1] = 0;
    m->has_rows = !wide && !m->has_blocks && MAKE_CHANCE(3) && m->shape->style == HUNT_ALL;
    m->has_views = !wide && !m->has_rows && MAKE_CHANCE(14) && !make_smooth(m);
    if (!m->has_rows) return;
    m->elements = 1 << 14;
    for (int i = 0; i < MAKE_EXTENTS; i++) m->extents[i] = 1 + MAKE_BELOW(3);
    m->extents[0] = m->extents[1] = 500 + MAKE_BELOW(8000);
}

/* Results are what nobody reads, and some that somebody does. */
static void set_outputs(maker *m) {
    const shoal_graph *g = graph_data(m->g);
    bool *read = hunt_alloc(g->n_values + 1);
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t i = 0; i < g->nodes[n].n_inputs; i++) read[g->nodes[n].inputs[i]] = true;
    uint32_t n = 0;
    for (size_t i = m->usable.count; i-- > 0 && n < 8;) {
        uint32_t value = m->usable.data[i];
        bool made = g->values[value].node != SHOAL_NO_NODE;
        if ((made && !read[value]) || MAKE_CHANCE(8)) {
            hunt_must(graph_add_output(m->g, value));
            n++;
        }
    }
    if (!n) hunt_must(graph_add_output(m->g, m->usable.data[m->usable.count - 1]));
    if (MAKE_CHANCE(5)) hunt_must(graph_add_output(m->g, graph_data(m->g)->outputs[0]));
    free(read);
}

/* The graph without what no result needs, and what its inputs hold. */
static void finish(maker *m, hunt_program *out) {
    const shoal_graph *g = graph_data(m->g);
    bool *needed = hunt_alloc(g->n_values + 1);
    uint32_t *inputs = hunt_alloc((g->n_inputs + 1) * sizeof *inputs), n = 0;
    for (uint32_t i = 0; i < g->n_outputs; i++) needed[g->outputs[i]] = true;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        bool is = false;
        for (uint16_t k = 0; k < g->nodes[i].n_outputs; k++)
            is = is || needed[g->nodes[i].first_output + k];
        for (uint32_t k = 0; is && k < g->nodes[i].n_inputs; k++)
            needed[g->nodes[i].inputs[k]] = true;
    }
    for (uint32_t i = 0; i < g->n_inputs; i++)
        if (needed[g->inputs[i]]) inputs[n++] = g->inputs[i];
    hunt_must(graph_new(0, &out->graph));
    hunt_must(graph_extract(g, inputs, n, g->outputs, g->n_outputs, out->graph));
    out->n_inputs = n;
    out->n_outputs = g->n_outputs;
    out->inputs = hunt_alloc((n + 1) * sizeof *out->inputs);
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = (size_t)base_type_bytes(&g->values[inputs[i]].type);
        out->inputs[i] = hunt_alloc(bytes);
        memcpy(out->inputs[i], m->at[inputs[i]], bytes);
    }
    free(needed);
    free(inputs);
}

/* How many nodes are asked for: short programs are many; some are as long as any may be. */
static uint32_t length_of(maker *m) {
    uint32_t most = m->shape->most;
    if (MAKE_CHANCE(8)) return 1 + MAKE_BELOW(most);
    return 1 + MAKE_BELOW(1 + MAKE_BELOW((2 * most + 4) / 5));
}

void hunt_make(uint64_t seed, const hunt_shape *shape, hunt_program *out) {
    static const uint8_t dtypes[] = {SHOAL_F32, SHOAL_F32, SHOAL_F32, SHOAL_F32,  SHOAL_F32,
                                     SHOAL_F32, SHOAL_F64, SHOAL_F64, SHOAL_BF16, SHOAL_F16,
                                     SHOAL_I32, SHOAL_I64, SHOAL_U8,  SHOAL_I8,   SHOAL_U64};
    base_arena arena;
    base_arena_init(&arena, 0);
    maker m = {.random = {seed}, .shape = shape, .arena = &arena};
    for (int i = 0; i < 3; i++) hunt_next(&m.random);
    m.wild = !make_smooth(&m) && hunt_chance(&m.random, 10);
    m.dtype = make_smooth(&m) ? SHOAL_F64 : dtypes[hunt_below(&m.random, sizeof dtypes)];
    if (shape->style == HUNT_SLOPE && seed % 2) m.dtype = SHOAL_F32;
    m.has_blocks = shape->style == HUNT_ALL && hunt_chance(&m.random, 2); /* they take long */
    m.speck = !m.wild && !m.has_blocks && !make_smooth(&m) && hunt_chance(&m.random, 6);
    set_extents(&m);
    hunt_must(graph_new(0, &m.g));
    for (uint32_t i = 1 + hunt_below(&m.random, 3); i-- > 0;)
        make_input(&m, make_shape(&m, m.dtype, 0, 4));
    if (m.has_blocks)
        make_blocks(&m);
    else
        for (uint32_t n = length_of(&m); n > 0; n--) make_some(&m, 1);
    set_outputs(&m);
    *out = (hunt_program){.seed = seed};
    finish(&m, out);
    graph_destroy(&m.g);
    free(m.usable.data);
    base_arena_fini(&arena);
}
