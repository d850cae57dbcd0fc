/* A graph run on a backend's device. */
#include "backend/cpu/run_testing.h"

#include "base/status.h"

static size_t bytes_of(const shoal_graph *g, uint32_t value) {
    return (size_t)base_type_bytes(&g->values[value].type);
}

size_t test_run(const char *name, uint32_t threads, const shoal_graph *g, void *const *in,
                void *const *out) {
    const shoal_backend *backend;
    shoal_device *device;
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable;
    uint32_t n = g->n_inputs + g->n_outputs;
    shoal_binding *bindings = calloc(n, sizeof *bindings);
    assert_non_null(bindings);
    OK(backend_find(name, &backend));
    OK(backend->device_new(backend_host(), 0, threads, &device));
    OK(backend->compile(device, g, NULL, &report, &executable));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t o = i - g->n_inputs;
        bool is_input = i < g->n_inputs;
        shoal_import from = {SHOAL_IMPORT_HOST, is_input ? in[i] : out[o],
                             bytes_of(g, is_input ? g->inputs[i] : g->outputs[o]), false};
        OK(backend->memory_import(device, &from, &bindings[i].memory));
    }
    OK(backend->run(device, executable, bindings, n, NULL));
    for (uint32_t i = 0; i < n; i++) backend->memory_free(device, bindings[i].memory);
    free(bindings);
    backend->executable_free(device, executable);
    backend->device_free(device);
    return report.workspace;
}

size_t test_run_new(const char *name, uint32_t threads, const shoal_graph *g, void *const *in,
                    float **out) {
    void **made = calloc(g->n_outputs + (size_t)1, sizeof *made);
    assert_non_null(made);
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        made[i] = malloc(bytes_of(g, g->outputs[i]) + 1);
        assert_non_null(made[i]);
        out[i] = made[i];
    }
    size_t workspace = test_run(name, threads, g, in, made);
    free(made);
    return workspace;
}
