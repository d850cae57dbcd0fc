/* Links by way of a hub: volume in both directions, ends, and what does not belong there. */
#include "wire/framed.h"
#include "wire/wire_testing.h"

/* A hub that only passes on, and two members: 1 and 2. */
typedef struct member {
    side s;
    wire_link *up; /* its link with the hub */
    uint32_t number;
} member;

static struct {
    wire_peer *peer;
    wire_link *of[3];
    atomic_bool swallows, refuses, looks, changes;
    atomic_int passed, read;
} hub;

static shoal_status hub_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                               Shoal__Welcome *welcome, bool accepting) {
    if (accepting) hub.of[hello->name[0] - '0'] = link;
    return SHOAL_OK;
}

static shoal_status hub_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                                size_t bytes) {
    if (kind != SHOAL__KIND__RELAY) return base_fail(SHOAL_FORMAT, "kind %d", (int)kind);
    Shoal__Relay *relay = shoal__relay__unpack(NULL, bytes, body);
    assert_non_null(relay);
    for (size_t i = 0; hub.looks && i + 8 <= relay->frame.len; i++) {
        uint64_t w = word(2, 100);
        hub.read += !memcmp(relay->frame.data + i, &w, sizeof w);
    }
    if (hub.changes && relay->frame.len) relay->frame.data[relay->frame.len / 2] ^= 1;
    uint32_t from = link == hub.of[1] ? 1 : 2;
    wire_link *to = relay->peer <= 2 ? hub.of[relay->peer] : NULL;
    Shoal__Relay on = SHOAL__RELAY__INIT;
    Shoal__Error error = SHOAL__ERROR__INIT;
    on.peer = from;
    on.back = relay->back;
    on.link = relay->link;
    on.reset = relay->reset;
    on.frame = relay->frame;
    if (!to || hub.refuses) {
        error.message = (char *)"it has left";
        on = (Shoal__Relay)SHOAL__RELAY__INIT;
        on.peer = relay->peer;
        on.back = !relay->back;
        on.link = relay->link;
        on.error = &error;
        to = link;
    }
    if (!hub.swallows && wire_send(to, SHOAL__KIND__RELAYED, &on.base) != SHOAL_OK) return SHOAL_IO;
    hub.passed++;
    shoal__relay__free_unpacked(relay, NULL);
    return SHOAL_OK;
}

static void hub_closed(void *context, wire_link *link, shoal_status why, const char *message) {
    for (int i = 1; i < 3; i++)
        if (hub.of[i] == link) hub.of[i] = NULL;
}

static void start_hub(void) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)"hub";
    hello.role = SHOAL__ROLE__HUB;
    hub.swallows = hub.refuses = hub.looks = hub.changes = false;
    hub.passed = hub.read = 0;
    assert_int_equal(wire_peer_new(&hello, &hub.peer), SHOAL_OK);
    wire_handlers handlers = {.opened = hub_opened, .message = hub_message, .closed = hub_closed};
    wire_handle(hub.peer, WIRE_HUB, &handlers);
    assert_int_equal(wire_listen(hub.peer, "shm:relays"), SHOAL_OK);
    assert_int_equal(wire_start(hub.peer), SHOAL_OK);
}

static shoal_status member_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                                  Shoal__Welcome *welcome, bool accepting) {
    member *m = context;
    if (hello->role != SHOAL__ROLE__HUB) return on_opened(&m->s, link, hello, welcome, accepting);
    m->up = link;
    wire_relay_by(link);
    m->s.opened++;
    return SHOAL_OK;
}

static shoal_status member_message(void *context, wire_link *link, Shoal__Kind kind,
                                   const void *body, size_t bytes) {
    member *m = context;
    if (kind != SHOAL__KIND__RELAYED) return on_message(&m->s, link, kind, body, bytes);
    ProtobufCMessage *relay;
    SHOAL_TRY(wire_unpack(&shoal__relay__descriptor, body, bytes, &relay));
    wire_relayed(m->s.peer, (const Shoal__Relay *)relay);
    wire_unpacked_free(relay);
    return SHOAL_OK;
}

