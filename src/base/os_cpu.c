#define _GNU_SOURCE
#include "base/os_cpu.h"

#include "base/map.h"
#include "base/os_group.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static base_group limits;

static void read_limits(void) { base_group_read("/proc/self/cgroup", "/sys/fs/cgroup", &limits); }

uint32_t base_cpu_online(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

static uint32_t cores_allowed(void) {
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    return base_cpu_online(); /* more cores than a cpu_set_t holds */
}

/* Threads beyond what a group grants would have it stopped in the middle of each period. */
uint32_t base_cpu_count(void) {
    pthread_once(&once, read_limits);
    return (uint32_t)fmin(cores_allowed(), fmax(1, ceil(limits.cores)));
}

int base_cpu_now(void) { return sched_getcpu(); }

void base_cpu_leave(int cpu) {
    cpu_set_t may, others;
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof may, &may)) return;
    others = may;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) && !sched_setaffinity(0, sizeof others, &others))
        sched_setaffinity(0, sizeof may, &may);
}

uint64_t base_cpu_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    uint64_t all = pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : 0;
    pthread_once(&once, read_limits);
    return limits.memory < all ? limits.memory : all;
}

uint64_t base_cpu_machine(void) {
    char id[64];
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = file ? fread(id, 1, sizeof id, file) : 0;
    if (file) fclose(file);
    return n ? base_hash(id, n) : 0;
}

unsigned base_cpu_features(void) {
    unsigned found = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found |= BASE_CPU_AVX2;
    if (found && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        found |= BASE_CPU_AVX512;
    if (found & BASE_CPU_AVX512 && __builtin_cpu_supports("avx512vnni")) found |= BASE_CPU_VNNI;
    if (found & BASE_CPU_VNNI && __builtin_cpu_supports("avx512bf16")) found |= BASE_CPU_BF16;
#elif defined(__aarch64__)
    unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    if (first & HWCAP_ASIMDDP) found |= BASE_CPU_DOT;
    if (found && (second & HWCAP2_I8MM) && (second & HWCAP2_BF16)) found |= BASE_CPU_I8MM;
#endif
    return found;
}

/* What boards with a device tree, as of ARM, are called: their /proc/cpuinfo has numbers alone. */
static bool name_board(char *out, size_t bytes) {
    FILE *file = fopen("/proc/device-tree/model", "re");
    size_t n = file ? fread(out, 1, bytes - 1, file) : 0;
    if (file) fclose(file);
    out[n] = 0;
    return *out;
}

void base_cpu_name(char *out, size_t bytes) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10)) continue;
        const char *name = colon + 1 + strspn(colon + 1, " \t");
        snprintf(out, bytes, "%.*s", (int)strcspn(name, "\n"), name);
        found = true;
    }
    if (file) fclose(file);
    struct utsname host;
    if (!found && !name_board(out, bytes))
        snprintf(out, bytes, "%s processor", uname(&host) < 0 ? "unknown" : host.machine);
}

void *base_pages_new(size_t bytes) {
    /* One unit more than asked, so that the block can begin on a huge page. */
    size_t asked;
    char *map = base_add_overflow(bytes, BASE_PAGES_UNIT, &asked)
                    ? MAP_FAILED
                    : mmap(NULL, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
        return NULL;
    }
    size_t before = (size_t)(-(uintptr_t)map & (BASE_PAGES_UNIT - 1));
    if (before) munmap(map, before);
    if (before < BASE_PAGES_UNIT) munmap(map + before + bytes, BASE_PAGES_UNIT - before);
    /* Of the last page as much as is used: a huge one would be there whole. */
    madvise(map + before, bytes & ~(BASE_PAGES_UNIT - 1), MADV_HUGEPAGE);
    return map + before;
}

void base_pages_free(void *pages, size_t bytes) { munmap(pages, bytes); }
