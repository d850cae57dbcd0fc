/* Choosing how the loops of a node are divided over slots.
 *
 * Candidates are divisions that follow from where the operands lie, from where the result is
 * wanted, from the pool's weights, and each slot alone; the cheapest is taken. */
#include "plan/draft.h"

#include <math.h>
#include <string.h>

enum { MOST_FOLLOWED = 8, MOST_ALONE = 16 };
/* What an exchange costs that is made together with others and not waited for at once. */
static const double PART_OF_DELAY = 0.25;

shoal_status plan_node_axes(plan_draft *d, uint32_t n, const graph_axes **out) {
    *out = d->axes[n];
    if (*out) return SHOAL_OK;
    const shoal_node *node = &d->g->nodes[n];
    graph_axes *axes = base_arena_array(&d->arena, graph_axes, 1);
    shoal_type *types = base_arena_array(&d->scratch, shoal_type, node->n_inputs);
    shoal_type *outputs = base_arena_array(&d->scratch, shoal_type, node->n_outputs);
    if (!axes || !types || !outputs) return SHOAL_NO_MEMORY;
    graph_call call = graph_node_call(d->g, node, types);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        outputs[i] = d->g->values[node->first_output + i].type;
    SHOAL_TRY(graph_axes_of(&call, outputs, node->n_outputs, &d->arena, axes));
    *out = d->axes[n] = axes;
    return SHOAL_OK;
}

shoal_status plan_work_of(const shoal_graph *g, const shoal_node *node, base_arena *arena,
                          plan_work *out) {
    shoal_type *types = base_arena_array(arena, shoal_type, node->n_inputs);
    shoal_type *outputs = base_arena_array(arena, shoal_type, node->n_outputs);
    uint32_t n_outputs = node->n_outputs;
    if (!types || !outputs) return SHOAL_NO_MEMORY;
    *out = (plan_work){0};
    if (graph_is_mapped(g, node)) return SHOAL_OK;
    graph_call call = graph_node_call(g, node, types);
    for (uint32_t i = 0; i < n_outputs; i++) {
        outputs[i] = g->values[node->first_output + i].type;
        out->bytes += (double)base_type_bytes(&outputs[i]);
    }
    const shoal_type *first = call.n_inputs ? &call.inputs[0] : n_outputs ? outputs : NULL;
    out->flops = graph_cost(&call, outputs, n_outputs);
    out->products = first ? base_figure_of((shoal_dtype)first->dtype) : BASE_PRODUCTS_F32;
    double made = out->bytes;
    /* What picks elements reads no more than it makes. */
    for (uint32_t i = 0; i < call.n_inputs; i++) {
        double bytes = (double)base_type_bytes(&call.inputs[i]);
        out->bytes += graph_picks(call.op) ? fmin(bytes, made) : bytes;
    }
    return SHOAL_OK;
}

shoal_status plan_node_work(plan_draft *d, uint32_t n, plan_work *out) {
    SHOAL_TRY(plan_work_of(d->g, &d->g->nodes[n], &d->scratch, out));
    d->figures |= 1u << out->products;
    return SHOAL_OK;
}

double plan_share(const graph_axes *axes, const plan_layout *division, uint32_t i) {
    const uint32_t *at = division->coords + (size_t)i * (division->rank + 1);
    double share = 1;
    for (uint32_t l = 0; l < axes->n_loops; l++) {
        if (axes->extent[l] == 0) return 0;
        share *= (double)(division->cuts[l][at[l] + 1] - division->cuts[l][at[l]]) /
                 (double)axes->extent[l];
    }
    return share;
}

double plan_work_seconds(const plan_slot *slot, const plan_work *work, double share) {
    const base_speeds *speeds = &slot->speeds;
    if (!(share > 0)) return 0;
    return speeds->of[BASE_LAUNCH] +
           base_speeds_seconds(speeds, work->products, share * work->flops, share * work->bytes);
}

double plan_compute_seconds(const plan_draft *d, const graph_axes *axes,
                            const plan_layout *division, const plan_work *work,
                            const bool *needed) {
    double slowest = 0;
    for (uint32_t i = 0; i < division->n_slots; i++) {
        if (needed && !needed[i]) continue;
        const plan_slot *slot = &d->pool->slots[plan_pool_index(d, division->slots[i])];
        slowest = fmax(slowest, plan_work_seconds(slot, work, plan_share(axes, division, i)));
    }
    return slowest;
}

