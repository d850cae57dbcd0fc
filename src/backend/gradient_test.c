/* Gradients of every row of the table against finite differences, computed by the reference in
 * float64; gradients of gradients likewise; and batch rules of both (batch_check.c). A row without
 * a rule, or without a case, has a reason here. */
#include "backend/gradient_testing.h"
#include "backend/ref/ref.h"
#include "graph/rules.h"
#include "shoal/backend.h"

#include <math.h>

/* ---- evaluating ---- */

/* Computes the outputs of a graph, dense and in order, into `out`. */
static void evaluate(graph *g, const double *const *inputs, double *out) {
    graph *plain;
    ok(graph_new(0, &plain));
    ok(graph_decompose(graph_data(g), NULL, NULL, plain));
    ok(graph_verify(graph_data(plain)));
    const shoal_graph *data = graph_data(plain);
    void *outputs[2 * MOST_INPUTS];
    double store[2 * MOST_INPUTS][MOST_ELEMENTS];
    for (uint32_t i = 0; i < data->n_outputs; i++) outputs[i] = store[i];
    ok(ref_evaluate(NULL, data, (const void *const *)inputs, outputs));
    for (uint32_t i = 0; i < data->n_outputs; i++) {
        size_t n = (size_t)base_type_count(&data->values[data->outputs[i]].type);
        memcpy(out, store[i], n * sizeof *out);
        out += n;
    }
    graph_destroy(&plain);
}

/* The graph of an example: its inputs, then what else is an input. */
static graph *begin(const example *e, uint32_t *in, uint32_t *y) {
    graph *g;
    ok(graph_new(0, &g));
    for (uint32_t i = 0; i < e->n_inputs; i++) in[i] = test_input(g, e->types[i]);
    *y = e->build(g, in);
    return g;
}

static size_t count_of(const graph *g, uint32_t value) {
    return (size_t)base_type_count(&graph_data(g)->values[value].type);
}

/* Appends sum(x * weights), the weights being a new input. */
static uint32_t weigh(graph *g, uint32_t x) {
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const double zero = 0;
    shoal_type type = graph_data(g)->values[x].type;
    uint32_t w = test_input(g, type);
    uint32_t product = test_add(g, GRAPH_MULTIPLY, VALUES(x, w), NULL, 0);
    return test_reduce(g, GRAPH_ADD, product, test_constant(g, SCALAR(F64), &zero, sizeof zero),
                       all, type.rank);
}

/* Gradients of the scalar y with respect to `in`; zeros where nothing depends on it. */
static void differentiate(graph *g, uint32_t y, const uint32_t *in, uint32_t n, uint32_t *out) {
    const double zero = 0, one = 1;
    uint32_t seed = test_constant(g, SCALAR(F64), &one, sizeof one);
    ok(graph_differentiate(g, &y, &seed, 1, in, n, NULL, out));
    for (uint32_t i = 0; i < n; i++)
        if (out[i] == GRAPH_NO_VALUE)
            out[i] = test_constant(g, graph_data(g)->values[in[i]].type, &zero, sizeof zero);
}

