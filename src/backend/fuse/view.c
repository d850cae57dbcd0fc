/* Values that lie in the memory of others: those of the same elements in the same order (reshape
 * and the like), and views, as long as all who read them can read views. */
#include "backend/fuse/fuse.h"

#include <string.h>

bool fuse_is_move(uint16_t op) {
    switch (op) {
    case GRAPH_CONSTANT:
    case GRAPH_IOTA:
    case GRAPH_TRANSPOSE:
    case GRAPH_SLICE:
    case GRAPH_BROADCAST_IN_DIM:
    case GRAPH_REVERSE:
    case GRAPH_PAD:
    case GRAPH_CONCATENATE: return true;
    default: return false;
    }
}

bool fuse_same_shape(const shoal_type *x, const shoal_type *y) {
    return x->rank == y->rank && !memcmp(x->dims, y->dims, x->rank * sizeof *x->dims);
}

fuse_index fuse_dense(const shoal_type *type) {
    fuse_index index = {0};
    int64_t stride = 1;
    for (uint32_t i = type->rank; i-- > 0; stride *= type->dims[i]) index.strides[i] = stride;
    return index;
}

fuse_index fuse_index_of(const fuse_plan *plan, uint32_t value) {
    const fuse_value *v = &plan->values[value];
    return v->is_view ? v->index : fuse_dense(&plan->graph->values[value].type);
}

/* ---- the index of a result in its operand's memory ---- */

/* Whether a reshape only splits axes, so that a view of the operand is one of the result; in, if
 * given, is the index of the operand, from which that of the result is made. */
static bool only_splits(const shoal_type *from, const shoal_type *to, const fuse_index *in,
                        fuse_index *out) {
    uint32_t axis = to->rank;
    for (uint32_t i = from->rank; i-- > 0;) {
        int64_t left = from->dims[i], stride = in ? in->strides[i] : 0;
        if (!left) return false;
        while (left > 1) {
            if (!axis || !to->dims[axis - 1] || left % to->dims[axis - 1]) return false;
            left /= to->dims[--axis];
            if (out) out->strides[axis] = stride;
            stride *= to->dims[axis];
        }
    }
    while (axis && to->dims[axis - 1] == 1) {
        axis--;
        if (out) out->strides[axis] = 0;
    }
    return !axis;
}

static bool is_split(const shoal_graph *g, const shoal_node *node) {
    return node->op == GRAPH_RESHAPE &&
           only_splits(&g->values[node->inputs[0]].type, &g->values[node->first_output].type, NULL,
                       NULL);
}

static const int64_t *ints(const shoal_node *node, shoal_attr_key key) {
    return shoal_node_attr(node, key)->u.ints;
}

bool fuse_moved_index(const shoal_graph *g, const shoal_node *node, const fuse_index *in,
                      fuse_index *out) {
    const shoal_type *from = &g->values[node->inputs[0]].type;
    const shoal_type *to = &g->values[node->first_output].type;
    *out = (fuse_index){.start = in->start};
    switch (node->op) {
    case GRAPH_RESHAPE: return only_splits(from, to, in, out);
    case GRAPH_TRANSPOSE:
        for (uint32_t i = 0; i < from->rank; i++)
            out->strides[i] = in->strides[ints(node, SHOAL_ATTR_PERMUTATION)[i]];
        return true;
    case GRAPH_BROADCAST_IN_DIM:
        for (uint32_t i = 0; i < from->rank; i++)
            if (from->dims[i] != 1)
                out->strides[ints(node, SHOAL_ATTR_BROADCAST_DIMENSIONS)[i]] = in->strides[i];
        return true;
    case GRAPH_SLICE:
        for (uint32_t i = 0; i < from->rank; i++) {
            out->start += ints(node, SHOAL_ATTR_START_INDICES)[i] * in->strides[i];
            /* An axis of one element needs no stride, and a huge one might overflow. */
            if (to->dims[i] > 1)
                out->strides[i] = ints(node, SHOAL_ATTR_STRIDES)[i] * in->strides[i];
        }
        return true;
    case GRAPH_REVERSE: {
        const shoal_attr *axes = shoal_node_attr(node, SHOAL_ATTR_DIMENSIONS);
        memcpy(out->strides, in->strides, sizeof out->strides);
        for (uint32_t i = 0; i < axes->count; i++) {
            int64_t axis = axes->u.ints[i];
            if (from->dims[axis]) out->start += (from->dims[axis] - 1) * in->strides[axis];
            out->strides[axis] = -in->strides[axis];
        }
        return true;
    }
    default: return false;
    }
}

