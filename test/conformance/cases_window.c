/* Windows, convolutions and control flow. */
#include "build.h"

#include <stdio.h>
#include <string.h>

#define MANY(...)                                                                                  \
    (const shoal_attr[]){__VA_ARGS__}, sizeof((shoal_attr[]){__VA_ARGS__}) / sizeof(shoal_attr)
#define OF(...) __VA_ARGS__

/* ---- convolution ---- */

static void convolve(shoal_type lhs, shoal_type rhs, const shoal_attr *attrs, size_t n_attrs) {
    shoal_type types[] = {lhs, rhs};
    bool is_float = shoal_dtype_kind((shoal_dtype)lhs.dtype) == 'f';
    int64_t terms = 1;
    for (int i = 0; i < rhs.rank; i++) terms *= rhs.dims[i];
    bool done =
        build_node(GRAPH_CONVOLUTION, types, 2, attrs, (uint16_t)n_attrs,
                   is_float ? CLOSE_SUM : CLOSE_EXACT, terms, is_float ? FILL_TAME : FILL_SPECIAL);
    if (!done) build_must(base_fail(SHOAL_INTERNAL, "convolution: %s", shoal_error_message()));
}

#define CONVOLVE(lhs, rhs, strides, padding, left, right, reversed, dimensions, features, batches) \
    convolve(lhs, rhs,                                                                             \
             MANY(INTS(WINDOW_STRIDES, strides), INTS(PADDING, padding), INTS(LHS_DILATION, left), \
                  INTS(RHS_DILATION, right), INTS(WINDOW_REVERSAL, reversed),                      \
                  INTS(CONVOLUTION_DIMENSIONS, dimensions), INT(FEATURE_GROUP_COUNT, features),    \
                  INT(BATCH_GROUP_COUNT, batches)))
#define NHWC 0, 3, 1, 2, 2, 3, 0, 1, 0, 3, 1, 2
#define NCHW 0, 1, 2, 3, 1, 0, 2, 3, 0, 1, 2, 3
#define NWC 0, 2, 1, 1, 2, 0, 0, 2, 1

static void convolutions(uint8_t d) {
    CONVOLVE(TYPE(d, 2, 5, 6, 3), TYPE(d, 3, 2, 3, 4), OF(1, 1), OF(0, 0, 0, 0), OF(1, 1), OF(1, 1),
             OF(0, 0), OF(NHWC), 1, 1);
    CONVOLVE(TYPE(d, 2, 3, 7, 6), TYPE(d, 5, 3, 3, 3), OF(2, 1), OF(1, 1, 2, 0), OF(1, 1), OF(1, 2),
             OF(0, 0), OF(NCHW), 1, 1);
    CONVOLVE(TYPE(d, 1, 4, 5, 2), TYPE(d, 3, 3, 2, 3), OF(1, 3), OF(2, 1, -1, 2), OF(2, 3),
             OF(2, 1), OF(1, 0), OF(NHWC), 1, 1);
    CONVOLVE(TYPE(d, 2, 4, 4, 6), TYPE(d, 2, 2, 2, 9), OF(1, 1), OF(1, 0, 0, 1), OF(1, 1), OF(1, 1),
             OF(0, 1), OF(NHWC), 3, 1);
    CONVOLVE(TYPE(d, 2, 5, 4, 3), TYPE(d, 3, 3, 1, 6), OF(1, 1), OF(1, 1, 1, 1), OF(1, 1), OF(1, 1),
             OF(0, 0), OF(NHWC), 3, 1);
    CONVOLVE(TYPE(d, 4, 4, 3, 3), TYPE(d, 2, 2, 3, 6), OF(1, 2), OF(0, 1, 1, 1), OF(1, 1), OF(1, 1),
             OF(0, 0), OF(NHWC), 1, 2);
    CONVOLVE(TYPE(d, 3, 9, 2), TYPE(d, 4, 2, 5), OF(2), OF(3, 2), OF(1), OF(2), OF(1), OF(NWC), 1,
             1);
    CONVOLVE(TYPE(d, 2, 3), TYPE(d, 3, 4), , , , , , OF(0, 1, 0, 1, 0, 1), 1, 1);
    CONVOLVE(TYPE(d, 0, 5, 3), TYPE(d, 2, 3, 2), OF(1), OF(0, 0), OF(1), OF(1), OF(0), OF(NWC), 1,
             1);
    CONVOLVE(TYPE(d, 2, 5, 0), TYPE(d, 2, 0, 2), OF(1), OF(0, 0), OF(1), OF(1), OF(0), OF(NWC), 1,
             1);
    CONVOLVE(TYPE(d, 2, 3, 2), TYPE(d, 5, 2, 2), OF(1), OF(0, 0), OF(1), OF(1), OF(0), OF(NWC), 1,
             1);
    CONVOLVE(TYPE(d, 1, 3, 2, 2, 2), TYPE(d, 2, 1, 2, 2, 3), OF(1, 1, 2), OF(0, 1, 0, 0, 1, 0),
             OF(1, 1, 1), OF(1, 1, 1), OF(0, 1, 0), OF(0, 4, 1, 2, 3, 3, 4, 0, 1, 2, 0, 4, 1, 2, 3),
             1, 1);
}

