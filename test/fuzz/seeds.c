/* Writes the corpora of the fuzz targets: seeds FOLDER. Small inputs, each of a kind that a decoder
 * takes; .gguf, .npy and options need no code of ours and are written by hand. */
#include "graph/testing.h"
#include "hub/hub.h"
#include "plan/layout.h"
#include "seeds.h"

#include <sys/stat.h>

static const char *folder;

void seeds_put(const char *target, const char *name, const void *data, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) abort();
}

void seeds_fill(Shoal__Hello *hello) {
    static uint32_t order = 0x01020304;
    static uint8_t key[WIRE_KEY] = {1};
    hello->protocol = hello->oldest = WIRE_PROTOCOL;
    hello->order = (ProtobufCBinaryData){sizeof order, (uint8_t *)&order};
    hello->key = (ProtobufCBinaryData){sizeof key, key};
}

static graph *small(void) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t a = test_input(g, T(F32, 4, 6)), b = test_input(g, T(F32, 6, 5));
    uint32_t c =
        test_add(g, GRAPH_DOT_GENERAL, VALUES(a, b),
                 ATTRS(NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
                       INTS(LHS_CONTRACTING_DIMENSIONS, 1), INTS(RHS_CONTRACTING_DIMENSIONS, 0)));
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(c, c), NULL, 0)));
    return g;
}

static void put_graph(graph *g, const char *name) {
    base_str bytes = {0}, text = {0};
    ok(graph_encode(graph_data(g), true, &bytes));
    ok(graph_print(graph_data(g), &text));
    seeds_put("graph", name, bytes.data, bytes.size);
    seeds_put("text", name, text.data, text.size);
    base_str_fini(&bytes);
    base_str_fini(&text);
    graph_destroy(&g);
}

static void layouts(void) {
    static const int64_t dims[] = {4, 6, 5}, ints[] = {2, 1, 3, 0, 1, 4, 0, 6, 0, 2, 3, 5},
                         slots[] = {0, 1, 2, 3, 4, 5};
    static const uint32_t two[] = {3, 9};
    base_arena arena;
    plan_layout layout;
    base_str bytes = {0};
    base_arena_init(&arena, 0);
    ok(plan_layout_whole(&arena, 3, dims, two, 2, &layout));
    ok(plan_layout_encode(&layout, &bytes));
    seeds_put("layout", "whole", bytes.data, bytes.size);
    base_str_clear(&bytes);
    ok(plan_layout_from_ints(&arena, 3, dims, ints, 12, slots, 6, &layout));
    ok(plan_layout_encode(&layout, &bytes));
    seeds_put("layout", "grid", bytes.data, bytes.size);
    base_str_fini(&bytes);
    base_arena_fini(&arena);
}

void seeds_pack(base_str *out, int kind, bool length, const ProtobufCMessage *message) {
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *body = malloc(n + 1);
    protobuf_c_message_pack(message, body);
    const uint8_t head[] = {(uint8_t)kind, (uint8_t)n, (uint8_t)(n >> 8)};
    base_str_bytes(out, head, kind < 0 ? 0 : length ? 3 : 1);
    base_str_bytes(out, body, n);
    free(body);
}

