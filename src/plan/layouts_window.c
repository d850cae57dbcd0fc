/* Graphs of one operation for layouts_test.c: windows, convolutions and control flow. */
#include "plan/lower_testing.h"

static shoal_attr list(shoal_attr_key key, const int64_t *numbers, size_t n) {
    return graph_ints(key, numbers, n);
}
#define INTS(key, ...)                                                                             \
    list(SHOAL_ATTR_##key, (const int64_t[]){0, __VA_ARGS__} + 1,                                  \
         sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1)
#define INT(key, number) graph_int(SHOAL_ATTR_##key, number)

/* ---- windows ---- */

static const shoal_graph *scalar_body(graph *g, uint16_t op) {
    graph *body;
    OK(graph_add_region(g, &body));
    uint32_t in[] = {input(body, SHOAL_F32, 0, NULL), input(body, SHOAL_F32, 0, NULL)};
    shoal_attr direction = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "GE");
    OK(graph_add_output(body, add(body, op, in, 2, &direction, op == GRAPH_COMPARE)));
    return graph_data(body);
}

static uint32_t build_reduce_window(graph *g) {
    uint32_t out, in[] = {input(g, SHOAL_F32, 3, (int64_t[]){extent(), 1 + extent(), 1 + extent()}),
                          rand() % 2 ? scalar(g, 0) : input(g, SHOAL_F32, 0, NULL)};
    int64_t stride = 1 + rand() % 2, gap = 1 + rand() % 2;
    shoal_attr attrs[] = {INTS(WINDOW_DIMENSIONS, 1, 2, 1), INTS(WINDOW_STRIDES, 1, stride, 1),
                          INTS(BASE_DILATIONS, 1, gap, 1), INTS(WINDOW_DILATIONS, 1, 3 - gap, 1),
                          INTS(PADDING, 0, 0, 1, rand() % 2, 0, 0)};
    const shoal_graph *body = scalar_body(g, rand() % 2 ? GRAPH_ADD : GRAPH_MAXIMUM);
    OK(graph_add(g, GRAPH_REDUCE_WINDOW, in, 2, attrs, 5, &body, 1, &out));
    return out;
}

static uint32_t build_select_and_scatter(graph *g) {
    int64_t n = extent(), m = 2 * (1 + extent() / 2);
    uint32_t out, in[] = {input(g, SHOAL_F32, 2, (int64_t[]){n, m}),
                          input(g, SHOAL_F32, 2, (int64_t[]){n, m / 2}), scalar(g, 0)};
    shoal_attr attrs[] = {INTS(WINDOW_DIMENSIONS, 1, 2), INTS(WINDOW_STRIDES, 1, 2),
                          INTS(PADDING, 0, 0, 0, 0)};
    const shoal_graph *bodies[] = {scalar_body(g, GRAPH_COMPARE), scalar_body(g, GRAPH_ADD)};
    OK(graph_add(g, GRAPH_SELECT_AND_SCATTER, in, 3, attrs, 3, bodies, 2, &out));
    return out;
}

/* NHWC by HWIO, plain or with groups of features or batches. */
static uint32_t build_convolution(graph *g) {
    int64_t features = 1 + rand() % 3, batches = features > 1 ? 1 : 1 + rand() % 2;
    int64_t n = batches * extent(), h = 2 + extent(), c = 1 + extent() / 3, o = 2 * features;
    uint32_t in[] = {input(g, SHOAL_F32, 4, (int64_t[]){n, h, 3, features * c}),
                     input(g, SHOAL_F32, 4, (int64_t[]){2, 1, c, o * batches})};
    int64_t stride = 1 + rand() % 2;
    shoal_attr attrs[] = {INTS(WINDOW_STRIDES, stride, 1),
                          INTS(PADDING, rand() % 2, 1, 0, 0),
                          INTS(LHS_DILATION, 1 + rand() % 2, 1),
                          INTS(RHS_DILATION, 1, 1 + rand() % 2),
                          INTS(WINDOW_REVERSAL, rand() % 2, 0),
                          INTS(CONVOLUTION_DIMENSIONS, 0, 3, 1, 2, 2, 3, 0, 1, 0, 3, 1, 2),
                          INT(FEATURE_GROUP_COUNT, features),
                          INT(BATCH_GROUP_COUNT, batches)};
    return add(g, GRAPH_CONVOLUTION, in, 2, attrs, 8);
}

