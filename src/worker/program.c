/* A lowered program as the executor sees it: a list of steps, each a part to compute or an
 * exchange, which exchanges each step is the first to read, and after which step each value is no
 * longer needed. */
#include "worker/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    step->copies |= move.kind == SHOAL_MOVE_LOCAL;
    return SHOAL_OK;
}

static shoal_status exchange_step(worker_program *program, const shoal_graph *g, uint32_t index,
                                  worker_step *step) {
    const shoal_node *node = &g->nodes[index];
    const shoal_attr *moves = shoal_node_attr(node, SHOAL_ATTR_MOVES);
    const shoal_attr *channel = shoal_node_attr(node, SHOAL_ATTR_CHANNEL);
    step->exchange = true;
    step->after = SHOAL_NO_NODE;
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
    const graph_call call = graph_node_call(g, node, inputs);
    for (uint32_t o = 0; o < node->n_outputs; o++)
        outputs[o] = g->values[node->first_output + o].type;
    return graph_cost(&call, outputs, node->n_outputs);
}

/* ---- splitting ---- */

/* What is done while something is on its way has to be worth a step of its own, and what comes
 * worth the waiting: results of a step that others read are written out, and nothing is fused
 * across. */
static const double WORTH_DOING = 84e-6, WORTH_WAITING = 1 << 17; /* seconds of a core; bytes */

typedef struct splitter {
    worker_program *program;
    const shoal_graph *g;
    bool *aside; /* per node: the slot's device cannot do it */
    /* per value: the last node that reads it; n_nodes for the program's outputs, NO_NODE (but see
     * bury) when nobody does */
    uint32_t *last_use;
    uint32_t *step_of; /* per node */
    bool *needed;      /* per node */
    bool *awaited;     /* per step: it brings nothing that has not been waited for */
    bool passes;       /* the slot's memory is the host's */
    /* per value: what it is made of by nothing but turning and spreading, when that is there from
     * outside; GRAPH_NO_VALUE: of nothing; else the value itself. Later steps make it anew. */
    uint32_t *root;
} splitter;

/* The node that makes a value in a step; SHOAL_NO_NODE: it is an input, or comes from a file. */
static uint32_t maker(const splitter *s, uint32_t value) {
    return s->program->sources[value] ? SHOAL_NO_NODE : s->g->values[value].node;
}

static uint32_t find_root(const splitter *s, uint32_t value) {
    uint32_t n = maker(s, value);
    if (n == SHOAL_NO_NODE || s->aside[n]) return value;
    const shoal_node *node = &s->g->nodes[n];
    if (node->op == GRAPH_EXCHANGE || node->n_outputs > 1 || node->n_regions) return value;
    if (!node->n_inputs) return GRAPH_NO_VALUE;
    if (node->n_inputs > 1 || strcmp(graph_op(node->op)->category, "shape")) return value;
    uint32_t root = s->root[node->inputs[0]], from;
    if (root == GRAPH_NO_VALUE) return GRAPH_NO_VALUE;
    from = maker(s, root);
    return from == SHOAL_NO_NODE || s->g->nodes[from].op == GRAPH_EXCHANGE ? root : value;
}

/* The value that a step has to have for a node of it to read another. */
static uint32_t read_from(const splitter *s, uint32_t step, uint32_t value) {
    uint32_t node = maker(s, value);
    bool here = node != SHOAL_NO_NODE && s->step_of[node] == step;
    return here || s->program->steps[step].exchange ? value : s->root[value];
}

/* The step of an exchange that brings a value and that nothing has waited for yet, or NO_NODE. */
static uint32_t brought_by(const splitter *s, uint32_t value) {
    uint32_t node = value == GRAPH_NO_VALUE ? SHOAL_NO_NODE : maker(s, value);
    if (node == SHOAL_NO_NODE || s->g->nodes[node].op != GRAPH_EXCHANGE) return SHOAL_NO_NODE;
    return s->awaited[s->step_of[node]] ? SHOAL_NO_NODE : s->step_of[node];
}

