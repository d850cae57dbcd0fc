/* Building, checking, printing and encoding graphs. The graph itself is pure data (shoal/ir.h).
 *
 * Reading order of this folder: ops.def (the table of operations), graph.c (the builder),
 * infer.c (types), axes.c (which axes may be cut), verify.c, text.c, codec.c. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/str.h"
#include "shoal/ir.h"

/* ---- operations ---- */

/* Numbers of the operations of ops.def: GRAPH_ADD, GRAPH_DOT_GENERAL, … Operations registered at
 * run time follow GRAPH_OP_BUILT_IN. */
enum {
#define OP(name, NAME, ...) GRAPH_##NAME,
#include "graph/ops.def"
#undef OP
    GRAPH_OP_BUILT_IN
};

typedef struct graph graph;

/* A set of attribute keys: bit k is key k. */
__extension__ typedef unsigned __int128 graph_keys;

/* What a node would be: the arguments of inference. */
typedef struct graph_call {
    uint16_t op;
    uint32_t n_inputs;
    const shoal_type *inputs; /* n_inputs types */
    uint16_t n_attrs;
    const shoal_attr *attrs; /* in rising order of key */
    uint16_t n_regions;
    const shoal_graph *const *regions;
} graph_call;

const shoal_attr *graph_call_attr(const graph_call *call, shoal_attr_key key);

enum { GRAPH_MAX_LOOPS = 16, GRAPH_WHOLE = -1, GRAPH_ANY_REGIONS = 0xffff };

struct graph_part;

/* Of an axis of an operand that is GRAPH_WHOLE, but of which a part reads a range only: element j
 * of the loop is number first + j * step of the axis. loop: GRAPH_WHOLE where nothing is known. */
typedef struct graph_range {
    int8_t loop;
    int64_t first, step;
} graph_range;

/* The axis rule of one node: its iteration space, and where each operand's and result's axes lie
 * in it. Lowering reads only this. An axis of an operand that is GRAPH_WHOLE is needed in full by
 * every part; an axis of a result is never GRAPH_WHOLE. A loop that no result axis maps to is
 * contracted: parts along it give partial results, joined by `combine`.
 *
 * An axis of an operand may have another extent than its loop (reshape, where axes are merged or
 * split): a cut of the loop is then one of the axis in the same proportion, and the granule makes
 * both whole numbers. */
typedef struct graph_axes {
    uint32_t n_loops;
    int64_t extent[GRAPH_MAX_LOOPS];
    int64_t granule[GRAPH_MAX_LOOPS]; /* cuts must be multiples; 0: the loop must not be cut */
    bool contracted[GRAPH_MAX_LOOPS];
    /* Along the loop the call picks elements of its first operand, by numbers: a part has what is
     * picked of its own, and a cut costs more than it saves where that is much. */
    bool picks[GRAPH_MAX_LOOPS];
    uint16_t combine; /* GRAPH_ADD, …, when some loop is contracted */
    /* The operand from which every part along a contracted loop starts, so that cutting would count
     * it once per part: such a loop may be cut only if graph_is_identity holds for that operand.
     * -1: there is none, or counting it often does no harm (maximum, minimum). */
    int32_t initial;
    int8_t (*inputs)[SHOAL_MAX_RANK];  /* [n_inputs][rank]: loop or GRAPH_WHOLE */
    int8_t (*outputs)[SHOAL_MAX_RANK]; /* [n_outputs][rank] */
    graph_range *ranges;               /* of the first operand's axes; NULL: there are none */
    /* Makes a part, of nodes appended to a graph, from the attributes that graph_localise gives,
     * and sets the value of the first result. NULL: the call with these attributes. */
    shoal_status (*part)(const struct graph_part *p, shoal_attr *attrs, uint16_t n_attrs,
                         uint32_t *first);
} graph_axes;

/* A part of a call, that is to be made. */
typedef struct graph_part {
    graph *g;
    const graph_call *call; /* the whole */
    const graph_axes *axes;
    const int64_t *start, *size;       /* per loop */
    const uint32_t *inputs;            /* what there is of each operand, values of g */
    const int64_t *from;               /* where that of the first operand begins, in the whole */
    const shoal_graph *const *regions; /* of g */
} graph_part;

/* What a rule of a gradient works with: a node, the gradients of its results, and the graph that it
 * appends to. Values are values of `g`. */
