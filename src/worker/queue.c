/* Devices as lines of work: what is run is done in the order of its points, boxes to and from the
 * host go beside it. Whoever waits here waits for a point, while the device gets on. */
#include "worker/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/fence.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 20, /* how often who waits looks whether the device gets on */
    ENDING = 3,   /* seconds that the end of a worker waits for its devices */
    PATIENCE = 30 /* seconds without progress, after which a device counts as lost */
};

int64_t worker_patience(const char *variable, int64_t otherwise) {
    const char *text = getenv(variable);
    int64_t seconds = text ? atoll(text) : 0;
    return (seconds > 0 && seconds <= 86400 ? seconds : otherwise) * BASE_SECOND;
}

/* A box on its way between a device and the host. */
typedef struct worker_transit {
    struct worker_transit *next, **here;
    worker_buffer *buffer;
    shoal_fence *fence; /* at 1: it is through */
    void *packed;
    worker_moved then; /* of a read */
    void *context;
} worker_transit;

shoal_status worker_queue_open(worker_queue *queue, const worker_device *device) {
    const shoal_backend *backend = device->backend;
    queue->backend = backend;
    queue->patience = worker_patience("SHOAL_DEVICE_PATIENCE", PATIENCE);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_mutex_init(&queue->turn, NULL);
    uint32_t count = backend->device_count(backend_host());
    if (!count) return base_fail_prefix(SHOAL_NOT_FOUND, "backend %s: ", backend->name);
    if (device->index >= count)
        return base_fail(SHOAL_NOT_FOUND,
                         "backend %s has %u device%s, numbered from 0; there is no number %u",
                         backend->name, count, count == 1 ? "" : "s", device->index);
    SHOAL_TRY(backend->device_info(backend_host(), device->index, &queue->info));
    snprintf(queue->name, sizeof queue->name, count > 1 ? "%.40s:%u" : "%.40s", backend->name,
             device->index);
    queue->host = queue->info.flags & SHOAL_DEVICE_HOST_MEMORY;
    if (queue->info.flags & SHOAL_DEVICE_ASYNC) SHOAL_TRY(base_fence_new(&queue->line));
    return backend->device_new(backend_host(), device->index, device->threads, &queue->handle);
}

shoal_point worker_queue_end(const worker_queue *queue) {
    return (shoal_point){queue->line, queue->submitted};
}

static bool is_idle(worker_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    bool idle = !queue->transits;
    pthread_mutex_unlock(&queue->lock);
    return idle && base_fence_settled(worker_queue_end(queue));
}

/* ---- running and waiting ---- */

/* A call that failed at once need not have reached its point. Who asked does something else
 * instead, so nobody is to see a failure there; what came before it may still be under way. */
static void pass_over(worker_queue *queue, shoal_point point, shoal_status failed) {
    char message[512];
    if (!point.fence) return;
    snprintf(message, sizeof message, "%s", shoal_error_message());
    shoal_point before = {point.fence, point.value - 1};
    shoal_status status = worker_queue_wait(queue, before, NULL);
    if (base_fence_reached(before)) status = SHOAL_OK;
    base_fence_signal(point, status, status ? shoal_error_message() : NULL);
    base_fail(failed, "%s", message);
}

/* Takes the points of the device's own line out of those to wait for: they are reached before what
 * is asked for now begins. It does so even where one has failed, on memory that was never written;
 * but then it counts as failed, too. */
static shoal_status derive(worker_queue *queue, shoal_point done, shoal_point *wait,
                           size_t *n_wait) {
    size_t n = *n_wait;
    *n_wait = 0;
    for (size_t i = 0; i < n; i++) {
        if (!wait[i].fence) continue;
        if (wait[i].fence == queue->line)
            SHOAL_TRY(base_fence_derive(done, wait[i].value));
        else
            wait[(*n_wait)++] = wait[i];
    }
    return SHOAL_OK;
}

shoal_status worker_queue_run(worker_queue *queue, shoal_executable *executable,
                              const shoal_binding *bindings, size_t n, shoal_point *wait,
                              size_t n_wait) {
    if (atomic_load_explicit(&queue->lost, memory_order_acquire))
        return base_fail(SHOAL_LOST, "%s", queue->why);
    shoal_point done = {queue->line, queue->line ? ++queue->submitted : 0};
    shoal_status status = derive(queue, done, wait, &n_wait);
    if (status == SHOAL_OK) {
        pthread_mutex_lock(&queue->turn);
        status = queue->backend->run(queue->handle, executable, bindings, n,
                                     &(shoal_points){wait, n_wait, &done, 1});
        pthread_mutex_unlock(&queue->turn);
    }
    worker_queue_note(queue, status);
    if (status != SHOAL_OK) pass_over(queue, done, status);
    return status;
}

