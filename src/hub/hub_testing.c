#include "hub/hub_testing.h"

#include "graph/testing.h"

static shoal_status opened(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting) {
    pool *p = context;
    if (accepting) {
        p->sessions[p->n_ends] = welcome->session;
        p->ends[p->n_ends++] = link;
    }
    p->has_signer = welcome->artifacts.len == WIRE_KEY;
    if (p->has_signer) memcpy(p->signer, welcome->artifacts.data, WIRE_KEY);
    return SHOAL_OK;
}

static shoal_status message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                            size_t bytes) {
    pool *p = context;
    if (kind == SHOAL__KIND__FINISHED) {
        Shoal__Finished *finished = shoal__finished__unpack(NULL, bytes, body);
        assert_non_null(finished);
        p->news++;
        p->outcomes += finished->n_outcomes;
        for (size_t i = 0; i < finished->n_outcomes; i++) p->parts += finished->outcomes[i]->more;
        shoal__finished__free_unpacked(finished, NULL);
    }
    if (kind == SHOAL__KIND__EXPLAINED) {
        Shoal__Explained *explained = shoal__explained__unpack(NULL, bytes, body);
        assert_non_null(explained);
        snprintf(p->explained, sizeof p->explained, "%s",
                 explained->error ? explained->error->message : "");
        shoal__explained__free_unpacked(explained, NULL);
    }
    if (kind == SHOAL__KIND__EVENTS) {
        Shoal__Events *events = shoal__events__unpack(NULL, bytes, body);
        assert_non_null(events);
        if (events->gone) p->gone = events->peer;
        shoal__events__free_unpacked(events, NULL);
    }
    if (kind == SHOAL__KIND__PEERS) {
        Shoal__Peers *peers = shoal__peers__unpack(NULL, bytes, body);
        assert_non_null(peers);
        p->rolls++;
        p->called += peers->n_peers;
        p->left += peers->n_left;
        shoal__peers__free_unpacked(peers, NULL);
    }
    if (kind == SHOAL__KIND__STATUS) {
        Shoal__Status *status = shoal__status__unpack(NULL, bytes, body);
        assert_non_null(status);
        p->values = status->values;
        if (p->told) shoal__status__free_unpacked(p->told, NULL);
        p->told = status;
    }
    if (kind == SHOAL__KIND__RELAYED) {
        if (p->relayed) shoal__relay__free_unpacked(p->relayed, NULL);
        p->relayed = shoal__relay__unpack(NULL, bytes, body);
        assert_non_null(p->relayed);
    }
    if (kind == SHOAL__KIND__ARTIFACT_WANTED) {
        if (p->wanted) shoal__artifact_ask__free_unpacked(p->wanted, NULL);
        p->wanted = shoal__artifact_ask__unpack(NULL, bytes, body);
        assert_non_null(p->wanted);
        p->n_wanted++;
    }
    if (kind == SHOAL__KIND__ARTIFACT_GIVEN) {
        if (p->given) shoal__artifact__free_unpacked(p->given, NULL);
        p->given = shoal__artifact__unpack(NULL, bytes, body);
        assert_non_null(p->given);
        p->n_given++;
    }
    if (kind == SHOAL__KIND__CANCEL) {
        Shoal__Failed *cancelled = shoal__failed__unpack(NULL, bytes, body);
        assert_non_null(cancelled);
        p->cancels++;
        p->rounds = cancelled->rounds;
        shoal__failed__free_unpacked(cancelled, NULL);
    }
    if (kind == SHOAL__KIND__FREE) {
        Shoal__Release *release = shoal__release__unpack(NULL, bytes, body);
        assert_non_null(release);
        p->freed += release->n_values;
        shoal__release__free_unpacked(release, NULL);
    }
    if (kind != SHOAL__KIND__RUN) return SHOAL_OK;
    p->freed_before = p->freed;
    Shoal__Run *run = shoal__run__unpack(NULL, bytes, body);
    assert_non_null(run);
    p->runs[run->session] += run->instance != p->last[run->session];
    p->last[run->session] = run->instance;
    shoal__run__free_unpacked(run, NULL);
    return SHOAL_OK;
}

static void closed(void *context, wire_link *link, shoal_status why, const char *reason) {
    pool *p = context;
    p->why = why;
    snprintf(p->reason, sizeof p->reason, "%s", reason);
}

