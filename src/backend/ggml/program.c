/* From a graph to steps, and their places in memory; and a run. */
#include "backend/ggml/device.h"
#include "backend/common.h"

#include <stdlib.h>
#include <string.h>

struct shoal_executable {
    shoal_device *device;
    graph *graph; /* a copy: the caller's may go */
    const shoal_graph *g;
    fuse_plan plan; /* which values share memory; its steps are those here */
    fuse_value *shared;
    backend_place *values;
    ggml_step *steps;
    uint32_t n_steps;
    shoal_memory *constants;
    size_t workspace;
    void *storage; /* of a run's tensors */
};

static size_t bytes_of(const shoal_executable *x, uint32_t value) {
    return (size_t)base_type_bytes(&x->g->values[value].type);
}

/* ---- what it takes ---- */

/* Builds a step with nothing in memory. Notes its scratch. */
static bool is_taken(const shoal_device *device, const shoal_graph *g, ggml_step *step) {
    size_t room = ggml_context_bytes(device->ggml, 1);
    void *storage = malloc(room);
    if (!storage) return false;
    ggml_builder b = {.device = device, .g = g, .step = step};
    b.context = device->ggml->init((ggml_settings){room, storage, true});
    if (b.context) {
        ggml_build(&b);
        device->ggml->free(b.context);
    }
    free(storage);
    return b.context && !b.refused;
}

bool ggml_supports(shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    ggml_step step = {.node = node, .write = node->first_output};
    return ggml_fits(g, node) && (ggml_is_still(g, node) || is_taken(device, g, &step));
}

/* ---- compiling ---- */

static shoal_status add_steps(shoal_executable *x) {
    const shoal_graph *g = x->g;
    x->steps = calloc(g->n_nodes + (size_t)1, sizeof *x->steps);
    x->values = calloc(g->n_values + (size_t)1, sizeof *x->values);
    x->shared = calloc(g->n_values + (size_t)1, sizeof *x->shared);
    if (!x->steps || !x->values || !x->shared)
        return base_fail(SHOAL_NO_MEMORY, "ggml: no memory to compile");
    for (uint32_t v = 0; v < g->n_values; v++) x->shared[v].root = v;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        ggml_step *step = &x->steps[x->n_steps];
        *step = (ggml_step){.node = node, .write = node->first_output};
        if (!ggml_fits(g, node) || (!ggml_is_still(g, node) && !is_taken(x->device, g, step)))
            return backend_cannot_run("ggml", node);
        if (node->op == GRAPH_RESHAPE)
            x->shared[node->first_output].root = x->shared[node->inputs[0]].root;
        else if (!ggml_is_still(g, node))
            x->n_steps++;
    }
    x->plan = (fuse_plan){.graph = g, .values = x->shared};
    return SHOAL_OK;
}

/* Inputs, and constants, which are brought to the device: all in one block. */
static shoal_status settle(shoal_executable *x) {
    const shoal_graph *g = x->g;
    size_t align = x->device->alignment, bytes = 0;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        x->values[g->inputs[i]].kind = BACKEND_INPUT;
        x->values[g->inputs[i]].place = i;
    }
    for (uint32_t n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op == GRAPH_CONSTANT)
            bytes += (shoal_node_attr(&g->nodes[n], SHOAL_ATTR_VALUE)->count / align + 1) * align;
    if (!bytes) return SHOAL_OK;
    SHOAL_TRY(ggml_memory_new(x->device, bytes, &x->constants));
    size_t at = 0;
    uint32_t s = 0;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        bool has_step = s < x->n_steps && x->steps[s].node == node;
        if (node->op == GRAPH_CONSTANT) {
            const shoal_attr *data = shoal_node_attr(node, SHOAL_ATTR_VALUE);
            SHOAL_TRY(ggml_upload(x->device, (shoal_binding){x->constants, at}, data->u.bytes,
                                  data->count));
            if (has_step) {
                x->steps[s].literal = at;
            } else {
                x->values[node->first_output].kind = BACKEND_CONSTANT;
                x->values[node->first_output].place = at;
            }
            at += (data->count / align + 1) * align;
        }
        s += has_step;
    }
    return SHOAL_OK;
}

