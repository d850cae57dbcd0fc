/* Operations that pick elements by numbers, put them in order, join them with bodies, or make
 * random ones. */
#include "build.h"
#include "shoal/backend.h"

#include <stdio.h>
#include <string.h>

#define LIST(...)                                                                                  \
    (const shoal_attr[]){__VA_ARGS__}, sizeof((shoal_attr[]){__VA_ARGS__}) / sizeof(shoal_attr)
#define TYPES(...)                                                                                 \
    (const shoal_type[]){__VA_ARGS__}, sizeof((shoal_type[]){__VA_ARGS__}) / sizeof(shoal_type)

/* ---- bodies ---- */

typedef const shoal_graph *(*make_body)(graph *g, const shoal_type *types, uint32_t n);

static void begin(graph *g, const shoal_type *types, uint32_t n, bool pairs, graph **body,
                  uint32_t *in) {
    build_must(graph_add_region(g, body));
    for (uint32_t i = 0; i < 2 * n; i++) {
        shoal_type scalar = {.dtype = types[pairs ? i % n : i / 2].dtype};
        build_must(graph_add_input(*body, &scalar, &in[i]));
    }
}

static uint32_t apply(graph *g, uint16_t op, uint32_t x, uint32_t y, const char *direction) {
    uint32_t value;
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, direction ? direction : "");
    build_must(graph_add(g, op, (uint32_t[]){x, y}, 2, &attr, direction != NULL, NULL, 0, &value));
    return value;
}

static const shoal_graph *add_body(graph *g, const shoal_type *types, uint32_t n) {
    graph *body;
    uint32_t in[8];
    begin(g, types, n, true, &body, in);
    for (uint32_t i = 0; i < n; i++)
        build_must(graph_add_output(body, apply(body, GRAPH_ADD, in[i], in[n + i], NULL)));
    return graph_data(body);
}

/* The second argument: scatter then writes. */
static const shoal_graph *second_body(graph *g, const shoal_type *types, uint32_t n) {
    graph *body;
    uint32_t in[8];
    begin(g, types, n, true, &body, in);
    for (uint32_t i = 0; i < n; i++) build_must(graph_add_output(body, in[n + i]));
    return graph_data(body);
}

/* Of two pairs (x, i) the one with the larger x, the first of equals. */
static const shoal_graph *largest_body(graph *g, const shoal_type *types, uint32_t n) {
    graph *body;
    uint32_t in[8], value;
    begin(g, types, n, true, &body, in);
    uint32_t less = apply(body, GRAPH_COMPARE, in[0], in[n], "LT");
    for (uint32_t i = 0; i < n; i++) {
        build_must(graph_add(body, GRAPH_SELECT, (uint32_t[]){less, in[n + i], in[i]}, 3, NULL, 0,
                             NULL, 0, &value));
        build_must(graph_add_output(body, value));
    }
    return graph_data(body);
}

static const shoal_graph *less_body(graph *g, const shoal_type *types, uint32_t n) {
    graph *body;
    uint32_t in[8];
    begin(g, types, n, false, &body, in);
    build_must(graph_add_output(body, apply(body, GRAPH_COMPARE, in[0], in[1], "LT")));
    return graph_data(body);
}

static const shoal_graph *greater_body(graph *g, const shoal_type *types, uint32_t n) {
    graph *body;
    uint32_t in[8];
    begin(g, types, n, false, &body, in);
    build_must(graph_add_output(body, apply(body, GRAPH_COMPARE, in[0], in[1], "GT")));
    return graph_data(body);
}

static const struct {
    const char *name;
    make_body make;
} bodies[] = {{"add", add_body},
              {"second", second_body},
              {"largest", largest_body},
              {"less", less_body},
              {"greater", greater_body}};

/* ---- one case ---- */

