/* `shoal peers`, `shoal revoke`: who may come in from other machines. */
#include "cmd.h"
#include "text.h"

#include <string.h>

static const struct argp_option no_options[] = {CMD_OPTIONS_END};

static void take_none(void *input, int key, char *arg) {}

static void show_peer(void *context, const char *name, const char *key) {
    ++*(int *)context;
    text_print(name);
    printf("  %.16s…\n", key);
}

static int run_peers(const cmd_command *self, int argc, char **argv) {
    int count = 0;
    cmd_parse(self, argc, argv, NULL);
    if (cmd_try(shoal_peers(show_peer, &count)) != CMD_OK) return CMD_FAILED;
    if (!count) puts("nobody has enrolled at the hub of this user");
    return CMD_OK;
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