/* ---- control flow ---- */

static graph *body_of(graph *g, const int64_t *dims, bool counts, uint32_t *in) {
    graph *body;
    uint32_t n = 0;
    OK(graph_add_region(g, &body));
    if (counts) in[n++] = input(body, SHOAL_I32, 0, NULL);
    in[n++] = input(body, SHOAL_F32, 2, dims);
    in[n++] = input(body, SHOAL_F32, 1, dims);
    return body;
}

static uint32_t number(graph *g, int32_t value) {
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, &value, sizeof value),
                          list(SHOAL_ATTR_SHAPE, NULL, 0), INT(DTYPE, SHOAL_I32)};
    return add(g, GRAPH_CONSTANT, NULL, 0, attrs, 3);
}

/* A count that rises to 4, a square that takes the column along each time, and the column. */
static uint32_t build_while(graph *g) {
    int64_t n = extent(), dims[] = {n, n}, which = 0;
    uint32_t of[3], out,
        in[] = {input(g, SHOAL_I32, 0, NULL), input(g, SHOAL_F32, 2, dims),
                input(g, SHOAL_F32, 1, dims)};
    shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    graph *condition = body_of(g, dims, true, of);
    uint32_t compared_with[] = {of[0], number(condition, 4)};
    OK(graph_add_output(condition, add(condition, GRAPH_COMPARE, compared_with, 2, &less, 1)));
    graph *body = body_of(g, dims, true, of);
    shoal_attr wide[] = {list(SHOAL_ATTR_BROADCAST_DIMENSIONS, &which, 1),
                         list(SHOAL_ATTR_SHAPE, dims, 2)};
    uint32_t columns = add(body, GRAPH_BROADCAST_IN_DIM, &of[2], 1, wide, 2);
    OK(graph_add_output(body,
                        add(body, GRAPH_ADD, (uint32_t[]){of[0], number(body, 1)}, 2, NULL, 0)));
    OK(graph_add_output(body, add(body, GRAPH_ADD, (uint32_t[]){of[1], columns}, 2, NULL, 0)));
    OK(graph_add_output(body, of[2]));
    const shoal_graph *bodies[] = {graph_data(condition), graph_data(body)};
    OK(graph_add(g, GRAPH_WHILE, in, 3, NULL, 0, bodies, 2, &out));
    return out;
}

static uint32_t choose(graph *g, uint16_t op, uint32_t selector, const uint16_t *ops,
                       uint16_t n_bodies) {
    int64_t dims[] = {extent(), extent()};
    uint32_t of[2], out,
        in[] = {selector, input(g, SHOAL_F32, 2, dims), input(g, SHOAL_F32, 1, dims)};
    const shoal_graph *bodies[3];
    for (uint16_t i = 0; i < n_bodies; i++) {
        graph *body = body_of(g, dims, false, of);
        for (int k = 0; k < 2; k++)
            OK(graph_add_output(body, add(body, ops[i], &of[k], 1, NULL, 0)));
        bodies[i] = graph_data(body);
    }
    OK(graph_add(g, op, in, 3, NULL, 0, bodies, n_bodies, &out));
    return out;
}

static uint32_t build_if(graph *g) {
    shoal_attr less = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, "LT");
    uint32_t of[] = {input(g, SHOAL_F32, 0, NULL), scalar(g, 0)};
    return choose(g, GRAPH_IF, add(g, GRAPH_COMPARE, of, 2, &less, 1),
                  (const uint16_t[]){GRAPH_NEGATE, GRAPH_ABS}, 2);
}

static uint32_t build_case(graph *g) {
    return choose(g, GRAPH_CASE, input(g, SHOAL_I32, 0, NULL),
                  (const uint16_t[]){GRAPH_NEGATE, GRAPH_ABS, GRAPH_SIGN}, 3);
}

const layouts_case layouts_window[] = {
    {GRAPH_REDUCE_WINDOW, build_reduce_window},
    {GRAPH_SELECT_AND_SCATTER, build_select_and_scatter},
    {GRAPH_CONVOLUTION, build_convolution},
    {GRAPH_WHILE, build_while},
    {GRAPH_IF, build_if},
    {GRAPH_CASE, build_case},
    {0, NULL},
};
