/* The interpreter is the one that SHOAL_PYTHON names, else python3. */
#include "python.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

/* The words of the interpreter, its name first, and before those given the module's program; NULL:
 * no memory. */
static char **words_of(const cmd_command *self, const char *module, int n, char **given) {
    static char name[] = "python3", command[] = "-c";
    static char text[sizeof program + 128], own[PATH_MAX];
    char *python = getenv("SHOAL_PYTHON");
    if (python == NULL || python[0] == 0) python = name;
    char **words = calloc((size_t)n + 4, sizeof *words);
    if (words == NULL) return NULL;
    snprintf(text, sizeof text, program, module, self->name);
    words[0] = python;
    words[1] = command;
    words[2] = text;
    memcpy(words + 3, given, (size_t)n * sizeof *words);
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length > 0) setenv("SHOAL", own, 1); /* the hub and the workers are this command's */
    setenv("PYTHONSAFEPATH", "1", 1);
    return words;
}

/* Becomes the interpreter; returns when there is none, having said so. */
static int become(const cmd_command *self, char **words) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, NULL);
    execvp(words[0], words);
    int error = errno;
    return cmd_fail("%s: cannot run %s: %s; install Python 3.11 or later and the package shoal, "
                    "or name another interpreter by SHOAL_PYTHON",
                    self->name, words[0], strerror(error));
}

int cmd_python(const cmd_command *self, const char *module, int argc, char **argv) {
    static char help[] = "--help";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            char *words[] = {argv[0], help, NULL};
            cmd_parse(self, 2, words, NULL);
        }
    char **words = words_of(self, module, argc - 1, argv + 1);
    if (words == NULL) return cmd_fail("%s: no memory", self->name);
    int code = become(self, words);
    free(words);
    return code;
}

int cmd_python_output(const cmd_command *self, const char *module, const char *argument, char **out,
                      size_t *length) {
    int ends[2], status = 0;
    ssize_t n = -1;
    char *given = strdup(argument);
    char **words = given != NULL ? words_of(self, module, 1, &given) : NULL;
    pid_t child = -1;
    *out = NULL;
    if (words != NULL && pipe(ends) == 0) {
        fflush(NULL);
        child = fork();
        if (child == 0) {
            dup2(ends[1], STDOUT_FILENO);
            close(ends[0]);
            close(ends[1]);
            _exit(become(self, words));
        }
        close(ends[1]);
        FILE *from = child > 0 ? fdopen(ends[0], "r") : NULL;
        size_t room = 0;
        if (from != NULL) n = getdelim(out, &room, 0, from); /* a text: no byte of it is 0 */
        if (from != NULL)
            fclose(from);
        else
            close(ends[0]);
    }
    free(words);
    free(given);
    if (child < 0) return cmd_fail("%s: cannot start Python: %s", self->name, strerror(errno));
    if (cmd_stop != 0) kill(child, SIGTERM);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (n > 0 && status == 0) {
        *length = (size_t)n;
        return CMD_OK;
    }
    bool told = WIFEXITED(status) && WEXITSTATUS(status) != 0;
    free(*out);
    *out = NULL;
    return told || cmd_stop != 0 ? CMD_FAILED : cmd_fail("%s: Python ended early", self->name);
}
