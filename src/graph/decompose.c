/* What composites mean: each as primitives, and the pass that puts these in their place.
 *
 * float16 and bfloat16 are computed in float32 and rounded once, at the end. */
#include "graph/maker.h"
#include "graph/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static shoal_status finish(maker *m, uint32_t x, const graph_call *call, uint32_t *outputs) {
    outputs[0] = convert(m, x, call->inputs[0].dtype);
    return m->status;
}

static int64_t axis_of(const graph_call *call) {
    return graph_call_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
}

/* ---- element by element ---- */

DECOMPOSE(silu) {
    maker m = {g, SHOAL_OK};
    uint32_t x = widen(&m, inputs[0]);
    return finish(&m, two(&m, GRAPH_MULTIPLY, x, one(&m, GRAPH_LOGISTIC, x)), call, outputs);
}

/* x/2 (1 + erf(x / sqrt 2)), or x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))):
 * https://arxiv.org/abs/1606.08415 */
DECOMPOSE(gelu) {
    maker m = {g, SHOAL_OK};
    const shoal_attr *kind = graph_call_attr(call, SHOAL_ATTR_APPROXIMATE);
    uint32_t x = widen(&m, inputs[0]), y;
    if (kind && !strcmp(kind->u.string, "tanh")) {
        uint32_t cube = two(&m, GRAPH_MULTIPLY, two(&m, GRAPH_MULTIPLY, x, x), x);
        uint32_t sum = two(&m, GRAPH_ADD, x, times(&m, cube, 0.044715));
        y = one(&m, GRAPH_TANH, times(&m, sum, 0.79788456080286535588));
    } else {
        y = one(&m, GRAPH_ERF, times(&m, x, 0.70710678118654752440));
    }
    return finish(&m, two(&m, GRAPH_MULTIPLY, times(&m, x, 0.5), plus(&m, y, 1)), call, outputs);
}

/* ---- along one axis ---- */

static uint32_t softmax(maker *m, uint32_t x, int64_t axis) {
    uint32_t most = join_like(m, GRAPH_MAXIMUM, x, axis);
    uint32_t power = one(m, GRAPH_EXPONENTIAL, two(m, GRAPH_SUBTRACT, x, most));
    return two(m, GRAPH_DIVIDE, power, join_like(m, GRAPH_ADD, power, axis));
}

DECOMPOSE(softmax) {
    maker m = {g, SHOAL_OK};
    return finish(&m, softmax(&m, widen(&m, inputs[0]), axis_of(call)), call, outputs);
}

static uint32_t log_softmax(maker *m, uint32_t x, int64_t axis) {
    uint32_t moved = two(m, GRAPH_SUBTRACT, x, join_like(m, GRAPH_MAXIMUM, x, axis));
    uint32_t sum = join_like(m, GRAPH_ADD, one(m, GRAPH_EXPONENTIAL, moved), axis);
    return two(m, GRAPH_SUBTRACT, moved, one(m, GRAPH_LOG, sum));
}

DECOMPOSE(log_softmax) {
    maker m = {g, SHOAL_OK};
    return finish(&m, log_softmax(&m, widen(&m, inputs[0]), axis_of(call)), call, outputs);
}

/* x / sqrt(mean of squares + epsilon), then scale and bias. */
static uint32_t normal(maker *m, uint32_t x, const graph_call *call, const uint32_t *inputs) {
    static const uint16_t steps[] = {0, GRAPH_MULTIPLY, GRAPH_ADD};
    int64_t axis = axis_of(call);
    uint32_t squares = mean(m, two(m, GRAPH_MULTIPLY, x, x), axis);
    double epsilon = graph_call_attr(call, SHOAL_ATTR_EPSILON)->u.f;
    uint32_t y = two(m, GRAPH_MULTIPLY, x, one(m, GRAPH_RSQRT, plus(m, squares, epsilon)));
    for (uint32_t i = 1; i < call->n_inputs; i++) {
        uint32_t row = widen(m, inputs[i]);
        shoal_type shape = *type_of(m, x);
        y = two(m, steps[i], y, spread(m, row, &shape, &axis));
    }
    return y;
}

/* https://arxiv.org/abs/1910.07467 */
DECOMPOSE(rms_norm) {
    maker m = {g, SHOAL_OK};
    return finish(&m, normal(&m, widen(&m, inputs[0]), call, inputs), call, outputs);
}

