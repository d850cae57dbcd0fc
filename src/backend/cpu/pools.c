/* What windows, orders along an axis, and indices need along a line, compiled once per instruction
 * set. */
#include "backend/cpu/loops.h"

/* Every element that is `step` apart. The common steps are constants, for which compilers turn the
 * loop into vector code; 0 repeats one. */
#define PICK(type)                                                                                 \
    static void pick_##type(int64_t n, const void *data, int64_t step, void *out) {                \
        const type *from = data;                                                                   \
        type *to = out;                                                                            \
        if (step == 1)                                                                             \
            memcpy(to, from, (size_t)n * sizeof *to);                                              \
        else if (step == 2)                                                                        \
            for (int64_t i = 0; i < n; i++) to[i] = from[2 * i];                                   \
        else if (step == -1)                                                                       \
            for (int64_t i = 0; i < n; i++) to[i] = from[-i];                                      \
        else if (step == 0)                                                                        \
            for (int64_t i = 0; i < n; i++) to[i] = *from;                                         \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i] = from[step * i];                                \
    }
PICK(uint8_t)
PICK(uint16_t)
PICK(uint32_t)
PICK(uint64_t)

/* ---- indices ---- */

/* What int64 does not hold is its largest number. */
#define INDEX(type, x) ((type)-1 > (type)0 && (int64_t)(x) < 0 ? INT64_MAX : (int64_t)(x))
#define INDEX_LOOP(type, step_, before_, expression)                                               \
    for (int64_t i = 0; i < n; i++) {                                                              \
        int64_t before = before_, index = INDEX(type, from[i * (step_)]);                          \
        list[i] = expression;                                                                      \
    }
#define LIST(name, type, expression)                                                               \
    static void name##_##type(int64_t n, const void *indices, int64_t step, cpu_chosen chosen,     \
                              int64_t each, bool more, int64_t *list) {                            \
        const type *from = indices;                                                                \
        int64_t stride = chosen.stride, last = chosen.last;                                        \
        if (step == 1 && !more)                                                                    \
            INDEX_LOOP(type, 1, i *each, expression)                                               \
        else                                                                                       \
            INDEX_LOOP(type, step, more ? list[i] : i *each, expression)                           \
    }
#define INSIDE(type)                                                                               \
    static bool inside_##type(int64_t n, const void *indices, int64_t start, int64_t limit,        \
                              const int64_t *ignored) {                                            \
        const type *from = indices;                                                                \
        int64_t other = ignored ? *ignored : start, outside = 0;                                   \
        if (!ignored && start >= limit) return !n;                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int64_t index = INDEX(type, from[i]);                                                  \
            outside |= ((index < start) | (index >= limit)) & (index != other);                    \
        }                                                                                          \
        return !outside;                                                                           \
    }
#define LISTS(type)                                                                                \
    INSIDE(type)                                                                                   \
    LIST(clamp, type, before + (index < 0 ? 0 : index > last ? last : index) * stride)             \
    LIST(drop, type, before < 0 || index < 0 || index > last ? -1 : before + index * stride)
LISTS(int8_t)
LISTS(int16_t)
LISTS(int32_t)
LISTS(int64_t)
LISTS(uint8_t)
LISTS(uint16_t)
LISTS(uint32_t)
LISTS(uint64_t)
#define LIST_ROW(name)                                                                             \
    {                                                                                              \
        [SHOAL_I8] = name##_int8_t, [SHOAL_I16] = name##_int16_t, [SHOAL_I32] = name##_int32_t,    \
        [SHOAL_I64] = name##_int64_t, [SHOAL_U8] = name##_uint8_t, [SHOAL_U16] = name##_uint16_t,  \
        [SHOAL_U32] = name##_uint32_t, [SHOAL_U64] = name##_uint64_t                               \
    }

#define TAKE(type)                                                                                 \
    static void take_##type(int64_t n, const void *data, const int64_t *list, int64_t step,        \
                            void *out) {                                                           \
        const type *from = data;                                                                   \
        type *to = out;                                                                            \
        if (step == 1)                                                                             \
            for (int64_t i = 0; i < n; i++) to[i] = from[list[i]];                                 \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i * step] = from[list[i]];                          \
    }
TAKE(uint8_t)
TAKE(uint16_t)
TAKE(uint32_t)
TAKE(uint64_t)

