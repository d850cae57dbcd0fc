/* Links of several paths, over a network in memory: frames come late, connections end at any point,
 * at one end before the other, with some of what was under way; and all that is sent comes once.
 * Then over real sockets. */
#include "wire/paths.h"
#include "wire/wire_testing.h"

/* ---- a network in memory ---- */

typedef struct packet {
    struct packet *next;
    wire_frame frame;
    uint8_t payload[];
} packet;

/* One end of a connection. */
typedef struct end {
    wire_framed framed;
    struct end *other; /* NULL: it is gone */
    packet *first, *last;
    uint8_t *draft;
    bool broken; /* it will hear of the end of the connection */
} end;

enum { TRANSFERS = 6, CHUNKS = 6, MESSAGES = 60, ENDS = 64, PAGE = 4096 };

typedef struct house {
    wire_peer *peer;
    wire_link *link;
    int opened, closed;
    uint64_t next_out, next_in, done;
    uint64_t sizes[TRANSFERS];
    bool came[TRANSFERS][CHUNKS];
    uint64_t bytes;
    char text[1024];
    struct house *other;
} house;

static house near, far;
static end *ends[ENDS];
static size_t n_ends;
static uint64_t dice;

static uint32_t roll(uint32_t n) {
    dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(dice >> 33) % n;
}

static void put_packet(end *to, const void *bytes, size_t n) {
    packet *p = malloc(sizeof *p + n);
    memcpy(&p->frame, bytes, sizeof p->frame);
    memcpy(p->payload, (const uint8_t *)bytes + sizeof p->frame, n - sizeof p->frame);
    p->next = NULL;
    *(to->first ? &to->last->next : &to->first) = p;
    to->last = p;
}

static shoal_status put(wire_framed *framed, const wire_frame *frame, const void *payload) {
    end *own = (end *)framed;
    size_t n = wire_frame_bytes(frame->bytes);
    uint8_t *bytes = calloc(1, n);
    memcpy(bytes, frame, sizeof *frame);
    if (frame->bytes) memcpy(bytes + sizeof *frame, payload, frame->bytes);
    if (own->other) put_packet(own->other, bytes, n);
    free(bytes);
    return SHOAL_OK;
}

static void *reserve(wire_link *link, size_t bytes) {
    end *own = (end *)link;
    if (!wire_framed_room(&own->framed, bytes)) return NULL;
    return own->draft = calloc(1, bytes);
}

static void commit(wire_link *link, size_t bytes) {
    end *own = (end *)link;
    wire_framed_went(&own->framed, bytes);
    if (own->other) put_packet(own->other, own->draft, bytes);
    free(own->draft);
}

static const wire_writer memory_writer = {reserve, commit};

static bool progress(wire_link *link) {
    if (wire_paths_kept(link)) return wire_paths_flush((wire_framed *)link, &memory_writer);
    return link->waiting && wire_outbox_flush(link, &memory_writer);
}

static void drop_packets(end *own) {
    while (own->first) {
        packet *p = own->first;
        own->first = p->next;
        free(p);
    }
}

/* What is under way to the other end may still come. */
static void shut(wire_link *link) {
    end *own = (end *)link;
    if (own->other) {
        own->other->broken = true;
        own->other->other = NULL;
    }
    own->other = NULL;
    drop_packets(own);
    wire_framed_fini(&own->framed);
    for (size_t i = 0; i < n_ends; i++)
        if (ends[i] == own) ends[i--] = ends[--n_ends];
}

static void unlisten(wire_peer *peer, void *listener) {}

static const wire_transport memory_transport = {.scheme = "memory",
                                                .send = wire_framed_send,
                                                .send_data = wire_framed_send_data,
                                                .progress = progress,
                                                .pending = wire_framed_pending,
                                                .sleep = wire_framed_sleep,
                                                .shut = shut,
                                                .unlisten = unlisten};

static uint64_t window(const wire_framed *own) { return 3 << 20; }
static void begin(wire_framed *own) {}
static wire_framed *join(wire_framed *lead, const char *address, uint32_t number);
static bool leads_to(const wire_framed *own, const char *address) {
    return !strcmp(own->address, address);
}
static const wire_carrier memory_carrier = {window, put, begin, join, leads_to};

