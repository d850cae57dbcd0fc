/* Writing the programs: each slot's own graph, with its part of every step. */
#include "plan/draft.h"

#include <stdlib.h>
#include <string.h>

/* What one slot's program is made of while it is written. */
typedef struct part {
    graph *graph; /* NULL until something is in it */
    size_t held;  /* its bytes when they were last counted */
    BASE_VEC(uint32_t) input_of, output_of;
    double flops, seconds;
    /* Of the exchange that is being written: */
    bool takes_part;
    bool sends; /* or copies within the slot: the operand is needed */
    BASE_VEC(int64_t) moves;
    uint32_t from, to; /* index in the layouts of the two forms; UINT32_MAX: none there */
} part;

typedef struct emitter {
    plan_draft *d;
    part *parts; /* per pool slot */
    part *last;  /* that something was added to */
    int64_t channel;
    size_t held;        /* bytes of all graphs, as far as they have been counted */
    base_arena scratch; /* of one step */
} emitter;

/* The graph of a part that something is to be added to. One step may add much to many graphs: what
 * each of them has got is counted before the next one. */
static shoal_status graph_of(emitter *e, part *p, graph **out) {
    size_t most = e->d->pool->most;
    if (!p->graph) SHOAL_TRY(graph_new(most, &p->graph));
    *out = p->graph;
    if (e->last) {
        size_t held = graph_arena(e->last->graph)->held;
        e->held += held - e->last->held;
        e->last->held = held;
    }
    e->last = p;
    if (!most || e->held <= most) return SHOAL_OK;
    return base_fail(SHOAL_NO_MEMORY,
                     "the programs of the pool's slots would take over %zu MiB: make smaller ones",
                     most >> 20);
}

static part *part_of(emitter *e, uint32_t slot) { return &e->parts[plan_pool_index(e->d, slot)]; }

static shoal_type piece_type(const emitter *e, const plan_form *form, uint32_t i) {
    return plan_layout_type(&form->layout, i, &e->d->g->values[form->value].type);
}

static shoal_status local_of(emitter *e, plan_form *form, uint32_t i, uint32_t *out);

/* Values one after another along an axis. */
static shoal_status concatenate(emitter *e, part *p, const uint32_t *values, uint32_t n, int axis,
                                uint32_t *out) {
    *out = values[0];
    if (n == 1) return SHOAL_OK;
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    SHOAL_TRY(graph_at(p->graph, NULL, NULL));
    return graph_add(p->graph, GRAPH_CONCATENATE, values, n, &attr, 1, NULL, 0, out);
}

/* Puts the panels of a form together, for somebody who reads it in one piece. */
static shoal_status put_together(emitter *e, plan_form *form, uint32_t i) {
    plan_panels *panels = form->panels;
    part *p = part_of(e, form->layout.slots[i]);
    uint32_t n_rows = 0, *rows = base_arena_array(&e->scratch, uint32_t, panels->count[0]);
    uint32_t *row = base_arena_array(&e->scratch, uint32_t, panels->count[1]);
    if (!rows || !row) return SHOAL_NO_MEMORY;
    for (uint32_t a = 0; a < panels->count[0]; a++) {
        uint32_t n = 0;
        for (uint32_t b = 0; b < panels->count[1]; b++) {
            plan_form *piece = panels->forms[a * panels->count[1] + b];
            if (piece->needed[i]) SHOAL_TRY(local_of(e, piece, i, &row[n++]));
        }
        if (n) SHOAL_TRY(concatenate(e, p, row, n, panels->axis[1], &rows[n_rows++]));
    }
    panels->whole[i] = true;
    return concatenate(e, p, rows, n_rows, panels->axis[0], &form->local[i]);
}

/* The value of a form in the program of the slot with index i, its summands joined. That is done
 * here and not behind the exchange, so that the program can go on while they are on their way. */