/* ---- memory ---- */

/* For memory that is the machine's own, and is not there: what exceeds it is a plan of last resort.
 */
static const double SWAP_BYTES = 1e8;

shoal_status plan_load_begin(const plan_draft *d, base_arena *arena, plan_load *out) {
    out->bytes = base_arena_array(arena, double, d->pool->n_slots);
    return out->bytes ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* Whether pieces of a value are used where they lie in a file, by devices without memory of their
 * own: rows of it, without gaps between them. */
static bool lies_in_file(const plan_draft *d, uint32_t value, const plan_layout *layout) {
    uint32_t node = d->g->values[plan_source(d, value)].node;
    bool lies = node != SHOAL_NO_NODE && graph_is_mapped(d->g, &d->g->nodes[node]);
    for (uint32_t a = 1; a <= layout->rank; a++) lies &= layout->parts[a] == 1;
    return lies;
}

void plan_load_add(const plan_draft *d, plan_load *load, const plan_layout *layout, uint32_t value,
                   const bool *needed) {
    bool lies = lies_in_file(d, value, layout);
    for (uint32_t i = 0; i < layout->n_slots; i++) {
        uint32_t at = plan_pool_index(d, layout->slots[i]);
        bool own = d->pool->slots[at].speeds.of[BASE_TRANSFER] > 0;
        if ((needed && !needed[i]) || (lies && !own)) continue;
        shoal_type piece = plan_layout_type(layout, i, &d->g->values[value].type);
        load->bytes[at] += (double)base_type_bytes(&piece);
    }
}

double plan_load_seconds(const plan_draft *d, const plan_load *load) {
    double worst = 0;
    for (uint32_t i = 0; i < d->pool->n_slots; i++) {
        const plan_slot *slot = &d->pool->slots[i];
        double over = load->bytes[i] - (double)slot->memory;
        if (!slot->compute || !slot->memory || over <= 0) continue;
        double way = slot->speeds.of[BASE_TRANSFER];
        worst = fmax(worst, over / (way > 0 ? way : SWAP_BYTES));
    }
    return worst;
}

/* ---- candidates ---- */

typedef struct candidates {
    plan_layout lifts[MOST_FOLLOWED]; /* of operands, each another */
    double charge[MOST_FOLLOWED];     /* seconds beforehand */
    uint32_t n_lifts;
    plan_layout best;
    double seconds;
    int64_t bytes;
    bool found;
    bool bound; /* to follow what a user asked for */
} candidates;

static shoal_status add_lift(plan_draft *d, base_arena *arena, uint32_t n, const graph_axes *axes,
                             const plan_layout *layout, uint32_t operand, double charge,
                             candidates *c) {
    if (c->n_lifts == MOST_FOLLOWED) return SHOAL_OK;
    plan_layout *lift = &c->lifts[c->n_lifts];
    bool valid;
    const graph_range *ranges = operand ? NULL : axes->ranges;
    SHOAL_TRY(plan_lift(d, arena, n, axes, layout, axes->inputs[operand], ranges, lift, &valid));
    if (valid && ranges && plan_gathers_on_few(d, n, axes, lift))
        SHOAL_TRY(plan_lift(d, arena, n, axes, layout, axes->inputs[operand], NULL, lift, &valid));
    for (uint32_t i = 0; i < c->n_lifts && valid; i++) {
        if (!plan_layout_equal(&c->lifts[i], lift)) continue;
        c->charge[i] = fmin(c->charge[i], charge);
        valid = false;
    }
    if (valid) c->charge[c->n_lifts++] = charge;
    return SHOAL_OK;
}

/* Of summands for which a layout is suggested both are followed: that one, and the parts in which
 * they are joined with least to move. As what lies in parts will have to be brought together again
 * some time, these are charged, lest small values be scattered. */
static shoal_status collect_lifts(plan_draft *d, base_arena *arena, uint32_t n,
                                  const graph_axes *axes, candidates *c) {
    const shoal_node *node = &d->g->nodes[n];
    for (uint32_t o = 0; o < node->n_inputs && c->n_lifts < MOST_FOLLOWED; o++) {
        plan_layout layout;
        bool found;
        const plan_layout *placed = d->values[node->inputs[o]].placed;
        SHOAL_TRY(plan_natural_layout(d, node->inputs[o], &layout, &found));
        if (found)
            SHOAL_TRY(add_lift(d, arena, n, axes, &layout, o,
                               placed ? PART_OF_DELAY * d->pool->link_delay : 0, c));
        if (placed) SHOAL_TRY(add_lift(d, arena, n, axes, placed, o, 0, c));
    }
    return SHOAL_OK;
}

/* Where a user placed an operand, the work follows; other candidates are dropped then. The results
 * are placed by the user, too, when all operands that have axes were. */
static void bind(plan_draft *d, const shoal_node *node, candidates *c) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_lifts; i++)
        if (c->lifts[i].given) {
            c->charge[n] = c->charge[i];
            c->lifts[n++] = c->lifts[i];
        }
    if (!n) return;
    d->bound = c->bound = true;
    c->n_lifts = n;
    bool all = true;
    for (uint32_t o = 0; o < node->n_inputs; o++) {
        const plan_held *held = &d->values[node->inputs[o]];
        bool given =
            held->placed ? held->placed->given : held->forms && held->forms->form->layout.given;
        if (d->g->values[node->inputs[o]].type.rank) all = all && given;
    }
    for (uint32_t i = 0; i < n; i++) c->lifts[i].given = all;
}

