/* Nodes that are elementwise, create, move, reduce or multiply. */
#include "make.h"

#include <math.h>
#include <string.h>

/* ---- element by element ---- */

/* The kinds that an operation takes, by its shape rule. */
static const char *kinds_of(uint16_t op) {
    switch (op) {
    case GRAPH_ADD:
    case GRAPH_MULTIPLY:
    case GRAPH_MAXIMUM:
    case GRAPH_MINIMUM:
    case GRAPH_CONVERT:
    case GRAPH_COMPARE:
    case GRAPH_CLAMP:
    case GRAPH_SELECT: return NULL;
    case GRAPH_SUBTRACT:
    case GRAPH_DIVIDE:
    case GRAPH_POWER:
    case GRAPH_REMAINDER: return "iuf";
    case GRAPH_NEGATE:
    case GRAPH_ABS:
    case GRAPH_SIGN: return "if";
    case GRAPH_NOT:
    case GRAPH_AND:
    case GRAPH_OR:
    case GRAPH_XOR: return "biu";
    case GRAPH_POPCNT:
    case GRAPH_COUNT_LEADING_ZEROS:
    case GRAPH_SHIFT_LEFT:
    case GRAPH_SHIFT_RIGHT_ARITHMETIC:
    case GRAPH_SHIFT_RIGHT_LOGICAL:
    case GRAPH_IN_RANGE: return "iu";
    case GRAPH_BITCAST_CONVERT: return "iuf";
    default: return "f";
    }
}

static bool bitcast(maker *m, uint32_t x) {
    uint32_t out;
    shoal_attr to = graph_int(SHOAL_ATTR_DTYPE, 1 + MAKE_BELOW(SHOAL_DTYPE_COUNT - 1));
    return make_node(m, GRAPH_BITCAST_CONVERT, &x, 1, &to, 1, NULL, 0, &out);
}

/* A square with two neighbouring axes of one length swapped; another value of its type else. */
static uint32_t transposed(maker *m, uint32_t x) {
    shoal_type type = *make_type(m, x);
    int64_t order[SHOAL_MAX_RANK];
    uint32_t out, at = 0;
    for (uint32_t i = 0; i < type.rank; i++) order[i] = i;
    for (uint32_t i = 1; i < type.rank; i++)
        if (type.dims[i] == type.dims[i - 1]) at = i;
    if (!at) return make_like(m, type);
    order[at] = at - 1, order[at - 1] = at;
    shoal_attr attr = MAKE_INTS(PERMUTATION, order, type.rank);
    return make_node(m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL, 0, &out) ? out : make_like(m, type);
}

/* Two values that are of types of their own, made what those become together: which Python does by
 * itself. False: the operation takes no such type. */
static bool meet(maker *m, uint16_t op, shoal_type type, uint32_t *in) {
    static const uint8_t pairs[][3] = {
        {SHOAL_I8, SHOAL_U8, SHOAL_I16},   {SHOAL_U16, SHOAL_I8, SHOAL_I32},
        {SHOAL_I32, SHOAL_U32, SHOAL_I64}, {SHOAL_U8, SHOAL_I32, SHOAL_I32},
        {SHOAL_BOOL, SHOAL_U8, SHOAL_U8},  {SHOAL_F16, SHOAL_BF16, SHOAL_F32},
        {SHOAL_I64, SHOAL_F16, SHOAL_F16}, {SHOAL_F32, SHOAL_I64, SHOAL_F32}};
    const uint8_t *types = pairs[MAKE_BELOW(sizeof pairs / sizeof *pairs)];
    const char *kinds = kinds_of(op);
    if (kinds && !strchr(kinds, shoal_dtype_kind((shoal_dtype)types[2]))) return false;
    shoal_attr to = graph_int(SHOAL_ATTR_DTYPE, types[2]);
    for (int i = 0; i < 2; i++) {
        type.dtype = types[i];
        in[i] = make_like(m, type);
        if (types[i] != types[2] &&
            !make_node(m, GRAPH_CONVERT, &in[i], 1, &to, 1, NULL, 0, &in[i]))
            return false;
    }
    return true;
}

