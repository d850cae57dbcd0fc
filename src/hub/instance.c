/* Instances: made, told of, counted back in. */
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hub_instance_free(hub_instance *instance) {
    free(instance->outputs);
    free(instance->input_ids);
    free(instance->output_ids);
    free(instance->parts);
    free(instance->needs);
    free(instance->times);
    free(instance->traffic.data);
    free(instance->donations.data);
    free(instance->error);
    free(instance);
}

hub_instance *hub_instance_find(const hub *h, uint64_t id) {
    return base_map_get(&h->instances, id);
}

/* ---- making ---- */

static shoal_status instance_new(hub_record *record, hub_purpose purpose, hub_instance **out) {
    hub_instance *instance = calloc(1, sizeof *instance);
    if (!instance) return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    instance->session = record->session;
    instance->purpose = purpose;
    instance->program = record->program;
    instance->record = record;
    instance->told = purpose != HUB_ASKED;
    instance->first = record->n_outputs && record->outputs[0] ? record->outputs[0]->id : 0;
    instance->outputs = calloc((size_t)record->n_outputs + 1, sizeof *instance->outputs);
    instance->input_ids = calloc((size_t)record->n_inputs + 1, sizeof *instance->input_ids);
    /* Every input may move, and is an output more then. */
    instance->output_ids =
        calloc((size_t)record->n_outputs + record->n_inputs + 1, sizeof *instance->output_ids);
    if (!instance->outputs || !instance->input_ids || !instance->output_ids) {
        hub_instance_free(instance);
        return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    }
    *out = instance;
    return SHOAL_OK;
}

static void use(hub_value *value, const hub_instance *instance) {
    value->twice = value->last_user == instance->id;
    value->last_user = instance->id;
    value->users++;
}

/* Whether a check, its own or one of what it reads and is under way, may have it run again; or what
 * may have no end, and may be dropped. */
static bool is_checked(const hub_record *record) {
    bool checked = record->program->checks || record->program->unbounded;
    for (uint32_t i = 0; i < record->n_inputs; i++)
        checked |= !record->inputs[i]->counted && record->inputs[i]->checked;
    return checked;
}

/* What is there already, or has a copy, or nobody needs, is made for nothing. */
static shoal_status list_outputs(hub *h, hub_instance *instance) {
    const hub_record *record = instance->record;
    const shoal_type *types = record->program->types + record->n_inputs;
    for (uint32_t o = 0; o < record->n_outputs; o++) {
        hub_value *value = record->outputs[o];
        if (!value || !value->absent || value->kept || value->status != SHOAL_OK)
            SHOAL_TRY(hub_value_scratch(h, record->session, &types[o], &value));
        instance->outputs[o] = value;
        value->maker = instance->id;
        value->checked = instance->checked ? instance->id : 0;
        use(value, instance);
    }
    return SHOAL_OK;
}

/* Results are known, with their layout, before they are there: what uses them can be planned. */
static shoal_status lay_out(hub *h, hub_instance *instance) {
    const hub_variant *variant = instance->variant;
    const hub_record *record = instance->record;
    for (uint32_t o = 0; o < record->n_outputs; o++) {
        hub_value *value = instance->outputs[o];
        /* What comes home is awaited under its own number, also when it is made again. */
        if (!instance->program->home[o] && instance->again) value->stored = h->next_value++;
        instance->output_ids[o] = value->stored;
        SHOAL_TRY(hub_value_layout(h, value, &variant->plan.outputs[o]));
    }
    for (uint32_t m = 0; m < variant->n_moved; m++) {
        hub_value *value = record->inputs[variant->moved[m][0]];
        uint32_t output = variant->moved[m][1];
        hub_value_keep(h, value, value->stored);
        value->stored = instance->output_ids[output] = h->next_value++;
        value->checked = instance->checked ? instance->id : 0;
        SHOAL_TRY(hub_value_layout(h, value, &variant->plan.outputs[output]));
    }
    return SHOAL_OK;
}

