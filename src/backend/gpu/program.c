/* From a graph to launches, and their places in memory. */
#include "backend/gpu/gpu.h"
#include "backend/common.h"

#include <stdlib.h>
#include <string.h>

static size_t element_bytes(const gpu_program *p, uint32_t value) {
    return shoal_dtype_size((shoal_dtype)p->g->values[value].type.dtype);
}

static size_t bytes_of(const gpu_program *p, uint32_t value) {
    return (size_t)base_type_bytes(&p->g->values[value].type);
}

/* ---- what it takes ---- */

static bool has_types(const shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    for (uint32_t k = 0; k < node->n_inputs + node->n_outputs && !device->dialect.has_f64; k++) {
        uint32_t v = k < node->n_inputs ? node->inputs[k] : node->first_output + k - node->n_inputs;
        if (g->values[v].type.dtype == SHOAL_F64) return false;
    }
    return true;
}

static bool is_own(const shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    return has_types(device, g, node) &&
           (gpu_product_fits(device, g, node) || gpu_windows_fits(device, g, node) ||
            gpu_index_fits(device, g, node) || gpu_random_fits(g, node) ||
            gpu_custom_fits(device, g, node));
}

bool gpu_supports(shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    if (node->op >= GRAPH_OP_BUILT_IN || node->n_inputs > device->loads) return false;
    return fuse_renders(&device->dialect, g, node) != FUSE_OWN || is_own(device, g, node) ||
           node->op == GRAPH_RESHAPE; /* whose result lies where its operand does */
}

static fuse_choice choose(const shoal_device *device, const shoal_graph *g,
                          const shoal_node *node) {
    fuse_choice choice = {.role = (uint8_t)fuse_renders(&device->dialect, g, node)};
    if (choice.role != FUSE_OWN || gpu_product_fits(device, g, node)) choice.views = UINT32_MAX;
    return choice;
}

/* ---- launches ---- */

static shoal_status launch_at_end(gpu_program *p, gpu_launch **out) {
    if (p->n_launches == p->room) {
        uint32_t room = 2 * p->room + 16;
        gpu_launch *more = realloc(p->launches, room * sizeof *more);
        if (!more) return gpu_fail_memory(p->device, "launches");
        p->launches = more;
        p->room = room;
    }
    *out = &p->launches[p->n_launches];
    **out = (gpu_launch){.global = {1, 1}, .local = {1, 1}};
    return SHOAL_OK;
}

static shoal_status launch_new(gpu_program *p, base_str *text, const uint32_t *args,
                               uint32_t n_reads, uint32_t n_writes, uint32_t n_scratch,
                               const char *custom, gpu_launch **out) {
    uint32_t n = n_reads + n_writes;
    uint32_t *own = base_arena_array(&p->arena, uint32_t, n + (size_t)1);
    gpu_launch *launch;
    shoal_status status = own ? launch_at_end(p, &launch) : SHOAL_NO_MEMORY;
    if (status) {
        base_str_fini(text);
        return status;
    }
    if (n) memcpy(own, args, n * sizeof *own);
    SHOAL_TRY(gpu_kernel_new(p->device, text, custom != NULL, &launch->kernel));
    launch->args = own;
    launch->n_reads = n_reads;
    launch->n_writes = n_writes;
    launch->n_args = n + n_scratch;
    launch->custom = custom;
    p->n_launches++;
    *out = launch;
    return SHOAL_OK;
}

shoal_status gpu_launch_new(gpu_program *p, base_str *text, const uint32_t *args, uint32_t n_reads,
                            uint32_t n_writes, uint32_t n_scratch, gpu_launch **out) {
    return launch_new(p, text, args, n_reads, n_writes, n_scratch, NULL, out);
}

shoal_status gpu_launch_custom(gpu_program *p, base_str *text, const char *name,
                               const uint32_t *args, uint32_t n_reads, gpu_launch **out) {
    return launch_new(p, text, args, n_reads, 1, 0, name, out);
}

