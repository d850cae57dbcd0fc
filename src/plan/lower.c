/* Lowering: drafts the whole graph over the pool and on the best slot alone, and writes the
 * programs of the cheaper. */
#include "plan/draft.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How many values may be made where they are needed, one of the next: each is thought of once more
 * for each that is made of it. */
enum { MOST_DEFERRED = 16 };

/* ---- checks of the arguments ---- */

static shoal_status check_pool(const plan_pool *pool) {
    if (!(pool->link_bytes > 0) || !(pool->link_delay >= 0) || !isfinite(pool->link_delay))
        return base_fail(SHOAL_INVALID,
                         "links of %g bytes per second and %g seconds delay; give measured ones",
                         pool->link_bytes, pool->link_delay);
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        const plan_slot *slot = &pool->slots[i];
        if (!isfinite(slot->weight) || slot->weight < 0)
            return base_fail(SHOAL_INVALID, "slot %u has weight %g; weights are not negative",
                             slot->slot, slot->weight);
        for (int f = 0; slot->compute && f < BASE_STREAM; f++)
            if (!(slot->speeds.of[f] > 0))
                return base_fail(SHOAL_INVALID,
                                 "slot %u does %g operations per second; give a measured speed",
                                 slot->slot, slot->speeds.of[f]);
    }
    return SHOAL_OK;
}

static shoal_status check_layout(const plan_draft *d, const plan_layout *layout,
                                 const shoal_type *type) {
    SHOAL_TRY(plan_layout_verify(layout, type->rank, type->dims));
    for (uint32_t i = 0; i < layout->n_slots; i++)
        if (plan_pool_index(d, layout->slots[i]) == UINT32_MAX)
            return base_fail(SHOAL_INVALID, "slot %u is not in the pool", layout->slots[i]);
    return SHOAL_OK;
}

/* ---- a draft ---- */

static void draft_fini(plan_draft *d) {
    base_map_fini(&d->index);
    base_map_fini(&d->links);
    base_map_fini(&d->asked);
    base_arena_fini(&d->arena);
    base_arena_fini(&d->scratch);
    free(d->steps.data);
    *d = (plan_draft){0};
}

/* only: the one slot that may compute, or NULL. A weight of 0 keeps work away, unless all are 0. */
static shoal_status draft_init(plan_draft *d, const shoal_graph *g, const plan_pool *pool,
                               const plan_slot *only) {
    *d = (plan_draft){.g = g, .pool = pool};
    base_arena_init(&d->arena, pool->most);
    base_arena_init(&d->scratch, pool->most);
    base_map_init(&d->index);
    base_map_init(&d->links);
    base_map_init(&d->asked);
    d->eligible = base_arena_array(&d->arena, bool, pool->n_slots);
    d->values = base_arena_array(&d->arena, plan_held, g->n_values);
    d->axes = base_arena_array(&d->arena, graph_axes *, g->n_nodes);
    d->outputs = base_arena_array(&d->arena, plan_form *, g->n_outputs);
    if (!d->eligible || !d->values || !d->axes || !d->outputs) return SHOAL_NO_MEMORY;
    bool weighed = false;
    for (uint32_t i = 0; i < pool->n_slots; i++)
        weighed |= pool->slots[i].compute && pool->slots[i].weight > 0;
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        const plan_slot *slot = &pool->slots[i];
        if (base_map_get(&d->index, slot->slot))
            return base_fail(SHOAL_INVALID, "slot %u is twice in the pool", slot->slot);
        SHOAL_TRY(base_map_set(&d->index, slot->slot, (void *)slot));
        d->eligible[i] = slot->compute && (slot->weight > 0 || !weighed) && (!only || only == slot);
    }
    for (uint32_t i = 0; i < pool->n_links; i++) {
        const plan_link *link = &pool->links[i];
        if (!(link->bytes > 0))
            return base_fail(SHOAL_INVALID,
                             "the link from peer %u to %u carries %g bytes per second", link->from,
                             link->to, link->bytes);
        SHOAL_TRY(base_map_set(&d->links, plan_link_key(link->from, link->to), (void *)link));
    }
    return SHOAL_OK;
}

