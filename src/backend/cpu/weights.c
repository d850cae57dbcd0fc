/* What attention does between its products, on blocks of scores of f32, compiled once per
 * instruction set. Rows are worked on in whole vectors: behind the last of the scores there is
 * room. */
#include "backend/cpu/elementary.h"

enum { LANES = CPU_LANES };

/* e^x for x <= 0; what would be below the normal range is 0. */
INLINE float weight(float x) {
    uint32_t n;
    float p = exp_parts(x, &n, 1) * float_of((n + 127) << 23);
    return x < -87 ? 0 : p;
}

INLINE int64_t whole_vectors(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* The largest of scores; NaN may be passed over, for it comes back as a weight. Those from `end` on
 * are hidden. */
INLINE float largest(float *x, int64_t end) {
    float lanes[LANES];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++) lanes[k] = -INFINITY;
    for (; i + LANES <= end; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] = lanes[k] > x[i + k] ? lanes[k] : x[i + k];
    if (i < end) {
        int32_t left = (int32_t)(end - i);
        for (int32_t k = 0; k < LANES; k++) x[i + k] = k < left ? x[i + k] : -INFINITY;
        for (int k = 0; k < LANES; k++) lanes[k] = lanes[k] > x[i + k] ? lanes[k] : x[i + k];
    }
    return largest_lane(lanes);
}

/* The same, once they are multiplied and masked; those from `end` on are hidden. */
INLINE float mask(float *x, int64_t end, float scale, const float *added, const uint8_t *seen) {
    float lanes[LANES];
    for (int k = 0; k < LANES; k++) lanes[k] = -INFINITY;
    for (int64_t i = 0; i < end; i += LANES) {
        int32_t left = end - i < LANES ? (int32_t)(end - i) : LANES;
        for (int32_t k = 0; k < LANES; k++) {
            float v = x[i + k] * scale;
            v = added ? v + added[i + k] : v;
            v = (seen && !seen[i + k]) || k >= left ? -INFINITY : v;
            x[i + k] = v;
            lanes[k] = lanes[k] > v ? lanes[k] : v;
        }
    }
    return largest_lane(lanes);
}

/* x becomes e^((x - most) * scale); returns the sum. The difference comes first, so that that of
 * the largest is 0 whatever is rounded: e^(x * scale - most) may be anything where scores are
 * large. */
INLINE float exponentials(float *x, int64_t n, float scale, float most) {
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            x[i + k] = weight((x[i + k] - most) * scale);
            lanes[k] += x[i + k];
        }
    return sum_lanes(lanes);
}

INLINE void weigh_row(const cpu_scores *s, int64_t row, float *x, int64_t n) {
    float *most = &s->most[row], so_far = *most, scale = s->scale, larger;
    int64_t end = s->seen[row];
    if (s->flags) {
        larger = mask(x, end, scale, NULL, s->flags + row * s->mask_row);
        scale = 1;
    } else if (s->added) {
        larger = mask(x, end, scale, s->added + row * s->mask_row, NULL);
        scale = 1;
    } else if (!(scale > 0)) {
        larger = mask(x, end, scale, NULL, NULL);
        scale = 1;
    } else {
        larger = largest(x, end);
    }
    *most = larger <= so_far ? so_far : larger;
    s->factor[row] = 1;
    if (*most == -INFINITY) {
        memset(x, 0, (size_t)n * sizeof *x);
        return;
    }
    float sum = exponentials(x, n, scale, *most);
    if (*most != so_far) s->factor[row] = weight((so_far - *most) * scale);
    s->sum[row] = s->sum[row] * s->factor[row] + sum;
}

INLINE void clear(float *x, int64_t from, int64_t to) {
    if (to > from) memset(x + from, 0, (size_t)(to - from) * sizeof *x);
}

void CPU_OF_SET(weigh)(const cpu_scores *s) {
    int64_t all = whole_vectors(s->n);
    for (int64_t row = 0; row < s->rows; row++) {
        float *x = s->x + row * s->row;
        int64_t n = whole_vectors(s->seen[row]);
        if (n)
            weigh_row(s, row, x, n);
        else
            s->factor[row] = 1;
        clear(x, n, all);
    }
}

/* A weight of 0, which hidden keys have, hands nothing on. */
void CPU_OF_SET(turn)(const cpu_scores *s, float *moved, const float *less) {
    int64_t all = whole_vectors(s->n);
    float scale = s->scale;
    for (int64_t row = 0; row < s->rows; row++) {
        float *x = s->x + row * s->row, *g = moved + row * s->row;
        int64_t seen = s->seen[row], n = whole_vectors(seen);
        float each = 1 / s->sum[row], away = less[row];
        bool nothing = s->sum[row] == 0;
        if (nothing && s->flags) n = seen = 0;
        for (int64_t i = 0; i < n; i += LANES)
            for (int k = 0; k < LANES; k++) {
                float w = x[i + k] * each, of = w * (g[i + k] - away) * scale;
                x[i + k] = w;
                g[i + k] = w == 0 ? 0 : of;
            }
        clear(x, nothing ? seen : n, all);
        clear(g, nothing ? seen : n, all);
    }
}

void CPU_OF_SET(scale_rows)(float *x, int64_t rows, int64_t n, const float *factors) {
    for (int64_t row = 0; row < rows; row++, x += n)
        if (factors[row] != 1)
            for (int64_t i = 0; i < n; i++) x[i] *= factors[row];
}

void CPU_OF_SET(dot_rows)(const float *x, int64_t x_row, const float *y, int64_t y_row,
                          int64_t rows, int64_t n, float *out) {
    for (int64_t row = 0; row < rows; row++, x += x_row, y += y_row) {
        float lanes[LANES] = {0}, sum = 0;
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
            for (int k = 0; k < LANES; k++) lanes[k] += x[i + k] * y[i + k];
        for (; i < n; i++) sum += x[i] * y[i];
        out[row] = sum_lanes(lanes) + sum;
    }
}
