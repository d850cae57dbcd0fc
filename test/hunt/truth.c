/* The truth: what the reference gives, node by node, and how far rounding may move it.
 *
 * How exactly a result is known depends on all that led to it: a sum that cancels, a comparison of
 * two numbers that are nearly equal. So no tolerance is written anywhere. A program is run again
 * with noise, each result of each node moved at random by what kernels may differ in just there
 * (stochastic arithmetic: Vignes, 1993), and how far that spreads is what may differ. */
#include "hunt.h"

#include "backend/ref/ref.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- small things ---- */

uint64_t hunt_next(hunt_random *random) { /* splitmix64 */
    uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint32_t hunt_below(hunt_random *random, uint32_t n) {
    return (uint32_t)((hunt_next(random) >> 32) * n >> 32);
}

bool hunt_chance(hunt_random *random, uint32_t percent) {
    return hunt_below(random, 100) < percent;
}

double hunt_uniform(hunt_random *random) {
    return (double)(int64_t)(hunt_next(random) >> 11) * 0x1p-52 - 1;
}

void hunt_must(shoal_status status) {
    if (!status) return;
    fprintf(stderr, "hunt: %s: %s\n", shoal_status_name(status), shoal_error_message());
    abort();
}

void *hunt_alloc(size_t bytes) {
    void *data = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    if (!data) hunt_must(SHOAL_NO_MEMORY);
    memset(data, 0, (bytes + 127) & ~(size_t)63);
    return data;
}

double hunt_number(uint8_t dtype, const void *data, int64_t at) {
    ref_chunk chunk;
    if (dtype == SHOAL_F32) return (double)((const float *)data)[at];
    if (dtype == SHOAL_F64) return ((const double *)data)[at];
    ref_load(&chunk, dtype, data, at, 1);
    switch (ref_class_of(dtype)) {
    case REF_I: return (double)chunk.i[0];
    case REF_U: return (double)chunk.u[0];
    case REF_F: return (double)chunk.f[0];
    default: return chunk.d[0];
    }
}

void hunt_put(uint8_t dtype, void *data, int64_t at, double value) {
    ref_chunk chunk;
    switch (dtype) {
    case SHOAL_F16: ((uint16_t *)data)[at] = ref_to_half(value); break;
    case SHOAL_BF16: ((uint16_t *)data)[at] = ref_to_bfloat(value); break;
    case SHOAL_F32: ((float *)data)[at] = (float)value; break;
    case SHOAL_F64: ((double *)data)[at] = value; break;
    default:
        chunk.d[0] = value;
        ref_convert_chunk(&chunk, REF_D, dtype, 1);
        ref_store(&chunk, dtype, data, at, 1);
    }
}

hunt_results hunt_results_new(const shoal_graph *g) {
    hunt_results results = {.n = g->n_outputs};
    results.data = hunt_alloc((g->n_outputs + 1) * sizeof *results.data);
    results.bytes = hunt_alloc((g->n_outputs + 1) * sizeof *results.bytes);
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        results.bytes[i] = (size_t)base_type_bytes(&g->values[g->outputs[i]].type);
        results.data[i] = hunt_alloc(results.bytes[i]);
    }
    return results;
}

void hunt_results_fini(hunt_results *results) {
    for (uint32_t i = 0; i < results->n; i++) free(results->data[i]);
    free(results->data);
    free(results->bytes);
    *results = (hunt_results){0};
}

void **hunt_values_new(const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    void **values = hunt_alloc((g->n_values + 1) * sizeof *values);
    for (uint32_t v = 0; v < g->n_values; v++)
        values[v] = hunt_alloc((size_t)base_type_bytes(&g->values[v].type));
    for (uint32_t i = 0; i < g->n_inputs; i++)
        memcpy(values[g->inputs[i]], program->inputs[i],
               (size_t)base_type_bytes(&g->values[g->inputs[i]].type));
    return values;
}

void hunt_values_free(const hunt_program *program, void ***values) {
    for (uint32_t v = 0; *values && v < graph_data(program->graph)->n_values; v++)
        free((*values)[v]);
    free(*values);
    *values = NULL;
}

void hunt_program_fini(hunt_program *program) {
    for (uint32_t i = 0; i < program->n_inputs; i++) free(program->inputs[i]);
    free(program->inputs);
    graph_destroy(&program->graph);
}

hunt_program hunt_copy(const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_program copy = *program;
    hunt_must(graph_new(0, &copy.graph));
    hunt_must(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, copy.graph));
    copy.inputs = hunt_alloc((copy.n_inputs + 1) * sizeof *copy.inputs);
    for (uint32_t i = 0; i < copy.n_inputs; i++) {
        size_t bytes = (size_t)base_type_bytes(&g->values[g->inputs[i]].type);
        copy.inputs[i] = hunt_alloc(bytes);
        memcpy(copy.inputs[i], program->inputs[i], bytes);
    }
    return copy;
}

hunt_program hunt_cut(const hunt_program *program, const uint32_t *values, uint32_t n) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_program cut = *program;
    void **data = hunt_values_new(program);
    uint32_t *inputs = hunt_alloc((g->n_inputs + n + 1) * sizeof *inputs);
    for (uint32_t i = 0; i < g->n_inputs; i++) inputs[i] = g->inputs[i];
    memcpy(inputs + g->n_inputs, values, n * sizeof *inputs);
    for (uint32_t i = 0; i < g->n_nodes; i++) hunt_must(hunt_run_node(g, &g->nodes[i], data, NULL));
    cut.n_inputs = g->n_inputs + n;
    cut.inputs = hunt_alloc((cut.n_inputs + 1) * sizeof *cut.inputs);
    for (uint32_t i = 0; i < cut.n_inputs; i++) {
        size_t bytes = (size_t)base_type_bytes(&g->values[inputs[i]].type);
        cut.inputs[i] = hunt_alloc(bytes);
        memcpy(cut.inputs[i], data[inputs[i]], bytes);
    }
    hunt_must(graph_new(0, &cut.graph));
    hunt_must(graph_extract(g, inputs, cut.n_inputs, g->outputs, g->n_outputs, cut.graph));
    hunt_values_free(program, &data);
    free(inputs);
    return cut;
}

