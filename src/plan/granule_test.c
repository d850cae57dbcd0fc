/* Tests of granules: no cut of the planner's own falls inside a head, a block or a group that a
 * reader needs together, whatever the weights; what a user has cut exactly stays so. */
#include "base/block.h"
#include "plan/lower_testing.h"

enum { HEADS = 7, DIM = 6, ROUNDS = 20 };

static uint32_t reshape(graph *g, uint32_t x, uint32_t rank, const int64_t *dims) {
    shoal_attr attr = graph_ints(SHOAL_ATTR_SHAPE, dims, rank);
    return add(g, GRAPH_RESHAPE, &x, 1, &attr, 1);
}

static uint32_t dequantize(graph *g, uint32_t x, const char *format) {
    shoal_attr attrs[] = {graph_string(SHOAL_ATTR_FORMAT, format),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    return add(g, GRAPH_DEQUANTIZE, &x, 1, attrs, 2);
}

/* A pool of 1 to 5 slots whose weights are anything. */
static plan_pool any_pool(uint32_t round) {
    plan_pool pool = make_pool(1 + round % MOST_COMPUTE, round % 3 ? SLOW_SLOTS : SLOW_LINKS);
    for (uint32_t i = 0; i < pool.n_slots; i++)
        if (slots[i].compute) slots[i].weight = 1 + rand() % 9;
    return pool;
}

/* Every part of results of an operation has a multiple of the granule along an axis. Returns how
 * many of them are not the whole axis. */
static uint32_t check_parts(const plan_result *result, uint16_t op, uint32_t axis, int64_t granule,
                            int64_t extent) {
    uint32_t cut = 0;
    for (uint32_t p = 0; p < result->n_programs; p++) {
        graph *program = sim_program(&result->programs[p]);
        const shoal_graph *local = graph_data(program);
        for (uint32_t n = 0; n < local->n_nodes; n++) {
            if (local->nodes[n].op != op) continue;
            int64_t length = local->values[local->nodes[n].first_output].type.dims[axis];
            if (length % granule)
                fail_msg("a part of %d of %s: no multiple of %d\n%s", (int)length,
                         shoal_op_name(op), (int)granule, result->explain);
            cut += length != extent;
        }
        graph_destroy(&program);
    }
    return cut;
}

static void on_client(const shoal_graph *g, plan_layout *inputs) {
    for (uint32_t i = 0; i < g->n_inputs; i++)
        assert_true(make_layout(&g->values[g->inputs[i]].type, 1, ON_CLIENT, &inputs[i]));
}

/* Lowers, checks the numbers, and gives the plan. */
static plan_result lowered(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs) {
    plan_result result;
    compare(g, pool, inputs, NULL);
    OK(plan_lower_explained(g, pool, inputs, NULL, &result));
    return result;
}

/* A product whose columns are read as heads, also through what is done element by element. */
static void test_heads(void **state) {
    uint32_t cut = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        graph *g;
        plan_layout inputs[2];
        int64_t a[] = {1 + rand() % 3, 64}, b[] = {64, HEADS * DIM}, split[] = {a[0], HEADS, DIM};
        OK(graph_new(0, &g));
        uint32_t x = input(g, SHOAL_F32, 2, a), w = input(g, SHOAL_F32, 2, b);
        uint32_t y = dot(g, x, w, 1, 0, false);
        y = add(g, GRAPH_TANH, &y, 1, NULL, 0);
        OK(graph_add_output(g, reshape(g, y, 3, split)));
        plan_pool pool = any_pool(round);
        on_client(graph_data(g), inputs);
        plan_result result = lowered(graph_data(g), &pool, inputs);
        cut += check_parts(&result, GRAPH_DOT_GENERAL, 1, DIM, HEADS * DIM);
        plan_result_fini(&result);
        graph_destroy(&g);
    }
    assert_true(cut > 0);
}

