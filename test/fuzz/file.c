/* A file of tensors, .npy, .safetensors or .gguf: opened, every tensor and metadata value of it
 * read. */
#define _GNU_SOURCE
#include "fuzz.h"
#include "model/file.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST_READ = 1 << 16 };

/* The file itself is mapped. */
size_t fuzz_limit(size_t size) { return 16 * size + (1 << 17) + 2 * MOST_READ; }

static void read_tensor(const shoal_file *file, uint64_t index) {
    shoal_file_tensor tensor;
    FUZZ_CHECK(shoal_file_tensor_at(file, index, &tensor) == SHOAL_OK);
    int64_t elements;
    if (base_type_elements(&tensor.type, &elements) != SHOAL_OK) return;
    int64_t bytes = base_type_bytes(&tensor.type);
    if (bytes > MOST_READ) return;
    uint64_t count = (uint64_t)elements;
    void *to = malloc((size_t)bytes + 1);
    if (!to) return;
    uint64_t first = count / 3;
    if (shoal_file_read(file, index, 0, count, to) == SHOAL_OK) fuzz_accepted++;
    (void)!shoal_file_read(file, index, first, count - first, to);
    (void)!shoal_file_read(file, index, UINT64_MAX - 1, 2, to);
    free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    shoal_file *file;
    if (shoal_file_open(path, &file) != SHOAL_OK) return 0;
    for (uint64_t i = 0; i < shoal_file_count(file) && i < 16; i++) read_tensor(file, i);
    for (uint64_t i = 0; i < file->n_meta && i < 16; i++)
        for (uint64_t e = 0; e < 3; e++) {
            char *text = NULL;
            if (shoal_file_meta(file, file->meta[i].key, e, &text) == SHOAL_OK) free(text);
        }
    shoal_file_close(&file);
    return 0;
}
