/* Links by way of the hub, between members that cannot reach each other: a firewall is between
 * them, or one of them does not listen. Every member has a link with the hub, which passes frames
 * on, says who sent them, and cannot read them: they are sealed from end to end (seal.h). It is the
 * last of a member's addresses: "relay:7" is member 7.
 *
 * Frames of the handshake have their header in clear; so has a CLOSE from who cannot take the link,
 * which counts only while the link is being made. */
#include "wire/framed.h"

#include "base/clock.h"
#include "base/log.h"
#include "wire/seal.h"
#include "wire/zmq_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 2 << 20 };

typedef struct relay_link {
    wire_framed framed;
    wire_watch timer; /* of the handshake */
    uint32_t number;  /* of the member at the other end */
    uint32_t id; /* of the link, given by who connects: what is late for an old one is dropped */
    wire_seal seal;
    uint8_t *draft;
} relay_link;

/* ---- sending ---- */

static shoal_status pass(wire_peer *peer, uint32_t number, uint32_t id, bool back, uint8_t *bytes,
                         size_t n) {
    if (!peer->hub) return base_fail(SHOAL_CLOSED, "relay:%u: the hub is gone", number);
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.peer = number;
    relay.back = back;
    relay.link = id;
    relay.frame = (ProtobufCBinaryData){n, bytes};
    return wire_send(peer->hub, SHOAL__KIND__RELAY, &relay.base);
}

/* Tells the other side, which might wait for ever, that there is nobody at this end. */
static void reset(wire_peer *peer, uint32_t number, uint32_t id, bool back) {
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.peer = number;
    relay.back = back;
    relay.link = id;
    relay.reset = true;
    if (peer->hub && wire_send(peer->hub, SHOAL__KIND__RELAY, &relay.base) != SHOAL_OK)
        base_log(BASE_DEBUG, peer->hello->name, "%s", shoal_error_message());
}

static shoal_status send_frame(relay_link *own, uint8_t *bytes, size_t n) {
    return pass(own->framed.base.peer, own->number, own->id, own->framed.accepting, bytes, n);
}

/* Of the handshake: header, fresh key, sealed payload. */
static shoal_status put_hello(relay_link *own, wire_frame frame, const void *payload,
                              uint8_t *bytes) {
    shoal_status status = wire_seal_hello(&own->seal, &own->framed.base.peer->pair, payload,
                                          frame.bytes, bytes + sizeof frame);
    frame.bytes += WIRE_SEAL_HELLO;
    memcpy(bytes, &frame, sizeof frame);
    return status;
}

static shoal_status put(wire_framed *framed, const wire_frame *frame, const void *payload) {
    relay_link *own = (relay_link *)framed;
    size_t n = sizeof *frame + frame->bytes;
    uint8_t *bytes = calloc(1, n + WIRE_SEAL_HELLO);
    if (!bytes) return base_fail(SHOAL_NO_MEMORY, "%s: no memory for a frame", framed->address);
    shoal_status status = SHOAL_OK;
    if (frame->type == WIRE_FRAME_HELLO || frame->type == WIRE_FRAME_WELCOME) {
        status = put_hello(own, *frame, payload, bytes);
        n += WIRE_SEAL_HELLO;
    } else {
        memcpy(bytes, frame, sizeof *frame);
        if (frame->bytes) memcpy(bytes + sizeof *frame, payload, frame->bytes);
        wire_seal_put(&own->seal, bytes, n, bytes);
        n += WIRE_SEAL_TAG;
    }
    if (status == SHOAL_OK) status = send_frame(own, bytes, n);
    free(bytes);
    return status;
}

static void *reserve(wire_link *link, size_t bytes) {
    relay_link *own = (relay_link *)link;
    if (!wire_framed_room(&own->framed, bytes)) return NULL;
    return own->draft = calloc(1, bytes + WIRE_SEAL_TAG);
}

