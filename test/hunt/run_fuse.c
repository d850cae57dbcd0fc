/* Programs as kernels: formed by src/backend/fuse under limits that follow from the seed, and
 * interpreted in the plainest loops there are, or rendered and compiled (run_render.c). When
 * interpreted, each number of a kernel is an array over all iterations; operations are the
 * reference's, reductions are made in float64. */
#include "run_render.h"

#include "backend/ref/ref.h"

#include <stdlib.h>
#include <string.h>

enum { FORMS = 3 };  /* of each program */
enum { OPENCL = 4 }; /* of so many programs one is read as OpenCL C, which takes longest */

typedef struct runner {
    bool renders;
    const shoal_graph *g;
    fuse_plan plans[FORMS], plan;
    fuse_limits limits[FORMS];
    void **memory;          /* per value: of its root */
    hunt_rendered *library; /* NULL: kernels are interpreted */
    char why[2048];
} runner;

void *hunt_fuse_new(void) { return hunt_alloc(sizeof(runner)); }

void *hunt_render_new(void) {
    runner *r = hunt_alloc(sizeof *r);
    hunt_need_compiler();
    r->renders = true;
    return r;
}

void hunt_fuse_free(void *context) { free(context); }

/* ---- what is asked for ---- */

static void choose(uint64_t seed, const shoal_graph *g, bool renders, fuse_limits *limits,
                   fuse_choice *choices) {
    static const uint32_t sizes[] = {1, 2, 5, 64, 64, 64};
    hunt_random random = {seed};
    *limits = (fuse_limits){.operations = sizes[hunt_below(&random, 6)],
                            .loads = 3 + sizes[hunt_below(&random, 6)],
                            .passes = hunt_below(&random, 4),
                            .any_stride = hunt_chance(&random, 70)};
    uint32_t own = hunt_chance(&random, 50) ? 0 : 10, heads = hunt_below(&random, 2) * 100;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        fuse_choice *c = &choices[n];
        fuse_role role = renders ? fuse_renders(&fuse_dialect_c, g, &g->nodes[n])
                                 : fuse_may_take(g, &g->nodes[n]);
        *c = (fuse_choice){.role = (uint8_t)role};
        if (hunt_chance(&random, own) && ref_supports(&g->nodes[n])) c->role = FUSE_OWN;
        if (c->role == FUSE_OWN && g->nodes[n].n_outputs == 1 && hunt_chance(&random, heads))
            c->role = FUSE_HEAD;
        c->views = hunt_chance(&random, 80) ? UINT32_MAX : (uint32_t)hunt_next(&random);
    }
}

/* ---- memory ---- */

static size_t size_of(uint8_t dtype) { return shoal_dtype_size((shoal_dtype)dtype); }

static void *bad_memory(size_t bytes) {
    void *memory = hunt_alloc(bytes + 1);
    memset(memory, 0xff, bytes);
    return memory;
}

/* A dense copy of a value. */
static void *dense_of(const runner *r, uint32_t value) {
    const shoal_type *type = &r->g->values[value].type;
    size_t bytes = size_of(type->dtype);
    const fuse_index index = fuse_index_of(&r->plan, value);
    ref_view view = {.rank = type->rank, .from_start = index.start};
    memcpy(view.dims, type->dims, sizeof view.dims);
    memcpy(view.from, index.strides, sizeof view.from);
    ref_strides(type, view.to);
    void *copy = bad_memory((size_t)base_type_bytes(type));
    ref_copy_view(&view, copy, r->memory[r->plan.values[value].root], bytes);
    return copy;
}

/* ---- kernels ---- */

typedef struct frame {
    const runner *r;
    const fuse_kernel *k;
    int64_t whole, outer; /* iterations of all loops, of those that are not reduced */
    char **is;            /* per number: its elements, over all or over those */
} frame;

static int64_t count_of(const frame *f, bool inner) { return inner ? f->whole : f->outer; }

/* The loops' indices in iteration i. */
static void indices_of(const fuse_kernel *k, bool inner, int64_t i, int64_t *at) {
    for (uint32_t l = k->n_loops; l-- > 0;) {
        bool runs = inner || !k->loops[l].reduced;
        at[l] = runs ? i % k->loops[l].extent : 0;
        if (runs) i /= k->loops[l].extent;
    }
}

