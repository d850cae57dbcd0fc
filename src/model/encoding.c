/* The one table of encodings. Block formats: ggml's, as its `gguf` package decodes them
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). */
#include "model/file.h"

#include <string.h>

static float from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, part = half & 1023;
    uint32_t bits;
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

static float half_at(const uint8_t *at) { return from_half((uint16_t)(at[0] | at[1] << 8)); }

/* q8_0: a half d, 32 signed bytes q; value = d * q. */
static void decode_q8_0(const uint8_t *from, void *to, size_t blocks) {
    float *out = to;
    for (; blocks--; from += 34, out += 32) {
        float d = half_at(from);
        for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)from[2 + i] * d;
    }
}

/* q4_0: a half d, 16 bytes with the values i and i + 16 in their low and high halves;
 * value = d * (q - 8). */
static void decode_q4_0(const uint8_t *from, void *to, size_t blocks) {
    float *out = to;
    for (; blocks--; from += 18, out += 32) {
        float d = half_at(from);
        for (int i = 0; i < 16; i++) {
            out[i] = (float)((from[2 + i] & 15) - 8) * d;
            out[i + 16] = (float)((from[2 + i] >> 4) - 8) * d;
        }
    }
}

/* q4_1: halves d and m, then as q4_0; value = d * q + m. */
static void decode_q4_1(const uint8_t *from, void *to, size_t blocks) {
    float *out = to;
    for (; blocks--; from += 20, out += 32) {
        float d = half_at(from), m = half_at(from + 2);
        for (int i = 0; i < 16; i++) {
            float low = d * (float)(from[4 + i] & 15), high = d * (float)(from[4 + i] >> 4);
            out[i] = low + m;
            out[i + 16] = high + m;
        }
    }
}

static const model_encoding encodings[] = {
    {"float32", 0, SHOAL_F32, 1, 4, NULL},
    {"float16", 1, SHOAL_F16, 1, 2, NULL},
    {"bfloat16", 30, SHOAL_BF16, 1, 2, NULL},
    {"float64", 28, SHOAL_F64, 1, 8, NULL},
    {"int8", 24, SHOAL_I8, 1, 1, NULL},
    {"int16", 25, SHOAL_I16, 1, 2, NULL},
    {"int32", 26, SHOAL_I32, 1, 4, NULL},
    {"int64", 27, SHOAL_I64, 1, 8, NULL},
    {"q8_0", 8, SHOAL_F32, 32, 34, decode_q8_0},
    {"q4_0", 2, SHOAL_F32, 32, 18, decode_q4_0},
    {"q4_1", 3, SHOAL_F32, 32, 20, decode_q4_1},
    {"q5_0", 6, SHOAL_F32, 0, 0, NULL},
    {"q5_1", 7, SHOAL_F32, 0, 0, NULL},
    {"q8_1", 9, SHOAL_F32, 0, 0, NULL},
    {"q2_k", 10, SHOAL_F32, 0, 0, NULL},
    {"q3_k", 11, SHOAL_F32, 0, 0, NULL},
    {"q4_k", 12, SHOAL_F32, 0, 0, NULL},
    {"q5_k", 13, SHOAL_F32, 0, 0, NULL},
    {"q6_k", 14, SHOAL_F32, 0, 0, NULL},
    {"q8_k", 15, SHOAL_F32, 0, 0, NULL},
    /* not in .gguf, but in .npy */
    {"bool", UINT32_MAX, SHOAL_BOOL, 1, 1, NULL},
    {"uint8", UINT32_MAX, SHOAL_U8, 1, 1, NULL},
    {"uint16", UINT32_MAX, SHOAL_U16, 1, 2, NULL},
    {"uint32", UINT32_MAX, SHOAL_U32, 1, 4, NULL},
    {"uint64", UINT32_MAX, SHOAL_U64, 1, 8, NULL},
};

const model_encoding *model_encoding_gguf(uint32_t number) {
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (encodings[i].gguf == number && number != UINT32_MAX) return &encodings[i];
    return NULL;
}

const model_encoding *model_encoding_plain(shoal_dtype dtype) {
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (encodings[i].dtype == dtype && encodings[i].block == 1) return &encodings[i];
    return NULL;
}
