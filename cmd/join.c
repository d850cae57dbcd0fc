/* `shoal join`, `shoal invite`: a user of another machine gets in. */
#include "args.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

typedef struct join {
    const char *token, *name;
} join;

static const struct argp_option join_options[] = {
    {"name", 'n', "NAME", 0, "What the hub calls this user (default: USER.HOST)", 0},
    CMD_OPTIONS_END};

static void take_join(void *input, int key, char *arg) {
    join *j = input;
    if (key == 'n') {
        if (arg[0] == 0 || strlen(arg) > 63)
            cmd_usage("--name '%s': must have 1 to 63 characters", arg);
        j->name = arg;
    }
    if (key != ARGP_KEY_ARG) return;
    if (j->token) cmd_usage("join takes one token, and then '%s'", arg);
    j->token = arg;
}

static int run_join(const cmd_command *self, int argc, char **argv) {
    join j = {0};
    char hub[1024];
    cmd_parse(self, argc, argv, &j);
    if (!j.token) cmd_usage("join needs the token that `shoal hub --listen` printed");
    if (cmd_try(shoal_join(j.token, j.name, hub, sizeof hub)) != CMD_OK) return CMD_FAILED;
    if (cmd_json) return text_json_pair("hub", hub);
    printf(
        "joined: the hub at %s knows this user now\n"
        "lend this machine to the pool:  shoal worker\n"
        "  where that does not find it:   shoal worker --hub %s --listen ADDRESS-OF-THIS-MACHINE\n"
        "use the pool from here:         export SHOAL_HUB=%s\n",
        hub, hub, hub);
    return CMD_OK;
}

const cmd_command cmd_join = {
    .name = "join",
    .args = "TOKEN",
    .summary = "Enrol this user on this machine at a hub elsewhere",
    .doc =
        "Once per machine. A token is good for one user and a limited time; `shoal hub --listen` "
        "prints one, `shoal invite` more. Keys are kept in ~/.config/shoal.",
    .options = join_options,
    .take = take_join,
    .run = run_join};

/* ---- invite ---- */

enum { KEY_HOURS = 0x200 };

static const struct argp_option invite_options[] = {
    {"hours", KEY_HOURS, "N", 0, "How long the token is good (default: 1)", 0}, CMD_OPTIONS_END};

static void take_invite(void *input, int key, char *arg) {
    if (key == KEY_HOURS) *(uint32_t *)input = (uint32_t)args_count("--hours", arg, 1, 24 * 30);
}

static int run_invite(const cmd_command *self, int argc, char **argv) {
    uint32_t hours = 1;
    char *token;
    cmd_parse(self, argc, argv, &hours);
    if (cmd_try(shoal_invite(hours * 3600, &token)) != CMD_OK) return CMD_FAILED;
    int code = cmd_json ? text_json_pair("token", token) : CMD_OK;
    if (!cmd_json) puts(token);
    free(token);
    return code;
}

const cmd_command cmd_invite = {.name = "invite",
                                .summary =
                                    "Print a token that lets one more user join the hub here",
                                .options = invite_options,
                                .take = take_invite,
                                .run = run_invite};
