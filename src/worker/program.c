/* A lowered program as the executor sees it: a list of steps, each a part to compute or an
 * exchange, which exchanges each step is the first to read, and after which step each value is no
 * longer needed. */
#include "worker/state.h"

#include <stdlib.h>
#include <string.h>

/* Work that is worth a step of its own, to be done while something is on its way: many times what
 * running one more step takes. */
static const double WORTH_A_STEP = 1 << 20;

shoal_move worker_move(const worker_step *step, uint32_t i) {
    const int64_t *at = step->moves + (size_t)i * (4 + 3 * step->rank);
    return (shoal_move){at[0], at[1], at[2], at[3]};
}

const int64_t *worker_move_box(const worker_step *step, uint32_t i) {
    return step->moves + (size_t)i * (4 + 3 * step->rank) + 4;
}

/* Whether a box lies inside a shape; both are from outside. */
static bool inside(const int64_t *start, const int64_t *size, const shoal_type *type) {
    for (unsigned i = 0; i < type->rank; i++)
        if (start[i] < 0 || size[i] < 0 || start[i] > type->dims[i] ||
            size[i] > type->dims[i] - start[i])
            return false;
    return true;
}

static shoal_status check_move(worker_step *step, const shoal_graph *g, const shoal_node *node,
                               uint32_t i) {
    shoal_move move = worker_move(step, i);
    const int64_t *box = worker_move_box(step, i);
    uint32_t rank = step->rank;
    const int64_t *size = box + 2 * rank;
    bool ok = move.kind >= SHOAL_MOVE_SEND && move.kind <= SHOAL_MOVE_LOCAL && move.ordinal >= 0 &&
              move.ordinal < UINT32_MAX && move.slot >= 0 && move.slot < UINT32_MAX;
    if (ok && move.kind != SHOAL_MOVE_RECEIVE)
        ok = step->has_operand && inside(box, size, &g->values[step->operand].type);
    if (ok && move.kind != SHOAL_MOVE_SEND)
        ok = move.output >= 0 && move.output < node->n_outputs &&
             inside(box + rank, size, &g->values[node->first_output + (uint32_t)move.output].type);
    if (!ok) return base_fail(SHOAL_FORMAT, "exchange: move %u lies outside its tensors", i);
    step->n_receives += move.kind == SHOAL_MOVE_RECEIVE;
    return SHOAL_OK;
}

static shoal_status exchange_step(worker_program *program, const shoal_graph *g, uint32_t index,
                                  worker_step *step) {
    const shoal_node *node = &g->nodes[index];
    const shoal_attr *moves = shoal_node_attr(node, SHOAL_ATTR_MOVES);
    const shoal_attr *channel = shoal_node_attr(node, SHOAL_ATTR_CHANNEL);
    step->exchange = true;
    step->channel = (uint32_t)channel->u.i;
    step->has_operand = node->n_inputs > 0;
    step->operand = node->n_inputs ? node->inputs[0] : 0;
    step->n_outputs = node->n_outputs;
    uint32_t *outputs = base_arena_array(&program->arena, uint32_t, node->n_outputs);
    if (!outputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_outputs; i++) outputs[i] = node->first_output + i;
    step->outputs = outputs;
    if (!node->n_inputs && !node->n_outputs)
        return base_fail(SHOAL_FORMAT, "exchange: neither operand nor result");
    step->rank = g->values[node->n_inputs ? step->operand : node->first_output].type.rank;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (g->values[outputs[i]].type.rank != step->rank)
            return base_fail(SHOAL_FORMAT, "exchange: results of different ranks");
    uint32_t width = 4 + 3 * step->rank;
    if (moves->count % width)
        return base_fail(SHOAL_FORMAT, "exchange: %u numbers of moves, not a multiple of %u",
                         moves->count, width);
    step->n_moves = moves->count / width;
    step->moves = moves->u.ints;
    for (uint32_t i = 0; i < step->n_moves; i++) SHOAL_TRY(check_move(step, g, node, i));
    program->n_receives += step->n_receives;
    return SHOAL_OK;
}