/* The iteration without the reduced loops. */
static int64_t outer_of(const fuse_kernel *k, const int64_t *at) {
    int64_t i = 0;
    for (uint32_t l = 0; l < k->n_loops; l++)
        if (!k->loops[l].reduced) i = i * k->loops[l].extent + at[l];
    return i;
}

static void load_element(const frame *f, uint32_t number, const int64_t *at, char *to) {
    const fuse_load *load = &f->k->loads[number];
    size_t bytes = size_of(load->dtype);
    int64_t from = load->index.start;
    for (uint32_t l = 0; l < f->k->n_loops; l++) {
        int64_t step = load->bounded ? at[l] - load->begin[l] : at[l];
        if (load->bounded && (step < 0 || at[l] >= load->end[l] || step % load->every[l])) {
            /* What stands behind the last of several is never asked for. */
            if (load->outside != FUSE_NOWHERE) load_element(f, load->outside, at, to);
            return;
        }
        from += (load->bounded ? step / load->every[l] : step) * load->index.strides[l];
    }
    ref_chunk position;
    switch (load->kind) {
    case FUSE_LITERAL: memcpy(to, load->literal, bytes); break;
    case FUSE_POSITION:
        position.i[0] = from;
        ref_convert_chunk(&position, REF_I, load->dtype, 1);
        ref_store(&position, load->dtype, to, 0, 1);
        break;
    default:
        memcpy(to,
               (const char *)f->r->memory[f->r->plan.values[load->value].root] +
                   (size_t)from * bytes,
               bytes);
    }
}

/* A number's elements over all iterations, or over the outer ones. */
static char *spread(const frame *f, uint32_t number, bool inner) {
    bool is = fuse_is_inner(f->k, number);
    size_t bytes = size_of(fuse_dtype_of(f->k, number));
    int64_t n = count_of(f, inner), at[SHOAL_MAX_RANK];
    char *to = bad_memory((size_t)n * bytes);
    for (int64_t i = 0; i < n; i++) {
        indices_of(f->k, inner, i, at);
        int64_t from = is == inner ? i : outer_of(f->k, at);
        memcpy(to + (size_t)i * bytes, f->is[number] + (size_t)from * bytes, bytes);
    }
    return to;
}

/* An elementwise operation, as a graph of its own. */
static void run_operation(const frame *f, const fuse_operation *op, const void *const *in,
                          void *out) {
    graph *one, *primitive;
    int64_t n = count_of(f, op->inner);
    uint32_t inputs[FUSE_MAX_ARGS], result;
    hunt_must(graph_new(0, &one));
    hunt_must(graph_new(0, &primitive));
    for (uint32_t a = 0; a < op->n_args; a++) {
        shoal_type type = {.dtype = fuse_dtype_of(f->k, op->args[a]), .rank = 1, .dims = {n}};
        hunt_must(graph_add_input(one, &type, &inputs[a]));
    }
    hunt_must(graph_add(one, op->op, inputs, op->n_args, op->node->attrs, op->node->n_attrs, NULL,
                        0, &result));
    hunt_must(graph_add_output(one, result));
    hunt_must(graph_decompose(graph_data(one), NULL, NULL, primitive));
    hunt_must(ref_evaluate(NULL, graph_data(primitive), in, &out));
    graph_destroy(&one);
    graph_destroy(&primitive);
}

/* Loads an element into the class in which it is joined. */
static ref_class load_wide(uint8_t dtype, const void *from, int64_t at, ref_chunk *to) {
    ref_class class = ref_class_of(dtype);
    ref_load(to, dtype, from, at, 1);
    if (class == REF_F) to->d[0] = (double)to->f[0];
    return class == REF_F ? REF_D : class;
}

static void store_wide(uint8_t dtype, ref_chunk *from, void *to, int64_t at) {
    if (ref_class_of(dtype) == REF_F) from->f[0] = (float)from->d[0];
    ref_store(from, dtype, to, at, 1);
}

