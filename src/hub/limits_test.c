/* The limits of what one may have of the hub: each is reached, and told with one clear error, or
 * counted; and others go on. */
#include "hub/hub_testing.h"

#include "graph/testing.h"

#include <math.h>

static hub_peer *member(pool *p, int m) { return wire_link_get(p->ends[m], WIRE_HUB); }

static void others_go_on(pool *p, int m, uint64_t k) {
    uint32_t before = p->runs[p->sessions[m]];
    submit(p, m, 4, k);
    assert_int_equal(p->runs[p->sessions[m]], before + 1);
}

/* ---- whose turn it is ---- */

static void release(pool *p, int m, uint64_t k) {
    uint64_t value = ((uint64_t)p->sessions[m] << 40) + k;
    Shoal__Release message = SHOAL__RELEASE__INIT;
    message.values = &value;
    message.n_values = 1;
    deliver(p, m, SHOAL__KIND__RELEASE, &message.base);
}

/* Who has had more than its part waits, in order; others do not; and nobody where there is one. */
static void test_turns(void **state) {
    pool *p = *state;
    hub_peer *greedy = of_another(p, 0, 1), *other = of_another(p, 1, 2);
    uint64_t id = ((uint64_t)p->sessions[0] << 40) + 1;
    p->turns = true;
    greedy->user->free_at = base_now() + 3600 * BASE_SECOND;
    submit(p, 0, 4, 1); /* it is alone */
    assert_int_equal(p->runs[p->sessions[0]], 1);
    submit(p, 1, 4, 1);
    uint64_t held = greedy->user->held;
    submit(p, 0, 4, 2);
    release(p, 0, 1);
    release(p, 0, 2);
    assert_int_equal(greedy->asks.count, 3);
    assert_true(greedy->user->held > held + 3 * sizeof(hub_ask));
    assert_int_equal(p->runs[p->sessions[0]], 1);
    assert_false(((hub_value *)base_map_get(&p->h->values, id))->released);
    hub_turns_serve(p->h); /* it is not its turn */
    assert_int_equal(greedy->asks.count, 3);
    for (uint64_t k = 2; k < 6; k++) {
        other->user->free_at = 0;
        others_go_on(p, 1, k);
    }
    /* What it does as a member of the pool does not wait. */
    Shoal__Done done = SHOAL__DONE__INIT;
    done.instance = p->h->first->id;
    deliver(p, 0, SHOAL__KIND__DONE, &done.base);
    assert_true(p->h->first->parts[0].through);
    for (int turns = 0; greedy->asks.count && turns < 100; turns++) { /* of a slow machine, many */
        greedy->user->free_at = 0;
        hub_turns_serve(p->h);
    }
    pump(p);
    assert_int_equal(p->runs[p->sessions[0]], 2);
    assert_int_equal(greedy->asks.count, 0);
    assert_false(p->h->backlog);
    /* Its time is counted, n + 1 times that of n users; a session's end, too. */
    int64_t now = base_now();
    greedy->user->free_at = 0;
    /* They are there, however slow this machine is. */
    other->user->asked_at = greedy->user->asked_at = now + 3600 * BASE_SECOND;
    hub_user_charge(p->h, greedy->user, now - BASE_SECOND);
    assert_in_range(greedy->user->free_at - now, BASE_SECOND * 2,
                    BASE_SECOND * 2 + 3 * (base_now() - now));
    greedy->user->asked_at = now;
    /* What waits counts as held, ends who has too much of it, and goes with who sent it. */
    other->user->asked_at = base_now();
    greedy->user->held += HUB_MAX_HELD / 3;
    submit(p, 0, 4, 3);
    assert_int_equal(p->why, SHOAL_BUSY);
    assert_non_null(strstr(p->reason, "the hub holds 512 MiB"));
    p->turns = false;
    others_go_on(p, 1, 6);
}

