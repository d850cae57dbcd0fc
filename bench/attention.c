/* Attention of some heads of LENGTH x DEPTH, causal, or its gradient, over an embedded pool of one
 * worker; and its products alone, of scores that lie in memory, to compare with.
 *
 *     attention forward|backward|forward_products|backward_products HEADS LENGTH DEPTH THREADS
 *
 * Speaks the protocol of lib.Peer. Results stay where they were computed. */
#define _GNU_SOURCE
#include "shoal/shoal.h"
#include "clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RESULTS = 5 };

static shoal_session *session;
static shoal_tensor *q, *k, *v, *g, *o, *scores;

static void check(shoal_status status) {
    if (status == SHOAL_OK) return;
    fprintf(stderr, "attention: %s\n", shoal_error_message());
    exit(1);
}

static shoal_tensor *fresh(int64_t heads, int64_t rows, int64_t columns) {
    size_t n = (size_t)(heads * rows * columns);
    float *data = malloc(n * sizeof *data);
    shoal_tensor *out;
    if (!data) exit(1);
    for (size_t i = 0; i < n; i++) data[i] = (float)((i * 2654435761u >> 7) % 8192) / 4096 - 1;
    check(shoal_tensor_new(session, SHOAL_F32, 3, (const int64_t[]){heads, rows, columns}, data,
                           &out));
    free(data);
    return out;
}

static void apply(const char *name, shoal_tensor *const *inputs, uint32_t n,
                  const shoal_attr *attrs, uint16_t n_attrs, shoal_tensor **out, uint16_t n_out) {
    uint16_t op;
    check(shoal_op_find(name, &op));
    check(shoal_apply(session, op, inputs, n, attrs, n_attrs, NULL, 0, out, n_out));
}

static shoal_attr axis(shoal_attr_key key, const int64_t *number) {
    return (shoal_attr){.key = key, .kind = SHOAL_ATTR_KIND_INTS, .count = 1, .u.ints = number};
}

/* Head by head, over axis `lhs` of x and `rhs` of y. */
static shoal_tensor *product(shoal_tensor *x, shoal_tensor *y, int64_t lhs, int64_t rhs) {
    const int64_t zero = 0;
    shoal_tensor *out;
    const shoal_attr attrs[] = {axis(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, &zero),
                                axis(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, &zero),
                                axis(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &lhs),
                                axis(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &rhs)};
    apply("dot_general", (shoal_tensor *const[]){x, y}, 2, attrs, 4, &out, 1);
    return out;
}

/* Fills `out`; returns how many results there are. */
static int call(bool backward, bool products, shoal_tensor **out) {
    const shoal_attr causal = {.key = SHOAL_ATTR_CAUSAL, .kind = SHOAL_ATTR_KIND_INT};
    if (!products && !backward) {
        apply("attention", (shoal_tensor *const[]){q, k, v}, 3, &causal, 1, out, 1);
        return 1;
    }
    if (!products) {
        apply("attention_gradient", (shoal_tensor *const[]){g, o, q, k, v}, 5, &causal, 1, out, 3);
        return 3;
    }
    out[0] = product(q, k, 2, 2);
    out[1] = product(scores, v, 2, 1);
    if (!backward) return 2;
    out[2] = product(scores, k, 2, 1);
    out[3] = product(scores, q, 1, 1);
    out[4] = product(g, v, 2, 2);
    return 5;
}

static double run(bool backward, bool products) {
    shoal_tensor *out[MOST_RESULTS];
    double from = seconds();
    int n = call(backward, products, out);
    check(shoal_sync(session));
    double took = seconds() - from;
    for (int i = 0; i < n; i++) shoal_tensor_free(&out[i]);
    return took;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: attention NAME HEADS LENGTH DEPTH THREADS\n");
        return 2;
    }
    bool backward = !strncmp(argv[1], "backward", 8), products = strstr(argv[1], "_products");
    int64_t heads = atoll(argv[2]), length = atoll(argv[3]), depth = atoll(argv[4]);
    if (heads < 1 || length < 1 || depth < 1 || atoi(argv[5]) < 1) return 2;
    const shoal_options options = {.size = sizeof options,
                                   .hub = "embedded",
                                   .workers = 1,
                                   .threads = (uint32_t)atoi(argv[5])};
    check(shoal_session_open(&options, &session));
    shoal_tensor **all[] = {&q, &k, &v, &g, &o};
    for (int i = 0; i < 5; i++) *all[i] = fresh(heads, length, depth);
    if (products) scores = fresh(heads, length, length);
    run(backward, products);
    printf("ready\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9f\n", run(backward, products));
        fflush(stdout);
    }
    return 0;
}
