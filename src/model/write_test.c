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

/* In boxes, the last first. */
static void test_boxes(void **state) {
    const shoal_type cube = {SHOAL_I16, 3, {4, 3, 5}};
    int16_t got[60], part[60];
    for (int64_t cut = 0; cut < 3; cut++) {
        const int64_t rows = 1 + cut, columns = 3 - cut;
        shoal_writer *writer;
        shoal_file *file;
        assert_int_equal(shoal_writer_open(in_folder("a.npy"), &cube, &writer), SHOAL_OK);
        for (int64_t i = 4 - 4 % rows; i >= 0; i -= rows)
            for (int64_t k = 5 - 5 % columns; k >= 0; k -= columns) {
                int64_t start[] = {i, 0, k}, size[] = {rows, 3, columns}, n = 0;
                if (size[0] > 4 - i) size[0] = 4 - i;
                if (size[2] > 5 - k) size[2] = 5 - k;
                for (int64_t x = i; x < i + size[0]; x++)
                    for (int64_t y = 0; y < 3; y++)
                        for (int64_t z = k; z < k + size[2]; z++)
                            part[n++] = (int16_t)((x * 3 + y) * 5 + z);
                assert_int_equal(shoal_writer_box(writer, start, size, part), SHOAL_OK);
            }
        assert_int_equal(shoal_writer_commit(&writer), SHOAL_OK);
        assert_int_equal(shoal_file_open(in_folder("a.npy"), &file), SHOAL_OK);
        assert_int_equal(shoal_file_read(file, 0, 0, 60, got), SHOAL_OK);
        for (int i = 0; i < 60; i++) assert_int_equal(got[i], i);
        shoal_file_close(&file);
    }
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
    fails(shoal_writer_box(writer, (int64_t[]){2, 0}, (int64_t[]){2, 1}, data),
          "2 elements from 2 on along axis 0, which has 3");
    fails(shoal_writer_box(writer, (int64_t[]){0, 0}, (int64_t[]){3, 2}, data),
          "24 bytes more, where 16 are to come");
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
        cmocka_unit_test_setup_teardown(test_boxes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong, set_up, tear_down),
        cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
