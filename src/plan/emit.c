/* Writing the programs: each slot's own graph, with its part of every step. One is written and
 * encoded after the other: all graphs of a large pool at once would take many times their bytes. */
#include "plan/draft.h"

#include <stdlib.h>
#include <string.h>

/* An exchange's moves that somebody needs, by the slots at their ends: those that the pool's slot i
 * sends are sends[first_send[i]] to sends[first_send[i + 1] - 1], and likewise what it receives. */
typedef struct plan_ends {
    uint32_t *sends, *first_send, *receives, *first_receive;
    int64_t channel;
} plan_ends;

typedef struct emitter {
    plan_draft *d;
    base_arena scratch; /* of one step */
    size_t held;        /* bytes of the programs that are written */
    /* The program that is being written: */
    uint32_t at, slot; /* of the pool's slots, and its number */
    graph *graph;      /* NULL until something is in it */
    BASE_VEC(uint32_t) input_of, output_of;
    double flops, seconds;
    double bound[BASE_STREAM], products[BASE_STREAM]; /* by class */
    bool open;                                        /* what bodies take is not known beforehand */
    BASE_VEC(int64_t) moves;                          /* of the exchange that is being written */
} emitter;

/* The graph that something is to be added to. */
static shoal_status graph_of(emitter *e, graph **out) {
    if (!e->graph) SHOAL_TRY(graph_new(e->d->pool->most, &e->graph));
    *out = e->graph;
    return SHOAL_OK;
}

static shoal_type piece_type(const emitter *e, const plan_form *form, uint32_t i) {
    return plan_layout_type(&form->layout, i, &e->d->g->values[form->value].type);
}

static shoal_status local_of(emitter *e, plan_form *form, uint32_t i, uint32_t *out);

/* Values one after another along an axis. */
static shoal_status concatenate(emitter *e, const uint32_t *values, uint32_t n, int axis,
                                uint32_t *out) {
    *out = values[0];
    if (n == 1) return SHOAL_OK;
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    SHOAL_TRY(graph_at(e->graph, NULL, NULL));
    return graph_add(e->graph, GRAPH_CONCATENATE, values, n, &attr, 1, NULL, 0, out);
}

