/* Records: how values were made. Counted references hold them, and nothing else does. */
#include "hub/state.h"

#include <stdlib.h>
#include <string.h>

bool hub_recovers(const hub *h) {
    uint32_t workers = 0, devices = 0, own = 0;
    for (size_t i = 0; i < h->peers.count; i++) {
        const hub_peer *peer = h->peers.data[i];
        workers += hub_peer_computes(peer);
        for (uint32_t s = 0; s < peer->n_slots; s++) {
            devices += peer->slots[s]->compute;
            own += peer->slots[s]->near < peer->slots[s]->memory;
        }
    }
    /* Devices with memory of their own are lost by themselves. */
    return workers > 1 || (own && devices > 1);
}

/* With the instance that runs it. */
static uint64_t held(const hub_program *program) {
    return HUB_RECORD_HELD + HUB_OPERAND_HELD * ((uint64_t)program->n_inputs + program->n_outputs);
}

/* With what it makes, which stays for its sake. */
static void count(hub_peer *client, const hub_record *record, int sign) {
    uint64_t bytes = held(record->program) + HUB_VALUE_HELD * (uint64_t)record->n_outputs;
    client->records += (uint64_t)sign;
    client->recorded += (uint64_t)sign * bytes;
}

shoal_status hub_record_new(hub *h, hub_program *program, hub_value *const *inputs,
                            hub_value *const *outputs, hub_record **out) {
    uint32_t n_inputs = program->n_inputs, n_outputs = program->n_outputs;
    SHOAL_TRY(hub_hold(h, program->user, held(program)));
    hub_record *record = calloc(1, sizeof *record + (n_inputs + n_outputs) * sizeof *inputs);
    if (!record) {
        hub_let_go(program->user, held(program));
        return base_fail(SHOAL_NO_MEMORY, "no memory for a record");
    }
    hub_value **values = (hub_value **)(record + 1);
    *record = (hub_record){.number = h->next_record++,
                           .session = program->session,
                           .refs = 1,
                           .program = program,
                           .n_inputs = n_inputs,
                           .n_outputs = n_outputs,
                           .inputs = values,
                           .outputs = values + n_inputs};
    record->bound = program->binds;
    for (uint32_t i = 0; i < n_inputs; i++) {
        record->inputs[i] = inputs[i];
        record->bound |= inputs[i]->bound;
        inputs[i]->holds++;
    }
    for (uint32_t o = 0; o < n_outputs; o++) {
        record->outputs[o] = outputs[o];
        outputs[o]->bound |= record->bound && !program->home[o];
    }
    program->users++;
    hub_peer *client = base_map_get(&h->sessions, record->session);
    if (client) count(client, record, 1);
    *out = record;
    return SHOAL_OK;
}

void hub_record_adopt(hub *h, hub_record *record) {
    if (record->bound) return;
    for (uint32_t o = 0; o < record->n_outputs; o++) {
        hub_value_disown(h, record->outputs[o]);
        record->outputs[o]->origin = record;
        record->refs++;
    }
    for (uint32_t i = 0; i < record->n_inputs; i++) record->inputs[i]->remakes += !record->adopted;
    record->adopted = true;
}

static void bury(hub *h, hub_record *record) {
    hub_peer *client = base_map_get(&h->sessions, record->session);
    if (client) {
        count(client, record, -1);
        client->replay_ns -= record->ns;
    }
    for (uint32_t i = 0; i < record->n_inputs; i++) {
        record->inputs[i]->holds--;
        record->inputs[i]->remakes -= record->adopted;
        hub_value_settle(h, record->inputs[i]);
    }
    hub_let_go(record->program->user, held(record->program));
    record->program->users--;
    hub_program_settle(h, record->program);
    free(record);
}

/* A record's end may be that of the values it read, and of the records that made those: thousands,
 * so they are buried one after another, not one inside another. */
void hub_record_release(hub *h, hub_record *record) {
    if (--record->refs) return;
    record->next_dying = h->dying;
    h->dying = record;
    if (h->burying) return;
    h->burying = true;
    while ((record = h->dying)) {
        h->dying = record->next_dying;
        bury(h, record);
    }
    h->burying = false;
}

void hub_value_disown(hub *h, hub_value *value) {
    hub_record *record = value->origin;
    if (!record) return;
    for (uint32_t o = 0; o < record->n_outputs; o++)
        if (record->outputs[o] == value) record->outputs[o] = NULL;
    value->origin = NULL;
    hub_record_release(h, record);
}
