/* Nodes of windows, and composites. */
#include "make.h"

#include "base/block.h"

#include <string.h>

/* ---- windows ---- */

static const shoal_graph *selector(maker *m, uint8_t dtype) {
    graph *body;
    uint32_t in[2], out;
    shoal_type scalar = {.dtype = dtype};
    shoal_attr way = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, MAKE_CHANCE(70) ? "GE" : "LE");
    hunt_must(graph_add_region(m->g, &body));
    for (int i = 0; i < 2; i++) hunt_must(graph_add_input(body, &scalar, &in[i]));
    hunt_must(graph_add(body, GRAPH_COMPARE, in, 2, &way, 1, NULL, 0, &out));
    hunt_must(graph_add_output(body, out));
    return graph_data(body);
}

static bool window(maker *m, uint16_t op) {
    uint32_t in[2 * MAKE_JOINED] = {make_joined(m, 1)}, out, n = 1;
    shoal_type type = *make_type(m, in[0]), source = type;
    int64_t lists[4][SHOAL_MAX_RANK], padding[2 * SHOAL_MAX_RANK];
    bool scatters = op == GRAPH_SELECT_AND_SCATTER;
    for (uint32_t i = 0; i < type.rank; i++) {
        bool plain = MAKE_CHANCE(40);
        lists[0][i] = plain ? 1 : 1 + MAKE_BELOW(3);
        lists[1][i] = plain ? 1 : 1 + MAKE_BELOW(3);
        lists[2][i] = scatters || MAKE_CHANCE(80) ? 1 : 2;
        lists[3][i] = scatters || MAKE_CHANCE(80) ? 1 : 2;
        for (int k = 0; k < 2; k++)
            padding[2 * i + (uint32_t)k] = plain      ? 0
                                           : scatters ? (lists[0][i] > 1 && MAKE_CHANCE(30))
                                                      : (int64_t)MAKE_BELOW(4) - 1;
        int64_t room = type.dims[i] + padding[2 * i] + padding[2 * i + 1];
        source.dims[i] = room < lists[0][i] ? 0 : (room - lists[0][i]) / lists[1][i] + 1;
    }
    shoal_attr attrs[] = {MAKE_INTS(WINDOW_DIMENSIONS, lists[0], type.rank),
                          MAKE_INTS(WINDOW_STRIDES, lists[1], type.rank),
                          MAKE_INTS(PADDING, padding, 2u * type.rank),
                          MAKE_INTS(BASE_DILATIONS, lists[2], type.rank),
                          MAKE_INTS(WINDOW_DILATIONS, lists[3], type.rank)};
    if (!scatters) {
        if (!make_smooth(m) && MAKE_CHANCE(15)) n = 2 + MAKE_BELOW(MAKE_JOINED - 1);
        make_beside(m, type, in, n);
        const shoal_graph *body =
            n > 1 ? make_joint(m, in, n) : make_join(m, type.dtype, MAKE_CHANCE(50));
        for (uint32_t i = 0; i < n; i++) in[n + i] = make_scalar(m, make_type(m, in[i])->dtype);
        return make_node(m, op, in, 2 * n, attrs, 5, &body, 1, &out);
    }
    const shoal_graph *bodies[] = {selector(m, type.dtype), make_join(m, type.dtype, true)};
    in[1] = make_like(m, source);
    in[2] = make_scalar(m, type.dtype);
    return make_node(m, op, in, 3, attrs, 3, bodies, 2, &out);
}

