/* Programs through the API: one node a call, in a pool of one to five workers within this process,
 * or in the pool that SHOAL_HUB names. Where operands and results are placed, when values are read,
 * whether the program is known already, and whether it runs as a function, follow from the
 * program's seed. */
#include "hunt.h"

#include "shoal/function.h"
#include "shoal/shoal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 5, MOST_SLOTS = 64, DEADLINE_MS = 60000 };

typedef struct pool {
    shoal_session *session;
    uint32_t slots[MOST_SLOTS], n_slots;
} pool;

typedef struct apis {
    pool pools[MOST_WORKERS];
    uint32_t n_pools;
    bool changes; /* workers may come and go */
    char why[512];
} apis;

/* How a value is placed; the layout points into it. */
typedef struct placement {
    shoal_type type;
    shoal_layout layout;
    uint32_t slots[MOST_SLOTS], parts[SHOAL_MAX_RANK];
    int64_t cuts[2 * MOST_SLOTS + SHOAL_MAX_RANK + 2];
    double weights[MOST_SLOTS + SHOAL_MAX_RANK];
    hunt_form form;
    hunt_parts by;
    hunt_more more;
} placement;

/* One run of a program. */
typedef struct run {
    apis *apis;
    const pool *pool;
    hunt_random random;
    const hunt_program *program;
    shoal_tensor **values;  /* per value of the graph */
    placement placed;       /* the last one */
    bool failed, misplaced; /* misplaced: on a slot that is gone */
} run;

#define CHANCE(percent) hunt_chance(&r->random, percent)
#define BELOW(n) hunt_below(&r->random, (uint32_t)(n))

/* Notes the first failure. */
static bool fine(run *r, const char *what, shoal_status status) {
    if (!status) return !r->failed;
    if (!r->failed)
        snprintf(r->apis->why, sizeof r->apis->why, "%u workers: %s: %s: %.300s", r->pool->n_slots,
                 what, shoal_status_name(status), shoal_error_message());
    r->failed = true;
    return false;
}

/* ---- pools ---- */

static void list_slots(pool *p) {
    shoal_slot slots[MOST_SLOTS];
    shoal_pool_status status = {.size = sizeof status};
    hunt_must(shoal_status_of(p->session, &status, slots, MOST_SLOTS));
    p->n_slots = 0;
    for (uint32_t i = 0; i < status.n_slots && i < MOST_SLOTS; i++)
        if (slots[i].compute) p->slots[p->n_slots++] = slots[i].slot;
}

void *hunt_api_new(void) {
    apis *a = hunt_alloc(sizeof *a);
    for (a->n_pools = 0; a->n_pools < MOST_WORKERS; a->n_pools++) {
        shoal_options options = {.size = sizeof options,
                                 .hub = "embedded",
                                 .workers = a->n_pools + 1,
                                 .threads = a->n_pools + 1,
                                 .timeout_ms = DEADLINE_MS};
        hunt_must(shoal_session_open(&options, &a->pools[a->n_pools].session));
        list_slots(&a->pools[a->n_pools]);
    }
    return a;
}

void *hunt_pool_new(void) {
    apis *a = hunt_alloc(sizeof *a);
    shoal_options options = {.size = sizeof options, .timeout_ms = DEADLINE_MS};
    hunt_must(shoal_session_open(&options, &a->pools[0].session));
    a->n_pools = 1;
    a->changes = true;
    return a;
}

void hunt_api_free(void *context) {
    apis *a = context;
    for (uint32_t i = 0; i < a->n_pools; i++) shoal_session_close(&a->pools[i].session);
    free(a);
}

/* ---- layouts ---- */

/* Points at which an axis is cut, some parts being empty. */
static void choose_cuts(run *r, int64_t extent, uint32_t parts, int64_t *cuts) {
    cuts[0] = 0;
    for (uint32_t i = 1; i < parts; i++) cuts[i] = BELOW(extent + 1);
    for (uint32_t i = 1; i < parts; i++)
        for (uint32_t k = i; k > 1 && cuts[k] < cuts[k - 1]; k--) {
            int64_t swap = cuts[k];
            cuts[k] = cuts[k - 1], cuts[k - 1] = swap;
        }
    cuts[parts] = extent;
}

