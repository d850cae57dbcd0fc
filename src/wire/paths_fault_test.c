/* Links of several paths on which the worst happens, or whose other side says what it likes: what
 * is sent still comes once, nothing waits for ever, and nothing grows without end. */
#include "wire/flight.h"
#include "wire/paths_testing.h"

#include <pthread.h>

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

/* An answer goes by the path on which it was asked: who asked has lost others meanwhile. */
static void test_the_answer_takes_the_same_path(void **state) {
    begin_houses(1, 3);
    end *a = path_at(&near, 0), *b = path_at(&near, 1), *c = path_at(&near, 2);
    lose(b->other);
    lose(a->other);
    drop_packets(a);
    drop_packets(b);
    while (c->first) happen(c);
    settle();
    assert_int_equal(wire_link_paths(far.link).open, 1);
    check_known(&far);
    say_bytes(&far, 10);
    settle();
    assert_int_equal(near.next_in, 1);
    end_houses();
}

/* Without an answer, the link ends in its time; so it does with the last path. */
static void test_no_answer(void **state) {
    begin_houses(1, 2);
    end *a = path_at(&near, 0), *b = path_at(&near, 1);
    give_bytes(&near, 0, 1000);
    turn(&near);
    lose(a);
    drop_packets(b->other);
    wire_paths *p = near.link->paths;
    assert_in_range(p->timer.deadline, 1, base_now() + 15 * BASE_SECOND);
    wire_routes_look(p);
    assert_int_equal(near.closed, 0);
    p->lost[0].until = base_now();
    wire_routes_look(p);
    assert_int_equal(near.closed, 1);
    assert_non_null(strstr(near.text, "what came on a path that was cut was not told of"));
    assert_int_equal(near.done, 1);
    settle();
    assert_int_equal(far.closed, 1);
    end_houses();
}

static size_t count_packets(const end *own, uint16_t type) {
    size_t n = 0;
    for (const packet *p = own ? own->first : NULL; p; p = p->next) n += p->frame.type == type;
    return n;
}

/* Boxes that are too small to tell how fast a path is do not wait for one another. */
static void test_small_boxes_do_not_wait(void **state) {
    begin_houses(1, 2);
    for (uint32_t i = 0; i < TRANSFERS; i++) give_bytes(&near, i, 1000);
    for (int i = 0; i < TRANSFERS; i++) turn(&near);
    size_t n = 0;
    for (uint32_t i = 0; i < 2; i++) n += count_packets(path_at(&near, i)->other, WIRE_FRAME_DATA);
    assert_int_equal(n, TRANSFERS);
    settle();
    assert_int_equal(near.done, TRANSFERS);
    end_houses();
}

/* Who says that more may come, but never what has, gets no more than so much; what is kept for it
 * counts as waiting. */
static void test_what_is_kept_is_limited(void **state) {
    begin_houses(1, 2);
    wire_frame credit = {.type = WIRE_FRAME_CREDIT, .total = UINT64_MAX};
    for (uint32_t i = 0; i < 2; i++) {
        put_packet(path_at(&near, i), &credit, sizeof credit);
        happen(path_at(&near, i));
    }
    for (int i = 0; i < 120; i++) {
        say_bytes(&near, 1 << 20);
        for (int k = 0; k < 4; k++) turn(&near);
        for (uint32_t k = 0; k < 2; k++) drop_packets(path_at(&near, k)->other);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const wire_framed *own = near.link->paths->open[i];
        assert_in_range(own->sent - own->path.acked, 0, WIRE_MAX_UNTOLD);
    }
    assert_true(wire_link_queued(near.link) > 120 << 20);
    end_houses();
    begin_houses(1, 2);
    say_bytes(&near, 5);
    assert_true(wire_link_queued(near.link) > 5);
    settle();
    wire_framed_tell(far.link->paths->open[0], true);
    wire_framed_tell(far.link->paths->open[1], true);
    settle();
    assert_int_equal(wire_link_queued(near.link), 0);
    end_houses();
}

static void *drop_five(void *context) {
    wire_drop_data(near.link, 5);
    return NULL;
}

/* A second path joins while another thread is about to give up a box, some of which goes out just
 * then. */
