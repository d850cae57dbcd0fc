/* Matrix products of f32 and f64: tiles of every instruction set and form, and whole products
 * around the sizes of their blocks, on one thread and on three. Operands are small integers, so
 * that every order of sums is exact and a sum in double is the truth. */
#include "base/testing.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/run_testing.h"

/* ---- tiles ---- */

enum { MOST = 70, SPARE = 64 };

static void set(void *x, size_t bytes, int64_t i, double value) {
    if (bytes == 4)
        ((float *)x)[i] = (float)value;
    else
        ((double *)x)[i] = value;
}

static double get(const void *x, size_t bytes, int64_t i) {
    return bytes == 4 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

static void check_block(const char *name, const cpu_gemm *gemm, size_t bytes, int64_t m, int64_t n,
                        int64_t k, unsigned form) {
    enum { ROW = MOST + 3 };
    static double a[MOST * MOST], b[MOST * MOST], c[ROW * ROW], panels[MOST * (MOST + SPARE)],
        scratch[MOST * MOST + SPARE];
    bool packs_a = form & 4, add = form & 8, turned = form & 16;
    const int64_t as[] = {form & 1 ? 1 : k, form & 1 ? m : 1};
    const int64_t bs[] = {form & 2 ? 1 : n, form & 2 ? k : 1};
    for (int64_t i = 0; i < m * k; i++) set(a, bytes, i, (double)(i * 7 % 11) - 5);
    for (int64_t i = 0; i < k * n; i++) set(b, bytes, i, (double)(i * 5 % 13) - 6);
    const int64_t cs[] = {turned ? 1 : ROW, turned ? ROW : 1};
    for (int64_t i = 0; i < ROW * ROW; i++) set(c, bytes, i, (double)i);
    gemm->pack_b(k, n, b, bs, panels);
    bool packs_b = form & 2 || n % gemm->panel || !packs_a;
    if (packs_a) gemm->pack_a(m, k, a, as, scratch);
    gemm->block(m, n, k, packs_a ? scratch : a, packs_a ? NULL : as, packs_b ? panels : b,
                packs_b ? gemm->panel : n, packs_b ? gemm->panel * k : gemm->panel, c, cs, add);
    for (int64_t i = 0; i < ROW; i++)
        for (int64_t j = 0; j < ROW; j++) {
            int64_t at = i * cs[0] + j * cs[1];
            bool inside = i < m && j < n;
            double sum = add || !inside ? (double)at : 0;
            for (int64_t p = 0; p < k && inside; p++)
                sum += get(a, bytes, i * as[0] + p * as[1]) * get(b, bytes, p * bs[0] + j * bs[1]);
            if (get(c, bytes, at) != sum)
                fail_msg("%s, %zu bytes, %dx%dx%d, form %u: [%d, %d] is %g, not %g", name, bytes,
                         (int)m, (int)k, (int)n, form, (int)i, (int)j, get(c, bytes, at), sum);
        }
}

/* Rows of a panel that lie anywhere, in halves. */
static void check_listed(const char *name, const cpu_gemm *gemm, size_t bytes, int64_t m, int64_t k,
                         bool add) {
    enum { ROW = 2 * MOST };
    static double a[MOST * MOST], b[3 * MOST], c[MOST * ROW], packed[MOST * MOST + SPARE];
    int64_t list[MOST], panel = gemm->panel, width = panel / 2;
    const int64_t as[] = {k, 1};
    for (int64_t i = 0; i < m * k; i++) set(a, bytes, i, (double)(i * 7 % 11) - 5);
    for (int64_t i = 0; i < 3 * MOST; i++) set(b, bytes, i, (double)(i * 5 % 13) - 6);
    for (int64_t i = 0; i < MOST * ROW; i++) set(c, bytes, i, (double)i);
    for (int64_t p = 0; p < k; p++) list[p] = p * 29 % MOST;
    const int64_t second = 3 * MOST - MOST - width;
    gemm->pack_a(m, k, a, as, packed);
    gemm->block_listed(m, k, packed, list, b,
                       (const char *)(const void *)b + (size_t)second * bytes, c, ROW, add);
    for (int64_t i = 0; i < MOST; i++)
        for (int64_t j = 0; j < ROW; j++) {
            bool inside = i < m && j < panel;
            double sum = add || !inside ? (double)(i * ROW + j) : 0;
            for (int64_t p = 0; p < k && inside; p++)
                sum += get(a, bytes, i * k + p) *
                       get(b, bytes, list[p] + (j < width ? j : second + j - width));
            if (get(c, bytes, i * ROW + j) != sum)
                fail_msg("%s, %zu bytes, %dx%d, listed: [%d, %d] is %g, not %g", name, bytes,
                         (int)m, (int)k, (int)i, (int)j, get(c, bytes, i * ROW + j), sum);
        }
}

static void test_blocks(void **state) {
    const cpu_kernels *tables[CPU_MOST_SETS];
    int n_tables = (int)cpu_kernel_sets(tables);
    for (int t = 0; t < n_tables; t++)
        for (int type = 0; type < CPU_FLOATS; type++)
            for (int64_t m = 1; m <= MOST; m += m < 30 ? STRIDE : 19) {
                check_listed(tables[t]->name, tables[t]->gemm[type], type ? 8 : 4, m,
                             1 + m * 5 % MOST, m % 2);
                for (int64_t n = 1; n <= MOST; n += n % 8 ? 7 : 8)
                    for (unsigned form = 0; form < 32; form++)
                        check_block(tables[t]->name, tables[t]->gemm[type], type ? 8 : 4, m, n,
                                    1 + (m * 5 + n) % 40, form);
            }
}

/* ---- whole products ---- */

static graph *product(uint8_t dtype, int64_t batch, const int64_t sides[3], unsigned form) {
    graph *g;
    uint32_t in[2], out;
    const int64_t m = sides[0], k = sides[1], n = sides[2], zero = 0;
    const int64_t left = form & 1 ? 1 : 2, right = form & 2 ? 2 : 1;
    shoal_type lhs = {
        .dtype = dtype, .rank = 3, .dims = {batch, form & 1 ? k : m, form & 1 ? m : k}};
    shoal_type rhs = {
        .dtype = dtype, .rank = 3, .dims = {batch, form & 2 ? n : k, form & 2 ? k : n}};
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, &zero, 1),
                                graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, &zero, 1),
                                graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &left, 1),
                                graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &right, 1)};
    OK(graph_new(0, &g));
    OK(graph_add_input(g, &lhs, &in[0]));
    OK(graph_add_input(g, &rhs, &in[1]));
    OK(graph_add(g, GRAPH_DOT_GENERAL, in, 2, attrs, 4, NULL, 0, &out));
    OK(graph_add_output(g, out));
    return g;
}

