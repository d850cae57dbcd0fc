/* The folders of this user: sockets, keys, logs. */
#define _GNU_SOURCE
#include "base/os.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes a folder if it is to be, and checks that it is ours alone. */
static shoal_status own_folder(bool create, const char *path, const char *variable) {
    if (create && mkdir(path, 0700) && errno != EEXIST)
        return base_fail_errno(errno, "making the folder %s (%s names another place)", path,
                               variable);
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

static shoal_status too_long(const char *variable, int used, size_t room) {
    return base_fail(SHOAL_INVALID, "%s is too long (%d bytes, %zu fit): choose a shorter one",
                     variable, used, room - 1);
}

shoal_status base_os_runtime_folder(bool create, char *out, size_t room) {
    const char *base = getenv("XDG_RUNTIME_DIR");
    int used = base && *base == '/' ? snprintf(out, room, "%s/shoal", base)
                                    : snprintf(out, room, "/tmp/shoal-%u", (unsigned)geteuid());
    if (used < 0 || (size_t)used >= room) return too_long("XDG_RUNTIME_DIR", used, room);
    return own_folder(create, out, "XDG_RUNTIME_DIR");
}

/* $VARIABLE/shoal, else ~BELOW/shoal, with the folders that it lies in made as well. */
static shoal_status kept_folder(const char *variable, const char *below, bool create, char *out,
                                size_t room) {
    const char *base = getenv(variable), *home = getenv("HOME");
    bool named = base && *base == '/';
    if (!named && (!home || *home != '/'))
        return base_fail(SHOAL_NOT_FOUND, "there is no folder to keep files in: set HOME or %s",
                         variable);
    int used = named ? snprintf(out, room, "%s/shoal", base)
                     : snprintf(out, room, "%s%s/shoal", home, below);
    if (used < 0 || (size_t)used >= room) return too_long(named ? variable : "HOME", used, room);
    char *slash = named ? out : out + strlen(home);
    while (create && (slash = strchr(slash + 1, '/')) != NULL) {
        *slash = 0;
        mkdir(out, 0700); /* that it failed shows below */
        *slash = '/';
    }
    return own_folder(create, out, variable);
}

shoal_status base_os_config_folder(bool create, char *out, size_t room) {
    return kept_folder("XDG_CONFIG_HOME", "/.config", create, out, room);
}

shoal_status base_os_state_folder(bool create, char *out, size_t room) {
    return kept_folder("XDG_STATE_HOME", "/.local/state", create, out, room);
}

shoal_status base_os_cache_folder(bool create, char *out, size_t room) {
    return kept_folder("XDG_CACHE_HOME", "/.cache", create, out, room);
}

/* The folder of a path; NULL: no memory. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
}

static void path_of(int fd, char out[64]) { snprintf(out, 64, "/proc/self/fd/%d", fd); }

shoal_status base_os_draft_open(const char *path, const char *draft, int *fd, bool *named) {
    char *folder = folder_of(path), by_number[64];
    if (!folder) return base_fail(SHOAL_NO_MEMORY, "no memory to write %s", path);
    *named = false;
    *fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    free(folder);
    if (*fd >= 0) {
        path_of(*fd, by_number);
        if (!access(by_number, F_OK)) return SHOAL_OK;
        close(*fd); /* without /proc it can be given no name */
    }
    *named = true;
    *fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return *fd >= 0 ? SHOAL_OK : base_fail_errno(errno, "writing %s", path);
}

shoal_status base_os_draft_name(int fd, const char *draft) {
    char by_number[64];
    path_of(fd, by_number);
    if (!linkat(AT_FDCWD, by_number, AT_FDCWD, draft, AT_SYMLINK_FOLLOW)) return SHOAL_OK;
    return base_fail_errno(errno, "writing %s", draft);
}

void base_os_file_release(int fd, uint64_t offset, uint64_t bytes) {
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes))
        base_log(BASE_DEBUG, "files", "room that is not needed stays taken: %s", strerror(errno));
}

shoal_status base_os_rename(const char *from, const char *to) {
    char *folder = folder_of(to);
    if (!folder) return base_fail(SHOAL_NO_MEMORY, "no memory to rename %s", from);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    /* A folder that may be written and not read cannot be synced, nor can those of some file
     * systems. */
    bool done = !rename(from, to) && (fd < 0 || !fsync(fd) || errno == EINVAL);
    int error = errno;
    if (fd >= 0) close(fd);
    return done ? SHOAL_OK : base_fail_errno(error, "writing %s", to);
}
