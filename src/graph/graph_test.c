/* The table of operations, the builder, subgraphs and the verifier. */
#include "graph/testing.h"

static shoal_status register_infer(const graph_call *call, shoal_type *outputs, uint16_t max,
                                   uint16_t *n) {
    outputs[0] = call->inputs[0];
    *n = 1;
    return SHOAL_OK;
}

static shoal_status register_axes(const graph_call *call, const shoal_type *outputs, uint16_t n,
                                  base_arena *arena, graph_axes *out) {
    return SHOAL_OK;
}

static void operations(void **state) {
    uint16_t op;
    assert_string_equal(shoal_op_name(GRAPH_DOT_GENERAL), "dot_general");
    ok(shoal_op_find("broadcast_in_dim", &op));
    assert_int_equal(op, GRAPH_BROADCAST_IN_DIM);
    fails(SHOAL_NOT_FOUND, "there is no operation 'dot'", shoal_op_find("dot", &op));
    assert_null(shoal_op_name(shoal_op_count()));
    assert_null(graph_op(UINT16_MAX));
    static const graph_op_def fine = {.name = "twice",
                                      .category = "unary",
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .infer = register_infer,
                                      .axes = register_axes};
    graph_op_def bad = fine;
    bad.name = "add";
    fails(SHOAL_INVALID, "operation 'add' exists already", graph_op_register(&bad, &op));
    bad.name = "other";
    bad.infer = NULL;
    fails(SHOAL_INVALID, "operation 'other' needs the functions", graph_op_register(&bad, &op));
    assert_int_equal(shoal_op_count(), GRAPH_OP_BUILT_IN);
    ok(graph_op_register(&fine, &op));
    assert_int_equal(op, GRAPH_OP_BUILT_IN);
    fails(SHOAL_INVALID, "operation 'twice' exists already", graph_op_register(&fine, &op));
    /* It travels by name, in bytes and in text. */
    graph *g, *back;
    base_str bytes = {0}, text = {0};
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 2));
    ok(graph_add_output(g, test_add(g, op, VALUES(x), NULL, 0)));
    ok(graph_encode(graph_data(g), false, &bytes));
    ok(graph_decode(bytes.data, bytes.size, 0, &back));
    assert_int_equal(graph_data(back)->nodes[0].op, op);
    graph_destroy(&back);
    ok(graph_print(graph_data(g), &text));
    assert_non_null(strstr(text.data, "\"shoal.twice\"(%0)"));
    ok(graph_parse(text.data, text.size, 0, &back));
    graph_destroy(&back);
    graph_destroy(&g);
    base_str_fini(&bytes);
    base_str_fini(&text);
}

static void building(void **state) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 2, 3)), y;
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32), INTS(SHAPE, 4),
                          graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0)};
    ok(graph_add(g, GRAPH_IOTA, NULL, 0, attrs, 3, NULL, 0, &y)); /* attributes in any order */
    const shoal_node *node = &graph_data(g)->nodes[0];
    assert_int_equal(node->attrs[0].key, SHOAL_ATTR_IOTA_DIMENSION);
    assert_int_equal(node->attrs[2].key, SHOAL_ATTR_DTYPE);
    assert_int_equal(shoal_node_attr(node, SHOAL_ATTR_SHAPE)->u.ints[0], 4);
    assert_null(shoal_node_attr(node, SHOAL_ATTR_VALUE));
    const char bytes[3] = {1, 0, 1};
    uint32_t c = test_constant(g, T(BOOL, 3), bytes, 3);
    const shoal_graph *data = graph_data(g);
    const shoal_attr *value = shoal_node_attr(&data->nodes[data->values[c].node], SHOAL_ATTR_VALUE);
    assert_int_equal((uintptr_t)value->u.bytes % 64, 0);
    uint32_t nodes = data->n_nodes, values = data->n_values;
    fails(SHOAL_INVALID, "add: operand 1: there is no value 77",
          graph_add(g, GRAPH_ADD, (uint32_t[]){x, 77}, 2, NULL, 0, NULL, 0, &y));
    fails(SHOAL_INVALID, "add: element types differ",
          graph_add(g, GRAPH_ADD, (uint32_t[]){x, y}, 2, NULL, 0, NULL, 0, &y));
    fails(SHOAL_INVALID, "output 0: there is no value 9", graph_add_output(g, 9));
    assert_int_equal(graph_data(g)->n_nodes, nodes); /* a failed call leaves nothing behind */
    assert_int_equal(graph_data(g)->n_values, values);
    ok(graph_add_output(g, x));
    graph_clear_outputs(g);
    assert_int_equal(graph_data(g)->n_outputs, 0);
    graph_destroy(&g);
    graph_destroy(&g);
}

