/* The kernels of each instruction set against the plain build of the same source, over lengths
 * around the vector sizes: bit for bit, but for functions.c, where both are held against the C
 * library's functions in double; and the loop for matrix products against sums in double. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 300 };

static const cpu_kernels *tables[3] = {&cpu_kernels_base};
static int n_tables = 1;

static void find_tables(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) tables[n_tables++] = &cpu_kernels_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        tables[n_tables++] = &cpu_kernels_avx512;
#endif
}

static union {
    float f[3][MOST];
    double d[3][MOST];
    uint8_t bytes[3][MOST * 8];
} in;

static void fill(int type) {
    static const double specials[] = {0.0,    -0.0,  NAN, INFINITY, -INFINITY,
                                      1e-310, 1e-42, -88, 88.8};
    uint32_t random = 1;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < MOST; i++) {
            random = random * 1664525 + 1013904223;
            double value = random % 5 == 0 ? specials[random / 5 % 9] : (int32_t)random * 0x1p-28;
            if (type == CPU_F32)
                in.f[k][i] = (float)value;
            else
                in.d[k][i] = value;
        }
}

static void check(int type, cpu_map_kernel kernel, cpu_map_kernel base, int64_t n,
                  unsigned scalars) {
    static uint8_t is[MOST * 8], must[MOST * 8];
    const void *operands[3];
    for (int k = 0; k < 3; k++)
        operands[k] = type == CPU_F32 ? (const void *)in.f[k] : (const void *)in.d[k];
    memset(is, 0xee, sizeof is);
    memset(must, 0xee, sizeof must);
    kernel(is, operands, n, scalars, NULL);
    base(must, operands, n, scalars, NULL);
    assert_memory_equal(is, must, sizeof is);
}

/* ---- functions.c ---- */

static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x * logistic(x); }
static double gelu(double x) { return x * 0.5 * erfc(-x * sqrt(0.5)); }

/* loose: what the result may be off, in units of 2^-23 of the largest of itself, the least normal
 * number and, for those that cancel, `floor` of its argument. */
static const struct function {
    uint16_t op;
    double (*exact)(double);
    double loose, floor;
} functions[] = {
    {GRAPH_EXPONENTIAL, exp, 2, 0},   {GRAPH_LOG, log, 2, 0},   {GRAPH_TANH, tanh, 3, 0},
    {GRAPH_LOGISTIC, logistic, 4, 0}, {GRAPH_SILU, silu, 5, 0}, {GRAPH_GELU, gelu, 6, 0.5},
};

static const struct function *function_of(int op) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i].op == op) return &functions[i];
    return NULL;
}

static void test_functions(void **state) {
    for (int t = 0; t < n_tables; t++)
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
            const struct function *f = &functions[i];
            float out[MOST];
            fill(CPU_F32);
            for (int64_t n = 0; n < MOST; n += 23) {
                tables[t]->map[f->op][CPU_F32](out, (const void *const[]){in.f[0]}, n, 0,
                                               (const char *)in.f[1]);
                for (int64_t k = 0; k < n; k++) {
                    double x = (double)in.f[0][k], must = f->exact(x), is = (double)out[k];
                    double scale = fmax(fmax(fabs(must), 0x1p-126), f->floor * fabs(x));
                    if (is == must || (isnan(is) && isnan(must)) || (float)must == out[k]) continue;
                    if (isnan(is) || fabs(is - must) > f->loose * scale * 0x1p-23)
                        fail_msg("%s: %s(%g) is %.9g, not %.9g", tables[t]->name,
                                 shoal_op_name(f->op), x, is, must);
                }
            }
        }
}

static void test_maps(void **state) {
    static const int64_t lengths[] = {0, 1, 3, 8, 15, 16, 17, 63, 64, 65, 299};
    for (int t = 1; t < n_tables; t++)
        for (int type = 0; type < CPU_FLOATS; type++) {
            fill(type);
            for (int l = 0; l < 11; l++)
                for (unsigned scalars = 0; scalars < 4; scalars++) {
                    for (int op = 0; op < GRAPH_OP_BUILT_IN; op++)
                        if (tables[t]->map[op][type] && !function_of(op))
                            check(type, tables[t]->map[op][type], tables[0]->map[op][type],
                                  lengths[l], scalars);
                    for (int c = 0; c < 6; c++)
                        check(type, tables[t]->compare[c][type], tables[0]->compare[c][type],
                              lengths[l], scalars);
                }
        }
}

static void test_folds(void **state) {
    for (int t = 1; t < n_tables; t++)
        for (int type = 0; type < CPU_FLOATS; type++)
            for (int op = 0; op < GRAPH_OP_BUILT_IN; op++)
                for (int64_t n = 0; n < MOST && tables[t]->fold[op][type]; n += 7) {
                    double is = 0, must = 0;
                    fill(type);
                    tables[t]->fold[op][type](&is, &in, n);
                    tables[0]->fold[op][type](&must, &in, n);
                    assert_true(!memcmp(&is, &must, sizeof is) || (isnan(is) && isnan(must)) ||
                                type == CPU_F32);
                    float a, b;
                    memcpy(&a, &is, sizeof a);
                    memcpy(&b, &must, sizeof b);
                    if (type == CPU_F32) assert_true(!memcmp(&a, &b, 4) || (isnan(a) && isnan(b)));
                }
}

static void test_matmul(void **state) {
    enum { M = 7, N = 530, K = 70 };
    static float a[M * K], b[K * N], c[M * N];
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 13) - 6;
    for (int i = 0; i < K * N; i++) b[i] = (float)(i % 11) - 5;
    for (int t = 0; t < n_tables; t++)
        for (int transposed = 0; transposed < 2; transposed++) {
            const int64_t as[] = {K, 1}, bs[] = {transposed ? 1 : N, transposed ? K : 1};
            memset(c, 0xff, sizeof c);
            tables[t]->matmul[CPU_F32](M, N, K, a, as, b, bs, c, N);
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++) {
                    double sum = 0; /* small integers: exact in float too */
                    for (int k = 0; k < K; k++)
                        sum += (double)a[m * K + k] * b[k * bs[0] + n * bs[1]];
                    assert_true(sum == c[m * N + n]);
                }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_matmul),
    };
    find_tables();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
