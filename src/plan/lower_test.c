/* Tests of lowering: every operation, under many layouts and pools, gives what the whole graph
 * gives. The pool runs in this process (pool_sim.c). */
#include "plan/lower.h"
#include "plan/pool_sim.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != SHOAL_OK) fail_msg("%s: %s", #call, shoal_error_message());                  \
    } while (0)

enum { CLIENT = 40, MOST_COMPUTE = 5 };

static base_arena arena;

static int fresh(void **state) {
    base_arena_init(&arena, 0);
    srand(11);
    return 0;
}

static int finish(void **state) {
    base_arena_fini(&arena);
    return 0;
}

/* ---- pools: compute slots 10, 11, ... of two per peer, and a client ---- */

typedef enum speed { SLOW_SLOTS, SLOW_LINKS } speed;

static plan_slot slots[MOST_COMPUTE + 1];

static plan_pool make_pool(uint32_t compute, speed what) {
    static const char *names[] = {"w1/a", "w1/b", "w2/a", "w2/b", "w3/a"};
    static const double weights[] = {3, 1, 2, 1, 4};
    slots[0] = (plan_slot){.slot = CLIENT, .peer = 9, .name = "client"};
    for (uint32_t i = 0; i < compute; i++)
        slots[i + 1] = (plan_slot){.slot = 10 + i,
                                   .peer = i / 2,
                                   .compute = true,
                                   .weight = weights[i],
                                   .name = names[i],
                                   .flops = (what == SLOW_SLOTS ? 1 : 1e12) * weights[i]};
    return (plan_pool){.n_slots = compute + 1,
                       .slots = slots,
                       .link_bytes = what == SLOW_SLOTS ? 1e9 : 1e3,
                       .link_delay = what == SLOW_SLOTS ? 1e-6 : 1e-2};
}

/* ---- layouts to try on a tensor ---- */

enum { ON_CLIENT, ON_ONE, ON_LAST, COPIES, GRID, SUMS, AXIS };

/* Layout number `which` of a tensor; false when the tensor or pool has no such one. AXIS + a: axis
 * a cut over all slots by random weights, some parts empty. */
static bool make_layout(const shoal_type *type, uint32_t compute, uint32_t which,
                        plan_layout *out) {
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
        static uint32_t coords[2 * (SHOAL_MAX_RANK + 1)];
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

static uint64_t compared;

static void fill(sim_array *array, const shoal_type *type) {
    sim_array_init(array, type);
    for (int64_t i = 0; i < base_type_count(type); i++) array->data[i] = rand() % 7 - 3;
}

/* Lowers, runs the pool, and compares with the graph run whole. */
static void compare(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
                    const plan_layout *const *wanted) {
    plan_result result;
    sim_array in[8], whole[8], pooled[8];
    assert_true(g->n_inputs <= 8 && g->n_outputs <= 8);
    for (uint32_t i = 0; i < g->n_inputs; i++) fill(&in[i], &g->values[g->inputs[i]].type);
    sim_run(g, in, whole);
    OK(plan_lower_explained(g, pool, inputs, wanted, &result));
    for (uint32_t i = 0; i < result.n_programs; i++) { /* a client only sends and receives */
        const shoal_graph *local = graph_data(result.programs[i].graph);
        for (uint32_t n = 0; n < local->n_nodes && result.programs[i].slot == CLIENT; n++)
            assert_int_equal(local->nodes[n].op, GRAPH_EXCHANGE);
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
            if (memcmp(&whole[o].data[e], &pooled[o].data[e], sizeof(double)) &&
                whole[o].data[e] != pooled[o].data[e]) {
                fprintf(stderr, "%s\n", result.explain);
                fail_msg("output %u, element %d: %g, not %g", o, (int)e, pooled[o].data[e],
                         whole[o].data[e]);
            }
        sim_array_fini(&whole[o]);
        sim_array_fini(&pooled[o]);
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) sim_array_fini(&in[i]);
    plan_result_fini(&result);
    compared++;
}

/* ---- graphs of one operation ---- */

static int64_t extent(void) { return rand() % 9; }

static shoal_type type_of(shoal_dtype dtype, uint32_t rank, const int64_t *dims) {
    shoal_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    for (uint32_t a = 0; a < rank; a++) type.dims[a] = dims[a];
    return type;
}

static uint32_t input(graph *g, shoal_dtype dtype, uint32_t rank, const int64_t *dims) {
    shoal_type type = type_of(dtype, rank, dims);
    uint32_t value;
    OK(graph_add_input(g, &type, &value));
    return value;
}

static uint32_t add(graph *g, uint16_t op, const uint32_t *in, uint32_t n, const shoal_attr *attrs,
                    uint16_t n_attrs) {
    uint32_t value;
    OK(graph_add(g, op, in, n, attrs, n_attrs, NULL, 0, &value));
    return value;
}

static uint32_t scalar(graph *g, float number) {
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &number, sizeof number),
                          graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    return add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3);
}

