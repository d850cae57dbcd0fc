/* Making encrypted links: addresses, listening, connecting, and the handshake.
 *
 *   connecting side                      accepting side
 *   CURVE: who are you, who am I   <->   the door lets the key in (zmq_socket.c)
 *   HELLO                           ->
 *                                   <-   WELCOME, or WELCOME with an error
 *
 * "tcp://HOST:PORT/KEY" names a socket and whose it is; without a key it is that of a hub that was
 * joined there, else our own. With SHOAL_TRANSPORT=zmq the names of shm serve as well: the socket's
 * address is then in a file of that name in the user's runtime folder. */
#include "wire/paths.h"
#include "wire/zmq_link.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "wire/shm_link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDSHAKE_PATIENCE (2 * BASE_SECOND)
#define LINK_OF(watch_) ((zmq_link *)((char *)(watch_)-offsetof(zmq_link, timer)))

/* ---- addresses ---- */

static bool is_name(const char *address) { return strncmp(address, "tcp://", 6) != 0; }

/* The lock file of a name holds its address. */
static shoal_status read_name(const char *address, char *out, size_t room) {
    shoal_status status;
    char *path = wire_shm_path(address, false, &status);
    if (!path) return status;
    char file[PATH_MAX];
    int length = snprintf(file, sizeof file, "%s.lock", path);
    free(path);
    if (length >= (int)sizeof file) return base_fail(SHOAL_INVALID, "%s: too long", address);
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, out, room - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return base_fail(SHOAL_NOT_FOUND, "nobody listens there");
    out[n] = 0;
    return SHOAL_OK;
}

/* Cuts "/KEY" off an address of TCP; the key of a hub that was joined, or our own, when it has
 * none. */
static shoal_status split_key(wire_peer *peer, const char *address, char *text, uint8_t *key,
                              bool *guessed) {
    *guessed = false;
    char *slash = strchr(text + 6, '/');
    if (slash) {
        *slash = 0;
        if (strlen(slash + 1) != WIRE_KEY_TEXT - 1 || !wire_key_parse(slash + 1, key))
            return base_fail(SHOAL_INVALID, "the address '%s' has no key after its '/'", address);
    } else if (!wire_keys_hub(text, key)) {
        *guessed = true;
        memcpy(key, peer->zmq->own.public, WIRE_KEY);
    }
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    unsigned long port = colon && colon > text + 6 ? strtoul(colon + 1, &end, 10) : 0;
    if (!end || *end || end == colon + 1 || port < 1 || port > 65535)
        return base_fail(SHOAL_INVALID, "'%s' is not an address: use tcp://HOST:PORT", address);
    return SHOAL_OK;
}

/* Only where it is written: else addresses of IPv4 come back in the form of IPv6. */
static void allow_ipv6(void *socket, const char *address) {
    int yes = strchr(address, '[') != NULL;
    zmq_setsockopt(socket, ZMQ_IPV6, &yes, sizeof yes);
}

static void show(const char *address, char *out, size_t room) {
    snprintf(out, room, "%s", address);
    char *slash = is_name(out) ? NULL : strchr(out + 6, '/');
    if (slash) *slash = 0;
}

/* ---- both sides ---- */

static void give_up(zmq_link *own, shoal_status why) { wire_framed_give_up(&own->framed, why); }

static shoal_status nobody(const zmq_link *own) {
    return wire_nobody(own->framed.base.peer, own->framed.address);
}

static void timer_expired(wire_watch *watch) {
    zmq_link *own = LINK_OF(watch);
    if (own->framed.base.state == WIRE_OPEN)
        wire_zmq_look(own);
    else if (own->framed.base.state == WIRE_OPENING)
        give_up(own,
                own->connected || own->framed.accepting
                    ? base_fail(SHOAL_TIMEOUT, "%s has not answered in time", own->framed.address)
                    : nobody(own));
}

static void timer_ready(wire_watch *watch) {}

static void begin(wire_framed *framed) {
    zmq_link *own = (zmq_link *)framed;
    if (wire_zmq_beats_add(own) != SHOAL_OK)
        base_log(BASE_WARN, own->framed.address, "no memory for heartbeats");
    own->leaves = base_os_socket_leaves(own->fd);
    own->heard = own->ticked = own->awake = base_now();
    own->timer.deadline = own->heard + WIRE_ZMQ_BEAT_MS * BASE_MS;
}

