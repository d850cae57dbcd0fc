/* The peer of the products: OpenBLAS alone, in a process of its own.
 *
 *     blas LIBRARY THREADS M K N
 *
 * Says "ready" when its matrices are filled and one product is done; then for each line on standard
 * input it runs one product and prints the seconds it took. The library is opened at run time, so
 * that the variant which is compared with is the one named. */
#include "clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As cblas.h has them. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
typedef void sgemm_function(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c,
                            int ldc);

static float *matrix(size_t rows, size_t columns) {
    float *data = malloc(rows * columns * sizeof *data);
    if (!data) return NULL;
    for (size_t i = 0; i < rows * columns; i++) data[i] = (float)(i % 17) / 17;
    return data;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: blas LIBRARY THREADS M K N\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "blas: %s\n", dlerror());
        return 1;
    }
    sgemm_function *sgemm;
    void (*set_threads)(int);
    int (*get_threads)(void);
    *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    *(void **)&get_threads = dlsym(library, "openblas_get_num_threads");
    if (!sgemm || !set_threads || !get_threads) {
        fprintf(stderr, "blas: %s is no OpenBLAS\n", argv[1]);
        return 1;
    }
    const int threads = atoi(argv[2]), m = atoi(argv[3]), k = atoi(argv[4]), n = atoi(argv[5]);
    set_threads(threads);
    if (get_threads() != threads) {
        fprintf(stderr, "blas: %s runs %d threads, not %d\n", argv[1], get_threads(), threads);
        return 1;
    }
    float *a = matrix((size_t)m, (size_t)k), *b = matrix((size_t)k, (size_t)n);
    float *c = matrix((size_t)m, (size_t)n);
    if (!a || !b || !c) {
        fprintf(stderr, "blas: no memory\n");
        return 1;
    }
    char line[16] = "";
    const char *answer = "ready";
    char number[32];
    do {
        const double start = seconds();
        sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, m, n, k, 1, a, k, b, n, 0, c, n);
        if (line[0]) {
            snprintf(number, sizeof number, "%.9f", seconds() - start);
            answer = number;
        }
        puts(answer);
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
    free(a);
    free(b);
    free(c);
    return 0;
}
