#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *output_ending(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL ? dot : "";
}

int output_check(const char *path, bool force) {
    struct stat info;
    if (strcmp(path, "-") == 0)
        return cmd_fail("'-': results are not written to standard output; name a file");
    if (stat(path, &info) != 0) return CMD_OK;
    if (!S_ISREG(info.st_mode)) return cmd_fail("%s: is not a regular file; name another", path);
    return force ? CMD_OK : cmd_fail("%s: exists already; --force overwrites it", path);
}

FILE *output_open(const char *path, char **beside) {
    size_t room = strlen(path) + 32;
    FILE *file = NULL;
    int fd = -1;
    *beside = malloc(room);
    if (*beside != NULL) {
        snprintf(*beside, room, "%s.%ld.part", path, (long)getpid());
        fd = open(*beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd >= 0) file = fdopen(fd, "w");
    if (file != NULL) return file;
    cmd_fail("writing %s: %s", path, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(*beside);
    }
    free(*beside);
    *beside = NULL;
    return NULL;
}

int output_commit(FILE *file, char *beside, const char *path) {
    bool failed = ferror(file) != 0;
    errno = failed ? EIO : 0;
    failed |= fclose(file) != 0;
    if (!failed) failed = rename(beside, path) != 0;
    int error = errno;
    if (failed) unlink(beside);
    free(beside);
    return failed ? cmd_fail("writing %s: %s", path, strerror(error)) : CMD_OK;
}

void output_drop(FILE *file, char *beside) {
    fclose(file);
    unlink(beside);
    free(beside);
}
