/* What members may not say to a worker, each by a message of its own: about loops, early data, and
 * what one program may take. */
#include "base/clock.h"
#include "member_testing.h"

#include <time.h>

enum { ROUNDS = 6, LOOP = INSTANCE + 1, VALUE = 77 };

static void pace_by(uint32_t who, const Shoal__Pace *pace) {
    others_hold();
    worker_pace(w, others_end_of(who), pace);
    others_release();
}

/* Programs at a time. */
enum { CROWD = 10000 };

static void owe(uint64_t instance) { ok(say(BY_OWES, instance, SIDE * SIDE * sizeof(float))); }

/* ---- loops ---- */

/* Behind the program that makes its first input. */
static void run_loop(void) {
    others_hold();
    others_run(INSTANCE, 1, 0, VALUE);
    others_release();
    owe(INSTANCE);
    others_hold();
    others_loop(LOOP, 2, VALUE, VALUE + 1, ROUNDS);
    others_release();
}

static bool begun(void) { return w->loops.count && w->loops.data[0]->through >= 2; }
static bool is_over(void) { return done == LOOP && !w->loops.count; }

static void others_make_no_rounds(void **state) {
    (void)state;
    const uint64_t box = SIDE * SIDE * sizeof(float);
    run_loop();
    /* From who sends nothing there: of a round to come, and far ahead. */
    ok(say(BY_OTHER, LOOP + 1, box));
    ok(say(BY_OTHER, LOOP + ROUNDS - 1, box));
    assert_int_equal(strange(BY_OTHER), 2);
    owe(LOOP);
    owe(LOOP + 1);
    Shoal__Pace pace = SHOAL__PACE__INIT;
    pace.loop = LOOP;
    for (pace.through = 0; pace.through < 3; pace.through++) pace_by(BY_OWES, &pace);
    assert_true(soon(begun));
    /* Of a round that is over, from both; and further ahead than anybody may be. */
    uint32_t live = w->loops.data[0]->n_live;
    ok(say(BY_OTHER, LOOP, box));
    owe(LOOP);
    owe(LOOP + 2 + AHEAD + 1);
    assert_int_equal(strange(BY_OTHER), 3);
    assert_int_equal(strange(BY_OWES), 2);
    assert_int_equal(w->loops.data[0]->n_live, live);
    /* The loop comes to its end all the same. */
    for (uint64_t round = 2; round < ROUNDS; round++) {
        owe(LOOP + round);
        pace.through = round + 1;
        pace_by(BY_OWES, &pace);
        nanosleep(&(struct timespec){.tv_nsec = 20 * BASE_MS}, NULL);
    }
    assert_true(soon(is_over));
}

static bool is_done(void) { return done == INSTANCE; }
static uint64_t pace_of_owes(void) { return w->loops.data[0]->paced.data[0].through; }

static void pace_is_the_receivers_word(void **state) {
    (void)state;
    Shoal__Pace pace = SHOAL__PACE__INIT;
    run_loop();
    pace.loop = LOOP;
    pace.through = ROUNDS;
    pace_by(BY_OTHER, &pace);
    assert_int_equal(strange(BY_OTHER), 1);
    assert_int_equal(pace_of_owes(), 0);
    static const uint64_t told[] = {2, 1, ROUNDS + 1, UINT64_MAX, 0};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        pace.through = told[i];
        pace_by(BY_OWES, &pace);
        assert_int_equal(pace_of_owes(), 2);
    }
    pace.loop = LOOP + ROUNDS; /* there is no such loop, or not any more: a word that comes late */
    pace_by(BY_OWES, &pace);
    assert_int_equal(strange(BY_OWES), 0);
}

/* ---- what clients owe ---- */

static bool told(void) { return waits; }

static void begin_waiting(bool client, int silence_ms) {
    w->silence = silence_ms * BASE_MS;
    peer(OWES)->client = client;
    others_hold();
    others_run(INSTANCE, 1, 0, VALUE);
    others_release();
}

