/* The cases: every operation with every element type that it takes, over odd, single-element and
 * empty shapes of rank 0 to 8, with special values among the elements. */
#include "build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- elementwise ---- */

static const struct {
    int rank;
    int64_t dims[SHOAL_MAX_RANK];
} shapes[] = {
    {0, {0}},
    {1, {1}},
    {1, {0}},
    {1, {7}},
    {1, {1031}},
    {2, {3, 5}},
    {2, {1, 9}},
    {2, {0, 4}},
    {2, {33, 31}},
    {3, {2, 3, 4}},
    {4, {2, 0, 3, 1}},
    {5, {2, 1, 3, 1, 2}},
    {8, {1, 2, 1, 2, 3, 1, 2, 1}},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static bool is_transcendental(uint16_t op) {
    static const uint16_t ops[] = {GRAPH_EXPONENTIAL,  GRAPH_LOG,
                                   GRAPH_TANH,         GRAPH_LOGISTIC,
                                   GRAPH_POWER,        GRAPH_ERF,
                                   GRAPH_COSINE,       GRAPH_SINE,
                                   GRAPH_TAN,          GRAPH_CBRT,
                                   GRAPH_RSQRT,        GRAPH_ATAN2,
                                   GRAPH_LOG_PLUS_ONE, GRAPH_EXPONENTIAL_MINUS_ONE};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (op == ops[i]) return true;
    return false;
}

static void elementwise_cases(void) {
    static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    for (uint8_t dtype = 0; dtype < SHOAL_DTYPE_COUNT; dtype++)
        for (int s = 0; s < N_SHAPES; s++) {
            shoal_type t = build_type(dtype, shapes[s].dims, shapes[s].rank);
            shoal_type types[3] = {t, t, t};
            for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++) {
                const char *category = graph_op(op)->category;
                bool one = !strcmp(category, "unary");
                if (!one && strcmp(category, "binary")) continue;
                bool exact = !is_transcendental(op) || shoal_dtype_kind((shoal_dtype)dtype) != 'f';
                build_node(op, types, one ? 1 : 2, NULL, 0, exact ? CLOSE_EXACT : CLOSE_ULPS, 0,
                           FILL_SPECIAL);
            }
            for (int d = 0; d < 6; d++) {
                shoal_attr direction = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, directions[d]);
                build_node(GRAPH_COMPARE, types, 2, &direction, 1, CLOSE_BITS, 0, FILL_SPECIAL);
            }
            types[0].dtype = SHOAL_BOOL;
            build_node(GRAPH_SELECT, types, 3, NULL, 0, CLOSE_BITS, 0, FILL_SPECIAL);
            types[0] = (shoal_type){.dtype = SHOAL_BOOL};
            build_node(GRAPH_SELECT, types, 3, NULL, 0, CLOSE_BITS, 0, FILL_SPECIAL);
            for (uint8_t to = 0; to < SHOAL_DTYPE_COUNT; to++) {
                shoal_attr attr = INT(DTYPE, to);
                build_node(GRAPH_CONVERT, &t, 1, &attr, 1, CLOSE_EXACT, 0, FILL_SPECIAL);
            }
        }
}

/* ---- creation and movement ---- */

static void creation_cases(uint8_t dtype) {
    for (int s = 0; s < N_SHAPES; s++) {
        shoal_type t = build_type(dtype, shapes[s].dims, shapes[s].rank);
        size_t size = shoal_dtype_size((shoal_dtype)dtype);
        size_t counts[2] = {size, (size_t)base_type_bytes(&t)};
        shoal_attr shape = graph_ints(SHOAL_ATTR_SHAPE, t.dims, t.rank);
        shoal_type room = t;
        if (!counts[1]) room = (shoal_type){.dtype = dtype};
        void *data = build_input(&room, FILL_SPECIAL, 0);
        for (int k = 0; k < 2; k++) {
            shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, data, counts[k]), shape,
                                  INT(DTYPE, dtype)};
            build_node(GRAPH_CONSTANT, NULL, 0, attrs, 3, CLOSE_BITS, 0, FILL_TAME);
        }
        free(data);
        const int64_t start[SHOAL_MAX_RANK] = {3, 0, 7, 1, 2, 5, 4, 6};
        for (int axis = 0; axis < t.rank; axis++) {
            shoal_attr attrs[] = {INT(IOTA_DIMENSION, axis), shape, INT(DTYPE, dtype),
                                  graph_ints(SHOAL_ATTR_START_INDICES, start, t.rank)};
            build_node(GRAPH_IOTA, NULL, 0, attrs, 3, CLOSE_BITS, 0, FILL_TAME);
            build_node(GRAPH_IOTA, NULL, 0, attrs, 4, CLOSE_BITS, 0, FILL_TAME);
        }
    }
}

