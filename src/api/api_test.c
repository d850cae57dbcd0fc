/* Sessions in this process: operations, layouts, errors, release. Numbers are checked against plain
 * loops here, and against NumPy in test/python. */
#include "api/state.h"

#include "api/testing.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static shoal_tensor *numbers(shoal_session *s, int64_t rows, int64_t columns, float step) {
    float *data = malloc((size_t)(rows * columns + 1) * sizeof *data);
    for (int64_t i = 0; i < rows * columns; i++) data[i] = (float)(i % 23 - 11) * step;
    shoal_tensor *t;
    ok(shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){rows, columns}, data, &t));
    free(data);
    return t;
}

static float *read_all(shoal_tensor *t) {
    size_t bytes = (size_t)base_type_bytes(shoal_tensor_type(t));
    float *data = malloc(bytes + 1);
    ok(shoal_read(t, data, bytes));
    return data;
}

static void check_product(shoal_session *s, int64_t m, int64_t k, int64_t n, const shoal_layout *la,
                          const shoal_layout *lb) {
    shoal_tensor *a = numbers(s, m, k, 0.25f), *b = numbers(s, k, n, 0.5f), *c;
    float *x = read_all(a), *y = read_all(b);
    shoal_tensor *p = NULL, *q = NULL;
    if (la)
        ok(shoal_place(a, la, &p));
    else
        p = shoal_tensor_retain(a);
    if (lb)
        ok(shoal_place(b, lb, &q));
    else
        q = shoal_tensor_retain(b);
    ok(shoal_matmul(p, q, &c));
    float *z = read_all(c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t t = 0; t < k; t++) sum += (double)x[i * k + t] * y[t * n + j];
            if (fabs(sum - z[i * n + j]) > 1e-3)
                fail_msg("%lldx%lldx%lld at %lld, %lld: %g instead of %g", (long long)m,
                         (long long)k, (long long)n, (long long)i, (long long)j,
                         (double)z[i * n + j], sum);
        }
    free(x);
    free(y);
    free(z);
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    shoal_tensor_free(&c);
    shoal_tensor_free(&p);
    shoal_tensor_free(&q);
}

static void test_products(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1}, {7, 5, 3},    {64, 32, 48}, {0, 4, 5},
                                        {5, 0, 4}, {33, 129, 2}, {2, 3, 0},    {300, 70, 41}};
    for (uint32_t workers = 1; workers <= 5; workers++) {
        shoal_session *s = open_pool(workers);
        double weights[5] = {5, 3, 0.5, 2, 1};
        uint32_t rows[2] = {workers, 1}, columns[2] = {1, workers};
        shoal_layout by_rows = {.size = sizeof by_rows, .parts = rows};
        shoal_layout by_columns = {.size = sizeof by_columns, .parts = columns};
        shoal_layout everywhere = {.size = sizeof everywhere};
        double uneven[6] = {0};
        memcpy(uneven, weights, workers * sizeof *weights);
        uneven[workers] = 1;
        shoal_layout uneven_rows = {.size = sizeof by_rows, .parts = rows, .weights = uneven};
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const int64_t *d = shapes[i];
            check_product(s, d[0], d[1], d[2], NULL, NULL);
            check_product(s, d[0], d[1], d[2], &by_rows, NULL);
            check_product(s, d[0], d[1], d[2], &uneven_rows, &everywhere);
            check_product(s, d[0], d[1], d[2], NULL, &by_columns);
            check_product(s, d[0], d[1], d[2], &by_columns, &by_rows); /* the inner dimension */
            check_product(s, d[0], d[1], d[2], &by_rows, &by_columns);
        }
        shoal_session_close(&s);
    }
}

static void test_grid(void **state) {
    (void)state;
    shoal_session *s = open_pool(4);
    uint32_t rows[2] = {2, 1}, columns[2] = {1, 2};
    uint32_t of_a[4], of_b[4];
    shoal_slot slots[8];
    shoal_pool_status pool = {.size = sizeof pool};
    ok(shoal_status_of(s, &pool, slots, 8));
    assert_int_equal(pool.n_slots, 5); /* four devices and the client's memory */
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t c = 0; c < 2; c++) {
            of_a[r * 2 + c] = slots[r * 2 + c].slot;
            of_b[c * 2 + r] = slots[r * 2 + c].slot;
        }
    shoal_layout a = {.size = sizeof a, .parts = rows, .copies = 2, .slots = of_a, .n_slots = 4};
    shoal_layout b = {.size = sizeof b, .parts = columns, .copies = 2, .slots = of_b, .n_slots = 4};
    check_product(s, 37, 19, 23, &a, &b);
    shoal_session_close(&s);
}

