/* What the processor offers this process. */
#ifndef BASE_OS_CPU_H
#define BASE_OS_CPU_H

#include "base/status.h"

/* Cores this process may use: those that it may run on, and no more than its control groups grant
 * it, rounded up; at least 1. Any thread. */
uint32_t base_cpu_count(void);
/* Cores of the machine, whoever may use them; at least 1. Any thread. */
uint32_t base_cpu_online(void);
/* The core this thread runs on, or -1. Any thread. */
int base_cpu_now(void);
/* Moves this thread to another core than `cpu`, where it may use another; it stays free to run on
 * any afterwards. Any thread. */
void base_cpu_leave(int cpu);
/* Bytes of memory of the machine, or what this process's control groups grant it; 0 when that is
 * unknown. Any thread. */
uint64_t base_cpu_memory(void);
/* A number that all processes of this machine since it was started have alike, whatever they are
 * called and in whichever namespaces they are; 0: it cannot be told. Any thread. */
uint64_t base_cpu_machine(void);
/* Instructions that not every processor of its kind has, as far as kernels use them. Each of x86-64
 * stands for those of AVX2 (with FMA and F16C), of AVX-512 (F, DQ, BW and VL, and all of AVX2), and
 * beyond these for sums of four products of bytes (VNNI), and of two of bfloat16 (BF16, and VNNI);
 * those of aarch64 for sums of four products of bytes (SDOT), and of eight (SMMLA, and BFMMLA of
 * bfloat16). */
enum {
    BASE_CPU_AVX2 = 1,
    BASE_CPU_AVX512 = 2,
    BASE_CPU_VNNI = 4,
    BASE_CPU_BF16 = 8,
    BASE_CPU_DOT = 16,
    BASE_CPU_I8MM = 32
};
/* Those that this processor has and the system lets be used. Any thread. */
unsigned base_cpu_features(void);
/* The processor's model in words ("AMD EPYC 9654"), cut to fit; reads a file, so not for start-up
 * paths. Any thread. */
void base_cpu_name(char *out, size_t bytes);

/* Fresh zeroed pages from a multiple of BASE_PAGES_UNIT on, in huge pages of that size where the
 * system has them. `bytes` must be a multiple of BASE_PAGES_GRAIN. NULL with a message when there
 * is no memory. Any thread. */
#define BASE_PAGES_UNIT ((size_t)2 << 20)
#define BASE_PAGES_GRAIN ((size_t)1 << 16)
void *base_pages_new(size_t bytes);
void base_pages_free(void *pages, size_t bytes);

#endif
