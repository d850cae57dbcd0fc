/* `shoal peers`, `shoal revoke`: who may come in from other machines. */
#include "cmd.h"
#include "text.h"

#include <string.h>

static const struct argp_option no_options[] = {CMD_OPTIONS_END};

typedef struct peers {
    const char *name;
    shoal_role role; /* 0: only show */
} peers;

static const struct argp_option peers_options[] = {
    {"role", 'r', "ROLE", 0, "Change the role of NAME: client, worker or both", 0},
    CMD_OPTIONS_END};

static void take_peers(void *input, int key, char *arg) {
    peers *p = input;
    if (key == 'r' && shoal_role_parse(arg, &p->role) != SHOAL_OK)
        cmd_usage("%s", shoal_error_message());
    if (key != ARGP_KEY_ARG) return;
    if (p->name) cmd_usage("peers takes one name, and then '%s'", arg);
    p->name = arg;
}

static void show_peer(void *context, const char *name, const char *key, shoal_role role) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "key", key);
    cJSON_AddStringToObject(row, "role", shoal_role_name(role));
    cJSON_AddItemToArray(context, row);
    if (cmd_json) return;
    text_print(name);
    printf("  %.16s…  %s\n", key, shoal_role_name(role));
}

static int run_peers(const cmd_command *self, int argc, char **argv) {
    peers p = {0};
    cmd_parse(self, argc, argv, &p);
    if (!p.name != !p.role)
        cmd_usage("to change a role, give both: `shoal peers NAME --role ROLE`");
    if (p.role) {
        if (cmd_try(shoal_peer_role(p.name, p.role)) != CMD_OK) return CMD_FAILED;
        if (cmd_json) return text_json_pair("role", shoal_role_name(p.role));
        printf("%s is enrolled as %s\n", p.name, shoal_role_name(p.role));
        return CMD_OK;
    }
    cJSON *rows = cJSON_CreateArray();
    int code = cmd_try(shoal_peers(show_peer, rows));
    return text_list(rows, code, "nobody has enrolled at the hub of this user");
}

const cmd_command cmd_peers = {
    .name = "peers",
    .args = "[NAME --role ROLE]",
    .summary = "List the users enrolled at this hub, or change a role",
    .doc = "Shows names, the first digits of public keys, and roles: clients run programs, workers "
           "lend devices. Members of a user whose role has changed have to reconnect.",
    .options = peers_options,
    .take = take_peers,
    .run = run_peers};

static void take_name(void *input, int key, char *arg) {
    const char **name = input;
    if (key != ARGP_KEY_ARG) return;
    if (*name) cmd_usage("revoke takes one name, and then '%s'", arg);
    *name = arg;
}

static int run_revoke(const cmd_command *self, int argc, char **argv) {
    const char *name = NULL;
    cmd_parse(self, argc, argv, &name);
    if (!name) cmd_usage("revoke needs a name; 'shoal peers' lists them");
    if (cmd_try(shoal_revoke(name)) != CMD_OK) return CMD_FAILED;
    if (cmd_json) return text_json_pair("revoked", name);
    printf("%s is excluded\n", name);
    return CMD_OK;
}

const cmd_command cmd_revoke = {.name = "revoke",
                                .args = "NAME",
                                .summary = "Exclude an enrolled user",
                                .doc = "Existing connections are closed within a second.",
                                .options = no_options,
                                .take = take_name,
                                .run = run_revoke};
