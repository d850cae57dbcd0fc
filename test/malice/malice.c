/* A member that means harm: it has a key, speaks the protocol by the wire's own means, and says
 * what is not its to say.
 *
 *   malice HUB client|worker|both ATTACK SECONDS
 *
 * It joins the hub, attacks until its time is over (joining anew when it is thrown out), and prints
 * how often it did what. Nothing here knows whether it succeeded: that is for the test to see. */
#include "base/clock.h"
#include "base/os.h"
#include "graph/graph.h"
#include "wire/framed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST = 64, BODY = 4096, HUB_COOKIE = 1000000 };

static struct member {
    wire_peer *peer;
    wire_link *hub;
    wire_link *to[MOST]; /* members, by place in the list */
    uint32_t number, session;
    uint64_t pool;
    uint32_t slots[8];
    size_t n_slots;
    Shoal__Peers *peers;
    bool failed;
    bool unread, lies; /* takes nothing of what members send; says that all programs are through */
    const char *hub_address, *role;
    int64_t end;
    uint64_t sent, joined, linked, refused, closed, failed_programs;
    char why[200]; /* the last of those did */
    uint64_t state;
} m = {.state = 88172645463325252u};

static uint64_t dice(void) {
    m.state ^= m.state << 13;
    m.state ^= m.state >> 7;
    m.state ^= m.state << 17;
    return m.state;
}

/* ---- what it hears ---- */

static shoal_status opened(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting) {
    (void)context, (void)hello;
    uint64_t cookie = wire_link_cookie(link);
    if (!accepting && cookie == HUB_COOKIE) {
        m.hub = link;
        m.number = welcome->peer;
        m.session = welcome->session;
        m.pool = welcome->pool;
        for (m.n_slots = 0; m.n_slots < welcome->n_slots && m.n_slots < 8; m.n_slots++)
            m.slots[m.n_slots] = welcome->slots[m.n_slots];
        wire_relay_by(link);
        m.joined++;
    } else if (!accepting && cookie < MOST) {
        m.to[cookie] = link;
        m.linked++;
    }
    if (m.unread && link != m.hub) wire_link_hold(link, INT64_MAX);
    return SHOAL_OK;
}

/* Its own part of what it was told to run is through, as it says. */
static void lie(wire_link *link, const void *body, size_t bytes) {
    Shoal__Run *run = shoal__run__unpack(NULL, bytes, body);
    Shoal__Done done = SHOAL__DONE__INIT;
    if (run) done.instance = run->instance;
    if (run && wire_send(link, SHOAL__KIND__DONE, &done.base) == SHOAL_OK) m.sent++;
    if (run) shoal__run__free_unpacked(run, NULL);
}

static void note_outcomes(const void *body, size_t bytes) {
    Shoal__Finished *finished = shoal__finished__unpack(NULL, bytes, body);
    for (size_t i = 0; finished && i < finished->n_outcomes; i++) {
        const Shoal__Error *error = finished->outcomes[i]->error;
        if (!error) continue;
        m.failed_programs++;
        snprintf(m.why, sizeof m.why, "%s", error->message);
    }
    if (finished) shoal__finished__free_unpacked(finished, NULL);
}

/* Events at a time that is none, of bytes that are none. */
static void make_up(wire_link *link, const void *body, size_t bytes) {
    Shoal__Record *record = shoal__record__unpack(NULL, bytes, body);
    Shoal__Events events = SHOAL__EVENTS__INIT;
    if (!record) return;
    events.token = record->token;
    events.asker = record->asker;
    events.asked = record->asked;
    events.now = dice() % 2 ? INT64_MAX : base_now();
    events.list = (ProtobufCBinaryData){9, (uint8_t *)"\xff\xff\xff nonsense"};
    if (wire_send(link, SHOAL__KIND__RECORDED, &events.base) == SHOAL_OK) m.sent++;
    shoal__record__free_unpacked(record, NULL);
}

