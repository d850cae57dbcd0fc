/* Convolutions on cpu against the reference: cases that reach each way of computing them, and
 * random ones, with every instruction set, on one thread and on three. Operands are small integers,
 * so that every order of sums is exact; one of them may be infinite. */
#include "base/testing.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/run_testing.h"

#include <math.h>
enum { AXES = 3 };

/* Channels and features are those of one group. */
typedef struct test {
    int64_t batch, channels, features, feature_groups, batch_groups;
    uint32_t spatial;
    struct {
        int64_t in, window, stride, low, high, in_gap, window_gap, reversed;
    } axis[AXES];
    int layout; /* 0: features first, 1: features last, 2: space turned around, too */
} test;

/* Dimension numbers: `first` and `second` are two axes, of the layout's places for them. */
static void place_axes(int layout, uint32_t spatial, bool swapped, int64_t *axes) {
    axes[swapped] = 0;
    axes[!swapped] = layout ? spatial + 1 : 1;
    for (uint32_t i = 0; i < spatial; i++)
        axes[2 + i] = (layout ? 1 : 2) + (layout == 2 ? spatial - 1 - i : i);
}

static shoal_type type_of(uint8_t dtype, const test *t, const int64_t *axes, int64_t first,
                          int64_t second, bool window) {
    shoal_type type = {.dtype = dtype, .rank = (uint8_t)(t->spatial + 2)};
    type.dims[axes[0]] = first;
    type.dims[axes[1]] = second;
    for (uint32_t i = 0; i < t->spatial; i++)
        type.dims[axes[2 + i]] = window ? t->axis[i].window : t->axis[i].in;
    return type;
}

static graph *convolution(const test *t, uint8_t dtype) {
    graph *g;
    uint32_t in[2], out, n = t->spatial;
    int64_t strides[AXES], padding[2 * AXES], left[AXES], right[AXES], reversed[AXES];
    int64_t axes[3 * (AXES + 2)], *of_rhs = axes + n + 2, *of_out = of_rhs + n + 2;
    for (uint32_t i = 0; i < n; i++) {
        strides[i] = t->axis[i].stride;
        padding[2 * i] = t->axis[i].low;
        padding[2 * i + 1] = t->axis[i].high;
        left[i] = t->axis[i].in_gap;
        right[i] = t->axis[i].window_gap;
        reversed[i] = t->axis[i].reversed;
    }
    int64_t groups = t->feature_groups * t->batch_groups;
    place_axes(t->layout, n, false, axes);
    place_axes(t->layout, n, true, of_rhs);
    place_axes(t->layout, n, false, of_out);
    shoal_type lhs =
        type_of(dtype, t, axes, t->batch * t->batch_groups, t->channels * t->feature_groups, false);
    shoal_type rhs = type_of(dtype, t, of_rhs, t->channels, t->features * groups, true);
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_WINDOW_STRIDES, strides, n),
                                graph_ints(SHOAL_ATTR_PADDING, padding, 2 * (size_t)n),
                                graph_ints(SHOAL_ATTR_LHS_DILATION, left, n),
                                graph_ints(SHOAL_ATTR_RHS_DILATION, right, n),
                                graph_ints(SHOAL_ATTR_WINDOW_REVERSAL, reversed, n),
                                graph_ints(SHOAL_ATTR_CONVOLUTION_DIMENSIONS, axes, 3 * (n + 2)),
                                graph_int(SHOAL_ATTR_FEATURE_GROUP_COUNT, t->feature_groups),
                                graph_int(SHOAL_ATTR_BATCH_GROUP_COUNT, t->batch_groups)};
    OK(graph_new(0, &g));
    OK(graph_add_input(g, &lhs, &in[0]));
    OK(graph_add_input(g, &rhs, &in[1]));
    OK(graph_add(g, GRAPH_CONVOLUTION, in, 2, attrs, 8, NULL, 0, &out));
    OK(graph_add_output(g, out));
    return g;
}

