/* Factors of matrices, written in loops. All take matrices as the last two axes of floating
 * tensors, and any axes before them. */
#ifndef GRAPH_STABLEHLO_MATRIX_H
#define GRAPH_STABLEHLO_MATRIX_H

#include "graph/maker.h"

/* The lower factor of what stands on and below the diagonal, or the upper one of what stands above;
 * zeros elsewhere. NaN from the first column on that has none. */
uint32_t hlo_cholesky(maker *m, uint32_t x, bool lower);

typedef struct hlo_triangle {
    bool left, lower, transposed, unit; /* unit: the diagonal is 1 */
} hlo_triangle;
uint32_t hlo_triangular_solve(maker *m, uint32_t a, uint32_t b, const hlo_triangle *how);

/* Both factors in one matrix, and for each row of the smaller side which one (int32) it changed
 * places with, from 0. */
void hlo_lu(maker *m, uint32_t x, uint32_t *factors, uint32_t *pivots);
/* Where the n rows come from once all have changed places. */
uint32_t hlo_permutation(maker *m, uint32_t pivots, int64_t n);

/* R on and above the diagonal, below it the vectors of reflections, whose first element is 1; and
 * their factors. */
void hlo_qr(maker *m, uint32_t x, uint32_t *factors, uint32_t *scales);
/* The product of such reflections, as many columns of it as the matrix has. of_qr: these are a
 * QR's, of which a scale of 0 says that nothing had to go, and not that there is no reflection
 * nearby. */
uint32_t hlo_reflections(maker *m, uint32_t factors, uint32_t scales, bool of_qr);

#endif