static void choose_parts(run *r, placement *p, uint32_t n) {
    const shoal_type *type = &p->type;
    uint32_t axis = BELOW(type->rank), other = BELOW(type->rank), at = 0, copies = 1;
    for (uint32_t i = 0; i < type->rank; i++) p->parts[i] = 1;
    for (uint32_t i = 1; i < type->rank && CHANCE(60); i++) /* a square, which may be transposed */
        if (type->dims[i] == type->dims[i - 1]) axis = i, other = i - 1;
    p->form = HUNT_AXIS;
    if (n >= 4 && other != axis && CHANCE(50)) {
        p->form = HUNT_GRID;
        p->parts[other] = 2;
        p->parts[axis] = n / 2;
    } else {
        if (n > 1 && CHANCE(30)) copies = 2 + BELOW(n - 1);
        p->parts[axis] = n / copies;
    }
    p->layout.n_slots = p->parts[axis] * (p->form == HUNT_GRID ? 2 : copies);
    p->layout.parts = p->parts;
    p->by = CHANCE(50) ? HUNT_CUTS : CHANCE(80) ? HUNT_SHARES : HUNT_EQUAL;
    if (copies > 1) p->more = HUNT_COPIES;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (p->by == HUNT_CUTS) {
            int64_t *cuts = p->cuts + at;
            uint32_t before = i ? p->parts[i - 1] + 1 : 0;
            bool alike = i && type->dims[i] == type->dims[i - 1] && p->parts[i] + 1 == before;
            if (alike && CHANCE(50)) /* a square cut alike may be transposed */
                memcpy(cuts, cuts - before, before * sizeof *cuts);
            else
                choose_cuts(r, type->dims[i], p->parts[i], cuts);
            for (uint32_t k = 0; k < p->parts[i]; k++)
                if (cuts[k] == cuts[k + 1] && p->more == HUNT_PLAIN) p->more = HUNT_EMPTY;
            at += p->parts[i] + 1;
        } else {
            for (uint32_t k = 0; k < p->parts[i]; k++) {
                p->weights[at] = k ? BELOW(4) : 1;
                if (p->weights[at++] == 0 && p->by == HUNT_SHARES && p->more == HUNT_PLAIN)
                    p->more = HUNT_EMPTY;
            }
        }
    }
    if (p->by == HUNT_CUTS) p->layout.cuts = p->cuts;
    if (p->by == HUNT_SHARES) p->layout.weights = p->weights;
}

static void choose_placement(run *r, const shoal_type *type, placement *p) {
    uint32_t n = r->pool->n_slots;
    p->type = *type;
    memcpy(p->slots, r->pool->slots, n * sizeof *p->slots);
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = BELOW(i), swap = p->slots[k];
        p->slots[k] = p->slots[i - 1], p->slots[i - 1] = swap;
    }
    if (CHANCE(40)) n = 1 + BELOW(n);
    p->layout = (shoal_layout){.size = sizeof p->layout, .slots = p->slots, .n_slots = n};
    p->form = HUNT_WHOLE;
    p->by = HUNT_EQUAL;
    p->more = HUNT_PLAIN;
    if (type->rank && !CHANCE(25))
        choose_parts(r, p, n);
    else if (CHANCE(50)) /* whole, on one or on several */
        p->layout.n_slots = 1;
}

/* The same parts as before, each on another slot. */
static void rotate(run *r, placement *p) {
    uint32_t n = p->layout.n_slots, by = 1 + BELOW(n - 1), turned[MOST_SLOTS];
    for (uint32_t i = 0; i < n; i++) turned[i] = p->slots[(i + by) % n];
    memcpy(p->slots, turned, n * sizeof *turned);
}

