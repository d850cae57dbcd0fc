#define _GNU_SOURCE
#include "keeper.h"

#include "cmd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds: until one that was told to end is killed; before it is started again, twice as long each
 * time, unless it has lived for LIVES_S. */
enum { ENDS_S = 5, LEAST_PAUSE_S = 1, MOST_PAUSE_S = 600, LIVES_S = 60 };
extern char **environ;

struct keeper {
    char *what, *addresses;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pid_t pid; /* 0: there is none */
    bool ending;
};

static struct timespec in_seconds(double seconds) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)seconds;
    return at;
}

/* With no signal blocked, as the thread has all. */
static pid_t spawn(const keeper *k) {
    const char *const words[] = {"shoal", "compile",    "--serve", k->what,
                                 "--hub", k->addresses, NULL};
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = 0;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int code =
        posix_spawn(&pid, "/proc/self/exe", NULL, &attributes, (char *const *)words, environ);
    posix_spawnattr_destroy(&attributes);
    if (code != 0) cmd_fail("starting the keeper of artifacts: %s", strerror(code));
    return code == 0 ? pid : 0;
}

static void describe(int status, char *out, size_t room) {
    if (WIFSIGNALED(status))
        snprintf(out, room, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(out, room, "ended with code %d", WEXITSTATUS(status));
}

/* Until its end. Its number stays its own until the lock is held, as keeper_end may send to it.
 * Lock held, but not meanwhile. */
static void await(keeper *k) {
    pid_t pid = k->pid;
    siginfo_t info;
    int status = 0;
    char text[96];
    pthread_mutex_unlock(&k->lock);
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) && errno == EINTR) {
    }
    pthread_mutex_lock(&k->lock);
    waitpid(pid, &status, 0);
    k->pid = 0;
    describe(status, text, sizeof text);
    /* It ends with its hub, which may be faster than that is told here. */
    k->ending |= cmd_stop != 0;
    if (!k->ending) fprintf(stderr, "hub: the keeper of artifacts %s\n", text);
}

static void *watch(void *context) {
    keeper *k = context;
    double pause = LEAST_PAUSE_S;
    pthread_mutex_lock(&k->lock);
    while (!k->ending) {
        double began = cmd_now();
        k->pid = spawn(k);
        if (k->pid) await(k);
        if (k->ending) break;
        if (cmd_now() - began > LIVES_S) pause = LEAST_PAUSE_S;
        fprintf(stderr, "hub: it is started again in %.0f s\n", pause);
        struct timespec until = in_seconds(pause);
        while (!k->ending && !pthread_cond_timedwait(&k->changed, &k->lock, &until)) {
        }
        pause = pause * 2 < MOST_PAUSE_S ? pause * 2 : MOST_PAUSE_S;
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

static void drop(keeper *k) {
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k->what);
    free(k->addresses);
    free(k);
}

keeper *keeper_start(const char *what, const char *addresses) {
    keeper *k = calloc(1, sizeof *k);
    pthread_condattr_t monotonic;
    sigset_t all, before;
    if (k == NULL) {
        cmd_fail("starting the keeper of artifacts: no memory");
        return NULL;
    }
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&k->lock, NULL);
    k->what = strdup(what);
    k->addresses = strdup(addresses);
    fflush(NULL);
    signal(SIGCHLD, SIG_DFL); /* a parent may have it ignored: then nobody is told how one ended */
    sigfillset(&all);         /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = k->what == NULL || k->addresses == NULL ? ENOMEM
                                                       : pthread_create(&k->thread, NULL, watch, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) return k;
    cmd_fail("starting the keeper of artifacts: %s", strerror(code));
    drop(k);
    return NULL;
}

void keeper_end(keeper **out) {
    keeper *k = *out;
    *out = NULL;
    if (k == NULL) return;
    pthread_mutex_lock(&k->lock);
    k->ending = true;
    if (k->pid) kill(k->pid, SIGTERM);
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->lock);
    struct timespec until = in_seconds(ENDS_S);
    if (pthread_clockjoin_np(k->thread, NULL, CLOCK_MONOTONIC, &until)) {
        pthread_mutex_lock(&k->lock);
        if (k->pid) kill(k->pid, SIGKILL);
        pthread_mutex_unlock(&k->lock);
        pthread_join(k->thread, NULL);
    }
    drop(k);
}
