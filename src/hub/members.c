/* Who is in the pool. */
#include "hub/state.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hub_slot *hub_slot_of(const hub *h, uint32_t number) {
    return base_map_get(&h->slots, (uint64_t)number + 1);
}

static int by_number(const void *a, const void *b) {
    const hub_slot *const *x = a, *const *y = b;
    return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

void hub_slots_list(const hub *h, const hub_slot **out) {
    size_t at = 0, n = 0;
    uint64_t key;
    void *slot;
    while (base_map_next(&h->slots, &at, &key, &slot)) out[n++] = slot;
    qsort(out, n, sizeof(*out), by_number);
}

hub_peer *hub_peer_find(const hub *h, uint32_t number) {
    for (size_t i = 0; i < h->peers.count; i++)
        if (h->peers.data[i]->number == number) return h->peers.data[i];
    return NULL;
}

bool hub_peer_computes(const hub_peer *peer) {
    for (uint32_t i = 0; i < peer->n_slots; i++)
        if (peer->slots[i]->compute) return true;
    return false;
}

void hub_slot_free(hub_slot *slot) {
    free(slot->backend);
    free(slot->device);
    free(slot->id);
    free(slot->label);
    free(slot->shares.data);
    free(slot);
}

void hub_peer_free(hub_peer *peer) {
    for (uint32_t i = 0; i < peer->n_slots; i++) hub_slot_free(peer->slots[i]);
    free(peer->slots);
    if (peer->news) wire_unpacked_free(&peer->news->base);
    free(peer->name);
    free(peer->host);
    free(peer->address);
    free(peer->owner);
    free(peer->free_values.data);
    free(peer->free_programs.data);
    free(peer->outcomes.data);
    free(peer->events_from.data);
    hub_asks_drop(peer);
    free(peer->asks.data);
    base_arena_fini(&peer->told);
    free(peer);
}

static bool name_taken(const hub *h, const char *name) {
    for (size_t i = 0; i < h->peers.count; i++)
        if (!strcmp(h->peers.data[i]->name, name)) return true;
    return false;
}

/* Names are unique: a second "w1" becomes "w1-2"; without a name, "w3" or "client-5". */
static shoal_status name_peer(const hub *h, hub_peer *peer) {
    base_str text;
    base_str_init(&text);
    const char *kind = peer->role == SHOAL__ROLE__CLIENT ? "client-" : "w";
    if (peer->name && *peer->name)
        base_str_text(&text, peer->name);
    else
        base_str_format(&text, "%s%u", kind, peer->number);
    for (int n = 2; text.data && name_taken(h, text.data); n++) {
        base_str_clear(&text);
        if (peer->name && *peer->name)
            base_str_format(&text, "%s-%d", peer->name, n);
        else
            base_str_format(&text, "%s%u-%d", kind, peer->number, n);
    }
    char *name = base_str_take(&text, NULL);
    if (!name) return SHOAL_NO_MEMORY;
    free(peer->name);
    peer->name = name;
    return SHOAL_OK;
}

/* By way of the hub it is reached when there is no other. */
static shoal_status add_relay(hub_peer *peer) {
    base_str text = {0};
    base_str_format(&text, "%s%srelay:%u", peer->address, *peer->address ? "," : "", peer->number);
    char *address = base_str_take(&text, NULL);
    if (!address) return SHOAL_NO_MEMORY;
    free(peer->address);
    peer->address = address;
    return SHOAL_OK;
}

static void drop_slots(hub *h, hub_peer *peer) {
    for (uint32_t i = 0; i < peer->n_slots; i++)
        base_map_remove(&h->slots, (uint64_t)peer->slots[i]->number + 1);
    if (peer->session) base_map_remove(&h->sessions, peer->session);
}

static shoal_status add_slots(hub *h, hub_peer *peer) {
    for (uint32_t i = 0; i < peer->n_slots; i++) {
        hub_slot *slot = peer->slots[i];
        slot->number = h->next_slot++;
        slot->peer = peer;
        uint32_t same = 1; /* workers of an embedded pool may share a device */
        for (uint32_t k = 0; k < i; k++) same += !strcmp(peer->slots[k]->id, slot->id);
        base_str label;
        base_str_init(&label);
        base_str_format(&label, "%s/%s", peer->name, slot->id);
        if (same > 1) base_str_format(&label, "-%u", same);
        slot->label = base_str_take(&label, NULL);
        if (!slot->label) return SHOAL_NO_MEMORY;
        SHOAL_TRY(base_map_set(&h->slots, (uint64_t)slot->number + 1, slot));
    }
    if (peer->session) SHOAL_TRY(base_map_set(&h->sessions, peer->session, peer));
    return base_vec_push(&h->peers, peer) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* Numbers of values have 24 bits for a session, and those with the highest are the hub's. */
static uint32_t next_session(hub *h) {
    enum { MOST = 0xFFFFFE };
    uint32_t session;
    do {
        session = h->next_session;
        h->next_session = session < MOST ? session + 1 : 1;
    } while (base_map_get(&h->sessions, session));
    return session;
}

shoal_status hub_join(hub *h, hub_peer *peer) {
    if (h->peers.count >= HUB_MAX_MEMBERS)
        return base_fail(SHOAL_BUSY, "the pool has %d members, the most that it takes",
                         HUB_MAX_MEMBERS);
    for (uint32_t i = 0; i < peer->n_slots; i++) peer->slots[i]->number = UINT32_MAX; /* none yet */
    bool recovers = hub_recovers(h);
    peer->number = h->next_peer++;
    if (peer->role == SHOAL__ROLE__CLIENT) peer->session = next_session(h);
    SHOAL_TRY(name_peer(h, peer));
    SHOAL_TRY(add_relay(peer));
    shoal_status status = add_slots(h, peer);
    if (status != SHOAL_OK) {
        drop_slots(h, peer);
        return status;
    }
    hub_links_join(h, peer);
    /* New slots change every plan. */
    bool computes = hub_peer_computes(peer);
    peer->lends = computes || peer->role != SHOAL__ROLE__CLIENT;
    if (computes) h->epoch++;
    hub_note(h, SHOAL_EVENT_JOIN, 0, "%s", peer->name);
    base_log(BASE_INFO, "hub", "%s joined (%s; pid %u on %s)", peer->name, peer->owner, peer->pid,
             peer->host);
    if (!recovers && hub_recovers(h)) hub_cut_all_bare(h);
    return SHOAL_OK;
}

void hub_session_end(hub *h, uint32_t session) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->values, &at, &key, &item)) {
        hub_value *value = item;
        if (value->session != session) continue;
        value->released = true;
        hub_value_settle(h, value);
    }
    for (at = 0; base_map_next(&h->programs, &at, &key, &item);) {
        hub_program *program = item;
        if (program->session != session) continue;
        program->released = true;
        hub_program_settle(h, program);
    }
}