static void move_one(uint16_t op, shoal_type in, const shoal_attr *attrs, uint16_t n_attrs) {
    if (build_node(op, &in, 1, attrs, n_attrs, CLOSE_BITS, 0, FILL_INDEX)) return;
    build_must(base_fail(SHOAL_INTERNAL, "%s: %s", shoal_op_name(op), shoal_error_message()));
}
#define MOVE(op, in, ...)                                                                          \
    move_one(op, in, (const shoal_attr[]){__VA_ARGS__},                                            \
             sizeof((const shoal_attr[]){__VA_ARGS__}) / sizeof(shoal_attr))

static void movement_cases(uint8_t d) {
    MOVE(GRAPH_BROADCAST_IN_DIM, TYPE(d, ), INTS(BROADCAST_DIMENSIONS, ), INTS(SHAPE, 3, 2));
    MOVE(GRAPH_BROADCAST_IN_DIM, TYPE(d, 3), INTS(BROADCAST_DIMENSIONS, 0), INTS(SHAPE, 3, 5));
    MOVE(GRAPH_BROADCAST_IN_DIM, TYPE(d, 5), INTS(BROADCAST_DIMENSIONS, 1), INTS(SHAPE, 3, 5));
    MOVE(GRAPH_BROADCAST_IN_DIM, TYPE(d, 3, 5), INTS(BROADCAST_DIMENSIONS, 2, 0),
         INTS(SHAPE, 5, 2, 3));
    MOVE(GRAPH_BROADCAST_IN_DIM, TYPE(d, 1, 4), INTS(BROADCAST_DIMENSIONS, 0, 2),
         INTS(SHAPE, 3, 2, 4));
    MOVE(GRAPH_BROADCAST_IN_DIM, TYPE(d, 1), INTS(BROADCAST_DIMENSIONS, 1), INTS(SHAPE, 0, 3));
    MOVE(GRAPH_RESHAPE, TYPE(d, 4, 6), INTS(SHAPE, 3, 8));
    MOVE(GRAPH_RESHAPE, TYPE(d, 1, 1), INTS(SHAPE, ));
    MOVE(GRAPH_RESHAPE, TYPE(d, 0, 4), INTS(SHAPE, 7, 0));
    MOVE(GRAPH_RESHAPE, TYPE(d, 2, 3, 4), INTS(SHAPE, 1, 2, 1, 3, 1, 4, 1, 1));
    MOVE(GRAPH_TRANSPOSE, TYPE(d, ), INTS(PERMUTATION, ));
    MOVE(GRAPH_TRANSPOSE, TYPE(d, 37, 70), INTS(PERMUTATION, 1, 0));
    MOVE(GRAPH_TRANSPOSE, TYPE(d, 3, 4, 5), INTS(PERMUTATION, 2, 0, 1));
    MOVE(GRAPH_TRANSPOSE, TYPE(d, 3, 4, 5), INTS(PERMUTATION, 2, 1, 0));
    MOVE(GRAPH_TRANSPOSE, TYPE(d, 2, 33, 3, 34), INTS(PERMUTATION, 0, 2, 3, 1));
    MOVE(GRAPH_TRANSPOSE, TYPE(d, 2, 0, 3), INTS(PERMUTATION, 1, 2, 0));
    MOVE(GRAPH_TRANSPOSE, TYPE(d, 2, 3, 1, 2, 1, 2, 2, 3),
         INTS(PERMUTATION, 7, 3, 5, 1, 0, 2, 4, 6));
    MOVE(GRAPH_SLICE, TYPE(d, 10), INTS(START_INDICES, 1), INTS(LIMIT_INDICES, 9),
         INTS(STRIDES, 3));
    MOVE(GRAPH_SLICE, TYPE(d, 10), INTS(START_INDICES, 4), INTS(LIMIT_INDICES, 4),
         INTS(STRIDES, 1));
    MOVE(GRAPH_SLICE, TYPE(d, 6, 7, 5), INTS(START_INDICES, 1, 2, 0), INTS(LIMIT_INDICES, 6, 6, 5),
         INTS(STRIDES, 2, 1, 1));
    MOVE(GRAPH_SLICE, TYPE(d, 6, 7), INTS(START_INDICES, 5, 0), INTS(LIMIT_INDICES, 6, 7),
         INTS(STRIDES, 1000, 2));
    shoal_attr axis0 = INT(DIMENSION, 0), axis1 = INT(DIMENSION, 1);
    shoal_type a[] = {TYPE(d, 2, 5), TYPE(d, 0, 5), TYPE(d, 3, 5)};
    shoal_type b[] = {TYPE(d, 4, 1, 3), TYPE(d, 4, 6, 3)};
    build_node(GRAPH_CONCATENATE, a, 3, &axis0, 1, CLOSE_BITS, 0, FILL_SPECIAL);
    build_node(GRAPH_CONCATENATE, a, 1, &axis1, 1, CLOSE_BITS, 0, FILL_SPECIAL);
    build_node(GRAPH_CONCATENATE, b, 2, &axis1, 1, CLOSE_BITS, 0, FILL_SPECIAL);
}

