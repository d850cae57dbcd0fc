/* The gamma function and its kin, Hurwitz's zeta function, Bessel's. What is not chosen of two ways
 * is computed too, as in chlo.c: each way sees only what is for it. */
#define _XOPEN_SOURCE 700
#include "graph/stablehlo/special.h"

static bool is_wide(const maker *m, uint32_t x) {
    return !m->status && type_of(m, x)->dtype == SHOAL_F64;
}

static uint32_t both(maker *m, uint32_t a, uint32_t b) { return two(m, GRAPH_AND, a, b); }

static uint32_t is_whole(maker *m, uint32_t x) {
    return compare(m, "EQ", x, one(m, GRAPH_FLOOR, x));
}

static uint32_t is_even(maker *m, uint32_t x) { return is_whole(m, scaled(m, x, 0.5)); }

/* ---- the logarithm of the gamma function and its slope: Lanczos' approximation, g = 7 ---- */

static const double lanczos[] = {
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,   -176.61502916214059906584551354,
    12.507343278686904814458936853,     -0.13857109526572011689554707,
    9.984369578019570859563e-6,         1.50563273514931155834e-7};
static const double lanczos_base = 0.99999999999980993227684700473478, lanczos_g = 7.5;

/* Below 1/2, of 1 - x instead: z is x - 1 or -x. */
static uint32_t reflected(maker *m, uint32_t x, uint32_t *below) {
    *below = less(m, x, 0.5);
    return choose(m, *below, one(m, GRAPH_NEGATE, x), shifted(m, x, -1));
}

uint32_t hlo_lgamma(maker *m, uint32_t x) {
    uint32_t below, z = reflected(m, x, &below), sum = number(m, x, lanczos_base);
    for (int i = 0; i < 8; i++)
        sum = add(m, sum, over(m, number(m, x, lanczos[i]), shifted(m, z, i + 1)));
    uint32_t log_t =
        shifted(m, one(m, GRAPH_LOG_PLUS_ONE, scaled(m, z, 1 / lanczos_g)), log(lanczos_g));
    uint32_t t = shifted(m, z, lanczos_g);
    uint32_t log_y = add(m, mul(m, sub(m, shifted(m, z, 0.5), over(m, t, log_t)), log_t),
                         shifted(m, one(m, GRAPH_LOG, sum), log(2 * M_PI) / 2));
    /* log(pi / sin(pi x)) - lgamma(1 - x), the sine of the part that is not whole. */
    uint32_t size = one(m, GRAPH_ABS, x), part = sub(m, size, one(m, GRAPH_FLOOR, size));
    uint32_t half = less(m, part, 0.5);
    part = choose(m, half, part, sub(m, number(m, x, 1), part));
    uint32_t sine = one(m, GRAPH_LOG, one(m, GRAPH_SINE, scaled(m, part, M_PI)));
    uint32_t mirrored = sub(m, sub(m, number(m, x, log(M_PI)), sine), log_y);
    uint32_t finite = one(m, GRAPH_IS_FINITE, sine);
    mirrored = choose(m, finite, mirrored, one(m, GRAPH_NEGATE, sine));
    uint32_t y = choose(m, below, mirrored, log_y);
    uint32_t infinite = compare(m, "EQ", size, number(m, x, INFINITY));
    return choose(m, infinite, number(m, x, INFINITY), y);
}

uint32_t hlo_digamma(maker *m, uint32_t x) {
    uint32_t below, z = reflected(m, x, &below);
    uint32_t sum = number(m, x, lanczos_base), slope = number(m, x, 0);
    for (int i = 0; i < 8; i++) {
        uint32_t a = number(m, x, lanczos[i]), d = shifted(m, z, i + 1);
        sum = add(m, sum, over(m, a, d));
        slope = sub(m, slope, over(m, a, mul(m, d, d)));
    }
    uint32_t t = shifted(m, z, lanczos_g);
    uint32_t log_t =
        shifted(m, one(m, GRAPH_LOG_PLUS_ONE, scaled(m, z, 1 / lanczos_g)), log(lanczos_g));
    uint32_t y =
        sub(m, add(m, log_t, over(m, slope, sum)), over(m, number(m, x, lanczos_g - 0.5), t));
    uint32_t part = add(m, x, one(m, GRAPH_ABS, one(m, GRAPH_FLOOR, shifted(m, x, 0.5))));
    uint32_t angle = scaled(m, part, M_PI);
    uint32_t mirrored =
        sub(m, y, over(m, scaled(m, one(m, GRAPH_COSINE, angle), M_PI), one(m, GRAPH_SINE, angle)));
    uint32_t pole = both(m, is_whole(m, x), compare(m, "LE", x, number(m, x, 0)));
    return choose(m, pole, number(m, x, NAN), choose(m, below, mirrored, y));
}

/* ---- Bessel's function ---- */

