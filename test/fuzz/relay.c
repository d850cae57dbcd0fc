/* What a hub passes on from other members: a row of frames, each a byte (whom it is from, by which
 * side of the link, whether it is sealed as member 1 would), two bytes of length, and the frame. */
#include "base/clock.h"
#include "fuzz.h"
#include "wire/framed.h"
#include "wire/seal.h"

#include <string.h>

size_t fuzz_limit(size_t size) { return 64 * size + (1 << 20); }

static shoal_status opened(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting) {
    return SHOAL_OK;
}

static shoal_status message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                            size_t bytes) {
    fuzz_accepted++;
    return SHOAL_OK;
}

static shoal_status data(void *context, wire_link *link, const wire_transfer *transfer,
                         uint64_t offset, const void *bytes, size_t n) {
    FUZZ_CHECK(offset + n <= transfer->bytes && n <= WIRE_CHUNK);
    fuzz_accepted++;
    return SHOAL_OK;
}

/* That the other member does not want the link is taken, too. */
static void turned_away(void *context, uint64_t cookie, shoal_status why, const char *text) {
    fuzz_accepted += strstr(text, " refuses: ") != NULL;
}

enum { SELF = 2, OTHER = 1, POOL = 5, RESET = 16, LATE = 32, BACK = 64, SEALED = 128, ERROR = 255 };

static wire_peer *peer;
static wire_key_pair other;
/* The other member's ends: of the link that it makes, and of the one that it takes. */
static wire_seal guest, host;

/* As in relay.c. */
static void begin_seal(wire_seal *seal, bool accepting, uint32_t id) {
    struct {
        uint64_t pool;
        uint32_t connecting, accepting, id;
    } b;
    memset(&b, 0, sizeof b);
    b.pool = POOL;
    b.connecting = accepting ? SELF : OTHER;
    b.accepting = accepting ? OTHER : SELF;
    b.id = id;
    FUZZ_CHECK(wire_seal_begin(seal, accepting, &other, peer->pair.public, &b, sizeof b) ==
               SHOAL_OK);
}

/* A hub that takes everything and says nothing; the other member reads the handshake. */
static shoal_status swallow(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *packed,
                            size_t bytes, wire_account *account) {
    FUZZ_CHECK(kind == SHOAL__KIND__RELAY && bytes <= WIRE_CHUNK + 256);
    const Shoal__Relay *relay = (const Shoal__Relay *)packed;
    wire_frame frame;
    uint8_t out[4096];
    if (relay->frame.len < sizeof frame || relay->frame.len > sizeof out) return SHOAL_OK;
    memcpy(&frame, relay->frame.data, sizeof frame);
    const uint8_t *payload = relay->frame.data + sizeof frame;
    if (frame.bytes != relay->frame.len - sizeof frame) return SHOAL_OK;
    if (frame.type == WIRE_FRAME_HELLO && !relay->back) {
        begin_seal(&host, true, relay->link);
        FUZZ_CHECK(wire_seal_open_hello(&host, &other, payload, frame.bytes, out) == SHOAL_OK);
    } else if (frame.type == WIRE_FRAME_WELCOME && relay->back) {
        FUZZ_CHECK(wire_seal_open_hello(&guest, &other, payload, frame.bytes, out) == SHOAL_OK);
    }
    return SHOAL_OK;
}
static bool nothing(wire_link *link) { return false; }
static void forget(wire_link *link) {}
static void stay(wire_link *link, bool sleeps) {}
static const wire_transport silent = {.scheme = "silent",
                                      .send = swallow,
                                      .progress = nothing,
                                      .pending = nothing,
                                      .sleep = stay,
                                      .shut = forget};

static void setup(void) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)"fuzzed";
    setenv("SHOAL_LOG", "error", 1);
    FUZZ_CHECK(wire_peer_new(&hello, &peer) == SHOAL_OK);
    wire_handlers handlers = {
        .opened = opened, .message = message, .data = data, .connect_failed = turned_away};
    wire_handle(peer, WIRE_HUB, &handlers);
    wire_handle(peer, WIRE_WORKER, &handlers);
    wire_member members[] = {{.number = SELF}, {.number = OTHER}};
    /* The key that the seeds say in their Hello is not looked at: the hub tells keys. */
    FUZZ_CHECK(wire_key_pair_new(&other) == SHOAL_OK);
    memcpy(members[0].key, peer->pair.public, WIRE_KEY);
    memcpy(members[1].key, other.public, WIRE_KEY);
    wire_set_number(peer, SELF, POOL);
    wire_know(peer, members, 2, false);
}

/* The bytes of a frame as member 1 would seal them; how many. */
static size_t seal(bool back, uint32_t id, const uint8_t *bytes, size_t n, uint8_t *out) {
    wire_seal *own = back ? &host : &guest;
    wire_frame frame;
    if (n >= sizeof frame) memcpy(&frame, bytes, sizeof frame);
    if (n < sizeof frame || frame.type != (back ? WIRE_FRAME_WELCOME : WIRE_FRAME_HELLO)) {
        wire_seal_put(own, bytes, n, out);
        return n + WIRE_SEAL_TAG;
    }
    frame.bytes = (uint32_t)(n - sizeof frame);
    if (!back) begin_seal(own, false, id);
    if (wire_seal_hello(own, &other, bytes + sizeof frame, frame.bytes, out + sizeof frame) !=
        SHOAL_OK)
        return 0;
    frame.bytes += WIRE_SEAL_HELLO;
    memcpy(out, &frame, sizeof frame);
    return sizeof frame + frame.bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static uint8_t frame[(1 << 16) + 256];
    if (!peer) setup();
    wire_link *hub = calloc(1, sizeof *hub);
    FUZZ_CHECK(hub && wire_link_add(hub, peer, &silent, 0) == SHOAL_OK);
    hub->state = WIRE_OPEN;
    wire_relay_by(hub);
    memset(&guest, 0, sizeof guest);
    /* One link that is being made, to member 1. */
    FUZZ_CHECK(wire_connect(peer, "relay:1", 1, 1000) == SHOAL_OK);
    wire_pump_once(peer, &peer->sets[0], 0);
    while (size >= 3) {
        size_t n = bytes[1] | (size_t)bytes[2] << 8;
        if (n > size - 3) n = size - 3;
        Shoal__Relay relay = SHOAL__RELAY__INIT;
        Shoal__Error error = SHOAL__ERROR__INIT;
        relay.peer = bytes[0] % 4;
        relay.back = bytes[0] & BACK;
        relay.link = relay.back ? peer->relays : bytes[0] & LATE;
        relay.reset = bytes[0] & RESET;
        if (bytes[0] == ERROR) relay.error = &error;
        memcpy(frame, bytes + 3, n);
        relay.frame = (ProtobufCBinaryData){n, frame};
        if (bytes[0] & SEALED) relay.frame.len = seal(relay.back, relay.link, bytes + 3, n, frame);
        wire_relayed(peer, &relay);
        wire_pump_once(peer, &peer->sets[0], 0);
        bytes += 3 + n;
        size -= 3 + n;
    }
    wire_link_finish(hub, SHOAL_CLOSED, "");
    /* Who was told to come again a moment later does. */
    while (peer->links.count || peer->attempts.count)
        wire_pump_once(peer, &peer->sets[0], base_now() + BASE_MS);
    return 0;
}
