/* Products of two square matrices of f32, bfloat16 or int8 (to int32) by the kernel library, or by
 * oneDNN.
 *
 *     products ours|onednn TYPE SIDE THREADS
 *
 * Speaks the protocol of lib.Peer and says which instructions ours uses; each answer is the mean of
 * as many products as take about 50 ms. A few results are checked. oneDNN takes as many threads as
 * OMP_NUM_THREADS says. */
#include "shoal/kernels.h"
#include "clock.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_ONEDNN
#include <dnnl.h>
#endif

enum { LINE = 64, MOST_BYTES = 4 };

static struct {
    shoal_dtype from, to;
    int64_t side, dims[12]; /* oneDNN wants room for as many as it has at most */
    void *a, *b, *c;
} s;

static void die(const char *what) {
    fprintf(stderr, "products: %s\n", what);
    exit(1);
}

static void *matrix(void) {
    void *data = aligned_alloc(LINE, (size_t)(s.side * s.side * MOST_BYTES + LINE) / LINE * LINE);
    if (!data) die("no memory");
    return data;
}

/* Small whole numbers: exact in any order of sums, but for the rounding of the result. */
static int number(int64_t i, int salt) { return (int)((i * 7 + i / 11 + salt) % 9) - 4; }

static void fill(void *data, int salt) {
    for (int64_t i = 0; i < s.side * s.side; i++) {
        float value = (float)number(i, salt);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        switch (s.from) {
        case SHOAL_I8: ((int8_t *)data)[i] = (int8_t)value; break;
        case SHOAL_BF16: ((uint16_t *)data)[i] = (uint16_t)(bits >> 16); break;
        default: ((float *)data)[i] = value;
        }
    }
}

static double result(int64_t i) {
    if (s.to == SHOAL_I32) return ((int32_t *)s.c)[i];
    if (s.to == SHOAL_F32) return (double)((float *)s.c)[i];
    uint32_t bits = (uint32_t)((uint16_t *)s.c)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void check(void) {
    for (int64_t i = 0; i < s.side * s.side; i += s.side * s.side / 37 + 1) {
        double sum = 0;
        for (int64_t p = 0; p < s.side; p++)
            sum += number(i / s.side * s.side + p, 0) * number(p * s.side + i % s.side, 1);
        if (fabs(result(i) - sum) > (s.to == SHOAL_BF16 ? 4e-3 * fabs(sum) : 0))
            die("a result is wrong");
    }
}

static void ours(void) {
    const shoal_array a = {s.from, 2, s.dims, NULL, s.a}, b = {s.from, 2, s.dims, NULL, s.b};
    const shoal_array c = {s.to, 2, s.dims, NULL, s.c};
    if (shoal_kernel_matmul(&a, &b, &c)) die(shoal_error_message());
}

#ifdef WITH_ONEDNN
static dnnl_primitive_t product;
static dnnl_stream_t stream;
static dnnl_exec_arg_t arguments[3];

static void must(dnnl_status_t status) {
    if (status)
        die(status == dnnl_unimplemented ? "oneDNN has no such product here" : "oneDNN failed");
}

static dnnl_data_type_t type_of(shoal_dtype dtype) {
    switch (dtype) {
    case SHOAL_I8: return dnnl_s8;
    case SHOAL_I32: return dnnl_s32;
    case SHOAL_BF16: return dnnl_bf16;
    default: return dnnl_f32;
    }
}

static void start_onednn(void) {
    static const int places[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    dnnl_engine_t engine;
    dnnl_memory_desc_t forms[3];
    dnnl_matmul_desc_t form;
    dnnl_primitive_desc_t found;
    void *const data[] = {s.a, s.b, s.c};
    must(dnnl_engine_create(&engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    for (int i = 0; i < 3; i++)
        must(dnnl_memory_desc_init_by_tag(&forms[i], 2, s.dims, type_of(i < 2 ? s.from : s.to),
                                          dnnl_ab));
    must(dnnl_matmul_desc_init(&form, &forms[0], &forms[1], NULL, &forms[2]));
    must(dnnl_primitive_desc_create(&found, &form, NULL, engine, NULL));
    must(dnnl_primitive_create(&product, found));
    for (int i = 0; i < 3; i++) {
        arguments[i].arg = places[i];
        must(dnnl_memory_create(&arguments[i].memory, &forms[i], engine, data[i]));
    }
}

static void theirs(void) {
    must(dnnl_primitive_execute(product, stream, 3, arguments));
    must(dnnl_stream_wait(stream));
}
#else
static void start_onednn(void) {
    die("compiled without oneDNN; apt-get install libdnnl-dev, and configure again");
}
static void theirs(void) {}
#endif

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: products ours|onednn TYPE SIDE THREADS\n");
        return 2;
    }
    bool is_ours = !strcmp(argv[1], "ours");
    bool bytes = !strcmp(argv[2], "int8"), halves = !strcmp(argv[2], "bf16");
    s.from = bytes ? SHOAL_I8 : halves ? SHOAL_BF16 : SHOAL_F32;
    s.to = bytes ? SHOAL_I32 : s.from;
    s.side = s.dims[0] = s.dims[1] = atoll(argv[3]);
    if (s.side < 1) return 2;
    s.a = matrix();
    s.b = matrix();
    s.c = matrix();
    fill(s.a, 0);
    fill(s.b, 1);
    const char *instructions;
    if (shoal_kernels_set_threads((uint32_t)atoi(argv[4])) ||
        shoal_kernels_instructions(&instructions))
        die(shoal_error_message());
    if (!is_ours) start_onednn();
    void (*multiply)(void) = is_ours ? ours : theirs;
    multiply();
    check();
    double from = seconds();
    multiply();
    int times = 1 + (int)(0.05 / (seconds() - from));
    printf("ready %s\n", instructions);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        from = seconds();
        for (int i = 0; i < times; i++) multiply();
        printf("%.9f\n", (seconds() - from) / times);
        fflush(stdout);
    }
    return 0;
}
