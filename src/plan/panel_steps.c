/* The steps of panels: each form that is in panels gets one form per panel, and each step that
 * makes or reads them a step per panel. */
#include "plan/panel.h"

#include <string.h>

/* ---- panels of forms ---- */

/* Whether a slot has something in a panel: of what is empty as a whole the first counts. */
static bool present(const panel_group *s, uint32_t slot, uint32_t g, uint32_t panel) {
    int64_t begin = begin_of(s, g, slot, panel), end = begin_of(s, g, slot, panel + 1);
    bool empty = begin_of(s, g, slot, 0) == begin_of(s, g, slot, s->dims[g].count);
    return end > begin || (empty && panel == 0);
}

/* Whether a form is read in one piece behind the panels only. */
static bool read_late(const panel_group *s, const plan_form *form) {
    for (uint32_t k = 0; k <= s->last; k++) {
        const plan_step *step = s->from[k];
        bool here = step->live && !s->late[k];
        for (uint32_t i = 0; i < n_inputs(s, step) && here; i++)
            if (input_of(step, i) == form) return false;
    }
    return true;
}

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

static shoal_status new_part(panel_group *s, const plan_form *form, plan_form **out) {
    base_arena *arena = &s->d->arena;
    plan_form *part = *out = base_arena_array(arena, plan_form, 1);
    if (!part) return SHOAL_NO_MEMORY;
    *part = (plan_form){.value = form->value};
    SHOAL_TRY(own_boxes(arena, &form->layout, &part->layout));
    SHOAL_TRY(plan_form_slots(s->d, part));
    memcpy(part->needed, form->needed, form->layout.n_slots * sizeof *form->needed);
    return SHOAL_OK;
}

static shoal_status new_parts(panel_group *s, plan_form *form) {
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
static shoal_status cut_form(panel_group *s, plan_form *form) {
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

static shoal_status new_step(panel_group *s, plan_step *whole, uint32_t panel, uint32_t panels,
                             plan_step **out) {
    *out = base_arena_array(&s->d->arena, plan_step, 1);
    if (!*out) return SHOAL_NO_MEMORY;
    **out = (plan_step){
        .node = SHOAL_NO_NODE, .live = true, .whole = whole, .panel = panel, .panels = panels};
    return SHOAL_OK;
}

/* The moves of an exchange as far as they go into, or come from, the boxes of a panel. */
static shoal_status cut_moves(panel_group *s, const plan_moves *moves, const plan_form *part,
                              bool into, plan_moves *out) {
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

static void price(panel_group *s, plan_step *step) {
    const shoal_type *type = &s->d->g->values[step->from->value].type;
    plan_moves_cost(s->d, &step->moves, step->to, shoal_dtype_size((shoal_dtype)type->dtype),
                    &step->seconds, &step->delay, &step->bytes);
}

/* The moves within each slot that give it its parts of a form that it has. */
static shoal_status moves_within(panel_group *s, const plan_form *form, plan_moves *out) {
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

/* Gives each panel of a form the boxes that the panels of the next one need of it; what is empty as
 * a whole is the first one's. *elements: in all of them. */
static shoal_status cut_passed(panel_group *s, plan_form *via, const plan_form *next,
                               int64_t *elements) {
    *elements = 0;
    for (uint32_t k = 0; k < n_panels(via); k++) {
        plan_form *part = via->panels->forms[k];
        plan_moves moves;
        SHOAL_TRY(cut_moves(s, &next->panels->source->moves, next->panels->forms[k], true, &moves));
        for (uint32_t i = 0; i < via->layout.n_slots; i++) {
            bool any;
            base_box box = passed_box(&moves, via->layout.slots[i], &any);
            base_box whole = plan_layout_box(&via->layout, i);
            if (!k && !base_box_count(&whole)) {
                box = whole;
                any = true;
            }
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
static shoal_status cut_before(panel_group *s, plan_form *form) {
    plan_form *via = form->panels->source->from;
    plan_step *maker = maker_of(s, via);
    if (!maker || !plan_is_exchange(maker) || maker->whole || via->panels ||
        via->layout.parts[via->layout.rank] > 1)
        return SHOAL_OK;
    for (size_t i = 0; i < s->forms.count; i++) {
        const plan_step *other = s->forms.data[i]->panels->source;
        if (other && other->from == via && other != form->panels->source) return SHOAL_OK;
    }
    plan_panels *panels = base_arena_array(&s->d->arena, plan_panels, 1);
    if (!panels) return SHOAL_NO_MEMORY;
    bool one = form->panels->axis[0] < 0 || form->panels->axis[1] < 0;
    int8_t axis = one ? (int8_t)(form->panels->axis[0] + form->panels->axis[1] + 1) : -1;
    *panels = (plan_panels){{axis, -1}, {n_panels(form), 1}, .next = form, .source = maker};
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
static shoal_status cut_forms(panel_group *s) {
    for (size_t i = 0; i < s->forms.count; i++) SHOAL_TRY(cut_form(s, s->forms.data[i]));
    for (uint32_t m = 0; m < s->n_members; m++) {
        s->members[m].step->live = false;
        s->members[m].parts = base_arena_array(&s->d->arena, plan_step *,
                                               (size_t)PLAN_MOST_PANELS * PLAN_MOST_PANELS);
        for (uint32_t o = 0; o < n_outputs(s, s->members[m].step); o++)
            if (s->members[m].step->outputs[o]->panels)
                s->members[m].step->outputs[o]->panels->steps = NULL;
    }
    for (size_t i = 0; i < s->forms.count; i++) {
        plan_form *form = s->forms.data[i];
        plan_step *maker = maker_of(s, form);
        if (!form->panels->steps) continue;
        if (!maker || !plan_is_exchange(maker) || maker->whole) form->panels->beside = true;
        if (form->panels->beside) continue;
        form->panels->source = maker;
        maker->live = false;
    }
    for (size_t i = 0; i < s->forms.count; i++)
        if (s->forms.data[i]->panels->source) SHOAL_TRY(cut_before(s, s->forms.data[i]));
    return SHOAL_OK;
}

/* Adds the step that brings a panel of an operand, unless it stands. */
static shoal_status bring(panel_group *s, plan_form *form, uint32_t k) {
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
    if (source && source->from->panels && source->from->panels->next == form) {
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
static shoal_status parts_of(panel_group *s, plan_form **forms, uint32_t n, const uint32_t *at,
                             bool read, plan_form ***out) {
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

static shoal_status compute_part(panel_group *s, panel_member *m, const uint32_t *at) {
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
    bool *needed = step->needed = base_arena_array(&s->d->arena, bool, step->division.n_slots);
    if (!needed) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < step->division.n_slots; i++) {
        needed[i] = whole->needed[i];
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
static shoal_status leave_part(panel_group *s, plan_step *whole, const uint32_t *at) {
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

static shoal_status place_panel(panel_group *s, const uint32_t *at) {
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
static shoal_status place_panels(panel_group *s) {
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
static shoal_status rebuild(panel_group *s) {
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

shoal_status plan_panel_steps(panel_group *s) {
    SHOAL_TRY(cut_forms(s));
    return rebuild(s);
}