static void run_reduction(const frame *f, const fuse_operation *op, const char *x,
                          const char *initial, char *out) {
    ref_chunk *sums = hunt_alloc(((size_t)f->outer + 1) * sizeof *sums), more;
    int64_t at[SHOAL_MAX_RANK];
    ref_class class = REF_D;
    for (int64_t i = 0; i < f->outer; i++) class = load_wide(op->dtype, initial, i, &sums[i]);
    for (int64_t i = 0; i < f->whole; i++) {
        indices_of(f->k, true, i, at);
        ref_chunk *sum = &sums[outer_of(f->k, at)];
        load_wide(op->dtype, x, i, &more);
        ref_binary_of(op->combine)(class, sum, &more, sum, 1);
        /* Integers wrap at their own width. */
        if (class != REF_D) {
            char narrow[8];
            ref_store(sum, op->dtype, narrow, 0, 1);
            ref_load(sum, op->dtype, narrow, 0, 1);
        }
    }
    for (int64_t i = 0; i < f->outer; i++) store_wide(op->dtype, &sums[i], out, i);
    free(sums);
}

static void compute(frame *f, uint32_t number) {
    const fuse_kernel *k = f->k;
    const fuse_operation *op = &k->operations[number - k->n_loads];
    char *args[FUSE_MAX_ARGS];
    bool reduces = op->op == GRAPH_REDUCE;
    f->is[number] = bad_memory((size_t)count_of(f, op->inner) * size_of(op->dtype));
    for (uint32_t a = 0; a < op->n_args; a++)
        args[a] = spread(f, op->args[a], reduces ? a == 0 : op->inner);
    if (reduces)
        run_reduction(f, op, args[0], args[1], f->is[number]);
    else
        run_operation(f, op, (const void *const *)args, f->is[number]);
    for (uint32_t a = 0; a < op->n_args; a++) free(args[a]);
}

static void store(const frame *f, const fuse_store *s) {
    size_t bytes = size_of(s->dtype);
    char *to = f->r->memory[s->value], *from = spread(f, s->from, s->inner);
    int64_t at[SHOAL_MAX_RANK];
    for (int64_t i = 0; i < count_of(f, s->inner); i++) {
        int64_t place = s->index.start;
        indices_of(f->k, s->inner, i, at);
        for (uint32_t l = 0; l < f->k->n_loops; l++) place += at[l] * s->index.strides[l];
        memcpy(to + (size_t)place * bytes, from + (size_t)i * bytes, bytes);
    }
    free(from);
}

static void run_kernel(const runner *r, const fuse_kernel *k) {
    uint32_t n = k->n_loads + k->n_operations;
    int64_t at[SHOAL_MAX_RANK];
    frame f = {.r = r, .k = k, .whole = 1, .outer = 1};
    for (uint32_t l = 0; l < k->n_loops; l++) {
        f.whole *= k->loops[l].extent;
        if (!k->loops[l].reduced) f.outer *= k->loops[l].extent;
    }
    f.is = hunt_alloc((n + 1) * sizeof *f.is);
    for (uint32_t i = 0; i < n; i++) {
        if (i >= k->n_loads) {
            compute(&f, i);
            continue;
        }
        size_t bytes = size_of(k->loads[i].dtype);
        int64_t count = count_of(&f, k->loads[i].inner);
        f.is[i] = bad_memory((size_t)count * bytes);
        for (int64_t e = 0; e < count; e++) {
            indices_of(k, k->loads[i].inner, e, at);
            load_element(&f, i, at, f.is[i] + (size_t)e * bytes);
        }
    }
    for (uint32_t i = 0; i < k->n_stores; i++) store(&f, &k->stores[i]);
    for (uint32_t i = 0; i < n; i++) free(f.is[i]);
    free(f.is);
}

/* ---- programs ---- */

static shoal_status run_node(const runner *r, const shoal_node *node) {
    const void **inputs = hunt_alloc((node->n_inputs + (size_t)1) * sizeof *inputs);
    for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = dense_of(r, node->inputs[k]);
    ref_call call = {r->g, node, inputs, &r->memory[node->first_output]};
    shoal_status status = ref_kernel_of(node->op)(&call);
    for (uint32_t k = 0; k < node->n_inputs; k++) free((void *)(uintptr_t)inputs[k]);
    free(inputs);
    return status;
}

static bool is_stored(const fuse_kernel *k, uint32_t value) {
    for (uint32_t i = 0; i < k->n_stores; i++)
        if (k->stores[i].value == value) return true;
    return false;
}

