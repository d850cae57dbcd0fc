/* Tests of layouts: cuts from weights, the number forms, checks and text. */
#include "plan/layout.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#include "shoal/ir.h"

static base_arena arena;

static int fresh(void **state) {
    base_arena_init(&arena, 0);
    return 0;
}

static int finish(void **state) {
    base_arena_fini(&arena);
    return 0;
}

#define OK(call) assert_int_equal(call, SHOAL_OK)
#define FAILS(call, status, text)                                                                  \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        if (!strstr(shoal_error_message(), text))                                                  \
            fail_msg("'%s' does not contain '%s'", shoal_error_message(), text);                   \
    } while (0)

static void test_cuts(void **state) {
    int64_t cuts[6];
    OK(plan_cuts(100, 1, (double[]){50, 30, 20}, 3, cuts));
    assert_memory_equal(cuts, ((int64_t[]){0, 50, 80, 100}), 4 * sizeof *cuts);
    OK(plan_cuts(10, 1, NULL, 3, cuts));
    assert_memory_equal(cuts, ((int64_t[]){0, 3, 7, 10}), 4 * sizeof *cuts);
    OK(plan_cuts(96, 32, (double[]){0.5, 0.5}, 2, cuts));
    assert_memory_equal(cuts, ((int64_t[]){0, 64, 96}), 3 * sizeof *cuts);
    OK(plan_cuts(2, 1, NULL, 5, cuts)); /* more parts than elements: some are empty */
    assert_int_equal(cuts[5], 2);
    for (int i = 0; i < 5; i++) assert_true(cuts[i] <= cuts[i + 1]);
    OK(plan_cuts(0, 1, NULL, 2, cuts));
    assert_memory_equal(cuts, ((int64_t[]){0, 0, 0}), 3 * sizeof *cuts);
    OK(plan_cuts(7, 1, (double[]){0, 1, 0, 2, 0}, 5, cuts));
    assert_memory_equal(cuts, ((int64_t[]){0, 0, 2, 2, 7, 7}), 6 * sizeof *cuts);
    OK(plan_cuts(6, 1, (double[]){1e308, 1e308, 1e308}, 3, cuts));
    assert_memory_equal(cuts, ((int64_t[]){0, 2, 4, 6}), 4 * sizeof *cuts);
    FAILS(plan_cuts(7, 1, (double[]){1, -1}, 2, cuts), SHOAL_INVALID, "weight 1 is -1");
    FAILS(plan_cuts(7, 1, (double[]){NAN}, 1, cuts), SHOAL_INVALID, "weight 0 is nan");
    FAILS(plan_cuts(7, 1, (double[]){0, 0}, 2, cuts), SHOAL_INVALID, "all 2 weights are zero");
    FAILS(plan_cuts(7, 2, NULL, 2, cuts), SHOAL_INVALID, "granule 2 does not divide");
    FAILS(plan_cuts(7, 0, NULL, 2, cuts), SHOAL_INVALID, "granule 0");
    FAILS(plan_cuts(7, 1, NULL, 0, cuts), SHOAL_INVALID, "0 parts");
    FAILS(plan_cuts(-1, 1, NULL, 1, cuts), SHOAL_INVALID, "axis of -1");
}

/* Each part is within one granule of its exact share, whatever the weights. */
static void test_cuts_are_fair(void **state) {
    srand(7);
    for (int round = 0; round < 2000; round++) {
        uint32_t n = 1 + (uint32_t)rand() % 9;
        int64_t granule = 1 + rand() % 4, extent = granule * (rand() % 60), cuts[10];
        double weights[9], total = 0, sum = 0;
        for (uint32_t i = 0; i < n; i++) total += weights[i] = rand() % 4;
        if (total == 0) total = weights[0] = 1;
        OK(plan_cuts(extent, granule, weights, n, cuts));
        assert_int_equal(cuts[0], 0);
        assert_int_equal(cuts[n], extent);
        for (uint32_t i = 0; i < n; i++) {
            sum += weights[i];
            assert_int_equal(cuts[i + 1] % granule, 0);
            assert_true(cuts[i] <= cuts[i + 1]);
            double exact = sum / total * (double)extent;
            assert_true(fabs((double)cuts[i + 1] - exact) <= (double)granule / 2 + 1e-9);
            if (weights[i] == 0) assert_int_equal(cuts[i], cuts[i + 1]);
        }
    }
}

