/* Variants: a program lowered for the layouts that its inputs have. */
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICATE_BYTES = 256 << 10 };
static const double WORTH_MEASURING = 5e-3; /* seconds that a plan takes */
/* Every plan depends on these: shares follow products of f32 where nothing else is known. */
enum {
    ALWAYS_MEASURED = 1 << BASE_PRODUCTS_F32 | 1 << BASE_STREAM | 1 << BASE_LAUNCH |
                      1 << BASE_TRANSFER | 1 << BASE_TRANSFER_DELAY
};

void hub_variant_free(const hub_program *program, hub_variant *variant) {
    if (!variant) return;
    hub_let_go(program->user, variant->held);
    free(variant->sent);
    free(variant->moved);
    base_str_fini(&variant->key);
    if (variant->plan.programs) plan_result_fini(&variant->plan);
    free(variant);
}

void hub_variant_drop(hub *h, const hub_program *program, hub_variant *variant) {
    for (uint32_t i = 0; i < variant->plan.n_programs; i++) {
        hub_slot *slot = hub_slot_of(h, variant->plan.programs[i].slot);
        if (slot && variant->sent[i] && !base_vec_push(&slot->peer->free_programs, variant->number))
            base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    }
    hub_variant_free(program, variant);
}

/* A key begins with the pool that the plan was made for. */
static bool is_current(const hub *h, const hub_variant *variant) {
    uint64_t made_for[2];
    memcpy(made_for, variant->key.data, sizeof made_for);
    return !variant->broken && made_for[0] == h->epoch && made_for[1] == h->speeds;
}

static void prune(hub *h, const base_map *programs) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(programs, &at, &key, &item)) {
        hub_program *program = item;
        for (size_t i = 0; i < program->variants.count;) {
            hub_variant *variant = program->variants.data[i];
            if (variant->users || is_current(h, variant)) {
                i++;
                continue;
            }
            program->variants.data[i] = program->variants.data[--program->variants.count];
            hub_variant_drop(h, program, variant);
        }
    }
}

void hub_variants_prune(hub *h) {
    if (h->pruned_epoch == h->epoch && h->pruned_speeds == h->speeds && !h->breakage) return;
    prune(h, &h->programs);
    prune(h, &h->parts);
    h->pruned_epoch = h->epoch;
    h->pruned_speeds = h->speeds;
    h->breakage = false;
}

/* Whether a plan depends on one of these links. */
static bool depends(const plan_result *plan, const base_map *moved) {
    const base_map *fewer = plan->links.count < moved->count ? &plan->links : moved;
    size_t at = 0;
    uint64_t key;
    void *any;
    while (base_map_next(fewer, &at, &key, &any))
        if (base_map_get(fewer == moved ? &plan->links : moved, key)) return true;
    return false;
}

static void outdate(hub *h, const base_map *programs, const base_map *moved) {
    uint64_t key;
    size_t at = 0;
    void *item;
    while (base_map_next(programs, &at, &key, &item)) {
        const hub_program *program = item;
        for (size_t i = 0; i < program->variants.count; i++) {
            hub_variant *variant = program->variants.data[i];
            if (!moved || variant->plan.all_links || depends(&variant->plan, moved))
                variant->broken = h->breakage = true;
        }
    }
}

void hub_variants_outdate(hub *h, const base_map *moved) {
    outdate(h, &h->programs, moved);
    outdate(h, &h->parts, moved);
}

/* A value that lies in a client's memory only. */
static bool at_home(const hub *h, const hub_value *value) {
    for (uint32_t i = 0; i < value->layout.n_slots; i++) {
        const hub_slot *slot = hub_slot_of(h, value->layout.slots[i]);
        if (!slot || slot->compute) return false;
    }
    return true;
}

/* Whether something computes with an input; `place` says itself where it is to go. */
static bool computed_with(const shoal_graph *g, uint32_t value) {
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t i = 0; g->nodes[n].op != GRAPH_PLACE && i < g->nodes[n].n_inputs; i++)
            if (g->nodes[n].inputs[i] == value) return true;
    return false;
}

/* Weights such that no share is larger than its slot's room, as far as there is room: what a slot
 * cannot take goes to the others by their weights. */
