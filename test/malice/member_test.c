/* What members may not say to a worker, each by a message of its own: about loops, early data and
 * files. The worker is a whole one; its hub and the members are those of the fuzz targets. */
#include "../fuzz/others.h"
#include "backend/registry.h"
#include "base/clock.h"
#include "graph/testing.h"
#include "wire/transport.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 6, LOOP = INSTANCE + 1, VALUE = 77 };

uint64_t fuzz_accepted; /* of others.c */

static worker *w;
static _Atomic uint64_t done;  /* the instance of which the hub was told last that it is through */
static _Atomic uint64_t waits; /* the one that was said last to wait */

static void on_asked(Shoal__Kind kind, const void *body, size_t n) {
    if (kind == SHOAL__KIND__WAITS) {
        Shoal__Waits *message = shoal__waits__unpack(NULL, n, body);
        assert_int_equal(message->peer, OWES);
        waits = message->instance;
        shoal__waits__free_unpacked(message, NULL);
    }
    if (kind != SHOAL__KIND__DONE) return;
    Shoal__Done *message = shoal__done__unpack(NULL, n, body);
    done = message->instance;
    shoal__done__free_unpacked(message, NULL);
}

static int begin(void **state) {
    (void)state;
    worker_device device = {.threads = 1};
    worker_options options = {.name = "w",
                              .role = SHOAL__ROLE__WORKER,
                              .models = "/nonexistent",
                              .devices = &device,
                              .n_devices = 1};
    setenv("SHOAL_LOG", "error", 1);
    ok(backend_find("null", &device.backend));
    ok(worker_new(&options, &w));
    done = waits = 0;
    others_begin(w, on_asked);
    others_link();
    return 0;
}

static int end(void **state) {
    (void)state;
    others_end();
    worker_destroy(&w);
    return 0;
}

/* Whether something holds soon. */
static bool soon(bool (*holds)(void)) {
    for (int64_t until = base_now() + 10 * BASE_SECOND; base_now() < until;) {
        others_hold();
        others_turn();
        others_release();
        pthread_mutex_lock(&w->lock);
        bool held = holds();
        pthread_mutex_unlock(&w->lock);
        if (held) return true;
        nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
    }
    return false;
}

static shoal_status say(uint32_t who, uint64_t instance, uint64_t bytes) {
    static const float zeros[SIDE * SIDE];
    wire_transfer transfer = {.instance = instance, .bytes = bytes};
    size_t n = bytes < sizeof zeros ? (size_t)bytes : sizeof zeros;
    others_hold();
    shoal_status status = worker_data(w, others_end_of(who), &transfer, 0, zeros, n);
    others_release();
    return status;
}

static void pace_by(uint32_t who, const Shoal__Pace *pace) {
    others_hold();
    worker_pace(w, others_end_of(who), pace);
    others_release();
}

static void owe(uint64_t instance) { ok(say(BY_OWES, instance, SIDE * SIDE * sizeof(float))); }

static uint64_t strange(uint32_t who) { return others_end_of(who)->strange; }

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

static worker_peer *peer(uint32_t number) { return base_map_get(&w->peers, (uint64_t)number + 1); }

static bool told(void) { return waits; }

static void begin_waiting(bool client) {
    w->silence = 30 * BASE_MS;
    peer(OWES)->client = client;
    others_hold();
    others_run(INSTANCE, 1, 0, VALUE);
    others_release();
}

