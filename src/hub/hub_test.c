/* What one session may take of the hub, and what it may not take from others. */
#include "hub/hub_testing.h"

#include <malloc.h>
#include <math.h>

/* Who is far ahead hears when half is through; who waits for the last, at once; of a failure, at
 * once; and of all after a while. */
static void test_told_in_time(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k <= 6; k++) submit(p, 0, 4, k);
    const size_t news[] = {0, 0, 1, 1, 2, 3}, outcomes[] = {0, 0, 3, 3, 5, 6};
    for (int i = 0; i < 6; i++) {
        finish_oldest(p);
        assert_int_equal(p->news, news[i]);
        assert_int_equal(p->outcomes, outcomes[i]);
    }
    for (uint64_t k = 7; k <= 12; k++) submit(p, 0, 4, k);
    finish_oldest(p);
    assert_int_equal(p->news, 3);
    hub_instance_fail(p->h, p->h->first, SHOAL_NO_MEMORY, "too large");
    pump(p);
    assert_int_equal(p->news, 4);
    assert_int_equal(p->outcomes, 8);
    finish_oldest(p); /* it was told of already */
    finish_oldest(p);
    assert_int_equal(p->outcomes, 8);
    assert_int_equal(hub_apply(p->h, &(hub_event){.kind = HUB_TICK}), SHOAL_OK);
    pump(p);
    assert_int_equal(p->outcomes, 9);
}

/* What is released with a program is free before that is handed out, if that is much. */
static void test_freed_first(void **state) {
    pool *p = *state;
    submit(p, 0, HUB_MUCH_FREED / sizeof(float), 1);
    finish_oldest(p);
    assert_int_equal(p->freed, 0);
    uint64_t session = (uint64_t)p->sessions[0] << 40, first = session + 1, output = session + 2;
    Shoal__Submit again = SHOAL__SUBMIT__INIT;
    again.program = session + 1;
    again.n_outputs = again.n_release = 1;
    again.outputs = &output;
    again.release = &first;
    deliver(p, 0, SHOAL__KIND__SUBMIT, &again.base);
    assert_int_equal(p->runs[p->sessions[0]], 2);
    assert_true(p->freed > 0);
    assert_int_equal(p->freed_before, p->freed);
}

static void test_flood(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k <= HUB_MAX_WAITING; k++) submit(p, 0, 4, k);
    assert_false(p->ends[0]->closing);
    submit(p, 0, 4, HUB_MAX_WAITING + 1);
    assert_int_equal(p->why, SHOAL_BUSY);
    assert_non_null(strstr(p->reason, "1024 programs waiting"));
    /* The other goes on. */
    submit(p, 1, 4, 1);
    assert_int_equal(p->h->sessions.count, 1);
    assert_int_equal(((hub_peer *)base_map_get(&p->h->sessions, p->sessions[1]))->waiting, 1);
}

static void test_memory_waits_alone(void **state) {
    pool *p = *state;
    uint32_t *runs = p->runs;
    uint32_t a = p->sessions[0], b = p->sessions[1];
    submit(p, 0, 150000, 1); /* with what it needs meanwhile over half of each device's 1 MiB */
    assert_int_equal(runs[a], 1);
    submit(p, 0, 150000, 2); /* has to wait for memory */
    submit(p, 0, 4, 3);      /* and this for its turn */
    assert_int_equal(runs[a], 1);
    submit(p, 1, 4, 1);
    submit(p, 1, 4, 2);
    assert_int_equal(runs[b], 2);
    /* Not for ever: after a second nobody passes. */
    for (hub_instance *i = p->h->first; i; i = i->next)
        if (i->blocked) i->blocked -= 2000000000;
    submit(p, 1, 4, 3);
    assert_int_equal(runs[b], 2);
}

