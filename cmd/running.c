#include "running.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOLDER_ROOM = 400 };

/* The process that holds the lock of a pid file; 0: none. */
static pid_t holder(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
    return lock.l_pid;
}

static bool find_running(const char *folder, const char *id, cmd_running *out) {
    char path[FOLDER_ROOM + DAEMON_ID + 8];
    snprintf(path, sizeof path, "%s/%s.pid", folder, id);
    snprintf(out->id, sizeof out->id, "%s", id);
    out->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (out->fd < 0) return false;
    out->pid = holder(out->fd);
    if (out->pid > 0) return true;
    close(out->fd);
    return false;
}

/* Workers first: a hub that goes before them is a failure to them. */
static int by_role(const void *a, const void *b) {
    const cmd_running *x = a, *y = b;
    bool hub_x = strncmp(x->id, "hub", 3) == 0, hub_y = strncmp(y->id, "hub", 3) == 0;
    return hub_x != hub_y ? hub_x - hub_y : strcmp(x->id, y->id);
}

int running_list(cmd_running *out) {
    char folder[FOLDER_ROOM];
    shoal_status status = shoal_folder_path(SHOAL_FOLDER_RUNTIME, false, folder, sizeof folder);
    if (status == SHOAL_NOT_FOUND) return 0;
    if (cmd_try(status) != CMD_OK) return -1;
    DIR *entries = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (entries != NULL && count < RUNNING_MOST && (entry = readdir(entries)) != NULL) {
        char id[DAEMON_ID];
        size_t length = strlen(entry->d_name);
        if (length <= 4 || length - 4 >= DAEMON_ID) continue;
        if (strcmp(entry->d_name + length - 4, ".pid") != 0) continue;
        snprintf(id, sizeof id, "%.*s", (int)(length - 4), entry->d_name);
        count += find_running(folder, id, &out[count]);
    }
    if (entries != NULL) closedir(entries);
    qsort(out, (size_t)count, sizeof *out, by_role);
    return count;
}

void running_close(cmd_running *all, int count) {
    for (int i = 0; i < count; i++) close(all[i].fd);
}

const cmd_running *running_find(const cmd_running *all, int count, const char *id) {
    for (int i = 0; i < count; i++)
        if (strcmp(all[i].id, id) == 0) return &all[i];
    return NULL;
}

bool running_alive(const cmd_running *daemon) { return holder(daemon->fd) == daemon->pid; }

bool running_gone(const cmd_running *daemon) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)daemon->pid);
    FILE *file = fopen(path, "r");
    if (!file) return true;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    /* Behind its name: the state, and as number 18 from there its threads. Of a process that ends
     * the first may be dead while others are not. */
    const char *name = strrchr(text, ')');
    char state = 'X';
    long threads = 0;
    if (name)
        sscanf(name, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld",
               &state, &threads);
    return (state == 'Z' || state == 'X') && threads <= 1;
}

const char *running_names(const cmd_running *all, int count, char *out, size_t room) {
    size_t used = 0;
    snprintf(out, room, "nothing");
    for (int i = 0; i < count && used + DAEMON_ID + 3 < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? ", " : "", all[i].id);
    return out;
}
