/* Windows: reduce_window, select_and_scatter and convolution.
 *
 * Elements of a window are joined in row-major order. What lies between or beside the elements of
 * the operand is the initial value in reduce_window, is not looked at by select_and_scatter, and is
 * zero in a convolution, which sums as dot_general does: in double for float64, in float for the
 * other floating-point types (rounded once at the end), wrapping for integers, and as "or" of "and"
 * for bool. */
#include "backend/ref/ref.h"

#include "graph/graph.h"

#include <stdlib.h>

/* Numbers of rows and columns, walked through in row-major order. */
typedef struct counter {
    uint32_t rank;
    int64_t dims[SHOAL_MAX_RANK], index[SHOAL_MAX_RANK];
} counter;

static int64_t count_of(const counter *c) {
    int64_t count = 1;
    for (uint32_t i = 0; i < c->rank; i++) count *= c->dims[i];
    return count;
}

static void advance(counter *c) {
    for (uint32_t i = c->rank; i-- > 0;) {
        if (++c->index[i] < c->dims[i]) return;
        c->index[i] = 0;
    }
}

static const int64_t *ints(const ref_call *call, shoal_attr_key key) {
    return ref_attr(call, key)->u.ints;
}

/* A window over one tensor. */
typedef struct window {
    uint32_t rank;
    const int64_t *strides, *padding, *base, *gaps; /* base, gaps: NULL for 1 */
    int64_t dims[SHOAL_MAX_RANK], steps[SHOAL_MAX_RANK];
    counter inside;
} window;

static window window_of(const ref_call *call, bool dilates) {
    const shoal_type *in = ref_input(call, 0);
    window w = {.rank = in->rank,
                .strides = ints(call, SHOAL_ATTR_WINDOW_STRIDES),
                .padding = ints(call, SHOAL_ATTR_PADDING),
                .base = dilates ? ints(call, SHOAL_ATTR_BASE_DILATIONS) : NULL,
                .gaps = dilates ? ints(call, SHOAL_ATTR_WINDOW_DILATIONS) : NULL,
                .inside.rank = in->rank};
    memcpy(w.dims, in->dims, sizeof w.dims);
    memcpy(w.inside.dims, ints(call, SHOAL_ATTR_WINDOW_DIMENSIONS), in->rank * sizeof(int64_t));
    ref_strides(in, w.steps);
    return w;
}

/* The element of the tensor at w->inside of the window at `place`; -1: none lies there. */
static int64_t element_at(const window *w, const int64_t *place) {
    int64_t element = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t base = w->base ? w->base[i] : 1, gap = w->gaps ? w->gaps[i] : 1;
        int64_t at = place[i] * w->strides[i] + w->inside.index[i] * gap - w->padding[2 * i];
        if (at < 0 || at % base || at / base >= w->dims[i]) return -1;
        element += at / base * w->steps[i];
    }
    return element;
}

/* ---- reduce_window ---- */

static size_t bytes_of(const ref_call *call, uint32_t k) {
    return shoal_dtype_size((shoal_dtype)ref_input(call, k)->dtype);
}

/* so_far = body(so_far, elements) for n operands. */
static shoal_status join(ref_frame *frame, uint32_t n, uint64_t *so_far,
                         const void *const *elements) {
    const void *in[2 * GRAPH_MAX_JOINED];
    void *out[GRAPH_MAX_JOINED];
    uint64_t results[GRAPH_MAX_JOINED] = {0};
    for (uint32_t k = 0; k < n; k++) {
        in[k] = &so_far[k];
        in[n + k] = elements[k];
        out[k] = &results[k];
    }
    SHOAL_TRY(ref_frame_run(frame, in, out));
    memcpy(so_far, results, n * sizeof *so_far);
    return SHOAL_OK;
}

static shoal_status reduce_place(const ref_call *call, window *w, ref_frame *frame,
                                 const int64_t *place, uint64_t *so_far) {
    uint32_t n = call->node->n_inputs / 2;
    int64_t count = count_of(&w->inside);
    for (uint32_t k = 0; k < n; k++) memcpy(&so_far[k], call->inputs[n + k], bytes_of(call, k));
    for (int64_t i = 0; i < count; i++, advance(&w->inside)) {
        int64_t at = element_at(w, place);
        const void *elements[GRAPH_MAX_JOINED];
        for (uint32_t k = 0; k < n; k++)
            elements[k] = at < 0 ? call->inputs[n + k]
                                 : (const char *)call->inputs[k] + (size_t)at * bytes_of(call, k);
        SHOAL_TRY(join(frame, n, so_far, elements));
    }
    return SHOAL_OK;
}

