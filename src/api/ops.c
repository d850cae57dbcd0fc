/* The operations of shoal.h: NumPy's broadcasting and defaults over the table of operations. */
#include "api/ops.h"

#include <stdlib.h>
#include <string.h>

shoal_status shoal_apply(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                         uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                         const shoal_graph *const *regions, uint16_t n_regions,
                         shoal_tensor **outputs, uint16_t n_outputs) {
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK)
        status = api_apply(session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions,
                           outputs, n_outputs);
    if (status == SHOAL_OK && api_trace_is_full(session))
        status = api_flush(session, NULL, NULL, 0, NULL);
    pthread_mutex_unlock(&session->lock);
    for (uint16_t o = 0; o < n_outputs && status != SHOAL_OK; o++) shoal_tensor_free(&outputs[o]);
    return status;
}

shoal_status api_apply1(uint16_t op, shoal_tensor *x, const shoal_attr *attrs, uint16_t n_attrs,
                        shoal_tensor **out) {
    *out = NULL;
    return shoal_apply(x->session, op, &x, 1, attrs, n_attrs, NULL, 0, out, 1);
}

/* ---- broadcasting ---- */

/* The shape that NumPy's rules give for two; fails naming both. */
static shoal_status common_shape(const char *what, const shoal_type *a, const shoal_type *b,
                                 shoal_type *out) {
    char x[BASE_TYPE_TEXT], y[BASE_TYPE_TEXT];
    *out = a->rank >= b->rank ? *a : *b;
    for (uint32_t i = 0; i < out->rank; i++) {
        uint32_t before_a = (uint32_t)out->rank - a->rank, before_b = (uint32_t)out->rank - b->rank;
        int64_t p = i < before_a ? 1 : a->dims[i - before_a];
        int64_t q = i < before_b ? 1 : b->dims[i - before_b];
        if (p != q && p != 1 && q != 1)
            return base_fail(SHOAL_INVALID,
                             "%s: shapes of %s and %s do not broadcast: axis %u has "
                             "%lld and %lld",
                             what, base_type_text(a, x), base_type_text(b, y), i, (long long)p,
                             (long long)q);
        out->dims[i] = p == 1 ? q : p;
    }
    return SHOAL_OK;
}

shoal_status api_stretch(shoal_tensor *x, const shoal_type *shape, shoal_tensor **out) {
    if (x->type.rank == shape->rank &&
        !memcmp(x->type.dims, shape->dims, shape->rank * sizeof *shape->dims)) {
        *out = shoal_tensor_retain(x);
        return SHOAL_OK;
    }
    return shoal_broadcast(x, shape->rank, shape->dims, out);
}

shoal_status shoal_broadcast(shoal_tensor *x, uint32_t rank, const int64_t *dims,
                             shoal_tensor **out) {
    *out = NULL;
    char text[BASE_TYPE_TEXT];
    if (rank > SHOAL_MAX_RANK || rank < x->type.rank)
        return base_fail(SHOAL_INVALID, "broadcast: %s cannot take rank %u",
                         base_type_text(&x->type, text), rank);
    int64_t axes[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < x->type.rank; i++) axes[i] = i + (rank - x->type.rank);
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, axes, x->type.rank),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, rank)};
    return api_apply1(GRAPH_BROADCAST_IN_DIM, x, attrs, 2, out);
}

static shoal_status binary(uint16_t op, shoal_tensor *a, shoal_tensor *b, const shoal_attr *attrs,
                           uint16_t n_attrs, shoal_tensor **out) {
    *out = NULL;
    char x[BASE_TYPE_TEXT], y[BASE_TYPE_TEXT];
    if (a->type.dtype != b->type.dtype)
        return base_fail(
            SHOAL_INVALID, "%s: element types of %s and %s differ; convert one of them",
            shoal_op_name(op), base_type_text(&a->type, x), base_type_text(&b->type, y));
    shoal_type shape;
    SHOAL_TRY(common_shape(shoal_op_name(op), &a->type, &b->type, &shape));
    shoal_tensor *operands[2] = {NULL, NULL};
    shoal_status status = api_stretch(a, &shape, &operands[0]);
    if (status == SHOAL_OK) status = api_stretch(b, &shape, &operands[1]);
    if (status == SHOAL_OK)
        status = shoal_apply(a->session, op, operands, 2, attrs, n_attrs, NULL, 0, out, 1);
    shoal_tensor_free(&operands[0]);
    shoal_tensor_free(&operands[1]);
    return status;
}

/* ---- element by element ---- */

/* Numbers of operations by their names in lower case, as the maps of shoal.h have them. */
enum {
#define OP(name, NAME, ...) op_##name = GRAPH_##NAME,
#include "graph/ops.def"
#undef OP
};

#define XX(name)                                                                                   \
    shoal_status shoal_##name(shoal_tensor *x, shoal_tensor **out) {                               \
        return api_apply1(op_##name, x, NULL, 0, out);                                             \
    }
