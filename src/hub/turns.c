/* Whose turn it is. While several users ask for something, each may have a like part of the hub's
 * time; what one asks for beyond that waits, in order, and counts as held for that user. Reports of
 * workers never wait. */
#include "hub/state.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    LATELY_S = 1,  /* who has asked within this is there */
    BURST_MS = 5,  /* that one may be ahead of its part */
    SERVE_MS = 20, /* of what waits at a time, before others are heard */
    RELAY_NS = 2,  /* per byte that is passed on: to decrypt and to encrypt it */
    SEND_NS = 2,   /* and of an answer: to encrypt it, and the system's part */
    RELAY_MUCH = 64 << 10
};

static uint32_t present(const hub *h, int64_t now) {
    uint32_t n = 0;
    for (size_t i = 0; i < h->users.count; i++)
        n += now - h->users.data[i]->asked_at < LATELY_S * BASE_SECOND;
    return n;
}

static bool may_ask(const hub *h, const hub_user *user, int64_t now) {
    return present(h, now) < 2 || user->free_at - now < BURST_MS * BASE_MS;
}

/* One of n users has one part of n + 1, so that some of the time is always left. */
void hub_user_charge(const hub *h, hub_user *user, int64_t start) {
    if (!user) return;
    int64_t now = base_now();
    uint32_t n = present(h, now);
    if (user->free_at < start) user->free_at = start;
    if (n > 1) user->free_at += (now - start) * (n + 1);
}

void hub_turn_relay(hub *h, hub_peer *from, size_t bytes) {
    int64_t now = base_now();
    if (bytes >= RELAY_MUCH) from->user->asked_at = now;
    hub_user_charge(h, from->user, now - (int64_t)bytes * RELAY_NS);
    if (from->link && present(h, now) > 1 && from->user->free_at > now)
        wire_link_hold(from->link, from->user->free_at);
}

static size_t queued(const hub_peer *peer) { return peer->link ? wire_link_queued(peer->link) : 0; }

/* Answers cost more to send than to make, on a thread that nobody sees the time of. */
static shoal_status handle(hub *h, hub_peer *peer, Shoal__Kind kind, const void *body,
                           size_t bytes) {
    int64_t start = base_now();
    size_t before = queued(peer);
    shoal_status status = hub_handle(h, peer, kind, body, bytes);
    size_t after = queued(peer);
    if (after > before) start -= (int64_t)(after - before) * SEND_NS;
    hub_user_charge(h, peer->user, start);
    return status;
}

static bool is_question(Shoal__Kind kind) {
    return kind == SHOAL__KIND__SUBMIT || kind == SHOAL__KIND__RELEASE ||
           kind == SHOAL__KIND__STATUS_ASK || kind == SHOAL__KIND__EXPLAIN_ASK ||
           kind == SHOAL__KIND__EVENTS_ASK || kind == SHOAL__KIND__ARTIFACT_ASK;
}

static uint64_t held(const hub_ask *ask) { return sizeof *ask + ask->bytes; }

/* Waits for its turn. */
static shoal_status put(hub *h, hub_peer *peer, Shoal__Kind kind, const void *body, size_t bytes) {
    hub_ask ask = {.kind = kind, .bytes = bytes};
    SHOAL_TRY(hub_hold(h, peer->user, held(&ask)));
    /* Those that have had their turn: who always has one more waiting would keep them for ever. */
    if (peer->next_ask > peer->asks.count / 2) {
        peer->asks.count -= peer->next_ask;
        memmove(peer->asks.data, peer->asks.data + peer->next_ask, peer->asks.count * sizeof ask);
        peer->next_ask = 0;
    }
    ask.body = malloc(bytes + 1);
    if (!ask.body || !base_vec_push(&peer->asks, ask)) {
        hub_let_go(peer->user, held(&ask));
        free(ask.body);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a message");
    }
    memcpy(ask.body, body, bytes);
    if (!h->backlog) hub_tick_often(h, true);
    h->backlog = true;
    return SHOAL_OK;
}

shoal_status hub_turn(hub *h, hub_peer *peer, Shoal__Kind kind, const void *body, size_t bytes) {
    int64_t now = base_now();
    if (!is_question(kind)) return hub_handle(h, peer, kind, body, bytes);
    peer->user->asked_at = now;
    if (!peer->asks.count && may_ask(h, peer->user, now)) return handle(h, peer, kind, body, bytes);
    shoal_status status = put(h, peer, kind, body, bytes);
    /* What a worker holds for others does not go with what its user may not ask. */
    if (status == SHOAL_BUSY && kind == SHOAL__KIND__ARTIFACT_ASK)
        return hub_artifact_refuse(peer, body, bytes);
    return status;
}

static void serve_one(hub *h, hub_peer *peer) {
    hub_ask ask = peer->asks.data[peer->next_ask++];
    if (peer->next_ask == peer->asks.count) peer->next_ask = peer->asks.count = 0;
    shoal_status status = SHOAL_OK;
    if (peer->link) status = handle(h, peer, ask.kind, ask.body, ask.bytes);
    hub_let_go(peer->user, held(&ask));
    free(ask.body);
    if (status == SHOAL_OK) return;
    hub_asks_drop(peer);
    wire_close(peer->link, status, shoal_error_message());
}

void hub_turns_serve(hub *h) {
    int64_t until = base_now() + SERVE_MS * BASE_MS;
    bool did = h->backlog, left = false;
    while (did && base_now() < until) {
        did = false;
        for (size_t i = 0; i < h->peers.count && base_now() < until; i++) {
            hub_peer *peer = h->peers.data[h->turn++ % h->peers.count];
            if (peer->asks.count && may_ask(h, peer->user, base_now())) {
                serve_one(h, peer);
                did = true;
            }
        }
    }
    for (size_t i = 0; i < h->peers.count; i++) left |= h->peers.data[i]->asks.count > 0;
    if (h->backlog && !left) hub_tick_often(h, false);
    h->backlog = left;
}

void hub_asks_drop(hub_peer *peer) {
    for (; peer->next_ask < peer->asks.count; peer->next_ask++) {
        hub_let_go(peer->user, held(&peer->asks.data[peer->next_ask]));
        free(peer->asks.data[peer->next_ask].body);
    }
    peer->next_ask = peer->asks.count = 0;
}
