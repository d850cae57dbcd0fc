/* Whose the members are, and what of theirs may wait in the hub, and at slots. */
#include "hub/state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

hub_user *hub_user_of(hub *h, const uint8_t *key) {
    static const uint8_t none[WIRE_KEY];
    if (!key) key = none; /* no key pair has it */
    for (size_t i = 0; i < h->users.count; i++) {
        hub_user *user = h->users.data[i];
        if (memcmp(user->key, key, WIRE_KEY)) continue;
        user->members++;
        return user;
    }
    hub_user *user = calloc(1, sizeof *user);
    wire_account *relayed = wire_account_new();
    if (!user || !relayed || !base_vec_push(&h->users, user)) {
        wire_account_release(relayed);
        free(user);
        base_fail(SHOAL_NO_MEMORY, "no memory for a member");
        return NULL;
    }
    user->number = h->next_user++;
    memcpy(user->key, key, WIRE_KEY);
    user->members = 1;
    user->relayed = relayed;
    return user;
}

static void user_free(hub_user *user) {
    wire_account_release(user->relayed);
    free(user);
}

/* Who comes again soon is who it was. */
static void prune(hub *h) {
    int64_t now = base_now();
    for (size_t i = 0; i < h->users.count;) {
        hub_user *user = h->users.data[i];
        if (user->members || user->held || user->wanted || user->free_at > now ||
            wire_account_bytes(user->relayed)) {
            i++;
            continue;
        }
        h->users.data[i] = h->users.data[--h->users.count];
        user_free(user);
    }
}

void hub_user_leave(hub *h, hub_user *user) {
    if (user) user->members--;
    prune(h);
}

void hub_users_fini(hub *h) {
    for (size_t i = 0; i < h->users.count; i++) user_free(h->users.data[i]);
    free(h->users.data);
}

/* ---- programs that are not through ---- */

static hub_share *share(const hub_slot *slot, uint32_t user) {
    for (size_t i = 0; i < slot->shares.count; i++)
        if (slot->shares.data[i].user == user) return &slot->shares.data[i];
    return NULL;
}

uint32_t hub_share_of(const hub_slot *slot, uint32_t user) {
    const hub_share *found = share(slot, user);
    return found ? found->in_flight : 0;
}

void hub_share_count(hub_slot *slot, uint32_t user, int sign) {
    hub_share *found = share(slot, user), fresh = {user, 1};
    if (found)
        found->in_flight += (uint32_t)sign;
    else if (sign > 0 && !base_vec_push(&slot->shares, fresh))
        base_log(BASE_WARN, "hub", "%s", shoal_error_message());
    if (found && !found->in_flight) *found = slot->shares.data[--slot->shares.count];
}

/* ---- what waits ---- */

/* At most half of what is left: one user alone gets a third, and always leaves room for another. */
static bool fair(uint64_t own, uint64_t all, uint64_t most) {
    return all < most && own <= (most - all) / 2;
}

bool hub_user_may_relay(const hub *h, const hub_user *user, size_t bytes) {
    size_t all = bytes, own = wire_account_bytes(user->relayed) + bytes;
    for (size_t i = 0; i < h->users.count; i++)
        all += wire_account_bytes(h->users.data[i]->relayed);
    return fair(own, all, HUB_MAX_RELAYED);
}

static bool may_hold(const hub *h, const hub_user *user, uint64_t more) {
    uint64_t all = more;
    for (size_t i = 0; i < h->users.count; i++) all += h->users.data[i]->held;
    return fair(user->held + more, all, HUB_MAX_HELD);
}

shoal_status hub_hold(hub *h, hub_user *user, uint64_t bytes) {
    if (!user) return SHOAL_OK;
    if (!may_hold(h, user, bytes))
        return base_fail(SHOAL_BUSY,
                         "the hub holds %llu MiB for tensors and programs of this user's sessions, "
                         "the most that it may: free some, or close a session",
                         (unsigned long long)(user->held >> 20));
    user->held += bytes;
    return SHOAL_OK;
}

bool hub_user_has_half(const hub *h, const hub_user *user) {
    return !may_hold(h, user, user->held);
}

void hub_let_go(hub_user *user, uint64_t bytes) {
    if (user) user->held -= bytes;
}

/* Since when a member has read nothing of what waits for it; 0: it reads. */
static int64_t unread_since(hub_peer *peer, size_t queued, int64_t now) {
    uint64_t read = wire_link_count(peer->link).bytes_out;
    if (!queued || read != peer->read) peer->unread = 0;
    if (queued && !peer->unread) peer->unread = now;
    peer->read = read;
    return peer->unread;
}

void hub_users_look(hub *h) {
    int64_t now = base_now();
    size_t all = 0;
    for (size_t i = 0; i < h->peers.count; i++) {
        hub_peer *peer = h->peers.data[i];
        size_t queued = peer->link ? wire_link_queued(peer->link) : 0;
        int64_t since = peer->link ? unread_since(peer, queued, now) : 0;
        all += queued;
        if (since && now - since > HUB_UNREAD_S * BASE_SECOND)
            wire_close(peer->link, SHOAL_LOST, "it has read nothing of what waits for it");
    }
    prune(h);
    if (all <= HUB_MUCH_QUEUED) return;
    for (size_t u = 0; u < h->users.count; u++) {
        size_t own = 0;
        for (size_t i = 0; i < h->peers.count; i++)
            if (h->peers.data[i]->user == h->users.data[u] && h->peers.data[i]->link)
                own += wire_link_queued(h->peers.data[i]->link);
        if (own <= HUB_MUCH_QUEUED || fair(own, all, HUB_MAX_QUEUED)) continue;
        base_log(BASE_WARN, "hub", "%zu MiB wait to be read by members of one user: closing them",
                 own >> 20);
        for (size_t i = 0; i < h->peers.count; i++)
            if (h->peers.data[i]->user == h->users.data[u] && h->peers.data[i]->link)
                wire_close(h->peers.data[i]->link, SHOAL_LOST,
                           "members of this user do not read what waits for them");
    }
}