/* One division out of several: on each loop, the first that cuts it gives the cuts and the slots'
 * coordinates. Its slots are those that all of them name. */
static shoal_status join(const plan_draft *d, base_arena *arena, const graph_axes *axes,
                         const candidates *c, plan_layout *out, bool *valid) {
    uint32_t loops = axes->n_loops;
    const plan_layout *cutting[MOST_FOLLOWED], *by[GRAPH_MAX_LOOPS] = {0};
    uint32_t n = 0, *where[MOST_FOLLOWED], by_index[GRAPH_MAX_LOOPS] = {0};
    *valid = false;
    for (uint32_t i = 0; i < c->n_lifts; i++) {
        bool cuts = false;
        for (uint32_t l = 0; l < loops; l++) {
            if (c->lifts[i].parts[l] == 1) continue;
            cuts = true;
            if (by[l]) continue;
            by[l] = &c->lifts[i];
            by_index[l] = n;
        }
        if (cuts) cutting[n++] = &c->lifts[i];
    }
    if (n < 2) return SHOAL_OK;
    for (uint32_t i = 0; i < n; i++) {
        where[i] = base_arena_array(arena, uint32_t, d->pool->n_slots); /* index + 1 */
        if (!where[i]) return SHOAL_NO_MEMORY;
        for (uint32_t s = 0; s < cutting[i]->n_slots; s++)
            where[i][plan_pool_index(d, cutting[i]->slots[s])] = s + 1;
    }
    SHOAL_TRY(plan_division(arena, axes, cutting[0]->n_slots, out));
    uint32_t *slots = (uint32_t *)out->slots, *coords = (uint32_t *)out->coords;
    for (uint32_t l = 0; l < loops; l++)
        if (by[l]) {
            out->parts[l] = by[l]->parts[l];
            out->cuts[l] = by[l]->cuts[l];
        }
    out->given = cutting[0]->given;
    for (uint32_t s = 0; s < cutting[0]->n_slots; s++) {
        uint32_t at = plan_pool_index(d, cutting[0]->slots[s]);
        bool everywhere = true;
        for (uint32_t i = 0; i < n; i++) everywhere = everywhere && where[i][at];
        if (!everywhere) continue;
        for (uint32_t l = 0; l < loops; l++)
            if (by[l])
                coords[(size_t)out->n_slots * (loops + 1) + l] =
                    by[l]->coords[(size_t)(where[by_index[l]][at] - 1) * (loops + 1) + l];
        slots[out->n_slots++] = cutting[0]->slots[s];
    }
    *valid = plan_covered(out);
    return SHOAL_OK;
}

shoal_status plan_follow(plan_draft *d, base_arena *arena, uint32_t n, const graph_axes *axes,
                         plan_layout *out, bool *valid) {
    candidates c = {0};
    SHOAL_TRY(collect_lifts(d, arena, n, axes, &c));
    SHOAL_TRY(join(d, arena, axes, &c, out, valid));
    if (*valid || c.n_lifts == 0) return SHOAL_OK;
    /* One that cuts, if there is one: the others can follow it. */
    uint32_t first = 0;
    for (uint32_t i = c.n_lifts; i-- > 0;)
        for (uint32_t l = 0; l < axes->n_loops; l++)
            if (c.lifts[i].parts[l] > 1) first = i;
    *out = c.lifts[first];
    *valid = true;
    return SHOAL_OK;
}

