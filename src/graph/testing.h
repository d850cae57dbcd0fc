/* What the tests of this folder share: short ways to build graphs, and one graph with all
 * operations. Asserts by cmocka. */
#ifndef GRAPH_TESTING_H
#define GRAPH_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

#define LIST(...) ((const int64_t[]){__VA_ARGS__})
#define COUNT(...) (sizeof(LIST(__VA_ARGS__)) / sizeof(int64_t))
#define INTS(key, ...) graph_ints(SHOAL_ATTR_##key, LIST(__VA_ARGS__), COUNT(__VA_ARGS__))
#define NONE(key) graph_ints(SHOAL_ATTR_##key, NULL, 0)
#define ATTRS(...)                                                                                 \
    ((const shoal_attr[]){__VA_ARGS__}), sizeof((shoal_attr[]){__VA_ARGS__}) / sizeof(shoal_attr)

/* T(F32, 2, 3): float32[2, 3]; SCALAR(F32). */
#define T(dtype, ...) test_type(SHOAL_##dtype, LIST(__VA_ARGS__), COUNT(__VA_ARGS__))
#define SCALAR(dtype) test_type(SHOAL_##dtype, NULL, 0)

static inline shoal_type test_type(shoal_dtype dtype, const int64_t *dims, size_t rank) {
    shoal_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    for (size_t i = 0; i < rank; i++) type.dims[i] = dims[i];
    return type;
}

/* The bytes of a graph without inputs: so many numbers, negated so many times. */
static inline void test_chain(int64_t length, uint32_t times, base_str *out) {
    graph *g;
    uint32_t value;
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32),
                                graph_ints(SHOAL_ATTR_SHAPE, &length, 1)};
    assert_int_equal(graph_new(0, &g), SHOAL_OK);
    assert_int_equal(graph_add(g, GRAPH_IOTA, NULL, 0, attrs, 3, NULL, 0, &value), SHOAL_OK);
    for (uint32_t i = 0; i < times; i++)
        assert_int_equal(graph_add(g, GRAPH_NEGATE, &value, 1, NULL, 0, NULL, 0, &value), SHOAL_OK);
    assert_int_equal(graph_add_output(g, value), SHOAL_OK);
    base_str_init(out);
    assert_int_equal(graph_encode(graph_data(g), false, out), SHOAL_OK);
    graph_destroy(&g);
}

/* A digest of a file, as `source` has it. */
#define TEST_DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* Asserts success; the message is shown otherwise. */
#define ok(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != SHOAL_OK) fail_msg("%s: %s", #expression, shoal_error_message());      \
    } while (0)
/* Asserts a failure whose message has the given text in it. */
#define fails(status, text, expression)                                                            \
    do {                                                                                           \
        assert_int_equal(expression, status);                                                      \
        if (!strstr(shoal_error_message(), text))                                                  \
            fail_msg("expected \"%s\", got \"%s\"", text, shoal_error_message());                  \
    } while (0)

static inline uint32_t test_input(graph *g, shoal_type type) {
    uint32_t value;
    ok(graph_add_input(g, &type, &value));
    return value;
}

/* Appends a node whose operands are given as a list of values; ATTRS(...) or NULL, 0. */
static inline uint32_t test_add(graph *g, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
                                const shoal_attr *attrs, size_t n_attrs) {
    uint32_t first;
    ok(graph_add(g, op, inputs, n_inputs, attrs, (uint16_t)n_attrs, NULL, 0, &first));
    return first;
}
#define VALUES(...)                                                                                \
    ((const uint32_t[]){__VA_ARGS__}), sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static inline uint32_t test_reduce(graph *g, uint16_t op, uint32_t x, uint32_t initial,
                                   const int64_t *axes, size_t n_axes) {
    const shoal_graph *body;
    uint32_t first;
    shoal_attr dimensions = graph_ints(SHOAL_ATTR_DIMENSIONS, axes, n_axes);
    ok(graph_add_body(g, op, (shoal_dtype)graph_data(g)->values[x].type.dtype, &body));
    ok(graph_add(g, GRAPH_REDUCE, (uint32_t[]){x, initial}, 2, &dimensions, 1, &body, 1, &first));
    return first;
}

/* Numbers that look random and are the same in every run (xorshift64*). */
static inline uint64_t test_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static inline uint32_t test_constant(graph *g, shoal_type type, const void *data, size_t bytes) {
    const shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, data, bytes),
                                graph_ints(SHOAL_ATTR_SHAPE, type.dims, type.rank),
                                graph_int(SHOAL_ATTR_DTYPE, type.dtype)};
    return test_add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3);
}

