/* Reverse mode apart from its rules: element types, bodies, values that are computed again, what
 * may be asked for, errors. */
#include "backend/ref/ref.h"
#include "graph/testing.h"

#include <math.h>

#define AXIS(n) graph_int(SHOAL_ATTR_DIMENSION, n)
#define F(...) T(F64, __VA_ARGS__)
#define S SCALAR(F64)

/* Computes the outputs of a graph of float64, one behind the other. */
static void evaluate(graph *g, const double *const *inputs, double *out) {
    const shoal_graph *data = graph_data(g);
    void *outputs[4];
    for (uint32_t i = 0; i < data->n_outputs; i++) {
        outputs[i] = out;
        out += base_type_count(&data->values[data->outputs[i]].type);
    }
    ok(graph_verify(data));
    ok(ref_evaluate(NULL, data, (const void *const *)inputs, outputs));
}

/* Of rows that are flat nothing comes back, and nothing is asked. */
static void test_flat_rows(void **state) {
    static const uint16_t unary[] = {GRAPH_CEIL, GRAPH_FLOOR, GRAPH_ROUND_NEAREST_AFZ,
                                     GRAPH_ROUND_NEAREST_EVEN, GRAPH_SIGN};
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
        graph *g;
        uint32_t gradient, seed;
        ok(graph_new(0, &g));
        uint32_t x = test_input(g, F(3)), y = test_add(g, unary[i], VALUES(x), NULL, 0);
        seed = test_input(g, F(3));
        ok(graph_differentiate(g, &y, &seed, 1, &x, 1, NULL, &gradient));
        assert_int_equal(gradient, GRAPH_NO_VALUE);
        graph_destroy(&g);
    }
}

static void test_errors(void **state) {
    graph *g;
    uint32_t gradient;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, F(4)), whole = test_input(g, T(I32, 4)), seed = test_input(g, F(4));
    ok(graph_at(g, "train.py:7", NULL));
    uint32_t y = test_add(g, GRAPH_BITCAST_CONVERT, VALUES(x),
                          ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_F64)));
    fails(SHOAL_UNSUPPORTED, "bitcast_convert (train.py:7) has no gradient",
          graph_differentiate(g, &y, &seed, 1, &x, 1, NULL, &gradient));
    fails(SHOAL_INVALID, "int32[4] has none",
          graph_differentiate(g, &y, &seed, 1, &whole, 1, NULL, &gradient));
    fails(SHOAL_INVALID, "the seed of output 0 is int32[4]",
          graph_differentiate(g, &y, &whole, 1, &x, 1, NULL, &gradient));
    fails(SHOAL_INVALID, "there is no value",
          graph_differentiate(g, &y, &seed, 1, (uint32_t[]){999}, 1, NULL, &gradient));
    fails(SHOAL_INVALID, "no output or seed",
          graph_differentiate(g, &y, (uint32_t[]){999}, 1, &x, 1, NULL, &gradient));
    uint32_t initial = test_input(g, S), first;
    graph *body;
    uint32_t args[2];
    const shoal_type scalar = SCALAR(F64);
    ok(graph_add_region(g, &body));
    for (int i = 0; i < 2; i++) ok(graph_add_input(body, &scalar, &args[i]));
    ok(graph_add_output(body, test_add(body, GRAPH_SUBTRACT, VALUES(args[0], args[1]), NULL, 0)));
    const shoal_graph *region = graph_data(body);
    const shoal_attr attrs[] = {INTS(WINDOW_DIMENSIONS, 1), INTS(WINDOW_STRIDES, 1),
                                INTS(BASE_DILATIONS, 1), INTS(WINDOW_DILATIONS, 1),
                                INTS(PADDING, 0, 0)};
    ok(graph_add(g, GRAPH_REDUCE_WINDOW, (uint32_t[]){x, initial}, 2, attrs, 5, &region, 1,
                 &first));
    fails(
        SHOAL_UNSUPPORTED,
        "the gradient of reduce_window (train.py:7): there is one for one tensor, from a constant",
        graph_differentiate(g, &first, &seed, 1, &x, 1, NULL, &gradient));
    graph_destroy(&g);
}

/* ---- forms that finite differences do not see ---- */

