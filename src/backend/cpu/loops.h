/* The loops around functions of one element, which compilers turn into vector code; what it takes
 * is in kernels.c, integers.c and converts.c, each compiled once per instruction set. And what
 * these and pools.c do with one element. */
#ifndef CPU_LOOPS_H
#define CPU_LOOPS_H

#include "backend/cpu/functions.h"

/* ---- float16 and bfloat16 ---- */

INLINE float widen_half(uint16_t half) {
    uint32_t bits = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    /* A half read as float is 2^112 too small, subnormal or not. */
    uint32_t finite = bits_of(float_of(bits << 13) * 0x1p112f);
    return float_of((bits >= 0x7c00 ? 0x7f800000u | bits << 13 : finite) | sign);
}

/* To the nearest, ties to even. NaN keeps the upper bits of its payload and becomes quiet. */
INLINE uint16_t narrow_half(float x) {
    uint32_t bits = bits_of(x) & 0x7fffffffu, sign = (bits_of(x) >> 16) & 0x8000u;
    /* Below 2^-14 the unit is fixed: adding 1/2 as a float rounds there. */
    uint32_t small = bits_of(float_of(bits) + 0.5f) - 0x3f000000u;
    uint32_t normal = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13;
    uint32_t result = bits < 0x38800000u ? small : normal;
    result = bits >= 0x477ff000u ? 0x7c00u : result;
    result = bits > 0x7f800000u ? 0x7e00u | (bits >> 13 & 0x3ffu) : result;
    return (uint16_t)(result | sign);
}

INLINE float widen_bfloat(uint16_t x) { return float_of((uint32_t)x << 16); }

INLINE uint16_t narrow_bfloat(float x) {
    uint32_t bits = bits_of(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    uint32_t nan = bits | 0x400000;
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16);
}

/* ---- the larger and smaller of two ---- */

/* NaN when either is, the first one of two; -0 is below +0. What is chosen is chosen as bits:
 * compilers follow the two sides of a choice of floats, where there is but one. */
#define BEST_OF_TWO(name, type, word, x_is_best, of_equal)                                         \
    INLINE type name(type x, type y) {                                                             \
        word a, b;                                                                                 \
        memcpy(&a, &x, sizeof a);                                                                  \
        memcpy(&b, &y, sizeof b);                                                                  \
        a = ((x_is_best) | (x != x) | ((x == y) & (of_equal))) ? a : b;                            \
        memcpy(&x, &a, sizeof x);                                                                  \
        return x;                                                                                  \
    }
BEST_OF_TWO(maximum_f32, float, uint32_t, x > y, (int32_t)a >= 0)
BEST_OF_TWO(maximum_f64, double, uint64_t, x > y, (int64_t)a >= 0)
BEST_OF_TWO(minimum_f32, float, uint32_t, x < y, (int32_t)a < 0)
BEST_OF_TWO(minimum_f64, double, uint64_t, x < y, (int64_t)a < 0)

#define UNARY(name, type, result, expression)                                                      \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        result *out = to;                                                                          \
        const type *a = in[0];                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i];                                                                         \
            out[i] = (result)(expression);                                                         \
        }                                                                                          \
    }

#define BINARY(name, type, result, expression)                                                     \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        result *out = to;                                                                          \
        const type *a = in[0], *b = in[1];                                                         \
        if (scalars & 1) {                                                                         \
            type x = *a, first = *b;                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type y = scalars & 2 ? first : b[i];                                               \
                out[i] = (result)(expression);                                                     \
            }                                                                                      \
        } else if (scalars & 2) {                                                                  \
            type y = *b;                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i];                                                                     \
                out[i] = (result)(expression);                                                     \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i], y = b[i];                                                           \
                out[i] = (result)(expression);                                                     \
            }                                                                                      \
        }                                                                                          \
    }

/* Of three operands; loops for when none is for all, or the first and the last are. */
#define TERNARY(name, type, expression)                                                            \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        type *out = to;                                                                            \
        const type *a = in[0], *b = in[1], *c = in[2];                                             \
        const int64_t step_a = !(scalars & 1), step_b = !(scalars & 2), step_c = !(scalars & 4);   \
        if (!scalars) {                                                                            \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = a[i], y = b[i], z = c[i];                                                 \
                out[i] = (type)(expression);                                                       \
            }                                                                                      \
        } else if (scalars == 5) {                                                                 \
            type x = *a, z = *c;                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type y = b[i];                                                                     \
                out[i] = (type)(expression);                                                       \
            }                                                                                      \
        } else {                                                                                   \
            type first = *a, second = *b, third = *c;                                              \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type x = step_a ? a[i] : first, y = step_b ? b[i] : second;                        \
                type z = step_c ? c[i] : third;                                                    \
                out[i] = (type)(expression);                                                       \
            }                                                                                      \
        }                                                                                          \
    }

#endif
