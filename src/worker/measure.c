/* How fast a device is: each figure is measured when the hub first asks for it, by the work that
 * pools are for, since that takes some tens of milliseconds. The best that was ever seen is kept in
 * the user's cache folder, so that a process knows it from its start, and one that was measured
 * while the machine was busy is not slow for ever. */
#include "worker/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/os_cpu.h"
#include "base/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const double BETTER = 1.05; /* what is kept is written anew for as much */
static const double ENOUGH = 0.05; /* seconds after which nothing is repeated */

enum {
    SMALL = 256,
    LARGE = 1024,
    ELEMENTS = 4 << 20,
    REPEATS = 3,
    MOST_RUNS = 16,
    TINY = 16,
    MOST_NAME = 512,
    MOST_LINE = 768
};

/* ---- kept ---- */

/* "speeds" in the user's cache folder; false when there is none. */
static bool path_of(char *out, size_t room, bool make) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (cache && *cache)
        n = snprintf(out, room, "%s", cache);
    else if (home && *home)
        n = snprintf(out, room, "%s/.cache", home);
    else
        return false;
    if (n < 0 || (size_t)n + 16 > room) return false;
    if (make && mkdir(out, 0700) && errno != EEXIST) return false;
    strcat(out, "/shoal");
    if (make && mkdir(out, 0700) && errno != EEXIST) return false;
    strcat(out, "/speeds");
    return true;
}

/* What tells one device from another, as the beginning of a line. */
static void name_of(const worker_slot *slot, char out[MOST_NAME]) {
    snprintf(out, MOST_NAME, "%s\t%s\t%s\t%u\t", SHOAL_PACKAGE_VERSION, slot->device.backend->name,
             slot->own.info.name,
             slot->device.threads ? slot->device.threads : slot->own.info.threads);
}

/* Lines of a device: the name of a figure, and its value. */
base_speeds worker_speeds_kept(const worker_slot *slot) {
    base_speeds out = {{0}};
    char path[1024], name[MOST_NAME], line[MOST_LINE];
    name_of(slot, name);
    FILE *file = path_of(path, sizeof path, false) ? fopen(path, "re") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        char *figure = line + strlen(name), *value;
        if (strncmp(line, name, strlen(name)) || !(value = strchr(figure, '\t'))) continue;
        *value++ = 0;
        double number = strtod(value, NULL);
        for (uint32_t f = 0; f < BASE_FIGURES && number > 0 && number < 1e24; f++)
            if (!strcmp(figure, base_figure_name(f))) out.of[f] = number; /* the last one counts */
    }
    if (file) fclose(file);
    return out;
}

static void keep(const worker_slot *slot, base_figure figure, double value) {
    char path[1024], name[MOST_NAME];
    name_of(slot, name);
    FILE *file = path_of(path, sizeof path, true) ? fopen(path, "ae") : NULL;
    /* One write of one line: processes may append at once. */
    if (file) fprintf(file, "%s%s\t%.6g\n", name, base_figure_name(figure), value);
    if (file) fclose(file);
}

size_t worker_figures(const base_speeds *speeds, Shoal__Figure room[BASE_FIGURES],
                      Shoal__Figure *out[BASE_FIGURES]) {
    size_t n = 0;
    for (uint32_t f = 0; f < BASE_FIGURES; f++) {
        if (!(speeds->of[f] > 0)) continue;
        shoal__figure__init(&room[n]);
        room[n].what = f;
        room[n].value = speeds->of[f];
        out[n] = &room[n];
        n++;
    }
    return n;
}

/* ---- measured ---- */

/* The graph to time: a product of two squares, or the sum of two vectors. */
typedef struct job {
    shoal_dtype dtype;
    int64_t side;   /* of the squares, */
    int64_t length; /* or of the vectors */
} job;

static size_t bytes_of(const job *j) {
    return (size_t)(j->side ? j->side * j->side : j->length) * shoal_dtype_size(j->dtype);
}

static shoal_status build(graph *g, const job *j) {
    shoal_type type = {.dtype = (uint16_t)j->dtype, .rank = 2, .dims = {j->side, j->side}};
    uint32_t in[2], out;
    const int64_t first = 0, second = 1;
    if (!j->side) type = (shoal_type){.dtype = (uint16_t)j->dtype, .rank = 1, .dims = {j->length}};
    SHOAL_TRY(graph_add_input(g, &type, &in[0]));
    SHOAL_TRY(graph_add_input(g, &type, &in[1]));
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &second, 1),
                          graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &first, 1)};
    SHOAL_TRY(graph_add(g, j->side ? GRAPH_DOT_GENERAL : GRAPH_ADD, in, 2, attrs, j->side ? 4 : 0,
                        NULL, 0, &out));
    return graph_add_output(g, out);
}

