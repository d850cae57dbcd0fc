/* Panels: a computation whose operands come over slow links, or whose results leave over them, is
 * done in parts, so that it begins with the first that have come, and results leave as they are
 * made.
 *
 * One or two loops of a node are cut once more, each slot's part into as many panels. The node,
 * what is computed from its results without summing, and the exchanges on both sides become a step
 * per panel each. Who reads one of these values in one piece has it put together (emit.c). The
 * panels of two loops are done in growing squares: much can be computed with what has come, and
 * little is left to do when the last comes. */
#include "plan/panel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Along an axis: more makes products small. */
enum { MOST_PANELS = 8 };
/* A part of the work takes at least this, so that what a message and a launch cost is little beside
 * it; and this part of the time has to be won. */
static const double LEAST_PART = 5e-3, LEAST_GAIN = 0.1;
/* To go through an operand, which is read and packed, takes a product as long as to multiply it
 * with so many rows. */
static const double ROWS_ASIDE = 32;

/* Notes who makes each form, and how many read it. */
static void note_makers(panel_group *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t k = 0; k < n_inputs(s, s->from[i]); k++)
            input_of(s->from[i], k)->readers = input_of(s->from[i], k)->maker = 0;
        for (uint32_t k = 0; k < n_outputs(s, s->from[i]); k++)
            output_of(s->from[i], k)->readers = output_of(s->from[i], k)->maker = 0;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (!s->from[i]->live) continue;
        for (uint32_t k = 0; k < n_inputs(s, s->from[i]); k++) input_of(s->from[i], k)->readers++;
        for (uint32_t k = 0; k < n_outputs(s, s->from[i]); k++)
            output_of(s->from[i], k)->maker = i + 1;
    }
    for (uint32_t o = 0; o < s->d->g->n_outputs; o++) s->d->outputs[o]->readers++;
}

/* ---- where panels begin and end ---- */

/* Adds a dimension that cuts a loop of the node; it does not when there is nothing to cut. */
static shoal_status add_dim(panel_group *s, const plan_step *step, uint32_t loop, uint32_t count,
                            bool *added) {
    int64_t granule = plan_loop_granule(s->d, step->node, step->axes, loop), most = 0;
    uint32_t n_slots = s->division->n_slots;
    panel_dim *made = &s->dims[s->n_dims];
    *added = false;
    if (granule < 1 || step->axes->contracted[loop]) return SHOAL_OK;
    made->loop = loop;
    made->count = count;
    made->at = base_arena_array(&s->d->arena, int64_t, (size_t)n_slots * (count + 1));
    if (!made->at) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n_slots; i++) {
        int64_t begin, end;
        loop_box(s->division, i, loop, &begin, &end);
        if (begin % granule) granule = 1;
        if (step->axes->granule[loop] > 1 && granule == 1) return SHOAL_OK;
        most = end - begin > most ? end - begin : most;
        for (uint32_t p = 0; p <= count; p++)
            made->at[(size_t)i * (count + 1) + p] =
                p == count ? end : begin + (int64_t)((end - begin) / granule * p / count) * granule;
    }
    *added = most >= 2 * granule;
    s->n_dims += *added;
    return SHOAL_OK;
}

static bool same_slots(const plan_layout *a, const plan_layout *b) {
    return a->n_slots == b->n_slots && !memcmp(a->slots, b->slots, a->n_slots * sizeof *a->slots);
}

/* ---- what is done in panels ---- */

/* The axes of a form along the loops. False: it cannot be cut by them. */
static bool axes_along(const panel_group *s, const plan_form *form, const int8_t *map,
                       const int *loop, int8_t *axis, bool *cut) {
    uint32_t rank = s->d->g->values[form->value].type.rank;
    *cut = false;
    for (uint32_t g = 0; g < DIMS; g++) {
        axis[g] = -1;
        for (uint32_t a = 0; a < rank && loop[g] >= 0; a++) {
            if (map[a] != loop[g]) continue;
            if (axis[g] >= 0) return false;
            axis[g] = (int8_t)a;
            *cut = true;
        }
        if (axis[g] < 0) continue;
        if (!same_slots(&form->layout, s->division)) return false;
        for (uint32_t i = 0; i < s->division->n_slots; i++) {
            base_box box = plan_layout_box(&form->layout, i);
            int64_t begin = begin_of(s, g, i, 0), end = begin_of(s, g, i, s->dims[g].count);
            if (box.start[axis[g]] != begin || box.size[axis[g]] != end - begin) return false;
        }
    }
    return true;
}