/* Puts the panels of a form together, for somebody who reads it in one piece. */
static shoal_status put_together(emitter *e, plan_form *form, uint32_t i) {
    plan_panels *panels = form->panels;
    uint32_t n_rows = 0, *rows = base_arena_array(&e->scratch, uint32_t, panels->count[0]);
    uint32_t *row = base_arena_array(&e->scratch, uint32_t, panels->count[1]);
    if (!rows || !row) return SHOAL_NO_MEMORY;
    for (uint32_t a = 0; a < panels->count[0]; a++) {
        uint32_t n = 0;
        for (uint32_t b = 0; b < panels->count[1]; b++) {
            plan_form *piece = panels->forms[a * panels->count[1] + b];
            if (piece->needed[i]) SHOAL_TRY(local_of(e, piece, i, &row[n++]));
        }
        if (n) SHOAL_TRY(concatenate(e, row, n, panels->axis[1], &rows[n_rows++]));
    }
    panels->whole[i] = true;
    return concatenate(e, rows, n_rows, panels->axis[0], &form->local[i]);
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
    if (more) SHOAL_TRY(graph_at(e->graph, NULL, NULL));
    for (uint32_t s = 1; s <= more; s++)
        SHOAL_TRY(graph_add(e->graph, form->combine, (uint32_t[]){form->local[i], first + s}, 2,
                            NULL, 0, NULL, 0, &form->local[i]));
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

/* Products so large that they take this much longer than moving their bytes show how fast a device
 * computes; smaller ones are held up by other things. */
static const double FAR_BOUND = 4;

static void count_products(emitter *e, const plan_work *work, double seconds) {
    const base_speeds *speeds = &e->d->pool->slots[e->at].speeds;
    double computing = work->flops / speeds->of[work->products];
    if (!(computing > FAR_BOUND * base_speeds_seconds(speeds, work->products, 0, work->bytes)))
        return;
    e->bound[work->products] += seconds;
    e->products[work->products] += work->flops;
}

/* What the nodes from `first` on do, which make up a part. */
static shoal_status count_work(emitter *e, uint32_t first) {
    const shoal_graph *g = graph_data(e->graph);
    for (uint32_t n = first; n < g->n_nodes; n++) {
        plan_work work;
        SHOAL_TRY(plan_work_of(g, &g->nodes[n], &e->scratch, &work));
        double seconds = plan_work_seconds(&e->d->pool->slots[e->at], &work, 1);
        e->flops += work.flops;
        e->seconds += seconds;
        e->open |= g->nodes[n].n_regions > 0;
        if (g->nodes[n].op == GRAPH_DOT_GENERAL) count_products(e, &work, seconds);
    }
    return SHOAL_OK;
}

/* The part of the slot with index i; *first is its first result. */
static shoal_status add_part(emitter *e, const plan_step *step, uint32_t i, uint32_t *first) {
    const shoal_graph *g = e->d->g;
    const shoal_node *node = &g->nodes[step->node];
    uint32_t *inputs = base_arena_array(&e->scratch, uint32_t, node->n_inputs);
    shoal_type *types = base_arena_array(&e->scratch, shoal_type, node->n_inputs);
    if (!inputs || !types) return SHOAL_NO_MEMORY;
    int64_t start[GRAPH_MAX_LOOPS], size[GRAPH_MAX_LOOPS];
    const uint32_t *at = step->division.coords + (size_t)i * (step->division.rank + 1);
    for (uint32_t l = 0; l < step->axes->n_loops; l++) {
        start[l] = step->division.cuts[l][at[l]];
        size[l] = step->division.cuts[l][at[l] + 1] - start[l];
    }
    base_box from = {0};
    if (node->n_inputs) from = plan_layout_box(&step->inputs[0]->layout, i);
    for (uint32_t o = 0; o < node->n_inputs; o++)
        SHOAL_TRY(local_of(e, step->inputs[o], i, &inputs[o]));
    graph_call call = graph_node_call(g, node, types);
    graph_part part = {.call = &call,
                       .axes = step->axes,
                       .start = start,
                       .size = size,
                       .inputs = inputs,
                       .from = from.start};
    SHOAL_TRY(graph_of(e, &part.g));
    SHOAL_TRY(copy_regions(e, part.g, node, (const shoal_graph ***)&part.regions));
    SHOAL_TRY(graph_at(part.g, node->location, node->scope));
    uint32_t before = graph_data(part.g)->n_nodes;
    SHOAL_TRY(graph_add_part(&part, &e->scratch, first));
    return count_work(e, before);
}

static shoal_status emit_part(emitter *e, const plan_step *step, uint32_t i) {
    const shoal_node *node = &e->d->g->nodes[step->node];
    uint32_t first;
    SHOAL_TRY(add_part(e, step, i, &first));
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        plan_form *form = step->outputs[o];
        shoal_type meant = piece_type(e, form, i);
        shoal_type made = graph_data(e->graph)->values[first + o].type;
        char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
        if (!base_type_equal(&meant, &made))
            return base_fail(SHOAL_INTERNAL,
                             "node %u (%s) on slot %u gives %s, but its axis rule says %s",
                             step->node, shoal_op_name(node->op), step->division.slots[i],
                             base_type_text(&made, a), base_type_text(&meant, b));
        form->local[i] = first + o;
    }
    return SHOAL_OK;
}

static shoal_status emit_compute(emitter *e, const plan_step *step) {
    const shoal_node *node = &e->d->g->nodes[step->node];
    int i = plan_layout_find(&step->division, e->slot);
    bool needed = false;
    for (uint32_t o = 0; i >= 0 && o < node->n_outputs; o++) needed |= step->outputs[o]->needed[i];
    if (!needed) return SHOAL_OK;
    shoal_status status = emit_part(e, step, (uint32_t)i);
    return status == SHOAL_OK ? status
                              : base_fail_prefix(status, "node %u (%s) on slot %u: ", step->node,
                                                 shoal_op_name(node->op), e->slot);
}

/* ---- exchanges ---- */

/* Puts the list of a slot's moves into order: those of pool slot i are list[first[i]] and so on.
 * Counts stand two places on, so that filling moves them one place back. */
