/* What members may not say to a worker about files, whom they ask for them and how they give them.
 */
#include "base/clock.h"
#include "member_testing.h"
#include "model/file.h"

#include <sodium.h>
#include <time.h>
#include <unistd.h>

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
    worker_file *file = worker_file_asked(w, peer(OTHER), digest, bytes);
    pthread_mutex_unlock(&w->lock);
    return file;
}

static worker_file *waited_for;
static bool is_absent(void) { return waited_for->state == FILE_ABSENT; }

/* A file with these bytes, mapped, and its digest; to be unlinked and released. */
static model_map *some_file(const void *bytes, size_t n, char path[32]) {
    model_map *map;
    snprintf(path, 32, "/tmp/shoal-XXXXXX");
    int fd = mkstemp(path);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    ok(model_map_open(path, &map));
    ok(model_map_digest(map, NULL, NULL, digest));
    return map;
}

static void ask_for(uint32_t who, uint64_t bytes, uint64_t offset) {
    Shoal__FileAsk ask = SHOAL__FILE_ASK__INIT;
    ask.digest = (ProtobufCBinaryData){sizeof digest, digest};
    ask.bytes = bytes;
    ask.offset = offset;
    tell(who, SHOAL__KIND__FILE_ASK, &ask.base);
}

/* Somebody's wrong word for how large a file is stands in nobody's way. */
static void sizes_bind_nobody(void **state) {
    (void)state;
    const char text[FILE_BYTES] = "a file";
    char path[32];
    model_map *map = some_file(text, sizeof text, path);
    for (uint64_t bytes = 1; bytes < 50; bytes += 7) {
        waited_for = asked(bytes);
        assert_true(soon(is_absent));
    }
    ok(worker_offer_file(w, digest, map));
    assert_int_equal(asked(FILE_BYTES)->state, FILE_HERE);
    assert_int_equal(asked(1)->state, FILE_ABSENT);
    /* Questions that make no sense are counted; there is no file of that digest and no part there.
     */
    ask_for(BY_OTHER, FILE_BYTES, FILE_BYTES);
    Shoal__FileAsk ask = SHOAL__FILE_ASK__INIT;
    ask.digest = (ProtobufCBinaryData){sizeof digest - 1, digest};
    ask.bytes = FILE_BYTES;
    tell(BY_OTHER, SHOAL__KIND__FILE_ASK, &ask.base);
    assert_int_equal(strange(BY_OTHER), 2);
    /* Nor are any while as much waits to be read as may. */
    pthread_mutex_lock(&others_end_of(BY_OTHER)->lock);
    others_end_of(BY_OTHER)->queued = (16 << 20) + 1;
    pthread_mutex_unlock(&others_end_of(BY_OTHER)->lock);
    ask_for(BY_OTHER, FILE_BYTES, 0);
    assert_int_equal(strange(BY_OTHER), 3);
    others_end_of(BY_OTHER)->queued = 0;
    ask_for(BY_OTHER, FILE_BYTES, 0);
    assert_int_equal(strange(BY_OTHER), 3);
    model_map_release(map);
    unlink(path);
}

static shoal_status fetch_status;
static atomic_bool fetched;

typedef struct needed {
    worker_task *task;
    const worker_source *source;
} needed;

static needed need;

static void *get_it(void *argument) {
    (void)argument;
    model_map *map;
    fetch_status = worker_file_get(need.task, need.source, &map);
    fetched = true;
    return NULL;
}

static void number_digest(uint32_t number) { memcpy(digest, &number, sizeof number); }

/* All that may be known: what is here stays, others' questions are put off, and who has one file
 * more is told. */
static void known_files_are_limited(void **state) {
    (void)state;
    enum { KNOWN = 65536, MAPPED = 64 };
    char path[32];
    model_map *map = some_file("a file", 6, path), *got;
    for (uint32_t i = 0; i < KNOWN; i++) {
        number_digest(i);
        ok(worker_offer_file(w, digest, map));
    }
    number_digest(KNOWN);
    assert_int_equal(worker_offer_file(w, digest, map), SHOAL_NO_MEMORY);
    assert_non_null(strstr(shoal_error_message(), "no room to note shoal-"));
    assert_non_null(strstr(shoal_error_message(), "65536 files are known"));
    assert_null(asked(7));
    /* Few of them are mapped at a time, whoever holds one of them, and all can be had. */
    for (uint32_t i = 0; i < 3 * MAPPED; i++) {
        number_digest(i * 11);
        pthread_mutex_lock(&w->lock);
        ok(worker_file_map(w, worker_file_find(w, digest, 6), &got));
        assert_in_range(w->n_mapped, 1, MAPPED);
        pthread_mutex_unlock(&w->lock);
        assert_memory_equal(got->data, "a file", 6);
        model_map_release(got);
    }
    assert_int_equal(w->n_mapped, MAPPED);
    model_map_release(map);
    unlink(path);
}

