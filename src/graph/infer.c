/* Shape rules: the types of a call's results, with the checks of the StableHLO specification. A
 * message names the operation, the types and the axes that do not fit. */
#include "graph/rules.h"

#include <string.h>

/* ---- elementwise ---- */

shoal_status graph_same_inputs(const graph_call *call, uint32_t first) {
    const shoal_type *in = call->inputs;
    for (uint32_t i = first + 1; i < call->n_inputs; i++) {
        if (in[i].dtype != in[first].dtype)
            return base_fail(SHOAL_INVALID,
                             "%s: element types differ: %s and %s; convert one of them",
                             graph_call_name(call), GRAPH_TEXT(&in[first]), GRAPH_TEXT(&in[i]));
        if (!base_type_equal(&in[first], &in[i]))
            return base_fail(SHOAL_INVALID,
                             "%s: shapes differ: %s and %s; broadcast_in_dim makes them equal",
                             graph_call_name(call), GRAPH_TEXT(&in[first]), GRAPH_TEXT(&in[i]));
    }
    return SHOAL_OK;
}

/* All operands of one type, whose kind is one of `kinds`; the result too. */
static shoal_status same(const graph_call *call, const char *kinds, const char *words,
                         shoal_type *outputs, uint16_t max_outputs, uint16_t *n_outputs) {
    SHOAL_TRY(graph_same_inputs(call, 0));
    if (!strchr(kinds, graph_kind(&call->inputs[0])))
        return base_fail(SHOAL_INVALID, "%s: works on %s, not on %s", graph_call_name(call), words,
                         GRAPH_TEXT(&call->inputs[0]));
    return GRAPH_ONE(&call->inputs[0]);
}

#define SAME(kinds, words) same(call, kinds, words, outputs, max_outputs, n_outputs)

INFER(same) { return SAME("biuf", "any element type"); }
INFER(same_number) { return SAME("iuf", "numbers"); }
INFER(same_signed) { return SAME("if", "signed integers and floating-point numbers"); }
INFER(same_float) { return SAME("f", "floating-point numbers"); }

INFER(same_bits) { return SAME("biu", "bool and integers"); }
INFER(same_integer) { return SAME("iu", "integers"); }

INFER(is_finite) {
    shoal_type type = call->inputs[0];
    if (graph_kind(&type) != 'f')
        return base_fail(SHOAL_INVALID, "is_finite: works on floating-point numbers, not on %s",
                         GRAPH_TEXT(&type));
    type.dtype = SHOAL_BOOL;
    return GRAPH_ONE(&type);
}

/* The bounds have the operand's type, or are scalars. */
INFER(clamp) {
    const shoal_type *in = call->inputs;
    shoal_type scalar = {.dtype = in[1].dtype};
    for (int i = 0; i < 3; i += 2)
        if (!base_type_equal(&in[i], &in[1]) && !base_type_equal(&in[i], &scalar))
            return base_fail(SHOAL_INVALID, "clamp: the %s is %s; it must be %s or %s",
                             i ? "maximum" : "minimum", GRAPH_TEXT(&in[i]), GRAPH_TEXT(&in[1]),
                             GRAPH_TEXT(&scalar));
    return GRAPH_ONE(&in[1]);
}

/* A smaller element type adds an axis for the parts of an element; a larger one takes it away. */
INFER(bitcast_convert) {
    const shoal_type *in = &call->inputs[0];
    shoal_type type = *in;
    SHOAL_TRY(graph_get_dtype(call, &type));
    int64_t from = (int64_t)shoal_dtype_size((shoal_dtype)in->dtype);
    int64_t to = (int64_t)shoal_dtype_size((shoal_dtype)type.dtype);
    if (in->dtype != type.dtype && (in->dtype == SHOAL_BOOL || type.dtype == SHOAL_BOOL))
        return base_fail(SHOAL_INVALID, "bitcast_convert: bool has no bytes to be read as others");
    if (to < from) {
        if (type.rank == SHOAL_MAX_RANK)
            return base_fail(SHOAL_INVALID, "bitcast_convert: %s has no room for one more axis",
                             GRAPH_TEXT(in));
        type.dims[type.rank++] = from / to;
    } else if (to > from) {
        if (!type.rank || type.dims[type.rank - 1] != to / from)
            return base_fail(
                SHOAL_INVALID, "bitcast_convert: the last axis of %s must have %lld for %s",
                GRAPH_TEXT(in), (long long)(to / from), shoal_dtype_name((shoal_dtype)type.dtype));
        type.dims[--type.rank] = 0;
    }
    return GRAPH_ONE(&type);
}

