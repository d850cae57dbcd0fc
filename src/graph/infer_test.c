/* Shape rules: the result of every operation, and the text of every refusal. */
#include "graph/testing.h"

/* Infers; on success writes the results' types as text, separated by "; ". */
static shoal_status infer_with(uint16_t op, const shoal_type *in, size_t n_in,
                               const shoal_attr *attrs, size_t n_attrs,
                               const shoal_graph *const *regions, uint16_t n_regions, char *text) {
    shoal_type outputs[GRAPH_MAX_OUTPUTS];
    uint16_t n;
    graph_call call = {.op = op,
                       .n_inputs = (uint32_t)n_in,
                       .inputs = in,
                       .n_attrs = (uint16_t)n_attrs,
                       .attrs = attrs,
                       .n_regions = n_regions,
                       .regions = regions};
    SHOAL_TRY(graph_infer(&call, outputs, GRAPH_MAX_OUTPUTS, &n));
    text[0] = 0;
    for (uint16_t i = 0; i < n; i++) {
        if (i) strcat(text, "; ");
        base_type_text(&outputs[i], text + strlen(text));
    }
    return SHOAL_OK;
}

#define TYPES(...)                                                                                 \
    ((const shoal_type[]){__VA_ARGS__}), sizeof((shoal_type[]){__VA_ARGS__}) / sizeof(shoal_type)
