/* One operation on a square f32 matrix that lies on the device, over an embedded pool of one
 * worker; and memcpy of as many bytes on as many threads, to compare with.
 *
 *     kernels fused|rms_norm|softmax|silu|gelu|sum|argmax|cumulate|sort|memcpy SIDE THREADS
 *     kernels cross_entropy|cross_entropy_gradient|softmax_gradient|rms_norm_gradient|
 *         layer_norm_gradient|layer_norm_scale_gradient|silu_gradient|gelu_gradient SIDE THREADS
 *
 * Speaks the protocol of lib.Peer. What is timed is the operation, its result left where it was
 * computed. The first result is checked against the same formula in double, at some elements. `sum`
 * is that of x * x; `argmax`, `cumulate` and `sort` go along rows, and so do gradients. */
#define _GNU_SOURCE
#include "shoal/shoal.h"
#include "clock.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_THREADS = 64 };

static shoal_session *session;
static shoal_tensor *x, *w, *b;
static int64_t side;
static float *data;

static void check(shoal_status status) {
    if (status == SHOAL_OK) return;
    fprintf(stderr, "kernels: %s\n", shoal_error_message());
    exit(1);
}

/* ---- memcpy ---- */

static int threads;
static char *source, *target;
static size_t bytes;
static pthread_barrier_t barrier;

static void *copy_part(void *context) {
    size_t part = (size_t)context, each = bytes / (size_t)threads;
    for (;;) {
        pthread_barrier_wait(&barrier);
        memcpy(target + part * each, source + part * each, each);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static double run_memcpy(void) {
    double from = seconds();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return seconds() - from;
}

static void start_memcpy(void) {
    bytes = (size_t)(side * side) * sizeof(float);
    source = aligned_alloc((size_t)2 << 20, bytes);
    target = aligned_alloc((size_t)2 << 20, bytes);
    if (!source || !target) exit(1);
    /* In huge pages, where the system has them: as ours lie. */
    madvise(source, bytes, MADV_HUGEPAGE);
    madvise(target, bytes, MADV_HUGEPAGE);
    memset(source, 1, bytes);
    memset(target, 2, bytes);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < (size_t)threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, copy_part, (void *)i)) exit(1);
    }
}

/* ---- ours ---- */

static shoal_tensor *apply(const char *name, shoal_tensor *const *inputs, uint32_t n,
                           const shoal_attr *attrs, uint16_t n_attrs) {
    uint16_t op;
    shoal_tensor *out;
    check(shoal_op_find(name, &op));
    check(shoal_apply(session, op, inputs, n, attrs, n_attrs, NULL, 0, &out, 1));
    return out;
}

static const char *const along_rows[] = {"sum", "argmax", "cumulate", "sort"};

/* The number of one of these; -1: it is another. */
static int row_operation(const char *name) {
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, along_rows[i])) return i;
    return -1;
}

static shoal_tensor *call_along_rows(int which) {
    shoal_tensor *out, *square;
    if (which == 1) check(shoal_argmax(x, 1, &out));
    if (which == 2) check(shoal_cumulate(x, "add", 1, &out));
    if (which == 3) check(shoal_sort(x, 1, false, &out, NULL));
    if (which) return out;
    check(shoal_multiply(x, x, &square));
    check(shoal_reduce(square, "add", (const int64_t[]){0, 1}, 2, false, &out));
    shoal_tensor_free(&square);
    return out;
}

static bool near(double is, double must) { return fabs(is - must) <= 1e-3 + 1e-4 * fabs(must); }

/* Every element, by what it must be. */
static bool is_right(int which, const float *is, const int64_t *places) {
    double squares = 0;
    for (int64_t i = 0; i < side; i++) {
        const float *row = data + i * side, *out = is + i * side;
        double so_far = 0, sorted = 0;
        for (int64_t k = 0; k < side; k++) {
            squares += (double)row[k] * (double)row[k];
            so_far += (double)row[k];
            if (which == 1 && row[k] > row[places[i]]) return false;
            if (which == 2 && !near((double)out[k], so_far)) return false;
            if (which == 3 && k && out[k] < out[k - 1]) return false;
            if (which == 3) sorted += (double)out[k];
        }
        if (which == 3 && !near(sorted, so_far)) return false;
    }
    return which || near((double)is[0], squares);
}

/* ---- gradients: of x, with g for the gradient of the result ---- */

static shoal_tensor *g, *labels, *losses; /* losses: a gradient per row */

static float seed_of(int64_t row, int64_t column) {
    return (float)((row * 31 + column * 17) % 101) / 64 - 0.75f;
}

static bool is_gradient(const char *name) {
    return strstr(name, "_gradient") || !strcmp(name, "cross_entropy");
}

static bool has_row_of_results(const char *name) {
    return !strcmp(name, "cross_entropy") || !strcmp(name, "layer_norm_scale_gradient");
}