static void test_operations(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        shoal_session *s = open_pool(workers);
        shoal_tensor *x = numbers(s, 50, 6, 1), *row, *y, *z, *sum, *t;
        float six[6] = {1, 2, 3, 4, 5, 6};
        ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){6}, six, &row));
        ok(shoal_add(x, row, &y));
        ok(shoal_multiply(y, y, &z));
        ok(shoal_reduce(z, "add", (int64_t[]){-1}, 1, false, &sum));
        ok(shoal_transpose(y, NULL, &t));
        float *xs = read_all(x), *sums = read_all(sum), *ts = read_all(t);
        for (int i = 0; i < 50; i++) {
            float want = 0;
            for (int j = 0; j < 6; j++) {
                float v = xs[i * 6 + j] + six[j];
                want += v * v;
                assert_true(ts[j * 50 + i] == v);
            }
            assert_true(fabsf(want - sums[i]) < 1e-3f);
        }
        shoal_tensor *max, *part, *both;
        ok(shoal_reduce(x, "maximum", NULL, 0, true, &max));
        assert_int_equal(shoal_tensor_type(max)->rank, 2);
        ok(shoal_slice(x, (int64_t[]){1, 2}, (int64_t[]){49, 6}, (int64_t[]){3, 2}, &part));
        ok(shoal_concatenate((shoal_tensor *[]){part, part}, 2, 1, &both));
        float *most = read_all(max), *twice = read_all(both);
        assert_true(most[0] == 11);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 4; j++)
                assert_true(twice[i * 4 + j] == xs[(1 + 3 * i) * 6 + 2 + 2 * (j % 2)]);
        free(xs);
        free(sums);
        free(ts);
        free(most);
        free(twice);
        shoal_tensor *all[] = {x, row, y, z, sum, t, max, part, both};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) shoal_tensor_free(&all[i]);
        shoal_session_close(&s);
    }
}

/* Blocks large enough to be kept for reuse, wanted and given back by every thread there is. */
static void test_large_values(void **state) {
    (void)state;
    shoal_session *s = open_pool(3);
    for (int round = 0; round < 6; round++) {
        shoal_tensor *x = numbers(s, 1500, 1000, 0.5f), *row = NULL, *y, *z;
        uint32_t parts[2] = {3, 1};
        shoal_layout layout = {.size = sizeof layout, .parts = parts};
        ok(shoal_place(x, &layout, &row));
        ok(shoal_add(row, x, &y));
        ok(shoal_transpose(y, NULL, &z));
        float *a = read_all(x), *b = read_all(z);
        for (int i = 0; i < 1500; i += 7)
            for (int j = 0; j < 1000; j += 11) assert_true(b[j * 1500 + i] == 2 * a[i * 1000 + j]);
        free(a);
        free(b);
        shoal_tensor *all[] = {x, row, y, z};
        for (size_t i = 0; i < 4; i++) shoal_tensor_free(&all[i]);
    }
    shoal_session_close(&s);
}

static void test_errors(void **state) {
    (void)state;
    shoal_session *s = open_pool(1);
    shoal_tensor *a = numbers(s, 3, 4, 1), *b = numbers(s, 3, 4, 1), *c = NULL;
    says(shoal_matmul(a, b, &c), SHOAL_INVALID, "float32[3, 4] @ float32[3, 4]");
    assert_null(c);
    shoal_tensor *d;
    ok(shoal_convert(a, SHOAL_I32, &d));
    says(shoal_add(a, d, &c), SHOAL_INVALID, "int32[3, 4]");
    says(shoal_reshape(a, 1, (int64_t[]){13}, &c), SHOAL_INVALID, "reshape");
    says(shoal_reduce(a, "add", (int64_t[]){2}, 1, false, &c), SHOAL_INVALID, "no axis 2");
    float few[2];
    says(shoal_read(a, few, sizeof few), SHOAL_INVALID, "48 bytes");
    uint32_t parts[2] = {3, 1};
    shoal_layout layout = {.size = sizeof layout, .parts = parts};
    says(shoal_place(a, &layout, &c), SHOAL_INVALID, "3 parts");
    says(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){-1}, few, &c), SHOAL_INVALID, "negative");
    /* Everything goes on after errors. */
    ok(shoal_add(a, b, &c));
    float *sum = read_all(c);
    assert_true(sum[0] == -22);
    free(sum);
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    shoal_tensor_free(&c);
    shoal_tensor_free(&d);
    shoal_session_close(&s);

    shoal_options options = {.size = sizeof options, .hub = "shm:nobody-is-here"};
    says(shoal_session_open(&options, &s), SHOAL_NOT_FOUND, "nobody-is-here");
    assert_null(s);
    options = (shoal_options){.size = sizeof options, .hub = "embedded", .backend = "quantum"};
    says(shoal_session_open(&options, &s), SHOAL_NOT_FOUND, "quantum");
}