static size_t links_of(const zmq_listener *listener, const uint8_t *key) {
    size_t at = 0, n = 0;
    uint64_t route;
    void *item;
    while (base_map_next(&listener->members, &at, &route, &item))
        n += !memcmp(((zmq_link *)item)->framed.base.proof.key, key, WIRE_KEY);
    return n;
}

/* Links of one user share a window: the socket takes from all in turn, so that what many have under
 * way is in front of everybody else's next message. */
static uint64_t window(const wire_framed *framed) {
    const zmq_link *own = (const zmq_link *)framed;
    if (!own->listener) return WIRE_ZMQ_WINDOW;
    size_t links = links_of(own->listener, framed->base.proof.key);
    uint64_t share = WIRE_ZMQ_KEY_WINDOW / (links ? links : 1);
    if (share < WIRE_FIRST_CREDIT) share = WIRE_FIRST_CREDIT;
    return share < WIRE_ZMQ_WINDOW ? share : WIRE_ZMQ_WINDOW;
}

static wire_framed *join(wire_framed *lead, const char *address, uint32_t number);

static bool reached(const wire_framed *framed, char *out, size_t room) {
    char text[64];
    bool asked = base_os_socket_reached(((const zmq_link *)framed)->fd, text, sizeof text);
    return asked && snprintf(out, room, "tcp://%s", text) < (int)room;
}

static const wire_carrier carrier = {window, wire_zmq_put, begin, join, wire_zmq_speed, reached};

static zmq_link *new_link(wire_peer *peer, const char *address, uint64_t attempt,
                          int64_t deadline) {
    zmq_link *own = calloc(1, sizeof *own);
    char shown[512];
    show(address, shown, sizeof shown);
    if (!own || wire_framed_add(&own->framed, peer, &wire_zmq_transport, &carrier, shown,
                                attempt) != SHOAL_OK) {
        free(own);
        base_fail(SHOAL_NO_MEMORY, "no memory for a link");
        return NULL;
    }
    own->fd = -1;
    own->timer = (wire_watch){
        .fd = -1, .deadline = deadline, .ready = timer_ready, .expired = timer_expired};
    if (wire_watch_add(peer, &own->timer) == SHOAL_OK) return own;
    wire_link_finish(&own->framed.base, SHOAL_NO_MEMORY, "");
    return NULL;
}

/* Reads the header of a message; false when it is no frame. */
static bool read_frame(zmq_msg_t *body, wire_frame *frame, const uint8_t **payload) {
    size_t n = zmq_msg_size(body);
    if (n < sizeof *frame) return false;
    memcpy(frame, zmq_msg_data(body), sizeof *frame);
    *payload = (const uint8_t *)zmq_msg_data(body) + sizeof *frame;
    return frame->bytes <= WIRE_CHUNK && wire_frame_bytes(frame->bytes) == n;
}

/* Somebody with a token: gives its own key and a name, and is done. */
static void enrol(zmq_listener *listener, zmq_msg_t *id, const uint8_t *token,
                  const wire_frame *asked, const uint8_t *payload) {
    char name[WIRE_MAX_NAME + 1];
    shoal_status status = SHOAL_OK;
    if (asked->type != WIRE_FRAME_ENROL || asked->bytes < WIRE_KEY ||
        asked->bytes > WIRE_KEY + WIRE_MAX_NAME) {
        status = base_fail(SHOAL_DENIED, "a token is good for enrolling only");
    } else {
        snprintf(name, sizeof name, "%.*s", (int)(asked->bytes - WIRE_KEY), payload + WIRE_KEY);
        status = wire_zmq_enrol(listener, id, token, payload, name);
    }
    if (status == SHOAL_OK) return;
    base_log(BASE_WARN, listener->address, "refused to enrol: %s", shoal_error_message());
    wire_zmq_answer(listener, zmq_msg_data(id), zmq_msg_size(id), status, shoal_error_message());
}

/* ---- connections without a link ---- */

/* Cuts the one that has waited longest: who means well says Hello at once. */
static void make_room(zmq_listener *listener) {
    size_t oldest = 0;
    for (size_t i = 1; i < listener->waiting.count; i++)
        if (listener->waiting.data[i].until < listener->waiting.data[oldest].until) oldest = i;
    zmq_waiting w = listener->waiting.data[oldest];
    base_os_socket_cut(w.fd, w.identity);
    listener->waiting.data[oldest] = listener->waiting.data[--listener->waiting.count];
}

