/* Commands that are Python, wholly or in part: the interpreter is one that has the package. */
#ifndef CMD_PYTHON_H
#define CMD_PYTHON_H

#include "cmd.h"

/* The options of such a command are for help, manual and completions alone: the words go on as they
 * are, so that keys are of no matter. */
enum { CMD_PYTHON_KEY = 0x300 };
void cmd_python_take(void *input, int key, char *arg);

/* Runs `main` of a module with the words of the command, but for --help, which is answered here.
 * Returns only when there is no interpreter, having said so. */
int cmd_python(const cmd_command *self, const char *module, int argc, char **argv);

/* Runs `main` of a module with one argument in a process of its own. out: what it wrote to its
 * standard output, `length` bytes; the caller frees it. Where it fails it has said so. */
int cmd_python_output(const cmd_command *self, const char *module, const char *argument, char **out,
                      size_t *length);

#endif
