/* Writing one tensor to a file, part after part: .npy, .safetensors or .bin. */
#include "model/file.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct shoal_writer {
    char *path, *hidden; /* hidden: beside the path, until all is there */
    int fd;
    uint64_t left; /* bytes of elements that are still to come */
};

static shoal_status put(shoal_writer *w, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes) {
        ssize_t n = write(w->fd, at, bytes < (1 << 30) ? bytes : 1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return base_fail_errno(n < 0 ? errno : EIO, "writing %s", w->path);
        at += n;
        bytes -= (size_t)n;
    }
    return SHOAL_OK;
}

static shoal_status begin(shoal_writer *w, const shoal_type *type) {
    struct stat info;
    base_str head;
    if (!stat(w->path, &info) && !S_ISREG(info.st_mode))
        return base_fail(SHOAL_INVALID, "%s is not a plain file", w->path);
    base_str_init(&head);
    shoal_status status = !strcmp(model_ending(w->path), ".safetensors")
                              ? model_safetensors_header(type, "value", &head)
                          : !strcmp(model_ending(w->path), ".bin")
                              ? model_matrix_header(type, &head)
                              : model_npy_header(type, &head);
    if (status == SHOAL_OK &&
        (w->fd = open(w->hidden, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0)
        status = base_fail_errno(errno, "writing %s", w->path);
    if (status == SHOAL_OK) status = put(w, head.data, head.size);
    base_str_fini(&head);
    return status;
}

shoal_status shoal_writer_open(const char *path, const shoal_type *type, shoal_writer **out) {
    int64_t count;
    *out = NULL;
    if (type->rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "rank %u is over the limit of %d", type->rank,
                         SHOAL_MAX_RANK);
    SHOAL_TRY(base_type_elements(type, &count));
    static atomic_uint counter;
    size_t room = strlen(path) + 48;
    shoal_writer *w = calloc(1, sizeof *w);
    if (w) *w = (shoal_writer){.path = strdup(path), .hidden = malloc(room), .fd = -1};
    if (!w || !w->path || !w->hidden) {
        shoal_writer_close(&w);
        return base_fail(SHOAL_NO_MEMORY, "no memory to write %s", path);
    }
    snprintf(w->hidden, room, "%s.%ld-%u.part", path, (long)getpid(),
             atomic_fetch_add(&counter, 1));
    w->left = (uint64_t)base_type_bytes(type);
    shoal_status status = begin(w, type);
    if (status != SHOAL_OK)
        shoal_writer_close(&w);
    else
        *out = w;
    return status;
}

shoal_status shoal_writer_append(shoal_writer *w, const void *data, uint64_t bytes) {
    if (bytes > w->left)
        return base_fail(SHOAL_INVALID, "%s: %llu bytes more, where %llu are to come", w->path,
                         (unsigned long long)bytes, (unsigned long long)w->left);
    w->left -= bytes;
    return put(w, data, (size_t)bytes);
}

shoal_status shoal_writer_commit(shoal_writer **out) {
    shoal_writer *w = *out;
    shoal_status status = SHOAL_OK;
    if (w->left)
        status = base_fail(SHOAL_INVALID, "%s: %llu bytes are missing", w->path,
                           (unsigned long long)w->left);
    else
        status = fsync(w->fd) ? base_fail_errno(errno, "writing %s", w->path)
                              : base_os_rename(w->hidden, w->path);
    if (status == SHOAL_OK) w->hidden[0] = 0;
    shoal_writer_close(out);
    return status;
}

void shoal_writer_close(shoal_writer **out) {
    shoal_writer *w = *out;
    *out = NULL;
    if (!w) return;
    if (w->fd >= 0) {
        close(w->fd);
        if (w->hidden[0]) unlink(w->hidden);
    }
    free(w->path);
    free(w->hidden);
    free(w);
}

shoal_status shoal_npy_write(const char *path, shoal_dtype dtype, uint32_t rank,
                             const int64_t *dims, const void *data) {
    shoal_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    shoal_writer *writer;
    if (rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "rank %u is over the limit of %d", rank, SHOAL_MAX_RANK);
    if (rank) memcpy(type.dims, dims, rank * sizeof *dims);
    SHOAL_TRY(shoal_writer_open(path, &type, &writer));
    shoal_status status = shoal_writer_append(writer, data, (uint64_t)base_type_bytes(&type));
    if (status == SHOAL_OK) return shoal_writer_commit(&writer);
    shoal_writer_close(&writer);
    return status;
}
