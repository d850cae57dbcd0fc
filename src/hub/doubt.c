/* Doubts: a member says that it cannot reach another. Mostly the other has just died, and its own
 * link to the hub ends a moment later. When it does not, the two are cut off from each other only:
 * what they were to do together is tried once more; then the one that more of the others cannot
 * reach has to go, and where that does not tell, what they were to do fails. */
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { VERDICT_MS = 2000, MEMORY_S = 30, MOST_OF_USER = 1024 };

bool hub_doubt_note(hub *h, hub_instance *instance, const hub_peer *accuser,
                    const Shoal__Failed *failed) {
    uint32_t said = 0;
    if (instance->doubted) return true;
    for (size_t i = 0; i < h->doubts.count; i++)
        said += h->doubts.data[i].user == accuser->user->number;
    if (said >= MOST_OF_USER) return false;
    hub_doubt doubt = {.instance = failed->instance,
                       .user = accuser->user->number,
                       .accuser = accuser->number,
                       .accused = failed->peer,
                       .at = base_now()};
    snprintf(doubt.reason, sizeof doubt.reason, "%s", failed->error->message);
    base_log(BASE_INFO, "hub", "%s cannot reach a member: %s", accuser->name, doubt.reason);
    if (!base_vec_push(&h->doubts, doubt)) return false; /* nobody would judge it */
    instance->doubted = true;
    return true;
}

/* How many of the others said lately that they could not reach this one. What it says itself does
 * not count: nobody talks another out of the pool. */
static uint32_t named(const hub *h, uint32_t number) {
    base_map accusers;
    base_map_init(&accusers);
    for (size_t i = 0; i < h->doubts.count; i++) {
        const hub_doubt *d = &h->doubts.data[i];
        if (d->accused == number && base_map_set(&accusers, d->accuser, &accusers) != SHOAL_OK)
            base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    }
    uint32_t n = (uint32_t)accusers.count;
    base_map_fini(&accusers);
    return n;
}

static bool again(const hub *h, const hub_doubt *doubt) {
    for (size_t i = 0; i < h->doubts.count; i++) {
        const hub_doubt *d = &h->doubts.data[i];
        if (d->judged && ((d->accuser == doubt->accuser && d->accused == doubt->accused) ||
                          (d->accuser == doubt->accused && d->accused == doubt->accuser)))
            return true;
    }
    return false;
}

static void judge(hub *h, const hub_doubt *doubt) {
    hub_instance *instance = hub_instance_find(h, doubt->instance);
    hub_peer *accuser = hub_peer_find(h, doubt->accuser),
             *accused = hub_peer_find(h, doubt->accused);
    if (!instance) return;              /* it was run again already */
    if (instance->status != SHOAL_OK) { /* with all through, nobody but this has kept it */
        if (hub_instance_over(instance)) hub_instance_settle(h, instance);
        hub_dispatch(h);
        return;
    }
    char text[512];
    if (!accuser || !accused || !again(h, doubt)) {
        hub_rerun(h, instance, "a member could not reach another");
        return;
    }
    snprintf(text, sizeof text, "%s at %s cannot reach %s at %s, though both reach the hub: %s",
             accuser->name, accuser->host, accused->name, accused->host, doubt->reason);
    uint32_t a = named(h, accuser->number), b = named(h, accused->number);
    bool clients = accuser->role == SHOAL__ROLE__CLIENT || accused->role == SHOAL__ROLE__CLIENT;
    if (clients || a == b) {
        hub_instance_fail(h, instance, SHOAL_LOST, text);
        if (hub_instance_over(instance)) hub_instance_settle(h, instance);
        hub_dispatch(h);
        return;
    }
    hub_peer *out = a > b ? accuser : accused;
    base_log(BASE_WARN, "hub", "%s; %s has to leave", text, out->name);
    /* It may have its part in one before this, which does not fail with it. */
    uint32_t leaves = out->number;
    if (!hub_part_of(instance, out)) hub_rerun(h, instance, "a member could not reach another");
    if ((out = hub_peer_find(h, leaves))) wire_close(out->link, SHOAL_LOST, text); /* it is there */
}

void hub_doubts_judge(hub *h) {
    int64_t now = base_now();
    for (size_t i = 0; i < h->doubts.count; i++) {
        hub_doubt *doubt = &h->doubts.data[i];
        if (doubt->judged || now - doubt->at < VERDICT_MS * BASE_MS) continue;
        hub_doubt copy = *doubt; /* the list may grow meanwhile */
        judge(h, &copy);
        h->doubts.data[i].judged = true;
    }
    for (size_t i = 0; i < h->doubts.count;)
        if (now - h->doubts.data[i].at > MEMORY_S * BASE_SECOND)
            h->doubts.data[i] = h->doubts.data[--h->doubts.count];
        else
            i++;
}
