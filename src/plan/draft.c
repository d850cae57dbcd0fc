/* Forms of values, the cheapest route to a layout, and the steps along it. */
#include "plan/draft.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

/* Between slots of one peer: a copy in memory and a wake-up. */
static const double NEAR_BYTES = 5e9, NEAR_DELAY = 5e-5;
/* Summands of a value that cannot be cut, each of whose owners joins them. */
enum { MOST_JOINING = 8 };
/* What takes as many delays of a link is worth sending by way of others. */
static const double PARTS_DELAYS = 50;
/* Exchanges on the way to a form. */
enum { MOST_HOPS = 8 };
/* Nanoseconds, a day: by which a limit of time may be extended. */
static const double LONGEST = 864e11;
/* One look at the clock for as many questions. */
enum { OFTEN = 16 };
/* Elements of an axis per part, so that it matters little when one has one more. */
enum { EVEN = 16 };

/* What takes long is asked of a slow machine for longer: there, everything does. */
static shoal_status extend(plan_draft *d) {
    int64_t start = base_thread_time(), pace = d->pool->pace;
    d->paced = true;
    if (!pace) SHOAL_TRY(plan_pace(&pace));
    double slower = fmax(0, (double)pace / PLAN_PACE - 1);
    d->until += (int64_t)fmin(slower * (double)d->pool->patience, LONGEST);
    /* What that took is no part of the plan. */
    int64_t took = base_thread_time() - start;
    d->since += took;
    d->until += took;
    return SHOAL_OK;
}

shoal_status plan_patience(plan_draft *d) {
    if (!d->until || d->looks++ % OFTEN) return SHOAL_OK;
    int64_t now = base_now();
    if (now < d->look) return SHOAL_OK;
    if (d->until <= base_thread_time() && !d->paced) SHOAL_TRY(extend(d));
    int64_t left = d->until - base_thread_time();
    d->look = now + left;
    if (left > 0) return SHOAL_OK;
    return base_fail(SHOAL_TIMEOUT,
                     "planning takes over %.0f s: make smaller programs, or use fewer slots",
                     (double)(d->until - d->since) / BASE_SECOND);
}

uint32_t plan_pool_index(const plan_draft *d, uint32_t slot) {
    const plan_slot *found = base_map_get(&d->index, slot);
    return found ? (uint32_t)(found - d->pool->slots) : UINT32_MAX;
}

uint32_t plan_source(const plan_draft *d, uint32_t value) {
    while (d->values[value].placed) value = d->values[value].source;
    return value;
}

static uint32_t peer_of(void *context, uint32_t slot) {
    const plan_draft *d = context;
    return d->pool->slots[plan_pool_index(d, slot)].peer;
}

static bool computes(const plan_draft *d, const plan_layout *layout) {
    for (uint32_t i = 0; i < layout->n_slots; i++)
        if (!d->pool->slots[plan_pool_index(d, layout->slots[i])].compute) return false;
    return true;
}

static bool is_partial(const plan_layout *layout) { return layout->parts[layout->rank] > 1; }

static size_t element_bytes(const plan_draft *d, uint32_t value) {
    return shoal_dtype_size((shoal_dtype)d->g->values[value].type.dtype);
}

shoal_status plan_form_slots(plan_draft *d, plan_form *form) {
    uint32_t n = form->layout.n_slots;
    form->needed = base_arena_array(&d->arena, bool, n);
    form->local = base_arena_array(&d->arena, uint32_t, n);
    form->unjoined = base_arena_array(&d->arena, uint32_t, n);
    if (!form->needed || !form->local || !form->unjoined) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) form->local[i] = GRAPH_NO_VALUE;
    return SHOAL_OK;
}