static shoal_status list_moves(emitter *e, const plan_moves *moves, const uint32_t *ends,
                               uint32_t **first, uint32_t **list) {
    uint32_t n = e->d->pool->n_slots, *counts = base_arena_array(&e->d->arena, uint32_t, n + 2);
    *list = base_arena_array(&e->d->arena, uint32_t, moves->count);
    if (!counts || !*list) return SHOAL_NO_MEMORY;
    for (size_t m = 0; m < moves->count; m++)
        if (ends[m] != UINT32_MAX) counts[ends[m] + 2]++;
    for (uint32_t i = 1; i <= n; i++) counts[i + 1] += counts[i];
    for (size_t m = 0; m < moves->count; m++)
        if (ends[m] != UINT32_MAX) (*list)[counts[ends[m] + 1]++] = (uint32_t)m;
    *first = counts;
    return SHOAL_OK;
}

static shoal_status index_moves(emitter *e, plan_step *step) {
    const plan_moves *moves = &step->moves;
    const plan_layout *to = &step->to->layout;
    bool *takes = base_arena_array(&e->scratch, bool, e->d->pool->n_slots);
    uint32_t *from_at = base_arena_array(&e->scratch, uint32_t, moves->count);
    uint32_t *to_at = base_arena_array(&e->scratch, uint32_t, moves->count);
    step->ends = base_arena_array(&e->d->arena, plan_ends, 1);
    if (!takes || !from_at || !to_at || !step->ends) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < to->n_slots; i++)
        takes[plan_pool_index(e->d, to->slots[i])] = step->to->needed[i];
    for (size_t m = 0; m < moves->count; m++) {
        to_at[m] = plan_pool_index(e->d, moves->moves[m].to);
        bool taken = takes[to_at[m]];
        from_at[m] = taken ? plan_pool_index(e->d, moves->moves[m].from) : UINT32_MAX;
        if (!taken) to_at[m] = UINT32_MAX;
    }
    SHOAL_TRY(list_moves(e, moves, from_at, &step->ends->first_send, &step->ends->sends));
    return list_moves(e, moves, to_at, &step->ends->first_receive, &step->ends->receives);
}

/* Which of all moves each slot has a part in, and the channels: one for the panels of one piece. */
static shoal_status index_exchanges(emitter *e) {
    int64_t next = 0;
    for (size_t i = 0; i < e->d->steps.count; i++) {
        plan_step *step = e->d->steps.data[i];
        if (!step->live || !plan_is_exchange(step)) continue;
        SHOAL_TRY(plan_patience(e->d));
        SHOAL_TRY(index_moves(e, step));
        plan_joint *joint = step->joint;
        if (joint && !joint->emitted) joint->channel = next++;
        step->ends->channel = joint ? joint->channel : next++;
        if (joint) joint->emitted = (joint->emitted + 1) % joint->n;
        base_arena_clear(&e->scratch);
    }
    return SHOAL_OK;
}

static bool same_box(const base_box *a, const base_box *b) {
    return !memcmp(a->start, b->start, a->rank * sizeof *a->start) &&
           !memcmp(a->size, b->size, a->rank * sizeof *a->size);
}

