/* Operations with bodies: reduce, cumulate, sort, scatter. */
#include "api/ops.h"

#include <string.h>

shoal_status api_apply_body(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                            uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                            api_make_body make, const void *context, shoal_tensor **outputs,
                            uint16_t n_outputs) {
    const shoal_graph *body = NULL;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK && !session->trace) status = graph_new(0, &session->trace);
    if (status == SHOAL_OK) status = make(session->trace, context, &body);
    if (status == SHOAL_OK)
        status =
            api_apply(session, op, inputs, n_inputs, attrs, n_attrs, &body, 1, outputs, n_outputs);
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* ---- reduce and cumulate ---- */

typedef struct joining {
    uint16_t op;
    shoal_dtype dtype;
} joining;

static shoal_status join_body(graph *g, const void *context, const shoal_graph **out) {
    const joining *how = context;
    return graph_add_body(g, how->op, how->dtype, out);
}

/* The element that changes nothing, as bytes of the type. */
static void identity(uint16_t op, shoal_dtype dtype, unsigned char out[8]) {
    char kind = shoal_dtype_kind(dtype);
    size_t size = shoal_dtype_size(dtype);
    memset(out, 0, 8);
    if (op == GRAPH_ADD) return;
    bool least = op == GRAPH_MAXIMUM;
    if (op == GRAPH_MULTIPLY || kind == 'b') {
        static const unsigned char one[SHOAL_DTYPE_COUNT][8] = {
            [SHOAL_F16] = {0, 0x3c},
            [SHOAL_BF16] = {0x80, 0x3f},
            [SHOAL_F32] = {0, 0, 0x80, 0x3f},
            [SHOAL_F64] = {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}};
        if (kind == 'f')
            memcpy(out, one[dtype], 8);
        else
            out[0] = !(kind == 'b' && least);
    } else if (kind == 'u') {
        memset(out, least ? 0 : 0xff, size);
    } else if (kind == 'i') {
        memset(out, least ? 0 : 0xff, size);
        out[size - 1] = least ? 0x80 : 0x7f;
    } else { /* an infinity: the exponent's bits, and the sign for the least */
        static const unsigned char infinity[SHOAL_DTYPE_COUNT][8] = {
            [SHOAL_F16] = {0, 0x7c},
            [SHOAL_BF16] = {0x80, 0x7f},
            [SHOAL_F32] = {0, 0, 0x80, 0x7f},
            [SHOAL_F64] = {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}};
        memcpy(out, infinity[dtype], 8);
        if (least) out[size - 1] |= 0x80;
    }
}

static shoal_status reduce_op(const char *what, const char *name, uint16_t *op) {
    SHOAL_TRY(shoal_op_find(name, op));
    if (*op == GRAPH_ADD || *op == GRAPH_MULTIPLY || *op == GRAPH_MAXIMUM || *op == GRAPH_MINIMUM)
        return SHOAL_OK;
    return base_fail(SHOAL_INVALID,
                     "%s: '%s' joins nothing; known: add, multiply, maximum, minimum", what, name);
}

shoal_status shoal_reduce(shoal_tensor *x, const char *name, const int64_t *axes, uint32_t n_axes,
                          bool keep_axes, shoal_tensor **out) {
    *out = NULL;
    uint16_t op;
    SHOAL_TRY(reduce_op("reduce", name, &op));
    bool reduced[SHOAL_MAX_RANK] = {false};
    for (uint32_t i = 0; i < n_axes; i++) {
        int64_t axis;
        SHOAL_TRY(api_find_axis("reduce", &x->type, axes[i], &axis));
        if (reduced[axis])
            return base_fail(SHOAL_INVALID, "reduce: axis %lld is named twice", (long long)axes[i]);
        reduced[axis] = true;
    }
    int64_t dimensions[SHOAL_MAX_RANK], kept[SHOAL_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->type.rank; i++) {
        bool gone = n_axes ? reduced[i] : true;
        if (gone) dimensions[n++] = i;
        kept[i] = gone ? 1 : x->type.dims[i];
    }
    shoal_session *session = x->session;
    unsigned char start[8];
    identity(op, (shoal_dtype)x->type.dtype, start);
    shoal_tensor *init = NULL, *result = NULL;
    SHOAL_TRY(shoal_full(session, (shoal_dtype)x->type.dtype, 0, NULL, start, &init));
    shoal_tensor *operands[2] = {x, init};
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, dimensions, n);
    joining how = {op, (shoal_dtype)x->type.dtype};
    shoal_status status =
        api_apply_body(session, GRAPH_REDUCE, operands, 2, &attr, 1, join_body, &how, &result, 1);
    if (status == SHOAL_OK && keep_axes)
        status = shoal_reshape(result, x->type.rank, kept, out);
    else if (status == SHOAL_OK)
        *out = shoal_tensor_retain(result);
    shoal_tensor_free(&init);
    shoal_tensor_free(&result);
    return status;
}

