#include "base/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int level_now = -1;

static int from_environment(void) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *name = getenv("SHOAL_LOG");
    for (int i = 0; name && i < 4; i++)
        if (!strcmp(name, names[i])) return i;
    return BASE_WARN;
}

void base_log_set(base_log_level level) { atomic_store(&level_now, (int)level); }

bool base_log_on(base_log_level level) {
    int now = atomic_load_explicit(&level_now, memory_order_relaxed);
    if (now < 0) {
        now = from_environment();
        atomic_store(&level_now, now);
    }
    return (int)level <= now;
}

void base_log(base_log_level level, const char *who, const char *format, ...) {
    if (!base_log_on(level)) return;
    char line[1024];
    int64_t ms = base_now() / BASE_MS;
    int used = snprintf(line, sizeof line, "%lld.%03lld %s: ", (long long)(ms / 1000),
                        (long long)(ms % 1000), who);
    if (used < 0 || used >= (int)sizeof line) return;
    va_list list;
    va_start(list, format);
    vsnprintf(line + used, sizeof line - (size_t)used, format, list);
    va_end(list);
    fprintf(stderr, "%s\n", line); /* one call, so that lines of threads do not mix */
}