/* What a node takes one core of an ordinary machine. */
static double work_of(const shoal_graph *g, const shoal_node *node) {
    const base_speeds core = base_speeds_assumed(&(base_speeds){{0}}, 1);
    double bytes = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        bytes += (double)base_type_bytes(&g->values[node->inputs[i]].type);
    for (uint32_t o = 0; o < node->n_outputs; o++)
        bytes += (double)base_type_bytes(&g->values[node->first_output + o].type);
    return base_speeds_seconds(&core, BASE_PRODUCTS_F32, worker_node_cost(g, node), bytes);
}

/* The end of the step that begins with a node that computes: the next exchange, where the device
 * that does it changes, or where something large is read that may still be on its way while there
 * is enough to do before. */
static uint32_t step_end(const splitter *s, uint32_t n) {
    double work = 0;
    const bool aside = s->aside[n];
    for (; n < s->g->n_nodes && s->g->nodes[n].op != GRAPH_EXCHANGE; n++) {
        if (s->aside[n] != aside) return n;
        const shoal_node *node = &s->g->nodes[n];
        for (uint32_t i = 0; i < node->n_inputs && work >= WORTH_DOING; i++) {
            uint32_t value = s->root[node->inputs[i]];
            if (brought_by(s, value) != SHOAL_NO_NODE &&
                (double)base_type_bytes(&s->g->values[value].type) >= WORTH_WAITING)
                return n;
        }
        if (node->op != GRAPH_SOURCE) work += work_of(s->g, node);
    }
    return n;
}

/* Finds where steps begin and end. */
static shoal_status find_steps(splitter *s) {
    const shoal_graph *g = s->g;
    for (uint32_t v = 0; v < g->n_values; v++) s->root[v] = find_root(s, v);
    for (uint32_t n = 0; n < g->n_nodes;) {
        uint32_t at = s->program->n_steps++;
        worker_step *step = &s->program->steps[at];
        step->first = n;
        if (g->nodes[n].op == GRAPH_EXCHANGE) {
            SHOAL_TRY(exchange_step(s->program, g, n++, step));
            s->awaited[at] = step->n_receives == 0;
        } else {
            step->aside = s->aside[n];
            n = step_end(s, n);
        }
        step->last = n;
        for (uint32_t i = step->first; i < n; i++) s->step_of[i] = at;
        for (uint32_t i = step->first; i < n; i++)
            for (uint32_t k = 0; k < g->nodes[i].n_inputs; k++) {
                uint32_t from = brought_by(s, read_from(s, at, g->nodes[i].inputs[k]));
                if (from != SHOAL_NO_NODE) s->awaited[from] = true;
            }
    }
    return SHOAL_OK;
}

/* From the last node to the first: a node that nothing is read from is left out. */
static void find_uses(splitter *s) {
    const shoal_graph *g = s->g;
    for (uint32_t v = 0; v < g->n_values; v++) s->last_use[v] = SHOAL_NO_NODE;
    for (uint32_t o = 0; o < g->n_outputs; o++) s->last_use[g->outputs[o]] = g->n_nodes;
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const shoal_node *node = &g->nodes[n];
        s->needed[n] = node->op == GRAPH_EXCHANGE;
        for (uint32_t o = 0; o < node->n_outputs; o++)
            s->needed[n] |= s->last_use[node->first_output + o] != SHOAL_NO_NODE;
        for (uint32_t i = 0; i < node->n_inputs && s->needed[n]; i++) {
            uint32_t value = read_from(s, s->step_of[n], node->inputs[i]);
            if (value != GRAPH_NO_VALUE && s->last_use[value] == SHOAL_NO_NODE)
                s->last_use[value] = n;
        }
    }
}

/* The nodes of a step that computes as a graph: its inputs are values from before, its outputs
 * those that are used after. */
