/* `shoal stop`: ends what runs in the background. */
#include "cmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STOP_SECONDS = 15, MOST = 256, ID_ROOM = 80, FOLDER_ROOM = 400 };

typedef struct input {
    char *ids[MOST];
    int count;
} input;

static const struct argp_option options[] = {CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key != ARGP_KEY_ARG) return;
    if (in->count == MOST) cmd_usage("stop takes %d names at most", MOST);
    in->ids[in->count++] = arg;
}

/* A daemon that runs: its pid file is locked by its process. */
typedef struct running {
    char id[ID_ROOM];
    int fd; /* of the pid file */
    pid_t pid;
} running;

/* The process that holds the lock of a pid file; 0: none. */
static pid_t holder(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
    return lock.l_pid;
}

static bool find_running(const char *folder, const char *id, running *out) {
    char path[FOLDER_ROOM + ID_ROOM + 8];
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
    const running *x = a, *y = b;
    bool hub_x = strncmp(x->id, "hub", 3) == 0, hub_y = strncmp(y->id, "hub", 3) == 0;
    return hub_x != hub_y ? hub_x - hub_y : strcmp(x->id, y->id);
}

static int list_running(const char *folder, running *out) {
    DIR *entries = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (entries != NULL && count < MOST && (entry = readdir(entries)) != NULL) {
        char id[ID_ROOM];
        size_t length = strlen(entry->d_name);
        if (length <= 4 || length - 4 >= ID_ROOM) continue;
        if (strcmp(entry->d_name + length - 4, ".pid") != 0) continue;
        snprintf(id, sizeof id, "%.*s", (int)(length - 4), entry->d_name);
        count += find_running(folder, id, &out[count]);
    }
    if (entries != NULL) closedir(entries);
    qsort(out, (size_t)count, sizeof *out, by_role);
    return count;
}

static int end_one(const running *daemon) {
    const struct timespec pause = {.tv_nsec = 20000000};
    double deadline = cmd_now() + STOP_SECONDS;
    if (kill(daemon->pid, SIGTERM) != 0 && errno != ESRCH)
        return cmd_fail("ending %s, process %ld: %s", daemon->id, (long)daemon->pid,
                        strerror(errno));
    while (holder(daemon->fd) == daemon->pid) {
        if (cmd_now() > deadline)
            return cmd_fail("%s, process %ld, has not ended within %d s; 'kill -9 %ld' ends it "
                            "without ado",
                            daemon->id, (long)daemon->pid, STOP_SECONDS, (long)daemon->pid);
        nanosleep(&pause, NULL);
    }
    printf("%s: ended\n", daemon->id);
    return CMD_OK;
}

static int fail_unknown(const char *id, const running *all, int count) {
    char names[512] = "nothing";
    size_t used = 0;
    for (int i = 0; i < count && used + ID_ROOM + 3 < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 all[i].id);
    return cmd_fail("'%s' does not run in the background here; what runs: %s", id, names);
}

static int run(const cmd_command *self, int argc, char **argv) {
    static running all[MOST];
    input in = {.count = 0};
    char folder[FOLDER_ROOM];
    cmd_parse(self, argc, argv, &in);
    shoal_status status = shoal_folder_path(SHOAL_FOLDER_RUNTIME, false, folder, sizeof folder);
    if (status != SHOAL_OK && status != SHOAL_NOT_FOUND) return cmd_try(status);
    int count = list_running(folder, all), code = CMD_OK;
    for (int n = 0; n < in.count; n++) {
        int i = 0;
        while (i < count && strcmp(all[i].id, in.ids[n]) != 0) i++;
        if (i == count) code = fail_unknown(in.ids[n], all, count);
    }
    if (code != CMD_OK) return code;
    if (count == 0) puts("nothing runs in the background");
    for (int i = 0; i < count; i++) {
        bool wanted = in.count == 0;
        for (int n = 0; n < in.count; n++) wanted = wanted || strcmp(all[i].id, in.ids[n]) == 0;
        if (wanted && end_one(&all[i]) != CMD_OK) code = CMD_FAILED;
        close(all[i].fd);
    }
    return code;
}

const cmd_command cmd_stop_daemons = {
    .name = "stop",
    .args = "[NAME...]",
    .summary = "End hubs and workers that run in the background",
    .doc = "NAME is hub, worker, or one like worker-left: what --daemon printed. Without names, "
           "everything that this user has in the background here.",
    .options = options,
    .take = take,
    .run = run};
