/* The instruction log as a file: a thread takes what comes into the ring and appends a line per
 * event. Processes share a file: each write is whole lines, appended. Whoever finds the file full
 * renames it to FILE.1, in the place of the one before; the others notice and go on in the new one.
 * So there are never more than two files of the limit's size. */
#include "base/events.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_MIB = 64, MOST_MIB = 1 << 20, EVERY_MS = 50, BATCH = 256, LINE = 384, NAME = 80 };

struct base_event_file {
    base_events *events;
    char *path;
    off_t limit;
    int fd;
    int64_t unix_offset; /* to base_now's time: that of day */
    bool failed;         /* and told so */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
    char who[NAME];
};

/* A lock on a file keeps other processes out, this one the threads of our own. */
static pthread_mutex_t turning = PTHREAD_MUTEX_INITIALIZER;

/* ---- lines ---- */

static const char header[] =
    "# Shoal's instruction log, a line per event: time (UTC) | process | slot | event | instance | "
    "bytes | other slot | what\n";

static const char *number(uint64_t value, bool none, char out[24]) {
    snprintf(out, 24, none ? "-" : "%llu", (unsigned long long)value);
    return out;
}

size_t base_event_line(const shoal_event *e, const char *who, int64_t unix_at, char *out,
                       size_t room) {
    static const char *const phases[SHOAL_EVENT_PHASES] = {"", " begin", " end"};
    char day[32] = "?", name[32], slot[24], bytes[24], peer[24];
    time_t seconds = (time_t)(unix_at / BASE_SECOND);
    struct tm utc;
    if (gmtime_r(&seconds, &utc)) strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(name, sizeof name, "%s%s", shoal_event_name(e->kind),
             e->phase < SHOAL_EVENT_PHASES ? phases[e->phase] : "");
    int n = snprintf(out, room, "%s.%06dZ | %-20s | %4s | %-13s | %8llu | %10s | %4s | %.81s\n",
                     day, (int)(unix_at % BASE_SECOND / 1000), who,
                     number(e->slot, e->slot == SHOAL_NO_SLOT, slot), name,
                     (unsigned long long)e->instance, number(e->bytes, !e->bytes, bytes),
                     number(e->peer, e->peer == SHOAL_NO_SLOT, peer), e->label);
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* ---- the file ---- */

static bool hold(int fd, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLKW, &lock) == 0;
}

