/* The graph as pure data: what a client builds, the planner lowers and a backend compiles.
 *
 * It has StableHLO's meaning: an operation's name, attributes and semantics are those of the
 * StableHLO specification (https://openxla.org/stablehlo/spec); Shoal's own operations are listed
 * beside them in `src/graph/ops.def`. A backend plug-in reads these structures and never writes
 * them. All memory belongs to the graph; pointers are valid as long as it is.
 *
 * A graph is a straight list of nodes in an order in which each value is defined before it is
 * used. Values are numbered densely; a graph input is a value that no node defines. */
#ifndef SHOAL_IR_H
#define SHOAL_IR_H

#include "shoal/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_IR_VERSION 1
#define SHOAL_NO_NODE UINT32_MAX

/* Attribute keys: XX(NAME, name in text, kind). The order is part of the wire format: append only.
 */
#define SHOAL_ATTR_MAP(XX)                                                                         \
    XX(VALUE, "value", BYTES)          /* constant: elements, row-major, or one splat */           \
    XX(DIMENSIONS, "dimensions", INTS) /* reduce, reverse */                                       \
    XX(BROADCAST_DIMENSIONS, "broadcast_dimensions", INTS)                                         \
    XX(PERMUTATION, "permutation", INTS)                                                           \
    XX(START_INDICES, "start_indices", INTS)                                                       \
    XX(LIMIT_INDICES, "limit_indices", INTS)                                                       \
    XX(STRIDES, "strides", INTS)                                                                   \
    XX(DIMENSION, "dimension", INT) /* concatenate */                                              \
    XX(IOTA_DIMENSION, "iota_dimension", INT)                                                      \
    XX(LHS_BATCHING_DIMENSIONS, "lhs_batching_dimensions", INTS)                                   \
    XX(RHS_BATCHING_DIMENSIONS, "rhs_batching_dimensions", INTS)                                   \
    XX(LHS_CONTRACTING_DIMENSIONS, "lhs_contracting_dimensions", INTS)                             \
    XX(RHS_CONTRACTING_DIMENSIONS, "rhs_contracting_dimensions", INTS)                             \
    XX(COMPARISON_DIRECTION, "comparison_direction", STRING)                                       \
    XX(SHAPE, "shape", INTS)        /* result shape of reshape, broadcast, iota */                 \
    XX(DTYPE, "dtype", INT)         /* result element type of convert, iota, … */                \
    XX(CUTS, "cuts", INTS)          /* place: parts per axis, then cut points */                   \
    XX(SLOTS, "slots", INTS)        /* place: owners, in order of the boxes */                     \
    XX(CHANNEL, "channel", INT)     /* exchange: number inside its program */                      \
    XX(MOVES, "moves", INTS)        /* exchange: see shoal_move */                                 \
    XX(TYPES, "types", INTS)        /* exchange: per result: dtype, rank, dims */                  \
    XX(SUGGESTED, "suggested", INT) /* place: 1: nobody asked for it, and it binds nothing */      \
    XX(EPSILON, "epsilon", FLOAT)                                                                  \
    XX(APPROXIMATE, "approximate", STRING) /* gelu: "none" or "tanh" */                            \
    XX(SCALE, "scale", FLOAT)              /* attention: 1 / sqrt(depth) when absent */            \
    XX(CAUSAL, "causal", INT)              /* attention: see graph/composite.c */                  \
    XX(THETA, "theta", FLOAT)              /* rope: base of the frequencies, 10000 if absent */    \
    XX(INTERLEAVED, "interleaved", BOOL)   /* rope: pairs are neighbours, not halves */            \
    XX(IGNORE_INDEX, "ignore_index", INT)  /* cross_entropy: the label whose loss is 0 */          \
    XX(EDGE_PADDING_LOW, "edge_padding_low", INTS)                                                 \
    XX(EDGE_PADDING_HIGH, "edge_padding_high", INTS)                                               \
    XX(INTERIOR_PADDING, "interior_padding", INTS)                                                 \
    XX(SLICE_SIZES, "slice_sizes", INTS)                                                           \
    XX(OFFSET_DIMS, "offset_dims", INTS)                                                           \
    XX(COLLAPSED_SLICE_DIMS, "collapsed_slice_dims", INTS)                                         \
    XX(OPERAND_BATCHING_DIMS, "operand_batching_dims", INTS)                                       \
    XX(START_INDICES_BATCHING_DIMS, "start_indices_batching_dims", INTS)                           \
    XX(START_INDEX_MAP, "start_index_map", INTS)                                                   \
    XX(UPDATE_WINDOW_DIMS, "update_window_dims", INTS)                                             \
    XX(INSERTED_WINDOW_DIMS, "inserted_window_dims", INTS)                                         \
    XX(INPUT_BATCHING_DIMS, "input_batching_dims", INTS)                                           \
    XX(SCATTER_INDICES_BATCHING_DIMS, "scatter_indices_batching_dims", INTS)                       \
    XX(SCATTER_DIMS_TO_OPERAND_DIMS, "scatter_dims_to_operand_dims", INTS)                         \
    XX(INDEX_VECTOR_DIM, "index_vector_dim", INT)                                                  \
    XX(INDICES_ARE_SORTED, "indices_are_sorted", BOOL)                                             \
    XX(UNIQUE_INDICES, "unique_indices", BOOL)                                                     \
    XX(IS_STABLE, "is_stable", BOOL)                                                               \
    XX(K, "k", INT) /* top_k */                                                                    \
    XX(EXPONENT_BITS, "exponent_bits", INT)                                                        \
    XX(MANTISSA_BITS, "mantissa_bits", INT)                                                        \
    XX(RNG_DISTRIBUTION, "rng_distribution", STRING) /* UNIFORM, NORMAL, BITS */                   \
    XX(WHOLE_SHAPE, "whole_shape", INTS) /* random: of the tensor that this is a part of */        \
    XX(WINDOW_DIMENSIONS, "window_dimensions", INTS)                                               \
    XX(WINDOW_STRIDES, "window_strides", INTS)                                                     \
    XX(PADDING, "padding", INTS) /* low, high per axis */                                          \
    XX(BASE_DILATIONS, "base_dilations", INTS)                                                     \
    XX(WINDOW_DILATIONS, "window_dilations", INTS)                                                 \
    XX(LHS_DILATION, "lhs_dilation", INTS)                                                         \
    XX(RHS_DILATION, "rhs_dilation", INTS)                                                         \
    XX(WINDOW_REVERSAL, "window_reversal", INTS)               /* 0 or 1 per axis */               \
    XX(CONVOLUTION_DIMENSIONS, "convolution_dimensions", INTS) /* see graph/ops.def */             \
    XX(FEATURE_GROUP_COUNT, "feature_group_count", INT)                                            \
    XX(BATCH_GROUP_COUNT, "batch_group_count", INT)                                                \
    XX(FORMAT, "format", STRING) /* dequantize: a shoal_block_format's name */                     \
    XX(SHARES, "shares", BOOL)   /* place: 1: cut points come from shares, and may move */         \
    XX(FILE, "file", STRING)     /* source: its digest, in hexadecimal */                          \
    XX(FILE_BYTES, "file_bytes", INT)                                                              \
    XX(OFFSET, "offset", INT)    /* source: of the first element; STRIDES are bytes, too */        \
    XX(SWAPPED, "swapped", BOOL) /* source: elements have the other byte order */                  \
    XX(NAME, "name", STRING) /* source: what people call it; in_range: the error, if another */    \
    XX(BOUND, "bound", BOOL) /* place: 1: on these slots or nowhere */