shoal_status plan_add_form(plan_draft *d, uint32_t value, const plan_layout *layout,
                           plan_form **out) {
    plan_form *form = base_arena_array(&d->arena, plan_form, 1);
    plan_forms *cell = base_arena_array(&d->arena, plan_forms, 1);
    if (!form || !cell) return SHOAL_NO_MEMORY;
    *form = (plan_form){.layout = *layout, .value = value, .covers = plan_covered(layout)};
    SHOAL_TRY(plan_form_slots(d, form));
    cell->form = form;
    plan_forms **end = &d->values[value].forms;
    uint32_t n = 1;
    for (; *end && n < PLAN_MOST_SOURCES; n++) end = &(*end)->next;
    *out = form;
    if (*end && !form->covers) return SHOAL_OK; /* no source for others */
    cell->next = *end;                          /* the newest, where there are too many */
    *end = cell;
    return SHOAL_OK;
}

/* ---- costs ---- */

const plan_link *plan_link_between(const plan_draft *d, uint32_t from, uint32_t to) {
    return base_map_get(&d->links, plan_link_key(from, to));
}

/* Bytes per second from one peer to another, on which the plan depends from here on. */
static double link_bytes(const plan_draft *d, uint32_t from, uint32_t to) {
    plan_draft *noted = (plan_draft *)d;
    uint64_t key = plan_link_key(from, to);
    if (!base_map_get(&d->asked, key) && base_map_set(&noted->asked, key, noted) != SHOAL_OK)
        noted->asked_all = true;
    const plan_link *link = plan_link_between(d, from, to);
    if (!link) link = plan_link_between(d, to, from); /* cables are alike both ways */
    return link ? link->bytes : d->pool->link_bytes;
}

/* The place in the pool of the first slot of a slot's peer. */
uint32_t plan_first_slot(const plan_draft *d, uint32_t slot) {
    uint32_t at = plan_pool_index(d, slot), peer = d->pool->slots[at].peer;
    while (at && d->pool->slots[at - 1].peer == peer) at--;
    return at;
}

/* Between the machine's memory and a device's own; *longest: the largest delay so far. */
static double device_seconds(const plan_draft *d, uint32_t slot, uint64_t bytes, double *longest) {
    const double *of = d->pool->slots[plan_pool_index(d, slot)].speeds.of;
    *longest = fmax(*longest, of[BASE_TRANSFER_DELAY]);
    return of[BASE_TRANSFER] > 0 ? (double)bytes / of[BASE_TRANSFER] : 0;
}

void plan_moves_cost(const plan_draft *d, const plan_moves *moves, const plan_form *to,
                     size_t bytes_each, double *seconds, double *delay, uint64_t *bytes) {
    bool any_far = false, any_near = false, counted = true;
    uint32_t at = 0, slot = UINT32_MAX;
    uint64_t total = 0;
    double longest = 0;
    *seconds = *delay = 0;
    *bytes = 0;
    if (!moves->count) return;
    /* Each peer sends on its links one after another, and receives likewise; peers work at once. */
    double *out = base_arena_array((base_arena *)&d->scratch, double, d->pool->n_slots);
    double *in = base_arena_array((base_arena *)&d->scratch, double, d->pool->n_slots);
    if (!out || !in) return;
    for (size_t m = 0; m < moves->count; m++) {
        const plan_move *move = &moves->moves[m];
        if (to && (m == 0 || move->to != slot)) {
            slot = move->to;
            at = (uint32_t)plan_layout_find(&to->layout, slot);
            counted = to->needed[at];
        }
        if (!counted || move->from == move->to) continue;
        uint64_t size = (uint64_t)base_box_count(&move->box) * bytes_each;
        uint32_t from_peer = peer_of((void *)d, move->from), to_peer = peer_of((void *)d, move->to);
        bool is_near = from_peer == to_peer;
        double took = (double)size / (is_near ? NEAR_BYTES : link_bytes(d, from_peer, to_peer));
        out[plan_first_slot(d, move->from)] += took + device_seconds(d, move->from, size, &longest);
        in[plan_first_slot(d, move->to)] += took + device_seconds(d, move->to, size, &longest);
        total += size;
        any_near |= is_near;
        any_far |= !is_near;
    }
    for (uint32_t i = 0; i < d->pool->n_slots; i++) *seconds = fmax(*seconds, fmax(out[i], in[i]));
    *bytes = total;
    if (any_far || any_near)
        *delay = (any_far ? d->pool->link_delay : fmin(NEAR_DELAY, d->pool->link_delay)) + longest;
    *seconds += *delay;
}