static inline void test_shape_operations(graph *g, uint32_t x) {
    uint32_t b = test_add(g, GRAPH_BROADCAST_IN_DIM, VALUES(x),
                          ATTRS(INTS(BROADCAST_DIMENSIONS, 1, 2), INTS(SHAPE, 4, 2, 3)));
    ok(graph_add_output(g, test_add(g, GRAPH_RESHAPE, VALUES(b), ATTRS(INTS(SHAPE, 4, 6)))));
    uint32_t t = test_add(g, GRAPH_TRANSPOSE, VALUES(b), ATTRS(INTS(PERMUTATION, 2, 0, 1)));
    uint32_t s = test_add(
        g, GRAPH_SLICE, VALUES(t),
        ATTRS(INTS(START_INDICES, 0, 1, 0), INTS(LIMIT_INDICES, 3, 4, 2), INTS(STRIDES, 1, 2, 1)));
    uint32_t c =
        test_add(g, GRAPH_CONCATENATE, VALUES(s, t, s), ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 1)));
    ok(graph_add_output(g, c));
    uint32_t d =
        test_add(g, GRAPH_DOT_GENERAL, VALUES(b, b),
                 ATTRS(INTS(LHS_BATCHING_DIMENSIONS, 0), INTS(RHS_BATCHING_DIMENSIONS, 0),
                       INTS(LHS_CONTRACTING_DIMENSIONS, 2), INTS(RHS_CONTRACTING_DIMENSIONS, 2)));
    ok(graph_add_output(g, d));
}

static inline void test_constants(graph *g) {
    static const uint32_t f32[] = {0x3dcccccd, 0x7f800000, 0xff800000, 0x7fc00001, 0x80000000, 1};
    static const uint16_t f16[] = {0x3555, 0x7c00};
    static const double f64[] = {0.1, 1e-320, 1.7976931348623157e308};
    static const int8_t i8[] = {-128, 127, 0, 1};
    static const uint64_t u64[] = {UINT64_MAX, 0};
    static const int64_t i64[] = {INT64_MIN};
    static const bool flags[] = {true, false, true};
    ok(graph_add_output(g, test_constant(g, T(F32, 2, 3), f32, sizeof f32)));
    ok(graph_add_output(g, test_constant(g, T(F16, 2), f16, sizeof f16)));
    ok(graph_add_output(g, test_constant(g, T(BF16, 5, 5), f16, 2)));
    ok(graph_add_output(g, test_constant(g, T(F64, 3), f64, sizeof f64)));
    ok(graph_add_output(g, test_constant(g, T(I8, 2, 1, 2), i8, sizeof i8)));
    ok(graph_add_output(g, test_constant(g, T(U64, 2), u64, sizeof u64)));
    ok(graph_add_output(g, test_constant(g, SCALAR(I64), i64, sizeof i64)));
    ok(graph_add_output(g, test_constant(g, T(BOOL, 3), flags, sizeof flags)));
    ok(graph_add_output(g, test_constant(g, T(F32, 0, 7), NULL, 0)));
    ok(graph_add_output(
        g, test_add(g, GRAPH_IOTA, NULL, 0,
                    ATTRS(graph_int(SHOAL_ATTR_IOTA_DIMENSION, 1), INTS(SHAPE, 2, 3),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32), INTS(START_INDICES, 4, 5)))));
    ok(graph_add_output(g, test_add(g, GRAPH_IOTA, NULL, 0,
                                    ATTRS(graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0), INTS(SHAPE, 0),
                                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_U8)))));
}

static inline void test_own_operations(graph *g, uint32_t x) {
    ok(graph_add_output(g, test_add(g, GRAPH_PLACE, VALUES(x),
                                    ATTRS(INTS(CUTS, 1, 2, 0, 2, 0, 1, 3), INTS(SLOTS, 7, 2)))));
    /* Result 0 from the operand and from slot 3; result 1 from slot 4; and a box to slot 5. */
    uint32_t e =
        test_add(g, GRAPH_EXCHANGE, VALUES(x),
                 ATTRS(graph_int(SHOAL_ATTR_CHANNEL, 9),
                       INTS(MOVES, SHOAL_MOVE_LOCAL, 0, 0, 1, 0, 0, 0, 0, 2, 3, SHOAL_MOVE_RECEIVE,
                            1, 0, 3, 0, 0, 2, 0, 1, 3, SHOAL_MOVE_RECEIVE, 2, 1, 4, 0, 0, 0, 0, 1,
                            1, SHOAL_MOVE_SEND, 3, 0, 5, 1, 0, 0, 0, 1, 3),
                       INTS(TYPES, SHOAL_F32, 2, 3, 3, SHOAL_F32, 2, 1, 1)));
    ok(graph_add_output(g, e + 1));
    ok(graph_add_output(g, e));
    test_add(g, GRAPH_EXCHANGE, VALUES(x),
             ATTRS(graph_int(SHOAL_ATTR_CHANNEL, 10),
                   INTS(MOVES, SHOAL_MOVE_SEND, 0, 0, 1, 0, 0, 0, 0, 2, 3), NONE(TYPES)));
    ok(graph_add_output(
        g,
        test_add(g, GRAPH_SOURCE, NULL, 0,
                 ATTRS(graph_string(SHOAL_ATTR_FILE, TEST_DIGEST),
                       graph_int(SHOAL_ATTR_FILE_BYTES, 1 << 20),
                       graph_int(SHOAL_ATTR_OFFSET, 4096), INTS(STRIDES, 40, 4), INTS(SHAPE, 7, 5),
                       graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32), graph_bool(SHOAL_ATTR_SWAPPED, true),
                       graph_string(SHOAL_ATTR_NAME, "model.gguf: blk.0.weight")))));
}