typedef enum shoal_attr_key {
#define XX(name, text, kind) SHOAL_ATTR_##name,
    SHOAL_ATTR_MAP(XX)
#undef XX
        SHOAL_ATTR_KEY_COUNT
} shoal_attr_key;

typedef enum shoal_attr_kind {
    SHOAL_ATTR_KIND_INT,
    SHOAL_ATTR_KIND_FLOAT,
    SHOAL_ATTR_KIND_INTS,
    SHOAL_ATTR_KIND_STRING,
    SHOAL_ATTR_KIND_BYTES,
    SHOAL_ATTR_KIND_BOOL, /* u.i is 0 or 1 */
} shoal_attr_kind;

typedef struct shoal_attr {
    uint16_t key;   /* shoal_attr_key */
    uint16_t kind;  /* shoal_attr_kind, as the key's row says */
    uint32_t count; /* ints: elements; string: characters without the final zero; bytes: bytes */
    union {
        int64_t i;
        double f;
        const int64_t *ints;
        const char *string; /* zero-terminated */
        const void *bytes;  /* aligned to 64 */
    } u;
} shoal_attr;

/* One move of an `exchange` node, as MOVES lists them: 4 numbers in this order, then start_in,
 * start_out and size with one number per axis. All boxes of a node have the rank of its operand and
 * results. An exchange has at most one operand (the local box that is sent from) and any number of
 * results; the moves into one result cover it exactly once. */
