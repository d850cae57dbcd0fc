/* The lag device: what a GPU does to a program, without one. It computes as `ref` does, but its
 * memory has no address for the host; what is asked of it is done late, boxes to and from the host
 * out of order; it has as much memory as it is told; and its n-th call fails, in a way one chooses.
 * A plug-in: SHOAL_BACKENDS=…/lag.so.
 *
 * SHOAL_LAG, a list with commas:
 *   delay=US          each piece of work is late by up to so much (200)
 *   memory=MIB        how much there is (1024)
 *   devices=N         how many there are (1)
 *   fail=N            which call fails (0: none); those count that can
 *   how=now|late|lost|stuck|refused
 *                     it returns an error; it does so by its points; the device is lost; it does
 *                     nothing any more; only runs count, and one has begun nothing: it cannot be
 *                     built or, the odd ones, has no memory (now)
 *   without=OP+OP     operations that it does not support */
#include "shoal/backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOVERS = 2 };

typedef enum how { HOW_NOW, HOW_LATE, HOW_LOST, HOW_STUCK, HOW_REFUSED } how;

/* ---- what it is told ---- */

static struct {
    pthread_once_t once;
    unsigned delay, devices;
    size_t memory;
    unsigned long fail;
    how how;
    char without[256];
    atomic_ulong calls;
} told = {.once = PTHREAD_ONCE_INIT, .delay = 200, .devices = 1, .memory = (size_t)1 << 30};

static void tell_all(const char *text) {
    char *list = strdup(text ? text : ""), *rest = list;
    for (char *item; list && (item = strtok_r(rest, ",", &rest));) {
        char *value = strchr(item, '=');
        if (!value) continue;
        *value++ = 0;
        if (!strcmp(item, "delay")) told.delay = (unsigned)atoi(value);
        if (!strcmp(item, "devices")) told.devices = (unsigned)atoi(value);
        if (!strcmp(item, "memory")) told.memory = (size_t)atoi(value) << 20;
        if (!strcmp(item, "fail")) told.fail = strtoul(value, NULL, 10);
        if (!strcmp(item, "how"))
            told.how = *value == 'n'     ? HOW_NOW
                       : value[1] == 'a' ? HOW_LATE
                       : *value == 'l'   ? HOW_LOST
                       : *value == 'r'   ? HOW_REFUSED
                                         : HOW_STUCK;
        if (!strcmp(item, "without")) snprintf(told.without, sizeof told.without, "+%s+", value);
    }
    free(list);
}

static void tell(void) { tell_all(getenv("SHOAL_LAG")); }

/* For tests that have it in their process. Tells it something else, and counts calls from 0 again;
 * how many have been made that can fail; what there is of memory, programs and work. */
SHOAL_API void faults_tell(const char *text);
SHOAL_API unsigned long faults_calls(void);
SHOAL_API long faults_alive(void);
static atomic_long alive;
void faults_tell(const char *text) {
    pthread_once(&told.once, tell);
    tell_all(text);
    atomic_store(&told.calls, 0);
}
unsigned long faults_calls(void) { return atomic_load(&told.calls); }
long faults_alive(void) { return atomic_load(&alive); }

/* Whether the call that is made now is the one that fails. */
static bool fails(bool runs) {
    if (told.how == HOW_REFUSED && !runs) return false;
    unsigned long n = atomic_fetch_add(&told.calls, 1) + 1;
    return told.fail && n == told.fail;
}

/* ---- its parts ---- */

struct shoal_memory {
    atomic_int refs; /* of the owner, and of each piece of work on it */
    shoal_device *device;
    shoal_memory *inner;
    size_t bytes;
    bool given_back;
};

struct shoal_executable {
    atomic_int refs;
    shoal_device *device;
    shoal_executable *inner;
};

typedef enum kind { RUN, COPY, READ, WRITE } kind;

typedef struct work {
    struct work *next;
    shoal_device *device;
    kind kind;
    atomic_uint blocked; /* points not reached, and one until it is queued */
    bool ready, late;    /* late: it fails when it is done */
    shoal_status status; /* of what it waited for */
    char message[256];
    shoal_point signal[4];
    size_t n_signal;
    shoal_executable *executable;
    shoal_binding *buffers; /* of a run; else to, from */
    size_t n_buffers;
    void *host;
    shoal_box box;
    int64_t numbers[5][SHOAL_MAX_RANK];
} work;

