/* The text of graphs: a golden file, round trips, elements, and input from outside. */
#include "graph/testing.h"

#include "graph/element.h"

static base_str printed(const shoal_graph *g) {
    base_str s;
    base_str_init(&s);
    ok(graph_print(g, &s));
    return s;
}

static void golden(void **state) {
    char path[1024], text[65536];
    snprintf(path, sizeof path, "%s/test/golden/all_operations.mlir", getenv("SHOAL_SOURCE_ROOT"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    graph *g = test_all_operations();
    base_str s = printed(graph_data(g));
    assert_string_equal(s.data, text);
    base_str_fini(&s);
    graph_destroy(&g);
}

static void round_trip(void **state) {
    graph *g = test_all_operations(), *back;
    base_str s = printed(graph_data(g)), a = {0}, b = {0};
    ok(graph_parse(s.data, s.size, 1 << 20, &back));
    ok(graph_verify(graph_data(back)));
    ok(graph_encode(graph_data(g), true, &a));
    ok(graph_encode(graph_data(back), true, &b));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    base_str_fini(&a);
    base_str_fini(&b);
    base_str_fini(&s);
    graph_destroy(&back);
    graph_destroy(&g);
}

static void prints(shoal_dtype dtype, uint64_t bits, const char *expected) {
    base_str s = {0};
    graph_element_print(dtype, &bits, &s);
    assert_string_equal(s.data, expected);
    base_str_fini(&s);
}

static void parses(shoal_dtype dtype, const char *text, uint64_t expected) {
    uint64_t bits = 0;
    assert_true(graph_element_parse(dtype, text, &bits));
    assert_int_equal(bits, expected);
}

/* Bit patterns and decimals as NumPy has them. */
static void elements(void **state) {
    prints(SHOAL_F32, 0x3dcccccd, "1.0e-01");
    prints(SHOAL_F32, 1, "1.4e-45");
    prints(SHOAL_F32, 0x7f7fffff, "3.4028235e+38");
    prints(SHOAL_F32, 0x80000000, "-0.0e+00");
    prints(SHOAL_F32, 0xff800000, "0xFF800000");
    prints(SHOAL_F64, 0x3fb999999999999a, "1.0e-01");
    prints(SHOAL_F64, 1, "4.9e-324");
    prints(SHOAL_F64, 0x7ff8000000000000, "0x7FF8000000000000");
    prints(SHOAL_F16, 0x3555, "3.333e-01");
    prints(SHOAL_F16, 0x7bff, "6.55e+04");
    prints(SHOAL_F16, 1, "6.0e-08");
    prints(SHOAL_BF16, 0x3f81, "1.01e+00");
    prints(SHOAL_I8, 0x80, "-128");
    prints(SHOAL_U8, 0x80, "128");
    prints(SHOAL_I64, UINT64_C(1) << 63, "-9223372036854775808");
    parses(SHOAL_F16, "65504", 0x7bff);
    parses(SHOAL_F16, "65519.9", 0x7bff);
    parses(SHOAL_F16, "2049", 0x6800); /* ties to even */
    parses(SHOAL_F16, "2051", 0x6802);
    parses(SHOAL_F16, "1e-8", 0);
    parses(SHOAL_BF16, "3.14159", 0x4049);
    parses(SHOAL_F32, "-1.5", 0xbfc00000);
    parses(SHOAL_F32, "0x7FC00001", 0x7fc00001);
    parses(SHOAL_U64, "18446744073709551615", UINT64_MAX);
    uint64_t bits;
    assert_false(graph_element_parse(SHOAL_F16, "65520", &bits));
    assert_false(graph_element_parse(SHOAL_F32, "1e39", &bits));
    assert_false(graph_element_parse(SHOAL_F32, "0x7FC0", &bits));
    assert_false(graph_element_parse(SHOAL_F32, "inf", &bits));
    assert_false(graph_element_parse(SHOAL_F32, "nan", &bits));
    assert_false(graph_element_parse(SHOAL_I8, "128", &bits));
    assert_false(graph_element_parse(SHOAL_I8, "1.0", &bits));
    assert_false(graph_element_parse(SHOAL_U8, "-1", &bits));
    assert_false(graph_element_parse(SHOAL_U64, "18446744073709551616", &bits));
    assert_false(graph_element_parse(SHOAL_BOOL, "1", &bits));
}

/* Every element of the 16-bit types, and random ones of the others, come back bit by bit. */
static void elements_come_back(void **state) {
    static const shoal_dtype dtypes[] = {SHOAL_F16, SHOAL_BF16, SHOAL_F32, SHOAL_F64, SHOAL_I16};
    uint64_t random = 2;
    base_str s = {0};
    for (int d = 0; d < 5; d++)
        for (uint32_t i = 0; i < 65536; i++) {
            uint64_t bits = shoal_dtype_size(dtypes[d]) == 2 ? i : test_random(&random), back = 0;
            if (shoal_dtype_size(dtypes[d]) == 4) bits >>= 32;
            base_str_clear(&s);
            graph_element_print(dtypes[d], &bits, &s);
            if (!graph_element_parse(dtypes[d], s.data, &back) || back != bits)
                fail_msg("%llx gave %s gave %llx", (unsigned long long)bits, s.data,
                         (unsigned long long)back);
        }
    base_str_fini(&s);
}

static shoal_status parse(const char *text) {
    graph *g;
    shoal_status status = graph_parse(text, strlen(text), 1 << 20, &g);
    if (status == SHOAL_OK) graph_destroy(&g);
    return status;
}

#define MAIN(types, body) "func.func @main(%x: tensor<2xf32>) -> (" types ") {\n" body "\n}\n"
#define RETURN_X "\"func.return\"(%x) : (tensor<2xf32>) -> ()"
#define NEGATE "\"stablehlo.negate\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"

static void accepted(void **state) {
    ok(parse(MAIN("tensor<2xf32>", "// a comment\n  " RETURN_X)));
    ok(parse("module { " MAIN("tensor<2xf32>", RETURN_X) " }"));
    ok(parse(MAIN("tensor<2xf32>",
                  "%y = \"stablehlo.constant\"() <{value = dense<[1.5, -2]> : tensor<2xf32>}> : "
                  "() -> tensor<2xf32>\n" RETURN_X)));
    ok(parse("func.func public @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> "
             "(tensor<2x4xf32>) {\n%0 = \"stablehlo.dot_general\"(%a, %b) {dot_dimension_numbers = "
             "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} "
             ": (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n\"func.return\"(%0) : "
             "(tensor<2x4xf32>) -> () }"));
}

static void refusals(void **state) {
    fails(SHOAL_FORMAT, "line 1, column 1: expected 'func.func'", parse(""));
    fails(SHOAL_FORMAT, "line 1, column 18: expected a word", parse("func.func @main(%-"));
    fails(SHOAL_FORMAT, "line 1, column 40: the type is stated as float32[3], but is float32[2]",
          parse(MAIN("tensor<3xf32>", RETURN_X)));
    fails(SHOAL_FORMAT, "line 2, column 16: the name is not defined",
          parse(MAIN("tensor<2xf32>", "\"func.return\"(%y) : (tensor<2xf32>) -> ()")));
    fails(SHOAL_FORMAT, "line 2, column 2: the name is defined twice",
          parse(MAIN("tensor<2xf32>", "%x = " NEGATE RETURN_X)));
    fails(SHOAL_FORMAT, "line 2, column 1: there is no operation 'stablehlo.nothing'",
          parse(MAIN("tensor<2xf32>", "\"stablehlo.nothing\"(%x)")));
    fails(SHOAL_FORMAT, "there is no operation 'shoal.negate'",
          parse(MAIN("tensor<2xf32>", "\"shoal.negate\"(%x)")));
    fails(SHOAL_FORMAT, "the results are not all named", parse(MAIN("tensor<2xf32>", NEGATE)));
    fails(SHOAL_INVALID, "line 2, column 6: negate: works on signed integers",
          parse("func.func @main(%x: tensor<ui8>) -> () {\n"
                "%y = \"stablehlo.negate\"(%x) : (tensor<ui8>) -> tensor<ui8>"));
    fails(SHOAL_FORMAT, "the type is stated as float32[3], but is float32[2]",
          parse(MAIN("tensor<2xf32>",
                     "%y = \"stablehlo.negate\"(%x) : (tensor<2xf32>) -> tensor<3xf32>")));
    fails(SHOAL_FORMAT, "more types than values",
          parse(MAIN("tensor<2xf32>",
                     "%y = \"stablehlo.negate\"(%x) : (tensor<2xf32>, tensor<2xf32>) -> ")));
    fails(SHOAL_FORMAT, "element type 'f31' is unknown", parse("func.func @main(%x: tensor<f31>"));
    fails(SHOAL_FORMAT, "the rank is over 8",
          parse("func.func @main(%x: tensor<1x1x1x1x1x1x1x1x1xf32>"));
    fails(SHOAL_INVALID, "larger than 2^63 bytes",
          parse("func.func @main(%x: tensor<9000000000x9000000000xf32>"));
    fails(SHOAL_FORMAT, "the number is over 64 bits",
          parse("func.func @main(%x: tensor<9223372036854775808xf32>"));
    fails(SHOAL_FORMAT, "attribute 'shape' is unknown",
          parse(MAIN("", "%y = \"stablehlo.reshape\"(%x) {shape = array<i64: 2>} : ")));
    fails(SHOAL_FORMAT, "line 3, column 1: expected '\"'", parse(MAIN("tensor<2xf32>", "")));
    fails(SHOAL_FORMAT, "expected the end", parse(MAIN("tensor<2xf32>", RETURN_X) "}"));
}

#define CONSTANT(dense)                                                                            \
    MAIN("tensor<2xf32>",                                                                          \
         "%y = \"stablehlo.constant\"() {value = " dense "} : () -> tensor<2xf32>\n" RETURN_X)

static void malformed_constants(void **state) {
    ok(parse(CONSTANT("dense<1.0> : tensor<2xf32>")));
    fails(SHOAL_FORMAT, "expected ','", parse(CONSTANT("dense<[1.0]> : tensor<2xf32>")));
    fails(SHOAL_FORMAT, "expected ']'", parse(CONSTANT("dense<[1.0, 2.0, 3.0]> : tensor<2xf32>")));
    fails(SHOAL_FORMAT, "fewer elements than the type has",
          parse(CONSTANT("dense<> : tensor<2xf32>")));
    fails(SHOAL_FORMAT, "'true' is no float32",
          parse(CONSTANT("dense<[true, 1.0]> : tensor<2xf32>")));
    fails(SHOAL_FORMAT, "the type is stated as float32[2], but is float64[2]",
          parse(CONSTANT("dense<1.0> : tensor<2xf64>")));
    fails(SHOAL_FORMAT, "fewer elements than the type has",
          parse(CONSTANT("dense<[1.0]> : tensor<4000000000x100xf32>")));
    fails(SHOAL_FORMAT, "the constant does not end",
          parse(MAIN("", "%y = \"stablehlo.constant\"() {value = dense<1.0")));
}

/* Regions inside regions inside …: refused at a depth, not at the end of the stack. */
static void deep_regions(void **state) {
    base_str s = {0};
    base_str_text(&s, "func.func @main(%x: tensor<f32>) -> () {\n");
    for (int i = 0; i < 100000; i++)
        base_str_format(&s, "%%y%d = \"stablehlo.reduce\"(%%x, %%x) ({^bb0(%%x: tensor<f32>):\n",
                        i);
    graph *g;
    fails(SHOAL_FORMAT, "regions are nested deeper than 8", graph_parse(s.data, s.size, 0, &g));
    base_str_fini(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(elements),
        cmocka_unit_test(elements_come_back),
        cmocka_unit_test(accepted),
        cmocka_unit_test(refusals),
        cmocka_unit_test(malformed_constants),
        cmocka_unit_test(deep_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
