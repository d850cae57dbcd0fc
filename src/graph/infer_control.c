/* Rules of control flow, convolution and windows. */
#include "graph/rules.h"

#include <string.h>

/* ---- control flow ---- */

/* Whether a body takes the given operands and returns the given types; it has any when NULL. */
static shoal_status check_branch(const graph_call *call, uint32_t region, const shoal_type *in,
                                 uint32_t n_in, const shoal_type *out, uint32_t n_out) {
    const shoal_graph *body = call->regions[region];
    bool fits = body->n_inputs == n_in && (!out || body->n_outputs == n_out);
    for (uint32_t i = 0; fits && i < n_in; i++)
        fits = base_type_equal(&body->values[body->inputs[i]].type, &in[i]);
    if (!fits)
        return base_fail(SHOAL_INVALID,
                         "%s: body %u takes %u arguments and returns %u values; "
                         "they do not fit %u operands",
                         graph_call_name(call), region, body->n_inputs, body->n_outputs, n_in);
    for (uint32_t i = 0; out && i < n_out; i++) {
        const shoal_type *is = &body->values[body->outputs[i]].type;
        if (!base_type_equal(is, &out[i]))
            return base_fail(SHOAL_INVALID, "%s: body %u returns %s as value %u, not %s",
                             graph_call_name(call), region, GRAPH_TEXT(is), i, GRAPH_TEXT(&out[i]));
    }
    return SHOAL_OK;
}

INFER(while) {
    shoal_type flag = {.dtype = SHOAL_BOOL};
    if (call->n_inputs > max_outputs)
        return base_fail(SHOAL_INVALID, "while: at most %u operands", max_outputs);
    SHOAL_TRY(check_branch(call, 0, call->inputs, call->n_inputs, &flag, 1));
    SHOAL_TRY(check_branch(call, 1, call->inputs, call->n_inputs, call->inputs, call->n_inputs));
    memcpy(outputs, call->inputs, call->n_inputs * sizeof *outputs);
    *n_outputs = (uint16_t)call->n_inputs;
    return SHOAL_OK;
}

/* Branches take the operands after the first, and return the same types. */
static shoal_status branches(const graph_call *call, uint8_t selector, shoal_type *outputs,
                             uint16_t max_outputs, uint16_t *n_outputs) {
    shoal_type scalar = {.dtype = selector};
    if (!base_type_equal(&call->inputs[0], &scalar))
        return base_fail(SHOAL_INVALID, "%s: operand 0 is %s, not %s", graph_call_name(call),
                         GRAPH_TEXT(&call->inputs[0]), GRAPH_TEXT(&scalar));
    const shoal_graph *first = call->regions[0];
    if (first->n_outputs > max_outputs)
        return base_fail(SHOAL_INVALID, "%s: at most %u results", graph_call_name(call),
                         max_outputs);
    *n_outputs = (uint16_t)first->n_outputs;
    for (uint32_t i = 0; i < first->n_outputs; i++)
        outputs[i] = first->values[first->outputs[i]].type;
    for (uint16_t r = 0; r < call->n_regions; r++)
        SHOAL_TRY(check_branch(call, r, call->inputs + 1, call->n_inputs - 1, outputs, *n_outputs));
    return SHOAL_OK;
}

INFER(if) { return branches(call, SHOAL_BOOL, outputs, max_outputs, n_outputs); }
INFER(case) { return branches(call, SHOAL_I32, outputs, max_outputs, n_outputs); }

/* Bodies see all of every operand, and nothing is known of what they do with it. So nothing is cut,
 * and one loop that must not be stands for all axes, whatever their extents. */
AXES(control) {
    out->n_loops = out->extent[0] = 1;
    for (uint32_t k = 0; k < call->n_inputs; k++) graph_whole(&call->inputs[k], out->inputs[k]);
    return SHOAL_OK;
}

/* ---- windows ---- */