static void fit(double *weights, const double *room, uint32_t n, double bytes) {
    double total = 0;
    for (uint32_t i = 0; i < n; i++) total += room[i];
    if (total < bytes) return;
    bool any = false, over = true;
    double left = bytes, sum = 0;
    while (over) { /* those that would be full are, until no more would */
        left = bytes;
        sum = 0;
        over = false;
        for (uint32_t i = 0; i < n; i++) {
            left -= weights[i] < 0 ? room[i] : 0;
            sum += weights[i] < 0 ? 0 : weights[i];
        }
        for (uint32_t i = 0; i < n && sum > 0; i++) {
            if (weights[i] < 0 || weights[i] / sum * left <= room[i]) continue;
            weights[i] = -1;
            any = over = true;
        }
    }
    for (uint32_t i = 0; i < n && any; i++)
        weights[i] = weights[i] < 0 ? room[i] : weights[i] / sum * left;
}

/* Where a value from a client's memory is to live from its first use on: small ones on every
 * device, others cut along their first axis in proportion to the weights. */
static shoal_status settle_layout(const plan_pool *pool, const shoal_type *type, base_arena *arena,
                                  plan_layout *out) {
    uint32_t *slots = base_arena_array(arena, uint32_t, pool->n_slots);
    double *weights = base_arena_array(arena, double, pool->n_slots);
    double *room = base_arena_array(arena, double, pool->n_slots);
    if (!slots || !weights || !room) return SHOAL_NO_MEMORY;
    uint32_t n = 0;
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        if (!pool->slots[i].compute || pool->slots[i].weight <= 0) continue;
        slots[n] = pool->slots[i].slot;
        room[n] = pool->slots[i].memory ? (double)pool->slots[i].memory : INFINITY;
        weights[n++] = pool->slots[i].weight;
    }
    if (!n) return base_fail(SHOAL_LOST, "no worker is in the pool: start one with `shoal worker`");
    fit(weights, room, n, (double)base_type_bytes(type));
    if (base_type_bytes(type) <= REPLICATE_BYTES || !type->rank || type->dims[0] < n)
        return plan_layout_whole(arena, type->rank, type->dims, slots, n, out);
    return plan_layout_split(arena, type->rank, type->dims, 0, 1, slots, weights, n, out);
}

static shoal_status place_attrs(base_arena *arena, const plan_layout *layout, shoal_attr attrs[3]) {
    size_t n = layout->rank;
    for (uint32_t a = 0; a < layout->rank; a++) n += layout->parts[a] + 1;
    int64_t *cuts = base_arena_array(arena, int64_t, n);
    int64_t *slots = base_arena_array(arena, int64_t, layout->n_slots);
    if (!cuts || !slots) return SHOAL_NO_MEMORY;
    size_t at = layout->rank;
    for (uint32_t a = 0; a < layout->rank; a++) {
        cuts[a] = layout->parts[a];
        memcpy(cuts + at, layout->cuts[a], (layout->parts[a] + 1) * sizeof *cuts);
        at += layout->parts[a] + 1;
    }
    for (uint32_t i = 0; i < layout->n_slots; i++) slots[i] = layout->slots[i];
    attrs[0] = graph_ints(SHOAL_ATTR_CUTS, cuts, n);
    attrs[1] = graph_ints(SHOAL_ATTR_SLOTS, slots, layout->n_slots);
    attrs[2] = graph_int(SHOAL_ATTR_SUGGESTED, 1);
    return SHOAL_OK;
}

/* The first input that is the same value as input i, of those that were asked for with this map. */
static shoal_status first_of(const hub_value *const *inputs, uint32_t i, base_map *firsts,
                             uint32_t *out) {
    uint64_t value = (uint64_t)(uintptr_t)inputs[i];
    uintptr_t first = (uintptr_t)base_map_get(firsts, value);
    *out = first ? (uint32_t)(first - 1) : i;
    return first ? SHOAL_OK : base_map_set(firsts, value, (void *)((uintptr_t)i + 1));
}

/* Lists the inputs that move in from a client. A value that is several of them moves once; `as`
 * gets, per input, the one that is read in its place. */
