/* Programs through the API: one node a call, in a pool of one to five workers within this process,
 * or in the pool that SHOAL_HUB names. Where operands and results are placed, when values are read,
 * whether the program is known already, and whether it runs as a function, follow from the
 * program's seed. */
#include "hunt.h"

#include "shoal/function.h"
#include "shoal/shoal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 5, MOST_POOLS = 8, MOST_SLOTS = 64, DEADLINE_MS = 60000 };

typedef struct pool {
    shoal_session *session;
    uint32_t slots[MOST_SLOTS], n_slots;
} pool;

typedef struct apis {
    pool pools[MOST_POOLS];
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
    uint32_t *last;         /* likewise: the last node that reads it, whereupon it is let go of */
    placement placed;       /* the last one */
    bool binds;             /* some of what is placed belongs to its slots */
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

static void add_pool(apis *a, uint32_t workers, uint32_t panels) {
    shoal_options options = {.size = sizeof options,
                             .hub = "embedded",
                             .workers = workers,
                             .threads = workers,
                             .panels = panels,
                             .timeout_ms = DEADLINE_MS};
    pool *p = &a->pools[a->n_pools++];
    hunt_must(shoal_session_open(&options, &p->session));
    list_slots(p);
}

void *hunt_api_new(void) {
    apis *a = hunt_alloc(sizeof *a);
    for (uint32_t n = 1; n <= MOST_WORKERS; n++) add_pool(a, n, n % 2 ? 0 : 3);
    return a;
}

void *hunt_panels_new(void) {
    static const uint8_t panels[][2] = {{1, 3}, {2, 2}, {2, 5}, {3, 4},
                                        {3, 8}, {4, 2}, {5, 3}, {5, 7}};
    apis *a = hunt_alloc(sizeof *a);
    for (int i = 0; i < MOST_POOLS; i++) add_pool(a, panels[i][0], panels[i][1]);
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
    p->layout.bound = r->binds && CHANCE(40);
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

static void make_tensor(run *r, const shoal_type *type, const void *data, shoal_tensor **x) {
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

static void make_input(run *r, uint32_t i, const void *data) {
    const shoal_graph *g = graph_data(r->program->graph);
    make_tensor(r, &g->values[g->inputs[i]].type, data, &r->values[g->inputs[i]]);
}

#define NEVER UINT32_MAX

/* Which node is the last to use each value; NEVER: it stays, as results do. inputs: those stay,
 * too.
 */
static void find_last(run *r, bool inputs) {
    const shoal_graph *g = graph_data(r->program->graph);
    for (uint32_t v = 0; v < g->n_values; v++) r->last[v] = NEVER;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        for (uint32_t k = 0; k < node->n_outputs; k++) r->last[node->first_output + k] = n;
        for (uint32_t k = 0; k < node->n_inputs; k++) r->last[node->inputs[k]] = n;
    }
    for (uint32_t i = 0; i < g->n_inputs && inputs; i++) r->last[g->inputs[i]] = NEVER;
    for (uint32_t i = 0; i < g->n_outputs; i++) r->last[g->outputs[i]] = NEVER;
}

/* Gives back a handle that node n was the last to need: what is not made yet need not be kept then,
 * and what is may be written over. Now and then the value is given away before. */
static void let_go_of(run *r, uint32_t value, uint32_t n, uint32_t donated) {
    if (r->last[value] != n || !r->values[value]) return;
    if (CHANCE(donated)) fine(r, "donate", shoal_tensor_donate(r->values[value]));
    shoal_tensor_free(&r->values[value]);
}

static void let_go(run *r, uint32_t n, uint32_t donated) {
    const shoal_node *node = &graph_data(r->program->graph)->nodes[n];
    for (uint32_t k = 0; k < node->n_inputs; k++) let_go_of(r, node->inputs[k], n, donated);
    for (uint32_t k = 0; k < node->n_outputs; k++) let_go_of(r, node->first_output + k, n, donated);
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

/* Another handle takes the place of a value's. */
static void detach(run *r, uint32_t value) {
    shoal_tensor *other;
    if (!fine(r, "detach", shoal_detach(r->values[value], &other))) return;
    shoal_tensor_free(&r->values[value]);
    r->values[value] = other;
}

static void read_value(run *r, uint32_t value, void *to) {
    const shoal_type *type = &graph_data(r->program->graph)->values[value].type;
    fine(r, "read", shoal_read(r->values[value], to, (size_t)base_type_bytes(type)));
}

/* Starts or reads a value on the way. */
static void use(run *r, uint32_t value) {
    if (CHANCE(30)) {
        fine(r, "start", shoal_start(r->values[value]));
        return;
    }
    void *data =
        hunt_alloc((size_t)base_type_bytes(&graph_data(r->program->graph)->values[value].type));
    read_value(r, value, data);
    free(data);
}

/* Records all nodes; often: reads and starts some values on the way. */
static void record_all(run *r, bool often, bool lets_go) {
    const shoal_graph *g = graph_data(r->program->graph);
    uint32_t donated = often && CHANCE(30) ? 50 : 0;
    for (uint32_t n = 0; n < g->n_nodes && !r->failed; n++) {
        const shoal_node *node = &g->nodes[n];
        record(r, node);
        if (r->failed) return;
        uint32_t value = node->first_output + BELOW(node->n_outputs);
        if (CHANCE(8)) place(r, &r->values[value]);
        if (CHANCE(2)) detach(r, value);
        if (often && CHANCE(30)) use(r, value);
        if (lets_go) let_go(r, n, donated);
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

/* From any of them on, one after the other or all at once. */
static void read_outputs(run *r, hunt_results *results) {
    const shoal_graph *g = graph_data(r->program->graph);
    uint32_t n = g->n_outputs, first = BELOW(n), begun = 0;
    shoal_reading **readings = hunt_alloc(n * sizeof *readings);
    bool together = CHANCE(20);
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        uint32_t o = (first + i) % n;
        if (!together)
            read_value(r, g->outputs[o], results->data[o]);
        else if (fine(r, "read",
                      shoal_read_begin(r->values[g->outputs[o]], results->data[o],
                                       results->bytes[o], &readings[begun])))
            begun++;
    }
    for (uint32_t i = 0; i < begun; i++) fine(r, "read", shoal_read_end(&readings[i]));
    free(readings);
}

static const char *run_recorded(run *r, hunt_truth *truth, hunt_results *results, bool often,
                                const char *how) {
    const shoal_graph *g = graph_data(r->program->graph);
    bool lets_go = CHANCE(60), started = CHANCE(30);
    find_last(r, false);
    for (uint32_t i = 0; i < g->n_inputs && !r->failed; i++) {
        make_input(r, i, r->program->inputs[i]);
        if (started && !r->failed) fine(r, "start", shoal_start(r->values[g->inputs[i]]));
    }
    record_all(r, often, lets_go);
    read_outputs(r, results);
    const char *why = compare(r, truth, results, how);
    free_values(r);
    return why;
}

/* ---- functions ---- */

/* A function, the operands that are given to it and what came back. */
typedef struct called {
    shoal_function *function;
    shoal_tensor **inputs, **outputs;
    uint32_t n, m;
} called;

static bool is_output(const shoal_graph *g, uint32_t value) {
    for (uint32_t o = 0; o < g->n_outputs; o++)
        if (g->outputs[o] == value) return true;
    return false;
}

/* The program as a function of its inputs, recorded with zeros; some inputs are donated. */
static called make_function(run *r) {
    const shoal_graph *g = graph_data(r->program->graph);
    called c = {.n = g->n_inputs, .m = g->n_outputs};
    c.inputs = hunt_alloc((c.n + 1) * sizeof *c.inputs);
    c.outputs = hunt_alloc((c.m + 1) * sizeof *c.outputs);
    find_last(r, true);
    for (uint32_t i = 0; i < c.n && !r->failed; i++) {
        void *other = hunt_alloc((size_t)base_type_bytes(&g->values[g->inputs[i]].type));
        make_input(r, i, other);
        free(other);
        c.inputs[i] = r->values[g->inputs[i]];
        if (!r->failed) fine(r, "start", shoal_start(c.inputs[i]));
    }
    if (!r->failed) record_all(r, false, CHANCE(60));
    for (uint32_t o = 0; o < c.m; o++) c.outputs[o] = r->values[g->outputs[o]];
    if (!r->failed)
        fine(r, "function",
             shoal_function_new(r->pool->session, c.inputs, c.n, c.outputs, c.m, &c.function));
    uint32_t donated = CHANCE(50) ? 60 : 0;
    for (uint32_t i = 0; i < c.n && !r->failed; i++) {
        bool always = CHANCE(50) && !is_output(g, g->inputs[i]);
        if (CHANCE(donated))
            fine(r, "donate",
                 shoal_function_donate(c.function, i,
                                       always ? SHOAL_DONATE_ALWAYS : SHOAL_DONATE_IF_LAST));
    }
    memset(c.outputs, 0, c.m * sizeof *c.outputs);
    return c;
}

static void renew_inputs(run *r, called *c) {
    const shoal_graph *g = graph_data(r->program->graph);
    for (uint32_t i = 0; i < c->n; i++) shoal_tensor_free(&r->values[g->inputs[i]]);
    for (uint32_t i = 0; i < c->n && !r->failed; i++) {
        make_input(r, i, r->program->inputs[i]);
        c->inputs[i] = r->values[g->inputs[i]];
    }
}

static void end_function(run *r, called *c) {
    for (uint32_t o = 0; o < c->m; o++) shoal_tensor_free(&c->outputs[o]);
    shoal_function_free(&c->function);
    free_values(r);
    free(c->inputs);
    free(c->outputs);
}

/* Run with zeros first, then with the inputs, once or twice. */
static const char *run_function(run *r, hunt_truth *truth, hunt_results *results) {
    called c = make_function(r);
    uint32_t turns = CHANCE(30) ? 3 : 2;
    const char *why = NULL;
    for (uint32_t turn = 0; turn < turns && !r->failed && !why; turn++) {
        if (turn) renew_inputs(r, &c);
        if (!r->failed) fine(r, "run", shoal_function_run(c.function, c.inputs, c.outputs));
        for (uint32_t o = 0; o < c.m && !r->failed; o++)
            if (turn)
                fine(r, "read", shoal_read(c.outputs[o], results->data[o], results->bytes[o]));
        for (uint32_t o = 0; o < c.m; o++) shoal_tensor_free(&c.outputs[o]);
        if (turn || r->failed) why = compare(r, truth, results, "as a function");
    }
    end_function(r, &c);
    return why;
}

/* ---- loops ---- */

enum { MOST_ROUNDS = 4, MOST_CARRIED = 64 };

typedef struct rounds {
    uint32_t n, n_carry, n_feed, n_stream;
    shoal_carry carry[MOST_CARRIED];
    uint32_t feed[MOST_CARRIED], stream[MOST_CARRIED];
    uint32_t from[MOST_CARRIED]; /* per input: 1 + the output that it is carried from */
    bool fed[MOST_CARRIED];      /* per input */
} rounds;

/* Which outputs are which inputs of the next round, which inputs differ in each round, and which
 * outputs are taken from each; false: the program cannot go on from what it gives. */
static bool choose_rounds(run *r, rounds *x) {
    const shoal_graph *g = graph_data(r->program->graph);
    *x = (rounds){.n = 1 + BELOW(MOST_ROUNDS)};
    if (g->n_inputs > MOST_CARRIED || g->n_outputs > MOST_CARRIED || !g->n_inputs) return false;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const shoal_type *type = &g->values[g->inputs[i]].type;
        uint32_t first = BELOW(g->n_outputs);
        for (uint32_t k = 0; k < g->n_outputs && !x->from[i]; k++) {
            uint32_t o = (first + k) % g->n_outputs;
            if (!base_type_equal(type, &g->values[g->outputs[o]].type) || CHANCE(20)) continue;
            x->carry[x->n_carry++] = (shoal_carry){.output = o, .input = i};
            x->from[i] = 1 + o;
        }
        x->fed[i] = !x->from[i] && type->rank < SHOAL_MAX_RANK && CHANCE(30);
        if (x->fed[i]) x->feed[x->n_feed++] = i;
    }
    for (uint32_t o = 0; o < g->n_outputs; o++)
        if (CHANCE(40)) x->stream[x->n_stream++] = o;
    return x->n_carry + x->n_feed > 0;
}

/* What a fed input holds in a round: its elements, turned further in each. */
static void fill_round(const hunt_program *program, uint32_t i, uint32_t round, char *to) {
    const shoal_graph *g = graph_data(program->graph);
    const shoal_type *type = &g->values[g->inputs[i]].type;
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    int64_t count = base_type_count(type);
    for (int64_t e = 0; e < count; e++)
        memcpy(to + (size_t)e * size,
               (const char *)program->inputs[i] + (size_t)((e + round) % count) * size, size);
}

/* The rounds as one program: its outputs are those of the first round, then of the second, ...;
 * then what is sorted. */
static hunt_program unroll(const hunt_program *program, const rounds *x) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_program out = *program;
    BASE_VEC(uint32_t) sorted = {0};
    uint32_t *map = hunt_alloc((g->n_values + 1) * sizeof *map);
    uint32_t *before = hunt_alloc((g->n_outputs + 1) * sizeof *before);
    uint32_t inputs[160];
    const shoal_graph *bodies[4];
    out.n_inputs = 0;
    out.n_outputs = x->n * g->n_outputs;
    out.inputs = hunt_alloc((x->n * g->n_inputs + 1) * sizeof *out.inputs);
    hunt_must(graph_new(0, &out.graph));
    for (uint32_t round = 0; round < x->n; round++) {
        for (uint32_t i = 0; i < g->n_inputs; i++) {
            const shoal_type *type = &g->values[g->inputs[i]].type;
            if (round && x->from[i]) map[g->inputs[i]] = before[x->from[i] - 1];
            if (round && !x->fed[i]) continue;
            hunt_must(graph_add_input(out.graph, type, &map[g->inputs[i]]));
            void *data = out.inputs[out.n_inputs++] = hunt_alloc((size_t)base_type_bytes(type));
            fill_round(program, i, x->fed[i] ? round : 0, data);
        }
        for (uint32_t n = 0; n < g->n_nodes; n++) {
            const shoal_node *node = &g->nodes[n];
            uint32_t first;
            for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = map[node->inputs[k]];
            for (uint16_t k = 0; k < node->n_regions; k++)
                hunt_must(graph_copy_body(out.graph, node->regions[k], &bodies[k]));
            hunt_must(graph_add(out.graph, node->op, inputs, node->n_inputs, node->attrs,
                                node->n_attrs, bodies, node->n_regions, &first));
            for (uint16_t k = 0; k < node->n_outputs; k++) map[node->first_output + k] = first + k;
            for (uint32_t k = 0; k < node->n_inputs && node->op == GRAPH_SORT; k++)
                if (!base_vec_push(&sorted, inputs[k])) hunt_must(SHOAL_NO_MEMORY);
        }
        for (uint32_t o = 0; o < g->n_outputs; o++) {
            before[o] = map[g->outputs[o]];
            hunt_must(graph_add_output(out.graph, before[o]));
        }
    }
    for (size_t k = 0; k < sorted.count; k++)
        hunt_must(graph_add_output(out.graph, sorted.data[k]));
    free(sorted.data);
    free(map);
    free(before);
    return out;
}

/* The fed inputs of all rounds, each as one tensor. */
static void make_fed(run *r, const rounds *x, called *c) {
    const shoal_graph *g = graph_data(r->program->graph);
    for (uint32_t i = 0; i < c->n && !r->failed; i++) {
        shoal_type type = g->values[g->inputs[i]].type;
        size_t bytes = (size_t)base_type_bytes(&type);
        if (!x->fed[i]) continue;
        memmove(type.dims + 1, type.dims, type.rank++ * sizeof *type.dims);
        type.dims[0] = x->n;
        char *all = hunt_alloc(x->n * bytes);
        for (uint32_t round = 0; round < x->n; round++)
            fill_round(r->program, i, round, all + round * bytes);
        shoal_tensor_free(&r->values[g->inputs[i]]);
        make_tensor(r, &type, all, &r->values[g->inputs[i]]);
        c->inputs[i] = r->values[g->inputs[i]];
        free(all);
    }
}

/* Takes what each round brings, then the results of the last. */
static void take_rounds(run *r, const rounds *x, called *c, shoal_loop *loop,
                        hunt_results *results) {
    void *data[MOST_CARRIED];
    size_t bytes[MOST_CARRIED];
    bool more = true;
    for (uint32_t round = 0; round < x->n && x->n_stream && !r->failed; round++) {
        for (uint32_t k = 0; k < x->n_stream; k++) {
            data[k] = results->data[round * c->m + x->stream[k]];
            bytes[k] = results->bytes[round * c->m + x->stream[k]];
        }
        fine(r, "next", shoal_loop_next(loop, data, bytes, &more));
        if (!r->failed && !more) fine(r, "next", base_fail(SHOAL_INTERNAL, "too few rounds"));
    }
    uint32_t last = (x->n - 1) * c->m;
    for (uint32_t o = 0; o < c->m && !r->failed; o++)
        fine(r, "read",
             shoal_read(c->outputs[o], results->data[last + o], results->bytes[last + o]));
}

/* Whether a round sorts NaN: LT and GT are no order of these, and make_index.c sorts none. */
static bool sorts_nan(const hunt_program *all, const hunt_truth *truth) {
    const shoal_graph *g = graph_data(all->graph);
    for (uint32_t o = all->n_outputs; o < g->n_outputs; o++) {
        const shoal_type *type = &g->values[g->outputs[o]].type;
        if (shoal_dtype_kind((shoal_dtype)type->dtype) != 'f') continue;
        for (int64_t i = 0; i < base_type_count(type); i++)
            if (isnan(hunt_number(type->dtype, truth->must.data[o], i))) return true;
    }
    return false;
}

/* As rounds of a loop, against the program written out so many times; what no round brings is taken
 * for right. */
static const char *run_loop(run *r, const rounds *x) {
    hunt_program all = unroll(r->program, x);
    hunt_truth truth;
    shoal_loop *loop = NULL;
    hunt_must(hunt_truth_init(&truth, &all));
    hunt_results results = hunt_results_new(graph_data(all.graph));
    for (uint32_t o = 0; o < results.n; o++)
        memcpy(results.data[o], truth.must.data[o], results.bytes[o]);
    called c = make_function(r);
    renew_inputs(r, &c);
    make_fed(r, x, &c);
    shoal_repeat repeat = {.size = sizeof repeat,
                           .rounds = x->n,
                           .n_carry = x->n_carry,
                           .n_stream = x->n_stream,
                           .n_feed = x->n_feed,
                           .carry = x->carry,
                           .stream = x->stream,
                           .feed = x->feed};
    if (!r->failed)
        fine(r, "repeat", shoal_function_repeat(c.function, c.inputs, &repeat, c.outputs, &loop));
    if (!r->failed) take_rounds(r, x, &c, loop, &results);
    const char *why = sorts_nan(&all, &truth) ? NULL : compare(r, &truth, &results, "as a loop");
    shoal_loop_free(&loop);
    end_function(r, &c);
    hunt_results_fini(&results);
    hunt_truth_fini(&truth);
    hunt_program_fini(&all);
    return why;
}

/* One way among many: which, follows from the seed. *misplaced: it failed for want of a slot. */
static const char *run_once(apis *a, const hunt_program *program, uint64_t seed, hunt_truth *truth,
                            bool *misplaced) {
    const shoal_graph *g = graph_data(program->graph);
    run r = {.apis = a, .random = {seed}, .program = program};
    r.pool = &a->pools[hunt_below(&r.random, a->n_pools)];
    r.binds = !a->changes && hunt_chance(&r.random, 15);
    r.values = hunt_alloc((g->n_values + 1) * sizeof *r.values);
    r.last = hunt_alloc((g->n_values + 1) * sizeof *r.last);
    hunt_results results = hunt_results_new(g);
    uint32_t how = hunt_below(&r.random, 10);
    const char *why;
    rounds loop;
    if (how < 2) {
        bool repeats = hunt_chance(&r.random, 50) && choose_rounds(&r, &loop);
        why = repeats ? run_loop(&r, &loop) : run_function(&r, truth, &results);
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
    free(r.last);
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
