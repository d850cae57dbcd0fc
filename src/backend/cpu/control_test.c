/* What a loop carries and changes in part stays where it is: its rounds take no memory, and no
 * time, for the rest of it. The results are the reference's. */
#include "backend/cpu/run_testing.h"
#include "base/str.h"
#include "graph/stablehlo/stablehlo.h"

#include <string.h>

enum { ROWS = 512, SIDE = 64, BYTES = ROWS * SIDE * 4 };

/* A loop over the rows of %a1, whose body is `body`; %a2 is a row, %i the round, %z 0. */
static graph *loop(const char *body) {
    base_str text = {0};
    base_str_format(
        &text,
        "func.func @main(%%x: tensor<512x64xf32>, %%u: tensor<1x64xf32>) -> (tensor<512x64xf32>, "
        "tensor<1x64xf32>) {\n"
        "  %%0 = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %%1:3 = \"stablehlo.while\"(%%0, %%x, %%u) ({\n"
        "    ^bb0(%%i: tensor<i32>, %%a1: tensor<512x64xf32>, %%a2: tensor<1x64xf32>):\n"
        "      %%n = stablehlo.constant dense<512> : tensor<i32>\n"
        "      %%more = stablehlo.compare LT, %%i, %%n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "      \"stablehlo.return\"(%%more) : (tensor<i1>) -> ()\n"
        "  }, {\n"
        "    ^bb0(%%i: tensor<i32>, %%a1: tensor<512x64xf32>, %%a2: tensor<1x64xf32>):\n"
        "      %%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "      %%one = stablehlo.constant dense<1> : tensor<i32>\n"
        "      %%next = stablehlo.add %%i, %%one : tensor<i32>\n"
        "%s"
        "      \"stablehlo.return\"(%%next, %%y, %%v) : (tensor<i32>, tensor<512x64xf32>, "
        "tensor<1x64xf32>) -> ()\n"
        "  }) : (tensor<i32>, tensor<512x64xf32>, tensor<1x64xf32>) -> (tensor<i32>, "
        "tensor<512x64xf32>, tensor<1x64xf32>)\n"
        "  return %%1#1, %%1#2 : tensor<512x64xf32>, tensor<1x64xf32>\n"
        "}\n",
        body);
    graph *g;
    const hlo_import_options options = {0};
    OK(hlo_import_text(text.data, text.size, &options, &g));
    base_str_fini(&text);
    return g;
}

#define TAKE(out, x)                                                                               \
    "%" out " = \"stablehlo.dynamic_slice\"(%" x ", %i, %z) {slice_sizes = array<i64: 1, 64>} : "  \
    "(tensor<512x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>\n"
#define PUT(out, x, u)                                                                             \
    "%" out " = \"stablehlo.dynamic_update_slice\"(%" x ", %" u ", %i, %z) : "                     \
    "(tensor<512x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<512x64xf32>\n"
#define SUM(out, a, b) "%" out " = stablehlo.add %" a ", %" b " : tensor<1x64xf32>\n"
#define ALL(out, a) "%" out " = stablehlo.multiply %" a ", %" a " : tensor<512x64xf32>\n"

#define DOT(a, b)                                                                                  \
    "\"stablehlo.dot_general\"(%" a ", %" b ") {dot_dimension_numbers = "                          \
    "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : "       \
    "(tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>\n"

static void test_rows(void **state) {
    static const struct {
        const char *body;
        bool stays;
    } cases[] = {
        {PUT("y", "a1", "a2") SUM("v", "a2", "a2"), true},
        {TAKE("r", "a1") SUM("s", "r", "a2") PUT("y", "a1", "s") SUM("v", "a2", "r"), true},
        {PUT("y", "a1", "a2") TAKE("r", "a1") SUM("v", "r", "a2"), true}, /* read as it was */
        {PUT("y", "a1", "a2") TAKE("r", "y") SUM("v", "r", "a2"), true},
        {PUT("w", "a1", "a2") TAKE("r", "w") TAKE("q", "a1") SUM("v", "r", "q") ALL("y", "w"),
         false},
        {PUT("w", "a1", "a2") ALL("y", "a1") TAKE("v", "w"), false},
    };
    float x[ROWS * SIDE], u[SIDE];
    for (int i = 0; i < ROWS * SIDE; i++) x[i] = (float)(i % 17) / 16;
    for (int i = 0; i < SIDE; i++) u[i] = (float)(i % 5) / 4;
    void *in[] = {x, u};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        graph *g = loop(cases[c].body);
        float *is[2], *must[2];
        test_run_new("ref", 1, graph_data(g), in, must);
        size_t workspace = test_run_new("cpu", 1, graph_data(g), in, is);
        if (memcmp(is[0], must[0], BYTES) || memcmp(is[1], must[1], sizeof u))
            fail_msg("case %zu differs", c);
        if (cases[c].stays && workspace >= BYTES)
            fail_msg("case %zu: a workspace of %zu bytes", c, workspace);
        for (int i = 0; i < 2; i++) {
            free(is[i]);
            free(must[i]);
        }
        graph_destroy(&g);
    }
}

/* An update that goes behind the last that reads its operand takes nobody else with it. */
static void test_order(void **state) {
    static const char text[] =
        "func.func @main(%x: tensor<64x64xf32>, %u: tensor<1x64xf32>, %a: tensor<64x64xf32>) -> "
        "(tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {\n"
        "%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "%up = \"stablehlo.dynamic_update_slice\"(%x, %u, %z, %z) : (tensor<64x64xf32>, "
        "tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<64x64xf32>\n"
        "%p = " DOT("a", "a") "%t = stablehlo.add %p, %x : tensor<64x64xf32>\n"
                              "%q = " DOT("t", "t") "%w = " DOT(
                                  "q", "x") "return %up, %t, %q, %w : tensor<64x64xf32>, "
                                            "tensor<64x64xf32>, tensor<64x64xf32>, "
                                            "tensor<64x64xf32>\n}\n";
    static float x[SIDE * SIDE], u[SIDE], a[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        x[i] = (float)(i % 7 - 3);
        a[i] = (float)(i % 5 - 2);
    }
    void *in[] = {x, u, a};
    float *is[4], *must[4];
    graph *g;
    const hlo_import_options options = {0};
    OK(hlo_import_text(text, sizeof text - 1, &options, &g));
    test_run_new("ref", 1, graph_data(g), in, must);
    test_run_new("cpu", 1, graph_data(g), in, is);
    for (int i = 0; i < 4; i++) {
        if (memcmp(is[i], must[i], sizeof x)) fail_msg("result %d differs", i);
        free(is[i]);
        free(must[i]);
    }
    graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