static shoal_status find_moves(const hub *h, const shoal_graph *g, const hub_value *const *inputs,
                               bool moves, hub_variant *variant, uint32_t *as) {
    base_map firsts;
    base_map_init(&firsts);
    variant->moved = calloc((size_t)g->n_inputs + 1, sizeof *variant->moved);
    shoal_status status =
        variant->moved ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory to plan");
    for (uint32_t i = 0; status == SHOAL_OK && i < g->n_inputs; i++) {
        as[i] = i;
        if (!at_home(h, inputs[i]) || (!moves && !computed_with(g, g->inputs[i]))) continue;
        status = first_of(inputs, i, &firsts, &as[i]);
        if (as[i] == i) variant->moved[variant->n_moved++][0] = i;
    }
    base_map_fini(&firsts);
    return status;
}

static bool binds(const shoal_node *node) {
    const shoal_attr *bound =
        node->op == GRAPH_PLACE ? shoal_node_attr(node, SHOAL_ATTR_BOUND) : NULL;
    return bound && bound->u.i;
}

bool hub_graph_binds(const shoal_graph *g) {
    for (uint32_t n = 0; n < g->n_nodes; n++)
        if (binds(&g->nodes[n])) return true;
    return false;
}

/* The slots that a program is bound to: numbers + 1. Each list is read once, whoever wrote it. */
static shoal_status bound_slots(const shoal_graph *g, const hub_value *const *inputs,
                                base_map *out) {
    for (uint32_t i = 0; i < g->n_inputs; i++)
        for (uint32_t k = 0; inputs[i]->bound && k < inputs[i]->layout.n_slots; k++)
            SHOAL_TRY(base_map_set(out, (uint64_t)inputs[i]->layout.slots[k] + 1, out));
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_attr *slots =
            binds(&g->nodes[n]) ? shoal_node_attr(&g->nodes[n], SHOAL_ATTR_SLOTS) : NULL;
        for (size_t i = 0; slots && i < slots->count; i++)
            SHOAL_TRY(base_map_set(out, (uint64_t)slots->u.ints[i] + 1, out));
    }
    return SHOAL_OK;
}

/* Of what is bound to slots, others compute nothing: they count as slots without weight. Small
 * values, which go to wherever they are used, are on no others either. What a program has handed on
 * as it lies in its client's memory leaves the choice: nothing computes there. */
static shoal_status confine(const shoal_graph *g, const hub_value *const *inputs, base_arena *arena,
                            plan_pool *pool, plan_layout *layouts) {
    plan_slot *slots = base_arena_array(arena, plan_slot, pool->n_slots);
    uint32_t *bound = base_arena_array(arena, uint32_t, pool->n_slots), n = 0;
    base_map named;
    base_map_init(&named);
    shoal_status status = slots && bound ? bound_slots(g, inputs, &named) : SHOAL_NO_MEMORY;
    for (uint32_t i = 0; status == SHOAL_OK && i < pool->n_slots; i++) {
        slots[i] = pool->slots[i];
        bool is_bound =
            slots[i].compute && base_map_get(&named, (uint64_t)slots[i].slot + 1) != NULL;
        if (is_bound) bound[n++] = slots[i].slot;
        slots[i].weight = is_bound && slots[i].weight <= 0 ? 1 : is_bound ? slots[i].weight : 0;
    }
    base_map_fini(&named);
    SHOAL_TRY(status);
    if (!n) return SHOAL_OK;
    pool->slots = slots;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        if (inputs[i]->data.size)
            SHOAL_TRY(plan_layout_whole(arena, inputs[i]->type.rank, inputs[i]->type.dims, bound, n,
                                        &layouts[i]));
    return SHOAL_OK;
}

/* Whether a `place` names a slot that was in the pool and has left. */
static bool names_gone_slot(const hub *h, const shoal_node *node) {
    const shoal_attr *slots =
        node->op == GRAPH_PLACE ? shoal_node_attr(node, SHOAL_ATTR_SLOTS) : NULL;
    for (size_t i = 0; slots && i < slots->count; i++)
        if (slots->u.ints[i] < h->next_slot && !hub_slot_of(h, (uint32_t)slots->u.ints[i]))
            return true;
    return false;
}

/* Weights of the slots that a value is to be divided between, when some of those that hold it are
 * gone: what each of the others had, along the axis; or, when none is left, all that compute. */
