/* Each operation under pairs of layouts of its operands, on pools of 1 to 5 slots, gives what the
 * whole graph gives. */
#include "base/testing.h"
#include "plan/lower_testing.h"

/* float32, or int32 where the operation does not take that. */
static shoal_dtype dtype_of(uint16_t op) {
    shoal_type types[] = {{.dtype = SHOAL_F32}, {.dtype = SHOAL_F32}}, out;
    uint16_t n;
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    graph_call call = {op, graph_op(op)->max_inputs, types, op == GRAPH_COMPARE, &attr, 0, NULL};
    return graph_infer(&call, &out, 1, &n) ? SHOAL_I32 : SHOAL_F32;
}

static uint32_t unary(graph *g, uint16_t op) {
    uint32_t x = input(g, dtype_of(op), 2, (int64_t[]){extent(), extent()});
    return add(g, op, &x, 1, NULL, 0);
}

static uint32_t binary(graph *g, uint16_t op) {
    int64_t dims[] = {extent(), 1 + extent(), 2};
    uint32_t in[] = {input(g, dtype_of(op), 3, dims), input(g, dtype_of(op), 3, dims)};
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    return add(g, op, in, 2, &attr, op == GRAPH_COMPARE);
}

static uint32_t build_select(graph *g) {
    int64_t dims[] = {extent(), extent()};
    uint32_t x = input(g, SHOAL_F32, 2, dims), y = input(g, SHOAL_F32, 2, dims);
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "GE");
    uint32_t which = add(g, GRAPH_COMPARE, (uint32_t[]){x, y}, 2, &attr, 1);
    return add(g, GRAPH_SELECT, (uint32_t[]){which, x, y}, 3, NULL, 0);
}

static uint32_t build_convert(graph *g) {
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){extent(), extent()});
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, rand() % 2 ? SHOAL_F64 : SHOAL_I8);
    return add(g, GRAPH_CONVERT, &x, 1, &attr, 1);
}

static uint32_t build_constant(graph *g) {
    float numbers[64];
    int64_t dims[] = {extent() % 8, 1 + extent() % 7};
    bool splat = rand() % 2;
    size_t n = splat ? 1 : (size_t)(dims[0] * dims[1]);
    uint32_t x = input(g, SHOAL_F32, 2, dims);
    for (int i = 0; i < 64; i++) numbers[i] = (float)(i % 13);
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, numbers, n * sizeof *numbers),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, 2),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    uint32_t c = add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3);
    return rand() % 4 ? add(g, GRAPH_ADD, (uint32_t[]){x, c}, 2, NULL, 0) : c;
}

static uint32_t build_iota(graph *g) {
    int64_t dims[] = {extent(), extent()};
    uint32_t x = input(g, SHOAL_F32, 2, dims);
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, rand() % 2),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, 2),
                          graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)};
    uint32_t i = add(g, GRAPH_IOTA, NULL, 0, attrs, 3);
    return rand() % 4 ? add(g, GRAPH_MULTIPLY, (uint32_t[]){x, i}, 2, NULL, 0) : i;
}

static uint32_t build_broadcast(graph *g) {
    int64_t n = extent(), m = extent(), to[] = {m, n, 3}, which[] = {1, 2};
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){n, rand() % 2 ? 1 : 3});
    uint32_t y = input(g, SHOAL_F32, 3, to);
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, which, 2),
                          graph_ints(SHOAL_ATTR_SHAPE, to, 3)};
    uint32_t b = add(g, GRAPH_BROADCAST_IN_DIM, &x, 1, attrs, 2);
    return rand() % 2 ? add(g, GRAPH_ADD, (uint32_t[]){b, y}, 2, NULL, 0) : b;
}

static uint32_t build_reshape(graph *g) {
    int64_t n = extent(), m = 1 + extent();
    int64_t from[][3] = {{n, 2 * m, 3}, {n, 2, 3 * m}, {2 * n, m, 1}, {4, 3 * n, 2}};
    int64_t to[][4] = {{n, m, 2, 3}, {n, 6 * m, 1, 1}, {n, 2, 1, m}, {2, 2, n, 6}};
    int which = rand() % 4;
    uint32_t x = input(g, SHOAL_F32, 3, from[which]);
    shoal_attr attr = graph_ints(SHOAL_ATTR_SHAPE, to[which], 4);
    return add(g, GRAPH_RESHAPE, &x, 1, &attr, 1);
}

