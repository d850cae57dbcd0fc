/* Where boxes of a tensor lie in its file: each element of a box is where the region says, in files
 * of either order of axes and bytes. */
#include "model/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { A = 3, B = 4, C = 5 };

/* A .npy of int16 A x B x C: element number i is i, in the order in which the file has them. */
static shoal_file *numbers(bool fortran, bool swapped) {
    char path[] = "/tmp/shoal-region-XXXXXX", head[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '%ci2', 'fortran_order': %s, 'shape': (%d, %d, %d), }",
                     swapped ? '>' : '<', fortran ? "True" : "False", A, B, C);
    memset(head + 10 + n, ' ', 118 - (size_t)n);
    head[127] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_int_equal(write(fd, head, 128), 128);
    for (int i = 0; i < A * B * C; i++) {
        uint8_t bytes[] = {(uint8_t)(swapped ? 0 : i), (uint8_t)(swapped ? i : 0)};
        assert_int_equal(write(fd, bytes, 2), 2);
    }
    close(fd);
    shoal_file *file;
    assert_int_equal(shoal_file_open(path, &file), SHOAL_OK);
    unlink(path);
    return file;
}

static void test_boxes(void **state) {
    static const int64_t boxes[][6] = {{0, 0, 0, A, B, C}, {1, 0, 0, 2, B, C}, {0, 1, 2, A, 2, 3},
                                       {2, 3, 4, 1, 1, 1}, {1, 2, 0, 1, 1, C}, {0, 0, 3, A, B, 0}};
    for (int kind = 0; kind < 4; kind++) {
        bool fortran = kind & 1, swapped = kind & 2;
        shoal_file *file = numbers(fortran, swapped);
        for (size_t b = 0; b < sizeof boxes / sizeof *boxes; b++) {
            base_box box = {.rank = 3};
            int16_t copy[A * B * C];
            model_region region;
            memcpy(box.start, boxes[b], 3 * sizeof *boxes[b]);
            memcpy(box.size, boxes[b] + 3, 3 * sizeof *boxes[b]);
            assert_int_equal(model_file_region(file, 0, &box, &region), SHOAL_OK);
            assert_int_equal(model_file_copy(file, 0, &box, copy), SHOAL_OK);
            assert_int_equal(region.swapped, swapped);
            assert_int_equal(region.bytes, 2 * base_box_count(&box));
            assert_int_equal(region.offset % region.alignment, 0);
            int at = 0;
            for (int64_t i = 0; i < box.size[0]; i++)
                for (int64_t k = 0; k < box.size[1]; k++)
                    for (int64_t l = 0; l < box.size[2]; l++, at++) {
                        int64_t x = box.start[0] + i, y = box.start[1] + k, z = box.start[2] + l;
                        int64_t want = fortran ? x + A * (y + B * z) : (x * B + y) * C + z;
                        const uint8_t *byte = file->data + region.offset + i * region.strides[0] +
                                              k * region.strides[1] + l * region.strides[2];
                        assert_int_equal(byte[swapped], want);
                        assert_int_equal(copy[at], want);
                        if (region.dense)
                            assert_ptr_equal(byte, file->data + region.offset + 2 * at);
                    }
            bool dense = b == 3 || b == 5 || (!fortran && (b < 2 || b == 4));
            assert_int_equal(region.dense, dense);
        }
        base_box outside = {.rank = 3, .start = {0, 0, 1}, .size = {A, B, C}};
        model_region region;
        assert_int_equal(model_file_region(file, 0, &outside, &region), SHOAL_INVALID);
        assert_non_null(strstr(shoal_error_message(), "a box of rank 3 that is not inside ''"));
        shoal_file_close(&file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boxes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