/* The hub says who sends, whatever the sender says; of who is not there it tells the sender. */
static void test_passes_on(void **state) {
    pool *p = *state;
    uint8_t bytes[] = "whatever";
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    uint32_t numbers[MEMBERS];
    for (int m = 0; m < MEMBERS; m++) numbers[m] = p->h->peers.data[m]->number;
    relay.peer = numbers[1];
    relay.back = true;
    relay.link = 7;
    relay.frame = (ProtobufCBinaryData){sizeof bytes, bytes};
    deliver(p, 0, SHOAL__KIND__RELAY, &relay.base);
    assert_non_null(p->relayed);
    assert_null(p->relayed->error);
    assert_int_equal(p->relayed->peer, numbers[0]);
    assert_true(p->relayed->back);
    assert_int_equal(p->relayed->link, 7);
    assert_int_equal(p->relayed->frame.len, sizeof bytes);
    assert_memory_equal(p->relayed->frame.data, bytes, sizeof bytes);
    assert_int_equal(p->h->links.count, 1);
    assert_int_equal(p->h->peers.data[1]->relayed, sizeof bytes);
    wire_close(p->ends[1], SHOAL_CLOSED, "bye");
    pump(p);
    assert_int_equal(p->h->links.count, 0);
    assert_false(p->ends[0]->closing);
    deliver(p, 0, SHOAL__KIND__RELAY, &relay.base);
    assert_int_equal(p->relayed->peer, numbers[1]);
    assert_false(p->relayed->back);
    assert_int_equal(p->relayed->link, 7);
    assert_string_equal(p->relayed->error->message, "it has left the pool");
    assert_int_equal(p->relayed->frame.len, 0);
    relay.frame = (ProtobufCBinaryData){HUB_MAX_FRAME + 1, calloc(1, HUB_MAX_FRAME + 1)};
    assert_non_null(relay.frame.data);
    deliver(p, 0, SHOAL__KIND__RELAY, &relay.base);
    assert_non_null(strstr(p->reason, "bytes to be passed on, at most"));
    free(relay.frame.data);
}

static void deliver_to(pool *p, wire_link *end, Shoal__Kind kind, const ProtobufCMessage *message) {
    wire_link *before = p->ends[0];
    p->ends[0] = end;
    deliver(p, 0, kind, message);
    p->ends[0] = before;
}

/* What only clients may: of a worker it is dropped, and the hub goes on. */
static void test_not_theirs(void **state) {
    pool *p = *state;
    size_t devices = p->peer->hello->n_devices;
    p->peer->hello->n_devices = 0;
    assert_null(add_worker(p));
    assert_non_null(strstr(p->reason, "a worker offers 1 to 64 devices, not 0"));
    p->peer->hello->n_devices = devices;
    p->peer->hello->devices[0]->weight = 1.0 / 0.0;
    assert_null(add_worker(p));
    assert_non_null(strstr(p->reason, "the weight of a device is inf"));
    p->peer->hello->devices[0]->weight = 0.0 / 0.0;
    assert_null(add_worker(p));
    p->peer->hello->devices[0]->weight = 0;
    wire_link *worker = add_worker(p);
    assert_non_null(worker);
    const hub_peer *member = wire_link_get(worker, WIRE_HUB);
    base_str text;
    program(4, &text);
    Shoal__Upload upload = SHOAL__UPLOAD__INIT, *uploads[] = {&upload};
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    uint64_t output = 1;
    upload.value = 2;
    submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    submit.n_outputs = 1;
    submit.outputs = &output;
    submit.n_uploads = 1;
    submit.uploads = uploads;
    Shoal__ExplainAsk ask = SHOAL__EXPLAIN_ASK__INIT;
    ask.submit = &submit;
    deliver_to(p, worker, SHOAL__KIND__SUBMIT, &submit.base);
    deliver_to(p, worker, SHOAL__KIND__EXPLAIN_ASK, &ask.base);
    deliver_to(p, worker, (Shoal__Kind)60, &submit.base);
    assert_false(worker->closing);
    assert_int_equal(member->strange, 2);
    assert_int_equal(p->h->values.count + p->h->programs.count, 0);
    base_str_fini(&text);
}