/* Who waits for long says so, but not while a client's bytes come. */
static void waiting_is_told(bool client) {
    begin_waiting(client, 30);
    assert_true(soon(told));
    assert_int_equal(waits, INSTANCE);
    owe(INSTANCE);
    assert_true(soon(is_done));
}

static void a_client_owes(void **state) {
    (void)state;
    waiting_is_told(true);
}

static void a_worker_owes(void **state) {
    (void)state;
    waiting_is_told(false);
}

static void a_client_that_brings_something(void **state) {
    (void)state;
    begin_waiting(true, 1000); /* in which this thread gets the processor */
    for (int i = 0; i < 250; i++) {
        others_hold();
        atomic_fetch_add(&others_end_of(BY_OWES)->bytes_in, 20000);
        others_release();
        nanosleep(&(struct timespec){.tv_nsec = 10 * BASE_MS}, NULL);
    }
    assert_int_equal(waits, 0);
    owe(INSTANCE);
    assert_true(soon(is_done));
}

/* A client may leave a loop's results where they are as long as nobody else waits. */
static void a_loop_nobody_reads(void **state) {
    (void)state;
    run_loop();
    pthread_mutex_lock(&w->lock);
    w->silence = 30 * BASE_MS;
    peer(OWES)->client = true;
    pthread_mutex_unlock(&w->lock);
    for (uint64_t round = 0; round <= AHEAD; round++) owe(LOOP + round);
    for (int i = 0; i < 10; i++) nanosleep(&(struct timespec){.tv_nsec = 100 * BASE_MS}, NULL);
    assert_int_equal(waits, 0);
    others_hold();
    others_run(LOOP + ROUNDS, 3, 0, VALUE + 2);
    pthread_mutex_lock(&w->lock);
    worker_instance *behind = base_map_get(&w->instances, LOOP + ROUNDS);
    behind->session = 7;
    pthread_mutex_unlock(&w->lock);
    others_release();
    assert_true(soon(told));
    assert_int_equal(waits, LOOP);
}

/* ---- what nobody takes ---- */

static bool sends_done(void) { return done == INSTANCE + 1; }
static bool is_leaving(void) { return w->n_leaving; }

/* A value that can be sent; from then on nothing that is leaves. */
static void make_value(void) {
    others_hold();
    others_run(INSTANCE, 1, 0, VALUE);
    others_release();
    owe(INSTANCE);
    assert_true(soon(is_done));
    others_keep(true);
}

/* A program whose only box goes to a client that takes nothing; its tasks are through. */
static void send_in_vain(void) {
    make_value();
    pthread_mutex_lock(&w->lock);
    peer(OWES)->client = true;
    pthread_mutex_unlock(&w->lock);
    others_hold();
    others_run(INSTANCE + 1, 2, VALUE, VALUE + 1);
    others_release();
    owe(INSTANCE + 1);
    assert_true(soon(is_leaving));
}

/* Whatever the receiver says of its own part, the sender's is not through before all has gone. */
static void what_is_sent_holds_up_the_end(void **state) {
    (void)state;
    send_in_vain();
    nanosleep(&(struct timespec){.tv_nsec = 100 * BASE_MS}, NULL);
    assert_int_equal(done, INSTANCE);
    assert_true(wire_has_data(others_end_of(BY_OWES), INSTANCE + 1));
    others_keep(false);
    assert_true(soon(sends_done));
    assert_int_equal(w->n_leaving, 0);
    assert_int_equal(waits, 0);
}

static bool none_leaves(void) { return !w->n_leaving; }
static bool all_leave(void) { return w->n_leaving == CROWD; }

/* Of thousands that wait for the same receiver each ends when its own has gone: once, and all do.
 */
static void a_crowd_leaves(void **state) {
    (void)state;
    make_value();
    for (uint64_t i = 1; i <= CROWD; i++) {
        others_hold();
        others_run(INSTANCE + i, 2, VALUE, VALUE + i);
        others_release();
        owe(INSTANCE + i);
    }
    assert_true(soon(all_leave));
    assert_int_equal(done, INSTANCE);
    others_keep(false);
    assert_true(soon(none_leaves));
    assert_int_equal(base_map_get(&w->instances, INSTANCE + CROWD), NULL);
    assert_int_equal(failure[0], 0);
}

