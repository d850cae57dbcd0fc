/* Shape rules of composites and of operations on indices, order, windows and control flow: what
 * they say when a call is wrong; and decompositions. */
#include "graph/testing.h"

#define REFUSED(text, op, ...)                                                                     \
    fails(SHOAL_INVALID, text, call_all(g, op, __VA_ARGS__, &(uint32_t){0}))

static shoal_status call_all(graph *g, uint16_t op, const uint32_t *in, size_t n,
                             const shoal_attr *attrs, size_t n_attrs, uint32_t *out) {
    return graph_add(g, op, in, (uint32_t)n, attrs, (uint16_t)n_attrs, NULL, 0, out);
}

#define AXIS(n) graph_int(SHOAL_ATTR_DIMENSION, n)
#define EPSILON(x) graph_float(SHOAL_ATTR_EPSILON, x)

static void composites(void **state) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 4, 6)), i = test_input(g, T(I32, 4)),
             s = test_input(g, T(F32, 5));
    uint32_t n = test_input(g, SCALAR(F32)), k = test_input(g, T(F32, 7, 6)),
             half = test_input(g, T(F16, 4, 6));
    REFUSED("softmax: dimension: axis 2 is not in float32[4, 6]", GRAPH_SOFTMAX, VALUES(x),
            ATTRS(AXIS(2)));
    REFUSED("works on floating-point numbers, not on int32[4]", GRAPH_SOFTMAX, VALUES(i),
            ATTRS(AXIS(0)));
    REFUSED("softmax: attribute dimension is missing", GRAPH_SOFTMAX, VALUES(x), NULL, 0);
    REFUSED("gelu: approximate 'some' is neither none nor tanh", GRAPH_GELU, VALUES(x),
            ATTRS(graph_string(SHOAL_ATTR_APPROXIMATE, "some")));
    REFUSED("rms_norm: the scale must be float32[6], not float32[5]", GRAPH_RMS_NORM, VALUES(x, s),
            ATTRS(AXIS(1), EPSILON(0)));
    REFUSED("layer_norm: epsilon -1 is negative", GRAPH_LAYER_NORM, VALUES(x),
            ATTRS(AXIS(1), EPSILON(-1)));
    REFUSED("attribute epsilon is not finite", GRAPH_LAYER_NORM, VALUES(x),
            ATTRS(AXIS(1), EPSILON(1.0 / 0.0)));
    REFUSED(
        "the labels of float32[4, 6] must be integers of the shape without axis 0, not int32[4]",
        GRAPH_CROSS_ENTROPY, VALUES(x, i), ATTRS(AXIS(0)));
    REFUSED("attention: q float32[4, 6], k float32[7, 6], v float16[4, 6]", GRAPH_ATTENTION,
            VALUES(x, k, half), NULL, 0);
    REFUSED("attention: the mask float32[5] is neither bool nor float32 with the last axes of "
            "float32[4, 7]",
            GRAPH_ATTENTION, VALUES(x, k, k, s), NULL, 0);
    REFUSED("operand 3 is float32[]; after q, k, v come a mask and an integer scalar",
            GRAPH_ATTENTION, VALUES(x, k, k, n), NULL, 0);
    REFUSED("rope: the last axis of float32[4, 6] holds pairs", GRAPH_ROPE, VALUES(x, i),
            ATTRS(AXIS(1)));
    REFUSED("rope: positions float32[5]; axis 0 of float32[4, 6] takes as many integers",
            GRAPH_ROPE, VALUES(x, s), ATTRS(AXIS(0)));
    uint32_t bytes = test_input(g, T(U8, 3, 68)), none = test_input(g, SCALAR(U8));
