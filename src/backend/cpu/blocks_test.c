/* Blocks by each instruction set: decoded as base/block.c decodes them, bit by bit, and multiplied
 * as float64 does. */
#include "backend/cpu/cpu.h"
#include "backend/registry.h"
#include "graph/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 3, ROWS = 11, MOST_X = 9 };

static const cpu_kernels *tables[CPU_MOST_SETS];
static int n_tables;

/* Any bytes; halves among them may be infinite or no numbers unless `tame`. */
static uint8_t *make_blocks(const shoal_block_format *f, size_t n, bool tame) {
    uint8_t *bytes = malloc(n * f->bytes);
    assert_non_null(bytes);
    for (size_t i = 0; i < n * f->bytes; i++) bytes[i] = (uint8_t)rand();
    for (size_t b = 0; tame && b < n; b++) {
        bool last = !strcmp(f->name, "q6_k"), two = f->bytes == 20 || f->bytes == 144;
        uint8_t *half = bytes + b * f->bytes + (last ? 208 : 0);
        for (int h = 0; h <= two; h++) half[2 * h + 1] = (uint8_t)((rand() & 0x83) | 0x20);
    }
    return bytes;
}

static void test_decode(void **state) {
    for (uint32_t k = 0; k < BASE_BLOCK_COUNT; k++) {
        const shoal_block_format *f = shoal_block_format_at(k);
        enum { N = 500 };
        size_t count = N * (size_t)f->values;
        uint8_t *bytes = make_blocks(f, N, false);
        float *is = malloc(count * sizeof *is), *must = malloc(count * sizeof *must);
        base_block_decoder((base_block_number)k)(bytes, must, N);
        for (int t = 0; t < n_tables; t++) {
            tables[t]->blocks[k].decode(bytes, is, N);
            for (size_t i = 0; i < count; i++)
                if (memcmp(&is[i], &must[i], sizeof *is) && !(isnan(is[i]) && isnan(must[i])))
                    fail_msg("%s, %s: value %zu is %g, not %g", tables[t]->name, f->name, i,
                             (double)is[i], (double)must[i]);
        }
        free(bytes);
        free(is);
        free(must);
    }
}

/* m rows of x, further apart than they are long; results by row or by column. */
static void check_product(const cpu_kernels *table, uint32_t format, int64_t m, int64_t n,
                          bool turned) {
    const shoal_block_format *f = shoal_block_format_at(format);
    int64_t k = BLOCKS * (int64_t)f->values, x_row = k + 5;
    uint8_t *w = make_blocks(f, (size_t)n * BLOCKS, true);
    float *numbers = malloc((size_t)(n * k) * sizeof *numbers);
    float *x = malloc((size_t)(m * x_row) * sizeof *x), y[MOST_X * ROWS + 1];
    base_block_decoder((base_block_number)format)(w, numbers, (size_t)n * BLOCKS);
    for (int64_t i = 0; i < m * x_row; i++) x[i] = (float)(rand() % 2001 - 1000) / 1000;
    for (int64_t i = 0; i < m * n + 1; i++) y[i] = NAN;
    const cpu_block_product p = {.w = w,
                                 .x = x,
                                 .y = y,
                                 .m = m,
                                 .n = n,
                                 .blocks = BLOCKS,
                                 .x_row = x_row,
                                 .y_strides = {turned ? 1 : n, turned ? m : 1}};
    table->blocks[format].dot(&p);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++) {
            double sum = 0, size = 0;
            for (int64_t a = 0; a < k; a++) {
                double each = (double)x[j * x_row + a] * (double)numbers[i * k + a];
                sum += each;
                size += fabs(each);
            }
            double is = (double)y[j * p.y_strides[0] + i * p.y_strides[1]];
            if (!(fabs(is - sum) <= 2e-6 * size)) /* float32: 2^-24 sqrt(768), and some room */
                fail_msg("%s, %s, %lld x %lld: [%lld, %lld] is %g, not %g", table->name, f->name,
                         (long long)m, (long long)n, (long long)j, (long long)i, is, sum);
        }
    assert_true(isnan(y[m * n]));
    free(w);
    free(numbers);
    free(x);
}

static void test_products(void **state) {
    for (int t = 0; t < n_tables; t++)
        for (uint32_t k = 0; k < BASE_BLOCK_COUNT; k++)
            for (int64_t m = 1; m <= MOST_X; m++)
                for (int64_t n = 1; n <= ROWS; n++) check_product(tables[t], k, m, n, n % 2);
}

/* ---- which products are made so ---- */

typedef struct form {
    const char *name;
    int64_t rows; /* of x */
    bool left;    /* weights are the left operand */
    bool turned;  /* x is [k, rows] */
    bool moved;   /* weights are transposed by a node between */
    bool again;   /* their numbers are a result, too */
    bool packed;  /* never go to memory */
} form;

