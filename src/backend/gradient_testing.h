/* For gradient_test.c: what an example of an operation is, and short ways to write one. */
#ifndef BACKEND_GRADIENT_TESTING_H
#define BACKEND_GRADIENT_TESTING_H

#include "graph/testing.h"

enum { MOST_INPUTS = 6, MOST_ELEMENTS = 256 };

/* One operation as a function of float64 tensors. */
typedef struct example {
    const char *name;
    uint16_t op;
    uint32_t (*build)(graph *g, const uint32_t *in);
    double low, high; /* elements of the inputs */
    uint32_t n_inputs;
    shoal_type types[MOST_INPUTS];
} example;

/* Compares its batch rule with calls for each index. */
void batch_check(const example *e);
/* Calls `visit` with each example of composites and their gradients. */
void gradient_composites(void (*visit)(const example *e));

#define IS(name, ...)                                                                              \
    static uint32_t name(graph *g, const uint32_t *in) { return __VA_ARGS__; }
#define ADD(op, values, ...) test_add(g, GRAPH_##op, values, ATTRS(__VA_ARGS__))
#define X VALUES(in[0])
#define XY VALUES(in[0], in[1])
#define XYZ VALUES(in[0], in[1], in[2])
#define AXIS(n) graph_int(SHOAL_ATTR_DIMENSION, n)
#define STRING(key, text) graph_string(SHOAL_ATTR_##key, text)
#define F(...) T(F64, __VA_ARGS__)
#define S SCALAR(F64)
#define INDICES(type, ...) indices(g, LIST(__VA_ARGS__), type)

static inline uint32_t indices(graph *g, const int64_t *values, shoal_type type) {
    return test_constant(g, type, values, (size_t)base_type_bytes(&type));
}

#endif