static shoal_status local_of(emitter *e, plan_form *form, uint32_t i, uint32_t *out) {
    if (form->panels && !form->panels->beside && !form->panels->whole[i])
        SHOAL_TRY(put_together(e, form, i));
    if (form->local[i] == GRAPH_NO_VALUE)
        return base_fail(SHOAL_INTERNAL, "value %u is read on slot %u before it is made there",
                         form->value, form->layout.slots[i]);
    uint32_t first = form->local[i], more = form->unjoined[i];
    form->unjoined[i] = 0;
    if (more) SHOAL_TRY(graph_at(part_of(e, form->layout.slots[i])->graph, NULL, NULL));
    for (uint32_t s = 1; s <= more; s++)
        SHOAL_TRY(graph_add(part_of(e, form->layout.slots[i])->graph, form->combine,
                            (uint32_t[]){form->local[i], first + s}, 2, NULL, 0, NULL, 0,
                            &form->local[i]));
    *out = form->local[i];
    return SHOAL_OK;
}

/* ---- computations ---- */

static shoal_status copy_regions(emitter *e, graph *to, const shoal_node *node,
                                 const shoal_graph ***out) {
    *out = base_arena_array(&e->scratch, const shoal_graph *, node->n_regions);
    if (!*out) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_regions; i++) {
        const shoal_graph *body = node->regions[i];
        graph *copy;
        SHOAL_TRY(graph_add_region(to, &copy));
        SHOAL_TRY(graph_extract(body, body->inputs, body->n_inputs, body->outputs, body->n_outputs,
                                copy));
        (*out)[i] = graph_data(copy);
    }
    return SHOAL_OK;
}

/* The node's attributes for the part of the slot with index i. */
static shoal_status local_attrs(emitter *e, const plan_step *step, uint32_t i,
                                const shoal_attr **attrs, uint16_t *n_attrs) {
    const shoal_graph *g = e->d->g;
    const shoal_node *node = &g->nodes[step->node];
    shoal_type *types = base_arena_array(&e->scratch, shoal_type, node->n_inputs);
    if (!types) return SHOAL_NO_MEMORY;
    int64_t start[GRAPH_MAX_LOOPS], size[GRAPH_MAX_LOOPS];
    const uint32_t *at = step->division.coords + (size_t)i * (step->division.rank + 1);
    for (uint32_t l = 0; l < step->axes->n_loops; l++) {
        start[l] = step->division.cuts[l][at[l]];
        size[l] = step->division.cuts[l][at[l] + 1] - start[l];
    }
    graph_call call = graph_node_call(g, node, types);
    return graph_localise(&call, step->axes, start, size, &e->scratch, attrs, n_attrs);
}

static shoal_status emit_part(emitter *e, const plan_step *step, uint32_t i) {
    const shoal_node *node = &e->d->g->nodes[step->node];
    part *p = part_of(e, step->division.slots[i]);
    graph *to;
    const shoal_attr *attrs;
    uint16_t n_attrs;
    const shoal_graph **regions;
    uint32_t first, *inputs = base_arena_array(&e->scratch, uint32_t, node->n_inputs);
    shoal_type *types = base_arena_array(&e->scratch, shoal_type, node->n_inputs);
    if (!inputs || !types) return SHOAL_NO_MEMORY;
    for (uint32_t o = 0; o < node->n_inputs; o++)
        SHOAL_TRY(local_of(e, step->inputs[o], i, &inputs[o]));
    SHOAL_TRY(graph_of(e, p, &to));
    SHOAL_TRY(local_attrs(e, step, i, &attrs, &n_attrs));
    SHOAL_TRY(copy_regions(e, to, node, &regions));
    SHOAL_TRY(graph_at(to, node->location, node->scope));
    SHOAL_TRY(graph_add(to, node->op, inputs, node->n_inputs, attrs, n_attrs, regions,
                        node->n_regions, &first));
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        plan_form *form = step->outputs[o];
        shoal_type meant = piece_type(e, form, i), made = graph_data(to)->values[first + o].type;
        char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
        if (!base_type_equal(&meant, &made))
            return base_fail(SHOAL_INTERNAL,
                             "node %u (%s) on slot %u gives %s, but its axis rule says %s",
                             step->node, shoal_op_name(node->op), step->division.slots[i],
                             base_type_text(&made, a), base_type_text(&meant, b));
        form->local[i] = first + o;
    }
    const shoal_graph *data = graph_data(to);
    graph_call call = graph_node_call(data, &data->nodes[data->n_nodes - 1], types);
    shoal_type outputs[GRAPH_MAX_OUTPUTS];
    for (uint32_t o = 0; o < node->n_outputs; o++) outputs[o] = data->values[first + o].type;
    plan_work work = plan_call_work(&call, outputs, node->n_outputs);
    const plan_slot *slot = &e->d->pool->slots[plan_pool_index(e->d, step->division.slots[i])];
    p->flops += work.flops;
    p->seconds += plan_work_seconds(slot, &work, 1);
    return SHOAL_OK;
}

