/* A session outlives its hub: it says what was lost, joins the next one, and can be closed in
 * between. Hub, worker and session are threads of this process, at a socket of their own. */
#include "shoal/shoal.h"

#include "base/clock.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

enum { READERS = 3 };

typedef struct site {
    char address[64];
    volatile int stop_hub, stop_worker;
    atomic_bool ready;
    pthread_t hub, worker;
} site;

static void hub_ready(void *context, const char *addresses) {
    site *s = context;
    atomic_store(&s->ready, true);
}

static void *run_hub(void *context) {
    site *s = context;
    const shoal_hub_options options = {.size = sizeof options,
                                       .address = s->address,
                                       .ready = hub_ready,
                                       .context = s,
                                       .stop = &s->stop_hub};
    return shoal_hub_run(&options) == SHOAL_OK ? NULL : s;
}

static void *run_worker(void *context) {
    site *s = context;
    const shoal_worker_options options = {.size = sizeof options,
                                          .hub = s->address,
                                          .threads = 1,
                                          .memory = 1 << 26,
                                          .stop = &s->stop_worker,
                                          .rejoin = true};
    return shoal_worker_run(&options) == SHOAL_OK ? NULL : s;
}

static void rest(int ms) {
    const struct timespec moment = {.tv_nsec = ms * BASE_MS};
    nanosleep(&moment, NULL);
}

static void start_hub(site *s) {
    s->stop_hub = 0;
    atomic_store(&s->ready, false);
    assert_int_equal(pthread_create(&s->hub, NULL, run_hub, s), 0);
    for (int i = 0; i < 60000 && !atomic_load(&s->ready); i++) rest(1);
    assert_true(atomic_load(&s->ready));
}