static bool is_given_up(void) { return fetched; }

/* What others have asked for comes to be needed here while it waits to be looked for. */
static void what_is_asked_for_is_needed(void **state) {
    (void)state;
    worker_task task = {.slot = &w->slots[0]};
    graph_source at = {.file_bytes = 5, .name = "needed"};
    worker_source source = {.at = at};
    pthread_t thread;
    w->models[0] = 0; /* there is no folder, and so nobody is asked */
    for (uint32_t i = 0; i < 50; i++) {
        number_digest(i);
        memcpy(source.file, digest, SHOAL_DIGEST);
        pthread_mutex_lock(&w->lock);
        assert_non_null(worker_file_asked(w, peer(OTHER), digest, 5));
        pthread_mutex_unlock(&w->lock);
        need = (needed){&task, &source};
        fetched = false;
        assert_int_equal(pthread_create(&thread, NULL, get_it, NULL), 0);
        assert_true(soon(is_given_up));
        pthread_join(thread, NULL);
        assert_int_equal(fetch_status, SHOAL_NOT_FOUND);
    }
}

/* One user has so many looked for at a time, and others theirs all the same. */
static void what_is_looked_for_counts_on_the_user(void **state) {
    (void)state;
    uint32_t number = 0, mine = 0, others = 0;
    peer(SELF + 100);             /* nobody */
    pthread_mutex_lock(&w->lock); /* so that none is found to be absent meanwhile */
    for (; number < 100; number++) {
        number_digest(number);
        mine += worker_file_asked(w, peer(OTHER), digest, 1) != NULL;
    }
    for (; number < 200; number++) {
        number_digest(number);
        others += worker_file_asked(w, peer(OWES), digest, 1) != NULL;
    }
    pthread_mutex_unlock(&w->lock);
    assert_int_equal(mine, 21);
    assert_int_equal(others, 14);
}

static atomic_uint given[2], put_off[2];

static void hear_parts(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message) {
    int who = link == others_end_of(BY_OTHER);
    assert_int_equal(kind, SHOAL__KIND__FILE_PART);
    const Shoal__FilePart *part = (const Shoal__FilePart *)message;
    given[who] += part->status == SHOAL_OK && part->data.len == WIRE_CHUNK;
    put_off[who] += part->status == SHOAL_BUSY;
}

static uint32_t heard(void) { return given[0] + given[1] + put_off[0] + put_off[1]; }
static uint32_t heard_before;
static bool has_heard(void) { return heard() > heard_before; }

static void ask_and_hear(uint32_t who) {
    heard_before = heard();
    ask_for(who, WIRE_CHUNK, 0);
    assert_true(soon(has_heard));
}

static void set_user(uint32_t number, uint32_t user) {
    pthread_mutex_lock(&w->lock);
    peer(number)->user = user;
    pthread_mutex_unlock(&w->lock);
}

/* Who reads nothing of what it has asked for has a third of what may wait, and others theirs. */
static void answers_count_on_the_user(void **state) {
    (void)state;
    static const uint8_t bytes[WIRE_CHUNK];
    char path[32];
    model_map *map = some_file(bytes, sizeof bytes, path);
    ok(worker_offer_file(w, digest, map));
    memset(given, 0, sizeof given);
    memset(put_off, 0, sizeof put_off);
    others_hear(hear_parts);
    for (int i = 0; i < 70; i++) ask_and_hear(BY_OTHER);
    assert_in_range(given[1], 62, 64);
    assert_int_equal(given[1] + put_off[1], 70);
    for (int i = 0; i < 5; i++) ask_and_hear(BY_OWES);
    assert_int_equal(given[0], 5);
    /* The same user by another name has no more. */
    set_user(OWES, peer(OTHER)->user);
    ask_and_hear(BY_OWES);
    assert_int_equal(put_off[0], 1);
    others_read();
    ask_and_hear(BY_OWES);
    ask_and_hear(BY_OTHER);
    assert_int_equal(given[0], 6);
    assert_int_equal(strange(BY_OTHER) + strange(BY_OWES), 0);
    /* Who asks for more than is answered at a time is not heard, and others are. */
    set_user(OWES, peer(OTHER)->user + 1);
    others_read();
    memset(given, 0, sizeof given);
    memset(put_off, 0, sizeof put_off);
    pthread_mutex_lock(&w->lock);
    peer(OTHER)->asking = 64;
    pthread_mutex_unlock(&w->lock);
    ask_for(BY_OTHER, WIRE_CHUNK, 0);
    assert_int_equal(strange(BY_OTHER), 1);
    ask_and_hear(BY_OWES);
    assert_int_equal(given[0], 1);
    others_hear(NULL);
    model_map_release(map);
    unlink(path);
}

