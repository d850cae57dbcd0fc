/* Axis rules: the map of every operation as text, and the attributes of parts: a part's call must
 * infer to exactly the part's share of the results. */
#include "graph/testing.h"

typedef struct fixture {
    graph *g;
    base_arena arena;
} fixture;

static fixture begin(void) {
    fixture f;
    ok(graph_new(0, &f.g));
    base_arena_init(&f.arena, 0);
    return f;
}

static void end(fixture *f) {
    graph_destroy(&f->g);
    base_arena_fini(&f->arena);
}

/* The call of the node that made a value, and its rule. */
static graph_call rule_of(fixture *f, uint32_t value, graph_axes *axes) {
    const shoal_graph *g = graph_data(f->g);
    const shoal_node *node = &g->nodes[g->values[value].node];
    shoal_type *types = base_arena_array(&f->arena, shoal_type, node->n_inputs);
    graph_call call = graph_node_call(g, node, types);
    ok(graph_axes_of(&call, &g->values[value].type, 1, &f->arena, axes));
    return call;
}

static void put_map(base_str *s, const int8_t *map, unsigned rank) {
    for (unsigned i = 0; i < rank; i++)
        base_str_format(s, map[i] == GRAPH_WHOLE ? "%s*" : "%s%d", i ? " " : "", map[i]);
}

/* "2 3! 4+ 8/2: 0 1 | * 1 -> 0": extents (! not to be cut, + contracted, /2 in steps of 2),
 * operands, result. */
static void assert_rule(fixture *f, uint32_t value, const char *expected) {
    graph_axes axes;
    graph_call call = rule_of(f, value, &axes);
    base_str s = {0};
    for (uint32_t i = 0; i < axes.n_loops; i++) {
        base_str_format(&s, "%s%lld%s%s", i ? " " : "", (long long)axes.extent[i],
                        axes.granule[i] ? "" : "!", axes.contracted[i] ? "+" : "");
        if (axes.granule[i] > 1) base_str_format(&s, "/%lld", (long long)axes.granule[i]);
    }
    base_str_text(&s, ": ");
    for (uint32_t k = 0; k < call.n_inputs; k++) {
        if (k) base_str_text(&s, " | ");
        put_map(&s, axes.inputs[k], call.inputs[k].rank);
    }
    base_str_text(&s, " -> ");
    put_map(&s, axes.outputs[0], graph_data(f->g)->values[value].type.rank);
    assert_string_equal(s.data, expected);
    base_str_fini(&s);
}

/* The type of an operand's or a result's share. */
static shoal_type share(const shoal_type *type, const graph_axes *axes, const int8_t *map,
                        const int64_t *size) {
    shoal_type part = *type;
    for (unsigned i = 0; i < type->rank; i++) {
        int64_t extent = map[i] == GRAPH_WHOLE ? 0 : axes->extent[map[i]];
        if (!extent) continue;
        assert_int_equal(size[map[i]] * type->dims[i] % extent, 0);
        part.dims[i] = size[map[i]] * type->dims[i] / extent;
    }
    return part;
}

