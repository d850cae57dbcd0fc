#include "others.h"

#include "fuzz.h"
#include "tally.h"
#include "wire/transport.h"

#include <string.h>

static wire_link *hub_end; /* the hub's end of its link */
static wire_link *self_end;
static wire_link *members[2];
static worker *w;
static void (*asked)(Shoal__Kind kind, const void *body, size_t n);
static pthread_mutex_t hearing = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static void (*hear)(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message);
static wire_list unread;

/* ---- the hub ---- */

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
    welcome->artifacts = (ProtobufCBinaryData){WIRE_KEY, calloc(1, WIRE_KEY)};
    return SHOAL_OK;
}

static shoal_status hub_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                                size_t bytes) {
    if (asked) asked(kind, body, bytes);
    return SHOAL_OK;
}

static void hub_closed(void *context, wire_link *link, shoal_status why, const char *text) {
    if (link == hub_end) hub_end = NULL;
    if (link == self_end) self_end = NULL;
}

void others_tell(Shoal__Kind kind, const ProtobufCMessage *message) {
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(n + 1);
    FUZZ_CHECK(packed);
    protobuf_c_message_pack(message, packed);
    if (self_end) wire_link_deliver_message(self_end, kind, packed, n);
    free(packed);
}

void others_asked(void (*by)(Shoal__Kind kind, const void *body, size_t n)) { asked = by; }

void others_hold(void) { wire_pump_take(worker_wire(w)); }

void others_release(void) {
    wire_pump_leave(worker_wire(w));
    worker_wake_pump(w);
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
    others_tell(SHOAL__KIND__PEERS, &peers.base);
}

/* Moves of boxes of the whole: kind, ordinal, output, slot, where from, where to, size. */
static void program(bool sends, base_str *out) {
    static const int64_t moves[] = {SHOAL_MOVE_RECEIVE, 0, 0, OWN_SLOT + 1, 0, 0, 0, 0, SIDE, SIDE,
                                    SHOAL_MOVE_SEND,    1, 0, OWN_SLOT + 1, 0, 0, 0, 0, SIDE, SIDE};
    static const int64_t types[] = {SHOAL_F32, 2, SIDE, SIDE};
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_CHANNEL, 0),
                                graph_ints(SHOAL_ATTR_MOVES, moves, sends ? 20 : 10),
                                graph_ints(SHOAL_ATTR_TYPES, types, 4)};
    const shoal_type type = {.dtype = SHOAL_F32, .rank = 2, .dims = {SIDE, SIDE}};
    graph *g;
    uint32_t input = 0, value;
    FUZZ_CHECK(graph_new(0, &g) == SHOAL_OK);
    if (sends) FUZZ_CHECK(graph_add_input(g, &type, &input) == SHOAL_OK);
    FUZZ_CHECK(graph_add(g, GRAPH_EXCHANGE, &input, sends, attrs, 3, NULL, 0, &value) == SHOAL_OK);
    FUZZ_CHECK(graph_add_output(g, value) == SHOAL_OK);
    FUZZ_CHECK(graph_encode(graph_data(g), false, out) == SHOAL_OK);
    graph_destroy(&g);
}

void others_run(uint64_t instance, uint64_t number, uint64_t input, uint64_t output) {
    others_loop(instance, number, input, output, 0);
}

void others_loop(uint64_t instance, uint64_t number, uint64_t input, uint64_t output,
                 uint64_t rounds) {
    base_str bytes = {0};
    uint32_t carry = 1;
    Shoal__Run run = SHOAL__RUN__INIT;
    Shoal__SlotRun part = SHOAL__SLOT_RUN__INIT, *parts[] = {&part};
    program(input != 0, &bytes);
    part.slot = OWN_SLOT;
    part.program = number;
    part.graph = (ProtobufCBinaryData){bytes.size, (uint8_t *)bytes.data};
    part.inputs = &input;
    part.n_inputs = input != 0;
    part.outputs = &output;
    part.n_outputs = 1;
    part.carry = &carry;
    part.n_carry = rounds && input ? 1 : 0;
    run.rounds = rounds;
    run.ahead = rounds ? AHEAD : 0;
    run.instance = instance;
    run.pool = POOL;
    run.n_slots = 1;
    run.slots = parts;
    others_tell(SHOAL__KIND__RUN, &run.base);
    base_str_fini(&bytes);
}

void others_begin(worker *of, void (*on_asked)(Shoal__Kind kind, const void *body, size_t n)) {
    w = of;
    asked = on_asked;
    wire_handlers handlers = {.opened = hub_opened, .message = hub_message, .closed = hub_closed};
    wire_handle(worker_wire(w), WIRE_HUB, &handlers);
    FUZZ_CHECK(worker_join(w, "inproc", 1000) == SHOAL_OK);
    others_hold();
    tell_peers();
    others_turn();
    others_release();
}

bool others_joined(void) { return self_end && !self_end->closing; }

void others_leave(void) {
    if (hub_end) wire_close(hub_end, SHOAL_CLOSED, "the hub has ended");
}

