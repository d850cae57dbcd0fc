/* Tests of programs that are spread over a batch: they stay divided from the first operation to the
 * last, what is summed over the batch is joined where it is least to do, and exchanges stand
 * together, well before what they bring is read. */
#include "plan/lower_testing.h"

enum { A = 10, B = 11 };

/* Two equal devices of two peers, and a client. */
static plan_pool pool_of_two(double delay) {
    static plan_slot two[3];
    two[0] = (plan_slot){.slot = CLIENT, .peer = 9, .name = "client"};
    for (uint32_t i = 0; i < 2; i++)
        two[i + 1] = (plan_slot){.slot = A + i,
                                 .peer = i,
                                 .compute = true,
                                 .weight = 1,
                                 .name = i ? "b" : "a",
                                 .speeds = make_speeds(5e9, 5e9)};
    return (plan_pool){.n_slots = 3, .slots = two, .link_bytes = 2e9, .link_delay = delay};
}

static void lay(plan_layout *out, uint32_t rank, const int64_t *dims, int axis) {
    const uint32_t both[] = {A, B};
    OK(axis < 0 ? plan_layout_whole(&arena, rank, dims, both, 2, out)
                : plan_layout_split(&arena, rank, dims, (uint32_t)axis, 1, both, NULL, 2, out));
}

static uint32_t put(graph *g, uint32_t x, int axis, int64_t suggested) {
    const shoal_type *type = &graph_data(g)->values[x].type;
    int64_t cuts[3 * SHOAL_MAX_RANK], owners[] = {A, B};
    uint32_t n = type->rank;
    for (uint32_t i = 0; i < type->rank; i++) {
        cuts[i] = (int)i == axis ? 2 : 1;
        cuts[n++] = 0;
        if ((int)i == axis) cuts[n++] = type->dims[i] / 2;
        cuts[n++] = type->dims[i];
    }
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_CUTS, cuts, n),
                          graph_ints(SHOAL_ATTR_SLOTS, owners, 2),
                          graph_int(SHOAL_ATTR_SUGGESTED, suggested)};
    return add(g, GRAPH_PLACE, &x, 1, attrs, 3);
}

static uint32_t reshape(graph *g, uint32_t x, uint32_t rank, const int64_t *dims) {
    shoal_attr attr = graph_ints(SHOAL_ATTR_SHAPE, dims, rank);
    return add(g, GRAPH_RESHAPE, &x, 1, &attr, 1);
}

/* Where output o lies. */
static void lies(const plan_result *result, uint32_t o, const char *expected) {
    base_str s = {0};
    plan_layout_text(&result->outputs[o], &s);
    assert_string_equal(s.data, expected);
    base_str_fini(&s);
}

static void merged_axes_stay_cut(void **state) {
    graph *g;
    plan_layout in[2];
    plan_result result;
    plan_pool pool = pool_of_two(1e-4);
    OK(graph_new(0, &g));
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){12, 64, 32});
    uint32_t w = input(g, SHOAL_F32, 2, (int64_t[]){32, 32});
    uint32_t flat = reshape(g, put(g, x, 0, 0), 2, (int64_t[]){768, 32});
    uint32_t y = dot(g, flat, w, 1, 0, false);
    OK(graph_add_output(g, y));
    OK(graph_add_output(g, reshape(g, y, 3, (int64_t[]){12, 64, 32})));
    lay(&in[0], 3, (int64_t[]){12, 64, 32}, 0);
    lay(&in[1], 2, (int64_t[]){32, 32}, -1);
    OK(plan_lower(graph_data(g), &pool, in, NULL, &result));
    lies(&result, 0, "rows 0..384..768 on 10,11");
    lies(&result, 1, "axis 0 0..6..12 on 10,11");
    assert_int_equal(result.bytes_moved, 0);
    plan_result_fini(&result);
    compare(graph_data(g), &pool, in, NULL);
    graph_destroy(&g);
}

