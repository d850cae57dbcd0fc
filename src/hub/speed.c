/* How fast devices and links are: assumed, then measured when a plan first depends on it. */
#include "hub/state.h"

#include "base/log.h"

#include <stdlib.h>

/* Assumed until they are measured: one core and one link of an ordinary machine. */
static const double CORE_FLOPS = 5e10, CORE_STREAM = 5e9, LINK_BYTES = 3e9, LINK_DELAY = 100e-6;
/* Transfers that are long enough to tell, and how far plans may be off before they are made anew.
 */
enum { TELLING = 1 << 20 };
static const double OFF = 2;

void hub_measure(hub *h) {
    for (size_t p = 0; p < h->peers.count; p++) {
        hub_peer *peer = h->peers.data[p];
        Shoal__Measure measure = SHOAL__MEASURE__INIT;
        uint32_t slots[64];
        for (uint32_t i = 0; i < peer->n_slots && measure.n_slots < 64; i++) {
            hub_slot *slot = peer->slots[i];
            if (!slot->compute || slot->asked) continue;
            slot->asked = true;
            slots[measure.n_slots++] = slot->number;
        }
        measure.slots = slots;
        if (measure.n_slots &&
            wire_send(peer->link, SHOAL__KIND__MEASURE, &measure.base) != SHOAL_OK)
            base_log(BASE_WARN, "hub", "%s: %s", peer->name, shoal_error_message());
    }
}

void hub_speed(hub *h, hub_peer *peer, const Shoal__Speed *speed) {
    hub_slot *slot = hub_slot_of(h, speed->slot);
    bool right = speed->flops > 0 && speed->flops <= HUB_MOST_SPEED && speed->stream > 0 &&
                 speed->stream <= HUB_MOST_SPEED;
    if (!slot || slot->peer != peer || !slot->asked || slot->answered || !right) {
        hub_strange(peer, "a speed that it was not asked for");
        return;
    }
    slot->answered = true;
    slot->flops = speed->flops;
    slot->stream = speed->stream;
    h->speeds++;
    base_log(BASE_INFO, "hub", "%s: %.3g operations and %.3g bytes per second", slot->label,
             slot->flops, slot->stream);
}

/* The link, made when there is none; NULL: no memory, which is not worth a failure. */
static hub_link *link_between(hub *h, const hub_peer *from, const hub_peer *to) {
    uint64_t key = plan_link_key(from->number, to->number);
    hub_link *link = base_map_get(&h->links, key);
    if (link) return link;
    link = calloc(1, sizeof *link);
    if (link && base_map_set(&h->links, key, link) == SHOAL_OK) {
        *link = (hub_link){
            .from = from->number, .to = to->number, .bytes = LINK_BYTES, .planned = LINK_BYTES};
        return link;
    }
    free(link);
    return NULL;
}

void hub_learn_relay(hub *h, const hub_peer *from, const hub_peer *to) {
    hub_link *link = link_between(h, from, to);
    if (!link || link->relayed) return;
    link->relayed = true;
    bool workers = from->role == SHOAL__ROLE__WORKER && to->role == SHOAL__ROLE__WORKER;
    base_log(workers ? BASE_WARN : BASE_INFO, "hub",
             "%s reaches %s by way of the hub only, which is slower: open TCP ports between %s and "
             "%s, or give --listen an address that both reach",
             from->name, to->name, from->host, to->host);
}

void hub_learn(hub *h, const hub_traffic *traffic) {
    hub_slot *from = hub_slot_of(h, traffic->from), *to = hub_slot_of(h, traffic->to);
    if (from) from->sent += traffic->bytes;
    if (to) to->received += traffic->bytes;
    if (!from || !to || from->peer == to->peer || traffic->bytes < TELLING || !traffic->ns) return;
    hub_link *link = link_between(h, from->peer, to->peer);
    if (!link) return;
    double bytes = (double)traffic->bytes / (double)traffic->ns * 1e9;
    link->bytes = link->measured ? (link->bytes + bytes) / 2 : bytes;
    link->measured = true;
    if (link->bytes < link->planned * OFF && link->bytes * OFF > link->planned) return;
    link->planned = link->bytes;
    hub_variants_outdate(h, from->peer, to->peer);
}

void hub_links_forget(hub *h, const hub_peer *peer) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->links, &at, &key, &item)) {
        hub_link *link = item;
        if (link->from != peer->number && link->to != peer->number) continue;
        base_map_remove(&h->links, key);
        free(link);
    }
}

void hub_links_fini(hub *h) {
    size_t at = 0;
    uint64_t key;
    void *link;
    while (base_map_next(&h->links, &at, &key, &link)) free(link);
    base_map_fini(&h->links);
}

double hub_weight(const hub *h, const hub_slot *slot) {
    bool given = false, measured = true;
    for (size_t p = 0; p < h->peers.count; p++)
        for (uint32_t i = 0; i < h->peers.data[p]->n_slots; i++) {
            const hub_slot *other = h->peers.data[p]->slots[i];
            given |= other->compute && other->weight > 0;
            measured &= !other->compute || other->flops > 0;
        }
    if (!slot->compute) return 0;
    if (given || !measured) return slot->weight > 0 ? slot->weight : 1;
    return slot->flops * 1e-9;
}

static shoal_status list_links(const hub *h, base_arena *arena, plan_pool *out) {
    plan_link *links = base_arena_array(arena, plan_link, h->links.count);
    if (!links) return SHOAL_NO_MEMORY;
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->links, &at, &key, &item)) {
        const hub_link *link = item;
        links[out->n_links++] = (plan_link){link->from, link->to, link->planned, link->relayed};
    }
    out->links = links;
    return SHOAL_OK;
}

shoal_status hub_pool(const hub *h, uint32_t session, base_arena *arena, plan_pool *out) {
    plan_slot *slots = base_arena_array(arena, plan_slot, h->slots.count);
    if (!slots) return SHOAL_NO_MEMORY;
    *out = (plan_pool){.slots = slots, .link_bytes = LINK_BYTES, .link_delay = LINK_DELAY};
    /* In the order of their numbers: peers are not. */
    for (uint32_t number = 0; number < h->next_slot; number++) {
        const hub_slot *slot = hub_slot_of(h, number);
        if (!slot || (!slot->compute && slot->peer->session != session)) continue;
        slots[out->n_slots++] =
            (plan_slot){.slot = number,
                        .peer = slot->peer->number,
                        .compute = slot->compute,
                        .weight = hub_weight(h, slot),
                        .flops = slot->flops > 0 ? slot->flops : CORE_FLOPS * slot->threads,
                        .stream = slot->stream > 0 ? slot->stream : CORE_STREAM * slot->threads,
                        .memory = slot->memory,
                        .name = slot->label};
    }
    return list_links(h, arena, out);
}