shoal_status gpu_launch_multiply(gpu_program *p, const uint32_t *args,
                                 const gpu_matrices *matrices) {
    uint32_t *own = base_arena_array(&p->arena, uint32_t, 3);
    gpu_matrices *kept = base_arena_array(&p->arena, gpu_matrices, 1);
    gpu_launch *launch;
    if (!own || !kept) return SHOAL_NO_MEMORY;
    SHOAL_TRY(launch_at_end(p, &launch));
    memcpy(own, args, 3 * sizeof *own);
    *kept = *matrices;
    launch->args = own;
    launch->n_args = 3;
    launch->n_reads = 2;
    launch->n_writes = 1;
    launch->matrices = kept;
    launch->items = 1;
    p->n_launches++;
    return SHOAL_OK;
}

shoal_status gpu_launch_copy(gpu_program *p, uint32_t to, uint32_t from) {
    uint32_t *own = base_arena_array(&p->arena, uint32_t, 2);
    gpu_launch *launch;
    if (!own) return SHOAL_NO_MEMORY;
    SHOAL_TRY(launch_at_end(p, &launch));
    own[0] = from;
    own[1] = to;
    launch->args = own;
    launch->n_args = 2;
    launch->n_reads = launch->n_writes = 1;
    p->n_launches++;
    return SHOAL_OK;
}

void gpu_spread(const gpu_program *p, gpu_launch *launch, int64_t items) {
    size_t local = p->device->local;
    launch->items = items;
    while (local > 1 && local / 2 >= (size_t)items) local /= 2;
    launch->local[0] = local;
    launch->global[0] = ((size_t)items + local - 1) / local * local;
}

/* ---- words of kernels ---- */

/* NULL: it is computed with as it lies. */
static const char *half_name(uint8_t dtype) {
    return dtype == SHOAL_F16 ? "f16" : dtype == SHOAL_BF16 ? "bf16" : NULL;
}

void gpu_render_element(uint8_t dtype, uint32_t operand, const char *at, base_str *out) {
    const char *half = half_name(dtype);
    if (half)
        base_str_format(out, "f32_of_%s(x%u[%s])", half, operand, at);
    else
        base_str_format(out, "x%u[%s]", operand, at);
}

void gpu_render_result(uint8_t dtype, const char *at, const char *value, base_str *out) {
    const char *half = half_name(dtype);
    if (half)
        base_str_format(out, "y0[%s] = %s_of_f32(%s);\n", at, half, value);
    else
        base_str_format(out, "y0[%s] = %s;\n", at, value);
}

void gpu_render_coordinates(const shoal_type *type, const bool *skip, const char *number,
                            base_str *out) {
    base_str_format(out, "i64 rest_%s = %s;\n", number, number);
    for (uint32_t i = type->rank; i-- > 0;) {
        if (skip && skip[i]) continue;
        base_str_format(out, "const i64 a%u = rest_%s %% %lld; rest_%s /= %lld;\n", i, number,
                        (long long)type->dims[i], number, (long long)type->dims[i]);
    }
}

/* ---- compiling ---- */

static shoal_status add_node(gpu_program *p, const shoal_node *node) {
    if (gpu_product_fits(p->device, p->g, node)) return gpu_product_add(p, node);
    if (gpu_windows_fits(p->device, p->g, node)) return gpu_windows_add(p, node);
    if (node->op == GRAPH_RANDOM) return gpu_random_add(p, node);
    if (node->op == GRAPH_CUSTOM) return gpu_custom_add(p, node);
    return gpu_index_add(p, node);
}

