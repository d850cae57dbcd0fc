/* What a failed part of a program takes with it, and what it does not. */
#include "hub/hub_testing.h"

#include "graph/testing.h"

enum { N = TEST_N, ALL = TEST_ALL };

/* Of indices: as they are, doubled; checked at line 1, or at none; checked at line 2; and at both.
 */
static void checks(bool lines, base_str *out) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_add(g, GRAPH_IOTA, NULL, 0,
                          ATTRS(graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_I64), INTS(SHAPE, N)));
    uint32_t one = check(g, lines ? "<node 1>" : NULL, x), two = check(g, "<node 2>", x);
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(x, x), NULL, 0)));
    ok(graph_add_output(g, test_add(g, GRAPH_NEGATE, VALUES(one), NULL, 0)));
    ok(graph_add_output(g, test_add(g, GRAPH_NEGATE, VALUES(two), NULL, 0)));
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(one, two), NULL, 0)));
    base_str_init(out);
    ok(graph_encode(graph_data(g), true, out));
    graph_destroy(&g);
}

static void submit_checks(pool *p, bool lines, uint64_t k) {
    base_str text;
    checks(lines, &text);
    submit_graph(p, &text, k, 0, 0, ALL);
}

static void submit_negates(pool *p, uint64_t k, uint64_t from) {
    base_str text;
    negates(ALL, SHOAL_I64, &text);
    submit_graph(p, &text, k, from, ALL, ALL + 1);
}

static void test_a_part(void **state) {
    pool *p = *state;
    submit_checks(p, true, 1);
    fail_first(p, SHOAL_RANGE, "worker a: <node 1>: index 9 is out of range");
    assert_failed(p, 1, ALL, "-x-x");
    /* The client is told which, and that more is to come; the run's lines are the first one's. */
    assert_int_equal(p->outcomes, 2);
    assert_int_equal(p->parts, 2);
    char text[128];
    snprintf(text, sizeof text, "worker a: <node %llx:1>: index 9 is out of range",
             (unsigned long long)number_of(p, 1));
    assert_string_equal(value_of(p, 2)->error, text);
    assert_int_equal(p->runs[p->sessions[0]], 2);
    assert_int_equal(client_of(p)->waiting, 1); /* what was given up is not its any more */
    finish_all(p);
    assert_int_equal(p->outcomes, 3);
    assert_int_equal(p->parts, 2);
    assert_false(value_of(p, 1)->absent);
    assert_false(value_of(p, 3)->absent);
    assert_true(value_of(p, 2)->absent);
}

/* What derives from a check had failed of something else, as who is given it does: what does not
 * derive from it is made all the same. */
static void test_failed_before(void **state) {
    pool *p = *state;
    submit_checks(p, true, 1);
    hub_value_poison(value_of(p, 3), SHOAL_INTERNAL, "who was given it has failed");
    hub_value_poison(value_of(p, 4), SHOAL_INTERNAL, "who was given it has failed");
    fail_first(p, SHOAL_RANGE, "<node 2>: index 9 is out of range");
    assert_failed(p, 1, ALL, "--xx");
    finish_all(p);
    assert_false(value_of(p, 1)->absent);
    assert_false(value_of(p, 2)->absent);
}

/* The rest fails as well, at the other line. */
static void test_one_after_the_other(void **state) {
    pool *p = *state;
    submit_checks(p, true, 1);
    fail_first(p, SHOAL_RANGE, "<node 2>: no");
    assert_failed(p, 1, ALL, "--xx");
    fail_first(p, SHOAL_RANGE, "<node 1>: nor this");
    assert_failed(p, 1, ALL, "-xxx");
    assert_non_null(strstr(value_of(p, 2)->error, "nor this"));
    assert_non_null(strstr(value_of(p, 4)->error, "no"));
    assert_int_equal(p->runs[p->sessions[0]], 3);
    finish_all(p);
    assert_int_equal(p->parts, 3);
    assert_int_equal(p->outcomes, 4);
}

/* One that says again that it has failed where nothing of that is left, or nowhere in the program,
 * fails as a whole: it ends. */
