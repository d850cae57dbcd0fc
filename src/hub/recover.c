/* Recovery: what goes on without a worker that was lost.
 *
 * Instances that it took part in are given up and run again, from values that are still there, lie
 * in their client's memory, or are made again by their records. Values at rest that were lost are
 * made again when they are next used. An instance that is run again is a new one: whatever comes of
 * the old belongs to a number that nobody knows any more. */
#include "hub/state.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making values again ---- */

static shoal_status no_copy(const hub *h, const hub_value *value) {
    char text[BASE_TYPE_TEXT];
    return base_fail(SHOAL_LOST, "%s was lost, %s: %s", base_type_text(&value->type, text),
                     value->bound ? "which was bound to where it lay"
                                  : "and there is no copy of it: its client had no room for a "
                                    "copy, or there was only one worker when it was made",
                     h->loss ? h->loss : "a worker left");
}

typedef BASE_VEC(hub_record *) records;

/* Whether it is there, or lies with its client; and will be, where that is asked: what only runs
 * under way read goes with them. */
static bool is_there(const hub *h, const hub_value *value, bool stays) {
    if (value->data.size || value->kept)
        return true; /* a small one travels along, a copy goes home */
    if (value->absent || !stays || !value->released) return !value->absent;
    const hub_peer *client = base_map_get(&h->sessions, value->session);
    return client && hub_value_at_client(client, value);
}

/* Lists what has to run for a value to be there, each marked, or says why there is no way back. */
static shoal_status find_way(const hub *h, hub_value *value, records *way) {
    BASE_VEC(hub_value *) todo = {0};
    shoal_status status = base_vec_push(&todo, value) ? SHOAL_OK : SHOAL_NO_MEMORY;
    while (status == SHOAL_OK && todo.count) {
        hub_value *v = todo.data[--todo.count];
        hub_record *record = v->origin;
        if (v->status != SHOAL_OK) {
            status = base_fail(v->status, "%s", v->error);
        } else if (is_there(h, v, false)) {
            continue;
        } else if (!record) {
            status = no_copy(h, v);
        } else if (!record->wanted) {
            record->wanted = base_vec_push(way, record);
            if (!record->wanted) status = SHOAL_NO_MEMORY;
            for (uint32_t i = 0; status == SHOAL_OK && i < record->n_inputs; i++)
                if (record->inputs[i]->absent && !base_vec_push(&todo, record->inputs[i]))
                    status = SHOAL_NO_MEMORY;
        }
    }
    free(todo.data);
    return status;
}

static void forget_way(const records *way) {
    for (size_t i = 0; i < way->count; i++) way->data[i]->wanted = false;
}

/* A record whose first inputs can be there. */
typedef struct turn {
    hub_record *record;
    uint32_t next;
} turn;

typedef BASE_VEC(turn) turns;

/* Begins with a record of which nothing is known. */
static bool enter(turns *open, hub_ways *ways, hub_record *record) {
    return base_vec_push(ways, record) && base_vec_push(open, ((turn){record, 0}));
}

/* The next record that an input needs; NULL: the input is there, or can be. */
static bool look_at(const hub *h, const hub_value *value, bool stays, hub_record **needs) {
    *needs = NULL;
    if (value->status != SHOAL_OK) return false;
    if (is_there(h, value, stays)) return true;
    if (!value->origin || value->origin->way == HUB_NO_WAY) return false;
    if (value->origin->way == HUB_WAY_UNKNOWN) *needs = value->origin;
    return true;
}

/* Depth first: whoever is open needs the next, and where there is no way to that, to none of them.
 */
bool hub_can_recover(const hub *h, const hub_value *value, hub_ways *ways) {
    turns open = {0};
    hub_record *needs;
    bool can = look_at(h, value, false, &needs) && (!needs || enter(&open, ways, needs));
    while (can && open.count) {
        turn *last = &open.data[open.count - 1];
        if (last->next == last->record->n_inputs) {
            last->record->way = HUB_WAY_BACK;
            open.count--;
        } else {
            const hub_value *input = last->record->inputs[last->next++];
            can = look_at(h, input, true, &needs) && (!needs || enter(&open, ways, needs));
        }
    }
    for (size_t i = 0; i < open.count; i++) open.data[i].record->way = HUB_NO_WAY;
    free(open.data);
    return can;
}

void hub_ways_forget(hub_ways *ways) {
    for (size_t i = 0; i < ways->count; i++) ways->data[i]->way = HUB_WAY_UNKNOWN;
    free(ways->data);
    *ways = (hub_ways){0};
}