static backend_touch touch(void *context, uint32_t s) {
    const ggml_step *step = &((const shoal_executable *)context)->steps[s];
    return (backend_touch){step->node->n_inputs, 1, step->node->inputs, &step->write};
}

static bool may_overwrite(void *context, uint32_t s, uint32_t write, uint32_t root) {
    return ggml_is_elementwise(((const shoal_executable *)context)->steps[s].node);
}

static shoal_status scratch(void *context, uint32_t s, backend_parts *parts) {
    ggml_step *step = &((shoal_executable *)context)->steps[s];
    for (uint32_t i = 0; i < GGML_SCRATCH; i++)
        if (step->scratch[i].bytes)
            SHOAL_TRY(backend_take(parts, step->scratch[i].bytes, 0, &step->scratch[i].at));
    return SHOAL_OK;
}

static shoal_status place_all(shoal_executable *x, const shoal_compile_options *options,
                              shoal_compile_report *report) {
    backend_places places = {.plan = &x->plan,
                             .values = x->values,
                             .n_steps = x->n_steps,
                             .align = x->device->alignment,
                             .context = x,
                             .touch = touch,
                             .may_overwrite = may_overwrite,
                             .scratch = scratch};
    SHOAL_TRY(backend_place_all(&places));
    report->workspace = x->workspace = places.workspace;
    report->packed = 0;
    return backend_report_in_place(&places, options ? options->frozen : NULL, report->in_place);
}

static shoal_status build(shoal_executable *x, const shoal_graph *g,
                          const shoal_compile_options *options, shoal_compile_report *report) {
    SHOAL_TRY(graph_new(0, &x->graph));
    SHOAL_TRY(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, x->graph));
    x->g = graph_data(x->graph);
    SHOAL_TRY(add_steps(x));
    SHOAL_TRY(settle(x));
    x->storage = malloc(ggml_context_bytes(x->device->ggml, x->n_steps));
    if (!x->storage) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory to compile");
    return place_all(x, options, report);
}

shoal_status ggml_compile(shoal_device *device, const shoal_graph *g,
                          const shoal_compile_options *options, shoal_compile_report *report,
                          shoal_executable **out) {
    shoal_executable *x = calloc(1, sizeof *x);
    if (!x) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory for a program");
    x->device = device;
    shoal_status status = build(x, g, options, report);
    if (status)
        ggml_executable_free(device, x);
    else
        *out = x;
    return status;
}

void ggml_executable_free(shoal_device *device, shoal_executable *x) {
    if (!x) return;
    ggml_memory_free(device, x->constants);
    graph_destroy(&x->graph);
    free(x->storage);
    free(x->shared);
    free(x->values);
    free(x->steps);
    free(x);
}

/* ---- running ---- */

typedef struct running {
    const shoal_executable *x;
    const shoal_binding *buffers;
} running;

static shoal_binding place_of(const running *r, uint32_t value) {
    const shoal_executable *x = r->x;
    const backend_place *root = &x->values[x->shared[value].root];
    switch (root->kind) {
    case BACKEND_INPUT: return r->buffers[root->place];
    case BACKEND_OUTPUT: return r->buffers[x->g->n_inputs + root->place];
    case BACKEND_CONSTANT: return (shoal_binding){x->constants, root->place};
    default: return (shoal_binding){x->device->workspace, root->place};
    }
}

static shoal_binding at(const ggml_builder *b, uint32_t value) {
    const running *r = b->owner;
    if (value == GGML_LITERAL) return (shoal_binding){r->x->constants, b->step->literal};
    for (uint32_t i = 0; i < GGML_SCRATCH; i++)
        if (value == ggml_scratch(i))
            return (shoal_binding){b->device->workspace, b->step->scratch[i].at};
    return place_of(r, value);
}