shoal_status plan_move_cost(plan_draft *d, uint32_t value, const plan_layout *from,
                            const plan_layout *to, double *seconds, int64_t *bytes) {
    plan_moves moves;
    uint64_t moved;
    double delay;
    SHOAL_TRY(plan_patience(d));
    SHOAL_TRY(plan_reshard(&d->scratch, from, to, peer_of, d, &moves));
    plan_moves_cost(d, &moves, NULL, element_bytes(d, value), seconds, &delay, &moved);
    *bytes = (int64_t)moved;
    return SHOAL_OK;
}

/* ---- joining ---- */

/* Gives each summand of a part its share of it, by the weights of those who hold it. */
static shoal_status cut_again(const plan_draft *d, const plan_layout *partial, uint32_t axis,
                              int64_t granule, base_arena *arena, int64_t *cuts) {
    uint32_t rank = partial->rank, summands = partial->parts[rank], parts = partial->parts[axis];
    double *weights = base_arena_array(arena, double, (size_t)parts *summands);
    if (!weights) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < partial->n_slots; i++) {
        const uint32_t *at = partial->coords + (size_t)i * (rank + 1);
        weights[at[axis] * summands + at[rank]] +=
            d->pool->slots[plan_pool_index(d, partial->slots[i])].weight;
    }
    for (uint32_t p = 0; p < parts; p++) {
        int64_t begin = partial->cuts[axis][p], size = partial->cuts[axis][p + 1] - begin;
        double total = 0;
        for (uint32_t s = 0; s < summands; s++) total += weights[p * summands + s];
        int64_t *inner = cuts + (size_t)p * summands;
        int64_t whole = begin % granule || size % granule ? 1 : granule; /* cut elsewhere before */
        SHOAL_TRY(plan_cuts(size, whole, total > 0 ? weights + (size_t)p * summands : NULL,
                            summands, inner));
        for (uint32_t s = 0; s <= summands; s++) inner[s] += begin;
    }
    return SHOAL_OK;
}

/* Where there is nothing to be cut again, each summand's owner gets all of the joined box while
 * they are few: what follows is done by each of them, and nobody waits for one that does it for
 * all. Of many only one summand's owners keep it. */
static shoal_status join_whole(base_arena *arena, const plan_layout *partial, plan_layout *out) {
    uint32_t rank = partial->rank, n = 0;
    SHOAL_TRY(plan_layout_copy(arena, partial, out));
    uint32_t *slots = (uint32_t *)out->slots, *coords = (uint32_t *)out->coords;
    for (uint32_t i = 0; i < partial->n_slots; i++) {
        if (partial->parts[rank] > MOST_JOINING && plan_layout_summand(partial, i) != 0) continue;
        slots[n] = partial->slots[i];
        memcpy(coords + (size_t)n * (rank + 1), partial->coords + (size_t)i * (rank + 1),
               rank * sizeof *coords);
        coords[(size_t)n++ * (rank + 1) + rank] = 0;
    }
    out->n_slots = n;
    out->parts[rank] = 1;
    return SHOAL_OK;
}

