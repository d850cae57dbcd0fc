/* Which nodes have a form in ggml, and the operations that this is. ggml's axes are counted from
 * the last on, and there are four of them. A tensor over a value's memory is made for each use of
 * it: the order of the steps is all that ties them together. */
#include "backend/ggml/device.h"

#include "backend/ref/ref.h"
#include "base/block.h"

#include <string.h>

enum { AXES = 4 };

static const shoal_type *type_of(const shoal_graph *g, uint32_t value) {
    return &g->values[value].type;
}

static const shoal_type *in_type(const shoal_graph *g, const shoal_node *node, uint32_t i) {
    return type_of(g, node->inputs[i]);
}

static const shoal_type *out_type(const shoal_graph *g, const shoal_node *node) {
    return type_of(g, node->first_output);
}

static bool ggml_type_of(uint8_t dtype, int *out) {
    switch (dtype) {
    case SHOAL_F32: *out = GGML_F32; return true;
    case SHOAL_F16: *out = GGML_F16; return true;
    case SHOAL_BF16: *out = GGML_BF16; return true;
    default: return false;
    }
}

/* Bytes that are only moved go as numbers of their size, which ggml leaves as they are. */
static bool moved_type_of(uint8_t dtype, int *out) {
    size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
    *out = bytes == 4 ? GGML_F32 : GGML_F16;
    return bytes == 4 || bytes == 2;
}

/* ---- shapes ---- */

/* Axes, the last one first; those beyond n have one element. */
typedef struct shape {
    uint32_t n;
    int64_t dims[SHOAL_MAX_RANK];
} shape;

static shape vector_of(int64_t n) { return (shape){1, {n}}; }

/* Rows along the last axis. */
static shape rows_of(const shoal_type *type) {
    int64_t count = base_type_count(type), last = type->rank ? type->dims[type->rank - 1] : 1;
    return (shape){2, {last, last ? count / last : 0}};
}

/* What a transpose does, with as few axes as will do: `from`, those of the operand; the result's
 * axis number at[i] is axis i of these. False for more than four. */
static bool transposed(uint32_t rank, const int64_t *dims, const int64_t *strides, shape *from,
                       int *at) {
    int64_t size[SHOAL_MAX_RANK], stride[SHOAL_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = rank; i-- > 0;) {
        if (dims[i] == 1) continue;
        if (n && strides[i] == stride[n - 1] * size[n - 1]) {
            size[n - 1] *= dims[i];
            continue;
        }
        size[n] = dims[i];
        stride[n++] = strides[i];
    }
    if (n > AXES) return false;
    *from = (shape){.n = n};
    for (uint32_t i = 0; i < AXES; i++) at[i] = (int)i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = 0;
        for (uint32_t k = 0; k < n; k++) before += stride[k] < stride[i];
        from->dims[before] = size[i];
        at[before] = (int)i;
    }
    return true;
}

static bool is_in_order(const int *at) {
    for (int i = 0; i < AXES; i++)
        if (at[i] != i) return false;
    return true;
}

/* ---- building ---- */

static void lay(ggml_builder *b, ggml_tensor *tensor, uint32_t value) {
    shoal_binding at = b->at(b, value);
    if (b->device->ggml->backend_tensor_alloc(at.memory->buffer, tensor,
                                              at.memory->base + at.offset))
        b->refused = true;
}

static ggml_tensor *leaf_of(ggml_builder *b, uint32_t value, int type, shape s) {
    const ggml_library *ggml = b->device->ggml;
    int64_t dims[AXES] = {1, 1, 1, 1};
    memcpy(dims, s.dims, s.n * sizeof *dims);
    ggml_tensor *tensor = ggml->new_tensor(b->context, type, AXES, dims);
    if (b->at) lay(b, tensor, value);
    return tensor;
}

/* An operation's result lies where the value does. */
static ggml_tensor *put(ggml_builder *b, ggml_tensor *tensor, uint32_t value) {
    const ggml_library *ggml = b->device->ggml;
    if (!b->at) {
        b->refused = b->refused || !ggml->backend_dev_supports_op(b->device->dev, tensor);
        return tensor;
    }
    lay(b, tensor, value);
    ggml->build_forward_expand(b->graph, tensor);
    return tensor;
}