shoal_status shoal_cumulate(shoal_tensor *x, const char *name, int64_t axis, shoal_tensor **out) {
    *out = NULL;
    uint16_t op;
    unsigned char start[8];
    shoal_tensor *init = NULL;
    SHOAL_TRY(reduce_op("cumulate", name, &op));
    SHOAL_TRY(api_find_axis("cumulate", &x->type, axis, &axis));
    joining how = {op, (shoal_dtype)x->type.dtype};
    identity(op, how.dtype, start);
    SHOAL_TRY(shoal_full(x->session, how.dtype, 0, NULL, start, &init));
    shoal_tensor *operands[2] = {x, init};
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    shoal_status status =
        api_apply_body(x->session, GRAPH_CUMULATE, operands, 2, &attr, 1, join_body, &how, out, 1);
    shoal_tensor_free(&init);
    return status;
}

/* Numbers of the last n of `rank` axes, per axis `each` of them, after `before` for the others. */
static void last_axes(int64_t *out, uint32_t rank, uint32_t n, uint32_t each, const int64_t *given,
                      int64_t otherwise) {
    for (uint32_t i = 0; i < rank * each; i++)
        out[i] = given && i >= (rank - n) * each ? given[i - (rank - n) * each] : otherwise;
}

shoal_status shoal_reduce_window(shoal_tensor *x, const char *name, uint32_t n,
                                 const int64_t *window, const int64_t *strides,
                                 const int64_t *padding, const int64_t *dilation,
                                 shoal_tensor **out) {
    *out = NULL;
    uint16_t op;
    char text[BASE_TYPE_TEXT];
    unsigned char start[8];
    shoal_tensor *init = NULL;
    int64_t sizes[SHOAL_MAX_RANK], steps[SHOAL_MAX_RANK], edges[2 * SHOAL_MAX_RANK];
    int64_t apart[SHOAL_MAX_RANK], ones[SHOAL_MAX_RANK];
    uint32_t rank = x->type.rank;
    SHOAL_TRY(reduce_op("reduce_window", name, &op));
    if (n > rank)
        return base_fail(SHOAL_INVALID, "reduce_window: %s has no %u axes",
                         base_type_text(&x->type, text), n);
    last_axes(sizes, rank, n, 1, window, 1);
    last_axes(steps, rank, n, 1, strides, 1);
    last_axes(edges, rank, n, 2, padding, 0);
    last_axes(apart, rank, n, 1, dilation, 1);
    last_axes(ones, rank, 0, 1, NULL, 1);
    joining how = {op, (shoal_dtype)x->type.dtype};
    identity(op, how.dtype, start);
    SHOAL_TRY(shoal_full(x->session, how.dtype, 0, NULL, start, &init));
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_WINDOW_DIMENSIONS, sizes, rank),
                                graph_ints(SHOAL_ATTR_WINDOW_STRIDES, steps, rank),
                                graph_ints(SHOAL_ATTR_BASE_DILATIONS, ones, rank),
                                graph_ints(SHOAL_ATTR_WINDOW_DILATIONS, apart, rank),
                                graph_ints(SHOAL_ATTR_PADDING, edges, 2 * rank)};
    shoal_tensor *operands[2] = {x, init};
    shoal_status status = api_apply_body(x->session, GRAPH_REDUCE_WINDOW, operands, 2, attrs, 5,
                                         join_body, &how, out, 1);
    shoal_tensor_free(&init);
    return status;
}

/* ---- sort ---- */

typedef struct sorting {
    shoal_dtype dtype;
    bool falling, with_indices;
} sorting;