static uint32_t dot(graph *g, uint32_t a, uint32_t b, int64_t lhs, int64_t rhs, bool batch) {
    int64_t zero = 0;
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, &zero, batch),
                          graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, &zero, batch),
                          graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &lhs, 1),
                          graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &rhs, 1)};
    return add(g, GRAPH_DOT_GENERAL, (uint32_t[]){a, b}, 2, attrs, 4);
}

static uint32_t reduce(graph *g, uint32_t value, uint32_t initial, uint16_t op,
                       const int64_t *dimensions, size_t n) {
    const shoal_graph *body;
    uint32_t out;
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, dimensions, n);
    OK(graph_add_body(g, op, SHOAL_F32, &body));
    OK(graph_add(g, GRAPH_REDUCE, (uint32_t[]){value, initial}, 2, &attr, 1, &body, 1, &out));
    return out;
}

static uint32_t unary(graph *g, uint16_t op) {
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){extent(), extent()});
    return add(g, op, &x, 1, NULL, 0);
}

static uint32_t binary(graph *g, uint16_t op) {
    int64_t dims[] = {extent(), 1 + extent(), 2};
    uint32_t in[] = {input(g, SHOAL_F32, 3, dims), input(g, SHOAL_F32, 3, dims)};
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    return add(g, op, in, 2, &attr, op == GRAPH_COMPARE);
}

static uint32_t build_select(graph *g) {
    int64_t dims[] = {extent(), extent()};
    uint32_t x = input(g, SHOAL_F32, 2, dims), y = input(g, SHOAL_F32, 2, dims);
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "GE");
    uint32_t which = add(g, GRAPH_COMPARE, (uint32_t[]){x, y}, 2, &attr, 1);
    return add(g, GRAPH_SELECT, (uint32_t[]){which, x, y}, 3, NULL, 0);
}

static uint32_t build_convert(graph *g) {
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){extent(), extent()});
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, rand() % 2 ? SHOAL_F64 : SHOAL_I8);
    return add(g, GRAPH_CONVERT, &x, 1, &attr, 1);
}

static uint32_t build_constant(graph *g) {
    float numbers[64];
    int64_t dims[] = {extent() % 8, 1 + extent() % 7};
    bool splat = rand() % 2;
    size_t n = splat ? 1 : (size_t)(dims[0] * dims[1]);
    uint32_t x = input(g, SHOAL_F32, 2, dims);
    for (int i = 0; i < 64; i++) numbers[i] = (float)(i % 13);
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, numbers, n * sizeof *numbers),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, 2),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    uint32_t c = add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3);
    return rand() % 4 ? add(g, GRAPH_ADD, (uint32_t[]){x, c}, 2, NULL, 0) : c;
}

static uint32_t build_iota(graph *g) {
    int64_t dims[] = {extent(), extent()};
    uint32_t x = input(g, SHOAL_F32, 2, dims);
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, rand() % 2),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, 2),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    uint32_t i = add(g, GRAPH_IOTA, NULL, 0, attrs, 3);
    return rand() % 4 ? add(g, GRAPH_MULTIPLY, (uint32_t[]){x, i}, 2, NULL, 0) : i;
}

static uint32_t build_broadcast(graph *g) {
    int64_t n = extent(), m = extent(), to[] = {m, n, 3}, which[] = {1, 2};
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){n, rand() % 2 ? 1 : 3});
    uint32_t y = input(g, SHOAL_F32, 3, to);
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, which, 2),
                          graph_ints(SHOAL_ATTR_SHAPE, to, 3)};
    uint32_t b = add(g, GRAPH_BROADCAST_IN_DIM, &x, 1, attrs, 2);
    return rand() % 2 ? add(g, GRAPH_ADD, (uint32_t[]){b, y}, 2, NULL, 0) : b;
}