static shoal_status place_layout(plan_draft *d, uint32_t n, plan_layout *out) {
    const shoal_node *node = &d->g->nodes[n];
    const shoal_type *type = &d->g->values[node->first_output].type;
    const shoal_attr *cuts = shoal_node_attr(node, SHOAL_ATTR_CUTS);
    const shoal_attr *slots = shoal_node_attr(node, SHOAL_ATTR_SLOTS);
    shoal_status status = plan_layout_from_ints(&d->arena, type->rank, type->dims, cuts->u.ints,
                                                cuts->count, slots->u.ints, slots->count, out);
    if (status == SHOAL_OK) status = check_layout(d, out, type);
    const shoal_attr *suggested = shoal_node_attr(node, SHOAL_ATTR_SUGGESTED);
    const shoal_attr *shares = shoal_node_attr(node, SHOAL_ATTR_SHARES);
    out->given = !suggested || !suggested->u.i;
    /* Cut points that nobody named may move. */
    if (status == SHOAL_OK && (!out->given || (shares && shares->u.i)))
        status = plan_round_cuts(d, node->first_output, out);
    return status;
}

static shoal_status blame(const shoal_node *node, uint32_t n, shoal_status status) {
    return base_fail_prefix(status, "node %u (%s)%s%s: ", n, shoal_op_name(node->op),
                            node->location ? " at " : "", node->location ? node->location : "");
}

/* A value that is picked from is brought somewhere once, for all who do so. */
static void count_picks(plan_draft *d, const shoal_node *node, const graph_axes *axes) {
    bool picks = axes->ranges != NULL, carries = node->op == GRAPH_PLACE;
    for (uint32_t l = 0; l < axes->n_loops; l++) {
        picks |= axes->picks[l];
        carries |= axes->picks[l] && !axes->contracted[l];
    }
    if (!picks && !carries) return;
    uint32_t later = carries ? d->values[node->first_output].picks : 0;
    d->values[node->inputs[0]].picks += later + picks;
}

/* From the last node to the first: finds which values are needed at all, where they may be cut, and
 * which will be asked for in a certain layout. */
static shoal_status look_ahead(plan_draft *d, const plan_layout *const *wanted, bool *used) {
    const shoal_graph *g = d->g;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        used[g->outputs[i]] = true;
        if (!wanted || !wanted[i]) continue;
        shoal_status status = check_layout(d, wanted[i], &g->values[g->outputs[i]].type);
        if (status == SHOAL_OK && wanted[i]->parts[wanted[i]->rank] > 1)
            status = base_fail(SHOAL_INVALID, "an output cannot be wanted in summands");
        if (status != SHOAL_OK) return base_fail_prefix(status, "wanted layout of output %u: ", i);
        d->values[g->outputs[i]].want = wanted[i];
    }
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const shoal_node *node = &g->nodes[n];
        bool live = false;
        for (uint32_t o = 0; o < node->n_outputs; o++) live |= used[node->first_output + o];
        for (uint32_t i = 0; i < node->n_inputs && live; i++) used[node->inputs[i]] = true;
        if (!live || node->op == GRAPH_EXCHANGE) continue;
        const graph_axes *axes;
        shoal_status status = plan_node_axes(d, n, &axes);
        if (status != SHOAL_OK) return blame(node, n, status);
        plan_granules_back(d, n, axes);
        count_picks(d, node, axes);
        if (node->op != GRAPH_PLACE) continue;
        plan_layout *want = base_arena_array(&d->arena, plan_layout, 1);
        if (!want) return SHOAL_NO_MEMORY;
        status = place_layout(d, n, want);
        if (status != SHOAL_OK) return blame(node, n, status);
        d->values[node->first_output].want = want;
        d->values[node->inputs[0]].want = want;
    }
    return SHOAL_OK;
}

/* A value that is larger than all that it is made of is made where it is needed, and so are those
 * that it is made of, to some depth: *depth. */
static bool is_deferred(const plan_draft *d, const shoal_node *node, const graph_axes *axes,
                        uint32_t *depth) {
    int64_t reads = 0;
    *depth = 1;
    if (node->n_outputs != 1) return false;
    /* Sums are done once; what is searched in parts is no sum where it is searched whole. */
    for (uint32_t l = 0; l < axes->n_loops; l++)
        if (axes->contracted[l] && !axes->picks[l]) return false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const plan_held *held = &d->values[plan_source(d, node->inputs[i])];
        reads += base_type_bytes(&d->g->values[node->inputs[i]].type);
        if (held->depth >= *depth) *depth = held->depth + 1;
    }
    if (*depth > MOST_DEFERRED) return false;
    return node->n_inputs == 0 || base_type_bytes(&d->g->values[node->first_output].type) > reads;
}