/* It is told, and what the hub gives up then is not kept. */
static void a_client_that_takes_nothing(void **state) {
    (void)state;
    w->silence = 30 * BASE_MS;
    send_in_vain();
    assert_true(soon(told));
    assert_int_equal(waits, INSTANCE + 1);
    assert_int_equal(done, INSTANCE);
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Failed cancel = SHOAL__FAILED__INIT;
    error.status = SHOAL_TIMEOUT;
    cancel.error = &error;
    cancel.instance = INSTANCE + 1;
    others_hold();
    others_tell(SHOAL__KIND__CANCEL, &cancel.base);
    others_release();
    assert_true(soon(sends_done));
    assert_false(wire_has_data(others_end_of(BY_OWES), INSTANCE + 1));
    assert_int_equal(failure[0], 0);
    others_keep(false);
}

/* Who takes a little is served, and the hub told after a while that it is slow. */
static bool told_slow(void) { return slow; }

static void a_client_that_takes_little(void **state) {
    (void)state;
    w->silence = 30 * BASE_MS;
    send_in_vain();
    for (int i = 0; i < 2000 && !slow; i++) {
        others_hold();
        atomic_fetch_add(&others_end_of(BY_OWES)->bytes_out, WORKER_SILENT_BYTES);
        others_release();
        nanosleep(&(struct timespec){.tv_nsec = 5 * BASE_MS}, NULL);
    }
    assert_true(soon(told_slow));
    assert_int_equal(slow, INSTANCE + 1);
    assert_true(wire_has_data(others_end_of(BY_OWES), INSTANCE + 1));
    others_keep(false);
    assert_true(soon(sends_done));
}

/* Nor is a loop's round over before, so that no word of how far it is makes it run ahead. */
static uint64_t made(void) { return w->loops.count ? w->loops.data[0]->laps[0].round : ROUNDS; }

static void pace_alone_brings_nothing_on(void **state) {
    (void)state;
    Shoal__Pace pace = SHOAL__PACE__INIT;
    make_value();
    others_hold();
    others_loop(LOOP, 2, VALUE, VALUE + 1, ROUNDS);
    others_release();
    pace.loop = LOOP;
    pace.through = ROUNDS;
    pace_by(BY_OWES, &pace);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        owe(LOOP + round);
        nanosleep(&(struct timespec){.tv_nsec = 20 * BASE_MS}, NULL);
    }
    pthread_mutex_lock(&w->lock);
    assert_in_range(made(), 1, AHEAD + 1);
    assert_int_equal(w->loops.data[0]->through, 0);
    pthread_mutex_unlock(&w->lock);
    others_keep(false);
    for (uint64_t round = AHEAD; round < ROUNDS; round++) {
        nanosleep(&(struct timespec){.tv_nsec = 50 * BASE_MS}, NULL);
        others_hold();
        others_turn();
        others_release();
        owe(LOOP + round);
    }
    assert_true(soon(is_over));
}

/* ---- chunks in any order ---- */

enum { LONG = 3 * WIRE_GRAIN + 100 };

/* The box that the instance waits for becomes one of LONG bytes. */
static worker_receive *lengthen(worker_buffer **buffer) {
    worker_instance *instance = base_map_get(&w->instances, INSTANCE);
    worker_task *task;
    worker_receive *receive = worker_receive_find(instance, 0, 0, &task);
    assert_non_null(receive);
    ok(worker_buffer_for(task->slot, LONG, buffer));
    worker_buffer_release(receive->buffer);
    receive->buffer = worker_buffer_retain(*buffer);
    receive->bytes = LONG;
    receive->element = 1;
    receive->dims[0] = receive->box.size[0] = LONG;
    receive->box.start[0] = 0;
    receive->box.rank = 1;
    return receive;
}

static shoal_status bring(uint64_t bytes, uint64_t offset, size_t n) {
    static unsigned char pattern[2 * LONG];
    for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (unsigned char)(i % 251);
    wire_transfer transfer = {.instance = INSTANCE, .bytes = bytes};
    others_hold();
    shoal_status status = worker_data(w, others_end_of(BY_OWES), &transfer, offset,
                                      pattern + offset % sizeof pattern, n);
    others_release();
    return status;
}

