/* `shoal ps`, `shoal logs`: what runs in the background, and what it says. */
#include "args.h"
#include "running.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void take_none(void *input, int key, char *arg) {}

static int log_path(const char *id, char *out, size_t room) {
    char folder[512];
    /* Where there is no folder there is no log, which who opens it will say. */
    shoal_status status = shoal_folder_path(SHOAL_FOLDER_STATE, false, folder, sizeof folder);
    if (status != SHOAL_NOT_FOUND && cmd_try(status) != CMD_OK) return CMD_FAILED;
    snprintf(out, room, "%s/%.*s.log", folder, DAEMON_ID, id);
    return CMD_OK;
}

/* ---- ps ---- */

static const struct argp_option ps_options[] = {CMD_OPTION_WIDE, CMD_OPTIONS_END};

static const text_column columns[] = {
    {"name", "NAME", NULL, false},
    {"pid", "PID", NULL, false},
    {"up_seconds", "UP", text_show_seconds, false},
    {"memory", "MEMORY", text_show_bytes, false},
    {"log", "LOG", NULL, true},
};

/* Bytes of a process that are in memory; 0 when they are not told. */
static uint64_t memory_of(pid_t pid) {
    char path[64];
    unsigned long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%lu %lu", &all, &resident) != 2) resident = 0;
    if (file != NULL) fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int run_ps(const cmd_command *self, int argc, char **argv) {
    static cmd_running all[RUNNING_MOST];
    cmd_parse(self, argc, argv, NULL);
    int count = running_list(all);
    if (count < 0) return CMD_FAILED;
    cJSON *rows = cJSON_CreateArray();
    for (int i = 0; i < count; i++) {
        char log[1024] = "";
        struct stat info; /* the pid file is written when it starts */
        double up = fstat(all[i].fd, &info) == 0 ? difftime(time(NULL), info.st_mtime) : 0;
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", all[i].id);
        cJSON_AddNumberToObject(row, "pid", (double)all[i].pid);
        cJSON_AddNumberToObject(row, "up_seconds", up > 0 ? up : 0);
        cJSON_AddNumberToObject(row, "memory", (double)memory_of(all[i].pid));
        if (log_path(all[i].id, log, sizeof log) == CMD_OK)
            cJSON_AddStringToObject(row, "log", log);
        cJSON_AddItemToArray(rows, row);
    }
    running_close(all, count);
    if (cmd_json) return text_json(rows);
    if (count == 0)
        puts("nothing runs in the background");
    else
        text_table(rows, columns, sizeof columns / sizeof *columns);
    cJSON_Delete(rows);
    return CMD_OK;
}

const cmd_command cmd_ps = {
    .name = "ps",
    .group = CMD_BACKGROUND,
    .summary = "List the processes in the background",
    .doc = "These are the hubs and workers that this user started with --daemon.",
    .options = ps_options,
    .take = take_none,
    .run = run_ps};

/* ---- logs ---- */

enum { KEY_LINES = 0x100, DEFAULT_LINES = 100, FOLLOW_MS = 200 };

typedef struct logs_input {
    const char *id;
    int64_t lines;
    bool follow;
} logs_input;

static const struct argp_option logs_options[] = {
    {"follow", 'f', NULL, 0, "Follow the log, until Ctrl-C", 0},
    {"lines", KEY_LINES, "N", 0, "Number of lines from the end (default: 100)", 0},
    CMD_OPTIONS_END};

static void take_logs(void *to, int key, char *arg) {
    logs_input *in = to;
    if (key == 'f') in->follow = true;
    if (key == KEY_LINES) in->lines = args_count("--lines", arg, 0, INT32_MAX);
    if (key != ARGP_KEY_ARG) return;
    if (in->id != NULL) cmd_usage("logs takes one name, and then '%s'", arg);
    in->id = arg;
}

/* "TIME LEVEL WHO: WHAT" as an object; a line of another form is its message alone. */
static int put_line(char *line) {
    char *who = NULL, *message = NULL, *level = strchr(line, ' ');
    line[strcspn(line, "\n")] = 0;
    if (!cmd_json) {
        text_print(line);
        putchar('\n');
        return CMD_OK;
    }
    if (level != NULL) who = strchr(level + 1, ' ');
    if (who != NULL) message = strstr(who + 1, ": ");
    cJSON *row = cJSON_CreateObject();
    if (message != NULL && line[0] >= '0' && line[0] <= '9') {
        *level = *who = *message = 0;
        cJSON_AddStringToObject(row, "time", line);
        cJSON_AddStringToObject(row, "level", level + 1);
        cJSON_AddStringToObject(row, "who", who + 1);
        cJSON_AddStringToObject(row, "message", message + 2);
    } else {
        cJSON_AddStringToObject(row, "message", line);
    }
    return text_json_line(row);
}

/* Where the last `lines` lines of a file begin. */
static long last_lines(FILE *file, int64_t lines) {
    long at = 0;
    char block[4096];
    if (fseek(file, 0, SEEK_END) != 0 || (at = ftell(file)) <= 0) return 0;
    for (bool end = true; at > 0;) {
        long from = at > (long)sizeof block ? at - (long)sizeof block : 0;
        if (fseek(file, from, SEEK_SET) != 0) return 0;
        size_t n = fread(block, 1, (size_t)(at - from), file);
        for (size_t i = n; i-- > 0; end = false)
            if (block[i] == '\n' && !end && lines-- == 1) return from + (long)i + 1;
        at = from;
    }
    return 0;
}

static int put_lines(FILE *file) {
    char *line = NULL;
    size_t room = 0;
    int code = CMD_OK;
    while (code == CMD_OK && getline(&line, &room, file) > 0) code = put_line(line);
    free(line);
    clearerr(file);
    fflush(stdout);
    return code;
}

/* A log that was renamed is left for the one in its place. */
static FILE *opened_anew(FILE *file, const char *path) {
    struct stat held, named;
    if (fstat(fileno(file), &held) != 0 || stat(path, &named) != 0 || held.st_ino == named.st_ino)
        return file;
    FILE *next = fopen(path, "re");
    if (next == NULL) return file;
    fclose(file);
    return next;
}

static int run_logs(const cmd_command *self, int argc, char **argv) {
    static cmd_running all[RUNNING_MOST];
    const struct timespec pause = {.tv_nsec = FOLLOW_MS * 1000000L};
    logs_input in = {.lines = DEFAULT_LINES};
    char path[1024], names[512];
    cmd_parse(self, argc, argv, &in);
    if (in.id == NULL) cmd_usage("logs needs a name, as 'shoal ps' lists them");
    if (strchr(in.id, '/') != NULL) cmd_usage("logs '%s': a name, as 'shoal ps' lists them", in.id);
    if (log_path(in.id, path, sizeof path) != CMD_OK) return CMD_FAILED;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        int error = errno, count = running_list(all);
        running_close(all, count);
        return cmd_fail("%s: %s; what runs in the background: %s", path, strerror(error),
                        running_names(all, count, names, sizeof names));
    }
    cmd_catch_signals();
    long from = in.lines > 0 ? last_lines(file, in.lines) : 0;
    int code = fseek(file, from, in.lines > 0 ? SEEK_SET : SEEK_END) == 0 ? CMD_OK : CMD_FAILED;
    if (code == CMD_OK) code = put_lines(file);
    while (code == CMD_OK && in.follow && cmd_stop == 0) {
        nanosleep(&pause, NULL);
        file = opened_anew(file, path);
        code = put_lines(file);
    }
    fclose(file);
    return code;
}

const cmd_command cmd_logs = {.name = "logs",
                              .group = CMD_BACKGROUND,
                              .args = "NAME",
                              .summary = "Show the log of a process in the background",
                              .doc = "A line has the time (UTC), the level, the process and the "
                                     "message. With --json each line is an object.",
                              .options = logs_options,
                              .take = take_logs,
                              .run = run_logs};
