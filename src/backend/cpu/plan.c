/* From a graph to a program: which step runs each node.
 *
 * What is one pass, and which values share others' memory, is fuse/'s to find; here is what cpu can
 * take: elementwise nodes with a kernel become regions, reductions take their operand from the
 * region that computes it; every other node is a step of its own. */
#include "backend/cpu/cpu.h"
#include "backend/common.h"

#include <stdlib.h>

static size_t bytes_of(const cpu_program *p, uint32_t value) {
    return (size_t)base_type_bytes(&p->g->values[value].type);
}

/* ---- steps that are one node ---- */

static shoal_status run_reference(const cpu_run *run, const cpu_step *step) {
    const void *few[8], **inputs = few;
    if (step->n_reads > 8 && !(inputs = malloc(step->n_reads * sizeof *inputs)))
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for %u operands", step->n_reads);
    for (uint32_t k = 0; k < step->n_reads; k++) inputs[k] = run->at[step->reads[k]];
    ref_call call = {run->program->g, step->node, inputs, &run->at[step->node->first_output]};
    shoal_status status = ref_kernel_of(step->node->op)(&call);
    if (inputs != few) free(inputs);
    return status;
}

typedef struct random_job {
    ref_call call;
    const cpu_kernels *kernels;
} random_job;

static void random_part(void *context, uint32_t part, int64_t begin, int64_t end) {
    const random_job *j = context;
    ref_random_part(&j->call, begin, end, j->kernels->random,
                    j->kernels->convert[SHOAL_F64][ref_output(&j->call)->dtype]);
}

static shoal_status run_random(const cpu_run *run, const cpu_step *step) {
    const void *inputs[2];
    for (uint32_t k = 0; k < step->n_reads; k++) inputs[k] = run->at[step->reads[k]];
    random_job j = {
        .call = {run->program->g, step->node, inputs, &run->at[step->node->first_output]},
        .kernels = run->device->kernels};
    int64_t count = base_type_count(ref_output(&j.call));
    if (count) cpu_parallel(run->device, count, CPU_TILE, random_part, &j);
    return SHOAL_OK;
}

static shoal_status run_fill(const cpu_run *run, const cpu_step *step) {
    uint32_t v = step->node->first_output;
    const shoal_type *type = &run->program->g->values[v].type;
    ref_view view = {.rank = 1, .dims = {base_type_count(type)}, .to = {1}};
    cpu_copy_view(run->device, &view, run->at[v], run->program->values[v].constant,
                  shoal_dtype_size((shoal_dtype)type->dtype));
    return SHOAL_OK;
}

static shoal_status add_step(shoal_device *device, cpu_program *p, const shoal_node *node) {
    const cpu_kernels *kernels = device->kernels;
    shoal_status status = SHOAL_OK;
    cpu_step *step = &p->steps[p->n_steps++];
    uint32_t *writes = base_arena_array(&p->arena, uint32_t, node->n_outputs);
    if (!writes) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_outputs; i++) writes[i] = node->first_output + i;
    step->node = node;
    step->n_reads = node->n_inputs;
    step->reads = node->inputs;
    step->n_writes = node->n_outputs;
    step->writes = writes;
    if (p->packed[node - p->g->nodes] != SHOAL_NO_NODE) return cpu_packed_prepare(kernels, p, step);
    if (cpu_is_move(node->op))
        step->run = cpu_move_run;
    else if (node->op == GRAPH_CONSTANT) {
        p->values[node->first_output].kind = BACKEND_NOWHERE;
        step->run = run_fill;
    } else if (node->op == GRAPH_RANDOM)
        step->run = run_random;
    else if (cpu_widens_bytes(p->g, node))
        step->run = cpu_widen_run;
    else if (node->op == GRAPH_IN_RANGE)
        step->run = cpu_in_range_run;
    else if (cpu_dot_fits(kernels, p->g, node))
        return cpu_dot_prepare(kernels, p, step);
    else if (cpu_control_fits(node))
        return cpu_control_prepare(device, p, step);
    else if (cpu_convolve_fits(kernels, p->g, node))
        return cpu_convolve_prepare(kernels, p, step);
    else if (cpu_attention_fits(kernels, p->g, node))
        return cpu_attention_prepare(kernels, p, step);
    else if (cpu_windows_fits(kernels, p->g, node))
        return cpu_windows_prepare(kernels, p, step);
    else if (cpu_scatter_windows_fits(p->g, node))
        return cpu_scatter_windows_prepare(kernels, p, step);
    else if (cpu_reduce_fits(kernels, p->g, node))
        cpu_reduce_prepare(kernels, p, node, NULL, step);
    else if (!cpu_index_prepare(kernels, p, step, &status) &&
             !cpu_order_prepare(kernels, p, step) && !cpu_row_prepare(kernels, p, step) &&
             !cpu_unpack_prepare(kernels, p, step))
        step->run = run_reference;
    return status;
}

