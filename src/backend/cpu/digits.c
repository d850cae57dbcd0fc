/* Products of a few rows of x with quantised blocks by integers, where that is faster than by
 * floats (blocks.c), compiled once per instruction set. */
#include "backend/cpu/functions.h"

#if defined(__AVX2__) && (!defined(__AVX512F__) || defined(__AVX512VNNI__))
#define CPU_BYTES 32 /* wider vectors hold parts of different factors, and are no faster */
#include "backend/cpu/quantised.h"

/* A part of x is made a power of two, its scale, times integers of 21 bits in three digits, so that
 * a number is off by at most 2^-20 of the part's largest. Products with q are summed without a
 * rounding, and only their sum meets what the block shares out. Where that is infinite or no
 * number, the result is no finite number either, and is made again from decoded ones. A part whose
 * numbers are too unlike each other for this, or not finite, is wide: it is multiplied as it is. */
enum { DIGITS = 3, DIGIT = 7, LARGEST = 20 /* bits, without the sign */, GROUP = 8 /* parts */ };
enum { SMALL = -60, LARGE = 60 }; /* exponents of x whose products with any block are normal */
/* What the integers of a part but for its largest may be off by, of their sum. */
static const float ALLOWED = 0x1p-15f;

typedef uint8_t octets __attribute__((vector_size(BYTES)));
typedef int8_t small_octets __attribute__((vector_size(WIDTH)));

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
#ifdef __AVX512VNNI__
    __m256i sum = _mm256_setzero_si256();
    for (int i = DIGITS - 1; i >= 0; i--)
        sum = _mm256_dpbusd_epi32(_mm256_slli_epi32(sum, DIGIT), (__m256i)q,
                                  _mm256_load_si256((const __m256i *)x->of[i]));
    return (ints)sum;
#else
    ints sum = {0};
    for (int i = 0; i < DIGITS; i++) {
        __m256i pairs =
            _mm256_maddubs_epi16((__m256i)q, _mm256_load_si256((const __m256i *)x->of[i]));
        sum += (ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16((short)(1 << i * DIGIT)));
    }
    return sum;
#endif
}

typedef struct row_sums {
    vec even, odd, less; /* of parts */
} row_sums;

/* What the parts of a group are multiplied with. */
typedef struct scaled {
    vec first, second; /* of halves */
    float each[GROUP];
} scaled;
INLINE void scale(const layout *f, int parts, const uint8_t *w, const group *x, scaled *to,
                  vec *less) {
    factors of = f->factors(w, parts);
    if (f->halves) {
        to->first = of.each * (vec)_mm256_broadcast_ps((const __m128 *)x->scales);
        to->second = of.second * (vec)_mm256_broadcast_ps((const __m128 *)x->scales + 1);
    } else {
        store(to->each, of.each * load(x->scales));
        __asm__("" : "+m"(to->each)); /* loads spread what shuffles would, whose units are short */
    }
    if (f->less) *less = multiply_add(of.less, load(x->sums), *less);
}

INLINE void group_times(const layout *f, int parts, const uint8_t *w, const group *x,
                        const scaled *of, row_sums *sums) {
    vec even = {0}, odd = {0};
#pragma GCC unroll 8
    for (int i = 0; i < GROUP && i < parts; i++) {
        ints sum = integers_times(f->octets(w, i), &x->parts[i]);
        if (f->zero) sum -= x->parts[i].zeros;
        vec factor = f->halves ? spread(i < 4 ? of->first : of->second, i % 4)
                               : (vec)_mm256_broadcast_ss(&of->each[i]);
        if (i % 2)
            odd = multiply_add(numbers(sum), factor, odd);
        else
            even = multiply_add(numbers(sum), factor, even);
    }
    sums->even += even;
    sums->odd += odd;
}

/* Parts of a group as they are. */
static __attribute__((noinline)) float wide_times(const cpu_block_kernel *plain, int values,
                                                  int64_t blocks, uint32_t wide, const uint8_t *w,
                                                  const float *x) {
    float kept[GROUP * PART] = {0}, y;
    for (; wide; wide &= wide - 1) {
        int at = __builtin_ctz(wide) * PART;
        memcpy(kept + at, x + at, PART * sizeof *x);
    }
    if (blocks > GROUP * PART / values) blocks = GROUP * PART / values;
    plain->dot(&(cpu_block_product){w, kept, &y, .m = 1, .n = 1, .blocks = blocks});
    return y;
}