/* Of who always has something waiting there is kept what waits, and not what has. */
static void test_always_waiting(void **state) {
    pool *p = *state;
    hub_peer *greedy = of_another(p, 0, 1);
    of_another(p, 1, 2);
    p->turns = true;
    submit(p, 1, 4, 1);
    greedy->user->free_at = base_now() + 3600 * BASE_SECOND;
    release(p, 0, 1);
    assert_int_equal(greedy->asks.count, 1);
    for (uint64_t k = 2; k < 1000; k++) {
        release(p, 0, k);
        hub_ask *first = &greedy->asks.data[greedy->next_ask++]; /* as if it had its turn */
        hub_let_go(greedy->user, sizeof *first + first->bytes);
        free(first->body);
    }
    assert_true(greedy->asks.room < 64);
    assert_int_equal(greedy->asks.count - greedy->next_ask, 1);
}

/* Who has much passed on while there are others gets no credit for a while; who is alone, and who
 * has little, does. */
static void test_relays_have_turns(void **state) {
    pool *p = *state;
    hub_peer *greedy = of_another(p, 0, 1), *other = of_another(p, 1, 2);
    static uint8_t frame[1 << 20];
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.peer = other->number;
    relay.frame = (ProtobufCBinaryData){sizeof frame, frame};
    p->turns = true;
    for (int i = 0; i < 20; i++) deliver(p, 0, SHOAL__KIND__RELAY, &relay.base);
    assert_int_equal(p->ends[0]->held, 0); /* it is alone */
    relay.frame.len = 100;
    int64_t since = base_now();
    other->user->asked_at = since;
    relay.peer = greedy->number;
    deliver(p, 1, SHOAL__KIND__RELAY, &relay.base);
    relay.peer = other->number;
    relay.frame.len = sizeof frame;
    deliver(p, 0, SHOAL__KIND__RELAY, &relay.base);
    int64_t now = base_now();
    for (int i = 0; i < 99; i++) {          /* the same, in no time */
        other->user->asked_at = base_now(); /* it is at work */
        hub_turn_relay(p->h, greedy, sizeof frame);
    }
    /* 100 MiB, at 2 ns and three parts for two users; and the time that this took, at the most. */
    int64_t took = 3 * (base_now() - since);
    assert_in_range(p->ends[0]->held - now, 400 * BASE_MS, 700 * BASE_MS + took);
    assert_true(p->ends[1]->held - now < 10 * BASE_MS + took);
    assert_false(p->ends[0]->closing || p->ends[1]->closing);
    p->turns = false;
    others_go_on(p, 1, 1);
}

static void test_what_waits_goes_with_its_member(void **state) {
    pool *p = *state;
    const hub_peer *greedy = of_another(p, 0, 1);
    of_another(p, 1, 2);
    p->turns = true;
    greedy->user->free_at = base_now() + 3600 * BASE_SECOND;
    submit(p, 1, 4, 1);
    for (uint64_t k = 1; k < 100; k++) submit(p, 0, 4, k);
    assert_true(greedy->user->held > 0);
    hub_user *user = greedy->user;
    wire_close(p->ends[0], SHOAL_CLOSED, "bye");
    pump(p);
    assert_int_equal(p->h->users.count, 2); /* it is known as long as it has to wait */
    assert_int_equal(user->held, 0);
    hub_turns_serve(p->h);
    assert_false(p->h->backlog);
    user->free_at = 0;
    hub_users_look(p->h);
    assert_int_equal(p->h->users.count, 1);
}

/* ---- members ---- */

static void refused(pool *p, const char *why) {
    assert_null(add_worker(p));
    if (!strstr(p->reason, why)) fail_msg("'%s' does not say '%s'", p->reason, why);
}

