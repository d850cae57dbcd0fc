/* Graphs of one operation for layouts_test.c: those on indices, order, bits and random numbers.
 * Indices reach outside, for numbers are -3 to 3. */
#include "plan/lower_testing.h"
#include "shoal/backend.h"

static shoal_attr list(shoal_attr_key key, const int64_t *numbers, size_t n) {
    return graph_ints(key, numbers, n);
}
#define INTS(key, ...)                                                                             \
    list(SHOAL_ATTR_##key, (const int64_t[]){0, __VA_ARGS__} + 1,                                  \
         sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1)
#define INT(key, number) graph_int(SHOAL_ATTR_##key, number)

static const shoal_graph *add_body(graph *g, uint32_t n, bool compares) {
    graph *body;
    uint32_t in[8], out;
    shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    OK(graph_add_region(g, &body));
    for (uint32_t i = 0; i < 2 * n; i++) in[i] = input(body, SHOAL_F32, 0, NULL);
    for (uint32_t i = 0; i < (compares ? 1 : n); i++) {
        uint32_t pair[] = {in[i], in[compares ? 1 : n + i]};
        out = add(body, compares ? GRAPH_COMPARE : GRAPH_ADD, pair, 2, &less, compares);
        OK(graph_add_output(body, out));
    }
    return graph_data(body);
}

static uint32_t add_with_body(graph *g, uint16_t op, const uint32_t *in, uint32_t n,
                              const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *body) {
    uint32_t out;
    OK(graph_add(g, op, in, n, attrs, n_attrs, &body, 1, &out));
    return out;
}

static uint32_t build_clamp(graph *g) {
    int64_t dims[] = {extent(), extent()};
    uint32_t rank = rand() % 2 ? 2 : 0, in[3];
    for (int i = 0; i < 3; i++) in[i] = input(g, SHOAL_F32, i == 1 ? 2 : rank, dims);
    return add(g, GRAPH_CLAMP, in, 3, NULL, 0);
}

static uint32_t build_bitcast(graph *g) {
    static const shoal_dtype to[] = {SHOAL_I32, SHOAL_I8, SHOAL_F64};
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){extent(), 2});
    shoal_attr attr = INT(DTYPE, to[rand() % 3]);
    return add(g, GRAPH_BITCAST_CONVERT, &x, 1, &attr, 1);
}

static uint32_t build_precision(graph *g) {
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){extent(), extent()});
    shoal_attr attrs[] = {INT(EXPONENT_BITS, 3), INT(MANTISSA_BITS, 1)};
    return add(g, GRAPH_REDUCE_PRECISION, &x, 1, attrs, 2);
}

static uint32_t build_pad(graph *g) {
    uint32_t in[] = {input(g, SHOAL_F32, 3, (int64_t[]){extent(), 2 + extent(), 3}),
                     input(g, SHOAL_F32, 0, NULL)};
    int64_t low = rand() % 4 - 1, high = rand() % 4 - 1, gap = rand() % 3;
    shoal_attr attrs[] = {INTS(EDGE_PADDING_LOW, 0, low, 0), INTS(EDGE_PADDING_HIGH, 0, high, 2),
                          INTS(INTERIOR_PADDING, rand() % 2, gap, 0)};
    return add(g, GRAPH_PAD, in, 2, attrs, 3);
}

static uint32_t build_reverse(graph *g) {
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){extent(), extent(), 3});
    shoal_attr attr = INTS(DIMENSIONS, rand() % 3);
    return add(g, GRAPH_REVERSE, &x, 1, &attr, 1);
}

static uint32_t build_in_range(graph *g) {
    uint32_t x = input(g, SHOAL_I64, 3, (int64_t[]){extent(), extent(), 3});
    shoal_attr attrs[] = {INTS(START_INDICES, INT32_MIN), INTS(LIMIT_INDICES, INT32_MAX)};
    return add(g, GRAPH_IN_RANGE, &x, 1, attrs, 2);
}

/* Twice each number; their running sum along the last axis; their sum over all. */
static shoal_status run_own(const shoal_host *host, void *context, const shoal_type *types,
                            const void *const *inputs, uint32_t n_inputs, const shoal_type *type,
                            void *output) {
    const float *x = inputs[0];
    float *out = output;
    int64_t n = base_type_count(&types[0]);
    int64_t row = types[0].rank ? types[0].dims[types[0].rank - 1] : 1;
    char how = *(const char *)context;
    if (how == 'a') out[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (how == 'e') out[i] = 2 * x[i];
        if (how == 's') out[i] = x[i] + (i % row ? out[i - 1] : 0);
        if (how == 'a') out[0] += x[i];
    }
    return SHOAL_OK;
}

