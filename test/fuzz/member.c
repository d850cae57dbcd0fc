/* A worker, or a client, that two other members talk to, and whose hub says what it likes but for
 * programs, of which there is one. The input: a byte for the role, then a row of messages and
 * boxes, each a byte (kind, and above that who says it), two bytes of length and the body; of a box
 * the body begins with its numbers. */
#include "backend/registry.h"
#include "base/clock.h"
#include "fuzz.h"
#include "graph/graph.h"
#include "wire/transport.h"
#include "worker/state.h"

#include <string.h>

enum { SELF = 1, OWES = 3, OTHER = 4, OWN_SLOT = 5, INSTANCE = 2, POOL = 9, BOX = 16 };
enum { BY_HUB, BY_OWES, BY_OTHER, BOXES };

size_t fuzz_limit(size_t size) { return 64 * size + (24 << 20); }

static wire_link *hub_end; /* the hub's end of its link */
static wire_link *self_end;
static worker *w;

static shoal_status hub_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                               Shoal__Welcome *welcome, bool accepting) {
    if (hello->peer) return SHOAL_OK; /* a member's, see below */
    if (!accepting) {
        self_end = link;
        return SHOAL_OK;
    }
    hub_end = link;
    welcome->peer = SELF;
    welcome->session = 1;
    welcome->pool = POOL;
    welcome->name = strdup("fuzzed");
    welcome->n_slots = 1;
    welcome->slots = malloc(sizeof *welcome->slots);
    welcome->slots[0] = OWN_SLOT;
    return SHOAL_OK;
}

static shoal_status hub_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                                size_t bytes) {
    fuzz_accepted++;
    return SHOAL_OK;
}

static void hub_closed(void *context, wire_link *link, shoal_status why, const char *text) {
    if (link == hub_end) hub_end = NULL;
    if (link == self_end) self_end = NULL;
}

/* ---- links that take everything and say nothing ---- */

static bool nothing(wire_link *link) { return false; }
static void forget(wire_link *link) {}
static void stay(wire_link *link, bool sleeps) {}
static shoal_status swallow(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *packed,
                            size_t bytes) {
    return SHOAL_OK;
}
static shoal_status swallow_data(wire_link *link, const wire_transfer *transfer,
                                 const wire_source *source) {
    if (source->done) source->done(source->context);
    return SHOAL_OK;
}
static const wire_transport silent = {.scheme = "silent",
                                      .send = swallow,
                                      .send_data = swallow_data,
                                      .progress = nothing,
                                      .pending = nothing,
                                      .sleep = stay,
                                      .shut = forget};

static wire_link *member(uint32_t number) {
    wire_link *link = calloc(1, sizeof *link);
    FUZZ_CHECK(link && wire_link_add(link, worker_wire(w), &silent, 0) == SHOAL_OK);
    FUZZ_CHECK(wire_link_call(link, "silent", worker_wire(w)->hello, number) == SHOAL_OK);
    link->proof = (wire_proof){.keyed = true, .number = number};
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    Shoal__Welcome welcome = SHOAL__WELCOME__INIT;
    hello.peer = number;
    FUZZ_CHECK(wire_link_open(link, &hello, &welcome, true) == SHOAL_OK);
    return link;
}

/* ---- the pool ---- */

static void turn(void) {
    for (int i = 0; i < 4; i++) wire_pump_once(worker_wire(w), &worker_wire(w)->sets[0], 0);
}

static void tell(Shoal__Kind kind, const ProtobufCMessage *message) {
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(n + 1);
    FUZZ_CHECK(packed);
    protobuf_c_message_pack(message, packed);
    wire_link_deliver_message(self_end, kind, packed, n);
    free(packed);
}

static void tell_peers(void) {
    static const uint32_t numbers[] = {SELF, OWES, OTHER};
    Shoal__Peers peers = SHOAL__PEERS__INIT;
    Shoal__PeerInfo infos[3], *pointers[3];
    uint8_t keys[3][WIRE_KEY] = {{1}, {2}, {3}};
    uint32_t slots[3];
    for (uint32_t i = 0; i < 3; i++) {
        shoal__peer_info__init(&infos[i]);
        pointers[i] = &infos[i];
        slots[i] = OWN_SLOT + i;
        infos[i].peer = numbers[i];
        infos[i].user = i + 1;
        infos[i].name = (char *)"member";
        infos[i].n_slots = 1;
        infos[i].slots = &slots[i];
        infos[i].key = (ProtobufCBinaryData){WIRE_KEY, keys[i]};
    }
    peers.n_peers = 3;
    peers.peers = pointers;
    tell(SHOAL__KIND__PEERS, &peers.base);
}