static uint32_t build_reshape(graph *g) {
    int64_t n = extent(), m = 1 + extent();
    int64_t from[][3] = {{n, 2 * m, 3}, {n, 2, 3 * m}, {2 * n, m, 1}, {4, 3 * n, 2}};
    int64_t to[][4] = {{n, m, 2, 3}, {n, 6 * m, 1, 1}, {n, 2, 1, m}, {2, 2, n, 6}};
    int which = rand() % 4;
    uint32_t x = input(g, SHOAL_F32, 3, from[which]);
    shoal_attr attr = graph_ints(SHOAL_ATTR_SHAPE, to[which], 4);
    return add(g, GRAPH_RESHAPE, &x, 1, &attr, 1);
}

static uint32_t build_transpose(graph *g) {
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){extent(), extent(), 1 + extent()});
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, (int64_t[]){2, 0, 1}, 3);
    return add(g, GRAPH_TRANSPOSE, &x, 1, &attr, 1);
}

static uint32_t build_slice(graph *g) {
    int64_t n = 4 + extent(), m = extent();
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){n, m});
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, (int64_t[]){1 + rand() % 3, 0}, 2),
                          graph_ints(SHOAL_ATTR_LIMIT_INDICES, (int64_t[]){n - rand() % 2, m}, 2),
                          graph_ints(SHOAL_ATTR_STRIDES, (int64_t[]){1 + rand() % 2, 1}, 2)};
    return add(g, GRAPH_SLICE, &x, 1, attrs, 3);
}

static uint32_t build_concatenate(graph *g) {
    int64_t n = extent(), axis = rand() % 2;
    int64_t a[] = {n, n}, b[] = {n, n};
    b[axis] = extent();
    uint32_t in[] = {input(g, SHOAL_F32, 2, a), input(g, SHOAL_F32, 2, b)};
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    return add(g, GRAPH_CONCATENATE, in, 2, &attr, 1);
}

/* Sums and largest elements, from an identity, from another number, and from an input. */
static uint32_t build_reduce(graph *g) {
    static const int64_t dimensions[][2] = {{0}, {1}, {0, 2}, {1, 2}};
    static const size_t n[] = {1, 1, 2, 2};
    int which = rand() % 4, from = rand() % 3;
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){extent(), extent(), 1 + extent() / 3});
    uint32_t initial = from == 0   ? scalar(g, 0)
                       : from == 1 ? scalar(g, 2)
                                   : input(g, SHOAL_F32, 0, NULL);
    return reduce(g, x, initial, rand() % 3 ? GRAPH_ADD : GRAPH_MAXIMUM, dimensions[which],
                  n[which]);
}

static uint32_t build_dot(graph *g) {
    int64_t m = extent(), k = extent(), n = extent(), b = 1 + extent() / 3;
    if (rand() % 2) {
        uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){m, k});
        return dot(g, x, input(g, SHOAL_F32, 2, (int64_t[]){k, n}), 1, 0, false);
    }
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){b, m, k});
    return dot(g, x, input(g, SHOAL_F32, 3, (int64_t[]){b, n, k}), 2, 2, true);
}

/* x placed by rows over the first slot and as many more as there are, then used twice. */
static uint32_t build_place(graph *g) {
    int64_t n = 2 + extent(), m = extent();
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){n, m});
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_CUTS, (int64_t[]){1, 1, 0, n, 0, m}, 6),
                          graph_ints(SHOAL_ATTR_SLOTS, (int64_t[]){10}, 1)};
    uint32_t p = add(g, GRAPH_PLACE, &x, 1, attrs, 2);
    return rand() % 2 ? p : add(g, GRAPH_MULTIPLY, (uint32_t[]){p, x}, 2, NULL, 0);
}

