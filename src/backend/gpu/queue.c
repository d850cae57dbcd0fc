/* Work on its way: it waits on the host until its points are reached, goes to a queue of the
 * driver, and ends in a callback of the driver, which reaches the points that it signals.
 *
 * What can start at once does so in the calling thread; the device's own thread starts the rest, so
 * that a thread that reaches a point is not kept. The line keeps its order by that only its first
 * piece starts, and that the driver's queues are in order. */
#include "backend/gpu/gpu.h"

#include "backend/common.h"
#include "base/clock.h"
#include "base/fence.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { RUN, COPY, UPLOAD, READ, WRITE } kind; /* UPLOAD: a write in the line */

struct gpu_work {
    gpu_work *next;
    shoal_device *device;
    kind kind;
    atomic_uint blocked; /* points that are not reached, and one until it is queued */
    bool ready;
    bool waits;          /* it is started by who may wait for the driver */
    shoal_status status; /* of what it waited for */
    char message[256];
    shoal_point *signal;
    size_t n_signal;
    gpu_program *program;
    shoal_memory *workspace;
    shoal_binding *buffers; /* of a run; else to, from */
    size_t n_buffers;
    void *host, *owned; /* owned: what is freed with it */
    shoal_box box;
    int64_t numbers[5][SHOAL_MAX_RANK];
};

/* ---- the end ---- */

static void work_free(gpu_work *w) {
    for (size_t i = 0; i < w->n_buffers; i++) gpu_memory_release(w->buffers[i].memory);
    gpu_memory_release(w->workspace);
    if (w->program) gpu_program_release(w->program);
    free(w->owned);
    free(w->signal);
    free(w->buffers);
    free(w);
}

