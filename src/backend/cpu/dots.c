/* Products of matrices of bytes by the instructions of aarch64 that sum four products at once
 * (SDOT), or eight for each of four results (SMMLA), compiled once per instruction set. Sums wrap,
 * so that signed and unsigned are the same; of each the lowest byte is the result. */
#include "backend/cpu/functions.h"

#ifdef __ARM_FEATURE_DOTPROD
#include <arm_neon.h>

#ifdef __ARM_FEATURE_MATMUL_INT8
enum { GROUP = 8 }; /* products that an instruction sums for a result */
#else
enum { GROUP = 4 };
#endif
/* A tile in registers; bytes of k at a time, and of columns whose panels are packed together. */
enum { ROWS = 4, COLUMNS = 16, DEPTH = 512, PANELS = 4 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Four rows of 16 bytes as 16 groups of four: those of columns 0 to 3, and so on. */
INLINE void interleave(const uint8_t *from, int64_t row, uint8x16_t out[4]) {
    uint8x16_t a = vld1q_u8(from), b = vld1q_u8(from + row), c = vld1q_u8(from + 2 * row),
               d = vld1q_u8(from + 3 * row);
    uint16x8_t ab[] = {vreinterpretq_u16_u8(vzip1q_u8(a, b)),
                       vreinterpretq_u16_u8(vzip2q_u8(a, b))};
    uint16x8_t cd[] = {vreinterpretq_u16_u8(vzip1q_u8(c, d)),
                       vreinterpretq_u16_u8(vzip2q_u8(c, d))};
    for (int i = 0; i < 2; i++) {
        out[2 * i] = vreinterpretq_u8_u16(vzip1q_u16(ab[i], cd[i]));
        out[2 * i + 1] = vreinterpretq_u8_u16(vzip2q_u16(ab[i], cd[i]));
    }
}

/* GROUP rows of a panel, each column's bytes side by side. */
INLINE void pack_group(const uint8_t *from, int64_t row, uint8_t *to) {
    uint8x16_t first[4];
    interleave(from, row, first);
#ifdef __ARM_FEATURE_MATMUL_INT8
    uint8x16_t second[4];
    interleave(from + 4 * row, row, second);
    for (int i = 0; i < 4; i++) {
        uint32x4_t a = vreinterpretq_u32_u8(first[i]), b = vreinterpretq_u32_u8(second[i]);
        vst1q_u8(to + 32 * i, vreinterpretq_u8_u32(vzip1q_u32(a, b)));
        vst1q_u8(to + 32 * i + 16, vreinterpretq_u8_u32(vzip2q_u32(a, b)));
    }
#else
    for (int i = 0; i < 4; i++) vst1q_u8(to + 16 * i, first[i]);
#endif
}

/* n <= COLUMNS columns of k rows, up to `depth` rows, a multiple of 16, with zeros. */
static void pack_panel(int64_t k, int64_t depth, int64_t n, const uint8_t *b,
                       const int64_t *strides, uint8_t *to) {
    int64_t p = 0;
    if (strides[1] == 1 && n == COLUMNS)
        for (; p + GROUP <= k; p += GROUP)
            pack_group(b + p * strides[0], strides[0], to + p * COLUMNS);
    for (; p < depth; p += GROUP)
        for (int64_t j = 0; j < COLUMNS; j++)
            for (int64_t q = p; q < p + GROUP; q++)
                to[p * COLUMNS + j * GROUP + q - p] =
                    j < n && q < k ? b[q * strides[0] + j * strides[1]] : 0;
}

/* n <= ROWS rows of k bytes, up to `depth` with zeros, one after the other. */
static void pack_rows(int64_t k, int64_t depth, int64_t n, const uint8_t *a, const int64_t *strides,
                      uint8_t *to) {
    memset(to, 0, (size_t)(ROWS * depth));
    for (int64_t i = 0; i < n; i++, to += depth) {
        if (strides[1] == 1)
            memcpy(to, a + i * strides[0], (size_t)k);
        else
            for (int64_t p = 0; p < k; p++) to[p] = a[i * strides[0] + p * strides[1]];
    }
}

#ifdef __ARM_FEATURE_MATMUL_INT8
/* An accumulator holds two rows of two columns. */
INLINE void multiply_tile(int64_t depth, const int8_t *a, const int8_t *b, int32_t *to) {
    int32x4_t sums[ROWS / 2][COLUMNS / 2];
    for (int i = 0; i < ROWS / 2; i++)
        for (int j = 0; j < COLUMNS / 2; j++) sums[i][j] = vdupq_n_s32(0);
    for (int64_t p = 0; p < depth; p += 16, b += 16 * COLUMNS) {
        int8x16_t pairs[ROWS / 2][2];
        for (int i = 0; i < ROWS / 2; i++) {
            int64x2_t upper = vreinterpretq_s64_s8(vld1q_s8(a + 2 * i * depth + p));
            int64x2_t lower = vreinterpretq_s64_s8(vld1q_s8(a + (2 * i + 1) * depth + p));
            pairs[i][0] = vreinterpretq_s8_s64(vzip1q_s64(upper, lower));
            pairs[i][1] = vreinterpretq_s8_s64(vzip2q_s64(upper, lower));
        }
        for (int half = 0; half < 2; half++)
            for (int j = 0; j < COLUMNS / 2; j++) {
                int8x16_t right = vld1q_s8(b + half * 8 * COLUMNS + j * 16);
                for (int i = 0; i < ROWS / 2; i++)
                    sums[i][j] = vmmlaq_s32(sums[i][j], pairs[i][half], right);
            }
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS / 2; j++) {
            int32x2_t pair = i % 2 ? vget_high_s32(sums[i / 2][j]) : vget_low_s32(sums[i / 2][j]);
            vst1_s32(to + i * COLUMNS + 2 * j, pair);
        }
}
#else
/* An accumulator holds four columns of a row. */
INLINE void multiply_tile(int64_t depth, const int8_t *a, const int8_t *b, int32_t *to) {
    int32x4_t sums[ROWS][COLUMNS / 4];
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS / 4; j++) sums[i][j] = vdupq_n_s32(0);
    for (int64_t p = 0; p < depth; p += 16, b += 16 * COLUMNS) {
        int8x16_t left[ROWS];
        for (int i = 0; i < ROWS; i++) left[i] = vld1q_s8(a + i * depth + p);
#define FOUR(lane)                                                                                 \
    for (int j = 0; j < COLUMNS / 4; j++) {                                                        \
        int8x16_t right = vld1q_s8(b + (lane)*4 * COLUMNS + j * 16);                               \
        for (int i = 0; i < ROWS; i++)                                                             \
            sums[i][j] = vdotq_laneq_s32(sums[i][j], right, left[i], lane);                        \
    }
        FOUR(0) FOUR(1) FOUR(2) FOUR(3)
#undef FOUR
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS / 4; j++) vst1q_s32(to + i * COLUMNS + 4 * j, sums[i][j]);
}
#endif

