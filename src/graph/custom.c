/* Operations that users add: the graph knows how their axes behave, and workers what they compute.
 *
 * custom(x, ...) with the attribute `name`: element by element, with operands of one shape. With
 * `dimension`, the same but that this axis is needed whole. With `shape`, which is the result's,
 * all of all operands is needed. The result has the element type `dtype`, else that of the first
 * operand. It depends on nothing but the operands.
 *
 * The gradient for operand i is computed by another operation, "NAME.gradient" and i, from the
 * operands and the gradient of the result; it behaves as the operation itself. */
#include "graph/maker.h"
#include "graph/rules.h"

#include <stdio.h>

enum { MOST_NAME = 63 };

static const shoal_attr *find(const graph_call *call, shoal_attr_key key) {
    return graph_call_attr(call, key);
}

static shoal_status check_name(const char *name) {
    size_t n = strlen(name), good = 0;
    while (good < n && (name[good] == '_' || name[good] == '.' || name[good] == '-' ||
                        (name[good] >= '0' && name[good] <= '9') ||
                        ((name[good] | 32) >= 'a' && (name[good] | 32) <= 'z')))
        good++;
    if (n && n <= MOST_NAME && good == n) return SHOAL_OK;
    return base_fail(SHOAL_INVALID,
                     "custom: the name '%.80s' must have 1 to %d letters of a-z, A-Z, 0-9, '_', "
                     "'.' and '-'",
                     name, MOST_NAME);
}

static shoal_status check_shapes(const graph_call *call) {
    for (uint32_t i = 1; i < call->n_inputs; i++) {
        shoal_type type = call->inputs[i];
        type.dtype = call->inputs[0].dtype;
        if (!base_type_equal(&type, &call->inputs[0]))
            return base_fail(SHOAL_INVALID,
                             "%s: operand %u is %s, operand 0 %s; they need one shape, unless the "
                             "operation needs all of them and its result's shape is given",
                             find(call, SHOAL_ATTR_NAME)->u.string, i, GRAPH_TEXT(&call->inputs[i]),
                             GRAPH_TEXT(&call->inputs[0]));
    }
    return SHOAL_OK;
}

INFER(custom) {
    shoal_type type = call->inputs[0];
    int64_t elements;
    const shoal_attr *axis = find(call, SHOAL_ATTR_DIMENSION);
    SHOAL_TRY(check_name(find(call, SHOAL_ATTR_NAME)->u.string));
    if (find(call, SHOAL_ATTR_DTYPE)) SHOAL_TRY(graph_get_dtype(call, &type));
    if (find(call, SHOAL_ATTR_SHAPE)) {
        if (axis)
            return base_fail(SHOAL_INVALID, "%s: has a shape and a dimension; give one of them",
                             find(call, SHOAL_ATTR_NAME)->u.string);
        SHOAL_TRY(graph_get_shape(call, &type, &elements));
        return GRAPH_ONE(&type);
    }
    SHOAL_TRY(check_shapes(call));
    if (axis) SHOAL_TRY(graph_check_axis(call, SHOAL_ATTR_DIMENSION, axis->u.i, &type));
    SHOAL_TRY(base_type_elements(&type, &elements));
    return GRAPH_ONE(&type);
}

AXES(custom) {
    const shoal_attr *axis = find(call, SHOAL_ATTR_DIMENSION);
    if (!find(call, SHOAL_ATTR_SHAPE)) {
        SHOAL_TRY(graph_axes_elementwise(call, outputs, n_outputs, arena, out));
        if (axis) out->granule[axis->u.i] = 0;
        return SHOAL_OK;
    }
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t a = 0; a < outputs[0].rank; a++) out->granule[a] = 0;
    for (uint32_t k = 0; k < call->n_inputs; k++) graph_whole(&call->inputs[k], out->inputs[k]);
    return SHOAL_OK;
}

static uint32_t gradient_of(const graph_backward *b, maker *m, uint32_t operand) {
    const graph_call *call = b->call;
    const shoal_type *type = &call->inputs[operand];
    uint32_t inputs[GRAPH_MAX_CUSTOM_INPUTS + 1];
    char name[MOST_NAME + 16];
    shoal_attr attrs[4];
    uint16_t n = 0;
    memcpy(inputs, b->inputs, call->n_inputs * sizeof *inputs);
    inputs[call->n_inputs] = b->seeds[0];
    snprintf(name, sizeof name, "%s.gradient%u", find(call, SHOAL_ATTR_NAME)->u.string, operand);
    if (find(call, SHOAL_ATTR_DIMENSION)) attrs[n++] = *find(call, SHOAL_ATTR_DIMENSION);
    if (find(call, SHOAL_ATTR_SHAPE))
        attrs[n++] = graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank);
    attrs[n++] = graph_int(SHOAL_ATTR_DTYPE, type->dtype);
    attrs[n++] = graph_string(SHOAL_ATTR_NAME, name);
    return node(m, GRAPH_CUSTOM, inputs, call->n_inputs + 1, attrs, n, NULL);
}

GRADIENT(custom) {
    maker m = {b->g, SHOAL_OK};
    for (uint32_t i = 0; i < b->call->n_inputs; i++)
        if (b->wanted[i]) b->gradients[i] = gradient_of(b, &m, i);
    return m.status;
}
