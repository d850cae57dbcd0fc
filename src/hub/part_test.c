/* Programs that hold something together with what has failed, or has no end and is let go of: they
 * begin anew with what is held. */
#include "hub/hub_testing.h"

#include "graph/testing.h"

enum { N = TEST_N };

static graph *body(graph **g, shoal_dtype dtype) {
    const shoal_type type = {.dtype = SHOAL_F32, .rank = 1, .dims = {N}};
    ok(graph_new(0, g));
    uint32_t x = test_input(*g, type);
    if (dtype == SHOAL_BOOL) x = test_constant(*g, SCALAR(BOOL), &(uint8_t){1}, 1);
    ok(graph_add_output(*g, x));
    return *g;
}

/* Of one input: what has no end; where it is more, the input negated, and the sum of both. */
static void endless(bool more, base_str *out) {
    const shoal_type type = {.dtype = SHOAL_F32, .rank = 1, .dims = {N}};
    graph *g, *goes_on, *same;
    uint32_t y;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, type);
    const shoal_graph *bodies[] = {graph_data(body(&goes_on, SHOAL_BOOL)),
                                   graph_data(body(&same, SHOAL_F32))};
    ok(graph_add(g, GRAPH_WHILE, &x, 1, NULL, 0, bodies, 2, &y));
    ok(graph_add_output(g, y));
    uint32_t w = test_add(g, GRAPH_NEGATE, VALUES(x), NULL, 0);
    if (more) ok(graph_add_output(g, w));
    if (more) ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(y, w), NULL, 0)));
    base_str_init(out);
    ok(graph_encode(graph_data(g), true, out));
    graph_destroy(&g);
    graph_destroy(&goes_on);
    graph_destroy(&same);
}

/* Values 1 and 2 are there. */
static void begin(pool *p) {
    submit(p, 0, N, 1);
    submit(p, 0, N, 2);
    finish_all(p);
}

static void submit_endless(pool *p, bool more, uint64_t k) {
    base_str text;
    endless(more, &text);
    submit_of(p, &text, k, (uint64_t[]){1}, 1, more ? 3 : 1, 0, 0);
}

/* Of a and b: -a, -b and a + b, from k on. */
static void submit_both(pool *p, uint64_t k, uint64_t a, uint64_t b) {
    base_str text;
    negates(2, SHOAL_F32, &text);
    submit_of(p, &text, k, (uint64_t[]){a, b}, 2, 3, 0, 0);
}

/* What reads two of which one fails, by whatever cause, loses what derives from that one. */
static void test_failed_beside(void **state) {
    const shoal_status causes[] = {SHOAL_INTERNAL, SHOAL_NO_MEMORY};
    pool *p = *state;
    begin(p);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t k = 100 * i + 10;
        submit(p, 0, N, k);
        submit_both(p, k + 10, k, 1);
        submit_both(p, k + 20, k + 11, k + 12);
        size_t parts = p->parts;
        fail_first(p, causes[i], "division by zero");
        assert_failed(p, k + 10, 3, "x-x");
        assert_failed(p, k + 20, 3, "-xx");
        assert_string_equal(value_of(p, k + 12)->error, "division by zero");
        finish_all(p);
        assert_int_equal(p->parts - parts, 4);
        assert_false(value_of(p, k + 11)->absent);
        assert_false(value_of(p, k + 20)->absent);
    }
}

/* Runs of one program that lose the same share what is left of it, with its plan. */
static void test_failed_beside_many(void **state) {
    pool *p = *state;
    begin(p);
    submit(p, 0, N, 10);
    submit_both(p, 20, 10, 1);
    for (uint64_t k = 30; k < 60; k += 10) {
        uint64_t inputs[] = {number_of(p, 10), number_of(p, k == 50 ? 10 : 1)};
        uint64_t outputs[] = {number_of(p, k), number_of(p, k + 1), number_of(p, k + 2)};
        Shoal__Submit again = SHOAL__SUBMIT__INIT;
        again.program = number_of(p, 20);
        again.inputs = inputs;
        again.n_inputs = 2;
        again.outputs = outputs;
        again.n_outputs = 3;
        deliver(p, 0, SHOAL__KIND__SUBMIT, &again.base);
    }
    fail_first(p, SHOAL_INTERNAL, "division by zero");
    const hub_record *first = value_of(p, 21)->origin;
    for (uint64_t k = 20; k < 50; k += 10) {
        assert_failed(p, k, 3, "x-x");
        assert_ptr_equal(value_of(p, k + 1)->origin->program, first->program);
    }
    assert_failed(p, 50, 3, "xxx");
    assert_int_equal(first->program->variants.count, 1);
    finish_all(p);
    /* Who holds the last of its results keeps it, and not the program that it is of. */
    uint64_t program = number_of(p, 20);
    let_go(p, (uint64_t[]){20, 21, 22, 30, 31, 32, 40, 42, 50, 51, 52}, 11);
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.programs = &program;
    release.n_programs = 1;
    deliver(p, 0, SHOAL__KIND__RELEASE, &release.base);
    assert_null(base_map_get(&p->h->programs, program));
    assert_null(value_of(p, 41)->origin->program->whole);
    let_go(p, (uint64_t[]){41}, 1);
}

