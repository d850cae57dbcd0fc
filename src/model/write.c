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
    char *path, *draft; /* draft: its name beside the path, until all is there */
    int fd;
    bool named; /* it has that name already */
    shoal_type type;
    uint64_t head; /* bytes before the elements */
    uint64_t at;   /* where the next of those that are appended goes */
    uint64_t left; /* bytes of elements that are still to come */
};

static shoal_status put(shoal_writer *w, uint64_t to, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes) {
        ssize_t n = pwrite(w->fd, at, bytes < (1 << 30) ? bytes : 1 << 30, (off_t)to);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return base_fail_errno(n < 0 ? errno : EIO, "writing %s", w->path);
        at += n;
        to += (uint64_t)n;
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
    if (status == SHOAL_OK) status = base_os_draft_open(w->path, w->draft, &w->fd, &w->named);
    if (status == SHOAL_OK) status = put(w, 0, head.data, head.size);
    w->head = w->at = head.size;
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
    if (w)
        *w = (shoal_writer){.path = strdup(path), .draft = malloc(room), .fd = -1, .type = *type};
    if (!w || !w->path || !w->draft) {
        shoal_writer_close(&w);
        return base_fail(SHOAL_NO_MEMORY, "no memory to write %s", path);
    }
    snprintf(w->draft, room, "%s.%ld-%u.part", path, (long)getpid(), atomic_fetch_add(&counter, 1));
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
    SHOAL_TRY(put(w, w->at, data, (size_t)bytes));
    w->at += bytes;
    w->left -= bytes;
    return SHOAL_OK;
}

shoal_status shoal_writer_box(shoal_writer *w, const int64_t *start, const int64_t *size,
                              const void *data) {
    const shoal_type *type = &w->type;
    int64_t strides[SHOAL_MAX_RANK + 1], at[SHOAL_MAX_RANK] = {0};
    int64_t run = (int64_t)shoal_dtype_size((shoal_dtype)type->dtype), step = run, all = run;
    uint32_t rank = type->rank;
    for (uint32_t a = rank; a-- > 0; step *= type->dims[a]) {
        if (start[a] < 0 || size[a] < 0 || start[a] > type->dims[a] ||
            size[a] > type->dims[a] - start[a])
            return base_fail(
                SHOAL_INVALID, "%s: %lld elements from %lld on along axis %u, which has %lld",
                w->path, (long long)size[a], (long long)start[a], a, (long long)type->dims[a]);
        strides[a] = step;
        all *= size[a];
    }
    if ((uint64_t)all > w->left)
        return base_fail(SHOAL_INVALID, "%s: %lld bytes more, where %llu are to come", w->path,
                         (long long)all, (unsigned long long)w->left);
    w->left -= (uint64_t)all;
    /* Axes at the end that are whole go at once, with the one before them. */
    uint64_t first = w->head;
    for (uint32_t a = 0; a < rank; a++) first += (uint64_t)(start[a] * strides[a]);
    while (rank && run == strides[rank - 1]) run *= size[--rank];
    for (const char *from = data; all > 0; all -= run, from += run) {
        uint64_t to = first;
        for (uint32_t a = 0; a < rank; a++) to += (uint64_t)(at[a] * strides[a]);
        SHOAL_TRY(put(w, to, from, (size_t)run));
        for (uint32_t a = rank; a-- > 0 && ++at[a] == size[a];) at[a] = 0;
    }
    return SHOAL_OK;
}

shoal_status shoal_writer_commit(shoal_writer **out) {
    shoal_writer *w = *out;
    shoal_status status = SHOAL_OK;
    if (w->left)
        status = base_fail(SHOAL_INVALID, "%s: %llu bytes are missing", w->path,
                           (unsigned long long)w->left);
    else if (fsync(w->fd))
        status = base_fail_errno(errno, "writing %s", w->path);
    if (status == SHOAL_OK && !w->named) {
        status = base_os_draft_name(w->fd, w->draft);
        w->named = status == SHOAL_OK;
    }
    if (status == SHOAL_OK) status = base_os_rename(w->draft, w->path);
    if (status == SHOAL_OK) w->named = false;
    shoal_writer_close(out);
    return status;
}

void shoal_writer_close(shoal_writer **out) {
    shoal_writer *w = *out;
    *out = NULL;
    if (!w) return;
    if (w->fd >= 0) {
        close(w->fd);
        if (w->named) unlink(w->draft);
    }
    free(w->path);
    free(w->draft);
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
