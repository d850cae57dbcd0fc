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

/* Memory for rows of x that are prepared, or for none. */
static void *room_for(size_t bytes) {
    void *room = aligned_alloc(CPU_ALIGN, (bytes / CPU_ALIGN + 1) * CPU_ALIGN);
    assert_non_null(room);
    return room;
}

/* A number that is put into one block of the middle row of w, as its scale or what is like one, or
 * into the rows of x. */
typedef struct spoil {
    const char *name;
    int64_t block, x; /* -1: none */
    int field;        /* the first half of a block, or the second one where it has two */
    uint16_t half;
    float value;
} spoil;
static const spoil whole = {.name = "all", .block = -1, .x = -1};

static void spoil_half(const shoal_block_format *f, uint8_t *block, int field, uint16_t half) {
    bool last = !strcmp(f->name, "q6_k"), two = f->bytes == 20 || f->bytes == 144;
    memcpy(block + (last ? 208 : two ? 2 * field : 0), &half, sizeof half);
}

/* prepared: room for the rows of x, if integers are to multiply. */
static void dot(const cpu_kernels *table, uint32_t format, cpu_block_product p, void *prepared) {
    if (!prepared) {
        table->blocks[format].dot(&p);
        return;
    }
    table->digits[format].prepare(&p, prepared);
    p.prepared = prepared;
    table->digits[format].dot(&p, &table->blocks[format]);
}

/* m rows of x, further apart than they are long; results by row or by column. Rows are prepared
 * where `prepares`, or else multiplied as they are. */
static void check_product(const cpu_kernels *table, uint32_t format, int64_t m, int64_t n,
                          int64_t blocks, bool turned, bool prepares, const spoil *s) {
    const shoal_block_format *f = shoal_block_format_at(format);
    const cpu_digits_kernel *digits = &table->digits[format];
    int64_t k = blocks * (int64_t)f->values, x_row = k + 5;
    uint8_t *w = make_blocks(f, (size_t)(n * blocks), true);
    float *numbers = malloc((size_t)(n * k) * sizeof *numbers);
    float *x = malloc((size_t)(m * x_row) * sizeof *x), y[MOST_X * ROWS + 1];
    size_t room = (size_t)(m * ((k + CPU_PREPARED - 1) / CPU_PREPARED)) * digits->bytes;
    void *prepared = room_for(room);
    if (s->block >= 0)
        spoil_half(f, w + (size_t)(n / 2 * blocks + s->block) * f->bytes, s->field, s->half);
    base_block_decoder((base_block_number)format)(w, numbers, (size_t)(n * blocks));
    for (int64_t i = 0; i < m * x_row; i++) x[i] = (float)(rand() % 2001 - 1000) / 1000;
    for (int64_t j = 0; s->x >= 0 && j < m; j++) x[j * x_row + s->x % k] = s->value;
    for (int64_t i = 0; i < m * n + 1; i++) y[i] = NAN;
    cpu_block_product p = {.w = w,
                           .x = x,
                           .y = y,
                           .m = m,
                           .n = n,
                           .blocks = blocks,
                           .x_row = x_row,
                           .y_strides = {turned ? 1 : n, turned ? m : 1}};
    dot(table, format, p, prepares ? prepared : NULL);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++) {
            double sum = 0, size = 0;
            for (int64_t a = 0; a < k; a++) {
                double number = (double)numbers[i * k + a];
                double each = (double)x[j * x_row + a] * number;
                sum += each;
                size += fabs(each);
            }
            double is = (double)y[j * p.y_strides[0] + i * p.y_strides[1]];
            bool good = isnan(sum)   ? isnan(is)
                        : isinf(sum) ? is == sum
                                     /* float32: 2^-24 sqrt(768), and some room */
                                     : fabs(is - sum) <= 2e-6 * size;
            if (!good)
                fail_msg("%s, %s, %lld x %lld, %s: [%lld, %lld] is %g, not %g", table->name,
                         f->name, (long long)m, (long long)n, s->name, (long long)j, (long long)i,
                         is, sum);
        }
    assert_true(isnan(y[m * n]));
    free(prepared);
    free(w);
    free(numbers);
    free(x);
}

