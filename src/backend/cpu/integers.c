/* Maps over the integers and bool, and select, which moves elements of any type. Results wrap, by
 * way of unsigned arithmetic. All sets give the reference's bits. */
#include "backend/cpu/loops.h"

/* ---- all integer types: XX(name, type, unsigned type that holds products) ---- */

#define SIGNED(XX)                                                                                 \
    XX(i8, int8_t, uint32_t)                                                                       \
    XX(i16, int16_t, uint32_t)                                                                     \
    XX(i32, int32_t, uint32_t)                                                                     \
    XX(i64, int64_t, uint64_t)
#define UNSIGNED(XX)                                                                               \
    XX(u8, uint8_t, uint32_t)                                                                      \
    XX(u16, uint16_t, uint32_t)                                                                    \
    XX(u32, uint32_t, uint32_t)                                                                    \
    XX(u64, uint64_t, uint64_t)

/* With the same bits for signed and unsigned numbers: these are of the latter. */
#define SIGNLESS(name, type, wide)                                                                 \
    BINARY(add_##name, type, type, (wide)x + (wide)y)                                              \
    BINARY(subtract_##name, type, type, (wide)x - (wide)y)                                         \
    BINARY(multiply_##name, type, type, (wide)x *(wide)y)                                          \
    BINARY(and_##name, type, type, x &y)                                                           \
    BINARY(or_##name, type, type, x | y)                                                           \
    BINARY(xor_##name, type, type, x ^ y)                                                          \
    UNARY(not_##name, type, type, ~x)                                                              \
    BINARY(equal_##name, type, uint8_t, x == y)                                                    \
    BINARY(unequal_##name, type, uint8_t, x != y)
UNSIGNED(SIGNLESS)

/* By as many bits as the element has, or more, or by a negative number: zeros, or the sign. */
#define SHIFT(name, type, with_sign, bits)                                                         \
    BINARY(shift_left_##name, type, type, y < bits ? (type)(x << (y % bits)) : 0)                  \
    BINARY(shift_logical_##name, type, type, y < bits ? (type)(x >> (y % bits)) : 0)               \
    BINARY(shift_sign_##name, type, type, (with_sign)x >> (y < bits ? y : bits - 1))
SHIFT(u8, uint8_t, int8_t, 8)
SHIFT(u16, uint16_t, int16_t, 16)
SHIFT(u32, uint32_t, int32_t, 32)
SHIFT(u64, uint64_t, int64_t, 64)

/* Bits that are set: sums of neighbours, twice as wide each time; the product adds up its bytes. */
INLINE uint64_t count_bits_64(uint64_t x) {
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    return ((x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) * UINT64_C(0x0101010101010101) >> 56;
}
INLINE uint32_t count_bits(uint32_t x) {
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}
/* All bits from the highest that is set on. */
INLINE uint64_t smear_64(uint64_t x) {
    x |= x >> 1;
    x |= x >> 2;
    x |= x >> 4;
    x |= x >> 8;
    x |= x >> 16;
    return x | x >> 32;
}
INLINE uint32_t smear(uint32_t x) { return (uint32_t)smear_64(x); }
#define COUNTS(name, type, count, all, bits)                                                       \
    UNARY(popcnt_##name, type, type, count(x))                                                     \
    UNARY(leading_zeros_##name, type, type, bits - count(all(x)))
COUNTS(u8, uint8_t, count_bits, smear, 8)
COUNTS(u16, uint16_t, count_bits, smear, 16)
COUNTS(u32, uint32_t, count_bits, smear, 32)
COUNTS(u64, uint64_t, count_bits_64, smear_64, 64)

#define ORDERED(name, type, wide)                                                                  \
    BINARY(maximum_##name, type, type, x > y ? x : y)                                              \
    BINARY(minimum_##name, type, type, x < y ? x : y)                                              \
    BINARY(less_##name, type, uint8_t, x < y)                                                      \
    BINARY(at_most_##name, type, uint8_t, x <= y)                                                  \
    BINARY(greater_##name, type, uint8_t, x > y)                                                   \
    BINARY(at_least_##name, type, uint8_t, x >= y)                                                 \
    TERNARY(clamp_##name, type, (y > x ? y : x) < z ? (y > x ? y : x) : z)
SIGNED(ORDERED)
UNSIGNED(ORDERED)

INLINE uint64_t whole_power(uint64_t x, uint64_t y) {
    uint64_t result = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) result *= x;
    return result;
}

/* One over x, rounded towards zero, to a negative power. */
INLINE uint64_t signed_power(int64_t x, int64_t y) {
    if (y >= 0) return whole_power((uint64_t)x, (uint64_t)y);
    return x == 1 || (x == -1 && y % 2 == 0) ? 1 : x == -1 ? UINT64_MAX : 0;
}

/* Division by zero: all bits set, and x is left; the least number by -1: itself. */
#define SIGNED_ONLY(name, type, wide)                                                              \
    UNARY(negate_##name, type, type, 0 - (wide)x)                                                  \
    UNARY(sign_##name, type, type, (x > 0) - (x < 0))                                              \
    UNARY(absolute_##name, type, type, x < 0 ? 0 - (wide)x : (wide)x)                              \
    BINARY(divide_##name, type, type, y == 0 ? (wide)-1 : y == -1 ? 0 - (wide)x : (wide)(x / y))   \
    BINARY(remainder_##name, type, type, y == 0 ? x : y == -1 ? 0 : x % y)                         \
    BINARY(power_##name, type, type, signed_power(x, y))
SIGNED(SIGNED_ONLY)
#define UNSIGNED_ONLY(name, type, wide)                                                            \
    UNARY(sign_##name, type, type, x > 0)                                                          \
    BINARY(divide_##name, type, type, y == 0 ? (type)-1 : (type)(x / y))                           \
    BINARY(remainder_##name, type, type, y == 0 ? x : (type)(x % y))                               \
    BINARY(power_##name, type, type, whole_power(x, y))
UNSIGNED(UNSIGNED_ONLY)

/* ---- bool: any byte but 0 is true ---- */

BINARY(or_bool, uint8_t, uint8_t, (x | y) != 0)
BINARY(and_bool, uint8_t, uint8_t, (x != 0) & (y != 0))
BINARY(xor_bool, uint8_t, uint8_t, (x != 0) != (y != 0))
UNARY(not_bool, uint8_t, uint8_t, x == 0)
BINARY(equal_bool, uint8_t, uint8_t, (x != 0) == (y != 0))
BINARY(unequal_bool, uint8_t, uint8_t, (x != 0) != (y != 0))
BINARY(less_bool, uint8_t, uint8_t, (x == 0) & (y != 0))
BINARY(at_most_bool, uint8_t, uint8_t, (x == 0) | (y != 0))
BINARY(greater_bool, uint8_t, uint8_t, (x != 0) & (y == 0))
BINARY(at_least_bool, uint8_t, uint8_t, (x != 0) | (y == 0))

/* ---- select, by size of element ---- */

/* By a mask: compilers do not take all widths of a choice to vectors. */
#define CHOICE(type, flag, x, y) (type)((x) ^ (((x) ^ (y)) & (type)((type)(flag) - (type)1)))
#define SELECT(name, type)                                                                         \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        type *out = to;                                                                            \
        const uint8_t *p = in[0];                                                                  \
        const type *a = in[1], *b = in[2];                                                         \
        if (!scalars) {                                                                            \
            for (int64_t i = 0; i < n; i++) out[i] = CHOICE(type, p[i] != 0, a[i], b[i]);          \
        } else if (scalars == 4) {                                                                 \
            type y = *b;                                                                           \
            for (int64_t i = 0; i < n; i++) out[i] = CHOICE(type, p[i] != 0, a[i], y);             \
        } else if (scalars == 2) {                                                                 \
            type x = *a;                                                                           \
            for (int64_t i = 0; i < n; i++) out[i] = CHOICE(type, p[i] != 0, x, b[i]);             \
        } else {                                                                                   \
            int64_t step_p = !(scalars & 1), step_a = !(scalars & 2), step_b = !(scalars & 4);     \
            for (int64_t i = 0; i < n; i++)                                                        \
                out[i] = p[i * step_p] ? a[i * step_a] : b[i * step_b];                            \
        }                                                                                          \
    }
SELECT(select_1, uint8_t)
SELECT(select_2, uint16_t)
SELECT(select_4, uint32_t)
SELECT(select_8, uint64_t)

/* ---- the table ---- */

#define SIGNED_ROW(k)                                                                              \
    [SHOAL_I8] = k##_i8, [SHOAL_I16] = k##_i16, [SHOAL_I32] = k##_i32, [SHOAL_I64] = k##_i64
#define UNSIGNED_ROW(k)                                                                            \
    [SHOAL_U8] = k##_u8, [SHOAL_U16] = k##_u16, [SHOAL_U32] = k##_u32, [SHOAL_U64] = k##_u64
#define ROW(k, of_bool)                                                                            \
    { [SHOAL_BOOL] = of_bool, SIGNED_ROW(k), UNSIGNED_ROW(k) }
#define SIGNLESS_ROW(k, of_bool)                                                                   \
    {                                                                                              \
        [SHOAL_BOOL] = of_bool, UNSIGNED_ROW(k), [SHOAL_I8] = k##_u8, [SHOAL_I16] = k##_u16,       \
        [SHOAL_I32] = k##_u32, [SHOAL_I64] = k##_u64                                               \
    }

const cpu_maps CPU_OF_SET(integer_maps) = {
    .map =
        {
            [GRAPH_NEGATE] = {SIGNED_ROW(negate)},
            [GRAPH_ABS] = {SIGNED_ROW(absolute)},
            [GRAPH_NOT] = SIGNLESS_ROW(not, not_bool),
            [GRAPH_AND] = SIGNLESS_ROW(and, and_bool),
            [GRAPH_OR] = SIGNLESS_ROW(or, or_bool),
            [GRAPH_XOR] = SIGNLESS_ROW(xor, xor_bool),
            [GRAPH_ADD] = SIGNLESS_ROW(add, or_bool),
            [GRAPH_SUBTRACT] = SIGNLESS_ROW(subtract, NULL),
            [GRAPH_MULTIPLY] = SIGNLESS_ROW(multiply, and_bool),
            [GRAPH_DIVIDE] = ROW(divide, NULL),
            [GRAPH_REMAINDER] = ROW(remainder, NULL),
            [GRAPH_POWER] = ROW(power, NULL),
            [GRAPH_SIGN] = ROW(sign, NULL),
            [GRAPH_CLAMP] = ROW(clamp, NULL),
            [GRAPH_SHIFT_LEFT] = SIGNLESS_ROW(shift_left, NULL),
            [GRAPH_SHIFT_RIGHT_LOGICAL] = SIGNLESS_ROW(shift_logical, NULL),
            [GRAPH_SHIFT_RIGHT_ARITHMETIC] = SIGNLESS_ROW(shift_sign, NULL),
            [GRAPH_POPCNT] = SIGNLESS_ROW(popcnt, NULL),
            [GRAPH_COUNT_LEADING_ZEROS] = SIGNLESS_ROW(leading_zeros, NULL),
            [GRAPH_MAXIMUM] = ROW(maximum, or_bool),
            [GRAPH_MINIMUM] = ROW(minimum, and_bool),
            [GRAPH_SELECT] = {[SHOAL_BOOL] = select_1,
                              [SHOAL_I8] = select_1,
                              [SHOAL_U8] = select_1,
                              [SHOAL_I16] = select_2,
                              [SHOAL_U16] = select_2,
                              [SHOAL_F16] = select_2,
                              [SHOAL_BF16] = select_2,
                              [SHOAL_I32] = select_4,
                              [SHOAL_U32] = select_4,
                              [SHOAL_F32] = select_4,
                              [SHOAL_I64] = select_8,
                              [SHOAL_U64] = select_8,
                              [SHOAL_F64] = select_8},
        },
    .compare = {SIGNLESS_ROW(equal, equal_bool), SIGNLESS_ROW(unequal, unequal_bool),
                ROW(less, less_bool), ROW(at_most, at_most_bool), ROW(greater, greater_bool),
                ROW(at_least, at_least_bool)},
};