struct shoal_device {
    const shoal_host *host;
    const shoal_backend *ref;
    shoal_device *inner;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    work *line, **line_end; /* what is run, in order */
    work *moves;            /* what is moved, in any */
    pthread_t threads[1 + MOVERS];
    unsigned n_threads, seed;
    size_t used;
    unsigned freeing; /* memories given back that work still uses */
    bool closing;
    atomic_bool lost, stuck;
    uint64_t progress;
};

/* ---- memory ---- */

static void memory_drop(shoal_memory *memory) {
    shoal_device *device = memory->device;
    if (atomic_fetch_sub(&memory->refs, 1) != 1) return;
    device->ref->memory_free(device->inner, memory->inner);
    pthread_mutex_lock(&device->lock);
    device->used -= memory->bytes;
    device->freeing -= memory->given_back;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    free(memory);
    atomic_fetch_sub(&alive, 1);
}

static shoal_status lose(shoal_device *device) {
    pthread_mutex_lock(&device->lock);
    if (told.how == HOW_LOST) device->lost = true;
    if (told.how == HOW_STUCK) device->stuck = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    shoal_status refusal = told.fail % 2 ? SHOAL_NO_MEMORY : SHOAL_UNSUPPORTED;
    return device->host->fail(told.how == HOW_REFUSED ? refusal
                              : told.how == HOW_NOW   ? SHOAL_IO
                                                      : SHOAL_LOST,
                              "lag: call %lu fails, as it was told", told.fail);
}

/* For calls that are done when they return. */
static shoal_status try_call(shoal_device *device) {
    if (device->lost) return device->host->fail(SHOAL_LOST, "lag: the device is lost");
    if (!fails(false)) return SHOAL_OK;
    return lose(device);
}

static shoal_status memory_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    shoal_status status = try_call(device);
    if (status) return status;
    shoal_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return device->host->fail(SHOAL_NO_MEMORY, "lag: no memory for a block");
    pthread_mutex_lock(&device->lock);
    while (device->freeing && !device->stuck && !device->lost && device->used + bytes > told.memory)
        pthread_cond_wait(&device->changed, &device->lock);
    bool fits = bytes <= told.memory && device->used <= told.memory - bytes;
    if (fits) device->used += bytes;
    size_t used = device->used;
    pthread_mutex_unlock(&device->lock);
    if (!fits) {
        free(memory);
        return device->host->fail(SHOAL_NO_MEMORY, "lag: no memory for %zu bytes: %zu of %zu used",
                                  bytes, used, told.memory);
    }
    status = device->ref->memory_new(device->inner, bytes, &memory->inner);
    if (status) {
        pthread_mutex_lock(&device->lock);
        device->used -= bytes;
        pthread_mutex_unlock(&device->lock);
        free(memory);
        return status;
    }
    memset(device->ref->memory_host(device->inner, memory->inner), 0xfe, bytes);
    atomic_init(&memory->refs, 1);
    memory->device = device;
    memory->bytes = bytes;
    atomic_fetch_add(&alive, 1);
    *out = memory;
    return SHOAL_OK;
}

static shoal_status memory_import(shoal_device *device, const shoal_import *from,
                                  shoal_memory **out) {
    return device->host->fail(SHOAL_UNSUPPORTED, "lag: it has its own memory alone");
}

static void memory_free(shoal_device *device, shoal_memory *memory) {
    if (!memory) return;
    pthread_mutex_lock(&device->lock);
    memory->given_back = true;
    device->freeing++;
    pthread_mutex_unlock(&device->lock);
    memory_drop(memory);
}

static void *memory_host(shoal_device *device, shoal_memory *memory) { return NULL; }

/* ---- work ---- */

static void executable_drop(shoal_executable *executable) {
    if (atomic_fetch_sub(&executable->refs, 1) != 1) return;
    executable->device->ref->executable_free(executable->device->inner, executable->inner);
    free(executable);
    atomic_fetch_sub(&alive, 1);
}

static shoal_binding inner_of(shoal_binding place) {
    return (shoal_binding){place.memory->inner, place.offset};
}