/* Of the first kind and order 1, in Chebyshev's polynomials of 2 t: c[0] / 2 + c[1] T1(t) + ... */
static uint32_t chebyshev(maker *m, uint32_t twice, const double *c, int n) {
    uint32_t a = number(m, twice, c[n - 1]), b = number(m, twice, 0), before = b;
    for (int i = n - 2; i >= 0; i--) {
        before = b;
        b = a;
        a = shifted(m, sub(m, mul(m, twice, b), before), c[i]);
    }
    return scaled(m, sub(m, a, before), 0.5);
}

/* Of the coefficients float32 takes as many as its slopes need. Fits of e^-x I1(x) / x up to 8, and
 * of e^-x I1(x) sqrt(x) from there on. */
static const double i1e_near[] = {
    0.252587186443633655,     -0.176416518357834055,    0.102643658689847095,
    -0.0529459812080949914,   0.0247264490306265168,    -0.0105640848946261982,
    0.00415642294431288816,   -0.00151357245063125315,  0.000512285956168575773,
    -0.000161760815825896746, 0.0000478156510755005423, -0.0000132731636560394358,
    3.47025130813767848e-6,   -8.56872026469545474e-7,  2.00329475355213526e-7,
    -4.44505912879632808e-8,  9.38153738649577178e-9,   -1.88724975172282929e-9,
    3.62559028155211704e-10,  -6.66348972350202774e-11, 1.17361862988909016e-11,
    -1.98397439776494372e-12, 3.22379336594557471e-13,  -5.04218550472791169e-14,
    7.60068429473540693e-15,  -1.10559694773538631e-15, 1.55363195773620047e-16,
    -2.11142121435816608e-17, 2.77791411276104637e-18};
static const double i1e_far[] = {
    0.77857623501828012,      -0.00976109749136146841,  -0.000110588938762623716,
    -3.88256480887769039e-6,  -2.51223623787020893e-7,  -2.63146884688951951e-8,
    -3.83538038596423702e-9,  -5.58974346219658381e-10, -1.89749581235054123e-11,
    3.25260358301548824e-11,  1.41258074366137813e-11,  2.03562854414708951e-12,
    -7.19855177624590851e-13, -4.08355111109219732e-13, -2.10154184277266431e-14,
    4.27244001671195135e-14,  1.04202769841288028e-14,  -3.8144030724370078e-15,
    -1.88035477551078245e-15, 3.30820231092092828e-16,  2.96262899764595014e-16,
    -3.20952592199342396e-17, -4.65030536848935833e-17, 4.41434832307170795e-18,
    7.51729631084210481e-18};

uint32_t hlo_bessel_i1e(maker *m, uint32_t x) {
    bool wide = is_wide(m, x);
    uint32_t sign = choose(m, less(m, x, 0), number(m, x, -1), number(m, x, 1));
    uint32_t size = mul(m, x, sign), is_near = less(m, size, 8), edge = number(m, x, 8);
    uint32_t small = choose(m, is_near, size, edge), large = choose(m, is_near, edge, size);
    uint32_t near = chebyshev(m, shifted(m, scaled(m, small, 0.5), -2), i1e_near, wide ? 29 : 21);
    uint32_t t = shifted(m, over(m, number(m, x, 32), large), -2);
    uint32_t far = over(m, chebyshev(m, t, i1e_far, wide ? 25 : 9), one(m, GRAPH_SQRT, large));
    return mul(m, sign, choose(m, is_near, mul(m, near, small), far));
}

/* ---- zeta ---- */

enum { ZETA_TERMS = 10 };

static uint32_t power_of(maker *m, uint32_t q, uint32_t h, uint32_t exponent) {
    return two(m, GRAPH_POWER, mul(m, q, h), exponent);
}

/* h^x times zeta, for x > 1 and q > 0, by Euler and Maclaurin: ten terms, the integral from there
 * on, half of the next term, and derivatives by Bernoulli's numbers B(2 i) / (2 i)!. Where the next
 * term is as nothing beside the sum these are left out, as they may be infinite times 0. */
