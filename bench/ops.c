/* Small operations through a pool: how many per second, and how long one takes.
 *
 *     ops ADDRESS replayed|fresh|latency|update
 *
 * Says `ready`, then for each line it reads does one run and prints its seconds, and the operations
 * of a run at the start. Before it ends it compares the workers' own count of executed nodes with
 * what was asked of them, and fails when they differ. */
#include "shoal/function.h"
#include "shoal/shoal.h"
#include "clock.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 10, ELEMENTS = SIDE * SIDE, CHAIN = 1000, ROUNDS = 200, READS = 500 };

static shoal_session *session;
static shoal_tensor *operands[CHAIN], *start;
static uint64_t asked; /* nodes */

static void check(shoal_status status) {
    if (status == SHOAL_OK) return;
    fprintf(stderr, "ops: %s\n", shoal_error_message());
    exit(1);
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

/* ---- updates of a row of a large tensor ---- */

enum { WIDE = 4096 };

static shoal_function *update;
static shoal_tensor *cache, *rows[2], *indices[WIDE], *origin;

static shoal_tensor *index_of(int64_t i) {
    shoal_tensor *tensor;
    check(shoal_tensor_new(session, SHOAL_I64, 0, NULL, &i, &tensor));
    return tensor;
}

static shoal_tensor *constant(int64_t height, float number) {
    float *data = malloc((size_t)height * WIDE * sizeof *data);
    shoal_tensor *tensor;
    for (int64_t i = 0; i < height * WIDE; i++) data[i] = number;
    check(shoal_tensor_new(session, SHOAL_F32, 2, (const int64_t[]){height, WIDE}, data, &tensor));
    free(data);
    return tensor;
}

/* cache[i] = rows[i % 2], donated, as one function. */
static void prepare_update(void) {
    shoal_tensor *result;
    origin = index_of(0);
    cache = constant(WIDE, 0);
    for (int i = 0; i < 2; i++) rows[i] = constant(1, (float)(i + 1));
    for (int i = 0; i < WIDE; i++) indices[i] = index_of(i);
    check(shoal_dynamic_update_slice(cache, rows[0], (shoal_tensor *[]){indices[0], origin},
                                     &result));
    check(shoal_function_new(session, (shoal_tensor *[]){cache, rows[0], indices[0], origin}, 4,
                             &result, 1, &update));
    check(shoal_function_donate(update, 0, SHOAL_DONATE_ALWAYS));
    shoal_tensor_free(&result);
}

/* Seconds for an update, of one for each row. */
static double run_updates(void) {
    static float result[WIDE][WIDE];
    static int times;
    int first = times++ % 2;
    double from = seconds();
    for (int i = 0; i < WIDE; i++) {
        shoal_tensor *next;
        check(shoal_function_run(
            update, (shoal_tensor *[]){cache, rows[(first + i) % 2], indices[i], origin}, &next));
        shoal_tensor_free(&cache);
        cache = next;
        asked++;
    }
    check(shoal_sync(session));
    double took = seconds() - from;
    if (times > 2) return took / WIDE;
    check(shoal_read(cache, result, sizeof result));
    for (int i = 0; i < WIDE; i++) {
        if (result[i][0] == (float)((first + i) % 2 + 1) && result[i][0] == result[i][WIDE - 1])
            continue;
        fprintf(stderr, "ops: row %d holds %g\n", i, (double)result[i][0]);
        exit(1);
    }
    return took / WIDE;
}

static void free_update(void) {
    for (int i = 0; i < WIDE; i++) shoal_tensor_free(&indices[i]);
    for (int i = 0; i < 2; i++) shoal_tensor_free(&rows[i]);
    shoal_tensor_free(&origin);
    shoal_tensor_free(&cache);
    shoal_function_free(&update);
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
        fprintf(stderr, "usage: ops ADDRESS replayed|fresh|latency|update\n");
        return 2;
    }
    const shoal_options options = {.size = sizeof options, .hub = argv[1]};
    bool latency = !strcmp(argv[2], "latency"), fresh = !strcmp(argv[2], "fresh");
    bool updates = !strcmp(argv[2], "update");
    check(shoal_session_open(&options, &session));
    start = filled(0);
    for (int i = 0; i < CHAIN; i++) operands[i] = filled((float)(i % 7));
    shoal_tensor *x = chain(NULL); /* the operands move to the worker here */
    compare(x, NULL);
    shoal_tensor_free(&x);
    if (updates) prepare_update();
    uint64_t before = executed();
    asked = 0;
    printf("ready\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9f\n", latency ? run_latency() : updates ? run_updates() : run_chains(fresh));
        fflush(stdout);
    }
    uint64_t after = executed();
    fprintf(stderr, "ops: %llu operations asked for, %llu executed by the workers\n",
            (unsigned long long)asked, (unsigned long long)(after - before));
    if (updates) free_update();
    for (int i = 0; i < CHAIN; i++) shoal_tensor_free(&operands[i]);
    shoal_tensor_free(&start);
    shoal_session_close(&session);
    return asked == after - before ? 0 : 1;
}