/* gives("float32[3]", ADD, (types of the operands), attributes in rising order of key) */
#define gives(expected, op, types, ...)                                                            \
    do {                                                                                           \
        char text[2048];                                                                           \
        ok(infer_with(GRAPH_##op, TYPES types, __VA_ARGS__, NULL, 0, text));                       \
        assert_string_equal(text, expected);                                                       \
    } while (0)
#define refuses(message, op, types, ...)                                                           \
    do {                                                                                           \
        char text[2048];                                                                           \
        fails(SHOAL_INVALID, message,                                                              \
              infer_with(GRAPH_##op, TYPES types, __VA_ARGS__, NULL, 0, text));                    \
    } while (0)
#define PLAIN NULL, 0

static void elementwise(void **state) {
    for (uint16_t op = GRAPH_NEGATE; op <= GRAPH_LOGISTIC; op++) {
        char text[2048];
        shoal_type in = T(F16, 2, 0, 3);
        ok(infer_with(op, &in, 1, PLAIN, NULL, 0, text));
        assert_string_equal(text, "float16[2, 0, 3]");
        in = T(U8, 2);
        fails(SHOAL_INVALID, ", not on uint8[2]", infer_with(op, &in, 1, PLAIN, NULL, 0, text));
    }
    for (uint16_t op = GRAPH_ADD; op <= GRAPH_POWER; op++) {
        char text[2048];
        shoal_type in[] = {SCALAR(I64), SCALAR(I64), SCALAR(I32)};
        ok(infer_with(op, in, 2, PLAIN, NULL, 0, text));
        assert_string_equal(text, "int64[]");
        fails(SHOAL_INVALID, "element types differ: int64[] and int32[]; convert one of them",
              infer_with(op, in + 1, 2, PLAIN, NULL, 0, text));
        shoal_type flags[] = {T(BOOL, 2), T(BOOL, 2)};
        bool numbers = op == GRAPH_SUBTRACT || op == GRAPH_DIVIDE || op == GRAPH_POWER;
        if (numbers)
            fails(SHOAL_INVALID, "works on numbers, not on bool[2]",
                  infer_with(op, flags, 2, PLAIN, NULL, 0, text));
        else
            ok(infer_with(op, flags, 2, PLAIN, NULL, 0, text));
    }
    gives("int8[3]", ABS, (T(I8, 3)), PLAIN);
    refuses("sqrt: works on floating-point numbers, not on int32[3]", SQRT, (T(I32, 3)), PLAIN);
    refuses("negate: works on signed integers and floating-point numbers, not on bool[3]", NEGATE,
            (T(BOOL, 3)), PLAIN);
    refuses("add: shapes differ: float32[2, 3] and float32[3]; broadcast_in_dim makes them equal",
            ADD, (T(F32, 2, 3), T(F32, 3)), PLAIN);
}

static void compare_select_convert(void **state) {
    gives("bool[2, 3]", COMPARE, (T(U16, 2, 3), T(U16, 2, 3)),
          ATTRS(graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "GE")));
    refuses("compare: comparison_direction 'le' is none of EQ, NE, LT, LE, GT, GE", COMPARE,
            (T(U16, 2), T(U16, 2)), ATTRS(graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "le")));
    gives("float32[2]", SELECT, (T(BOOL, 2), T(F32, 2), T(F32, 2)), PLAIN);
    gives("float32[2]", SELECT, (SCALAR(BOOL), T(F32, 2), T(F32, 2)), PLAIN);
    refuses("select: the predicate is bool[3]; it must be bool[2] or bool[]", SELECT,
            (T(BOOL, 3), T(F32, 2), T(F32, 2)), PLAIN);
    refuses("select: the predicate is int8[2]; it must be bool[2] or bool[]", SELECT,
            (T(I8, 2), T(F32, 2), T(F32, 2)), PLAIN);
    refuses("select: shapes differ: float32[2] and float32[3]", SELECT,
            (SCALAR(BOOL), T(F32, 2), T(F32, 3)), PLAIN);
    gives("bfloat16[0, 4]", CONVERT, (T(BOOL, 0, 4)),
          ATTRS(graph_int(SHOAL_ATTR_DTYPE, SHOAL_BF16)));
    refuses("convert: element type 99 does not exist", CONVERT, (T(BOOL, 4)),
            ATTRS(graph_int(SHOAL_ATTR_DTYPE, 99)));
}

#define CONSTANT_OF(bytes, count, dtype, ...)                                                      \
    ATTRS(graph_bytes(SHOAL_ATTR_VALUE, bytes, count), INTS(SHAPE, __VA_ARGS__),                   \
          graph_int(SHOAL_ATTR_DTYPE, SHOAL_##dtype))
#define IOTA_OF(axis, dtype, ...)                                                                  \
    ATTRS(graph_int(SHOAL_ATTR_IOTA_DIMENSION, axis), INTS(SHAPE, __VA_ARGS__),                    \
          graph_int(SHOAL_ATTR_DTYPE, SHOAL_##dtype))

static void creation(void **state) {
    const char bytes[24] = {0, 1, 2};
    char text[2048];
#define MAKES(op, ...) infer_with(GRAPH_##op, NULL, 0, __VA_ARGS__, NULL, 0, text)
    ok(MAKES(CONSTANT, CONSTANT_OF(bytes, 24, F32, 2, 3)));
    assert_string_equal(text, "float32[2, 3]");
    ok(MAKES(CONSTANT, CONSTANT_OF(bytes, 4, F32, 1000000, 3)));
    ok(MAKES(CONSTANT, CONSTANT_OF(bytes, 0, F32, 0, 3)));
    ok(MAKES(CONSTANT, CONSTANT_OF(bytes, 2, BOOL, 2)));
    fails(SHOAL_INVALID, "constant: float32[2, 3] takes 24 bytes, or 4 for all, not 20",
          MAKES(CONSTANT, CONSTANT_OF(bytes, 20, F32, 2, 3)));
    fails(SHOAL_INVALID, "constant: byte 2 of bool[3] is 2; bool is 0 or 1",
          MAKES(CONSTANT, CONSTANT_OF(bytes, 3, BOOL, 3)));
    fails(SHOAL_INVALID, "constant: shape float32[-1] has a negative dimension",
          MAKES(CONSTANT, CONSTANT_OF(bytes, 4, F32, -1)));
    fails(SHOAL_INVALID, "constant: shape has rank 9; the limit is 8",
          MAKES(CONSTANT, CONSTANT_OF(bytes, 4, F32, 1, 1, 1, 1, 1, 1, 1, 1, 1)));
    ok(MAKES(IOTA, IOTA_OF(1, U8, 2, 300)));
    assert_string_equal(text, "uint8[2, 300]");
    fails(SHOAL_INVALID, "iota: iota_dimension: axis 2 is not in int32[2, 3]",
          MAKES(IOTA, IOTA_OF(2, I32, 2, 3)));
    fails(SHOAL_INVALID, "iota: makes numbers, not bool[2]", MAKES(IOTA, IOTA_OF(0, BOOL, 2)));
    fails(SHOAL_INVALID, "iota: start_indices has 1 numbers; int32[2, 3] has 2 axes",
          MAKES(IOTA, ATTRS(INTS(START_INDICES, 4), graph_int(SHOAL_ATTR_IOTA_DIMENSION, 1),
                            INTS(SHAPE, 2, 3), graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32))));
}

static void shapes(void **state) {
    gives("float32[4, 2, 3]", BROADCAST_IN_DIM, (T(F32, 2, 1)),
          ATTRS(INTS(BROADCAST_DIMENSIONS, 1, 2), INTS(SHAPE, 4, 2, 3)));
    gives("float32[0]", BROADCAST_IN_DIM, (T(F32, 1)),
          ATTRS(INTS(BROADCAST_DIMENSIONS, 0), INTS(SHAPE, 0)));
    refuses("broadcast_in_dim: float32[2] axis 0 has 2, float32[3] axis 0 has 3; it must be equal "
            "or 1",
            BROADCAST_IN_DIM, (T(F32, 2)), ATTRS(INTS(BROADCAST_DIMENSIONS, 0), INTS(SHAPE, 3)));
    refuses("broadcast_in_dim: broadcast_dimensions names 1 axes; float32[2, 2] has 2",
            BROADCAST_IN_DIM, (T(F32, 2, 2)),
            ATTRS(INTS(BROADCAST_DIMENSIONS, 0), INTS(SHAPE, 2, 2)));
    refuses("broadcast_in_dim: broadcast_dimensions: axis 1 is named twice", BROADCAST_IN_DIM,
            (T(F32, 2, 2)), ATTRS(INTS(BROADCAST_DIMENSIONS, 1, 1), INTS(SHAPE, 2, 2)));
    gives("float32[0, 5]", RESHAPE, (T(F32, 3, 0)), ATTRS(INTS(SHAPE, 0, 5)));
    gives("float32[]", RESHAPE, (T(F32, 1, 1)), ATTRS(NONE(SHAPE)));
    refuses("reshape: float32[2, 3] has 6 elements, float32[7] has 7", RESHAPE, (T(F32, 2, 3)),
            ATTRS(INTS(SHAPE, 7)));
    gives("float32[4, 2, 3]", TRANSPOSE, (T(F32, 2, 3, 4)), ATTRS(INTS(PERMUTATION, 2, 0, 1)));
    refuses("transpose: permutation names 1 axes; float32[2, 3] has 2", TRANSPOSE, (T(F32, 2, 3)),
            ATTRS(INTS(PERMUTATION, 1)));
    refuses("transpose: permutation: axis -1 is not in float32[2, 3]", TRANSPOSE, (T(F32, 2, 3)),
            ATTRS(INTS(PERMUTATION, 0, -1)));
}

#define RANGE(from, to, step)                                                                      \
    ATTRS(INTS(START_INDICES, from), INTS(LIMIT_INDICES, to), INTS(STRIDES, step))

static void ranges(void **state) {
    gives("float32[4]", SLICE, (T(F32, 10)), RANGE(0, 10, 3)); /* 0 3 6 9 */
    gives("float32[3]", SLICE, (T(F32, 10)), RANGE(1, 9, 3));  /* 1 4 7 */
    gives("float32[0]", SLICE, (T(F32, 10)), RANGE(10, 10, 3));
    gives("float32[1]", SLICE, (T(F32, 10)), RANGE(0, 10, INT64_MAX));
    refuses("slice: 3:2 is not a range of float32[10] axis 0", SLICE, (T(F32, 10)), RANGE(3, 2, 1));
    refuses("slice: 0:11 is not a range of float32[10] axis 0", SLICE, (T(F32, 10)),
            RANGE(0, 11, 1));
    refuses("slice: -1:2 is not a range", SLICE, (T(F32, 10)), RANGE(-1, 2, 1));
    refuses("slice: stride 0 of axis 0 is not positive", SLICE, (T(F32, 10)), RANGE(0, 2, 0));
    refuses("slice: start_indices has 1 numbers; float32[2, 3] has 2 axes", SLICE, (T(F32, 2, 3)),
            RANGE(0, 2, 1));
    gives("float32[2, 5]", CONCATENATE, (T(F32, 2, 3), T(F32, 2, 0), T(F32, 2, 2)),
          ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 1)));
    refuses("concatenate: operands 0 and 1 differ in more than axis 1: float32[2, 3] and "
            "float32[3, 3]",
            CONCATENATE, (T(F32, 2, 3), T(F32, 3, 3)), ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 1)));
    refuses("concatenate: operands 0 and 1 differ", CONCATENATE, (T(F32, 2), T(F64, 2)),
            ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 0)));
    refuses("concatenate: dimension: axis 0 is not in float32[]", CONCATENATE, (SCALAR(F32)),
            ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 0)));
    refuses("concatenate: axis 0 is over 2^63", CONCATENATE,
            (T(BOOL, INT64_MAX), T(BOOL, INT64_MAX)), ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 0)));
    refuses("concatenate: the result: shape float64[1152921504606846976] is larger", CONCATENATE,
            (T(F64, INT64_C(1) << 59), T(F64, INT64_C(1) << 59)),
            ATTRS(graph_int(SHOAL_ATTR_DIMENSION, 0)));
}