static bool can_compute(const hub *h) {
    size_t at = 0;
    uint64_t key;
    void *slot;
    while (base_map_next(&h->slots, &at, &key, &slot))
        if (((hub_slot *)slot)->compute) return true;
    return false;
}

static shoal_status plan(hub *h, hub_instance *instance) {
    const hub_record *record = instance->record;
    shoal_status status = SHOAL_OK;
    if (record->reruns >= HUB_MAX_RERUNS)
        return base_fail(SHOAL_LOST,
                         "it was begun %d times, and each time a member was lost, or a program "
                         "failed that its inputs came with, before it was through, at last: %s",
                         HUB_MAX_RERUNS, h->loss ? h->loss : "one could not reach another");
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        if (record->inputs[i]->status != SHOAL_OK)
            return base_fail(record->inputs[i]->status, "%s", record->inputs[i]->error);
        if (record->inputs[i]->absent)
            status = base_fail(SHOAL_LOST, "an operand was lost and is yet to be made again");
    }
    if (status == SHOAL_OK)
        status = hub_variant_find(h, instance->program, (const hub_value *const *)record->inputs,
                                  &instance->variant);
    if (status == SHOAL_LOST && h->loss && !can_compute(h))
        return base_fail(SHOAL_LOST, "%s; no worker is left: start one with `shoal worker`",
                         h->loss);
    SHOAL_TRY(status);
    return lay_out(h, instance);
}

shoal_status hub_instance_start(hub *h, hub_record *record, hub_purpose purpose, bool again) {
    hub_instance *instance = NULL;
    if (record->program->loops) SHOAL_TRY(hub_loop_settle(h, record));
    SHOAL_TRY(instance_new(record, purpose, &instance));
    instance->again = again;
    instance->id = h->next_instance;
    instance->checked = is_checked(record);
    shoal_status status = list_outputs(h, instance);
    if (status == SHOAL_OK) status = base_map_set(&h->instances, instance->id, instance);
    if (status != SHOAL_OK) {
        for (uint32_t o = 0; o < record->n_outputs && instance->outputs[o]; o++) {
            instance->outputs[o]->users--;
            hub_value_settle(h, instance->outputs[o]);
        }
        hub_instance_free(instance);
        return status;
    }
    hub_peer *client = base_map_get(&h->sessions, record->session);
    if (client) client->waiting += purpose == HUB_ASKED;
    if (client) client->queued++;
    record->refs++;
    record->program->users++;
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        use(record->inputs[i], instance);
        record->inputs[i]->rereads += instance->checked;
        instance->input_ids[i] = record->inputs[i]->stored;
    }
    status = plan(h, instance);
    if (instance->variant) instance->variant->users++;
    h->next_instance += record->rounds ? record->rounds : 1;
    *h->last = instance;
    h->last = &instance->next;
    hub_note(h, SHOAL_EVENT_ACCEPT, instance->id, "%s, program %llu", client ? client->name : "?",
             (unsigned long long)(record->program->id & 0xFFFFFFFFFF));
    if (status != SHOAL_OK) hub_instance_fail(h, instance, status, shoal_error_message());
    return SHOAL_OK;
}

static void unlink_instance(hub *h, hub_instance *instance) {
    hub_instance **at = &h->first;
    base_map_remove(&h->instances, instance->id);
    while (*at != instance) at = &(*at)->next;
    *at = instance->next;
    if (!*at) h->last = at;
}

/* ---- telling ---- */

static bool list_times(const hub *h, const hub_instance *instance, base_arena *arena,
                       Shoal__Outcome *outcome) {
    const plan_result *plan = &instance->variant->plan;
    Shoal__SlotTime *times = base_arena_array(arena, Shoal__SlotTime, plan->n_programs);
    outcome->slots = base_arena_array(arena, Shoal__SlotTime *, plan->n_programs);
    if (!times || !outcome->slots) return false;
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        if (!slot || !slot->compute) continue;
        shoal__slot_time__init(&times[i]);
        times[i].slot = slot->number;
        times[i].nanoseconds = instance->times[i].busy_ns;
        times[i].nodes = instance->times[i].nodes;
        outcome->slots[outcome->n_slots++] = &times[i];
    }
    return true;
}