shoal_status worker_queue_copy(worker_queue *queue, const worker_buffer *to,
                               const worker_buffer *from, const shoal_box *box) {
    shoal_point done = {queue->line, queue->line ? ++queue->submitted : 0}, wait = from->ready;
    size_t n_wait = 1;
    shoal_status status = derive(queue, done, &wait, &n_wait);
    if (status == SHOAL_OK) {
        pthread_mutex_lock(&queue->turn);
        status = queue->backend->copy(queue->handle, (shoal_binding){to->memory, 0},
                                      (shoal_binding){from->memory, 0}, box,
                                      &(shoal_points){&wait, n_wait, &done, 1});
        pthread_mutex_unlock(&queue->turn);
    }
    worker_queue_ended(queue, status);
    if (status != SHOAL_OK) base_fence_signal(done, status, shoal_error_message());
    return status;
}

shoal_status worker_queue_compile(worker_queue *queue, const shoal_graph *g,
                                  const shoal_compile_options *options,
                                  shoal_compile_report *report, shoal_executable **out) {
    pthread_mutex_lock(&queue->turn);
    shoal_status status = queue->backend->compile(queue->handle, g, options, report, out);
    pthread_mutex_unlock(&queue->turn);
    worker_queue_note(queue, status);
    return status;
}

void worker_queue_executable_free(worker_queue *queue, shoal_executable *executable) {
    if (!executable || atomic_load(&queue->stuck)) return;
    pthread_mutex_lock(&queue->turn);
    queue->backend->executable_free(queue->handle, executable);
    pthread_mutex_unlock(&queue->turn);
}

bool worker_queue_supports(worker_queue *queue, const shoal_graph *g, const shoal_node *node) {
    return queue->backend->supports(queue->handle, g, node);
}

/* The first cause is the one that is told. */
static bool set_lost(worker_queue *queue, const char *message) {
    pthread_mutex_lock(&queue->lock);
    bool first = !atomic_load(&queue->lost);
    if (first) snprintf(queue->why, sizeof queue->why, "%s", message);
    atomic_store(&queue->lost, true);
    pthread_mutex_unlock(&queue->lock);
    return first;
}

void worker_queue_note(worker_queue *queue, shoal_status status) {
    if (status == SHOAL_LOST) set_lost(queue, shoal_error_message());
}

void worker_queue_ended(worker_queue *queue, shoal_status status) {
    worker_queue_note(queue, status == SHOAL_IO ? SHOAL_LOST : status);
}

/* It stands still: all that is waited for fails. The fences stay: should the device get on after
 * all, it reaches them. */
static void lose(worker_queue *queue, const char *message) {
    set_lost(queue, message); /* first: who finds it stuck asks why */
    if (atomic_exchange(&queue->stuck, true)) return;
    if (queue->line) base_fence_retain(queue->line);
    base_fence_signal(worker_queue_end(queue), SHOAL_LOST, message);
    pthread_mutex_lock(&queue->lock);
    while (queue->transits) {
        worker_transit *transit = queue->transits;
        shoal_fence *fence = base_fence_retain(transit->fence);
        queue->transits = transit->next;
        if (transit->next) transit->next->here = &queue->transits;
        transit->here = NULL;
        pthread_mutex_unlock(&queue->lock);
        base_fence_signal((shoal_point){fence, 1}, SHOAL_LOST, message);
        pthread_mutex_lock(&queue->lock);
    }
    pthread_mutex_unlock(&queue->lock);
}

/* waited: somebody waits for it, whatever it seems to be at. */
static void watch(worker_queue *queue, bool waited) {
    if (!queue->backend->progress || atomic_load(&queue->stuck)) return;
    uint64_t progress = queue->backend->progress(queue->handle);
    int64_t now = base_now();
    bool idle = !waited && is_idle(queue);
    pthread_mutex_lock(&queue->lock);
    if (idle || progress != queue->progress || !queue->moved) queue->moved = now;
    queue->progress = progress;
    bool still = now - queue->moved > queue->patience;
    pthread_mutex_unlock(&queue->lock);
    if (!still) return;
    char message[160];
    snprintf(message, sizeof message, "%s has done nothing for %lld s: it is taken for lost",
             queue->info.name, (long long)queue->patience / BASE_SECOND);
    base_log(BASE_ERROR, "worker", "%s", message);
    lose(queue, message);
}

void worker_queue_settle(worker_queue *queue) {
    int64_t until = base_now() + ENDING * BASE_SECOND;
    while (queue->handle && !is_idle(queue) && !atomic_load(&queue->stuck)) {
        watch(queue, false);
        /* The end does not wait for long work that nobody needs any more. */
        if (base_now() > until) lose(queue, "the worker has ended");
        nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
    }
}

void worker_queue_close(worker_queue *queue) {
    if (!queue->backend) return;
    worker_queue_settle(queue);
    worker_kept_fini(queue);
    /* One that does nothing more would not end either: it is left to the end of the process. */
    if (queue->handle && !atomic_load(&queue->stuck)) queue->backend->device_free(queue->handle);
    queue->handle = NULL;
    base_fence_release(&queue->line);
    pthread_mutex_destroy(&queue->turn);
    pthread_mutex_destroy(&queue->lock);
}

void worker_queue_watch(worker_queue *queue) { watch(queue, false); }

