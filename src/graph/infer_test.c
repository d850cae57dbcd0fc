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

static void dot_general(void **state) {
    gives("float32[2, 5]", DOT_GENERAL, (T(F32, 2, 3), T(F32, 3, 5)),
          ATTRS(NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
                INTS(LHS_CONTRACTING_DIMENSIONS, 1), INTS(RHS_CONTRACTING_DIMENSIONS, 0)));
    refuses("dot_general: contracting dimensions differ: float32[2, 3] axis 1 has 3, "
            "float32[4, 5] axis 0 has 4",
            DOT_GENERAL, (T(F32, 2, 3), T(F32, 4, 5)),
            ATTRS(NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
                  INTS(LHS_CONTRACTING_DIMENSIONS, 1), INTS(RHS_CONTRACTING_DIMENSIONS, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dot_general)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