static void many_operands(void **state) {
    graph *g;
    uint32_t operands[300], out;
    ok(graph_new(0, &g));
    for (uint32_t i = 0; i < 300; i++) operands[i] = test_input(g, T(F32, 2, i));
    shoal_attr axis = graph_int(SHOAL_ATTR_DIMENSION, 1);
    ok(graph_add(g, GRAPH_CONCATENATE, operands, 300, &axis, 1, NULL, 0, &out));
    assert_int_equal(graph_data(g)->values[out].type.dims[1], 299 * 300 / 2);
    ok(graph_add_output(g, out));
    ok(graph_verify(graph_data(g)));
    graph_destroy(&g);
}

static void limits(void **state) {
    graph *g;
    uint32_t x;
    shoal_status status = SHOAL_OK;
    ok(graph_new(10000, &g));
    shoal_type type = T(F32, 2);
    for (int i = 0; i < 1000 && status == SHOAL_OK; i++) status = graph_add_input(g, &type, &x);
    assert_int_equal(status, SHOAL_NO_MEMORY);
    assert_true(graph_arena(g)->held <= 10000);
    graph_destroy(&g);
}

static void bodies(void **state) {
    graph *g, *region;
    const shoal_graph *body;
    ok(graph_new(0, &g));
    ok(graph_add_body(g, GRAPH_MAXIMUM, SHOAL_I8, &body));
    assert_int_equal(graph_body_op(body), GRAPH_MAXIMUM);
    fails(SHOAL_INVALID, "subtract: works on numbers, not on bool[]",
          graph_add_body(g, GRAPH_SUBTRACT, SHOAL_BOOL, &body));
    ok(graph_add_region(g, &region));
    uint32_t a = test_input(region, SCALAR(F32)), b = test_input(region, SCALAR(F32));
    uint32_t square = test_add(region, GRAPH_MULTIPLY, VALUES(b, b), NULL, 0);
    ok(graph_add_output(region, test_add(region, GRAPH_ADD, VALUES(a, square), NULL, 0)));
    assert_int_equal(graph_body_op(graph_data(region)), UINT16_MAX);
    graph_destroy(&g);
}

/* x -> negate n -> (abs u; exponential v) -> add s; all kinds of parts of it. */
static void extraction(void **state) {
    graph *g, *to;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 2)), y = test_input(g, T(F32, 2));
    ok(graph_at(g, "a.py:3", "block"));
    uint32_t n = test_add(g, GRAPH_NEGATE, VALUES(x), NULL, 0);
    uint32_t u = test_add(g, GRAPH_ABS, VALUES(n), NULL, 0);
    uint32_t v = test_add(g, GRAPH_EXPONENTIAL, VALUES(n), NULL, 0);
    uint32_t s = test_add(g, GRAPH_ADD, VALUES(u, y), NULL, 0);
    const shoal_graph *from = graph_data(g);
    ok(graph_new(0, &to));
    ok(graph_extract(from, VALUES(y, x), VALUES(s, n, s), to));
    const shoal_graph *part = graph_data(to);
    assert_int_equal(part->n_nodes, 3); /* not the exponential */
    assert_int_equal(part->n_inputs, 2);
    assert_int_equal(part->n_outputs, 3);
    assert_int_equal(part->outputs[0], part->outputs[2]);
    assert_string_equal(part->nodes[2].location, "a.py:3");
    assert_string_equal(part->nodes[2].scope, "block");
    assert_int_equal(part->nodes[2].inputs[1], part->inputs[0]);
    ok(graph_verify(part));
    graph_destroy(&to);
    /* From the middle: n is an input now, though negate would make it. */
    ok(graph_new(0, &to));
    ok(graph_extract(from, VALUES(n), VALUES(v, n), to));
    assert_int_equal(graph_data(to)->n_nodes, 1);
    assert_int_equal(graph_data(to)->outputs[1], graph_data(to)->inputs[0]);
    graph_destroy(&to);
    ok(graph_new(0, &to));
    fails(SHOAL_INVALID, "the outputs depend on input 1, which is not given",
          graph_extract(from, VALUES(x), VALUES(s), to));
    graph_destroy(&to);
    /* With what it takes of the inputs: all in their order, the second, or one that is a result. */
    const uint32_t wanted[] = {s, u, y};
    const uint32_t first[] = {0, 0, 1}, many[] = {2, 1, 1};
    for (int i = 0; i < 3; i++) {
        uint32_t used[2] = {9, 9};
        ok(graph_new(0, &to));
        ok(graph_extract_used(from, &wanted[i], 1, to, used));
        assert_int_equal(graph_data(to)->n_inputs, many[i]);
        assert_int_equal(used[0], first[i]);
        assert_int_equal(used[1], many[i] > 1 ? 1 : 9);
        ok(graph_verify(graph_data(to)));
        graph_destroy(&to);
    }
    graph_destroy(&g);
}

