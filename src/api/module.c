/* Modules: implements stablehlo.h. */
#include "shoal/stablehlo.h"

#include "api/function.h"
#include "backend/ref/ref.h"
#include "graph/maker.h"
#include "graph/stablehlo/stablehlo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct shoal_module {
    graph *graph;
};

static shoal_status new_module(shoal_module **out) {
    *out = calloc(1, sizeof **out);
    return *out ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a module");
}

void shoal_module_free(shoal_module **module) {
    if (!*module) return;
    if ((*module)->graph) graph_destroy(&(*module)->graph);
    free(*module);
    *module = NULL;
}

/* Frees it after a failure. */
static shoal_status ended(shoal_status status, shoal_module **out) {
    if (status != SHOAL_OK) shoal_module_free(out);
    return status;
}

const shoal_graph *shoal_module_graph(const shoal_module *module) {
    return graph_data(module->graph);
}

/* ---- where modules come from ---- */

/* The tree of a text takes some 60 bytes for each of its own; constants are copied twice. */
shoal_status shoal_module_parse(const char *text, size_t bytes, const char *file,
                                const char *function, shoal_module **out) {
    const hlo_import_options options = {.file = file,
                                        .function = function,
                                        .limit = ((size_t)64 << 20) + 128 * bytes,
                                        .evaluate = ref_evaluate};
    SHOAL_TRY(new_module(out));
    return ended(hlo_import_text(text, bytes, &options, &(*out)->graph), out);
}

/* All of a file, read rather than mapped: it may be a pipe, and may change meanwhile. */
static shoal_status read_all(FILE *file, base_str *text) {
    char piece[65536];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, file)) > 0) base_str_bytes(text, piece, n);
    if (ferror(file)) return base_fail(SHOAL_IO, "it cannot be read: %s", strerror(errno));
    return base_str_status(text);
}

shoal_status shoal_module_open(const char *path, const char *function, shoal_module **out) {
    base_str text;
    *out = NULL;
    const char *slash = strrchr(path, '/');
    FILE *file = fopen(path, "rb");
    if (!file)
        return base_fail(errno == ENOENT ? SHOAL_NOT_FOUND : SHOAL_IO, "%s: %s", path,
                         strerror(errno));
    base_str_init(&text);
    shoal_status status = read_all(file, &text);
    fclose(file);
    if (status == SHOAL_OK)
        status = shoal_module_parse(text.data ? text.data : "", text.size, slash ? slash + 1 : path,
                                    function, out);
    base_str_fini(&text);
    return status == SHOAL_OK ? status : base_fail_prefix(status, "%s: ", path);
}

/* The operands that a function does not use are inputs like the others. */
static shoal_status of_function(const shoal_function *f, graph *all, graph *to) {
    const shoal_graph *g = graph_data(f->recorded->graph);
    uint32_t *inputs = base_arena_array(graph_arena(all), uint32_t, f->n_operands);
    uint32_t *outputs = base_arena_array(graph_arena(all), uint32_t, f->n_results);
    bool *used = base_arena_array(graph_arena(all), bool, f->n_operands);
    if (!inputs || !outputs || !used) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op == GRAPH_SOURCE)
            return base_fail(SHOAL_UNSUPPORTED,
                             "module: the function reads tensors of files; give them as inputs");
    SHOAL_TRY(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, all));
    for (uint32_t i = 0; i < f->n_used; i++) {
        inputs[f->used[i]] = graph_data(all)->inputs[i];
        used[f->used[i]] = true;
    }
    for (uint32_t i = 0; i < f->n_operands; i++)
        if (!used[i]) SHOAL_TRY(graph_add_input(all, &f->operands[i], &inputs[i]));
    for (uint32_t i = 0; i < f->n_results; i++)
        outputs[i] = f->results[i].operand ? inputs[f->results[i].index]
                                           : graph_data(all)->outputs[f->results[i].index];
    return graph_extract(graph_data(all), inputs, f->n_operands, outputs, f->n_results, to);
}