static shoal_status run_once(worker_slot *slot, shoal_executable *executable,
                             const shoal_binding *buffers, double *seconds) {
    int64_t from = base_now();
    shoal_status status = worker_queue_run(&slot->own, executable, buffers, 3, NULL, 0);
    if (status == SHOAL_OK)
        status =
            worker_queue_wait(&slot->own, worker_queue_end(&slot->own), &slot->worker->stopping);
    *seconds = (double)(base_now() - from) * 1e-9;
    return status;
}

typedef struct pages {
    size_t bytes;
    void *data;
} pages;

static void give_back(void *context) {
    pages *own = context;
    base_pages_free(own->data, own->bytes);
    free(own);
}

/* Memory that is the system's again when it is released: a device would keep its own for reuse, and
 * nobody needs so much of it soon. */
static shoal_status borrow(worker_queue *queue, size_t bytes, worker_buffer **out) {
    pages *own = malloc(sizeof *own);
    if (!own) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    own->bytes = (bytes + BASE_PAGES_UNIT - 1) / BASE_PAGES_UNIT * BASE_PAGES_UNIT;
    own->data = base_pages_new(own->bytes);
    if (!own->data) {
        free(own);
        return SHOAL_NO_MEMORY;
    }
    SHOAL_TRY(worker_buffer_wrap(own->data, bytes, give_back, own, out));
    const shoal_import from = {SHOAL_IMPORT_HOST, own->data, bytes, false};
    shoal_status status = queue->backend->memory_import(queue->handle, &from, &(*out)->memory);
    if (status == SHOAL_OK) {
        (*out)->queue = queue;
        return SHOAL_OK;
    }
    worker_buffer_release(*out);
    *out = NULL;
    return status;
}

/* Memory full of zeros. *seconds: what it took to fill it from the host, unless that reaches it. */
static shoal_status zeros(worker_slot *slot, size_t bytes, worker_buffer **out, double *seconds) {
    if (slot->own.host && slot->own.info.flags & SHOAL_DEVICE_IMPORT_HOST)
        return borrow(&slot->own, bytes, out);
    void *data = calloc(1, bytes);
    if (!data) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    shoal_status status = worker_buffer_new(&slot->own, bytes, out);
    int64_t from = base_now();
    if (status == SHOAL_OK) status = worker_buffer_fill(*out, data, bytes);
    if (status == SHOAL_OK)
        status = worker_queue_wait(&slot->own, (*out)->ready, &slot->worker->stopping);
    *seconds = (double)(base_now() - from) * 1e-9;
    free(data);
    return status;
}

static bool can(worker_slot *slot, const shoal_graph *g) {
    return worker_queue_supports(&slot->own, g, &g->nodes[0]);
}

/* The shortest of some runs, of long ones fewer: others may take the processors meanwhile. The
 * first one only loads and warms. 0: the device cannot do it. */
static shoal_status time_job(worker_slot *slot, const job *j, double *best) {
    worker_buffer *buffers[3] = {NULL};
    shoal_binding bindings[3] = {{0}};
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable = NULL;
    graph *g;
    double seconds = 0, spent = 0, least = 1e9;
    *best = 0;
    SHOAL_TRY(graph_new(0, &g));
    shoal_status status = build(g, j);
    if (status == SHOAL_OK && !can(slot, graph_data(g))) {
        graph_destroy(&g);
        return SHOAL_OK;
    }
    if (status == SHOAL_OK)
        status = worker_queue_compile(&slot->own, graph_data(g), NULL, &report, &executable);
    for (int i = 0; i < 3 && status == SHOAL_OK; i++) {
        status = zeros(slot, bytes_of(j), &buffers[i], &seconds);
        if (status != SHOAL_OK) break;
        bindings[i].memory = buffers[i]->memory;
    }
    for (int i = 0; i <= MOST_RUNS && status == SHOAL_OK && (i < 2 || spent < ENOUGH); i++) {
        status = run_once(slot, executable, bindings, &seconds);
        if (i && seconds < least) least = seconds;
        spent += seconds;
    }
    for (int i = 0; i < 3; i++) worker_buffer_release(buffers[i]);
    worker_queue_executable_free(&slot->own, executable);
    graph_destroy(&g);
    *best = least > 1e-9 ? least : 1e-9;
    return status;
}

static shoal_status time_products(worker_slot *slot, shoal_dtype dtype, double *out) {
    double seconds, longer;
    SHOAL_TRY(time_job(slot, &(job){dtype, SMALL, 0}, &seconds));
    if (!(seconds > 0)) return SHOAL_OK;
    *out = 2.0 * SMALL * SMALL * SMALL / seconds;
    /* A slow device is not kept busy for longer than it takes to know that it is slow. */
    if (seconds > 1e-3) return SHOAL_OK;
    SHOAL_TRY(time_job(slot, &(job){dtype, LARGE, 0}, &longer));
    *out = 2.0 * LARGE * LARGE * LARGE / longer;
    return SHOAL_OK;
}

