/* Values that move in from their client's memory, and the copies of them that stay there. */
#include "hub/hub_testing.h"

#include "graph/testing.h"

enum { N = 1 << 17, X = 100, BYTES = N * 4 };

/* What lies in the client's memory: values, and copies of others. */
static uint64_t at_client(const pool *p) {
    const hub_peer *client = client_of(p);
    return client->slots[client->n_slots - 1]->used + client->kept;
}

/* A client with room for copies, and devices with room for all. */
static int setup_roomy(void **state) {
    assert_int_equal(setup(state), 0);
    pool *p = *state;
    client_of(p)->spare = 64 * BYTES;
    for (size_t m = 0; m < p->h->peers.count; m++)
        for (uint32_t s = 0; s < p->h->peers.data[m]->n_slots; s++)
            p->h->peers.data[m]->slots[s]->memory = 64 * BYTES;
    return 0;
}

/* Inputs a and b become a + b; or, handed on: a as it is, and -b. */
static void make_graph(bool hands_on, uint32_t n_inputs, base_str *out) {
    graph *g;
    uint32_t inputs[2];
    const shoal_type type = {.dtype = SHOAL_F32, .rank = 1, .dims = {N}};
    ok(graph_new(0, &g));
    for (uint32_t i = 0; i < n_inputs; i++) inputs[i] = test_input(g, type);
    uint32_t last = inputs[n_inputs - 1];
    if (hands_on) ok(graph_add_output(g, inputs[0]));
    if (hands_on)
        ok(graph_add_output(g, test_add(g, GRAPH_NEGATE, &last, 1, NULL, 0)));
    else
        ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(inputs[0], last), NULL, 0)));
    base_str_init(out);
    ok(graph_encode(graph_data(g), false, out));
    graph_destroy(&g);
}

/* Program `number` of values, of which those from X on that are new come with it, makes values from
 * k on. reads: the client awaits the first. */
static void submit_pair(pool *p, uint64_t number, bool hands_on, bool reads, const uint64_t *of,
                        uint32_t n_inputs, uint64_t k) {
    base_str text;
    uint64_t inputs[2], outputs[] = {number_of(p, k), number_of(p, k + 1)};
    int64_t dim = N;
    Shoal__Upload uploads[2], *ups[2];
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    uint32_t first = 0;
    make_graph(hands_on, n_inputs, &text);
    submit.uploads = ups;
    for (uint32_t i = 0; i < n_inputs; i++) {
        inputs[i] = number_of(p, of[i]);
        if (of[i] < X || base_map_get(&p->h->values, inputs[i]) || (i && of[i] == of[0])) continue;
        Shoal__Upload *upload = ups[submit.n_uploads] = &uploads[submit.n_uploads];
        submit.n_uploads++;
        shoal__upload__init(upload);
        upload->value = inputs[i];
        upload->dtype = SHOAL_F32;
        upload->dims = &dim;
        upload->n_dims = 1;
    }
    submit.program = number_of(p, number);
    if (!base_map_get(&p->h->programs, submit.program))
        submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    submit.inputs = inputs;
    submit.n_inputs = n_inputs;
    submit.outputs = outputs;
    submit.n_outputs = hands_on ? 2 : 1;
    submit.home = &first;
    submit.n_home = reads;
    deliver(p, 0, SHOAL__KIND__SUBMIT, &submit.base);
    assert_false(p->ends[0]->closing);
    base_str_fini(&text);
}

static void add(pool *p, uint64_t number, uint64_t a, uint64_t b, uint64_t k) {
    submit_pair(p, number, false, false, (uint64_t[]){a, b}, 2, k);
}

static void twice(pool *p, uint64_t number, uint64_t a, uint64_t k) {
    submit_pair(p, number, false, false, &a, 1, k);
}

static void finish(pool *p, const hub_instance *instance) {
    Shoal__Done done = SHOAL__DONE__INIT;
    done.instance = instance->id;
    for (int m = 0; m < MEMBERS; m++) deliver(p, m, SHOAL__KIND__DONE, &done.base);
}

