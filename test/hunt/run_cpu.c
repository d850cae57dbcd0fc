/* Programs on the cpu backend, under each instruction set that the processor has. Buffers have
 * guards around them: NaN where a float would be read, which nobody may write to. */
#include "hunt.h"

#include "backend/cpu/cpu.h"
#include "backend/registry.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, GUARD = 256 };

typedef struct cpus {
    const shoal_backend *backend;
    const cpu_kernels *sets[CPU_MOST_SETS];
    size_t n_sets;
    shoal_device *devices[CPU_MOST_SETS][THREADS];
    shoal_device *now;
    char why[256], said[320];
} cpus;

void *hunt_cpu_new(void) {
    cpus *c = hunt_alloc(sizeof *c);
    hunt_must(backend_find("cpu", &c->backend));
    c->n_sets = cpu_kernel_sets(c->sets);
    for (size_t s = 0; s < c->n_sets; s++)
        for (uint32_t t = 0; t < THREADS; t++) {
            setenv("SHOAL_CPU", c->sets[s]->name, 1);
            hunt_must(c->backend->device_new(backend_host(), 0, t + 1, &c->devices[s][t]));
        }
    unsetenv("SHOAL_CPU");
    return c;
}

void hunt_cpu_free(void *context) {
    cpus *c = context;
    for (size_t s = 0; s < c->n_sets; s++)
        for (uint32_t t = 0; t < THREADS; t++) c->backend->device_free(c->devices[s][t]);
    free(c);
}

/* ---- buffers ---- */

typedef struct buffer {
    char *block;
    size_t bytes;
    shoal_memory *memory;
} buffer;

static void buffer_init(const cpus *c, shoal_device *device, const void *data, size_t bytes,
                        buffer *out) {
    *out = (buffer){.block = hunt_alloc(bytes + 2 * GUARD), .bytes = bytes};
    memset(out->block, 0xff, bytes + 2 * GUARD);
    if (data) memcpy(out->block + GUARD, data, bytes);
    shoal_import from = {SHOAL_IMPORT_HOST, out->block + GUARD, bytes, false};
    hunt_must(c->backend->memory_import(device, &from, &out->memory));
}

static bool is_guarded(const buffer *b) {
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)b->block[i] != 0xff ||
            (unsigned char)b->block[GUARD + b->bytes + i] != 0xff)
            return false;
    return true;
}

/* ---- running ---- */

/* Memory that the next run gets as its workspace: full of NaN, of large numbers, or of anything. */
static void spoil(const cpus *c, shoal_device *device, size_t bytes, uint64_t seed) {
    static const uint8_t patterns[] = {0xff, 0x7f, 0xfe};
    hunt_random random = {seed};
    shoal_memory *memory;
    hunt_must(c->backend->memory_new(device, bytes, &memory));
    void *data = c->backend->memory_host(device, memory);
    if (seed / THREADS % 4 < 3)
        memset(data, patterns[seed / THREADS % 4], bytes);
    else
        for (size_t i = 0; i + 8 <= bytes; i += 8)
            memcpy((char *)data + i, &(uint64_t){hunt_next(&random)}, 8);
    c->backend->memory_free(device, memory);
}

static bool supports(void *context, const shoal_graph *g, const shoal_node *node) {
    const cpus *c = context;
    return c->backend->supports(c->now, g, node);
}

/* share: results that may lie in an operand's memory do. */
static const char *run_once(cpus *c, shoal_device *device, shoal_executable *executable,
                            const hunt_program *program, const int32_t *in_place, bool share,
                            hunt_results *results) {
    const shoal_graph *g = graph_data(program->graph);
    uint32_t n = g->n_inputs + g->n_outputs;
    buffer *buffers = hunt_alloc((n + 1) * sizeof *buffers);
    shoal_binding *bindings = hunt_alloc((n + 1) * sizeof *bindings);
    const char *why = NULL;
    for (uint32_t i = 0; i < n; i++) {
        bool input = i < g->n_inputs;
        uint32_t value = input ? g->inputs[i] : g->outputs[i - g->n_inputs];
        int32_t shared = !input && share ? in_place[i - g->n_inputs] : -1;
        if (shared < 0)
            buffer_init(c, device, input ? program->inputs[i] : NULL,
                        (size_t)base_type_bytes(&g->values[value].type), &buffers[i]);
        bindings[i].memory = buffers[shared < 0 ? i : (uint32_t)shared].memory;
    }
    if (c->backend->run(device, executable, bindings, n, NULL)) {
        snprintf(c->why, sizeof c->why, "run: %s", shoal_error_message());
        why = c->why;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool input = i < g->n_inputs, written = !input;
        int32_t shared = !input && share ? in_place[i - g->n_inputs] : -1;
        const buffer *b = &buffers[shared < 0 ? i : (uint32_t)shared];
        for (uint32_t o = 0; input && share && o < g->n_outputs; o++)
            written = written || in_place[o] == (int32_t)i;
        if (!why && (!is_guarded(b) ||
                     (!written && memcmp(b->block + GUARD, program->inputs[i], b->bytes)))) {
            snprintf(c->why, sizeof c->why, "%s %u: memory that is not its own was written",
                     input ? "input" : "output", input ? i : i - g->n_inputs);
            why = c->why;
        }
        if (!input) memcpy(results->data[i - g->n_inputs], b->block + GUARD, b->bytes);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (buffers[i].memory) c->backend->memory_free(device, buffers[i].memory);
        free(buffers[i].block);
    }
    free(buffers);
    free(bindings);
    return why;
}

static const char *run_set(cpus *c, size_t set, const hunt_program *program, hunt_truth *truth) {
    const shoal_graph *g = graph_data(program->graph);
    uint32_t threads = (uint32_t)(program->seed % THREADS);
    shoal_device *device = c->devices[set][threads];
    graph *own;
    int32_t *in_place = hunt_alloc((g->n_outputs + 1) * sizeof *in_place);
    shoal_compile_options options = {.size = sizeof options};
    shoal_compile_report report = {.size = sizeof report, .in_place = in_place};
    shoal_executable *executable = NULL;
    const char *why = NULL;
    c->now = device;
    hunt_must(graph_new(0, &own));
    hunt_must(graph_decompose(g, supports, c, own));
    if (c->backend->compile(device, graph_data(own), &options, &report, &executable)) {
        snprintf(c->why, sizeof c->why, "compile: %s", shoal_error_message());
        why = c->why;
    }
    graph_destroy(&own);
    bool shares = false;
    for (uint32_t o = 0; !why && o < g->n_outputs; o++) shares = shares || in_place[o] >= 0;
    hunt_results results = hunt_results_new(g);
    for (int share = 0; !why && share <= shares; share++) {
        spoil(c, device, report.workspace, program->seed);
        const char *wrong = run_once(c, device, executable, program, in_place, share, &results);
        if (!wrong) wrong = hunt_compare(truth, &results);
        if (!wrong) continue;
        snprintf(c->said, sizeof c->said, "%s, %u threads%s: %s", c->sets[set]->name, threads + 1,
                 share ? ", in place" : "", wrong);
        why = c->said;
    }
    if (executable) c->backend->executable_free(device, executable);
    hunt_results_fini(&results);
    free(in_place);
    return why;
}

const char *hunt_cpu_run(void *context, const hunt_program *program) {
    cpus *c = context;
    hunt_truth truth;
    const char *why = NULL;
    hunt_must(hunt_truth_init(&truth, program));
    truth.signs = true;
    for (size_t s = 0; s < c->n_sets && !why; s++) why = run_set(c, s, program, &truth);
    hunt_truth_fini(&truth);
    return why;
}