static bool list_traffic(const hub_instance *instance, base_arena *arena, Shoal__Outcome *outcome) {
    size_t n = outcome->n_traffic = instance->traffic.count;
    Shoal__Traffic *traffic = base_arena_array(arena, Shoal__Traffic, n);
    outcome->traffic = base_arena_array(arena, Shoal__Traffic *, n);
    if (!traffic || !outcome->traffic) return false;
    for (size_t i = 0; i < n; i++) {
        const hub_traffic *t = &instance->traffic.data[i];
        shoal__traffic__init(&traffic[i]);
        traffic[i].from = t->from;
        traffic[i].to = t->to;
        traffic[i].bytes = t->bytes;
        traffic[i].nanoseconds = t->ns;
        outcome->traffic[i] = &traffic[i];
    }
    return true;
}

static bool note_error(shoal_status status, const char *error, base_arena *arena,
                       Shoal__Outcome *outcome) {
    outcome->error = base_arena_array(arena, Shoal__Error, 1);
    if (!outcome->error) return false;
    shoal__error__init(outcome->error);
    outcome->error->status = status;
    outcome->error->message = base_arena_string(arena, error);
    return true;
}

static bool fill_outcome(const hub *h, const hub_instance *instance, base_arena *arena,
                         Shoal__Outcome *outcome) {
    size_t n = outcome->n_outputs = instance->record->n_outputs;
    outcome->program = instance->program->id;
    outcome->outputs = base_arena_array(arena, uint64_t, n);
    if (!outcome->outputs) return false;
    for (size_t o = 0; o < n; o++) outcome->outputs[o] = instance->outputs[o]->id;
    if (instance->status != SHOAL_OK && !instance->quiet)
        return note_error(instance->status, instance->error, arena, outcome);
    if (instance->program->taken) outcome->n_outputs = 0; /* its run is not forgotten: it failed */
    return !instance->times ||
           (list_times(h, instance, arena, outcome) && list_traffic(instance, arena, outcome));
}

static void no_memory_to_tell(const hub_peer *client) {
    wire_close(client->link, SHOAL_NO_MEMORY, "the hub has no memory to tell what is through");
}

/* Notes what a client is to be told of an instance. */
static void note_outcome(hub *h, hub_instance *instance) {
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    if (instance->told || !client) return;
    instance->told = true;
    Shoal__Outcome *outcome = base_arena_array(&client->told, Shoal__Outcome, 1);
    if (outcome) shoal__outcome__init(outcome);
    if (!outcome || !fill_outcome(h, instance, &client->told, outcome) ||
        !base_vec_push(&client->outcomes, outcome))
        no_memory_to_tell(client);
}

void hub_outcomes_send(hub_peer *client) {
    if (!client->outcomes.count) return;
    Shoal__Finished finished = SHOAL__FINISHED__INIT;
    finished.outcomes = client->outcomes.data;
    finished.n_outcomes = client->outcomes.count;
    hub_send(client, SHOAL__KIND__FINISHED, &finished.base);
    client->outcomes.count = 0;
    base_arena_fini(&client->told);
}

static bool fill_failure(const hub_record *record, const hub_value *failed, base_arena *arena,
                         Shoal__Outcome *outcome) {
    outcome->program = record->program->id;
    if (!failed) return true;
    outcome->outputs = base_arena_array(arena, uint64_t, 1);
    if (!outcome->outputs) return false;
    outcome->outputs[outcome->n_outputs++] = failed->id;
    outcome->more = true;
    return note_error(failed->status, failed->error, arena, outcome);
}

void hub_failure_tell(hub *h, const hub_record *record, const hub_value *failed) {
    hub_peer *client = base_map_get(&h->sessions, record->session);
    if (!client) return;
    Shoal__Outcome *outcome = base_arena_array(&client->told, Shoal__Outcome, 1);
    if (outcome) shoal__outcome__init(outcome);
    if (!outcome || !fill_failure(record, failed, &client->told, outcome) ||
        !base_vec_push(&client->outcomes, outcome))
        no_memory_to_tell(client);
    else
        hub_outcomes_send(client);
}

