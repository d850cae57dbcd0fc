/* Instances are admitted when their memory is there, and handed out in one order. */
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

/* Of one user, on a slot, that are not through: what waits for a client which takes nothing is in
 * nobody else's way. */
enum { MAX_IN_FLIGHT = 64 };

bool hub_takes_part(const hub *h, const plan_result *plan, const hub_peer *peer) {
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (slot && slot->peer == peer) return true;
    }
    return false;
}

/* The inputs that travel along. */
static shoal_status add_smalls(const hub_instance *instance, const plan_program *program,
                               base_arena *arena, Shoal__SlotRun *part) {
    size_t n = 0;
    for (uint32_t k = 0; k < program->n_inputs; k++)
        n += instance->record->inputs[program->input_of[k]]->data.size != 0;
    if (!n) return SHOAL_OK;
    Shoal__Small *smalls = base_arena_array(arena, Shoal__Small, n);
    part->smalls = base_arena_array(arena, Shoal__Small *, n);
    if (!smalls || !part->smalls) return SHOAL_NO_MEMORY;
    for (uint32_t k = 0; k < program->n_inputs; k++) {
        const base_str *data = &instance->record->inputs[program->input_of[k]]->data;
        if (!data->size) continue;
        Shoal__Small *small = part->smalls[part->n_smalls] = &smalls[part->n_smalls];
        shoal__small__init(small);
        small->input = k;
        small->data = (ProtobufCBinaryData){data->size, (uint8_t *)data->data};
        part->n_smalls++;
    }
    return SHOAL_OK;
}

/* What one peer has to do. */
static shoal_status send_run(hub *h, hub_instance *instance, hub_peer *peer, uint64_t *donated,
                             size_t n_donated) {
    hub_variant *variant = instance->variant;
    plan_result *plan = &variant->plan;
    base_arena arena;
    base_arena_init(&arena, 0);
    Shoal__Run run = SHOAL__RUN__INIT;
    run.instance = instance->id;
    run.epoch = h->epoch;
    run.session = instance->session;
    run.low = hub_low(h);
    run.pool = h->pool;
    run.donated = donated;
    run.n_donated = n_donated;
    run.rounds = instance->record->rounds;
    run.ahead = instance->ahead;
    run.slots = base_arena_array(&arena, Shoal__SlotRun *, plan->n_programs);
    shoal_status status = run.slots ? SHOAL_OK : SHOAL_NO_MEMORY;
    for (uint32_t i = 0; status == SHOAL_OK && i < plan->n_programs; i++) {
        const plan_program *program = &plan->programs[i];
        hub_slot *slot = hub_slot_of(h, program->slot);
        if (!slot || slot->peer != peer) continue;
        Shoal__SlotRun *part = base_arena_array(&arena, Shoal__SlotRun, 1);
        uint64_t *inputs = base_arena_array(&arena, uint64_t, program->n_inputs);
        uint64_t *outputs = base_arena_array(&arena, uint64_t, program->n_outputs);
        if (!part || !inputs || !outputs) {
            status = SHOAL_NO_MEMORY;
            break;
        }
        shoal__slot_run__init(part);
        part->slot = program->slot;
        part->program = variant->number;
        if (!variant->sent[i]) {
            part->graph.data = (uint8_t *)program->encoded.data;
            part->graph.len = program->encoded.size;
        }
        for (uint32_t k = 0; k < program->n_inputs; k++)
            inputs[k] = instance->input_ids[program->input_of[k]];
        for (uint32_t k = 0; k < program->n_outputs; k++)
            outputs[k] = instance->output_ids[program->output_of[k]];
        status = add_smalls(instance, program, &arena, part);
        if (status == SHOAL_OK && run.rounds)
            status = hub_loop_part(instance->program, program, &arena, part);
        part->inputs = inputs;
        part->n_inputs = program->n_inputs;
        part->outputs = outputs;
        part->n_outputs = program->n_outputs;
        run.slots[run.n_slots++] = part;
    }
    if (status == SHOAL_OK) status = wire_send(peer->link, SHOAL__KIND__RUN, &run.base);
    /* Of a link that has ended the hub hears in its turn, and has it run without that member. */
    if (status == SHOAL_CLOSED) status = SHOAL_OK;
    for (uint32_t i = 0; status == SHOAL_OK && i < plan->n_programs; i++) {
        const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (slot && slot->peer == peer) {
            variant->sent[i] = true;
            base_str_fini(&variant->plan.programs[i].encoded);
        }
    }
    base_arena_fini(&arena);
    return status;
}

/* Bytes that each program of the plan takes, now: what is donated may change while it waits. */
static shoal_status list_needs(const hub *h, hub_instance *instance) {
    const plan_result *plan = &instance->variant->plan;
    free(instance->needs);
    instance->needs = calloc(plan->n_programs + 1, sizeof *instance->needs);
    if (!instance->needs) return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    for (uint32_t i = 0; i < plan->n_programs; i++) instance->needs[i] = plan->programs[i].peak;
    return instance->program->loops ? hub_loop_needs(h, instance) : SHOAL_OK;
}

