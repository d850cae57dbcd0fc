/* Kernels on plain arrays: wherever their elements lie, results are those of dense arrays; whatever
 * is wrong is told. The values of the operations are compared with NumPy's in test/python. */
#include "shoal/kernels.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/block.h"
#include "graph/graph.h"

enum { ROWS = 5, COLUMNS = 7, ROOM = 4096 };

static void ok(shoal_status status) {
    if (status) fail_msg("%s", shoal_error_message());
}

static void refused(shoal_status status, shoal_status wanted, const char *text) {
    assert_int_equal(status, wanted);
    if (!strstr(shoal_error_message(), text))
        fail_msg("'%s' lacks '%s'", shoal_error_message(), text);
}

static shoal_array matrix(void *data, const int64_t *dims, const int64_t *strides) {
    return (shoal_array){SHOAL_F32, 2, dims, strides, data};
}

/* A 5 x 7 matrix in every way in which it can lie; element (r, c) is at first + r * row + c *
 * column. */
typedef struct lie {
    int64_t row, column, first;
} lie;
static const lie lies[] = {
    {7, 1, 0},   {1, 5, 0},  {-7, 1, 28}, {7, -1, 6},    {-7, -1, 34}, {1, -5, 30}, {9, 1, 3},
    {1, 11, 2},  {14, 2, 0}, {2, 20, 1},  {-9, -1, 100}, {0, 1, 0},    {1, 0, 0},   {0, 0, 3},
    {0, -1, 20}, {1, 1, 0},  {3, 2, 0},   {-1, 0, 10},   {100, 3, 50}, {2, -3, 60}, {7, 1, 1},
};
enum { LIES = sizeof lies / sizeof *lies };

static float at(int64_t r, int64_t c) { return (float)(r * 10 + c) / 16 - 2; }

static void fill(float *room, const lie *l) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLUMNS; c++)
            room[l->first + r * l->row + c * l->column] = at(r, c);
}

static const int64_t dims[] = {ROWS, COLUMNS};

static void test_every_way_to_lie(void **state) {
    static float x[ROOM], y[ROOM];
    for (int i = 0; i < LIES * LIES; i++) {
        const lie *from = &lies[i % LIES], *to = &lies[i / LIES];
        const int64_t in[] = {from->row, from->column}, out[] = {to->row, to->column};
        memset(x, 255, sizeof x);
        memset(y, 255, sizeof y);
        fill(x, from);
        shoal_array a = matrix(x + from->first, dims, in), b = matrix(y + to->first, dims, out);
        shoal_status status = shoal_kernel_silu(&a, &b);
        bool shared = !to->row || !to->column || (to->row == 1 && to->column == 1) ||
                      (to->row == 3 && to->column == 2) || (to->row == 2 && to->column == -3);
        if (shared) {
            refused(status, SHOAL_INVALID, "silu: elements of result 0 have one place");
            continue;
        }
        ok(status);
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t c = 0; c < COLUMNS; c++) {
                float v = x[from->first + r * from->row + c * from->column];
                float *got = &y[to->first + r * to->row + c * to->column];
                assert_true(fabsf(*got - v / (1 + expf(-v))) < 1e-6f);
                memset(got, 255, sizeof *got);
            }
        /* Nothing else was written. */
        for (size_t k = 0; k < sizeof y; k++) assert_int_equal(((unsigned char *)y)[k], 255);
    }
}