static void run(uint16_t op, const shoal_type *types, size_t n, const shoal_attr *attrs,
                size_t n_attrs, const char *body, uint32_t of_body, fill how) {
    test_case c = {.close = CLOSE_EXACT};
    uint32_t values[MAX_INPUTS], first;
    const shoal_graph *region = NULL;
    build_name(&c, shoal_op_name(op), types, (uint32_t)n);
    build_must(graph_new(0, &c.graph));
    for (uint32_t i = 0; i < n; i++) {
        build_must(graph_add_input(c.graph, &types[i], &values[i]));
        c.inputs[i] = build_input(&types[i], how, i % 2);
    }
    for (size_t b = 0; body && b < sizeof bodies / sizeof *bodies; b++)
        if (!strcmp(body, bodies[b].name)) region = bodies[b].make(c.graph, types, of_body);
    build_must(graph_add(c.graph, op, values, (uint32_t)n, attrs, (uint16_t)n_attrs, &region,
                         region ? 1 : 0, &first));
    const shoal_graph *g = graph_data(c.graph);
    for (uint16_t i = 0; i < g->nodes[0].n_outputs; i++)
        build_must(graph_add_output(c.graph, first + i));
    build_visit_and_free(&c);
}

/* Indices inside, then any. */
#define BOTH(op, ...)                                                                              \
    do {                                                                                           \
        run(op, __VA_ARGS__, NULL, 0, FILL_TAME);                                                  \
        run(op, __VA_ARGS__, NULL, 0, FILL_SPECIAL);                                               \
    } while (0)

/* ---- moving ---- */

#define PAD(in, low, high, interior)                                                               \
    run(GRAPH_PAD, TYPES(in, TYPE(d, )), LIST(low, high, interior), NULL, 0, FILL_SPECIAL)
#define LOW(...) INTS(EDGE_PADDING_LOW, __VA_ARGS__)
#define HIGH(...) INTS(EDGE_PADDING_HIGH, __VA_ARGS__)
#define INTERIOR(...) INTS(INTERIOR_PADDING, __VA_ARGS__)

/* The bytes of the first operand, where all its axes behave in one way or another. */
static shoal_status same_bytes(const shoal_host *host, void *context, const shoal_type *types,
                               const void *const *inputs, uint32_t n_inputs, const shoal_type *type,
                               void *output) {
    memcpy(output, inputs[0], (size_t)base_type_bytes(type));
    return SHOAL_OK;
}

static void own(uint8_t d) {
    static const shoal_operation same = {sizeof same, "same", same_bytes, NULL};
    static bool added;
    if (!added) added = shoal_operation_add(&same) == SHOAL_OK;
    const shoal_attr name = graph_string(SHOAL_ATTR_NAME, "same");
    run(GRAPH_CUSTOM, TYPES(TYPE(d, 4, 7)), &name, 1, NULL, 0, FILL_SPECIAL);
    run(GRAPH_CUSTOM, TYPES(TYPE(d, 4, 7), TYPE(d, 4, 7)), LIST(name, INT(DIMENSION, 1)), NULL, 0,
        FILL_SPECIAL);
    run(GRAPH_CUSTOM, TYPES(TYPE(d, 3, 4)), LIST(name, INTS(SHAPE, 6, 2)), NULL, 0, FILL_SPECIAL);
}

