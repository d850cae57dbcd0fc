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

#endif