bool make_elementwise(maker *m, uint16_t op) {
    static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    static const int8_t formats[][2] = {{5, 10}, {8, 7}, {8, 23}, {5, 2}, {4, 3}, {11, 52}};
    uint32_t in[3], out, n = graph_op(op)->min_inputs;
    static const int64_t least = INT64_MIN, most = INT64_MAX;
    uint16_t n_attrs = 0;
    shoal_attr attrs[3];
    bool divides = op == GRAPH_DIVIDE || op == GRAPH_REMAINDER;
    in[0] = make_any(m, divides && !make_smooth(m) && MAKE_CHANCE(30) ? "i" : kinds_of(op), 0);
    shoal_type type = *make_type(m, in[0]);
    if (op == GRAPH_BITCAST_CONVERT) return bitcast(m, in[0]);
    if (op == GRAPH_SELECT) {
        shoal_type flags = type;
        flags.dtype = SHOAL_BOOL;
        if (MAKE_CHANCE(20)) flags.rank = 0;
        in[1] = in[0];
        in[0] = make_like(m, flags);
        in[2] = make_like(m, type);
    } else if (op == GRAPH_CLAMP) {
        shoal_type bound = type;
        in[1] = in[0];
        if (MAKE_CHANCE(50)) bound.rank = 0;
        in[0] = make_like(m, bound);
        bound = type;
        if (MAKE_CHANCE(50)) bound.rank = 0;
        in[2] = make_like(m, bound);
    } else {
        for (uint32_t i = 1; i < n; i++)
            in[i] = MAKE_CHANCE(10) ? transposed(m, in[0]) : make_like(m, type);
        uint32_t both[2];
        if (n == 2 && !make_smooth(m) && MAKE_CHANCE(4) && meet(m, op, type, both))
            memcpy(in, both, sizeof both);
        if (n == 2 && MAKE_CHANCE(5)) in[1] = make_constant(m, *make_type(m, in[0]));
        if (n == 2 && MAKE_CHANCE(30)) {
            uint32_t swap = in[0];
            in[0] = in[1], in[1] = swap;
        }
    }
    if (op == GRAPH_COMPARE)
        attrs[n_attrs++] = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, directions[MAKE_BELOW(6)]);
    if (op == GRAPH_CONVERT) {
        bool any = !make_smooth(m) && MAKE_CHANCE(30);
        if (any &&
            MAKE_CHANCE(30)) { /* whose numbers in the middle of two are not to be rounded twice */
            type.dtype = SHOAL_F64;
            in[0] = make_input(m, type);
        }
        uint8_t to = any ? (uint8_t)MAKE_BELOW(SHOAL_DTYPE_COUNT) : make_dtype(m, NULL);
        attrs[n_attrs++] = graph_int(SHOAL_ATTR_DTYPE, to);
    }
    if (op == GRAPH_REDUCE_PRECISION) {
        const int8_t *format = formats[MAKE_BELOW(6)];
        attrs[n_attrs++] = graph_int(SHOAL_ATTR_EXPONENT_BITS, format[0]);
        attrs[n_attrs++] = graph_int(SHOAL_ATTR_MANTISSA_BITS, format[1]);
    }
    if (op == GRAPH_IN_RANGE) { /* all are: what is not has no result that could be compared */
        attrs[n_attrs++] = MAKE_INTS(START_INDICES, &least, 1);
        attrs[n_attrs++] = MAKE_INTS(LIMIT_INDICES, &most, 1);
        attrs[n_attrs++] = graph_int(SHOAL_ATTR_IGNORE_INDEX, most);
    }
    return make_node(m, op, in, n, attrs, n_attrs, NULL, 0, &out);
}

/* Operands beside x, in[0], and attributes that leave x's type to the result; false: there are
 * none.
 */
