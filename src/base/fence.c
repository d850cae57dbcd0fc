#include "base/fence.h"

#include "base/clock.h"
#include "base/vec.h"

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

/* Of which so many are known: nobody asks for a point as long ago as the first of them, but what is
 * derived from one. */
enum { MAX_FAILURES = 4096 };

/* The point `value` fails where `from` does. */
typedef struct derived {
    uint64_t value, from;
} derived;

/* What is to be called when a point is reached. */
typedef struct follower {
    uint64_t value;
    void (*then)(void *context, shoal_status status);
    void *context;
} follower;

struct shoal_fence {
    atomic_uint holds;
    pthread_mutex_t lock;
    pthread_cond_t reached;
    uint64_t value;
    BASE_VEC(failure) failures; /* by their points */
    uint64_t forgotten;         /* the last point of those that are known no more */
    uint64_t untold;            /* up to here all has failed: there was no memory to say what */
    BASE_VEC(derived) derived;  /* by their values; those before n_known are reached */
    size_t n_known;
    BASE_VEC(follower) followers; /* by their values */
    unsigned calling;             /* that are being called */
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
    free(f->followers.data);
    free(f->derived.data);
    free(f->failures.data);
    free(f);
}

static void add_failure(shoal_fence *fence, uint64_t upto, shoal_status status,
                        const char *message) {
    failure last = {.after = fence->value, .upto = upto, .status = status};
    snprintf(last.message, sizeof last.message, "%s", message ? message : "");
    failure *before =
        fence->failures.count ? &fence->failures.data[fence->failures.count - 1] : NULL;
    if (before && before->upto == last.after && before->status == status &&
        !strcmp(before->message, last.message)) {
        before->upto = upto;
        return;
    }
    if (fence->failures.count == MAX_FAILURES) {
        /* A fence that fails for ever must not grow for ever. */
        fence->failures.count = MAX_FAILURES / 2;
        fence->forgotten = fence->failures.data[MAX_FAILURES / 2 - 1].upto;
        memmove(fence->failures.data, fence->failures.data + MAX_FAILURES / 2,
                fence->failures.count * sizeof last);
    }
    if (!base_vec_push(&fence->failures, last)) fence->untold = upto;
}