static void reduce(void **state) {
    graph *g;
    const shoal_graph *add, *wrong;
    char text[2048];
    ok(graph_new(0, &g));
    ok(graph_add_body(g, GRAPH_ADD, SHOAL_F32, &add));
    ok(graph_add_body(g, GRAPH_ADD, SHOAL_F64, &wrong));
    const shoal_type in[] = {T(F32, 2, 3, 0), SCALAR(F32)};
    ok(infer_with(GRAPH_REDUCE, in, 2, ATTRS(INTS(DIMENSIONS, 2, 0)), &add, 1, text));
    assert_string_equal(text, "float32[3]");
    ok(infer_with(GRAPH_REDUCE, in, 2, ATTRS(NONE(DIMENSIONS)), &add, 1, text));
    assert_string_equal(text, "float32[2, 3, 0]");
    fails(SHOAL_INVALID, "reduce: dimensions: axis 3 is not in float32[2, 3, 0]",
          infer_with(GRAPH_REDUCE, in, 2, ATTRS(INTS(DIMENSIONS, 3)), &add, 1, text));
    fails(SHOAL_INVALID, "reduce: the body must take two float32[] and return one",
          infer_with(GRAPH_REDUCE, in, 2, ATTRS(INTS(DIMENSIONS, 1)), &wrong, 1, text));
    fails(SHOAL_INVALID, "reduce: takes 1 regions, not 0",
          infer_with(GRAPH_REDUCE, in, 2, ATTRS(INTS(DIMENSIONS, 1)), NULL, 0, text));
    const shoal_type bad[] = {T(F32, 2), T(F32, 1)};
    fails(SHOAL_INVALID,
          "reduce: the initial value of float32[2] must be float32[], not "
          "float32[1]",
          infer_with(GRAPH_REDUCE, bad, 2, ATTRS(INTS(DIMENSIONS, 0)), &add, 1, text));
    graph_destroy(&g);
}

