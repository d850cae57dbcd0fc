/* Peers that work: order, volume, and who runs the pump. */
#include "wire/wire_testing.h"

/* ---- inproc ---- */

typedef struct order {
    side *s;
    uint64_t at;
    bool right;
} order;

static void check_order(void *context) {
    order *o = context;
    o->right = o->s->messages == o->at;
}

static void test_inproc(void **state) {
    side s;
    start(&s, "self", NULL);
    assert_int_equal(wire_connect(s.peer, "inproc", 42, 1000), SHOAL_OK);
    wait_count(&s, &s.opened, 2);
    assert_string_equal(wire_address(s.peer), "");
    assert_non_null(strstr(wire_link_name(s.link), "inproc (self, pid "));
    static order orders[100];
    for (uint64_t i = 0; i < 100; i++) {
        orders[i] = (order){.s = &s, .at = i};
        assert_int_equal(wire_post(s.peer, check_order, &orders[i]), SHOAL_OK);
        send_number(&s, i % 2 ? SHOAL__KIND__STATUS : SHOAL__KIND__STATUS_ASK, i);
    }
    assert_int_equal(send_pattern(s.link, 3, (5 << 20) + 3), SHOAL_OK);
    assert_int_equal(send_pattern(s.link, 4, 0), SHOAL_OK);
    wait_number(&s, &s.finished, 2);
    for (int i = 0; i < 100; i++) assert_true(orders[i].right);
    assert_int_equal(s.messages, 100);
    assert_int_equal(s.bytes, (5 << 20) + 3);
    assert_int_equal(wire_link_count(s.link).messages_out, 100);
    /* closing comes after what was sent before, to both ends */
    send_number(&s, SHOAL__KIND__STATUS, 100);
    assert_int_equal(send_pattern(s.link, 5, 3 << 20), SHOAL_OK);
    wire_close(s.link, SHOAL_TIMEOUT, "enough");
    wait_count(&s, &s.closed, 2);
    assert_int_equal(s.finished, 3);
    assert_int_equal(s.messages, 101);
    assert_int_equal(s.why, SHOAL_TIMEOUT);
    assert_string_equal(s.text, "enough");
    assert_int_equal(s.wrong, 0);
    wire_peer_destroy(&s.peer);
    assert_null(s.peer);
}

/* ---- shm: volume and order ---- */

static void test_two_peers(void **state) {
    side a, b;
    start(&a, "a", "shm:two");
    start(&b, "b", NULL);
    a.echo = true;
    assert_string_equal(wire_address(a.peer), "shm:two");
    connect_to(&b, "shm:two");
    assert_non_null(strstr(wire_link_name(b.link), "shm:two (a, pid "));
    for (uint64_t i = 0; i < 1000; i++) send_number(&b, SHOAL__KIND__STATUS_ASK, i);
    wait_number(&b, &b.messages, 1000);
    static const uint64_t sizes[] = {0, 1, 7, 8, 65536, 65537, 1 << 20, (1 << 20) + 1, 20 << 20};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(send_pattern(b.link, i, sizes[i]), SHOAL_OK);
        sum += sizes[i];
    }
    wait_number(&a, &a.finished, 9);
    assert_int_equal(a.bytes, sum);
    wire_close(b.link, SHOAL_OK, "bye");
    wait_count(&a, &a.closed, 1);
    wait_count(&b, &b.closed, 1);
    assert_int_equal(a.why, SHOAL_CLOSED);
    assert_string_equal(a.text, "bye");
    assert_int_equal(a.wrong + b.wrong, 0);
    wire_peer_destroy(&a.peer);
    wire_peer_destroy(&b.peer);
}