static void test_ends(void **state) {
    pool *p = *state;
    submit_checks(p, true, 1);
    fail_first(p, SHOAL_RANGE, "<node 1>: no");
    fail_first(p, SHOAL_RANGE, "<node 1>: no");
    assert_failed(p, 1, ALL, "xxxx");
    finish_all(p);
    submit_checks(p, true, 11);
    fail_first(p, SHOAL_RANGE, "<node 7>: no");
    assert_failed(p, 11, ALL, "xxxx");
    finish_all(p);
    submit_checks(p, true, 21);
    fail_first(p, SHOAL_RANGE, "<node 1: <node >: no");
    assert_failed(p, 21, ALL, "xxxx");
    finish_all(p);
    assert_int_equal(p->runs[p->sessions[0]], 4);
}

/* A check without a line, which a program in C may have. */
static void test_no_line(void **state) {
    pool *p = *state;
    submit_checks(p, false, 1);
    fail_first(p, SHOAL_RANGE, "index 9 is out of range");
    assert_failed(p, 1, ALL, "-x-x");
    fail_first(p, SHOAL_RANGE, "<node 2>: no");
    assert_failed(p, 1, ALL, "-xxx");
    finish_all(p);
    assert_int_equal(p->runs[p->sessions[0]], 3);
}

/* What is no failure of the data is one of the program. */
static void test_others(void **state) {
    pool *p = *state;
    const shoal_status others[] = {SHOAL_NO_MEMORY, SHOAL_INTERNAL, SHOAL_INVALID, SHOAL_IO};
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++) {
        submit_checks(p, true, 10 * i + 1);
        fail_first(p, others[i], "<node 1>: no");
        assert_failed(p, 10 * i + 1, ALL, "xxxx");
        finish_all(p);
        assert_int_equal(p->runs[p->sessions[0]], i + 1);
    }
    assert_int_equal(p->parts, 0);
}

/* Programs behind it, on their way or not: each fails as far as it derives from what has. */
static void test_behind(void **state) {
    pool *p = *state;
    submit_checks(p, true, 1);
    submit_negates(p, 11, 1);
    submit_negates(p, 21, 11);
    submit(p, 0, N, 31); /* of nobody's */
    assert_int_equal(p->runs[p->sessions[0]], 4);
    fail_first(p, SHOAL_RANGE, "<node 1>: no");
    assert_failed(p, 1, ALL, "-x-x");
    assert_failed(p, 11, ALL + 1, "-x-xx");
    assert_failed(p, 21, ALL + 1, "-x-xx");
    assert_string_equal(value_of(p, 22)->error, value_of(p, 2)->error);
    assert_int_equal(p->runs[p->sessions[0]], 7);
    submit_negates(p, 41, 1); /* while the rest is under way */
    assert_failed(p, 41, ALL + 1, "-x-xx");
    finish_all(p);
    submit_negates(p, 51, 1); /* afterwards */
    assert_failed(p, 51, ALL + 1, "-x-xx");
    finish_all(p);
    assert_int_equal(value_of(p, 31)->status, SHOAL_OK);
    for (uint64_t k = 1; k <= 51; k += 10)
        if (k != 31) assert_false(value_of(p, k + 2)->absent);
}

/* All that a program reads has failed: it is not run, and its client hears of it. */
static void test_nothing_left(void **state) {
    pool *p = *state;
    submit_checks(p, true, 1);
    fail_first(p, SHOAL_RANGE, "no line");
    assert_failed(p, 1, ALL, "xxxx");
    finish_all(p);
    size_t outcomes = p->outcomes - p->parts;
    uint32_t runs = p->runs[p->sessions[0]];
    submit_negates(p, 11, 1);
    assert_failed(p, 11, ALL + 1, "xxxxx");
    assert_null(p->h->first);
    assert_int_equal(p->outcomes - p->parts, outcomes + 1);
    assert_int_equal(p->runs[p->sessions[0]], runs);
}

/* A result of a program that is under way is lost with who was given its memory, and is made again:
 * whichever of the two runs fails first, the other is over, and what is well is made by the rest.
 */
