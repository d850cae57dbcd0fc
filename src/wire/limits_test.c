/* What may wait on links: each limit is reached, told with one clear error, and holds up nobody
 * else. */
#include "wire/wire_testing.h"

static bool nothing(wire_link *link) { return false; }
static void forget(wire_link *link) {}
static void stay(wire_link *link, bool sleeps) {}

/* Links whose other side reads nothing. */
static void *no_room(wire_link *link, size_t bytes) { return NULL; }
static void never(wire_link *link, size_t bytes) {}
static const wire_writer unread = {.reserve = no_room, .commit = never};

static shoal_status send_unread(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                                size_t bytes, wire_account *account) {
    return wire_outbox_send(link, &unread, kind, message, bytes, account);
}

static const wire_transport silent = {.scheme = "silent",
                                      .send = send_unread,
                                      .progress = nothing,
                                      .pending = nothing,
                                      .sleep = stay,
                                      .shut = forget};

static wire_link *link_of(side *s, uint8_t key) {
    wire_link *link = calloc(1, sizeof *link);
    assert_non_null(link);
    assert_int_equal(wire_link_add(link, s->peer, &silent, 0), SHOAL_OK);
    link->name = strdup("silent");
    link->state = WIRE_OPEN;
    link->proof = (wire_proof){.keyed = true, .key = {key}};
    return link;
}

/* Messages that begin and do not end take half of what is left, by key, and never more than there
 * is. */
static void test_begun(void **state) {
    enum { KEYS = 12, EACH = 6 };
    static const uint8_t piece[64];
    static const int begun[KEYS] = {3, 2, 1, 1};
    const wire_frame frame = {.type = WIRE_FRAME_MESSAGE,
                              .kind = SHOAL__KIND__STATUS,
                              .bytes = sizeof piece,
                              .total = WIRE_MAX_MESSAGE};
    wire_link *links[KEYS][EACH];
    side s;
    start(&s, "s", NULL);
    wire_pump_take(s.peer);
    uint64_t all = 0;
    for (int k = 0; k < KEYS; k++) {
        int taken = 0;
        for (int i = 0; i < EACH; i++) {
            wire_link *link = links[k][i] = link_of(&s, (uint8_t)k);
            wire_link_deliver(link, &frame, piece);
            taken += !link->closing;
            all += link->begun;
            if (link->closing)
                assert_non_null(strstr(link->reason, "MiB have begun on links of one key, and not "
                                                     "ended"));
        }
        if (taken != begun[k]) fail_msg("key %d began %d messages, not %d", k, taken, begun[k]);
        assert_true(all <= WIRE_MAX_BEGUN);
    }
    /* What is whole at once needs no such room; and who has ended those it began may begin others.
     */
    wire_link *other = link_of(&s, KEYS);
    const wire_frame whole = {.type = WIRE_FRAME_MESSAGE, .kind = SHOAL__KIND__STATUS};
    wire_link_deliver(other, &whole, piece);
    assert_false(other->closing);
    for (int i = 0; i < begun[0]; i++) wire_link_finish(links[0][i], SHOAL_CLOSED, "");
    wire_link *again = link_of(&s, 0);
    wire_link_deliver(again, &frame, piece);
    assert_false(again->closing);
    wire_pump_leave(s.peer);
    wire_peer_destroy(&s.peer);
}

/* Who reads nothing is sent no more than so much, and others what they are to have. */
static void test_queued(void **state) {
    char text[200];
    Shoal__Status status = SHOAL__STATUS__INIT;
    side s;
    start(&s, "s", NULL);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    status.version = text;
    assert_int_equal(wire_connect(s.peer, "inproc", 42, 1000), SHOAL_OK);
    wait_count(&s, &s.opened, 2);
    wire_pump_take(s.peer);
    wire_link *links[] = {link_of(&s, 1), s.link}, *other = link_of(&s, 2);
    static const char *const said[] = {"bytes of messages wait and nobody reads them",
                                       "bytes of messages wait to be read"};
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&links[i]->lock);
        size_t queued = links[i]->queued;
        links[i]->queued = WIRE_MAX_QUEUE - 100; /* as if they did */
        pthread_mutex_unlock(&links[i]->lock);
        assert_int_equal(wire_send(links[i], SHOAL__KIND__STATUS, &status.base), SHOAL_NO_MEMORY);
        assert_non_null(strstr(shoal_error_message(), said[i]));
        assert_non_null(strstr(shoal_error_message(), "268435356"));
        assert_false(links[i]->closing);
        pthread_mutex_lock(&links[i]->lock);
        links[i]->queued = queued;
        pthread_mutex_unlock(&links[i]->lock);
        assert_int_equal(wire_send(other, SHOAL__KIND__STATUS, &status.base), SHOAL_OK);
    }
    assert_int_equal(wire_send(links[0], SHOAL__KIND__STATUS, &status.base), SHOAL_OK);
    wire_pump_leave(s.peer);
    wire_peer_destroy(&s.peer);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begun),
        cmocka_unit_test(test_queued),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
