/* Maps of f32 by the functions of elementary.h. */
#include "backend/cpu/elementary.h"

enum { BLOCK = 64 };

#define MAP(name, expression)                                                                      \
    void CPU_OF_SET(name)(void *to, const void *const *in, int64_t n, unsigned scalars,            \
                          const char *ahead) {                                                     \
        float *out = to;                                                                           \
        const float *a = in[0];                                                                    \
        int64_t i = 0;                                                                             \
        for (; i + BLOCK <= n; i += BLOCK) {                                                       \
            for (int k = 0; ahead && k < BLOCK; k += 16) __builtin_prefetch(ahead + (i + k) * 4);  \
            for (int k = 0; k < BLOCK; k++) {                                                      \
                float x = a[i + k];                                                                \
                out[i + k] = expression;                                                           \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            float x = a[i];                                                                        \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }
MAP(exponential, exp_f32(x))
MAP(exponential_minus_one, expm1_f32(x))
MAP(log, log_f32(x))
MAP(log_plus_one, log1p_f32(x))
MAP(tanh, tanh_f32(x))
MAP(logistic, logistic_f32(x))
MAP(erf, erf_f32(x))
MAP(silu, x *gate_f32(x))
MAP(gelu, x *normal_f32(x))
MAP(gelu_tanh, gelu_tanh_f32(x))

/* ---- gradients: of g = the first operand and x = the second, either of which may be for all ----
 */

INLINE float silu_slope(float x) {
    float s = gate_f32(x);
    return s * (1 + x * (1 - s));
}

/* Phi(x) + x phi(x) */
INLINE float gelu_slope(float x) {
    float bell = 0.3989422804f * decay_f32(0.5f * (x * x));
    return normal_f32(x) + x * bell;
}

INLINE float gelu_tanh_slope(float x) {
    float square = x * x, s = gate_f32(1.5957691216f * x * (1 + 0.044715f * square));
    return s + x * (s * (1 - s)) * (1.5957691216f * (1 + 0.134145f * square));
}

#define GRADIENT(name, slope)                                                                      \
    void CPU_OF_SET(name)(void *to, const void *const *in, int64_t n, unsigned scalars,            \
                          const char *ahead) {                                                     \
        float *out = to, steps[2][BLOCK];                                                          \
        for (int k = 0; k < BLOCK; k++) {                                                          \
            steps[0][k] = n ? *(const float *)in[0] : 0;                                           \
            steps[1][k] = n ? *(const float *)in[1] : 0;                                           \
        }                                                                                          \
        for (int64_t i = 0, some; i < n; i += some) {                                              \
            const float *g = scalars & 1 ? steps[0] : (const float *)in[0] + i;                    \
            const float *x = scalars & 2 ? steps[1] : (const float *)in[1] + i;                    \
            some = n - i < BLOCK ? n - i : BLOCK;                                                  \
            for (int k = 0; ahead && k < some; k += 16) __builtin_prefetch(ahead + (i + k) * 4);   \
            if (some == BLOCK)                                                                     \
                for (int k = 0; k < BLOCK; k++) out[i + k] = g[k] * slope(x[k]);                   \
            else                                                                                   \
                for (int64_t k = 0; k < some; k++) out[i + k] = g[k] * slope(x[k]);                \
        }                                                                                          \
    }
GRADIENT(silu_gradient, silu_slope)
GRADIENT(gelu_gradient, gelu_slope)
GRADIENT(gelu_tanh_gradient, gelu_tanh_slope)