static shoal_status add_launches(gpu_program *p) {
    const shoal_graph *g = p->g;
    const fuse_limits limits = {
        .operations = p->device->loads, .loads = p->device->loads, .passes = 8, .any_stride = true};
    fuse_choice *choices = calloc(g->n_nodes + (size_t)1, sizeof *choices);
    if (!choices) return gpu_fail_memory(p->device, "a program");
    for (uint32_t n = 0; n < g->n_nodes; n++) choices[n] = choose(p->device, g, &g->nodes[n]);
    shoal_status status = fuse_plan_make(g, choices, &limits, &p->arena, &p->plan);
    free(choices);
    for (uint32_t s = 0; !status && s < p->plan.n_steps; s++) {
        const fuse_step *step = &p->plan.steps[s];
        status =
            step->kernel ? gpu_kernel_add(p, step->kernel) : add_node(p, &g->nodes[step->node]);
    }
    return status;
}

/* ---- places ---- */

static backend_touch touch(void *context, uint32_t s) {
    const gpu_launch *launch = &((const gpu_program *)context)->launches[s];
    return (backend_touch){launch->n_reads, launch->n_writes, launch->args,
                           launch->args + launch->n_reads};
}

static bool may_overwrite(void *context, uint32_t s, uint32_t write, uint32_t root) {
    const gpu_program *p = context;
    const fuse_kernel *k = p->launches[s].formed;
    for (uint32_t i = 0; k && i < k->n_loads; i++) {
        const fuse_load *load = &k->loads[i];
        bool reads = load->kind == FUSE_MEMORY && p->plan.values[load->value].root == root;
        if (reads && !fuse_may_overwrite(k, write, i)) return false;
    }
    return k != NULL;
}

static shoal_status scratch(void *context, uint32_t s, backend_parts *parts) {
    gpu_launch *launch = &((gpu_program *)context)->launches[s];
    for (uint32_t i = 0; i < GPU_SCRATCH && !launch->shared; i++)
        if (launch->scratch[i].bytes)
            SHOAL_TRY(backend_take(parts, launch->scratch[i].bytes, launch->kept,
                                   &launch->scratch[i].at));
    return SHOAL_OK;
}

/* Inputs, and constants, of which those that lie in memory get theirs: all in one block. */
static shoal_status settle(gpu_program *p, char **constants, size_t *bytes) {
    const shoal_graph *g = p->g;
    size_t at = 0;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        p->values[g->inputs[i]].kind = BACKEND_INPUT;
        p->values[g->inputs[i]].place = i;
    }
    for (int turn = 0; turn < 2; turn++) {
        at = 0;
        for (uint32_t n = 0; n < g->n_nodes; n++) {
            const shoal_node *node = &g->nodes[n];
            if (node->op != GRAPH_CONSTANT) continue;
            const shoal_attr *data = shoal_node_attr(node, SHOAL_ATTR_VALUE);
            backend_place *value = &p->values[node->first_output];
            /* One that a launch writes is computed like any other. */
            if (data->count != bytes_of(p, node->first_output) &&
                !p->plan.values[node->first_output].is_view)
                continue;
            value->kind = BACKEND_CONSTANT;
            value->place = at;
            if (turn) memcpy(*constants + at, data->u.bytes, data->count);
            at += (data->count / GPU_ALIGN + 1) * GPU_ALIGN; /* of 0 bytes: somewhere, too */
        }
        if (!turn && !(*constants = calloc(1, at + 1)))
            return gpu_fail_memory(p->device, "constants");
    }
    *bytes = at;
    return SHOAL_OK;
}

/* Runs come after it in the line. Takes `constants`. */
static shoal_status upload(gpu_program *p, char *constants, size_t bytes) {
    shoal_status status = bytes ? gpu_memory_new(p->device, bytes, &p->constants) : SHOAL_OK;
    if (bytes && !status) return gpu_upload(p->device, p->constants, constants, bytes);
    free(constants);
    return status;
}

static shoal_status place_all(gpu_program *p, const shoal_compile_options *options,
                              shoal_compile_report *report) {
    backend_places places = {.plan = &p->plan,
                             .values = p->values,
                             .n_steps = p->n_launches,
                             .align = GPU_ALIGN,
                             .context = p,
                             .touch = touch,
                             .may_overwrite = may_overwrite,
                             .scratch = scratch};
    SHOAL_TRY(backend_place_all(&places));
    p->workspace = places.workspace;
    report->workspace = p->workspace;
    report->packed = 0;
    return backend_report_in_place(&places, options ? options->frozen : NULL, report->in_place);
}

