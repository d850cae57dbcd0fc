/* Random graphs of elementwise operations, broadcasts, reductions and copies give the reference's
 * bits, whatever was fused, written in place or spread out on the way. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/run_testing.h"

#ifdef __SANITIZE_THREAD__
enum { GRAPHS = 30, PRODUCTS_LEFT_OUT = 20 };
#elif defined __SANITIZE_ADDRESS__
enum { GRAPHS = 70, PRODUCTS_LEFT_OUT = 3 };
#else
enum { GRAPHS = 200, PRODUCTS_LEFT_OUT = 0 };
#endif
enum { MOST_NODES = 150, MOST_VALUES = 400, KEPT = 3 };

static uint32_t below(uint32_t n) { return (uint32_t)rand() % n; }

/* Values of one graph, by their shape: whole, a row, a column, a scalar. */
typedef struct pot {
    shoal_type shape[4];
    uint32_t n[4], values[4][MOST_VALUES];
} pot;

static uint32_t any(const pot *p, uint32_t kind) { return p->values[kind][below(p->n[kind])]; }

static void put(pot *p, uint32_t kind, uint32_t value) {
    if (p->n[kind] < MOST_VALUES) p->values[kind][p->n[kind]++] = value;
}

static uint32_t binary(graph *g, const pot *p, uint32_t kind) {
    static const uint16_t ops[] = {GRAPH_ADD, GRAPH_MULTIPLY, GRAPH_SUBTRACT, GRAPH_MAXIMUM};
    uint32_t out, recent = p->n[kind] > 4 && below(2) ? p->n[kind] - 1 - below(3) : UINT32_MAX;
    uint32_t a = recent < p->n[kind] ? p->values[kind][recent] : any(p, kind);
    OK(graph_add(g, ops[below(4)], (uint32_t[]){a, any(p, kind)}, 2, NULL, 0, NULL, 0, &out));
    return out;
}

/* A row, column or scalar as a whole, or a whole summed up to one. */
static void change_kind(graph *g, pot *p) {
    uint32_t kind = 1 + below(3), out, zero;
    static const int64_t axes[4][2] = {{0, 1}, {1}, {0}, {0}},
                         reduced[4][2] = {{0}, {0}, {1}, {0, 1}};
    static const uint32_t n_axes[] = {2, 1, 1, 0}, n_reduced[] = {0, 1, 1, 2};
    if (below(2)) {
        shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, axes[kind], n_axes[kind]),
                              graph_ints(SHOAL_ATTR_SHAPE, p->shape[0].dims, 2)};
        OK(graph_add(g, GRAPH_BROADCAST_IN_DIM, (uint32_t[]){any(p, kind)}, 1, attrs, 2, NULL, 0,
                     &out));
        put(p, 0, out);
        return;
    }
    float least = -1e30f;
    shoal_attr constant[] = {graph_bytes(SHOAL_ATTR_VALUE, &least, sizeof least),
                             graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                             graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    OK(graph_add(g, GRAPH_CONSTANT, NULL, 0, constant, 3, NULL, 0, &zero));
    const shoal_graph *body;
    OK(graph_add_body(g, GRAPH_MAXIMUM, SHOAL_F32, &body));
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, reduced[kind], n_reduced[kind]);
    OK(graph_add(g, GRAPH_REDUCE, (uint32_t[]){any(p, 0), zero}, 2, &attr, 1, &body, 1, &out));
    put(p, kind, out);
}

