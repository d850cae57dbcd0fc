/* What products with quantised blocks are written with, by floats (blocks.c) and by integers
 * (digits.c). */
#ifndef CPU_QUANTISED_H
#define CPU_QUANTISED_H

#include "backend/cpu/vectors.h"

#ifdef __AVX2__
#include <immintrin.h>
#elif defined(CPU_NEON)
#include <arm_neon.h>
#endif

enum { PART = 32, VECTORS = PART / WIDTH }; /* values that are made together, their vectors */
enum { AHEAD = 2048, LINE = 64 }; /* bytes of w that are asked for early; of a line of the cache */

typedef int32_t ints __attribute__((vector_size(BYTES)));

/* Rounded once where there is an instruction for it. */
INLINE vec multiply_add(vec x, vec y, vec z) {
#if CPU_BYTES == 64
    return (vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif CPU_BYTES == 32
    return (vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#elif defined(CPU_NEON)
    return (vec)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
#else
    return x * y + z;
#endif
}

INLINE vec numbers(ints x) { return __builtin_convertvector(x, vec); }

/* The `bytes` that are read some time after those at w. */
INLINE void ask_ahead(const uint8_t *w, int bytes) {
    for (int at = 0; at < bytes; at += LINE) __builtin_prefetch(w + AHEAD + at);
}

#endif
