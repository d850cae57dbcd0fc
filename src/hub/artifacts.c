/* Questions for artifacts. The keeper, a process of this hub's own user, has them and makes them;
 * the hub passes questions and answers on, and counts what each user asks for. It looks at no file
 * and into no program, and what it says of who signs is what members take nothing else for. */
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

enum {
    MOST_WORD = 1024,
    /* Seconds within which a keeper is there, or there again: who asks meanwhile may ask once more.
     */
    COMES_S = 15
};

static void expect(hub *h) { h->artifacts.expected = base_now() + COMES_S * BASE_SECOND; }

void hub_keep_artifacts(hub *h, const uint8_t key[WIRE_KEY]) {
    h->artifacts.given = true;
    memcpy(h->artifacts.signer, key, WIRE_KEY);
    expect(h);
}

static void refuse(hub_peer *peer, uint64_t token, shoal_status why, const char *message) {
    Shoal__Artifact answer = SHOAL__ARTIFACT__INIT;
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = (uint32_t)why;
    error.message = (char *)message;
    answer.token = token;
    answer.error = &error;
    hub_send(peer, SHOAL__KIND__ARTIFACT_GIVEN, &answer.base);
}

static bool makes_sense(const hub *h, const hub_peer *peer, const Shoal__ArtifactAsk *ask) {
    return h->artifacts.given && peer->lends && ask->token && ask->made_of.len == WIRE_DIGEST &&
           ask->text.len <= WIRE_MOST_TEXT && strlen(ask->target) <= MOST_WORD &&
           strlen(ask->device) <= MOST_WORD && strlen(ask->compiler) <= MOST_WORD;
}

/* At most half of what is left is one user's. */
static bool may_ask(const hub *h, const hub_user *user, uint64_t held) {
    uint64_t all = held;
    for (size_t i = 0; i < h->users.count; i++) all += h->users.data[i]->wanted;
    return all < HUB_MAX_WANTED && user->wanted + held <= (HUB_MAX_WANTED - all) / 2;
}

void hub_artifact_ask(hub *h, hub_peer *peer, Shoal__ArtifactAsk *ask) {
    if (!makes_sense(h, peer, ask)) {
        hub_strange(peer, "a question for an artifact that makes no sense");
        return;
    }
    hub_wanted wanted = {.token = h->artifacts.last + 1,
                         .asked = ask->token,
                         .peer = peer->number,
                         .user = peer->user,
                         .held = HUB_WANTED_HELD + ask->text.len};
    if (!h->artifacts.keeper || !h->artifacts.keeper->link) {
        bool comes = base_now() < h->artifacts.expected;
        refuse(peer, ask->token, comes ? SHOAL_BUSY : SHOAL_NOT_FOUND,
               comes ? "the hub's keeper of artifacts is not there yet"
                     : "the hub's keeper of artifacts is not there");
        return;
    }
    if (!may_ask(h, peer->user, wanted.held) || !base_vec_push(&h->artifacts.wanted, wanted)) {
        refuse(peer, ask->token, SHOAL_BUSY,
               "the keeper has as many questions of this user as it may");
        return;
    }
    h->artifacts.last++;
    peer->user->wanted += wanted.held;
    ask->token = wanted.token;
    ask->user = peer->user->number;
    hub_send(h->artifacts.keeper, SHOAL__KIND__ARTIFACT_WANTED, &ask->base);
}

shoal_status hub_artifact_refuse(hub_peer *peer, const void *body, size_t bytes) {
    ProtobufCMessage *ask;
    SHOAL_TRY(wire_unpack(&shoal__artifact_ask__descriptor, body, bytes, &ask));
    refuse(peer, ((const Shoal__ArtifactAsk *)ask)->token, SHOAL_BUSY,
           "the hub holds as much for this user as it may");
    wire_unpacked_free(ask);
    return SHOAL_OK;
}

static void begin(hub *h, hub_peer *peer) {
    if (!h->artifacts.given || !wire_link_proof(peer->link)->local) {
        hub_strange(peer, "that it keeps artifacts, as only the hub's own user may");
        return;
    }
    if (h->artifacts.keeper) {
        wire_close(peer->link, SHOAL_BUSY, "the pool has a keeper of artifacts already");
        return;
    }
    h->artifacts.keeper = peer;
    base_log(BASE_INFO, "hub", "%s keeps artifacts for the pool", peer->name);
}

/* Takes a question off those that wait; false: there is none of that number. */
static bool take(hub *h, uint64_t token, hub_wanted *out) {
    for (size_t i = 0; i < h->artifacts.wanted.count; i++) {
        if (h->artifacts.wanted.data[i].token != token) continue;
        *out = h->artifacts.wanted.data[i];
        h->artifacts.wanted.data[i] = h->artifacts.wanted.data[--h->artifacts.wanted.count];
        out->user->wanted -= out->held;
        return true;
    }
    return false;
}

void hub_artifact_take(hub *h, hub_peer *peer, Shoal__Artifact *artifact) {
    hub_wanted wanted;
    if (!artifact->token) {
        begin(h, peer);
        return;
    }
    bool fits = artifact->note.len <= WIRE_MOST_NOTE &&
                (!artifact->error || strlen(artifact->error->message) <= HUB_MAX_REASON) &&
                (!artifact->note.len || artifact->digest.len == WIRE_DIGEST);
    if (peer != h->artifacts.keeper || !fits || !take(h, artifact->token, &wanted)) {
        hub_strange(peer, "an artifact that nobody asked it for");
        return;
    }
    hub_peer *asker = hub_peer_find(h, wanted.peer);
    if (!asker) return; /* it has left meanwhile */
    artifact->token = wanted.asked;
    artifact->peer = peer->number;
    hub_send(asker, SHOAL__KIND__ARTIFACT_GIVEN, &artifact->base);
}

void hub_artifacts_leave(hub *h, const hub_peer *gone) {
    if (gone != h->artifacts.keeper) return;
    h->artifacts.keeper = NULL;
    expect(h);
    while (h->artifacts.wanted.count) {
        hub_wanted wanted = h->artifacts.wanted.data[--h->artifacts.wanted.count];
        wanted.user->wanted -= wanted.held;
        hub_peer *asker = hub_peer_find(h, wanted.peer);
        /* What it was looking into may be why: that is not to meet the next one at once. */
        bool again = wanted.held == HUB_WANTED_HELD;
        if (asker)
            refuse(asker, wanted.asked, again ? SHOAL_BUSY : SHOAL_NOT_FOUND,
                   "the hub's keeper of artifacts has left");
    }
}