/* The derivative of the scalar function g along element k of input i: five points. */
static double slope(graph *g, double *const *data, uint32_t i, size_t k) {
    const double h = 1e-3, x = data[i][k];
    double f[4];
    static const double at[] = {-2, -1, 1, 2};
    for (int p = 0; p < 4; p++) {
        data[i][k] = x + at[p] * h;
        evaluate(g, (const double *const *)data, &f[p]);
    }
    data[i][k] = x;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

/* Compares gradients that `g` computes with slopes of `f`, both of the same inputs. */
static void compare(const example *e, const char *what, graph *f, graph *g, const uint32_t *in,
                    double *const *data) {
    double got[MOST_INPUTS * MOST_ELEMENTS], *at = got;
    evaluate(g, (const double *const *)data, got);
    for (uint32_t i = 0; i < e->n_inputs; i++)
        for (size_t k = 0; k < count_of(g, in[i]); k++, at++) {
            double want = slope(f, data, i, k), scale = fmax(1, fabs(want));
            if (!(fabs(*at - want) <= 1e-6 * scale))
                fail_msg("%s, %s: input %u, element %zu: %.12g, not %.12g", e->name, what, i, k,
                         *at, want);
        }
}

static void fill(double *data, size_t n, double low, double high, uint64_t *state) {
    assert_true(n <= MOST_ELEMENTS);
    for (size_t k = 0; k < n; k++)
        data[k] = low + (high - low) * (double)(test_random(state) >> 11) * 0x1p-53;
}

static void check(const example *e) {
    static double store[3 * MOST_INPUTS][MOST_ELEMENTS];
    double *data[3 * MOST_INPUTS];
    uint32_t in[MOST_INPUTS], out[MOST_INPUTS], y, n = e->n_inputs, inputs = 0;
    uint64_t state = 88172645463325252u + e->op;
    /* f: the weighed result; g: its gradients. */
    graph *f = begin(e, in, &y), *g = begin(e, in, &y);
    ok(graph_add_output(f, weigh(f, y)));
    uint32_t sum = weigh(g, y);
    differentiate(g, sum, in, n, out);
    for (uint32_t i = 0; i < n; i++) ok(graph_add_output(g, out[i]));
    for (uint32_t i = 0; i < n; i++, inputs++) {
        data[inputs] = store[inputs];
        fill(data[inputs], count_of(g, in[i]), e->low, e->high, &state);
    }
    data[inputs] = store[inputs];
    fill(data[inputs++], count_of(g, y), -1, 1, &state);
    compare(e, "gradient", f, g, in, data);
    /* The same once more: the gradients, weighed, and the gradients of that. */
    for (int both = 0; both < 2; both++) {
        graph_destroy(both ? &g : &f);
        graph *h = begin(e, in, &y);
        sum = weigh(h, y);
        differentiate(h, sum, in, n, out);
        uint32_t total = weigh(h, out[0]);
        for (uint32_t i = 1; i < n; i++)
            total = test_add(h, GRAPH_ADD, VALUES(total, weigh(h, out[i])), NULL, 0);
        if (both) differentiate(h, total, in, n, out);
        for (uint32_t i = 0; i < (both ? n : 1); i++)
            ok(graph_add_output(h, both ? out[i] : total));
        *(both ? &g : &f) = h;
    }
    for (uint32_t i = 0; i < n; i++) {
        data[inputs] = store[inputs];
        fill(data[inputs++], count_of(g, in[i]), -1, 1, &state);
    }
    compare(e, "second gradient", f, g, in, data);
    graph_destroy(&f);
    graph_destroy(&g);
}

/* ---- the examples ---- */

/* clang-format off */
#define UNARY(XX)                                                                                  \
    XX(NEGATE, -2, 2) XX(ABS, -2, 2) XX(EXPONENTIAL, -2, 2) XX(LOG, 0.2, 3) XX(SQRT, 0.2, 3)       \
    XX(TANH, -2, 2) XX(LOGISTIC, -3, 3) XX(ERF, -2, 2) XX(RSQRT, 0.3, 3) XX(COSINE, -4, 4)         \
    XX(SINE, -4, 4) XX(TAN, -1, 1) XX(CBRT, 0.2, 2) XX(EXPONENTIAL_MINUS_ONE, -2, 2)               \
    XX(LOG_PLUS_ONE, -0.7, 3) XX(SILU, -3, 3)
#define BINARY(XX)                                                                                 \
    XX(ADD, -2, 2) XX(SUBTRACT, -2, 2) XX(MULTIPLY, -2, 2) XX(DIVIDE, 0.4, 2) XX(MAXIMUM, -2, 2)   \
    XX(MINIMUM, -2, 2) XX(POWER, 0.3, 2.5) XX(ATAN2, 0.2, 2) XX(REMAINDER, 0.4, 3)
/* clang-format on */
#define XX(op, low, high) IS(unary_##op, test_add(g, GRAPH_##op, X, NULL, 0))
UNARY(XX)
#undef XX
#define XX(op, low, high) IS(binary_##op, test_add(g, GRAPH_##op, XY, NULL, 0))
BINARY(XX)
#undef XX

static uint32_t number(graph *g, double value) {
    return test_constant(g, SCALAR(F64), &value, sizeof value);
}

IS(select_,
   test_add(g, GRAPH_SELECT,
            VALUES(test_add(g, GRAPH_COMPARE, XY, ATTRS(STRING(COMPARISON_DIRECTION, "LT"))), in[1],
                   in[0]),
            NULL, 0))
IS(select_scalar, test_add(g, GRAPH_SELECT,
                           VALUES(test_constant(g, SCALAR(BOOL), "\0", 1), in[0], in[1]), NULL, 0))
IS(clamp, test_add(g, GRAPH_CLAMP, XYZ, NULL, 0))
IS(place, ADD(PLACE, X, INTS(CUTS, 1, 2, 0, 2, 0, 1, 3), INTS(SLOTS, 7, 2)))
IS(broadcast,
   ADD(BROADCAST_IN_DIM, X, INTS(BROADCAST_DIMENSIONS, 3, 1, 0), INTS(SHAPE, 2, 3, 4, 2)))
IS(broadcast_scalar, ADD(BROADCAST_IN_DIM, X, NONE(BROADCAST_DIMENSIONS), INTS(SHAPE, 2, 3)))
IS(reshape_, ADD(RESHAPE, X, INTS(SHAPE, 3, 1, 4)))
IS(transpose, ADD(TRANSPOSE, X, INTS(PERMUTATION, 2, 0, 1)))
IS(slice, ADD(SLICE, X, INTS(START_INDICES, 1, 0), INTS(LIMIT_INDICES, 4, 6), INTS(STRIDES, 1, 4)))
IS(slice_none,
   ADD(SLICE, X, INTS(START_INDICES, 2, 1), INTS(LIMIT_INDICES, 2, 3), INTS(STRIDES, 1, 2)))
IS(concatenate, ADD(CONCATENATE, VALUES(in[0], in[1], in[0]), AXIS(1)))
IS(pad, ADD(PAD, XY, INTS(EDGE_PADDING_LOW, 2, -1), INTS(EDGE_PADDING_HIGH, -1, 3),
            INTS(INTERIOR_PADDING, 1, 2)))
IS(pad_cut, ADD(PAD, XY, INTS(EDGE_PADDING_LOW, -2, 0), INTS(EDGE_PADDING_HIGH, 0, -2),
                INTS(INTERIOR_PADDING, 2, 0)))
IS(reverse, ADD(REVERSE, X, INTS(DIMENSIONS, 0, 2)))

/* ---- joins ---- */

IS(sum, test_reduce(g, GRAPH_ADD, in[0], in[1], LIST(0, 2), 2))
IS(sum_none, test_reduce(g, GRAPH_ADD, in[0], in[1], NULL, 0))
IS(largest, test_reduce(g, GRAPH_MAXIMUM, in[0], number(g, -9), LIST(1), 1))
IS(smallest, test_reduce(g, GRAPH_MINIMUM, in[0], number(g, 9), LIST(0, 1), 2))
IS(products, test_reduce(g, GRAPH_MULTIPLY, in[0], in[1], LIST(2, 0), 2))
/* One of the factors is 0 in each product, in one of them two are. */
IS(products_zero,
   test_reduce(g, GRAPH_MULTIPLY,
               test_add(g, GRAPH_MULTIPLY,
                        VALUES(in[0], test_constant(g, F(2, 3), (double[]){1, 0, 1, 0, 0, 1}, 48)),
                        NULL, 0),
               number(g, 1), LIST(1), 1))

static uint32_t cumulated_by(graph *g, const shoal_graph *body, uint32_t x, uint32_t initial,
                             int64_t axis) {
    uint32_t first;
    shoal_attr attr = AXIS(axis);
    ok(graph_add(g, GRAPH_CUMULATE, (uint32_t[]){x, initial}, 2, &attr, 1, &body, 1, &first));
    return first;
}
static uint32_t cumulated(graph *g, uint16_t op, uint32_t x, uint32_t initial, int64_t axis) {
    const shoal_graph *body;
    ok(graph_add_body(g, op, SHOAL_F64, &body));
    return cumulated_by(g, body, x, initial, axis);
}
/* log(e^a + e^b), which no row of its own stands for; or a + b + a b. */
static uint32_t joined_any(graph *g, bool reduce, bool logs, const uint32_t *in, int64_t axis) {
    graph *body;
    uint32_t a[2], y;
    const shoal_type scalar = SCALAR(F64);
    ok(graph_add_region(g, &body));
    for (int i = 0; i < 2; i++) ok(graph_add_input(body, &scalar, &a[i]));
    const uint32_t product = test_add(body, GRAPH_MULTIPLY, VALUES(a[0], a[1]), NULL, 0);
    for (int i = 0; i < 2 && logs; i++)
        a[i] = test_add(body, GRAPH_EXPONENTIAL, VALUES(a[i]), NULL, 0);
    y = test_add(body, GRAPH_ADD, VALUES(a[0], a[1]), NULL, 0);
    y = logs ? test_add(body, GRAPH_LOG, VALUES(y), NULL, 0)
             : test_add(body, GRAPH_ADD, VALUES(y, product), NULL, 0);
    ok(graph_add_output(body, y));
    const shoal_graph *region = graph_data(body);
    if (!reduce) return cumulated_by(g, region, in[0], in[1], axis);
    shoal_attr attr = INTS(DIMENSIONS, axis, 2);
    ok(graph_add(g, GRAPH_REDUCE, in, 2, &attr, 1, &region, 1, &y));
    return y;
}
IS(cumulate_logs, joined_any(g, false, true, in, 1))
IS(cumulate_both, joined_any(g, false, false, in, 0))
IS(reduce_logs, joined_any(g, true, true, in, 1))
IS(reduce_both, joined_any(g, true, false, in, 0))
IS(cumulate_sum, cumulated(g, GRAPH_ADD, in[0], in[1], 1))
IS(cumulate_product, cumulated(g, GRAPH_MULTIPLY, in[0], in[1], 0))
IS(cumulate_largest, cumulated(g, GRAPH_MAXIMUM, in[0], number(g, 0), 1))
IS(cumulate_smallest, cumulated(g, GRAPH_MINIMUM, in[0], number(g, 9), 1))

/* Rows in the order of the first operand, falling; both results count. */
static uint32_t sort(graph *g, const uint32_t *in) {
    graph *body;
    uint32_t args[4], order, first;
    const shoal_type scalar = SCALAR(F64);
    ok(graph_add_region(g, &body));
    for (int i = 0; i < 4; i++) ok(graph_add_input(body, &scalar, &args[i]));
    order = test_add(body, GRAPH_COMPARE, VALUES(args[0], args[1]),
                     ATTRS(STRING(COMPARISON_DIRECTION, "GT")));
    ok(graph_add_output(body, order));
    shoal_attr attr = AXIS(1);
    const shoal_graph *region = graph_data(body);
    ok(graph_add(g, GRAPH_SORT, in, 2, &attr, 1, &region, 1, &first));
    return test_add(g, GRAPH_MULTIPLY, VALUES(first, first + 1), NULL, 0);
}
IS(top_k, ADD(TOP_K, X, graph_int(SHOAL_ATTR_K, 2)))

/* ---- indices ---- */

IS(dynamic_slice,
   ADD(DYNAMIC_SLICE, VALUES(in[0], INDICES(SCALAR(I64), 9), INDICES(SCALAR(I64), 1)),
       INTS(SLICE_SIZES, 2, 3)))
IS(dynamic_update_slice,
   test_add(g, GRAPH_DYNAMIC_UPDATE_SLICE,
            VALUES(in[0], in[1], INDICES(SCALAR(I64), -4), INDICES(SCALAR(I64), 2)), NULL, 0))
/* Rows, some of them outside and some twice. */
IS(gather_rows,
   ADD(GATHER, VALUES(in[0], INDICES(T(I64, 2, 3), 1, 0, 1, -5, 9, 3)), INTS(OFFSET_DIMS, 2),
       INTS(COLLAPSED_SLICE_DIMS, 0), NONE(OPERAND_BATCHING_DIMS),
       NONE(START_INDICES_BATCHING_DIMS), INTS(START_INDEX_MAP, 0),
       graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 2), INTS(SLICE_SIZES, 1, 3)))