static void test_given_up_while_one_joins(void **state) {
    begin_houses(1, 2);
    wire_paths *p = near.link->paths;
    give_bytes(&near, 0, 3 << 20);
    pthread_t thread;
    pthread_mutex_lock(&near.link->lock);
    atomic_store(&p->kept, false);
    assert_int_equal(pthread_create(&thread, NULL, drop_five, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50 * BASE_MS}, NULL);
    atomic_store(&p->kept, true);
    wire_item *item = near.link->transfers.first;
    wire_piece *piece = calloc(1, sizeof *piece);
    *piece = (wire_piece){.item = item, .bytes = WIRE_CHUNK, .end = 1 << 30};
    item->pieces++;
    item->frame.offset += WIRE_CHUNK;
    wire_flight_push(&p->open[0]->path.flight, piece);
    pthread_mutex_unlock(&near.link->lock);
    pthread_join(thread, NULL);
    assert_int_equal(near.done, 1);
    assert_true(item->dropped);
    assert_null(near.link->transfers.first);
    end_houses();
}

static bool had;

static void read_and_drop(void *context, uint64_t offset, void *to, size_t n) {
    memset(to, 0, n);
    had = wire_has_data(near.link, 5);
    wire_drop_data(near.link, 5);
}

/* What is being read waits still, and can be given up. What is under way waits no more. */
static void test_given_up_while_it_is_read(void **state) {
    begin_houses(1, 2);
    counted *c = malloc(sizeof *c);
    *c = (counted){&near, 0};
    wire_transfer transfer = {5, 1, 0, 1000};
    wire_source source = {c, read_and_drop, counted_done};
    assert_int_equal(wire_send_data(near.link, &transfer, &source), SHOAL_OK);
    turn(&near);
    turn(&near);
    assert_true(had);
    assert_int_equal(near.done, 1);
    give_bytes(&near, 1, 1000);
    assert_true(wire_has_data(near.link, 5));
    turn(&near);
    turn(&near);
    assert_false(wire_has_data(near.link, 5));
    assert_int_equal(near.done, 1);
    for (uint32_t i = 0; i < 2; i++) drop_packets(path_at(&near, i)->other);
    end_houses();
    assert_int_equal(near.done, 2);
}

/* No memory for a frame is no reason to wait for ever. */
static void test_no_memory_for_a_frame(void **state) {
    for (int message = 0; message < 2; message++) {
        begin_houses(1, 2);
        no_memory = true;
        if (message)
            say_bytes(&near, 10);
        else
            give_bytes(&near, 0, 1000);
        settle();
        assert_false(no_memory);
        assert_int_equal(message ? far.next_in : far.bytes, message ? 1 : 1000);
        end_houses();
    }
}

/* However little may be under way, there is room for the next frame once all has come. */
static void test_small_windows(void **state) {
    for (int addresses = 1; addresses < 3; addresses++) {
        may_come = WIRE_FIRST_CREDIT;
        begin_houses(1, addresses);
        for (int i = 0; i < 3; i++) {
            say_bytes(&near, 100);
            settle();
            give_bytes(&near, (uint32_t)i, 2 << 20);
            settle();
        }
        assert_int_equal(far.bytes, 6 << 20);
        assert_int_equal(far.next_in, 3);
        end_houses();
        may_come = 3 << 20;
    }
}

/* One side has heard of a path that the other never did: what has come is acknowledged all the
 * same. */
static void test_half_joined(void **state) {
    static const char *const at[] = {"tcp://10.0.0.1:1", "tcp://10.0.1.1:1"};
    begin_at(at, 2);
    while (n_ends < 4)
        for (size_t i = 0; i < n_ends; i++) happen(ends[i]);
    end *joins = ends[2]->framed.accepting ? ends[3] : ends[2], *other = joins->other;
    happen(other);
    assert_int_equal(wire_link_paths(far.link).open, 2);
    drop_packets(joins);
    lose(other);
    settle();
    assert_int_equal(wire_link_paths(near.link).lost, 0);
    assert_int_equal(wire_link_paths(far.link).lost, 1);
    give_bytes(&far, 0, 1000);
    settle();
    assert_int_equal(near.bytes, 1000);
    assert_int_equal(far.done, 1);
    end_houses();
}

static void give_and_turn(uint32_t ordinal, uint64_t bytes) {
    give_bytes(&near, ordinal, bytes);
    for (int i = 0; i < 8; i++) turn(&near);
}

static uint64_t largest_packet(const end *own) {
    uint64_t most = 0;
    for (const packet *p = own->first; p; p = p->next)
        if (p->frame.bytes > most) most = p->frame.bytes;
    return most;
}

/* A path of which nothing is known may be a thousand times slower than another: it is tried with
 * little. On one that is slow no piece takes more than about a second, as no other frame is heard
 * meanwhile, and one on which none comes for long is given up. */
