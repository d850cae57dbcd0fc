/* Gradients of what runs over windows. That of a convolution is a convolution again: of the
 * result's gradient with the turned kernel for the input, of the input with the result's gradient
 * for the kernel; strides and dilations change places. Notation: places of a result's axis are
 * (dilated input + low + high - dilated kernel) / stride + 1. */
#include "graph/maker.h"
#include "graph/rules.h"

static int64_t dilated(int64_t extent, int64_t dilation) {
    return extent ? (extent - 1) * dilation + 1 : 0;
}

static uint32_t reversed(maker *m, uint32_t x, const int64_t *axes, uint32_t n) {
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, axes, n);
    return n ? node(m, GRAPH_REVERSE, &x, 1, &attr, 1, NULL) : x;
}

/* ---- convolution ---- */

enum { MAX_SPATIAL = SHOAL_MAX_RANK - 2 };

/* A convolution; the lists of a call, or those of its gradient. Of each third of `axes` the first
 * two are batch and feature, or input and output feature. */
typedef struct convolution {
    uint32_t n; /* spatial axes */
    int64_t strides[MAX_SPATIAL], left[MAX_SPATIAL], right[MAX_SPATIAL];
    int64_t padding[2 * MAX_SPATIAL], reversal[MAX_SPATIAL], axes[3 * SHOAL_MAX_RANK];
    int64_t feature_groups, batch_groups;
} convolution;

static void take_list(const graph_call *call, shoal_attr_key key, int64_t *out) {
    uint32_t n;
    const int64_t *list = graph_call_ints(call, key, &n);
    memcpy(out, list, n * sizeof *out);
}

static convolution convolution_of(const graph_call *call) {
    convolution c = {.n = call->inputs[0].rank - 2u};
    take_list(call, SHOAL_ATTR_WINDOW_STRIDES, c.strides);
    take_list(call, SHOAL_ATTR_PADDING, c.padding);
    take_list(call, SHOAL_ATTR_LHS_DILATION, c.left);
    take_list(call, SHOAL_ATTR_RHS_DILATION, c.right);
    take_list(call, SHOAL_ATTR_WINDOW_REVERSAL, c.reversal);
    take_list(call, SHOAL_ATTR_CONVOLUTION_DIMENSIONS, c.axes);
    c.feature_groups = graph_call_attr(call, SHOAL_ATTR_FEATURE_GROUP_COUNT)->u.i;
    c.batch_groups = graph_call_attr(call, SHOAL_ATTR_BATCH_GROUP_COUNT)->u.i;
    return c;
}

static uint32_t convolve(maker *m, uint32_t x, uint32_t kernel, const convolution *c) {
    const shoal_attr attrs[] = {
        graph_ints(SHOAL_ATTR_WINDOW_STRIDES, c->strides, c->n),
        graph_ints(SHOAL_ATTR_PADDING, c->padding, 2 * (size_t)c->n),
        graph_ints(SHOAL_ATTR_LHS_DILATION, c->left, c->n),
        graph_ints(SHOAL_ATTR_RHS_DILATION, c->right, c->n),
        graph_ints(SHOAL_ATTR_WINDOW_REVERSAL, c->reversal, c->n),
        graph_ints(SHOAL_ATTR_CONVOLUTION_DIMENSIONS, c->axes, 3 * ((size_t)c->n + 2)),
        graph_int(SHOAL_ATTR_FEATURE_GROUP_COUNT, c->feature_groups),
        graph_int(SHOAL_ATTR_BATCH_GROUP_COUNT, c->batch_groups)};
    return node(m, GRAPH_CONVOLUTION, (uint32_t[]){x, kernel}, 2, attrs, 8, NULL);
}

/* Axis `from` is groups of elements; the groups move in front of axis `to`, into which they merge.
 */
static uint32_t move_groups(maker *m, uint32_t x, int64_t from, int64_t to, int64_t groups) {
    if (groups == 1 || m->status) return x;
    shoal_type type = *type_of(m, x), split = type, merged = type;
    int64_t order[SHOAL_MAX_RANK + 1];
    if (type.rank == SHOAL_MAX_RANK) {
        m->status = base_fail(SHOAL_UNSUPPORTED, "with groups there is one up to rank %d",
                              SHOAL_MAX_RANK - 1);
        return x;
    }
    split.rank++;
    for (int64_t i = type.rank; i > from; i--) split.dims[i] = type.dims[i - 1];
    split.dims[from] = groups;
    split.dims[from + 1] = type.dims[from] / groups;
    merged.dims[from] /= groups;
    merged.dims[to] *= groups;
    uint32_t n = 0;
    for (int64_t i = 0; i < type.rank; i++) {
        if (i == to) order[n++] = from;
        order[n++] = i < from ? i : i + 1;
    }
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, order, n);
    x = reshape(m, x, &split);
    x = node(m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL);
    return reshape(m, x, &merged);
}

