/* Quantised blocks: dequantize(bytes) gives the numbers that blocks of bytes hold (base/block.h has
 * the formats). The bytes are uint8, whole blocks along the last axis, which becomes that of the
 * numbers. All is computed in float32 and rounded once, at the end.
 *
 * Here the formats are written in primitives. Blocks are the first axis, n of them; what they share
 * out is spread over further axes, so that all but the cuts of bytes is one elementwise expression.
 */
#include "base/block.h"
#include "graph/maker.h"
#include "graph/rules.h"

static const shoal_block_format *format_of(const graph_call *call) {
    uint32_t index;
    const char *name = graph_call_attr(call, SHOAL_ATTR_FORMAT)->u.string;
    return shoal_block_format_find(name, &index) == SHOAL_OK ? shoal_block_format_at(index) : NULL;
}

INFER(dequantize) {
    shoal_type bytes = call->inputs[0], type = bytes;
    const shoal_block_format *format = format_of(call);
    if (!format) return base_fail_prefix(SHOAL_INVALID, "dequantize: ");
    SHOAL_TRY(graph_get_dtype(call, &type));
    if (bytes.dtype != SHOAL_U8 || !bytes.rank)
        return base_fail(SHOAL_INVALID,
                         "dequantize: takes the bytes of blocks, uint8 with an axis of them, not "
                         "%s; bitcast_convert makes bytes of other elements",
                         GRAPH_TEXT(&bytes));
    if (graph_kind(&type) != 'f' || type.dtype == SHOAL_F64)
        return base_fail(SHOAL_INVALID,
                         "dequantize: gives float32, float16 or bfloat16, not %s; convert those",
                         shoal_dtype_name((shoal_dtype)type.dtype));
    int64_t *last = &type.dims[type.rank - 1u];
    if (*last % format->bytes)
        return base_fail(SHOAL_INVALID,
                         "dequantize: the last axis of %s holds no whole blocks of %s, which take "
                         "%u bytes each; cut it at multiples of them",
                         GRAPH_TEXT(&bytes), format->name, format->bytes);
    if (base_mul_overflow(*last / format->bytes, (int64_t)format->values, last))
        return base_fail(SHOAL_INVALID, "dequantize: %s holds more values than fit in memory",
                         GRAPH_TEXT(&bytes));
    return GRAPH_ONE(&type);
}

/* Every axis is carried, the last in whole blocks. */
AXES(dequantize) {
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t i = 0; i < outputs[0].rank; i++) out->inputs[0][i] = (int8_t)i;
    out->granule[outputs[0].rank - 1u] = format_of(call)->values;
    return SHOAL_OK;
}

COST(dequantize) { return 8 * (double)base_type_count(&outputs[0]); }

/* ---- what the formats mean ---- */

/* Bytes [from, from + size) of each block. */
static uint32_t field(maker *m, uint32_t blocks, int64_t from, int64_t size) {
    if (m->status) return 0;
    int64_t start[] = {0, from}, limit[] = {type_of(m, blocks)->dims[0], from + size};
    static const int64_t strides[] = {1, 1};
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, start, 2),
                                graph_ints(SHOAL_ATTR_LIMIT_INDICES, limit, 2),
                                graph_ints(SHOAL_ATTR_STRIDES, strides, 2)};
    return node(m, GRAPH_SLICE, &blocks, 1, attrs, 3, NULL);
}

static uint32_t bitcast(maker *m, uint32_t x, uint8_t dtype) {
    shoal_attr attr = graph_int(SHOAL_ATTR_DTYPE, dtype);
    return node(m, GRAPH_BITCAST_CONVERT, &x, 1, &attr, 1, NULL);
}

/* The half at byte `from` of each block, as float32: one number per block. */
static uint32_t half(maker *m, uint32_t blocks, int64_t from) {
    return convert(m, bitcast(m, field(m, blocks, from, 2), SHOAL_F16), SHOAL_F32);
}

static uint32_t signed_bytes(maker *m, uint32_t x) {
    return convert(m, bitcast(m, x, SHOAL_I8), SHOAL_F32);
}