static void test_made_again_meanwhile(void **state) {
    const hub_purpose purposes[] = {HUB_ASKED, HUB_REMADE};
    pool *p = *state;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t k = 100 * i + 1;
        submit_checks(p, true, k);
        hub_value_drop(p->h, value_of(p, k));
        submit_negates(p, k + 10, k);
        assert_non_null(first_of(p, HUB_REMADE));
        fail_first_of(p, purposes[i], SHOAL_RANGE, "<node 1>: no");
        assert_null(first_of(p, HUB_REMADE));
        assert_failed(p, k, ALL, "-x-x");
        assert_failed(p, k + 10, ALL + 1, "-x-xx");
        finish_all(p);
        assert_false(value_of(p, k)->absent);
        assert_false(value_of(p, k + 10)->absent);
    }
}

static void fail_as(pool *p, int member, uint64_t instance, uint32_t status, const char *message) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = status;
    error.message = (char *)message;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = instance;
    failed.error = &error;
    deliver(p, member, SHOAL__KIND__FAILED, &failed.base);
}

/* Whatever a member says has failed, in whatever words, its program ends, and others do not notice.
 */
static void test_hostile(void **state) {
    static char endless[20000];
    memset(endless, '<', sizeof endless - 1);
    static const char *const messages[] = {
        "",
        "<node >",
        "<node 18446744073709551617>",
        "<node -1>",
        "<node 1",
        "<node 1:2>",
        "%s%n",
        "<node 1><node 2>",
        "<node 2> <node 2>",
        "a line that is not known any more",
        endless,
    };
    pool *p = *state;
    uint64_t k = 1;
    submit(p, 0, N, k);
    uint64_t kept = k;
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        k += 10;
        submit_checks(p, i % 2, k);
        hub_instance *first = first_of(p, HUB_ASKED);
        while (first->next) first = first->next;
        uint64_t id = first->id;
        int taking = first->parts[0].peer == p->h->peers.data[0] ? 0 : 1;
        uint32_t strange = ((hub_peer *)p->h->peers.data[1])->strange;
        for (int again = 0; again < 3; again++) fail_as(p, taking, id, SHOAL_RANGE, messages[i]);
        /* Of what has been given up nothing is heard any more, whoever says it. */
        fail_as(p, 1 - taking, id, SHOAL_RANGE, "<node 1>: no");
        fail_as(p, taking, id + 1000, SHOAL_RANGE, "<node 1>: no");
        assert_int_equal(((hub_peer *)p->h->peers.data[1])->strange, strange);
        finish_all(p);
        assert_int_not_equal(value_of(p, k + 3)->status, SHOAL_OK);
        assert_int_equal(value_of(p, kept)->status, SHOAL_OK);
    }
    /* Of a program without checks, and with a status that there is none of. */
    for (uint32_t status = 0; status < 3; status++) {
        submit(p, 0, N, k += 10);
        fail_first(p, status == 0 ? SHOAL_RANGE : status == 1 ? SHOAL_OK : 999, "<node 0>: no");
        assert_int_not_equal(value_of(p, k)->status, SHOAL_OK);
        finish_all(p);
    }
    submit(p, 0, N, k += 10);
    finish_all(p);
    assert_false(value_of(p, k)->absent);
}

/* ---- loops ---- */

static void fail_round(pool *p, int member, uint64_t instance, shoal_status status, uint64_t round,
                       uint32_t unreachable) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = status;
    error.message = (char *)"it does not fit";
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = instance;
    failed.error = &error;
    failed.rounds = round;
    failed.peer = unreachable;
    deliver(p, member, SHOAL__KIND__FAILED, &failed.base);
}

/* What all that take part were told last, in so many messages. */
static void told(pool *p, size_t messages, uint64_t rounds) {
    assert_int_equal(p->cancels, messages);
    assert_int_equal(p->rounds, rounds);
    p->cancels = 0;
}

static void cancel(pool *p, uint64_t k) {
    uint64_t loop = number_of(p, k);
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.loops = &loop;
    release.n_loops = 1;
    deliver(p, 0, SHOAL__KIND__RELEASE, &release.base);
}

/* Rounds before the one that failed are made, by all, up to the first that fails anywhere; none is
 * once they are nobody's, or one that they take is gone. */
