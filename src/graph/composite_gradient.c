/* Shape and axis rules of the composites that are gradients of composites; what they compute is in
 * decompose_gradient.c.
 *
 * softmax_gradient(g, y), gelu_gradient(g, x), silu_gradient(g, x): two operands and a result of
 * one type. rms_norm_gradient(g, x[, scale]) and layer_norm_gradient(g, x[, scale]) are those for
 * x, rms_norm_scale_gradient(g, x) and layer_norm_scale_gradient(g, x) those for the scale.
 * cross_entropy_gradient(g, x, labels): g has the labels' shape. attention_gradient(g, o, q, k, v[,
 * mask][, length]) has three results, for q, k and v; g and o are of attention's result. */
#include "graph/rules.h"

#include <string.h>

static int64_t dimension_of(const graph_call *call) {
    return graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
}

static shoal_status check_float(const graph_call *call, const shoal_type *type) {
    if (graph_kind(type) == 'f') return SHOAL_OK;
    return base_fail(SHOAL_INVALID, "%s: works on floating-point numbers, not on %s",
                     graph_call_name(call), GRAPH_TEXT(type));
}

/* g and x of one type; after them, along DIMENSION, a scale. */
INFER(row_gradient) {
    const shoal_type *in = call->inputs;
    const shoal_attr *epsilon = graph_call_attr(call, SHOAL_ATTR_EPSILON);
    int64_t axis = dimension_of(call);
    SHOAL_TRY(check_float(call, &in[0]));
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, axis, &in[0]));
    if (!base_type_equal(&in[0], &in[1]))
        return base_fail(SHOAL_INVALID, "%s: the gradient %s and %s differ; they are of one type",
                         graph_call_name(call), GRAPH_TEXT(&in[0]), GRAPH_TEXT(&in[1]));
    if (epsilon && epsilon->u.f < 0)
        return base_fail(SHOAL_INVALID, "%s: epsilon %g is negative", graph_call_name(call),
                         epsilon->u.f);
    shoal_type row = {.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[axis]}};
    if (call->n_inputs > 2 && !base_type_equal(&in[2], &row))
        return base_fail(SHOAL_INVALID, "%s: the scale must be %s, not %s", graph_call_name(call),
                         GRAPH_TEXT(&row), GRAPH_TEXT(&in[2]));
    return GRAPH_ONE(&in[0]);
}

/* Every axis of every operand is carried but that of DIMENSION; a scale is needed whole. */
AXES(row_gradient) {
    graph_loops_of_result(&outputs[0], out);
    out->granule[dimension_of(call)] = 0;
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < outputs[0].rank; i++) out->inputs[k][i] = (int8_t)i;
    if (call->n_inputs > 2) graph_whole(&call->inputs[2], out->inputs[2]);
    return SHOAL_OK;
}

INFER(scale_gradient) {
    shoal_type row, same;
    uint16_t n;
    SHOAL_TRY(graph_infer_row_gradient(call, &same, 1, &n));
    row = (shoal_type){.dtype = same.dtype, .rank = 1, .dims = {same.dims[dimension_of(call)]}};
    return GRAPH_ONE(&row);
}

/* Loops are the operands' axes: all are summed over but that of DIMENSION, which is not cut. */
AXES(scale_gradient) {
    const shoal_type *in = &call->inputs[0];
    out->n_loops = in->rank;
    for (uint32_t i = 0; i < in->rank; i++) {
        bool kept = i == dimension_of(call);
        out->extent[i] = in->dims[i];
        out->granule[i] = !kept;
        out->contracted[i] = !kept;
        out->inputs[0][i] = out->inputs[1][i] = (int8_t)i;
        if (kept) out->outputs[0][0] = (int8_t)i;
    }
    return SHOAL_OK;
}

INFER(cross_entropy_gradient) {
    const shoal_type *in = call->inputs;
    int64_t axis = dimension_of(call);
    SHOAL_TRY(check_float(call, &in[1]));
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, axis, &in[1]));
    shoal_type less = {.dtype = in[1].dtype}, labels;
    for (uint32_t i = 0; i < in[1].rank; i++)
        if (i != axis) less.dims[less.rank++] = in[1].dims[i];
    labels = less;
    labels.dtype = in[2].dtype;
    if (!base_type_equal(&in[0], &less))
        return base_fail(SHOAL_INVALID, "%s: the gradient for %s must be %s, not %s",
                         graph_call_name(call), GRAPH_TEXT(&in[1]), GRAPH_TEXT(&less),
                         GRAPH_TEXT(&in[0]));
    if (!strchr("iu", graph_kind(&in[2])) || !base_type_equal(&in[2], &labels))
        return base_fail(SHOAL_INVALID,
                         "%s: the labels of %s must be integers of the shape without axis %lld, "
                         "not %s",
                         graph_call_name(call), GRAPH_TEXT(&in[1]), (long long)axis,
                         GRAPH_TEXT(&in[2]));
    return GRAPH_ONE(&in[1]);
}

