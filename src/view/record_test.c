/* Records: events of several processes brought together on one clock; as a file and back; as a
 * picture. */
#include "view/chrome.h"
#include "view/text.h"
#include "view/timeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cjson/cJSON.h>

/* What fontconfig keeps for ever is no leak of ours. */
SHOAL_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libfontconfig\n"; }

#define MS INT64_C(1000000)

static const shoal_slot slots[] = {
    {.slot = 0, .compute = true, .worker = "left", .backend = "cpu"},
    {.slot = 1, .compute = true, .worker = "<right>&\"", .backend = "cpu"},
    {.slot = 2, .compute = true, .worker = "idle", .backend = "ref"},
    {.slot = 3, .worker = "python"}};

/* A pool of which "right" has a clock 1000 ms before the hub's, and leaves in the end. */
enum { AHEAD = 1000 };

static shoal_event at(int64_t ms, shoal_event_kind kind, shoal_event_phase phase, uint32_t slot,
                      const char *label) {
    shoal_event event = {.at = ms * MS,
                         .kind = (uint8_t)kind,
                         .phase = (uint8_t)phase,
                         .slot = slot,
                         .peer = SHOAL_NO_SLOT,
                         .instance = 7};
    snprintf(event.label, sizeof event.label, "%s", label);
    return event;
}

static shoal_event with(shoal_event event, uint32_t peer, uint64_t bytes) {
    event.peer = peer;
    event.bytes = bytes;
    return event;
}

static void say(view_recorder *r, uint32_t peer, const char *name, int64_t now, int64_t ahead,
                const shoal_event *events, size_t n) {
    const shoal_event_source source = {.peer = peer,
                                       .name = name,
                                       .answered = now >= 0,
                                       .now = (now + ahead) * MS,
                                       .offset = ahead * MS,
                                       .doubt = ahead == AHEAD ? 20000
                                                : ahead != 0   ? 900 * MS
                                                               : 0,
                                       .lost = peer == 0 ? 1 : 0};
    view_recorder_take(r, &source, events, n);
}

#define SAY(r, peer, name, now, ahead, ...)                                                        \
    do {                                                                                           \
        const shoal_event events_[] = {__VA_ARGS__};                                               \
        say(r, peer, name, now, ahead, events_, sizeof events_ / sizeof *events_);                 \
    } while (0)

#define B SHOAL_EVENT_BEGIN
#define E SHOAL_EVENT_END

static void record(view_record *out) {
    view_recorder *r = view_recorder_new();
    assert_non_null(r);
    view_recorder_slots(r, slots, 4);
    say(r, 0, "hub", 5000, 0, NULL, 0);
    say(r, 1, "left", 5000, 0, NULL, 0);
    say(r, 2, "<right>&\"", 5060, AHEAD - 60, NULL, 0); /* what it takes its clock for at first */
    say(r, 3, "python", 5000, 0, NULL, 0);
    say(r, 4, "idle", 5000, 0, NULL, 0);
    SAY(r, 0, "hub", 5050, 0, at(5002, SHOAL_EVENT_JOIN, SHOAL_EVENT_AT, SHOAL_NO_SLOT, "new"),
        at(5040, SHOAL_EVENT_FINISH, SHOAL_EVENT_AT, SHOAL_NO_SLOT, "OK"));
    SAY(r, 1, "left", 5050, 0, at(5005, SHOAL_EVENT_COMPUTE, E, 0, "add[4]"), /* it began before */
        at(5010, SHOAL_EVENT_RUN, SHOAL_EVENT_AT, 0, ""),
        at(5010, SHOAL_EVENT_COMPUTE, B, 0, "dot_general[2,3], add"),
        at(5030, SHOAL_EVENT_COMPUTE, E, 0, "dot_general[2,3], add"),
        with(at(5031, SHOAL_EVENT_SEND, B, 0, ""), 1, 4096),
        with(at(5033, SHOAL_EVENT_SEND, E, 0, ""), 1, 4096));
    SAY(r, 2, "<right>&\"", 5050, AHEAD,
        with(at(5032 + AHEAD, SHOAL_EVENT_RECEIVE, B, 1, ""), 0, 4096),
        with(at(5034 + AHEAD, SHOAL_EVENT_RECEIVE, E, 1, ""), 0, 4096),
        at(5034 + AHEAD, SHOAL_EVENT_COMPUTE, B, 1, "multiply[\xff<9>]"));
    SAY(r, 3, "python", 5050, 0, at(5001, SHOAL_EVENT_SUBMIT, SHOAL_EVENT_AT, 3, "dot_general"),
        at(5001, SHOAL_EVENT_READ, B, 3, "float32[2, 3]"),
        at(5041, SHOAL_EVENT_READ, E, 3, "float32[2, 3]"));
    say(r, 4, "idle", 5050, 0, NULL, 0);
    SAY(r, 0, "hub", 5100, 0,
        at(5060, SHOAL_EVENT_LOSS, SHOAL_EVENT_AT, SHOAL_NO_SLOT, "right: gone"));
    say(r, 1, "left", 5101, 0, NULL, 0);
    say(r, 2, "<right>&\"", -1, 0, NULL, 0); /* asked, but no answer */
    assert_true(view_recorder_close(r, out));
    view_recorder_free(r);
}

