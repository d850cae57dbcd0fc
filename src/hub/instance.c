/* Instances: admitted when their memory is there, handed out in one order, counted back in. */
#include "hub/state.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IN_FLIGHT = 64 }; /* per slot */

void hub_instance_free(hub_instance *instance) {
    free(instance->inputs);
    free(instance->outputs);
    free(instance->input_ids);
    free(instance->output_ids);
    free(instance->moved_from);
    free(instance->participants);
    free(instance->times);
    free(instance->traffic.data);
    free(instance->error);
    free(instance);
}

hub_instance *hub_instance_find(const hub *h, uint64_t id) {
    for (hub_instance *i = h->first; i; i = i->next)
        if (i->id == id) return i;
    return NULL;
}

void hub_instance_add(hub *h, hub_instance *instance) {
    instance->id = h->next_instance++;
    *h->last = instance;
    h->last = &instance->next;
}

static void unlink_instance(hub *h, hub_instance *instance) {
    hub_instance **at = &h->first;
    while (*at != instance) at = &(*at)->next;
    *at = instance->next;
    if (!*at) h->last = at;
}

/* ---- telling ---- */

static void tell_client(hub *h, hub_instance *instance) {
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    if (instance->told || !client) return;
    instance->told = true;
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = instance->status;
    error.message = instance->error;
    Shoal__Finished finished = SHOAL__FINISHED__INIT;
    finished.program = instance->program->id;
    const plan_result *plan = instance->times ? &instance->variant->plan : NULL;
    size_t n = plan ? plan->n_programs : 0;
    uint64_t *outputs = calloc(instance->n_outputs + 1, sizeof *outputs);
    Shoal__SlotTime *times = calloc(n + 1, sizeof *times);
    Shoal__SlotTime **pointers = calloc(n + 1, sizeof *pointers);
    size_t n_traffic = instance->status == SHOAL_OK ? instance->traffic.count : 0;
    Shoal__Traffic *traffic = calloc(n_traffic + 1, sizeof *traffic);
    Shoal__Traffic **ways = calloc(n_traffic + 1, sizeof *ways);
    if (outputs && times && pointers && traffic && ways) {
        for (size_t i = 0; i < n_traffic; i++) {
            const hub_traffic *t = &instance->traffic.data[i];
            shoal__traffic__init(&traffic[i]);
            traffic[i].from = t->from;
            traffic[i].to = t->to;
            traffic[i].bytes = t->bytes;
            traffic[i].nanoseconds = t->ns;
            ways[i] = &traffic[i];
        }
        finished.traffic = ways;
        finished.n_traffic = n_traffic;
        for (uint32_t o = 0; o < instance->n_outputs; o++) outputs[o] = instance->outputs[o]->id;
        finished.outputs = outputs;
        finished.n_outputs = instance->n_outputs;
        if (instance->status != SHOAL_OK) finished.error = &error;
        for (size_t i = 0; i < n && instance->status == SHOAL_OK; i++) {
            const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
            if (!slot || !slot->compute) continue;
            Shoal__SlotTime *time = &times[finished.n_slots];
            shoal__slot_time__init(time);
            time->slot = slot->number;
            time->nanoseconds = instance->times[i].busy_ns;
            time->nodes = instance->times[i].nodes;
            pointers[finished.n_slots++] = time;
        }
        finished.slots = pointers;
        if (wire_send(client->link, SHOAL__KIND__FINISHED, &finished.base) != SHOAL_OK)
            base_log(BASE_WARN, "hub", "%s: %s", client->name, shoal_error_message());
    }
    free(outputs);
    free(times);
    free(pointers);
    free(traffic);
    free(ways);
}

/* ---- handing out ---- */

static bool takes_part(const plan_result *plan, const hub *h, const hub_peer *peer) {
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
        n += instance->inputs[program->input_of[k]]->data.size != 0;
    if (!n) return SHOAL_OK;
    Shoal__Small *smalls = base_arena_array(arena, Shoal__Small, n);
    part->smalls = base_arena_array(arena, Shoal__Small *, n);
    if (!smalls || !part->smalls) return SHOAL_NO_MEMORY;
    for (uint32_t k = 0; k < program->n_inputs; k++) {
        const base_str *data = &instance->inputs[program->input_of[k]]->data;
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
static shoal_status send_run(hub *h, hub_instance *instance, hub_peer *peer) {
    hub_variant *variant = instance->variant;
    plan_result *plan = &variant->plan;
    base_arena arena;
    base_arena_init(&arena, 0);
    Shoal__Run run = SHOAL__RUN__INIT;
    run.instance = instance->id;
    run.epoch = h->epoch;
    run.session = instance->session;
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
            part->graph.data = (uint8_t *)variant->graphs[i].data;
            part->graph.len = variant->graphs[i].size;
        }
        for (uint32_t k = 0; k < program->n_inputs; k++)
            inputs[k] = instance->input_ids[program->input_of[k]];
        for (uint32_t k = 0; k < program->n_outputs; k++)
            outputs[k] = instance->output_ids[program->output_of[k]];
        status = add_smalls(instance, program, &arena, part);
        part->inputs = inputs;
        part->n_inputs = program->n_inputs;
        part->outputs = outputs;
        part->n_outputs = program->n_outputs;
        run.slots[run.n_slots++] = part;
    }
    if (status == SHOAL_OK) status = wire_send(peer->link, SHOAL__KIND__RUN, &run.base);
    for (uint32_t i = 0; status == SHOAL_OK && i < plan->n_programs; i++) {
        const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (slot && slot->peer == peer) {
            variant->sent[i] = true;
            base_str_fini(&variant->graphs[i]);
        }
    }
    base_arena_fini(&arena);
    return status;
}

