/* One f32 product again and again on the same threads, by an embedded pool of one worker, by
 * OpenBLAS alone, or by CLBlast on the first OpenCL device.
 *
 *     gemm ours|clblast|LIBRARY THREADS M K N FORM
 *
 * FORM is nn, nt, tn or tt: whether A and B lie as they are or transposed. Speaks the protocol of
 * lib.Peer; each answer is the mean of as many products as take about 30 ms. Small ones go in
 * groups of equal matrices A, each a tensor of its own, so that what is timed is the product and
 * not the way to the worker; OpenBLAS takes the same matrices in turn. A product with one row or
 * column is OpenBLAS's sgemv, which is its best there. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "shoal/shoal.h"
#include "clock.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, GROUP = 8, SMALL = 1 << 20 };

static struct {
    int m, k, n, threads, group;
    bool ta, tb;
    float *a[GROUP], *b, *c;
} s;

static void die(const char *what) {
    fprintf(stderr, "gemm: %s\n", what);
    exit(1);
}

static void must(shoal_status status) {
    if (status) die(shoal_error_message());
}

/* Small integers: exact in any order of sums. */
static float *matrix(int rows, int columns, int salt) {
    size_t count = (size_t)rows * (size_t)columns, bytes = (count * 4 + 63) / 64 * 64;
    float *data = aligned_alloc(64, bytes);
    if (!data) die("no memory");
    for (size_t i = 0; i < count; i++) data[i] = (float)((i * 7 + i / 11 + (size_t)salt) % 9) - 4;
    return data;
}

/* ---- ours ---- */

static shoal_session *session;
static shoal_tensor *a[GROUP], *b;

static shoal_tensor *upload(const float *data, int rows, int columns) {
    shoal_tensor *tensor;
    const int64_t shape[] = {rows, columns};
    must(shoal_tensor_new(session, SHOAL_F32, 2, shape, data, &tensor));
    return tensor;
}

static shoal_tensor *multiply(shoal_tensor *lhs) {
    const int64_t left = !s.ta, right = s.tb;
    const shoal_attr attrs[] = {
        {.key = SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, .kind = SHOAL_ATTR_KIND_INTS},
        {.key = SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, .kind = SHOAL_ATTR_KIND_INTS},
        {.key = SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS,
         .kind = SHOAL_ATTR_KIND_INTS,
         .count = 1,
         .u.ints = &left},
        {.key = SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS,
         .kind = SHOAL_ATTR_KIND_INTS,
         .count = 1,
         .u.ints = &right}};
    uint16_t op;
    shoal_tensor *out;
    must(shoal_op_find("dot_general", &op));
    must(shoal_apply(session, op, (shoal_tensor *const[]){lhs, b}, 2, attrs, 4, NULL, 0, &out, 1));
    return out;
}

static void start_ours(void) {
    const shoal_options options = {
        .size = sizeof options, .hub = "embedded", .workers = 1, .threads = (uint32_t)s.threads};
    must(shoal_session_open(&options, &session));
    for (int i = 0; i < s.group; i++) a[i] = upload(s.a[i], s.ta ? s.k : s.m, s.ta ? s.m : s.k);
    b = upload(s.b, s.tb ? s.n : s.k, s.tb ? s.k : s.n);
    shoal_tensor *out = multiply(a[0]);
    must(shoal_read(out, s.c, (size_t)s.m * (size_t)s.n * sizeof *s.c));
    shoal_tensor_free(&out);
}

static void run_ours(void) {
    shoal_tensor *out[GROUP];
    for (int i = 0; i < s.group; i++) out[i] = multiply(a[i]);
    must(shoal_sync(session));
    for (int i = 0; i < s.group; i++) shoal_tensor_free(&out[i]);
}

/* ---- OpenBLAS ---- */

static void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                     float, float *, int);
static void (*sgemv)(int, int, int, int, float, const float *, int, const float *, int, float,
                     float *, int);

static void start_blas(const char *name) {
    void (*set_threads)(int);
    int (*get_threads)(void);
    void *library = dlopen(name, RTLD_NOW);
    if (!library) die(dlerror());
    *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&sgemv = dlsym(library, "cblas_sgemv");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    *(void **)&get_threads = dlsym(library, "openblas_get_num_threads");
    if (!sgemm || !sgemv || !set_threads || !get_threads) die("this is no OpenBLAS");
    set_threads(s.threads);
    if (get_threads() != s.threads) die("OpenBLAS runs another number of threads");
}

static void multiply_blas(const float *lhs) {
    int lda = s.ta ? s.m : s.k, ldb = s.tb ? s.k : s.n;
    if (s.m == 1)
        sgemv(ROW_MAJOR, s.tb ? PLAIN : TRANSPOSED, s.tb ? s.n : s.k, ldb, 1, s.b, ldb, lhs, 1, 0,
              s.c, 1);
    else if (s.n == 1)
        sgemv(ROW_MAJOR, s.ta ? TRANSPOSED : PLAIN, s.ta ? s.k : s.m, lda, 1, lhs, lda, s.b, 1, 0,
              s.c, 1);
    else
        sgemm(ROW_MAJOR, s.ta ? TRANSPOSED : PLAIN, s.tb ? TRANSPOSED : PLAIN, s.m, s.n, s.k, 1,
              lhs, lda, s.b, ldb, 0, s.c, s.n);
}