#define FORMAT(name) graph_string(SHOAL_ATTR_FORMAT, name)
#define DTYPE(name) graph_int(SHOAL_ATTR_DTYPE, SHOAL_##name)
    REFUSED("dequantize: unknown block format 'q9_9'; known: q8_0 q4_0 q4_1 q4_k q6_k",
            GRAPH_DEQUANTIZE, VALUES(bytes), ATTRS(FORMAT("q9_9"), DTYPE(F32)));
    REFUSED("the last axis of uint8[3, 68] holds no whole blocks of q4_0, which take 18 bytes each",
            GRAPH_DEQUANTIZE, VALUES(bytes), ATTRS(FORMAT("q4_0"), DTYPE(F32)));
    REFUSED("takes the bytes of blocks, uint8 with an axis of them, not float32[4, 6]",
            GRAPH_DEQUANTIZE, VALUES(x), ATTRS(FORMAT("q8_0"), DTYPE(F32)));
    REFUSED("not uint8[]", GRAPH_DEQUANTIZE, VALUES(none), ATTRS(FORMAT("q8_0"), DTYPE(F32)));
    REFUSED("gives float32, float16 or bfloat16, not float64", GRAPH_DEQUANTIZE, VALUES(bytes),
            ATTRS(FORMAT("q8_0"), DTYPE(F64)));
    REFUSED("dequantize: attribute format is missing", GRAPH_DEQUANTIZE, VALUES(bytes),
            ATTRS(DTYPE(F32)));
    REFUSED("attribute interleaved is 2; it is 0 or 1", GRAPH_ROPE, VALUES(x, i),
            ATTRS(AXIS(0), graph_bool(SHOAL_ATTR_INTERLEAVED, 2)));
    graph_destroy(&g);
}

static void gradients(void **state) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 4, 6)), y = test_input(g, T(F32, 4, 5)),
             i = test_input(g, T(I32, 4)), s = test_input(g, T(F32, 4)),
             k = test_input(g, T(F32, 7, 6)), v = test_input(g, T(F32, 7, 5)), out;
    REFUSED("softmax_gradient: the gradient float32[4, 6] and float32[4, 5] differ; they are of "
            "one type",
            GRAPH_SOFTMAX_GRADIENT, VALUES(x, y), ATTRS(AXIS(1)));
    REFUSED("rms_norm_gradient: works on floating-point numbers, not on int32[4]",
            GRAPH_RMS_NORM_GRADIENT, VALUES(i, i), ATTRS(AXIS(0), EPSILON(0)));
    REFUSED("layer_norm_gradient: the scale must be float32[6], not float32[4]",
            GRAPH_LAYER_NORM_GRADIENT, VALUES(x, x, s), ATTRS(AXIS(1), EPSILON(0)));
    REFUSED("layer_norm_scale_gradient: epsilon -1 is negative", GRAPH_LAYER_NORM_SCALE_GRADIENT,
            VALUES(x, x), ATTRS(AXIS(1), EPSILON(-1)));
    REFUSED("rms_norm_scale_gradient: dimension: axis 2 is not in float32[4, 6]",
            GRAPH_RMS_NORM_SCALE_GRADIENT, VALUES(x, x), ATTRS(AXIS(2), EPSILON(0)));
    REFUSED("cross_entropy_gradient: the gradient for float32[4, 6] must be float32[4], not "
            "float32[4, 5]",
            GRAPH_CROSS_ENTROPY_GRADIENT, VALUES(y, x, i), ATTRS(AXIS(1)));
    REFUSED("cross_entropy_gradient: the labels of float32[4, 6] must be integers of the shape "
            "without axis 1, not float32[4]",
            GRAPH_CROSS_ENTROPY_GRADIENT, VALUES(s, x, s), ATTRS(AXIS(1)));
    REFUSED("gelu_gradient: shapes differ: float32[4, 6] and float32[4, 5]", GRAPH_GELU_GRADIENT,
            VALUES(x, y), NULL, 0);
    REFUSED("attention_gradient: operand 1 is float32[4, 6]; attention's result is float32[4, 5]",
            GRAPH_ATTENTION_GRADIENT, VALUES(y, x, x, k, v), NULL, 0);
    REFUSED("attention: q float32[4, 6], k float32[7, 5], v float32[7, 5]",
            GRAPH_ATTENTION_GRADIENT, VALUES(y, y, x, v, v), NULL, 0);
    ok(call_all(g, GRAPH_ATTENTION_GRADIENT, VALUES(y, y, x, k, v), NULL, 0, &out));
    const shoal_value *made = graph_data(g)->values + out;
    assert_true(base_type_equal(&made[0].type, &graph_data(g)->values[x].type));
    assert_true(base_type_equal(&made[1].type, &graph_data(g)->values[k].type));
    assert_true(base_type_equal(&made[2].type, &graph_data(g)->values[v].type));
    graph_destroy(&g);
}