static void test_long_chains(void **state) {
    (void)state;
    shoal_session *s = open_pool(2);
    shoal_tensor *x = numbers(s, 10, 10, 1), *one = NULL;
    float v = 1;
    ok(shoal_full(s, SHOAL_F32, 2, (int64_t[]){10, 10}, &v, &one));
    for (int i = 0; i < 10000; i++) {
        shoal_tensor *next;
        ok(shoal_add(x, one, &next));
        shoal_tensor_free(&x);
        x = next;
    }
    float *data = read_all(x);
    assert_true(data[0] == 10000 - 11);
    free(data);
    shoal_tensor_free(&x);
    shoal_tensor_free(&one);
    ok(shoal_sync(s));
    shoal_pool_status pool = {.size = sizeof pool};
    ok(shoal_status_of(s, &pool, NULL, 0));
    assert_true(pool.values <= 2);
    shoal_session_close(&s);
}

static void test_handles_outlive_sessions(void **state) {
    (void)state;
    shoal_session *s = open_pool(1);
    shoal_tensor *a = numbers(s, 2, 2, 1), *b;
    ok(shoal_add(a, a, &b));
    shoal_session_close(&s);
    float data[4];
    says(shoal_read(b, data, sizeof data), SHOAL_CLOSED, "closed");
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
}

/* By name, each but once, and weighed by what is measured. */
static void test_slots(void **state) {
    (void)state;
    shoal_session *s = open_pool(3);
    uint32_t slots[4] = {0};
    double weights[3] = {0};
    ok(shoal_slots_find(s, (const char *const[]){"/cpu", "2", "/cpu"}, 3, slots));
    assert_int_equal(slots[0], 0);
    assert_int_equal(slots[1], 2);
    assert_int_equal(slots[2], 1);
    says(shoal_slots_find(s, (const char *const[]){"/cpu", "/cpu", "/cpu", "/cpu"}, 4, slots),
         SHOAL_NOT_FOUND, "no slot '/cpu' is left in the pool");
    says(shoal_slots_find(s, (const char *const[]){"3"}, 1, slots), SHOAL_NOT_FOUND,
         "no slot '3' is in the pool"); /* that is this process's memory */
    ok(shoal_slots_find(s, NULL, 0, slots));
    ok(shoal_slots_weigh(s, SHOAL_F32, (uint32_t[]){2, 0}, 2, weights));
    for (int i = 0; i < 2; i++) assert_true(weights[i] > 1e6);
    ok(shoal_slots_weigh(s, SHOAL_I8, (uint32_t[]){1}, 1, weights));
    says(shoal_slots_weigh(s, SHOAL_F32, (uint32_t[]){3}, 1, weights), SHOAL_NOT_FOUND,
         "slot 3 is none that computes");
    says(shoal_slots_weigh(s, (shoal_dtype)99, slots, 1, weights), SHOAL_INVALID,
         "there is no element type 99");
    shoal_session_close(&s);
}

static void test_explain(void **state) {
    (void)state;
    shoal_session *s = open_pool(2);
    shoal_tensor *a = numbers(s, 600, 700, 1), *b = numbers(s, 700, 500, 1), *c;
    ok(shoal_matmul(a, b, &c));
    char *text, *json;
    ok(shoal_explain(c, false, &text));
    assert_non_null(strstr(text, "dot_general"));
    ok(shoal_explain(c, true, &json));
    assert_int_equal(json[0], '{');
    free(text);
    free(json);
    float *data = read_all(c);
    free(data);
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    shoal_tensor_free(&c);
    shoal_session_close(&s);
}

