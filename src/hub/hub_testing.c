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

/* ---- what the first member's session submits ---- */

uint64_t number_of(const pool *p, uint64_t k) { return ((uint64_t)p->sessions[0] << 40) + k; }

hub_value *value_of(const pool *p, uint64_t k) {
    hub_value *value = base_map_get(&p->h->values, number_of(p, k));
    assert_non_null(value);
    return value;
}

bool can_recover(const hub *h, const hub_value *value) {
    hub_ways ways = {0};
    bool can = hub_can_recover(h, value, &ways);
    hub_ways_forget(&ways);
    return can;
}

hub_peer *client_of(const pool *p) { return base_map_get(&p->h->sessions, p->sessions[0]); }

uint32_t check(graph *g, const char *line, uint32_t x) {
    ok(graph_at(g, line, NULL));
    uint32_t checked = test_add(g, GRAPH_IN_RANGE, VALUES(x),
                                ATTRS(INTS(START_INDICES, 0), INTS(LIMIT_INDICES, 9)));
    ok(graph_at(g, NULL, NULL));
    return checked;
}

void negates(uint32_t n, shoal_dtype dtype, base_str *out) {
    graph *g;
    uint32_t inputs[TEST_ALL];
    ok(graph_new(0, &g));
    for (uint32_t i = 0; i < n; i++) {
        const shoal_type type = {.dtype = dtype, .rank = 1, .dims = {TEST_N}};
        inputs[i] = test_input(g, type);
    }
    for (uint32_t i = 0; i < n; i++)
        ok(graph_add_output(g, test_add(g, GRAPH_NEGATE, &inputs[i], 1, NULL, 0)));
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(inputs[0], inputs[n - 1]), NULL, 0)));
    base_str_init(out);
    ok(graph_encode(graph_data(g), true, out));
    graph_destroy(&g);
}

void submit_of(pool *p, base_str *text, uint64_t k, const uint64_t *of, uint32_t n_inputs,
               uint32_t n, uint64_t rounds, uint64_t upload) {
    uint64_t inputs[TEST_ALL], outputs[TEST_ALL + 1];
    uint32_t carry[TEST_ALL] = {0};
    for (uint32_t i = 0; i < n_inputs; i++) inputs[i] = number_of(p, of[i]);
    for (uint32_t i = 0; i < n; i++) outputs[i] = number_of(p, k + i);
    Shoal__Upload up = SHOAL__UPLOAD__INIT, *ups = &up;
    int64_t dims[] = {TEST_N};
    up.value = number_of(p, upload);
    up.dtype = SHOAL_F32;
    up.dims = dims;
    up.n_dims = 1;
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    submit.program = number_of(p, k);
    submit.graph = (ProtobufCBinaryData){text->size, (uint8_t *)text->data};
    submit.inputs = inputs;
    submit.n_inputs = n_inputs;
    submit.outputs = outputs;
    submit.n_outputs = n;
    submit.uploads = &ups;
    submit.n_uploads = upload > 0;
    submit.rounds = rounds;
    submit.carry = carry;
    submit.n_carry = rounds ? n_inputs : 0;
    deliver(p, 0, SHOAL__KIND__SUBMIT, &submit.base);
    base_str_fini(text);
}

void submit_graph(pool *p, base_str *text, uint64_t k, uint64_t from, uint32_t n_inputs,
                  uint32_t n) {
    const uint64_t of[TEST_ALL] = {from, from + 1, from + 2, from + 3};
    submit_of(p, text, k, of, n_inputs, n, 0, 0);
}

hub_instance *first_of(const pool *p, hub_purpose purpose) {
    hub_instance *first = p->h->first;
    while (first && (first->status != SHOAL_OK || first->purpose != purpose)) first = first->next;
    return first;
}

void fail_first_of(pool *p, hub_purpose purpose, shoal_status status, const char *message) {
    hub_instance *first = first_of(p, purpose);
    assert_non_null(first);
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = status;
    error.message = (char *)message;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = first->id;
    failed.error = &error;
    deliver(p, first->parts[0].peer == p->h->peers.data[0] ? 0 : 1, SHOAL__KIND__FAILED,
            &failed.base);
}

void fail_first(pool *p, shoal_status status, const char *message) {
    fail_first_of(p, HUB_ASKED, status, message);
}

void finish_all(pool *p) {
    for (int i = 0; i < 100 && p->h->first; i++) finish_oldest(p);
    assert_null(p->h->first);
    assert_int_equal(client_of(p)->waiting, 0);
}

void assert_failed(const pool *p, uint64_t k, uint32_t n, const char *which) {
    char found[2 * TEST_ALL] = {0};
    for (uint32_t i = 0; i < n; i++) found[i] = value_of(p, k + i)->status == SHOAL_OK ? '-' : 'x';
    assert_string_equal(found, which);
}

void let_go(pool *p, const uint64_t *ks, size_t n) {
    uint64_t values[32];
    for (size_t i = 0; i < n; i++) values[i] = number_of(p, ks[i]);
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.values = values;
    release.n_values = n;
    deliver(p, 0, SHOAL__KIND__RELEASE, &release.base);
}
