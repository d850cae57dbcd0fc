/* CUDA's libraries, opened at run time: where they are looked for, and what to do without. */
#include "backend/cuda/library.h"

#include "base/dl.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_once_t once;
    shoal_status status;
    char why[768];
    base_dl *driver, *nvrtc, *cublas; /* stay open */
    cuda_library cuda;
} loader = {.once = PTHREAD_ONCE_INIT};

#define TOOLKIT "/usr/local/cuda/lib64/"
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* The library that a variable names, or the first of the usual names. */
static shoal_status open_one(const char *variable, const char *const *names, size_t n,
                             base_dl **out) {
    const char *told = getenv(variable);
    return told && *told ? base_dl_open(&told, 1, out) : base_dl_open(names, n, out);
}

static shoal_status load_driver(cuda_library *cuda) {
    static const char *const names[] = {"libcuda.so.1"};
    SHOAL_TRY(open_one("SHOAL_CUDA_LIBRARY", names, COUNT(names), &loader.driver));
#define FIND(name, symbol, parameters)                                                             \
    SHOAL_TRY(base_dl_symbol(loader.driver, symbol, &cuda->name));
    CUDA_FUNCTIONS(FIND)
#undef FIND
    return SHOAL_OK;
}

static shoal_status load_nvrtc(cuda_library *cuda) {
    static const char *const names[] = {
        "libnvrtc.so.13",         "libnvrtc.so.12",         "libnvrtc.so.11.2",   "libnvrtc.so",
        TOOLKIT "libnvrtc.so.13", TOOLKIT "libnvrtc.so.12", TOOLKIT "libnvrtc.so"};
    SHOAL_TRY(open_one("SHOAL_CUDA_NVRTC", names, COUNT(names), &loader.nvrtc));
#define FIND(name, symbol, parameters)                                                             \
    SHOAL_TRY(base_dl_symbol(loader.nvrtc, symbol, &cuda->nvrtc.name));
    NVRTC_FUNCTIONS(FIND)
#undef FIND
    int major = 0, minor = 0;
    cuda->nvrtc.version(&major, &minor);
    cuda->nvrtc_version = 1000 * major + 10 * minor;
    return SHOAL_OK;
}

static shoal_status load_cublas(cuda_library *cuda) {
    static const char *const names[] = {
        "libcublas.so.13",         "libcublas.so.12",         "libcublas.so.11",     "libcublas.so",
        TOOLKIT "libcublas.so.13", TOOLKIT "libcublas.so.12", TOOLKIT "libcublas.so"};
    SHOAL_TRY(open_one("SHOAL_CUDA_CUBLAS", names, COUNT(names), &loader.cublas));
#define FIND(name, symbol, parameters)                                                             \
    SHOAL_TRY(base_dl_symbol(loader.cublas, symbol, &cuda->cublas.name));
    CUBLAS_FUNCTIONS(FIND)
#undef FIND
    return SHOAL_OK;
}

static shoal_status start_driver(cuda_library *cuda) {
    int count = 0;
    cuda_code code = cuda->init(0);
    if (!code) code = cuda->device_count(&count);
    if (!code) code = cuda->driver_version(&cuda->version);
    if (!code && !count) code = CUDA_NO_DEVICE;
    return code ? base_fail(SHOAL_NOT_FOUND,
                            "the CUDA driver finds no device that it can use (cuInit: %s)",
                            cuda_error(cuda, code))
                : SHOAL_OK;
}

static shoal_status load(cuda_library *cuda) {
    shoal_status status = load_driver(cuda);
    if (status)
        return base_fail(status, "%s; install NVIDIA's driver (Debian: nvidia-driver, libcuda1)",
                         shoal_error_message());
    SHOAL_TRY(start_driver(cuda));
    status = load_nvrtc(cuda);
    if (status)
        return base_fail(status,
                         "the CUDA driver is there, but NVRTC, which compiles kernels, is not: "
                         "install the CUDA toolkit (Debian: libnvrtc12; Python: "
                         "nvidia-cuda-nvrtc-cu12) and, where it is not found, name libnvrtc by "
                         "SHOAL_CUDA_NVRTC (%s)",
                         shoal_error_message());
    cuda->has_cublas = load_cublas(cuda) == SHOAL_OK;
    if (!cuda->has_cublas)
        base_log(BASE_INFO, "cuda",
                 "products are done by Shoal's own kernels, as cuBLAS is missing: install the CUDA "
                 "toolkit (Debian: libcublas12; Python: nvidia-cublas-cu12), or name libcublas by "
                 "SHOAL_CUDA_CUBLAS (%s)",
                 shoal_error_message());
    return SHOAL_OK;
}

static void load_once(void) {
    loader.status = load(&loader.cuda);
    if (loader.status) snprintf(loader.why, sizeof loader.why, "%s", shoal_error_message());
}

shoal_status cuda_open(const cuda_library **out) {
    pthread_once(&loader.once, load_once);
    *out = &loader.cuda;
    return loader.status ? base_fail(loader.status, "%s", loader.why) : SHOAL_OK;
}

const char *cuda_error(const cuda_library *cuda, cuda_code code) {
    const char *name = NULL;
    if (cuda->error_name(code, &name) || !name) name = "an error without a name";
    return name;
}
