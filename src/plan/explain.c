/* Telling what a plan does, as text for people and as JSON for programs: what each node's division
 * is, what moves, what each slot's share is, and whether the pool is worth it. */
#include "plan/draft.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_PAIRS = 6,      /* more pairs of slots than this are only counted in the text */
    MOST_TEXT = 16 << 20 /* bytes; the JSON is some times that */
};

/* What goes from one slot to another in one exchange. */
typedef struct pair {
    uint32_t from, to;
    uint64_t bytes;
} pair;

typedef struct traffic {
    uint64_t in, out;
} traffic;

typedef struct teller {
    const plan_draft *d;
    base_arena arena;
    traffic *traffic;     /* per pool slot */
    BASE_VEC(pair) links; /* of the whole plan, each once */
    base_str text;
    cJSON *json, *steps;
} teller;

static void put_bytes(base_str *s, uint64_t bytes) {
    char text[SHOAL_BYTES_ROOM];
    base_str_text(s, shoal_bytes_text(bytes, text));
}

static void put_seconds(base_str *s, double seconds) {
    if (seconds < 1e-3)
        base_str_format(s, "%.1f us", seconds * 1e6);
    else if (seconds < 1)
        base_str_format(s, "%.2f ms", seconds * 1e3);
    else
        base_str_format(s, "%.2f s", seconds);
}

static const plan_slot *slot_of(const teller *t, uint32_t slot) {
    return &t->d->pool->slots[plan_pool_index(t->d, slot)];
}

static const char *name_of(const plan_slot *slot) { return slot->name ? slot->name : "?"; }

static int by_ends(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

static bool add_link(teller *t, const pair *p) {
    for (size_t i = 0; i < t->links.count; i++)
        if (by_ends(&t->links.data[i], p) == 0) {
            t->links.data[i].bytes += p->bytes;
            return true;
        }
    return base_vec_push(&t->links, *p);
}

/* The pairs of an exchange's live moves between slots, each once. */
static shoal_status collect_pairs(teller *t, const plan_step *step, pair **out, size_t *count) {
    const shoal_type *type = &t->d->g->values[step->from->value].type;
    size_t n = 0, bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    pair *pairs = base_arena_array(&t->arena, pair, step->moves.count);
    if (!pairs) return SHOAL_NO_MEMORY;
    for (size_t m = 0; m < step->moves.count; m++) {
        const plan_move *move = &step->moves.moves[m];
        int at = plan_layout_find(&step->to->layout, move->to);
        if (move->from == move->to || !step->to->needed[at]) continue;
        pairs[n++] =
            (pair){move->from, move->to, (uint64_t)base_box_count(&move->box) * (uint64_t)bytes};
    }
    qsort(pairs, n, sizeof *pairs, by_ends);
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        if (*count && by_ends(&pairs[*count - 1], &pairs[i]) == 0)
            pairs[*count - 1].bytes += pairs[i].bytes;
        else
            pairs[(*count)++] = pairs[i];
        t->traffic[plan_pool_index(t->d, pairs[i].from)].out += pairs[i].bytes;
        t->traffic[plan_pool_index(t->d, pairs[i].to)].in += pairs[i].bytes;
    }
    for (size_t i = 0; i < *count; i++)
        if (!add_link(t, &pairs[i])) return SHOAL_NO_MEMORY;
    *out = pairs;
    return SHOAL_OK;
}

/* Text of a layout, valid until the teller ends; NULL without memory. */
static const char *layout_text(teller *t, const plan_layout *layout) {
    base_str s;
    base_str_init(&s);
    plan_layout_text(layout, &s);
    const char *text =
        base_str_status(&s) == SHOAL_OK ? base_arena_string(&t->arena, s.data) : NULL;
    base_str_fini(&s);
    return text;
}