/* A message of each type, with something in every field that says how much follows. */
static void messages(void) {
    Shoal__Device device = SHOAL__DEVICE__INIT, *devices[] = {&device};
    char *addresses[] = {(char *)"shm:worker-1", (char *)"tcp://127.0.0.1:7001"};
    uint32_t slots[] = {0, 7};
    uint64_t values[] = {(uint64_t)1 << 40 | 1, 3};
    int64_t dims[] = {4, 6};
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = SHOAL_LOST;
    error.message = (char *)"gone";
    Shoal__SlotTime time = SHOAL__SLOT_TIME__INIT, *times[] = {&time, &time};
    time.nanoseconds = 12345;
    base_str out = {0};
    device.backend = (char *)"cpu";

    Shoal__Hello hello = SHOAL__HELLO__INIT;
    seeds_fill(&hello);
    hello.version = (char *)"0.1.0";
    hello.name = (char *)"w1";
    hello.incarnation = 99;
    hello.n_addresses = 2;
    hello.addresses = addresses;
    hello.n_devices = 1;
    hello.devices = devices;
    seeds_pack(&out, 0, false, &hello.base);
    seeds_put("message", "hello", out.data, out.size);
    /* The same as a record on the socket of a link. */
    uint32_t size = (uint32_t)out.size - 1;
    base_str record = {0};
    base_str_bytes(&record, &size, 4);
    base_str_bytes(&record, out.data + 1, size);
    seeds_put("handshake", "hello", record.data, record.size);
    base_str_fini(&record);
    base_str_clear(&out);

    Shoal__Welcome welcome = SHOAL__WELCOME__INIT;
    welcome.error = &error;
    welcome.n_slots = 2;
    welcome.slots = slots;
    seeds_pack(&out, 1, false, &welcome.base);
    seeds_put("message", "welcome", out.data, out.size);
    base_str_clear(&out);

    Shoal__PeerInfo info = SHOAL__PEER_INFO__INIT, *infos[] = {&info};
    Shoal__Peers peers = SHOAL__PEERS__INIT;
    info.n_addresses = 2;
    info.addresses = addresses;
    info.n_slots = 2;
    info.slots = slots;
    peers.n_peers = 1;
    peers.peers = infos;
    seeds_pack(&out, 2, false, &peers.base);
    seeds_put("message", "peers", out.data, out.size);
    base_str_clear(&out);

    Shoal__Upload upload = SHOAL__UPLOAD__INIT, *uploads[] = {&upload};
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    upload.value = values[0];
    upload.dtype = SHOAL_F32;
    upload.n_dims = 2;
    upload.dims = dims;
    submit.program = (uint64_t)1 << 40;
    submit.n_inputs = submit.n_outputs = 2;
    submit.inputs = submit.outputs = values;
    submit.n_uploads = 1;
    submit.uploads = uploads;
    seeds_pack(&out, 3, false, &submit.base);
    seeds_put("message", "submit", out.data, out.size);
    base_str_clear(&out);

    Shoal__SlotRun slot = SHOAL__SLOT_RUN__INIT, *runs[] = {&slot};
    Shoal__Run run = SHOAL__RUN__INIT;
    slot.program = 5;
    slot.n_inputs = 2;
    slot.inputs = values;
    run.instance = 9;
    run.n_slots = 1;
    run.slots = runs;
    seeds_pack(&out, 5, false, &run.base);
    seeds_put("message", "run", out.data, out.size);
    base_str_clear(&out);

    Shoal__Outcome outcome = SHOAL__OUTCOME__INIT, *outcomes[] = {&outcome};
    Shoal__Finished finished = SHOAL__FINISHED__INIT;
    outcome.error = &error;
    outcome.n_slots = 2;
    outcome.slots = times;
    finished.n_outcomes = 1;
    finished.outcomes = outcomes;
    seeds_pack(&out, 8, false, &finished.base);
    seeds_put("message", "finished", out.data, out.size);
    base_str_clear(&out);

    Shoal__SlotStatus status = SHOAL__SLOT_STATUS__INIT, *statuses[] = {&status};
    Shoal__Status all = SHOAL__STATUS__INIT;
    status.peer_name = (char *)"w1";
    status.device = &device;
    all.n_slots = 1;
    all.slots = statuses;
    seeds_pack(&out, 10, false, &all.base);
    seeds_put("message", "status", out.data, out.size);
    base_str_fini(&out);
}

