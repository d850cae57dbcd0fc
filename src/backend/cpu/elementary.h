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

#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE float with_sign(float size, float sign) {
    return float_of((bits_of(size) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2: n, and e^r. NaN passes through every step. */
INLINE float exp_parts(float x, int32_t *n) {
    const float magic = 12582912; /* 1.5 * 2^23: adding it rounds to an integer */
    float shifted = x * 1.44269504f + magic;
    *n = (int32_t)(bits_of(shifted) - bits_of(magic));
    float whole = shifted - magic;
    float r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    float p = 1.381456815e-3f;
    p = p * r + 8.368730482e-3f;
    p = p * r + 4.166838940e-2f;
    p = p * r + 1.666652052e-1f;
    p = p * r + 4.999999344e-1f;
    return p * (r * r) + r + 1;
}

/* 2 ulps. 2^n is applied in two halves, so that results below the normal range come out right. */
INLINE float exp_f32(float x) {
    int32_t n;
    x = x < -104 ? -104 : x;
    float p = exp_parts(x > 89 ? 89 : x, &n);
    int32_t half = n >> 1;
    p = p * float_of((uint32_t)(half + 127) << 23);
    return p * float_of((uint32_t)(n - half + 127) << 23);
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

/* 3 ulps. */
INLINE float logistic_f32(float x) {
    float e = exp_f32(-fabsf(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* (1 - e^-2|x|) / (1 + e^-2|x|), and near 0, where that cancels, its Taylor series; 3 ulps. */
INLINE float tanh_f32(float x) {
    float a = fabsf(x), e = exp_f32(-2 * a), s = x * x;
    float large = (1 - e) / (1 + e);
    float p = 62.0f / 2835 - s * (1382.0f / 155925);
    p = -17.0f / 315 + s * p;
    p = 2.0f / 15 + s * p;
    p = -1.0f / 3 + s * p;
    float small = a + a * (s * p);
    return with_sign(a < 0.3f ? small : large, x);
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
    return with_sign(a < 0.94f ? p * a + a : 1 - exp_f32(q), x);
}

/* For gelu, of which it is a summand beside 1: erf x = x P(x^2) / Q(x^2) for |x| <= 4, beyond which
 * it is 1 in f32; 6 ulps. */
INLINE float erf_ratio_f32(float x) {
    float c = x < -4 ? -4 : x;
    c = c > 4 ? 4 : c;
    float s = c * c;
    float p = 1.911135506e-08f;
    p = p * s - 1.942297106e-06f;
    p = p * s + 1.472781763e-04f;
    p = p * s + 3.990198890e-03f;
    p = p * s + 5.152367103e-02f;
    p = p * s + 2.071162987e-01f;
    p = p * s + 1.128379094e+00f;
    float q = 1.021024573e-03f;
    q = q * s + 1.495729957e-02f;
    q = q * s + 1.179670231e-01f;
    q = q * s + 5.168832908e-01f;
    q = q * s + 1;
    float y = c * p / q;
    y = y < -1 ? -1 : y;
    return y > 1 ? 1 : y;
}

/* x/2 (1 + tanh y) = x / (1 + e^-2y), y = sqrt(2/pi) (x + 0.044715 x^3): D. Hendrycks, K. Gimpel,
 * Gaussian Error Linear Units. */
INLINE float gelu_tanh_f32(float x) {
    return x * logistic_f32(1.5957691216f * (x + 0.044715f * (x * x * x)));
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
