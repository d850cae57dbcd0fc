/* From a graph to a program: which step runs each node, and where each value lies.
 *
 * Values that are another value's elements in the same order (reshape and the like) share its
 * memory; broadcasts that only elementwise steps read stay views. What remains lies in the
 * caller's outputs or in one workspace, whose parts are reused as soon as their value was read for
 * the last time. */
#include "backend/cpu/cpu.h"

#include "base/vec.h"

#include <stdlib.h>

static int64_t count_of(const cpu_program *p, uint32_t value) {
    return base_type_count(&p->g->values[value].type);
}

static size_t bytes_of(const cpu_program *p, uint32_t value) {
    return (size_t)base_type_bytes(&p->g->values[value].type);
}

/* ---- values that need no memory of their own ---- */

static void mark_dense(const cpu_kernels *kernels, cpu_program *p) {
    for (uint32_t i = 0; i < p->g->n_nodes; i++) {
        const shoal_node *node = &p->g->nodes[i];
        bool reads_views = node->n_inputs > 1 && cpu_map_kernel_of(kernels, p->g, node);
        for (uint32_t k = 0; !reads_views && k < node->n_inputs; k++)
            p->values[node->inputs[k]].needs_dense = true;
    }
    for (uint32_t i = 0; i < p->g->n_outputs; i++) p->values[p->g->outputs[i]].needs_dense = true;
}

/* Whether a copy would leave the elements in order, so that it need not be made. */
static bool is_identity(const cpu_program *p, const shoal_node *node) {
    if (node->n_inputs != 1 || count_of(p, node->inputs[0]) != count_of(p, node->first_output))
        return false;
    if (node->op == GRAPH_RESHAPE || node->op == GRAPH_PLACE) return true;
    if (!cpu_is_move(node->op)) return false;
    ref_view view = ref_view_of(p->g, node, 0);
    cpu_merge_view(&view);
    return view.from_start == 0 && (!view.rank || (view.rank == 1 && view.from[0] == 1));
}

/* Whether map steps can read a broadcast in place: its innermost axis is dense or repeated. */
static bool is_readable_view(const ref_view *view) {
    for (uint32_t i = view->rank; i-- > 0;)
        if (view->dims[i] != 1) return view->from[i] == 0 || view->from[i] == 1;
    return true;
}

/* Settles a node without a step, if that is possible. */
static bool share(cpu_program *p, const shoal_node *node) {
    uint32_t v = node->first_output;
    cpu_value *value = &p->values[v];
    if (node->op == GRAPH_CONSTANT) {
        const shoal_attr *data = shoal_node_attr(node, SHOAL_ATTR_VALUE);
        value->constant = data->u.bytes;
        value->is_view = data->count != bytes_of(p, v); /* a splat: all strides are 0 */
        if (value->is_view && value->needs_dense) {
            value->is_view = false;
            return false;
        }
        value->kind = CPU_CONSTANT;
        return true;
    }
    if (is_identity(p, node)) {
        value->root = p->values[node->inputs[0]].root;
        return true;
    }
    if (node->op != GRAPH_BROADCAST_IN_DIM || value->needs_dense) return false;
    ref_view view = ref_view_of(p->g, node, 0);
    if (!is_readable_view(&view)) return false;
    value->root = p->values[node->inputs[0]].root;
    value->is_view = true;
    memcpy(value->strides, view.from, sizeof value->strides);
    return true;
}

/* ---- steps ---- */

static shoal_status run_reference(const cpu_run *run, const cpu_step *step) {
    const void *few[8], **inputs = few;
    if (step->node->n_inputs > 8 && !(inputs = malloc(step->node->n_inputs * sizeof *inputs)))
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for %u operands", step->node->n_inputs);
    for (uint32_t k = 0; k < step->node->n_inputs; k++) inputs[k] = run->at[step->node->inputs[k]];
    ref_call call = {run->program->g, step->node, inputs, &run->at[step->node->first_output]};
    shoal_status status = ref_kernel_of(step->node->op)(&call);
    if (inputs != few) free(inputs);
    return status;
}

