/* Values just past the blocks that kernels work in: panels and depths of products, keys of
 * attention, places of a convolution, lines of windows, chunks of what is joined; and some of over
 * a MiB, which move between slots in several pieces. Programs of one such operation or two, mostly
 * of whole numbers, whose sums come out the same in any order: then every difference is a fault,
 * and no noise has to say what may differ, which takes long here. */
#include "make.h"

/* Just past n, or up to half of it more. */
static int64_t past(maker *m, int64_t n) {
    return MAKE_CHANCE(50) ? n + MAKE_BELOW(20) - 1 : n + MAKE_BELOW(n / 2);
}

/* An operand; now and then a part of another, turned, or repeated. */
static uint32_t operand(maker *m, shoal_type type) {
    return MAKE_CHANCE(25) ? make_view(m, type) : make_input(m, type);
}

/* Rows times blocks of q8_0 whose scales are 1: their numbers are whole. */
static bool quantised(maker *m) {
    enum { COLUMNS = 8, BLOCKS = 40, VALUES = 32, BYTES = VALUES + 2 };
    static const uint8_t one[] = {0, 0x3c}; /* 1.0 as float16 */
    uint8_t scales[COLUMNS * BLOCKS * sizeof one];
    for (size_t i = 0; i < sizeof scales; i++) scales[i] = one[i % sizeof one];
    int64_t columns = 1 + MAKE_BELOW(COLUMNS), blocks = 1 + MAKE_BELOW(BLOCKS);
    int64_t rows = MAKE_CHANCE(50) ? 33 + MAKE_BELOW(8) : 1 + MAKE_BELOW(9);
    shoal_type part = {.dtype = SHOAL_U8, .rank = 3, .dims = {columns, blocks, sizeof one}};
    uint32_t in[2] = {make_given(m, part, scales)}, weights, out, right = MAKE_BELOW(2);
    part.dims[2] = VALUES;
    in[1] = operand(m, part);
    const int64_t shape[] = {columns, blocks * BYTES}, along[] = {1};
    shoal_attr last = graph_int(SHOAL_ATTR_DIMENSION, 2), flat = MAKE_INTS(SHAPE, shape, 2);
    shoal_attr q8_0[] = {graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32),
                         graph_string(SHOAL_ATTR_FORMAT, "q8_0")};
    shoal_type x = {.dtype = SHOAL_F32, .rank = 2, .dims = {rows, blocks * VALUES}};
    shoal_attr attrs[] = {MAKE_INTS(LHS_BATCHING_DIMENSIONS, NULL, 0),
                          MAKE_INTS(RHS_BATCHING_DIMENSIONS, NULL, 0),
                          MAKE_INTS(LHS_CONTRACTING_DIMENSIONS, along, 1),
                          MAKE_INTS(RHS_CONTRACTING_DIMENSIONS, along, 1)};
    if (!make_node(m, GRAPH_CONCATENATE, in, 2, &last, 1, NULL, 0, &weights) ||
        !make_node(m, GRAPH_RESHAPE, &weights, 1, &flat, 1, NULL, 0, &weights) ||
        !make_node(m, GRAPH_DEQUANTIZE, &weights, 1, q8_0, 2, NULL, 0, &in[right]))
        return false;
    in[!right] = operand(m, x);
    return make_node(m, GRAPH_DOT_GENERAL, in, 2, attrs, 4, NULL, 0, &out);
}

/* A product of which one extent is long: k, of which kernels take 3,200 bytes at a time, n, of
 * which they take 16,384, or all of them in some measure. Now and then of bytes as 32 bits. */
static bool product(maker *m) {
    bool bytes = MAKE_CHANCE(15);
    int64_t extents[3], size = bytes ? 1 : (int64_t)shoal_dtype_size((shoal_dtype)m->dtype),
                        axes[2];
    uint32_t longest = MAKE_BELOW(4), in[2], out, joined[2];
    shoal_attr wide = graph_int(SHOAL_ATTR_DTYPE, MAKE_CHANCE(80) ? SHOAL_I32 : SHOAL_U32);
    for (int i = 0; i < 3; i++) extents[i] = 2 + MAKE_BELOW(8);
    if (longest == 1) extents[1] = past(m, 3200 / size);
    if (longest == 2 || longest == 0) extents[longest] = past(m, 16384 / size);
    if (longest == 3)
        for (int i = 0; i < 3; i++) extents[i] = 65 + MAKE_BELOW(16);
    for (int i = 0; i < 2; i++) { /* rows and k, k and columns, or turned */
        shoal_type type = {.dtype = m->dtype, .rank = 2, .dims = {extents[i], extents[i + 1]}};
        joined[i] = !i;
        if (MAKE_CHANCE(30)) {
            joined[i] = !joined[i];
            type.dims[0] = extents[i + 1], type.dims[1] = extents[i];
        }
        if (bytes) type.dtype = MAKE_CHANCE(50) ? SHOAL_I8 : SHOAL_U8;
        in[i] = operand(m, type);
        if (bytes && !make_node(m, GRAPH_CONVERT, &in[i], 1, &wide, 1, NULL, 0, &in[i]))
            return false;
        axes[i] = joined[i];
    }
    shoal_attr attrs[] = {MAKE_INTS(LHS_BATCHING_DIMENSIONS, NULL, 0),
                          MAKE_INTS(RHS_BATCHING_DIMENSIONS, NULL, 0),
                          MAKE_INTS(LHS_CONTRACTING_DIMENSIONS, &axes[0], 1),
                          MAKE_INTS(RHS_CONTRACTING_DIMENSIONS, &axes[1], 1)};
    return make_node(m, GRAPH_DOT_GENERAL, in, 2, attrs, 4, NULL, 0, &out);
}

