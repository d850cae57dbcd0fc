/* `shoal hub` and `shoal worker`: a pool's processes, until a signal. */
#include "args.h"
#include "daemon.h"
#include "keeper.h"
#include "text.h"
#include "view/server.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    KEY_DAEMON = 0x100,
    KEY_MEMORY,
    KEY_LISTEN,
    KEY_METRICS,
    KEY_BEACON,
    KEY_ONCE,
    KEY_WAIT,
    KEY_MODELS,
    KEY_PANELS,
    KEY_BACKEND,
    KEY_ARTIFACTS
};

#define DAEMON_OPTION                                                                              \
    {                                                                                              \
        "daemon", KEY_DAEMON, "NAME", OPTION_ARG_OPTIONAL,                                         \
            "Run in the background; return once it works. NAME distinguishes several processes "   \
            "of one user",                                                                         \
            0                                                                                      \
    }

/* What happens, for people, or with --json as an object on a line of its own. */
SHOAL_PRINTF(4, 5)
static void tell(const char *event, const char *key, const char *value, const char *format, ...) {
    va_list args;
    if (cmd_json) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "event", event);
        if (key != NULL) cJSON_AddStringToObject(row, key, value);
        text_json_line(row);
        return;
    }
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* Each link takes some, and so do connections that come to nothing. */
static void raise_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        fprintf(stderr, "shoal: the limit of descriptors stays as it is: %s\n", strerror(errno));
}

/* ---- hub ---- */

typedef struct hub_input {
    shoal_hub_options options;
    args_list listen;
    bool background;
    const char *name;    /* of the daemon */
    const char *metrics; /* where they are served; NULL: nowhere */
    view_server *server;
    const char *artifacts; /* what the keeper gives; NULL: there is none */
    keeper *keeper;
    bool failed;
} hub_input;

static const struct argp_option hub_options[] = {
    {"address", 'a', "ADDRESS", 0, "Where to listen (default: SHOAL_HUB, else shm:hub)", 0},
    {"listen", KEY_LISTEN, "HOST:PORT", 0,
     "Also accept other machines at this address: encrypted, enrolled users only. May be given for "
     "several networks, which are then used together",
     0},
    {"metrics", KEY_METRICS, "ADDRESS:PORT", OPTION_ARG_OPTIONAL,
     "Serve metrics for Prometheus at http://ADDRESS:PORT/metrics (default: " VIEW_DEFAULT_ADDRESS
     "). Anyone who can reach the address can read them",
     0},
    {"beacon", KEY_BEACON, "PORT", 0,
     "With --listen: the UDP port for announcements on that network, or off (default: "
     "SHOAL_BEACON, else 7400)",
     0},
    {"artifacts", KEY_ARTIFACTS, "WHAT", 0,
     "Give workers artifacts of IREE, signed by this user: kept, those that 'shoal compile' has "
     "made here; compile, also those that they ask for. A process of its own does that, in the "
     "interpreter that SHOAL_PYTHON names (default: python3)",
     0},
    {"panels", KEY_PANELS, "N", OPTION_HIDDEN,
     "For tests: compute all that can be in N parts while it comes and goes", 0},
    DAEMON_OPTION,
    CMD_OPTIONS_END};

static void take_hub(void *to, int key, char *arg) {
    hub_input *in = to;
    bool open;
    switch (key) {
    case 'a': in->options.address = arg; break;
    case KEY_LISTEN: in->options.listen = args_more("--listen", &in->listen, arg); break;
    case KEY_BEACON: in->options.beacon = arg; break;
    case KEY_ARTIFACTS:
        if (strcmp(arg, "kept") != 0 && strcmp(arg, "compile") != 0)
            cmd_usage("--artifacts '%s': must be kept or compile", arg);
        in->artifacts = arg;
        in->options.artifacts = true;
        break;
    case KEY_PANELS: in->options.panels = (uint32_t)args_count("--panels", arg, 0, 64); break;
    case KEY_DAEMON:
        in->background = true;
        in->name = arg;
        break;
    case KEY_METRICS:
        in->metrics = arg != NULL ? arg : VIEW_DEFAULT_ADDRESS;
        if (!view_address_check(in->metrics, &open))
            cmd_usage("--metrics '%s': must be ADDRESS:PORT in numbers, as " VIEW_DEFAULT_ADDRESS
                      " or [::1]:0",
                      in->metrics);
        break;
    }
}

