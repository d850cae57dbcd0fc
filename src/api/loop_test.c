/* Loops: the rounds of a function on the workers. Numbers are small integers, which float32 holds
 * exactly; what they have to be is computed here. */
#include "api/state.h"

#include "api/testing.h"
#include "shoal/function.h"

#include <stdlib.h>
#include <unistd.h>

enum { N = 4 };

static shoal_tensor *row(shoal_session *s, const float *data) {
    shoal_tensor *t;
    ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){N}, data, &t));
    return t;
}

static void holds(shoal_tensor *t, const float *want) {
    float got[N];
    ok(shoal_read(t, got, sizeof got));
    for (int i = 0; i < N; i++)
        if (got[i] != want[i])
            fail_msg("element %d is %g, not %g", i, (double)got[i], (double)want[i]);
}

/* (x, b) -> (x + b, whether an element of that is above 100) */
static shoal_function *adding(shoal_session *s) {
    const float zeros[N] = {0};
    shoal_tensor *x = row(s, zeros), *b = row(s, zeros), *sum, *most, *limit, *stop;
    shoal_function *f;
    const float hundred = 100;
    ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &hundred, &limit));
    ok(shoal_add(x, b, &sum));
    ok(shoal_reduce(sum, "maximum", NULL, 0, false, &most));
    ok(shoal_compare(most, limit, "GT", &stop));
    ok(shoal_function_new(s, (shoal_tensor *[]){x, b, limit}, 3, (shoal_tensor *[]){sum, stop}, 2,
                          &f));
    shoal_tensor *all[] = {x, b, sum, most, limit, stop};
    for (int i = 0; i < 6; i++) shoal_tensor_free(&all[i]);
    return f;
}

/* Rounds of `adding` from x, with what each brings compared. */
static void run(shoal_session *s, shoal_function *f, uint64_t rounds, bool stops, float step) {
    const float zeros[N] = {0}, steps[N] = {step, step, 0, step}, hundred = 100;
    float want[N] = {0}, got[N];
    shoal_tensor *x = row(s, zeros), *b = row(s, steps), *limit, *out[2];
    shoal_loop *loop;
    ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &hundred, &limit));
    const shoal_carry carry = {0, 0};
    const uint32_t stream = 0;
    const shoal_repeat repeat = {.size = sizeof repeat,
                                 .rounds = rounds,
                                 .n_carry = 1,
                                 .carry = &carry,
                                 .n_stream = 1,
                                 .stream = &stream,
                                 .stops = stops,
                                 .stop = 1};
    ok(shoal_function_repeat(f, (shoal_tensor *[]){x, b, limit}, &repeat, out, &loop));
    uint64_t count = 0, due = 0;
    for (bool more = true;;) {
        ok(shoal_loop_next(loop, (void *[]){got}, (size_t[]){sizeof got}, &more));
        if (!more) break;
        count++;
        for (int i = 0; i < N; i++) want[i] += steps[i];
        for (int i = 0; i < N; i++) assert_true(got[i] == want[i]);
    }
    float top = 0;
    for (due = 0; due < rounds && !(stops && top > 100); due++) top += step;
    assert_int_equal(count, due);
    assert_int_equal(shoal_loop_rounds(loop), due);
    holds(out[0], want);
    holds(x, zeros);
    shoal_loop_free(&loop);
    shoal_tensor *all[] = {x, b, limit, out[0], out[1]};
    for (int i = 0; i < 5; i++)
        if (all[i]) shoal_tensor_free(&all[i]);
}

static void test_rounds(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        shoal_session *s = open_pool(workers);
        shoal_function *f = adding(s);
        for (uint64_t rounds = 0; rounds < 4; rounds++) run(s, f, rounds, false, 3);
        run(s, f, 300, false, 1);
        run(s, f, 50, true, 200); /* stops after the first round, */
        run(s, f, 50, true, 60);  /* the second, */
        run(s, f, 50, true, 3);   /* one in between, */
        run(s, f, 50, true, 2.0); /* and not before the end */
        shoal_function_free(&f);
        shoal_session_close(&s);
    }
}