/* ---- steps that are kernels ---- */

/* A step's lists of values: those of a region's sources, and one more. */
static shoal_status list_reads(cpu_program *p, const cpu_region *r, uint32_t more, cpu_step *step) {
    uint32_t *reads = base_arena_array(&p->arena, uint32_t, r->n_sources + (size_t)1);
    if (!reads) return SHOAL_NO_MEMORY;
    step->reads = reads;
    for (uint32_t i = 0; i < r->n_sources; i++)
        if (!r->sources[i].counts) reads[step->n_reads++] = r->sources[i].value;
    if (more != GRAPH_NO_VALUE) reads[step->n_reads++] = more;
    return SHOAL_OK;
}

static shoal_status list_writes(cpu_program *p, const fuse_kernel *kernel, cpu_step *step) {
    uint32_t *writes = base_arena_array(&p->arena, uint32_t, kernel->n_stores);
    if (!writes) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < kernel->n_stores; i++) writes[i] = kernel->stores[i].value;
    step->writes = writes;
    step->n_writes = kernel->n_stores;
    return SHOAL_OK;
}

/* The value whose 16-bit numbers are widened to be joined, and no more is done before; else
 * GRAPH_NO_VALUE. */
static uint32_t widened_by(const cpu_program *p, const fuse_kernel *kernel) {
    const fuse_operation *first = &kernel->operations[0], *last = first + 1;
    if (kernel->n_operations != 2 || first->op != GRAPH_CONVERT || first->dtype != SHOAL_F32 ||
        (first->from != SHOAL_F16 && first->from != SHOAL_BF16) || kernel->n_stores != 1 ||
        last->node->inputs[0] != first->node->first_output ||
        kernel->loads[first->args[0]].kind != FUSE_MEMORY)
        return GRAPH_NO_VALUE;
    uint32_t value = first->node->inputs[0];
    return cpu_root_of(p, value) == value ? value : GRAPH_NO_VALUE;
}

/* A reduction, with the region that computes its operand if there is one. */
static shoal_status add_reduce(cpu_program *p, const cpu_kernels *kernels,
                               const fuse_kernel *kernel, cpu_step *step) {
    const fuse_operation *last = &kernel->operations[kernel->n_operations - 1];
    const shoal_node *node = last->node;
    cpu_region *inside = NULL;
    uint32_t narrow = widened_by(p, kernel);
    step->node = node;
    if (narrow != GRAPH_NO_VALUE) {
        uint32_t *reads = base_arena_array(&p->arena, uint32_t, 2);
        if (!reads) return SHOAL_NO_MEMORY;
        reads[0] = narrow;
        reads[1] = node->inputs[1];
        step->reads = reads;
        step->n_reads = 2;
    } else if (kernel->n_operations > 1 || kernel->loads[last->args[0]].kind == FUSE_POSITION) {
        inside = base_arena_alloc(&p->arena, sizeof *inside);
        if (!inside) return SHOAL_NO_MEMORY;
        SHOAL_TRY(cpu_region_prepare(p, kernels, kernel, inside));
        SHOAL_TRY(list_reads(p, inside, node->inputs[1], step));
    } else {
        step->reads = node->inputs;
        step->n_reads = node->n_inputs;
    }
    cpu_reduce_prepare(kernels, p, node, inside, step);
    return list_writes(p, kernel, step);
}

