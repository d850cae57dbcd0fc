/* Numbers to blocks. q8_0, q4_0 and q4_1 as ggml's `gguf` package does it (gguf/quants.py), in the
 * same order of operations. It has no encoder for q4_k and q6_k: theirs takes, for each part of a
 * block, the scale of least squared error among some near the obvious one, each with the scale (and
 * minimum) that fits the rounded numbers best. */
#include "base/block.h"

#include <math.h>
#include <string.h>

/* Scales that are tried for a part of a block, on each side of the obvious one, and how far one is
 * from the next, in steps of the quantised numbers. */
enum { TRIED = 9 };
static const float APART = 0.1f;

/* Rounded to float16, half to even; false when it is too large. */
static bool put_half(float value, uint8_t *to) {
    uint32_t bits, sign, half;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    float size = fabsf(value);
    if (!(size < 65520)) return false;
    if (size < 0x1p-14f) { /* subnormal: steps of 2^-24 */
        half = (uint32_t)lrintf(size * 0x1p24f);
    } else {
        uint32_t part = bits & 0x7fffffff, odd = part >> 13 & 1;
        half = ((part + 0xfff + odd) >> 13) - (112 << 10);
    }
    half |= sign;
    to[0] = (uint8_t)half;
    to[1] = (uint8_t)(half >> 8);
    return true;
}

/* 1 / x, for what is multiplied by it; 0 where that has no use. */
static float inverse(float x) {
    float inverse = x == 0 ? 0 : 1 / x;
    return isfinite(inverse) ? inverse : 0;
}

static int clip(float value, int least, int most) {
    return value <= (float)least ? least : value >= (float)most ? most : (int)value;
}