enum shoal_move_kind {
    SHOAL_MOVE_SEND,    /* box start_in, size of the operand goes to slot `slot` */
    SHOAL_MOVE_RECEIVE, /* box start_out, size of result `output` comes from slot `slot` */
    SHOAL_MOVE_LOCAL,   /* box start_in of the operand becomes box start_out of result `output` */
};
typedef struct shoal_move {
    int64_t kind;
    int64_t ordinal; /* number of the move among all of its channel: both ends know it by that */
    int64_t output;  /* 0 for SEND */
    int64_t slot;    /* the other end; the own slot for LOCAL */
} shoal_move;

typedef struct shoal_graph shoal_graph;

typedef struct shoal_node {
    uint16_t op; /* number of the operation; see shoal_op_name */
    uint16_t n_attrs;
    uint16_t n_outputs;
    uint16_t n_regions;
    uint32_t n_inputs;
    uint32_t first_output;             /* outputs are the values first_output + 0..n_outputs-1 */
    const uint32_t *inputs;            /* value numbers */
    const shoal_attr *attrs;           /* in rising order of key */
    const shoal_graph *const *regions; /* bodies: reduce, while, if; they capture nothing */
    const char *location;              /* "file.py:12", or NULL */
    const char *scope;                 /* "layer1/attention", or NULL */
} shoal_node;

typedef struct shoal_value {
    shoal_type type;
    uint32_t node;  /* the node that defines it, or SHOAL_NO_NODE for a graph input */
    uint32_t index; /* which of the node's outputs, or which of the graph's inputs */
} shoal_value;

struct shoal_graph {
    uint32_t n_nodes, n_values, n_inputs, n_outputs;
    const shoal_node *nodes;
    const shoal_value *values;
    const uint32_t *inputs;  /* value numbers, in the order in which they are bound */
    const uint32_t *outputs; /* value numbers; a value may appear twice, or be an input */
};

/* The name of an operation, for example "dot_general"; NULL for a number that is none. */
SHOAL_API const char *shoal_op_name(uint16_t op);
/* Finds an operation by name. Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_op_find(const char *name, uint16_t *out);
/* The number of operations known to this process; their numbers are 0..count-1. */
SHOAL_API uint16_t shoal_op_count(void);
/* What it does, in one line, and what it is like: "unary", "shape", "composite", …; NULL for a
 * number that is none. */
SHOAL_API const char *shoal_op_summary(uint16_t op);
SHOAL_API const char *shoal_op_category(uint16_t op);
/* A node's attribute, or NULL when it has none of that key. */
SHOAL_API const shoal_attr *shoal_node_attr(const shoal_node *node, shoal_attr_key key);

#ifdef __cplusplus
}
#endif
#endif