static graph *random_graph(void) {
    static const int64_t sizes[] = {1, 2, 7, 100, 300, 1025};
    graph *g;
    pot p = {0};
    int64_t rows = sizes[below(6)], columns = sizes[below(6)];
    p.shape[0] = (shoal_type){.dtype = SHOAL_F32, .rank = 2, .dims = {rows, columns}};
    p.shape[1] = (shoal_type){.dtype = SHOAL_F32, .rank = 1, .dims = {columns}};
    p.shape[2] = (shoal_type){.dtype = SHOAL_F32, .rank = 1, .dims = {rows}};
    p.shape[3] = (shoal_type){.dtype = SHOAL_F32};
    OK(graph_new(0, &g));
    for (uint32_t kind = 0; kind < 4; kind++)
        for (uint32_t i = 0; i < 1 + below(3); i++) {
            uint32_t value;
            OK(graph_add_input(g, &p.shape[kind], &value));
            put(&p, kind, value);
        }
    for (uint32_t n = 1 + below(MOST_NODES); n-- > 0;) {
        uint32_t kind = below(8) ? 0 : 1 + below(3), out;
        if (below(6) == 0)
            change_kind(g, &p);
        else if (below(12) == 0 && rows > 1) { /* the same elements in another order, and back */
            shoal_attr turn = graph_ints(SHOAL_ATTR_PERMUTATION, (int64_t[]){1, 0}, 2);
            OK(graph_add(g, GRAPH_TRANSPOSE, (uint32_t[]){any(&p, 0)}, 1, &turn, 1, NULL, 0, &out));
            OK(graph_add(g, GRAPH_NEGATE, &out, 1, NULL, 0, NULL, 0, &out));
            OK(graph_add(g, GRAPH_TRANSPOSE, &out, 1, &turn, 1, NULL, 0, &out));
            put(&p, 0, out);
        } else {
            put(&p, kind, binary(g, &p, kind));
        }
    }
    for (uint32_t kind = 0; kind < 4; kind++)
        for (uint32_t i = 0; i < 1 + below(KEPT); i++) OK(graph_add_output(g, any(&p, kind)));
    OK(graph_add_output(g, p.values[0][p.n[0] - 1]));
    return g;
}

/* Runs a graph of f32 inputs and any outputs on cpu and on ref: the bits must be the same. */
static void compare(const char *what, graph *built) {
    const shoal_graph *g = graph_data(built);
    float *in[16], *is[32], *must[32];
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        int64_t count = base_type_count(&g->values[g->inputs[i]].type);
        in[i] = malloc((size_t)count * sizeof **in + 1);
        for (int64_t k = 0; k < count; k++) in[i][k] = (float)(rand() % 4001 - 2000) / 1024;
    }
    test_run_new("cpu", 1 + below(2), g, (void *const *)in, is);
    test_run_new("ref", 1, g, (void *const *)in, must);
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        const shoal_type *type = &g->values[g->outputs[o]].type;
        size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
        for (int64_t k = 0; k < base_type_count(type); k++) {
            const char *x = (const char *)is[o] + (size_t)k * bytes;
            const char *y = (const char *)must[o] + (size_t)k * bytes;
            bool nan = type->dtype == SHOAL_F32 && is[o][k] != is[o][k] && must[o][k] != must[o][k];
            if (memcmp(x, y, bytes) && !nan)
                fail_msg("%s: output %u (%s), element %lld differs", what, o,
                         shoal_dtype_name((shoal_dtype)type->dtype), (long long)k);
        }
        free(is[o]);
        free(must[o]);
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) free(in[i]);
    graph_destroy(&built);
}

static void test_random_graphs(void **state) {
    for (unsigned seed = 1; seed <= GRAPHS; seed++) {
        char name[32];
        srand(seed);
        snprintf(name, sizeof name, "graph %u", seed);
        compare(name, random_graph());
    }
}

static uint32_t node(graph *g, uint16_t op, const uint32_t *in, uint32_t n, const shoal_attr *attrs,
                     uint16_t n_attrs) {
    uint32_t out;
    OK(graph_add(g, op, in, n, attrs, n_attrs, NULL, 0, &out));
    return out;
}

static uint32_t to_type(graph *g, uint32_t x, shoal_dtype dtype) {
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, dtype);
    return node(g, GRAPH_CONVERT, &x, 1, &attr, 1);
}

/* Chains whose elements grow and shrink from 1 to 8 bytes within one region. */
static void test_widths(void **state) {
    static const shoal_dtype types[] = {SHOAL_BOOL, SHOAL_I8,  SHOAL_F16, SHOAL_I16, SHOAL_BF16,
                                        SHOAL_I32,  SHOAL_U32, SHOAL_F32, SHOAL_I64, SHOAL_F64};
    for (unsigned seed = 1; seed <= 60; seed++) {
        graph *g;
        uint32_t x, y;
        shoal_type type = {.dtype = SHOAL_F32, .rank = 1, .dims = {seed * 57}};
        srand(seed);
        OK(graph_new(0, &g));
        OK(graph_add_input(g, &type, &x));
        OK(graph_add_input(g, &type, &y));
        for (int i = 0; i < 12; i++) {
            shoal_dtype to = types[below(10)];
            shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, below(2) ? "LT" : "NE");
            uint32_t a = to_type(g, x, to), b = to_type(g, y, to);
            uint32_t p = node(g, GRAPH_COMPARE, (uint32_t[]){a, b}, 2, &less, 1);
            uint32_t sum = node(g, GRAPH_ADD, (uint32_t[]){a, b}, 2, NULL, 0);
            x = node(g, GRAPH_SELECT, (uint32_t[]){p, sum, a}, 3, NULL, 0);
            y = to_type(g, node(g, GRAPH_MAXIMUM, (uint32_t[]){b, x}, 2, NULL, 0),
                        types[below(10)]);
            y = to_type(g, y, SHOAL_F32);
            x = to_type(g, x, SHOAL_F32);
        }
        OK(graph_add_output(g, x));
        OK(graph_add_output(g, y));
        char name[32];
        snprintf(name, sizeof name, "widths %u", seed);
        compare(name, g);
    }
}

