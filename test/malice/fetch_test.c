/* A file that a worker fetches from members that are slow, silent, wrong, or leave in the middle.
 */
#include "base/clock.h"
#include "member_testing.h"
#include "model/file.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint8_t digest[SHOAL_DIGEST];
static shoal_status fetch_status;
static atomic_bool fetched;

static void tell(uint32_t who, Shoal__Kind kind, const ProtobufCMessage *message) {
    uint8_t *packed = malloc(protobuf_c_message_get_packed_size(message) + 1);
    assert_non_null(packed);
    ok(worker_file_message(w, others_end_of(who), kind, packed,
                           protobuf_c_message_pack(message, packed)));
    free(packed);
}

enum { PARTS = 5, MUCH = (PARTS - 1) * WIRE_CHUNK + 5 };

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

static uint8_t much[MUCH], theirs[MUCH]; /* what is wanted; what members give for it */
static uint32_t given[PARTS];            /* times that each part was */

/* Into the same folder as before. A silence is as short as this; both members have links. */
static pthread_t fetch_again(int silence_ms) {
    pthread_t thread;
    static worker_file file;
    free(w->models);
    w->models = strdup(models);
    memset(given, 0, sizeof given);
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

static pthread_t begin_fetch(int silence_ms) {
    for (size_t i = 0; i < MUCH; i++) theirs[i] = much[i] = (uint8_t)(i * 7 + i / 1000);
    snprintf(models, sizeof models, "/tmp/shoal-XXXXXX");
    assert_non_null(mkdtemp(models));
    return fetch_again(silence_ms);
}

static void stop_fetch(pthread_t thread) {
    pthread_join(thread, NULL);
    others_hear(NULL);
}

static void end_fetch(pthread_t thread) {
    char command[64];
    stop_fetch(thread);
    snprintf(command, sizeof command, "rm -rf %s", models);
    assert_int_equal(system(command), 0);
}

enum { ANY = 0 };

/* The member that is asked, of the two; 0: none. Lock held. */
static uint32_t asked_one(void) {
    const worker_fetch *f = &w->fetch;
    return !f->file ? 0 : f->peer == OWES ? BY_OWES : f->peer == OTHER ? BY_OTHER : 0;
}

/* The first part that is asked of a member, or of either, and has not come; gives the member, or 0.
 */
static uint32_t first_asked(uint32_t who, worker_file_part *out) {
    bool found = false;
    pthread_mutex_lock(&w->lock);
    const worker_fetch *f = &w->fetch;
    uint32_t asked = asked_one();
    bool mine = f->answer == SHOAL_OK && (who == ANY || asked == who);
    for (int i = 0; i < WORKER_FILE_PARTS && asked && mine; i++) {
        const worker_file_part *part = &f->parts[i];
        if (!part->transfer || part->data || (found && part->offset > out->offset)) continue;
        *out = *part;
        found = true;
    }
    pthread_mutex_unlock(&w->lock);
    return found ? asked : 0;
}

/* As a message, or as data, in pieces whose last comes first; flip: which byte is another than its
 * checksum says. */
static void give_part(uint32_t who, const worker_file_part *part, bool as_data, size_t flip) {
    static uint8_t bytes[WIRE_CHUNK];
    memcpy(bytes, theirs + part->offset, part->bytes);
    uint64_t sum = worker_file_sum(bytes, part->bytes);
    if (flip) bytes[flip] ^= 4;
    if (!as_data) {
        Shoal__FilePart said = SHOAL__FILE_PART__INIT;
        said.digest = (ProtobufCBinaryData){sizeof digest, digest};
        said.offset = part->offset;
        said.data = (ProtobufCBinaryData){part->bytes, bytes};
        tell(who, SHOAL__KIND__FILE_PART, &said.base);
        return;
    }
    wire_transfer transfer = {part->transfer, (uint32_t)(sum >> 32), (uint32_t)sum, part->bytes};
    uint32_t half = part->bytes > WIRE_GRAIN ? 3 * WIRE_GRAIN : 0;
    if (half)
        ok(worker_data(w, others_end_of(who), &transfer, half, bytes + half, part->bytes - half));
    ok(worker_data(w, others_end_of(who), &transfer, 0, bytes, half ? half : part->bytes));
}

static void refuse_part(uint32_t who, const worker_file_part *part, shoal_status status) {
    Shoal__FilePart said = SHOAL__FILE_PART__INIT;
    said.digest = (ProtobufCBinaryData){sizeof digest, digest};
    said.offset = part->offset;
    said.status = (uint32_t)status;
    tell(who, SHOAL__KIND__FILE_PART, &said.base);
}

/* Answers as a member, or either, whenever it is asked, until so many parts are given, or the file
 * is there or given up. OWES gives messages, OTHER data. */
static void play_some(uint32_t who, shoal_status status, int ms, int parts) {
    int64_t until = base_now() + ms * BASE_MS;
    worker_file_part part;
    while (!fetched && base_now() < until && parts) {
        uint32_t asked = first_asked(who, &part);
        if (!asked) {
            nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
            continue;
        }
        given[part.offset / WIRE_CHUNK]++;
        parts--;
        if (status == SHOAL_OK)
            give_part(asked, &part, asked == BY_OTHER, 0);
        else
            refuse_part(asked, &part, status);
    }
}

static void play(uint32_t who, shoal_status status, int ms, bool all) {
    play_some(who, status, ms, all ? INT_MAX : 1);
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
    assert_true(base_now() - began < 15 * BASE_SECOND);
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

/* ---- what is there goes on ---- */

/* Nobody needs it any more. */
static void leave_it(pthread_t thread) {
    pthread_mutex_lock(&w->lock);
    wanted->waiting = 0;
    pthread_mutex_unlock(&w->lock);
    stop_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_CLOSED);
}

static void check_given(const uint32_t *times) {
    for (int i = 0; i < PARTS; i++)
        if (given[i] != times[i])
            fail_msg("part %d was given %u times, not %u", i, given[i], times[i]);
}

static char *draft_path(const char *ending) {
    static char path[256];
    char hex[2 * SHOAL_DIGEST + 1];
    worker_digest_text(digest, hex);
    snprintf(path, sizeof path, "%s/%s%s", models, hex, ending);
    return path;
}

static void check_file(void) {
    static uint8_t got[MUCH + 1];
    FILE *file = fopen(draft_path(""), "rb");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), MUCH);
    assert_memory_equal(got, much, MUCH);
    fclose(file);
    assert_int_equal(access(draft_path(".part"), F_OK), -1);
}