/* Numbers are inputs: a step that repeats with others is the program that the hub knows. */
static void test_numbers_are_inputs(void **state) {
    shoal_session *s = open_pool(3);
    shoal_tensor *x = numbers(s, 7, 5, 1);
    size_t programs = 0;
    for (int step = 0; step < 5; step++) {
        float rate = 0.5f * (float)(step + 1);
        shoal_tensor *scalar, *y;
        ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &rate, &scalar));
        ok(shoal_multiply(x, scalar, &y));
        shoal_tensor_free(&scalar);
        float *got = read_all(y);
        for (int i = 0; i < 35; i++) assert_float_equal(got[i], (float)(i % 23 - 11) * rate, 0);
        free(got);
        shoal_tensor_free(&y);
        if (step == 1) programs = s->programs.count; /* the first also moved x to the workers */
    }
    assert_int_equal(s->programs.count, programs);
    shoal_tensor_free(&x);
    shoal_session_close(&s);
}

/* A small value lies on every device, and is read, placed and used again like any other. */
static void test_small_values(void **state) {
    shoal_session *s = open_pool(3);
    shoal_tensor *x = numbers(s, 3, 4, 1), *placed, *sum;
    float *got = read_all(x);
    for (int i = 0; i < 12; i++) assert_float_equal(got[i], (float)(i % 23 - 11), 0);
    free(got);
    const shoal_layout rows = {.size = sizeof rows, .parts = (uint32_t[]){3, 1}};
    ok(shoal_place(x, &rows, &placed));
    ok(shoal_add(placed, x, &sum));
    got = read_all(sum);
    for (int i = 0; i < 12; i++) assert_float_equal(got[i], 2 * (float)(i % 23 - 11), 0);
    free(got);
    shoal_tensor_free(&x);
    shoal_tensor_free(&placed);
    shoal_tensor_free(&sum);
    shoal_session_close(&s);
}

/* What a program that binds hands on as it lies in the client's memory is bound to no slot that
 * computes, and is computed with like any other. */
static void test_handed_on_beside_bound(void **state) {
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        shoal_session *s = open_pool(workers);
        shoal_tensor *x = numbers(s, 40, 40, 1), *y = numbers(s, 40, 40, 1), *placed, *same, *sum;
        const uint32_t slot = 0;
        const shoal_layout here = {
            .size = sizeof here, .slots = &slot, .n_slots = 1, .bound = true};
        ok(shoal_place(y, &here, &placed));
        ok(shoal_minimum(x, x, &same));
        ok(shoal_start(same));
        ok(shoal_add(same, same, &sum));
        float *got = read_all(sum);
        for (int i = 0; i < 1600; i++) assert_float_equal(got[i], 2 * (float)(i % 23 - 11), 0);
        free(got);
        shoal_tensor *all[] = {x, y, placed, same, sum};
        for (size_t i = 0; i < 5; i++) shoal_tensor_free(&all[i]);
        shoal_session_close(&s);
    }
}

static shoal_tensor *integers(shoal_session *s, uint32_t rank, const int64_t *dims,
                              const int64_t *data) {
    shoal_tensor *t;
    ok(shoal_tensor_new(s, SHOAL_I64, rank, dims, data, &t));
    return t;
}

static void check(shoal_tensor **t, const float *want) {
    float *got = read_all(*t);
    int64_t count;
    ok(base_type_elements(shoal_tensor_type(*t), &count));
    for (int64_t i = 0; i < count; i++) assert_float_equal(got[i], want[i], 0);
    free(got);
    shoal_tensor_free(t);
}