static ggml_tensor *put_aside(ggml_builder *b, ggml_tensor *tensor, uint32_t number) {
    if (!b->at) b->step->scratch[number].bytes = b->device->ggml->nbytes(tensor);
    return put(b, tensor, ggml_scratch(number));
}

static ggml_tensor *permuted(ggml_builder *b, ggml_tensor *tensor, const int *at) {
    const ggml_library *ggml = b->device->ggml;
    ggml_tensor *view = ggml->permute(b->context, tensor, at[0], at[1], at[2], at[3]);
    if (b->at) ggml->backend_view_init(view);
    return view;
}

/* ---- elementwise ---- */

typedef ggml_tensor *unary(ggml_context *, ggml_tensor *);
typedef ggml_tensor *binary(ggml_context *, ggml_tensor *, ggml_tensor *);

static unary *unary_of(const ggml_library *ggml, uint16_t op) {
    switch (op) {
    case GRAPH_NEGATE: return ggml->neg;
    case GRAPH_ABS: return ggml->abs;
    case GRAPH_EXPONENTIAL: return ggml->exp;
    case GRAPH_LOG: return ggml->log;
    case GRAPH_SQRT: return ggml->sqrt;
    case GRAPH_TANH: return ggml->tanh;
    case GRAPH_LOGISTIC: return ggml->sigmoid;
    case GRAPH_SILU: return ggml->silu;
    case GRAPH_GELU: return ggml->gelu_erf;
    default: return NULL;
    }
}

static binary *binary_of(const ggml_library *ggml, uint16_t op) {
    switch (op) {
    case GRAPH_ADD: return ggml->add;
    case GRAPH_SUBTRACT: return ggml->sub;
    case GRAPH_MULTIPLY: return ggml->mul;
    case GRAPH_DIVIDE: return ggml->div;
    default: return NULL;
    }
}

/* Drivers of GPUs have shorter ways for these: log(1e-45) is -88, tanh(-0) is 0. */
static bool is_rounded(const ggml_builder *b, uint16_t op) {
    return !b->device->on_host &&
           (op == GRAPH_EXPONENTIAL || op == GRAPH_LOG || op == GRAPH_TANH || op == GRAPH_LOGISTIC);
}

static void build_unary(ggml_builder *b) {
    const shoal_node *node = b->step->node;
    b->refused = b->refused || is_rounded(b, node->op);
    shape s = rows_of(out_type(b->g, node));
    ggml_tensor *x = leaf_of(b, node->inputs[0], GGML_F32, s);
    put(b, unary_of(b->device->ggml, node->op)(b->context, x), node->first_output);
}

static void build_binary(ggml_builder *b) {
    const shoal_node *node = b->step->node;
    shape s = rows_of(out_type(b->g, node));
    ggml_tensor *x = leaf_of(b, node->inputs[0], GGML_F32, s);
    ggml_tensor *y = leaf_of(b, node->inputs[1], GGML_F32, s);
    put(b, binary_of(b->device->ggml, node->op)(b->context, x, y), node->first_output);
}

static void build_convert(ggml_builder *b) {
    const shoal_node *node = b->step->node;
    int from = 0, to = 0;
    ggml_type_of(in_type(b->g, node, 0)->dtype, &from);
    ggml_type_of(out_type(b->g, node)->dtype, &to);
    ggml_tensor *x = leaf_of(b, node->inputs[0], from, rows_of(out_type(b->g, node)));
    put(b, b->device->ggml->cast(b->context, x, to), node->first_output);
}

/* ---- quantised blocks ---- */

/* The number of a format's element type in ggml, which is that of .gguf files. */
static const shoal_block_format *format_of(const shoal_node *node, int *type) {
    static const int numbers[] = {
#define XX(NAME, name, number, ...) [BASE_BLOCK_##NAME] = number,
        BASE_BLOCK_MAP(XX)
#undef XX
    };
    const shoal_attr *name = shoal_node_attr(node, SHOAL_ATTR_FORMAT);
    uint32_t number;
    if (shoal_block_format_find(name->u.string, &number) != SHOAL_OK) return NULL;
    *type = numbers[number];
    return shoal_block_format_at(number);
}