/* Windows of 2 by 1 at two-dimensional places, for each element of a batch. */
IS(gather_windows,
   ADD(GATHER, VALUES(in[0], INDICES(T(I64, 2, 2, 2), 0, 1, 3, 2, 1, 0, 5, 1)),
       INTS(OFFSET_DIMS, 1), INTS(COLLAPSED_SLICE_DIMS, 2), INTS(OPERAND_BATCHING_DIMS, 0),
       INTS(START_INDICES_BATCHING_DIMS, 1), INTS(START_INDEX_MAP, 2, 1),
       graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 0), INTS(SLICE_SIZES, 1, 2, 1)))

/* op GRAPH_OP_BUILT_IN: the update is set. */
static uint32_t scattered(graph *g, uint16_t op, const uint32_t *in, uint32_t places,
                          const shoal_attr *attrs, uint16_t n_attrs) {
    const shoal_graph *region;
    uint32_t first, args[2];
    if (op == GRAPH_OP_BUILT_IN) {
        graph *body;
        const shoal_type scalar = SCALAR(F64);
        ok(graph_add_region(g, &body));
        for (int i = 0; i < 2; i++) ok(graph_add_input(body, &scalar, &args[i]));
        ok(graph_add_output(body, args[1]));
        region = graph_data(body);
    } else {
        ok(graph_add_body(g, op, SHOAL_F64, &region));
    }
    ok(graph_add(g, GRAPH_SCATTER, (uint32_t[]){in[0], places, in[1]}, 3, attrs, n_attrs, &region,
                 1, &first));
    return first;
}
#define ROW_NUMBERS                                                                                \
    INTS(UPDATE_WINDOW_DIMS, 1), INTS(INSERTED_WINDOW_DIMS, 0), NONE(INPUT_BATCHING_DIMS),         \
        NONE(SCATTER_INDICES_BATCHING_DIMS), INTS(SCATTER_DIMS_TO_OPERAND_DIMS, 0),                \
        graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 1)