#define MATRIX                                                                                     \
    ATTRS(NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),                            \
          INTS(LHS_CONTRACTING_DIMENSIONS, 1), INTS(RHS_CONTRACTING_DIMENSIONS, 0))

static void dot_general(void **state) {
    gives("float32[2, 5]", DOT_GENERAL, (T(F32, 2, 3), T(F32, 3, 5)), MATRIX);
    gives("float32[2, 5]", DOT_GENERAL, (T(F32, 2, 0), T(F32, 0, 5)), MATRIX);
    /* Batch, free axes of lhs, free axes of rhs. */
    gives("float32[7, 2, 5, 6]", DOT_GENERAL, (T(F32, 2, 7, 3), T(F32, 5, 3, 6, 7)),
          ATTRS(INTS(LHS_BATCHING_DIMENSIONS, 1), INTS(RHS_BATCHING_DIMENSIONS, 3),
                INTS(LHS_CONTRACTING_DIMENSIONS, 2), INTS(RHS_CONTRACTING_DIMENSIONS, 1)));
    refuses("dot_general: contracting dimensions differ: float32[2, 3] axis 1 has 3, "
            "float32[4, 5] axis 0 has 4",
            DOT_GENERAL, (T(F32, 2, 3), T(F32, 4, 5)), MATRIX);
    refuses("dot_general: element types differ: float32[2, 3] and float64[3, 5]", DOT_GENERAL,
            (T(F32, 2, 3), T(F64, 3, 5)), MATRIX);
    refuses("dot_general: 1 lhs and 0 rhs batching dimensions; they go in pairs", DOT_GENERAL,
            (T(F32, 2), T(F32, 2)),
            ATTRS(INTS(LHS_BATCHING_DIMENSIONS, 0), NONE(RHS_BATCHING_DIMENSIONS),
                  NONE(LHS_CONTRACTING_DIMENSIONS), NONE(RHS_CONTRACTING_DIMENSIONS)));
    refuses("dot_general: axis 0 of float32[2] is both batching and contracting", DOT_GENERAL,
            (T(F32, 2), T(F32, 2)),
            ATTRS(INTS(LHS_BATCHING_DIMENSIONS, 0), INTS(RHS_BATCHING_DIMENSIONS, 0),
                  INTS(LHS_CONTRACTING_DIMENSIONS, 0), INTS(RHS_CONTRACTING_DIMENSIONS, 0)));
    refuses("has a rank over 8", DOT_GENERAL, (T(F32, 1, 1, 1, 1, 1), T(F32, 1, 1, 1, 1, 1)),
            ATTRS(NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
                  NONE(LHS_CONTRACTING_DIMENSIONS), NONE(RHS_CONTRACTING_DIMENSIONS)));
}