/* A loop over x, b and limit that streams its sums. */
static shoal_loop *streaming(shoal_function *f, shoal_tensor *const *in, uint64_t rounds,
                             uint32_t patience_ms, shoal_tensor **out) {
    const shoal_carry carry = {0, 0};
    const uint32_t stream = 0;
    const shoal_repeat repeat = {.size = sizeof repeat,
                                 .rounds = rounds,
                                 .n_carry = 1,
                                 .carry = &carry,
                                 .n_stream = 1,
                                 .stream = &stream,
                                 .patience_ms = patience_ms};
    shoal_loop *loop;
    ok(shoal_function_repeat(f, in, &repeat, out, &loop));
    return loop;
}

/* Nobody reads: the loop ends, and what is behind it goes on. */
static void test_nobody_reads(void **state) {
    (void)state;
    shoal_session *s = open_pool(2);
    shoal_function *f = adding(s);
    const float zeros[N] = {0}, hundred = 100, three[N] = {3, 3, 3, 3};
    float got[N];
    shoal_tensor *x = row(s, zeros), *b = row(s, three), *limit, *out[2], *sum;
    ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &hundred, &limit));
    shoal_loop *loop = streaming(f, (shoal_tensor *[]){x, b, limit}, 1000000000, 300, out);
    ok(shoal_add(b, b, &sum));
    holds(sum, (float[]){6, 6, 6, 6});
    says(shoal_read(out[0], got, sizeof got), SHOAL_TIMEOUT, "nobody has taken the results");
    bool more = true;
    shoal_status status = SHOAL_OK;
    for (int i = 0; i < 20000 && status == SHOAL_OK && more; i++)
        status = shoal_loop_next(loop, (void *[]){got}, (size_t[]){sizeof got}, &more);
    says(status, SHOAL_TIMEOUT, "nobody has taken the results");
    shoal_loop_free(&loop);
    shoal_function_free(&f);
    shoal_tensor *all[] = {x, b, limit, out[0], out[1], sum};
    for (int i = 0; i < 6; i++) shoal_tensor_free(&all[i]);
    shoal_session_close(&s);
}

/* Who takes the stream waits for something behind the loop first. */
static void test_reads_in_between(void **state) {
    (void)state;
    enum { ROUNDS = 6000 };
    shoal_session *s = open_pool(2);
    shoal_function *f = adding(s);
    const float zeros[N] = {0}, most = 1e9F, one[N] = {1, 1, 1, 1};
    float got[N];
    shoal_tensor *x = row(s, zeros), *b = row(s, one), *limit, *out[2], *sum;
    ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &most, &limit));
    shoal_loop *loop = streaming(f, (shoal_tensor *[]){x, b, limit}, ROUNDS, 5000, out);
    bool more = true;
    ok(shoal_loop_next(loop, (void *[]){got}, (size_t[]){sizeof got}, &more));
    ok(shoal_add(out[0], b, &sum));
    holds(sum, (float[]){ROUNDS + 1, ROUNDS + 1, ROUNDS + 1, ROUNDS + 1});
    for (int i = 2; i <= ROUNDS; i++) {
        ok(shoal_loop_next(loop, (void *[]){got}, (size_t[]){sizeof got}, &more));
        assert_true(more && got[1] == (float)i);
    }
    ok(shoal_loop_next(loop, (void *[]){got}, (size_t[]){sizeof got}, &more));
    assert_false(more);
    shoal_loop_free(&loop);
    shoal_function_free(&f);
    shoal_tensor *all[] = {x, b, limit, out[0], out[1], sum};
    for (int i = 0; i < 6; i++) shoal_tensor_free(&all[i]);
    shoal_session_close(&s);
}

/* Who may still read the stream has the loop go on, also when its results have been let go of; and
 * when the stream has been, too, what is behind it goes on. */