/* ---- running ---- */

/* A body, or what a composite consists of: its outputs are the node's. */
static shoal_status run_inner(const shoal_graph *inner, const void *const *inputs,
                              void *const *outputs, hunt_noise *noise) {
    hunt_results results = hunt_results_new(inner);
    shoal_status status = hunt_run_graph(inner, inputs, noise, &results);
    for (uint32_t i = 0; !status && i < results.n; i++)
        memcpy(outputs[i], results.data[i], results.bytes[i]);
    hunt_results_fini(&results);
    return status;
}

static shoal_status run_while(const ref_call *call, hunt_noise *noise) {
    const shoal_node *node = call->node;
    const shoal_graph *test = node->regions[0], *body = node->regions[1];
    hunt_results now = hunt_results_new(body), next = hunt_results_new(body);
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < now.n; i++) memcpy(now.data[i], call->inputs[i], now.bytes[i]);
    for (int turn = 0; !status && turn < 10000; turn++) {
        bool go = false;
        void *flag[] = {&go};
        status = run_inner(test, (const void *const *)now.data, flag, noise);
        if (status || !go) break;
        status = hunt_run_graph(body, (const void *const *)now.data, noise, &next);
        hunt_results swap = now;
        now = next, next = swap;
    }
    for (uint32_t i = 0; i < now.n; i++) memcpy(call->outputs[i], now.data[i], now.bytes[i]);
    hunt_results_fini(&now);
    hunt_results_fini(&next);
    return status;
}

static shoal_status run_composite(const ref_call *call, hunt_noise *noise) {
    const shoal_node *node = call->node;
    graph *whole, *parts;
    uint32_t inputs[64], first;
    hunt_must(graph_new(0, &whole));
    hunt_must(graph_new(0, &parts));
    for (uint32_t i = 0; i < node->n_inputs; i++)
        hunt_must(graph_add_input(whole, &call->graph->values[node->inputs[i]].type, &inputs[i]));
    hunt_must(graph_add(whole, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs, NULL,
                        0, &first));
    for (uint16_t i = 0; i < node->n_outputs; i++) hunt_must(graph_add_output(whole, first + i));
    hunt_must(graph_decompose(graph_data(whole), NULL, NULL, parts));
    if (noise && noise->composites_stay) noise = NULL;
    bool outer = noise && noise->composite;
    if (noise) noise->composite = true;
    shoal_status status = run_inner(graph_data(parts), call->inputs, call->outputs, noise);
    if (noise) noise->composite = outer;
    if (noise) hunt_add_composite_noise(call, noise);
    graph_destroy(&whole);
    graph_destroy(&parts);
    return status;
}

shoal_status hunt_run_node(const shoal_graph *g, const shoal_node *node, void *const *values,
                           hunt_noise *noise) {
    const void *few[16], **inputs = few;
    if (node->n_inputs > 16) inputs = hunt_alloc(node->n_inputs * sizeof *inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = values[node->inputs[i]];
    ref_call call = {g, node, inputs, &values[node->first_output]};
    ref_kernel kernel = ref_kernel_of(node->op);
    shoal_status status;
    if (node->op == GRAPH_WHILE) {
        status = run_while(&call, noise);
    } else if (node->op == GRAPH_IF || node->op == GRAPH_CASE) {
        const shoal_graph *body = node->regions[ref_branch_of(node, inputs[0])];
        status = run_inner(body, inputs + 1, call.outputs, noise);
    } else if (kernel) {
        status = kernel(&call);
        if (!status && noise) status = hunt_add_noise(&call, noise);
    } else {
        status = run_composite(&call, noise);
    }
    if (inputs != few) free(inputs);
    return status;
}

shoal_status hunt_run_graph(const shoal_graph *g, const void *const *inputs, hunt_noise *noise,
                            hunt_results *results) {
    size_t bytes = 0, at = 0;
    for (uint32_t v = 0; v < g->n_values; v++)
        bytes += ((size_t)base_type_bytes(&g->values[v].type) + 63) & ~(size_t)63;
    /* A part of a composite may be large though its result has no elements. */
    if (bytes > UINT32_MAX) return base_fail(SHOAL_NO_MEMORY, "%zu bytes for all values", bytes);
    char *storage = hunt_alloc(bytes);
    void **values = hunt_alloc((g->n_values + 1) * sizeof *values);
    for (uint32_t v = 0; v < g->n_values; v++) {
        values[v] = storage + at;
        at += ((size_t)base_type_bytes(&g->values[v].type) + 63) & ~(size_t)63;
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) values[g->inputs[i]] = (void *)inputs[i];
    shoal_status status = SHOAL_OK;
    for (uint32_t n = 0; !status && n < g->n_nodes; n++)
        status = hunt_run_node(g, &g->nodes[n], values, noise);
    for (uint32_t i = 0; !status && i < g->n_outputs; i++)
        memcpy(results->data[i], values[g->outputs[i]], results->bytes[i]);
    free(values);
    free(storage);
    return status;
}