static shoal_tensor *call_gradient(const char *name) {
    shoal_attr along = {.key = SHOAL_ATTR_DIMENSION, .kind = SHOAL_ATTR_KIND_INT, .u.i = 1};
    shoal_attr epsilon = {.key = SHOAL_ATTR_EPSILON, .kind = SHOAL_ATTR_KIND_FLOAT, .u.f = 1e-6};
    const shoal_attr attrs[] = {along, epsilon};
    bool norm = strstr(name, "norm");
    uint16_t n_attrs = norm ? 2 : strstr(name, "elu") || strstr(name, "silu") ? 0 : 1;
    if (!strcmp(name, "cross_entropy"))
        return apply(name, (shoal_tensor *const[]){x, labels}, 2, attrs, 1);
    if (!strcmp(name, "cross_entropy_gradient"))
        return apply(name, (shoal_tensor *const[]){losses, x, labels}, 3, attrs, 1);
    bool scaled = norm && !strstr(name, "scale");
    return apply(name, (shoal_tensor *const[]){g, x, w}, scaled ? 3 : 2, attrs, n_attrs);
}

/* Sums along a row of x, for the formulas. */
typedef struct sums {
    double most, powers, mean, r, weighed, products, softened;
} sums;

static double weight_of(int64_t column) { return 1 + (double)(column % 3); }

static sums sums_of(int64_t row, bool centred) {
    const float *r = data + row * side;
    sums s = {.most = -INFINITY};
    double squares = 0, n = (double)side;
    for (int64_t i = 0; i < side; i++) {
        s.most = fmax(s.most, (double)r[i]);
        s.mean += centred ? (double)r[i] / n : 0;
        s.softened += (double)seed_of(row, i) * (double)r[i];
    }
    for (int64_t i = 0; i < side; i++) {
        double v = (double)r[i] - s.mean, h = (double)seed_of(row, i) * weight_of(i);
        s.powers += exp((double)r[i] - s.most);
        squares += v * v;
        s.weighed += h;
        s.products += h * v;
    }
    s.r = 1 / sqrt(squares / n + 1e-6);
    return s;
}

/* What sums of float32 along a row, or down the matrix, may be off. */
static double loose(const char *name) { return is_gradient(name) ? 2e-7 * (double)side : 0; }

static double expected_gradient(const char *name, int64_t row, int64_t column) {
    double v = (double)data[row * side + column], of = (double)seed_of(row, column);
    double label = (double)(row * 7 % side), n = (double)side, s = 1 / (1 + exp(-v)), sum = 0;
    if (!strcmp(name, "silu_gradient")) return of * s * (1 + v * (1 - s));
    if (!strcmp(name, "gelu_gradient"))
        return of * (0.5 * erfc(-v * sqrt(0.5)) + v * exp(-v * v / 2) * 0.3989422804014327);
    if (!strcmp(name, "layer_norm_scale_gradient")) {
        for (int64_t i = 0; i < side; i++) {
            sums a = sums_of(i, true);
            sum += (double)seed_of(i, column) * ((double)data[i * side + column] - a.mean) * a.r;
        }
        return sum;
    }
    sums a = sums_of(row, !strncmp(name, "layer", 5));
    if (!strcmp(name, "cross_entropy"))
        return log(a.powers) + a.most - (double)data[row * side + (int64_t)label];
    if (!strcmp(name, "cross_entropy_gradient"))
        return (double)seed_of(row, 0) * (exp(v - a.most) / a.powers - ((double)column == label));
    if (!strcmp(name, "softmax_gradient")) return v * (of - a.softened);
    double h = of * weight_of(column) - (a.mean != 0 ? a.weighed / n : 0);
    return a.r * (h - (v - a.mean) * a.r * a.r * a.products / n);
}

static void start_gradient(float *scratch) {
    int64_t *numbers = malloc((size_t)side * sizeof *numbers);
    if (!numbers) exit(1);
    for (int64_t i = 0; i < side; i++)
        for (int64_t k = 0; k < side; k++) scratch[i * side + k] = seed_of(i, k);
    check(shoal_tensor_new(session, SHOAL_F32, 2, (const int64_t[]){side, side}, scratch, &g));
    for (int64_t i = 0; i < side; i++) scratch[i] = seed_of(i, 0);
    check(shoal_tensor_new(session, SHOAL_F32, 1, &side, scratch, &losses));
    for (int64_t i = 0; i < side; i++) numbers[i] = i * 7 % side;
    check(shoal_tensor_new(session, SHOAL_I64, 1, &side, numbers, &labels));
    free(numbers);
}

/* ---- all ---- */