static shoal_status message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                            size_t bytes) {
    (void)context;
    if (kind == SHOAL__KIND__FINISHED) note_outcomes(body, bytes);
    if (kind == SHOAL__KIND__RUN && m.lies) lie(link, body, bytes);
    if (kind == SHOAL__KIND__RECORD) make_up(link, body, bytes);
    if (kind != SHOAL__KIND__PEERS) return SHOAL_OK;
    Shoal__Peers *told = shoal__peers__unpack(NULL, bytes, body);
    if (told && told->change) { /* those who were there first are enough */
        shoal__peers__free_unpacked(told, NULL);
        return SHOAL_OK;
    }
    if (m.peers) shoal__peers__free_unpacked(m.peers, NULL);
    m.peers = told;
    wire_member list[MOST];
    size_t n = 0;
    for (size_t i = 0; m.peers && i < m.peers->n_peers && n < MOST; i++) {
        list[n] = (wire_member){m.peers->peers[i]->peer, m.peers->peers[i]->user, {0}};
        memcpy(list[n++].key, m.peers->peers[i]->key.data, WIRE_KEY);
    }
    wire_know(m.peer, list, n, false);
    return SHOAL_OK;
}

static shoal_status data(void *context, wire_link *link, const wire_transfer *transfer,
                         uint64_t offset, const void *bytes, size_t n) {
    return SHOAL_OK;
}

static void closed(void *context, wire_link *link, shoal_status why, const char *text) {
    if (link == m.hub) m.hub = NULL;
    for (int i = 0; i < MOST; i++)
        if (m.to[i] == link) m.to[i] = NULL;
    m.closed++;
}

static void connect_failed(void *context, uint64_t cookie, shoal_status why, const char *text) {
    if (cookie == HUB_COOKIE) m.failed = true;
    m.refused++;
}

/* ---- joining ---- */

static bool is_in(void *context) { return (m.hub && m.peers) || m.failed; }

static bool join(const char *hub, const char *role) {
    Shoal__Device device = SHOAL__DEVICE__INIT, *devices[] = {&device};
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    device.backend = (char *)"cpu";
    device.name = (char *)"none";
    device.memory = 1 << 20;
    device.threads = 1;
    hello.name = (char *)"mallory\x1b\xff"; /* which no screen may see */
    hello.role = !strcmp(role, "worker") ? SHOAL__ROLE__WORKER : SHOAL__ROLE__CLIENT;
    hello.n_devices = strcmp(role, "client") != 0;
    hello.devices = devices;
    wire_peer_destroy(&m.peer);
    if (m.peers) shoal__peers__free_unpacked(m.peers, NULL);
    m.peers = NULL;
    m.hub = NULL;
    m.failed = false;
    memset(m.to, 0, sizeof m.to);
    if (wire_peer_new(&hello, &m.peer) != SHOAL_OK) return false;
    wire_handlers handlers = {.opened = opened,
                              .message = message,
                              .data = data,
                              .closed = closed,
                              .connect_failed = connect_failed};
    wire_handle(m.peer, WIRE_WORKER, &handlers);
    if (wire_connect(m.peer, hub, HUB_COOKIE, 3000) != SHOAL_OK) return false;
    return wire_wait(m.peer, is_in, NULL, base_now() + 5 * BASE_SECOND) == SHOAL_OK && m.hub;
}

static bool never(void *context) { return false; }

static void rest(int ms) { (void)!wire_wait(m.peer, never, NULL, base_now() + ms * BASE_MS); }

static void send(wire_link *link, int kind, const ProtobufCMessage *what) {
    if (link && wire_link_queued(link) < 8 << 20 &&
        wire_send(link, (Shoal__Kind)kind, what) == SHOAL_OK)
        m.sent++;
}

/* A message that is nothing. */
static void send_noise(wire_link *link, int kind, size_t n) {
    uint8_t bytes[BODY];
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)dice();
    ProtobufCMessageUnknownField field = {.tag = 1 + (uint32_t)(dice() % 12),
                                          .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                          .len = n,
                                          .data = bytes};
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ask.base.n_unknown_fields = 1;
    ask.base.unknown_fields = &field;
    bytes[0] = (uint8_t)(n - 1); /* else it would be no field at all */
    send(link, kind, &ask.base);
}

/* ---- to the hub ---- */