static shoal_status add_kernel(cpu_program *p, const cpu_kernels *kernels,
                               const fuse_kernel *kernel) {
    cpu_step *step = &p->steps[p->n_steps++];
    if (kernel->passes) return add_reduce(p, kernels, kernel, step);
    step->run = cpu_region_run;
    SHOAL_TRY(cpu_region_prepare(p, kernels, kernel, &step->u.region));
    SHOAL_TRY(list_reads(p, &step->u.region, GRAPH_NO_VALUE, step));
    return list_writes(p, kernel, step);
}

/* Regions read views whose last axis is dense or repeated, products and copies read any. */
static fuse_choice choose(const cpu_kernels *kernels, const shoal_graph *g,
                          const shoal_node *node) {
    fuse_choice choice = {.role = FUSE_OWN};
    if (cpu_map_kernel_of(kernels, g, node)) {
        choice.role = FUSE_MAP;
        choice.views = node->n_inputs > 1 ? UINT32_MAX : 0;
    } else if (node->op == GRAPH_IOTA) {
        choice.role = FUSE_MAP;
    } else if (cpu_reduce_fits(kernels, g, node)) {
        choice.role = (uint8_t)fuse_may_take(g, node);
    } else if (cpu_is_move(node->op) || cpu_dot_fits(kernels, g, node)) {
        choice.views = UINT32_MAX;
    } else if (cpu_attention_fits(kernels, g, node)) {
        for (uint32_t k = 0; k < node->n_inputs; k++)
            choice.views |= (uint32_t)cpu_attention_reads_view(node, k) << k;
    } else {
        choice.views = cpu_index_views(kernels, g, node);
    }
    return choice;
}

static void find_constants(cpu_program *p) {
    for (uint32_t n = 0; n < p->g->n_nodes; n++) {
        const shoal_node *node = &p->g->nodes[n];
        if (node->op != GRAPH_CONSTANT) continue;
        backend_place *value = &p->values[node->first_output];
        value->constant = shoal_node_attr(node, SHOAL_ATTR_VALUE)->u.bytes;
        value->kind = BACKEND_CONSTANT;
    }
}

/* in_range hands on what it has looked at: its result, and what lies in that, lies in its operand.
 */
static shoal_status share_looked_at(cpu_program *p) {
    const shoal_graph *g = p->g;
    fuse_value *values = base_arena_copy(&p->arena, p->plan.values, g->n_values * sizeof *values);
    if (!values) return SHOAL_NO_MEMORY;
    for (uint32_t v = 0; v < g->n_values; v++) {
        uint32_t root = values[v].root, n = g->values[root].node;
        bool looks = n != SHOAL_NO_NODE && g->nodes[n].op == GRAPH_IN_RANGE;
        values[v].root = values[looks && root == v ? g->nodes[n].inputs[0] : root].root;
    }
    p->plan.values = values;
    return SHOAL_OK;
}

static shoal_status add_steps(shoal_device *device, cpu_program *p) {
    static const fuse_limits limits = {.operations = CPU_OPERATIONS, .loads = CPU_SOURCES};
    const shoal_graph *g = p->g;
    fuse_choice *choices = calloc(g->n_nodes + (size_t)1, sizeof *choices);
    if (!choices) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory to compile");
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        p->values[g->inputs[i]].kind = BACKEND_INPUT;
        p->values[g->inputs[i]].place = i;
    }
    find_constants(p);
    for (uint32_t n = 0; n < g->n_nodes; n++) choices[n] = choose(device->kernels, g, &g->nodes[n]);
    cpu_packed_choose(device->kernels, g, choices);
    shoal_status status = fuse_plan_make(g, choices, &limits, &p->arena, &p->plan);
    free(choices);
    if (!status) status = share_looked_at(p);
    if (!status) status = cpu_packed_find(device->kernels, p);
    for (uint32_t s = 0; !status && s < p->plan.n_steps; s++) {
        const fuse_step *step = &p->plan.steps[s];
        if (!step->kernel && p->packed[step->node] == step->node) continue;
        status = step->kernel ? add_kernel(p, device->kernels, step->kernel)
                              : add_step(device, p, &g->nodes[step->node]);
    }
    return status;
}

/* ---- programs ---- */