static shoal_tensor *call(const char *name) {
    if (row_operation(name) >= 0) return call_along_rows(row_operation(name));
    if (is_gradient(name)) return call_gradient(name);
    shoal_attr along = {.key = SHOAL_ATTR_DIMENSION, .kind = SHOAL_ATTR_KIND_INT, .u.i = 1};
    shoal_attr epsilon = {.key = SHOAL_ATTR_EPSILON, .kind = SHOAL_ATTR_KIND_FLOAT, .u.f = 1e-6};
    if (!strcmp(name, "softmax")) return apply("softmax", &x, 1, &along, 1);
    if (!strcmp(name, "rms_norm"))
        return apply("rms_norm", (shoal_tensor *const[]){x, w}, 2,
                     (const shoal_attr[]){along, epsilon}, 2);
    if (strcmp(name, "fused")) return apply(name, &x, 1, NULL, 0);
    shoal_tensor *product, *sum, *out;
    check(shoal_multiply(x, w, &product));
    check(shoal_add(product, b, &sum));
    out = apply("gelu", &sum, 1, NULL, 0);
    shoal_tensor_free(&product);
    shoal_tensor_free(&sum);
    return out;
}

static double gelu(double v) { return v * 0.5 * erfc(-v * sqrt(0.5)); }

static double expected(const char *name, int64_t row, int64_t column) {
    if (is_gradient(name)) return expected_gradient(name, row, column);
    const float *r = data + row * side;
    double v = (double)r[column], most = -INFINITY, sum = 0, squares = 0;
    for (int64_t i = 0; i < side; i++) most = fmax(most, (double)r[i]);
    for (int64_t i = 0; i < side; i++) {
        sum += exp((double)r[i] - most);
        squares += (double)r[i] * (double)r[i];
    }
    double weight = 1 + (double)(column % 3);
    if (!strcmp(name, "softmax")) return exp(v - most) / sum;
    if (!strcmp(name, "rms_norm")) return v / sqrt(squares / (double)side + 1e-6) * weight;
    if (!strcmp(name, "silu")) return v / (1 + exp(-v));
    if (!strcmp(name, "gelu")) return gelu(v);
    return gelu(v * weight + 0.25);
}

static void start_ours(const char *name) {
    const shoal_options options = {
        .size = sizeof options, .hub = "embedded", .workers = 1, .threads = (uint32_t)threads};
    size_t count = (size_t)(side * side);
    data = malloc(count * sizeof *data);
    float *result = malloc(count * sizeof *result + (size_t)side * sizeof(int64_t)),
          *row = malloc((size_t)side * sizeof *row);
    if (!data || !result || !row) exit(1);
    for (size_t i = 0; i < count; i++) data[i] = (float)((i * 2654435761u >> 7) % 8192) / 1024 - 4;
    check(shoal_session_open(&options, &session));
    check(shoal_tensor_new(session, SHOAL_F32, 2, (const int64_t[]){side, side}, data, &x));
    for (int64_t i = 0; i < side; i++) row[i] = 1 + (float)(i % 3);
    check(shoal_tensor_new(session, SHOAL_F32, 1, &side, row, &w));
    for (int64_t i = 0; i < side; i++) row[i] = 0.25f;
    check(shoal_tensor_new(session, SHOAL_F32, 1, &side, row, &b));
    if (is_gradient(name)) start_gradient(result);
    shoal_tensor *out = call(name);
    int which = row_operation(name);
    bool is_row = has_row_of_results(name);
    size_t sizes[] = {sizeof(float), (size_t)side * sizeof(int64_t)};
    size_t elements = is_row ? (size_t)side : count;
    check(shoal_read(out, result,
                     which == 0 || which == 1 ? sizes[which] : elements * sizeof *result));
    shoal_tensor_free(&out);
    if (which >= 0 && !is_right(which, result, (const int64_t *)result)) {
        fprintf(stderr, "kernels: %s is wrong\n", name);
        exit(1);
    }
    for (int64_t i = 0; i < side && which < 0; i += 37) {
        int64_t column = i * 101 % side;
        bool down = strstr(name, "scale_gradient");
        if (down && i > 2 * 37) break; /* each takes the whole matrix */
        double want = expected(name, i, column);
        double got = (double)result[!is_row ? i * side + column : down ? column : i];
        if (fabs(got - want) <= 1e-6 + 1e-5 * fabs(want) + loose(name)) continue;
        fprintf(stderr, "kernels: %s at %lld, %lld is %g, not %g\n", name, (long long)i,
                (long long)column, got, want);
        exit(1);
    }
    free(result);
    free(row);
}

static double run_ours(const char *name) {
    double from = seconds();
    shoal_tensor *out = call(name);
    check(shoal_sync(session));
    double took = seconds() - from;
    shoal_tensor_free(&out);
    return took;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: kernels NAME SIDE THREADS\n");
        return 2;
    }
    bool copies = !strcmp(argv[1], "memcpy");
    side = atoll(argv[2]);
    threads = atoi(argv[3]);
    if (side < 1 || threads < 1 || threads > MOST_THREADS) return 2;
    if (copies)
        start_memcpy();
    else
        start_ours(argv[1]);
    printf("ready\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        printf("%.9f\n", copies ? run_memcpy() : run_ours(argv[1]));
        fflush(stdout);
    }
    exit(0); /* with the threads that copy */
}