static uint32_t build_custom(graph *g) {
    static const shoal_operation twice = {sizeof twice, "twice", run_own, "e"};
    static const shoal_operation sums = {sizeof sums, "sums", run_own, "s"};
    static const shoal_operation all = {sizeof all, "all", run_own, "a"};
    static bool added;
    if (!added)
        added = !shoal_operation_add(&twice) && !shoal_operation_add(&sums) &&
                !shoal_operation_add(&all);
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){extent(), extent()});
    shoal_attr attrs[] = {graph_string(SHOAL_ATTR_NAME, "twice"), INT(DIMENSION, 1)};
    int how = rand() % 3;
    if (how == 1) attrs[0] = graph_string(SHOAL_ATTR_NAME, "sums");
    if (how == 2) {
        attrs[0] = graph_string(SHOAL_ATTR_NAME, "all");
        attrs[1] = graph_ints(SHOAL_ATTR_SHAPE, NULL, 0);
    }
    return add(g, GRAPH_CUSTOM, &x, 1, attrs, how ? 2 : 1);
}

static uint32_t build_dynamic_slice(graph *g) {
    int64_t n = 1 + extent(), m = extent();
    uint32_t in[] = {input(g, SHOAL_F32, 2, (int64_t[]){n, m}), input(g, SHOAL_I32, 0, NULL),
                     input(g, SHOAL_I32, 0, NULL)};
    shoal_attr attr = INTS(SLICE_SIZES, rand() % (n + 1), m);
    return add(g, GRAPH_DYNAMIC_SLICE, in, 3, &attr, 1);
}

static uint32_t build_dynamic_update(graph *g) {
    int64_t n = 1 + extent(), m = extent();
    uint32_t in[] = {input(g, SHOAL_F32, 2, (int64_t[]){n, m}),
                     input(g, SHOAL_F32, 2, (int64_t[]){rand() % (n + 1), m}),
                     input(g, SHOAL_I32, 0, NULL), input(g, SHOAL_I32, 0, NULL)};
    return add(g, GRAPH_DYNAMIC_UPDATE_SLICE, in, 4, NULL, 0);
}

/* Rows of a table, parts of rows, or rows of a table per batch. */
static uint32_t build_gather(graph *g) {
    int64_t b = extent(), n = 2 + extent(), m = 1 + extent(), k = extent();
    if (rand() % 3) {
        uint32_t in[] = {input(g, SHOAL_F32, 2, (int64_t[]){n, m}),
                         input(g, SHOAL_I32, 2, (int64_t[]){b, k})};
        shoal_attr attrs[] = {INTS(OFFSET_DIMS, 1),
                              INTS(COLLAPSED_SLICE_DIMS, 0),
                              INTS(OPERAND_BATCHING_DIMS, ),
                              INTS(START_INDICES_BATCHING_DIMS, ),
                              INTS(START_INDEX_MAP, 0),
                              INT(INDEX_VECTOR_DIM, 2),
                              INTS(SLICE_SIZES, 1, rand() % 2 ? m : m / 2)};
        return add(g, GRAPH_GATHER, in, 2, attrs, 7);
    }
    uint32_t in[] = {input(g, SHOAL_F32, 3, (int64_t[]){b, n, m}),
                     input(g, SHOAL_I32, 3, (int64_t[]){1, b, k})};
    shoal_attr attrs[] = {INTS(OFFSET_DIMS, 2),           INTS(COLLAPSED_SLICE_DIMS, 1),
                          INTS(OPERAND_BATCHING_DIMS, 0), INTS(START_INDICES_BATCHING_DIMS, 1),
                          INTS(START_INDEX_MAP, 1),       INT(INDEX_VECTOR_DIM, 0),
                          INTS(SLICE_SIZES, b > 0, 1, m)};
    return add(g, GRAPH_GATHER, in, 2, attrs, 7);
}

/* Zeros, from which sums may start in parts, or an input. */
static uint32_t zeros_or_input(graph *g, uint32_t rank, const int64_t *dims) {
    const float zero = 0;
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &zero, sizeof zero),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, rank), INT(DTYPE, SHOAL_F32)};
    return rand() % 2 ? add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3) : input(g, SHOAL_F32, rank, dims);
}

