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

/* A value's bytes: base + offset, where the block has room for `bytes` there and the address suits
 * elements of `align` bytes. Fails with INVALID; `what` and `index` name the value. */
shoal_status backend_bind(void *base, size_t size, size_t offset, size_t bytes, size_t align,
                          const char *what, size_t index, void **out) SHOAL_CHECK_RESULT;
/* Whether a box lies inside its tensor; *bytes becomes the tensor's size. Fails with INVALID. */
shoal_status backend_check_region(const shoal_region *region, uint32_t rank, const int64_t *size,
                                  size_t element_bytes, const char *what,
                                  size_t *bytes) SHOAL_CHECK_RESULT;

#endif
