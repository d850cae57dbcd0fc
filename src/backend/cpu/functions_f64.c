/* Transcendental functions of f64, and those of f32 that go by way of it: sine, cosine, power. As
 * in functions.c, products and sums may be contracted, and results state how far off they are. */
#include "backend/cpu/elementary.h"

INLINE double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t bits_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- sine and cosine ---- */

/* Beyond this the quarter's number is not exact; callers go to the C library. */
#define TURN_LIMIT 1e6f

/* The sine of x + shift * pi/2 for |x| <= TURN_LIMIT: x is brought to -pi/4 .. pi/4 in double.
 * 1 ulp / 1 ulp. */
INLINE float turn_f32(float x, uint64_t shift) {
    const double magic = 6755399441055744; /* 1.5 * 2^52 */
    double shifted = (double)x * 0.63661977236758134308 + magic, n = shifted - magic;
    uint64_t quarter = bits_of_f64(shifted) + shift;
    double wide = ((double)x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
    float r = (float)wide, s = r * r;
    float p = 2.71707892e-6f;
    p = p * s + -1.98391704e-4f;
    p = p * s + 8.33332866e-3f;
    p = p * s + -1.66666666e-1f;
    float sine = s == 0 ? r : p * s * r + r; /* the sum would lose the sign of -0 */
    float q = 2.43718508e-5f;
    q = q * s + -1.38865201e-3f;
    q = q * s + 4.16666129e-2f;
    q = q * s + -4.99999996e-1f;
    float cosine = q * s + 1;
    uint32_t odd = 0u - (uint32_t)(quarter & 1);
    uint32_t bits = (bits_of(cosine) & odd) | (bits_of(sine) & ~odd);
    return float_of(bits ^ (uint32_t)(quarter & 2) << 30);
}

/* ---- f64 ---- */

typedef struct reduced_f64 {
    double r;
    int64_t n;
} reduced_f64;

INLINE reduced_f64 reduce_f64(double x) {
    const double magic = 6755399441055744;
    double shifted = x * 1.44269504088896340736 + magic, whole = shifted - magic;
    double r = whole * -6.93147180369123816490e-01 + x;
    return (reduced_f64){whole * -1.90821492927058770002e-10 + r,
                         (int64_t)(bits_of_f64(shifted) - bits_of_f64(magic))};
}

/* e^r - 1 by its Taylor series, whose rest is below 2^-57. */
INLINE double expm1_core_f64(double r) {
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    return p * r * r + r;
}

/* 2 ulp / 1 ulp. */
INLINE double exp_f64(double x) {
    double bounded = x > 710 ? 710 : x < -746 ? -746 : x;
    reduced_f64 k = reduce_f64(bounded);
    int64_t half = k.n >> 1;
    double p = expm1_core_f64(k.r) + 1;
    return p * double_of((uint64_t)(half + 1023) << 52) *
           double_of((uint64_t)(k.n - half + 1023) << 52);
}

/* 3 ulp / 3 ulp. */
INLINE double logistic_f64(double x) {
    double e = exp_f64(x > 0 ? -x : x);
    return (x >= 0 ? 1 : e) / (1 + e);
}

/* 3 ulp / 3 ulp. */
INLINE double tanh_f64(double x) {
    double a = fabs(x);
    reduced_f64 k = reduce_f64(2 * (a > 20 ? 20 : a));
    double scale = double_of((uint64_t)(k.n + 1023) << 52);
    double less = expm1_core_f64(k.r) * scale + (scale - 1);
    return double_of(bits_of_f64(less / (less + 2)) |
                     (bits_of_f64(x) & UINT64_C(0x8000000000000000)));
}

/* The number of binary digits before the point, as a double, and the rest as log(1 + f): with
 * s = f / (2 + f), log(1 + f) = 2 atanh s. */
typedef struct parts {
    double n, s, tail; /* the result is n ln 2 + 2 s + tail */
    double f;
} parts;

INLINE parts log_parts(double x) {
    double normal = x < 0x1p-1022 ? x * 0x1p52 : x;
    uint64_t shifted = bits_of_f64(normal) - UINT64_C(0x3fe6a09e667f3bcd);
    /* An integer below 2^51 becomes a double by way of its bits: no instruction before AVX-512
     * converts int64. */
    double n = double_of(((shifted >> 52) + 2048) % 4096 + UINT64_C(0x4330000000000000)) -
               (0x1p52 + 2048) - (x < 0x1p-1022 ? 52 : 0);
    double f = double_of((shifted & UINT64_C(0xfffffffffffff)) + UINT64_C(0x3fe6a09e667f3bcd)) - 1;
    double s = f / (2 + f), z = s * s;
    double p = 2.0 / 23;
    p = p * z + 2.0 / 21;
    p = p * z + 2.0 / 19;
    p = p * z + 2.0 / 17;
    p = p * z + 2.0 / 15;
    p = p * z + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    return (parts){n, s, p * z * s, f};
}

/* log(1 + f) = f - (f^2/2 - s (f^2/2 + R)), which keeps the digits of f. 1 ulp / 1 ulp. */
INLINE double log_f64(double x) {
    parts l = log_parts(x);
    double half = 0.5 * l.f * l.f;
    /* 2 s = f - s f, so 2 s + tail = f - half + s * (half) + tail */
    double rest = l.n * 1.90821492927058770002e-10 + l.s * half + l.tail;
    double result = l.n * 6.93147180369123816490e-01 + (l.f - (half - rest));
    result = x == (double)INFINITY ? x : result;
    result = x == 0 ? (double)-INFINITY : result;
    return x >= 0 ? result : (double)NAN;
}

/* ---- x^y ---- */

/* e^(y log |x|) in double: 1 ulp / 1 ulp. Signs, zeros and infinities as C's pow has them. */
INLINE float power_f32(float x, float y) {
    float a = fabsf(x);
    parts l = log_parts((double)a);
    double log_a = l.n * 0.69314718055994530942 + (2 * l.s + l.tail);
    log_a = a == INFINITY ? (double)INFINITY : log_a;
    log_a = a == 0 ? (double)-INFINITY : log_a;
    double product = (double)y * log_a;
    /* 0 times infinity: any y with x = 1, or y = 0, gives 1. */
    bool none = (y == 0) | (a == 1);
    product = none ? 0 : product;
    double bounded = product > 200 ? 200 : product < -200 ? -200 : product;
    reduced_f64 k = reduce_f64(bounded);
    double power = (expm1_core_f64(k.r) + 1) * double_of((uint64_t)(k.n + 1023) << 52);
    float result = (float)power;
    /* An odd integer: below 2^24 in magnitude, and halves of it are none. */
    float b = fabsf(y), half = b * 0.5f;
    float round_b = b < 0x1p23f ? (b + 0x1p23f) - 0x1p23f : b;
    float round_half = half < 0x1p23f ? (half + 0x1p23f) - 0x1p23f : half;
    uint32_t whole = round_b == b ? UINT32_MAX : 0, odd = round_half != half ? whole : 0;
    result = float_of(bits_of(result) ^ (bits_of(x) & odd & 0x80000000u));
    bool invalid = (x < 0) & (a < INFINITY) & !whole & (b < INFINITY);
    invalid |= (x != x) | (y != y);
    bool is_one = (x == 1) | (y == 0); /* 1^NaN and NaN^0 too */
    result = invalid ? NAN : result;
    return is_one ? 1 : result;
}

/* ---- maps ---- */

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
MAP(log_f64, double, log_f64(x))
MAP(tanh_f64, double, tanh_f64(x))
MAP(logistic_f64, double, logistic_f64(x))

/* The few elements that are too large for the fast reduction go to the C library. Blocks are copied
 * first, since out may be the operand. */
#define TURN(name, shift, library)                                                                 \
    void CPU_OF_SET(name)(void *to, const void *const *in, int64_t n, unsigned scalars,            \
                          const char *ahead) {                                                     \
        enum { BLOCK = 256 };                                                                      \
        float copy[BLOCK];                                                                         \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                \
            float *out = (float *)to + at;                                                         \
            int64_t some = n - at < BLOCK ? n - at : BLOCK;                                        \
            uint32_t large = 0;                                                                    \
            memcpy(copy, (const float *)in[0] + at, (size_t)some * sizeof *copy);                  \
            for (int64_t i = 0; i < some; i++) large |= !(fabsf(copy[i]) <= TURN_LIMIT);           \
            for (int64_t i = 0; i < some; i++) out[i] = turn_f32(copy[i], shift);                  \
            for (int64_t i = 0; large && i < some; i++)                                            \
                if (!(fabsf(copy[i]) <= TURN_LIMIT)) out[i] = library(copy[i]);                    \
        }                                                                                          \
    }
TURN(sine, 0, sinf)
TURN(cosine, 1, cosf)

/* Operands are copied first, so that one loop serves for all of `scalars`. */
void CPU_OF_SET(power)(void *to, const void *const *in, int64_t n, unsigned scalars,
                       const char *ahead) {
    enum { BLOCK = 64 };
    float x[BLOCK], y[BLOCK];
    const float *a = in[0], *b = in[1];
    const int64_t step_a = !(scalars & 1), step_b = !(scalars & 2);
    for (int64_t at = 0; at < n; at += BLOCK) {
        float *out = (float *)to + at;
        int64_t some = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < some; i++) x[i] = a[(at + i) * step_a];
        for (int64_t i = 0; i < some; i++) y[i] = b[(at + i) * step_b];
        for (int64_t i = 0; i < some; i++) out[i] = power_f32(x[i], y[i]);
    }
}
