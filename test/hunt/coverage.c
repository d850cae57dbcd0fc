/* Which operations programs had, which fed which and how that lay, and how values were placed. */
#include "hunt.h"

#include <string.h>

/* What a view adds to how its operand lies. */
static uint32_t step_of(const shoal_graph *g, const shoal_node *node) {
    const shoal_type *from = &g->values[node->inputs[0]].type;
    const shoal_attr *strides = shoal_node_attr(node, SHOAL_ATTR_STRIDES);
    switch (node->op) {
    case GRAPH_TRANSPOSE: return HUNT_TURNED;
    case GRAPH_REVERSE: return HUNT_REVERSED;
    case GRAPH_BROADCAST_IN_DIM: return HUNT_REPEATED;
    case GRAPH_RESHAPE: return HUNT_RESHAPED;
    case GRAPH_SLICE:
        for (uint32_t i = 0; i < from->rank; i++)
            if (strides->u.ints[i] > 1) return HUNT_STEPPED;
        return HUNT_CUT_OUT;
    default: return 0;
    }
}

/* How a value lies: the views between it and what was computed. */
static uint32_t view_of(const shoal_graph *g, uint32_t value) {
    uint32_t view = 0, maker;
    while ((maker = g->values[value].node) != SHOAL_NO_NODE) {
        uint32_t step = g->nodes[maker].n_inputs ? step_of(g, &g->nodes[maker]) : 0;
        if (!step) break;
        view |= step;
        value = g->nodes[maker].inputs[0];
    }
    return view;
}

enum { MOST_NOT_COMPUTED = 1024 };
static uint64_t uncompared;
static uint32_t not_computed[MOST_NOT_COMPUTED], n_not_computed;

void hunt_not_compared(void) {
    uncompared++;
    n_not_computed = 0;
}

uint64_t hunt_uncompared(void) { return uncompared; }

void hunt_not_computed(const uint32_t *values, uint32_t n) {
    n_not_computed = n < MOST_NOT_COMPUTED ? n : MOST_NOT_COMPUTED;
    memcpy(not_computed, values, n_not_computed * sizeof *values);
}

static bool is_computed(const shoal_node *node) {
    for (uint32_t i = 0; i < n_not_computed; i++)
        if (not_computed[i] - node->first_output < node->n_outputs) return false;
    return true;
}

void hunt_cover(hunt_coverage *coverage, const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    coverage->programs++;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        if (!is_computed(node)) continue;
        coverage->nodes++;
        coverage->op[node->op]++;
        for (uint32_t k = 0; k < node->n_outputs; k++) {
            const shoal_type *type = &g->values[node->first_output + k].type;
            coverage->gives[node->op][type->dtype] |= (uint16_t)(1u << type->rank);
        }
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            uint32_t maker = g->values[node->inputs[k]].node;
            const shoal_type *type = &g->values[node->inputs[k]].type;
            coverage->rank[type->rank]++;
            coverage->takes[node->op][type->dtype] |= (uint16_t)(1u << type->rank);
            coverage->view[view_of(g, node->inputs[k])][node->op]++;
            if (maker != SHOAL_NO_NODE) coverage->pair[g->nodes[maker].op][node->op]++;
        }
    }
    n_not_computed = 0;
}

/* How many operations were seen; how many pairs, and of how many that could be: what one gives, by
 * element type and number of axes, the other takes; how many ways to lie, one view or two, and of
 * how many. */
typedef struct counts {
    uint32_t ops, pairs, possible, views, possible_views;
} counts;

static bool can_feed(const hunt_coverage *coverage, uint16_t a, uint16_t b) {
    for (uint32_t t = 0; t < SHOAL_DTYPE_COUNT; t++)
        if (coverage->gives[a][t] & coverage->takes[b][t]) return true;
    return false;
}

/* Whether there are operands, or results, at all. */
static bool has_any(const uint16_t *types) {
    for (uint32_t t = 0; t < SHOAL_DTYPE_COUNT; t++)
        if (types[t]) return true;
    return false;
}

static counts count(const hunt_coverage *coverage) {
    counts c = {0};
    for (uint16_t a = 0; a < GRAPH_OP_BUILT_IN; a++) {
        if (!coverage->op[a]) continue;
        c.ops++;
        for (uint16_t b = 0; b < GRAPH_OP_BUILT_IN; b++) {
            c.pairs += coverage->pair[a][b] > 0;
            c.possible += can_feed(coverage, a, b);
        }
        for (uint32_t v = 1; has_any(coverage->takes[a]) && v < HUNT_VIEWS; v++) {
            if (__builtin_popcount(v) > 2) continue;
            c.views += coverage->view[v][a] > 0;
            c.possible_views++;
        }
    }
    return c;
}

