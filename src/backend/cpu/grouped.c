/* The inner parts of products of bytes, and by way of grouped_bf16.c of bfloat16, compiled once per
 * instruction set. Processors sum products of several elements along k at once, a group, per
 * element of the result: of bytes to 32 bits, which wrap, and of bfloat16 to f32. Both operands are
 * packed by groups, UNIT bytes each: of rows, and of panels of columns, group after group.
 *
 * With CPU_BESIDE_SUMS each sum has a lane of its own, and a group of the left operand is copied to
 * all of a vector. Else an instruction makes the four sums of two rows and two columns.
 *
 * Where instructions know one kind of bytes only, a byte x of the other is packed as x' = x - o, o
 * being 128 or -128, which flips its highest bit. With a = a' + s and b = b' + t, sum(a b) is
 * sum(a' b') + s sum(b') + t sum(a') + s t k: what belongs to a column lies before its groups, and
 * what belongs to a row, too. */
#include "backend/cpu/functions.h"

#if defined(__x86_64__) && !defined(CPU_STANDS_IN)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(CPU_STANDS_IN)
enum { BYTES = 16, ROWS = 14 };
#elif defined(__AVX512F__)
enum { BYTES = 64, ROWS = 14 };
#elif defined(__AVX2__)
enum { BYTES = 32, ROWS = 6 };
#elif defined(__aarch64__)
enum { BYTES = 16, ROWS = 12 };
#else
enum { BYTES = 16, ROWS = 6 };
#endif

/* ---- what an instruction multiplies ---- */

#ifdef CPU_BFLOATS
#define NAME(name) CPU_OF_SET(name##_bf16)
typedef float sum;
typedef uint16_t element, packed;
#if defined(__AVX512BF16__) || defined(CPU_STANDS_IN)
#define CPU_GROUPS
#define CPU_BESIDE_SUMS
enum { GROUP = 2 };
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define CPU_GROUPS
enum { GROUP = 4 };
#endif

#else
#define NAME(name) CPU_OF_SET(name##_bytes)
typedef uint32_t sum; /* they wrap */
typedef uint8_t element;
#if defined(__AVX512VNNI__) || defined(CPU_STANDS_IN)
#define CPU_GROUPS
#define CPU_BESIDE_SUMS
#define CPU_FLIPS
typedef uint8_t packed;
enum { GROUP = 4, LEFT_SIGNED = 0 };
#elif defined(__SSE2__)
#define CPU_GROUPS
#define CPU_BESIDE_SUMS
typedef int16_t packed;
enum { GROUP = 2 };
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define CPU_GROUPS
#define CPU_FLIPS
typedef uint8_t packed;
enum { GROUP = 8, LEFT_SIGNED = 1 };
#elif defined(__ARM_FEATURE_DOTPROD)
#define CPU_GROUPS
#define CPU_BESIDE_SUMS
#define CPU_FLIPS
typedef uint8_t packed;
enum { GROUP = 4, LEFT_SIGNED = 1 };
#endif
#endif

#ifdef CPU_GROUPS
enum {
    UNIT = GROUP * (int)sizeof(packed),
    WIDTH = BYTES / (int)sizeof(sum),
    PANEL = 2 * WIDTH,
    LINE = 64, /* bytes that come from memory together */
    SOON = 8   /* groups of a panel that are on their way to the first cache */
};
#ifdef CPU_FLIPS
enum { BEFORE = 1 }; /* units before the groups of a row or column */
#else
enum { BEFORE = 0 };
#endif

typedef sum vec __attribute__((vector_size(BYTES)));
typedef sum loose __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t group_vec __attribute__((vector_size(BYTES)));
typedef int32_t loose_groups __attribute__((vector_size(BYTES), aligned(4), may_alias));

static int64_t groups_of(int64_t k) { return (k + GROUP - 1) / GROUP; }

/* ---- packing ---- */

/* An element in the form that is multiplied. `other`: bytes are unsigned where the instruction
 * wants signed ones, or the other way round; for words, whether they are unsigned. */