shoal_status ref_reduce_window(const ref_call *call) {
    const shoal_type *type = ref_output(call);
    uint32_t n = call->node->n_inputs / 2;
    window w = window_of(call, true);
    counter places = {.rank = type->rank};
    memcpy(places.dims, type->dims, sizeof places.dims);
    ref_frame *frame;
    SHOAL_TRY(ref_frame_new(call->node->regions[0], &frame));
    shoal_status status = SHOAL_OK;
    int64_t count = count_of(&places);
    for (int64_t i = 0; i < count && !status; i++, advance(&places)) {
        uint64_t so_far[GRAPH_MAX_JOINED] = {0};
        status = reduce_place(call, &w, frame, places.index, so_far);
        for (uint32_t k = 0; k < n; k++)
            memcpy((char *)call->outputs[k] + (size_t)i * bytes_of(call, k), &so_far[k],
                   bytes_of(call, k));
    }
    ref_frame_destroy(&frame);
    return status;
}

/* ---- select_and_scatter ---- */

/* The element that `selects` keeps of a window; -1: there is none. */
static shoal_status select_element(const ref_call *call, window *w, ref_frame *selects,
                                   const int64_t *place, int64_t *out) {
    const char *data = call->inputs[0];
    int64_t count = count_of(&w->inside);
    size_t bytes = bytes_of(call, 0);
    *out = -1;
    for (int64_t i = 0; i < count; i++, advance(&w->inside)) {
        int64_t at = element_at(w, place);
        if (at < 0) continue;
        uint64_t keep = *out >= 0;
        if (keep)
            SHOAL_TRY(ref_frame_run(
                selects,
                (const void *const[]){data + (size_t)*out * bytes, data + (size_t)at * bytes},
                (void *const[]){&keep}));
        if (!*(const uint8_t *)&keep) *out = at;
    }
    return SHOAL_OK;
}

static shoal_status scatter_all(const ref_call *call, ref_frame *selects, ref_frame *joins) {
    const shoal_type *source = ref_input(call, 1);
    window w = window_of(call, false);
    counter places = {.rank = source->rank};
    memcpy(places.dims, source->dims, sizeof places.dims);
    size_t bytes = bytes_of(call, 0);
    int64_t count = count_of(&places);
    for (int64_t i = 0; i < count; i++, advance(&places)) {
        int64_t at;
        SHOAL_TRY(select_element(call, &w, selects, places.index, &at));
        if (at < 0) continue;
        char *to = (char *)call->outputs[0] + (size_t)at * bytes;
        uint64_t so_far = 0;
        memcpy(&so_far, to, bytes);
        SHOAL_TRY(join(joins, 1, &so_far,
                       (const void *const[]){(const char *)call->inputs[1] + (size_t)i * bytes}));
        memcpy(to, &so_far, bytes);
    }
    return SHOAL_OK;
}

shoal_status ref_select_and_scatter(const ref_call *call) {
    size_t bytes = bytes_of(call, 0);
    int64_t count = base_type_count(ref_output(call));
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)call->outputs[0] + (size_t)i * bytes, call->inputs[2], bytes);
    ref_frame *selects = NULL, *joins = NULL;
    shoal_status status = ref_frame_new(call->node->regions[0], &selects);
    if (!status) status = ref_frame_new(call->node->regions[1], &joins);
    if (!status) status = scatter_all(call, selects, joins);
    ref_frame_destroy(&selects);
    ref_frame_destroy(&joins);
    return status;
}

/* ---- convolution ---- */

ref_windows ref_windows_of(const shoal_graph *g, const shoal_node *node) {
    const shoal_type *lhs = &g->values[node->inputs[0]].type,
                     *rhs = &g->values[node->inputs[1]].type,
                     *out = &g->values[node->first_output].type;
    const int64_t *axes = shoal_node_attr(node, SHOAL_ATTR_CONVOLUTION_DIMENSIONS)->u.ints;
    const int64_t *of_rhs = axes + lhs->rank, *of_out = of_rhs + lhs->rank;
    const int64_t *padding = shoal_node_attr(node, SHOAL_ATTR_PADDING)->u.ints;
    int64_t steps[3][SHOAL_MAX_RANK];
    ref_strides(lhs, steps[0]);
    ref_strides(rhs, steps[1]);
    ref_strides(out, steps[2]);
    ref_windows c = {
        .spatial = lhs->rank - 2u,
        .batch = lhs->dims[axes[0]],
        .channels = rhs->dims[of_rhs[0]],
        .features = out->dims[of_out[1]],
        .feature_groups = shoal_node_attr(node, SHOAL_ATTR_FEATURE_GROUP_COUNT)->u.i,
        .batch_groups = shoal_node_attr(node, SHOAL_ATTR_BATCH_GROUP_COUNT)->u.i,
        .lhs_batch = steps[0][axes[0]],
        .lhs_channel = steps[0][axes[1]],
        .rhs_channel = steps[1][of_rhs[0]],
        .rhs_feature = steps[1][of_rhs[1]],
        .out_batch = steps[2][of_out[0]],
        .out_feature = steps[2][of_out[1]],
    };
    for (uint32_t i = 0; i < c.spatial; i++)
        c.axis[i] = (ref_windows_axis){
            .in = lhs->dims[axes[2 + i]],
            .window = rhs->dims[of_rhs[2 + i]],
            .out = out->dims[of_out[2 + i]],
            .in_step = steps[0][axes[2 + i]],
            .window_step = steps[1][of_rhs[2 + i]],
            .out_step = steps[2][of_out[2 + i]],
            .stride = shoal_node_attr(node, SHOAL_ATTR_WINDOW_STRIDES)->u.ints[i],
            .before = padding[2 * i],
            .in_gap = shoal_node_attr(node, SHOAL_ATTR_LHS_DILATION)->u.ints[i],
            .window_gap = shoal_node_attr(node, SHOAL_ATTR_RHS_DILATION)->u.ints[i],
            .reversed = shoal_node_attr(node, SHOAL_ATTR_WINDOW_REVERSAL)->u.ints[i] != 0,
        };
    return c;
}

