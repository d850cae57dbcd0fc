/* Links by way of the hub, between members that cannot reach each other: a firewall is between
 * them, or one of them does not listen. Every member has a link with the hub, which passes frames
 * on and says who sent them. It is the last of a member's addresses: "relay:7" is member 7. */
#include "wire/framed.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 2 << 20 };

typedef struct relay_link {
    wire_framed framed;
    wire_watch timer; /* of the handshake */
    uint32_t number;  /* of the member at the other end */
    uint32_t id; /* of the link, given by who connects: what is late for an old one is dropped */
    uint8_t *draft;
} relay_link;

/* ---- sending ---- */

static shoal_status send_frame(relay_link *own, uint8_t *bytes, size_t n) {
    const wire_peer *peer = own->framed.base.peer;
    if (!peer->hub) return base_fail(SHOAL_CLOSED, "%s: the hub is gone", own->framed.address);
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.peer = own->number;
    relay.back = own->framed.accepting;
    relay.link = own->id;
    relay.frame = (ProtobufCBinaryData){n, bytes};
    return wire_send(peer->hub, SHOAL__KIND__RELAY, &relay.base);
}

static shoal_status put(wire_framed *framed, const wire_frame *frame, const void *payload) {
    size_t n = wire_frame_bytes(frame->bytes);
    uint8_t *bytes = calloc(1, n);
    if (!bytes) return base_fail(SHOAL_NO_MEMORY, "%s: no memory for a frame", framed->address);
    memcpy(bytes, frame, sizeof *frame);
    if (frame->bytes) memcpy(bytes + sizeof *frame, payload, frame->bytes);
    shoal_status status = send_frame((relay_link *)framed, bytes, n);
    free(bytes);
    return status;
}

static void *reserve(wire_link *link, size_t bytes) {
    relay_link *own = (relay_link *)link;
    if (!wire_framed_room(&own->framed, bytes)) return NULL;
    return own->draft = calloc(1, bytes);
}

/* A failure shows as the end of the link with the hub. */
static void commit(wire_link *link, size_t bytes) {
    relay_link *own = (relay_link *)link;
    wire_framed_went(&own->framed, bytes);
    if (send_frame(own, own->draft, bytes) != SHOAL_OK && link->peer->hub)
        wire_close(link->peer->hub, SHOAL_LOST, shoal_error_message());
    free(own->draft);
    own->draft = NULL;
}

static const wire_writer writer = {reserve, commit};

static bool progress(wire_link *link) { return link->waiting && wire_outbox_flush(link, &writer); }

/* ---- making and ending ---- */

static void begin(wire_framed *framed) { ((relay_link *)framed)->timer.deadline = 0; }

static const wire_carrier carrier = {WINDOW, put, begin};

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

static relay_link *new_link(wire_peer *peer, const char *address, uint64_t cookie,
                            int64_t deadline) {
    relay_link *own = calloc(1, sizeof *own);
    if (!own ||
        wire_framed_add(&own->framed, peer, &wire_relay, &carrier, address, cookie) != SHOAL_OK) {
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

static void connect_relay(wire_peer *peer, const char *address, uint64_t cookie, int64_t deadline) {
    char *end = NULL;
    const char *colon = strchr(address, ':');
    unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!end || end == colon + 1 || *end || number > UINT32_MAX) {
        wire_peer_connect_failed(
            peer, cookie, base_fail(SHOAL_INVALID, "the address '%s' is no member's", address));
        return;
    }
    relay_link *own = find(peer, (uint32_t)number, false);
    if (own) end_link(own, SHOAL_LOST, "a new link replaces it");
    own = new_link(peer, address, cookie, deadline);
    if (!own) {
        wire_peer_connect_failed(peer, cookie, SHOAL_NO_MEMORY);
        return;
    }
    own->number = (uint32_t)number;
    own->id = ++peer->relays;
    shoal_status status = wire_framed_hello(&own->framed, NULL);
    if (status != SHOAL_OK) wire_framed_give_up(&own->framed, status);
}

static void shut(wire_link *link) {
    relay_link *own = (relay_link *)link;
    wire_watch_remove(link->peer, &own->timer);
    wire_framed_fini(&own->framed);
}

static shoal_status refuse_listen(wire_peer *peer, const char *address) {
    return base_fail(SHOAL_INVALID, "nobody listens at '%s': it is the hub that passes on",
                     address);
}

static void no_listener(wire_peer *peer, void *listener) {}

/* ---- what the hub passes on ---- */

static void newcomer(wire_peer *peer, const Shoal__Relay *relay, const uint8_t *hello, size_t n) {
    char address[32];
    snprintf(address, sizeof address, "relay:%u", relay->peer);
    relay_link *own = new_link(peer, address, 0, 0);
    if (!own) return;
    own->number = relay->peer;
    own->id = relay->link;
    own->framed.accepting = true;
    wire_framed_guest(&own->framed, hello, n);
}

void wire_relayed(wire_peer *peer, const Shoal__Relay *relay) {
    relay_link *own = find(peer, relay->peer, !relay->back);
    relay_link *old = own && own->id != relay->link ? own : NULL;
    if (old) own = NULL;
    if (relay->error) {
        if (own) end_link(own, SHOAL_NOT_FOUND, relay->error->message);
        return;
    }
    wire_frame frame = {0};
    const uint8_t *payload = NULL;
    if (relay->frame.len >= sizeof frame) {
        memcpy(&frame, relay->frame.data, sizeof frame);
        payload = relay->frame.data + sizeof frame;
    }
    if (!payload || frame.bytes > WIRE_CHUNK || wire_frame_bytes(frame.bytes) != relay->frame.len) {
        if (own) wire_close(&own->framed.base, SHOAL_FORMAT, "what came is no frame");
    } else if (own && own->framed.base.state == WIRE_OPENING) {
        wire_framed_answer(&own->framed, &frame, payload);
    } else if (own) {
        wire_framed_take(&own->framed, &frame, payload);
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
