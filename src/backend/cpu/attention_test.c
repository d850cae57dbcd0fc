/* Attention and its gradient on cpu against plain loops in double: sizes around those of blocks,
 * operands cut out of larger tensors and transposed, masks, lengths, hidden and broken rows; the
 * same bits on one thread and on three, and memory that does not grow by the square. */
#include "base/testing.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/run_testing.h"

#include <math.h>
enum { MASK_NONE, MASK_BOOL, MASK_ADDED };

/* B heads that share keys over G queries' heads; what is given of mask, length and CAUSAL. */
typedef struct example {
    int64_t b, g, s, t, d, e;
    int mask;
    bool has_length, causal, views;
    int64_t length, shift;
    double scale;
} example;

/* ---- the truth ---- */

typedef struct data {
    float *q, *k, *v, *of,
        *added; /* dense: [b, g, s, d], [b, t, d], [b, t, e], [b, g, s, e], [s, t] */
    uint8_t *flags;
    double *out, *for_q, *for_k, *for_v;
} data;

static float *numbers(int64_t n) {
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(rand() % 2001 - 1000) / 1000;
    return x;
}

static double *zeros(int64_t n) {
    double *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

static data make(const example *x) {
    int64_t queries = x->b * x->g * x->s;
    data d = {numbers(queries * x->d),  numbers(x->b * x->t * x->d), numbers(x->b * x->t * x->e),
              numbers(queries * x->e),  numbers(x->s * x->t),        malloc((size_t)(x->s * x->t)),
              zeros(queries * x->e),    zeros(queries * x->d),       zeros(x->b * x->t * x->d),
              zeros(x->b * x->t * x->e)};
    assert_non_null(d.flags);
    for (int64_t i = 0; i < x->s * x->t; i++) d.flags[i] = rand() % 3 > 0;
    return d;
}

static void drop(data *d) {
    void *all[] = {d->q,     d->k,   d->v,     d->of,    d->added,
                   d->flags, d->out, d->for_q, d->for_k, d->for_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static bool is_seen(const example *x, const data *d, int64_t query, int64_t key) {
    int64_t end = x->has_length ? x->length : x->t;
    return key < end && (!x->causal || key <= query - x->s + x->shift + end) &&
           (x->mask != MASK_BOOL || d->flags[query * x->t + key]);
}

/* One query: its result, and what it hands to q, k and v. */
static void attend(const example *x, data *d, int64_t b, int64_t row, int64_t query) {
    const float *q = d->q + row * x->d, *of = d->of + row * x->e;
    const float *k = d->k + b * x->t * x->d, *v = d->v + b * x->t * x->e;
    double *w = zeros(x->t), *moved = zeros(x->t), most = -INFINITY, sum = 0, less = 0;
    for (int64_t j = 0; j < x->t; j++) {
        for (int64_t i = 0; i < x->d; i++) w[j] += (double)q[i] * (double)k[j * x->d + i];
        w[j] = w[j] * x->scale + (x->mask == MASK_ADDED ? (double)d->added[query * x->t + j] : 0);
        if (!is_seen(x, d, query, j)) w[j] = -INFINITY;
        most = fmax(most, w[j]);
    }
    bool hidden = true;
    for (int64_t j = 0; j < x->t; j++) hidden = hidden && !is_seen(x, d, query, j);
    for (int64_t j = 0; j < x->t; j++) sum += w[j] = exp(w[j] - most);
    for (int64_t j = 0; j < x->t; j++) {
        w[j] /= sum;
        for (int64_t i = 0; i < x->e; i++) {
            d->out[row * x->e + i] += w[j] * (double)v[j * x->e + i];
            moved[j] += (double)of[i] * (double)v[j * x->e + i];
        }
        less += w[j] * moved[j];
    }
    for (int64_t j = 0; j < x->t && !hidden; j++) {
        double change = w[j] * (moved[j] - less) * x->scale;
        for (int64_t i = 0; i < x->d; i++) {
            d->for_q[row * x->d + i] += change * (double)k[j * x->d + i];
            d->for_k[(b * x->t + j) * x->d + i] += change * (double)q[i];
        }
        for (int64_t i = 0; i < x->e; i++)
            d->for_v[(b * x->t + j) * x->e + i] += w[j] * (double)of[i];
    }
    free(w);
    free(moved);
}

/* ---- graphs ---- */

typedef struct inputs {
    graph *g;
    void *at[8];
    uint32_t n;
} inputs;

static uint32_t add_input(inputs *in, shoal_dtype dtype, uint32_t rank, const int64_t *dims,
                          void *at) {
    shoal_type type = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    uint32_t value;
    if (rank) memcpy(type.dims, dims, rank * sizeof *dims);
    OK(graph_add_input(in->g, &type, &value));
    in->at[in->n++] = at;
    return value;
}

static uint32_t apply(graph *g, uint16_t op, uint32_t x, const shoal_attr *attrs, uint16_t n) {
    uint32_t out;
    OK(graph_add(g, op, &x, 1, attrs, n, NULL, 0, &out));
    return out;
}

/* x, which is [b, h, n, m], as an input; or as the middle of an input [b, n, h * m + 2], split into
 * heads and turned. */
static uint32_t operand(inputs *in, const int64_t *dims, const float *x, bool views, float **wide) {
    *wide = NULL;
    if (!views) return add_input(in, SHOAL_F32, 4, dims, (void *)(uintptr_t)x);
    int64_t b = dims[0], h = dims[1], n = dims[2], m = dims[3], row = h * m + 2;
    *wide = malloc((size_t)(b * n * row) * sizeof **wide);
    assert_non_null(*wide);
    for (int64_t i = 0; i < b * n * row; i++) (*wide)[i] = NAN;
    for (int64_t i = 0; i < b * h * n * m; i++)
        (*wide)[(i / m / n / h * n + i / m % n) * row + 1 + i / m / n % h * m + i % m] = x[i];
    uint32_t v = add_input(in, SHOAL_F32, 3, (int64_t[]){b, n, row}, *wide);
    shoal_attr cut[] = {graph_ints(SHOAL_ATTR_START_INDICES, (int64_t[]){0, 0, 1}, 3),
                        graph_ints(SHOAL_ATTR_LIMIT_INDICES, (int64_t[]){b, n, row - 1}, 3),
                        graph_ints(SHOAL_ATTR_STRIDES, (int64_t[]){1, 1, 1}, 3)};
    shoal_attr heads = graph_ints(SHOAL_ATTR_SHAPE, (int64_t[]){b, n, h, m}, 4);
    shoal_attr turn = graph_ints(SHOAL_ATTR_PERMUTATION, (int64_t[]){0, 2, 1, 3}, 4);
    v = apply(in->g, GRAPH_RESHAPE, apply(in->g, GRAPH_SLICE, v, cut, 3), &heads, 1);
    return apply(in->g, GRAPH_TRANSPOSE, v, &turn, 1);
}

static void compare(const example *x, const char *what, const float *is, const double *must,
                    int64_t n) {
    /* Scores are sums of float32; the larger they are, the more weights change with their last
     * bits. */
    double loose = 2e-6 * fmax(1, fabs(x->scale) * (double)x->d / 16);
    for (int64_t i = 0; i < n; i++) {
        if (isnan(must[i]) && isnan(is[i])) continue;
        if (!(fabs((double)is[i] - must[i]) <= loose * fmax(4, fabs(must[i]))))
            fail_msg(
                "%s of %dx%dx%dx%dx%dx%d, mask %d, causal %d, views %d: element %d is %g, not %g",
                what, (int)x->b, (int)x->g, (int)x->s, (int)x->t, (int)x->d, (int)x->e, x->mask,
                x->causal, x->views, (int)i, (double)is[i], must[i]);
    }
}

/* attention, and attention_gradient of its result, in one graph. */
static void check(const example *x, data *d) {
    int64_t queries = x->b * x->g * x->s;
    int64_t of_q[] = {x->b, x->g, x->s, x->d}, of_k[] = {x->b, 1, x->t, x->d};
    int64_t of_v[] = {x->b, 1, x->t, x->e}, of_o[] = {x->b, x->g, x->s, x->e};
    inputs in = {0};
    float *wide[4], *first[4], *again[4];
    OK(graph_new(0, &in.g));
    uint32_t q = operand(&in, of_q, d->q, x->views, &wide[0]);
    uint32_t k = operand(&in, of_k, d->k, x->views, &wide[1]);
    uint32_t v = operand(&in, of_v, d->v, x->views, &wide[2]);
    uint32_t of = operand(&in, of_o, d->of, x->views, &wide[3]), o, gradient;
    /* One head's keys for a group of queries' heads have no axis for them. */
    for (int i = 0; i < 2; i++) {
        const int64_t *dims = i ? of_v : of_k;
        shoal_attr shape = graph_ints(SHOAL_ATTR_SHAPE, (int64_t[]){dims[0], dims[2], dims[3]}, 3);
        *(i ? &v : &k) = apply(in.g, GRAPH_RESHAPE, i ? v : k, &shape, 1);
    }
    uint32_t list[7] = {0, 0, q, k, v}, n = 5;
    int64_t of_mask[] = {x->s, x->t}, length = x->length;
    if (x->mask == MASK_BOOL) list[n++] = add_input(&in, SHOAL_BOOL, 2, of_mask, d->flags);
    if (x->mask == MASK_ADDED) list[n++] = add_input(&in, SHOAL_F32, 2, of_mask, d->added);
    if (x->has_length) list[n++] = add_input(&in, SHOAL_I64, 0, NULL, &length);
    shoal_attr attrs[] = {graph_float(SHOAL_ATTR_SCALE, x->scale),
                          graph_int(SHOAL_ATTR_CAUSAL, x->shift)};
    uint16_t n_attrs = x->causal ? 2 : 1;
    OK(graph_add(in.g, GRAPH_ATTENTION, list + 2, n - 2, attrs, n_attrs, NULL, 0, &o));
    list[0] = of;
    list[1] = o;
    OK(graph_add(in.g, GRAPH_ATTENTION_GRADIENT, list, n, attrs, n_attrs, NULL, 0, &gradient));
    OK(graph_add_output(in.g, o));
    for (uint32_t i = 0; i < 3; i++) OK(graph_add_output(in.g, gradient + i));
    test_run_new("cpu", 1, graph_data(in.g), in.at, first);
    test_run_new("cpu", 3, graph_data(in.g), in.at, again);
    for (int64_t row = 0; row < queries; row++) attend(x, d, row / x->g / x->s, row, row % x->s);
    const double *must[] = {d->out, d->for_q, d->for_k, d->for_v};
    const int64_t counts[] = {queries * x->e, queries * x->d, x->b * x->t * x->d,
                              x->b * x->t * x->e};
    static const char *const names[] = {"the result", "the gradient for q", "that for k",
                                        "that for v"};
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(first[i], again[i], (size_t)counts[i] * sizeof(float));
        compare(x, names[i], first[i], must[i], counts[i]);
        free(first[i]);
        free(again[i]);
        free(wide[i]);
    }
    graph_destroy(&in.g);
}

/* ---- tests ---- */

/* A query per head, as in generating text: heads that share keys are one block. */
static void test_one_query(void **state) {
    srand(8);
    for (int i = 0; i < 40 / STRIDE; i++) {
        example x = {.b = 1 + rand() % 3,
                     .g = 1 + rand() % 6,
                     .s = 1,
                     .t = 1 + rand() % 300,
                     .d = 1 + rand() % 40,
                     .e = 1 + rand() % 40,
                     .mask = rand() % 3,
                     .has_length = rand() % 2,
                     .causal = rand() % 2,
                     .views = rand() % 2,
                     .scale = 0.5};
        x.length = x.has_length ? rand() % (x.t + 3) : x.t;
        x.shift = -(rand() % 3);
        data d = make(&x);
        check(&x, &d);
        drop(&d);
    }
}

static void test_random(void **state) {
    static const int64_t sizes[] = {1,  2,   5,   31,  32,  33,  63,  64,
                                    65, 100, 127, 128, 129, 200, 257, 300};
    static const int64_t widths[] = {1, 3, 8, 16, 17, 32, 40, 64};
    static const double scales[] = {0.3, 1, -0.5, 0, 4};
    srand(7);
    for (int i = 0; i < 150 / STRIDE; i++) {
        example x = {.b = 1 + rand() % 3,
                     .g = 1 + rand() % 3,
                     .s = sizes[rand() % 16],
                     .t = sizes[rand() % 16],
                     .d = widths[rand() % 8],
                     .e = widths[rand() % 8],
                     .mask = rand() % 3,
                     .has_length = rand() % 3 == 0,
                     .causal = rand() % 2,
                     .views = rand() % 2,
                     .scale = scales[rand() % 5]};
        x.length = x.has_length ? rand() % (x.t + 3) : x.t;
        x.shift = rand() % 3 ? 0 : rand() % 41 - 20;
        data d = make(&x);
        check(&x, &d);
        drop(&d);
    }
}

/* Queries without a key give NaN and hand nothing on; infinities and NaN stay in their rows. */
static void test_rows(void **state) {
    example x = {
        .b = 1, .g = 1, .s = 70, .t = 150, .d = 16, .e = 32, .mask = MASK_BOOL, .scale = 1};
    data d = make(&x);
    memset(d.flags + 3 * x.t, 0, (size_t)x.t);
    memset(d.flags + 69 * x.t, 0, (size_t)x.t);
    memset(d.flags + 5 * x.t, 0, (size_t)x.t - 1); /* it sees the last key alone */
    d.flags[6 * x.t - 1] = 1;
    check(&x, &d);
    assert_true(isnan(d.out[3 * x.e]) && d.for_q[3 * x.d] == 0 && !isnan(d.for_v[0]));
    drop(&d);
    example none = {
        .b = 2, .g = 2, .s = 9, .t = 40, .d = 8, .e = 8, .has_length = true, .scale = 1};
    none.causal = true;
    d = make(&none);
    check(&none, &d);
    assert_true(isnan(d.out[0]) && d.for_k[0] == 0);
    drop(&d);
    /* Far more than any tensor has: sums of these do not overflow. */
    example far = {.b = 1, .g = 1, .s = 4, .t = 9, .d = 4, .e = 4, .has_length = true, .scale = 1};
    far.length = INT64_MAX;
    d = make(&far);
    check(&far, &d);
    drop(&d);
    far.causal = true;
    far.length = INT64_MIN;
    far.shift = 1;
    d = make(&far);
    check(&far, &d);
    drop(&d);
}

/* 8 heads of 1024 x 64: the scores alone would be 32 MiB. */
static void test_memory(void **state) {
    inputs in = {0};
    int64_t dims[] = {8, 1024, 64};
    size_t bytes = (size_t)(dims[0] * dims[1] * dims[2]) * sizeof(float);
    void *zero = calloc(1, bytes);
    assert_non_null(zero);
    uint32_t list[5], o;
    float *out[4];
    OK(graph_new(0, &in.g));
    for (int i = 0; i < 5; i++) list[i] = add_input(&in, SHOAL_F32, 3, dims, zero);
    shoal_attr causal = graph_int(SHOAL_ATTR_CAUSAL, 0);
    OK(graph_add(in.g, GRAPH_ATTENTION, list + 2, 3, &causal, 1, NULL, 0, &o));
    OK(graph_add_output(in.g, o));
    OK(graph_add(in.g, GRAPH_ATTENTION_GRADIENT, list, 5, &causal, 1, NULL, 0, &o));
    for (uint32_t i = 0; i < 3; i++) OK(graph_add_output(in.g, o + i));
    size_t workspace = test_run_new("cpu", 2, graph_data(in.g), in.at, out);
    assert_in_range(workspace, 1, 1 << 20);
    for (int i = 0; i < 4; i++) free(out[i]);
    free(zero);
    graph_destroy(&in.g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_one_query),
                                       cmocka_unit_test(test_rows), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
