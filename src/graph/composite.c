/* Composites: their shape and axis rules. What they compute is in decompose.c.
 *
 * attention(q, k, v[, mask][, length]): q is [..., S, D], k is [..., T, D], v is [..., T, E] and
 * the result [..., S, E]; the leading axes are the same, but q may have one more just before S, a
 * group of heads that share k and v. mask is bool (true: seen) or of q's type (added), its axes are
 * the last of [..., S, T] or 1. length, an integer scalar, hides the keys from there on. With the
 * attribute causal = c, query i sees key j when j <= i + (length or T) - S + c; c is 0 unless S is
 * cut into parts. A query that sees no key has NaN; what v holds at hidden keys may be read or not.
 *
 * rope(x, positions[, frequencies]): the last axis of x holds pairs, (0, D/2), (1, D/2 + 1), ...
 * or, interleaved, (0, 1), (2, 3), ...; pair i at index s of axis `dimension` is turned by
 * positions[s]
 * * frequencies[i], which is theta^(-2i/D) when not given. */
#include "graph/rules.h"

#include <string.h>

static shoal_status check_float(const graph_call *call, const shoal_type *type) {
    if (graph_kind(type) == 'f') return SHOAL_OK;
    return base_fail(SHOAL_INVALID, "%s: works on floating-point numbers, not on %s",
                     graph_call_name(call), GRAPH_TEXT(type));
}

static int64_t dimension_of(const graph_call *call) {
    return graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
}

/* ---- element by element, and along one axis ---- */

INFER(gelu) {
    const shoal_attr *kind = graph_call_attr(call, SHOAL_ATTR_APPROXIMATE);
    if (kind && strcmp(kind->u.string, "none") && strcmp(kind->u.string, "tanh"))
        return base_fail(SHOAL_INVALID, "gelu: approximate '%.32s' is neither none nor tanh",
                         kind->u.string);
    return graph_infer_same_float(call, outputs, max_outputs, n_outputs);
}

INFER(softmax) {
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, dimension_of(call), &call->inputs[0]));
    return graph_infer_same_float(call, outputs, max_outputs, n_outputs);
}

INFER(norm) {
    const shoal_type *in = call->inputs;
    SHOAL_TRY(check_float(call, &in[0]));
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, dimension_of(call), &in[0]));
    if (graph_call_attr(call, SHOAL_ATTR_EPSILON)->u.f < 0)
        return base_fail(SHOAL_INVALID, "%s: epsilon %g is negative", graph_call_name(call),
                         graph_call_attr(call, SHOAL_ATTR_EPSILON)->u.f);
    shoal_type row = {.dtype = in[0].dtype, .rank = 1, .dims = {in[0].dims[dimension_of(call)]}};
    for (uint32_t i = 1; i < call->n_inputs; i++)
        if (!base_type_equal(&in[i], &row))
            return base_fail(SHOAL_INVALID, "%s: the %s must be %s, not %s", graph_call_name(call),
                             i == 1 ? "scale" : "bias", GRAPH_TEXT(&row), GRAPH_TEXT(&in[i]));
    return GRAPH_ONE(&in[0]);
}

/* Every axis is carried but that of DIMENSION; a scale or bias along it is needed whole. */
AXES(along) {
    graph_loops_of_result(&outputs[0], out);
    out->granule[dimension_of(call)] = 0;
    for (uint32_t i = 0; i < outputs[0].rank; i++) out->inputs[0][i] = (int8_t)i;
    for (uint32_t k = 1; k < call->n_inputs; k++) graph_whole(&call->inputs[k], out->inputs[k]);
    return SHOAL_OK;
}

static shoal_type without(const shoal_type *type, int64_t axis) {
    shoal_type less = {.dtype = type->dtype};
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != axis) less.dims[less.rank++] = type->dims[i];
    return less;
}