static end *new_end(wire_peer *peer, const char *address) {
    end *own = calloc(1, sizeof *own);
    assert_true(n_ends < ENDS);
    assert_int_equal(
        wire_framed_add(&own->framed, peer, &memory_transport, &memory_carrier, address, 0),
        SHOAL_OK);
    ends[n_ends++] = own;
    return own;
}

static end *call(const char *address) {
    end *a = new_end(near.peer, address), *b = new_end(far.peer, address);
    a->other = b;
    b->other = a;
    b->framed.accepting = true;
    return a;
}

static wire_framed *join(wire_framed *lead, const char *address, uint32_t number) {
    end *own = call(address);
    own->framed.base.lead = wire_lead(&lead->base);
    own->framed.path.number = number;
    assert_int_equal(wire_framed_hello(&own->framed, NULL), SHOAL_OK);
    return &own->framed;
}

/* The next thing that happens at an end; false: nothing does. */
static bool happen(end *own) {
    packet *p = own->first;
    if (!p) {
        if (!own->broken) return false;
        if (own->framed.base.state == WIRE_OPENING)
            wire_framed_give_up(&own->framed, base_fail(SHOAL_LOST, "cut"));
        else
            wire_link_finish(&own->framed.base, SHOAL_LOST, "cut");
        return true;
    }
    own->first = p->next;
    if (own->framed.base.state == WIRE_OPEN)
        wire_framed_take(&own->framed, &p->frame, p->payload);
    else if (own->framed.accepting)
        wire_framed_guest(&own->framed, p->payload, p->frame.bytes);
    else
        wire_framed_answer(&own->framed, &p->frame, p->payload);
    free(p);
    return true;
}

/* A connection ends: here at once, there later, when part of what is under way has come. */
static void cut(end *own) {
    if (own->other && roll(2)) drop_packets(own->other);
    wire_link *link = &own->framed.base;
    if (link->state == WIRE_OPENING)
        wire_framed_give_up(&own->framed, base_fail(SHOAL_LOST, "cut"));
    else
        wire_link_finish(link, SHOAL_LOST, "cut");
}

/* ---- two processes ---- */

static shoal_status house_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                                 Shoal__Welcome *welcome, bool accepting) {
    house *h = context;
    h->link = link;
    h->opened++;
    return SHOAL_OK;
}

static shoal_status house_message(void *context, wire_link *link, Shoal__Kind kind,
                                  const void *body, size_t bytes) {
    house *h = context;
    assert_ptr_equal(link, h->link);
    Shoal__Events *events = shoal__events__unpack(NULL, bytes, body);
    assert_non_null(events);
    assert_int_equal(events->token, h->next_in);
    h->next_in++;
    shoal__events__free_unpacked(events, NULL);
    return SHOAL_OK;
}

static shoal_status house_data(void *context, wire_link *link, const wire_transfer *transfer,
                               uint64_t offset, const void *bytes, size_t n) {
    house *h = context;
    assert_ptr_equal(link, h->link);
    assert_true(transfer->ordinal < TRANSFERS);
    assert_int_equal(transfer->bytes, h->other->sizes[transfer->ordinal]);
    assert_int_equal(offset % WIRE_CHUNK, 0);
    bool *came = &h->came[transfer->ordinal][offset / WIRE_CHUNK];
    assert_false(*came); /* once */
    *came = true;
    uint64_t w;
    for (size_t i = 0; i + 8 <= n; i += PAGE) {
        memcpy(&w, (const char *)bytes + i, 8);
        assert_int_equal(w, word(transfer->ordinal, (offset + i) / 8));
    }
    h->bytes += n;
    return SHOAL_OK;
}

static void house_closed(void *context, wire_link *link, shoal_status why, const char *message) {
    house *h = context;
    assert_ptr_equal(link, h->link);
    h->link = NULL;
    h->closed++;
    snprintf(h->text, sizeof h->text, "%s", message);
}