static uint32_t successors(const plan_pool *pool, const plan_layout *layout, uint32_t axis,
                           uint32_t *slots, double *weights) {
    uint32_t n = 0;
    double sum = 0;
    for (uint32_t p = 0; p < pool->n_slots; p++) {
        int at = plan_layout_find(layout, pool->slots[p].slot);
        if (at < 0) continue;
        slots[n] = pool->slots[p].slot;
        weights[n] =
            axis < layout->rank ? (double)plan_layout_box(layout, (uint32_t)at).size[axis] : 1;
        sum += weights[n++];
    }
    if (n && sum > 0) return n;
    n = 0;
    for (uint32_t p = 0; p < pool->n_slots; p++) {
        if (!pool->slots[p].compute || pool->slots[p].weight <= 0) continue;
        slots[n] = pool->slots[p].slot;
        weights[n++] = pool->slots[p].weight;
    }
    return n;
}

/* Where a value goes that was to lie on slots of which some are gone: cut along the same axis, the
 * first of them if there were several, between those that are left. */
static shoal_status replace_place(const plan_pool *pool, const shoal_node *node,
                                  const shoal_type *type, base_arena *arena, shoal_attr attrs[3],
                                  uint16_t *n_attrs) {
    const shoal_attr *cuts = shoal_node_attr(node, SHOAL_ATTR_CUTS);
    const shoal_attr *named = shoal_node_attr(node, SHOAL_ATTR_SLOTS);
    plan_layout old, layout;
    SHOAL_TRY(plan_layout_from_ints(arena, type->rank, type->dims, cuts->u.ints, cuts->count,
                                    named->u.ints, named->count, &old));
    uint32_t axis = 0;
    while (axis < type->rank && old.parts[axis] == 1) axis++;
    uint32_t *slots = base_arena_array(arena, uint32_t, pool->n_slots);
    double *weights = base_arena_array(arena, double, pool->n_slots);
    if (!slots || !weights) return SHOAL_NO_MEMORY;
    uint32_t n = successors(pool, &old, axis, slots, weights);
    if (!n) return base_fail(SHOAL_LOST, "no worker is in the pool: start one with `shoal worker`");
    if (axis < type->rank)
        SHOAL_TRY(
            plan_layout_split(arena, type->rank, type->dims, axis, 1, slots, weights, n, &layout));
    else
        SHOAL_TRY(plan_layout_whole(arena, type->rank, type->dims, slots, n, &layout));
    SHOAL_TRY(place_attrs(arena, &layout, attrs));
    if (!shoal_node_attr(node, SHOAL_ATTR_SUGGESTED)) attrs[2] = graph_bool(SHOAL_ATTR_SHARES, 1);
    *n_attrs = 3;
    return SHOAL_OK;
}

/* The graph for the pool as it is: with a `place` behind each input that moves, whose result is an
 * output more and read for each input that is the same value, and without slots that are gone. */
static shoal_status adapt(const hub *h, const shoal_graph *g, const plan_pool *pool,
                          const uint32_t *as, hub_variant *variant, graph *to) {
    base_arena *arena = graph_arena(to);
    uint32_t *map = base_arena_array(arena, uint32_t, g->n_values);
    if (!map) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        SHOAL_TRY(graph_add_input(to, &g->values[g->inputs[i]].type, &map[g->inputs[i]]));
    for (uint32_t m = 0; m < variant->n_moved; m++) {
        uint32_t value = g->inputs[variant->moved[m][0]];
        plan_layout layout;
        shoal_attr attrs[3];
        SHOAL_TRY(settle_layout(pool, &g->values[value].type, arena, &layout));
        SHOAL_TRY(place_attrs(arena, &layout, attrs));
        SHOAL_TRY(graph_add(to, GRAPH_PLACE, &map[value], 1, attrs, 3, NULL, 0, &map[value]));
        variant->moved[m][1] = map[value];
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) map[g->inputs[i]] = map[g->inputs[as[i]]];
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        uint32_t *operands = base_arena_array(arena, uint32_t, node->n_inputs), first;
        if (!operands) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i < node->n_inputs; i++) operands[i] = map[node->inputs[i]];
        SHOAL_TRY(graph_at(to, node->location, node->scope));
        shoal_attr replaced[3];
        const shoal_attr *attrs = node->attrs;
        uint16_t n_attrs = node->n_attrs;
        if (names_gone_slot(h, node)) {
            if (binds(node))
                return base_fail(SHOAL_LOST, "it is bound to a slot that has left: %s",
                                 h->loss ? h->loss : "a worker left");
            SHOAL_TRY(replace_place(pool, node, &g->values[node->inputs[0]].type, arena, replaced,
                                    &n_attrs));
            attrs = replaced;
        }
        SHOAL_TRY(graph_add(to, node->op, operands, node->n_inputs, attrs, n_attrs, node->regions,
                            node->n_regions, &first));
        for (uint32_t o = 0; o < node->n_outputs; o++) map[node->first_output + o] = first + o;
    }
    for (uint32_t o = 0; o < g->n_outputs; o++) SHOAL_TRY(graph_add_output(to, map[g->outputs[o]]));
    for (uint32_t m = 0; m < variant->n_moved; m++) {
        SHOAL_TRY(graph_add_output(to, variant->moved[m][1]));
        variant->moved[m][1] = g->n_outputs + m;
    }
    return SHOAL_OK;
}

