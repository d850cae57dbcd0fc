#include "base/fence.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Points (after, upto] failed. */
typedef struct failure {
    uint64_t after, upto;
    shoal_status status;
    char message[256];
} failure;

enum { MAX_FAILURES = 16 };

struct shoal_fence {
    atomic_uint holds;
    pthread_mutex_t lock;
    pthread_cond_t reached;
    uint64_t value;
    size_t n_failures;
    failure failures[MAX_FAILURES];
};

shoal_status base_fence_new(shoal_fence **out) {
    shoal_fence *fence = calloc(1, sizeof *fence);
    if (!fence) return base_fail(SHOAL_NO_MEMORY, "no memory for a fence");
    base_condition_init(&fence->reached);
    pthread_mutex_init(&fence->lock, NULL);
    atomic_init(&fence->holds, 1);
    *out = fence;
    return SHOAL_OK;
}

shoal_fence *base_fence_retain(shoal_fence *fence) {
    atomic_fetch_add_explicit(&fence->holds, 1, memory_order_relaxed);
    return fence;
}

void base_fence_release(shoal_fence **fence) {
    shoal_fence *f = *fence;
    *fence = NULL;
    if (!f || atomic_fetch_sub_explicit(&f->holds, 1, memory_order_acq_rel) > 1) return;
    pthread_cond_destroy(&f->reached);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void add_failure(shoal_fence *fence, uint64_t upto, shoal_status status,
                        const char *message) {
    failure *list = fence->failures;
    if (fence->n_failures == MAX_FAILURES) {
        /* A fence that fails for ever must not grow for ever: the two oldest become one, and what
         * succeeded between them now counts as failed. */
        list[1].after = list[0].after;
        memmove(&list[0], &list[1], (MAX_FAILURES - 1) * sizeof list[0]);
        fence->n_failures--;
    }
    failure *last = &list[fence->n_failures++];
    *last = (failure){.after = fence->value, .upto = upto, .status = status};
    snprintf(last->message, sizeof last->message, "%s", message ? message : "");
}

void base_fence_signal(shoal_point point, shoal_status status, const char *message) {
    shoal_fence *fence = point.fence;
    if (!fence) return;
    pthread_mutex_lock(&fence->lock);
    if (point.value > fence->value) {
        if (status != SHOAL_OK) add_failure(fence, point.value, status, message);
        fence->value = point.value;
        pthread_cond_broadcast(&fence->reached);
    }
    pthread_mutex_unlock(&fence->lock);
}

static shoal_status outcome(const shoal_fence *fence, uint64_t value) {
    for (size_t i = 0; i < fence->n_failures; i++) {
        const failure *f = &fence->failures[i];
        if (f->after < value && value <= f->upto) return base_fail(f->status, "%s", f->message);
    }
    return SHOAL_OK;
}

shoal_status base_fence_wait(shoal_point point, uint32_t timeout_ms) {
    shoal_fence *fence = point.fence;
    if (!fence) return SHOAL_OK;
    pthread_mutex_lock(&fence->lock);
    int error = 0;
    if (fence->value < point.value && timeout_ms) {
        struct timespec deadline = base_timespec(base_now() + timeout_ms * BASE_MS);
        while (fence->value < point.value && error != ETIMEDOUT)
            error = pthread_cond_timedwait(&fence->reached, &fence->lock, &deadline);
    }
    shoal_status status =
        fence->value >= point.value
            ? outcome(fence, point.value)
            : base_fail(SHOAL_TIMEOUT, "fence is at %llu, not at %llu, after %u ms",
                        (unsigned long long)fence->value, (unsigned long long)point.value,
                        timeout_ms);
    pthread_mutex_unlock(&fence->lock);
    return status;
}