/* Who has much on its way need not hear of each: what is noted goes once it is half of that. */
static void tell_in_time(hub_peer *client) {
    if (client->outcomes.count >= client->waiting) hub_outcomes_send(client);
}

/* ---- counting in ---- */

/* A copy of what has moved stays in the client's memory while there is room and it may be needed,
 * or while an instance that was given the other may have to begin anew. Where one worker is left,
 * what was lost with others may still be made again of it, after the other copy has been let go of.
 */
static void settle_moves(hub *h, const hub_instance *instance, const hub_peer *client) {
    for (uint32_t m = 0; instance->variant && m < instance->variant->n_moved; m++) {
        const uint32_t *moved = instance->variant->moved[m];
        hub_value *value = instance->record->inputs[moved[0]];
        if (value->stored != instance->output_ids[moved[1]]) continue; /* it is home again */
        hub_value_count(h, value);
        bool needed = hub_recovers(h) || value->remakes;
        bool stays = needed && client->kept <= client->spare;
        if (!stays && !value->donated_to) hub_value_unkeep(h, value);
    }
}

static void note_cost(const hub_instance *instance, hub_peer *client) {
    hub_record *record = instance->record;
    uint64_t ns = 0;
    for (uint32_t i = 0; instance->times && i < instance->variant->plan.n_programs; i++)
        if (instance->times[i].busy_ns > ns) ns = instance->times[i].busy_ns;
    client->replay_ns += ns - record->ns;
    record->ns = ns;
    record->reruns = 0;
}

void hub_instance_detach(hub *h, hub_instance *instance) {
    hub_record *record = instance->record;
    if (!record) return;
    instance->record = NULL;
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        record->inputs[i]->users--;
        record->inputs[i]->rereads -= instance->checked;
        hub_value_settle(h, record->inputs[i]);
    }
    for (uint32_t o = 0; o < record->n_outputs; o++) {
        instance->outputs[o]->users--;
        hub_value_settle(h, instance->outputs[o]);
    }
    hub_record_release(h, record);
}

bool hub_instance_over(const hub_instance *instance) {
    if (instance->n_waiting) return false;
    return instance->status != SHOAL_OK || (instance->dispatched && !instance->doubted);
}

void hub_instance_settle(hub *h, hub_instance *instance) {
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    if (instance->record) {
        note_outcome(h, instance);
        if (client) settle_moves(h, instance, client);
        for (uint32_t o = 0; instance->status == SHOAL_OK && o < instance->record->n_outputs; o++)
            if (instance->outputs[o]->stored == instance->output_ids[o]) /* else it is made again */
                hub_value_count(h, instance->outputs[o]);
        if (client && instance->status == SHOAL_OK) note_cost(instance, client);
        if (instance->purpose == HUB_CUT) hub_cut_done(h, instance);
    }
    unlink_instance(h, instance);
    hub_note(h, SHOAL_EVENT_FINISH, instance->id, "%s", shoal_status_name(instance->status));
    if (client) {
        client->waiting -= instance->record && instance->purpose == HUB_ASKED;
        client->queued -= !instance->dispatched;
        tell_in_time(client);
    }
    if (instance->dispatched) hub_reserve(h, instance, -1);
    if (instance->variant) instance->variant->users--;
    hub_instance_detach(h, instance);
    instance->program->users--;
    hub_program_settle(h, instance->program);
    bool asked = instance->purpose == HUB_ASKED && instance->status == SHOAL_OK;
    hub_instance_free(instance);
    if (client && asked) hub_cut(h, client);
}

/* What a peer does in an instance; NULL: nothing. */
hub_part *hub_part_of(const hub_instance *instance, const hub_peer *peer) {
    for (uint32_t i = 0; i < instance->n_parts; i++)
        if (instance->parts[i].peer == peer) return &instance->parts[i];
    return NULL;
}

