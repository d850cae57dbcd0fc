/* What the files of this folder share: the rules that the rows of ops.def name (only op.c puts them
 * into rows), and small questions about calls. */
#ifndef GRAPH_RULES_H
#define GRAPH_RULES_H

#include "graph/graph.h"

/* The prefix of the operation's name in text: "stablehlo" or "shoal". */
const char *graph_dialect(uint16_t op);
/* Keys that text leaves out, because the type of the results says them. */
static inline bool graph_attr_implied(uint16_t key) {
    return key == SHOAL_ATTR_SHAPE || key == SHOAL_ATTR_DTYPE || key == SHOAL_ATTR_TYPES;
}
/* Strings that are any text, and no word of a list. */
static inline bool graph_attr_quoted(uint16_t key) {
    return key == SHOAL_ATTR_FILE || key == SHOAL_ATTR_NAME;
}
/* Keys that text joins into one attribute: their numbers are those from `first` to `last`, and
 * INDEX_VECTOR_DIM where `has_vector`. */
typedef struct graph_key_group {
    const char *attribute, *type; /* dot_dimension_numbers = #stablehlo.dot<…> */
    uint16_t first, last;
    bool has_vector;
} graph_key_group;
/* The group of an operation's attributes; NULL when it has none. */
const graph_key_group *graph_group_of(const graph_op_def *def);
bool graph_group_has(const graph_key_group *group, uint16_t key);
/* What an operation is called in messages. */
const char *graph_call_name(const graph_call *call);
/* The numbers of an INTS attribute that is known to be there. */
const int64_t *graph_call_ints(const graph_call *call, shoal_attr_key key, uint32_t *count);
/* Whether the list holds the number. */
bool graph_has(const int64_t *list, uint32_t count, int64_t number);

enum { GRAPH_MAX_COMPOSITE_INPUTS = 8 };

/* Texts of types, for messages: GRAPH_TEXT(&type) lives until the end of the block. */
#define GRAPH_TEXT(type) base_type_text(type, (char[BASE_TYPE_TEXT]){0})

/* Whether a body takes and returns scalars: two arguments of each of these element types, all of
 * the left and then all of the right side when `pairs`, else side by side, and one result of each,
 * or
 * (`predicate`) one of bool. */
bool graph_body_fits(const shoal_graph *body, const shoal_type *types, uint32_t n, bool pairs,
                     bool predicate);

/* The only result. */
shoal_status graph_one(shoal_type *outputs, uint16_t max, uint16_t *n, const shoal_type *type);
#define GRAPH_ONE(type) graph_one(outputs, max_outputs, n_outputs, type)

static inline char graph_kind(const shoal_type *type) {
    return shoal_dtype_kind((shoal_dtype)type->dtype);
}
/* A dimension number inside the rank. */
shoal_status graph_check_axis(const graph_call *call, shoal_attr_key key, int64_t axis,
                              const shoal_type *type);
/* A list of axes of a type, each at most once. */
shoal_status graph_check_axes(const graph_call *call, shoal_attr_key key, const shoal_type *type,
                              const int64_t **list, uint32_t *count);
/* The operands from number `first` on have one type. */
shoal_status graph_same_inputs(const graph_call *call, uint32_t first);
shoal_status graph_get_dtype(const graph_call *call, shoal_type *type);
shoal_status graph_get_shape(const graph_call *call, shoal_type *type, int64_t *elements);

#define INFER(name)                                                                                \
    shoal_status graph_infer_##name(const graph_call *call, shoal_type *outputs,                   \
                                    uint16_t max_outputs, uint16_t *n_outputs)
INFER(same);        /* any element type */
INFER(same_signed); /* signed and floating */
INFER(same_float);  /* floating */
INFER(same_number); /* all but bool */
INFER(compare);
INFER(select);
INFER(convert);
INFER(constant);
INFER(iota);
INFER(broadcast_in_dim);
INFER(reshape);
INFER(transpose);
INFER(slice);
INFER(concatenate);
INFER(reduce);
INFER(dot_general);
INFER(same_bits);    /* bool and integers */
INFER(same_integer); /* integers */
INFER(is_finite);
INFER(clamp);
INFER(bitcast_convert);
INFER(reduce_precision);
INFER(pad);
INFER(reverse);
INFER(in_range);
INFER(dynamic_slice);
INFER(dynamic_update_slice);
INFER(gather);
INFER(scatter);
INFER(sort);
INFER(top_k);
INFER(argmax);
INFER(cumulate);
INFER(random);
INFER(while);
INFER(if);
INFER(case);
INFER(convolution);
INFER(reduce_window);
INFER(select_and_scatter);
INFER(gelu);
INFER(softmax);
INFER(norm);
INFER(cross_entropy);
INFER(attention);
INFER(rope);
INFER(row_gradient);
INFER(scale_gradient);
INFER(cross_entropy_gradient);
INFER(attention_gradient);
INFER(adam);
INFER(dequantize);
INFER(place);
INFER(exchange);
INFER(source);
INFER(custom);