/* By several paths: each chunk once, in its place, whole; whatever does not fit changes nothing. */
static void chunks_come_once(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes, offset;
        size_t n;
    } wrong[] = {{LONG, WIRE_GRAIN, WIRE_GRAIN},
                 {LONG, 0, 2 * WIRE_GRAIN},
                 {LONG, WIRE_GRAIN / 2, WIRE_GRAIN},
                 {LONG, 0, WIRE_GRAIN - 4},
                 {LONG, 3 * WIRE_GRAIN, 101},
                 {LONG, 3 * WIRE_GRAIN, 99},
                 {LONG, 4 * WIRE_GRAIN, WIRE_GRAIN},
                 {LONG, UINT64_MAX - WIRE_GRAIN + 1, WIRE_GRAIN},
                 {LONG + 1, 2 * WIRE_GRAIN, WIRE_GRAIN},
                 {LONG, LONG, 0},
                 {LONG, 0, 0},
                 {LONG, WIRE_GRAIN, 2 * WIRE_GRAIN + 100}};
    worker_buffer *buffer;
    begin_waiting(false, 30);
    worker_receive *receive = lengthen(&buffer);
    ok(bring(LONG, WIRE_GRAIN, WIRE_GRAIN));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(bring(wrong[i].bytes, wrong[i].offset, wrong[i].n), SHOAL_FORMAT);
        assert_int_equal(receive->have, WIRE_GRAIN);
    }
    ok(bring(LONG, 3 * WIRE_GRAIN, 100));
    assert_int_equal(bring(LONG, 3 * WIRE_GRAIN, 100), SHOAL_FORMAT);
    ok(bring(LONG, 2 * WIRE_GRAIN, WIRE_GRAIN));
    assert_int_equal(done, 0);
    ok(bring(LONG, 0, WIRE_GRAIN));
    assert_true(soon(is_done));
    for (size_t i = 0; i < LONG; i++)
        if (buffer->host[i] != i % 251) fail_msg("byte %zu", i);
    worker_buffer_release(buffer);
}

/* ---- early data ---- */

static void early_pieces_count_on_the_user(void **state) {
    (void)state;
    uint64_t instance = 1000;
    for (uint32_t i = 0; i < WORKER_MAX_PIECES / 2; i++) {
        ok(say(BY_OWES, instance++, 1));
        ok(say(BY_OTHER, instance++, 1));
    }
    /* Two users: each has half of what it may have. One: it has all. */
    peer(OTHER)->user = peer(OWES)->user;
    assert_int_equal(say(BY_OTHER, instance++, 1), SHOAL_NO_MEMORY);
    assert_non_null(strstr(shoal_error_message(), "of one user's, in 16385 pieces, came before"));
    assert_int_equal(say(BY_OWES, instance++, 1), SHOAL_NO_MEMORY);
    peer(OTHER)->user++;
    ok(say(BY_OTHER, instance++, 1));
}

static void early_bytes_count_on_the_user(void **state) {
    (void)state;
    const size_t third = WORKER_MAX_STAGED / 3;
    w->staged_bytes = peer(OWES)->staged_bytes = third - 8;
    ok(say(BY_OWES, 1000, 8));
    peer(OTHER)->user = peer(OWES)->user; /* the same user by another name */
    assert_int_equal(say(BY_OTHER, 1001, 8), SHOAL_NO_MEMORY);
    assert_non_null(strstr(shoal_error_message(), "512 MiB of one user's"));
    peer(OTHER)->user++;
    ok(say(BY_OTHER, 1001, 8));
    w->staged_bytes -= third - 8;
    peer(OWES)->staged_bytes -= third - 8;
}

/* ---- what one graph and one loop may take ---- */

static bool failed(void) { return failure[0]; }

/* The hub's word that a slot runs this; whether the worker refuses it with the text, and goes on.
 */