static void indices(void **state) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 4, 6)), zero = test_input(g, SCALAR(F32));
    uint32_t i = test_input(g, T(I32, 3)), at = test_input(g, SCALAR(I64)),
             flag = test_input(g, T(BOOL, 2));
    REFUSED("pad: the padding of float32[4, 6] must be float32[], not int64[]", GRAPH_PAD,
            VALUES(x, at),
            ATTRS(INTS(EDGE_PADDING_LOW, 0, 0), INTS(EDGE_PADDING_HIGH, 0, 0),
                  INTS(INTERIOR_PADDING, 0, 0)));
    REFUSED("pad: -3 below, -2 above and 0 between leave no extent for axis 0", GRAPH_PAD,
            VALUES(x, zero),
            ATTRS(INTS(EDGE_PADDING_LOW, -3, 0), INTS(EDGE_PADDING_HIGH, -2, 0),
                  INTS(INTERIOR_PADDING, 0, 0)));
    REFUSED("pad: interior_padding -1 of axis 1 is negative", GRAPH_PAD, VALUES(x, zero),
            ATTRS(INTS(EDGE_PADDING_LOW, 0, 0), INTS(EDGE_PADDING_HIGH, 0, 0),
                  INTS(INTERIOR_PADDING, 0, -1)));
    REFUSED("reverse: dimensions: axis 1 is named twice", GRAPH_REVERSE, VALUES(x),
            ATTRS(INTS(DIMENSIONS, 1, 1)));
    REFUSED("in_range: the indices are float32[4, 6]; they must be integers", GRAPH_IN_RANGE,
            VALUES(x), ATTRS(INTS(START_INDICES, 0), INTS(LIMIT_INDICES, 3)));
    REFUSED("in_range: 2 start_indices and 1 limit_indices; one each is needed", GRAPH_IN_RANGE,
            VALUES(at), ATTRS(INTS(START_INDICES, 0, 0), INTS(LIMIT_INDICES, 3)));
    REFUSED("dynamic_slice: 1 indices; float32[4, 6] has 2 axes", GRAPH_DYNAMIC_SLICE,
            VALUES(x, at), ATTRS(INTS(SLICE_SIZES, 1, 1)));
    REFUSED("dynamic_slice: slice_sizes: 7 is not 0 to 6, as axis 1", GRAPH_DYNAMIC_SLICE,
            VALUES(x, at, at), ATTRS(INTS(SLICE_SIZES, 1, 7)));
    REFUSED("operand 2 is float32[]; indices are integer scalars of one type", GRAPH_DYNAMIC_SLICE,
            VALUES(x, at, zero), ATTRS(INTS(SLICE_SIZES, 1, 1)));
    REFUSED("int32[3] is no part of float32[4, 6]", GRAPH_DYNAMIC_UPDATE_SLICE,
            VALUES(x, i, at, at), NULL, 0);