/* Of an instance that others run: neither its end nor its failure; and no speed unasked. */
static void test_not_concerned(void **state) {
    pool *p = *state;
    submit(p, 0, 4, 1);
    wire_link *worker = add_worker(p);
    assert_non_null(worker);
    const hub_peer *member = wire_link_get(worker, WIRE_HUB);
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Failed failure = SHOAL__FAILED__INIT;
    Shoal__Done done = SHOAL__DONE__INIT;
    Shoal__Speed speed = SHOAL__SPEED__INIT;
    Shoal__Events events = SHOAL__EVENTS__INIT;
    hub_instance *instance = p->h->first;
    uint32_t waiting = instance->n_waiting;
    failure.instance = done.instance = instance->id;
    failure.error = &error;
    error.status = SHOAL_INVALID;
    speed.slot = member->slots[0]->number;
    Shoal__Figure figure = SHOAL__FIGURE__INIT, *figures[] = {&figure};
    figure.value = 1e30;
    speed.figures = figures;
    speed.n_figures = 1;
    events.asker = p->h->peers.data[0]->number;
    deliver_to(p, worker, SHOAL__KIND__FAILED, &failure.base);
    deliver_to(p, worker, SHOAL__KIND__DONE, &done.base);
    deliver_to(p, worker, SHOAL__KIND__SPEED, &speed.base);
    deliver_to(p, worker, SHOAL__KIND__RECORDED, &events.base);
    assert_int_equal(member->strange, 4);
    assert_int_equal(instance->status, SHOAL_OK);
    assert_int_equal(instance->n_waiting, waiting);
    assert_true(member->slots[0]->speeds.of[0] == 0);
    /* Who takes part may fail it, with a status that there is. */
    error.status = 0;
    deliver(p, 0, SHOAL__KIND__FAILED, &failure.base);
    assert_int_equal(instance->status, SHOAL_INTERNAL);
    assert_int_equal(p->outcomes, 1);
    /* And say once that it is through. */
    deliver(p, 0, SHOAL__KIND__DONE, &done.base);
    deliver(p, 0, SHOAL__KIND__DONE, &done.base);
    assert_ptr_equal(p->h->first, instance);
    deliver(p, 1, SHOAL__KIND__DONE, &done.base);
    assert_null(p->h->first);
}

/* Who asks for events does not wait for a member that leaves before it has answered. */
static void test_events_of_who_left(void **state) {
    pool *p = *state;
    const hub_peer *member = wire_link_get(p->ends[0], WIRE_HUB);
    uint32_t number = member->number;
    Shoal__EventsAsk ask = SHOAL__EVENTS_ASK__INIT;
    ask.token = 3;
    deliver(p, 1, SHOAL__KIND__EVENTS_ASK, &ask.base);
    assert_int_equal(p->gone, 0);
    wire_close(p->ends[0], SHOAL_LOST, "it was killed");
    pump(p);
    assert_int_equal(p->gone, number);
}

/* What waits for memory gets what is let go of within a while, and is told after that. */
static void test_memory_is_waited_for(void **state) {
    pool *p = *state;
    const uint32_t *runs = p->runs;
    uint32_t a = p->sessions[0];
    submit(p, 0, 200000, 1);
    finish_oldest(p);
    submit(p, 0, 200000, 2);
    assert_int_equal(runs[a], 1);
    assert_int_equal(p->h->first->status, SHOAL_OK);
    uint64_t value = ((uint64_t)a << 40) + 1;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.values = &value;
    release.n_values = 1;
    deliver(p, 0, SHOAL__KIND__RELEASE, &release.base);
    assert_int_equal(runs[a], 2);
    finish_oldest(p);
    submit(p, 0, 200000, 3);
    p->h->first->blocked -= HUB_PATIENCE;
    assert_int_equal(hub_apply(p->h, &(hub_event){.kind = HUB_TICK}), SHOAL_OK);
    pump(p);
    assert_null(p->h->first);
    assert_int_equal(runs[a], 2);
}

/* Explained twice, and nothing is there that was not before. */
static void test_explain_changes_nothing(void **state) {
    pool *p = *state;
    int64_t dim = 400;
    base_str text;
    program(400, &text);
    Shoal__Upload upload[2], *uploads[] = {&upload[0], &upload[1]};
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    uint64_t session = (uint64_t)p->sessions[0] << 40, output = session + 9;
    for (int i = 0; i < 2; i++) {
        shoal__upload__init(&upload[i]);
        upload[i].value = session + 1 + (uint64_t)i;
        upload[i].dtype = SHOAL_F32;
    }
    upload[0].dims = &dim;
    upload[0].n_dims = 1;
    float small = 1;
    upload[1].data = (ProtobufCBinaryData){sizeof small, (uint8_t *)&small};
    submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    submit.n_outputs = 1;
    submit.outputs = &output;
    submit.n_uploads = 2;
    submit.uploads = uploads;
    Shoal__ExplainAsk ask = SHOAL__EXPLAIN_ASK__INIT;
    ask.submit = &submit;
    for (int i = 0; i < 2; i++) {
        deliver(p, 0, SHOAL__KIND__EXPLAIN_ASK, &ask.base);
        assert_false(p->ends[0]->closing);
        assert_int_equal(p->h->values.count + p->h->programs.count, 0);
        assert_int_equal(p->h->next_variant, 1);
    }
    base_str_fini(&text);
}

