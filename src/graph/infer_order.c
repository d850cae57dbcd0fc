/* Shape rules of operations with bodies along axes (reduce, cumulate, sort), of those that find
 * places (argmax, top_k), and of random. */
#include "graph/rules.h"

#include <string.h>

static bool is_scalar(const shoal_graph *g, uint32_t value, uint8_t dtype) {
    const shoal_type *type = &g->values[value].type;
    return type->rank == 0 && type->dtype == dtype;
}

bool graph_body_fits(const shoal_graph *body, const shoal_type *types, uint32_t n, bool pairs,
                     bool predicate) {
    if (body->n_inputs != 2 * n || body->n_outputs != (predicate ? 1 : n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        /* reduce and scatter: all left sides, then all right sides; sort: side by side. */
        uint32_t left = pairs ? i : 2 * i, right = pairs ? n + i : 2 * i + 1;
        if (!is_scalar(body, body->inputs[left], types[i].dtype) ||
            !is_scalar(body, body->inputs[right], types[i].dtype) ||
            (!predicate && !is_scalar(body, body->outputs[i], types[i].dtype)))
            return false;
    }
    return !predicate || is_scalar(body, body->outputs[0], SHOAL_BOOL);
}

/* Operands i and n + i: a tensor and its initial value; all tensors of one shape. */
static shoal_status check_initials(const graph_call *call, uint32_t n) {
    const shoal_type *in = call->inputs;
    for (uint32_t i = 0; i < n; i++) {
        shoal_type scalar = {.dtype = in[i].dtype}, same = in[i];
        same.dtype = in[0].dtype;
        if (!base_type_equal(&same, &in[0]))
            return base_fail(SHOAL_INVALID, "%s: operands of different shapes: %s and %s",
                             graph_call_name(call), GRAPH_TEXT(&in[0]), GRAPH_TEXT(&in[i]));
        if (!base_type_equal(&in[n + i], &scalar))
            return base_fail(SHOAL_INVALID, "%s: the initial value of %s must be %s, not %s",
                             graph_call_name(call), GRAPH_TEXT(&in[i]), GRAPH_TEXT(&scalar),
                             GRAPH_TEXT(&in[n + i]));
    }
    if (graph_body_fits(call->regions[0], in, n, true, false)) return SHOAL_OK;
    shoal_type scalar = {.dtype = in[0].dtype};
    if (n == 1)
        return base_fail(SHOAL_INVALID, "%s: the body must take two %s and return one",
                         graph_call_name(call), GRAPH_TEXT(&scalar));
    return base_fail(SHOAL_INVALID,
                     "%s: the body must take %u scalars, all of the left and then all of the right "
                     "side, and return %u",
                     graph_call_name(call), 2 * n, n);
}

INFER(reduce) {
    const shoal_type *in = call->inputs;
    uint32_t n = call->n_inputs / 2, count;
    if (call->n_inputs % 2 || n > max_outputs)
        return base_fail(SHOAL_INVALID, "reduce: %u operands; they are n tensors, n initial values",
                         call->n_inputs);
    SHOAL_TRY(check_initials(call, n));
    const int64_t *axes;
    SHOAL_TRY(graph_check_axes(call, SHOAL_ATTR_DIMENSIONS, &in[0], &axes, &count));
    for (uint32_t k = 0; k < n; k++) {
        outputs[k] = (shoal_type){.dtype = in[k].dtype};
        for (uint32_t i = 0; i < in[0].rank; i++)
            if (!graph_has(axes, count, i)) outputs[k].dims[outputs[k].rank++] = in[0].dims[i];
    }
    *n_outputs = (uint16_t)n;
    return SHOAL_OK;
}

static int64_t dimension_of(const graph_call *call) {
    return graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
}

INFER(cumulate) {
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, dimension_of(call), &call->inputs[0]));
    SHOAL_TRY(check_initials(call, 1));
    return GRAPH_ONE(&call->inputs[0]);
}

INFER(sort) {
    const shoal_type *in = call->inputs;
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, dimension_of(call), &in[0]));
    if (call->n_inputs > max_outputs)
        return base_fail(SHOAL_INVALID, "sort: at most %u operands", max_outputs);
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        shoal_type same = in[i];
        same.dtype = in[0].dtype;
        if (!base_type_equal(&same, &in[0]))
            return base_fail(SHOAL_INVALID, "sort: operands of different shapes: %s and %s",
                             GRAPH_TEXT(&in[0]), GRAPH_TEXT(&in[i]));
        outputs[i] = in[i];
    }
    if (!graph_body_fits(call->regions[0], in, call->n_inputs, false, true))
        return base_fail(SHOAL_INVALID,
                         "sort: the comparator must take %u scalars, two of each operand side by "
                         "side, and return bool",
                         2 * call->n_inputs);
    *n_outputs = (uint16_t)call->n_inputs;
    return SHOAL_OK;
}