static shoal_status tell_exchange(teller *t, const plan_step *step, uint32_t panels) {
    pair *pairs;
    size_t n;
    SHOAL_TRY(collect_pairs(t, step, &pairs, &n));
    if (n == 0) return SHOAL_OK; /* nothing leaves its slot */
    const char *from = layout_text(t, &step->from->layout), *to = layout_text(t, &step->to->layout);
    if (!from || !to) return SHOAL_NO_MEMORY;
    base_str_format(&t->text, "  value %u moves, %s -> %s: ", step->from->value, from, to);
    if (panels) base_str_format(&t->text, "%u panels, ", panels);
    put_bytes(&t->text, step->bytes);
    base_str_text(&t->text, ", ");
    put_seconds(&t->text, step->seconds);
    cJSON *object = cJSON_CreateObject(), *moves = cJSON_AddArrayToObject(object, "moves");
    cJSON_AddStringToObject(object, "kind", "exchange");
    if (panels) cJSON_AddNumberToObject(object, "panels", panels);
    cJSON_AddNumberToObject(object, "value", step->from->value);
    cJSON_AddStringToObject(object, "from", from);
    cJSON_AddStringToObject(object, "to", to);
    cJSON_AddNumberToObject(object, "bytes", (double)step->bytes);
    cJSON_AddNumberToObject(object, "seconds", step->seconds);
    for (size_t i = 0; i < n; i++) {
        if (i < MOST_PAIRS) {
            base_str_format(&t->text, "%s%s to %s ", i ? ", " : " (",
                            name_of(slot_of(t, pairs[i].from)), name_of(slot_of(t, pairs[i].to)));
            put_bytes(&t->text, pairs[i].bytes);
        }
        cJSON *move = cJSON_CreateObject();
        cJSON_AddNumberToObject(move, "from", pairs[i].from);
        cJSON_AddNumberToObject(move, "to", pairs[i].to);
        cJSON_AddNumberToObject(move, "bytes", (double)pairs[i].bytes);
        cJSON_AddItemToArray(moves, move);
    }
    if (n > MOST_PAIRS) base_str_format(&t->text, " and %zu more", n - MOST_PAIRS);
    base_str_text(&t->text, ")\n");
    cJSON_AddItemToArray(t->steps, object);
    return SHOAL_OK;
}

static shoal_status tell_compute(teller *t, const plan_step *step, uint32_t panels) {
    const shoal_node *node = &t->d->g->nodes[step->node];
    const char *name = shoal_op_name(node->op), *division = layout_text(t, &step->division);
    char type[BASE_TYPE_TEXT] = "";
    if (!division) return SHOAL_NO_MEMORY;
    if (node->n_outputs) base_type_text(&t->d->g->values[node->first_output].type, type);
    base_str_format(&t->text, "node %u %s: %s, loops %s, ", step->node, name, type, division);
    if (panels) base_str_format(&t->text, "%u panels, ", panels);
    put_seconds(&t->text, step->seconds);
    if (node->location) base_str_format(&t->text, ", %s", node->location);
    base_str_text(&t->text, "\n");
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", "compute");
    if (panels) cJSON_AddNumberToObject(object, "panels", panels);
    cJSON_AddNumberToObject(object, "node", step->node);
    cJSON_AddStringToObject(object, "operation", name);
    cJSON_AddStringToObject(object, "type", type);
    cJSON_AddStringToObject(object, "division", division);
    cJSON_AddNumberToObject(object, "seconds", step->seconds);
    if (node->location) cJSON_AddStringToObject(object, "location", node->location);
    if (node->scope) cJSON_AddStringToObject(object, "scope", node->scope);
    cJSON_AddItemToArray(t->steps, object);
    return SHOAL_OK;
}

static void tell_slots(teller *t, const plan_result *result) {
    double total = 0;
    cJSON *slots = cJSON_AddArrayToObject(t->json, "slots");
    for (uint32_t i = 0; i < result->n_programs; i++) total += result->programs[i].flops;
    base_str_text(&t->text, "slot                  share          in         out\n");
    char in[SHOAL_BYTES_ROOM], out[SHOAL_BYTES_ROOM];
    for (uint32_t i = 0; i < result->n_programs; i++) {
        const plan_program *program = &result->programs[i];
        const plan_slot *slot = slot_of(t, program->slot);
        const traffic *bytes = &t->traffic[slot - t->d->pool->slots];
        double share = total > 0 ? program->flops / total : 0;
        base_str_format(&t->text, "%-18s %6.1f %% %11s %11s\n", name_of(slot), 100 * share,
                        shoal_bytes_text(bytes->in, in), shoal_bytes_text(bytes->out, out));
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "slot", program->slot);
        cJSON_AddStringToObject(object, "name", name_of(slot));
        cJSON_AddNumberToObject(object, "share", share);
        cJSON_AddNumberToObject(object, "flops", program->flops);
        cJSON_AddNumberToObject(object, "seconds", program->seconds);
        cJSON_AddNumberToObject(object, "bytes_in", (double)bytes->in);
        cJSON_AddNumberToObject(object, "bytes_out", (double)bytes->out);
        cJSON_AddNumberToObject(object, "peak", (double)program->peak);
        cJSON_AddItemToArray(slots, object);
    }
}

