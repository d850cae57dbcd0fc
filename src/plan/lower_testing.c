/* See lower_testing.h. */
#include "plan/lower_testing.h"

#include <math.h>

base_arena arena;

int fresh(void **state) {
    base_arena_init(&arena, 0);
    const char *round = getenv("MESON_TEST_ITERATION"); /* other numbers when it is repeated */
    srand(10 + (unsigned)(round ? atoi(round) : 1));
    return 0;
}

int finish(void **state) {
    base_arena_fini(&arena);
    return 0;
}

/* ---- pools: compute slots 10, 11, ... of two per peer, and a client ---- */

plan_slot slots[MOST_COMPUTE + 1];

base_speeds make_speeds(double products, double stream) {
    base_speeds speeds = {.of = {[BASE_STREAM] = stream}};
    for (int f = 0; f < BASE_STREAM; f++) speeds.of[f] = products;
    return speeds;
}

plan_pool make_pool(uint32_t compute, speed what) {
    static const char *names[] = {"w1/a", "w1/b", "w2/a", "w2/b", "w3/a"};
    static const double weights[] = {3, 1, 2, 1, 4};
    slots[0] = (plan_slot){.slot = CLIENT, .peer = 9, .name = "client"};
    for (uint32_t i = 0; i < compute; i++)
        slots[i + 1] =
            (plan_slot){.slot = 10 + i,
                        .peer = i / 2,
                        .compute = true,
                        .weight = weights[i],
                        .name = names[i],
                        .speeds = make_speeds((what == SLOW_SLOTS ? 1 : 1e12) * weights[i], 0)};
    return (plan_pool){.n_slots = compute + 1,
                       .slots = slots,
                       .link_bytes = what == SLOW_SLOTS ? 1e9 : 1e3,
                       .link_delay = what == SLOW_SLOTS ? 1e-6 : 1e-2};
}

/* ---- layouts to try on a tensor ---- */

bool make_layout(const shoal_type *type, uint32_t compute, uint32_t which, plan_layout *out) {
    uint32_t all[MOST_COMPUTE], client = CLIENT, last = 10 + compute - 1;
    double weights[MOST_COMPUTE];
    for (uint32_t i = 0; i < compute; i++) all[i] = 10 + (i * 2 + 1) % compute;
    if (compute % 2 == 0)
        for (uint32_t i = 0; i < compute; i++) all[i] = 10 + i;
    weights[0] = 1;
    for (uint32_t i = 1; i < compute; i++) weights[i] = rand() % 4;
    switch (which) {
    case ON_CLIENT: OK(plan_layout_whole(&arena, type->rank, type->dims, &client, 1, out)); break;
    case ON_ONE: OK(plan_layout_whole(&arena, type->rank, type->dims, all, 1, out)); break;
    case ON_LAST: OK(plan_layout_whole(&arena, type->rank, type->dims, &last, 1, out)); break;
    case COPIES: OK(plan_layout_whole(&arena, type->rank, type->dims, all, compute, out)); break;
    case GRID: {
        if (type->rank < 2 || compute < 4) return false;
        int64_t a = type->dims[0], b = type->dims[1], ints[32] = {0}, owners[4];
        uint32_t n = type->rank;
        for (uint32_t i = 0; i < type->rank; i++) {
            ints[i] = i < 2 ? 2 : 1;
            ints[n++] = 0;
            if (i < 2) ints[n++] = (i ? b : a) / 3;
            ints[n++] = type->dims[i];
        }
        for (int i = 0; i < 4; i++) owners[i] = all[i];
        OK(plan_layout_from_ints(&arena, type->rank, type->dims, ints, n, owners, 4, out));
        break;
    }
    case SUMS: { /* a client may hold a summand, but it cannot add */
        uint32_t coords[2 * (SHOAL_MAX_RANK + 1)];
        uint32_t both[] = {10, compute < 2 || rand() % 2 ? CLIENT : 11};
        OK(plan_layout_whole(&arena, type->rank, type->dims, both, 2, out));
        memset(coords, 0, sizeof coords);
        coords[2 * type->rank + 1] = 1;
        out->parts[type->rank] = 2;
        out->combine = GRAPH_ADD;
        out->coords = base_arena_copy(&arena, coords, sizeof coords);
        break;
    }
    default:
        if (which - AXIS >= type->rank || compute < 2) return false;
        OK(plan_layout_split(&arena, type->rank, type->dims, which - AXIS, 1, all, weights, compute,
                             out));
    }
    return true;
}

/* ---- one comparison ---- */