/* `count` numbers, none below `least`. */
static shoal_status list_of(const graph_call *call, shoal_attr_key key, uint32_t count,
                            int64_t least, const int64_t **out) {
    uint32_t n;
    *out = graph_call_ints(call, key, &n);
    if (n != count)
        return base_fail(SHOAL_INVALID, "%s: %s has %u numbers; it needs %u", graph_call_name(call),
                         graph_attr_name((uint16_t)key), n, count);
    for (uint32_t i = 0; i < n; i++)
        if ((*out)[i] < least)
            return base_fail(SHOAL_INVALID, "%s: %s: %lld is below %lld", graph_call_name(call),
                             graph_attr_name((uint16_t)key), (long long)(*out)[i],
                             (long long)least);
    return SHOAL_OK;
}

/* An extent with gaps between its elements. False when it is too large. */
static bool dilated(int64_t extent, int64_t dilation, int64_t *out) {
    *out = 0;
    if (!extent) return true;
    return !base_mul_overflow(extent - 1, dilation, out) && !base_add_overflow(*out, 1, out);
}

/* How many places a window has along an axis. */
static shoal_status places(const graph_call *call, int64_t extent, int64_t dilation,
                           const int64_t *padding, int64_t window, int64_t window_dilation,
                           int64_t stride, int64_t *out) {
    int64_t room, span;
    if (!dilated(extent, dilation, &room) || !dilated(window, window_dilation, &span) ||
        base_add_overflow(room, padding[0], &room) || base_add_overflow(room, padding[1], &room))
        return base_fail(SHOAL_INVALID, "%s: an axis is over 2^63", graph_call_name(call));
    *out = room <= 0 || span > room ? 0 : (room - span) / stride + 1;
    return SHOAL_OK;
}

INFER(reduce_window) {
    uint32_t n = call->n_inputs / 2, rank = call->inputs[0].rank;
    const shoal_type *in = call->inputs;
    const int64_t *window, *strides, *base, *gaps, *padding;
    if (call->n_inputs % 2 || n > max_outputs)
        return base_fail(SHOAL_INVALID,
                         "reduce_window: %u operands; they are n tensors, n initial values",
                         call->n_inputs);
    SHOAL_TRY(list_of(call, SHOAL_ATTR_WINDOW_DIMENSIONS, rank, 1, &window));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_WINDOW_STRIDES, rank, 1, &strides));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_BASE_DILATIONS, rank, 1, &base));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_WINDOW_DILATIONS, rank, 1, &gaps));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_PADDING, 2 * rank, INT64_MIN, &padding));
    for (uint32_t k = 0; k < n; k++) {
        shoal_type same = in[k], scalar = {.dtype = in[k].dtype};
        same.dtype = in[0].dtype;
        if (!base_type_equal(&same, &in[0]) || !base_type_equal(&in[n + k], &scalar))
            return base_fail(SHOAL_INVALID,
                             "reduce_window: %s with the initial value %s; shapes must be equal, "
                             "initial values scalars of their types",
                             GRAPH_TEXT(&in[k]), GRAPH_TEXT(&in[n + k]));
        outputs[k] = in[k];
        for (uint32_t i = 0; i < rank; i++)
            SHOAL_TRY(places(call, in[k].dims[i], base[i], padding + 2 * (size_t)i, window[i],
                             gaps[i], strides[i], &outputs[k].dims[i]));
    }
    if (!graph_body_fits(call->regions[0], in, n, true, false))
        return base_fail(SHOAL_INVALID, "reduce_window: the body must take %u scalars, return %u",
                         2 * n, n);
    *n_outputs = (uint16_t)n;
    return SHOAL_OK;
}

/* Whether windows are single elements along an axis, one for each of the operand. */
static bool is_plain(const graph_call *call, uint32_t axis, bool dilates) {
    uint32_t n;
    const int64_t *padding = graph_call_ints(call, SHOAL_ATTR_PADDING, &n) + 2 * (size_t)axis;
    return graph_call_ints(call, SHOAL_ATTR_WINDOW_DIMENSIONS, &n)[axis] == 1 &&
           graph_call_ints(call, SHOAL_ATTR_WINDOW_STRIDES, &n)[axis] == 1 && !padding[0] &&
           !padding[1] &&
           (!dilates || graph_call_ints(call, SHOAL_ATTR_BASE_DILATIONS, &n)[axis] == 1);
}

