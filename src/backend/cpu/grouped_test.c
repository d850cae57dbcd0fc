/* Products of bytes and of bfloat16 by groups: packing and tiles of every instruction set and form,
 * and of those that this processor may lack with stand-ins; and whole products, on one thread and
 * on three. The truth is a sum in 64 bits. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/run_testing.h"
#include "base/testing.h"

/* grouped.c with grouped_testing.h. */
extern const cpu_grouped cpu_grouped_bytes_stands_in, cpu_grouped_bf16_stands_in;

/* ---- tiles ---- */

enum { MOST = 70, ROW = MOST + 3, ELEMENTS = MOST * MOST, ROOM = 4 * (MOST + 64) * (MOST + 16) };

/* Element i as it is in memory; small numbers of bfloat16, and any bytes. */
static void set(void *x, shoal_dtype dtype, int64_t i, uint32_t salt) {
    uint32_t bits = (uint32_t)i * 2654435761u + salt * 40503u;
    bits ^= bits >> 15;
    if (dtype != SHOAL_BF16) {
        ((uint8_t *)x)[i] = (uint8_t)bits;
        return;
    }
    float value = (float)((int)(bits % 17) - 8);
    memcpy(&bits, &value, sizeof bits);
    ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
}

static int64_t get(const void *x, shoal_dtype dtype, int64_t i) {
    if (dtype == SHOAL_U8) return ((const uint8_t *)x)[i];
    if (dtype == SHOAL_I8) return ((const int8_t *)x)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)x)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (int64_t)value;
}

static int64_t result(const void *c, bool floats, int64_t i) {
    return floats ? (int64_t)((const float *)c)[i] : ((const int32_t *)c)[i];
}

/* form: whether a, b and c are transposed, and whether it is added to c. */
static void check_block(const char *name, const cpu_gemm *gemm, const shoal_dtype dtypes[2],
                        int64_t m, int64_t n, int64_t k, unsigned form) {
    static _Alignas(64) uint8_t a[2 * ELEMENTS], b[2 * ELEMENTS], packed_a[ROOM], packed_b[ROOM];
    static int32_t c[ROW * ROW];
    bool floats = dtypes[0] == SHOAL_BF16, add = form & 4;
    const int64_t as[] = {form & 1 ? 1 : k, form & 1 ? m : 1};
    const int64_t bs[] = {form & 2 ? 1 : n, form & 2 ? k : 1};
    const int64_t cs[] = {form & 8 ? 1 : ROW, form & 8 ? ROW : 1};
    for (int64_t i = 0; i < m * k; i++) set(a, dtypes[0], i, 1 + (uint32_t)form);
    for (int64_t i = 0; i < k * n; i++) set(b, dtypes[1], i, 77);
    for (int32_t i = 0; i < ROW * ROW; i++) {
        float value = (float)i;
        c[i] = i;
        if (floats) memcpy(&c[i], &value, sizeof value);
    }
    int64_t units = (k + gemm->group - 1) / gemm->group + gemm->before;
    int64_t panels = (n + gemm->panel - 1) / gemm->panel * gemm->panel;
    assert_true(units * gemm->unit * panels <= ROOM && units * gemm->unit * m < ROOM);
    memset(packed_a, 0x5a, ROOM);
    memset(packed_b, 0x5a, ROOM);
    gemm->pack_a(m, k, a, as, packed_a);
    gemm->pack_b(k, n, b, bs, packed_b);
    assert_int_equal(packed_a[units * gemm->unit * m], 0x5a);
    gemm->block(m, n, k, packed_a, NULL, packed_b, 0, 0, c, cs, add);
    for (int64_t i = 0; i < ROW; i++)
        for (int64_t j = 0; j < ROW; j++) {
            int64_t at = i * cs[0] + j * cs[1];
            bool inside = i < m && j < n;
            int64_t sum = add || !inside ? at : 0;
            for (int64_t p = 0; p < k && inside; p++)
                sum += get(a, dtypes[0], i * as[0] + p * as[1]) *
                       get(b, dtypes[1], p * bs[0] + j * bs[1]);
            if (result(c, floats, at) != sum)
                fail_msg("%s, %s, %dx%dx%d, form %u: [%d, %d] is %lld, not %lld", name,
                         shoal_dtype_name(dtypes[0]), (int)m, (int)k, (int)n, form, (int)i, (int)j,
                         (long long)result(c, floats, at), (long long)sum);
        }
}