double worker_node_cost(const shoal_graph *g, const shoal_node *node) {
    shoal_type inputs[16], outputs[4];
    if (node->n_inputs > 16 || node->n_outputs > 4) return 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = g->values[node->inputs[i]].type;
    for (uint32_t o = 0; o < node->n_outputs; o++)
        outputs[o] = g->values[node->first_output + o].type;
    const graph_call call = {.op = node->op,
                             .inputs = inputs,
                             .n_inputs = node->n_inputs,
                             .attrs = node->attrs,
                             .n_attrs = node->n_attrs,
                             .regions = node->regions,
                             .n_regions = node->n_regions};
    return graph_cost(&call, outputs, node->n_outputs);
}

/* Nodes [first, last) as a step: its inputs are the values from before, its outputs those that
 * are used after. last_use: the node after which nobody uses a value. */
static shoal_status compute_step(worker_program *program, const shoal_graph *g, uint32_t first,
                                 uint32_t last, const uint32_t *last_use, worker_step *step) {
    base_arena *arena = &program->arena;
    step->first = first;
    step->last = last;
    uint32_t begin = g->nodes[first].first_output;
    uint32_t end = g->nodes[last - 1].first_output + g->nodes[last - 1].n_outputs;
    size_t room = 0;
    for (uint32_t n = first; n < last; n++) room += g->nodes[n].n_inputs;
    uint32_t *inputs = base_arena_array(arena, uint32_t, room);
    uint32_t *outputs = base_arena_array(arena, uint32_t, end - begin);
    bool *seen = calloc(g->n_values, 1);
    if (!inputs || !outputs || !seen) {
        free(seen);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    }
    for (uint32_t n = first; n < last; n++) {
        const shoal_node *node = &g->nodes[n];
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t value = node->inputs[i];
            uint32_t from = g->values[value].node;
            if (seen[value] || (from != SHOAL_NO_NODE && from >= first)) continue;
            seen[value] = true;
            inputs[step->n_inputs++] = value;
        }
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (last_use[node->first_output + o] >= last)
                outputs[step->n_outputs++] = node->first_output + o;
    }
    free(seen);
    step->inputs = inputs;
    step->outputs = outputs;
    SHOAL_TRY(graph_new(0, &step->graph));
    shoal_status status =
        graph_extract(g, inputs, step->n_inputs, outputs, step->n_outputs, step->graph);
    if (status != SHOAL_OK) graph_destroy(&step->graph);
    return status;
}

/* For every step the values that die with it, from last_use in nodes and the step of each node. */
static shoal_status bury(worker_program *program, const shoal_graph *g, const uint32_t *last_use,
                         const uint32_t *step_of) {
    for (uint32_t v = 0; v < g->n_values; v++) {
        uint32_t node = last_use[v] == SHOAL_NO_NODE ? g->values[v].node : last_use[v];
        if (node < g->n_nodes) program->steps[step_of[node]].n_dead++;
    }
    for (uint32_t s = 0; s < program->n_steps; s++) {
        program->steps[s].dead =
            base_arena_array(&program->arena, uint32_t, program->steps[s].n_dead);
        if (!program->steps[s].dead) return SHOAL_NO_MEMORY;
        program->steps[s].n_dead = 0;
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        uint32_t node = last_use[v] == SHOAL_NO_NODE ? g->values[v].node : last_use[v];
        if (node >= g->n_nodes) continue;
        worker_step *step = &program->steps[step_of[node]];
        ((uint32_t *)step->dead)[step->n_dead++] = v;
    }
    return SHOAL_OK;
}

/* The splitting of a program into steps. */
typedef struct splitter {
    worker_program *program;
    const shoal_graph *g;
    /* per value: the last node that reads it; n_nodes for the program's outputs, NO_NODE (but see
     * bury) when nobody does */
    uint32_t *last_use;
    uint32_t *step_of; /* per node */
    bool *awaited;     /* per step: it brings nothing that has not been waited for */
} splitter;

/* Whether a value comes from an exchange that nothing has waited for yet. */
static bool on_its_way(const splitter *s, uint32_t value) {
    uint32_t node = s->g->values[value].node;
    return node != SHOAL_NO_NODE && s->g->nodes[node].op == GRAPH_EXCHANGE &&
           !s->awaited[s->step_of[node]];
}