/* Ends, failures, speeds, traffic and events of others' programs, whatever their numbers are. */
static void outcomes(void) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    Shoal__Done done = SHOAL__DONE__INIT;
    Shoal__SlotTime time = SHOAL__SLOT_TIME__INIT, *times[] = {&time};
    Shoal__Traffic traffic = SHOAL__TRAFFIC__INIT, *ways[] = {&traffic};
    Shoal__Speed speed = SHOAL__SPEED__INIT;
    Shoal__Events events = SHOAL__EVENTS__INIT;
    Shoal__Figure figure = SHOAL__FIGURE__INIT, *figures[] = {&figure};
    Shoal__DeviceLost lost = SHOAL__DEVICE_LOST__INIT;
    error.message = (char *)"because I say so";
    failed.error = lost.error = &error;
    speed.figures = figures;
    speed.n_figures = 1;
    done.n_slots = done.n_traffic = 1;
    done.slots = times;
    done.traffic = ways;
    for (int i = 0; i < 400; i++) {
        failed.instance = done.instance = 1 + dice() % 4000;
        error.status = (uint32_t)(dice() % 4 ? dice() % 20 : dice());
        failed.peer = dice() % 2 ? (uint32_t)(dice() % 8) : 0;
        time.slot = traffic.to = speed.slot = lost.slot = (uint32_t)(dice() % 8);
        traffic.from = (uint32_t)(dice() % 8);
        time.nanoseconds = traffic.bytes = traffic.nanoseconds = dice();
        figure.what = (uint32_t)(dice() % 12);
        figure.value = dice() % 2 ? 1e300 : 1e-300;
        events.asker = (uint32_t)(dice() % 8);
        events.token = dice() % 8;
        send(m.hub, SHOAL__KIND__FAILED, &failed.base);
        send(m.hub, SHOAL__KIND__DONE, &done.base);
        send(m.hub, SHOAL__KIND__SPEED, &speed.base);
        send(m.hub, SHOAL__KIND__DEVICE_LOST, &lost.base);
        send(m.hub, SHOAL__KIND__RECORDED, &events.base);
    }
}

/* Values and programs of other sessions: to read them, to free them, to overwrite them. */
static void values(void) {
    for (int i = 0; i < 50; i++) {
        uint64_t session = (uint64_t)(1 + dice() % 6) << 40;
        uint64_t inputs[] = {session + 1 + dice() % 40}, outputs[] = {session + 1 + dice() % 40};
        uint64_t programs[] = {session + dice() % 20};
        Shoal__Upload upload = SHOAL__UPLOAD__INIT, *uploads[] = {&upload};
        Shoal__Submit submit = SHOAL__SUBMIT__INIT;
        Shoal__Release release = SHOAL__RELEASE__INIT;
        Shoal__ExplainAsk ask = SHOAL__EXPLAIN_ASK__INIT;
        release.n_values = release.n_programs = 1;
        release.values = inputs;
        release.programs = programs;
        send(m.hub, SHOAL__KIND__RELEASE, &release.base);
        upload.value = outputs[0];
        upload.dtype = (uint32_t)(dice() % 30);
        submit.program = programs[0];
        submit.n_inputs = submit.n_outputs = submit.n_uploads = 1;
        submit.inputs = inputs;
        submit.outputs = outputs;
        submit.uploads = uploads;
        ask.submit = &submit;
        send(m.hub, i % 2 ? SHOAL__KIND__SUBMIT : SHOAL__KIND__EXPLAIN_ASK,
             i % 2 ? &submit.base : &ask.base);
        rest(2);
        if (!m.hub) return; /* such a session is closed */
    }
}

/* Every kind, known or not, with bodies that are none. */
static void kinds(void) {
    for (int kind = 1; kind < 90 && m.hub; kind++) {
        for (int i = 0; i < 4; i++) send_noise(m.hub, kind, 1 + dice() % 200);
        rest(1);
    }
}

static void flood(void) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    Shoal__EventsAsk events = SHOAL__EVENTS_ASK__INIT;
    events.keep_ms = UINT32_MAX;
    for (int i = 0; i < 3000; i++) {
        events.token = dice();
        send(m.hub, i % 2 ? SHOAL__KIND__STATUS_ASK : SHOAL__KIND__EVENTS_ASK,
             i % 2 ? &ask.base : &events.base);
    }
}

/* ---- to other members ---- */

static bool is_other(size_t i) { return m.peers->peers[i]->peer != m.number; }

/* Links to everybody, as the member that it is, or as another. */
static void call(uint32_t as) {
    wire_set_number(m.peer, as, m.pool);
    for (size_t i = 0; m.peers && i < m.peers->n_peers && i < MOST; i++)
        if (is_other(i) && !m.to[i] && m.peers->peers[i]->n_addresses &&
            wire_connect(m.peer, m.peers->peers[i]->addresses[0], i, 1500) != SHOAL_OK)
            m.refused++;
    rest(300);
}