INLINE packed packed_of(element x, bool other) {
#if defined(CPU_BFLOATS)
    return x;
#elif defined(CPU_FLIPS)
    return x ^ (other ? 0x80 : 0);
#else
    return other ? x : (int8_t)x;
#endif
}

typedef uint8_t chunk __attribute__((vector_size(16)));
typedef uint8_t loose_chunk __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t words __attribute__((vector_size(16)));
typedef uint32_t longs __attribute__((vector_size(16)));
typedef uint64_t octets __attribute__((vector_size(16)));

#define ZIP_BYTES(a, b, from)                                                                      \
    __builtin_shufflevector(a, b, (from), (from) + 16, (from) + 1, (from) + 17, (from) + 2,        \
                            (from) + 18, (from) + 3, (from) + 19, (from) + 4, (from) + 20,         \
                            (from) + 5, (from) + 21, (from) + 6, (from) + 22, (from) + 7,          \
                            (from) + 23)
#define ZIP_WORDS(a, b, from)                                                                      \
    __builtin_shufflevector(a, b, (from), (from) + 8, (from) + 1, (from) + 9, (from) + 2,          \
                            (from) + 10, (from) + 3, (from) + 11)
#define ZIP_LONGS(a, b, from)                                                                      \
    __builtin_shufflevector(a, b, (from), (from) + 4, (from) + 1, (from) + 5)

#define ZIP_OCTETS(a, b, from) __builtin_shufflevector(a, b, from, (from) + 2)

#define PUT(to, x) (*(loose_chunk *)(void *)(to) = (chunk)(x))

/* GROUP rows of 16 bytes each: every column's elements side by side. */
INLINE void interleave(const element *from, int64_t row, bool other, void *to_data) {
    char *to = to_data;
    chunk x[GROUP];
    for (int q = 0; q < GROUP; q++) x[q] = *(const loose_chunk *)(const void *)(from + q * row);
#if !defined(CPU_BFLOATS) && defined(CPU_FLIPS)
    for (int q = 0; q < GROUP; q++) x[q] ^= (chunk){0} + (uint8_t)(other ? 0x80 : 0);
    longs four[2][4]; /* of rows 0 to 3, and 4 to 7 */
    for (int half = 0; half < GROUP / 4; half++) {
        const chunk *rows = x + 4 * half;
        words ab[] = {(words)ZIP_BYTES(rows[0], rows[1], 0), (words)ZIP_BYTES(rows[0], rows[1], 8)};
        words cd[] = {(words)ZIP_BYTES(rows[2], rows[3], 0), (words)ZIP_BYTES(rows[2], rows[3], 8)};
        for (int i = 0; i < 2; i++) {
            four[half][2 * i] = (longs)ZIP_WORDS(ab[i], cd[i], 0);
            four[half][2 * i + 1] = (longs)ZIP_WORDS(ab[i], cd[i], 4);
        }
    }
    for (int i = 0; i < 4; i++) {
        if (GROUP == 4) {
            PUT(to + 16 * i, four[0][i]);
            continue;
        }
        PUT(to + 32 * i, ZIP_LONGS(four[0][i], four[1][i], 0));
        PUT(to + 32 * i + 16, ZIP_LONGS(four[0][i], four[1][i], 2));
    }
#elif !defined(CPU_BFLOATS)
    typedef int16_t wide __attribute__((vector_size(32)));
    typedef int8_t signed_chunk __attribute__((vector_size(16)));
    for (int half = 0; half < 2; half++) {
        chunk pairs = half ? ZIP_BYTES(x[0], x[1], 8) : ZIP_BYTES(x[0], x[1], 0);
        wide all = other ? __builtin_convertvector(pairs, wide)
                         : __builtin_convertvector((signed_chunk)pairs, wide);
        memcpy(to + 32 * half, &all, sizeof all);
    }
#else
    words ab[] = {ZIP_WORDS((words)x[0], (words)x[1], 0), ZIP_WORDS((words)x[0], (words)x[1], 4)};
    if (GROUP == 2) {
        PUT(to, ab[0]);
        PUT(to + 16, ab[1]);
        return;
    }
    const chunk *last = x + GROUP - 2;
    words cd[] = {ZIP_WORDS((words)last[0], (words)last[1], 0),
                  ZIP_WORDS((words)last[0], (words)last[1], 4)};
    for (int i = 0; i < 2; i++) {
        PUT(to + 32 * i, ZIP_LONGS((longs)ab[i], (longs)cd[i], 0));
        PUT(to + 32 * i + 16, ZIP_LONGS((longs)ab[i], (longs)cd[i], 2));
    }
#endif
}