static shoal_status emit_compute(emitter *e, const plan_step *step) {
    const shoal_node *node = &e->d->g->nodes[step->node];
    for (uint32_t i = 0; i < step->division.n_slots; i++) {
        bool needed = false;
        for (uint32_t o = 0; o < node->n_outputs; o++) needed |= step->outputs[o]->needed[i];
        if (!needed) continue;
        shoal_status status = emit_part(e, step, i);
        if (status != SHOAL_OK)
            return base_fail_prefix(status, "node %u (%s) on slot %u: ", step->node,
                                    shoal_op_name(node->op), step->division.slots[i]);
    }
    return SHOAL_OK;
}

/* ---- exchanges ---- */

static bool add_move(part *p, const shoal_move *move, const base_box *box, const base_box *in,
                     const base_box *out) {
    bool fine = base_vec_push(&p->moves, move->kind) && base_vec_push(&p->moves, move->ordinal) &&
                base_vec_push(&p->moves, move->output) && base_vec_push(&p->moves, move->slot);
    for (uint32_t a = 0; a < box->rank && fine; a++)
        fine = base_vec_push(&p->moves, in ? box->start[a] - in->start[a] : 0);
    for (uint32_t a = 0; a < box->rank && fine; a++)
        fine = base_vec_push(&p->moves, out ? box->start[a] - out->start[a] : 0);
    for (uint32_t a = 0; a < box->rank && fine; a++) fine = base_vec_push(&p->moves, box->size[a]);
    return fine;
}

static bool same_box(const base_box *a, const base_box *b) {
    return !memcmp(a->start, b->start, sizeof a->start) &&
           !memcmp(a->size, b->size, sizeof a->size);
}

/* Adds one end of a move to the program there. */
static shoal_status add_end(emitter *e, const plan_step *step, size_t m, int64_t kind) {
    const plan_move *move = &step->moves.moves[m];
    part *from = part_of(e, move->from), *to = part_of(e, move->to);
    if (!step->to->needed[to->to]) return SHOAL_OK;
    base_box in, out = plan_layout_box(&step->to->layout, to->to);
    if (kind != SHOAL_MOVE_RECEIVE) in = plan_layout_box(&step->from->layout, from->from);
    bool sends = kind == SHOAL_MOVE_SEND, receives = kind == SHOAL_MOVE_RECEIVE;
    part *p = sends ? from : to;
    shoal_move end = {.kind = kind,
                      .ordinal = (int64_t)(step->ordinal + m),
                      .output = sends ? 0 : move->summand,
                      .slot = sends ? move->to : move->from};
    p->takes_part = true;
    p->sends |= !receives;
    return add_move(p, &end, &move->box, receives ? NULL : &in, sends ? NULL : &out)
               ? SHOAL_OK
               : SHOAL_NO_MEMORY;
}

/* Distributes one move to the programs of its ends. A whole piece that stays where it is becomes
 * the same value. */