/* The instruction log: events, the questions for them, and who passes them on. */
static void events(void) {
    const shoal_event events[] = {
        {.at = 1, .kind = SHOAL_EVENT_COMPUTE, .phase = SHOAL_EVENT_BEGIN, .label = "add[4]"},
        {.at = 9, .kind = SHOAL_EVENT_SEND, .slot = 1, .peer = 2, .bytes = 64, .key = 7}};
    base_str list = {0}, out = {0};
    ok(wire_events_pack(events, 2, &list));
    seeds_put("events", "two", list.data, list.size);
    Shoal__Cursor cursor = SHOAL__CURSOR__INIT, *cursors[] = {&cursor};
    cursor.peer = 1;
    cursor.next = 5;
    Shoal__EventsAsk ask = SHOAL__EVENTS_ASK__INIT;
    ask.token = 3;
    ask.keep_ms = 100;
    ask.n_cursors = 1;
    ask.cursors = cursors;
    Shoal__Record record = SHOAL__RECORD__INIT;
    record.asker = 1;
    Shoal__Events answer = SHOAL__EVENTS__INIT;
    uint32_t asked[] = {1, 2};
    answer.token = 3;
    answer.asker = 1;
    answer.name = (char *)"w1";
    answer.list = (ProtobufCBinaryData){list.size, (uint8_t *)list.data};
    answer.n_asked_peers = 2;
    answer.asked_peers = asked;
    seeds_pack(&out, 13, false, &ask.base);
    seeds_put("message", "events_ask", out.data, out.size);
    base_str_clear(&out);
    seeds_pack(&out, 14, false, &record.base);
    seeds_put("message", "record", out.data, out.size);
    base_str_clear(&out);
    seeds_pack(&out, 15, false, &answer.base);
    seeds_put("message", "events", out.data, out.size);
    base_str_clear(&out);
    seeds_pack(&out, SHOAL__KIND__EVENTS_ASK, true, &ask.base);
    seeds_pack(&out, SHOAL__KIND__RECORDED, true, &answer.base);
    seeds_put("hub", "events", out.data, out.size);
    base_str_fini(&out);
    base_str_fini(&list);
}

/* A frame for oneself, as the only member there is, and one for nobody. */
static void relays(void) {
    base_str out = {0};
    wire_frame frame = {.type = WIRE_FRAME_DATA, .total = 1};
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.peer = 1;
    relay.frame = (ProtobufCBinaryData){sizeof frame, (uint8_t *)&frame};
    seeds_pack(&out, 16, false, &relay.base);
    seeds_put("message", "relay", out.data, out.size);
    base_str_clear(&out);
    seeds_pack(&out, SHOAL__KIND__RELAY, true, &relay.base);
    relay.peer = 9;
    seeds_pack(&out, SHOAL__KIND__RELAY, true, &relay.base);
    seeds_put("hub", "relays", out.data, out.size);
    base_str_fini(&out);
}

/* Sealed by member 1; see relay.c. */
static void relayed(base_str *out, uint8_t how, wire_frame frame, const base_str *payload) {
    frame.bytes = payload ? (uint32_t)payload->size : 0;
    size_t n = sizeof frame + frame.bytes;
    uint8_t head[] = {how, (uint8_t)n, (uint8_t)(n >> 8)};
    base_str_bytes(out, head, sizeof head);
    base_str_bytes(out, &frame, sizeof frame);
    if (payload) base_str_bytes(out, payload->data, payload->size);
}

/* A member that begins, sends and closes; and one that answers. */
static void relay_links(void) {
    enum { FROM = 1, BACK = 64, SEALED = 128, POOL = 5 };
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    Shoal__Welcome welcome = SHOAL__WELCOME__INIT;
    hello.name = (char *)"w1";
    hello.peer = 1;
    hello.pool = POOL;
    seeds_fill(&hello);
    base_str greeting = {0}, answer = {0}, text = {0}, out = {0};
    seeds_pack(&greeting, -1, false, &hello.base);
    seeds_pack(&answer, -1, false, &hello.base);
    seeds_pack(&answer, -1, false, &welcome.base);
    base_str_text(&text, "12345678");
    wire_frame data = {.type = WIRE_FRAME_DATA, .kind = POOL, .total = 16};
    relayed(&out, FROM | SEALED, (wire_frame){.type = WIRE_FRAME_HELLO}, &greeting);
    relayed(&out, FROM | SEALED, data, &text);
    data.offset = 8;
    relayed(&out, FROM | SEALED, data, &text);
    relayed(&out, FROM | SEALED, (wire_frame){.type = WIRE_FRAME_CLOSE, .kind = SHOAL_CLOSED},
            &text);
    seeds_put("relay", "guest", out.data, out.size);
    base_str_clear(&out);
    relayed(&out, FROM | BACK | SEALED,
            (wire_frame){.type = WIRE_FRAME_WELCOME, .offset = greeting.size}, &answer);
    data.total = 8;
    data.offset = 0;
    relayed(&out, FROM | BACK | SEALED, data, &text);
    relayed(&out, FROM | BACK | SEALED, (wire_frame){.type = WIRE_FRAME_CREDIT}, NULL);
    seeds_put("relay", "answer", out.data, out.size);
    base_str_clear(&out);
    relayed(&out, FROM | BACK, (wire_frame){.type = WIRE_FRAME_CLOSE, .kind = SHOAL_DENIED}, &text);
    seeds_put("relay", "turned_away", out.data, out.size);
    base_str_fini(&out);
    base_str_fini(&text);
    base_str_fini(&answer);
    base_str_fini(&greeting);
}

