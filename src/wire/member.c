/* Who the other side of a link is: what its Hello may say, and that a member is the one whose
 * number it gives. */
#include "wire/paths.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Frames lie in memory as they go over the wire; a machine of the other order would need its own
 * way of reading them. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian");
_Static_assert(sizeof(wire_frame) == 40 && offsetof(wire_frame, ordinal) == 36,
               "frames have no gaps, so that all processors have them alike");
static const uint32_t order = 0x01020304;

/* The protocols that a process speaks, both ends included. */
typedef struct range {
    uint32_t oldest, newest;
} range;

/* Of a Hello that says nothing: this build's. One number is a range of one. */
static range range_of(const Shoal__Hello *hello) {
    if (!hello->protocol) return (range){WIRE_OLDEST, WIRE_PROTOCOL};
    return (range){hello->oldest ? hello->oldest : hello->protocol, hello->protocol};
}

void wire_hello_fill(const wire_peer *peer, Shoal__Hello *hello) {
    range spoken = range_of(hello);
    hello->oldest = spoken.oldest;
    hello->protocol = spoken.newest;
    hello->features = WIRE_FEATURES;
    hello->order = (ProtobufCBinaryData){sizeof order, (uint8_t *)&order};
    hello->key = (ProtobufCBinaryData){WIRE_KEY, (uint8_t *)peer->pair.public};
}

/* There has to be one that both speak. */
static shoal_status check_version(const wire_peer *peer, const Shoal__Hello *hello, bool accepting,
                                  const char *address) {
    range own = range_of(peer->hello), theirs = {hello->oldest, hello->protocol};
    if (!theirs.oldest) theirs.oldest = theirs.newest;
    if (theirs.newest >= own.oldest && theirs.oldest <= own.newest) return SHOAL_OK;
    return base_fail(SHOAL_VERSION,
                     "%s runs Shoal %.32s (protocol %u), %s runs Shoal %s (protocol %u): install "
                     "the same version for both",
                     accepting ? "the connecting process" : address, hello->version,
                     hello->protocol, accepting ? address : "this process", peer->hello->version,
                     own.newest);
}

/* ---- members ---- */

void wire_know(wire_peer *peer, const wire_member *members, size_t n, bool more) {
    size_t kept = more ? peer->n_members : 0;
    wire_member *list = malloc((kept + n + 1) * sizeof *list);
    if (!list) { /* those that were known stay so */
        base_log(BASE_ERROR, peer->hello->name, "no memory for %zu members", n);
        return;
    }
    if (kept) memcpy(list, peer->members, kept * sizeof *list);
    if (n) memcpy(list + kept, members, n * sizeof *list);
    pthread_mutex_lock(&peer->known);
    free(peer->members);
    peer->members = list;
    peer->n_members = kept + n;
    pthread_mutex_unlock(&peer->known);
}

void wire_forget(wire_peer *peer, uint32_t number) {
    pthread_mutex_lock(&peer->known);
    for (size_t i = 0; i < peer->n_members; i++)
        if (peer->members[i].number == number)
            peer->members[i--] = peer->members[--peer->n_members];
    pthread_mutex_unlock(&peer->known);
    wire_relay_forget(peer, number);
}

bool wire_member_find(wire_peer *peer, uint32_t number, wire_member *out) {
    bool found = false;
    pthread_mutex_lock(&peer->known);
    for (size_t i = 0; i < peer->n_members && !found; i++) {
        found = peer->members[i].number == number;
        if (found) *out = peer->members[i];
    }
    pthread_mutex_unlock(&peer->known);
    return found;
}

bool wire_member_key(wire_peer *peer, const uint8_t *key) {
    bool found = false;
    pthread_mutex_lock(&peer->known);
    for (size_t i = 0; i < peer->n_members && !found; i++)
        found = !memcmp(peer->members[i].key, key, WIRE_KEY);
    pthread_mutex_unlock(&peer->known);
    return found;
}

/* A process of the same user on this machine could take that member's place anyhow. */
static bool same_user(wire_peer *peer, const wire_member *member) {
    wire_member own;
    return wire_member_find(peer, peer->hello->peer, &own) && own.user && own.user == member->user;
}

static shoal_status check_number(wire_link *link, const Shoal__Hello *hello, const char *address) {
    wire_peer *peer = link->peer;
    wire_member member;
    if (!hello->peer)
        return base_fail(SHOAL_DENIED, "%s is no hub, and takes links from members only", address);
    if (hello->pool != peer->hello->pool)
        return base_fail(SHOAL_DENIED, "%s is a member of another pool", address);
    if (!wire_member_find(peer, hello->peer, &member))
        return base_fail(SHOAL_BUSY, "%s has not heard of member %u yet, or it has left", address,
                         hello->peer);
    bool proven = link->proof.keyed ? !memcmp(link->proof.key, member.key, WIRE_KEY)
                                    : link->proof.local && same_user(peer, &member);
    if (!proven) {
        base_log(BASE_WARN, peer->hello->name,
                 "%s, a process of somebody else, says that it is member %u: refused", address,
                 hello->peer);
        return base_fail(SHOAL_DENIED, "%s has not proven that it is member %u", address,
                         hello->peer);
    }
    link->proof.number = hello->peer;
    return SHOAL_OK;
}

shoal_status wire_hello_check(wire_link *link, const Shoal__Hello *hello, bool accepting,
                              const char *address) {
    wire_peer *peer = link->peer;
    SHOAL_TRY(check_version(peer, hello, accepting, address));
    if (hello->order.len != sizeof order || memcmp(hello->order.data, &order, sizeof order))
        return base_fail(SHOAL_UNSUPPORTED, "%s has another order of bytes", address);
    if (hello->key.len != WIRE_KEY) return base_fail(SHOAL_FORMAT, "%s names no key", address);
    if (link->lead || (accepting && hello->joins)) return wire_routes_check(link, hello, accepting);
    if (peer->hello->peer) return check_number(link, hello, address);
    /* Not a member yet, or a hub: what has a number elsewhere has no business here. */
    if (hello->peer && accepting)
        return base_fail(peer->handled[WIRE_HUB] ? SHOAL_DENIED : SHOAL_BUSY,
                         "%s is not in the pool of member %u", address, hello->peer);
    return SHOAL_OK;
}

const wire_proof *wire_link_proof(const wire_link *link) { return &link->proof; }

void wire_link_strange(wire_link *link, const char *what) {
    char key[WIRE_KEY_TEXT] = "no key";
    link = wire_lead(link);
    if (link->strange++) return;
    if (link->proof.keyed) wire_key_text(link->proof.key, key);
    base_log(BASE_WARN, link->peer->hello->name,
             "%s (member %u, key %.16s) sent %s: dropped, as is what else it may send that is not "
             "its to send",
             link->name ? link->name : "a link", link->proof.number, key, what);
}