/* The value, placed at random. */
static bool place(run *r, shoal_tensor **x) {
    const shoal_type *type = shoal_tensor_type(*x);
    placement *p = &r->placed;
    bool same = p->layout.n_slots > 1 && p->type.rank == type->rank &&
                !memcmp(p->type.dims, type->dims, type->rank * sizeof *type->dims);
    if (!same || CHANCE(50))
        choose_placement(r, type, p);
    else if (CHANCE(50))
        rotate(r, p);
    hunt_count_layout(p->form, p->by, p->more, p->layout.n_slots);
    shoal_tensor *placed;
    if (!fine(r, "place", shoal_place(*x, &p->layout, &placed))) {
        r->misplaced = true;
        return false;
    }
    shoal_tensor_free(x);
    *x = placed;
    return true;
}

/* ---- one run ---- */

static void released(void *context) { free(context); }

static void make_input(run *r, uint32_t i, const void *data) {
    const shoal_graph *g = graph_data(r->program->graph);
    const shoal_type *type = &g->values[g->inputs[i]].type;
    shoal_tensor **x = &r->values[g->inputs[i]];
    size_t bytes = (size_t)base_type_bytes(type);
    shoal_status status;
    if (CHANCE(25)) {
        void *copy = hunt_alloc(bytes);
        memcpy(copy, data, bytes);
        status = shoal_tensor_borrow(r->pool->session, (shoal_dtype)type->dtype, type->rank,
                                     type->dims, copy, released, copy, x);
    } else {
        status = shoal_tensor_new(r->pool->session, (shoal_dtype)type->dtype, type->rank,
                                  type->dims, data, x);
    }
    if (fine(r, "input", status) && CHANCE(40)) place(r, x);
}

static void record(run *r, const shoal_node *node) {
    shoal_tensor **inputs = hunt_alloc((node->n_inputs + 1) * sizeof *inputs);
    for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = r->values[node->inputs[k]];
    fine(r, shoal_op_name(node->op),
         shoal_apply(r->pool->session, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                     node->regions, node->n_regions, &r->values[node->first_output],
                     node->n_outputs));
    free(inputs);
}

static void read_value(run *r, uint32_t value, void *to) {
    const shoal_type *type = &graph_data(r->program->graph)->values[value].type;
    fine(r, "read", shoal_read(r->values[value], to, (size_t)base_type_bytes(type)));
}

/* Records all nodes; often: reads and starts some values on the way. */
static void record_all(run *r, bool often) {
    const shoal_graph *g = graph_data(r->program->graph);
    for (uint32_t n = 0; n < g->n_nodes && !r->failed; n++) {
        const shoal_node *node = &g->nodes[n];
        record(r, node);
        if (r->failed) return;
        uint32_t value = node->first_output + BELOW(node->n_outputs);
        if (CHANCE(8)) place(r, &r->values[value]);
        if (!often || !CHANCE(30)) continue;
        if (CHANCE(30)) {
            fine(r, "start", shoal_start(r->values[value]));
        } else {
            void *data = hunt_alloc((size_t)base_type_bytes(&g->values[value].type));
            read_value(r, value, data);
            free(data);
        }
    }
}

static void free_values(run *r) {
    uint32_t n = graph_data(r->program->graph)->n_values;
    for (uint32_t v = 0; v < n; v++) shoal_tensor_free(&r->values[v]);
}

static const char *compare(run *r, hunt_truth *truth, const hunt_results *results,
                           const char *how) {
    char was[300];
    const char *why = r->failed ? NULL : hunt_compare(truth, results);
    if (!why) return r->failed ? r->apis->why : NULL;
    snprintf(was, sizeof was, "%s", why);
    snprintf(r->apis->why, sizeof r->apis->why, "%u workers, %s: %s", r->pool->n_slots, how, was);
    return r->apis->why;
}

static const char *run_recorded(run *r, hunt_truth *truth, hunt_results *results, bool often,
                                const char *how) {
    const shoal_graph *g = graph_data(r->program->graph);
    for (uint32_t i = 0; i < g->n_inputs && !r->failed; i++)
        make_input(r, i, r->program->inputs[i]);
    record_all(r, often);
    uint32_t first = BELOW(g->n_outputs);
    for (uint32_t i = 0; i < g->n_outputs && !r->failed; i++) {
        uint32_t o = (first + i) % g->n_outputs;
        read_value(r, g->outputs[o], results->data[o]);
    }
    const char *why = compare(r, truth, results, how);
    free_values(r);
    return why;
}

