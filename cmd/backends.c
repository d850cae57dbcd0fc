/* `shoal backends`: the devices of this machine. A library that may end its process, or hang in a
 * driver, is opened by another process, this same command, that answers in JSON. */
#include "backends.h"
#include "text.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 20, DEATH_S = 1, MOST_ANSWER = 1 << 20 };

extern char **environ;

/* ---- rows ---- */

static void add_row(cJSON *rows, const shoal_found *found) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "backend", found->backend);
    cJSON_AddNumberToObject(row, "index", found->index);
    cJSON_AddStringToObject(row, "summary", found->summary);
    if (found->device != NULL)
        cJSON_AddStringToObject(row, "device", found->device);
    else
        cJSON_AddNullToObject(row, "device");
    if (found->device == NULL)
        cJSON_AddStringToObject(row, "reason", found->reason != NULL ? found->reason : "no device");
    else
        cJSON_AddNullToObject(row, "reason");
    cJSON_AddNumberToObject(row, "memory", (double)found->memory);
    cJSON_AddNumberToObject(row, "threads", found->threads);
    cJSON_AddItemToArray(rows, row);
}

/* ---- apart ---- */

/* Files, as what the other process started may keep a pipe open. */
typedef struct answer {
    FILE *out, *err;
} answer;

static char *text_of(FILE *file) {
    char *text = calloc(1, MOST_ANSWER);
    rewind(file);
    if (text != NULL) text[fread(text, 1, MOST_ANSWER - 1, file)] = 0;
    return text;
}

static int start(const char *name, const answer *to, pid_t *child) {
    char command[] = "shoal", backends[] = "backends", json[] = "--json";
    char *asked = strdup(name);
    char *const argv[] = {command, backends, json, asked, NULL};
    posix_spawn_file_actions_t actions;
    int code = asked == NULL ? ENOMEM : posix_spawn_file_actions_init(&actions);
    if (code != 0) {
        free(asked);
        return code;
    }
    code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(&actions, fileno(to->out), STDOUT_FILENO);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(&actions, fileno(to->err), STDERR_FILENO);
    if (code == 0) code = posix_spawn(child, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    free(asked);
    return code;
}

/* Whether the process has ended, within so many seconds. */
static bool ends(pid_t child, double seconds, int *state) {
    double until = cmd_now() + seconds;
    for (;;) {
        if (waitpid(child, state, WNOHANG) == child) return true;
        if (cmd_now() >= until) return false;
        usleep(5000);
    }
}

/* The last line that a process left on standard error, which tells most. */
static const char *last_line(char *text) {
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n') text[--n] = 0;
    const char *line = strrchr(text, '\n');
    return line != NULL ? line + 1 : text;
}

static void tell_end(int state, FILE *err, char *why, size_t room) {
    char *said = text_of(err);
    const char *line = said != NULL ? last_line(said) : "";
    const char *colon = line[0] != 0 ? ": " : "";
    if (WIFSIGNALED(state))
        snprintf(why, room, "the process that opened it was ended by signal %d (%s)%s%.400s",
                 WTERMSIG(state), strsignal(WTERMSIG(state)), colon, line);
    else
        snprintf(why, room, "the process that opened it ended with code %d%s%.400s",
                 WEXITSTATUS(state), colon, line);
    free(said);
}

/* The rows of a backend, by another process; or NULL and why not. */
static cJSON *rows_of(const char *name, const answer *to, char *why, size_t room) {
    int state = 0;
    pid_t child;
    int code = start(name, to, &child);
    if (code != 0) {
        snprintf(why, room, "cannot start a process to ask it: %s", strerror(code));
        return NULL;
    }
    if (!ends(child, PATIENCE_S, &state)) {
        /* One that hangs in a driver may even stay: it is waited for no longer. */
        kill(child, SIGKILL);
        ends(child, DEATH_S, &state);
        snprintf(why, room, "it did not answer within %d s", PATIENCE_S);
        return NULL;
    }
    char *text = WIFEXITED(state) && WEXITSTATUS(state) == CMD_OK ? text_of(to->out) : NULL;
    cJSON *rows = text != NULL ? cJSON_Parse(text) : NULL;
    free(text);
    if (cJSON_IsArray(rows)) return rows;
    cJSON_Delete(rows);
    tell_end(state, to->err, why, room);
    return NULL;
}

static void add_apart(cJSON *rows, const shoal_found *asked) {
    char why[640];
    answer to = {tmpfile(), tmpfile()};
    cJSON *found = NULL, *row;
    if (to.out != NULL && to.err != NULL)
        found = rows_of(asked->backend, &to, why, sizeof why);
    else
        snprintf(why, sizeof why, "cannot be asked: no temporary file: %s", strerror(errno));
    if (to.out != NULL) fclose(to.out);
    if (to.err != NULL) fclose(to.err);
    if (found == NULL) {
        shoal_found none = *asked;
        none.reason = why;
        add_row(rows, &none);
        return;
    }
    while ((row = cJSON_DetachItemFromArray(found, 0)) != NULL) cJSON_AddItemToArray(rows, row);
    cJSON_Delete(found);
}

static void add_found(void *rows, const shoal_found *found) {
    if (found->unasked)
        add_apart(rows, found);
    else
        add_row(rows, found);
}

cJSON *backends_rows(const char *name) {
    cJSON *rows = cJSON_CreateArray();
    if (shoal_backends(name, add_found, rows) == SHOAL_OK) return rows;
    cJSON_Delete(rows);
    return NULL;
}

/* ---- the command ---- */

typedef struct input {
    const char *name;
} input;

static const struct argp_option options[] = {CMD_OPTION_WIDE, CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key != ARGP_KEY_ARG) return;
    if (in->name != NULL) cmd_usage("backends takes one name, not also '%s'", arg);
    in->name = arg;
}

static const text_column columns[] = {
    {"backend", "BACKEND", NULL, false}, {"index", "NUMBER", NULL, false},
    {"threads", "THREADS", NULL, true},  {"memory", "MEMORY", text_show_bytes, false},
    {"device", "DEVICE", NULL, false},
};

/* The table shows in one column what there is, or why there is nothing. */
static void merge_reasons(cJSON *rows) {
    cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        const cJSON *reason = cJSON_GetObjectItemCaseSensitive(row, "reason");
        char text[1024];
        if (!cJSON_IsString(reason)) continue;
        snprintf(text, sizeof text, "none: %s", reason->valuestring);
        cJSON_ReplaceItemInObjectCaseSensitive(row, "device", cJSON_CreateString(text));
    }
}

static int run(const cmd_command *self, int argc, char **argv) {
    input in = {0};
    cmd_parse(self, argc, argv, &in);
    cJSON *rows = backends_rows(in.name);
    if (rows == NULL) return cmd_try(SHOAL_NOT_FOUND);
    if (cmd_json) return text_json(rows);
    merge_reasons(rows);
    text_table(rows, columns, sizeof columns / sizeof *columns);
    cJSON_Delete(rows);
    return CMD_OK;
}

const cmd_command cmd_backends = {
    .name = "backends",
    .group = CMD_SEE,
    .args = "[NAME]",
    .summary = "List the devices of this machine, or those of one backend",
    .doc = "Workers lend devices by these names and numbers, as 'shoal worker --device opencl:1'. "
           "Without a NAME, libraries that may end the process that opens them are opened by "
           "another one.",
    .options = options,
    .take = take,
    .run = run};