static void cut_later(zmq_listener *listener, int fd, uint64_t identity, int ms) {
    zmq_waiting w = {fd, identity, base_now() + ms * BASE_MS};
    if (listener->waiting.count >= WIRE_ZMQ_WAITING) make_room(listener);
    if (!base_vec_push(&listener->waiting, w))
        base_os_socket_cut(fd, identity);
    else if (!listener->cutter.deadline)
        listener->cutter.deadline = w.until;
}

/* Gives what it was known by; 0: it was not to be cut. */
static uint64_t cut_never(zmq_listener *listener, int fd) {
    uint64_t identity = 0;
    for (size_t i = 0; i < listener->waiting.count; i++) {
        if (listener->waiting.data[i].fd != fd) continue;
        identity = listener->waiting.data[i].identity;
        listener->waiting.data[i--] = listener->waiting.data[--listener->waiting.count];
    }
    return identity;
}

/* There is no other way to end one of a router's connections. */
static void cut(wire_watch *watch) {
    zmq_listener *listener = (zmq_listener *)((char *)watch - offsetof(zmq_listener, cutter));
    wire_zmq_events(&listener->end); /* those that have ended by themselves */
    int64_t now = base_now(), next = 0;
    for (size_t i = 0; i < listener->waiting.count; i++) {
        zmq_waiting w = listener->waiting.data[i];
        if (w.until <= now) {
            base_os_socket_cut(w.fd, w.identity);
            listener->waiting.data[i--] = listener->waiting.data[--listener->waiting.count];
        } else if (!next || w.until < next) {
            next = w.until;
        }
    }
    watch->deadline = next;
}

void wire_zmq_abandon(zmq_listener *listener, int fd, uint64_t identity) {
    cut_later(listener, fd, identity, WIRE_ZMQ_CUT_MS);
}

/* The routing number of a router's guest, from 1; 0: none of ours. */
static uint64_t route_of(zmq_msg_t *id) {
    const uint8_t *bytes = zmq_msg_data(id);
    if (zmq_msg_size(id) != 5 || bytes[0]) return 0;
    return 1 + ((uint64_t)bytes[1] << 24 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 8 |
                bytes[4]);
}

static void newcomer(zmq_listener *listener, uint64_t route, zmq_msg_t *id, zmq_msg_t *body,
                     const wire_frame *frame, const uint8_t *payload) {
    uint8_t key[WIRE_KEY];
    wire_guest guest;
    wire_peer *peer = listener->end.peer;
    bool draining = listener->end.draining;
    listener->end.draining = true;   /* no deeper */
    wire_zmq_events(&listener->end); /* the number of a connection that is gone is used again */
    listener->end.draining = draining;
    const char *user = zmq_msg_gets(body, "User-Id");
    if (!user || strlen(user) != WIRE_KEY_TEXT - 1 || !wire_key_parse(user, key)) return;
    wire_zmq_known(peer, key, &guest);
    if (guest.standing == WIRE_TOKEN || frame->type == WIRE_FRAME_ENROL) {
        enrol(listener, id, key, frame, payload);
        return;
    }
    /* Anything else is cut off in its time, as one that says nothing is. */
    if (guest.standing != WIRE_ENROLLED || frame->type != WIRE_FRAME_HELLO) return;
    size_t most = peer->hello->peer ? WIRE_ZMQ_MEMBER_LINKS : WIRE_ZMQ_KEY_LINKS;
    bool room = listener->members.count < WIRE_ZMQ_LINKS && links_of(listener, key) < most;
    zmq_link *own =
        room ? new_link(peer, listener->address, 0, base_now() + HANDSHAKE_PATIENCE) : NULL;
    if (!own) {
        if (!listener->full)
            base_log(BASE_WARN, listener->address, "no room for another link of %s (key %.16s)",
                     guest.name, user);
        listener->full = true;
        return;
    }
    listener->full = false;
    own->framed.accepting = true;
    own->listener = listener;
    own->role = guest.role;
    own->fd = zmq_msg_get(body, ZMQ_SRCFD);
    own->identity = cut_never(listener, own->fd);
    if (!own->identity) own->identity = base_os_socket_identity(own->fd);
    wire_proof *proof = &own->framed.base.proof;
    proof->keyed = true;
    proof->local = !memcmp(key, peer->zmq->own.public, WIRE_KEY);
    memcpy(proof->key, key, WIRE_KEY);
    memcpy(own->id, zmq_msg_data(id), sizeof own->id);
    if (base_map_set(&listener->members, route, own) != SHOAL_OK) {
        give_up(own, SHOAL_NO_MEMORY);
        return;
    }
    own->route = route;
    wire_framed_guest(&own->framed, payload, frame->bytes);
}

