/* Cutting a failing program down. A candidate is the program with some values taken for inputs,
 * some for others of the same type, and other results; what still fails is gone on with. */
#include "hunt.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* What fails in one variant of a way may, smaller, fail in another. */
enum { TRIES = 15 };

typedef struct shrinker {
    const hunt_way *way;
    hunt_program now;
    void **values; /* of `now`: what each holds by the reference */
    int64_t deadline;
} shrinker;

/* What a candidate changes; indices are values of the program before. */
typedef struct change {
    const uint32_t *outputs;
    uint32_t n_outputs;
    uint32_t input;    /* becomes an input; GRAPH_NO_VALUE: none does */
    uint32_t from, to; /* who reads `from` reads `to` instead */
} change;

static void compute_values(shrinker *s) {
    const shoal_graph *g = graph_data(s->now.graph);
    s->values = hunt_values_new(&s->now);
    for (uint32_t n = 0; n < g->n_nodes; n++)
        hunt_must(hunt_run_node(g, &g->nodes[n], s->values, NULL));
}

static uint32_t seen_as(const change *c, uint32_t value) {
    return value == c->from ? c->to : value;
}

/* Marks what the results need; a value that becomes an input needs nothing. */
static void mark(const shoal_graph *g, const change *c, bool *needed) {
    for (uint32_t i = 0; i < c->n_outputs; i++) needed[seen_as(c, c->outputs[i])] = true;
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const shoal_node *node = &g->nodes[n];
        bool is = false;
        for (uint16_t k = 0; k < node->n_outputs; k++)
            is = is || (needed[node->first_output + k] && node->first_output + k != c->input);
        for (uint32_t k = 0; is && k < node->n_inputs; k++)
            needed[seen_as(c, node->inputs[k])] = true;
    }
}

static void add_node(graph *to, const shoal_graph *g, const shoal_node *node, const change *c,
                     uint32_t *map) {
    uint32_t *inputs = hunt_alloc((node->n_inputs + 1) * sizeof *inputs), first;
    const shoal_graph **bodies = hunt_alloc((node->n_regions + 1u) * sizeof *bodies);
    for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = map[seen_as(c, node->inputs[k])];
    for (uint16_t r = 0; r < node->n_regions; r++)
        hunt_must(graph_copy_body(to, node->regions[r], &bodies[r]));
    hunt_must(graph_add(to, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs, bodies,
                        node->n_regions, &first));
    for (uint16_t k = 0; k < node->n_outputs; k++)
        if (node->first_output + k != c->input) map[node->first_output + k] = first + k;
    free(inputs);
    free(bodies);
}

static hunt_program rebuild(const shrinker *s, const change *c) {
    const shoal_graph *g = graph_data(s->now.graph);
    hunt_program out = {.seed = s->now.seed, .tries = s->now.tries, .n_outputs = c->n_outputs};
    bool *needed = hunt_alloc(g->n_values + 1);
    uint32_t *map = hunt_alloc((g->n_values + 1) * sizeof *map);
    hunt_must(graph_new(0, &out.graph));
    out.inputs = hunt_alloc((g->n_inputs + 2) * sizeof *out.inputs);
    mark(g, c, needed);
    for (uint32_t v = 0; v < g->n_values; v++) {
        bool input = g->values[v].node == SHOAL_NO_NODE || v == c->input;
        if (!needed[v] || !input) continue;
        size_t bytes = (size_t)base_type_bytes(&g->values[v].type);
        hunt_must(graph_add_input(out.graph, &g->values[v].type, &map[v]));
        out.inputs[out.n_inputs] = hunt_alloc(bytes);
        memcpy(out.inputs[out.n_inputs++], s->values[v], bytes);
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        bool is = false;
        for (uint16_t k = 0; k < g->nodes[n].n_outputs; k++)
            is = is ||
                 (needed[g->nodes[n].first_output + k] && g->nodes[n].first_output + k != c->input);
        if (is) add_node(out.graph, g, &g->nodes[n], c, map);
    }
    for (uint32_t i = 0; i < c->n_outputs; i++)
        hunt_must(graph_add_output(out.graph, map[seen_as(c, c->outputs[i])]));
    free(needed);
    free(map);
    return out;
}

/* Goes on with the candidate if it fails. */
static bool take(shrinker *s, hunt_program *candidate) {
    bool fails = base_now() < s->deadline && s->way->run(s->way->context, candidate);
    if (!fails) {
        hunt_program_fini(candidate);
        return false;
    }
    hunt_values_free(&s->now, &s->values);
    hunt_program_fini(&s->now);
    s->now = *candidate;
    compute_values(s);
    return true;
}