/* Cuts all loops that may be cut, at random, and checks one part. */
static void check_part(fixture *f, uint32_t value, uint64_t *random) {
    graph_axes axes;
    graph_call call = rule_of(f, value, &axes);
    int64_t start[GRAPH_MAX_LOOPS] = {0}, size[GRAPH_MAX_LOOPS];
    for (uint32_t i = 0; i < axes.n_loops; i++) {
        size[i] = axes.extent[i];
        if (!axes.granule[i]) continue;
        int64_t units = axes.extent[i] / axes.granule[i];
        start[i] = (int64_t)(test_random(random) % (uint64_t)(units + 1));
        size[i] = (int64_t)(test_random(random) % (uint64_t)(units - start[i] + 1));
        start[i] *= axes.granule[i];
        size[i] *= axes.granule[i];
    }
    const int64_t from[SHOAL_MAX_RANK] = {0};
    uint32_t *inputs = base_arena_array(&f->arena, uint32_t, call.n_inputs), result;
    graph *g;
    ok(graph_new(0, &g));
    for (uint32_t k = 0; k < call.n_inputs; k++)
        inputs[k] = test_input(g, share(&call.inputs[k], &axes, axes.inputs[k], size));
    const shoal_graph *body = call.n_regions ? call.regions[0] : NULL;
    if (body) {
        graph *copy;
        ok(graph_add_region(g, &copy));
        ok(graph_extract(body, body->inputs, body->n_inputs, body->outputs, body->n_outputs, copy));
        body = graph_data(copy);
    }
    graph_part part = {g, &call, &axes, start, size, inputs, from, &body};
    ok(graph_add_part(&part, &f->arena, &result));
    shoal_type expected =
        share(&graph_data(f->g)->values[value].type, &axes, axes.outputs[0], size);
    char is[BASE_TYPE_TEXT], should[BASE_TYPE_TEXT];
    assert_string_equal(base_type_text(&graph_data(g)->values[result].type, is),
                        base_type_text(&expected, should));
    graph_destroy(&g);
}

static void rule(fixture *f, uint32_t value, const char *expected) {
    uint64_t random = 4;
    assert_rule(f, value, expected);
    for (int i = 0; i < 200; i++) check_part(f, value, &random);
}

static uint32_t reshape(graph *g, shoal_type from, shoal_type to) {
    uint32_t x = test_input(g, from);
    return test_add(g, GRAPH_RESHAPE, &x, 1, ATTRS(graph_ints(SHOAL_ATTR_SHAPE, to.dims, to.rank)));
}

static void carried(void **state) {
    fixture f = begin();
    uint32_t x = test_input(f.g, T(F32, 2, 3)), y = test_input(f.g, T(F32, 2, 3));
    uint32_t p = test_input(f.g, SCALAR(BOOL)), q = test_input(f.g, T(BOOL, 2, 3));
    rule(&f, test_add(f.g, GRAPH_ADD, VALUES(x, y), NULL, 0), "2 3: 0 1 | 0 1 -> 0 1");
    rule(&f, test_add(f.g, GRAPH_SELECT, VALUES(p, x, y), NULL, 0), "2 3:  | 0 1 | 0 1 -> 0 1");
    rule(&f, test_add(f.g, GRAPH_SELECT, VALUES(q, x, y), NULL, 0), "2 3: 0 1 | 0 1 | 0 1 -> 0 1");
    uint32_t place =
        test_add(f.g, GRAPH_PLACE, VALUES(x), ATTRS(INTS(CUTS, 1, 1, 0, 2, 0, 3), INTS(SLOTS, 1)));
    assert_rule(&f, place, "2 3: 0 1 -> 0 1");
    end(&f);
}

static void shapes(void **state) {
    fixture f = begin();
    uint32_t x = test_input(f.g, T(F32, 2, 1, 3)), one = test_input(f.g, T(F32, 1, 3));
    rule(&f,
         test_add(f.g, GRAPH_BROADCAST_IN_DIM, VALUES(x),
                  ATTRS(INTS(BROADCAST_DIMENSIONS, 0, 2, 3), INTS(SHAPE, 2, 5, 4, 3))),
         "2 5 4 3: 0 * 3 -> 0 1 2 3");
    rule(&f,
         test_add(f.g, GRAPH_BROADCAST_IN_DIM, VALUES(one),
                  ATTRS(INTS(BROADCAST_DIMENSIONS, 1, 0), INTS(SHAPE, 3, 1))),
         "3 1: 1 0 -> 0 1");
    rule(&f, test_add(f.g, GRAPH_TRANSPOSE, VALUES(x), ATTRS(INTS(PERMUTATION, 2, 0, 1))),
         "3 2 1: 1 2 0 -> 0 1 2");
    uint32_t y = test_input(f.g, T(F32, 2, 7, 3));
    rule(&f,
         test_add(f.g, GRAPH_CONCATENATE, VALUES(x, y, x),
                  ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 1))),
         "2 9! 3: 0 * 2 | 0 * 2 | 0 * 2 -> 0 1 2");
    rule(&f,
         test_add(f.g, GRAPH_SLICE, VALUES(y),
                  ATTRS(INTS(START_INDICES, 0, 1, 1), INTS(LIMIT_INDICES, 2, 7, 3),
                        INTS(STRIDES, 1, 2, 1))),
         "2 3 2: 0 * * -> 0 1 2");
    end(&f);
}