/* Who waits for long says so, but not while a client's bytes come. */
static void waiting_is_told(bool client) {
    begin_waiting(client);
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
    begin_waiting(true);
    for (int i = 0; i < 100; i++) {
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

/* ---- files ---- */

static void tell(uint32_t who, Shoal__Kind kind, const ProtobufCMessage *message) {
    uint8_t *packed = malloc(protobuf_c_message_get_packed_size(message) + 1);
    assert_non_null(packed);
    ok(worker_file_message(w, others_end_of(who), kind, packed,
                           protobuf_c_message_pack(message, packed)));
    free(packed);
}

static uint8_t digest[SHOAL_DIGEST];
enum { FILE_BYTES = 100 };

static void tell_part(uint32_t who, uint64_t offset, size_t n, shoal_status status) {
    static uint8_t data[2 * FILE_BYTES];
    Shoal__FilePart part = SHOAL__FILE_PART__INIT;
    part.digest = (ProtobufCBinaryData){sizeof digest, digest};
    part.offset = offset;
    part.status = (uint32_t)status;
    part.data = (ProtobufCBinaryData){n, data};
    tell(who, SHOAL__KIND__FILE_PART, &part.base);
}

static void parts_are_what_was_asked_for(void **state) {
    (void)state;
    memset(digest, 0, sizeof digest);
    tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK); /* nothing was */
    assert_int_equal(strange(BY_OWES), 1);
    static const struct {
        uint64_t offset;
        size_t n;
    } wrong[] = {{0, FILE_BYTES + 1}, {0, FILE_BYTES - 1}, {1, FILE_BYTES},
                 {UINT64_MAX, 1},     {FILE_BYTES, 0},     {0, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        others_fetch(FILE_BYTES);
        tell_part(BY_OTHER, 0, FILE_BYTES, SHOAL_OK);
        digest[3] = 1; /* another file */
        tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK);
        digest[3] = 0;
        assert_int_equal(strange(BY_OTHER), i + 1);
        assert_int_equal(strange(BY_OWES), i + 2);
        assert_int_equal(w->fetch.answer, SHOAL_OK);
        tell_part(BY_OWES, wrong[i].offset, wrong[i].n, SHOAL_OK);
        assert_int_equal(w->fetch.answer, SHOAL_FORMAT);
        assert_int_equal(w->fetch.come, 0);
        assert_null(w->fetch.parts);
    }
    others_fetch(FILE_BYTES);
    tell_part(BY_OWES, 0, 0, (shoal_status)4711);
    assert_int_equal(w->fetch.answer, SHOAL_NOT_FOUND);
    others_fetch(FILE_BYTES);
    tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK);
    assert_int_equal(w->fetch.come, FILE_BYTES);
    tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK); /* once more */
    assert_int_equal(w->fetch.come, FILE_BYTES);
}

static worker_file *asked(uint64_t bytes) {
    pthread_mutex_lock(&w->lock);
    worker_file *file = worker_file_asked(w, digest, bytes);
    pthread_mutex_unlock(&w->lock);
    return file;
}

static worker_file *waited_for;
static bool is_absent(void) { return waited_for->state == FILE_ABSENT; }

/* Somebody's wrong word for how large a file is stands in nobody's way. */
static void sizes_bind_nobody(void **state) {
    (void)state;
    const char text[FILE_BYTES] = "a file";
    char path[] = "/tmp/shoal-XXXXXX";
    model_map *map;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, sizeof text), sizeof text);
    close(fd);
    ok(model_map_open(path, &map));
    ok(model_map_digest(map, NULL, NULL, digest));
    for (uint64_t bytes = 1; bytes < 50; bytes += 7) {
        waited_for = asked(bytes);
        assert_true(soon(is_absent));
    }
    ok(worker_offer_file(w, digest, map));
    assert_int_equal(asked(FILE_BYTES)->state, FILE_HERE);
    assert_int_equal(asked(1)->state, FILE_ABSENT);
    /* Questions that make no sense are counted; there is no file of that digest and no part there.
     */
    Shoal__FileAsk ask = SHOAL__FILE_ASK__INIT;
    ask.digest = (ProtobufCBinaryData){sizeof digest, digest};
    ask.bytes = ask.offset = FILE_BYTES;
    tell(BY_OTHER, SHOAL__KIND__FILE_ASK, &ask.base);
    ask.digest.len--;
    ask.offset = 0;
    tell(BY_OTHER, SHOAL__KIND__FILE_ASK, &ask.base);
    assert_int_equal(strange(BY_OTHER), 2);
    model_map_release(map);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_make_no_rounds, begin, end),
        cmocka_unit_test_setup_teardown(a_client_owes, begin, end),
        cmocka_unit_test_setup_teardown(a_worker_owes, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_brings_something, begin, end),
        cmocka_unit_test_setup_teardown(a_loop_nobody_reads, begin, end),
        cmocka_unit_test_setup_teardown(pace_is_the_receivers_word, begin, end),
        cmocka_unit_test_setup_teardown(early_pieces_count_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(early_bytes_count_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(parts_are_what_was_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(sizes_bind_nobody, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