/* Operations of Shoal's own: attributes of every kind. */
static inline void test_composites(graph *g, uint32_t x) {
    const float zero = 0;
    uint32_t seed = test_input(g, SCALAR(I64)), places = test_input(g, T(I32, 2));
    uint32_t four = test_input(g, T(F32, 2, 4));
    shoal_attr axis = graph_int(SHOAL_ATTR_DIMENSION, 1);
    ok(graph_add_output(g, test_add(g, GRAPH_LAYER_NORM, VALUES(x),
                                    ATTRS(axis, graph_float(SHOAL_ATTR_EPSILON, 1e-5)))));
    ok(graph_add_output(g, test_add(g, GRAPH_GELU, VALUES(x),
                                    ATTRS(graph_string(SHOAL_ATTR_APPROXIMATE, "tanh")))));
    ok(graph_add_output(g, test_add(g, GRAPH_ATTENTION, VALUES(x, x, x),
                                    ATTRS(graph_float(SHOAL_ATTR_SCALE, -0.125),
                                          graph_int(SHOAL_ATTR_CAUSAL, 0)))));
    ok(graph_add_output(
        g, test_add(g, GRAPH_ROPE, VALUES(four, places),
                    ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 0), graph_float(SHOAL_ATTR_THETA, 500000),
                          graph_bool(SHOAL_ATTR_INTERLEAVED, 1)))));
    uint32_t blocks = test_input(g, T(U8, 2, 68));
    ok(graph_add_output(g, test_add(g, GRAPH_DEQUANTIZE, VALUES(blocks),
                                    ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_F16),
                                          graph_string(SHOAL_ATTR_FORMAT, "q8_0")))));
    ok(graph_add_output(g, test_add(g, GRAPH_CROSS_ENTROPY, VALUES(x, places),
                                    ATTRS(axis, graph_int(SHOAL_ATTR_IGNORE_INDEX, -100)))));
    ok(graph_add_output(g, test_add(g, GRAPH_ARGMAX, VALUES(x),
                                    ATTRS(axis, graph_int(SHOAL_ATTR_DTYPE, SHOAL_I64)))));
    ok(graph_add_output(
        g, test_add(g, GRAPH_RANDOM, VALUES(seed),
                    ATTRS(graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, "NORMAL"), INTS(SHAPE, 2, 3),
                          INTS(START_INDICES, 1, 0), INTS(WHOLE_SHAPE, 3, 3),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F16)))));
    const shoal_graph *body;
    uint32_t first, initial = test_constant(g, SCALAR(F32), &zero, sizeof zero);
    ok(graph_add_body(g, GRAPH_ADD, SHOAL_F32, &body));
    ok(graph_add(g, GRAPH_CUMULATE, (uint32_t[]){x, initial}, 2, &axis, 1, &body, 1, &first));
    ok(graph_add_output(g, first));
}

/* A graph that has operations of every form, an input between nodes, locations and scopes. */
static inline graph *test_all_operations(void) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 2, 3)), last = x;
    for (uint16_t op = GRAPH_NEGATE; op <= GRAPH_LOGISTIC; op++)
        last = test_add(g, op, VALUES(last), NULL, 0);
    ok(graph_at(g, "model.py:12", "layer1/\"attention\""));
    uint32_t y = test_input(g, T(F32, 2, 3));
    for (uint16_t op = GRAPH_ADD; op <= GRAPH_POWER; op++)
        last = test_add(g, op, VALUES(last, y), NULL, 0);
    ok(graph_at(g, "C:\\m\xc3\xb6.py:1", NULL));
    uint32_t less = test_add(g, GRAPH_COMPARE, VALUES(last, y),
                             ATTRS(graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT")));
    ok(graph_at(g, NULL, NULL));
    last = test_add(g, GRAPH_SELECT, VALUES(less, x, last), NULL, 0);
    ok(graph_add_output(g, last));
    ok(graph_add_output(g, x));
    uint32_t half =
        test_add(g, GRAPH_CONVERT, VALUES(last), ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_BF16)));
    ok(graph_add_output(g, half));
    const float one = 1;
    uint32_t initial = test_constant(g, SCALAR(F32), &one, sizeof one);
    ok(graph_add_output(g, test_reduce(g, GRAPH_MULTIPLY, x, initial, LIST(1), 1)));
    ok(graph_add_output(g, test_reduce(g, GRAPH_MAXIMUM, x, initial, NULL, 0)));
    test_shape_operations(g, x);
    test_constants(g);
    test_composites(g, x);
    test_own_operations(g, x);
    return g;
}

#endif
