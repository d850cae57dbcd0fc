/* adam(p, g, m, v, numbers[, largest]): parameters, their gradient, and the means of it and of its
 * square after a step of Adam (Kingma and Ba, 2015):
 *
 *     m' = beta1 m + (1 - beta1) g        v' = beta2 v + (1 - beta2) g^2
 *     p' = keep p - rate m' / (sqrt(v') root + epsilon)
 *
 * The results are p', m' and v'; with `largest`, the largest v until now, the new largest takes the
 * place of v' in p' and is the fourth result (Reddi et al., 2018). `numbers` are keep (1 less what
 * decays), beta1, 1 - beta1, beta2, 1 - beta2, root (1 / sqrt(1 - beta2^t) after t steps), epsilon
 * and rate (over 1 - beta1^t): they change from step to step, and are no attributes therefore. */
#include "graph/maker.h"
#include "graph/rules.h"

enum { P, G, M, V, NUMBERS, LARGEST };
enum { KEEP, BETA1, REST1, BETA2, REST2, ROOT, EPSILON, RATE, N_NUMBERS };

INFER(adam) {
    const shoal_type *in = call->inputs;
    shoal_type list = {.dtype = wide(in[P].dtype), .rank = 1, .dims = {N_NUMBERS}};
    uint16_t n = (uint16_t)(call->n_inputs - 2);
    if (graph_kind(&in[P]) != 'f')
        return base_fail(SHOAL_INVALID, "adam: works on floating-point numbers, not on %s",
                         GRAPH_TEXT(&in[P]));
    for (uint32_t i = 0; i < call->n_inputs; i++)
        if (!base_type_equal(&in[i], i == NUMBERS ? &list : &in[P]))
            return base_fail(SHOAL_INVALID, "adam: operand %u must be %s, not %s", i,
                             GRAPH_TEXT(i == NUMBERS ? &list : &in[P]), GRAPH_TEXT(&in[i]));
    if (max_outputs < n)
        return base_fail(SHOAL_INVALID, "adam: no room for %u results", (unsigned)n);
    for (uint16_t i = 0; i < n; i++) outputs[i] = in[P];
    *n_outputs = n;
    return SHOAL_OK;
}

/* Element by element; the numbers are needed whole. */
AXES(adam) {
    graph_loops_of_result(&outputs[0], out);
    for (uint32_t k = 0; k < call->n_inputs; k++)
        for (uint32_t i = 0; i < outputs[0].rank && k != NUMBERS; i++)
            out->inputs[k][i] = (int8_t)i;
    graph_whole(&call->inputs[NUMBERS], out->inputs[NUMBERS]);
    for (uint16_t k = 1; k < n_outputs; k++)
        for (uint32_t i = 0; i < outputs[0].rank; i++) out->outputs[k][i] = (int8_t)i;
    return SHOAL_OK;
}

/* One of the numbers, for each element. */
static uint32_t number(maker *m, uint32_t numbers, int64_t which, const shoal_type *shape) {
    const int64_t from[] = {which}, to[] = {which + 1}, step[] = {1};
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, from, 1),
                                graph_ints(SHOAL_ATTR_LIMIT_INDICES, to, 1),
                                graph_ints(SHOAL_ATTR_STRIDES, step, 1)};
    uint32_t x = node(m, GRAPH_SLICE, &numbers, 1, attrs, 3, NULL);
    const shoal_type scalar = {.dtype = shape->dtype};
    return shape->rank ? spread_last(m, x, shape) : reshape(m, x, &scalar);
}

DECOMPOSE(adam) {
    maker m = {g, SHOAL_OK};
    uint32_t x[LARGEST + 1], of[N_NUMBERS];
    uint8_t dtype = call->inputs[P].dtype;
    shoal_type shape = call->inputs[P];
    shape.dtype = wide(dtype);
    for (uint32_t i = 0; i < call->n_inputs; i++) x[i] = widen(&m, inputs[i]);
    for (int i = 0; i < N_NUMBERS; i++) of[i] = number(&m, x[NUMBERS], i, &shape);
#define MUL(a, b) two(&m, GRAPH_MULTIPLY, a, b)
#define ADD(a, b) two(&m, GRAPH_ADD, a, b)
    uint32_t mean = ADD(MUL(x[M], of[BETA1]), MUL(x[G], of[REST1]));
    uint32_t square = ADD(MUL(x[V], of[BETA2]), MUL(MUL(x[G], x[G]), of[REST2])), largest = square;
    if (call->n_inputs > LARGEST) largest = two(&m, GRAPH_MAXIMUM, x[LARGEST], square);
    uint32_t root = ADD(MUL(one(&m, GRAPH_SQRT, largest), of[ROOT]), of[EPSILON]);
    uint32_t move = two(&m, GRAPH_DIVIDE, MUL(mean, of[RATE]), root);
    const uint32_t results[] = {two(&m, GRAPH_SUBTRACT, MUL(x[P], of[KEEP]), move), mean, square,
                                largest};
#undef MUL
#undef ADD
    for (uint32_t i = 0; i + 2 < call->n_inputs; i++) outputs[i] = convert(&m, results[i], dtype);
    return m.status;
}