/* Submits -upload, which lies in the client's memory, as its values k + 1 and k. */
static void submit_upload(pool *p, int m, uint32_t n, uint64_t k) {
    graph *g;
    uint32_t value;
    base_str text = {0};
    const shoal_type type = {.dtype = SHOAL_F32, .rank = 1, .dims = {n}};
    int64_t dim = n;
    assert_int_equal(graph_new(0, &g), SHOAL_OK);
    assert_int_equal(graph_add_input(g, &type, &value), SHOAL_OK);
    assert_int_equal(graph_add(g, GRAPH_NEGATE, &value, 1, NULL, 0, NULL, 0, &value), SHOAL_OK);
    assert_int_equal(graph_add_output(g, value), SHOAL_OK);
    assert_int_equal(graph_encode(graph_data(g), false, &text), SHOAL_OK);
    graph_destroy(&g);
    Shoal__Upload upload = SHOAL__UPLOAD__INIT, *uploads[] = {&upload};
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    uint64_t session = (uint64_t)p->sessions[m] << 40, output = session + k;
    bool first = !base_map_get(&p->h->programs, session + 1);
    upload.value = output + 1;
    upload.dtype = SHOAL_F32;
    upload.dims = &dim;
    upload.n_dims = 1;
    submit.program = session + 1;
    if (first) submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    submit.n_inputs = submit.n_outputs = submit.n_uploads = 1;
    submit.inputs = &upload.value;
    submit.outputs = &output;
    submit.uploads = uploads;
    deliver(p, m, SHOAL__KIND__SUBMIT, &submit.base);
    assert_false(p->ends[m]->closing);
    base_str_fini(&text);
    Shoal__Done done = SHOAL__DONE__INIT;
    assert_non_null(p->h->first);
    assert_int_equal(p->h->first->status, SHOAL_OK);
    done.instance = p->h->first->id;
    for (int i = 0; i < MEMBERS; i++) deliver(p, i, SHOAL__KIND__DONE, &done.base);
    assert_null(p->h->first);
}

/* A link whose speed moves has what was planned with it planned anew, and nothing else. */
static void test_replans_what_changes(void **state) {
    pool *p = *state;
    hub *h = p->h;
    const hub_peer *own = wire_link_get(p->ends[0], WIRE_HUB),
                   *other = wire_link_get(p->ends[1], WIRE_HUB);
    uint64_t k = 10;
    for (int round = 0; round < 3; round++)
        for (int m = 0; m < 2; m++) submit_upload(p, m, 4000, k += 2);
    assert_int_equal(h->next_variant, 3); /* one for each session */
    /* Between the first one's memory and the other's device: of no concern to the other session,
     * whose data goes the other way. */
    hub_traffic traffic = {own->slots[1]->number, other->slots[0]->number, 1 << 20, 1000000000};
    assert_false(own->slots[1]->compute);
    hub_learn(h, &traffic, 1);
    submit_upload(p, 1, 4000, k += 2);
    assert_int_equal(h->next_variant, 3);
    submit_upload(p, 0, 4000, k += 2);
    submit_upload(p, 0, 4000, k += 2);
    assert_int_equal(h->next_variant, 4);
    hub_learn(h, &traffic, 1); /* as before: it has not moved */
    submit_upload(p, 0, 4000, k += 2);
    submit_upload(p, 1, 4000, k += 2);
    assert_int_equal(h->next_variant, 4);
    /* And what can never match again goes. */
    assert_int_equal(hub_apply(h, &(hub_event){.kind = HUB_TICK}), SHOAL_OK);
    size_t at = 0, variants = 0;
    uint64_t key;
    void *program;
    while (base_map_next(&h->programs, &at, &key, &program))
        variants += ((hub_program *)program)->variants.count;
    assert_int_equal(variants, 2);
}