static void expect_text(const plan_layout *layout, const char *text) {
    base_str s;
    base_str_init(&s);
    plan_layout_text(layout, &s);
    OK(base_str_status(&s));
    assert_string_equal(s.data, text);
    base_str_fini(&s);
}

static void test_boxes(void **state) {
    int64_t dims[] = {100, 6};
    plan_layout l;
    OK(plan_layout_split(&arena, 2, dims, 0, 1, (uint32_t[]){4, 2}, (double[]){3, 1}, 2, &l));
    expect_text(&l, "rows 0..75..100 on 4,2");
    assert_int_equal(plan_layout_find(&l, 2), 1);
    assert_int_equal(plan_layout_find(&l, 3), -1);
    base_box box = plan_layout_box(&l, 1);
    assert_int_equal(box.start[0], 75);
    assert_int_equal(box.size[0], 25);
    assert_int_equal(box.size[1], 6);
    shoal_type type =
        plan_layout_type(&l, 0, &(shoal_type){.dtype = SHOAL_F32, .rank = 2, .dims = {100, 6}});
    assert_int_equal(type.dims[0], 75);
    assert_int_equal(plan_layout_summand(&l, 1), 0);
    OK(plan_layout_whole(&arena, 2, dims, (uint32_t[]){1, 3}, 2, &l));
    expect_text(&l, "whole on 1,3");
    OK(plan_layout_whole(&arena, 0, NULL, (uint32_t[]){9}, 1, &l));
    expect_text(&l, "whole on 9");
    OK(plan_layout_verify(&l, 0, NULL));
    FAILS(plan_layout_split(&arena, 2, dims, 2, 1, (uint32_t[]){1}, NULL, 1, &l), SHOAL_INVALID,
          "axis 2 of a tensor of rank 2");
    FAILS(plan_layout_whole(&arena, 2, dims, NULL, 0, &l), SHOAL_INVALID, "on 0 slots");
    FAILS(plan_layout_whole(&arena, 2, dims, (uint32_t[]){1, 1}, 2, &l), SHOAL_INVALID,
          "slot 1 twice");
}

static void test_many_slots(void **state) {
    enum { N = PLAN_MAX_PARTS };
    static uint32_t slots[N + 1];
    for (uint32_t i = 0; i <= N; i++) slots[i] = i;
    int64_t dims[] = {3, N};
    plan_layout l;
    OK(plan_layout_split(&arena, 2, dims, 1, 1, slots, NULL, N, &l));
    assert_int_equal(plan_layout_box(&l, N - 1).start[1], N - 1);
    expect_text(&l, "columns in 4096 parts on 0,1,2,3,4,5,6,7,... (4096 slots)");
    FAILS(plan_layout_split(&arena, 2, dims, 1, 1, slots, NULL, N + 1, &l), SHOAL_INVALID,
          "on 4097 slots");
}

static void test_from_ints(void **state) {
    int64_t dims[] = {5, 4};
    int64_t grid[] = {2, 2, 0, 3, 5, 0, 1, 4}, slots[] = {7, 6, 5, 4, 3, 2, 1, 0};
    plan_layout l;
    OK(plan_layout_from_ints(&arena, 2, dims, grid, 8, slots, 8, &l)); /* two copies of each */
    expect_text(&l, "rows 0..3..5, columns 0..1..4 on 7,6,5,4,3,2,1,0");
    base_box box = plan_layout_box(&l, 2); /* slot 5: the second box */
    assert_int_equal(box.start[0], 0);
    assert_int_equal(box.start[1], 1);
    assert_int_equal(box.size[1], 3);
    OK(plan_layout_from_ints(&arena, 0, NULL, NULL, 0, slots, 2, &l));
    FAILS(plan_layout_from_ints(&arena, 2, dims, grid, 8, slots, 6, &l), SHOAL_INVALID,
          "6 slots for 4 boxes");
    FAILS(plan_layout_from_ints(&arena, 2, dims, grid, 7, slots, 4, &l), SHOAL_INVALID,
          "cut points of axis 1: 2 numbers left, 3 needed");
    FAILS(plan_layout_from_ints(&arena, 2, dims, grid, 1, slots, 4, &l), SHOAL_INVALID,
          "cuts hold 1 numbers");
    int64_t more[] = {1, 1, 0, 5, 0, 4, 9}, falling[] = {2, 1, 0, 6, 5, 0, 4};
    int64_t wrong[] = {1, 1, 0, 5, 0, 3}, none[] = {0, 1, 0, 5, 0, 4}, far[] = {-1};
    FAILS(plan_layout_from_ints(&arena, 2, dims, more, 7, slots, 1, &l), SHOAL_INVALID,
          "cuts hold 7 numbers; 6 are meant");
    FAILS(plan_layout_from_ints(&arena, 2, dims, falling, 7, slots, 2, &l), SHOAL_INVALID,
          "cut points of axis 0 fall from 6 to 5");
    FAILS(plan_layout_from_ints(&arena, 2, dims, wrong, 6, slots, 1, &l), SHOAL_INVALID,
          "its extent is 4");
    FAILS(plan_layout_from_ints(&arena, 2, dims, none, 6, slots, 1, &l), SHOAL_INVALID, "0 parts");
    FAILS(plan_layout_from_ints(&arena, 0, NULL, NULL, 0, far, 1, &l), SHOAL_INVALID, "slot -1");
}