static bool start_metrics(hub_input *in, const char *addresses) {
    char error[256];
    bool open = false;
    if (!view_server_start(in->metrics, addresses, &in->server, error, sizeof error)) {
        cmd_fail("%s", error);
        return false;
    }
    const char *address = view_server_address(in->server);
    tell("metrics", "address", address, "hub: metrics at http://%s/metrics", address);
    if (view_address_check(in->metrics, &open) && open && !cmd_json)
        puts("hub: the metrics are not encrypted, and open to anyone who can reach that address");
    return true;
}

static void hub_ready(void *context, const char *addresses) {
    hub_input *in = context;
    tell("listening", "address", addresses, "hub: listening at %s", addresses);
    if (in->options.listen && !cmd_json)
        puts("hub: `shoal invite` prints a token, which enrols a user of another machine");
    if (in->metrics != NULL && !start_metrics(in, addresses)) {
        in->failed = true;
        cmd_stop = SIGTERM;
        return;
    }
    fflush(stdout);
    daemon_ready();
    if (in->artifacts != NULL) in->keeper = keeper_start(in->artifacts, addresses);
}

static int run_hub(const cmd_command *self, int argc, char **argv) {
    hub_input in = {.options = {.size = sizeof in.options, .ready = hub_ready, .stop = &cmd_stop}};
    char id[DAEMON_ID];
    in.options.context = &in;
    cmd_parse(self, argc, argv, &in);
    if (in.options.beacon != NULL && in.options.listen == NULL)
        cmd_usage("--beacon: there is nothing to announce without --listen");
    in.options.address = cmd_hub_address(in.options.address);
    daemon_identify(self->name, in.name, id);
    if (in.background && daemon_start(id) != CMD_OK) return CMD_FAILED;
    cmd_catch_signals();
    raise_descriptors();
    int code = cmd_try(shoal_hub_run(&in.options));
    keeper_end(&in.keeper);
    view_server_stop(&in.server);
    daemon_end();
    if (code != CMD_OK || in.failed) return CMD_FAILED;
    if (!in.background) tell("ended", NULL, NULL, "hub: ended");
    return CMD_OK;
}

const cmd_command cmd_hub = {
    .name = "hub",
    .summary = "Run the hub of a pool",
    .doc = "A pool has one hub, to which workers and clients connect. It stops on SIGINT or "
           "SIGTERM, and in the background by 'shoal stop'.",
    .options = hub_options,
    .take = take_hub,
    .run = run_hub};

/* ---- worker ---- */

static const struct argp_option worker_options[] = {
    {"hub", 'H', "ADDRESS", 0,
     "The pool's hub (default: SHOAL_HUB, else shm:hub, else one that this user has joined and "
     "that "
     "announces itself on the network)",
     0},
    {"name", 'n', "NAME", 0, "Name in tables and messages (default: assigned by the hub)", 0},
    {"device", 'd', "NAME[,NAME...]", 0,
     "The devices to lend: cpu, opencl:1, or all of a backend: opencl, torch. 'shoal doctor' lists "
     "them (default: SHOAL_BACKEND, else all that are found)",
     0},
    {"backend", KEY_BACKEND, "NAME[,NAME...]", 0, "The same as --device", 0},
    {"threads", 't', "N", 0, "Compute threads of the processor (default: all cores)", 0},
    {"weight", 'w', "W", 0,
     "Relative share of the work of each device, unless shares are given (default: 1)", 0},
    {"memory", KEY_MEMORY, "SIZE", 0,
     "Memory limit for values of each device, such as 8G (default: the device's own, and a share "
     "of three quarters of the machine's)",
     0},
    {"models", KEY_MODELS, "DIR[:DIR]", 0,
     "Folders where model files are looked for; files that are missing are fetched into the first "
     "(default: SHOAL_MODELS, else ~/.cache/shoal/models, llama.cpp's and Hugging Face's)",
     0},
    {"listen", KEY_LISTEN, "HOST", 0,
     "The address at which others reach this worker, if the hub is on another machine; may be "
     "given "
     "for several networks (default: SHOAL_LISTEN, else those that lead to the hub)",
     0},
    {"beacon", KEY_BEACON, "PORT", 0,
     "The UDP port at which hubs announce themselves, or off (default: SHOAL_BEACON, else 7400)",
     0},
    {"artifacts", KEY_ARTIFACTS, "WHOSE", 0,
     "Whose artifacts of IREE, which are machine code, are run here: own, those that this user has "
     "signed; hub, also those that the user who runs the hub has signed (default: SHOAL_ARTIFACTS, "
     "else own)",
     0},
    {"wait", KEY_WAIT, NULL, 0, "Wait for a hub that is not there yet, instead of ending", 0},
    {"once", KEY_ONCE, NULL, 0, "Stop when the hub is gone, instead of waiting for it to return",
     0},
    DAEMON_OPTION,
    CMD_OPTIONS_END};