/* ---- a file on its way ---- */

enum { MUCH = 2 * WIRE_CHUNK + 5 };

static char models[32];
static worker_file *wanted;
static atomic_uint asks[2];
static char fetch_error[1024];

static void hear_asks(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message) {
    (void)message;
    if (kind == SHOAL__KIND__FILE_ASK) asks[link == others_end_of(BY_OTHER)]++;
}

static void *fetch_it(void *argument) {
    (void)argument;
    model_map *map = NULL;
    fetch_status = worker_file_fetch(w, wanted, &map);
    snprintf(fetch_error, sizeof fetch_error, "%s",
             fetch_status == SHOAL_OK ? "" : shoal_error_message());
    model_map_release(map);
    fetched = true;
    return NULL;
}

static uint8_t much[MUCH];

/* A silence is as short as this; both members have links. */
static pthread_t begin_fetch(int silence_ms) {
    pthread_t thread;
    static worker_file file;
    for (size_t i = 0; i < MUCH; i++) much[i] = (uint8_t)(i * 7 + i / 1000);
    snprintf(models, sizeof models, "/tmp/shoal-XXXXXX");
    assert_non_null(mkdtemp(models));
    free(w->models);
    w->models = strdup(models);
    file = (worker_file){.bytes = MUCH, .waiting = 1, .name = (char *)"much"};
    crypto_generichash(file.digest, SHOAL_DIGEST, much, MUCH, NULL, 0);
    memcpy(digest, file.digest, SHOAL_DIGEST);
    wanted = &file;
    asks[0] = asks[1] = 0;
    fetched = false;
    w->silence = silence_ms * BASE_MS;
    others_hear(hear_asks);
    assert_int_equal(pthread_create(&thread, NULL, fetch_it, NULL), 0);
    return thread;
}

static void end_fetch(pthread_t thread) {
    char command[64];
    pthread_join(thread, NULL);
    others_hear(NULL);
    snprintf(command, sizeof command, "rm -rf %s", models);
    assert_int_equal(system(command), 0);
}

/* Answers as member `who` whenever it is asked, until the file is there or given up. */
static void play(uint32_t who, shoal_status status, int ms, bool all) {
    uint64_t offset = 0;
    int64_t until = base_now() + ms * BASE_MS;
    while (!fetched && base_now() < until) {
        uint64_t left = MUCH - offset, n = left < WIRE_CHUNK ? left : WIRE_CHUNK;
        nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
        pthread_mutex_lock(&w->lock);
        const worker_fetch *f = &w->fetch;
        bool mine = f->file && f->peer == (who == BY_OWES ? OWES : OTHER) && f->come < f->asked &&
                    f->answer == SHOAL_OK;
        if (mine) offset = f->come;
        pthread_mutex_unlock(&w->lock);
        if (!mine) continue;
        Shoal__FilePart part = SHOAL__FILE_PART__INIT;
        part.digest = (ProtobufCBinaryData){sizeof digest, digest};
        part.offset = offset;
        part.status = (uint32_t)status;
        left = MUCH - offset;
        n = left < WIRE_CHUNK ? left : WIRE_CHUNK;
        if (status == SHOAL_OK) part.data = (ProtobufCBinaryData){n, much + offset};
        tell(who, SHOAL__KIND__FILE_PART, &part.base);
        if (!all) return;
    }
}

static void silence_is_left(void **state) {
    (void)state;
    pthread_t thread = begin_fetch(2000);
    play(BY_OTHER, SHOAL_OK, 10000, true); /* OWES says nothing */
    end_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
    assert_in_range(asks[0], 0, 2);
}

/* As if there were no other member. */
static void only_owes(bool only) {
    pthread_mutex_lock(&w->lock);
    peer(OTHER)->gone = only;
    pthread_mutex_unlock(&w->lock);
}

/* One part comes, and then it is as if others had to be answered first. */
static void slowness_is_left(void **state) {
    (void)state;
    only_owes(true);
    pthread_t thread = begin_fetch(1000);
    play(BY_OWES, SHOAL_OK, 5000, false);
    play(BY_OWES, SHOAL_BUSY, 20000, true);
    end_fetch(thread);
    only_owes(false);
    assert_int_equal(fetch_status, SHOAL_NOT_FOUND);
    assert_non_null(strstr(fetch_error, "member: it brings less than 64 KiB a second"));
}

