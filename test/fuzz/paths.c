/* A link of several paths, whose other side says what it likes on each. The input is a row of
 * steps, each a byte: which connection, and above that what happens; a frame is its header and as
 * many bytes as the header says, at most 4 KiB. The first two connections have shaken hands; the
 * handshake of the third is the input's. */
#include "wire/paths.h"

#include "fuzz.h"

#include <string.h>

enum { CONNECTIONS = 3, SENT = 6, MOST = 4096 };
enum { FRAME, END, SEND, DROP, TURN };

/* Out of each connection go some chunks, that are kept. */
size_t fuzz_limit(size_t size) { return 64 * size + (48 << 20); }

static wire_peer *peer;
static wire_link *lead;
static wire_framed *connections[CONNECTIONS];
static uint8_t draft[WIRE_FIRST_CREDIT];
static size_t answers, done, sent;

/* ---- a transport that swallows everything ---- */

static shoal_status put(wire_framed *own, const wire_frame *frame, const void *payload) {
    answers++;
    return SHOAL_OK;
}

static void *reserve(wire_link *link, size_t bytes) {
    FUZZ_CHECK(bytes <= sizeof draft);
    return wire_framed_room((wire_framed *)link, bytes) ? draft : NULL;
}

static void commit(wire_link *link, size_t bytes) { wire_framed_went((wire_framed *)link, bytes); }

static void *shorten(wire_link *link, size_t bytes) {
    FUZZ_CHECK(bytes <= sizeof draft);
    return draft;
}

static bool progress(wire_link *link) {
    static const wire_writer writer = {reserve, commit, shorten};
    if (wire_paths_kept(link)) return wire_paths_flush((wire_framed *)link, &writer);
    return link->waiting && wire_outbox_flush(link, &writer);
}

static void shut(wire_link *link) {
    wire_framed_fini((wire_framed *)link);
    for (int i = 0; i < CONNECTIONS; i++)
        if (connections[i] && &connections[i]->base == link) connections[i] = NULL;
}

static const wire_transport transport = {.scheme = "silent",
                                         .send = wire_framed_send,
                                         .send_data = wire_framed_send_data,
                                         .progress = progress,
                                         .pending = wire_framed_pending,
                                         .sleep = wire_framed_sleep,
                                         .shut = shut};

static uint64_t window(const wire_framed *own) { return 3 << 20; }
static void begin(wire_framed *own) {}
static wire_framed *join(wire_framed *first, const char *address, uint32_t number) { return NULL; }
static bool reached(const wire_framed *own, char *out, size_t room) { return false; }
static double speed(wire_framed *own) { return 1e6; }
static const wire_carrier carrier = {window, put, begin, join, speed, reached};

/* ---- the peer ---- */

static shoal_status opened(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting) {
    if (!lead) lead = link;
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

static void closed(void *context, wire_link *link, shoal_status why, const char *text) {
    if (link == lead) lead = NULL;
}

static void unlisten(wire_peer *self, void *listener) {}
static const wire_transport listens = {.scheme = "silent", .unlisten = unlisten};

static void connect_one(int index) {
    wire_framed *own = calloc(1, sizeof *own);
    FUZZ_CHECK(own &&
               wire_framed_add(own, peer, &transport, &carrier, "tcp://10.0.0.1:1", 0) == SHOAL_OK);
    own->accepting = true;
    connections[index] = own;
}

static void shake_hands(int index) {
    uint8_t packed[256], key[WIRE_KEY] = {1};
    static uint32_t order = 0x01020304;
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.protocol = WIRE_PROTOCOL;
    hello.features = WIRE_FEATURES;
    hello.order = (ProtobufCBinaryData){sizeof order, (uint8_t *)&order};
    hello.key = (ProtobufCBinaryData){sizeof key, key};
    hello.incarnation = 7;
    hello.joins = index ? lead->paths->id : 0;
    hello.path = (uint32_t)index;
    connect_one(index);
    size_t n = shoal__hello__pack(&hello, packed);
    wire_framed_guest(connections[index], packed, n);
    wire_frame credit = {.type = WIRE_FRAME_CREDIT, .total = 4 << 20};
    wire_framed_take(connections[index], &credit, NULL);
}

static void setup(void) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    wire_handlers handlers = {.opened = opened, .message = message, .data = data, .closed = closed};
    hello.name = (char *)"fuzzed";
    hello.incarnation = 1;
    setenv("SHOAL_LOG", "error", 1);
    FUZZ_CHECK(wire_peer_new(&hello, &peer) == SHOAL_OK);
    wire_handle(peer, WIRE_WORKER, &handlers);
    for (int i = 0; i < 2; i++) {
        wire_listener listener = {&listens, NULL, strdup("tcp://10.0.0.1:1")};
        FUZZ_CHECK(listener.address && base_vec_push(&peer->listeners, listener));
    }
    lead = NULL;
    answers = done = sent = 0;
    shake_hands(0);
    FUZZ_CHECK(lead && lead->paths);
    lead->paths->id = 99; /* what the input has to know to join */
    shake_hands(1);
    FUZZ_CHECK(wire_link_paths(lead).open == 2);
    connect_one(2);
}

