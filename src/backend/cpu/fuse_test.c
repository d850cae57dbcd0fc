/* Random graphs of elementwise operations, broadcasts, reductions and copies give the reference's
 * bits, whatever was fused, written in place or spread out on the way. */
#include "backend/cpu/cpu.h"
#include "backend/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != SHOAL_OK) fail_msg("%s: %s", #call, shoal_error_message());                  \
    } while (0)

enum { GRAPHS = 200, MOST_NODES = 150, MOST_VALUES = 400, KEPT = 3 };

static uint32_t below(uint32_t n) { return (uint32_t)rand() % n; }

/* Values of one graph, by their shape: whole, a row, a column, a scalar. */
typedef struct pot {
    shoal_type shape[4];
    uint32_t n[4], values[4][MOST_VALUES];
} pot;

static uint32_t any(const pot *p, uint32_t kind) { return p->values[kind][below(p->n[kind])]; }

static void put(pot *p, uint32_t kind, uint32_t value) {
    if (p->n[kind] < MOST_VALUES) p->values[kind][p->n[kind]++] = value;
}

static uint32_t binary(graph *g, const pot *p, uint32_t kind) {
    static const uint16_t ops[] = {GRAPH_ADD, GRAPH_MULTIPLY, GRAPH_SUBTRACT, GRAPH_MAXIMUM};
    uint32_t out, recent = p->n[kind] > 4 && below(2) ? p->n[kind] - 1 - below(3) : UINT32_MAX;
    uint32_t a = recent < p->n[kind] ? p->values[kind][recent] : any(p, kind);
    OK(graph_add(g, ops[below(4)], (uint32_t[]){a, any(p, kind)}, 2, NULL, 0, NULL, 0, &out));
    return out;
}

/* A row, column or scalar as a whole, or a whole summed up to one. */
static void change_kind(graph *g, pot *p) {
    uint32_t kind = 1 + below(3), out, zero;
    static const int64_t axes[4][2] = {{0, 1}, {1}, {0}, {0}},
                         reduced[4][2] = {{0}, {0}, {1}, {0, 1}};
    static const uint32_t n_axes[] = {2, 1, 1, 0}, n_reduced[] = {0, 1, 1, 2};
    if (below(2)) {
        shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, axes[kind], n_axes[kind]),
                              graph_ints(SHOAL_ATTR_SHAPE, p->shape[0].dims, 2)};
        OK(graph_add(g, GRAPH_BROADCAST_IN_DIM, (uint32_t[]){any(p, kind)}, 1, attrs, 2, NULL, 0,
                     &out));
        put(p, 0, out);
        return;
    }
    float least = -1e30f;
    shoal_attr constant[] = {graph_bytes(SHOAL_ATTR_VALUE, &least, sizeof least),
                             graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                             graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    OK(graph_add(g, GRAPH_CONSTANT, NULL, 0, constant, 3, NULL, 0, &zero));
    const shoal_graph *body;
    OK(graph_add_body(g, GRAPH_MAXIMUM, SHOAL_F32, &body));
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, reduced[kind], n_reduced[kind]);
    OK(graph_add(g, GRAPH_REDUCE, (uint32_t[]){any(p, 0), zero}, 2, &attr, 1, &body, 1, &out));
    put(p, kind, out);
}

