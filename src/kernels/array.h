/* Arrays of the caller's: checked, seen as dense blocks, copied to dense memory and back. */
#ifndef KERNELS_ARRAY_H
#define KERNELS_ARRAY_H

#include "base/status.h"
#include "shoal/kernels.h"

/* An array as a view of a dense, row-major block: what the nodes of a graph can undo. */
typedef struct kernels_view {
    void *data;       /* where the block begins */
    shoal_type block; /* in the array's order of axes: those of 1 or of stride 0 left out, unless
                         the array is dense as it stands */
    uint8_t axis[SHOAL_MAX_RANK]; /* per axis of the block: the array's */
    bool backwards[SHOAL_MAX_RANK];
    bool plain; /* the block is the array */
} kernels_view;

/* Fills *type. Fails with INVALID where there is no such array; `what` and `index` name it. */
shoal_status kernels_check(const char *name, const char *what, uint32_t index,
                           const shoal_array *array, shoal_type *type) SHOAL_CHECK_RESULT;
/* The strides of an array that has been checked, also of one that gives none. */
void kernels_strides(const shoal_array *array, const shoal_type *type, int64_t *out);
/* Finds the block of an array that has been checked. False: there is none, and the array has to be
 * copied. */
bool kernels_view_of(const shoal_array *array, const shoal_type *type, kernels_view *out);
/* The array that a block of memory is. */
void kernels_view_dense(void *data, const shoal_type *type, kernels_view *out);
/* Whether two elements of the array have one place. */
bool kernels_overlaps_itself(const shoal_array *array, const shoal_type *type);
/* The bytes from the first that the array touches to behind the last; none when it is empty. */
void kernels_range(const shoal_array *array, const shoal_type *type, const char **begin,
                   const char **end);
/* Copies an array to dense memory, and back. */
void kernels_gather(const shoal_array *from, const shoal_type *type, void *to);
void kernels_scatter(const void *from, const shoal_type *type, const shoal_array *to);

#endif