/* ---- layouts ---- */

static uint64_t layouts[HUNT_FORMS][HUNT_CUT_BY][HUNT_MORE][HUNT_MOST_SLOTS + 1];

void hunt_count_layout(hunt_form form, hunt_parts by, hunt_more more, uint32_t n_slots) {
    layouts[form][by][more][n_slots < HUNT_MOST_SLOTS ? n_slots : HUNT_MOST_SLOTS]++;
}

/* Calls `each` for every layout that can be, with its name. */
static void each_layout(void (*each)(void *context, const char *name, uint64_t count),
                        void *context) {
    static const char *const forms[] = {"whole", "axis", "grid"};
    static const char *const cuts[] = {", equal parts", ", shares", ", cuts"};
    static const char *const mores[] = {"", ", some empty", ", in copies"};
    for (uint32_t at = 0; at < HUNT_FORMS * HUNT_CUT_BY * HUNT_MORE * HUNT_MOST_SLOTS; at++) {
        uint32_t n = at % HUNT_MOST_SLOTS + 1, more = at / HUNT_MOST_SLOTS % HUNT_MORE;
        uint32_t by = at / HUNT_MOST_SLOTS / HUNT_MORE % HUNT_CUT_BY;
        uint32_t form = at / HUNT_MOST_SLOTS / HUNT_MORE / HUNT_CUT_BY;
        char name[96];
        bool is = form == HUNT_WHOLE  ? by == HUNT_EQUAL && more == HUNT_PLAIN
                  : form == HUNT_GRID ? n == 4 && more != HUNT_COPIES
                                      : n > 1 || more == HUNT_PLAIN;
        if (!is || (form != HUNT_WHOLE && by == HUNT_EQUAL && more == HUNT_EMPTY)) continue;
        snprintf(name, sizeof name, "%s%s%s, %u slot%s", forms[form], form ? cuts[by] : "",
                 mores[more], n, n > 1 ? "s" : "");
        each(context, name, layouts[form][by][more][n]);
    }
}

static void print_layout(void *context, const char *name, uint64_t count) {
    if (count) fprintf(context, "layout %s: %llu\n", name, (unsigned long long)count);
}

typedef struct json {
    FILE *to;
    const char *between;
} json;

static void print_layout_json(void *context, const char *name, uint64_t count) {
    json *j = context;
    fprintf(j->to, "%s\"%s\": %llu", j->between, name, (unsigned long long)count);
    j->between = ", ";
}

/* ---- reports ---- */

/* How often there was an operation, and the element types of its operands, or else of its results.
 */
static void print_op(const hunt_coverage *coverage, uint16_t op, FILE *to) {
    const uint16_t *types =
        has_any(coverage->takes[op]) ? coverage->takes[op] : coverage->gives[op];
    fprintf(to, "%s %llu, of", shoal_op_name(op), (unsigned long long)coverage->op[op]);
    for (uint32_t t = 0; t < SHOAL_DTYPE_COUNT; t++)
        if (types[t]) fprintf(to, " %s", shoal_dtype_name((shoal_dtype)t));
    fprintf(to, "\n");
}

void hunt_report(const hunt_coverage *coverage, FILE *to) {
    counts c = count(coverage);
    for (uint16_t a = 0; a < GRAPH_OP_BUILT_IN; a++)
        if (coverage->op[a]) print_op(coverage, a, to);
    for (uint32_t r = 0; r <= SHOAL_MAX_RANK; r++)
        fprintf(to, "operands of %u axes: %llu\n", r, (unsigned long long)coverage->rank[r]);
    for (uint16_t a = 0; a < GRAPH_OP_BUILT_IN; a++)
        for (uint16_t b = 0; b < GRAPH_OP_BUILT_IN; b++)
            if (can_feed(coverage, a, b) && !coverage->pair[a][b])
                fprintf(to, "not seen: %s feeds %s\n", shoal_op_name(a), shoal_op_name(b));
    fprintf(to,
            "%u of %u operations; %u of %u pairs of one that feeds another; %u of %u ways for an "
            "operand to lie, by one view or two\n",
            c.ops, (uint32_t)GRAPH_OP_BUILT_IN - 3, c.pairs, c.possible, c.views, c.possible_views);
    each_layout(print_layout, to);
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
    fprintf(to, "}, \"pairs\": %u, \"possible_pairs\": %u, \"views\": %u, \"possible_views\": %u, ",
            c.pairs, c.possible, c.views, c.possible_views);
    fprintf(to, "\"layouts\": {");
    each_layout(print_layout_json, &(json){to, ""});
    fprintf(to, "}");
}