static const struct {
    uint16_t op;
    uint32_t (*build)(graph *g); /* NULL: unary or binary, by the arity */
} cases[] = {
    {GRAPH_NEGATE, NULL},
    {GRAPH_ABS, NULL},
    {GRAPH_EXPONENTIAL, NULL},
    {GRAPH_LOG, NULL},
    {GRAPH_SQRT, NULL},
    {GRAPH_TANH, NULL},
    {GRAPH_LOGISTIC, NULL},
    {GRAPH_ADD, NULL},
    {GRAPH_SUBTRACT, NULL},
    {GRAPH_MULTIPLY, NULL},
    {GRAPH_DIVIDE, NULL},
    {GRAPH_MAXIMUM, NULL},
    {GRAPH_MINIMUM, NULL},
    {GRAPH_POWER, NULL},
    {GRAPH_COMPARE, NULL},
    {GRAPH_SELECT, build_select},
    {GRAPH_CONVERT, build_convert},
    {GRAPH_CONSTANT, build_constant},
    {GRAPH_IOTA, build_iota},
    {GRAPH_BROADCAST_IN_DIM, build_broadcast},
    {GRAPH_RESHAPE, build_reshape},
    {GRAPH_TRANSPOSE, build_transpose},
    {GRAPH_SLICE, build_slice},
    {GRAPH_CONCATENATE, build_concatenate},
    {GRAPH_REDUCE, build_reduce},
    {GRAPH_DOT_GENERAL, build_dot},
    {GRAPH_PLACE, build_place},
};

/* One operation under all pairs of layouts of its first two inputs; the rest at random. */
static void compare_all(size_t which, uint32_t compute, unsigned *pairs) {
    uint16_t op = cases[which].op;
    enum { LAYOUTS = AXIS + 3 };
    for (uint32_t pair = 0; pair < LAYOUTS * LAYOUTS; pair++) {
        graph *g;
        OK(graph_new(0, &g));
        uint32_t out = cases[which].build              ? cases[which].build(g)
                       : graph_op(op)->max_inputs == 1 ? unary(g, op)
                                                       : binary(g, op);
        OK(graph_add_output(g, out));
        const shoal_graph *data = graph_data(g);
        plan_layout inputs[8], want;
        const plan_layout *wanted = NULL;
        bool fine = data->n_inputs > 1 || pair < LAYOUTS;
        for (uint32_t i = 0; i < data->n_inputs && fine; i++) {
            uint32_t layout = i == 0   ? pair % LAYOUTS
                              : i == 1 ? pair / LAYOUTS
                                       : (uint32_t)rand() % COPIES;
            const shoal_type *type = &data->values[data->inputs[i]].type;
            if (i == 1 && type->rank == 0) layout %= COPIES + 1;
            fine = make_layout(type, compute, layout, &inputs[i]);
        }
        uint32_t how = (uint32_t)rand() % LAYOUTS;
        if (fine && rand() % 2 && how != SUMS &&
            make_layout(&data->values[out].type, compute, how, &want))
            wanted = &want;
        if (fine) {
            plan_pool pool = make_pool(compute, rand() % 2 ? SLOW_SLOTS : SLOW_LINKS);
            compare(data, &pool, inputs, &wanted);
            ++*pairs;
        }
        graph_destroy(&g);
    }
    base_arena_fini(&arena);
}

static void test_operations(void **state) {
    bool covered[GRAPH_OP_BUILT_IN] = {0};
    unsigned pairs = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        covered[cases[i].op] = true;
        for (uint32_t compute = 1; compute <= MOST_COMPUTE; compute++)
            compare_all(i, compute, &pairs);
    }
    for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++)
        if (!covered[op] && op != GRAPH_EXCHANGE) fail_msg("%s is not tested", shoal_op_name(op));
    print_message("%u (operation, layouts) pairs over 1 to %d slots\n", pairs, MOST_COMPUTE);
}

/* ---- products, by what the plan does ---- */

typedef struct product {
    graph *g;
    plan_layout in[2];
} product;

static product make_product(int64_t m, int64_t k, int64_t n) {
    product p;
    OK(graph_new(0, &p.g));
    uint32_t a = input(p.g, SHOAL_F32, 2, (int64_t[]){m, k});
    uint32_t b = input(p.g, SHOAL_F32, 2, (int64_t[]){k, n});
    OK(graph_add_output(p.g, dot(p.g, a, b, 1, 0, false)));
    return p;
}

static void lay(plan_layout *out, int64_t rows, int64_t columns, const int64_t *ints,
                const int64_t *owners, size_t n_owners) {
    int64_t dims[] = {rows, columns};
    OK(plan_layout_from_ints(&arena, 2, dims, ints, (size_t)(ints[0] + ints[1] + 4), owners,
                             n_owners, out));
}

