/* The kernels of each instruction set against the plain build of the same source, over lengths
 * around the vector sizes: bit for bit, but for functions.c, where both are held against the C
 * library's functions in double; and the loops for matrix products against plain sums. */
#include "base/testing.h"
#include "backend/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 300 };

static const cpu_kernels *tables[CPU_MOST_SETS]; /* the first is the plain one */
static int n_tables;

static uint8_t in[3][MOST * 8]; /* three operands of any type */

static void set(uint8_t dtype, int k, int i, double value) {
    float single = (float)value;
    const void *from = dtype == SHOAL_F64 ? (const void *)&value : (const void *)&single;
    size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
    uint16_t half = dtype == SHOAL_F16 ? ref_to_half(value) : ref_to_bfloat(value);
    memcpy(in[k] + (size_t)i * bytes, bytes == 2 ? &half : from, bytes);
}

/* Numbers with special ones among them; integers of all sizes. */
static void fill(uint8_t dtype) {
    static const double specials[] = {0.0,    -0.0,  NAN, INFINITY, -INFINITY,
                                      1e-310, 1e-42, -88, 88.8};
    size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
    uint64_t random = 1;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < MOST; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t word = random >> 33, all = word % 3 ? random : word % 7 - 3;
            if (word % 11 == 0) all = UINT64_C(1) << (8 * bytes - 1); /* the least of signed ones */
            double value = word % 5 == 0 ? specials[word / 5 % 9] : (int32_t)(word << 1) * 0x1p-28;
            if (shoal_dtype_kind((shoal_dtype)dtype) == 'f')
                set(dtype, k, i, value);
            else if (dtype == SHOAL_BOOL)
                in[k][i] = word % 3 == 0;
            else
                memcpy(in[k] + (size_t)i * bytes, &all, bytes);
        }
}

static void check(cpu_map_kernel kernel, cpu_map_kernel base, int64_t n, unsigned scalars,
                  const char *what, uint8_t dtype) {
    static uint8_t is[MOST * 8], must[MOST * 8];
    memset(is, 0xee, sizeof is);
    memset(must, 0xee, sizeof must);
    kernel(is, (const void *const[]){in[0], in[1], in[2]}, n, scalars, NULL);
    base(must, (const void *const[]){in[0], in[1], in[2]}, n, scalars, NULL);
    if (memcmp(is, must, sizeof is))
        fail_msg("%s of %s, %d elements, scalars %u", what, shoal_dtype_name((shoal_dtype)dtype),
                 (int)n, scalars);
}

/* ---- functions.c ---- */

static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x * logistic(x); }
static double gelu(double x) { return x * 0.5 * erfc(-x * sqrt(0.5)); }
static double half_power(double x) { return pow(x, 2.5); }
static double angle(double x) { return atan2(x, 2.5); }
static double silu_slope(double x) { return logistic(x) * (1 + x * (1 - logistic(x))); }
static double gelu_slope(double x) {
    return 0.5 * erfc(-x * sqrt(0.5)) + x * exp(-x * x / 2) * 0.3989422804014327;
}

/* loose: what the result may be off, in units of 2^-23 of the largest of itself, the least normal
 * number and, for those that cancel, `floor` of its argument. */
static const struct function {
    uint16_t op;
    double (*exact)(double);
    double loose, floor;
} functions[] = {
    {GRAPH_EXPONENTIAL, exp, 2, 0},
    {GRAPH_LOG, log, 2, 0},
    {GRAPH_TANH, tanh, 3, 0},
    {GRAPH_LOGISTIC, logistic, 4, 0},
    {GRAPH_SILU, silu, 5, 0},
    {GRAPH_GELU, gelu, 6, 0.5},
    {GRAPH_ERF, erf, 3, 0},
    {GRAPH_SINE, sin, 2, 0},
    {GRAPH_COSINE, cos, 2, 0},
    {GRAPH_TAN, tan, 4, 0},
    {GRAPH_EXPONENTIAL_MINUS_ONE, expm1, 3, 0},
    {GRAPH_LOG_PLUS_ONE, log1p, 3, 0},
    {GRAPH_CBRT, cbrt, 1, 0},
    {GRAPH_ATAN2, angle, 3, 0},
    {GRAPH_POWER, half_power, 2, 0},
    {GRAPH_SILU_GRADIENT, silu_slope, 9, 0.5},
    {GRAPH_GELU_GRADIENT, gelu_slope, 9, 0.5},
};