static void test_rounds_before(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k <= 5; k++) {
        shoal_status status = k % 2 ? SHOAL_RANGE : SHOAL_INTERNAL;
        submit_loop(p, 0, 1000, k);
        hub_instance *loop = p->h->first;
        uint64_t id = loop->id;
        size_t all = loop->n_parts;
        loop->program->home[0] = true; /* somebody sees each round's result */
        size_t outcomes = p->outcomes;
        assert_int_equal(all, MEMBERS);
        p->cancels = 0;
        fail_round(p, 0, id, status, 50, 0);
        told(p, all, 50);
        fail_round(p, 1, id, status, 60, 0);
        assert_int_equal(p->cancels, 0);
        fail_round(p, 1, id, status, 20, 0);
        told(p, all, 20);
        assert_in_range(p->outcomes, outcomes + 1, outcomes + 2);
        assert_ptr_equal(p->h->first, loop);
        if (k < 3) cancel(p, k);
        if (k == 3) fail_round(p, 1, id, SHOAL_LOST, 10, p->h->peers.data[0]->number);
        if (k < 4) told(p, all, 0);
        if (k < 5) finish_oldest(p);
        if (k < 5) assert_null(p->h->first);
    }
    wire_close(p->ends[1], SHOAL_LOST, "it was killed");
    p->ends[1] = NULL;
    pump(p);
    told(p, 1, 0);
    finish_oldest(p);
    assert_null(p->h->first);
}

/* No rounds are made for nobody, nor more than the loop has. */
static void test_no_rounds_before(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k <= 2; k++) {
        submit_loop(p, 0, 1000, k);
        hub_instance *loop = p->h->first;
        uint64_t id = loop->id;
        size_t all = loop->n_parts;
        loop->program->home[0] = k == 2;
        p->cancels = 0;
        fail_round(p, 0, id, SHOAL_INTERNAL, k == 2 ? 1000 : 50, 0);
        told(p, all, 0);
        finish_oldest(p);
        assert_null(p->h->first);
    }
}

/* Nor once all that it makes is let go, also where a check has failed. */
static void test_let_go(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k <= 20; k += 10) {
        submit_loop(p, 0, 1000, k);
        submit(p, 0, N, k + 1);
        hub_instance *loop = p->h->first;
        size_t all = loop->n_parts;
        loop->program->home[0] = true;
        p->cancels = 0;
        fail_round(p, 0, loop->id, k == 1 ? SHOAL_INTERNAL : SHOAL_RANGE, 50, 0);
        told(p, all, 50);
        let_go(p, (uint64_t[]){k + 1}, 1);
        assert_int_equal(p->cancels, 0);
        let_go(p, (uint64_t[]){k}, 1);
        told(p, all, 0);
        finish_all(p);
    }
}

/* Whatever else of it is held, which has failed. */
static void test_failed_state_is_held(void **state) {
    pool *p = *state;
    for (uint64_t k = 1; k <= 20; k += 10) {
        base_str text;
        submit(p, 0, N, k + 5);
        finish_all(p);
        negates(1, SHOAL_F32, &text);
        submit_of(p, &text, k, (uint64_t[]){k + 5}, 1, 2, 1000, 0);
        hub_instance *loop = p->h->first;
        size_t all = loop->n_parts;
        loop->program->home[0] = true;
        p->cancels = 0;
        fail_round(p, 0, loop->id, k == 1 ? SHOAL_INTERNAL : SHOAL_RANGE, 900, 0);
        told(p, all, 900);
        let_go(p, (uint64_t[]){k}, 1);
        told(p, all, 0);
        finish_all(p);
    }
}

/* A loop that is through and is made again, for what was lost of it, is not cancelled, nor are
 * rounds of it made for those who saw them before; but it ends once nobody needs it. */