/* Lowers a product whose operands lie as said; checks where the result lies and what has moved. */
static void expect_product(product *p, uint32_t compute, const char *text, uint64_t bytes) {
    plan_pool pool = make_pool(compute, SLOW_LINKS);
    plan_result result;
    base_str s;
    base_str_init(&s);
    OK(plan_lower(graph_data(p->g), &pool, p->in, NULL, &result));
    plan_layout_text(&result.outputs[0], &s);
    assert_string_equal(s.data, text);
    assert_int_equal(result.bytes_moved, bytes);
    base_str_fini(&s);
    plan_result_fini(&result);
    compare(graph_data(p->g), &pool, p->in, NULL);
    graph_destroy(&p->g);
}

static void test_products(void **state) {
    int64_t one[] = {10, 11}, four[] = {10, 11, 12, 13}, turned[] = {10, 12, 11, 13};
    product p = make_product(7, 5, 6); /* by rows */
    lay(&p.in[0], 7, 5, (int64_t[]){2, 1, 0, 4, 7, 0, 5}, one, 2);
    lay(&p.in[1], 5, 6, (int64_t[]){1, 1, 0, 5, 0, 6}, one, 2);
    expect_product(&p, 2, "rows 0..4..7 on 10,11", 0);
    p = make_product(7, 5, 6); /* by columns */
    lay(&p.in[0], 7, 5, (int64_t[]){1, 1, 0, 7, 0, 5}, one, 2);
    lay(&p.in[1], 5, 6, (int64_t[]){1, 2, 0, 5, 0, 1, 6}, one, 2);
    expect_product(&p, 2, "columns 0..1..6 on 10,11", 0);
    p = make_product(8, 50, 8); /* by the inner dimension: sums are joined in shares */
    lay(&p.in[0], 8, 50, (int64_t[]){1, 2, 0, 8, 0, 20, 50}, one, 2);
    lay(&p.in[1], 50, 8, (int64_t[]){2, 1, 0, 20, 50, 0, 8}, one, 2);
    expect_product(&p, 2, "rows 0..6..8 on 10,11", 8 * 8 * 4);
    p = make_product(7, 5, 6); /* on a grid */
    lay(&p.in[0], 7, 5, (int64_t[]){2, 1, 0, 3, 7, 0, 5}, four, 4);
    lay(&p.in[1], 5, 6, (int64_t[]){1, 2, 0, 5, 0, 2, 6}, turned, 4);
    expect_product(&p, 4, "rows 0..3..7, columns 0..2..6 on 10,11,12,13", 0);
}

/* A slow pool of fast links divides by weights; slots of weight 0 get nothing. */
static void test_weights(void **state) {
    product p = make_product(600, 10, 40);
    const shoal_graph *g = graph_data(p.g);
    make_layout(&g->values[0].type, 3, ON_CLIENT, &p.in[0]);
    make_layout(&g->values[1].type, 3, ON_CLIENT, &p.in[1]);
    plan_pool pool = make_pool(3, SLOW_SLOTS);
    plan_result result;
    OK(plan_lower_explained(g, &pool, p.in, NULL, &result));
    assert_int_equal(result.outputs[0].parts[0], 3);
    assert_int_equal(result.outputs[0].cuts[0][1], 300);
    assert_int_equal(result.outputs[0].cuts[0][2], 400);
    assert_non_null(strstr(result.explain, "dot_general: float32[600, 40], loops "));
    assert_non_null(strstr(result.explain, "client to w2/a"));
    assert_non_null(strstr(result.explain, "w1/a                 50.0 %"));
    assert_non_null(strstr(result.explain, "the pool is faster"));
    assert_non_null(strstr(result.explain_json, "\"pool_wins\":true"));
    assert_int_equal(result.n_programs, 4);
    plan_result_fini(&result);
    slots[1].weight = 0;
    OK(plan_lower_explained(g, &pool, p.in, NULL, &result));
    assert_int_equal(plan_layout_find(&result.outputs[0], 10), -1);
    plan_result_fini(&result);
    pool = make_pool(3, SLOW_LINKS); /* not worth it: everything on one slot */
    OK(plan_lower_explained(g, &pool, p.in, NULL, &result));
    assert_int_equal(result.outputs[0].n_slots, 1);
    assert_null(strstr(result.explain, "the pool is faster"));
    plan_result_fini(&result);
    graph_destroy(&p.g);
}