shoal_status worker_queue_wait(worker_queue *queue, shoal_point point, const atomic_bool *stop) {
    while (!base_fence_reached(point)) {
        if (stop && atomic_load(stop)) return base_fail(SHOAL_CLOSED, "given up");
        if (base_fence_wait(point, LOOK_MS) != SHOAL_TIMEOUT) break;
        if (atomic_load(&queue->stuck)) return base_fail(SHOAL_LOST, "%s", queue->why);
        watch(queue, true);
    }
    return base_fence_wait(point, 0);
}

/* ---- boxes ---- */

static void unlist(worker_queue *queue, worker_transit *transit) {
    pthread_mutex_lock(&queue->lock);
    if (transit->here) {
        *transit->here = transit->next;
        if (transit->next) transit->next->here = transit->here;
    }
    pthread_mutex_unlock(&queue->lock);
}

static void transit_end(void *context, shoal_status status) {
    worker_transit *transit = context;
    worker_buffer *buffer = transit->buffer;
    worker_queue *queue = buffer->queue;
    worker_queue_ended(queue, status);
    /* What a device that stands still may yet use stays. */
    void *packed = atomic_load(&queue->stuck) ? NULL : transit->packed;
    if (transit->then) {
        transit->then(transit->context, status, packed);
    } else {
        worker_buffer_arrived(buffer, status);
        free(packed);
    }
    worker_buffer_release(buffer);
    unlist(queue, transit); /* at the end: then nothing of it is under way */
    base_fence_release(&transit->fence);
    free(transit);
}

static shoal_status transit_new(worker_buffer *buffer, void *packed, worker_moved then,
                                void *context, worker_transit **out) {
    worker_transit *transit = calloc(1, sizeof *transit);
    *out = transit;
    if (!transit) return base_fail(SHOAL_NO_MEMORY, "no memory to move a box");
    *transit = (worker_transit){.packed = packed, .then = then, .context = context};
    shoal_status status = base_fence_new(&transit->fence);
    /* Before it starts, so that nothing that comes after can fail. */
    if (status == SHOAL_OK)
        status = base_fence_then((shoal_point){transit->fence, 1}, transit_end, transit);
    if (status != SHOAL_OK) {
        base_fence_release(&transit->fence);
        free(transit);
        return status;
    }
    transit->buffer = worker_buffer_retain(buffer);
    worker_queue *queue = buffer->queue;
    pthread_mutex_lock(&queue->lock);
    transit->next = queue->transits;
    transit->here = &queue->transits;
    if (transit->next) transit->next->here = &transit->next;
    queue->transits = transit;
    pthread_mutex_unlock(&queue->lock);
    return SHOAL_OK;
}

/* A call that failed at once need not have reached its point. */
static void settle(shoal_fence *fence, shoal_status status) {
    if (status != SHOAL_OK)
        base_fence_signal((shoal_point){fence, 1}, status, shoal_error_message());
    base_fence_release(&fence);
}

shoal_status worker_box_read(worker_buffer *buffer, const int64_t *dims, const base_box *box,
                             size_t element, worker_moved then, void *context) {
    static const int64_t zeros[SHOAL_MAX_RANK];
    size_t bytes = (size_t)base_box_count(box) * element;
    worker_queue *queue = buffer->queue;
    worker_transit *transit;
    void *packed = malloc(bytes + 1);
    if (!packed) return base_fail(SHOAL_NO_MEMORY, "no memory to read a box");
    shoal_status status = transit_new(buffer, packed, then, context, &transit);
    if (status != SHOAL_OK) {
        free(packed);
        return status;
    }
    shoal_fence *fence = base_fence_retain(transit->fence); /* the transit may end at any moment */
    shoal_point done = {fence, 1};
    shoal_points points = {&buffer->ready, 1, &done, 1};
    shoal_box moved = {box->rank, element, box->size, box->size, zeros, dims, box->start};
    status = atomic_load(&queue->lost)
                 ? base_fail(SHOAL_LOST, "%s", queue->why)
                 : queue->backend->read(queue->handle, packed, (shoal_binding){buffer->memory, 0},
                                        &moved, &points);
    settle(fence, status);
    return SHOAL_OK;
}

shoal_status worker_box_write(worker_buffer *buffer, const int64_t *dims, const base_box *box,
                              size_t element, void *packed) {
    static const int64_t zeros[SHOAL_MAX_RANK];
    worker_queue *queue = buffer->queue;
    worker_transit *transit;
    shoal_status status = transit_new(buffer, packed, NULL, NULL, &transit);
    if (status != SHOAL_OK) {
        worker_buffer_arrived(buffer, status);
        free(packed);
        return status;
    }
    shoal_fence *fence = base_fence_retain(transit->fence);
    shoal_point done = {fence, 1};
    shoal_points points = {NULL, 0, &done, 1};
    shoal_box moved = {box->rank, element, box->size, dims, box->start, box->size, zeros};
    status = atomic_load(&queue->lost)
                 ? base_fail(SHOAL_LOST, "%s", queue->why)
                 : queue->backend->write(queue->handle, (shoal_binding){buffer->memory, 0}, packed,
                                         &moved, &points);
    settle(fence, status);
    return SHOAL_OK;
}