/* ---- reduce and dot_general ---- */

/* The larger of the first and the magnitude of the second: a body of two nodes. */
static const shoal_graph *magnitude_body(graph *g, uint8_t dtype) {
    graph *body;
    uint32_t x, y, magnitude, result;
    shoal_type scalar = {.dtype = dtype};
    build_must(graph_add_region(g, &body));
    build_must(graph_add_input(body, &scalar, &x));
    build_must(graph_add_input(body, &scalar, &y));
    build_must(graph_add(body, GRAPH_ABS, &y, 1, NULL, 0, NULL, 0, &magnitude));
    build_must(
        graph_add(body, GRAPH_MAXIMUM, (uint32_t[]){x, magnitude}, 2, NULL, 0, NULL, 0, &result));
    build_must(graph_add_output(body, result));
    return graph_data(body);
}

static void reduce_one(shoal_type in, shoal_attr axes, uint16_t op, bool large) {
    char kind = shoal_dtype_kind((shoal_dtype)in.dtype);
    bool composed = op == GRAPH_ABS, sums = op == GRAPH_ADD || op == GRAPH_MULTIPLY;
    if (composed && kind != 'i' && kind != 'f') return;
    test_case c = {
        .close = kind == 'f' && sums ? CLOSE_SUM : CLOSE_EXACT, .terms = 1, .large = large};
    for (uint32_t i = 0; i < axes.count; i++) c.terms *= in.dims[axes.u.ints[i]];
    shoal_type types[] = {in, {.dtype = in.dtype}};
    const char *joins = composed ? "magnitude" : shoal_op_name(op);
    char name[40];
    snprintf(name, sizeof name, "reduce %s", joins);
    build_name(&c, name, types, 2);
    build_must(graph_new(0, &c.graph));
    uint32_t values[2], result;
    for (int i = 0; i < 2; i++) {
        build_must(graph_add_input(c.graph, &types[i], &values[i]));
        c.inputs[i] = build_input(&types[i], sums ? FILL_TAME : FILL_SPECIAL, 0);
    }
    const shoal_graph *body;
    if (composed)
        body = magnitude_body(c.graph, in.dtype);
    else
        build_must(graph_add_body(c.graph, op, (shoal_dtype)in.dtype, &body));
    build_must(graph_add(c.graph, GRAPH_REDUCE, values, 2, &axes, 1, &body, 1, &result));
    build_must(graph_add_output(c.graph, result));
    build_visit_and_free(&c);
}

