/* Panels: a computation whose operands come over slow links, or whose results leave over them, is
 * done in parts, so that it begins with the first that have come, and results leave as they are
 * made.
 *
 * One or two loops of a node are cut once more, each slot's part into as many panels. The node,
 * what is computed from its results without summing, and the exchanges on both sides become a step
 * per panel each. Who reads one of these values in one piece has it put together (emit.c). The
 * panels of two loops are done in growing squares: much can be computed with what has come, and
 * little is left to do when the last comes. */
#include "plan/draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 24, MOST_PANELS = 8, DIMS = 2 };
/* A part of the work takes at least this, so that what a message and a launch cost is little beside
 * it; and this part of the time has to be won. */
static const double LEAST_PART = 5e-3, LEAST_GAIN = 0.1;

typedef struct dim {
    uint32_t loop; /* of the node that it is about */
    uint32_t count;
    int64_t *at; /* [slots][count + 1]: where the panels of each slot begin and end */
} dim;

/* A step that computes in panels. */
typedef struct member {
    plan_step *step;
    int loop[DIMS];    /* of its node, that each dimension cuts; -1: none */
    plan_step **parts; /* per panel, once it stands */
} member;

typedef struct group {
    plan_draft *d;
    plan_step **from; /* the steps as they stand */
    uint32_t n;
    const plan_layout *division; /* of the node that it is about */
    uint32_t n_dims;
    dim dims[DIMS];
    member members[MOST_MEMBERS];
    uint32_t n_members;
    BASE_VEC(plan_form *) forms;   /* all that are in panels */
    BASE_VEC(plan_step *) leaving; /* exchanges of results */
    BASE_VEC(plan_step *) steps;   /* the new order */
    uint32_t last;                 /* the step after which all of its panels are needed */
    bool *late;                    /* per step: it comes behind them */
} group;

static bool is_exchange(const plan_step *step) { return step->node == SHOAL_NO_NODE; }

static uint32_t n_inputs(const group *s, const plan_step *step) {
    return is_exchange(step) ? 1 : s->d->g->nodes[step->node].n_inputs;
}

static uint32_t n_outputs(const group *s, const plan_step *step) {
    return is_exchange(step) ? 1 : s->d->g->nodes[step->node].n_outputs;
}

static plan_form *input_of(const plan_step *step, uint32_t i) {
    return is_exchange(step) ? step->from : step->inputs[i];
}

static plan_form *output_of(const plan_step *step, uint32_t i) {
    return is_exchange(step) ? step->to : step->outputs[i];
}

/* Notes who makes each form, and how many read it. */
static void note_makers(group *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t k = 0; k < n_inputs(s, s->from[i]); k++) input_of(s->from[i], k)->readers = 0;
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

static plan_step *maker_of(const group *s, const plan_form *form) {
    return form->maker ? s->from[form->maker - 1] : NULL;
}

/* ---- where panels begin and end ---- */

static int64_t begin_of(const group *s, uint32_t g, uint32_t slot, uint32_t panel) {
    return s->dims[g].at[(size_t)slot * (s->dims[g].count + 1) + panel];
}

static void loop_box(const plan_layout *division, uint32_t slot, uint32_t loop, int64_t *begin,
                     int64_t *end) {
    uint32_t at = division->coords[(size_t)slot * (division->rank + 1) + loop];
    *begin = division->cuts[loop][at];
    *end = division->cuts[loop][at + 1];
}

