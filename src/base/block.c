/* Block formats: their names, and the plain decoders. Every product is a value of its own, so that
 * no compiler joins it with what follows. */
#include "base/block.h"

#include <string.h>

static const shoal_block_format formats[] = {
#define XX(NAME, name, number, values, bytes, fields) {#name, values, bytes, fields},
    BASE_BLOCK_MAP(XX)
#undef XX
};

const shoal_block_format *shoal_block_format_at(uint32_t index) {
    return index < BASE_BLOCK_COUNT ? &formats[index] : NULL;
}

shoal_status shoal_block_format_find(const char *name, uint32_t *index) {
    for (uint32_t i = 0; i < BASE_BLOCK_COUNT; i++)
        if (!strcmp(name, formats[i].name)) {
            *index = i;
            return SHOAL_OK;
        }
    return base_fail(SHOAL_INVALID,
                     "unknown block format '%.32s'; known:"
#define XX(NAME, name, ...) " " #name
                     BASE_BLOCK_MAP(XX),
#undef XX
                     name);
}

float base_half_at(const uint8_t *at) {
    uint32_t half = (uint32_t)(at[0] | at[1] << 8), sign = (half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 31, part = half & 1023, bits;
    float value;
    if (exponent == 0) { /* zero and subnormals: part * 2^-24, exact in float */
        value = (float)part * 0x1p-24f;
        return sign ? -value : value;
    }
    bits = exponent == 31 ? sign | 0x7f800000 | part << 13
                          : sign | (exponent + 112) << 23 | part << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void decode_q8_0(const uint8_t *from, float *to, size_t blocks) {
    for (; blocks--; from += 34, to += 32) {
        float d = base_half_at(from);
        for (int i = 0; i < 32; i++) to[i] = (float)(int8_t)from[2 + i] * d;
    }
}

static void decode_q4_0(const uint8_t *from, float *to, size_t blocks) {
    for (; blocks--; from += 18, to += 32) {
        float d = base_half_at(from);
        for (int i = 0; i < 16; i++) {
            to[i] = (float)((from[2 + i] & 15) - 8) * d;
            to[i + 16] = (float)((from[2 + i] >> 4) - 8) * d;
        }
    }
}

static void decode_q4_1(const uint8_t *from, float *to, size_t blocks) {
    for (; blocks--; from += 20, to += 32) {
        float d = base_half_at(from), m = base_half_at(from + 2);
        for (int i = 0; i < 16; i++) {
            float low = d * (float)(from[4 + i] & 15), high = d * (float)(from[4 + i] >> 4);
            to[i] = low + m;
            to[i + 16] = high + m;
        }
    }
}

/* Scale and minimum number i of the 12 bytes: of the first four the low 6 bits of bytes i and
 * i + 4; of the others 4 bits of byte i + 4, and above them the top bits of bytes i - 4 and i. */
static void scales_q4_k(const uint8_t *s, int i, int *scale, int *minimum) {
    if (i < 4) {
        *scale = s[i] & 63;
        *minimum = s[i + 4] & 63;
    } else {
        *scale = (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
        *minimum = s[i + 4] >> 4 | (s[i] >> 6) << 4;
    }
}

static void decode_q4_k(const uint8_t *from, float *to, size_t blocks) {
    for (; blocks--; from += 144, to += 256) {
        float d = base_half_at(from), m = base_half_at(from + 2);
        for (int part = 0; part < 8; part++) {
            int scale, minimum;
            scales_q4_k(from + 4, part, &scale, &minimum);
            const uint8_t *q = from + 16 + part / 2 * 32;
            float each = d * (float)scale, less = m * (float)minimum;
            for (int i = 0; i < 32; i++) {
                float value = each * (float)(q[i] >> part % 2 * 4 & 15);
                to[part * 32 + i] = value - less;
            }
        }
    }
}

static void decode_q6_k(const uint8_t *from, float *to, size_t blocks) {
    for (; blocks--; from += 210, to += 256) {
        float d = base_half_at(from + 208);
        for (int part = 0; part < 16; part++) {
            int half = part / 8, quarter = part / 2 % 4, at = part % 2 * 16;
            const uint8_t *l = from + half * 64 + quarter % 2 * 32 + at;
            const uint8_t *h = from + 128 + half * 32 + at;
            float each = d * (float)(int8_t)from[192 + part];
            for (int i = 0; i < 16; i++) {
                int q = (l[i] >> quarter / 2 * 4 & 15) | (h[i] >> quarter * 2 & 3) << 4;
                to[part * 16 + i] = each * (float)(q - 32);
            }
        }
    }
}

base_block_decode base_block_decoder(base_block_number format) {
    static const base_block_decode decoders[] = {
#define XX(NAME, name, ...) decode_##name,
        BASE_BLOCK_MAP(XX)
#undef XX
    };
    return decoders[format];
}
