#include "daemon.h"

#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 60000, PATH_ROOM = 512 };

/* Of this process, which is one daemon at most. */
static struct {
    bool started;
    const char *id;
    char pid_path[PATH_ROOM], log_path[PATH_ROOM];
    int lock;       /* the pid file, locked */
    int parent;     /* the pipe on which the parent waits; -1: it is gone */
    FILE *terminal; /* the parent's standard error until daemon_ready */
} self = {.lock = -1, .parent = -1};

void daemon_identify(const char *command, const char *name, char id[DAEMON_ID]) {
    if (name == NULL) {
        snprintf(id, DAEMON_ID, "%s", command);
        return;
    }
    bool good = name[0] != 0 && strlen(name) <= 63;
    for (const char *c = name; *c != 0; c++)
        good = good && (isalnum((unsigned char)*c) || (c > name && strchr("._-", *c) != NULL));
    if (!good)
        cmd_usage("--daemon '%s': the name must have 1 to 63 letters, digits, and after the first "
                  "also '.', '_', '-'",
                  name);
    snprintf(id, DAEMON_ID, "%s-%s", command, name);
}

static int find_paths(const char *id) {
    char folder[PATH_ROOM - DAEMON_ID - 8];
    if (cmd_try(shoal_folder_path(SHOAL_FOLDER_RUNTIME, true, folder, sizeof folder)) != CMD_OK)
        return CMD_FAILED;
    snprintf(self.pid_path, sizeof self.pid_path, "%s/%s.pid", folder, id);
    if (cmd_try(shoal_folder_path(SHOAL_FOLDER_STATE, true, folder, sizeof folder)) != CMD_OK)
        return CMD_FAILED;
    snprintf(self.log_path, sizeof self.log_path, "%s/%s.log", folder, id);
    self.id = id;
    return CMD_OK;
}

/* ---- the log ---- */

/* Points standard error, and standard output if asked, at the log. Safe in a signal handler. */
static bool open_log(bool output) {
    int fd = open(self.log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY, 0600);
    if (fd < 0) return false;
    bool good = dup2(fd, STDERR_FILENO) >= 0;
    if (output) good = dup2(fd, STDOUT_FILENO) >= 0 && good;
    if (fd > STDERR_FILENO) close(fd);
    return good;
}

static void reopen_log(int number) {
    static const char failed[] = "SIGHUP: the log cannot be reopened; continuing with this one\n";
    int error = errno;
    (void)number;
    if (!open_log(true) && write(STDERR_FILENO, failed, sizeof failed - 1) < 0) errno = error;
    errno = error;
}

bool daemon_says(const char *message) {
    if (!self.started) return false;
    struct timespec now;
    struct tm utc;
    char stamp[32] = "?";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc) != NULL)
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf(stderr, "%s.%03ldZ error %s: %s\n", stamp, now.tv_nsec / 1000000, self.id, message);
    if (self.terminal != NULL) fprintf(self.terminal, "shoal: %s\n", message);
    return true;
}

/* ---- the child ---- */

/* The lock tells whether a daemon runs: the file may be left over, its number another's by now. */
static int take_lock(void) {
    for (int tries = 0; tries < 10; tries++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        struct stat held, named;
        char text[32];
        int fd = open(self.pid_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) return cmd_fail("opening %s: %s", self.pid_path, strerror(errno));
        if (fcntl(fd, F_SETLK, &lock) != 0) {
            bool runs = errno == EACCES || errno == EAGAIN;
            int error = errno;
            if (runs && fcntl(fd, F_GETLK, &lock) != 0) lock.l_pid = 0;
            close(fd);
            if (!runs) return cmd_fail("locking %s: %s", self.pid_path, strerror(error));
            return cmd_fail("%s is already running, as process %ld; stop it with 'shoal stop %s', "
                            "or give this one another name: --daemon=NAME",
                            self.id, (long)lock.l_pid, self.id);
        }
        bool current = fstat(fd, &held) == 0 && stat(self.pid_path, &named) == 0 &&
                       held.st_ino == named.st_ino && held.st_dev == named.st_dev;
        if (!current) { /* its last holder has just removed it */
            close(fd);
            continue;
        }
        int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
        self.lock = fd;
        if (ftruncate(fd, 0) == 0 && write(fd, text, (size_t)n) == n) return CMD_OK;
        return cmd_fail("writing %s: %s", self.pid_path, strerror(errno));
    }
    return cmd_fail("%s keeps changing: does something start %s repeatedly?", self.pid_path,
                    self.id);
}

/* The instruction log stays where the user meant it, whatever folder is the daemon's. */
static void keep_log_path(void) {
    char here[4096], path[8192];
    const char *log = getenv("SHOAL_INSTRUCTION_LOG");
    if (log == NULL || log[0] == 0 || log[0] == '/' || getcwd(here, sizeof here) == NULL) return;
    if (snprintf(path, sizeof path, "%s/%s", here, log) < (int)sizeof path)
        setenv("SHOAL_INSTRUCTION_LOG", path, 1);
}

