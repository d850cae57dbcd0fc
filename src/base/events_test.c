/* The ring of events: order, what is lost, many writers at once; the file: its lines, its size. */
#include "base/events.h"

#include "base/clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static shoal_event room[BASE_EVENTS_ROOM];

static void test_off(void **state) {
    base_events events;
    uint64_t from = 0, lost = 0;
    assert_int_equal(base_events_init(&events, "w1"), SHOAL_OK);
    base_event(&events, .kind = SHOAL_EVENT_RUN);
    assert_null(atomic_load(&events.places)); /* no memory either */
    assert_int_equal(base_events_read(&events, &from, room, 10, &lost), 0);
    assert_int_equal(base_events_record(&events, base_now() - 1), SHOAL_OK);
    assert_true(base_events_on(&events));
    base_event(&events, .kind = SHOAL_EVENT_RUN); /* too late: it is off again */
    assert_false(base_events_on(&events));
    assert_int_equal(base_events_read(&events, &from, room, 10, &lost), 0);
    assert_int_equal(lost, 0);
    base_events_fini(&events);
}

static void test_order_and_wrap(void **state) {
    enum { MANY = 3 * BASE_EVENTS_ROOM + 17 };
    base_events events;
    uint64_t from = 1, lost = 0;
    assert_int_equal(base_events_init(&events, "w1"), SHOAL_OK);
    assert_int_equal(base_events_record(&events, INT64_MAX), SHOAL_OK);
    for (uint64_t i = 0; i < 10; i++) base_event(&events, .instance = i, .slot = 7);
    assert_int_equal(base_events_read(&events, &from, room, 4, &lost), 4);
    assert_int_equal(base_events_read(&events, &from, room + 4, 100, &lost), 6);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(room[i].instance, i);
        assert_int_equal(room[i].slot, 7);
        assert_true(i == 0 || room[i].at >= room[i - 1].at);
    }
    for (uint64_t i = 0; i < MANY; i++) base_event(&events, .instance = i);
    size_t n = base_events_read(&events, &from, room, BASE_EVENTS_ROOM, &lost);
    assert_int_equal(n, BASE_EVENTS_ROOM);
    assert_int_equal(lost, MANY - BASE_EVENTS_ROOM);
    assert_int_equal(room[0].instance, MANY - BASE_EVENTS_ROOM);
    assert_int_equal(room[n - 1].instance, MANY - 1);
    assert_int_equal(base_events_read(&events, &from, room, 10, &lost), 0);
    from = UINT64_MAX; /* a number from elsewhere */
    assert_int_equal(base_events_read(&events, &from, room, 10, &lost), 0);
    base_events_fini(&events);
}

/* Each event carries its writer and its number twice: a torn one would show. */
typedef struct writer {
    base_events *events;
    uint32_t number;
    uint64_t count;
} writer;

static void *write_many(void *context) {
    const writer *w = context;
    for (uint64_t i = 1; i <= w->count; i++) {
        shoal_event event = {.instance = i, .bytes = i * 31 + w->number, .slot = w->number};
        base_event_label(&event, "%llu", (unsigned long long)i);
        base_events_put(w->events, &event);
    }
    return NULL;
}

static void test_many_writers(void **state) {
    enum { WRITERS = 4, EACH = 60000 };
    base_events events;
    pthread_t threads[WRITERS];
    writer writers[WRITERS];
    uint64_t from = 1, lost = 0, seen = 0, last[WRITERS] = {0};
    assert_int_equal(base_events_init(&events, "w1"), SHOAL_OK);
    assert_int_equal(base_events_record(&events, INT64_MAX), SHOAL_OK);
    for (uint32_t t = 0; t < WRITERS; t++) {
        writers[t] = (writer){&events, t, EACH};
        assert_int_equal(pthread_create(&threads[t], NULL, write_many, &writers[t]), 0);
    }
    for (bool ended = false; seen + lost < WRITERS * EACH;) {
        size_t n = base_events_read(&events, &from, room, BASE_EVENTS_ROOM, &lost);
        for (size_t i = 0; i < n; i++) {
            const shoal_event *e = &room[i];
            assert_true(e->slot < WRITERS);
            assert_int_equal(e->bytes, e->instance * 31 + e->slot);
            assert_int_equal(strtoull(e->label, NULL, 10), e->instance);
            assert_true(e->instance > last[e->slot]); /* one thread's keep their order */
            last[e->slot] = e->instance;
        }
        seen += n;
        if (n > 0 || ended) continue;
        for (uint32_t t = 0; t < WRITERS; t++) pthread_join(threads[t], NULL);
        ended = true;
    }
    assert_true(seen > 0);
    assert_int_equal(seen + lost, WRITERS * EACH);
    base_events_fini(&events);
}