bool make_window(maker *m, uint16_t op) {
    if (op != GRAPH_CONVOLUTION) return window(m, op);
    uint32_t rank = 2 + MAKE_BELOW(4), in[2], out;
    shoal_type lhs = {.dtype = make_dtype(m, MAKE_CHANCE(85) ? "f" : "iu"), .rank = (uint8_t)rank};
    if (m->has_blocks) rank = 3 + MAKE_BELOW(3);
    bool as_is = !m->has_blocks && MAKE_CHANCE(40); /* of a value that is there, as it lies */
    if (as_is) {
        in[0] = make_any(m, "iuf", 2);
        lhs = *make_type(m, in[0]);
        rank = lhs.rank;
        if (rank > 5 || base_type_count(&lhs) > m->elements) return false;
    }
    uint32_t spatial = rank - 2;
    shoal_type rhs = lhs;
    int64_t axes[3 * SHOAL_MAX_RANK], lists[4][SHOAL_MAX_RANK], padding[2 * SHOAL_MAX_RANK];
    for (int i = 0; i < 3; i++) make_permutation(m, rank, axes + (size_t)i * rank);
    int64_t feature_groups = MAKE_CHANCE(70) ? 1 : 1 + MAKE_BELOW(3);
    int64_t batch_groups = feature_groups > 1 || MAKE_CHANCE(80) ? 1 : 2;
    int64_t inner = 1 + MAKE_BELOW(m->has_blocks ? 2 : 4);
    if (as_is) {
        int64_t channels = lhs.dims[axes[1]];
        if (!channels || channels > 40) return false;
        feature_groups = MAKE_CHANCE(70) || channels % 2 ? 1 : 2;
        batch_groups = feature_groups > 1 || lhs.dims[axes[0]] % 2 || MAKE_CHANCE(80) ? 1 : 2;
        inner = channels / feature_groups;
    } else {
        lhs.dims[axes[0]] = batch_groups * (1 + MAKE_BELOW(3));
        lhs.dims[axes[1]] = feature_groups * inner;
    }
    rhs.dims[axes[rank]] = inner;
    int64_t features = 1 + MAKE_BELOW(m->has_blocks ? 2 : 4);
    rhs.dims[axes[rank + 1]] = feature_groups * batch_groups * features;
    for (uint32_t i = 0; i < spatial; i++) {
        if (!as_is) lhs.dims[axes[2 + i]] = 1 + MAKE_BELOW(rank > 4 ? 5 : 7);
        /* Planes, together over 1,024 places. */
        static const uint8_t across[] = {0, 0, 33, 11}, more[] = {0, 0, 12, 4};
        if (m->has_blocks && spatial > 1)
            lhs.dims[axes[2 + i]] = across[spatial] + MAKE_BELOW(more[spatial]);
        if (m->has_blocks && spatial == 1) lhs.dims[axes[2 + i]] = 1030 + MAKE_BELOW(1500);
        rhs.dims[axes[rank + 2 + i]] = 1 + MAKE_BELOW(3);
        lists[0][i] = MAKE_CHANCE(m->has_blocks ? 85 : 60) ? 1 : 1 + MAKE_BELOW(3);
        lists[1][i] = MAKE_CHANCE(80) ? 1 : 2;
        lists[2][i] = MAKE_CHANCE(80) ? 1 : 2;
        lists[3][i] = MAKE_CHANCE(20);
        padding[2 * i] = (int64_t)MAKE_BELOW(4) - 1;
        padding[2 * i + 1] = (int64_t)MAKE_BELOW(4) - 1;
    }
    if (!as_is) in[0] = make_like(m, lhs);
    in[1] = make_like(m, rhs);
    shoal_attr attrs[] = {MAKE_INTS(WINDOW_STRIDES, lists[0], spatial),
                          MAKE_INTS(PADDING, padding, (size_t)2 * spatial),
                          MAKE_INTS(LHS_DILATION, lists[1], spatial),
                          MAKE_INTS(RHS_DILATION, lists[2], spatial),
                          MAKE_INTS(WINDOW_REVERSAL, lists[3], spatial),
                          MAKE_INTS(CONVOLUTION_DIMENSIONS, axes, (size_t)3 * rank),
                          graph_int(SHOAL_ATTR_FEATURE_GROUP_COUNT, feature_groups),
                          graph_int(SHOAL_ATTR_BATCH_GROUP_COUNT, batch_groups)};
    return make_node(m, op, in, 2, attrs, 8, NULL, 0, &out);
}

/* An operand beside the first: now and then a part of something, turned, or repeated. */
static uint32_t beside(maker *m, shoal_type type) {
    return MAKE_CHANCE(15) ? make_view(m, type) : make_like(m, type);
}

/* ---- composites along rows ---- */

static shoal_type without(const shoal_type *type, uint32_t axis, uint8_t dtype) {
    shoal_type less = {.dtype = dtype};
    for (uint32_t i = 0; i < type->rank; i++)
        if (i != axis) less.dims[less.rank++] = type->dims[i];
    return less;
}