static void test_dropped(void **state) {
    (void)state;
    shoal_session *s = open_pool(2);
    shoal_function *f = adding(s);
    const float zeros[N] = {0}, most = 1e9F, one[N] = {1, 1, 1, 1};
    float got[N];
    shoal_tensor *x = row(s, zeros), *b = row(s, one), *limit, *out[2], *sum;
    ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &most, &limit));
    for (int endless = 0; endless < 2; endless++) {
        shoal_loop *loop =
            streaming(f, (shoal_tensor *[]){x, b, limit}, endless ? 1000000000 : 2000, 0, out);
        for (int i = 0; i < 2; i++) shoal_tensor_free(&out[i]);
        if (!endless) {
            ok(shoal_add(b, b, &sum)); /* the hub hears of what was let go of */
            holds(sum, (float[]){2, 2, 2, 2});
            shoal_tensor_free(&sum);
        }
        bool more = true;
        for (uint64_t i = 0; i < 2000; i++) {
            ok(shoal_loop_next(loop, (void *[]){got}, (size_t[]){sizeof got}, &more));
            assert_true(more && got[0] == (float)(i + 1));
        }
        shoal_loop_free(&loop);
    }
    ok(shoal_add(b, b, &sum));
    holds(sum, (float[]){2, 2, 2, 2});
    ok(shoal_sync(s));
    shoal_function_free(&f);
    shoal_tensor *all[] = {x, b, limit, sum};
    for (int i = 0; i < 4; i++) shoal_tensor_free(&all[i]);
    shoal_session_close(&s);
}

/* Tensors of files are fed, and read by each round; what changes from round to round is none. */
static void test_files(void **state) {
    (void)state;
    char path[] = "/tmp/shoal-loop-test-XXXXXX";
    const float zeros[N] = {0}, hundred = 100;
    float rows[5][N], want[N] = {0};
    for (int i = 0; i < 5 * N; i++) rows[i / N][i % N] = (float)(i % 7);
    for (int i = 0; i < 5 * N; i++) want[i % N] += rows[i / N][i % N];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    ok(shoal_npy_write(path, SHOAL_F32, 2, (int64_t[]){5, N}, rows));
    shoal_session *s = open_pool(2);
    shoal_function *f = adding(s);
    shoal_file *file;
    shoal_tensor *x = row(s, zeros), *limit, *b, *first, *out[2];
    shoal_loop *loop;
    ok(shoal_tensor_new(s, SHOAL_F32, 0, NULL, &hundred, &limit));
    ok(shoal_file_open(path, &file));
    ok(shoal_file_load(file, 0, s, &b));
    const shoal_carry carry = {0, 0};
    const uint32_t feed = 1;
    shoal_repeat repeat = {.size = sizeof repeat,
                           .rounds = 5,
                           .n_carry = 1,
                           .carry = &carry,
                           .n_feed = 1,
                           .feed = &feed};
    ok(shoal_function_repeat(f, (shoal_tensor *[]){x, b, limit}, &repeat, out, &loop));
    holds(out[0], want);
    shoal_loop_free(&loop);
    for (int i = 0; i < 2; i++) shoal_tensor_free(&out[i]);
    ok(shoal_npy_write(path, SHOAL_F32, 1, (int64_t[]){N}, rows));
    shoal_file_close(&file);
    ok(shoal_file_open(path, &file));
    ok(shoal_file_load(file, 0, s, &first));
    repeat.n_feed = 0;
    says(shoal_function_repeat(f, (shoal_tensor *[]){first, x, limit}, &repeat, out, &loop),
         SHOAL_INVALID, "read from a file: it cannot be carried");
    says(shoal_function_run(f, (shoal_tensor *[]){first, x, limit}, out), SHOAL_INVALID,
         "has to be recorded anew");
    shoal_function_free(&f);
    shoal_file_close(&file);
    shoal_tensor *all[] = {x, b, limit, first};
    for (int i = 0; i < 4; i++) shoal_tensor_free(&all[i]);
    shoal_session_close(&s);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_nobody_reads),
        cmocka_unit_test(test_reads_in_between),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
