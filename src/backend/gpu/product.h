/* Products as product.c computes them: batch by batch, of rows and columns. */
#ifndef GPU_PRODUCT_H
#define GPU_PRODUCT_H

#include "backend/gpu/gpu.h"
#include "backend/ref/ref.h"

typedef struct product {
    gpu_program *p;
    ref_dot axes;
    int64_t batch, m, n, k;
    uint8_t dtype;
    const char *number; /* the type of sums */
    uint32_t args[3];   /* lhs, rhs, result */
    /* Of a convolution; else NULL. The axes of rows are a batch, then places; those of k channels
     * and the window's, which begin with number first_window. The result's batches, rows and
     * columns lie by stride[0] of theirs. */
    const ref_windows *windows;
    uint32_t first_window;
    int64_t first_right; /* where the right side begins: elements behind its first */
    ref_axes result[3];
} product;

/* Adds it by one of our own kernels for devices with many lanes. */
shoal_status gpu_product_by_us(const product *product) SHOAL_CHECK_RESULT;

#endif