static const struct function *function_of(int op) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i].op == op) return &functions[i];
    return NULL;
}

static void test_function(const cpu_kernels *table, const struct function *f, uint8_t dtype) {
    bool wide = dtype == SHOAL_F64;
    cpu_map_kernel kernel = table->maps[0]->map[f->op][dtype];
    static double out[MOST];
    const double y = 2.5, unit = wide ? 0x1p-52 : 0x1p-23, least = wide ? 0x1p-1022 : 0x1p-126;
    const float single = 2.5f, one = 1;
    const void *exponent = wide ? (const void *)&y : (const void *)&single;
    bool slope = f->op == GRAPH_SILU_GRADIENT || f->op == GRAPH_GELU_GRADIENT;
    const void *operands[] = {slope ? (const void *)&one : in[0], slope ? in[0] : exponent};
    unsigned scalars = slope ? 1 : f->op == GRAPH_POWER || f->op == GRAPH_ATAN2 ? 2 : 0;
    if (!kernel) return;
    fill(dtype);
    for (int i = 0; i < 60; i++) set(dtype, 0, 5 * i, i < 40 ? (i - 20) * 4.17 : (i - 50) * 1e4);
    for (int64_t n = 0; n < MOST; n += 23) {
        kernel(out, operands, n, scalars, NULL);
        for (int64_t k = 0; k < n; k++) {
            double x = wide ? ((double *)(void *)in[0])[k] : (double)((float *)(void *)in[0])[k];
            double is = wide ? out[k] : (double)((float *)(void *)out)[k], must = f->exact(x);
            double scale = fmax(fmax(fabs(must), least), f->floor * fabs(x));
            if (is == must || (isnan(is) && isnan(must))) continue;
            if (!wide && (double)(float)must == is) continue;
            if (isnan(is) || !(fabs(is - must) <= f->loose * scale * unit))
                fail_msg("%s: %s(%.17g) is %.17g, not %.17g", table->name, shoal_op_name(f->op), x,
                         is, must);
        }
    }
}

static void test_functions(void **state) {
    for (int t = 0; t < n_tables; t++)
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
            test_function(tables[t], &functions[i], SHOAL_F32);
            test_function(tables[t], &functions[i], SHOAL_F64);
        }
}

/* ---- the others ---- */

static void test_maps(void **state) {
    static const int64_t lengths[] = {0, 1, 3, 8, 15, 16, 17, 63, 64, 65, 299};
    int checked = 0;
    for (int t = 1; t < n_tables; t++)
        for (uint8_t dtype = 0; dtype < SHOAL_DTYPE_COUNT; dtype++) {
            fill(dtype);
            for (int l = 0; l < 11 * 8 * CPU_MAPS; l++) {
                int64_t n = lengths[l % 11];
                unsigned scalars = (unsigned)l / 11 % 8;
                const cpu_maps *maps = tables[t]->maps[l / 88], *base = tables[0]->maps[l / 88];
                for (int op = 0; op < GRAPH_OP_BUILT_IN; op++) {
                    cpu_map_kernel kernel = maps->map[op][dtype];
                    /* Select's predicate is bool, which the other operands' bytes serve as. */
                    if (!kernel || function_of(op)) continue;
                    check(kernel, base->map[op][dtype], n, scalars, shoal_op_name((uint16_t)op),
                          dtype);
                    checked++;
                }
                for (int c = 0; c < 6; c++)
                    if (maps->compare[c][dtype])
                        check(maps->compare[c][dtype], base->compare[c][dtype], n, scalars,
                              "compare", dtype);
            }
        }
    assert_true(n_tables == 1 || checked > 1000);
}

