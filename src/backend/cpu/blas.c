/* OpenBLAS, opened at run time. Shoal splits the work over its own threads, so what it wants is a
 * build without threads: Debian's openblas-serial, which may be called from several threads at
 * once. Other builds serve when they can be told to use one thread. */
#include "backend/cpu/cpu.h"

#include "base/dl.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu/openblas-serial/libopenblas.so.0",
#endif
    "libopenblas.so.0",
    "libopenblas.so",
};

extern char **environ;

static cpu_blas blas;
static base_dl *library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* OpenBLAS 0.3.21 takes the kernels of 2004 for processors newer than itself, at a fifth of the
 * speed. The name of kernels that this processor runs better; NULL when its choice is fine. */
static const char *better_core(void) {
    char *(*core_name)(void);
    base_dl_optional(library, "openblas_get_corename", &core_name);
    if (!core_name || getenv("OPENBLAS_CORETYPE")) return NULL;
#ifdef __x86_64__
    const char *core = core_name();
    if (strcmp(core, "Prescott") && strcmp(core, "Nehalem") && strcmp(core, "Core2")) return NULL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
    return NULL;
}

/* OpenBLAS takes the core's name from the environment alone, while it is loaded. setenv would move
 * the host's environment under the feet of threads that read it, so the array is exchanged for a
 * copy instead; the copy stays, since such a thread may still hold it. */
static void reopen(const char *core) {
    static char setting[64], **with;
    size_t n = 0;
    char **before = environ;
    while (before && before[n]) n++;
    with = calloc(n + 2, sizeof *with);
    if (!with) return;
    for (size_t i = 0; i < n; i++) with[i + 1] = before[i];
    snprintf(setting, sizeof setting, "OPENBLAS_CORETYPE=%s", core);
    with[0] = setting;
    base_dl_close(&library);
    environ = with;
    shoal_status status = base_dl_open(names, sizeof names / sizeof names[0], &library);
    environ = before;
    if (status) library = NULL;
}

static void open_blas(void) {
    if (base_dl_open(names, sizeof names / sizeof names[0], &library)) {
        base_log(BASE_INFO, "cpu", "%s; matrix products use plain loops", shoal_error_message());
        return;
    }
    const char *core = better_core();
    if (core) reopen(core);
    void (*set_threads)(int);
    int (*is_parallel)(void);
    if (!library) return;
    base_dl_optional(library, "openblas_set_num_threads", &set_threads);
    base_dl_optional(library, "openblas_get_parallel", &is_parallel);
    if (is_parallel && is_parallel() && set_threads) set_threads(1);
    if (base_dl_symbol(library, "cblas_sgemm", &blas.sgemm) ||
        base_dl_symbol(library, "cblas_dgemm", &blas.dgemm) ||
        base_dl_symbol(library, "cblas_sgemv", &blas.sgemv) ||
        base_dl_symbol(library, "cblas_dgemv", &blas.dgemv)) {
        base_log(BASE_INFO, "cpu", "%s; matrix products use plain loops", shoal_error_message());
        return;
    }
    blas.name = base_dl_name(library);
}

const cpu_blas *cpu_blas_get(void) {
    pthread_once(&once, open_blas);
    return blas.name ? &blas : NULL;
}
