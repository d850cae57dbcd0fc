/* gather and scatter by random axes, and what moves or cumulates lines: the reference's bits, for
 * lines that are longer than what is done at a time, views, indices that lie outside, and any
 * number of threads. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/run_testing.h"

#ifdef __SANITIZE_THREAD__
enum { GRAPHS = 20 };
#elif defined __SANITIZE_ADDRESS__
enum { GRAPHS = 60 };
#else
enum { GRAPHS = 250 };
#endif
enum { MOST_ELEMENTS = 200000, MOST_AXES = 6 };

#define AXES(key, list, n) graph_ints(SHOAL_ATTR_##key, list, n)

static int64_t below(int64_t n) { return rand() % n; }

static uint8_t any_dtype(void) {
    static const uint8_t all[] = {SHOAL_BOOL, SHOAL_I8,  SHOAL_U16, SHOAL_F16, SHOAL_BF16,
                                  SHOAL_I32,  SHOAL_F32, SHOAL_F32, SHOAL_U64, SHOAL_F64};
    return all[below(10)];
}

static uint8_t any_index_dtype(void) {
    static const uint8_t all[] = {SHOAL_I8, SHOAL_I16, SHOAL_I32, SHOAL_I64, SHOAL_I64,
                                  SHOAL_U8, SHOAL_U16, SHOAL_U32, SHOAL_U64};
    return all[below(9)];
}

static int64_t any_size(int64_t room) {
    static const int64_t all[] = {1, 1, 2, 3, 5, 17, 64, 130, 700, 5000, 40000};
    int64_t size = all[below(11)];
    return size <= room ? size : 1;
}

/* Numbers 0 .. n - 1 in any order. */
static void shuffle(int64_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = below(i + 1);
        x[i] = x[k];
        x[k] = i;
    }
}

/* An input, or a view of one with its axes in another order. */
static uint32_t operand(graph *g, const shoal_type *type) {
    uint32_t value;
    int64_t order[SHOAL_MAX_RANK];
    shoal_type turned = *type;
    bool turns = below(3) == 0;
    shuffle(order, type->rank);
    for (int i = 0; i < type->rank && turns; i++) turned.dims[order[i]] = type->dims[i];
    OK(graph_add_input(g, &turned, &value));
    shoal_attr attr = AXES(PERMUTATION, order, type->rank);
    if (turns) OK(graph_add(g, GRAPH_TRANSPOSE, &value, 1, &attr, 1, NULL, 0, &value));
    return value;
}

/* ---- the two runs ---- */

/* Indices lie around 0 .. 40, some of them far outside, and those of in_range inside; other
 * elements are small numbers, or any bits. */
static void fill(char *to, const shoal_type *type, bool tame, bool inside) {
    size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    for (int64_t i = 0, n = base_type_count(type); i < n; i++, to += bytes) {
        int64_t small = below(inside ? 40 : 50) - (inside ? 0 : 5);
        if (!inside && below(40) == 0) small = below(2) ? INT64_MIN + 1 : INT64_MAX - 1;
        double number = (double)below(4001) / 1024 - 2;
        float single = (float)number;
        uint16_t half = type->dtype == SHOAL_F16 ? ref_to_half(number) : ref_to_bfloat(number);
        uint64_t bits = ((uint64_t)rand() << 42) ^ ((uint64_t)rand() << 21) ^ (uint64_t)rand();
        const void *from = &bits;
        if (shoal_dtype_kind((shoal_dtype)type->dtype) != 'f')
            from = tame ? (const void *)&small : (const void *)&bits;
        else if (tame)
            from = bytes == 2   ? (const void *)&half
                   : bytes == 4 ? (const void *)&single
                                : (const void *)&number;
        memcpy(to, from, bytes);
        if (type->dtype == SHOAL_BOOL) *to &= 1;
    }
}