static void reserve(hub *h, const hub_instance *instance, int sign) {
    const plan_result *plan = &instance->variant->plan;
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (!slot) continue;
        slot->reserved += (uint64_t)((int64_t)plan->programs[i].peak * sign);
        slot->in_flight += (uint32_t)sign;
    }
}

/* Whether everything an instance needs is free now; fails when it never will be. */
static shoal_status admit(const hub *h, const hub_instance *instance, bool *yes) {
    const plan_result *plan = &instance->variant->plan;
    *yes = true;
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (!slot) return base_fail(SHOAL_LOST, "slot %u has left", plan->programs[i].slot);
        uint64_t need = plan->programs[i].peak;
        /* The results are in `used` already: values are laid out when they are planned. */
        if (slot->memory && slot->used + slot->reserved + need > slot->memory && !slot->in_flight)
            return base_fail(
                SHOAL_NO_MEMORY,
                "%s has %llu MiB for values, of which %llu are in use; this needs %llu "
                "more: free some tensors, add a worker, or give it more with --memory",
                slot->label, (unsigned long long)(slot->memory >> 20),
                (unsigned long long)(slot->used >> 20), (unsigned long long)(need >> 20));
        if (slot->in_flight >= MAX_IN_FLIGHT ||
            (slot->memory && slot->used + slot->reserved + need > slot->memory))
            *yes = false;
    }
    return SHOAL_OK;
}

static shoal_status dispatch(hub *h, hub_instance *instance) {
    const plan_result *plan = &instance->variant->plan;
    instance->dispatched = true;
    reserve(h, instance, 1);
    instance->participants = calloc(h->peers.count + 1, sizeof *instance->participants);
    instance->times = calloc(plan->n_programs + 1, sizeof *instance->times);
    if (!instance->participants || !instance->times)
        return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    for (size_t i = 0; i < h->peers.count; i++) {
        hub_peer *peer = h->peers.data[i];
        if (!takes_part(plan, h, peer)) continue;
        SHOAL_TRY(send_run(h, instance, peer));
        instance->participants[instance->n_participants++] = peer;
        instance->n_waiting++;
    }
    return SHOAL_OK;
}

static void settle(hub *h, hub_instance *instance);

void hub_dispatch(hub *h) {
    for (hub_instance *i = h->first, *next; i; i = next) {
        next = i->next;
        if (i->dispatched) continue;
        bool yes = false;
        shoal_status status = i->status;
        if (status == SHOAL_OK) status = admit(h, i, &yes);
        if (status == SHOAL_OK && !yes) return; /* one order for everyone: later ones wait too */
        if (status == SHOAL_OK) status = dispatch(h, i);
        if (status != SHOAL_OK) hub_instance_fail(h, i, status, shoal_error_message());
        if (!i->n_waiting) settle(h, i);
    }
}

/* ---- counting in ---- */

/* Through: everybody who took part has said so. */
static void settle(hub *h, hub_instance *instance) {
    tell_client(h, instance);
    unlink_instance(h, instance);
    if (instance->dispatched) reserve(h, instance, -1);
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    for (uint32_t m = 0; instance->variant && client && m < instance->variant->n_moved; m++)
        if (instance->moved_from[m] &&
            !base_vec_push(&client->free_values, instance->moved_from[m]))
            base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    for (uint32_t i = 0; i < instance->n_inputs; i++) {
        instance->inputs[i]->users--;
        hub_value_settle(h, instance->inputs[i]);
    }
    for (uint32_t o = 0; o < instance->n_outputs; o++) {
        instance->outputs[o]->users--;
        hub_value_settle(h, instance->outputs[o]);
    }
    instance->program->users--;
    hub_program_settle(h, instance->program);
    hub_instance_free(instance);
}

static void note_time(hub_instance *instance, const Shoal__SlotTime *time) {
    const plan_result *plan = &instance->variant->plan;
    for (uint32_t i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].slot == time->slot)
            instance->times[i] = (shoal_slot_time){time->slot, time->nanoseconds, time->nodes};
}