/* The end of the step that begins with a node that computes: the next exchange, or where something
 * is read that may still be on its way while there is enough to do before. */
static uint32_t step_end(const splitter *s, uint32_t n) {
    double work = 0;
    for (; n < s->g->n_nodes && s->g->nodes[n].op != GRAPH_EXCHANGE; n++) {
        const shoal_node *node = &s->g->nodes[n];
        for (uint32_t i = 0; i < node->n_inputs && work >= WORTH_A_STEP; i++)
            if (on_its_way(s, node->inputs[i])) return n;
        work += worker_node_cost(s->g, node);
    }
    return n;
}

/* Lists the exchanges that the last step is the first to read. */
static shoal_status list_awaited(splitter *s) {
    worker_step *step = &s->program->steps[s->program->n_steps];
    const uint32_t *inputs = step->exchange ? &step->operand : step->inputs;
    uint32_t n_inputs = step->exchange ? step->has_operand : step->n_inputs;
    uint32_t *awaited = base_arena_array(&s->program->arena, uint32_t, n_inputs);
    if (!awaited) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n_inputs; i++) {
        if (!on_its_way(s, inputs[i])) continue;
        uint32_t from = s->step_of[s->g->values[inputs[i]].node];
        s->awaited[from] = true;
        awaited[step->n_awaited++] = from;
    }
    step->awaited = awaited;
    s->awaited[s->program->n_steps] = step->n_receives == 0;
    return SHOAL_OK;
}

static shoal_status split(worker_program *program, const shoal_graph *g) {
    base_arena *arena = &program->arena;
    splitter s = {.program = program, .g = g};
    s.last_use = base_arena_array(arena, uint32_t, g->n_values);
    s.step_of = base_arena_array(arena, uint32_t, g->n_nodes);
    s.awaited = base_arena_array(arena, bool, g->n_nodes);
    program->steps = base_arena_array(arena, worker_step, g->n_nodes);
    if (!s.last_use || !s.step_of || !s.awaited || !program->steps) return SHOAL_NO_MEMORY;
    for (uint32_t v = 0; v < g->n_values; v++) s.last_use[v] = SHOAL_NO_NODE;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t i = 0; i < g->nodes[n].n_inputs; i++) s.last_use[g->nodes[n].inputs[i]] = n;
    for (uint32_t o = 0; o < g->n_outputs; o++) s.last_use[g->outputs[o]] = g->n_nodes;

    for (uint32_t n = 0; n < g->n_nodes;) {
        worker_step *step = &program->steps[program->n_steps];
        uint32_t first = n;
        if (g->nodes[n].op == GRAPH_EXCHANGE) {
            SHOAL_TRY(exchange_step(program, g, n++, step));
        } else {
            n = step_end(&s, first);
            SHOAL_TRY(compute_step(program, g, first, n, s.last_use, step));
            program->n_nodes += n - first;
        }
        SHOAL_TRY(list_awaited(&s));
        for (uint32_t i = first; i < n; i++) s.step_of[i] = program->n_steps;
        program->n_steps++;
    }
    return bury(program, g, s.last_use, s.step_of);
}

shoal_status worker_program_new(uint64_t id, const void *bytes, size_t n, worker_program **out) {
    worker_program *program = calloc(1, sizeof *program);
    if (!program) return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    base_arena_init(&program->arena, 0);
    program->id = id;
    shoal_status status = graph_decode(bytes, n, WORKER_GRAPH_LIMIT, &program->graph);
    if (status == SHOAL_OK) {
        status = split(program, graph_data(program->graph));
    }
    if (status != SHOAL_OK)
        worker_program_destroy(NULL, &program);
    else
        *out = program;
    return status;
}

void worker_program_destroy(worker_slot *slot, worker_program **out) {
    worker_program *program = *out;
    *out = NULL;
    if (!program) return;
    for (uint32_t i = 0; i < program->n_steps; i++) {
        worker_step *step = &program->steps[i];
        if (step->executable) slot->device.backend->executable_free(slot->handle, step->executable);
        graph_destroy(&step->graph);
    }
    graph_destroy(&program->graph);
    base_arena_fini(&program->arena);
    free(program);
}
