/* What attention means, and its gradient, in primitives. float16 and bfloat16 are computed in
 * float32 and rounded once, at the end. */
#include "graph/maker.h"
#include "graph/rules.h"

/* A call's operands q, k, v, [mask], [length], in float32 or float64 where they are numbers. */
typedef struct attention {
    uint32_t q, k, v, scores;
    uint32_t batch, last; /* leading axes of k; the last axis of the scores */
    uint32_t seen[2];     /* flags whose axes are the last of the scores: by the mask, by place */
    uint32_t n_seen;
    double scale;
} attention;

/* Which keys each query sees by the length and by CAUSAL, for all leading axes at once. */
static uint32_t seen_by_place(maker *m, const shoal_type *scores, const uint32_t *length,
                              const shoal_attr *causal) {
    shoal_type index = {.dtype = SHOAL_I64, .rank = 2};
    memcpy(index.dims, scores->dims + scores->rank - 2, 2 * sizeof *index.dims);
    uint32_t keys = numbers(m, &index, 1);
    uint32_t end = length ? spread_last(m, with_sign(m, *length), &index)
                          : splat(m, index, (double)index.dims[1]);
    uint32_t seen = compare(m, "LT", keys, end);
    if (!causal) return seen;
    double shift = (double)(causal->u.i - index.dims[0]);
    uint32_t last = two(m, GRAPH_ADD, numbers(m, &index, 0), plus(m, end, shift));
    uint32_t early = compare(m, "LE", keys, last);
    return length ? two(m, GRAPH_AND, seen, early) : early;
}

/* The scores, those of hidden keys too. */
static attention begin(maker *m, const graph_call *call, const uint32_t *inputs) {
    const shoal_attr *given = graph_call_attr(call, SHOAL_ATTR_SCALE);
    const shoal_attr *causal = graph_call_attr(call, SHOAL_ATTR_CAUSAL);
    attention a = {.batch = call->inputs[1].rank - 2u, .last = call->inputs[0].rank - 1u};
    a.scale = given ? given->u.f : 1 / sqrt((double)call->inputs[0].dims[a.last]);
    a.q = widen(m, inputs[0]);
    a.k = widen(m, inputs[1]);
    a.v = widen(m, inputs[2]);
    a.scores = times(m, product(m, a.q, a.k, a.batch, a.last, a.batch + 1), a.scale);
    if (m->status) return a;
    shoal_type shape = *type_of(m, a.scores);
    uint32_t next = 3;
    if (next < call->n_inputs && call->inputs[next].rank) {
        uint32_t mask = widen(m, inputs[next]);
        if (call->inputs[next].dtype == SHOAL_BOOL)
            a.seen[a.n_seen++] = inputs[next];
        else
            a.scores = two(m, GRAPH_ADD, a.scores, spread_last(m, mask, &shape));
        next++;
    }
    const uint32_t *length = next < call->n_inputs ? &inputs[next] : NULL;
    if (length || causal) a.seen[a.n_seen++] = seen_by_place(m, &shape, length, causal);
    return a;
}

/* x, of the shape of the scores, with `value` where a key is hidden. */
static uint32_t hide(maker *m, const attention *a, uint32_t x, double value) {
    for (uint32_t i = 0; i < a->n_seen && !m->status; i++) {
        shoal_type shape = *type_of(m, x);
        x = choose(m, spread_last(m, a->seen[i], &shape), x, like(m, x, value));
    }
    return x;
}

static uint32_t weights_of(maker *m, const attention *a) {
    uint32_t scores = hide(m, a, a->scores, -INFINITY);
    shoal_attr axis = graph_int(SHOAL_ATTR_DIMENSION, a->last);
    return node(m, GRAPH_SOFTMAX, &scores, 1, &axis, 1, NULL);
}

/* https://arxiv.org/abs/1706.03762 */
DECOMPOSE(attention) {
    maker m = {g, SHOAL_OK};
    attention a = begin(&m, call, inputs);
    uint32_t y = product(&m, weights_of(&m, &a), a.v, a.batch, a.last, a.batch);
    outputs[0] = convert(&m, y, call->inputs[0].dtype);
    return m.status;
}

/* Sums of products over the queries, of all the group's heads, of x and y. */
static uint32_t over_queries(maker *m, const attention *a, uint32_t x, uint32_t y) {
    int64_t axes[] = {a->batch, a->batch + 1};
    return product_over(m, x, y, a->batch, axes, axes, a->last - a->batch);
}

/* With w the weights, o the result and g its gradient, that of the scores is w (g v^T - sum of g
 * o), for the sum of w (g v^T) is that of g o. Hidden keys have none, be there others or not. */
DECOMPOSE(attention_gradient) {
    maker m = {g, SHOAL_OK};
    graph_call of = *call;
    of.inputs += 2;
    of.n_inputs -= 2;
    uint32_t y = widen(&m, inputs[0]), o = widen(&m, inputs[1]);
    attention a = begin(&m, &of, inputs + 2);
    uint32_t weights = hide(&m, &a, weights_of(&m, &a), 0);
    uint32_t moved = product(&m, y, a.v, a.batch, a.last, a.batch + 1);
    if (m.status) return m.status;
    shoal_type shape = *type_of(&m, moved);
    uint32_t sums = join(&m, GRAPH_ADD, two(&m, GRAPH_MULTIPLY, y, o), a.last);
    moved = two(&m, GRAPH_SUBTRACT, moved, spread_without(&m, sums, &shape, a.last));
    moved = hide(&m, &a, times(&m, two(&m, GRAPH_MULTIPLY, weights, moved), a.scale), 0);
    outputs[0] = product(&m, moved, a.k, a.batch, a.last, a.batch);
    outputs[1] = over_queries(&m, &a, moved, a.q);
    outputs[2] = over_queries(&m, &a, weights, y);
    for (int i = 0; i < 3; i++) outputs[i] = convert(&m, outputs[i], of.inputs[0].dtype);
    return m.status;
}