/* Notes that a form is to be in panels, if it has axes along the loops. *fine: it can be, and all
 * that was noted so far agrees. */
static shoal_status note_form(panel_group *s, plan_form *form, const int8_t *map, const int *loop,
                              bool *fine, bool *fresh) {
    int8_t axis[DIMS];
    bool cut;
    *fresh = false;
    *fine = axes_along(s, form, map, loop, axis, &cut);
    if (!*fine) return SHOAL_OK;
    bool earlier = form->panels && form->panels->forms; /* it is put together again */
    if (form->panels || !cut) {
        *fine = cut ? !earlier && !memcmp(axis, form->panels->axis, sizeof axis)
                    : !form->panels || earlier;
        return SHOAL_OK;
    }
    plan_panels *panels = base_arena_array(&s->d->arena, plan_panels, 1);
    if (!panels || !base_vec_push(&s->forms, form)) return SHOAL_NO_MEMORY;
    for (uint32_t g = 0; g < DIMS; g++) {
        panels->axis[g] = axis[g];
        panels->count[g] = axis[g] < 0 ? 1 : s->dims[g].count;
    }
    form->panels = panels;
    *fresh = true;
    return SHOAL_OK;
}

static bool sums(const plan_step *step) {
    for (uint32_t l = 0; l < step->axes->n_loops; l++)
        if (step->axes->contracted[l]) return true;
    return false;
}

/* Whether a node's loops can be cut where the panels are. */
static bool loops_fit(const panel_group *s, const plan_step *step, const int *loop) {
    if (!same_slots(&step->division, s->division)) return false;
    for (uint32_t g = 0; g < s->n_dims; g++) {
        if (loop[g] < 0) continue;
        uint32_t l = (uint32_t)loop[g];
        if (step->axes->granule[l] < 1 || step->axes->contracted[l]) return false;
        if (g && loop[0] == loop[1]) return false;
        for (uint32_t i = 0; i < s->division->n_slots; i++) {
            int64_t begin, end;
            loop_box(&step->division, i, l, &begin, &end);
            if (begin != begin_of(s, g, i, 0) || end != begin_of(s, g, i, s->dims[g].count))
                return false;
            for (uint32_t p = 0; p < s->dims[g].count; p++)
                if (begin_of(s, g, i, p) % step->axes->granule[l]) return false;
        }
    }
    return true;
}

static void undo(panel_group *s, size_t n_forms, uint32_t n_members) {
    while (s->forms.count > n_forms) s->forms.data[--s->forms.count]->panels = NULL;
    s->n_members = n_members;
}

static shoal_status join(panel_group *s, plan_step *step, const int *loop, bool *joined);

/* A value that is made where it is needed is made in panels, too. */
static shoal_status join_maker(panel_group *s, plan_form *form) {
    plan_step *maker = maker_of(s, form);
    if (!maker || plan_is_exchange(maker) || maker->whole || !s->d->values[form->value].deferred ||
        sums(maker))
        return SHOAL_OK;
    int loop[DIMS] = {-1, -1};
    bool joined;
    for (uint32_t o = 0; o < n_outputs(s, maker); o++)
        for (uint32_t g = 0; g < DIMS && maker->outputs[o] == form; g++)
            if (form->panels->axis[g] >= 0)
                loop[g] = maker->axes->outputs[o][form->panels->axis[g]];
    for (uint32_t g = 0; g < DIMS; g++)
        if (form->panels->axis[g] >= 0 && loop[g] < 0) return SHOAL_OK;
    return join(s, maker, loop, &joined);
}

static shoal_status join_operands(panel_group *s, plan_step *step, const int *loop, bool *fine) {
    bool fresh;
    for (uint32_t o = 0; o < n_outputs(s, step) && *fine; o++) {
        SHOAL_TRY(note_form(s, step->outputs[o], step->axes->outputs[o], loop, fine, &fresh));
        for (uint32_t g = 0; g < s->n_dims && *fine; g++)
            *fine =
                loop[g] < 0 || (step->outputs[o]->panels && step->outputs[o]->panels->axis[g] >= 0);
    }
    for (uint32_t i = 0; i < n_inputs(s, step) && *fine; i++) {
        SHOAL_TRY(note_form(s, step->inputs[i], step->axes->inputs[i], loop, fine, &fresh));
        if (*fine && fresh) SHOAL_TRY(join_maker(s, step->inputs[i]));
    }
    return SHOAL_OK;
}