typedef struct graph_backward {
    graph *g;
    const graph_call *call;
    const uint32_t *inputs;  /* the operands */
    const uint32_t *outputs; /* the results */
    uint16_t n_outputs;
    const uint32_t *seeds; /* the gradient of each result; GRAPH_NO_VALUE: nothing depends on it */
    const bool *wanted;    /* per operand: whether its gradient is asked for */
    uint32_t *gradients;   /* to be set for operands that are wanted; GRAPH_NO_VALUE: zero */
} graph_backward;

#define GRAPH_NO_VALUE UINT32_MAX
enum { GRAPH_MAX_CUSTOM_INPUTS = 16 }; /* as ops.def has it */
/* A call for each of n indices of a batch, to be made one of nodes appended to `g`. */
typedef struct graph_batching {
    graph *g;
    const graph_call *call; /* for one index */
    int64_t n;
    const uint32_t *inputs; /* the operands */
    const bool *each;       /* per operand: it has the batch as its first axis; else it is the same
                               for all indices */
    uint32_t *outputs;      /* to be set: the results, the batch their first axis */
} graph_batching;

/* Bits of graph_op_def.reads: operand i (30 and those behind it share one), and the results. */
#define GRAPH_READS(input) (UINT32_C(1) << ((input) < 30 ? (input) : 30))
#define GRAPH_READS_RESULTS (UINT32_C(1) << 31)

/* One row of the table. */
typedef struct graph_op_def {
    const char *name;
    const char *summary;  /* one line, for documents and docstrings */
    const char *category; /* "unary", "binary", "compare", "shape", "reduce", … */
    uint32_t min_inputs, max_inputs;
    graph_keys attrs_required;
    graph_keys attrs_optional;
    uint16_t n_regions; /* or GRAPH_ANY_REGIONS: one or more */
    /* Types of the results from the call: fills outputs[0..*n_outputs-1], at most max_outputs.
     * Fails with INVALID, naming operation, shapes and what would be right. Arity, attribute keys
     * and input types have been checked before. */
    shoal_status (*infer)(const graph_call *call, shoal_type *outputs, uint16_t max_outputs,
                          uint16_t *n_outputs);
    /* Fills the axis rule; arrays come from the arena. outputs: the inferred types. */
    shoal_status (*axes)(const graph_call *call, const shoal_type *outputs, uint16_t n_outputs,
                         base_arena *arena, graph_axes *out);
    /* The call for a part of the iteration space: adapts attributes to the box (shapes of iota and
     * broadcast_in_dim, limits of slice). start and size are per loop. attrs has *n_attrs elements,
     * already copied, and room for two more. NULL: the attributes do not depend on the box. Called
     * by graph_localise only. */
    shoal_status (*localise)(const graph_call *call, const graph_axes *axes, const int64_t *start,
                             const int64_t *size, base_arena *arena, shoal_attr *attrs,
                             uint16_t *n_attrs);
    /* Floating-point operations (or elements moved) of one run. NULL: elements of the results. */
    double (*cost)(const graph_call *call, const shoal_type *outputs, uint16_t n_outputs);
    /* Of a composite, NULL for others: appends to `g` nodes that compute the call from the values
     * `inputs` of g, and sets outputs[i] to the value of result i. This is what the composite
     * means; a backend's own kernel agrees with it. */
    shoal_status (*decompose)(const graph_call *call, graph *g, const uint32_t *inputs,
                              uint32_t *outputs);
    /* The gradient, written in nodes; NULL: there is none, and asking for it is an error. */
    shoal_status (*gradient)(const graph_backward *b);
    /* The call for a batch, at least one operand of which differs from index to index; NULL: it
     * cannot be written so. */
    shoal_status (*batch)(const graph_batching *b);
    /* The operands and results that `gradient` may read: GRAPH_READS. */
    uint32_t reads;
} graph_op_def;

/* The row of an operation; NULL for a number that is none. Valid for ever. */
const graph_op_def *graph_op(uint16_t op);
/* Whether an operation is one of StableHLO or CHLO, not Shoal's own. */
bool graph_op_is_standard(uint16_t op);
/* Adds an operation at run time; the row must stay valid. Fails with INVALID when the name is
 * taken or a function is missing, with NO_MEMORY when the table is full (1024). Any thread. */
shoal_status graph_op_register(const graph_op_def *def, uint16_t *out) SHOAL_CHECK_RESULT;

/* Checks arity, attributes and input types, then infers. The one gate for calls from outside. */
shoal_status graph_infer(const graph_call *call, shoal_type *outputs, uint16_t max_outputs,
                         uint16_t *n_outputs) SHOAL_CHECK_RESULT;