/* Adds the slot's end of a move: from, to: its places in the layouts of the two forms. */
static shoal_status add_end(emitter *e, const plan_step *step, uint32_t m, int64_t kind, int from,
                            int to) {
    const plan_move *move = &step->moves.moves[m];
    const base_box *box = &move->box;
    bool sends = kind == SHOAL_MOVE_SEND, receives = kind == SHOAL_MOVE_RECEIVE;
    base_box in = {0}, out = {0};
    if (!receives) in = plan_layout_box(&step->from->layout, (uint32_t)from);
    if (!sends) out = plan_layout_box(&step->to->layout, (uint32_t)to);
    bool fine = base_vec_push(&e->moves, kind) &&
                base_vec_push(&e->moves, (int64_t)(step->ordinal + m)) &&
                base_vec_push(&e->moves, sends ? 0 : move->summand) &&
                base_vec_push(&e->moves, sends ? move->to : move->from);
    for (uint32_t a = 0; a < box->rank && fine; a++)
        fine = base_vec_push(&e->moves, receives ? 0 : box->start[a] - in.start[a]);
    for (uint32_t a = 0; a < box->rank && fine; a++)
        fine = base_vec_push(&e->moves, sends ? 0 : box->start[a] - out.start[a]);
    for (uint32_t a = 0; a < box->rank && fine; a++) fine = base_vec_push(&e->moves, box->size[a]);
    return fine ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* Whether the slot's target piece is the piece it has, or lies within it. */
static bool is_within(const plan_step *step, int from, int to) {
    if (from < 0 || to < 0 || !step->to->needed[to] || !step->from->needed[from] ||
        step->from->layout.parts[step->from->layout.rank] > 1)
        return false;
    base_box source = plan_layout_box(&step->from->layout, (uint32_t)from), common;
    base_box target = plan_layout_box(&step->to->layout, (uint32_t)to);
    return same_box(&source, &target) ||
           (base_box_intersect(&source, &target, &common) && same_box(&common, &target));
}

/* A piece out of the one that the slot has; all of it is the same value. */
static shoal_status cut_out(emitter *e, const plan_step *step, uint32_t from, uint32_t to) {
    base_box source = plan_layout_box(&step->from->layout, from);
    base_box target = plan_layout_box(&step->to->layout, to);
    int64_t begin[SHOAL_MAX_RANK], end[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];
    uint32_t value;
    SHOAL_TRY(local_of(e, step->from, from, &value));
    step->to->local[to] = value;
    if (same_box(&source, &target)) return SHOAL_OK;
    for (uint32_t a = 0; a < target.rank; a++) {
        begin[a] = target.start[a] - source.start[a];
        end[a] = begin[a] + target.size[a];
        strides[a] = 1;
    }
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, begin, target.rank),
                                graph_ints(SHOAL_ATTR_LIMIT_INDICES, end, target.rank),
                                graph_ints(SHOAL_ATTR_STRIDES, strides, target.rank)};
    SHOAL_TRY(graph_at(e->graph, NULL, NULL));
    return graph_add(e->graph, GRAPH_SLICE, &value, 1, attrs, 3, NULL, 0, &step->to->local[to]);
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

/* The slot's exchange node. from, to: places in the layouts of the forms; negative: it sends
 * nothing, it receives nothing. */
static shoal_status emit_end(emitter *e, const plan_step *step, int from, int to) {
    const plan_layout *layout = &step->from->layout;
    uint32_t results = to >= 0 ? layout->parts[layout->rank] : 0, first, operand = 0;
    shoal_type type = {0};
    graph *own;
    int64_t *types;
    size_t n_types;
    if (to >= 0) type = piece_type(e, step->to, (uint32_t)to);
    SHOAL_TRY(result_types(e, &type, results, &types, &n_types));
    SHOAL_TRY(graph_of(e, &own));
    shoal_attr attrs[] = {graph_int(SHOAL_ATTR_CHANNEL, step->ends->channel),
                          graph_ints(SHOAL_ATTR_MOVES, e->moves.data, e->moves.count),
                          graph_ints(SHOAL_ATTR_TYPES, types, n_types)};
    if (from >= 0) SHOAL_TRY(local_of(e, step->from, (uint32_t)from, &operand));
    SHOAL_TRY(graph_at(own, NULL, NULL));
    SHOAL_TRY(graph_add(own, GRAPH_EXCHANGE, &operand, from >= 0, attrs, 3, NULL, 0, &first));
    if (to < 0) return SHOAL_OK;
    step->to->local[to] = first;
    step->to->unjoined[to] = results - 1;
    step->to->combine = layout->combine;
    return SHOAL_OK;
}

/* A panel of several that make one piece: each is sent by a node of its own, and who receives does
 * so in one, behind the last. Nothing of them stays within a slot. */
