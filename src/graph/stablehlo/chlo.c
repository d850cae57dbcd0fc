/* CHLO's operations, written in the standard's. */
#define _XOPEN_SOURCE 700
#include "graph/stablehlo/import.h"

#include "graph/stablehlo/special.h"

typedef uint32_t unary(maker *m, uint32_t x);
typedef uint32_t binary(maker *m, uint32_t x, uint32_t y);

static shoal_status need_floats(const hlo_call *c, uint32_t operands) {
    SHOAL_TRY(hlo_need(c, operands, 1));
    shoal_dtype dtype = (shoal_dtype)hlo_type_of(c, 0)->dtype;
    if (shoal_dtype_kind(dtype) == 'f') return SHOAL_OK;
    return hlo_fail(c, "it works on floating types, not on %s", shoal_dtype_name(dtype));
}

/* Computed in a wide type, as ranges and digits of half precision are few. */
static shoal_status widened(hlo_call *c, unary *function) {
    SHOAL_TRY(need_floats(c, 1));
    maker m = {c->s->g, SHOAL_OK};
    uint8_t dtype = hlo_type_of(c, 0)->dtype;
    uint32_t y = function(&m, widen(&m, c->in[0]));
    c->out[0] = m.status ? 0 : convert(&m, y, dtype);
    return m.status;
}

static shoal_status two_widened(hlo_call *c, binary *function) {
    SHOAL_TRY(need_floats(c, 2));
    maker m = {c->s->g, SHOAL_OK};
    uint8_t dtype = hlo_type_of(c, 0)->dtype;
    uint32_t x = widen(&m, c->in[0]), y = function(&m, x, widen(&m, c->in[1]));
    c->out[0] = m.status ? 0 : convert(&m, y, dtype);
    return m.status;
}

static shoal_status zeta(hlo_call *c) { return two_widened(c, hlo_zeta); }
static shoal_status polygamma(hlo_call *c) { return two_widened(c, hlo_polygamma); }

/* ---- hyperbolic and inverse functions ---- */

/* What is not chosen of two ways is computed too, and its gradient, infinite or NaN, would not
 * vanish where it is multiplied by 0: so each way sees only what is for it. */

/* 1 or -1, also at 0, where functions that are odd have a slope. */
static uint32_t sign_of(maker *m, uint32_t x) {
    return choose(m, less(m, x, 0), number(m, x, -1), number(m, x, 1));
}

/* (e^x - 1) / 2 without loss near 0: with t = e^x - 1, (t + t / (t + 1)) / 2. Where e^x overflows,
 * half of it may not: e^(x - ln 2). */
static uint32_t sinh_of(maker *m, uint32_t x) {
    uint32_t sign = sign_of(m, x), size = mul(m, x, sign), is_near = less(m, size, 20);
    uint32_t t = one(m, GRAPH_EXPONENTIAL_MINUS_ONE, choose(m, is_near, size, number(m, x, 0)));
    uint32_t small = scaled(m, add(m, t, over(m, t, shifted(m, t, 1))), 0.5);
    uint32_t large = one(m, GRAPH_EXPONENTIAL, shifted(m, size, -M_LN2));
    return mul(m, sign, choose(m, is_near, small, large));
}

static uint32_t cosh_of(maker *m, uint32_t x) {
    uint32_t log_half = number(m, x, -M_LN2);
    return add(m, one(m, GRAPH_EXPONENTIAL, add(m, x, log_half)),
               one(m, GRAPH_EXPONENTIAL, sub(m, log_half, x)));
}

/* asinh of what is not negative and not large, whose square is given:
 * log(1 + x + x^2 / (1 + sqrt(1 + x^2))). */
static uint32_t asinh_near(maker *m, uint32_t x, uint32_t square) {
    uint32_t root = one(m, GRAPH_SQRT, shifted(m, square, 1));
    return one(m, GRAPH_LOG_PLUS_ONE, add(m, x, over(m, square, shifted(m, root, 1))));
}

/* For large x, log |x| + log 2; near 0, x itself, of which a zero keeps its sign. */
static uint32_t asinh_of(maker *m, uint32_t x) {
    uint32_t sign = sign_of(m, x);
    uint32_t size = mul(m, x, sign), is_near = less(m, size, 1e9);
    uint32_t small = choose(m, is_near, size, number(m, x, 1));
    uint32_t near = asinh_near(m, small, mul(m, small, small));
    uint32_t large = choose(m, is_near, number(m, x, 1), size);
    uint32_t far = shifted(m, one(m, GRAPH_LOG, large), M_LN2);
    uint32_t made = mul(m, sign, choose(m, is_near, near, far));
    return choose(m, less(m, size, 1e-8), x, made);
}

