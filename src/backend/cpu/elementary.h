/* Transcendental functions of one f32, in plain C that compilers turn into vector code when they
 * are in a loop. Products and sums may be contracted to one rounding where the processor has that:
 * results differ from set to set in their last bits, and from the exact ones by the ulps that each
 * states.
 *
 * Polynomials were fitted by weighted least squares on Chebyshev points, reweighted until the
 * largest relative error stopped falling (Lawson's method). */
#ifndef CPU_ELEMENTARY_H
#define CPU_ELEMENTARY_H

#include "backend/cpu/functions.h"

#include <math.h>

INLINE float with_sign(float size, float sign) {
    return float_of((bits_of(size) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

/* Adding it rounds to an integer, which is then in the lowest bits. */
#define TO_INTEGER 0x1.8p23f

/* e^x = 2^n e^r with |r| <= ln 2 / 2: n, in 9 bits below others, and (e^r - 1) / r times a power of
 * two. NaN passes through every step. */
INLINE float exp_ratio(float x, uint32_t *n, float *r, float scale) {
    float shifted = x * 1.44269504f + TO_INTEGER;
    *n = bits_of(shifted);
    float whole = shifted - TO_INTEGER;
    float rest = x - whole * 0.693359375f;
    rest = rest + whole * 2.12194440e-4f;
    *r = rest;
    float p = 1.381456815e-3f * scale;
    p = p * rest + 8.368730482e-3f * scale;
    p = p * rest + 4.166838940e-2f * scale;
    p = p * rest + 1.666652052e-1f * scale;
    p = p * rest + 4.999999344e-1f * scale;
    return p * rest + scale;
}

/* The same with e^r. */
INLINE float exp_parts(float x, uint32_t *n, float scale) {
    float r, p = exp_ratio(x, n, &r, scale);
    return p * r + scale;
}

/* 2 ulps. 2^n is applied in two halves, so that results below the normal range come out right. */
INLINE float exp_f32(float x) {
    uint32_t low;
    x = x < -104 ? -104 : x;
    float p = exp_parts(x > 89 ? 89 : x, &low, 1);
    int32_t n = (int32_t)(low - bits_of(TO_INTEGER)), half = n >> 1;
    p = p * float_of((uint32_t)(half + 127) << 23);
    return p * float_of((uint32_t)(n - half + 127) << 23);
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), in halves, so that what is too large is infinite; 2 ulps. */
INLINE float expm1_f32(float x) {
    uint32_t low;
    float bounded = x < -20 ? -20 : x > 89 ? 89 : x, r;
    float p = exp_ratio(bounded, &low, &r, 1) * r;
    float half = float_of((low - bits_of(TO_INTEGER) + 126) << 23);
    float result = (p * half + (half - 0.5f)) * 2;
    return fabsf(x) < 0x1p-25f ? x : result; /* halves of the smallest numbers are not exact */
}

/* ln x = n ln 2 + ln m with m in [sqrt(1/2), sqrt 2), and ln m = 2 atanh((m - 1) / (m + 1)); 2
 * ulps. Numbers below the normal range are scaled into it first. */
INLINE float log_f32(float x) {
    bool tiny = x < 0x1p-126f;
    float scaled = tiny ? x * 0x1p23f : x;
    uint32_t bits = bits_of(scaled) - 0x3f3504f3u; /* of sqrt(1/2) */
    int32_t n = (int32_t)bits >> 23;
    float m = float_of((bits & 0x7fffffu) + 0x3f3504f3u);
    float whole = (float)n - (tiny ? 23.0f : 0.0f);
    float f = m - 1, s = f / (2 + f), z = s * s;
    float p = 0.14798199f;
    p = p * z + 0.15313838f;
    p = p * z + 0.18183571f;
    p = p * z + 0.22222198f;
    p = p * z + 0.28571430f;
    p = p * z + 0.4f;
    p = p * z + 0.66666667f;
    float half = 0.5f * f * f;
    float low = s * (half + z * p) + whole * 9.0580006145e-6f;
    float result = whole * 0.69313812256f + (f - (half - low));
    result = x == INFINITY ? x : result;
    result = x == 0 ? -INFINITY : result;
    return x >= 0 ? result : NAN;
}

/* ln(1 + x): what the sum loses is its slope's share; 3 ulps. */
INLINE float log1p_f32(float x) {
    float sum = 1 + x, lost = x - (sum - 1);
    float result = log_f32(sum) + lost / sum;
    result = x == INFINITY ? x : result;
    result = sum == 0 ? -INFINITY : result;
    return with_sign(result, x);
}

/* The angle of (x, y), by that below pi/4; 3 ulps. */
INLINE float atan2_f32(float y, float x) {
    float a = fabsf(x), b = fabsf(y), most = a > b ? a : b, least = a > b ? b : a;
    float t = least == most ? 1 : least / most, s = t * t;
    t = most == 0 ? 0 : t;
    s = most == 0 ? 0 : s;
    float p = -2.423383853e-3f;
    p = p * s + 1.365520308e-2f;
    p = p * s - 3.611473318e-2f;
    p = p * s + 6.271114518e-2f;
    p = p * s - 8.666908717e-2f;
    p = p * s + 1.103638373e-1f;
    p = p * s - 1.427890699e-1f;
    p = p * s + 1.999975613e-1f;
    p = p * s - 3.333333187e-1f;
    float angle = p * s * t + t;
    angle = b > a ? 1.57079637f - angle - 4.37113883e-8f : angle;
    angle = bits_of(x) >> 31 ? 3.14159274f - angle - 8.74227766e-8f : angle;
    angle = ((x != x) | (y != y)) ? NAN : angle;
    return with_sign(angle, y);
}

/* e^-|x|; 2 ulps. NaN counts as infinite: the bound is one of integers, for which there are vector
 * instructions, while compilers follow the two sides of a comparison of floats. n is added to the
 * exponent of 2^64 e^r, so that results below the normal range come out right, too. */
INLINE float decay_f32(float x) {
    int32_t size = (int32_t)(bits_of(x) & 0x7fffffffu), most = (int32_t)bits_of(104);
    uint32_t n;
    float a = -float_of((uint32_t)(size < most ? size : most));
    float p = exp_parts(a, &n, 0x1p64f);
    return float_of(bits_of(p) + (n << 23)) * 0x1p-64f;
}

/* 1 / x for 1 <= x <= 2; 1 ulp. Where a product and a sum are one instruction, a division takes
 * longer than a cubic, which is off by e < 0.0018 of itself, and a step that makes this e^3. */
INLINE float reciprocal_f32(float x) {
#if defined(__FMA__) || defined(__aarch64__)
    float y = -2.2183701e-1f;
    y = y * x + 1.3310222f;
    y = y * x - 2.9393409f;
    y = y * x + 2.8284226f;
    float e = 1 - x * y;
    return y + y * (e + e * e);
#else
    return 1 / x;
#endif
}

/* 3 ulps. NaN counts as infinite: for products with x. */
INLINE float gate_f32(float x) {
    float e = decay_f32(x), y = reciprocal_f32(1 + e);
    return x < 0 ? e * y : y;
}

INLINE float logistic_f32(float x) {
    float y = gate_f32(x);
    return x == x ? y : x;
}

/* (1 - e^-2|x|) / (1 + e^-2|x|), and near 0, where that cancels, its Taylor series; 3 ulps. */
INLINE float tanh_f32(float x) {
    float a = fabsf(x), e = decay_f32(2 * a), s = x * x;
    float large = (1 - e) * reciprocal_f32(1 + e);
    float p = 62.0f / 2835 - s * (1382.0f / 155925);
    p = -17.0f / 315 + s * p;
    p = 2.0f / 15 + s * p;
    p = -1.0f / 3 + s * p;
    float small = a + a * (s * p);
    return with_sign(a >= 0.3f ? large : small, x);
}

/* erf x = x P(x^2) near 0, else 1 - e^Q(|x|); 3 ulps. */
INLINE float erf_f32(float x) {
    float a = fabsf(x), s = x * x, b = a > 4 ? 4 : a;
    float p = -5.86221409e-4f;
    p = p * s + 4.96753986e-3f;
    p = p * s - 2.67488944e-2f;
    p = p * s + 1.12813219e-1f;
    p = p * s - 3.76124461e-1f;
    p = p * s + 1.28379142e-1f;
    float q = 1.98220706e-4f;
    q = q * b - 3.06549981e-3f;
    q = q * b + 2.23152480e-2f;
    q = q * b - 1.04113745e-1f;
    q = q * b - 6.36976013e-1f;
    q = q * b - 1.12779728f;
    q = q * b - 1.66439084e-4f;
    return with_sign(a >= 0.94f ? 1 - decay_f32(q) : p * a + a, x);
}

/* The share of the normal distribution below x, (1 + erf(x / sqrt 2)) / 2 = 1/2 + x P(x^2), in
 * [0, 1], for products with x; 2 ulps of 1. From x^2 = 27.04 on it is 0 or 1. Bounds are those of
 * integers, as above. */
INLINE float normal_f32(float x) {
    const int32_t most = (int32_t)bits_of(27.04f), one = (int32_t)bits_of(1);
    int32_t square = (int32_t)bits_of(x * x);
    float s = float_of((uint32_t)(square < most ? square : most)) - 13.52f;
    float p = -9.54331094e-19f;
    p = p * s + 3.40074464e-17f;
    p = p * s - 4.42737636e-16f;
    p = p * s + 8.82134501e-15f;
    p = p * s - 3.17291468e-13f;
    p = p * s + 7.66758445e-12f;
    p = p * s - 1.51443594e-10f;
    p = p * s + 2.93981506e-09f;
    p = p * s - 5.47304104e-08f;
    p = p * s + 9.57429620e-07f;
    p = p * s - 1.61572425e-05f;
    p = p * s + 2.73671467e-04f;
    p = p * s - 5.01062581e-03f;
    p = p * s + 1.35949984e-01f;
    int32_t share = (int32_t)bits_of(0.5f + x * p);
    share = share < one ? share : one;
    return float_of((uint32_t)(share > 0 ? share : 0));
}

/* x/2 (1 + tanh y) = x / (1 + e^-2y), y = sqrt(2/pi) (x + 0.044715 x^3): D. Hendrycks, K. Gimpel,
 * Gaussian Error Linear Units. */
INLINE float gelu_tanh_f32(float x) {
    return x * gate_f32(1.5957691216f * (x + 0.044715f * (x * x * x)));
}

/* ---- sums and maxima: CPU_LANES of them side by side, joined in a fixed order ---- */

INLINE float sum_lanes(float *lanes) {
#pragma GCC unroll 8
    for (int half = CPU_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return lanes[0];
}

/* NaN may be passed over. */
INLINE float largest_lane(float *lanes) {
#pragma GCC unroll 8
    for (int half = CPU_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            lanes[k] = lanes[k] > lanes[k + half] ? lanes[k] : lanes[k + half];
    return lanes[0];
}

#endif
