/* The kernels by name: each a call of the table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/block.h"
#include "kernels/run.h"

/* ---- one operation ---- */

static shoal_status build_one(const kernels_call *call, graph *g, const uint32_t *inputs,
                              uint32_t *outputs) {
    uint32_t first;
    SHOAL_TRY(graph_add(g, call->op, inputs, call->n_inputs, call->attrs, call->n_attrs, NULL, 0,
                        &first));
    const shoal_graph *data = graph_data(g);
    uint32_t n = data->nodes[data->n_nodes - 1].n_outputs;
    if (n != call->n_outputs)
        return base_fail(SHOAL_INVALID, "%s: it has %u results, and there are arrays for %u",
                         call->name, n, call->n_outputs);
    for (uint32_t i = 0; i < n; i++) outputs[i] = first + i;
    return SHOAL_OK;
}

shoal_status shoal_kernel(uint16_t op, const shoal_array *inputs, uint32_t n_inputs,
                          const shoal_attr *attrs, uint16_t n_attrs, const shoal_array *outputs,
                          uint32_t n_outputs) {
    const graph_op_def *def = graph_op(op);
    if (!def) return base_fail(SHOAL_INVALID, "kernel: there is no operation %u", op);
    if (def->n_regions || op == GRAPH_PLACE || op == GRAPH_EXCHANGE || op == GRAPH_SOURCE ||
        op == GRAPH_CUSTOM)
        return base_fail(SHOAL_UNSUPPORTED, "%s: %s; use a session (shoal.h)", def->name,
                         def->n_regions ? "an operation with bodies is no kernel"
                                        : "it only means something in a pool");
    const kernels_call call = {.name = def->name,
                               .build = build_one,
                               .op = op,
                               .n_attrs = n_attrs,
                               .attrs = attrs,
                               .inputs = inputs,
                               .outputs = outputs,
                               .n_inputs = n_inputs,
                               .n_outputs = n_outputs};
    return kernels_run(&call);
}

/* An operation of one result on operands up to the first that is NULL. */
static shoal_status apply(uint16_t op, const shoal_array *const *operands, uint32_t n,
                          const shoal_attr *attrs, uint16_t n_attrs, const shoal_array *out) {
    shoal_array given[5];
    uint32_t n_given = 0;
    const char *name = shoal_op_name(op);
    while (n_given < n && operands[n_given]) {
        given[n_given] = *operands[n_given];
        n_given++;
    }
    for (uint32_t i = n_given; i < n; i++)
        if (operands[i])
            return base_fail(SHOAL_INVALID, "%s: operand %u needs operand %u", name, i, n_given);
    if (!out) return base_fail(SHOAL_INVALID, "%s: there is no array for the result", name);
    return shoal_kernel(op, given, n_given, attrs, n_attrs, out, 1);
}

/* The same along an axis of the first operand. attrs: room for one more. */
static shoal_status along(uint16_t op, const shoal_array *const *operands, uint32_t n, int64_t axis,
                          shoal_attr *attrs, uint16_t n_attrs, const shoal_array *out) {
    const shoal_array *x = operands[0];
    int64_t found = x && axis < 0 ? axis + x->rank : axis;
    if (!x) return base_fail(SHOAL_INVALID, "%s: operand 0 is missing", shoal_op_name(op));
    if (found < 0 || found >= x->rank)
        return base_fail(SHOAL_INVALID, "%s: an array of %u axes has no axis %lld",
                         shoal_op_name(op), x->rank, (long long)axis);
    attrs[n_attrs] = graph_int(SHOAL_ATTR_DIMENSION, found);
    return apply(op, operands, n, attrs, n_attrs + 1, out);
}

shoal_status shoal_kernel_rms_norm(const shoal_array *x, const shoal_array *scale, int64_t axis,
                                   double epsilon, const shoal_array *out) {
    shoal_attr attrs[2] = {graph_float(SHOAL_ATTR_EPSILON, epsilon)};
    return along(GRAPH_RMS_NORM, (const shoal_array *[]){x, scale}, 2, axis, attrs, 1, out);
}

shoal_status shoal_kernel_layer_norm(const shoal_array *x, const shoal_array *scale,
                                     const shoal_array *bias, int64_t axis, double epsilon,
                                     const shoal_array *out) {
    shoal_attr attrs[2] = {graph_float(SHOAL_ATTR_EPSILON, epsilon)};
    return along(GRAPH_LAYER_NORM, (const shoal_array *[]){x, scale, bias}, 3, axis, attrs, 1, out);
}

shoal_status shoal_kernel_softmax(const shoal_array *x, int64_t axis, const shoal_array *out) {
    shoal_attr attrs[1];
    return along(GRAPH_SOFTMAX, &x, 1, axis, attrs, 0, out);
}

