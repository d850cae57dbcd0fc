/* Devices of kernels: see device.h. */
#include "kernels/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/registry.h"
#include "base/fence.h"
#include "base/os_cpu.h"
#include "shoal/kernels.h"

/* A device that gets on with nothing for so many seconds is lost. */
enum { MOST_DEVICES = 8, MOST_THREADS = 1024, PATIENCE = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static uint32_t threads;                                 /* asked for; 0: by the variable */
static kernels_device devices[MOST_DEVICES];
static _Thread_local const shoal_backend *chosen; /* NULL: cpu */

/* A forked process has none of the threads, and nobody in it holds the lock. */
static void forget_all(void) {
    pthread_mutex_init(&lock, NULL);
    memset(devices, 0, sizeof devices);
}

static void watch_forks(void) {
    /* Without memory for it, a fork in the middle of a call is not survived. */
    (void)pthread_atfork(NULL, NULL, forget_all);
}

void kernels_lock(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
}

void kernels_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- which ---- */

static uint32_t threads_wanted(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    unsigned long number = text ? strtoul(text, NULL, 10) : 0;
    if (threads) return threads;
    return number && number <= MOST_THREADS ? (uint32_t)number : base_cpu_count();
}

static void close_device(kernels_device *d) {
    if (!d->backend) return;
    kernels_free_all(d);
    base_map_fini(&d->kernels);
    d->backend->device_free(d->device);
    base_fence_release(&d->fence);
    *d = (kernels_device){0};
}

shoal_status shoal_kernels_set_threads(uint32_t count) {
    if (count > MOST_THREADS)
        return base_fail(SHOAL_INVALID, "kernels: %u threads; at most %d are possible", count,
                         MOST_THREADS);
    kernels_lock();
    for (int i = 0; i < MOST_DEVICES; i++) close_device(&devices[i]);
    threads = count;
    kernels_unlock();
    return SHOAL_OK;
}

uint32_t shoal_kernels_threads(void) {
    kernels_lock();
    uint32_t count = threads_wanted();
    kernels_unlock();
    return count;
}

shoal_status shoal_kernels_instructions(const char **out) { return cpu_instructions(out); }

shoal_status shoal_kernels_use(const char *backend) {
    const shoal_backend *found;
    SHOAL_TRY(backend_find(backend ? backend : "cpu", &found));
    if (!found->device_count(backend_host()))
        return base_fail_prefix(SHOAL_NOT_FOUND, "kernels: %s has no device here: ", found->name);
    chosen = found;
    return SHOAL_OK;
}

const char *shoal_kernels_used(void) { return chosen ? chosen->name : "cpu"; }

static shoal_status open_device(const shoal_backend *backend, kernels_device *d) {
    const shoal_host *host = backend_host();
    *d = (kernels_device){0};
    SHOAL_TRY(backend->device_info(host, 0, &d->info));
    SHOAL_TRY(base_fence_new(&d->fence));
    shoal_status status = backend->device_new(host, 0, threads_wanted(), &d->device);
    if (status)
        base_fence_release(&d->fence);
    else
        d->backend = backend;
    return status;
}

shoal_status kernels_device_open(kernels_device **out) {
    const shoal_backend *backend = chosen;
    if (!backend) SHOAL_TRY(backend_find("cpu", &backend));
    for (int i = 0; i < MOST_DEVICES; i++) {
        *out = &devices[i];
        if (devices[i].backend == backend) return SHOAL_OK;
        if (!devices[i].backend) return open_device(backend, &devices[i]);
    }
    return base_fail(SHOAL_NO_MEMORY, "kernels: at most %d backends can be used", MOST_DEVICES);
}

bool kernels_device_is_host(const kernels_device *d) {
    uint32_t needed = SHOAL_DEVICE_HOST_MEMORY | SHOAL_DEVICE_IMPORT_HOST;
    return (d->info.flags & (needed | SHOAL_DEVICE_ASYNC)) == needed;
}

/* ---- work, one piece after the other ---- */

/* The points of the next piece of work: behind all others. */
static shoal_points next(kernels_device *d, shoal_point *points) {
    points[0] = (shoal_point){d->fence, d->last};
    points[1] = (shoal_point){d->fence, ++d->last};
    return (shoal_points){points, 1, points + 1, 1};
}

shoal_status kernels_device_wait(kernels_device *d) {
    uint64_t before = 0;
    if (kernels_device_is_host(d)) return SHOAL_OK;
    for (int still = 0; still < PATIENCE; still++) {
        shoal_status status = base_fence_wait((shoal_point){d->fence, d->last}, 1000);
        /* What comes next does not wait for what has failed. */
        if (status && status != SHOAL_TIMEOUT)
            base_fence_signal((shoal_point){d->fence, ++d->last}, SHOAL_OK, NULL);
        if (status != SHOAL_TIMEOUT) return status;
        uint64_t now = d->backend->progress ? d->backend->progress(d->device) : before + 1;
        if (now != before) still = 0;
        before = now;
    }
    return base_fail(SHOAL_LOST, "kernels: %s does not get on", d->info.name);
}

/* What failed at once has reached no point. */
static shoal_status started(kernels_device *d, shoal_status status) {
    if (status) base_fence_signal((shoal_point){d->fence, d->last}, status, shoal_error_message());
    return status;
}

static shoal_box all_of(const int64_t *bytes, const int64_t *zero) {
    return (shoal_box){1, 1, bytes, bytes, zero, bytes, zero};
}

shoal_status kernels_device_bind(kernels_device *d, void *data, size_t bytes, bool operand,
                                 shoal_binding *out) {
    const int64_t size = (int64_t)bytes, zero = 0;
    const shoal_box box = all_of(&size, &zero);
    shoal_point points[2];
    *out = (shoal_binding){0};
    if (kernels_device_is_host(d)) {
        /* Of no elements: any address. */
        shoal_import from = {SHOAL_IMPORT_HOST, data ? data : d, bytes, operand};
        return d->backend->memory_import(d->device, &from, &out->memory);
    }
    SHOAL_TRY(d->backend->memory_new(d->device, bytes, &out->memory));
    if (!operand || !bytes) return SHOAL_OK;
    shoal_points order = next(d, points);
    shoal_status status = started(d, d->backend->write(d->device, *out, data, &box, &order));
    if (!status) return SHOAL_OK;
    d->backend->memory_free(d->device, out->memory);
    out->memory = NULL;
    return status;
}

shoal_status kernels_device_run(kernels_device *d, shoal_executable *executable,
                                const shoal_binding *buffers, size_t n) {
    shoal_point points[2];
    if (kernels_device_is_host(d)) return d->backend->run(d->device, executable, buffers, n, NULL);
    shoal_points order = next(d, points);
    return started(d, d->backend->run(d->device, executable, buffers, n, &order));
}

shoal_status kernels_device_fetch(kernels_device *d, shoal_binding from, void *data, size_t bytes) {
    const int64_t size = (int64_t)bytes, zero = 0;
    const shoal_box box = all_of(&size, &zero);
    shoal_point points[2];
    if (kernels_device_is_host(d) || !bytes) return SHOAL_OK;
    shoal_points order = next(d, points);
    return started(d, d->backend->read(d->device, data, from, &box, &order));
}
