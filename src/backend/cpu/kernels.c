/* The inner loops of the cpu backend, in plain C that compilers turn into vector code, and the
 * table of all kernels of an instruction set. This file is compiled once per set. Nothing in it is
 * contracted or reordered by the compiler, so all sets give the same bits, and those of the
 * reference; what is allowed to differ is in functions.c. */
#include "backend/cpu/loops.h"

#include <math.h>

#define UNARY_BOTH(name, single, twofold)                                                          \
    UNARY(map_##name##_f32, float, float, single)                                                  \
    UNARY(map_##name##_f64, double, double, twofold)

UNARY_BOTH(negate, -x, -x)
UNARY_BOTH(abs, fabsf(x), fabs(x))
UNARY_BOTH(sqrt, sqrtf(x), sqrt(x))
UNARY_BOTH(rsqrt, 1 / sqrtf(x), 1 / sqrt(x))

/* Rounding to the nearest: from UNIT on there are no digits behind the point, and adding it leaves
 * none of what is smaller. The others go on from there; results keep the sign, of 0, too. */
#define ROUNDING(type, suffix, UNIT, size_of, sign_from)                                           \
    INLINE type nearest_##suffix(type x) {                                                         \
        type size = size_of(x);                                                                    \
        return sign_from(size < UNIT ? (size + UNIT) - UNIT : size, x);                            \
    }                                                                                              \
    INLINE type floor_##suffix(type x) {                                                           \
        type near = nearest_##suffix(x);                                                           \
        return sign_from(near > x ? near - 1 : near, x);                                           \
    }                                                                                              \
    INLINE type ceil_##suffix(type x) {                                                            \
        type near = nearest_##suffix(x);                                                           \
        return sign_from(near < x ? near + 1 : near, x);                                           \
    }                                                                                              \
    INLINE type away_##suffix(type x) {                                                            \
        type size = size_of(x), near = size_of(nearest_##suffix(x));                               \
        return sign_from(size - near == (type)0.5 ? near + 1 : near, x);                           \
    }
ROUNDING(float, f32, 0x1p23f, fabsf, copysignf)
ROUNDING(double, f64, 0x1p52, fabs, copysign)
UNARY_BOTH(round_nearest_even, nearest_f32(x), nearest_f64(x))
UNARY_BOTH(round_nearest_afz, away_f32(x), away_f64(x))
UNARY_BOTH(floor, floor_f32(x), floor_f64(x))
UNARY_BOTH(ceil, ceil_f32(x), ceil_f64(x))
UNARY_BOTH(sign, x > 0 ? 1 : x < 0 ? -1 : x, x > 0 ? 1 : x < 0 ? -1 : x)
UNARY(map_is_finite_f32, float, uint8_t, x - x == 0)
UNARY(map_is_finite_f64, double, uint8_t, x - x == 0)

#define BINARY_BOTH(name, single, twofold)                                                         \
    BINARY(map_##name##_f32, float, float, single)                                                 \
    BINARY(map_##name##_f64, double, double, twofold)

BINARY_BOTH(add, x + y, x + y)
BINARY_BOTH(subtract, x - y, x - y)
BINARY_BOTH(multiply, x *y, x *y)
BINARY_BOTH(divide, x / y, x / y)
BINARY_BOTH(maximum, maximum_f32(x, y), maximum_f64(x, y))
BINARY_BOTH(minimum, minimum_f32(x, y), minimum_f64(x, y))

TERNARY(map_clamp_f32, float, minimum_f32(maximum_f32(y, x), z))
TERNARY(map_clamp_f64, double, minimum_f64(maximum_f64(y, x), z))

/* Of three operands, each operation rounded. */
#define MULTIPLIED(name, type, expression)                                                         \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        type *out = to;                                                                            \
        const type *a = in[0], *b = in[1], *c = in[2];                                             \
        switch (scalars) {                                                                         \
            CASE(0, type, expression)                                                              \
            CASE(1, type, expression)                                                              \
            CASE(2, type, expression)                                                              \
            CASE(3, type, expression)                                                              \
            CASE(4, type, expression)                                                              \
            CASE(5, type, expression)                                                              \
            CASE(6, type, expression)                                                              \
            CASE(7, type, expression)                                                              \
        }                                                                                          \
    }
#define CASE(bits, type, expression)                                                               \
    case bits: {                                                                                   \
        type first = *a, second = *b, third = *c;                                                  \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = (bits)&1 ? first : a[i], y = (bits)&2 ? second : b[i];                        \
            type z = (bits)&4 ? third : c[i];                                                      \
            out[i] = expression;                                                                   \
        }                                                                                          \
        break;                                                                                     \
    }