/* Results that lie elsewhere are copied to their outputs: what was given in, constants, what is a
 * result twice. */
static bool is_at_output(const gpu_program *p, uint32_t o) {
    uint32_t v = p->g->outputs[o];
    const backend_place *root = &p->values[p->plan.values[v].root];
    return root->kind == BACKEND_OUTPUT && root->place == o;
}

static shoal_status build(gpu_program *p, const shoal_graph *g,
                          const shoal_compile_options *options, shoal_compile_report *report) {
    char *constants = NULL;
    size_t bytes = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!gpu_supports(p->device, g, &g->nodes[i]))
            return backend_cannot_run(p->device->driver->name, &g->nodes[i]);
    SHOAL_TRY(graph_new(0, &p->graph));
    SHOAL_TRY(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, p->graph));
    p->g = graph_data(p->graph);
    p->values = calloc((size_t)p->g->n_values + 1, sizeof *p->values);
    if (!p->values) return gpu_fail_memory(p->device, "a program");
    SHOAL_TRY(add_launches(p));
    SHOAL_TRY(settle(p, &constants, &bytes));
    SHOAL_TRY(upload(p, constants, bytes));
    return place_all(p, options, report);
}

shoal_status gpu_compile(shoal_device *device, const shoal_graph *g,
                         const shoal_compile_options *options, shoal_compile_report *report,
                         shoal_executable **out) {
    shoal_executable *executable = calloc(1, sizeof *executable);
    if (!executable) return gpu_fail_memory(device, "a program");
    gpu_program *p = &executable->program;
    p->device = device;
    atomic_init(&p->refs, 1);
    base_arena_init(&p->arena, 0);
    shoal_status status = build(p, g, options, report);
    if (status)
        gpu_program_release(p);
    else
        *out = executable;
    return status;
}

void gpu_program_release(gpu_program *p) {
    if (atomic_fetch_sub(&p->refs, 1) != 1) return;
    for (uint32_t i = 0; i < p->n_launches; i++)
        if (p->launches[i].kernel) gpu_kernel_release(p->device, p->launches[i].kernel);
    if (p->constants) gpu_memory_free(p->device, p->constants);
    graph_destroy(&p->graph);
    base_arena_fini(&p->arena);
    free(p->launches);
    free(p->values);
    free((shoal_executable *)p);
}

void gpu_executable_free(shoal_device *device, shoal_executable *executable) {
    if (executable) gpu_program_release(&executable->program);
}

/* ---- running ---- */

typedef struct enqueuing {
    gpu_program *p;
    const shoal_binding *buffers;
    shoal_memory *workspace;
} enqueuing;

/* Where a value's root begins. */
static gpu_spot root_of(const enqueuing *e, uint32_t value) {
    const backend_place *root = &e->p->values[e->p->plan.values[value].root];
    switch (root->kind) {
    case BACKEND_INPUT:
        return (gpu_spot){e->buffers[root->place].memory->mem, e->buffers[root->place].offset, 0};
    case BACKEND_OUTPUT: {
        const shoal_binding *b = &e->buffers[e->p->g->n_inputs + root->place];
        return (gpu_spot){b->memory->mem, b->offset, 0};
    }
    case BACKEND_CONSTANT: return (gpu_spot){e->p->constants->mem, root->place, 0};
    default: return (gpu_spot){e->workspace ? e->workspace->mem : NULL, root->place, 0};
    }
}

static gpu_spot place_of(const enqueuing *e, uint32_t value) {
    gpu_spot s = root_of(e, value);
    s.at += (size_t)e->p->plan.values[value].index.start * element_bytes(e->p, value);
    return s;
}

