/* Kernels of composites along rows of f32, and of their gradients, compiled once per instruction
 * set. Sums have 32 lanes side by side, joined in a fixed order. */
#include "backend/cpu/elementary.h"

enum { LANES = CPU_LANES };

/* The sum of an expression of v = x[i]. */
#define SUM(name, expression)                                                                      \
    INLINE float name(const float *x, int64_t n, float mean) {                                     \
        float lanes[LANES] = {0}, sum = 0;                                                         \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int k = 0; k < LANES; k++) {                                                      \
                float v = x[i + k];                                                                \
                lanes[k] += expression;                                                            \
            }                                                                                      \
        for (; i < n; i++) {                                                                       \
            float v = x[i];                                                                        \
            sum += expression;                                                                     \
        }                                                                                          \
        return sum_lanes(lanes) + sum;                                                             \
    }
SUM(sum_of, v)
SUM(sum_of_squares, v *v)
SUM(sum_of_deviations, (v - mean) * (v - mean))
SUM(sum_of_exponentials, exp_f32(v - mean))

/* The sum of g[i] (x[i] - mean) scale[i], and with `alone` that of g[i] scale[i]; without a scale
 * it is 1. */
INLINE float sum_of_products(const float *g, const float *x, const float *scale, int64_t n,
                             float mean, float *alone) {
    float lanes[LANES] = {0}, others[LANES] = {0}, sum = 0, other = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float h = scale ? g[i + k] * scale[i + k] : g[i + k];
            lanes[k] += h * (x[i + k] - mean);
            if (alone) others[k] += h;
        }
    for (; i < n; i++) {
        float h = scale ? g[i] * scale[i] : g[i];
        sum += h * (x[i] - mean);
        if (alone) other += h;
    }
    if (alone) *alone = sum_lanes(others) + other;
    return sum_lanes(lanes) + sum;
}

/* NaN may be passed over, for it comes back as a power. */
INLINE float largest(const float *x, int64_t n) {
    float lanes[LANES], most = -INFINITY;
    int64_t i = 0;
    for (int k = 0; k < LANES; k++) lanes[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] = lanes[k] > x[i + k] ? lanes[k] : x[i + k];
    for (; i < n; i++) most = most > x[i] ? most : x[i];
    float others = largest_lane(lanes);
    return most > others ? most : others;
}

/* ---- softmax ---- */

void CPU_OF_SET(softmax)(const cpu_row_call *c) {
    const float *x = c->x;
    float *out = c->out, most = largest(x, c->n);
    for (int64_t i = 0; i < c->n; i++) out[i] = exp_f32(x[i] - most);
    float each = 1 / sum_of(out, c->n, 0);
    for (int64_t i = 0; i < c->n; i++) out[i] = out[i] * each;
}

void CPU_OF_SET(log_softmax)(const cpu_row_call *c) {
    const float *x = c->x;
    float *out = c->out, most = largest(x, c->n);
    float less = log_f32(sum_of_exponentials(x, c->n, most));
    for (int64_t i = 0; i < c->n; i++) out[i] = x[i] - most - less;
}

/* y (g - sum of g y), y being c->x */
void CPU_OF_SET(softmax_gradient)(const cpu_row_call *c) {
    const float *g = c->g, *y = c->x;
    float *out = c->out, sum = sum_of_products(g, y, NULL, c->n, 0, NULL);
    for (int64_t i = 0; i < c->n; i++) out[i] = y[i] * (g[i] - sum);
}

/* ---- cross-entropy: a result, and an element of g, per row ---- */

void CPU_OF_SET(cross_entropy)(const cpu_row_call *c) {
    const float *x = c->x;
    float most = largest(x, c->n), less = log_f32(sum_of_exponentials(x, c->n, most));
    bool is_class = c->label >= 0 && c->label < c->n;
    *c->out = is_class ? less - (x[c->label] - most) : NAN;
}

void CPU_OF_SET(cross_entropy_gradient)(const cpu_row_call *c) {
    const float *x = c->x, g = *c->g;
    float *out = c->out, most = largest(x, c->n);
    for (int64_t i = 0; i < c->n; i++) out[i] = exp_f32(x[i] - most);
    float sum = sum_of(out, c->n, 0), each = g / sum;
    bool is_class = c->label >= 0 && c->label < c->n;
    float at_label = is_class ? g * (out[c->label] / sum - 1) : 0;
    for (int64_t i = 0; i < c->n; i++) out[i] = out[i] * each;
    if (is_class) out[c->label] = at_label;
}

/* ---- norms ---- */

void CPU_OF_SET(rms_norm)(const cpu_row_call *c) {
    const float *x = c->x, *s = c->scale;
    float *out = c->out, squares = sum_of_squares(x, c->n, 0);
    float each = 1 / sqrtf(squares / (float)c->n + (float)c->epsilon);
    if (s)
        for (int64_t i = 0; i < c->n; i++) out[i] = x[i] * each * s[i];
    else
        for (int64_t i = 0; i < c->n; i++) out[i] = x[i] * each;
}

/* What a row is multiplied by to be normal, once its mean is taken away. */
INLINE float to_normal(const cpu_row_call *c, bool centred, float *mean) {
    *mean = centred ? sum_of(c->x, c->n, 0) / (float)c->n : 0;
    float squares = centred ? sum_of_deviations(c->x, c->n, *mean) : sum_of_squares(c->x, c->n, 0);
    return 1 / sqrtf(squares / (float)c->n + (float)c->epsilon);
}

void CPU_OF_SET(layer_norm)(const cpu_row_call *c) {
    const float *x = c->x, *s = c->scale, *b = c->bias;
    float *out = c->out, mean, each = to_normal(c, true, &mean);
    for (int64_t i = 0; i < c->n; i++) {
        float y = (x[i] - mean) * each;
        y = s ? y * s[i] : y;
        out[i] = b ? y + b[i] : y;
    }
}

/* r (h - mean(h) - u mean(h u)) with u = (x - mean) r and h = g scale. */
INLINE void norm_gradient(const cpu_row_call *c, const float *scale, bool centred) {
    const float *g = c->g, *x = c->x;
    float *out = c->out, mean, sum = 0, r = to_normal(c, centred, &mean), n = (float)c->n;
    float products = sum_of_products(g, x, scale, c->n, mean, centred ? &sum : NULL);
    float shared = products * r * r / n, less = sum / n;
    for (int64_t i = 0; i < c->n; i++) {
        float h = scale ? g[i] * scale[i] : g[i];
        out[i] = r * (h - less - (x[i] - mean) * shared);
    }
}

void CPU_OF_SET(rms_norm_gradient)(const cpu_row_call *c) {
    if (c->scale)
        norm_gradient(c, c->scale, false);
    else
        norm_gradient(c, NULL, false);
}

void CPU_OF_SET(layer_norm_gradient)(const cpu_row_call *c) {
    if (c->scale)
        norm_gradient(c, c->scale, true);
    else
        norm_gradient(c, NULL, true);
}

/* Adds g u to the result. */
INLINE void add_products(const cpu_row_call *c, bool centred) {
    const float *g = c->g, *x = c->x;
    float *out = c->out, mean, r = to_normal(c, centred, &mean);
    for (int64_t i = 0; i < c->n; i++) out[i] += g[i] * ((x[i] - mean) * r);
}

void CPU_OF_SET(rms_norm_scale_gradient)(const cpu_row_call *c) { add_products(c, false); }
void CPU_OF_SET(layer_norm_scale_gradient)(const cpu_row_call *c) { add_products(c, true); }