/* The first program of a session, with its uploads. */
typedef struct product {
    base_str bytes;
    uint64_t inputs[2], outputs[1];
    int64_t dims[2][2];
    Shoal__Upload upload[2], *uploads[2];
    Shoal__Submit submit;
} product;

static void product_init(product *p, uint64_t session) {
    graph *g = small();
    *p = (product){.dims = {{4, 6}, {6, 5}}};
    ok(graph_encode(graph_data(g), true, &p->bytes));
    graph_destroy(&g);
    session <<= 40;
    for (unsigned i = 0; i < 2; i++) {
        p->inputs[i] = session | (i + 1);
        p->uploads[i] = &p->upload[i];
        shoal__upload__init(&p->upload[i]);
        p->upload[i].value = p->inputs[i];
        p->upload[i].dtype = SHOAL_F32;
        p->upload[i].n_dims = 2;
        p->upload[i].dims = p->dims[i];
    }
    p->outputs[0] = session | 3;
    shoal__submit__init(&p->submit);
    p->submit.program = session | 1;
    p->submit.graph = (ProtobufCBinaryData){p->bytes.size, (uint8_t *)p->bytes.data};
    p->submit.n_inputs = p->submit.n_uploads = 2;
    p->submit.inputs = p->inputs;
    p->submit.n_outputs = 1;
    p->submit.outputs = p->outputs;
    p->submit.uploads = p->uploads;
}

/* A session of a client that uploads, multiplies and frees, and a participant that is done. */
static void hub_session(void) {
    base_str out = {0};
    product p;
    uint32_t home = 0;
    ProtobufCBinaryData none = {0};
    product_init(&p, 1);
    p.submit.n_wanted = 1;
    p.submit.wanted = &none;
    p.submit.n_home = 1;
    p.submit.home = &home;
    Shoal__ExplainAsk explain = SHOAL__EXPLAIN_ASK__INIT;
    explain.submit = &p.submit;
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    Shoal__SlotTime time = SHOAL__SLOT_TIME__INIT, *times[] = {&time};
    Shoal__Done done = SHOAL__DONE__INIT;
    done.instance = 1;
    done.n_slots = 1;
    done.slots = times;
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = SHOAL_LOST;
    error.message = (char *)"gone";
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = 2;
    failed.error = &error;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.n_values = 1;
    release.values = p.outputs;
    release.n_programs = 1;
    release.programs = &p.submit.program;

    seeds_pack(&out, SHOAL__KIND__SUBMIT, true, &p.submit.base);
    seeds_pack(&out, SHOAL__KIND__DONE, true, &done.base);
    seeds_pack(&out, SHOAL__KIND__STATUS_ASK, true, &ask.base);
    seeds_pack(&out, SHOAL__KIND__RELEASE, true, &release.base);
    seeds_put("hub", "done", out.data, out.size);
    base_str_clear(&out);
    seeds_pack(&out, SHOAL__KIND__EXPLAIN_ASK, true, &explain.base);
    seeds_pack(&out, SHOAL__KIND__SUBMIT, true, &p.submit.base);
    p.submit.graph.len = 0;
    p.submit.n_uploads = p.submit.n_wanted = p.submit.n_home = 0;
    p.outputs[0]++;
    seeds_pack(&out, SHOAL__KIND__SUBMIT, true, &p.submit.base);
    seeds_pack(&out, SHOAL__KIND__FAILED, true, &failed.base);
    seeds_pack(&out, SHOAL__KIND__RELEASE, true, &release.base);
    seeds_put("hub", "failed", out.data, out.size);
    base_str_fini(&out);
    base_str_fini(&p.bytes);
}