static void test_loop_made_again(void **state) {
    enum { CANCELLED, FAILED, UNNEEDED };
    pool *p = *state;
    for (uint64_t what = CANCELLED; what <= UNNEEDED; what++) {
        uint64_t k = 10 * what + 1;
        base_str text;
        submit_loop(p, 0, 1000, k);
        finish_all(p);
        hub_value_drop(p->h, value_of(p, k));
        negates(1, SHOAL_F32, &text);
        submit_graph(p, &text, k + 1, k, 1, 2);
        hub_instance *again = first_of(p, HUB_REMADE);
        assert_non_null(again);
        size_t all = again->n_parts;
        p->cancels = 0;
        cancel(p, k);
        assert_int_equal(p->cancels, 0);
        if (what == FAILED) {
            again->program->home[0] = true;
            fail_round(p, 0, again->id, SHOAL_INTERNAL, 50, 0);
            assert_int_equal(again->well, 0);
        }
        if (what == UNNEEDED) let_go(p, (uint64_t[]){k, k + 1, k + 2}, 3);
        /* With it fails what reads it. */
        told(p, what == CANCELLED ? 0 : 2 * all, what == CANCELLED ? p->rounds : 0);
        finish_all(p);
        if (what != UNNEEDED)
            assert_int_equal(value_of(p, k + 1)->status, what ? SHOAL_INTERNAL : SHOAL_OK);
    }
}

/* However many end with which what others read was to move in, others are begun anew once; and what
 * nobody needs is not. */
static void test_begun_anew_once(void **state) {
    pool *p = *state;
    enum { LOOPS = 5 };
    base_str text;
    for (uint64_t k = 1; k < 10 * LOOPS; k += 10) {
        submit_loop(p, 0, 1000, k);
        negates(2, SHOAL_F32, &text);
        submit_of(p, &text, k + 1, (uint64_t[]){k, 100}, 2, 3, 0, k == 1 ? 100 : 0);
    }
    for (uint64_t k = 101; k < 121; k += 10) {
        negates(1, SHOAL_F32, &text);
        submit_of(p, &text, k, (uint64_t[]){100}, 1, 2, k == 101 ? 1000 : 0, 0);
    }
    uint64_t last = p->h->next_instance, gone[4 * LOOPS + 2] = {101, 102};
    for (uint64_t i = 0; i < 4 * LOOPS; i++) gone[i + 2] = 10 * (i / 4) + i % 4 + 1;
    let_go(p, gone, 4 * LOOPS + 2);
    assert_int_equal(p->h->next_instance, last + 1);
    finish_all(p);
    assert_false(value_of(p, 111)->absent);
}

/* Its results are read by a loop that nobody needs, which is run twice, and by a record that is not
 * under way, for which it goes on. */
static void test_read_twice_by_one(void **state) {
    pool *p = *state;
    base_str text;
    submit_loop(p, 0, 1000, 1);
    negates(1, SHOAL_F32, &text);
    submit_of(p, &text, 11, (uint64_t[]){1}, 1, 2, 1000, 0);
    hub_instance *loop = p->h->first;
    ok(hub_instance_start(p->h, loop->next->record, HUB_REMADE, true));
    value_of(p, 1)->holds++;
    let_go(p, (uint64_t[]){1, 11, 12}, 3);
    assert_true(hub_instance_runs(loop));
    assert_false(hub_instance_runs(loop->next));
    value_of(p, 1)->holds--;
    let_go(p, (uint64_t[]){1}, 1);
    assert_false(hub_instance_runs(loop));
    finish_all(p);
}

/* However many loops a message names, each once, twice, or none: it is looked through once. */
static void test_many_cancelled(void **state) {
    pool *p = *state;
    enum { LOOPS = 3 };
    uint64_t loops[HUB_MAX_WAITING + 10] = {UINT64_MAX, 0};
    for (uint64_t k = 0; k <= LOOPS; k++) submit_loop(p, 0, 1000, 10 * k + 1);
    for (uint64_t k = 0; k < LOOPS; k++) loops[2 + k] = loops[7 + k] = number_of(p, 10 * k + 1);
    loops[HUB_MAX_WAITING] = number_of(p, 10 * LOOPS + 1);
    size_t all = p->h->first->n_parts;
    p->cancels = 0;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.loops = loops;
    release.n_loops = sizeof loops / sizeof *loops;
    deliver(p, 0, SHOAL__KIND__RELEASE, &release.base);
    assert_int_equal(p->cancels, LOOPS * all);
    finish_all(p);
}