/* ---- who needs what ---- */

void fuse_mark_needs(const shoal_graph *g, const fuse_choice *choices, const fuse_limits *limits,
                     uint8_t *needs) {
    for (uint32_t i = 0; i < g->n_outputs; i++) needs[g->outputs[i]] |= FUSE_NEEDS_DENSE;
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const shoal_node *node = &g->nodes[n];
        if (is_split(g, node)) { /* who reads the parts decides */
            if (needs[node->first_output]) needs[node->inputs[0]] |= FUSE_NEEDS_DENSE;
            continue;
        }
        bool fused = choices[n].role == FUSE_MAP || choices[n].role == FUSE_REDUCE;
        bool alias = node->op == GRAPH_RESHAPE || node->op == GRAPH_PLACE;
        for (uint32_t k = 0; k < node->n_inputs; k++)
            if (alias || !(choices[n].views >> (k < 31 ? k : 31) & 1))
                needs[node->inputs[k]] |= FUSE_NEEDS_DENSE;
            else if (fused && !limits->any_stride)
                needs[node->inputs[k]] |= FUSE_NEEDS_NEAR;
    }
}

static bool is_near(const shoal_type *type, const fuse_index *index) {
    for (uint32_t i = type->rank; i-- > 0;)
        if (type->dims[i] != 1) return index->strides[i] == 0 || index->strides[i] == 1;
    return true;
}

/* Whether a view has all elements of its dense operand in their order. */
static bool is_identity(const shoal_type *from, const shoal_type *to, const fuse_index *index) {
    const fuse_index dense = fuse_dense(to);
    if (index->start || base_type_count(from) != base_type_count(to)) return false;
    for (uint32_t i = 0; i < to->rank; i++)
        if (to->dims[i] != 1 && index->strides[i] != dense.strides[i]) return false;
    return true;
}

/* A constant lies in the graph; one element for all is a view of it. */
static bool share_constant(const shoal_graph *g, const shoal_node *node, const uint8_t *needs,
                           fuse_value *values) {
    const shoal_type *type = &g->values[node->first_output].type;
    const shoal_attr *data = shoal_node_attr(node, SHOAL_ATTR_VALUE);
    bool is_splat = data->count != (uint64_t)base_type_bytes(type);
    if (is_splat && needs[node->first_output] & FUSE_NEEDS_DENSE) return false;
    values[node->first_output].is_view = is_splat;
    return true;
}

bool fuse_share(const shoal_graph *g, const shoal_node *node, const fuse_limits *limits,
                const uint8_t *needs, fuse_value *values) {
    uint32_t v = node->first_output;
    if (node->op == GRAPH_CONSTANT) return share_constant(g, node, needs, values);
    bool alias = node->op == GRAPH_RESHAPE || node->op == GRAPH_PLACE;
    bool view = node->op == GRAPH_TRANSPOSE || node->op == GRAPH_SLICE ||
                node->op == GRAPH_BROADCAST_IN_DIM ||
                (node->op == GRAPH_REVERSE && limits->any_stride);
    if (!alias && !view) return false;
    const fuse_value *in = &values[node->inputs[0]];
    const fuse_plan so_far = {.graph = g, .values = values};
    const shoal_type *from = &g->values[node->inputs[0]].type, *to = &g->values[v].type;
    fuse_index index = fuse_index_of(&so_far, node->inputs[0]), moved = {0};
    bool is_view = fuse_moved_index(g, node, &index, &moved) && (in->is_view || view);
    if (is_view && !in->is_view) is_view = !is_identity(from, to, &moved);
    if (is_view && view && needs[v] & FUSE_NEEDS_DENSE) return false;
    if (is_view && view && needs[v] & FUSE_NEEDS_NEAR && !is_near(to, &moved)) return false;
    values[v].root = in->root;
    values[v].is_view = is_view;
    if (is_view) values[v].index = moved;
    return true;
}
