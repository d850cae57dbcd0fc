/* What the tests of links of several paths share: two processes, and a network between them in
 * memory, on which frames come late and connections end at any point. */
#ifndef WIRE_PATHS_TESTING_H
#define WIRE_PATHS_TESTING_H

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
    bool came[TRANSFERS][CHUNKS * WIRE_CHUNK / WIRE_GRAIN];
    uint64_t bytes;
    char text[1024];
    struct house *other;
} house;

static house near, far;
static end *ends[ENDS];
static size_t n_ends;
static uint64_t dice;
static uint64_t may_come = 3 << 20; /* the window of each connection */
static bool no_memory;              /* for the next frame */
static double paths_speed;          /* bytes a second of each connection; 0: not known */
static size_t dense = PAGE;         /* one word of data in so many bytes is not zero */

static inline uint32_t roll(uint32_t n) {
    dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(dice >> 33) % n;
}

static inline void put_packet(end *to, const void *bytes, size_t n) {
    packet *p = malloc(sizeof *p + n);
    memcpy(&p->frame, bytes, sizeof p->frame);
    memcpy(p->payload, (const uint8_t *)bytes + sizeof p->frame, n - sizeof p->frame);
    p->next = NULL;
    *(to->first ? &to->last->next : &to->first) = p;
    to->last = p;
}

static inline shoal_status put(wire_framed *framed, const wire_frame *frame, const void *payload) {
    end *own = (end *)framed;
    size_t n = wire_frame_bytes(frame->bytes);
    uint8_t *bytes = calloc(1, n);
    memcpy(bytes, frame, sizeof *frame);
    if (payload) memcpy(bytes + sizeof *frame, payload, frame->bytes);
    if (own->other) put_packet(own->other, bytes, n);
    free(bytes);
    return SHOAL_OK;
}

static inline void *reserve(wire_link *link, size_t bytes) {
    end *own = (end *)link;
    if (!wire_framed_room(&own->framed, bytes)) return NULL;
    bool memory = !no_memory;
    no_memory = false;
    return memory ? own->draft = calloc(1, bytes) : NULL;
}

static inline void commit(wire_link *link, size_t bytes) {
    end *own = (end *)link;
    wire_framed_went(&own->framed, bytes);
    if (own->other) put_packet(own->other, own->draft, bytes);
    free(own->draft);
}

static inline void *shorten(wire_link *link, size_t bytes) {
    end *own = (end *)link;
    if (no_memory) return NULL;
    free(own->draft);
    return own->draft = calloc(1, bytes);
}

static const wire_writer memory_writer = {reserve, commit, shorten};

static inline bool progress(wire_link *link) {
    if (wire_paths_kept(link)) return wire_paths_flush((wire_framed *)link, &memory_writer);
    return link->waiting && wire_outbox_flush(link, &memory_writer);
}

static inline void drop_packets(end *own) {
    while (own->first) {
        packet *p = own->first;
        own->first = p->next;
        free(p);
    }
}

/* What is under way to the other end may still come. */
static inline void shut(wire_link *link) {
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

static inline void unlisten(wire_peer *peer, void *listener) {
    (void)peer;
    (void)listener;
}

static const wire_transport memory_transport = {.scheme = "memory",
                                                .send = wire_framed_send,
                                                .send_data = wire_framed_send_data,
                                                .progress = progress,
                                                .pending = wire_framed_pending,
                                                .sleep = wire_framed_sleep,
                                                .shut = shut,
                                                .unlisten = unlisten};

static inline uint64_t window(const wire_framed *own) {
    (void)own;
    return may_come;
}
static inline void begin(wire_framed *own) { (void)own; }
static inline wire_framed *join(wire_framed *lead, const char *address, uint32_t number);
static inline double speed_of(wire_framed *own) {
    (void)own;
    return paths_speed;
}
/* The only name that there is. */
static inline bool has_reached(const wire_framed *own, char *out, size_t room) {
    bool name = !strcmp(own->address, "tcp://home.lan:1");
    return snprintf(out, room, "%s", name ? "tcp://10.0.0.1:1" : own->address) < (int)room;
}
static const wire_carrier memory_carrier = {window, put, begin, join, speed_of, has_reached};

static inline end *new_end(wire_peer *peer, const char *address) {
    end *own = calloc(1, sizeof *own);
    assert_true(n_ends < ENDS);
    assert_int_equal(
        wire_framed_add(&own->framed, peer, &memory_transport, &memory_carrier, address, 0),
        SHOAL_OK);
    ends[n_ends++] = own;
    return own;
}

static inline end *call(const char *address) {
    end *a = new_end(near.peer, address), *b = new_end(far.peer, address);
    a->other = b;
    b->other = a;
    b->framed.accepting = true;
    return a;
}

static inline wire_framed *join(wire_framed *lead, const char *address, uint32_t number) {
    end *own = call(address);
    own->framed.base.lead = wire_lead(&lead->base);
    own->framed.path.number = number;
    assert_int_equal(wire_framed_hello(&own->framed, NULL), SHOAL_OK);
    return &own->framed;
}

/* The next thing that happens at an end; false: nothing does. */
static inline bool happen(end *own) {
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
static inline void cut(end *own) {
    if (own->other && roll(2)) drop_packets(own->other);
    wire_link *link = &own->framed.base;
    if (link->state == WIRE_OPENING)
        wire_framed_give_up(&own->framed, base_fail(SHOAL_LOST, "cut"));
    else
        wire_link_finish(link, SHOAL_LOST, "cut");
}

/* ---- two processes ---- */

static inline shoal_status house_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                                        Shoal__Welcome *welcome, bool accepting) {
    (void)hello;
    (void)welcome;
    (void)accepting;
    house *h = context;
    h->link = link;
    h->opened++;
    return SHOAL_OK;
}

static inline shoal_status house_message(void *context, wire_link *link, Shoal__Kind kind,
                                         const void *body, size_t bytes) {
    (void)kind;
    house *h = context;
    assert_ptr_equal(link, h->link);
    Shoal__Events *events = shoal__events__unpack(NULL, bytes, body);
    assert_non_null(events);
    assert_int_equal(events->token, h->next_in);
    h->next_in++;
    shoal__events__free_unpacked(events, NULL);
    return SHOAL_OK;
}

static inline shoal_status house_data(void *context, wire_link *link, const wire_transfer *transfer,
                                      uint64_t offset, const void *bytes, size_t n) {
    house *h = context;
    assert_ptr_equal(link, h->link);
    assert_true(transfer->ordinal < TRANSFERS);
    assert_int_equal(transfer->bytes, h->other->sizes[transfer->ordinal]);
    assert_int_equal(offset % WIRE_GRAIN, 0);
    assert_true(n % WIRE_GRAIN == 0 || offset + n == transfer->bytes);
    for (uint64_t at = offset; at == offset || at < offset + n; at += WIRE_GRAIN) {
        bool *came = &h->came[transfer->ordinal][at / WIRE_GRAIN];
        assert_false(*came); /* once */
        *came = true;
    }
    uint64_t w;
    for (size_t i = 0; i + 8 <= n; i += dense) {
        memcpy(&w, (const char *)bytes + i, 8);
        assert_int_equal(w, word(transfer->ordinal, (offset + i) / 8));
    }
    h->bytes += n;
    return SHOAL_OK;
}

static inline void house_closed(void *context, wire_link *link, shoal_status why,
                                const char *message) {
    (void)why;
    house *h = context;
    assert_ptr_equal(link, h->link);
    h->link = NULL;
    h->closed++;
    snprintf(h->text, sizeof h->text, "%s", message);
}

static inline void build(house *h, house *other, const char *name) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)name;
    *h = (house){.other = other};
    assert_int_equal(wire_peer_new(&hello, &h->peer), SHOAL_OK);
    wire_handlers handlers = {h, house_opened, house_message, house_data, house_closed, NULL};
    wire_handle(h->peer, WIRE_WORKER, &handlers);
}