static uint32_t part(graph *g, uint32_t x, int64_t row, int64_t column, int64_t rows,
                     int64_t columns, int64_t step) {
    const int64_t start[] = {row, column}, stride[] = {1, step};
    const int64_t limit[] = {row + rows, column + (columns - 1) * step + 1};
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, start, 2),
                          graph_ints(SHOAL_ATTR_LIMIT_INDICES, limit, 2),
                          graph_ints(SHOAL_ATTR_STRIDES, stride, 2)};
    return node(g, GRAPH_SLICE, &x, 1, attrs, 3);
}

static uint32_t turned(graph *g, uint32_t x) {
    shoal_attr turn = graph_ints(SHOAL_ATTR_PERMUTATION, (int64_t[]){1, 0}, 2);
    return node(g, GRAPH_TRANSPOSE, &x, 1, &turn, 1);
}

static uint32_t spread(graph *g, uint32_t x, int64_t rows, int64_t columns) {
    const int64_t axes[] = {0, 1}, shape[] = {rows, columns};
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, axes, 2),
                          graph_ints(SHOAL_ATTR_SHAPE, shape, 2)};
    return node(g, GRAPH_BROADCAST_IN_DIM, &x, 1, attrs, 2);
}

static uint32_t product(graph *g, uint32_t x, uint32_t y) {
    const int64_t one = 1, zero = 0;
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &one, 1),
                          graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &zero, 1)};
    return node(g, GRAPH_DOT_GENERAL, (uint32_t[]){x, y}, 2, attrs, 4);
}

/* Views of views, read by regions, products and copies. Products are of small integers, which are
 * exact in any order of sums, and in every type. */
static void test_views(void **state) {
    static const shoal_dtype types[] = {SHOAL_F32, SHOAL_F64, SHOAL_I8,
                                        SHOAL_I32, SHOAL_F16, SHOAL_BF16};
    for (int t = 0; t < 12; t++) {
        graph *g;
        uint32_t x, in;
        int64_t n = t < 6 ? 9 : 70;
        shoal_type type = {.dtype = SHOAL_F32, .rank = 2, .dims = {n + 5, 2 * n + 3}};
        OK(graph_new(0, &g));
        OK(graph_add_input(g, &type, &in));
        x = to_type(g, to_type(g, in, SHOAL_I8), types[t % 6]); /* -1, 0 and 1 */
        uint32_t inner = part(g, x, 2, 1, n, n, 1), every = part(g, x, 1, 0, n, n, 2);
        uint32_t row = spread(g, part(g, x, 3, 2, 1, n, 1), n, n);
        uint32_t column = spread(g, part(g, x, 1, 4, n, 1, 1), n, n);
        const uint32_t views[] = {inner,
                                  every,
                                  row,
                                  column,
                                  turned(g, inner),
                                  turned(g, row),
                                  part(g, turned(g, x), 1, 1, n, n, 1)};
        for (int i = 0; i < 7; i++)
            for (int k = 0; k < 7; k++) {
                if ((i + 2 * k + t) % 4) continue;
                OK(graph_add_output(g, product(g, views[i], views[k])));
                uint32_t both[] = {views[i], views[k]};
                OK(graph_add_output(g, node(g, GRAPH_ADD, both, 2, NULL, 0)));
            }
        shoal_attr axis = graph_int(SHOAL_ATTR_DIMENSION, 1);
        OK(graph_add_output(g, node(g, GRAPH_CONCATENATE, views, 7, &axis, 1)));
        char name[32];
        snprintf(name, sizeof name, "views %d", t);
        compare(name, g);
    }
}