shoal_status plan_join_layout(plan_draft *d, base_arena *arena, uint32_t value,
                              const plan_layout *partial, plan_layout *out) {
    uint32_t rank = partial->rank, summands = partial->parts[rank], axis = 0;
    int64_t dims[SHOAL_MAX_RANK] = {0}, units[SHOAL_MAX_RANK] = {0};
    for (uint32_t a = 0; a < rank; a++) {
        dims[a] = partial->cuts[a][partial->parts[a]];
        units[a] = plan_units(d, value, a);
        /* The first axis whose parts come out even enough, as its parts lie in one piece. */
        if (units[a] > units[axis] && units[axis] < (int64_t)EVEN * summands) axis = a;
    }
    if (!computes(d, partial)) { /* a client cannot add: the first that may compute does */
        uint32_t i = 0;
        while (i < d->pool->n_slots && !d->eligible[i]) i++;
        if (i == d->pool->n_slots)
            return base_fail(SHOAL_INVALID, "no slot of the pool computes; partial results cannot "
                                            "be joined");
        return plan_layout_whole(arena, rank, dims, &d->pool->slots[i].slot, 1, out);
    }
    if (rank == 0 || units[axis] < 2 || partial->parts[axis] * summands > PLAN_MAX_PARTS)
        return join_whole(arena, partial, out);
    SHOAL_TRY(plan_layout_copy(arena, partial, out));
    out->parts[axis] *= summands;
    out->parts[rank] = 1;
    int64_t *cuts = base_arena_array(arena, int64_t, (size_t)out->parts[axis] + 1);
    if (!cuts) return SHOAL_NO_MEMORY;
    SHOAL_TRY(cut_again(d, partial, axis, plan_granule(d, value, axis), arena, cuts));
    out->cuts[axis] = cuts;
    uint32_t *coords = (uint32_t *)out->coords;
    for (uint32_t i = 0; i < out->n_slots; i++) {
        uint32_t *at = coords + (size_t)i * (rank + 1);
        at[axis] = at[axis] * summands + at[rank];
        at[rank] = 0;
    }
    return SHOAL_OK;
}

shoal_status plan_natural_layout(plan_draft *d, uint32_t value, plan_layout *out, bool *found) {
    const plan_held *held = &d->values[plan_source(d, value)];
    const plan_layout *placed = d->values[value].placed;
    *found = true;
    if (placed && held->deferred) {
        *out = *placed;
        return SHOAL_OK;
    }
    if (held->forms) {
        const plan_layout *layout = &held->forms->form->layout;
        if (is_partial(layout))
            return plan_join_layout(d, &d->scratch, held->forms->form->value, layout, out);
        *out = *layout;
    } else if (held->has_hint) {
        *out = held->hint;
    } else {
        *found = false;
    }
    return SHOAL_OK;
}

/* ---- routes ---- */

typedef struct route {
    enum { NONE, HAVE, MOVE, JOIN, COMPUTE } kind;
    plan_form *from;
    plan_layout via;      /* JOIN: joined in this layout first */
    plan_layout division; /* COMPUTE */
    const graph_axes *axes;
    double seconds;
    int64_t bytes;
} route;

static void offer(route *best, const route *r) {
    if (best->kind == NONE || r->seconds < best->seconds ||
        (r->seconds == best->seconds && r->bytes < best->bytes))
        *best = *r;
}

/* The copies of a layout as if they were summands, of which each owner takes a part. */
static shoal_status as_summands(base_arena *arena, const plan_layout *layout, plan_layout *out,
                                bool *equal) {
    uint32_t rank = layout->rank, boxes = 1, copies;
    SHOAL_TRY(plan_layout_copy(arena, layout, out));
    for (uint32_t a = 0; a < rank; a++) boxes *= out->parts[a];
    copies = out->n_slots / boxes;
    *equal = copies > 1 && out->n_slots % boxes == 0;
    uint32_t *seen = base_arena_array(arena, uint32_t, boxes), *coords = (uint32_t *)out->coords;
    if (!seen) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < out->n_slots && *equal; i++) {
        uint32_t box = 0, *at = coords + (size_t)i * (rank + 1);
        for (uint32_t a = 0; a < rank; a++) box = box * out->parts[a] + at[a];
        at[rank] = seen[box]++;
        *equal = at[rank] < copies;
    }
    out->parts[rank] = copies;
    return SHOAL_OK;
}

/* Copies in several places, of what is large: each gets a part from who has it, and the others from
 * each other. */