shoal_status shoal_kernel_silu(const shoal_array *x, const shoal_array *out) {
    return apply(GRAPH_SILU, &x, 1, NULL, 0, out);
}

shoal_status shoal_kernel_gelu(const shoal_array *x, bool tanh, const shoal_array *out) {
    const shoal_attr attr = graph_string(SHOAL_ATTR_APPROXIMATE, tanh ? "tanh" : "none");
    return apply(GRAPH_GELU, &x, 1, &attr, 1, out);
}

shoal_status shoal_kernel_rope(const shoal_array *x, const shoal_array *positions,
                               const shoal_array *frequencies, int64_t axis, double theta,
                               bool interleaved, const shoal_array *out) {
    shoal_attr attrs[3] = {graph_float(SHOAL_ATTR_THETA, theta > 0 ? theta : 10000),
                           graph_bool(SHOAL_ATTR_INTERLEAVED, interleaved)};
    return along(GRAPH_ROPE, (const shoal_array *[]){x, positions, frequencies}, 3, axis, attrs, 2,
                 out);
}

shoal_status shoal_kernel_attention(const shoal_array *q, const shoal_array *k,
                                    const shoal_array *v, const shoal_array *mask, double scale,
                                    bool causal, const shoal_array *out) {
    shoal_attr attrs[2];
    uint16_t n = 0;
    if (causal) attrs[n++] = graph_int(SHOAL_ATTR_CAUSAL, 0);
    if (scale != 0) attrs[n++] = graph_float(SHOAL_ATTR_SCALE, scale);
    return apply(GRAPH_ATTENTION, (const shoal_array *[]){q, k, v, mask}, 4, attrs, n, out);
}

/* ---- products ---- */

enum { PRODUCT_ATTRS = 4 };

/* A product with `n` batch axes, the first ones of both operands; contracted: an axis of each. */
static void product_attrs(const int64_t *batch, uint32_t n, const int64_t *contracted,
                          shoal_attr *attrs) {
    attrs[0] = graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, batch, n);
    attrs[1] = graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, batch, n);
    attrs[2] = graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &contracted[0], 1);
    attrs[3] = graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &contracted[1], 1);
}

/* An array with axes put before it, and axes of 1 spread: what its batch axes become. */
typedef struct stretched {
    shoal_array array;
    int64_t dims[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];
} stretched;

/* The matrix, or the batch of them, that an operand of matmul is; a vector is one row or column. */
static shoal_status as_matrices(const shoal_array *x, uint32_t index, bool column, stretched *out) {
    shoal_type type;
    SHOAL_TRY(kernels_check("matmul", "operand", index, x, &type));
    if (!type.rank)
        return base_fail(SHOAL_INVALID,
                         "matmul: operand %u is a scalar, without an axis to "
                         "contract; multiply",
                         index);
    uint32_t n = 0;
    if (type.rank == 1 && !column) {
        out->dims[n] = 1;
        out->strides[n++] = 0;
    }
    memcpy(out->dims + n, type.dims, type.rank * sizeof *type.dims);
    kernels_strides(x, &type, out->strides + n);
    n += type.rank;
    if (type.rank == 1 && column) {
        out->dims[n] = 1;
        out->strides[n++] = 0;
    }
    out->array = (shoal_array){x->dtype, n, out->dims, out->strides, x->data};
    return SHOAL_OK;
}

/* Repeats the axes before the last two so that there are as many of them as in `batch`. */
static void stretch(stretched *x, const int64_t *batch, uint32_t rank) {
    uint32_t own = x->array.rank - 2;
    for (uint32_t i = rank + 2; i-- > 0;) {
        bool there = i >= rank - own, spread = i < rank && (!there || x->dims[i - rank + own] == 1);
        x->strides[i] = spread ? 0 : x->strides[i - rank + own];
        x->dims[i] = i < rank ? batch[i] : x->dims[i - rank + own];
    }
    x->array.rank = rank + 2;
}

static shoal_status common_batch(const stretched *a, const stretched *b, int64_t *batch,
                                 uint32_t *rank) {
    uint32_t x = a->array.rank - 2, y = b->array.rank - 2;
    *rank = x > y ? x : y;
    for (uint32_t i = 0; i < *rank; i++) {
        int64_t p = i + x < *rank ? 1 : a->dims[i + x - *rank];
        int64_t q = i + y < *rank ? 1 : b->dims[i + y - *rank];
        if (p != q && p != 1 && q != 1)
            return base_fail(SHOAL_INVALID,
                             "matmul: batch axes of %lld and %lld cannot be broadcast",
                             (long long)p, (long long)q);
        batch[i] = p == 1 ? q : p;
    }
    return SHOAL_OK;
}