static void test_element_types(void **state) {
    static const uint8_t types[] = {SHOAL_F16, SHOAL_BF16, SHOAL_F32, SHOAL_F64};
    for (size_t from = 0; from < 4; from++)
        for (size_t to = 0; to < 4; to++) {
            graph *g;
            uint32_t gradient;
            shoal_type in = {.dtype = types[from], .rank = 1, .dims = {3}}, out = in;
            out.dtype = types[to];
            ok(graph_new(0, &g));
            uint32_t x = test_input(g, in), seed = test_input(g, out);
            uint32_t y = test_add(g, GRAPH_CONVERT, VALUES(x),
                                  ATTRS(graph_int(SHOAL_ATTR_DTYPE, types[to])));
            ok(graph_differentiate(g, &y, &seed, 1, &x, 1, NULL, &gradient));
            assert_true(base_type_equal(&graph_data(g)->values[gradient].type, &in));
            /* Composites on halves compute in float32 and come back as halves. */
            uint32_t z = test_add(g, GRAPH_SOFTMAX, VALUES(x), ATTRS(AXIS(0)));
            z = test_add(g, GRAPH_GELU, VALUES(z), NULL, 0);
            seed = test_input(g, in);
            ok(graph_differentiate(g, &z, &seed, 1, &x, 1, NULL, &gradient));
            assert_true(base_type_equal(&graph_data(g)->values[gradient].type, &in));
            ok(graph_verify(graph_data(g)));
            graph_destroy(&g);
        }
    graph *g;
    uint32_t gradient;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 2)), seed = test_input(g, T(F32, 2));
    uint32_t y = test_add(
        g, GRAPH_REDUCE_PRECISION, VALUES(x),
        ATTRS(graph_int(SHOAL_ATTR_EXPONENT_BITS, 5), graph_int(SHOAL_ATTR_MANTISSA_BITS, 10)));
    /* To an integer and back: nothing depends on x. */
    uint32_t z =
        test_add(g, GRAPH_CONVERT, VALUES(y), ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_I8)));
    z = test_add(g, GRAPH_CONVERT, VALUES(z), ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)));
    ok(graph_differentiate(g, &z, &seed, 1, &x, 1, NULL, &gradient));
    assert_int_equal(gradient, GRAPH_NO_VALUE);
    ok(graph_differentiate(g, &y, &seed, 1, &x, 1, NULL, &gradient));
    const shoal_graph *d = graph_data(g);
    assert_int_equal(d->nodes[d->values[gradient].node].op, GRAPH_REDUCE_PRECISION);
    graph_destroy(&g);
}

/* Products along no axis, of a tensor with as many axes as there can be: nothing is multiplied but
 * each element with the initial value. */
static void test_products_of_one(void **state) {
    graph *g;
    uint32_t gradient;
    const shoal_type type = F(1, 2, 1, 1, 3, 1, 1, 1);
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, type), initial = test_input(g, S), seed = test_input(g, type);
    uint32_t y = test_reduce(g, GRAPH_MULTIPLY, x, initial, NULL, 0);
    ok(graph_differentiate(g, &y, &seed, 1, &x, 1, NULL, &gradient));
    const shoal_graph *d = graph_data(g);
    assert_true(base_type_equal(&d->values[gradient].type, &type));
    graph_destroy(&g);
}

/* A branch: x * y, or x alone. Another: nothing of either. */
static const shoal_graph *branch(graph *g, int kind) {
    graph *body;
    uint32_t x, y, z;
    const shoal_type type = F(3);
    const double zero = 0;
    ok(graph_add_region(g, &body));
    ok(graph_add_input(body, &type, &x));
    ok(graph_add_input(body, &type, &y));
    if (kind == 0)
        z = test_add(body, GRAPH_MULTIPLY, VALUES(x, y), NULL, 0);
    else if (kind == 1)
        z = test_add(body, GRAPH_EXPONENTIAL, VALUES(x), NULL, 0);
    else
        z = test_constant(body, type, &zero, sizeof zero);
    ok(graph_add_output(body, z));
    return graph_data(body);
}

static void test_control(void **state) {
    graph *g;
    uint32_t out, gradients[2];
    ok(graph_new(0, &g));
    uint32_t flag = test_input(g, SCALAR(BOOL)), number_ = test_input(g, SCALAR(I32));
    uint32_t x = test_input(g, F(3)), y = test_input(g, F(3)), seed = test_input(g, F(3));
    const shoal_graph *bodies[] = {branch(g, 0), branch(g, 1), branch(g, 2)};
    for (int several = 0; several < 2; several++) {
        uint16_t op = several ? GRAPH_CASE : GRAPH_IF;
        ok(graph_add(g, op, (uint32_t[]){several ? number_ : flag, x, y}, 3, NULL, 0, bodies,
                     several ? 3 : 2, &out));
        ok(graph_differentiate(g, &out, &seed, 1, (uint32_t[]){x, y}, 2, NULL, gradients));
        ok(graph_add_output(g, gradients[0]));
        ok(graph_add_output(g, gradients[1]));
        ok(graph_verify(graph_data(g)));
        const shoal_graph *d = graph_data(g);
        const shoal_node *made = &d->nodes[d->values[gradients[0]].node];
        assert_int_equal(made->op, op);
        assert_int_equal(made->n_inputs, 4);
        assert_int_equal(made->n_regions, several ? 3 : 2);
        /* The second branch takes y not at all: its gradient there is a constant. */
        const shoal_graph *second = made->regions[1];
        const shoal_value *zero = &second->values[second->outputs[1]];
        assert_int_equal(second->nodes[zero->node].op, GRAPH_CONSTANT);
    }
    graph_destroy(&g);
}