shoal_status shoal_module_of(const shoal_function *function, shoal_module **out) {
    graph *all = NULL;
    SHOAL_TRY(new_module(out));
    shoal_status status = graph_new(0, &all);
    if (status == SHOAL_OK) status = graph_new(0, &(*out)->graph);
    if (status == SHOAL_OK) status = of_function(function, all, (*out)->graph);
    graph_destroy(&all);
    return ended(status, out);
}

/* ---- inputs as constants ---- */

static shoal_status bind_inputs(const shoal_graph *g, uint32_t first, const void *const *data,
                                graph *to) {
    uint32_t *map = base_arena_array(graph_arena(to), uint32_t, g->n_values);
    if (!map) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const shoal_type *type = &g->values[g->inputs[i]].type;
        SHOAL_TRY(i < first
                      ? graph_add_input(to, type, &map[g->inputs[i]])
                      : graph_add_constant(to, type, data[i - first], (size_t)base_type_bytes(type),
                                           &map[g->inputs[i]]));
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        uint32_t *inputs = base_arena_array(graph_arena(to), uint32_t, node->n_inputs), out;
        const shoal_graph **regions =
            base_arena_alloc_array(graph_arena(to), sizeof *regions, node->n_regions);
        if (!inputs || !regions) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = map[node->inputs[i]];
        for (uint16_t i = 0; i < node->n_regions; i++)
            SHOAL_TRY(graph_copy_body(to, node->regions[i], &regions[i]));
        SHOAL_TRY(graph_at(to, node->location, node->scope));
        SHOAL_TRY(graph_add(to, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                            regions, node->n_regions, &out));
        for (uint16_t i = 0; i < node->n_outputs; i++) map[node->first_output + i] = out + i;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) SHOAL_TRY(graph_add_output(to, map[g->outputs[i]]));
    return SHOAL_OK;
}

shoal_status shoal_module_bind(const shoal_module *module, uint32_t first, const void *const *data,
                               shoal_module **out) {
    const shoal_graph *g = graph_data(module->graph);
    *out = NULL;
    if (first > g->n_inputs)
        return base_fail(SHOAL_INVALID, "module: there is no input %u, only %u", first,
                         g->n_inputs);
    SHOAL_TRY(new_module(out));
    shoal_status status = graph_new(0, &(*out)->graph);
    if (status == SHOAL_OK) status = bind_inputs(g, first, data, (*out)->graph);
    return ended(status, out);
}

/* ---- gradients ---- */

/* Results of `g`, then gradients; what is written twice is joined in `to`. */
static shoal_status gradient_of(const shoal_graph *g, uint32_t output, const uint32_t *wrt,
                                uint32_t n_wrt, graph *all, graph *to) {
    char text[BASE_TYPE_TEXT];
    if (output >= g->n_outputs)
        return base_fail(SHOAL_INVALID, "gradient: there is no result %u, only %u", output,
                         g->n_outputs);
    const shoal_type type = g->values[g->outputs[output]].type;
    if (shoal_dtype_kind((shoal_dtype)type.dtype) != 'f' || base_type_count(&type) != 1)
        return base_fail(SHOAL_INVALID,
                         "gradient: result %u is %s; it must have one element of a floating type",
                         output, base_type_text(&type, text));
    uint32_t *values = base_arena_array(graph_arena(all), uint32_t, n_wrt);
    uint32_t *gradients = base_arena_array(graph_arena(all), uint32_t, n_wrt);
    if (!values || !gradients) return SHOAL_NO_MEMORY;
    SHOAL_TRY(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, all));
    bool *named = base_arena_array(graph_arena(all), bool, g->n_inputs);
    if (!named) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n_wrt; i++) {
        if (wrt[i] >= g->n_inputs || named[wrt[i]])
            return base_fail(SHOAL_INVALID,
                             "gradient: there are %u inputs, from 0 on, each named once",
                             g->n_inputs);
        named[wrt[i]] = true;
        values[i] = graph_data(all)->inputs[wrt[i]];
    }
    maker m = {all, SHOAL_OK};
    uint32_t seed = splat(&m, type, 1), loss = graph_data(all)->outputs[output];
    SHOAL_TRY(m.status);
    SHOAL_TRY(graph_differentiate(all, &loss, &seed, 1, values, n_wrt, NULL, gradients));
    for (uint32_t i = 0; i < n_wrt; i++) {
        if (gradients[i] == GRAPH_NO_VALUE) gradients[i] = like(&m, values[i], 0);
        SHOAL_TRY(m.status);
        SHOAL_TRY(graph_add_output(all, gradients[i]));
    }
    return graph_rewrite(graph_data(all), ref_evaluate, NULL, to);
}