/* 2 asinh(sqrt((x - 1) / 2)): NaN below 1, and with an infinite slope at 1, as nothing is
 * multiplied by the root, which is 0 there. */
static uint32_t acosh_of(maker *m, uint32_t x) {
    uint32_t is_near = less(m, x, 1e9), two_of = number(m, x, 2);
    uint32_t half = scaled(m, shifted(m, choose(m, is_near, x, two_of), -1), 0.5);
    uint32_t near = scaled(m, asinh_near(m, one(m, GRAPH_SQRT, half), half), 2);
    uint32_t far = shifted(m, one(m, GRAPH_LOG, choose(m, is_near, two_of, x)), M_LN2);
    return choose(m, is_near, near, far);
}

static uint32_t atanh_of(maker *m, uint32_t x) {
    return scaled(
        m,
        sub(m, one(m, GRAPH_LOG_PLUS_ONE, x), one(m, GRAPH_LOG_PLUS_ONE, one(m, GRAPH_NEGATE, x))),
        0.5);
}

static uint32_t root_of_rest(maker *m, uint32_t x) {
    uint32_t unit = number(m, x, 1);
    return one(m, GRAPH_SQRT, mul(m, sub(m, unit, x), add(m, unit, x)));
}

static uint32_t asin_of(maker *m, uint32_t x) { return two(m, GRAPH_ATAN2, x, root_of_rest(m, x)); }
static uint32_t acos_of(maker *m, uint32_t x) { return two(m, GRAPH_ATAN2, root_of_rest(m, x), x); }
static uint32_t atan_of(maker *m, uint32_t x) { return two(m, GRAPH_ATAN2, x, number(m, x, 1)); }

/* ---- error functions ---- */

/* 1 - erf(x), in float64. From 2 on, where little is left of the difference, by the continued
 * fraction e^(-x^2) / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + ...))). */
static uint32_t erfc_wide(maker *m, uint32_t x) {
    uint32_t size = two(m, GRAPH_MAXIMUM, one(m, GRAPH_ABS, x), number(m, x, 2)), f = size;
    for (int k = 60; k > 0; k--) f = add(m, size, over(m, number(m, x, k / 2.0), f));
    uint32_t e = one(m, GRAPH_EXPONENTIAL, one(m, GRAPH_NEGATE, mul(m, size, size)));
    uint32_t far = scaled(m, over(m, e, f), 1 / sqrt(M_PI));
    uint32_t near = sub(m, number(m, x, 1), one(m, GRAPH_ERF, x));
    uint32_t negative = less(m, x, -2), small = less(m, one(m, GRAPH_ABS, x), 2);
    uint32_t side = choose(m, negative, sub(m, number(m, x, 2), far), far);
    uint32_t not_a_number = compare(m, "NE", x, x);
    return choose(m, not_a_number, x, choose(m, small, near, side));
}

/* In float32, within 5e-7 of the value: for s = |x|, e^(-s^2) P((s - 3.75) / (s + 3.75)) / (1 + 2
 * s) (M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981;
 * P is the fit of degree 10 for s up to 12, from where the value is 0). s^2 is the square of its
 * first eight digits, which is exact, and the rest. */
static uint32_t erfc_narrow(maker *m, uint32_t x) {
    static const double p[] = {0.00102593309, 0.00210475834, -0.0100997289, 0.0280551952,
                               -0.0586534532, 0.092378911,   -0.108802029,  0.0822700292,
                               0.00358509889, -0.14024043,   1.23751263};
    uint32_t s = two(m, GRAPH_MINIMUM, one(m, GRAPH_ABS, x), number(m, x, 12));
    uint32_t first = convert(m, convert(m, s, SHOAL_BF16), SHOAL_F32);
    uint32_t rest = mul(m, sub(m, s, first), add(m, s, first));
    uint32_t e = mul(m, one(m, GRAPH_EXPONENTIAL, one(m, GRAPH_NEGATE, mul(m, first, first))),
                     one(m, GRAPH_EXPONENTIAL, one(m, GRAPH_NEGATE, rest)));
    uint32_t t = over(m, shifted(m, s, -3.75), shifted(m, s, 3.75));
    uint32_t fit = polynomial(m, t, p, sizeof p / sizeof *p);
    uint32_t y = over(m, mul(m, e, fit), shifted(m, scaled(m, s, 2), 1));
    return choose(m, less(m, x, 0), sub(m, number(m, x, 2), y), y);
}

