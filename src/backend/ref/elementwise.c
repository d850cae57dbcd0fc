/* Element by element: unary and binary operations, compare, select, convert.
 *
 * Integers: results wrap; division truncates towards zero, by zero gives -1 (all bits set), and
 * the least number divided by -1 is itself, as in XLA; a negative power is 1, -1 or 0. Bool is 0
 * and 1: add is or, multiply is and. Floating point is IEEE 754: maximum and minimum give NaN when
 * either is NaN, and -0 is below +0. */
#include "backend/ref/ref.h"

#include "graph/graph.h"

#include <math.h>

/* ---- scalars; _i int64, _u uint64, _f float, _d double ---- */

#define FLOATS_1(name, float_expression, double_expression)                                        \
    static float name##_f(float x) { return float_expression; }                                    \
    static double name##_d(double x) { return double_expression; }
#define INTEGERS_1(name, signed_expression, unsigned_expression)                                   \
    static int64_t name##_i(int64_t x) { return signed_expression; }                               \
    static uint64_t name##_u(uint64_t x) { return unsigned_expression; }

INTEGERS_1(negate, (int64_t)(0 - (uint64_t)x), 0 - x)
FLOATS_1(negate, -x, -x)
INTEGERS_1(abs, x < 0 ? (int64_t)(0 - (uint64_t)x) : x, x)
FLOATS_1(abs, fabsf(x), fabs(x))
FLOATS_1(exponential, expf(x), exp(x))
FLOATS_1(log, logf(x), log(x))
FLOATS_1(sqrt, sqrtf(x), sqrt(x))
FLOATS_1(tanh, tanhf(x), tanh(x))
FLOATS_1(erf, erff(x), erf(x))
FLOATS_1(rsqrt, 1 / sqrtf(x), 1 / sqrt(x))
FLOATS_1(cosine, cosf(x), cos(x))
FLOATS_1(sine, sinf(x), sin(x))
FLOATS_1(tan, tanf(x), tan(x))
FLOATS_1(cbrt, cbrtf(x), cbrt(x))
FLOATS_1(ceil, ceilf(x), ceil(x))
FLOATS_1(floor, floorf(x), floor(x))
FLOATS_1(exponential_minus_one, expm1f(x), expm1(x))
FLOATS_1(log_plus_one, log1pf(x), log1p(x))
FLOATS_1(round_nearest_afz, roundf(x), round(x))
FLOATS_1(round_nearest_even, nearbyintf(x), nearbyint(x))
INTEGERS_1(sign, (x > 0) - (x < 0), x > 0)
FLOATS_1(sign, x > 0 ? 1 : x < 0 ? -1 : x, x > 0 ? 1 : x < 0 ? -1 : x)
/* Two forms, so that neither overflows where the result would not. */
FLOATS_1(logistic,
         x >= 0  ? 1 / (1 + expf(-x))
         : x < 0 ? expf(x) / (1 + expf(x))
                 : x,
         x >= 0  ? 1 / (1 + exp(-x))
         : x < 0 ? exp(x) / (1 + exp(x))
                 : x)

#define INTEGERS_2(name, signed_expression, unsigned_expression)                                   \
    static int64_t name##_i(int64_t x, int64_t y) { return signed_expression; }                    \
    static uint64_t name##_u(uint64_t x, uint64_t y) { return unsigned_expression; }
#define FLOATS_2(name, float_expression, double_expression)                                        \
    static float name##_f(float x, float y) { return float_expression; }                           \
    static double name##_d(double x, double y) { return double_expression; }
#define WRAP(operator) ((int64_t)((uint64_t)x operator(uint64_t) y))

INTEGERS_2(add, WRAP(+), x + y)
FLOATS_2(add, x + y, x + y)
INTEGERS_2(subtract, WRAP(-), x - y)
FLOATS_2(subtract, x - y, x - y)
INTEGERS_2(multiply, WRAP(*), x *y)
FLOATS_2(multiply, x *y, x *y)
INTEGERS_2(divide,
           y == 0    ? -1
           : y == -1 ? (int64_t)(0 - (uint64_t)x)
                     : x / y,
           y == 0 ? UINT64_MAX : x / y)
