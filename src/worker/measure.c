/* How fast a device is: measured when the hub first asks, by the work that pools are for, since
 * measuring takes some tens of milliseconds. The best that was ever seen is kept in the user's
 * cache folder, so that a process knows it from its start, and one that was measured while the
 * machine was busy is not slow for ever. */
#include "worker/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const double BETTER = 1.05; /* what is kept is written anew for as much */

enum {
    SMALL = 256,
    LARGE = 1024,
    ELEMENTS = 4 << 20,
    REPEATS = 3,
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

bool worker_speed_kept(const worker_slot *slot, worker_speed *out) {
    char path[1024], name[MOST_NAME], line[MOST_LINE];
    name_of(slot, name);
    FILE *file = path_of(path, sizeof path, false) ? fopen(path, "re") : NULL;
    bool found = false;
    while (file && fgets(line, sizeof line, file)) {
        worker_speed speed;
        if (strncmp(line, name, strlen(name)) ||
            sscanf(line + strlen(name), "%lf\t%lf", &speed.flops, &speed.stream) != 2 ||
            !(speed.flops > 0) || !(speed.stream > 0))
            continue;
        *out = speed; /* the last one counts */
        found = true;
    }
    if (file) fclose(file);
    return found;
}

static void keep(const worker_slot *slot, const worker_speed *speed) {
    char path[1024], name[MOST_NAME];
    name_of(slot, name);
    FILE *file = path_of(path, sizeof path, true) ? fopen(path, "ae") : NULL;
    /* One write of one line: processes may append at once. */
    if (file) fprintf(file, "%s%.6g\t%.6g\n", name, speed->flops, speed->stream);
    if (file) fclose(file);
}

/* ---- measured ---- */

/* The graph to time: a product of two squares, or the sum of two long vectors. */
static shoal_status build(graph *g, int64_t side) {
    shoal_type type = {.dtype = SHOAL_F32, .rank = 2, .dims = {side, side}};
    uint32_t in[2], out;
    const int64_t first = 0, second = 1;
    if (!side) type = (shoal_type){.dtype = SHOAL_F32, .rank = 1, .dims = {ELEMENTS}};
    SHOAL_TRY(graph_add_input(g, &type, &in[0]));
    SHOAL_TRY(graph_add_input(g, &type, &in[1]));
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &second, 1),
                          graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &first, 1)};
    SHOAL_TRY(graph_add(g, side ? GRAPH_DOT_GENERAL : GRAPH_ADD, in, 2, attrs, side ? 4 : 0, NULL,
                        0, &out));
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

/* Memory full of zeros. */
static shoal_status zeros(worker_slot *slot, size_t bytes, worker_buffer **out) {
    void *data = calloc(1, bytes);
    if (!data) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    shoal_status status = worker_buffer_new(&slot->own, bytes, out);
    if (status == SHOAL_OK) status = worker_buffer_fill(*out, data, bytes);
    if (status == SHOAL_OK)
        status = worker_queue_wait(&slot->own, (*out)->ready, &slot->worker->stopping);
    free(data);
    return status;
}

/* The shortest of some runs; the first one only loads and warms. */
static shoal_status time_graph(worker_slot *slot, int64_t side, double *best) {
    const shoal_backend *backend = slot->own.backend;
    worker_buffer *buffers[3] = {NULL};
    shoal_binding bindings[3] = {{0}};
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable = NULL;
    graph *g;
    SHOAL_TRY(graph_new(0, &g));
    size_t bytes = (size_t)(side ? side * side : ELEMENTS) * sizeof(float);
    shoal_status status = build(g, side);
    if (status == SHOAL_OK)
        status = backend->compile(slot->own.handle, graph_data(g), NULL, &report, &executable);
    for (int i = 0; i < 3 && status == SHOAL_OK; i++) {
        status = zeros(slot, bytes, &buffers[i]);
        if (status != SHOAL_OK) break;
        bindings[i].memory = buffers[i]->memory;
    }
    *best = 1e9;
    for (int i = 0; i <= REPEATS && status == SHOAL_OK; i++) {
        double seconds = 0;
        status = run_once(slot, executable, bindings, &seconds);
        if (i && seconds < *best) *best = seconds;
    }
    for (int i = 0; i < 3; i++) worker_buffer_release(buffers[i]);
    if (executable) backend->executable_free(slot->own.handle, executable);
    graph_destroy(&g);
    return status;
}

shoal_status worker_speed_measure(worker_slot *slot, worker_speed *out) {
    double seconds, long_seconds;
    SHOAL_TRY(time_graph(slot, SMALL, &seconds));
    double flops = 2.0 * SMALL * SMALL * SMALL / seconds;
    /* A slow device is not kept busy for longer than it takes to know that it is slow. */
    if (seconds < 2e-3) {
        SHOAL_TRY(time_graph(slot, LARGE, &long_seconds));
        flops = 2.0 * LARGE * LARGE * LARGE / long_seconds;
    }
    SHOAL_TRY(time_graph(slot, 0, &seconds));
    *out = (worker_speed){flops, 3.0 * ELEMENTS * sizeof(float) / seconds};
    worker_speed best;
    if (worker_speed_kept(slot, &best)) {
        bool better = out->flops > best.flops * BETTER || out->stream > best.stream * BETTER;
        if (best.flops > out->flops) out->flops = best.flops;
        if (best.stream > out->stream) out->stream = best.stream;
        if (better) keep(slot, out);
    } else {
        keep(slot, out);
    }
    base_log(BASE_INFO, slot->worker->name, "%s: %.3g operations and %.3g bytes per second",
             slot->own.info.name, out->flops, out->stream);
    return SHOAL_OK;
}
