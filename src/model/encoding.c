/* The one table of encodings: plain element types, the block formats of base/block.h, and those
 * that files may have and nothing here reads (https://github.com/ggml-org/ggml, ggml.h and the
 * sizes of the `gguf` package). */
#include "model/file.h"

static const model_encoding encodings[] = {
    {"float32", 0, SHOAL_F32, 1, 4, MODEL_PLAIN},
    {"float16", 1, SHOAL_F16, 1, 2, MODEL_PLAIN},
    {"bfloat16", 30, SHOAL_BF16, 1, 2, MODEL_PLAIN},
    {"float64", 28, SHOAL_F64, 1, 8, MODEL_PLAIN},
    {"int8", 24, SHOAL_I8, 1, 1, MODEL_PLAIN},
    {"int16", 25, SHOAL_I16, 1, 2, MODEL_PLAIN},
    {"int32", 26, SHOAL_I32, 1, 4, MODEL_PLAIN},
    {"int64", 27, SHOAL_I64, 1, 8, MODEL_PLAIN},
    /* not in .gguf, but in others */
    {"bool", UINT32_MAX, SHOAL_BOOL, 1, 1, MODEL_PLAIN},
    {"uint8", UINT32_MAX, SHOAL_U8, 1, 1, MODEL_PLAIN},
    {"uint16", UINT32_MAX, SHOAL_U16, 1, 2, MODEL_PLAIN},
    {"uint32", UINT32_MAX, SHOAL_U32, 1, 4, MODEL_PLAIN},
    {"uint64", UINT32_MAX, SHOAL_U64, 1, 8, MODEL_PLAIN},
#define XX(NAME, name, number, values, bytes, fields)                                              \
    {#name, number, SHOAL_F32, values, bytes, BASE_BLOCK_##NAME},
    BASE_BLOCK_MAP(XX)
#undef XX
        {"q5_0", 6, SHOAL_F32, 32, 22, MODEL_UNREAD},
    {"q5_1", 7, SHOAL_F32, 32, 24, MODEL_UNREAD},
    {"q2_k", 10, SHOAL_F32, 256, 84, MODEL_UNREAD},
    {"q3_k", 11, SHOAL_F32, 256, 110, MODEL_UNREAD},
    {"q5_k", 13, SHOAL_F32, 256, 176, MODEL_UNREAD},
    {"iq2_xxs", 16, SHOAL_F32, 256, 66, MODEL_UNREAD},
    {"iq2_xs", 17, SHOAL_F32, 256, 74, MODEL_UNREAD},
    {"iq3_xxs", 18, SHOAL_F32, 256, 98, MODEL_UNREAD},
    {"iq1_s", 19, SHOAL_F32, 256, 50, MODEL_UNREAD},
    {"iq4_nl", 20, SHOAL_F32, 32, 18, MODEL_UNREAD},
    {"iq3_s", 21, SHOAL_F32, 256, 110, MODEL_UNREAD},
    {"iq2_s", 22, SHOAL_F32, 256, 82, MODEL_UNREAD},
    {"iq4_xs", 23, SHOAL_F32, 256, 136, MODEL_UNREAD},
    {"iq1_m", 29, SHOAL_F32, 256, 56, MODEL_UNREAD},
    {"tq1_0", 34, SHOAL_F32, 256, 54, MODEL_UNREAD},
    {"tq2_0", 35, SHOAL_F32, 256, 66, MODEL_UNREAD},
    {"mxfp4", 39, SHOAL_F32, 32, 17, MODEL_UNREAD},
};

const model_encoding *model_encoding_gguf(uint32_t number) {
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (encodings[i].gguf == number && number != UINT32_MAX) return &encodings[i];
    return NULL;
}

const model_encoding *model_encoding_plain(shoal_dtype dtype) {
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++)
        if (encodings[i].dtype == dtype && encodings[i].format == MODEL_PLAIN) return &encodings[i];
    return NULL;
}
