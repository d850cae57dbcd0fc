/* Control groups of Linux, by which containers and services are limited. Of version 2 a process has
 * one group, whose files say "max" where there is no limit; of version 1 one for each kind of
 * limit, whose files say -1 or a number beyond any machine. Limits of all groups above count as
 * well (Linux, admin-guide/cgroup-v2 and cgroup-v1). */
#include "base/os_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATH = 4096 };

/* The first words of a file of a group; false when there is none. */
static bool read_words(const char *folder, const char *name, char out[128]) {
    char path[MOST_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    bool read = file && fgets(out, 128, file);
    if (file) fclose(file);
    return read;
}

static void limit_cores(base_group *g, double time, double period) {
    if (time > 0 && period > 0) g->cores = fmin(g->cores, time / period);
}

static void limit_memory(base_group *g, const char *words) {
    char *end;
    unsigned long long bytes = strtoull(words, &end, 10);
    if (end != words && bytes > 0 && bytes < g->memory) g->memory = bytes;
}

static void read_group(base_group *g, const char *folder) {
    char words[128], period[128];
    double time, of;
    if (read_words(folder, "cpu.max", words) && sscanf(words, "%lf %lf", &time, &of) == 2)
        limit_cores(g, time, of);
    if (read_words(folder, "cpu.cfs_quota_us", words) &&
        read_words(folder, "cpu.cfs_period_us", period))
        limit_cores(g, strtod(words, NULL), strtod(period, NULL));
    if (read_words(folder, "memory.max", words)) limit_memory(g, words);
    if (read_words(folder, "memory.limit_in_bytes", words)) limit_memory(g, words);
}

/* A group and all above it. In a container its path may be one of the machine's, which cannot be
 * seen there: the topmost is the container's own then. */
static void read_path(base_group *g, const char *root, const char *kind, const char *path) {
    char folder[MOST_PATH];
    int top = snprintf(folder, sizeof folder, "%s%s%s", root, *kind ? "/" : "", kind);
    int n = snprintf(folder, sizeof folder, "%s%s%s%s", root, *kind ? "/" : "", kind, path);
    if (top < 0 || n < 0 || (size_t)n >= sizeof folder) return;
    while (true) {
        read_group(g, folder);
        char *last = strrchr(folder + top, '/');
        if (!last) return;
        *last = 0;
    }
}

/* Whether a list with commas, such as "cpu,cpuacct", names a kind. */
static bool has_kind(const char *list, size_t bytes, const char *kind) {
    size_t n = strlen(kind);
    for (size_t at = 0; at < bytes; at += strcspn(list + at, ",:") + 1)
        if (!strncmp(list + at, kind, n) && strchr(",:", list[at + n])) return true;
    return false;
}

void base_group_read(const char *groups, const char *root, base_group *out) {
    char line[MOST_PATH];
    *out = (base_group){.cores = INFINITY, .memory = UINT64_MAX};
    FILE *file = fopen(groups, "re");
    while (file && fgets(line, sizeof line, file)) { /* "4:cpu,cpuacct:/a/b", or "0::/a/b" */
        char *kinds = strchr(line, ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!path) continue;
        size_t bytes = (size_t)(path - ++kinds);
        path[1 + strcspn(path + 1, "\n")] = 0;
        if (!bytes) read_path(out, root, "", path + 1);
        if (has_kind(kinds, bytes, "cpu")) read_path(out, root, "cpu", path + 1);
        if (has_kind(kinds, bytes, "memory")) read_path(out, root, "memory", path + 1);
    }
    if (file) fclose(file);
}