/* Until so many parts are in the draft: what has come but is not written goes with its sender. */
static void await_written(uint64_t parts) {
    uint64_t there = 0;
    for (int64_t until = base_now() + 60 * BASE_SECOND; there < parts * WIRE_CHUNK;) {
        assert_true(base_now() < until);
        nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
        pthread_mutex_lock(&w->lock);
        there = w->fetch.there;
        pthread_mutex_unlock(&w->lock);
    }
}

/* Who is asked first; the other is the other. */
static uint32_t asked_first(void) {
    worker_file_part part;
    uint32_t who = 0;
    for (int64_t until = base_now() + 30 * BASE_SECOND; !who && base_now() < until;)
        who = first_asked(ANY, &part);
    assert_true(who);
    return who;
}
static uint32_t other_than(uint32_t who) { return who == BY_OWES ? BY_OTHER : BY_OWES; }

/* One member leaves in the middle, another gives what is missing. */
static void another_goes_on(void **state) {
    (void)state;
    for (int times = 0; times < 2; times++) {
        pthread_t thread = begin_fetch(60000);
        uint32_t one = asked_first(), number = one == BY_OWES ? OWES : OTHER;
        play_some(one, SHOAL_OK, 10000, 2);
        await_written(2);
        pthread_mutex_lock(&w->lock);
        peer(number)->gone = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        play(other_than(one), SHOAL_OK, 10000, true);
        end_fetch(thread);
        peer(number)->gone = false;
        assert_int_equal(fetch_status, SHOAL_OK);
        check_given((uint32_t[]){1, 1, 1, 1, 1});
    }
}