static uint32_t erfc_of(maker *m, uint32_t x) {
    uint8_t dtype = m->status ? SHOAL_F32 : type_of(m, x)->dtype;
    if (dtype == SHOAL_F64) return erfc_wide(m, x);
    return convert(m, erfc_narrow(m, convert(m, x, SHOAL_F32)), dtype);
}

/* M. Giles, "Approximating the erfinv function" (single precision); in float64 made exact by steps
 * of Newton's method. */
static uint32_t erf_inv_of(maker *m, uint32_t x) {
    static const double small[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                   -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                   -0.00417768164,  0.246640727,    1.50140941};
    static const double large[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                   -0.00367342844,  0.00573950773,  -0.0076224613,
                                   0.00943887047,   1.00167406,     2.83297682};
    bool exact = !m->status && type_of(m, x)->dtype == SHOAL_F64;
    uint32_t is_edge = compare(m, "EQ", one(m, GRAPH_ABS, x), number(m, x, 1));
    uint32_t edge = scaled(m, choose(m, is_edge, x, number(m, x, 1)), INFINITY);
    x = choose(m, is_edge, number(m, x, 0), x);
    uint32_t w =
        one(m, GRAPH_NEGATE, one(m, GRAPH_LOG_PLUS_ONE, one(m, GRAPH_NEGATE, mul(m, x, x))));
    uint32_t near = polynomial(m, shifted(m, w, -2.5), small, 9);
    uint32_t is_near = less(m, w, 5), wide = choose(m, is_near, number(m, x, 5), w);
    uint32_t far = polynomial(m, shifted(m, one(m, GRAPH_SQRT, wide), -3), large, 9);
    uint32_t y = mul(m, choose(m, is_near, near, far), x);
    uint32_t inside = less(m, one(m, GRAPH_ABS, x), 1);
    for (int i = 0; i < 3 && exact; i++) {
        uint32_t miss = sub(m, one(m, GRAPH_ERF, y), x);
        uint32_t slope = scaled(m, one(m, GRAPH_EXPONENTIAL, mul(m, y, y)), sqrt(M_PI) / 2);
        y = choose(m, inside, sub(m, y, mul(m, miss, slope)), y);
    }
    return choose(m, is_edge, edge, y);
}

/* ---- numbers by their bits ---- */

static uint32_t bits_as(maker *m, uint32_t x, uint8_t dtype) {
    shoal_attr as = graph_int(SHOAL_ATTR_DTYPE, dtype);
    return node(m, GRAPH_BITCAST_CONVERT, &x, 1, &as, 1, NULL);
}

/* The neighbour of x towards y: its bits and one more, or one less, as they count away from 0. */
static shoal_status next_after(hlo_call *c) {
    static const uint8_t bits_of[9] = {[2] = SHOAL_I16, [4] = SHOAL_I32, [8] = SHOAL_I64};
    SHOAL_TRY(need_floats(c, 2));
    maker m = {c->s->g, SHOAL_OK};
    uint32_t x = c->in[0], y = c->in[1];
    const shoal_type type = *hlo_type_of(c, 0);
    size_t size = shoal_dtype_size((shoal_dtype)type.dtype);
    uint32_t bits = bits_as(&m, x, bits_of[size]);
    uint32_t zero = number(&m, x, 0);
    uint32_t away = compare(&m, "EQ", compare(&m, "LT", x, y), compare(&m, "GT", x, zero));
    uint32_t step = choose(&m, away, number(&m, bits, 1), number(&m, bits, -1));
    bits = add(&m, bits, step);
    uint32_t moved = bits_as(&m, bits, type.dtype);
    uint32_t least = bits_as(&m, number(&m, bits, 1), type.dtype);
    uint32_t below = one(&m, GRAPH_NEGATE, least);
    uint32_t from_zero = choose(&m, compare(&m, "LT", y, zero), below, least);
    uint32_t result = choose(&m, compare(&m, "EQ", x, zero), from_zero, moved);
    result = choose(&m, compare(&m, "EQ", x, y), y, result);
    result = choose(&m, compare(&m, "NE", y, y), y, result);
    c->out[0] = choose(&m, compare(&m, "NE", x, x), x, result);
    return m.status;
}

static uint32_t upper_half(maker *m, uint32_t x) {
    return two(m, GRAPH_SHIFT_RIGHT_LOGICAL, x, number(m, x, 32));
}

static uint32_t lower_half(maker *m, uint32_t x) {
    return convert(m, convert(m, x, SHOAL_U32), SHOAL_U64);
}

