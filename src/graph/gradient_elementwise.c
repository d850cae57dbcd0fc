/* Gradients, element by element. In these tables g is the gradient of the result y = op(x, z), and
 * each line says what the operands get. Where a function has a corner, both sides get half (maximum
 * and minimum of equals) or the corner nothing (abs at 0), as PyTorch does. */
#include "graph/maker.h"
#include "graph/rules.h"

static uint32_t minus(maker *m, uint32_t x) { return one(m, GRAPH_NEGATE, x); }
static uint32_t square(maker *m, uint32_t x) { return mul(m, x, x); }
/* 1 - x */
static uint32_t rest(maker *m, uint32_t x) { return two(m, GRAPH_SUBTRACT, like(m, x, 1), x); }
/* g where the condition holds, else 0. */
static uint32_t only(maker *m, uint32_t when, uint32_t g) {
    return choose(m, when, g, like(m, g, 0));
}

/* ---- one operand ---- */

#define UNARY(name, expression)                                                                    \
    GRADIENT(name) {                                                                               \
        maker maker_ = {b->g, SHOAL_OK}, *m = &maker_;                                             \
        const uint32_t g = b->seeds[0], x = b->inputs[0], y = b->outputs[0];                       \
        b->gradients[0] = (expression);                                                            \
        (void)x, (void)y;                                                                          \
        return m->status;                                                                          \
    }

UNARY(negate, minus(m, g))
UNARY(abs, mul(m, g, one(m, GRAPH_SIGN, x)))
UNARY(exponential, mul(m, g, y))
UNARY(log, over(m, g, x))
UNARY(sqrt, over(m, g, two(m, GRAPH_ADD, y, y)))
UNARY(tanh, mul(m, g, rest(m, square(m, y))))
UNARY(logistic, mul(m, g, mul(m, y, rest(m, y))))
UNARY(rsqrt, mul(m, times(m, g, -0.5), mul(m, y, square(m, y))))
UNARY(cosine, minus(m, mul(m, g, one(m, GRAPH_SINE, x))))
UNARY(sine, mul(m, g, one(m, GRAPH_COSINE, x)))
UNARY(tan, mul(m, g, plus(m, square(m, y), 1)))
UNARY(cbrt, over(m, g, times(m, square(m, y), 3)))
UNARY(exponential_minus_one, mul(m, g, plus(m, y, 1)))
UNARY(log_plus_one, over(m, g, plus(m, x, 1)))
/* 2 / sqrt(pi) e^(-x^2) */
UNARY(erf, mul(m, times(m, g, 1.12837916709551257390),
               one(m, GRAPH_EXPONENTIAL, minus(m, square(m, x)))))

/* ---- two operands ---- */

#define BINARY(name, of_x, of_z)                                                                   \
    GRADIENT(name) {                                                                               \
        maker maker_ = {b->g, SHOAL_OK}, *m = &maker_;                                             \
        const uint32_t g = b->seeds[0], x = b->inputs[0], z = b->inputs[1], y = b->outputs[0];     \
        if (b->wanted[0]) b->gradients[0] = (of_x);                                                \
        if (b->wanted[1]) b->gradients[1] = (of_z);                                                \
        (void)x, (void)z, (void)y;                                                                 \
        return m->status;                                                                          \
    }

/* g where x lies on the side of z, half of it where they are equal. */
static uint32_t side(maker *m, uint32_t g, uint32_t x, const char *direction, uint32_t z) {
    uint32_t half = only(m, compare(m, "EQ", x, z), times(m, g, 0.5));
    return choose(m, compare(m, direction, x, z), g, half);
}

/* z x^(z - 1), which is 0 for z = 0, also at x = 0. */
static uint32_t power_of_base(maker *m, uint32_t g, uint32_t x, uint32_t z) {
    uint32_t slope = mul(m, z, two(m, GRAPH_POWER, x, plus(m, z, -1)));
    return choose(m, compare(m, "EQ", z, like(m, z, 0)), like(m, g, 0), mul(m, g, slope));
}

/* y log x, whose limit at x = 0 is 0 for z > 0. */
static uint32_t power_of_exponent(maker *m, uint32_t g, uint32_t x, uint32_t z, uint32_t y) {
    uint32_t zero = like(m, x, 0);
    uint32_t limit = two(m, GRAPH_AND, compare(m, "EQ", x, zero), compare(m, "GE", z, zero));
    return choose(m, limit, zero, mul(m, g, mul(m, y, one(m, GRAPH_LOG, x))));
}

/* The quotient without its fraction. */
static uint32_t whole(maker *m, uint32_t x, uint32_t z) {
    uint32_t quotient = over(m, x, z), size = one(m, GRAPH_ABS, quotient);
    return mul(m, one(m, GRAPH_SIGN, quotient), one(m, GRAPH_FLOOR, size));
}