static shoal_status compare(graph *g, const char *direction, uint32_t x, uint32_t y,
                            uint32_t *out) {
    shoal_attr attr = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, direction);
    return graph_add(g, GRAPH_COMPARE, (uint32_t[]){x, y}, 2, &attr, 1, NULL, 0, out);
}

/* Rising: x < y, or y is NaN and x is not. Falling: x > y, or x is NaN and y is not. */
static shoal_status order_body(graph *g, const void *context, const shoal_graph **out) {
    const sorting *how = context;
    graph *body;
    uint32_t in[4], before, nan, number, result;
    SHOAL_TRY(graph_add_region(g, &body));
    for (int i = 0; i < (how->with_indices ? 4 : 2); i++) {
        shoal_type scalar = {.dtype = (uint8_t)(i < 2 ? how->dtype : SHOAL_I64)};
        SHOAL_TRY(graph_add_input(body, &scalar, &in[i]));
    }
    SHOAL_TRY(compare(body, how->falling ? "GT" : "LT", in[0], in[1], &before));
    result = before;
    if (shoal_dtype_kind(how->dtype) == 'f') {
        uint32_t last = in[how->falling ? 0 : 1], first = in[how->falling ? 1 : 0];
        SHOAL_TRY(compare(body, "NE", last, last, &nan));
        SHOAL_TRY(compare(body, "EQ", first, first, &number));
        SHOAL_TRY(graph_add(body, GRAPH_AND, (uint32_t[]){nan, number}, 2, NULL, 0, NULL, 0, &nan));
        SHOAL_TRY(
            graph_add(body, GRAPH_OR, (uint32_t[]){before, nan}, 2, NULL, 0, NULL, 0, &result));
    }
    SHOAL_TRY(graph_add_output(body, result));
    *out = graph_data(body);
    return SHOAL_OK;
}

shoal_status shoal_sort(shoal_tensor *x, int64_t axis, bool falling, shoal_tensor **values,
                        shoal_tensor **indices) {
    *values = NULL;
    if (indices) *indices = NULL;
    SHOAL_TRY(api_find_axis("sort", &x->type, axis, &axis));
    sorting how = {(shoal_dtype)x->type.dtype, falling, indices != NULL};
    shoal_tensor *operands[2] = {x, NULL}, *results[2] = {NULL, NULL};
    if (indices)
        SHOAL_TRY(shoal_iota(x->session, SHOAL_I64, x->type.rank, x->type.dims, (uint32_t)axis,
                             &operands[1]));
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, axis),
                                graph_bool(SHOAL_ATTR_IS_STABLE, 1)};
    uint16_t n = indices ? 2 : 1;
    shoal_status status =
        api_apply_body(x->session, GRAPH_SORT, operands, n, attrs, 2, order_body, &how, results, n);
    shoal_tensor_free(&operands[1]);
    *values = results[0];
    if (indices) *indices = results[1];
    return status;
}

/* ---- scatter ---- */

/* GRAPH_OP_BUILT_IN stands for "set": the second argument. */
static shoal_status scatter_body(graph *g, const void *context, const shoal_graph **out) {
    const joining *how = context;
    if (how->op != GRAPH_OP_BUILT_IN) return graph_add_body(g, how->op, how->dtype, out);
    graph *body;
    shoal_type scalar = {.dtype = (uint8_t)how->dtype};
    uint32_t in[2];
    SHOAL_TRY(graph_add_region(g, &body));
    for (int i = 0; i < 2; i++) SHOAL_TRY(graph_add_input(body, &scalar, &in[i]));
    SHOAL_TRY(graph_add_output(body, in[1]));
    *out = graph_data(body);
    return SHOAL_OK;
}

typedef struct scattering {
    int64_t window[SHOAL_MAX_RANK], inserted[SHOAL_MAX_RANK], batch[SHOAL_MAX_RANK];
    const int64_t *axes; /* that the parts of an index are for */
    uint32_t n_window, n_inserted, n_batch, n_axes;
    int64_t vector;
} scattering;

