/* `shoal join`, `shoal invite`: a user of another machine gets in. */
#include "args.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEY_FILE = 0x200, KEY_HOURS, KEY_LIST, KEY_CANCEL, TOKEN_ROOM = 4096 };

typedef struct join {
    char *token; /* as an argument; "-" or NULL: it is read */
    const char *name, *file;
} join;

static const struct argp_option join_options[] = {
    {"name", 'n', "NAME", 0, "Name of this user at the hub (default: USER.HOST)", 0},
    {"file", KEY_FILE, "FILE", 0, "Read the token from FILE", 0},
    CMD_OPTIONS_END};

static void take_join(void *input, int key, char *arg) {
    join *j = input;
    if (key == 'n') {
        if (arg[0] == 0 || strlen(arg) > 63)
            cmd_usage("--name '%s': must have 1 to 63 characters", arg);
        j->name = arg;
    }
    if (key == KEY_FILE) j->file = arg;
    if (key != ARGP_KEY_ARG) return;
    if (j->token) cmd_usage("join takes one token");
    j->token = arg;
}

/* The first word of a file, or of standard input. */
static bool read_token(const char *path, char out[TOKEN_ROOM]) {
    FILE *file = path ? fopen(path, "re") : stdin;
    if (!file) {
        fprintf(stderr, "shoal: cannot open %s\n", path);
        return false;
    }
    setvbuf(file, NULL, _IONBF, 0); /* nothing of it stays in a buffer */
    if (!path && isatty(STDIN_FILENO)) fputs("token: ", stderr);
    size_t n = 0;
    for (int c; (c = getc(file)) != EOF && n + 1 < TOKEN_ROOM;) {
        if (c > ' ')
            out[n++] = (char)c;
        else if (n)
            break;
    }
    out[n] = 0;
    if (path) fclose(file);
    if (!n) fprintf(stderr, "shoal: no token was given\n");
    return n > 0;
}

static bool get_token(join *j, char out[TOKEN_ROOM]) {
    if (j->file && j->token) cmd_usage("join takes a token, or --file, not both");
    if (!j->token || !strcmp(j->token, "-")) return read_token(j->file, out);
    fputs("shoal: warning: a token given as an argument is visible in the list of processes; give "
          "it on standard input or with --file\n",
          stderr);
    snprintf(out, TOKEN_ROOM, "%s", j->token);
    memset(j->token, 'x', strlen(j->token));
    return true;
}

static int run_join(const cmd_command *self, int argc, char **argv) {
    join j = {0};
    char hub[1024], token[TOKEN_ROOM];
    cmd_parse(self, argc, argv, &j);
    if (!get_token(&j, token)) return CMD_FAILED;
    int code = cmd_try(shoal_join(token, j.name, hub, sizeof hub));
    explicit_bzero(token, sizeof token);
    if (code != CMD_OK) return CMD_FAILED;
    if (cmd_json) return text_json_pair("hub", hub);
    printf("joined the hub at %s\nto lend this machine to the pool:  shoal worker\n  if that does "
           "not find the hub:   shoal worker --hub %s --listen ADDRESS-OF-THIS-MACHINE\nto use the "
           "pool from here:         export SHOAL_HUB=%s\n",
           hub, hub, hub);
    return CMD_OK;
}

const cmd_command cmd_join = {
    .name = "join",
    .args = "[TOKEN]",
    .summary = "Enrol this user at a hub on another machine",
    .doc = "Needed once per user and machine. The token is read from standard input or --file; as "
           "an argument it would be visible in the list of processes. It is valid for one user and "
           "a limited time; `shoal invite` prints one where the hub runs. Keys are stored in "
           "~/.config/shoal.",
    .options = join_options,
    .take = take_join,
    .run = run_join};

/* ---- invite ---- */

typedef struct invite {
    uint32_t hours;
    shoal_role role;
    bool list;
    const char *cancel;
} invite;

static const struct argp_option invite_options[] = {
    {"hours", KEY_HOURS, "N", 0, "Hours for which the token is valid (default: 1)", 0},
    {"role", 'r', "ROLE", 0, "Role of the new user: client, worker or both (default: both)", 0},
    {"list", KEY_LIST, NULL, 0, "List the tokens that are still valid", 0},
    {"cancel", KEY_CANCEL, "NAME", 0, "Cancel the token that --list shows under NAME", 0},
    CMD_OPTIONS_END};

static void take_invite(void *input, int key, char *arg) {
    invite *i = input;
    if (key == KEY_HOURS) i->hours = (uint32_t)args_count("--hours", arg, 1, 24 * 30);
    if (key == KEY_LIST) i->list = true;
    if (key == KEY_CANCEL) i->cancel = arg;
    if (key == 'r' && shoal_role_parse(arg, &i->role) != SHOAL_OK)
        cmd_usage("%s", shoal_error_message());
}

static void show_token(void *context, const char *name, uint64_t expires, shoal_role role) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "role", shoal_role_name(role));
    cJSON_AddNumberToObject(row, "expires", (double)expires);
    cJSON_AddItemToArray(context, row);
    if (cmd_json) return;
    long minutes = ((long)expires - (long)time(NULL)) / 60;
    printf("%s  %s, for %ld h %02ld min\n", name, shoal_role_name(role), minutes / 60,
           minutes % 60);
}

static int run_invite(const cmd_command *self, int argc, char **argv) {
    invite i = {.hours = 1, .role = SHOAL_ROLE_BOTH};
    char *token;
    cmd_parse(self, argc, argv, &i);
    if (i.cancel) {
        if (cmd_try(shoal_token_cancel(i.cancel)) != CMD_OK) return CMD_FAILED;
        if (cmd_json) return text_json_pair("cancelled", i.cancel);
        puts("the token is cancelled");
        return CMD_OK;
    }
    if (i.list) {
        cJSON *rows = cJSON_CreateArray();
        int listed = cmd_try(shoal_tokens(show_token, rows));
        return text_list(rows, listed, "no token can be used now");
    }
    if (cmd_try(shoal_invite(i.hours * 3600, i.role, &token)) != CMD_OK) return CMD_FAILED;
    int code = cmd_json ? text_json_pair("token", token) : CMD_OK;
    if (!cmd_json) puts(token);
    explicit_bzero(token, strlen(token));
    free(token);
    return code;
}

const cmd_command cmd_invite = {.name = "invite",
                                .summary =
                                    "Print a token with which another user can join this hub",
                                .options = invite_options,
                                .take = take_invite,
                                .run = run_invite};