static void reduce_cases(uint8_t d) {
    static const uint16_t bodies[] = {GRAPH_ADD, GRAPH_MULTIPLY, GRAPH_MAXIMUM, GRAPH_MINIMUM,
                                      GRAPH_ABS};
    for (int b = 0; b < 5; b++) {
        reduce_one(TYPE(d, 67), INTS(DIMENSIONS, 0), bodies[b], false);
        reduce_one(TYPE(d, 0), INTS(DIMENSIONS, 0), bodies[b], false);
        reduce_one(TYPE(d, ), INTS(DIMENSIONS, ), bodies[b], false);
        reduce_one(TYPE(d, 5, 33), INTS(DIMENSIONS, 1), bodies[b], false);
        reduce_one(TYPE(d, 5, 33), INTS(DIMENSIONS, 0), bodies[b], false);
        reduce_one(TYPE(d, 5, 33), INTS(DIMENSIONS, ), bodies[b], false);
        reduce_one(TYPE(d, 3, 4, 5), INTS(DIMENSIONS, 1), bodies[b], false);
        reduce_one(TYPE(d, 3, 4, 5, 6), INTS(DIMENSIONS, 2, 0), bodies[b], false);
        reduce_one(TYPE(d, 3, 4, 5, 6), INTS(DIMENSIONS, 1, 3), bodies[b], false);
        reduce_one(TYPE(d, 3, 0, 5), INTS(DIMENSIONS, 1), bodies[b], false);
        reduce_one(TYPE(d, 1, 4, 1, 5), INTS(DIMENSIONS, 0, 3), bodies[b], false);
        reduce_one(TYPE(d, 2, 1, 2, 1, 2, 1, 2, 3), INTS(DIMENSIONS, 0, 2, 4, 6), bodies[b], false);
    }
}

/* Of which devices do parts, or neighbours side by side: exact, so that no part may be missing. */
static void large_reductions(uint8_t d) {
    static const uint16_t bodies[] = {GRAPH_ADD, GRAPH_MAXIMUM};
    for (int b = shoal_dtype_kind((shoal_dtype)d) == 'f'; b < 2; b++) {
        reduce_one(TYPE(d, 40001), INTS(DIMENSIONS, 0), bodies[b], true);
        reduce_one(TYPE(d, 3, 9001), INTS(DIMENSIONS, 1), bodies[b], true);
        reduce_one(TYPE(d, 3, 9001), INTS(DIMENSIONS, 0), bodies[b], true);
        reduce_one(TYPE(d, 9001, 3), INTS(DIMENSIONS, 0), bodies[b], true);
        reduce_one(TYPE(d, 401, 39), INTS(DIMENSIONS, 0), bodies[b], true);
        reduce_one(TYPE(d, 39, 50), INTS(DIMENSIONS, 1), bodies[b], true);
        reduce_one(TYPE(d, 70, 9, 65), INTS(DIMENSIONS, 0, 2), bodies[b], true);
        reduce_one(TYPE(d, 7, 300, 35), INTS(DIMENSIONS, 1), bodies[b], true);
        reduce_one(TYPE(d, 0, 64), INTS(DIMENSIONS, 1), bodies[b], true);
        reduce_one(TYPE(d, 64, 0), INTS(DIMENSIONS, 0), bodies[b], true);
        reduce_one(TYPE(d, 40, 0, 64), INTS(DIMENSIONS, 0, 2), bodies[b], true);
    }
}

