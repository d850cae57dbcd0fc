/* What frameworks write out of plain operations, and what has a derivative of its own: that of the
 * plain operations would be another one, or no number. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"

static const shoal_node *node_of(const hlo_call *c, uint32_t value, uint16_t op) {
    const shoal_graph *g = graph_data(c->s->g);
    uint32_t node = g->values[value].node;
    bool is = node != SHOAL_NO_NODE && g->nodes[node].op == op;
    return is ? &g->nodes[node] : NULL;
}

/* Whether all its elements are 0 (of ADD) or 1 (of MULTIPLY), also of a constant made larger. */
static bool is_all(const hlo_call *c, uint32_t value, uint16_t op) {
    const shoal_node *larger;
    while ((larger = node_of(c, value, GRAPH_BROADCAST_IN_DIM)) ||
           (larger = node_of(c, value, GRAPH_RESHAPE)))
        value = larger->inputs[0];
    return graph_is_identity(graph_data(c->s->g), value, op);
}

static bool is_float(const hlo_call *c) {
    return shoal_dtype_kind((shoal_dtype)hlo_type_of(c, 0)->dtype) == 'f';
}

/* max(x, 0), whose slope at 0 is 0, as that of relu is everywhere, and not half of the larger's. */
static shoal_status relu(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 2, 1));
    bool left = is_all(c, c->in[0], GRAPH_ADD), right = is_all(c, c->in[1], GRAPH_ADD);
    if (!is_float(c) || left == right) return hlo_row(c, GRAPH_MAXIMUM, NULL, 0, NULL, 0);
    maker m = {c->s->g, SHOAL_OK};
    uint32_t x = c->in[left], zero = c->in[right];
    c->out[0] = choose(&m, compare(&m, "LE", x, zero), zero, x); /* what is no number is not LE */
    return m.status;
}

/* Whether the divisor is 1 + e^-x, and of which x. */
static bool is_sigmoid(const hlo_call *c, uint32_t *x) {
    const shoal_node *sum = node_of(c, c->in[1], GRAPH_ADD);
    for (uint32_t i = 0; sum && i < 2; i++) {
        const shoal_node *power = node_of(c, sum->inputs[i], GRAPH_EXPONENTIAL);
        const shoal_node *minus = power ? node_of(c, power->inputs[0], GRAPH_NEGATE) : NULL;
        if (!minus || !is_all(c, sum->inputs[1 - i], GRAPH_MULTIPLY)) continue;
        *x = minus->inputs[0];
        return true;
    }
    return false;
}

/* 1 / (1 + e^-x), also where e^-x is beyond the type. */
static shoal_status sigmoid(hlo_call *c) {
    uint32_t x;
    SHOAL_TRY(hlo_need(c, 2, 1));
    if (!is_float(c) || !is_all(c, c->in[0], GRAPH_MULTIPLY) || !is_sigmoid(c, &x))
        return hlo_row(c, GRAPH_DIVIDE, NULL, 0, NULL, 0);
    return hlo_row_of(c, GRAPH_LOGISTIC, &x, 1, NULL, 0, NULL, 0);
}

hlo_rule *hlo_idiom_rule(const char *name) {
    static const hlo_named_rule rules[] = {
        {"stablehlo.maximum", relu}, {"stablehlo.divide", sigmoid}, {NULL, NULL}};
    return hlo_look_up(rules, name);
}
