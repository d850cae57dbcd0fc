#include "backend/ref/number.h"

#include <math.h>

ref_class ref_class_of(uint8_t dtype) {
    switch (shoal_dtype_kind((shoal_dtype)dtype)) {
    case 'i': return REF_I;
    case 'f': return dtype == SHOAL_F64 ? REF_D : REF_F;
    default: return REF_U;
    }
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float ref_from_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | rest << 13);
    /* A half read as float is 2^112 too small, subnormal or not. */
    float value = float_of(rest << 13) * 0x1p112f;
    return sign ? -value : value;
}

float ref_from_bfloat(uint16_t bits) { return float_of((uint32_t)bits << 16); }

/* Rounds a double to a format of 16 bits with `mantissa` explicit bits and the exponent bias
 * `bias`. All float values and all results of one operation on two values of such a format that
 * were rounded to float or double pass through here exactly once. */
static uint16_t to_small(double value, int mantissa, int bias) {
    uint64_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    uint16_t infinity = (uint16_t)(0x7fff >> mantissa << mantissa);
    if (value != value)
        return (uint16_t)(sign | infinity | 1u << (mantissa - 1) |
                          (bits >> (52 - mantissa) & ((1u << mantissa) - 1)));
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent > bias) return sign | infinity;
    /* Below the least normal number the unit stays as large as there. */
    int least = 1 - bias, unit = (exponent > least ? exponent : least) - mantissa;
    /* Scaling by a power of two is exact here; nearbyint rounds ties to even. */
    double steps = nearbyint(ldexp(fabs(value), -unit));
    uint32_t whole = (uint32_t)steps;
    /* A carry out of the mantissa moves into the exponent, up to infinity, by itself. */
    uint32_t base = exponent > least ? (uint32_t)(exponent - least) << mantissa : 0;
    return (uint16_t)(sign | (base + whole));
}

uint16_t ref_to_half(double value) { return to_small(value, 10, 15); }
uint16_t ref_to_bfloat(double value) { return to_small(value, 7, 127); }

/* The element types whose C type holds the value as it is: XX(NAME, C type, member). */
#define PLAIN(XX)                                                                                  \
    XX(I8, int8_t, i)                                                                              \
    XX(I16, int16_t, i)                                                                            \
    XX(I32, int32_t, i)                                                                            \
    XX(I64, int64_t, i)                                                                            \
    XX(U8, uint8_t, u)                                                                             \
    XX(U16, uint16_t, u)                                                                           \
    XX(U32, uint32_t, u)                                                                           \
    XX(U64, uint64_t, u)                                                                           \
    XX(F32, float, f)                                                                              \
    XX(F64, double, d)

void ref_load(ref_chunk *to, uint8_t dtype, const void *from, int64_t at, int64_t n) {
    const uint8_t *bytes = from;
    const uint16_t *words = from;
    switch (dtype) {
#define XX(NAME, type, member)                                                                     \
    case SHOAL_##NAME:                                                                             \
        for (int64_t i = 0; i < n; i++) to->member[i] = ((const type *)from)[at + i];              \
        break;
        PLAIN(XX)
#undef XX
    case SHOAL_BOOL:
        for (int64_t i = 0; i < n; i++) to->u[i] = bytes[at + i] != 0;
        break;
    case SHOAL_F16:
        for (int64_t i = 0; i < n; i++) to->f[i] = ref_from_half(words[at + i]);
        break;
    case SHOAL_BF16:
        for (int64_t i = 0; i < n; i++) to->f[i] = ref_from_bfloat(words[at + i]);
        break;
    }
}

