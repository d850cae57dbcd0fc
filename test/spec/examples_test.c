/* Runs the specification's examples (examples.mlir) on the reference and on cpu, and takes each
 * program through text and bytes and back. Every operation of the table that is StableHLO's or
 * CHLO's has one. Usage: examples_test FILE. */
#include "backend/ref/ref.h"
#include "backend/registry.h"
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned passed, failed;
static bool seen[GRAPH_OP_BUILT_IN];

static void check(bool fine, const char *name, const char *what, const char *why) {
    if (fine) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED %s: %s: %s\n", name, what, why);
}

/* The element as a double, when it is a floating-point number. */
static double number(const shoal_type *type, const void *data, int64_t i) {
    ref_chunk one;
    ref_load(&one, type->dtype, data, i, 1);
    return ref_class_of(type->dtype) == REF_D ? one.d[0] : (double)one.f[0];
}

/* The specification prints some 6 to 8 digits. */
static bool equal(const shoal_type *type, const void *is, const void *must) {
    if (shoal_dtype_kind((shoal_dtype)type->dtype) != 'f')
        return !memcmp(is, must, (size_t)base_type_bytes(type));
    for (int64_t i = 0; i < base_type_count(type); i++) {
        double x = number(type, is, i), y = number(type, must, i);
        if (isnan(x) && isnan(y)) continue;
        if (x == y && !signbit(x) == !signbit(y)) continue;
        if (!(fabs(x - y) <= 1e-6 * fabs(y) + 1e-7) || x == y) return false;
    }
    return true;
}

static shoal_status run_on(const shoal_backend *backend, const shoal_graph *g, void **results) {
    shoal_device *device;
    shoal_executable *executable;
    shoal_binding buffers[16] = {{0}};
    shoal_compile_report report = {.size = sizeof report};
    SHOAL_TRY(backend->device_new(backend_host(), 0, 2, &device));
    shoal_status status = backend->compile(device, g, NULL, &report, &executable);
    for (uint32_t i = 0; i < g->n_outputs && !status; i++)
        status = backend->memory_new(
            device, (size_t)base_type_bytes(&g->values[g->outputs[i]].type), &buffers[i].memory);
    if (!status) {
        status = backend->run(device, executable, buffers, g->n_outputs, NULL);
        backend->executable_free(device, executable);
    }
    for (uint32_t i = 0; i < g->n_outputs && !status; i++) {
        const void *from = backend->memory_host(device, buffers[i].memory);
        size_t bytes = (size_t)base_type_bytes(&g->values[g->outputs[i]].type);
        results[i] = malloc(bytes + 1);
        if (results[i]) memcpy(results[i], from, bytes);
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (buffers[i].memory) backend->memory_free(device, buffers[i].memory);
    backend->device_free(device);
    return status;
}

static void run(const char *name, const shoal_graph *g) {
    static const char *const backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        const shoal_backend *backend;
        void *results[16] = {NULL};
        if (backend_find(backends[b], &backend) || g->n_outputs > 16) {
            check(false, name, backends[b], "cannot be used");
            continue;
        }
        shoal_status status = run_on(backend, g, results);
        check(!status, name, backends[b], status ? shoal_error_message() : "");
        for (uint32_t i = 0; i + 1 < g->n_outputs && !status; i += 2)
            check(equal(&g->values[g->outputs[i]].type, results[i], results[i + 1]), name,
                  backends[b], "gives something else than the specification");
        for (uint32_t i = 0; i < g->n_outputs; i++) free(results[i]);
    }
}

/* Text to graph to text to graph, and bytes: all the same. */
static void round_trip(const char *name, const shoal_graph *g) {
    base_str text, first, second, third;
    graph *again = NULL, *decoded = NULL;
    base_str_init(&text);
    base_str_init(&first);
    base_str_init(&second);
    base_str_init(&third);
    shoal_status status = graph_print(g, &text);
    if (!status) status = graph_parse(text.data, text.size, 1 << 22, &again);
    if (!status) status = graph_encode(g, true, &first);
    if (!status) status = graph_encode(graph_data(again), true, &second);
    if (!status) status = graph_decode(first.data, first.size, 1 << 22, &decoded);
    if (!status) status = graph_encode(graph_data(decoded), true, &third);
    check(!status, name, "text and bytes", status ? shoal_error_message() : "");
    if (!status)
        check(first.size == second.size && first.size == third.size &&
                  !memcmp(first.data, second.data, first.size) &&
                  !memcmp(first.data, third.data, first.size),
              name, "text and bytes", "do not come back as they were");
    graph_destroy(&again);
    graph_destroy(&decoded);
    base_str_fini(&text);
    base_str_fini(&first);
    base_str_fini(&second);
    base_str_fini(&third);
}

/* One section: its first line is "// name". */
static void section(const char *text, size_t size) {
    char name[64] = "?";
    const char *line = memchr(text, '\n', size);
    if (!line || sscanf(text, "// %63s", name) != 1) return;
    graph *g;
    shoal_status status = graph_parse(line, size - (size_t)(line - text), 1 << 22, &g);
    if (!status) status = graph_verify(graph_data(g));
    check(!status, name, "parse", status ? shoal_error_message() : "");
    if (status) return;
    for (uint32_t i = 0; i < graph_data(g)->n_nodes; i++) seen[graph_data(g)->nodes[i].op] = true;
    round_trip(name, graph_data(g));
    run(name, graph_data(g));
    graph_destroy(&g);
}

static char *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(1 << 20) : NULL;
    *size = text ? fread(text, 1, (1 << 20) - 1, file) : 0;
    if (text) text[*size] = 0;
    if (file) fclose(file);
    return text;
}

int main(int argc, char **argv) {
    size_t size;
    char *text = argc == 2 ? read_all(argv[1], &size) : NULL;
    if (!text) {
        fprintf(stderr, "usage: examples_test FILE\n");
        return 2;
    }
    static const char mark[] = "\n// -----\n";
    unsigned sections = 0, covered = 0, missing = 0;
    for (const char *at = strstr(text, mark); at; sections++) {
        const char *from = at + sizeof mark - 1;
        at = strstr(from, mark);
        section(from, at ? (size_t)(at - from) : strlen(from));
    }
    for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++) {
        covered += seen[op];
        if (seen[op] || !graph_op_is_standard(op)) continue;
        missing++;
        printf("FAILED %s: has no example\n", shoal_op_name(op));
    }
    free(text);
    printf("%u examples of %u operations, on ref and cpu\n", sections, covered);
    printf("%u passed, %u failed\n", passed, failed + missing);
    return failed || missing;
}