static bool add_beside(maker *m, uint16_t op, const shoal_type *type, uint32_t *in,
                       shoal_attr *attrs, uint16_t *n_attrs) {
    static const int64_t none[SHOAL_MAX_RANK], less[SHOAL_MAX_RANK] = {-1},
                                               more[] = {1, 0, 0, 0, 0},
                                               axes[SHOAL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t last = type->rank - 1;
    shoal_type flags = *type;
    switch (op) {
    case GRAPH_SELECT:
    case GRAPH_CLAMP:
        flags.dtype = SHOAL_BOOL;
        in[1] = in[0];
        in[0] = op == GRAPH_CLAMP ? make_scalar(m, type->dtype) : make_like(m, flags);
        in[2] = op == GRAPH_CLAMP ? make_scalar(m, type->dtype) : make_like(m, *type);
        return true;
    case GRAPH_PAD: /* by one place */
        if (!type->rank || type->rank > 5) return false;
        in[1] = make_scalar(m, type->dtype);
        attrs[0] = graph_ints(SHOAL_ATTR_EDGE_PADDING_LOW, more, type->rank);
        attrs[1] = graph_ints(SHOAL_ATTR_EDGE_PADDING_HIGH, less, type->rank);
        attrs[2] = graph_ints(SHOAL_ATTR_INTERIOR_PADDING, none, type->rank);
        *n_attrs = 3;
        return true;
    case GRAPH_CUMULATE: in[1] = make_scalar(m, type->dtype); /* fall through */
    case GRAPH_CONCATENATE:
        attrs[(*n_attrs)++] = graph_int(SHOAL_ATTR_DIMENSION, last);
        return type->rank > 0;
    case GRAPH_REVERSE:
        attrs[(*n_attrs)++] =
            graph_ints(SHOAL_ATTR_DIMENSIONS, axes + (type->rank ? last : 0), type->rank > 0);
        return true;
    default:
        if (graph_op(op)->min_inputs == 2) in[1] = make_like(m, *type);
        return true;
    }
}

uint32_t make_changed(maker *m, uint32_t x) {
    static const uint16_t ops[] = {GRAPH_NOT,
                                   GRAPH_POPCNT,
                                   GRAPH_COUNT_LEADING_ZEROS,
                                   GRAPH_AND,
                                   GRAPH_OR,
                                   GRAPH_XOR,
                                   GRAPH_SHIFT_RIGHT_ARITHMETIC,
                                   GRAPH_SHIFT_RIGHT_LOGICAL,
                                   GRAPH_SHIFT_LEFT,
                                   GRAPH_SUBTRACT,
                                   GRAPH_MINIMUM,
                                   GRAPH_REVERSE,
                                   GRAPH_ADD,
                                   GRAPH_MULTIPLY,
                                   GRAPH_DIVIDE,
                                   GRAPH_REMAINDER,
                                   GRAPH_MAXIMUM,
                                   GRAPH_POWER,
                                   GRAPH_SELECT,
                                   GRAPH_CLAMP,
                                   GRAPH_PAD,
                                   GRAPH_CUMULATE,
                                   GRAPH_CONCATENATE};
    const shoal_type type = *make_type(m, x);
    uint16_t op = ops[MAKE_BELOW(sizeof ops / sizeof *ops)], n_attrs = 0;
    uint32_t in[3] = {x, x}, out;
    shoal_attr attrs[3];
    if (!add_beside(m, op, &type, in, attrs, &n_attrs)) return x;
    const shoal_graph *body = op == GRAPH_CUMULATE ? make_join(m, type.dtype, false) : NULL;
    bool made =
        make_node(m, op, in, graph_op(op)->min_inputs, attrs, n_attrs, &body, body != NULL, &out);
    return made ? out : x;
}

uint32_t make_numbers(maker *m, shoal_type type) {
    uint32_t x = make_like(m, type);
    return make_smooth(m) || !MAKE_CHANCE(8) ? x : make_changed(m, x);
}

/* ---- creating ---- */

bool make_create(maker *m, uint16_t op) {
    uint32_t out, in[2];
    if (op == GRAPH_CONSTANT) {
        make_constant(m, make_shape(m, make_dtype(m, NULL), 0, 4));
        return true;
    }
    int64_t start[SHOAL_MAX_RANK], whole[SHOAL_MAX_RANK];
    shoal_type type =
        make_shape(m, make_dtype(m, op == GRAPH_IOTA ? "iuf" : NULL), op == GRAPH_IOTA, 4);
    for (uint32_t i = 0; i < type.rank; i++) {
        start[i] = MAKE_BELOW(4);
        whole[i] = start[i] + type.dims[i] + MAKE_BELOW(3);
    }
    shoal_attr attrs[5] = {graph_ints(SHOAL_ATTR_SHAPE, type.dims, type.rank),
                           graph_int(SHOAL_ATTR_DTYPE, type.dtype)};
    uint16_t n = 2, n_inputs = 0;
    bool part = MAKE_CHANCE(20);
    if (part) attrs[n++] = graph_ints(SHOAL_ATTR_START_INDICES, start, type.rank);
    if (op == GRAPH_IOTA) {
        attrs[n++] = graph_int(SHOAL_ATTR_IOTA_DIMENSION, MAKE_BELOW(type.rank));
    } else {
        bool is_float = shoal_dtype_kind((shoal_dtype)type.dtype) == 'f';
        const char *how = !is_float ? "BITS" : MAKE_CHANCE(50) ? "UNIFORM" : "NORMAL";
        if (part) attrs[n++] = graph_ints(SHOAL_ATTR_WHOLE_SHAPE, whole, type.rank);
        attrs[n++] = graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, how);
        n_inputs = (uint16_t)(1 + MAKE_BELOW(2));
        for (int i = 0; i < n_inputs; i++)
            in[i] = make_numbers(m, (shoal_type){.dtype = make_dtype(m, "iu")});
    }
    return make_node(m, op, in, n_inputs, attrs, n, NULL, 0, &out);
}