/* What the outputs must be like: whole in the client's memory, or as they come. */
static shoal_status wanted_layouts(const plan_pool *pool, const hub_program *program,
                                   const shoal_graph *g, base_arena *arena,
                                   const plan_layout ***out) {
    const plan_layout **wanted = base_arena_array(arena, const plan_layout *, g->n_outputs);
    plan_layout *layouts = base_arena_array(arena, plan_layout, g->n_outputs);
    if (!wanted || !layouts) return SHOAL_NO_MEMORY;
    const plan_slot *home = NULL;
    for (uint32_t i = 0; i < pool->n_slots; i++)
        if (!pool->slots[i].compute) home = &pool->slots[i];
    for (uint32_t o = 0; o < program->n_outputs; o++) {
        if (!program->home[o]) continue;
        if (!home) return base_fail(SHOAL_FORMAT, "the client has no memory in the pool");
        const shoal_type *type = &g->values[g->outputs[o]].type;
        SHOAL_TRY(plan_layout_whole(arena, type->rank, type->dims, &home->slot, 1, &layouts[o]));
        wanted[o] = &layouts[o];
    }
    *out = wanted;
    return SHOAL_OK;
}

/* What honest programs take grows with the nodes and the slots. */
static int64_t patience(const shoal_graph *g, const plan_pool *pool) {
    int64_t parts = (int64_t)g->n_nodes * pool->n_slots;
    int64_t most = (HUB_PLAN_MOST_MS - HUB_PLAN_MS) * BASE_MS;
    bool many = parts > most / HUB_PLAN_NODE_NS;
    return HUB_PLAN_MS * BASE_MS + (many ? most : parts * HUB_PLAN_NODE_NS);
}

static shoal_status lower(hub *h, const hub_program *program, const shoal_graph *g,
                          const hub_value *const *inputs, hub_variant *variant, base_arena *arena) {
    const plan_layout **wanted = NULL;
    plan_pool pool;
    graph *adapting = NULL;
    plan_layout *layouts = base_arena_array(arena, plan_layout, g->n_inputs);
    uint32_t *as = base_arena_array(arena, uint32_t, g->n_inputs);
    if (!layouts || !as) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_inputs; i++) layouts[i] = inputs[i]->layout;
    SHOAL_TRY(hub_pool(h, program->session, arena, &pool));
    bool bound = program->binds;
    for (uint32_t i = 0; i < g->n_inputs; i++) bound |= inputs[i]->bound;
    if (bound) SHOAL_TRY(confine(g, inputs, arena, &pool, layouts));
    pool.patience = patience(g, &pool);
    SHOAL_TRY(find_moves(h, g, inputs, program->moves, variant, as));
    if (program->loops && variant->n_moved)
        return base_fail(SHOAL_INTERNAL, "an operand of a loop has not moved in");
    shoal_status status = SHOAL_OK;
    bool adapted = variant->n_moved > 0;
    for (uint32_t n = 0; n < g->n_nodes && !adapted; n++)
        adapted = names_gone_slot(h, &g->nodes[n]);
    if (adapted) {
        status = graph_new(HUB_PLAN_LIMIT, &adapting);
        if (status == SHOAL_OK) status = adapt(h, g, &pool, as, variant, adapting);
        if (status == SHOAL_OK) g = graph_data(adapting);
    }
    if (status == SHOAL_OK) status = wanted_layouts(&pool, program, g, arena, &wanted);
    if (status == SHOAL_OK && program->loops)
        status = hub_loop_lower(program, g, &pool, layouts, wanted, arena, &variant->plan);
    else if (status == SHOAL_OK)
        status = (program->explained ? plan_lower_explained : plan_lower)(g, &pool, layouts, wanted,
                                                                          &variant->plan);
    uint32_t devices = 0;
    for (uint32_t i = 0; i < pool.n_slots; i++) devices += pool.slots[i].compute;
    /* Where nothing is to be chosen, or little is at stake, speeds are not worth their measuring.
     */
    if (status == SHOAL_OK && devices > 1 && variant->plan.seconds > WORTH_MEASURING &&
        !program->explained)
        hub_measure(h, variant->plan.figures | ALWAYS_MEASURED);
    graph_destroy(&adapting);
    return status;
}

