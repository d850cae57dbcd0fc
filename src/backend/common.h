/* What the backends on host memory share: waiting and signalling around work that is done before
 * run() and copy() return. */
#ifndef BACKEND_COMMON_H
#define BACKEND_COMMON_H

#include "base/status.h"
#include "shoal/backend.h"

/* Longest wait for one point; what takes longer counts as lost. */
enum { BACKEND_WAIT_MS = 600000 };

/* Waits for all points; returns the first failure. */
shoal_status backend_wait_all(const shoal_point *points, size_t n_points) SHOAL_CHECK_RESULT;
/* Reaches all points with `status` (and, when it is none, this thread's message); returns it. */
shoal_status backend_signal_all(const shoal_point *points, size_t n_points, shoal_status status);

/* A block of host memory and a place in it. */
typedef struct backend_span {
    void *data;
    size_t size, offset;
} backend_span;

/* The address of a value of `bytes` bytes, where the block has room for it and the address suits
 * elements of `align` bytes. Fails with INVALID; `what` and `index` name the value. */
shoal_status backend_bind(backend_span span, size_t bytes, size_t align, const char *what,
                          size_t index, void **out) SHOAL_CHECK_RESULT;
/* The work of shoal_backend.copy on host memory. Fails with INVALID where a box is not inside. */
shoal_status backend_copy_box(backend_span to, const shoal_region *to_region, backend_span from,
                              const shoal_region *from_region, uint32_t rank, const int64_t *size,
                              size_t element_bytes) SHOAL_CHECK_RESULT;

#endif