static void test_what_members_say_of_themselves(void **state) {
    pool *p = *state;
    Shoal__Hello *hello = p->peer->hello;
    char longer[300];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    char *kept[] = {hello->name, hello->host, hello->devices[0]->name};
    hello->name = longer;
    refused(p, "a member's name has at most 255 letters");
    hello->name = kept[0];
    hello->host = longer;
    refused(p, "its host's 255");
    hello->host = kept[1];
    hello->devices[0]->name = longer;
    refused(p, "the name of a device has more than 255 letters");
    hello->devices[0]->name = kept[2];
    Shoal__Device *many[HUB_MAX_DEVICES + 1], **devices = hello->devices;
    size_t n = hello->n_devices;
    for (size_t i = 0; i <= HUB_MAX_DEVICES; i++) many[i] = devices[0];
    hello->devices = many;
    hello->n_devices = HUB_MAX_DEVICES + 1;
    refused(p, "offers 1 to 64 devices, not 65");
    hello->devices = devices;
    hello->n_devices = n;
    char *addresses[HUB_MAX_ADDRESSES + 2], **own = hello->addresses;
    size_t n_own = hello->n_addresses;
    for (int i = 0; i < HUB_MAX_ADDRESSES + 2; i++) addresses[i] = (char *)"tcp://192.0.2.1:7";
    addresses[0] = longer;
    addresses[1] = (char *)"shm:a,tcp://192.0.2.9:1";
    hello->addresses = addresses;
    hello->n_addresses = HUB_MAX_ADDRESSES + 2;
    wire_link *worker = add_worker(p);
    hello->addresses = own;
    hello->n_addresses = n_own;
    assert_non_null(worker);
    const char *said = ((hub_peer *)wire_link_get(worker, WIRE_HUB))->address;
    int told = 0;
    for (const char *at = said; (at = strstr(at, "tcp://192.0.2.1:7/")); at++) told++;
    assert_int_equal(told, HUB_MAX_ADDRESSES - 2);
    assert_null(strstr(said, "192.0.2.9"));
    assert_null(strstr(said, "xxx"));
    others_go_on(p, 0, 1);
}

static void test_members(void **state) {
    pool *p = *state;
    p->peer->hello->role = SHOAL__ROLE__WORKER;
    for (int i = MEMBERS; i <= HUB_MAX_MEMBERS; i++)
        assert_int_equal(wire_connect(p->peer, "inproc", 1, 1000), SHOAL_OK);
    for (int i = 0; i < 100 && p->n_ends < HUB_MAX_MEMBERS; i++) pump(p);
    p->peer->hello->role = SHOAL__ROLE__CLIENT;
    assert_int_equal(p->h->peers.count, HUB_MAX_MEMBERS);
    assert_string_equal(p->reason, "the pool has 1000 members, the most that it takes");
    assert_false(p->ends[0]->closing);
}

/* ---- programs ---- */

static void test_rounds(void **state) {
    pool *p = *state;
    submit_loop(p, 0, HUB_MAX_ROUNDS, 1);
    assert_false(p->ends[0]->closing);
    assert_int_equal(p->h->next_instance, 1 + HUB_MAX_ROUNDS);
    submit_loop(p, 0, (uint64_t)HUB_MAX_ROUNDS + 1, 2);
    assert_int_equal(p->why, SHOAL_FORMAT);
    assert_string_equal(p->reason, "a loop of 1000000001 rounds; it may have 1 to 1000000000");
    others_go_on(p, 1, 1);
}

/* A constant that lies on all slots there are. */
static void large_constant(const pool *p, size_t bytes, base_str *out) {
    const shoal_type type = {.dtype = SHOAL_U8, .rank = 1, .dims = {(int64_t)bytes}};
    int64_t slots[128], cuts[3] = {1, 0, (int64_t)bytes};
    uint32_t n = 0, value;
    for (uint32_t i = 0; i < p->h->next_slot; i++)
        if (hub_slot_of(p->h, i) && hub_slot_of(p->h, i)->compute) slots[n++] = i;
    graph *g;
    uint8_t *data = calloc(1, bytes);
    assert_non_null(data);
    assert_int_equal(graph_new(0, &g), SHOAL_OK);
    value = test_constant(g, type, data, bytes);
    free(data);
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_SLOTS, slots, n),
                                graph_ints(SHOAL_ATTR_CUTS, cuts, 3)};
    assert_int_equal(graph_add(g, GRAPH_PLACE, &value, 1, attrs, 2, NULL, 0, &value), SHOAL_OK);
    assert_int_equal(graph_add_output(g, value), SHOAL_OK);
    assert_int_equal(graph_encode(graph_data(g), false, out), SHOAL_OK);
    graph_destroy(&g);
}

