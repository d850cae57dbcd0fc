/* Numbers of quantised blocks, whole vectors of them, compiled once per instruction set: decoded to
 * memory, with the bits of base/block.c, or multiplied where they are made. What a block shares out
 * is applied to each number before the product, so that scales that are infinite or no numbers do
 * what they do to decoded ones. Where integers are faster than that, a row of x is multiplied as
 * integers, and what a block shares out comes last. */
#include "backend/cpu/vectors.h"

#ifdef __AVX2__
#include <immintrin.h>
#elif defined(CPU_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { MOST_ROWS = 32 };
#elif defined(__AVX2__)
enum { MOST_ROWS = 8 };
#else
enum { MOST_ROWS = 4 };
#endif
enum { PART = 32, VECTORS = PART / WIDTH }; /* values that are made together, their vectors */
enum { AHEAD = 2048, LINE = 64 }; /* bytes of w that are asked for early; of a line of the cache */
enum { TOGETHER = 4, SIDE = WIDTH / 4 > 2 ? 4 : 2 }; /* rows of x, and of w, in registers */

typedef int32_t ints __attribute__((vector_size(BYTES)));

/* Rounded once where there is an instruction for it. */
INLINE vec multiply_add(vec x, vec y, vec z) {
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif defined(__AVX2__)
    return (vec)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#elif defined(CPU_NEON)
    return (vec)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
#else
    return x * y + z;
#endif
}

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
INLINE vec numbers(ints x) { return __builtin_convertvector(x, vec); }

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

/* The `bytes` that are read some time after those at w. */
INLINE void ask_ahead(const uint8_t *w, int bytes) {
    for (int at = 0; at < bytes; at += LINE) __builtin_prefetch(w + AHEAD + at);
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

/* ---- multiplying integers ---- */

/* A part of x is made a power of two, its scale, times integers of 21 bits in three digits, so that
 * a number is off by at most 2^-20 of the part's largest. Products with q are summed without a
 * rounding, and only their sum meets what the block shares out. Where that is infinite or no
 * number, the result is no finite number either, and is made again from decoded ones. A part whose
 * numbers are too unlike each other for this, or not finite, is wide: it is multiplied as it is. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define INTEGERS 1
enum { DIGITS = 3, DIGIT = 7, LARGEST = 20 /* bits, without the sign */, GROUP = 8 /* parts */ };
enum { SMALL = -60, LARGE = 60 }; /* exponents of x whose products with any block are normal */
/* What the integers of a part but for its largest may be off by, of their sum. */
static const float ALLOWED = 0x1p-15f;

typedef uint8_t octets __attribute__((vector_size(BYTES)));

/* The digits of a part's integers, the lowest first, each from -64 to 64; and the sums of four
 * integers each, times the format's zero. */
typedef struct digits {
    int8_t of[DIGITS][PART];
    ints zeros;
} digits;
typedef struct group {
    digits parts[GROUP];
    float scales[GROUP], sums[GROUP]; /* sums of the numbers */
    uint32_t wide;                    /* a bit per part, whose digits are zeros then */
} group;
typedef float wide_times(uint32_t wide, const uint8_t *w, const float *x);

/* How a format is multiplied: value i of a part is each * (q - zero) - less. */
typedef struct factors {
    vec each, second, less; /* of each part; `each` and `second` of halves of parts where so */
} factors;
typedef struct layout {
    octets (*octets)(const uint8_t *blocks, int part);
    factors (*factors)(const uint8_t *blocks, int parts);
    int zero;    /* 0 where `less` accounts for it */
    bool less;   /* is not 0 */
    bool halves; /* of parts have factors; `each` has those of the first four parts, all first
                  * halves before the second ones, and `second` those of the other parts */
    bool high_halves, odd_parts; /* where octets are 16 q, which saves shifting */
} layout;

INLINE octets octets_at(const uint8_t *from) {
    return (octets)_mm256_loadu_si256((const __m256i *)from);
}

/* 16 bytes: their low bits, and then their high ones, which stay where they are. */
INLINE octets nibbles_at(const uint8_t *from) {
    const octets bits = (octets)_mm256_set_m128i(_mm_set1_epi8((char)0xf0), _mm_set1_epi8(0x0f));
    return (octets)_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)from)) & bits;
}

INLINE octets shifted(octets x, int right) {
    ints y = (ints)x; /* each octet gets bits of its neighbours, which are masked */
    return (octets)(right > 0 ? y >> right : y << -right);
}

INLINE vec same_half(const uint8_t *from) {
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return (vec)_mm256_cvtph_ps(_mm_set1_epi16((short)half));
}