/* The number of largest magnitude, the first of equals. */
static float extreme(const float *x, int n) {
    float most = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

static bool encode_q8_0(const float *from, uint8_t *to, size_t blocks) {
    for (; blocks--; from += 32, to += 34) {
        float d = fabsf(extreme(from, 32)) / 127, id = inverse(d);
        if (!put_half(d, to)) return false;
        for (int i = 0; i < 32; i++)
            to[2 + i] = (uint8_t)(int8_t)clip(roundf(from[i] * id), -127, 127);
    }
    return true;
}

static bool encode_q4_0(const float *from, uint8_t *to, size_t blocks) {
    for (; blocks--; from += 32, to += 18) {
        float d = extreme(from, 32) / -8, id = inverse(d);
        uint8_t q[32];
        if (!put_half(d, to)) return false;
        for (int i = 0; i < 32; i++)
            q[i] = (uint8_t)clip((float)trunc((double)from[i] * (double)id + 8.5), 0, 15);
        for (int i = 0; i < 16; i++) to[2 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
    }
    return true;
}

static void range(const float *x, int n, float *least, float *most) {
    *least = *most = x[0];
    for (int i = 1; i < n; i++) {
        *least = fminf(*least, x[i]);
        *most = fmaxf(*most, x[i]);
    }
}

static bool encode_q4_1(const float *from, uint8_t *to, size_t blocks) {
    for (; blocks--; from += 32, to += 20) {
        float least, most;
        uint8_t q[32];
        range(from, 32, &least, &most);
        float d = (most - least) / 15, id = inverse(d);
        if (!put_half(d, to) || !put_half(least, to + 2)) return false;
        for (int i = 0; i < 32; i++) {
            float steps = (from[i] - least) * id; /* a value of its own, as in block.c */
            q[i] = (uint8_t)clip(truncf(steps + 0.5f), 0, 15);
        }
        for (int i = 0; i < 16; i++) to[4 + i] = (uint8_t)(q[i] | q[i + 16] << 4);
    }
    return true;
}

/* ---- parts with scales of their own ---- */

/* The scale and minimum with which x is about scale * q - minimum, q from 0 to 15. */
static void fit_q4_k(const float *x, float *scale, float *minimum) {
    float least, most, best = INFINITY;
    range(x, 32, &least, &most);
    least = fminf(least, 0); /* what is taken off is not negative */
    *scale = *minimum = 0;
    if (most <= least) {
        *minimum = -least;
        return;
    }
    for (int k = -TRIED; k <= TRIED; k++) {
        float steps = (15 + APART * (float)k) / (most - least);
        double n = 32, q1 = 0, q2 = 0, x1 = 0, xq = 0, error = 0;
        int q[32];
        for (int i = 0; i < 32; i++) {
            q[i] = clip(rintf((x[i] - least) * steps), 0, 15);
            q1 += q[i];
            q2 += q[i] * q[i];
            x1 += (double)x[i];
            xq += (double)x[i] * q[i];
        }
        double det = n * q2 - q1 * q1;
        double s = det > 0 ? (n * xq - q1 * x1) / det : 0;
        double m = det > 0 ? (s * q1 - x1) / n : 0;
        if (m < 0) {
            m = 0;
            s = q2 > 0 ? xq / q2 : 0;
        }
        if (!(s > 0)) continue;
        for (int i = 0; i < 32; i++) {
            double off = s * q[i] - m - (double)x[i];
            error += off * off;
        }
        if (!(error < (double)best)) continue;
        best = (float)error;
        *scale = (float)s;
        *minimum = (float)m;
    }
}

/* As the decoder reads them. */
static void put_scales(uint8_t *s, int i, int scale, int minimum) {
    if (i < 4) {
        s[i] |= (uint8_t)scale;
        s[i + 4] |= (uint8_t)minimum;
    } else {
        s[i + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        s[i - 4] |= (uint8_t)(scale >> 4 << 6);
        s[i] |= (uint8_t)(minimum >> 4 << 6);
    }
}

static bool encode_q4_k(const float *from, uint8_t *to, size_t blocks) {
    for (; blocks--; from += 256, to += 144) {
        float scale[8], minimum[8], most = 0, least = 0;
        for (int part = 0; part < 8; part++) {
            fit_q4_k(from + part * 32, &scale[part], &minimum[part]);
            most = fmaxf(most, scale[part]);
            least = fmaxf(least, minimum[part]);
        }
        memset(to, 0, 144);
        if (!put_half(most / 63, to) || !put_half(least / 63, to + 2)) return false;
        float d = base_half_at(to), m = base_half_at(to + 2);
        for (int part = 0; part < 8; part++) {
            int s = clip(rintf(scale[part] * inverse(d)), 0, 63);
            int t = clip(rintf(minimum[part] * inverse(m)), 0, 63);
            float each = d * (float)s, less = m * (float)t;
            put_scales(to + 4, part, s, t);
            for (int i = 0; i < 32; i++) {
                int q = clip(rintf((from[part * 32 + i] + less) * inverse(each)), 0, 15);
                to[16 + part / 2 * 32 + i] |= (uint8_t)(q << part % 2 * 4);
            }
        }
    }
    return true;
}

/* The scale with which x is about scale * q, q from -32 to 31. */
static float fit_q6_k(const float *x) {
    float most = extreme(x, 16), found = 0;
    double best = INFINITY;
    if (most == 0) return 0;
    for (int k = -TRIED; k <= TRIED; k++) {
        float steps = -(32 + APART * (float)k) / most;
        double qq = 0, xq = 0, xx = 0;
        for (int i = 0; i < 16; i++) {
            double q = clip(rintf(x[i] * steps), -32, 31);
            qq += q * q;
            xq += (double)x[i] * q;
            xx += (double)x[i] * (double)x[i];
        }
        if (!(qq > 0)) continue;
        double error = xx - xq * xq / qq;
        if (!(error < best)) continue;
        best = error;
        found = (float)(xq / qq);
    }
    return found;
}

static bool encode_q6_k(const float *from, uint8_t *to, size_t blocks) {
    for (; blocks--; from += 256, to += 210) {
        float scale[16];
        for (int part = 0; part < 16; part++) scale[part] = fit_q6_k(from + part * 16);
        memset(to, 0, 210);
        if (!put_half(extreme(scale, 16) / -128, to + 208)) return false;
        float d = base_half_at(to + 208);
        for (int part = 0; part < 16; part++) {
            int half = part / 8, quarter = part / 2 % 4, at = part % 2 * 16;
            int s = clip(rintf(scale[part] * inverse(d)), -128, 127);
            float each = d * (float)s;
            uint8_t *l = to + half * 64 + quarter % 2 * 32 + at;
            uint8_t *h = to + 128 + half * 32 + at;
            to[192 + part] = (uint8_t)(int8_t)s;
            for (int i = 0; i < 16; i++) {
                int q = clip(rintf(from[part * 16 + i] * inverse(each)), -32, 31) + 32;
                l[i] |= (uint8_t)((q & 15) << quarter / 2 * 4);
                h[i] |= (uint8_t)(q >> 4 << quarter * 2);
            }
        }
    }
    return true;
}

base_block_encode base_block_encoder(base_block_number format) {
    static const base_block_encode encoders[] = {
#define XX(NAME, name, ...) encode_##name,
        BASE_BLOCK_MAP(XX)
#undef XX
    };
    return encoders[format];
}