uint64_t compared, panelled;

static void fill(sim_array *array, const shoal_type *type) {
    sim_array_init(array, type);
    for (int64_t i = 0; i < base_type_count(type); i++) array->data[i] = rand() % 7 - 3;
}

/* Parts of float32 may be summed in another order than the whole. */
static bool same(double is, double must) {
    return !memcmp(&is, &must, sizeof is) || is == must ||
           fabs(is - must) <= 1e-6 * fmax(8, fabs(must));
}

static void compare_once(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
                         const plan_layout *const *wanted) {
    plan_result result;
    sim_array in[8], whole[8], pooled[8];
    assert_true(g->n_inputs <= 8 && g->n_outputs <= 8);
    for (uint32_t i = 0; i < g->n_inputs; i++) fill(&in[i], &g->values[g->inputs[i]].type);
    sim_run(g, in, whole);
    OK(plan_lower_explained(g, pool, inputs, wanted, &result));
    for (uint32_t i = 0; i < result.n_programs; i++) { /* a client only sends and receives */
        if (result.programs[i].slot != CLIENT) continue;
        graph *program = sim_program(&result.programs[i]);
        const shoal_graph *local = graph_data(program);
        for (uint32_t n = 0; n < local->n_nodes; n++)
            assert_int_equal(local->nodes[n].op, GRAPH_EXCHANGE);
        graph_destroy(&program);
    }
    const char *problem = sim_run_pool(g, &result, inputs, in, pooled);
    if (problem) {
        fprintf(stderr, "%s\n", result.explain);
        fail_msg("%s", problem);
    }
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        if (wanted && wanted[o]) assert_true(plan_layout_equal(wanted[o], &result.outputs[o]));
        const shoal_type *type = &g->values[g->outputs[o]].type;
        OK(plan_layout_verify(&result.outputs[o], type->rank, type->dims));
        for (int64_t e = 0; e < base_type_count(type); e++)
            if (!same(pooled[o].data[e], whole[o].data[e])) {
                fprintf(stderr, "%s\n", result.explain);
                fail_msg("output %u, element %d: %g, not %g", o, (int)e, pooled[o].data[e],
                         whole[o].data[e]);
            }
        sim_array_fini(&whole[o]);
        sim_array_fini(&pooled[o]);
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) sim_array_fini(&in[i]);
    panelled += strstr(result.explain, " panels") != NULL;
    plan_result_fini(&result);
    compared++;
}

void compare(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
             const plan_layout *const *wanted) {
    plan_pool panels = *pool;
    compare_once(g, pool, inputs, wanted);
    panels.panels = 2 + (uint32_t)rand() % 3;
    compare_once(g, &panels, inputs, wanted);
}

/* ---- graphs of one operation ---- */

int64_t extent(void) { return rand() % 9; }

static shoal_type type_of(shoal_dtype dtype, uint32_t rank, const int64_t *dims) {
    shoal_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    for (uint32_t a = 0; a < rank; a++) type.dims[a] = dims[a];
    return type;
}

uint32_t input(graph *g, shoal_dtype dtype, uint32_t rank, const int64_t *dims) {
    shoal_type type = type_of(dtype, rank, dims);
    uint32_t value;
    OK(graph_add_input(g, &type, &value));
    return value;
}

uint32_t add(graph *g, uint16_t op, const uint32_t *in, uint32_t n, const shoal_attr *attrs,
             uint16_t n_attrs) {
    uint32_t value;
    OK(graph_add(g, op, in, n, attrs, n_attrs, NULL, 0, &value));
    return value;
}

uint32_t scalar(graph *g, float number) {
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &number, sizeof number),
                          graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    return add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3);
}

uint32_t dot(graph *g, uint32_t a, uint32_t b, int64_t lhs, int64_t rhs, bool batch) {
    int64_t zero = 0;
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, &zero, batch),
                          graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, &zero, batch),
                          graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &lhs, 1),
                          graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &rhs, 1)};
    return add(g, GRAPH_DOT_GENERAL, (uint32_t[]){a, b}, 2, attrs, 4);
}

uint32_t reduce(graph *g, uint32_t value, uint32_t initial, uint16_t op, const int64_t *dimensions,
                size_t n) {
    const shoal_graph *body;
    uint32_t out;
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, dimensions, n);
    OK(graph_add_body(g, op, SHOAL_F32, &body));
    OK(graph_add(g, GRAPH_REDUCE, (uint32_t[]){value, initial}, 2, &attr, 1, &body, 1, &out));
    return out;
}