void hub_done(hub *h, hub_peer *peer, const Shoal__Done *done) {
    hub_instance *instance = hub_instance_find(h, done->instance);
    if (!instance) return;
    for (uint32_t i = 0; i < instance->n_participants; i++) {
        if (instance->participants[i] != peer) continue;
        instance->participants[i] = NULL;
        instance->n_waiting--;
        for (size_t k = 0; k < done->n_slots; k++) {
            hub_slot *slot = hub_slot_of(h, done->slots[k]->slot);
            if (!slot || slot->peer != peer) continue;
            slot->instances++;
            slot->busy_ns += done->slots[k]->nanoseconds;
            slot->nodes += done->slots[k]->nodes;
            note_time(instance, done->slots[k]);
        }
        for (size_t k = 0; k < done->n_traffic; k++) {
            const Shoal__Traffic *t = done->traffic[k];
            hub_traffic traffic = {t->from, t->to, t->bytes, t->nanoseconds};
            if (!base_vec_push(&instance->traffic, traffic))
                base_log(BASE_WARN, "hub", "%s", shoal_error_message());
            hub_learn(h, &traffic);
        }
    }
    if (!instance->n_waiting) settle(h, instance);
    hub_dispatch(h);
}

static void cancel(const hub_instance *instance) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = instance->status;
    error.message = instance->error;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = instance->id;
    failed.error = &error;
    for (uint32_t i = 0; i < instance->n_participants; i++) {
        hub_peer *peer = instance->participants[i];
        if (peer && wire_send(peer->link, SHOAL__KIND__CANCEL, &failed.base) != SHOAL_OK)
            base_log(BASE_WARN, "hub", "%s: %s", peer->name, shoal_error_message());
    }
}

/* An input that was to move in from its client stays where it is: nothing of it is lost. */
static void move_back(hub *h, hub_instance *instance, uint32_t m) {
    const uint32_t *moved = instance->variant->moved[m];
    hub_value *value = instance->inputs[moved[0]];
    hub_peer *client = base_map_get(&h->sessions, value->session);
    if (!instance->moved_from[m] || value->stored != instance->output_ids[moved[1]] || !client)
        return;
    base_arena arena;
    base_arena_init(&arena, 0);
    plan_layout whole;
    hub_free_stored(h, &value->layout, value->stored);
    value->stored = instance->moved_from[m];
    instance->moved_from[m] = 0;
    const uint32_t *home = &client->slots[client->n_slots - 1]->number;
    if (plan_layout_whole(&arena, value->type.rank, value->type.dims, home, 1, &whole) !=
            SHOAL_OK ||
        hub_value_layout(h, value, &whole) != SHOAL_OK)
        hub_value_poison(value, SHOAL_NO_MEMORY, shoal_error_message());
    base_arena_fini(&arena);
}

static void fail_one(hub *h, hub_instance *instance, shoal_status status, const char *message) {
    if (instance->status != SHOAL_OK) return;
    instance->status = status;
    instance->error = strdup(message);
    for (uint32_t o = 0; o < instance->n_outputs; o++)
        hub_value_poison(instance->outputs[o], status, message);
    for (uint32_t m = 0; instance->variant && m < instance->variant->n_moved; m++)
        move_back(h, instance, m);
    cancel(instance);
    tell_client(h, instance);
}

/* Whether an instance was to read what another, which failed, would have written. */
static bool derives(const hub_instance *instance, const hub_instance *failed) {
    uint32_t n_moved = failed->variant ? failed->variant->n_moved : 0;
    for (uint32_t i = 0; i < instance->n_inputs; i++)
        for (uint32_t o = 0; o < failed->n_outputs + n_moved; o++)
            if (instance->input_ids[i] == failed->output_ids[o]) return true;
    return false;
}

void hub_instance_fail(hub *h, hub_instance *instance, shoal_status status, const char *message) {
    /* The message may be the thread's own, which the sending below could replace. */
    char *text = strdup(message);
    fail_one(h, instance, status, text ? text : "no memory");
    /* What derives from it has a higher number. */
    for (hub_instance *i = instance->next; i; i = i->next)
        if (i->status == SHOAL_OK && derives(i, instance))
            hub_instance_fail(h, i, status, text ? text : "no memory");
    free(text);
}

void hub_instance_leave(hub *h, hub_peer *peer, const char *reason) {
    char text[512];
    snprintf(text, sizeof text, "%s %s (pid %u on %s) was lost: %s",
             peer->role == SHOAL__ROLE__CLIENT ? "client" : "worker", peer->name, peer->pid,
             peer->host, reason);
    /* Everywhere first, since failing one instance tells the participants of those behind it. */
    for (hub_instance *i = h->first; i; i = i->next) {
        i->concerned = peer->session && i->session == peer->session;
        for (uint32_t p = 0; p < i->n_participants; p++) {
            if (i->participants[p] != peer) continue;
            i->concerned = true;
            i->participants[p] = NULL;
            i->n_waiting--;
        }
    }
    for (hub_instance *i = h->first; i; i = i->next) {
        for (uint32_t k = 0; k < i->n_inputs && i->status == SHOAL_OK; k++)
            if (i->inputs[k]->status != SHOAL_OK)
                hub_instance_fail(h, i, i->inputs[k]->status, i->inputs[k]->error);
        if (i->concerned) hub_instance_fail(h, i, SHOAL_LOST, text);
    }
    for (hub_instance *i = h->first, *next; i; i = next) {
        next = i->next;
        if (i->dispatched && !i->n_waiting) settle(h, i);
    }
}