/* x is what is there, y what comes. */
#define PUT(name, type, expression)                                                                \
    static void name(int64_t n, const void *data, int64_t step, const int64_t *list, void *out) {  \
        const type *from = data;                                                                   \
        type *to = out;                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            if (list[i] < 0) continue;                                                             \
            type x = to[list[i]], y = from[i * step];                                              \
            to[list[i]] = (type)(expression);                                                      \
        }                                                                                          \
    }
#define PUTS(type)                                                                                 \
    PUT(put_##type, type, ((void)x, y))                                                            \
    PUT(add_##type, type, x + y)
PUTS(uint8_t)
PUTS(uint16_t)
PUTS(uint32_t)
PUTS(uint64_t)
PUT(add_float, float, x + y)
PUT(add_double, double, x + y)
PUT(add_half, uint16_t, narrow_half(widen_half(x) + widen_half(y)))
PUT(add_bfloat, uint16_t, narrow_bfloat(widen_bfloat(x) + widen_bfloat(y)))

/* ---- windows and orders ---- */

/* Where `keeps` does not hold of the best element so far, b, and the next one, e, or there is none
 * so far, that becomes the best. */
#define CHOOSE_LOOP(type, step_, keeps)                                                            \
    for (int64_t i = 0; i < n; i++) {                                                              \
        int32_t place = at + (int32_t)(i * (step_));                                               \
        type b = best[i], e = x[i * (step_)];                                                      \
        bool stays = (places[i] >= 0) & (keeps);                                                   \
        best[i] = stays ? b : e;                                                                   \
        places[i] = stays ? places[i] : place;                                                     \
    }
#define CHOOSE(name, type, keeps)                                                                  \
    static void name(int64_t n, const void *data, int64_t step, int32_t at, void *so_far,          \
                     int32_t *places) {                                                            \
        const type *x = data;                                                                      \
        type *best = so_far;                                                                       \
        if (step == 1)                                                                             \
            CHOOSE_LOOP(type, 1, keeps)                                                            \
        else if (step == 2)                                                                        \
            CHOOSE_LOOP(type, 2, keeps)                                                            \
        else                                                                                       \
            CHOOSE_LOOP(type, step, keeps)                                                         \
    }
#define CHOOSE_ALL(name, type)                                                                     \
    CHOOSE(name##_ge, type, b >= e)                                                                \
    CHOOSE(name##_gt, type, b > e)                                                                 \
    CHOOSE(name##_le, type, b <= e)                                                                \
    CHOOSE(name##_lt, type, b < e)                                                                 \
    CHOOSE(name##_most, type, (b >= e) | (b != b))                                                 \
    CHOOSE(name##_least, type, (b <= e) | (b != b))
CHOOSE_ALL(choose_f32, float)
CHOOSE_ALL(choose_f64, double)
CHOOSE_ALL(choose_i32, int32_t)
#define CHOICES(name)                                                                              \
    { name##_ge, name##_gt, name##_le, name##_lt, name##_most, name##_least }

/* Lanes side by side find the best element of a block; the first block that has it is searched. */
#define EXTREME(name, type, flag, better)                                                          \
    static int64_t name(int64_t n, const void *data) {                                             \
        enum { LANES = 64, BLOCK = 512 };                                                          \
        const type *x = data;                                                                      \
        type best = x[0];                                                                          \
        int64_t at = 0;                                                                            \
        flag odd = 0;                                                                              \
        if (n < LANES) {                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                      \
                if (x[i] != x[i]) return -1;                                                       \
                at = x[i] better x[at] ? i : at;                                                   \
            }                                                                                      \
            return at;                                                                             \
        }                                                                                          \
        for (int64_t from = 0; from < n; from += BLOCK) {                                          \
            int64_t some = n - from < BLOCK ? n - from : BLOCK, i = 0;                             \
            const type *here = x + from;                                                           \
            type lanes[LANES], most = here[0];                                                     \
            flag odds[LANES];                                                                      \
            for (int k = 0; k < LANES; k++) {                                                      \
                lanes[k] = here[0];                                                                \
                odds[k] = 0;                                                                       \
            }                                                                                      \
            for (; i + LANES <= some; i += LANES)                                                  \
                for (int k = 0; k < LANES; k++) {                                                  \
                    lanes[k] = here[i + k] better lanes[k] ? here[i + k] : lanes[k];               \
                    odds[k] |= here[i + k] != here[i + k];                                         \
                }                                                                                  \
            for (; i < some; i++) {                                                                \
                most = here[i] better most ? here[i] : most;                                       \
                odd |= here[i] != here[i];                                                         \
            }                                                                                      \
            for (int k = 0; k < LANES; k++) {                                                      \
                most = lanes[k] better most ? lanes[k] : most;                                     \
                odd |= odds[k];                                                                    \
            }                                                                                      \
            if (from && !(most better best)) continue;                                             \
            best = most;                                                                           \
            at = from;                                                                             \
        }                                                                                          \
        if (odd) return -1;                                                                        \
        while (x[at] != best) at++;                                                                \
        return at;                                                                                 \
    }
EXTREME(largest_f32, float, int32_t, >)
EXTREME(largest_f64, double, int64_t, >)
EXTREME(least_f32, float, int32_t, <)
EXTREME(least_f64, double, int64_t, <)
EXTREME(largest_i32, int32_t, int32_t, >)
EXTREME(least_i32, int32_t, int32_t, <)

/* As order.c has it: the bits of floating-point numbers as unsigned ones in the same order. */
#define KEYS(type, infinity)                                                                       \
    static void keys_##type(int64_t n, const void *data, bool is_float, uint64_t flip,             \
                            void *out) {                                                           \
        const type sign = (type)1 << (8 * sizeof(type) - 1), turned = (type)flip, *x = data;       \
        type *to = out;                                                                            \
        if (!is_float) {                                                                           \
            for (int64_t i = 0; i < n; i++) to[i] = x[i] ^ turned;                                 \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type size = x[i] & ~sign, key = x[i] & sign ? ~x[i] : x[i] | sign;                     \
            key = size ? key : sign;                                                               \
            key = size > (infinity) ? (type)-1 : key;                                              \
            to[i] = key ^ turned;                                                                  \
        }                                                                                          \
    }
KEYS(uint32_t, 0x7f800000)
KEYS(uint64_t, UINT64_C(0x7ff) << 52)

/* Most blocks hold none, which whole vectors tell. */
#define BELOW(type)                                                                                \
    static int64_t below_##type(int64_t n, const void *data, uint64_t most, int32_t *places) {     \
        enum { BLOCK = 64 };                                                                       \
        const type *keys = data, bound = (type)most;                                               \
        int64_t count = 0;                                                                         \
        for (int64_t from = 0; from < n; from += BLOCK) {                                          \
            int64_t end = n - from < BLOCK ? n : from + BLOCK;                                     \
            type any = 0;                                                                          \
            if (end - from == BLOCK)                                                               \
                for (int k = 0; k < BLOCK; k++) any |= keys[from + k] < bound;                     \
            else                                                                                   \
                any = 1;                                                                           \
            for (int64_t i = from; any && i < end; i++) {                                          \
                places[count] = (int32_t)i;                                                        \
                count += keys[i] < bound;                                                          \
            }                                                                                      \
        }                                                                                          \
        return count;                                                                              \
    }
BELOW(uint32_t)
BELOW(uint64_t)

const cpu_pools CPU_OF_SET(pools) = {
    .pick = {[1] = pick_uint8_t, [2] = pick_uint16_t, [4] = pick_uint32_t, [8] = pick_uint64_t},
    .inside = LIST_ROW(inside),
    .clamp = LIST_ROW(clamp),
    .drop = LIST_ROW(drop),
    .take = {[1] = take_uint8_t, [2] = take_uint16_t, [4] = take_uint32_t, [8] = take_uint64_t},
    .put = {[1] = put_uint8_t, [2] = put_uint16_t, [4] = put_uint32_t, [8] = put_uint64_t},
    .add = {[SHOAL_I8] = add_uint8_t,
            [SHOAL_U8] = add_uint8_t,
            [SHOAL_I16] = add_uint16_t,
            [SHOAL_U16] = add_uint16_t,
            [SHOAL_I32] = add_uint32_t,
            [SHOAL_U32] = add_uint32_t,
            [SHOAL_I64] = add_uint64_t,
            [SHOAL_U64] = add_uint64_t,
            [SHOAL_F16] = add_half,
            [SHOAL_BF16] = add_bfloat,
            [SHOAL_F32] = add_float,
            [SHOAL_F64] = add_double},
    .choose = {CHOICES(choose_f32), CHOICES(choose_f64), CHOICES(choose_i32)},
    .extreme = {{largest_f32, least_f32}, {largest_f64, least_f64}, {largest_i32, least_i32}},
    .keys = {keys_uint32_t, keys_uint64_t},
    .below = {below_uint32_t, below_uint64_t}};