enum { N = 24, K = 512, WEIGHTS = N * K * (int)sizeof(float) };

static graph *product_of(const form *f) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, f->turned ? T(F32, K, f->rows) : T(F32, f->rows, K));
    uint32_t bytes = test_input(g, T(U8, N, K / 32 * 18));
    uint32_t w = test_add(
        g, GRAPH_DEQUANTIZE, VALUES(bytes),
        ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32), graph_string(SHOAL_ATTR_FORMAT, "q4_0")));
    if (f->again) ok(graph_add_output(g, w));
    if (f->moved) w = test_add(g, GRAPH_TRANSPOSE, VALUES(w), ATTRS(INTS(PERMUTATION, 1, 0)));
    int64_t of_w = !f->moved, of_x = !f->turned;
    const shoal_attr attrs[] = {
        graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
        graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
        graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, f->left ? &of_w : &of_x, 1),
        graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, f->left ? &of_x : &of_w, 1)};
    uint32_t in[] = {f->left ? w : x, f->left ? x : w}, y;
    ok(graph_add(g, GRAPH_DOT_GENERAL, in, 2, attrs, 4, NULL, 0, &y));
    ok(graph_add_output(g, y));
    return g;
}

static void check_form(const form *f) {
    const shoal_backend *backend;
    shoal_device *device;
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable;
    shoal_binding bindings[4] = {0};
    graph *g = product_of(f), *plain;
    const shoal_graph *data = graph_data(g);
    uint32_t n = 2 + data->n_outputs, values[4] = {data->inputs[0], data->inputs[1]};
    void *is[4], *must[4];
    for (uint32_t o = 0; o < data->n_outputs; o++) values[2 + o] = data->outputs[o];
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = (size_t)base_type_bytes(&data->values[values[i]].type);
        is[i] = malloc(bytes);
        must[i] = malloc(bytes);
    }
    for (int64_t i = 0; i < f->rows * K; i++)
        ((float *)is[0])[i] = (float)(rand() % 2001 - 1000) / 1000;
    uint8_t *w = make_blocks(shoal_block_format_at(BASE_BLOCK_Q4_0), N * K / 32, true);
    memcpy(is[1], w, N * K / 32 * 18);
    ok(graph_new(0, &plain));
    ok(graph_decompose(data, NULL, NULL, plain));
    ok(ref_evaluate(NULL, graph_data(plain), (const void *const *)is, &must[2]));
    ok(backend_find("cpu", &backend));
    ok(backend->device_new(backend_host(), 0, 3, &device));
    ok(backend->compile(device, data, NULL, &report, &executable));
    if ((report.workspace < WEIGHTS) != (f->packed || f->again))
        fail_msg("%s: %zu bytes of workspace", f->name, (size_t)report.workspace);
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = (size_t)base_type_bytes(&data->values[values[i]].type);
        const shoal_import from = {SHOAL_IMPORT_HOST, is[i], bytes, false};
        ok(backend->memory_import(device, &from, &bindings[i].memory));
    }
    ok(backend->run(device, executable, bindings, n, NULL));
    for (int64_t i = 0; i < f->rows * N; i++) {
        double x = (double)((float *)is[n - 1])[i], y = (double)((float *)must[n - 1])[i];
        if (!(fabs(x - y) <= 1e-5 * (fabs(y) + 1)))
            fail_msg("%s: number %d is %g, not %g", f->name, (int)i, x, y);
    }
    for (uint32_t i = 0; i < n; i++) backend->memory_free(device, bindings[i].memory);
    backend->executable_free(device, executable);
    backend->device_free(device);
    for (uint32_t i = 0; i < n; i++) {
        free(is[i]);
        free(must[i]);
    }
    free(w);
    graph_destroy(&plain);
    graph_destroy(&g);
}

static void test_forms(void **state) {
    static const form forms[] = {
        {.name = "one row", .rows = 1, .packed = true},
        {.name = "no row", .rows = 0, .packed = true},
        {.name = "three rows", .rows = 3, .packed = true},
        {.name = "weights on the left", .rows = 3, .left = true, .packed = true},
        {.name = "weights on the left of columns",
         .rows = 3,
         .left = true,
         .turned = true,
         .packed = true},
        {.name = "columns", .rows = 3, .turned = true, .packed = true},
        {.name = "weights that are turned", .rows = 2, .moved = true, .packed = true},
        {.name = "turned on the left", .rows = 2, .left = true, .moved = true, .packed = true},
        {.name = "weights that are a result", .rows = 1, .again = true},
        {.name = "many rows", .rows = 100},
        {.name = "many columns", .rows = 100, .left = true, .turned = true},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_form(&forms[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode),
                                       cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_forms)};
    n_tables = (int)cpu_kernel_sets(tables);
    srand(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
