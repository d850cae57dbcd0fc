/* Questions for artifacts: who may keep them, what is passed on, and how much one user may ask. */
#include "hub/hub_testing.h"

static const uint8_t signer[WIRE_KEY] = {7};
static uint8_t digest[WIRE_DIGEST] = {1, 2, 3};
static char words[2048];

static hub_peer *member(pool *p, int m) { return wire_link_get(p->ends[m], WIRE_HUB); }

static Shoal__ArtifactAsk question(uint64_t token) {
    Shoal__ArtifactAsk ask = SHOAL__ARTIFACT_ASK__INIT;
    ask.token = token;
    ask.made_of = (ProtobufCBinaryData){sizeof digest, digest};
    ask.target = (char *)"llvm-cpu";
    ask.device = (char *)"x86_64+avx";
    ask.compiler = (char *)"1.0";
    return ask;
}

static void ask(pool *p, int m, uint64_t token) {
    Shoal__ArtifactAsk message = question(token);
    deliver(p, m, SHOAL__KIND__ARTIFACT_ASK, &message.base);
}

static Shoal__Artifact answer(uint64_t token) {
    Shoal__Artifact given = SHOAL__ARTIFACT__INIT;
    given.token = token;
    given.note = (ProtobufCBinaryData){2, (uint8_t *)"{}"};
    given.digest = (ProtobufCBinaryData){sizeof digest, digest};
    given.bytes = 9;
    return given;
}

static void say(pool *p, int m, uint64_t token) {
    Shoal__Artifact given = answer(token);
    deliver(p, m, SHOAL__KIND__ARTIFACT, &given.base);
}

static void keep(pool *p, int m) {
    Shoal__Artifact begins = SHOAL__ARTIFACT__INIT;
    deliver(p, m, SHOAL__KIND__ARTIFACT, &begins.base);
}

static void test_only_its_own_user_keeps(void **state) {
    pool *p = *state;
    keep(p, 1); /* of a hub without artifacts */
    assert_int_equal(member(p, 1)->strange, 1);
    hub_keep_artifacts(p->h, signer);
    p->ends[1]->proof.local = false; /* somebody else */
    keep(p, 1);
    assert_int_equal(member(p, 1)->strange, 2);
    assert_null(p->h->artifacts.keeper);
    ask(p, 0, 4); /* it may come */
    assert_int_equal(p->given->error->status, SHOAL_BUSY);
    assert_string_equal(p->given->error->message, "the hub's keeper of artifacts is not there yet");
    p->h->artifacts.expected = base_now();
    ask(p, 0, 5);
    assert_int_equal(p->given->error->status, SHOAL_NOT_FOUND);
    assert_string_equal(p->given->error->message, "the hub's keeper of artifacts is not there");
    p->ends[1]->proof.local = true;
    keep(p, 1);
    assert_ptr_equal(p->h->artifacts.keeper, member(p, 1));
    keep(p, 0); /* there is one */
    assert_int_equal(p->why, SHOAL_BUSY);
    assert_string_equal(p->reason, "the pool has a keeper of artifacts already");
    assert_ptr_equal(p->h->artifacts.keeper, member(p, 1));
}

static void test_members_are_told_the_key(void **state) {
    pool *p = *state;
    assert_false(p->has_signer);
    hub_keep_artifacts(p->h, signer);
    assert_non_null(add_worker(p));
    assert_true(p->has_signer);
    assert_memory_equal(p->signer, signer, WIRE_KEY);
}

static void test_questions_and_answers(void **state) {
    pool *p = *state;
    hub_keep_artifacts(p->h, signer);
    keep(p, 1);
    ask(p, 0, 77);
    assert_int_equal(p->n_wanted, 1);
    assert_int_not_equal(p->wanted->token, 77);
    assert_int_equal(p->wanted->user, member(p, 0)->user->number);
    assert_string_equal(p->wanted->device, "x86_64+avx");
    uint64_t token = p->wanted->token;
    /* Answers are the keeper's alone, to what it was asked, once, and of a size. */
    say(p, 0, token);
    assert_int_equal(member(p, 0)->strange, 1);
    say(p, 1, token + 1);
    assert_int_equal(member(p, 1)->strange, 1);
    static uint8_t long_note[WIRE_MOST_NOTE + 1];
    for (int bad = 0; bad < 3; bad++) {
        Shoal__Artifact wrong = answer(token);
        Shoal__Error error = SHOAL__ERROR__INIT;
        if (bad == 0) wrong.note = (ProtobufCBinaryData){sizeof long_note, long_note};
        if (bad == 1) wrong.digest.len--;
        if (bad == 2) wrong.error = &error;
        if (bad == 2) error.message = memset(words, 'a', HUB_MAX_REASON + 1);
        deliver(p, 1, SHOAL__KIND__ARTIFACT, &wrong.base);
        assert_int_equal(member(p, 1)->strange, bad + 2);
        memset(words, 0, sizeof words);
    }
    assert_int_equal(p->n_given, 0);
    say(p, 1, token);
    assert_int_equal(p->n_given, 1);
    assert_int_equal(p->given->token, 77);
    assert_int_equal(p->given->peer, member(p, 1)->number);
    assert_int_equal(p->given->bytes, 9);
    say(p, 1, token);
    assert_int_equal(member(p, 1)->strange, 5);
    assert_int_equal(member(p, 0)->user->wanted, 0);
}