/* A message of one of the hub target's members. */
enum { BOTH, CLIENT, WORKER };
static void says(base_str *out, uint8_t who, Shoal__Kind kind, const ProtobufCMessage *message) {
    seeds_pack(out, (int)kind | who << 6, true, message);
}

/* A client's program on the devices of both others, which do their parts; speeds, events, a frame
 * that is passed on, and one that fails. */
static void hub_roles(void) {
    base_str out = {0};
    product p;
    product_init(&p, 2);
    Shoal__SlotTime time = SHOAL__SLOT_TIME__INIT, *times[] = {&time};
    Shoal__Traffic traffic = SHOAL__TRAFFIC__INIT, *ways[] = {&traffic};
    Shoal__Done done = SHOAL__DONE__INIT;
    done.instance = 1;
    done.n_slots = done.n_traffic = 1;
    done.slots = times;
    done.traffic = ways;
    time.slot = traffic.to = 4;
    traffic.from = 3;
    traffic.bytes = 16;
    traffic.nanoseconds = 1000;
    Shoal__EventsAsk ask = SHOAL__EVENTS_ASK__INIT;
    ask.token = 7;
    ask.keep_ms = 100;
    Shoal__Events events = SHOAL__EVENTS__INIT;
    events.token = 7;
    events.asker = 2;
    Shoal__Speed speed = SHOAL__SPEED__INIT;
    speed.slot = 4;
    Shoal__Figure figure = SHOAL__FIGURE__INIT, *figures[] = {&figure};
    figure.value = 1e9;
    speed.figures = figures;
    speed.n_figures = 1;
    Shoal__DeviceLost device_lost = SHOAL__DEVICE_LOST__INIT;
    device_lost.slot = 4;
    Shoal__Waits waits = SHOAL__WAITS__INIT;
    waits.instance = waits.peer = 1;
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.peer = 3;
    relay.frame = (ProtobufCBinaryData){8, (uint8_t *)"whatever"};
    Shoal__News news = SHOAL__NEWS__INIT;
    Shoal__Path path = SHOAL__PATH__INIT, *paths[] = {&path};
    path.address = (char *)"tcp://10.0.0.1:7400";
    news.paths = paths;
    news.n_paths = news.fetching = 1;
    Shoal__StatusAsk status = SHOAL__STATUS_ASK__INIT;
    status.paths = true;
    Shoal__ExplainAsk explain = SHOAL__EXPLAIN_ASK__INIT;
    explain.submit = &p.submit;
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = SHOAL_LOST;
    error.message = (char *)"gone";
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = 1;
    failed.error = &error;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.n_values = 1;
    release.values = p.outputs;

    says(&out, CLIENT, SHOAL__KIND__EXPLAIN_ASK, &explain.base);
    says(&out, CLIENT, SHOAL__KIND__EVENTS_ASK, &ask.base);
    says(&out, CLIENT, SHOAL__KIND__SUBMIT, &p.submit.base);
    for (uint8_t who = BOTH; who <= WORKER; who++) says(&out, who, SHOAL__KIND__DONE, &done.base);
    says(&out, WORKER, SHOAL__KIND__RECORDED, &events.base);
    says(&out, BOTH, SHOAL__KIND__RECORDED, &events.base);
    says(&out, WORKER, SHOAL__KIND__NEWS, &news.base);
    says(&out, WORKER, SHOAL__KIND__STATUS_ASK, &status.base);
    says(&out, CLIENT, SHOAL__KIND__RELEASE, &release.base);
    seeds_put("hub", "roles", out.data, out.size);
    base_str_clear(&out);
    says(&out, CLIENT, SHOAL__KIND__RELAY, &relay.base);
    says(&out, CLIENT, SHOAL__KIND__SUBMIT, &p.submit.base);
    says(&out, WORKER, SHOAL__KIND__SPEED, &speed.base);
    device_lost.error = &error;
    says(&out, BOTH, SHOAL__KIND__DEVICE_LOST, &device_lost.base);
    says(&out, WORKER, SHOAL__KIND__WAITS, &waits.base);
    failed.peer = 1;
    says(&out, WORKER, SHOAL__KIND__FAILED, &failed.base);
    failed.peer = 0;
    says(&out, BOTH, SHOAL__KIND__FAILED, &failed.base);
    for (uint8_t who = BOTH; who <= WORKER; who++) says(&out, who, SHOAL__KIND__DONE, &done.base);
    seeds_put("hub", "roles_failed", out.data, out.size);
    base_str_fini(&out);
    base_str_fini(&p.bytes);
}