/* So many products that they are divided. */
static void large_convolutions(uint8_t d) {
    CONVOLVE(TYPE(d, 3, 24, 21, 8), TYPE(d, 3, 3, 8, 33), OF(1, 1), OF(1, 1, 1, 1), OF(1, 1),
             OF(1, 1), OF(0, 0), OF(NHWC), 1, 1);
    CONVOLVE(TYPE(d, 3, 6, 20, 23), TYPE(d, 40, 6, 5, 3), OF(2, 1), OF(2, 2, 0, 1), OF(1, 1),
             OF(1, 1), OF(0, 0), OF(NCHW), 1, 1);
}

/* ---- windows ---- */

static const shoal_graph *scalar_body(graph *g, uint16_t op, uint8_t dtype) {
    graph *body;
    uint32_t in[2], out;
    shoal_type type = {.dtype = dtype};
    shoal_attr direction = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "GE");
    build_must(graph_add_region(g, &body));
    for (int i = 0; i < 2; i++) build_must(graph_add_input(body, &type, &in[i]));
    build_must(graph_add(body, op, in, 2, &direction, op == GRAPH_COMPARE, NULL, 0, &out));
    build_must(graph_add_output(body, out));
    return graph_data(body);
}

static void run(uint16_t op, const shoal_type *types, uint32_t n, const shoal_attr *attrs,
                size_t n_attrs, uint16_t joins, int64_t terms, fill how) {
    test_case c = {.terms = terms};
    uint32_t values[MAX_INPUTS], out;
    uint8_t d = types[0].dtype;
    bool rounds = shoal_dtype_kind((shoal_dtype)d) == 'f' && joins == GRAPH_ADD;
    c.close = rounds ? CLOSE_SUM : CLOSE_EXACT;
    build_name(&c, shoal_op_name(op), types, n);
    build_must(graph_new(0, &c.graph));
    for (uint32_t i = 0; i < n; i++) {
        build_must(graph_add_input(c.graph, &types[i], &values[i]));
        c.inputs[i] = build_input(&types[i], how, i % 2);
    }
    const shoal_graph *bodies[] = {scalar_body(c.graph, GRAPH_COMPARE, d),
                                   scalar_body(c.graph, joins, d)};
    bool selects = op == GRAPH_SELECT_AND_SCATTER;
    build_must(graph_add(c.graph, op, values, n, attrs, (uint16_t)n_attrs, bodies + !selects,
                         selects ? 2 : 1, &out));
    build_must(graph_add_output(c.graph, out));
    build_visit_and_free(&c);
}

