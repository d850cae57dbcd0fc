/* From a graph to a program: which step runs each node.
 *
 * Values that are another value's elements in the same order (reshape and the like) share its
 * memory; broadcasts, slices and transposes stay views where all who read them can. Elementwise
 * nodes become regions; every other node is a step of its own. */
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

/* Whether a reshape only splits axes, so that a view of the operand is one of the result; strides,
 * if given, are those of the operand and become those of the result. */
static bool only_splits(const shoal_type *from, const shoal_type *to, const int64_t *strides,
                        int64_t *out) {
    uint32_t axis = to->rank;
    for (uint32_t i = from->rank; i-- > 0;) {
        int64_t left = from->dims[i], stride = strides ? strides[i] : 0;
        if (!left) return false;
        while (left > 1) {
            if (!axis || !to->dims[axis - 1] || left % to->dims[axis - 1]) return false;
            left /= to->dims[--axis];
            if (out) out[axis] = stride;
            stride *= to->dims[axis];
        }
    }
    while (axis && to->dims[axis - 1] == 1) {
        axis--;
        if (out) out[axis] = 0;
    }
    return !axis;
}

static bool is_split(const cpu_program *p, const shoal_node *node) {
    return node->op == GRAPH_RESHAPE &&
           only_splits(&p->g->values[node->inputs[0]].type, &p->g->values[node->first_output].type,
                       NULL, NULL);
}

/* Regions read views whose last axis is dense or repeated, products and copies read any; of what is
 * only split, those who read the parts decide. */
static void mark_users(const cpu_kernels *kernels, cpu_program *p) {
    for (uint32_t i = 0; i < p->g->n_outputs; i++) p->values[p->g->outputs[i]].needs_dense = true;
    for (uint32_t i = p->g->n_nodes; i-- > 0;) {
        const shoal_node *node = &p->g->nodes[i];
        if (is_split(p, node)) {
            const cpu_value *out = &p->values[node->first_output];
            p->values[node->inputs[0]].needs_dense |= out->needs_dense || out->needs_near;
            continue;
        }
        bool near = node->n_inputs > 1 && cpu_map_kernel_of(kernels, p->g, node);
        bool any = cpu_is_move(node->op) || cpu_dot_fits(kernels, p->g, node);
        bool attends = cpu_attention_fits(kernels, p->g, node);
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            bool views = any || (attends && cpu_attention_reads_view(node, k));
            p->values[node->inputs[k]].needs_near |= near;
            p->values[node->inputs[k]].needs_dense |= !near && !views;
        }
    }
}

/* Whether a copy would leave the elements in order, so that it need not be made. */
static bool is_identity(const cpu_program *p, const shoal_node *node, const ref_view *moved) {
    if (node->n_inputs != 1 || count_of(p, node->inputs[0]) != count_of(p, node->first_output) ||
        p->values[node->inputs[0]].is_view)
        return false;
    ref_view view = *moved;
    cpu_merge_view(&view);
    return view.from_start == 0 && (!view.rank || (view.rank == 1 && view.from[0] == 1));
}

static bool is_near(const ref_view *view) {
    for (uint32_t i = view->rank; i-- > 0;)
        if (view->dims[i] != 1) return view->from[i] == 0 || view->from[i] == 1;
    return true;
}

static bool share_constant(cpu_program *p, const shoal_node *node) {
    cpu_value *value = &p->values[node->first_output];
    const shoal_attr *data = shoal_node_attr(node, SHOAL_ATTR_VALUE);
    value->constant = data->u.bytes;
    value->is_view = data->count != bytes_of(p, node->first_output); /* a splat: strides are 0 */
    if (value->is_view && value->needs_dense) {
        value->is_view = false;
        return false;
    }
    value->kind = CPU_CONSTANT;
    return true;
}

