/* The thread pool: every task runs exactly once, also over many runs in a row and with more threads
 * than cores; and libraries opened at run time. */
#include "base/pool.h"

#include "base/dl.h"
#include "base/os_cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { MOST = 1000 };

typedef struct counts {
    atomic_uint calls[MOST];
    uint32_t n, run;
    uint32_t seen[MOST]; /* plain memory: the pool must order it */
} counts;

static void count(void *context, uint32_t index) {
    counts *c = context;
    atomic_fetch_add(&c->calls[index], 1);
    c->seen[index] = c->run;
}

static void check_runs(uint32_t threads, uint32_t runs, uint32_t most, bool sleep) {
    static counts c;
    memset(&c, 0, sizeof c);
    base_pool *pool;
    assert_int_equal(base_pool_new(threads, &pool), SHOAL_OK);
    assert_int_equal(base_pool_threads(pool), threads);
    for (c.run = 1; c.run <= runs; c.run++) {
        c.n = c.run * 7 % (most + 1);
        for (uint32_t i = 0; i < most; i++) atomic_store(&c.calls[i], 0);
        base_pool_run(pool, c.n, count, &c);
        for (uint32_t i = 0; i < most; i++) {
            assert_int_equal(atomic_load(&c.calls[i]), i < c.n);
            if (i < c.n) assert_int_equal(c.seen[i], c.run);
        }
        if (sleep) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    base_pool_destroy(&pool);
    assert_null(pool);
}

static void test_one_thread(void **state) { check_runs(1, 20, 100, false); }
static void test_two_threads(void **state) { check_runs(2, 20000, 5, false); }
static void test_sleeping_threads(void **state) { check_runs(2, 300, 50, true); }
static void test_more_threads_than_cores(void **state) {
    check_runs(base_cpu_count() + 5, 500, MOST, false);
}

static void test_unused_pool(void **state) {
    base_pool *pool;
    assert_int_equal(base_pool_new(4, &pool), SHOAL_OK);
    base_pool_destroy(&pool);
    base_pool_destroy(&pool);
}

/* After it has left, the thread may run anywhere again. */
static void test_leave(void **state) {
    uint32_t count = base_cpu_count();
    int was = base_cpu_now();
    assert_in_range(was, 0, 1 << 20);
    base_cpu_leave(was);
    if (count > 1) assert_int_not_equal(base_cpu_now(), was);
    assert_int_equal(base_cpu_count(), count);
    base_cpu_leave(-1);
    base_cpu_leave(1 << 20);
    assert_int_equal(base_cpu_count(), count);
}

static void test_dl(void **state) {
    base_dl *library = NULL;
    const char *const absent[] = {"libshoal-none.so.1", "/nowhere/libshoal-none.so"};
    assert_int_equal(base_dl_open(absent, 2, &library), SHOAL_NOT_FOUND);
    assert_non_null(strstr(shoal_error_message(), "libshoal-none.so.1: cannot open"));
    assert_non_null(strstr(shoal_error_message(), "/nowhere/libshoal-none.so"));
    const char *const present[] = {"libshoal-none.so.1", "libm.so.6"};
    assert_int_equal(base_dl_open(present, 2, &library), SHOAL_OK);
    assert_string_equal(base_dl_name(library), "libm.so.6");
    double (*root)(double);
    assert_int_equal(base_dl_symbol(library, "sqrt", &root), SHOAL_OK);
    assert_true(root(9) == 3);
    assert_int_equal(base_dl_symbol(library, "no_such_function", &root), SHOAL_NOT_FOUND);
    assert_non_null(strstr(shoal_error_message(), "libm.so.6 has no 'no_such_function'"));
    base_dl_close(&library);
    assert_null(library);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_sleeping_threads),
        cmocka_unit_test(test_more_threads_than_cores),
        cmocka_unit_test(test_unused_pool),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_dl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