/* Two layers with a bias, a placed middle, a value used twice and two outputs. */
static void build_layers(graph *g, int64_t rows, uint32_t compute) {
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){rows, 6});
    uint32_t w = input(g, SHOAL_F32, 2, (int64_t[]){6, 8});
    uint32_t b = input(g, SHOAL_F32, 1, (int64_t[]){8});
    uint32_t v = input(g, SHOAL_F32, 2, (int64_t[]){8, 3});
    int64_t shape[] = {rows, 8}, one = 1, axes[] = {0, 1}, cuts[16], owners[MOST_COMPUTE];
    shoal_attr wide[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, &one, 1),
                         graph_ints(SHOAL_ATTR_SHAPE, shape, 2)};
    shoal_attr wider[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_SHAPE, shape, 2)};
    uint32_t h = dot(g, x, w, 1, 0, false), zero = scalar(g, 0);
    h = add(g, GRAPH_ADD, (uint32_t[]){h, add(g, GRAPH_BROADCAST_IN_DIM, &b, 1, wide, 2)}, 2, NULL,
            0);
    h = add(g, GRAPH_MAXIMUM, (uint32_t[]){h, add(g, GRAPH_BROADCAST_IN_DIM, &zero, 1, wider, 2)},
            2, NULL, 0);
    cuts[0] = 1;
    cuts[1] = compute;
    cuts[2] = 0;
    cuts[3] = rows;
    for (uint32_t i = 0; i <= compute; i++) cuts[4 + i] = i < compute ? i : 8;
    for (uint32_t i = 0; i < compute; i++) owners[i] = 10 + i;
    shoal_attr place[] = {graph_ints(SHOAL_ATTR_CUTS, cuts, compute + 5),
                          graph_ints(SHOAL_ATTR_SLOTS, owners, compute)};
    h = add(g, GRAPH_PLACE, &h, 1, place, 2);
    uint32_t y = dot(g, h, v, 1, 0, false);
    uint32_t square = add(g, GRAPH_MULTIPLY, (uint32_t[]){y, y}, 2, NULL, 0);
    OK(graph_add_output(g, reduce(g, square, zero, GRAPH_ADD, axes, 2)));
    OK(graph_add_output(g, dot(g, h, y, 0, 0, false)));
    OK(graph_add_output(g, x));
}

static void test_layers(void **state) {
    for (int round = 0; round < 600; round++) {
        uint32_t compute = 1 + (uint32_t)rand() % MOST_COMPUTE;
        graph *g;
        OK(graph_new(0, &g));
        build_layers(g, extent(), compute);
        const shoal_graph *data = graph_data(g);
        plan_pool pool = make_pool(compute, round % 2 ? SLOW_SLOTS : SLOW_LINKS);
        plan_layout inputs[4], want;
        const plan_layout *wanted[3] = {0};
        for (uint32_t i = 0; i < 4; i++)
            while (!make_layout(&data->values[data->inputs[i]].type, compute,
                                (uint32_t)rand() % (AXIS + 2), &inputs[i]))
                ;
        uint32_t how = (uint32_t)rand() % (AXIS + 2);
        if (rand() % 2 && how != SUMS &&
            make_layout(&data->values[data->outputs[1]].type, compute, how, &want))
            wanted[1] = &want;
        compare(data, &pool, inputs, wanted);
        graph_destroy(&g);
        base_arena_fini(&arena);
    }
}

/* A value needed twice in one form is brought once; what nobody needs is not there. */
static void test_once(void **state) {
    graph *g;
    OK(graph_new(0, &g));
    uint32_t x = input(g, SHOAL_F32, 1, (int64_t[]){4}), y = input(g, SHOAL_F32, 1, (int64_t[]){4});
    uint32_t sum = add(g, GRAPH_ADD, (uint32_t[]){x, y}, 2, NULL, 0);
    add(g, GRAPH_NEGATE, &y, 1, NULL, 0);
    OK(graph_add_output(g, add(g, GRAPH_MULTIPLY, (uint32_t[]){sum, x}, 2, NULL, 0)));
    plan_pool pool = make_pool(2, SLOW_LINKS);
    plan_layout inputs[2];
    plan_result result;
    const shoal_graph *data = graph_data(g);
    make_layout(&data->values[x].type, 2, ON_CLIENT, &inputs[0]);
    make_layout(&data->values[y].type, 2, ON_ONE, &inputs[1]);
    OK(plan_lower(data, &pool, inputs, NULL, &result));
    assert_int_equal(result.bytes_moved, 16);
    assert_int_equal(result.n_programs, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const shoal_graph *local = graph_data(result.programs[i].graph);
        assert_int_equal(local->n_nodes, result.programs[i].slot == CLIENT ? 1 : 3);
        assert_int_equal(result.programs[i].peak, result.programs[i].slot == CLIENT ? 0 : 192);
    }
    plan_result_fini(&result);
    graph_destroy(&g);
}