static shoal_status emit_panel(emitter *e, const plan_step *step, int from, int to) {
    plan_joint *joint = step->joint;
    const plan_ends *ends = step->ends;
    for (uint32_t i = ends->first_send[e->at]; i < ends->first_send[e->at + 1]; i++)
        SHOAL_TRY(add_end(e, step, ends->sends[i], SHOAL_MOVE_SEND, from, to));
    if (e->moves.count) SHOAL_TRY(emit_end(e, step, from, -1));
    if (++joint->emitted < joint->n) return SHOAL_OK;
    joint->emitted = 0;
    e->moves.count = 0;
    if (to < 0) return SHOAL_OK;
    for (uint32_t k = 0; k < joint->n; k++) {
        ends = joint->steps[k]->ends;
        for (uint32_t i = ends->first_receive[e->at]; i < ends->first_receive[e->at + 1]; i++)
            SHOAL_TRY(add_end(e, joint->steps[k], ends->receives[i], SHOAL_MOVE_RECEIVE, from, to));
    }
    return emit_end(e, step, -1, to);
}

/* The slot's ends of all moves, in their order. within: a piece of what the slot has, which is cut
 * out of it. */
static shoal_status add_ends(emitter *e, const plan_step *step, int from, int to, bool within,
                             bool *reads) {
    const plan_ends *ends = step->ends;
    uint32_t s = ends->first_send[e->at], last_send = ends->first_send[e->at + 1];
    uint32_t r = ends->first_receive[e->at], last_receive = ends->first_receive[e->at + 1];
    while (s < last_send || r < last_receive) {
        uint32_t sent = s < last_send ? ends->sends[s] : UINT32_MAX;
        uint32_t received = r < last_receive ? ends->receives[r] : UINT32_MAX;
        int64_t kind = sent == received  ? SHOAL_MOVE_LOCAL
                       : sent < received ? SHOAL_MOVE_SEND
                                         : SHOAL_MOVE_RECEIVE;
        s += kind != SHOAL_MOVE_RECEIVE;
        r += kind != SHOAL_MOVE_SEND;
        if (kind == SHOAL_MOVE_LOCAL && within) continue;
        *reads |= kind != SHOAL_MOVE_RECEIVE;
        SHOAL_TRY(add_end(e, step, sent < received ? sent : received, kind, from, to));
    }
    return SHOAL_OK;
}

static shoal_status emit_exchange(emitter *e, const plan_step *step) {
    int from = plan_layout_find(&step->from->layout, e->slot);
    int to = plan_layout_find(&step->to->layout, e->slot);
    bool reads = false, within = is_within(step, from, to);
    if (to >= 0 && !step->to->needed[to]) to = -1;
    e->moves.count = 0;
    if (step->joint) return emit_panel(e, step, from, to);
    if (within) SHOAL_TRY(cut_out(e, step, (uint32_t)from, (uint32_t)to));
    SHOAL_TRY(add_ends(e, step, from, to, within, &reads));
    if (within) to = -1;
    return e->moves.count || to >= 0 ? emit_end(e, step, reads ? from : -1, to) : SHOAL_OK;
}

/* ---- whole programs ---- */

static shoal_status emit_inputs(emitter *e) {
    const shoal_graph *g = e->d->g;
    for (uint32_t v = 0; v < g->n_inputs; v++) {
        plan_form *form = e->d->values[g->inputs[v]].forms->form;
        int i = plan_layout_find(&form->layout, e->slot);
        if (i < 0 || !form->needed[i]) continue;
        shoal_type type = piece_type(e, form, (uint32_t)i);
        graph *to;
        SHOAL_TRY(graph_of(e, &to));
        SHOAL_TRY(graph_add_input(to, &type, &form->local[i]));
        if (!base_vec_push(&e->input_of, v)) return SHOAL_NO_MEMORY;
    }
    return SHOAL_OK;
}

static shoal_status emit_outputs(emitter *e) {
    for (uint32_t o = 0; o < e->d->g->n_outputs; o++) {
        plan_form *form = e->d->outputs[o];
        int i = plan_layout_find(&form->layout, e->slot);
        uint32_t local;
        if (i < 0) continue;
        SHOAL_TRY(local_of(e, form, (uint32_t)i, &local));
        SHOAL_TRY(graph_add_output(e->graph, local));
        if (!base_vec_push(&e->output_of, o)) return SHOAL_NO_MEMORY;
    }
    return SHOAL_OK;
}

static uint64_t value_bytes(const shoal_graph *g, uint32_t value) {
    return ((uint64_t)base_type_bytes(&g->values[value].type) + 63) & ~UINT64_C(63);
}

/* Whether a node reads what is spread where that lies, with steps of 0: as what computes element by
 * element from several operands does. */