static shoal_status member_data(void *context, wire_link *link, const wire_transfer *transfer,
                                uint64_t offset, const void *bytes, size_t n) {
    return on_data(&((member *)context)->s, link, transfer, offset, bytes, n);
}

static void member_closed(void *context, wire_link *link, shoal_status why, const char *message) {
    member *m = context;
    if (link == m->up)
        m->up = NULL;
    else
        on_closed(&m->s, link, why, message);
}

static void member_failed(void *context, uint64_t cookie, shoal_status why, const char *message) {
    on_failed(&((member *)context)->s, cookie, why, message);
}

static void start_member(member *m, uint32_t number, bool accepts) {
    char name[2] = {(char)('0' + number), 0};
    *m = (member){.number = number, .s.want_accepting = accepts};
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = name;
    assert_int_equal(wire_peer_new(&hello, &m->s.peer), SHOAL_OK);
    wire_handlers handlers = {.context = m,
                              .opened = member_opened,
                              .message = member_message,
                              .data = member_data,
                              .closed = member_closed,
                              .connect_failed = member_failed};
    wire_handle(m->s.peer, WIRE_WORKER, &handlers);
    handlers = (wire_handlers){.context = m, .message = member_message};
    wire_handle(m->s.peer, WIRE_HUB, &handlers);
    assert_int_equal(wire_start(m->s.peer), SHOAL_OK);
    assert_int_equal(wire_connect(m->s.peer, "shm:relays", 1, PATIENCE_MS), SHOAL_OK);
    wait_count(&m->s, &m->s.opened, 1);
}

static member a, b;

enum { POOL = 99 };

static wire_member members[3];

static void know(void *context) {
    member *m = context;
    wire_set_number(m->s.peer, m->number, POOL);
    wire_know(m->s.peer, members, 3, false);
}

static void start_all(void) {
    start_hub();
    start_member(&a, 1, false);
    start_member(&b, 2, true);
    for (uint32_t i = 0; i < 3; i++)
        members[i] = (wire_member){.number = i < 2 ? i + 1 : 7, .user = i + 1};
    memcpy(members[0].key, a.s.peer->pair.public, WIRE_KEY);
    memcpy(members[1].key, b.s.peer->pair.public, WIRE_KEY);
    memcpy(members[2].key, hub.peer->pair.public, WIRE_KEY);
    wire_call(a.s.peer, know, &a);
    wire_call(b.s.peer, know, &b);
}

static void end_all(void) {
    wire_peer_destroy(&a.s.peer);
    wire_peer_destroy(&b.s.peer);
    wire_peer_destroy(&hub.peer);
}

static void link_both(void) {
    connect_to(&a.s, "relay:2");
    wait_count(&b.s, &b.s.opened, 2);
    assert_non_null(b.s.link);
}

/* A link that there was before may be one that the caller cannot use any more: it gets another. Of
 * one that has opened meanwhile it has heard. */
static void test_another(void **state) {
    start_all();
    b.s.want_accepting = false;
    connect_to(&b.s, "relay:1");
    wait_count(&a.s, &a.s.opened, 2);
    assert_int_equal(wire_connect(a.s.peer, "relay:2", 2, PATIENCE_MS), SHOAL_OK);
    wait_count(&a.s, &a.s.opened, 3);
    assert_int_equal(a.s.cookie, 2);
    wait_count(&b.s, &b.s.opened, 3);
    assert_int_equal(wire_connect_in(a.s.peer, "relay:2", 2, 300, 5000), SHOAL_OK);
    assert_int_equal(wire_connect(b.s.peer, "relay:1", 42, PATIENCE_MS),
                     SHOAL_OK); /* for the first */
    wait_count(&a.s, &a.s.opened, 4);
    nanosleep(&(struct timespec){.tv_nsec = 600 * BASE_MS}, NULL);
    assert_int_equal(a.s.opened, 4);
    assert_int_equal(a.s.failed, 0);
    end_all();
}