/* Of 64 bits without sign, by halves. */
static uint32_t high_product(maker *m, uint32_t x, uint32_t y) {
    uint32_t a[2] = {lower_half(m, x), upper_half(m, x)};
    uint32_t b[2] = {lower_half(m, y), upper_half(m, y)};
    uint32_t left = mul(m, a[0], b[1]), right = mul(m, a[1], b[0]);
    uint32_t middle = add(m, lower_half(m, left), lower_half(m, right));
    middle = add(m, middle, upper_half(m, mul(m, a[0], b[0])));
    uint32_t rest =
        add(m, add(m, upper_half(m, left), upper_half(m, right)), upper_half(m, middle));
    return add(m, mul(m, a[1], b[1]), rest);
}

/* What the upper half of the product has more where a number with a sign is read as one without. */
static uint32_t excess(maker *m, uint32_t x, uint32_t bits_of_y) {
    return choose(m, less(m, x, 0), bits_of_y, number(m, bits_of_y, 0));
}

/* The upper half of a product of integers. */
static shoal_status mulhi(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 2, 1));
    maker m = {c->s->g, SHOAL_OK};
    uint32_t x = c->in[0], y = c->in[1];
    uint8_t dtype = hlo_type_of(c, 0)->dtype;
    char kind = shoal_dtype_kind((shoal_dtype)dtype);
    int bits = 8 * (int)shoal_dtype_size((shoal_dtype)dtype);
    if (kind != 'i' && kind != 'u') return hlo_fail(c, "it works on integers");
    bool has_sign = kind == 'i';
    if (bits < 64) {
        uint8_t wide = has_sign ? SHOAL_I64 : SHOAL_U64;
        uint32_t all = mul(&m, convert(&m, x, wide), convert(&m, y, wide));
        uint16_t shift = has_sign ? GRAPH_SHIFT_RIGHT_ARITHMETIC : GRAPH_SHIFT_RIGHT_LOGICAL;
        c->out[0] = convert(&m, two(&m, shift, all, number(&m, all, bits)), dtype);
        return m.status;
    }
    uint32_t u = has_sign ? bits_as(&m, x, SHOAL_U64) : x;
    uint32_t v = has_sign ? bits_as(&m, y, SHOAL_U64) : y, high = high_product(&m, u, v);
    if (has_sign) {
        high = sub(&m, sub(&m, high, excess(&m, x, v)), excess(&m, y, u));
        high = bits_as(&m, high, SHOAL_I64);
    }
    c->out[0] = high;
    return m.status;
}

static shoal_status infinite(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 1, 1));
    maker m = {c->s->g, SHOAL_OK};
    const char *name = c->op->name;
    uint32_t x = strcmp(name, "chlo.is_inf") ? c->in[0] : one(&m, GRAPH_ABS, c->in[0]);
    bool negative = !strcmp(name, "chlo.is_neg_inf");
    c->out[0] = compare(&m, "EQ", x, number(&m, c->in[0], negative ? -INFINITY : INFINITY));
    return m.status;
}

static shoal_status square(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 1, 1));
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = mul(&m, c->in[0], c->in[0]);
    return m.status;
}

static shoal_status constant_like(hlo_call *c) {
    const void *data;
    size_t bytes;
    const hlo_attr *value = hlo_attr_of(c, "value", NULL);
    SHOAL_TRY(hlo_need(c, 1, 1));
    const shoal_type *type = hlo_type_of(c, 0), scalar = {.dtype = type->dtype};
    if (!value) return hlo_fail(c, "its value is missing");
    SHOAL_TRY(hlo_elements(c, value, &scalar, &data, &bytes));
    const shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, data, bytes),
                                graph_int(SHOAL_ATTR_DTYPE, type->dtype),
                                graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank)};
    return hlo_row_of(c, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0);
}

/* ---- operations that broadcast ---- */

static hlo_rule *rule_of_two(const char *name) {
    static const hlo_named_rule rules[] = {
        {"next_after", next_after}, {"polygamma", polygamma}, {"zeta", zeta}, {NULL, NULL}};
    return hlo_look_up(rules, name);
}

/* "chlo.broadcast_add": axes from the last on, or as broadcast_dimensions has those of the operand
 * with fewer. */
