/* Facts about the machine and this process. */
#define _GNU_SOURCE
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

shoal_status base_os_random(void *out, size_t bytes) {
    return getrandom(out, bytes, 0) == (ssize_t)bytes
               ? SHOAL_OK
               : base_fail_errno(errno, "reading random bytes");
}

char *base_os_process_name(char *out, size_t room) {
    const char *name = program_invocation_short_name;
    snprintf(out, room, "%s", name && *name ? name : "?");
    return out;
}

void base_os_thread_name(const char *name) {
    char cut[16];
    snprintf(cut, sizeof cut, "%s", name);
    pthread_setname_np(pthread_self(), cut);
}

/* Makes a folder if it is to be, and checks that it is ours alone. */
static shoal_status own_folder(bool create, const char *path, const char *variable) {
    if (create && mkdir(path, 0700) && errno != EEXIST)
        return base_fail_errno(errno, "making the folder %s", path);
    struct stat st;
    if (lstat(path, &st)) return base_fail_errno(errno, "looking at the folder %s", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return base_fail(SHOAL_DENIED, "%s is not a folder of user %u: remove it, or set %s", path,
                         (unsigned)geteuid(), variable);
    if (st.st_mode & 077)
        return base_fail(SHOAL_DENIED, "the folder %s is open to others (mode %03o): chmod 700 it",
                         path, (unsigned)st.st_mode & 0777);
    return SHOAL_OK;
}

shoal_status base_os_runtime_folder(bool create, char *out, size_t room) {
    const char *base = getenv("XDG_RUNTIME_DIR");
    int used = base && *base == '/' ? snprintf(out, room, "%s/shoal", base)
                                    : snprintf(out, room, "/tmp/shoal-%u", (unsigned)geteuid());
    if (used < 0 || (size_t)used >= room)
        return base_fail(SHOAL_INVALID,
                         "XDG_RUNTIME_DIR is too long (%d bytes, %zu fit): choose a shorter one",
                         used, room - 1);
    return own_folder(create, out, "XDG_RUNTIME_DIR");
}

shoal_status base_os_config_folder(bool create, char *out, size_t room) {
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int used = 0;
    if (!base || *base != '/') {
        if (!home || *home != '/')
            return base_fail(SHOAL_NOT_FOUND,
                             "there is no folder for keys: set HOME or XDG_CONFIG_HOME");
        used = snprintf(out, room, "%s/.config", home);
        if (used > 0 && (size_t)used < room && create) mkdir(out, 0700);
        if (used > 0 && (size_t)used < room)
            used += snprintf(out + used, room - (size_t)used, "/shoal");
    } else {
        used = snprintf(out, room, "%s/shoal", base);
    }
    if (used < 0 || (size_t)used >= room)
        return base_fail(SHOAL_INVALID, "XDG_CONFIG_HOME is too long: choose a shorter one");
    return own_folder(create, out, "XDG_CONFIG_HOME");
}

bool base_os_process_stopped(uint32_t pid) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return false;
    text[n] = 0;
    /* "pid (name) state": the name may have anything in it, brackets too. */
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}