static void router_message(zmq_end *end, zmq_msg_t *id, zmq_msg_t *body) {
    zmq_listener *listener = (zmq_listener *)end;
    wire_frame frame;
    const uint8_t *payload;
    uint64_t route = route_of(id);
    if (!route) return;
    zmq_link *own = base_map_get(&listener->members, route);
    bool read = read_frame(body, &frame, &payload);
    if (own && !read)
        wire_close(&own->framed.base, SHOAL_FORMAT, "what came is no frame");
    else if (own && own->framed.base.state == WIRE_OPEN)
        wire_zmq_take(own, &frame, payload);
    else if (!own && read)
        newcomer(listener, route, id, body, &frame, payload);
}

static void lost(zmq_link *own) {
    char reason[WIRE_MAX_REASON];
    snprintf(reason, sizeof reason, "%s: the process has ended, or the connection was cut",
             own->framed.base.name ? own->framed.base.name : own->framed.address);
    wire_link_finish(&own->framed.base, SHOAL_LOST, reason);
}

/* ØMQ says of an open connection, too, that its handshake has failed, when what comes is not what
 * the other side has encrypted. */
static void garbled(zmq_link *own) {
    char reason[WIRE_MAX_REASON];
    snprintf(reason, sizeof reason, "%s: what came was changed on its way", own->framed.base.name);
    wire_link_finish(&own->framed.base, SHOAL_LOST, reason);
}

static void router_event(zmq_end *end, uint16_t event, uint32_t value) {
    zmq_listener *listener = (zmq_listener *)end;
    size_t at = 0;
    uint64_t key;
    void *item;
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
        cut_later(listener, (int)value, base_os_socket_identity((int)value), WIRE_ZMQ_WAITING_MS);
    if (event != ZMQ_EVENT_DISCONNECTED) return;
    cut_never(listener, (int)value);
    while (base_map_next(&listener->members, &at, &key, &item)) {
        zmq_link *own = item;
        if (own->fd != (int)value) continue;
        own->fd = -1;
        wire_zmq_drain(end);
        lost(own);
        return;
    }
}

/* ---- the connecting side ---- */

static void dealer_message(zmq_end *end, zmq_msg_t *id, zmq_msg_t *body) {
    zmq_link *own = (zmq_link *)((char *)end - offsetof(zmq_link, end));
    wire_frame frame;
    const uint8_t *payload;
    bool read = read_frame(body, &frame, &payload);
    if (own->framed.base.state == WIRE_OPENING && !read)
        give_up(own, base_fail(SHOAL_FORMAT, "%s: what came is no Welcome", own->framed.address));
    else if (own->framed.base.state == WIRE_OPENING)
        wire_framed_answer(&own->framed, &frame, payload);
    else if (own->framed.base.state == WIRE_OPEN && !read)
        wire_close(&own->framed.base, SHOAL_FORMAT, "what came is no frame");
    else if (own->framed.base.state == WIRE_OPEN)
        wire_zmq_take(own, &frame, payload);
}

static shoal_status not_let_in(const zmq_link *own) {
    if (own->framed.base.peer->hello->peer)
        return base_fail(SHOAL_BUSY, "%s has not heard of this member yet, or it has left",
                         own->framed.address);
    return base_fail(
        SHOAL_DENIED,
        "%s refuses the key of this user: it never enrolled there, or was revoked; run "
        "`shoal join` with a token from `shoal invite` there",
        own->framed.address);
}

/* The connection ended in the handshake. Of a member whose key the hub has told that means most
 * likely that it has just died. */
static shoal_status not_trusted(const zmq_link *own) {
    if (own->framed.base.peer->hello->peer)
        return base_fail(SHOAL_LOST,
                         "%s: the process has ended, or its key is not the one that the hub told",
                         own->framed.address);
    /* Its holder has ended, and somebody else has the port that it wrote down. */
    if (own->dialled && is_name(own->dialled)) return nobody(own);
    if (own->guessed)
        return base_fail(
            SHOAL_DENIED,
            "%s is no hub of this user's, nor has this user joined it: run `shoal join` "
            "with a token from `shoal invite` there",
            own->framed.address);
    return base_fail(SHOAL_NOT_FOUND,
                     "%s is no hub with the key that was expected: check the address, or join it "
                     "anew with `shoal join`",
                     own->framed.address);
}

