/* What a hub passes on from other members: a row of them, each a byte (whom it is from, by which
 * side of the link, whether it came back), two bytes of length, and the frame. */
#include "fuzz.h"
#include "wire/transport.h"

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

/* A hub that takes everything and says nothing. */
static shoal_status swallow(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                            size_t bytes) {
    FUZZ_CHECK(kind == SHOAL__KIND__RELAY && bytes <= WIRE_CHUNK + 256);
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

static wire_peer *peer;

static void setup(void) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)"fuzzed";
    setenv("SHOAL_LOG", "error", 1);
    FUZZ_CHECK(wire_peer_new(&hello, &peer) == SHOAL_OK);
    wire_handlers handlers = {.opened = opened, .message = message, .data = data};
    wire_handle(peer, WIRE_HUB, &handlers);
    wire_handle(peer, WIRE_WORKER, &handlers);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (!peer) setup();
    wire_link *hub = calloc(1, sizeof *hub);
    FUZZ_CHECK(hub && wire_link_add(hub, peer, &silent, 0) == SHOAL_OK);
    hub->state = WIRE_OPEN;
    wire_relay_by(hub);
    /* One link that is being made, to member 1. */
    FUZZ_CHECK(wire_connect(peer, "relay:1", 1, 1000) == SHOAL_OK);
    wire_pump_once(peer, &peer->sets[0], 0);
    while (size >= 3) {
        size_t n = bytes[1] | (size_t)bytes[2] << 8;
        if (n > size - 3) n = size - 3;
        Shoal__Relay relay = SHOAL__RELAY__INIT;
        Shoal__Error error = SHOAL__ERROR__INIT;
        relay.peer = bytes[0] % 3;
        relay.back = bytes[0] & 64;
        relay.link = relay.back ? peer->relays : bytes[0] & 32;
        if (bytes[0] >= 250) relay.error = &error;
        relay.frame = (ProtobufCBinaryData){n, (uint8_t *)bytes + 3};
        wire_relayed(peer, &relay);
        wire_pump_once(peer, &peer->sets[0], 0);
        bytes += 3 + n;
        size -= 3 + n;
    }
    wire_link_finish(hub, SHOAL_CLOSED, "");
    while (peer->links.count) wire_pump_once(peer, &peer->sets[0], 0);
    return 0;
}