static shoal_status add_ends(emitter *e, const plan_step *step, size_t m) {
    const plan_move *move = &step->moves.moves[m];
    if (move->from == move->to) return add_end(e, step, m, SHOAL_MOVE_LOCAL);
    SHOAL_TRY(add_end(e, step, m, SHOAL_MOVE_RECEIVE));
    return add_end(e, step, m, SHOAL_MOVE_SEND);
}

/* Whether a slot's target piece is the piece it has. */
static bool is_alias(const plan_step *step, const part *p) {
    if (p->from == UINT32_MAX || p->to == UINT32_MAX || !step->to->needed[p->to] ||
        !step->from->needed[p->from] || step->from->layout.parts[step->from->layout.rank] > 1)
        return false;
    base_box source = plan_layout_box(&step->from->layout, p->from);
    base_box target = plan_layout_box(&step->to->layout, p->to);
    return same_box(&source, &target);
}

/* TYPES: one result per summand. */
static shoal_status result_types(emitter *e, const shoal_type *type, uint32_t results,
                                 int64_t **out, size_t *count) {
    size_t each = 2 + (size_t)type->rank;
    *count = each * results;
    *out = base_arena_array(&e->scratch, int64_t, *count);
    if (!*out) return SHOAL_NO_MEMORY;
    for (size_t r = 0; r < results; r++) {
        (*out)[r * each] = type->dtype;
        (*out)[r * each + 1] = type->rank;
        memcpy(*out + r * each + 2, type->dims, type->rank * sizeof *type->dims);
    }
    return SHOAL_OK;
}

/* The exchange node of one slot. */
static shoal_status emit_end(emitter *e, const plan_step *step, part *p) {
    const plan_layout *from = &step->from->layout;
    bool receives = p->to != UINT32_MAX && step->to->needed[p->to] && !is_alias(step, p);
    uint32_t results = receives ? from->parts[from->rank] : 0, first, operand = 0;
    shoal_type type = {0};
    graph *to;
    int64_t *types;
    size_t n_types;
    if (receives) type = piece_type(e, step->to, p->to);
    SHOAL_TRY(result_types(e, &type, results, &types, &n_types));
    SHOAL_TRY(graph_of(e, p, &to));
    int64_t channel = step->joint ? step->joint->channel : e->channel;
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_CHANNEL, channel),
                          graph_ints(SHOAL_ATTR_MOVES, p->moves.data, p->moves.count),
                          graph_ints(SHOAL_ATTR_TYPES, types, n_types)};
    if (p->sends) SHOAL_TRY(local_of(e, step->from, p->from, &operand));
    SHOAL_TRY(graph_at(to, NULL, NULL));
    SHOAL_TRY(graph_add(to, GRAPH_EXCHANGE, &operand, p->sends, attrs, 3, NULL, 0, &first));
    if (!receives) return SHOAL_OK;
    step->to->local[p->to] = first;
    step->to->unjoined[p->to] = results - 1;
    step->to->combine = from->combine;
    return SHOAL_OK;
}

static void begin_exchange(emitter *e, const plan_step *step) {
    for (uint32_t i = 0; i < e->d->pool->n_slots; i++) {
        part *p = &e->parts[i];
        p->takes_part = p->sends = false;
        p->moves.count = 0;
        p->from = p->to = UINT32_MAX;
    }
    for (uint32_t i = 0; i < step->from->layout.n_slots; i++)
        part_of(e, step->from->layout.slots[i])->from = i;
    for (uint32_t i = 0; i < step->to->layout.n_slots; i++) {
        part *p = part_of(e, step->to->layout.slots[i]);
        p->to = i;
        p->takes_part = step->to->needed[i];
    }
}