static double get(const void *x, uint8_t dtype, int64_t i) {
    return dtype == SHOAL_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void set(void *x, uint8_t dtype, int64_t i, double value) {
    if (dtype == SHOAL_F32)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

/* Exactly as large as they are, so that what is read behind them is noticed. */
static void *filled(const shoal_type *type, int side, bool infinite) {
    int64_t count = base_type_count(type);
    void *data = malloc((size_t)base_type_bytes(type) + !count);
    for (int64_t i = 0; i < count; i++)
        set(data, type->dtype, i, (double)((i * 7 + i / 11 + i / 13 * side) % 9) - 4);
    if (infinite && count) set(data, type->dtype, count * 5 / 11, INFINITY);
    return data;
}

enum { FINITE, INPUT, WEIGHTS }; /* where one element is infinite */

static void check(const char *what, int number, const test *t, uint8_t dtype, int infinite) {
    const cpu_kernels *sets[CPU_MOST_SETS];
    size_t n_sets = cpu_kernel_sets(sets);
    graph *g = convolution(t, dtype);
    const shoal_graph *d = graph_data(g);
    int64_t count = base_type_count(&d->values[2].type);
    size_t bytes = (size_t)base_type_bytes(&d->values[2].type);
    void *data[3] = {filled(&d->values[0].type, 0, infinite == INPUT),
                     filled(&d->values[1].type, 1, infinite == WEIGHTS), malloc(bytes + 1)},
         *must = malloc(bytes + 1);
    test_run("ref", 1, d, data, &must);
    for (size_t s = 0; s < n_sets; s++) {
        setenv("SHOAL_CPU", sets[s]->name, 1);
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            memset(data[2], 0xff, bytes);
            test_run("cpu", threads, d, data, data + 2);
            for (int64_t i = 0; i < count; i++) {
                double x = get(data[2], dtype, i), y = get(must, dtype, i);
                if (x != y && !(x != x && y != y))
                    fail_msg("%s %d, %s, %u threads, %s: element %lld is %g, not %g", what, number,
                             sets[s]->name, threads, dtype == SHOAL_F32 ? "f32" : "f64",
                             (long long)i, x, y);
            }
        }
    }
    unsetenv("SHOAL_CPU");
    for (int i = 0; i < 3; i++) free(data[i]);
    free(must);
    graph_destroy(&g);
}

/* ---- chosen ---- */

#define SAME(in, window)                                                                           \
    { in, window, 1, window / 2, window / 2, 1, 1, 0 }
#define PLAIN(in, window)                                                                          \
    { in, window, 1, 0, 0, 1, 1, 0 }

static const test cases[] = {
    /* panels copied: of whole rows, of parts of rows, of several batches, of one place each */
    {2, 3, 20, 1, 1, 2, {SAME(9, 3), SAME(32, 3)}, 0},
    {3, 5, 33, 1, 1, 2, {SAME(7, 3), SAME(7, 5)}, 0},
    {40, 4, 6, 1, 1, 2, {PLAIN(3, 2), PLAIN(3, 2)}, 0},
    {70, 9, 7, 1, 1, 2, {PLAIN(3, 3), PLAIN(3, 3)}, 0},
    {2, 6, 9, 1, 1, 2, {SAME(12, 3), SAME(19, 3)}, 1},
    {2, 6, 9, 1, 1, 2, {SAME(12, 3), SAME(19, 3)}, 2},
    /* more features than a block has rows, and k than is multiplied at a time */
    {1, 70, 205, 1, 1, 2, {SAME(5, 3), SAME(6, 3)}, 0},
    {1, 600, 12, 1, 1, 1, {PLAIN(40, 1)}, 0},
    /* strides and gaps */
    {2, 4, 6, 1, 1, 2, {{11, 3, 2, 1, 0, 1, 1, 0}, {40, 3, 3, 2, 1, 1, 1, 0}}, 0},
    {2, 4, 6, 1, 1, 2, {{11, 3, 1, 2, 2, 2, 2, 1}, {14, 4, 2, 3, 1, 3, 2, 0}}, 0},
    {1, 2, 5, 1, 1, 1, {{30, 4, 3, -2, 5, 2, 5, 1}}, 0},
    /* gradients of weights: long windows, turned; parts of the sums, of channels and of a window */
    {6, 20, 10, 1, 1, 2, {{12, 10, 1, 1, 1, 1, 1, 0}, {33, 33, 1, 1, 1, 1, 1, 0}}, 0},
    {5, 3, 6, 1, 1, 2, {{130, 128, 1, 0, 0, 1, 1, 0}, {66, 64, 1, 0, 0, 1, 1, 0}}, 0},
    {3, 16, 40, 1, 1, 2, {{24, 22, 1, 0, 0, 1, 1, 0}, {40, 19, 1, 0, 0, 1, 2, 0}}, 0},
    /* few features: by place, by window, and what is left over of vectors */
    {2, 1, 1, 5, 1, 2, {SAME(9, 3), SAME(67, 3)}, 0},
    {2, 2, 3, 3, 1, 2, {SAME(6, 3), {21, 3, 2, 1, 1, 1, 1, 1}}, 0},
    {2, 3, 1, 1, 1, 2, {SAME(9, 3), SAME(9, 3)}, 1},
    {1, 4, 1, 1, 7, 2, {{9, 8, 1, 1, 0, 1, 1, 0}, {35, 35, 1, 1, 1, 1, 1, 0}}, 0},
    {2, 3, 4, 1, 2, 2, {{9, 4, 1, 1, 0, 1, 2, 0}, {41, 21, 1, 0, 0, 1, 2, 1}}, 0},
    {1, 900, 2, 1, 1, 2, {{9, 8, 1, 1, 0, 1, 1, 0}, {35, 35, 1, 1, 1, 1, 1, 0}}, 0},
    /* windows larger than what they lie on, nothing at all, other numbers of axes */
    {2, 2, 3, 1, 1, 2, {{2, 5, 1, 4, 3, 1, 1, 0}, {1, 7, 1, 6, 6, 1, 1, 0}}, 0},
    {2, 2, 3, 1, 1, 1, {{2, 5, 1, 1, 1, 1, 1, 0}}, 0},
    {0, 2, 3, 1, 1, 1, {PLAIN(9, 2)}, 0},
    {2, 0, 3, 1, 1, 1, {PLAIN(9, 2)}, 0},
    {3, 40, 50, 1, 1, 0, {PLAIN(1, 1)}, 0},
    {2, 3, 5, 2, 1, 3, {SAME(4, 3), {5, 2, 2, 1, 0, 2, 1, 1}, SAME(18, 3)}, 0},
    /* dilated: more than the window or the result has, places that meet nothing, gaps that share a
     * divisor or are a multiple, one element or none, more remainders than the window has elements
     */
    {2, 40, 30, 1, 1, 2, {{7, 4, 1, 2, 2, 2, 1, 1}, {9, 4, 1, 2, 2, 2, 1, 1}}, 0},
    {2, 70, 205, 1, 1, 2, {{7, 3, 1, 1, 2, 2, 1, 0}, {8, 3, 1, 1, 2, 2, 1, 1}}, 1},
    {2, 6, 9, 1, 1, 2, {{3, 2, 1, 1, 1, 7, 1, 0}, {5, 3, 2, 0, 3, 4, 2, 1}}, 0},
    {2, 6, 9, 1, 1, 2, {{4, 3, 1, 1, 1, 6, 4, 1}, {4, 3, 3, 5, 2, 6, 3, 0}}, 2},
    {2, 3, 4, 1, 2, 2, {{4, 3, 1, 1, 2, 3, 6, 0}, {1, 3, 1, 2, 2, 5, 1, 0}}, 0},
    {2, 3, 4, 1, 1, 2, {{4, 1, 2, -1, 0, 2, 1, 0}, {9, 3, 1, 1, 1, 2, 1, 0}}, 0},
    {2, 3, 4, 1, 1, 2, {{0, 3, 1, 3, 4, 3, 1, 0}, {9, 3, 1, 1, 1, 2, 1, 0}}, 0},
    {2, 4, 3, 3, 1, 3, {{3, 2, 1, 1, 1, 2, 1, 1}, {3, 3, 1, 1, 1, 3, 1, 0}, SAME(5, 3)}, 0},
    {2, 3, 5, 1, 1, 1, {{2, 2, 1, -2, -900000000, 900000005, 1, 0}}, 0},
    {1, 1, 1, 1, 1, 1, {{2, 1, 1, 0, -9223372036854775797, 9223372036854775806, 1, 0}}, 0},
    {1, 1, 1, 1, 1, 1, {{2, 3000, 1, 2999, 2999, 3000, 1, 0}}, 0},
    {2, 1, 1, 9, 1, 2, {{9, 3, 1, 1, 2, 2, 1, 1}, {35, 3, 1, 1, 2, 2, 1, 1}}, 0},
    {1, 300, 20, 1, 1, 2, {{4, 4, 1, 2, 2, 2, 1, 0}, {4, 4, 1, 2, 2, 2, 1, 1}}, 0},
    /* of which all together would need much memory */
    {1, 1, 5, 1, 1, 2, {{3, 1, 10000, 500000, 500000, 1, 1, 0}, {9, 3, 1, 1, 1, 2, 1, 0}}, 0},
    /* too wide a gap for a box */
    {1, 2, 3, 1, 1, 2, {PLAIN(3, 2), {3, 2, 3000000, 9000000, 9000000, 1, 9000000, 0}}, 0},
};

static void test_cases(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check("case", (int)i, &cases[i], SHOAL_F32, FINITE);
        check("case", (int)i, &cases[i], SHOAL_F32, WEIGHTS);
        check("case", (int)i, &cases[i], SHOAL_F64, INPUT);
    }
}