static bool has_slot(const hub_instance *instance, uint32_t slot) {
    const plan_result *plan = &instance->variant->plan;
    for (uint32_t i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].slot == slot) return true;
    return false;
}

static void note_time(hub *h, hub_instance *instance, hub_slot *slot, const Shoal__SlotTime *time) {
    const plan_result *plan = &instance->variant->plan;
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        if (plan->programs[i].slot != slot->number) continue;
        instance->times[i] = (shoal_slot_time){slot->number, time->nanoseconds, time->nodes};
        /* How many rounds there were, and how much of it there was, the plan does not know. */
        if (!instance->program->unbounded && instance->status == SHOAL_OK)
            hub_learn_products(h, slot, &plan->programs[i], time->nanoseconds);
    }
}

/* Of the slots that the peer has in it, once each. */
static void take_times(hub *h, hub_peer *peer, hub_instance *instance, const Shoal__Done *done) {
    for (size_t k = 0; k < done->n_slots && k < peer->n_slots; k++) {
        const Shoal__SlotTime *time = done->slots[k];
        hub_slot *slot = hub_slot_of(h, time->slot);
        bool again = false;
        for (size_t j = 0; j < k; j++) again |= done->slots[j]->slot == time->slot;
        if (!slot) continue; /* lost meanwhile */
        if (again || slot->peer != peer || !has_slot(instance, time->slot)) {
            hub_strange(peer, "the time of a slot that is not its own, has no part, or was told");
            continue;
        }
        slot->instances++;
        slot->busy_ns += time->nanoseconds;
        slot->nodes += time->nodes;
        note_time(h, instance, slot, time);
    }
}

/* What came to its own slots, from others that take part. */
static void take_traffic(hub *h, hub_peer *peer, hub_instance *instance, const Shoal__Done *done) {
    size_t most = (size_t)peer->n_slots * instance->variant->plan.n_programs;
    /* One that was given up has no record: how many rounds it was to make is not known any more. */
    uint64_t rounds = instance->record           ? instance->record->rounds
                      : instance->program->loops ? HUB_MAX_ROUNDS
                                                 : 1;
    if (!rounds) rounds = 1;
    for (size_t k = 0; k < done->n_traffic && k < most; k++) {
        const Shoal__Traffic *t = done->traffic[k];
        hub_traffic traffic = {t->from,  t->to,  t->timed, t->timed_ns,
                               t->begin, t->end, t->bytes, t->nanoseconds};
        const hub_slot *to = hub_slot_of(h, t->to);
        if (!to) continue; /* lost meanwhile */
        if (to->peer != peer || !has_slot(instance, t->to) || !has_slot(instance, t->from) ||
            t->bytes / rounds > instance->variant->plan.bytes_moved || t->timed > t->bytes) {
            hub_strange(peer, "traffic that is not its own");
            continue;
        }
        if (!base_vec_push(&instance->traffic, traffic))
            base_log(BASE_WARN, "hub", "%s", shoal_error_message());
        hub_count(h, &traffic);
    }
}

void hub_done(hub *h, hub_peer *peer, const Shoal__Done *done) {
    hub_instance *instance = hub_instance_find(h, done->instance);
    if (!instance) return; /* it was settled without the peer, as one that failed may be */
    hub_part *part = hub_part_of(instance, peer);
    if (!part || part->through) {
        hub_strange(peer, "the end of a program that it has no part in, or that is over for it");
        return;
    }
    part->through = true;
    instance->n_waiting--;
    take_times(h, peer, instance, done);
    take_traffic(h, peer, instance, done);
    if (!instance->n_waiting) hub_learn(h, instance->traffic.data, instance->traffic.count);
    if (hub_instance_over(instance)) hub_instance_settle(h, instance);
    hub_dispatch(h);
}