/* A loop of a client: 1000 rounds, what is carried, what ends it; begun again, cancelled, done. */
static void hub_loop(void) {
    base_str out = {0}, bytes = {0};
    graph *g;
    uint64_t session = (uint64_t)2 << 40, inputs[] = {session | 1},
             outputs[] = {session | 2, session | 3};
    uint32_t carry[] = {1}, home = 1;
    int64_t dims[] = {4};
    Shoal__Upload upload = SHOAL__UPLOAD__INIT, *uploads[] = {&upload};
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    Shoal__Done done = SHOAL__DONE__INIT;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 4)), y = test_add(g, GRAPH_ADD, VALUES(x, x), NULL, 0);
    ok(graph_add_output(g, y));
    ok(graph_add_output(g, test_add(g, GRAPH_NEGATE, VALUES(y), NULL, 0)));
    ok(graph_encode(graph_data(g), true, &bytes));
    graph_destroy(&g);
    upload.value = inputs[0];
    upload.dtype = SHOAL_F32;
    upload.n_dims = 1;
    upload.dims = dims;
    submit.program = session | 1;
    submit.graph = (ProtobufCBinaryData){bytes.size, (uint8_t *)bytes.data};
    submit.n_inputs = submit.n_uploads = submit.n_carry = submit.n_home = 1;
    submit.inputs = inputs;
    submit.n_outputs = 2;
    submit.outputs = outputs;
    submit.uploads = uploads;
    submit.rounds = 1000;
    submit.carry = carry;
    submit.home = &home;
    release.n_loops = 1;
    release.loops = outputs;
    says(&out, CLIENT, SHOAL__KIND__SUBMIT, &submit.base);
    for (done.instance = 1; done.instance < 3; done.instance++)
        for (uint8_t who = BOTH; who <= WORKER; who++)
            says(&out, who, SHOAL__KIND__DONE, &done.base);
    submit.graph.len = 0;
    submit.n_uploads = submit.n_carry = submit.n_home = 0;
    outputs[1] = (outputs[0] = session | 4) + 1;
    says(&out, CLIENT, SHOAL__KIND__SUBMIT, &submit.base);
    says(&out, CLIENT, SHOAL__KIND__RELEASE, &release.base);
    done.instance = 1002;
    says(&out, WORKER, SHOAL__KIND__DONE, &done.base);
    seeds_put("hub", "loop", out.data, out.size);
    base_str_fini(&out);
    base_str_fini(&bytes);
}

/* What the member and session targets take: who, and with it the kind. */
enum { BY_HUB = 0, BY_OWES = 64, BY_OTHER = 128, BOXES = 192, FIRST = SHOAL__KIND__HUB_END - 1 };

/* A box, in two pieces, of an instance: from who owes it, or from another. */
static void box(base_str *out, bool owed, uint8_t instance) {
    uint8_t part[8 + 32] = {instance, 0, 0, 0, 64, 0, 0, 0};
    const uint8_t head[] = {owed ? BOXES : BOXES | 1, sizeof part, 0};
    for (int half = 0; half < 2; half++, part[3] = 32) {
        base_str_bytes(out, head, sizeof head);
        base_str_bytes(out, part, sizeof part);
    }
}

/* The part of a file that is asked for, as data: by a member that was not asked, and by who was. */
static void part_as_data(base_str *out) {
    const uint8_t part[8 + 100] = {129, 0, 0, 0, 100, 0, 0, 0};
    for (int owes = 0; owes < 2; owes++) {
        const uint8_t head[] = {owes ? BOXES : BOXES | 1, sizeof part, 0};
        base_str_bytes(out, head, sizeof head);
        base_str_bytes(out, part, sizeof part);
    }
}