/* https://arxiv.org/abs/1607.06450; the variance is over the extent of the axis. */
DECOMPOSE(layer_norm) {
    maker m = {g, SHOAL_OK};
    uint32_t x = widen(&m, inputs[0]);
    x = two(&m, GRAPH_SUBTRACT, x, mean(&m, x, axis_of(call)));
    return finish(&m, normal(&m, x, call, inputs), call, outputs);
}

/* A label that is no class gives NaN, IGNORE_INDEX gives 0. */
DECOMPOSE(cross_entropy) {
    maker m = {g, SHOAL_OK};
    int64_t axis = axis_of(call);
    uint32_t wide_ = widen(&m, inputs[0]);
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    uint32_t logs = node(&m, GRAPH_LOG_SOFTMAX, &wide_, 1, &attr, 1, NULL);
    uint32_t labels = convert(&m, inputs[1], SHOAL_I64);
    if (m.status) return m.status;
    shoal_type shape = *type_of(&m, logs);
    uint32_t hit =
        compare(&m, "EQ", numbers(&m, &shape, axis), spread_without(&m, labels, &shape, axis));
    uint32_t loss =
        join(&m, GRAPH_ADD, choose(&m, hit, one(&m, GRAPH_NEGATE, logs), like(&m, logs, 0)), axis);
    if (m.status) return m.status;
    uint32_t low = compare(&m, "LT", labels, like(&m, labels, 0));
    uint32_t high = compare(&m, "GE", labels, like(&m, labels, (double)shape.dims[axis]));
    loss = choose(&m, low, like(&m, loss, NAN), loss);
    loss = choose(&m, high, like(&m, loss, NAN), loss);
    const shoal_attr *ignored = graph_call_attr(call, SHOAL_ATTR_IGNORE_INDEX);
    if (ignored) {
        uint32_t is = compare(&m, "EQ", labels, like(&m, labels, (double)ignored->u.i));
        loss = choose(&m, is, like(&m, loss, 0), loss);
    }
    return finish(&m, loss, call, outputs);
}

/* ---- rope ---- */

/* Every step-th index of the last axis, from `from` to `to`. */
static uint32_t part(maker *m, uint32_t x, int64_t from, int64_t to, int64_t step) {
    return slice_along(m, x, type_of(m, x)->rank - 1, from, to, step);
}

/* x and y one after the other along the last axis, or by turns. */
static uint32_t combine(maker *m, uint32_t x, uint32_t y, const shoal_type *shape, bool by_turns) {
    shoal_type half = *type_of(m, x);
    if (by_turns) {
        half.dims[1] = half.dims[half.rank - 1];
        half.dims[0] = 1;
        for (uint32_t i = 0; i + 1 < shape->rank; i++) half.dims[0] *= shape->dims[i];
        half.dims[2] = 1;
        half.rank = 3;
        x = reshape(m, x, &half);
        y = reshape(m, y, &half);
    }
    shoal_attr axis = graph_int(SHOAL_ATTR_DIMENSION, half.rank - 1);
    uint32_t both = node(m, GRAPH_CONCATENATE, (uint32_t[]){x, y}, 2, &axis, 1, NULL);
    return by_turns ? reshape(m, both, shape) : both;
}

static uint32_t frequencies(maker *m, const graph_call *call, const uint32_t *inputs,
                            uint8_t dtype) {
    if (call->n_inputs == 3) return convert(m, inputs[2], dtype);
    const shoal_attr *given = graph_call_attr(call, SHOAL_ATTR_THETA);
    int64_t depth = call->inputs[0].dims[call->inputs[0].rank - 1], pairs = depth / 2;
    double theta = given ? given->u.f : 10000;
    double *values = base_arena_array(graph_arena(m->g), double, pairs);
    if (!values) {
        m->status = SHOAL_NO_MEMORY;
        return 0;
    }
    for (int64_t i = 0; i < pairs; i++) values[i] = pow(theta, -2 * (double)i / (double)depth);
    const shoal_attr attrs[] = {
        graph_bytes(SHOAL_ATTR_VALUE, values, (size_t)pairs * sizeof *values),
        graph_ints(SHOAL_ATTR_SHAPE, &pairs, 1), graph_int(SHOAL_ATTR_DTYPE, SHOAL_F64)};
    return convert(m, node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL), dtype);
}

