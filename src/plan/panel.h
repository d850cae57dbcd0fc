/* The inside of panels: what is done in them (panel.c), and the steps that this becomes
 * (panel_steps.c). */
#ifndef PLAN_PANEL_H
#define PLAN_PANEL_H

#include "plan/draft.h"

enum { MOST_MEMBERS = 24, DIMS = 2 };

typedef struct panel_dim {
    uint32_t loop; /* of the node that it is about */
    uint32_t count;
    int64_t *at; /* [slots][count + 1]: where the panels of each slot begin and end */
} panel_dim;

/* A step that computes in panels. */
typedef struct panel_member {
    plan_step *step;
    int loop[DIMS];    /* of its node, that each dimension cuts; -1: none */
    plan_step **parts; /* per panel, once it stands */
} panel_member;

typedef struct panel_group {
    plan_draft *d;
    plan_step **from; /* the steps as they stand */
    uint32_t n;
    const plan_layout *division; /* of the node that it is about */
    uint32_t n_dims;
    panel_dim dims[DIMS];
    panel_member members[MOST_MEMBERS];
    uint32_t n_members;
    BASE_VEC(plan_form *) forms;   /* all that are in panels */
    BASE_VEC(plan_step *) leaving; /* exchanges of results */
    BASE_VEC(plan_step *) steps;   /* the new order */
    uint32_t last;                 /* the step after which all of its panels are needed */
    bool *late;                    /* per step: it comes behind them */
} panel_group;

static inline uint32_t n_inputs(const panel_group *s, const plan_step *step) {
    return plan_is_exchange(step) ? 1 : s->d->g->nodes[step->node].n_inputs;
}

static inline uint32_t n_outputs(const panel_group *s, const plan_step *step) {
    return plan_is_exchange(step) ? 1 : s->d->g->nodes[step->node].n_outputs;
}

static inline plan_form *input_of(const plan_step *step, uint32_t i) {
    return plan_is_exchange(step) ? step->from : step->inputs[i];
}

static inline plan_form *output_of(const plan_step *step, uint32_t i) {
    return plan_is_exchange(step) ? step->to : step->outputs[i];
}

static inline plan_step *maker_of(const panel_group *s, const plan_form *form) {
    return form->maker ? s->from[form->maker - 1] : NULL;
}

static inline int64_t begin_of(const panel_group *s, uint32_t g, uint32_t slot, uint32_t panel) {
    return s->dims[g].at[(size_t)slot * (s->dims[g].count + 1) + panel];
}

static inline void loop_box(const plan_layout *division, uint32_t slot, uint32_t loop,
                            int64_t *begin, int64_t *end) {
    uint32_t at = division->coords[(size_t)slot * (division->rank + 1) + loop];
    *begin = division->cuts[loop][at];
    *end = division->cuts[loop][at + 1];
}

/* Replaces the steps of a group by those of its panels; the new order is in `steps`. */
shoal_status plan_panel_steps(panel_group *s) SHOAL_CHECK_RESULT;

#endif
