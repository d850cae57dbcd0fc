/* Tests of lowering: what the plan does with products, weights and layers, and its errors. The pool
 * runs in this process (pool_sim.c). */
#include "plan/lower_testing.h"

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
        graph *program = sim_program(&result.programs[i]);
        assert_int_equal(graph_data(program)->n_nodes, result.programs[i].slot == CLIENT ? 1 : 3);
        graph_destroy(&program);
        assert_int_equal(result.programs[i].peak, result.programs[i].slot == CLIENT ? 0 : 192);
    }
    plan_result_fini(&result);
    graph_destroy(&g);
}

/* What is spread takes no memory while all who read it do so where it lies; else all of it. */
static void test_peak_of_spread(void **state) {
    for (int negated = 0; negated < 2; negated++) {
        graph *g;
        OK(graph_new(0, &g));
        const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, NULL, 0),
                                    graph_ints(SHOAL_ATTR_SHAPE, (int64_t[]){1000}, 1)};
        uint32_t x = input(g, SHOAL_F32, 1, (int64_t[]){1000}), s = input(g, SHOAL_F32, 0, NULL);
        uint32_t factor = add(g, GRAPH_NEGATE, &s, 1, NULL, 0);
        uint32_t spread = add(g, GRAPH_BROADCAST_IN_DIM, &factor, 1, attrs, 2);
        if (negated) spread = add(g, GRAPH_NEGATE, &spread, 1, NULL, 0);
        OK(graph_add_output(g, add(g, GRAPH_MULTIPLY, (uint32_t[]){x, spread}, 2, NULL, 0)));
        plan_pool pool = make_pool(1, SLOW_LINKS);
        plan_layout inputs[2];
        plan_result result;
        const shoal_graph *data = graph_data(g);
        make_layout(&data->values[x].type, 1, ON_ONE, &inputs[0]);
        make_layout(&data->values[s].type, 1, ON_ONE, &inputs[1]);
        OK(plan_lower(data, &pool, inputs, NULL, &result));
        assert_int_equal(result.n_programs, 1);
        assert_int_equal(result.programs[0].peak, negated ? 2 * 4032 : 64 + 4032);
        plan_result_fini(&result);
        graph_destroy(&g);
    }
}

/* What is spread and read on both sides of an exchange is handed from step to step, as it would
 * lie. */
static void test_peak_of_handed_on(void **state) {
    uint64_t peak[2];
    for (int again = 0; again < 2; again++) {
        graph *g;
        OK(graph_new(0, &g));
        const int64_t zero = 0, n = 10000;
        const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, NULL, 0),
                                    graph_ints(SHOAL_ATTR_SHAPE, &n, 1)};
        uint32_t x = input(g, SHOAL_F32, 1, &n), s = input(g, SHOAL_F32, 0, NULL);
        uint32_t factor = add(g, GRAPH_NEGATE, &s, 1, NULL, 0);
        uint32_t spread = add(g, GRAPH_BROADCAST_IN_DIM, &factor, 1, attrs, 2);
        uint32_t scaled = add(g, GRAPH_MULTIPLY, (uint32_t[]){x, spread}, 2, NULL, 0);
        uint32_t sum = reduce(g, scaled, scalar(g, 0), GRAPH_ADD, &zero, 1);
        uint32_t all = add(g, GRAPH_BROADCAST_IN_DIM, &sum, 1, attrs, 2);
        uint32_t behind[] = {all, x};
        uint32_t last = add(g, GRAPH_SUBTRACT, behind, 2, NULL, 0);
        last = add(g, GRAPH_MULTIPLY, (uint32_t[]){again ? spread : x, last}, 2, NULL, 0);
        OK(graph_add_output(g, last));
        plan_pool pool = make_pool(2, SLOW_LINKS);
        plan_layout inputs[2];
        plan_result result;
        const shoal_graph *data = graph_data(g);
        const uint32_t both[] = {10, 11};
        OK(plan_layout_split(&arena, 1, &n, 0, 1, both, NULL, 2, &inputs[0]));
        inputs[0].given = true;
        make_layout(&data->values[s].type, 2, COPIES, &inputs[1]);
        OK(plan_lower(data, &pool, inputs, NULL, &result));
        peak[again] = 0;
        for (uint32_t i = 0; i < result.n_programs; i++)
            if (result.programs[i].peak > peak[again]) peak[again] = result.programs[i].peak;
        plan_result_fini(&result);
        graph_destroy(&g);
    }
    assert_in_range(peak[1], peak[0] + 4 * 10000 / 2, UINT64_MAX);
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
    slots[1].speeds = make_speeds(0, 0);
    expect_error(data, &pool, &in, NULL, "slot 10 does 0 operations per second");
    pool = make_pool(2, SLOW_LINKS);
    pool.link_bytes = 0;
    expect_error(data, &pool, &in, NULL, "links of 0 bytes per second");
    pool = make_pool(2, SLOW_LINKS);
    OK(graph_add_output(g, p));
    expect_error(graph_data(g), &pool, &in, NULL,
                 "node 0 (place) at a.py:3: slot 77 is not in the pool");
    graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_products, fresh, finish),
        cmocka_unit_test_setup_teardown(test_weights, fresh, finish),
        cmocka_unit_test_setup_teardown(test_layers, fresh, finish),
        cmocka_unit_test_setup_teardown(test_once, fresh, finish),
        cmocka_unit_test_setup_teardown(test_peak_of_spread, fresh, finish),
        cmocka_unit_test_setup_teardown(test_peak_of_handed_on, fresh, finish),
        cmocka_unit_test_setup_teardown(test_errors, fresh, finish),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("%llu lowered graphs compared with the whole graph, %llu of them in panels\n",
           (unsigned long long)compared, (unsigned long long)panelled);
    return failed || !panelled;
}