static double planned(const hub *h, const hub_peer *from, const hub_peer *to) {
    const hub_link *link = base_map_get(&h->links, plan_link_key(from->number, to->number));
    return link ? link->planned : 0;
}

/* What is known of the cable between two machines holds for all members on them, those to come
 * as well, until they have been measured themselves. */
static void test_links_of_one_cable(void **state) {
    pool *p = *state;
    hub *h = p->h;
    const hub_peer *near = wire_link_get(p->ends[0], WIRE_HUB);
    hub_peer *far = wire_link_get(p->ends[1], WIRE_HUB);
    free(far->host);
    far->host = strdup("attic");
    const hub_peer *second = wire_link_get(add_worker(p), WIRE_HUB);
    hub_traffic traffic = {near->slots[0]->number, far->slots[0]->number, 10 << 20, 1000000000};
    hub_learn(h, &traffic, 1);
    double speed = planned(h, near, far);
    assert_true(speed > 1e7 && speed < 1.1e7);
    assert_true(planned(h, second, far) == speed);
    assert_true(planned(h, second, near) == 0 && planned(h, far, near) == 0);
    const hub_peer *third = wire_link_get(add_worker(p), WIRE_HUB);
    assert_true(planned(h, third, far) == speed && planned(h, third, near) == 0);
    traffic.from = third->slots[0]->number;
    traffic.timed_ns = 100000000; /* tenfold: its own, and that of those that were not measured */
    hub_learn(h, &traffic, 1);
    assert_true(planned(h, third, far) > 1e8 && planned(h, second, far) > 1e8);
    assert_true(planned(h, near, far) == speed);
}

/* Workers come and go, and the speed of a link swings, under one session: the hub stays as it is.
 */
static void test_churn(void **state) {
    enum { ROUNDS = 2000, WARM = 500 };
    pool *p = *state;
    hub *h = p->h;
    size_t before = 0;
    const hub_peer *own = wire_link_get(p->ends[0], WIRE_HUB),
                   *other = wire_link_get(p->ends[1], WIRE_HUB);
    for (uint64_t k = 1; k <= ROUNDS; k++) {
        if (k == WARM) before = mallinfo2().uordblks;
        p->n_ends = MEMBERS;
        wire_link *worker = add_worker(p);
        assert_non_null(worker);
        hub_traffic traffic = {own->slots[1]->number, other->slots[0]->number, 1 << 20,
                               k % 2 ? 1000000000 : 1000};
        hub_learn(h, &traffic, 1);
        submit(p, 0, 4000, k);
        wire_link_finish(worker, SHOAL_LOST, "killed");
        pump(p);
        while (h->first) finish_oldest(p);
        uint64_t value = ((uint64_t)p->sessions[0] << 40) + k;
        Shoal__Release release = SHOAL__RELEASE__INIT;
        release.values = release.programs = &value;
        release.n_values = release.n_programs = 1;
        deliver(p, 0, SHOAL__KIND__RELEASE, &release.base);
        assert_int_equal(hub_apply(h, &(hub_event){.kind = HUB_TICK}), SHOAL_OK);
        pump(p);
    }
    assert_int_equal(h->losses, ROUNDS);
    assert_int_equal(h->peers.count, MEMBERS);
    assert_int_equal(h->values.count + h->programs.count, 0);
    assert_in_range(mallinfo2().uordblks, 0, before + (16 << 10));
    printf("%d came and went: %zu bytes, then %zu\n", ROUNDS, before, mallinfo2().uordblks);
}

/* One user's bytes by way of the hub leave room for another's, whoever they are for. */
static void test_room_for_others(void **state) {
    pool *p = *state;
    static uint8_t frame[1 << 20];
    hub_peer *greedy = of_another(p, 0, 1), *other = of_another(p, 1, 2);
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.frame = (ProtobufCBinaryData){sizeof frame, frame};
    relay.peer = other->number;
    int taken = 0;
    for (int i = 0; i < 200; i++) {
        size_t before = wire_account_bytes(greedy->user->relayed);
        assert_int_equal(hub_relay(p->h, greedy, &relay), SHOAL_OK);
        taken += wire_account_bytes(greedy->user->relayed) > before;
    }
    assert_in_range(taken, 60, 64); /* a third */
    assert_in_range(wire_account_bytes(greedy->user->relayed), 60 << 20, 65 << 20);
    assert_int_equal(greedy->strange, 200 - taken);
    relay.peer = greedy->number;
    for (int i = 0; i < 20; i++) assert_int_equal(hub_relay(p->h, other, &relay), SHOAL_OK);
    assert_int_equal(other->strange, 0);
    assert_in_range(wire_account_bytes(other->user->relayed), 20 << 20, 21 << 20);
    pump(p); /* all is read */
    assert_int_equal(wire_account_bytes(greedy->user->relayed), 0);
    assert_int_equal(wire_account_bytes(other->user->relayed), 0);
}