int64_t ref_windows_at(const ref_windows_axis *axis, int64_t place, int64_t inside) {
    int64_t at = place * axis->stride + inside * axis->window_gap - axis->before;
    return at < 0 || at % axis->in_gap || at / axis->in_gap >= axis->in ? -1 : at / axis->in_gap;
}

typedef struct sum {
    const ref_call *call;
    uint8_t dtype;
    ref_class class;
    ref_chunk value;
} sum;

/* lhs -1: a zero, whose product with an infinity or NaN is NaN. */
static void add_product(sum *s, int64_t lhs, int64_t rhs) {
    ref_chunk a, b;
    if (lhs < 0)
        memset(&a, 0, sizeof a.u[0]);
    else
        ref_load(&a, s->dtype, s->call->inputs[0], lhs, 1);
    ref_load(&b, s->dtype, s->call->inputs[1], rhs, 1);
    switch (s->class) {
    case REF_F: s->value.f[0] += a.f[0] * b.f[0]; break;
    case REF_D: s->value.d[0] += a.d[0] * b.d[0]; break;
    default: s->value.u[0] += a.u[0] * b.u[0]; break;
    }
    if (s->dtype == SHOAL_BOOL) s->value.u[0] = s->value.u[0] != 0;
}

/* Adds the products of all channels at each element of the window. */
static void sum_window(sum *s, const ref_windows *c, const int64_t *place, int64_t lhs,
                       int64_t rhs) {
    counter inside = {.rank = c->spatial};
    for (uint32_t i = 0; i < c->spatial; i++) inside.dims[i] = c->axis[i].window;
    int64_t count = count_of(&inside);
    for (int64_t n = 0; n < count; n++, advance(&inside)) {
        int64_t l = lhs, r = rhs;
        bool exists = true;
        for (uint32_t i = 0; i < c->spatial; i++) {
            const ref_windows_axis *axis = &c->axis[i];
            int64_t k = inside.index[i], at = ref_windows_at(axis, place[i], k);
            exists = exists && at >= 0;
            l += at * axis->in_step;
            r += (axis->reversed ? axis->window - 1 - k : k) * axis->window_step;
        }
        for (int64_t channel = 0; channel < c->channels; channel++)
            add_product(s, exists ? l + channel * c->lhs_channel : -1,
                        r + channel * c->rhs_channel);
    }
}

shoal_status ref_convolution(const ref_call *call) {
    ref_windows c = ref_windows_of(call->graph, call->node);
    sum s = {.call = call, .dtype = ref_output(call)->dtype};
    s.class = ref_class_of(s.dtype);
    counter places = {.rank = c.spatial};
    for (uint32_t i = 0; i < c.spatial; i++) places.dims[i] = c.axis[i].out;
    int64_t count = count_of(&places), batches = c.batch / c.batch_groups;
    for (int64_t b = 0; b < batches; b++)
        for (int64_t f = 0; f < c.features; f++)
            for (int64_t n = 0; n < count; n++, advance(&places)) {
                int64_t lhs = b * c.lhs_batch, out = b * c.out_batch + f * c.out_feature;
                lhs += f / (c.features / c.feature_groups) * c.channels * c.lhs_channel;
                lhs += f / (c.features / c.batch_groups) * batches * c.lhs_batch;
                for (uint32_t i = 0; i < c.spatial; i++)
                    out += places.index[i] * c.axis[i].out_step;
                memset(&s.value.u[0], 0, sizeof s.value.u[0]);
                sum_window(&s, &c, places.index, lhs, f * c.rhs_feature);
                ref_store(&s.value, s.dtype, call->outputs[0], out, 1);
            }
    return SHOAL_OK;
}