static bool dequantize_fits(const shoal_graph *g, const shoal_node *node) {
    const shoal_type *x = in_type(g, node, 0), *y = out_type(g, node);
    int type;
    const shoal_block_format *format = format_of(node, &type);
    return format && y->dtype == SHOAL_F32 && x->rank == y->rank && x->rank &&
           y->dims[y->rank - 1] % format->values == 0;
}

static void build_dequantize(ggml_builder *b) {
    const ggml_library *ggml = b->device->ggml;
    const shoal_node *node = b->step->node;
    int type = 0;
    format_of(node, &type);
    ggml_tensor *x = leaf_of(b, node->inputs[0], type, rows_of(out_type(b->g, node)));
    /* Some devices want room behind the blocks, which others' memory does not have. */
    if (!b->at && ggml->backend_buft_get_alloc_size(b->device->kind, x) != ggml->nbytes(x))
        b->refused = true;
    put(b, ggml->cast(b->context, x, GGML_F32), node->first_output);
}

/* ---- rows ---- */

static void build_row(ggml_builder *b) {
    const ggml_library *ggml = b->device->ggml;
    const shoal_node *node = b->step->node;
    shape rows = rows_of(out_type(b->g, node)), row = vector_of(rows.dims[0]);
    const shoal_attr *epsilon = shoal_node_attr(node, SHOAL_ATTR_EPSILON);
    ggml_tensor *x = leaf_of(b, node->inputs[0], GGML_F32, rows), *y;
    if (node->op == GRAPH_SOFTMAX)
        y = ggml->soft_max(b->context, x);
    else if (node->op == GRAPH_RMS_NORM)
        y = ggml->rms_norm(b->context, x, (float)epsilon->u.f);
    else
        y = ggml->norm(b->context, x, (float)epsilon->u.f);
    y = put(b, y, node->first_output);
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        ggml_tensor *by = leaf_of(b, node->inputs[i], GGML_F32, row);
        y = (i == 1 ? ggml->mul : ggml->add)(b->context, y, by);
        put(b, y, node->first_output);
    }
}

static bool row_fits(const shoal_graph *g, const shoal_node *node) {
    const shoal_type *type = out_type(g, node);
    const shoal_attr *axis = shoal_node_attr(node, SHOAL_ATTR_DIMENSION);
    return type->dtype == SHOAL_F32 && type->rank && axis->u.i == type->rank - 1;
}

/* ---- moves ---- */

static bool transpose_of(const shoal_graph *g, const shoal_node *node, shape *from, int *at) {
    ref_view view = ref_view_of(g, node, 0);
    return transposed(view.rank, view.dims, view.from, from, at);
}

static void build_transpose(ggml_builder *b) {
    const shoal_node *node = b->step->node;
    shape from;
    int at[AXES], type = 0;
    transpose_of(b->g, node, &from, at);
    moved_type_of(out_type(b->g, node)->dtype, &type);
    ggml_tensor *x = permuted(b, leaf_of(b, node->inputs[0], type, from), at);
    put(b, b->device->ggml->cont(b->context, x), node->first_output);
}

/* The result's axes, and the operand's, which has one element where they are repeated. */
static bool broadcast_of(const shoal_graph *g, const shoal_node *node, shape *from, shape *to) {
    const shoal_type *x = in_type(g, node, 0), *y = out_type(g, node);
    const shoal_attr *axes = shoal_node_attr(node, SHOAL_ATTR_BROADCAST_DIMENSIONS);
    int64_t dims[SHOAL_MAX_RANK];
    bool repeats = false;
    for (uint32_t i = 0; i < y->rank; i++) dims[i] = 1;
    for (uint32_t i = 0; i < axes->count; i++) {
        if (i && axes->u.ints[i] <= axes->u.ints[i - 1]) return false;
        dims[axes->u.ints[i]] = x->dims[i];
    }
    *from = *to = (shape){.n = 0};
    for (uint32_t i = y->rank; i-- > 0;) {
        if (y->dims[i] == 1) continue;
        bool repeated = dims[i] != y->dims[i];
        uint32_t n = to->n;
        if (n && repeated == repeats) {
            to->dims[n - 1] *= y->dims[i];
            from->dims[n - 1] *= dims[i];
        } else {
            if (n == SHOAL_MAX_RANK) return false;
            to->dims[n] = y->dims[i];
            from->dims[n] = dims[i];
            from->n = ++to->n;
        }
        repeats = repeated;
    }
    return to->n <= AXES;
}

