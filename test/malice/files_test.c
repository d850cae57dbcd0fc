/* What members may not say to a worker about files, whom they ask for them and how they give them.
 */
#include "member_testing.h"
#include "model/file.h"

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

/* A part that was asked for as a transfer comes, or not, from whoever says so. */
static shoal_status tell_data(uint32_t who, uint64_t transfer, uint64_t total, uint64_t offset,
                              size_t n) {
    static uint8_t data[2 * FILE_BYTES];
    wire_transfer said = {transfer, 0, 0, total};
    return worker_data(w, others_end_of(who), &said, offset, data, n);
}

static const struct {
    uint64_t offset;
    size_t n;
    bool answers; /* the question, badly; else it is an answer to nothing */
} wrong_parts[] = {{0, FILE_BYTES + 1, true}, {0, FILE_BYTES - 1, true}, {1, FILE_BYTES, false},
                   {UINT64_MAX, 1, false},    {FILE_BYTES, 0, false},    {0, 0, true}};

static void parts_are_what_was_asked_for(void **state) {
    (void)state;
    const worker_file_part *part = &w->fetch.parts[0];
    memset(digest, 0, sizeof digest);
    tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK); /* nothing was */
    uint64_t by_owes = 1;
    assert_int_equal(strange(BY_OWES), by_owes);
    for (size_t i = 0; i < sizeof wrong_parts / sizeof *wrong_parts; i++) {
        others_fetch(FILE_BYTES);
        tell_part(BY_OTHER, 0, FILE_BYTES, SHOAL_OK);
        digest[3] = 1; /* another file */
        tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK);
        digest[3] = 0;
        assert_int_equal(strange(BY_OTHER), i + 1);
        assert_int_equal(strange(BY_OWES), ++by_owes);
        assert_int_equal(w->fetch.answer, SHOAL_OK);
        tell_part(BY_OWES, wrong_parts[i].offset, wrong_parts[i].n, SHOAL_OK);
        by_owes += !wrong_parts[i].answers;
        assert_int_equal(w->fetch.answer, wrong_parts[i].answers ? SHOAL_FORMAT : SHOAL_OK);
        assert_int_equal(strange(BY_OWES), by_owes);
        assert_null(part->data);
    }
    others_fetch(FILE_BYTES);
    tell_part(BY_OWES, 0, 0, (shoal_status)4711);
    assert_int_equal(w->fetch.answer, SHOAL_NOT_FOUND);
    others_fetch(FILE_BYTES);
    tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK);
    assert_int_equal(part->have, FILE_BYTES);
    tell_part(BY_OWES, 0, FILE_BYTES, SHOAL_OK); /* once more */
    assert_int_equal(part->have, FILE_BYTES);
    assert_int_equal(strange(BY_OWES), by_owes + 1);
}

