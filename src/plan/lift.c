/* From layouts of tensors to divisions of loops, by the axis rule (lift), and the same way back:
 * what a division needs of operands and makes of results. */
#include "plan/draft.h"

#include <math.h>
#include <string.h>

/* A part of the work, times the slots, that is too much for one. */
static const double UNEVEN = 1.5;

bool plan_may_contract(const plan_draft *d, uint32_t n, const graph_axes *axes) {
    if (axes->initial < 0) return true;
    uint32_t value = d->g->nodes[n].inputs[axes->initial], node = d->g->values[value].node;
    for (; node != SHOAL_NO_NODE && d->g->nodes[node].op == GRAPH_PLACE;
         node = d->g->values[value].node)
        value = d->g->nodes[node].inputs[0];
    return graph_is_identity(d->g, value, axes->combine);
}

shoal_status plan_division(base_arena *arena, const graph_axes *axes, uint32_t room,
                           plan_layout *out) {
    *out = (plan_layout){.rank = axes->n_loops};
    int64_t *ends = base_arena_array(arena, int64_t, 2 * (size_t)axes->n_loops);
    out->slots = base_arena_array(arena, uint32_t, room);
    out->coords = base_arena_array(arena, uint32_t, (size_t)room * (axes->n_loops + 1));
    if (!ends || !out->slots || !out->coords) return SHOAL_NO_MEMORY;
    for (uint32_t l = 0; l <= axes->n_loops; l++) out->parts[l] = 1;
    for (uint32_t l = 0; l < axes->n_loops; l++) {
        ends[2 * l + 1] = axes->extent[l];
        out->cuts[l] = ends + 2 * (size_t)l;
    }
    return SHOAL_OK;
}

bool plan_covered(const plan_layout *division) {
    unsigned char owned[PLAN_MAX_PARTS];
    size_t boxes = 1, seen = 0;
    for (uint32_t l = 0; l < division->rank; l++) {
        boxes *= division->parts[l];
        if (boxes > division->n_slots || boxes > PLAN_MAX_PARTS) return false;
    }
    memset(owned, 0, boxes);
    for (uint32_t i = 0; i < division->n_slots; i++) {
        size_t box = 0;
        for (uint32_t l = 0; l < division->rank; l++)
            box = box * division->parts[l] + division->coords[(size_t)i * (division->rank + 1) + l];
        seen += !owned[box];
        owned[box] = 1;
    }
    return division->n_slots > 0 && seen == boxes;
}

/* The cut points of an axis as those of its loop, in proportion; *out NULL when the loop may not be
 * cut there. */
static shoal_status loop_cuts(base_arena *arena, const graph_axes *axes, uint32_t loop,
                              const int64_t *cuts, uint32_t parts, const int64_t **out) {
    int64_t length = cuts[parts], extent = axes->extent[loop], *made = NULL;
    *out = NULL;
    if (axes->granule[loop] < 1 || !length != !extent) return SHOAL_OK;
    int64_t common = length ? graph_common(length, extent) : 1;
    if (length != extent) {
        made = base_arena_array(arena, int64_t, (size_t)parts + 1);
        if (!made) return SHOAL_NO_MEMORY;
    }
    for (uint32_t i = 0; i <= parts; i++) {
        if (made && cuts[i] % (length / common)) return SHOAL_OK;
        int64_t at = made ? cuts[i] / (length / common) * (extent / common) : cuts[i];
        if (at % axes->granule[loop]) return SHOAL_OK;
        if (made) made[i] = at;
    }
    *out = made ? made : cuts;
    return SHOAL_OK;
}

/* The other way round: the granule has seen to it that the points are whole numbers. */
static const int64_t *axis_cuts(base_arena *arena, const graph_axes *axes, uint32_t loop,
                                const plan_layout *division, int64_t length) {
    const int64_t *cuts = division->cuts[loop];
    int64_t extent = axes->extent[loop];
    if (length == extent) return cuts;
    int64_t common = graph_common(length, extent);
    int64_t *made = base_arena_array(arena, int64_t, (size_t)division->parts[loop] + 1);
    for (uint32_t i = 0; made && i <= division->parts[loop]; i++)
        made[i] = cuts[i] / (extent / common) * (length / common);
    return made;
}

/* The cut points of an axis as those of a loop of which it holds a range. Parts without any of it
 * have none of the loop: part_of[part] is UINT32_MAX; of others it is the loop's part. */
static shoal_status range_cuts(base_arena *arena, const graph_range *range, int64_t extent,
                               const int64_t *cuts, uint32_t parts, uint32_t *n, int64_t **out,
                               uint32_t **part_of) {
    *out = base_arena_array(arena, int64_t, (size_t)parts + 1);
    *part_of = base_arena_array(arena, uint32_t, parts);
    if (!*out || !*part_of) return SHOAL_NO_MEMORY;
    *n = 0;
    for (uint32_t i = 0; i < parts; i++) {
        int64_t beyond = cuts[i + 1] - range->first;
        int64_t end = beyond > 0 ? (beyond - 1) / range->step + 1 : 0;
        if (end > extent) end = extent;
        (*part_of)[i] = UINT32_MAX;
        if (end <= (*out)[*n]) continue;
        (*part_of)[i] = *n;
        (*out)[++*n] = end;
    }
    return SHOAL_OK;
}