static void build_repeat(ggml_builder *b, ggml_tensor *x, int type, shape to) {
    int64_t dims[AXES] = {1, 1, 1, 1};
    memcpy(dims, to.dims, to.n * sizeof *dims);
    ggml_tensor *as = b->device->ggml->new_tensor(b->context, type, AXES, dims);
    put(b, b->device->ggml->repeat(b->context, x, as), b->step->node->first_output);
}

static void build_broadcast(ggml_builder *b) {
    const shoal_node *node = b->step->node;
    shape from, to;
    int type = 0;
    broadcast_of(b->g, node, &from, &to);
    moved_type_of(out_type(b->g, node)->dtype, &type);
    build_repeat(b, leaf_of(b, node->inputs[0], type, from), type, to);
}

/* One element for all. */
static void build_constant(ggml_builder *b) {
    const shoal_node *node = b->step->node;
    int type = 0;
    moved_type_of(out_type(b->g, node)->dtype, &type);
    build_repeat(b, leaf_of(b, GGML_LITERAL, type, vector_of(1)), type,
                 rows_of(out_type(b->g, node)));
}

/* ---- products ---- */

/* One operand as rows of what is summed: `from`, its axes as they lie; at: where they go. */
typedef struct side {
    shape from;
    int at[AXES];
    shape rows; /* summed, rows, batches */
} side;

static void append(const ref_axes *axes, int number, uint32_t *rank, int64_t *dims,
                   int64_t *strides) {
    for (uint32_t i = 0; i < axes->n; i++) {
        dims[*rank] = axes->size[i];
        strides[(*rank)++] = axes->stride[number][i];
    }
}

static bool side_of(const ref_dot *dot, int number, side *out) {
    const ref_axes *free = number ? &dot->rhs_free : &dot->lhs_free;
    int64_t dims[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];
    uint32_t rank = 0;
    append(&dot->batch, number, &rank, dims, strides);
    append(free, number, &rank, dims, strides);
    append(&dot->contracting, number, &rank, dims, strides);
    out->rows = (shape){3, {dot->contracting.count, free->count, dot->batch.count}};
    return transposed(rank, dims, strides, &out->from, out->at);
}

static ggml_tensor *side_ready(ggml_builder *b, const ref_dot *dot, int number, int type) {
    uint32_t value = b->step->node->inputs[number];
    side s;
    side_of(dot, number, &s);
    if (is_in_order(s.at)) return leaf_of(b, value, type, s.rows);
    ggml_tensor *x = permuted(b, leaf_of(b, value, type, s.from), s.at);
    put_aside(b, b->device->ggml->cont(b->context, x), (uint32_t)number);
    return leaf_of(b, ggml_scratch((uint32_t)number), type, s.rows);
}

static bool dot_fits(const shoal_graph *g, const shoal_node *node) {
    ref_dot dot = ref_dot_of(g, node);
    side s;
    int type;
    return ggml_type_of(out_type(g, node)->dtype, &type) && dot.contracting.count > 0 &&
           side_of(&dot, 0, &s) && side_of(&dot, 1, &s);
}

static void build_dot(ggml_builder *b) {
    const ggml_library *ggml = b->device->ggml;
    const shoal_node *node = b->step->node;
    ref_dot dot = ref_dot_of(b->g, node);
    int type = 0;
    ggml_type_of(out_type(b->g, node)->dtype, &type);
    ggml_tensor *x = side_ready(b, &dot, 0, type), *y = side_ready(b, &dot, 1, type);
    /* The second operand of ggml's product is of f32, on most devices. */
    if (type != GGML_F32) x = put_aside(b, ggml->cast(b->context, x, GGML_F32), 3);
    ggml_tensor *product = ggml->mul_mat(b->context, y, x);
    ggml->mul_mat_set_prec(product, GGML_SUMS_OF_F32);
    if (type == GGML_F32) {
        put(b, product, node->first_output);
    } else {
        product = put_aside(b, product, 2);
        put(b, ggml->cast(b->context, product, type), node->first_output);
    }
}