static void test_converts(void **state) {
    for (int t = 1; t < n_tables; t++)
        for (uint8_t from = 0; from < SHOAL_DTYPE_COUNT; from++) {
            fill(from);
            for (uint8_t to = 0; to < SHOAL_DTYPE_COUNT; to++)
                for (int64_t n = 0; n < 40 && tables[t]->convert[from][to]; n++)
                    check(tables[t]->convert[from][to], tables[0]->convert[from][to], n, 0,
                          shoal_dtype_name((shoal_dtype)to), from);
        }
}

/* Every float16 and bfloat16 there is, there and back. */
static void test_halves(void **state) {
    static const uint8_t types[] = {SHOAL_F16, SHOAL_BF16};
    static uint16_t all[65536], back[65536];
    static float wide[65536];
    for (uint32_t i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    for (int t = 0; t < n_tables; t++)
        for (int k = 0; k < 2; k++) {
            const cpu_map_kernel(*convert)[SHOAL_DTYPE_COUNT] = tables[t]->convert;
            convert[types[k]][SHOAL_F32](wide, (const void *const[]){all}, 65536, 0, NULL);
            for (uint32_t i = 0; i < 65536; i++) {
                float must = k ? ref_from_bfloat(all[i]) : ref_from_half(all[i]);
                assert_true(must == wide[i] || (isnan(must) && isnan(wide[i])));
                /* Between two neighbours, to one side or on the tie. */
                wide[i] +=
                    (float)((int)(i % 5) - 2) * 0.25f * fabsf(wide[i]) * (k ? 0x1p-7f : 0x1p-10f);
            }
            convert[SHOAL_F32][types[k]](back, (const void *const[]){wide}, 65536, 0, NULL);
            for (uint32_t i = 0; i < 65536; i++) {
                uint16_t must = k ? ref_to_bfloat((double)wide[i]) : ref_to_half((double)wide[i]);
                if (back[i] != must && !isnan(wide[i]))
                    fail_msg("%s: %a is %04x, not %04x", tables[t]->name, (double)wide[i], back[i],
                             must);
            }
        }
}

/* Which of two NaN a sum is, compilers choose. */
static void check_same(const char *is, const char *must, uint8_t dtype) {
    double a = 0, b = 0;
    if (dtype == SHOAL_F32) a = (double)*(const float *)is, b = (double)*(const float *)must;
    if (dtype == SHOAL_F64) a = *(const double *)is, b = *(const double *)must;
    if (!isnan(a) || !isnan(b)) assert_memory_equal(is, must, shoal_dtype_size((shoal_dtype)dtype));
}

/* All sets agree bit for bit, and calls over whole blocks with one call over all. */
static void test_folds(void **state) {
    static _Alignas(8) char x[1300 * 8];
    for (int t = 0; t < n_tables; t++)
        for (uint8_t dtype = 0; dtype < SHOAL_DTYPE_COUNT; dtype++)
            for (int op = 0; op < GRAPH_OP_BUILT_IN; op++) {
                cpu_fold_kernel fold = tables[t]->fold[op][dtype],
                                base = tables[0]->fold[op][dtype];
                size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
                bool half = dtype == SHOAL_F16 || dtype == SHOAL_BF16;
                uint8_t to = half ? SHOAL_F32 : dtype;
                size_t to_bytes = shoal_dtype_size((shoal_dtype)to);
                fill(dtype);
                for (size_t i = 0; i < 1300; i++)
                    memcpy(x + i * bytes, in[0] + i % MOST * bytes, bytes);
                for (int64_t n = 1; n < 1300 && fold; n += n < 70 ? 1 : 61) {
                    char is[8] = {0}, must[8] = {0}, parts[8] = {0};
                    fold(is, x, 1, n, false);
                    base(must, x, 1, n, false);
                    for (int64_t at = 0; at < n; at += CPU_FOLD_BLOCK)
                        fold(parts, x + (size_t)at * bytes, 1,
                             n - at < CPU_FOLD_BLOCK ? n - at : CPU_FOLD_BLOCK, at > 0);
                    assert_memory_equal(is, parts, 8);
                    for (int64_t rows = 2; rows * n <= 1300 && rows < 10; rows++) {
                        _Alignas(8) char beside[9 * 8] = {0};
                        fold(beside, x, rows, n, false);
                        for (int64_t r = 0; r < rows; r++) {
                            _Alignas(8) char alone[8] = {0};
                            fold(alone, x + (size_t)(r * n) * bytes, 1, n, false);
                            check_same(beside + (size_t)r * to_bytes, alone, to);
                        }
                    }
                    double a = 0, b = 0;
                    if (to == SHOAL_F32) a = (double)*(float *)is, b = (double)*(float *)must;
                    if (dtype == SHOAL_F64) a = *(double *)is, b = *(double *)must;
                    if (memcmp(is, must, 8) && !(isnan(a) && isnan(b)))
                        fail_msg("%s: %s of %d %s", tables[t]->name, shoal_op_name((uint16_t)op),
                                 (int)n, shoal_dtype_name((shoal_dtype)dtype));
                }
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
            tables[t]->matmul[SHOAL_F32](M, N, K, a, as, b, bs, c, N);
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++) {
                    double sum = 0; /* small integers: exact in float too */
                    for (int k = 0; k < K; k++)
                        sum += (double)a[m * K + k] * b[k * bs[0] + n * bs[1]];
                    assert_true(sum == c[m * N + n]);
                }
        }
}