/* The first failure that ends behind a point; their number: there is none. */
static size_t first_behind(const shoal_fence *fence, uint64_t value) {
    size_t low = 0, high = fence->failures.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (fence->failures.data[middle].upto > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static const failure unknown = {
    .status = SHOAL_NO_MEMORY,
    .message = "no memory to note a failure",
};

/* The first failure of points after one value and up to another; NULL: none. */
static const failure *find_failure(const shoal_fence *fence, uint64_t after, uint64_t upto) {
    if (after < fence->untold) return &unknown;
    size_t i = first_behind(fence, after);
    if (i == fence->failures.count || fence->failures.data[i].after >= upto) return NULL;
    return &fence->failures.data[i];
}

static shoal_status failure_between(const shoal_fence *fence, uint64_t after, uint64_t upto) {
    const failure *f = find_failure(fence, after, upto);
    return f ? base_fail(f->status, "%s", f->message) : SHOAL_OK;
}

static const failure *failure_at(const shoal_fence *fence, uint64_t value) {
    return value ? find_failure(fence, value - 1, value) : NULL;
}

static shoal_status outcome(const shoal_fence *fence, uint64_t value) {
    return value ? failure_between(fence, value - 1, value) : SHOAL_OK;
}

/* Reaches a value. Locked. */
static void reach(shoal_fence *fence, uint64_t value, shoal_status status, const char *message) {
    if (value <= fence->value) return;
    if (status != SHOAL_OK) add_failure(fence, value, status, message);
    fence->value = value;
}

/* Reaches points up to one, each that is derived from a failed one with the failure of that. */
static void reach_derived(shoal_fence *fence, uint64_t value, shoal_status status,
                          const char *message) {
    const derived *list = fence->derived.data;
    size_t i = fence->n_known;
    for (; i < fence->derived.count && list[i].value <= value; i++) {
        if (list[i].value <= fence->value) continue;
        const failure *from = failure_at(fence, list[i].from);
        if (!from && list[i].from <= fence->forgotten) from = &unknown;
        if (!from) continue;
        failure first = *from; /* the list of failures moves */
        reach(fence, list[i].value - 1, status, message);
        reach(fence, list[i].value, first.status, first.message);
    }
    fence->n_known = i;
    if (i < fence->derived.count / 2 + 1) return;
    fence->derived.count -= i;
    memmove(fence->derived.data, list + i, fence->derived.count * sizeof *list);
    fence->n_known = 0;
}

/* Calls those whose points are reached, one after the other. Locked, but not while it calls: what
 * is called may use the fence, and give it back. */
static void call_followers(shoal_fence *fence) {
    while (fence->followers.count && fence->followers.data[0].value <= fence->value) {
        follower first = fence->followers.data[0];
        fence->followers.count--;
        memmove(&fence->followers.data[0], &fence->followers.data[1],
                fence->followers.count * sizeof first);
        shoal_status status = outcome(fence, first.value);
        shoal_fence *held = fence; /* for the follower */
        fence->calling++;
        pthread_mutex_unlock(&fence->lock);
        first.then(first.context, status);
        base_fence_release(&held);
        pthread_mutex_lock(&fence->lock);
        fence->calling--;
    }
}

void base_fence_signal(shoal_point point, shoal_status status, const char *message) {
    shoal_fence *fence = point.fence;
    if (!fence) return;
    base_fence_retain(fence); /* who is called may give back the last hold but this */
    pthread_mutex_lock(&fence->lock);
    if (point.value > fence->value) {
        if (fence->derived.count) reach_derived(fence, point.value, status, message);
        reach(fence, point.value, status, message);
        pthread_cond_broadcast(&fence->reached);
    }
    call_followers(fence);
    pthread_mutex_unlock(&fence->lock);
    base_fence_release(&fence);
}

shoal_status base_fence_derive(shoal_point point, uint64_t from) {
    shoal_fence *fence = point.fence;
    derived last = {point.value, from};
    pthread_mutex_lock(&fence->lock);
    bool well = from <= fence->value && !failure_at(fence, from);
    bool kept = well || base_vec_push(&fence->derived, last);
    pthread_mutex_unlock(&fence->lock);
    return kept ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory to follow a point");
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

bool base_fence_reached(shoal_point point) {
    if (!point.fence) return true;
    pthread_mutex_lock(&point.fence->lock);
    bool reached = point.fence->value >= point.value;
    pthread_mutex_unlock(&point.fence->lock);
    return reached;
}

bool base_fence_settled(shoal_point point) {
    if (!point.fence) return true;
    pthread_mutex_lock(&point.fence->lock);
    const shoal_fence *f = point.fence;
    bool settled = f->value >= point.value && !f->calling &&
                   (!f->followers.count || f->followers.data[0].value > point.value);
    pthread_mutex_unlock(&point.fence->lock);
    return settled;
}

shoal_status base_fence_then(shoal_point point, void (*then)(void *context, shoal_status status),
                             void *context) {
    shoal_fence *fence = point.fence;
    follower last = {point.value, then, context};
    bool reached = true, kept = true;
    shoal_status status = SHOAL_OK;
    if (fence) {
        pthread_mutex_lock(&fence->lock);
        reached = fence->value >= point.value;
        if (reached) status = outcome(fence, point.value);
        if (!reached) kept = base_vec_push(&fence->followers, last);
        for (size_t i = fence->followers.count; !reached && kept && --i > 0;) {
            follower *list = fence->followers.data;
            if (list[i - 1].value <= last.value) break;
            list[i] = list[i - 1];
            list[i - 1] = last;
        }
        if (!reached && kept) base_fence_retain(fence);
        pthread_mutex_unlock(&fence->lock);
    }
    if (!kept) return base_fail(SHOAL_NO_MEMORY, "no memory to wait for a point");
    if (reached) then(context, status);
    return SHOAL_OK;
}

shoal_status base_fence_failed(shoal_point point, uint64_t after) {
    shoal_fence *fence = point.fence;
    if (!fence) return SHOAL_OK;
    pthread_mutex_lock(&fence->lock);
    shoal_status status = failure_between(fence, after, point.value);
    pthread_mutex_unlock(&fence->lock);
    return status;
}
