/* The other processes of the pool: where they are, and the links to them. */
#include "worker/state.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_MS = 5000, CALLED_MS = 2500 };

static worker_peer *peer_entry(worker *w, uint32_t number) {
    worker_peer *peer = base_map_get(&w->peers, (uint64_t)number + 1);
    if (peer) return peer;
    peer = calloc(1, sizeof *peer);
    if (peer && base_map_set(&w->peers, (uint64_t)number + 1, peer) == SHOAL_OK) {
        peer->number = number;
        return peer;
    }
    free(peer);
    return NULL;
}

void worker_peer_free(worker_peer *peer) {
    for (size_t i = 0; i < peer->waiting.count; i++)
        peer->waiting.data[i].source.done(peer->waiting.data[i].source.context);
    free(peer->waiting.data);
    wire_account_release(peer->asked);
    free(peer->name);
    free(peer->address);
    free(peer);
}

/* Forgets who has left, once nothing leads there. Lock held. */
static void drop_gone(worker *w, worker_peer *peer) {
    if (!peer->gone || peer->link || peer->connecting) return;
    size_t at = 0;
    uint64_t key;
    void *of;
    while (base_map_next(&w->peer_of, &at, &key, &of))
        if (of == peer) base_map_remove(&w->peer_of, key);
    worker_staged_forget(w, peer->number);
    base_map_remove(&w->peers, (uint64_t)peer->number + 1);
    worker_peer_free(peer);
}

/* ---- calling ---- */

/* Calls a peer. Who cannot be called, but can call, does so once it knows that something is to come
 * (worker_peers_call): it is given the time before it is reached by way of the hub. Lock held. */
shoal_status worker_peer_connect(worker *w, worker_peer *peer, bool may_wait) {
    if (!peer->address) return base_fail(SHOAL_NO_MEMORY, "no memory for a peer's address");
    bool waits = may_wait && !peer->callable && peer->calls;
    shoal_status status =
        wire_connect_in(w->wire, peer->address, peer->number, waits ? CALLED_MS : 0, CONNECT_MS);
    peer->connecting = status == SHOAL_OK;
    return status;
}

void worker_peers_call(worker *w, const worker_instance *instance) {
    for (uint32_t t = 0; t < instance->n_tasks; t++)
        for (uint32_t r = 0; r < instance->tasks[t].n_receives; r++) {
            const worker_receive *receive = &instance->tasks[t].receives[r];
            worker_peer *peer = base_map_get(&w->peer_of, (uint64_t)receive->from + 1);
            if (!peer || peer->gone || peer->link || peer->connecting || peer->calls ||
                !peer->callable || receive->have == receive->bytes)
                continue;
            if (worker_peer_connect(w, peer, false) != SHOAL_OK)
                base_log(BASE_WARN, w->name, "%s", shoal_error_message());
        }
}

/* ---- addresses ---- */

/* Names of shared memory are of use to the same user on the same machine only. */
static bool of_use(const char *address, bool same_user) {
    return !strncmp(address, "tcp:", 4) || !strncmp(address, "relay:", 6) || same_user;
}

static const char *addresses_of(const Shoal__PeerInfo *info) {
    return info->n_addresses ? info->addresses[0] : "";
}

/* Of a member's addresses, a list with commas, those that lead there from here. */
static char *reachable(const char *addresses, bool same_user) {
    base_str list = {0};
    for (const char *at = addresses; *at;) {
        int n = (int)strcspn(at, ",");
        if (of_use(at, same_user)) base_str_format(&list, "%s%.*s", list.size ? "," : "", n, at);
        at += n + (at[n] == ',');
    }
    if (!list.size) base_str_text(&list, "");
    return base_str_take(&list, NULL);
}