/* ---- moving ---- */

static bool broadcast(maker *m) {
    shoal_type want = make_shape(m, make_dtype(m, NULL), 1, 4), from = {.dtype = want.dtype};
    int64_t axes[SHOAL_MAX_RANK], order[SHOAL_MAX_RANK], chosen[SHOAL_MAX_RANK];
    make_permutation(m, want.rank, order);
    uint32_t n = MAKE_BELOW(want.rank + 1u), out;
    bool turned = MAKE_CHANCE(25);
    if (!turned) /* as they lie */
        for (uint32_t i = 0, k = 0; i < want.rank; i++)
            for (uint32_t j = 0; j < n; j++)
                if (order[j] == i) chosen[k++] = i;
    for (uint32_t i = 0; i < n; i++) {
        axes[i] = turned ? order[i] : chosen[i];
        from.dims[i] = MAKE_CHANCE(20) ? 1 : want.dims[axes[i]];
    }
    from.rank = (uint8_t)n;
    uint32_t x = make_like(m, from);
    shoal_attr attrs[] = {MAKE_INTS(BROADCAST_DIMENSIONS, axes, n),
                          MAKE_INTS(SHAPE, want.dims, want.rank)};
    return make_node(m, GRAPH_BROADCAST_IN_DIM, &x, 1, attrs, 2, NULL, 0, &out);
}

/* Axes joined, split, and of one element put in between. */
static bool reshape(maker *m) {
    uint32_t x = make_any(m, NULL, 0), out;
    shoal_type from = *make_type(m, x), to = {.dtype = from.dtype};
    for (uint32_t i = 0; i < from.rank && to.rank < 6; i++) {
        int64_t n = from.dims[i];
        while (i + 1 < from.rank && MAKE_CHANCE(30)) n *= from.dims[++i];
        if (MAKE_CHANCE(10)) to.dims[to.rank++] = 1;
        int64_t split = 2 + MAKE_BELOW(3);
        if (n && n % split == 0 && MAKE_CHANCE(40)) {
            to.dims[to.rank++] = n / split;
            n = split;
        }
        if (n != 1 || MAKE_CHANCE(50)) to.dims[to.rank++] = n;
    }
    shoal_attr shape = MAKE_INTS(SHAPE, to.dims, to.rank);
    return make_node(m, GRAPH_RESHAPE, &x, 1, &shape, 1, NULL, 0, &out);
}

