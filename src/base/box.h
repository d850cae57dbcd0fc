/* Boxes: axis-aligned parts of a tensor, as start and size per axis, and copies of them. */
#ifndef BASE_BOX_H
#define BASE_BOX_H

#include "base/status.h"

typedef struct base_box {
    uint32_t rank;
    int64_t start[SHOAL_MAX_RANK];
    int64_t size[SHOAL_MAX_RANK];
} base_box;

/* The box of a whole tensor of shape `dims`. */
base_box base_box_whole(uint32_t rank, const int64_t *dims);
int64_t base_box_count(const base_box *box);
/* The common part, in the coordinates of both; false when it is empty. Boxes of rank 0 meet. */
bool base_box_intersect(const base_box *a, const base_box *b, base_box *out);

/* Copies bytes [offset, offset + bytes) of the box's elements, in row-major order of the box,
 * between a dense stream and a dense row-major tensor of shape `dims`. The box lies inside. */
void base_box_gather(void *stream, const void *tensor, const int64_t *dims, const base_box *box,
                     size_t element_bytes, size_t offset, size_t bytes);
void base_box_scatter(void *tensor, const void *stream, const int64_t *dims, const base_box *box,
                      size_t element_bytes, size_t offset, size_t bytes);
/* Copies a box of one tensor to another place in another tensor, which does not overlap it. */
void base_box_copy(void *to, const int64_t *to_dims, const int64_t *to_start, const void *from,
                   const int64_t *from_dims, const int64_t *from_start, uint32_t rank,
                   const int64_t *size, size_t element_bytes);

#endif