/* Runs a graph on cpu and on ref. indices: which input is of indices; tame: no special numbers. */
static void compare(const char *what, graph *built, uint32_t indices, bool tame, bool inside) {
    const shoal_graph *g = graph_data(built);
    float *in[8], *is[2], *must[2];
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const shoal_type *type = &g->values[g->inputs[i]].type;
        in[i] = malloc((size_t)base_type_bytes(type) + 1);
        assert_non_null(in[i]);
        fill((char *)in[i], type, tame || i == indices, inside);
    }
    test_run_new("cpu", 1 + (uint32_t)below(3), g, (void *const *)in, is);
    test_run_new("ref", 1, g, (void *const *)in, must);
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        const shoal_type *type = &g->values[g->outputs[o]].type;
        if (memcmp(is[o], must[o], (size_t)base_type_bytes(type)))
            fail_msg("%s of %s: output %u differs", what,
                     shoal_dtype_name((shoal_dtype)type->dtype), o);
        free(is[o]);
        free(must[o]);
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) free(in[i]);
    graph_destroy(&built);
}

/* ---- gather and scatter ---- */

/* Random axes: `places` and `box` of the result, in any order. */
typedef struct indexing {
    shoal_type x, indices, result;
    uint32_t n_batch, n_map, n_dropped, n_window;
    int64_t batch[MOST_AXES], of_indices[MOST_AXES], map[MOST_AXES], dropped[MOST_AXES];
    int64_t window[SHOAL_MAX_RANK], sizes[MOST_AXES];
    int64_t vector;
} indexing;

static indexing any_indexing(bool single) {
    indexing s = {.x = {.dtype = any_dtype()}, .indices = {.dtype = any_index_dtype()}};
    int64_t room = MOST_ELEMENTS, places[SHOAL_MAX_RANK], box[MOST_AXES];
    uint32_t n_places = 0, n_box = 0;
    s.x.rank = (uint8_t)(1 + below(3));
    for (uint32_t i = 0; i < s.x.rank; i++) {
        int64_t size = s.x.dims[i] = any_size(room);
        room /= size;
        s.sizes[i] = 1;
        switch (below(4)) {
        case 0:
            s.batch[s.n_batch++] = i;
            places[n_places++] = size;
            break;
        case 1: s.sizes[i] = box[n_box++] = 1 + below(size); break;
        default:
            s.map[s.n_map++] = i;
            if (single || below(3)) {
                s.dropped[s.n_dropped++] = i;
            } else {
                s.sizes[i] = box[n_box++] = 1 + below(size);
            }
        }
    }
    /* Updates of one element may come from many boxes. */
    for (int64_t count = 1, more = below(3); more-- > 0; count *= places[n_places++])
        places[n_places] = any_size(room * 4 / count);
    /* The batch's axes are among the places' in any order, and the vector anywhere. */
    int64_t order[SHOAL_MAX_RANK];
    shuffle(order, n_places);
    s.vector = s.n_map == 1 && below(2) ? n_places : below(n_places + 1);
    bool has_vector = s.n_map != 1 || s.vector < n_places;
    s.indices.rank = (uint8_t)(n_places + has_vector);
    if (has_vector) s.indices.dims[s.vector] = s.n_map;
    for (uint32_t i = 0; i < n_places; i++) {
        int64_t at = order[i] + (has_vector && order[i] >= s.vector);
        s.indices.dims[at] = places[i];
        if (i < s.n_batch) s.of_indices[i] = at;
    }
    s.result = (shoal_type){.dtype = s.x.dtype, .rank = (uint8_t)(n_places + n_box)};
    for (uint32_t i = 0, k = 0; i < s.result.rank; i++) {
        bool of_box = s.n_window < n_box && (below(2) || n_box - s.n_window == s.result.rank - i);
        if (of_box) {
            s.window[s.n_window] = i;
            s.result.dims[i] = box[s.n_window++];
        } else {
            k += has_vector && k == s.vector;
            s.result.dims[i] = s.indices.dims[k++];
        }
    }
    return s;
}