static bool slice(maker *m) {
    uint32_t x = make_any(m, NULL, 1), out;
    shoal_type type = *make_type(m, x);
    int64_t start[SHOAL_MAX_RANK], limit[SHOAL_MAX_RANK], stride[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) {
        bool all = MAKE_CHANCE(40);
        start[i] = all ? 0 : MAKE_BELOW(type.dims[i] + 1);
        limit[i] = all ? type.dims[i] : start[i] + MAKE_BELOW(type.dims[i] - start[i] + 1);
        stride[i] = MAKE_CHANCE(70) ? 1 : 1 + MAKE_BELOW(4);
    }
    shoal_attr attrs[] = {MAKE_INTS(START_INDICES, start, type.rank),
                          MAKE_INTS(LIMIT_INDICES, limit, type.rank),
                          MAKE_INTS(STRIDES, stride, type.rank)};
    return make_node(m, GRAPH_SLICE, &x, 1, attrs, 3, NULL, 0, &out);
}

static bool concatenate(maker *m) {
    uint32_t in[5], n = 1 + MAKE_BELOW(4), out;
    in[0] = make_any(m, NULL, 1);
    shoal_type type = *make_type(m, in[0]);
    uint32_t axis = MAKE_BELOW(type.rank);
    for (uint32_t i = 1; i < n; i++) {
        if (MAKE_CHANCE(50)) type.dims[axis] = make_extent(m);
        if (base_type_count(&type) > m->elements) type.dims[axis] = 1;
        in[i] = make_like(m, type);
    }
    shoal_attr along = graph_int(SHOAL_ATTR_DIMENSION, axis);
    return make_node(m, GRAPH_CONCATENATE, in, n, &along, 1, NULL, 0, &out);
}

static bool pad(maker *m) {
    uint32_t in[2] = {make_any(m, NULL, 0)}, out;
    shoal_type type = *make_type(m, in[0]);
    int64_t lists[3][SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) {
        lists[0][i] = MAKE_CHANCE(50) ? 0 : (int64_t)MAKE_BELOW(4) - 1;
        lists[1][i] = MAKE_CHANCE(50) ? 0 : (int64_t)MAKE_BELOW(4) - 1;
        lists[2][i] = MAKE_CHANCE(75) ? 0 : MAKE_BELOW(3);
    }
    in[1] = make_scalar(m, type.dtype);
    shoal_attr attrs[] = {MAKE_INTS(EDGE_PADDING_LOW, lists[0], type.rank),
                          MAKE_INTS(EDGE_PADDING_HIGH, lists[1], type.rank),
                          MAKE_INTS(INTERIOR_PADDING, lists[2], type.rank)};
    return make_node(m, GRAPH_PAD, in, 2, attrs, 3, NULL, 0, &out);
}

bool make_move(maker *m, uint16_t op) {
    int64_t axes[SHOAL_MAX_RANK];
    uint32_t out;
    switch (op) {
    case GRAPH_BROADCAST_IN_DIM: return broadcast(m);
    case GRAPH_RESHAPE: return reshape(m);
    case GRAPH_SLICE: return slice(m);
    case GRAPH_CONCATENATE: return concatenate(m);
    case GRAPH_PAD: return pad(m);
    default: break;
    }
    uint32_t x = make_any(m, NULL, op == GRAPH_TRANSPOSE ? 2 : 1), rank = make_type(m, x)->rank;
    make_permutation(m, rank, axes);
    shoal_attr attr = op == GRAPH_TRANSPOSE ? MAKE_INTS(PERMUTATION, axes, rank)
                                            : MAKE_INTS(DIMENSIONS, axes, MAKE_BELOW(rank + 1));
    if (!make_node(m, op, &x, 1, &attr, 1, NULL, 0, &out)) return false;
    if (op != GRAPH_REVERSE || MAKE_CHANCE(60)) return true;
    make_permutation(m, rank, axes); /* two in a row may be one, or none */
    attr = MAKE_INTS(DIMENSIONS, axes, MAKE_BELOW(rank + 1));
    make_node(m, op, &out, 1, &attr, 1, NULL, 0, &x);
    return true;
}

/* ---- joining ---- */