INLINE uint64_t four_halves_at(const uint8_t *from, int apart, int count) {
    uint64_t bits = 0;
#pragma GCC unroll 4
    for (int i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, from + i * apart, sizeof half);
        bits |= (uint64_t)half << i * 16;
    }
    return bits;
}

/* Missing ones are zero. */
INLINE vec halves_at(const uint8_t *from, int apart, int count) {
    uint64_t low = four_halves_at(from, apart, count < 4 ? count : 4);
    uint64_t high = four_halves_at(from + 4 * apart, apart, count - 4);
    __asm__("" : "+r"(low), "+r"(high)); /* else gathered in vectors, whose units are short */
    return (vec)_mm256_cvtph_ps(_mm_set_epi64x((long long)high, (long long)low));
}

INLINE vec octet_numbers(uint64_t x) {
    return numbers((ints)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)x)));
}

INLINE octets octets_q8_0(const uint8_t *w, int part) { return octets_at(w + part * 34 + 2) ^ 128; }

INLINE factors factors_q8_0(const uint8_t *w, int parts) {
    return (factors){.each = halves_at(w, 34, parts)};
}

INLINE octets octets_q4_0(const uint8_t *w, int part) { return nibbles_at(w + part * 18 + 2); }

INLINE factors factors_q4_0(const uint8_t *w, int parts) {
    return (factors){.each = halves_at(w, 18, parts)};
}

INLINE octets octets_q4_1(const uint8_t *w, int part) { return nibbles_at(w + part * 20 + 4); }

INLINE factors factors_q4_1(const uint8_t *w, int parts) {
    return (factors){.each = halves_at(w, 20, parts), .less = -halves_at(w + 2, 20, parts)};
}

INLINE octets octets_q4_k(const uint8_t *w, int part) {
    return octets_at(w + 16 + part / 2 * PART) & (uint8_t)(part % 2 ? 0xf0 : 0x0f);
}

INLINE factors factors_q4_k(const uint8_t *w, int parts) {
    uint32_t s[3];
    memcpy(s, w + 4, sizeof s);
    uint64_t low = 0x3f3f3f3f, nibbles = 0x0f0f0f0f, high = 0x30303030;
    uint64_t scales = (s[0] & low) | ((s[2] & nibbles) | (s[0] >> 2 & high)) << 32;
    uint64_t minima = (s[1] & low) | ((s[2] >> 4 & nibbles) | (s[1] >> 2 & high)) << 32;
    return (factors){.each = same_half(w) * octet_numbers(scales),
                     .less = same_half(w + 2) * octet_numbers(minima)};
}

INLINE octets octets_q6_k(const uint8_t *w, int part) {
    octets low = octets_at(w + part / 4 * 64 + part % 2 * PART);
    octets high = octets_at(w + 128 + part / 4 * PART);
    return (shifted(low, part % 4 / 2 * 4) & 15) | (shifted(high, part % 4 * 2 - 4) & 48);
}

INLINE factors factors_q6_k(const uint8_t *w, int parts) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    __m128i s = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(w + 192)), order);
    vec d = same_half(w + 208);
    return (factors){.each = d * numbers((ints)_mm256_cvtepi8_epi32(s)),
                     .second = d * numbers((ints)_mm256_cvtepi8_epi32(_mm_srli_si128(s, 8)))};
}

/* The most rows of x for which this is faster than with floats. */
enum { MOST_q8_0 = 1, MOST_q4_0 = 1, MOST_q4_1 = 1, MOST_q4_k = 2, MOST_q6_k = 3 };
static const layout layout_q8_0 = {octets_q8_0, factors_q8_0, .zero = 128};
static const layout layout_q4_0 = {octets_q4_0, factors_q4_0, .zero = 8, .high_halves = true};
static const layout layout_q4_1 = {octets_q4_1, factors_q4_1, .less = true, .high_halves = true};
static const layout layout_q4_k = {octets_q4_k, factors_q4_k, .less = true, .odd_parts = true};
static const layout layout_q6_k = {octets_q6_k, factors_q6_k, .zero = 32, .halves = true};

/* Number `part` of 0..3 of each half, all over it. */
INLINE vec spread(vec x, int part) {
    __m256 v = (__m256)x;
    return (vec)(part == 0   ? _mm256_permute_ps(v, 0x00)
                 : part == 1 ? _mm256_permute_ps(v, 0x55)
                 : part == 2 ? _mm256_permute_ps(v, 0xaa)
                             : _mm256_permute_ps(v, 0xff));
}

/* Sums of four products each. Pairs stay below 2^15, and all of it below 2^31: octets of 255 times
 * digits of 64. */