static uint32_t build_transpose(graph *g) {
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){extent(), extent(), 1 + extent()});
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, (int64_t[]){2, 0, 1}, 3);
    return add(g, GRAPH_TRANSPOSE, &x, 1, &attr, 1);
}

static uint32_t build_slice(graph *g) {
    int64_t n = 4 + extent(), m = extent();
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){n, m});
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, (int64_t[]){1 + rand() % 3, 0}, 2),
                          graph_ints(SHOAL_ATTR_LIMIT_INDICES, (int64_t[]){n - rand() % 2, m}, 2),
                          graph_ints(SHOAL_ATTR_STRIDES, (int64_t[]){1 + rand() % 2, 1}, 2)};
    return add(g, GRAPH_SLICE, &x, 1, attrs, 3);
}

static uint32_t build_concatenate(graph *g) {
    int64_t n = extent(), axis = rand() % 2;
    int64_t a[] = {n, n}, b[] = {n, n};
    b[axis] = extent();
    uint32_t in[] = {input(g, SHOAL_F32, 2, a), input(g, SHOAL_F32, 2, b)};
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    return add(g, GRAPH_CONCATENATE, in, 2, &attr, 1);
}

/* Sums and largest elements, from an identity, from another number, and from an input. */
static uint32_t build_reduce(graph *g) {
    static const int64_t dimensions[][2] = {{0}, {1}, {0, 2}, {1, 2}};
    static const size_t n[] = {1, 1, 2, 2};
    int which = rand() % 4, from = rand() % 3;
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){extent(), extent(), 1 + extent() / 3});
    uint32_t initial = from == 0   ? scalar(g, 0)
                       : from == 1 ? scalar(g, 2)
                                   : input(g, SHOAL_F32, 0, NULL);
    return reduce(g, x, initial, rand() % 3 ? GRAPH_ADD : GRAPH_MAXIMUM, dimensions[which],
                  n[which]);
}

static uint32_t build_dot(graph *g) {
    int64_t m = extent(), k = extent(), n = extent(), b = 1 + extent() / 3;
    if (rand() % 2) {
        uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){m, k});
        return dot(g, x, input(g, SHOAL_F32, 2, (int64_t[]){k, n}), 1, 0, false);
    }
    uint32_t x = input(g, SHOAL_F32, 3, (int64_t[]){b, m, k});
    return dot(g, x, input(g, SHOAL_F32, 3, (int64_t[]){b, n, k}), 2, 2, true);
}

/* A composite along one axis of a tensor: its operands and attributes by its name. */
static uint32_t build_along(graph *g, uint16_t op) {
    int64_t dims[] = {1 + extent() / 2, 1 + extent() / 2, 1 + extent() / 2}, axis = rand() % 3;
    uint32_t n = op == GRAPH_LAYER_NORM ? 3 : op == GRAPH_RMS_NORM ? 2 : 1;
    uint32_t in[3] = {input(g, SHOAL_F32, 3, dims)};
    for (uint32_t i = 1; i < n; i++) in[i] = input(g, SHOAL_F32, 1, &dims[axis]);
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, axis),
                          graph_float(SHOAL_ATTR_EPSILON, 0.5)};
    return add(g, op, in, n, attrs, n > 1 ? 2 : 1);
}
static uint32_t build_softmax(graph *g) { return build_along(g, GRAPH_SOFTMAX); }
static uint32_t build_log_softmax(graph *g) { return build_along(g, GRAPH_LOG_SOFTMAX); }
static uint32_t build_rms_norm(graph *g) { return build_along(g, GRAPH_RMS_NORM); }
static uint32_t build_layer_norm(graph *g) { return build_along(g, GRAPH_LAYER_NORM); }

