/* Facts about the machine and this process. */
#define _GNU_SOURCE
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

shoal_status base_os_random(void *out, size_t bytes) {
    return getrandom(out, bytes, 0) == (ssize_t)bytes
               ? SHOAL_OK
               : base_fail_errno(errno, "reading random bytes");
}

void base_os_memory_trim(void) { malloc_trim(0); }

void base_os_memory_keep(void) {
    static const char *const set[] = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                                      "GLIBC_TUNABLES"};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (getenv(set[i])) return;
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
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

base_os_state base_os_process_state(uint32_t pid) {
    char path[32], text[512], state;
    long threads;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? BASE_OS_ENDED : BASE_OS_RUNS;
    ssize_t n = read(fd, text, sizeof text - 1);
    int error = errno;
    close(fd);
    if (n <= 0) return n < 0 && error == ESRCH ? BASE_OS_ENDED : BASE_OS_RUNS;
    text[n] = 0;
    /* "pid (name) state", and as the 20th how many threads; the name may have anything in it,
     * brackets too. */
    const char *rest = strrchr(text, ')');
    bool whole = rest && sscanf(rest, ") %c", &state) == 1;
    for (int field = 3; whole && field <= 20; field++) whole = (rest = strchr(rest + 1, ' '));
    if (!whole) return BASE_OS_RUNS;
    threads = atol(rest);
    /* Of one that nobody has waited for yet; its first thread may end before the others. */
    if (state == 'Z' || state == 'X') return threads > 1 ? BASE_OS_RUNS : BASE_OS_ENDED;
    return state == 'T' || state == 't' ? BASE_OS_STOPPED : BASE_OS_RUNS;
}

/* All that comes, up to room; returns its length. */
static size_t read_all(int fd, char *out, size_t room) {
    size_t have = 0;
    while (have < room) {
        ssize_t n = read(fd, out + have, room - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        have += (size_t)n;
    }
    return have;
}

shoal_status base_os_output(const char *const *command, char *out, size_t room) {
    int ends[2], code, state;
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC)) return base_fail_errno(errno, "making a pipe");
    code = posix_spawn_file_actions_init(&actions);
    if (!code) code = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (!code)
        code = posix_spawnp(&child, command[0], &actions, NULL, (char *const *)(uintptr_t)command,
                            environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t n = code ? 0 : read_all(ends[0], out, room);
    close(ends[0]);
    if (code)
        return base_fail(SHOAL_NOT_FOUND, "cannot run '%.256s': %s", command[0], strerror(code));
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    if (n == room || !WIFEXITED(state) || WEXITSTATUS(state))
        return base_fail(SHOAL_IO, "'%.256s' ended with an error", command[0]);
    out[n] = 0;
    return SHOAL_OK;
}