static bool reads_spread(const shoal_node *node) {
    const char *category = graph_op(node->op)->category;
    return !strcmp(category, "binary") || !strcmp(category, "compare") ||
           !strcmp(category, "select");
}

static bool is_splat(const shoal_graph *g, const shoal_node *node) {
    return node->op == GRAPH_CONSTANT &&
           shoal_node_attr(node, SHOAL_ATTR_VALUE)->count !=
               (uint64_t)base_type_bytes(&g->values[node->first_output].type);
}

/* Where values lie: in their own memory, at their own number, or in that of another. What comes
 * from outside, or is one element for all, takes none. */
typedef struct memory {
    uint32_t *at;
    uint64_t *bytes;
} memory;

/* The run of nodes without exchanges that a node is in: workers make one step of it. */
static shoal_status find_steps(const shoal_graph *g, base_arena *arena, uint32_t **out) {
    uint32_t *step = *out = base_arena_array(arena, uint32_t, g->n_nodes), now = 0;
    if (!step) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        now += g->nodes[n].op == GRAPH_EXCHANGE;
        step[n] = now;
    }
    return SHOAL_OK;
}

static shoal_status find_memory(const shoal_graph *g, base_arena *arena, memory *m) {
    uint32_t *step;
    SHOAL_TRY(find_steps(g, arena, &step));
    bool *dense = base_arena_array(arena, bool, g->n_values); /* read as it would lie */
    m->at = base_arena_array(arena, uint32_t, g->n_values);
    m->bytes = base_arena_array(arena, uint64_t, g->n_values);
    if (!dense || !m->at || !m->bytes) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_outputs; i++) dense[g->outputs[i]] = true;
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const shoal_node *node = &g->nodes[n];
        bool spreads = node->op == GRAPH_BROADCAST_IN_DIM && !dense[node->first_output];
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t maker = g->values[node->inputs[i]].node;
            bool handed_on = maker != SHOAL_NO_NODE && step[maker] != step[n];
            if (handed_on || (!spreads && !reads_spread(node))) dense[node->inputs[i]] = true;
        }
    }
    for (uint32_t v = 0; v < g->n_values; v++) m->at[v] = v;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        uint32_t first = node->first_output;
        /* What only sends has no outputs: there may be nothing at `first`. */
        if (graph_is_mapped(g, node) || (is_splat(g, node) && !dense[first])) continue;
        if (node->op == GRAPH_BROADCAST_IN_DIM && !dense[first]) {
            m->at[first] = m->at[node->inputs[0]];
            continue;
        }
        for (uint32_t o = first; o < first + node->n_outputs; o++) m->bytes[o] = value_bytes(g, o);
    }
    return SHOAL_OK;
}

/* Most bytes of node results that live at once; each lives until its last reader is done. */
static shoal_status measure_peak(const shoal_graph *g, base_arena *arena, uint64_t *out) {
    memory m;
    SHOAL_TRY(find_memory(g, arena, &m));
    uint32_t *last = base_arena_array(arena, uint32_t, g->n_values); /* reader's number + 1 */
    if (!last) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t i = 0; i < g->nodes[n].n_inputs; i++)
            last[m.at[g->nodes[n].inputs[i]]] = n + 1;
    for (uint32_t i = 0; i < g->n_outputs; i++) last[g->outputs[i]] = UINT32_MAX;
    uint64_t live = 0;
    *out = 0;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        for (uint32_t o = 0; o < node->n_outputs; o++) live += m.bytes[node->first_output + o];
        if (live > *out) *out = live;
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (!last[node->first_output + o]) live -= m.bytes[node->first_output + o];
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t value = m.at[node->inputs[i]];
            if (last[value] != n + 1) continue;
            live -= m.bytes[value];
            last[value] = UINT32_MAX; /* an operand may be read twice by one node */
        }
    }
    return SHOAL_OK;
}

