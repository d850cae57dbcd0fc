/* The composites: every element type, odd and empty shapes, each axis, each attribute. */
#include "build.h"

#include <stdio.h>
#include <string.h>

#define FLOAT(key, value) graph_float(SHOAL_ATTR_##key, value)
#define RUN(op, types, n, terms, how, ...)                                                         \
    run(op, types, n, (const shoal_attr[]){__VA_ARGS__},                                           \
        sizeof((const shoal_attr[]){__VA_ARGS__}) / sizeof(shoal_attr), terms, how)

static void run(uint16_t op, const shoal_type *types, uint32_t n, const shoal_attr *attrs,
                size_t n_attrs, int64_t terms, fill how) {
    if (build_node(op, types, n, attrs, (uint16_t)n_attrs, CLOSE_UNITS, terms, how)) return;
    build_must(base_fail(SHOAL_INTERNAL, "%s: %s", shoal_op_name(op), shoal_error_message()));
}

static void along_cases(uint8_t d, shoal_type x) {
    static const fill fills[] = {FILL_TAME, FILL_SPECIAL};
    for (int axis = 0; axis < x.rank; axis++) {
        shoal_attr along = INT(DIMENSION, axis);
        shoal_type row = TYPE(d, x.dims[axis]), types[] = {x, row, row};
        shoal_type labels = {.dtype = SHOAL_I32};
        for (int i = 0; i < x.rank; i++)
            if (i != axis) labels.dims[labels.rank++] = x.dims[i];
        shoal_type of = labels, entropy[] = {x, labels}, both[] = {x, x, row};
        of.dtype = d;
        shoal_type loss[] = {of, x, labels};
        int64_t terms = 8 + x.dims[axis] / 8, count = base_type_count(&labels);
        int64_t sums = 8 + count / 4;
        for (int f = 0; f < 2; f++) {
            RUN(GRAPH_SOFTMAX, types, 1, terms, fills[f], along);
            RUN(GRAPH_LOG_SOFTMAX, types, 1, terms, fills[f], along);
        }
        for (uint32_t n = 1; n <= 3; n++) {
            if (n < 3) RUN(GRAPH_RMS_NORM, types, n, terms, FILL_TAME, along, FLOAT(EPSILON, 1e-3));
            RUN(GRAPH_LAYER_NORM, types, n, terms, FILL_TAME, along, FLOAT(EPSILON, 1e-2));
        }
        RUN(GRAPH_SOFTMAX_GRADIENT, both, 2, terms, FILL_TAME, along);
        for (uint32_t n = 2; n <= 3; n++) {
            RUN(GRAPH_RMS_NORM_GRADIENT, both, n, terms, FILL_TAME, along, FLOAT(EPSILON, 1e-1));
            RUN(GRAPH_LAYER_NORM_GRADIENT, both, n, terms, FILL_TAME, along, FLOAT(EPSILON, 1e-1));
        }
        RUN(GRAPH_RMS_NORM_SCALE_GRADIENT, both, 2, sums, FILL_TAME, along, FLOAT(EPSILON, 1e-1));
        RUN(GRAPH_LAYER_NORM_SCALE_GRADIENT, both, 2, sums, FILL_TAME, along, FLOAT(EPSILON, 1e-1));
        for (int f = 0; f < 2; f++) {
            RUN(GRAPH_CROSS_ENTROPY, entropy, 2, terms, fills[f], along);
            RUN(GRAPH_CROSS_ENTROPY, entropy, 2, terms, fills[f], along, INT(IGNORE_INDEX, 2));
        }
        RUN(GRAPH_CROSS_ENTROPY_GRADIENT, loss, 3, terms, FILL_TAME, along);
        RUN(GRAPH_CROSS_ENTROPY_GRADIENT, loss, 3, terms, FILL_TAME, along, INT(IGNORE_INDEX, 2));
    }
}

/* Attention and its gradient, of these operands of attention; the gradient's first two, of its
 * result, are made up. */