/* Who reads what has no end is given the memory of none of its operands: it may begin anew. */
static void test_nothing_is_given(void **state) {
    pool *p = *state;
    wire_close(p->ends[1], SHOAL_CLOSED, "it has left"); /* who is alone keeps no records */
    p->ends[1] = NULL;
    pump(p);
    begin(p);
    submit_endless(p, false, 10);
    hub_instance *first = p->h->first;
    submit_both(p, 20, 1, 2);
    submit_both(p, 30, 20, 21);
    submit_both(p, 40, 10, 31);
    let_go(p, (uint64_t[]){20, 31}, 2);
    uint64_t given[TEST_ALL];
    size_t n = 0;
    for (hub_instance *i = first->next; i; i = i->next) ok(hub_donate(p->h, i, given, &n));
    assert_int_equal(n, 1); /* 20: who reads that waits for nothing that may be dropped */
    let_go(p, (uint64_t[]){10, 40, 42}, 3);
    assert_false(hub_instance_runs(first));
    finish_all(p);
    assert_failed(p, 21, 2, "--");
    assert_failed(p, 30, 1, "-");
    assert_failed(p, 41, 1, "-");
    assert_false(value_of(p, 41)->absent);
}

/* An operand that was given away, where there is a record of how it was made and what that reads is
 * gone, as its client had no room for a copy: it fails with what it cannot be read again for; what
 * is let go of goes on rather than that, and holds up nothing else. */
static void test_given_away(void **state) {
    pool *p = *state;
    base_str text;
    begin(p);
    hub_value_disown(p->h, value_of(p, 2));
    negates(1, SHOAL_F32, &text);
    submit_of(p, &text, 3, (uint64_t[]){2}, 1, 2, 0, 0);
    finish_all(p);
    let_go(p, (uint64_t[]){2}, 1);
    assert_true(value_of(p, 2)->absent);
    assert_true(can_recover(p->h, value_of(p, 3)));
    submit_endless(p, false, 10);
    submit_both(p, 20, 10, 3);
    let_go(p, (uint64_t[]){3}, 1);
    uint64_t given[TEST_ALL];
    size_t n = 0;
    hub_instance *first = p->h->first;
    ok(hub_donate(p->h, first->next, given, &n));
    assert_int_equal(n, 1);
    assert_non_null(value_of(p, 3)->origin);
    assert_false(can_recover(p->h, value_of(p, 3)));
    let_go(p, (uint64_t[]){10, 20, 22}, 3);
    assert_true(hub_instance_runs(first)); /* 21 is held, and could not be made without 3 */
    submit_endless(p, false, 30);
    submit_both(p, 40, 30, 1);
    hub_instance *other = first->next->next;
    assert_true(hub_instance_runs(other));
    let_go(p, (uint64_t[]){30, 40, 42}, 3);
    assert_false(hub_instance_runs(other)); /* which has nothing to do with that */
    assert_true(hub_instance_runs(first));
    fail_first(p, SHOAL_INTERNAL, "division by zero");
    assert_string_equal(value_of(p, 21)->error, "division by zero");
    finish_all(p);
    assert_false(value_of(p, 41)->absent);
}

/* Value k is there (and k + 1), and cannot be made again once it has been given away. */
static void make_once(pool *p, uint64_t k) {
    base_str text;
    submit(p, 0, N, 500 + k);
    finish_all(p);
    hub_value_disown(p->h, value_of(p, 500 + k));
    negates(1, SHOAL_F32, &text);
    submit_of(p, &text, k, (uint64_t[]){500 + k}, 1, 2, 0, 0);
    finish_all(p);
    let_go(p, (uint64_t[]){500 + k}, 1);
}

/* A loop, and what reads it beside something that is held: they are nobody else's concern. */
static hub_instance *submit_apart(pool *p) {
    submit_endless(p, false, 30);
    submit_both(p, 40, 30, 1);
    return p->h->first;
}

static void let_apart_go(pool *p, hub_instance *apart) {
    assert_true(hub_instance_runs(apart));
    let_go(p, (uint64_t[]){30, 40, 42}, 3);
    assert_false(hub_instance_runs(apart));
}

/* What has to stay reads an upload that moves in with a loop: that stays, too. */
static void test_moved_in_stays(void **state) {
    pool *p = *state;
    base_str text;
    begin(p);
    make_once(p, 3);
    hub_instance *apart = submit_apart(p), *loop;
    endless(false, &text);
    submit_of(p, &text, 10, (uint64_t[]){5}, 1, 1, 0, 5);
    loop = apart->next->next;
    assert_int_equal(loop->variant->n_moved, 1);
    submit_both(p, 20, 5, 3);
    let_go(p, (uint64_t[]){3}, 1);
    uint64_t given[TEST_ALL];
    size_t n = 0;
    ok(hub_donate(p->h, loop->next, given, &n));
    assert_int_equal(n, 1);
    let_go(p, (uint64_t[]){10, 20, 22}, 3);
    assert_true(hub_instance_runs(loop));
    let_apart_go(p, apart);
}