static void dot_one(shoal_type lhs, shoal_type rhs, shoal_attr lb, shoal_attr rb, shoal_attr lc,
                    shoal_attr rc) {
    shoal_type types[] = {lhs, rhs};
    shoal_attr attrs[] = {lb, rb, lc, rc};
    char kind = shoal_dtype_kind((shoal_dtype)lhs.dtype);
    int64_t terms = 1;
    for (uint32_t i = 0; i < lc.count; i++) terms *= lhs.dims[lc.u.ints[i]];
    bool done =
        build_node(GRAPH_DOT_GENERAL, types, 2, attrs, 4, kind == 'f' ? CLOSE_SUM : CLOSE_EXACT,
                   terms, kind == 'f' ? FILL_TAME : FILL_SPECIAL);
    if (!done) build_must(base_fail(SHOAL_INTERNAL, "dot_general: %s", shoal_error_message()));
}
#define DOT(lhs, rhs, lb, rb, lc, rc)                                                              \
    dot_one(lhs, rhs, INTS(LHS_BATCHING_DIMENSIONS, lb), INTS(RHS_BATCHING_DIMENSIONS, rb),        \
            INTS(LHS_CONTRACTING_DIMENSIONS, lc), INTS(RHS_CONTRACTING_DIMENSIONS, rc))
#define NONE
#define TWO(a, b) a, b

static void dot_cases(uint8_t d) {
    DOT(TYPE(d, 3, 4), TYPE(d, 4, 5), NONE, NONE, 1, 0);
    DOT(TYPE(d, 33, 17), TYPE(d, 17, 65), NONE, NONE, 1, 0);
    DOT(TYPE(d, 17, 33), TYPE(d, 17, 65), NONE, NONE, 0, 0);
    DOT(TYPE(d, 33, 17), TYPE(d, 65, 17), NONE, NONE, 1, 1);
    DOT(TYPE(d, 17, 33), TYPE(d, 65, 17), NONE, NONE, 0, 1);
    DOT(TYPE(d, 1, 129), TYPE(d, 129, 67), NONE, NONE, 1, 0);
    DOT(TYPE(d, 129), TYPE(d, 67, 129), NONE, NONE, 0, 1);
    DOT(TYPE(d, 67, 129), TYPE(d, 129), NONE, NONE, 1, 0);
    DOT(TYPE(d, 129, 67), TYPE(d, 129, 1), NONE, NONE, 0, 0);
    DOT(TYPE(d, 9), TYPE(d, 9), NONE, NONE, 0, 0);
    DOT(TYPE(d, 9), TYPE(d, 8), NONE, NONE, NONE, NONE);
    DOT(TYPE(d, ), TYPE(d, ), NONE, NONE, NONE, NONE);
    DOT(TYPE(d, 70, 1), TYPE(d, 1, 70), NONE, NONE, 1, 0);
    DOT(TYPE(d, 0, 4), TYPE(d, 4, 5), NONE, NONE, 1, 0);
    DOT(TYPE(d, 3, 0), TYPE(d, 0, 5), NONE, NONE, 1, 0);
    DOT(TYPE(d, 2, 5, 3, 16), TYPE(d, 2, 7, 3, 16), TWO(0, 2), TWO(0, 2), 3, 3);
    DOT(TYPE(d, 3, 20, 18), TYPE(d, 3, 18, 22), 0, 0, 2, 1);
    DOT(TYPE(d, 20, 3, 18), TYPE(d, 18, 22, 3), 1, 2, 2, 0);
    DOT(TYPE(d, 4, 5, 6), TYPE(d, 5, 6, 7), NONE, NONE, TWO(1, 2), TWO(0, 1));
    DOT(TYPE(d, 6, 20, 5), TYPE(d, 5, 6, 17), NONE, NONE, TWO(2, 0), TWO(0, 1));
    DOT(TYPE(d, 6, 20, 5), TYPE(d, 17, 5, 6), NONE, NONE, TWO(0, 2), TWO(2, 1));
    DOT(TYPE(d, 3, 0, 4), TYPE(d, 3, 4, 2), 0, 0, 2, 1);
    DOT(TYPE(d, 1, 2, 1, 2, 1, 3), TYPE(d, 3, 1, 2, 2), 1, 2, 5, 0);
}

/* ---- graphs of several nodes: what a backend fuses, shares and reuses ---- */

static uint32_t node(graph *g, uint16_t op, const uint32_t *in, uint32_t n, const shoal_attr *attrs,
                     uint16_t n_attrs) {
    uint32_t value;
    build_must(graph_add(g, op, in, n, attrs, n_attrs, NULL, 0, &value));
    return value;
}
#define NODE(g, op, n, ...) node(g, op, (const uint32_t[]){__VA_ARGS__}, n, NULL, 0)