/* https://arxiv.org/abs/2104.09864 */
DECOMPOSE(rope) {
    maker m = {g, SHOAL_OK};
    const shoal_attr *flag = graph_call_attr(call, SHOAL_ATTR_INTERLEAVED);
    bool turns = flag && flag->u.i;
    int64_t axis = axis_of(call);
    shoal_type shape = call->inputs[0], half = shape;
    int64_t last = shape.rank - 1, pairs = shape.dims[last] / 2;
    shape.dtype = half.dtype = wide(shape.dtype);
    half.dims[last] = pairs;
    uint32_t x = widen(&m, inputs[0]);
    uint32_t a = turns ? part(&m, x, 0, 2 * pairs, 2) : part(&m, x, 0, pairs, 1);
    uint32_t b =
        turns ? part(&m, x, pairs ? 1 : 0, 2 * pairs, 2) : part(&m, x, pairs, 2 * pairs, 1);
    uint32_t rates = frequencies(&m, call, inputs, half.dtype);
    uint32_t places = convert(&m, inputs[1], half.dtype);
    if (m.status) return m.status;
    uint32_t angle =
        two(&m, GRAPH_MULTIPLY, spread(&m, places, &half, &axis), spread(&m, rates, &half, &last));
    uint32_t cosine = one(&m, GRAPH_COSINE, angle), sine = one(&m, GRAPH_SINE, angle);
    uint32_t left = two(&m, GRAPH_SUBTRACT, two(&m, GRAPH_MULTIPLY, a, cosine),
                        two(&m, GRAPH_MULTIPLY, b, sine));
    uint32_t right =
        two(&m, GRAPH_ADD, two(&m, GRAPH_MULTIPLY, a, sine), two(&m, GRAPH_MULTIPLY, b, cosine));
    if (m.status) return m.status;
    return finish(&m, combine(&m, left, right, &shape, turns), call, outputs);
}

/* ---- the pass ---- */

typedef struct pass {
    graph_supports supports;
    void *context;
    graph *to;
    uint32_t depth; /* of bodies, and of decompositions inside decompositions */
} pass;

static bool stays(const shoal_graph *g, const shoal_node *at, graph_supports supports,
                  void *context, bool in_body) {
    const graph_op_def *def = graph_op(at->op);
    return !def->decompose || (!in_body && supports && supports(context, g, at));
}

static bool has_composites(const shoal_graph *g, graph_supports supports, void *context,
                           bool in_body) {
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *at = &g->nodes[n];
        if (!stays(g, at, supports, context, in_body)) return true;
        for (uint16_t r = 0; r < at->n_regions; r++)
            if (has_composites(at->regions[r], supports, context, true)) return true;
    }
    return false;
}

bool graph_has_composites(const shoal_graph *g, graph_supports supports, void *context) {
    return has_composites(g, supports, context, false);
}

static shoal_status copy_nodes(pass *p, const shoal_graph *from, uint32_t *map, bool in_body);

static uint32_t *new_map(const shoal_graph *g) {
    uint32_t *map = malloc((g->n_values + (size_t)1) * sizeof *map);
    if (!map) base_fail(SHOAL_NO_MEMORY, "no memory for %u values", g->n_values);
    return map;
}

static shoal_status copy_body(pass *p, const shoal_graph *from, const shoal_graph **out) {
    pass inner = *p;
    uint32_t *map = new_map(from);
    shoal_status status = map ? graph_add_region(p->to, &inner.to) : SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < from->n_inputs && !status; i++)
        status =
            graph_add_input(inner.to, &from->values[from->inputs[i]].type, &map[from->inputs[i]]);
    if (!status) status = copy_nodes(&inner, from, map, true);
    for (uint32_t i = 0; i < from->n_outputs && !status; i++)
        status = graph_add_output(inner.to, map[from->outputs[i]]);
    if (!status) *out = graph_data(inner.to);
    free(map);
    return status;
}