static void attention_case(const shoal_type *types, uint32_t n, const shoal_attr *attrs,
                           uint16_t n_attrs) {
    shoal_type all[7], result = types[0];
    result.dims[result.rank - 1] = types[2].dims[types[2].rank - 1];
    all[0] = all[1] = result;
    memcpy(all + 2, types, n * sizeof *types);
    run(GRAPH_ATTENTION, types, n, attrs, n_attrs, 16, FILL_TAME);
    run(GRAPH_ATTENTION_GRADIENT, all, 2 + n, attrs, n_attrs, 64, FILL_TAME);
}
#define ATTENTION(types, n, ...)                                                                   \
    attention_case(types, n, (const shoal_attr[]){__VA_ARGS__},                                    \
                   sizeof((const shoal_attr[]){__VA_ARGS__}) / sizeof(shoal_attr))

static void attention_cases(uint8_t d) {
    shoal_type plain[] = {TYPE(d, 5, 8), TYPE(d, 7, 8), TYPE(d, 7, 3)};
    shoal_type heads[] = {TYPE(d, 2, 3, 5, 8), TYPE(d, 2, 3, 5, 8), TYPE(d, 2, 3, 5, 8)};
    shoal_type groups[] = {TYPE(d, 2, 3, 4, 8), TYPE(d, 2, 6, 8), TYPE(d, 2, 6, 8),
                           TYPE(SHOAL_BOOL, 2, 1, 4, 6)};
    shoal_type added[] = {TYPE(d, 2, 3, 4, 8), TYPE(d, 2, 3, 6, 8), TYPE(d, 2, 3, 6, 5),
                          TYPE(d, 4, 6), TYPE(SHOAL_I32, )};
    shoal_type length[] = {added[0], added[1], added[2], TYPE(SHOAL_I64, )};
    shoal_type none[] = {TYPE(d, 0, 8), TYPE(d, 7, 8), TYPE(d, 7, 3)};
    shoal_type nothing[] = {TYPE(d, 3, 5, 8), TYPE(d, 3, 0, 8), TYPE(d, 3, 0, 2)};
    shoal_type flat[] = {TYPE(d, 3, 5, 0), TYPE(d, 3, 4, 0), TYPE(d, 3, 4, 2)};
    attention_case(plain, 3, NULL, 0);
    attention_case(none, 3, NULL, 0);
    attention_case(nothing, 3, NULL, 0);
    ATTENTION(flat, 3, FLOAT(SCALE, 1));
    attention_case(heads, 3, NULL, 0);
    attention_case(groups, 4, NULL, 0);
    attention_case(added, 4, NULL, 0);
    attention_case(added, 5, NULL, 0);
    attention_case(length, 4, NULL, 0);
    ATTENTION(heads, 3, INT(CAUSAL, 0));
    ATTENTION(plain, 3, INT(CAUSAL, 0), FLOAT(SCALE, 0.25));
    ATTENTION(heads, 3, INT(CAUSAL, -2));
    ATTENTION(length, 4, INT(CAUSAL, 1));
}

/* Several blocks of queries and keys, with rests. */
static void long_attention_cases(void) {
    uint8_t d = SHOAL_F32;
    shoal_type heads[] = {TYPE(d, 2, 131, 32), TYPE(d, 2, 277, 32), TYPE(d, 2, 277, 40)};
    shoal_type groups[] = {TYPE(d, 2, 67, 7), TYPE(d, 301, 7), TYPE(d, 301, 65),
                           TYPE(SHOAL_BOOL, 67, 301)};
    shoal_type added[] = {heads[0], heads[1], heads[2], TYPE(d, 131, 1), TYPE(SHOAL_I32, )};
    attention_case(heads, 3, NULL, 0);
    attention_case(groups, 3, NULL, 0);
    attention_case(groups, 4, NULL, 0);
    attention_case(added, 4, NULL, 0);
    attention_case(added, 5, NULL, 0);
    ATTENTION(heads, 3, INT(CAUSAL, 0));
    ATTENTION(heads, 3, INT(CAUSAL, -200));
    ATTENTION(groups, 4, INT(CAUSAL, -150), FLOAT(SCALE, -0.5));
}