/* EACH groups of as many lines, in which elements are side by side: the first one of all lines,
 * then, `most` units behind it, the next one. Elements so far ahead are read soon. */
enum { EACH = 16 / UNIT };
INLINE void turn(const element *from, int64_t line, int64_t ahead, bool other, void *to_data,
                 int64_t most) {
    char *to = to_data;
    chunk x[EACH];
    for (int i = 0; i < EACH; i++) {
        const element *at = from + i * line;
        __builtin_prefetch(at + ahead);
#if defined(CPU_BFLOATS) || defined(CPU_FLIPS)
        x[i] = *(const loose_chunk *)(const void *)at;
#else
        typedef int16_t wide __attribute__((vector_size(16)));
        typedef uint8_t half __attribute__((vector_size(8)));
        typedef int8_t signed_half __attribute__((vector_size(8)));
        half bytes;
        memcpy(&bytes, at, sizeof bytes);
        x[i] = (chunk)(other ? __builtin_convertvector(bytes, wide)
                             : __builtin_convertvector((signed_half)bytes, wide));
#endif
#if !defined(CPU_BFLOATS) && defined(CPU_FLIPS)
        x[i] ^= (chunk){0} + (uint8_t)(other ? 0x80 : 0);
#endif
    }
    for (int64_t g = 0, step = most * UNIT; g < EACH; g += 2, to += 2 * step) {
        if (UNIT == 8) {
            PUT(to, ZIP_OCTETS((octets)x[0], (octets)x[1], 0));
            PUT(to + step, ZIP_OCTETS((octets)x[0], (octets)x[1], 1));
            continue;
        }
        longs lines[4];
        for (int i = 0; i < 4; i++) lines[i] = (longs)x[i % EACH];
        longs even = g ? ZIP_LONGS(lines[0], lines[2], 2) : ZIP_LONGS(lines[0], lines[2], 0);
        longs odd = g ? ZIP_LONGS(lines[1], lines[3], 2) : ZIP_LONGS(lines[1], lines[3], 0);
        PUT(to, ZIP_LONGS(even, odd, 0));
        PUT(to + step, ZIP_LONGS(even, odd, 2));
    }
}

/* n elements, which are `step` apart, as a group, with zeros behind them. */
INLINE void pack_group(int64_t n, const element *from, int64_t step, bool other, packed *to) {
    if (n >= GROUP && step == 1) {
        for (int q = 0; q < GROUP; q++) to[q] = packed_of(from[q], other);
        return;
    }
    for (int q = 0; q < GROUP; q++) to[q] = q < n ? packed_of(from[q * step], other) : 0;
}

/* n columns of k elements each, or rows: groups of all of them, then the next ones; `most` of them,
 * the missing ones as zeros. */
INLINE void pack_lines(int64_t n, int64_t most, int64_t k, const element *from, int64_t step,
                       int64_t along, bool other, packed *to) {
    enum { SOME = 16 / (int)sizeof(element), LONG = EACH * GROUP };
    int64_t whole = along == 1 ? k / LONG * LONG : 0;
    for (int64_t p = 0; p < k; p += GROUP, to += most * GROUP) {
        int64_t j = p < whole ? n / EACH * EACH : 0;
        for (int64_t i = 0; p % LONG == 0 && i < j; i += EACH)
            turn(from + p + i * step, step, n * step, other, to + i * GROUP, most);
        if (step == 1 && p + GROUP <= k)
            for (; j + SOME <= n; j += SOME)
                interleave(from + p * along + j, along, other, to + j * GROUP);
        for (; j < n; j++)
            pack_group(k - p, from + p * along + j * step, along, other, to + j * GROUP);
        if (j < most) memset(to + j * GROUP, 0, (size_t)((most - j) * UNIT));
    }
}