/* Whether all that there is of a value is summands. */
static bool only_summands(const plan_held *held) {
    for (const plan_forms *f = held->forms; f; f = f->next)
        if (f->form->covers && f->form->layout.parts[f->form->layout.rank] == 1) return false;
    return held->forms;
}

static shoal_status push_form(plan_draft *d, plan_held *held, plan_form *form) {
    plan_forms *cell = base_arena_array(&d->arena, plan_forms, 1), **end = &held->forms;
    if (!cell) return SHOAL_NO_MEMORY;
    while (*end) end = &(*end)->next;
    cell->form = form;
    *end = cell;
    return SHOAL_OK;
}

static shoal_status visit_place(plan_draft *d, const shoal_node *node) {
    uint32_t source = plan_source(d, node->inputs[0]);
    plan_held *from = &d->values[source], *to = &d->values[node->first_output];
    plan_form *form;
    if ((from->deferred && !from->forms) || (!to->want->given && only_summands(from))) {
        to->placed = to->want;
        to->source = source;
        to->want = NULL;
        return SHOAL_OK;
    }
    SHOAL_TRY(plan_need(d, node->inputs[0], to->want, &form));
    form->layout.given = form->layout.given || to->want->given; /* also when it lay so before */
    /* The placed form first: what follows follows it. The others are as good to read from; what was
     * placed last comes last of them, so that of a value that is placed again and again a form
     * remains that is few exchanges away from the first. */
    SHOAL_TRY(push_form(d, to, form));
    const plan_forms *first = from->forms, *f = first->next;
    for (uint32_t n = 1; f && n < PLAN_MOST_SOURCES; n++, f = f->next)
        if (f->form != form) SHOAL_TRY(push_form(d, to, f->form));
    return first->form == form ? SHOAL_OK : push_form(d, to, first->form);
}

static shoal_status visit(plan_draft *d, uint32_t n) {
    const shoal_node *node = &d->g->nodes[n];
    const graph_axes *axes;
    plan_layout division;
    if (node->op == GRAPH_PLACE) return visit_place(d, node);
    if (node->op == GRAPH_EXCHANGE)
        return base_fail(SHOAL_INVALID, "a graph for the pool holds no exchange; they are made by "
                                        "lowering");
    SHOAL_TRY(plan_node_axes(d, n, &axes));
    plan_held *held = &d->values[node->first_output];
    uint32_t depth;
    if (node->n_outputs && is_deferred(d, node, axes, &depth)) {
        bool valid;
        held->deferred = true;
        held->depth = depth;
        plan_granules_on(d, n, axes);
        SHOAL_TRY(plan_follow(d, &d->scratch, n, axes, &division, &valid));
        if (!valid) return SHOAL_OK;
        plan_layout hint;
        SHOAL_TRY(plan_result_layout(&d->scratch, axes, &division,
                                     &d->g->values[node->first_output].type, 0, &hint));
        held->has_hint = true;
        return plan_layout_copy(&d->arena, &hint, &held->hint);
    }
    SHOAL_TRY(plan_divide(d, n, axes, &division));
    return plan_add_compute(d, n, axes, &division);
}

/* The form in which an output leaves: as wanted, else as it comes, but never in summands. */
static shoal_status give_output(plan_draft *d, uint32_t value, const plan_layout *wanted,
                                plan_form **out) {
    const plan_held *held = &d->values[plan_source(d, value)];
    const plan_layout *placed = d->values[value].placed;
    if (wanted) return plan_need(d, value, wanted, out);
    if (!held->forms && !placed) { /* deferred, and needed by nothing yet */
        const graph_axes *axes;
        plan_layout division;
        uint32_t n = d->g->values[value].node;
        SHOAL_TRY(plan_node_axes(d, n, &axes));
        SHOAL_TRY(plan_divide(d, n, axes, &division));
        SHOAL_TRY(plan_add_compute(d, n, axes, &division));
    }
    for (const plan_forms *f = held->forms; f && placed && !placed->given; f = f->next)
        if (f->form->covers && f->form->layout.parts[f->form->layout.rank] == 1) {
            *out = f->form; /* as somebody needed it */
            return SHOAL_OK;
        }
    if (placed) {
        SHOAL_TRY(plan_need(d, value, placed, out));
        (*out)->layout.given = (*out)->layout.given || placed->given;
        return SHOAL_OK;
    }
    plan_layout joined;
    bool found;
    SHOAL_TRY(plan_natural_layout(d, value, &joined, &found));
    return plan_need(d, value, &joined, out);
}