static void test_questions_that_make_no_sense(void **state) {
    pool *p = *state;
    ask(p, 0, 1); /* of a hub without artifacts */
    assert_int_equal(member(p, 0)->strange, 1);
    hub_keep_artifacts(p->h, signer);
    keep(p, 1);
    uint8_t *text = calloc(1, WIRE_MOST_TEXT + 1);
    memset(words, 'a', sizeof words - 1);
    for (int bad = 0; bad < 6; bad++) {
        Shoal__ArtifactAsk wrong = question(3);
        if (bad == 0) wrong.token = 0;
        if (bad == 1) wrong.made_of.len--;
        if (bad == 2) wrong.target = words;
        if (bad == 3) wrong.device = words;
        if (bad == 4) wrong.compiler = words;
        if (bad == 5) wrong.text = (ProtobufCBinaryData){WIRE_MOST_TEXT + 1, text};
        deliver(p, 0, SHOAL__KIND__ARTIFACT_ASK, &wrong.base);
        assert_int_equal(member(p, 0)->strange, bad + 2);
    }
    member(p, 0)->lends = false; /* who runs no programs needs none */
    ask(p, 0, 4);
    assert_int_equal(member(p, 0)->strange, 8);
    assert_int_equal(p->n_wanted, 0);
    free(text);
    memset(words, 0, sizeof words);
}

/* One user alone has a third of what may wait, and leaves room for others; it counts until it is
 * answered, also after who asked has left and come again. */
static void test_floods(void **state) {
    pool *p = *state;
    hub_keep_artifacts(p->h, signer);
    keep(p, 1);
    wire_link *worker = add_worker(p);
    assert_non_null(worker);
    hub_peer *greedy = of_another(p, 0, 1), *other = of_another(p, 2, 2);
    uint64_t first = 0, most = HUB_MAX_WANTED / HUB_WANTED_HELD;
    for (uint64_t i = 1; i <= most; i++) {
        ask(p, 0, i);
        if (!first) first = p->wanted->token;
    }
    assert_in_range(p->n_wanted, most / 3 - 1, most / 3 + 1);
    assert_int_equal(p->given->error->status, SHOAL_BUSY);
    size_t before = p->n_wanted;
    ask(p, 2, 1);
    assert_int_equal(p->n_wanted, before + 1);
    say(p, 1, p->wanted->token);
    assert_null(p->given->error);
    assert_int_equal(other->user->wanted, 0);
    say(p, 1, first);
    ask(p, 0, 9999);
    assert_int_equal(p->n_wanted, before + 2);
    uint64_t held = greedy->user->wanted;
    const hub_user *user = greedy->user;
    wire_close(p->ends[0], SHOAL_CLOSED, "bye");
    pump(p);
    hub_users_look(p->h);
    assert_int_equal(p->h->artifacts.wanted.count, before);
    assert_int_equal(user->wanted, held);
    say(p, 1, first + 1); /* nobody is told */
    assert_int_equal(user->wanted, held - HUB_WANTED_HELD);
    assert_int_equal(member(p, 1)->strange, 0);
}

/* Who may ask for no more now is told so, and goes on as a worker. */
static void test_one_that_may_not_wait(void **state) {
    pool *p = *state;
    hub_keep_artifacts(p->h, signer);
    keep(p, 1);
    hub_peer *greedy = of_another(p, 0, 1), *other = of_another(p, 1, 2);
    p->turns = true;
    greedy->user->free_at = other->user->asked_at = base_now() + 3600 * BASE_SECOND;
    greedy->user->held += HUB_MAX_HELD / 3;
    ask(p, 0, 5);
    assert_int_equal(p->n_given, 1);
    assert_int_equal(p->given->token, 5);
    assert_int_equal(p->given->error->status, SHOAL_BUSY);
    assert_int_equal(p->n_wanted, 0);
    greedy->user->held -= HUB_MAX_HELD / 3;
    ask(p, 0, 6);
    assert_int_equal(greedy->asks.count, 1);
    p->turns = false;
}

static void test_the_keeper_leaves(void **state) {
    pool *p = *state;
    hub_keep_artifacts(p->h, signer);
    keep(p, 1);
    for (uint64_t i = 1; i < 4; i++) ask(p, 0, i);
    assert_int_equal(p->n_given, 0);
    wire_close(p->ends[1], SHOAL_CLOSED, "bye");
    pump(p);
    assert_int_equal(p->n_given, 3);
    assert_int_equal(p->given->error->status, SHOAL_BUSY);
    assert_string_equal(p->given->error->message, "the hub's keeper of artifacts has left");
    assert_int_equal(member(p, 0)->user->wanted, 0);
    ask(p, 0, 4);
    assert_int_equal(p->n_given, 4);
    assert_int_equal(p->given->error->status, SHOAL_BUSY); /* it may come again */
    keep(p, 0);
    assert_ptr_equal(p->h->artifacts.keeper, member(p, 0));
    /* What it had the text of may be why it ends. */
    assert_non_null(add_worker(p));
    Shoal__ArtifactAsk whole = question(5);
    whole.text = (ProtobufCBinaryData){4, (uint8_t *)"text"};
    deliver(p, 2, SHOAL__KIND__ARTIFACT_ASK, &whole.base);
    assert_int_equal(p->n_given, 4);
    wire_close(p->ends[0], SHOAL_CLOSED, "bye");
    pump(p);
    assert_int_equal(p->n_given, 5);
    assert_int_equal(p->given->error->status, SHOAL_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_its_own_user_keeps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_members_are_told_the_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_questions_and_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_questions_that_make_no_sense, setup, teardown),
        cmocka_unit_test_setup_teardown(test_floods, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_may_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_keeper_leaves, setup, teardown),
    };
    return cmocka_run_group_tests_name("artifacts", tests, NULL, NULL);
}
