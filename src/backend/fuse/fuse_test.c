/* Typical graphs, and the kernels that they become, as text. That kernels mean what the graph means
 * is the hunt's to show (test/hunt/run_fuse.c). */
#include "backend/fuse/render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != SHOAL_OK) fail_msg("%s: %s", #call, shoal_error_message());                  \
    } while (0)

/* ---- graphs ---- */

static graph *g;

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define COUNT(...) (sizeof DIMS(__VA_ARGS__) / sizeof(int64_t))
#define INPUT(dtype, ...) input(dtype, COUNT(__VA_ARGS__), DIMS(__VA_ARGS__))
#define INTS(key, ...) graph_ints(SHOAL_ATTR_##key, DIMS(__VA_ARGS__), COUNT(__VA_ARGS__))
#define NODE(op, ins, ...)                                                                         \
    node(GRAPH_##op, ins, sizeof(ins) / sizeof *(ins), (const shoal_attr[]){__VA_ARGS__},          \
         sizeof((const shoal_attr[]){__VA_ARGS__}) / sizeof(shoal_attr))
#define OF(...) ((const uint32_t[]){__VA_ARGS__})

static uint32_t input(shoal_dtype dtype, size_t rank, const int64_t *dims) {
    shoal_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    uint32_t out;
    for (size_t i = 0; i < rank; i++) type.dims[i] = dims[i];
    OK(graph_add_input(g, &type, &out));
    return out;
}

static uint32_t node(uint16_t op, const uint32_t *in, size_t n, const shoal_attr *attrs,
                     size_t n_attrs) {
    uint32_t out;
    OK(graph_add(g, op, in, (uint32_t)n, attrs, (uint16_t)n_attrs, NULL, 0, &out));
    return out;
}

static uint32_t one(uint16_t op, uint32_t x) { return node(op, &x, 1, NULL, 0); }

static uint32_t two(uint16_t op, uint32_t x, uint32_t y) { return node(op, OF(x, y), 2, NULL, 0); }

static uint32_t number(float value) {
    const shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &value, sizeof value),
                                graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    return node(GRAPH_CONSTANT, NULL, 0, attrs, 3);
}

/* A number in a shape. */
#define FILLED(value, ...)                                                                         \
    NODE(BROADCAST_IN_DIM, OF(number(value)),                                                      \
         graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, NULL, 0), INTS(SHAPE, __VA_ARGS__))

static uint32_t reduced(uint16_t op, uint32_t x, uint32_t initial, int64_t axis) {
    const shoal_graph *body;
    uint32_t out;
    shoal_attr axes = graph_ints(SHOAL_ATTR_DIMENSIONS, &axis, 1);
    OK(graph_add_body(g, op, (shoal_dtype)graph_data(g)->values[x].type.dtype, &body));
    OK(graph_add(g, GRAPH_REDUCE, OF(x, initial), 2, &axes, 1, &body, 1, &out));
    return out;
}

/* ---- plans ---- */

static const fuse_limits all = {.operations = 64, .loads = 40, .passes = 8, .any_stride = true};
static const fuse_limits tiles = {.operations = 64, .loads = 40}; /* as cpu has them */

/* What a graph, whose outputs are given, becomes. Moves become loads if `moves`, products go on. */
static void expect(const fuse_limits *limits, bool moves, const uint32_t *outputs, size_t n,
                   const char *must) {
    graph *own;
    base_arena arena;
    fuse_plan plan;
    base_str text;
    for (size_t i = 0; i < n; i++) OK(graph_add_output(g, outputs[i]));
    OK(graph_new(0, &own));
    OK(graph_decompose(graph_data(g), NULL, NULL, own));
    const shoal_graph *data = graph_data(own);
    fuse_choice *choices = calloc(data->n_nodes + (size_t)1, sizeof *choices);
    for (uint32_t i = 0; i < data->n_nodes; i++) {
        choices[i].role = (uint8_t)fuse_may_take(data, &data->nodes[i]);
        choices[i].views = UINT32_MAX;
        if (fuse_is_move(data->nodes[i].op) && !moves) choices[i].role = FUSE_OWN;
        if (data->nodes[i].op == GRAPH_DOT_GENERAL && moves) choices[i].role = FUSE_HEAD;
    }
    base_arena_init(&arena, 0);
    base_str_init(&text);
    OK(fuse_plan_make(data, choices, limits, &arena, &plan));
    fuse_print(&plan, &text);
    OK(base_str_status(&text));
    assert_string_equal(text.data ? text.data : "", must);
    base_str_fini(&text);
    base_arena_fini(&arena);
    free(choices);
    graph_destroy(&own);
    graph_destroy(&g);
}
#define EXPECT(limits, moves, outputs, must)                                                       \
    expect(limits, moves, outputs, sizeof(outputs) / sizeof *(outputs), must)