/* Axes along which windows are single elements are carried; the others are not cut. */
AXES(reduce_window) {
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t i = 0; i < outputs[0].rank; i++) {
        out->granule[i] = is_plain(call, i, true);
        for (uint32_t k = 0; k < n_outputs; k++) {
            out->inputs[k][i] = out->granule[i] ? (int8_t)i : GRAPH_WHOLE;
            out->outputs[k][i] = (int8_t)i;
        }
    }
    return SHOAL_OK;
}

COST(reduce_window) {
    uint32_t n;
    const int64_t *window = graph_call_ints(call, SHOAL_ATTR_WINDOW_DIMENSIONS, &n);
    double cost = (double)base_type_count(&outputs[0]);
    for (uint32_t i = 0; i < n; i++) cost *= (double)window[i];
    return cost;
}

INFER(select_and_scatter) {
    const shoal_type *in = call->inputs;
    uint32_t rank = in[0].rank;
    const int64_t *window, *strides, *padding;
    SHOAL_TRY(list_of(call, SHOAL_ATTR_WINDOW_DIMENSIONS, rank, 1, &window));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_WINDOW_STRIDES, rank, 1, &strides));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_PADDING, 2 * rank, INT64_MIN, &padding));
    shoal_type source = in[0], scalar = {.dtype = in[0].dtype};
    for (uint32_t i = 0; i < rank; i++)
        SHOAL_TRY(places(call, in[0].dims[i], 1, padding + 2 * (size_t)i, window[i], 1, strides[i],
                         &source.dims[i]));
    if (!base_type_equal(&in[1], &source) || !base_type_equal(&in[2], &scalar))
        return base_fail(SHOAL_INVALID,
                         "select_and_scatter: source %s and initial value %s; they must be %s, %s",
                         GRAPH_TEXT(&in[1]), GRAPH_TEXT(&in[2]), GRAPH_TEXT(&source),
                         GRAPH_TEXT(&scalar));
    if (!graph_body_fits(call->regions[0], in, 1, true, true) ||
        !graph_body_fits(call->regions[1], in, 1, true, false))
        return base_fail(SHOAL_INVALID,
                         "select_and_scatter: the bodies must take two %s; the first returns bool, "
                         "the second %s",
                         GRAPH_TEXT(&scalar), GRAPH_TEXT(&scalar));
    return GRAPH_ONE(&in[0]);
}

AXES(select_and_scatter) {
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t i = 0; i < outputs[0].rank; i++) {
        out->granule[i] = is_plain(call, i, false);
        out->inputs[0][i] = out->inputs[1][i] = out->granule[i] ? (int8_t)i : GRAPH_WHOLE;
    }
    return SHOAL_OK;
}

/* ---- convolution ---- */

/* Each third of CONVOLUTION_DIMENSIONS names every axis once. */
static shoal_status check_dimensions(const graph_call *call, uint32_t rank, const int64_t **out) {
    SHOAL_TRY(list_of(call, SHOAL_ATTR_CONVOLUTION_DIMENSIONS, 3 * rank, 0, out));
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < rank; i++) {
            const int64_t *axes = *out + (size_t)k * rank;
            if (axes[i] >= rank || graph_has(axes, i, axes[i]))
                return base_fail(SHOAL_INVALID,
                                 "convolution: dimension numbers: axis %lld is named twice or is "
                                 "not below %u",
                                 (long long)axes[i], rank);
        }
    return SHOAL_OK;
}