/* Lowers a program. Its graph is large and not needed again until it is to be lowered otherwise. */
static shoal_status lower_program(hub *h, hub_program *program, const hub_value *const *inputs,
                                  hub_variant *variant) {
    base_arena arena;
    base_arena_init(&arena, 0);
    shoal_status status = SHOAL_OK;
    if (!program->graph)
        status = graph_decode(program->encoded.data, program->encoded.size, HUB_GRAPH_LIMIT,
                              &program->graph);
    if (status == SHOAL_OK)
        status = lower(h, program, graph_data(program->graph), inputs, variant, &arena);
    graph_destroy(&program->graph);
    base_arena_fini(&arena);
    return status;
}

/* What it is made of stays about as large as its programs. */
static shoal_status hold(hub *h, const hub_program *program, hub_variant *variant) {
    uint64_t bytes = HUB_PROGRAM_HELD + variant->key.size;
    for (uint32_t i = 0; i < variant->plan.n_programs; i++)
        bytes += variant->plan.programs[i].encoded.size;
    SHOAL_TRY(hub_hold(h, program->user, bytes));
    variant->held = bytes;
    h->planned += bytes;
    h->plan_made = base_now();
    return SHOAL_OK;
}

/* What a plan depends on: of inputs that may move in also which are the same value. */
static shoal_status make_key(const hub *h, const hub_value *const *inputs, uint32_t n,
                             base_str *key) {
    base_map firsts;
    base_map_init(&firsts);
    base_str_bytes(key, &h->epoch, sizeof h->epoch);
    base_str_bytes(key, &h->speeds, sizeof h->speeds);
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; status == SHOAL_OK && i < n; i++) {
        base_str_bytes(key, &inputs[i]->bound, sizeof inputs[i]->bound);
        status = plan_layout_encode(&inputs[i]->layout, key);
        if (status != SHOAL_OK || !at_home(h, inputs[i])) continue;
        uint32_t first;
        status = first_of(inputs, i, &firsts, &first);
        base_str_bytes(key, &first, sizeof first);
    }
    base_map_fini(&firsts);
    return status == SHOAL_OK ? base_str_status(key) : status;
}

shoal_status hub_variant_find(hub *h, hub_program *program, const hub_value *const *inputs,
                              hub_variant **out) {
    base_str key;
    base_str_init(&key);
    shoal_status status = make_key(h, inputs, program->n_inputs, &key);
    for (size_t i = 0; status == SHOAL_OK && i < program->variants.count; i++) {
        hub_variant *variant = program->variants.data[i];
        if (variant->broken || variant->key.size != key.size ||
            memcmp(variant->key.data, key.data, key.size))
            continue;
        base_str_fini(&key);
        *out = variant;
        return SHOAL_OK;
    }
    hub_variant *variant = NULL;
    if (status == SHOAL_OK) {
        variant = calloc(1, sizeof *variant);
        if (!variant) status = base_fail(SHOAL_NO_MEMORY, "no memory to plan");
    }
    if (variant) {
        variant->key = key;
        base_str_init(&key);
        if (!program->explained) variant->number = h->next_variant++;
        status = lower_program(h, program, inputs, variant);
        if (status == SHOAL_OK) {
            variant->sent = calloc(variant->plan.n_programs + 1, sizeof *variant->sent);
            if (!variant->sent) status = base_fail(SHOAL_NO_MEMORY, "no memory to plan");
        }
        if (status == SHOAL_OK) status = hold(h, program, variant);
        if (status == SHOAL_OK && !base_vec_push(&program->variants, variant))
            status = SHOAL_NO_MEMORY;
    }
    base_str_fini(&key);
    if (status != SHOAL_OK)
        hub_variant_free(program, variant);
    else
        *out = variant;
    return status;
}