/* What it is, at last. Waiting for points that have failed fails as they did. */
static shoal_status carry_out(work *w) {
    shoal_device *device = w->device;
    const shoal_backend *ref = device->ref;
    if (w->status) return device->host->fail(w->status, "%s", w->message);
    if (device->lost) return device->host->fail(SHOAL_LOST, "lag: the device is lost");
    if (w->late) return lose(device);
    switch (w->kind) {
    case RUN: {
        shoal_binding *inner = calloc(w->n_buffers + 1, sizeof *inner);
        if (!inner) return device->host->fail(SHOAL_NO_MEMORY, "lag: no memory for a run");
        for (size_t i = 0; i < w->n_buffers; i++) inner[i] = inner_of(w->buffers[i]);
        shoal_status status =
            ref->run(device->inner, w->executable->inner, inner, w->n_buffers, NULL);
        free(inner);
        return status;
    }
    case COPY:
        return ref->copy(device->inner, inner_of(w->buffers[0]), inner_of(w->buffers[1]), &w->box,
                         NULL);
    case READ: return ref->read(device->inner, w->host, inner_of(w->buffers[0]), &w->box, NULL);
    default: return ref->write(device->inner, inner_of(w->buffers[0]), w->host, &w->box, NULL);
    }
}

static void end(work *w, shoal_status status, const char *message) {
    shoal_device *device = w->device;
    for (size_t i = 0; i < w->n_signal; i++)
        device->host->fence_signal(w->signal[i], status, message);
    for (size_t i = 0; i < w->n_buffers; i++) memory_drop(w->buffers[i].memory);
    if (w->executable) executable_drop(w->executable);
    free(w->buffers);
    free(w);
    atomic_fetch_sub(&alive, 1);
}

