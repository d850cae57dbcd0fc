/* Functions that take a series, written in operations on elements: the values have a floating type
 * of 32 or 64 bits. And what their formulas are written with. */
#ifndef GRAPH_STABLEHLO_SPECIAL_H
#define GRAPH_STABLEHLO_SPECIAL_H

#include "graph/maker.h"

uint32_t hlo_lgamma(maker *m, uint32_t x);
uint32_t hlo_digamma(maker *m, uint32_t x);
/* e^-|x| I1(x) */
uint32_t hlo_bessel_i1e(maker *m, uint32_t x);
/* Hurwitz's: 1 / q^x + 1 / (q + 1)^x + ... */
uint32_t hlo_zeta(maker *m, uint32_t x, uint32_t q);
/* Derivative n of digamma at x. */
uint32_t hlo_polygamma(maker *m, uint32_t n, uint32_t x);

/* ---- formulas ---- */

/* After a failure there is no type to ask for. */
static inline uint32_t number(maker *m, uint32_t x, double value) {
    return m->status ? 0 : like(m, x, value);
}

static inline uint32_t scaled(maker *m, uint32_t x, double f) { return mul(m, x, number(m, x, f)); }
static inline uint32_t shifted(maker *m, uint32_t x, double t) {
    return add(m, x, number(m, x, t));
}
static inline uint32_t less(maker *m, uint32_t x, double than) {
    return compare(m, "LT", x, number(m, x, than));
}

/* ((a[0] x + a[1]) x + a[2]) ... */
static inline uint32_t polynomial(maker *m, uint32_t x, const double *a, int n) {
    uint32_t y = number(m, x, a[0]);
    for (int i = 1; i < n; i++) y = shifted(m, mul(m, y, x), a[i]);
    return y;
}

#endif