INFER(cross_entropy) {
    const shoal_type *in = call->inputs;
    SHOAL_TRY(check_float(call, &in[0]));
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, dimension_of(call), &in[0]));
    shoal_type result = without(&in[0], dimension_of(call)), labels = result;
    labels.dtype = in[1].dtype;
    if (!strchr("iu", graph_kind(&in[1])) || !base_type_equal(&in[1], &labels))
        return base_fail(SHOAL_INVALID,
                         "cross_entropy: the labels of %s must be integers of the shape without "
                         "axis %lld, not %s",
                         GRAPH_TEXT(&in[0]), (long long)dimension_of(call), GRAPH_TEXT(&in[1]));
    return GRAPH_ONE(&result);
}

/* The loop of the classes, the last, is not cut; it only tells that they are needed whole. */
AXES(cross_entropy) {
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t i = 0, kept = 0; i < call->inputs[0].rank; i++)
        out->inputs[0][i] = i == dimension_of(call) ? GRAPH_WHOLE : (int8_t)kept++;
    for (uint32_t i = 0; i < outputs[0].rank; i++) out->inputs[1][i] = (int8_t)i;
    return SHOAL_OK;
}

/* A handful of operations per element. */
COST(composite) { return 8 * (double)base_type_count(&call->inputs[0]); }

/* ---- attention ---- */

static shoal_status check_mask(const graph_call *call, const shoal_type *scores) {
    const shoal_type *mask = &call->inputs[3];
    bool fits = mask->rank <= scores->rank &&
                (mask->dtype == SHOAL_BOOL || mask->dtype == call->inputs[0].dtype);
    for (uint32_t i = 0; fits && i < mask->rank; i++) {
        int64_t extent = scores->dims[scores->rank - mask->rank + i];
        fits = mask->dims[i] == extent || mask->dims[i] == 1;
    }
    if (fits) return SHOAL_OK;
    return base_fail(SHOAL_INVALID,
                     "attention: the mask %s is neither bool nor %s with the last axes of %s or 1",
                     GRAPH_TEXT(mask), shoal_dtype_name((shoal_dtype)call->inputs[0].dtype),
                     GRAPH_TEXT(scores));
}

INFER(attention) {
    const shoal_type *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
    SHOAL_TRY(check_float(call, q));
    uint32_t leading = k->rank - 2u;
    bool fits = k->rank >= 2 && v->rank == k->rank &&
                (q->rank == k->rank || q->rank == k->rank + 1) && k->dtype == q->dtype &&
                v->dtype == q->dtype && q->dims[q->rank - 1] == k->dims[leading + 1] &&
                k->dims[leading] == v->dims[leading];
    for (uint32_t i = 0; fits && i < leading; i++)
        fits = q->dims[i] == k->dims[i] && k->dims[i] == v->dims[i];
    if (!fits)
        return base_fail(SHOAL_INVALID,
                         "attention: q %s, k %s, v %s; they must be [..., S, D], [..., T, D], "
                         "[..., T, E] of one element type",
                         GRAPH_TEXT(q), GRAPH_TEXT(k), GRAPH_TEXT(v));
    shoal_type scores = *q, result = *q;
    scores.dims[q->rank - 1] = k->dims[leading];
    result.dims[q->rank - 1] = v->dims[leading + 1];
    uint32_t next = 3;
    if (next < call->n_inputs && call->inputs[next].rank) {
        SHOAL_TRY(check_mask(call, &scores));
        next++;
    }
    if (next < call->n_inputs && !call->inputs[next].rank &&
        strchr("iu", graph_kind(&call->inputs[next])))
        next++;
    if (next < call->n_inputs)
        return base_fail(SHOAL_INVALID,
                         "attention: operand %u is %s; after q, k, v come a mask and an integer "
                         "scalar, the length",
                         next, GRAPH_TEXT(&call->inputs[next]));
    return GRAPH_ONE(&result);
}

/* Leading axes, the group and the queries are carried. Keys and depths are needed whole, and the
 * values' last axis is not cut, for each part would compute all weights again. */