/* A failure shows as the end of the link with the hub. */
static void commit(wire_link *link, size_t bytes) {
    relay_link *own = (relay_link *)link;
    wire_framed_went(&own->framed, bytes);
    wire_seal_put(&own->seal, own->draft, bytes, own->draft);
    bytes += WIRE_SEAL_TAG;
    if (send_frame(own, own->draft, bytes) != SHOAL_OK && link->peer->hub)
        wire_close(link->peer->hub, SHOAL_LOST, shoal_error_message());
    free(own->draft);
    own->draft = NULL;
}

/* The end of it is left over. */
static void *shorten(wire_link *link, size_t bytes) { return ((relay_link *)link)->draft; }

static const wire_writer writer = {reserve, commit, shorten};

static bool progress(wire_link *link) { return link->waiting && wire_outbox_flush(link, &writer); }

/* ---- making and ending ---- */

static void begin(wire_framed *framed) { ((relay_link *)framed)->timer.deadline = 0; }

static uint64_t window(const wire_framed *framed) { return WINDOW; }

/* That of the way to the hub, which is one of two. */
static double speed(wire_framed *framed) {
    wire_link *hub = framed->base.peer->hub;
    return hub && hub->transport == &wire_zmq_transport ? wire_zmq_speed((wire_framed *)hub) : 0;
}

static const wire_carrier carrier = {.window = window, .put = put, .begin = begin, .speed = speed};

static void timer_ready(wire_watch *watch) {}

static void timer_expired(wire_watch *watch) {
    wire_framed *own = watch->context;
    if (own->base.state == WIRE_OPENING)
        wire_framed_give_up(own, base_fail(SHOAL_TIMEOUT,
                                           "%s, by way of the hub, has not answered in time",
                                           own->address));
}

/* There is one at most to each member in each direction. */
static relay_link *find(const wire_peer *peer, uint32_t number, bool accepting) {
    for (size_t i = 0; i < peer->links.count; i++) {
        relay_link *own = (relay_link *)peer->links.data[i];
        if (own->framed.base.transport == &wire_relay && own->framed.base.state != WIRE_GONE &&
            own->number == number && own->framed.accepting == accepting)
            return own;
    }
    return NULL;
}

/* What both ends know of a link before it is there: sealed with one, nothing opens another. */
typedef struct binding {
    uint64_t pool;
    uint32_t connecting, accepting, id;
} binding;

/* With the key that the hub has told of the member; BUSY: it has told of none yet. */
static shoal_status begin_seal(relay_link *own, uint32_t number, uint32_t id, bool accepting) {
    wire_peer *peer = own->framed.base.peer;
    wire_member member;
    uint32_t self = peer->hello->peer;
    own->number = number;
    own->id = id;
    own->framed.accepting = accepting;
    if (!wire_member_find(peer, number, &member))
        return base_fail(accepting ? SHOAL_BUSY : SHOAL_NOT_FOUND,
                         "nothing has been heard of member %u yet, or it has left", number);
    binding b;
    memset(&b, 0, sizeof b);
    b.pool = peer->hello->pool;
    b.connecting = accepting ? number : self;
    b.accepting = accepting ? self : number;
    b.id = id;
    own->framed.base.proof = (wire_proof){.keyed = true};
    memcpy(own->framed.base.proof.key, member.key, WIRE_KEY);
    return wire_seal_begin(&own->seal, accepting, &peer->pair, member.key, &b, sizeof b);
}

static relay_link *new_link(wire_peer *peer, const char *address, uint64_t attempt,
                            int64_t deadline) {
    relay_link *own = calloc(1, sizeof *own);
    if (!own ||
        wire_framed_add(&own->framed, peer, &wire_relay, &carrier, address, attempt) != SHOAL_OK) {
        free(own);
        base_fail(SHOAL_NO_MEMORY, "no memory for a link");
        return NULL;
    }
    own->timer = (wire_watch){.fd = -1,
                              .deadline = deadline,
                              .ready = timer_ready,
                              .expired = timer_expired,
                              .context = &own->framed};
    if (wire_watch_add(peer, &own->timer) == SHOAL_OK) return own;
    wire_link_finish(&own->framed.base, SHOAL_NO_MEMORY, "");
    return NULL;
}