/* The composite's nodes, made in a graph of their own, then copied as those of any graph. */
static shoal_status expand(pass *p, const shoal_graph *from, const shoal_node *at, uint32_t *map,
                           bool in_body) {
    graph *own;
    uint32_t inputs[GRAPH_MAX_COMPOSITE_INPUTS], outputs[GRAPH_MAX_OUTPUTS];
    shoal_type types[GRAPH_MAX_COMPOSITE_INPUTS];
    if (at->n_inputs > GRAPH_MAX_COMPOSITE_INPUTS)
        return base_fail(SHOAL_INVALID, "%s: a composite has at most %d operands",
                         shoal_op_name(at->op), GRAPH_MAX_COMPOSITE_INPUTS);
    SHOAL_TRY(graph_new(0, &own));
    shoal_status status = graph_at(own, at->location, at->scope);
    graph_call call = graph_node_call(from, at, types);
    for (uint32_t i = 0; i < at->n_inputs && !status; i++)
        status = graph_add_input(own, &types[i], &inputs[i]);
    if (!status) status = graph_op(at->op)->decompose(&call, own, inputs, outputs);
    uint32_t *inner = status ? NULL : new_map(graph_data(own));
    if (!status && !inner) status = SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < at->n_inputs && !status; i++) inner[inputs[i]] = map[at->inputs[i]];
    if (!status) status = copy_nodes(p, graph_data(own), inner, in_body);
    for (uint16_t i = 0; i < at->n_outputs && !status; i++)
        map[at->first_output + i] = inner[outputs[i]];
    free(inner);
    graph_destroy(&own);
    return status;
}

static shoal_status copy_node(pass *p, const shoal_graph *from, const shoal_node *at,
                              uint32_t *map) {
    uint32_t first, *inputs = base_arena_array(graph_arena(p->to), uint32_t, at->n_inputs);
    const shoal_graph **regions =
        base_arena_alloc_array(graph_arena(p->to), sizeof *regions, at->n_regions);
    if (!inputs || !regions) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < at->n_inputs; i++) inputs[i] = map[at->inputs[i]];
    for (uint16_t i = 0; i < at->n_regions; i++)
        SHOAL_TRY(copy_body(p, at->regions[i], &regions[i]));
    SHOAL_TRY(graph_at(p->to, at->location, at->scope));
    SHOAL_TRY(graph_add(p->to, at->op, inputs, at->n_inputs, at->attrs, at->n_attrs, regions,
                        at->n_regions, &first));
    for (uint16_t i = 0; i < at->n_outputs; i++) map[at->first_output + i] = first + i;
    return SHOAL_OK;
}

static shoal_status copy_nodes(pass *p, const shoal_graph *from, uint32_t *map, bool in_body) {
    if (++p->depth > 2 * GRAPH_MAX_DEPTH)
        return base_fail(SHOAL_INVALID, "composites and bodies are nested deeper than %d",
                         2 * GRAPH_MAX_DEPTH);
    for (uint32_t n = 0; n < from->n_nodes; n++) {
        const shoal_node *at = &from->nodes[n];
        SHOAL_TRY(stays(from, at, p->supports, p->context, in_body)
                      ? copy_node(p, from, at, map)
                      : expand(p, from, at, map, in_body));
    }
    p->depth--;
    return SHOAL_OK;
}

shoal_status graph_decompose(const shoal_graph *from, graph_supports supports, void *context,
                             graph *to) {
    pass p = {supports, context, to, 0};
    uint32_t *map = new_map(from);
    shoal_status status = map ? SHOAL_OK : SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < from->n_inputs && !status; i++)
        status = graph_add_input(to, &from->values[from->inputs[i]].type, &map[from->inputs[i]]);
    if (!status) status = copy_nodes(&p, from, map, false);
    for (uint32_t i = 0; i < from->n_outputs && !status; i++)
        status = graph_add_output(to, map[from->outputs[i]]);
    free(map);
    return status;
}

shoal_status graph_expand(const shoal_graph *from, graph_supports supports, void *context,
                          graph **out) {
    graph *plain, *simple = NULL;
    SHOAL_TRY(graph_new(0, &plain));
    shoal_status status = graph_decompose(from, supports, context, plain);
    if (status == SHOAL_OK) status = graph_new(0, &simple);
    if (status == SHOAL_OK) status = graph_rewrite(graph_data(plain), NULL, NULL, simple);
    graph_destroy(&plain);
    if (status != SHOAL_OK) graph_destroy(&simple);
    *out = simple;
    return status;
}
