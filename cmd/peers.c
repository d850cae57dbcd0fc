/* `shoal peers`, `shoal revoke`: who may come in from other machines. */
#include "cmd.h"
#include "text.h"

#include <string.h>

static const struct argp_option no_options[] = {CMD_OPTIONS_END};

static void take_none(void *input, int key, char *arg) {}

static void show_peer(void *context, const char *name, const char *key) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "key", key);
    cJSON_AddItemToArray(context, row);
    if (cmd_json) return;
    text_print(name);
    printf("  %.16s…\n", key);
}

static int run_peers(const cmd_command *self, int argc, char **argv) {
    cmd_parse(self, argc, argv, NULL);
    cJSON *rows = cJSON_CreateArray();
    int code = cmd_try(shoal_peers(show_peer, rows));
    if (code == CMD_OK && cmd_json) return text_json(rows);
    if (code == CMD_OK && !cJSON_GetArraySize(rows))
        puts("nobody has enrolled at the hub of this user");
    cJSON_Delete(rows);
    return code;
}

const cmd_command cmd_peers = {.name = "peers",
                               .summary = "List who has enrolled at the hub of this user",
                               .doc = "Names and the first digits of their public keys.",
                               .options = no_options,
                               .take = take_none,
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
    printf("%s is shut out\n", name);
    return CMD_OK;
}

const cmd_command cmd_revoke = {.name = "revoke",
                                .args = "NAME",
                                .summary = "Shut out somebody who has enrolled",
                                .doc = "Links that are there end within a second.",
                                .options = no_options,
                                .take = take_name,
                                .run = run_revoke};
