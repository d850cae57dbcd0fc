/* Operations that depend on how many bits an element has: logic, shifts, counts, reinterpretation.
 *
 * A shift by as many bits as the element has, or more, or by a negative number, leaves zeros, or
 * the sign where it is repeated. reduce_precision rounds the mantissa to the nearest, ties to even;
 * what is then above the range is infinite, what is below it is zero, and NaN stays. */
#include "backend/ref/ref.h"

#include "graph/graph.h"

#include <math.h>

typedef uint64_t (*word_op)(uint64_t x, uint64_t y, int bits);

static uint64_t all_of(int bits) { return UINT64_MAX >> (64 - bits); }

static uint64_t op_not(uint64_t x, uint64_t y, int bits) { return ~x; }

static uint64_t op_popcnt(uint64_t x, uint64_t y, int bits) {
    return (uint64_t)__builtin_popcountll(x & all_of(bits));
}

static uint64_t op_leading(uint64_t x, uint64_t y, int bits) {
    x &= all_of(bits);
    return (uint64_t)(x ? __builtin_clzll(x) - (64 - bits) : bits);
}

static uint64_t op_left(uint64_t x, uint64_t y, int bits) {
    return y < (uint64_t)bits ? x << y : 0;
}

static uint64_t op_logical(uint64_t x, uint64_t y, int bits) {
    return y < (uint64_t)bits ? (x & all_of(bits)) >> y : 0;
}

/* The sign is the highest bit, of unsigned numbers too. */
static uint64_t op_arithmetic(uint64_t x, uint64_t y, int bits) {
    uint64_t sign = x >> (bits - 1) & 1, fill = sign ? UINT64_MAX : 0;
    if (y >= (uint64_t)bits) return fill;
    x &= all_of(bits);
    return y ? x >> y | (fill << (bits - (int)y)) : x;
}

/* Chunks of both integer classes share their bits: u reads what i wrote. */
static shoal_status run_words(const ref_call *call, word_op op) {
    const shoal_type *type = ref_output(call);
    int bits = 8 * (int)shoal_dtype_size((shoal_dtype)type->dtype);
    int64_t count = base_type_count(type);
    ref_chunk a, b = {.u = {0}};
    for (int64_t at = 0; at < count; at += REF_CHUNK) {
        int64_t n = count - at < REF_CHUNK ? count - at : REF_CHUNK;
        ref_load(&a, type->dtype, call->inputs[0], at, n);
        if (call->node->n_inputs > 1) ref_load(&b, type->dtype, call->inputs[1], at, n);
        for (int64_t k = 0; k < n; k++) a.u[k] = op(a.u[k], b.u[k], bits);
        if (type->dtype == SHOAL_BOOL)
            for (int64_t k = 0; k < n; k++) a.u[k] &= 1;
        ref_store(&a, type->dtype, call->outputs[0], at, n);
    }
    return SHOAL_OK;
}

shoal_status ref_not(const ref_call *call) { return run_words(call, op_not); }
shoal_status ref_popcnt(const ref_call *call) { return run_words(call, op_popcnt); }
shoal_status ref_count_leading_zeros(const ref_call *call) { return run_words(call, op_leading); }
shoal_status ref_shift_left(const ref_call *call) { return run_words(call, op_left); }
shoal_status ref_shift_right_logical(const ref_call *call) { return run_words(call, op_logical); }
shoal_status ref_shift_right_arithmetic(const ref_call *call) {
    return run_words(call, op_arithmetic);
}

shoal_status ref_is_finite(const ref_call *call) {
    uint8_t dtype = ref_input(call, 0)->dtype;
    int64_t count = base_type_count(ref_output(call));
    for (int64_t i = 0; i < count; i++) {
        ref_chunk a;
        ref_load(&a, dtype, call->inputs[0], i, 1);
        double value = ref_class_of(dtype) == REF_D ? a.d[0] : (double)a.f[0];
        ((uint8_t *)call->outputs[0])[i] = isfinite(value) ? 1 : 0;
    }
    return SHOAL_OK;
}

shoal_status ref_bitcast_convert(const ref_call *call) {
    memcpy(call->outputs[0], call->inputs[0], (size_t)base_type_bytes(ref_output(call)));
    return SHOAL_OK;
}

/* ---- reduce_precision ---- */

typedef struct format {
    int bits, mantissa, exponent;
} format;

static uint64_t lessen(uint64_t x, const format *f, int64_t exponent, int64_t mantissa) {
    uint64_t sign = x & UINT64_C(1) << (f->bits - 1), rest = x ^ sign;
    uint64_t infinity = (all_of(f->exponent)) << f->mantissa;
    if (rest > infinity) return x;
    if (mantissa < f->mantissa) {
        int lost = f->mantissa - (int)mantissa;
        uint64_t odd = rest >> lost & 1;
        rest += (UINT64_C(1) << (lost - 1)) - 1 + odd;
        rest = rest >> lost << lost;
    }
    if (exponent < f->exponent) {
        int64_t bias = (INT64_C(1) << (f->exponent - 1)) - 1;
        int64_t less = (INT64_C(1) << (exponent - 1)) - 1;
        int64_t is = (int64_t)(rest >> f->mantissa);
        if (is > bias + less) rest = infinity;
        if (is <= bias - less) rest = 0;
    }
    return sign | (rest > infinity ? infinity : rest);
}

shoal_status ref_reduce_precision(const ref_call *call) {
    static const format formats[SHOAL_DTYPE_COUNT] = {[SHOAL_F16] = {16, 10, 5},
                                                      [SHOAL_BF16] = {16, 7, 8},
                                                      [SHOAL_F32] = {32, 23, 8},
                                                      [SHOAL_F64] = {64, 52, 11}};
    const format *f = &formats[ref_output(call)->dtype];
    size_t bytes = (size_t)f->bits / 8;
    int64_t exponent = ref_attr(call, SHOAL_ATTR_EXPONENT_BITS)->u.i;
    int64_t mantissa = ref_attr(call, SHOAL_ATTR_MANTISSA_BITS)->u.i;
    int64_t count = base_type_count(ref_output(call));
    for (int64_t i = 0; i < count; i++) {
        uint64_t x = 0;
        memcpy(&x, (const char *)call->inputs[0] + (size_t)i * bytes, bytes);
        x = lessen(x, f, exponent, mantissa);
        memcpy((char *)call->outputs[0] + (size_t)i * bytes, &x, bytes);
    }
    return SHOAL_OK;
}