/* The extents of a block's values, slowest first, behind the axis of blocks. */
typedef struct extents {
    uint32_t n;
    int64_t dims[SHOAL_MAX_RANK - 1];
} extents;

static shoal_type values_type(const maker *m, uint32_t blocks, uint8_t dtype, const extents *e) {
    shoal_type type = {.dtype = dtype, .rank = (uint8_t)(e->n + 1)};
    type.dims[0] = type_of(m, blocks)->dims[0];
    memcpy(type.dims + 1, e->dims, e->n * sizeof *e->dims);
    return type;
}

/* x, whose elements per block have the extents' axes in `mask` (bit i: number i), as one per value.
 */
static uint32_t per_value(maker *m, uint32_t x, const extents *e, unsigned mask) {
    if (m->status) return 0;
    shoal_type all = values_type(m, x, type_of(m, x)->dtype, e), own = all;
    int64_t axes[SHOAL_MAX_RANK] = {0};
    own.rank = 1;
    for (uint32_t i = 0; i < e->n; i++)
        if (mask >> i & 1) {
            axes[own.rank] = i + 1;
            own.dims[own.rank++] = e->dims[i];
        }
    if (!base_type_equal(type_of(m, x), &own)) x = reshape(m, x, &own);
    return spread(m, x, &all, axes);
}

/* A number for each index of the axes in `mask`, as one per value of `like`. */
static uint32_t table(maker *m, uint32_t like, const extents *e, unsigned mask,
                      const uint8_t *numbers) {
    if (m->status) return 0;
    shoal_type all = *type_of(m, like), own = {.dtype = SHOAL_U8};
    int64_t axes[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < e->n; i++)
        if (mask >> i & 1) {
            axes[own.rank] = i + 1;
            own.dims[own.rank++] = e->dims[i];
        }
    const shoal_attr attrs[] = {
        graph_bytes(SHOAL_ATTR_VALUE, numbers, (size_t)base_type_count(&own)),
        graph_ints(SHOAL_ATTR_SHAPE, own.dims, own.rank), graph_int(SHOAL_ATTR_DTYPE, SHOAL_U8)};
    return spread(m, node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL), &all, axes);
}

/* (x >> shift) & mask */
static uint32_t bits(maker *m, uint32_t x, uint32_t shift, double mask) {
    uint32_t moved = two(m, GRAPH_SHIFT_RIGHT_LOGICAL, x, shift);
    return two(m, GRAPH_AND, moved, m->status ? 0 : like(m, moved, mask));
}

static const uint8_t by_four[] = {0, 4}, by_two[] = {0, 2, 4, 6};

static uint32_t q8_0(maker *m, uint32_t blocks) {
    static const extents e = {1, {32}};
    return two(m, GRAPH_MULTIPLY, signed_bytes(m, field(m, blocks, 2, 32)),
               per_value(m, half(m, blocks, 0), &e, 0));
}

/* 16 bytes: the low bits of all, and then the high bits. */
static uint32_t nibbles(maker *m, uint32_t blocks, int64_t from, const extents *e) {
    uint32_t q = per_value(m, field(m, blocks, from, 16), e, 2);
    return convert(m, bits(m, q, table(m, q, e, 1, by_four), 15), SHOAL_F32);
}

static const extents halves = {2, {2, 16}};

static uint32_t q4_0(maker *m, uint32_t blocks) {
    uint32_t q = nibbles(m, blocks, 2, &halves), d = per_value(m, half(m, blocks, 0), &halves, 0);
    return two(m, GRAPH_MULTIPLY, d, m->status ? 0 : plus(m, q, -8));
}

static uint32_t q4_1(maker *m, uint32_t blocks) {
    uint32_t q = nibbles(m, blocks, 4, &halves), d = per_value(m, half(m, blocks, 0), &halves, 0);
    return two(m, GRAPH_ADD, two(m, GRAPH_MULTIPLY, d, q),
               per_value(m, half(m, blocks, 2), &halves, 0));
}

static uint32_t masked(maker *m, uint32_t x, double mask) {
    return two(m, GRAPH_AND, x, m->status ? 0 : like(m, x, mask));
}

static uint32_t shifted(maker *m, uint16_t op, uint32_t x, double by) {
    return two(m, op, x, m->status ? 0 : like(m, x, by));
}

