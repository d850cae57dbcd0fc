/* The reference as a backend: its interpreter and its device on plain host memory. Everything is
 * done before run() and copy() return. */
#include "backend/ref/ref.h"

#include "backend/common.h"
#include "backend/custom.h"
#include "base/os_cpu.h"
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- kernels ---- */

shoal_status ref_none(const ref_call *call) {
    return base_fail(SHOAL_UNSUPPORTED, "%s: not an operation of one device",
                     shoal_op_name(call->node->op));
}

ref_kernel ref_kernel_of(uint16_t op) {
    static const ref_kernel table[GRAPH_OP_BUILT_IN] = {
#define OP(name, NAME, category, least, most, required, optional, regions, shape, rule, local,     \
           cost, kernel, decomposition, derivative, batching, reads, summary)                      \
    [GRAPH_##NAME] = ref_##kernel,
#include "graph/ops.def"
#undef OP
    };
    return op < GRAPH_OP_BUILT_IN && table[op] != ref_none ? table[op] : NULL;
}

bool ref_supports(const shoal_node *node) {
    if (!ref_kernel_of(node->op)) return false;
    if (node->op == GRAPH_CUSTOM)
        return backend_custom_find(shoal_node_attr(node, SHOAL_ATTR_NAME)->u.string);
    for (uint16_t i = 0; i < node->n_regions; i++)
        for (uint32_t j = 0; j < node->regions[i]->n_nodes; j++)
            if (!ref_supports(&node->regions[i]->nodes[j])) return false;
    return true;
}

/* ---- the interpreter ---- */

struct ref_frame {
    const shoal_graph *graph;
    char *storage;
    void **values;         /* per value: where it lies */
    const void **operands; /* of the node at hand */
};

/* Bytes of the values that nodes define, each rounded up so that all are aligned. */
size_t ref_frame_bytes(const shoal_graph *g) {
    size_t bytes = 0;
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->values[v].node != SHOAL_NO_NODE)
            bytes += ((size_t)base_type_bytes(&g->values[v].type) + 63) & ~(size_t)63;
    return bytes;
}

shoal_status ref_frame_new(const shoal_graph *g, ref_frame **out) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].n_inputs > most) most = g->nodes[i].n_inputs;
    size_t bytes = ref_frame_bytes(g);
    ref_frame *frame = calloc(1, sizeof *frame);
    *out = frame;
    if (frame) {
        frame->graph = g;
        frame->storage = aligned_alloc(64, bytes + 64);
        frame->values = calloc((size_t)g->n_values + 1, sizeof *frame->values);
        frame->operands = calloc((size_t)most + 1, sizeof *frame->operands);
    }
    if (!frame || !frame->storage || !frame->values || !frame->operands) {
        ref_frame_destroy(out);
        return base_fail(SHOAL_NO_MEMORY, "ref: no memory for %zu bytes of values", bytes);
    }
    size_t at = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->values[v].node == SHOAL_NO_NODE) continue;
        frame->values[v] = frame->storage + at;
        at += ((size_t)base_type_bytes(&g->values[v].type) + 63) & ~(size_t)63;
    }
    return SHOAL_OK;
}

void ref_frame_destroy(ref_frame **frame) {
    if (!*frame) return;
    free((*frame)->storage);
    free((*frame)->values);
    free((*frame)->operands);
    free(*frame);
    *frame = NULL;
}

shoal_status ref_frame_run(ref_frame *frame, const void *const *inputs, void *const *outputs) {
    const shoal_graph *g = frame->graph;
    /* Nobody writes to an input: a value is written by its node alone. */
    for (uint32_t i = 0; i < g->n_inputs; i++) frame->values[g->inputs[i]] = (void *)inputs[i];
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        for (uint32_t i = 0; i < node->n_inputs; i++)
            frame->operands[i] = frame->values[node->inputs[i]];
        ref_call call = {g, node, frame->operands, &frame->values[node->first_output]};
        ref_kernel kernel = ref_kernel_of(node->op);
        SHOAL_TRY(kernel ? kernel(&call) : ref_none(&call));
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const shoal_type *type = &g->values[g->outputs[i]].type;
        memcpy(outputs[i], frame->values[g->outputs[i]], (size_t)base_type_bytes(type));
    }
    return SHOAL_OK;
}

shoal_status ref_evaluate(void *context, const shoal_graph *g, const void *const *inputs,
                          void *const *outputs) {
    ref_frame *frame;
    SHOAL_TRY(ref_frame_new(g, &frame));
    shoal_status status = ref_frame_run(frame, inputs, outputs);
    ref_frame_destroy(&frame);
    return status;
}

/* ---- the device ---- */

struct shoal_device {
    const shoal_host *host;
};

struct shoal_memory {
    void *data;
    size_t bytes;
    bool imported;
};

struct shoal_executable {
    graph *graph; /* a copy: the caller's may go */
};

static uint32_t count(const shoal_host *host) { return 1; }

static shoal_status info(const shoal_host *host, uint32_t index, shoal_device_info *out) {
    *out = (shoal_device_info){.name = "plain C, 1 thread",
                               .memory = base_cpu_memory(),
                               .threads = 1,
                               .flags = SHOAL_DEVICE_HOST_MEMORY | SHOAL_DEVICE_IMPORT_HOST |
                                        SHOAL_DEVICE_IMPORT_FILE,
                               .alignment = 64};
    return SHOAL_OK;
}

