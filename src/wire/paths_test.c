/* Links of several paths, over a network in memory: frames come late, connections end at any point,
 * at one end before the other, with some of what was under way; and all that is sent comes once. */
#include "base/testing.h"
#include "wire/paths_testing.h"

static void say(house *h) { say_bytes(h, roll(20) ? roll(2000) : roll(5 << 19)); }

static bool give(house *h, uint32_t ordinal) {
    return give_bytes(h, ordinal, roll(3) ? roll(CHUNKS * WIRE_CHUNK) : roll(5000));
}

static uint64_t sum(const house *h) {
    uint64_t bytes = 0;
    for (int i = 0; i < TRANSFERS; i++) bytes += h->sizes[i];
    return bytes;
}

static void check_all_came(const house *h) {
    assert_int_equal(h->next_in, h->other->next_out);
    assert_int_equal(h->bytes, sum(h->other));
    assert_int_equal(h->done, TRANSFERS);
    assert_int_equal(h->closed, 0);
}

/* Open paths of which both ends are well. */
static size_t whole_paths(void) {
    size_t n = 0;
    for (size_t i = 0; i < n_ends; i++)
        n += !ends[i]->framed.accepting && ends[i]->framed.base.state == WIRE_OPEN &&
             !ends[i]->broken && ends[i]->other && !ends[i]->other->broken &&
             ends[i]->other->framed.path.ready;
    return n;
}

/* One thing after the other, as chance has it; what is under way in no order but that of its path.
 */
static void live(uint32_t steps, uint32_t cuts) {
    uint32_t given[2] = {0, 0};
    for (uint32_t i = 0; i < steps; i++) {
        house *h = roll(2) ? &near : &far;
        uint32_t which = h == &far;
        if (!roll(6) && h->next_out < MESSAGES) say(h);
        if (!roll(12) && given[which] < TRANSFERS) assert_true(give(h, given[which]++));
        if (n_ends) happen(ends[roll((uint32_t)n_ends)]);
        if (!roll(3)) turn(h);
        if (!roll(40)) redial();
        if (cuts && !roll(steps / cuts) && whole_paths() > 1) cut(ends[roll((uint32_t)n_ends)]);
    }
    redial();
    settle();
    for (house *h = &near;; h = &far) {
        uint32_t which = h == &far;
        while (given[which] < TRANSFERS) assert_true(give(h, given[which]++));
        if (which) break;
    }
    settle();
}

static void test_all_comes_once(void **state) {
    for (uint64_t seed = 0; seed < 100; seed += STRIDE) {
        paths_speed = seed % 4 ? 0 : 1e6; /* then what is there goes compressed */
        begin_houses(seed, 2 + (int)(seed % 2));
        assert_int_equal(wire_link_paths(near.link).open, 2 + seed % 2);
        assert_int_equal(wire_link_paths(far.link).open, 2 + seed % 2);
        live(600, (uint32_t)(seed % 12));
        if (near.closed || far.closed || near.next_in != far.next_out || near.bytes != sum(&far))
            print_error("seed %llu: %s %s\n", (unsigned long long)seed, near.text, far.text);
        check_all_came(&near);
        check_all_came(&far);
        assert_int_equal(wire_link_count(near.link).saved_out > 0, paths_speed > 0);
        end_houses();
    }
    paths_speed = 0;
}

static void test_one_address_is_one_path(void **state) {
    begin_houses(1, 1);
    assert_null(near.link->paths);
    assert_null(far.link->paths);
    assert_int_equal(wire_link_paths(near.link).open, 1);
    assert_int_equal(wire_link_paths(near.link).lost, 0);
    live(300, 0);
    check_all_came(&near);
    check_all_came(&far);
    end_houses();
}

/* After each of its frames, in either direction, while messages and a transfer are on their way. */
static void test_ends_at_every_point(void **state) {
    for (int at = 0; at < 40; at += STRIDE)
        for (int there = 0; there < 2; there++) {
            begin_houses((uint64_t)at, 2);
            for (int i = 0; i < 4; i++) {
                say(&near);
                say(&far);
            }
            for (uint32_t i = 0; i < TRANSFERS; i++) {
                give(&near, i);
                give(&far, i);
            }
            turn(&near);
            turn(&far);
            for (int i = 0; i < at; i++) {
                end *victim = (end *)(there ? far.link : near.link);
                happen(i % 3 ? victim : ends[n_ends - 1]);
                turn(i % 2 ? &near : &far);
            }
            cut((end *)(there ? far.link : near.link));
            settle();
            assert_int_equal(wire_link_paths(near.link).open, 1);
            assert_true(near.link->down);
            assert_int_equal(wire_link_paths(far.link).lost, 1);
            check_all_came(&near);
            check_all_came(&far);
            redial();
            settle();
            assert_int_equal(wire_link_paths(near.link).open, 2); /* it is back */
            end_houses();
        }
}