FLOATS_2(divide, x / y, x / y)
INTEGERS_2(maximum, x > y ? x : y, x > y ? x : y)
INTEGERS_2(minimum, x < y ? x : y, x < y ? x : y)
#define LARGER (x != x ? x : y != y ? y : x == y ? (signbit(x) ? y : x) : x > y ? x : y)
#define SMALLER (x != x ? x : y != y ? y : x == y ? (signbit(x) ? x : y) : x < y ? x : y)
FLOATS_2(maximum, LARGER, LARGER)
FLOATS_2(minimum, SMALLER, SMALLER)

static uint64_t power_u(uint64_t x, uint64_t y) {
    uint64_t result = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) result *= x;
    return result;
}

static int64_t power_i(int64_t x, int64_t y) {
    if (y >= 0) return (int64_t)power_u((uint64_t)x, (uint64_t)y);
    return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
}
/* Also of signaling NaN, of which C's pow makes NaN, and which most conversions make quiet. */
FLOATS_2(power, y == 0 || x == 1 ? 1 : powf(x, y), y == 0 || x == 1 ? 1 : pow(x, y))
INTEGERS_2(remainder, y == 0 ? x : y == -1 ? 0 : x % y, y == 0 ? x : x % y)
FLOATS_2(remainder, fmodf(x, y), fmod(x, y))
FLOATS_2(atan2, atan2f(x, y), atan2(x, y))
INTEGERS_2(and, x &y, x &y)
INTEGERS_2(or, x | y, x | y)
INTEGERS_2(xor, x ^ y, x ^ y)

/* ---- loops over chunks ---- */

typedef void (*unary)(ref_class class, const ref_chunk *a, ref_chunk *out, int64_t n);

#define EACH(member, expression)                                                                   \
    for (int64_t k = 0; k < n; k++) out->member[k] = expression;                                   \
    break

