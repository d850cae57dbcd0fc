/* The kernels of products, which are compiled once per instruction set: what they are given, and
 * what they do. */
#ifndef CPU_PRODUCTS_H
#define CPU_PRODUCTS_H

#include "base/block.h"

/* The parts of a product of f32 or f64 (gemm.c), or of elements that are multiplied by groups
 * (grouped.c); strides are in elements. */
typedef struct cpu_gemm {
    int rows, panel; /* of a tile in registers; columns of a panel of b */
    int slack;       /* elements that may be written behind packed rows */
    /* Packed operands: elements along k in a unit, its bytes, and units before those of a row or
     * column. More than one element: both operands have to be packed, and there is no `vector`. */
    int group, unit, before;
    /* n columns of k rows as panels, one after the other; the last one filled up with zeros. */
    void (*pack_b)(int64_t k, int64_t n, const void *b, const int64_t *strides, void *to);
    /* m rows of k columns, in the order in which they are multiplied. */
    void (*pack_a)(int64_t m, int64_t k, const void *a, const int64_t *strides, void *to);
    /* c = a * b, or with `add` c += a * b. Panels of b are b_panel apart, their rows b_row; one
     * that is not full has to be packed. One stride of a is 1, and one of c; a_strides NULL: a is
     * packed. */
    void (*block)(int64_t m, int64_t n, int64_t k, const void *a, const int64_t *a_strides,
                  const void *b, int64_t b_row, int64_t b_panel, void *c, const int64_t *c_strides,
                  bool add);
    /* The same for packed a and one full panel, the halves of whose rows are b + list[p] and second
     * + list[p]; c has unit stride along n. */
    void (*block_listed)(int64_t m, int64_t k, const void *a, const int64_t *list, const void *b,
                         const void *second, void *c, int64_t c_row, bool add);
    /* y = matrix * x, n x k times k; x has unit stride, and so has one side of the matrix. */
    void (*vector)(int64_t n, int64_t k, const void *matrix, const int64_t *strides, const void *x,
                   void *y);
} cpu_gemm;

/* Those of one type, by whether the left operand and the right one are unsigned. */
typedef struct cpu_grouped {
    bool exists; /* the processor has instructions for it */
    cpu_gemm parts[2][2];
} cpu_grouped;

/* The parts of a convolution of f32 or f64 (taps.c). Element p of the window at place j is box[
 * rows[p] + columns[j]]; up to `slack` elements are read behind a box, and written behind a panel.
 */
typedef struct cpu_taps {
    int slack;
    /* n places, at most those of a panel, as a panel of k rows. */
    void (*copy_panel)(int64_t k, const void *box, const int64_t *rows, int64_t n,
                       const int64_t *columns, void *to); /* quick where places are side by side */
    void (*turn_panel)(int64_t k, const void *box, const int64_t *rows, int64_t n,
                       const int64_t *columns, void *to); /* where elements of the window are */
    /* n places that are side by side, the first at `box`: to, or with `add` to += the sums of k
     * products with a. */
    void (*sum_places)(int64_t n, int64_t k, const void *a, const int64_t *rows, const void *box,
                       void *to, bool add);
    /* `count` places of windows with lines of n elements that are side by side. */
    void (*sum_window)(int64_t lines, int64_t n, const void *a, const int64_t *rows,
                       const void *box, int64_t count, const int64_t *columns, void *to, bool add);
    bool (*finite)(int64_t n, const void *data); /* none of n elements is an infinity or NaN */
    /* Lines of n elements, between so many zeros, that are `step` and `box_step` apart; less than a
     * vector is written behind each. */
    void (*copy_lines)(int64_t lines, int64_t before, int64_t n, int64_t after, const void *from,
                       int64_t step, void *box, int64_t box_step);
} cpu_taps;

/* Numbers of quantised blocks: decoded, or multiplied with rows of x. Rows of w are `blocks` blocks
 * each, one after the other; y[j, i] = sum of x[j] w[i], m rows of x, n of w. */
typedef struct cpu_block_product {
    const uint8_t *w;
    const float *x;
    float *y;
    const void *prepared;                      /* the rows of x for digits.c */
    int64_t m, n, blocks, x_row, y_strides[2]; /* in elements, of j and i */
} cpu_block_product;
typedef struct cpu_block_kernel { /* blocks.c */
    base_block_decode decode;
    void (*dot)(const cpu_block_product *product);
    int64_t most_rows; /* of x: for more, blocked products of decoded panels are faster */
} cpu_block_kernel;
/* The same by integers (digits.c). Rows of x are prepared: `bytes` for each CPU_PREPARED numbers of
 * a row. `plain` multiplies what integers cannot. */
enum { CPU_PREPARED = 256 };
typedef struct cpu_digits_kernel {
    void (*prepare)(const cpu_block_product *product, void *to);
    void (*dot)(const cpu_block_product *product, const cpu_block_kernel *plain);
    int64_t most_rows; /* for which it is faster; 0: it does not exist */
    size_t bytes;
} cpu_digits_kernel;

#endif
