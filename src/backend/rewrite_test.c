/* Tests of graph_rewrite with the reference as its evaluator: what each rule leaves, and that
 * random graphs give the same numbers before and after. */
#include "backend/ref/ref.h"
#include "graph/testing.h"

/* ---- what is left ---- */

static void names(const shoal_graph *g, base_str *s) {
    base_str_init(s);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        base_str_format(s, "%s%s", i ? " " : "", shoal_op_name(g->nodes[i].op));
}

/* Rewrites; the operations that are left, in order, are as given. */
static void leaves(graph **g, const char *expected) {
    graph *to;
    base_str s;
    ok(graph_new(0, &to));
    ok(graph_rewrite(graph_data(*g), ref_evaluate, NULL, to));
    ok(graph_verify(graph_data(to)));
    names(graph_data(to), &s);
    assert_string_equal(s.size ? s.data : "", expected);
    base_str_fini(&s);
    graph_destroy(g);
    *g = to;
}

static graph *begin(void) {
    graph *g;
    ok(graph_new(0, &g));
    return g;
}

static uint32_t number(graph *g, shoal_type type, float value) {
    return test_constant(g, type, &value, sizeof value);
}

static void algebra(void **state) {
    graph *g = begin();
    shoal_type t = T(F32, 2, 3);
    uint32_t x = test_input(g, t), y = test_input(g, t);
    uint32_t zero = number(g, t, 0), one = number(g, t, 1), minus = number(g, t, -0.0f);
    uint32_t v = test_add(g, GRAPH_ADD, VALUES(zero, x), NULL, 0);
    v = test_add(g, GRAPH_MULTIPLY, VALUES(v, one), NULL, 0);
    v = test_add(g, GRAPH_SUBTRACT, VALUES(v, minus), NULL, 0);
    v = test_add(g, GRAPH_DIVIDE, VALUES(v, one), NULL, 0);
    v = test_add(g, GRAPH_NEGATE, VALUES(test_add(g, GRAPH_NEGATE, VALUES(v), NULL, 0)), NULL, 0);
    v = test_add(g, GRAPH_MAXIMUM, VALUES(v, v), NULL, 0);
    v = test_add(g, GRAPH_CONVERT, VALUES(v), ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)));
    ok(graph_add_output(g, v));
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(x, y), NULL, 0)));
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(y, x), NULL, 0)));
    ok(graph_add_output(g, test_add(g, GRAPH_MULTIPLY, VALUES(x, zero), NULL, 0))); /* NaN stays */
    leaves(&g, "constant add multiply");
    const shoal_graph *d = graph_data(g);
    assert_int_equal(d->outputs[0], d->inputs[0]);
    assert_int_equal(d->outputs[1], d->outputs[2]);
    graph_destroy(&g);
}

