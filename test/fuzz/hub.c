/* A hub with one member that says what it likes: the input is a row of messages, each a byte of
 * kind, two bytes of length and the body. */
#include "fuzz.h"
#include "hub/state.h"
#include "wire/transport.h"

size_t fuzz_limit(size_t size) { return 8 << 20; }

static wire_link *hub_end;

static shoal_status opened(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting) {
    if (accepting) hub_end = link;
    return SHOAL_OK;
}

static shoal_status message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                            size_t bytes) {
    fuzz_accepted += kind > SHOAL__KIND__PEERS; /* an answer, not the news of joining */
    return SHOAL_OK;
}

static void closed(void *context, wire_link *link, shoal_status why, const char *text) {
    if (link == hub_end) hub_end = NULL;
}

static void setup(wire_peer **peer, hub **h) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    Shoal__Device device = SHOAL__DEVICE__INIT;
    Shoal__Device *devices[] = {&device, &device};
    device.backend = (char *)"cpu";
    device.memory = 1 << 20;
    hello.role = SHOAL__ROLE__CLIENT;
    hello.name = (char *)"fuzzed";
    hello.incarnation = 1;
    hello.n_devices = 2;
    hello.devices = devices;
    setenv("SHOAL_LOG", "error", 1);
    FUZZ_CHECK(wire_peer_new(&hello, peer) == SHOAL_OK);
    FUZZ_CHECK(hub_new(*peer, h) == SHOAL_OK);
    wire_handlers handlers = {.opened = opened, .message = message, .closed = closed};
    wire_handle(*peer, WIRE_WORKER, &handlers);
    FUZZ_CHECK(wire_connect(*peer, "inproc", 1, 1000) == SHOAL_OK);
    for (int i = 0; i < 8; i++) wire_pump_once(*peer, &(*peer)->sets[0], 0);
    FUZZ_CHECK(hub_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wire_peer *peer;
    hub *h;
    hub_end = NULL;
    setup(&peer, &h);
    while (size >= 3 && hub_end && !hub_end->closing) {
        size_t n = data[1] | (size_t)data[2] << 8;
        if (n > size - 3) n = size - 3;
        Shoal__Kind kind = (Shoal__Kind)(data[0] % SHOAL__KIND__HUB_END);
        wire_link_deliver_message(hub_end, kind, data + 3, n);
        wire_pump_once(peer, &peer->sets[0], 0);
        data += 3 + n;
        size -= 3 + n;
    }
    wire_peer_destroy(&peer);
    hub_destroy(&h);
    return 0;
}