/* The nodes of those who send a panel, or who receive what all panels bring. */
static shoal_status emit_side(emitter *e, const plan_step *step, bool sends) {
    for (uint32_t i = 0; i < e->d->pool->n_slots; i++) {
        part *p = &e->parts[i];
        if (sends) p->to = UINT32_MAX;
        if (!sends) p->from = UINT32_MAX;
        p->sends = sends;
        if (p->moves.count || (!sends && p->to != UINT32_MAX && step->to->needed[p->to]))
            SHOAL_TRY(emit_end(e, step, p));
    }
    return SHOAL_OK;
}

/* A panel of several that make one piece: each is sent by a node of its own, and who receives does
 * so in one, behind the last. Nothing of them stays within a slot. */
static shoal_status emit_panel(emitter *e, const plan_step *step) {
    plan_joint *joint = step->joint;
    if (!joint->emitted++) joint->channel = e->channel++;
    begin_exchange(e, step);
    for (size_t m = 0; m < step->moves.count; m++) SHOAL_TRY(add_end(e, step, m, SHOAL_MOVE_SEND));
    SHOAL_TRY(emit_side(e, step, true));
    if (joint->emitted < joint->n) return SHOAL_OK;
    begin_exchange(e, step);
    for (uint32_t k = 0; k < joint->n; k++)
        for (size_t m = 0; m < joint->steps[k]->moves.count; m++)
            SHOAL_TRY(add_end(e, joint->steps[k], m, SHOAL_MOVE_RECEIVE));
    return emit_side(e, step, false);
}

static shoal_status emit_exchange(emitter *e, const plan_step *step) {
    if (step->joint) return emit_panel(e, step);
    begin_exchange(e, step);
    for (uint32_t i = 0; i < e->d->pool->n_slots; i++) {
        part *p = &e->parts[i];
        if (!is_alias(step, p)) continue;
        SHOAL_TRY(local_of(e, step->from, p->from, &step->to->local[p->to]));
        p->takes_part = false; /* unless it also sends */
    }
    for (size_t m = 0; m < step->moves.count; m++) {
        const plan_move *move = &step->moves.moves[m];
        if (move->from != move->to || !is_alias(step, part_of(e, move->from)))
            SHOAL_TRY(add_ends(e, step, m));
    }
    bool any = false;
    for (uint32_t i = 0; i < e->d->pool->n_slots; i++) {
        if (!e->parts[i].takes_part) continue;
        any = true;
        SHOAL_TRY(emit_end(e, step, &e->parts[i]));
    }
    e->channel += any;
    return SHOAL_OK;
}

/* ---- whole programs ---- */

static shoal_status emit_inputs(emitter *e) {
    const shoal_graph *g = e->d->g;
    for (uint32_t v = 0; v < g->n_inputs; v++) {
        plan_form *form = e->d->values[g->inputs[v]].forms->form;
        for (uint32_t i = 0; i < form->layout.n_slots; i++) {
            if (!form->needed[i]) continue;
            part *p = part_of(e, form->layout.slots[i]);
            shoal_type type = piece_type(e, form, i);
            graph *to;
            SHOAL_TRY(graph_of(e, p, &to));
            SHOAL_TRY(graph_add_input(to, &type, &form->local[i]));
            if (!base_vec_push(&p->input_of, v)) return SHOAL_NO_MEMORY;
        }
    }
    return SHOAL_OK;
}

static shoal_status emit_outputs(emitter *e, plan_result *out) {
    const shoal_graph *g = e->d->g;
    out->outputs = base_arena_array(&out->arena, plan_layout, g->n_outputs);
    if (!out->outputs) return SHOAL_NO_MEMORY;
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        plan_form *form = e->d->outputs[o];
        SHOAL_TRY(plan_layout_copy(&out->arena, &form->layout, &out->outputs[o]));
        for (uint32_t i = 0; i < form->layout.n_slots; i++) {
            part *p = part_of(e, form->layout.slots[i]);
            uint32_t local;
            SHOAL_TRY(local_of(e, form, i, &local));
            SHOAL_TRY(graph_add_output(p->graph, local));
            if (!base_vec_push(&p->output_of, o)) return SHOAL_NO_MEMORY;
        }
    }
    return SHOAL_OK;
}