/* Whether a value had better stay cut into `parts` where elements are picked from it, `bytes` at a
 * time, by parts that each send or receive as many: else it is brought together once, for all. */
static bool picking_pays(const plan_draft *d, uint32_t value, uint32_t parts, double bytes) {
    const plan_pool *pool = d->pool;
    double all = (double)base_type_bytes(&d->g->values[value].type);
    uint32_t picks = d->values[plan_source(d, value)].picks;
    return picks * (pool->link_delay + parts * bytes / pool->link_bytes) <
           pool->link_delay + all / pool->link_bytes;
}

/* What is picked along a loop: a result, or what it is replaced by. */
static double picked_bytes(const plan_draft *d, const shoal_node *node, bool reads) {
    double bytes = 0;
    if (reads) return (double)base_type_bytes(&d->g->values[node->first_output].type);
    for (uint32_t i = 1; i < node->n_inputs; i++)
        bytes += (double)base_type_bytes(&d->g->values[node->inputs[i]].type);
    return bytes;
}

bool plan_gathers_on_few(const plan_draft *d, uint32_t n, const graph_axes *axes,
                         const plan_layout *division) {
    const shoal_node *node = &d->g->nodes[n];
    uint32_t eligible = 0;
    double most = 0;
    for (uint32_t i = 0; i < d->pool->n_slots; i++) eligible += d->eligible[i];
    for (uint32_t i = 0; i < division->n_slots; i++)
        most = fmax(most, plan_share(axes, division, i));
    return most * eligible > UNEVEN &&
           !picking_pays(d, node->inputs[0], 1, picked_bytes(d, node, true));
}

shoal_status plan_lift(plan_draft *d, base_arena *arena, uint32_t n, const graph_axes *axes,
                       const plan_layout *layout, const int8_t *map, const graph_range *ranges,
                       plan_layout *out, bool *valid) {
    SHOAL_TRY(plan_division(arena, axes, layout->n_slots, out));
    uint32_t *slots = (uint32_t *)out->slots, *coords = (uint32_t *)out->coords;
    uint32_t *part_of[GRAPH_MAX_LOOPS] = {0};
    int axis_of[GRAPH_MAX_LOOPS];
    const shoal_node *node = &d->g->nodes[n];
    bool contract = plan_may_contract(d, n, axes);
    for (uint32_t l = 0; l < axes->n_loops; l++) axis_of[l] = -1;
    for (uint32_t a = 0; a < layout->rank; a++) {
        bool ranged = ranges && ranges[a].loop != GRAPH_WHOLE;
        int loop = ranged ? ranges[a].loop : map[a];
        if (loop == GRAPH_WHOLE || layout->parts[a] == 1) continue;
        if (ranged && !axes->extent[loop]) continue;
        if (axes->contracted[loop] && !contract) continue;
        const int64_t *cuts;
        int64_t *made = NULL;
        uint32_t parts = layout->parts[a];
        if (axes->picks[loop] &&
            !picking_pays(d, node->inputs[0], parts, picked_bytes(d, node, axes->contracted[loop])))
            continue;
        if (ranged)
            SHOAL_TRY(range_cuts(arena, &ranges[a], axes->extent[loop], layout->cuts[a], parts,
                                 &parts, &made, &part_of[loop]));
        else
            SHOAL_TRY(loop_cuts(arena, axes, (uint32_t)loop, layout->cuts[a], parts, &cuts));
        if (made) cuts = made;
        if (!cuts) continue;
        axis_of[loop] = (int)a;
        out->parts[loop] = parts;
        out->cuts[loop] = cuts;
        /* What is picked does not have to be where it was picked from. */
        if (!ranged && !axes->picks[loop]) out->given = layout->given;
    }
    if (layout->n_slots == 1) out->given = layout->given;
    for (uint32_t i = 0; i < layout->n_slots; i++) {
        uint32_t at = plan_pool_index(d, layout->slots[i]);
        bool takes = d->eligible[at];
        for (uint32_t l = 0; l < axes->n_loops && takes; l++) {
            if (axis_of[l] < 0) continue;
            uint32_t part = layout->coords[(size_t)i * (layout->rank + 1) + (uint32_t)axis_of[l]];
            if (part_of[l]) part = part_of[l][part];
            coords[(size_t)out->n_slots * (axes->n_loops + 1) + l] = part;
            takes = part != UINT32_MAX;
        }
        if (takes) slots[out->n_slots++] = layout->slots[i];
    }
    *valid = plan_covered(out);
    return SHOAL_OK;
}