void ref_store(const ref_chunk *from, uint8_t dtype, void *to, int64_t at, int64_t n) {
    uint8_t *bytes = to;
    uint16_t *words = to;
    switch (dtype) {
#define XX(NAME, type, member)                                                                     \
    case SHOAL_##NAME:                                                                             \
        for (int64_t i = 0; i < n; i++) ((type *)to)[at + i] = (type)from->member[i];              \
        break;
        PLAIN(XX)
#undef XX
    case SHOAL_BOOL:
        for (int64_t i = 0; i < n; i++) bytes[at + i] = from->u[i] != 0;
        break;
    case SHOAL_F16:
        for (int64_t i = 0; i < n; i++) words[at + i] = ref_to_half((double)from->f[i]);
        break;
    case SHOAL_BF16:
        for (int64_t i = 0; i < n; i++) words[at + i] = ref_to_bfloat((double)from->f[i]);
        break;
    }
}

/* A float from which storing as float16 or bfloat16 rounds as it would from `value` itself: where
 * bits are lost the last one kept is set ("round to odd"). */
static float odd_float(double value) {
    float near = (float)value;
    if ((double)near == value || value != value || fabsf(near) == INFINITY) return near;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    /* First towards zero, then odd. */
    if (fabs((double)near) > fabs(value)) bits--;
    return float_of(bits | 1);
}

/* The same for a 64-bit magnitude, which double may not hold exactly. */
static double odd_double(uint64_t magnitude) {
    if (magnitude >> 53)
        magnitude = (magnitude & ~UINT64_C(0x7ff)) | ((magnitude & 0x7ff) ? UINT64_C(0x800) : 0);
    return (double)magnitude;
}

/* The bounds of an integer type as doubles that it holds: `above` is the least power of two that it
 * does not hold. */
static int64_t to_signed(double value, int bits) {
    double above = ldexp(1, bits - 1);
    if (value != value) return 0;
    if (value >= above) return (int64_t)(UINT64_MAX >> 1 >> (64 - bits));
    if (value <= -above) return -(int64_t)(UINT64_MAX >> 1 >> (64 - bits)) - 1;
    return (int64_t)value;
}

static uint64_t to_unsigned(double value, int bits) {
    if (!(value > 0)) return 0;
    return value >= ldexp(1, bits) ? UINT64_MAX >> (64 - bits) : (uint64_t)value;
}

static double to_double(const ref_chunk *chunk, ref_class from, int64_t i, bool odd) {
    int64_t s = chunk->i[i];
    uint64_t magnitude = s < 0 ? -(uint64_t)s : (uint64_t)s;
    switch (from) {
    case REF_I:
        if (!odd) return (double)s;
        return s < 0 ? -odd_double(magnitude) : odd_double(magnitude);
    case REF_U: return odd ? odd_double(chunk->u[i]) : (double)chunk->u[i];
    case REF_F: return (double)chunk->f[i];
    default: return chunk->d[i];
    }
}

static bool is_nonzero(const ref_chunk *chunk, ref_class from, int64_t i) {
    if (from == REF_F) return chunk->f[i] != 0;
    return from == REF_D ? chunk->d[i] != 0 : chunk->u[i] != 0;
}

void ref_convert_chunk(ref_chunk *chunk, ref_class from, uint8_t dtype, int64_t n) {
    ref_class to = ref_class_of(dtype);
    int bits = 8 * (int)shoal_dtype_size((shoal_dtype)dtype);
    ref_chunk out;
    for (int64_t i = 0; i < n; i++) {
        if (dtype == SHOAL_BOOL)
            out.u[i] = is_nonzero(chunk, from, i);
        else if (to == REF_D)
            out.d[i] = to_double(chunk, from, i, false);
        else if (to == REF_F && dtype == SHOAL_F32)
            out.f[i] = (float)to_double(chunk, from, i, true);
        else if (to == REF_F)
            out.f[i] = odd_float(to_double(chunk, from, i, true));
        else if (from == REF_I || from == REF_U)
            out.u[i] = chunk->u[i]; /* wraps when it is stored */
        else if (to == REF_I)
            out.i[i] = to_signed(to_double(chunk, from, i, false), bits);
        else
            out.u[i] = to_unsigned(to_double(chunk, from, i, false), bits);
    }
    memcpy(chunk, &out, (size_t)n * sizeof *out.d); /* the union's widest */
}