/* What the hub holds for a user's sessions counts on that user until it is gone. */
static void test_held(void **state) {
    pool *p = *state;
    const hub_peer *greedy = of_another(p, 0, 1), *other = of_another(p, 1, 2);
    submit(p, 0, 4, 1);
    uint64_t held = greedy->user->held;
    assert_true(held > HUB_VALUE_HELD + HUB_PROGRAM_HELD + HUB_RECORD_HELD);
    submit(p, 1, 4, 1);
    assert_int_equal(other->user->held, held);
    greedy->user->held += HUB_MAX_HELD / 3;
    submit(p, 1, 4, 2); /* there is room for others */
    assert_false(p->ends[1]->closing);
    greedy->user->held -= HUB_MAX_HELD / 3;
    other->user->held += HUB_MAX_HELD / 3;
    submit(p, 1, 4, 3);
    assert_int_equal(p->why, SHOAL_BUSY);
    assert_non_null(strstr(p->reason, "the hub holds 512 MiB for tensors and programs"));
    p->ends[1] = NULL;                      /* it is gone, */
    assert_int_equal(p->h->users.count, 2); /* and these are not taken off */
    p->h->users.data[1]->held -= HUB_MAX_HELD / 3;
    finish_oldest(p);
    wire_close(p->ends[0], SHOAL_CLOSED, "bye");
    pump(p);
    hub_users_look(p->h);
    assert_int_equal(p->h->users.count, 0);
}

/* A client may have devices: when it goes, what others ran there is run again elsewhere. */
static void test_a_clients_device_leaves(void **state) {
    pool *p = *state;
    submit(p, 1, 50000, 1); /* on both devices */
    assert_int_equal(p->runs[p->sessions[1]], 1);
    assert_int_equal(p->h->first->n_parts, 2);
    wire_close(p->ends[0], SHOAL_CLOSED, "bye");
    pump(p);
    assert_int_equal(p->runs[p->sessions[1]], 2);
    assert_int_equal(p->h->reruns, 1);
    hub_instance *last = p->h->first;
    while (last->next) last = last->next;
    assert_int_equal(last->n_parts, 1);
    assert_int_equal(last->n_waiting, 1);
}

/* What a member says of itself comes onto others' screens. */
static void test_names(void **state) {
    pool *p = *state;
    free(p->peer->hello->name);
    p->peer->hello->name = strdup("a\xc3\xa9\x1b[2J\n\xff\xc2\x9b");
    wire_link *worker = add_worker(p);
    assert_non_null(worker);
    const hub_peer *member = wire_link_get(worker, WIRE_HUB);
    assert_string_equal(member->name, "a\xc3\xa9?[2J????");
}

/* How fast it encrypts bounds the plans of all: what no processor is as slow or quick at is not
 * known. */
static void test_sealing(void **state) {
    static const double said[] = {0, -1, 5e-324, 1000, NAN, INFINITY, 1e300, 1e9};
    pool *p = *state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        p->peer->hello->sealing = said[i];
        wire_link *worker = add_worker(p);
        assert_non_null(worker);
        const hub_peer *member = wire_link_get(worker, WIRE_HUB);
        assert_true(member->sealing == (said[i] == 1e9 ? 1e9 : 0));
        assert_true(member->machine && member->cores && member->online >= member->cores);
    }
}

static void clear_rolls(pool *p) { p->rolls = p->called = p->left = 0; }

/* Clients have nothing to do with one another: who comes and goes among hundreds of them is told to
 * those that lend alone. */