/* ---- all ---- */

bool ggml_is_still(const shoal_graph *g, const shoal_node *node) {
    if (node->op == GRAPH_RESHAPE) return true;
    const shoal_attr *data =
        node->op == GRAPH_CONSTANT ? shoal_node_attr(node, SHOAL_ATTR_VALUE) : NULL;
    return data && data->count == (size_t)base_type_bytes(out_type(g, node));
}

bool ggml_is_elementwise(const shoal_node *node) {
    switch (node->op) {
    case GRAPH_NEGATE:
    case GRAPH_ABS:
    case GRAPH_EXPONENTIAL:
    case GRAPH_LOG:
    case GRAPH_SQRT:
    case GRAPH_TANH:
    case GRAPH_LOGISTIC:
    case GRAPH_SILU:
    case GRAPH_GELU:
    case GRAPH_ADD:
    case GRAPH_SUBTRACT:
    case GRAPH_MULTIPLY:
    case GRAPH_DIVIDE: return true;
    default: return false;
    }
}

static bool has_erf(const shoal_node *node) {
    const shoal_attr *approximate = shoal_node_attr(node, SHOAL_ATTR_APPROXIMATE);
    return !approximate || strcmp(approximate->u.string, "tanh") != 0;
}

bool ggml_fits(const shoal_graph *g, const shoal_node *node) {
    shape from, to;
    int at[AXES], type;
    if (node->op >= GRAPH_OP_BUILT_IN) return false;
    if (ggml_is_still(g, node)) return true;
    if (!base_type_count(out_type(g, node))) return false;
    uint8_t dtype = out_type(g, node)->dtype;
    if (ggml_is_elementwise(node))
        return dtype == SHOAL_F32 && (node->op != GRAPH_GELU || has_erf(node));
    switch (node->op) {
    case GRAPH_CONVERT:
        return ggml_type_of(dtype, &type) && ggml_type_of(in_type(g, node, 0)->dtype, &type);
    case GRAPH_DEQUANTIZE: return dequantize_fits(g, node);
    case GRAPH_SOFTMAX:
    case GRAPH_RMS_NORM:
    case GRAPH_LAYER_NORM: return row_fits(g, node);
    case GRAPH_CONSTANT: return moved_type_of(dtype, &type);
    case GRAPH_BROADCAST_IN_DIM:
        return moved_type_of(dtype, &type) && broadcast_of(g, node, &from, &to);
    case GRAPH_TRANSPOSE: return moved_type_of(dtype, &type) && transpose_of(g, node, &from, at);
    case GRAPH_DOT_GENERAL: return dot_fits(g, node);
    default: return false;
    }
}

void ggml_build(ggml_builder *b) {
    const shoal_node *node = b->step->node;
    switch (node->op) {
    case GRAPH_CONVERT: build_convert(b); break;
    case GRAPH_DEQUANTIZE: build_dequantize(b); break;
    case GRAPH_SOFTMAX:
    case GRAPH_RMS_NORM:
    case GRAPH_LAYER_NORM: build_row(b); break;
    case GRAPH_CONSTANT: build_constant(b); break;
    case GRAPH_BROADCAST_IN_DIM: build_broadcast(b); break;
    case GRAPH_TRANSPOSE: build_transpose(b); break;
    case GRAPH_DOT_GENERAL: build_dot(b); break;
    default: (node->n_inputs == 1 ? build_unary : build_binary)(b);
    }
}

size_t ggml_context_bytes(const ggml_library *ggml, size_t steps) {
    size_t tensors = (steps + 1) * GGML_TENSORS;
    return tensors * (ggml->tensor_overhead() + 16) + ggml->graph_overhead_custom(tensors, false) +
           4096;
}