/* What comes after x, as the operation has it: g: of x's type in front; r: a row, optional; l:
 * labels; o: of the labels' shape, in front. */
static bool along(maker *m, uint16_t op, const char *roles, bool norm) {
    uint32_t x = make_any(m, "f", 1), in[4], n = 0, out;
    shoal_type type = *make_type(m, x);
    uint32_t axis = MAKE_CHANCE(70) ? type.rank - 1u : MAKE_BELOW(type.rank);
    shoal_type row = {.dtype = type.dtype, .rank = 1, .dims = {type.dims[axis]}};
    shoal_attr attrs[2] = {graph_int(SHOAL_ATTR_DIMENSION, axis)};
    uint16_t n_attrs = 1;
    static const double epsilons[] = {1e-1, 1e-2, 1e-3};
    if (norm) attrs[n_attrs++] = graph_float(SHOAL_ATTR_EPSILON, epsilons[MAKE_BELOW(3)]);
    for (const char *role = roles; *role; role++) {
        if (*role == 'x') in[n++] = x;
        if (*role == 'g') in[n++] = beside(m, type);
        if (*role == 'r' && MAKE_CHANCE(30)) break;
        if (*role == 'r') in[n++] = beside(m, row);
        if (*role == 'o') in[n++] = beside(m, without(&type, axis, type.dtype));
        if (*role == 'l') {
            in[n++] = make_numbers(m, without(&type, axis, make_dtype(m, "iu")));
            if (MAKE_CHANCE(30)) attrs[n_attrs++] = graph_int(SHOAL_ATTR_IGNORE_INDEX, 2);
        }
    }
    return make_node(m, op, in, n, attrs, n_attrs, NULL, 0, &out);
}

/* ---- attention, rope, adam, dequantize ---- */

/* A mask of the last axes of the scores, some of one element. */
static shoal_type mask_type(maker *m, const shoal_type *q, int64_t keys) {
    shoal_type mask = {.dtype = MAKE_CHANCE(50) ? SHOAL_BOOL : q->dtype};
    uint32_t rank = 1 + MAKE_BELOW(q->rank);
    for (uint32_t i = q->rank - rank; i < q->rank; i++) {
        int64_t extent = i == q->rank - 1u ? keys : q->dims[i];
        mask.dims[mask.rank++] = MAKE_CHANCE(40) ? 1 : extent;
    }
    return mask;
}

static bool attend(maker *m, uint16_t op) {
    uint32_t in[7], n = 0, out, leading = MAKE_BELOW(3);
    bool as_is = !m->has_blocks && MAKE_CHANCE(50);
    uint32_t x = as_is ? make_any(m, "f", 2) : UINT32_MAX; /* the queries, as they are */
    uint8_t dtype = x != UINT32_MAX ? make_type(m, x)->dtype : make_dtype(m, "f");
    shoal_type q = {.dtype = dtype}, k = {.dtype = dtype}, v, result;
    for (uint32_t i = 0; i < leading; i++) q.dims[q.rank++] = k.dims[k.rank++] = 1 + MAKE_BELOW(3);
    if (MAKE_CHANCE(25)) q.dims[q.rank++] = 1 + MAKE_BELOW(3);
    int64_t depth = 1 + MAKE_BELOW(9), keys = make_extent(m);
    /* Whole vectors of scores need no room beside them. */
    if (MAKE_CHANCE(40)) keys = 16 << MAKE_BELOW(3);
    if (m->has_blocks) keys = 129 + MAKE_BELOW(172), depth = 1 + MAKE_BELOW(4);
    q.dims[q.rank++] = make_extent(m);
    q.dims[q.rank++] = depth;
    if (x != UINT32_MAX) {
        q = *make_type(m, x);
        depth = q.dims[q.rank - 1];
        k.rank = 0;
        for (uint32_t i = 0; i + 2 < q.rank; i++) k.dims[k.rank++] = q.dims[i];
        if (!depth) return false;
    }
    k.dims[k.rank++] = keys;
    k.dims[k.rank++] = depth;
    v = k;
    v.dims[v.rank - 1] = 1 + MAKE_BELOW(9);
    result = q;
    result.dims[q.rank - 1] = v.dims[v.rank - 1];
    if (base_type_count(&q) > m->elements || base_type_count(&k) > m->elements) return false;
    /* Products, of which all samples of the noise make as many. */
    if (base_type_count(&q) * keys > (m->has_blocks ? 1 << 15 : 1 << 18)) return false;
    if (op == GRAPH_ATTENTION_GRADIENT) {
        in[n++] = beside(m, result);
        in[n++] = beside(m, result);
    }
    in[n++] = x != UINT32_MAX ? x : beside(m, q);
    in[n++] = beside(m, k);
    in[n++] = beside(m, v);
    if (MAKE_CHANCE(60)) {
        shoal_type mask = mask_type(m, &q, keys);
        in[n++] = mask.dtype == SHOAL_BOOL ? make_numbers(m, mask) : beside(m, mask);
    }
    if (MAKE_CHANCE(20)) in[n++] = make_numbers(m, (shoal_type){.dtype = make_dtype(m, "iu")});
    shoal_attr attrs[2];
    uint16_t n_attrs = 0;
    if (MAKE_CHANCE(40))
        attrs[n_attrs++] = graph_int(SHOAL_ATTR_CAUSAL, (int64_t)MAKE_BELOW(4) - 1);
    if (MAKE_CHANCE(30)) attrs[n_attrs++] = graph_float(SHOAL_ATTR_SCALE, hunt_uniform(&m->random));
    return make_node(m, op, in, n, attrs, n_attrs, NULL, 0, &out);
}