static uint32_t of_input(maker *m, const graph_backward *b, const convolution *c) {
    const shoal_type *in = &b->call->inputs[0], *of_kernel = &b->call->inputs[1];
    uint32_t rank = c->n + 2;
    const int64_t *input = c->axes, *weights = c->axes + rank, *output = c->axes + 2 * (size_t)rank;
    convolution back = *c;
    int64_t groups = c->feature_groups * c->batch_groups; /* one of them is 1 */
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t x = dilated(in->dims[input[2 + i]], c->left[i]);
        int64_t k = dilated(of_kernel->dims[weights[2 + i]], c->right[i]);
        int64_t y = dilated(type_of(m, b->seeds[0])->dims[output[2 + i]], c->strides[i]);
        back.strides[i] = c->left[i];
        back.left[i] = c->strides[i];
        back.reversal[i] = !c->reversal[i];
        back.padding[2 * i] = k - c->padding[2 * i] - 1;
        back.padding[2 * i + 1] = x + k - 1 - y - back.padding[2 * i];
    }
    memcpy(back.axes, output, rank * sizeof *output);
    memcpy(back.axes + 2 * (size_t)rank, input, rank * sizeof *input);
    back.axes[rank] = weights[1];
    back.axes[rank + 1] = weights[0];
    back.feature_groups = groups;
    back.batch_groups = 1;
    uint32_t kernel = move_groups(m, b->inputs[1], weights[1], weights[0], groups);
    uint32_t x = convolve(m, b->seeds[0], kernel, &back);
    return move_groups(m, x, input[1], input[0], c->batch_groups);
}

static uint32_t of_weights(maker *m, const graph_backward *b, const convolution *c) {
    const shoal_type *in = &b->call->inputs[0], *of_kernel = &b->call->inputs[1];
    uint32_t rank = c->n + 2;
    const int64_t *input = c->axes, *weights = c->axes + rank, *output = c->axes + 2 * (size_t)rank;
    convolution back = *c;
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t x = dilated(in->dims[input[2 + i]], c->left[i]);
        int64_t k = dilated(of_kernel->dims[weights[2 + i]], c->right[i]);
        int64_t y = dilated(type_of(m, b->seeds[0])->dims[output[2 + i]], c->strides[i]);
        back.strides[i] = c->right[i];
        back.right[i] = c->strides[i];
        back.reversal[i] = 0;
        back.padding[2 * i + 1] = y - x + k - c->padding[2 * i] - 1;
    }
    /* Features take the place of the batch; what comes out has input features for a batch. */
    memcpy(back.axes, input, rank * sizeof *input);
    back.axes[0] = input[1];
    back.axes[1] = input[0];
    memcpy(back.axes + rank, output, rank * sizeof *output);
    memcpy(back.axes + 2 * (size_t)rank, weights, rank * sizeof *weights);
    back.feature_groups = c->batch_groups;
    back.batch_groups = c->feature_groups;
    return convolve(m, b->inputs[0], b->seeds[0], &back);
}

GRADIENT(convolution) {
    maker m = {b->g, SHOAL_OK};
    convolution c = convolution_of(b->call);
    int64_t flipped[MAX_SPATIAL];
    uint32_t n_flipped = 0;
    for (uint32_t i = 0; i < c.n; i++)
        if (c.reversal[i]) flipped[n_flipped++] = c.axes[c.n + 2 + 2 + i];
    if (b->wanted[0]) b->gradients[0] = of_input(&m, b, &c);
    if (b->wanted[1]) b->gradients[1] = reversed(&m, of_weights(&m, b, &c), flipped, n_flipped);
    return m.status;
}

/* ---- windows ---- */

typedef struct windows {
    uint32_t rank;
    int64_t size[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK], base[SHOAL_MAX_RANK];
    int64_t gaps[SHOAL_MAX_RANK], padding[2 * SHOAL_MAX_RANK];
} windows;

static windows windows_of(const graph_call *call) {
    windows w = {.rank = call->inputs[0].rank};
    take_list(call, SHOAL_ATTR_WINDOW_DIMENSIONS, w.size);
    take_list(call, SHOAL_ATTR_WINDOW_STRIDES, w.strides);
    take_list(call, SHOAL_ATTR_PADDING, w.padding);
    for (uint32_t i = 0; i < w.rank; i++) w.base[i] = w.gaps[i] = 1;
    if (call->op != GRAPH_REDUCE_WINDOW) return w;
    take_list(call, SHOAL_ATTR_BASE_DILATIONS, w.base);
    take_list(call, SHOAL_ATTR_WINDOW_DILATIONS, w.gaps);
    return w;
}