static void moving(uint8_t d) {
    PAD(TYPE(d, 3, 5), LOW(1, 0), HIGH(2, 3), INTERIOR(0, 0));
    PAD(TYPE(d, 3, 5), LOW(0, 2), HIGH(0, 1), INTERIOR(2, 1));
    PAD(TYPE(d, 6, 5), LOW(-1, -2), HIGH(-3, 4), INTERIOR(0, 3));
    PAD(TYPE(d, 4), LOW(-3), HIGH(-5), INTERIOR(2));
    PAD(TYPE(d, 0, 2), LOW(1, 0), HIGH(2, 0), INTERIOR(3, 0));
    PAD(TYPE(d, ), LOW(), HIGH(), INTERIOR());
    if (shoal_dtype_kind(d) == 'i' || shoal_dtype_kind(d) == 'u')
        run(GRAPH_IN_RANGE, TYPES(TYPE(d, 4, 7)),
            LIST(INTS(START_INDICES, 0), INTS(LIMIT_INDICES, 28)), NULL, 0, FILL_INDEX);
    own(d);
    run(GRAPH_REVERSE, TYPES(TYPE(d, 4, 3, 2)), LIST(INTS(DIMENSIONS, 0, 2)), NULL, 0,
        FILL_SPECIAL);
    run(GRAPH_REVERSE, TYPES(TYPE(d, 4, 3)), LIST(INTS(DIMENSIONS, )), NULL, 0, FILL_SPECIAL);
    run(GRAPH_REVERSE, TYPES(TYPE(d, 4, 0)), LIST(INTS(DIMENSIONS, 1)), NULL, 0, FILL_SPECIAL);
    run(GRAPH_REVERSE, TYPES(TYPE(d, 2, 1, 2, 1, 2, 1, 3, 1)), LIST(INTS(DIMENSIONS, 6, 0)), NULL,
        0, FILL_SPECIAL);
    static const uint8_t indices[] = {SHOAL_I64, SHOAL_I32, SHOAL_I8, SHOAL_U8, SHOAL_U64};
    for (int i = 0; i < 5; i++) {
        shoal_type at = TYPE(indices[i], );
        BOTH(GRAPH_DYNAMIC_SLICE, TYPES(TYPE(d, 5, 7), at, at), LIST(INTS(SLICE_SIZES, 2, 7)));
        shoal_type update[] = {TYPE(d, 5, 7), TYPE(d, 3, 2), at, at};
        run(GRAPH_DYNAMIC_UPDATE_SLICE, update, 4, NULL, 0, NULL, 0, FILL_TAME);
        run(GRAPH_DYNAMIC_UPDATE_SLICE, update, 4, NULL, 0, NULL, 0, FILL_SPECIAL);
    }
    shoal_type at = TYPE(SHOAL_I32, );
    BOTH(GRAPH_DYNAMIC_SLICE, TYPES(TYPE(d, 5, 0, 2), at, at, at),
         LIST(INTS(SLICE_SIZES, 1, 0, 2)));
    BOTH(GRAPH_DYNAMIC_SLICE, TYPES(TYPE(d, 5), at), LIST(INTS(SLICE_SIZES, 0)));
}

/* ---- gather and scatter ---- */

#define GATHER(types, offset, collapsed, batching, of_indices, map, vector, sizes)                 \
    BOTH(GRAPH_GATHER, types,                                                                      \
         LIST(INTS(OFFSET_DIMS, offset), INTS(COLLAPSED_SLICE_DIMS, collapsed),                    \
              INTS(OPERAND_BATCHING_DIMS, batching),                                               \
              INTS(START_INDICES_BATCHING_DIMS, of_indices), INTS(START_INDEX_MAP, map),           \
              INT(INDEX_VECTOR_DIM, vector), INTS(SLICE_SIZES, sizes)))
#define SCATTER(types, window, inserted, batching, of_indices, map, vector, body, n, how)          \
    run(GRAPH_SCATTER, types,                                                                      \
        LIST(INTS(UPDATE_WINDOW_DIMS, window), INTS(INSERTED_WINDOW_DIMS, inserted),               \
             INTS(INPUT_BATCHING_DIMS, batching), INTS(SCATTER_INDICES_BATCHING_DIMS, of_indices), \
             INTS(SCATTER_DIMS_TO_OPERAND_DIMS, map), INT(INDEX_VECTOR_DIM, vector)),              \
        body, n, how)
#define NONE
#define OF(...) __VA_ARGS__