static void test_scatter(void **state) {
    (void)state;
    shoal_session *s = open_pool(2);
    float zeros[6] = {0}, values[] = {1, 2, 3, 4, 5, 6};
    shoal_tensor *x, *updates, *rows, *out;
    ok(shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){2, 3}, zeros, &x));
    ok(shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){2, 3}, values, &updates));
    /* Along an axis: each update at its own index; those outside are left out. */
    shoal_tensor *at = integers(s, 2, (int64_t[]){2, 3}, (int64_t[]){2, 2, 0, 1, 1, 7});
    ok(shoal_scatter_along(x, at, updates, 1, "add", &out));
    check(&out, (float[]){3, 0, 3, 0, 9, 0});
    ok(shoal_scatter_along(x, at, updates, -1, "set", &out));
    check(&out, (float[]){3, 0, 2, 0, 5, 0});
    says(shoal_scatter_along(x, at, updates, 2, "add", &out), SHOAL_INVALID,
         "scatter_along: float32[2, 3] has no axis 2");
    says(shoal_scatter_along(x, at, updates, 0, "divide", &out), SHOAL_INVALID,
         "'divide' joins nothing");
    shoal_tensor_free(&at);
    /* At points. */
    int64_t both[] = {1, 0}, column = 1;
    at = integers(s, 2, (int64_t[]){3, 2}, (int64_t[]){0, 1, 2, 0, 2, 0});
    ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){3}, values, &rows));
    ok(shoal_scatter_points(x, both, 2, at, rows, "add", &out));
    check(&out, (float[]){0, 0, 5, 1, 0, 0});
    shoal_tensor_free(&rows);
    says(shoal_scatter_points(x, both, 1, at, updates, "add", &out), SHOAL_INVALID,
         "their last axis must be as long as there are axes, 1");
    says(shoal_scatter_points(x, (int64_t[]){1, -1}, 2, at, updates, "add", &out), SHOAL_INVALID,
         "axis -1 is named twice");
    shoal_tensor_free(&at);
    at = integers(s, 2, (int64_t[]){1, 1}, (int64_t[]){2});
    ok(shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){1, 2}, values, &rows));
    ok(shoal_scatter_points(x, &column, 1, at, rows, "set", &out));
    check(&out, (float[]){0, 0, 1, 0, 0, 2});
    shoal_tensor_free(&rows);
    shoal_tensor_free(&at);
    shoal_tensor_free(&x);
    shoal_tensor_free(&updates);
    shoal_session_close(&s);
}

static void test_windows(void **state) {
    (void)state;
    shoal_session *s = open_pool(2);
    float data[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, ones[4] = {1, 0, 0, 1};
    shoal_tensor *x, *k, *out;
    ok(shoal_tensor_new(s, SHOAL_F32, 4, (int64_t[]){1, 1, 3, 3}, data, &x));
    ok(shoal_tensor_new(s, SHOAL_F32, 4, (int64_t[]){1, 1, 2, 2}, ones, &k));
    ok(shoal_convolve(x, k, NULL, NULL, NULL, 1, &out));
    check(&out, (float[]){6, 8, 12, 14});
    ok(shoal_convolve(x, k, (int64_t[]){2, 2}, (int64_t[]){1, 0, 1, 0}, NULL, 1, &out));
    check(&out, (float[]){1, 3, 7, 14});
    const int64_t two[] = {2, 2};
    ok(shoal_reduce_window(x, "maximum", 2, two, NULL, NULL, NULL, &out));
    check(&out, (float[]){5, 6, 8, 9});
    ok(shoal_reduce_window(x, "add", 2, two, two, (int64_t[]){0, 1, 0, 1}, NULL, &out));
    check(&out, (float[]){12, 9, 15, 9});
    says(shoal_reduce_window(x, "add", 5, two, NULL, NULL, NULL, &out), SHOAL_INVALID,
         "reduce_window: float32[1, 1, 3, 3] has no 5 axes");
    says(shoal_reduce_window(x, "divide", 2, two, NULL, NULL, NULL, &out), SHOAL_INVALID,
         "joins nothing");
    shoal_tensor_free(&k);
    ok(shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){2, 2}, ones, &k));
    says(shoal_convolve(x, k, NULL, NULL, NULL, 1, &out), SHOAL_INVALID,
         "convolve: float32[1, 1, 3, 3] and kernels of rank 2");
    shoal_tensor_free(&k);
    shoal_tensor_free(&x);
    shoal_session_close(&s);
}

/* A condition that broadcasts to more axes than what it chooses from. */
static void test_select_by_a_wider_condition(void **state) {
    (void)state;
    shoal_session *s = open_pool(1);
    const unsigned char rows[] = {1, 0};
    const float values[] = {1, 2, 3};
    shoal_tensor *condition, *yes, *no, *out;
    ok(shoal_tensor_new(s, SHOAL_BOOL, 2, (int64_t[]){2, 1}, rows, &condition));
    ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){3}, values, &yes));
    ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &values[1], &no));
    ok(shoal_select(condition, yes, no, &out));
    check(&out, (float[]){1, 2, 3, 2, 2, 2});
    shoal_tensor_free(&condition);
    shoal_tensor_free(&yes);
    shoal_tensor_free(&no);
    shoal_session_close(&s);
}