void hub_leave(hub *h, hub_peer *peer, shoal_status why, const char *reason) {
    bool computes = hub_peer_computes(peer);
    hub_note(h, SHOAL_EVENT_LOSS, 0, "%s: %s", peer->name, reason);
    drop_slots(h, peer);
    hub_links_forget(h, peer);
    for (size_t i = 0; i < h->peers.count; i++)
        if (h->peers.data[i] == peer) h->peers.data[i] = h->peers.data[--h->peers.count];
    base_log(why == SHOAL_LOST && computes ? BASE_WARN : BASE_INFO, "hub",
             "%s left (pid %u on %s): %s", peer->name, peer->pid, peer->host, reason);
    if (computes) h->epoch++;
    /* Everyone drops it before hearing what is to be done without it. */
    hub_peers_tell(h, peer);
    hub_events_gone(h, peer);
    hub_lose(h, peer, reason);
    uint64_t held = peer->user->held;
    if (peer->session) hub_session_end(h, peer->session);
    if (held - peer->user->held > HUB_MUCH_HELD) base_os_memory_trim();
    hub_dispatch(h);
}

void hub_device_lost(hub *h, hub_peer *peer, const Shoal__DeviceLost *lost) {
    hub_slot *slot = hub_slot_of(h, lost->slot);
    if (!slot || slot->peer != peer || !slot->compute || !lost->error) {
        hub_strange(peer, "that a device is lost which is not its own");
        return;
    }
    char text[512];
    snprintf(text, sizeof text, "%s (%s; pid %u on %s) was lost: %.300s", slot->label, slot->device,
             peer->pid, peer->host, lost->error->message);
    base_log(BASE_WARN, "hub", "%s", text);
    hub_note(h, SHOAL_EVENT_LOSS, 0, "%s: %s", slot->label, lost->error->message);
    bool last = peer->role == SHOAL__ROLE__WORKER && peer->n_slots == 1;
    if (last) { /* a worker without a device is none: it leaves, and may come again */
        wire_close(peer->link, SHOAL_LOST, text);
        return;
    }
    base_map_remove(&h->slots, (uint64_t)slot->number + 1);
    uint32_t at = 0;
    while (peer->slots[at] != slot) at++;
    memmove(peer->slots + at, peer->slots + at + 1, (--peer->n_slots - at) * sizeof *peer->slots);
    h->epoch++;
    /* Everyone drops it before hearing what is to be done without it. */
    hub_peers_tell(h, NULL);
    hub_lose_slots(h, text, slot->label);
    hub_slot_free(slot);
    hub_dispatch(h);
}

