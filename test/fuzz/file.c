/* A file of tensors, .npy, .safetensors, .gguf, .pt or .bin: opened, every tensor and metadata
 * value of it read. */
#define _GNU_SOURCE
#include "fuzz.h"
#include "model/file.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST_READ = 1 << 16 };

/* The file itself is mapped. What the program in a .pt makes is larger than the program. */
size_t fuzz_limit(size_t size) { return 160 * size + (1 << 18) + 2 * MOST_READ; }

/* Some boxes of what is stored: where they lie is inside the file, and a copy of them too. */
static void read_boxes(const shoal_file *file, uint64_t index, const shoal_type *stored) {
    base_box box = {.rank = stored->rank};
    for (uint32_t turn = 0; turn < 3; turn++) {
        model_region region;
        for (uint32_t a = 0; a < box.rank; a++) {
            box.start[a] = turn == 0 ? 0 : stored->dims[a] / (turn + 1);
            box.size[a] = (stored->dims[a] - box.start[a]) / (turn == 2 ? 2 : 1);
        }
        FUZZ_CHECK(model_file_region(file, index, &box, &region) == SHOAL_OK);
        uint64_t last = region.offset;
        for (uint32_t a = 0; a < box.rank && region.bytes; a++)
            last += (uint64_t)((box.size[a] - 1) * region.strides[a]);
        FUZZ_CHECK(!region.bytes ||
                   last + shoal_dtype_size((shoal_dtype)stored->dtype) <= file->bytes);
        if (region.bytes > MOST_READ) continue;
        void *to = malloc((size_t)region.bytes + 1);
        if (to) FUZZ_CHECK(model_file_copy(file, index, &box, to) == SHOAL_OK);
        free(to);
    }
    if (!box.rank) return;
    box.start[0] = stored->dims[0];
    box.size[0] = 1;
    FUZZ_CHECK(model_file_copy(file, index, &box, NULL) == SHOAL_INVALID);
}

static void read_tensor(const shoal_file *file, uint64_t index) {
    shoal_file_tensor tensor;
    FUZZ_CHECK(shoal_file_tensor_at(file, index, &tensor) == SHOAL_OK);
    FUZZ_CHECK(tensor.offset <= file->bytes && tensor.bytes <= file->bytes - tensor.offset);
    read_boxes(file, index, &tensor.stored);
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
    for (uint64_t i = 0; i < shoal_file_fact_count(file) && i < 16; i++) {
        shoal_file_fact fact;
        FUZZ_CHECK(shoal_file_fact_at(file, i, &fact) == SHOAL_OK && fact.key && fact.type);
        for (uint64_t e = 0; e < 3; e++) {
            char *text = NULL;
            if (shoal_file_meta(file, fact.key, e, &text) == SHOAL_OK) free(text);
        }
    }
    shoal_file_close(&file);
    return 0;
}