static int fresh(void **state) {
    OK(graph_new(0, &g));
    return 0;
}

/* ---- elementwise ---- */

static void test_chain(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 100, 200), b = INPUT(SHOAL_F32, 200);
    uint32_t wide =
        NODE(BROADCAST_IN_DIM, OF(b), INTS(BROADCAST_DIMENSIONS, 1), INTS(SHAPE, 100, 200));
    uint32_t y = two(GRAPH_ADD, two(GRAPH_MULTIPLY, x, x), wide);
    EXPECT(&tiles, false, OF(one(GRAPH_TANH, y)),
           "kernel 100, 200\n"
           "  %0 = load f32 v0 [200, 1]\n"
           "  %1 = load f32 v2 [0, 1]\n"
           "  %2 = multiply f32 %0, %0\n"
           "  %3 = add f32 %2, %1\n"
           "  %4 = tanh f32 %3\n"
           "  v5 = %4 [200, 1]\n");
}

static void test_two_results(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 6, 7), y = one(GRAPH_EXPONENTIAL, x);
    EXPECT(&tiles, false, OF(y, two(GRAPH_ADD, y, x)),
           "kernel 42\n"
           "  %0 = load f32 v0 [1]\n"
           "  %1 = exponential f32 %0\n"
           "  %2 = add f32 %1, %0\n"
           "  v1 = %1 [1]\n"
           "  v2 = %2 [1]\n");
}

static void test_limits(void **state) {
    static const fuse_limits small = {.operations = 2, .loads = 40};
    uint32_t x = INPUT(SHOAL_F32, 8);
    for (int i = 0; i < 3; i++) x = one(GRAPH_SINE, x);
    EXPECT(&small, false, OF(x),
           "kernel 8\n"
           "  %0 = load f32 v0 [1]\n"
           "  %1 = sine f32 %0\n"
           "  %2 = sine f32 %1\n"
           "  v2 = %2 [1]\n"
           "kernel 8\n"
           "  %0 = load f32 v2 [1]\n"
           "  %1 = sine f32 %0\n"
           "  v3 = %1 [1]\n");
}

static void test_types(void **state) {
    uint32_t x = INPUT(SHOAL_BF16, 8), limit = FILLED(0.5f, 8);
    uint32_t wide = NODE(CONVERT, OF(x), graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32));
    uint32_t less =
        NODE(COMPARE, OF(wide, limit), graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT"));
    EXPECT(&tiles, false, OF(node(GRAPH_SELECT, OF(less, wide, limit), 3, NULL, 0)),
           "kernel 8\n"
           "  %0 = load bf16 v0 [1]\n"
           "  %1 = literal f32 5.0e-01\n"
           "  %2 = convert f32 %0\n"
           "  %3 = compare i1 LT %2, %1\n"
           "  %4 = select f32 %3, %2, %1\n"
           "  v5 = %4 [1]\n");
}

/* ---- moves ---- */

static void test_views(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 6, 8);
    uint32_t turned = NODE(TRANSPOSE, OF(x), INTS(PERMUTATION, 1, 0));
    uint32_t part = NODE(SLICE, OF(turned), INTS(START_INDICES, 1, 2), INTS(LIMIT_INDICES, 7, 6),
                         INTS(STRIDES, 2, 1));
    uint32_t back = NODE(REVERSE, OF(part), INTS(DIMENSIONS, 1));
    EXPECT(&all, true, OF(two(GRAPH_ADD, part, back)),
           "kernel 3, 4\n"
           "  %0 = load f32 v2 at 17 [2, 8]\n"
           "  %1 = load f32 v3 at 41 [2, -8]\n"
           "  %2 = add f32 %0, %1\n"
           "  v4 = %2 [4, 1]\n");
}