static void test_labels(void **state) {
    shoal_event event = {0};
    char long_text[200];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    base_event_label(&event, "a\nb\x1b[2J %s", long_text);
    assert_int_equal(strlen(event.label), sizeof event.label - 1);
    assert_memory_equal(event.label, "a?b?[2J xxx", 11);
    assert_string_equal(shoal_event_name(SHOAL_EVENT_COMPUTE), "compute");
    assert_string_equal(shoal_event_name(SHOAL_EVENT_COUNT), "?");
}

static void test_line(void **state) {
    char line[400];
    const shoal_event event = {.kind = SHOAL_EVENT_SEND,
                               .phase = SHOAL_EVENT_BEGIN,
                               .instance = 42,
                               .bytes = 65536,
                               .slot = 3,
                               .peer = 1,
                               .label = "f32[128,128]"};
    size_t n =
        base_event_line(&event, "left:4711", INT64_C(1700000000123456789), line, sizeof line);
    assert_int_equal(n, strlen(line));
    assert_string_equal(line, "2023-11-14T22:13:20.123456Z | left:4711            |    3 | "
                              "send begin    |       42 |      65536 |    1 | f32[128,128]\n");
    const shoal_event bare = {
        .kind = 99, .phase = 99, .slot = SHOAL_NO_SLOT, .peer = SHOAL_NO_SLOT};
    base_event_line(&bare, "hub:1", 0, line, sizeof line);
    assert_non_null(strstr(line, "|    - | ?             |"));
    assert_int_equal(base_event_line(&event, "left:4711", 0, line, 20), 19);
}

static size_t size_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void test_file(void **state) {
    char folder[] = "/tmp/shoal-events-XXXXXX", path[64], old[80], line[512];
    base_events a, b;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(old, sizeof old, "%s.1", path);
    setenv("SHOAL_INSTRUCTION_LOG", path, 1);
    setenv("SHOAL_INSTRUCTION_LOG_MIB", "1", 1);
    assert_int_equal(base_events_init(&a, "a|b"), SHOAL_OK);
    assert_int_equal(base_events_init(&b, "b"), SHOAL_OK); /* they share the file */
    for (int round = 0; round < 6; round++) {
        for (uint64_t i = 0; i < 2000; i++) {
            base_event(&a, .kind = SHOAL_EVENT_RUN, .instance = i, .label = "from a");
            base_event(&b, .kind = SHOAL_EVENT_RUN, .instance = i, .label = "from b");
        }
        const struct timespec moment = {.tv_nsec = 80 * BASE_MS};
        nanosleep(&moment, NULL);
    }
    base_events_name(&b, "late");
    base_event(&b, .kind = SHOAL_EVENT_FREE);
    base_events_fini(&a);
    base_events_fini(&b);
    enum { LIMIT = 1 << 20, BATCHES = 2 * 256 * 120 };
    assert_in_range(size_of(old), LIMIT, LIMIT + BATCHES);
    assert_in_range(size_of(path), 1, LIMIT + BATCHES);
    bool from_a = false, from_b = false, late = false;
    /* Which of the two files has what depends on when the threads that write came to it. */
    for (int second = 0; second < 2; second++) {
        FILE *file = fopen(second ? old : path, "r");
        assert_non_null(file);
        for (int i = 0; fgets(line, sizeof line, file); i++) {
            if (i == 0)
                assert_non_null(strstr(line, "# Shoal's instruction log, a line per event:"));
            if (*line == '#') continue;
            assert_int_equal(line[strlen(line) - 1], '\n');
            from_a |= strstr(line, "| a?b:") && strstr(line, "| from a\n");
            from_b |= strstr(line, "| b:") && strstr(line, "| from b\n");
            late |= strstr(line, "| late:") && strstr(line, "| free ");
        }
        fclose(file);
    }
    assert_true(from_a && from_b && late);
    unlink(path);
    unlink(old);
    /* What is wrong is told at once. */
    setenv("SHOAL_INSTRUCTION_LOG_MIB", "none", 1);
    assert_int_equal(base_events_init(&a, "a"), SHOAL_INVALID);
    assert_string_equal(shoal_error_message(),
                        "SHOAL_INSTRUCTION_LOG_MIB is 'none': give a number from 1");
    unsetenv("SHOAL_INSTRUCTION_LOG_MIB");
    rmdir(folder);
    unlink(path);
    rmdir(folder);
    assert_int_equal(base_events_init(&a, "a"), SHOAL_NOT_FOUND);
    assert_non_null(strstr(shoal_error_message(), "SHOAL_INSTRUCTION_LOG: writing /tmp/shoal-ev"));
    unsetenv("SHOAL_INSTRUCTION_LOG");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),          cmocka_unit_test(test_order_and_wrap),
        cmocka_unit_test(test_many_writers), cmocka_unit_test(test_labels),
        cmocka_unit_test(test_line),         cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