/* What is sent, which stays until it has gone, and what comes. */
static shoal_status measure_exchanged(const shoal_graph *g, base_arena *arena, uint64_t *out) {
    bool *seen = base_arena_array(arena, bool, g->n_values);
    if (!seen) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        if (node->op != GRAPH_EXCHANGE) continue;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            uint32_t value = node->inputs[i];
            if (g->values[value].node != SHOAL_NO_NODE && !seen[value])
                *out += value_bytes(g, value);
            seen[value] = true;
        }
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            *out += value_bytes(g, node->first_output + o);
            seen[node->first_output + o] = true; /* it may be passed on */
        }
    }
    return SHOAL_OK;
}

/* The program that is written, as bytes. */
static shoal_status give(emitter *e, plan_result *out) {
    size_t most = e->d->pool->most;
    plan_program *program = &out->programs[out->n_programs++];
    *program = (plan_program){.slot = e->slot,
                              .n_inputs = (uint32_t)e->input_of.count,
                              .n_outputs = (uint32_t)e->output_of.count,
                              .flops = e->flops,
                              .seconds = e->seconds};
    for (base_figure f = 0; f < BASE_STREAM; f++)
        if (!e->open && e->bound[f] > program->bound) {
            program->bound = e->bound[f];
            program->products = e->products[f];
            program->figure = f;
        }
    program->input_of = base_arena_copy(&out->arena, e->input_of.data,
                                        e->input_of.count * sizeof *e->input_of.data);
    program->output_of = base_arena_copy(&out->arena, e->output_of.data,
                                         e->output_of.count * sizeof *e->output_of.data);
    if (!program->input_of || !program->output_of) return SHOAL_NO_MEMORY;
    SHOAL_TRY(measure_peak(graph_data(e->graph), &e->scratch, &program->peak));
    SHOAL_TRY(measure_exchanged(graph_data(e->graph), &e->scratch, &program->exchanged));
    SHOAL_TRY(graph_encode(graph_data(e->graph), true, &program->encoded));
    e->held += program->encoded.size;
    if (!most || e->held <= most) return SHOAL_OK;
    return base_fail(SHOAL_NO_MEMORY,
                     "the programs of the pool's slots would take over %zu MiB: make smaller ones",
                     most >> 20);
}

/* The program of a slot, if it has a part in anything. */
static shoal_status emit_slot(emitter *e, plan_result *out) {
    SHOAL_TRY(emit_inputs(e));
    for (size_t i = 0; i < e->d->steps.count; i++) {
        const plan_step *step = e->d->steps.data[i];
        if (!step->live) continue;
        SHOAL_TRY(plan_patience(e->d));
        SHOAL_TRY(plan_is_exchange(step) ? emit_exchange(e, step) : emit_compute(e, step));
        base_arena_clear(&e->scratch);
    }
    SHOAL_TRY(emit_outputs(e));
    if (e->graph) SHOAL_TRY(give(e, out));
    base_arena_clear(&e->scratch);
    return SHOAL_OK;
}

static shoal_status emit(emitter *e, plan_result *out) {
    const plan_pool *pool = e->d->pool;
    out->programs = base_arena_array(&out->arena, plan_program, pool->n_slots);
    out->outputs = base_arena_array(&out->arena, plan_layout, e->d->g->n_outputs);
    if (!out->programs || !out->outputs) return SHOAL_NO_MEMORY;
    for (uint32_t o = 0; o < e->d->g->n_outputs; o++)
        SHOAL_TRY(plan_layout_copy(&out->arena, &e->d->outputs[o]->layout, &out->outputs[o]));
    SHOAL_TRY(index_exchanges(e));
    shoal_status status = SHOAL_OK;
    for (e->at = 0; status == SHOAL_OK && e->at < pool->n_slots; e->at++) {
        e->slot = pool->slots[e->at].slot;
        e->input_of.count = e->output_of.count = 0;
        e->flops = e->seconds = 0;
        e->open = false;
        memset(e->bound, 0, sizeof e->bound);
        memset(e->products, 0, sizeof e->products);
        status = emit_slot(e, out);
        graph_destroy(&e->graph);
    }
    return status;
}

shoal_status plan_emit(plan_draft *d, plan_result *out) {
    emitter e = {.d = d};
    base_arena_init(&e.scratch, 0);
    shoal_status status = emit(&e, out);
    free(e.input_of.data);
    free(e.output_of.data);
    free(e.moves.data);
    base_arena_fini(&e.scratch);
    return status;
}