static void test_both_ways(void **state) {
    start_all();
    link_both();
    assert_non_null(strstr(wire_link_name(a.s.link), "relay:2 (2, pid "));
    assert_non_null(strstr(wire_link_name(b.s.link), "relay:1 (1, pid "));
    static const uint64_t sizes[] = {0, 1, 7, 8, 65537, 1 << 20, (1 << 20) + 1, 40 << 20};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(send_pattern(a.s.link, i, sizes[i]), SHOAL_OK);
        assert_int_equal(send_pattern(b.s.link, i, sizes[i]), SHOAL_OK);
        sum += sizes[i];
    }
    for (uint64_t i = 0; i < 1000; i++) send_number(&a.s, SHOAL__KIND__STATUS, i);
    wait_number(&b.s, &b.s.finished, 8);
    wait_number(&a.s, &a.s.finished, 8);
    /* Messages are the hub's alone: a member's are dropped. */
    wait_number(&b.s, &b.s.link->strange, 1000);
    assert_int_equal(b.s.messages, 0);
    assert_int_equal(a.s.bytes, sum);
    assert_int_equal(b.s.bytes, sum);
    /* one more in the other direction: links of their own */
    b.s.want_accepting = false;
    assert_int_equal(wire_connect(b.s.peer, "relay:1", 42, PATIENCE_MS), SHOAL_OK);
    wait_count(&b.s, &b.s.opened, 3);
    assert_int_equal(send_pattern(b.s.link, 9, 3 << 20), SHOAL_OK);
    wait_number(&a.s, &a.s.finished, 9);
    wire_close(a.s.link, SHOAL_OK, "bye");
    wait_count(&a.s, &a.s.closed, 1);
    wait_count(&b.s, &b.s.closed, 1);
    assert_int_equal(b.s.why, SHOAL_CLOSED);
    assert_string_equal(b.s.text, "bye");
    assert_int_equal(a.s.wrong + b.s.wrong, 0);
    end_all();
}

static void test_the_next_address(void **state) {
    start_all();
    connect_to(&a.s, "shm:nobody-here,relay:2");
    assert_non_null(strstr(wire_link_name(a.s.link), "relay:2 ("));
    connect_fails(&a.s, "relay:7", SHOAL_NOT_FOUND, "it has left");
    connect_fails(&a.s, "relay", SHOAL_INVALID, "'relay' is no member's");
    connect_fails(&a.s, "relay:", SHOAL_INVALID, "'relay:' is no member's");
    connect_fails(&a.s, "relay:x", SHOAL_INVALID, "'relay:x' is no member's");
    connect_fails(&a.s, "relay:99999999999", SHOAL_INVALID, "is no member's");
    b.s.refuse = true;
    connect_fails(&a.s, "relay:2", SHOAL_DENIED, "relay:2 refuses: no room for 1");
    b.s.refuse = false;
    int64_t then = base_now();
    hub.swallows = true;
    connect_fails(&a.s, "relay:2", SHOAL_TIMEOUT, "has not answered in time");
    assert_true(in_time(then, 4));
    hub.swallows = false;
    wire_peer *other;
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    assert_int_equal(wire_peer_new(&hello, &other), SHOAL_OK);
    assert_int_equal(wire_listen(other, "relay:1"), SHOAL_INVALID);
    wire_peer_destroy(&other);
    end_all();
}

static void test_ends(void **state) {
    start_all();
    link_both();
    /* what the other side said when the link began is through */
    assert_int_equal(send_pattern(b.s.link, 3, 1000), SHOAL_OK);
    wait_number(&a.s, &a.s.finished, 1);
    /* the other side is gone: the hub says so at the next frame */
    hub.refuses = true;
    assert_int_equal(send_pattern(a.s.link, 1, 10 << 20), SHOAL_OK);
    wait_count(&a.s, &a.s.closed, 1);
    assert_int_equal(a.s.why, SHOAL_LOST);
    assert_string_equal(a.s.text, "it has left");
    hub.refuses = false;
    /* who begins anew replaces what the other side still has */
    link_both();
    wait_count(&b.s, &b.s.closed, 1);
    assert_string_equal(b.s.text, "the other side has begun anew");
    wait_count(&b.s, &b.s.opened, 3);
    assert_int_equal(send_pattern(a.s.link, 2, 5 << 20), SHOAL_OK);
    wait_number(&b.s, &b.s.finished, 1);
    /* the hub goes */
    wire_peer_destroy(&hub.peer);
    wait_count(&a.s, &a.s.closed, 2);
    wait_count(&b.s, &b.s.closed, 2);
    assert_int_equal(a.s.why, SHOAL_LOST);
    assert_string_equal(a.s.text, "the hub, which passed on, is gone");
    connect_fails(&a.s, "relay:2", SHOAL_CLOSED, "the hub is gone");
    end_all();
}