static void read_nothing(void *context, uint64_t offset, void *to, size_t n) {
    memset(to, 0x7f, n);
}

static void send_box(wire_link *link, uint64_t instance, uint32_t channel, uint32_t ordinal,
                     uint64_t bytes) {
    wire_transfer transfer = {instance, channel, ordinal, bytes};
    wire_source source = {.read = read_nothing};
    if (link && wire_send_data(link, &transfer, &source) == SHOAL_OK) m.sent++;
}

/* Boxes that others owe, of instances that are on their way, were, or will be. */
static void boxes(void) {
    static const uint64_t sizes[] = {4, 1024, 65536, 80000, 160000, 320000};
    call(m.number);
    for (size_t i = 0; i < MOST; i++)
        for (int k = 0; k < 300; k++) {
            send_box(m.to[i], 1 + dice() % 4000, (uint32_t)(dice() % 6), (uint32_t)(dice() % 12),
                     sizes[dice() % 6]);
            if (k % 50 == 0) rest(1);
        }
}

/* Many small ones, early for all time. */
static void early(void) {
    call(m.number);
    for (size_t i = 0; i < MOST; i++)
        for (int k = 0; k < 20000 && m.to[i]; k++) {
            send_box(m.to[i], UINT64_MAX - dice() % 1000000, 0, 0, 1);
            if (k % 1000 == 0) rest(1);
        }
}

/* What only the hub may say. */
static void orders(void) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Failed cancel = SHOAL__FAILED__INIT;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    Shoal__Peers nobody = SHOAL__PEERS__INIT;
    Shoal__SlotRun part = SHOAL__SLOT_RUN__INIT, *parts[] = {&part};
    Shoal__Run run = SHOAL__RUN__INIT;
    Shoal__Record record = SHOAL__RECORD__INIT;
    Shoal__Measure measure = SHOAL__MEASURE__INIT;
    uint64_t numbers[2];
    release.n_values = release.n_programs = 1;
    release.values = numbers;
    release.programs = numbers + 1;
    run.n_slots = 1;
    run.slots = parts;
    run.pool = m.pool;
    cancel.error = &error;
    error.message = (char *)"";
    call(m.number);
    for (size_t i = 0; i < MOST; i++)
        for (int k = 0; k < 100 && m.to[i]; k++) {
            cancel.instance = run.instance = run.low = 1 + dice() % 4000;
            numbers[0] = (1 + dice() % 4) << 40 | dice() % 50;
            numbers[1] = dice() % 50;
            part.slot = (uint32_t)(dice() % 8);
            send(m.to[i], SHOAL__KIND__CANCEL, &cancel.base);
            send(m.to[i], SHOAL__KIND__FREE, &release.base);
            send(m.to[i], SHOAL__KIND__PEERS, &nobody.base);
            send(m.to[i], SHOAL__KIND__RUN, &run.base);
            send(m.to[i], SHOAL__KIND__RECORD, &record.base);
            send(m.to[i], SHOAL__KIND__MEASURE, &measure.base);
            send(m.to[i], 60 + (int)(dice() % 40), &cancel.base);
        }
    rest(100);
}

/* Questions for artifacts without end, answers to those of others, and that it has some. */
static void artifacts(void) {
    static uint8_t text[1 << 20];
    Shoal__ArtifactAsk ask = SHOAL__ARTIFACT_ASK__INIT;
    Shoal__Artifact artifact = SHOAL__ARTIFACT__INIT;
    ask.made_of = artifact.digest = artifact.note = (ProtobufCBinaryData){WIRE_DIGEST, text};
    ask.target = ask.device = ask.compiler = (char *)"--iree-opt-level=O0; true";
    call(m.number);
    for (int i = 0; i < 400 && m.hub; i++) {
        text[dice() % WIRE_DIGEST] = (uint8_t)dice();
        ask.token = artifact.token = dice() % 50;
        ask.text = (ProtobufCBinaryData){dice() % 16 ? dice() % 100 : sizeof text, text};
        artifact.bytes = dice();
        send(m.hub, SHOAL__KIND__ARTIFACT_ASK, &ask.base);
        send(m.hub, SHOAL__KIND__ARTIFACT, &artifact.base);
        send(m.to[dice() % MOST], SHOAL__KIND__ARTIFACT_GIVEN, &artifact.base);
    }
}