static void run_fails(uint64_t instance, const base_str *bytes, uint32_t ahead, const char *text) {
    uint64_t output = VALUE + instance;
    Shoal__Run run = SHOAL__RUN__INIT;
    Shoal__SlotRun part = SHOAL__SLOT_RUN__INIT, *parts[] = {&part};
    part.slot = OWN_SLOT;
    part.program = 100 + instance;
    part.graph = (ProtobufCBinaryData){bytes->size, (uint8_t *)bytes->data};
    part.outputs = &output;
    part.n_outputs = 1;
    run.instance = instance;
    run.pool = POOL;
    run.slots = parts;
    run.n_slots = 1;
    run.rounds = ahead ? ROUNDS : 0;
    run.ahead = ahead;
    failure[0] = 0;
    others_hold();
    others_tell(SHOAL__KIND__RUN, &run.base);
    others_release();
    assert_true(soon(failed));
    if (!strstr(failure, text)) fail_msg("'%s' lacks '%s'", failure, text);
    assert_true(others_joined());
}

static void graphs_are_limited(void **state) {
    (void)state;
    base_str bytes = {0};
    test_chain(4, (1 << 20) - 1, &bytes);
    run_fails(INSTANCE + 10, &bytes, 0, "over the limit of ");
    base_str_fini(&bytes);
    others_hold();
    others_run(INSTANCE, 1, 0, VALUE);
    others_release();
    owe(INSTANCE);
    assert_true(soon(is_done));
}

static void loops_are_never_far_apart(void **state) {
    (void)state;
    base_str bytes = {0};
    test_chain(4, 1, &bytes);
    run_fails(INSTANCE + 10, &bytes, 1025, "a loop of 6 rounds, 1025 ahead");
    run_fails(INSTANCE + 30, &bytes, UINT32_MAX, "a loop of 6 rounds, 4294967295 ahead");
    assert_int_equal(w->loops.count, 0);
    base_str_fini(&bytes);
}

/* A reader of a loop that takes nothing gets so many rounds, and so many bytes, ahead. */
static void streams_are_limited(void **state) {
    (void)state;
    enum { ROUNDS_AHEAD = 4096, BYTES_AHEAD = 64 << 20 };
    static const struct {
        size_t bytes;
        uint64_t most;
    } cases[] = {{4, ROUNDS_AHEAD},
                 {32768, BYTES_AHEAD / (32768 + 8)},
                 {1 << 20, 63},
                 {BYTES_AHEAD, 1},
                 {(size_t)BYTES_AHEAD * 4, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        worker_buffer buffer = {.bytes = cases[i].bytes}, *buffers[] = {&buffer};
        worker_stream stream = {.n = 1, .taken = 10, .next = 10};
        stream.queue.data = buffers;
        while (worker_stream_has_room(&stream)) {
            stream.queue.count = 1;
            assert_in_range(++stream.next - stream.taken, 1, cases[i].most);
        }
        assert_int_equal(stream.next - stream.taken, cases[i].most);
        stream.taken++; /* one is taken: there is room again */
        if (stream.next == stream.taken) stream.queue.count = 0;
        assert_true(worker_stream_has_room(&stream));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_make_no_rounds, begin, end),
        cmocka_unit_test_setup_teardown(a_client_owes, begin, end),
        cmocka_unit_test_setup_teardown(a_worker_owes, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_brings_something, begin, end),
        cmocka_unit_test_setup_teardown(a_loop_nobody_reads, begin, end),
        cmocka_unit_test_setup_teardown(pace_is_the_receivers_word, begin, end),
        cmocka_unit_test_setup_teardown(what_is_sent_holds_up_the_end, begin, end),
        cmocka_unit_test_setup_teardown(a_crowd_leaves, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_takes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_takes_little, begin, end),
        cmocka_unit_test_setup_teardown(pace_alone_brings_nothing_on, begin, end),
        cmocka_unit_test_setup_teardown(chunks_come_once, begin, end),
        cmocka_unit_test_setup_teardown(early_pieces_count_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(early_bytes_count_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(graphs_are_limited, begin, end),
        cmocka_unit_test_setup_teardown(loops_are_never_far_apart, begin, end),
        cmocka_unit_test(streams_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