AXES(attention) {
    const shoal_type *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
    uint32_t last = outputs[0].rank - 1u;
    graph_loops_of_result(&outputs[0], out);
    out->granule[last] = 0;
    for (uint32_t i = 0; i < q->rank; i++) out->inputs[0][i] = i < last ? (int8_t)i : GRAPH_WHOLE;
    for (uint32_t i = 0; i < k->rank; i++) {
        out->inputs[1][i] = i < k->rank - 2u ? (int8_t)i : GRAPH_WHOLE;
        out->inputs[2][i] = out->inputs[1][i];
    }
    out->inputs[2][v->rank - 1] = (int8_t)last;
    if (call->n_inputs < 4) return SHOAL_OK;
    const shoal_type *mask = &call->inputs[3];
    for (uint32_t i = 0; i < mask->rank; i++) {
        uint32_t axis = q->rank - mask->rank + i;
        bool carried = axis < last && mask->dims[i] == q->dims[axis];
        out->inputs[3][i] = carried ? (int8_t)axis : GRAPH_WHOLE;
    }
    return SHOAL_OK;
}

/* A part's queries stand further up than its own number of queries says. */
LOCALISE(attention) {
    shoal_attr *causal = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_CAUSAL);
    if (!causal) return SHOAL_OK;
    uint32_t loop = call->inputs[0].rank - 2u;
    causal->u.i += start[loop] + size[loop] - axes->extent[loop];
    return SHOAL_OK;
}

COST(attention) {
    const shoal_type *q = &call->inputs[0], *v = &call->inputs[2];
    double keys = (double)v->dims[v->rank - 2];
    return 2 * keys * ((double)base_type_count(q) + (double)base_type_count(&outputs[0]));
}

/* ---- rope ---- */

INFER(rope) {
    const shoal_type *in = call->inputs;
    SHOAL_TRY(check_float(call, &in[0]));
    int64_t axis = dimension_of(call);
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, axis, &in[0]));
    uint32_t last = in[0].rank - 1u;
    if (axis == last || in[0].dims[last] % 2)
        return base_fail(SHOAL_INVALID,
                         "rope: the last axis of %s holds pairs: its extent must be even, and "
                         "dimension another axis than %lld",
                         GRAPH_TEXT(&in[0]), (long long)axis);
    const shoal_type *positions = &in[1];
    if (!strchr("iu", graph_kind(positions)) || positions->rank != 1 ||
        positions->dims[0] != in[0].dims[axis])
        return base_fail(SHOAL_INVALID,
                         "rope: positions %s; axis %lld of %s takes as many integers",
                         GRAPH_TEXT(positions), (long long)axis, GRAPH_TEXT(&in[0]));
    shoal_type pairs = {.dtype = SHOAL_F32, .rank = 1, .dims = {in[0].dims[last] / 2}};
    if (call->n_inputs == 3 && !base_type_equal(&in[2], &pairs))
        return base_fail(SHOAL_INVALID, "rope: the frequencies must be %s, not %s",
                         GRAPH_TEXT(&pairs), GRAPH_TEXT(&in[2]));
    const shoal_attr *theta = graph_call_attr(call, SHOAL_ATTR_THETA);
    if (theta && theta->u.f <= 0)
        return base_fail(SHOAL_INVALID, "rope: theta %g is not positive", theta->u.f);
    return GRAPH_ONE(&in[0]);
}

/* Every axis is carried but the last, which holds the pairs. */
AXES(rope) {
    graph_loops_of_result(&outputs[0], out);
    out->granule[outputs[0].rank - 1] = 0;
    for (uint32_t i = 0; i < outputs[0].rank; i++) out->inputs[0][i] = (int8_t)i;
    out->inputs[1][0] = (int8_t)dimension_of(call);
    if (call->n_inputs == 3) out->inputs[2][0] = GRAPH_WHOLE;
    return SHOAL_OK;
}