static void one_less(shoal_device *device) {
    pthread_mutex_lock(&device->lock);
    device->under_way--;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

/* Memory is given back before points are reached: who waits for them may ask for it. */
static void end(gpu_work *w, shoal_status status, const char *message) {
    shoal_device *device = w->device;
    shoal_point *signal = w->signal;
    size_t n = w->n_signal;
    char text[256];
    snprintf(text, sizeof text, "%s", message ? message : "");
    w->signal = NULL;
    work_free(w);
    for (size_t i = 0; i < n; i++) base_fence_signal(signal[i], status, text);
    free(signal);
    atomic_fetch_add(&device->progress, 1);
    one_less(device);
}

static void lose(shoal_device *device, const char *message) {
    pthread_mutex_lock(&device->lock);
    if (!device->lost) snprintf(device->why, sizeof device->why, "%s", message);
    device->lost = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

shoal_status gpu_fail_lost(shoal_device *device) {
    char why[sizeof device->why];
    pthread_mutex_lock(&device->lock);
    memcpy(why, device->why, sizeof why);
    pthread_mutex_unlock(&device->lock);
    return base_fail(SHOAL_LOST, "%s", why);
}

/* The driver's answer. What fails behind our back leaves the device in a state that nobody knows.
 */
static void answered(void *context, shoal_status status) {
    gpu_work *w = context;
    char message[256];
    snprintf(message, sizeof message, "%s", status ? shoal_error_message() : "");
    if (status) lose(w->device, message);
    end(w, status, message);
}

static void counted(void *context, shoal_status status) {
    shoal_device *device = context;
    atomic_fetch_add(&device->progress, 1);
    one_less(device);
}

/* A driver that cannot even say this says less of how it gets on. */
void gpu_count(shoal_device *device) {
    pthread_mutex_lock(&device->lock);
    device->under_way++;
    pthread_mutex_unlock(&device->lock);
    if (device->driver->ask(device, GPU_LINE, counted, device)) one_less(device);
}

/* Drivers make the memory of what is enqueued when they like. */
bool gpu_again(shoal_device *device, gpu_queue queue, shoal_status status, bool *again) {
    if (!*again || status != SHOAL_NO_MEMORY) return false;
    *again = false;
    device->driver->finish(device, queue);
    backend_cache_clear(&device->cache);
    return true;
}

/* ---- boxes ---- */

/* Boxes as drivers have them: bytes along the last of three axes. */
typedef struct rectangle {
    uint32_t rank;
    int64_t size[SHOAL_MAX_RANK + 1];
    int64_t dims[2][SHOAL_MAX_RANK + 1], start[2][SHOAL_MAX_RANK + 1]; /* to, from */
} rectangle;

static rectangle rectangle_of(const shoal_box *box) {
    rectangle r = {.rank = 1};
    int64_t bytes = (int64_t)box->element_bytes;
    r.size[0] = r.dims[0][0] = r.dims[1][0] = bytes;
    /* From the last axis on; one that is whole to both joins the next. */
    for (uint32_t i = box->rank; i-- > 0;) {
        uint32_t at = r.rank - 1;
        bool whole = r.size[at] == r.dims[0][at] && r.size[at] == r.dims[1][at];
        if (!whole) {
            r.rank++;
            at++;
        }
        int64_t below = whole ? r.size[at] : 1;
        r.size[at] = box->size[i] * below;
        r.dims[0][at] = box->to_dims[i] * below;
        r.dims[1][at] = box->from_dims[i] * below;
        r.start[0][at] = box->to_start[i] * below;
        r.start[1][at] = box->from_start[i] * below;
    }
    return r;
}

/* The place of a box's first byte, and how far its rows and slices are apart. */
static size_t place_of(const rectangle *r, int side, const int64_t *outer, size_t *pitch) {
    int64_t at = 0, step = 1;
    for (uint32_t i = 0; i < r->rank; i++) {
        at += (r->start[side][i] + (i > 2 ? outer[i] : 0)) * step;
        step *= r->dims[side][i];
        if (i < 2) pitch[i] = (size_t)step;
    }
    if (r->rank < 2) pitch[0] = (size_t)r->size[0];
    if (r->rank < 3) pitch[1] = pitch[0] * (size_t)(r->rank < 2 ? 1 : r->dims[side][1]);
    return (size_t)at;
}

static bool is_of_line(const gpu_work *w) { return w->kind < READ; }

static gpu_queue queue_of(const gpu_work *w) { return is_of_line(w) ? GPU_LINE : GPU_MOVES; }

static gpu_direction direction_of(const gpu_work *w) {
    return w->kind == READ ? GPU_READ : w->kind == COPY ? GPU_COPY : GPU_WRITE;
}

/* One enqueued box of three axes. */
static shoal_status enqueue_part(gpu_work *w, const rectangle *r, const int64_t *outer) {
    gpu_rectangle part;
    size_t to[2], from[2];
    bool to_host = w->kind == READ, from_host = w->kind == WRITE || w->kind == UPLOAD;
    const shoal_binding *source = &w->buffers[w->kind == COPY];
    for (uint32_t i = 0; i < 3; i++) part.size[i] = i < r->rank ? (size_t)r->size[i] : 1;
    part.to.at = place_of(r, 0, outer, to) + (to_host ? 0 : w->buffers[0].offset);
    part.from.at = place_of(r, 1, outer, from) + (from_host ? 0 : source->offset);
    part.to.mem = to_host ? w->host : w->buffers[0].memory->mem;
    part.from.mem = from_host ? w->host : source->memory->mem;
    part.to.row = to[0];
    part.to.slice = to[1];
    part.from.row = from[0];
    part.from.slice = from[1];
    return w->device->driver->move(w->device, queue_of(w), direction_of(w), &part);
}

static shoal_status enqueue_box(gpu_work *w) {
    const rectangle r = rectangle_of(&w->box);
    int64_t outer[SHOAL_MAX_RANK + 1] = {0};
    for (uint32_t i = 0; i < r.rank; i++)
        if (!r.size[i]) return SHOAL_OK;
    while (true) {
        bool again = w->waits;
        shoal_status status;
        do status = enqueue_part(w, &r, outer);
        while (gpu_again(w->device, queue_of(w), status, &again));
        if (status) return status;
        uint32_t i = 3;
        while (i < r.rank && ++outer[i] == r.size[i]) outer[i++] = 0;
        if (i >= r.rank) return SHOAL_OK;
    }
}

/* ---- starting ---- */

static shoal_status enqueue(gpu_work *w) {
    shoal_device *device = w->device;
    if (device->lost) return gpu_fail_lost(device);
    return w->kind == RUN ? gpu_enqueue(w->program, w->buffers, w->workspace) : enqueue_box(w);
}

/* Asks the driver to answer when all that was enqueued is done. */
static shoal_status ask(gpu_work *w) {
    shoal_device *device = w->device;
    gpu_queue queue = queue_of(w); /* the answer takes w */
    shoal_status status;
    bool again = w->waits;
    do status = device->driver->ask(device, queue, answered, w);
    while (gpu_again(device, queue, status, &again));
    return status;
}

/* Gives a piece of work to the driver; what has waited for something that failed ends here. When it
 * fails, nothing of it is under way any more if it waits. Of the line, `launching` is held. */
static shoal_status start(gpu_work *w) {
    shoal_device *device = w->device;
    gpu_queue queue = queue_of(w);
    if (w->status) {
        char message[sizeof w->message];
        snprintf(message, sizeof message, "%s", w->message);
        end(w, w->status, message);
        return SHOAL_OK;
    }
    shoal_status status = enqueue(w);
    if (!status) status = ask(w);
    /* A driver that cannot even do this will not answer either: `progress` shows that. */
    if (!status) device->driver->flush(device, queue);
    if (status && w->waits) device->driver->finish(device, queue);
    return status;
}

/* Work that was accepted and cannot be done: what it would have made others count on already. */
static void start_or_lose(gpu_work *w) {
    shoal_device *device = w->device;
    char message[256];
    if (!start(w)) return;
    snprintf(message, sizeof message, "%s", shoal_error_message());
    lose(device, message);
    end(w, SHOAL_LOST, message);
}

/* Takes the next piece that can start: the first of the line, or any box. Locked. */
static gpu_work *next_ready(shoal_device *device) {
    for (gpu_work **at = &device->waiting; *at; at = &(*at)->next) {
        gpu_work *w = *at;
        if (!w->ready) continue;
        *at = w->next;
        return w;
    }
    gpu_work *w = device->queued;
    return w && w->ready ? w : NULL;
}

/* The first of the line is started before it leaves it, so that no other overtakes it. */
static void start_first(shoal_device *device, gpu_work *w) {
    pthread_mutex_lock(&device->launching);
    pthread_mutex_lock(&device->lock);
    device->queued = w->next;
    if (!w->next) device->queued_end = &device->queued;
    pthread_mutex_unlock(&device->lock);
    start_or_lose(w);
    pthread_mutex_unlock(&device->launching);
}

void *gpu_serve(void *context) {
    shoal_device *device = context;
    char name[16];
    snprintf(name, sizeof name, "shoal-%s", device->driver->name);
    base_os_thread_name(name);
    pthread_mutex_lock(&device->lock);
    while (true) {
        gpu_work *w = next_ready(device);
        if (!w && device->closing && !device->queued && !device->waiting) break;
        if (!w) {
            pthread_cond_wait(&device->changed, &device->lock);
            continue;
        }
        pthread_mutex_unlock(&device->lock);
        if (is_of_line(w))
            start_first(device, w);
        else
            start_or_lose(w);
        pthread_mutex_lock(&device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

bool gpu_wait(shoal_device *device, int64_t *since, uint64_t *seen) {
    uint64_t progress = atomic_load(&device->progress);
    if (!*since || progress != *seen) *since = base_now();
    *seen = progress;
    struct timespec until = base_timespec(*since + GPU_PATIENCE * BASE_SECOND);
    return pthread_cond_timedwait(&device->changed, &device->lock, &until) == 0;
}

bool gpu_settle(shoal_device *device) {
    int64_t since = 0;
    uint64_t seen = 0;
    bool waits = true;
    pthread_mutex_lock(&device->lock);
    while (device->under_way && waits) waits = gpu_wait(device, &since, &seen);
    bool settled = !device->under_way;
    pthread_mutex_unlock(&device->lock);
    return settled;
}

/* ---- queueing ---- */

static void unblock(void *context, shoal_status status) {
    gpu_work *w = context;
    shoal_device *device = w->device;
    pthread_mutex_lock(&device->lock);
    if (status && !w->status) {
        w->status = status;
        snprintf(w->message, sizeof w->message, "%s", shoal_error_message());
    }
    if (atomic_fetch_sub(&w->blocked, 1) == 1) {
        w->ready = true;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Of the line. A run that cannot start is for the caller to do elsewhere. It may have begun, which
 * NO_MEMORY would deny. */
static shoal_status start_or_refuse(gpu_work *w) {
    shoal_device *device = w->device;
    w->waits = true;
    if (w->kind != RUN) {
        start_or_lose(w);
        return SHOAL_OK;
    }
    shoal_status status = start(w);
    if (!status) return SHOAL_OK;
    work_free(w);
    one_less(device);
    return status == SHOAL_NO_MEMORY ? base_fail_prefix(SHOAL_IO, "no memory to run it: ") : status;
}

/* Starts what need not wait, in this thread. */
static bool start_now(gpu_work *w, const shoal_points *points, shoal_status *status) {
    shoal_device *device = w->device;
    for (size_t i = 0; i < points->n_wait; i++)
        if (!base_fence_reached(points->wait[i])) return false;
    for (size_t i = 0; i < points->n_wait && !w->status; i++) {
        w->status = base_fence_wait(points->wait[i], 0);
        if (w->status) snprintf(w->message, sizeof w->message, "%s", shoal_error_message());
    }
    /* Who moves a box may hold what an answer of the driver waits for: so it waits for none. What
     * fails then is tried again by the device's thread. */
    if (!is_of_line(w)) return !start(w);
    if (pthread_mutex_trylock(&device->launching)) return false;
    pthread_mutex_lock(&device->lock);
    bool is_first = !device->queued;
    pthread_mutex_unlock(&device->lock);
    if (is_first) *status = start_or_refuse(w);
    pthread_mutex_unlock(&device->launching);
    return is_first;
}

static void queue_work(gpu_work *w, const shoal_points *points) {
    shoal_device *device = w->device;
    atomic_init(&w->blocked, (unsigned)points->n_wait + 1);
    w->waits = true;
    pthread_mutex_lock(&device->lock);
    if (is_of_line(w)) {
        *device->queued_end = w;
        device->queued_end = &w->next;
    } else {
        w->next = device->waiting;
        device->waiting = w;
    }
    pthread_mutex_unlock(&device->lock);
    for (size_t i = 0; i < points->n_wait; i++) {
        shoal_status status = base_fence_then(points->wait[i], unblock, w);
        if (status) unblock(w, status);
    }
    unblock(w, SHOAL_OK);
}

/* A piece of work over buffers, which it holds. */
static shoal_status work_new(shoal_device *device, kind what, size_t n_buffers,
                             const shoal_binding *buffers, const shoal_points *points,
                             gpu_work **out) {
    size_t n_signal = points ? points->n_signal : 0;
    gpu_work *w = *out = calloc(1, sizeof *w);
    if (w) {
        w->buffers = calloc(n_buffers + 1, sizeof *w->buffers);
        w->signal = calloc(n_signal + 1, sizeof *w->signal);
    }
    if (!w || !w->buffers || !w->signal) {
        if (w) {
            free(w->buffers);
            free(w->signal);
        }
        free(w);
        return gpu_fail_memory(device, "a piece of work");
    }
    w->device = device;
    w->kind = what;
    w->n_buffers = n_buffers;
    w->n_signal = n_signal;
    memcpy(w->buffers, buffers, n_buffers * sizeof *buffers);
    if (n_signal) memcpy(w->signal, points->signal, n_signal * sizeof *w->signal);
    for (size_t i = 0; i < n_buffers; i++) gpu_memory_retain(buffers[i].memory);
    return SHOAL_OK;
}

static shoal_status submit(gpu_work *w, const shoal_points *points) {
    static const shoal_points none = {0};
    shoal_status status = SHOAL_OK;
    if (!points) points = &none;
    pthread_mutex_lock(&w->device->lock);
    w->device->under_way++;
    pthread_mutex_unlock(&w->device->lock);
    if (!start_now(w, points, &status)) queue_work(w, points);
    return status;
}

static void keep_box(gpu_work *w, const shoal_box *box) {
    const int64_t **to[] = {&w->box.size, &w->box.to_dims, &w->box.to_start, &w->box.from_dims,
                            &w->box.from_start};
    const int64_t *from[] = {box->size, box->to_dims, box->to_start, box->from_dims,
                             box->from_start};
    w->box = *box;
    for (int i = 0; i < 5; i++) {
        if (box->rank) memcpy(w->numbers[i], from[i], box->rank * sizeof *from[i]);
        *to[i] = w->numbers[i];
    }
}

static backend_span span_of(shoal_binding place) {
    return (backend_span){NULL, place.memory->bytes, place.offset};
}

static shoal_status move(shoal_device *device, kind what, const shoal_binding *buffers,
                         backend_span to, backend_span from, void *host, const shoal_box *box,
                         const shoal_points *points) {
    gpu_work *w;
    SHOAL_TRY(backend_check_box(to, from, box));
    SHOAL_TRY(work_new(device, what, what == COPY ? 2 : 1, buffers, points, &w));
    keep_box(w, box);
    w->host = host;
    return submit(w, points);
}

shoal_status gpu_read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                      const shoal_points *points) {
    return move(device, READ, &from, backend_host_span(to), span_of(from), to, box, points);
}

shoal_status gpu_write(shoal_device *device, shoal_binding to, const void *from,
                       const shoal_box *box, const shoal_points *points) {
    return move(device, WRITE, &to, span_of(to), backend_host_span(from), (void *)from, box,
                points);
}

shoal_status gpu_copy(shoal_device *device, shoal_binding to, shoal_binding from,
                      const shoal_box *box, const shoal_points *points) {
    const shoal_binding both[] = {to, from};
    return move(device, COPY, both, span_of(to), span_of(from), NULL, box, points);
}

shoal_status gpu_upload(shoal_device *device, shoal_memory *to, void *from, size_t bytes) {
    const shoal_binding place = {to, 0};
    const int64_t size = (int64_t)bytes, zero = 0;
    const shoal_box all = {1, 1, &size, &size, &zero, &size, &zero};
    gpu_work *w;
    shoal_status status = work_new(device, UPLOAD, 1, &place, NULL, &w);
    if (status) {
        free(from);
        return status;
    }
    keep_box(w, &all);
    w->host = w->owned = from;
    return submit(w, NULL);
}

/* The memory that all runs use one after the other, as large as the largest needs. */
static shoal_status hold_workspace(shoal_device *device, size_t bytes, shoal_memory **out) {
    *out = NULL;
    if (!bytes) return SHOAL_OK;
    if (!device->workspace || device->workspace->bytes < bytes) {
        shoal_memory *fresh;
        SHOAL_TRY(gpu_memory_new(device, bytes, &fresh));
        if (device->workspace) gpu_memory_free(device, device->workspace);
        device->workspace = fresh;
    }
    *out = gpu_memory_retain(device->workspace);
    return SHOAL_OK;
}

static shoal_status check_buffers(const gpu_program *p, const shoal_binding *buffers,
                                  size_t n_buffers) {
    const shoal_graph *g = p->g;
    if (n_buffers != (size_t)g->n_inputs + g->n_outputs)
        return base_fail(SHOAL_INVALID, "%s: %zu buffers for %u inputs and %u outputs",
                         p->device->driver->name, n_buffers, g->n_inputs, g->n_outputs);
    for (size_t i = 0; i < n_buffers; i++) {
        bool in = i < g->n_inputs;
        const shoal_type *type = &g->values[in ? g->inputs[i] : g->outputs[i - g->n_inputs]].type;
        void *at;
        SHOAL_TRY(backend_bind(span_of(buffers[i]), (size_t)base_type_bytes(type),
                               shoal_dtype_size((shoal_dtype)type->dtype), in ? "input" : "output",
                               in ? i : i - g->n_inputs, &at));
    }
    return SHOAL_OK;
}

shoal_status gpu_run(shoal_device *device, shoal_executable *executable,
                     const shoal_binding *buffers, size_t n_buffers, const shoal_points *points) {
    gpu_program *p = &executable->program;
    gpu_work *w;
    SHOAL_TRY(check_buffers(p, buffers, n_buffers));
    if (!p->built) SHOAL_TRY(gpu_build(p));
    SHOAL_TRY(work_new(device, RUN, n_buffers, buffers, points, &w));
    shoal_status status = hold_workspace(device, p->workspace, &w->workspace);
    if (status) {
        work_free(w);
        return status;
    }
    atomic_fetch_add(&p->refs, 1);
    w->program = p;
    return submit(w, points);
}
