/* The reference: plain C that defines what every operation means. Other backends are proven
 * against it, and may call its kernels for what they do not do themselves. */
#ifndef REF_REF_H
#define REF_REF_H

#include "backend/ref/number.h"
#include "base/status.h"
#include "shoal/backend.h"

extern const shoal_backend backend_ref;

/* One node with the memory of its operands and results: dense, row-major, not overlapping. */
typedef struct ref_call {
    const shoal_graph *graph;
    const shoal_node *node;
    const void *const *inputs;
    void *const *outputs;
} ref_call;

/* Computes a node that graph_verify accepts. Fails only for want of memory, with UNSUPPORTED, or,
 * of in_range, with RANGE. */
typedef shoal_status (*ref_kernel)(const ref_call *call);

/* The kernel of an operation; NULL when it has none. Any thread. */
ref_kernel ref_kernel_of(uint16_t op);
/* Whether the reference runs this node, bodies included. */
bool ref_supports(const shoal_node *node);

/* The body that `if` or `case` runs. */
uint16_t ref_branch_of(const shoal_node *node, const void *selector);

/* Runs whole graphs: memory for the values between inputs and outputs, reused from run to run. */
typedef struct ref_frame ref_frame;
shoal_status ref_frame_new(const shoal_graph *g, ref_frame **out) SHOAL_CHECK_RESULT;
void ref_frame_destroy(ref_frame **frame);
size_t ref_frame_bytes(const shoal_graph *g);
/* The graph's inputs and outputs in order. */
shoal_status ref_frame_run(ref_frame *frame, const void *const *inputs,
                           void *const *outputs) SHOAL_CHECK_RESULT;

/* Computes a graph once: a graph_evaluate of graph/graph.h, for constant folding. */
shoal_status ref_evaluate(void *context, const shoal_graph *g, const void *const *inputs,
                          void *const *outputs) SHOAL_CHECK_RESULT;

/* ---- for kernels ---- */

static inline const shoal_type *ref_input(const ref_call *call, uint32_t i) {
    return &call->graph->values[call->node->inputs[i]].type;
}

static inline const shoal_type *ref_output(const ref_call *call) {
    return &call->graph->values[call->node->first_output].type;
}

static inline const shoal_attr *ref_attr(const ref_call *call, shoal_attr_key key) {
    return shoal_node_attr(call->node, key);
}

/* Computes n elements of a class: out = op(a, b). out may be a or b. */
typedef void (*ref_binary)(ref_class class, const ref_chunk *a, const ref_chunk *b, ref_chunk *out,
                           int64_t n);
/* The function of a binary operation; NULL for any other operation. */
ref_binary ref_binary_of(uint16_t op);

/* Blocks of random words that are made at a time, in whole vectors: words of one place lie side by
 * side. */
enum { REF_RANDOM_BLOCKS = REF_CHUNK / 2 + 16 };
typedef struct ref_words {
    uint32_t at[4][REF_RANDOM_BLOCKS];
} ref_words;
typedef struct ref_random_kernels {
    /* n blocks from number `block` on; up to 15 more are written. */
    void (*philox)(uint64_t key, uint64_t block, uint64_t stream, ref_words *w, int64_t n);
    void (*normals)(const ref_words *w, int64_t n, double *cosines, double *sines);
} ref_random_kernels;
/* out[0 .. n) = in[0][0 .. n), from double to an element type. */
typedef void (*ref_narrow)(void *out, const void *const *in, int64_t n, unsigned scalars,
                           const char *ahead);

/* Elements [begin, end) of the result of a node `random`. kernels, narrow: others than the
 * reference's; NULL: these. */
void ref_random_part(const ref_call *call, int64_t begin, int64_t end,
                     const ref_random_kernels *kernels, ref_narrow narrow);

/* Elements per step along each axis of a dense row-major tensor. */
void ref_strides(const shoal_type *type, int64_t *strides);

/* Copies elements between two strided views of one shape (in elements; 0 repeats an element). */
typedef struct ref_view {
    uint32_t rank;
    int64_t dims[SHOAL_MAX_RANK];
    int64_t to[SHOAL_MAX_RANK];
    int64_t from[SHOAL_MAX_RANK];
    int64_t to_start, from_start;
} ref_view;
void ref_copy_view(const ref_view *view, void *to, const void *from, size_t element_bytes);
/* The view of a node that only moves elements: transpose, slice, broadcast_in_dim, reshape, place;
 * of concatenate for operand `input`. */
ref_view ref_view_of(const shoal_graph *g, const shoal_node *node, uint32_t input);

/* The axes of a dot_general: batching, free of either side, contracting, with the strides of both
 * operands. Rows of the result are laid out as batch, lhs_free, rhs_free. */
typedef struct ref_axes {
    uint32_t n;
    int64_t size[SHOAL_MAX_RANK];
    int64_t stride[2][SHOAL_MAX_RANK]; /* of lhs, rhs; 0 where it has no such axis */
    int64_t count;                     /* product of the sizes */
} ref_axes;
typedef struct ref_dot {
    ref_axes batch, lhs_free, rhs_free, contracting;
} ref_dot;
ref_dot ref_dot_of(const shoal_graph *g, const shoal_node *node);
/* The same where the operands' axes have other strides than those of dense tensors. */
ref_dot ref_dot_of_views(const shoal_graph *g, const shoal_node *node,
                         const int64_t *const stride[2]);
/* The offset of element number `index` of the axes, row-major, in operand `side`. */
int64_t ref_axes_at(const ref_axes *axes, int64_t index, int side);

/* A gather or a scatter, in the words of gather: `result` is the updates of a scatter. Its lists of
 * axes are the node's attributes; `vector`: index_vector_dim. */
typedef struct ref_indexing {
    const shoal_type *operand, *indices, *result;
    uint32_t indices_input;
    const shoal_attr *window, *dropped, *operand_batching, *index_batching, *map;
    int64_t vector;
} ref_indexing;
ref_indexing ref_gather_of(const ref_call *call);
ref_indexing ref_scatter_of(const ref_call *call);
/* Element `at` of an integer operand; what int64 does not hold is its largest number. */
int64_t ref_index_at(const ref_call *call, uint32_t input, int64_t at);
/* Where dynamic_update_slice puts its second operand. */
ref_view ref_update_view(const ref_call *call);

/* A convolution: extents and steps (in elements) of every axis by its meaning. The spatial ones in
 * order; channels are those of one group. */
typedef struct ref_windows_axis {
    int64_t in, window, out, in_step, window_step, out_step;
    int64_t stride, before, in_gap, window_gap; /* before: padding; gaps: dilations, 1 for none */
    bool reversed;
} ref_windows_axis;
typedef struct ref_windows {
    uint32_t spatial;
    int64_t batch, channels, features, feature_groups, batch_groups;
    int64_t lhs_batch, lhs_channel, rhs_channel, rhs_feature, out_batch, out_feature;
    ref_windows_axis axis[SHOAL_MAX_RANK];
} ref_windows;
ref_windows ref_windows_of(const shoal_graph *g, const shoal_node *node);
/* The input's index where element `inside` of the window at `place` lies; -1: there is none. */
int64_t ref_windows_at(const ref_windows_axis *axis, int64_t place, int64_t inside);

#define OP(name, NAME, category, least, most, required, optional, regions, shape, rule, local,     \
           cost, kernel, decomposition, derivative, batching, reads, summary)                      \
    shoal_status ref_##kernel(const ref_call *call);
#include "graph/ops.def"
#undef OP

#endif