static graph *random_graph(void) {
    static const int64_t sizes[] = {1, 2, 7, 100, 300, 1025};
    graph *g;
    pot p = {0};
    int64_t rows = sizes[below(6)], columns = sizes[below(6)];
    p.shape[0] = (shoal_type){.dtype = SHOAL_F32, .rank = 2, .dims = {rows, columns}};
    p.shape[1] = (shoal_type){.dtype = SHOAL_F32, .rank = 1, .dims = {columns}};
    p.shape[2] = (shoal_type){.dtype = SHOAL_F32, .rank = 1, .dims = {rows}};
    p.shape[3] = (shoal_type){.dtype = SHOAL_F32};
    OK(graph_new(0, &g));
    for (uint32_t kind = 0; kind < 4; kind++)
        for (uint32_t i = 0; i < 1 + below(3); i++) {
            uint32_t value;
            OK(graph_add_input(g, &p.shape[kind], &value));
            put(&p, kind, value);
        }
    for (uint32_t n = 1 + below(MOST_NODES); n-- > 0;) {
        uint32_t kind = below(8) ? 0 : 1 + below(3), out;
        if (below(6) == 0)
            change_kind(g, &p);
        else if (below(12) == 0 && rows > 1) { /* the same elements in another order, and back */
            shoal_attr turn = graph_ints(SHOAL_ATTR_PERMUTATION, (int64_t[]){1, 0}, 2);
            OK(graph_add(g, GRAPH_TRANSPOSE, (uint32_t[]){any(&p, 0)}, 1, &turn, 1, NULL, 0, &out));
            OK(graph_add(g, GRAPH_NEGATE, &out, 1, NULL, 0, NULL, 0, &out));
            OK(graph_add(g, GRAPH_TRANSPOSE, &out, 1, &turn, 1, NULL, 0, &out));
            put(&p, 0, out);
        } else {
            put(&p, kind, binary(g, &p, kind));
        }
    }
    for (uint32_t kind = 0; kind < 4; kind++)
        for (uint32_t i = 0; i < 1 + below(KEPT); i++) OK(graph_add_output(g, any(&p, kind)));
    OK(graph_add_output(g, p.values[0][p.n[0] - 1]));
    return g;
}

/* Runs a graph on a device; the caller frees what `out` gets. */
static void run(const char *name, uint32_t threads, const shoal_graph *g, float **in, float **out) {
    const shoal_backend *backend;
    shoal_device *device;
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable;
    OK(backend_find(name, &backend));
    OK(backend->device_new(backend_host(), 0, threads, &device));
    OK(backend->compile(device, g, NULL, &report, &executable));
    uint32_t n = g->n_inputs + g->n_outputs;
    shoal_binding *buffers = calloc(n, sizeof *buffers);
    for (uint32_t i = 0; i < n; i++) {
        bool is_input = i < g->n_inputs;
        uint32_t value = is_input ? g->inputs[i] : g->outputs[i - g->n_inputs];
        size_t bytes = (size_t)base_type_bytes(&g->values[value].type);
        if (!is_input) out[i - g->n_inputs] = malloc(bytes + 1);
        shoal_import from = {SHOAL_IMPORT_HOST, is_input ? in[i] : out[i - g->n_inputs], bytes,
                             false};
        OK(backend->memory_import(device, &from, &buffers[i].memory));
    }
    OK(backend->run(device, executable, buffers, n, NULL, 0, NULL, 0));
    for (uint32_t i = 0; i < n; i++) backend->memory_free(device, buffers[i].memory);
    free(buffers);
    backend->executable_free(device, executable);
    backend->device_free(device);
}

static void test_random_graphs(void **state) {
    for (unsigned seed = 1; seed <= GRAPHS; seed++) {
        srand(seed);
        graph *built = random_graph();
        const shoal_graph *g = graph_data(built);
        float *in[16], *is[32], *must[32];
        for (uint32_t i = 0; i < g->n_inputs; i++) {
            int64_t count = base_type_count(&g->values[g->inputs[i]].type);
            in[i] = malloc((size_t)count * sizeof **in + 1);
            for (int64_t k = 0; k < count; k++) in[i][k] = (float)(rand() % 4001 - 2000) / 1024;
        }
        run("cpu", 1 + below(2), g, in, is);
        run("ref", 1, g, in, must);
        for (uint32_t o = 0; o < g->n_outputs; o++) {
            int64_t count = base_type_count(&g->values[g->outputs[o]].type);
            for (int64_t k = 0; k < count; k++)
                if (memcmp(&is[o][k], &must[o][k], sizeof is[o][k]) &&
                    !(is[o][k] != is[o][k] && must[o][k] != must[o][k]))
                    fail_msg("graph %u: output %u, element %lld is %g, not %g", seed, o,
                             (long long)k, (double)is[o][k], (double)must[o][k]);
            free(is[o]);
            free(must[o]);
        }
        for (uint32_t i = 0; i < g->n_inputs; i++) free(in[i]);
        graph_destroy(&built);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