static void indexing(uint8_t d) {
    /* rows of a table; single elements; boxes; a batch; no index at all */
    GATHER(TYPES(TYPE(d, 7, 5), TYPE(SHOAL_I32, 2, 3)), OF(2), OF(0), NONE, NONE, OF(0), 2,
           OF(1, 5));
    GATHER(TYPES(TYPE(d, 7, 5), TYPE(SHOAL_I64, 4, 2)), NONE, OF(0, 1), NONE, NONE, OF(1, 0), 1,
           OF(1, 1));
    GATHER(TYPES(TYPE(d, 4, 5, 3), TYPE(SHOAL_U8, 2, 3)), OF(0, 2), OF(1), NONE, NONE, OF(0, 1), 0,
           OF(2, 1, 3));
    GATHER(TYPES(TYPE(d, 3, 6, 2), TYPE(SHOAL_I32, 3, 4, 1)), OF(2), OF(1), OF(0), OF(0), OF(1), 2,
           OF(1, 1, 2));
    GATHER(TYPES(TYPE(d, 7, 5), TYPE(SHOAL_I32, 0)), OF(1), OF(0), NONE, NONE, OF(0), 1, OF(1, 5));
    GATHER(TYPES(TYPE(d, 7), TYPE(SHOAL_I16, )), OF(0), NONE, NONE, NONE, OF(0), 0, OF(3));
    static const char *const joins[] = {"add", "second"};
    for (int b = 0; b < 2; b++)
        for (int f = 0; f < 2; f++) {
            fill how = f && b ? FILL_SPECIAL : FILL_TAME;
            shoal_type table = TYPE(d, 7, 5), cube = TYPE(d, 3, 6, 2);
            SCATTER(TYPES(table, TYPE(SHOAL_I32, 4), TYPE(d, 4, 5)), OF(1), OF(0), NONE, NONE,
                    OF(0), 1, joins[b], 1, how);
            SCATTER(TYPES(table, TYPE(SHOAL_I64, 2, 3), TYPE(d, 3)), NONE, OF(0, 1), NONE, NONE,
                    OF(1, 0), 0, joins[b], 1, how);
            SCATTER(TYPES(table, TYPE(SHOAL_I32, 3, 2), TYPE(d, 3, 2, 3)), OF(1, 2), NONE, NONE,
                    NONE, OF(0, 1), 1, joins[b], 1, how);
            SCATTER(TYPES(cube, TYPE(SHOAL_I32, 3, 4, 1), TYPE(d, 3, 4, 2)), OF(2), OF(1), OF(0),
                    OF(0), OF(1), 2, joins[b], 1, how);
            SCATTER(TYPES(table, table, TYPE(SHOAL_I32, 4), TYPE(d, 4, 5), TYPE(d, 4, 5)), OF(1),
                    OF(0), NONE, NONE, OF(0), 1, joins[b], 2, how);
            SCATTER(TYPES(table, TYPE(SHOAL_I32, 0), TYPE(d, 0, 5)), OF(1), OF(0), NONE, NONE,
                    OF(0), 1, joins[b], 1, how);
        }
}

/* ---- order ---- */

static void ordering(uint8_t d) {
    /* Long rows and many columns are done in other ways than few. */
    shoal_type shapes[] = {TYPE(d, 19),   TYPE(d, 5, 8),    TYPE(d, 3, 4, 5),
                           TYPE(d, 2, 0), TYPE(d, 2, 2100), TYPE(d, 150, 3)};
    for (int s = 0; s < 6; s++)
        for (int axis = 0; axis < shapes[s].rank; axis++)
            for (int f = 0; f < 2; f++) {
                fill how = f ? FILL_SPECIAL : FILL_TAME;
                shoal_type beside = shapes[s];
                beside.dtype = SHOAL_I32;
                shoal_attr along = INT(DIMENSION, axis);
                /* LT and GT are no order of NaN. */
                fill tame = shoal_dtype_kind((shoal_dtype)d) == 'f' ? FILL_TAME : how;
                run(GRAPH_SORT, TYPES(shapes[s]), LIST(along), "less", 1, tame);
                run(GRAPH_SORT, TYPES(shapes[s], beside), LIST(along), "greater", 2, tame);
                if (shapes[s].dims[axis])
                    for (int wide = 0; wide < 2; wide++) {
                        shoal_attr dtype = INT(DTYPE, wide ? SHOAL_I64 : SHOAL_I32);
                        run(GRAPH_ARGMAX, TYPES(shapes[s]), LIST(along, dtype), NULL, 0, how);
                        run(GRAPH_ARGMIN, TYPES(shapes[s]), LIST(along, dtype), NULL, 0, how);
                    }
                run(GRAPH_CUMULATE, TYPES(shapes[s], TYPE(d, )), LIST(along), "add", 1, FILL_TAME);
                run(GRAPH_REDUCE, TYPES(shapes[s], beside, TYPE(d, ), TYPE(SHOAL_I32, )),
                    LIST(INTS(DIMENSIONS, axis)), "largest", 2, how);
                if (axis == shapes[s].rank - 1 && d != SHOAL_BOOL)
                    for (int64_t k = 0; k <= shapes[s].dims[axis]; k += k < 20 ? 3 : k)
                        run(GRAPH_TOP_K, TYPES(shapes[s]), LIST(INT(K, k)), NULL, 0, how);
            }
}