static void nap(shoal_device *device) {
    pthread_mutex_lock(&device->lock);
    unsigned us = told.delay ? (unsigned)rand_r(&device->seed) % told.delay : 0;
    pthread_mutex_unlock(&device->lock);
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static void perform(work *w) {
    nap(w->device);
    shoal_status status = carry_out(w);
    char message[256] = "";
    if (status) snprintf(message, sizeof message, "%s", w->device->host->error_message());
    end(w, status, message);
}

/* The next that is run: the first, once it is ready. Locked. */
static work *next_of_line(shoal_device *device) {
    work *w = device->line;
    if (!w || !w->ready) return NULL;
    device->line = w->next;
    if (!w->next) device->line_end = &device->line;
    return w;
}

/* Any that is ready. Locked. */
static work *next_move(shoal_device *device) {
    work **at[16];
    unsigned n = 0;
    for (work **w = &device->moves; *w && n < 16; w = &(*w)->next)
        if ((*w)->ready) at[n++] = w;
    if (!n) return NULL;
    work **chosen = at[(unsigned)rand_r(&device->seed) % n], *w = *chosen;
    *chosen = w->next;
    return w;
}

typedef work *(*taker)(shoal_device *device);

static void serve(shoal_device *device, taker take) {
    pthread_mutex_lock(&device->lock);
    while (true) {
        work *w = device->stuck ? NULL : take(device);
        if (!w && device->closing) break;
        if (!w) {
            pthread_cond_wait(&device->changed, &device->lock);
            continue;
        }
        pthread_mutex_unlock(&device->lock);
        perform(w);
        pthread_mutex_lock(&device->lock);
    }
    pthread_mutex_unlock(&device->lock);
}

static void *run_line(void *device) {
    serve(device, next_of_line);
    return NULL;
}

static void *move_boxes(void *device) {
    serve(device, next_move);
    return NULL;
}

static void unblock(void *context, shoal_status status) {
    work *w = context;
    shoal_device *device = w->device;
    pthread_mutex_lock(&device->lock);
    if (status && !w->status) {
        w->status = status;
        snprintf(w->message, sizeof w->message, "%s", device->host->error_message());
    }
    if (atomic_fetch_sub(&w->blocked, 1) == 1) {
        w->ready = true;
        pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Queues a piece of work, which has its memories by now. */
static shoal_status queue(work *w, const shoal_points *points) {
    static const shoal_points none = {0};
    shoal_device *device = w->device;
    if (!points) points = &none;
    if (points->n_signal > 4) abort();
    w->n_signal = points->n_signal;
    memcpy(w->signal, points->signal, w->n_signal * sizeof *w->signal);
    for (size_t i = 0; i < w->n_buffers; i++) atomic_fetch_add(&w->buffers[i].memory->refs, 1);
    if (w->executable) atomic_fetch_add(&w->executable->refs, 1);
    bool fail = fails(w->kind == RUN);
    if (fail && (told.how == HOW_NOW || told.how == HOW_REFUSED)) {
        shoal_status status = lose(device);
        char message[256];
        snprintf(message, sizeof message, "%s", device->host->error_message());
        w->n_signal = 0;
        end(w, status, message);
        return device->host->fail(status, "%s", message);
    }
    w->late = fail;
    atomic_init(&w->blocked, (unsigned)points->n_wait + 1);
    pthread_mutex_lock(&device->lock);
    if (w->kind == RUN || w->kind == COPY) {
        *device->line_end = w;
        device->line_end = &w->next;
    } else {
        w->next = device->moves;
        device->moves = w;
    }
    pthread_mutex_unlock(&device->lock);
    for (size_t i = 0; i < points->n_wait; i++)
        if (device->host->fence_then(points->wait[i], unblock, w)) abort();
    unblock(w, SHOAL_OK);
    return SHOAL_OK;
}

static work *work_new(shoal_device *device, kind what, size_t n_buffers,
                      const shoal_binding *buffers) {
    work *w = calloc(1, sizeof *w);
    shoal_binding *own = calloc(n_buffers + 1, sizeof *own);
    if (!w || !own) abort();
    memcpy(own, buffers, n_buffers * sizeof *own);
    w->device = device;
    w->kind = what;
    w->buffers = own;
    w->n_buffers = n_buffers;
    atomic_fetch_add(&alive, 1);
    return w;
}

static void keep_box(work *w, const shoal_box *box) {
    const int64_t **to[] = {&w->box.size, &w->box.to_dims, &w->box.to_start, &w->box.from_dims,
                            &w->box.from_start};
    const int64_t *from[] = {box->size, box->to_dims, box->to_start, box->from_dims,
                             box->from_start};
    w->box = *box;
    for (int i = 0; i < 5; i++) {
        memcpy(w->numbers[i], from[i], box->rank * sizeof *from[i]);
        *to[i] = w->numbers[i];
    }
}

static shoal_status read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                         const shoal_points *points) {
    work *w = work_new(device, READ, 1, &from);
    keep_box(w, box);
    w->host = to;
    return queue(w, points);
}

static shoal_status write(shoal_device *device, shoal_binding to, const void *from,
                          const shoal_box *box, const shoal_points *points) {
    work *w = work_new(device, WRITE, 1, &to);
    keep_box(w, box);
    w->host = (void *)from;
    return queue(w, points);
}

static shoal_status copy(shoal_device *device, shoal_binding to, shoal_binding from,
                         const shoal_box *box, const shoal_points *points) {
    work *w = work_new(device, COPY, 2, (shoal_binding[]){to, from});
    keep_box(w, box);
    return queue(w, points);
}

static shoal_status run(shoal_device *device, shoal_executable *executable,
                        const shoal_binding *buffers, size_t n_buffers,
                        const shoal_points *points) {
    work *w = work_new(device, RUN, n_buffers, buffers);
    w->executable = executable;
    return queue(w, points);
}

/* ---- programs ---- */

static bool supports(shoal_device *device, const shoal_graph *graph, const shoal_node *node) {
    char name[80];
    snprintf(name, sizeof name, "+%s+", device->host->op_name(node->op));
    return !strstr(told.without, name) && device->ref->supports(device->inner, graph, node);
}

static bool is_input(const shoal_graph *graph, uint32_t value) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->inputs[i] == value) return true;
    return false;
}

static bool is_taken(const int32_t *in_place, uint32_t n, uint32_t input) {
    for (uint32_t o = 0; o < n; o++)
        if (in_place[o] == (int32_t)input) return true;
    return false;
}

/* `ref` writes its results when it has read all operands for the last time. An operand that is a
 * result, too, is read then. */
static void report_in_place(const shoal_graph *graph, const bool *frozen, int32_t *in_place) {
    for (uint32_t o = 0; o < graph->n_outputs; o++)
        if (is_input(graph, graph->outputs[o])) return;
    for (uint32_t o = 0; o < graph->n_outputs; o++) {
        const shoal_type *out = &graph->values[graph->outputs[o]].type;
        for (uint32_t i = 0; i < graph->n_inputs && in_place[o] < 0; i++) {
            const shoal_type *in = &graph->values[graph->inputs[i]].type;
            bool same = in->dtype == out->dtype && in->rank == out->rank &&
                        !memcmp(in->dims, out->dims, in->rank * sizeof *in->dims);
            if (same && !(frozen && frozen[i]) && !is_taken(in_place, o, i))
                in_place[o] = (int32_t)i;
        }
    }
}

