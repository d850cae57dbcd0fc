/* A node that is there already, once more, with one thing about it changed: what its bodies do, an
 * attribute, the order of its operands, the operation, or nothing. Whoever takes equal nodes for
 * one, or keeps what was made of one for the next, has to see what differs. */
#include "make.h"

#include <stdlib.h>
#include <string.h>

/* What takes the same operands and joins elements as well; the operation itself where there is no
 * such thing. Nothing becomes a product: where a body has several results, noise takes all of these
 * for sums. */
static uint16_t other_op(uint16_t op) {
    switch (op) {
    case GRAPH_ADD:
    case GRAPH_MINIMUM:
    case GRAPH_SUBTRACT: return GRAPH_MAXIMUM;
    case GRAPH_MAXIMUM: return GRAPH_MINIMUM;
    case GRAPH_MULTIPLY: return GRAPH_ADD;
    case GRAPH_XOR: return GRAPH_AND;
    case GRAPH_SINE: return GRAPH_COSINE;
    case GRAPH_COSINE: return GRAPH_SINE;
    default: return op;
    }
}

/* Words that take each other's place; a comparator in which all do puts all the other way round. */
static void change_word(shoal_attr *attr) {
    static const char *const words[][2] = {
        {"LT", "GT"}, {"LE", "GE"}, {"EQ", "NE"}, {"tanh", "none"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int k = 0; k < 2; k++)
            if (attr->count == strlen(words[i][k]) &&
                !memcmp(attr->u.bytes, words[i][k], attr->count)) {
                *attr = graph_string(attr->key, words[i][!k]);
                return;
            }
}

/* A body in which each node is another one, where there is such. */
static const shoal_graph *other_body(maker *m, const shoal_graph *body) {
    uint32_t *map = hunt_alloc((body->n_values + 1) * sizeof *map);
    uint32_t inputs[2 * MAKE_JOINED], first;
    graph *made;
    bool known = true;
    hunt_must(graph_add_region(m->g, &made));
    for (uint32_t i = 0; i < body->n_inputs; i++)
        hunt_must(
            graph_add_input(made, &body->values[body->inputs[i]].type, &map[body->inputs[i]]));
    for (uint32_t i = 0; i < body->n_nodes && known; i++) {
        const shoal_node *node = &body->nodes[i];
        shoal_attr attr = node->n_attrs == 1 ? node->attrs[0] : (shoal_attr){0};
        bool compares = node->op == GRAPH_COMPARE && strchr("LG", *attr.u.string);
        if (compares) change_word(&attr);
        known = node->n_inputs <= sizeof inputs / sizeof *inputs && !node->n_regions;
        for (uint32_t k = 0; k < node->n_inputs && known; k++) inputs[k] = map[node->inputs[k]];
        known = known && !graph_add(made, other_op(node->op), inputs, node->n_inputs,
                                    compares ? &attr : node->attrs, node->n_attrs, NULL, 0, &first);
        for (uint16_t k = 0; k < node->n_outputs && known; k++)
            map[node->first_output + k] = first + k;
    }
    for (uint32_t i = 0; i < body->n_outputs && known; i++)
        hunt_must(graph_add_output(made, map[body->outputs[i]]));
    free(map);
    return known ? graph_data(made) : body;
}

/* One number of an attribute, or two that change places. */
static void change_attr(maker *m, shoal_attr *attr, int64_t *ints) {
    int64_t by = MAKE_CHANCE(50) ? 1 : -1;
    switch (attr->kind) {
    case SHOAL_ATTR_KIND_INT: attr->u.i += by; break;
    case SHOAL_ATTR_KIND_BOOL: attr->u.i = !attr->u.i; break;
    case SHOAL_ATTR_KIND_FLOAT: attr->u.f *= 1.5; break;
    case SHOAL_ATTR_KIND_STRING: change_word(attr); break;
    case SHOAL_ATTR_KIND_INTS:
        if (!attr->count || attr->count > 3 * SHOAL_MAX_RANK) break;
        memcpy(ints, attr->u.ints, attr->count * sizeof *ints);
        uint32_t at = MAKE_BELOW(attr->count), other = MAKE_BELOW(attr->count);
        if (at == other)
            ints[at] += by;
        else
            ints[at] = attr->u.ints[other], ints[other] = attr->u.ints[at];
        attr->u.ints = ints;
        break;
    default: break;
    }
}

/* What a node is made with. */
typedef struct parts {
    uint16_t op;
    uint32_t inputs[16];
    shoal_attr attrs[16];
    const shoal_graph *regions[4];
    int64_t ints[3 * SHOAL_MAX_RANK];
} parts;

/* Whether a node stays right whatever is changed about it: attributes may assert something of
 * operands, loops may never end, and not all windows have an element that could be selected. */
static bool is_free(const shoal_node *node) {
    return node->op != GRAPH_SORT && node->op != GRAPH_SELECT_AND_SCATTER &&
           node->op != GRAPH_IN_RANGE && !shoal_node_attr(node, SHOAL_ATTR_INDICES_ARE_SORTED);
}

static void change(maker *m, const shoal_node *node, parts *p) {
    uint32_t how = MAKE_BELOW(10);
    if (node->n_regions && how < 7) {
        for (uint16_t i = 0; i < node->n_regions; i++)
            if (MAKE_CHANCE(70)) p->regions[i] = other_body(m, node->regions[i]);
    } else if (!is_free(node) || how == 9) {
        return;
    } else if (node->n_attrs && how < 6) {
        shoal_attr *attr = &p->attrs[MAKE_BELOW(node->n_attrs)];
        bool asserts = attr->key == SHOAL_ATTR_UNIQUE_INDICES;
        if (!asserts && !(attr->key == SHOAL_ATTR_DTYPE && make_smooth(m)))
            change_attr(m, attr, p->ints);
    } else if (node->n_inputs > 1 && how < 8) {
        uint32_t at = MAKE_BELOW(node->n_inputs), other = MAKE_BELOW(node->n_inputs);
        p->inputs[at] = node->inputs[other];
        p->inputs[other] = node->inputs[at];
    } else {
        p->op = other_op(node->op);
    }
}

bool make_again(maker *m) {
    parts p;
    uint32_t out, node = SHOAL_NO_NODE;
    const shoal_graph *g = graph_data(m->g);
    for (int turn = 0; turn < 4 && m->usable.count; turn++) { /* mostly one that has bodies */
        uint32_t by = g->values[m->usable.data[MAKE_BELOW(m->usable.count)]].node;
        if (by == SHOAL_NO_NODE) continue;
        node = by;
        if (g->nodes[node].n_regions) break;
    }
    if (node == SHOAL_NO_NODE) return false;
    shoal_node was = g->nodes[node];
    if (was.op == GRAPH_CONSTANT || was.op == GRAPH_WHILE || was.n_inputs > 16 ||
        was.n_attrs > 16 || was.n_regions > 4)
        return false;
    p.op = was.op;
    memcpy(p.inputs, was.inputs, was.n_inputs * sizeof *p.inputs);
    for (uint16_t i = 0; i < was.n_attrs; i++) p.attrs[i] = was.attrs[i];
    for (uint16_t i = 0; i < was.n_regions; i++) p.regions[i] = was.regions[i];
    change(m, &was, &p);
    return make_node(m, p.op, p.inputs, was.n_inputs, p.attrs, was.n_attrs, p.regions,
                     was.n_regions, &out);
}