#define GATHER(offset, collapsed, map, vector, ...)                                                \
    ATTRS(offset, collapsed, NONE(OPERAND_BATCHING_DIMS), NONE(START_INDICES_BATCHING_DIMS), map,  \
          graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, vector), INTS(SLICE_SIZES, __VA_ARGS__))
    REFUSED("gather: the indices are bool[2]; they must be integers", GRAPH_GATHER, VALUES(x, flag),
            GATHER(INTS(OFFSET_DIMS, 1), INTS(COLLAPSED_SLICE_DIMS, 0), INTS(START_INDEX_MAP, 0), 1,
                   1, 6));
    REFUSED("gather: index_vector_dim 2 is not 0 to 1", GRAPH_GATHER, VALUES(x, i),
            GATHER(INTS(OFFSET_DIMS, 1), INTS(COLLAPSED_SLICE_DIMS, 0), INTS(START_INDEX_MAP, 0), 2,
                   1, 6));
    REFUSED("gather: an index has 3 numbers, start_index_map names 1 axes", GRAPH_GATHER,
            VALUES(x, i),
            GATHER(INTS(OFFSET_DIMS, 0), INTS(COLLAPSED_SLICE_DIMS, 0), INTS(START_INDEX_MAP, 0), 0,
                   1, 6));
    REFUSED("gather: offset_dims names 2 axes; 1 of float32[4, 6] remain", GRAPH_GATHER,
            VALUES(x, i),
            GATHER(INTS(OFFSET_DIMS, 0, 1), INTS(COLLAPSED_SLICE_DIMS, 0), INTS(START_INDEX_MAP, 0),
                   1, 1, 6));
    REFUSED("slice_sizes: 2 for axis 0, which is not in the result; it must be 1", GRAPH_GATHER,
            VALUES(x, i),
            GATHER(INTS(OFFSET_DIMS, 1), INTS(COLLAPSED_SLICE_DIMS, 0), INTS(START_INDEX_MAP, 0), 1,
                   2, 6));
    REFUSED("bitcast_convert: the last axis of float32[4, 6] must have 2 for float64",
            GRAPH_BITCAST_CONVERT, VALUES(x), ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_F64)));
    REFUSED("clamp: the maximum is float32[]; it must be int32[3] or int32[]", GRAPH_CLAMP,
            VALUES(i, i, zero), NULL, 0);
    REFUSED("reduce_precision: 0 bits of exponent", GRAPH_REDUCE_PRECISION, VALUES(x),
            ATTRS(graph_int(SHOAL_ATTR_EXPONENT_BITS, 0), graph_int(SHOAL_ATTR_MANTISSA_BITS, 1)));
    REFUSED("top_k: k is 7; the last axis of float32[4, 6] has 6", GRAPH_TOP_K, VALUES(x),
            ATTRS(graph_int(SHOAL_ATTR_K, 7)));
    REFUSED("argmax: indices are int32 or int64, not float32", GRAPH_ARGMAX, VALUES(x),
            ATTRS(AXIS(0), graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)));
    REFUSED("random: rng_distribution 'EVEN' is none of", GRAPH_RANDOM, VALUES(at),
            ATTRS(graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, "EVEN"), INTS(SHAPE, 2),
                  graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)));
    REFUSED("random: BITS makes no float32[2]", GRAPH_RANDOM, VALUES(at),
            ATTRS(graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, "BITS"), INTS(SHAPE, 2),
                  graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)));
    REFUSED("random: start_indices and whole_shape must place float32[2] inside", GRAPH_RANDOM,
            VALUES(at),
            ATTRS(graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, "NORMAL"), INTS(SHAPE, 2),
                  graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32), INTS(START_INDICES, 1),
                  INTS(WHOLE_SHAPE, 2)));
    graph_destroy(&g);
}

static void bodies(void **state) {
    graph *g, *body;
    uint32_t out;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 4, 6)), i = test_input(g, T(I32, 4)),
             u = test_input(g, T(F32, 4, 5));
    uint32_t flag = test_input(g, SCALAR(BOOL));
    const shoal_graph *add, *regions[2];
    ok(graph_add_body(g, GRAPH_ADD, SHOAL_F32, &add));
    shoal_attr scatter[] = {INTS(UPDATE_WINDOW_DIMS, 1),
                            INTS(INSERTED_WINDOW_DIMS, 0),
                            NONE(INPUT_BATCHING_DIMS),
                            NONE(SCATTER_INDICES_BATCHING_DIMS),
                            INTS(SCATTER_DIMS_TO_OPERAND_DIMS, 0),
                            graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, 1)};
    ok(graph_add(g, GRAPH_SCATTER, (uint32_t[]){x, i, u}, 3, scatter, 6, &add, 1, &out));
    fails(SHOAL_INVALID, "scatter: updates float32[4, 6] do not fit: input float32[4, 5]",
          graph_add(g, GRAPH_SCATTER, (uint32_t[]){u, i, x}, 3, scatter, 6, &add, 1, &out));
    shoal_attr axis = AXIS(1);
    fails(SHOAL_INVALID, "sort: the comparator must take 2 scalars",
          graph_add(g, GRAPH_SORT, &x, 1, &axis, 1, &add, 1, &out));
    fails(SHOAL_INVALID, "sort: operands of different shapes: float32[4, 6] and float32[4, 5]",
          graph_add(g, GRAPH_SORT, (uint32_t[]){x, u}, 2, &axis, 1, &add, 1, &out));
    ok(graph_add_region(g, &body));
    ok(graph_add_output(body, test_input(body, T(F32, 4, 6))));
    regions[0] = graph_data(body);
    regions[1] = add;
    ok(graph_add(g, GRAPH_CASE, (uint32_t[]){test_constant(g, SCALAR(I32), &(int32_t){0}, 4), x}, 2,
                 NULL, 0, regions, 1, &out));
    fails(SHOAL_INVALID,
          "if: body 1 takes 2 arguments and returns 1 values; they do not fit 1 operands",
          graph_add(g, GRAPH_IF, (uint32_t[]){flag, x}, 2, NULL, 0, regions, 2, &out));
    fails(SHOAL_INVALID, "if: operand 0 is float32[4, 6], not bool[]",
          graph_add(g, GRAPH_IF, (uint32_t[]){x, x}, 2, NULL, 0, regions, 2, &out));
    fails(SHOAL_INVALID, "while: body 0 returns float32[4, 6] as value 0, not bool[]",
          graph_add(g, GRAPH_WHILE, &x, 1, NULL, 0, (const shoal_graph *[]){regions[0], regions[0]},
                    2, &out));
    fails(SHOAL_INVALID, "case: takes one or more regions",
          graph_add(g, GRAPH_CASE, (uint32_t[]){flag}, 1, NULL, 0, NULL, 0, &out));
    graph_destroy(&g);
}