/* The element by which a body changes nothing; 0 for any other body. */
static void identity(uint16_t op, uint8_t dtype, void *out) {
    char kind = shoal_dtype_kind((shoal_dtype)dtype);
    bool least = op == GRAPH_MINIMUM, most = op == GRAPH_MAXIMUM, all = op == GRAPH_AND;
    unsigned char *last = (unsigned char *)out + shoal_dtype_size((shoal_dtype)dtype) - 1;
    if (op == GRAPH_MULTIPLY || (kind == 'b' && (all || least)))
        hunt_put(dtype, out, 0, 1);
    else if (kind == 'f' && (least || most))
        hunt_put(dtype, out, 0, most ? -INFINITY : INFINITY);
    else if (all || least)
        memset(out, 0xff, 8);
    if (kind == 'i' && (least || most)) *last ^= 0x80; /* the sign */
}

/* What a body changes nothing by, or any number. */
static uint32_t initial(maker *m, uint8_t dtype, const shoal_graph *body) {
    if (MAKE_CHANCE(50)) return make_scalar(m, dtype);
    char zero[8] = {0};
    uint32_t out;
    identity(graph_body_op(body), dtype, zero);
    shoal_attr attrs[] = {graph_bytes(SHOAL_ATTR_VALUE, zero, shoal_dtype_size((shoal_dtype)dtype)),
                          graph_ints(SHOAL_ATTR_SHAPE, NULL, 0),
                          graph_int(SHOAL_ATTR_DTYPE, dtype)};
    if (!make_node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL, 0, &out))
        return make_scalar(m, dtype);
    return out;
}

/* x times itself; of bools x. */
static void square(maker *m, uint32_t x) {
    uint32_t in[2] = {x, x}, out;
    make_node(m, GRAPH_MULTIPLY, in, 2, NULL, 0, NULL, 0, &out);
}

/* What was joined along the first `n` of these axes is repeated beside x again, by way of a view
 * with other axes, which may be read by others, too, as may what was joined. */
static void repeat_beside(maker *m, uint32_t x, uint32_t joined, const int64_t *axes, uint32_t n) {
    shoal_type type = *make_type(m, x);
    int64_t kept[SHOAL_MAX_RANK], count = base_type_count(&type);
    uint32_t n_kept = 0, view, flat, again[2] = {x}, out;
    for (uint32_t i = 0; i < type.rank; i++) {
        bool gone = false;
        for (uint32_t k = 0; k < n; k++) gone |= axes[k] == i;
        if (!gone) kept[n_kept++] = i;
    }
    shoal_attr repeat[] = {MAKE_INTS(BROADCAST_DIMENSIONS, kept, n_kept),
                           MAKE_INTS(SHAPE, type.dims, type.rank)};
    shoal_attr line = MAKE_INTS(SHAPE, &count, 1);
    if (!make_node(m, GRAPH_BROADCAST_IN_DIM, &joined, 1, repeat, 2, NULL, 0, &view) ||
        !make_node(m, GRAPH_RESHAPE, &view, 1, &line, 1, NULL, 0, &flat) ||
        !make_node(m, GRAPH_RESHAPE, &flat, 1, &repeat[1], 1, NULL, 0, &again[1]))
        return;
    make_node(m, MAKE_CHANCE(50) ? GRAPH_ADD : GRAPH_MULTIPLY, again, 2, NULL, 0, NULL, 0, &out);
    if (MAKE_CHANCE(60)) square(m, flat);
    if (MAKE_CHANCE(60)) square(m, joined);
}

bool make_reduce(maker *m, uint16_t op) {
    int64_t axes[SHOAL_MAX_RANK];
    uint32_t in[2 * MAKE_JOINED] = {make_joined(m, 0)}, out, n = 1;
    shoal_type type = *make_type(m, in[0]);
    make_permutation(m, type.rank, axes);
    shoal_attr along = MAKE_INTS(DIMENSIONS, axes, MAKE_BELOW(type.rank + 1u));
    const shoal_graph *body;
    bool smooth = make_smooth(m);
    if (!smooth && MAKE_CHANCE(10)) {
        n = MAKE_CHANCE(50) ? 2 : 3 + MAKE_BELOW(MAKE_JOINED - 2);
        make_beside(m, type, in, n);
        body = make_joint(m, in, n);
        for (uint32_t i = 1; i < n; i++) in[n + i] = initial(m, make_type(m, in[i])->dtype, body);
    } else if (!smooth && strchr("if", shoal_dtype_kind((shoal_dtype)type.dtype)) &&
               MAKE_CHANCE(10)) {
        body = make_magnitude(m, type.dtype);
    } else {
        body = make_join(m, type.dtype, MAKE_CHANCE(type.dtype == SHOAL_BOOL ? 20 : 60));
    }
    in[n] = initial(m, type.dtype, body);
    if (!make_node(m, op, in, 2 * n, &along, 1, &body, 1, &out)) return false;
    if (m->has_views && MAKE_CHANCE(60)) repeat_beside(m, in[0], out, axes, along.count);
    return true;
}