/* Rows of a table by numbers, which makes more than it reads, and the gradient of that. */
static void lookups_stay_cut(void **state) {
    graph *g;
    const shoal_graph *body;
    plan_layout in[3];
    plan_result result;
    plan_pool pool = pool_of_two(1e-4);
    const int64_t ids[] = {12, 64}, table[] = {65, 32}, rows[] = {12, 64, 32};
    const int64_t zero = 0, two = 2, size[] = {1, 32};
    const float nothing = 0;
    OK(graph_new(0, &g));
    uint32_t t = input(g, SHOAL_F32, 2, table), i = input(g, SHOAL_I32, 2, ids), found, sum;
    uint32_t y = input(g, SHOAL_F32, 3, rows);
    shoal_attr gather[] = {graph_ints(SHOAL_ATTR_OFFSET_DIMS, &two, 1),
                           graph_ints(SHOAL_ATTR_COLLAPSED_SLICE_DIMS, &zero, 1),
                           graph_ints(SHOAL_ATTR_OPERAND_BATCHING_DIMS, NULL, 0),
                           graph_ints(SHOAL_ATTR_START_INDICES_BATCHING_DIMS, NULL, 0),
                           graph_ints(SHOAL_ATTR_START_INDEX_MAP, &zero, 1),
                           graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 2),
                           graph_ints(SHOAL_ATTR_SLICE_SIZES, size, 2)};
    found = add(g, GRAPH_GATHER, (uint32_t[]){t, put(g, i, 0, 0)}, 2, gather, 7);
    found = add(g, GRAPH_MULTIPLY, (uint32_t[]){found, found}, 2, NULL, 0);
    shoal_attr constant[] = {graph_bytes(SHOAL_ATTR_VALUE, &nothing, sizeof nothing),
                             graph_ints(SHOAL_ATTR_SHAPE, table, 2),
                             graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    shoal_attr scatter[] = {graph_ints(SHOAL_ATTR_UPDATE_WINDOW_DIMS, &two, 1),
                            graph_ints(SHOAL_ATTR_INSERTED_WINDOW_DIMS, &zero, 1),
                            graph_ints(SHOAL_ATTR_INPUT_BATCHING_DIMS, NULL, 0),
                            graph_ints(SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS, NULL, 0),
                            graph_ints(SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &zero, 1),
                            graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 2)};
    uint32_t start = add(g, GRAPH_CONSTANT, NULL, 0, constant, 3);
    OK(graph_add_body(g, GRAPH_ADD, SHOAL_F32, &body));
    OK(graph_add(g, GRAPH_SCATTER, (uint32_t[]){start, i, y}, 3, scatter, 6, &body, 1, &sum));
    OK(graph_add_output(g, found));
    OK(graph_add_output(g, sum));
    lay(&in[0], 2, table, -1);
    lay(&in[1], 2, ids, 0);
    lay(&in[2], 3, rows, 0);
    OK(plan_lower(graph_data(g), &pool, in, NULL, &result));
    lies(&result, 0, "axis 0 0..6..12 on 10,11");
    lies(&result, 1, "rows 0..33..65 on 10,11");
    assert_int_equal(result.bytes_moved, 65 * 32 * 4);
    plan_result_fini(&result);
    compare(graph_data(g), &pool, in, NULL);
    graph_destroy(&g);
}

/* A number that is summed over the batch is joined by everybody who needs it. */
static void numbers_are_joined_by_all(void **state) {
    graph *g;
    plan_layout in;
    plan_result result;
    plan_pool pool = pool_of_two(1e-4);
    const int64_t dims[] = {4096, 32}, axes[] = {0, 1};
    OK(graph_new(0, &g));
    uint32_t x = put(g, input(g, SHOAL_F32, 2, dims), 0, 0);
    uint32_t sum = reduce(g, x, scalar(g, 0), GRAPH_ADD, axes, 2);
    sum = add(g, GRAPH_MULTIPLY, (uint32_t[]){sum, sum}, 2, NULL, 0);
    shoal_attr wide[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, NULL, 0),
                         graph_ints(SHOAL_ATTR_SHAPE, dims, 2)};
    uint32_t pair[] = {x, add(g, GRAPH_BROADCAST_IN_DIM, &sum, 1, wide, 2)};
    OK(graph_add_output(g, add(g, GRAPH_MULTIPLY, pair, 2, NULL, 0)));
    lay(&in, 2, dims, 0);
    OK(plan_lower_explained(graph_data(g), &pool, &in, NULL, &result));
    lies(&result, 0, "rows 0..2048..4096 on 10,11");
    assert_int_equal(result.bytes_moved, 2 * sizeof(float));
    assert_non_null(strstr(result.explain, "2 summands (add) on 10,11 -> whole on 10,11"));
    plan_result_fini(&result);
    compare(graph_data(g), &pool, &in, NULL);
    graph_destroy(&g);
}

/* One step of training of a matrix: its gradient is a sum over the batch, placed on both. */
static plan_result train(int64_t side, int64_t suggested, bool used) {
    graph *g;
    plan_layout in[3];
    plan_result result;
    plan_pool pool = pool_of_two(1e-4);
    const int64_t batch[] = {1024, side}, matrix[] = {side, side};
    OK(graph_new(0, &g));
    uint32_t x = input(g, SHOAL_F32, 2, batch), w = input(g, SHOAL_F32, 2, matrix);
    uint32_t m = input(g, SHOAL_F32, 2, matrix);
    uint32_t y = put(g, dot(g, x, x, 0, 0, false), -1, suggested);
    uint32_t mean = add(g, GRAPH_ADD, (uint32_t[]){m, y}, 2, NULL, 0);
    if (used) OK(graph_add_output(g, mean));
    OK(graph_add_output(g, add(g, GRAPH_SUBTRACT, (uint32_t[]){w, used ? mean : m}, 2, NULL, 0)));
    OK(graph_add_output(g, y));
    lay(&in[0], 2, batch, 0);
    lay(&in[1], 2, matrix, -1);
    lay(&in[2], 2, matrix, -1);
    OK(plan_lower_explained(graph_data(g), &pool, in, NULL, &result));
    if (side <= 8) compare(graph_data(g), &pool, in, NULL);
    graph_destroy(&g);
    return result;
}