/* Of a loop whose rounds somebody sees: those before the one that failed. */
static uint64_t good_rounds(const hub_instance *instance, const Shoal__Failed *failed) {
    const hub_program *program = instance->program;
    bool seen = false;
    for (uint32_t o = 0; program->loops && o < program->n_outputs; o++) seen |= program->home[o];
    if (!seen || instance->purpose != HUB_ASKED || failed->peer || instance->doubted) return 0;
    if (instance->status != SHOAL_OK)
        return failed->rounds < instance->well ? failed->rounds : instance->well;
    return failed->rounds < instance->record->rounds ? failed->rounds : 0;
}

/* Whether a member has a part in an instance, or in one before it that is not through: whoever
 * reads what that was to make cannot have it from there either. */
static bool has_part(const hub *h, const hub_instance *instance, const hub_peer *peer) {
    const hub_instance *i = h->first;
    while (i && i != instance && (i->session != instance->session || !hub_part_of(i, peer)))
        i = i->next;
    return i && hub_part_of(i, peer);
}

void hub_failed(hub *h, hub_peer *peer, const Shoal__Failed *failed) {
    hub_instance *instance = hub_instance_find(h, failed->instance);
    if (!instance) return;
    if (!hub_part_of(instance, peer) || !failed->error) {
        hub_strange(peer, "the failure of a program that it has no part in");
        return;
    }
    if (instance->status != SHOAL_OK) {
        hub_instance_shorten(instance, good_rounds(instance, failed));
        return;
    }
    const hub_peer *accused = failed->peer ? hub_peer_find(h, failed->peer) : NULL;
    bool blames = failed->peer && accused != peer && (!accused || has_part(h, instance, accused));
    if (failed->peer && !blames) /* it has failed all the same */
        hub_strange(peer, "that it cannot reach a member which has no part in the program");
    uint32_t status = failed->error->status;
    bool known = status != SHOAL_OK && status < SHOAL_STATUS_COUNT;
    char message[HUB_MAX_REASON];
    snprintf(message, sizeof message, "%s", failed->error->message);
    instance->variant->broken = h->breakage = true;
    if (blames && hub_doubt_note(h, instance, peer, failed)) return;
    instance->well = good_rounds(instance, failed);
    if (status == SHOAL_RANGE && hub_rest_fail(h, instance, SHOAL_RANGE, message)) return;
    int64_t start = base_now();
    hub_user *user = instance->program->user;
    hub_instance_fail(h, instance, known ? (shoal_status)status : SHOAL_INTERNAL, message);
    hub_settle_ended(h);
    hub_dispatch(h);
    hub_user_charge(h, user, start); /* a worker told it, but it is not that one's program */
}

void hub_instance_cancel(const hub_instance *instance) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = instance->status;
    error.message = instance->error;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = instance->id;
    failed.error = &error;
    failed.rounds = instance->well;
    for (uint32_t i = 0; i < instance->n_parts; i++)
        if (instance->parts[i].peer && !instance->parts[i].through)
            hub_send(instance->parts[i].peer, SHOAL__KIND__CANCEL, &failed.base);
}

void hub_instance_shorten(hub_instance *instance, uint64_t rounds) {
    if (rounds >= instance->well) return;
    instance->well = rounds;
    hub_instance_cancel(instance);
}

bool hub_instance_runs(const hub_instance *instance) {
    return instance->status == SHOAL_OK || instance->well;
}

/* Inputs that were to move in from their client stay where they are: nothing of them is lost. */
void hub_instance_move_back(hub *h, hub_instance *instance) {
    for (uint32_t m = 0; instance->variant && m < instance->variant->n_moved; m++) {
        const uint32_t *moved = instance->variant->moved[m];
        hub_value *value = instance->record->inputs[moved[0]];
        hub_gone(h, instance->output_ids[moved[1]]);
        if (!value->kept || value->stored != instance->output_ids[moved[1]]) continue;
        value->donated_to = 0; /* what did not come is nobody's */
        if (hub_value_home(h, value) != SHOAL_OK)
            base_log(BASE_DEBUG, "hub", "%s", shoal_error_message());
    }
}