/* The ways in which a matrix may lie: as it is, as others turned, parts of others, and a row, a
 * column, an element or a constant repeated. */
enum { LIE_WAYS = 9 };

static uint32_t lying(graph *g, int way, shoal_dtype dtype, int64_t rows, int64_t columns) {
    static const int64_t beside[] = {0, 0, 3, 1, 0, 0, 0, 0, 0};
    bool turn = way == 1 || way == 3, row = way == 4 || way == 6, column = way == 5 || way == 6;
    int64_t dims[] = {row ? 1 : rows, column ? 1 : columns};
    shoal_type type = {.dtype = SHOAL_F32,
                       .rank = 2,
                       .dims = {dims[turn] + beside[way], dims[!turn] + beside[way]}};
    const float one = 1;
    uint32_t x;
    if (way == 7) {
        shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &one, sizeof one),
                              graph_ints(SHOAL_ATTR_SHAPE, dims, 2),
                              graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
        return to_type(g, node(g, GRAPH_CONSTANT, NULL, 0, attrs, 3), dtype);
    }
    OK(graph_add_input(g, &type, &x));
    x = to_type(g, to_type(g, x, SHOAL_I8), dtype);
    if (beside[way]) x = part(g, x, 1, 1, dims[turn], dims[!turn], 1);
    if (turn) x = turned(g, x);
    if (way == 8 && rows) { /* every second row of a column or matrix */
        shoal_type twice = {.dtype = SHOAL_F32, .rank = 2, .dims = {2 * rows, columns}};
        OK(graph_add_input(g, &twice, &x));
        x = turned(g, to_type(g, to_type(g, x, SHOAL_I8), dtype));
        x = turned(g, columns ? part(g, x, 0, 1, columns, rows, 2) : x);
        if (!columns) return lying(g, 0, dtype, rows, columns);
    }
    return row || column ? spread(g, x, rows, columns) : x;
}

/* Products of thin matrices, however they lie: strides of 0 and of axes of one element are where
 * a product reads what is not there. Sums of small integers are exact. */
static void test_thin_products(void **state) {
    static const shoal_dtype types[] = {SHOAL_F32, SHOAL_F64, SHOAL_I32, SHOAL_BF16};
    static const int64_t sizes[] = {0, 1, 2, 3, 33};
    for (int c = 0; c < 5 * 5 * 5 * 4; c++) {
        int64_t m = sizes[c % 5], k = sizes[c / 5 % 5], n = sizes[c / 25 % 5];
        for (int way = 0; way < LIE_WAYS * LIE_WAYS; way += 1 + PRODUCTS_LEFT_OUT) {
            graph *g;
            shoal_dtype dtype = types[c / 125];
            OK(graph_new(0, &g));
            uint32_t a = lying(g, way % LIE_WAYS, dtype, m, k);
            OK(graph_add_output(g, product(g, a, lying(g, way / LIE_WAYS, dtype, k, n))));
            char name[96];
            snprintf(name, sizeof name, "%lld x %lld x %lld of %s, lying in ways %d and %d",
                     (long long)m, (long long)k, (long long)n, shoal_dtype_name(dtype),
                     way % LIE_WAYS, way / LIE_WAYS);
            compare(name, g);
        }
    }
}

/* The columns of a slice, as heads of some columns each, turned so that heads come first: read by
 * products, regions, copies and as they are; and split again. */