/* What goes on at once with panels takes less than one after the other. */
static shoal_status span(plan_draft *d) {
    bool in_panels = false;
    for (size_t i = 0; i < d->steps.count; i++) in_panels |= d->steps.data[i]->whole != NULL;
    return in_panels ? plan_span(d, &d->seconds) : SHOAL_OK;
}

static shoal_status draft(plan_draft *d, const plan_layout *inputs,
                          const plan_layout *const *wanted) {
    const shoal_graph *g = d->g;
    bool *used = base_arena_array(&d->arena, bool, g->n_values);
    if (!used) return SHOAL_NO_MEMORY;
    SHOAL_TRY(look_ahead(d, wanted, used));
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        plan_form *form;
        shoal_status status = check_layout(d, &inputs[i], &g->values[g->inputs[i]].type);
        if (status != SHOAL_OK) return base_fail_prefix(status, "layout of input %u: ", i);
        SHOAL_TRY(plan_add_form(d, g->inputs[i], &inputs[i], &form));
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        bool live = false;
        for (uint32_t o = 0; o < node->n_outputs; o++) live |= used[node->first_output + o];
        if (!live) continue;
        SHOAL_TRY(plan_patience(d));
        shoal_status status = visit(d, n);
        if (status != SHOAL_OK) return blame(node, n, status);
        base_arena_clear(&d->scratch);
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        shoal_status status =
            give_output(d, g->outputs[i], wanted ? wanted[i] : NULL, &d->outputs[i]);
        if (status != SHOAL_OK) return base_fail_prefix(status, "output %u: ", i);
        base_arena_clear(&d->scratch);
    }
    SHOAL_TRY(plan_draft_finish(d));
    SHOAL_TRY(plan_panel(d));
    SHOAL_TRY(plan_order(d));
    return span(d);
}

/* ---- the pool against one slot ---- */

/* The slot that would do everything soonest, counting what of the inputs it lacks; NULL when fewer
 * than two slots compute. */
static shoal_status best_alone(plan_draft *d, const plan_layout *inputs, const plan_slot **out) {
    const plan_pool *pool = d->pool;
    double best = INFINITY;
    uint32_t eligible = 0;
    *out = NULL;
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        const plan_slot *slot = &pool->slots[i];
        double seconds = 0;
        if (!d->eligible[i]) continue;
        eligible++;
        for (size_t s = 0; s < d->steps.count; s++) {
            const plan_step *step = d->steps.data[s];
            bool told = step->whole && step->panel; /* its work is that of the whole */
            if (!plan_is_exchange(step) && !told)
                seconds += plan_work_seconds(slot, &step->work, 1);
        }
        for (uint32_t v = 0; v < d->g->n_inputs; v++) {
            int at = plan_layout_find(&inputs[v], slot->slot);
            const shoal_type *type = &d->g->values[d->g->inputs[v]].type;
            double bytes = (double)base_type_bytes(type);
            shoal_type held = *type;
            if (at >= 0) held = plan_layout_type(&inputs[v], (uint32_t)at, type);
            if (at >= 0) bytes -= (double)base_type_bytes(&held);
            seconds += bytes / pool->link_bytes;
        }
        if (seconds < best) {
            best = seconds;
            *out = slot;
        }
    }
    if (eligible < 2) *out = NULL;
    return SHOAL_OK;
}

/* On which links the choice depends: on those that either draft has looked at. */
static void give_links(plan_draft *pooled, const plan_draft *alone, plan_result *out) {
    size_t at = 0;
    uint64_t key;
    void *any;
    out->links = pooled->asked;
    pooled->asked = (base_map){0};
    out->all_links = pooled->asked_all || alone->asked_all;
    while (base_map_next(&alone->asked, &at, &key, &any))
        if (base_map_set(&out->links, key, any) != SHOAL_OK) out->all_links = true;
}

