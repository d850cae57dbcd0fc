/* The inner loops of the cpu backend, in plain C that compilers turn into vector code, and the
 * table of all kernels of an instruction set. This file is compiled once per set. Nothing in it is
 * contracted or reordered by the compiler, so all sets give the same bits, and those of the
 * reference; what is allowed to differ is in functions.c. */
#include "backend/cpu/functions.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- both types ---- */

#define LARGER(x, y, sign_of)                                                                      \
    ((x) != (x)   ? (x)                                                                            \
     : (y) != (y) ? (y)                                                                            \
     : (x) > (y)  ? (x)                                                                            \
     : (x) < (y)  ? (y)                                                                            \
     : sign_of(x) ? (y)                                                                            \
                  : (x))
#define SMALLER(x, y, sign_of)                                                                     \
    ((x) != (x)   ? (x)                                                                            \
     : (y) != (y) ? (y)                                                                            \
     : (x) < (y)  ? (x)                                                                            \
     : (x) > (y)  ? (y)                                                                            \
     : sign_of(x) ? (x)                                                                            \
                  : (y))
INLINE bool sign_f32(float x) { return bits_of(x) >> 31; }
INLINE bool sign_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63;
}

INLINE float maximum_f32(float x, float y) { return LARGER(x, y, sign_f32); }
INLINE double maximum_f64(double x, double y) { return LARGER(x, y, sign_f64); }
INLINE float minimum_f32(float x, float y) { return SMALLER(x, y, sign_f32); }
INLINE double minimum_f64(double x, double y) { return SMALLER(x, y, sign_f64); }

#define UNARY(name, type, expression)                                                              \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        type *out = to;                                                                            \
        const type *a = in[0];                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i];                                                                         \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }
#define UNARY_BOTH(name, single, twofold)                                                          \
    UNARY(map_##name##_f32, float, single)                                                         \
    UNARY(map_##name##_f64, double, twofold)

UNARY_BOTH(negate, -x, -x)
UNARY_BOTH(abs, fabsf(x), fabs(x))
UNARY_BOTH(sqrt, sqrtf(x), sqrt(x))

#define BINARY(name, type, result, expression)                                                     \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        result *out = to;                                                                          \
        const type *a = in[0], *b = in[1];                                                         \
        if (scalars & 1) {                                                                         \
            type x = *a, first = *b;                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type y = scalars & 2 ? first : b[i];                                               \
                out[i] = expression;                                                               \
            }                                                                                      \
        } else if (scalars & 2) {                                                                  \
            type y = *b;                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i];                                                                     \
                out[i] = expression;                                                               \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i], y = b[i];                                                           \
                out[i] = expression;                                                               \
            }                                                                                      \
        }                                                                                          \
    }