/* Settles a node without a step, if that is possible. */
static bool share(cpu_program *p, const shoal_node *node) {
    cpu_value *value = &p->values[node->first_output];
    if (node->op == GRAPH_CONSTANT) return share_constant(p, node);
    bool alias = node->op == GRAPH_RESHAPE || node->op == GRAPH_PLACE;
    if (!alias && (!cpu_is_move(node->op) || node->op == GRAPH_CONCATENATE)) return false;
    const cpu_value *in = &p->values[node->inputs[0]];
    if (in->is_view && is_split(p, node)) {
        value->is_view = true;
        value->start = in->start;
        only_splits(&p->g->values[node->inputs[0]].type, &p->g->values[node->first_output].type,
                    in->strides, value->strides);
    } else if (!alias) {
        ref_view view = cpu_moved_view(p, node, 0);
        alias = is_identity(p, node, &view);
        if (!alias && (value->needs_dense || (value->needs_near && !is_near(&view)))) return false;
        value->is_view = !alias;
        value->start = in->start + view.from_start;
        memcpy(value->strides, view.from, sizeof value->strides);
    }
    value->root = in->root;
    return true;
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
    if (cpu_is_move(node->op))
        step->run = cpu_move_run;
    else if (node->op == GRAPH_CONSTANT)
        step->run = run_fill;
    else if (cpu_dot_fits(kernels, p->g, node))
        cpu_dot_prepare(kernels, p, step);
    else if (cpu_control_fits(node))
        return cpu_control_prepare(device, p, step);
    else if (cpu_convolve_fits(kernels, p->g, node))
        return cpu_convolve_prepare(kernels, p, step);
    else if (cpu_attention_fits(kernels, p->g, node))
        return cpu_attention_prepare(kernels, p, step);
    else if (cpu_windows_fits(kernels, p->g, node))
        return cpu_windows_prepare(kernels, p, step);
    else if (cpu_scatter_windows_fits(p->g, node))
        return cpu_scatter_windows_prepare(p, step);
    else if (cpu_reduce_fits(kernels, p->g, node))
        cpu_reduce_prepare(kernels, p, node, NULL, step);
    else if (!cpu_index_prepare(kernels, p, step, &status) &&
             !cpu_order_prepare(kernels, p, step) && !cpu_row_prepare(kernels, p, step) &&
             !cpu_unpack_prepare(kernels, p, step))
        step->run = run_reference;
    return status;
}

/* ---- regions ----
 *
 * A region gathers elementwise nodes over one shape until something else reads one of its values,
 * or nothing more can; then it becomes a step. A node that reads several joins them. So regions
 * that are open never depend on each other. */

typedef struct region {
    BASE_VEC(uint32_t) nodes;
    uint32_t sources; /* at most */
    int64_t pending;  /* reads of its values that are still to come */
    bool open;
} region;

typedef struct fuser {
    shoal_device *device;
    cpu_program *p;
    const cpu_kernels *kernels;
    BASE_VEC(region) regions;
    uint32_t *region_of; /* per value: number of its region + 1 */
    uint32_t *reads;     /* per value: operands of nodes that it is */
    uint32_t *inside;    /* of these, nodes of its own region */
    bool *output;        /* per value: it is one */
    bool *used;          /* scratch of close_region */
} fuser;

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static shoal_status close_region(fuser *f, region *r) {
    const shoal_graph *g = f->p->g;
    cpu_step *step = &f->p->steps[f->p->n_steps++];
    r->open = false;
    qsort(r->nodes.data, r->nodes.count, sizeof *r->nodes.data, ascending);
    for (size_t i = 0; i < r->nodes.count; i++) {
        uint32_t v = g->nodes[r->nodes.data[i]].first_output;
        f->used[v] = f->output[v] || f->reads[v] > f->inside[v];
    }
    shoal_status status = cpu_region_prepare(f->p, f->kernels, r->nodes.data,
                                             (uint32_t)r->nodes.count, f->used, step);
    free(r->nodes.data);
    r->nodes.data = NULL;
    return status;
}

/* The region, if it is open, that makes what an operand is made of. */
static region *maker_of(fuser *f, uint32_t operand) {
    uint32_t number = f->region_of[f->p->values[operand].root];
    return number && f->regions.data[number - 1].open ? &f->regions.data[number - 1] : NULL;
}

static bool same_shape(const shoal_graph *g, uint32_t a, uint32_t b) {
    const shoal_type *x = &g->values[a].type, *y = &g->values[b].type;
    return x->rank == y->rank && !memcmp(x->dims, y->dims, x->rank * sizeof *x->dims);
}

static shoal_status absorb(fuser *f, region *into, region *from) {
    for (size_t i = 0; i < from->nodes.count; i++) {
        uint32_t node = from->nodes.data[i];
        if (!base_vec_push(&into->nodes, node)) return SHOAL_NO_MEMORY;
        f->region_of[f->p->g->nodes[node].first_output] = (uint32_t)(into - f->regions.data) + 1;
    }
    into->sources += from->sources;
    into->pending += from->pending;
    from->open = false;
    free(from->nodes.data);
    from->nodes.data = NULL;
    return SHOAL_OK;
}

/* The region that a node joins, which may be a new one; those it cannot join but reads are closed.
 */