/* Nodes that are all of one source line, the longest that there may be. */
static void long_lines(uint32_t n, base_str *out) {
    char line[GRAPH_MAX_TEXT + 2];
    graph *g;
    uint32_t value;
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = 0;
    assert_int_equal(graph_new(0, &g), SHOAL_OK);
    assert_int_equal(graph_at(g, line, NULL), SHOAL_INVALID);
    assert_string_equal(shoal_error_message(),
                        "the source line or the scope of a node has over 4096 bytes");
    line[sizeof line - 2] = 0;
    assert_int_equal(graph_at(g, line, NULL), SHOAL_OK);
    value = test_constant(g, test_type(SHOAL_F32, NULL, 0), &(float){1}, 4);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(graph_add(g, GRAPH_NEGATE, &value, 1, NULL, 0, NULL, 0, &value), SHOAL_OK);
    assert_int_equal(graph_add_output(g, value), SHOAL_OK);
    assert_int_equal(graph_encode(graph_data(g), true, out), SHOAL_OK);
    graph_destroy(&g);
}

/* A graph of few bytes that would take many. */
static void test_graphs(void **state) {
    pool *p = *state;
    uint64_t session = (uint64_t)p->sessions[0] << 40, output = session + 1;
    base_str text;
    Shoal__Submit message = SHOAL__SUBMIT__INIT;
    test_chain(4, (1 << 20) - 1, &text);
    assert_in_range(text.size, 1, WIRE_MAX_MESSAGE);
    message.program = session + 1;
    message.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    message.n_outputs = 1;
    message.outputs = &output;
    deliver(p, 0, SHOAL__KIND__SUBMIT, &message.base);
    assert_int_equal(p->why, SHOAL_NO_MEMORY);
    assert_non_null(strstr(p->reason, "over the limit of"));
    base_str_fini(&text);
    others_go_on(p, 1, 1);
}

/* Programs whose parts for all slots, or whose explanation, would take too much: one constant for
 * many devices; many nodes, each with a long source line. */
static void test_plans(void **state) {
    enum { DEVICES = 60, BYTES = 24 << 20, NODES = 20000 };
    pool *p = *state;
    Shoal__Hello *hello = p->peer->hello;
    Shoal__Device *many[DEVICES], **devices = hello->devices;
    for (size_t i = 0; i < DEVICES; i++) many[i] = devices[0];
    hello->devices = many;
    hello->n_devices = DEVICES;
    assert_non_null(add_worker(p));
    hello->devices = devices;
    hello->n_devices = 1;
    uint64_t session = (uint64_t)p->sessions[0] << 40, output = session + 1;
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    base_str text = {0};
    large_constant(p, BYTES, &text);
    submit.program = session + 1;
    submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    submit.n_outputs = 1;
    submit.outputs = &output;
    deliver(p, 0, SHOAL__KIND__SUBMIT, &submit.base);
    const hub_value *value = base_map_get(&p->h->values, output);
    assert_non_null(value);
    assert_int_equal(value->status, SHOAL_NO_MEMORY);
    assert_non_null(strstr(value->error, "programs of the pool's slots would take over 512 MiB"));
    assert_false(p->ends[0]->closing);
    base_str_fini(&text);
    long_lines(NODES, &text);
    submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    Shoal__ExplainAsk ask = SHOAL__EXPLAIN_ASK__INIT;
    ask.submit = &submit;
    deliver(p, 0, SHOAL__KIND__EXPLAIN_ASK, &ask.base);
    assert_non_null(strstr(p->explained, "the explanation would have over 16 MiB"));
    base_str_fini(&text);
    others_go_on(p, 1, 1);
}

/* As many of one user's are handed out, and the rest as those are through, in order. They are in no
 * other user's way, however long they wait for a client that takes nothing. */
