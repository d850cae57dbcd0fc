/* What planning takes of whom: programs of any length neither exhaust the stack nor grow beyond
 * measure with what is placed or made where it is needed, and there is a limit to the time. */
#include "base/clock.h"
#include "plan/draft.h"
#include "plan/lower_testing.h"

#include <pthread.h>

enum { LONG = 20000, STACK = 256 << 10, DEEP = 40, LENGTH = 40 };
/* Parameters of a model of twelve layers, on a large pool. */
enum { PARAMETERS = 144, WIDE = 64, WIDTH = 64, BATCH = 128, MOST = 512 << 20 };

/* A value that grows by an element at each end, again and again: each is made of the one before. */
static uint32_t pads(graph *g, uint32_t value, uint32_t zero, int n) {
    int64_t one = 1, none = 0;
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_EDGE_PADDING_LOW, &one, 1),
                          graph_ints(SHOAL_ATTR_EDGE_PADDING_HIGH, &one, 1),
                          graph_ints(SHOAL_ATTR_INTERIOR_PADDING, &none, 1)};
    for (int i = 0; i < n; i++) value = add(g, GRAPH_PAD, (uint32_t[]){value, zero}, 2, attrs, 3);
    return value;
}

static uint32_t place(graph *g, uint32_t value, int64_t cut, int64_t size) {
    int64_t cuts[] = {2, 0, cut, size}, owners[] = {10, 11};
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_CUTS, cuts, 4),
                          graph_ints(SHOAL_ATTR_SLOTS, owners, 2)};
    return add(g, GRAPH_PLACE, &value, 1, attrs, 2);
}

static graph *padded(int n) {
    int64_t dim = 0;
    graph *g;
    OK(graph_new(0, &g));
    uint32_t x = input(g, SHOAL_F32, 1, (int64_t[]){LENGTH}), zero = scalar(g, 0);
    OK(graph_add_output(g, reduce(g, pads(g, x, zero, n), zero, GRAPH_ADD, &dim, 1)));
    return g;
}

/* One value placed where the one before was, a little otherwise: each is nearest to the last. */
static graph *placed(int n, int64_t size) {
    graph *g;
    OK(graph_new(0, &g));
    uint32_t x = input(g, SHOAL_F32, 1, &size);
    for (int i = 0; i < n; i++) x = place(g, x, 1 + i % (size - 1), size);
    OK(graph_add_output(g, x));
    return g;
}

/* All of them side by side. */
static graph *spread(int n, int64_t size) {
    graph *g;
    OK(graph_new(0, &g));
    uint32_t x = input(g, SHOAL_F32, 1, &size);
    for (int i = 0; i < n; i++) OK(graph_add_output(g, place(g, x, 1 + i % (size - 1), size)));
    return g;
}

static void *lower_it(void *graph_) {
    graph *g = graph_;
    plan_pool pool = make_pool(2, SLOW_LINKS);
    plan_layout in;
    plan_result result;
    make_layout(&graph_data(g)->values[0].type, 2, ON_CLIENT, &in);
    OK(plan_lower(graph_data(g), &pool, &in, NULL, &result));
    plan_result_fini(&result);
    graph_destroy(&g);
    return NULL;
}