#define ROWS(op) scattered(g, op, in, INDICES(T(I64, 4), 1, 3, 1, -1), ATTRS(ROW_NUMBERS))
IS(scatter_product, ROWS(GRAPH_MULTIPLY))
IS(scatter_product_once, scattered(g, GRAPH_MULTIPLY, in, INDICES(T(I64, 4), 1, 3, 0, -1),
                                   ATTRS(ROW_NUMBERS, graph_bool(SHOAL_ATTR_UNIQUE_INDICES, 1))))
IS(scatter_add, ROWS(GRAPH_ADD))
IS(scatter_set, ROWS(GRAPH_OP_BUILT_IN))
IS(scatter_largest, ROWS(GRAPH_MAXIMUM))
IS(scatter_smallest, ROWS(GRAPH_MINIMUM))
IS(scatter_windows,
   scattered(g, GRAPH_OP_BUILT_IN, in, INDICES(T(I64, 2, 2, 2), 0, 1, 3, 2, 1, 0, 5, 1),
             ATTRS(INTS(UPDATE_WINDOW_DIMS, 1), INTS(INSERTED_WINDOW_DIMS, 2),
                   INTS(INPUT_BATCHING_DIMS, 0), INTS(SCATTER_INDICES_BATCHING_DIMS, 1),
                   INTS(SCATTER_DIMS_TO_OPERAND_DIMS, 2, 1),
                   graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 0))))

/* ---- products ---- */

static uint32_t product(graph *g, const uint32_t *in) {
    return ADD(DOT_GENERAL, XY, NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
               INTS(LHS_CONTRACTING_DIMENSIONS, 1), INTS(RHS_CONTRACTING_DIMENSIONS, 0));
}
static uint32_t product_transposed(graph *g, const uint32_t *in) {
    return ADD(DOT_GENERAL, XY, NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
               INTS(LHS_CONTRACTING_DIMENSIONS, 0), INTS(RHS_CONTRACTING_DIMENSIONS, 1));
}
/* Two batch axes and two contracted ones, in different orders on both sides. */
static uint32_t product_any(graph *g, const uint32_t *in) {
    return ADD(DOT_GENERAL, XY, INTS(LHS_BATCHING_DIMENSIONS, 3, 0),
               INTS(RHS_BATCHING_DIMENSIONS, 1, 2), INTS(LHS_CONTRACTING_DIMENSIONS, 4, 1),
               INTS(RHS_CONTRACTING_DIMENSIONS, 0, 4));
}
static uint32_t product_outer(graph *g, const uint32_t *in) {
    return ADD(DOT_GENERAL, XY, NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
               NONE(LHS_CONTRACTING_DIMENSIONS), NONE(RHS_CONTRACTING_DIMENSIONS));
}

/* ---- windows ---- */