INFER(reduce_precision) {
    int64_t exponent = graph_call_attr(call, SHOAL_ATTR_EXPONENT_BITS)->u.i;
    int64_t mantissa = graph_call_attr(call, SHOAL_ATTR_MANTISSA_BITS)->u.i;
    if (exponent < 1 || mantissa < 0)
        return base_fail(SHOAL_INVALID,
                         "reduce_precision: %lld bits of exponent and %lld of mantissa; at least 1 "
                         "and 0",
                         (long long)exponent, (long long)mantissa);
    return graph_infer_same_float(call, outputs, max_outputs, n_outputs);
}

INFER(compare) {
    static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    const char *direction = graph_call_attr(call, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    unsigned i = 0;
    while (i < 6 && strcmp(direction, directions[i])) i++;
    if (i == 6)
        return base_fail(SHOAL_INVALID,
                         "compare: comparison_direction '%.32s' is none of EQ, NE, LT, LE, GT, GE",
                         direction);
    SHOAL_TRY(graph_same_inputs(call, 0));
    shoal_type type = call->inputs[0];
    type.dtype = SHOAL_BOOL;
    return GRAPH_ONE(&type);
}

INFER(select) {
    const shoal_type *in = call->inputs;
    SHOAL_TRY(graph_same_inputs(call, 1));
    shoal_type predicate = in[1];
    predicate.dtype = SHOAL_BOOL;
    if (in[0].dtype != SHOAL_BOOL || (in[0].rank && !base_type_equal(&in[0], &predicate)))
        return base_fail(SHOAL_INVALID, "select: the predicate is %s; it must be %s or bool[]",
                         GRAPH_TEXT(&in[0]), GRAPH_TEXT(&predicate));
    return GRAPH_ONE(&in[1]);
}

shoal_status graph_get_dtype(const graph_call *call, shoal_type *type) {
    int64_t dtype = graph_call_attr(call, SHOAL_ATTR_DTYPE)->u.i;
    if (dtype < 0 || dtype >= SHOAL_DTYPE_COUNT)
        return base_fail(SHOAL_INVALID, "%s: element type %lld does not exist",
                         graph_call_name(call), (long long)dtype);
    type->dtype = (uint8_t)dtype;
    return SHOAL_OK;
}

INFER(convert) {
    shoal_type type = call->inputs[0];
    SHOAL_TRY(graph_get_dtype(call, &type));
    return GRAPH_ONE(&type);
}

/* ---- creation ---- */

shoal_status graph_get_shape(const graph_call *call, shoal_type *type, int64_t *elements) {
    uint32_t rank;
    const int64_t *dims = graph_call_ints(call, SHOAL_ATTR_SHAPE, &rank);
    if (rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "%s: shape has rank %u; the limit is %d",
                         graph_call_name(call), rank, SHOAL_MAX_RANK);
    type->rank = (uint8_t)rank;
    memset(type->dims, 0, sizeof type->dims);
    for (uint32_t i = 0; i < rank; i++) type->dims[i] = dims[i];
    shoal_status status = base_type_elements(type, elements);
    return status ? base_fail_prefix(status, "%s: ", graph_call_name(call)) : SHOAL_OK;
}

INFER(constant) {
    shoal_type type = {0};
    int64_t elements;
    SHOAL_TRY(graph_get_dtype(call, &type));
    SHOAL_TRY(graph_get_shape(call, &type, &elements));
    const shoal_attr *value = graph_call_attr(call, SHOAL_ATTR_VALUE);
    int64_t size = (int64_t)shoal_dtype_size((shoal_dtype)type.dtype);
    if (value->count != elements * size && value->count != size)
        return base_fail(SHOAL_INVALID, "constant: %s takes %lld bytes, or %lld for all, not %u",
                         GRAPH_TEXT(&type), (long long)(elements * size), (long long)size,
                         value->count);
    const unsigned char *bytes = value->u.bytes;
    for (uint32_t i = 0; type.dtype == SHOAL_BOOL && i < value->count; i++)
        if (bytes[i] > 1)
            return base_fail(SHOAL_INVALID, "constant: byte %u of %s is %u; bool is 0 or 1", i,
                             GRAPH_TEXT(&type), bytes[i]);
    return GRAPH_ONE(&type);
}

INFER(iota) {
    shoal_type type = {0};
    int64_t elements;
    SHOAL_TRY(graph_get_dtype(call, &type));
    SHOAL_TRY(graph_get_shape(call, &type, &elements));
    if (type.dtype == SHOAL_BOOL)
        return base_fail(SHOAL_INVALID, "iota: makes numbers, not %s", GRAPH_TEXT(&type));
    int64_t axis = graph_call_attr(call, SHOAL_ATTR_IOTA_DIMENSION)->u.i;
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_IOTA_DIMENSION, axis, &type));
    const shoal_attr *start = graph_call_attr(call, SHOAL_ATTR_START_INDICES);
    if (start && start->count != type.rank)
        return base_fail(SHOAL_INVALID, "iota: start_indices has %u numbers; %s has %u axes",
                         start->count, GRAPH_TEXT(&type), type.rank);
    for (uint32_t i = 0; start && i < start->count; i++) {
        int64_t end;
        if (start->u.ints[i] < 0 || base_add_overflow(start->u.ints[i], type.dims[i], &end))
            return base_fail(SHOAL_INVALID, "iota: start_indices: %lld is out of range",
                             (long long)start->u.ints[i]);
    }
    return GRAPH_ONE(&type);
}

