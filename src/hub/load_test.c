/* What members say takes the hub no more than in proportion to its length, counts on who says it,
 * and means what it meant. */
#include "graph/testing.h"
#include "hub/hub_testing.h"

#include <math.h>

static hub_peer *member(pool *p, int m) { return wire_link_get(p->ends[m], WIRE_HUB); }

/* ---- an explanation of a program with many inputs, each of them an upload ---- */

static void many_inputs(uint32_t n, base_str *out) {
    const shoal_type type = {.dtype = SHOAL_F32};
    graph *g;
    uint32_t value;
    assert_int_equal(graph_new(0, &g), SHOAL_OK);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(graph_add_input(g, &type, &value), SHOAL_OK);
    assert_int_equal(graph_add(g, GRAPH_NEGATE, &value, 1, NULL, 0, NULL, 0, &value), SHOAL_OK);
    assert_int_equal(graph_add_output(g, value), SHOAL_OK);
    assert_int_equal(graph_encode(graph_data(g), false, out), SHOAL_OK);
    graph_destroy(&g);
}

static void test_explain(void **state) {
    enum { INPUTS = 60000 };
    pool *p = *state;
    static Shoal__Upload uploads[INPUTS], *pointers[INPUTS];
    static uint64_t inputs[INPUTS];
    const hub_user *user = of_another(p, 0, 1)->user;
    uint64_t session = (uint64_t)p->sessions[0] << 40, output = session + INPUTS + 1;
    float number = 1;
    for (uint32_t i = 0; i < INPUTS; i++) {
        shoal__upload__init(&uploads[i]);
        pointers[i] = &uploads[i];
        uploads[i].value = session + 1 + i;
        uploads[i].dtype = SHOAL_F32;
        uploads[i].data = (ProtobufCBinaryData){sizeof number, (uint8_t *)&number};
        inputs[INPUTS - 1 - i] = uploads[i].value;
    }
    base_str text = {0};
    many_inputs(INPUTS, &text);
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    Shoal__ExplainAsk ask = SHOAL__EXPLAIN_ASK__INIT;
    submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    submit.inputs = inputs;
    submit.outputs = &output;
    submit.uploads = pointers;
    submit.n_inputs = submit.n_uploads = INPUTS;
    submit.n_outputs = 1;
    ask.submit = &submit;
    uint64_t held = user->held;
    deliver(p, 0, SHOAL__KIND__EXPLAIN_ASK, &ask.base);
    assert_string_equal(p->explained, "");
    assert_int_equal(user->held, held);
    /* What is planned with counts on who asks, while it is planned. */
    ((hub_user *)user)->held += HUB_MAX_HELD / 3 - INPUTS * HUB_VALUE_HELD / 2;
    held = user->held;
    deliver(p, 0, SHOAL__KIND__EXPLAIN_ASK, &ask.base);
    assert_non_null(strstr(p->explained, "the most that it may"));
    assert_int_equal(user->held, held);
    ((hub_user *)user)->held -= HUB_MAX_HELD / 3 - INPUTS * HUB_VALUE_HELD / 2;
    /* Another's value is none of this session. */
    uploads[0].value = ((uint64_t)p->sessions[1] << 40) + 1;
    deliver(p, 0, SHOAL__KIND__EXPLAIN_ASK, &ask.base);
    assert_non_null(strstr(p->explained, "is not one of session"));
    assert_false(p->ends[0]->closing);
    base_str_fini(&text);
}

/* ---- the speeds of links ---- */

static double rate_of(const hub_traffic *t) { return (double)t->timed / (double)t->timed_ns * 1e9; }

static double overlap(const hub_traffic *t, const hub_traffic *other) {
    uint64_t begin = t->begin > other->begin ? t->begin : other->begin;
    uint64_t end = t->end < other->end ? t->end : other->end;
    return end > begin ? (double)(end - begin) / (double)(t->end - t->begin) : 0;
}

/* What a link would have carried alone, from each other transfer by itself. */
static double alone(const hub *h, const hub_traffic *list, size_t n, size_t which) {
    const hub_slot *from = hub_slot_of(h, list[which].from), *to = hub_slot_of(h, list[which].to);
    double sent = 0, received = 0;
    for (size_t i = 0; i < n; i++) {
        const hub_slot *source = hub_slot_of(h, list[i].from), *target = hub_slot_of(h, list[i].to);
        if (i == which || source->peer == target->peer) continue;
        double meanwhile = overlap(&list[which], &list[i]) * rate_of(&list[i]);
        if (source->peer == from->peer) sent += meanwhile;
        if (target->peer == to->peer) received += meanwhile;
    }
    return rate_of(&list[which]) + fmax(sent, received);
}