static int become_daemon(int parent) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction reopen = {.sa_handler = reopen_log, .sa_flags = SA_RESTART};
    setsid();
    umask(077);
    sigemptyset(&ignore.sa_mask);
    sigemptyset(&reopen.sa_mask);
    sigaction(SIGPIPE, &ignore, NULL); /* the parent, or its terminal, may go */
    sigaction(SIGHUP, &ignore, NULL);  /* the end of the terminal's session is not ours */
    /* Before the log is touched, which is another's as long as that one runs. */
    if (take_lock() != CMD_OK) return CMD_FAILED;
    self.started = true;
    self.parent = parent;
    int terminal = dup(STDERR_FILENO), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    self.terminal = terminal >= 0 ? fdopen(terminal, "w") : NULL;
    if (self.terminal != NULL) setvbuf(self.terminal, NULL, _IONBF, 0);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        if (null > STDERR_FILENO) close(null);
    }
    if (!open_log(false)) return cmd_fail("opening %s: %s", self.log_path, strerror(errno));
    sigaction(SIGHUP, &reopen, NULL);
    keep_log_path();
    return chdir("/") == 0 ? CMD_OK : cmd_fail("going to /: %s", strerror(errno));
}

/* Services of systemd that wait for this one wait for these words (sd_notify(3)). */
static void tell_systemd(void) {
    static const char words[] = "READY=1";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length >= sizeof to.sun_path) return;
    memcpy(to.sun_path, path, length);
    if (path[0] == '@') to.sun_path[0] = 0; /* a name that is no file */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd >= 0 && sendto(fd, words, sizeof words - 1, MSG_NOSIGNAL | MSG_DONTWAIT,
                          (const struct sockaddr *)&to, size) < 0)
        cmd_fail("telling systemd at %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
}

void daemon_ready(void) {
    char word = 'r';
    tell_systemd();
    if (!self.started || self.parent < 0) return;
    fflush(stdout);
    open_log(true);
    if (self.terminal != NULL) fclose(self.terminal);
    self.terminal = NULL;
    /* A parent that has been interrupted wanted no daemon. */
    if (write(self.parent, &word, 1) != 1) cmd_stop = SIGTERM;
    close(self.parent);
    self.parent = -1;
}

void daemon_end(void) {
    if (self.lock < 0) return;
    unlink(self.pid_path);
    close(self.lock);
    self.lock = -1;
}

/* ---- the parent ---- */

static int child_failed(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return cmd_fail("waiting for %s: %s", self.id, strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) != CMD_OK) return WEXITSTATUS(status);
    if (WIFEXITED(status)) return cmd_fail("%s ended immediately; see %s", self.id, self.log_path);
    return cmd_fail("%s was killed by signal %d; see %s", self.id, WTERMSIG(status), self.log_path);
}

static _Noreturn void await_child(pid_t child, int pipe) {
    struct pollfd waiting = {.fd = pipe, .events = POLLIN};
    double deadline = cmd_now() + START_MS * 1e-3;
    int turned;
    char word;
    do {
        double left = deadline - cmd_now();
        turned = poll(&waiting, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
    } while (turned < 0 && errno == EINTR);
    if (turned == 0) {
        kill(child, SIGTERM);
        exit(cmd_fail("%s did not start within %d s and was stopped; see %s", self.id,
                      START_MS / 1000, self.log_path));
    }
    if (read(pipe, &word, 1) != 1) exit(child_failed(child));
    if (cmd_json) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "event", "background");
        cJSON_AddStringToObject(row, "name", self.id);
        cJSON_AddNumberToObject(row, "pid", (double)child);
        cJSON_AddStringToObject(row, "log", self.log_path);
        exit(text_json_line(row));
    }
    printf("%s: running in the background as process %ld; stop it with: shoal stop %s\n%s: its log "
           "is %s\n",
           self.id, (long)child, self.id, self.id, self.log_path);
    exit(fflush(stdout) == 0 ? CMD_OK : CMD_FAILED);
}

int daemon_start(const char *id) {
    int ends[2];
    if (find_paths(id) != CMD_OK) return CMD_FAILED;
    setenv("SHOAL_LOG", "info", 0); /* a log nobody asked to be silent */
    if (pipe(ends) != 0) return cmd_fail("making a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        int error = errno;
        close(ends[0]);
        close(ends[1]);
        return cmd_fail("starting a process: %s", strerror(error));
    }
    if (child == 0) {
        close(ends[0]);
        return become_daemon(ends[1]);
    }
    close(ends[1]);
    await_child(child, ends[0]);
}
