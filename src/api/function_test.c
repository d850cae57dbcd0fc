/* Functions: recorded once, run with other operands. Numbers are small integers, which float32
 * holds exactly. */
#include "api/state.h"

#include "api/testing.h"
#include "shoal/function.h"

#include <stdlib.h>

static shoal_tensor *row(shoal_session *s, uint32_t n, float first) {
    float data[64];
    for (uint32_t i = 0; i < n; i++) data[i] = first + (float)i;
    shoal_tensor *t;
    ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){n}, data, &t));
    return t;
}

static void holds(shoal_tensor *t, uint32_t n, const float *want) {
    float got[64];
    ok(shoal_read(t, got, n * sizeof *got));
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("element %u is %g, not %g", i, (double)got[i], (double)want[i]);
}

/* (a, b) -> (a + b, (a + b) * c, a), where c is the third operand. */
static shoal_function *three_results(shoal_session *s, shoal_tensor *c) {
    shoal_tensor *a = row(s, 4, 1), *b = row(s, 4, 10), *sum, *product;
    shoal_function *f;
    ok(shoal_add(a, b, &sum));
    ok(shoal_multiply(sum, c, &product));
    shoal_tensor *inputs[] = {a, b, c}, *outputs[] = {sum, product, a};
    ok(shoal_function_new(s, inputs, 3, outputs, 3, &f));
    shoal_tensor_free(&sum);
    shoal_tensor_free(&product);
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    return f;
}

static void test_run(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        shoal_session *s = open_pool(workers);
        shoal_tensor *c = row(s, 4, 2);
        holds(c, 4, (float[]){2, 3, 4, 5}); /* by now all workers are known */
        shoal_function *f = three_results(s, c);
        shoal_counts before = {.size = sizeof before}, after = {.size = sizeof after};
        for (int round = 0; round < 20; round++) {
            float x = (float)round;
            shoal_tensor *a = row(s, 4, x), *b = row(s, 4, 100), *out[3];
            ok(shoal_function_run(f, (shoal_tensor *[]){a, b, c}, out));
            if (round == 1) shoal_session_counts(s, &before);
            holds(out[0], 4, (float[]){x + 100, x + 102, x + 104, x + 106});
            holds(out[1], 4, (float[]){2 * (x + 100), 3 * (x + 102), 4 * (x + 104), 5 * (x + 106)});
            holds(out[2], 4, (float[]){x, x + 1, x + 2, x + 3});
            for (int i = 0; i < 3; i++) shoal_tensor_free(&out[i]);
            shoal_tensor_free(&a);
            shoal_tensor_free(&b);
        }
        shoal_session_counts(s, &after);
        assert_int_equal(after.fresh, before.fresh); /* no program was new after the first */
        assert_true(shoal_function_is_current(f));
        shoal_tensor_free(&c);
        shoal_function_free(&f);
        shoal_session_close(&s);
    }
}

/* A chain of runs, each on results of the one before, some of them still only recorded. */
static void test_chain(void **state) {
    (void)state;
    shoal_session *s = open_pool(2);
    shoal_tensor *x = row(s, 3, 0), *one = row(s, 3, 1), *y;
    ok(shoal_add(x, one, &y));
    shoal_function *f;
    ok(shoal_function_new(s, (shoal_tensor *[]){x, one}, 2, &y, 1, &f));
    shoal_tensor_free(&y);
    for (int i = 0; i < 200; i++) {
        shoal_tensor *next, *twice;
        ok(shoal_function_run(f, (shoal_tensor *[]){x, one}, &next));
        ok(shoal_add(next, one, &twice)); /* recorded: the next run starts it */
        shoal_tensor_free(&x);
        shoal_tensor_free(&next);
        x = twice;
    }
    holds(x, 3, (float[]){400, 801, 1202});
    shoal_pool_status pool = {.size = sizeof pool};
    ok(shoal_sync(s)); /* a worker that holds none of x may still be behind */
    ok(shoal_status_of(s, &pool, NULL, 0));
    assert_true(pool.values < 10);
    shoal_function_free(&f);
    shoal_tensor_free(&x);
    shoal_tensor_free(&one);
    shoal_session_close(&s);
}

/* The hub keeps API_PROGRAMS programs; one that it has dropped is sent again. */
static void test_forgotten(void **state) {
    (void)state;
    shoal_session *s = open_pool(1);
    shoal_tensor *c = row(s, 4, 2), *out[3];
    shoal_function *f = three_results(s, c);
    for (int64_t n = 1; n <= API_PROGRAMS + 10; n++) {
        shoal_tensor *x, *y;
        float *zeros = calloc((size_t)n, sizeof *zeros);
        ok(shoal_tensor_new(s, SHOAL_F32, 1, &n, zeros, &x));
        ok(shoal_negate(x, &y));
        ok(shoal_start(y));
        shoal_tensor_free(&x);
        shoal_tensor_free(&y);
        free(zeros);
        if (n % 200 == 0) ok(shoal_sync(s));
    }
    ok(shoal_function_run(f, (shoal_tensor *[]){c, c, c}, out));
    holds(out[1], 4, (float[]){8, 18, 32, 50});
    for (int i = 0; i < 3; i++) shoal_tensor_free(&out[i]);
    shoal_function_free(&f);
    shoal_tensor_free(&c);
    shoal_session_close(&s);
}