static void test_speeds_of_links(void **state) {
    enum { WORKERS = 4, MOST = 120, ROUNDS = 200 };
    pool *p = *state;
    hub *h = p->h;
    const hub_peer *workers[WORKERS];
    srand(7);
    for (int i = 0; i < WORKERS; i++) workers[i] = wire_link_get(add_worker(p), WIRE_HUB);
    for (int round = 0; round < ROUNDS; round++) {
        hub_traffic list[MOST];
        size_t n = 1 + (size_t)rand() % MOST;
        double learnt[WORKERS][WORKERS] = {{0}};
        for (size_t i = 0; i < n; i++) {
            uint64_t begin = UINT64_C(1) << 60 | (uint64_t)(rand() % 1000) * 1000000;
            uint64_t took = (uint64_t)(1 + rand() % 300) * 1000000;
            list[i] = (hub_traffic){.from = workers[rand() % WORKERS]->slots[0]->number,
                                    .to = workers[rand() % WORKERS]->slots[0]->number,
                                    .timed = (uint64_t)(1 + rand() % 64) << 20,
                                    .timed_ns = took,
                                    .begin = begin,
                                    .end = begin + took};
        }
        for (int m = 0; m < WORKERS; m++) hub_links_forget(h, workers[m]);
        hub_learn(h, list, n);
        for (int a = 0; a < WORKERS; a++)
            for (int b = 0; b < WORKERS; b++) {
                uint64_t key = plan_link_key(workers[a]->number, workers[b]->number);
                const hub_link *link = base_map_get(&h->links, key);
                for (size_t i = 0; i < n && a != b; i++) {
                    if (list[i].from != workers[a]->slots[0]->number ||
                        list[i].to != workers[b]->slots[0]->number)
                        continue;
                    double bytes = alone(h, list, n, i);
                    learnt[a][b] = learnt[a][b] > 0 ? (learnt[a][b] + bytes) / 2 : bytes;
                }
                assert_true(!link == !(learnt[a][b] > 0));
                if (link) assert_true(fabs(link->bytes / learnt[a][b] - 1) < 1e-6);
            }
    }
}

/* As many as two members with as many devices as there may be can tell of, and all of it lies. */
static void test_much_traffic(void **state) {
    enum { MUCH = 200000 };
    pool *p = *state;
    hub *h = p->h;
    hub_traffic *list = calloc(MUCH, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < MUCH; i++)
        list[i] = (hub_traffic){.from = member(p, 0)->slots[1]->number,
                                .to = member(p, 1)->slots[0]->number,
                                .timed = UINT64_MAX,
                                .timed_ns = 1 + i % 2 * 1000000000000,
                                .begin = i % 7 ? i : UINT64_MAX - i,
                                .end = i % 5 ? UINT64_MAX : i};
    hub_learn(h, list, MUCH);
    uint64_t key = plan_link_key(member(p, 0)->number, member(p, 1)->number);
    const hub_link *link = base_map_get(&h->links, key);
    assert_non_null(link);
    assert_true(link->bytes > 0 && link->bytes <= HUB_MOST_SPEED);
    free(list);
}

/* ---- the speeds of devices ---- */

static void products(uint32_t n, base_str *out) {
    graph *g;
    assert_int_equal(graph_new(0, &g), SHOAL_OK);
    uint32_t x = test_add(g, GRAPH_IOTA, NULL, 0,
                          ATTRS(INTS(SHAPE, n, n), graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_F32)));
    for (int i = 0; i < 2; i++)
        x = test_add(g, GRAPH_DOT_GENERAL, VALUES(x, x),
                     ATTRS(graph_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, NULL, 0),
                           graph_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, NULL, 0),
                           INTS(LHS_CONTRACTING_DIMENSIONS, 1),
                           INTS(RHS_CONTRACTING_DIMENSIONS, 0)));
    assert_int_equal(graph_add_output(g, x), SHOAL_OK);
    base_str_init(out);
    assert_int_equal(graph_encode(graph_data(g), false, out), SHOAL_OK);
    graph_destroy(&g);
}