/* Summands are joined between heads, too. */
static void test_joining(void **state) {
    for (uint32_t round = 1; round < ROUNDS; round++) {
        graph *g;
        plan_layout inputs[2];
        int64_t a[] = {1, 40}, b[] = {40, HEADS * DIM}, split[] = {1, HEADS, DIM};
        uint32_t compute = 2 + round % (MOST_COMPUTE - 1);
        OK(graph_new(0, &g));
        uint32_t x = input(g, SHOAL_F32, 2, a), w = input(g, SHOAL_F32, 2, b);
        OK(graph_add_output(g, reshape(g, dot(g, x, w, 1, 0, false), 3, split)));
        plan_pool pool = make_pool(compute, SLOW_SLOTS);
        const shoal_graph *data = graph_data(g);
        assert_true(make_layout(&data->values[x].type, compute, AXIS + 1, &inputs[0]));
        assert_true(make_layout(&data->values[w].type, compute, AXIS, &inputs[1]));
        inputs[0].given = inputs[1].given = true;
        plan_result result = lowered(data, &pool, inputs);
        check_parts(&result, GRAPH_RESHAPE, 1, 1, HEADS);
        for (uint32_t p = 0; p < result.n_programs; p++) {
            graph *program = sim_program(&result.programs[p]);
            const shoal_graph *local = graph_data(program);
            for (uint32_t n = 0; n < local->n_nodes; n++)
                if (local->nodes[n].op == GRAPH_EXCHANGE && local->nodes[n].n_outputs > 1)
                    assert_int_equal(local->values[local->nodes[n].first_output].type.dims[1] % DIM,
                                     0);
            graph_destroy(&program);
        }
        plan_result_fini(&result);
        graph_destroy(&g);
    }
}

/* Blocks under a product that sums over them: the cut of the sum comes from the blocks. */
static void test_blocks(void **state) {
    uint32_t cut = 0;
    for (uint32_t round = 0; round < 5 * ROUNDS; round++) {
        const shoal_block_format *format = shoal_block_format_at(round % 3);
        int64_t rows = 1 + rand() % 4, blocks = 5 + rand() % 4;
        int64_t a[] = {1 + rand() % 2, blocks * format->values},
                b[] = {rows, blocks * format->bytes};
        graph *g;
        plan_layout inputs[2];
        OK(graph_new(0, &g));
        uint32_t x = input(g, SHOAL_F32, 2, a), w = input(g, SHOAL_U8, 2, b);
        OK(graph_add_output(g, dot(g, x, dequantize(g, w, format->name), 1, 1, false)));
        plan_pool pool = any_pool(round);
        on_client(graph_data(g), inputs);
        if (round % 2) /* as it lies on the slots already: cut anywhere */
            if (!make_layout(&graph_data(g)->values[w].type, pool.n_slots - 1, AXIS + round / 2 % 2,
                             &inputs[1]))
                on_client(graph_data(g), inputs);
        plan_result result;
        OK(plan_lower_explained(graph_data(g), &pool, inputs, NULL, &result));
        cut += check_parts(&result, GRAPH_DEQUANTIZE, 1, format->values, blocks * format->values);
        plan_result_fini(&result);
        graph_destroy(&g);
    }
    assert_true(cut > 0);
}

/* Shares are cut between blocks; exact points stay where they are, and are put together. */
static void test_places(void **state) {
    const shoal_block_format *format = shoal_block_format_at(0);
    int64_t bytes = format->bytes, dims[] = {2, 6 * bytes}, owners[] = {10, 11, 12};
    int64_t cuts[] = {1, 3, 0, 2, 0, bytes + 3, 4 * bytes - 1, 6 * bytes};
    for (int shares = 0; shares < 2; shares++) {
        graph *g;
        plan_layout in;
        OK(graph_new(0, &g));
        uint32_t x = input(g, SHOAL_U8, 2, dims);
        shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_CUTS, cuts, 8),
                              graph_ints(SHOAL_ATTR_SLOTS, owners, 3),
                              graph_bool(SHOAL_ATTR_SHARES, shares)};
        uint32_t p = add(g, GRAPH_PLACE, &x, 1, attrs, 3);
        OK(graph_add_output(g, add(g, GRAPH_ADD, (uint32_t[]){p, p}, 2, NULL, 0)));
        OK(graph_add_output(g, dequantize(g, p, format->name)));
        plan_pool pool = make_pool(3, SLOW_SLOTS);
        on_client(graph_data(g), &in);
        plan_result result = lowered(graph_data(g), &pool, &in);
        const int64_t *is = result.outputs[0].cuts[1];
        assert_int_equal(is[1], shares ? bytes : bytes + 3);
        assert_int_equal(is[2], shares ? 4 * bytes : 4 * bytes - 1);
        check_parts(&result, GRAPH_DEQUANTIZE, 1, format->values, 6 * format->values);
        plan_result_fini(&result);
        graph_destroy(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heads, fresh, finish),
        cmocka_unit_test_setup_teardown(test_joining, fresh, finish),
        cmocka_unit_test_setup_teardown(test_blocks, fresh, finish),
        cmocka_unit_test_setup_teardown(test_places, fresh, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