static void test_in_flight(void **state) {
    enum { IN_FLIGHT = 64 };
    pool *p = *state;
    const uint32_t *runs = &p->runs[p->sessions[0]];
    for (uint64_t k = 1; k <= IN_FLIGHT + 10; k++) submit(p, 0, 4, k);
    submit(p, 1, 4, 1); /* another session of the same user */
    assert_int_equal(*runs, IN_FLIGHT);
    assert_int_equal(p->runs[p->sessions[1]], 0);
    for (hub_instance *i = p->h->first; i; i = i->next)
        if (i->blocked) i->blocked -= 2 * HUB_PATIENCE;
    of_another(p, 1, 7);
    submit(p, 1, 4, 2);
    assert_int_equal(p->runs[p->sessions[1]], 2);
    for (uint32_t i = 1; i <= 10; i++) {
        finish_oldest(p);
        assert_int_equal(*runs, IN_FLIGHT + i);
    }
}

/* Only a session's own loops end, and however many it says are to: the hub is at it for no time. */
static void test_loops_that_are_to_end(void **state) {
    enum { MANY = 1000000 };
    pool *p = *state;
    uint64_t *loops = calloc(MANY, sizeof *loops);
    assert_non_null(loops);
    submit_loop(p, 0, 1000, 1);
    submit_loop(p, 1, 1000, 1);
    for (size_t i = 0; i < MANY; i++) loops[i] = ((uint64_t)p->sessions[i % 2] << 40) + 1;
    Shoal__Release message = SHOAL__RELEASE__INIT;
    message.loops = loops;
    message.n_loops = MANY;
    int64_t start = base_now();
    deliver(p, 1, SHOAL__KIND__RELEASE, &message.base);
    assert_true(base_now() - start < 5 * BASE_SECOND);
    assert_int_equal(p->h->first->status, SHOAL_OK);
    assert_int_equal(p->h->first->next->status, SHOAL_INTERRUPTED);
    free(loops);
}

/* A program that comes to no end, as members are lost again and again, fails after a while. */
static void test_reruns(void **state) {
    pool *p = *state;
    submit(p, 0, 4, 1);
    for (int i = 0; i < HUB_MAX_RERUNS + 5 && p->h->first->status == SHOAL_OK; i++) {
        hub_rerun(p->h, p->h->first, "a member could not reach another");
        while (p->h->first->next) finish_oldest(p); /* those that were given up */
    }
    pump(p);
    assert_int_equal(p->h->reruns, HUB_MAX_RERUNS + 1); /* of which the last failed at once */
    assert_int_equal(p->h->values.count, 1);
    const hub_value *value = base_map_get(&p->h->values, ((uint64_t)p->sessions[0] << 40) + 1);
    assert_int_equal(value->status, SHOAL_LOST);
    assert_non_null(
        strstr(value->error, "it was begun 100 times, and each time a member was lost"));
    others_go_on(p, 1, 1);
}

static void test_reasons(void **state) {
    pool *p = *state;
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    error.status = SHOAL_INTERNAL;
    error.message = malloc(100001);
    memset(error.message, 'y', 100000);
    error.message[100000] = 0;
    failed.error = &error;
    submit(p, 0, 4, 1);
    failed.instance = p->h->first->id;
    deliver(p, 0, SHOAL__KIND__FAILED, &failed.base);
    const hub_value *value = base_map_get(&p->h->values, ((uint64_t)p->sessions[0] << 40) + 1);
    assert_int_equal(value->status, SHOAL_INTERNAL);
    assert_in_range(strlen(value->error), HUB_MAX_REASON - 2, HUB_MAX_REASON + 64);
    free(error.message);
}

/* ---- waiting ---- */

enum { LARGE = 1 << 17 }; /* so many that both make some of them */

static bool waits_for_slow;

static void say_waits(pool *p, int m, uint64_t instance, int on) {
    Shoal__Waits waits = SHOAL__WAITS__INIT;
    waits.instance = instance;
    waits.slow = waits_for_slow;
    waits.peer = member(p, on)->number;
    deliver(p, m, SHOAL__KIND__WAITS, &waits.base);
}