bool cpu_supports(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    if (!graph_op(node->op)->decompose) return ref_supports(node);
    const cpu_program program = {.g = g};
    cpu_step step = {.node = node};
    return cpu_map_kernel_of(kernels, g, node) || cpu_attention_fits(kernels, g, node) ||
           cpu_row_prepare(kernels, &program, &step) ||
           cpu_unpack_prepare(kernels, &program, &step);
}

static shoal_status build(shoal_device *device, const shoal_graph *g,
                          const shoal_compile_options *options, shoal_compile_report *report,
                          cpu_program *p) {
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!cpu_supports(device->kernels, g, &g->nodes[i]))
            return backend_cannot_run("cpu", &g->nodes[i]);
    SHOAL_TRY(graph_new(0, &p->graph));
    SHOAL_TRY(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, p->graph));
    p->g = graph_data(p->graph);
    p->values = calloc((size_t)p->g->n_values + 1, sizeof *p->values);
    p->at = calloc((size_t)p->g->n_values + 1, sizeof *p->at);
    p->steps = calloc((size_t)p->g->n_nodes + 1, sizeof *p->steps);
    if (!p->values || !p->at || !p->steps)
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for %u steps", p->g->n_nodes);
    p->threads = base_pool_threads(device->pool);
    SHOAL_TRY(add_steps(device, p));
    SHOAL_TRY(cpu_place_values(p, options ? options->frozen : NULL, report->in_place));
    report->workspace = p->workspace;
    report->packed = 0;
    return SHOAL_OK;
}

shoal_status cpu_program_new(shoal_device *device, const shoal_graph *g,
                             const shoal_compile_options *options, shoal_compile_report *report,
                             cpu_program **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for a program");
    base_arena_init(&(*out)->arena, 0);
    shoal_status status = build(device, g, options, report, *out);
    if (status) cpu_program_destroy(out);
    return status;
}

void cpu_program_destroy(cpu_program **program) {
    cpu_program *p = *program;
    *program = NULL;
    if (!p) return;
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].run == cpu_control_run) cpu_control_fini(&p->steps[i].u.control);
    graph_destroy(&p->graph);
    base_arena_fini(&p->arena);
    free(p->values);
    free(p->at);
    free(p->steps);
    free(p);
}

static void *address(const cpu_program *p, const backend_place *root, void *const *buffers,
                     char *workspace) {
    switch (root->kind) {
    case BACKEND_INPUT: return buffers[root->place];
    case BACKEND_OUTPUT: return buffers[p->g->n_inputs + root->place];
    case BACKEND_CONSTANT: return (void *)root->constant; /* nobody writes to it */
    case BACKEND_WORKSPACE: return workspace + root->place;
    default: return NULL;
    }
}

shoal_status cpu_program_run_in(shoal_device *device, const cpu_program *p, void *const *buffers,
                                char *workspace) {
    const shoal_graph *g = p->g;
    cpu_run run = {device, p, p->at, workspace};
    for (uint32_t v = 0; v < g->n_values; v++) {
        const fuse_value *value = &p->plan.values[v];
        run.at[v] = address(p, &p->values[value->root], buffers, run.workspace);
        if (value->index.start) {
            size_t bytes = shoal_dtype_size((shoal_dtype)g->values[v].type.dtype);
            run.at[v] = (char *)run.at[v] + (size_t)value->index.start * bytes;
        }
    }
    for (uint32_t s = 0; s < p->n_steps; s++) SHOAL_TRY(p->steps[s].run(&run, &p->steps[s]));
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        void *to = buffers[g->n_inputs + i];
        const void *from = run.at[g->outputs[i]];
        if (to != from && bytes_of(p, g->outputs[i])) memcpy(to, from, bytes_of(p, g->outputs[i]));
    }
    return SHOAL_OK;
}

shoal_status cpu_program_run(shoal_device *device, const cpu_program *p, void *const *buffers) {
    shoal_memory *memory;
    SHOAL_TRY(cpu_workspace_new(device, p->workspace, &memory));
    shoal_status status = cpu_program_run_in(device, p, buffers, memory->data);
    cpu_memory_free(device, memory);
    return status;
}
