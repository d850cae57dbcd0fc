/* Fences: order, failures with their messages, deadlines, and waiting across threads. */
#include "base/fence.h"

#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static shoal_fence *new_fence(void) {
    shoal_fence *fence;
    assert_int_equal(base_fence_new(&fence), SHOAL_OK);
    return fence;
}

static void test_order(void **state) {
    shoal_fence *f = new_fence();
    assert_int_equal(base_fence_wait((shoal_point){f, 0}, 0), SHOAL_OK);
    assert_int_equal(base_fence_wait((shoal_point){NULL, 7}, 0), SHOAL_OK);
    assert_int_equal(base_fence_wait((shoal_point){f, 1}, 0), SHOAL_TIMEOUT);
    base_fence_signal((shoal_point){f, 3}, SHOAL_OK, NULL);
    assert_int_equal(base_fence_wait((shoal_point){f, 2}, 0), SHOAL_OK);
    base_fence_signal((shoal_point){f, 2}, SHOAL_LOST, "too late to matter");
    assert_int_equal(base_fence_wait((shoal_point){f, 2}, 0), SHOAL_OK);
    assert_int_equal(base_fence_wait((shoal_point){f, 4}, 0), SHOAL_TIMEOUT);
    assert_non_null(strstr(shoal_error_message(), "at 3, not at 4"));
    base_fence_release(&f);
    assert_null(f);
}

static void test_failure_marks_its_points_only(void **state) {
    shoal_fence *f = new_fence();
    base_fence_signal((shoal_point){f, 2}, SHOAL_OK, NULL);
    base_fence_signal((shoal_point){f, 4}, SHOAL_LOST, "worker 2 died");
    base_fence_signal((shoal_point){f, 5}, SHOAL_OK, NULL);
    static const shoal_status expected[] = {SHOAL_OK,   SHOAL_OK,   SHOAL_OK,
                                            SHOAL_LOST, SHOAL_LOST, SHOAL_OK};
    for (uint64_t i = 0; i <= 5; i++)
        assert_int_equal(base_fence_wait((shoal_point){f, i}, 0), expected[i]);
    assert_int_equal(base_fence_wait((shoal_point){f, 4}, 1000), SHOAL_LOST);
    assert_string_equal(shoal_error_message(), "worker 2 died");
    base_fence_release(&f);
}

static void test_many_failures_stay_failed(void **state) {
    shoal_fence *f = new_fence();
    for (uint64_t i = 1; i <= 100; i++)
        base_fence_signal((shoal_point){f, i}, SHOAL_IO, i == 100 ? "the last" : "earlier");
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(base_fence_wait((shoal_point){f, i}, 0), SHOAL_IO);
    assert_string_equal(shoal_error_message(), "the last");
    base_fence_release(&f);
}

/* What succeeds between failures does, however many there are; of very many, the last are known. */
static void test_successes_between_failures(void **state) {
    enum { MANY = 20000 };
    shoal_fence *f = new_fence();
    for (uint64_t i = 1; i <= MANY; i++)
        base_fence_signal((shoal_point){f, i}, i % 2 ? SHOAL_IO : SHOAL_OK, "odd");
    for (uint64_t i = 1; i <= MANY; i++) {
        shoal_status status = base_fence_wait((shoal_point){f, i}, 0);
        assert_true(status == SHOAL_OK || (i % 2 && status == SHOAL_IO));
        if (i > MANY - 2000) assert_int_equal(status, i % 2 ? SHOAL_IO : SHOAL_OK);
    }
    assert_int_equal(base_fence_failed((shoal_point){f, MANY}, MANY - 1), SHOAL_OK);
    assert_int_equal(base_fence_failed((shoal_point){f, MANY}, MANY - 2), SHOAL_IO);
    base_fence_release(&f);
}

static void assert_points(shoal_fence *f, const char *which) {
    char found[32] = {0};
    for (uint64_t i = 0; which[i]; i++)
        found[i] = base_fence_wait((shoal_point){f, i + 1}, 0) == SHOAL_OK ? '-' : 'x';
    assert_string_equal(found, which);
}

/* What works with what failed fails, however it is signalled: one by one or many at once, well or
 * not. */