static bool turn_pairs(maker *m, uint16_t op) {
    uint32_t in[3], n = 2, out;
    bool as_is = MAKE_CHANCE(50);
    in[0] = as_is ? make_any(m, "f", 2) : 0;
    shoal_type type = as_is ? *make_type(m, in[0]) : make_shape(m, make_dtype(m, "f"), 2, 4);
    uint32_t last = type.rank - 1u, axis = MAKE_BELOW(last);
    if (as_is && type.dims[last] % 2) return false;
    if (!as_is) {
        type.dims[last] = 2 * (int64_t)MAKE_BELOW(5);
        in[0] = make_like(m, type);
    }
    in[1] = make_numbers(
        m, (shoal_type){.dtype = make_dtype(m, "iu"), .rank = 1, .dims = {type.dims[axis]}});
    if (MAKE_CHANCE(30) && !make_smooth(m))
        in[n++] = make_like(
            m, (shoal_type){.dtype = SHOAL_F32, .rank = 1, .dims = {type.dims[last] / 2}});
    shoal_attr attrs[3] = {graph_int(SHOAL_ATTR_DIMENSION, axis)};
    uint16_t n_attrs = 1;
    if (MAKE_CHANCE(50)) attrs[n_attrs++] = graph_float(SHOAL_ATTR_THETA, 500);
    if (MAKE_CHANCE(50)) attrs[n_attrs++] = graph_bool(SHOAL_ATTR_INTERLEAVED, MAKE_BELOW(2));
    return make_node(m, op, in, n, attrs, n_attrs, NULL, 0, &out);
}

static bool optimize(maker *m, uint16_t op) {
    uint32_t in[6] = {make_any(m, "f", 0)}, out;
    shoal_type type = *make_type(m, in[0]);
    for (uint32_t i = 1; i < 4; i++) in[i] = beside(m, type);
    uint8_t wide = type.dtype == SHOAL_F64 ? SHOAL_F64 : SHOAL_F32;
    in[4] = make_like(m, (shoal_type){.dtype = wide, .rank = 1, .dims = {8}});
    in[5] = beside(m, type);
    return make_node(m, op, in, 5 + MAKE_BELOW(2), NULL, 0, NULL, 0, &out);
}

static bool activate(maker *m, uint16_t op) {
    uint32_t in[2] = {make_any(m, "f", 0)}, out, n = graph_op(op)->min_inputs;
    in[1] = beside(m, *make_type(m, in[0]));
    bool gelu = op == GRAPH_GELU || op == GRAPH_GELU_GRADIENT;
    shoal_attr kind = graph_string(SHOAL_ATTR_APPROXIMATE, MAKE_CHANCE(50) ? "tanh" : "none");
    return make_node(m, op, in, n, &kind, gelu, NULL, 0, &out);
}