static void test_splits(void **state) {
    enum { ROWS = 10, HEADS = 3, EACH = 8 };
    static const int64_t heads[] = {ROWS, 1, HEADS, EACH}, more[] = {ROWS, HEADS, 2, 1, EACH / 2};
    static const int64_t turn[] = {1, 2, 0, 3}, none[] = {0, 1};
    for (unsigned readers = 0; readers < 32; readers++) {
        graph *g;
        uint32_t in, x;
        shoal_type type = {.dtype = SHOAL_F32, .rank = 2, .dims = {ROWS + 1, HEADS * EACH + 3}};
        OK(graph_new(0, &g));
        OK(graph_add_input(g, &type, &in));
        x = part(g, in, 1, 2, ROWS, HEADS * EACH, 1);
        shoal_attr shape = graph_ints(SHOAL_ATTR_SHAPE, heads, 4);
        shoal_attr again = graph_ints(SHOAL_ATTR_SHAPE, more, 5);
        shoal_attr turned_ = graph_ints(SHOAL_ATTR_PERMUTATION, turn, 4);
        uint32_t parts = node(g, GRAPH_RESHAPE, &x, 1, &shape, 1);
        uint32_t y = node(g, GRAPH_TRANSPOSE, &parts, 1, &turned_, 1);
        if (readers & 1) OK(graph_add_output(g, node(g, GRAPH_NEGATE, &y, 1, NULL, 0)));
        if (readers & 2) OK(graph_add_output(g, y));
        if (readers & 4) OK(graph_add_output(g, node(g, GRAPH_RESHAPE, &x, 1, &again, 1)));
        if (readers & 8)
            OK(graph_add_output(g, node(g, GRAPH_ADD, (uint32_t[]){parts, parts}, 2, NULL, 0)));
        const int64_t last = 3, second = 2;
        shoal_attr axes[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, none, 2),
                             graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, none, 2),
                             graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &second, 1),
                             graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &second, 1)};
        /* Sums of one product each are exact. */
        shoal_attr one[] = {graph_ints(SHOAL_ATTR_START_INDICES, (int64_t[]){0, 0, 3, 0}, 4),
                            graph_ints(SHOAL_ATTR_LIMIT_INDICES, (int64_t[]){1, HEADS, 4, EACH}, 4),
                            graph_ints(SHOAL_ATTR_STRIDES, (int64_t[]){1, 1, 1, 1}, 4)};
        uint32_t row = node(g, GRAPH_SLICE, &y, 1, one, 3);
        if (readers & 16)
            OK(graph_add_output(g, node(g, GRAPH_DOT_GENERAL, (uint32_t[]){row, row}, 2, axes, 4)));
        OK(graph_add_output(g, node(g, GRAPH_CONCATENATE, (uint32_t[]){y, y}, 2,
                                    (shoal_attr[]){graph_int(SHOAL_ATTR_DIMENSION, last)}, 1)));
        char name[32];
        snprintf(name, sizeof name, "splits %u", readers);
        compare(name, g);
    }
}

/* sum(x * row) along `axes`; with `stored`, the product is a result too, so that it is not fused.
 */
static graph *sums(const shoal_type *type, const int64_t *axes, uint32_t n_axes, bool stored) {
    graph *g;
    uint32_t in[2], zero, out;
    shoal_type row = {.dtype = SHOAL_F32, .rank = 1, .dims = {type->dims[type->rank - 1]}};
    const int64_t last = type->rank - 1;
    const float none = 0;
    OK(graph_new(0, &g));
    OK(graph_add_input(g, type, &in[0]));
    OK(graph_add_input(g, &row, &in[1]));
    shoal_attr spread_row[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, &last, 1),
                               graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank)};
    shoal_attr constant[] = {graph_bytes(SHOAL_ATTR_VALUE, &none, sizeof none),
                             graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                             graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    const shoal_graph *body;
    OK(graph_add_body(g, GRAPH_ADD, SHOAL_F32, &body));
    shoal_attr along = graph_ints(SHOAL_ATTR_DIMENSIONS, axes, n_axes);
    uint32_t rows = node(g, GRAPH_BROADCAST_IN_DIM, &in[1], 1, spread_row, 2);
    uint32_t x = node(g, GRAPH_MULTIPLY, (uint32_t[]){in[0], rows}, 2, NULL, 0);
    zero = node(g, GRAPH_CONSTANT, NULL, 0, constant, 3);
    OK(graph_add(g, GRAPH_REDUCE, (uint32_t[]){x, zero}, 2, &along, 1, &body, 1, &out));
    OK(graph_add_output(g, out));
    if (stored) OK(graph_add_output(g, x));
    return g;
}

/* One way to sum: fused or not, on one thread or three, the bits are the same; and they are close
 * to sums in double, which the reference's one by one are not. */