/* Tiles want rows that are dense or repeated: what is not is copied first. */
static void test_near(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 6, 8);
    uint32_t turned = NODE(TRANSPOSE, OF(x), INTS(PERMUTATION, 1, 0));
    EXPECT(&tiles, false, OF(two(GRAPH_ADD, turned, turned)),
           "node v1 = transpose v0\n"
           "kernel 48\n"
           "  %0 = load f32 v1 [1]\n"
           "  %1 = add f32 %0, %0\n"
           "  v2 = %1 [1]\n");
}

static void test_padding(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 3, 4);
    uint32_t y = NODE(PAD, OF(x, number(-1)), INTS(EDGE_PADDING_LOW, 1, -1),
                      INTS(EDGE_PADDING_HIGH, 2, 0), INTS(INTERIOR_PADDING, 0, 1));
    EXPECT(&all, true, OF(one(GRAPH_NEGATE, y)),
           "kernel 6, 6\n"
           "  %0 = literal f32 -1.0e+00\n"
           "  %1 = load f32 v0 [4, 1] loop 0 in 1..4 loop 1 in -1..6 by 2 else %0\n"
           "  %2 = negate f32 %1\n"
           "  v3 = %2 [6, 1]\n");
}

static void test_joined(void **state) {
    uint32_t x = INPUT(SHOAL_I32, 2, 3), y = INPUT(SHOAL_I32, 2, 5);
    uint32_t z = NODE(CONCATENATE, OF(x, y, x), graph_int(SHOAL_ATTR_DIMENSION, 1));
    EXPECT(&all, true, OF(two(GRAPH_MULTIPLY, z, z)),
           "kernel 2, 11\n"
           "  %0 = load i32 v0 [3, 1] loop 1 in 8..11\n"
           "  %1 = load i32 v1 [5, 1] loop 1 in 3..8 else %0\n"
           "  %2 = load i32 v0 [3, 1] loop 1 in 0..3 else %1\n"
           "  %3 = multiply i32 %2, %2\n"
           "  v3 = %3 [11, 1]\n");
}

static void test_positions(void **state) {
    uint32_t x = INPUT(SHOAL_I32, 4, 5);
    uint32_t i = node(GRAPH_IOTA, NULL, 0,
                      (const shoal_attr[]){graph_int(SHOAL_ATTR_IOTA_DIMENSION, 1),
                                           graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32),
                                           INTS(SHAPE, 4, 5), INTS(START_INDICES, 0, 10)},
                      4);
    EXPECT(&all, true, OF(two(GRAPH_ADD, x, i)),
           "kernel 4, 5\n"
           "  %0 = position i32 v1 at 10 [0, 1]\n"
           "  %1 = load i32 v0 [5, 1]\n"
           "  %2 = add i32 %1, %0\n"
           "  v2 = %2 [5, 1]\n");
}

/* ---- reductions ---- */

static void test_reduction(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 4, 5, 6), y = INPUT(SHOAL_F32, 4, 5, 6);
    uint32_t sum = reduced(GRAPH_ADD, two(GRAPH_MULTIPLY, x, y), number(0), 1);
    EXPECT(&tiles, false, OF(one(GRAPH_SQRT, sum)),
           "kernel 4, 5 reduced, 6\n"
           "  %0 = load f32 v0 [30, 6, 1]\n"
           "  %1 = load f32 v1 [30, 6, 1]\n"
           "  %2 = literal f32 0.0e+00\n"
           "  %3 = multiply f32 %0, %1\n"
           "  %4 = reduce add f32 %3 from %2 pass 1\n"
           "  v4 = %4 [6, 0, 1]\n"
           "kernel 24\n"
           "  %0 = load f32 v4 [1]\n"
           "  %1 = sqrt f32 %0\n"
           "  v5 = %1 [1]\n");
}