static shoal_status find_region(fuser *f, const shoal_node *node, uint32_t *out) {
    region *home = NULL;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        uint32_t operand = node->inputs[k];
        region *r = maker_of(f, operand);
        if (!r || r == home) continue;
        bool direct = !f->p->values[operand].is_view &&
                      same_shape(f->p->g, operand, node->first_output) &&
                      same_shape(f->p->g, f->p->values[operand].root, node->first_output);
        size_t nodes = r->nodes.count + (home ? home->nodes.count : 0) + 1;
        uint32_t sources = r->sources + (home ? home->sources : 0) + node->n_inputs;
        if (!direct || nodes > CPU_OPERATIONS || sources > CPU_SOURCES)
            SHOAL_TRY(close_region(f, r));
        else if (!home)
            home = r;
        else
            SHOAL_TRY(absorb(f, home, r));
    }
    /* A view of the home's own values needs them whole. */
    for (uint32_t k = 0; home && k < node->n_inputs; k++)
        if (maker_of(f, node->inputs[k]) == home && f->p->values[node->inputs[k]].is_view) {
            SHOAL_TRY(close_region(f, home));
            home = NULL;
        }
    if (!home) {
        region fresh = {.open = true};
        if (!base_vec_push(&f->regions, fresh)) return SHOAL_NO_MEMORY;
        home = &f->regions.data[f->regions.count - 1];
    }
    *out = (uint32_t)(home - f->regions.data);
    return SHOAL_OK;
}

static shoal_status join_region(fuser *f, uint32_t n) {
    const shoal_node *node = &f->p->g->nodes[n];
    uint32_t number;
    SHOAL_TRY(find_region(f, node, &number));
    region *r = &f->regions.data[number];
    if (!base_vec_push(&r->nodes, n)) return SHOAL_NO_MEMORY;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        uint32_t root = f->p->values[node->inputs[k]].root;
        if (f->region_of[root] == number + 1) {
            f->inside[root]++;
            r->pending--;
        } else {
            r->sources++;
        }
    }
    f->region_of[node->first_output] = number + 1;
    r->pending += f->reads[node->first_output];
    return r->pending > 0 ? SHOAL_OK : close_region(f, r);
}

/* Everything that a node reads is to be there. */
static shoal_status close_operands(fuser *f, const shoal_node *node) {
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        region *r = maker_of(f, node->inputs[k]);
        if (r) SHOAL_TRY(close_region(f, r));
    }
    return SHOAL_OK;
}

/* The open region whose last value nobody reads but this reduction, and that has no other results;
 * NULL: none. */
static region *sole_maker(fuser *f, const shoal_node *node) {
    uint32_t v = node->inputs[0];
    region *r = f->p->values[v].root == v ? maker_of(f, v) : NULL;
    if (!r || r->pending != 1 || f->reads[v] != 1 || maker_of(f, node->inputs[1]) == r) return NULL;
    uint32_t last = 0;
    for (size_t i = 0; i < r->nodes.count; i++) {
        uint32_t n = r->nodes.data[i], out = f->p->g->nodes[n].first_output;
        if (n > last) last = n;
        if (f->output[out] || (out != v && f->reads[out] > f->inside[out])) return NULL;
    }
    return f->p->g->nodes[last].first_output == v ? r : NULL;
}

/* A reduction that takes its operand from the region which computes it. */
static shoal_status add_fused_reduce(fuser *f, const shoal_node *node, region *r) {
    cpu_program *p = f->p;
    cpu_region *inside = base_arena_alloc(&p->arena, sizeof *inside);
    uint32_t *writes = base_arena_array(&p->arena, uint32_t, 1), n = (uint32_t)r->nodes.count;
    if (!inside || !writes) return SHOAL_NO_MEMORY;
    qsort(r->nodes.data, n, sizeof *r->nodes.data, ascending);
    for (uint32_t i = 0; i < n; i++) f->used[p->g->nodes[r->nodes.data[i]].first_output] = false;
    r->open = false;
    SHOAL_TRY(cpu_region_embed(p, f->kernels, r->nodes.data, n, f->used, inside));
    free(r->nodes.data);
    r->nodes.data = NULL;
    uint32_t *reads = base_arena_array(&p->arena, uint32_t, inside->n_sources + 1);
    if (!reads) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < inside->n_sources; i++) reads[i] = inside->sources[i].value;
    reads[inside->n_sources] = node->inputs[1];
    writes[0] = node->first_output;
    cpu_step *step = &p->steps[p->n_steps++];
    *step = (cpu_step){.node = node,
                       .n_reads = inside->n_sources + 1,
                       .reads = reads,
                       .n_writes = 1,
                       .writes = writes};
    cpu_reduce_prepare(f->kernels, p, node, inside, step);
    return SHOAL_OK;
}

/* A node without a step has read its operand, too. Who reads a value that is its operand element by
 * element reads that. */