/* Whatever one member sends, the other's link with the hub stays. */
static void send_raw(const void *bytes, size_t n, bool back) {
    Shoal__Relay relay = SHOAL__RELAY__INIT;
    relay.link = a.s.peer->relays;
    relay.peer = 2;
    relay.back = back;
    relay.frame = (ProtobufCBinaryData){n, (uint8_t *)bytes};
    assert_int_equal(wire_send(a.up, SHOAL__KIND__RELAY, &relay.base), SHOAL_OK);
}

static void test_nonsense(void **state) {
    struct {
        wire_frame frame;
        uint8_t payload[64];
    } raw = {.frame.type = WIRE_FRAME_DATA};
    start_all();
    /* before there is a link */
    send_raw("abc", 3, false);
    send_raw("abc", 0, true);
    send_raw(&raw, sizeof raw, false);
    raw.frame = (wire_frame){.type = WIRE_FRAME_HELLO, .bytes = 64};
    memset(raw.payload, 0xff, sizeof raw.payload);
    send_raw(&raw, sizeof raw, false);
    raw.frame = (wire_frame){.type = WIRE_FRAME_WELCOME, .bytes = 64};
    send_raw(&raw, sizeof raw, true);
    for (int i = 0; i < 2; i++) { /* on one, not sealed by its other end */
        int closed = b.s.closed, opened = b.s.opened;
        connect_to(&a.s, "relay:2");
        wait_count(&b.s, &b.s.opened, (uint64_t)opened + 1);
        send_raw(&raw, i ? sizeof raw : 5, false);
        wait_count(&b.s, &b.s.closed, (uint64_t)closed + 1);
        assert_non_null(strstr(b.s.text, "was not sealed by the other side"));
        assert_int_equal(b.s.why, SHOAL_FORMAT);
    }
    assert_non_null(b.up);
    link_both();
    assert_int_equal(send_pattern(a.s.link, 2, 5 << 20), SHOAL_OK);
    wait_number(&b.s, &b.s.finished, 1);
    end_all();
}

/* Who has another key than the hub has told is not let in, and does not let in. */
static void test_wrong_key(void **state) {
    start_all();
    wire_member right = members[0];
    members[0].key[3] ^= 1;
    wire_call(b.s.peer, know, &b);
    connect_fails(&a.s, "relay:2", SHOAL_DENIED, "it was not sealed with the keys of the two");
    members[0] = right;
    wire_call(b.s.peer, know, &b);
    right = members[1];
    members[1].key[3] ^= 1;
    wire_call(a.s.peer, know, &a);
    connect_fails(&a.s, "relay:2", SHOAL_DENIED, "it was not sealed with the keys of the two");
    members[1] = right;
    wire_call(a.s.peer, know, &a);
    link_both();
    end_all();
}

/* What the hub passes on has nothing in it that it could read. */
static void test_hub_cannot_read(void **state) {
    start_all();
    link_both();
    hub.looks = true;
    assert_int_equal(send_pattern(a.s.link, 2, 1 << 20), SHOAL_OK);
    wait_number(&b.s, &b.s.finished, 1);
    hub.looks = false;
    assert_int_equal(hub.read, 0);
    hub.changes = true; /* and what it changes is not taken */
    assert_int_equal(send_pattern(a.s.link, 3, 1 << 20), SHOAL_OK);
    wait_count(&b.s, &b.s.closed, 1);
    assert_int_equal(b.s.finished, 1);
    hub.changes = false;
    end_all();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another),          cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_the_next_address), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_nonsense),         cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_hub_cannot_read),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
