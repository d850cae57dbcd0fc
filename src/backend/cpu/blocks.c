/* Numbers of quantised blocks, whole vectors of them, compiled once per instruction set: decoded to
 * memory, with the bits of base/block.c, or multiplied where they are made. What a block shares out
 * is applied to each number before the product, so that scales that are infinite or no numbers do
 * what they do to decoded ones. */
#include "backend/cpu/quantised.h"

#if defined(__AVX512F__)
enum { MOST_ROWS = 32 };
#elif defined(__AVX2__)
enum { MOST_ROWS = 8 };
#else
enum { MOST_ROWS = 4 };
#endif
enum { TOGETHER = 4, SIDE = WIDTH / 4 > 2 ? 4 : 2 }; /* rows of x, and of w, in registers */

#ifdef CPU_NEON
INLINE uint8x8_t four_bytes(const uint8_t *from) {
    uint32_t bits;
    memcpy(&bits, from, sizeof bits);
    return vreinterpret_u8_u32(vdup_n_u32(bits));
}
#endif

INLINE ints bytes_at(const uint8_t *from) {
#if defined(__AVX512F__)
    return (ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif defined(__AVX2__)
    return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#elif defined(CPU_NEON)
    return (ints)vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(from))));
#else
    ints x;
    for (int i = 0; i < WIDTH; i++) x[i] = from[i];
    return x;
#endif
}

INLINE ints signed_bytes_at(const uint8_t *from) {
#if defined(__AVX512F__)
    return (ints)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif defined(__AVX2__)
    return (ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
#elif defined(CPU_NEON)
    return (ints)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four_bytes(from)))));
#else
    ints x;
    for (int i = 0; i < WIDTH; i++) x[i] = (int8_t)from[i];
    return x;
#endif
}

INLINE vec everywhere(float x) { return x - (vec){0}; } /* -0, too */

INLINE float half_at(const uint8_t *from) {
#ifdef __F16C__
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return _cvtsh_ss(half);
#elif defined(CPU_NEON)
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
#else
    return base_half_at(from);
#endif
}

/* ---- numbers of 4 bits ---- */

/* What the number q stands for: each * (q - zero) - less. A register of 16 holds all of them. */
typedef struct four {
    float each, less;
    int zero;
    vec table;
} four;

/* zero or less is 0. The product is exact, so that joining it with the sum changes no bit. */
INLINE vec four_numbers(const four *f, ints q) {
    if (f->zero) return numbers(q - f->zero) * f->each;
    return multiply_add(numbers(q), everywhere(f->each), everywhere(-f->less));
}

