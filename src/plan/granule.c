/* Granules: where an axis of a value may be cut so that nobody has to put it together again.
 *
 * Heads in [.., heads * dim] that is read as [.., heads, dim], blocks of quantised numbers: a
 * reader may be cut between them and not inside. So an axis has a number of units, equal pieces
 * between which it may be cut, as many as elements where nobody says anything. They travel from
 * readers to what they read, by the axis rules, before anything is cut; and, of values that are
 * made where they are needed, from how they are made to who reads them. An axis and its loop may
 * have different extents, but cuts in proportion: in units both are the same, and where several
 * count it is their greatest common divisor. */
#include "plan/draft.h"

int64_t plan_units(const plan_draft *d, uint32_t value, uint32_t axis) {
    const plan_held *held = &d->values[value];
    return held->units[axis] ? held->units[axis] : d->g->values[value].type.dims[axis];
}

int64_t plan_granule(const plan_draft *d, uint32_t value, uint32_t axis) {
    int64_t units = plan_units(d, value, axis);
    return units ? d->g->values[value].type.dims[axis] / units : 1;
}

/* The units of a loop, together with those of a value's axes along it. */
static int64_t with_axes(const plan_draft *d, uint32_t value, const int8_t *map, uint32_t loop,
                         int64_t units) {
    for (uint32_t a = 0; a < d->g->values[value].type.rank; a++)
        if (map[a] == (int)loop) units = graph_common(units, plan_units(d, value, a));
    return units;
}

static void narrow_axes(plan_draft *d, uint32_t value, const int8_t *map, uint32_t loop,
                        int64_t units) {
    for (uint32_t a = 0; a < d->g->values[value].type.rank; a++)
        if (map[a] == (int)loop)
            d->values[value].units[a] = graph_common(units, plan_units(d, value, a));
}

/* By the rule alone and the results; 0: the loop is not cut, which says nothing about operands. */
static int64_t of_results(const plan_draft *d, const shoal_node *node, const graph_axes *axes,
                          uint32_t loop) {
    if (axes->granule[loop] < 1 || axes->extent[loop] < 1) return 0;
    int64_t units = axes->extent[loop] / axes->granule[loop];
    for (uint32_t o = 0; o < node->n_outputs; o++)
        units = with_axes(d, node->first_output + o, axes->outputs[o], loop, units);
    return units;
}

int64_t plan_loop_granule(const plan_draft *d, uint32_t n, const graph_axes *axes, uint32_t loop) {
    const shoal_node *node = &d->g->nodes[n];
    int64_t units = of_results(d, node, axes, loop);
    if (!units) return axes->granule[loop];
    for (uint32_t i = 0; i < node->n_inputs; i++)
        units = with_axes(d, node->inputs[i], axes->inputs[i], loop, units);
    return axes->extent[loop] / units;
}

void plan_granules_back(plan_draft *d, uint32_t n, const graph_axes *axes) {
    const shoal_node *node = &d->g->nodes[n];
    for (uint32_t l = 0; l < axes->n_loops; l++) {
        int64_t units = of_results(d, node, axes, l);
        for (uint32_t i = 0; units && i < node->n_inputs; i++)
            narrow_axes(d, node->inputs[i], axes->inputs[i], l, units);
    }
}

void plan_granules_on(plan_draft *d, uint32_t n, const graph_axes *axes) {
    const shoal_node *node = &d->g->nodes[n];
    for (uint32_t l = 0; l < axes->n_loops; l++) {
        int64_t units = of_results(d, node, axes, l);
        if (!units) continue;
        units = axes->extent[l] / plan_loop_granule(d, n, axes, l);
        for (uint32_t o = 0; o < node->n_outputs; o++)
            narrow_axes(d, node->first_output + o, axes->outputs[o], l, units);
    }
}

shoal_status plan_round_cuts(plan_draft *d, uint32_t value, plan_layout *layout) {
    for (uint32_t a = 0; a < layout->rank; a++) {
        int64_t granule = plan_granule(d, value, a), last = layout->cuts[a][layout->parts[a]];
        if (granule == 1 || layout->parts[a] == 1) continue;
        int64_t *cuts = base_arena_array(&d->arena, int64_t, (size_t)layout->parts[a] + 1);
        if (!cuts) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i <= layout->parts[a]; i++) {
            int64_t at = layout->cuts[a][i] / granule * granule;
            if (layout->cuts[a][i] - at > granule / 2) at += granule;
            cuts[i] = at < last ? at : last;
        }
        layout->cuts[a] = cuts;
    }
    return SHOAL_OK;
}
