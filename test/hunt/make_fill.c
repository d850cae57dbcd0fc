/* What inputs and constants hold. */
#include "make.h"

#include <math.h>
#include <string.h>

/* A number in the middle of two of a smaller type, or just above; some are below the normal ones.
 */
static double middle(maker *m) {
    static const uint8_t digits[] = {9, 12, 25}; /* one more than bfloat16, float16, float32 have */
    uint32_t n = digits[MAKE_BELOW(3)], odd = MAKE_BELOW(UINT32_C(1) << (n - 1)) | 1;
    double x = 1 + ldexp(odd, 1 - (int)n);
    if (MAKE_CHANCE(50)) x *= 1 + ldexp(1, -40);
    if (MAKE_CHANCE(30))
        x = ldexp(x, -(int)(MAKE_CHANCE(80) ? 12 + MAKE_BELOW(14) : 125 + MAKE_BELOW(10)));
    return MAKE_CHANCE(50) ? x : -x;
}

/* Below the normal numbers of a type. */
static double subnormal(maker *m, uint8_t dtype) {
    switch (dtype) {
    case SHOAL_F16: return ldexp(1 + MAKE_BELOW(1000), -24);
    case SHOAL_BF16: return ldexp(1 + MAKE_BELOW(100), -133);
    case SHOAL_F32: return ldexp(1 + MAKE_BELOW(1 << 20), -149);
    default: return ldexp(1 + MAKE_BELOW(1 << 20), -1074);
    }
}

static double special(maker *m, uint8_t dtype) {
    static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0};
    uint32_t which = MAKE_BELOW(5);
    if (which < 4) return specials[which];
    return MAKE_CHANCE(50) ? subnormal(m, dtype) : -subnormal(m, dtype);
}

static double number(maker *m, uint8_t dtype, bool whole) {
    static const double specials[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 1e-40, -1e300, 3e38};
    char kind = shoal_dtype_kind((shoal_dtype)dtype);
    if (m->wild && MAKE_CHANCE(20))
        return MAKE_CHANCE(5) ? subnormal(m, dtype) : specials[MAKE_BELOW(8)];
    if (kind == 'u') return MAKE_BELOW(MAKE_CHANCE(90) ? 9 : 256);
    if (kind == 'i' || whole) return (double)MAKE_BELOW(11) - 4;
    return hunt_uniform(&m->random) * (MAKE_CHANCE(90) ? 2 : 20);
}

/* Any bits, or those of the ends of an integer type, or where float64 has no room for all. */
static uint64_t end_of(maker *m, size_t size) {
    uint64_t top = UINT64_C(1) << (8 * size - 1);
    uint64_t ends[] = {top, top - 1, UINT64_MAX, UINT64_C(1) << 53};
    if (MAKE_CHANCE(50)) return hunt_next(&m->random);
    uint64_t end = ends[MAKE_BELOW(4)];
    return MAKE_CHANCE(50) ? end : end + MAKE_BELOW(3) - MAKE_BELOW(2);
}

/* One element among ordinary ones, or one row. */
static void add_speck(maker *m, const shoal_type *type, void *data) {
    int64_t count = base_type_count(type), row = type->rank ? type->dims[type->rank - 1] : 1;
    int64_t at = MAKE_BELOW(count), n = 1;
    if (MAKE_CHANCE(30)) at -= at % row, n = row;
    for (double x = special(m, type->dtype); n > 0; n--) hunt_put(type->dtype, data, at++, x);
    m->speck = false;
    m->specked = true;
}

void make_fill(maker *m, const shoal_type *type, void *data) {
    int64_t count = base_type_count(type);
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    char kind = shoal_dtype_kind((shoal_dtype)type->dtype);
    bool is_integer = kind == 'i' || kind == 'u';
    bool whole =
        m->whole || (m->shape->style != HUNT_SMOOTH && MAKE_CHANCE(25)); /* these want no corners */
    unsigned often = MAKE_CHANCE(30) ? 50 : 10; /* so that the ends meet each other */
    /* What does not fit a double is read wrongly most. */
    unsigned odd = size == 8 ? 40 : 20;
    unsigned ends = is_integer && (m->wild || MAKE_CHANCE(odd)) ? often : 0;
    unsigned wide = type->dtype == SHOAL_F64 ? 25 : 8; /* which may be rounded twice */
    unsigned middles = kind == 'f' && !make_smooth(m) && !m->whole && MAKE_CHANCE(wide) ? 40 : 0;
    /* Of many flags all or none are seldom set; here they are, but for one. */
    uint32_t rarer = MAKE_BELOW(2), one_in = MAKE_CHANCE(50) ? 2 : 12;
    for (int64_t i = 0; i < count; i++) {
        if (ends && MAKE_CHANCE(ends)) {
            uint64_t bits = end_of(m, size);
            memcpy((char *)data + (size_t)i * size, &bits, size);
        } else if (kind == 'b') {
            hunt_put(type->dtype, data, i, MAKE_BELOW(one_in) ? !rarer : rarer);
        } else {
            bool is_middle = middles && MAKE_CHANCE(middles);
            hunt_put(type->dtype, data, i, is_middle ? middle(m) : number(m, type->dtype, whole));
        }
    }
    if (m->speck && kind == 'f' && count > 1 && !m->body && MAKE_CHANCE(60))
        add_speck(m, type, data);
}
