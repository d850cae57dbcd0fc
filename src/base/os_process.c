/* Facts about the machine and this process. */
#define _GNU_SOURCE
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

shoal_status base_os_random(void *out, size_t bytes) {
    return getrandom(out, bytes, 0) == (ssize_t)bytes
               ? SHOAL_OK
               : base_fail_errno(errno, "reading random bytes");
}

void base_os_memory_trim(void) { malloc_trim(0); }

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