static void test_gathers(void **state) {
    for (unsigned seed = 1; seed <= GRAPHS; seed++) {
        char name[32];
        graph *g;
        srand(seed);
        snprintf(name, sizeof name, "gather %u", seed);
        indexing s = any_indexing(false);
        OK(graph_new(0, &g));
        uint32_t in[] = {operand(g, &s.x), operand(g, &s.indices)}, out;
        const shoal_attr attrs[] = {AXES(OFFSET_DIMS, s.window, s.n_window),
                                    AXES(COLLAPSED_SLICE_DIMS, s.dropped, s.n_dropped),
                                    AXES(OPERAND_BATCHING_DIMS, s.batch, s.n_batch),
                                    AXES(START_INDICES_BATCHING_DIMS, s.of_indices, s.n_batch),
                                    AXES(START_INDEX_MAP, s.map, s.n_map),
                                    graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, s.vector),
                                    AXES(SLICE_SIZES, s.sizes, s.x.rank)};
        OK(graph_add(g, GRAPH_GATHER, in, 2, attrs, 7, NULL, 0, &out));
        OK(graph_add_output(g, out));
        compare(name, g, 1, false, false);
    }
}

/* Results that go past the caches: elements of rows, and whole columns. */
static void test_large(void **state) {
    for (uint32_t columns = 0; columns < 2; columns++) {
        graph *g;
        const shoal_type x = {.dtype = SHOAL_F32, .rank = 2, .dims = {columns ? 400 : 2050, 9}};
        const shoal_type along = {.dtype = SHOAL_I64, .rank = 2, .dims = {2050, 1031}};
        const shoal_type of_columns = {.dtype = SHOAL_I16, .rank = 1, .dims = {5300}};
        uint32_t out;
        OK(graph_new(0, &g));
        uint32_t in[] = {operand(g, &x), operand(g, columns ? &of_columns : &along)};
        const int64_t zero = 0, one = 1, sizes[] = {columns ? 400 : 1, 1};
        const shoal_attr attrs[] = {AXES(OFFSET_DIMS, &zero, columns),
                                    AXES(COLLAPSED_SLICE_DIMS, &one, 1),
                                    AXES(OPERAND_BATCHING_DIMS, &zero, !columns),
                                    AXES(START_INDICES_BATCHING_DIMS, &zero, !columns),
                                    AXES(START_INDEX_MAP, &one, 1),
                                    graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, columns ? 1 : 2),
                                    AXES(SLICE_SIZES, sizes, 2)};
        OK(graph_add(g, GRAPH_GATHER, in, 2, attrs, 7, NULL, 0, &out));
        OK(graph_add_output(g, out));
        compare("large gather", g, 1, false, false);
    }
}

static void test_scatters(void **state) {
    static const uint16_t joins[] = {GRAPH_ADD, GRAPH_MULTIPLY, GRAPH_MAXIMUM};
    for (unsigned seed = 1; seed <= GRAPHS; seed++) {
        char name[32];
        graph *g, *second;
        uint32_t pair[2], out;
        const shoal_graph *body;
        srand(seed);
        snprintf(name, sizeof name, "scatter %u", seed);
        indexing s = any_indexing(below(8) != 0);
        shoal_type one = {.dtype = s.x.dtype};
        bool joined = below(2);
        OK(graph_new(0, &g));
        OK(graph_new(0, &second));
        if (joined) {
            OK(graph_add_body(g, joins[below(3)], (shoal_dtype)one.dtype, &body));
        } else {
            for (int i = 0; i < 2; i++) OK(graph_add_input(second, &one, &pair[i]));
            OK(graph_add_output(second, pair[1]));
            body = graph_data(second);
        }
        uint32_t in[] = {operand(g, &s.x), operand(g, &s.indices), operand(g, &s.result)};
        const shoal_attr attrs[] = {AXES(UPDATE_WINDOW_DIMS, s.window, s.n_window),
                                    AXES(INSERTED_WINDOW_DIMS, s.dropped, s.n_dropped),
                                    AXES(INPUT_BATCHING_DIMS, s.batch, s.n_batch),
                                    AXES(SCATTER_INDICES_BATCHING_DIMS, s.of_indices, s.n_batch),
                                    AXES(SCATTER_DIMS_TO_OPERAND_DIMS, s.map, s.n_map),
                                    graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, s.vector)};
        OK(graph_add(g, GRAPH_SCATTER, in, 3, attrs, 6, &body, 1, &out));
        OK(graph_add_output(g, out));
        compare(name, g, 1, joined, false);
        graph_destroy(&second);
    }
}