static void expect_error(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
                         const plan_layout *const *wanted, const char *text) {
    plan_result result;
    assert_int_equal(plan_lower(g, pool, inputs, wanted, &result), SHOAL_INVALID);
    if (!strstr(shoal_error_message(), text))
        fail_msg("'%s' does not contain '%s'", shoal_error_message(), text);
}

static void test_errors(void **state) {
    graph *g;
    OK(graph_new(0, &g));
    uint32_t x = input(g, SHOAL_F32, 1, (int64_t[]){4});
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_CUTS, (int64_t[]){2, 0, 2, 4}, 4),
                          graph_ints(SHOAL_ATTR_SLOTS, (int64_t[]){10, 77}, 2)};
    OK(graph_at(g, "a.py:3", NULL));
    uint32_t p = add(g, GRAPH_PLACE, &x, 1, attrs, 2);
    uint32_t n = add(g, GRAPH_NEGATE, &x, 1, NULL, 0);
    OK(graph_add_output(g, n));
    const shoal_graph *data = graph_data(g);
    plan_pool pool = make_pool(2, SLOW_LINKS);
    plan_layout in, other, partial;
    make_layout(&data->values[x].type, 2, ON_CLIENT, &in);
    const plan_layout *wanted = &other;
    OK(plan_layout_whole(&arena, 1, (int64_t[]){4}, (uint32_t[]){3}, 1, &other));
    expect_error(data, &pool, &other, NULL, "layout of input 0: slot 3 is not in the pool");
    expect_error(data, &pool, &in, &wanted, "wanted layout of output 0: slot 3 is not in the pool");
    OK(plan_layout_whole(&arena, 1, (int64_t[]){5}, (uint32_t[]){10}, 1, &other));
    expect_error(data, &pool, &other, NULL, "its extent is 4");
    uint32_t both[] = {0, 0, 0, 1};
    OK(plan_layout_whole(&arena, 1, (int64_t[]){4}, (uint32_t[]){10, 11}, 2, &partial));
    partial.parts[1] = 2;
    partial.coords = both;
    wanted = &partial;
    expect_error(data, &pool, &in, &wanted, "cannot be wanted in summands");
    pool.n_slots = 1;
    expect_error(data, &pool, &in, NULL, "node 1 (negate) at a.py:3: no slot of the pool computes");
    pool = make_pool(2, SLOW_LINKS);
    slots[2].slot = 10;
    expect_error(data, &pool, &in, NULL, "slot 10 is twice in the pool");
    pool = make_pool(2, SLOW_LINKS);
    slots[1].flops = 0;
    expect_error(data, &pool, &in, NULL, "slot 10 does 0 operations per second");
    pool = make_pool(2, SLOW_LINKS);
    pool.link_bytes = 0;
    expect_error(data, &pool, &in, NULL, "links of 0 bytes per second");
    pool = make_pool(2, SLOW_LINKS);
    OK(graph_add_output(g, p));
    expect_error(graph_data(g), &pool, &in, NULL, "node 0 (place): slot 77 is not in the pool");
    graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_operations, fresh, finish),
        cmocka_unit_test_setup_teardown(test_products, fresh, finish),
        cmocka_unit_test_setup_teardown(test_weights, fresh, finish),
        cmocka_unit_test_setup_teardown(test_layers, fresh, finish),
        cmocka_unit_test_setup_teardown(test_once, fresh, finish),
        cmocka_unit_test_setup_teardown(test_errors, fresh, finish),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("%llu lowered graphs compared with the whole graph\n", (unsigned long long)compared);
    return failed;
}