/* Adds a node, its loops cut by the dimensions, unless something stands against it. */
static shoal_status join(panel_group *s, plan_step *step, const int *loop, bool *joined) {
    size_t n_forms = s->forms.count;
    uint32_t n_members = s->n_members;
    *joined = loops_fit(s, step, loop);
    if (*joined) SHOAL_TRY(join_operands(s, step, loop, joined));
    if (*joined && s->n_members == MOST_MEMBERS) *joined = false;
    if (!*joined) {
        undo(s, n_forms, n_members);
        return SHOAL_OK;
    }
    panel_member *m = &s->members[s->n_members++];
    *m = (panel_member){.step = step};
    memcpy(m->loop, loop, sizeof m->loop);
    return SHOAL_OK;
}

/* The loops of a node along the axes of what it reads in panels. */
static bool loops_along(const panel_group *s, const plan_step *step, int *loop) {
    for (uint32_t g = 0; g < DIMS; g++) loop[g] = -1;
    for (uint32_t i = 0; i < n_inputs(s, step); i++) {
        const plan_panels *panels = step->inputs[i]->panels;
        if (!panels || panels->forms) continue;
        for (uint32_t g = 0; g < DIMS; g++) {
            if (panels->axis[g] < 0) continue;
            int along = step->axes->inputs[i][panels->axis[g]];
            if (along < 0 || (loop[g] >= 0 && loop[g] != along)) return false;
            loop[g] = along;
        }
    }
    return true;
}

/* Whether the results of a member may leave panel by panel: nothing stays where it is. */
static bool may_leave(const panel_group *s, const plan_step *step) {
    bool made = false, moves = false;
    for (uint32_t m = 0; m < s->n_members; m++)
        for (uint32_t o = 0; o < n_outputs(s, s->members[m].step); o++)
            made |= s->members[m].step->outputs[o] == step->from;
    for (size_t m = 0; m < step->moves.count; m++) {
        if (step->moves.moves[m].from == step->moves.moves[m].to) return false;
        moves = true;
    }
    return made && moves && !step->whole;
}

/* Whether a form is there only behind the panels. Of what earlier groups have in panels, each is
 * made by a step of its own. */
static bool is_late(const panel_group *s, plan_form *form) {
    uint32_t n = form->panels && form->panels->forms ? plan_n_parts(form) : 1;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t maker = (n > 1 ? plan_part(form, p) : form)->maker;
        if (maker && s->late[maker - 1]) return true;
    }
    return false;
}

/* From the node on: what is done in panels with it, what leaves, and what has to come after. */
static shoal_status grow(panel_group *s, uint32_t seed) {
    s->last = seed;
    for (uint32_t k = seed + 1; k < s->n; k++) {
        plan_step *step = s->from[k];
        bool reads = false, waits = false, joined = false;
        if (!step->live) continue;
        for (uint32_t i = 0; i < n_inputs(s, step); i++) {
            plan_form *form = input_of(step, i);
            reads |= form->panels && !form->panels->forms;
            waits |= is_late(s, form);
        }
        if (reads && !waits && plan_is_exchange(step)) {
            joined = may_leave(s, step);
            if (joined && !base_vec_push(&s->leaving, step)) return SHOAL_NO_MEMORY;
        } else if (reads && !waits && !step->whole && !sums(step)) {
            int loop[DIMS];
            if (loops_along(s, step, loop)) SHOAL_TRY(join(s, step, loop, &joined));
        }
        if (joined) s->last = k;
        /* What has left is there when all of it has. */
        s->late[k] = (reads || waits) && !(joined && !plan_is_exchange(step));
    }
    return SHOAL_OK;
}

/* Whether each member reads each form as all others do: in panels, or in one piece. */
static bool is_consistent(const panel_group *s) {
    for (uint32_t m = 0; m < s->n_members; m++) {
        const plan_step *step = s->members[m].step;
        for (uint32_t i = 0; i < n_inputs(s, step); i++) {
            int8_t axis[DIMS];
            bool cut;
            if (!axes_along(s, step->inputs[i], step->axes->inputs[i], s->members[m].loop, axis,
                            &cut) ||
                cut != (step->inputs[i]->panels && !step->inputs[i]->panels->forms))
                return false;
        }
    }
    return true;
}