/* Something of two axes, one or both of them long. */
static shoal_type table(maker *m, int64_t n) {
    int64_t few = 1 + MAKE_BELOW(4), many = past(m, n);
    bool turned = MAKE_CHANCE(30);
    return (shoal_type){
        .dtype = m->dtype, .rank = 2, .dims = {turned ? many : few, turned ? few : many}};
}

/* Joined along one axis or both, up to each element, or in lines of windows. */
static bool joining(maker *m) {
    uint32_t in[2] = {operand(m, table(m, MAKE_CHANCE(30) ? 1 << 16 : 4096))}, out;
    int64_t axes[2] = {MAKE_BELOW(2), 0};
    axes[1] = !axes[0];
    const shoal_graph *body = make_join(m, m->dtype, MAKE_CHANCE(50));
    in[1] = make_scalar(m, m->dtype);
    shoal_attr along = MAKE_INTS(DIMENSIONS, axes, 1 + MAKE_BELOW(2));
    shoal_attr up_to = graph_int(SHOAL_ATTR_DIMENSION, axes[0]);
    bool all = MAKE_CHANCE(75);
    return make_node(m, all ? GRAPH_REDUCE : GRAPH_CUMULATE, in, 2, all ? &along : &up_to, 1, &body,
                     1, &out);
}

/* In order, or the composites along rows. */
static bool rows(maker *m) {
    static const uint16_t ordered[] = {GRAPH_SORT, GRAPH_TOP_K, GRAPH_ARGMAX, GRAPH_ARGMIN};
    static const uint16_t composites[] = {GRAPH_SOFTMAX, GRAPH_LAYER_NORM, GRAPH_RMS_NORM,
                                          GRAPH_RMS_NORM_SCALE_GRADIENT};
    operand(m, table(m, 2048));
    if (MAKE_CHANCE(60)) return make_order(m, ordered[MAKE_BELOW(4)]);
    return make_composite(m, composites[MAKE_BELOW(4)]);
}

/* Windows on lines of over 1,024 elements. */
static bool windows(maker *m) {
    operand(m, table(m, 1024 + 1024 * (int64_t)MAKE_BELOW(3)));
    return make_window(m, MAKE_CHANCE(75) ? GRAPH_REDUCE_WINDOW : GRAPH_SELECT_AND_SCATTER);
}

/* Of any numbers: between whole ones one key mostly outweighs all others. */
static bool attention(maker *m) {
    m->whole = false;
    return make_composite(m, MAKE_CHANCE(60) ? GRAPH_ATTENTION : GRAPH_ATTENTION_GRADIENT);
}

static bool convolution(maker *m) { return make_window(m, GRAPH_CONVOLUTION); }

/* A value of 1 to 4 MiB, and what is exact or moves it. */
static bool large(maker *m) {
    static const uint16_t ops[] = {GRAPH_ADD,         GRAPH_MAXIMUM, GRAPH_TRANSPOSE, GRAPH_SLICE,
                                   GRAPH_CONCATENATE, GRAPH_REVERSE, GRAPH_RESHAPE};
    int64_t all = (1 << 18) + MAKE_BELOW(1 << 18), across = 1 + MAKE_BELOW(9);
    m->elements = 1 << 19;
    uint32_t x =
        make_input(m, (shoal_type){.dtype = m->dtype, .rank = 2, .dims = {across, all / across}});
    for (uint32_t i = 1 + MAKE_BELOW(2); i > 0; i--) {
        uint16_t op = ops[MAKE_BELOW(7)];
        uint32_t in[2] = {x, x}, out;
        if (op == GRAPH_ADD || op == GRAPH_MAXIMUM)
            make_node(m, op, in, 2, NULL, 0, NULL, 0, &out);
        else
            make_move(m, op);
    }
    return true;
}

void make_blocks(maker *m) {
    static bool (*const kinds[])(maker *) = {product, quantised, joining,     rows,       windows,
                                             windows, attention, convolution, convolution};
    static const int64_t extents[] = {1, 3, 6, 65, 70};
    for (int i = 0; i < MAKE_EXTENTS; i++) m->extents[i] = extents[i];
    m->elements = 1 << 17;
    m->whole = MAKE_CHANCE(95);
    if (MAKE_CHANCE(60) || shoal_dtype_size((shoal_dtype)m->dtype) == 2) m->dtype = SHOAL_F32;
    if (MAKE_CHANCE(8)) {
        large(m);
        return;
    }
    for (uint32_t i = 1 + MAKE_BELOW(2); i > 0; i--)
        for (int turn = 0; turn < 4 && !kinds[MAKE_BELOW(sizeof kinds / sizeof *kinds)](m);
             turn++) {
        }
    if (MAKE_CHANCE(40)) make_elementwise(m, MAKE_CHANCE(50) ? GRAPH_ADD : GRAPH_MAXIMUM);
}