static void flip_on_disk(long offset) {
    FILE *file = fopen(draft_path(".part"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    fputc(byte ^ 1, file);
    fclose(file);
}

/* It is broken off, and goes on later; what has changed on the disk meanwhile is fetched again. */
static void it_goes_on_later(void **state) {
    (void)state;
    pthread_t thread = begin_fetch(60000);
    play_some(ANY, SHOAL_OK, 10000, 3);
    await_written(3);
    leave_it(thread);
    thread = fetch_again(60000);
    play_some(ANY, SHOAL_OK, 10000, 1);
    await_written(4);
    leave_it(thread);
    check_given((uint32_t[]){0, 0, 0, 1, 0});
    flip_on_disk(WIRE_CHUNK + 77);
    thread = fetch_again(60000);
    play(ANY, SHOAL_OK, 10000, true);
    stop_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
    check_given((uint32_t[]){0, 1, 0, 0, 1});
    check_file();
    end_fetch(fetch_again(60000)); /* it is there */
    assert_int_equal(fetch_status, SHOAL_OK);
    check_given((uint32_t[]){0, 0, 0, 0, 0});
}

/* The file as a draft with all of its checksums, which fit; with another byte, unless it is 0. */
static void make_draft(size_t changed) {
    FILE *file = fopen(draft_path(".part"), "wb");
    assert_non_null(file);
    memcpy(theirs, much, MUCH);
    theirs[changed] ^= changed ? 8 : 0;
    assert_int_equal(fwrite(theirs, 1, MUCH, file), MUCH);
    for (uint64_t i = 0; i < PARTS; i++) {
        uint64_t left = MUCH - i * WIRE_CHUNK, n = left < WIRE_CHUNK ? left : WIRE_CHUNK;
        uint64_t sum = worker_file_sum(theirs + i * WIRE_CHUNK, n);
        assert_int_equal(fwrite(&sum, sizeof sum, 1, file), 1);
    }
    fclose(file);
    memcpy(theirs, much, MUCH);
}

/* All of it was there but for its name; or something else was. */
static void nothing_is_missing(void **state) {
    (void)state;
    leave_it(begin_fetch(60000));
    make_draft(0);
    stop_fetch(fetch_again(60000));
    assert_int_equal(fetch_status, SHOAL_OK);
    check_file();
    assert_int_equal(unlink(draft_path("")), 0);
    make_draft(9);
    pthread_t thread = fetch_again(60000);
    play(ANY, SHOAL_OK, 10000, true);
    check_given((uint32_t[]){1, 1, 1, 1, 1});
    stop_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
    check_file();
    /* A draft of a length that is none is begun anew. */
    assert_int_equal(unlink(draft_path("")), 0);
    make_draft(0);
    assert_int_equal(truncate(draft_path(".part"), MUCH + 8), 0);
    thread = fetch_again(60000);
    play(ANY, SHOAL_OK, 10000, true);
    check_given((uint32_t[]){1, 1, 1, 1, 1});
    end_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
}

/* A part that is not what its checksum says is asked for again; who gives many is left. */
static void changed_on_the_way(void **state) {
    (void)state;
    worker_file_part part;
    pthread_t thread = begin_fetch(60000);
    for (int i = 0; i < 3;) {
        uint32_t who = first_asked(ANY, &part);
        if (who) give_part(who, &part, true, 4);
        i += who != 0;
    }
    play(ANY, SHOAL_OK, 10000, true);
    stop_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
    check_file();
    assert_int_equal(unlink(draft_path("")), 0);
    thread = fetch_again(60000);
    uint32_t times = 0;
    while (!fetched) {
        uint32_t who = first_asked(ANY, &part);
        if (who) give_part(who, &part, true, 4);
        times += who != 0;
    }
    assert_int_equal(access(draft_path(".part"), F_OK), -1); /* nothing of it is kept */
    end_fetch(thread);
    assert_in_range(times, 16, 16 + 2 * WORKER_FILE_PARTS);
    assert_int_equal(fetch_status, SHOAL_NOT_FOUND);
    assert_non_null(strstr(fetch_error, "what it sends is changed on its way"));
}

/* Who gives wrong bytes, and leaves, does not bring who goes on into discredit. */
static void a_liar_leaves(void **state) {
    (void)state;
    pthread_t thread = begin_fetch(60000);
    uint32_t liar = asked_first();
    theirs[77] ^= 1;
    play_some(liar, SHOAL_OK, 10000, 2);
    play_some(liar, SHOAL_NOT_FOUND, 10000, 1);
    theirs[77] ^= 1;
    play(other_than(liar), SHOAL_OK, 10000, true);
    stop_fetch(thread);
    assert_int_equal(fetch_status, SHOAL_OK);
    check_file();
    assert_int_equal(given[0], 2);
    assert_int_equal(given[PARTS - 1], 2);
    /* Who gives all of it, and it is wrong, is not asked again, and nothing of it is kept. */
    assert_int_equal(unlink(draft_path("")), 0);
    only_owes(true);
    thread = fetch_again(60000);
    theirs[77] ^= 1;
    play(BY_OWES, SHOAL_OK, 10000, true);
    assert_int_equal(access(draft_path(".part"), F_OK), -1);
    end_fetch(thread);
    only_owes(false);
    assert_int_equal(fetch_status, SHOAL_DENIED);
    check_given((uint32_t[]){1, 1, 1, 1, 1});
}

/* Drafts that were left: few, and not for ever. */
static void drafts_are_few(void **state) {
    (void)state;
    enum { LEFT = 8 };
    char path[256];
    snprintf(models, sizeof models, "/tmp/shoal-XXXXXX");
    assert_non_null(mkdtemp(models));
    int locked = -1;
    time_t now = time(NULL);
    for (int i = 0; i < LEFT; i++) {
        digest[0] = (uint8_t)i;
        snprintf(path, sizeof path, "%s", draft_path(".part"));
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        assert_true(fd >= 0);
        struct timespec at = {.tv_sec = now - 60 * i - (i == 2 ? 8 * 24 * 3600 : 0)};
        assert_int_equal(futimens(fd, (struct timespec[]){at, at}), 0);
        if (i == 6 && !flock(fd, LOCK_EX))
            locked = fd;
        else
            close(fd);
    }
    FILE *mine = fopen(strcat(strcpy(path, models), "/mine.part"), "wb");
    fclose(mine);
    worker_drafts_tidy(models);
    /* 0, 1, 3 and 4 are the newest; 6 is somebody's. */
    for (int i = 0; i < LEFT; i++) {
        digest[0] = (uint8_t)i;
        bool stays = i < 5 ? i != 2 : i == 6;
        if (!access(draft_path(".part"), F_OK) != stays) fail_msg("draft %d", i);
    }
    assert_int_equal(access(path, F_OK), 0);
    close(locked);
    worker_drafts_tidy("");
    snprintf(path, sizeof path, "rm -rf %s", models);
    assert_int_equal(system(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(silence_is_left, begin, end),
        cmocka_unit_test_setup_teardown(looking_ends, begin, end),
        cmocka_unit_test_setup_teardown(slowness_is_left, begin, end),
        cmocka_unit_test_setup_teardown(looking_is_waited_for, begin, end),
        cmocka_unit_test_setup_teardown(who_looks_stands_in_nobodys_way, begin, end),
        cmocka_unit_test_setup_teardown(a_member_leaves_while_it_is_called, begin, end),
        cmocka_unit_test_setup_teardown(another_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(it_goes_on_later, begin, end),
        cmocka_unit_test_setup_teardown(nothing_is_missing, begin, end),
        cmocka_unit_test_setup_teardown(changed_on_the_way, begin, end),
        cmocka_unit_test_setup_teardown(a_liar_leaves, begin, end),
        cmocka_unit_test_setup_teardown(drafts_are_few, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