/* ---- the time that is told ---- */

static double computing(const plan_draft *d, const plan_step *step) {
    return plan_compute_seconds(d, step->axes, &step->division, &step->work, step->needed);
}

/* Of the computations of a draft, and of those that are done in panels. */
static void count_computing(plan_draft *d, double times) {
    for (size_t i = 0; i < d->steps.count; i++) {
        plan_step *step = d->steps.data[i];
        if (!step->live || plan_is_exchange(step)) continue;
        double seconds = times * computing(d, step);
        step->seconds += seconds;
        d->seconds += seconds;
        if (step->whole && !step->panel) step->whole->seconds += times * computing(d, step->whole);
    }
}

/* What was chosen stays, and takes the time that its slots have shown. */
static shoal_status retime(plan_draft *d, plan_pool *pool) {
    plan_slot *slots = base_arena_array(&d->arena, plan_slot, d->pool->n_slots);
    if (!slots) return SHOAL_NO_MEMORY;
    count_computing(d, -1);
    const plan_slot *chosen_with = d->pool->slots;
    *pool = *d->pool;
    pool->slots = slots;
    d->pool = pool;
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        slots[i] = chosen_with[i];
        SHOAL_TRY(base_map_set(&d->index, slots[i].slot, &slots[i]));
        for (base_figure f = 0; f < BASE_FIGURES; f++)
            if (pool->shown[i].of[f] > 0) slots[i].speeds.of[f] = pool->shown[i].of[f];
    }
    count_computing(d, 1);
    return span(d);
}

static shoal_status write(plan_draft *pooled, plan_draft *alone, const plan_slot *single,
                          bool explained, plan_result *out) {
    plan_draft *chosen = single && alone->seconds < pooled->seconds ? alone : pooled;
    plan_pool pools[2];
    if (explained && pooled->pool->shown) {
        SHOAL_TRY(retime(pooled, &pools[0]));
        if (single) SHOAL_TRY(retime(alone, &pools[1]));
    }
    *out = (plan_result){.seconds = chosen->seconds,
                         .bytes_moved = chosen->bytes,
                         .figures = pooled->figures | alone->figures};
    base_arena_init(&out->arena, pooled->pool->most);
    shoal_status status = plan_emit(chosen, out);
    if (status == SHOAL_OK && explained) status = plan_explain(chosen, pooled, alone, single, out);
    if (status == SHOAL_OK) give_links(pooled, alone, out);
    if (status != SHOAL_OK) plan_result_fini(out);
    return status;
}

static shoal_status lower(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
                          const plan_layout *const *wanted, bool explained, plan_result *out) {
    plan_draft pooled = {0}, alone = {0};
    const plan_slot *single = NULL;
    int64_t since = base_thread_time(), until = pool->patience ? since + pool->patience : 0;
    SHOAL_TRY(check_pool(pool));
    shoal_status status = draft_init(&pooled, g, pool, NULL);
    pooled.since = since;
    pooled.until = until;
    if (status == SHOAL_OK) status = draft(&pooled, inputs, wanted);
    if (status == SHOAL_OK && !pooled.bound) status = best_alone(&pooled, inputs, &single);
    if (status == SHOAL_OK && single) {
        status = draft_init(&alone, g, pool, single);
        alone.since = since;
        alone.until = pooled.until;
        alone.paced = pooled.paced;
        if (status == SHOAL_OK) status = draft(&alone, inputs, wanted);
    }
    if (status == SHOAL_OK) status = write(&pooled, &alone, single, explained, out);
    draft_fini(&pooled);
    draft_fini(&alone);
    return status;
}

shoal_status plan_lower(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
                        const plan_layout *const *wanted, plan_result *out) {
    return lower(g, pool, inputs, wanted, false, out);
}

shoal_status plan_lower_explained(const shoal_graph *g, const plan_pool *pool,
                                  const plan_layout *inputs, const plan_layout *const *wanted,
                                  plan_result *out) {
    return lower(g, pool, inputs, wanted, true, out);
}

void plan_result_fini(plan_result *result) {
    for (uint32_t i = 0; i < result->n_programs; i++) base_str_fini(&result->programs[i].encoded);
    base_map_fini(&result->links);
    base_arena_fini(&result->arena);
    *result = (plan_result){0};
}