static const char *run_steps(runner *r, const hunt_program *program, hunt_results *results) {
    const shoal_graph *g = r->g;
    for (uint32_t v = 0; v < g->n_values; v++)
        r->memory[v] = bad_memory((size_t)base_type_bytes(&g->values[v].type));
    for (uint32_t i = 0; i < g->n_inputs; i++)
        memcpy(r->memory[g->inputs[i]], program->inputs[i],
               (size_t)base_type_bytes(&g->values[g->inputs[i]].type));
    for (uint32_t n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op == GRAPH_CONSTANT) hunt_must(run_node(r, &g->nodes[n]));
    for (uint32_t s = 0; s < r->plan.n_steps; s++) {
        const fuse_step *step = &r->plan.steps[s];
        const shoal_node *node = step->node == SHOAL_NO_NODE ? NULL : &g->nodes[step->node];
        if (node && run_node(r, node)) return shoal_error_message();
        if (step->kernel && r->library)
            hunt_call(r->library, &r->plan, step, r->memory);
        else if (step->kernel)
            run_kernel(r, step->kernel);
        /* What a kernel took over and does not store is nowhere. */
        if (node && step->kernel && !is_stored(step->kernel, node->first_output))
            memset(r->memory[node->first_output], 0xff,
                   (size_t)base_type_bytes(&g->values[node->first_output].type));
    }
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        void *copy = dense_of(r, g->outputs[o]);
        memcpy(results->data[o], copy, results->bytes[o]);
        free(copy);
    }
    return NULL;
}

/* Composites that kernels take stay as they are, now and then. */
static bool keeps(void *context, const shoal_graph *g, const shoal_node *node) {
    return context && fuse_may_take(g, node) != FUSE_OWN;
}

static shoal_status form_all(runner *r, uint64_t seed, base_arena *arena) {
    fuse_choice *choices = hunt_alloc((r->g->n_nodes + (size_t)1) * sizeof *choices);
    shoal_status status = SHOAL_OK;
    for (uint32_t f = 0; f < FORMS && !status; f++) {
        choose(seed * FORMS + f, r->g, r->renders, &r->limits[f], choices);
        status = fuse_plan_make(r->g, choices, &r->limits[f], arena, &r->plans[f]);
    }
    free(choices);
    return status;
}

static const char *run_all(runner *r, const hunt_program *program, hunt_truth *truth) {
    hunt_results results = hunt_results_new(r->g);
    const char *why = NULL;
    if (r->renders) why = hunt_compile(r->plans, FORMS, program->seed % OPENCL == 0, &r->library);
    for (uint32_t f = 0; f < FORMS && !why; f++) {
        const fuse_limits *limits = &r->limits[f];
        r->plan = r->plans[f];
        why = run_steps(r, program, &results);
        for (uint32_t v = 0; v < r->g->n_values; v++) free(r->memory[v]);
        if (!why) why = hunt_compare(truth, &results);
        if (!why) continue;
        snprintf(r->why, sizeof r->why,
                 "form %u, %u operations, %u loads, %u passes, %s strides: %s", f,
                 limits->operations, limits->loads, limits->passes,
                 limits->any_stride ? "any" : "near", why);
        why = r->why;
    }
    hunt_rendered_free(&r->library);
    hunt_results_fini(&results);
    return why;
}

const char *hunt_fuse_run(void *context, const hunt_program *program) {
    runner *r = context;
    graph *own;
    base_arena arena;
    hunt_truth truth;
    void *kept = program->seed % 2 && !r->renders ? r : NULL;
    hunt_must(hunt_truth_init(&truth, program));
    hunt_must(graph_new(0, &own));
    hunt_must(graph_decompose(graph_data(program->graph), keeps, kept, own));
    base_arena_init(&arena, 0);
    r->g = graph_data(own);
    r->memory = hunt_alloc((r->g->n_values + (size_t)1) * sizeof *r->memory);
    hunt_must(form_all(r, program->seed, &arena));
    const char *why = run_all(r, program, &truth);
    base_arena_fini(&arena);
    free(r->memory);
    graph_destroy(&own);
    hunt_truth_fini(&truth);
    return why;
}