shoal_status shoal_module_gradient(const shoal_module *module, uint32_t output, const uint32_t *wrt,
                                   uint32_t n_wrt, shoal_module **out) {
    graph *all = NULL;
    SHOAL_TRY(new_module(out));
    shoal_status status = graph_new(0, &all);
    if (status == SHOAL_OK) status = graph_new(0, &(*out)->graph);
    if (status == SHOAL_OK)
        status = gradient_of(graph_data(module->graph), output, wrt, n_wrt, all, (*out)->graph);
    graph_destroy(&all);
    return ended(status, out);
}

/* ---- what is made of them ---- */

shoal_status shoal_module_text(const shoal_module *module, char **out) {
    return hlo_graph_text(graph_data(module->graph), out);
}

shoal_status shoal_module_function(const shoal_module *module, shoal_session *session,
                                   shoal_function **out) {
    return api_function_of(session, graph_data(module->graph), out);
}

/* Bodies that are the trace's own, as the module may be gone before that is sent. */
static shoal_status copy_bodies(shoal_session *session, const shoal_node *node,
                                const shoal_graph ***out) {
    if (!session->trace) SHOAL_TRY(graph_new(0, &session->trace));
    *out = base_arena_alloc_array(graph_arena(session->trace), sizeof **out, node->n_regions);
    if (!*out) return SHOAL_NO_MEMORY;
    for (uint16_t r = 0; r < node->n_regions; r++)
        SHOAL_TRY(graph_copy_body(session->trace, node->regions[r], &(*out)[r]));
    return SHOAL_OK;
}

/* One node: its operands are handles by value. */
static shoal_status apply_node(shoal_session *session, const shoal_graph *g, const shoal_node *node,
                               shoal_tensor **values) {
    shoal_tensor *few[8], **inputs = few;
    const shoal_graph **bodies = NULL;
    if (node->n_inputs > 8 && !(inputs = calloc(node->n_inputs, sizeof *inputs)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for %u operands", node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = values[node->inputs[i]];
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK && node->n_regions) status = copy_bodies(session, node, &bodies);
    if (status == SHOAL_OK)
        status = api_apply_at(session, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                              bodies, node->n_regions, node->location, node->scope,
                              values + node->first_output, node->n_outputs);
    if (status == SHOAL_OK && api_trace_is_full(session))
        status = api_flush(session, NULL, NULL, 0, NULL);
    pthread_mutex_unlock(&session->lock);
    if (inputs != few) free(inputs);
    return status;
}

shoal_status shoal_module_apply(const shoal_module *module, shoal_session *session,
                                shoal_tensor *const *inputs, shoal_tensor **outputs) {
    const shoal_graph *g = graph_data(module->graph);
    shoal_tensor **values = calloc(g->n_values + (size_t)1, sizeof *values);
    shoal_status status = values ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for values");
    for (uint32_t i = 0; i < g->n_outputs; i++) outputs[i] = NULL;
    for (uint32_t i = 0; i < g->n_inputs && status == SHOAL_OK; i++) {
        char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
        const shoal_type *type = &g->values[g->inputs[i]].type;
        if (!base_type_equal(&inputs[i]->type, type))
            status = base_fail(SHOAL_INVALID, "module: input %u is %s; it must be %s", i,
                               base_type_text(&inputs[i]->type, a), base_type_text(type, b));
        values[g->inputs[i]] = shoal_tensor_retain(inputs[i]);
    }
    for (uint32_t n = 0; n < g->n_nodes && status == SHOAL_OK; n++)
        status = apply_node(session, g, &g->nodes[n], values);
    for (uint32_t i = 0; i < g->n_outputs && status == SHOAL_OK; i++)
        outputs[i] = shoal_tensor_retain(values[g->outputs[i]]);
    for (uint32_t i = 0; values && i < g->n_values; i++) shoal_tensor_free(&values[i]);
    free(values);
    return status;
}