static void place(void **state) {
    gives("float32[2, 3]", PLACE, (T(F32, 2, 3)),
          ATTRS(INTS(CUTS, 1, 2, 0, 2, 0, 1, 3), INTS(SLOTS, 4, 5)));
    gives("float32[]", PLACE, (SCALAR(F32)), ATTRS(NONE(CUTS), INTS(SLOTS, 4, 5)));
    refuses("place: 3 slots for 2 boxes; give a multiple", PLACE, (T(F32, 2)),
            ATTRS(INTS(CUTS, 2, 0, 1, 2), INTS(SLOTS, 4, 5, 6)));
    refuses("place: cuts: axis 0 falls from 2 to 1", PLACE, (T(F32, 3)),
            ATTRS(INTS(CUTS, 3, 0, 2, 1, 3), INTS(SLOTS, 1, 2, 3)));
    refuses("place: cuts: axis 0 goes from 0 to 2, in float32[3] from 0 to 3", PLACE, (T(F32, 3)),
            ATTRS(INTS(CUTS, 1, 0, 2), INTS(SLOTS, 1)));
    refuses("place: cuts ends in the points of axis 0", PLACE, (T(F32, 3)),
            ATTRS(INTS(CUTS, 4000, 0), INTS(SLOTS, 1)));
    refuses("place: slot 4 is named twice", PLACE, (T(F32, 3)),
            ATTRS(INTS(CUTS, 1, 0, 3), INTS(SLOTS, 4, 4)));
}

/* One move into result 0 of 4 elements, by kind, result, start and size. */
#define MOVE(kind, result, from, size) SHOAL_MOVE_##kind, 0, result, 2, 0, from, size
#define EXCHANGE_OF(moves)                                                                         \
    ATTRS(graph_int(SHOAL_ATTR_CHANNEL, 0), moves, INTS(TYPES, SHOAL_F32, 1, 4))

