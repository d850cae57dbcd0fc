/* Waiting in vain: for what a client owes, or for it to take what goes to it. A worker that
 * computes may take as long as it takes, and so may who waits for it. A client computes nothing:
 * when all others of a program are through or wait, and one of them waits for it, nothing will come
 * any more, and those who wait behind it would wait for ever. */
#include "hub/state.h"

#include "base/clock.h"

#include <stdio.h>

/* Members that wait say so again each minute. */
enum { LATELY_S = 150 };

/* Whether all but the client are through or wait. */
static bool rests(const hub_instance *instance, const hub_part *client, int64_t now) {
    for (uint32_t i = 0; i < instance->n_parts; i++) {
        const hub_part *part = &instance->parts[i];
        bool waits = part->waits && now - part->waits < LATELY_S * BASE_SECOND;
        if (part != client && part->peer && !part->through && !waits) return false;
    }
    return true;
}

/* The first of them and what was handed out after it of the client's own session, of which it owes
 * something as well: else each of many takes a minute more. */
static void fail_from(hub *h, hub_instance *first, const hub_peer *client) {
    char text[HUB_MAX_NAME + 128];
    snprintf(
        text, sizeof text,
        "client %s has brought next to nothing of what others wait for, or taken of what waits "
        "for it, for a minute",
        client->name);
    bool denies = hub_part_of(first, client)->through; /* that anything waits for it */
    for (hub_instance *i = first; i; i = i->next) {
        const hub_part *part = i->dispatched ? hub_part_of(i, client) : NULL;
        bool owed =
            i == first || (i->session == client->session && part && (denies || !part->through));
        if (owed) hub_instance_fail(h, i, SHOAL_TIMEOUT, text);
    }
    hub_settle_ended(h);
    hub_dispatch(h);
}

/* A client does what it owes in the programs' order: before one may be another, which it gets
 * something of first. */
static void blame(hub *h, const hub_instance *last, const hub_peer *client) {
    int64_t now = base_now();
    hub_instance *first = NULL;
    for (hub_instance *i = h->first; i && i->id <= last->id; i = i->next) {
        const hub_part *part = hub_instance_runs(i) ? hub_part_of(i, client) : NULL;
        if (!part || part->through) continue;
        if (!i->dispatched || !rests(i, part, now)) return;
        if (!first) first = i;
    }
    if (first) fail_from(h, first, client);
}

/* Whether somebody else's program is yet to be handed out. */
static bool others_wait(const hub *h, const hub_instance *instance) {
    for (const hub_instance *i = h->first; i; i = i->next)
        if (i->status == SHOAL_OK && !i->dispatched && i->session != instance->session) return true;
    return false;
}

void hub_waits(hub *h, hub_peer *peer, const Shoal__Waits *waits) {
    hub_instance *instance = hub_instance_find(h, waits->instance);
    const hub_peer *other = hub_peer_find(h, waits->peer);
    if (!instance || !other || !hub_instance_runs(instance)) return; /* over meanwhile */
    hub_part *part = hub_part_of(instance, peer);
    if (!part || part->through || other == peer || !hub_part_of(instance, other)) {
        hub_strange(peer, "that it waits for a program, or for a member, that has no part in it");
        return;
    }
    if (waits->slow && !others_wait(h, instance)) return; /* it has time */
    part->waits = base_now();
    if (other->role != SHOAL__ROLE__CLIENT) return;
    if (hub_part_of(instance, other)->through)
        fail_from(h, instance, other);
    else
        blame(h, instance, other);
}