#define CONVOLVE(dims, groups, batches, ...)                                                       \
    ADD(CONVOLUTION, XY, graph_ints(SHOAL_ATTR_CONVOLUTION_DIMENSIONS, dims),                      \
        graph_int(SHOAL_ATTR_FEATURE_GROUP_COUNT, groups),                                         \
        graph_int(SHOAL_ATTR_BATCH_GROUP_COUNT, batches), __VA_ARGS__)
#define AXES_OF(...) LIST(__VA_ARGS__), COUNT(__VA_ARGS__)
/* Kernel: input feature, output feature, spatial. */
#define PLAIN AXES_OF(0, 1, 2, 0, 1, 2, 0, 1, 2)
#define ONES INTS(WINDOW_STRIDES, 1), INTS(LHS_DILATION, 1), INTS(RHS_DILATION, 1)
static uint32_t convolution(graph *g, const uint32_t *in) {
    return CONVOLVE(PLAIN, 1, 1, ONES, INTS(PADDING, 1, 0), INTS(WINDOW_REVERSAL, 0));
}
/* Strides that leave an end over, gaps on both sides, padding below zero, a turned kernel. */
static uint32_t convolution_gaps(graph *g, const uint32_t *in) {
    return CONVOLVE(AXES_OF(2, 0, 3, 1, 0, 3, 1, 2, 1, 3, 0, 2), 1, 1, INTS(WINDOW_STRIDES, 2, 1),
                    INTS(LHS_DILATION, 1, 2), INTS(RHS_DILATION, 2, 1), INTS(PADDING, 2, 1, -1, 3),
                    INTS(WINDOW_REVERSAL, 1, 0));
}
static uint32_t convolution_features(graph *g, const uint32_t *in) {
    return CONVOLVE(PLAIN, 2, 1, INTS(WINDOW_STRIDES, 2), INTS(LHS_DILATION, 1),
                    INTS(RHS_DILATION, 1), INTS(PADDING, 1, 1), INTS(WINDOW_REVERSAL, 1));
}
static uint32_t convolution_batches(graph *g, const uint32_t *in) {
    return CONVOLVE(PLAIN, 1, 2, ONES, INTS(PADDING, 0, 1), INTS(WINDOW_REVERSAL, 0));
}
/* No spatial axes: a product. */
static uint32_t convolution_flat(graph *g, const uint32_t *in) {
    return CONVOLVE(AXES_OF(0, 1, 0, 1, 0, 1), 1, 1, NONE(WINDOW_STRIDES), NONE(LHS_DILATION),
                    NONE(RHS_DILATION), NONE(PADDING), NONE(WINDOW_REVERSAL));
}

static uint32_t windows(graph *g, uint16_t op, uint32_t x, double initial, const int64_t *gaps) {
    const shoal_graph *body;
    uint32_t first;
    const shoal_attr attrs[] = {INTS(WINDOW_DIMENSIONS, 2, 3), INTS(WINDOW_STRIDES, 1, 2),
                                graph_ints(SHOAL_ATTR_BASE_DILATIONS, gaps, 2),
                                graph_ints(SHOAL_ATTR_WINDOW_DILATIONS, gaps + 2, 2),
                                INTS(PADDING, 1, 0, 0, 1)};
    ok(graph_add_body(g, op, SHOAL_F64, &body));
    ok(graph_add(g, GRAPH_REDUCE_WINDOW, (uint32_t[]){x, number(g, initial)}, 2, attrs, 5, &body, 1,
                 &first));
    return first;
}
IS(windows_sum, windows(g, GRAPH_ADD, in[0], 0, LIST(1, 1, 1, 1)))
IS(windows_sum_gaps, windows(g, GRAPH_ADD, in[0], 0, LIST(2, 1, 1, 2)))
IS(windows_largest, windows(g, GRAPH_MAXIMUM, in[0], -9, LIST(1, 1, 1, 1)))
IS(windows_smallest, windows(g, GRAPH_MINIMUM, in[0], 9, LIST(1, 1, 1, 1)))

static uint32_t select_and_scatter(graph *g, const uint32_t *in) {
    graph *body;
    uint32_t args[2], first;
    const shoal_graph *bodies[2];
    const shoal_type scalar = SCALAR(F64);
    const shoal_attr attrs[] = {INTS(WINDOW_DIMENSIONS, 2, 3), INTS(WINDOW_STRIDES, 1, 2),
                                INTS(PADDING, 1, 0, 0, 1)};
    ok(graph_add_region(g, &body));
    for (int i = 0; i < 2; i++) ok(graph_add_input(body, &scalar, &args[i]));
    ok(graph_add_output(body, test_add(body, GRAPH_COMPARE, VALUES(args[0], args[1]),
                                       ATTRS(STRING(COMPARISON_DIRECTION, "GE")))));
    bodies[0] = graph_data(body);
    ok(graph_add_body(g, GRAPH_ADD, SHOAL_F64, &bodies[1]));
    ok(graph_add(g, GRAPH_SELECT_AND_SCATTER, in, 3, attrs, 3, bodies, 2, &first));
    return first;
}

/* ---- choices ---- */

/* One branch takes both operands, another only the first, the last neither. */
static const shoal_graph *branch(graph *g, int kind) {
    graph *body;
    uint32_t x, y;
    const shoal_type type = F(3);
    const double one = 1;
    ok(graph_add_region(g, &body));
    ok(graph_add_input(body, &type, &x));
    ok(graph_add_input(body, &type, &y));
    uint32_t z = kind == 0   ? test_add(body, GRAPH_MULTIPLY, VALUES(x, y), NULL, 0)
                 : kind == 1 ? test_add(body, GRAPH_EXPONENTIAL, VALUES(x), NULL, 0)
                             : test_constant(body, type, &one, sizeof one);
    ok(graph_add_output(body, z));
    return graph_data(body);
}