static bool is_member(const panel_group *s, const plan_step *step) {
    for (uint32_t m = 0; m < s->n_members; m++)
        if (s->members[m].step == step) return true;
    return false;
}

/* Notes which operands somebody reads in one piece before the panels. False: one that is computed
 * in panels. */
static bool find_early(const panel_group *s) {
    for (uint32_t k = 0; k < s->last; k++) {
        const plan_step *step = s->from[k];
        if (!step->live || s->late[k] || is_member(s, step)) continue;
        for (uint32_t i = 0; i < n_inputs(s, step); i++) {
            const plan_form *form = input_of(step, i);
            if (!form->panels || form->panels->forms) continue;
            if (is_member(s, maker_of(s, form))) return false;
            form->panels->beside = true;
        }
    }
    return true;
}

/* ---- whether it is worth it ---- */

/* Seconds for which an operand is on its way from other slots, by this exchange and the one before
 * it. */
static double coming(const panel_group *s, const plan_form *form) {
    const plan_step *maker = maker_of(s, form);
    if (!maker || !plan_is_exchange(maker) || maker->whole) return 0;
    return plan_transfer(maker) + coming(s, maker->from);
}

double plan_overlap(double coming, double work, double leaving) {
    double all = coming + work + leaving, longest = fmax(work, fmax(coming, leaving));
    double count = fmin(MOST_PANELS, floor(sqrt(work / LEAST_PART)));
    double won = count < 2 ? 0 : (all - longest) * (1 - 1 / count);
    return won > LEAST_GAIN * all ? all - won : all;
}

/* Seconds that every panel but the first one takes in addition: a product goes through operands
 * that a loop does not cut for each panel along it anew. */
static double again(const panel_group *s, const plan_step *step, int loop) {
    double worst = 0;
    bool product = false;
    for (uint32_t l = 0; l < step->axes->n_loops; l++) product |= step->axes->contracted[l];
    for (uint32_t k = 0; k < step->division.n_slots && product && loop >= 0; k++) {
        const plan_slot *slot = &s->d->pool->slots[plan_pool_index(s->d, step->division.slots[k])];
        double work = 0;
        for (uint32_t i = 0; i < n_inputs(s, step); i++) {
            const plan_form *form = step->inputs[i];
            const shoal_type *type = &s->d->g->values[form->value].type;
            bool cut = false;
            for (uint32_t a = 0; a < type->rank; a++) cut |= step->axes->inputs[i][a] == loop;
            shoal_type piece = plan_layout_type(&form->layout, k, type);
            if (!cut) work += 2 * ROWS_ASIDE * (double)base_type_count(&piece);
        }
        worst = fmax(worst, base_speeds_seconds(&slot->speeds, step->work.products, work, 0));
    }
    return worst;
}

static bool is_worth_it(const panel_group *s) {
    double comes = 0, work = 0, leaves = 0, more = 0;
    for (size_t i = 0; i < s->forms.count; i++)
        if (!s->forms.data[i]->panels->beside) comes += coming(s, s->forms.data[i]);
    for (uint32_t m = 0; m < s->n_members; m++) {
        work += s->members[m].step->seconds;
        for (uint32_t g = 0; g < s->n_dims; g++)
            more += (s->dims[g].count - 1) * again(s, s->members[m].step, s->members[m].loop[g]);
    }
    for (size_t i = 0; i < s->leaving.count; i++) leaves += plan_transfer(s->leaving.data[i]);
    if (s->d->pool->panels) return comes > 0 || leaves > 0;
    return plan_overlap(comes, work, leaves) + more < comes + work + leaves;
}

