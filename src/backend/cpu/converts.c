/* Conversions between element types. */
#include "backend/cpu/loops.h"

#include <math.h>

#ifdef __F16C__
#include <immintrin.h>
#elif defined(CPU_NEON)
#include <arm_neon.h>
#endif

/* Eight at a time by instructions that do the same. */
#define BY_EIGHT(name, type, result, eight, one)                                                   \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        const type *from = in[0];                                                                  \
        result *out = to;                                                                          \
        int64_t i = 0;                                                                             \
        for (; i + 8 <= n; i += 8) eight(from + i, out + i);                                       \
        for (; i < n; i++) out[i] = one(from[i]);                                                  \
    }

#ifdef __F16C__
INLINE void widen_halves(const uint16_t *from, float *to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
}

INLINE void narrow_halves(const float *from, uint16_t *to) {
    _mm_storeu_si128((void *)to, _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(CPU_NEON)
INLINE void widen_halves(const uint16_t *from, float *to) {
    float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(from));
    vst1q_f32(to, vcvt_f32_f16(vget_low_f16(x)));
    vst1q_f32(to + 4, vcvt_high_f32_f16(x));
}

INLINE void narrow_halves(const float *from, uint16_t *to) {
    float16x4_t low = vcvt_f16_f32(vld1q_f32(from));
    vst1q_u16(to, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(from + 4))));
}
#endif

#if defined(__F16C__) || defined(CPU_NEON)
BY_EIGHT(f16_to_f32, uint16_t, float, widen_halves, widen_half)
BY_EIGHT(f32_to_f16, float, uint16_t, narrow_halves, narrow_half)
#else
UNARY(f16_to_f32, uint16_t, float, widen_half(x))
UNARY(f32_to_f16, float, uint16_t, narrow_half(x))
#endif

UNARY(f32_to_bf16, float, uint16_t, narrow_bfloat(x))
UNARY(bf16_to_f32, uint16_t, float, widen_bfloat(x))
UNARY(f16_to_f64, uint16_t, double, widen_half(x))
UNARY(bf16_to_f64, uint16_t, double, widen_bfloat(x))
UNARY(f16_to_bf16, uint16_t, uint16_t, narrow_bfloat(widen_half(x)))
UNARY(bf16_to_f16, uint16_t, uint16_t, narrow_half(widen_bfloat(x)))
UNARY(f16_to_bool, uint16_t, uint8_t, (x & 0x7fff) != 0)
#define bf16_to_bool f16_to_bool
UNARY(f32_to_bool, float, uint8_t, x != 0)
UNARY(f64_to_bool, double, uint8_t, x != 0)
UNARY(f32_to_f64, float, double, x)
UNARY(f64_to_f32, double, float, x)

/* A float from which rounding once more gives what rounding at once would: where bits are lost the
 * last one that is kept is set. */
INLINE float odd_float(double value) {
    float near = (float)value;
    bool kept = ((double)near == value) | (value != value) | (near - near != 0);
    uint32_t over = fabs((double)near) > fabs(value), bits = (bits_of(near) - over) | 1;
    return kept ? near : float_of(bits);
}

/* The same of integers that double may not hold. */
INLINE double odd_double(uint64_t size, bool below) {
    uint64_t lost = size & 0x7ff, kept = (size ^ lost) | (lost ? 0x800 : 0);
    double value = (double)(size >> 53 ? kept : size);
    return below ? -value : value;
}
UNARY(f64_to_f16, double, uint16_t, narrow_half(odd_float(x)))
UNARY(f64_to_bf16, double, uint16_t, narrow_bfloat(odd_float(x)))

/* ---- integers: wrap; bool is x != 0 ---- */

/* INTEGERS may not stand inside itself, so the types to convert from have a list of their own. */
#define SOURCES(XX)                                                                                \
    XX(i8, int8_t)                                                                                 \
    XX(i16, int16_t)                                                                               \
    XX(i32, int32_t)                                                                               \
    XX(i64, int64_t)                                                                               \
    XX(u8, uint8_t)                                                                                \
    XX(u16, uint16_t)                                                                              \
    XX(u32, uint32_t)                                                                              \
    XX(u64, uint64_t)
#define INTEGERS(XX, from, type)                                                                   \
    XX(from, type, i8, int8_t)                                                                     \
    XX(from, type, i16, int16_t)                                                                   \
    XX(from, type, i32, int32_t)                                                                   \
    XX(from, type, i64, int64_t)                                                                   \
    XX(from, type, u8, uint8_t)                                                                    \
    XX(from, type, u16, uint16_t)                                                                  \
    XX(from, type, u32, uint32_t)                                                                  \
    XX(from, type, u64, uint64_t)