/* Whether there is an address to call, beside the way by the hub. */
static bool can_call(const char *addresses, bool same_user) {
    for (const char *at = addresses; *at;) {
        if (of_use(at, same_user) && strncmp(at, "relay:", 6) != 0) return true;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return false;
}

/* What it still sends, should it only have been stopped, is not for us any more. Lock held. */
static void peer_left(worker *w, worker_peer *peer) {
    if (peer->gone) return;
    peer->gone = true;
    if (peer->link) wire_close(peer->link, SHOAL_CLOSED, "it has left the pool");
    wire_forget(w->wire, peer->number);
    drop_gone(w, peer);
}

/* Lock held. */
static void peer_there(worker *w, const Shoal__PeerInfo *info) {
    worker_peer *peer = peer_entry(w, info->peer);
    if (!peer) return;
    bool same = w->user && w->user == info->user;
    peer->gone = false;
    peer->user = info->user;
    peer->client = info->client;
    if (!peer->address && !(peer->address = reachable(addresses_of(info), same)))
        base_log(BASE_ERROR, "worker", "no memory for the address of %s", info->name);
    peer->callable = can_call(addresses_of(info), same);
    peer->calls = w->address && can_call(w->address, same);
    if (!peer->name) peer->name = strdup(info->name);
    for (size_t s = 0; s < info->n_slots; s++)
        if (base_map_set(&w->peer_of, (uint64_t)info->slots[s] + 1, peer) != SHOAL_OK)
            base_log(BASE_ERROR, w->name, "%s", shoal_error_message());
}

/* Members let each other in, and nobody else. */
static void know(worker *w, const Shoal__Peers *peers) {
    wire_member *members = calloc(peers->n_peers + 1, sizeof *members);
    size_t n = 0;
    for (size_t i = 0; members && i < peers->n_peers; i++) {
        const Shoal__PeerInfo *info = peers->peers[i];
        if (info->key.len != WIRE_KEY) continue;
        members[n].number = info->peer;
        members[n].user = info->user;
        memcpy(members[n++].key, info->key.data, WIRE_KEY);
    }
    if (members)
        wire_know(w->wire, members, n, peers->change);
    else
        base_log(BASE_ERROR, w->name, "no memory for who is in the pool");
    free(members);
}

static bool listed(const Shoal__Peers *peers, uint32_t number) {
    for (size_t i = 0; i < peers->n_peers; i++)
        if (peers->peers[i]->peer == number) return true;
    return false;
}

void worker_peers_update(worker *w, const Shoal__Peers *peers) {
    know(w, peers);
    pthread_mutex_lock(&w->lock);
    w->epoch = peers->epoch;
    worker_low(w, peers->low);
    size_t at = 0;
    uint64_t key;
    void *peer;
    while (!peers->change && base_map_next(&w->peers, &at, &key, &peer))
        if (!listed(peers, (uint32_t)(key - 1))) peer_left(w, peer);
    for (size_t i = 0; i < peers->n_left; i++)
        if ((peer = base_map_get(&w->peers, (uint64_t)peers->left[i] + 1))) peer_left(w, peer);
    for (size_t i = 0; i < peers->n_peers; i++) {
        const Shoal__PeerInfo *info = peers->peers[i];
        if (info->peer != w->number) continue;
        w->user = info->user;
        free(w->address);
        w->address = strdup(addresses_of(info));
    }
    for (size_t i = 0; i < peers->n_peers; i++)
        if (peers->peers[i]->peer != w->number) peer_there(w, peers->peers[i]);
    pthread_mutex_unlock(&w->lock);
}

void worker_peer_opened(worker *w, wire_link *link, uint32_t number) {
    pthread_mutex_lock(&w->lock);
    worker_peer *peer = peer_entry(w, number);
    BASE_VEC(worker_outgoing) waiting = {0};
    if (peer) {
        /* Its number: a link may last longer than what we know of its other side. */
        wire_link_set(link, WIRE_WORKER, (void *)((uintptr_t)peer->number + 1));
        peer->link = link;
        peer->connecting = false;
        if (peer->gone) wire_close(link, SHOAL_CLOSED, "it has left the pool");
        memcpy(&waiting, &peer->waiting, sizeof waiting);
        memset(&peer->waiting, 0, sizeof peer->waiting);
    }
    pthread_cond_broadcast(&w->changed); /* who asks for files may wait for it */
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < waiting.count; i++)
        if (wire_send_data(link, &waiting.data[i].transfer, &waiting.data[i].source) != SHOAL_OK)
            worker_instance_cancel(w, waiting.data[i].transfer.instance, SHOAL_LOST,
                                   shoal_error_message(), peer->number);
    free(waiting.data);
}

void worker_peer_closed(worker *w, worker_peer *peer, shoal_status why, const char *message) {
    char text[512];
    pthread_mutex_lock(&w->lock);
    peer->link = NULL;
    peer->connecting = false;
    pthread_cond_broadcast(&w->changed);
    snprintf(text, sizeof text, "%s was lost: %s", peer->name ? peer->name : "a peer", message);
    BASE_VEC(worker_outgoing) waiting;
    memcpy(&waiting, &peer->waiting, sizeof waiting);
    memset(&peer->waiting, 0, sizeof peer->waiting);
    /* Instances that still expect something from it cannot end. */
    BASE_VEC(uint64_t) stuck = {0};
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&w->instances, &at, &key, &value)) {
        worker_instance *instance = value;
        bool needs = false;
        for (uint32_t t = 0; t < instance->n_tasks; t++) {
            worker_task *task = &instance->tasks[t];
            for (uint32_t r = 0; r < task->n_receives && task->state != TASK_DONE; r++)
                needs |= task->receives[r].have < task->receives[r].bytes &&
                         base_map_get(&w->peer_of, (uint64_t)task->receives[r].from + 1) == peer;
        }
        if (needs && !base_vec_push(&stuck, key)) break;
    }
    /* Nor can loops that go at its pace. */
    for (size_t i = 0; i < w->loops.count; i++)
        for (size_t k = 0; k < w->loops.data[i]->paced.count; k++)
            if (w->loops.data[i]->paced.data[k].peer == peer->number &&
                !base_vec_push(&stuck, w->loops.data[i]->first))
                break;
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < waiting.count; i++) {
        waiting.data[i].source.done(waiting.data[i].source.context);
        worker_instance_cancel(w, waiting.data[i].transfer.instance, why, text, peer->number);
    }
    for (size_t i = 0; i < stuck.count; i++)
        worker_instance_cancel(w, stuck.data[i], why, text, peer->number);
    free(waiting.data);
    free(stuck.data);
    pthread_mutex_lock(&w->lock);
    drop_gone(w, peer);
    pthread_mutex_unlock(&w->lock);
}