MULTIPLIED(multiply_add_f32, float, x *y + z)
MULTIPLIED(multiply_add_f64, double, x *y + z)
MULTIPLIED(multiply_subtract_f32, float, z - x * y)
MULTIPLIED(multiply_subtract_f64, double, z - x * y)

#define COMPARE(name, operator)                                                                    \
    BINARY(compare_##name##_f32, float, uint8_t, x operator y)                                     \
    BINARY(compare_##name##_f64, double, uint8_t, x operator y)
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

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

/* ---- matrix products of integers, and tiny ones: blocks of k and n that stay in the cache ---- */

#define MATMUL(name, type, wide)                                                                   \
    static void name(int64_t m, int64_t n, int64_t k, const void *a_data, const int64_t *as,       \
                     const void *b_data, const int64_t *bs, void *c_data, int64_t c_stride) {      \
        enum { BLOCK_K = 64, BLOCK_N = 512 };                                                      \
        const type *a = a_data, *b = b_data;                                                       \
        type *c = c_data;                                                                          \
        if (n == 1 && as[1] == 1 && bs[0] == 1) {                                                  \
            for (int64_t i = 0; i < m; i++) {                                                      \
                wide sum = 0;                                                                      \
                for (int64_t p = 0; p < k; p++) sum += (wide)a[i * as[0] + p] * (wide)b[p];        \
                c[i * c_stride] = (type)sum;                                                       \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < m; i++) memset(c + i * c_stride, 0, (size_t)n * sizeof *c);        \
        for (int64_t n0 = 0; n0 < n; n0 += BLOCK_N)                                                \
            for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K)                                            \
                for (int64_t i = 0; i < m; i++)                                                    \
                    for (int64_t p = k0; p < k && p < k0 + BLOCK_K; p++) {                         \
                        int64_t most = n - n0 < BLOCK_N ? n - n0 : BLOCK_N;                        \
                        wide x = (wide)a[i * as[0] + p * as[1]];                                   \
                        const type *row = b + p * bs[0] + n0 * bs[1];                              \
                        type *sums = c + i * c_stride + n0;                                        \
                        if (bs[1] == 1) {                                                          \
                            for (int64_t j = 0; j < most; j++)                                     \
                                sums[j] = (type)((wide)sums[j] + x * (wide)row[j]);                \
                        } else {                                                                   \
                            for (int64_t j = 0; j < most; j++)                                     \
                                sums[j] = (type)((wide)sums[j] + x * (wide)row[j * bs[1]]);        \
                        }                                                                          \
                    }                                                                              \
    }
MATMUL(matmul_f32, float, float)
MATMUL(matmul_f64, double, double)
/* Sums wrap, so that signed and unsigned are the same. */
MATMUL(matmul_8, uint8_t, uint32_t)
MATMUL(matmul_16, uint16_t, uint32_t)
MATMUL(matmul_32, uint32_t, uint32_t)
MATMUL(matmul_64, uint64_t, uint64_t)

static bool computes_long(cpu_map_kernel kernel) {
#define XX(name) kernel == CPU_OF_SET(name) ||
    return CPU_FUNCTION_MAP(XX) false;
#undef XX
}

#define TEXT(name) #name
#define TEXT_OF(name) TEXT(name)

#define FLOATS(prefix, name)                                                                       \
    { [SHOAL_F32] = prefix##_##name##_f32, [SHOAL_F64] = prefix##_##name##_f64 }
#define SINGLE(name)                                                                               \
    { [SHOAL_F32] = CPU_OF_SET(name) }
#define FUNCTION(name)                                                                             \
    { [SHOAL_F32] = CPU_OF_SET(name), [SHOAL_F64] = CPU_OF_SET(name##_f64) }
#define PAIR(prefix, name)                                                                         \
    { prefix##_##name##_f32, prefix##_##name##_f64 }

const cpu_maps CPU_OF_SET(float_maps) = {
    .map =
        {
            [GRAPH_NEGATE] = FLOATS(map, negate),
            [GRAPH_ABS] = FLOATS(map, abs),
            [GRAPH_SQRT] = FLOATS(map, sqrt),
            [GRAPH_RSQRT] = FLOATS(map, rsqrt),
            [GRAPH_ROUND_NEAREST_EVEN] = FLOATS(map, round_nearest_even),
            [GRAPH_ROUND_NEAREST_AFZ] = FLOATS(map, round_nearest_afz),
            [GRAPH_FLOOR] = FLOATS(map, floor),
            [GRAPH_CEIL] = FLOATS(map, ceil),
            [GRAPH_SIGN] = FLOATS(map, sign),
            [GRAPH_IS_FINITE] = FLOATS(map, is_finite),
            [GRAPH_CLAMP] = FLOATS(map, clamp),
            [GRAPH_EXPONENTIAL] = FUNCTION(exponential),
            [GRAPH_EXPONENTIAL_MINUS_ONE] = FUNCTION(exponential_minus_one),
            [GRAPH_LOG] = FUNCTION(log),
            [GRAPH_LOG_PLUS_ONE] = FUNCTION(log_plus_one),
            [GRAPH_TANH] = FUNCTION(tanh),
            [GRAPH_LOGISTIC] = FUNCTION(logistic),
            [GRAPH_ERF] = FUNCTION(erf),
            [GRAPH_SINE] = FUNCTION(sine),
            [GRAPH_COSINE] = FUNCTION(cosine),
            [GRAPH_TAN] = FUNCTION(tan),
            [GRAPH_CBRT] = FUNCTION(cbrt),
            [GRAPH_SILU] = SINGLE(silu),
            [GRAPH_GELU] = SINGLE(gelu),
            [GRAPH_SILU_GRADIENT] = SINGLE(silu_gradient),
            [GRAPH_GELU_GRADIENT] = SINGLE(gelu_gradient),
            [GRAPH_ADD] = FLOATS(map, add),
            [GRAPH_SUBTRACT] = FLOATS(map, subtract),
            [GRAPH_MULTIPLY] = FLOATS(map, multiply),
            [GRAPH_DIVIDE] = FLOATS(map, divide),
            [GRAPH_MAXIMUM] = FLOATS(map, maximum),
            [GRAPH_MINIMUM] = FLOATS(map, minimum),
            [GRAPH_POWER] = FUNCTION(power),
            [GRAPH_ATAN2] = FUNCTION(atan2),
            [GRAPH_REMAINDER] = FUNCTION(remainder),
        },
    .compare = {FLOATS(compare, eq), FLOATS(compare, ne), FLOATS(compare, lt), FLOATS(compare, le),
                FLOATS(compare, gt), FLOATS(compare, ge)},
    .gelu_tanh = SINGLE(gelu_tanh),
    .gelu_tanh_gradient = SINGLE(gelu_tanh_gradient),
};

const cpu_kernels CPU_OF_SET(kernels) = {
    .name = TEXT_OF(SHOAL_CPU_SET),
    .maps = {&CPU_OF_SET(float_maps), &CPU_OF_SET(integer_maps), &CPU_OF_SET(half_maps)},
    .convert = CPU_OF_SET(converts),
    .fold = CPU_OF_SET(folds),
    .matmul = {[SHOAL_I8] = matmul_8,
               [SHOAL_U8] = matmul_8,
               [SHOAL_I16] = matmul_16,
               [SHOAL_U16] = matmul_16,
               [SHOAL_I32] = matmul_32,
               [SHOAL_U32] = matmul_32,
               [SHOAL_I64] = matmul_64,
               [SHOAL_U64] = matmul_64,
               [SHOAL_F32] = matmul_f32,
               [SHOAL_F64] = matmul_f64},
    .gemm = {&CPU_OF_SET(gemm_f32), &CPU_OF_SET(gemm_f64)},
    .bytes = &CPU_OF_SET(grouped_bytes),
    .bfloats = &CPU_OF_SET(grouped_bf16),
    .pools = &CPU_OF_SET(pools),
    .random = &CPU_OF_SET(random),
    .taps = {&CPU_OF_SET(taps_f32), &CPU_OF_SET(taps_f64)},
    .blocks = CPU_OF_SET(blocks),
    .digits = CPU_OF_SET(digits),
    .multiply_add = {multiply_add_f32, multiply_add_f64},
    .multiply_subtract = {multiply_subtract_f32, multiply_subtract_f64},
#define XX(name, NAME) [GRAPH_##NAME] = CPU_OF_SET(name),
    .row = {CPU_ROW_MAP(XX)},
#undef XX
    .weigh = CPU_OF_SET(weigh),
    .turn = CPU_OF_SET(turn),
    .scale_rows = CPU_OF_SET(scale_rows),
    .dot_rows = CPU_OF_SET(dot_rows),
    .computes_long = computes_long,
    .stream = stream,
    .fence = fence,
};