static const view_span *find(const view_record *record, uint8_t kind, uint32_t slot, int skip) {
    for (size_t i = 0; i < record->n_spans; i++)
        if (record->spans[i].kind == kind && record->lanes[record->spans[i].lane].slot == slot &&
            skip-- == 0)
            return &record->spans[i];
    fail_msg("no %s of slot %u", shoal_event_name(kind), slot);
    return NULL;
}

static void near(double got, double want) {
    if (got < want - 1e-9 || got > want + 1e-9) fail_msg("%.9f, not %.9f", got, want);
}

/* What is to be seen, in the record itself and in what was read back from the file. */
static void check(const view_record *r) {
    near(r->seconds, 0.1);
    assert_int_equal(r->lost, 3);
    assert_int_equal(r->n_lanes, 5); /* three workers, the hub, a client */
    assert_string_equal(r->lanes[1].name, "<right>&\"");
    assert_true(r->lanes[1].lost && !r->lanes[0].lost);
    assert_int_equal(r->lanes[2].role, VIEW_WORKER);
    /* Cut at the begin of the record, whole, and cut where its process was last heard. */
    const view_span *cut = find(r, SHOAL_EVENT_COMPUTE, 0, 0);
    near(cut->from, 0);
    near(cut->to, 0.005);
    assert_true(cut->cut);
    const view_span *whole = find(r, SHOAL_EVENT_COMPUTE, 0, 1);
    near(whole->from, 0.010);
    near(whole->to, 0.030);
    assert_false(whole->cut);
    assert_string_equal(r->labels[whole->label], "dot_general[2,3], add");
    const view_span *open = find(r, SHOAL_EVENT_COMPUTE, 1, 0);
    near(open->from, 0.034);
    near(open->to, 0.050);
    assert_true(open->cut);
    /* One clock: what was sent first comes later. */
    const view_span *send = find(r, SHOAL_EVENT_SEND, 0, 0);
    const view_span *receive = find(r, SHOAL_EVENT_RECEIVE, 1, 0);
    near(send->from, 0.031);
    near(receive->from, 0.032);
    near(receive->to, 0.034);
    assert_int_equal(receive->peer, 0);
    view_lane_sum left = view_sum(r, 0), right = view_sum(r, 1);
    near(left.busy, 0.025);
    assert_int_equal(left.computed, 2);
    assert_int_equal(left.runs, 1);
    assert_int_equal(left.sent, 4096);
    assert_int_equal(right.received, 4096);
    view_operation_sum sums[8];
    assert_int_equal(view_operations(r, sums, 8), 3);
    near(sums[0].seconds, 0.020);
    assert_true(find(r, SHOAL_EVENT_JOIN, SHOAL_NO_SLOT, 0)->mark);
}