/* A function of the inputs, run with others first, then with these. */
static const char *run_function(run *r, hunt_truth *truth, hunt_results *results) {
    const shoal_graph *g = graph_data(r->program->graph);
    uint32_t n = g->n_inputs, m = g->n_outputs;
    shoal_tensor **inputs = hunt_alloc((n + 1) * sizeof *inputs);
    shoal_tensor **outputs = hunt_alloc((m + 1) * sizeof *outputs);
    shoal_function *function = NULL;
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        void *other = hunt_alloc((size_t)base_type_bytes(&g->values[g->inputs[i]].type));
        make_input(r, i, other);
        free(other);
        inputs[i] = r->values[g->inputs[i]];
        if (!r->failed) fine(r, "start", shoal_start(inputs[i]));
    }
    if (!r->failed) record_all(r, false);
    for (uint32_t o = 0; o < m; o++) outputs[o] = r->values[g->outputs[o]];
    if (!r->failed)
        fine(r, "function", shoal_function_new(r->pool->session, inputs, n, outputs, m, &function));
    for (uint32_t turn = 0; turn < 2 && !r->failed; turn++) {
        memset(outputs, 0, m * sizeof *outputs);
        if (turn) {
            for (uint32_t i = 0; i < n; i++) shoal_tensor_free(&r->values[g->inputs[i]]);
            for (uint32_t i = 0; i < n && !r->failed; i++) {
                make_input(r, i, r->program->inputs[i]);
                inputs[i] = r->values[g->inputs[i]];
            }
        }
        if (!r->failed) fine(r, "run", shoal_function_run(function, inputs, outputs));
        for (uint32_t o = 0; o < m && !r->failed; o++)
            if (turn) fine(r, "read", shoal_read(outputs[o], results->data[o], results->bytes[o]));
        for (uint32_t o = 0; o < m; o++) shoal_tensor_free(&outputs[o]);
    }
    const char *why = compare(r, truth, results, "as a function");
    shoal_function_free(&function);
    free_values(r);
    free(inputs);
    free(outputs);
    return why;
}

/* One way among many: which, follows from the seed. *misplaced: it failed for want of a slot. */
static const char *run_once(apis *a, const hunt_program *program, uint64_t seed, hunt_truth *truth,
                            bool *misplaced) {
    const shoal_graph *g = graph_data(program->graph);
    run r = {.apis = a, .random = {seed}, .program = program};
    r.pool = &a->pools[hunt_below(&r.random, a->n_pools)];
    r.values = hunt_alloc((g->n_values + 1) * sizeof *r.values);
    hunt_results results = hunt_results_new(g);
    uint32_t how = hunt_below(&r.random, 10);
    const char *why;
    if (how < 2) {
        why = run_function(&r, truth, &results);
    } else {
        bool often = how < 5;
        hunt_random again = r.random;
        why =
            run_recorded(&r, truth, &results, often, often ? "read on the way" : "read at the end");
        if (!why && how > 7) {
            r.random = again;
            why = run_recorded(&r, truth, &results, often, "the second time");
        }
    }
    hunt_results_fini(&results);
    free(r.values);
    *misplaced = r.misplaced;
    return why;
}

const char *hunt_api_run(void *context, const hunt_program *program) {
    apis *a = context;
    hunt_truth truth;
    const char *why = NULL;
    hunt_must(hunt_truth_init(&truth, program));
    for (uint32_t i = 0; i <= program->tries && !why; i++) {
        bool misplaced = true;
        for (int turn = 0; turn < 3 && misplaced; turn++) {
            if (a->changes) list_slots(&a->pools[0]);
            why = run_once(a, program, program->seed + i * 7919, &truth, &misplaced);
            if (!a->changes) break;
        }
    }
    hunt_truth_fini(&truth);
    return why;
}