static shoal_status copy_bytes(const enqueuing *e, gpu_spot to, gpu_spot from, size_t bytes) {
    shoal_device *device = e->p->device;
    if (!bytes || (from.mem == to.mem && from.at == to.at)) return SHOAL_OK;
    shoal_status status;
    bool again = true;
    do status = device->driver->copy(device, to, from, bytes);
    while (gpu_again(device, GPU_LINE, status, &again));
    return status;
}

static gpu_spot spot_of(const enqueuing *e, const gpu_launch *launch, uint32_t arg) {
    uint32_t n = launch->n_reads + launch->n_writes;
    if (arg >= n) {
        const gpu_launch *owner = launch->shared ? &e->p->launches[launch->shared - 1] : launch;
        return (gpu_spot){e->workspace->mem, owner->scratch[arg - n].at,
                          owner->scratch[arg - n].unit};
    }
    gpu_spot s = launch->formed ? root_of(e, launch->args[arg]) : place_of(e, launch->args[arg]);
    s.unit = element_bytes(e->p, launch->args[arg]);
    return s;
}

enum { COUNTED = 8 /* launches after which the device is asked whether it gets on */ };

static shoal_status enqueue_slabs(const enqueuing *e, const gpu_launch *launch,
                                  const gpu_spot *args, uint32_t *count) {
    shoal_device *device = e->p->device;
    size_t slab = launch->slab ? launch->slab : launch->global[1];
    for (size_t at = 0; at < launch->global[1]; at += slab) {
        size_t left = launch->global[1] - at;
        const size_t global[2] = {launch->global[0], left < slab ? left : slab};
        shoal_status status;
        bool again = true;
        do
            status = device->driver->launch(device, launch->kernel->kernel, args, launch->n_args,
                                            launch->slab ? (int64_t)at : launch->items, global,
                                            launch->local);
        while (gpu_again(device, GPU_LINE, status, &again));
        if (status) return status;
        if (++*count % COUNTED == 0 || launch->slab) gpu_count(device);
    }
    return SHOAL_OK;
}

static shoal_status multiply(const enqueuing *e, const gpu_launch *launch, const gpu_spot *args) {
    shoal_device *device = e->p->device;
    shoal_status status;
    bool again = true;
    do status = device->driver->multiply(device, launch->matrices, args);
    while (gpu_again(device, GPU_LINE, status, &again));
    if (!status) gpu_count(device);
    return status;
}

static shoal_status enqueue_launch(const enqueuing *e, const gpu_launch *launch, uint32_t *count) {
    if (!launch->kernel && !launch->matrices)
        return copy_bytes(e, place_of(e, launch->args[1]), place_of(e, launch->args[0]),
                          bytes_of(e->p, launch->args[1]));
    if (!launch->items) return SHOAL_OK;
    gpu_spot *args = calloc(launch->n_args + (size_t)1, sizeof *args);
    if (!args) return gpu_fail_memory(e->p->device, "a launch");
    for (uint32_t i = 0; i < launch->n_args; i++) args[i] = spot_of(e, launch, i);
    shoal_status status =
        launch->matrices ? multiply(e, launch, args) : enqueue_slabs(e, launch, args, count);
    free(args);
    return status;
}

shoal_status gpu_enqueue(gpu_program *p, const shoal_binding *buffers, shoal_memory *workspace) {
    const enqueuing e = {p, buffers, workspace};
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->n_launches; i++)
        SHOAL_TRY(enqueue_launch(&e, &p->launches[i], &count));
    for (uint32_t o = 0; o < p->g->n_outputs; o++) {
        const shoal_binding *b = &buffers[p->g->n_inputs + o];
        if (!is_at_output(p, o))
            SHOAL_TRY(copy_bytes(&e, (gpu_spot){b->memory->mem, b->offset, 0},
                                 place_of(&e, p->g->outputs[o]), bytes_of(p, p->g->outputs[o])));
    }
    return SHOAL_OK;
}
