/* Tests of what picks elements out of a value that is cut: no more moves than is picked, wherever
 * that lies, and the rest of the value stays where it is. */
#include "base/testing.h"
#include "plan/lower_testing.h"

enum { ROWS = 300, COLUMNS = 64, ROW = COLUMNS * 4 };

static graph *g;
static plan_pool pool;
static plan_layout in[8];

/* Every device is a machine of its own. */
static uint32_t begin(uint32_t compute) {
    OK(graph_new(0, &g));
    pool = make_pool(compute, SLOW_LINKS);
    for (uint32_t i = 0; i < compute; i++) slots[1 + i].peer = i;
    pool.link_bytes = 1e6;
    pool.link_delay = 1e-4;
    return input(g, SHOAL_F32, 2, (int64_t[]){ROWS, COLUMNS});
}

static shoal_attr list(shoal_attr_key key, const int64_t *numbers, size_t n) {
    return graph_ints(key, numbers, n);
}
#define INTS(key, ...)                                                                             \
    list(SHOAL_ATTR_##key, (const int64_t[]){__VA_ARGS__},                                         \
         sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define NONE(key) graph_ints(SHOAL_ATTR_##key, NULL, 0)

/* The first operand by rows over all slots, the others in the client's memory; what moves is at
 * most this many bytes. */
static void moves(uint32_t out, uint64_t most) {
    const shoal_graph *data = graph_data(g);
    plan_result result;
    uint32_t owners[MOST_COMPUTE], n = pool.n_slots - 1;
    for (uint32_t i = 0; i < n; i++) owners[i] = 10 + i;
    OK(graph_add_output(g, out));
    for (uint32_t i = 0; i < data->n_inputs; i++) {
        const shoal_type *type = &data->values[data->inputs[i]].type;
        uint32_t client = CLIENT;
        OK(i ? plan_layout_whole(&arena, type->rank, type->dims, &client, 1, &in[i])
             : plan_layout_split(&arena, 2, type->dims, 0, 1, owners, NULL, n, &in[i]));
    }
    OK(plan_lower(data, &pool, in, NULL, &result));
    if (result.bytes_moved > most)
        fail_msg("%llu bytes move, over %llu", (unsigned long long)result.bytes_moved,
                 (unsigned long long)most);
    plan_result_fini(&result);
    compare(data, &pool, in, NULL);
    graph_destroy(&g);
}

static uint32_t slice(uint32_t x, int64_t first, int64_t last, int64_t step) {
    shoal_attr attrs[] = {INTS(START_INDICES, first, 0), INTS(LIMIT_INDICES, last, COLUMNS),
                          INTS(STRIDES, step, 1)};
    return add(g, GRAPH_SLICE, &x, 1, attrs, 3);
}

static void ranges_stay(void **state) {
    for (uint32_t compute = 2; compute <= MOST_COMPUTE; compute++) {
        for (int64_t at = 0; at < ROWS; at += 23) moves(slice(begin(compute), at, at + 1, 1), 0);
        moves(slice(begin(compute), 1, ROWS - 1, 1), 0);
        moves(slice(begin(compute), 7, ROWS, 13), 0);
        moves(slice(begin(compute), 40, 40, 1), 0);
        moves(slice(begin(compute), 0, ROWS, ROWS), 0);
        uint32_t x = begin(compute), part = slice(x, 20, 280, 1);
        moves(slice(part, 5, 250, 3), 0);
    }
}

/* Numbers from -3 to 3, as inputs are, moved to other parts. */
static uint32_t index_at(int64_t at, shoal_dtype dtype) {
    uint32_t x = input(g, SHOAL_I32, 0, NULL);
    int32_t number = (int32_t)at;
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &number, sizeof number), NONE(SHAPE),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32)};
    shoal_attr to = graph_int(SHOAL_ATTR_DTYPE, dtype);
    uint32_t sum[] = {x, add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3)};
    x = add(g, GRAPH_ADD, sum, 2, NULL, 0);
    return add(g, GRAPH_CONVERT, &x, 1, &to, 1);
}

static const int64_t places[] = {-2, 0, 3, 59, 60, 61, 99, 100, 151, 240, 297, 299, 330};
enum { PLACES = sizeof places / sizeof *places };

static void boxes_are_found(void **state) {
    static const int64_t rows[] = {1, 2, 7, 130, ROWS - 1};
    for (uint32_t compute = 2; compute <= MOST_COMPUTE; compute++)
        for (uint32_t i = compute % STRIDE; i < PLACES * 5; i += STRIDE) {
            int64_t n = rows[i % 5];
            shoal_dtype dtype = i % 2 ? SHOAL_I64 : SHOAL_U64;
            uint32_t x = begin(compute);
            uint32_t in_of[] = {x, index_at(places[i / 5], dtype), index_at(0, dtype)};
            shoal_attr attr = INTS(SLICE_SIZES, n, COLUMNS);
            /* Each part is sent to where they are joined. */
            moves(add(g, GRAPH_DYNAMIC_SLICE, in_of, 3, &attr, 1),
                  n < 10 ? (uint64_t)(compute * n * ROW + 64 * compute) : UINT64_MAX);
        }
}