/* What a set has: rows as they are, and where it prepares some, both. */
static void check_products(int64_t m, int64_t n, int64_t blocks, bool turned, const spoil *s) {
    for (int t = 0; t < n_tables; t++)
        for (uint32_t k = 0; k < BASE_BLOCK_COUNT; k++)
            for (int prepares = 0; prepares <= (tables[t]->digits[k].most_rows > 0); prepares++)
                check_product(tables[t], k, m, n, blocks, turned, prepares, s);
}

static void test_products(void **state) {
    for (int64_t m = 1; m <= MOST_X; m++)
        for (int64_t n = 1; n <= ROWS; n++) check_products(m, n, BLOCKS, n % 2, &whole);
    for (int64_t blocks = 1; blocks <= 20; blocks++) /* groups of 8 that are whole or not */
        check_products(1, 2, blocks, false, &whole);
}

/* Scales and numbers of x that are infinite, or none, do what they do to decoded ones. */
static void test_spoiled(void **state) {
    static const uint16_t halves[] = {0x7c00, 0xfc00, 0x7e00, 0x7bff, 0x0001, 0x8000};
    static const float values[] = {INFINITY, -INFINITY, NAN, 0, 0x1p40f, 0x1p-60f};
    enum { SPOILT = 11 };
    for (int64_t m = 1; m <= 2; m++)
        for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
            for (int64_t block = 0; block < SPOILT; block++)
                for (int field = 0; field < 2; field++) {
                    spoil s = {"a half", block, -1, field, halves[i], 0};
                    check_products(m, 3, SPOILT, false, &s);
                }
            for (int64_t x = 0; x < 352; x += 13) {
                spoil s = {"a number of x", -1, x, 0, 0, values[i]};
                check_products(m, 3, SPOILT, false, &s);
            }
        }
}

/* A row of x all of whose numbers are so small, or so large, that integers do not do. */
static void test_scaled(void **state) {
    enum { K = 256 };
    static const float scales[] = {0, 0x1p-149f, 0x1p-100f, 0x1p-40f, 0x1p40f, 0x1p100f};
    for (int t = 0; t < n_tables; t++)
        for (uint32_t k = 0; k < BASE_BLOCK_COUNT; k++)
            for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
                const shoal_block_format *f = shoal_block_format_at(k);
                const cpu_digits_kernel *digits = &tables[t]->digits[k];
                uint8_t *w = make_blocks(f, K / f->values, true);
                float x[K], numbers[K], y = NAN;
                void *prepared = room_for(digits->bytes);
                base_block_decoder((base_block_number)k)(w, numbers, K / f->values);
                double sum = 0, size = 0;
                for (int a = 0; a < K; a++) {
                    x[a] = (float)(rand() % 3 - 1) * scales[i];
                    sum += (double)x[a] * (double)numbers[a];
                    size += fabs((double)x[a] * (double)numbers[a]);
                }
                cpu_block_product p = {w, x, &y, .m = 1, .n = 1, .blocks = K / f->values};
                dot(tables[t], k, p, digits->most_rows ? prepared : NULL);
                if (!(fabs((double)y - sum) <= 2e-6 * size + 0x1p-149 * K))
                    fail_msg("%s, %s, x of %g: %g, not %g", tables[t]->name, f->name,
                             (double)scales[i], (double)y, sum);
                free(prepared);
                free(w);
            }
}

/* y = w x by a table's kernels, in parts of `some` rows of w, as threads take them. */
static void multiply(const cpu_kernels *table, uint32_t format, cpu_block_product p, int64_t some) {
    const shoal_block_format *f = shoal_block_format_at(format);
    const cpu_digits_kernel *digits = &table->digits[format];
    int64_t groups = (p.blocks * f->values + CPU_PREPARED - 1) / CPU_PREPARED;
    void *prepared = room_for((size_t)(p.m * groups) * digits->bytes);
    for (int64_t left = p.n; left > 0; left -= p.n) {
        p.n = left < some ? left : some;
        dot(table, format, p, p.m <= digits->most_rows ? prepared : NULL);
        p.w += p.n * p.blocks * f->bytes;
        p.y += p.n * p.y_strides[1];
    }
    free(prepared);
}