static uint64_t value_bytes(const shoal_graph *g, uint32_t value) {
    return ((uint64_t)base_type_bytes(&g->values[value].type) + 63) & ~UINT64_C(63);
}

/* Most bytes of node results that live at once; each lives until its last reader is done. */
static shoal_status measure_peak(const shoal_graph *g, base_arena *arena, uint64_t *out) {
    uint32_t *last = base_arena_array(arena, uint32_t, g->n_values); /* reader's number + 1 */
    if (!last) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t i = 0; i < g->nodes[n].n_inputs; i++) last[g->nodes[n].inputs[i]] = n + 1;
    for (uint32_t i = 0; i < g->n_outputs; i++) last[g->outputs[i]] = UINT32_MAX;
    uint64_t live = 0;
    *out = 0;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        if (graph_is_mapped(g, node)) continue;
        for (uint32_t o = 0; o < node->n_outputs; o++)
            live += value_bytes(g, node->first_output + o);
        if (live > *out) *out = live;
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (!last[node->first_output + o]) live -= value_bytes(g, node->first_output + o);
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t value = node->inputs[i];
            uint32_t maker = g->values[value].node;
            if (last[value] != n + 1 || maker == SHOAL_NO_NODE ||
                graph_is_mapped(g, &g->nodes[maker]))
                continue;
            live -= value_bytes(g, value);
            last[value] = UINT32_MAX; /* an operand may be read twice by one node */
        }
    }
    return SHOAL_OK;
}

static shoal_status collect(emitter *e, plan_result *out) {
    const plan_pool *pool = e->d->pool;
    out->programs = base_arena_array(&out->arena, plan_program, pool->n_slots);
    if (!out->programs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        part *p = &e->parts[i];
        if (!p->graph) continue;
        plan_program *program = &out->programs[out->n_programs];
        program->slot = pool->slots[i].slot;
        program->flops = p->flops;
        program->seconds = p->seconds;
        program->input_of = base_arena_copy(&out->arena, p->input_of.data,
                                            p->input_of.count * sizeof *p->input_of.data);
        program->output_of = base_arena_copy(&out->arena, p->output_of.data,
                                             p->output_of.count * sizeof *p->output_of.data);
        if (!program->input_of || !program->output_of) return SHOAL_NO_MEMORY;
        SHOAL_TRY(measure_peak(graph_data(p->graph), &e->scratch, &program->peak));
        program->n_inputs = (uint32_t)p->input_of.count;
        program->n_outputs = (uint32_t)p->output_of.count;
        program->graph = p->graph;
        p->graph = NULL;
        out->n_programs++;
    }
    return SHOAL_OK;
}

static shoal_status emit(emitter *e, plan_result *out) {
    SHOAL_TRY(emit_inputs(e));
    for (size_t i = 0; i < e->d->steps.count; i++) {
        const plan_step *step = e->d->steps.data[i];
        if (!step->live) continue;
        SHOAL_TRY(plan_patience(e->d));
        SHOAL_TRY(plan_is_exchange(step) ? emit_exchange(e, step) : emit_compute(e, step));
        base_arena_clear(&e->scratch);
    }
    SHOAL_TRY(emit_outputs(e, out));
    return collect(e, out);
}

shoal_status plan_emit(plan_draft *d, plan_result *out) {
    emitter e = {.d = d};
    base_arena_init(&e.scratch, 0);
    e.parts = base_arena_array(&d->arena, part, d->pool->n_slots);
    shoal_status status = e.parts ? emit(&e, out) : SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < d->pool->n_slots && e.parts; i++) {
        graph_destroy(&e.parts[i].graph);
        free(e.parts[i].input_of.data);
        free(e.parts[i].output_of.data);
        free(e.parts[i].moves.data);
    }
    base_arena_fini(&e.scratch);
    return status;
}