static shoal_status run_fill(const cpu_run *run, const cpu_step *step) {
    uint32_t v = step->node->first_output;
    const shoal_type *type = &run->program->g->values[v].type;
    ref_view view = {.rank = 1, .dims = {base_type_count(type)}, .to = {1}};
    cpu_copy_view(run->device, &view, run->at[v], run->program->values[v].constant,
                  shoal_dtype_size((shoal_dtype)type->dtype));
    return SHOAL_OK;
}

static void add_step(const cpu_kernels *kernels, cpu_program *p, const shoal_node *node) {
    cpu_step *step = &p->steps[p->n_steps++];
    step->node = node;
    cpu_map_kernel kernel = cpu_map_kernel_of(kernels, p->g, node);
    if (kernel) {
        cpu_map_prepare(p, kernel, step);
    } else if (cpu_is_move(node->op)) {
        step->run = cpu_move_run;
    } else if (node->op == GRAPH_CONSTANT) {
        step->run = run_fill;
    } else if (!(node->op == GRAPH_DOT_GENERAL && cpu_dot_prepare(p, step)) &&
               !(node->op == GRAPH_REDUCE && cpu_reduce_prepare(kernels, p, step))) {
        step->run = run_reference;
    }
}

static void add_steps(const cpu_kernels *kernels, cpu_program *p) {
    for (uint32_t v = 0; v < p->g->n_values; v++) p->values[v].root = v;
    for (uint32_t i = 0; i < p->g->n_inputs; i++) {
        cpu_value *value = &p->values[p->g->inputs[i]];
        value->kind = CPU_INPUT;
        value->place = i;
    }
    mark_dense(kernels, p);
    for (uint32_t i = 0; i < p->g->n_nodes; i++)
        if (!share(p, &p->g->nodes[i])) add_step(kernels, p, &p->g->nodes[i]);
}

/* ---- where values lie ---- */

static void find_last_uses(cpu_program *p) {
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const shoal_node *node = p->steps[s].node;
        for (uint16_t o = 0; o < node->n_outputs; o++) p->values[node->first_output + o].last = s;
        for (uint32_t k = 0; k < node->n_inputs; k++)
            p->values[p->values[node->inputs[k]].root].last = s;
    }
    for (uint32_t i = 0; i < p->g->n_outputs; i++)
        p->values[p->values[p->g->outputs[i]].root].last = p->n_steps;
}

/* A value that a step computes goes straight to the first output that wants it. */
static void place_outputs(cpu_program *p) {
    for (uint32_t i = 0; i < p->g->n_outputs; i++) {
        cpu_value *root = &p->values[p->values[p->g->outputs[i]].root];
        if (root->kind != CPU_NOWHERE) continue;
        root->kind = CPU_OUTPUT;
        root->place = i;
    }
}

/* Whether a step may write its result over the memory of value `root`: it reads each element of it
 * only to compute the same element. */
static bool may_overwrite(const cpu_program *p, const cpu_step *step, uint32_t root) {
    const shoal_node *node = step->node;
    const shoal_type *out = &p->g->values[node->first_output].type;
    if (step->run != cpu_map_run || bytes_of(p, root) != bytes_of(p, node->first_output))
        return false;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        uint32_t in = node->inputs[k];
        if (p->values[in].root != root) continue;
        const shoal_type *type = &p->g->values[in].type;
        bool same = shoal_dtype_size((shoal_dtype)type->dtype) ==
                        shoal_dtype_size((shoal_dtype)out->dtype) &&
                    count_of(p, in) == count_of(p, node->first_output);
        if (p->values[in].is_view || !same) return false;
    }
    return true;
}

/* A part of the workspace that is taken. */
typedef struct part {
    size_t from, to;
    uint32_t last; /* step after which it is free */
} part;
typedef BASE_VEC(part) part_list; /* in rising order */

