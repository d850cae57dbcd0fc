/* Frames on a link: the input is a row of frames, each with its header and as many bytes as it has.
 */
#include "fuzz.h"
#include "wire/transport.h"

#include <string.h>

size_t fuzz_limit(size_t size) { return 4 * size + (64 << 10); }

static shoal_status opened(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting) {
    return SHOAL_OK;
}

static shoal_status message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                            size_t bytes) {
    FUZZ_CHECK(kind != SHOAL__KIND__NONE && bytes <= WIRE_MAX_MESSAGE);
    fuzz_accepted++;
    return SHOAL_OK;
}

static shoal_status data(void *context, wire_link *link, const wire_transfer *transfer,
                         uint64_t offset, const void *bytes, size_t n) {
    FUZZ_CHECK(offset + n <= transfer->bytes && n <= WIRE_CHUNK);
    fuzz_accepted++;
    return SHOAL_OK;
}

static bool nothing(wire_link *link) { return false; }
static void forget(wire_link *link) {}
static void stay(wire_link *link, bool sleeps) {}
static const wire_transport none = {
    .scheme = "none", .progress = nothing, .pending = nothing, .sleep = stay, .shut = forget};

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
    wire_link *link = calloc(1, sizeof *link);
    FUZZ_CHECK(link && wire_link_add(link, peer, &none, 0) == SHOAL_OK);
    FUZZ_CHECK(wire_link_call(link, "none", peer->hello, 1) == SHOAL_OK);
    Shoal__Welcome welcome = SHOAL__WELCOME__INIT;
    FUZZ_CHECK(wire_link_open(link, peer->hello, &welcome, true) == SHOAL_OK);
    wire_frame frame;
    while (size >= sizeof frame && link->state == WIRE_OPEN) {
        memcpy(&frame, bytes, sizeof frame);
        bytes += sizeof frame;
        size -= sizeof frame;
        if (frame.bytes > size) frame.bytes = (uint32_t)size; /* the transports check that */
        if (frame.bytes > WIRE_CHUNK) frame.bytes = WIRE_CHUNK;
        wire_link_deliver(link, &frame, bytes);
        bytes += frame.bytes;
        size -= frame.bytes;
    }
    wire_link_finish(link, SHOAL_CLOSED, "");
    peer->links.count = 0;
    wire_link_free(link);
    return 0;
}
