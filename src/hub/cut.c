/* Cuts: when making values again would take long, those that a session holds are copied to its
 * client's memory, and how they were made is forgotten. So are those of which that is not known,
 * once there is more than one worker: where there was one, nothing could be made again.
 *
 * The client's memory is the second place for what lies on workers: a session's values are of use
 * to nobody once its client is gone. */
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RECORDS = 16384, WORTH = 8 << 20, COST_SHARE = 20 };
static const double LONG_REPLAY = 2e9;    /* nanoseconds */
static const double COPY_NS_PER_BYTE = 1; /* until a link to the client is known */

typedef BASE_VEC(hub_value *) list;

/* What was read lies in the reader's memory, and nowhere else. bare: of those that cannot be made
 * again. */
static bool needs_copy(const hub_value *value, const hub_peer *client, bool bare) {
    return value->session == client->session && !value->origin == bare && !value->bound &&
           !value->absent && !value->released && !value->kept && !value->data.size &&
           value->status == SHOAL_OK && !hub_value_at_client(client, value);
}

/* Lists what needs a copy; of bare ones no more than there is room for. */
static shoal_status find(const hub *h, const hub_peer *client, bool bare, list *values,
                         uint64_t *bytes) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->values, &at, &key, &item)) {
        hub_value *value = item;
        uint64_t size = (uint64_t)base_type_bytes(&value->type);
        if (!needs_copy(value, client, bare)) continue;
        if (bare && client->kept + *bytes + size > client->spare) continue;
        *bytes += size;
        if (!base_vec_push(values, value)) return SHOAL_NO_MEMORY;
    }
    return SHOAL_OK;
}

static shoal_status cut(hub *h, hub_peer *client, hub_value *const *values, uint32_t n) {
    hub_program *program = NULL;
    SHOAL_TRY(hub_program_moving(h, client->session, values, n, true, &program));
    hub_value **copies = calloc((size_t)n + 1, sizeof *copies);
    hub_record *record = NULL;
    shoal_status status = copies ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for copies");
    uint32_t made = 0;
    for (; status == SHOAL_OK && made < n; made++)
        status = hub_value_scratch(h, client->session, &values[made]->type, &copies[made]);
    if (status == SHOAL_OK) status = hub_record_new(h, program, values, copies, &record);
    if (status == SHOAL_OK) {
        client->cutting = true;
        status = hub_instance_start(h, record, HUB_CUT, false);
        if (status != SHOAL_OK) client->cutting = false;
    }
    if (status != SHOAL_OK)
        for (uint32_t i = 0; i < made; i++) hub_value_settle(h, copies[i]);
    free(copies);
    if (record)
        hub_record_release(h, record);
    else
        hub_program_free(program);
    return status;
}

/* What takes longer to copy waits until that is worth it. */
static double cost(const hub *h, const hub_peer *client, uint64_t bytes) {
    double slowest = 0;
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->links, &at, &key, &item)) {
        const hub_link *link = item;
        if (link->to == client->number && link->measured && 1e9 / link->bytes > slowest)
            slowest = 1e9 / link->bytes;
    }
    return (double)bytes * (slowest > 0 ? slowest : COPY_NS_PER_BYTE);
}

/* The records of a session have become too many, and there is no room for copies. */
static void forget(hub *h, const hub_peer *client) {
    base_log(BASE_WARN, "hub",
             "%s has no memory for copies: what a worker that is lost holds of it is lost as well",
             client->name);
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->values, &at, &key, &item)) {
        hub_value *value = item;
        /* What is under way may have to be begun anew. */
        if (value->session == client->session && value->counted) hub_value_disown(h, value);
    }
}

/* Those that cannot be made again, now that a worker may be lost and another go on. */
static void cut_bare(hub *h, hub_peer *client) {
    list values = {0};
    uint64_t bytes = 0;
    client->bare = false;
    shoal_status status = find(h, client, true, &values, &bytes);
    if (status == SHOAL_OK && values.count) {
        base_log(BASE_DEBUG, "hub", "%s: %zu values of a time with one worker are copied to it",
                 client->name, values.count);
        status = cut(h, client, values.data, (uint32_t)values.count);
    }
    if (status != SHOAL_OK) base_log(BASE_WARN, "hub", "%s", shoal_error_message());
    free(values.data);
}

void hub_cut(hub *h, hub_peer *client) {
    double due = client->cut_after > LONG_REPLAY ? client->cut_after : LONG_REPLAY;
    bool much = client->recorded > WORTH && client->user && hub_user_has_half(h, client->user);
    bool many = client->records > MAX_RECORDS || much;
    bool full = client->kept > client->kept_before + client->spare / 4;
    if (client->cutting) return;
    if (client->bare && hub_recovers(h)) {
        cut_bare(h, client);
        return;
    }
    if ((double)client->replay_ns < due && !many && !full) return;
    uint64_t bytes = 0;
    list values = {0};
    shoal_status status = find(h, client, false, &values, &bytes);
    client->cut_after = cost(h, client, bytes) * COST_SHARE;
    client->kept_before = client->kept;
    bool room = client->kept + bytes <= client->spare;
    if (!room && many) forget(h, client);
    if (status == SHOAL_OK && values.count && room &&
        (many || full || (double)client->replay_ns >= client->cut_after))
        status = cut(h, client, values.data, (uint32_t)values.count);
    if (status != SHOAL_OK) base_log(BASE_WARN, "hub", "%s", shoal_error_message());
    free(values.data);
}

void hub_cut_all_bare(hub *h) {
    size_t at = 0;
    uint64_t key;
    void *client;
    while (base_map_next(&h->sessions, &at, &key, &client)) {
        ((hub_peer *)client)->bare = true;
        hub_cut(h, client);
    }
}

void hub_cut_failed(hub_peer *client) {
    client->cutting = false;
    client->bare = true;
}

void hub_cut_done(hub *h, hub_instance *instance) {
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    uint32_t n = 0;
    for (uint32_t i = 0; instance->status == SHOAL_OK && i < instance->record->n_inputs; i++) {
        hub_value *value = instance->record->inputs[i], *copy = instance->outputs[i];
        /* What was donated meanwhile is nowhere else, and the copy is as good. */
        bool lost = value->absent && !value->donated_to;
        if (lost || value->kept || value->stored != instance->input_ids[i]) continue;
        /* The copy is the value's from now on. */
        hub_value_keep(h, value, copy->stored);
        hub_value_nowhere(h, copy);
        hub_value_disown(h, value);
        n++;
    }
    if (!client) return;
    client->cutting = false;
    /* What it was to copy may have failed, which concerns no other. */
    client->bare |= instance->status != SHOAL_OK && instance->status != SHOAL_NO_MEMORY;
    client->kept_before = client->kept;
    base_log(BASE_DEBUG, "hub", "%s: %u values are kept in its memory; %llu records are left",
             client->name, n, (unsigned long long)client->records);
}