static void let_go_of(pool *p, uint64_t k) { let_go(p, &k, 1); }

static void lose_other(pool *p) {
    wire_close(p->ends[1], SHOAL_LOST, "it was killed");
    pump(p);
    p->ends[1] = NULL;
    assert_false(hub_recovers(p->h));
}

static void assert_there(const pool *p, uint64_t k) {
    const hub_value *value = value_of(p, k);
    if (value->error) fail_msg("%s", value->error);
    assert_false(value->absent);
    assert_true(value->counted);
}

/* A program that has read two values is given one twice: that moves once, and its copy is the one
 * that there was. */
static void test_one_twice(void **state) {
    pool *p = *state;
    add(p, 5, X + 1, X + 2, 1);
    assert_int_equal(p->h->first->variant->n_moved, 2);
    finish_all(p);
    add(p, 5, X, X, 2);
    assert_int_equal(p->h->first->variant->n_moved, 1);
    finish_all(p);
    add(p, 6, X + 3, X + 3, 3); /* and the other way round */
    assert_int_equal(p->h->first->variant->n_moved, 1);
    finish_all(p);
    add(p, 6, X + 4, X + 5, 4);
    assert_int_equal(p->h->first->variant->n_moved, 2);
    finish_all(p);
    assert_int_equal(at_client(p), 6 * BYTES);
    for (uint64_t x = X; x < X + 6; x++) {
        assert_int_equal(value_of(p, x)->kept, number_of(p, x));
        let_go_of(p, x);
    }
    for (uint64_t k = 1; k < 5; k++) let_go_of(p, k);
    assert_int_equal(at_client(p), 0);
    assert_int_equal(p->h->values.count, 0);
}

/* One that fails leaves it where it was. */
static void test_one_twice_fails(void **state) {
    pool *p = *state;
    add(p, 5, X + 1, X + 2, 1);
    finish_all(p);
    add(p, 5, X, X, 2);
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = SHOAL_IO;
    error.message = (char *)"no";
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = p->h->first->id;
    failed.error = &error;
    deliver(p, 1, SHOAL__KIND__FAILED, &failed.base);
    finish_all(p);
    const hub_value *value = value_of(p, X);
    assert_there(p, X);
    assert_true(hub_value_at_client(client_of(p), value));
    assert_int_equal(value->stored, number_of(p, X));
    assert_int_equal(at_client(p), 3 * BYTES);
    add(p, 5, X, X, 3);
    finish_all(p);
    assert_there(p, 3);
    assert_int_equal(value->kept, number_of(p, X));
}

/* A loss, while it is on its way and when it is there. */
static void test_one_twice_lost(void **state) {
    pool *p = *state;
    for (int through = 0; through < 2; through++) {
        add(p, 5, X + 1, X + 2, 1);
        finish_all(p);
        add(p, 5, X, X, 2);
        if (through) finish_all(p);
        lose_other(p);
        const hub_value *value = value_of(p, X);
        assert_int_equal(through ? value->stored : value->kept, number_of(p, X));
        if (through) twice(p, 6, 2, 3);
        finish_all(p);
        assert_there(p, 2);
        assert_there(p, X);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup_roomy(state), 0);
        p = *state;
    }
}

/* One that has gone through shows that what it moved in was there, though the program is not
 * through that made it: that is lost, and the copy is not. */
static void test_came(void **state) {
    pool *p = *state;
    submit_pair(p, 5, true, false, (uint64_t[]){X, X + 1}, 2, 1);
    twice(p, 6, 1, 11);
    finish(p, p->h->first->next);
    assert_true(value_of(p, 1)->counted);
    lose_other(p);
    assert_int_equal(value_of(p, 1)->kept, number_of(p, 1));
    finish_all(p);
    twice(p, 6, 1, 12);
    finish_all(p);
    assert_there(p, 1);
    assert_there(p, 2);
    assert_there(p, 12);
}