static void updates_are_spread(void **state) {
    static const int64_t rows[] = {1, 2, 7, 130, ROWS - 1};
    for (uint32_t compute = 2; compute <= MOST_COMPUTE; compute++)
        for (uint32_t i = compute % STRIDE; i < PLACES * 5; i += STRIDE) {
            int64_t n = rows[i % 5];
            uint32_t x = begin(compute), u = input(g, SHOAL_F32, 2, (int64_t[]){n, COLUMNS});
            uint32_t in_of[] = {x, u, index_at(places[i / 5], SHOAL_I32), index_at(0, SHOAL_I32)};
            moves(add(g, GRAPH_DYNAMIC_UPDATE_SLICE, in_of, 4, NULL, 0),
                  n < 10 ? (uint64_t)(compute * n * ROW + 64 * compute) : UINT64_MAX);
        }
}

/* n numbers around a place, as indices of rows. */
static uint32_t indices_at(int64_t at, int64_t n, bool vector) {
    const int64_t dims[] = {n, 1};
    uint32_t x = input(g, SHOAL_I32, vector ? 2 : 1, dims);
    int32_t number = (int32_t)at;
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &number, sizeof number),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, vector ? 2 : 1),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32)};
    return add(g, GRAPH_ADD, (uint32_t[]){x, add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3)}, 2, NULL,
               0);
}

static uint32_t rows_at(uint32_t x, uint32_t at) {
    shoal_attr attrs[] = {INTS(OFFSET_DIMS, 1),         INTS(COLLAPSED_SLICE_DIMS, 0),
                          NONE(OPERAND_BATCHING_DIMS),  NONE(START_INDICES_BATCHING_DIMS),
                          INTS(START_INDEX_MAP, 0),     graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 1),
                          INTS(SLICE_SIZES, 1, COLUMNS)};
    return add(g, GRAPH_GATHER, (uint32_t[]){x, at}, 2, attrs, 7);
}

static void rows_are_found(void **state) {
    for (uint32_t compute = 2; compute <= MOST_COMPUTE; compute++)
        for (uint32_t i = 0; i < PLACES; i++) {
            uint32_t x = begin(compute), at = indices_at(places[i], 4, i % 2);
            moves(rows_at(x, at), compute * 4 * ROW + 64 * compute);
        }
}

static void rows_are_joined(void **state) {
    for (uint32_t compute = 2; compute <= MOST_COMPUTE; compute++)
        for (uint32_t i = 0; i < PLACES; i++) {
            shoal_attr attrs[] = {INTS(UPDATE_WINDOW_DIMS, 1),
                                  INTS(INSERTED_WINDOW_DIMS, 0),
                                  NONE(INPUT_BATCHING_DIMS),
                                  NONE(SCATTER_INDICES_BATCHING_DIMS),
                                  INTS(SCATTER_DIMS_TO_OPERAND_DIMS, 0),
                                  graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 1)};
            uint32_t x = begin(compute), at = indices_at(places[i], 4, i % 2), sum;
            uint32_t u = input(g, SHOAL_F32, 2, (int64_t[]){4, COLUMNS});
            const shoal_graph *body;
            OK(graph_add_body(g, i % 3 ? GRAPH_ADD : GRAPH_MAXIMUM, SHOAL_F32, &body));
            OK(graph_add(g, GRAPH_SCATTER, (uint32_t[]){x, at, u}, 3, attrs, 6, &body, 1, &sum));
            moves(sum, compute * 4 * ROW + 64 * compute);
        }
}

/* Many ranges of what lies elsewhere: it is brought once. */
static void many_ranges_come_together(void **state) {
    uint32_t x = begin(1), y = input(g, SHOAL_F32, 2, (int64_t[]){ROWS, COLUMNS}), parts[ROWS / 10];
    for (int64_t i = 0; i < ROWS / 10; i++) parts[i] = slice(y, i * 10, i * 10 + 10, 1);
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, 0);
    uint32_t back = add(g, GRAPH_CONCATENATE, parts, ROWS / 10, &attr, 1);
    moves(add(g, GRAPH_ADD, (uint32_t[]){x, back}, 2, NULL, 0), ROWS * ROW);
}

/* What is picked from often, or nearly all of, is brought together once. */
static void much_that_is_picked_comes_together(void **state) {
    for (uint32_t compute = 2; compute <= MOST_COMPUTE; compute++) {
        uint32_t x = begin(compute), at = indices_at(150, 32, false), sum = UINT32_MAX;
        for (uint32_t i = 0; i < 40; i++) {
            uint32_t taken = rows_at(x, at);
            sum = i ? add(g, GRAPH_ADD, (uint32_t[]){sum, taken}, 2, NULL, 0) : taken;
        }
        moves(sum, ROWS * ROW + compute * 32 * 4);
        x = begin(compute);
        uint32_t in_of[] = {x, index_at(0, SHOAL_I32), index_at(0, SHOAL_I32)};
        shoal_attr attr = INTS(SLICE_SIZES, ROWS - 1, COLUMNS);
        moves(add(g, GRAPH_DYNAMIC_SLICE, in_of, 3, &attr, 1), ROWS * ROW + 64 * compute);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges_stay, fresh, finish),
        cmocka_unit_test_setup_teardown(boxes_are_found, fresh, finish),
        cmocka_unit_test_setup_teardown(updates_are_spread, fresh, finish),
        cmocka_unit_test_setup_teardown(rows_are_found, fresh, finish),
        cmocka_unit_test_setup_teardown(rows_are_joined, fresh, finish),
        cmocka_unit_test_setup_teardown(many_ranges_come_together, fresh, finish),
        cmocka_unit_test_setup_teardown(much_that_is_picked_comes_together, fresh, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
