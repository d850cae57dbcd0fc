/* The command `shoal`: the table of commands, their options, dispatch. */
#include "cmd.h"
#include "daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

const cmd_command *const cmd_commands[] = {
    &cmd_hub,      &cmd_worker,     &cmd_join,         &cmd_invite,  &cmd_peers,  &cmd_revoke,
    &cmd_ps,       &cmd_logs,       &cmd_stop_daemons, &cmd_status,  &cmd_top,    &cmd_trace,
    &cmd_timeline, &cmd_show,       &cmd_backends,     &cmd_doctor,  &cmd_matmul, &cmd_explain,
    &cmd_split,    &cmd_run,        &cmd_grad,         &cmd_compile, &cmd_train,  &cmd_nearest,
    &cmd_help,     &cmd_completion, &cmd_version,      NULL};

bool cmd_json, cmd_wide;
volatile int cmd_stop;

static void say(const char *format, va_list args) {
    char message[4096];
    vsnprintf(message, sizeof message, format, args);
    if (!daemon_says(message)) fprintf(stderr, "shoal: %s\n", message);
}

void cmd_usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(CMD_USAGE);
}

int cmd_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return CMD_FAILED;
}

int cmd_try(shoal_status status) {
    if (status == SHOAL_OK) return CMD_OK;
    if (status == SHOAL_INTERRUPTED && cmd_stop != 0) return CMD_FAILED; /* as the user wanted */
    const char *message = shoal_error_message();
    if (message[0] != 0) return cmd_fail("%s", message);
    return cmd_fail("failed: %s", shoal_status_name(status));
}

static void catch_signal(int number) { cmd_stop = number; }

void cmd_catch_signals(void) {
    struct sigaction action = {.sa_handler = catch_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int cmd_end_by_signal(void) {
    signal(cmd_stop, SIG_DFL);
    raise(cmd_stop);
    return CMD_FAILED;
}

double cmd_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int cmd_columns(FILE *stream) {
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0) return 0;
    return size.ws_col > 0 ? size.ws_col : 80;
}

const char *cmd_hub_address(const char *given) {
    const char *variable = getenv("SHOAL_HUB");
    if (given != NULL) return given;
    return variable != NULL && variable[0] != 0 ? variable : "shm:hub";
}

/* ---- options ---- */

typedef struct parse {
    const cmd_command *command;
    void *input;
    const struct argp *argp;
} parse;

static _Noreturn void print_command_help(const struct argp *argp, const cmd_command *command) {
    char name[64], format[64];
    int columns = cmd_columns(stdout);
    snprintf(name, sizeof name, "shoal %s", command->name);
    snprintf(format, sizeof format, "no-dup-args-note,rmargin=%d",
             columns >= 40 && columns <= 100 ? columns - 1 : 79);
    setenv("ARGP_HELP_FMT", format, 0);
    argp_help(argp, stdout,
              ARGP_HELP_SHORT_USAGE | ARGP_HELP_PRE_DOC | ARGP_HELP_LONG | ARGP_HELP_POST_DOC,
              name);
    exit(CMD_OK);
}

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

static error_t take_key(int key, char *arg, struct argp_state *state) {
    parse *p = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        /* getopt's own message is one line and says enough; argp would add a second one. */
        state->err_stream = NULL;
        return 0;
    case ARGP_KEY_ARGS:
    case ARGP_KEY_NO_ARGS:
    case ARGP_KEY_END:
    case ARGP_KEY_SUCCESS:
    case ARGP_KEY_ERROR:
    case ARGP_KEY_FINI: return ARGP_ERR_UNKNOWN;
    case CMD_KEY_HELP: print_command_help(p->argp, p->command);
    case CMD_KEY_LOG: set_log(arg); return 0;
    case CMD_KEY_JSON: cmd_json = true; return 0;
    case CMD_KEY_WIDE: cmd_wide = true; return 0;
    case ARGP_KEY_ARG:
        if (p->command->args == NULL)
            cmd_usage("%s takes no argument '%s'; see 'shoal %s --help'", p->command->name, arg,
                      p->command->name);
    }
    p->command->take(p->input, key, arg);
    return 0;
}

/* Whether the word, an option, takes the next one as its value. */
static bool takes_next(const cmd_command *command, const char *word) {
    for (const struct argp_option *o = command->options; o != NULL && (o->name || o->key); o++) {
        if (o->arg == NULL) continue;
        if (word[1] == '-' && o->name != NULL && !strncmp(o->name, word + 2, strlen(word + 2)))
            return true;
        if (word[1] == o->key && word[2] == 0) return true;
    }
    return false;
}

/* Negative numbers look like options, of which getopt would say that they are invalid. */
static void refuse_numbers(const cmd_command *command, int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        char *end;
        if (argv[i][0] != '-' || argv[i][1] == 0) continue;
        if (takes_next(command, argv[i])) {
            i++;
            continue;
        }
        strtod(argv[i], &end);
        if (*end == 0)
            cmd_usage("%s: '%s' would be an option; values that begin with '-' go after '--': "
                      "shoal %s ... -- %s",
                      command->name, argv[i], command->name, argv[i]);
    }
}

void cmd_parse(const cmd_command *command, int argc, char **argv, void *input) {
    static char name[] = "shoal"; /* getopt puts it before its messages */
    char doc[4096];
    snprintf(doc, sizeof doc, "%s.%s%s", command->summary, command->doc == NULL ? "" : "\v",
             command->doc == NULL ? "" : command->doc);
    const struct argp argp = {
        .options = command->options, .parser = take_key, .args_doc = command->args, .doc = doc};
    parse p = {command, input, &argp};
    argv[0] = name;
    if (command->args != NULL) refuse_numbers(command, argc, argv);
    if (argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &p) != 0) exit(CMD_USAGE);
    if (cmd_json && cmd_wide) cmd_usage("--wide: JSON always has all columns");
}

/* ---- commands ---- */

/* Edits (insert, delete, replace one letter) between two short words. */
static int distance(const char *a, const char *b) {
    int row[32];
    int n = (int)strlen(b);
    if (n >= 32) return 99;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 0; a[i] != 0; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= n; j++) {
            int replaced = diagonal + (a[i] != b[j - 1]);
            int gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < gap ? replaced : gap;
        }
    }
    return row[n];
}

const cmd_command *cmd_find(const char *name) {
    const cmd_command *nearest = NULL;
    int least = strlen(name) < 5 ? 2 : 3; /* every short word is two edits from another */
    for (int i = 0; cmd_commands[i] != NULL; i++) {
        int edits = distance(name, cmd_commands[i]->name);
        if (edits == 0) return cmd_commands[i];
        if (edits < least) {
            least = edits;
            nearest = cmd_commands[i];
        }
    }
    if (nearest != NULL)
        cmd_usage("there is no command '%s'; did you mean '%s'?", name, nearest->name);
    cmd_usage("there is no command '%s'; 'shoal --help' lists them", name);
}

int main(int argc, char **argv) {
    static char help[] = "help", version[] = "version";
    if (argc < 2) {
        cmd_print_help(stderr);
        return CMD_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) argv[1] = help;
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) argv[1] = version;
    if (argv[1][0] == '-')
        cmd_usage(
            "'%s' comes before the command; write 'shoal COMMAND [OPTION...]'; 'shoal --help' "
            "lists the commands",
            argv[1]);
    const cmd_command *command = cmd_find(argv[1]);
    int code = command->run(command, argc - 1, argv + 1);
    /* What did not reach its file or pipe is a failure too. */
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        if (code == CMD_OK) code = cmd_fail("writing the output: %s", strerror(errno));
    }
    return code;
}