/* ---- what happens ---- */

static void read_zeros(void *context, uint64_t offset, void *to, size_t n) { memset(to, 0, n); }
static void count_done(void *context) { done++; }

static void send_some(void) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    wire_transfer transfer = {5, 1, (uint32_t)sent, 3 << 19};
    wire_source source = {NULL, read_zeros, count_done};
    if (!lead || sent == SENT) return;
    sent++;
    (void)!wire_send(lead, SHOAL__KIND__STATUS, &ask.base);
    (void)!wire_send_data(lead, &transfer, &source);
}

static void take_frame(wire_framed *own, const uint8_t **data, size_t *size) {
    wire_frame frame;
    if (*size < sizeof frame) {
        *size = 0;
        return;
    }
    memcpy(&frame, *data, sizeof frame);
    *data += sizeof frame;
    *size -= sizeof frame;
    frame.bytes %= MOST + 1;
    if (frame.bytes > *size) frame.bytes = (uint32_t)*size;
    const uint8_t *payload = *data;
    *data += frame.bytes;
    *size -= frame.bytes;
    if (!own || own->base.state == WIRE_GONE || own->base.down) return;
    if (own->base.state == WIRE_OPEN)
        wire_framed_take(own, &frame, payload);
    else
        wire_framed_guest(own, payload, frame.bytes);
}

static void check(void) {
    if (lead) FUZZ_CHECK(wire_link_count(lead).saved_out <= sent * (3 << 19) * CONNECTIONS);
    if (!lead || !lead->paths) return;
    const wire_paths *p = lead->paths;
    FUZZ_CHECK(p->n_open <= WIRE_MAX_PATHS && p->n_lost <= WIRE_MAX_LOST);
    for (uint32_t i = 0; i < p->n_open; i++) FUZZ_CHECK(p->open[i]->path.acked <= p->open[i]->sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    setup();
    while (size) {
        uint8_t how = *data++;
        size--;
        wire_framed *own = connections[how % 4 % CONNECTIONS];
        size_t before = answers;
        switch (how >> 2 & 7) {
        case END:
            if (own && own->base.state == WIRE_OPENING)
                wire_framed_give_up(own, base_fail(SHOAL_LOST, "ended"));
            else if (own)
                wire_link_finish(&own->base, SHOAL_LOST, "ended");
            break;
        case SEND: send_some(); break;
        case DROP:
            if (lead) wire_drop_data(lead, 5);
            break;
        case TURN: wire_pump_once(peer, &peer->sets[1], 0); break;
        default: take_frame(own, &data, &size);
        }
        FUZZ_CHECK(answers <=
                   before + CONNECTIONS + WIRE_MAX_LOST); /* little is answered at once */
        check();
    }
    /* What waits would be waited for. */
    if (lead) wire_link_end(lead, SHOAL_LOST, "through");
    wire_peer_destroy(&peer);
    FUZZ_CHECK(done == sent);
    return 0;
}