static void test_overlaps(void **state) {
    /* A result that is the operand, or lies across it at any distance. */
    for (int64_t shift = -COLUMNS - 2; shift <= COLUMNS + 2; shift++)
        for (int backwards = 0; backwards < 2; backwards++) {
            float x[256] = {0};
            const lie from = {COLUMNS, 1, 100};
            fill(x, &from);
            const int64_t strides[] = {COLUMNS, backwards ? -1 : 1};
            shoal_array a = matrix(x + 100, dims, NULL);
            shoal_array b = matrix(x + 100 + shift + (backwards ? COLUMNS - 1 : 0), dims, strides);
            ok(shoal_kernel_softmax(&a, 1, &b));
            for (int64_t r = 0; r < ROWS; r++) {
                float sum = 0;
                for (int64_t c = 0; c < COLUMNS; c++) sum += expf(at(r, c));
                for (int64_t c = 0; c < COLUMNS; c++) {
                    float got = ((float *)b.data)[r * COLUMNS + c * strides[1]];
                    assert_true(fabsf(got - expf(at(r, c)) / sum) < 1e-6f);
                }
            }
        }
    /* A product over its own operand. */
    float square[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const int64_t three[] = {3, 3};
    shoal_array s = matrix(square, three, NULL);
    ok(shoal_kernel_matmul(&s, &s, &s));
    const float want[] = {30, 36, 42, 66, 81, 96, 102, 126, 150};
    for (int i = 0; i < 9; i++) assert_true(square[i] == want[i]);
}

static void test_no_alignment(void **state) {
    static char bytes[2][sizeof(float) * ROWS * COLUMNS + 3];
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLUMNS; c++) {
            float v = at(r, c);
            memcpy(bytes[0] + 1 + sizeof v * (size_t)(r * COLUMNS + c), &v, sizeof v);
        }
    shoal_array a = matrix(bytes[0] + 1, dims, NULL), b = matrix(bytes[1] + 3, dims, NULL);
    uint16_t abs;
    ok(shoal_op_find("abs", &abs));
    ok(shoal_kernel(abs, &a, 1, NULL, 0, &b, 1));
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        float v;
        memcpy(&v, bytes[1] + 3 + sizeof v * (size_t)i, sizeof v);
        assert_true(v == fabsf(at(i / COLUMNS, i % COLUMNS)));
    }
}

static void test_nothing_and_scalars(void **state) {
    const int64_t none[] = {0, COLUMNS}, inner[] = {3, 0}, other[] = {0, 4}, out[] = {3, 4};
    shoal_array a = matrix(NULL, none, NULL);
    ok(shoal_kernel_rms_norm(&a, NULL, 1, 1e-6, &a));
    float zeros[12];
    memset(zeros, 255, sizeof zeros);
    shoal_array x = matrix(NULL, inner, NULL), y = matrix(NULL, other, NULL);
    shoal_array z = matrix(zeros, out, NULL);
    ok(shoal_kernel_matmul(&x, &y, &z));
    for (int i = 0; i < 12; i++) assert_true(zeros[i] == 0);
    float one = 2, two;
    shoal_array p = {SHOAL_F32, 0, NULL, NULL, &one}, q = {SHOAL_F32, 0, NULL, NULL, &two};
    ok(shoal_kernel_silu(&p, &q));
    assert_true(fabsf(two - 2 / (1 + expf(-2))) < 1e-6f);
}

/* ---- products ---- */

/* Bytes of either kind to int32: large enough for blocks of their own, transposed on one side. */
static void test_matmul_of_bytes(void **state) {
    enum { M = 19, K = 83, N = 37 };
    static uint8_t a[M * K], b[N * K];
    static int32_t c[M * N];
    for (int i = 0; i < M * K; i++) a[i] = (uint8_t)(i * 37);
    for (int i = 0; i < N * K; i++) b[i] = (uint8_t)(i * 91 + 5);
    const int64_t left[] = {M, K}, right[] = {K, N}, turned[] = {1, K}, out[] = {M, N};
    for (int kinds = 0; kinds < 4; kinds++) {
        bool is_signed[] = {kinds & 1, kinds & 2};
        shoal_array x = {is_signed[0] ? SHOAL_I8 : SHOAL_U8, 2, left, NULL, a};
        shoal_array y = {is_signed[1] ? SHOAL_I8 : SHOAL_U8, 2, right, turned, b};
        shoal_array z = {SHOAL_I32, 2, out, NULL, c};
        ok(shoal_kernel_matmul(&x, &y, &z));
        for (int i = 0; i < M * N; i++) {
            int32_t want = 0;
            for (int k = 0; k < K; k++) {
                uint8_t l = a[i / N * K + k], r = b[i % N * K + k];
                want += (is_signed[0] ? (int8_t)l : l) * (is_signed[1] ? (int8_t)r : r);
            }
            assert_int_equal(c[i], want);
        }
    }
    shoal_array x = {SHOAL_I8, 2, left, NULL, a}, y = {SHOAL_I8, 2, right, turned, b};
    shoal_array z = {SHOAL_I16, 2, out, NULL, c};
    refused(shoal_kernel_matmul(&x, &y, &z), SHOAL_INVALID,
            "matmul: the product of int8 and int8 is int8 or int32, not int16");
    y.dtype = SHOAL_U8;
    z.dtype = SHOAL_I8;
    refused(shoal_kernel_matmul(&x, &y, &z), SHOAL_INVALID,
            "matmul: the product of int8 and uint8 is int32, not int8");
}