static void shapes(void **state) {
    graph *g = begin();
    uint32_t x = test_input(g, T(F32, 2, 3, 4));
    uint32_t v = test_add(g, GRAPH_TRANSPOSE, VALUES(x), ATTRS(INTS(PERMUTATION, 1, 2, 0)));
    v = test_add(g, GRAPH_TRANSPOSE, VALUES(v), ATTRS(INTS(PERMUTATION, 2, 0, 1)));
    ok(graph_add_output(g, v));
    v = test_add(g, GRAPH_TRANSPOSE, VALUES(x), ATTRS(INTS(PERMUTATION, 1, 2, 0)));
    v = test_add(g, GRAPH_TRANSPOSE, VALUES(v), ATTRS(INTS(PERMUTATION, 1, 0, 2)));
    ok(graph_add_output(g, v));
    v = test_add(g, GRAPH_RESHAPE, VALUES(x), ATTRS(INTS(SHAPE, 24)));
    v = test_add(g, GRAPH_RESHAPE, VALUES(v), ATTRS(INTS(SHAPE, 4, 6)));
    ok(graph_add_output(g, v));
    v = test_add(g, GRAPH_RESHAPE, VALUES(v), ATTRS(INTS(SHAPE, 2, 3, 4)));
    ok(graph_add_output(g, v));
    v = test_add(
        g, GRAPH_SLICE, VALUES(x),
        ATTRS(INTS(START_INDICES, 0, 0, 0), INTS(LIMIT_INDICES, 2, 3, 4), INTS(STRIDES, 1, 1, 1)));
    v = test_add(g, GRAPH_CONCATENATE, VALUES(v), ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 0)));
    v = test_add(g, GRAPH_REVERSE, VALUES(v), ATTRS(INTS(DIMENSIONS, 0, 2)));
    v = test_add(g, GRAPH_REVERSE, VALUES(v), ATTRS(INTS(DIMENSIONS, 2, 0)));
    ok(graph_add_output(g, v));
    v = test_add(g, GRAPH_BROADCAST_IN_DIM, VALUES(x),
                 ATTRS(INTS(BROADCAST_DIMENSIONS, 1, 2, 3), INTS(SHAPE, 5, 2, 3, 4)));
    v = test_add(g, GRAPH_BROADCAST_IN_DIM, VALUES(v),
                 ATTRS(INTS(BROADCAST_DIMENSIONS, 0, 2, 3, 4), INTS(SHAPE, 5, 6, 2, 3, 4)));
    ok(graph_add_output(g, v));
    leaves(&g, "transpose reshape broadcast_in_dim");
    const shoal_graph *d = graph_data(g);
    assert_int_equal(d->outputs[0], d->inputs[0]);
    assert_int_equal(d->outputs[3], d->inputs[0]);
    assert_int_equal(d->outputs[4], d->inputs[0]);
    const shoal_attr *order = shoal_node_attr(&d->nodes[0], SHOAL_ATTR_PERMUTATION);
    assert_memory_equal(order->u.ints, LIST(2, 1, 0), 3 * sizeof(int64_t));
    graph_destroy(&g);
}

static void constants(void **state) {
    graph *g = begin();
    uint32_t x = test_input(g, T(F32, 1000, 1000));
    uint32_t two = number(g, SCALAR(F32), 2), big;
    shoal_attr wide[] = {NONE(BROADCAST_DIMENSIONS), INTS(SHAPE, 1000, 1000)};
    big = test_add(g, GRAPH_BROADCAST_IN_DIM, VALUES(two), wide, 2);
    uint32_t root =
        test_add(g, GRAPH_SQRT, VALUES(test_add(g, GRAPH_ADD, VALUES(big, big), NULL, 0)), NULL, 0);
    ok(graph_add_output(g, test_add(g, GRAPH_MULTIPLY, VALUES(x, root), NULL, 0)));
    const int32_t list[] = {3, 1, 2};
    uint32_t small = test_constant(g, T(I32, 3), list, sizeof list);
    small = test_add(g, GRAPH_MULTIPLY, VALUES(small, small), NULL, 0);
    ok(graph_add_output(g, test_add(g, GRAPH_REVERSE, VALUES(small), ATTRS(INTS(DIMENSIONS, 0)))));
    leaves(&g, "constant multiply constant");
    const shoal_graph *d = graph_data(g);
    const shoal_attr *value = shoal_node_attr(&d->nodes[0], SHOAL_ATTR_VALUE);
    assert_int_equal(value->count, 4);
    assert_memory_equal(value->u.bytes, &(float){2}, 4);
    value = shoal_node_attr(&d->nodes[2], SHOAL_ATTR_VALUE);
    assert_int_equal(value->count, 12);
    assert_memory_equal(value->u.bytes, ((const int32_t[]){4, 1, 9}), 12);
    graph_destroy(&g);
}

/* Equal nodes are one, with bodies and several results too; what nobody reads goes; inputs stay; a
 * scope keeps its nodes. */
