/* Maps by the functions of elementary_f64.h. */
#include "backend/cpu/elementary_f64.h"

#define MAP(name, type, expression)                                                                \
    void CPU_OF_SET(name)(void *to, const void *const *in, int64_t n, unsigned scalars,            \
                          const char *ahead) {                                                     \
        type *out = to;                                                                            \
        const type *a = in[0];                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type x = a[i];                                                                         \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }
MAP(exponential_f64, double, exp_f64(x))
MAP(exponential_minus_one_f64, double, expm1_f64(x))
MAP(log_f64, double, log_f64(x))
MAP(log_plus_one_f64, double, log1p_f64(x))
MAP(tanh_f64, double, tanh_f64(x))
MAP(logistic_f64, double, logistic_f64(x))
MAP(erf_f64, double, erf(x))
MAP(cbrt, float, cbrt_f32(x))
MAP(cbrt_f64, double, cbrt(x))

/* The few elements that `fits` leaves out go to the C library. Blocks are copied first, since out
 * may be an operand, and so that one loop serves for all of `scalars`. */
#define BLOCKS(name, type, operands, fits, expression, library)                                    \
    void CPU_OF_SET(name)(void *to, const void *const *in, int64_t n, unsigned scalars,            \
                          const char *ahead) {                                                     \
        enum { BLOCK = 64 };                                                                       \
        type copy[2][BLOCK];                                                                       \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                \
            type *out = (type *)to + at;                                                           \
            int64_t some = n - at < BLOCK ? n - at : BLOCK;                                        \
            unsigned unfit = 0;                                                                    \
            for (int k = 0; k < operands; k++) {                                                   \
                const type *from = in[k];                                                          \
                if (!(scalars >> k & 1)) memcpy(copy[k], from + at, (size_t)some * sizeof *from);  \
                for (int64_t i = 0; scalars >> k & 1 && i < some; i++) copy[k][i] = *from;         \
            }                                                                                      \
            for (int64_t i = 0; i < some; i++) {                                                   \
                type x = copy[0][i], y = copy[operands - 1][i];                                    \
                unfit |= !fits((double)x, (double)y);                                              \
                out[i] = expression;                                                               \
            }                                                                                      \
            for (int64_t i = 0; unfit && i < some; i++) {                                          \
                type x = copy[0][i], y = copy[operands - 1][i];                                    \
                if (!fits((double)x, (double)y)) out[i] = library;                                 \
            }                                                                                      \
        }                                                                                          \
    }
INLINE bool any(double x, double y) { return true; }
INLINE bool turns(double x, double y) { return fabs(x) <= TURN_LIMIT; }
INLINE bool divides(double x, double y) {
    return (fabs(x) / fabs(y) < REMAINDER_LIMIT) & (fabs(y) < (double)INFINITY);
}

BLOCKS(sine, float, 1, turns, sine_float(x, 0), sinf(x))
BLOCKS(cosine, float, 1, turns, sine_float(x, 1), cosf(x))
BLOCKS(tan, float, 1, turns, tan_float(x), tanf(x))
BLOCKS(sine_f64, double, 1, turns, sine_double(x, 0), sin(x))
BLOCKS(cosine_f64, double, 1, turns, sine_double(x, 1), cos(x))
BLOCKS(tan_f64, double, 1, turns, tan_double(x), tan(x))
BLOCKS(power, float, 2, any, power_f32(x, y), 0)
BLOCKS(power_f64, double, 2, any, ((y == 0) | (x == 1)) ? 1 : pow(x, y), 0)
BLOCKS(atan2, float, 2, any, atan2_f32(x, y), 0)
BLOCKS(atan2_f64, double, 2, any, atan2_f64(x, y), 0)
BLOCKS(remainder, float, 2, divides, remainder_f32(x, y), fmodf(x, y))
BLOCKS(remainder_f64, double, 2, divides, remainder_f64(x, y), fmod(x, y))