/* A box of 4 x 4 floats that member OWES has to send. */
static void tell_run(void) {
    graph *g;
    uint32_t value;
    const int64_t moves[] = {SHOAL_MOVE_RECEIVE, 0, 0, OWN_SLOT + 1, 0, 0, 0, 0, 4, 4};
    const int64_t types[] = {SHOAL_F32, 2, 4, 4};
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_CHANNEL, 0),
                                graph_ints(SHOAL_ATTR_MOVES, moves, 10),
                                graph_ints(SHOAL_ATTR_TYPES, types, 4)};
    base_str bytes = {0};
    uint64_t output = 77;
    FUZZ_CHECK(graph_new(0, &g) == SHOAL_OK);
    FUZZ_CHECK(graph_add(g, GRAPH_EXCHANGE, NULL, 0, attrs, 3, NULL, 0, &value) == SHOAL_OK);
    FUZZ_CHECK(graph_add_output(g, value) == SHOAL_OK);
    FUZZ_CHECK(graph_encode(graph_data(g), false, &bytes) == SHOAL_OK);
    graph_destroy(&g);
    Shoal__Run run = SHOAL__RUN__INIT;
    Shoal__SlotRun part = SHOAL__SLOT_RUN__INIT, *parts[] = {&part};
    part.slot = OWN_SLOT;
    part.program = 1;
    part.graph = (ProtobufCBinaryData){bytes.size, (uint8_t *)bytes.data};
    part.outputs = &output;
    part.n_outputs = 1;
    run.instance = INSTANCE;
    run.pool = POOL;
    run.n_slots = 1;
    run.slots = parts;
    tell(SHOAL__KIND__RUN, &run.base);
    base_str_fini(&bytes);
}

static shoal_status client_message(void *context, Shoal__Kind kind, const void *body,
                                   size_t bytes) {
    return SHOAL_OK;
}

static void setup(bool client) {
    const shoal_backend *backend;
    worker_device device = {.threads = 1};
    worker_client callbacks = {.message = client_message};
    setenv("SHOAL_LOG", "error", 1);
    FUZZ_CHECK(backend_find("null", &backend) == SHOAL_OK);
    device.backend = backend;
    worker_options options = {.name = "fuzzed",
                              .role = client ? SHOAL__ROLE__CLIENT : SHOAL__ROLE__WORKER,
                              .devices = &device,
                              .n_devices = !client};
    FUZZ_CHECK(worker_new(&options, &w) == SHOAL_OK);
    worker_set_client(w, &callbacks);
    wire_handlers handlers = {.opened = hub_opened, .message = hub_message, .closed = hub_closed};
    wire_handle(worker_wire(w), WIRE_HUB, &handlers);
    FUZZ_CHECK(worker_join(w, "inproc", 1000) == SHOAL_OK);
    tell_peers();
    turn();
}

/* ---- what is said ---- */

static void take_box(wire_link *link, const uint8_t *data, size_t n) {
    if (n < 8) return;
    wire_frame frame = {.type = WIRE_FRAME_DATA,
                        .kind = wire_pool_tag(worker_wire(w)),
                        .bytes = (uint32_t)(n - 8),
                        .offset = data[3],
                        .total = (uint64_t)data[4] | (uint64_t)data[5] << 8,
                        .instance = data[0] % 8,
                        .channel = data[1] % 4,
                        .ordinal = data[2] % 4};
    if (data[6] == 255) frame.kind++;
    if (data[7] == 255) frame.total = UINT64_MAX;
    wire_link_deliver(link, &frame, data + 8);
}

static void say(wire_link **members, const uint8_t *data, size_t n, uint8_t how) {
    uint32_t who = how >> 6;
    if (who == BOXES) {
        wire_link *link = members[how & 1];
        if (link->state == WIRE_OPEN) take_box(link, data, n);
        return;
    }
    Shoal__Kind kind = (Shoal__Kind)(how % (SHOAL__KIND__RELAYED - SHOAL__KIND__HUB_END + 4) +
                                     SHOAL__KIND__HUB_END - 1);
    /* Programs are the hub's to make, and measuring takes its time. */
    bool trusted = kind == SHOAL__KIND__RUN || kind == SHOAL__KIND__MEASURE;
    wire_link *link = who == BY_HUB ? self_end : members[who - 1];
    if (!link || link->state != WIRE_OPEN || (who == BY_HUB && trusted)) return;
    wire_link_deliver_message(link, kind, data, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    bool client = data[0] & 1, early = data[0] & 2;
    setup(client);
    wire_link *members[] = {member(OWES), member(OTHER)};
    if (!early) tell_run();
    for (data++, size--; size >= 3;) {
        size_t n = data[1] | (size_t)data[2] << 8;
        if (n > size - 3) n = size - 3;
        uint8_t how = data[0];
        bool by_hub = how >> 6 == BY_HUB, there = self_end && !self_end->closing;
        say(members, data + 3, n, how);
        turn();
        /* What a member says is no reason to leave the hub. */
        FUZZ_CHECK(by_hub || !there || (self_end && !self_end->closing));
        FUZZ_CHECK(w->staged_bytes <= WORKER_MAX_STAGED);
        data += 3 + n;
        size -= 3 + n;
    }
    for (int i = 0; i < 2; i++) wire_link_finish(members[i], SHOAL_CLOSED, "");
    worker_destroy(&w);
    return 0;
}