static void suggested_places(void **state) {
    const uint64_t matrix = 256 * 256 * sizeof(float);
    /* Large: each joins and updates a part, and the gradient lies as that needs it. */
    plan_result result = train(256, 1, true);
    for (uint32_t o = 0; o < 3; o++) lies(&result, o, "rows 0..128..256 on 10,11");
    assert_int_equal(result.bytes_moved, matrix);
    plan_result_fini(&result);
    /* Small: not worth it to be brought together later. */
    result = train(8, 1, true);
    for (uint32_t o = 0; o < 3; o++) lies(&result, o, "whole on 10,11");
    plan_result_fini(&result);
    /* Asked for, not suggested. */
    result = train(256, 0, true);
    lies(&result, 2, "whole on 10,11");
    assert_int_equal(result.bytes_moved, 2 * matrix);
    plan_result_fini(&result);
    /* Nobody else reads it. */
    result = train(256, 1, false);
    lies(&result, 1, "whole on 10,11");
    plan_result_fini(&result);
}

/* ---- order ---- */

enum { LAYERS = 6, SIDE = 256, BATCH = 2048 };

/* Products of a batch with matrices that lie in parts, and for each a sum over the batch that
 * nobody reads before the end. */
static void layers(graph *g, plan_layout *in, uint32_t *sums) {
    const int64_t batch[] = {BATCH, SIDE}, matrix[] = {SIDE, SIDE};
    uint32_t x = put(g, input(g, SHOAL_F32, 2, batch), 0, 0);
    lay(&in[0], 2, batch, 0);
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t w = input(g, SHOAL_F32, 2, matrix);
        lay(&in[i + 1], 2, matrix, 0);
        x = dot(g, x, put(g, w, -1, 0), 1, 0, false);
        sums[i] = put(g, dot(g, x, x, 0, 0, false), -1, 1);
    }
    for (uint32_t i = 0; i < LAYERS; i++)
        OK(graph_add_output(g, add(g, GRAPH_NEGATE, &sums[i], 1, NULL, 0)));
}

/* "iicx": the exchanges of slot A's program, i those of inputs, and between them c, what it
 * computes. */
static void sequence(const plan_result *result, char *out) {
    graph *program = NULL;
    for (uint32_t i = 0; i < result->n_programs; i++)
        if (result->programs[i].slot == A) program = sim_program(&result->programs[i]);
    assert_non_null(program);
    const shoal_graph *g = graph_data(program);
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        char c = 'c';
        if (node->op == GRAPH_EXCHANGE)
            c = g->values[node->inputs[0]].node == SHOAL_NO_NODE ? 'i' : 'x';
        if (c != 'c' || !n || out[-1] != 'c') *out++ = c;
    }
    *out = 0;
    graph_destroy(&program);
}

static void exchanges_stand_together(void **state) {
    plan_layout in[LAYERS + 1];
    plan_result result;
    graph *g;
    uint32_t sums[LAYERS];
    char text[8 * LAYERS];
    OK(graph_new(0, &g));
    layers(g, in, sums);
    /* 128 KiB take 66 us. At once, where a delay is nothing: */
    plan_pool pool = pool_of_two(0);
    OK(plan_lower(graph_data(g), &pool, in, NULL, &result));
    sequence(&result, text);
    assert_string_equal(text, "iicxiicxcxiicxcxcxc");
    plan_result_fini(&result);
    /* Up to four matrices are ahead of who reads them, and two sums make a batch. */
    pool = pool_of_two(5e-5);
    OK(plan_lower(graph_data(g), &pool, in, NULL, &result));
    sequence(&result, text);
    assert_string_equal(text, "iiiicxxiicxxcxxc");
    plan_result_fini(&result);
    /* All in one where delays are long. */
    pool = pool_of_two(1e-2);
    OK(plan_lower(graph_data(g), &pool, in, NULL, &result));
    sequence(&result, text);
    assert_string_equal(text, "iiiiiicxxxxxxc");
    plan_result_fini(&result);
    graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(merged_axes_stay_cut, fresh, finish),
        cmocka_unit_test_setup_teardown(lookups_stay_cut, fresh, finish),
        cmocka_unit_test_setup_teardown(numbers_are_joined_by_all, fresh, finish),
        cmocka_unit_test_setup_teardown(suggested_places, fresh, finish),
        cmocka_unit_test_setup_teardown(exchanges_stand_together, fresh, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