/* The same for parts that come as data. */
static void data_of_parts_are_what_was_asked_for(void **state) {
    (void)state;
    static const struct {
        uint64_t total, offset;
        size_t n;
    } wrong[] = {{FILE_BYTES + 1, 0, 1},
                 {FILE_BYTES - 1, 0, 1},
                 {FILE_BYTES, 0, FILE_BYTES + 1},
                 {FILE_BYTES, 1, 1},
                 {FILE_BYTES, 0, 0},
                 {FILE_BYTES, FILE_BYTES + 1, 0},
                 {0, 0, 0},
                 {UINT64_MAX, 0, 1},
                 {FILE_BYTES, UINT64_MAX, 2}};
    const worker_file_part *part = &w->fetch.parts[0];
    ok(tell_data(BY_OWES, WIRE_FILE, FILE_BYTES, 0, FILE_BYTES)); /* late for all that is known */
    ok(tell_data(BY_OWES, UINT64_MAX, FILE_BYTES, 0, FILE_BYTES));
    assert_int_equal(strange(BY_OWES), 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        others_fetch(FILE_BYTES);
        ok(tell_data(BY_OTHER, part->transfer, FILE_BYTES, 0, FILE_BYTES));
        assert_int_equal(strange(BY_OTHER), i + 1);
        ok(tell_data(BY_OWES, part->transfer + 1, FILE_BYTES, 0, FILE_BYTES));
        assert_int_equal(strange(BY_OWES), i + 2);
        assert_int_equal(part->have, 0);
        ok(tell_data(BY_OWES, part->transfer, wrong[i].total, wrong[i].offset, wrong[i].n));
        assert_int_equal(w->fetch.answer, SHOAL_FORMAT);
        ok(tell_data(BY_OWES, part->transfer, FILE_BYTES, 0, FILE_BYTES)); /* too late */
        assert_int_equal(part->have, 0);
    }
    others_fetch(FILE_BYTES);
    uint64_t transfer = part->transfer;
    ok(tell_data(BY_OWES, transfer, FILE_BYTES, 0, FILE_BYTES));
    assert_int_equal(part->have, FILE_BYTES);
    ok(tell_data(BY_OWES, transfer, FILE_BYTES, 0, FILE_BYTES)); /* once more */
    assert_int_equal(w->fetch.answer, SHOAL_FORMAT);
    others_fetch(FILE_BYTES);
    ok(tell_data(BY_OWES, transfer, FILE_BYTES, 0, FILE_BYTES)); /* of the question before */
    assert_int_equal(part->have, 0);
    assert_int_equal(strange(BY_OWES), sizeof wrong / sizeof *wrong + 1);
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

static uint64_t as_transfer;

static void ask_for(uint32_t who, uint64_t bytes, uint64_t offset) {
    Shoal__FileAsk ask = SHOAL__FILE_ASK__INIT;
    ask.digest = (ProtobufCBinaryData){sizeof digest, digest};
    ask.bytes = bytes;
    ask.offset = offset;
    ask.transfer = as_transfer;
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
    as_transfer = INSTANCE; /* of the hub's */
    ask_for(BY_OTHER, FILE_BYTES, 0);
    assert_int_equal(strange(BY_OTHER), 4);
    as_transfer = 0;
    ask_for(BY_OTHER, FILE_BYTES, 0);
    assert_int_equal(strange(BY_OTHER), 4);
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

static size_t data_waits(uint32_t who) {
    wire_link *link = others_end_of(who);
    size_t n = 0;
    pthread_mutex_lock(&link->lock);
    for (const wire_item *item = link->transfers.first; item; item = item->next) {
        assert_int_equal(item->frame.instance, WIRE_FILE + 7);
        assert_int_equal(item->frame.total, WIRE_CHUNK);
        n++;
    }
    pthread_mutex_unlock(&link->lock);
    return n;
}

static size_t waited_before;
static bool has_got(void) {
    return heard() + data_waits(BY_OWES) + data_waits(BY_OTHER) > waited_before;
}

static void ask_and_get(uint32_t who) {
    waited_before = heard() + data_waits(BY_OWES) + data_waits(BY_OTHER);
    ask_for(who, WIRE_CHUNK, 0);
    assert_true(soon(has_got));
}

/* The same of parts that go as data, with their checksum. */
static void data_count_on_the_user(void **state) {
    (void)state;
    static uint8_t bytes[WIRE_CHUNK], got[WIRE_CHUNK];
    char path[32];
    bytes[5] = 3;
    model_map *map = some_file(bytes, sizeof bytes, path);
    ok(worker_offer_file(w, digest, map));
    memset(given, 0, sizeof given);
    memset(put_off, 0, sizeof put_off);
    others_hear(hear_parts);
    others_keep(true);
    as_transfer = WIRE_FILE + 7;
    for (int i = 0; i < 70; i++) ask_and_get(BY_OTHER);
    assert_in_range(data_waits(BY_OTHER), 62, 64);
    assert_int_equal(data_waits(BY_OTHER) + put_off[1], 70);
    for (int i = 0; i < 5; i++) ask_and_get(BY_OWES);
    assert_int_equal(data_waits(BY_OWES), 5);
    assert_int_equal(put_off[0] + given[0] + given[1], 0);
    const wire_item *item = others_end_of(BY_OWES)->transfers.first;
    uint64_t sum = (uint64_t)item->frame.channel << 32 | item->frame.ordinal;
    item->source.read(item->source.context, 0, got, WIRE_CHUNK);
    assert_memory_equal(got, bytes, WIRE_CHUNK);
    assert_int_equal(sum, worker_file_sum(bytes, WIRE_CHUNK));
    others_keep(false);
    others_keep(true);
    ask_and_get(BY_OTHER);
    assert_int_equal(data_waits(BY_OTHER), 1);
    others_keep(false);
    as_transfer = 0;
    others_hear(NULL);
    model_map_release(map);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_what_was_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(data_of_parts_are_what_was_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(sizes_bind_nobody, begin, end),
        cmocka_unit_test_setup_teardown(known_files_are_limited, begin, end),
        cmocka_unit_test_setup_teardown(what_is_asked_for_is_needed, begin, end),
        cmocka_unit_test_setup_teardown(what_is_looked_for_counts_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(answers_count_on_the_user, begin, end),
        cmocka_unit_test_setup_teardown(data_count_on_the_user, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