/* ---- in_range ---- */

static uint32_t in_range(graph *g, uint32_t x, int64_t start, int64_t limit, int64_t *ignored) {
    uint32_t out;
    shoal_attr attrs[] = {AXES(START_INDICES, &start, 1), AXES(LIMIT_INDICES, &limit, 1),
                          graph_int(SHOAL_ATTR_IGNORE_INDEX, ignored ? *ignored : 0)};
    OK(graph_add(g, GRAPH_IN_RANGE, &x, 1, attrs, ignored ? 3 : 2, NULL, 0, &out));
    return out;
}

/* What it hands on, to whom it may concern: to others as it is, and to two outputs. */
static void test_in_range(void **state) {
    for (unsigned seed = 1; seed <= GRAPHS; seed++) {
        char name[32];
        graph *g;
        srand(seed);
        snprintf(name, sizeof name, "in_range %u", seed);
        shoal_type type = {.dtype = any_index_dtype(), .rank = 2};
        type.dims[0] = any_size(MOST_ELEMENTS);
        type.dims[1] = any_size(MOST_ELEMENTS / type.dims[0]);
        OK(graph_new(0, &g));
        uint32_t x = operand(g, &type), y;
        int64_t order[] = {1, 0};
        shoal_attr turn = AXES(PERMUTATION, order, 2);
        if (below(2)) OK(graph_add(g, GRAPH_ADD, (uint32_t[]){x, x}, 2, NULL, 0, NULL, 0, &x));
        if (below(2)) x = in_range(g, x, 0, 100, NULL);
        x = in_range(g, x, 0, 80, NULL);
        if (below(2)) OK(graph_add_output(g, x));
        if (below(2)) OK(graph_add(g, GRAPH_TRANSPOSE, &x, 1, &turn, 1, NULL, 0, &x));
        OK(graph_add(g, GRAPH_MULTIPLY, (uint32_t[]){x, x}, 2, NULL, 0, NULL, 0, &y));
        OK(graph_add_output(g, y));
        compare(name, g, 0, true, true);
    }
}

/* One index among many, first in order, in one thread's part or another's. */
static void says(int64_t place, int64_t index, bool ignores, const char *text) {
    enum { MANY = 200000 };
    graph *g;
    const shoal_backend *backend;
    shoal_device *device;
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable;
    shoal_type type = {.dtype = SHOAL_I64, .rank = 1, .dims = {MANY}};
    int64_t *x = calloc(MANY, sizeof *x), ignored = -100;
    shoal_binding bindings[2] = {{0}};
    uint32_t in;
    assert_non_null(x);
    for (int64_t i = place; i < MANY; i += MANY / 4) x[i] = index + (i > place);
    OK(graph_new(0, &g));
    OK(graph_add_input(g, &type, &in));
    OK(graph_add_output(g, in_range(g, in, -3, 70, ignores ? &ignored : NULL)));
    OK(backend_find("cpu", &backend));
    OK(backend->device_new(backend_host(), 0, 2, &device));
    OK(backend->compile(device, graph_data(g), NULL, &report, &executable));
    for (int i = 0; i < 2; i++)
        OK(backend->memory_new(device, MANY * sizeof *x, &bindings[i].memory));
    memcpy(backend->memory_host(device, bindings[0].memory), x, MANY * sizeof *x);
    shoal_status status = backend->run(device, executable, bindings, 2, NULL);
    assert_int_equal(status, text ? SHOAL_RANGE : SHOAL_OK);
    if (text && !strstr(shoal_error_message(), text)) fail_msg("%s", shoal_error_message());
    for (int i = 0; i < 2; i++) backend->memory_free(device, bindings[i].memory);
    backend->executable_free(device, executable);
    backend->device_free(device);
    graph_destroy(&g);
    free(x);
}

static void test_outside(void **state) {
    says(7, 69, true, "index 70 is out of range: it must be from -3 to 69");
    says(7, 70, false, "index 70 is out of range");
    says(49999, -4, false, "index -4 is out of range");
    says(49999, -100, true, "index -99 is out of range");
    says(199999, -100, true, NULL);
    says(199999, -100, false, "index -100 is out of range");
}

