/* The loops around functions of one element, which compilers turn into vector code; what it takes
 * is in kernels.c, integers.c and converts.c, each compiled once per instruction set. */
#ifndef CPU_LOOPS_H
#define CPU_LOOPS_H

#include "backend/cpu/functions.h"

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* NaN when either is; -0 is below +0. */
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