static void test_verify(void **state) {
    int64_t dims[] = {4}, cuts[] = {0, 2, 4};
    uint32_t slots[] = {0, 1, 2}, coords[] = {0, 0, 1, 0, 1, 1};
    plan_layout l = {.rank = 1,
                     .parts = {2, 2},
                     .cuts = {cuts},
                     .combine = 0,
                     .n_slots = 3,
                     .slots = slots,
                     .coords = coords};
    FAILS(plan_layout_verify(&l, 1, dims), SHOAL_INVALID, "3 slots cannot own 4 boxes");
    l.parts[1] = 1;
    FAILS(plan_layout_verify(&l, 1, dims), SHOAL_INVALID, "slot 2 is part 1 of 1 on axis 1");
    coords[5] = 0;
    coords[2] = coords[4] = 0;
    FAILS(plan_layout_verify(&l, 1, dims), SHOAL_INVALID, "box 1 of 2 has no owner");
    FAILS(plan_layout_verify(&l, 2, dims), SHOAL_INVALID, "rank 1 for a tensor of rank 2");
}

static void test_bytes(void **state) {
    int64_t dims[] = {5, 0, 4}, ints[] = {2, 1, 2, 0, 3, 5, 0, 0, 0, 1, 4}, slots[] = {3, 9, 4, 8};
    plan_layout l, back, other;
    OK(plan_layout_from_ints(&arena, 3, dims, ints, 11, slots, 4, &l));
    base_str s;
    base_str_init(&s);
    OK(plan_layout_encode(&l, &s));
    OK(plan_layout_decode(&arena, s.data, s.size, &back));
    assert_true(plan_layout_equal(&l, &back));
    OK(plan_layout_whole(&arena, 3, dims, (uint32_t[]){3}, 1, &other));
    assert_false(plan_layout_equal(&l, &other));
    FAILS(plan_layout_decode(&arena, s.data, s.size - 1, &back), SHOAL_FORMAT, "come in eights");
    /* No cut and no flipped byte does more than fail. */
    for (size_t size = 0; size < s.size; size += 8)
        assert_int_not_equal(plan_layout_decode(&arena, s.data, size, &back), SHOAL_OK);
    srand(1);
    for (int round = 0; round < 5000; round++) {
        char *copy = base_arena_copy(&arena, s.data, s.size);
        for (int i = 0; i < 3; i++) copy[(size_t)rand() % s.size] = (char)rand();
        if (plan_layout_decode(&arena, copy, s.size, &back) == SHOAL_OK)
            assert_true(back.n_slots <= PLAN_MAX_PARTS);
        base_arena_fini(&arena);
    }
    base_str_fini(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cuts, fresh, finish),
        cmocka_unit_test_setup_teardown(test_cuts_are_fair, fresh, finish),
        cmocka_unit_test_setup_teardown(test_boxes, fresh, finish),
        cmocka_unit_test_setup_teardown(test_many_slots, fresh, finish),
        cmocka_unit_test_setup_teardown(test_from_ints, fresh, finish),
        cmocka_unit_test_setup_teardown(test_verify, fresh, finish),
        cmocka_unit_test_setup_teardown(test_bytes, fresh, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