/* The result with the axes of 1 that stand for those of vectors. */
static shoal_status as_product(const shoal_array *out, bool row, bool column, stretched *to) {
    shoal_type type;
    SHOAL_TRY(kernels_check("matmul", "result", 0, out, &type));
    uint32_t n = 0, last = type.rank - (column ? 0 : 1);
    if (type.rank + row + column > SHOAL_MAX_RANK || type.rank + row + column < 2)
        return base_fail(SHOAL_INVALID, "matmul: the result cannot have %u axes", type.rank);
    int64_t strides[SHOAL_MAX_RANK];
    kernels_strides(out, &type, strides);
    for (uint32_t i = 0; i <= type.rank; i++) {
        if (row && i == last) {
            to->dims[n] = 1;
            to->strides[n++] = 1;
        }
        if (i == type.rank) break;
        to->dims[n] = type.dims[i];
        to->strides[n++] = strides[i];
    }
    if (column) {
        to->dims[n] = 1;
        to->strides[n++] = 1;
    }
    to->array = (shoal_array){out->dtype, n, to->dims, to->strides, out->data};
    return SHOAL_OK;
}

/* Of bytes to 32 bits. */
static shoal_status build_widened(const kernels_call *call, graph *g, const uint32_t *inputs,
                                  uint32_t *outputs) {
    const shoal_attr to = graph_int(SHOAL_ATTR_DTYPE, SHOAL_I32);
    uint32_t wide[2];
    for (int side = 0; side < 2; side++)
        SHOAL_TRY(graph_add(g, GRAPH_CONVERT, &inputs[side], 1, &to, 1, NULL, 0, &wide[side]));
    return build_one(call, g, wide, outputs);
}

static bool is_byte(shoal_dtype dtype) { return dtype == SHOAL_I8 || dtype == SHOAL_U8; }

shoal_status shoal_kernel_matmul(const shoal_array *a, const shoal_array *b,
                                 const shoal_array *out) {
    stretched x, y, to;
    int64_t batch[SHOAL_MAX_RANK], numbers[SHOAL_MAX_RANK];
    uint32_t rank;
    SHOAL_TRY(as_matrices(a, 0, false, &x));
    SHOAL_TRY(as_matrices(b, 1, true, &y));
    int64_t inner = x.dims[x.array.rank - 1], other = y.dims[y.array.rank - 2];
    if (inner != other)
        return base_fail(SHOAL_INVALID,
                         "matmul: the last axis of the first operand (%lld) must equal axis %d of "
                         "the second (%lld)",
                         (long long)inner, b->rank == 1 ? 0 : (int)b->rank - 2, (long long)other);
    SHOAL_TRY(common_batch(&x, &y, batch, &rank));
    SHOAL_TRY(as_product(out, a->rank == 1, b->rank == 1, &to));
    stretch(&x, batch, rank);
    stretch(&y, batch, rank);
    for (uint32_t i = 0; i < rank; i++) numbers[i] = i;
    shoal_attr attrs[PRODUCT_ATTRS];
    product_attrs(numbers, rank, (const int64_t[]){rank + 1, rank}, attrs);
    bool bytes = is_byte(a->dtype) && is_byte(b->dtype);
    bool widens = bytes && out->dtype == SHOAL_I32, alike = a->dtype == b->dtype;
    if (bytes && !widens && (!alike || out->dtype != a->dtype))
        return base_fail(SHOAL_INVALID, "matmul: the product of %s and %s is %s%sint32, not %s",
                         shoal_dtype_name(a->dtype), shoal_dtype_name(b->dtype),
                         alike ? shoal_dtype_name(a->dtype) : "", alike ? " or " : "",
                         shoal_dtype_name(out->dtype));
    const kernels_call call = {.name = "matmul",
                               .build = widens ? build_widened : build_one,
                               .op = GRAPH_DOT_GENERAL,
                               .n_attrs = PRODUCT_ATTRS,
                               .attrs = attrs,
                               .inputs = (shoal_array[]){x.array, y.array},
                               .outputs = &to.array,
                               .n_inputs = 2,
                               .n_outputs = 1};
    return kernels_run(&call);
}

/* ---- blocks ---- */

static void format_attrs(const char *format, shoal_dtype dtype, shoal_attr *attrs) {
    attrs[0] = graph_int(SHOAL_ATTR_DTYPE, dtype);
    attrs[1] = graph_string(SHOAL_ATTR_FORMAT, format ? format : "");
}

shoal_status shoal_kernel_dequantize(const shoal_array *bytes, const char *format,
                                     const shoal_array *out) {
    shoal_attr attrs[2];
    format_attrs(format, out ? out->dtype : SHOAL_F32, attrs);
    return apply(GRAPH_DEQUANTIZE, &bytes, 1, attrs, 2, out);
}