/* No bit of a row's results depends on how rows of w are shared out, or on another row of x. */
static void test_rows_alone(void **state) {
    enum { VALUES = 512, W_ROWS = 9 };
    static float x[MOST_X * VALUES], whole_y[MOST_X * W_ROWS], y[MOST_X * W_ROWS];
    for (int t = 0; t < n_tables; t++)
        for (uint32_t k = 0; k < BASE_BLOCK_COUNT; k++)
            for (int64_t m = 1; m <= MOST_X; m++) {
                const shoal_block_format *f = shoal_block_format_at(k);
                int64_t blocks = VALUES / f->values;
                uint8_t *w = make_blocks(f, (size_t)(W_ROWS * blocks), true);
                for (int i = 0; i < MOST_X * VALUES; i++)
                    x[i] = (float)(rand() % 2001 - 1000) / 999;
                cpu_block_product p = {.w = w,
                                       .x = x,
                                       .m = m,
                                       .n = W_ROWS,
                                       .blocks = blocks,
                                       .x_row = VALUES,
                                       .y_strides = {W_ROWS, 1}};
                p.y = whole_y;
                multiply(tables[t], k, p, W_ROWS);
                p.y = y;
                for (int64_t some = 1; some < W_ROWS; some++) {
                    multiply(tables[t], k, p, some);
                    assert_memory_equal(y, whole_y, (size_t)(m * W_ROWS) * sizeof *y);
                }
                if (m > 1) {
                    x[VALUES * (m - 1) + 7] = NAN;
                    multiply(tables[t], k, p, W_ROWS);
                    assert_memory_equal(y, whole_y, (size_t)((m - 1) * W_ROWS) * sizeof *y);
                }
                free(w);
            }
}

/* Numbers beside one that is much larger, whose weight is 0, count as they are. */
static void test_beside_larger(void **state) {
    enum { VALUES = 256 };
    for (int t = 0; t < n_tables; t++)
        for (uint32_t k = 0; k < BASE_BLOCK_COUNT; k++)
            for (float larger = 10; larger < 1e10f; larger *= 10) {
                const shoal_block_format *f = shoal_block_format_at(k);
                int64_t blocks = VALUES / f->values;
                float weights[VALUES], x[VALUES], y = NAN;
                double sum = 0, size = 0;
                for (int i = 0; i < VALUES; i++) {
                    weights[i] = i % 32 == 3 ? 0 : (float)(i % 15 - 7);
                    x[i] = i % 32 == 3 ? larger : (float)(i * 7 % 13 + 1) / 50;
                }
                uint8_t *w = malloc((size_t)blocks * f->bytes);
                assert_true(base_block_encoder((base_block_number)k)(weights, w, (size_t)blocks));
                base_block_decoder((base_block_number)k)(w, weights, (size_t)blocks);
                for (int i = 0; i < VALUES; i++) {
                    sum += (double)x[i] * (double)weights[i];
                    size += fabs((double)x[i] * (double)weights[i]);
                }
                cpu_block_product p = {.w = w, .x = x, .y = &y, .m = 1, .n = 1, .blocks = blocks};
                multiply(tables[t], k, p, 1);
                if (!(fabs((double)y - sum) <= 3e-5 * size))
                    fail_msg("%s, %s, beside %g: %g, not %g", tables[t]->name, f->name,
                             (double)larger, (double)y, sum);
                free(w);
            }
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
    for (int t = 0; t < n_tables; t++) {
        setenv("SHOAL_CPU", tables[t]->name, 1);
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_form(&forms[i]);
    }
    unsetenv("SHOAL_CPU");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),     cmocka_unit_test(test_products),
        cmocka_unit_test(test_spoiled),    cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_rows_alone), cmocka_unit_test(test_beside_larger),
        cmocka_unit_test(test_forms)};
    n_tables = (int)cpu_kernel_sets(tables);
    srand(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