static void test_reductions(void **state) {
    static const struct {
        shoal_type type;
        uint32_t n;
        int64_t axes[3];
    } cases[] = {
        {{SHOAL_F32, 1, {300007}}, 1, {0}},        {{SHOAL_F32, 2, {517, 1031}}, 1, {1}},
        {{SHOAL_F32, 2, {3001, 70}}, 1, {0}},      {{SHOAL_F32, 2, {3001, 70}}, 2, {0, 1}},
        {{SHOAL_F32, 3, {5, 700, 33}}, 1, {1}},    {{SHOAL_F32, 3, {50, 7, 333}}, 2, {0, 2}},
        {{SHOAL_F32, 2, {4, 100000}}, 1, {1}},     {{SHOAL_F32, 2, {700, 3000}}, 1, {0}},
        {{SHOAL_F32, 3, {6, 5, 4000}}, 2, {0, 1}}, {{SHOAL_F32, 2, {40000, 3}}, 1, {1}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const shoal_type *type = &cases[c].type;
        int64_t count = base_type_count(type), row = type->dims[type->rank - 1];
        float *in[2] = {malloc((size_t)count * sizeof(float)), malloc((size_t)row * sizeof(float))};
        for (int64_t i = 0; i < count; i++) in[0][i] = (float)(rand() % 4001) / 1024;
        for (int64_t i = 0; i < row; i++) in[1][i] = (float)(rand() % 4001) / 1024;
        float *first = NULL;
        for (uint32_t way = 0; way < 6; way++) {
            graph *g = sums(type, cases[c].axes, cases[c].n, way % 2);
            int64_t n = base_type_count(&graph_data(g)->values[graph_data(g)->outputs[0]].type);
            float *out[2] = {NULL, NULL};
            test_run_new("cpu", 1 + way / 2, graph_data(g), (void *const *)in, out);
            if (way == 0) {
                double is = 0, must = 0;
                for (int64_t i = 0; i < n; i++) is += (double)out[0][i];
                for (int64_t i = 0; i < count; i++) must += (double)(in[0][i] * in[1][i % row]);
                if (!(is >= must * (1 - 1e-6) && is <= must * (1 + 1e-6)))
                    fail_msg("case %zu: the sum of all is %.9g, not %.9g", c, is, must);
                first = out[0];
            } else {
                if (memcmp(first, out[0], (size_t)n * sizeof *first))
                    fail_msg("case %zu: way %u differs", c, way);
                free(out[0]);
            }
            free(out[1]);
            graph_destroy(&g);
        }
        free(first);
        free(in[0]);
        free(in[1]);
    }
}

/* A step of training: back through n layers, then the update of each one's parameter. */
static graph *training(uint32_t n) {
    enum { MOST = 8, SIDE = 128 };
    const shoal_type square = {.dtype = SHOAL_F32, .rank = 2, .dims = {SIDE, SIDE}};
    uint32_t parameters[MOST], gradients[MOST], d;
    graph *g;
    OK(graph_new(0, &g));
    for (uint32_t i = 0; i < n; i++) OK(graph_add_input(g, &square, &parameters[i]));
    OK(graph_add_input(g, &square, &d));
    for (uint32_t i = n; i-- > 0;) {
        gradients[i] = product(g, d, d);
        d = product(g, d, parameters[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        OK(graph_add_output(
            g, node(g, GRAPH_SUBTRACT, (uint32_t[]){parameters[i], gradients[i]}, 2, NULL, 0)));
    OK(graph_add_output(g, d));
    return g;
}

/* A gradient lasts until its parameter is updated, directly behind who reads the parameter last: so
 * they need no more memory for more layers, and parameters are written over. */
static void test_updates_come_early(void **state) {
    const shoal_backend *backend;
    shoal_device *device;
    size_t workspace[9];
    OK(backend_find("cpu", &backend));
    OK(backend->device_new(backend_host(), 0, 1, &device));
    for (uint32_t n = 4; n <= 8; n += 4) {
        graph *g = training(n);
        int32_t in_place[9];
        shoal_compile_report report = {.size = sizeof report, .in_place = in_place};
        shoal_executable *executable;
        OK(backend->compile(device, graph_data(g), NULL, &report, &executable));
        for (uint32_t i = 0; i < n; i++) assert_int_equal(in_place[i], i);
        workspace[n] = report.workspace;
        backend->executable_free(device, executable);
        graph_destroy(&g);
    }
    assert_int_equal(workspace[4], workspace[8]);
    backend->device_free(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs),
                                       cmocka_unit_test(test_widths),
                                       cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_splits),
                                       cmocka_unit_test(test_thin_products),
                                       cmocka_unit_test(test_reductions),
                                       cmocka_unit_test(test_updates_come_early)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