static uint32_t choice(graph *g, const uint32_t *in, uint16_t op, uint32_t selector) {
    const shoal_graph *bodies[] = {branch(g, 0), branch(g, 1), branch(g, 2)};
    uint32_t out;
    ok(graph_add(g, op, (uint32_t[]){selector, in[0], in[1]}, 3, NULL, 0, bodies,
                 op == GRAPH_IF ? 2 : 3, &out));
    return out;
}
IS(if_true, choice(g, in, GRAPH_IF, test_constant(g, SCALAR(BOOL), "\1", 1)))
IS(if_false, choice(g, in, GRAPH_IF, test_constant(g, SCALAR(BOOL), "\0", 1)))
#define CASE(n) choice(g, in, GRAPH_CASE, test_constant(g, SCALAR(I32), &(int32_t){n}, 4))
IS(case_first, CASE(0))
IS(case_last, CASE(7))

/* Three rounds of x, i -> sin(x) y, i + 1. */
static uint32_t loop(graph *g, const uint32_t *in) {
    const int64_t zero = 0, once = 1, most = 3;
    const shoal_graph *bodies[2];
    uint32_t carried[] = {test_constant(g, SCALAR(I64), &zero, sizeof zero), in[0], in[1]}, out;
    for (int r = 0; r < 2; r++) {
        graph *body;
        uint32_t x[3], more;
        ok(graph_add_region(g, &body));
        for (int i = 0; i < 3; i++) x[i] = test_input(body, graph_data(g)->values[carried[i]].type);
        uint32_t number = test_constant(body, SCALAR(I64), r ? &once : &most, sizeof once);
        const shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
        more = test_add(body, r ? GRAPH_ADD : GRAPH_COMPARE, VALUES(x[0], number), &less, !r);
        if (r) x[1] = test_add(body, GRAPH_SINE, VALUES(x[1]), NULL, 0);
        if (r) x[1] = test_add(body, GRAPH_MULTIPLY, VALUES(x[1], x[2]), NULL, 0);
        ok(graph_add_output(body, more));
        for (int i = 1; i < 3 && r; i++) ok(graph_add_output(body, x[i]));
        bodies[r] = graph_data(body);
    }
    ok(graph_add(g, GRAPH_WHILE, carried, 3, NULL, 0, bodies, 2, &out));
    return out + 1;
}

/* ---- operations of users ---- */

/* x^2 z: its gradients, and the gradients of those, are operations as well. */
enum { OWN, OWN_0, OWN_1, OWN_00, OWN_01, OWN_02, OWN_10, OWN_12, OWN_ZERO };

static shoal_status own_run(const shoal_host *host, void *context, const shoal_type *types,
                            const void *const *inputs, uint32_t n_inputs, const shoal_type *type,
                            void *output) {
    const double *x = inputs[0], *z = inputs[1], *g = n_inputs > 2 ? inputs[2] : NULL;
    const double *h = n_inputs > 3 ? inputs[3] : NULL;
    double *out = output;
    for (int64_t i = 0; i < base_type_count(type); i++) switch (*(const int *)context) {
        case OWN: out[i] = x[i] * x[i] * z[i]; break;
        case OWN_0: out[i] = 2 * x[i] * z[i] * g[i]; break;
        case OWN_1: out[i] = x[i] * x[i] * g[i]; break;
        case OWN_00: out[i] = 2 * z[i] * g[i] * h[i]; break;
        case OWN_01: out[i] = 2 * x[i] * g[i] * h[i]; break;
        case OWN_02: out[i] = 2 * x[i] * z[i] * h[i]; break;
        case OWN_10: out[i] = 2 * x[i] * g[i] * h[i]; break;
        case OWN_12: out[i] = x[i] * x[i] * h[i]; break;
        default: out[i] = 0;
        }
    return SHOAL_OK;
}

static void own_add(void) {
    static const char *const names[] = {"x2z",
                                        "x2z.gradient0",
                                        "x2z.gradient1",
                                        "x2z.gradient0.gradient0",
                                        "x2z.gradient0.gradient1",
                                        "x2z.gradient0.gradient2",
                                        "x2z.gradient1.gradient0",
                                        "x2z.gradient1.gradient2",
                                        "x2z.gradient1.gradient1"};
    static int which[9];
    static shoal_operation operations[9];
    for (int i = 0; i < 9; i++) {
        which[i] = i;
        operations[i] = (shoal_operation){sizeof operations[i], names[i], own_run, &which[i]};
        assert_int_equal(shoal_operation_add(&operations[i]), SHOAL_OK);
    }
}

IS(own, ADD(CUSTOM, XY, STRING(NAME, "x2z")))
IS(own_along, ADD(CUSTOM, XY, STRING(NAME, "x2z"), AXIS(1)))
IS(own_whole, ADD(CUSTOM, XY, STRING(NAME, "x2z"), INTS(SHAPE, 3, 4)))

static bool has[GRAPH_OP_BUILT_IN]; /* operations that an example is of */