static void windows(void **state) {
    graph *g;
    uint32_t out;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 1, 5, 3)), k = test_input(g, T(F32, 2, 3, 4));
    shoal_attr attrs[] = {INTS(WINDOW_STRIDES, 2),
                          INTS(PADDING, 1, 0),
                          INTS(LHS_DILATION, 1),
                          INTS(RHS_DILATION, 1),
                          INTS(WINDOW_REVERSAL, 0),
                          INTS(CONVOLUTION_DIMENSIONS, 0, 2, 1, 1, 2, 0, 0, 2, 1),
                          graph_int(SHOAL_ATTR_FEATURE_GROUP_COUNT, 1),
                          graph_int(SHOAL_ATTR_BATCH_GROUP_COUNT, 1)};
    ok(call_all(g, GRAPH_CONVOLUTION, VALUES(x, k), attrs, 8, &out));
    char text[BASE_TYPE_TEXT];
    assert_string_equal(base_type_text(&graph_data(g)->values[out].type, text), "float32[1, 3, 4]");
    attrs[6].u.i = 2;
    fails(SHOAL_INVALID,
          "float32[1, 5, 3] and float32[2, 3, 4] do not fit 2 feature and 1 batch groups",
          call_all(g, GRAPH_CONVOLUTION, VALUES(x, k), attrs, 8, &out));
    attrs[6].u.i = 1;
    attrs[0] = INTS(WINDOW_STRIDES, 0);
    fails(SHOAL_INVALID, "convolution: window_strides: 0 is below 1",
          call_all(g, GRAPH_CONVOLUTION, VALUES(x, k), attrs, 8, &out));
    attrs[0] = INTS(WINDOW_STRIDES, 1);
    attrs[5] = INTS(CONVOLUTION_DIMENSIONS, 0, 2, 2, 1, 2, 0, 0, 2, 1);
    fails(SHOAL_INVALID, "dimension numbers: axis 2 is named twice or is not below 3",
          call_all(g, GRAPH_CONVOLUTION, VALUES(x, k), attrs, 8, &out));
    graph_destroy(&g);
}

/* ---- decompositions ---- */

static bool only_softmax(void *context, const shoal_graph *g, const shoal_node *node) {
    ++*(unsigned *)context;
    return node->op == GRAPH_SOFTMAX;
}

static unsigned count_of(const shoal_graph *g, uint16_t op) {
    unsigned n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) n += g->nodes[i].op == op;
    return n;
}

/* What a device supports stays; the rest goes, in bodies always; types, inputs, outputs, locations
 * remain. */