static void test_derived(void **state) {
    static const uint64_t pairs[][2] = {{3, 1}, {3, 2}, {4, 3}, {5, 1}, {7, 4}, {9, 8}};
    for (uint64_t stride = 1; stride <= 9; stride++) {
        shoal_fence *f = new_fence();
        base_fence_signal((shoal_point){f, 1}, SHOAL_OK, NULL);
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            assert_int_equal(base_fence_derive((shoal_point){f, pairs[i][0]}, pairs[i][1]),
                             SHOAL_OK);
        base_fence_signal((shoal_point){f, 2}, SHOAL_RANGE, "the first");
        for (uint64_t v = 3; v < 9; v += stride)
            base_fence_signal((shoal_point){f, v}, SHOAL_OK, NULL);
        base_fence_signal((shoal_point){f, 9}, SHOAL_OK, NULL);
        assert_points(f, "-xxx--x--");
        assert_int_equal(base_fence_wait((shoal_point){f, 7}, 0), SHOAL_RANGE);
        assert_string_equal(shoal_error_message(), "the first");
        /* From one that has failed long ago; one that fails for itself as well. */
        assert_int_equal(base_fence_derive((shoal_point){f, 10}, 7), SHOAL_OK);
        assert_int_equal(base_fence_derive((shoal_point){f, 12}, 7), SHOAL_OK);
        assert_int_equal(base_fence_derive((shoal_point){f, 13}, 9), SHOAL_OK);
        base_fence_signal((shoal_point){f, 10}, SHOAL_OK, NULL);
        base_fence_signal((shoal_point){f, 12}, SHOAL_IO, "of its own");
        base_fence_signal((shoal_point){f, 13}, SHOAL_OK, NULL);
        assert_points(f, "-xxx--x--xxx-");
        assert_int_equal(base_fence_wait((shoal_point){f, 11}, 0), SHOAL_IO);
        assert_int_equal(base_fence_wait((shoal_point){f, 12}, 0), SHOAL_RANGE);
        base_fence_release(&f);
    }
}

/* A long line behind one failure, beside which others fail. */
static void test_derived_far(void **state) {
    enum { MANY = 20000 };
    shoal_fence *f = new_fence();
    for (uint64_t v = 2; v <= MANY; v++)
        assert_int_equal(base_fence_derive((shoal_point){f, v}, v % 3 ? v - 1 : 1), SHOAL_OK);
    base_fence_signal((shoal_point){f, 1}, SHOAL_RANGE, "the first");
    for (uint64_t v = 2; v <= MANY; v++)
        base_fence_signal((shoal_point){f, v}, v % 2 ? SHOAL_OK : SHOAL_IO, "beside");
    for (uint64_t v = 1; v <= MANY; v++)
        assert_int_equal(base_fence_wait((shoal_point){f, v}, 0), SHOAL_RANGE);
    base_fence_release(&f);
}

/* What is derived from a failure that is known no more counts as failed. */
static void test_derived_from_forgotten(void **state) {
    enum { MANY = 20000 };
    shoal_fence *f = new_fence();
    assert_int_equal(base_fence_derive((shoal_point){f, MANY}, 1), SHOAL_OK);
    for (uint64_t v = 1; v < MANY; v++)
        base_fence_signal((shoal_point){f, v}, v % 2 ? SHOAL_RANGE : SHOAL_OK, "odd");
    base_fence_signal((shoal_point){f, MANY}, SHOAL_OK, NULL);
    assert_int_not_equal(base_fence_wait((shoal_point){f, MANY}, 0), SHOAL_OK);
    base_fence_release(&f);
}

static void test_deadline(void **state) {
    shoal_fence *f = new_fence();
    int64_t start = base_now();
    assert_int_equal(base_fence_wait((shoal_point){f, 1}, 30), SHOAL_TIMEOUT);
    int64_t took = base_now() - start;
    assert_true(took >= 30 * BASE_MS && took < 5 * BASE_SECOND);
    base_fence_release(&f);
}