/* Adds a dimension that cuts a loop of the node; it does not when there is nothing to cut. */
static shoal_status add_dim(group *s, const plan_step *step, uint32_t loop, uint32_t count,
                            bool *added) {
    int64_t granule = plan_loop_granule(s->d, step->node, step->axes, loop), most = 0;
    uint32_t n_slots = s->division->n_slots;
    dim *made = &s->dims[s->n_dims];
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

/* Whether a slot has something in a panel: of what is empty as a whole the first counts. */
static bool present(const group *s, uint32_t slot, uint32_t g, uint32_t panel) {
    int64_t begin = begin_of(s, g, slot, panel), end = begin_of(s, g, slot, panel + 1);
    bool empty = begin_of(s, g, slot, 0) == begin_of(s, g, slot, s->dims[g].count);
    return end > begin || (empty && panel == 0);
}

static bool same_slots(const plan_layout *a, const plan_layout *b) {
    return a->n_slots == b->n_slots && !memcmp(a->slots, b->slots, a->n_slots * sizeof *a->slots);
}

/* ---- what is done in panels ---- */

/* The axes of a form along the loops. False: it cannot be cut by them. */
static bool axes_along(const group *s, const plan_form *form, const int8_t *map, const int *loop,
                       int8_t *axis, bool *cut) {
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
static shoal_status note_form(group *s, plan_form *form, const int8_t *map, const int *loop,
                              bool *fine, bool *fresh) {
    int8_t axis[DIMS];
    bool cut;
    *fresh = false;
    *fine = axes_along(s, form, map, loop, axis, &cut);
    if (!*fine) return SHOAL_OK;
    if (form->panels || !cut) {
        *fine = !form->panels ||
                (cut && !memcmp(axis, form->panels->axis, sizeof axis) && !form->panels->forms);
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
static bool loops_fit(const group *s, const plan_step *step, const int *loop) {
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

static void undo(group *s, size_t n_forms, uint32_t n_members) {
    while (s->forms.count > n_forms) s->forms.data[--s->forms.count]->panels = NULL;
    s->n_members = n_members;
}

static shoal_status join(group *s, plan_step *step, const int *loop, bool *joined);

/* A value that is made where it is needed is made in panels, too. */
static shoal_status join_maker(group *s, plan_form *form) {
    plan_step *maker = maker_of(s, form);
    if (!maker || is_exchange(maker) || maker->whole || !s->d->values[form->value].deferred ||
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

static shoal_status join_operands(group *s, plan_step *step, const int *loop, bool *fine) {
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
static shoal_status join(group *s, plan_step *step, const int *loop, bool *joined) {
    size_t n_forms = s->forms.count;
    uint32_t n_members = s->n_members;
    *joined = loops_fit(s, step, loop);
    if (*joined) SHOAL_TRY(join_operands(s, step, loop, joined));
    if (*joined && s->n_members == MOST_MEMBERS) *joined = false;
    if (!*joined) {
        undo(s, n_forms, n_members);
        return SHOAL_OK;
    }
    member *m = &s->members[s->n_members++];
    *m = (member){.step = step};
    memcpy(m->loop, loop, sizeof m->loop);
    return SHOAL_OK;
}

/* The loops of a node along the axes of what it reads in panels. */
static bool loops_along(const group *s, const plan_step *step, int *loop) {
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
static bool may_leave(const group *s, const plan_step *step) {
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

/* From the node on: what is done in panels with it, what leaves, and what has to come after. */
static shoal_status grow(group *s, uint32_t seed) {
    s->last = seed;
    for (uint32_t k = seed + 1; k < s->n; k++) {
        plan_step *step = s->from[k];
        bool reads = false, waits = false, joined = false;
        if (!step->live) continue;
        for (uint32_t i = 0; i < n_inputs(s, step); i++) {
            const plan_form *form = input_of(step, i);
            reads |= form->panels && !form->panels->forms;
            waits |= form->maker && s->late[form->maker - 1];
        }
        if (reads && !waits && is_exchange(step)) {
            joined = may_leave(s, step);
            if (joined && !base_vec_push(&s->leaving, step)) return SHOAL_NO_MEMORY;
        } else if (reads && !waits && !step->whole && !sums(step)) {
            int loop[DIMS];
            if (loops_along(s, step, loop)) SHOAL_TRY(join(s, step, loop, &joined));
        }
        if (joined) s->last = k;
        s->late[k] = (reads || waits) && !joined;
    }
    return SHOAL_OK;
}

/* Whether each member reads each form as all others do: in panels, or in one piece. */
static bool is_consistent(const group *s) {
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

static bool is_member(const group *s, const plan_step *step) {
    for (uint32_t m = 0; m < s->n_members; m++)
        if (s->members[m].step == step) return true;
    return false;
}

/* Notes which operands somebody reads in one piece before the panels. False: one that is computed
 * in panels. */
static bool find_early(const group *s) {
    for (uint32_t k = 0; k < s->last; k++) {
        const plan_step *step = s->from[k];
        if (!step->live || s->late[k] || is_member(s, step)) continue;
        for (uint32_t i = 0; i < n_inputs(s, step); i++) {
            const plan_form *form = input_of(step, i);
            if (!form->panels || form->panels->forms) continue;
            bool leaves = false;
            for (size_t e = 0; e < s->leaving.count; e++) leaves |= s->leaving.data[e] == step;
            if (leaves) continue;
            if (is_member(s, maker_of(s, form))) return false;
            form->panels->beside = true;
        }
    }
    return true;
}

/* Whether a form is read in one piece behind the panels only. */
static bool read_late(const group *s, const plan_form *form) {
    for (uint32_t k = 0; k <= s->last; k++) {
        const plan_step *step = s->from[k];
        bool here = step->live && !s->late[k];
        for (uint32_t i = 0; i < n_inputs(s, step) && here; i++)
            if (input_of(step, i) == form) return false;
    }
    return true;
}

/* ---- whether it is worth it ---- */

static double transfer(const plan_step *step) { return fmax(0, step->seconds - step->delay); }

/* Seconds for which an operand is on its way from other slots, by this exchange and the one before
 * it. */
static double coming(const group *s, const plan_form *form) {
    const plan_step *maker = maker_of(s, form);
    if (!maker || !is_exchange(maker) || maker->whole) return 0;
    return transfer(maker) + coming(s, maker->from);
}

double plan_overlap(double coming, double work, double leaving) {
    double all = coming + work + leaving, longest = fmax(work, fmax(coming, leaving));
    double count = fmin(MOST_PANELS, floor(sqrt(work / LEAST_PART)));
    double won = count < 2 ? 0 : (all - longest) * (1 - 1 / count);
    return won > LEAST_GAIN * all ? all - won : all;
}

static bool is_worth_it(const group *s) {
    double comes = 0, work = 0, leaves = 0;
    for (size_t i = 0; i < s->forms.count; i++)
        if (!s->forms.data[i]->panels->beside) comes += coming(s, s->forms.data[i]);
    for (uint32_t m = 0; m < s->n_members; m++) work += s->members[m].step->seconds;
    for (size_t i = 0; i < s->leaving.count; i++) leaves += transfer(s->leaving.data[i]);
    if (s->d->pool->panels) return comes > 0 || leaves > 0;
    return plan_overlap(comes, work, leaves) < comes + work + leaves;
}

/* Cuts a loop for each operand that comes and is not cut yet; where none does, for the result. */
static shoal_status choose_loops(group *s, const plan_step *step) {
    const plan_pool *pool = s->d->pool;
    uint32_t loops[DIMS], n = 0;
    for (uint32_t i = 0; i < n_inputs(s, step) + 1 && n < DIMS; i++) {
        bool result = i == n_inputs(s, step), cut = result && n;
        const plan_form *form = result ? step->outputs[0] : step->inputs[i];
        const int8_t *map = result ? step->axes->outputs[0] : step->axes->inputs[i];
        uint32_t rank = s->d->g->values[form->value].type.rank;
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
    for (uint32_t k = 0; k < n && count > 1; k++)
        SHOAL_TRY(add_dim(s, step, loops[k], count, &added));
    return SHOAL_OK;
}

/* ---- panels of forms ---- */

static uint32_t n_panels(const plan_form *form) {
    return form->panels->count[0] * form->panels->count[1];
}

/* A layout whose slots have boxes of their own, which do not make a grid. */
static shoal_status own_boxes(base_arena *arena, const plan_layout *like, plan_layout *out) {
    uint32_t rank = like->rank;
    *out = *like;
    uint32_t *coords = base_arena_array(arena, uint32_t, (size_t)like->n_slots * (rank + 1));
    if (!coords) return SHOAL_NO_MEMORY;
    for (uint32_t a = 0; a < rank; a++) {
        int64_t *cuts = base_arena_array(arena, int64_t, 2 * (size_t)like->n_slots);
        if (!cuts) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i < like->n_slots; i++) {
            loop_box(like, i, a, &cuts[2 * (size_t)i], &cuts[2 * (size_t)i + 1]);
            coords[(size_t)i * (rank + 1) + a] = 2 * i;
        }
        out->cuts[a] = cuts;
        out->parts[a] = 2 * like->n_slots - 1;
    }
    for (uint32_t i = 0; i < like->n_slots; i++)
        coords[(size_t)i * (rank + 1) + rank] = like->coords[(size_t)i * (rank + 1) + rank];
    out->coords = coords;
    return SHOAL_OK;
}

static void set_box(const plan_layout *layout, uint32_t slot, uint32_t axis, int64_t begin,
                    int64_t end) {
    int64_t *cuts = (int64_t *)layout->cuts[axis];
    cuts[2 * (size_t)slot] = begin;
    cuts[2 * (size_t)slot + 1] = end;
}

static shoal_status new_part(group *s, const plan_form *form, plan_form **out) {
    base_arena *arena = &s->d->arena;
    plan_form *part = *out = base_arena_array(arena, plan_form, 1);
    if (!part) return SHOAL_NO_MEMORY;
    *part = (plan_form){.value = form->value};
    SHOAL_TRY(own_boxes(arena, &form->layout, &part->layout));
    part->needed = base_arena_array(arena, bool, form->layout.n_slots);
    part->local = base_arena_array(arena, uint32_t, form->layout.n_slots);
    part->unjoined = base_arena_array(arena, uint32_t, form->layout.n_slots);
    if (!part->needed || !part->local || !part->unjoined) return SHOAL_NO_MEMORY;
    memcpy(part->needed, form->needed, form->layout.n_slots * sizeof *form->needed);
    return SHOAL_OK;
}

static shoal_status new_parts(group *s, plan_form *form) {
    plan_panels *panels = form->panels;
    uint32_t n = n_panels(form);
    plan_form **forms = base_arena_array(&s->d->arena, plan_form *, n);
    panels->steps = base_arena_array(&s->d->arena, plan_step *, n);
    panels->whole = base_arena_array(&s->d->arena, bool, form->layout.n_slots);
    if (!forms || !panels->steps || !panels->whole) return SHOAL_NO_MEMORY;
    for (uint32_t k = 0; k < n; k++) SHOAL_TRY(new_part(s, form, &forms[k]));
    panels->forms = forms;
    return SHOAL_OK;
}

/* Gives the panels of a form their boxes. */
static shoal_status cut_form(group *s, plan_form *form) {
    SHOAL_TRY(new_parts(s, form));
    const plan_panels *panels = form->panels;
    for (uint32_t k = 0; k < n_panels(form); k++) {
        uint32_t at[DIMS] = {k / panels->count[1], k % panels->count[1]};
        plan_form *part = panels->forms[k];
        for (uint32_t g = 0; g < s->n_dims; g++)
            for (uint32_t i = 0; i < form->layout.n_slots && panels->axis[g] >= 0; i++) {
                set_box(&part->layout, i, (uint32_t)panels->axis[g], begin_of(s, g, i, at[g]),
                        begin_of(s, g, i, at[g] + 1));
                part->needed[i] = part->needed[i] && present(s, i, g, at[g]);
            }
    }
    return SHOAL_OK;
}

/* ---- panels of steps ---- */

static shoal_status new_step(group *s, plan_step *whole, uint32_t panel, uint32_t panels,
                             plan_step **out) {
    *out = base_arena_array(&s->d->arena, plan_step, 1);
    if (!*out) return SHOAL_NO_MEMORY;
    **out = (plan_step){
        .node = SHOAL_NO_NODE, .live = true, .whole = whole, .panel = panel, .panels = panels};
    return SHOAL_OK;
}

/* The moves of an exchange as far as they go into, or come from, the boxes of a panel. */
static shoal_status cut_moves(group *s, const plan_moves *moves, const plan_form *part, bool into,
                              plan_moves *out) {
    *out = (plan_moves){base_arena_array(&s->d->arena, plan_move, moves->count), 0};
    if (!out->moves) return SHOAL_NO_MEMORY;
    for (size_t m = 0; m < moves->count; m++) {
        plan_move move = moves->moves[m];
        int at = plan_layout_find(&part->layout, into ? move.to : move.from);
        base_box box = plan_layout_box(&part->layout, (uint32_t)at);
        if (part->needed[at] && base_box_intersect(&moves->moves[m].box, &box, &move.box))
            out->moves[out->count++] = move;
    }
    return SHOAL_OK;
}

static void price(group *s, plan_step *step) {
    const shoal_type *type = &s->d->g->values[step->from->value].type;
    plan_moves_cost(s->d, &step->moves, step->to, shoal_dtype_size((shoal_dtype)type->dtype),
                    &step->seconds, &step->delay, &step->bytes);
}

/* The moves within each slot that give it its parts of a form that it has. */
static shoal_status moves_within(group *s, const plan_form *form, plan_moves *out) {
    const plan_layout *layout = &form->layout;
    *out = (plan_moves){base_arena_array(&s->d->arena, plan_move, layout->n_slots), 0};
    if (!out->moves) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < layout->n_slots; i++)
        out->moves[out->count++] =
            (plan_move){layout->slots[i], layout->slots[i], 0, plan_layout_box(layout, i)};
    return SHOAL_OK;
}

/* The box of a panel that a slot passes on, of those that are cut by it. */
static base_box passed_box(const plan_moves *moves, uint32_t slot, bool *any) {
    base_box box = {0};
    *any = false;
    for (size_t m = 0; m < moves->count; m++) {
        const base_box *more = &moves->moves[m].box;
        if (moves->moves[m].from != slot) continue;
        if (!*any) box = *more;
        *any = true;
        for (uint32_t a = 0; a < box.rank; a++) {
            int64_t end = box.start[a] + box.size[a], last = more->start[a] + more->size[a];
            if (more->start[a] < box.start[a]) box.start[a] = more->start[a];
            box.size[a] = (end > last ? end : last) - box.start[a];
        }
    }
    return box;
}

/* Gives each panel of a form the boxes that the panels of the next one need of it. *bytes: elements
 * in all of them. */
static shoal_status cut_passed(group *s, plan_form *via, const plan_form *next, int64_t *elements) {
    *elements = 0;
    for (uint32_t k = 0; k < n_panels(via); k++) {
        plan_form *part = via->panels->forms[k];
        plan_moves moves;
        SHOAL_TRY(cut_moves(s, &next->panels->source->moves, next->panels->forms[k], true, &moves));
        for (uint32_t i = 0; i < via->layout.n_slots; i++) {
            bool any;
            base_box box = passed_box(&moves, via->layout.slots[i], &any);
            for (uint32_t a = 0; a < via->layout.rank; a++)
                set_box(&part->layout, i, a, box.start[a], box.start[a] + box.size[a]);
            part->needed[i] = part->needed[i] && any;
            *elements += part->needed[i] ? base_box_count(&box) : 0;
        }
    }
    return SHOAL_OK;
}

/* Whether the panels of a form lie one behind the other along an axis on each slot, so that they
 * can be put together. */
static bool in_line(const plan_form *via, int axis) {
    for (uint32_t i = 0; i < via->layout.n_slots && axis >= 0; i++) {
        base_box whole = plan_layout_box(&via->layout, i);
        int64_t at = whole.start[axis];
        if (!via->needed[i]) continue;
        for (uint32_t k = 0; k < n_panels(via); k++) {
            if (!via->panels->forms[k]->needed[i]) continue;
            base_box box = plan_layout_box(&via->panels->forms[k]->layout, i);
            for (uint32_t a = 0; a < whole.rank; a++)
                if ((int)a == axis ? box.start[a] != at
                                   : box.start[a] != whole.start[a] || box.size[a] != whole.size[a])
                    return false;
            at += box.size[axis];
        }
        if (at != whole.start[axis] + whole.size[axis]) return false;
    }
    return axis >= 0;
}

/* Where an operand that comes was on its way before, it goes in panels there, too: each has what
 * those of the operand need. Not when they would need something twice, or when others read it who
 * cannot put it together. */
static shoal_status cut_before(group *s, plan_form *form) {
    plan_form *via = form->panels->source->from;
    plan_step *maker = maker_of(s, via);
    if (!maker || !is_exchange(maker) || maker->whole || via->panels ||
        via->layout.parts[via->layout.rank] > 1)
        return SHOAL_OK;
    plan_panels *panels = base_arena_array(&s->d->arena, plan_panels, 1);
    if (!panels) return SHOAL_NO_MEMORY;
    bool one = form->panels->axis[0] < 0 || form->panels->axis[1] < 0;
    int8_t axis = one ? (int8_t)(form->panels->axis[0] + form->panels->axis[1] + 1) : -1;
    *panels = (plan_panels){{axis, -1}, {n_panels(form), 1}, .passed = true, .source = maker};
    via->panels = panels;
    SHOAL_TRY(new_parts(s, via));
    int64_t all = 0, cut;
    for (uint32_t i = 0; i < via->layout.n_slots; i++) {
        base_box whole = plan_layout_box(&via->layout, i);
        all += via->needed[i] ? base_box_count(&whole) : 0;
    }
    SHOAL_TRY(cut_passed(s, via, form, &cut));
    if (cut != all || (via->readers > 1 && !(in_line(via, axis) && read_late(s, via)))) {
        via->panels = NULL;
        return SHOAL_OK;
    }
    maker->live = false;
    return cut_before(s, via);
}

/* Makes the panels of all forms, and notes where those of operands come from. */
static shoal_status cut_forms(group *s) {
    for (size_t i = 0; i < s->forms.count; i++) SHOAL_TRY(cut_form(s, s->forms.data[i]));
    for (uint32_t m = 0; m < s->n_members; m++) {
        s->members[m].step->live = false;
        s->members[m].parts =
            base_arena_array(&s->d->arena, plan_step *, (size_t)MOST_PANELS * MOST_PANELS);
        for (uint32_t o = 0; o < n_outputs(s, s->members[m].step); o++)
            if (s->members[m].step->outputs[o]->panels)
                s->members[m].step->outputs[o]->panels->steps = NULL;
    }
    for (size_t i = 0; i < s->forms.count; i++) {
        plan_form *form = s->forms.data[i];
        plan_step *maker = maker_of(s, form);
        if (!form->panels->steps) continue;
        if (!maker || !is_exchange(maker) || maker->whole) form->panels->beside = true;
        if (form->panels->beside) continue;
        form->panels->source = maker;
        maker->live = false;
        SHOAL_TRY(cut_before(s, form));
    }
    return SHOAL_OK;
}

/* Adds the step that brings a panel of an operand, unless it stands. */
static shoal_status bring(group *s, plan_form *form, uint32_t k) {
    plan_panels *panels = form->panels;
    plan_step *source = panels->source, *step;
    if (!panels->steps || panels->steps[k]) return SHOAL_OK;
    SHOAL_TRY(new_step(s, source, k, n_panels(form), &step));
    step->from = source ? source->from : form;
    step->to = panels->forms[k];
    plan_moves moves;
    if (source)
        moves = source->moves;
    else
        SHOAL_TRY(moves_within(s, form, &moves));
    SHOAL_TRY(cut_moves(s, &moves, step->to, true, &step->moves));
    if (source && source->from->panels && source->from->panels->passed) {
        SHOAL_TRY(bring(s, source->from, k));
        step->from = source->from->panels->forms[k];
    }
    price(s, step);
    panels->steps[k] = step;
    return base_vec_push(&s->steps, step) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static uint32_t panel_at(const plan_panels *panels, const uint32_t *at) {
    return (panels->axis[0] < 0 ? 0 : at[0]) * panels->count[1] + (panels->axis[1] < 0 ? 0 : at[1]);
}

/* The forms that a panel of a node reads or makes. */
static shoal_status parts_of(group *s, plan_form **forms, uint32_t n, const uint32_t *at, bool read,
                             plan_form ***out) {
    *out = base_arena_array(&s->d->arena, plan_form *, n);
    if (!*out) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        (*out)[i] = forms[i];
        plan_panels *panels = forms[i]->panels;
        bool own = false; /* what earlier groups made is read in one piece */
        for (size_t k = 0; k < s->forms.count; k++) own |= s->forms.data[k] == forms[i];
        if (!panels || !own) continue;
        uint32_t k = panel_at(panels, at);
        if (read) SHOAL_TRY(bring(s, forms[i], k));
        (*out)[i] = panels->forms[k];
    }
    return SHOAL_OK;
}

static shoal_status compute_part(group *s, member *m, const uint32_t *at) {
    plan_step *whole = m->step, *step;
    const shoal_node *node = &s->d->g->nodes[whole->node];
    uint32_t count[DIMS], own[DIMS];
    for (uint32_t g = 0; g < DIMS; g++) {
        bool cut = g < s->n_dims && m->loop[g] >= 0;
        count[g] = cut ? s->dims[g].count : 1;
        own[g] = cut ? at[g] : 0;
    }
    uint32_t k = own[0] * count[1] + own[1];
    if (m->parts[k]) return SHOAL_OK;
    SHOAL_TRY(new_step(s, whole, k, count[0] * count[1], &step));
    step->node = whole->node;
    step->axes = whole->axes;
    step->work = whole->work;
    SHOAL_TRY(own_boxes(&s->d->arena, &whole->division, &step->division));
    bool *needed = base_arena_array(&s->d->arena, bool, step->division.n_slots);
    if (!needed) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < step->division.n_slots; i++) {
        for (uint32_t o = 0; o < node->n_outputs; o++) needed[i] |= whole->outputs[o]->needed[i];
        for (uint32_t g = 0; g < s->n_dims; g++) {
            if (m->loop[g] < 0) continue;
            set_box(&step->division, i, (uint32_t)m->loop[g], begin_of(s, g, i, own[g]),
                    begin_of(s, g, i, own[g] + 1));
            needed[i] = needed[i] && present(s, i, g, own[g]);
        }
    }
    SHOAL_TRY(parts_of(s, whole->inputs, node->n_inputs, own, true, &step->inputs));
    SHOAL_TRY(parts_of(s, whole->outputs, node->n_outputs, own, false, &step->outputs));
    step->seconds = plan_compute_seconds(s->d, step->axes, &step->division, &step->work, needed);
    m->parts[k] = step;
    return base_vec_push(&s->steps, step) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* The panel of a result leaves, all of them into one piece. */
static shoal_status leave_part(group *s, plan_step *whole, const uint32_t *at) {
    const plan_panels *panels = whole->from->panels;
    uint32_t k = panel_at(panels, at), n = n_panels(whole->from);
    plan_joint *joint = whole->joint;
    if (!joint) {
        joint = whole->joint = base_arena_array(&s->d->arena, plan_joint, 1);
        if (!joint) return SHOAL_NO_MEMORY;
        joint->steps = base_arena_array(&s->d->arena, plan_step *, n);
        if (!joint->steps) return SHOAL_NO_MEMORY;
    }
    for (uint32_t i = 0; i < joint->n; i++)
        if (joint->steps[i]->panel == k) return SHOAL_OK;
    plan_step *step;
    SHOAL_TRY(new_step(s, whole, k, n, &step));
    step->from = panels->forms[k];
    step->to = whole->to;
    step->joint = joint;
    SHOAL_TRY(cut_moves(s, &whole->moves, step->from, false, &step->moves));
    const plan_step *before = joint->n ? joint->steps[joint->n - 1] : NULL;
    step->ordinal = before ? before->ordinal + before->moves.count : 0;
    price(s, step);
    joint->steps[joint->n++] = step;
    return base_vec_push(&s->steps, step) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static shoal_status place_panel(group *s, const uint32_t *at) {
    for (uint32_t m = 0; m < s->n_members; m++) {
        SHOAL_TRY(compute_part(s, &s->members[m], at));
        for (size_t i = 0; i < s->leaving.count; i++)
            for (uint32_t o = 0; o < n_outputs(s, s->members[m].step); o++)
                if (s->members[m].step->outputs[o] == s->leaving.data[i]->from)
                    SHOAL_TRY(leave_part(s, s->leaving.data[i], at));
    }
    return SHOAL_OK;
}

/* In growing squares. */
static shoal_status place_panels(group *s) {
    uint32_t first = s->dims[0].count, second = s->n_dims > 1 ? s->dims[1].count : 1;
    for (uint32_t t = 0; t < first; t++) {
        for (uint32_t i = 0; i < t && i < first && t < second; i++)
            SHOAL_TRY(place_panel(s, (uint32_t[]){i, t}));
        for (uint32_t j = 0; j <= t && j < second; j++)
            SHOAL_TRY(place_panel(s, (uint32_t[]){t, j}));
    }
    return SHOAL_OK;
}

/* The new order: what comes before as it stood, the panels, what reads them, the rest. */
static shoal_status rebuild(group *s) {
    for (size_t i = 0; i < s->leaving.count; i++) s->leaving.data[i]->live = false;
    for (uint32_t k = 0; k <= s->last; k++)
        if (s->from[k]->live && !s->late[k] && !base_vec_push(&s->steps, s->from[k]))
            return SHOAL_NO_MEMORY;
    SHOAL_TRY(place_panels(s));
    for (uint32_t k = 0; k < s->n; k++)
        if (s->from[k]->live && (s->late[k] || k > s->last) &&
            !base_vec_push(&s->steps, s->from[k]))
            return SHOAL_NO_MEMORY;
    return SHOAL_OK;
}

/* ---- all of a draft ---- */

static shoal_status try_seed(group *s, uint32_t seed, bool *done) {
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
    SHOAL_TRY(cut_forms(s));
    SHOAL_TRY(rebuild(s));
    *done = true;
    return SHOAL_OK;
}

static void group_fini(group *s) {
    free(s->forms.data);
    free(s->leaving.data);
    free(s->steps.data);
    *s = (group){0};
}

/* The first node from *at on that is done in panels; *at is n when there is none. */
static shoal_status next_group(plan_draft *d, uint32_t *at) {
    uint32_t n = (uint32_t)d->steps.count;
    bool *late = base_arena_array(&d->arena, bool, n), done = false;
    if (!late) return SHOAL_NO_MEMORY;
    group s = {.d = d, .from = d->steps.data, .n = n};
    note_makers(&s);
    for (; *at < n && !done; ++*at) {
        const plan_step *step = d->steps.data[*at];
        if (!step->live || is_exchange(step) || step->whole) continue;
        if (!d->pool->panels && step->seconds < 4 * LEAST_PART) continue;
        group_fini(&s);
        s = (group){.d = d, .from = d->steps.data, .n = n, .late = late};
        memset(late, 0, n * sizeof *late);
        shoal_status status = try_seed(&s, *at, &done);
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
        worth = step->live && is_exchange(step) && transfer(step) >= LEAST_PART;
    }
    if (!worth) return SHOAL_OK;
    for (uint32_t at = 0; at < d->steps.count;) SHOAL_TRY(next_group(d, &at));
    return SHOAL_OK;
}