static void fail_one(hub *h, hub_instance *instance, shoal_status status, const char *message) {
    instance->status = status;
    instance->error = strdup(message);
    hub_note(h, SHOAL_EVENT_FAIL, instance->id, "%s", message);
    /* What was to be made again, and cannot be now for want of workers, can be later. */
    for (uint32_t o = 0; o < instance->record->n_outputs; o++) {
        instance->outputs[o]->quiet |= instance->quiet;
        if (instance->purpose != HUB_REMADE || status != SHOAL_LOST)
            hub_value_poison(instance->outputs[o], status, message);
    }
    hub_instance_move_back(h, instance);
    hub_instance_cancel(instance);
    note_outcome(h, instance);
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    if (client) hub_outcomes_send(client);
}

/* The numbers of the results that an instance would have written. */
static bool list_lost(const hub_instance *failed, base_map *out) {
    for (uint32_t o = 0; o < failed->record->n_outputs; o++)
        if (base_map_set(out, failed->output_ids[o], out) != SHOAL_OK) return false;
    return true;
}

static bool reads(const hub_instance *instance, const base_map *lost) {
    for (uint32_t i = 0; i < instance->record->n_inputs; i++)
        if (base_map_get(lost, instance->input_ids[i])) return true;
    return false;
}

char *hub_instance_stamp(const hub_instance *instance, const char *message) {
    base_str stamped = {0};
    char *text = NULL;
    if (instance->record->run &&
        graph_stamp_lines(message, instance->record->run, &stamped) == SHOAL_OK)
        text = base_str_take(&stamped, NULL);
    base_str_fini(&stamped);
    return text ? text : strdup(message);
}

/* What is made again of a program while the run that its client awaits is under way, as that had
 * been given away: the results are the same ones, and fail alike. */
static bool fail_made_again(hub *h, const hub_instance *awaited, shoal_status status,
                            const char *text) {
    bool due = false;
    for (hub_instance *i = h->first; i; i = i->next)
        if (i->record == awaited->record && i->purpose == HUB_REMADE && i->status == SHOAL_OK)
            due |= hub_instance_fail_only(h, i, status, text);
    return due;
}

bool hub_instance_fail_only(hub *h, hub_instance *instance, shoal_status status,
                            const char *message) {
    if (instance->status != SHOAL_OK) { /* the first cause stays */
        hub_instance_shorten(instance, 0);
        return false;
    }
    bool due = instance->variant && instance->variant->n_moved;
    /* The message may be the thread's own, which the sending below could replace. */
    char *text = hub_instance_stamp(instance, message);
    const char *why = text ? text : "no memory";
    fail_one(h, instance, status, why);
    /* What derives from it has a higher number; all of the session does, when it cannot be told. Of
     * who reads it the rest is made, except after a loss: then nothing is known to have failed. */
    base_map lost;
    base_map_init(&lost);
    bool listed = list_lost(instance, &lost), whole = !listed || status == SHOAL_LOST;
    if (instance->purpose == HUB_ASKED) due |= fail_made_again(h, instance, status, why);
    for (hub_instance *i = instance->next; i; i = i->next) {
        if (i->status != SHOAL_OK || i->session != instance->session) continue;
        if (listed && !reads(i, &lost)) continue;
        if (whole)
            due |= hub_instance_fail_only(h, i, status, why);
        else
            due = i->concerned = true;
    }
    base_map_fini(&lost);
    free(text);
    return due;
}

void hub_instance_fail(hub *h, hub_instance *instance, shoal_status status, const char *message) {
    bool moved = instance->variant && instance->variant->n_moved;
    if (hub_instance_fail_only(h, instance, status, message))
        hub_rerun_concerned(h, status, instance->error ? instance->error : "no memory", moved);
}

void hub_session_fail(hub *h, uint32_t session, shoal_status status, const char *message) {
    for (hub_instance *i = h->first; i; i = i->next) {
        if (i->session != session) continue;
        if (i->status == SHOAL_OK)
            fail_one(h, i, status, message);
        else
            hub_instance_shorten(i, 0);
    }
    base_map_fini(&h->gone); /* none but this session read it */
}
