/* Composites along rows on cpu: a row gives the same bits alone as among others, on one thread or
 * three, streamed past the caches or not; rows with infinities and NaN give what the reference
 * gives, and are of no consequence for others. */
#include "backend/cpu/cpu.h"
#include "backend/registry.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != SHOAL_OK) fail_msg("%s: %s", #call, shoal_error_message());                  \
    } while (0)

/* x, g: rows; e: an element per row; l: a label per row; s, b: one row for all. */
static const struct composite {
    uint16_t op;
    const char *roles;
    char result; /* r: rows, e: elements, s: a sum of all rows */
    bool epsilon, ignores;
} composites[] = {
    {GRAPH_SOFTMAX, "x", 'r', false, false},
    {GRAPH_LOG_SOFTMAX, "x", 'r', false, false},
    {GRAPH_SOFTMAX_GRADIENT, "gx", 'r', false, false},
    {GRAPH_CROSS_ENTROPY, "xl", 'e', false, true},
    {GRAPH_CROSS_ENTROPY_GRADIENT, "exl", 'r', false, true},
    {GRAPH_RMS_NORM, "xs", 'r', true, false},
    {GRAPH_RMS_NORM_GRADIENT, "gxs", 'r', true, false},
    {GRAPH_RMS_NORM_SCALE_GRADIENT, "gx", 's', true, false},
    {GRAPH_LAYER_NORM, "xsb", 'r', true, false},
    {GRAPH_LAYER_NORM_GRADIENT, "gxs", 'r', true, false},
    {GRAPH_LAYER_NORM_GRADIENT, "gx", 'r', true, false},
    {GRAPH_LAYER_NORM_SCALE_GRADIENT, "gx", 's', true, false},
};
enum { COMPOSITES = sizeof composites / sizeof *composites };

typedef struct operands {
    int64_t rows, n;
    float *x, *g, *e, *s;
    int32_t *labels;
} operands;

static bool has_backend_kernel(void *context, const shoal_graph *g, const shoal_node *node) {
    const shoal_backend *backend;
    OK(backend_find("cpu", &backend));
    return context && backend->supports(context, g, node);
}

/* The composite of `rows` rows from `first` on; returns elements of the result. */
static int64_t run(const struct composite *c, const operands *o, int64_t first, int64_t rows,
                   const char *name, uint32_t threads, float *out) {
    const shoal_backend *backend;
    shoal_device *device;
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable;
    shoal_binding buffers[4] = {{0}};
    graph *g, *own;
    uint32_t in[3], made, n = 0;
    bool on_cpu = !strcmp(name, "cpu");
    OK(backend_find(name, &backend));
    OK(backend->device_new(backend_host(), 0, threads, &device));
    OK(graph_new(0, &g));
    OK(graph_new(0, &own));
    for (const char *role = c->roles; *role; role++, n++) {
        shoal_type type = {.dtype = SHOAL_F32, .rank = 2, .dims = {rows, o->n}};
        float *at = (*role == 'x' ? o->x : o->g) + first * o->n;
        if (strchr("els", *role) || *role == 'b') type.rank = 1;
        if (strchr("sb", *role)) type.dims[0] = o->n, at = o->s;
        if (*role == 'e') at = o->e + first;
        if (*role == 'l') type.dtype = SHOAL_I32, at = (float *)(void *)(o->labels + first);
        OK(graph_add_input(g, &type, &in[n]));
        shoal_import from = {SHOAL_IMPORT_HOST, at, (size_t)base_type_bytes(&type), false};
        OK(backend->memory_import(device, &from, &buffers[n].memory));
    }
    shoal_attr attrs[2] = {graph_int(SHOAL_ATTR_DIMENSION, 1),
                           c->epsilon ? graph_float(SHOAL_ATTR_EPSILON, 1e-3)
                                      : graph_int(SHOAL_ATTR_IGNORE_INDEX, 2)};
    OK(graph_add(g, c->op, in, n, attrs, c->epsilon || c->ignores ? 2 : 1, NULL, 0, &made));
    OK(graph_add_output(g, made));
    OK(graph_decompose(graph_data(g), has_backend_kernel, on_cpu ? device : NULL, own));
    if (on_cpu) assert_int_equal(graph_data(own)->n_nodes, 1);
    int64_t count = base_type_count(&graph_data(g)->values[made].type);
    shoal_import to = {SHOAL_IMPORT_HOST, out, (size_t)count * sizeof *out, false};
    OK(backend->memory_import(device, &to, &buffers[n].memory));
    OK(backend->compile(device, graph_data(own), NULL, &report, &executable));
    OK(backend->run(device, executable, buffers, n + 1, NULL));
    for (uint32_t i = 0; i <= n; i++) backend->memory_free(device, buffers[i].memory);
    backend->executable_free(device, executable);
    backend->device_free(device);
    graph_destroy(&own);
    graph_destroy(&g);
    return count;
}