/* Blocks of any bytes; also rows that a reshape has cut into blocks. */
static bool unpack(maker *m, uint16_t op) {
    static const uint8_t to[] = {SHOAL_F32, SHOAL_F32, SHOAL_F16, SHOAL_BF16};
    const shoal_block_format *format = shoal_block_format_at(MAKE_BELOW(BASE_BLOCK_COUNT));
    if (m->shape->style == HUNT_SMOOTH) return false; /* it has no float64 */
    shoal_type type = make_shape(m, SHOAL_U8, 1, 3);
    uint32_t in, out, last = type.rank - 1u;
    int64_t blocks = MAKE_CHANCE(5) ? 0 : 1 + MAKE_BELOW(format->values > 32 ? 2 : 5);
    type.dims[last] = blocks * format->bytes;
    while (last && base_type_count(&type) > m->elements) type.dims[--last] = 1;
    in = MAKE_CHANCE(30) ? make_view(m, type) : make_like(m, type);
    for (int turn = 0; turn < 4 && MAKE_CHANCE(60); turn++) in = make_changed(m, in);
    if (MAKE_CHANCE(20) && type.rank < 3) {
        shoal_type split = type;
        split.dims[split.rank - 1u] = blocks;
        split.dims[split.rank++] = format->bytes;
        shoal_attr shape = MAKE_INTS(SHAPE, split.dims, split.rank);
        if (!make_node(m, GRAPH_RESHAPE, &in, 1, &shape, 1, NULL, 0, &in)) return false;
    }
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DTYPE, to[MAKE_BELOW(sizeof to)]),
                          graph_string(SHOAL_ATTR_FORMAT, format->name)};
    if (!make_node(m, op, &in, 1, attrs, 2, NULL, 0, &out)) return false;
    shoal_type weights = *make_type(m, out);
    if (weights.dtype != SHOAL_F32 || !blocks || MAKE_CHANCE(50)) return true;
    /* Some rows times weights as they lie, on either side. */
    int64_t rows = MAKE_CHANCE(40) ? 1 : 1 + MAKE_BELOW(40);
    uint32_t right = MAKE_BELOW(2), pair[2];
    pair[right] = out;
    pair[!right] = make_like(m, (shoal_type){.dtype = SHOAL_F32,
                                             .rank = 2,
                                             .dims = {rows, weights.dims[weights.rank - 1u]}});
    int64_t last_axes[2] = {make_type(m, pair[0])->rank - 1, make_type(m, pair[1])->rank - 1};
    shoal_attr axes[] = {MAKE_INTS(LHS_BATCHING_DIMENSIONS, NULL, 0),
                         MAKE_INTS(RHS_BATCHING_DIMENSIONS, NULL, 0),
                         MAKE_INTS(LHS_CONTRACTING_DIMENSIONS, &last_axes[0], 1),
                         MAKE_INTS(RHS_CONTRACTING_DIMENSIONS, &last_axes[1], 1)};
    return make_node(m, GRAPH_DOT_GENERAL, pair, 2, axes, 4, NULL, 0, &out);
}

bool make_composite(maker *m, uint16_t op) {
    switch (op) {
    case GRAPH_SOFTMAX:
    case GRAPH_LOG_SOFTMAX: return along(m, op, "x", false);
    case GRAPH_RMS_NORM: return along(m, op, "xr", true);
    case GRAPH_LAYER_NORM: return along(m, op, "xrr", true);
    case GRAPH_CROSS_ENTROPY: return along(m, op, "xl", false);
    case GRAPH_CROSS_ENTROPY_GRADIENT: return along(m, op, "oxl", false);
    case GRAPH_SOFTMAX_GRADIENT: return along(m, op, "gx", false);
    case GRAPH_RMS_NORM_GRADIENT:
    case GRAPH_LAYER_NORM_GRADIENT: return along(m, op, "gxr", true);
    case GRAPH_RMS_NORM_SCALE_GRADIENT:
    case GRAPH_LAYER_NORM_SCALE_GRADIENT: return along(m, op, "gx", true);
    case GRAPH_ATTENTION:
    case GRAPH_ATTENTION_GRADIENT: return attend(m, op);
    case GRAPH_ROPE: return turn_pairs(m, op);
    case GRAPH_ADAM: return optimize(m, op);
    case GRAPH_DEQUANTIZE: return unpack(m, op);
    default: return activate(m, op);
    }
}