static void test_matmul_of_batches(void **state) {
    /* [2, 1, 3, 4] @ [5, 4, 2] to [2, 5, 3, 2]; then with vectors on either side. */
    float a[24], b[40], c[60];
    for (int i = 0; i < 24; i++) a[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 40; i++) b[i] = (float)(i % 5) - 2;
    const int64_t left[] = {2, 1, 3, 4}, right[] = {5, 4, 2}, out[] = {2, 5, 3, 2};
    shoal_array x = {SHOAL_F32, 4, left, NULL, a}, y = {SHOAL_F32, 3, right, NULL, b};
    shoal_array z = {SHOAL_F32, 4, out, NULL, c};
    ok(shoal_kernel_matmul(&x, &y, &z));
    for (int i = 0; i < 60; i++) {
        int n = i % 2, m = i / 2 % 3, q = i / 6 % 5, p = i / 30;
        float want = 0;
        for (int k = 0; k < 4; k++) want += a[p * 12 + m * 4 + k] * b[q * 8 + k * 2 + n];
        assert_true(c[i] == want);
    }
    const int64_t row[] = {4}, rows[] = {5, 2}, columns[] = {2, 1, 3};
    shoal_array v = {SHOAL_F32, 1, row, NULL, a}, w = {SHOAL_F32, 1, row, NULL, b};
    shoal_array vy = {SHOAL_F32, 2, rows, NULL, c}, xw = {SHOAL_F32, 3, columns, NULL, c + 10};
    shoal_array vw = {SHOAL_F32, 0, NULL, NULL, c + 20};
    ok(shoal_kernel_matmul(&v, &y, &vy));
    ok(shoal_kernel_matmul(&x, &w, &xw));
    ok(shoal_kernel_matmul(&v, &w, &vw));
    for (int i = 0; i < 10; i++) {
        float want = 0;
        for (int k = 0; k < 4; k++) want += a[k] * b[i / 2 * 8 + k * 2 + i % 2];
        assert_true(c[i] == want);
    }
    for (int i = 0; i < 6; i++) {
        float want = 0;
        for (int k = 0; k < 4; k++) want += a[i * 4 + k] * b[k];
        assert_true(c[10 + i] == want);
    }
    float want = 0;
    for (int k = 0; k < 4; k++) want += a[k] * b[k];
    assert_true(c[20] == want);
}

/* ---- blocks ---- */

static void test_blocks_and_back(void **state) {
    /* The error of a number is at most so much of its block's range. */
    static const struct {
        const char *name;
        float share;
    } formats[] = {
        {"q8_0", 0.005f}, {"q4_0", 0.07f}, {"q4_1", 0.04f}, {"q4_k", 0.05f}, {"q6_k", 0.02f}};
    static float numbers[2 * 512], back[2 * 512];
    uint8_t bytes[2 * 1024];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        uint32_t index;
        ok(shoal_block_format_find(formats[f].name, &index));
        const shoal_block_format *format = shoal_block_format_at(index);
        for (int kind = 0; kind < 4; kind++) { /* all signs, zeros, above zero, tiny */
            for (int i = 0; i < 1024; i++)
                numbers[i] = kind == 1   ? 0
                             : kind == 2 ? 3 + sinf((float)i)
                             : kind == 3 ? 1e-30f * sinf((float)i)
                                         : sinf((float)i * 1.7f) * (1 + (float)(i / 32));
            const int64_t shape[] = {2, 512}, packed[] = {2, 512 / format->values * format->bytes};
            shoal_array x = {SHOAL_F32, 2, shape, NULL, numbers};
            shoal_array q = {SHOAL_U8, 2, packed, NULL, bytes};
            shoal_array y = {SHOAL_F32, 2, shape, NULL, back};
            ok(shoal_kernel_quantize(&x, formats[f].name, &q));
            ok(shoal_kernel_dequantize(&q, formats[f].name, &y));
            for (int i = 0; i < 1024; i++) {
                int first = i / 32 * 32;
                float least = 0, most = 0;
                for (int k = 0; k < 32; k++) {
                    least = fminf(least, numbers[first + k]);
                    most = fmaxf(most, numbers[first + k]);
                }
                float allowed = formats[f].share * (most - least) + 1e-7f;
                if (fabsf(back[i] - numbers[i]) > allowed)
                    fail_msg("%s: %g became %g", formats[f].name, (double)numbers[i],
                             (double)back[i]);
            }
        }
        numbers[700] = INFINITY;
        shoal_array x = {SHOAL_F32, 1, (int64_t[]){1024}, NULL, numbers};
        shoal_array q = {SHOAL_U8, 1, (int64_t[]){1024 / format->values * format->bytes}, NULL,
                         bytes};
        refused(shoal_kernel_quantize(&x, formats[f].name, &q), SHOAL_INVALID,
                "quantize: number 700 is inf");
        numbers[700] = 1e38f;
        refused(shoal_kernel_quantize(&x, formats[f].name, &q), SHOAL_INVALID,
                "too large for the scales");
    }
}

