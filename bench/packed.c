/* Products of a few rows with quantised weights by the kernel library; and reading as many bytes on
 * as many threads, to compare with.
 *
 *     packed ours|read FORMAT ROWS N K THREADS
 *
 * Speaks the protocol of lib.Peer. The weights are random blocks of N x K numbers; the first result
 * is checked against their numbers in double. Reading is the faster of one stream and of four per
 * thread, since a machine may have either as its best. */
#define _GNU_SOURCE
#include "shoal/kernels.h"
#include "clock.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_THREADS = 64, STREAMS = 4, LINE = 64, PAGE = 1 << 21 };

static int64_t rows, n, k;
static int threads;
static const char *format;
static size_t bytes;
static uint8_t *weights;
static float *x, *y;
static int64_t of_x[2], of_w[2], of_y[2];
static shoal_array ax, aw, ay;

static void check(shoal_status status) {
    if (status == SHOAL_OK) return;
    fprintf(stderr, "packed: %s\n", shoal_error_message());
    exit(1);
}

/* In large pages where there are some, as NumPy asks for them. */
static void *room(size_t size) {
    size = (size / PAGE + 1) * PAGE;
    void *data = aligned_alloc(PAGE, size);
    if (!data) exit(1);
    (void)madvise(data, size, MADV_HUGEPAGE); /* only speed is lost where it fails */
    memset(data, 0, size);
    return data;
}

/* Dense; `dims` stay the caller's. */
static shoal_array array(void *data, shoal_dtype dtype, const int64_t *dims) {
    return (shoal_array){.data = data, .dtype = dtype, .rank = 2, .dims = dims};
}

static void make(void) {
    uint32_t index;
    check(shoal_block_format_find(format, &index));
    const shoal_block_format *f = shoal_block_format_at(index);
    if (k % f->values) {
        fprintf(stderr, "packed: %s has blocks of %u numbers\n", format, f->values);
        exit(2);
    }
    int64_t row = k / f->values * f->bytes;
    bytes = (size_t)(n * row);
    weights = room(bytes);
    x = room((size_t)(rows * k) * sizeof *x);
    y = room((size_t)(rows * n) * sizeof *y);
    float *numbers = room((size_t)k * sizeof *numbers);
    const int64_t of_one[] = {1, k}, of_packed[] = {1, row};
    of_x[0] = of_y[0] = rows;
    of_x[1] = k;
    of_w[0] = of_y[1] = n;
    of_w[1] = row;
    ax = array(x, SHOAL_F32, of_x);
    aw = array(weights, SHOAL_U8, of_w);
    ay = array(y, SHOAL_F32, of_y);
    for (int64_t i = 0; i < rows * k; i++) x[i] = (float)(rand() % 2001 - 1000) / 1000;
    /* A few rows that are made with care, and then again and again. */
    for (int64_t i = 0; i < n; i++) {
        shoal_array one = array(numbers, SHOAL_F32, of_one);
        shoal_array packed = array(weights + i * row, SHOAL_U8, of_packed);
        for (int64_t p = 0; p < k; p++) numbers[p] = (float)(rand() % 2001 - 1000) / 1000;
        if (i < 16)
            check(shoal_kernel_quantize(&one, format, &packed));
        else
            memcpy(packed.data, weights + i % 16 * row, (size_t)row);
    }
    check(shoal_kernel_matmul_packed(&ax, &aw, format, &ay));
    for (int64_t i = 0; i < n && i < 16; i++) {
        shoal_array one = array(numbers, SHOAL_F32, of_one);
        shoal_array packed = array(weights + i * row, SHOAL_U8, of_packed);
        double sum = 0;
        check(shoal_kernel_dequantize(&packed, format, &one));
        for (int64_t p = 0; p < k; p++) sum += (double)x[p] * (double)numbers[p];
        if (fabs(sum - (double)y[i]) > 1e-4 * (fabs(sum) + 1)) {
            fprintf(stderr, "packed: result %d is %g, not %g\n", (int)i, (double)y[i], sum);
            exit(1);
        }
    }
    free(numbers);
}

static double multiply(void) {
    double from = seconds();
    check(shoal_kernel_matmul_packed(&ax, &aw, format, &ay));
    return seconds() - from;
}

/* ---- reading ---- */

typedef uint64_t wide __attribute__((vector_size(LINE)));

static pthread_barrier_t barrier;
static int streams;
static volatile uint64_t sink;

static void *read_part(void *context) {
    size_t part = (size_t)context, lines = bytes / LINE / (size_t)threads;
    const wide *from = (const wide *)(const void *)weights + part * lines;
    for (;;) {
        pthread_barrier_wait(&barrier);
        wide sums[STREAMS] = {{0}};
        size_t each = lines / (size_t)streams;
        for (size_t i = 0; i < each; i++)
            for (int s = 0; s < streams; s++) sums[s] ^= from[(size_t)s * each + i];
        for (int s = 0; s < STREAMS; s++) sink ^= sums[s][0] ^ sums[s][7];
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static double read_once(int how) {
    streams = how;
    double from = seconds();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return seconds() - from;
}

static void start_reading(void) {
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < (size_t)threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, read_part, (void *)i)) exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: packed ours|read FORMAT ROWS N K THREADS\n");
        return 2;
    }
    bool ours = !strcmp(argv[1], "ours");
    format = argv[2];
    rows = atoll(argv[3]);
    n = atoll(argv[4]);
    k = atoll(argv[5]);
    threads = atoi(argv[6]);
    if (rows < 1 || n < 1 || k < 1 || threads < 1 || threads > MOST_THREADS) return 2;
    check(shoal_kernels_set_threads((uint32_t)threads));
    make();
    if (!ours) start_reading();
    printf("ready %zu\n", bytes);
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9f\n", ours ? multiply() : fmin(read_once(1), read_once(STREAMS)));
        fflush(stdout);
    }
    exit(0); /* with the threads that read */
}
