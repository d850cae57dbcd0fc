#include "base/log.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"error", "warn", "info", "debug"};
enum { LEVELS = sizeof names / sizeof *names };

static atomic_int level_now = -1;

void base_log_set(base_log_level level) { atomic_store(&level_now, (int)level); }

static int from_environment(void) {
    const char *name = getenv("SHOAL_LOG");
    if (!name || !*name) return BASE_WARN;
    for (int i = 0; i < LEVELS; i++)
        if (!strcmp(name, names[i])) return i;
    base_log_set(BASE_WARN);
    base_log(BASE_WARN, "log", "SHOAL_LOG is '%s', not error, warn, info or debug: taken as warn",
             name);
    return BASE_WARN;
}

bool base_log_on(base_log_level level) {
    int now = atomic_load_explicit(&level_now, memory_order_relaxed);
    if (now < 0) {
        now = from_environment();
        atomic_store(&level_now, now);
    }
    return (int)level <= now;
}

static int put_stamp(base_log_level level, const char *who, char *out, size_t room) {
    int64_t now = base_time();
    time_t seconds = (time_t)(now / BASE_SECOND);
    struct tm utc;
    char time[32] = "?";
    if (gmtime_r(&seconds, &utc)) strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    return snprintf(out, room, "%s.%03dZ %s %s: ", time, (int)(now / BASE_MS % 1000), names[level],
                    who && *who ? who : "shoal");
}

void base_log(base_log_level level, const char *who, const char *format, ...) {
    if (!base_log_on(level)) return;
    char line[1024];
    int used = put_stamp(level, who, line, sizeof line);
    if (used < 0 || used >= (int)sizeof line) return;
    va_list list;
    va_start(list, format);
    vsnprintf(line + used, sizeof line - (size_t)used, format, list);
    va_end(list);
    base_text_clean(line, false);
    fprintf(stderr, "%s\n", line); /* one call, so that lines of threads do not mix */
}