static void test_clients_of_clients(void **state) {
    enum { CLIENTS = 20 };
    pool *p = *state; /* two that lend */
    size_t devices = p->peer->hello->n_devices;
    p->peer->hello->n_devices = 0;
    for (size_t n = 0; n < CLIENTS; n++) {
        clear_rolls(p);
        assert_int_equal(wire_connect(p->peer, "inproc", 1, 1000), SHOAL_OK);
        pump(p);
        assert_int_equal(p->rolls, 3);
        assert_int_equal(p->called, 2 + 1 + 2); /* who lends, and itself; of it */
    }
    clear_rolls(p);
    wire_close(p->ends[MEMBERS], SHOAL_OK, "it leaves");
    pump(p);
    assert_int_equal(p->rolls, 2);
    assert_int_equal(p->left, 2);
    clear_rolls(p);
    wire_close(p->ends[0], SHOAL_OK, "it leaves");
    pump(p);
    assert_int_equal(p->rolls, CLIENTS);
    assert_int_equal(p->left, CLIENTS);
    assert_int_equal(p->called, 0);
    p->peer->hello->n_devices = devices;
}

/* Copies that the hub makes while nobody waits for them are not values of anybody. */
static void test_counts_what_is_held(void **state) {
    pool *p = *state;
    hub_peer *client = base_map_get(&p->h->sessions, p->sessions[0]);
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    submit(p, 0, 4, 1);
    finish_oldest(p);
    submit(p, 0, 4, 2);
    client->spare = 1 << 20;
    client->replay_ns = (uint64_t)(100 * BASE_SECOND);
    finish_oldest(p);
    assert_true(client->cutting);
    deliver(p, 0, SHOAL__KIND__STATUS_ASK, &ask.base);
    assert_int_equal(p->values, 2);
}

/* Who reads nothing is closed, once it has been patient with. */
static void test_unread(void **state) {
    pool *p = *state;
    hub_peer *reader = wire_link_get(p->ends[1], WIRE_HUB);
    Shoal__Release nothing = SHOAL__RELEASE__INIT;
    hub_send(reader, SHOAL__KIND__FREE, &nothing.base);
    p->ends[1]->queued = 1; /* as if that were still to go out */
    hub_users_look(p->h);
    assert_true(reader->unread != 0);
    reader->unread -= (HUB_UNREAD_S - 1) * BASE_SECOND;
    hub_users_look(p->h);
    assert_false(p->ends[1]->closing);
    reader->unread -= 2 * BASE_SECOND;
    hub_users_look(p->h);
    assert_true(p->ends[1]->closing);
    p->ends[1]->queued = 0;
    pump(p);
    assert_string_equal(p->reason, "it has read nothing of what waits for it");
}

/* A member whose link is about to end takes no program with it: it is run by who remains. */
static void test_about_to_leave(void **state) {
    pool *p = *state;
    wire_close(p->ends[1], SHOAL_LOST, "it has to leave");
    submit(p, 0, 1 << 17, 1); /* which both would make */
    const hub_value *value = base_map_get(&p->h->values, ((uint64_t)p->sessions[0] << 40) + 1);
    assert_non_null(value);
    assert_int_equal(value->status, SHOAL_OK);
    assert_int_equal(p->h->peers.count, 1);
    p->ends[1] = NULL;
    finish_oldest(p); /* which was given up */
    assert_int_equal(p->h->first->status, SHOAL_OK);
    assert_int_equal(p->h->first->n_parts, 1);
    finish_oldest(p);
    assert_null(p->h->first);
    assert_int_equal(value->status, SHOAL_OK);
    assert_false(value->absent);
}

/* Sessions have numbers of values to them, however many there were. */
static void test_many_sessions(void **state) {
    pool *p = *state;
    p->h->next_session = 0xFFFFFE;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wire_connect(p->peer, "inproc", 1, 1000), SHOAL_OK);
        pump(p);
    }
    assert_int_equal(p->n_ends, MEMBERS + 2);
    assert_int_equal(p->sessions[MEMBERS], 0xFFFFFE);
    assert_int_equal(p->sessions[MEMBERS + 1], MEMBERS + 1); /* the first that nobody has */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_freed_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flood, setup, teardown),
        cmocka_unit_test_setup_teardown(test_told_in_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_waits_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_passes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_theirs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_concerned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_of_who_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_explain_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replans_what_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_of_one_cable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_churn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_for_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counts_what_is_held, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clients_of_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_held, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_clients_device_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sealing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_about_to_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_sessions, setup, teardown),
    };
    return cmocka_run_group_tests_name("hub", tests, NULL, NULL);
}