#define CHUNK_1_FLOATS(name)                                                                       \
    case REF_F: EACH(f, name##_f(a->f[k]));                                                        \
    case REF_D:                                                                                    \
        EACH(d, name##_d(a->d[k]));
#define CHUNK_1_ALL(name)                                                                          \
    CHUNK_1_FLOATS(name)                                                                           \
    case REF_I: EACH(i, name##_i(a->i[k]));                                                        \
    case REF_U:                                                                                    \
        EACH(u, name##_u(a->u[k]));
#define CHUNK_1(name, cases)                                                                       \
    static void name##_chunk(ref_class class, const ref_chunk *a, ref_chunk *out, int64_t n) {     \
        switch (class) { cases(name) default : break; }                                            \
    }                                                                                              \
    shoal_status ref_##name(const ref_call *call) { return run_unary(call, name##_chunk); }

static shoal_status run_unary(const ref_call *call, unary op) {
    const shoal_type *type = ref_output(call);
    int64_t count = base_type_count(type);
    ref_chunk a;
    for (int64_t at = 0; at < count; at += REF_CHUNK) {
        int64_t n = count - at < REF_CHUNK ? count - at : REF_CHUNK;
        ref_load(&a, type->dtype, call->inputs[0], at, n);
        op(ref_class_of(type->dtype), &a, &a, n);
        ref_store(&a, type->dtype, call->outputs[0], at, n);
    }
    return SHOAL_OK;
}

CHUNK_1(negate, CHUNK_1_ALL)
CHUNK_1(abs, CHUNK_1_ALL)
CHUNK_1(exponential, CHUNK_1_FLOATS)
CHUNK_1(log, CHUNK_1_FLOATS)
CHUNK_1(sqrt, CHUNK_1_FLOATS)
CHUNK_1(tanh, CHUNK_1_FLOATS)
CHUNK_1(erf, CHUNK_1_FLOATS)
CHUNK_1(rsqrt, CHUNK_1_FLOATS)
CHUNK_1(cosine, CHUNK_1_FLOATS)
CHUNK_1(sine, CHUNK_1_FLOATS)
CHUNK_1(tan, CHUNK_1_FLOATS)
CHUNK_1(cbrt, CHUNK_1_FLOATS)
CHUNK_1(ceil, CHUNK_1_FLOATS)
CHUNK_1(floor, CHUNK_1_FLOATS)
CHUNK_1(exponential_minus_one, CHUNK_1_FLOATS)
CHUNK_1(log_plus_one, CHUNK_1_FLOATS)
CHUNK_1(round_nearest_afz, CHUNK_1_FLOATS)
CHUNK_1(round_nearest_even, CHUNK_1_FLOATS)
CHUNK_1(sign, CHUNK_1_ALL)
CHUNK_1(logistic, CHUNK_1_FLOATS)

static shoal_status run_binary(const ref_call *call, ref_binary op) {
    const shoal_type *type = ref_output(call);
    int64_t count = base_type_count(type);
    ref_chunk a, b;
    for (int64_t at = 0; at < count; at += REF_CHUNK) {
        int64_t n = count - at < REF_CHUNK ? count - at : REF_CHUNK;
        ref_load(&a, type->dtype, call->inputs[0], at, n);
        ref_load(&b, type->dtype, call->inputs[1], at, n);
        op(ref_class_of(type->dtype), &a, &b, &a, n);
        ref_store(&a, type->dtype, call->outputs[0], at, n);
    }
    return SHOAL_OK;
}

/* clang-format off */
#define CHUNK_2_INTEGERS(name)                                                                     \
    case REF_I: EACH(i, name##_i(a->i[k], b->i[k]));                                               \
    case REF_U: EACH(u, name##_u(a->u[k], b->u[k]));
#define CHUNK_2_FLOATS(name)                                                                       \
    case REF_F: EACH(f, name##_f(a->f[k], b->f[k]));                                               \
    case REF_D: EACH(d, name##_d(a->d[k], b->d[k]));
/* clang-format on */
#define CHUNK_2_ALL(name) CHUNK_2_INTEGERS(name) CHUNK_2_FLOATS(name)
#define CHUNK_2(name, cases)                                                                       \
    static void name##_chunk(ref_class class, const ref_chunk *a, const ref_chunk *b,              \
                             ref_chunk *out, int64_t n) {                                          \
        switch (class) { cases(name) default : break; }                                            \
    }                                                                                              \
    shoal_status ref_##name(const ref_call *call) { return run_binary(call, name##_chunk); }

CHUNK_2(add, CHUNK_2_ALL)
CHUNK_2(subtract, CHUNK_2_ALL)
CHUNK_2(multiply, CHUNK_2_ALL)
CHUNK_2(divide, CHUNK_2_ALL)
CHUNK_2(maximum, CHUNK_2_ALL)
CHUNK_2(minimum, CHUNK_2_ALL)
CHUNK_2(power, CHUNK_2_ALL)
CHUNK_2(remainder, CHUNK_2_ALL)
CHUNK_2(atan2, CHUNK_2_FLOATS)
CHUNK_2(and, CHUNK_2_INTEGERS)
CHUNK_2(or, CHUNK_2_INTEGERS)
CHUNK_2(xor, CHUNK_2_INTEGERS)

ref_binary ref_binary_of(uint16_t op) {
    static const ref_binary table[GRAPH_OP_BUILT_IN] = {
        [GRAPH_ADD] = add_chunk,
        [GRAPH_SUBTRACT] = subtract_chunk,
        [GRAPH_MULTIPLY] = multiply_chunk,
        [GRAPH_DIVIDE] = divide_chunk,
        [GRAPH_MAXIMUM] = maximum_chunk,
        [GRAPH_MINIMUM] = minimum_chunk,
        [GRAPH_POWER] = power_chunk,
        [GRAPH_REMAINDER] = remainder_chunk,
        [GRAPH_ATAN2] = atan2_chunk,
        [GRAPH_AND] = and_chunk,
        [GRAPH_OR] = or_chunk,
        [GRAPH_XOR] = xor_chunk,
    };
    return op < GRAPH_OP_BUILT_IN ? table[op] : NULL;
}

/* ---- compare, select, convert ---- */

#define COMPARE(name, operator)                                                                    \
    static void name(ref_class class, const ref_chunk *a, const ref_chunk *b, ref_chunk *out,      \
                     int64_t n) {                                                                  \
        switch (class) {                                                                           \
        case REF_I: EACH(u, a->i[k] operator b->i[k]);                                             \
        case REF_U: EACH(u, a->u[k] operator b->u[k]);                                             \
        case REF_F: EACH(u, a->f[k] operator b->f[k]);                                             \
        case REF_D: EACH(u, a->d[k] operator b->d[k]);                                             \
        }                                                                                          \
    }
COMPARE(equal, ==)
COMPARE(unequal, !=)
COMPARE(less, <)
COMPARE(less_or_equal, <=)
COMPARE(greater, >)
COMPARE(greater_or_equal, >=)

shoal_status ref_compare(const ref_call *call) {
    static const struct {
        char name[3];
        ref_binary function;
    } directions[] = {{"EQ", equal},         {"NE", unequal}, {"LT", less},
                      {"LE", less_or_equal}, {"GT", greater}, {"GE", greater_or_equal}};
    const char *direction = ref_attr(call, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    unsigned d = 0;
    while (d < 5 && strcmp(direction, directions[d].name)) d++;
    uint8_t dtype = ref_input(call, 0)->dtype;
    int64_t count = base_type_count(ref_output(call));
    ref_chunk a, b, out;
    for (int64_t at = 0; at < count; at += REF_CHUNK) {
        int64_t n = count - at < REF_CHUNK ? count - at : REF_CHUNK;
        ref_load(&a, dtype, call->inputs[0], at, n);
        ref_load(&b, dtype, call->inputs[1], at, n);
        directions[d].function(ref_class_of(dtype), &a, &b, &out, n);
        ref_store(&out, SHOAL_BOOL, call->outputs[0], at, n);
    }
    return SHOAL_OK;
}

shoal_status ref_select(const ref_call *call) {
    const uint8_t *predicate = call->inputs[0];
    bool scalar = ref_input(call, 0)->rank == 0;
    size_t bytes = shoal_dtype_size((shoal_dtype)ref_output(call)->dtype);
    int64_t count = base_type_count(ref_output(call));
    for (int64_t i = 0; i < count; i++) {
        const char *from = call->inputs[predicate[scalar ? 0 : i] ? 1 : 2];
        memcpy((char *)call->outputs[0] + (size_t)i * bytes, from + (size_t)i * bytes, bytes);
    }
    return SHOAL_OK;
}

/* The smaller of the maximum and the larger of the minimum and x. */
shoal_status ref_clamp(const ref_call *call) {
    const shoal_type *type = ref_output(call);
    ref_class class = ref_class_of(type->dtype);
    bool one_least = !ref_input(call, 0)->rank, one_most = !ref_input(call, 2)->rank;
    int64_t count = base_type_count(type);
    for (int64_t i = 0; i < count; i++) {
        ref_chunk least, x, most;
        ref_load(&least, type->dtype, call->inputs[0], one_least ? 0 : i, 1);
        ref_load(&x, type->dtype, call->inputs[1], i, 1);
        ref_load(&most, type->dtype, call->inputs[2], one_most ? 0 : i, 1);
        maximum_chunk(class, &x, &least, &x, 1);
        minimum_chunk(class, &x, &most, &x, 1);
        ref_store(&x, type->dtype, call->outputs[0], i, 1);
    }
    return SHOAL_OK;
}

shoal_status ref_convert(const ref_call *call) {
    uint8_t from = ref_input(call, 0)->dtype, to = ref_output(call)->dtype;
    int64_t count = base_type_count(ref_output(call));
    ref_chunk a;
    for (int64_t at = 0; at < count; at += REF_CHUNK) {
        int64_t n = count - at < REF_CHUNK ? count - at : REF_CHUNK;
        ref_load(&a, from, call->inputs[0], at, n);
        ref_convert_chunk(&a, ref_class_of(from), to, n);
        ref_store(&a, to, call->outputs[0], at, n);
    }
    return SHOAL_OK;
}