static inline void listen_at(house *h, const char *address) {
    wire_listener listener = {&memory_transport, NULL, strdup(address)};
    assert_true(base_vec_push(&h->peer->listeners, listener));
}

static inline void turn(house *h) { wire_pump_once(h->peer, &h->peer->sets[1], 0); }

/* On a busy machine a second is soon over; paths come back when a test says so. */
static inline void hold_routes(void) {
    wire_paths *p = near.link ? near.link->paths : NULL;
    for (uint32_t i = 0; p && i < p->n_routes; i++)
        if (!p->routes[i].link) p->routes[i].at = INT64_MAX;
}

/* Until nothing happens any more. */
static inline void settle(void) {
    for (int quiet = 0; quiet < 3;) {
        hold_routes();
        bool did = false;
        for (size_t i = 0; i < n_ends; i++) did |= happen(ends[i]);
        turn(&near);
        turn(&far);
        quiet = did ? 0 : quiet + 1;
    }
}

/* Two processes, and a connection from one to the first address of the other. */
static inline void begin_at(const char *const *addresses, int n) {
    dice = 1;
    n_ends = 0;
    build(&near, &far, "near");
    build(&far, &near, "far");
    for (int i = 0; i < n; i++) listen_at(&far, addresses[i]);
    assert_int_equal(wire_framed_hello(&call(addresses[0])->framed, NULL), SHOAL_OK);
}

static inline void begin_houses(uint64_t seed, int addresses) {
    static const char *const at[] = {"tcp://10.0.0.1:1", "tcp://10.0.1.1:1", "tcp://10.0.2.1:1"};
    begin_at(at, addresses);
    dice = seed * 2 + 1;
    settle();
    assert_int_equal(near.opened, 1);
    assert_int_equal(far.opened, 1);
}

static inline void end_houses(void) {
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
static inline void counted_read(void *context, uint64_t offset, void *to, size_t n) {
    for (size_t i = 0; i + 8 <= n; i += dense) {
        uint64_t w = word(((const counted *)context)->ordinal, (offset + i) / 8);
        memcpy((char *)to + i, &w, 8);
    }
}

static inline void counted_done(void *context) {
    ((counted *)context)->h->done++;
    free(context);
}

static inline void say_bytes(house *h, size_t n) {
    static uint8_t large[5 << 19];
    Shoal__Events events = SHOAL__EVENTS__INIT;
    events.token = h->next_out;
    events.list.data = large;
    events.list.len = n;
    if (h->link && wire_send(h->link, SHOAL__KIND__EVENTS, &events.base) == SHOAL_OK) h->next_out++;
}

static inline bool give_bytes(house *h, uint32_t ordinal, uint64_t bytes) {
    counted *c = malloc(sizeof *c);
    *c = (counted){h, ordinal};
    h->sizes[ordinal] = bytes;
    wire_transfer transfer = {5, 1, ordinal, bytes};
    wire_source source = {c, counted_read, counted_done};
    return h->link && wire_send_data(h->link, &transfer, &source) == SHOAL_OK;
}

static inline void redial(void) {
    wire_paths *p = near.link ? near.link->paths : NULL;
    for (uint32_t i = 0; p && i < p->n_routes; i++) p->routes[i].at = 0;
    if (p) wire_routes_look(p);
}

#endif