static shoal_status offer_parts(plan_draft *d, uint32_t value, const plan_layout *to,
                                const route *direct, route *best) {
    route r = {.kind = JOIN, .from = direct->from};
    plan_layout copies;
    bool equal;
    double seconds;
    int64_t bytes;
    if (direct->seconds < PARTS_DELAYS * d->pool->link_delay || !computes(d, to)) return SHOAL_OK;
    SHOAL_TRY(as_summands(&d->scratch, to, &copies, &equal));
    if (!equal) return SHOAL_OK;
    SHOAL_TRY(plan_join_layout(d, &d->scratch, value, &copies, &r.via));
    SHOAL_TRY(plan_move_cost(d, value, &r.from->layout, &r.via, &r.seconds, &r.bytes));
    SHOAL_TRY(plan_move_cost(d, value, &r.via, to, &seconds, &bytes));
    r.seconds += seconds;
    r.bytes += bytes;
    offer(best, &r);
    return SHOAL_OK;
}

static shoal_status offer_form(plan_draft *d, uint32_t value, const plan_layout *to,
                               plan_form *form, route *best) {
    route r = {.kind = MOVE, .from = form};
    bool partial = is_partial(&form->layout);
    if (!partial || computes(d, to)) {
        SHOAL_TRY(plan_move_cost(d, value, &form->layout, to, &r.seconds, &r.bytes));
        offer(best, &r);
    }
    if (!partial) return offer_parts(d, value, to, &r, best);
    double seconds;
    int64_t bytes;
    r.kind = JOIN;
    SHOAL_TRY(plan_join_layout(d, &d->scratch, value, &form->layout, &r.via));
    SHOAL_TRY(plan_move_cost(d, value, &form->layout, &r.via, &r.seconds, &r.bytes));
    SHOAL_TRY(plan_move_cost(d, value, &r.via, to, &seconds, &bytes));
    r.seconds += seconds;
    r.bytes += bytes;
    offer(best, &r);
    return SHOAL_OK;
}

/* Computing a deferred value where it is needed. */
static shoal_status offer_compute(plan_draft *d, uint32_t value, const plan_layout *to,
                                  route *best) {
    const shoal_value *v = &d->g->values[value];
    const shoal_node *node = &d->g->nodes[v->node];
    route r = {.kind = COMPUTE};
    bool valid;
    SHOAL_TRY(plan_node_axes(d, v->node, &r.axes));
    SHOAL_TRY(plan_lift(d, &d->scratch, v->node, r.axes, to, r.axes->outputs[v->index], NULL,
                        &r.division, &valid));
    if (!valid || r.division.n_slots != to->n_slots) return SHOAL_OK;
    plan_work work;
    double seconds;
    int64_t bytes;
    SHOAL_TRY(plan_node_work(d, v->node, &work));
    r.seconds = plan_compute_seconds(d, r.axes, &r.division, &work, NULL);
    for (uint32_t o = 0; o < node->n_inputs; o++) {
        plan_layout need;
        SHOAL_TRY(
            plan_operand(d, &d->scratch, v->node, r.axes, &r.division, o, &need, &seconds, &bytes));
        r.seconds += seconds;
        r.bytes += bytes;
    }
    offer(best, &r);
    return SHOAL_OK;
}

static shoal_status find_route(plan_draft *d, uint32_t value, const plan_layout *to, route *best) {
    const plan_held *held = &d->values[value];
    uint32_t n = 0;
    *best = (route){.kind = NONE};
    for (const plan_forms *f = held->forms; f && n++ < PLAN_MOST_SOURCES; f = f->next)
        if (plan_layout_equal(&f->form->layout, to)) {
            *best = (route){.kind = HAVE, .from = f->form};
            return SHOAL_OK;
        }
    n = 0;
    for (const plan_forms *f = held->forms; f && n++ < PLAN_MOST_SOURCES; f = f->next)
        if (f->form->hops < MOST_HOPS && f->form->covers)
            SHOAL_TRY(offer_form(d, value, to, f->form, best));
    if (held->deferred) SHOAL_TRY(offer_compute(d, value, to, best));
    return SHOAL_OK;
}