static void end_link(relay_link *own, shoal_status unopened, const char *text) {
    char reason[WIRE_MAX_REASON];
    snprintf(reason, sizeof reason, "%s", text);
    if (own->framed.base.state == WIRE_OPENING)
        wire_framed_give_up(&own->framed, base_fail(unopened, "%s", reason));
    else
        wire_link_finish(&own->framed.base, SHOAL_LOST, reason);
}

static void connect_relay(wire_peer *peer, const char *address, uint64_t attempt,
                          int64_t deadline) {
    char *end = NULL;
    const char *colon = strchr(address, ':');
    unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!end || end == colon + 1 || *end || number > UINT32_MAX) {
        wire_peer_connect_failed(
            peer, attempt, base_fail(SHOAL_INVALID, "the address '%s' is no member's", address));
        return;
    }
    relay_link *own = find(peer, (uint32_t)number, false);
    if (own) end_link(own, SHOAL_LOST, "a new link replaces it");
    own = new_link(peer, address, attempt, deadline);
    if (!own) {
        wire_peer_connect_failed(peer, attempt, SHOAL_NO_MEMORY);
        return;
    }
    shoal_status status = begin_seal(own, (uint32_t)number, ++peer->relays, false);
    if (status == SHOAL_OK) status = wire_framed_hello(&own->framed, NULL);
    if (status != SHOAL_OK) wire_framed_give_up(&own->framed, status);
}

static void shut(wire_link *link) {
    relay_link *own = (relay_link *)link;
    if (link->name && !link->closed && link->why != SHOAL_LOST)
        reset(link->peer, own->number, own->id, own->framed.accepting);
    wire_watch_remove(link->peer, &own->timer);
    wire_seal_fini(&own->seal);
    wire_framed_fini(&own->framed);
}

static shoal_status refuse_listen(wire_peer *peer, const char *address) {
    return base_fail(SHOAL_INVALID, "nobody listens at '%s': it is the hub that passes on",
                     address);
}

static void no_listener(wire_peer *peer, void *listener) {}

/* ---- what the hub passes on ---- */

/* Tells who begins a link that cannot be why not, in clear: there is no key for it. */
static void turn_away(relay_link *own, shoal_status why) {
    uint8_t bytes[sizeof(wire_frame) + WIRE_MAX_REASON];
    size_t n = strnlen(shoal_error_message(), WIRE_MAX_REASON);
    wire_frame frame = {.type = WIRE_FRAME_CLOSE, .kind = (uint16_t)why, .bytes = (uint32_t)n};
    memcpy(bytes, &frame, sizeof frame);
    memcpy(bytes + sizeof frame, shoal_error_message(), n);
    if (send_frame(own, bytes, sizeof frame + n) != SHOAL_OK)
        base_log(BASE_DEBUG, own->framed.address, "%s", shoal_error_message());
    wire_framed_give_up(&own->framed, why);
}

static void newcomer(wire_peer *peer, const Shoal__Relay *relay, uint8_t *hello, size_t n) {
    char address[32];
    snprintf(address, sizeof address, "relay:%u", relay->peer);
    relay_link *own = new_link(peer, address, 0, 0);
    if (!own) return;
    shoal_status status = begin_seal(own, relay->peer, relay->link, true);
    if (status == SHOAL_OK)
        status = wire_seal_open_hello(&own->seal, &peer->pair, hello, n, hello + WIRE_KEY);
    if (status == SHOAL_OK)
        wire_framed_guest(&own->framed, hello + WIRE_KEY, n - WIRE_SEAL_HELLO);
    else
        turn_away(own, status);
}