static uint32_t join_windows(maker *m, const uint32_t *inputs, uint32_t n, const windows *w,
                             const shoal_graph *body) {
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_WINDOW_DIMENSIONS, w->size, w->rank),
                                graph_ints(SHOAL_ATTR_WINDOW_STRIDES, w->strides, w->rank),
                                graph_ints(SHOAL_ATTR_BASE_DILATIONS, w->base, w->rank),
                                graph_ints(SHOAL_ATTR_WINDOW_DILATIONS, w->gaps, w->rank),
                                graph_ints(SHOAL_ATTR_PADDING, w->padding, 2 * (size_t)w->rank)};
    return node(m, GRAPH_REDUCE_WINDOW, inputs, n, attrs, 5, body);
}

/* Each element takes the sum over the windows it lies in: windows over the gradient. */
static void sum_windows(maker *m, const graph_backward *b, const windows *w) {
    const shoal_type *in = &b->call->inputs[0];
    windows back = *w;
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t x = dilated(in->dims[i], w->base[i]), k = dilated(w->size[i], w->gaps[i]);
        int64_t y = dilated(type_of(m, b->seeds[0])->dims[i], w->strides[i]);
        back.strides[i] = w->base[i];
        back.base[i] = w->strides[i];
        back.padding[2 * i] = k - w->padding[2 * i] - 1;
        back.padding[2 * i + 1] = x + k - 1 - y - back.padding[2 * i];
    }
    uint32_t zero = splat(m, (shoal_type){.dtype = in->dtype}, 0);
    b->gradients[0] =
        join_windows(m, (uint32_t[]){b->seeds[0], zero}, 2, &back, b->call->regions[0]);
}

/* A body of two scalars: a comparison. */
static shoal_status order_body(graph *g, uint8_t dtype, const char *direction,
                               const shoal_graph **out) {
    graph *body;
    uint32_t in[2], result;
    const shoal_type scalar = {.dtype = dtype};
    const shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, direction);
    SHOAL_TRY(graph_add_region(g, &body));
    for (int i = 0; i < 2; i++) SHOAL_TRY(graph_add_input(body, &scalar, &in[i]));
    SHOAL_TRY(graph_add(body, GRAPH_COMPARE, in, 2, &attr, 1, NULL, 0, &result));
    SHOAL_TRY(graph_add_output(body, result));
    *out = graph_data(body);
    return SHOAL_OK;
}

/* The gradients of windows in which an element is what came out, not the initial value. */
static uint32_t of_elements(maker *m, const graph_backward *b, uint16_t op) {
    const graph_call *call = b->call;
    if (graph_is_identity(graph_data(b->g), b->inputs[1], op)) return b->seeds[0];
    uint32_t y =
        node(m, GRAPH_REDUCE_WINDOW, b->inputs, 2, call->attrs, call->n_attrs, call->regions[0]);
    if (m->status) return 0;
    shoal_type shape = *type_of(m, y);
    uint32_t initial = spread(m, b->inputs[1], &shape, NULL);
    return choose(m, compare(m, "NE", y, initial), b->seeds[0], splat(m, shape, 0));
}

/* The first of the largest in each window takes the gradient. */
static shoal_status choose_windows(maker *m, const graph_backward *b, const windows *w,
                                   uint16_t op) {
    const shoal_type *in = &b->call->inputs[0];
    const char *direction = op == GRAPH_MAXIMUM ? "GE" : "LE";
    const shoal_graph *bodies[2];
    for (uint32_t i = 0; i < w->rank; i++)
        if (w->base[i] != 1 || w->gaps[i] != 1)
            return base_fail(SHOAL_UNSUPPORTED,
                             "of the extremes of windows with gaps there is none");
    SHOAL_TRY(order_body(b->g, in->dtype, direction, &bodies[0]));
    SHOAL_TRY(graph_add_body(b->g, GRAPH_ADD, (shoal_dtype)in->dtype, &bodies[1]));
    uint32_t zero = splat(m, (shoal_type){.dtype = in->dtype}, 0), seed = of_elements(m, b, op);
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_WINDOW_DIMENSIONS, w->size, w->rank),
                                graph_ints(SHOAL_ATTR_WINDOW_STRIDES, w->strides, w->rank),
                                graph_ints(SHOAL_ATTR_PADDING, w->padding, 2 * (size_t)w->rank)};
    SHOAL_TRY(m->status);
    return graph_add(b->g, GRAPH_SELECT_AND_SCATTER, (uint32_t[]){b->inputs[0], seed, zero}, 3,
                     attrs, 3, bodies, 2, &b->gradients[0]);
}