static uint32_t broadcast(graph *g, uint32_t value, shoal_attr dimensions, int64_t rows,
                          int64_t columns) {
    const int64_t shape[] = {rows, columns};
    shoal_attr attrs[] = {dimensions, graph_ints(SHOAL_ATTR_SHAPE, shape, 2)};
    return node(g, GRAPH_BROADCAST_IN_DIM, &value, 1, attrs, 2);
}

/* Two layers with biases, a softmax, and outputs that are shared, repeated and inputs. */
static void layers_case(uint8_t dtype, int64_t rows, int64_t columns) {
    test_case c = {.close = CLOSE_SUM, .terms = columns + 64};
    const int64_t two[] = {rows, columns}, square[] = {columns, columns};
    shoal_type types[] = {build_type(dtype, two, 2), build_type(dtype, square, 2),
                          build_type(dtype, &columns, 1), build_type(dtype, two, 2)};
    uint32_t in[4];
    build_name(&c, "layers", types, 1);
    build_must(graph_new(0, &c.graph));
    graph *g = c.graph;
    for (int i = 0; i < 4; i++) {
        build_must(graph_add_input(g, &types[i], &in[i]));
        c.inputs[i] = build_input(&types[i], FILL_TAME, 0);
    }
    const uint64_t zero = 0;
    shoal_attr constant[] = {
        graph_bytes(SHOAL_ATTR_VALUE, &zero, shoal_dtype_size((shoal_dtype)dtype)),
        graph_ints(SHOAL_ATTR_SHAPE, two, 2), INT(DTYPE, dtype)};
    shoal_attr scalar[] = {constant[0], INTS(SHAPE, ), INT(DTYPE, dtype)};
    shoal_attr dot[] = {INTS(LHS_BATCHING_DIMENSIONS, ), INTS(RHS_BATCHING_DIMENSIONS, ),
                        INTS(LHS_CONTRACTING_DIMENSIONS, 1), INTS(RHS_CONTRACTING_DIMENSIONS, 0)};
    shoal_attr swap = INTS(PERMUTATION, 1, 0), last = INTS(DIMENSIONS, 1);
    uint32_t zeros = node(g, GRAPH_CONSTANT, NULL, 0, constant, 3);
    uint32_t none = node(g, GRAPH_CONSTANT, NULL, 0, scalar, 3);
    uint32_t weights = node(g, GRAPH_TRANSPOSE, &in[1], 1, &swap, 1);
    uint32_t x = node(g, GRAPH_DOT_GENERAL, (uint32_t[]){in[0], weights}, 2, dot, 4);
    uint32_t bias = broadcast(g, in[2], INTS(BROADCAST_DIMENSIONS, 1), rows, columns);
    uint32_t sum = NODE(g, GRAPH_ADD, 2, x, bias);
    uint32_t hidden = NODE(g, GRAPH_MAXIMUM, 2, sum, zeros);
    uint32_t bounded = NODE(g, GRAPH_TANH, 1, hidden);
    uint32_t power = NODE(g, GRAPH_EXPONENTIAL, 1, bounded);
    const shoal_graph *body;
    build_must(graph_add_body(g, GRAPH_ADD, (shoal_dtype)dtype, &body));
    uint32_t total;
    build_must(
        graph_add(g, GRAPH_REDUCE, (uint32_t[]){power, none}, 2, &last, 1, &body, 1, &total));
    uint32_t totals = broadcast(g, total, INTS(BROADCAST_DIMENSIONS, 0), rows, columns);
    uint32_t shares = NODE(g, GRAPH_DIVIDE, 2, power, totals);
    uint32_t moved = NODE(g, GRAPH_SUBTRACT, 2, in[3], shares);
    const int64_t flat_shape[] = {rows * columns};
    shoal_attr shape = graph_ints(SHOAL_ATTR_SHAPE, flat_shape, 1);
    uint32_t flat = node(g, GRAPH_RESHAPE, &moved, 1, &shape, 1);
    const uint32_t outputs[] = {moved, shares, in[0], flat, moved, zeros, total};
    for (int i = 0; i < 7; i++) build_must(graph_add_output(g, outputs[i]));
    build_visit_and_free(&c);
}