/* A question for a file and the part that was asked for, by both; how far each is in a loop. */
static void member_says(base_str *out) {
    static uint8_t digest[32], data[100];
    Shoal__FileAsk ask = SHOAL__FILE_ASK__INIT;
    Shoal__FilePart part = SHOAL__FILE_PART__INIT;
    Shoal__Pace pace = SHOAL__PACE__INIT;
    ask.digest = part.digest = (ProtobufCBinaryData){sizeof digest, digest};
    ask.bytes = sizeof data;
    part.data = (ProtobufCBinaryData){sizeof data, data};
    pace.loop = 3;
    for (pace.through = 0; pace.through < 5; pace.through += 2) {
        seeds_pack(out, BY_OTHER | (SHOAL__KIND__PACE - FIRST), true, &pace.base);
        seeds_pack(out, BY_OWES | (SHOAL__KIND__PACE - FIRST), true, &pace.base);
        box(out, false, (uint8_t)(3 + pace.through));
        box(out, true, (uint8_t)(3 + pace.through));
        box(out, true, (uint8_t)(4 + pace.through));
    }
    box(out, true, 3); /* of a round that is over */
    seeds_pack(out, BY_OTHER | (SHOAL__KIND__FILE_ASK - FIRST), true, &ask.base);
    ask.transfer = WIRE_FILE + 3;
    seeds_pack(out, BY_OTHER | (SHOAL__KIND__FILE_ASK - FIRST), true, &ask.base);
    part_as_data(out);
    seeds_pack(out, BY_OTHER | (SHOAL__KIND__FILE_PART - FIRST), true, &part.base);
    seeds_pack(out, BY_OWES | (SHOAL__KIND__FILE_PART - FIRST), true, &part.base);
    seeds_pack(out, BY_OWES | (SHOAL__KIND__FILE_PART - FIRST), true, &part.base);
    part.status = SHOAL_BUSY;
    seeds_pack(out, BY_OWES | (SHOAL__KIND__FILE_PART - FIRST), true, &part.base);
}

/* For the member target: a box from who owes it, the same from another, and what the hub and others
 * say; also in a loop, and while a file comes. */
static void member_traffic(void) {
    for (int role = 0; role < 16; role++) {
        base_str out = {0};
        uint8_t flags = (uint8_t)role;
        char name[16];
        Shoal__Error error = SHOAL__ERROR__INIT;
        Shoal__Failed cancel = SHOAL__FAILED__INIT;
        Shoal__Release release = SHOAL__RELEASE__INIT;
        Shoal__Record record = SHOAL__RECORD__INIT;
        uint64_t value = 77;
        cancel.instance = 2;
        cancel.error = &error;
        error.status = SHOAL_LOST;
        error.message = (char *)"given up";
        release.n_values = 1;
        release.values = &value;
        record.token = 5;
        base_str_bytes(&out, &flags, 1);
        for (int owed = 0; owed < 2; owed++) box(&out, owed, 2);
        if (role > 3) member_says(&out);
        seeds_pack(&out, BY_OTHER | (SHOAL__KIND__CANCEL - FIRST), true, &cancel.base);
        seeds_pack(&out, BY_HUB | (SHOAL__KIND__RECORD - FIRST), true, &record.base);
        seeds_pack(&out, BY_HUB | (SHOAL__KIND__CANCEL - FIRST), true, &cancel.base);
        seeds_pack(&out, BY_OWES | (SHOAL__KIND__FREE - FIRST), true, &release.base);
        seeds_pack(&out, BY_HUB | (SHOAL__KIND__FREE - FIRST), true, &release.base);
        snprintf(name, sizeof name, "role%d", role);
        seeds_put("member", name, out.data, out.size);
        base_str_fini(&out);
    }
}

