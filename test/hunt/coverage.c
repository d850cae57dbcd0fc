/* Which operations programs had, which fed which, and how values were placed. */
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

/* How many operations were seen, how many pairs, and of how many these could be. */
typedef struct counts {
    uint32_t ops, pairs, possible;
} counts;

static counts count(const hunt_coverage *coverage) {
    counts c = {0};
    for (uint16_t a = 0; a < GRAPH_OP_BUILT_IN; a++) {
        if (!coverage->op[a]) continue;
        c.ops++;
        for (uint16_t b = 0; b < GRAPH_OP_BUILT_IN; b++) c.pairs += coverage->pair[a][b] > 0;
        for (uint16_t b = 0; b < GRAPH_OP_BUILT_IN; b++)
            c.possible += coverage->op[b] && graph_op(b)->max_inputs;
    }
    return c;
}

uint64_t hunt_layouts[HUNT_LAYOUTS];

static const char *const layouts[HUNT_LAYOUTS] = {"on one",       "on several", "axis, equal",
                                                  "axis, shares", "axis, cuts", "grid, equal",
                                                  "grid, shares", "grid, cuts"};

void hunt_report(const hunt_coverage *coverage, FILE *to) {
    counts c = count(coverage);
    for (uint16_t a = 0; a < GRAPH_OP_BUILT_IN; a++)
        if (coverage->op[a])
            fprintf(to, "%s %llu\n", shoal_op_name(a), (unsigned long long)coverage->op[a]);
    fprintf(to, "%u of %u operations; %u of %u pairs of one that feeds another\n", c.ops,
            (uint32_t)GRAPH_OP_BUILT_IN - 1, c.pairs, c.possible);
    for (int i = 0; i < HUNT_LAYOUTS; i++)
        if (hunt_layouts[i])
            fprintf(to, "layout %s %llu\n", layouts[i], (unsigned long long)hunt_layouts[i]);
}

void hunt_report_json(const hunt_coverage *coverage, FILE *to) {
    counts c = count(coverage);
    const char *between = "";
    fprintf(to, "\"operations\": {");
    for (uint16_t a = 0; a < GRAPH_OP_BUILT_IN; a++) {
        if (!coverage->op[a]) continue;
        fprintf(to, "%s\"%s\": %llu", between, shoal_op_name(a),
                (unsigned long long)coverage->op[a]);
        between = ", ";
    }
    fprintf(to, "}, \"pairs\": %u, \"possible_pairs\": %u, \"layouts\": {", c.pairs, c.possible);
    for (int i = 0; i < HUNT_LAYOUTS; i++)
        fprintf(to, "%s\"%s\": %llu", i ? ", " : "", layouts[i],
                (unsigned long long)hunt_layouts[i]);
    fprintf(to, "}");
}