static void decompose(void **state) {
    graph *g, *body, *out;
    uint32_t value;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F16, 4, 6)), initial = test_input(g, SCALAR(F16));
    ok(graph_at(g, "here.c:5", NULL));
    uint32_t y = test_add(g, GRAPH_SOFTMAX, VALUES(x), ATTRS(AXIS(1)));
    y = test_add(g, GRAPH_GELU, VALUES(y), NULL, 0);
    ok(graph_add_region(g, &body));
    uint32_t a = test_input(body, SCALAR(F16)), b = test_input(body, SCALAR(F16));
    uint32_t s = test_add(body, GRAPH_SILU, VALUES(b), NULL, 0);
    ok(graph_add_output(body, test_add(body, GRAPH_ADD, VALUES(a, s), NULL, 0)));
    const shoal_graph *region = graph_data(body);
    shoal_attr axes = INTS(DIMENSIONS, 0);
    ok(graph_add(g, GRAPH_REDUCE, (uint32_t[]){y, initial}, 2, &axes, 1, &region, 1, &value));
    ok(graph_add_output(g, value));
    ok(graph_add_output(g, y));
    unsigned asked = 0;
    assert_true(graph_has_composites(graph_data(g), only_softmax, &asked));
    ok(graph_new(0, &out));
    asked = 0;
    ok(graph_decompose(graph_data(g), only_softmax, &asked, out));
    ok(graph_verify(graph_data(out)));
    const shoal_graph *d = graph_data(out);
    assert_int_equal(asked, 2);
    assert_int_equal(count_of(d, GRAPH_SOFTMAX), 1);
    assert_int_equal(count_of(d, GRAPH_GELU), 0);
    assert_int_equal(count_of(d, GRAPH_ERF), 1);
    assert_int_equal(d->n_inputs, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(base_type_equal(&d->values[d->outputs[i]].type,
                                    &graph_data(g)->values[graph_data(g)->outputs[i]].type));
    const shoal_node *last = &d->nodes[d->n_nodes - 1];
    assert_int_equal(last->op, GRAPH_REDUCE);
    assert_int_equal(count_of(last->regions[0], GRAPH_SILU), 0);
    assert_int_equal(count_of(last->regions[0], GRAPH_LOGISTIC), 1);
    for (uint32_t i = 0; i < d->n_nodes; i++) assert_string_equal(d->nodes[i].location, "here.c:5");
    assert_false(graph_has_composites(d, only_softmax, &asked));
    graph_destroy(&out);
    graph_destroy(&g);
}

static void sources(void **state) {
    static const int64_t strides[] = {40, 4}, shape[] = {7, 5}, close[] = {3, 4};
    shoal_type out;
    uint16_t n;
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_STRIDES, strides, 2),
                          graph_ints(SHOAL_ATTR_SHAPE, shape, 2),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32),
                          graph_string(SHOAL_ATTR_FILE, TEST_DIGEST),
                          graph_int(SHOAL_ATTR_FILE_BYTES, 100 + 6 * 40 + 5 * 4),
                          graph_int(SHOAL_ATTR_OFFSET, 100),
                          graph_string(SHOAL_ATTR_NAME, "a file")};
    graph_call call = {.op = GRAPH_SOURCE, .attrs = attrs, .n_attrs = 7};
    ok(graph_infer(&call, &out, 1, &n)); /* to the last byte */
    const shoal_attr good[] = {attrs[0], attrs[1], attrs[2], attrs[3],
                               attrs[4], attrs[5], attrs[6]};
    const struct {
        int at;
        shoal_attr attr;
        const char *says;
    } bad[] = {
        {0, graph_ints(SHOAL_ATTR_STRIDES, strides, 1), "source: 1 strides for float32[7, 5]"},
        {0, graph_ints(SHOAL_ATTR_STRIDES, close, 2), "a stride of 3 bytes along axis 0"},
        {3, graph_string(SHOAL_ATTR_FILE, "00"), "file '00' is no digest"},
        {3,
         graph_string(SHOAL_ATTR_FILE, "../../../../../../../../../../../../../../../../../../../"
                                       "../../etc/passwd"),
         "is no digest"},
        {4, graph_int(SHOAL_ATTR_FILE_BYTES, 100 + 6 * 40 + 5 * 4 - 1), "does not lie in a file"},
        {4, graph_int(SHOAL_ATTR_FILE_BYTES, -1), "does not lie in a file of -1"},
        {5, graph_int(SHOAL_ATTR_OFFSET, -1), "at byte -1 does not lie"},
        {5, graph_int(SHOAL_ATTR_OFFSET, INT64_MAX), "does not lie in a file"},
        {6, graph_string(SHOAL_ATTR_NAME, "a\nb"), "a letter (0a) that is not printed"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(attrs, good, sizeof good);
        attrs[bad[i].at] = bad[i].attr;
        fails(SHOAL_INVALID, bad[i].says, graph_infer(&call, &out, 1, &n));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites), cmocka_unit_test(gradients), cmocka_unit_test(indices),
        cmocka_unit_test(bodies),     cmocka_unit_test(windows),   cmocka_unit_test(decompose),
        cmocka_unit_test(sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
