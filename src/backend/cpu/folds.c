/* Folds: the elements of a row joined to one. In a block LANES partial results stand side by side
 * and are joined by halves at the end; blocks are joined one after the other. Some rows are gone
 * through beside each other, since memory gives several streams faster than one. All sets give the
 * same bits, but for those of NaN. */
#include "backend/cpu/loops.h"

enum {
    BESIDE = 4,
#ifdef __AVX512F__
    /* Newer processors fetch one long stream sooner than several, or than they are asked to: rows
     * of sums, which nothing else holds up, are alone from so many elements on. */
    AHEAD = 0,
    ALONE = 1024,
#else
    AHEAD = 8192, /* bytes that one row alone asks for: processors do so by themselves only to the
                     end of a page */
    ALONE = INT32_MAX,
#endif
    NEVER = INT32_MAX
};

#define FOLD_OF(name, source, widen, type, lanes_, alone, expression)                              \
    INLINE type join_##name(type x, type y) { return (type)(expression); }                         \
    /* The partial results and n elements more, fewer than there are lanes. */                     \
    static __attribute__((noinline)) type end_##name(const source *x, int64_t n, type *lanes) {    \
        for (int k = 0; k < n; k++) lanes[k] = join_##name(lanes[k], widen(x[k]));                 \
        for (int width = lanes_ / 2; width; width /= 2)                                            \
            for (int k = 0; k < width; k++) lanes[k] = join_##name(lanes[k], lanes[k + width]);    \
        return lanes[0];                                                                           \
    }                                                                                              \
    INLINE void block_##name(const source *x, int64_t row, int rows, int64_t n, type *to) {        \
        enum { LANES = lanes_ };                                                                   \
        if (n < LANES) {                                                                           \
            for (int r = 0; r < rows; r++) {                                                       \
                to[r] = widen(x[r * row]);                                                         \
                for (int64_t i = 1; i < n; i++) to[r] = join_##name(to[r], widen(x[r * row + i])); \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        type lanes[BESIDE][LANES];                                                                 \
        int64_t at = LANES;                                                                        \
        for (int r = 0; r < rows; r++)                                                             \
            for (int k = 0; k < LANES; k++) lanes[r][k] = widen(x[r * row + k]);                   \
        for (; at + LANES <= n; at += LANES) {                                                     \
            for (int k = 0; AHEAD > 0 && rows == 1 && k < LANES; k += 64 / (int)sizeof(source))    \
                __builtin_prefetch(x + at + AHEAD / (int)sizeof(source) + k);                      \
            for (int r = 0; r < rows; r++)                                                         \
                for (int k = 0; k < LANES; k++)                                                    \
                    lanes[r][k] = join_##name(lanes[r][k], widen(x[r * row + at + k]));            \
        }                                                                                          \
        for (int r = 0; r < rows; r++) to[r] = end_##name(x + r * row + at, n - at, lanes[r]);     \
    }                                                                                              \
    INLINE void rows_##name(type *totals, const source *x, int rows, int64_t n, bool more) {       \
        for (int64_t at = 0; at < n; at += CPU_FOLD_BLOCK, more = true) {                          \
            type parts[BESIDE];                                                                    \
            int64_t some = n - at < CPU_FOLD_BLOCK ? n - at : CPU_FOLD_BLOCK;                      \
            block_##name(x + at, n, rows, some, parts);                                            \
            for (int r = 0; r < rows; r++)                                                         \
                totals[r] = more ? join_##name(totals[r], parts[r]) : parts[r];                    \
        }                                                                                          \
    }                                                                                              \
    static void fold_##name(void *acc, const void *from, int64_t rows, int64_t n, bool more) {     \
        const source *x = from;                                                                    \
        type *totals = acc;                                                                        \
        int64_t r = 0;                                                                             \
        for (; n < alone && r + BESIDE <= rows; r += BESIDE)                                       \
            rows_##name(totals + r, x + r * n, BESIDE, n, more);                                   \
        for (; r < rows; r++) rows_##name(totals + r, x + r * n, 1, n, more);                      \
    }
#define AS_IT_IS(x) (x)
#define FOLD(name, type, lanes, alone, expression)                                                 \
    FOLD_OF(name, type, AS_IT_IS, type, lanes, alone, expression)