#define AXES(name)                                                                                 \
    shoal_status graph_axes_##name(const graph_call *call, const shoal_type *outputs,              \
                                   uint16_t n_outputs, base_arena *arena, graph_axes *out)
AXES(elementwise);
AXES(select);
AXES(create);
AXES(broadcast_in_dim);
AXES(reshape);
AXES(transpose);
AXES(slice);
AXES(concatenate);
AXES(reduce);
AXES(dot_general);
AXES(bitcast_convert);
AXES(pad);
AXES(reverse);
AXES(dynamic_slice);
AXES(dynamic_update_slice);
AXES(gather);
AXES(scatter);
AXES(sort);
AXES(top_k);
AXES(argmax);
AXES(random);
AXES(control);
AXES(convolution);
AXES(reduce_window);
AXES(select_and_scatter);
AXES(along);
AXES(cross_entropy);
AXES(attention);
AXES(rope);
AXES(row_gradient);
AXES(scale_gradient);
AXES(cross_entropy_gradient);
AXES(attention_gradient);
AXES(adam);
AXES(dequantize);
AXES(custom);

/* One loop per axis of the result, which may be cut anywhere: what most operations have. */
void graph_loops_of_result(const shoal_type *result, graph_axes *out);
/* All axes are needed whole. */
void graph_whole(const shoal_type *type, int8_t *map);

#define LOCALISE(name)                                                                             \
    shoal_status graph_localise_##name(const graph_call *call, const graph_axes *axes,             \
                                       const int64_t *start, const int64_t *size,                  \
                                       base_arena *arena, shoal_attr *attrs, uint16_t *n_attrs)
LOCALISE(constant);
LOCALISE(iota);
LOCALISE(shape); /* SHAPE becomes the part's */
LOCALISE(slice);
LOCALISE(attention);
LOCALISE(pad);
LOCALISE(dynamic_slice);
LOCALISE(gather);
LOCALISE(random);
LOCALISE(source);

#define PART(name)                                                                                 \
    shoal_status graph_part_##name(const graph_part *p, shoal_attr *attrs, uint16_t n_attrs,       \
                                   uint32_t *first)
PART(slice);
PART(dynamic_slice);
PART(dynamic_update_slice);
PART(gather);
PART(scatter);
/* The operation itself, with other operands and attributes. */
shoal_status graph_part_call(const graph_part *p, const uint32_t *inputs, const shoal_attr *attrs,
                             uint16_t n_attrs, uint32_t *first);

shoal_attr *graph_find_attr(shoal_attr *attrs, uint16_t n, shoal_attr_key key);
/* Adds an attribute of a new key; there is room for it. */
void graph_insert_attr(shoal_attr *attrs, uint16_t *n, shoal_attr attr);

#define COST(name)                                                                                 \
    double graph_cost_##name(const graph_call *call, const shoal_type *outputs, uint16_t n_outputs)
COST(reduce);
COST(dot_general);
COST(convolution);
COST(reduce_window);
COST(scatter);
COST(sort);
COST(composite);
COST(attention);
COST(attention_gradient);
COST(dequantize);

#define DECOMPOSE(name)                                                                            \
    shoal_status graph_decompose_##name(const graph_call *call, graph *g, const uint32_t *inputs,  \
                                        uint32_t *outputs)
DECOMPOSE(silu);
DECOMPOSE(gelu);
DECOMPOSE(softmax);
DECOMPOSE(log_softmax);
DECOMPOSE(rms_norm);
DECOMPOSE(layer_norm);
DECOMPOSE(cross_entropy);
DECOMPOSE(attention);
DECOMPOSE(rope);
DECOMPOSE(softmax_gradient);
DECOMPOSE(rms_norm_gradient);
DECOMPOSE(layer_norm_gradient);
DECOMPOSE(rms_norm_scale_gradient);
DECOMPOSE(layer_norm_scale_gradient);
DECOMPOSE(cross_entropy_gradient);
DECOMPOSE(silu_gradient);
DECOMPOSE(gelu_gradient);
DECOMPOSE(attention_gradient);
DECOMPOSE(adam);
DECOMPOSE(dequantize);