INFER(top_k) {
    const shoal_type *in = &call->inputs[0];
    int64_t k = graph_call_attr(call, SHOAL_ATTR_K)->u.i;
    if (!in->rank || in->dtype == SHOAL_BOOL)
        return base_fail(SHOAL_INVALID, "top_k: takes numbers along a last axis, not %s",
                         GRAPH_TEXT(in));
    if (k < 0 || k > in->dims[in->rank - 1])
        return base_fail(SHOAL_INVALID, "top_k: k is %lld; the last axis of %s has %lld",
                         (long long)k, GRAPH_TEXT(in), (long long)in->dims[in->rank - 1]);
    if (max_outputs < 2) return base_fail(SHOAL_INVALID, "top_k: has two results");
    outputs[0] = *in;
    outputs[0].dims[in->rank - 1] = k;
    outputs[1] = outputs[0];
    outputs[1].dtype = SHOAL_I32;
    *n_outputs = 2;
    return SHOAL_OK;
}

INFER(argmax) {
    const shoal_type *in = &call->inputs[0];
    int64_t axis = dimension_of(call);
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, axis, in));
    shoal_type type = {0};
    SHOAL_TRY(graph_get_dtype(call, &type));
    if (type.dtype != SHOAL_I32 && type.dtype != SHOAL_I64)
        return base_fail(SHOAL_INVALID, "%s: indices are int32 or int64, not %s",
                         graph_call_name(call), shoal_dtype_name((shoal_dtype)type.dtype));
    for (uint32_t i = 0; i < in->rank; i++)
        if (i != axis) type.dims[type.rank++] = in->dims[i];
    if (!in->dims[axis] && base_type_count(&type))
        return base_fail(SHOAL_INVALID, "%s: axis %lld of %s has no elements",
                         graph_call_name(call), (long long)axis, GRAPH_TEXT(in));
    return GRAPH_ONE(&type);
}

static shoal_status check_window(const graph_call *call, const shoal_type *type) {
    const shoal_attr *start = graph_call_attr(call, SHOAL_ATTR_START_INDICES);
    const shoal_attr *whole = graph_call_attr(call, SHOAL_ATTR_WHOLE_SHAPE);
    if (!start && !whole) return SHOAL_OK;
    bool fits = start && whole && start->count == type->rank && whole->count == type->rank;
    shoal_type all = *type;
    for (uint32_t i = 0; fits && i < type->rank; i++) {
        all.dims[i] = whole->u.ints[i];
        fits = start->u.ints[i] >= 0 && all.dims[i] >= type->dims[i] &&
               start->u.ints[i] <= all.dims[i] - type->dims[i];
    }
    int64_t elements;
    if (fits) return base_type_elements(&all, &elements);
    return base_fail(SHOAL_INVALID,
                     "random: start_indices and whole_shape must place %s inside a tensor",
                     GRAPH_TEXT(type));
}

INFER(random) {
    shoal_type type = {0};
    int64_t elements;
    SHOAL_TRY(graph_get_dtype(call, &type));
    SHOAL_TRY(graph_get_shape(call, &type, &elements));
    const char *how = graph_call_attr(call, SHOAL_ATTR_RNG_DISTRIBUTION)->u.string;
    bool bits = !strcmp(how, "BITS");
    if (!bits && strcmp(how, "UNIFORM") && strcmp(how, "NORMAL"))
        return base_fail(SHOAL_INVALID,
                         "random: rng_distribution '%.32s' is none of UNIFORM, NORMAL, BITS", how);
    if (bits == (graph_kind(&type) == 'f'))
        return base_fail(SHOAL_INVALID, "random: %s makes no %s", how, GRAPH_TEXT(&type));
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        char kind = graph_kind(&call->inputs[i]);
        if (call->inputs[i].rank || (kind != 'i' && kind != 'u'))
            return base_fail(SHOAL_INVALID, "random: the %s is an integer scalar, not %s",
                             i ? "stream" : "seed", GRAPH_TEXT(&call->inputs[i]));
    }
    SHOAL_TRY(check_window(call, &type));
    return GRAPH_ONE(&type);
}