static void once(void **state) {
    graph *g = begin();
    uint32_t x = test_input(g, T(F32, 4, 5)), zero = number(g, SCALAR(F32), 0);
    test_input(g, T(F32, 9));
    for (int i = 0; i < 3; i++) {
        ok(graph_add_output(
            g, test_reduce(g, i < 2 ? GRAPH_ADD : GRAPH_MAXIMUM, x, zero, LIST(1), 1)));
        ok(graph_add_output(
            g, 1 + test_add(g, GRAPH_TOP_K, VALUES(x), ATTRS(graph_int(SHOAL_ATTR_K, 2)))));
    }
    test_add(g, GRAPH_TANH, VALUES(x), NULL, 0);
    ok(graph_add_output(g, test_add(g, GRAPH_SINE, VALUES(x), NULL, 0)));
    ok(graph_at(g, NULL, "here"));
    ok(graph_add_output(g, test_add(g, GRAPH_SINE, VALUES(x), NULL, 0)));
    leaves(&g, "constant reduce top_k reduce sine sine");
    assert_int_equal(graph_data(g)->n_inputs, 2);
    graph_destroy(&g);
}

static uint32_t product(graph *g, uint32_t a, uint32_t b) {
    return test_add(g, GRAPH_DOT_GENERAL, VALUES(a, b),
                    ATTRS(INTS(LHS_BATCHING_DIMENSIONS, 0), INTS(RHS_BATCHING_DIMENSIONS, 1),
                          INTS(LHS_CONTRACTING_DIMENSIONS, 2),
                          INTS(RHS_CONTRACTING_DIMENSIONS, 0)));
}

/* Transposed products, batches in front: their operands change places, unless the product is read
 * by others too, or its axes move otherwise. */
static void products(void **state) {
    graph *g = begin(), *to;
    uint32_t a = test_input(g, T(F32, 2, 3, 4, 5)), b = test_input(g, T(F32, 4, 2, 6));
    uint32_t v = product(g, a, b);
    ok(graph_add_output(
        g, test_add(g, GRAPH_TRANSPOSE, VALUES(v), ATTRS(INTS(PERMUTATION, 0, 3, 1, 2)))));
    ok(graph_new(0, &to));
    ok(graph_rewrite(graph_data(g), ref_evaluate, NULL, to));
    assert_int_equal(graph_data(to)->n_nodes, 1);
    float x[2 * 3 * 4 * 5], y[4 * 2 * 6], out[2][2 * 6 * 3 * 5];
    for (int i = 0; i < 120; i++) x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 48; i++) y[i] = (float)(i % 5) - 2;
    for (int k = 0; k < 2; k++)
        ok(ref_evaluate(NULL, graph_data(k ? to : g), (const void *const[]){x, y},
                        (void *const[]){out[k]}));
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    graph_destroy(&to);
    graph_destroy(&g);
    g = begin();
    a = test_input(g, T(F32, 2, 3, 4, 5)), b = test_input(g, T(F32, 4, 2, 6));
    v = product(g, a, b);
    ok(graph_add_output(
        g, test_add(g, GRAPH_TRANSPOSE, VALUES(v), ATTRS(INTS(PERMUTATION, 0, 1, 3, 2)))));
    leaves(&g, "dot_general transpose");
    ok(graph_add_output(g,
                        test_add(g, GRAPH_TRANSPOSE, VALUES(graph_data(g)->nodes[0].first_output),
                                 ATTRS(INTS(PERMUTATION, 0, 3, 1, 2)))));
    leaves(&g, "dot_general transpose transpose");
    graph_destroy(&g);
}

/* ---- the same numbers; without division, which would tell -0 from 0 ---- */

enum { ROWS = 3, COLUMNS = 3, MOST = 40 };

static uint32_t pick(const uint32_t *values, uint32_t n, uint64_t *random) {
    return values[test_random(random) % n];
}