/* ---- shape ---- */

INFER(broadcast_in_dim) {
    const shoal_type *in = &call->inputs[0];
    shoal_type type = {.dtype = in->dtype};
    int64_t elements;
    SHOAL_TRY(graph_get_shape(call, &type, &elements));
    const int64_t *axes;
    uint32_t count;
    SHOAL_TRY(graph_check_axes(call, SHOAL_ATTR_BROADCAST_DIMENSIONS, &type, &axes, &count));
    if (count != in->rank)
        return base_fail(SHOAL_INVALID,
                         "broadcast_in_dim: broadcast_dimensions names %u axes; %s has %u", count,
                         GRAPH_TEXT(in), in->rank);
    for (uint32_t i = 0; i < count; i++)
        if (in->dims[i] != 1 && in->dims[i] != type.dims[axes[i]])
            return base_fail(SHOAL_INVALID,
                             "broadcast_in_dim: %s axis %u has %lld, %s axis %lld has %lld; it "
                             "must be equal or 1",
                             GRAPH_TEXT(in), i, (long long)in->dims[i], GRAPH_TEXT(&type),
                             (long long)axes[i], (long long)type.dims[axes[i]]);
    return GRAPH_ONE(&type);
}

INFER(reshape) {
    shoal_type type = {.dtype = call->inputs[0].dtype};
    int64_t elements, had = base_type_count(&call->inputs[0]);
    SHOAL_TRY(graph_get_shape(call, &type, &elements));
    if (elements != had)
        return base_fail(SHOAL_INVALID, "reshape: %s has %lld elements, %s has %lld",
                         GRAPH_TEXT(&call->inputs[0]), (long long)had, GRAPH_TEXT(&type),
                         (long long)elements);
    return GRAPH_ONE(&type);
}

INFER(transpose) {
    const shoal_type *in = &call->inputs[0];
    const int64_t *axes;
    uint32_t count;
    SHOAL_TRY(graph_check_axes(call, SHOAL_ATTR_PERMUTATION, in, &axes, &count));
    if (count != in->rank)
        return base_fail(SHOAL_INVALID, "transpose: permutation names %u axes; %s has %u", count,
                         GRAPH_TEXT(in), in->rank);
    shoal_type type = {.dtype = in->dtype, .rank = in->rank};
    for (uint32_t i = 0; i < count; i++) type.dims[i] = in->dims[axes[i]];
    return GRAPH_ONE(&type);
}

INFER(slice) {
    static const shoal_attr_key lists[] = {SHOAL_ATTR_START_INDICES, SHOAL_ATTR_LIMIT_INDICES,
                                           SHOAL_ATTR_STRIDES};
    const shoal_type *in = &call->inputs[0];
    const int64_t *range[3];
    for (int i = 0; i < 3; i++) {
        uint32_t count;
        range[i] = graph_call_ints(call, lists[i], &count);
        if (count != in->rank)
            return base_fail(SHOAL_INVALID, "slice: %s has %u numbers; %s has %u axes",
                             graph_attr_name((uint16_t)lists[i]), count, GRAPH_TEXT(in), in->rank);
    }
    shoal_type type = {.dtype = in->dtype, .rank = in->rank};
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t start = range[0][i], limit = range[1][i], stride = range[2][i];
        if (start < 0 || start > limit || limit > in->dims[i])
            return base_fail(SHOAL_INVALID, "slice: %lld:%lld is not a range of %s axis %u",
                             (long long)start, (long long)limit, GRAPH_TEXT(in), i);
        if (stride < 1)
            return base_fail(SHOAL_INVALID, "slice: stride %lld of axis %u is not positive",
                             (long long)stride, i);
        type.dims[i] = limit == start ? 0 : 1 + (limit - start - 1) / stride;
    }
    return GRAPH_ONE(&type);
}

INFER(concatenate) {
    const shoal_type *in = call->inputs;
    int64_t axis = graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
    SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, axis, &in[0]));
    shoal_type type = in[0];
    for (uint32_t i = 1; i < call->n_inputs; i++) {
        shoal_type other = in[i];
        if (other.rank == type.rank) other.dims[axis] = in[0].dims[axis];
        if (!base_type_equal(&other, &in[0]))
            return base_fail(SHOAL_INVALID,
                             "concatenate: operands 0 and %u differ in more than axis %lld: %s and "
                             "%s",
                             i, (long long)axis, GRAPH_TEXT(&in[0]), GRAPH_TEXT(&in[i]));
        if (base_add_overflow(type.dims[axis], in[i].dims[axis], &type.dims[axis]))
            return base_fail(SHOAL_INVALID, "concatenate: axis %lld is over 2^63", (long long)axis);
    }
    return GRAPH_ONE(&type);
}