/* Every axis of x is carried but that of the classes, which g and the labels have not. */
AXES(cross_entropy_gradient) {
    graph_loops_of_result(&outputs[0], out);
    out->granule[dimension_of(call)] = 0;
    for (uint32_t i = 0, kept = 0; i < outputs[0].rank; i++) {
        out->inputs[1][i] = (int8_t)i;
        if (i == dimension_of(call)) continue;
        out->inputs[0][kept] = out->inputs[2][kept] = (int8_t)i;
        kept++;
    }
    return SHOAL_OK;
}

/* ---- attention ---- */

/* The call of attention whose gradient this is. */
static graph_call attention_of(const graph_call *call) {
    graph_call of = *call;
    of.op = GRAPH_ATTENTION;
    of.inputs += 2;
    of.n_inputs -= 2;
    return of;
}

INFER(attention_gradient) {
    const graph_call of = attention_of(call);
    shoal_type result;
    uint16_t n;
    SHOAL_TRY(graph_infer_attention(&of, &result, 1, &n));
    for (uint32_t i = 0; i < 2; i++)
        if (!base_type_equal(&call->inputs[i], &result))
            return base_fail(SHOAL_INVALID, "%s: operand %u is %s; attention's result is %s",
                             graph_call_name(call), i, GRAPH_TEXT(&call->inputs[i]),
                             GRAPH_TEXT(&result));
    if (max_outputs < 3)
        return base_fail(SHOAL_INVALID, "%s: no room for 3 results", graph_call_name(call));
    for (uint32_t i = 0; i < 3; i++) outputs[i] = of.inputs[i];
    *n_outputs = 3;
    return SHOAL_OK;
}

/* Loops: q's axes, then keys and the values' last axis. Only the leading axes that q, k and v share
 * may be cut: all queries hand something to each key. */
AXES(attention_gradient) {
    const graph_call of = attention_of(call);
    const shoal_type *q = &of.inputs[0], *k = &of.inputs[1], *v = &of.inputs[2];
    uint32_t last = q->rank - 1u, leading = k->rank - 2u;
    int8_t keys = (int8_t)q->rank, values = (int8_t)(q->rank + 1);
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t i = leading; i <= last; i++) out->granule[i] = 0;
    out->n_loops += 2;
    out->extent[keys] = k->dims[leading];
    out->extent[values] = v->dims[leading + 1];
    out->granule[keys] = out->granule[values] = 0;
    for (uint32_t i = 0; i <= last; i++) {
        out->inputs[0][i] = out->inputs[1][i] = i < last ? (int8_t)i : values;
        out->inputs[2][i] = (int8_t)i;
    }
    for (uint32_t i = 0; i < k->rank; i++) {
        out->outputs[1][i] = i < leading ? (int8_t)i : i == leading ? keys : (int8_t)last;
        out->outputs[2][i] = i < leading ? (int8_t)i : i == leading ? keys : values;
        out->inputs[3][i] = out->outputs[1][i];
        out->inputs[4][i] = out->outputs[2][i];
    }
    if (of.n_inputs < 4) return SHOAL_OK;
    const shoal_type *mask = &of.inputs[3];
    for (uint32_t i = 0; i < mask->rank; i++) {
        uint32_t axis = q->rank - mask->rank + i;
        int8_t loop = axis < last ? (int8_t)axis : keys;
        out->inputs[5][i] = mask->dims[i] == out->extent[loop] ? loop : GRAPH_WHOLE;
    }
    return SHOAL_OK;
}

/* Five products of the size of attention's two. */
COST(attention_gradient) {
    const shoal_type *g = &call->inputs[0], *q = &call->inputs[2], *v = &call->inputs[4];
    double keys = (double)v->dims[v->rank - 2];
    return 2 * keys * (3 * (double)base_type_count(q) + 2 * (double)base_type_count(g));
}