static shoal_status compute_step(const splitter *s, uint32_t at) {
    const shoal_graph *g = s->g;
    base_arena *arena = &s->program->arena;
    worker_step *step = &s->program->steps[at];
    uint32_t begin = g->nodes[step->first].first_output;
    uint32_t end = g->nodes[step->last - 1].first_output + g->nodes[step->last - 1].n_outputs;
    size_t room = 0;
    for (uint32_t n = step->first; n < step->last; n++) room += g->nodes[n].n_inputs;
    uint32_t *inputs = base_arena_array(arena, uint32_t, room);
    uint32_t *outputs = base_arena_array(arena, uint32_t, end - begin);
    bool *seen = calloc(g->n_values, 1);
    if (!inputs || !outputs || !seen) {
        free(seen);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    }
    for (uint32_t n = step->first; n < step->last; n++) {
        const shoal_node *node = &g->nodes[n];
        for (uint32_t i = 0; i < node->n_inputs && s->needed[n]; i++) {
            uint32_t value = read_from(s, at, node->inputs[i]);
            uint32_t from = value == GRAPH_NO_VALUE ? step->first : maker(s, value);
            if ((from != SHOAL_NO_NODE && from >= step->first) || seen[value]) continue;
            seen[value] = true;
            inputs[step->n_inputs++] = value;
        }
        for (uint32_t o = 0; o < node->n_outputs && node->op != GRAPH_SOURCE; o++)
            if (s->last_use[node->first_output + o] >= step->last &&
                s->last_use[node->first_output + o] != SHOAL_NO_NODE)
                outputs[step->n_outputs++] = node->first_output + o;
    }
    free(seen);
    bool *frozen = base_arena_array(arena, bool, step->n_inputs);
    if (!frozen) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < step->n_inputs; i++) frozen[i] = s->program->sources[inputs[i]];
    step->frozen = frozen;
    step->inputs = inputs;
    step->outputs = outputs;
    s->program->n_nodes += step->last - step->first;
    SHOAL_TRY(graph_new(0, &step->graph));
    shoal_status status =
        graph_extract(g, inputs, step->n_inputs, outputs, step->n_outputs, step->graph);
    if (status != SHOAL_OK) graph_destroy(&step->graph);
    return status;
}

/* Where an exchange passes on what another one brings, to memory that the host reaches, it is not
 * waited for: who reads what it copies waits for that. */
static bool passes_on(splitter *s, uint32_t at) {
    worker_step *step = &s->program->steps[at];
    if (!step->exchange || !step->has_operand || !s->passes) return false;
    uint32_t node = maker(s, step->operand);
    if (node == SHOAL_NO_NODE || s->g->nodes[node].op != GRAPH_EXCHANGE) return false;
    step->after = s->step_of[node];
    if (step->copies) s->awaited[at] = false;
    return true;
}

/* Lists the exchanges that a step is the first to read. */
static shoal_status list_awaited(splitter *s, uint32_t at) {
    worker_step *step = &s->program->steps[at];
    if (passes_on(s, at)) return SHOAL_OK;
    const uint32_t *inputs = step->exchange ? &step->operand : step->inputs;
    uint32_t n_inputs = step->exchange ? step->has_operand : step->n_inputs;
    uint32_t *awaited = base_arena_array(&s->program->arena, uint32_t, n_inputs);
    if (!awaited) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n_inputs; i++) {
        uint32_t from = brought_by(s, inputs[i]);
        if (from == SHOAL_NO_NODE) continue;
        s->awaited[from] = true;
        awaited[step->n_awaited++] = from;
    }
    step->awaited = awaited;
    return SHOAL_OK;
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

static bool supports(void *context, const shoal_graph *g, const shoal_node *node) {
    return worker_queue_supports(context, g, node);
}

/* Whether a device can do a node: as it stands, or by all that it is made of. */
static shoal_status can_do(worker_queue *queue, const shoal_graph *g, const shoal_node *node,
                           bool *out) {
    graph *alone = NULL, *plain = NULL;
    *out = supports(queue, g, node);
    if (*out || !graph_op(node->op)->decompose) return SHOAL_OK;
    uint32_t outputs[GRAPH_MAX_OUTPUTS];
    for (uint32_t o = 0; o < node->n_outputs; o++) outputs[o] = node->first_output + o;
    shoal_status status = graph_new(0, &alone);
    if (status == SHOAL_OK)
        status = graph_extract(g, node->inputs, node->n_inputs, outputs, node->n_outputs, alone);
    if (status == SHOAL_OK) status = graph_new(0, &plain);
    if (status == SHOAL_OK) status = graph_decompose(graph_data(alone), supports, queue, plain);
    *out = status == SHOAL_OK;
    for (uint32_t i = 0; *out && i < graph_data(plain)->n_nodes; i++)
        *out = supports(queue, graph_data(plain), &graph_data(plain)->nodes[i]);
    graph_destroy(&alone);
    graph_destroy(&plain);
    return status;
}

