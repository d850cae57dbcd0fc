/* The work of random numbers (backend/ref/random.c): Philox's words, and normal ones of them. */
#include "backend/cpu/elementary_f64.h"

static void philox(uint64_t key, uint64_t block, uint64_t stream, ref_words *w, int64_t n) {
    enum { SIDE_BY_SIDE = 16 };
    for (int64_t at = 0; at < n; at += SIDE_BY_SIDE) {
        uint32_t a[SIDE_BY_SIDE], b[SIDE_BY_SIDE], c[SIDE_BY_SIDE], d[SIDE_BY_SIDE];
        uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
        for (int k = 0; k < SIDE_BY_SIDE; k++) {
            uint64_t number = block + (uint64_t)(at + k);
            a[k] = (uint32_t)number;
            b[k] = (uint32_t)(number >> 32);
            c[k] = (uint32_t)stream;
            d[k] = (uint32_t)(stream >> 32);
        }
        for (int round = 0; round < 10; round++, low += 0x9E3779B9, high += 0xBB67AE85)
            for (int k = 0; k < SIDE_BY_SIDE; k++) {
                uint64_t x = UINT64_C(0xD2511F53) * a[k], y = UINT64_C(0xCD9E8D57) * c[k];
                a[k] = (uint32_t)(y >> 32) ^ b[k] ^ low;
                c[k] = (uint32_t)(x >> 32) ^ d[k] ^ high;
                b[k] = (uint32_t)y;
                d[k] = (uint32_t)x;
            }
        memcpy(w->at[0] + at, a, sizeof a);
        memcpy(w->at[1] + at, b, sizeof b);
        memcpy(w->at[2] + at, c, sizeof c);
        memcpy(w->at[3] + at, d, sizeof d);
    }
}

/* The upper 53 bits of two words. */
INLINE double upper_bits(uint32_t high, uint32_t low) {
    int32_t first = (int32_t)(high >> 6), second = (int32_t)((high & 63) << 21 | low >> 11);
    return (double)first * 0x1p27 + (double)second;
}

static void normals(const ref_words *w, int64_t n, double *cosines, double *sines) {
    for (int64_t k = 0; k < n; k++) {
        double u = upper_bits(w->at[0][k], w->at[1][k]) + 1;
        double v = upper_bits(w->at[2][k], w->at[3][k]);
        double radius = sqrt(-2 * log_f64(u * 0x1p-53));
        double angle = 6.283185307179586477 * (v * 0x1p-53);
        cosines[k] = radius * sine_double(angle, 1);
        sines[k] = radius * sine_double(angle, 0);
    }
}

const ref_random_kernels CPU_OF_SET(random) = {philox, normals};