/* Values that are not kept are computed again, behind everything else, and only what is needed. */
static void test_again(void **state) {
    graph *g, *f;
    uint32_t gradient, want;
    bool kept[64] = {false};
    for (int copy = 0; copy < 2; copy++) {
        graph *made;
        ok(graph_new(0, &made));
        uint32_t x = test_input(made, F(4)), seed = test_input(made, F(4)), y = x;
        for (int i = 0; i < 5; i++) {
            y = test_add(made, GRAPH_EXPONENTIAL, VALUES(y), NULL, 0);
            y = test_add(made, GRAPH_SINE, VALUES(y), NULL, 0);
            y = test_add(made, GRAPH_ADD, VALUES(y, x), NULL, 0);
        }
        for (uint32_t v = 0; v < graph_data(made)->n_values; v++) kept[v] = v % 3 == 1;
        kept[x] = kept[seed] = true;
        uint32_t nodes = graph_data(made)->n_nodes;
        ok(graph_differentiate(made, &y, &seed, 1, &x, 1, copy ? NULL : kept,
                               copy ? &want : &gradient));
        ok(graph_add_output(made, copy ? want : gradient));
        const shoal_graph *d = graph_data(made);
        uint32_t again = 0;
        for (uint32_t n = nodes; n < d->n_nodes; n++) {
            bool is_copy = d->nodes[n].scope && !strcmp(d->nodes[n].scope, "again");
            again += is_copy;
            for (uint32_t i = 0; !copy && i < d->nodes[n].n_inputs; i++) {
                uint32_t v = d->nodes[n].inputs[i];
                assert_true(v >= d->nodes[nodes].first_output || kept[v]);
            }
        }
        if (copy)
            assert_int_equal(again, 0);
        else
            assert_in_range(again, 1, nodes - 1);
        *(copy ? &f : &g) = made;
    }
    double x[4] = {0.1, -0.5, 0.7, 1.1}, seed[4] = {1, 2, -1, 0.5}, a[4], b[4];
    const double *const inputs[] = {x, seed};
    /* Simplifying does not join the copies with what they are copies of. */
    graph *simple;
    ok(graph_new(0, &simple));
    ok(graph_rewrite(graph_data(g), ref_evaluate, NULL, simple));
    uint32_t in_scope = 0;
    for (uint32_t n = 0; n < graph_data(simple)->n_nodes; n++)
        in_scope += graph_data(simple)->nodes[n].scope != NULL;
    assert_true(in_scope > 0);
    evaluate(simple, inputs, a);
    evaluate(f, inputs, b);
    assert_memory_equal(a, b, sizeof a);
    graph_destroy(&simple);
    graph_destroy(&g);
    graph_destroy(&f);
}

/* Inputs, results of nodes and the outputs themselves may be asked about, also together. */
static void test_targets(void **state) {
    graph *g;
    uint32_t gradients[4];
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, F(2)), seed = test_input(g, F(2)), other = test_input(g, F(2));
    uint32_t y = test_add(g, GRAPH_MULTIPLY, VALUES(x, x), NULL, 0);
    uint32_t z = test_add(g, GRAPH_MULTIPLY, VALUES(y, x), NULL, 0);
    uint32_t before = graph_data(g)->n_nodes;
    ok(graph_differentiate(g, (uint32_t[]){z, y}, (uint32_t[]){seed, seed}, 2,
                           (uint32_t[]){x, y, z, other}, 4, NULL, gradients));
    assert_int_equal(gradients[2], seed);
    assert_int_equal(gradients[3], GRAPH_NO_VALUE);
    ok(graph_add_output(g, gradients[0]));
    ok(graph_add_output(g, gradients[1]));
    double a[2] = {2, -3}, s[2] = {1, 10}, unused[2] = {0, 0}, out[4];
    evaluate(g, (const double *const[]){a, s, unused}, out);
    for (int i = 0; i < 2; i++) {
        assert_float_equal(out[i], s[i] * (3 * a[i] * a[i] + 2 * a[i]), 1e-12);
        assert_float_equal(out[2 + i], s[i] * (a[i] + 1), 1e-12);
    }
    /* Branches that lead nowhere are not built. */
    uint32_t after = graph_data(g)->n_nodes;
    ok(graph_differentiate(g, &z, &seed, 1, &other, 1, NULL, gradients));
    assert_int_equal(graph_data(g)->n_nodes, after);
    assert_true(after > before);
    graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat_rows),       cmocka_unit_test(test_errors),
        cmocka_unit_test(test_element_types),   cmocka_unit_test(test_control),
        cmocka_unit_test(test_products_of_one), cmocka_unit_test(test_again),
        cmocka_unit_test(test_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