static uint32_t radius(maker *m, uint32_t x, uint32_t z) {
    return two(m, GRAPH_ADD, square(m, x), square(m, z));
}

BINARY(add, g, g)
BINARY(subtract, g, minus(m, g))
BINARY(multiply, mul(m, g, z), mul(m, g, x))
BINARY(divide, over(m, g, z), minus(m, over(m, mul(m, g, y), z)))
BINARY(maximum, side(m, g, x, "GT", z), side(m, g, z, "GT", x))
BINARY(minimum, side(m, g, x, "LT", z), side(m, g, z, "LT", x))
BINARY(power, power_of_base(m, g, x, z), power_of_exponent(m, g, x, z, y))
BINARY(atan2, over(m, mul(m, g, z), radius(m, x, z)),
       minus(m, over(m, mul(m, g, x), radius(m, x, z))))
BINARY(remainder, g, minus(m, mul(m, g, whole(m, x, z))))

/* ---- choices ---- */

/* The predicate may be one scalar for all elements. */
GRADIENT(select) {
    maker m = {b->g, SHOAL_OK};
    uint32_t g = b->seeds[0], zero = like(&m, g, 0);
    if (b->wanted[1]) b->gradients[1] = choose(&m, b->inputs[0], g, zero);
    if (b->wanted[2]) b->gradients[2] = choose(&m, b->inputs[0], zero, g);
    return m.status;
}

/* A bound may be a scalar: it gets the sum then. */
static uint32_t of_bound(maker *m, uint32_t g, const shoal_type *bound) {
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t rank = type_of(m, g)->rank;
    return bound->rank == rank ? g : join_axes(m, GRAPH_ADD, g, all, rank);
}

/* minimum(maximum(x, least), most): on a bound the gradient is x's. */
GRADIENT(clamp) {
    maker m = {b->g, SHOAL_OK};
    uint32_t g = b->seeds[0], x = b->inputs[1];
    shoal_type shape = b->call->inputs[1];
    uint32_t least = spread_last(&m, b->inputs[0], &shape),
             most = spread_last(&m, b->inputs[2], &shape);
    uint32_t low = compare(&m, "LT", x, least), high = compare(&m, "GT", x, most);
    uint32_t crossed = compare(&m, "GT", least, most);
    if (b->wanted[1]) b->gradients[1] = choose(&m, two(&m, GRAPH_OR, low, high), like(&m, g, 0), g);
    if (b->wanted[0]) {
        uint32_t taken = two(&m, GRAPH_AND, low, one(&m, GRAPH_NOT, crossed));
        b->gradients[0] = of_bound(&m, only(&m, taken, g), &b->call->inputs[0]);
    }
    if (b->wanted[2]) {
        uint32_t taken = two(&m, GRAPH_OR, high, crossed);
        b->gradients[2] = of_bound(&m, only(&m, taken, g), &b->call->inputs[2]);
    }
    return m.status;
}

/* ---- element types and places ---- */

GRADIENT(convert) {
    maker m = {b->g, SHOAL_OK};
    b->gradients[0] = convert(&m, b->seeds[0], b->call->inputs[0].dtype);
    return m.status;
}

/* Rounding is taken for what it comes close to. */
GRADIENT(reduce_precision) {
    maker m = {b->g, SHOAL_OK};
    b->gradients[0] =
        node(&m, GRAPH_REDUCE_PRECISION, b->seeds, 1, b->call->attrs, b->call->n_attrs, NULL);
    return m.status;
}

/* The gradient is laid out like the value that was placed. Of a value of which there are copies it
 * is a sum over them, and where that lies is only suggested: whoever reads it may do so in parts.
 */
GRADIENT(place) {
    maker m = {b->g, SHOAL_OK};
    uint32_t n_cuts, n_slots;
    const int64_t *cuts = graph_call_ints(b->call, SHOAL_ATTR_CUTS, &n_cuts);
    graph_call_ints(b->call, SHOAL_ATTR_SLOTS, &n_slots);
    bool copies = n_slots > 1;
    for (uint32_t i = 0; i < b->call->inputs[0].rank; i++) copies = copies && cuts[i] == 1;
    shoal_attr attrs[3] = {b->call->attrs[0], b->call->attrs[1],
                           graph_int(SHOAL_ATTR_SUGGESTED, copies)};
    if (b->call->n_attrs > 2) attrs[2] = b->call->attrs[2];
    b->gradients[0] =
        node(&m, GRAPH_PLACE, b->seeds, 1, attrs, copies || b->call->n_attrs > 2 ? 3 : 2, NULL);
    return m.status;
}
