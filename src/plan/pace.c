/* How fast this machine plans: a small program of a fixed kind, planned for a fixed pool. */
#include "plan/lower.h"

#include "base/clock.h"

enum { SLOTS = 16, CHAIN = 32, WIDTH = 64, ROUNDS = 3 };

/* Products one after another, whose rows are divided over all slots, and the sum of each over them:
 * what planning mostly does. */
static shoal_status build(graph *g) {
    shoal_type type = {.dtype = SHOAL_F32, .rank = 2, .dims = {WIDTH, WIDTH}};
    int64_t first = 0, second = 1;
    shoal_attr along[] = {graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
                          graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &second, 1),
                          graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &first, 1)};
    shoal_attr over[] = {along[0], along[1],
                         graph_ints(SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS, &first, 1),
                         graph_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &first, 1)};
    uint32_t x, w, sum;
    SHOAL_TRY(graph_add_input(g, &type, &x));
    SHOAL_TRY(graph_add_input(g, &type, &w));
    for (int i = 0; i < CHAIN; i++) {
        SHOAL_TRY(graph_add(g, GRAPH_DOT_GENERAL, (uint32_t[]){x, x}, 2, over, 4, NULL, 0, &sum));
        SHOAL_TRY(graph_add_output(g, sum));
        SHOAL_TRY(graph_add(g, GRAPH_DOT_GENERAL, (uint32_t[]){x, w}, 2, along, 4, NULL, 0, &x));
    }
    return SHOAL_OK;
}

static shoal_status plan_it(const shoal_graph *g, int64_t *out) {
    plan_slot slots[SLOTS];
    uint32_t numbers[SLOTS];
    plan_layout inputs[2];
    plan_result result;
    base_arena arena;
    for (uint32_t i = 0; i < SLOTS; i++) {
        numbers[i] = i;
        slots[i] = (plan_slot){.slot = i, .peer = i, .compute = true, .weight = 1, .name = ""};
        for (int f = 0; f < BASE_STREAM; f++) slots[i].speeds.of[f] = 1e6;
    }
    plan_pool pool = {.n_slots = SLOTS, .slots = slots, .link_bytes = 1e9, .link_delay = 1e-6};
    const shoal_type *type = &g->values[g->inputs[0]].type;
    base_arena_init(&arena, 0);
    shoal_status status =
        plan_layout_split(&arena, type->rank, type->dims, 0, 1, numbers, NULL, SLOTS, &inputs[0]);
    if (status == SHOAL_OK)
        status = plan_layout_whole(&arena, type->rank, type->dims, numbers, SLOTS, &inputs[1]);
    int64_t start = base_thread_time();
    if (status == SHOAL_OK) status = plan_lower(g, &pool, inputs, NULL, &result);
    *out = base_thread_time() - start;
    if (status == SHOAL_OK) plan_result_fini(&result);
    base_arena_fini(&arena);
    return status;
}

/* The least of a few times: the first also takes what is there but once. */
shoal_status plan_pace(int64_t *out) {
    graph *g;
    *out = 0;
    SHOAL_TRY(graph_new(0, &g));
    shoal_status status = build(g);
    for (int i = 0; status == SHOAL_OK && i < ROUNDS; i++) {
        int64_t took;
        status = plan_it(graph_data(g), &took);
        if (!*out || took < *out) *out = took;
    }
    graph_destroy(&g);
    return status;
}
