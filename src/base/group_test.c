/* Limits of control groups, of both versions, as files that look like the kernel's. */
#define _GNU_SOURCE
#include "base/os_group.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[64];

static int setup(void **state) {
    snprintf(root, sizeof root, "/tmp/shoal-group-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* A file below the root, and the folders that lead there. */
static void put(const char *path, const char *text) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static base_group limits(const char *groups) {
    char path[128];
    base_group found;
    put("self", groups);
    snprintf(path, sizeof path, "%s/self", root);
    base_group_read(path, root, &found);
    return found;
}

static void assert_limits(base_group found, double cores, uint64_t memory) {
    assert_true(found.cores == cores);
    assert_int_equal(found.memory, memory);
}

static void test_version_2(void **state) {
    put("a/b/cpu.max", "150000 100000\n");
    put("a/b/memory.max", "max\n");
    put("a/cpu.max", "max 100000\n");
    put("a/memory.max", "1073741824\n");
    assert_limits(limits("0::/a/b\n"), 1.5, 1 << 30);
    assert_limits(limits("0::/a\n"), INFINITY, 1 << 30);
    assert_limits(limits("0::/\n"), INFINITY, UINT64_MAX);
}

static void test_version_1(void **state) {
    const char *groups =
        "9:memory:/box/one\n4:cpu,cpuacct:/box\n3:cpuset:/\n1:name=systemd:/x\n0::/\n";
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/box/one/memory.limit_in_bytes", "536870912\n");
    put("cpu/box/cpu.cfs_quota_us", "-1\n");
    put("cpu/box/cpu.cfs_period_us", "100000\n");
    assert_limits(limits(groups), INFINITY, 512 << 20);
    put("cpu/box/cpu.cfs_quota_us", "33000\n");
    assert_limits(limits(groups), 0.33, 512 << 20);
    assert_limits(limits("5:cpuset,cpu:/box\n"), 0.33, UINT64_MAX);
    assert_limits(limits("5:cpuset:/box\n"), INFINITY, UINT64_MAX);
}

/* Of a container that sees its own groups at the top, under a path of the machine. */
static void test_a_path_of_the_machine(void **state) {
    put("cpu.max", "50000 100000\n");
    put("memory.max", "4096\n");
    assert_limits(limits("0::/docker/0123456789abcdef\n"), 0.5, 4096);
}

static void test_nothing_that_can_be_read(void **state) {
    base_group found;
    base_group_read("/nowhere/at/all", root, &found);
    assert_limits(found, INFINITY, UINT64_MAX);
    put("a/cpu.max", "many few\n");
    put("a/memory.max", "\n");
    assert_limits(limits("0::/a\nnonsense\n7:cpu\n::\n\n"), INFINITY, UINT64_MAX);
    put("a/cpu.max", "0 0\n");
    put("a/memory.max", "-3\n");
    assert_true(limits("0::/a\n").cores == INFINITY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_version_2, setup, teardown),
        cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_path_of_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_that_can_be_read, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