/* The program of the oldest instance took a slot so many times what was expected of it. */
static void finish_in(pool *p, hub_slot *slot, double times) {
    const hub_instance *instance = p->h->first;
    assert_non_null(instance);
    assert_int_equal(instance->variant->plan.n_programs, 1);
    assert_int_equal(instance->variant->plan.programs[0].slot, slot->number);
    Shoal__SlotTime time = SHOAL__SLOT_TIME__INIT, *list[] = {&time, &time};
    Shoal__Done done = SHOAL__DONE__INIT;
    time.slot = slot->number;
    time.nanoseconds = (uint64_t)(instance->variant->plan.programs[0].seconds * 1e9 * times);
    done.instance = instance->id;
    done.slots = list;
    done.n_slots = 2; /* the second time it does not count */
    deliver(p, 0, SHOAL__KIND__DONE, &done.base);
    assert_null(p->h->first);
}

/* Runs n products of matrices of 250 x 250, in so many times the time that is expected of them. */
static void run_in(pool *p, hub_slot *slot, uint64_t *k, uint64_t rounds, double times) {
    enum { N = 250 };
    base_str text;
    products(N, &text);
    submit_of(p, &text, ++*k, NULL, 0, 1, rounds, 0);
    if (!rounds) {
        const plan_program *program = &p->h->first->variant->plan.programs[0];
        assert_int_equal(program->figure, BASE_PRODUCTS_F32);
        assert_true(program->bound > 0.9 * program->seconds);
        assert_true(program->products == 2 * 2.0 * N * N * N);
    }
    finish_in(p, slot, times);
    let_go(p, k, 1);
}

/* One device takes longer or shorter than it was measured to take. */
static void test_speeds_of_devices(void **state) {
    enum { N = 250 };
    pool *p = *state;
    hub_slot *slot = member(p, 0)->slots[0];
    double *used = &slot->speeds.of[BASE_PRODUCTS_F32],
           *learnt = &slot->learnt.of[BASE_PRODUCTS_F32];
    const double first = 2 * 2.0 * N * N * N / 0.05;
    uint64_t k = 0;
    assert_true(slot->compute);
    wire_close(p->ends[1], SHOAL_LOST, "it has nothing to do here");
    pump(p);
    /* Before it was measured there is nothing to correct. */
    run_in(p, slot, &k, 0, 2);
    assert_true(!*used && !*learnt);
    *used = first;
    uint64_t speeds = ++p->h->speeds;
    /* Half as fast: it is told, and plans stay as they are. */
    run_in(p, slot, &k, 0, 2);
    assert_true(fabs(*learnt / first - 0.875) < 0.01);
    run_in(p, slot, &k, 0, 2);
    assert_true(fabs(*learnt / first - 0.78) < 0.01);
    double before = *learnt;
    run_in(p, slot, &k, 0, 1e6); /* it has slept */
    assert_true(fabs(*learnt / before - 0.8125) < 0.01);
    /* Of less than 10 ms nothing is learnt, nor of loops, nor of what has failed. */
    before = *learnt;
    run_in(p, slot, &k, 0, 0.1);
    run_in(p, slot, &k, 100, 9);
    base_str text;
    products(N, &text);
    submit_of(p, &text, ++k, NULL, 0, 1, 0, 0);
    hub_instance_fail(p->h, p->h->first, SHOAL_INTERRUPTED, "it was cancelled");
    finish_in(p, slot, 0.5);
    assert_true(*learnt == before && *used == first && p->h->speeds == speeds);
    /* Three times as fast as measured: plans are made with it, each time it is much more. */
    for (int i = 0; i < 40; i++) run_in(p, slot, &k, 0, *used / first / 3);
    assert_true(fabs(*learnt / first - 3) < 0.01);
    assert_true(*used > 2 * first && *used <= *learnt);
    assert_int_equal(p->h->speeds, speeds); /* with one device there is nothing to choose */
    /* Small ones show what else takes time. */
    *used = first * 1000;
    products(8, &text);
    submit_of(p, &text, ++k, NULL, 0, 1, 0, 0);
    assert_true(p->h->first->variant->plan.programs[0].bound == 0);
    finish_in(p, slot, 1);
    /* What takes no time by its plan tells nothing of its products, whoever says what it took. */
    const plan_program nothing = {.figure = BASE_PRODUCTS_F32};
    before = *learnt;
    hub_learn_products(p->h, slot, &nothing, 20 * BASE_MS);
    assert_true(*learnt == before);
    /* Where there are several, plans are made anew. */
    assert_non_null(add_worker(p));
    const plan_program product = {
        .figure = BASE_PRODUCTS_F32, .seconds = 1, .bound = 1, .products = *used * 4};
    for (int i = 0; i < 20; i++) hub_learn_products(p->h, slot, &product, BASE_SECOND);
    assert_true(p->h->speeds > speeds && p->h->speeds <= speeds + 3);
}

