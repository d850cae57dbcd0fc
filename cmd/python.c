/* The interpreter is the one that SHOAL_PYTHON names, else python3. */
#include "python.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the interpreter is to run: the module, the command and the module again go into it. No
 * module of the current folder is imported. Until all are, Ctrl-C waits: it ends the process as it
 * ends any, and not with a list of the modules that were under way. */
static const char program[] =
    "import signal, sys\n"
    "try:\n"
    "    from %s import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'shoal: %s: {sys.executable} has no package shoal with this command ({error}); "
    "'\n"
    "             'install it there, or name another interpreter by SHOAL_PYTHON')\n"
    "before = signal.getsignal(signal.SIGINT)\n"
    "if before is not signal.SIG_IGN:\n"
    "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\n"
    "signal.signal(signal.SIGINT, before)\n"
    "sys.exit(main())\n";

void cmd_python_take(void *input, int key, char *arg) { (void)input, (void)key, (void)arg; }

int cmd_python(const cmd_command *self, const char *module, int argc, char **argv) {
    static char name[] = "python3", command[] = "-c", help[] = "--help";
    static char text[sizeof program + 128], own[PATH_MAX];
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            char *words[] = {argv[0], help, NULL};
            cmd_parse(self, 2, words, NULL);
        }
    char *python = getenv("SHOAL_PYTHON");
    if (python == NULL || python[0] == 0) python = name;
    char **words = calloc((size_t)argc + 3, sizeof *words);
    if (words == NULL) return cmd_fail("%s: no memory", self->name);
    snprintf(text, sizeof text, program, module, self->name);
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
    return cmd_fail("%s: cannot run %s: %s; install Python 3.11 or later and the package shoal, "
                    "or name another interpreter by SHOAL_PYTHON",
                    self->name, python, strerror(error));
}