/* ---- dot_general ---- */

/* Pairs of axes, one of each operand, that must have the same extent. */
static shoal_status check_pairs(const graph_call *call, const char *what, shoal_attr_key lhs_key,
                                shoal_attr_key rhs_key) {
    const shoal_type *in = call->inputs;
    const int64_t *lhs, *rhs;
    uint32_t n_lhs, n_rhs;
    SHOAL_TRY(graph_check_axes(call, lhs_key, &in[0], &lhs, &n_lhs));
    SHOAL_TRY(graph_check_axes(call, rhs_key, &in[1], &rhs, &n_rhs));
    if (n_lhs != n_rhs)
        return base_fail(SHOAL_INVALID,
                         "dot_general: %u lhs and %u rhs %s dimensions; they go in "
                         "pairs",
                         n_lhs, n_rhs, what);
    for (uint32_t i = 0; i < n_lhs; i++)
        if (in[0].dims[lhs[i]] != in[1].dims[rhs[i]])
            return base_fail(SHOAL_INVALID,
                             "dot_general: %s dimensions differ: %s axis %lld has %lld, %s axis "
                             "%lld has %lld",
                             what, GRAPH_TEXT(&in[0]), (long long)lhs[i],
                             (long long)in[0].dims[lhs[i]], GRAPH_TEXT(&in[1]), (long long)rhs[i],
                             (long long)in[1].dims[rhs[i]]);
    return SHOAL_OK;
}

/* Appends the axes of an operand that are neither batching nor contracting. */
static shoal_status add_free(const graph_call *call, uint32_t operand, shoal_attr_key batching,
                             shoal_attr_key contracting, shoal_type *type) {
    uint32_t n_batching, n_contracting;
    const int64_t *b = graph_call_ints(call, batching, &n_batching);
    const int64_t *c = graph_call_ints(call, contracting, &n_contracting);
    const shoal_type *in = &call->inputs[operand];
    for (uint32_t i = 0; i < n_contracting; i++)
        if (graph_has(b, n_batching, c[i]))
            return base_fail(SHOAL_INVALID,
                             "dot_general: axis %lld of %s is both batching and "
                             "contracting",
                             (long long)c[i], GRAPH_TEXT(in));
    for (uint32_t i = 0; i < in->rank; i++) {
        if (graph_has(b, n_batching, i) || graph_has(c, n_contracting, i)) continue;
        if (type->rank == SHOAL_MAX_RANK)
            return base_fail(SHOAL_INVALID,
                             "dot_general: the result of %s and %s has a rank over "
                             "%d",
                             GRAPH_TEXT(&call->inputs[0]), GRAPH_TEXT(&call->inputs[1]),
                             SHOAL_MAX_RANK);
        type->dims[type->rank++] = in->dims[i];
    }
    return SHOAL_OK;
}

INFER(dot_general) {
    const shoal_type *in = call->inputs;
    if (in[0].dtype != in[1].dtype)
        return base_fail(SHOAL_INVALID,
                         "dot_general: element types differ: %s and %s; convert one of them",
                         GRAPH_TEXT(&in[0]), GRAPH_TEXT(&in[1]));
    SHOAL_TRY(check_pairs(call, "batching", SHOAL_ATTR_LHS_BATCHING_DIMENSIONS,
                          SHOAL_ATTR_RHS_BATCHING_DIMENSIONS));
    SHOAL_TRY(check_pairs(call, "contracting", SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS,
                          SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS));
    shoal_type type = {.dtype = in[0].dtype};
    uint32_t n;
    const int64_t *batch = graph_call_ints(call, SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, &n);
    for (uint32_t i = 0; i < n; i++) type.dims[type.rank++] = in[0].dims[batch[i]];
    SHOAL_TRY(add_free(call, 0, SHOAL_ATTR_LHS_BATCHING_DIMENSIONS,
                       SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &type));
    SHOAL_TRY(add_free(call, 1, SHOAL_ATTR_RHS_BATCHING_DIMENSIONS,
                       SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &type));
    return GRAPH_ONE(&type);
}

COST(reduce) { return (double)base_type_count(&call->inputs[0]); }

COST(dot_general) {
    uint32_t n;
    const int64_t *contracted = graph_call_ints(call, SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &n);
    double flops = 2 * (double)base_type_count(&outputs[0]);
    for (uint32_t i = 0; i < n; i++) flops *= (double)call->inputs[0].dims[contracted[i]];
    return flops;
}