/* ---- doubts ---- */

/* The first member says that another cannot be reached. */
static void accuse(pool *p, const hub_instance *instance, const hub_peer *other) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    error.status = SHOAL_LOST;
    error.message = (char *)"unreachable";
    failed.error = &error;
    failed.peer = other->number;
    failed.instance = instance->id;
    deliver(p, 0, SHOAL__KIND__FAILED, &failed.base);
}

/* Who says again and again that it cannot reach others is not waited for every time. */
static void test_doubts(void **state) {
    enum { MOST = 1024 };
    pool *p = *state;
    hub_peer *accuser = of_another(p, 0, 1), *other = of_another(p, 1, 2);
    for (int round = 0; round < 2; round++) {
        submit(p, 0, 1 << 17, 1 + (uint64_t)round); /* both take part */
        hub_instance *instance = p->h->first;
        while (instance->next) instance = instance->next;
        assert_int_equal(instance->n_parts, 2);
        accuse(p, instance, other);
        assert_int_equal(instance->doubted, !round);
        assert_int_equal(instance->status, round ? SHOAL_LOST : SHOAL_OK);
        hub_doubt doubt = p->h->doubts.data[0];
        assert_int_equal(doubt.user, accuser->user->number);
        while (p->h->doubts.count < MOST) assert_true(base_vec_push(&p->h->doubts, doubt));
    }
    assert_int_equal(p->h->doubts.count, MOST);
    for (size_t i = 0; i < MOST; i++) p->h->doubts.data[i].at -= 60 * BASE_SECOND;
    hub_doubts_judge(p->h);
    assert_int_equal(p->h->doubts.count, 0);
}

/* One that fails for another reason while a verdict is waited for, with all who took part through,
 * is over with the verdict. */
static void test_failed_in_doubt(void **state) {
    pool *p = *state;
    hub_peer *other = of_another(p, 1, 2);
    submit(p, 0, 1 << 17, 1); /* both take part */
    hub_instance *instance = p->h->first;
    accuse(p, instance, other);
    finish_oldest(p);
    assert_ptr_equal(p->h->first, instance);
    assert_true(instance->doubted && !instance->n_waiting);
    hub_instance_fail(p->h, instance, SHOAL_INTERRUPTED, "it was cancelled");
    p->h->doubts.data[0].at -= 3 * BASE_SECOND;
    hub_doubts_judge(p->h);
    assert_null(p->h->first);
    assert_int_equal(other->slots[0]->in_flight, 0);
    assert_int_equal(other->slots[0]->reserved, 0);
}

/* Who is blamed for what it has no part in, as it has one in what was before, and has to leave:
 * what waited for the verdict is run again. */
static void test_blamed_for_another(void **state) {
    pool *p = *state;
    hub_peer *accuser = of_another(p, 0, 1), *other = of_another(p, 1, 2);
    submit(p, 0, 1 << 17, 1); /* both take part */
    const hub_instance *before = p->h->first;
    other->slots[0]->weight = 1e-9;
    submit(p, 0, 4, 2); /* one does */
    hub_instance *instance = before->next;
    assert_non_null(instance);
    assert_int_equal(instance->n_parts, 1);
    assert_ptr_equal(instance->parts[0].peer, accuser);
    for (int round = 0; round < 2; round++) {
        accuse(p, instance, other);
        assert_true(instance->doubted);
        accuser->role = other->role = SHOAL__ROLE__WORKER; /* of which one has to leave */
        p->h->doubts.data[round].at -= 3 * BASE_SECOND;
        uint64_t id = instance->id;
        hub_doubts_judge(p->h);
        pump(p);
        assert_int_equal(instance->status, SHOAL_LOST);
        Shoal__Done done = SHOAL__DONE__INIT;
        done.instance = id;
        deliver(p, 0, SHOAL__KIND__DONE, &done.base);
        assert_null(hub_instance_find(p->h, id));
        instance = p->h->first;
        while (instance && (instance->n_parts != 1 || instance->status != SHOAL_OK))
            instance = instance->next;
        if (!round) assert_non_null(instance);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_explain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_speeds_of_links, setup, teardown),
        cmocka_unit_test_setup_teardown(test_much_traffic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_speeds_of_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_doubts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blamed_for_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_in_doubt, setup, teardown),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