#define WINDOW(in, window, strides, base, gaps, padding)                                           \
    for (int f = 0; f < 2; f++)                                                                    \
    run(GRAPH_REDUCE_WINDOW, (shoal_type[]){in, TYPE(d, )}, 2,                                     \
        MANY(INTS(WINDOW_DIMENSIONS, window), INTS(WINDOW_STRIDES, strides),                       \
             INTS(BASE_DILATIONS, base), INTS(WINDOW_DILATIONS, gaps), INTS(PADDING, padding)),    \
        f ? GRAPH_MAXIMUM : GRAPH_ADD, 32, f ? FILL_SPECIAL : FILL_TAME)

#define SCATTER(in, source, window, strides, padding)                                              \
    run(GRAPH_SELECT_AND_SCATTER, (shoal_type[]){in, source, TYPE(d, )}, 3,                        \
        MANY(INTS(WINDOW_DIMENSIONS, window), INTS(WINDOW_STRIDES, strides),                       \
             INTS(PADDING, padding)),                                                              \
        GRAPH_ADD, 32, FILL_TAME)

static void windows(uint8_t d) {
    WINDOW(TYPE(d, 2, 6, 7, 3), OF(1, 2, 2, 1), OF(1, 2, 2, 1), OF(1, 1, 1, 1), OF(1, 1, 1, 1),
           OF(0, 0, 0, 0, 0, 0, 0, 0));
    WINDOW(TYPE(d, 2, 3, 6, 7), OF(1, 1, 3, 3), OF(1, 1, 2, 1), OF(1, 1, 1, 1), OF(1, 1, 1, 1),
           OF(0, 0, 0, 0, 1, 1, 1, 1));
    WINDOW(TYPE(d, 5, 4), OF(2, 3), OF(1, 2), OF(2, 1), OF(2, 1), OF(2, 1, -1, 3));
    WINDOW(TYPE(d, 9), OF(4), OF(3), OF(1), OF(2), OF(3, 2));
    WINDOW(TYPE(d, 0, 4), OF(1, 2), OF(1, 1), OF(1, 1), OF(1, 1), OF(0, 0, 0, 0));
    WINDOW(TYPE(d, 3), OF(5), OF(1), OF(1), OF(1), OF(0, 0));
    WINDOW(TYPE(d, 2, 40, 1100), OF(1, 3, 1), OF(1, 2, 1), OF(1, 1, 1), OF(1, 1, 1),
           OF(0, 0, 1, 1, 0, 0));
    /* Lines that are done several at a time, and longer ones than that. */
    WINDOW(TYPE(d, 2, 41, 70), OF(1, 3, 2), OF(1, 2, 2), OF(1, 1, 1), OF(1, 1, 1),
           OF(0, 0, 1, 1, 1, 0));
    WINDOW(TYPE(d, 3, 2, 2300), OF(1, 1, 3), OF(1, 1, 2), OF(1, 1, 1), OF(1, 1, 1),
           OF(0, 0, 0, 0, 2, 1));
    SCATTER(TYPE(d, 2, 41, 70), TYPE(d, 2, 21, 35), OF(1, 3, 2), OF(1, 2, 2), OF(0, 0, 1, 1, 0, 0));
    SCATTER(TYPE(d, 2, 2300), TYPE(d, 2, 2300), OF(1, 3), OF(1, 1), OF(0, 0, 1, 1));
    SCATTER(TYPE(d, 4, 6), TYPE(d, 2, 3), OF(2, 2), OF(2, 2), OF(0, 0, 0, 0));
    SCATTER(TYPE(d, 2, 5, 5, 3), TYPE(d, 2, 3, 3, 3), OF(1, 3, 3, 1), OF(1, 2, 2, 1),
            OF(0, 0, 1, 1, 1, 1, 0, 0));
    SCATTER(TYPE(d, 7), TYPE(d, 5), OF(3), OF(1), OF(0, 0));
    SCATTER(TYPE(d, 7), TYPE(d, 3), OF(2), OF(4), OF(2, 2));
    SCATTER(TYPE(d, 0, 2), TYPE(d, 0, 1), OF(1, 2), OF(1, 2), OF(0, 0, 0, 0));
}