static void failed(void *context, uint64_t cookie, shoal_status why, const char *reason) {
    closed(context, NULL, why, reason);
}

void pump(pool *p) {
    for (int i = 0; i < 16; i++) wire_pump_once(p->peer, &p->peer->sets[0], 0);
}

int setup(void **state) {
    pool *p = calloc(1, sizeof *p);
    Shoal__Device device = SHOAL__DEVICE__INIT;
    Shoal__Device *devices[] = {&device};
    device.backend = (char *)"cpu";
    device.memory = 1 << 20;
    device.threads = 1;
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.role = SHOAL__ROLE__CLIENT;
    hello.name = (char *)"tester";
    hello.incarnation = 1;
    hello.n_devices = 1;
    hello.devices = devices;
    assert_int_equal(wire_peer_new(&hello, &p->peer), SHOAL_OK);
    assert_int_equal(hub_new(p->peer, &p->h), SHOAL_OK);
    wire_handlers handlers = {.context = p,
                              .opened = opened,
                              .message = message,
                              .closed = closed,
                              .connect_failed = failed};
    wire_handle(p->peer, WIRE_WORKER, &handlers);
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(wire_connect(p->peer, "inproc", 1, 1000), SHOAL_OK);
        pump(p);
    }
    assert_int_equal(p->n_ends, MEMBERS);
    *state = p;
    return 0;
}

int teardown(void **state) {
    pool *p = *state;
    wire_peer_destroy(&p->peer);
    hub_destroy(&p->h);
    if (p->told) shoal__status__free_unpacked(p->told, NULL);
    if (p->relayed) shoal__relay__free_unpacked(p->relayed, NULL);
    if (p->wanted) shoal__artifact_ask__free_unpacked(p->wanted, NULL);
    if (p->given) shoal__artifact__free_unpacked(p->given, NULL);
    free(p);
    return 0;
}

void program(uint32_t n, base_str *out) { test_chain(n, 1, out); }

void deliver(pool *p, int m, Shoal__Kind kind, const ProtobufCMessage *message) {
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(bytes + 1);
    protobuf_c_message_pack(message, packed);
    for (size_t i = 0; i < p->h->users.count && !p->turns; i++)
        p->h->users.data[i]->asked_at = p->h->users.data[i]->free_at = INT64_MIN / 2;
    wire_link_deliver_message(p->ends[m], kind, packed, bytes);
    free(packed);
    pump(p);
}

/* rounds: of a loop; 0: it is none. */
static void submit_program(pool *p, int m, uint32_t n, uint64_t rounds, uint64_t k) {
    base_str text;
    program(n, &text);
    uint64_t session = (uint64_t)p->sessions[m] << 40, output = session + k;
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    submit.program = session + k;
    submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    submit.n_outputs = 1;
    submit.outputs = &output;
    submit.rounds = rounds;
    deliver(p, m, SHOAL__KIND__SUBMIT, &submit.base);
    base_str_fini(&text);
}

void submit(pool *p, int m, uint32_t n, uint64_t k) { submit_program(p, m, n, 0, k); }

void submit_loop(pool *p, int m, uint64_t rounds, uint64_t k) {
    submit_program(p, m, 4, rounds, k);
}

void finish_oldest(pool *p) {
    Shoal__Done done = SHOAL__DONE__INIT;
    done.instance = p->h->first->id;
    for (int m = 0; m < MEMBERS; m++)
        if (p->ends[m]) deliver(p, m, SHOAL__KIND__DONE, &done.base);
}

wire_link *add_worker(pool *p) {
    p->peer->hello->role = SHOAL__ROLE__WORKER;
    uint32_t before = p->n_ends;
    assert_int_equal(wire_connect(p->peer, "inproc", 1, 1000), SHOAL_OK);
    pump(p);
    p->peer->hello->role = SHOAL__ROLE__CLIENT;
    return p->n_ends > before ? p->ends[before] : NULL;
}

hub_peer *of_another(pool *p, int member, uint8_t user) {
    const uint8_t key[WIRE_KEY] = {user};
    hub_peer *peer = wire_link_get(p->ends[member], WIRE_HUB);
    hub_user_leave(p->h, peer->user);
    peer->user = hub_user_of(p->h, key);
    assert_non_null(peer->user);
    return peer;
}
