/* The text of the metrics: form, escapes, what is counted. */
#include "view/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *text_of(const shoal_pool_status *status, const shoal_slot *slots, uint32_t n) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    view_metrics_write(out, status, slots, n, 1);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void has(const char *text, const char *line) {
    const char *at = strstr(text, line);
    if (at == NULL || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line '%s' in:\n%s", line, text);
}

static void test_pool(void **state) {
    const shoal_pool_status status = {.version = "1.2.3",
                                      .epoch = 4,
                                      .uptime_ms = 1500,
                                      .instances = UINT64_C(9007199254740991),
                                      .values = 7,
                                      .bytes = 4096,
                                      .sessions = 3,
                                      .losses = 5,
                                      .reruns = 6};
    const shoal_slot slots[] = {
        {.slot = 0, .compute = true, .worker = "a", .busy_ns = 1234567891, .nodes = 12},
        {.slot = 1,
         .compute = true,
         .worker = "a",
         .sent = 100,
         .received = 50,
         .relayed = 7,
         .paths = 2,
         .paths_lost = 9},
        {.slot = 2, .worker = "client", .bytes = 4096},
        {.slot = 3, .compute = true, .worker = "b", .memory = UINT64_C(1) << 40}};
    char *text = text_of(&status, slots, 4);
    has(text, "shoal_build_info{version=\"1.2.3\"} 1");
    has(text, "# HELP shoal_uptime_seconds Time since the hub was started.");
    has(text, "# TYPE shoal_uptime_seconds gauge");
    has(text, "shoal_uptime_seconds 1.5");
    has(text, "shoal_epoch 4");
    has(text, "shoal_workers 2");
    has(text, "shoal_slots 3");
    has(text, "shoal_sessions 2"); /* the watcher's own is not counted */
    has(text, "# TYPE shoal_instances_total counter");
    has(text, "shoal_instances_total 9007199254740991");
    has(text, "shoal_losses_total 5");
    has(text, "shoal_reruns_total 6");
    has(text, "shoal_device_busy_seconds_total{slot=\"0\",worker=\"a\"} 1.234567891");
    has(text, "shoal_device_sent_bytes_total{slot=\"1\",worker=\"a\"} 100");
    has(text, "shoal_device_relayed_bytes_total{slot=\"1\",worker=\"a\"} 7");
    has(text, "shoal_device_paths{slot=\"1\",worker=\"a\"} 2");
    has(text, "shoal_device_paths_lost_total{slot=\"1\",worker=\"a\"} 9");
    has(text, "shoal_device_memory_bytes{slot=\"3\",worker=\"b\"} 1099511627776");
    assert_null(strstr(text, "slot=\"2\""));
    free(text);
}

static void test_empty(void **state) {
    const shoal_pool_status status = {.version = "1"};
    char *text = text_of(&status, NULL, 0);
    has(text, "shoal_workers 0");
    has(text, "shoal_sessions 0");
    has(text, "# TYPE shoal_device_nodes_total counter");
    assert_null(strstr(text, "slot=\""));
    free(text);
}

static void test_names_from_elsewhere(void **state) {
    static const char *const cases[][2] = {
        {"two\nlines\r", "two\\nlines?"},
        {"\"quoted\" \\", "\\\"quoted\\\" \\\\"},
        {"m\xC3\xBCnchen \xE2\x82\xAC \xF0\x9F\x90\x9F",
         "m\xC3\xBCnchen \xE2\x82\xAC \xF0\x9F\x90\x9F"},
        {"cut \xE2\x82", "cut ??"},
        {"\xFF\xC0\x80", "???"},      /* no UTF-8; an overlong zero */
        {"\xED\xA0\x80", "???"},      /* half of a surrogate pair */
        {"\xF4\x90\x80\x80", "????"}, /* above U+10FFFF */
        {"\x01\x7F", "??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const shoal_pool_status status = {.version = "1"};
        shoal_slot slot = {.compute = true};
        char line[256];
        snprintf(slot.worker, sizeof slot.worker, "%s", cases[i][0]);
        snprintf(line, sizeof line, "shoal_device_nodes_total{slot=\"0\",worker=\"%s\"} 0",
                 cases[i][1]);
        char *text = text_of(&status, &slot, 1);
        has(text, line);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pool), cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_names_from_elsewhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
