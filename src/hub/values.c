/* Values: where they lie, what they weigh, and when they can go. */
#include "hub/state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static shoal_status value_new(hub *h, uint64_t id, uint32_t session, const shoal_type *type,
                              hub_value **out) {
    hub_peer *client = base_map_get(&h->sessions, session);
    hub_user *user = client ? client->user : NULL;
    SHOAL_TRY(hub_hold(h, user, HUB_VALUE_HELD));
    hub_value *value = calloc(1, sizeof *value);
    shoal_status status = value ? base_map_set(&h->values, id, value)
                                : base_fail(SHOAL_NO_MEMORY, "no memory for a value");
    if (status != SHOAL_OK) {
        hub_let_go(user, HUB_VALUE_HELD);
        free(value);
        return status;
    }
    value->user = user;
    value->id = value->stored = id;
    value->session = session;
    value->type = *type;
    base_arena_init(&value->arena, 0);
    base_str_init(&value->data);
    value->absent = true;
    *out = value;
    return SHOAL_OK;
}

shoal_status hub_value_new(hub *h, uint64_t id, uint32_t session, const shoal_type *type,
                           hub_value **out) {
    if (id >> 40 != session || base_map_get(&h->values, id))
        return base_fail(SHOAL_FORMAT, "value %llx is not a new one of session %u",
                         (unsigned long long)id, session);
    return value_new(h, id, session, type, out);
}

shoal_status hub_value_scratch(hub *h, uint32_t session, const shoal_type *type, hub_value **out) {
    SHOAL_TRY(value_new(h, h->next_value++, session, type, out));
    (*out)->released = true;
    return SHOAL_OK;
}

static void account(hub *h, const hub_value *value, int sign) {
    for (uint32_t i = 0; i < value->layout.n_slots; i++) {
        hub_slot *slot = hub_slot_of(h, value->layout.slots[i]);
        shoal_type type = plan_layout_type(&value->layout, i, &value->type);
        if (slot) slot->used += (uint64_t)(sign * base_type_bytes(&type));
    }
}

void hub_value_count(hub *h, hub_value *value) {
    if (value->counted || value->absent) return;
    value->counted = true;
    account(h, value, 1);
}

void hub_value_uncount(hub *h, hub_value *value) {
    if (value->counted) account(h, value, -1);
    value->counted = false;
}

void hub_value_nowhere(hub *h, hub_value *value) {
    hub_value_uncount(h, value);
    base_arena_fini(&value->arena);
    base_arena_init(&value->arena, 0);
    hub_let_go(value->user, value->laid);
    value->laid = 0;
    value->layout = (plan_layout){0};
    value->absent = true;
}

shoal_status hub_value_layout(hub *h, hub_value *value, const plan_layout *layout) {
    base_arena arena;
    base_arena_init(&arena, 0);
    plan_layout copy;
    shoal_status status = plan_layout_copy(&arena, layout, &copy);
    /* One of few slots is within what a value counts anyhow. */
    uint64_t laid = arena.held > HUB_VALUE_HELD ? arena.held : 0;
    if (status == SHOAL_OK && laid > value->laid)
        status = hub_hold(h, value->user, laid - value->laid);
    if (status != SHOAL_OK) {
        base_arena_fini(&arena);
        return status;
    }
    if (laid < value->laid) hub_let_go(value->user, value->laid - laid);
    value->laid = laid;
    hub_value_uncount(h, value);
    base_arena_fini(&value->arena);
    value->arena = arena;
    value->layout = copy;
    value->absent = false;
    return SHOAL_OK;
}

shoal_status hub_value_everywhere(hub *h, const hub_peer *client, hub_value *value) {
    base_arena arena;
    base_arena_init(&arena, 0);
    uint32_t n = 0, *slots = base_arena_array(&arena, uint32_t, h->slots.count + 1);
    for (size_t p = 0; slots && p < h->peers.count; p++)
        for (uint32_t i = 0; i < h->peers.data[p]->n_slots; i++)
            if (h->peers.data[p]->slots[i]->compute)
                slots[n++] = h->peers.data[p]->slots[i]->number;
    if (slots && !n) slots[n++] = client->slots[client->n_slots - 1]->number;
    plan_layout whole;
    shoal_status status = slots ? SHOAL_OK : SHOAL_NO_MEMORY;
    if (status == SHOAL_OK)
        status = plan_layout_whole(&arena, value->type.rank, value->type.dims, slots, n, &whole);
    if (status == SHOAL_OK) status = hub_value_layout(h, value, &whole);
    base_arena_fini(&arena);
    value->epoch = h->epoch;
    return status;
}

