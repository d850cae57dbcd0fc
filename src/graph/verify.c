/* Checks a graph that was not made by the builder, or that must be trusted no more than its
 * source. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

static shoal_status verify(const shoal_graph *g, uint32_t depth);

static shoal_status check_counts(const shoal_graph *g) {
    if (g->n_nodes > GRAPH_MAX_NODES || g->n_inputs > GRAPH_MAX_NODES ||
        g->n_outputs > GRAPH_MAX_NODES)
        return base_fail(SHOAL_INVALID, "%u nodes, %u inputs, %u outputs; the limit is %d",
                         g->n_nodes, g->n_inputs, g->n_outputs, GRAPH_MAX_NODES);
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        uint32_t v = g->inputs[i];
        if (v >= g->n_values || g->values[v].node != SHOAL_NO_NODE || g->values[v].index != i)
            return base_fail(SHOAL_INVALID, "input %u: value %u is not this input", i, v);
        int64_t elements;
        shoal_status status = base_type_elements(&g->values[v].type, &elements);
        if (status != SHOAL_OK) return base_fail_prefix(status, "input %u: ", i);
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] >= g->n_values)
            return base_fail(SHOAL_INVALID, "output %u: there is no value %u", i, g->outputs[i]);
    for (uint32_t v = 0; v < g->n_values; v++) {
        const shoal_value *value = &g->values[v];
        bool known = value->node == SHOAL_NO_NODE
                         ? value->index < g->n_inputs && g->inputs[value->index] == v
                         : value->node < g->n_nodes &&
                               value->index < g->nodes[value->node].n_outputs &&
                               g->nodes[value->node].first_output + value->index == v;
        if (!known) return base_fail(SHOAL_INVALID, "value %u is defined by nothing", v);
    }
    return SHOAL_OK;
}

static shoal_status check_results(const shoal_graph *g, const shoal_node *node,
                                  const graph_call *call, shoal_type *results) {
    uint16_t n;
    SHOAL_TRY(graph_infer(call, results, graph_result_room(call), &n));
    if (n != node->n_outputs)
        return base_fail(SHOAL_INVALID, "has %u results, should have %u", node->n_outputs, n);
    for (uint16_t i = 0; i < n; i++) {
        char is[BASE_TYPE_TEXT], should[BASE_TYPE_TEXT];
        const shoal_type *type = &g->values[node->first_output + i].type;
        if (!base_type_equal(type, &results[i]))
            return base_fail(SHOAL_INVALID, "result %u is %s, should be %s", i,
                             base_type_text(type, is), base_type_text(&results[i], should));
    }
    return SHOAL_OK;
}

static shoal_status check_types(const shoal_graph *g, const shoal_node *node, shoal_type *types) {
    shoal_type few[GRAPH_MAX_JOINED], *results = few;
    graph_call call = graph_node_call(g, node, types);
    uint16_t room = graph_result_room(&call);
    if (room > GRAPH_MAX_JOINED && !(results = malloc(room * sizeof *results)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for %u results", room);
    shoal_status status = check_results(g, node, &call, results);
    if (results != few) free(results);
    return status;
}

static shoal_status check_node(const shoal_graph *g, uint32_t index, uint32_t depth) {
    const shoal_node *node = &g->nodes[index];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t v = node->inputs[i];
        if (v >= g->n_values)
            return base_fail(SHOAL_INVALID, "operand %u: there is no value %u", i, v);
        if (g->values[v].node != SHOAL_NO_NODE && g->values[v].node >= index)
            return base_fail(SHOAL_INVALID, "operand %u: value %u is not defined before", i, v);
    }
    for (uint16_t i = 0; i < node->n_outputs; i++) {
        uint64_t v = (uint64_t)node->first_output + i;
        if (v >= g->n_values || g->values[v].node != index)
            return base_fail(SHOAL_INVALID, "result %u: value %llu is not its own", i,
                             (unsigned long long)v);
    }
    for (uint16_t i = 0; i < node->n_regions; i++) {
        shoal_status status = verify(node->regions[i], depth + 1);
        if (status != SHOAL_OK) return base_fail_prefix(status, "region %u: ", i);
    }
    shoal_type *types = malloc((node->n_inputs + (size_t)1) * sizeof *types);
    if (!types) return base_fail(SHOAL_NO_MEMORY, "no memory for %u operands", node->n_inputs);
    shoal_status status = check_types(g, node, types);
    free(types);
    return status;
}

static shoal_status verify(const shoal_graph *g, uint32_t depth) {
    if (depth > GRAPH_MAX_DEPTH)
        return base_fail(SHOAL_INVALID, "regions are nested deeper than %d", GRAPH_MAX_DEPTH);
    SHOAL_TRY(check_counts(g));
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        shoal_status status = check_node(g, i, depth);
        const char *name = shoal_op_name(g->nodes[i].op);
        if (status != SHOAL_OK)
            return base_fail_prefix(status, "node %u (%s): ", i, name ? name : "?");
    }
    return SHOAL_OK;
}

shoal_status graph_verify(const shoal_graph *g) { return verify(g, 0); }