/* Eight numbers of 6 bits: of the first four the low bits of four bytes, of the others the bits
 * `rest` and, above them, the top bits of the same bytes. Times the half at byte `from`. */
static uint32_t scales(maker *m, uint32_t blocks, int64_t from, uint32_t low, uint32_t rest) {
    uint32_t top = shifted(m, GRAPH_SHIFT_LEFT, shifted(m, GRAPH_SHIFT_RIGHT_LOGICAL, low, 6), 4);
    uint32_t both[] = {masked(m, low, 63), two(m, GRAPH_OR, rest, top)};
    shoal_attr axis = graph_int(SHOAL_ATTR_DIMENSION, 1);
    uint32_t eight = convert(m, node(m, GRAPH_CONCATENATE, both, 2, &axis, 1, NULL), SHOAL_F32);
    static const extents parts = {1, {8}};
    return two(m, GRAPH_MULTIPLY, per_value(m, half(m, blocks, from), &parts, 0), eight);
}

static uint32_t q4_k(maker *m, uint32_t blocks) {
    static const extents e = {3, {4, 2, 32}};
    uint32_t rest = field(m, blocks, 12, 4);
    uint32_t d = scales(m, blocks, 0, field(m, blocks, 4, 4), masked(m, rest, 15));
    uint32_t less = scales(m, blocks, 2, field(m, blocks, 8, 4),
                           shifted(m, GRAPH_SHIFT_RIGHT_LOGICAL, rest, 4));
    uint32_t q = per_value(m, field(m, blocks, 16, 128), &e, 5);
    q = convert(m, bits(m, q, table(m, q, &e, 2, by_four), 15), SHOAL_F32);
    return two(m, GRAPH_SUBTRACT, two(m, GRAPH_MULTIPLY, per_value(m, d, &e, 3), q),
               per_value(m, less, &e, 3));
}

/* Axes: halves of the block, low or high bits, two parts of 32 values, two of 16, values. */
static uint32_t q6_k(maker *m, uint32_t blocks) {
    static const extents e = {5, {2, 2, 2, 2, 16}};
    static const extents parts = {1, {16}};
    uint32_t low = per_value(m, field(m, blocks, 0, 128), &e, 1 | 4 | 8 | 16);
    uint32_t high = per_value(m, field(m, blocks, 128, 64), &e, 1 | 8 | 16);
    low = bits(m, low, table(m, low, &e, 2, by_four), 15);
    high = bits(m, high, table(m, high, &e, 2 | 4, by_two), 3);
    uint32_t q = two(m, GRAPH_OR, low, shifted(m, GRAPH_SHIFT_LEFT, high, 4));
    q = convert(m, q, SHOAL_F32);
    uint32_t d = two(m, GRAPH_MULTIPLY, per_value(m, half(m, blocks, 208), &parts, 0),
                     signed_bytes(m, field(m, blocks, 192, 16)));
    return two(m, GRAPH_MULTIPLY, per_value(m, d, &e, 15), m->status ? 0 : plus(m, q, -32));
}

DECOMPOSE(dequantize) {
    static uint32_t (*const formats[])(maker *, uint32_t) = {
#define XX(NAME, name, ...) name,
        BASE_BLOCK_MAP(XX)
#undef XX
    };
    maker m = {g, SHOAL_OK};
    uint32_t index;
    SHOAL_TRY(shoal_block_format_find(graph_call_attr(call, SHOAL_ATTR_FORMAT)->u.string, &index));
    const shoal_block_format *format = shoal_block_format_at(index);
    shoal_type result = call->inputs[0], blocks = {.dtype = SHOAL_U8, .rank = 2};
    int64_t *last = &result.dims[result.rank - 1u];
    blocks.dims[0] = base_type_count(&result) / format->bytes;
    blocks.dims[1] = format->bytes;
    *last = *last / format->bytes * format->values;
    uint32_t values = formats[index](&m, reshape(&m, inputs[0], &blocks));
    values = reshape(&m, values, &result);
    outputs[0] = convert(&m, values, (uint8_t)graph_call_attr(call, SHOAL_ATTR_DTYPE)->u.i);
    return m.status;
}