/* ---- products of integers ---- */

static int64_t integer_at(const void *x, size_t bytes, int64_t i) {
    int64_t value = 0;
    memcpy(&value, (const char *)x + (size_t)i * bytes, bytes);
    return value; /* its lowest bytes, which are all that a wrapped sum depends on */
}

/* Rows of c are further apart than they are long. */
static void check_integers(const cpu_kernels *table, uint8_t dtype, const int64_t sides[3],
                           unsigned form) {
    enum { ROOM = 600 * 40 * 8 };
    static char a[ROOM], b[ROOM], c[ROOM];
    size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
    int64_t m = sides[0], n = sides[1], k = sides[2], row = n + 3;
    const int64_t as[] = {form & 1 ? 1 : k, form & 1 ? m : 1};
    const int64_t bs[] = {form & 2 ? 1 : n, form & 2 ? k : 1};
    for (size_t i = 0; i < ROOM; i++) a[i] = (char)(i * 7919 >> 3), b[i] = (char)(i * 104729 >> 5);
    memset(c, 0x55, sizeof c);
    table->matmul[dtype](m, n, k, a, as, b, bs, c, row);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < row; j++) {
            uint64_t sum = 0;
            for (int64_t p = 0; p < k && j < n; p++)
                sum += (uint64_t)integer_at(a, bytes, i * as[0] + p * as[1]) *
                       (uint64_t)integer_at(b, bytes, p * bs[0] + j * bs[1]);
            if (j >= n) sum = UINT64_C(0x5555555555555555);
            int64_t is = integer_at(c, bytes, i * row + j);
            if (memcmp(&is, &sum, bytes))
                fail_msg("%s, %s, %dx%dx%d, form %u: [%d, %d]", table->name,
                         shoal_dtype_name((shoal_dtype)dtype), (int)m, (int)k, (int)n, form, (int)i,
                         (int)j);
        }
}

/* Sides around those of tiles and of blocks along what is summed. */
static void test_matmul_of_integers(void **state) {
    static const uint8_t types[] = {SHOAL_I8,  SHOAL_U8,  SHOAL_I16, SHOAL_U16,
                                    SHOAL_I32, SHOAL_U32, SHOAL_I64, SHOAL_U64};
    static const int64_t rows[] = {1, 3, 4, 5, 8, 13}, columns[] = {1, 7, 15, 16, 17, 31, 33},
                         depths[] = {1, 3, 4, 7, 8, 9, 16, 31, 255, 256, 257, 530};
    for (int t = 0; t < n_tables; t++)
        for (size_t type = 0; type < sizeof types; type++)
            for (unsigned i = 0; i < 6 * 7 * 12; i++) {
                const int64_t sides[] = {rows[i % 6], columns[i / 6 % 7], depths[i / 42]};
                if (i % (STRIDE * (type < 2 ? 3 : 13))) continue;
                for (unsigned form = 0; form < 4; form++)
                    check_integers(tables[t], types[type], sides, form);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_converts),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_folds),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_matmul_of_integers),
    };
    n_tables = (int)cpu_kernel_sets(tables);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