void hub_send(hub_peer *peer, Shoal__Kind kind, const ProtobufCMessage *message) {
    shoal_status status = peer->link ? wire_send(peer->link, kind, message) : SHOAL_OK;
    /* Of a link that has ended the hub hears in its turn. */
    if (status == SHOAL_OK || status == SHOAL_CLOSED) return;
    base_log(BASE_WARN, "hub", "%s: %s", peer->name, shoal_error_message());
    wire_close(peer->link, SHOAL_LOST, "it could not be told what it has to know");
}

void hub_strange(hub_peer *peer, const char *what) {
    if (peer->strange++) return;
    base_log(BASE_WARN, "hub",
             "%s (%s; pid %u on %s) sent %s: dropped, as is what else it may send that is not its "
             "to send",
             peer->name, peer->owner, peer->pid, peer->host, what);
}

shoal_status hub_relay(hub *h, hub_peer *from, const Shoal__Relay *relay) {
    if (relay->frame.len > HUB_MAX_FRAME)
        return base_fail(SHOAL_FORMAT, "a frame of %zu bytes to be passed on, at most %d",
                         relay->frame.len, (int)HUB_MAX_FRAME);
    hub_peer *to = hub_peer_find(h, relay->peer);
    hub_turn_relay(h, from, relay->frame.len);
    Shoal__Relay on = SHOAL__RELAY__INIT;
    bool may = hub_user_may_relay(h, from->user, relay->frame.len);
    if (to && to->link && may) {
        hub_learn_relay(h, from, to);
        to->relayed += relay->frame.len;
        on.peer = from->number;
        on.back = relay->back;
        on.link = relay->link;
        on.reset = relay->reset;
        on.frame = relay->frame;
        /* An answer to what nobody at that end knows of: were it counted on who gives it, strangers
         * could fill the account by asking and not reading. */
        if (on.reset && wire_link_queued(to->link) > HUB_MUCH_QUEUED) return SHOAL_OK;
        if (wire_send_on(to->link, SHOAL__KIND__RELAYED, &on.base,
                         on.reset ? NULL : from->user->relayed) != SHOAL_OK)
            base_log(BASE_DEBUG, "hub", "%s: %s", to->name, shoal_error_message());
        return SHOAL_OK;
    }
    if (!may) hub_strange(from, "more by way of the hub than may wait there");
    char message[256];
    Shoal__Error error = SHOAL__ERROR__INIT;
    snprintf(message, sizeof message, "%s %s", to ? to->name : "it",
             to ? "is sent nothing by way of the hub: too much of this user's is on its way there"
                : "has left the pool");
    error.status = SHOAL_LOST;
    error.message = message;
    on.peer = relay->peer;
    on.back = !relay->back;
    on.link = relay->link;
    on.error = &error;
    hub_send(from, SHOAL__KIND__RELAYED, &on.base);
    return SHOAL_OK;
}