static shoal_status status_of(const pool *p, uint64_t k) {
    const hub_value *value = base_map_get(&p->h->values, ((uint64_t)p->sessions[0] << 40) + k);
    return value->status;
}

/* A program fails when all others of it wait for a client, and nothing before it keeps that. */
static void test_waits(void **state) {
    pool *p = *state;
    submit(p, 0, LARGE, 1);
    submit(p, 0, LARGE, 2);
    const uint64_t first = p->h->first->id, second = p->h->first->next->id;
    assert_int_equal(p->h->first->n_parts, MEMBERS);
    say_waits(p, 1, first, 1); /* for itself; of a program that is none; from who has no part */
    say_waits(p, 1, 1000, 0);
    assert_int_equal(member(p, 1)->strange, 1);
    /* The first is not known to wait, and may be what keeps the client from the second. */
    say_waits(p, 1, second, 0);
    assert_int_equal(status_of(p, 1), SHOAL_OK);
    assert_int_equal(status_of(p, 2), SHOAL_OK);
    say_waits(p, 1, first, 0);
    assert_int_equal(status_of(p, 1), SHOAL_TIMEOUT);
    const hub_value *value = base_map_get(&p->h->values, ((uint64_t)p->sessions[0] << 40) + 1);
    assert_non_null(strstr(value->error, "client tester"));
    /* And what is the client's own behind it: else each would take a minute more. */
    assert_int_equal(status_of(p, 2), SHOAL_TIMEOUT);
    while (p->h->first) finish_oldest(p);
    others_go_on(p, 1, 1);
}

/* Who takes a little may do so for as long as nobody else's program waits to be handed out. */
static void test_slow(void **state) {
    pool *p = *state;
    waits_for_slow = true;
    submit(p, 0, LARGE, 1);
    const uint64_t first = p->h->first->id;
    say_waits(p, 1, first, 0);
    assert_int_equal(status_of(p, 1), SHOAL_OK);
    submit(p, 1, LARGE, 1);
    p->h->first->next->dispatched = false; /* there is no room for it */
    say_waits(p, 1, first, 0);
    p->h->first->next->dispatched = true;
    waits_for_slow = false;
    assert_int_equal(status_of(p, 1), SHOAL_TIMEOUT);
    while (p->h->first) finish_oldest(p);
    others_go_on(p, 1, 2);
}

/* What a worker owes it may have to compute. */
static void test_workers_have_time(void **state) {
    pool *p = *state;
    member(p, 0)->role = SHOAL__ROLE__WORKER;
    submit(p, 0, LARGE, 1);
    for (int i = 0; i < 5; i++) say_waits(p, 1, p->h->first->id, 0);
    assert_int_equal(status_of(p, 1), SHOAL_OK);
    assert_int_equal(member(p, 1)->strange, 0);
}

/* ---- events ---- */

static void test_events(void **state) {
    pool *p = *state;
    Shoal__EventsAsk ask = SHOAL__EVENTS_ASK__INIT;
    Shoal__Events events = SHOAL__EVENTS__INIT;
    ask.token = events.token = 7;
    events.asker = member(p, 1)->number;
    events.list.len = HUB_MAX_RECORDED + 1;
    events.list.data = calloc(1, events.list.len);
    deliver(p, 1, SHOAL__KIND__EVENTS_ASK, &ask.base);
    deliver(p, 0, SHOAL__KIND__RECORDED, &events.base);
    assert_int_equal(member(p, 0)->strange, 1);
    for (int i = 0; i < 110; i++) {
        member(p, 1)->events_at = base_now(); /* however slow this machine is */
        deliver(p, 1, SHOAL__KIND__EVENTS_ASK, &ask.base);
    }
    assert_in_range(member(p, 1)->strange, 1, 20);
    assert_false(p->ends[0]->closing || p->ends[1]->closing);
    free(events.list.data);
}

/* ---- what waits to be read ---- */

