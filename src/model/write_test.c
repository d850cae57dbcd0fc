/* Files that are written part after part: they appear when they are complete, or not at all. */
#include "model/file.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int count_files(void) {
    int count = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries != NULL && (e = readdir(entries)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(entries);
    return count;
}

static int set_up(void **state) {
    strcpy(folder, "/tmp/shoal-write-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state) {
    unlink(in_folder("a.npy"));
    unlink(in_folder("a.safetensors"));
    return rmdir(folder);
}

static const shoal_type type = {SHOAL_F32, 2, {3, 2}};
static const float data[] = {1, 2, 3, 4, 5, 6};

/* Row after row, and read again. */
static void test_parts(void **state) {
    const char *const names[] = {"a.npy", "a.safetensors"};
    for (int i = 0; i < 2; i++) {
        shoal_writer *writer;
        shoal_file *file;
        uint64_t index;
        float got[6] = {0};
        assert_int_equal(shoal_writer_open(in_folder(names[i]), &type, &writer), SHOAL_OK);
        for (int row = 0; row < 3; row++)
            assert_int_equal(shoal_writer_append(writer, data + 2 * row, 8), SHOAL_OK);
        assert_int_equal(access(in_folder(names[i]), F_OK), -1);
        assert_int_equal(shoal_writer_commit(&writer), SHOAL_OK);
        assert_null(writer);
        assert_int_equal(shoal_file_open(in_folder(names[i]), &file), SHOAL_OK);
        assert_int_equal(shoal_file_find(file, i == 0 ? NULL : "value", &index), SHOAL_OK);
        assert_int_equal(shoal_file_read(file, index, 0, 6, got), SHOAL_OK);
        assert_memory_equal(got, data, sizeof data);
        /* Elements are where they may be used in place. */
        assert_non_null(model_file_direct(file, index));
        shoal_file_close(&file);
    }
    assert_int_equal(count_files(), 2);
}

static void fails(shoal_status status, const char *why) {
    assert_int_not_equal(status, SHOAL_OK);
    if (strstr(shoal_error_message(), why) == NULL)
        fail_msg("'%s' is not in: %s", why, shoal_error_message());
}

static void test_wrong(void **state) {
    shoal_writer *writer;
    const shoal_type half = {SHOAL_BF16, 1, {2}};
    const shoal_type huge = {SHOAL_F64, 2, {INT64_MAX / 2, 16}};
    assert_int_equal(shoal_writer_open(in_folder("b.npy"), &type, &writer), SHOAL_OK);
    assert_int_equal(shoal_writer_append(writer, data, 8), SHOAL_OK);
    fails(shoal_writer_append(writer, data, 17), "17 bytes more, where 16 are to come");
    fails(shoal_writer_commit(&writer), "16 bytes are missing");
    assert_null(writer);
    assert_int_equal(shoal_writer_open(in_folder("b.npy"), &type, &writer), SHOAL_OK);
    shoal_writer_close(&writer);
    fails(shoal_writer_open(in_folder("b.npy"), &half, &writer), "bfloat16");
    assert_null(writer);
    fails(shoal_writer_open(in_folder("b.npy"), &huge, &writer), "larger than");
    fails(shoal_writer_open(folder, &type, &writer), "is not a plain file");
    fails(shoal_writer_open(in_folder("none/b.npy"), &type, &writer), "No such file");
    shoal_writer_close(&writer); /* of what could not be opened: nothing */
    assert_int_equal(count_files(), 0);
}

static void test_bytes(void **state) {
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {999, "999 B"},
                 {1000, "1.0 KiB"},
                 {1536, "1.5 KiB"},
                 {102400, "100 KiB"},
                 {1 << 20, "1.0 MiB"},
                 {17ULL << 30, "17.0 GiB"},
                 {UINT64_MAX, "16.0 EiB"}};
    char text[SHOAL_BYTES_ROOM];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(shoal_bytes_text(cases[i].bytes, text), cases[i].text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong, set_up, tear_down),
        cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