static shoal_status take(cpu_program *p, part_list *parts, size_t bytes, uint32_t last,
                         size_t *from) {
    size_t at = 0, i = 0;
    bytes = (bytes + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN;
    while (i < parts->count && parts->data[i].from - at < bytes) at = parts->data[i++].to;
    if (!base_vec_reserve(parts)) return SHOAL_NO_MEMORY;
    memmove(&parts->data[i + 1], &parts->data[i], (parts->count - i) * sizeof parts->data[0]);
    parts->data[i] = (part){at, at + bytes, last};
    parts->count++;
    if (at + bytes > p->workspace) p->workspace = at + bytes;
    *from = at;
    return SHOAL_OK;
}

static void release(part_list *parts, uint32_t step) {
    size_t kept = 0;
    for (size_t i = 0; i < parts->count; i++)
        if (parts->data[i].last > step) parts->data[kept++] = parts->data[i];
    parts->count = kept;
}

/* Gives the step's result the memory of an operand that ends here. */
static bool take_over(cpu_program *p, uint32_t s, part_list *parts) {
    const cpu_step *step = &p->steps[s];
    cpu_value *out = &p->values[step->node->first_output];
    for (uint32_t k = 0; k < step->node->n_inputs; k++) {
        uint32_t root = p->values[step->node->inputs[k]].root;
        const cpu_value *in = &p->values[root];
        /* A value of no bytes lies where another may begin. */
        if (!bytes_of(p, root)) continue;
        if (in->kind != CPU_WORKSPACE || in->last != s || !may_overwrite(p, step, root)) continue;
        out->place = in->place;
        for (size_t i = 0; i < parts->count; i++)
            if (parts->data[i].from == in->place && parts->data[i].to > in->place)
                parts->data[i].last = out->last;
        return true;
    }
    return false;
}

static shoal_status place_step(cpu_program *p, uint32_t s, part_list *parts) {
    cpu_step *step = &p->steps[s];
    for (uint16_t o = 0; o < step->node->n_outputs; o++) {
        uint32_t v = step->node->first_output + o;
        if (p->values[v].kind != CPU_NOWHERE) continue;
        p->values[v].kind = CPU_WORKSPACE;
        /* What has several results has no fast step, and takes over nothing. */
        if (step->node->n_outputs > 1 || !take_over(p, s, parts))
            SHOAL_TRY(take(p, parts, bytes_of(p, v), p->values[v].last, &p->values[v].place));
    }
    if (step->run == cpu_dot_run)
        for (int side = 0; side < 2; side++) {
            cpu_matrix *x = side ? &step->u.dot.rhs : &step->u.dot.lhs;
            size_t bytes = bytes_of(p, step->node->inputs[side]);
            if (x->pack) SHOAL_TRY(take(p, parts, bytes, s, &x->scratch));
        }
    release(parts, s);
    return SHOAL_OK;
}

static shoal_status place_values(cpu_program *p) {
    part_list parts = {0};
    shoal_status status = SHOAL_OK;
    find_last_uses(p);
    place_outputs(p);
    for (uint32_t s = 0; !status && s < p->n_steps; s++) status = place_step(p, s, &parts);
    free(parts.data);
    return status;
}

/* ---- outputs in place of inputs ---- */

static bool may_share(const cpu_program *p, uint32_t output, uint32_t step, uint32_t input) {
    uint32_t v = p->g->inputs[input];
    if (bytes_of(p, v) != bytes_of(p, p->g->outputs[output])) return false;
    uint32_t last = p->values[v].last;
    return last < step || (last == step && may_overwrite(p, &p->steps[step], v));
}

static shoal_status report_in_place(const cpu_program *p, const bool *frozen, int32_t *in_place) {
    bool *taken = calloc((size_t)p->g->n_inputs + 1, sizeof *taken);
    if (!taken) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory to compile");
    for (uint32_t o = 0; o < p->g->n_outputs; o++) in_place[o] = -1;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const cpu_value *value = &p->values[p->steps[s].node->first_output];
        if (value->kind != CPU_OUTPUT || p->steps[s].node->n_outputs > 1) continue;
        uint32_t o = (uint32_t)value->place;
        for (uint32_t i = 0; i < p->g->n_inputs && in_place[o] < 0; i++)
            if (!taken[i] && !(frozen && frozen[i]) && may_share(p, o, s, i)) {
                in_place[o] = (int32_t)i;
                taken[i] = true;
            }
    }
    free(taken);
    return SHOAL_OK;
}