/* What comes after the node: joining partial results, and going where the result is wanted, at once
 * or one after the other. */
static shoal_status add_result_cost(plan_draft *d, uint32_t value, const plan_layout *result,
                                    double *seconds, int64_t *bytes) {
    const plan_layout *want = d->values[value].want;
    bool partial = result->parts[result->rank] > 1;
    plan_layout joined = *result;
    double join = 0, move = 0, direct;
    int64_t joined_bytes = 0, moved = 0, direct_bytes;
    if (partial) {
        SHOAL_TRY(plan_join_layout(d, &d->scratch, value, result, &joined));
        SHOAL_TRY(plan_move_cost(d, value, result, &joined, &join, &joined_bytes));
    }
    if (want) SHOAL_TRY(plan_move_cost(d, value, &joined, want, &move, &moved));
    if (want && partial) {
        SHOAL_TRY(plan_move_cost(d, value, result, want, &direct, &direct_bytes));
        if (direct < join + move) {
            *seconds += direct;
            *bytes += direct_bytes;
            return SHOAL_OK;
        }
    }
    *seconds += join + move;
    *bytes += joined_bytes + moved;
    return SHOAL_OK;
}

static uint64_t summands_of(const graph_axes *axes, const plan_layout *division) {
    uint64_t summands = 1;
    for (uint32_t l = 0; l < axes->n_loops; l++)
        if (axes->contracted[l]) summands *= division->parts[l];
    return summands;
}

/* Keeps a division if it is the cheapest so far. extra: seconds charged beforehand. */
static shoal_status offer(plan_draft *d, uint32_t n, const graph_axes *axes, const plan_work *work,
                          double extra, const plan_layout *division, candidates *c) {
    const shoal_node *node = &d->g->nodes[n];
    double busy = plan_compute_seconds(d, axes, division, work, NULL);
    double seconds = extra, coming = 0, leaving = 0, more;
    int64_t bytes = 0, moved;
    plan_load load;
    SHOAL_TRY(plan_load_begin(d, &d->scratch, &load));
    /* An exchange has a result per summand. */
    if (summands_of(axes, division) > GRAPH_MAX_OUTPUTS) return SHOAL_OK;
    for (uint32_t o = 0; o < node->n_inputs; o++) {
        if (c->found && extra + plan_overlap(coming, busy, 0) > c->seconds) return SHOAL_OK;
        plan_layout need;
        uint32_t value = node->inputs[o];
        bool again = false; /* the same operand twice is brought once */
        for (uint32_t b = 0; b < o && b < MOST_FOLLOWED && !again; b++)
            again = node->inputs[b] == value &&
                    !memcmp(axes->inputs[b], axes->inputs[o], d->g->values[value].type.rank);
        if (again) continue;
        SHOAL_TRY(plan_operand(d, &d->scratch, n, axes, division, o, &need, &more, &moved));
        plan_load_add(d, &load, &need, value, NULL);
        coming += more;
        bytes += moved;
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        plan_layout result;
        uint32_t value = node->first_output + o;
        SHOAL_TRY(
            plan_result_layout(&d->scratch, axes, division, &d->g->values[value].type, o, &result));
        bool partial = result.parts[result.rank] > 1; /* joined when all of it is there */
        SHOAL_TRY(add_result_cost(d, value, &result, partial ? &seconds : &leaving, &bytes));
        plan_load_add(d, &load, &result, value, NULL);
    }
    seconds += plan_overlap(coming, busy, leaving) + plan_load_seconds(d, &load);
    if (c->found && (seconds > c->seconds || (seconds == c->seconds && bytes >= c->bytes)))
        return SHOAL_OK;
    c->best = *division;
    c->seconds = seconds;
    c->bytes = bytes;
    c->found = true;
    return SHOAL_OK;
}

/* One loop cut over all slots that compute, by weight, else by how fast they are at this; slots
 * that would get nothing are left out.
 */