#define CAST(from, type, name, result) UNARY(from##_to_##name, type, result, x)
#define FROM_INTEGER(from, type)                                                                   \
    INTEGERS(CAST, from, type)                                                                     \
    UNARY(from##_to_bool, type, uint8_t, x != 0)                                                   \
    UNARY(from##_to_f32, type, float, x)                                                           \
    UNARY(from##_to_f64, type, double, x)
SOURCES(FROM_INTEGER)

/* These fit float without rounding. */
#define TO_SMALL(from, type)                                                                       \
    UNARY(from##_to_f16, type, uint16_t, narrow_half((float)x))                                    \
    UNARY(from##_to_bf16, type, uint16_t, narrow_bfloat((float)x))
TO_SMALL(i8, int8_t)
TO_SMALL(i16, int16_t)
TO_SMALL(u8, uint8_t)
TO_SMALL(u16, uint16_t)
#define TO_ODD(from, type, value)                                                                  \
    UNARY(from##_to_f16, type, uint16_t, narrow_half(odd_float(value)))                            \
    UNARY(from##_to_bf16, type, uint16_t, narrow_bfloat(odd_float(value)))
TO_ODD(i32, int32_t, x)
TO_ODD(u32, uint32_t, x)
TO_ODD(i64, int64_t, odd_double(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x < 0))
TO_ODD(u64, uint64_t, odd_double(x, false))

/* ---- from bool ---- */

#define FROM_BOOL(name, type) UNARY(bool_to_##name, uint8_t, type, x != 0)
SOURCES(FROM_BOOL)
UNARY(bool_to_bool, uint8_t, uint8_t, x != 0)
UNARY(bool_to_f32, uint8_t, float, x != 0)
UNARY(bool_to_f64, uint8_t, double, x != 0)
UNARY(bool_to_f16, uint8_t, uint16_t, x ? 0x3c00 : 0)
UNARY(bool_to_bf16, uint8_t, uint16_t, x ? 0x3f80 : 0)

/* ---- from floating point: towards zero, saturating; NaN becomes 0 ---- */

/* The largest float of a type is what it holds of the bound below the power of two. */
#define SATURATE(from, type, value, name, result, by, least, above, most)                          \
    UNARY(from##_to_##name, type, result,                                                          \
          (value) != (value)   ? (result)0                                                         \
          : (value) <= (least) ? (result)(least)                                                   \
          : (value) >= (above) ? (result)(most)                                                    \
                               : (result)(by)(value))
#define FROM_FLOAT(from, type, value)                                                              \
    SATURATE(from, type, value, i8, int8_t, int32_t, -128, 128, INT8_MAX)                          \
    SATURATE(from, type, value, i16, int16_t, int32_t, -32768, 32768, INT16_MAX)                   \
    SATURATE(from, type, value, i32, int32_t, int32_t, -0x1p31f, 0x1p31f, INT32_MAX)               \
    SATURATE(from, type, value, i64, int64_t, int64_t, -0x1p63f, 0x1p63f, INT64_MAX)               \
    SATURATE(from, type, value, u8, uint8_t, int32_t, 0, 256, UINT8_MAX)                           \
    SATURATE(from, type, value, u16, uint16_t, int32_t, 0, 65536, UINT16_MAX)                      \
    SATURATE(from, type, value, u32, uint32_t, int64_t, 0, 0x1p32f, UINT32_MAX)                    \
    SATURATE(from, type, value, u64, uint64_t, uint64_t, 0, 0x1p64f, UINT64_MAX)
FROM_FLOAT(f32, float, x)
FROM_FLOAT(f64, double, x)
FROM_FLOAT(f16, uint16_t, widen_half(x))
FROM_FLOAT(bf16, uint16_t, widen_bfloat(x))

/* ---- the table ---- */

#define TO_INTEGERS(from)                                                                          \
    [SHOAL_I8] = from##_to_i8, [SHOAL_I16] = from##_to_i16, [SHOAL_I32] = from##_to_i32,           \
    [SHOAL_I64] = from##_to_i64, [SHOAL_U8] = from##_to_u8, [SHOAL_U16] = from##_to_u16,           \
    [SHOAL_U32] = from##_to_u32, [SHOAL_U64] = from##_to_u64, [SHOAL_BOOL] = from##_to_bool
#define TO_FLOATS(from) [SHOAL_F32] = from##_to_f32, [SHOAL_F64] = from##_to_f64
#define TO_HALVES(from) [SHOAL_F16] = from##_to_f16, [SHOAL_BF16] = from##_to_bf16

const cpu_map_kernel CPU_OF_SET(converts)[SHOAL_DTYPE_COUNT][SHOAL_DTYPE_COUNT] = {
    [SHOAL_BOOL] = {TO_INTEGERS(bool), TO_FLOATS(bool), TO_HALVES(bool)},
    [SHOAL_I8] = {TO_INTEGERS(i8), TO_FLOATS(i8), TO_HALVES(i8)},
    [SHOAL_I16] = {TO_INTEGERS(i16), TO_FLOATS(i16), TO_HALVES(i16)},
    [SHOAL_I32] = {TO_INTEGERS(i32), TO_FLOATS(i32), TO_HALVES(i32)},
    [SHOAL_I64] = {TO_INTEGERS(i64), TO_FLOATS(i64), TO_HALVES(i64)},
    [SHOAL_U8] = {TO_INTEGERS(u8), TO_FLOATS(u8), TO_HALVES(u8)},
    [SHOAL_U16] = {TO_INTEGERS(u16), TO_FLOATS(u16), TO_HALVES(u16)},
    [SHOAL_U32] = {TO_INTEGERS(u32), TO_FLOATS(u32), TO_HALVES(u32)},
    [SHOAL_U64] = {TO_INTEGERS(u64), TO_FLOATS(u64), TO_HALVES(u64)},
    [SHOAL_F16] = {TO_INTEGERS(f16), TO_FLOATS(f16), [SHOAL_BF16] = f16_to_bf16},
    [SHOAL_BF16] = {TO_INTEGERS(bf16), TO_FLOATS(bf16), [SHOAL_F16] = bf16_to_f16},
    [SHOAL_F32] = {TO_INTEGERS(f32), TO_HALVES(f32), [SHOAL_F64] = f32_to_f64},
    [SHOAL_F64] = {TO_INTEGERS(f64), TO_HALVES(f64), [SHOAL_F32] = f64_to_f32},
};