static void reshapes(void **state) {
    fixture f = begin();
    rule(&f, reshape(f.g, T(F32, 6, 4), T(F32, 24)), "24/4: 0 * -> 0");
    rule(&f, reshape(f.g, T(F32, 5, 6, 4, 7), T(F32, 5, 24, 7)), "5 24/4 7: 0 1 * 2 -> 0 1 2");
    rule(&f, reshape(f.g, T(F32, 5, 24, 7), T(F32, 5, 6, 4, 7)), "5 6 4! 7: 0 1 3 -> 0 1 2 3");
    rule(&f, reshape(f.g, T(F32, 5, 7), T(F32, 1, 5, 1, 7, 1)), "1! 5 1! 7 1!: 1 3 -> 0 1 2 3 4");
    rule(&f, reshape(f.g, T(F32, 1, 5, 1), T(F32, 5)), "5: * 0 * -> 0");
    rule(&f, reshape(f.g, T(F32, 2, 3), T(F32, 3, 2)), "3! 2!: * * -> 0 1");
    rule(&f, reshape(f.g, T(F32, 6, 4), T(F32, 4, 6)), "4/2 6!: 0 * -> 0 1");
    rule(&f, reshape(f.g, T(F32, 1, 12, 5), T(F32, 60, 1)), "60/5 1!: * 0 * -> 0 1");
    rule(&f, reshape(f.g, T(F32, 4, 3, 5, 2), T(F32, 12, 10)), "12/3 10/2: 0 * 1 * -> 0 1");
    rule(&f, reshape(f.g, T(F32, 0, 3), T(F32, 0, 5)), "0 5!: 0 * -> 0 1");
    rule(&f, reshape(f.g, T(F32, 5, 0), T(F32, 0, 5)), "0! 5!: * * -> 0 1");
    end(&f);
}