static void run_blas(void) {
    for (int i = 0; i < s.group; i++) multiply_blas(s.a[i]);
}

/* ---- CLBlast ---- */

static int (*clblast_sgemm)(int, int, int, size_t, size_t, size_t, float, cl_mem, size_t, size_t,
                            cl_mem, size_t, size_t, float, cl_mem, size_t, size_t,
                            cl_command_queue *, cl_event *);
static __typeof__(clFinish) *finish;
static cl_command_queue queue;
static cl_mem on_device[GROUP + 2]; /* A, B, C */

static void *symbol(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) die("no CLBlast or no OpenCL loader; run tools/install.sh bench");
    return found;
}

static void multiply_clblast(cl_mem lhs) {
    size_t lda = (size_t)(s.ta ? s.m : s.k), ldb = (size_t)(s.tb ? s.k : s.n);
    int code =
        clblast_sgemm(ROW_MAJOR, s.ta ? TRANSPOSED : PLAIN, s.tb ? TRANSPOSED : PLAIN, (size_t)s.m,
                      (size_t)s.n, (size_t)s.k, 1, lhs, 0, lda, on_device[GROUP], 0, ldb, 0,
                      on_device[GROUP + 1], 0, (size_t)s.n, &queue, NULL);
    if (code) die("CLBlast failed");
}

static void run_clblast(void) {
    for (int i = 0; i < s.group; i++) multiply_clblast(on_device[i]);
    finish(queue);
}

static void start_clblast(void) {
    void *blas = dlopen("libclblast.so.1", RTLD_NOW), *cl = dlopen("libOpenCL.so.1", RTLD_NOW);
#define FIND(name)                                                                                 \
    __typeof__(name) *own_##name;                                                                  \
    *(void **)&own_##name = symbol(cl, #name)
    FIND(clGetPlatformIDs);
    FIND(clGetDeviceIDs);
    FIND(clCreateContext);
    FIND(clCreateCommandQueue);
    FIND(clCreateBuffer);
    FIND(clEnqueueReadBuffer);
#undef FIND
    *(void **)&finish = symbol(cl, "clFinish");
    *(void **)&clblast_sgemm = symbol(blas, "CLBlastSgemm");
    cl_platform_id platform;
    cl_device_id device;
    cl_int code = own_clGetPlatformIDs(1, &platform, NULL);
    if (!code) code = own_clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    if (code) die("no OpenCL device");
    cl_context context = own_clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (!code) queue = own_clCreateCommandQueue(context, device, 0, &code);
    size_t product = (size_t)s.m * (size_t)s.n * sizeof(float);
    for (int i = 0; i < GROUP + 2 && !code; i++) {
        float *data = i < GROUP ? s.a[i] : i == GROUP ? s.b : s.c;
        size_t side = (size_t)s.k * sizeof(float);
        size_t bytes = i < GROUP ? side * (size_t)s.m : i == GROUP ? side * (size_t)s.n : product;
        if (data)
            on_device[i] = own_clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, bytes, data, &code);
    }
    if (code) die("OpenCL failed");
    run_clblast();
    if (own_clEnqueueReadBuffer(queue, on_device[GROUP + 1], CL_TRUE, 0, product, s.c, 0, NULL,
                                NULL))
        die("the product cannot be read");
}

/* ---- all ---- */

static void check(void) {
    for (int i = 0; i < 50; i++) {
        int row = i * 37 % s.m, column = i * 101 % s.n;
        double sum = 0;
        for (int p = 0; p < s.k; p++)
            sum += (double)s.a[0][s.ta ? p * s.m + row : row * s.k + p] *
                   (double)s.b[s.tb ? column * s.k + p : p * s.n + column];
        if (sum != (double)s.c[row * s.n + column]) die("the product is wrong");
    }
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: gemm ours|clblast|LIBRARY THREADS M K N nn|nt|tn|tt\n");
        return 2;
    }
    bool ours = !strcmp(argv[1], "ours"), clblast = !strcmp(argv[1], "clblast");
    s.threads = atoi(argv[2]);
    s.m = atoi(argv[3]);
    s.k = atoi(argv[4]);
    s.n = atoi(argv[5]);
    s.ta = argv[6][0] == 't';
    s.tb = argv[6][1] == 't';
    if (s.threads < 1 || s.m < 1 || s.k < 1 || s.n < 1) return 2;
    s.group = (long long)s.m * s.k < SMALL ? GROUP : 1;
    for (int i = 0; i < s.group; i++) s.a[i] = matrix(s.m, s.k, 0);
    s.b = matrix(s.k, s.n, 5);
    s.c = matrix(s.m, s.n, 0);
    if (ours)
        start_ours();
    else if (clblast)
        start_clblast();
    else
        start_blas(argv[1]);
    void (*run)(void) = ours ? run_ours : clblast ? run_clblast : run_blas;
    if (!ours && !clblast) run();
    check();
    run();
    double from = seconds();
    run();
    int times = (int)(0.03 / (seconds() - from + 1e-6)) + 1;
    char line[16];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        from = seconds();
        for (int i = 0; i < times; i++) run();
        printf("%.9f\n", (seconds() - from) / times / s.group);
        fflush(stdout);
    }
    return 0;
}
