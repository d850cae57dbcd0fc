/* Log lines: level, time, name; nothing from elsewhere can pass for a line. And this user's
 * folders. */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/os.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char told[4096];

/* Runs with standard error going to `told`. */
static void listen_to(void (*talk)(void)) {
    int ends[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    talk();
    dup2(saved, STDERR_FILENO);
    ssize_t n = read(ends[0], told, sizeof told - 1);
    told[n > 0 ? n : 0] = 0;
    close(ends[0]);
    close(ends[1]);
    close(saved);
}

static void talk_at_all_levels(void) {
    base_log(BASE_ERROR, "hub", "one");
    base_log(BASE_WARN, "w1", "two");
    base_log(BASE_INFO, "", "three");
    base_log(BASE_DEBUG, "hub", "four");
}

static void test_levels(void **state) {
    static const int lines[] = {1, 2, 3, 4};
    for (int level = BASE_ERROR; level <= BASE_DEBUG; level++) {
        int count = 0;
        base_log_set((base_log_level)level);
        listen_to(talk_at_all_levels);
        for (const char *c = told; *c; c++) count += *c == '\n';
        assert_int_equal(count, lines[level]);
    }
    assert_non_null(strstr(told, "Z error hub: one\n"));
    assert_non_null(strstr(told, "Z warn w1: two\n"));
    assert_non_null(strstr(told, "Z info shoal: three\n"));
    assert_non_null(strstr(told, "Z debug hub: four\n"));
}

static void talk_strangely(void) {
    base_log(BASE_ERROR, "w\n1", "a name: %s",
             "x\n2026-01-01T00:00:00.000Z info hub: all well\x1b[2J");
}

static void test_one_line_each(void **state) {
    struct tm utc;
    time_t before = time(NULL);
    listen_to(talk_strangely);
    char *rest = strptime(told, "%Y-%m-%dT%H:%M:%S", &utc);
    assert_non_null(rest);
    assert_true(timegm(&utc) >= before - 1 && timegm(&utc) <= before + 5);
    assert_int_equal(rest[0], '.');
    assert_string_equal(rest + 4,
                        "Z error w?1: a name: x?2026-01-01T00:00:00.000Z info hub: all well?[2J\n");
}

static void test_folders(void **state) {
    char base[] = "/tmp/shoal-test-XXXXXX", path[256], want[256];
    assert_non_null(mkdtemp(base));
    setenv("HOME", base, 1);
    unsetenv("XDG_STATE_HOME");
    snprintf(want, sizeof want, "%s/.local/state/shoal", base);
    assert_int_equal(base_os_state_folder(false, path, sizeof path), SHOAL_NOT_FOUND);
    assert_string_equal(path, want);
    assert_int_equal(base_os_state_folder(true, path, sizeof path), SHOAL_OK);
    chmod(path, 0755);
    assert_int_equal(base_os_state_folder(true, path, sizeof path), SHOAL_DENIED);
    assert_non_null(strstr(shoal_error_message(), "open to others (mode 755): chmod 700 it"));
    rmdir(path);
    setenv("XDG_STATE_HOME", base, 1);
    assert_int_equal(base_os_state_folder(true, path, sizeof path), SHOAL_OK);
    assert_int_equal(strncmp(path, base, strlen(base)), 0);
    assert_string_equal(path + strlen(base), "/shoal");
    rmdir(path);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_int_equal(base_os_state_folder(true, path, sizeof path), SHOAL_NOT_FOUND);
    assert_non_null(strstr(shoal_error_message(), "set HOME or XDG_STATE_HOME"));
    setenv("HOME", "/proc/none", 1);
    assert_int_not_equal(base_os_state_folder(true, path, sizeof path), SHOAL_OK);
    assert_non_null(strstr(shoal_error_message(), "(XDG_STATE_HOME names another place)"));
    unsetenv("HOME");
    char most[8];
    setenv("XDG_STATE_HOME", base, 1);
    assert_int_equal(base_os_state_folder(true, most, sizeof most), SHOAL_INVALID);
    for (const char *below[] = {"/.local/state", "/.local", "", NULL}, **b = below; *b; b++) {
        snprintf(want, sizeof want, "%s%s", base, *b);
        assert_int_equal(rmdir(want), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels),
                                       cmocka_unit_test(test_one_line_each),
                                       cmocka_unit_test(test_folders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