static void test_counts(void **state) {
    (void)state;
    shoal_session *s = open_pool(1);
    shoal_tensor *x = numbers(s, 4, 4, 1);
    shoal_counts before = {.size = sizeof before}, after = before;
    for (int i = 0; i < 6; i++) {
        if (i == 2) shoal_session_counts(s, &before);
        shoal_tensor *y;
        ok(shoal_multiply(x, x, &y));
        free(read_all(y));
        shoal_tensor_free(&y);
    }
    shoal_session_counts(s, &after);
    assert_int_equal(after.programs - before.programs, 4);
    assert_int_equal(after.fresh, before.fresh);
    assert_true(after.fresh > 0 && after.fresh < after.programs);
    shoal_tensor_free(&x);
    shoal_session_close(&s);
}

/* A file that is cut off while it is open: what is asked of it then is an error, in all pools. */
static void test_file_that_is_cut_off(void **state) {
    (void)state;
    enum { COUNT = 1 << 20 };
    char path[] = "/tmp/shoal-api-test-XXXXXX";
    float *data = calloc(COUNT, sizeof *data), few[16] = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0 && data);
    close(fd);
    for (uint32_t workers = 1; workers <= 2; workers++) {
        ok(shoal_npy_write(path, SHOAL_F32, 1, (int64_t[]){COUNT}, data));
        shoal_session *s = open_pool(workers);
        shoal_tensor *borrowed, *other, *sum, *small;
        shoal_file *file;
        ok(shoal_file_open(path, &file));
        ok(shoal_file_borrow(file, 0, s, &borrowed));
        ok(shoal_file_read(file, 0, 0, COUNT, data));
        assert_int_equal(truncate(path, 512), 0);
        const char *why = "was written to after it was opened (4194432 bytes then, 512 now)";
        says(shoal_file_read(file, 0, 0, COUNT, data), SHOAL_IO, why);
        says(shoal_file_read(file, 0, COUNT - 16, 16, few), SHOAL_IO, why);
        says(shoal_file_borrow(file, 0, s, &other), SHOAL_IO, why);
        assert_null(other);
        ok(shoal_add(borrowed, borrowed, &sum));
        says(shoal_read(sum, data, COUNT * sizeof *data), SHOAL_IO, why);
        says(shoal_read(borrowed, data, COUNT * sizeof *data), SHOAL_IO, why);
        shoal_tensor_free(&sum);
        shoal_tensor_free(&borrowed);
        shoal_file_close(&file);
        /* What goes with messages does not look at the file again. */
        ok(shoal_npy_write(path, SHOAL_F32, 1, (int64_t[]){16}, few));
        ok(shoal_file_open(path, &file));
        ok(shoal_file_borrow(file, 0, s, &small));
        assert_int_equal(truncate(path, 10), 0);
        ok(shoal_add(small, small, &sum));
        ok(shoal_read(sum, few, sizeof few));
        assert_true(few[0] == 0);
        shoal_tensor_free(&sum);
        shoal_tensor_free(&small);
        shoal_file_close(&file);
        shoal_session_close(&s);
    }
    unlink(path);
    free(data);
}