/* From the host to the device; there is nothing to know where the host reaches its memory. */
static shoal_status time_transfer(worker_slot *slot, size_t bytes, double *best) {
    double seconds = 0, least = 1e9;
    for (int i = 0; i <= REPEATS && !slot->own.host; i++) {
        worker_buffer *buffer = NULL;
        shoal_status status = zeros(slot, bytes, &buffer, &seconds);
        worker_buffer_release(buffer);
        SHOAL_TRY(status);
        if (i && seconds < least) least = seconds;
    }
    *best = slot->own.host ? 0 : least;
    return SHOAL_OK;
}

static shoal_status measure(worker_slot *slot, base_figure figure, double *out) {
    static const shoal_dtype types[BASE_STREAM] = {
        [BASE_PRODUCTS_F32] = SHOAL_F32, [BASE_PRODUCTS_F64] = SHOAL_F64,
        [BASE_PRODUCTS_F16] = SHOAL_F16, [BASE_PRODUCTS_BF16] = SHOAL_BF16,
        [BASE_PRODUCTS_INT] = SHOAL_I32,
    };
    const size_t bytes = ELEMENTS * sizeof(float);
    double seconds = 0;
    *out = 0;
    switch (figure) {
    case BASE_STREAM:
        SHOAL_TRY(time_job(slot, &(job){SHOAL_F32, 0, ELEMENTS}, &seconds));
        *out = seconds > 0 ? 3.0 * (double)bytes / seconds : 0;
        return SHOAL_OK;
    case BASE_LAUNCH: return time_job(slot, &(job){SHOAL_F32, 0, TINY}, out);
    case BASE_TRANSFER:
        SHOAL_TRY(time_transfer(slot, bytes, &seconds));
        *out = seconds > 0 ? (double)bytes / seconds : 0;
        return SHOAL_OK;
    case BASE_TRANSFER_DELAY: return time_transfer(slot, TINY, out);
    default: return time_products(slot, types[figure], out);
    }
}

/* Whether a figure is better by more than a factor: more of a rate, fewer seconds. */
static bool better(base_figure figure, double a, double b, double by) {
    bool seconds = !strcmp(base_figure_unit(figure), "s");
    return seconds ? a * by < b : a > b * by;
}

shoal_status worker_speeds_measure(worker_slot *slot, uint32_t what, base_speeds *out) {
    base_speeds kept = worker_speeds_kept(slot);
    for (uint32_t f = 0; f < BASE_FIGURES; f++) {
        if (!(what >> f & 1)) continue;
        /* As when its memory is full: without one the others still serve. */
        if (measure(slot, f, &out->of[f]) != SHOAL_OK) {
            base_log(BASE_INFO, slot->worker->name, "%s: %s is not known: %s", slot->own.name,
                     base_figure_name(f), shoal_error_message());
            out->of[f] = 0;
        }
        if (!(out->of[f] > 0)) continue;
        if (!(kept.of[f] > 0) || better(f, out->of[f], kept.of[f], BETTER))
            keep(slot, f, out->of[f]);
        else if (better(f, kept.of[f], out->of[f], 1))
            out->of[f] = kept.of[f];
        base_log(BASE_INFO, slot->worker->name, "%s: %s %.3g %s", slot->own.name,
                 base_figure_name(f), out->of[f], base_figure_unit(f));
    }
    return SHOAL_OK;
}

void worker_measure(worker_slot *slot) {
    worker *w = slot->worker;
    base_speeds speeds = {{0}};
    uint32_t what = slot->measure;
    slot->measure = 0;
    pthread_mutex_unlock(&w->lock);
    base_event(&w->events, .kind = SHOAL_EVENT_MEASURE, .phase = SHOAL_EVENT_BEGIN,
               .slot = slot->number, .peer = SHOAL_NO_SLOT);
    shoal_status status = worker_speeds_measure(slot, what, &speeds);
    base_event(&w->events, .kind = SHOAL_EVENT_MEASURE, .phase = SHOAL_EVENT_END,
               .slot = slot->number, .peer = SHOAL_NO_SLOT);
    pthread_mutex_lock(&w->lock);
    Shoal__Speed message = SHOAL__SPEED__INIT;
    Shoal__Figure room[BASE_FIGURES], *figures[BASE_FIGURES];
    message.slot = slot->number;
    message.figures = figures;
    message.n_figures = worker_figures(&speeds, room, figures);
    if (status == SHOAL_OK && message.n_figures && w->hub)
        status = wire_send(w->hub, SHOAL__KIND__SPEED, &message.base);
    if (status != SHOAL_OK) base_log(BASE_WARN, w->name, "measuring: %s", shoal_error_message());
}
