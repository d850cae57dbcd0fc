/* Facts about the machine and this process. */
#define _GNU_SOURCE
#include "base/os.h"

#include <errno.h>
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

shoal_status base_os_runtime_folder(bool create, char *out, size_t room) {
    const char *base = getenv("XDG_RUNTIME_DIR");
    int used = base && *base == '/' ? snprintf(out, room, "%s/shoal", base)
                                    : snprintf(out, room, "/tmp/shoal-%u", (unsigned)geteuid());
    if (used < 0 || (size_t)used >= room)
        return base_fail(SHOAL_INVALID,
                         "XDG_RUNTIME_DIR is too long (%d bytes, %zu fit): choose a shorter one",
                         used, room - 1);
    if (create && mkdir(out, 0700) && errno != EEXIST)
        return base_fail_errno(errno, "making the folder %s", out);
    struct stat st;
    if (lstat(out, &st)) return base_fail_errno(errno, "looking at the folder %s", out);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return base_fail(SHOAL_DENIED,
                         "%s is not a folder of user %u: remove it, or set XDG_RUNTIME_DIR", out,
                         (unsigned)geteuid());
    if (st.st_mode & 077)
        return base_fail(SHOAL_DENIED, "the folder %s is open to others (mode %03o): chmod 700 it",
                         out, (unsigned)st.st_mode & 0777);
    return SHOAL_OK;
}