static void tell_links(teller *t) {
    cJSON *links = cJSON_AddArrayToObject(t->json, "links");
    if (t->links.count) base_str_format(&t->text, "%-32s %11s\n", "link", "moved");
    for (size_t i = 0; i < t->links.count; i++) {
        const pair *link = &t->links.data[i];
        const plan_slot *from = slot_of(t, link->from), *to = slot_of(t, link->to);
        const plan_link *way = plan_link_between(t->d, from->peer, to->peer);
        bool by_hub = way && way->relayed;
        char moved[SHOAL_BYTES_ROOM];
        base_str_format(&t->text, "%-14s to %-14s %11s%s\n", name_of(from), name_of(to),
                        shoal_bytes_text(link->bytes, moved), by_hub ? "  by way of the hub" : "");
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "from", link->from);
        cJSON_AddNumberToObject(object, "to", link->to);
        cJSON_AddNumberToObject(object, "bytes", (double)link->bytes);
        cJSON_AddBoolToObject(object, "relayed", by_hub);
        cJSON_AddItemToArray(links, object);
    }
}

static void tell_totals(teller *t, const plan_slot *single, double alone, double pooled, bool used,
                        const plan_result *result) {
    base_str_text(&t->text, "expected ");
    put_seconds(&t->text, result->seconds);
    base_str_text(&t->text, ", ");
    put_bytes(&t->text, result->bytes_moved);
    base_str_text(&t->text, " between slots\n");
    cJSON_AddNumberToObject(t->json, "seconds", result->seconds);
    cJSON_AddNumberToObject(t->json, "bytes_moved", (double)result->bytes_moved);
    if (!single) return;
    /* Chosen by the speeds that plans are made with, which are not always those that are told. */
    bool wins = pooled < alone;
    base_str_format(&t->text, "%s alone would take ", name_of(single));
    put_seconds(&t->text, alone);
    base_str_text(&t->text, ", the pool ");
    put_seconds(&t->text, pooled);
    base_str_text(&t->text, wins && used      ? ": the pool is faster\n"
                            : wins            ? ": the pool is faster by now, and not used\n"
                            : alone == pooled ? ": the pool is no faster\n"
                            : used            ? ": the pool is slower by now, and used\n"
                                              : ": the pool is slower, and not used\n");
    cJSON *object = cJSON_AddObjectToObject(t->json, "single");
    cJSON_AddNumberToObject(object, "slot", single->slot);
    cJSON_AddStringToObject(object, "name", name_of(single));
    cJSON_AddNumberToObject(object, "seconds", alone);
    cJSON_AddNumberToObject(t->json, "pool_seconds", pooled);
    cJSON_AddBoolToObject(t->json, "pool_wins", wins);
}

static shoal_status tell(teller *t, const plan_draft *pooled, const plan_draft *alone,
                         const plan_slot *single, plan_result *out) {
    t->traffic = base_arena_array(&t->arena, traffic, t->d->pool->n_slots);
    t->json = cJSON_CreateObject();
    t->steps = cJSON_AddArrayToObject(t->json, "steps");
    if (!t->traffic) return SHOAL_NO_MEMORY;
    for (size_t i = 0; i < t->d->steps.count; i++) {
        const plan_step *step = t->d->steps.data[i];
        uint32_t panels = step->panels;
        if (!step->live || (panels && step->panel)) continue;
        if (step->whole) step = step->whole; /* all panels are told of as what they make up */
        SHOAL_TRY(plan_is_exchange(step) ? tell_exchange(t, step, panels)
                                         : tell_compute(t, step, panels));
        if (t->text.size > MOST_TEXT)
            return base_fail(
                SHOAL_NO_MEMORY,
                "the explanation would have over %d MiB: explain a part of the program",
                MOST_TEXT >> 20);
    }
    tell_slots(t, out);
    tell_links(t);
    tell_totals(t, single, alone->seconds, pooled->seconds, t->d == pooled, out);
    SHOAL_TRY(base_str_status(&t->text));
    out->explain = base_arena_string(&out->arena, t->text.data);
    char *json = cJSON_PrintUnformatted(t->json);
    if (!json) return base_fail(SHOAL_NO_MEMORY, "no memory to explain a plan");
    out->explain_json = base_arena_string(&out->arena, json);
    cJSON_free(json);
    return out->explain && out->explain_json ? SHOAL_OK : SHOAL_NO_MEMORY;
}

shoal_status plan_explain(const plan_draft *chosen, const plan_draft *pooled,
                          const plan_draft *alone, const plan_slot *single, plan_result *out) {
    teller t = {.d = chosen};
    base_arena_init(&t.arena, 0);
    base_str_init(&t.text);
    shoal_status status = tell(&t, pooled, alone, single, out);
    cJSON_Delete(t.json);
    base_str_fini(&t.text);
    free(t.links.data);
    base_arena_fini(&t.arena);
    return status;
}
