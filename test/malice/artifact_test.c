/* Artifacts that a worker asks for: what it takes for an answer, from whom, and that the wait ends.
 */
#include "member_testing.h"

#include "base/clock.h"
#include "model/file.h"

#include <unistd.h>

static uint8_t digest[WIRE_DIGEST];
static _Atomic uint64_t token; /* of the question that the hub was asked last, */
static _Atomic size_t text;    /* and the bytes of its text */
static shoal_artifact got;
static shoal_status status;
static char why[512];
static atomic_bool over;
static pthread_t thread;

static void on_question(Shoal__Kind kind, const void *body, size_t n) {
    if (kind != SHOAL__KIND__ARTIFACT_ASK) return;
    Shoal__ArtifactAsk *ask = shoal__artifact_ask__unpack(NULL, n, body);
    assert_int_equal(ask->made_of.len, WIRE_DIGEST);
    assert_string_equal(ask->device, "x86_64");
    text = ask->text.len;
    token = ask->token;
    shoal__artifact_ask__free_unpacked(ask, NULL);
}

static int begin_asked(void **state) {
    begin(state);
    others_asked(on_question);
    token = text = 0;
    return 0;
}

static void *ask_now(void *unused) {
    (void)unused;
    const shoal_artifact_ask ask = {.made_of = {1},
                                    .target = "llvm-cpu",
                                    .device = "x86_64",
                                    .compiler = "1",
                                    .text = "module"};
    status = w->artifacts.pool.fetch(w->artifacts.pool.context, &ask, &got);
    snprintf(why, sizeof why, "%s", status == SHOAL_OK ? "" : shoal_error_message());
    over = true;
    return NULL;
}

static bool is_asked(void) { return token; }
static bool is_over(void) { return over; }

/* A question, in a thread of its own, up to where the hub has it. */
static void ask_hub(void) {
    token = 0;
    over = false;
    assert_int_equal(pthread_create(&thread, NULL, ask_now, NULL), 0);
    assert_true(soon(is_asked));
}

static Shoal__Artifact answer(void) {
    Shoal__Artifact given = SHOAL__ARTIFACT__INIT;
    given.token = token;
    given.note = (ProtobufCBinaryData){2, (uint8_t *)"{}"};
    given.digest = (ProtobufCBinaryData){sizeof digest, digest};
    given.bytes = 4;
    return given;
}

static void tell(const Shoal__Artifact *given) {
    others_hold();
    others_tell(SHOAL__KIND__ARTIFACT_GIVEN, &given->base);
    others_release();
}

static void ends_with(shoal_status expected, const char *message) {
    assert_true(soon(is_over));
    pthread_join(thread, NULL);
    assert_int_equal(status, expected);
    assert_non_null(strstr(why, message));
}

static void answers_that_make_no_sense(void **state) {
    (void)state;
    static uint8_t long_note[WIRE_MOST_NOTE + 1];
    static const struct {
        shoal_status status;
        const char *message;
    } expected[] = {{SHOAL_NOT_FOUND, "not here"},
                    {SHOAL_BUSY, "later"},
                    {SHOAL_NOT_FOUND, "there is none"},
                    {SHOAL_FORMAT, "makes no sense"},
                    {SHOAL_FORMAT, "makes no sense"},
                    {SHOAL_FORMAT, "an artifact of 0 bytes"},
                    {SHOAL_FORMAT, "an artifact of 1073741825 bytes; at most 1073741824 are taken"},
                    {SHOAL_NOT_FOUND, "because"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        Shoal__Error error = SHOAL__ERROR__INIT;
        ask_hub();
        Shoal__Artifact given = answer();
        error.status = i ? SHOAL_BUSY : SHOAL_NOT_FOUND;
        error.message = (char *)(i ? "later" : "not here");
        if (i < 2) given.error = &error;
        if (i == 2) given.note.len = 0;
        if (i == 3) given.digest.len--;
        if (i == 4) given.note = (ProtobufCBinaryData){sizeof long_note, long_note};
        if (i == 5) given.bytes = 0;
        if (i == 6) given.bytes = (UINT64_C(1) << 30) + 1;
        if (i == 7) given.error = &error;
        if (i == 7) error.status = 4711;
        if (i == 7) error.message = (char *)"because";
        tell(&given);
        ends_with(expected[i].status, expected[i].message);
    }
}

/* Others than the hub answer nothing, nor does it twice, or what it was not asked. */
static void who_answers(void **state) {
    (void)state;
    ask_hub();
    Shoal__Artifact given = answer();
    uint8_t packed[128];
    size_t n = shoal__artifact__pack(&given, packed);
    others_hold();
    wire_link_deliver_message(others_end_of(BY_OTHER), SHOAL__KIND__ARTIFACT_GIVEN, packed, n);
    others_release();
    assert_int_equal(strange(BY_OTHER), 1);
    given.token = token + 1;
    tell(&given);
    assert_false(over);
    given = answer();
    given.wanted = true;
    assert_int_equal(text, 0);
    token = 0;
    tell(&given);
    tell(&given); /* late */
    assert_true(soon(is_asked));
    assert_int_equal(text, strlen("module"));
    given = answer();
    given.wanted = true; /* it has had the text */
    tell(&given);
    ends_with(SHOAL_NOT_FOUND, "there is none");
    tell(&given);
}

static void a_file_that_is_here(void **state) {
    (void)state;
    char path[] = "/tmp/shoal-XXXXXX";
    model_map *map;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "made", 4), 4);
    close(fd);
    ok(model_map_open(path, &map));
    ok(model_map_digest(map, NULL, NULL, digest));
    ok(worker_offer_file(w, digest, map));
    ask_hub();
    Shoal__Artifact given = answer();
    tell(&given);
    ends_with(SHOAL_OK, "");
    assert_string_equal(got.path, path);
    assert_int_equal(got.note_bytes, 2);
    assert_memory_equal(got.note, "{}", 2);
    free(got.path);
    free(got.note);
    model_map_release(map);
    unlink(path);
}

static void the_wait_ends_with_the_hub(void **state) {
    (void)state;
    ask_hub();
    others_hold();
    others_leave();
    others_release();
    ends_with(SHOAL_LOST, "the hub was lost before it answered");
    over = false;
    assert_int_equal(pthread_create(&thread, NULL, ask_now, NULL), 0);
    ends_with(SHOAL_LOST, "the hub is not connected");
}

static void the_wait_ends_by_itself(void **state) {
    (void)state;
    w->silence = BASE_SECOND / 10;
    ask_hub();
    ends_with(SHOAL_TIMEOUT, "the hub has not answered in time");
    Shoal__Artifact given = answer();
    tell(&given); /* late */
    w->artifacts.there = false;
    over = false;
    assert_int_equal(pthread_create(&thread, NULL, ask_now, NULL), 0);
    ends_with(SHOAL_NOT_FOUND, "the hub has no artifacts");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_that_make_no_sense, begin_asked, end),
        cmocka_unit_test_setup_teardown(who_answers, begin_asked, end),
        cmocka_unit_test_setup_teardown(a_file_that_is_here, begin_asked, end),
        cmocka_unit_test_setup_teardown(the_wait_ends_with_the_hub, begin_asked, end),
        cmocka_unit_test_setup_teardown(the_wait_ends_by_itself, begin_asked, end),
    };
    return cmocka_run_group_tests_name("artifacts that a worker asks for", tests, NULL, NULL);
}
