/* A hub with three members that say what they like: one that is a client and has two devices, a
 * client, and a worker. The input is a row of messages, each a byte (kind, and above that who says
 * it), two bytes of length and the body. */
#include "fuzz.h"
#include "hub/state.h"
#include "tally.h"

enum { MEMBERS = 3 };
static const char *const roles[] = {"client with devices", "client", "worker"};

size_t fuzz_limit(size_t size) { return 8 << 20; }

static wire_link *hub_ends[MEMBERS];
static uint32_t n_ends;

static shoal_status opened(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting) {
    if (accepting) hub_ends[n_ends++] = link;
    return SHOAL_OK;
}

static shoal_status message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                            size_t bytes) {
    fuzz_accepted += kind > SHOAL__KIND__PEERS; /* an answer, not the news of joining */
    return SHOAL_OK;
}

static void closed(void *context, wire_link *link, shoal_status why, const char *text) {
    for (int i = 0; i < MEMBERS; i++)
        if (link == hub_ends[i]) hub_ends[i] = NULL;
}

static void join(wire_peer *peer, Shoal__Role role, size_t n_devices) {
    uint32_t before = n_ends;
    peer->hello->role = role;
    peer->hello->n_devices = n_devices;
    FUZZ_CHECK(wire_connect(peer, "inproc", 1, 1000) == SHOAL_OK);
    for (int i = 0; i < 8; i++) wire_pump_once(peer, &peer->sets[0], 0);
    FUZZ_CHECK(n_ends == before + 1);
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
    hub_keep_artifacts(*h, (const uint8_t[WIRE_KEY]){1});
    wire_handlers handlers = {.opened = opened, .message = message, .closed = closed};
    wire_handle(*peer, WIRE_WORKER, &handlers);
    n_ends = 0;
    join(*peer, SHOAL__ROLE__CLIENT, 2);
    join(*peer, SHOAL__ROLE__CLIENT, 0);
    join(*peer, SHOAL__ROLE__WORKER, 1);
    (*peer)->hello->n_devices = 2; /* it is freed with all */
    hub_measure(*h, ~0u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wire_peer *peer;
    hub *h;
    setup(&peer, &h);
    while (size >= 3) {
        size_t n = data[1] | (size_t)data[2] << 8;
        if (n > size - 3) n = size - 3;
        Shoal__Kind kind = (Shoal__Kind)(data[0] % SHOAL__KIND__HUB_END);
        uint32_t who = data[0] / SHOAL__KIND__HUB_END % MEMBERS;
        wire_link *end = hub_ends[who];
        if (end && !end->closing) {
            bool there[MEMBERS];
            for (int i = 0; i < MEMBERS; i++) there[i] = hub_ends[i] && !hub_ends[i]->closing;
            const hub_peer *member = wire_link_get(end, WIRE_HUB);
            uint64_t strange = member ? member->strange : 0;
            wire_link_deliver_message(end, kind, data + 3, n);
            member = hub_ends[who] ? wire_link_get(end, WIRE_HUB) : NULL;
            tally(roles[who], kind,
                  !member || end->closing      ? TALLY_REFUSED
                  : member->strange != strange ? TALLY_DROPPED
                                               : TALLY_TAKEN);
            wire_pump_once(peer, &peer->sets[0], 0);
            /* What one says ends no other. */
            for (uint32_t i = 0; i < MEMBERS; i++)
                FUZZ_CHECK(i == who || !there[i] || (hub_ends[i] && !hub_ends[i]->closing));
        }
        data += 3 + n;
        size -= 3 + n;
    }
    wire_peer_destroy(&peer);
    hub_destroy(&h);
    return 0;
}