/* ---- random ---- */

static uint64_t seed = 1;

static int64_t any(int64_t least, int64_t most) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return least + (int64_t)((seed >> 33) % (uint64_t)(most - least + 1));
}

static test random_test(void) {
    test t = {.batch = any(1, 5),
              .channels = any(1, 6),
              .features = any(0, 2) ? any(1, 20) : any(1, 3),
              .feature_groups = 1,
              .batch_groups = 1,
              .spatial = (uint32_t)any(1, AXES),
              .layout = (int)any(0, 2)};
    if (!any(0, 2)) *(any(0, 1) ? &t.feature_groups : &t.batch_groups) = any(2, 4);
    for (uint32_t i = 0; i < t.spatial; i++) {
        int64_t most = t.spatial == 1 ? 60 : t.spatial == 2 ? 14 : 6, window = any(1, most / 2);
        bool plain = any(0, 1);
        t.axis[i].in = any(1, most);
        t.axis[i].window = window;
        t.axis[i].stride = plain ? 1 : any(1, 3);
        t.axis[i].in_gap = plain ? 1 : any(1, 3);
        t.axis[i].window_gap = plain ? 1 : any(1, 3);
        t.axis[i].low = any(plain ? 0 : -1, window);
        t.axis[i].high = any(plain ? 0 : -1, window);
        t.axis[i].reversed = plain ? 0 : any(0, 1);
    }
    return t;
}

static void test_random(void **state) {
    for (int i = 0; i < 300 / STRIDE; i++) {
        test t = random_test();
        check("random", i, &t, i % 4 ? SHOAL_F32 : SHOAL_F64, i % 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
