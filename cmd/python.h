/* Commands that are Python: the process becomes the interpreter that has the package. */
#ifndef CMD_PYTHON_H
#define CMD_PYTHON_H

#include "cmd.h"

/* Runs `main` of a module with the words of the command, but for --help, which is answered here.
 * Returns only when there is no interpreter, having said so. */
int cmd_python(const cmd_command *self, const char *module, int argc, char **argv);

#endif