/* Every float16 comes back from the float that it is. */
static void test_halves(void **state) {
    for (uint32_t half = 0; half < 0x7c00; half++) {
        const uint8_t scale[] = {(uint8_t)half, (uint8_t)(half >> 8)};
        float x[32] = {0};
        uint8_t block[20];
        x[0] = base_half_at(scale);
        for (int i = 1; i < 32; i++) x[i] = x[0];
        assert_true(base_block_encoder(BASE_BLOCK_Q4_1)(x, block, 1));
        assert_memory_equal(block + 2, scale, 2); /* its minimum */
    }
}

/* ---- what is wrong ---- */

static void test_errors(void **state) {
    float x[64] = {0}, y[64];
    const int64_t shape[] = {4, 8}, wrong[] = {8, 4}, negative[] = {-1, 8},
                  large[] = {1, INT64_MAX};
    shoal_array a = matrix(x, shape, NULL), b = matrix(y, wrong, NULL), c = a;
    refused(shoal_kernel_silu(&a, &b), SHOAL_INVALID,
            "silu: result 0 is float32[8, 4]; give an array of float32[4, 8]");
    refused(shoal_kernel_softmax(&a, 2, &a), SHOAL_INVALID,
            "softmax: an array of 2 axes has no axis 2");
    refused(shoal_kernel_silu(NULL, &a), SHOAL_INVALID, "silu");
    refused(shoal_kernel_silu(&a, NULL), SHOAL_INVALID, "silu: there is no array for the result");
    refused(shoal_kernel_matmul(&a, &a, &a), SHOAL_INVALID,
            "matmul: the last axis of the first operand (8) must equal axis 0 of the second (4)");
    refused(shoal_kernel_layer_norm(&a, NULL, &a, 1, 1e-5, &a), SHOAL_INVALID,
            "layer_norm: operand 2 needs operand 1");
    c.dims = negative;
    refused(shoal_kernel_silu(&c, &a), SHOAL_INVALID, "silu: operand 0: ");
    c = a;
    c.strides = large;
    refused(shoal_kernel_silu(&c, &a), SHOAL_INVALID, "axis 1 of operand 0 is too large");
    c = a;
    c.rank = 9;
    refused(shoal_kernel_silu(&c, &a), SHOAL_INVALID, "silu: operand 0 has 9 axes");
    c = a;
    c.dtype = (shoal_dtype)77;
    refused(shoal_kernel_silu(&c, &a), SHOAL_INVALID, "the element type 77 of operand 0");
    c.dtype = SHOAL_I32;
    refused(shoal_kernel_silu(&c, &a), SHOAL_INVALID, "silu");
    c = a;
    c.data = NULL;
    refused(shoal_kernel_silu(&c, &a), SHOAL_INVALID, "silu: operand 0 has no data");
    uint16_t reduce, place;
    ok(shoal_op_find("reduce", &reduce));
    ok(shoal_op_find("place", &place));
    refused(shoal_kernel(reduce, &a, 1, NULL, 0, &a, 1), SHOAL_UNSUPPORTED, "bodies");
    refused(shoal_kernel(place, &a, 1, NULL, 0, &a, 1), SHOAL_UNSUPPORTED, "pool");
    refused(shoal_kernel(60000, &a, 1, NULL, 0, &a, 1), SHOAL_INVALID, "no operation 60000");
    refused(shoal_kernel_dequantize(&a, "q9", &a), SHOAL_INVALID, "unknown block format 'q9'");
    refused(shoal_kernel_quantize(&a, "q8_0", &a), SHOAL_INVALID, "whole blocks of 32");
    refused(shoal_kernels_set_threads(5000), SHOAL_INVALID, "5000 threads");
    /* One result too many, and two in one place. */
    uint16_t top_k;
    ok(shoal_op_find("top_k", &top_k));
    const shoal_attr k = graph_int(SHOAL_ATTR_K, 2);
    const int64_t two[] = {4, 2};
    shoal_array values = matrix(y, two, NULL), indices = {SHOAL_I32, 2, two, NULL, y + 4};
    refused(shoal_kernel(top_k, &a, 1, &k, 1, &values, 1), SHOAL_INVALID, "it has 2 results");
    refused(shoal_kernel(top_k, &a, 1, &k, 1, (shoal_array[]){values, indices}, 2), SHOAL_INVALID,
            "results 0 and 1 overlap");
    indices.data = y + 8;
    ok(shoal_kernel(top_k, &a, 1, &k, 1, (shoal_array[]){values, indices}, 2));
}

