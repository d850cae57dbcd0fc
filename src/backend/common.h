/* What backends share: checks of boxes and buffers; waiting and signalling around work that is done
 * before run() and copy() return. */
#ifndef BACKEND_COMMON_H
#define BACKEND_COMMON_H

#include "base/status.h"
#include "shoal/backend.h"

/* Waits for all points, for as long as it takes: whoever hands out a point sees to it that it is
 * reached, or fails. Returns the first failure. */
shoal_status backend_wait_all(const shoal_points *points) SHOAL_CHECK_RESULT;
/* Reaches all points with `status` (and, when it is none, this thread's message); returns it. */
shoal_status backend_signal_all(const shoal_points *points, shoal_status status);

/* A block of host memory and a place in it. */
/* UNSUPPORTED, naming the operation. */
shoal_status backend_cannot_run(const char *backend, const shoal_node *node);

typedef struct backend_span {
    void *data;
    size_t size, offset;
} backend_span;
/* The host's memory as read() and write() get it: nobody knows how large it is. */
backend_span backend_host_span(const void *data);

/* The address of a value of `bytes` bytes, where the block has room for it and the address suits
 * elements of `align` bytes. Fails with INVALID; `what` and `index` name the value. */
shoal_status backend_bind(backend_span span, size_t bytes, size_t align, const char *what,
                          size_t index, void **out) SHOAL_CHECK_RESULT;
/* Whether a box lies inside both of its tensors, and these in their memory; fails with INVALID. */
shoal_status backend_check_box(backend_span to, backend_span from,
                               const shoal_box *box) SHOAL_CHECK_RESULT;
/* The work of read, write and copy on host memory, with its points. Fails with INVALID where a box
 * is not inside. */
shoal_status backend_copy_box(backend_span to, backend_span from, const shoal_box *box,
                              const shoal_points *points) SHOAL_CHECK_RESULT;

#endif