shoal_status plan_need_cost(plan_draft *d, uint32_t value, const plan_layout *to, double *seconds,
                            int64_t *bytes) {
    route r;
    value = plan_source(d, value);
    SHOAL_TRY(find_route(d, value, to, &r));
    *seconds = r.seconds;
    *bytes = r.bytes;
    if (r.kind == NONE) { /* will be made somewhere else and sent here */
        *bytes = base_type_bytes(&d->g->values[value].type);
        *seconds = (double)*bytes / d->pool->link_bytes + d->pool->link_delay;
    }
    return SHOAL_OK;
}

static shoal_status add_step(plan_draft *d, plan_step **out) {
    *out = base_arena_array(&d->arena, plan_step, 1);
    if (!*out || !base_vec_push(&d->steps, *out)) return SHOAL_NO_MEMORY;
    return SHOAL_OK;
}

static shoal_status add_exchange(plan_draft *d, plan_form *from, const plan_layout *to,
                                 plan_form **out) {
    plan_step *step;
    plan_layout layout;
    SHOAL_TRY(plan_layout_copy(&d->arena, to, &layout));
    SHOAL_TRY(plan_add_form(d, from->value, &layout, out));
    (*out)->hops = from->hops + 1;
    SHOAL_TRY(add_step(d, &step));
    *step = (plan_step){.node = SHOAL_NO_NODE, .from = from, .to = *out};
    return plan_reshard(&d->arena, &from->layout, &layout, peer_of, d, &step->moves);
}

shoal_status plan_add_compute(plan_draft *d, uint32_t n, const graph_axes *axes,
                              const plan_layout *division) {
    const shoal_node *node = &d->g->nodes[n];
    plan_step made = {.node = n}, *step;
    plan_layout layout;
    double seconds;
    int64_t bytes;
    made.axes = axes;
    SHOAL_TRY(plan_layout_copy(&d->arena, division, &made.division));
    SHOAL_TRY(plan_node_work(d, n, &made.work));
    made.inputs = base_arena_array(&d->arena, plan_form *, node->n_inputs);
    made.outputs = base_arena_array(&d->arena, plan_form *, node->n_outputs);
    if (!made.inputs || !made.outputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        SHOAL_TRY(
            plan_operand(d, &d->arena, n, made.axes, &made.division, i, &layout, &seconds, &bytes));
        SHOAL_TRY(plan_need(d, node->inputs[i], &layout, &made.inputs[i]));
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        uint32_t value = node->first_output + i;
        SHOAL_TRY(plan_result_layout(&d->arena, made.axes, &made.division,
                                     &d->g->values[value].type, i, &layout));
        SHOAL_TRY(plan_add_form(d, value, &layout, &made.outputs[i]));
    }
    SHOAL_TRY(add_step(d, &step));
    *step = made;
    return SHOAL_OK;
}

/* Computes a deferred value that cannot be computed where it is needed. */
static shoal_status materialise(plan_draft *d, uint32_t n) {
    const graph_axes *axes;
    plan_layout division;
    SHOAL_TRY(plan_node_axes(d, n, &axes));
    SHOAL_TRY(plan_divide(d, n, axes, &division));
    return plan_add_compute(d, n, axes, &division);
}

shoal_status plan_need(plan_draft *d, uint32_t value, const plan_layout *to, plan_form **out) {
    route r;
    value = plan_source(d, value);
    SHOAL_TRY(find_route(d, value, to, &r));
    switch (r.kind) {
    case HAVE: *out = r.from; return SHOAL_OK;
    case MOVE: return add_exchange(d, r.from, to, out);
    case JOIN:
        SHOAL_TRY(add_exchange(d, r.from, &r.via, out));
        if (plan_layout_equal(&r.via, to)) return SHOAL_OK;
        return add_exchange(d, *out, to, out);
    case COMPUTE: {
        const shoal_value *v = &d->g->values[value];
        SHOAL_TRY(plan_add_compute(d, v->node, r.axes, &r.division));
        *out = d->steps.data[d->steps.count - 1]->outputs[v->index];
        if (plan_layout_equal(&(*out)->layout, to)) return SHOAL_OK;
        return add_exchange(d, *out, to, out); /* finer than its loops may be cut */
    }
    case NONE: break;
    }
    SHOAL_TRY(materialise(d, d->g->values[value].node));
    return plan_need(d, value, to, out);
}