typedef struct worker_input {
    shoal_worker_options options;
    args_list listen;
    bool background;
    const char *name; /* of the daemon */
} worker_input;

static void take_worker(void *input, int key, char *arg) {
    worker_input *in = input;
    shoal_worker_options *options = &in->options;
    switch (key) {
    case 'H': options->hub = arg; break;
    case 'n':
        if (arg[0] == 0 || strlen(arg) > 63)
            cmd_usage("--name '%s': must have 1 to 63 characters", arg);
        options->name = arg;
        break;
    case 'd':
    case KEY_BACKEND: options->devices = arg; break;
    case 't': options->threads = (uint32_t)args_count("--threads", arg, 1, 4096); break;
    case 'w': options->weight = args_positive("--weight", arg); break;
    case KEY_MEMORY: options->memory = args_size("--memory", arg); break;
    case KEY_MODELS: options->models = arg; break;
    case KEY_LISTEN: options->listen = args_more("--listen", &in->listen, arg); break;
    case KEY_BEACON: options->beacon = arg; break;
    case KEY_ARTIFACTS:
        if (strcmp(arg, "own") != 0 && strcmp(arg, "hub") != 0)
            cmd_usage("--artifacts '%s': must be own or hub", arg);
        options->artifacts = arg;
        break;
    case KEY_ONCE: options->rejoin = false; break;
    case KEY_WAIT: options->wait = true; break;
    case KEY_DAEMON:
        in->background = true;
        in->name = arg;
        break;
    }
}

static void worker_ready(void *context, const char *name, const char *hub) {
    tell("joined", "name", name, "worker: %s joined %s", name, hub);
    fflush(stdout);
    daemon_ready();
}

static int run_worker(const cmd_command *self, int argc, char **argv) {
    worker_input in = {
        .options = {
            .size = sizeof in.options, .ready = worker_ready, .stop = &cmd_stop, .rejoin = true}};
    char id[DAEMON_ID];
    cmd_parse(self, argc, argv, &in);
    if (in.background && in.options.wait)
        cmd_usage(
            "--wait and --daemon: a daemon is there once it has joined; leave one of them out");
    /* What the worker is called tells its daemon from others. */
    if (in.background) daemon_identify(self->name, in.name ? in.name : in.options.name, id);
    if (in.background && daemon_start(id) != CMD_OK) return CMD_FAILED;
    cmd_catch_signals();
    raise_descriptors();
    int code = cmd_try(shoal_worker_run(&in.options));
    daemon_end();
    if (code == CMD_OK && !in.background) tell("ended", NULL, NULL, "worker: ended");
    return code;
}

const cmd_command cmd_worker = {
    .name = "worker",
    .summary = "Run a worker, which lends this machine's devices to a pool",
    .doc = "It stops on SIGINT or SIGTERM, and in the background by 'shoal stop'. If the hub goes "
           "away, the worker reconnects once it is back. If a device fails for good, the worker "
           "goes on with the "
           "others.",
    .options = worker_options,
    .take = take_worker,
    .run = run_worker};
