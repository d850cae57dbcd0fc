/* `shoal hub` and `shoal worker`: a pool's processes, in the foreground until a signal. */
#include "args.h"

#include <stdlib.h>
#include <string.h>

/* The library reads its log level from the environment. */
static void set_log(const char *text) {
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, levels[i]) == 0) {
            setenv("SHOAL_LOG", text, 1);
            return;
        }
    cmd_usage("--log '%s': must be error, warn, info or debug", text);
}

enum { KEY_LOG = 0x100, KEY_DEVICE, KEY_MEMORY, KEY_LISTEN, TOKEN_SECONDS = 3600 };

/* ---- hub ---- */

static const struct argp_option hub_options[] = {
    {"address", 'a', "ADDRESS", 0, "Where to listen (default: SHOAL_HUB, else shm:hub)", 0},
    {"listen", KEY_LISTEN, "HOST:PORT", 0,
     "Let other machines in, too, at this interface: encrypted, and only who has enrolled", 0},
    {"log", KEY_LOG, "LEVEL", 0, "error, warn (default), info or debug", 0},
    CMD_OPTIONS_END};

static void take_hub(void *input, int key, char *arg) {
    shoal_hub_options *options = input;
    if (key == 'a') options->address = arg;
    if (key == KEY_LISTEN) options->listen = arg;
    if (key == KEY_LOG) set_log(arg);
}

static void hub_ready(void *context, const char *addresses) {
    const shoal_hub_options *options = context;
    char *token = NULL;
    printf("hub: listening at %s\n", addresses);
    if (options->listen) {
        if (cmd_try(shoal_invite(TOKEN_SECONDS, &token)) == CMD_OK)
            printf("hub: on another machine, within the hour:  shoal join %s\n", token);
        free(token);
    }
    fflush(stdout);
}

static int run_hub(const cmd_command *self, int argc, char **argv) {
    shoal_hub_options options = {
        .size = sizeof options, .ready = hub_ready, .context = &options, .stop = &cmd_stop};
    cmd_parse(self, argc, argv, &options);
    options.address = cmd_hub_address(options.address);
    cmd_catch_signals();
    shoal_status status = shoal_hub_run(&options);
    if (cmd_try(status) != CMD_OK) return CMD_FAILED;
    puts("hub: ended");
    return CMD_OK;
}

const cmd_command cmd_hub = {
    .name = "hub",
    .summary = "Run the hub of a pool in the foreground",
    .doc = "A pool has one hub; workers and clients connect to it. It ends on SIGINT or SIGTERM.",
    .options = hub_options,
    .take = take_hub,
    .run = run_hub};

/* ---- worker ---- */

static const struct argp_option worker_options[] = {
    {"hub", 'H', "ADDRESS", 0, "The pool's hub (default: SHOAL_HUB, else shm:hub)", 0},
    {"name", 'n', "NAME", 0, "Name in tables and messages (default: the hub gives one)", 0},
    {"backend", 'b', "BACKEND", 0, "What drives the device (default: cpu)", 0},
    {"device", KEY_DEVICE, "I", 0, "Which of the backend's devices (default: 0)", 0},
    {"threads", 't', "N", 0, "Compute threads (default: all cores)", 0},
    {"weight", 'w', "W", 0, "Share of the work where no shares are given (default: 1)", 0},
    {"memory", KEY_MEMORY, "SIZE", 0,
     "Most memory for values, as 8G (default: three quarters of the machine's)", 0},
    {"listen", KEY_LISTEN, "HOST", 0,
     "Where others reach this worker when the hub is on another machine (default: SHOAL_LISTEN)",
     0},
    {"log", KEY_LOG, "LEVEL", 0, "error, warn (default), info or debug", 0},
    CMD_OPTIONS_END};

static void take_worker(void *input, int key, char *arg) {
    shoal_worker_options *options = input;
    switch (key) {
    case 'H': options->hub = arg; break;
    case 'n':
        if (arg[0] == 0 || strlen(arg) > 63)
            cmd_usage("--name '%s': must have 1 to 63 characters", arg);
        options->name = arg;
        break;
    case 'b': options->backend = arg; break;
    case KEY_DEVICE: options->device = (uint32_t)args_count("--device", arg, 0, 1023); break;
    case 't': options->threads = (uint32_t)args_count("--threads", arg, 1, 4096); break;
    case 'w': options->weight = args_positive("--weight", arg); break;
    case KEY_MEMORY: options->memory = args_size("--memory", arg); break;
    case KEY_LISTEN: options->listen = arg; break;
    case KEY_LOG: set_log(arg); break;
    }
}

static void worker_ready(void *context, const char *name) {
    const shoal_worker_options *options = context;
    printf("worker: %s joined %s\n", name, options->hub);
    fflush(stdout);
}

static int run_worker(const cmd_command *self, int argc, char **argv) {
    shoal_worker_options options = {
        .size = sizeof options, .ready = worker_ready, .context = &options, .stop = &cmd_stop};
    cmd_parse(self, argc, argv, &options);
    options.hub = cmd_hub_address(options.hub);
    cmd_catch_signals();
    shoal_status status = shoal_worker_run(&options);
    if (cmd_try(status) != CMD_OK) return CMD_FAILED;
    puts("worker: ended");
    return CMD_OK;
}

const cmd_command cmd_worker = {
    .name = "worker",
    .summary = "Run a worker in the foreground: lends one device to a pool",
    .doc = "It ends on SIGINT or SIGTERM, or when the hub is gone. Start one per device.",
    .options = worker_options,
    .take = take_worker,
    .run = run_worker};