static shoal_status build_packed(const kernels_call *call, graph *g, const uint32_t *inputs,
                                 uint32_t *outputs) {
    uint32_t numbers;
    const shoal_type *x = &graph_data(g)->values[inputs[0]].type;
    if (!x->rank) return base_fail(SHOAL_INVALID, "%s: x is a scalar", call->name);
    shoal_attr attrs[PRODUCT_ATTRS];
    product_attrs(NULL, 0, (const int64_t[]){x->rank - 1, 1}, attrs);
    SHOAL_TRY(graph_add(g, GRAPH_DEQUANTIZE, &inputs[1], 1, call->attrs, call->n_attrs, NULL, 0,
                        &numbers));
    if (graph_data(g)->values[numbers].type.rank != 2)
        return base_fail(SHOAL_INVALID, "%s: the weights have %u axes; they are [rows, bytes]",
                         call->name, graph_data(g)->values[numbers].type.rank);
    return graph_add(g, GRAPH_DOT_GENERAL, (uint32_t[]){inputs[0], numbers}, 2, attrs,
                     PRODUCT_ATTRS, NULL, 0, outputs);
}

shoal_status shoal_kernel_matmul_packed(const shoal_array *x, const shoal_array *weights,
                                        const char *format, const shoal_array *out) {
    shoal_attr attrs[2];
    if (!x || !weights || !out)
        return base_fail(SHOAL_INVALID, "matmul_packed: an array is missing");
    format_attrs(format, SHOAL_F32, attrs);
    const kernels_call call = {.name = "matmul_packed",
                               .build = build_packed,
                               .op = GRAPH_DEQUANTIZE,
                               .n_attrs = 2,
                               .attrs = attrs,
                               .inputs = (shoal_array[]){*x, *weights},
                               .outputs = out,
                               .n_inputs = 2,
                               .n_outputs = 1};
    return kernels_run(&call);
}

/* Encodes dense numbers, a row of blocks at a time. */
static shoal_status encode(const float *from, uint8_t *to, int64_t count,
                           base_block_number number) {
    const shoal_block_format *format = shoal_block_format_at(number);
    base_block_encode blocks = base_block_encoder(number);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(from[i]))
            return base_fail(SHOAL_INVALID,
                             "quantize: number %lld is %g; %s holds finite numbers alone",
                             (long long)i, (double)from[i], format->name);
    if (blocks(from, to, (size_t)(count / format->values))) return SHOAL_OK;
    return base_fail(SHOAL_INVALID,
                     "quantize: a number is too large for the scales of %s, which "
                     "are float16",
                     format->name);
}

shoal_status shoal_kernel_quantize(const shoal_array *x, const char *format,
                                   const shoal_array *bytes) {
    shoal_type from, to;
    uint32_t number;
    if (shoal_block_format_find(format ? format : "", &number))
        return base_fail_prefix(SHOAL_INVALID, "quantize: ");
    const shoal_block_format *f = shoal_block_format_at(number);
    SHOAL_TRY(kernels_check("quantize", "operand", 0, x, &from));
    SHOAL_TRY(kernels_check("quantize", "result", 0, bytes, &to));
    char got[BASE_TYPE_TEXT], wanted[BASE_TYPE_TEXT];
    int64_t last = from.rank ? from.dims[from.rank - 1u] : 1;
    if (from.dtype != SHOAL_F32 || !from.rank || last % f->values)
        return base_fail(SHOAL_INVALID,
                         "quantize: takes float32 with a last axis of whole blocks of %u numbers, "
                         "not %s",
                         f->values, base_type_text(&from, got));
    shoal_type right = from;
    right.dtype = SHOAL_U8;
    right.dims[from.rank - 1u] = last / f->values * f->bytes;
    if (!base_type_equal(&to, &right))
        return base_fail(SHOAL_INVALID, "quantize: the result is %s; give an array of %s",
                         base_type_text(&to, got), base_type_text(&right, wanted));
    if (kernels_overlaps_itself(bytes, &to))
        return base_fail(SHOAL_INVALID, "quantize: elements of the result have one place; give an "
                                        "array without strides of 0");
    int64_t count = base_type_count(&from);
    float *numbers = malloc((size_t)count * sizeof *numbers + 1);
    uint8_t *blocks = malloc((size_t)base_type_bytes(&to) + 1);
    shoal_status status = SHOAL_OK;
    if (!numbers || !blocks) status = base_fail(SHOAL_NO_MEMORY, "quantize: no memory for copies");
    if (!status) kernels_gather(x, &from, numbers);
    if (!status) status = encode(numbers, blocks, count, (base_block_number)number);
    if (!status) kernels_scatter(blocks, &to, bytes);
    free(numbers);
    free(blocks);
    return status;
}