static uint32_t build_cross_entropy(graph *g) {
    int64_t dims[] = {extent(), 4, 1 + extent() / 2};
    uint32_t in[] = {input(g, SHOAL_F32, 3, dims),
                     input(g, SHOAL_I32, 2, (int64_t[]){dims[0], dims[2]})};
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, 1),
                          graph_int(SHOAL_ATTR_IGNORE_INDEX, -1)};
    return add(g, GRAPH_CROSS_ENTROPY, in, 2, attrs, 2);
}

/* With heads, or a group of them; causal; a mask of which some axes are 1; a length. in: first
 * `given` operands of the result's type. */
static uint32_t build_attending(graph *g, uint16_t op, uint32_t given) {
    int64_t b = 1 + extent() / 3, h = 1 + extent() / 3, s = extent(), t = 1 + extent();
    bool group = rand() % 2, masked = rand() % 2;
    int64_t q[] = {b, h, s, 4}, k[] = {b, h, t, 4}, mask[] = {rand() % 2 ? h : 1, s, t};
    if (group) k[1] = t, k[2] = 4;
    uint32_t in[7], n = 0;
    while (n < given) in[n++] = input(g, SHOAL_F32, 4, q);
    in[n++] = input(g, SHOAL_F32, 4, q);
    in[n++] = input(g, SHOAL_F32, group ? 3 : 4, k);
    in[n++] = input(g, SHOAL_F32, group ? 3 : 4, k);
    if (masked) in[n++] = input(g, SHOAL_F32, 3, mask);
    if (rand() % 2) in[n++] = input(g, SHOAL_I32, 0, NULL);
    shoal_attr causal = graph_int(SHOAL_ATTR_CAUSAL, rand() % 3);
    return add(g, op, in, n, &causal, rand() % 2);
}
static uint32_t build_attention(graph *g) { return build_attending(g, GRAPH_ATTENTION, 0); }
static uint32_t build_attention_gradient(graph *g) {
    return build_attending(g, GRAPH_ATTENTION_GRADIENT, 2);
}

static uint32_t build_rows(graph *g, uint16_t op) {
    int64_t dims[] = {1 + extent() / 2, 1 + extent() / 2, 1 + extent() / 2};
    int64_t axis = rand() % 3;
    uint32_t in[3] = {input(g, SHOAL_F32, 3, dims), input(g, SHOAL_F32, 3, dims)}, n = 2;
    bool scaled = op == GRAPH_RMS_NORM_GRADIENT || op == GRAPH_LAYER_NORM_GRADIENT;
    if (scaled && rand() % 2) in[n++] = input(g, SHOAL_F32, 1, &dims[axis]);
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, axis),
                          graph_float(SHOAL_ATTR_EPSILON, 0.5)};
    return add(g, op, in, n, attrs, op == GRAPH_SOFTMAX_GRADIENT ? 1 : 2);
}
static uint32_t build_softmax_gradient(graph *g) { return build_rows(g, GRAPH_SOFTMAX_GRADIENT); }
static uint32_t build_rms_norm_gradient(graph *g) { return build_rows(g, GRAPH_RMS_NORM_GRADIENT); }
static uint32_t build_layer_norm_gradient(graph *g) {
    return build_rows(g, GRAPH_LAYER_NORM_GRADIENT);
}

static uint32_t build_rms_norm_scale_gradient(graph *g) {
    return build_rows(g, GRAPH_RMS_NORM_SCALE_GRADIENT);
}
static uint32_t build_layer_norm_scale_gradient(graph *g) {
    return build_rows(g, GRAPH_LAYER_NORM_SCALE_GRADIENT);
}

static uint32_t build_cross_entropy_gradient(graph *g) {
    int64_t dims[] = {extent(), 4, 1 + extent() / 2}, less[] = {dims[0], dims[2]};
    uint32_t in[] = {input(g, SHOAL_F32, 2, less), input(g, SHOAL_F32, 3, dims),
                     input(g, SHOAL_I32, 2, less)};
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, 1),
                          graph_int(SHOAL_ATTR_IGNORE_INDEX, -1)};
    return add(g, GRAPH_CROSS_ENTROPY_GRADIENT, in, 3, attrs, 2);
}

