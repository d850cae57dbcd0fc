/* Links of several paths on which the worst happens, or whose other side says what it likes: what
 * is sent still comes once, nothing waits for ever, and nothing grows without end. */
#include "wire/paths_testing.h"

static end *path_at(const house *h, uint32_t index) {
    assert_true(index < h->link->paths->n_open);
    return (end *)h->link->paths->open[index];
}

static void lose(end *own) { wire_link_finish(&own->framed.base, SHOAL_LOST, "cut"); }

static void check_known(const house *h) {
    for (uint32_t i = 0; i < h->link->paths->n_lost; i++)
        assert_true(h->link->paths->lost[i].known);
}

/* Both have lost a path, and one has asked what came on it. The answer is lost with another path,
 * of whose end who asked hears from the other side: it asks again by what is left. */
static void test_the_answer_is_lost_too(void **state) {
    begin_houses(1, 3);
    end *a = path_at(&near, 0), *b = path_at(&near, 1), *c = path_at(&near, 2);
    end *far_c = c->other;
    lose(a);
    assert_int_equal(far_c->first->frame.type, WIRE_FRAME_LOST);
    happen(far_c);
    assert_int_equal(c->first->frame.type, WIRE_FRAME_LOST);
    drop_packets(c);
    lose(far_c);
    while (b->first) happen(b);
    settle();
    assert_int_equal(wire_link_paths(near.link).open, 1);
    check_known(&near);
    check_known(&far);
    say_bytes(&near, 10);
    say_bytes(&far, 10);
    settle();
    assert_int_equal(far.next_in, 1);
    assert_int_equal(near.next_in, 1);
    end_houses();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_answer_is_lost_too),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