static uint32_t zeta_above(maker *m, uint32_t x, uint32_t q, uint32_t h) {
    static const double bernoulli[] = {1 / 12.0,
                                       -1 / 720.0,
                                       1 / 30240.0,
                                       -1 / 1209600.0,
                                       2.0876756987868099e-8,
                                       -5.2841901386874932e-10,
                                       1.3382536530684679e-11,
                                       -3.3896802963225829e-13,
                                       8.5860620562778446e-15,
                                       -2.1748686985580619e-16,
                                       5.5090028283602295e-18,
                                       -1.3954464685812523e-19};
    bool wide = is_wide(m, x);
    uint32_t minus_x = one(m, GRAPH_NEGATE, x), sum = power_of(m, q, h, minus_x);
    for (int i = 1; i < ZETA_TERMS; i++)
        sum = add(m, sum, power_of(m, shifted(m, q, i), h, minus_x));
    uint32_t a = shifted(m, q, ZETA_TERMS), next = power_of(m, a, h, minus_x);
    uint32_t rest =
        over(m, power_of(m, a, h, shifted(m, minus_x, 1)), mul(m, h, shifted(m, x, -1)));
    uint32_t counts = compare(m, "GT", next, scaled(m, sum, wide ? 1e-17 : 1e-8));
    uint32_t s = choose(m, counts, x, number(m, x, 2)), b = choose(m, counts, a, number(m, x, 10));
    uint32_t factor = over(m, s, b), inverse = over(m, number(m, x, 1), mul(m, b, b));
    uint32_t series = number(m, x, 0.5);
    for (int i = 0; i < (wide ? 12 : 6); i++) {
        series = add(m, series, scaled(m, factor, bernoulli[i]));
        uint32_t next_two = mul(m, shifted(m, s, 2 * i + 1), shifted(m, s, 2 * i + 2));
        factor = mul(m, mul(m, factor, next_two), inverse);
    }
    uint32_t more = mul(m, power_of(m, b, h, one(m, GRAPH_NEGATE, s)), series);
    return add(m, add(m, sum, rest), choose(m, counts, more, number(m, x, 0)));
}

/* h^-x of it. Below 0, where x is whole: with the part f of q that is not, the terms above 0 are
 * those of f, and those below are, but for their sign, those from 1 - f up to -q. */
static uint32_t zeta_scaled(maker *m, uint32_t x, uint32_t q, uint32_t h) {
    uint32_t nought = number(m, x, 0), unit = number(m, x, 1), nan = number(m, x, NAN);
    uint32_t infinite = number(m, x, INFINITY);
    uint32_t s = choose(m, compare(m, "GT", x, unit), x, number(m, x, 2)), even = is_even(m, x);
    uint32_t below = compare(m, "LE", q, nought), whole = one(m, GRAPH_FLOOR, q);
    uint32_t above = zeta_above(m, s, choose(m, below, sub(m, q, whole), q), h);
    uint32_t harmless = number(m, x, 32);
    uint32_t from = choose(m, below, sub(m, shifted(m, whole, 1), q), harmless);
    uint32_t up_to = choose(m, below, sub(m, unit, q), harmless);
    uint32_t sign = choose(m, below, choose(m, even, unit, number(m, x, -1)), nought);
    uint32_t y = add(m, above, mul(m, sign, zeta_above(m, s, from, h)));
    y = sub(m, y, mul(m, sign, zeta_above(m, s, up_to, h)));
    uint32_t pole = both(m, below, is_whole(m, q));
    y = choose(m, pole, choose(m, even, infinite, nan), y);
    y = choose(m, both(m, below, one(m, GRAPH_NOT, is_whole(m, x))), nan, y);
    y = choose(m, compare(m, "GE", x, unit), y, nan);
    return choose(m, compare(m, "EQ", x, unit), infinite, y);
}

uint32_t hlo_zeta(maker *m, uint32_t x, uint32_t q) {
    return zeta_scaled(m, x, q, number(m, x, 1));
}

/* n! h^(n + 1) of whole numbers. In float32, in which 34! is the last, a product: the exponential
 * of a large logarithm has few digits. */
static uint32_t factorial(maker *m, uint32_t n, uint32_t h) {
    if (is_wide(m, n)) return one(m, GRAPH_EXPONENTIAL, hlo_lgamma(m, shifted(m, n, 1)));
    uint32_t y = mul(m, h, h), unit = number(m, n, 1);
    for (int i = 2; i <= 34; i++) y = mul(m, y, choose(m, less(m, n, i), unit, scaled(m, h, i)));
    return choose(m, less(m, n, 35), y, number(m, n, INFINITY));
}

/* (-1)^(n + 1) n! zeta(n + 1, x). In float32 a large factor would meet what is too small: far from
 * 0, both are counted in powers of 32. */
uint32_t hlo_polygamma(maker *m, uint32_t n, uint32_t x) {
    uint32_t nought = number(m, n, 0), unit = number(m, n, 1);
    uint32_t order = choose(m, compare(m, "GT", n, nought), n, unit);
    uint32_t far = compare(m, "GT", x, number(m, x, 4));
    uint32_t h = is_wide(m, n) ? unit : choose(m, far, number(m, n, 1 / 32.0), unit);
    uint32_t y = mul(m, factorial(m, order, h), zeta_scaled(m, shifted(m, order, 1), x, h));
    y = choose(m, is_even(m, order), one(m, GRAPH_NEGATE, y), y);
    y = choose(m, compare(m, "EQ", n, nought), hlo_digamma(m, x), y);
    uint32_t valid = both(m, compare(m, "GE", n, nought), is_whole(m, n));
    return choose(m, valid, y, number(m, n, NAN));
}
