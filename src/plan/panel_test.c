/* Tests of panels: programs over slow links begin with the first that has come. */
#include "plan/lower_testing.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

/* Two devices of 100 GFLOP/s behind cables of 1 Gb/s, and a client. */
static plan_pool slow_pool(void) {
    static plan_slot lan[3];
    lan[0] = (plan_slot){.slot = CLIENT, .peer = 9, .name = "client"};
    for (uint32_t i = 0; i < 2; i++)
        lan[i + 1] = (plan_slot){.slot = 10 + i,
                                 .peer = i,
                                 .compute = true,
                                 .weight = i ? 1 : 1.1,
                                 .name = i ? "b" : "a",
                                 .speeds = make_speeds(1e11, 1e10)};
    return (plan_pool){.n_slots = 3, .slots = lan, .link_bytes = 1.19e8, .link_delay = 1e-4};
}

/* a b, or, twice, a (a b). */
static void products_on(const plan_pool *pool, uint32_t n, bool home, bool twice,
                        plan_result *out) {
    graph *g;
    plan_layout in[2], want;
    const plan_layout *wanted[] = {&want};
    const int64_t dims[] = {n, n};
    const uint32_t client = CLIENT;
    OK(graph_new(0, &g));
    uint32_t a = input(g, SHOAL_F32, 2, dims), b = input(g, SHOAL_F32, 2, dims);
    uint32_t y = dot(g, a, b, 1, 0, false);
    OK(graph_add_output(g, twice ? dot(g, a, y, 1, 0, false) : y));
    OK(plan_layout_whole(&arena, 2, dims, &client, 1, &want));
    in[0] = in[1] = want;
    OK(plan_lower_explained(graph_data(g), pool, in, home ? wanted : NULL, out));
    graph_destroy(&g);
}

static void product_on(const plan_pool *pool, uint32_t n, bool home, plan_result *out) {
    products_on(pool, n, home, false, out);
}

static void product(uint32_t n, bool home, plan_result *out) {
    plan_pool pool = slow_pool();
    product_on(&pool, n, home, out);
}

/* Each byte of an operand leaves the client once, and the product is done while they come. */
static void large_products(void **state) {
    plan_result result;
    product(4096, true, &result);
    double wire = 2 * 4096.0 * 4096 * 4 / 1.19e8;
    assert_true(result.seconds >= wire);
    assert_true(result.seconds < wire / 0.85);
    plan_result_fini(&result);
}

/* The workers have their parts of it, each in one piece. */
static void results_that_stay(void **state) {
    plan_result result;
    product(4096, false, &result);
    assert_non_null(strstr(result.explain, "8 panels, 64.0 MiB"));
    assert_int_equal(result.outputs[0].n_slots, 2);
    assert_int_equal(result.bytes_moved,
                     3 * 4096u * 4096 * 4); /* half of one goes on to the other */
    plan_result_fini(&result);
}

/* Where they share cores with what encrypts, their products take no less than both. */
static void cores_that_are_shared(void **state) {
    enum { N = 4096 };
    plan_pool pool = slow_pool();
    plan_slot lan[3];
    plan_link links[6];
    plan_result result;
    memcpy(lan, pool.slots, sizeof lan);
    pool.slots = lan;
    pool.links = links;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 3; j++)
            if (i != j)
                links[pool.n_links++] = (plan_link){
                    .from = lan[i].peer, .to = lan[j].peer, .bytes = 1.19e8, .sealed = true};
    for (uint32_t i = 0; i < 3; i++) {
        lan[i].machine = 1 + i;
        lan[i].cores = lan[i].online = 2;
        lan[i].threads = lan[i].compute;
        lan[i].per_byte = 2e-9;
    }
    product_on(&pool, N, true, &result);
    double apart = result.seconds;
    assert_true(apart < 2 * 4.0 * N * N / 1.19e8 / 0.85); /* two cores each have room for both */
    plan_result_fini(&result);
    for (uint32_t i = 0; i < 3; i++) lan[i].machine = 1;
    product_on(&pool, N, true, &result);
    /* A and B go out, half of one goes on, and C comes back: four matrices, at both ends. */
    double worked = 2.0 * N * N * N / 1e11, sealed = 2 * 4 * 4.0 * N * N * 2e-9;
    assert_true(result.seconds > (worked + sealed) / 2 * 0.98);
    assert_true(result.seconds < (worked + sealed) / 2 * 1.1);
    double shared = result.seconds;
    plan_result_fini(&result);
    /* What is known of one way holds for the other. */
    pool.n_links = 0;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < i; j++)
            links[pool.n_links++] = (plan_link){
                .from = lan[i].peer, .to = lan[j].peer, .bytes = 1.19e8, .sealed = true};
    product_on(&pool, N, true, &result);
    assert_true(fabs(result.seconds / shared - 1) < 0.02);
    plan_result_fini(&result);
    /* Containers that may use two cores each of a machine that has six. */
    for (uint32_t i = 0; i < 3; i++) lan[i].online = 6;
    product_on(&pool, N, true, &result);
    assert_true(fabs(result.seconds / apart - 1) < 1e-6);
    plan_result_fini(&result);
    for (uint32_t i = 0; i < 3; i++) lan[i].online = 2;
    for (uint32_t i = 0; i < pool.n_links; i++) links[i].sealed = false;
    product_on(&pool, N, true, &result);
    assert_true(fabs(result.seconds / apart - 1) < 1e-6);
    plan_result_fini(&result);
}