static void dealer_event(zmq_end *end, uint16_t event, uint32_t value) {
    zmq_link *own = (zmq_link *)((char *)end - offsetof(zmq_link, end));
    bool opening = own->framed.base.state == WIRE_OPENING;
    if (own->framed.base.state == WIRE_GONE) return;
    switch (event) {
    case ZMQ_EVENT_CONNECTED:
        own->connected = true;
        own->fd = (int)value;
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        if (!opening)
            garbled(own);
        else
            give_up(own,
                    event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ? not_let_in(own) : not_trusted(own));
        break;
    case ZMQ_EVENT_CLOSED:
        if (opening) give_up(own, own->connected ? not_trusted(own) : nobody(own));
        break;
    case ZMQ_EVENT_DISCONNECTED:
        own->fd = -1;
        wire_zmq_drain(end);
        if (own->framed.base.state == WIRE_OPENING)
            give_up(own, not_trusted(own));
        else
            lost(own);
    }
}

static shoal_status dial(zmq_link *own, const char *address) {
    char text[512];
    uint8_t key[WIRE_KEY];
    wire_peer *peer = own->framed.base.peer;
    SHOAL_TRY(wire_zmq_start(peer));
    if (is_name(address)) {
        shoal_status status = read_name(address, text, sizeof text);
        if (status == SHOAL_NOT_FOUND) return nobody(own);
        SHOAL_TRY(status);
    } else {
        snprintf(text, sizeof text, "%s", address);
    }
    SHOAL_TRY(split_key(peer, address, text, key, &own->guessed));
    own->end.message = dealer_message;
    own->end.event = dealer_event;
    own->framed.base.proof.keyed = true; /* else the handshake fails */
    memcpy(own->framed.base.proof.key, key, WIRE_KEY);
    /* A path towards a hub is opened with the key of the link: the user's. */
    const wire_link *lead = own->framed.base.lead;
    bool as_member = lead ? lead->proof.number != 0 : peer->hello->peer != 0;
    SHOAL_TRY(wire_zmq_open(&own->end, peer, key, as_member ? &peer->pair : &peer->zmq->own));
    allow_ipv6(own->end.socket, text);
    if (zmq_connect(own->end.socket, text)) return wire_zmq_fail(own->framed.address);
    return wire_framed_hello(&own->framed, NULL);
}

static void connect_zmq(wire_peer *peer, const char *address, uint64_t attempt, int64_t deadline) {
    zmq_link *own = new_link(peer, address, attempt, deadline);
    char *copy = strdup(address);
    if (!own || !copy) {
        if (own) wire_link_finish(&own->framed.base, SHOAL_NO_MEMORY, "");
        free(copy);
        wire_peer_connect_failed(peer, attempt, SHOAL_NO_MEMORY);
        return;
    }
    own->dialled = copy;
    shoal_status status = dial(own, copy);
    if (status != SHOAL_OK) give_up(own, status);
}

/* As connect_zmq, with the key that the other side has proven on the link. */
static wire_framed *join(wire_framed *lead, const char *address, uint32_t number) {
    char key[WIRE_KEY_TEXT], whole[WIRE_MAX_ADDRESS + WIRE_KEY_TEXT + 2];
    snprintf(whole, sizeof whole, "%s/%s", address,
             wire_key_text(wire_lead(&lead->base)->proof.key, key));
    zmq_link *own = new_link(lead->base.peer, address, 0, base_now() + HANDSHAKE_PATIENCE);
    if (!own) return NULL;
    own->framed.base.lead = wire_lead(&lead->base);
    own->framed.path.number = number;
    own->dialled = strdup(whole);
    shoal_status status =
        own->dialled ? dial(own, whole) : base_fail(SHOAL_NO_MEMORY, "no memory for a path");
    if (status == SHOAL_OK) return &own->framed;
    give_up(own, status);
    return NULL;
}

/* ---- listening ---- */

static void free_name(zmq_listener *listener) {
    if (listener->fd >= 0) base_os_socket_unlisten(listener->path, listener->fd, listener->lock);
    listener->fd = -1;
    free(listener->path);
    listener->path = NULL;
}

void wire_zmq_free_listener(zmq_listener *listener) {
    wire_watch_remove(listener->end.peer, &listener->cutter);
    free(listener->waiting.data);
    wire_zmq_close(&listener->end, WIRE_ZMQ_LINGER_MS);
    free_name(listener);
    base_map_fini(&listener->members);
    free(listener->address);
    free(listener);
}