#ifdef CPU_FLIPS
/* What is added to the results of each of `most` rows or columns: offset * (sum of its packed bytes
 * + k * other_offset). */
static void sum_lines(int64_t most, int64_t k, const packed *from, bool is_signed, uint32_t offset,
                      uint32_t other_offset, uint32_t *to) {
    uint32_t flip = is_signed ? 0x80808080 : 0;
    uint32_t others = (uint32_t)k * other_offset - (flip & 128) * GROUP * (uint32_t)groups_of(k);
    for (int64_t j = 0; j < most; j += EACH) {
        int64_t first = most < EACH ? 0 : j + EACH > most ? most - EACH : j;
        longs sums = {0}, x = {0};
        for (int64_t p = 0; offset && p < groups_of(k); p++) {
            const packed *at = from + (p * most + first) * GROUP;
            if (most < EACH)
                memcpy(&x, at, (size_t)most * UNIT);
            else
                memcpy(&x, at, sizeof x);
            longs bytes = x ^ flip;
            sums += (bytes & 255) + (bytes >> 8 & 255) + (bytes >> 16 & 255) + (bytes >> 24);
        }
        for (int64_t i = 0; i < EACH && i < most; i++)
            to[first + i] =
                offset * (others + (UNIT == 4 ? sums[i] : sums[2 * i % 4] + sums[(2 * i + 1) % 4]));
    }
}

/* What was taken from bytes on the left, and on the right, where instructions want signed ones. */
static uint32_t left_offset(bool is_unsigned) {
    if (LEFT_SIGNED) return is_unsigned ? 128 : 0;
    return is_unsigned ? 0 : (uint32_t)-128;
}
static uint32_t right_offset(bool is_unsigned) { return is_unsigned ? 128 : 0; }
#endif

/* left, right: whether bytes are unsigned. */
INLINE void pack_panels(int64_t k, int64_t n, const void *b_data, const int64_t *strides,
                        void *to_data, bool left, bool right) {
    const element *b = b_data;
    packed *to = to_data;
    for (int64_t j = 0; j < n; j += PANEL, b += PANEL * strides[1]) {
        pack_lines(n - j < PANEL ? n - j : PANEL, PANEL, k, b, strides[1], strides[0], right,
                   to + BEFORE * PANEL * GROUP);
#ifdef CPU_FLIPS
        sum_lines(PANEL, k, to + PANEL * GROUP, true, left_offset(left), 0, (uint32_t *)(void *)to);
#endif
        to += (groups_of(k) + BEFORE) * PANEL * GROUP;
    }
}

INLINE void pack_rows(int64_t m, int64_t k, const void *a_data, const int64_t *strides,
                      void *to_data, bool left, bool right) {
    const element *a = a_data;
    packed *to = to_data;
    cpu_row_panels rows = cpu_divide_rows(m, ROWS);
    for (int64_t i = 0, some; i < rows.count; i++, a += some * strides[0]) {
        some = rows.small + (i < rows.larger);
#ifdef CPU_FLIPS
        bool flips = left_offset(left) != 0;
#else
        bool flips = left;
#endif
        pack_lines(some, some, k, a, strides[0], strides[1], flips, to + BEFORE * some * GROUP);
#ifdef CPU_FLIPS
        sum_lines(some, k, to + some * GROUP, LEFT_SIGNED, right_offset(right), left_offset(left),
                  (uint32_t *)(void *)to);
#endif
        to += (groups_of(k) + BEFORE) * some * GROUP;
    }
}