/* Boxes of a file's matrix are what slices of it are, in a pool of one and of two. */
static void test_boxes_of_files(void **state) {
    (void)state;
    enum { ROWS = 7, COLUMNS = 5 };
    static const int64_t boxes[][4] = {{0, 0, 7, 5}, {2, 0, 6, 5}, {0, 1, 7, 4},
                                       {3, 2, 5, 3}, {6, 4, 7, 5}, {3, 0, 3, 5}};
    float matrix[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) matrix[i] = (float)i;
    char path[] = "/tmp/shoal-api-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    ok(shoal_npy_write(path, SHOAL_F32, 2, (int64_t[]){ROWS, COLUMNS}, matrix));
    shoal_file *file;
    shoal_file_tensor info;
    ok(shoal_file_open(path, &file));
    ok(shoal_file_tensor_at(file, 0, &info));
    assert_true(info.direct);
    for (uint32_t workers = 1; workers <= 2; workers++) {
        shoal_session *s = open_pool(workers);
        for (size_t b = 0; b < sizeof boxes / sizeof *boxes; b++) {
            const int64_t *start = boxes[b], *limit = boxes[b] + 2;
            float plain[ROWS * COLUMNS], sum[ROWS * COLUMNS];
            int64_t rows = limit[0] - start[0], columns = limit[1] - start[1];
            shoal_tensor *box, *twice;
            ok(shoal_file_load_box(file, 0, start, limit, s, &box));
            ok(shoal_add(box, box, &twice));
            ok(shoal_read(box, plain, (size_t)(rows * columns) * sizeof *plain));
            ok(shoal_read(twice, sum, (size_t)(rows * columns) * sizeof *sum));
            for (int64_t i = 0; i < rows * columns; i++) {
                int64_t row = start[0] + i / columns, column = start[1] + i % columns;
                assert_true(plain[i] == matrix[row * COLUMNS + column]);
                assert_true(sum[i] == 2 * plain[i]);
            }
            shoal_tensor_free(&twice);
            shoal_tensor_free(&box);
        }
        shoal_tensor *none;
        says(shoal_file_load_box(file, 0, (int64_t[]){0, 0}, (int64_t[]){7, 6}, s, &none),
             SHOAL_INVALID, "elements 0 to 6 along axis 1 of '', which has 5");
        assert_null(none);
        says(shoal_file_load_box(file, 0, (int64_t[]){4, 0}, (int64_t[]){3, 5}, s, &none),
             SHOAL_INVALID, "elements 4 to 3 along axis 0");
        says(shoal_file_load_box(file, 0, (int64_t[]){-1, 0}, (int64_t[]){3, 5}, s, &none),
             SHOAL_INVALID, "elements -1 to 3 along axis 0");
        shoal_session_close(&s);
    }
    shoal_file_close(&file);
    unlink(path);
}

/* Several reads at once, each of which ends when it is asked to, in any order. */
static void test_reads_in_halves(void **state) {
    (void)state;
    enum { COUNT = 1 << 18, READS = 12 };
    static float in[COUNT], out[READS][COUNT];
    for (int i = 0; i < COUNT; i++) in[i] = (float)(i % 1000);
    for (uint32_t workers = 1; workers <= 3; workers++) {
        shoal_session *s = open_pool(workers);
        shoal_reading *readings[READS], *none = NULL;
        shoal_tensor *x, *y[READS];
        ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){COUNT}, in, &x));
        for (int r = 0; r < READS; r++) {
            ok(shoal_add(r ? y[r - 1] : x, x, &y[r])); /* each waits for the one before */
            ok(shoal_read_begin(y[r], out[r], sizeof out[r], &readings[r]));
        }
        for (int r = 0; r < READS; r++) shoal_tensor_free(&y[r]);
        shoal_tensor_free(&x);
        for (int k = 0; k < READS; k++) {
            int r = k * 5 % READS;
            ok(shoal_read_end(&readings[r]));
            assert_null(readings[r]);
            for (int i = 0; i < COUNT; i += 997) assert_true(out[r][i] == (float)(r + 2) * in[i]);
        }
        says(shoal_read_end(&none), SHOAL_INVALID, "none has begun");
        ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){COUNT}, in, &x));
        says(shoal_read_begin(x, out[0], 4, &none), SHOAL_INVALID, "room for 4 was given");
        assert_null(none);
        ok(shoal_add(x, x, &y[0]));
        ok(shoal_read_begin(y[0], out[0], sizeof out[0], &none));
        shoal_session_close(&s);
        /* What had come before the session closed is there, all of it. */
        shoal_status status = shoal_read_end(&none);
        if (status != SHOAL_OK) assert_int_equal(status, SHOAL_CLOSED);
        for (int i = 0; i < COUNT && status == SHOAL_OK; i++) assert_true(out[0][i] == 2 * in[i]);
        shoal_tensor_free(&y[0]);
        shoal_tensor_free(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_that_is_cut_off),
        cmocka_unit_test(test_reads_in_halves),
        cmocka_unit_test(test_boxes_of_files),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_select_by_a_wider_condition),
        cmocka_unit_test(test_numbers_are_inputs),
        cmocka_unit_test(test_small_values),
        cmocka_unit_test(test_handed_on_beside_bound),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_long_chains),
        cmocka_unit_test(test_handles_outlive_sessions),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_large_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