INLINE ints integers_times(octets q, const digits *x) {
    ints sum = {0};
    for (int i = 0; i < DIGITS; i++) {
        __m256i pairs =
            _mm256_maddubs_epi16((__m256i)q, _mm256_load_si256((const __m256i *)x->of[i]));
        sum += (ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16((short)(1 << i * DIGIT)));
    }
    return sum;
}

typedef struct row_sums {
    vec even, odd, less; /* of parts */
} row_sums;

INLINE void group_times(const layout *f, int parts, const uint8_t *w, const group *x,
                        row_sums *sums) {
    factors of = f->factors(w, parts);
    float each[GROUP];
    vec even = {0}, odd = {0};
    if (f->halves) {
        of.each *= (vec)_mm256_broadcast_ps((const __m128 *)x->scales);
        of.second *= (vec)_mm256_broadcast_ps((const __m128 *)x->scales + 1);
    } else {
        store(each, of.each * load(x->scales));
        __asm__("" : "+m"(each)); /* loads spread what shuffles would, whose units are short */
    }
    if (f->less) sums->less = multiply_add(of.less, load(x->sums), sums->less);
#pragma GCC unroll 8
    for (int i = 0; i < GROUP && i < parts; i++) {
        ints sum = integers_times(f->octets(w, i), &x->parts[i]);
        if (f->zero) sum -= x->parts[i].zeros;
        vec factor = f->halves ? spread(i < 4 ? of.each : of.second, i % 4)
                               : (vec)_mm256_broadcast_ss(&each[i]);
        if (i % 2)
            odd = multiply_add(numbers(sum), factor, odd);
        else
            even = multiply_add(numbers(sum), factor, even);
    }
    sums->even += even;
    sums->odd += odd;
}

/* One row of w, one of x. */
INLINE float row_times(const layout *f, int values, int bytes, int64_t blocks, const uint8_t *w,
                       const group *x, const float *numbers, wide_times *wide) {
    const int step = bytes * (GROUP * PART / values);
    int64_t parts = blocks * values / PART;
    row_sums sums = {{0}, {0}, {0}};
    float of_wide = 0;
    for (; parts >= GROUP; parts -= GROUP, w += step, x++, numbers += GROUP * PART) {
        ask_ahead(w, step);
        group_times(f, GROUP, w, x, &sums);
        if (x->wide) of_wide += wide(x->wide, w, numbers);
    }
    if (values == PART && parts) {
        group_times(f, (int)parts, w, x, &sums);
        if (x->wide) of_wide += wide(x->wide, w, numbers);
    }
    const vec high = {1, 1, 1, 1, 0.0625f, 0.0625f, 0.0625f, 0.0625f};
    vec sum = f->odd_parts ? sums.even + sums.odd * 0.0625f : sums.even + sums.odd;
    return sum_of((f->high_halves ? sum * high : sum) - sums.less) + of_wide;
}

INLINE float wide_parts(part_of *part, int values, int bytes, uint32_t wide, const uint8_t *w,
                        const float *x) {
    vec sum = {0};
    for (; wide; wide &= wide - 1) {
        int at = __builtin_ctz(wide);
        vec made[VECTORS];
        part(w + at * PART / values * bytes, at % (values / PART), made);
        for (int c = 0; c < VECTORS; c++)
            sum = multiply_add(made[c], load(x + at * PART + c * WIDTH), sum);
    }
    return sum_of(sum);
}

/* floats: the product that decodes. */
INLINE void dot_integers(const layout *f, int values, int bytes, const cpu_block_product *p,
                         void (*floats)(const cpu_block_product *p), wide_times *wide) {
    int64_t groups = (p->blocks * values + GROUP * PART - 1) / (GROUP * PART);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j < p->m; j++) {
            const uint8_t *w = p->w + i * p->blocks * bytes;
            float *y = p->y + j * p->y_strides[0] + i * p->y_strides[1];
            const float *x = p->x + j * p->x_row;
            *y = row_times(f, values, bytes, p->blocks, w, (const group *)p->prepared + j * groups,
                           x, wide);
            if ((bits_of(*y) & 0x7f800000) == 0x7f800000)
                floats(&(cpu_block_product){w, x, y, .m = 1, .n = 1, .blocks = p->blocks});
        }
}