static shoal_status cut_loop(plan_draft *d, const graph_axes *axes, const plan_work *work,
                             uint32_t loop, int64_t granule, plan_layout *out) {
    uint32_t n = 0, kept = 0;
    SHOAL_TRY(plan_division(&d->scratch, axes, d->pool->n_slots, out));
    double *weights = base_arena_array(&d->scratch, double, d->pool->n_slots);
    int64_t *cuts = base_arena_array(&d->scratch, int64_t, (size_t)d->pool->n_slots + 1);
    if (!weights || !cuts) return SHOAL_NO_MEMORY;
    uint32_t *slots = (uint32_t *)out->slots, *coords = (uint32_t *)out->coords;
    bool any = false;
    for (uint32_t i = 0; i < d->pool->n_slots; i++) {
        if (!d->eligible[i] || n == PLAN_MAX_PARTS) continue;
        const plan_slot *slot = &d->pool->slots[i];
        weights[n] = d->pool->by_speed ? slot->speeds.of[work->products] : slot->weight;
        any |= weights[n] > 0;
        slots[n++] = d->pool->slots[i].slot;
    }
    SHOAL_TRY(plan_cuts(axes->extent[loop], granule, any ? weights : NULL, n, cuts));
    for (uint32_t i = 0; i < n; i++) {
        if (cuts[i] == cuts[i + 1]) continue;
        slots[kept] = slots[i];
        coords[(size_t)kept * (axes->n_loops + 1) + loop] = kept;
        cuts[++kept] = cuts[i + 1];
    }
    out->n_slots = out->parts[loop] = kept;
    out->cuts[loop] = cuts;
    return SHOAL_OK;
}

/* Cuts of the pool's own, and slots alone. They follow nothing, so that sooner or later something
 * must be moved for them: each is charged one exchange, lest small work be scattered. */
static shoal_status offer_own(plan_draft *d, uint32_t n, const graph_axes *axes,
                              const plan_work *work, candidates *c) {
    plan_layout division;
    bool contract = plan_may_contract(d, n, axes);
    double charge = d->pool->link_delay;
    for (uint32_t l = 0; l < axes->n_loops; l++) {
        int64_t granule = plan_loop_granule(d, n, axes, l);
        if (granule < 1 || axes->extent[l] <= granule) continue;
        if (axes->contracted[l] && (!contract || axes->picks[l])) continue;
        SHOAL_TRY(cut_loop(d, axes, work, l, granule, &division));
        SHOAL_TRY(offer(d, n, axes, work, charge, &division, c));
    }
    uint32_t tried = 0;
    double fastest = 0;
    for (uint32_t i = 0; i < d->pool->n_slots; i++) {
        const plan_slot *slot = &d->pool->slots[i];
        /* In a large pool, after the first few only faster slots are worth a look. */
        double speed = slot->speeds.of[work->products];
        if (!d->eligible[i] || (tried >= MOST_ALONE && speed <= fastest)) continue;
        fastest = fmax(fastest, speed);
        tried++;
        SHOAL_TRY(
            plan_layout_whole(&d->scratch, axes->n_loops, axes->extent, &slot->slot, 1, &division));
        SHOAL_TRY(offer(d, n, axes, work, charge, &division, c));
    }
    return SHOAL_OK;
}

shoal_status plan_divide(plan_draft *d, uint32_t n, const graph_axes *axes, plan_layout *out) {
    const shoal_node *node = &d->g->nodes[n];
    candidates c = {0};
    plan_layout division;
    plan_work work;
    bool valid, any = false;
    for (uint32_t i = 0; i < d->pool->n_slots; i++) any |= d->eligible[i];
    if (!any) return base_fail(SHOAL_INVALID, "no slot of the pool computes; add a worker to it");
    SHOAL_TRY(plan_node_work(d, n, &work));
    SHOAL_TRY(collect_lifts(d, &d->scratch, n, axes, &c));
    bind(d, node, &c);
    for (uint32_t i = 0; i < c.n_lifts; i++)
        SHOAL_TRY(offer(d, n, axes, &work, c.charge[i], &c.lifts[i], &c));
    SHOAL_TRY(join(d, &d->scratch, axes, &c, &division, &valid));
    if (valid) SHOAL_TRY(offer(d, n, axes, &work, 0, &division, &c));
    if (c.bound && c.found) return plan_layout_copy(&d->arena, &c.best, out);
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        const plan_layout *want = d->values[node->first_output + o].want;
        if (!want) continue;
        SHOAL_TRY(
            plan_lift(d, &d->scratch, n, axes, want, axes->outputs[o], NULL, &division, &valid));
        if (valid) SHOAL_TRY(offer(d, n, axes, &work, 0, &division, &c));
    }
    SHOAL_TRY(offer_own(d, n, axes, &work, &c));
    return plan_layout_copy(&d->arena, &c.best, out);
}