/* ---- lines ---- */

static uint32_t reversed(graph *g, uint32_t x, uint32_t rank) {
    int64_t axes[SHOAL_MAX_RANK];
    uint32_t out;
    shuffle(axes, rank);
    shoal_attr attr = AXES(DIMENSIONS, axes, (uint32_t)below(rank) + 1);
    OK(graph_add(g, GRAPH_REVERSE, &x, 1, &attr, 1, NULL, 0, &out));
    return out;
}

static uint32_t sliced(graph *g, uint32_t x, const shoal_type *type) {
    int64_t start[SHOAL_MAX_RANK], limit[SHOAL_MAX_RANK], steps[SHOAL_MAX_RANK];
    uint32_t out;
    for (int i = 0; i < type->rank; i++) {
        start[i] = below(type->dims[i]);
        limit[i] = start[i] + 1 + below(type->dims[i] - start[i]);
        steps[i] = 1 + below(3);
    }
    shoal_attr attrs[] = {AXES(START_INDICES, start, type->rank),
                          AXES(LIMIT_INDICES, limit, type->rank), AXES(STRIDES, steps, type->rank)};
    OK(graph_add(g, GRAPH_SLICE, &x, 1, attrs, 3, NULL, 0, &out));
    return out;
}

static void test_moves(void **state) {
    for (unsigned seed = 1; seed <= GRAPHS; seed++) {
        char name[32];
        graph *g;
        uint32_t parts[4], n = 1 + (uint32_t)below(4), out;
        srand(seed);
        snprintf(name, sizeof name, "move %u", seed);
        shoal_type type = {.dtype = any_dtype(), .rank = (uint8_t)(1 + below(4))};
        int64_t room = MOST_ELEMENTS, axis = below(type.rank);
        for (int i = 0; i < type.rank; i++) room /= type.dims[i] = any_size(room);
        OK(graph_new(0, &g));
        for (uint32_t i = 0; i < n; i++) {
            type.dims[axis] = below(3) ? type.dims[axis] : any_size(60);
            parts[i] = operand(g, &type);
            if (below(2)) parts[i] = reversed(g, parts[i], type.rank);
        }
        shoal_attr along = graph_int(SHOAL_ATTR_DIMENSION, axis);
        OK(graph_add(g, GRAPH_CONCATENATE, parts, (uint16_t)n, &along, 1, NULL, 0, &out));
        OK(graph_add_output(g, out));
        OK(graph_add_output(g, sliced(g, parts[n - 1], &type)));
        compare(name, g, UINT32_MAX, false, false);
    }
}

static void test_cumulated(void **state) {
    static const uint16_t joins[] = {GRAPH_ADD, GRAPH_MULTIPLY, GRAPH_MAXIMUM};
    for (unsigned seed = 1; seed <= GRAPHS; seed++) {
        char name[32];
        graph *g;
        const shoal_graph *body;
        uint32_t out;
        srand(seed);
        snprintf(name, sizeof name, "cumulate %u", seed);
        shoal_type type = {.dtype = any_dtype(), .rank = (uint8_t)(1 + below(3))};
        int64_t room = MOST_ELEMENTS;
        for (int i = 0; i < type.rank; i++) room /= type.dims[i] = any_size(room);
        shoal_type one = {.dtype = type.dtype};
        shoal_attr along = graph_int(SHOAL_ATTR_DIMENSION, below(type.rank));
        OK(graph_new(0, &g));
        uint32_t in[] = {operand(g, &type), operand(g, &one)};
        OK(graph_add_body(g, joins[below(3)], (shoal_dtype)one.dtype, &body));
        OK(graph_add(g, GRAPH_CUMULATE, in, 2, &along, 1, &body, 1, &out));
        OK(graph_add_output(g, out));
        compare(name, g, UINT32_MAX, true, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gathers),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_scatters), cmocka_unit_test(test_in_range),
        cmocka_unit_test(test_outside),  cmocka_unit_test(test_moves),
        cmocka_unit_test(test_cumulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