static double sum_at(void *const *data, size_t bytes, const int64_t sides[3], unsigned form,
                     int64_t batch, int64_t i, int64_t j) {
    const int64_t m = sides[0], k = sides[1], n = sides[2];
    double sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += get(data[0], bytes, batch * m * k + (form & 1 ? p * m + i : i * k + p)) *
               get(data[1], bytes, batch * k * n + (form & 2 ? j * k + p : p * n + j));
    return sum;
}

static void test_products(void **state) {
    static const struct {
        int64_t batch, sides[3];
    } cases[] = {
        {1, {37, 41, 43}},    {1, {300, 1100, 96}}, {1, {50, 20, 4200}},  {1, {230, 64, 64}},
        {1, {1, 700, 1030}},  {1, {1030, 700, 1}},  {1, {2, 2000, 1}},    {1, {33, 1, 65}},
        {7, {16, 33, 17}},    {3, {1, 64, 200}},    {5, {90, 130, 64}},   {2, {400, 64, 400}},
        {1, {400, 96, 416}},  {20, {5, 600, 64}},   {1, {8, 1700, 512}},  {1, {64, 1100, 301}},
        {1, {65, 1100, 301}}, {3, {20, 900, 416}},  {1, {3, 2100, 2208}}, {1, {7, 300, 640}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (unsigned form = c % STRIDE; form < 8; form += STRIDE) {
            const int64_t *s = cases[c].sides, batch = cases[c].batch;
            uint8_t dtype = form & 4 ? SHOAL_F64 : SHOAL_F32;
            size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
            const int64_t counts[] = {batch * s[0] * s[1], batch * s[1] * s[2],
                                      batch * s[0] * s[2]};
            void *data[3];
            for (int i = 0; i < 3; i++) data[i] = malloc((size_t)counts[i] * bytes);
            for (int side = 0; side < 2; side++)
                for (int64_t i = 0; i < counts[side]; i++)
                    set(data[side], bytes, i, (double)((i * 7 + i / 11 + side) % 9) - 4);
            graph *g = product(dtype, batch, s, form);
            for (uint32_t threads = 1; threads <= 3; threads += 2) {
                memset(data[2], 0xff, (size_t)counts[2] * bytes);
                test_run("cpu", threads, graph_data(g), data, data + 2);
                int64_t step = 1 + counts[2] * STRIDE / 5000;
                for (int64_t e = 0; e < counts[2]; e += step) {
                    int64_t of = e / (s[0] * s[2]), i = e / s[2] % s[0], j = e % s[2];
                    double is = get(data[2], bytes, e),
                           must = sum_at(data, bytes, s, form, of, i, j);
                    if (is != must)
                        fail_msg("case %zu, form %u, %u threads: [%d, %d, %d] is %g, not %g", c,
                                 form, threads, (int)of, (int)i, (int)j, is, must);
                }
            }
            graph_destroy(&g);
            for (int i = 0; i < 3; i++) free(data[i]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