/* graph_differentiate of the nodes from `first_node` on. */
shoal_status graph_differentiate_from(graph *g, uint32_t first_node, const uint32_t *outputs,
                                      const uint32_t *seeds, uint32_t n_outputs,
                                      const uint32_t *wrt, uint32_t n_wrt, const bool *kept,
                                      uint32_t *gradients);

struct maker;
/* x with `axes`, of its n, at its end, as one axis; `back`: such a tensor in this shape again. */
uint32_t graph_gather_axes(struct maker *m, uint32_t x, const int64_t *axes, uint32_t n, bool back,
                           const shoal_type *shape);
/* The gradient of a reduce by what its body says. */
shoal_status graph_gradient_of_reduction(const graph_backward *b, const int64_t *axes,
                                         uint32_t n) SHOAL_CHECK_RESULT;
/* The gradient of what has been written, from node `first` on, of the operands: `outputs`, which
 * stand for the results. An operand that is given twice gets that of both places at once, in the
 * first. */
shoal_status graph_gradient_written(const graph_backward *b, uint32_t first,
                                    const uint32_t *outputs) SHOAL_CHECK_RESULT;
/* x with updates added at indices along an axis, all of the shape of the updates but x along the
 * axis. */
uint32_t graph_add_along(struct maker *m, uint32_t x, uint32_t indices, uint32_t updates,
                         int64_t axis);

#define BATCH(name) shoal_status graph_batch_##name(const graph_batching *b)
BATCH(all); /* the operands that have the batch as their first axis: all, the first one, … */
BATCH(one); /* others are the same for all indices; else a composite is taken apart */
BATCH(two);
BATCH(three);
BATCH(five);
BATCH(half);
BATCH(choice); /* select, clamp: the first or the last may be a number for the whole tensor */
BATCH(plain);  /* one operand, and attributes that are no axes */
BATCH(apart);  /* a composite, always taken apart */
BATCH(dot_general);
BATCH(convolution);
BATCH(gather);
BATCH(scatter);
BATCH(dynamic_slice);
BATCH(dynamic_update_slice);

#define GRADIENT(name) shoal_status graph_gradient_##name(const graph_backward *b)
GRADIENT(zero);
GRADIENT(composite);
GRADIENT(negate);
GRADIENT(abs);
GRADIENT(exponential);
GRADIENT(log);
GRADIENT(sqrt);
GRADIENT(tanh);
GRADIENT(logistic);
GRADIENT(add);
GRADIENT(subtract);
GRADIENT(multiply);
GRADIENT(divide);
GRADIENT(maximum);
GRADIENT(minimum);
GRADIENT(power);
GRADIENT(select);
GRADIENT(convert);
GRADIENT(broadcast_in_dim);
GRADIENT(reshape);
GRADIENT(transpose);
GRADIENT(slice);
GRADIENT(concatenate);
GRADIENT(reduce);
GRADIENT(dot_general);
GRADIENT(place);
GRADIENT(erf);
GRADIENT(rsqrt);
GRADIENT(cosine);
GRADIENT(sine);
GRADIENT(silu);
GRADIENT(gelu);
GRADIENT(softmax);
GRADIENT(attention);
GRADIENT(log_softmax);
GRADIENT(cross_entropy);
GRADIENT(rms_norm);
GRADIENT(layer_norm);
GRADIENT(cbrt);
GRADIENT(tan);
GRADIENT(exponential_minus_one);
GRADIENT(log_plus_one);
GRADIENT(atan2);
GRADIENT(remainder);
GRADIENT(clamp);
GRADIENT(reduce_precision);
GRADIENT(pad);
GRADIENT(reverse);
GRADIENT(dynamic_slice);
GRADIENT(dynamic_update_slice);
GRADIENT(gather);
GRADIENT(scatter);
GRADIENT(sort);
GRADIENT(top_k);
GRADIENT(cumulate);
GRADIENT(while);
GRADIENT(if);
GRADIENT(convolution);
GRADIENT(reduce_window);
GRADIENT(select_and_scatter);
GRADIENT(custom);

#endif
