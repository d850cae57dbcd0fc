/* The bytes of graphs: round trips, canonical form, and input from outside. */
#include "graph/testing.h"

#include "graph.pb-c.h"

static base_str encoded(const shoal_graph *g, bool with_locations) {
    base_str s;
    base_str_init(&s);
    ok(graph_encode(g, with_locations, &s));
    return s;
}

static void assert_same(const base_str *a, const base_str *b) {
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

static void round_trip(void **state) {
    graph *g = test_all_operations(), *back;
    base_str s = encoded(graph_data(g), true);
    ok(graph_decode(s.data, s.size, 1 << 20, &back));
    ok(graph_verify(graph_data(g)));
    ok(graph_verify(graph_data(back)));
    const shoal_graph *a = graph_data(g), *b = graph_data(back);
    assert_int_equal(a->n_nodes, b->n_nodes);
    for (uint32_t i = 0; i < a->n_outputs; i++)
        assert_true(
            base_type_equal(&a->values[a->outputs[i]].type, &b->values[b->outputs[i]].type));
    assert_string_equal(b->nodes[8].location, "model.py:12");
    assert_string_equal(b->nodes[8].scope, "layer1/\"attention\"");
    assert_null(b->nodes[0].location);
    base_str again = encoded(b, true);
    assert_same(&s, &again);
    base_str_fini(&s);
    base_str_fini(&again);
    graph_destroy(&back);
    graph_destroy(&g);
}

/* x + y with the inputs made before or after another node, and with or without locations. */
static base_str sum(bool late, const char *location, bool with_locations) {
    graph *g;
    uint32_t y = 0;
    ok(graph_new(0, &g));
    ok(graph_at(g, location, NULL));
    uint32_t x = test_input(g, T(F32, 4));
    if (!late) y = test_input(g, T(F32, 4));
    uint32_t n = test_add(g, GRAPH_NEGATE, VALUES(x), NULL, 0);
    if (late) y = test_input(g, T(F32, 4));
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(n, y), NULL, 0)));
    base_str s = encoded(graph_data(g), with_locations);
    graph_destroy(&g);
    return s;
}

static void equal_graphs_give_equal_bytes(void **state) {
    base_str a = sum(false, "a.py:1", false), b = sum(true, "b.py:2", false);
    base_str c = sum(false, "a.py:1", true), d = sum(true, "b.py:2", true);
    assert_same(&a, &b);
    assert_true(c.size > a.size && d.size == c.size && memcmp(c.data, d.data, c.size));
    base_str_fini(&a);
    base_str_fini(&b);
    base_str_fini(&c);
    base_str_fini(&d);
}

/* As many regions as an operation takes. */
static void many_bodies(void **state) {
    enum { BODIES = 6 };
    graph *g, *back;
    const shoal_graph *bodies[BODIES];
    uint32_t out;
    ok(graph_new(0, &g));
    uint32_t index = test_constant(g, SCALAR(I32), &(int32_t){3}, 4), x = test_input(g, T(F32, 4));
    for (int i = 0; i < BODIES; i++) {
        graph *body;
        ok(graph_add_region(g, &body));
        uint32_t in = test_input(body, T(F32, 4));
        for (int k = 0; k < i; k++) in = test_add(body, GRAPH_NEGATE, VALUES(in), NULL, 0);
        ok(graph_add_output(body, in));
        bodies[i] = graph_data(body);
    }
    ok(graph_add(g, GRAPH_CASE, (uint32_t[]){index, x}, 2, NULL, 0, bodies, BODIES, &out));
    ok(graph_add_output(g, out));
    base_str s = encoded(graph_data(g), true);
    ok(graph_decode(s.data, s.size, 0, &back));
    assert_int_equal(graph_data(back)->nodes[1].n_regions, BODIES);
    base_str again = encoded(graph_data(back), true);
    assert_same(&s, &again);
    base_str_fini(&s);
    base_str_fini(&again);
    graph_destroy(&back);
    graph_destroy(&g);
}

/* Packs a module that was put together by hand and decodes it. */
static shoal_status decode_module(const Shoal__Ir__Module *m) {
    size_t size = shoal__ir__module__get_packed_size(m);
    uint8_t *data = malloc(size + 1);
    shoal__ir__module__pack(m, data);
    graph *g;
    shoal_status status = graph_decode(data, size, 1 << 20, &g);
    if (status == SHOAL_OK) graph_destroy(&g);
    free(data);
    return status;
}

static void refusals(void **state) {
    Shoal__Ir__Module m = SHOAL__IR__MODULE__INIT;
    Shoal__Ir__Function f = SHOAL__IR__FUNCTION__INIT, *functions[12] = {&f, &f};
    Shoal__Ir__Node n = SHOAL__IR__NODE__INIT, *nodes[1] = {&n};
    char *names[1] = {"add"};
    uint32_t values[2] = {0, 0};
    graph *g;
    fails(SHOAL_FORMAT, "3 bytes of a graph: malformed", graph_decode("\xff\xff\xff", 3, 0, &g));
    fails(SHOAL_VERSION, "malformed graph: version 0; this is 1", decode_module(&m));
    m.version = 1;
    fails(SHOAL_FORMAT, "0 functions", decode_module(&m));
    m.n_functions = 2;
    m.functions = functions;
    fails(SHOAL_FORMAT, "function 0 is not used", decode_module(&m));
    m.n_functions = 1;
    ok(decode_module(&m));
    f.n_outputs = 1;
    f.outputs = values;
    fails(SHOAL_INVALID, "output 0: there is no value 0", decode_module(&m));
    f.n_nodes = 1;
    f.nodes = nodes;
    fails(SHOAL_FORMAT, "function 0: node 0: operation 0 of 0", decode_module(&m));
    m.n_operations = 1;
    m.operations = names;
    fails(SHOAL_INVALID, "node 0: add: takes 2 operands, not 0", decode_module(&m));
    n.n_inputs = 2;
    n.inputs = values;
    fails(SHOAL_INVALID, "node 0: add: operand 0: there is no value 0", decode_module(&m));
    n.n_regions = 1;
    n.regions = values;
    fails(SHOAL_FORMAT, "region 0 is not a function before it, used once", decode_module(&m));
    n.n_regions = 0;
    n.scope = 4;
    fails(SHOAL_FORMAT, "string 4 of 0", decode_module(&m));
    names[0] = "no_such";
    fails(SHOAL_NOT_FOUND, "there is no operation 'no_such'", decode_module(&m));
}

static void the_limit_holds(void **state) {
    graph *g = test_all_operations(), *back;
    base_str s = encoded(graph_data(g), true);
    size_t enough = 0;
    for (size_t limit = 1000; !enough && limit < 1 << 20; limit += 1000)
        if (graph_decode(s.data, s.size, limit, &back) == SHOAL_OK)
            enough = limit;
        else
            assert_true(strstr(shoal_error_message(), "over the limit") != NULL);
    assert_in_range(enough, s.size, 200000);
    graph_destroy(&back);
    base_str_fini(&s);
    graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),      cmocka_unit_test(equal_graphs_give_equal_bytes),
        cmocka_unit_test(many_bodies),     cmocka_unit_test(refusals),
        cmocka_unit_test(the_limit_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