/* m <= ROWS rows times the columns of packed panels. */
static void multiply_rows(int64_t depth, int64_t m, int64_t n, const uint8_t *a, const uint8_t *b,
                          uint8_t *c, int64_t c_row, bool add) {
    for (int64_t j = 0; j < n; j += COLUMNS, b += COLUMNS * depth) {
        int32_t sums[ROWS * COLUMNS];
        multiply_tile(depth, (const int8_t *)a, (const int8_t *)b, sums);
        for (int64_t i = 0; i < m; i++)
            for (int64_t q = 0; q < smaller(COLUMNS, n - j); q++) {
                uint8_t *to = c + i * c_row + j + q;
                *to = (uint8_t)((add ? *to : 0u) + (uint32_t)sums[i * COLUMNS + q]);
            }
    }
}

void CPU_OF_SET(matmul_bytes)(int64_t m, int64_t n, int64_t k, const void *a_data,
                              const int64_t *as, const void *b_data, const int64_t *bs, void *c,
                              int64_t c_stride) {
    const uint8_t *a = a_data, *b = b_data;
    uint8_t panels[PANELS * COLUMNS * DEPTH], rows[ROWS * DEPTH];
    for (int64_t j = 0, some; j < n; j += some) {
        some = smaller(PANELS * COLUMNS, n - j);
        for (int64_t p = 0, deep; p < k; p += deep) {
            deep = smaller(DEPTH, k - p);
            int64_t depth = (deep + 15) / 16 * 16;
            for (int64_t q = 0; q < some; q += COLUMNS)
                pack_panel(deep, depth, smaller(COLUMNS, some - q), b + p * bs[0] + (j + q) * bs[1],
                           bs, panels + q * depth);
            for (int64_t i = 0; i < m; i += ROWS) {
                int64_t count = smaller(ROWS, m - i);
                pack_rows(deep, depth, count, a + i * as[0] + p * as[1], as, rows);
                multiply_rows(depth, count, some, rows, panels, (uint8_t *)c + i * c_stride + j,
                              c_stride, p > 0);
            }
        }
    }
}
#endif
