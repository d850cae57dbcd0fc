/* Which operations programs had, and which fed which. */
#include "hunt.h"

void hunt_cover(hunt_coverage *coverage, const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    coverage->programs++;
    coverage->nodes += g->n_nodes;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        coverage->op[node->op]++;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            uint32_t maker = g->values[node->inputs[k]].node;
            if (maker != SHOAL_NO_NODE) coverage->pair[g->nodes[maker].op][node->op]++;
        }
    }
}

void hunt_report(const hunt_coverage *coverage, FILE *to) {
    uint32_t ops = 0, pairs = 0, possible = 0;
    for (uint16_t a = 0; a < GRAPH_OP_BUILT_IN; a++) {
        if (!coverage->op[a]) continue;
        ops++;
        for (uint16_t b = 0; b < GRAPH_OP_BUILT_IN; b++) pairs += coverage->pair[a][b] > 0;
        for (uint16_t b = 0; b < GRAPH_OP_BUILT_IN; b++)
            possible += coverage->op[b] && graph_op(b)->max_inputs;
        fprintf(to, "%s %llu\n", shoal_op_name(a), (unsigned long long)coverage->op[a]);
    }
    fprintf(to, "%u of %u operations; %u of %u pairs of one that feeds another\n", ops,
            (uint32_t)GRAPH_OP_BUILT_IN - 1, pairs, possible);
}