/* Lists of members, with room for one more. */
typedef struct list {
    Shoal__PeerInfo **infos;
    size_t n;
} list;

/* What is told of members: to those that lend, and to those that do not; all, or newcomers. */
typedef struct roll {
    Shoal__PeerInfo *infos;
    uint32_t *slots;
    list of[2][2];
} roll;

static void roll_fini(roll *r) {
    for (int k = 0; k < 4; k++) free(r->of[k / 2][k % 2].infos);
    free(r->infos);
    free(r->slots);
}

static void describe(const hub_peer *peer, uint32_t *slots, Shoal__PeerInfo *info) {
    shoal__peer_info__init(info);
    info->peer = peer->number;
    info->name = peer->name;
    info->n_addresses = 1;
    info->addresses = (char **)&peer->address;
    info->key = (ProtobufCBinaryData){WIRE_KEY, (uint8_t *)peer->key};
    info->user = peer->user->number;
    info->client = peer->role == SHOAL__ROLE__CLIENT;
    info->slots = slots;
    info->n_slots = peer->n_slots;
    for (uint32_t s = 0; s < peer->n_slots; s++) slots[s] = peer->slots[s]->number;
}

static bool call_roll(const hub *h, roll *r) {
    size_t n = h->peers.count;
    uint32_t used = 0;
    *r = (roll){.infos = calloc(n + 1, sizeof *r->infos),
                .slots = calloc(h->slots.count + 1, sizeof *r->slots)};
    bool room = r->infos && r->slots;
    for (int k = 0; k < 4; k++)
        room &= !!(r->of[k / 2][k % 2].infos = calloc(n + 1, sizeof(Shoal__PeerInfo *)));
    if (!room) return false;
    for (size_t i = 0; i < n; i++) {
        const hub_peer *peer = h->peers.data[i];
        describe(peer, r->slots + used, &r->infos[i]);
        used += peer->n_slots;
        for (int fresh = 0; fresh <= !peer->known; fresh++)
            for (int lends = !peer->lends; lends < 2; lends++) {
                list *to = &r->of[lends][fresh];
                to->infos[to->n++] = &r->infos[i];
            }
    }
    return true;
}

static void tell(const hub *h, hub_peer *peer, const roll *r, Shoal__PeerInfo *self,
                 const hub_peer *left) {
    list known = r->of[peer->lends][peer->known];
    Shoal__Peers message = SHOAL__PEERS__INIT;
    bool leaves = peer->known && left && (peer->lends || left->lends);
    /* A newcomer hears its own address, too. */
    if (!peer->known && !peer->lends) known.infos[known.n++] = self;
    if (peer->known && !known.n && !leaves && peer->epoch == h->epoch) return;
    message.epoch = peer->epoch = h->epoch;
    message.low = hub_low(h);
    message.change = peer->known;
    message.left = leaves ? (uint32_t *)(uintptr_t)&left->number : NULL;
    message.n_left = leaves;
    message.n_peers = known.n;
    message.peers = known.infos;
    if (peer->link) hub_send(peer, SHOAL__KIND__PEERS, &message.base);
}

void hub_peers_tell(hub *h, const hub_peer *left) {
    roll r;
    bool called = call_roll(h, &r);
    if (!called) base_log(BASE_ERROR, "hub", "no memory to tell who is in the pool");
    for (size_t i = 0; i < h->peers.count && called; i++)
        tell(h, h->peers.data[i], &r, &r.infos[i], left);
    /* Without memory everybody is told everything, at the next tick. */
    for (size_t i = 0; i < h->peers.count; i++) h->peers.data[i]->known = called;
    h->newcomers = !called;
    roll_fini(&r);
}
