/* Signals: what is read, and what is told where something is wrong. */
#include "plan/signal.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static shoal_status parse(const char *text, plan_signals *out) {
    return plan_signals_parse(text, strlen(text), "c.yaml", NULL, out);
}

static void test_all(void **state) {
    plan_signals s;
    assert_int_equal(parse("# of a model\n"
                           "layer1:\n"
                           "  shard:\n"
                           "    axis: -1\n"
                           "    workers: [2, 0]\n"
                           "    shares: [70, 30.5]\n"
                           "  backward: layer2\n"
                           "layer2:\n"
                           "  shard: {workers: null, replicated: yes}\n"
                           "  compile: true\n"
                           "layer3:\n",
                           &s),
                     SHOAL_OK);
    assert_int_equal(s.list.count, 3);
    const plan_signal *a = plan_signal_find(&s, "layer1"), *b = plan_signal_find(&s, "layer2");
    const plan_signal *c = plan_signal_find(&s, "layer3");
    assert_true(a && b && c && a->shard && b->shard && !c->shard);
    assert_int_equal(a->axis, -1);
    assert_int_equal(a->n_workers, 2);
    assert_int_equal(a->workers[0], 2);
    assert_int_equal(a->workers[1], 0);
    assert_true(a->shares[0] == 70 && a->shares[1] == 30.5);
    assert_string_equal(a->backward, "layer2");
    assert_int_equal(a->at.line, 2);
    assert_int_equal(a->workers_at.line, 5);
    assert_int_equal(a->workers_at.column, 14);
    assert_true(b->replicated && b->compile && !b->n_workers && !b->axis && !b->backward);
    plan_signals_fini(&s);
    assert_int_equal(parse("", &s), SHOAL_OK);
    assert_int_equal(s.list.count, 0);
}

static void test_known(void **state) {
    plan_signals first, second;
    assert_int_equal(parse("a:\n", &first), SHOAL_OK);
    const char *text = "b: {backward: a}\n";
    assert_int_equal(plan_signals_parse(text, strlen(text), "d.yaml", &first, &second), SHOAL_OK);
    /* The second replaces what has its name. */
    plan_signal *copy;
    assert_int_equal(plan_signal_copy(plan_signal_find(&second, "b"), &copy), SHOAL_OK);
    assert_string_equal(copy->backward, "a");
    assert_int_equal(plan_signal_set(&first, copy), SHOAL_OK);
    assert_int_equal(first.list.count, 2);
    assert_int_equal(plan_signal_copy(copy, &copy), SHOAL_OK);
    assert_int_equal(plan_signal_set(&first, copy), SHOAL_OK);
    assert_int_equal(first.list.count, 2);
    plan_signals_fini(&first);
    plan_signals_fini(&second);
}

static void test_wrong(void **state) {
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"a:\n  shard:\n    axes: 1\n",
         "c.yaml:3:5: 'axes' is no key of shard; there are axis, workers"},
        {"a:\n  chard: {}\n",
         "c.yaml:2:3: 'chard' is no key of a signal; there are shard, backward"},
        {"a: {shard: {axis: one}}\n", "c.yaml:1:19: axis must be an integer, not one"},
        {"a: {shard: {axis: 1.5}}\n", "axis must be an integer, not 1.5"},
        {"a: {shard: {axis: '1'}}\n", "axis must be an integer"},
        {"a: {shard: {axis: 9}}\n", "axis is 9; give -8 to 7"},
        {"a: {shard: {axis: 99999999999999999999}}\n", "axis is 99999999999999999999"},
        {"a: {shard: {workers: 3}}\n", "workers must be a list"},
        {"a: {shard: {workers: []}}\n", "workers is empty"},
        {"a: {shard: {workers: [1, 1]}}\n", "c.yaml:1:26: worker 1 is named twice"},
        {"a: {shard: {workers: [-1]}}\n", "a worker is -1; give 0 to"},
        {"a: {shard: {shares: [1, x]}}\n", "a share must be a number"},
        {"a: {shard: {shares: [0, 0]}}\n", "all shares are 0"},
        {"a: {shard: {shares: [nan]}}\n", "a share must be a number"},
        {"a: {shard: {workers: [0, 1], shares: [1]}}\n", "1 shares for 2 workers"},
        {"a: {shard: {replicated: 1}}\n", "replicated must be true or false, not 1"},
        {"a: {shard: 1}\n", "c.yaml:1:12: shard must be a mapping"},
        {"a: 1\n", "c.yaml:1:4: a signal must be a mapping"},
        {"a: {backward: b}\n", "c.yaml:1:1: signal 'a' has backward: b, and there is no such"},
        {"a: {backward: [b]}\n", "backward must be a name"},
        {"a: {compile: maybe}\n", "compile must be true or false, not maybe"},
        {"a:\nb:\na:\n", "c.yaml:3:1: signal 'a' was said before"},
        {"a: {compile: true, compile: true}\n", "c.yaml:1:20: 'compile' was said before"},
        {"[a, b]\n", "c.yaml:1:1: a mapping of signals"},
        {"{[a]: {}}\n", "a signal's key must be a name"},
        {"a: {\n", "c.yaml:2:1: "},
        {"a:\n\t- x\n", "c.yaml:2:1: "},
        {"a:\n---\nb:\n", "more than one document"},
        {"a: &x {shard: *x}\n", "'shard' is no key of shard"},
        {"a: *nowhere\n", "c.yaml:1:4: "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        plan_signals s;
        assert_int_equal(parse(wrong[i].text, &s), SHOAL_FORMAT);
        assert_int_equal(s.list.count, 0);
        if (!strstr(shoal_error_message(), wrong[i].message))
            fail_msg("%s: '%s', not '%s'", wrong[i].text, shoal_error_message(), wrong[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_known),
                                       cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests_name("signal", tests, NULL, NULL);
}