static uint32_t build_scatter(graph *g) {
    int64_t b = extent(), n = 2 + extent(), m = 1 + extent(), k = extent();
    if (rand() % 2) {
        int64_t width = rand() % 2 ? m : m / 2;
        uint32_t in[] = {zeros_or_input(g, 2, (int64_t[]){n, m}),
                         input(g, SHOAL_I32, 1, (int64_t[]){k}),
                         input(g, SHOAL_F32, 2, (int64_t[]){k, width})};
        shoal_attr attrs[] = {
            INTS(UPDATE_WINDOW_DIMS, 1),           INTS(INSERTED_WINDOW_DIMS, 0),
            INTS(INPUT_BATCHING_DIMS, ),           INTS(SCATTER_INDICES_BATCHING_DIMS, ),
            INTS(SCATTER_DIMS_TO_OPERAND_DIMS, 0), INT(INDEX_VECTOR_DIM, 1)};
        return add_with_body(g, GRAPH_SCATTER, in, 3, attrs, 6, add_body(g, 1, false));
    }
    uint32_t in[] = {zeros_or_input(g, 3, (int64_t[]){b, n, m}),
                     input(g, SHOAL_I32, 3, (int64_t[]){1, k, b}),
                     input(g, SHOAL_F32, 3, (int64_t[]){k, b, m})};
    shoal_attr attrs[] = {
        INTS(UPDATE_WINDOW_DIMS, 2),           INTS(INSERTED_WINDOW_DIMS, 1),
        INTS(INPUT_BATCHING_DIMS, 0),          INTS(SCATTER_INDICES_BATCHING_DIMS, 2),
        INTS(SCATTER_DIMS_TO_OPERAND_DIMS, 1), INT(INDEX_VECTOR_DIM, 0)};
    return add_with_body(g, GRAPH_SCATTER, in, 3, attrs, 6, add_body(g, 1, false));
}

static uint32_t build_sort(graph *g) {
    int64_t dims[] = {extent(), extent(), 2};
    uint32_t in[] = {input(g, SHOAL_F32, 3, dims), input(g, SHOAL_F32, 3, dims)};
    shoal_attr attr = INT(DIMENSION, rand() % 3);
    return add_with_body(g, GRAPH_SORT, in, 2, &attr, 1, add_body(g, 2, true));
}

static uint32_t build_top_k(graph *g) {
    int64_t n = extent();
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){extent(), n});
    shoal_attr attr = INT(K, rand() % (n + 1));
    return add(g, GRAPH_TOP_K, &x, 1, &attr, 1);
}

static uint32_t build_extreme(graph *g, uint16_t op) {
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){1 + extent(), 1 + extent()});
    shoal_attr attrs[] = {INT(DIMENSION, rand() % 2), INT(DTYPE, SHOAL_I64)};
    return add(g, op, &x, 1, attrs, 2);
}
static uint32_t build_argmax(graph *g) { return build_extreme(g, GRAPH_ARGMAX); }
static uint32_t build_argmin(graph *g) { return build_extreme(g, GRAPH_ARGMIN); }

static uint32_t build_cumulate(graph *g) {
    uint32_t in[] = {input(g, SHOAL_F32, 2, (int64_t[]){extent(), extent()}),
                     input(g, SHOAL_F32, 0, NULL)};
    shoal_attr attr = INT(DIMENSION, rand() % 2);
    return add_with_body(g, GRAPH_CUMULATE, in, 2, &attr, 1, add_body(g, 1, false));
}

static uint32_t build_random(graph *g) {
    static const char *const how[] = {"UNIFORM", "NORMAL"};
    int64_t dims[] = {extent(), extent()};
    uint32_t in[] = {input(g, SHOAL_I32, 0, NULL), input(g, SHOAL_I32, 0, NULL)};
    shoal_attr attrs[] = {graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, how[rand() % 2]),
                          INT(DTYPE, SHOAL_F32), list(SHOAL_ATTR_SHAPE, dims, 2)};
    return add(g, GRAPH_RANDOM, in, 1 + (uint32_t)rand() % 2, attrs, 3);
}

/* Two sums at once: a body of its own, and two results. */
static uint32_t build_sums(graph *g) {
    int64_t dims[] = {extent(), extent(), 2};
    uint32_t in[] = {input(g, SHOAL_F32, 3, dims), input(g, SHOAL_F32, 3, dims), scalar(g, 0),
                     scalar(g, 1)};
    shoal_attr attr = INTS(DIMENSIONS, rand() % 3);
    return add_with_body(g, GRAPH_REDUCE, in, 4, &attr, 1, add_body(g, 2, false));
}

const layouts_case layouts_index[] = {
    {GRAPH_CLAMP, build_clamp},
    {GRAPH_BITCAST_CONVERT, build_bitcast},
    {GRAPH_REDUCE_PRECISION, build_precision},
    {GRAPH_PAD, build_pad},
    {GRAPH_REVERSE, build_reverse},
    {GRAPH_IN_RANGE, build_in_range},
    {GRAPH_CUSTOM, build_custom},
    {GRAPH_DYNAMIC_SLICE, build_dynamic_slice},
    {GRAPH_DYNAMIC_UPDATE_SLICE, build_dynamic_update},
    {GRAPH_GATHER, build_gather},
    {GRAPH_SCATTER, build_scatter},
    {GRAPH_SORT, build_sort},
    {GRAPH_TOP_K, build_top_k},
    {GRAPH_ARGMAX, build_argmax},
    {GRAPH_ARGMIN, build_argmin},
    {GRAPH_CUMULATE, build_cumulate},
    {GRAPH_RANDOM, build_random},
    {GRAPH_REDUCE, build_sums},
    {0, NULL},
};