/* For how many results graph_infer needs room: few, except of what has bodies. */
uint16_t graph_result_room(const graph_call *call);
/* The greatest common divisor of numbers above 0. */
int64_t graph_common(int64_t a, int64_t b);
/* Whether an operation only picks elements of its operands: it reads as many as it makes. */
bool graph_picks(uint16_t op);
double graph_cost(const graph_call *call, const shoal_type *outputs, uint16_t n_outputs);
shoal_status graph_axes_of(const graph_call *call, const shoal_type *outputs, uint16_t n_outputs,
                           base_arena *arena, graph_axes *out) SHOAL_CHECK_RESULT;
/* The attributes of the call for a part of the iteration space, given by start and size per loop:
 * allocated in the arena, in rising order of key. */
shoal_status graph_localise(const graph_call *call, const graph_axes *axes, const int64_t *start,
                            const int64_t *size, base_arena *arena, const shoal_attr **attrs,
                            uint16_t *n_attrs) SHOAL_CHECK_RESULT;
/* Appends the nodes that compute a part; *first is the value of its first result, behind which the
 * others follow. The arena is for attributes. */
shoal_status graph_add_part(const graph_part *p, base_arena *arena,
                            uint32_t *first) SHOAL_CHECK_RESULT;
/* Whether a value is a constant whose elements are all the identity of `combine` (0 for add, 1 for
 * multiply, the least for maximum, …). */
bool graph_is_identity(const shoal_graph *g, uint32_t value, uint16_t combine);

/* ---- attributes ---- */

/* "broadcast_dimensions"; "?" for a number that is no key. */
const char *graph_attr_name(uint16_t key);
/* The kind that attributes of this key have; the key must exist. */
shoal_attr_kind graph_attr_kind(uint16_t key);

/* Attributes; kinds follow from the key. */
shoal_attr graph_int(shoal_attr_key key, int64_t value);
shoal_attr graph_float(shoal_attr_key key, double value);
shoal_attr graph_bool(shoal_attr_key key, int64_t value);
/* The array is borrowed; graph_add copies it. */
shoal_attr graph_ints(shoal_attr_key key, const int64_t *values, size_t count);
shoal_attr graph_string(shoal_attr_key key, const char *text);
shoal_attr graph_bytes(shoal_attr_key key, const void *data, size_t bytes);

/* ---- the builder ---- */

enum {
    GRAPH_MAX_OUTPUTS = 8192, /* loops carry the parameters of models */
    GRAPH_MAX_JOINED = 64,    /* tensors that one body joins, and results of what has none */
    GRAPH_MAX_NODES = 1 << 20,
    GRAPH_MAX_DEPTH = 8,
    GRAPH_MAX_TEXT = 4096
};

/* limit: most bytes the graph may take, for graphs from outside; 0 for none. */
shoal_status graph_new(size_t limit, graph **out) SHOAL_CHECK_RESULT;
void graph_destroy(graph **g);
/* The graph as data; valid until the next change. */
const shoal_graph *graph_data(const graph *g);
/* Memory that lives as long as the graph. */
base_arena *graph_arena(graph *g);

/* Room for so many nodes and values, so that growing wastes none. */
shoal_status graph_reserve(graph *g, size_t nodes, size_t values) SHOAL_CHECK_RESULT;
shoal_status graph_add_input(graph *g, const shoal_type *type, uint32_t *value) SHOAL_CHECK_RESULT;
/* Appends a node: infers its types, copies its attributes, keeps `regions` (which must live as
 * long: build them with graph_add_region). attrs in any order. *first_output: its first result. */
shoal_status graph_add(graph *g, uint16_t op, const uint32_t *inputs, uint32_t n_inputs,
                       const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *const *regions,
                       uint16_t n_regions, uint32_t *first_output) SHOAL_CHECK_RESULT;
/* Adds a constant. data: its elements, or one that all are, in so many bytes. */
shoal_status graph_add_constant(graph *g, const shoal_type *type, const void *data, size_t bytes,
                                uint32_t *value) SHOAL_CHECK_RESULT;
shoal_status graph_add_output(graph *g, uint32_t value) SHOAL_CHECK_RESULT;
/* Forgets the outputs, so that others can be named. */
void graph_clear_outputs(graph *g);
/* A fresh graph owned by g, to be filled and used as a region of its nodes. */
shoal_status graph_add_region(graph *g, graph **out) SHOAL_CHECK_RESULT;
/* A body of two scalar inputs and one result that applies a binary operation: for reduce. */
shoal_status graph_add_body(graph *g, uint16_t op, shoal_dtype dtype,
                            const shoal_graph **out) SHOAL_CHECK_RESULT;