void hub_reserve(hub *h, const hub_instance *instance, int sign) {
    const plan_result *plan = &instance->variant->plan;
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (!slot) continue;
        slot->reserved += instance->needs[i] * (uint64_t)sign;
        slot->in_flight += (uint32_t)sign;
        hub_share_count(slot, instance->user, sign);
    }
    if (sign < 0) hub_donated_end(h, instance);
}

static shoal_status too_large(const hub_slot *slot, uint64_t need) {
    char all[SHOAL_BYTES_ROOM], used[SHOAL_BYTES_ROOM], more[SHOAL_BYTES_ROOM];
    return base_fail(SHOAL_NO_MEMORY,
                     "%s has %s for values, of which %s are in use; this needs %s "
                     "more: free some tensors, add a worker, or give it more with --memory",
                     slot->label, shoal_bytes_text(slot->memory, all),
                     shoal_bytes_text(slot->used + slot->reserved, used),
                     shoal_bytes_text(need, more));
}

/* Whether everything an instance needs is free now; fails when it never will be, or nothing that
 * runs gives any back and for a while nobody has let go of what is in the way. *own: what is not is
 * its user's alone: programs that are not through, or its client's memory. */
static shoal_status admit(const hub *h, hub_instance *instance, const hub_peer *client, bool *yes,
                          bool *own) {
    const plan_result *plan = &instance->variant->plan;
    bool patient = !instance->blocked || base_now() - instance->blocked < HUB_PATIENCE;
    *yes = true;
    *own = false;
    SHOAL_TRY(list_needs(h, instance));
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (!slot) return base_fail(SHOAL_LOST, "slot %u has left", plan->programs[i].slot);
        uint64_t need = instance->needs[i];
        bool fits = !slot->memory || slot->used + slot->reserved + need <= slot->memory;
        if (!fits && (need > slot->memory || (!slot->in_flight && !patient)))
            return too_large(slot, need);
        bool may = !client || hub_share_of(slot, client->user->number) < MAX_IN_FLIGHT;
        *own |= !may || (!fits && slot->peer == client && !slot->compute);
        *yes &= fits && may;
    }
    return SHOAL_OK;
}

static shoal_status dispatch(hub *h, hub_instance *instance) {
    const plan_result *plan = &instance->variant->plan;
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    if (client) client->queued--;
    instance->dispatched = true;
    instance->user = client ? client->user->number : 0;
    hub_reserve(h, instance, 1);
    instance->parts = calloc(h->peers.count + 1, sizeof *instance->parts);
    instance->times = calloc(plan->n_programs + 1, sizeof *instance->times);
    if (!instance->parts || !instance->times)
        return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    hub_note(h, SHOAL_EVENT_START, instance->id, "on %u slots", plan->n_programs);
    uint64_t *donated = malloc((instance->record->n_inputs + 1) * sizeof *donated);
    size_t n_donated = 0;
    shoal_status status = donated ? hub_donate(h, instance, donated, &n_donated)
                                  : base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    for (size_t i = 0; status == SHOAL_OK && i < h->peers.count; i++) {
        hub_peer *peer = h->peers.data[i];
        if (!hub_takes_part(h, plan, peer)) continue;
        status = send_run(h, instance, peer, donated, n_donated);
        if (status != SHOAL_OK) break;
        instance->parts[instance->n_parts++] = (hub_part){peer, false};
        instance->n_waiting++;
    }
    free(donated);
    return status;
}

/* Whether others may go before an instance that waits for memory: for a while. One client's large
 * program must not stop everybody, nor be put off for ever. */
static bool may_pass(hub_instance *instance) {
    int64_t now = base_now();
    if (!instance->blocked) instance->blocked = now;
    return now - instance->blocked < HUB_PATIENCE;
}

void hub_dispatch(hub *h) {
    size_t open = 0; /* sessions of which something may be handed out */
    for (size_t p = 0; p < h->peers.count; p++) open += h->peers.data[p]->queued > 0;
    for (hub_instance **at = &h->first; *at && open;) {
        hub_instance *i = *at;
        hub_peer *client = base_map_get(&h->sessions, i->session);
        bool yes = false, own = false;
        shoal_status status = i->status;
        if (i->dispatched || (client && client->blocked)) {
            at = &i->next;
            continue;
        }
        if (status == SHOAL_OK) status = admit(h, i, client, &yes, &own);
        if (status == SHOAL_OK && !yes) {
            if (!may_pass(i) && !own) break;
            if (client) client->blocked = true; /* a session's own programs keep their order */
            open -= client != NULL;
            at = &i->next;
            continue;
        }
        if (status == SHOAL_OK) status = dispatch(h, i);
        if (status != SHOAL_OK) hub_instance_fail(h, i, status, shoal_error_message());
        if (i->n_waiting)
            at = &i->next;
        else
            hub_instance_settle(h, i);
        open -= client && !client->queued;
    }
    for (size_t p = 0; p < h->peers.count; p++) h->peers.data[p]->blocked = false;
}