/* Programs that each read for nothing what the one before was given: only that one needs it. */
static void test_given_in_turn(void **state) {
    enum { LENGTH = 7 };
    pool *p = *state;
    base_str text;
    hub_instance *loops[LENGTH], *readers[LENGTH];
    uint64_t given[LENGTH * TEST_ALL];
    size_t n = 0;
    begin(p);
    for (uint64_t k = 0; k < LENGTH; k++) make_once(p, 300 + 2 * k);
    hub_instance *apart = submit_apart(p);
    for (uint64_t k = 0; k < LENGTH; k++) {
        uint64_t own = 300 + 2 * k, inputs[] = {100 + k, 1, k ? own - 2 : own, own};
        submit_endless(p, false, 100 + k);
        loops[k] = k ? readers[k - 1]->next : apart->next->next;
        negates(4, SHOAL_F32, &text);
        submit_of(p, &text, 200 + 10 * k, inputs, 4, 5, 0, 0);
        readers[k] = loops[k]->next;
    }
    for (uint64_t k = 0; k < LENGTH; k++) let_go(p, (uint64_t[]){300 + 2 * k}, 1);
    for (uint64_t k = 0; k < LENGTH; k++) ok(hub_donate(p->h, readers[k], given, &n));
    assert_int_equal(n, LENGTH);
    /* Of the first what is made of the given one is held, of the others -1 alone. */
    for (uint64_t k = 0; k < LENGTH; k++) {
        uint64_t at = 200 + 10 * k;
        let_go(p, (uint64_t[]){100 + k, at, at + (k ? 2 : 1), at + 3, at + 4}, 5);
    }
    for (uint64_t k = 0; k < LENGTH; k++) assert_int_equal(hub_instance_runs(loops[k]), !k);
    let_apart_go(p, apart);
    finish_all(p);
    for (uint64_t k = 1; k < LENGTH; k++) assert_false(value_of(p, 201 + 10 * k)->absent);
}

static uint32_t count_instances(const pool *p) {
    uint32_t n = 0;
    for (const hub_instance *i = p->h->first; i; i = i->next) n++;
    return n;
}

/* Behind as much as may be under way: what begins anew was never handed out, and is gone at once.
 */
static void test_not_handed_out(void **state) {
    pool *p = *state;
    begin(p);
    for (uint64_t k = 0; k < 70; k++) submit(p, 0, N, 300 + k);
    for (uint64_t k = 0; k < 5; k++) {
        submit_endless(p, false, 10 + k);
        submit_both(p, 100 + 10 * k, 10 + k, 1);
    }
    uint32_t before = count_instances(p);
    assert_false(value_of(p, 10)->counted);
    for (uint64_t k = 0; k < 5; k++) {
        let_go(p, (uint64_t[]){10 + k, 100 + 10 * k, 102 + 10 * k}, 3);
        assert_true(count_instances(p) < before);
    }
    assert_int_equal(count_instances(p), before - 5);
    finish_all(p);
    for (uint64_t k = 0; k < 5; k++) assert_false(value_of(p, 101 + 10 * k)->absent);
}

/* Nobody holds the endless one, nor what derives from it, which was sent with what is held. */
static void test_endless_beside(void **state) {
    pool *p = *state;
    begin(p);
    for (uint64_t k = 10; k < 200; k += 100) {
        if (k == 10)
            submit_endless(p, false, k);
        else
            submit_loop(p, 0, 1000, k);
        hub_instance *first = p->h->first;
        submit_both(p, k + 10, k, 1);
        submit_both(p, k + 20, k + 11, 1);
        submit_both(p, k + 30, k + 10, 1);
        size_t outcomes = p->outcomes, parts = p->parts;
        let_go(p, (uint64_t[]){k, k + 12, k + 30, k + 31, k + 32}, 5);
        assert_true(hub_instance_runs(first)); /* k + 10 is held */
        uint64_t next = p->h->next_instance;
        let_go(p, (uint64_t[]){k + 10}, 1);
        assert_int_equal(p->h->next_instance, next + 2);
        finish_all(p);
        assert_false(value_of(p, k + 11)->absent);
        assert_failed(p, k + 20, 3, "---");
        assert_false(value_of(p, k + 22)->absent);
        /* Each is through once, without an error. */
        assert_int_equal(p->outcomes, outcomes + 4);
        assert_int_equal(p->parts, parts);
        assert_null(base_map_get(&p->h->values, number_of(p, k)));
    }
}

/* The same within one program. */
static void test_endless_in_one(void **state) {
    pool *p = *state;
    begin(p);
    submit_endless(p, true, 10);
    hub_instance *first = p->h->first;
    let_go(p, (uint64_t[]){10}, 1);
    assert_true(hub_instance_runs(first)); /* for the sum */
    let_go(p, (uint64_t[]){12}, 1);
    assert_false(hub_instance_runs(first));
    assert_false(first_of(p, HUB_ASKED)->program->unbounded);
    finish_all(p);
    assert_false(value_of(p, 11)->absent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_failed_beside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_beside_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_given, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved_in_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_in_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_handed_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_endless_beside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_endless_in_one, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