/* ---- control flow ---- */

static uint32_t node(graph *g, uint16_t op, const uint32_t *in, uint32_t n,
                     const shoal_attr *attr) {
    uint32_t out;
    build_must(graph_add(g, op, in, n, attr, attr != NULL, NULL, 0, &out));
    return out;
}

static uint32_t number(graph *g, int32_t value) {
    uint32_t out;
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &value, sizeof value), INTS(SHAPE, ),
                          INT(DTYPE, SHOAL_I32)};
    build_must(graph_add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, &out));
    return out;
}

static graph *region(graph *g, const shoal_type *types, uint32_t n, uint32_t *in) {
    graph *body;
    build_must(graph_add_region(g, &body));
    for (uint32_t i = 0; i < n; i++) build_must(graph_add_input(body, &types[i], &in[i]));
    return body;
}

static void finish(test_case *c, uint16_t op, const shoal_type *types, uint32_t n, uint32_t n_out,
                   const shoal_graph *const *bodies, uint16_t n_bodies, fill how) {
    uint32_t values[MAX_INPUTS], out;
    build_name(c, shoal_op_name(op), types, n);
    for (uint32_t i = 0; i < n; i++) {
        build_must(graph_add_input(c->graph, &types[i], &values[i]));
        c->inputs[i] = build_input(&types[i], i ? how : FILL_TAME, i % 2);
    }
    build_must(graph_add(c->graph, op, values, n, NULL, 0, bodies, n_bodies, &out));
    for (uint32_t i = 0; i < n_out; i++) build_must(graph_add_output(c->graph, out + i));
    build_visit_and_free(c);
}

/* (i, x, y): while i < limit, (i + 1, y, maximum(x, y)): from no turn to seven. */
static void loops(uint8_t d, int32_t limit) {
    test_case c = {.close = CLOSE_EXACT};
    shoal_type types[] = {TYPE(SHOAL_I32, ), TYPE(d, 3, 5), TYPE(d, 3, 5)};
    uint32_t in[3];
    build_must(graph_new(0, &c.graph));
    graph *condition = region(c.graph, types, 3, in);
    shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    build_must(
        graph_add_output(condition, node(condition, GRAPH_COMPARE,
                                         (uint32_t[]){in[0], number(condition, limit)}, 2, &less)));
    graph *body = region(c.graph, types, 3, in);
    build_must(graph_add_output(
        body, node(body, GRAPH_ADD, (uint32_t[]){in[0], number(body, 1)}, 2, NULL)));
    build_must(graph_add_output(body, in[2]));
    build_must(graph_add_output(body, node(body, GRAPH_MAXIMUM, in + 1, 2, NULL)));
    const shoal_graph *bodies[] = {graph_data(condition), graph_data(body)};
    finish(&c, GRAPH_WHILE, types, 3, 3, bodies, 2, FILL_SPECIAL);
}

/* The sum of two, their maximum, or (of three bodies) the first and the second as they are. */
static void choices(uint8_t d, uint16_t n_bodies) {
    test_case c = {.close = CLOSE_EXACT};
    shoal_type types[] = {TYPE(n_bodies == 2 ? SHOAL_BOOL : SHOAL_I32, ), TYPE(d, 4, 3),
                          TYPE(d, 4, 3)};
    const shoal_graph *bodies[3];
    build_must(graph_new(0, &c.graph));
    for (uint16_t b = 0; b < n_bodies; b++) {
        uint32_t in[2];
        graph *body = region(c.graph, types + 1, 2, in);
        uint16_t op = b ? GRAPH_MAXIMUM : GRAPH_ADD;
        build_must(graph_add_output(body, b == 2 ? in[0] : node(body, op, in, 2, NULL)));
        build_must(graph_add_output(body, in[1]));
        bodies[b] = graph_data(body);
    }
    finish(&c, n_bodies == 2 ? GRAPH_IF : GRAPH_CASE, types, 3, 2, bodies, n_bodies, FILL_SPECIAL);
}