static uint32_t build_adam(graph *g) {
    int64_t dims[] = {extent(), 1 + extent() / 2}, numbers = 8;
    uint32_t in[6], n = 0;
    while (n < 4) in[n++] = input(g, SHOAL_F32, 2, dims);
    in[n++] = input(g, SHOAL_F32, 1, &numbers);
    if (rand() % 2) in[n++] = input(g, SHOAL_F32, 2, dims);
    return add(g, GRAPH_ADAM, in, n, NULL, 0);
}

static uint32_t build_rope(graph *g) {
    int64_t dims[] = {1 + extent() / 3, extent(), 6};
    uint32_t in[] = {input(g, SHOAL_F32, 3, dims), input(g, SHOAL_I32, 1, &dims[1])};
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, 1),
                          graph_bool(SHOAL_ATTR_INTERLEAVED, rand() % 2)};
    return add(g, GRAPH_ROPE, in, 2, attrs, 2);
}

static uint32_t build_dequantize(graph *g) {
    const shoal_block_format *format = shoal_block_format_at((uint32_t)rand() % 3);
    int64_t dims[] = {extent(), extent() * format->bytes};
    uint32_t x = input(g, SHOAL_U8, 2, dims);
    shoal_attr attrs[] = {graph_string(SHOAL_ATTR_FORMAT, format->name),
                          graph_int(SHOAL_ATTR_DTYPE, rand() % 2 ? SHOAL_F32 : SHOAL_F16)};
    return add(g, GRAPH_DEQUANTIZE, &x, 1, attrs, 2);
}

/* x placed by rows over the first slot and as many more as there are, then used twice. */
static uint32_t build_place(graph *g) {
    int64_t n = 2 + extent(), m = extent();
    uint32_t x = input(g, SHOAL_F32, 2, (int64_t[]){n, m});
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_CUTS, (int64_t[]){1, 1, 0, n, 0, m}, 6),
                          graph_ints(SHOAL_ATTR_SLOTS, (int64_t[]){10}, 1)};
    uint32_t p = add(g, GRAPH_PLACE, &x, 1, attrs, 2);
    return rand() % 2 ? p : add(g, GRAPH_MULTIPLY, (uint32_t[]){p, x}, 2, NULL, 0);
}

static const layouts_case cases[] = {
    {GRAPH_SELECT, build_select},
    {GRAPH_CONVERT, build_convert},
    {GRAPH_CONSTANT, build_constant},
    {GRAPH_IOTA, build_iota},
    {GRAPH_BROADCAST_IN_DIM, build_broadcast},
    {GRAPH_RESHAPE, build_reshape},
    {GRAPH_TRANSPOSE, build_transpose},
    {GRAPH_SLICE, build_slice},
    {GRAPH_CONCATENATE, build_concatenate},
    {GRAPH_REDUCE, build_reduce},
    {GRAPH_DOT_GENERAL, build_dot},
    {GRAPH_PLACE, build_place},
    {GRAPH_SOFTMAX, build_softmax},
    {GRAPH_LOG_SOFTMAX, build_log_softmax},
    {GRAPH_RMS_NORM, build_rms_norm},
    {GRAPH_LAYER_NORM, build_layer_norm},
    {GRAPH_CROSS_ENTROPY, build_cross_entropy},
    {GRAPH_ATTENTION, build_attention},
    {GRAPH_ROPE, build_rope},
    {GRAPH_DEQUANTIZE, build_dequantize},
    {GRAPH_SOFTMAX_GRADIENT, build_softmax_gradient},
    {GRAPH_RMS_NORM_GRADIENT, build_rms_norm_gradient},
    {GRAPH_LAYER_NORM_GRADIENT, build_layer_norm_gradient},
    {GRAPH_RMS_NORM_SCALE_GRADIENT, build_rms_norm_scale_gradient},
    {GRAPH_LAYER_NORM_SCALE_GRADIENT, build_layer_norm_scale_gradient},
    {GRAPH_CROSS_ENTROPY_GRADIENT, build_cross_entropy_gradient},
    {GRAPH_ATTENTION_GRADIENT, build_attention_gradient},
    {GRAPH_ADAM, build_adam},
    {0, NULL},
};

static uint32_t build(graph *g, uint16_t op, uint32_t (*own)(graph *g)) {
    return own ? own(g) : graph_op(op)->max_inputs == 1 ? unary(g, op) : binary(g, op);
}