/* False: the part is wide. */
INLINE bool prepare_part(const layout *f, const float *x, digits *to, float *scale, float *sum) {
    ints most = {0};
    for (int c = 0; c < VECTORS; c++) {
        ints bits = (ints)load(x + c * WIDTH) & 0x7fffffff, more = bits > most;
        most = (bits & more) | (most & ~more);
    }
    int32_t largest = 0;
    for (int i = 0; i < WIDTH; i++) largest = most[i] > largest ? most[i] : largest;
    int exponent = largest ? (largest >> 23) - 127 : 0;
    if (exponent < SMALL || exponent > LARGE) return false;
    float up = float_of((uint32_t)(127 + LARGEST - 1 - exponent) << 23);
    int32_t all[PART], total = 0;
    vec off = {0}, size = {0};
    for (int c = 0; c < VECTORS; c++) { /* rounded where the last bit of the sum is 1 */
        vec there = load(x + c * WIDTH) * up, y = there + 0x1.8p23f;
        ints whole = (ints)y - (ints)((vec){0} + 0x1.8p23f);
        memcpy(all + c * WIDTH, &whole, sizeof whole);
        ints bits = (ints)load(x + c * WIDTH) & 0x7fffffff;
        ints others = (bits != largest) & 0x7fffffff;
        off += (vec)((ints)(there - numbers(whole)) & others);
        size += (vec)((ints)there & others);
    }
    if (sum_of(off) > ALLOWED * sum_of(size)) return false;
    for (int i = 0; i < WIDTH; i++) {
        int32_t sum_of_four = all[4 * i] + all[4 * i + 1] + all[4 * i + 2] + all[4 * i + 3];
        to->zeros[i] = sum_of_four * f->zero * (f->high_halves && i >= WIDTH / 2 ? 16 : 1);
        total += sum_of_four;
    }
    for (int i = 0; i < PART; i++) {
        int32_t rest = all[i] + (1 << (DIGIT - 1)), higher = rest >> DIGIT;
        to->of[0][i] = (int8_t)(all[i] - higher * (1 << DIGIT));
        rest = higher + (1 << (DIGIT - 1));
        to->of[1][i] = (int8_t)(higher - (rest >> DIGIT) * (1 << DIGIT));
        to->of[2][i] = (int8_t)(rest >> DIGIT);
    }
    *scale = float_of((uint32_t)(127 - LARGEST + 1 + exponent) << 23);
    *sum = *scale * (float)total;
    return true;
}

INLINE void prepare(const layout *f, int values, const cpu_block_product *p, void *to) {
    int64_t parts = p->blocks * values / PART;
    group *x = to;
    for (int64_t j = 0; j < p->m; j++)
        for (int64_t i = 0; i < parts; x++) {
            x->wide = 0;
            for (int at = 0; at < GROUP; at++, i++) {
                bool fits = i < parts && prepare_part(f, p->x + j * p->x_row + i * PART,
                                                      &x->parts[at], &x->scales[at], &x->sums[at]);
                if (fits) continue;
                x->scales[at] = x->sums[at] = 0;
                if (i >= parts) continue;
                memset(&x->parts[at], 0, sizeof x->parts[at]);
                x->wide |= 1u << at;
            }
        }
}
#endif

/* Functions of their own: together, they are too large to be compiled well. */
#define XX(NAME, name, number, values, bytes, fields)                                              \
    static void decode_##name(const uint8_t *from, float *to, size_t blocks) {                     \
        decode(part_##name, values, bytes, from, to, blocks);                                      \
    }                                                                                              \
    static __attribute__((noinline)) void floats_##name(const cpu_block_product *p) {              \
        dot(part_##name, values, bytes, p);                                                        \
    }
BASE_BLOCK_MAP(XX)
#undef XX

#ifdef INTEGERS
#define XX(NAME, name, number, values, bytes, fields)                                              \
    static __attribute__((noinline)) float wide_##name(uint32_t wide, const uint8_t *w,            \
                                                       const float *x) {                           \
        return wide_parts(part_##name, values, bytes, wide, w, x);                                 \
    }                                                                                              \
    static void dot_##name(const cpu_block_product *p) {                                           \
        if (p->prepared)                                                                           \
            dot_integers(&layout_##name, values, bytes, p, floats_##name, wide_##name);            \
        else                                                                                       \
            floats_##name(p);                                                                      \
    }                                                                                              \
    static void prepare_##name(const cpu_block_product *p, void *to) {                             \
        prepare(&layout_##name, values, p, to);                                                    \
    }
BASE_BLOCK_MAP(XX)
#undef XX
#endif

const cpu_block_kernel CPU_OF_SET(blocks)[BASE_BLOCK_COUNT] = {
#ifdef INTEGERS
#define XX(NAME, name, ...)                                                                        \
    {decode_##name, dot_##name, MOST_ROWS, prepare_##name, MOST_##name, sizeof(group)},
#else
#define XX(NAME, name, ...) {decode_##name, floats_##name, .most_rows = MOST_ROWS},
#endif
    BASE_BLOCK_MAP(XX)
#undef XX
};