/* (i, x, w): five times tanh(x w), negated when the sum of it all is above 0. */
static void nested(uint8_t d) {
    test_case c = {.close = CLOSE_UNITS, .terms = 64};
    shoal_type types[] = {TYPE(SHOAL_I32, ), TYPE(d, 6, 6), TYPE(d, 6, 6)};
    uint32_t in[3], of[1], zero, sum, picked;
    build_must(graph_new(0, &c.graph));
    graph *condition = region(c.graph, types, 3, in);
    shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    shoal_attr above = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "GT");
    build_must(
        graph_add_output(condition, node(condition, GRAPH_COMPARE,
                                         (uint32_t[]){in[0], number(condition, 5)}, 2, &less)));
    graph *body = region(c.graph, types, 3, in);
    const shoal_attr dot[] = {INTS(LHS_BATCHING_DIMENSIONS, ), INTS(RHS_BATCHING_DIMENSIONS, ),
                              INTS(LHS_CONTRACTING_DIMENSIONS, 1),
                              INTS(RHS_CONTRACTING_DIMENSIONS, 0)};
    const double none = 0;
    const shoal_attr constant[] = {
        graph_bytes(SHOAL_ATTR_VALUE, &none, shoal_dtype_size((shoal_dtype)d)), INTS(SHAPE, ),
        INT(DTYPE, d)};
    const shoal_attr all = INTS(DIMENSIONS, 0, 1);
    build_must(graph_add(body, GRAPH_DOT_GENERAL, in + 1, 2, dot, 4, NULL, 0, &picked));
    uint32_t x = node(body, GRAPH_TANH, &picked, 1, NULL);
    build_must(graph_add(body, GRAPH_CONSTANT, NULL, 0, constant, 3, NULL, 0, &zero));
    const shoal_graph *adds = scalar_body(body, GRAPH_ADD, d), *branches[2];
    build_must(graph_add(body, GRAPH_REDUCE, (uint32_t[]){x, zero}, 2, &all, 1, &adds, 1, &sum));
    uint32_t which = node(body, GRAPH_COMPARE, (uint32_t[]){sum, zero}, 2, &above);
    for (int b = 0; b < 2; b++) {
        graph *branch = region(body, types + 1, 1, of);
        build_must(graph_add_output(branch, b ? of[0] : node(branch, GRAPH_NEGATE, of, 1, NULL)));
        branches[b] = graph_data(branch);
    }
    build_must(graph_add(body, GRAPH_IF, (uint32_t[]){which, x}, 2, NULL, 0, branches, 2, &picked));
    build_must(graph_add_output(
        body, node(body, GRAPH_ADD, (uint32_t[]){in[0], number(body, 1)}, 2, NULL)));
    build_must(graph_add_output(body, picked));
    build_must(graph_add_output(body, in[2]));
    const shoal_graph *bodies[] = {graph_data(condition), graph_data(body)};
    finish(&c, GRAPH_WHILE, types, 3, 3, bodies, 2, FILL_TAME);
}

void cases_window(void) {
    for (int i = 0; i < 4; i++) nested(i % 2 ? SHOAL_F64 : SHOAL_F32);
    for (uint8_t d = 0; d < SHOAL_DTYPE_COUNT; d++) {
        convolutions(d);
        windows(d);
        loops(d, 0);
        loops(d, 7);
        for (int i = 0; i < 8; i++) choices(d, (uint16_t)(2 + i % 2));
    }
    large_convolutions(SHOAL_F32);
    large_convolutions(SHOAL_F64);
    large_convolutions(SHOAL_BF16);
}
