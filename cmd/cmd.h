/* What the files of the command `shoal` share: the table's row type, and the two ways to fail.
 *
 * A command is a row of the table in main.c. Its `run` parses its arguments with cmd_parse, works,
 * and returns an exit code. The command sees the public headers only. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "shoal/shoal.h"

#include <argp.h>
#include <stdio.h>

/* Exit codes. */
enum { CMD_OK, CMD_FAILED, CMD_USAGE };

/* Under which heading help lists a command. */
typedef enum cmd_group { CMD_POOLS, CMD_BACKGROUND, CMD_SEE, CMD_COMPUTE, CMD_ABOUT } cmd_group;

typedef struct cmd_command {
    const char *name;
    cmd_group group;
    const char *args; /* its arguments in words: "A B" */
    const char *summary;
    const char *doc; /* more, below the options; may be NULL */
    const struct argp_option *options;
    /* Takes one option (its key) or argument (ARGP_KEY_ARG) into `input`; ends the process by
     * cmd_usage when the value is wrong. */
    void (*take)(void *input, int key, char *arg);
    int (*run)(const struct cmd_command *self, int argc, char **argv);
} cmd_command;

/* A row of those tables of options whose command prints a table. */
#define CMD_OPTION_WIDE                                                                            \
    { "wide", CMD_KEY_WIDE, NULL, 0, "Show all columns, whatever the width of the terminal", 0 }
/* The last rows of every table of options. */
enum { CMD_KEY_HELP = 'h', CMD_KEY_LOG = 0x10000, CMD_KEY_JSON, CMD_KEY_WIDE };
#define CMD_OPTIONS_END                                                                            \
    {"json", CMD_KEY_JSON, NULL, 0, "Print JSON", -1},                                             \
        {"log",                                                                                    \
         CMD_KEY_LOG,                                                                              \
         "LEVEL",                                                                                  \
         0,                                                                                        \
         "Log level: error, warn, info or debug (default: SHOAL_LOG, else warn)",                  \
         -1},                                                                                      \
        {"help", CMD_KEY_HELP, NULL, 0, "Print this help", -1}, {                                  \
        0                                                                                          \
    }

/* Whether --json and --wide were given. */
extern bool cmd_json, cmd_wide;

/* The one list of commands, in the order in which help shows them; NULL ends it. */
extern const cmd_command *const cmd_commands[];
extern const cmd_command cmd_completion, cmd_help, cmd_logs, cmd_ps, cmd_version;
/* The command of that name; a usage error that suggests the nearest one when there is none. */
const cmd_command *cmd_find(const char *name);
extern const cmd_command cmd_hub, cmd_worker, cmd_backends, cmd_status, cmd_doctor, cmd_matmul,
    cmd_explain, cmd_split, cmd_run, cmd_grad, cmd_compile, cmd_train, cmd_nearest, cmd_join,
    cmd_invite, cmd_peers, cmd_revoke, cmd_show, cmd_stop_daemons, cmd_top, cmd_trace, cmd_timeline;

void cmd_print_help(FILE *stream);
/* Parses argv[1..] for a command. Ends the process after --help (0) or a usage error (2). */
void cmd_parse(const cmd_command *command, int argc, char **argv, void *input);

/* "shoal: message", then the end of the process with CMD_USAGE. Only while arguments are read,
 * when nothing is held yet. */
_Noreturn void cmd_usage(const char *format, ...) SHOAL_PRINTF(1, 2);
/* "shoal: message"; returns CMD_FAILED. */
int cmd_fail(const char *format, ...) SHOAL_PRINTF(1, 2);
/* CMD_OK for SHOAL_OK; else "shoal: " and the library's message for the call that just failed, and
 * CMD_FAILED. */
int cmd_try(shoal_status status);

/* After the first SIGINT or SIGTERM cmd_stop is the signal's number; a second one ends the process
 * at once. */
extern volatile int cmd_stop;
void cmd_catch_signals(void);
/* Ends the process by the signal that was caught, so that its caller sees why. Returns CMD_FAILED
 * in case the signal is blocked. */
int cmd_end_by_signal(void);

/* Seconds of a clock that never jumps. */
double cmd_now(void);
/* Columns of the terminal behind a stream, or 0 when it is none. */
int cmd_columns(FILE *stream);

/* Where a pool is when the user named none: SHOAL_HUB, else "shm:hub". */
const char *cmd_hub_address(const char *given);

#endif