#define FOLD_HALF(op, alone, expression)                                                           \
    FOLD_OF(op##_f16, uint16_t, widen_half, float, 32, alone, expression)                          \
    FOLD_OF(op##_bf16, uint16_t, widen_bfloat, float, 32, alone, expression)

FOLD(add_f32, float, 32, ALONE, x + y)
FOLD(add_f64, double, 16, ALONE, x + y)
FOLD(multiply_f32, float, 32, NEVER, x *y)
FOLD(multiply_f64, double, 16, NEVER, x *y)
FOLD(maximum_f32, float, 32, NEVER, maximum_f32(x, y))
FOLD(maximum_f64, double, 16, NEVER, maximum_f64(x, y))
FOLD(minimum_f32, float, 32, NEVER, minimum_f32(x, y))
FOLD(minimum_f64, double, 16, NEVER, minimum_f64(x, y))

FOLD_HALF(add, ALONE, x + y)
FOLD_HALF(multiply, NEVER, x *y)
FOLD_HALF(maximum, NEVER, maximum_f32(x, y))
FOLD_HALF(minimum, NEVER, minimum_f32(x, y))

#define SIGNLESS(name, type, lanes, wide)                                                          \
    FOLD(add_##name, type, lanes, ALONE, (wide)x + (wide)y)                                        \
    FOLD(multiply_##name, type, lanes, NEVER, (wide)x *(wide)y)
SIGNLESS(u8, uint8_t, 32, uint32_t)
SIGNLESS(u16, uint16_t, 32, uint32_t)
SIGNLESS(u32, uint32_t, 32, uint32_t)
SIGNLESS(u64, uint64_t, 16, uint64_t)
#define ORDERED(name, type, lanes)                                                                 \
    FOLD(maximum_##name, type, lanes, NEVER, x > y ? x : y)                                        \
    FOLD(minimum_##name, type, lanes, NEVER, x < y ? x : y)
ORDERED(i8, int8_t, 32)
ORDERED(i16, int16_t, 32)
ORDERED(i32, int32_t, 32)
ORDERED(i64, int64_t, 16)
ORDERED(u8, uint8_t, 32)
ORDERED(u16, uint16_t, 32)
ORDERED(u32, uint32_t, 32)
ORDERED(u64, uint64_t, 16)
FOLD(or_bool, uint8_t, 32, NEVER, (x | y) != 0)
FOLD(and_bool, uint8_t, 32, NEVER, (x != 0) & (y != 0))

#define ROW(op, of_bool, i8, i16, i32, i64)                                                        \
    {                                                                                              \
        [SHOAL_BOOL] = of_bool, [SHOAL_I8] = fold_##op##_##i8, [SHOAL_I16] = fold_##op##_##i16,    \
        [SHOAL_I32] = fold_##op##_##i32, [SHOAL_I64] = fold_##op##_##i64,                          \
        [SHOAL_U8] = fold_##op##_u8, [SHOAL_U16] = fold_##op##_u16, [SHOAL_U32] = fold_##op##_u32, \
        [SHOAL_U64] = fold_##op##_u64, [SHOAL_F32] = fold_##op##_f32,                              \
        [SHOAL_F64] = fold_##op##_f64, [SHOAL_F16] = fold_##op##_f16,                              \
        [SHOAL_BF16] = fold_##op##_bf16                                                            \
    }
/* Sums and products have the same bits for signed and unsigned numbers. */
#define SIGNLESS_ROW(op, of_bool) ROW(op, of_bool, u8, u16, u32, u64)
#define ORDERED_ROW(op, of_bool) ROW(op, of_bool, i8, i16, i32, i64)

const cpu_fold_kernel CPU_OF_SET(folds)[GRAPH_OP_BUILT_IN][SHOAL_DTYPE_COUNT] = {
    [GRAPH_ADD] = SIGNLESS_ROW(add, fold_or_bool),
    [GRAPH_MULTIPLY] = SIGNLESS_ROW(multiply, fold_and_bool),
    [GRAPH_MAXIMUM] = ORDERED_ROW(maximum, fold_or_bool),
    [GRAPH_MINIMUM] = ORDERED_ROW(minimum, fold_and_bool),
    [GRAPH_OR] = {[SHOAL_BOOL] = fold_or_bool},
    [GRAPH_AND] = {[SHOAL_BOOL] = fold_and_bool},
};