/* One row of w, one of x. */
INLINE float row_times(const layout *f, int values, int bytes, const cpu_block_kernel *plain,
                       int64_t blocks, const uint8_t *w, const group *x, const float *numbers) {
    const int step = bytes * (GROUP * PART / values);
    int64_t parts = blocks * values / PART;
    row_sums sums = {{0}, {0}, {0}};
    float of_wide = 0;
    scaled of[2]; /* that of the next group is made before this one is multiplied */
    scale(f, parts < GROUP ? (int)parts : GROUP, w, x, &of[0], &sums.less);
    for (int at = 0; parts > 0; parts -= GROUP, w += step, x++, numbers += GROUP * PART, at ^= 1) {
        ask_ahead(w, step);
        int64_t next = parts - GROUP;
        if (next >= GROUP)
            scale(f, GROUP, w + step, x + 1, &of[at ^ 1], &sums.less);
        else if (next > 0)
            scale(f, (int)next, w + step, x + 1, &of[at ^ 1], &sums.less);
        if (values > PART || parts >= GROUP)
            group_times(f, GROUP, w, x, &of[at], &sums);
        else
            group_times(f, (int)parts, w, x, &of[at], &sums);
        if (x->wide)
            of_wide += wide_times(plain, values, parts * PART / values, x->wide, w, numbers);
    }
    const vec high = {1, 1, 1, 1, 0.0625f, 0.0625f, 0.0625f, 0.0625f};
    vec sum = f->odd_parts ? sums.even + sums.odd * 0.0625f : sums.even + sums.odd;
    return sum_of((f->high_halves ? sum * high : sum) - sums.less) + of_wide;
}

INLINE void dot(const layout *f, int values, int bytes, const cpu_block_product *p,
                const cpu_block_kernel *plain) {
    int64_t groups = (p->blocks * values + GROUP * PART - 1) / (GROUP * PART);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j < p->m; j++) {
            const uint8_t *w = p->w + i * p->blocks * bytes;
            float *y = p->y + j * p->y_strides[0] + i * p->y_strides[1];
            const float *x = p->x + j * p->x_row;
            *y = row_times(f, values, bytes, plain, p->blocks, w,
                           (const group *)p->prepared + j * groups, x);
            if ((bits_of(*y) & 0x7f800000) == 0x7f800000)
                plain->dot(&(cpu_block_product){w, x, y, .m = 1, .n = 1, .blocks = p->blocks});
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
    vec off = {0}, size = {0};
    for (int c = 0; c < VECTORS; c++) { /* rounded where the last bit of the sum is 1 */
        vec there = load(x + c * WIDTH) * up, y = there + 0x1.8p23f;
        ints rest = (ints)y - (ints)((vec){0} + 0x1.8p23f);
        ints bits = (ints)load(x + c * WIDTH) & 0x7fffffff;
        ints others = (bits != largest) & 0x7fffffff;
        off += (vec)((ints)(there - numbers(rest)) & others);
        size += (vec)((ints)there & others);
        for (int i = 0; i < DIGITS; i++) {
            ints higher = i + 1 < DIGITS ? (rest + (1 << (DIGIT - 1))) >> DIGIT : (ints){0};
            small_octets digit = __builtin_convertvector(rest - (higher << DIGIT), small_octets);
            memcpy(to->of[i] + c * WIDTH, &digit, sizeof digit);
            rest = higher;
        }
    }
    if (sum_of(off) > ALLOWED * sum_of(size)) return false;
    octets one = (octets){0} + 1, zero = one * (uint8_t)f->zero;
    ints high = (ints)zero << (f->high_halves ? 4 : 0), fours = integers_times(one, to);
    ints upper = {0, 0, 0, 0, -1, -1, -1, -1};
    to->zeros = integers_times((octets)((high & upper) | ((ints)zero & ~upper)), to);
    int32_t total = 0;
    for (int i = 0; i < WIDTH; i++) total += fours[i];
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

#define XX(NAME, name, number, values, bytes, fields)                                              \
    static void prepare_##name(const cpu_block_product *p, void *to) {                             \
        prepare(&layout_##name, values, p, to);                                                    \
    }                                                                                              \
    static void dot_##name(const cpu_block_product *p, const cpu_block_kernel *plain) {            \
        dot(&layout_##name, values, bytes, p, plain);                                              \
    }
BASE_BLOCK_MAP(XX)
#undef XX

const cpu_digits_kernel CPU_OF_SET(digits)[BASE_BLOCK_COUNT] = {
#define XX(NAME, name, ...) {prepare_##name, dot_##name, MOST_##name, sizeof(group)},
    BASE_BLOCK_MAP(XX)
#undef XX
};
#else
const cpu_digits_kernel CPU_OF_SET(digits)[BASE_BLOCK_COUNT] = {{0}};
#endif
