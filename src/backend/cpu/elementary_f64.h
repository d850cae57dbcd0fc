/* Functions of one f64, and those of f32 that go by way of it: sine, cosine, tangent, cube root,
 * power. As in elementary.h, products and sums may be contracted, and results state how far off
 * they are. The remainder is exact. */
#ifndef CPU_ELEMENTARY_F64_H
#define CPU_ELEMENTARY_F64_H

#include "backend/cpu/elementary.h"

/* ---- sine, cosine and tangent ---- */

/* Beyond this the quarter's number is not exact; callers go to the C library. */
#define TURN_LIMIT 1e6

/* x = quarter * pi/2 + r with r in -pi/4 .. pi/4, for |x| <= TURN_LIMIT, and r's sine and cosine.
 */
#define TURNED(type)                                                                               \
    typedef struct turned_##type {                                                                 \
        uint64_t quarter;                                                                          \
        type sine, cosine;                                                                         \
    } turned_##type;
TURNED(float)
TURNED(double)

INLINE uint64_t quarter_of(double x, double *n) {
    const double magic = 6755399441055744; /* 1.5 * 2^52 */
    double shifted = x * 0.63661977236758134308 + magic;
    *n = shifted - magic;
    return bits_of_f64(shifted);
}

/* r is found in double. */
INLINE turned_float turn_float(float x) {
    double n;
    uint64_t quarter = quarter_of((double)x, &n);
    double wide = ((double)x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
    float r = (float)wide, s = r * r;
    float p = 2.71707892e-6f;
    p = p * s + -1.98391704e-4f;
    p = p * s + 8.33332866e-3f;
    p = p * s + -1.66666666e-1f;
    float q = 2.43718508e-5f;
    q = q * s + -1.38865201e-3f;
    q = q * s + 4.16666129e-2f;
    q = q * s + -4.99999996e-1f;
    /* Near 0 a sum would lose the sign of -0. */
    return (turned_float){quarter, s == 0 ? r : p * s * r + r, q * s + 1};
}

/* pi/2 in three parts, whose products with n are exact but for the last one's; Taylor series. */
INLINE turned_double turn_double(double x) {
    double n;
    uint64_t quarter = quarter_of(x, &n);
    double first = x - n * 1.57079632673412561417, second = n * 6.07710050630396597660e-11;
    double near = first - second;
    double r = near + (((first - near) - second) - n * 2.02226624879595063154e-21), s = r * r;
    double p = 1.0 / 355687428096000;
    p = p * s + -1.0 / 1307674368000;
    p = p * s + 1.0 / 6227020800;
    p = p * s + -1.0 / 39916800;
    p = p * s + 1.0 / 362880;
    p = p * s + -1.0 / 5040;
    p = p * s + 1.0 / 120;
    p = p * s + -1.0 / 6;
    double q = 1.0 / 20922789888000;
    q = q * s + -1.0 / 87178291200;
    q = q * s + 1.0 / 479001600;
    q = q * s + -1.0 / 3628800;
    q = q * s + 1.0 / 40320;
    q = q * s + -1.0 / 720;
    q = q * s + 1.0 / 24;
    q = q * s + -0.5;
    return (turned_double){quarter, s == 0 ? x : p * s * r + r, q * s + 1};
}

/* The sine of x + shift * pi/2. 1 ulp / 2 ulps. */
INLINE float sine_float(float x, uint64_t shift) {
    turned_float t = turn_float(x);
    uint64_t quarter = t.quarter + shift;
    uint32_t odd = 0u - (uint32_t)(quarter & 1);
    uint32_t bits = (bits_of(t.cosine) & odd) | (bits_of(t.sine) & ~odd);
    return float_of(bits ^ (uint32_t)(quarter & 2) << 30);
}

INLINE double sine_double(double x, uint64_t shift) {
    turned_double t = turn_double(x);
    uint64_t quarter = t.quarter + shift, odd = 0u - (quarter & 1);
    uint64_t bits = (bits_of_f64(t.cosine) & odd) | (bits_of_f64(t.sine) & ~odd);
    return double_of(bits ^ (quarter & 2) << 62);
}

/* 3 ulps / 3 ulps. */
INLINE float tan_float(float x) {
    turned_float t = turn_float(x);
    bool odd = t.quarter & 1;
    return (odd ? -t.cosine : t.sine) / (odd ? t.sine : t.cosine);
}

INLINE double tan_double(double x) {
    turned_double t = turn_double(x);
    bool odd = t.quarter & 1;
    return (odd ? -t.cosine : t.sine) / (odd ? t.sine : t.cosine);
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

/* e^r - 1 by its Taylor series, whose rest is below 2^-57; for a result in float, 2^-33. */
INLINE double expm1_core(double r, bool for_f32) {
    double p = 1.0 / 362880;
    if (!for_f32) {
        p = 1.0 / 6227020800;
        p = p * r + 1.0 / 479001600;
        p = p * r + 1.0 / 39916800;
        p = p * r + 1.0 / 3628800;
        p = p * r + 1.0 / 362880;
    }
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
    double p = expm1_core(k.r, false) + 1;
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
    double less = expm1_core(k.r, false) * scale + (scale - 1);
    return double_of(bits_of_f64(less / (less + 2)) |
                     (bits_of_f64(x) & UINT64_C(0x8000000000000000)));
}

/* The number of binary digits before the point, as a double, and the rest as log(1 + f): with
 * s = f / (2 + f), log(1 + f) = 2 atanh s, whose series is shorter for a result in float. */
typedef struct parts {
    double n, s, tail; /* the result is n ln 2 + 2 s + tail */
    double f;
} parts;

INLINE parts log_parts(double x, bool for_f32) {
    double normal = x < 0x1p-1022 ? x * 0x1p52 : x;
    uint64_t shifted = bits_of_f64(normal) - UINT64_C(0x3fe6a09e667f3bcd);
    /* An integer below 2^51 becomes a double by way of its bits: no instruction before AVX-512
     * converts int64. */
    double n = double_of(((shifted >> 52) + 2048) % 4096 + UINT64_C(0x4330000000000000)) -
               (0x1p52 + 2048) - (x < 0x1p-1022 ? 52 : 0);
    double f = double_of((shifted & UINT64_C(0xfffffffffffff)) + UINT64_C(0x3fe6a09e667f3bcd)) - 1;
    double s = f / (2 + f), z = s * s, p = 2.0 / 17;
    if (!for_f32) {
        p = 2.0 / 23;
        p = p * z + 2.0 / 21;
        p = p * z + 2.0 / 19;
        p = p * z + 2.0 / 17;
    }
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
    parts l = log_parts(x, false);
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
    parts l = log_parts((double)a, true);
    double log_a = l.n * 0.69314718055994530942 + (2 * l.s + l.tail);
    log_a = a == INFINITY ? (double)INFINITY : log_a;
    log_a = a == 0 ? (double)-INFINITY : log_a;
    double product = (double)y * log_a;
    /* 0 times infinity: any y with x = 1, or y = 0, gives 1. */
    bool none = (y == 0) | (a == 1);
    product = none ? 0 : product;
    double bounded = product > 200 ? 200 : product < -200 ? -200 : product;
    reduced_f64 k = reduce_f64(bounded);
    double power = (expm1_core(k.r, true) + 1) * double_of((uint64_t)(k.n + 1023) << 52);
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

/* ---- roots, differences, angles ---- */

/* A third of the exponent and of the mantissa's bits, then two of Halley's steps, each of which
 * leaves the cube of the error. 1 ulp. */
INLINE float cbrt_f32(float x) {
    double a = (double)fabsf(x);
    uint64_t third = (bits_of_f64(a) >> 32) * UINT64_C(0xaaaaaaab) >> 33;
    double t = double_of((third + 715094163) << 32);
    for (int step = 0; step < 2; step++) {
        double cube = t * t * t;
        t = t * (2 * a + cube) / (a + 2 * cube);
    }
    return ((x == 0) | (a == (double)INFINITY)) ? x : with_sign((float)t, x);
}

/* As expm1_f32 and log1p_f32. 2 ulps each. */
INLINE double expm1_f64(double x) {
    reduced_f64 k = reduce_f64(x < -40 ? -40 : x > 710 ? 710 : x);
    double half = double_of((uint64_t)(k.n + 1022) << 52);
    double result = (expm1_core(k.r, false) * half + (half - 0.5)) * 2;
    return fabs(x) < 0x1p-54 ? x : result;
}

INLINE double log1p_f64(double x) {
    double sum = 1 + x, lost = x - (sum - 1);
    double result = log_f64(sum) + lost / sum;
    result = x == (double)INFINITY ? x : result;
    result = sum == 0 ? (double)-INFINITY : result;
    return copysign(result, x);
}

/* The angle of (x, y), by that below pi/8. 2 ulps. */
INLINE double atan2_f64(double y, double x) {
    double a = fabs(x), b = fabs(y), most = a > b ? a : b, least = a > b ? b : a;
    double t = least == most ? 1 : least / most;
    t = most == 0 ? 0 : t;
    bool beyond = t > 0.41421356237309503;
    t = beyond ? (t - 1) / (t + 1) : t;
    double s = t * t;
    double p = 1.630086756145922047e-2;
    p = p * s - 3.458485175370609774e-2;
    p = p * s + 4.552176889020103646e-2;
    p = p * s - 5.230589026088052670e-2;
    p = p * s + 5.878948321782069674e-2;
    p = p * s - 6.666426666405156101e-2;
    p = p * s + 7.692296480450657623e-2;
    p = p * s - 9.090908757393498282e-2;
    p = p * s + 1.111111110523935042e-1;
    p = p * s - 1.428571428566075585e-1;
    p = p * s + 1.999999999999980854e-1;
    p = p * s - 3.333333333333333322e-1;
    double angle = p * s * t + t;
    angle = beyond ? 7.85398163397448279e-1 + (angle + 3.06161699786838e-17) : angle;
    angle = b > a ? 1.57079632679489656 - (angle - 6.12323399573676604e-17) : angle;
    angle = bits_of_f64(x) >> 63 ? 3.14159265358979312 - (angle - 1.22464679914735321e-16) : angle;
    angle = ((x != x) | (y != y)) ? (double)NAN : angle;
    return copysign(angle, y);
}

/* ---- x modulo y ---- */

/* Of sizes: the nearest multiple of y is taken away, and given back if that was too much. The
 * quotient has to be below REMAINDER_LIMIT, so that the multiple, or what is left of it in a fused
 * operation, is exact; others go to the C library. */
#define REMAINDER_LIMIT 0x1p29

INLINE double nearest_f64(double x) { return (x + 0x1p52) - 0x1p52; }

INLINE float remainder_f32(float x, float y) {
    double a = (double)fabsf(x), b = (double)fabsf(y), r = a - nearest_f64(a / b) * b;
    return with_sign((float)(r < 0 ? r + b : r), x);
}

INLINE double remainder_f64(double x, double y) {
#if defined(__FMA__) || defined(__aarch64__)
    double a = fabs(x), b = fabs(y), r = __builtin_fma(-nearest_f64(a / b), b, a);
    return copysign(r < 0 ? r + b : r, x);
#else
    return fmod(x, y);
#endif
}

#endif