/* ---- tiles ---- */

typedef struct tile {
    int64_t groups;
    const char *a, *b;
    const sum *of_rows, *of_columns; /* CPU_FLIPS: what is added to their sums */
    sum *to;                         /* whole rows of PANEL sums, `row` apart */
    int64_t row;
    bool add; /* to what is there */
    /* A line of memory that will be read soon is asked for after every `often` groups. */
    const char *ahead;
    int64_t often;
} tile;

INLINE void finish(const tile *t, int i, int v, vec sums) {
    loose *to = (loose *)(t->to + i * t->row + v * WIDTH);
#ifdef CPU_FLIPS
    sums += t->of_rows[i] + *(const loose *)(t->of_columns + v * WIDTH);
#endif
    if (t->add) sums += *to;
    *to = sums;
}

#ifdef CPU_BESIDE_SUMS
INLINE vec multiply(vec sums, group_vec left, group_vec right) {
#if defined(CPU_STANDS_IN)
    return CPU_STANDS_IN(sums, left, right);
#elif defined(CPU_BFLOATS)
    return (vec)_mm512_dpbf16_ps((__m512)sums, (__m512bh)left, (__m512bh)right);
#elif defined(__AVX512VNNI__)
    return (vec)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)left, (__m512i)right);
#elif defined(__AVX512BW__)
    return sums + (vec)_mm512_madd_epi16((__m512i)left, (__m512i)right);
#elif defined(__AVX2__)
    return sums + (vec)_mm256_madd_epi16((__m256i)left, (__m256i)right);
#elif defined(__SSE2__)
    return sums + (vec)_mm_madd_epi16((__m128i)left, (__m128i)right);
#else
    return (vec)vdotq_s32((int32x4_t)sums, (int8x16_t)left, (int8x16_t)right);
#endif
}

/* Rows of the left operand whose groups fill a vector, where instructions take one group of a
 * vector for all lanes; returns how many there were. */
INLINE int multiply_lanes(const char *a, int rows, const group_vec *right, vec (*sums)[2]) {
#if defined(__ARM_FEATURE_DOTPROD) && !defined(CPU_STANDS_IN)
#define LANE(lane)                                                                                 \
    for (int v = 0; v < 2; v++)                                                                    \
        sums[i + (lane)][v] =                                                                      \
            (vec)vdotq_laneq_s32((int32x4_t)sums[i + (lane)][v], (int8x16_t)right[v], left, lane);
#pragma GCC unroll 3
    for (int i = 0; i < rows / 4 * 4; i += 4) {
        int8x16_t left = vld1q_s8((const int8_t *)a + i * UNIT);
        LANE(0) LANE(1) LANE(2) LANE(3)
    }
#undef LANE
    return rows / 4 * 4;
#else
    return 0;
#endif
}