/* ---- products ---- */

/* A product with its free axes in the other order, or those of the batch in any. */
static void turn_product(maker *m, uint32_t x, uint32_t batch, uint32_t first) {
    uint32_t rank = make_type(m, x)->rank, second = rank - batch - first, out;
    int64_t order[SHOAL_MAX_RANK];
    if (MAKE_CHANCE(50))
        make_permutation(m, batch, order);
    else
        for (uint32_t i = 0; i < batch; i++) order[i] = i;
    for (uint32_t i = 0; i < second; i++) order[batch + i] = batch + first + i;
    for (uint32_t i = 0; i < first; i++) order[batch + second + i] = batch + i;
    shoal_attr attr = MAKE_INTS(PERMUTATION, order, rank);
    make_node(m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL, 0, &out);
}

bool make_dot(maker *m, uint16_t op) {
    uint32_t in[2] = {make_any(m, NULL, 0)}, out, n = 0;
    shoal_type lhs = *make_type(m, in[0]), rhs = {.dtype = lhs.dtype};
    int64_t lists[4][SHOAL_MAX_RANK], order[SHOAL_MAX_RANK], extents[SHOAL_MAX_RANK];
    enum { FREE, BATCH, JOINED } roles[SHOAL_MAX_RANK];
    uint32_t counts[2] = {0, 0};
    int64_t left[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < lhs.rank; i++) {
        roles[n] = MAKE_CHANCE(lhs.rank > 2 ? 30 : 8) ? BATCH : MAKE_CHANCE(50) ? JOINED : FREE;
        left[n] = i;
        if (roles[n] != FREE) extents[n++] = lhs.dims[i];
    }
    for (uint32_t more = MAKE_BELOW(3); more-- > 0 && n < 5;) {
        roles[n] = FREE;
        extents[n++] = make_extent(m);
    }
    make_permutation(m, n, order);
    rhs.rank = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) rhs.dims[order[i]] = extents[i];
    for (uint32_t i = 0; i < n; i++) {
        if (roles[i] == FREE) continue;
        int joined = roles[i] == JOINED;
        lists[2 * joined][counts[joined]] = left[i];
        lists[2 * joined + 1][counts[joined]++] = order[i];
    }
    /* Sums of nothing are elements, too. */
    int64_t products = 1;
    for (uint32_t i = 0; i < lhs.rank; i++) products *= lhs.dims[i] ? lhs.dims[i] : 1;
    for (uint32_t i = 0; i < n; i++) products *= roles[i] == FREE ? extents[i] : 1;
    if (base_type_count(&rhs) > m->elements || products > 1 << 23) return false;
    if (MAKE_CHANCE(20)) in[0] = make_view(m, lhs);
    in[1] = MAKE_CHANCE(35) ? make_view(m, rhs) : make_like(m, rhs);
    shoal_attr attrs[] = {MAKE_INTS(LHS_BATCHING_DIMENSIONS, lists[0], counts[0]),
                          MAKE_INTS(RHS_BATCHING_DIMENSIONS, lists[1], counts[0]),
                          MAKE_INTS(LHS_CONTRACTING_DIMENSIONS, lists[2], counts[1]),
                          MAKE_INTS(RHS_CONTRACTING_DIMENSIONS, lists[3], counts[1])};
    if (!make_node(m, op, in, 2, attrs, 4, NULL, 0, &out)) return false;
    if (MAKE_CHANCE(10)) turn_product(m, out, counts[0], lhs.rank - counts[0] - counts[1]);
    return true;
}