/* Nobody is waited for without end. */
static void looking_ends(void **state) {
    (void)state;
    only_owes(true);
    int64_t began = base_now();
    pthread_t thread = begin_fetch(300);
    /* When it ends is known by now: a slow machine is not to be taken for a silent member. */
    while (!asks[0] && base_now() - began < 20 * BASE_SECOND)
        nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
    pthread_mutex_lock(&w->lock);
    w->silence = 8 * BASE_SECOND;
    pthread_mutex_unlock(&w->lock);
    play(BY_OWES, SHOAL_BUSY, 30000, true);
    end_fetch(thread);
    only_owes(false);
    assert_int_equal(fetch_status, SHOAL_NOT_FOUND);
    if (!strstr(fetch_error, "member: it is still looking for it"))
        fail_msg("'%s' does not tell that it looks", fetch_error);
    assert_in_range((base_now() - began) / BASE_MS, 3000, 25000);
}

/* Who says for long that it looks for the file is waited for, and asked after who has it. */
static void looking_is_waited_for(void **state) {
    (void)state;
    pthread_t thread = begin_fetch(4000);
    /* For longer than silence is borne, and longer than what is slow is. */
    play(BY_OWES, SHOAL_BUSY, 5000, true);
    assert_false(fetched);
    play(BY_OWES, SHOAL_OK, 10000, true);
    end_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
}

static void who_looks_stands_in_nobodys_way(void **state) {
    (void)state;
    pthread_t thread = begin_fetch(3000);
    int64_t began = base_now();
    while (!fetched && base_now() - began < 20 * BASE_SECOND) {
        play(BY_OWES, SHOAL_BUSY, 3, true);
        play(BY_OTHER, SHOAL_OK, 3, true);
    }
    end_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
    assert_true(base_now() - began < 5 * BASE_SECOND);
}

/* The member that is called leaves meanwhile. */
static void a_member_leaves_while_it_is_called(void **state) {
    (void)state;
    uint32_t left = 12;
    uint8_t key[WIRE_KEY] = {9};
    Shoal__PeerInfo info = SHOAL__PEER_INFO__INIT, *infos[] = {&info};
    Shoal__Peers peers = SHOAL__PEERS__INIT;
    char nowhere[] = "tcp://127.0.0.1:1", *addresses[] = {nowhere};
    info.peer = left;
    info.name = (char *)"fleeting";
    info.addresses = addresses;
    info.n_addresses = 1;
    info.key = (ProtobufCBinaryData){sizeof key, key};
    peers.change = true;
    peers.peers = infos;
    peers.n_peers = 1;
    others_hold();
    others_tell(SHOAL__KIND__PEERS, &peers.base);
    others_release();
    pthread_mutex_lock(&w->lock);
    assert_non_null(peer(left));
    peer(left)->connecting = true; /* it does not answer */
    peer(OWES)->gone = peer(OTHER)->gone = true;
    pthread_mutex_unlock(&w->lock);
    pthread_t thread = begin_fetch(3000);
    nanosleep(&(struct timespec){.tv_nsec = 100 * BASE_MS}, NULL);
    assert_false(fetched);
    pthread_mutex_lock(&w->lock);
    peer(left)->connecting = false;
    pthread_mutex_unlock(&w->lock);
    peers.n_peers = 0;
    peers.left = &left;
    peers.n_left = 1;
    others_hold();
    others_tell(SHOAL__KIND__PEERS, &peers.base);
    others_release();
    assert_null(peer(left));
    worker_changed(w);
    end_fetch(thread);
    pthread_mutex_lock(&w->lock);
    peer(OWES)->gone = peer(OTHER)->gone = false;
    pthread_mutex_unlock(&w->lock);
    assert_int_equal(fetch_status, SHOAL_NOT_FOUND);
    assert_non_null(strstr(fetch_error, "fleeting: it cannot be reached"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_what_was_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(sizes_bind_nobody, begin, end),
        cmocka_unit_test_setup_teardown(known_files_are_limited, begin, end),
        cmocka_unit_test_setup_teardown(what_is_asked_for_is_needed, begin, end),
        cmocka_unit_test_setup_teardown(what_is_looked_for_counts_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(answers_count_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(silence_is_left, begin, end),
        cmocka_unit_test_setup_teardown(looking_ends, begin, end),
        cmocka_unit_test_setup_teardown(slowness_is_left, begin, end),
        cmocka_unit_test_setup_teardown(looking_is_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(who_looks_stands_in_nobodys_way, begin, end),
        cmocka_unit_test_setup_teardown(a_member_leaves_while_it_is_called, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