static shoal_status check_buffers(const shoal_executable *x, const shoal_binding *buffers,
                                  size_t n_buffers) {
    const shoal_graph *g = x->g;
    if (n_buffers != (size_t)g->n_inputs + g->n_outputs)
        return base_fail(SHOAL_INVALID, "ggml: %zu buffers for %u inputs and %u outputs", n_buffers,
                         g->n_inputs, g->n_outputs);
    for (size_t i = 0; i < n_buffers; i++) {
        bool in = i < g->n_inputs;
        uint32_t value = in ? g->inputs[i] : g->outputs[i - g->n_inputs];
        size_t element = shoal_dtype_size((shoal_dtype)g->values[value].type.dtype);
        const shoal_memory *memory = buffers[i].memory;
        void *where;
        SHOAL_TRY(backend_bind((backend_span){memory->base, memory->bytes, buffers[i].offset},
                               bytes_of(x, value),
                               x->device->shares ? element : x->device->alignment,
                               in ? "input" : "output", in ? i : i - g->n_inputs, &where));
    }
    return SHOAL_OK;
}

static shoal_status ready_workspace(shoal_device *device, size_t bytes) {
    if (!bytes || (device->workspace && device->workspace->bytes >= bytes)) return SHOAL_OK;
    ggml_memory_free(device, device->workspace);
    device->workspace = NULL;
    return ggml_memory_new(device, bytes, &device->workspace);
}

static shoal_status compute(const running *r) {
    const shoal_executable *x = r->x;
    const ggml_library *ggml = x->device->ggml;
    size_t room = ggml_context_bytes(ggml, x->n_steps);
    if (!x->n_steps) return SHOAL_OK;
    ggml_builder b = {.device = x->device, .g = x->g, .at = at, .owner = r};
    b.context = ggml->init((ggml_settings){room, x->storage, true});
    if (!b.context) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory to run");
    b.graph = ggml->new_graph_custom(b.context, (x->n_steps + (size_t)1) * GGML_TENSORS, false);
    for (uint32_t s = 0; s < x->n_steps; s++) {
        b.step = &x->steps[s];
        ggml_build(&b);
    }
    int code = b.refused ? -1 : ggml->backend_graph_compute(x->device->engine, b.graph);
    ggml->free(b.context);
    return code ? base_fail(SHOAL_LOST, "ggml: %s: computing a graph failed: %d", x->device->name,
                            code)
                : SHOAL_OK;
}

/* Results that lie elsewhere are copied to their outputs: what was given in, constants, what is a
 * result twice. */
static shoal_status copy_outputs(const running *r) {
    const shoal_executable *x = r->x;
    for (uint32_t o = 0; o < x->g->n_outputs; o++) {
        uint32_t v = x->g->outputs[o];
        const backend_place *root = &x->values[x->shared[v].root];
        shoal_binding from = place_of(r, v), to = r->buffers[x->g->n_inputs + o];
        if ((root->kind == BACKEND_OUTPUT && root->place == o) ||
            (from.memory == to.memory && from.offset == to.offset))
            continue;
        SHOAL_TRY(ggml_move(x->device, to, from, bytes_of(x, v)));
    }
    return SHOAL_OK;
}

static shoal_status run_all(const shoal_executable *x, const shoal_binding *buffers,
                            size_t n_buffers) {
    const running r = {x, buffers};
    SHOAL_TRY(check_buffers(x, buffers, n_buffers));
    SHOAL_TRY(ready_workspace(x->device, x->workspace));
    SHOAL_TRY(compute(&r));
    return copy_outputs(&r);
}

shoal_status ggml_run(shoal_device *device, shoal_executable *executable,
                      const shoal_binding *buffers, size_t n_buffers, const shoal_points *points) {
    shoal_status status = backend_wait_all(points);
    if (!status) status = run_all(executable, buffers, n_buffers);
    return backend_signal_all(points, status);
}