/* As each of the others: no link may come of it. */
static void numbers(void) {
    for (size_t i = 0; m.peers && i < m.peers->n_peers; i++)
        if (is_other(i)) call(m.peers->peers[i]->peer);
    call(m.number + 1000);
}

/* By way of the hub: frames that are none, for links that are not there, and in others' links. */
static void relay(void) {
    static uint8_t frame[WIRE_CHUNK];
    for (int k = 0; k < 300 && m.hub; k++) {
        Shoal__Relay on = SHOAL__RELAY__INIT;
        wire_frame head = {.type = (uint16_t)(16 + dice() % 4),
                           .kind = (uint16_t)dice(),
                           .bytes = (uint32_t)(dice() % 2000),
                           .offset = dice() % 3000};
        memcpy(frame, &head, sizeof head);
        for (size_t i = 0; i < 64; i++) frame[sizeof head + i] = (uint8_t)dice();
        on.peer = (uint32_t)(dice() % 10);
        on.back = dice() % 2;
        on.link = (uint32_t)(dice() % 6);
        on.reset = dice() % 5 == 0;
        size_t n = k % 100 == 99 ? sizeof frame : sizeof head + head.bytes;
        on.frame = (ProtobufCBinaryData){n, frame};
        send(m.hub, SHOAL__KIND__RELAY, &on.base);
        if (k % 20 == 0) rest(1);
    }
}

/* ---- with all the links that it may have ---- */

enum { LINKS = 300, VICTIMS = 4 };
static struct member crowd[LINKS];
static size_t in_crowd;

/* The other members of the pool are those that were there first. */
static void gather(int64_t until) {
    struct member first = m;
    while (in_crowd < LINKS && base_now() < until) {
        m = (struct member){.state = first.state, .hub_address = first.hub_address};
        m.role = first.role;
        m.end = first.end;
        if (!join(m.hub_address, m.role)) break;
        crowd[in_crowd++] = m;
    }
    m = first;
    m.linked = in_crowd;
}

/* Each of them has a turn. */
static void each(void (*turn)(void)) {
    struct member first = m;
    for (size_t i = 0; i < in_crowd && base_now() < first.end; i++) {
        m = crowd[i];
        if (m.hub) turn();
        if (m.peer) rest(1);
        first.sent += m.sent;
        m.sent = 0;
        crowd[i] = m;
    }
    m = first;
}

static int64_t half_time(void) { return base_now() + (m.end - base_now()) / 2; }

/* Questions whose answers nobody reads, and frames for everybody. */
static void queue_all(void) {
    enum { FRAMES = 24, QUESTIONS = 2000 };
    static uint8_t frame[WIRE_CHUNK];
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    wire_frame head = {.type = WIRE_FRAME_DATA, .bytes = sizeof frame - sizeof head};
    memcpy(frame, &head, sizeof head);
    for (int k = 0; k < QUESTIONS; k++) send(m.hub, SHOAL__KIND__STATUS_ASK, &ask.base);
    for (int k = 0; k < FRAMES; k++) {
        Shoal__Relay on = SHOAL__RELAY__INIT;
        on.peer = 1 + (uint32_t)(dice() % VICTIMS);
        on.frame = (ProtobufCBinaryData){sizeof frame, frame};
        send(m.hub, SHOAL__KIND__RELAY, &on.base);
    }
}

static void greedy(void) {
    gather(half_time());
    each(queue_all);
}

/* Messages of which all comes but the end. */
static void begin_large(void *context) {
    static const uint8_t piece[WIRE_CHUNK];
    wire_framed *link = (wire_framed *)m.hub;
    wire_frame frame = {.type = WIRE_FRAME_MESSAGE,
                        .kind = SHOAL__KIND__SUBMIT,
                        .bytes = sizeof piece,
                        .offset = m.sent << 20,
                        .total = WIRE_MAX_MESSAGE};
    wire_framed_went(link, wire_frame_bytes(frame.bytes));
    if (m.hub && frame.offset + frame.bytes < frame.total &&
        link->carrier->put(link, &frame, piece) == SHOAL_OK)
        m.sent++;
}