/* ---- many at once, many kinds, forks ---- */

static void *compute(void *context) {
    for (int64_t n = 1; n < 200; n++) {
        float x[200], y[200];
        for (int64_t i = 0; i < n; i++) x[i] = (float)(i - 50);
        shoal_array a = {SHOAL_F32, 1, &n, NULL, x}, b = {SHOAL_F32, 1, &n, NULL, y};
        if (shoal_kernel_gelu(&a, false, &b)) return "failed";
        for (int64_t i = 0; i < n; i++)
            if (fabsf(y[i] - 0.5f * x[i] * (1 + erff(x[i] / sqrtf(2)))) > 1e-5f) return "wrong";
    }
    return NULL;
}

static void test_threads(void **state) {
    pthread_t threads[4];
    ok(shoal_kernels_set_threads(2));
    assert_int_equal(shoal_kernels_threads(), 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compute, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *said;
        pthread_join(threads[i], &said);
        if (said) fail_msg("%s", (char *)said);
    }
    /* More kinds than are kept. */
    for (int64_t n = 1; n < 600; n++) {
        static float x[600];
        shoal_array a = {SHOAL_F32, 1, &n, NULL, x};
        ok(shoal_kernel_silu(&a, &a));
    }
}

static void test_fork(void **state) {
    assert_null(compute(NULL));
    pid_t child = fork();
    if (!child) _exit(compute(NULL) ? 1 : 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_thread_variable(void **state) {
    setenv("OMP_NUM_THREADS", "3,2", 1);
    ok(shoal_kernels_set_threads(0));
    assert_int_equal(shoal_kernels_threads(), 3);
    assert_null(compute(NULL));
    setenv("OMP_NUM_THREADS", "none", 1);
    ok(shoal_kernels_set_threads(0));
    assert_true(shoal_kernels_threads() > 0);
}

static void test_instructions(void **state) {
    const char *best, *name;
    unsetenv("SHOAL_CPU");
    ok(shoal_kernels_instructions(&best));
    setenv("SHOAL_CPU", "base", 1);
    ok(shoal_kernels_instructions(&name));
    assert_string_equal(name, "base");
    setenv("SHOAL_CPU", best, 1);
    ok(shoal_kernels_instructions(&name));
    assert_string_equal(name, best);
    setenv("SHOAL_CPU", "mmx", 1);
    refused(shoal_kernels_instructions(&name), SHOAL_INVALID, "SHOAL_CPU is 'mmx'");
    unsetenv("SHOAL_CPU");
}

static void test_backends(void **state) {
    float x[] = {-1, 0, 2}, y[3];
    const int64_t n = 3;
    shoal_array a = {SHOAL_F32, 1, &n, NULL, x}, b = {SHOAL_F32, 1, &n, NULL, y};
    refused(shoal_kernels_use("no such"), SHOAL_NOT_FOUND, "no such");
    assert_string_equal(shoal_kernels_used(), "cpu");
    ok(shoal_kernels_use("ref"));
    assert_string_equal(shoal_kernels_used(), "ref");
    ok(shoal_kernel_silu(&a, &b));
    ok(shoal_kernel_silu(&a, &a)); /* in place */
    for (int i = 0; i < 3; i++) assert_true(x[i] == y[i]);
    assert_null(compute(NULL));
    ok(shoal_kernels_use(NULL));
    assert_string_equal(shoal_kernels_used(), "cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_lie),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_no_alignment),
        cmocka_unit_test(test_nothing_and_scalars),
        cmocka_unit_test(test_matmul_of_batches),
        cmocka_unit_test(test_matmul_of_bytes),
        cmocka_unit_test(test_blocks_and_back),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_thread_variable),
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_backends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