static void test_errors(void **state) {
    (void)state;
    shoal_session *s = open_pool(1), *t = open_pool(1);
    shoal_tensor *a = row(s, 4, 1), *b = row(s, 4, 2), *c = row(s, 5, 3), *d = row(t, 4, 1);
    shoal_tensor *sum, *next, *out = NULL;
    shoal_function *f = NULL;
    ok(shoal_add(a, b, &sum));
    ok(shoal_negate(sum, &next));
    says(shoal_function_new(s, &a, 1, &sum, 1, &f), SHOAL_INVALID,
         "depend on a tensor (float32[4]) that is not among the inputs");
    assert_null(f);
    says(shoal_function_new(s, &sum, 1, &next, 1, &f), SHOAL_INVALID,
         "input 0 (float32[4]) is recorded and has not been started");
    says(shoal_function_new(s, &a, 1, &b, 1, &f), SHOAL_INVALID,
         "output 0 (float32[4]) was not recorded since");
    says(shoal_function_new(s, &d, 1, &sum, 1, &f), SHOAL_INVALID, "another session");
    ok(shoal_function_new(s, (shoal_tensor *[]){a, b}, 2, &sum, 1, &f));
    says(shoal_function_run(f, (shoal_tensor *[]){a, c}, &out), SHOAL_INVALID,
         "input 1 is float32[5]; it was recorded with float32[4]");
    assert_null(out);
    says(shoal_function_run(f, (shoal_tensor *[]){a, d}, &out), SHOAL_INVALID, "another session");
    shoal_tensor_free(&sum);
    shoal_tensor_free(&next);
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    shoal_tensor_free(&c);
    shoal_tensor_free(&d);
    shoal_session_close(&t);
    shoal_session_close(&s);
    shoal_function_free(&f); /* after its session */
}

/* The sum of both; the first is donated. */
static shoal_function *donating(shoal_session *s, shoal_donate when) {
    shoal_tensor *a = row(s, 4, 0), *b = row(s, 4, 0), *sum;
    shoal_function *f;
    ok(shoal_add(a, b, &sum));
    ok(shoal_function_new(s, (shoal_tensor *[]){a, b}, 2, &sum, 1, &f));
    ok(shoal_function_donate(f, 0, when));
    assert_int_equal(shoal_function_donate(f, 2, when), SHOAL_INVALID);
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    shoal_tensor_free(&sum);
    return f;
}

static void test_donate(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        shoal_session *s = open_pool(workers);
        shoal_function *f = donating(s, SHOAL_DONATE_ALWAYS);
        shoal_tensor *a = row(s, 4, 1), *b = row(s, 4, 10), *sum, *other;
        shoal_tensor *alias = shoal_tensor_retain(a);
        assert_int_equal(shoal_function_run(f, (shoal_tensor *[]){b, b}, &sum), SHOAL_INVALID);
        assert_non_null(strstr(shoal_error_message(), "another input"));
        for (int round = 0; round < 10; round++) {
            ok(shoal_function_run(f, (shoal_tensor *[]){a, b}, &sum));
            float data[4];
            assert_int_equal(shoal_read(round ? a : alias, data, sizeof data), SHOAL_INVALID);
            assert_non_null(strstr(shoal_error_message(), "was donated to a function"));
            assert_int_equal(shoal_function_run(f, (shoal_tensor *[]){a, b}, &other),
                             SHOAL_INVALID);
            shoal_tensor_free(&a);
            a = sum;
        }
        holds(a, 4, (float[]){101, 112, 123, 134});
        holds(b, 4, (float[]){10, 11, 12, 13});
        ok(shoal_tensor_donate(b));
        assert_int_equal(shoal_start(b), SHOAL_INVALID);
        shoal_function_free(&f);
        /* What others hold is kept. */
        f = donating(s, SHOAL_DONATE_IF_LAST);
        shoal_tensor *c = row(s, 4, 1), *held = shoal_tensor_retain(a);
        ok(shoal_function_run(f, (shoal_tensor *[]){a, c}, &sum));
        holds(held, 4, (float[]){101, 112, 123, 134});
        shoal_tensor_free(&held);
        ok(shoal_function_run(f, (shoal_tensor *[]){a, c}, &other));
        assert_int_equal(shoal_start(a), SHOAL_INVALID);
        holds(sum, 4, (float[]){102, 114, 126, 138});
        holds(other, 4, (float[]){102, 114, 126, 138});
        shoal_tensor *all[] = {a, b, c, alias, sum, other};
        for (int i = 0; i < 6; i++) shoal_tensor_free(&all[i]);
        shoal_function_free(&f);
        shoal_session_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_donate), cmocka_unit_test(test_run),
        cmocka_unit_test(test_chain),  cmocka_unit_test(test_forgotten),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