static void check_grouped(const char *name, const cpu_grouped *grouped, bool floats) {
    for (int64_t m = 1; grouped->exists && m <= MOST; m += m < 30 ? STRIDE : 19)
        for (int64_t n = 1; n <= MOST; n += n % 8 ? 7 : 8)
            for (unsigned form = (unsigned)(m + n) % 7; form < (floats ? 16 : 64);
                 form += 7 * STRIDE) {
                unsigned left = form / 16 & 1, right = form / 32;
                const shoal_dtype dtypes[] = {floats ? SHOAL_BF16
                                              : left ? SHOAL_U8
                                                     : SHOAL_I8,
                                              floats  ? SHOAL_BF16
                                              : right ? SHOAL_U8
                                                      : SHOAL_I8};
                check_block(name, &grouped->parts[left][right], dtypes, m, n, 1 + (m * 5 + n) % 40,
                            form);
            }
}

static void test_blocks(void **state) {
    const cpu_kernels *tables[CPU_MOST_SETS];
    size_t n_tables = cpu_kernel_sets(tables);
    for (size_t t = 0; t < n_tables; t++) {
        check_grouped(tables[t]->name, tables[t]->bytes, false);
        check_grouped(tables[t]->name, tables[t]->bfloats, true);
    }
    check_grouped("stand-in", &cpu_grouped_bytes_stands_in, false);
    check_grouped("stand-in", &cpu_grouped_bf16_stands_in, true);
}

/* ---- whole products ---- */

/* How the operands come to the product. Those read elsewhere, too, or of which only one is of
 * bytes, or which are cut, are widened by a step. */
enum { PLAIN, NARROW, READ_TWICE, MIXED, CUT, HOWS };

static uint32_t add(graph *g, uint16_t op, const uint32_t *in, uint32_t n, const shoal_attr *attrs,
                    uint16_t n_attrs) {
    uint32_t out;
    OK(graph_add(g, op, in, n, attrs, n_attrs, NULL, 0, &out));
    return out;
}

static uint32_t widened(graph *g, uint32_t value) {
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32);
    return add(g, GRAPH_CONVERT, &value, 1, &attr, 1);
}

/* a [batch, m, k] or its transpose, b [batch, k, n] or its transpose, c [batch, m, n]. */
static graph *product(const shoal_dtype dtypes[2], const int64_t *s, unsigned form, int how) {
    static const int64_t swapped[] = {0, 2, 1}, batch = 0, left = 2, right = 1;
    graph *g;
    uint32_t in[2], wide[2];
    OK(graph_new(0, &g));
    for (int side = 0; side < 2; side++) {
        bool turned = form >> side & 1;
        shoal_type type = {.dtype = (uint8_t)dtypes[side], .rank = 3, .dims = {s[0]}};
        type.dims[1 + turned] = side ? s[2] : s[1];
        type.dims[2 - turned] = side ? s[3] : s[2];
        OK(graph_add_input(g, &type, &in[side]));
    }
    for (int side = 0; side < 2; side++) {
        wide[side] = how == NARROW ? in[side] : widened(g, in[side]);
        shoal_attr order = graph_ints(SHOAL_ATTR_PERMUTATION, swapped, 3);
        if (form >> side & 1) wide[side] = add(g, GRAPH_TRANSPOSE, &wide[side], 1, &order, 1);
    }
    if (how == READ_TWICE) OK(graph_add_output(g, add(g, GRAPH_NEGATE, &wide[0], 1, NULL, 0)));
    if (how == MIXED) wide[1] = add(g, GRAPH_NEGATE, &wide[1], 1, NULL, 0);
    if (how == CUT) {
        const int64_t zeros[] = {0, 1, 0}, limits[] = {s[0], s[1], s[2]}, ones[] = {1, 1, 1};
        const shoal_attr box[] = {graph_ints(SHOAL_ATTR_START_INDICES, zeros, 3),
                                  graph_ints(SHOAL_ATTR_LIMIT_INDICES, limits, 3),
                                  graph_ints(SHOAL_ATTR_STRIDES, ones, 3)};
        wide[0] = add(g, GRAPH_SLICE, &wide[0], 1, box, 3);
    }
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, &batch, 1),
                                graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, &batch, 1),
                                graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &left, 1),
                                graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &right, 1)};
    OK(graph_add_output(g, add(g, GRAPH_DOT_GENERAL, wide, 2, attrs, 4)));
    return g;
}