static void rope_cases(uint8_t d) {
    shoal_type two[] = {TYPE(d, 5, 8), TYPE(SHOAL_I32, 5), TYPE(SHOAL_F32, 4)};
    shoal_type heads[] = {TYPE(d, 2, 3, 5, 6), TYPE(SHOAL_I64, 3)};
    shoal_type none[] = {TYPE(d, 3, 0), TYPE(SHOAL_I32, 3)};
    for (int turns = 0; turns < 2; turns++) {
        shoal_attr flag = graph_bool(SHOAL_ATTR_INTERLEAVED, turns);
        RUN(GRAPH_ROPE, two, 2, 32, FILL_TAME, INT(DIMENSION, 0), flag);
        RUN(GRAPH_ROPE, two, 3, 32, FILL_TAME, INT(DIMENSION, 0), flag);
        RUN(GRAPH_ROPE, heads, 2, 32, FILL_TAME, INT(DIMENSION, 1), flag, FLOAT(THETA, 500));
        RUN(GRAPH_ROPE, none, 2, 32, FILL_TAME, INT(DIMENSION, 0), flag);
    }
}

/* All bytes, so that scales are zeros, negative, subnormal, infinite and NaN. */
static void dequantize_cases(void) {
    static const uint8_t to[] = {SHOAL_F32, SHOAL_F16, SHOAL_BF16};
    const shoal_block_format *format;
    for (uint32_t f = 0; (format = shoal_block_format_at(f)); f++)
        for (int i = 0; i < 3; i++)
            for (int64_t rows = 0; rows < 8; rows = 2 * rows + 1) {
                shoal_type x = TYPE(SHOAL_U8, 2, rows, (1 + rows % 3) * format->bytes);
                shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DTYPE, to[i]),
                                      graph_string(SHOAL_ATTR_FORMAT, format->name)};
                build_node(GRAPH_DEQUANTIZE, &x, 1, attrs, 2, CLOSE_EXACT, 0, FILL_SPECIAL);
            }
}

void cases_composite(void) {
    static const uint8_t floats[] = {SHOAL_F16, SHOAL_BF16, SHOAL_F32, SHOAL_F64};
    for (int i = 0; i < 4; i++) {
        uint8_t d = floats[i];
        shoal_type shapes[] = {TYPE(d, ),        TYPE(d, 1),       TYPE(d, 0),
                               TYPE(d, 67),      TYPE(d, 3, 5),    TYPE(d, 33, 31),
                               TYPE(d, 150, 40), TYPE(d, 2, 0, 3), TYPE(d, 2, 3, 1, 2, 1, 2, 3, 1)};
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            for (int f = 0; f < 2; f++) {
                fill how = f ? FILL_SPECIAL : FILL_TAME;
                shoal_attr kinds[] = {graph_string(SHOAL_ATTR_APPROXIMATE, "none"),
                                      graph_string(SHOAL_ATTR_APPROXIMATE, "tanh")};
                build_node(GRAPH_SILU, &shapes[s], 1, NULL, 0, CLOSE_UNITS, 8, how);
                build_node(GRAPH_GELU, &shapes[s], 1, NULL, 0, CLOSE_UNITS, 8, how);
                RUN(GRAPH_GELU, &shapes[s], 1, 8, how, kinds[0]);
                RUN(GRAPH_GELU, &shapes[s], 1, 8, how, kinds[1]);
                if (f) continue; /* of the infinite, 0 times infinity: each form in its own way */
                shoal_type both[] = {shapes[s], shapes[s]};
                build_node(GRAPH_SILU_GRADIENT, both, 2, NULL, 0, CLOSE_UNITS, 8, how);
                RUN(GRAPH_GELU_GRADIENT, both, 2, 8, how, kinds[0]);
                RUN(GRAPH_GELU_GRADIENT, both, 2, 8, how, kinds[1]);
            }
            shoal_type x = shapes[s], numbers = TYPE(d == SHOAL_F64 ? d : SHOAL_F32, 8);
            shoal_type step[] = {x, x, x, x, numbers, x};
            for (uint32_t n = 5; n <= 6; n++)
                build_node(GRAPH_ADAM, step, n, NULL, 0, CLOSE_UNITS, 64, FILL_TAME);
            along_cases(d, shapes[s]);
        }
        attention_cases(d);
        rope_cases(d);
    }
    long_attention_cases();
    dequantize_cases();
}