/* A copy of a body, owned by g. */
shoal_status graph_copy_body(graph *g, const shoal_graph *body,
                             const shoal_graph **out) SHOAL_CHECK_RESULT;
/* If the body applies just one operation to its two inputs, returns that operation; else
 * UINT16_MAX. */
uint16_t graph_body_op(const shoal_graph *body);
/* Location and scope of the nodes that follow; copied. NULL clears. */
shoal_status graph_at(graph *g, const char *location, const char *scope) SHOAL_CHECK_RESULT;

/* graph_call of a node that is in a graph; `types` has room for n_inputs. */
graph_call graph_node_call(const shoal_graph *g, const shoal_node *node, shoal_type *types);
/* Copies the subgraph that the given values depend on into `to`. inputs: values of `from` that
 * become inputs of `to`, in that order; outputs likewise. Nodes that are not needed are left out.
 */
shoal_status graph_extract(const shoal_graph *from, const uint32_t *inputs, uint32_t n_inputs,
                           const uint32_t *outputs, uint32_t n_outputs,
                           graph *to) SHOAL_CHECK_RESULT;
/* The same with those inputs of `from` that the outputs depend on, and no others. used: room for
 * n_inputs; becomes, for each input of `to`, which one of `from` it is. */
shoal_status graph_extract_used(const shoal_graph *from, const uint32_t *outputs,
                                uint32_t n_outputs, graph *to, uint32_t *used) SHOAL_CHECK_RESULT;
/* Marks what the marked values depend on; needed: one per value. */
void graph_mark_needed(const shoal_graph *g, bool *needed);
/* Appends to `to` the nodes of `from` that these of its values depend on. inputs: for each input of
 * `from` the value of `to` in its place; GRAPH_NO_VALUE for those that nothing depends on.
 * results[i] becomes the value of outputs[i]. */
shoal_status graph_append(const shoal_graph *from, const uint32_t *inputs, const uint32_t *outputs,
                          uint32_t n_outputs, graph *to, uint32_t *results) SHOAL_CHECK_RESULT;

/* Whether a node may stay as it is: asked for each composite outside of bodies. */
typedef bool (*graph_supports)(void *context, const shoal_graph *g, const shoal_node *node);
/* Copies a graph into the empty graph `to`, with its inputs and outputs, and replaces each
 * composite that `supports` does not take (NULL: each one), or that stands in a body, by its
 * decomposition, again until none is left. */
shoal_status graph_decompose(const shoal_graph *from, graph_supports supports, void *context,
                             graph *to) SHOAL_CHECK_RESULT;
/* Whether a node may fail by the elements of its operands: a check, or a body that has one. */
bool graph_may_fail(const shoal_node *node);
/* Whether a node may run for as long as it likes: a `while`, or a body that has one. */
bool graph_may_go_on(const shoal_node *node);
/* Whether graph_decompose would change the graph. */
bool graph_has_composites(const shoal_graph *g, graph_supports supports, void *context);

/* Computes a graph of one node: inputs and outputs are dense, in order. */
typedef shoal_status (*graph_evaluate)(void *context, const shoal_graph *g,
                                       const void *const *inputs, void *const *outputs);
/* Copies a graph into the empty graph `to`, simplified: no dead nodes, none twice, small constants
 * computed by `evaluate` (NULL: not), x + 0, x * 1, views of views and the like taken away. Inputs
 * stay, used or not. Results are the same but for the sign of a zero. */
shoal_status graph_rewrite(const shoal_graph *from, graph_evaluate evaluate, void *context,
                           graph *to) SHOAL_CHECK_RESULT;

/* What a device compiles: the graph with primitives in the place of the composites that `supports`
 * does not take, simplified, as what two of these have in common is there twice then. */
shoal_status graph_expand(const shoal_graph *from, graph_supports supports, void *context,
                          graph **out) SHOAL_CHECK_RESULT;

/* ---- values from files ---- */

/* Where the elements of a `source` lie: (i, j, ...) at offset + i * strides[0] + j * strides[1] +
 * ..., in bytes of the file. It lies inside the file. */
typedef struct graph_source {
    const char *file; /* its digest, in hexadecimal */
    const char *name; /* for people */
    uint64_t file_bytes, offset;
    const int64_t *strides;
    bool swapped; /* elements have the other byte order */
    bool dense;   /* row-major without gaps, in this byte order: may be used where it lies */
} graph_source;
void graph_source_of(const shoal_node *node, const shoal_type *type, graph_source *out);
/* Whether the result of a node needs no memory, as it is used where it lies in a file. */
bool graph_is_mapped(const shoal_graph *g, const shoal_node *node);