static void test_the_last_path_is_the_link(void **state) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        begin_houses(seed, 2);
        for (uint32_t i = 0; i < TRANSFERS; i++) give(&near, i);
        for (uint32_t i = 0, n = roll(60); i < n; i++) {
            happen(ends[roll((uint32_t)n_ends)]);
            turn(&near);
            turn(&far);
        }
        while (n_ends) cut(ends[0]);
        turn(&near);
        turn(&far);
        assert_int_equal(near.closed, 1);
        assert_int_equal(far.closed, 1);
        assert_string_equal(near.text, "cut");
        assert_int_equal(near.done, TRANSFERS);
        end_houses();
    }
}

/* What nobody wants any more is given up where it is: waiting, on its way, or about to go again. */
static void test_dropped(void **state) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        begin_houses(seed, 2);
        for (uint32_t i = 0; i < TRANSFERS; i++) give(&near, i);
        assert_true(wire_has_data(near.link, 5));
        for (uint32_t i = 0, n = roll(30); i < n; i++) {
            happen(ends[roll((uint32_t)n_ends)]);
            turn(&near);
        }
        if (roll(2)) cut((end *)near.link);
        wire_drop_data(near.link, 5);
        assert_int_equal(near.done, TRANSFERS);
        assert_false(wire_has_data(near.link, 5));
        say(&near);
        settle();
        assert_int_equal(far.next_in, 1);
        end_houses();
    }
}

/* The closing frame is the last, whichever way the others take. */
static void test_closing_is_last(void **state) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        begin_houses(seed, 2);
        for (uint32_t i = 0; i < TRANSFERS; i++) give(&near, i);
        say(&near);
        wire_close(near.link, SHOAL_CLOSED, "that was all");
        while (near.link || far.link) {
            if (n_ends) happen(ends[roll((uint32_t)n_ends)]);
            turn(roll(2) ? &near : &far);
        }
        assert_string_equal(far.text, "that was all");
        assert_int_equal(far.next_in, 1);
        assert_int_equal(far.bytes, sum(&near));
        end_houses();
    }
}

/* A path that joins has to know the number of the link, and be of the same process. */
static void test_strangers_do_not_join(void **state) {
    begin_houses(1, 2);
    uint64_t id = near.link->paths->id, other = near.peer->hello->incarnation;
    for (int i = 0; i < 3; i++) {
        near.link->paths->id = i == 0 ? id + 1 : id;
        near.peer->hello->incarnation = i == 1 ? other + 1 : other;
        end *own = (end *)join((wire_framed *)near.link, "tcp://10.0.0.9:1", i == 2 ? 1 : 99);
        if (i == 2) own->other->framed.base.proof.keyed = true;
        settle();
        assert_int_equal(wire_link_paths(near.link).open, 2);
        assert_int_equal(wire_link_paths(far.link).open, 2);
    }
    end_houses();
}

/* Words about paths that are wrong end the link, or nothing; they are never a reason to write or
 * read what is not there. */
static void test_wrong_words(void **state) {
    static const struct {
        uint64_t number, come;
        uint16_t kind;
        bool ends;
    } words[] = {{9, 5, 0, false},         {1, UINT64_MAX, 0, true}, {0, 0, 0, true},
                 {1, UINT64_MAX, 1, true}, {0, 1 << 30, 0, true},    {UINT64_MAX, 0, 1, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        begin_houses(1, 2);
        for (uint32_t k = 0; k < TRANSFERS; k++) give(&far, k);
        say(&far);
        settle();
        wire_frame frame = {.type = WIRE_FRAME_LOST,
                            .kind = words[i].kind,
                            .instance = words[i].number,
                            .total = words[i].come};
        wire_paths *p = near.link->paths;
        wire_framed *by = p->open[words[i].number == p->open[0]->path.number ? 1 : 0];
        put(by, &frame, NULL);
        settle();
        assert_int_equal(far.closed, words[i].ends);
        end_houses();
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_comes_once),
        cmocka_unit_test(test_one_address_is_one_path),
        cmocka_unit_test(test_ends_at_every_point),
        cmocka_unit_test(test_the_last_path_is_the_link),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_closing_is_last),
        cmocka_unit_test(test_strangers_do_not_join),
        cmocka_unit_test(test_wrong_words),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