static void answered(relay_link *own, wire_frame *frame, uint8_t *payload) {
    if (frame->type == WIRE_FRAME_CLOSE) {
        bool known = frame->kind != SHOAL_OK && frame->kind < SHOAL_STATUS_COUNT;
        shoal_status why = known ? (shoal_status)frame->kind : SHOAL_DENIED;
        int n = frame->bytes < WIRE_MAX_REASON ? (int)frame->bytes : WIRE_MAX_REASON;
        wire_framed_give_up(&own->framed, base_fail(why, "%s refuses: %.*s", own->framed.address, n,
                                                    (const char *)payload));
        return;
    }
    shoal_status status = wire_seal_open_hello(&own->seal, &own->framed.base.peer->pair, payload,
                                               frame->bytes, payload + WIRE_KEY);
    if (status != SHOAL_OK) {
        wire_framed_give_up(&own->framed, base_fail_prefix(status, "%s: ", own->framed.address));
        return;
    }
    frame->bytes -= WIRE_SEAL_HELLO;
    wire_framed_answer(&own->framed, frame, payload + WIRE_KEY);
}

static void take_sealed(relay_link *own, uint8_t *bytes, size_t n) {
    wire_frame frame;
    shoal_status status = wire_seal_open(&own->seal, bytes, n, bytes);
    n -= WIRE_SEAL_TAG;
    if (status == SHOAL_OK) {
        if (n >= sizeof frame) memcpy(&frame, bytes, sizeof frame);
        if (n < sizeof frame || frame.bytes > WIRE_CHUNK || n - sizeof frame < frame.bytes)
            status = base_fail(SHOAL_FORMAT, "what came is no frame");
    }
    if (status == SHOAL_OK)
        wire_framed_take(&own->framed, &frame, bytes + sizeof frame);
    else
        wire_close(&own->framed.base, status, shoal_error_message());
}

void wire_relayed(wire_peer *peer, const Shoal__Relay *relay) {
    relay_link *own = find(peer, relay->peer, !relay->back);
    relay_link *old = own && own->id != relay->link ? own : NULL;
    if (old) own = NULL;
    if (relay->error) {
        if (own) end_link(own, SHOAL_NOT_FOUND, relay->error->message);
        return;
    }
    if (relay->reset) {
        if (own) end_link(own, SHOAL_LOST, "the other side has no such link any more");
        return;
    }
    if (own && own->framed.base.state == WIRE_OPEN) {
        take_sealed(own, relay->frame.data, relay->frame.len);
        return;
    }
    wire_frame frame = {0};
    uint8_t *payload = relay->frame.data + sizeof frame;
    bool clear = relay->frame.len >= sizeof frame;
    if (clear) memcpy(&frame, relay->frame.data, sizeof frame);
    clear = clear && frame.bytes == relay->frame.len - sizeof frame;
    if (!clear && !own) {
        reset(peer, relay->peer, relay->link, !relay->back);
    } else if (!clear) {
        return;
    } else if (own) {
        answered(own, &frame, payload);
    } else if (frame.type == WIRE_FRAME_HELLO && !relay->back) {
        /* Who begins anew has forgotten what was before. */
        if (old) end_link(old, SHOAL_LOST, "the other side has begun anew");
        newcomer(peer, relay, payload, frame.bytes);
    }
}

void wire_relay_forget(wire_peer *peer, uint32_t number) {
    for (int accepting = 0; accepting < 2; accepting++) {
        relay_link *own = find(peer, number, accepting);
        if (own) wire_close(&own->framed.base, SHOAL_CLOSED, "it has left the pool");
    }
}

void wire_relay_by(wire_link *hub) { hub->peer->hub = hub; }

void wire_relay_end(wire_peer *peer) {
    peer->hub = NULL;
    for (size_t i = 0; i < peer->links.count; i++)
        if (peer->links.data[i]->transport == &wire_relay)
            end_link((relay_link *)peer->links.data[i], SHOAL_LOST,
                     "the hub, which passed on, is gone");
}

const wire_transport wire_relay = {
    .scheme = "relay",
    .listen = refuse_listen,
    .connect = connect_relay,
    .send = wire_framed_send,
    .send_data = wire_framed_send_data,
    .progress = progress,
    .pending = wire_framed_pending,
    .sleep = wire_framed_sleep,
    .shut = shut,
    .unlisten = no_listener,
};