static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    if (index > 0) return base_fail(SHOAL_NOT_FOUND, "ref: there is no device %u, only 0", index);
    *out = malloc(sizeof **out);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "ref: no memory for a device");
    (*out)->host = host;
    return SHOAL_OK;
}

static void device_free(shoal_device *device) { free(device); }

static shoal_status memory_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    shoal_memory *memory = malloc(sizeof *memory);
    void *data = bytes > PTRDIFF_MAX - 64 ? NULL : aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    if (!memory || !data) {
        free(memory);
        free(data);
        return base_fail(SHOAL_NO_MEMORY, "ref: no memory for %zu bytes", bytes);
    }
    *memory = (shoal_memory){.data = data, .bytes = bytes};
    *out = memory;
    return SHOAL_OK;
}

static shoal_status memory_import(shoal_device *device, const shoal_import *from,
                                  shoal_memory **out) {
    *out = malloc(sizeof **out);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "ref: no memory to import a block");
    **out = (shoal_memory){.data = from->data, .bytes = from->bytes, .imported = true};
    return SHOAL_OK;
}

static void memory_free(shoal_device *device, shoal_memory *memory) {
    if (memory && !memory->imported) free(memory->data);
    free(memory);
}

static void *memory_host(shoal_device *device, shoal_memory *memory) { return memory->data; }

static backend_span span_of(shoal_binding place) {
    return (backend_span){place.memory->data, place.memory->bytes, place.offset};
}

static shoal_status read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                         const shoal_points *points) {
    return backend_copy_box(backend_host_span(to), span_of(from), box, points);
}

static shoal_status write(shoal_device *device, shoal_binding to, const void *from,
                          const shoal_box *box, const shoal_points *points) {
    return backend_copy_box(span_of(to), backend_host_span(from), box, points);
}

static shoal_status copy(shoal_device *device, shoal_binding to, shoal_binding from,
                         const shoal_box *box, const shoal_points *points) {
    return backend_copy_box(span_of(to), span_of(from), box, points);
}

static bool supports(shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    return ref_supports(node);
}

static shoal_status compile(shoal_device *device, const shoal_graph *g,
                            const shoal_compile_options *options, shoal_compile_report *report,
                            shoal_executable **out) {
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!ref_supports(&g->nodes[i])) return backend_cannot_run("ref", &g->nodes[i]);
    shoal_executable *executable = calloc(1, sizeof *executable);
    if (!executable) return base_fail(SHOAL_NO_MEMORY, "ref: no memory for a program");
    shoal_status status = graph_new(0, &executable->graph);
    if (!status)
        status =
            graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, executable->graph);
    if (status) {
        graph_destroy(&executable->graph);
        free(executable);
        return status;
    }
    report->workspace = ref_frame_bytes(graph_data(executable->graph));
    report->packed = 0;
    for (uint32_t i = 0; report->in_place && i < g->n_outputs; i++) report->in_place[i] = -1;
    *out = executable;
    return SHOAL_OK;
}

static void executable_free(shoal_device *device, shoal_executable *executable) {
    if (executable) graph_destroy(&executable->graph);
    free(executable);
}

static shoal_status run_graph(const shoal_graph *g, const shoal_binding *buffers,
                              size_t n_buffers) {
    if (n_buffers != (size_t)g->n_inputs + g->n_outputs)
        return base_fail(SHOAL_INVALID, "ref: %zu buffers for %u inputs and %u outputs", n_buffers,
                         g->n_inputs, g->n_outputs);
    void **at = calloc(n_buffers + 1, sizeof *at);
    ref_frame *frame = NULL;
    shoal_status status = at ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "ref: no memory for a run");
    for (size_t i = 0; !status && i < n_buffers; i++) {
        bool in = i < g->n_inputs;
        uint32_t value = in ? g->inputs[i] : g->outputs[i - g->n_inputs];
        const shoal_type *type = &g->values[value].type;
        status = backend_bind(
            (backend_span){buffers[i].memory->data, buffers[i].memory->bytes, buffers[i].offset},
            (size_t)base_type_bytes(type), shoal_dtype_size((shoal_dtype)type->dtype),
            in ? "input" : "output", in ? i : i - g->n_inputs, &at[i]);
    }
    if (!status) status = ref_frame_new(g, &frame);
    if (!status) status = ref_frame_run(frame, (const void *const *)at, at + g->n_inputs);
    ref_frame_destroy(&frame);
    free(at);
    return status;
}

static shoal_status run(shoal_device *device, shoal_executable *executable,
                        const shoal_binding *buffers, size_t n_buffers,
                        const shoal_points *points) {
    shoal_status status = backend_wait_all(points);
    if (!status) status = run_graph(graph_data(executable->graph), buffers, n_buffers);
    return backend_signal_all(points, status);
}

const shoal_backend backend_ref = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_backend),
    .name = "ref",
    .summary = "plain C loops: defines what every operation means",
    .device_count = count,
    .device_info = info,
    .device_new = device_new,
    .device_free = device_free,
    .memory_new = memory_new,
    .memory_import = memory_import,
    .memory_free = memory_free,
    .memory_host = memory_host,
    .read = read,
    .write = write,
    .copy = copy,
    .supports = supports,
    .compile = compile,
    .executable_free = executable_free,
    .run = run,
};