/* One of two results is made again; of the other there is a copy, from which others are made. */
static void test_copy_of_another(void **state) {
    pool *p = *state;
    submit_pair(p, 5, true, false, (uint64_t[]){X, X + 1}, 2, 1);
    twice(p, 6, 1, 11);
    finish_all(p);
    let_go_of(p, 1);
    lose_other(p);
    twice(p, 6, 2, 12);
    assert_int_equal(p->h->first->purpose, HUB_REMADE);
    twice(p, 6, 11, 13);
    hub_rerun(p->h, p->h->first, "one cannot reach another");
    finish_all(p);
    assert_there(p, 12);
    assert_there(p, 13);
    assert_int_equal(value_of(p, 1)->kept, number_of(p, 1));
    const uint64_t all[] = {X, X + 1, 2, 11, 12, 13};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) let_go_of(p, all[i]);
    assert_int_equal(at_client(p), 0);
    assert_int_equal(p->h->values.count, 0);
}

/* Two were made of what has been let go of, and are lost; then there is one worker. Both are made
 * again, one after the other: until then the copy stays, and no longer. */
static void test_made_again_alone(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k < 3; k++) twice(p, 5, X, k);
    finish_all(p);
    let_go_of(p, X);
    lose_other(p);
    assert_int_equal(at_client(p), BYTES);
    for (uint64_t k = 1; k < 3; k++) {
        assert_true(value_of(p, k)->absent);
        twice(p, 5, k, k + 10);
        finish_all(p);
        assert_there(p, k);
        assert_there(p, k + 10);
    }
    let_go_of(p, 1);
    assert_int_equal(at_client(p), BYTES);
    let_go_of(p, 2);
    assert_int_equal(at_client(p), 0);
    twice(p, 5, X + 1, 21); /* nothing else could be made again of what is new */
    finish_all(p);
    assert_there(p, 21);
    assert_int_equal(at_client(p), 0);
}

/* There is no room for the copy, and that is what is said. */
static void test_made_again_without_room(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k < 3; k++) twice(p, 5, X, k);
    finish_all(p);
    let_go_of(p, X);
    lose_other(p);
    client_of(p)->spare = 0;
    twice(p, 5, 1, 11);
    finish_all(p);
    assert_there(p, 11);
    assert_int_equal(at_client(p), 0);
    twice(p, 5, 2, 12);
    finish_all(p);
    assert_int_equal(value_of(p, 2)->status, SHOAL_LOST);
    assert_non_null(strstr(value_of(p, 2)->error, "its client had no room for a copy"));
}

/* Results that the client's memory was to have when a member is lost, of which the first is read by
 * others: they are made again under the numbers by which they will be there. */
static void test_never_came(void **state) {
    pool *p = *state;
    for (int how = 0; how < 4; how++) {
        bool reads = how & 1, again = how & 2;
        submit_pair(p, 5, true, reads, (uint64_t[]){X, X + 1}, 2, 1);
        assert_true(hub_value_at_client(client_of(p), value_of(p, 1)));
        twice(p, 6, 1, 11);
        if (again) let_go_of(p, 1);
        lose_other(p);
        const hub_value *value = value_of(p, 1);
        assert_true(value->stored != value->kept);
        assert_int_equal(value->users, 2);
        finish_all(p);
        if (!again) assert_there(p, 1);
        assert_there(p, 2);
        assert_there(p, 11);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup_roomy(state), 0);
        p = *state;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_twice, setup_roomy, teardown),
        cmocka_unit_test_setup_teardown(test_one_twice_fails, setup_roomy, teardown),
        cmocka_unit_test_setup_teardown(test_one_twice_lost, setup_roomy, teardown),
        cmocka_unit_test_setup_teardown(test_never_came, setup_roomy, teardown),
        cmocka_unit_test_setup_teardown(test_came, setup_roomy, teardown),
        cmocka_unit_test_setup_teardown(test_copy_of_another, setup_roomy, teardown),
        cmocka_unit_test_setup_teardown(test_made_again_alone, setup_roomy, teardown),
        cmocka_unit_test_setup_teardown(test_made_again_without_room, setup_roomy, teardown),
    };
    return cmocka_run_group_tests_name("moves", tests, NULL, NULL);
}
