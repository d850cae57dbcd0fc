/* Folds: the elements of a row joined to one. In a block LANES partial results stand side by side
 * and are joined by halves at the end; blocks are joined one after the other. All sets give the
 * same bits. */
#include "backend/cpu/loops.h"

/* Bytes that are asked for ahead: processors do so by themselves only to the end of a page. */
enum { AHEAD = 8192 };

#define FOLD(name, type, lanes_, expression)                                                       \
    INLINE type join_##name(type x, type y) { return (type)(expression); }                         \
    INLINE type block_##name(const type *x, int64_t n) {                                           \
        enum { LANES = lanes_ };                                                                   \
        if (n < LANES) {                                                                           \
            type result = x[0];                                                                    \
            for (int64_t i = 1; i < n; i++) result = join_##name(result, x[i]);                    \
            return result;                                                                         \
        }                                                                                          \
        type lanes[LANES];                                                                         \
        int64_t at = LANES;                                                                        \
        for (int k = 0; k < LANES; k++) lanes[k] = x[k];                                           \
        for (; at + LANES <= n; at += LANES) {                                                     \
            for (int k = 0; k < LANES; k += 64 / (int)sizeof(type))                                \
                __builtin_prefetch(x + at + AHEAD / (int)sizeof(type) + k);                        \
            for (int k = 0; k < LANES; k++) lanes[k] = join_##name(lanes[k], x[at + k]);           \
        }                                                                                          \
        for (int k = 0; at + k < n; k++) lanes[k] = join_##name(lanes[k], x[at + k]);              \
        for (int width = LANES / 2; width; width /= 2)                                             \
            for (int k = 0; k < width; k++) lanes[k] = join_##name(lanes[k], lanes[k + width]);    \
        return lanes[0];                                                                           \
    }                                                                                              \
    static void fold_##name(void *acc, const void *from, int64_t n, bool more) {                   \
        const type *x = from;                                                                      \
        type total = more ? *(type *)acc : 0;                                                      \
        for (int64_t at = 0; at < n; at += CPU_FOLD_BLOCK) {                                       \
            int64_t some = n - at < CPU_FOLD_BLOCK ? n - at : CPU_FOLD_BLOCK;                      \
            type part = block_##name(x + at, some);                                                \
            total = more ? join_##name(total, part) : part;                                        \
            more = true;                                                                           \
        }                                                                                          \
        *(type *)acc = total;                                                                      \
    }

FOLD(add_f32, float, 64, x + y)
FOLD(add_f64, double, 32, x + y)
FOLD(multiply_f32, float, 64, x *y)
FOLD(multiply_f64, double, 32, x *y)
FOLD(maximum_f32, float, 64, maximum_f32(x, y))
FOLD(maximum_f64, double, 32, maximum_f64(x, y))
FOLD(minimum_f32, float, 64, minimum_f32(x, y))
FOLD(minimum_f64, double, 32, minimum_f64(x, y))

#define INTEGER(name, type, wide)                                                                  \
    FOLD(add_##name, type, 32, (wide)x + (wide)y)                                                  \
    FOLD(multiply_##name, type, 32, (wide)x *(wide)y)                                              \
    FOLD(maximum_##name, type, 32, x > y ? x : y)                                                  \
    FOLD(minimum_##name, type, 32, x < y ? x : y)
INTEGER(i8, int8_t, uint32_t)
INTEGER(i16, int16_t, uint32_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)
INTEGER(u8, uint8_t, uint32_t)
INTEGER(u16, uint16_t, uint32_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(u64, uint64_t, uint64_t)
FOLD(or_bool, uint8_t, 32, (x | y) != 0)
FOLD(and_bool, uint8_t, 32, (x != 0) & (y != 0))

#define ROW(op, of_bool)                                                                           \
    {                                                                                              \
        [SHOAL_BOOL] = of_bool, [SHOAL_I8] = fold_##op##_i8, [SHOAL_I16] = fold_##op##_i16,        \
        [SHOAL_I32] = fold_##op##_i32, [SHOAL_I64] = fold_##op##_i64, [SHOAL_U8] = fold_##op##_u8, \
        [SHOAL_U16] = fold_##op##_u16, [SHOAL_U32] = fold_##op##_u32,                              \
        [SHOAL_U64] = fold_##op##_u64, [SHOAL_F32] = fold_##op##_f32,                              \
        [SHOAL_F64] = fold_##op##_f64                                                              \
    }

const cpu_fold_kernel CPU_OF_SET(folds)[GRAPH_OP_BUILT_IN][SHOAL_DTYPE_COUNT] = {
    [GRAPH_ADD] = ROW(add, fold_or_bool),         [GRAPH_MULTIPLY] = ROW(multiply, fold_and_bool),
    [GRAPH_MAXIMUM] = ROW(maximum, fold_or_bool), [GRAPH_MINIMUM] = ROW(minimum, fold_and_bool),
    [GRAPH_OR] = {[SHOAL_BOOL] = fold_or_bool},   [GRAPH_AND] = {[SHOAL_BOOL] = fold_and_bool},
};