static void test_record(void **state) {
    view_record r;
    record(&r);
    check(&r);
    near(r.doubt, 20e-6);
    view_record_fini(&r);
}

static char *chrome_of(const view_record *r, size_t *size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    assert_non_null(out);
    assert_true(view_chrome_write(out, r));
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_there_and_back(void **state) {
    view_record r, again;
    char error[200];
    size_t size;
    record(&r);
    char *text = chrome_of(&r, &size);
    assert_true(view_chrome_read(text, size, &again, error, sizeof error));
    check(&again);
    assert_int_equal(again.n_spans, r.n_spans);
    view_record_fini(&r);
    view_record_fini(&again);
    /* The format's own rules: names, phases, times in microseconds. */
    cJSON *json = cJSON_ParseWithLength(text, size), *event;
    assert_non_null(json);
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(json, "traceEvents")) {
        const char *phase = cJSON_GetObjectItem(event, "ph")->valuestring;
        assert_int_equal(strlen(phase), 1);
        assert_non_null(strchr("XMibe", phase[0]));
        assert_true(cJSON_IsString(cJSON_GetObjectItem(event, "name")));
        assert_true(cJSON_IsNumber(cJSON_GetObjectItem(event, "pid")));
        if (phase[0] == 'M') continue;
        assert_true(cJSON_GetObjectItem(event, "ts")->valuedouble >= 0);
        assert_true(cJSON_IsNumber(cJSON_GetObjectItem(event, "tid")));
        assert_int_equal(phase[0] == 'X', cJSON_IsNumber(cJSON_GetObjectItem(event, "dur")));
        assert_int_equal(phase[0] == 'b' || phase[0] == 'e',
                         cJSON_IsNumber(cJSON_GetObjectItem(event, "id")));
        assert_int_equal(phase[0] == 'i', cJSON_IsString(cJSON_GetObjectItem(event, "s")));
    }
    cJSON_Delete(json);
    free(text);
}

static void refused(const char *text, const char *why) {
    view_record r;
    char error[200];
    assert_false(view_chrome_read(text, strlen(text), &r, error, sizeof error));
    assert_non_null(strstr(error, why));
    view_record_fini(&r);
}

static void test_wrong_files(void **state) {
    refused("", "this is no JSON");
    refused("{\"traceEvents\":[", "this is no JSON");
    refused("[]", "no trace that `shoal trace` wrote");
    refused("{\"traceEvents\":[],\"otherData\":{\"made_by\":\"else\"}}", "no trace that");
}

/* Whether every element is closed, in turn, and no markup comes from elsewhere. */
static void check_xml(const char *text) {
    char stack[16][16];
    int depth = 0;
    for (const char *c = strchr(text + 2, '<'); c != NULL; c = strchr(c + 1, '<')) {
        size_t n = strcspn(c + 1, " >/");
        const char *end = strchr(c, '>');
        assert_non_null(end);
        if (c[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_int_equal(strncmp(c + 2, stack[depth], strlen(stack[depth])), 0);
        } else if (end[-1] != '/') {
            assert_true(depth < 16 && n < 16);
            memcpy(stack[depth], c + 1, n);
            stack[depth++][n] = 0;
        }
    }
    assert_int_equal(depth, 0);
}

static char *svg_of(const view_record *r, double width) {
    char *text = NULL;
    size_t size;
    view_canvas canvas;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    view_svg_begin(out, width, view_timeline_height(r, width), &canvas);
    assert_true(view_timeline_draw(r, width, &canvas));
    view_svg_end(out);
    assert_int_equal(fclose(out), 0);
    check_xml(text);
    return text;
}

static void has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("no '%s' in:\n%s", part, text);
}

