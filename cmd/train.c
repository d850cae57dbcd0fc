/* `shoal train`: becomes the Python that has the package, which trains (python/shoal/train). Here
 * are the options as help, manual and completions show them. */
#include "cmd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the interpreter is to run. No module of the current folder is imported. Until all are,
 * Ctrl-C waits: it ends the process as it ends any, and not with a list of the modules that were
 * under way. */
static const char program[] =
    "import signal, sys\n"
    "try:\n"
    "    from shoal.train.command import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'shoal: train: {sys.executable} has no package shoal that trains ({error}); '\n"
    "             'install it there, or name another interpreter by SHOAL_PYTHON')\n"
    "before = signal.getsignal(signal.SIGINT)\n"
    "if before is not signal.SIG_IGN:\n"
    "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\n"
    "signal.signal(signal.SIGINT, before)\n"
    "sys.exit(main())\n";

/* Keys are of no matter: the words go on as they are. */
enum { KEY_ANY = 0x300 };
static const struct argp_option options[] = {
    {"config", KEY_ANY, "FILE", 0, "The experiment's file, as the argument CONFIG.json", 0},
    {"model", KEY_ANY, "FILE", 0, "The model, as the key model_path", 0},
    {"workers", KEY_ANY, "N", 0, "Workers to wait for, as the key workers", 0},
    {"resume", KEY_ANY, NULL, 0, "Go on from the newest checkpoint, as the key should_resume", 0},
    {"streaming", KEY_ANY, NULL, 0,
     "Exchange in 4 fragments, one after the other, as the key fragments=4", 0},
    {"dry-run", KEY_ANY, NULL, 0, "Print the experiment and where each value comes from", 0},
    {"keys", KEY_ANY, NULL, 0, "Print all keys of an experiment", 0},
    {"no-dashboard", KEY_ANY, NULL, 0, "Print lines instead of the screen", 0},
    {"metrics", KEY_ANY, "PORT", OPTION_ARG_OPTIONAL,
     "Serve metrics for Prometheus at http://127.0.0.1:PORT/metrics (default: 7481)", 0},
    {"hub", 'H', "ADDRESS", 0,
     "Train on the pool of this hub (default: SHOAL_HUB, else a pool in this process)", 0},
    {"shepherd", KEY_ANY, NULL, 0, "Start a hub for workers that connect", 0},
    {"host", KEY_ANY, "HOST", 0,
     "With --shepherd: this machine's address in the workers' network. Beyond loopback links are "
     "encrypted, for enrolled users only (default: 127.0.0.1)",
     0},
    {"port", KEY_ANY, "PORT", 0, "With --shepherd: its port (default: 8080)", 0},
    {"terminate", KEY_ANY, NULL, 0, "End when training is done, as it does anyway", 0},
    {"worker", KEY_ANY, NULL, 0, "Be a worker, as 'shoal worker' is one", 0},
    {"connect", KEY_ANY, "HOST:PORT", 0, "With --worker: where the shepherd is", 0},
    {"name", 'n', "NAME", 0, "With --worker: its name in tables and messages", 0},
    {"backend", KEY_ANY, "NAME", 0,
     "With --worker: the devices to lend, cpu, opencl or another of 'shoal backends'; cuda, rocm, "
     "metal and vulkan stand for those that serve such devices",
     0},
    {"device-id", KEY_ANY, "N", 0, "With --backend: the number of the device", 0},
    {"target", KEY_ANY, "NAME", 0,
     "With --backend cuda or rocm: the device that is expected, such as sm_80 or gfx942", 0},
    {"amd-target", KEY_ANY, "NAME", 0, "The same as --target", 0},
    CMD_OPTIONS_END};

static void take(void *input, int key, char *arg) { (void)input, (void)key, (void)arg; }

static int run(const cmd_command *self, int argc, char **argv) {
    static char name[] = "python3", command[] = "-c", help[] = "--help";
    static char text[sizeof program], own[PATH_MAX];
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            char *words[] = {argv[0], help, NULL};
            cmd_parse(self, 2, words, NULL);
        }
    char *python = getenv("SHOAL_PYTHON");
    if (python == NULL || python[0] == 0) python = name;
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (words == NULL) return cmd_fail("train: no memory");
    memcpy(text, program, sizeof program);
    words[0] = python;
    words[1] = command;
    words[2] = text;
    memcpy(words + 3, argv + 1, (size_t)(argc - 1) * sizeof *words);
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length > 0) setenv("SHOAL", own, 1); /* the hub and the workers are this command's */
    setenv("PYTHONSAFEPATH", "1", 1);
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, NULL);
    execvp(python, words);
    int error = errno;
    free(words);
    return cmd_fail("train: cannot run %s: %s; install Python 3.11 or later and the package shoal, "
                    "or name another interpreter by SHOAL_PYTHON",
                    python, strerror(error));
}

const cmd_command cmd_train = {
    .name = "train",
    .group = CMD_COMPUTE,
    .args = "[CONFIG.json] [KEY=VALUE...]",
    .summary = "Train a model on workers, also over slow links",
    .doc =
        "An experiment is a JSON file, or words KEY=VALUE, which count more; --keys lists the "
        "keys. "
        "q or Ctrl-C ends the training after the round. Training is done by the Python package, in "
        "the interpreter that SHOAL_PYTHON names (default: python3).",
    .options = options,
    .take = take,
    .run = run};