INLINE void multiply_tile(const tile *t, int rows) {
    vec sums[ROWS][2];
    const char *a = t->a, *b = t->b, *ahead = t->ahead;
    for (int i = 0; i < rows; i++)
        for (int at = 0; at < PANEL; at += LINE / (int)sizeof(sum))
            __builtin_prefetch(t->to + i * t->row + at, 1);
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) sums[i][0] = sums[i][1] = (vec){0};
    for (int64_t p = 0; p < t->groups; ahead += LINE) {
        int64_t end = t->groups - p < t->often ? t->groups : p + t->often;
        __builtin_prefetch(ahead, 0, 2);
        for (; p < end; p++, b += PANEL * UNIT, a += rows * UNIT) {
            const group_vec right[] = {*(const loose_groups *)(const void *)b,
                                       *(const loose_groups *)(const void *)(b + BYTES)};
            for (int line = 0; line < PANEL * UNIT; line += LINE)
                __builtin_prefetch(b + SOON * PANEL * UNIT + line);
            int first = multiply_lanes(a, rows, right, sums);
#pragma GCC unroll 14
            for (int i = first; i < rows; i++) {
                int32_t group;
                memcpy(&group, a + i * UNIT, sizeof group);
                group_vec left = (group_vec){0} + group;
#pragma GCC unroll 2
                for (int v = 0; v < 2; v++) sums[i][v] = multiply(sums[i][v], left, right[v]);
            }
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < 2; v++) finish(t, i, v, sums[i][v]);
}
#else
#ifdef CPU_BFLOATS
typedef float32x4_t four;
typedef bfloat16x8_t two_groups;
INLINE four multiply(four sums, two_groups left, two_groups right) {
    return vbfmmlaq_f32(sums, left, right);
}
INLINE four upper(four x, four y) { return vcombine_f32(vget_low_f32(x), vget_low_f32(y)); }
INLINE four lower(four x, four y) { return vcombine_f32(vget_high_f32(x), vget_high_f32(y)); }
#else
typedef int32x4_t four;
typedef int8x16_t two_groups;
INLINE four multiply(four sums, two_groups left, two_groups right) {
    return vmmlaq_s32(sums, left, right);
}
INLINE four upper(four x, four y) { return vcombine_s32(vget_low_s32(x), vget_low_s32(y)); }
INLINE four lower(four x, four y) { return vcombine_s32(vget_high_s32(x), vget_high_s32(y)); }
#endif

/* The groups of two rows or columns; of one, with zeros as the other. */
INLINE two_groups load_groups(const char *from, bool both) {
    uint8x8_t first = vld1_u8((const uint8_t *)from);
    uint8x8_t second = both ? vld1_u8((const uint8_t *)from + UNIT) : vdup_n_u8(0);
    return (two_groups)vcombine_u8(first, second);
}

/* Half a panel at a time: all of it would take more registers than there are. */
INLINE void multiply_tile(const tile *t, int rows) {
    enum { PAIRS = PANEL / 4, ROW_PAIRS = ROWS / 2 };
    __builtin_prefetch(t->ahead, 0, 2);
    for (int half = 0; half < 2; half++) {
        four sums[ROW_PAIRS][PAIRS];
        const char *a = t->a, *b = t->b + half * PANEL / 2 * UNIT;
        for (int i = 0; i < ROW_PAIRS; i++)
            for (int j = 0; j < PAIRS; j++) sums[i][j] = (four){0};
        for (int64_t p = 0; p < t->groups; p++, b += PANEL * UNIT, a += rows * UNIT) {
            two_groups right[PAIRS];
            for (int j = 0; j < PAIRS; j++) right[j] = load_groups(b + 2 * j * UNIT, true);
            for (int i = 0; 2 * i < rows; i++) {
                two_groups left = load_groups(a + 2 * i * UNIT, 2 * i + 1 < rows);
                for (int j = 0; j < PAIRS; j++) sums[i][j] = multiply(sums[i][j], left, right[j]);
            }
        }
        for (int i = 0; 2 * i < rows; i++) {
            finish(t, 2 * i, half, (vec)upper(sums[i][0], sums[i][1]));
            if (2 * i + 1 < rows) finish(t, 2 * i + 1, half, (vec)lower(sums[i][0], sums[i][1]));
        }
    }
}
#endif

#define TILE(rows)                                                                                 \
    static void tile_##rows(const tile *t) { multiply_tile(t, rows); }
#define TILES_TO_6(XX) XX(1) XX(2) XX(3) XX(4) XX(5) XX(6)
#define TILES_TO_12(XX) TILES_TO_6(XX) XX(7) XX(8) XX(9) XX(10) XX(11) XX(12)
#if defined(__AVX512F__) || defined(CPU_STANDS_IN)
#define TILES(XX) TILES_TO_12(XX) XX(13) XX(14)
#elif defined(__aarch64__)
#define TILES(XX) TILES_TO_12(XX)
#else
#define TILES(XX) TILES_TO_6(XX)
#endif
#define NAMED(rows) tile_##rows,
TILES(TILE)