SHOAL_UNARY_MAP(XX)
#undef XX

#define XX(name)                                                                                   \
    shoal_status shoal_##name(shoal_tensor *a, shoal_tensor *b, shoal_tensor **out) {              \
        return binary(op_##name, a, b, NULL, 0, out);                                              \
    }
SHOAL_BINARY_MAP(XX)
#undef XX

shoal_status shoal_compare(shoal_tensor *a, shoal_tensor *b, const char *direction,
                           shoal_tensor **out) {
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, direction);
    return binary(GRAPH_COMPARE, a, b, &attr, 1, out);
}

shoal_status shoal_select(shoal_tensor *condition, shoal_tensor *yes, shoal_tensor *no,
                          shoal_tensor **out) {
    *out = NULL;
    shoal_type values, shape;
    SHOAL_TRY(common_shape("select", &yes->type, &no->type, &values));
    SHOAL_TRY(common_shape("select", &condition->type, &values, &shape));
    shoal_tensor *operands[3] = {NULL, NULL, NULL}, *const given[3] = {condition, yes, no};
    shoal_status status = SHOAL_OK;
    for (int i = 0; i < 3 && status == SHOAL_OK; i++)
        status = api_stretch(given[i], &shape, &operands[i]);
    if (status == SHOAL_OK)
        status = shoal_apply(yes->session, GRAPH_SELECT, operands, 3, NULL, 0, NULL, 0, out, 1);
    for (int i = 0; i < 3; i++) shoal_tensor_free(&operands[i]);
    return status;
}

shoal_status shoal_convert(shoal_tensor *x, shoal_dtype dtype, shoal_tensor **out) {
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, (int64_t)dtype);
    return api_apply1(GRAPH_CONVERT, x, &attr, 1, out);
}

/* ---- products ---- */

/* x with leading axes [0, rank - 2) broadcast to the given ones; its last two are kept. */
static shoal_status stretch_batch(shoal_tensor *x, const int64_t *batch, uint32_t n,
                                  shoal_tensor **out) {
    shoal_type shape = x->type;
    shape.rank = (uint8_t)(n + 2);
    for (uint32_t i = 0; i < n; i++) shape.dims[i] = batch[i];
    shape.dims[n] = x->type.dims[x->type.rank - 2];
    shape.dims[n + 1] = x->type.dims[x->type.rank - 1];
    return api_stretch(x, &shape, out);
}

static shoal_status dot(shoal_tensor *a, shoal_tensor *b, uint32_t n_batch, int64_t a_contract,
                        int64_t b_contract, shoal_tensor **out) {
    int64_t batch[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < n_batch; i++) batch[i] = i;
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, batch, n_batch),
                          graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, batch, n_batch),
                          graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &a_contract, 1),
                          graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &b_contract, 1)};
    shoal_tensor *operands[2] = {a, b};
    return shoal_apply(a->session, GRAPH_DOT_GENERAL, operands, 2, attrs, 4, NULL, 0, out, 1);
}

/* A vector as a matrix of one row or one column. */
static shoal_status as_matrix(shoal_tensor *x, bool row, shoal_tensor **out) {
    int64_t dims[2] = {row ? 1 : x->type.dims[0], row ? x->type.dims[0] : 1};
    return shoal_reshape(x, 2, dims, out);
}

static shoal_status batched(shoal_tensor *a, shoal_tensor *b, shoal_tensor **out) {
    /* One stack of matrices against one matrix needs no batch axes. */
    if (b->type.rank == 2) return dot(a, b, 0, a->type.rank - 1, 0, out);
    shoal_type x = a->type, y = b->type, batch;
    x.rank = (uint8_t)(x.rank - 2);
    y.rank = (uint8_t)(y.rank - 2);
    SHOAL_TRY(common_shape("matmul", &x, &y, &batch));
    shoal_tensor *p = NULL, *q = NULL;
    shoal_status status = stretch_batch(a, batch.dims, batch.rank, &p);
    if (status == SHOAL_OK) status = stretch_batch(b, batch.dims, batch.rank, &q);
    if (status == SHOAL_OK) status = dot(p, q, batch.rank, batch.rank + 1, batch.rank, out);
    shoal_tensor_free(&p);
    shoal_tensor_free(&q);
    return status;
}

/* The result of matmul without the axes that stood in for vectors. */
static shoal_status without_axes(shoal_tensor *x, bool row, bool column, shoal_tensor **out) {
    int64_t dims[SHOAL_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->type.rank; i++)
        if (!(row && i == x->type.rank - 2u) && !(column && i == x->type.rank - 1u))
            dims[n++] = x->type.dims[i];
    return shoal_reshape(x, n, dims, out);
}