static void check_product(const shoal_dtype dtypes[2], const int64_t *s, unsigned form, int how) {
    int64_t first = how == CUT, m = s[1] - first, k = s[2], n = s[3];
    bool narrow = how == NARROW, twice = how == READ_TWICE;
    uint8_t *a = malloc((size_t)(s[0] * s[1] * k)), *b = malloc((size_t)(s[0] * k * n));
    int32_t *negated = malloc((size_t)(s[0] * s[1] * k) * 4),
            *c = malloc((size_t)(s[0] * m * n) * 4);
    for (int64_t i = 0; i < s[0] * s[1] * k; i++) set(a, dtypes[0], i, 5);
    for (int64_t i = 0; i < s[0] * k * n; i++) set(b, dtypes[1], i, 6);
    graph *g = product(dtypes, s, form, how);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        void *in[] = {a, b}, *out[] = {twice ? negated : c, c};
        memset(c, 0xff, (size_t)(s[0] * m * n) * 4);
        test_run("cpu", threads, graph_data(g), in, out);
        for (int64_t e = 0; e < s[0] * m * n; e += 1 + s[0] * m * n * STRIDE / 700) {
            int64_t of = e / (m * n), i = e / n % m + first, j = e % n, sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += get(a, dtypes[0], of * s[1] * k + (form & 1 ? p * s[1] + i : i * k + p)) *
                       get(b, dtypes[1], of * k * n + (form & 2 ? j * k + p : p * n + j));
            if (how == MIXED) sum = -sum;
            int64_t is = narrow ? get(c, dtypes[0], e) : c[e];
            int64_t low = dtypes[0] == SHOAL_U8 ? (uint8_t)sum : (int8_t)sum;
            int64_t must = narrow ? low : (int32_t)sum;
            if (is != must)
                fail_msg("%s, [%d, %d, %d, %d], form %u, way %d, %u threads: [%d, %d, %d] is %lld, "
                         "not %lld",
                         shoal_dtype_name(dtypes[0]), (int)s[0], (int)s[1], (int)k, (int)n, form,
                         how, threads, (int)of, (int)i, (int)j, (long long)is, (long long)must);
        }
    }
    graph_destroy(&g);
    free(a);
    free(b);
    free(c);
    free(negated);
}

static void test_products(void **state) {
    static const int64_t shapes[][4] = {{1, 37, 41, 43},   {1, 300, 1100, 96}, {1, 50, 20, 4200},
                                        {1, 230, 64, 64},  {1, 1, 700, 1030},  {1, 1030, 700, 1},
                                        {1, 2, 9000, 1},   {1, 33, 1, 65},     {7, 16, 33, 17},
                                        {3, 1, 64, 200},   {5, 90, 130, 64},   {2, 400, 64, 400},
                                        {20, 5, 600, 64},  {1, 64, 1100, 301}, {1, 65, 6500, 301},
                                        {3, 20, 900, 416}, {1, 3, 2, 2},       {1, 3, 2100, 2208}};
    for (size_t c = 0; c < sizeof shapes / sizeof *shapes; c++)
        for (unsigned form = c % 3; form < 16; form += 3 * STRIDE) {
            bool left = form & 4, right = form & 8;
            const shoal_dtype dtypes[] = {left ? SHOAL_U8 : SHOAL_I8, right ? SHOAL_U8 : SHOAL_I8};
            for (int how = 0; how < HOWS; how++) {
                if (how == NARROW && left != right) continue;
                if (how == CUT && shapes[c][1] < 2) continue;
                check_product(dtypes, shapes[c], form & 3, how);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