static void *room(int64_t n, size_t bytes) {
    void *data = calloc((size_t)n + 1, bytes);
    assert_non_null(data);
    return data;
}

static operands make(int64_t rows, int64_t n) {
    operands o = {rows,          n,          room(rows * n, 4), room(rows * n, 4),
                  room(rows, 4), room(n, 4), room(rows, 4)};
    for (int64_t i = 0; i < rows * n; i++) {
        o.x[i] = (float)(rand() % 2001 - 1000) / 250;
        o.g[i] = (float)(rand() % 2001 - 1000) / 1000;
    }
    for (int64_t i = 0; i < n; i++) o.s[i] = (float)(rand() % 100) / 50;
    for (int64_t i = 0; i < rows; i++) {
        o.e[i] = (float)(rand() % 100) / 50;
        o.labels[i] = rand() % (int)(n + 2) - 1; /* -1 and n are no classes */
    }
    return o;
}

static void drop(operands *o) {
    void *all[] = {o->x, o->g, o->e, o->s, o->labels};
    for (int i = 0; i < 5; i++) free(all[i]);
}

static void test_alone(void **state) {
    /* The last is streamed: more than 8 MiB. */
    static const int64_t shapes[][2] = {{1, 1},     {3, 31},   {200, 33},
                                        {1000, 65}, {70, 128}, {2100, 1030}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t rows = shapes[s][0], n = shapes[s][1];
        operands o = make(rows, n);
        float *all = room(rows * n, 4), *again = room(rows * n, 4), *one = room(n, 4);
        for (int c = 0; c < COMPOSITES; c++) {
            const struct composite *what = &composites[c];
            int64_t count = run(what, &o, 0, rows, "cpu", 1, all);
            run(what, &o, 0, rows, "cpu", 3, again);
            assert_memory_equal(all, again, (size_t)count * sizeof *all);
            int64_t each = what->result == 'e' ? 1 : n;
            for (int64_t row = 0; row < rows && what->result != 's'; row += 1 + rows / 9) {
                run(what, &o, row, 1, "cpu", 1, one);
                assert_memory_equal(all + row * each, one, (size_t)each * sizeof *all);
            }
        }
        free(all);
        free(again);
        free(one);
        drop(&o);
    }
}

/* Rows that hold one of these, or nothing else. */
static void test_broken_rows(void **state) {
    static const float specials[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-42f, 0};
    enum { SPECIALS = 7 };
    static const int64_t lengths[] = {1, 7, 40, 64, 131};
    for (int l = 0; l < 5; l++) {
        int64_t n = lengths[l], rows = 3 * SPECIALS;
        operands o = make(rows, n);
        for (int i = 0; i < SPECIALS; i++) { /* and whole rows between them */
            o.x[3 * i * n + n / 2] = specials[i];
            for (int64_t k = 0; k < n; k++) o.x[(3 * i + 1) * n + k] = specials[i];
        }
        float *is = room(rows * n, 4), *must = room(rows * n, 4);
        for (int c = 0; c < COMPOSITES; c++) {
            const struct composite *what = &composites[c];
            /* Squares and sums of the largest numbers overflow in one order and not in another. */
            if (what->result == 's') continue;
            int64_t count = run(what, &o, 0, rows, "cpu", 1, is), each = count / rows;
            run(what, &o, 0, rows, "ref", 1, must);
            for (int64_t i = 0; i < count; i++) {
                float largest = fabsf(o.x[i / each * n + n / 2]);
                bool sums_overflow = largest > 1e38f && largest < INFINITY;
                if (sums_overflow && what->op != GRAPH_SOFTMAX) continue;
                double a = (double)is[i], b = (double)must[i];
                if (!(isnan(a) && isnan(b)) && a != b && !(fabs(a - b) <= 4e-6 * fmax(1, fabs(b))))
                    fail_msg("%s, %d long, row %d, element %d: %g, not %g", shoal_op_name(what->op),
                             (int)n, (int)(i / each), (int)(i % each), a, b);
            }
        }
        free(is);
        free(must);
        drop(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_broken_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
