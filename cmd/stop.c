/* `shoal stop`: ends what runs in the background. */
#include "running.h"
#include "text.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { STOP_SECONDS = 15, KEY_ALL = 0x100 };

typedef struct input {
    char *ids[RUNNING_MOST];
    int count;
    bool all;
} input;

static const struct argp_option options[] = {
    {"all", KEY_ALL, NULL, 0, "Stop all processes of this user in the background", 0},
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == KEY_ALL) in->all = true;
    if (key != ARGP_KEY_ARG) return;
    if (in->count == RUNNING_MOST) cmd_usage("stop takes %d names at most", RUNNING_MOST);
    in->ids[in->count++] = arg;
}

static int end_one(const cmd_running *daemon) {
    const struct timespec pause = {.tv_nsec = 20000000};
    double deadline = cmd_now() + STOP_SECONDS;
    if (kill(daemon->pid, SIGTERM) != 0 && errno != ESRCH)
        return cmd_fail("stopping %s, process %ld: %s", daemon->id, (long)daemon->pid,
                        strerror(errno));
    while (running_alive(daemon)) {
        if (cmd_now() > deadline)
            return cmd_fail("%s, process %ld, did not stop within %d s; 'kill -9 %ld' forces it",
                            daemon->id, (long)daemon->pid, STOP_SECONDS, (long)daemon->pid);
        nanosleep(&pause, NULL);
    }
    while (!running_gone(daemon) && cmd_now() < deadline) nanosleep(&pause, NULL);
    if (!cmd_json) printf("%s: ended\n", daemon->id);
    return CMD_OK;
}

static int run(const cmd_command *self, int argc, char **argv) {
    static cmd_running all[RUNNING_MOST];
    static input in;
    char names[512];
    cmd_parse(self, argc, argv, &in);
    if (in.all && in.count > 0) cmd_usage("stop --all '%s': names, or --all", in.ids[0]);
    int count = running_list(all), code = count < 0 ? CMD_FAILED : CMD_OK;
    if (count >= 0 && !in.all && in.count == 0)
        cmd_usage("stop needs names, or --all; what runs: %s",
                  running_names(all, count, names, sizeof names));
    for (int n = 0; n < in.count && count >= 0; n++)
        if (running_find(all, count, in.ids[n]) == NULL)
            code = cmd_fail("'%s' does not run in the background here; what runs: %s", in.ids[n],
                            running_names(all, count, names, sizeof names));
    cJSON *ended = cJSON_CreateArray();
    bool wanted = code == CMD_OK;
    if (wanted && count == 0 && !cmd_json) puts("nothing runs in the background");
    for (int i = 0; wanted && i < count; i++) {
        bool chosen = in.all;
        for (int n = 0; n < in.count; n++) chosen |= strcmp(all[i].id, in.ids[n]) == 0;
        if (!chosen) continue;
        if (end_one(&all[i]) == CMD_OK)
            cJSON_AddItemToArray(ended, cJSON_CreateString(all[i].id));
        else
            code = CMD_FAILED;
    }
    running_close(all, count);
    if (!cmd_json || !wanted) {
        cJSON_Delete(ended);
        return code;
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddItemToObject(root, "ended", ended);
    int printed = text_json(root);
    return code != CMD_OK ? code : printed;
}

const cmd_command cmd_stop_daemons = {
    .name = "stop",
    .group = CMD_BACKGROUND,
    .args = "[NAME...]",
    .summary = "Stop hubs and workers in the background",
    .doc = "NAME is hub, worker, or a name such as worker-left; 'shoal ps' lists them.",
    .options = options,
    .take = take,
    .run = run};
