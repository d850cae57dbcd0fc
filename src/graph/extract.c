/* Copies of subgraphs. */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What happens to each value of the source: its number in the copy, or one of these. */
#define NOT_NEEDED UINT32_MAX
#define NEEDED (UINT32_MAX - 1)

/* What becomes of the places in the user's program. */
typedef enum lines { LINES_KEPT, LINES_NUMBERED, LINES_LEFT_OUT } lines;

static shoal_status copy_body(graph *to, const shoal_graph *from, lines how,
                              const shoal_graph **out);

static shoal_status copy_node(const shoal_graph *from, uint32_t n, lines how, uint32_t *map,
                              graph *to) {
    const shoal_node *node = &from->nodes[n];
    char number[32];
    const char *line = how == LINES_LEFT_OUT ? NULL : node->location;
    if (line && how == LINES_NUMBERED) {
        snprintf(number, sizeof number, GRAPH_LINE_BEGIN "%u" GRAPH_LINE_END, n);
        line = number;
    }
    uint32_t few[8], first, *inputs = few;
    if (node->n_inputs > 8 && !(inputs = malloc(node->n_inputs * sizeof *inputs)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for %u operands", node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = map[node->inputs[i]];
    const shoal_graph **regions =
        base_arena_alloc_array(graph_arena(to), sizeof *regions, node->n_regions);
    shoal_status status = regions ? graph_at(to, line, node->scope) : SHOAL_NO_MEMORY;
    for (uint16_t i = 0; i < node->n_regions && status == SHOAL_OK; i++)
        status =
            copy_body(to, node->regions[i], how == LINES_KEPT ? how : LINES_LEFT_OUT, &regions[i]);
    if (status == SHOAL_OK)
        status = graph_add(to, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                           regions, node->n_regions, &first);
    if (inputs != few) free(inputs);
    if (status != SHOAL_OK) return status;
    /* A result that was given as an input stays that input. */
    for (uint16_t i = 0; i < node->n_outputs; i++)
        if (map[node->first_output + i] >= NEEDED) map[node->first_output + i] = first + i;
    return SHOAL_OK;
}

/* Marks what the wanted values depend on, from the last node to the first; returns how many nodes
 * that are. */
static uint32_t mark(const shoal_graph *from, uint32_t *map) {
    uint32_t nodes = 0;
    for (uint32_t n = from->n_nodes; n-- > 0;) {
        const shoal_node *node = &from->nodes[n];
        bool needed = false;
        for (uint16_t i = 0; i < node->n_outputs; i++)
            needed = needed || map[node->first_output + i] == NEEDED;
        for (uint32_t i = 0; needed && i < node->n_inputs; i++)
            if (map[node->inputs[i]] == NOT_NEEDED) map[node->inputs[i]] = NEEDED;
        nodes += needed;
    }
    return nodes;
}

/* Copies what the outputs depend on, up to the values that are in the map already. */
static shoal_status copy_needed(const shoal_graph *from, const uint32_t *outputs,
                                uint32_t n_outputs, lines how, uint32_t *map, graph *to) {
    for (uint32_t i = 0; i < n_outputs; i++)
        if (map[outputs[i]] == NOT_NEEDED) map[outputs[i]] = NEEDED;
    uint32_t nodes = mark(from, map);
    SHOAL_TRY(graph_reserve(to, nodes, nodes));
    for (uint32_t i = 0; i < from->n_inputs; i++)
        if (map[from->inputs[i]] == NEEDED)
            return base_fail(SHOAL_INVALID, "the outputs depend on input %u, which is not given",
                             i);
    for (uint32_t n = 0; n < from->n_nodes; n++) {
        const shoal_node *node = &from->nodes[n];
        bool needed = false;
        for (uint16_t i = 0; i < node->n_outputs; i++)
            needed = needed || map[node->first_output + i] == NEEDED;
        if (needed) SHOAL_TRY(copy_node(from, n, how, map, to));
    }
    return SHOAL_OK;
}

static shoal_status extract(const shoal_graph *from, const uint32_t *inputs, uint32_t n_inputs,
                            const uint32_t *outputs, uint32_t n_outputs, lines how, uint32_t *map,
                            graph *to) {
    for (uint32_t i = 0; i < n_inputs; i++)
        SHOAL_TRY(graph_add_input(to, &from->values[inputs[i]].type, &map[inputs[i]]));
    SHOAL_TRY(copy_needed(from, outputs, n_outputs, how, map, to));
    for (uint32_t i = 0; i < n_outputs; i++) SHOAL_TRY(graph_add_output(to, map[outputs[i]]));
    return SHOAL_OK;
}

static shoal_status new_map(const shoal_graph *from, uint32_t **map) {
    *map = malloc((from->n_values + (size_t)1) * sizeof **map);
    if (!*map) return base_fail(SHOAL_NO_MEMORY, "no memory for %u values", from->n_values);
    memset(*map, 0xff, from->n_values * sizeof **map); /* NOT_NEEDED */
    return SHOAL_OK;
}

shoal_status graph_append(const shoal_graph *from, const uint32_t *inputs, const uint32_t *outputs,
                          uint32_t n_outputs, graph *to, uint32_t *results) {
    uint32_t *map;
    SHOAL_TRY(new_map(from, &map));
    for (uint32_t i = 0; i < from->n_inputs; i++) map[from->inputs[i]] = inputs[i];
    shoal_status status = copy_needed(from, outputs, n_outputs, LINES_KEPT, map, to);
    for (uint32_t i = 0; i < n_outputs && status == SHOAL_OK; i++) results[i] = map[outputs[i]];
    free(map);
    return status;
}

static shoal_status extract_with(const shoal_graph *from, const uint32_t *inputs, uint32_t n_inputs,
                                 const uint32_t *outputs, uint32_t n_outputs, lines how,
                                 graph *to) {
    uint32_t *map;
    SHOAL_TRY(new_map(from, &map));
    shoal_status status = extract(from, inputs, n_inputs, outputs, n_outputs, how, map, to);
    free(map);
    return status;
}

shoal_status graph_extract(const shoal_graph *from, const uint32_t *inputs, uint32_t n_inputs,
                           const uint32_t *outputs, uint32_t n_outputs, graph *to) {
    return extract_with(from, inputs, n_inputs, outputs, n_outputs, LINES_KEPT, to);
}

void graph_mark_needed(const shoal_graph *g, bool *needed) {
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const shoal_node *node = &g->nodes[n];
        bool live = false;
        for (uint32_t o = 0; o < node->n_outputs; o++) live |= needed[node->first_output + o];
        for (uint32_t i = 0; live && i < node->n_inputs; i++) needed[node->inputs[i]] = true;
    }
}

shoal_status graph_extract_used(const shoal_graph *from, const uint32_t *outputs,
                                uint32_t n_outputs, graph *to, uint32_t *used) {
    uint32_t n = 0, *inputs = calloc(from->n_inputs + (size_t)1, sizeof *inputs);
    bool *needed = calloc(from->n_values + (size_t)1, sizeof *needed);
    shoal_status status =
        inputs && needed ? SHOAL_OK
                         : base_fail(SHOAL_NO_MEMORY, "no memory for %u values", from->n_values);
    for (uint32_t i = 0; i < n_outputs && status == SHOAL_OK; i++) needed[outputs[i]] = true;
    if (status == SHOAL_OK) graph_mark_needed(from, needed);
    for (uint32_t i = 0; i < from->n_inputs && status == SHOAL_OK; i++) {
        if (!needed[from->inputs[i]]) continue;
        used[n] = i;
        inputs[n++] = from->inputs[i];
    }
    if (status == SHOAL_OK) status = graph_extract(from, inputs, n, outputs, n_outputs, to);
    free(inputs);
    free(needed);
    return status;
}

shoal_status graph_number_lines(const shoal_graph *from, graph *to) {
    return extract_with(from, from->inputs, from->n_inputs, from->outputs, from->n_outputs,
                        LINES_NUMBERED, to);
}

static shoal_status copy_body(graph *to, const shoal_graph *from, lines how,
                              const shoal_graph **out) {
    graph *region;
    SHOAL_TRY(graph_add_region(to, &region));
    SHOAL_TRY(extract_with(from, from->inputs, from->n_inputs, from->outputs, from->n_outputs, how,
                           region));
    *out = graph_data(region);
    return SHOAL_OK;
}

shoal_status graph_copy_body(graph *to, const shoal_graph *from, const shoal_graph **out) {
    return copy_body(to, from, LINES_KEPT, out);
}

const char *graph_find_line(const char *text, size_t *length) {
    for (const char *at = text; (at = strstr(at, GRAPH_LINE_BEGIN)); at++) {
        size_t begin = strlen(GRAPH_LINE_BEGIN), n = strspn(at + begin, "0123456789");
        *length = begin + n + strlen(GRAPH_LINE_END);
        if (n && !strncmp(at + begin + n, GRAPH_LINE_END, strlen(GRAPH_LINE_END))) return at;
    }
    return NULL;
}

shoal_status graph_stamp_lines(const char *text, uint64_t stamp, base_str *out) {
    for (const char *at; (at = strstr(text, GRAPH_LINE_BEGIN));) {
        const char *number = at + strlen(GRAPH_LINE_BEGIN);
        size_t n = strspn(number, "0123456789");
        base_str_bytes(out, text, (size_t)(number - text));
        if (n && number[n] == '>') base_str_format(out, "%llx:", (unsigned long long)stamp);
        text = number;
    }
    base_str_text(out, text);
    return base_str_status(out);
}

shoal_status graph_put_lines(const char *text,
                             const shoal_graph *(*find)(void *context, uint64_t stamp),
                             void *context, base_str *out) {
    for (const char *at; (at = strstr(text, GRAPH_LINE_BEGIN));) {
        char *colon, *end = NULL;
        const char *number = at + strlen(GRAPH_LINE_BEGIN);
        uint64_t stamp = strtoull(number, &colon, 16);
        unsigned long n = *colon == ':' ? strtoul(colon + 1, &end, 10) : 0;
        base_str_bytes(out, text, (size_t)(at - text));
        if (end && *end == '>') {
            const shoal_graph *g = find(context, stamp);
            const char *line = g && n < g->n_nodes ? g->nodes[n].location : NULL;
            base_str_text(out, line ? line : "a line that is not known any more");
            text = end + 1;
        } else {
            base_str_text(out, GRAPH_LINE_BEGIN);
            text = number;
        }
    }
    base_str_text(out, text);
    return base_str_status(out);
}