static bool try_change(shrinker *s, change c) {
    hunt_program candidate = rebuild(s, &c);
    uint32_t before = graph_data(s->now.graph)->n_nodes,
             after = graph_data(candidate.graph)->n_nodes;
    bool rewired = c.input != GRAPH_NO_VALUE || c.from != GRAPH_NO_VALUE;
    if (rewired && after == before) { /* of nothing that anybody reads: it would go on for ever */
        hunt_program_fini(&candidate);
        return false;
    }
    return take(s, &candidate);
}

/* One result only: the first value that is wrong. */
static bool fewer_outputs(shrinker *s) {
    const shoal_graph *g = graph_data(s->now.graph);
    uint32_t last = g->outputs[0];
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->n_outputs == 1 && v >= last) break; /* else two that fail would take turns */
        if (g->values[v].node == SHOAL_NO_NODE) continue;
        change c = {&v, 1, GRAPH_NO_VALUE, GRAPH_NO_VALUE, GRAPH_NO_VALUE};
        if (try_change(s, c)) return true;
    }
    for (uint32_t i = 0; g->n_outputs > 1 && i < g->n_outputs; i++) {
        uint32_t rest[64], n = 0;
        for (uint32_t k = 0; k < g->n_outputs && n < 64; k++)
            if (k != i) rest[n++] = g->outputs[k];
        change c = {rest, n, GRAPH_NO_VALUE, GRAPH_NO_VALUE, GRAPH_NO_VALUE};
        if (try_change(s, c)) return true;
    }
    return false;
}

static change same_outputs(const shrinker *s) {
    const shoal_graph *g = graph_data(s->now.graph);
    return (change){g->outputs, g->n_outputs, GRAPH_NO_VALUE, GRAPH_NO_VALUE, GRAPH_NO_VALUE};
}

static bool is_output(const shoal_graph *g, uint32_t value) {
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == value) return true;
    return false;
}

/* What made a value is not needed when its elements are given. */
static bool more_inputs(shrinker *s) {
    bool any = false;
    for (uint32_t v = graph_data(s->now.graph)->n_values; v-- > 0;) {
        const shoal_graph *g = graph_data(s->now.graph);
        if (v >= g->n_values || g->values[v].node == SHOAL_NO_NODE || is_output(g, v)) continue;
        change c = same_outputs(s);
        c.input = v;
        any |= try_change(s, c);
    }
    return any;
}

/* Nodes left out: their readers read an operand. */
static bool fewer_nodes(shrinker *s) {
    bool any = false;
    for (uint32_t n = graph_data(s->now.graph)->n_nodes; n-- > 0;) {
        const shoal_graph *g = graph_data(s->now.graph);
        const shoal_node *node = &g->nodes[n];
        for (uint32_t k = 0; n < g->n_nodes && k < node->n_inputs; k++) {
            if (!base_type_equal(&g->values[node->inputs[k]].type,
                                 &g->values[node->first_output].type))
                continue;
            change c = same_outputs(s);
            c.from = node->first_output;
            c.to = node->inputs[k];
            if (!try_change(s, c)) continue;
            any = true;
            break;
        }
    }
    return any;
}

/* Inputs of small whole numbers are easier to read. */
static bool plainer_inputs(shrinker *s, bool *done) {
    const shoal_graph *g = graph_data(s->now.graph);
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const shoal_type *type = &g->values[g->inputs[i]].type;
        if (done[i] || type->dtype == SHOAL_BOOL) continue;
        done[i] = true;
        hunt_program candidate = hunt_copy(&s->now);
        for (int64_t e = 0; e < base_type_count(type); e++)
            hunt_put(type->dtype, candidate.inputs[i], e, (double)(1 + (e + i) % 9));
        if (take(s, &candidate)) return true;
    }
    return false;
}

void hunt_shrink(const hunt_way *way, hunt_program *program, double seconds) {
    shrinker s = {
        .way = way, .now = hunt_copy(program), .deadline = base_now() + (int64_t)(seconds * 1e9)};
    compute_values(&s);
    s.now.tries = TRIES;
    while (fewer_outputs(&s) || more_inputs(&s) || fewer_nodes(&s)) {
    }
    bool *done = hunt_alloc((s.now.n_inputs + 1) * sizeof *done);
    while (plainer_inputs(&s, done)) {
    }
    free(done);
    hunt_values_free(&s.now, &s.values);
    hunt_program_fini(program);
    *program = s.now;
}