shoal_status shoal_matmul(shoal_tensor *a, shoal_tensor *b, shoal_tensor **out) {
    *out = NULL;
    char x[BASE_TYPE_TEXT], y[BASE_TYPE_TEXT];
    base_type_text(&a->type, x);
    base_type_text(&b->type, y);
    if (!a->type.rank || !b->type.rank)
        return base_fail(SHOAL_INVALID,
                         "matmul: %s and %s: a scalar has no axis to contract; use *", x, y);
    if (a->type.dtype != b->type.dtype)
        return base_fail(SHOAL_INVALID,
                         "matmul: element types of %s and %s differ; convert one of "
                         "them",
                         x, y);
    uint32_t inner = b->type.rank == 1 ? 0 : b->type.rank - 2u;
    if (a->type.dims[a->type.rank - 1] != b->type.dims[inner])
        return base_fail(SHOAL_INVALID,
                         "matmul: %s @ %s: the last axis of the first (%lld) must "
                         "equal axis %u of the second (%lld)",
                         x, y, (long long)a->type.dims[a->type.rank - 1], inner,
                         (long long)b->type.dims[inner]);
    bool row = a->type.rank == 1, column = b->type.rank == 1;
    shoal_tensor *p = NULL, *q = NULL, *product = NULL;
    shoal_status status = SHOAL_OK;
    if (row)
        status = as_matrix(a, true, &p);
    else
        p = shoal_tensor_retain(a);
    if (status == SHOAL_OK && column)
        status = as_matrix(b, false, &q);
    else if (status == SHOAL_OK)
        q = shoal_tensor_retain(b);
    if (status == SHOAL_OK) status = batched(p, q, &product);
    if (status == SHOAL_OK && (row || column))
        status = without_axes(product, row, column, out);
    else if (status == SHOAL_OK)
        *out = shoal_tensor_retain(product);
    shoal_tensor_free(&p);
    shoal_tensor_free(&q);
    shoal_tensor_free(&product);
    return status;
}

/* ---- shapes ---- */

shoal_status shoal_transpose(shoal_tensor *x, const int64_t *permutation, shoal_tensor **out) {
    int64_t reversed[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < x->type.rank; i++) reversed[i] = x->type.rank - 1 - i;
    shoal_attr attr =
        graph_ints(SHOAL_ATTR_PERMUTATION, permutation ? permutation : reversed, x->type.rank);
    return api_apply1(GRAPH_TRANSPOSE, x, &attr, 1, out);
}

shoal_status shoal_reshape(shoal_tensor *x, uint32_t rank, const int64_t *dims,
                           shoal_tensor **out) {
    shoal_attr attr = graph_ints(SHOAL_ATTR_SHAPE, dims, rank);
    return api_apply1(GRAPH_RESHAPE, x, &attr, 1, out);
}

shoal_status shoal_slice(shoal_tensor *x, const int64_t *start, const int64_t *limit,
                         const int64_t *stride, shoal_tensor **out) {
    int64_t ones[SHOAL_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t rank = x->type.rank;
    shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, start, rank),
                          graph_ints(SHOAL_ATTR_LIMIT_INDICES, limit, rank),
                          graph_ints(SHOAL_ATTR_STRIDES, stride ? stride : ones, rank)};
    return api_apply1(GRAPH_SLICE, x, attrs, 3, out);
}

shoal_status api_find_axis(const char *what, const shoal_type *type, int64_t axis, int64_t *out) {
    char text[BASE_TYPE_TEXT];
    *out = axis < 0 ? axis + type->rank : axis;
    if (*out >= 0 && *out < type->rank) return SHOAL_OK;
    return base_fail(SHOAL_INVALID, "%s: %s has no axis %lld", what, base_type_text(type, text),
                     (long long)axis);
}

shoal_status shoal_concatenate(shoal_tensor *const *inputs, uint32_t n_inputs, int64_t axis,
                               shoal_tensor **out) {
    *out = NULL;
    if (!n_inputs) return base_fail(SHOAL_INVALID, "concatenate: no tensors were given");
    SHOAL_TRY(api_find_axis("concatenate", &inputs[0]->type, axis, &axis));
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    return shoal_apply(inputs[0]->session, GRAPH_CONCATENATE, inputs, n_inputs, &attr, 1, NULL, 0,
                       out, 1);
}

/* ---- creation ---- */

shoal_status shoal_iota(shoal_session *session, shoal_dtype dtype, uint32_t rank,
                        const int64_t *dims, uint32_t axis, shoal_tensor **out) {
    *out = NULL;
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, axis),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, rank),
                          graph_int(SHOAL_ATTR_DTYPE, (int64_t)dtype)};
    return shoal_apply(session, GRAPH_IOTA, NULL, 0, attrs, 3, NULL, 0, out, 1);
}

shoal_status shoal_full(shoal_session *session, shoal_dtype dtype, uint32_t rank,
                        const int64_t *dims, const void *value, shoal_tensor **out) {
    *out = NULL;
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, value, shoal_dtype_size(dtype)),
                          graph_ints(SHOAL_ATTR_SHAPE, dims, rank),
                          graph_int(SHOAL_ATTR_DTYPE, (int64_t)dtype)};
    return shoal_apply(session, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, out, 1);
}
