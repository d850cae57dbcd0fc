/* Small operations through a pool: how many per second, and how long one takes.
 *
 *     ops ADDRESS replayed|fresh|latency
 *
 * Says `ready`, then for each line it reads does one run and prints its seconds, and the operations
 * of a run at the start. Before it ends it compares the workers' own count of executed nodes with
 * what was asked of them, and fails when they differ. */
#include "shoal/shoal.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 10, ELEMENTS = SIDE * SIDE, CHAIN = 1000, ROUNDS = 200, READS = 500 };

static shoal_session *session;
static shoal_tensor *operands[CHAIN], *start;
static uint64_t asked; /* nodes */

static void check(shoal_status status) {
    if (status == SHOAL_OK) return;
    fprintf(stderr, "ops: %s\n", shoal_error_message());
    exit(1);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static shoal_tensor *filled(float value) {
    float data[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) data[i] = value + (float)i;
    shoal_tensor *tensor;
    check(shoal_tensor_new(session, SHOAL_F32, 2, (const int64_t[]){SIDE, SIDE}, data, &tensor));
    return tensor;
}

static void step(shoal_tensor **x, shoal_tensor *operand, bool plus) {
    shoal_tensor *next;
    check(plus ? shoal_add(*x, operand, &next) : shoal_subtract(*x, operand, &next));
    shoal_tensor_free(x);
    *x = next;
    asked++;
}

/* signs: what distinguishes this chain from others; NULL: adds only. Starts the work. */
static shoal_tensor *chain(const unsigned char *signs) {
    shoal_tensor *x = shoal_tensor_retain(start);
    for (int i = 0; i < CHAIN; i++) step(&x, operands[i], !signs || signs[i]);
    check(shoal_start(x));
    return x;
}

/* The last chain's result, against the same sum here. */
static void compare(shoal_tensor *x, const unsigned char *signs) {
    float result[ELEMENTS];
    check(shoal_read(x, result, sizeof result));
    for (int e = 0; e < ELEMENTS; e++) {
        float sum = (float)e;
        for (int i = 0; i < CHAIN; i++) {
            float term = (float)(i % 7) + (float)e;
            sum = !signs || signs[i] ? sum + term : sum - term;
        }
        if (sum == result[e]) continue;
        fprintf(stderr, "ops: element %d is %g, not %g\n", e, (double)result[e], (double)sum);
        exit(1);
    }
}

static double run_chains(bool fresh) {
    static unsigned char signs[CHAIN];
    double from = seconds();
    shoal_tensor *x = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        shoal_tensor_free(&x);
        for (int i = 0; fresh && i < CHAIN; i++) signs[i] = rand() & 1;
        x = chain(fresh ? signs : NULL);
    }
    check(shoal_sync(session));
    double took = seconds() - from;
    compare(x, fresh ? signs : NULL);
    shoal_tensor_free(&x);
    return took;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of one operation and reading its result. */
static double run_latency(void) {
    static double took[READS];
    float result[ELEMENTS];
    for (int i = 0; i < READS; i++) {
        double from = seconds();
        shoal_tensor *x = shoal_tensor_retain(start);
        step(&x, operands[i], true);
        check(shoal_read(x, result, sizeof result));
        shoal_tensor_free(&x);
        took[i] = seconds() - from;
        if (result[1] == 2 + (float)(i % 7)) continue;
        fprintf(stderr, "ops: element 1 is %g\n", (double)result[1]);
        exit(1);
    }
    qsort(took, READS, sizeof *took, ascending);
    return took[READS / 2];
}

/* Nodes that the pool's devices say they have executed. */
static uint64_t executed(void) {
    shoal_pool_status status = {.size = sizeof status};
    shoal_slot slots[16];
    uint64_t nodes = 0;
    check(shoal_sync(session));
    check(shoal_status_of(session, &status, slots, 16));
    for (uint32_t i = 0; i < status.n_slots && i < 16; i++) nodes += slots[i].nodes;
    return nodes;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: ops ADDRESS replayed|fresh|latency\n");
        return 2;
    }
    const shoal_options options = {.size = sizeof options, .hub = argv[1]};
    bool latency = !strcmp(argv[2], "latency"), fresh = !strcmp(argv[2], "fresh");
    check(shoal_session_open(&options, &session));
    start = filled(0);
    for (int i = 0; i < CHAIN; i++) operands[i] = filled((float)(i % 7));
    shoal_tensor *x = chain(NULL); /* the operands move to the worker here */
    compare(x, NULL);
    shoal_tensor_free(&x);
    uint64_t before = executed();
    asked = 0;
    printf("ready\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9f\n", latency ? run_latency() : run_chains(fresh));
        fflush(stdout);
    }
    uint64_t after = executed();
    fprintf(stderr, "ops: %llu operations asked for, %llu executed by the workers\n",
            (unsigned long long)asked, (unsigned long long)(after - before));
    for (int i = 0; i < CHAIN; i++) shoal_tensor_free(&operands[i]);
    shoal_tensor_free(&start);
    shoal_session_close(&session);
    return asked == after - before ? 0 : 1;
}