/* How often each layout of the first operand was tried with each operation. */
enum { LAYOUTS = AXIS + 3 };
static unsigned tried[GRAPH_OP_BUILT_IN][LAYOUTS];

/* One operation under all pairs of layouts of its first two inputs; the rest at random. */
static void compare_all(uint16_t op, uint32_t (*own)(graph *g), uint32_t compute) {
    const uint32_t step = 2 * STRIDE - 1; /* has no factor in common with LAYOUTS */
    for (uint32_t pair = (op + compute) % step; pair < LAYOUTS * LAYOUTS; pair += step) {
        graph *g;
        OK(graph_new(0, &g));
        uint32_t out = build(g, op, own);
        const shoal_graph *data = graph_data(g);
        const shoal_node *node = &data->nodes[data->values[out].node];
        for (uint16_t o = 0; o < node->n_outputs; o++) OK(graph_add_output(g, out + o));
        plan_layout inputs[8], want;
        const plan_layout *wanted[8] = {NULL};
        bool fine = data->n_inputs > 1 || pair < LAYOUTS;
        for (uint32_t i = 0; i < data->n_inputs && fine; i++) {
            uint32_t layout = i == 0   ? pair % LAYOUTS
                              : i == 1 ? pair / LAYOUTS
                                       : (uint32_t)rand() % COPIES;
            const shoal_type *type = &data->values[data->inputs[i]].type;
            if (i == 1 && type->rank == 0) layout %= COPIES + 1;
            fine = make_layout(type, compute, layout, &inputs[i]);
        }
        uint32_t how = (uint32_t)rand() % LAYOUTS;
        if (fine && rand() % 2 && how != SUMS &&
            make_layout(&data->values[out].type, compute, how, &want))
            wanted[0] = &want;
        if (fine) {
            plan_pool pool = make_pool(compute, rand() % 2 ? SLOW_SLOTS : SLOW_LINKS);
            compare(data, &pool, inputs, wanted);
            tried[op][pair % LAYOUTS]++;
        }
        graph_destroy(&g);
    }
    base_arena_fini(&arena);
}

static void print_coverage(void) {
    static const char *const names[LAYOUTS] = {"client", "one",    "last",   "copies", "grid",
                                               "sums",   "axis 0", "axis 1", "axis 2"};
    for (uint32_t l = 0; l < LAYOUTS; l++) {
        unsigned operations = 0, times = 0;
        for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++) {
            operations += tried[op][l] > 0;
            times += tried[op][l];
        }
        print_message("first operand %-7s %3u operations, %u times\n", names[l], operations, times);
    }
}

/* Every operation has its graphs. */
static void test_operations(void **state) {
    for (uint32_t compute = 1; compute <= MOST_COMPUTE; compute++) {
        for (const layouts_case *c = cases; c->build; c++) compare_all(c->op, c->build, compute);
        for (const layouts_case *c = layouts_index; c->build; c++)
            compare_all(c->op, c->build, compute);
        for (const layouts_case *c = layouts_window; c->build; c++)
            compare_all(c->op, c->build, compute);
    }
    for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++) {
        const char *category = graph_op(op)->category;
        bool plain = !strcmp(category, "unary") || !strcmp(category, "binary") ||
                     !strcmp(category, "compare") || op == GRAPH_SILU || op == GRAPH_GELU ||
                     op == GRAPH_SILU_GRADIENT || op == GRAPH_GELU_GRADIENT;
        for (uint32_t compute = 1; compute <= MOST_COMPUTE && plain; compute++)
            compare_all(op, NULL, compute);
        unsigned times = 0;
        for (uint32_t l = 0; l < LAYOUTS; l++) times += tried[op][l];
        if (op != GRAPH_EXCHANGE && op != GRAPH_SOURCE && !times)
            fail_msg("%s is not tested", shoal_op_name(op));
    }
    print_coverage();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_operations, fresh, finish),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("%llu lowered graphs compared with the whole graph, %llu of them in panels\n",
           (unsigned long long)compared, (unsigned long long)panelled);
    return failed || !panelled;
}