static void test_pieces_are_as_small_as_paths_are_slow(void **state) {
    begin_houses(1, 2);
    wire_framed *first = near.link->paths->open[0], *second = near.link->paths->open[1];
    give_and_turn(0, 6 << 20);
    assert_in_range(largest_packet(((end *)second)->other), 1, WIRE_GRAIN);
    settle();
    first->path.bytes = 1e9;
    second->path.bytes = 3e5;
    first->path.seconds = second->path.seconds = 1;
    give_and_turn(1, 6 << 20);
    assert_int_equal(largest_packet(((end *)first)->other), WIRE_CHUNK);
    assert_int_equal(largest_packet(((end *)second)->other), 0);
    settle();
    first->path.bytes = second->path.bytes = 3e5;
    first->path.seconds = second->path.seconds = 1;
    give_and_turn(2, 2 << 20);
    assert_int_equal(largest_packet(((end *)first)->other), 2 * WIRE_GRAIN);
    say_bytes(&near, 2 << 20);
    turn(&near);
    assert_int_equal(largest_packet(((end *)first)->other), 2 * WIRE_GRAIN);
    settle();
    assert_int_equal(far.bytes, 14 << 20);
    assert_int_equal(far.next_in, 1);
    end_houses();
}

/* One piece that was held up is not the end of a path; three are, and one that takes for ever. */
static void test_a_path_is_known_after_three_pieces(void **state) {
    static const struct {
        double bytes; /* in a second */
        uint32_t measures;
        bool tried;
    } cases[] = {{2e5, 1, true}, {2e5, 2, true}, {2e5, 3, false}, {3e4, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_houses(1, 2);
        wire_framed *first = near.link->paths->open[0], *second = near.link->paths->open[1];
        first->path.bytes = 1e9;
        second->path.bytes = cases[i].bytes;
        first->path.seconds = second->path.seconds = 1;
        first->path.measures = 3;
        second->path.measures = cases[i].measures;
        second->path.measured = base_now();
        give_and_turn(0, CHUNKS * WIRE_CHUNK);
        give_and_turn(1, CHUNKS * WIRE_CHUNK);
        assert_int_equal(largest_packet(((end *)second)->other) > 0, cases[i].tried);
        settle();
        end_houses();
    }
}

/* Nobody can have us look up names; and the one that was called is called by its number again. */
static void test_names_are_not_tried_again(void **state) {
    static const char *const at[] = {"tcp://home.lan:1",       "tcp://slow.example:1",
                                     "tcp://10.0.0.1:1",       "tcp://10.0.1.1:1",
                                     "tcp://[fe80::1%eth0]:1", "tcp://1.2.3:1"};
    begin_at(at, 6);
    settle();
    const wire_paths *p = near.link->paths;
    assert_int_equal(p->n_routes, 3);
    assert_string_equal(p->routes[0].address, "tcp://10.0.0.1:1");
    assert_string_equal(p->routes[1].address, "tcp://10.0.1.1:1");
    assert_string_equal(p->routes[2].address, "tcp://[fe80::1%eth0]:1");
    assert_int_equal(p->n_open, 3);
    end_houses();
}

/* A path that never lasts is tried less and less. */
static void test_who_never_lasts_is_tried_less(void **state) {
    begin_houses(1, 2);
    for (int i = 0; i < 6; i++) {
        wire_paths *p = near.link->paths;
        wire_route *route = &p->routes[&path_at(&near, 1)->framed.base == p->routes[1].link];
        int64_t wait = (i < 5 ? 1 << i : 30) * BASE_SECOND, before = base_now();
        route->since = before;
        lose(path_at(&near, 1));
        assert_null(route->link);
        assert_in_range(route->at, before + wait, base_now() + wait);
        assert_in_range(p->timer.deadline, 1, route->at);
        settle();
        redial();
        settle();
        assert_int_equal(p->n_open, 2);
    }
    end_houses();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_answer_is_lost_too),
        cmocka_unit_test(test_the_answer_takes_the_same_path),
        cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_small_boxes_do_not_wait),
        cmocka_unit_test(test_what_is_kept_is_limited),
        cmocka_unit_test(test_given_up_while_one_joins),
        cmocka_unit_test(test_given_up_while_it_is_read),
        cmocka_unit_test(test_no_memory_for_a_frame),
        cmocka_unit_test(test_small_windows),
        cmocka_unit_test(test_half_joined),
        cmocka_unit_test(test_pieces_are_as_small_as_paths_are_slow),
        cmocka_unit_test(test_a_path_is_known_after_three_pieces),
        cmocka_unit_test(test_names_are_not_tried_again),
        cmocka_unit_test(test_who_never_lasts_is_tried_less),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