static void reductions(void **state) {
    static const struct {
        uint16_t op;
        shoal_dtype dtype;
        const char *rule;
        int32_t initial;
    } cases[] = {
        {GRAPH_ADD, SHOAL_F32, "2+ 3 4+: 0 1 2 |  -> 1", 1},
        {GRAPH_MULTIPLY, SHOAL_I8, "2+ 3 4+: 0 1 2 |  -> 1", 1},
        {GRAPH_ADD, SHOAL_BOOL, "2+ 3 4+: 0 1 2 |  -> 1", -1},
        {GRAPH_MAXIMUM, SHOAL_F32, "2+ 3 4+: 0 1 2 |  -> 1", -1},
        {GRAPH_MINIMUM, SHOAL_U8, "2+ 3 4+: 0 1 2 |  -> 1", -1},
        {GRAPH_POWER, SHOAL_F32, "2!+ 3 4!+: 0 1 2 |  -> 1", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = begin();
        graph_axes axes;
        uint32_t x = test_input(f.g, test_type(cases[i].dtype, LIST(2, 3, 4), 3));
        uint32_t initial = test_input(f.g, test_type(cases[i].dtype, NULL, 0));
        uint32_t r = test_reduce(f.g, cases[i].op, x, initial, LIST(2, 0), 2);
        rule(&f, r, cases[i].rule);
        rule_of(&f, r, &axes);
        assert_int_equal(axes.initial, cases[i].initial);
        if (axes.granule[0]) assert_int_equal(axes.combine, cases[i].op);
        end(&f);
    }
}

/* Rows of updates joined with rows of the input: along the indices in parts, as reductions are. */
static void scatters(void **state) {
    static const struct {
        uint16_t op;
        const char *rule;
        int32_t initial;
    } cases[] = {
        {GRAPH_ADD, "5 3 4+ 2+: 0 1 | 2 3 | 2 3 1 -> 0 1", 0},
        {GRAPH_MULTIPLY, "5 3 4+ 2+: 0 1 | 2 3 | 2 3 1 -> 0 1", 0},
        {GRAPH_MAXIMUM, "5 3 4+ 2+: 0 1 | 2 3 | 2 3 1 -> 0 1", -1},
        {GRAPH_SUBTRACT, "5 3: 0 1 | * * | * * 1 -> 0 1", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = begin();
        graph_axes axes;
        const shoal_graph *body;
        uint32_t x = test_input(f.g, T(F32, 5, 3)), places = test_input(f.g, T(I32, 4, 2));
        uint32_t updates = test_input(f.g, T(F32, 4, 2, 3)), sum;
        ok(graph_add_body(f.g, cases[i].op, SHOAL_F32, &body));
        const shoal_attr attrs[] = {INTS(UPDATE_WINDOW_DIMS, 2),
                                    INTS(INSERTED_WINDOW_DIMS, 0),
                                    NONE(INPUT_BATCHING_DIMS),
                                    NONE(SCATTER_INDICES_BATCHING_DIMS),
                                    INTS(SCATTER_DIMS_TO_OPERAND_DIMS, 0),
                                    graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 2)};
        ok(graph_add(f.g, GRAPH_SCATTER, (uint32_t[]){x, places, updates}, 3, attrs, 6, &body, 1,
                     &sum));
        rule(&f, sum, cases[i].rule);
        rule_of(&f, sum, &axes);
        assert_int_equal(axes.initial, cases[i].initial);
        if (axes.n_loops > 2) assert_int_equal(axes.combine, cases[i].op);
        end(&f);
    }
}

/* Boxes and rows that may be anywhere: the operand is searched in parts. */
static void searches(void **state) {
    fixture f = begin();
    uint32_t x = test_input(f.g, T(F32, 6, 5, 3)), i = test_input(f.g, SCALAR(I32));
    uint32_t u = test_input(f.g, T(F32, 2, 5, 1)), at = test_input(f.g, T(I32, 4, 2));
    rule(&f,
         test_add(f.g, GRAPH_DYNAMIC_SLICE, VALUES(x, i, i, i), ATTRS(INTS(SLICE_SIZES, 2, 5, 1))),
         "2! 5 1! 6+ 3+: 3 1 4 |  |  |  -> 0 1 2");
    rule(&f, test_add(f.g, GRAPH_DYNAMIC_UPDATE_SLICE, VALUES(x, u, i, i, i), NULL, 0),
         "6 5 3: 0 1 2 | * 1 * |  |  |  -> 0 1 2");
    rule(&f,
         test_add(f.g, GRAPH_GATHER, VALUES(x, at),
                  ATTRS(INTS(OFFSET_DIMS, 1), INTS(COLLAPSED_SLICE_DIMS, 0, 2),
                        NONE(OPERAND_BATCHING_DIMS), NONE(START_INDICES_BATCHING_DIMS),
                        INTS(START_INDEX_MAP, 2, 0), graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 1),
                        INTS(SLICE_SIZES, 1, 5, 1))),
         "4 5 6+ 3+: 2 1 3 | 0 * -> 0 1");
    end(&f);
}

static void products(void **state) {
    fixture f = begin();
    uint32_t x = test_input(f.g, T(F32, 2, 7, 3)), y = test_input(f.g, T(F32, 5, 3, 6, 7));
    uint32_t d =
        test_add(f.g, GRAPH_DOT_GENERAL, VALUES(x, y),
                 ATTRS(INTS(LHS_BATCHING_DIMENSIONS, 1), INTS(RHS_BATCHING_DIMENSIONS, 3),
                       INTS(LHS_CONTRACTING_DIMENSIONS, 2), INTS(RHS_CONTRACTING_DIMENSIONS, 1)));
    rule(&f, d, "7 2 5 6 3+: 1 0 4 | 2 4 3 0 -> 0 1 2 3");
    graph_axes axes;
    rule_of(&f, d, &axes);
    assert_int_equal(axes.combine, GRAPH_ADD);
    assert_int_equal(axes.initial, -1);
    end(&f);
}