static shoal_status find_aside(splitter *s, worker_slot *slot) {
    s->aside = base_arena_array(&s->program->arena, bool, s->g->n_nodes);
    if (!s->aside) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < s->g->n_nodes && slot && slot->aside; n++) {
        bool can;
        if (s->g->nodes[n].op == GRAPH_EXCHANGE || s->g->nodes[n].op == GRAPH_SOURCE) continue;
        SHOAL_TRY(can_do(&slot->own, s->g, &s->g->nodes[n], &can));
        s->aside[n] = !can;
    }
    return SHOAL_OK;
}

static shoal_status split(worker_program *program, worker_slot *slot, const shoal_graph *g) {
    base_arena *arena = &program->arena;
    splitter s = {.program = program, .g = g};
    s.passes = slot && !slot->home && slot->own.host && !slot->own.line && !slot->aside;
    SHOAL_TRY(worker_sources_find(program, g));
    SHOAL_TRY(find_aside(&s, slot));
    s.last_use = base_arena_array(arena, uint32_t, g->n_values);
    s.root = base_arena_array(arena, uint32_t, g->n_values);
    s.step_of = base_arena_array(arena, uint32_t, g->n_nodes);
    s.needed = base_arena_array(arena, bool, g->n_nodes);
    s.awaited = base_arena_array(arena, bool, g->n_nodes);
    program->steps = base_arena_array(arena, worker_step, g->n_nodes);
    if (!s.last_use || !s.root || !s.step_of || !s.needed || !s.awaited || !program->steps)
        return SHOAL_NO_MEMORY;
    SHOAL_TRY(find_steps(&s));
    find_uses(&s);
    for (uint32_t i = 0; i < program->n_steps; i++)
        s.awaited[i] = program->steps[i].n_receives == 0;
    for (uint32_t i = 0; i < program->n_steps; i++) {
        if (!program->steps[i].exchange) SHOAL_TRY(compute_step(&s, i));
        SHOAL_TRY(list_awaited(&s, i));
    }
    return bury(program, g, s.last_use, s.step_of);
}

shoal_status worker_program_new(worker_slot *slot, uint64_t id, const void *bytes, size_t n,
                                worker_program **out) {
    worker_program *program = calloc(1, sizeof *program);
    if (!program) return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    base_arena_init(&program->arena, 0);
    program->id = id;
    shoal_status status = graph_decode(bytes, n, WORKER_GRAPH_LIMIT, &program->graph);
    if (status == SHOAL_OK) {
        status = split(program, slot, graph_data(program->graph));
    }
    if (status != SHOAL_OK)
        worker_program_destroy(slot, &program);
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
        for (int k = 0; k < 2; k++) {
            shoal_executable *executable = step->compiled[k].executable;
            if (executable) worker_queue_executable_free(k ? slot->aside : &slot->own, executable);
        }
        graph_destroy(&step->graph);
    }
    graph_destroy(&program->graph);
    base_arena_fini(&program->arena);
    free(program);
}

/* The next of them that can be freed, or the end of the list. */
static worker_program **next_garbage(worker_program **at) {
    while (*at && (*at)->users) at = &(*at)->next;
    return at;
}

bool worker_has_garbage(worker_slot *slot) { return *next_garbage(&slot->garbage); }

void worker_collect_garbage(worker_slot *slot) {
    worker_program **at, *program;
    while ((program = *(at = next_garbage(&slot->garbage)))) {
        *at = program->next;
        pthread_mutex_unlock(&slot->worker->lock);
        worker_program_destroy(slot, &program);
        pthread_mutex_lock(&slot->worker->lock);
    }
}