static void exchange(void **state) {
    gives("float32[4]", EXCHANGE, (T(F32, 3)),
          EXCHANGE_OF(
              INTS(MOVES, MOVE(RECEIVE, 0, 0, 3), MOVE(LOCAL, 0, 3, 1), MOVE(LOCAL, 0, 2, 0))));
    refuses("exchange: the moves cover result 0 only in part", EXCHANGE, (T(F32, 3)),
            EXCHANGE_OF(INTS(MOVES, MOVE(RECEIVE, 0, 0, 3))));
    refuses("exchange: moves 0 and 1 overlap in result 0", EXCHANGE, (T(F32, 3)),
            EXCHANGE_OF(INTS(MOVES, MOVE(RECEIVE, 0, 0, 2), MOVE(RECEIVE, 0, 1, 2))));
    refuses("exchange: the box of move 0 is not inside result 0", EXCHANGE, (T(F32, 3)),
            EXCHANGE_OF(INTS(MOVES, MOVE(RECEIVE, 0, 1, 4))));
    refuses("exchange: the box of move 0 is not inside the operand", EXCHANGE, (T(F32, 3)),
            EXCHANGE_OF(INTS(MOVES, MOVE(LOCAL, 0, 0, 4))));
    refuses("exchange: move 0: there is no result 1", EXCHANGE, (T(F32, 3)),
            EXCHANGE_OF(INTS(MOVES, MOVE(RECEIVE, 1, 0, 4))));
    refuses("exchange: moves has 3 numbers: 7 per move", EXCHANGE, (T(F32, 3)),
            EXCHANGE_OF(INTS(MOVES, 1, 2, 3)));
    refuses("exchange: result 0 differs from the others in element type or rank", EXCHANGE,
            (T(F32, 3, 1)), EXCHANGE_OF(NONE(MOVES)));
    refuses("exchange: types: result 0 is no type", EXCHANGE, (T(F32, 3)),
            ATTRS(graph_int(SHOAL_ATTR_CHANNEL, 0), NONE(MOVES), INTS(TYPES, SHOAL_F32, 2, 4)));
}

/* What graph_infer checks before any rule is asked. */
static void gates(void **state) {
    refuses("add: takes 2 operands, not 1", ADD, (T(F32, 2)), PLAIN);
    refuses("transpose: attribute permutation is missing", TRANSPOSE, (T(F32, 2)), PLAIN);
    refuses("add: attribute permutation does not belong to it", ADD, (T(F32, 2), T(F32, 2)),
            ATTRS(INTS(PERMUTATION, 0)));
    refuses("transpose: attribute permutation is given twice", TRANSPOSE, (T(F32, 2)),
            ATTRS(INTS(PERMUTATION, 0), INTS(PERMUTATION, 0)));
    refuses("reshape: attribute shape has the wrong kind", RESHAPE, (T(F32, 2)),
            ATTRS(graph_int(SHOAL_ATTR_SHAPE, 2)));
    refuses("add: operand 1: shape float32[-2] has a negative dimension", ADD,
            (T(F32, 2), T(F32, -2)), PLAIN);
    refuses("add: operand 0: rank 9 is over the limit of 8", ADD,
            (((shoal_type){.rank = 9}), T(F32, 2)), PLAIN);
    char text[2048];
    fails(SHOAL_INVALID, "operation number 60000 does not exist",
          infer_with(60000, NULL, 0, PLAIN, NULL, 0, text));
}

static void costs(void **state) {
    const shoal_type in[] = {T(F32, 2, 3), T(F32, 3, 5)}, out = T(F32, 2, 5);
    const shoal_attr attrs[] = {NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
                                INTS(LHS_CONTRACTING_DIMENSIONS, 1),
                                INTS(RHS_CONTRACTING_DIMENSIONS, 0)};
    graph_call call = {GRAPH_DOT_GENERAL, 2, in, 4, attrs, 0, NULL};
    assert_true(graph_cost(&call, &out, 1) == 2.0 * 2 * 3 * 5);
    call = (graph_call){.op = GRAPH_REDUCE, .n_inputs = 2, .inputs = in};
    assert_true(graph_cost(&call, &out, 1) == 6);
    call = (graph_call){.op = GRAPH_NEGATE, .n_inputs = 1, .inputs = in};
    assert_true(graph_cost(&call, &out, 1) == 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise), cmocka_unit_test(compare_select_convert),
        cmocka_unit_test(creation),    cmocka_unit_test(shapes),
        cmocka_unit_test(ranges),      cmocka_unit_test(reduce),
        cmocka_unit_test(dot_general), cmocka_unit_test(place),
        cmocka_unit_test(exchange),    cmocka_unit_test(gates),
        cmocka_unit_test(costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