/* x - (its first row), where the result may not take x's place; and a chain that may. */
static void aliasing_case(uint8_t dtype, int64_t rows, int64_t columns) {
    test_case c = {.close = CLOSE_EXACT};
    const int64_t two[] = {rows, columns};
    shoal_type type = build_type(dtype, two, 2);
    uint32_t x;
    build_name(&c, "aliasing", &type, 1);
    build_must(graph_new(0, &c.graph));
    graph *g = c.graph;
    build_must(graph_add_input(g, &type, &x));
    c.inputs[0] = build_input(&type, FILL_TAME, 0);
    uint32_t y = NODE(g, GRAPH_NEGATE, 1, x);
    uint32_t z = NODE(g, GRAPH_MULTIPLY, 2, y, y);
    const int64_t limit[] = {1, columns}, start[] = {0, 0}, one[] = {1, 1};
    shoal_attr slice[] = {graph_ints(SHOAL_ATTR_START_INDICES, start, 2),
                          graph_ints(SHOAL_ATTR_LIMIT_INDICES, limit, 2),
                          graph_ints(SHOAL_ATTR_STRIDES, one, 2)};
    uint32_t row = node(g, GRAPH_SLICE, &z, 1, slice, 3);
    uint32_t first = broadcast(g, row, INTS(BROADCAST_DIMENSIONS, 0, 1), rows, columns);
    uint32_t result = NODE(g, GRAPH_SUBTRACT, 2, z, first);
    uint32_t absolute = NODE(g, GRAPH_ABS, 1, result);
    build_must(graph_add_output(g, NODE(g, GRAPH_ADD, 2, absolute, x)));
    build_visit_and_free(&c);
}

/* x + (x with its first two axes exchanged): a view of all of x, in another order. */
static void exchanged_case(uint8_t dtype, int64_t n) {
    test_case c = {.close = CLOSE_SUM, .terms = 64};
    const int64_t cube[] = {n, n, 5};
    shoal_type type = build_type(dtype, cube, 3);
    uint32_t x;
    build_name(&c, "exchanged", &type, 1);
    build_must(graph_new(0, &c.graph));
    graph *g = c.graph;
    build_must(graph_add_input(g, &type, &x));
    c.inputs[0] = build_input(&type, FILL_TAME, 0);
    uint32_t y = NODE(g, GRAPH_NEGATE, 1, x);
    for (int i = 0; i < 2; i++) {
        shoal_attr attrs[] = {INTS(BROADCAST_DIMENSIONS, 1, 0, 2),
                              graph_ints(SHOAL_ATTR_SHAPE, cube, 3)};
        uint32_t other = node(g, GRAPH_BROADCAST_IN_DIM, &y, 1, attrs, 2);
        y = NODE(g, GRAPH_SUBTRACT, 2, y, other);
        y = NODE(g, GRAPH_EXPONENTIAL, 1, y);
        y = NODE(g, GRAPH_SQRT, 1, y);
    }
    build_must(graph_add_output(g, y));
    build_visit_and_free(&c);
}

void cases_large(void) {
    static const uint8_t some[] = {SHOAL_BOOL, SHOAL_I32, SHOAL_BF16, SHOAL_F32, SHOAL_F64};
    for (size_t i = 0; i < sizeof some; i++) large_reductions(some[i]);
}

void cases_basic(void) {
    elementwise_cases();
    for (uint8_t d = 0; d < SHOAL_DTYPE_COUNT; d++) {
        creation_cases(d);
        movement_cases(d);
        reduce_cases(d);
        dot_cases(d);
    }
    for (uint8_t d = SHOAL_F32; d <= SHOAL_F64; d++) {
        layers_case(d, 5, 37);
        layers_case(d, 130, 300);
        layers_case(d, 1, 64);
        layers_case(d, 0, 8);
        exchanged_case(d, 3);
        exchanged_case(d, 90);
        aliasing_case(d, 7, 9);
        aliasing_case(d, 1, 9);
        aliasing_case(d, 300, 301);
    }
}