static const shoal_attr *attr_of_part(fixture *f, uint32_t value, const int64_t *start,
                                      const int64_t *size, shoal_attr_key key) {
    graph_axes axes;
    graph_call call = rule_of(f, value, &axes);
    ok(graph_localise(&call, &axes, start, size, &f->arena, &call.attrs, &call.n_attrs));
    return graph_call_attr(&call, key);
}

static void assert_ints(const shoal_attr *attr, const int64_t *expected, size_t count) {
    assert_int_equal(attr->count, count);
    assert_memory_equal(attr->u.ints, expected, count * sizeof *expected);
}

static void created(void **state) {
    fixture f = begin();
    int16_t data[12];
    for (int i = 0; i < 12; i++) data[i] = (int16_t)i;
    uint32_t c = test_constant(f.g, T(I16, 3, 4), data, sizeof data);
    uint32_t s = test_constant(f.g, T(I16, 3, 4), data, 2);
    uint32_t o = test_constant(f.g, SCALAR(I16), data, 2);
    rule(&f, c, "3 4:  -> 0 1");
    rule(&f, s, "3 4:  -> 0 1");
    rule(&f, o, ":  -> ");
    const int64_t start[] = {1, 2}, size[] = {2, 2};
    const shoal_attr *part = attr_of_part(&f, c, start, size, SHOAL_ATTR_VALUE);
    assert_int_equal(part->count, 8);
    assert_memory_equal(part->u.bytes, ((int16_t[]){6, 7, 10, 11}), 8);
    assert_int_equal(attr_of_part(&f, s, start, size, SHOAL_ATTR_VALUE)->count, 2);
    uint32_t i = test_add(f.g, GRAPH_IOTA, NULL, 0,
                          ATTRS(graph_int(SHOAL_ATTR_IOTA_DIMENSION, 1), INTS(SHAPE, 3, 4),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32)));
    uint32_t j = test_add(f.g, GRAPH_IOTA, NULL, 0,
                          ATTRS(graph_int(SHOAL_ATTR_IOTA_DIMENSION, 1), INTS(SHAPE, 3, 4),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32), INTS(START_INDICES, 5, 6)));
    rule(&f, i, "3 4:  -> 0 1");
    rule(&f, j, "3 4:  -> 0 1");
    assert_ints(attr_of_part(&f, i, start, size, SHOAL_ATTR_START_INDICES), LIST(1, 2), 2);
    assert_ints(attr_of_part(&f, j, start, size, SHOAL_ATTR_START_INDICES), LIST(6, 8), 2);
    assert_ints(attr_of_part(&f, i, start, size, SHOAL_ATTR_SHAPE), LIST(2, 2), 2);
    uint32_t x = test_add(f.g, GRAPH_SOURCE, NULL, 0,
                          ATTRS(graph_string(SHOAL_ATTR_FILE, TEST_DIGEST),
                                graph_int(SHOAL_ATTR_FILE_BYTES, 1000),
                                graph_int(SHOAL_ATTR_OFFSET, 100), INTS(STRIDES, 4, 20),
                                INTS(SHAPE, 3, 4), graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)));
    rule(&f, x, "3 4:  -> 0 1");
    assert_int_equal(attr_of_part(&f, x, start, size, SHOAL_ATTR_OFFSET)->u.i, 100 + 4 + 2 * 20);
    assert_ints(attr_of_part(&f, x, start, size, SHOAL_ATTR_SHAPE), LIST(2, 2), 2);
    end(&f);
}