/* Planned on a stack that a call for each node would not fit. */
static void test_stack(void **state) {
    graph *graphs[] = {padded(LONG), placed(LONG, 1 << 20), spread(LONG, 1 << 20)};
    pthread_attr_t attr;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        assert_int_equal(pthread_create(&thread, &attr, lower_it, graphs[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    pthread_attr_destroy(&attr);
}

/* Beyond the depth to which values are made where they are needed, and the number of forms that one
 * is made from, results are what they were. */
static void test_results(void **state) {
    graph *graphs[] = {padded(DEEP), placed(3 * PLAN_MOST_SOURCES, LENGTH)};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        for (uint32_t which = ON_CLIENT; which < SUMS; which++) {
            const shoal_graph *g = graph_data(graphs[i]);
            plan_pool pool = make_pool(2, SLOW_LINKS);
            plan_layout in;
            if (make_layout(&g->values[0].type, 2, which, &in)) compare(g, &pool, &in, NULL);
        }
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) graph_destroy(&graphs[i]);
}

static void test_patience(void **state) {
    graph *g = placed(DEEP, LENGTH);
    plan_pool pool = make_pool(2, SLOW_LINKS);
    plan_layout in;
    plan_result result;
    make_layout(&graph_data(g)->values[0].type, 2, ON_CLIENT, &in);
    pool.patience = 1;
    assert_int_equal(plan_lower(graph_data(g), &pool, &in, NULL, &result), SHOAL_TIMEOUT);
    assert_non_null(strstr(shoal_error_message(),
                           "planning takes over 0 s: make smaller programs, or use fewer slots"));
    pool.pace = INT64_C(100000000000) * PLAN_PACE; /* a machine that is that much slower */
    OK(plan_lower(graph_data(g), &pool, &in, NULL, &result));
    plan_result_fini(&result);
    pool.pace = 0;
    pool.patience = 1000 * BASE_SECOND;
    OK(plan_lower(graph_data(g), &pool, &in, NULL, &result));
    plan_result_fini(&result);
    graph_destroy(&g);
}

/* A step of a model whose rows are divided over all slots: each gradient is a sum over all of them.
 */
static graph *trained(void) {
    uint32_t w[PARAMETERS], x[PARAMETERS + 1];
    graph *g;
    OK(graph_new(0, &g));
    x[0] = input(g, SHOAL_F32, 2, (int64_t[]){BATCH, WIDTH});
    for (int i = 0; i < PARAMETERS; i++) w[i] = input(g, SHOAL_F32, 2, (int64_t[]){WIDTH, WIDTH});
    for (int i = 0; i < PARAMETERS; i++) {
        x[i + 1] = dot(g, x[i], w[i], 1, 0, false);
        x[i + 1] = add(g, GRAPH_TANH, &x[i + 1], 1, NULL, 0);
    }
    uint32_t d = x[PARAMETERS];
    for (int i = PARAMETERS; i-- > 0;) {
        uint32_t ends[] = {w[i], dot(g, x[i], d, 0, 0, false)};
        d = dot(g, d, w[i], 1, 1, false);
        OK(graph_add_output(g, add(g, GRAPH_SUBTRACT, ends, 2, NULL, 0)));
    }
    return g;
}

/* A large pool takes of a large program what its slots have to know, no more. */
static void test_wide(void **state) {
    plan_slot wide[WIDE];
    plan_pool pool = make_pool(1, SLOW_SLOTS);
    uint32_t all[WIDE];
    int64_t x[] = {BATCH, WIDTH}, w[] = {WIDTH, WIDTH};
    plan_layout in[PARAMETERS + 1];
    plan_result result;
    graph *g = trained();
    for (uint32_t i = 0; i < WIDE; i++) {
        all[i] = i;
        wide[i] = (plan_slot){.slot = i,
                              .peer = i,
                              .compute = true,
                              .weight = 1,
                              .name = "wide",
                              .speeds = make_speeds(1e6, 0)};
    }
    pool.slots = wide;
    pool.n_slots = WIDE;
    pool.most = MOST;
    OK(plan_layout_split(&arena, 2, x, 0, 1, all, NULL, WIDE, &in[0]));
    for (int i = 1; i <= PARAMETERS; i++) OK(plan_layout_whole(&arena, 2, w, all, WIDE, &in[i]));
    OK(plan_lower(graph_data(g), &pool, in, NULL, &result));
    assert_int_equal(result.n_programs, WIDE);
    size_t bytes = 0;
    for (uint32_t i = 0; i < result.n_programs; i++) bytes += result.programs[i].encoded.size;
    printf("%d parameters on %d slots: %zu KiB of programs\n", PARAMETERS, WIDE, bytes >> 10);
    plan_result_fini(&result);
    graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stack, fresh, finish),
        cmocka_unit_test_setup_teardown(test_results, fresh, finish),
        cmocka_unit_test_setup_teardown(test_patience, fresh, finish),
        cmocka_unit_test_setup_teardown(test_wide, fresh, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