static shoal_status note_view(fuser *f, const shoal_node *node) {
    uint32_t value = node->first_output, root = f->p->values[value].root;
    region *r = node->n_inputs ? maker_of(f, node->inputs[0]) : NULL;
    if (root != value && !f->p->values[value].is_view) {
        f->output[root] |= f->output[value];
        f->reads[root] += f->reads[value] - 1;
        if (r) r->pending += f->reads[value];
    }
    return r && --r->pending <= 0 ? close_region(f, r) : SHOAL_OK;
}

static shoal_status fuse(fuser *f) {
    cpu_program *p = f->p;
    for (uint32_t n = 0; n < p->g->n_nodes; n++) {
        const shoal_node *node = &p->g->nodes[n];
        if (share(p, node)) {
            SHOAL_TRY(note_view(f, node));
            continue;
        }
        region *whole = cpu_reduce_fits(f->kernels, p->g, node) ? sole_maker(f, node) : NULL;
        if (cpu_map_kernel_of(f->kernels, p->g, node)) {
            SHOAL_TRY(join_region(f, n));
        } else if (whole) {
            region *initial = maker_of(f, node->inputs[1]);
            if (initial) SHOAL_TRY(close_region(f, initial));
            SHOAL_TRY(add_fused_reduce(f, node, whole));
        } else {
            SHOAL_TRY(close_operands(f, node));
            SHOAL_TRY(add_step(f->device, p, node));
        }
    }
    for (size_t i = 0; i < f->regions.count; i++)
        if (f->regions.data[i].open) SHOAL_TRY(close_region(f, &f->regions.data[i]));
    return SHOAL_OK;
}

static shoal_status add_steps(shoal_device *device, cpu_program *p) {
    const shoal_graph *g = p->g;
    fuser f = {.device = device, .p = p, .kernels = device->kernels};
    for (uint32_t v = 0; v < g->n_values; v++) p->values[v].root = v;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        p->values[g->inputs[i]].kind = CPU_INPUT;
        p->values[g->inputs[i]].place = i;
    }
    mark_users(device->kernels, p);
    f.region_of = calloc(g->n_values + (size_t)1, sizeof *f.region_of);
    f.reads = calloc(g->n_values + (size_t)1, sizeof *f.reads);
    f.inside = calloc(g->n_values + (size_t)1, sizeof *f.inside);
    f.output = calloc(g->n_values + (size_t)1, sizeof *f.output);
    f.used = calloc(g->n_values + (size_t)1, sizeof *f.used);
    shoal_status status = SHOAL_OK;
    if (!f.region_of || !f.reads || !f.inside || !f.output || !f.used)
        status = base_fail(SHOAL_NO_MEMORY, "cpu: no memory to compile");
    for (uint32_t n = 0; status == SHOAL_OK && n < g->n_nodes; n++)
        for (uint32_t k = 0; k < g->nodes[n].n_inputs; k++) f.reads[g->nodes[n].inputs[k]]++;
    for (uint32_t i = 0; status == SHOAL_OK && i < g->n_outputs; i++)
        f.output[g->outputs[i]] = true;
    if (status == SHOAL_OK) status = fuse(&f);
    for (size_t i = 0; i < f.regions.count; i++) free(f.regions.data[i].nodes.data);
    free(f.regions.data);
    free(f.region_of);
    free(f.reads);
    free(f.inside);
    free(f.output);
    free(f.used);
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
    p->threads = base_pool_threads(device->pool);
    SHOAL_TRY(add_steps(device, p));
    SHOAL_TRY(cpu_place_values(p));
    report->workspace = p->workspace;
    report->packed = 0;
    const bool *frozen = options ? options->frozen : NULL;
    return report->in_place ? cpu_report_in_place(p, frozen, report->in_place) : SHOAL_OK;
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

shoal_status cpu_program_run_in(shoal_device *device, const cpu_program *p, void *const *buffers,
                                char *workspace) {
    const shoal_graph *g = p->g;
    cpu_run run = {device, p, p->at, workspace};
    for (uint32_t v = 0; v < g->n_values; v++) {
        const cpu_value *value = &p->values[v];
        run.at[v] = address(p, &p->values[value->root], buffers, run.workspace);
        if (value->start) {
            size_t bytes = shoal_dtype_size((shoal_dtype)g->values[v].type.dtype);
            run.at[v] = (char *)run.at[v] + (size_t)value->start * bytes;
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
    SHOAL_TRY(cpu_memory_new(device, p->workspace, &memory));
    shoal_status status = cpu_program_run_in(device, p, buffers, memory->data);
    cpu_memory_free(device, memory);
    return status;
}
