/* Vectors of f32, or with CPU_F64_VECTORS of f64: what gemm.c, taps.c, blocks.c and digits.c are
 * written with, which are compiled once per instruction set. */
#ifndef CPU_VECTORS_H
#define CPU_VECTORS_H

#include "backend/cpu/functions.h"

#ifdef CPU_F64_VECTORS
typedef double real;
#define NAME(name) CPU_OF_SET(name##_f64)
#else
typedef float real;
#define NAME(name) CPU_OF_SET(name##_f32)
#endif

#ifndef CPU_BYTES
#if defined(__AVX512F__)
#define CPU_BYTES 64
#elif defined(__AVX2__)
#define CPU_BYTES 32
#else
#define CPU_BYTES 16
#endif
#endif
enum { BYTES = CPU_BYTES };
enum { WIDTH = BYTES / (int)sizeof(real), PANEL = 2 * WIDTH };

typedef real vec __attribute__((vector_size(BYTES)));
typedef real loose __attribute__((vector_size(BYTES), aligned(sizeof(real)), may_alias));

INLINE vec load(const real *x) { return *(const loose *)x; }
INLINE void store(real *to, vec x) { *(loose *)to = x; }

INLINE real sum_of(vec x) {
    real sums[WIDTH];
    store(sums, x);
    for (int width = WIDTH / 2; width; width /= 2)
        for (int i = 0; i < width; i++) sums[i] += sums[i + width];
    return sums[0];
}

/* ---- transposing blocks of WIDTH x WIDTH ---- */

#define LOW16(n)                                                                                   \
    0, (n), 1, (n) + 1, 2, (n) + 2, 3, (n) + 3, 4, (n) + 4, 5, (n) + 5, 6, (n) + 6, 7, (n) + 7
#define HIGH16(n)                                                                                  \
    8, (n) + 8, 9, (n) + 9, 10, (n) + 10, 11, (n) + 11, 12, (n) + 12, 13, (n) + 13, 14, (n) + 14,  \
        15, (n) + 15
#define LOW8(n) 0, (n), 1, (n) + 1, 2, (n) + 2, 3, (n) + 3
#define HIGH8(n) 4, (n) + 4, 5, (n) + 5, 6, (n) + 6, 7, (n) + 7
#define LOW4(n) 0, (n), 1, (n) + 1
#define HIGH4(n) 2, (n) + 2, 3, (n) + 3
#ifdef CPU_F64_VECTORS
#define SPLIT (CPU_BYTES / 8)
#else
#define SPLIT (CPU_BYTES / 4)
#endif
#if SPLIT == 16
#define LOW LOW16(16)
#define HIGH HIGH16(16)
#elif SPLIT == 8
#define LOW LOW8(8)
#define HIGH HIGH8(8)
#elif SPLIT == 4
#define LOW LOW4(4)
#define HIGH HIGH4(4)
#else
#define LOW 0, 2
#define HIGH 1, 3
#endif

/* x: rows of the block. Its columns go to `to + c * step`, whole vectors: with step < WIDTH each is
 * overwritten by the next. */
INLINE void transpose_rows(vec *x, real *to, int64_t step) {
    vec y[WIDTH];
    for (int round = 1; round < WIDTH; round *= 2) {
        for (int i = 0; i < WIDTH / 2; i++) {
            y[2 * i] = __builtin_shufflevector(x[i], x[i + WIDTH / 2], LOW);
            y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + WIDTH / 2], HIGH);
        }
        for (int i = 0; i < WIDTH; i++) x[i] = y[i];
    }
    for (int i = 0; i < WIDTH; i++) store(to + i * step, x[i]);
}

/* The same of rows n < WIDTH that are `from + n * stride`; missing ones are zero. */
INLINE void transpose(const real *from, int64_t stride, int n, real *to, int64_t step) {
    vec x[WIDTH];
    for (int i = 0; i < WIDTH; i++) x[i] = i < n ? load(from + i * stride) : (vec){0};
    transpose_rows(x, to, step);
}

#endif