static void test_epilogue(void **state) {
    uint32_t x = INPUT(SHOAL_F16, 4, 5);
    uint32_t initial = NODE(CONVERT, OF(number(0)), graph_int(SHOAL_ATTR_DTYPE, SHOAL_F16));
    EXPECT(&all, true, OF(one(GRAPH_SQRT, reduced(GRAPH_ADD, x, initial, 1))),
           "kernel\n"
           "  %0 = literal f32 0.0e+00\n"
           "  %1 = convert f16 %0\n"
           "  v2 = %1 []\n"
           "kernel 4, 5 reduced\n"
           "  %0 = load f16 v0 [5, 1]\n"
           "  %1 = load f16 v2 [0, 0]\n"
           "  %2 = reduce add f16 %0 from %1 in f32 pass 1\n"
           "  %3 = sqrt f16 %2 pass 1\n"
           "  v4 = %3 [1, 0]\n");
}

static void test_softmax(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 64, 1000);
    EXPECT(&all, true, OF(NODE(SOFTMAX, OF(x), graph_int(SHOAL_ATTR_DIMENSION, 1))),
           "kernel 64, 1000 reduced; 3 passes\n"
           "  %0 = load f32 v0 [1000, 1]\n"
           "  %1 = literal f32 0xFF800000\n"
           "  %2 = literal f32 0.0e+00\n"
           "  %3 = reduce maximum f32 %0 from %1 pass 1\n"
           "  %4 = subtract f32 %0, %3 pass 1\n"
           "  %5 = exponential f32 %4 pass 1\n"
           "  %6 = reduce add f32 %5 from %2 pass 2\n"
           "  %7 = divide f32 %5, %6 pass 2\n"
           "  v9 = %7 [1000, 1]\n");
}

static void test_layer_norm(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 64, 768), scale = INPUT(SHOAL_F32, 768);
    EXPECT(&all, true,
           OF(NODE(LAYER_NORM, OF(x, scale), graph_int(SHOAL_ATTR_DIMENSION, 1),
                   graph_float(SHOAL_ATTR_EPSILON, 1e-5))),
           "kernel 64, 768 reduced; 3 passes\n"
           "  %0 = load f32 v0 [768, 1]\n"
           "  %1 = literal f32 0.0e+00\n"
           "  %2 = literal f32 7.68e+02\n"
           "  %3 = literal f32 0.0e+00\n"
           "  %4 = literal f32 7.68e+02\n"
           "  %5 = literal f32 1.0e-05\n"
           "  %6 = load f32 v18 [0, 1]\n"
           "  %7 = reduce add f32 %0 from %1 pass 1\n"
           "  %8 = divide f32 %7, %2 pass 1\n"
           "  %9 = subtract f32 %0, %8 pass 1\n"
           "  %10 = multiply f32 %9, %9 pass 1\n"
           "  %11 = reduce add f32 %10 from %3 pass 2\n"
           "  %12 = divide f32 %11, %4 pass 2\n"
           "  %13 = add f32 %12, %5 pass 2\n"
           "  %14 = rsqrt f32 %13 pass 2\n"
           "  %15 = multiply f32 %9, %14 pass 2\n"
           "  %16 = multiply f32 %15, %6 pass 2\n"
           "  v19 = %16 [768, 1]\n");
}

/* A reduction along other axes is another kernel. */
static void test_other_axes(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 4, 5), zero = number(0), y = one(GRAPH_NEGATE, x);
    EXPECT(&all, true, OF(reduced(GRAPH_ADD, y, zero, 0), reduced(GRAPH_ADD, y, zero, 1)),
           "kernel 4 reduced, 5\n"
           "  %0 = load f32 v0 [5, 1]\n"
           "  %1 = literal f32 0.0e+00\n"
           "  %2 = negate f32 %0\n"
           "  %3 = reduce add f32 %2 from %1 pass 1\n"
           "  v2 = %2 [5, 1]\n"
           "  v3 = %3 [0, 1]\n"
           "kernel 4, 5 reduced\n"
           "  %0 = load f32 v2 [5, 1]\n"
           "  %1 = literal f32 0.0e+00\n"
           "  %2 = reduce add f32 %0 from %1 pass 1\n"
           "  v4 = %2 [1, 0]\n");
}