static shoal_status compile(shoal_device *device, const shoal_graph *graph,
                            const shoal_compile_options *options, shoal_compile_report *report,
                            shoal_executable **out) {
    shoal_status status = try_call(device);
    if (status) return status;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (!supports(device, graph, &graph->nodes[i]))
            return device->host->fail(SHOAL_UNSUPPORTED, "lag: cannot run operation '%s'",
                                      device->host->op_name(graph->nodes[i].op));
    shoal_executable *executable = calloc(1, sizeof *executable);
    if (!executable) return device->host->fail(SHOAL_NO_MEMORY, "lag: no memory for a program");
    atomic_init(&executable->refs, 1);
    executable->device = device;
    status = device->ref->compile(device->inner, graph, options, report, &executable->inner);
    if (status) {
        free(executable);
        return status;
    }
    *out = executable;
    atomic_fetch_add(&alive, 1);
    if (report->in_place)
        report_in_place(graph, options ? options->frozen : NULL, report->in_place);
    return SHOAL_OK;
}

static void executable_free(shoal_device *device, shoal_executable *executable) {
    if (executable) executable_drop(executable);
}

/* ---- devices ---- */

static uint32_t device_count(const shoal_host *host) {
    pthread_once(&told.once, tell);
    return told.devices;
}

static shoal_status device_info(const shoal_host *host, uint32_t index, shoal_device_info *out) {
    memset(out, 0, sizeof *out);
    pthread_once(&told.once, tell);
    snprintf(out->name, sizeof out->name, "lag device %u", index);
    out->memory = told.memory;
    out->threads = 1;
    out->flags = SHOAL_DEVICE_ASYNC;
    out->alignment = 64;
    return SHOAL_OK;
}

static void device_free(shoal_device *device) {
    if (!device) return;
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    for (unsigned i = 0; i < device->n_threads; i++) pthread_join(device->threads[i], NULL);
    device->ref->device_free(device->inner);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    pthread_once(&told.once, tell);
    if (index >= told.devices)
        return host->fail(SHOAL_NOT_FOUND, "lag: there are %u devices, no number %u", told.devices,
                          index);
    if (fails(false)) return host->fail(SHOAL_IO, "lag: call %lu fails, as it was told", told.fail);
    shoal_device *device = calloc(1, sizeof *device);
    if (!device) return host->fail(SHOAL_NO_MEMORY, "lag: no memory for a device");
    device->host = host;
    device->seed = 1 + index;
    device->line_end = &device->line;
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->changed, NULL);
    shoal_status status = host->backend_find("ref", &device->ref);
    if (!status) status = device->ref->device_new(host, 0, 1, &device->inner);
    for (unsigned i = 0; !status && i < 1 + MOVERS; i++) {
        if (pthread_create(&device->threads[i], NULL, i ? move_boxes : run_line, device))
            status = host->fail(SHOAL_NO_MEMORY, "lag: no thread");
        else
            device->n_threads++;
    }
    if (status && device->inner)
        device_free(device);
    else
        *out = device;
    return status;
}

/* It gets on, however long a single piece of work takes it, unless it was told to be stuck. */
static uint64_t progress(shoal_device *device) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&device->lock);
    if (!device->stuck) device->progress = (uint64_t)now.tv_sec;
    uint64_t seen = device->progress;
    pthread_mutex_unlock(&device->lock);
    return seen;
}

SHOAL_API extern const shoal_backend shoal_plugin;
const shoal_backend shoal_plugin = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_backend),
    .name = "lag",
    .summary = "ref, far away: for tests",
    .device_count = device_count,
    .device_info = device_info,
    .device_new = device_new,
    .device_free = device_free,
    .memory_new = memory_new,
    .memory_import = memory_import,
    .memory_free = memory_free,
    .memory_host = memory_host,
    .read = read,
    .write = write,
    .copy = copy,
    .supports = supports,
    .compile = compile,
    .executable_free = executable_free,
    .run = run,
    .progress = progress,
};
