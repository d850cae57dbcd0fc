/* The one table of block formats: how quantised numbers are packed. Everything that lists formats
 * is made from it: the names of shoal/types.h, encodings of files (src/model), the operation
 * `dequantize` (src/graph), Python's list and the documents.
 *
 * XX(NAME, name, number in .gguf, values, bytes, fields): a block holds `values` numbers in `bytes`
 * bytes, its fields one after the other; f16 is little endian. Names, sizes and fields are facts of
 * ggml (https://github.com/ggml-org/ggml, the structures block_* of ggml-common.h), as its `gguf`
 * package decodes them (gguf/quants.py), which the tests compare with, bit by bit. */
#ifndef BASE_BLOCK_H
#define BASE_BLOCK_H

#include "base/status.h"

#define BASE_BLOCK_MAP(XX)                                                                         \
    XX(Q8_0, q8_0, 8, 32, 34, "f16 d; i8 q[32]; value i is d * q[i]")                              \
    XX(Q4_0, q4_0, 2, 32, 18,                                                                      \
       "f16 d; u8 q[16], values i and i + 16 in the low and high bits of q[i]; value is "          \
       "d * (q - 8)")                                                                              \
    XX(Q4_1, q4_1, 3, 32, 20, "f16 d, m; u8 q[16] as q4_0; value is d * q + m")                    \
    XX(Q4_K, q4_k, 12, 256, 144,                                                                   \
       "f16 d, m; u8 s[12], a scale and a minimum of 6 bits for each 32 values; u8 q[128], for "   \
       "each 64 values 32 bytes, low and then high bits; value is d * scale * q - m * minimum")    \
    XX(Q6_K, q6_k, 14, 256, 210,                                                                   \
       "u8 l[128], for each 128 values 64 bytes, low and then high bits; u8 h[64], for each 128 "  \
       "values 32 bytes, 2 bits for each 32 of them; i8 s[16], for each 16 values; f16 d; value "  \
       "is d * s * ((h << 4 | l) - 32)")

typedef enum base_block_number {
#define XX(NAME, ...) BASE_BLOCK_##NAME,
    BASE_BLOCK_MAP(XX)
#undef XX
        BASE_BLOCK_COUNT
} base_block_number;

/* The most values of a block. */
enum { BASE_BLOCK_VALUES = 256 };

/* The values of `blocks` blocks, each rounded as the format's expression says, from the left. */
typedef void (*base_block_decode)(const uint8_t *from, float *to, size_t blocks);
base_block_decode base_block_decoder(base_block_number format);

/* The blocks of finite numbers. False where one is too large for the format's scales. */
typedef bool (*base_block_encode)(const float *from, uint8_t *to, size_t blocks);
base_block_encode base_block_encoder(base_block_number format);

/* A float16, little endian. */
float base_half_at(const uint8_t *at);

#endif
