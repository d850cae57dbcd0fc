/* Batch rules: each example of an operation, with its gradients, as one graph for a batch, for any
 * choice of operands that differ from index to index, against the graph for one index, run once for
 * each. */
#include "backend/gradient_testing.h"
#include "backend/ref/ref.h"

#include <math.h>

enum { INDICES = 3, MOST_OUTPUTS = 1 + MOST_INPUTS };

static void run(graph *g, double *const *inputs, double **outputs) {
    graph *plain;
    ok(graph_new(0, &plain));
    ok(graph_decompose(graph_data(g), NULL, NULL, plain));
    const shoal_graph *data = graph_data(plain);
    for (uint32_t i = 0; i < data->n_outputs; i++)
        outputs[i] = calloc(INDICES * MOST_ELEMENTS * 4, sizeof(double));
    ok(ref_evaluate(NULL, data, (const void *const *)inputs, (void *const *)outputs));
    graph_destroy(&plain);
}

/* The example's result, and its gradients where there are any, weighed by the result. */
static graph *single(const example *e, uint32_t *n_outputs) {
    graph *g;
    uint32_t in[MOST_INPUTS], out[MOST_INPUTS];
    ok(graph_new(0, &g));
    for (uint32_t i = 0; i < e->n_inputs; i++) in[i] = test_input(g, e->types[i]);
    uint32_t y = e->build(g, in);
    ok(graph_add_output(g, y));
    ok(graph_differentiate(g, &y, &y, 1, in, e->n_inputs, NULL, out));
    *n_outputs = 1;
    for (uint32_t i = 0; i < e->n_inputs; i++) {
        if (out[i] == GRAPH_NO_VALUE) continue;
        ok(graph_add_output(g, out[i]));
        ++*n_outputs;
    }
    return g;
}

/* The same for the batch, or NULL without a rule. */
static graph *together(const example *e, const shoal_graph *from, uint32_t differ) {
    graph *g;
    uint32_t in[MOST_INPUTS], out[MOST_OUTPUTS];
    bool each[MOST_INPUTS];
    ok(graph_new(0, &g));
    for (uint32_t i = 0; i < e->n_inputs; i++) {
        shoal_type type = e->types[i];
        each[i] = differ >> i & 1;
        if (each[i]) {
            memmove(type.dims + 1, type.dims, type.rank++ * sizeof *type.dims);
            type.dims[0] = INDICES;
        }
        in[i] = test_input(g, type);
    }
    shoal_status status = graph_batch_graph(from, g, INDICES, in, each, out);
    if (status == SHOAL_UNSUPPORTED && strstr(shoal_error_message(), "no batch rule")) {
        graph_destroy(&g);
        return NULL;
    }
    ok(status);
    for (uint32_t o = 0; o < from->n_outputs; o++) ok(graph_add_output(g, out[o]));
    ok(graph_verify(graph_data(g)));
    return g;
}

static void compare(const example *e, const shoal_graph *from, uint32_t differ, double *const *one,
                    double *const *all, size_t index) {
    for (uint32_t o = 0; o < from->n_outputs; o++) {
        size_t n = (size_t)base_type_count(&from->values[from->outputs[o]].type);
        for (size_t k = 0; k < n; k++) {
            double want = one[o][k], got = all[o][index * n + k];
            if (fabs(want - got) > 1e-9 * (1 + fabs(want)) || isnan(want) != isnan(got))
                fail_msg("%s, operands %x differ: output %u of index %zu has %g, not %g, at %zu",
                         e->name, differ, o, index, got, want, k);
        }
    }
}

static bool check(const example *e, graph *g, uint32_t n_outputs, uint32_t differ) {
    double *data[MOST_INPUTS], *at[MOST_INPUTS], *one[MOST_OUTPUTS], *all[MOST_OUTPUTS];
    uint64_t state = 88172645463325252u + e->op;
    graph *batch = together(e, graph_data(g), differ);
    if (!batch) return false;
    for (uint32_t i = 0; i < e->n_inputs; i++) {
        data[i] = calloc(INDICES * MOST_ELEMENTS, sizeof **data);
        for (size_t k = 0; k < INDICES * MOST_ELEMENTS; k++)
            data[i][k] =
                e->low + (e->high - e->low) * (double)(test_random(&state) >> 11) * 0x1p-53;
    }
    run(batch, data, all);
    for (size_t index = 0; index < INDICES; index++) {
        for (uint32_t i = 0; i < e->n_inputs; i++)
            at[i] = data[i] + (differ >> i & 1) * index * (size_t)base_type_count(&e->types[i]);
        run(g, at, one);
        compare(e, graph_data(g), differ, one, all, index);
        for (uint32_t o = 0; o < n_outputs; o++) free(one[o]);
    }
    for (uint32_t o = 0; o < n_outputs; o++) free(all[o]);
    for (uint32_t i = 0; i < e->n_inputs; i++) free(data[i]);
    graph_destroy(&batch);
    return true;
}

void batch_check(const example *e) {
    uint32_t n_outputs, tensors = 0;
    graph *g = single(e, &n_outputs);
    for (uint32_t i = 0; i < e->n_inputs; i++)
        if (e->types[i].rank) tensors |= 1u << i;
    bool has_rule = graph_op(e->op)->batch != NULL;
    for (uint32_t differ = 1; differ < 1u << e->n_inputs; differ++) {
        /* Initial values that differ have no rule, nor have most operations on control. */
        bool known = check(e, g, n_outputs, differ);
        if (known && !has_rule) fail_msg("%s has a batch rule after all", e->name);
        if (!known && has_rule && !(differ & ~tensors))
            fail_msg("%s, operands %x differ: %s", e->name, differ, shoal_error_message());
    }
    graph_destroy(&g);
}