typedef void (*tile_kernel)(const tile *t);
static const tile_kernel kernels[ROWS] = {TILES(NAMED)};

/* ---- blocks ---- */

/* A tile of sums to where it belongs, if that is no whole row of a panel. */
static void put_tile(const sum *from, int64_t rows, int64_t columns, sum *c, const int64_t *cs,
                     bool add) {
    if (cs[1] != 1) {
        for (int64_t j = 0; j < columns; j++)
            for (int64_t i = 0; i < rows; i++) {
                sum *to = c + i * cs[0] + j * cs[1];
                *to = (add ? *to : 0) + from[i * PANEL + j];
            }
        return;
    }
    for (int64_t i = 0; i < rows; i++, c += cs[0], from += PANEL) {
        if (!add)
            memcpy(c, from, (size_t)columns * sizeof *c);
        else
            for (int64_t j = 0; j < columns; j++) c[j] += from[j];
    }
}

/* Both operands are packed: strides of the others' interface say nothing here. */
static void block(int64_t m, int64_t n, int64_t k, const void *a, const int64_t *as, const void *b,
                  int64_t b_row, int64_t b_panel, void *c, const int64_t *cs, bool add) {
    cpu_row_panels rows = cpu_divide_rows(m, ROWS);
    int64_t groups = groups_of(k), units = groups + BEFORE;
    sum sums[ROWS * PANEL];
    for (int64_t j = 0; j < n; j += PANEL) {
        const char *panel = (const char *)b + j * units * UNIT;
        const char *next = j + PANEL < n ? panel + PANEL * units * UNIT : panel;
        bool direct = j + PANEL <= n && cs[1] == 1;
        tile t = {.groups = groups,
                  .b = panel + BEFORE * PANEL * UNIT,
                  .of_columns = (const sum *)(const void *)panel,
                  .row = direct ? cs[0] : PANEL,
                  .add = direct && add,
                  .often = rows.count > 1 ? rows.count * LINE / (PANEL * UNIT) : 1};
        if (t.often < 1) t.often = 1;
        for (int64_t i = 0, at = 0, some; i < rows.count; i++, at += some) {
            some = rows.small + (i < rows.larger);
            const char *left = (const char *)a + at * units * UNIT;
            sum *to = (sum *)c + at * cs[0] + j * cs[1];
            t.a = left + BEFORE * some * UNIT;
            t.of_rows = (const sum *)(const void *)left;
            t.to = direct ? to : sums;
            t.ahead = next + PANEL * UNIT * units / rows.count * i;
            kernels[some - 1](&t);
            if (!direct) put_tile(sums, some, n - j < PANEL ? n - j : PANEL, to, cs, add);
        }
    }
}

#define OPERANDS(left, right)                                                                      \
    static void pack_a_##left##right(int64_t m, int64_t k, const void *a, const int64_t *as,       \
                                     void *to) {                                                   \
        pack_rows(m, k, a, as, to, left, right);                                                   \
    }                                                                                              \
    static void pack_b_##left##right(int64_t k, int64_t n, const void *b, const int64_t *bs,       \
                                     void *to) {                                                   \
        pack_panels(k, n, b, bs, to, left, right);                                                 \
    }
#define PARTS(left, right)                                                                         \
    {                                                                                              \
        .rows = ROWS, .panel = PANEL, .group = GROUP, .unit = UNIT, .before = BEFORE,              \
        .pack_a = pack_a_##left##right, .pack_b = pack_b_##left##right, .block = block             \
    }
OPERANDS(0, 0)
#ifdef CPU_BFLOATS
const cpu_grouped NAME(grouped) = {true, {{PARTS(0, 0)}}};
#else
OPERANDS(0, 1)
OPERANDS(1, 0)
OPERANDS(1, 1)
const cpu_grouped NAME(grouped) = {true, {{PARTS(0, 0), PARTS(0, 1)}, {PARTS(1, 0), PARTS(1, 1)}}};
#endif
#else
const cpu_grouped NAME(grouped) = {0};
#endif