/* Cuts a loop for each operand that comes and is not cut yet; where none does, for the result. */
static shoal_status choose_loops(panel_group *s, const plan_step *step) {
    const plan_pool *pool = s->d->pool;
    uint32_t loops[DIMS], n = 0;
    double comes = 0;
    for (uint32_t i = 0; i < n_inputs(s, step) + 1 && n < DIMS; i++) {
        bool result = i == n_inputs(s, step), cut = result && n;
        const plan_form *form = result ? step->outputs[0] : step->inputs[i];
        const int8_t *map = result ? step->axes->outputs[0] : step->axes->inputs[i];
        uint32_t rank = s->d->g->values[form->value].type.rank;
        if (!result) comes += coming(s, form);
        if (!result && coming(s, form) < (pool->panels ? 1e-300 : LEAST_PART)) continue;
        for (uint32_t a = 0; a < rank; a++)
            for (uint32_t k = 0; k < n; k++) cut |= map[a] == (int)loops[k];
        for (uint32_t a = 0; a < rank && !cut; a++) {
            if (map[a] < 0 || step->axes->contracted[map[a]] || step->axes->granule[map[a]] < 1)
                continue;
            loops[n++] = (uint32_t)map[a];
            cut = true;
        }
    }
    double parts = step->seconds / LEAST_PART;
    uint32_t count = pool->panels;
    if (!count) count = (uint32_t)fmin(MOST_PANELS, n == 2 ? sqrt(parts) : parts);
    bool added = true;
    for (uint32_t k = 0; k < n && !pool->panels; k++) {
        double more = again(s, step, (int)loops[k]), save = fmax(step->seconds, comes);
        /* n panels save up to 1 - 1 / n of the shorter one, and take n - 1 times more. */
        if (more * count * count > save) count = (uint32_t)sqrt(save / more);
    }
    for (uint32_t k = 0; k < n && count > 1; k++)
        SHOAL_TRY(add_dim(s, step, loops[k], count, &added));
    return SHOAL_OK;
}

/* ---- all of a draft ---- */

static shoal_status try_seed(panel_group *s, uint32_t seed, bool *done) {
    plan_step *step = s->from[seed];
    int loop[DIMS] = {-1, -1};
    bool joined;
    s->division = &step->division;
    *done = false;
    SHOAL_TRY(choose_loops(s, step));
    if (!s->n_dims) return SHOAL_OK;
    for (uint32_t g = 0; g < s->n_dims; g++) loop[g] = (int)s->dims[g].loop;
    SHOAL_TRY(join(s, step, loop, &joined));
    if (!joined) return SHOAL_OK;
    SHOAL_TRY(grow(s, seed));
    if (!is_consistent(s) || !find_early(s) || !is_worth_it(s)) return SHOAL_OK;
    *done = true;
    return plan_panel_steps(s);
}

static void group_fini(panel_group *s) {
    free(s->forms.data);
    free(s->leaving.data);
    free(s->steps.data);
    *s = (panel_group){0};
}

/* The first node from *at on that is done in panels; *at is n when there is none. */
static shoal_status next_group(plan_draft *d, uint32_t *at) {
    uint32_t n = (uint32_t)d->steps.count;
    bool *late = base_arena_array(&d->arena, bool, n), done = false;
    if (!late) return SHOAL_NO_MEMORY;
    panel_group s = {.d = d, .from = d->steps.data, .n = n};
    note_makers(&s);
    for (; *at < n && !done; ++*at) {
        const plan_step *step = d->steps.data[*at];
        if (!step->live || plan_is_exchange(step) || step->whole) continue;
        if (!d->pool->panels && step->seconds < 4 * LEAST_PART) continue;
        group_fini(&s);
        s = (panel_group){.d = d, .from = d->steps.data, .n = n, .late = late};
        memset(late, 0, n * sizeof *late);
        shoal_status status = plan_patience(d);
        if (status == SHOAL_OK) status = try_seed(&s, *at, &done);
        if (!done) undo(&s, 0, 0);
        if (status != SHOAL_OK) {
            group_fini(&s);
            return status;
        }
    }
    if (done) {
        free(d->steps.data);
        d->steps.data = s.steps.data;
        d->steps.count = s.steps.count;
        d->steps.room = s.steps.room;
        s.steps.data = NULL;
        /* What stands before has had its turn. */
        for (*at = 0; *at < d->steps.count && !d->steps.data[*at]->whole;) ++*at;
    }
    group_fini(&s);
    return SHOAL_OK;
}

shoal_status plan_panel(plan_draft *d) {
    bool worth = d->pool->panels > 0;
    for (size_t i = 0; i < d->steps.count && !worth; i++) {
        const plan_step *step = d->steps.data[i];
        worth = step->live && plan_is_exchange(step) && plan_transfer(step) >= LEAST_PART;
    }
    if (!worth) return SHOAL_OK;
    for (uint32_t at = 0; at < d->steps.count;) SHOAL_TRY(next_group(d, &at));
    return SHOAL_OK;
}