static void build(house *h, house *other, const char *name) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)name;
    *h = (house){.other = other};
    assert_int_equal(wire_peer_new(&hello, &h->peer), SHOAL_OK);
    wire_handlers handlers = {h, house_opened, house_message, house_data, house_closed, NULL};
    wire_handle(h->peer, WIRE_WORKER, &handlers);
}

static void listen_at(house *h, const char *address) {
    wire_listener listener = {&memory_transport, NULL, strdup(address)};
    assert_true(base_vec_push(&h->peer->listeners, listener));
}

static void turn(house *h) { wire_pump_once(h->peer, &h->peer->sets[1], 0); }

/* Until nothing happens any more. */
static void settle(void) {
    for (int quiet = 0; quiet < 3;) {
        bool did = false;
        for (size_t i = 0; i < n_ends; i++) did |= happen(ends[i]);
        turn(&near);
        turn(&far);
        quiet = did ? 0 : quiet + 1;
    }
}

static void begin_houses(uint64_t seed, int addresses) {
    dice = seed * 2 + 1;
    n_ends = 0;
    build(&near, &far, "near");
    build(&far, &near, "far");
    static const char *const at[] = {"tcp://10.0.0.1:1", "tcp://10.0.1.1:1", "tcp://10.0.2.1:1"};
    for (int i = 0; i < addresses; i++) listen_at(&far, at[i]);
    assert_int_equal(wire_framed_hello(&call(at[0])->framed, NULL), SHOAL_OK);
    settle();
    assert_int_equal(near.opened, 1);
    assert_int_equal(far.opened, 1);
}

static void end_houses(void) {
    if (near.link) wire_link_end(near.link, SHOAL_CLOSED, "");
    if (far.link) wire_link_end(far.link, SHOAL_CLOSED, "");
    wire_peer_destroy(&near.peer);
    wire_peer_destroy(&far.peer);
    assert_int_equal(n_ends, 0);
}

typedef struct counted {
    house *h;
    uint64_t ordinal;
} counted;

/* A word of each page is enough. */
static void counted_read(void *context, uint64_t offset, void *to, size_t n) {
    for (size_t i = 0; i + 8 <= n; i += PAGE) {
        uint64_t w = word(((const counted *)context)->ordinal, (offset + i) / 8);
        memcpy((char *)to + i, &w, 8);
    }
}

static void counted_done(void *context) {
    ((counted *)context)->h->done++;
    free(context);
}

static void say(house *h) {
    static uint8_t large[5 << 19];
    Shoal__Events events = SHOAL__EVENTS__INIT;
    events.token = h->next_out;
    events.list.data = large;
    events.list.len = roll(20) ? roll(2000) : roll(sizeof large);
    if (h->link && wire_send(h->link, SHOAL__KIND__EVENTS, &events.base) == SHOAL_OK) h->next_out++;
}

static bool give(house *h, uint32_t ordinal) {
    counted *c = malloc(sizeof *c);
    *c = (counted){h, ordinal};
    h->sizes[ordinal] = roll(3) ? roll(CHUNKS * WIRE_CHUNK) : roll(5000);
    wire_transfer transfer = {5, 1, ordinal, h->sizes[ordinal]};
    wire_source source = {c, counted_read, counted_done};
    return h->link && wire_send_data(h->link, &transfer, &source) == SHOAL_OK;
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

static void redial(void) {
    wire_paths *p = near.link ? near.link->paths : NULL;
    for (uint32_t i = 0; p && i < p->n_routes; i++) p->routes[i].at = 0;
    if (p) wire_routes_look(p);
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
    for (uint64_t seed = 0; seed < 60; seed++) {
        begin_houses(seed, 2 + (int)(seed % 2));
        assert_int_equal(wire_link_paths(near.link).open, 2 + seed % 2);
        assert_int_equal(wire_link_paths(far.link).open, 2 + seed % 2);
        live(600, (uint32_t)(seed % 12));
        if (near.closed || far.closed || near.next_in != far.next_out || near.bytes != sum(&far))
            print_error("seed %llu: %s %s\n", (unsigned long long)seed, near.text, far.text);
        check_all_came(&near);
        check_all_came(&far);
        end_houses();
    }
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
    for (int at = 0; at < 40; at++)
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
