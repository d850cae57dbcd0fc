/* What an NVIDIA device does at best, again and again: a copy within its memory, or a product by
 * cuBLAS, called directly.
 *
 *     cuda copy SIDE               SIDE x SIDE f32 from one place to another
 *     cuda product DTYPE M K N     f32, f64, f16 or bf16, by cublasGemmStridedBatchedEx
 *
 * Speaks the protocol of lib.Peer; each answer is the mean of as many as take about 100 ms, all
 * enqueued before the first is waited for. Numbers are random, as a device computes faster on
 * zeros. */
#include "clock.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of CUDA's and cuBLAS's headers, which need not be there. */
enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14, SUM_F32 = 68, SUM_F64 = 70, DEFAULT_ALGORITHM = -1 };
typedef uint64_t address;
static int (*init)(unsigned), (*device_get)(int *, int), (*retain)(void **, int), (*push)(void *),
    (*allocate)(address *, size_t), (*upload)(address, const void *, size_t),
    (*copy_async)(address, address, size_t, void *), (*stream_new)(void **, unsigned),
    (*stream_wait)(void *), (*cublas_new)(void **), (*set_stream)(void *, void *),
    (*gemm)(void *, int, int, int, int, int, const void *, address, int, int, long long, address,
            int, int, long long, const void *, address, int, int, long long, int, int, int);

static void *stream, *cublas;
static address places[3];
static size_t bytes[3];
static int m, k, n, type, sums;

static void die(const char *what) {
    fprintf(stderr, "cuda: %s\n", what);
    exit(1);
}

static void must(int code, const char *call) {
    if (!code) return;
    fprintf(stderr, "cuda: %s: %d\n", call, code);
    exit(1);
}

/* ---- memory ---- */

enum { DRAWN = 1 << 20 };

static float uniform(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((float)(state >> 40) + 0.5F) / (1 << 24);
}

/* Normally distributed, by Box and Muller. */
static void draw(unsigned char *out, size_t size) {
    for (size_t i = 0; i < DRAWN; i += size) {
        float f = sqrtf(-2 * logf(uniform())) * cosf(6.2831853F * uniform());
        double d = f;
        uint32_t bits;
        memcpy(&bits, &f, 4);
        uint16_t half = (uint16_t)(bits >> 16); /* bf16 */
        /* f16, cut off; what is small is 0. */
        if (type == F16)
            half = (uint16_t)((bits >> 16 & 0x8000) |
                              (fabsf(f) < 1e-4F ? 0 : ((bits & 0x7fffffff) - 0x38000000) >> 13));
        memcpy(out + i, size == 2 ? (void *)&half : size == 4 ? (void *)&f : (void *)&d, size);
    }
}

static void fill(int place, size_t count, size_t size) {
    static unsigned char drawn[DRAWN];
    bytes[place] = count * size;
    must(allocate(&places[place], bytes[place] + DRAWN), "cuMemAlloc");
    draw(drawn, size);
    for (size_t at = 0; at < bytes[place]; at += DRAWN)
        must(upload(places[place] + at, drawn, DRAWN), "cuMemcpyHtoD");
}

static void *open_library(const char *variable, const char *name) {
    const char *told = getenv(variable);
    void *library = dlopen(told && *told ? told : name, RTLD_NOW);
    if (!library) die(dlerror());
    return library;
}

static void find(void *library, const char *symbol, void *function) {
    void *found = dlsym(library, symbol);
    if (!found) die(symbol);
    memcpy(function, &found, sizeof found);
}

static void open_device(void) {
    void *context, *driver = open_library("SHOAL_CUDA_LIBRARY", "libcuda.so.1");
    int id;
    find(driver, "cuInit", &init);
    find(driver, "cuDeviceGet", &device_get);
    find(driver, "cuDevicePrimaryCtxRetain", &retain);
    find(driver, "cuCtxPushCurrent_v2", &push);
    find(driver, "cuMemAlloc_v2", &allocate);
    find(driver, "cuMemcpyHtoD_v2", &upload);
    find(driver, "cuMemcpyDtoDAsync_v2", &copy_async);
    find(driver, "cuStreamCreate", &stream_new);
    find(driver, "cuStreamSynchronize", &stream_wait);
    must(init(0), "cuInit");
    must(device_get(&id, 0), "cuDeviceGet");
    must(retain(&context, id), "cuDevicePrimaryCtxRetain");
    must(push(context), "cuCtxPushCurrent");
    must(stream_new(&stream, 1), "cuStreamCreate");
}

/* ---- copies ---- */

static void copy(void) {
    must(copy_async(places[1], places[0], bytes[0], stream), "cuMemcpyDtoDAsync");
}

static void start_copy(int side) {
    for (int i = 0; i < 2; i++) fill(i, (size_t)side * (size_t)side, sizeof(float));
}

/* ---- products ---- */

static void multiply(void) {
    static const double one_f64 = 1, zero_f64 = 0;
    static const float one = 1, zero = 0;
    bool wide = type == F64;
    must(gemm(cublas, 0, 0, n, m, k, wide ? (const void *)&one_f64 : &one, places[1], type, n, 0,
              places[0], type, k, 0, wide ? (const void *)&zero_f64 : &zero, places[2], type, n, 0,
              1, sums, DEFAULT_ALGORITHM),
         "cublasGemmStridedBatchedEx");
}

static void start_products(const char *dtype) {
    static const struct {
        const char *name;
        int type, sums;
        size_t size;
    } types[] = {{"f32", F32, SUM_F32, 4},
                 {"f64", F64, SUM_F64, 8},
                 {"f16", F16, SUM_F32, 2},
                 {"bf16", BF16, SUM_F32, 2}};
    size_t i = 0;
    while (i < 4 && strcmp(types[i].name, dtype)) i++;
    if (i == 4) die("DTYPE is f32, f64, f16 or bf16");
    void *library = open_library("SHOAL_CUDA_CUBLAS", "libcublas.so.13");
    find(library, "cublasCreate_v2", &cublas_new);
    find(library, "cublasSetStream_v2", &set_stream);
    find(library, "cublasGemmStridedBatchedEx", &gemm);
    type = types[i].type;
    sums = types[i].sums;
    const size_t counts[] = {(size_t)m * (size_t)k, (size_t)k * (size_t)n, (size_t)m * (size_t)n};
    for (int place = 0; place < 3; place++) fill(place, counts[place], types[i].size);
    must(cublas_new(&cublas), "cublasCreate");
    must(set_stream(cublas, stream), "cublasSetStream");
}

/* ---- all ---- */

static double time_of(void (*work)(void), int times) {
    double from = seconds();
    for (int i = 0; i < times; i++) work();
    must(stream_wait(stream), "cuStreamSynchronize");
    return seconds() - from;
}

int main(int argc, char **argv) {
    bool copies = argc == 3 && !strcmp(argv[1], "copy");
    if (!copies && !(argc == 6 && !strcmp(argv[1], "product"))) {
        fprintf(stderr, "usage: cuda copy SIDE | product f32|f64|f16|bf16 M K N\n");
        return 2;
    }
    open_device();
    if (copies) {
        start_copy(atoi(argv[2]));
    } else {
        m = atoi(argv[3]);
        k = atoi(argv[4]);
        n = atoi(argv[5]);
        start_products(argv[2]);
    }
    void (*work)(void) = copies ? copy : multiply;
    time_of(work, 3);
    int times = (int)(0.1 / (time_of(work, 3) / 3 + 1e-7)) + 1;
    char line[16];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9f\n", time_of(work, times) / times);
        fflush(stdout);
    }
    return 0;
}