static void test_queued(void **state) {
    pool *p = *state;
    of_another(p, 0, 1);
    of_another(p, 1, 2);
    p->ends[0]->queued = (HUB_MAX_QUEUED / 3) + (1 << 20); /* as if that were to go out */
    p->ends[1]->queued = 4 << 20;
    hub_users_look(p->h);
    assert_true(p->ends[0]->closing);
    assert_string_equal(p->ends[0]->reason, "members of this user do not read what waits for them");
    assert_false(p->ends[1]->closing);
    p->ends[0]->queued = p->ends[1]->queued = 0;
    pump(p);
    others_go_on(p, 1, 1);
}

static void ask_status(pool *p, bool paths) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ask.paths = paths;
    deliver(p, 0, SHOAL__KIND__STATUS_ASK, &ask.base);
    pump(p);
}

/* What a member tells of its paths is told on, with the names that the hub knows; what makes no
 * sense, or could steer a terminal, is dropped. */
static void test_news(void **state) {
    pool *p = *state;
    enum { MOST = 256 };
    static Shoal__Path path[MOST + 1], *paths[MOST + 1];
    Shoal__News news = SHOAL__NEWS__INIT;
    char address[] = "tcp://10.0.0.2:7400", name[] = "", long_name[80000] = "";
    for (int i = 0; i <= MOST; i++) {
        shoal__path__init(&path[i]);
        paths[i] = &path[i];
        path[i].address = address;
        path[i].name = name;
    }
    path[1].peer = member(p, 1)->number;
    path[1].speed = 12e6;
    path[1].saved = 3;
    news.paths = paths;
    news.n_paths = 2;
    news.fetching = 9;
    news.fetched = 4;
    deliver(p, 0, SHOAL__KIND__NEWS, &news.base);
    ask_status(p, false);
    assert_int_equal(p->told->n_news, 0);
    ask_status(p, true);
    for (int bad = 0; bad < 9; bad++) { /* each changes one thing */
        Shoal__News wrong = news;
        Shoal__Path before = path[0];
        if (bad == 0) path[0].address = (char *)"tcp://\x1b[2J";
        if (bad == 1) path[0].address = (char *)"two words";
        if (bad == 2) path[0].speed = -1;
        if (bad == 3) path[0].speed = (double)NAN;
        if (bad == 4) path[0].speed = (double)INFINITY;
        if (bad == 5) path[0].name = wrong.name = (char *)"hub";
        if (bad == 6) wrong.fetched = 10;
        if (bad == 7) wrong.n_paths = MOST + 1;
        if (bad == 8) path[0].address = memset(long_name, 'a', sizeof long_name - 1);
        path[1].saved = 4; /* to be seen if it is taken */
        deliver(p, 0, SHOAL__KIND__NEWS, &wrong.base);
        path[1].saved = 3;
        path[0] = before;
        assert_int_equal(member(p, 0)->strange, bad + 1);
        ask_status(p, true);
        assert_int_equal(p->told->n_news, 1);
        const Shoal__News *told = p->told->news[0];
        assert_string_equal(told->name, member(p, 0)->name);
        assert_int_equal(told->n_paths, 2);
        assert_string_equal(told->paths[0]->name, "hub");
        assert_string_equal(told->paths[1]->name, member(p, 1)->name);
        assert_string_equal(told->paths[1]->address, address);
        assert_true(told->paths[1]->speed == 12e6 && told->paths[1]->saved == 3);
    }
    for (size_t i = 0; i < p->told->n_slots; i++) {
        bool mine = p->told->slots[i]->peer == member(p, 0)->number;
        assert_int_equal(p->told->slots[i]->fetching, mine ? 9 : 0);
        assert_int_equal(p->told->slots[i]->fetched, mine ? 4 : 0);
    }
    /* The other end leaves: it has no name any more. */
    wire_close(p->ends[1], SHOAL_CLOSED, "bye");
    pump(p);
    ask_status(p, true);
    assert_string_equal(p->told->news[0]->paths[1]->name, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_always_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_news, setup, teardown),
        cmocka_unit_test_setup_teardown(test_relays_have_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_waits_goes_with_its_member, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_members_say_of_themselves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_members, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rounds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_graphs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loops_that_are_to_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reruns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reasons, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_workers_have_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queued, setup, teardown),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