static shoal_status broadcasting(hlo_call *c) {
    uint16_t op;
    parse_numbers axes;
    const char *name = c->op->name + strlen("chlo.broadcast_");
    hlo_rule *rule = rule_of_two(name);
    SHOAL_TRY(hlo_need(c, 2, 1));
    if (!rule) SHOAL_TRY(shoal_op_find(name, &op));
    SHOAL_TRY(hlo_ints(c, hlo_attr_of(c, "broadcast_dimensions", NULL), &axes));
    const shoal_type of[2] = {*hlo_type_of(c, 0), *hlo_type_of(c, 1)};
    shoal_type to = of[0].rank >= of[1].rank ? of[0] : of[1];
    uint32_t in[2];
    int64_t at[2][SHOAL_MAX_RANK];
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < of[k].rank; i++) {
            bool given = axes.count == of[k].rank && of[k].rank < to.rank;
            at[k][i] = given ? axes.data[i] : (int64_t)to.rank - of[k].rank + i;
            if (at[k][i] < 0 || at[k][i] >= to.rank)
                return hlo_fail(c, "there is no axis %lld", (long long)at[k][i]);
            if (to.dims[at[k][i]] == 1) to.dims[at[k][i]] = of[k].dims[i];
        }
    maker m = {c->s->g, SHOAL_OK};
    for (int k = 0; k < 2; k++) in[k] = spread(&m, c->in[k], &to, at[k]);
    SHOAL_TRY(m.status);
    if (!rule) return hlo_row_of(c, op, in, 2, NULL, 0, NULL, 0);
    hlo_call whole = *c;
    whole.in = in;
    return rule(&whole);
}

/* "chlo.broadcast_select": of what is true or false, and two tensors, of which single ones are
 * spread. */
static shoal_status broadcast_select(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 3, 1));
    shoal_type to = *hlo_type_of(c, 0);
    for (uint32_t k = 1; k < 3; k++)
        if (hlo_type_of(c, k)->rank > to.rank) to = *hlo_type_of(c, k);
    uint32_t in[3];
    int64_t axes[SHOAL_MAX_RANK];
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < hlo_type_of(c, k)->rank; i++) {
            int64_t *size = &to.dims[to.rank - hlo_type_of(c, k)->rank + i];
            if (*size == 1) *size = hlo_type_of(c, k)->dims[i];
        }
    maker m = {c->s->g, SHOAL_OK};
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t rank = hlo_type_of(c, k)->rank;
        for (uint32_t i = 0; i < rank; i++) axes[i] = to.rank - rank + i;
        to.dtype = hlo_type_of(c, k)->dtype;
        in[k] = spread(&m, c->in[k], &to, axes);
        SHOAL_TRY(m.status);
    }
    c->out[0] = choose(&m, in[0], in[1], in[2]);
    return m.status;
}

static uint32_t tan_of(maker *m, uint32_t x) { return one(m, GRAPH_TAN, x); }
static uint32_t conj_of(maker *m, uint32_t x) {
    (void)m;
    return x;
}

/* ---- which rule ---- */

/* Rules of functions of one operand, by their names. */
static const struct {
    const char *name;
    unary *function;
} unaries[] = {{"sinh", sinh_of},      {"cosh", cosh_of},        {"asinh", asinh_of},
               {"acosh", acosh_of},    {"atanh", atanh_of},      {"asin", asin_of},
               {"acos", acos_of},      {"atan", atan_of},        {"tan", tan_of},
               {"conj", conj_of},      {"erfc", erfc_of},        {"erf_inv", erf_inv_of},
               {"lgamma", hlo_lgamma}, {"digamma", hlo_digamma}, {"bessel_i1e", hlo_bessel_i1e}};

static shoal_status one_operand(hlo_call *c) {
    size_t i = 0;
    while (strcmp(c->op->name + strlen("chlo."), unaries[i].name)) i++;
    return widened(c, unaries[i].function);
}

hlo_rule *hlo_chlo_rule(const char *name) {
    static const hlo_named_rule rules[] = {{"chlo.mulhi", mulhi},
                                           {"chlo.is_inf", infinite},
                                           {"chlo.is_pos_inf", infinite},
                                           {"chlo.is_neg_inf", infinite},
                                           {"chlo.square", square},
                                           {"chlo.constant_like", constant_like},
                                           {"chlo.broadcast_select", broadcast_select},
                                           {NULL, NULL}};
    static const char broadcast[] = "broadcast_";
    uint16_t op;
    if (strncmp(name, "chlo.", 5)) return NULL;
    const char *own = name + 5;
    if (hlo_look_up(rules, name)) return hlo_look_up(rules, name);
    if (rule_of_two(own)) return rule_of_two(own);
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        if (!strcmp(own, unaries[i].name)) return one_operand;
    if (!strncmp(own, broadcast, sizeof broadcast - 1)) {
        own += sizeof broadcast - 1;
        if (rule_of_two(own)) return broadcasting;
        if (shoal_op_find(own, &op) == SHOAL_OK && graph_op(op)->max_inputs == 2)
            return broadcasting;
    }
    return NULL;
}