/* Elements 1, 4, 7 of ten on axis 1; its part from 1 on are 4 and 7. Axis 0 is carried. */
static void parts_of_slices(void **state) {
    fixture f = begin();
    uint32_t x = test_input(f.g, T(F32, 6, 10));
    uint32_t s =
        test_add(f.g, GRAPH_SLICE, VALUES(x),
                 ATTRS(INTS(START_INDICES, 0, 1), INTS(LIMIT_INDICES, 6, 9), INTS(STRIDES, 1, 3)));
    const int64_t start[] = {2, 1}, size[] = {3, 2};
    assert_ints(attr_of_part(&f, s, start, size, SHOAL_ATTR_START_INDICES), LIST(0, 4), 2);
    assert_ints(attr_of_part(&f, s, start, size, SHOAL_ATTR_LIMIT_INDICES), LIST(3, 8), 2);
    end(&f);
}

static void exchange_has_none(void **state) {
    graph *g = test_all_operations();
    const shoal_graph *data = graph_data(g);
    const shoal_node *last = &data->nodes[data->n_nodes - 1];
    while (last->op != GRAPH_EXCHANGE) last--;
    shoal_type types[1];
    graph_call call = graph_node_call(data, last, types);
    graph_axes axes;
    fails(SHOAL_INVALID, "exchange has no axis rule",
          graph_axes_of(&call, NULL, 0, graph_arena(g), &axes));
    graph_destroy(&g);
}

static void identities(void **state) {
    static const struct {
        shoal_dtype dtype;
        uint64_t bits;
        uint16_t op;
        bool is;
    } cases[] = {
        {SHOAL_F32, 0, GRAPH_ADD, true},
        {SHOAL_F32, 0x80000000, GRAPH_ADD, true},
        {SHOAL_F32, 1, GRAPH_ADD, false},
        {SHOAL_F32, 0x3f800000, GRAPH_MULTIPLY, true},
        {SHOAL_F32, 1, GRAPH_MULTIPLY, false},
        {SHOAL_F16, 0x3c00, GRAPH_MULTIPLY, true},
        {SHOAL_BF16, 0x3f80, GRAPH_MULTIPLY, true},
        {SHOAL_F64, 0x3ff0000000000000, GRAPH_MULTIPLY, true},
        {SHOAL_I8, 1, GRAPH_MULTIPLY, true},
        {SHOAL_F64, 0xfff0000000000000, GRAPH_MAXIMUM, true},
        {SHOAL_F64, 0xffefffffffffffff, GRAPH_MAXIMUM, false},
        {SHOAL_BF16, 0x7f80, GRAPH_MINIMUM, true},
        {SHOAL_I8, 0x80, GRAPH_MAXIMUM, true},
        {SHOAL_I8, 0x7f, GRAPH_MINIMUM, true},
        {SHOAL_I64, UINT64_C(1) << 63, GRAPH_MAXIMUM, true},
        {SHOAL_U64, UINT64_MAX, GRAPH_MINIMUM, true},
        {SHOAL_U16, 0, GRAPH_MAXIMUM, true},
        {SHOAL_BOOL, 1, GRAPH_MULTIPLY, true},
        {SHOAL_BOOL, 1, GRAPH_MINIMUM, true},
        {SHOAL_I32, 0, GRAPH_SUBTRACT, false},
    };
    fixture f = begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t c = test_constant(f.g, test_type(cases[i].dtype, NULL, 0), &cases[i].bits,
                                   shoal_dtype_size(cases[i].dtype));
        if (graph_is_identity(graph_data(f.g), c, cases[i].op) != cases[i].is)
            fail_msg("case %zu", i);
    }
    const float some[] = {0, 1};
    assert_false(graph_is_identity(graph_data(f.g), test_input(f.g, SCALAR(F32)), GRAPH_ADD));
    uint32_t c = test_constant(f.g, T(F32, 2), some, sizeof some);
    assert_false(graph_is_identity(graph_data(f.g), c, GRAPH_ADD));
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carried),         cmocka_unit_test(shapes),
        cmocka_unit_test(reshapes),        cmocka_unit_test(reductions),
        cmocka_unit_test(scatters),        cmocka_unit_test(searches),
        cmocka_unit_test(products),        cmocka_unit_test(created),
        cmocka_unit_test(parts_of_slices), cmocka_unit_test(exchange_has_none),
        cmocka_unit_test(identities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