static void test_picture(void **state) {
    view_record r;
    record(&r);
    char *text = svg_of(&r, 1200);
    has(text, "&lt;right&gt;&amp;&quot;");
    has(text, ">dot_general 49 %<");
    has(text, "loss: right: gone");
    has(text, "dot_general[2,3], add, 20 ms");
    has(text, "4.0 KiB from left, 2 ms");
    has(text, "cpu, 25 % busy");
    has(text, "client, 1 program<");
    has(text, "3 workers, 1 program, ");
    has(text, "3 events are missing");
    assert_null(strstr(text, "<right>"));
    assert_null(strstr(text, "\xff"));
    free(text);
    free(svg_of(&r, VIEW_TIMELINE_LEAST));
    free(svg_of(&r, VIEW_TIMELINE_MOST));
    view_record_fini(&r);
}

static void test_nothing(void **state) {
    view_record none = {0};
    size_t size;
    char error[200], *text = svg_of(&none, 800);
    has(text, "nothing happened");
    free(text);
    text = chrome_of(&none, &size);
    assert_true(view_chrome_read(text, size, &none, error, sizeof error));
    view_record_fini(&none);
    free(text);
}

/* However much there is, a picture stays small. */
static void test_flood(void **state) {
    enum { MANY = 300000 };
    view_recorder *r = view_recorder_new();
    view_record out;
    assert_non_null(r);
    view_recorder_slots(r, slots, 1);
    say(r, 0, "hub", 0, 0, NULL, 0);
    say(r, 1, "left", 0, 0, NULL, 0);
    say(r, 0, "hub", 1000, 0, NULL, 0);
    for (int i = 0; i < MANY; i++) {
        shoal_event events[] = {at(0, SHOAL_EVENT_COMPUTE, B, 0, i % 3 ? "add[1]" : "multiply[1]"),
                                at(0, SHOAL_EVENT_COMPUTE, E, 0, "")};
        events[0].instance = events[1].instance = (uint64_t)i;
        events[0].at = i * INT64_C(3000);
        events[1].at = events[0].at + 1500;
        const shoal_event_source source = {
            .peer = 1, .name = "left", .answered = true, .now = 1000 * MS};
        view_recorder_take(r, &source, events, 2);
    }
    assert_int_equal(view_recorder_count(r), 2 * MANY);
    assert_true(view_recorder_close(r, &out));
    view_recorder_free(r);
    assert_int_equal(out.n_spans, MANY);
    near(view_sum(&out, 0).busy, MANY * 1.5e-6);
    char *text = svg_of(&out, 1200);
    assert_in_range(strlen(text), 1000, 400000);
    free(text);
    view_record_fini(&out);
}

static void test_text(void **state) {
    char out[64];
    assert_string_equal(view_text_fit("dot_general", 10, 1000, out, sizeof out), "dot_general");
    assert_string_equal(view_text_fit("dot_general", 10, 32, out, sizeof out), "dot_\xE2\x80\xA6");
    assert_string_equal(view_text_fit("dot_general", 10, 3, out, sizeof out), "");
    view_operation("dot_general[2,3], add", out, sizeof out);
    assert_string_equal(out, "dot_general");
}

static void test_png(void **state) {
    view_record r;
    view_canvas canvas;
    view_png *png;
    char error[200];
    record(&r);
    double height = view_timeline_height(&r, 800);
    if (!view_png_begin(800, height, 1.5, &png, &canvas, error, sizeof error)) {
        has(error, "no cairo");
        view_record_fini(&r);
        skip();
    }
    FILE *out = tmpfile();
    unsigned char head[24];
    assert_non_null(out);
    assert_true(view_timeline_draw(&r, 800, &canvas));
    assert_true(view_png_end(&png, out, error, sizeof error));
    rewind(out);
    assert_int_equal(fread(head, 1, sizeof head, out), sizeof head);
    assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
    assert_int_equal(head[18] << 8 | head[19], 1200);
    fclose(out);
    view_record_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record),      cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_picture),
        cmocka_unit_test(test_nothing),     cmocka_unit_test(test_flood),
        cmocka_unit_test(test_text),        cmocka_unit_test(test_png)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