/* Copies of what records read lie in the client's memory again, to be moved in from there. */
static shoal_status bring_home(hub *h, hub_value *const *values, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (values[i]->absent && !values[i]->data.size && values[i]->kept)
            SHOAL_TRY(hub_value_home(h, values[i]));
    return SHOAL_OK;
}

static int by_number(const void *a, const void *b) {
    const hub_record *x = *(hub_record *const *)a, *y = *(hub_record *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

/* A small value travels along to wherever it is used: to all devices that there are now. */
static void lay_small(hub *h, hub_value *value) {
    const hub_peer *client = base_map_get(&h->sessions, value->session);
    if (!client || (!value->absent && value->epoch == h->epoch)) return;
    if (hub_value_everywhere(h, client, value) == SHOAL_OK)
        hub_value_count(h, value);
    else
        hub_value_poison(value, SHOAL_NO_MEMORY, shoal_error_message());
}

static void recover(hub *h, hub_value *value) {
    char text[BASE_TYPE_TEXT];
    records way = {0};
    shoal_status status = find_way(h, value, &way);
    if (status == SHOAL_OK) status = bring_home(h, &value, 1);
    forget_way(&way);
    if (way.count) qsort(way.data, way.count, sizeof *way.data, by_number);
    for (size_t i = 0; i < way.count && status == SHOAL_OK; i++) {
        status = bring_home(h, way.data[i]->inputs, way.data[i]->n_inputs);
        if (status != SHOAL_OK) break;
        for (uint32_t k = 0; k < way.data[i]->n_inputs; k++)
            if (way.data[i]->inputs[k]->data.size) lay_small(h, way.data[i]->inputs[k]);
        hub_note(h, SHOAL_EVENT_RERUN, 0, "program %llu, for a value that was lost",
                 (unsigned long long)(way.data[i]->program->id & 0xFFFFFFFFFF));
        status = hub_instance_start(h, way.data[i], HUB_REMADE, true);
        if (status == SHOAL_OK) h->reruns++;
    }
    free(way.data);
    if (status == SHOAL_OK) return;
    base_fail_prefix(status, "%s cannot be made again: ", base_type_text(&value->type, text));
    hub_value_poison(value, status, shoal_error_message());
}

void hub_recover(hub *h, hub_value *const *values, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        hub_value *value = values[i];
        if (value->data.size)
            lay_small(h, value);
        else if (value->absent && value->status == SHOAL_OK)
            recover(h, value);
    }
}

/* ---- running instances again ---- */

static bool uses_gone_slot(const hub *h, const hub_instance *instance) {
    const plan_result *plan = &instance->variant->plan;
    for (uint32_t i = 0; i < plan->n_programs; i++)
        if (!hub_slot_of(h, plan->programs[i].slot)) return true;
    return false;
}

void hub_gone(hub *h, uint64_t number) {
    if (!number || base_map_set(&h->gone, number, h) == SHOAL_OK) return;
    base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    for (hub_instance *i = h->first; i; i = i->next) i->concerned = true; /* it may be any */
}

/* Whether an input will not come. What is made again meanwhile has another number: who reads the
 * one before has it, as all devices begin with that. */
static bool reads_gone(const hub *h, const hub_instance *instance) {
    for (uint32_t i = 0; i < instance->record->n_inputs; i++)
        if (base_map_get(&h->gone, instance->input_ids[i])) return true;
    return false;
}

/* Results that will not come, also to who was given their memory. What the client awaits keeps its
 * place there. */
static void abandon_outputs(hub *h, hub_instance *instance) {
    for (uint32_t o = 0; o < instance->record->n_outputs; o++) {
        hub_value *value = instance->outputs[o];
        hub_gone(h, instance->output_ids[o]);
        hub_gone(h, value->stored); /* what makes it again begins anew with this one */
        value->donated_to = 0;
        /* A program behind it was to move it in from the client's memory, where it never was. */
        bool moves = value->kept && value->kept == instance->output_ids[o] && !value->counted;
        if (moves && hub_value_home(h, value) != SHOAL_OK)
            base_log(BASE_DEBUG, "hub", "%s", shoal_error_message());
        hub_value_uncount(h, value); /* no copy of it is there to be kept */
        if (instance->program->home[o])
            hub_value_nowhere(h, value);
        else
            hub_value_drop(h, value);
    }
}

static void users(const hub_record *record, int sign) {
    for (uint32_t i = 0; i < record->n_inputs; i++) record->inputs[i]->users += (uint32_t)sign;
    for (uint32_t o = 0; o < record->n_outputs; o++)
        if (record->outputs[o]) record->outputs[o]->users += (uint32_t)sign;
}

/* Operands whose memory an instance was given, or one behind it, have failed with it, where they
 * cannot be made again. What nobody needs is no failure: they are gone, should another have to
 * begin anew with them. */
static void use_up(const hub *h, const hub_instance *instance) {
    hub_ways ways = {0};
    if (instance->quiet) return;
    for (uint32_t i = 0; i < instance->record->n_inputs; i++) {
        hub_value *value = instance->record->inputs[i];
        if (value->donated_to < instance->id || !value->absent || hub_can_recover(h, value, &ways))
            continue;
        hub_value_poison(value, instance->status, instance->error);
    }
    hub_ways_forget(&ways);
}

/* Ends an instance without an end for its client; what is to be run again is listed. */
static void give_up(hub *h, hub_instance *instance, shoal_status status, const char *reason,
                    records *list) {
    hub_peer *client = base_map_get(&h->sessions, instance->session);
    instance->status = status;
    instance->error = strdup(reason);
    if (status != SHOAL_LOST) use_up(h, instance);
    hub_instance_move_back(h, instance);
    abandon_outputs(h, instance);
    hub_instance_cancel(instance);
    if (client) client->waiting -= instance->purpose == HUB_ASKED;
    if (instance->purpose == HUB_CUT && client) hub_cut_failed(client);
    if (instance->purpose == HUB_ASKED) {
        /* Until it runs again its values have users for it. */
        if (base_vec_push(list, instance->record)) {
            instance->record->refs++;
            users(instance->record, 1);
        }
    }
    hub_instance_detach(h, instance);
}

/* Whoever reads what is gone comes after what was to make it; but for what is made again. */
static void give_up_concerned(hub *h, shoal_status status, const char *reason, records *list) {
    bool any;
    do {
        any = false;
        for (hub_instance *i = h->first; i; i = i->next) {
            if (i->status != SHOAL_OK || (!i->concerned && !reads_gone(h, i))) continue;
            give_up(h, i, status, reason, list);
            any = true;
        }
    } while (any);
    base_map_fini(&h->gone);
}

static void settle_values(hub *h, hub_record *record) {
    for (uint32_t k = 0; k < record->n_inputs; k++) hub_value_settle(h, record->inputs[k]);
    for (uint32_t o = 0; o < record->n_outputs; o++)
        if (record->outputs[o]) hub_value_settle(h, record->outputs[o]);
}

/* As much of a record as can be made. lost: with a member, which is counted. */
static void start_again(hub *h, hub_record *record, bool lost) {
    hub_record *rest;
    bool any = false;
    for (uint32_t o = 0; o < record->n_outputs; o++)
        any |= record->outputs[o] && record->outputs[o]->status == SHOAL_OK;
    if (any) hub_recover(h, record->inputs, record->n_inputs);
    hub_rest(h, record, &rest);
    shoal_status status = rest ? hub_instance_start(h, rest, HUB_ASKED, true) : SHOAL_OK;
    if (status != SHOAL_OK) hub_rest_none(h, rest, status);
    if (rest) rest->reruns += lost;
    h->reruns += lost;
    users(record, -1);
    /* Only from here on may values go; those of the rest are the rest's from here on. */
    bool taken = false;
    for (uint32_t o = 0; rest && rest != record && o < rest->n_outputs; o++)
        taken |= rest->outputs[o]->origin == record;
    if (taken) hub_record_adopt(h, rest);
    settle_values(h, record);
    if (taken) settle_values(h, rest);
    if (rest) hub_record_release(h, rest);
}

static void run_again(hub *h, records *list, bool lost) {
    if (list->count) qsort(list->data, list->count, sizeof *list->data, by_number);
    for (size_t i = 0; i < list->count; i++) {
        hub_record *record = list->data[i];
        if (lost)
            hub_note(h, SHOAL_EVENT_RERUN, 0, "program %llu, by who remains",
                     (unsigned long long)(record->program->id & 0xFFFFFFFFFF));
        start_again(h, record, lost);
        hub_record_release(h, record);
    }
    free(list->data);
}

void hub_settle_ended(hub *h) {
    for (hub_instance **at = &h->first; *at;) {
        hub_instance *i = *at;
        if (hub_instance_over(i))
            hub_instance_settle(h, i);
        else
            at = &i->next;
    }
}

/* An instance, with what is made again of its program meanwhile, and all that read of it. */
static void rerun(hub *h, const hub_instance *instance, shoal_status status, const char *reason) {
    records list = {0};
    for (hub_instance *i = h->first; i; i = i->next) i->concerned = i->record == instance->record;
    give_up_concerned(h, status, reason, &list);
    run_again(h, &list, status == SHOAL_LOST);
}

void hub_rerun_rest(hub *h, hub_instance *instance, shoal_status status, const char *reason) {
    rerun(h, instance, status, reason);
    hub_settle_ended(h);
    hub_dispatch(h);
}

void hub_rerun(hub *h, hub_instance *instance, const char *reason) {
    hub_rerun_rest(h, instance, SHOAL_LOST, reason);
}

void hub_rerun_concerned(hub *h, shoal_status status, const char *reason, bool moved) {
    records list = {0};
    give_up_concerned(h, status, reason, &list);
    run_again(h, &list, moved);
}

/* ---- losses ---- */

/* Leaves the layout of a value to the slots that are there; false when they do not hold all. */
static bool shrink(const hub *h, hub_value *value) {
    plan_layout rest = value->layout;
    size_t row = (rest.rank + 1) * sizeof *rest.coords;
    uint32_t *slots = base_arena_array(&value->arena, uint32_t, rest.n_slots + 1);
    uint32_t *coords =
        base_arena_array(&value->arena, uint32_t, (rest.n_slots + 1) * (rest.rank + 1));
    if (!slots || !coords) return false;
    rest.n_slots = 0;
    for (uint32_t i = 0; i < value->layout.n_slots; i++) {
        if (!hub_slot_of(h, value->layout.slots[i])) continue;
        slots[rest.n_slots] = value->layout.slots[i];
        memcpy(coords + rest.n_slots * (rest.rank + 1), value->layout.coords + i * (rest.rank + 1),
               row);
        rest.n_slots++;
    }
    rest.slots = slots;
    rest.coords = coords;
    value->layout = rest;
    return rest.n_slots &&
           plan_layout_verify(&rest, value->type.rank, value->type.dims) == SHOAL_OK;
}

/* A value that lay partly with a lost peer. */
static void value_after_loss(hub *h, hub_value *value, uint32_t *lost) {
    if (value->data.size || value->absent)
        return; /* a small one is laid out anew when it is used */
    if (!base_map_get(&h->sessions, value->session)) return; /* it goes with its client */
    bool whole = true;
    for (uint32_t i = 0; i < value->layout.n_slots; i++)
        whole &= hub_slot_of(h, value->layout.slots[i]) != NULL;
    if (whole || shrink(h, value)) return;
    ++*lost;
    hub_gone(h, value->stored);
    if (value->kept) {
        if (hub_value_home(h, value) != SHOAL_OK)
            base_log(BASE_WARN, "hub", "%s", shoal_error_message());
        return;
    }
    hub_value_drop(h, value);
    if (!value->origin) hub_value_poison(value, no_copy(h, value), shoal_error_message());
}

static void count_out(hub *h, const hub_peer *peer) {
    for (hub_instance *i = h->first; i; i = i->next)
        for (uint32_t p = 0; p < i->n_parts; p++) {
            hub_part *part = &i->parts[p];
            if (part->peer != peer) continue;
            i->n_waiting -= !part->through;
            part->peer = NULL;
        }
}

void hub_lose_slots(hub *h, const char *what, const char *who) {
    uint32_t lost = 0;
    records list = {0};
    free(h->loss);
    h->loss = strdup(what);
    h->losses++;
    for (hub_instance *i = h->first; i; i = i->next)
        i->concerned = i->status == SHOAL_OK && uses_gone_slot(h, i);
    for (hub_instance *i = h->first; i; i = i->next)
        if (i->concerned)
            give_up(h, i, SHOAL_LOST, what, &list);
        else if (i->well && uses_gone_slot(h, i))
            hub_instance_shorten(i, 0); /* it has failed, and nobody waits for who is gone */
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&h->values, &at, &key, &value)) value_after_loss(h, value, &lost);
    give_up_concerned(h, SHOAL_LOST, what, &list);
    if (lost || list.count)
        base_log(BASE_WARN, "hub",
                 "%zu programs are run again without %s; %u values that it held are made again "
                 "when they are used",
                 list.count, who, lost);
    run_again(h, &list, true);
    hub_settle_ended(h);
}

void hub_lose(hub *h, hub_peer *peer, const char *reason) {
    char text[512];
    bool computes = hub_peer_computes(peer);
    snprintf(text, sizeof text, "%s %s (pid %u on %s) was lost: %s",
             peer->session ? "client" : "worker", peer->name, peer->pid, peer->host, reason);
    count_out(h, peer);
    if (peer->session) hub_session_fail(h, peer->session, SHOAL_LOST, text);
    if (computes) hub_lose_slots(h, text, peer->name);
    hub_settle_ended(h);
}