/* ---- gradients ---- */

/* Whether results of a call depend on its operands in a way that has gradients: not when they are
 * integers or bool, nor for operations that are flat between steps. */
bool graph_is_smooth(uint16_t op);
/* The operands and results whose values the gradient of a call may read: bits as GRAPH_READS. */
uint32_t graph_reads_of(const graph_call *call);

/* Reverse mode. Appends to `g` what computes the gradients of `outputs`, weighted by `seeds`
 * (values of the same types), with respect to the values `wrt`; gradients[i] becomes the value for
 * wrt[i], or GRAPH_NO_VALUE where no output depends on it. `g` may be the body of a node. Results
 * of nodes may be among `wrt`. Fails with UNSUPPORTED, naming operation and place, where a gradient
 * is missing; with INVALID for types that have none.
 *
 * kept: NULL, or per value of `g` whether what follows may read it; others are computed again from
 * those, in nodes of a scope of their own, so that nothing joins them with the first ones. */
shoal_status graph_differentiate(graph *g, const uint32_t *outputs, const uint32_t *seeds,
                                 uint32_t n_outputs, const uint32_t *wrt, uint32_t n_wrt,
                                 const bool *kept, uint32_t *gradients) SHOAL_CHECK_RESULT;

/* ---- batches ---- */

/* Appends what computes a call for all indices of a batch. Fails with UNSUPPORTED where the
 * operation, or this use of it, has no rule, and for operands of SHOAL_MAX_RANK axes. */
shoal_status graph_batch(const graph_batching *b) SHOAL_CHECK_RESULT;
/* The same for a whole graph: its inputs are the values `inputs` of g; all outputs have the batch
 * as their first axis. */
shoal_status graph_batch_graph(const shoal_graph *from, graph *g, int64_t n, const uint32_t *inputs,
                               const bool *each, uint32_t *outputs) SHOAL_CHECK_RESULT;

/* Checks everything a graph from outside could break: order, numbers, types as inferred, regions,
 * sizes. Fails with INVALID and names the node. */
shoal_status graph_verify(const shoal_graph *g) SHOAL_CHECK_RESULT;

/* ---- text ---- */

/* StableHLO's own text (MLIR's generic form); Shoal's operations are in the dialect `shoal`.
 * graph_parse(graph_print(g)) gives an equal graph. */
shoal_status graph_print(const shoal_graph *g, base_str *out) SHOAL_CHECK_RESULT;
/* The same with attributes and bodies as MLIR's own parser takes them, of a graph of the standard's
 * operations alone: of stablehlo/export.c. */
shoal_status graph_print_standard(const shoal_graph *g, base_str *out) SHOAL_CHECK_RESULT;
/* Errors name line and column. limit: as graph_new. */
shoal_status graph_parse(const char *text, size_t bytes, size_t limit,
                         graph **out) SHOAL_CHECK_RESULT;

/* ---- lines: the same program made in two places is one, and yet errors name the place ---- */

#define GRAPH_LINE_BEGIN "<node "
#define GRAPH_LINE_END ">"
/* A copy of g whose nodes say "<node N>", their own number, where they had a location; those of
 * bodies say nothing. `to` is fresh. */
shoal_status graph_number_lines(const shoal_graph *g, graph *to) SHOAL_CHECK_RESULT;
/* The first such number in a text, as a node has it, and its length; NULL: there is none. */
const char *graph_find_line(const char *text, size_t *length);
/* Appends a text in which such numbers say which run of a program they are of: "<node STAMP:N>". */
shoal_status graph_stamp_lines(const char *text, uint64_t stamp, base_str *out) SHOAL_CHECK_RESULT;
/* Appends a text in which these are the locations of nodes again. find: the graph of a run, or
 * NULL. */
shoal_status graph_put_lines(const char *text,
                             const shoal_graph *(*find)(void *context, uint64_t stamp),
                             void *context, base_str *out) SHOAL_CHECK_RESULT;

/* ---- bytes ---- */

/* The canonical encoding (graph.proto): equal graphs give equal bytes; locations are left out when
 * `with_locations` is false, so that it serves as a cache key. */
shoal_status graph_encode(const shoal_graph *g, bool with_locations,
                          base_str *out) SHOAL_CHECK_RESULT;
/* Decodes and verifies bytes from outside; what it allocates stays under `limit`. */
shoal_status graph_decode(const void *data, size_t bytes, size_t limit,
                          graph **out) SHOAL_CHECK_RESULT;

#endif