/* What the steps of a plan take by its explanation, one after the other: all, or computations. */
static double seconds_of_steps(const plan_result *result, bool all) {
    cJSON *json = cJSON_Parse(result->explain_json), *step;
    double sum = 0;
    assert_non_null(json);
    cJSON_ArrayForEach(step, cJSON_GetObjectItem(json, "steps")) {
        const char *kind = cJSON_GetObjectItem(step, "kind")->valuestring;
        if (all || !strcmp(kind, "compute"))
            sum += cJSON_GetObjectItem(step, "seconds")->valuedouble;
    }
    cJSON_Delete(json);
    return sum;
}

/* What slots have shown is told, and nothing is chosen otherwise. */
static void speeds_that_are_shown(void **state) {
    static const uint32_t sizes[] = {300, 4096}; /* at once, and in panels */
    plan_pool pool = slow_pool();
    base_speeds shown[3] = {{{0}}};
    plan_result measured, told;
    shown[1] = make_speeds(1e8, 0);
    for (int i = 0; i < 2; i++) {
        double n = sizes[i];
        pool.shown = NULL;
        product_on(&pool, sizes[i], true, &measured);
        pool.shown = shown;
        product_on(&pool, sizes[i], true, &told);
        assert_int_equal(told.n_programs, measured.n_programs);
        for (uint32_t k = 0; k < told.n_programs; k++) {
            assert_int_equal(told.programs[k].slot, measured.programs[k].slot);
            assert_int_equal(told.programs[k].encoded.size, measured.programs[k].encoded.size);
            assert_memory_equal(told.programs[k].encoded.data, measured.programs[k].encoded.data,
                                told.programs[k].encoded.size);
        }
        double slow = 0; /* all of a small one, else 11 of 21 parts */
        for (uint32_t k = 0; k < told.n_programs; k++)
            if (told.programs[k].slot == 10) slow = told.programs[k].flops / 1e8;
        assert_true(slow > 11.0 / 21 * 2 * n * n * n / 1e8 * 0.98);
        assert_true(measured.seconds < slow / 3);
        assert_true(told.seconds > slow * 0.98);
        assert_true(told.seconds < slow + measured.seconds);
        assert_true(fabs(seconds_of_steps(&told, false) / slow - 1) < 0.02);
        plan_result_fini(&measured);
        plan_result_fini(&told);
    }
}

/* Slots that are faster than was measured: what was counted with those speeds is not told. */
static void faster_than_measured(void **state) {
    plan_pool pool = slow_pool();
    plan_slot lan[3];
    base_speeds shown[3] = {{{0}}};
    plan_result told;
    memcpy(lan, pool.slots, sizeof lan);
    pool.slots = lan;
    pool.shown = shown;
    for (int i = 1; i < 3; i++) {
        shown[i] = lan[i].speeds;
        lan[i].speeds = make_speeds(1e10, 1e10);
    }
    products_on(&pool, 4096, true, true, &told);
    assert_non_null(strstr(told.explain, " panels"));
    assert_true(told.seconds > seconds_of_steps(&told, false));
    assert_true(told.seconds < seconds_of_steps(&told, true));
    plan_result_fini(&told);
}

static void small_products(void **state) {
    plan_result result;
    product(256, true, &result);
    assert_null(strstr(result.explain, " panels"));
    plan_result_fini(&result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(large_products, fresh, finish),
        cmocka_unit_test_setup_teardown(results_that_stay, fresh, finish),
        cmocka_unit_test_setup_teardown(cores_that_are_shared, fresh, finish),
        cmocka_unit_test_setup_teardown(speeds_that_are_shown, fresh, finish),
        cmocka_unit_test_setup_teardown(faster_than_measured, fresh, finish),
        cmocka_unit_test_setup_teardown(small_products, fresh, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
