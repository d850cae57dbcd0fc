/* Waits that are interrupted, as by Ctrl-C, threads that share a session, and what is let go of. */
#include "api/state.h"

#include "api/testing.h"
#include "shoal/function.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What Python's lock is there: whoever is asked for an interruption takes it, and so may whoever
 * calls. */
static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;
static atomic_int asked;
static atomic_bool stop, stuck;

/* It joins another hub, as far as a loop can tell, while the call waits for room. */
static shoal_session *joins;

static void crowd(shoal_session *s, int32_t n);

static bool interrupted(void *context) {
    (void)context;
    if (joins) {
        pthread_mutex_lock(&joins->lock);
        joins->era++;
        pthread_mutex_unlock(&joins->lock);
        crowd(joins, -API_OUTSTANDING);
        joins = NULL;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    asked++;
    if (pthread_mutex_timedlock(&interpreter, &until))
        stuck = true;
    else
        pthread_mutex_unlock(&interpreter);
    return stop;
}

static void rest(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static shoal_session *open_session(void) {
    shoal_options options = {.size = sizeof options,
                             .workers = 1,
                             .threads = 1,
                             .hub = "embedded",
                             .timeout_ms = 20000,
                             .interrupted = interrupted};
    shoal_session *session;
    ok(shoal_session_open(&options, &session));
    asked = 0;
    stop = stuck = false;
    return session;
}

/* As if so many programs more were on their way. */
static void crowd(shoal_session *s, int32_t n) {
    pthread_mutex_lock(&s->news);
    s->outstanding += (uint32_t)n;
    pthread_mutex_unlock(&s->news);
}

static shoal_tensor *doubled(shoal_session *s, shoal_tensor **x) {
    float data[300];
    shoal_tensor *y;
    for (int i = 0; i < 300; i++) data[i] = (float)i;
    ok(shoal_tensor_new(s, SHOAL_F32, 1, (int64_t[]){300}, data, x));
    ok(shoal_add(*x, *x, &y));
    return y;
}

static void check_doubled(shoal_tensor *y) {
    float out[300];
    ok(shoal_read(y, out, sizeof out));
    for (int i = 0; i < 300; i++) assert_true(out[i] == 2.0f * (float)i);
}

/* What was not sent is not known: the same read, sync or explain again does what it says. */
static void test_again_after_an_interruption(void **state) {
    (void)state;
    shoal_session *s = open_session();
    for (int round = 0; round < 2; round++) {
        float out[300];
        char *text;
        shoal_tensor *x, *y = doubled(s, &x);
        ok(shoal_explain(y, false, &text));
        free(text);
        crowd(s, API_OUTSTANDING);
        stop = true;
        assert_int_equal(shoal_read(y, out, sizeof out), SHOAL_INTERRUPTED);
        assert_int_equal(shoal_start(y), SHOAL_INTERRUPTED);
        assert_int_equal(shoal_sync(s), SHOAL_INTERRUPTED);
        stop = false;
        crowd(s, -API_OUTSTANDING);
        assert_int_equal(s->worker ? worker_state(s->worker) : SHOAL_LOST, SHOAL_OK);
        ok(shoal_explain(y, false, &text));
        free(text);
        check_doubled(y);
        check_doubled(y);
        shoal_tensor_free(&x);
        shoal_tensor_free(&y);
    }
    assert_true(asked >= 2);
    shoal_session_close(&s);
}

static shoal_tensor *shared;
static atomic_int calls;

/* Calls with the interpreter's lock, as a thread of Python does. */
static void *call(void *context) {
    (void)context;
    while (!asked) rest(1);
    for (int i = 0; i < 3; i++) {
        shoal_tensor *y = NULL;
        pthread_mutex_lock(&interpreter);
        if (shoal_negate(shared, &y) == SHOAL_OK) calls++;
        pthread_mutex_unlock(&interpreter);
        shoal_tensor_free(&y);
        rest(120);
    }
    crowd(shared->session, -API_OUTSTANDING);
    return NULL;
}

static void test_nobody_waits_with_the_lock(void **state) {
    (void)state;
    shoal_session *s = open_session();
    pthread_t thread;
    shoal_tensor *x, *y = doubled(s, &x);
    shared = x;
    calls = 0;
    crowd(s, API_OUTSTANDING);
    assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
    check_doubled(y);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(calls, 3);
    assert_false(stuck);
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_session_close(&s);
}

/* A loop is of the hub that it was handed to, not of one that was there when it was asked for. */
static void test_a_loop_after_a_wait(void **state) {
    (void)state;
    shoal_session *s = open_session();
    shoal_tensor *y, *out;
    shoal_function *f;
    shoal_loop *loop;
    const uint32_t stream = 0;
    const shoal_repeat repeat = {
        .size = sizeof repeat, .rounds = 2, .n_stream = 1, .stream = &stream};
    float got[4];
    bool more;
    ok(shoal_iota(s, SHOAL_F32, 1, (int64_t[]){4}, 0, &y));
    ok(shoal_function_new(s, NULL, 0, &y, 1, &f));
    shoal_tensor_free(&y);
    crowd(s, API_OUTSTANDING);
    joins = s;
    ok(shoal_function_repeat(f, NULL, &repeat, &out, &loop));
    assert_null(joins);
    for (int round = 0; round < 2; round++) {
        ok(shoal_loop_next(loop, (void *[]){got}, (size_t[]){sizeof got}, &more));
        assert_true(more && got[3] == 3);
    }
    shoal_loop_free(&loop);
    shoal_tensor_free(&out);
    shoal_function_free(&f);
    shoal_session_close(&s);
}

static atomic_int lent;

static void give_back(void *context) {
    free(context);
    lent--;
}

/* A vector of this process's memory, without a copy. */
static shoal_tensor *lend(shoal_session *s, float of) {
    enum { COUNT = 1 << 10 };
    float *data = malloc(COUNT * sizeof *data);
    shoal_tensor *x;
    assert_non_null(data);
    for (int i = 0; i < COUNT; i++) data[i] = of;
    lent++;
    ok(shoal_tensor_borrow(s, SHOAL_F32, 1, (int64_t[]){COUNT}, data, give_back, data, &x));
    return x;
}

static void read_as(shoal_tensor *x, float want) {
    float out[1 << 10];
    ok(shoal_read(x, out, sizeof out));
    for (int i = 0; i < 1 << 10; i++) assert_true(out[i] == want);
}

static void await_lent(int n) {
    for (int i = 0; i < 60000 && lent != n; i++) rest(1);
    assert_int_equal(lent, n);
}

/* What is uploaded and let go of is given back, whether or not a program comes; all but what
 * somebody holds, or what is recorded reads. */
static void test_uploads_let_go_of(void **state) {
    (void)state;
    shoal_session *s = open_session();
    for (int round = 0; round < 2; round++) {
        shoal_tensor *many[64], *held = NULL, *sum = NULL;
        for (int i = 0; i < 64; i++) many[i] = lend(s, (float)i);
        ok(shoal_add(many[20], many[30], &sum));
        held = shoal_tensor_retain(many[40]);
        for (int i = 0; i < 64; i++) shoal_tensor_free(&many[i * 37 % 64]);
        if (!round) await_lent(3); /* nothing is sent meanwhile */
        read_as(sum, 50);
        shoal_tensor_free(&sum);
        await_lent(1);
        read_as(held, 40);
        ok(shoal_add(held, held, &sum));
        shoal_tensor_free(&held);
        read_as(sum, 80);
        shoal_tensor_free(&sum);
        await_lent(0);
    }
    /* Of what is recorded, nobody holds the result any more. */
    shoal_tensor *x = lend(s, 1), *y;
    ok(shoal_negate(x, &y));
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    await_lent(0);
    shoal_session_close(&s);
}

typedef struct holder {
    shoal_session *session;
    atomic_bool holds, let_go;
} holder;

static void *hold_locks(void *context) {
    holder *h = context;
    pthread_mutex_lock(&h->session->lock);
    pthread_mutex_lock(&h->session->news);
    h->holds = true;
    while (!h->let_go) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_mutex_unlock(&h->session->news);
    pthread_mutex_unlock(&h->session->lock);
    return NULL;
}

/* A process that was forked has the session's memory, and none of its threads, one of which has its
 * locks: it is told so, and the other one goes on. */
static void test_forked(void **state) {
    (void)state;
    shoal_session *s = open_session();
    shoal_tensor *x, *y = doubled(s, &x);
    check_doubled(y);
    holder h = {.session = s};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_locks, &h), 0);
    while (!h.holds) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pid_t pid = fork();
    if (!pid) {
        float out[300];
        shoal_tensor *z = NULL;
        alarm(20); /* else it would wait for ever */
        bool told = shoal_add(x, y, &z) == SHOAL_CLOSED &&
                    shoal_read(y, out, sizeof out) == SHOAL_CLOSED &&
                    strstr(shoal_error_message(), "forked from") && shoal_sync(s) == SHOAL_CLOSED;
        shoal_tensor_free(&y);
        shoal_session_close(&s);
#ifndef __SANITIZE_THREAD__        /* which takes no new threads in such a process */
        shoal_session *own = NULL; /* of its own, it has what it needs */
        shoal_options options = {.size = sizeof options, .hub = "embedded", .threads = 1};
        told &= shoal_session_open(&options, &own) == SHOAL_OK;
        shoal_session_close(&own);
#endif
        _exit(told ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    h.let_go = true;
    pthread_join(thread, NULL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    check_doubled(y);
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_session_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again_after_an_interruption),
        cmocka_unit_test(test_nobody_waits_with_the_lock),
        cmocka_unit_test(test_a_loop_after_a_wait),
        cmocka_unit_test(test_uploads_let_go_of),
        cmocka_unit_test(test_forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