void others_turn(void) {
    for (int i = 0; i < 4; i++) wire_pump_once(worker_wire(w), &worker_wire(w)->sets[0], 0);
}

/* ---- members: links that take everything and say nothing by themselves ---- */

static bool nothing(wire_link *link) { return false; }
static void forget(wire_link *link) {}
static void stay(wire_link *link, bool sleeps) {}
/* While somebody listens, what counts on an account waits to be read. */
static shoal_status swallow(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *packed,
                            size_t bytes, wire_account *account) {
    pthread_mutex_lock(&hearing);
    if (hear) hear(link, kind, packed);
    wire_item *item =
        hear && account ? wire_item_message(link, kind, packed, bytes, account) : NULL;
    if (item) wire_list_push(&unread, item);
    pthread_mutex_unlock(&hearing);
    return SHOAL_OK;
}

void others_hear(void (*heard)(wire_link *link, Shoal__Kind kind,
                               const ProtobufCMessage *message)) {
    pthread_mutex_lock(&hearing);
    hear = heard;
    pthread_mutex_unlock(&hearing);
}

void others_read(void) {
    pthread_mutex_lock(&hearing);
    for (wire_item *item; (item = wire_list_pop(&unread));) wire_item_free(item);
    pthread_mutex_unlock(&hearing);
}

static bool keeps;

void others_keep(bool keep) {
    wire_list kept = {0};
    keeps = keep;
    for (int i = 0; i < 2 && !keep; i++) {
        pthread_mutex_lock(&members[i]->lock);
        while (members[i]->transfers.first)
            wire_list_push(&kept, wire_list_pop(&members[i]->transfers));
        pthread_mutex_unlock(&members[i]->lock);
    }
    for (wire_item *item; (item = wire_list_pop(&kept));) wire_item_free(item);
}

static shoal_status swallow_data(wire_link *link, const wire_transfer *transfer,
                                 const wire_source *source) {
    wire_item *item = keeps ? wire_item_data(link, transfer, source) : NULL;
    if (item) {
        pthread_mutex_lock(&link->lock);
        wire_list_push(&link->transfers, item);
        pthread_mutex_unlock(&link->lock);
        return SHOAL_OK;
    }
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
    link->pins++; /* it stays to be looked at when it is closed */
    return link;
}

wire_link *others_end_of(uint32_t who) { return members[who - BY_OWES]; }

static worker_file fetched = {.name = (char *)"fuzzed"};

void others_fetch(uint64_t bytes) {
    pthread_mutex_lock(&w->lock);
    fetched.bytes = bytes;
    worker_fetch_drop(&w->fetch);
    w->fetch = (worker_fetch){.file = &fetched, .peer = OWES};
    w->fetch.parts[0] =
        (worker_file_part){.transfer = ++w->file_transfers, .bytes = (uint32_t)bytes};
    pthread_mutex_unlock(&w->lock);
}

void others_link(void) {
    others_hold();
    members[0] = member(OWES);
    members[1] = member(OTHER);
    others_release();
}

void others_end(void) {
    others_hear(NULL);
    others_read();
    worker_fetch_drop(&w->fetch);
    others_hold();
    for (int i = 0; i < 2; i++) {
        members[i]->pins--;
        wire_link_finish(members[i], SHOAL_CLOSED, "");
    }
    others_release();
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
    if (data[0] >= 128) frame.instance += WIRE_FILE; /* 1: the first part that is asked for */
    if (data[6] == 255) frame.kind++;
    if (data[7] == 255) frame.total = UINT64_MAX;
    wire_link_deliver(link, &frame, data + 8);
}

static const char *const roles[2][3] = {{"hub to worker", "owes to worker", "other to worker"},
                                        {"hub to client", "owes to client", "other to client"}};

void others_say(bool client, const uint8_t *data, size_t n, uint8_t how) {
    uint32_t who = how >> 6, kind = TALLY_DATA;
    bool box = who == BOXES;
    if (box) who = BY_OWES + (how & 1);
    wire_link *link = who == BY_HUB ? self_end : members[who - 1];
    if (!box) kind = OTHERS_KIND(how);
    /* Programs are the hub's to make, and measuring takes its time. */
    if (who == BY_HUB && (kind == SHOAL__KIND__RUN || kind == SHOAL__KIND__MEASURE)) return;
    if (!link || link->state != WIRE_OPEN) return;
    uint64_t strange = link->strange;
    if (box)
        take_box(link, data, n);
    else
        wire_link_deliver_message(link, (Shoal__Kind)kind, data, n);
    tally(roles[client][who], kind,
          link->closing              ? TALLY_REFUSED
          : link->strange != strange ? TALLY_DROPPED
                                     : TALLY_TAKEN);
}

bool others_next(const uint8_t **data, size_t *size, const uint8_t **body, size_t *n,
                 uint8_t *how) {
    if (*size < 3) return false;
    *how = (*data)[0];
    *n = (*data)[1] | (size_t)(*data)[2] << 8;
    *body = *data + 3;
    if (*n > *size - 3) *n = *size - 3;
    *data += 3 + *n;
    *size -= 3 + *n;
    return true;
}