static void end(pthread_t thread, volatile int *stop) {
    void *failed;
    __atomic_store_n(stop, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

static void start_site(site *s) {
    memset(s, 0, sizeof *s);
    snprintf(s->address, sizeof s->address, "shm:rejoin-test-%ld", (long)getpid());
    start_hub(s);
    assert_int_equal(pthread_create(&s->worker, NULL, run_worker, s), 0);
}

static shoal_session *open_session(site *s) {
    const shoal_options options = {.size = sizeof options, .hub = s->address, .timeout_ms = 30000};
    shoal_session *session;
    assert_int_equal(shoal_session_open(&options, &session), SHOAL_OK);
    return session;
}

/* 1 + 2 in the pool. */
static shoal_status add(shoal_session *session, shoal_tensor *x) {
    const float two = 2;
    float sum = 0;
    shoal_tensor *y = NULL, *z = NULL;
    shoal_status status = shoal_tensor_new(session, SHOAL_F32, 0, NULL, &two, &y);
    if (status == SHOAL_OK) status = shoal_add(x, y, &z);
    if (status == SHOAL_OK) status = shoal_read(z, &sum, sizeof sum);
    if (status == SHOAL_OK) assert_true(sum == 3);
    shoal_tensor_free(&y);
    shoal_tensor_free(&z);
    return status;
}

static shoal_status add_new(shoal_session *session) {
    const float one = 1;
    shoal_tensor *x = NULL;
    shoal_status status = shoal_tensor_new(session, SHOAL_F32, 0, NULL, &one, &x);
    if (status == SHOAL_OK) status = add(session, x);
    shoal_tensor_free(&x);
    return status;
}

static void until_it_works(shoal_session *session) {
    int64_t deadline = base_now() + 60 * BASE_SECOND;
    while (add_new(session) != SHOAL_OK) {
        if (base_now() > deadline) fail_msg("it never works again: %s", shoal_error_message());
        rest(10);
    }
}

static void *read_on(void *context) {
    shoal_session *session = context;
    while (add_new(session) != SHOAL_LOST) {
    }
    return NULL;
}

static void test_next_hub(void **state) {
    static site s;
    const float one = 1;
    start_site(&s);
    shoal_session *session = open_session(&s);
    until_it_works(session);
    for (int round = 0; round < 2; round++) {
        shoal_tensor *x;
        assert_int_equal(shoal_tensor_new(session, SHOAL_F32, 0, NULL, &one, &x), SHOAL_OK);
        assert_int_equal(add(session, x), SHOAL_OK);
        shoal_reading *before, *after;
        float two = 0, four = 0;
        assert_int_equal(shoal_read_begin(x, &two, sizeof two, &before), SHOAL_OK);
        pthread_t readers[READERS];
        for (int i = 0; i < READERS; i++)
            assert_int_equal(pthread_create(&readers[i], NULL, read_on, session), 0);
        rest(20);
        end(s.hub, &s.stop_hub);
        for (int i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
        int64_t deadline = base_now() + 60 * BASE_SECOND;
        do { /* until the session has tried once */
            assert_int_equal(add(session, x), SHOAL_LOST);
            assert_non_null(strstr(shoal_error_message(), "the hub is gone"));
        } while (!strstr(shoal_error_message(), "joining it again: ") && base_now() < deadline);
        assert_non_null(strstr(shoal_error_message(), "joining it again: "));
        start_hub(&s);
        until_it_works(session);
        assert_int_equal(add(session, x), SHOAL_LOST);
        assert_non_null(strstr(shoal_error_message(), "(float32[]) was lost with its session at"));
        assert_non_null(strstr(shoal_error_message(), "the hub is gone"));
        shoal_tensor_free(&x);
        /* The next hub gives values the same numbers: a read of the last one is none of its. */
        assert_int_equal(shoal_tensor_new(session, SHOAL_F32, 0, NULL, &one, &x), SHOAL_OK);
        assert_int_equal(shoal_read_begin(x, &four, sizeof four, &after), SHOAL_OK);
        shoal_status status = shoal_read_end(&before);
        assert_true(status == SHOAL_LOST || (status == SHOAL_OK && two == one));
        assert_int_equal(shoal_read_end(&after), SHOAL_OK);
        assert_true(four == one);
        shoal_tensor_free(&x);
    }
    shoal_session_close(&session);
    end(s.worker, &s.stop_worker);
    end(s.hub, &s.stop_hub);
}

static void test_closing_in_between(void **state) {
    static site s;
    start_site(&s);
    shoal_session *session = open_session(&s);
    until_it_works(session);
    end(s.hub, &s.stop_hub);
    while (add_new(session) != SHOAL_LOST) {
    }
    int64_t begin = base_now();
    shoal_session_close(&session);
    assert_true(base_now() - begin < 10 * BASE_SECOND);
    end(s.worker, &s.stop_worker);
}

static shoal_status turn_away(void *context, wire_link *link, const Shoal__Hello *hello,
                              Shoal__Welcome *welcome, bool accepting) {
    ++*(atomic_int *)context;
    return base_fail(SHOAL_DENIED, "nobody is let in");
}

/* At the hub's place is one that lets nobody in: calls say so, and go on asking. */
static void test_turned_away(void **state) {
    static site s;
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    wire_peer *other;
    atomic_int away = 0;
    wire_handlers handlers = {.context = &away, .opened = turn_away};
    start_site(&s);
    shoal_session *session = open_session(&s);
    until_it_works(session);
    end(s.worker, &s.stop_worker);
    end(s.hub, &s.stop_hub);
    hello.name = (char *)"other";
    assert_int_equal(wire_peer_new(&hello, &other), SHOAL_OK);
    wire_handle(other, WIRE_HUB, &handlers);
    assert_int_equal(wire_listen(other, s.address), SHOAL_OK);
    assert_int_equal(wire_start(other), SHOAL_OK);
    alarm(60); /* else it would wait for ever */
    while (away < 3) assert_int_not_equal(add_new(session), SHOAL_OK);
    assert_non_null(strstr(shoal_error_message(), "nobody is let in"));
    alarm(0);
    shoal_session_close(&session);
    wire_peer_destroy(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_next_hub),
                                       cmocka_unit_test(test_closing_in_between),
                                       cmocka_unit_test(test_turned_away)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