#define BINARY_BOTH(name, single, twofold)                                                         \
    BINARY(map_##name##_f32, float, float, single)                                                 \
    BINARY(map_##name##_f64, double, double, twofold)

BINARY_BOTH(add, x + y, x + y)
BINARY_BOTH(subtract, x - y, x - y)
BINARY_BOTH(multiply, x *y, x *y)
BINARY_BOTH(divide, x / y, x / y)
BINARY_BOTH(maximum, maximum_f32(x, y), maximum_f64(x, y))
BINARY_BOTH(minimum, minimum_f32(x, y), minimum_f64(x, y))

/* x * y + z, each rounded. */
#define MULTIPLY_ADD(name, type)                                                                   \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        type *out = to;                                                                            \
        const type *a = in[0], *b = in[1], *c = in[2];                                             \
        switch (scalars) {                                                                         \
            CASE(0, type)                                                                          \
            CASE(1, type)                                                                          \
            CASE(2, type)                                                                          \
            CASE(3, type)                                                                          \
            CASE(4, type)                                                                          \
            CASE(5, type)                                                                          \
            CASE(6, type)                                                                          \
            CASE(7, type)                                                                          \
        }                                                                                          \
    }
#define CASE(bits, type)                                                                           \
    case bits: {                                                                                   \
        type x = *a, y = *b, z = *c;                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = ((bits)&1 ? x : a[i]) * ((bits)&2 ? y : b[i]) + ((bits)&4 ? z : c[i]);        \
        break;                                                                                     \
    }
MULTIPLY_ADD(multiply_add_f32, float)
MULTIPLY_ADD(multiply_add_f64, double)

#define COMPARE(name, operator)                                                                    \
    BINARY(compare_##name##_f32, float, uint8_t, x operator y)                                     \
    BINARY(compare_##name##_f64, double, uint8_t, x operator y)
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

#define SELECT(name, type)                                                                         \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        type *out = to;                                                                            \
        const uint8_t *p = in[0];                                                                  \
        const type *a = in[1], *b = in[2];                                                         \
        int64_t step_p = !(scalars & 1), step_a = !(scalars & 2), step_b = !(scalars & 4);         \
        if (!scalars)                                                                              \
            for (int64_t i = 0; i < n; i++) out[i] = p[i] ? a[i] : b[i];                           \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                out[i] = p[i * step_p] ? a[i * step_a] : b[i * step_b];                            \
    }
SELECT(select_4, uint32_t)
SELECT(select_8, uint64_t)

/* ---- folds: 16 partial results side by side, joined at the end ---- */

enum { LANES = 16 };

#define FOLD(name, type, expression)                                                               \
    INLINE type join_##name(type x, type y) { return expression; }                                 \
    static void fold_##name(void *acc, const void *from, int64_t n) {                              \
        const type *x = from;                                                                      \
        type result = *(type *)acc;                                                                \
        int64_t i = 0;                                                                             \
        if (n >= 2 * LANES) {                                                                      \
            type lanes[LANES];                                                                     \
            for (int k = 0; k < LANES; k++) lanes[k] = x[k];                                       \
            for (i = LANES; i + LANES <= n; i += LANES)                                            \
                for (int k = 0; k < LANES; k++) lanes[k] = join_##name(lanes[k], x[i + k]);        \
            for (int k = 0; k < LANES; k++) result = join_##name(result, lanes[k]);                \
        }                                                                                          \
        for (; i < n; i++) result = join_##name(result, x[i]);                                     \
        *(type *)acc = result;                                                                     \
    }
FOLD(add_f32, float, x + y)
FOLD(add_f64, double, x + y)
FOLD(multiply_f32, float, x *y)
FOLD(multiply_f64, double, x *y)
FOLD(maximum_f32, float, maximum_f32(x, y))
FOLD(maximum_f64, double, maximum_f64(x, y))
FOLD(minimum_f32, float, minimum_f32(x, y))
FOLD(minimum_f64, double, minimum_f64(x, y))

/* ---- past the caches ---- */

#ifdef __AVX512F__
#include <immintrin.h>
typedef __m512i wide;
#define LOAD_WIDE(p) _mm512_loadu_si512(p)
#define STREAM_WIDE(p, x) _mm512_stream_si512((void *)(p), x)
#elif defined(__AVX2__)
#include <immintrin.h>
typedef __m256i wide;
#define LOAD_WIDE(p) _mm256_loadu_si256((const __m256i *)(p))
#define STREAM_WIDE(p, x) _mm256_stream_si256((__m256i *)(p), x)
#endif

static void stream(void *to, const void *from, size_t bytes) {
#ifdef STREAM_WIDE
    char *target = to;
    const char *source = from;
    size_t head = -(uintptr_t)target % sizeof(wide);
    if (head > bytes) head = bytes;
    memcpy(target, source, head);
    size_t at = head;
    for (; at + sizeof(wide) <= bytes; at += sizeof(wide))
        STREAM_WIDE(target + at, LOAD_WIDE(source + at));
    memcpy(target + at, source + at, bytes - at);
#else
    memcpy(to, from, bytes);
#endif
}

static void fence(void) {
#ifdef STREAM_WIDE
    _mm_sfence();
#endif
}

/* ---- matrix products without BLAS: blocks of k and n that stay in the cache ---- */

#define MATMUL(name, type)                                                                         \
    static void name(int64_t m, int64_t n, int64_t k, const void *a_data, const int64_t *as,       \
                     const void *b_data, const int64_t *bs, void *c_data, int64_t c_stride) {      \
        enum { BLOCK_K = 64, BLOCK_N = 512 };                                                      \
        const type *a = a_data, *b = b_data;                                                       \
        type *c = c_data;                                                                          \
        for (int64_t i = 0; i < m; i++) memset(c + i * c_stride, 0, (size_t)n * sizeof *c);        \
        for (int64_t n0 = 0; n0 < n; n0 += BLOCK_N)                                                \
            for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K)                                            \
                for (int64_t i = 0; i < m; i++)                                                    \
                    for (int64_t p = k0; p < k && p < k0 + BLOCK_K; p++) {                         \
                        int64_t most = n - n0 < BLOCK_N ? n - n0 : BLOCK_N;                        \
                        type x = a[i * as[0] + p * as[1]];                                         \
                        const type *row = b + p * bs[0] + n0 * bs[1];                              \
                        type *sums = c + i * c_stride + n0;                                        \
                        if (bs[1] == 1)                                                            \
                            for (int64_t j = 0; j < most; j++) sums[j] += x * row[j];              \
                        else                                                                       \
                            for (int64_t j = 0; j < most; j++) sums[j] += x * row[j * bs[1]];      \
                    }                                                                              \
    }
