/* What instructions that this processor may not have compute, written out: VPDPBUSD and VDPBF16PS
 * of AVX-512 (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2). grouped.c is
 * compiled with them for its test, by vectors of 16 bytes, so that what is packed for them is tried
 * on every processor. */
#ifndef CPU_GROUPED_TESTING_H
#define CPU_GROUPED_TESTING_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint32_t stand_in_sums __attribute__((vector_size(16)));
typedef float stand_in_floats __attribute__((vector_size(16)));
typedef int32_t stand_in_groups __attribute__((vector_size(16)));

/* Four unsigned bytes times four signed ones; sums wrap. */
static inline __attribute__((always_inline, unused)) stand_in_sums
stand_in_bytes(stand_in_sums sums, stand_in_groups left, stand_in_groups right) {
    for (int i = 0; i < 4; i++)
        for (int q = 0; q < 32; q += 8)
            sums[i] += (uint32_t)((int32_t)(uint8_t)((uint32_t)left[i] >> q) *
                                  (int8_t)(uint8_t)((uint32_t)right[i] >> q));
    return sums;
}

/* Subnormal numbers are taken for zeros, and rounded to them. */
static inline __attribute__((always_inline, unused)) float stand_in_flush(float x) {
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

static inline __attribute__((always_inline, unused)) float stand_in_half(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return stand_in_flush(x);
}

/* The second of two products first, each rounded once with its sum. */
static inline __attribute__((always_inline, unused)) stand_in_floats
stand_in_bfloats(stand_in_floats sums, stand_in_groups left, stand_in_groups right) {
    for (int i = 0; i < 4; i++) {
        uint32_t l = (uint32_t)left[i], r = (uint32_t)right[i];
        float high = fmaf(stand_in_half(l & 0xffff0000u), stand_in_half(r & 0xffff0000u),
                          stand_in_flush(sums[i]));
        sums[i] = stand_in_flush(
            fmaf(stand_in_half(l << 16), stand_in_half(r << 16), stand_in_flush(high)));
    }
    return sums;
}

#endif
