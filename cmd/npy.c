#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Version 1.0: magic, length of the text, the text padded so that the data starts at 128. */
static int write_header(cmd_npy *npy, shoal_dtype dtype, int64_t rows, int64_t columns) {
    enum { HEADER = 128, MAGIC = 10 };
    char header[HEADER + 1];
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER - MAGIC;
    header[9] = 0;
    int n = snprintf(header + MAGIC, HEADER - MAGIC,
                     "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%lld, %lld), }",
                     shoal_dtype_size(dtype), (long long)rows, (long long)columns);
    memset(header + MAGIC + n, ' ', (size_t)(HEADER - MAGIC - n));
    header[HEADER - 1] = '\n';
    return npy_append(npy, header, HEADER);
}

int npy_open(const char *path, bool overwrite, shoal_dtype dtype, int64_t rows, int64_t columns,
             cmd_npy *out) {
    struct stat info;
    const char *slash = strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
    *out = (cmd_npy){.path = path, .file = -1};
    if (stat(path, &info) == 0) {
        if (!S_ISREG(info.st_mode)) return cmd_fail("%s: is not a plain file", path);
        if (!overwrite) return cmd_fail("%s: is there already; --force overwrites it", path);
    }
    int length = snprintf(out->hidden, sizeof out->hidden, "%.*s.%s.%ld.part", folder, path,
                          path + folder, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof out->hidden)
        return cmd_fail("%s: the path is too long", path);
    out->file = open(out->hidden, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (out->file < 0) return cmd_fail("writing %s: %s", path, strerror(errno));
    int code = write_header(out, dtype, rows, columns);
    if (code != CMD_OK) npy_close(out);
    return code;
}

int npy_append(cmd_npy *npy, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(npy->file, at, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return cmd_fail("writing %s: %s", npy->path, strerror(errno));
        at += written;
        bytes -= (size_t)written;
    }
    return CMD_OK;
}

int npy_commit(cmd_npy *npy) {
    int file = npy->file;
    npy->file = -1;
    if (close(file) == 0 && rename(npy->hidden, npy->path) == 0) return CMD_OK;
    int error = errno;
    unlink(npy->hidden);
    return cmd_fail("writing %s: %s", npy->path, strerror(error));
}

void npy_close(cmd_npy *npy) {
    if (npy->file < 0) return;
    close(npy->file);
    unlink(npy->hidden);
    npy->file = -1;
}