static void send_pieces(void) {
    for (int i = 0; i < 62 && m.hub && base_now() < m.end; i++) {
        wire_call(m.peer, begin_large, NULL);
        rest(1);
    }
}

static void pieces(void) {
    gather(half_time());
    each(send_pieces);
}

/* Values without end: a program that hands its input on, with others beside it. */
static void send_values(void) {
    enum { AT_ONCE = 20000, MESSAGES = 12 };
    static Shoal__Upload uploads[AT_ONCE], *pointers[AT_ONCE];
    const shoal_type type = {.dtype = SHOAL_F32};
    base_str bytes = {0};
    graph *g = NULL;
    uint32_t value;
    uint8_t number[4] = {0};
    if (graph_new(0, &g) != SHOAL_OK || graph_add_input(g, &type, &value) != SHOAL_OK ||
        graph_add_output(g, value) != SHOAL_OK ||
        graph_encode(graph_data(g), false, &bytes) != SHOAL_OK)
        exit(3);
    graph_destroy(&g);
    uint64_t next = ((uint64_t)m.session << 40) + 1;
    for (int k = 0; k < MESSAGES && m.hub; k++) {
        Shoal__Submit submit = SHOAL__SUBMIT__INIT;
        uint64_t input = next, output;
        for (int i = 0; i < AT_ONCE; i++) {
            shoal__upload__init(&uploads[i]);
            pointers[i] = &uploads[i];
            uploads[i].value = next++;
            uploads[i].dtype = SHOAL_F32;
            uploads[i].data = (ProtobufCBinaryData){sizeof number, number};
        }
        output = next++;
        submit.program = (uint64_t)m.session << 40;
        submit.graph = (ProtobufCBinaryData){bytes.size, (uint8_t *)bytes.data};
        submit.inputs = &input;
        submit.outputs = &output;
        submit.n_inputs = submit.n_outputs = 1;
        submit.uploads = pointers;
        submit.n_uploads = AT_ONCE;
        send(m.hub, SHOAL__KIND__SUBMIT, &submit.base);
        rest(20);
    }
    base_str_fini(&bytes);
}

static void hoard(void) {
    gather(base_now() + (m.end - base_now()) / 4);
    each(send_values);
}

/* Comes and goes as fast as it can, among as many as may be. */
static void come_and_go(void) {
    gather(half_time());
    while (base_now() < m.end && join(m.hub_address, m.role)) m.sent++;
}

/* A program on all workers, which have links with us: of something large that they are told lies
 * here (rounds: 0), or a loop that brings us something large each round. It is sent again once it
 * has failed. */
static void promise(uint64_t rounds) {
    const int64_t shape[] = {1 << 20};
    const shoal_type type = {.dtype = SHOAL_F32, .rank = 1, .dims = {1 << 20}};
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32),
                                graph_ints(SHOAL_ATTR_SHAPE, shape, 1)};
    static uint64_t made;
    const uint64_t session = (uint64_t)m.session << 40, before = m.failed_programs;
    uint64_t input = session + ++made, output = session + ++made;
    uint32_t value, home = 0;
    base_str bytes = {0};
    graph *g = NULL;
    Shoal__Upload upload = SHOAL__UPLOAD__INIT, *uploads[] = {&upload};
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    if (graph_new(0, &g) != SHOAL_OK ||
        (rounds ? graph_add(g, GRAPH_IOTA, NULL, 0, attrs, 3, NULL, 0, &value)
                : graph_add_input(g, &type, &value)) != SHOAL_OK ||
        graph_add(g, GRAPH_NEGATE, &value, 1, NULL, 0, NULL, 0, &value) != SHOAL_OK ||
        graph_add_output(g, value) != SHOAL_OK ||
        graph_encode(graph_data(g), false, &bytes) != SHOAL_OK)
        exit(3);
    graph_destroy(&g);
    upload.value = input;
    upload.dtype = SHOAL_F32;
    upload.n_dims = 1;
    upload.dims = (int64_t *)shape;
    submit.program = session + ++made;
    submit.graph = (ProtobufCBinaryData){bytes.size, (uint8_t *)bytes.data};
    submit.inputs = &input;
    submit.n_inputs = submit.n_uploads = rounds ? 0 : 1;
    submit.uploads = uploads;
    submit.outputs = &output;
    submit.n_outputs = 1;
    submit.rounds = rounds;
    submit.home = &home;
    submit.n_home = rounds ? 1 : 0;
    call(m.number);
    send(m.hub, SHOAL__KIND__SUBMIT, &submit.base);
    base_str_fini(&bytes);
    while (m.hub && base_now() < m.end && m.failed_programs == before) rest(20);
}