/* The layout of a tensor under a division. summands: it is a result. */
static shoal_status project(base_arena *arena, const graph_axes *axes, const plan_layout *division,
                            const shoal_type *type, const int8_t *map, bool summands,
                            plan_layout *out) {
    uint32_t rank = type->rank, loops = axes->n_loops;
    *out = (plan_layout){.rank = rank, .n_slots = division->n_slots, .slots = division->slots};
    out->given = division->given;
    out->combine = summands ? axes->combine : 0;
    int64_t *ends = base_arena_array(arena, int64_t, 2 * (size_t)rank);
    uint32_t *coords = base_arena_array(arena, uint32_t, (size_t)out->n_slots * (rank + 1));
    if (!ends || !coords) return SHOAL_NO_MEMORY;
    for (uint32_t a = 0; a < rank; a++) {
        bool cut = map[a] != GRAPH_WHOLE && division->parts[map[a]] > 1;
        ends[2 * a + 1] = type->dims[a];
        out->parts[a] = cut ? division->parts[map[a]] : 1;
        out->cuts[a] = cut ? axis_cuts(arena, axes, (uint32_t)map[a], division, type->dims[a])
                           : ends + 2 * (size_t)a;
        if (!out->cuts[a]) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i < out->n_slots && cut; i++)
            coords[(size_t)i * (rank + 1) + a] =
                division->coords[(size_t)i * (loops + 1) + (uint32_t)map[a]];
    }
    out->parts[rank] = 1;
    for (uint32_t l = 0; l < loops && summands; l++) {
        if (!axes->contracted[l] || division->parts[l] == 1) continue;
        out->parts[rank] *= division->parts[l];
        for (uint32_t i = 0; i < out->n_slots; i++) {
            uint32_t *at = &coords[(size_t)i * (rank + 1) + rank];
            *at = *at * division->parts[l] + division->coords[(size_t)i * (loops + 1) + l];
        }
    }
    out->coords = coords;
    return SHOAL_OK;
}

shoal_status plan_result_layout(base_arena *arena, const graph_axes *axes,
                                const plan_layout *division, const shoal_type *type,
                                uint32_t result, plan_layout *out) {
    return project(arena, axes, division, type, axes->outputs[result], true, out);
}

/* Leaves of the axes that are read in ranges those alone; of what lies before, between and behind
 * them nobody is an owner. */
static shoal_status cut_ranges(base_arena *arena, const graph_axes *axes,
                               const plan_layout *division, plan_layout *layout) {
    uint32_t rank = layout->rank, loops = axes->n_loops, *coords = (uint32_t *)layout->coords;
    for (uint32_t a = 0; a < rank; a++) {
        const graph_range *range = &axes->ranges[a];
        if (range->loop == GRAPH_WHOLE) continue;
        uint32_t loop = (uint32_t)range->loop, parts = division->parts[loop], n = 0;
        int64_t extent = layout->cuts[a][1];
        int64_t *cuts = base_arena_array(arena, int64_t, 2 * (size_t)parts + 2);
        uint32_t *part_of = base_arena_array(arena, uint32_t, parts);
        if (!cuts || !part_of) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i < parts; i++) {
            int64_t begin = division->cuts[loop][i], end = division->cuts[loop][i + 1];
            /* A part without elements begins where the one before ends. */
            int64_t from = begin == end && i ? cuts[n] : range->first;
            if (begin < end) from += begin * range->step;
            if (from > cuts[n]) cuts[++n] = from;
            part_of[i] = n;
            cuts[++n] = begin == end ? from : range->first + (end - 1) * range->step + 1;
        }
        if (cuts[n] < extent) cuts[++n] = extent;
        layout->parts[a] = n;
        layout->cuts[a] = cuts;
        for (uint32_t i = 0; i < layout->n_slots; i++)
            coords[(size_t)i * (rank + 1) + a] =
                part_of[division->coords[(size_t)i * (loops + 1) + loop]];
    }
    return SHOAL_OK;
}

shoal_status plan_operand(plan_draft *d, base_arena *arena, uint32_t n, const graph_axes *axes,
                          const plan_layout *division, uint32_t operand, plan_layout *out,
                          double *seconds, int64_t *bytes) {
    uint32_t value = d->g->nodes[n].inputs[operand];
    const shoal_type *type = &d->g->values[value].type;
    const plan_held *held = &d->values[plan_source(d, value)];
    plan_layout ranges;
    double some;
    int64_t fewer;
    SHOAL_TRY(project(arena, axes, division, type, axes->inputs[operand], false, out));
    SHOAL_TRY(plan_need_cost(d, value, out, seconds, bytes));
    /* What is made where it is needed is made once, for all who read some of it. */
    if (operand || !axes->ranges || held->deferred || !(*seconds > 0)) return SHOAL_OK;
    if (plan_gathers_on_few(d, n, axes, division)) return SHOAL_OK;
    SHOAL_TRY(project(arena, axes, division, type, axes->inputs[operand], false, &ranges));
    SHOAL_TRY(cut_ranges(arena, axes, division, &ranges));
    SHOAL_TRY(plan_need_cost(d, value, &ranges, &some, &fewer));
    if (some * held->picks >= *seconds) return SHOAL_OK;
    *out = ranges;
    *seconds = some;
    *bytes = fewer;
    return SHOAL_OK;
}
