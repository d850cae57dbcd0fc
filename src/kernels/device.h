/* The devices on which kernels run: one of each backend that a thread has asked for. */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include "base/map.h"
#include "shoal/backend.h"

typedef struct kernels_device {
    const shoal_backend *backend; /* NULL: this place is free */
    shoal_device *device;
    shoal_device_info info;
    base_map kernels; /* what has been compiled for it, by the hash of its key */
    shoal_fence *fence;
    uint64_t last; /* the point of what was started last: each waits for the one before */
} kernels_device;

/* Held while a call is computed, and around all functions below. */
void kernels_lock(void);
void kernels_unlock(void);

/* The device of this thread's backend, opened. */
shoal_status kernels_device_open(kernels_device **out) SHOAL_CHECK_RESULT;
/* Whether kernels may use the caller's memory where it lies. */
bool kernels_device_is_host(const kernels_device *d);
/* Memory for so many bytes at `data`: those themselves, or the device's own, with a copy of them
 * where they are an operand. */
shoal_status kernels_device_bind(kernels_device *d, void *data, size_t bytes, bool operand,
                                 shoal_binding *out) SHOAL_CHECK_RESULT;
/* These start work; kernels_device_wait tells what becomes of it. A result is brought to `data`,
 * unless it lies there. */
shoal_status kernels_device_run(kernels_device *d, shoal_executable *executable,
                                const shoal_binding *buffers, size_t n) SHOAL_CHECK_RESULT;
shoal_status kernels_device_fetch(kernels_device *d, shoal_binding from, void *data,
                                  size_t bytes) SHOAL_CHECK_RESULT;

/* Waits for all that was started, also when some of it failed: nothing uses the call's memory then.
 */
shoal_status kernels_device_wait(kernels_device *d) SHOAL_CHECK_RESULT;

/* Frees what is in `kernels` (run.c). */
void kernels_free_all(kernels_device *d);

#endif