/* A graph of square matrices, of constants among which 0 and 1 are frequent. */
static graph *random_graph(uint64_t *random) {
    static const uint16_t unary[] = {GRAPH_NEGATE, GRAPH_ABS, GRAPH_FLOOR, GRAPH_SIGN, GRAPH_CEIL};
    static const uint16_t binary[] = {GRAPH_ADD,    GRAPH_SUBTRACT, GRAPH_MULTIPLY,
                                      GRAPH_DIVIDE, GRAPH_MAXIMUM,  GRAPH_MINIMUM};
    graph *g = begin();
    shoal_type t = T(F32, ROWS, COLUMNS);
    uint32_t values[MOST + 2] = {test_input(g, t), test_input(g, t)}, n = 2;
    while (n < MOST) {
        uint32_t a = pick(values, n, random), b = pick(values, n, random), v;
        float list[ROWS * COLUMNS];
        switch (test_random(random) % 9) {
        case 0: v = number(g, t, (float)(test_random(random) % 3) - 1); break;
        case 1:
            for (int i = 0; i < ROWS * COLUMNS; i++) list[i] = (float)(test_random(random) % 3) - 1;
            v = test_constant(g, t, list, sizeof list);
            break;
        case 2: v = test_add(g, unary[test_random(random) % 5], VALUES(a), NULL, 0); break;
        case 3: v = test_add(g, GRAPH_TRANSPOSE, VALUES(a), ATTRS(INTS(PERMUTATION, 1, 0))); break;
        case 4:
            v = test_add(g, GRAPH_RESHAPE, VALUES(a), ATTRS(INTS(SHAPE, 9)));
            v = test_add(g, GRAPH_RESHAPE, VALUES(v), ATTRS(INTS(SHAPE, 3, 3)));
            break;
        case 5:
            v = test_add(g, GRAPH_REVERSE, VALUES(a),
                         ATTRS(INTS(DIMENSIONS, (int64_t)(test_random(random) % 2))));
            break;
        case 6:
            v = test_add(g, GRAPH_COMPARE, VALUES(a, b),
                         ATTRS(graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT")));
            v = test_add(g, GRAPH_SELECT, VALUES(v, a, b), NULL, 0);
            break;
        default: v = test_add(g, binary[test_random(random) % 5], VALUES(a, b), NULL, 0); break;
        }
        values[n++] = v;
    }
    for (int i = 0; i < 3; i++) ok(graph_add_output(g, values[n - 1 - (uint32_t)i * 3]));
    return g;
}

static void same_numbers(void **state) {
    uint64_t random = 5;
    uint32_t before = 0, after = 0;
    for (int round = 0; round < 500; round++) {
        graph *g = random_graph(&random), *to;
        ok(graph_new(0, &to));
        ok(graph_rewrite(graph_data(g), ref_evaluate, NULL, to));
        ok(graph_verify(graph_data(to)));
        before += graph_data(g)->n_nodes;
        after += graph_data(to)->n_nodes;
        float in[2][ROWS * COLUMNS], out[2][3][ROWS * COLUMNS];
        for (int i = 0; i < 2 * ROWS * COLUMNS; i++)
            in[i / 9][i % 9] = (float)(test_random(&random) % 5) - 2;
        for (int k = 0; k < 2; k++)
            ok(ref_evaluate(NULL, graph_data(k ? to : g), (const void *const[]){in[0], in[1]},
                            (void *const[]){out[k][0], out[k][1], out[k][2]}));
        for (int i = 0; i < 3 * ROWS * COLUMNS; i++) {
            float x = out[0][i / 9][i % 9], y = out[1][i / 9][i % 9];
            if (x != y && !(x != x && y != y)) fail_msg("round %d: %g, not %g", round, y, x);
        }
        graph_destroy(&g);
        graph_destroy(&to);
    }
    print_message("%u nodes became %u\n", before, after);
    assert_true(after < before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(algebra), cmocka_unit_test(shapes),   cmocka_unit_test(constants),
        cmocka_unit_test(once),    cmocka_unit_test(products), cmocka_unit_test(same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