MATMUL(matmul_f32, float)
MATMUL(matmul_f64, double)

#define BOTH(prefix, name)                                                                         \
    { prefix##_##name##_f32, prefix##_##name##_f64 }

static bool computes_long(cpu_map_kernel kernel) {
#define XX(name) kernel == CPU_OF_SET(name) ||
    return CPU_FUNCTION_MAP(XX) false;
#undef XX
}

#define TEXT(name) #name
#define TEXT_OF(name) TEXT(name)

const cpu_kernels CPU_OF_SET(kernels) = {
    .name = TEXT_OF(SHOAL_CPU_SET),
    .map =
        {
            [GRAPH_NEGATE] = BOTH(map, negate),
            [GRAPH_ABS] = BOTH(map, abs),
            [GRAPH_SQRT] = BOTH(map, sqrt),
            [GRAPH_EXPONENTIAL] = {CPU_OF_SET(exponential)},
            [GRAPH_LOG] = {CPU_OF_SET(log)},
            [GRAPH_TANH] = {CPU_OF_SET(tanh)},
            [GRAPH_LOGISTIC] = {CPU_OF_SET(logistic)},
            [GRAPH_SILU] = {CPU_OF_SET(silu)},
            [GRAPH_GELU] = {CPU_OF_SET(gelu)},
            [GRAPH_ADD] = BOTH(map, add),
            [GRAPH_SUBTRACT] = BOTH(map, subtract),
            [GRAPH_MULTIPLY] = BOTH(map, multiply),
            [GRAPH_DIVIDE] = BOTH(map, divide),
            [GRAPH_MAXIMUM] = BOTH(map, maximum),
            [GRAPH_MINIMUM] = BOTH(map, minimum),
        },
    .compare = {BOTH(compare, eq), BOTH(compare, ne), BOTH(compare, lt), BOTH(compare, le),
                BOTH(compare, gt), BOTH(compare, ge)},
    .select = {select_4, select_8},
    .fold =
        {
            [GRAPH_ADD] = BOTH(fold, add),
            [GRAPH_MULTIPLY] = BOTH(fold, multiply),
            [GRAPH_MAXIMUM] = BOTH(fold, maximum),
            [GRAPH_MINIMUM] = BOTH(fold, minimum),
        },
    .matmul = {matmul_f32, matmul_f64},
    .multiply_add = {multiply_add_f32, multiply_add_f64},
    .gelu_tanh = {CPU_OF_SET(gelu_tanh)},
    .row =
        {
            [GRAPH_SOFTMAX] = CPU_OF_SET(softmax),
            [GRAPH_LOG_SOFTMAX] = CPU_OF_SET(log_softmax),
            [GRAPH_RMS_NORM] = CPU_OF_SET(rms_norm),
            [GRAPH_LAYER_NORM] = CPU_OF_SET(layer_norm),
        },
    .computes_long = computes_long,
    .stream = stream,
    .fence = fence,
};