static shoal_status scatter(const char *what, shoal_tensor *x, shoal_tensor *indices,
                            shoal_tensor *updates, const char *name, const scattering *how,
                            shoal_tensor **out) {
    joining join = {GRAPH_OP_BUILT_IN, (shoal_dtype)x->type.dtype};
    if (strcmp(name, "set")) SHOAL_TRY(reduce_op(what, name, &join.op));
    const shoal_attr attrs[] = {
        graph_ints(SHOAL_ATTR_UPDATE_WINDOW_DIMS, how->window, how->n_window),
        graph_ints(SHOAL_ATTR_INSERTED_WINDOW_DIMS, how->inserted, how->n_inserted),
        graph_ints(SHOAL_ATTR_INPUT_BATCHING_DIMS, how->batch, how->n_batch),
        graph_ints(SHOAL_ATTR_SCATTER_INDICES_BATCHING_DIMS, how->batch, how->n_batch),
        graph_ints(SHOAL_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, how->axes, how->n_axes),
        graph_int(SHOAL_ATTR_INDEX_VECTOR_DIM, how->vector)};
    shoal_tensor *operands[3] = {x, indices, updates};
    return api_apply_body(x->session, GRAPH_SCATTER, operands, 3, attrs, 6, scatter_body, &join,
                          out, 1);
}

shoal_status shoal_scatter(shoal_tensor *x, shoal_tensor *indices, shoal_tensor *updates,
                           int64_t axis, const char *op, shoal_tensor **out) {
    *out = NULL;
    char text[BASE_TYPE_TEXT];
    SHOAL_TRY(api_find_axis("scatter", &x->type, axis, &axis));
    if (indices->type.rank != 1)
        return base_fail(SHOAL_INVALID, "scatter: the indices are %s; they must be a vector",
                         base_type_text(&indices->type, text));
    scattering how = {.axes = &axis, .n_axes = 1, .inserted = {axis}, .n_inserted = 1, .vector = 1};
    for (uint32_t i = 0; i < x->type.rank; i++)
        if (i != axis) how.window[how.n_window++] = i;
    return scatter("scatter", x, indices, updates, op, &how, out);
}

shoal_status shoal_scatter_along(shoal_tensor *x, shoal_tensor *indices, shoal_tensor *updates,
                                 int64_t axis, const char *op, shoal_tensor **out) {
    *out = NULL;
    SHOAL_TRY(api_find_axis("scatter_along", &x->type, axis, &axis));
    /* All other axes go along with those of the indices. */
    scattering how = {.axes = &axis,
                      .n_axes = 1,
                      .inserted = {axis},
                      .n_inserted = 1,
                      .vector = indices->type.rank};
    for (uint32_t i = 0; i < x->type.rank; i++)
        if (i != axis) how.batch[how.n_batch++] = i;
    return scatter("scatter_along", x, indices, updates, op, &how, out);
}

shoal_status shoal_scatter_points(shoal_tensor *x, const int64_t *axes, uint32_t n_axes,
                                  shoal_tensor *indices, shoal_tensor *updates, const char *op,
                                  shoal_tensor **out) {
    *out = NULL;
    char text[BASE_TYPE_TEXT];
    bool named[SHOAL_MAX_RANK] = {false};
    int64_t found[SHOAL_MAX_RANK];
    if (n_axes > x->type.rank || !indices->type.rank ||
        indices->type.dims[indices->type.rank - 1] != n_axes)
        return base_fail(SHOAL_INVALID,
                         "scatter_points: the indices are %s; their last axis must be as long as "
                         "there are axes, %u",
                         base_type_text(&indices->type, text), n_axes);
    for (uint32_t i = 0; i < n_axes; i++) {
        SHOAL_TRY(api_find_axis("scatter_points", &x->type, axes[i], &found[i]));
        if (named[found[i]])
            return base_fail(SHOAL_INVALID, "scatter_points: axis %lld is named twice",
                             (long long)axes[i]);
        named[found[i]] = true;
    }
    scattering how = {.axes = found, .n_axes = n_axes, .vector = indices->type.rank - 1};
    uint32_t at = indices->type.rank - 1u;
    for (uint32_t i = 0; i < x->type.rank; i++)
        if (named[i])
            how.inserted[how.n_inserted++] = i;
        else
            how.window[how.n_window++] = at++;
    return scatter("scatter_points", x, indices, updates, op, &how, out);
}