static void test_million(void **state) {
    child c = start_child("shm:many");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:many");
    for (uint64_t i = 0; i < MANY; i++) send_number(&s, SHOAL__KIND__STATUS_ASK, i);
    wait_number(&s, &s.messages, MANY);
    assert_int_equal(s.next, MANY);
    assert_int_equal(s.wrong, 0);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

/* Both directions at once, with messages in between that must not wait for the data. */
static void test_big_data(void **state) {
    child c = start_child("shm:big");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:big");
    Shoal__Release empty = SHOAL__RELEASE__INIT;
    assert_int_equal(send_pattern(s.link, 8, BIG), SHOAL_OK);
    assert_int_equal(wire_send(s.link, SHOAL__KIND__RELEASE, &empty.base), SHOAL_OK);
    int overtaken = 0;
    for (uint64_t i = 0; i < 20; i++) {
        send_number(&s, SHOAL__KIND__STATUS_ASK, i);
        wait_number(&s, &s.messages, i + 1);
        overtaken += s.finished == 0;
    }
    assert_true(overtaken > 0);
    wait_number(&s, &s.finished, 1);
    assert_int_equal(s.bytes, BIG);
    send_number(&s, SHOAL__KIND__STATUS_ASK, 20);
    wait_number(&s, &s.messages, 21);
    assert_int_equal(s.wrong, 0);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

/* A message larger than the ring, and one that is too large for any link. */
static void test_large_message(void **state) {
    side a, b;
    start(&a, "a", "shm:large");
    start(&b, "b", NULL);
    connect_to(&b, "shm:large");
    Shoal__Explained big = SHOAL__EXPLAINED__INIT;
    size_t n = 40 << 20;
    big.token = 0;
    big.json = malloc(n + 1);
    memset(big.json, 'x', n);
    big.json[n] = 0;
    assert_int_equal(wire_send(b.link, SHOAL__KIND__STATUS, &big.base), SHOAL_OK);
    send_number(&b, SHOAL__KIND__STATUS, 1);
    wait_number(&a, &a.messages, 2);
    free(big.json);
    n = 65 << 20;
    big.json = malloc(n + 1);
    memset(big.json, 'x', n);
    big.json[n] = 0;
    assert_int_equal(wire_send(b.link, SHOAL__KIND__STATUS, &big.base), SHOAL_INVALID);
    assert_non_null(strstr(shoal_error_message(), "at most 67108864"));
    free(big.json);
    assert_int_equal(a.wrong, 0);
    wire_peer_destroy(&b.peer);
    wait_count(&a, &a.closed, 1);
    assert_string_equal(a.text, "b has ended");
    assert_true(a.received > 40 << 20);
    wire_peer_destroy(&a.peer);
}

static void test_stopped_reader(void **state) {
    child c = start_child("shm:stopped");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:stopped");
    send_number(&s, SHOAL__KIND__STATUS_ASK, 0);
    wait_number(&s, &s.messages, 1);
    /* More than a ring holds, and soon: who is stopped for a second counts as lost. */
    enum { COUNT = 300, EACH = 64 << 10 };
    Shoal__Explained large = SHOAL__EXPLAINED__INIT;
    large.json = malloc(EACH + 1);
    memset(large.json, 'x', EACH);
    large.json[EACH] = 0;
    kill(c.pid, SIGSTOP);
    for (large.token = 1; large.token < COUNT; large.token++)
        assert_int_equal(wire_send(s.link, SHOAL__KIND__STATUS_ASK, &large.base), SHOAL_OK);
    assert_int_equal(send_pattern(s.link, 1, 32 << 20), SHOAL_OK);
    until u = {.number = &s.messages, .least = COUNT};
    assert_int_equal(wire_wait(s.peer, reached, &u, base_now() + 100 * BASE_MS), SHOAL_TIMEOUT);
    kill(c.pid, SIGCONT);
    wait_number(&s, &s.messages, COUNT);
    assert_int_equal(s.wrong, 0);
    free(large.json);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

/* ---- who runs the pump ---- */

static bool never(void *context) { return false; }

static void test_wait_timeout(void **state) {
    side s;
    start(&s, "lone", NULL);
    int64_t then = base_now();
    assert_int_equal(wire_wait(s.peer, never, NULL, then + 50 * BASE_MS), SHOAL_TIMEOUT);
    int64_t took = base_now() - then;
    assert_true(took >= 50 * BASE_MS && took < 2 * BASE_SECOND);
    assert_non_null(strstr(shoal_error_message(), "deadline"));
    assert_int_equal(wire_wait(s.peer, never, NULL, then), SHOAL_TIMEOUT);
    wire_peer_destroy(&s.peer);
}

enum { THREADS = 4, ROUNDS = 2000 };

typedef struct asker {
    side *s;
    uint64_t number;
    atomic_int *failures;
} asker;

static _Atomic uint64_t answered[THREADS];

static shoal_status on_answer(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                              size_t bytes) {
    Shoal__StatusAsk *ask = shoal__status_ask__unpack(NULL, bytes, body);
    if (!ask) return base_fail(SHOAL_FORMAT, "a broken message");
    uint64_t token = ask->token;
    shoal__status_ask__free_unpacked(ask, NULL);
    if (kind != SHOAL__KIND__STATUS_ASK) {
        answered[token % THREADS]++;
        return SHOAL_OK;
    }
    Shoal__StatusAsk back = SHOAL__STATUS_ASK__INIT;
    back.token = token;
    return wire_send(link, SHOAL__KIND__STATUS, &back.base);
}

static void nothing(void *context) { ++*(int *)context; }

static void *ask(void *context) {
    asker *a = context;
    int calls = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        Shoal__StatusAsk question = SHOAL__STATUS_ASK__INIT;
        question.token = a->number;
        until u = {.number = &answered[a->number], .least = i + 1};
        if (wire_send(a->s->link, SHOAL__KIND__STATUS_ASK, &question.base) != SHOAL_OK ||
            wire_wait(a->s->peer, reached, &u, SOON) != SHOAL_OK)
            ++*a->failures;
        if (i % 16 == 0) wire_call(a->s->peer, nothing, &calls);
    }
    if (calls != ROUNDS / 16) ++*a->failures;
    return NULL;
}

static void count_tick(void *context) { ((side *)context)->next++; }

static void test_several_waiters(void **state) {
    side a, b;
    wire_handlers handlers = {.opened = on_opened, .message = on_answer};
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    for (int i = 0; i < 2; i++) {
        side *s = i ? &b : &a;
        *s = (side){.want_accepting = i == 0};
        handlers.context = s;
        assert_int_equal(wire_peer_new(&hello, &s->peer), SHOAL_OK);
        wire_handle(s->peer, WIRE_WORKER, &handlers);
        wire_handle(s->peer, WIRE_HUB, &(wire_handlers){.context = s, .message = on_answer});
        if (!i) assert_int_equal(wire_listen(s->peer, "shm:waiters"), SHOAL_OK);
        assert_int_equal(wire_start(s->peer), SHOAL_OK);
    }
    wire_tick(b.peer, WIRE_WORKER, 1, count_tick);
    connect_to(&b, "shm:waiters");
    pthread_t threads[THREADS];
    asker askers[THREADS];
    atomic_int failures = 0;
    for (uint64_t i = 0; i < THREADS; i++) {
        askers[i] = (asker){.s = &b, .number = i, .failures = &failures};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    wait_number(&b, &b.next, 5);
    /* a call makes true what somebody waits for */
    pthread_t caller;
    uint64_t before = answered[0]; /* first: a caller may end before this thread goes on */
    assert_int_equal(pthread_create(&caller, NULL, ask, &askers[0]), 0);
    wait_number(&b, &answered[0], before + ROUNDS / 2);
    pthread_join(caller, NULL);
    wire_peer_destroy(&a.peer);
    wire_peer_destroy(&b.peer);
}

enum { BLOCK = 64 << 20 };

static void read_block(void *context, uint64_t offset, void *to, size_t n) {
    memcpy(to, (const char *)context + offset, n);
}

static shoal_status send_block(wire_link *link, void *block) {
    wire_transfer transfer = {.instance = 5, .channel = 1, .bytes = BLOCK};
    return wire_send_data(link, &transfer, &(wire_source){.context = block, .read = read_block});
}

static void test_speed(void **state) {
    enum { TRIPS = 20000 };
    child c = start_child("shm:speed");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:speed");
    int64_t then = base_now();
    for (uint64_t i = 0; i < TRIPS; i++) {
        send_number(&s, SHOAL__KIND__STATUS_ASK, i);
        wait_number(&s, &s.messages, i + 1);
    }
    double trip = (double)(base_now() - then) / TRIPS / 1000;
    wire_peer_destroy(&s.peer);
    end_child(&c);
    side a;
    start(&a, "a", "shm:fast");
    start(&s, "b", NULL);
    connect_to(&s, "shm:fast");
    double best = 0;
    uint8_t *block = malloc(BLOCK), *taken = malloc(BLOCK);
    assert_true(block && taken);
    memset(block, 1, BLOCK);
    memset(taken, 1, BLOCK);
    pthread_mutex_lock(&a.peer->pump); /* which handlers are called under */
    a.take = taken;
    pthread_mutex_unlock(&a.peer->pump);
    for (int i = 0; i < 8; i++) {
        uint64_t before = a.finished;
        then = base_now();
        assert_int_equal(send_block(s.link, block), SHOAL_OK);
        wait_number(&a, &a.finished, before + 1);
        double rate = BLOCK / (double)(base_now() - then);
        if (rate > best) best = rate;
    }
    print_message("round trip %.1f us, one way %.1f GB/s\n", trip, best);
    wire_peer_destroy(&s.peer);
    wire_peer_destroy(&a.peer);
    free(block);
    free(a.take);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inproc),        cmocka_unit_test(test_two_peers),
        cmocka_unit_test(test_million),       cmocka_unit_test(test_big_data),
        cmocka_unit_test(test_large_message), cmocka_unit_test(test_stopped_reader),
        cmocka_unit_test(test_wait_timeout),  cmocka_unit_test(test_several_waiters),
        cmocka_unit_test(test_speed),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