INFER(convolution) {
    const shoal_type *lhs = &call->inputs[0], *rhs = &call->inputs[1];
    uint32_t rank = lhs->rank, spatial = rank - 2;
    if (rank < 2 || rhs->rank != rank || lhs->dtype != rhs->dtype)
        return base_fail(SHOAL_INVALID,
                         "convolution: %s and %s; both need batch or feature axes, equal ranks and "
                         "element types",
                         GRAPH_TEXT(lhs), GRAPH_TEXT(rhs));
    const int64_t *strides, *padding, *left, *right, *flips, *axes;
    SHOAL_TRY(list_of(call, SHOAL_ATTR_WINDOW_STRIDES, spatial, 1, &strides));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_PADDING, 2 * spatial, INT64_MIN, &padding));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_LHS_DILATION, spatial, 1, &left));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_RHS_DILATION, spatial, 1, &right));
    SHOAL_TRY(list_of(call, SHOAL_ATTR_WINDOW_REVERSAL, spatial, 0, &flips));
    SHOAL_TRY(check_dimensions(call, rank, &axes));
    const int64_t *kernel = axes + rank, *result = kernel + rank;
    int64_t groups = graph_call_attr(call, SHOAL_ATTR_FEATURE_GROUP_COUNT)->u.i;
    int64_t batches = graph_call_attr(call, SHOAL_ATTR_BATCH_GROUP_COUNT)->u.i;
    int64_t batch = lhs->dims[axes[0]], features = lhs->dims[axes[1]];
    int64_t produced = rhs->dims[kernel[1]];
    bool fits = groups > 0 && batches > 0 && (groups == 1 || batches == 1) &&
                batch % batches == 0 && features % groups == 0 && produced % groups == 0 &&
                produced % batches == 0 && rhs->dims[kernel[0]] == features / groups;
    if (!fits)
        return base_fail(SHOAL_INVALID,
                         "convolution: %s and %s do not fit %lld feature and %lld batch groups",
                         GRAPH_TEXT(lhs), GRAPH_TEXT(rhs), (long long)groups, (long long)batches);
    shoal_type type = {.dtype = lhs->dtype, .rank = (uint8_t)rank};
    type.dims[result[0]] = batch / batches;
    type.dims[result[1]] = produced;
    for (uint32_t i = 0; i < spatial; i++)
        SHOAL_TRY(places(call, lhs->dims[axes[2 + i]], left[i], padding + 2 * (size_t)i,
                         rhs->dims[kernel[2 + i]], right[i], strides[i],
                         &type.dims[result[2 + i]]));
    return GRAPH_ONE(&type);
}

/* Batches and output features are carried, input features contracted, unless groups tie them
 * together; the window's axes are not cut. */
AXES(convolution) {
    uint32_t n, rank = outputs[0].rank;
    const int64_t *lhs = graph_call_ints(call, SHOAL_ATTR_CONVOLUTION_DIMENSIONS, &n);
    const int64_t *rhs = lhs + rank, *result = rhs + rank;
    bool features = graph_call_attr(call, SHOAL_ATTR_FEATURE_GROUP_COUNT)->u.i == 1;
    bool batches = graph_call_attr(call, SHOAL_ATTR_BATCH_GROUP_COUNT)->u.i == 1;
    graph_loops_of_result(&outputs[0], out);
    graph_whole(&call->inputs[0], out->inputs[0]);
    graph_whole(&call->inputs[1], out->inputs[1]);
    for (uint32_t i = 0; i < rank; i++) out->granule[i] = 0;
    out->inputs[1][rhs[1]] = (int8_t)result[1];
    if (batches) {
        out->granule[result[0]] = 1;
        out->inputs[0][lhs[0]] = (int8_t)result[0];
    }
    if (!features || !batches) return SHOAL_OK;
    uint32_t loop = out->n_loops++;
    out->granule[result[1]] = out->granule[loop] = 1;
    out->extent[loop] = call->inputs[0].dims[lhs[1]];
    out->contracted[loop] = true;
    out->inputs[0][lhs[1]] = out->inputs[1][rhs[0]] = (int8_t)loop;
    return SHOAL_OK;
}

COST(convolution) {
    uint32_t n, rank = outputs[0].rank;
    const int64_t *rhs = graph_call_ints(call, SHOAL_ATTR_CONVOLUTION_DIMENSIONS, &n) + rank;
    double features = (double)call->inputs[1].dims[rhs[1]];
    double products = (double)base_type_count(&call->inputs[1]) / (features > 0 ? features : 1);
    return 2 * (double)base_type_count(&outputs[0]) * products;
}