static void check_example(const example *e) {
    check(e);
    batch_check(e);
    has[e->op] = true;
}

static void test_examples(void **state) {
    const example list[] = {
#define XX(op, low, high) {#op, GRAPH_##op, unary_##op, low, high, 1, {F(3, 4)}},
        UNARY(XX)
#undef XX
#define XX(op, low, high) {#op, GRAPH_##op, binary_##op, low, high, 2, {F(3, 4), F(3, 4)}},
            BINARY(XX)
#undef XX
                {"select", GRAPH_SELECT, select_, -2, 2, 2, {F(3, 4), F(3, 4)}},
        {"select by a scalar", GRAPH_SELECT, select_scalar, -2, 2, 2, {F(5), F(5)}},
        {"clamp", GRAPH_CLAMP, clamp, -1, 1, 3, {F(4, 5), F(4, 5), F(4, 5)}},
        {"clamp by scalars", GRAPH_CLAMP, clamp, -1, 1, 3, {S, F(4, 5), S}},
        {"place", GRAPH_PLACE, place, -1, 1, 1, {F(2, 3)}},
        {"broadcast", GRAPH_BROADCAST_IN_DIM, broadcast, -1, 1, 1, {F(2, 1, 2)}},
        {"broadcast a scalar", GRAPH_BROADCAST_IN_DIM, broadcast_scalar, -1, 1, 1, {S}},
        {"reshape", GRAPH_RESHAPE, reshape_, -1, 1, 1, {F(2, 6)}},
        {"transpose", GRAPH_TRANSPOSE, transpose, -1, 1, 1, {F(2, 3, 4)}},
        {"slice", GRAPH_SLICE, slice, -1, 1, 1, {F(5, 7)}},
        {"slice of nothing", GRAPH_SLICE, slice_none, -1, 1, 1, {F(5, 7)}},
        {"concatenate", GRAPH_CONCATENATE, concatenate, -1, 1, 2, {F(2, 3), F(2, 1)}},
        {"pad", GRAPH_PAD, pad, -1, 1, 2, {F(3, 4), S}},
        {"pad below zero", GRAPH_PAD, pad_cut, -1, 1, 2, {F(4, 5), S}},
        {"reverse", GRAPH_REVERSE, reverse, -1, 1, 1, {F(2, 3, 2)}},
        {"sum", GRAPH_REDUCE, sum, -1, 1, 2, {F(2, 3, 4), S}},
        {"sum of nothing", GRAPH_REDUCE, sum_none, -1, 1, 2, {F(2, 3), S}},
        {"largest", GRAPH_REDUCE, largest, -1, 1, 1, {F(2, 5)}},
        {"smallest", GRAPH_REDUCE, smallest, -1, 1, 1, {F(2, 3)}},
        {"products", GRAPH_REDUCE, products, -2, 2, 2, {F(2, 2, 3), S}},
        {"products with zeros", GRAPH_REDUCE, products_zero, 1, 2, 1, {F(2, 3)}},
        {"reduced by logarithms", GRAPH_REDUCE, reduce_logs, -1, 1, 2, {F(2, 3, 2), S}},
        {"reduced by sum and product", GRAPH_REDUCE, reduce_both, -1, 1, 2, {F(3, 2, 2), S}},
        {"cumulated sums", GRAPH_CUMULATE, cumulate_sum, -1, 1, 2, {F(2, 4), S}},
        {"cumulated products", GRAPH_CUMULATE, cumulate_product, -2, 2, 2, {F(4, 2), S}},
        {"cumulated largest", GRAPH_CUMULATE, cumulate_largest, -1, 1, 1, {F(3, 6)}},
        {"cumulated smallest", GRAPH_CUMULATE, cumulate_smallest, -1, 1, 1, {F(3, 6)}},
        {"cumulated by logarithms", GRAPH_CUMULATE, cumulate_logs, -2, 2, 2, {F(2, 5), S}},
        {"cumulated by sum and product", GRAPH_CUMULATE, cumulate_both, -1, 1, 2, {F(7, 2, 2), S}},
        {"cumulated nothing", GRAPH_CUMULATE, cumulate_logs, -1, 1, 2, {F(2, 0), S}},
        {"sort", GRAPH_SORT, sort, -1, 1, 2, {F(2, 5), F(2, 5)}},
        {"top_k", GRAPH_TOP_K, top_k, -1, 1, 1, {F(2, 5)}},
        {"dynamic_slice", GRAPH_DYNAMIC_SLICE, dynamic_slice, -1, 1, 1, {F(4, 5)}},
        {"dynamic_update_slice",
         GRAPH_DYNAMIC_UPDATE_SLICE,
         dynamic_update_slice,
         -1,
         1,
         2,
         {F(4, 5), F(2, 2)}},
        {"gather of rows", GRAPH_GATHER, gather_rows, -1, 1, 1, {F(4, 3)}},
        {"gather of windows", GRAPH_GATHER, gather_windows, -1, 1, 1, {F(2, 4, 5)}},
        {"scatter, add", GRAPH_SCATTER, scatter_add, -1, 1, 2, {F(4, 2), F(4, 2)}},
        {"scatter, set", GRAPH_SCATTER, scatter_set, -1, 1, 2, {F(4, 2), F(4, 2)}},
        {"scatter, maximum", GRAPH_SCATTER, scatter_largest, -1, 1, 2, {F(4, 2), F(4, 2)}},
        {"scatter, minimum", GRAPH_SCATTER, scatter_smallest, -1, 1, 2, {F(4, 2), F(4, 2)}},
        {"scatter, multiply", GRAPH_SCATTER, scatter_product, 1, 2, 2, {F(4, 2), F(4, 2)}},
        {"scatter, multiply once",
         GRAPH_SCATTER,
         scatter_product_once,
         1,
         2,
         2,
         {F(4, 2), F(4, 2)}},
        {"scatter of windows", GRAPH_SCATTER, scatter_windows, -1, 1, 2, {F(2, 4, 5), F(2, 2, 2)}},
        {"product", GRAPH_DOT_GENERAL, product, -1, 1, 2, {F(2, 3), F(3, 4)}},
        {"product, transposed",
         GRAPH_DOT_GENERAL,
         product_transposed,
         -1,
         1,
         2,
         {F(3, 2), F(4, 3)}},
        {"product, any axes",
         GRAPH_DOT_GENERAL,
         product_any,
         -1,
         1,
         2,
         {F(2, 3, 2, 2, 2), F(2, 2, 2, 3, 3)}},
        {"product, outer", GRAPH_DOT_GENERAL, product_outer, -1, 1, 2, {F(2, 2), F(3)}},
        {"product of nothing", GRAPH_DOT_GENERAL, product, -1, 1, 2, {F(2, 0), F(0, 4)}},
        {"convolution", GRAPH_CONVOLUTION, convolution, -1, 1, 2, {F(2, 3, 5), F(3, 2, 3)}},
        {"convolution with gaps",
         GRAPH_CONVOLUTION,
         convolution_gaps,
         -1,
         1,
         2,
         {F(2, 7, 2, 4), F(2, 2, 3, 2)}},
        {"convolution, feature groups",
         GRAPH_CONVOLUTION,
         convolution_features,
         -1,
         1,
         2,
         {F(2, 4, 6), F(2, 6, 3)}},
        {"convolution, batch groups",
         GRAPH_CONVOLUTION,
         convolution_batches,
         -1,
         1,
         2,
         {F(4, 2, 4), F(2, 4, 2)}},
        {"convolution without windows",
         GRAPH_CONVOLUTION,
         convolution_flat,
         -1,
         1,
         2,
         {F(3, 2), F(2, 4)}},
        {"sums of windows", GRAPH_REDUCE_WINDOW, windows_sum, -1, 1, 1, {F(4, 5)}},
        {"sums of windows with gaps", GRAPH_REDUCE_WINDOW, windows_sum_gaps, -1, 1, 1, {F(4, 6)}},
        {"largest of windows", GRAPH_REDUCE_WINDOW, windows_largest, -1, 1, 1, {F(4, 5)}},
        {"smallest of windows", GRAPH_REDUCE_WINDOW, windows_smallest, -1, 1, 1, {F(4, 5)}},
        {"select_and_scatter",
         GRAPH_SELECT_AND_SCATTER,
         select_and_scatter,
         -1,
         1,
         3,
         {F(4, 5), F(4, 2), S}},
        {"if, true", GRAPH_IF, if_true, -1, 1, 2, {F(3), F(3)}},
        {"if, false", GRAPH_IF, if_false, -1, 1, 2, {F(3), F(3)}},
        {"case, the first", GRAPH_CASE, case_first, -1, 1, 2, {F(3), F(3)}},
        {"case, the last", GRAPH_CASE, case_last, -1, 1, 2, {F(3), F(3)}},
        {"while", GRAPH_WHILE, loop, -1, 1, 2, {F(3), F(3)}},
        {"custom", GRAPH_CUSTOM, own, -1, 1, 2, {F(3, 4), F(3, 4)}},
        {"custom, along an axis", GRAPH_CUSTOM, own_along, -1, 1, 2, {F(3, 4), F(3, 4)}},
        {"custom, of all", GRAPH_CUSTOM, own_whole, -1, 1, 2, {F(3, 4), F(3, 4)}},
    };
    own_add();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_example(&list[i]);
    gradient_composites(check_example);
    static const struct {
        uint16_t op;
        const char *reason;
    } untested[] = {
        {GRAPH_CONVERT, "finite differences drown in rounding: gradient_form_test.c"},
        {GRAPH_REDUCE_PRECISION, "the same"},
    };
    for (size_t i = 0; i < sizeof untested / sizeof *untested; i++) {
        assert_false(has[untested[i].op]);
        has[untested[i].op] = true;
    }
    for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++)
        if (graph_op(op)->gradient && graph_is_smooth(op) && !has[op])
            fail_msg("%s has a gradient, but no example here", shoal_op_name(op));
}

/* ---- rows without a rule ---- */

static void test_reasons(void **state) {
    static const struct {
        uint16_t op;
        const char *reason;
    } none[] = {
        {GRAPH_EXCHANGE, "made by the planner, after gradients"},
        {GRAPH_BITCAST_CONVERT, "bits are no numbers"},
    };
    for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++) {
        bool listed = false;
        for (size_t i = 0; i < sizeof none / sizeof *none; i++) listed |= none[i].op == op;
        if (listed == (graph_op(op)->gradient != NULL))
            fail_msg("%s %s", shoal_op_name(op),
                     listed ? "has a gradient after all" : "has neither a gradient nor a reason");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples),
                                       cmocka_unit_test(test_reasons)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