/* ---- products ---- */

static void test_product(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 32, 64), w = INPUT(SHOAL_F32, 64, 16), b = INPUT(SHOAL_F32, 16);
    uint32_t y =
        NODE(DOT_GENERAL, OF(x, w), graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
             graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
             INTS(LHS_CONTRACTING_DIMENSIONS, 1), INTS(RHS_CONTRACTING_DIMENSIONS, 0));
    uint32_t wide =
        NODE(BROADCAST_IN_DIM, OF(b), INTS(BROADCAST_DIMENSIONS, 1), INTS(SHAPE, 32, 16));
    EXPECT(&all, true, OF(one(GRAPH_TANH, two(GRAPH_ADD, y, wide))),
           "node v3 = dot_general v0, v1\n"
           "kernel 32, 16\n"
           "  %0 = result f32 v3 [16, 1]\n"
           "  %1 = load f32 v4 [0, 1]\n"
           "  %2 = add f32 %0, %1\n"
           "  %3 = tanh f32 %2\n"
           "  v6 = %3 [16, 1]\n");
}

/* ---- in place ---- */

/* Which loads of the only kernel its only result may be written over: bit i is load i. */
static uint32_t overwritable(uint32_t output) {
    base_arena arena;
    fuse_plan plan;
    uint32_t bits = 0;
    OK(graph_add_output(g, output));
    const shoal_graph *data = graph_data(g);
    fuse_choice *choices = calloc(data->n_nodes, sizeof *choices);
    for (uint32_t i = 0; i < data->n_nodes; i++)
        choices[i] =
            (fuse_choice){(uint8_t)fuse_may_take(data, &data->nodes[i]), .views = UINT32_MAX};
    base_arena_init(&arena, 0);
    OK(fuse_plan_make(data, choices, &all, &arena, &plan));
    assert_int_equal(plan.n_steps, 1);
    const fuse_kernel *k = plan.steps[0].kernel;
    for (uint32_t i = 0; i < k->n_loads; i++) bits |= (uint32_t)fuse_may_overwrite(k, 0, i) << i;
    base_arena_fini(&arena);
    free(choices);
    graph_destroy(&g);
    return bits;
}

static void test_in_place(void **state) {
    uint32_t x = INPUT(SHOAL_F32, 6, 6), y = INPUT(SHOAL_F32, 6, 6), row = INPUT(SHOAL_F32, 6);
    uint32_t turned = NODE(TRANSPOSE, OF(y), INTS(PERMUTATION, 1, 0));
    uint32_t wide =
        NODE(BROADCAST_IN_DIM, OF(row), INTS(BROADCAST_DIMENSIONS, 1), INTS(SHAPE, 6, 6));
    /* Loads: x, y turned, row. */
    assert_int_equal(overwritable(two(GRAPH_ADD, two(GRAPH_ADD, x, turned), wide)), 1);
    fresh(state);
    x = INPUT(SHOAL_F32, 6);
    assert_int_equal(overwritable(NODE(CONVERT, OF(x), graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32))), 1);
    fresh(state);
    x = INPUT(SHOAL_F32, 6);
    assert_int_equal(overwritable(NODE(CONVERT, OF(x), graph_int(SHOAL_ATTR_DTYPE, SHOAL_F16))), 0);
    fresh(state);
    x = INPUT(SHOAL_F32, 6, 1);
    assert_int_equal(overwritable(reduced(GRAPH_ADD, x, number(0), 1)), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_chain),      TEST(test_two_results), TEST(test_limits),   TEST(test_types),
        TEST(test_views),      TEST(test_near),        TEST(test_padding),  TEST(test_joined),
        TEST(test_positions),  TEST(test_reduction),   TEST(test_epilogue), TEST(test_softmax),
        TEST(test_layer_norm), TEST(test_other_axes),  TEST(test_product),  TEST(test_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