static void *signal_later(void *argument) {
    shoal_fence *f = argument;
    base_fence_signal((shoal_point){f, 1}, SHOAL_OK, NULL);
    base_fence_signal((shoal_point){f, 2}, SHOAL_CLOSED, "gone");
    base_fence_release(&f);
    return NULL;
}

static void test_across_threads(void **state) {
    for (int i = 0; i < 200; i++) {
        shoal_fence *f = new_fence();
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, signal_later, base_fence_retain(f)), 0);
        assert_int_equal(base_fence_wait((shoal_point){f, 1}, 10000), SHOAL_OK);
        assert_int_equal(base_fence_wait((shoal_point){f, 2}, 10000), SHOAL_CLOSED);
        assert_string_equal(shoal_error_message(), "gone");
        base_fence_release(&f);
        pthread_join(thread, NULL);
    }
}

/* ---- followers ---- */

typedef struct heard {
    int n;
    shoal_status status[8];
    char message[64];
} heard;

static void hear(void *context, shoal_status status) {
    heard *h = context;
    if (status != SHOAL_OK) snprintf(h->message, sizeof h->message, "%s", shoal_error_message());
    h->status[h->n++] = status;
}

static void test_followers(void **state) {
    shoal_fence *f = new_fence();
    heard first = {0}, second = {0}, third = {0};
    assert_int_equal(base_fence_then((shoal_point){NULL, 9}, hear, &first), SHOAL_OK);
    assert_int_equal(first.n, 1);
    assert_int_equal(base_fence_then((shoal_point){f, 3}, hear, &third), SHOAL_OK);
    assert_int_equal(base_fence_then((shoal_point){f, 1}, hear, &first), SHOAL_OK);
    assert_int_equal(base_fence_then((shoal_point){f, 2}, hear, &second), SHOAL_OK);
    assert_false(base_fence_settled((shoal_point){f, 1}));
    base_fence_signal((shoal_point){f, 1}, SHOAL_OK, NULL);
    assert_true(base_fence_settled((shoal_point){f, 1}));
    assert_false(base_fence_reached((shoal_point){f, 2}));
    assert_int_equal(first.n, 2);
    assert_int_equal(second.n, 0);
    /* Held by its followers: nobody else has it any more but the one that signals. */
    shoal_fence *signals = base_fence_retain(f);
    base_fence_release(&f);
    base_fence_signal((shoal_point){signals, 2}, SHOAL_LOST, "it is gone");
    assert_int_equal(second.status[0], SHOAL_LOST);
    assert_string_equal(second.message, "it is gone");
    base_fence_signal((shoal_point){signals, 7}, SHOAL_OK, NULL);
    assert_int_equal(third.n, 1);
    assert_int_equal(third.status[0], SHOAL_OK);
    assert_int_equal(base_fence_then((shoal_point){signals, 2}, hear, &third), SHOAL_OK);
    assert_int_equal(third.status[1], SHOAL_LOST);
    base_fence_release(&signals);
}

static void test_failures_of_a_stretch(void **state) {
    shoal_fence *f = new_fence();
    base_fence_signal((shoal_point){f, 2}, SHOAL_OK, NULL);
    base_fence_signal((shoal_point){f, 4}, SHOAL_LOST, "three and four");
    base_fence_signal((shoal_point){f, 6}, SHOAL_OK, NULL);
    assert_int_equal(base_fence_failed((shoal_point){f, 2}, 0), SHOAL_OK);
    assert_int_equal(base_fence_failed((shoal_point){f, 3}, 2), SHOAL_LOST);
    assert_int_equal(base_fence_failed((shoal_point){f, 6}, 0), SHOAL_LOST);
    assert_string_equal(shoal_error_message(), "three and four");
    assert_int_equal(base_fence_failed((shoal_point){f, 6}, 4), SHOAL_OK);
    base_fence_release(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_failure_marks_its_points_only),
        cmocka_unit_test(test_many_failures_stay_failed),
        cmocka_unit_test(test_successes_between_failures),
        cmocka_unit_test(test_derived),
        cmocka_unit_test(test_derived_far),
        cmocka_unit_test(test_derived_from_forgotten),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_across_threads),
        cmocka_unit_test(test_followers),
        cmocka_unit_test(test_failures_of_a_stretch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