GRADIENT(reduce_window) {
    maker m = {b->g, SHOAL_OK};
    uint16_t op = b->call->n_inputs == 2 ? graph_body_op(b->call->regions[0]) : UINT16_MAX;
    windows w = windows_of(b->call);
    if (!b->wanted[1] && op == GRAPH_ADD) {
        sum_windows(&m, b, &w);
        return m.status;
    }
    if (!b->wanted[1] && (op == GRAPH_MAXIMUM || op == GRAPH_MINIMUM))
        return choose_windows(&m, b, &w, op);
    return base_fail(SHOAL_UNSUPPORTED,
                     "there is one for one tensor, from a constant, and bodies of add, maximum and "
                     "minimum alone");
}

/* A body that carries numbers beside elements: all left sides, then all right sides. Numbers below
 * zero stand for no element. */
static shoal_status numbered_body(graph *g, const shoal_graph *select, uint8_t dtype,
                                  const shoal_graph **out) {
    graph *body;
    maker m;
    uint32_t in[4], result[2];
    const shoal_type types[2] = {{.dtype = dtype}, {.dtype = SHOAL_I64}};
    SHOAL_TRY(graph_add_region(g, &body));
    for (int i = 0; i < 4; i++) SHOAL_TRY(graph_add_input(body, &types[i % 2], &in[i]));
    const shoal_node *only = select->n_nodes == 1 ? &select->nodes[0] : NULL;
    if (!only || only->op != GRAPH_COMPARE || only->inputs[0] != select->inputs[0] ||
        only->inputs[1] != select->inputs[1])
        return base_fail(SHOAL_UNSUPPORTED, "there is one for bodies that compare alone");
    m = (maker){body, SHOAL_OK};
    uint32_t keeps =
        node(&m, GRAPH_COMPARE, (uint32_t[]){in[0], in[2]}, 2, only->attrs, only->n_attrs, NULL);
    uint32_t no_right = compare(&m, "LT", in[3], like(&m, in[3], 0));
    uint32_t left = compare(&m, "GE", in[1], like(&m, in[1], 0));
    keeps = two(&m, GRAPH_AND, left, two(&m, GRAPH_OR, keeps, no_right));
    for (int i = 0; i < 2; i++) result[i] = choose(&m, keeps, in[i], in[2 + i]);
    SHOAL_TRY(m.status);
    for (int i = 0; i < 2; i++) SHOAL_TRY(graph_add_output(body, result[i]));
    *out = graph_data(body);
    return SHOAL_OK;
}

/* The source's element takes what lies where it went: the windows once more, with numbers. */
GRADIENT(select_and_scatter) {
    maker m = {b->g, SHOAL_OK};
    const shoal_type *in = &b->call->inputs[0], *source = &b->call->inputs[1];
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t g = b->seeds[0];
    if (graph_body_op(b->call->regions[1]) != GRAPH_ADD)
        return base_fail(SHOAL_UNSUPPORTED, "there is one for bodies of add alone");
    if (b->wanted[2]) b->gradients[2] = join_axes(&m, GRAPH_ADD, g, all, in->rank);
    if (!b->wanted[1]) return m.status;
    const shoal_graph *body = NULL;
    SHOAL_TRY(numbered_body(b->g, b->call->regions[0], in->dtype, &body));
    windows w = windows_of(b->call);
    shoal_type flat = {.dtype = in->dtype, .rank = 1, .dims = {base_type_count(in)}};
    shoal_type places = *in;
    places.dtype = SHOAL_I64;
    uint32_t ids = reshape(&m, numbers(&m, &flat, 0), &places);
    uint32_t inputs[] = {b->inputs[0], ids, splat(&m, (shoal_type){.dtype = in->dtype}, 0),
                         splat(&m, (shoal_type){.dtype = SHOAL_I64}, -1)};
    uint32_t at = join_windows(&m, inputs, 4, &w, body) + 1;
    SHOAL_TRY(m.status);
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_OFFSET_DIMS, NULL, 0),
                                graph_ints(SHOAL_ATTR_COLLAPSED_SLICE_DIMS, all, 1),
                                graph_ints(SHOAL_ATTR_OPERAND_BATCHING_DIMS, NULL, 0),
                                graph_ints(SHOAL_ATTR_START_INDICES_BATCHING_DIMS, NULL, 0),
                                graph_ints(SHOAL_ATTR_START_INDEX_MAP, all, 1),
                                graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, source->rank),
                                graph_ints(SHOAL_ATTR_SLICE_SIZES, all + 1, 1)};
    uint32_t found =
        node(&m, GRAPH_GATHER, (uint32_t[]){reshape(&m, g, &flat), at}, 2, attrs, 7, NULL);
    uint32_t there = compare(&m, "GE", at, like(&m, at, 0));
    b->gradients[1] = choose(&m, there, found, like(&m, found, 0));
    return m.status;
}