/* ---- bits and bounds ---- */

static void bits(uint8_t d) {
    shoal_type t = TYPE(d, 67), scalar = TYPE(d, ), square = TYPE(d, 3, 4);
    run(GRAPH_CLAMP, TYPES(scalar, t, scalar), NULL, 0, NULL, 0, FILL_SPECIAL);
    run(GRAPH_CLAMP, TYPES(t, t, scalar), NULL, 0, NULL, 0, FILL_SPECIAL);
    run(GRAPH_CLAMP, TYPES(square, square, square), NULL, 0, NULL, 0, FILL_SPECIAL);
    for (uint8_t to = SHOAL_I8; to < SHOAL_DTYPE_COUNT && d != SHOAL_BOOL; to++) {
        size_t from_size = shoal_dtype_size((shoal_dtype)d),
               size = shoal_dtype_size((shoal_dtype)to);
        int64_t last = size > from_size ? (int64_t)(size / from_size) : 3;
        run(GRAPH_BITCAST_CONVERT, TYPES(TYPE(d, 11, last)), LIST(INT(DTYPE, to)), NULL, 0,
            FILL_SPECIAL);
    }
    if (shoal_dtype_kind((shoal_dtype)d) != 'f') return;
    static const int formats[][2] = {{5, 10}, {8, 7}, {8, 23}, {5, 2}, {4, 3}, {11, 52}, {2, 1}};
    for (int f = 0; f < 7; f++)
        run(GRAPH_REDUCE_PRECISION, TYPES(TYPE(d, 257)),
            LIST(INT(EXPONENT_BITS, formats[f][0]), INT(MANTISSA_BITS, formats[f][1])), NULL, 0,
            FILL_SPECIAL);
}

/* ---- random ---- */

static void randoms(uint8_t d) {
    static const char *const floats[] = {"UNIFORM", "NORMAL"};
    bool is_float = shoal_dtype_kind((shoal_dtype)d) == 'f';
    static const int64_t shape[] = {5, 7}, whole[] = {11, 9}, start[] = {3, 1};
    for (int i = 0; i < (is_float ? 2 : 1); i++) {
        shoal_attr all[] = {
            graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, is_float ? floats[i] : "BITS"),
            graph_ints(SHOAL_ATTR_SHAPE, shape, 2), INT(DTYPE, d),
            graph_ints(SHOAL_ATTR_START_INDICES, start, 2),
            graph_ints(SHOAL_ATTR_WHOLE_SHAPE, whole, 2)};
        for (uint16_t n = 3; n <= 5; n += 2) {
            shoal_type seed[] = {TYPE(SHOAL_U64, ), TYPE(SHOAL_I64, )};
            for (uint32_t k = 1; k <= 2; k++) {
                build_node(GRAPH_RANDOM, seed, k, all, n, i ? CLOSE_UNITS : CLOSE_EXACT, 16,
                           FILL_SPECIAL);
            }
        }
    }
}

void cases_index(void) {
    for (uint8_t d = 0; d < SHOAL_DTYPE_COUNT; d++) {
        moving(d);
        indexing(d);
        ordering(d);
        bits(d);
        randoms(d);
    }
}