/* ---- what is needed ---- */

/* Fills where[place in the pool] with the index in the layout. */
static void index_slots(const plan_draft *d, const plan_layout *layout, uint32_t *where) {
    for (uint32_t i = 0; i < layout->n_slots; i++) where[plan_pool_index(d, layout->slots[i])] = i;
}

static void finish_exchange(plan_draft *d, plan_step *step, uint32_t *from_at, uint32_t *to_at) {
    index_slots(d, &step->from->layout, from_at);
    index_slots(d, &step->to->layout, to_at);
    for (uint32_t i = 0; i < step->to->layout.n_slots; i++) step->live |= step->to->needed[i];
    for (size_t m = 0; m < step->moves.count; m++) {
        const plan_move *move = &step->moves.moves[m];
        if (!step->to->needed[to_at[plan_pool_index(d, move->to)]]) continue;
        step->from->needed[from_at[plan_pool_index(d, move->from)]] = true;
    }
    plan_moves_cost(d, &step->moves, step->to, element_bytes(d, step->from->value), &step->seconds,
                    &step->delay, &step->bytes);
}

static shoal_status finish_compute(plan_draft *d, plan_step *step, uint32_t number) {
    const shoal_node *node = &d->g->nodes[step->node];
    bool *needed = step->needed = base_arena_array(&d->arena, bool, step->division.n_slots);
    if (!needed) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < step->division.n_slots; i++) {
        for (uint32_t o = 0; o < node->n_outputs; o++) needed[i] |= step->outputs[o]->needed[i];
        step->live |= needed[i];
        /* An operand's form lists the slots of the division in the same order: equal layouts do. */
        for (uint32_t o = 0; o < node->n_inputs && needed[i]; o++)
            step->inputs[o]->needed[i] = true;
        for (uint32_t o = 0; o < node->n_outputs && needed[i]; o++)
            step->outputs[o]->needed[i] = true;
    }
    plan_load load;
    SHOAL_TRY(plan_load_begin(d, &d->scratch, &load));
    for (uint32_t o = 0; o < node->n_inputs; o++) {
        if (step->inputs[o]->counted == number + 1) continue; /* it is read twice */
        step->inputs[o]->counted = number + 1;
        plan_load_add(d, &load, &step->inputs[o]->layout, step->inputs[o]->value, needed);
    }
    for (uint32_t o = 0; o < node->n_outputs; o++)
        plan_load_add(d, &load, &step->outputs[o]->layout, step->outputs[o]->value, needed);
    step->seconds = plan_compute_seconds(d, step->axes, &step->division, &step->work, needed) +
                    plan_load_seconds(d, &load);
    return SHOAL_OK;
}

shoal_status plan_draft_finish(plan_draft *d) {
    uint32_t *from_at = base_arena_array(&d->arena, uint32_t, d->pool->n_slots);
    uint32_t *to_at = base_arena_array(&d->arena, uint32_t, d->pool->n_slots);
    if (!from_at || !to_at) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < d->g->n_outputs; i++)
        for (uint32_t s = 0; s < d->outputs[i]->layout.n_slots; s++)
            d->outputs[i]->needed[s] = true;
    for (size_t i = d->steps.count; i-- > 0;) {
        plan_step *step = d->steps.data[i];
        if (plan_is_exchange(step))
            finish_exchange(d, step, from_at, to_at);
        else
            SHOAL_TRY(finish_compute(d, step, (uint32_t)i));
        SHOAL_TRY(plan_patience(d));
        d->seconds += step->seconds;
        d->bytes += step->bytes;
    }
    base_arena_fini(&d->scratch);
    return SHOAL_OK;
}