/* For the session target, in the order of what it asks, six at a time. */
static void session_answers(void) {
    static const uint64_t session = UINT64_C(1) << 40;
    for (int fails = 0; fails < 2; fails++) {
        base_str out = {0};
        uint64_t outputs[2] = {session + 3, session + 4};
        Shoal__Error error = SHOAL__ERROR__INIT;
        Shoal__SlotTime time = SHOAL__SLOT_TIME__INIT, *times[] = {&time};
        Shoal__Traffic traffic = SHOAL__TRAFFIC__INIT, *ways[] = {&traffic};
        Shoal__Outcome outcome = SHOAL__OUTCOME__INIT, *outcomes[] = {&outcome};
        Shoal__Finished finished = SHOAL__FINISHED__INIT;
        Shoal__Release release = SHOAL__RELEASE__INIT;
        Shoal__Device device = SHOAL__DEVICE__INIT;
        Shoal__SlotStatus slot = SHOAL__SLOT_STATUS__INIT, *slots[] = {&slot};
        Shoal__Status status = SHOAL__STATUS__INIT;
        Shoal__Explained explained = SHOAL__EXPLAINED__INIT;
        Shoal__Events events = SHOAL__EVENTS__INIT;
        error.status = SHOAL_LOST;
        error.message = (char *)"a worker has left";
        outcome.program = session;
        outcome.n_outputs = 2;
        outcome.outputs = outputs;
        outcome.n_slots = outcome.n_traffic = 1;
        outcome.slots = times;
        outcome.traffic = ways;
        finished.n_outcomes = 1;
        finished.outcomes = outcomes;
        slot.peer_name = (char *)"w1";
        slot.device = &device;
        status.n_slots = 1;
        status.slots = slots;
        explained.text = explained.json = (char *)"what it would do";
        events.name = (char *)"hub";
        if (fails) outcome.error = explained.error = &error;
        /* What is read comes in two pieces; its program ends. */
        box(&out, true, 1);
        seeds_pack(&out, BY_HUB | (SHOAL__KIND__FINISHED - FIRST), true, &finished.base);
        for (int k = 0; k < 3; k++)
            seeds_pack(&out, BY_HUB | (SHOAL__KIND__FREE - FIRST), true, &release.base);
        for (uint64_t token = 1; token <= 3; token++) {
            status.token = explained.token = events.token = token;
            seeds_pack(&out, BY_HUB | (SHOAL__KIND__STATUS - FIRST), true, &status.base);
            seeds_pack(&out, BY_HUB | (SHOAL__KIND__EXPLAINED - FIRST), true, &explained.base);
            seeds_pack(&out, BY_HUB | (SHOAL__KIND__EVENTS - FIRST), true, &events.base);
            for (int k = 0; k < 3; k++)
                seeds_pack(&out, BY_HUB | (SHOAL__KIND__FREE - FIRST), true, &release.base);
        }
        outcome.program++;
        outcome.n_outputs = 1;
        outputs[0] = session + 5;
        seeds_pack(&out, BY_HUB | (SHOAL__KIND__FINISHED - FIRST), true, &finished.base);
        box(&out, true, 2);
        /* What the rounds of its loop bring. */
        for (uint8_t round = 0; round < 3; round++) box(&out, true, (uint8_t)(3 + round));
        seeds_put("session", fails ? "failed" : "through", out.data, out.size);
        base_str_fini(&out);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    folder = argv[1];
    put_graph(small(), "product");
    put_graph(test_all_operations(), "all");
    layouts();
    messages();
    events();
    relays();
    relay_links();
    seeds_paths();
    hub_session();
    hub_roles();
    seeds_artifacts();
    hub_loop();
    member_traffic();
    session_answers();
    seeds_frames();
    static const char *const options[] = {"\0"
                                          "42",
                                          "\1"
                                          "1.5",
                                          "\2"
                                          "1.5GiB",
                                          "\2"
                                          "512M",
                                          "\3"
                                          "10:4096",
                                          "\4"
                                          "50%,30%,20%",
                                          "\4"
                                          "5,3,0.5",
                                          "\5"
                                          "2x3",
                                          "\5"
                                          "columns"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        seeds_put("args", (char[]){(char)('0' + i), 0}, options[i], 1 + strlen(options[i] + 1));
    return 0;
}