/* Opens the file; one that is new begins with what its columns are. */
static shoal_status open_file(base_event_file *self) {
    struct stat there;
    self->fd = open(self->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (self->fd < 0)
        return base_fail_errno(errno, "SHOAL_INSTRUCTION_LOG: writing %s", self->path);
    pthread_mutex_lock(&turning);
    bool held = hold(self->fd, F_WRLCK), written = true;
    if (!fstat(self->fd, &there) && there.st_size == 0)
        written = write(self->fd, header, sizeof header - 1) == (ssize_t)sizeof header - 1;
    int error = errno;
    if (held) hold(self->fd, F_UNLCK);
    pthread_mutex_unlock(&turning);
    if (written) return SHOAL_OK;
    close(self->fd);
    self->fd = -1;
    return base_fail_errno(error, "SHOAL_INSTRUCTION_LOG: writing %s", self->path);
}

static bool is_current(const base_event_file *self, const struct stat *mine) {
    struct stat there;
    return !stat(self->path, &there) && there.st_ino == mine->st_ino &&
           there.st_dev == mine->st_dev;
}

/* A full file gives its name to a new one. */
static shoal_status turn(base_event_file *self) {
    struct stat mine;
    if (self->fd >= 0) {
        if (fstat(self->fd, &mine)) return base_fail_errno(errno, "looking at %s", self->path);
        if (mine.st_size < self->limit && is_current(self, &mine)) return SHOAL_OK;
        pthread_mutex_lock(&turning);
        bool held = hold(self->fd, F_WRLCK);
        if (mine.st_size >= self->limit && is_current(self, &mine)) {
            size_t room = strlen(self->path) + 3;
            char *old = malloc(room);
            if (old) snprintf(old, room, "%s.1", self->path);
            if (!old || rename(self->path, old))
                base_log(BASE_WARN, self->who, "%s cannot be renamed", self->path);
            free(old);
        }
        if (held) hold(self->fd, F_UNLCK);
        pthread_mutex_unlock(&turning);
        close(self->fd);
        self->fd = -1;
    }
    return open_file(self);
}

static void write_lines(base_event_file *self, const char *text, size_t n) {
    shoal_status status = turn(self);
    if (status == SHOAL_OK && write(self->fd, text, n) != (ssize_t)n)
        status = base_fail_errno(errno, "writing %s", self->path);
    if (status != SHOAL_OK && !self->failed)
        base_log(BASE_WARN, self->who, "the instruction log has gaps: %s", shoal_error_message());
    self->failed |= status != SHOAL_OK;
}

/* ---- the thread ---- */

/* Threads note what they have timed a moment later, so neighbours may be in the wrong order. */
static void sort_by_time(shoal_event *events, size_t n) {
    for (size_t i = 1; i < n; i++) {
        shoal_event event = events[i];
        size_t at = i;
        for (; at > 0 && events[at - 1].at > event.at; at--) events[at] = events[at - 1];
        events[at] = event;
    }
}

/* Writes what is there. */
static void drain(base_event_file *self, uint64_t *from, char *text, shoal_event *events) {
    while (true) {
        uint64_t lost = 0;
        size_t n = base_events_read(self->events, from, events, BATCH, &lost), used = 0;
        char who[NAME];
        sort_by_time(events, n);
        pthread_mutex_lock(&self->lock);
        memcpy(who, self->who, sizeof who);
        pthread_mutex_unlock(&self->lock);
        if (lost)
            used +=
                (size_t)snprintf(text, LINE, "# %s: %llu events came too fast and are missing\n",
                                 who, (unsigned long long)lost);
        for (size_t i = 0; i < n; i++)
            used += base_event_line(&events[i], who, events[i].at + self->unix_offset, text + used,
                                    LINE);
        if (used) write_lines(self, text, used);
        if (n < BATCH) return;
    }
}

static void *write_file(void *context) {
    base_event_file *self = context;
    uint64_t from = 1;
    char *text = malloc((BATCH + 1) * (size_t)LINE);
    shoal_event *events = malloc(BATCH * sizeof *events);
    base_os_thread_name("shoal-log");
    if (!text || !events) base_log(BASE_WARN, self->who, "no memory for the instruction log");
    bool stop = !text || !events;
    while (!stop) {
        pthread_mutex_lock(&self->lock);
        struct timespec until = base_timespec(base_now() + EVERY_MS * BASE_MS);
        if (!self->stop) pthread_cond_timedwait(&self->changed, &self->lock, &until);
        stop = self->stop;
        pthread_mutex_unlock(&self->lock);
        drain(self, &from, text, events);
    }
    free(text);
    free(events);
    return NULL;
}

/* ---- life ---- */

static shoal_status read_limit(off_t *out) {
    const char *text = getenv("SHOAL_INSTRUCTION_LOG_MIB");
    char *end;
    *out = (off_t)DEFAULT_MIB << 20;
    if (!text || !*text) return SHOAL_OK;
    long mib = strtol(text, &end, 10);
    if (*end || mib < 1 || mib > MOST_MIB)
        return base_fail(SHOAL_INVALID, "SHOAL_INSTRUCTION_LOG_MIB is '%s': give a number from 1",
                         text);
    *out = (off_t)mib << 20;
    return SHOAL_OK;
}

static void set_name(base_event_file *self, const char *who) {
    snprintf(self->who, sizeof self->who, "%.63s:%ld", who, (long)getpid());
    for (char *c = self->who; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || *c == '|') *c = '?';
}

static shoal_status start(base_event_file *self) {
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, &clock);
    pthread_condattr_destroy(&clock);
    int error = pthread_create(&self->thread, NULL, write_file, self);
    if (!error) return SHOAL_OK;
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->changed);
    return base_fail_errno(error, "starting the instruction log");
}

shoal_status base_event_file_new(base_events *events, const char *who, base_event_file **out) {
    const char *path = getenv("SHOAL_INSTRUCTION_LOG");
    *out = NULL;
    if (!path || !*path) return SHOAL_OK;
    base_event_file *self = calloc(1, sizeof *self);
    if (!self) return base_fail(SHOAL_NO_MEMORY, "no memory for the instruction log");
    self->events = events;
    self->fd = -1;
    self->unix_offset = base_time() - base_now();
    set_name(self, who);
    self->path = strdup(path);
    shoal_status status =
        self->path ? read_limit(&self->limit) : base_fail(SHOAL_NO_MEMORY, "no memory for a path");
    if (status == SHOAL_OK) status = open_file(self);
    if (status == SHOAL_OK) status = base_events_record(events, INT64_MAX);
    if (status == SHOAL_OK) status = start(self);
    if (status == SHOAL_OK) {
        *out = self;
        return SHOAL_OK;
    }
    if (self->fd >= 0) close(self->fd);
    free(self->path);
    free(self);
    return status;
}

void base_event_file_name(base_event_file *self, const char *who) {
    pthread_mutex_lock(&self->lock);
    set_name(self, who);
    pthread_mutex_unlock(&self->lock);
}

void base_event_file_destroy(base_event_file **out) {
    base_event_file *self = *out;
    *out = NULL;
    if (!self) return;
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->changed);
    if (self->fd >= 0) close(self->fd);
    free(self->path);
    free(self);
}