/* A loop that was begun anew, since one that took part is gone, is cancelled as any other. */
static void test_begun_anew(void **state) {
    pool *p = *state;
    submit_loop(p, 0, 1000, 1);
    hub_instance *loop = p->h->first;
    uint64_t before = loop->id;
    wire_close(p->ends[1], SHOAL_LOST, "it was killed");
    p->ends[1] = NULL;
    pump(p);
    while (p->h->first->id == before) finish_oldest(p);
    loop = p->h->first;
    size_t all = loop->n_parts;
    loop->program->home[0] = true;
    p->cancels = 0;
    fail_round(p, 0, loop->id, SHOAL_RANGE, 50, 0);
    told(p, all, 50);
    cancel(p, 1);
    told(p, all, 0);
    finish_oldest(p);
    assert_null(p->h->first);
}

/* A slot is no more rounds before another than a sixteenth of each one's memory holds, and what is
 * free of it. */
static void test_ahead(void **state) {
    pool *p = *state;
    enum { MEMORY = 1 << 20 };
    const hub_peer *peer = p->h->peers.data[0];
    static const struct {
        uint64_t exchanged, moved;
        uint32_t ahead;
    } cases[] = {{0, 0, 32},          {MEMORY / 1024, MEMORY / 1024, 32},
                 {4096, 4096, 16},    {MEMORY / 32, MEMORY / 32, 2},
                 {MEMORY, MEMORY, 1}, {8 * MEMORY, 8 * MEMORY, 1},
                 {16, 4 * MEMORY, 4}, {16, 64 * MEMORY, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_program programs[] = {
            {.slot = peer->slots[0]->number, .exchanged = cases[i].exchanged},
            {.slot = 12345, .exchanged = 8 * MEMORY}}; /* it has left */
        uint64_t needs[2] = {0}, tight[2] = {MEMORY - 3 * 4096, 0};
        plan_result plan = {.programs = programs, .n_programs = 2, .bytes_moved = cases[i].moved};
        assert_int_equal(hub_loop_ahead(p->h, &plan, needs), cases[i].ahead);
        if (cases[i].exchanged == 4096) assert_int_equal(hub_loop_ahead(p->h, &plan, tight), 3);
    }
}

/* A loop needs room for the rounds before another; of one round, whose exchanges wait for each
 * other, twice what the round has at most. */
static void test_needs(void **state) {
    pool *p = *state;
    enum { MEMORY = 1 << 20, PEAK = 1000 };
    static const struct {
        uint64_t exchanged, need;
        uint32_t ahead;
    } cases[] = {{10, PEAK + 320, 32},
                 {MEMORY / 32, PEAK + MEMORY / 16, 2},
                 {100 + MEMORY / 32, 2 * PEAK, 1},
                 {8 * MEMORY, 2 * PEAK, 1}};
    submit_loop(p, 0, 1000, 1);
    hub_instance *loop = p->h->first;
    plan_program *program = &loop->variant->plan.programs[0], kept = *program;
    uint64_t *reserved = loop->needs;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t needs[MEMBERS] = {PEAK};
        program->exchanged = cases[i].exchanged;
        program->peak = PEAK;
        loop->needs = needs;
        ok(hub_loop_needs(p->h, loop));
        assert_int_equal(loop->ahead, cases[i].ahead);
        assert_int_equal(needs[0], cases[i].need);
    }
    loop->needs = reserved;
    *program = kept;
    finish_all(p);
}

/* Who submits what fails pays for what is planned again, not the worker that tells. */
static void test_paid_for(void **state) {
    pool *p = *state;
    p->turns = true;
    hub_user *other = of_another(p, 1, 7)->user;
    submit_checks(p, true, 1);
    hub_user *user = first_of(p, HUB_ASKED)->program->user;
    assert_ptr_not_equal(user, other);
    user->asked_at = other->asked_at = base_now();
    int64_t start = base_now();
    user->free_at = other->free_at = start;
    fail_first(p, SHOAL_RANGE, "<node 1>: no");
    int64_t took = base_now() - start;
    assert_in_range(user->free_at - start, 1, 3 * took);
    assert_int_equal(other->free_at, start);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_paid_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_part, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_after_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rounds_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_rounds_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_let_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_state_is_held, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loop_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_anew_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_twice_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_needs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_again_meanwhile, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