/* Results that nobody takes, of as many programs as may wait: until they fail, and again. */
static void leave_results(bool lies) {
    enum { MANY = 200 };
    const int64_t shape[] = {1 << 20};
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32),
                                graph_ints(SHOAL_ATTR_SHAPE, shape, 1)};
    const uint64_t session = (uint64_t)m.session << 40;
    uint64_t output, made = 1;
    uint32_t value, home = 0;
    base_str bytes = {0};
    graph *g = NULL;
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    if (graph_new(0, &g) != SHOAL_OK ||
        graph_add(g, GRAPH_IOTA, NULL, 0, attrs, 3, NULL, 0, &value) != SHOAL_OK ||
        graph_add(g, GRAPH_NEGATE, &value, 1, NULL, 0, NULL, 0, &value) != SHOAL_OK ||
        graph_add_output(g, value) != SHOAL_OK ||
        graph_encode(graph_data(g), false, &bytes) != SHOAL_OK)
        exit(3);
    graph_destroy(&g);
    m.unread = true;
    m.lies = lies;
    call(m.number);
    submit.program = session + 1;
    submit.graph = (ProtobufCBinaryData){bytes.size, (uint8_t *)bytes.data};
    submit.outputs = &output;
    submit.n_outputs = submit.n_home = submit.n_release = 1;
    submit.home = &home;
    for (uint64_t last = 0; m.hub && base_now() < m.end; last = output) {
        submit.release = &last;
        submit.n_release = last != 0;
        output = session + ++made;
        send(m.hub, SHOAL__KIND__SUBMIT, &submit.base);
        rest(2);
        uint64_t before = m.failed_programs;
        while (made % MANY == 0 && m.hub && base_now() < m.end && m.failed_programs == before)
            rest(20);
    }
    base_str_fini(&bytes);
}

static void leave_home(void) { leave_results(false); }
static void deny(void) { leave_results(true); }
static void owe(void) { promise(0); }
static void leave_unread(void) { promise(1000000); }

static const struct {
    const char *name;
    void (*run)(void);
} attacks[] = {{"outcomes", outcomes},
               {"values", values},
               {"kinds", kinds},
               {"flood", flood},
               {"boxes", boxes},
               {"early", early},
               {"orders", orders},
               {"numbers", numbers},
               {"relay", relay},
               {"artifacts", artifacts},
               {"greedy", greedy},
               {"pieces", pieces},
               {"hoard", hoard},
               {"come_and_go", come_and_go},
               {"leave_home", leave_home},
               {"deny", deny},
               {"owe", owe},
               {"leave_unread", leave_unread}};
/* The last eight take many links, or long, and are not among all. */
enum { ATTACKS = sizeof attacks / sizeof *attacks, ALONE = ATTACKS - 8 };

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "Usage: malice HUB client|worker|both ATTACK|all SECONDS\n");
        return 2;
    }
    int64_t end = base_now() + (int64_t)(atof(argv[4]) * 1e9);
    bool all = !strcmp(argv[3], "all");
    m.hub_address = argv[1];
    m.role = argv[2];
    m.end = end;
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    for (size_t turn = 0; base_now() < end; turn++) {
        if (!m.hub && !join(argv[1], argv[2])) {
            nanosleep(&(struct timespec){.tv_nsec = 50 * BASE_MS}, NULL);
            continue;
        }
        for (size_t i = 0; i < ATTACKS; i++)
            if (all ? i == turn % ALONE : !strcmp(attacks[i].name, argv[3])) attacks[i].run();
        if (m.peer) rest(20);
    }
    wire_peer_destroy(&m.peer);
    if (m.peers) shoal__peers__free_unpacked(m.peers, NULL);
    printf("joined %llu, sent %llu, linked %llu, refused %llu, closed %llu, failed %llu\n%s\n",
           (unsigned long long)m.joined, (unsigned long long)m.sent, (unsigned long long)m.linked,
           (unsigned long long)m.refused, (unsigned long long)m.closed,
           (unsigned long long)m.failed_programs, m.why);
    return m.joined ? 0 : 1;
}
