/* What the control groups of a process let it have. */
#ifndef BASE_OS_GROUP_H
#define BASE_OS_GROUP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct base_group {
    double cores;    /* INFINITY: all */
    uint64_t memory; /* bytes; UINT64_MAX: all */
} base_group;

/* Reads a process's groups (as in /proc/self/cgroup) and their limits below `root`
 * (/sys/fs/cgroup). What cannot be read limits nothing. Any thread. */
void base_group_read(const char *groups, const char *root, base_group *out);

#endif