/* Holds the name, so that nobody else takes it. */
static shoal_status hold_name(zmq_listener *listener) {
    shoal_status status;
    listener->path = wire_shm_path(listener->address, true, &status);
    return listener->path ? base_os_socket_listen(listener->path, &listener->fd, &listener->lock)
                          : status;
}

static shoal_status write_name(const zmq_listener *listener, const char *endpoint) {
    size_t n = strlen(endpoint);
    bool written =
        !ftruncate(listener->lock, 0) && pwrite(listener->lock, endpoint, n, 0) == (ssize_t)n;
    return written ? SHOAL_OK : base_fail_errno(errno, "writing %s.lock", listener->path);
}

/* What somebody can do about an address that cannot be had. */
static shoal_status cannot_bind(void) {
    int error = zmq_errno();
    const char *fix = error == EADDRNOTAVAIL ? "give an address of this machine"
                      : error == EADDRINUSE  ? "choose another port"
                      : error == EACCES      ? "choose a port above 1023"
                                             : NULL;
    shoal_status status = wire_zmq_fail("listening");
    char why[256];
    snprintf(why, sizeof why, "%s", shoal_error_message());
    return fix ? base_fail(status, "%s; %s", why, fix) : status;
}

static shoal_status bind_listener(zmq_listener *listener, char *endpoint, size_t room) {
    wire_peer *peer = listener->end.peer;
    bool name = is_name(listener->address);
    char key[WIRE_KEY_TEXT];
    if (name) SHOAL_TRY(hold_name(listener));
    /* A hub is known by the user's key, which tokens hold; members by their process's. */
    const wire_key_pair *own = peer->handled[WIRE_HUB] ? &peer->zmq->own : &peer->pair;
    SHOAL_TRY(wire_zmq_open(&listener->end, peer, NULL, own));
    if (!name) allow_ipv6(listener->end.socket, listener->address);
    if (zmq_bind(listener->end.socket, name ? "tcp://127.0.0.1:*" : listener->address))
        return cannot_bind();
    size_t used = room;
    if (zmq_getsockopt(listener->end.socket, ZMQ_LAST_ENDPOINT, endpoint, &used))
        return wire_zmq_fail("listening");
    used = strlen(endpoint);
    snprintf(endpoint + used, room - used, "/%s", wire_key_text(own->public, key));
    return name ? write_name(listener, endpoint) : SHOAL_OK;
}

static shoal_status listen_zmq(wire_peer *peer, const char *address) {
    char endpoint[512];
    SHOAL_TRY(wire_zmq_start(peer));
    zmq_listener *listener = calloc(1, sizeof *listener);
    if (!listener) return base_fail(SHOAL_NO_MEMORY, "no memory to listen at %s", address);
    listener->fd = listener->lock = -1;
    listener->end = (zmq_end){.peer = peer, .message = router_message, .event = router_event};
    listener->address = strdup(address);
    listener->cutter = (wire_watch){.fd = -1, .ready = timer_ready, .expired = cut};
    char *told = NULL;
    shoal_status status = listener->address && base_vec_reserve(&peer->listeners)
                              ? bind_listener(listener, endpoint, sizeof endpoint)
                              : base_fail(SHOAL_NO_MEMORY, "no memory");
    if (status == SHOAL_OK) status = wire_watch_add(peer, &listener->cutter);
    if (status == SHOAL_OK && !(told = strdup(is_name(address) ? address : endpoint)))
        status = base_fail(SHOAL_NO_MEMORY, "no memory");
    if (status != SHOAL_OK) {
        wire_zmq_free_listener(listener);
        return base_fail_prefix(status, "%s: ", address);
    }
    peer->listeners.data[peer->listeners.count++] =
        (wire_listener){&wire_zmq_transport, listener, told};
    return SHOAL_OK;
}

/* The links that were accepted need the socket until they end: it is freed with the context. */
static void unlisten_zmq(wire_peer *peer, void *state) {
    zmq_listener *listener = state;
    free_name(listener);
    listener->next = peer->zmq->ended;
    peer->zmq->ended = listener;
}

const wire_transport wire_zmq_transport = {
    .scheme = "tcp",
    .listen = listen_zmq,
    .connect = connect_zmq,
    .send = wire_framed_send,
    .send_data = wire_framed_send_data,
    .progress = wire_zmq_progress,
    .pending = wire_framed_pending,
    .sleep = wire_framed_sleep,
    .shut = wire_zmq_shut,
    .unlisten = unlisten_zmq,
};