shoal_status hub_value_whole_at_client(hub *h, const hub_peer *client, hub_value *value) {
    const uint32_t *home = &client->slots[client->n_slots - 1]->number;
    base_arena arena;
    base_arena_init(&arena, 0);
    plan_layout whole;
    shoal_status status =
        plan_layout_whole(&arena, value->type.rank, value->type.dims, home, 1, &whole);
    if (status == SHOAL_OK) status = hub_value_layout(h, value, &whole);
    base_arena_fini(&arena);
    return status;
}

void hub_value_poison(hub_value *value, shoal_status status, const char *message) {
    if (value->status != SHOAL_OK) return; /* the first cause stays */
    value->status = status;
    value->error = strdup(message);
}

void hub_value_free(hub_value *value) {
    hub_let_go(value->user, HUB_VALUE_HELD + value->laid);
    base_arena_fini(&value->arena);
    base_str_fini(&value->data);
    free(value->error);
    free(value);
}

/* Has its parts freed, wherever they are. */
static void free_stored(hub *h, const hub_value *value) {
    const plan_layout *layout = &value->layout;
    for (uint32_t i = 0; i < layout->n_slots; i++) {
        hub_slot *slot = hub_slot_of(h, layout->slots[i]);
        if (!slot) continue;
        hub_peer *peer = slot->peer;
        size_t n = peer->free_values.count;
        if (n && peer->free_values.data[n - 1] == value->stored)
            continue; /* another slot of the peer */
        if (!base_vec_push(&peer->free_values, value->stored))
            base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    }
    h->freed += base_type_bytes(&value->type);
}

/* ---- copies in the client's memory ---- */

bool hub_value_at_client(const hub_peer *client, const hub_value *value) {
    return value->layout.n_slots == 1 &&
           value->layout.slots[0] == client->slots[client->n_slots - 1]->number;
}

void hub_value_keep(hub *h, hub_value *value, uint64_t stored) {
    hub_peer *client = base_map_get(&h->sessions, value->session);
    value->kept = stored;
    if (client) client->kept += base_type_bytes(&value->type);
}

/* The copy is not one beside the value any more. */
static uint64_t take_kept(hub *h, hub_value *value) {
    uint64_t kept = value->kept;
    hub_peer *client = base_map_get(&h->sessions, value->session);
    value->kept = 0;
    if (client && kept) client->kept -= base_type_bytes(&value->type);
    return kept;
}

void hub_value_unkeep(hub *h, hub_value *value) {
    uint64_t kept = take_kept(h, value);
    hub_peer *client = base_map_get(&h->sessions, value->session);
    if (client && kept && !base_vec_push(&client->free_values, kept))
        base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
}

shoal_status hub_value_home(hub *h, hub_value *value) {
    const hub_peer *client = base_map_get(&h->sessions, value->session);
    if (!client) return base_fail(SHOAL_CLOSED, "the client is gone");
    if (!value->absent) free_stored(h, value);
    value->stored = take_kept(h, value);
    const hub_instance *maker = hub_instance_find(h, value->maker);
    shoal_status status = hub_value_whole_at_client(h, client, value);
    if (status != SHOAL_OK)
        hub_value_poison(value, status, shoal_error_message());
    else if (!maker || !maker->record) /* else it is on its way there */
        hub_value_count(h, value);
    return status;
}

/* ---- the end ---- */

void hub_value_drop(hub *h, hub_value *value) {
    if (value->absent) return;
    hub_peer *client = base_map_get(&h->sessions, value->session);
    if (value->counted && value->holds && client && !value->data.size && !value->kept &&
        hub_value_at_client(client, value) &&
        client->kept + base_type_bytes(&value->type) <= client->spare)
        hub_value_keep(h, value, value->stored);
    else
        free_stored(h, value);
    /* Its client has a copy of a small one. */
    if (value->data.size && client && !base_vec_push(&client->free_values, value->stored))
        base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    hub_value_nowhere(h, value);
}

void hub_value_settle(hub *h, hub_value *value) {
    if (value->status != SHOAL_OK && !value->users) hub_value_disown(h, value);
    if (!value->released || value->users) return;
    hub_value_drop(h, value);
    if (value->holds) return;
    base_map_remove(&h->values, value->id);
    hub_value_unkeep(h, value);
    hub_value_disown(h, value);
    hub_value_free(value);
}

void hub_release(hub *h, hub_peer *peer, const Shoal__Release *release) {
    for (size_t i = 0; i < release->n_values; i++) {
        hub_value *value = base_map_get(&h->values, release->values[i]);
        if (!value || value->session != peer->session) continue;
        value->released = true;
        hub_value_settle(h, value);
    }
    if (release->n_values) hub_loops_drop(h, peer->session);
    hub_loops_cancel(h, peer, release->loops, release->n_loops);
    for (size_t i = 0; i < release->n_programs; i++) {
        hub_program *program = base_map_get(&h->programs, release->programs[i]);
        if (!program || program->session != peer->session) continue;
        program->released = true;
        hub_program_settle(h, program);
    }
}