static void extraction_of_everything(void **state) {
    graph *g = test_all_operations(), *to;
    const shoal_graph *from = graph_data(g);
    ok(graph_new(0, &to));
    ok(graph_extract(from, from->inputs, from->n_inputs, from->outputs, from->n_outputs, to));
    graph_destroy(&g); /* nothing of it is used by the copy, bodies included */
    ok(graph_verify(graph_data(to)));
    graph_destroy(&to);
}

/* A graph made by the builder, as data that a test may spoil. */
typedef struct spoiled {
    shoal_graph g;
    shoal_node nodes[2];
    shoal_value values[4];
    uint32_t inputs[2], outputs[1], operands[2][2];
} spoiled;

static void fresh(spoiled *s) {
    const shoal_type type = T(F32, 2);
    *s = (spoiled){.inputs = {0, 1}, .outputs = {3}, .operands = {{0, 1}, {2, 1}}};
    for (uint32_t i = 0; i < 2; i++) {
        s->values[i] = (shoal_value){type, SHOAL_NO_NODE, i};
        s->values[2 + i] = (shoal_value){type, i, 0};
        s->nodes[i] = (shoal_node){.op = GRAPH_ADD,
                                   .n_outputs = 1,
                                   .n_inputs = 2,
                                   .first_output = 2 + i,
                                   .inputs = s->operands[i]};
    }
    s->g = (shoal_graph){2, 4, 2, 1, s->nodes, s->values, s->inputs, s->outputs};
}

#define SPOILED(change, message)                                                                   \
    do {                                                                                           \
        spoiled s;                                                                                 \
        fresh(&s);                                                                                 \
        ok(graph_verify(&s.g));                                                                    \
        change;                                                                                    \
        fails(SHOAL_INVALID, message, graph_verify(&s.g));                                         \
    } while (0)

static void verifier(void **state) {
    SPOILED(s.operands[0][0] = 3, "node 0 (add): operand 0: value 3 is not defined before");
    SPOILED(s.operands[0][0] = 2, "node 0 (add): operand 0: value 2 is not defined before");
    SPOILED(s.operands[1][1] = 99, "node 1 (add): operand 1: there is no value 99");
    SPOILED(s.outputs[0] = 4, "output 0: there is no value 4");
    SPOILED(s.inputs[1] = 0, "input 1: value 0 is not this input");
    SPOILED(s.nodes[1].first_output = 2, "value 3 is defined by nothing");
    SPOILED(s.values[3].index = 1, "value 3 is defined by nothing");
    SPOILED(s.nodes[1].n_outputs = 2, "node 1 (add): result 1: value 4 is not its own");
    SPOILED(s.nodes[1].op = 60000, "node 1 (?): operation number 60000 does not exist");
    SPOILED(s.nodes[1].n_inputs = 1, "node 1 (add): add: takes 2 operands, not 1");
    SPOILED(s.values[3].type.dims[0] = 3,
            "node 1 (add): result 0 is float32[3], should be float32[2]");
    SPOILED(s.values[1].type.dims[0] = -1, "input 1: shape float32[-1] has a negative dimension");
    SPOILED(s.g.n_nodes = UINT32_MAX, "4294967295 nodes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations),
        cmocka_unit_test(building),
        cmocka_unit_test(many_operands),
        cmocka_unit_test(limits),
        cmocka_unit_test(bodies),
        cmocka_unit_test(extraction),
        cmocka_unit_test(extraction_of_everything),
        cmocka_unit_test(verifier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