/* ---- programs ---- */

static shoal_status build(shoal_device *device, const shoal_graph *g,
                          const shoal_compile_options *options, shoal_compile_report *report,
                          cpu_program *p) {
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!ref_supports(&g->nodes[i]))
            return base_fail(SHOAL_UNSUPPORTED, "cpu: cannot run operation '%s'",
                             shoal_op_name(g->nodes[i].op));
    SHOAL_TRY(graph_new(0, &p->graph));
    SHOAL_TRY(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, p->graph));
    p->g = graph_data(p->graph);
    p->values = calloc((size_t)p->g->n_values + 1, sizeof *p->values);
    p->at = calloc((size_t)p->g->n_values + 1, sizeof *p->at);
    p->steps = calloc((size_t)p->g->n_nodes + 1, sizeof *p->steps);
    if (!p->values || !p->at || !p->steps)
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for %u steps", p->g->n_nodes);
    add_steps(device->kernels, p);
    SHOAL_TRY(place_values(p));
    report->workspace = p->workspace;
    report->packed = 0;
    const bool *frozen = options ? options->frozen : NULL;
    return report->in_place ? report_in_place(p, frozen, report->in_place) : SHOAL_OK;
}

shoal_status cpu_program_new(shoal_device *device, const shoal_graph *g,
                             const shoal_compile_options *options, shoal_compile_report *report,
                             cpu_program **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for a program");
    shoal_status status = build(device, g, options, report, *out);
    if (status) cpu_program_destroy(out);
    return status;
}

void cpu_program_destroy(cpu_program **program) {
    cpu_program *p = *program;
    *program = NULL;
    if (!p) return;
    graph_destroy(&p->graph);
    free(p->values);
    free(p->at);
    free(p->steps);
    free(p);
}

static void *address(const cpu_program *p, const cpu_value *root, void *const *buffers,
                     char *workspace) {
    switch (root->kind) {
    case CPU_INPUT: return buffers[root->place];
    case CPU_OUTPUT: return buffers[p->g->n_inputs + root->place];
    case CPU_CONSTANT: return (void *)root->constant; /* nobody writes to it */
    case CPU_WORKSPACE: return workspace + root->place;
    default: return NULL;
    }
}

shoal_status cpu_program_run(shoal_device *device, const cpu_program *p, void *const *buffers) {
    const shoal_graph *g = p->g;
    shoal_memory *memory;
    SHOAL_TRY(cpu_memory_new(device, p->workspace, &memory));
    cpu_run run = {device, p, p->at, memory->data};
    for (uint32_t v = 0; v < g->n_values; v++)
        run.at[v] = address(p, &p->values[p->values[v].root], buffers, run.workspace);
    shoal_status status = SHOAL_OK;
    for (uint32_t s = 0; !status && s < p->n_steps; s++)
        status = p->steps[s].run(&run, &p->steps[s]);
    for (uint32_t i = 0; !status && i < g->n_outputs; i++) {
        void *to = buffers[g->n_inputs + i];
        const void *from = run.at[g->outputs[i]];
        if (to != from && bytes_of(p, g->outputs[i])) memcpy(to, from, bytes_of(p, g->outputs[i]));
    }
    cpu_memory_free(device, memory);
    return status;
}