INLINE four four_of(float each, int zero, float less) {
    four f = {.each = each, .less = less, .zero = zero};
#ifdef __AVX512F__
    f.table = four_numbers(&f, (ints){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
#endif
    return f;
}

/* Of the low 4 bits of each. */
INLINE vec four_at(const four *f, ints q) {
#ifdef __AVX512F__
    return (vec)_mm512_permutexvar_ps((__m512i)q, (__m512)f->table);
#else
    return four_numbers(f, q & 15);
#endif
}

/* 16 bytes: values i and i + 16 in the low and high bits of byte i. */
INLINE void four_halves(const four *f, const uint8_t *q, vec *out) {
    for (int c = 0; c < VECTORS / 2; c++) {
        ints both = bytes_at(q + c * WIDTH);
        out[c] = four_at(f, both);
        out[VECTORS / 2 + c] = four_at(f, both >> 4);
    }
}

/* ---- formats: the values of part number `part` of a block (base/block.h) ---- */

INLINE void part_q8_0(const uint8_t *block, int part, vec *out) {
    float d = half_at(block);
    for (int c = 0; c < VECTORS; c++) out[c] = numbers(signed_bytes_at(block + 2 + c * WIDTH)) * d;
}

INLINE void part_q4_0(const uint8_t *block, int part, vec *out) {
    four f = four_of(half_at(block), 8, 0);
    four_halves(&f, block + 2, out);
}

INLINE void part_q4_1(const uint8_t *block, int part, vec *out) {
    four f = four_of(half_at(block), 0, -half_at(block + 2));
    four_halves(&f, block + 4, out);
}

INLINE void part_q4_k(const uint8_t *block, int part, vec *out) {
    const uint8_t *s = block + 4, *q = block + 16 + part / 2 * PART;
    int scale = part < 4 ? s[part] & 63 : (s[part + 4] & 15) | (s[part - 4] >> 6) << 4;
    int minimum = part < 4 ? s[part + 4] & 63 : s[part + 4] >> 4 | (s[part] >> 6) << 4;
    four f = four_of(half_at(block) * (float)scale, 0, half_at(block + 2) * (float)minimum);
    for (int c = 0; c < VECTORS; c++) out[c] = four_at(&f, bytes_at(q + c * WIDTH) >> part % 2 * 4);
}

INLINE void part_q6_k(const uint8_t *block, int part, vec *out) {
    const uint8_t *low = block + part / 4 * 64 + part % 2 * PART, *high = block + 128;
    const uint8_t *scales = block + 192 + part * 2;
    float d = half_at(block + 208);
    for (int c = 0; c < VECTORS; c++) {
        ints l = bytes_at(low + c * WIDTH) >> part % 4 / 2 * 4 & 15;
        ints h = bytes_at(high + part / 4 * PART + c * WIDTH) >> part % 4 * 2 & 3;
        float each = d * (float)(int8_t)scales[c * WIDTH / 16];
        out[c] = numbers((l | h << 4) - 32) * each;
    }
}

/* ---- decoding and multiplying ---- */

typedef void part_of(const uint8_t *block, int part, vec *out);

INLINE void decode(part_of *part, int values, int bytes, const uint8_t *from, float *to,
                   size_t blocks) {
    for (; blocks--; from += bytes, to += values) {
#pragma GCC unroll 8
        for (int p = 0; p < values / PART; p++) {
            vec made[VECTORS];
            part(from, p, made);
            for (int c = 0; c < VECTORS; c++) store(to + p * PART + c * WIDTH, made[c]);
        }
    }
}

enum { CHAINS = 2 }; /* of a sum of one row of x alone, since each addition waits for the last */
typedef vec sums_of[SIDE][TOGETHER][CHAINS];

/* Part `at` of a block of each of `rows` rows of w times that of m rows of x. */
INLINE void part_times(part_of *part, int at, int bytes, int rows, int m, bool alone,
                       const cpu_block_product *p, const uint8_t *w, const float *x, sums_of sums) {
    vec made[SIDE][VECTORS];
    for (int i = 0; i < rows; i++) part(w + i * p->blocks * bytes, at, made[i]);
    for (int c = 0; c < VECTORS; c++)
        for (int j = 0; j < m; j++) {
            vec there = load(x + j * p->x_row + at * PART + c * WIDTH);
            for (int i = 0; i < rows; i++) {
                vec *sum = &sums[i][j][alone ? c % CHAINS : 0];
                *sum = multiply_add(made[i][c], there, *sum);
            }
        }
}

/* `rows` rows of w, 1 or SIDE, times m rows of x: what is read once meets all of the other. alone:
 * there is one row of x, and of w; the order of sums may depend on the product, and not on where
 * a thread's rows end. */
INLINE void rows_times(part_of *part, int values, int bytes, int rows, int m, bool alone,
                       const cpu_block_product *p, const uint8_t *w, const float *x, float *y) {
    sums_of sums;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < m; j++)
            for (int c = 0; c < CHAINS; c++) sums[i][j][c] = (vec){0};
    for (int64_t b = 0; b < p->blocks; b++, w += bytes, x += values) {
        for (int i = 0; i < rows; i++) ask_ahead(w + i * p->blocks * bytes, bytes);
        if (alone) {
#pragma GCC unroll 8
            for (int at = 0; at < values / PART; at++)
                part_times(part, at, bytes, 1, 1, true, p, w, x, sums);
        } else { /* more sums than one fill the registers */
#pragma GCC unroll 2
            for (int at = 0; at < values / PART; at++)
                part_times(part, at, bytes, rows, m, false, p, w, x, sums);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < m; j++) {
            vec sum = alone ? sums[i][j][0] + sums[i][j][1] : sums[i][j][0];
            y[j * p->y_strides[0] + i * p->y_strides[1]] = sum_of(sum);
        }
}

INLINE void dot(part_of *part, int values, int bytes, const cpu_block_product *p) {
    for (int64_t i = 0, rows; i < p->n; i += rows) {
        rows = p->m > 1 && p->n - i >= SIDE ? SIDE : 1;
        const uint8_t *w = p->w + i * p->blocks * bytes;
        if (p->m == 1) {
            rows_times(part, values, bytes, 1, 1, true, p, w, p->x, p->y + i * p->y_strides[1]);
            continue;
        }
        for (int64_t j = 0, some; j < p->m; j += some) {
            some = p->m - j < TOGETHER ? p->m - j : TOGETHER;
            const float *x = p->x + j * p->x_row;
            float *y = p->y + j * p->y_strides[0] + i * p->y_strides[1];
#pragma GCC unroll 4
            for (int k = 1; k <= TOGETHER; k++)
                if (k == some && rows == 1)
                    rows_times(part, values, bytes, 1, k, false, p, w, x, y);
                else if (k == some)
                    rows_times(part, values, bytes, SIDE, k, false, p, w, x, y);
        }
    }
}

/* Functions of their own: together, they are too large to be compiled well. */
#define XX(NAME, name, number, values, bytes, fields)                                              \
    static void decode_##name(const uint8_t *from, float *to, size_t blocks) {                     \
        decode(part_##name, values, bytes, from, to, blocks);                                      \
    }                                                                                              \
    static void dot_##name(const cpu_block_product *p) { dot(part_##name, values, bytes, p); }
BASE_BLOCK_MAP(XX)
#undef XX

const cpu_block_kernel CPU_OF_SET(blocks)[BASE_BLOCK_COUNT] = {
#define XX(NAME, name, ...) {decode_##name, dot_##name, .most_rows = MOST_ROWS},
    BASE_BLOCK_MAP(XX)
#undef XX
};
