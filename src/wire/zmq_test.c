/* Encrypted links from the outside: what somebody with a good key says by hand; and links of
 * several paths, of which some are cut. */
#include "wire/keys_file.h"
#include "wire/paths.h"
#include "wire/wire_testing.h"
#include "wire/zmq_link.h"

/* A guest with the user's own key. */
typedef struct guest {
    void *context, *socket;
} guest;

static guest enter_as(const side *host, void *context, const wire_key_pair *own) {
    guest g = {.context = context};
    const wire_peer *peer = host->peer;
    const wire_key_pair *hosts = peer->handled[WIRE_HUB] ? &peer->zmq->own : &peer->pair;
    char address[512];
    int none = 0, never = -1;
    snprintf(address, sizeof address, "%s", wire_address(host->peer));
    *strrchr(address, '/') = 0;
    g.socket = zmq_socket(g.context, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(g.socket, ZMQ_LINGER, &none, sizeof none), 0);
    assert_int_equal(zmq_setsockopt(g.socket, ZMQ_RECONNECT_IVL, &never, sizeof never), 0);
    assert_int_equal(zmq_setsockopt(g.socket, ZMQ_CURVE_SERVERKEY, hosts->public, WIRE_KEY), 0);
    assert_int_equal(zmq_setsockopt(g.socket, ZMQ_CURVE_PUBLICKEY, own->public, WIRE_KEY), 0);
    assert_int_equal(zmq_setsockopt(g.socket, ZMQ_CURVE_SECRETKEY, own->secret, WIRE_KEY), 0);
    assert_int_equal(zmq_connect(g.socket, address), 0);
    return g;
}

static guest enter_by(const side *host, void *context) {
    return enter_as(host, context, &host->peer->zmq->own);
}

static guest enter(const side *host) { return enter_by(host, zmq_ctx_new()); }

static void leave(guest *g) {
    zmq_close(g->socket);
    zmq_ctx_term(g->context);
}

/* A frame with as many bytes as it says, but for `more`. */
static void say(guest *g, wire_frame frame, const void *payload, int more) {
    static uint8_t bytes[2 << 20];
    size_t n = wire_frame_bytes(frame.bytes);
    memset(bytes, 0, n);
    memcpy(bytes, &frame, sizeof frame);
    if (payload) memcpy(bytes + sizeof frame, payload, frame.bytes);
    assert_true(zmq_send(g->socket, bytes, n + (size_t)more, 0) > 0);
}

static void say_hello_as(guest *g, uint32_t protocol, uint32_t number, uint64_t pool) {
    uint8_t packed[256];
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.peer = number;
    hello.pool = pool;
    hello.protocol = protocol;
    fill_hello(&hello);
    hello.version = (char *)"0.0.9";
    wire_frame frame = {.type = WIRE_FRAME_HELLO,
                        .bytes = (uint32_t)shoal__hello__pack(&hello, packed)};
    say(g, frame, packed, 0);
}

static void say_hello(guest *g, uint32_t protocol) { say_hello_as(g, protocol, 0, 0); }

/* Whether a frame of this type comes by then; others, such as beats and credits, are passed over.
 * Its payload, as text, goes to `text`. */
static bool comes(guest *g, int type, int64_t end, wire_frame *frame, char *text, size_t room) {
    while (base_now() < end) {
        char bytes[4096];
        zmq_pollitem_t item = {g->socket, 0, ZMQ_POLLIN, 0};
        if (zmq_poll(&item, 1, 100) <= 0) continue;
        int n = zmq_recv(g->socket, bytes, sizeof bytes - 1, ZMQ_DONTWAIT);
        if (n < (int)sizeof *frame) continue;
        memcpy(frame, bytes, sizeof *frame);
        if (frame->type != type) continue;
        for (int i = 0; i < n; i++)
            if (!bytes[i]) bytes[i] = ' ';
        bytes[n] = 0;
        snprintf(text, room, "%s", bytes + sizeof *frame);
        return true;
    }
    return false;
}

static wire_frame await_frame(guest *g, int type, char *text, size_t room) {
    wire_frame frame;
    if (!comes(g, type, SOON, &frame, text, room)) fail_msg("no frame of type %d came", type);
    return frame;
}

static void hears(guest *g, int type, const char *text) {
    char said[4096];
    await_frame(g, type, said, sizeof said);
    if (!strstr(said, text)) fail_msg("'%s' lacks '%s'", said, text);
}

/* How far it may go, when it is next told. */
static uint64_t credit(guest *g) {
    char none[1];
    return await_frame(g, WIRE_FRAME_CREDIT, none, sizeof none).total;
}

static void test_other_version(void **state) {
    side a;
    start(&a, "a", "tcp://127.0.0.1:*");
    int64_t then = base_now();
    guest g = enter(&a);
    say_hello(&g, 99);
    hears(&g, WIRE_FRAME_WELCOME, "the connecting process runs Shoal 0.0.9 (protocol 99)");
    assert_true(in_time(then, 2));
    assert_int_equal(a.opened, 0);
    leave(&g);
    wire_peer_destroy(&a.peer);
}

static void test_before_hello(void **state) {
    static const uint8_t noise[100000];
    side a, b;
    start(&a, "a", "tcp://127.0.0.1:*");
    guest g = enter(&a);
    say(&g, (wire_frame){.type = WIRE_FRAME_DATA, .bytes = 64, .total = 64}, noise, 0);
    say(&g, (wire_frame){.type = WIRE_FRAME_CREDIT, .total = UINT64_MAX}, NULL, 0);
    say(&g, (wire_frame){.type = 77}, NULL, 0);
    say(&g, (wire_frame){.type = WIRE_FRAME_WELCOME, .offset = 1 << 30}, NULL, 0);
    assert_true(zmq_send(g.socket, noise, 5, 0) > 0);
    assert_true(zmq_send(g.socket, noise, sizeof noise, 0) > 0);
    say(&g, (wire_frame){.type = WIRE_FRAME_HELLO, .bytes = sizeof noise}, noise, 0);
    hears(&g, WIRE_FRAME_WELCOME, "a Hello of 100000 bytes");
    say(&g, (wire_frame){.type = WIRE_FRAME_HELLO, .bytes = 50}, noise + 1, 0);
    hears(&g, WIRE_FRAME_WELCOME, "are no Hello");
    assert_int_equal(a.opened, 0);
    start(&b, "b", NULL);
    connect_to(&b, wire_address(a.peer)); /* it still serves */
    leave(&g);
    wire_peer_destroy(&b.peer);
    wire_peer_destroy(&a.peer);
}

static void test_lies(void **state) {
    static const uint8_t bytes[WIRE_CHUNK];
    static const struct {
        wire_frame frame;
        int more;
        const char *text;
    } cases[] = {
        {{.type = 77}, 0, "unknown type 77"},
        {{.type = WIRE_FRAME_BEAT, .bytes = 8}, 0, "with bytes"},
        {{.type = WIRE_FRAME_CREDIT, .total = UINT64_MAX, .bytes = WIRE_CHUNK}, 0, "with bytes"},
        {{.type = WIRE_FRAME_CREDIT, .total = 70}, 0, "70 bytes may be sent, where it was"},
        {{.type = WIRE_FRAME_MESSAGE, .kind = 70, .bytes = 8, .total = 4}, 0, "of a message of 4"},
        {{.type = WIRE_FRAME_MESSAGE, .kind = 70, .total = UINT64_MAX}, 0, "of a message of"},
        {{.type = WIRE_FRAME_MESSAGE}, 0, "of no kind"},
        {{.type = WIRE_FRAME_DATA, .offset = UINT64_MAX, .bytes = 8, .total = 8},
         0,
         "of a transfer"},
        {{.type = WIRE_FRAME_DATA, .bytes = 8, .total = 8}, 8, "is no frame"},
    };
    side a;
    start(&a, "a", "tcp://127.0.0.1:*");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        guest g = enter(&a);
        say_hello(&g, WIRE_PROTOCOL);
        hears(&g, WIRE_FRAME_WELCOME, "guest");
        say(&g, cases[i].frame, bytes, cases[i].more);
        wait_count(&a, &a.closed, i + 1);
        if (!strstr(a.text, cases[i].text)) fail_msg("'%s' lacks '%s'", a.text, cases[i].text);
        hears(&g, WIRE_FRAME_CLOSE, cases[i].text);
        leave(&g);
    }
    /* A message over the limit ends the connection before it is read. */
    guest g = enter(&a);
    say_hello(&g, WIRE_PROTOCOL);
    hears(&g, WIRE_FRAME_WELCOME, "guest");
    int before = a.closed;
    say(&g, (wire_frame){.type = WIRE_FRAME_DATA, .bytes = WIRE_CHUNK, .total = 1 << 30}, NULL,
        4096);
    wait_count(&a, &a.closed, (uint64_t)before + 1);
    assert_int_equal(a.why, SHOAL_LOST);
    leave(&g);
    wire_peer_destroy(&a.peer);
}

/* Messages that come in pieces: they stay as long as they were said to be, and those of one key
 * take a third of what there is. */
static void test_pieces(void **state) {
    enum { GUESTS = 5 };
    wire_frame begun = {.type = WIRE_FRAME_MESSAGE, .kind = 70, .bytes = 8, .total = 16};
    side a;
    start(&a, "a", "tcp://127.0.0.1:*");
    guest g = enter(&a);
    say_hello(&g, WIRE_PROTOCOL);
    hears(&g, WIRE_FRAME_WELCOME, "guest");
    say(&g, begun, NULL, 0);
    begun.offset = 8;
    begun.total = WIRE_MAX_MESSAGE;
    say(&g, begun, NULL, 0);
    hears(&g, WIRE_FRAME_CLOSE, "bytes 8 + 8 of a message of 67108864 bytes, after 8 of them");
    leave(&g);
    wait_count(&a, &a.closed, 1);
    guest guests[GUESTS];
    begun.offset = 0;
    for (int i = 0; i < GUESTS; i++) {
        guests[i] = enter(&a);
        say_hello(&guests[i], WIRE_PROTOCOL);
        hears(&guests[i], WIRE_FRAME_WELCOME, "guest");
        say(&guests[i], begun, NULL, 0);
        if (i >= 3) hears(&guests[i], WIRE_FRAME_CLOSE, "messages of 256 MiB have begun");
    }
    wait_count(&a, &a.closed, GUESTS - 2);
    for (int i = 0; i < GUESTS; i++) leave(&guests[i]);
    wire_peer_destroy(&a.peer);
}

/* What the links of one user may have under way in all is shared: each is told of less the more
 * there are, and may always send a frame. */
static void test_shared_window(void **state) {
    enum { GUESTS = 80 };
    side a;
    guest guests[GUESTS];
    void *context = zmq_ctx_new();
    start(&a, "a", "tcp://127.0.0.1:*");
    for (int i = 0; i < GUESTS; i++) {
        guests[i] = enter_by(&a, context);
        say_hello(&guests[i], WIRE_PROTOCOL);
        hears(&guests[i], WIRE_FRAME_WELCOME, "guest");
        uint64_t share = WIRE_ZMQ_KEY_WINDOW / (uint64_t)(i + 1);
        if (share > WIRE_ZMQ_WINDOW) share = WIRE_ZMQ_WINDOW;
        bool told = share - share / 4 >= WIRE_FIRST_CREDIT; /* it is worth a word */
        if (told) assert_int_equal(credit(&guests[i]), share);
        /* Entering takes long on a busy machine: those that were silent meanwhile would be gone. */
        for (int k = 0; k <= i; k++)
            say(&guests[k], (wire_frame){.type = WIRE_FRAME_BEAT}, NULL, 0);
    }
    wire_frame chunk = {.type = WIRE_FRAME_DATA, .bytes = WIRE_CHUNK, .total = WIRE_CHUNK};
    for (int k = 1; k < 4; k++) {
        say(&guests[GUESTS - 1], chunk, NULL, 0);
        assert_int_equal(credit(&guests[GUESTS - 1]), (uint64_t)(k + 1) * WIRE_FIRST_CREDIT);
    }
    assert_int_equal(a.closed, 0);
    for (int i = 0; i < GUESTS; i++) zmq_close(guests[i].socket);
    zmq_ctx_term(context);
    wire_peer_destroy(&a.peer);
}

/* Sends chunks that nobody asked for until none has gone for a while, and at least what a window
 * holds, however late libzmq's thread comes to run; returns how many went. */
static uint64_t flood(guest *g, int64_t patience) {
    static uint8_t bytes[sizeof(wire_frame) + WIRE_CHUNK];
    wire_frame chunk = {.type = WIRE_FRAME_DATA, .bytes = WIRE_CHUNK, .total = WIRE_CHUNK};
    uint64_t n = 0;
    memcpy(bytes, &chunk, sizeof chunk);
    int64_t last = base_now() + 10 * BASE_SECOND, end = base_now() + patience;
    while (base_now() < last && (base_now() < end || n < WIRE_ZMQ_WINDOW / WIRE_CHUNK)) {
        zmq_pollitem_t item = {g->socket, 0, ZMQ_POLLOUT, 0};
        if (zmq_poll(&item, 1, 10) <= 0) continue;
        if (zmq_send(g->socket, bytes, sizeof bytes, ZMQ_DONTWAIT) < 0) continue;
        end = base_now() + patience;
        n++;
    }
    return n;
}

static guest enter_with_little(const side *host) {
    int one = 1;
    guest g = enter(host);
    assert_int_equal(zmq_setsockopt(g.socket, ZMQ_SNDHWM, &one, sizeof one), 0);
    say_hello(&g, WIRE_PROTOCOL);
    hears(&g, WIRE_FRAME_WELCOME, "guest");
    return g;
}

enum { KERNEL = 32 }; /* MiB of a connection, far above what Linux gives both ends */

/* While nobody looks, as a hub that plans does not, what somebody sends who heeds no credit costs
 * 64 frames, beside what the kernel holds of a connection. */
static void test_flood_while_busy(void **state) {
    side a, b;
    start(&a, "a", "tcp://127.0.0.1:*");
    guest g = enter_with_little(&a);
    wire_pump_take(a.peer);
    uint64_t went = flood(&g, BASE_SECOND);
    wire_pump_leave(a.peer);
    print_message("%llu MiB went while nobody looked\n", (unsigned long long)went);
    assert_in_range(went, WIRE_ZMQ_WINDOW >> 20, WIRE_ZMQ_FRAMES + KERNEL);
    start(&b, "b", NULL);
    connect_to(&b, wire_address(a.peer)); /* others are served */
    leave(&g);
    wire_peer_destroy(&b.peer);
    wire_peer_destroy(&a.peer);
}

/* Who was given no more, and goes on, is cut off at the first frame beyond. */
static void test_ignored_credit(void **state) {
    side a;
    start(&a, "a", "tcp://127.0.0.1:*");
    guest g = enter_with_little(&a);
    uint64_t most = credit(&g);
    wire_pump_take(a.peer);
    wire_link_hold(a.link, base_now() + 3600 * BASE_SECOND);
    wire_pump_leave(a.peer);
    assert_true(flood(&g, BASE_SECOND / 2) <= most / WIRE_CHUNK + WIRE_ZMQ_FRAMES + KERNEL);
    wait_count(&a, &a.closed, 1);
    assert_int_equal(a.why, SHOAL_LOST);
    assert_string_equal(a.text, "more bytes are under way than were allowed");
    assert_in_range(a.bytes, most - 2 * WIRE_CHUNK, most);
    leave(&g);
    wire_peer_destroy(&a.peer);
}

/* A member has so many links to another, whatever it says that it is; others have theirs, and so
 * has it again once one of them has ended. */
static void test_links_of_a_member(void **state) {
    enum { POOL = 5, OWN = 1, GREEDY, MODEST, TRIED = 2 * WIRE_ZMQ_MEMBER_LINKS };
    wire_member members[] = {{.number = OWN}, {.number = GREEDY}, {.number = MODEST}};
    wire_key_pair pairs[3];
    guest greedy[TRIED], modest;
    side a;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wire_key_pair_new(&pairs[i]), SHOAL_OK);
        memcpy(members[i].key, pairs[i].public, WIRE_KEY);
    }
    start(&a, "a", "tcp://127.0.0.1:*");
    wire_pump_take(a.peer);
    wire_set_number(a.peer, OWN, POOL);
    wire_know(a.peer, members, 3, false);
    wire_pump_leave(a.peer);
    for (int i = 0; i < TRIED; i++) {
        greedy[i] = enter_as(&a, zmq_ctx_new(), &pairs[1]);
        say_hello_as(&greedy[i], WIRE_PROTOCOL, GREEDY, POOL);
        if (i < WIRE_ZMQ_MEMBER_LINKS) hears(&greedy[i], WIRE_FRAME_WELCOME, "guest");
    }
    modest = enter_as(&a, zmq_ctx_new(), &pairs[2]);
    say_hello_as(&modest, WIRE_PROTOCOL, MODEST, POOL);
    hears(&modest, WIRE_FRAME_WELCOME, "guest");
    assert_int_equal(a.opened, WIRE_ZMQ_MEMBER_LINKS + 1);
    for (int i = 0; i < TRIED; i++) leave(&greedy[i]);
    wait_count(&a, &a.closed, WIRE_ZMQ_MEMBER_LINKS);
    /* What the others said may be read only now, so that they are let in until they are found gone.
     */
    int64_t end = SOON;
    wire_frame frame;
    char said[64];
    for (bool again = false; !again;) {
        assert_true(base_now() < end);
        greedy[0] = enter_as(&a, zmq_ctx_new(), &pairs[1]);
        say_hello_as(&greedy[0], WIRE_PROTOCOL, GREEDY, POOL);
        again = comes(&greedy[0], WIRE_FRAME_WELCOME, base_now() + BASE_SECOND, &frame, said,
                      sizeof said);
        leave(&greedy[0]);
    }
    leave(&modest);
    wire_peer_destroy(&a.peer);
}

/* Who dials before the hub has told of it is let in once it has: a guest does not dial again. */
static void test_told_of_later(void **state) {
    enum { POOL = 5, OWN = 1, NEW, STRANGER, CROWD = 40 };
    wire_member members[] = {{.number = OWN}, {.number = NEW}};
    wire_key_pair pairs[3];
    guest crowd[CROWD], new, stranger;
    wire_frame frame;
    char said[64];
    side a;
    for (int i = 0; i < 3; i++) assert_int_equal(wire_key_pair_new(&pairs[i]), SHOAL_OK);
    for (int i = 0; i < 2; i++) memcpy(members[i].key, pairs[i].public, WIRE_KEY);
    start_as(&a, "a", "tcp://127.0.0.1:*", 0, 0, true);
    wire_pump_take(a.peer);
    wire_set_number(a.peer, OWN, POOL);
    wire_know(a.peer, members, 1, false);
    wire_pump_leave(a.peer);
    new = enter_as(&a, zmq_ctx_new(), &pairs[1]);
    say_hello_as(&new, WIRE_PROTOCOL, NEW, POOL);
    stranger = enter_as(&a, zmq_ctx_new(), &pairs[2]);
    say_hello_as(&stranger, WIRE_PROTOCOL, STRANGER, POOL);
    assert_false(
        comes(&new, WIRE_FRAME_WELCOME, base_now() + BASE_SECOND / 3, &frame, said, sizeof said));
    wire_pump_take(a.peer);
    wire_know(a.peer, members, 2, false);
    wire_pump_leave(a.peer);
    hears(&new, WIRE_FRAME_WELCOME, "guest");
    /* However many strangers wait, members are let in. */
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = enter_as(&a, zmq_ctx_new(), &pairs[2]);
        say_hello_as(&crowd[i], WIRE_PROTOCOL, STRANGER, POOL);
    }
    leave(&new);
    new = enter_as(&a, zmq_ctx_new(), &pairs[1]);
    say_hello_as(&new, WIRE_PROTOCOL, NEW, POOL);
    hears(&new, WIRE_FRAME_WELCOME, "guest");
    assert_false(comes(&stranger, WIRE_FRAME_WELCOME, base_now() + 4 * BASE_SECOND, &frame, said,
                       sizeof said));
    assert_int_equal(a.opened, 2);
    for (int i = 0; i < CROWD; i++) leave(&crowd[i]);
    leave(&stranger);
    leave(&new);
    wire_peer_destroy(&a.peer);
}

/* Whoever is let in and says nothing makes room for those who do say hello. */
static void test_silent_crowd(void **state) {
    enum { CROWD = WIRE_ZMQ_WAITING + 100 };
    side a;
    guest crowd[CROWD];
    void *context = zmq_ctx_new();
    start(&a, "a", "tcp://127.0.0.1:*");
    for (int i = 0; i < CROWD; i++) crowd[i] = enter_by(&a, context);
    guest g = enter(&a);
    say_hello(&g, WIRE_PROTOCOL);
    hears(&g, WIRE_FRAME_WELCOME, "guest");
    leave(&g);
    for (int i = 0; i < CROWD; i++) zmq_close(crowd[i].socket);
    zmq_ctx_term(context);
    wire_peer_destroy(&a.peer);
}

/* A guest that goes without a word, and one that says nothing any more. */
static void test_gone_and_silent(void **state) {
    side a;
    start(&a, "a", "tcp://127.0.0.1:*");
    guest g = enter(&a), silent = enter(&a);
    say_hello(&g, WIRE_PROTOCOL);
    hears(&g, WIRE_FRAME_WELCOME, "guest");
    leave(&g);
    wait_count(&a, &a.closed, 1);
    assert_non_null(strstr(a.text, "the process has ended, or the connection was cut"));
    say_hello(&silent, WIRE_PROTOCOL);
    hears(&silent, WIRE_FRAME_WELCOME, "guest");
    int64_t then = base_now();
    wait_count(&a, &a.closed, 2);
    assert_true(in_time(then, 2));
    assert_non_null(strstr(a.text, "nothing was heard for "));
    leave(&silent);
    wire_peer_destroy(&a.peer);
}

/* Another process: says hello, and ends; or stays, when it is heard. */
static pid_t start_caller(const side *host, bool stays) {
    pid_t pid = fork();
    if (pid) return pid;
    wire_frame frame;
    char text[4096];
    guest g = enter(host);
    say_hello(&g, WIRE_PROTOCOL);
    nanosleep(&(struct timespec){.tv_nsec = 500 * BASE_MS}, NULL);
    bool heard = stays && comes(&g, WIRE_FRAME_WELCOME, SOON, &frame, text, sizeof text) &&
                 comes(&g, WIRE_FRAME_BEAT, SOON, &frame, text, sizeof text);
    _exit(heard != stays);
}

/* Who has ended by the time that its hello is read has a descriptor no more: it may be another's.
 */
static void test_ended_by_then(void **state) {
    side a;
    int status;
    start(&a, "a", "tcp://127.0.0.1:*");
    wire_pump_take(a.peer); /* as if a handler took long */
    pid_t first = start_caller(&a, false);
    assert_int_equal(waitpid(first, &status, 0), first);
    nanosleep(&(struct timespec){.tv_nsec = 200 * BASE_MS}, NULL);
    pid_t second = start_caller(&a, true);
    nanosleep(&(struct timespec){.tv_nsec = 500 * BASE_MS}, NULL);
    wire_pump_leave(a.peer);
    assert_int_equal(waitpid(second, &status, 0), second);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    wire_peer_destroy(&a.peer);
}

static void *unlock_later(void *held) {
    nanosleep(&(struct timespec){.tv_nsec = 700 * BASE_MS}, NULL);
    close(*(int *)held);
    return NULL;
}

/* A hub that ends while it enrols somebody is through with that first. */
static void test_ends_while_it_enrols(void **state) {
    side a;
    int held;
    pthread_t thread;
    wire_key_pair token;
    uint8_t asked[WIRE_KEY + 3] = {7};
    assert_int_equal(wire_key_pair_new(&token), SHOAL_OK);
    start(&a, "a", "tcp://127.0.0.1:*");
    assert_int_equal(wire_keys_add_token(token.public, (uint64_t)time(NULL) + 60, WIRE_ROLE_BOTH),
                     SHOAL_OK);
    nanosleep(&(struct timespec){.tv_nsec = 400 * BASE_MS}, NULL); /* until that is read */
    assert_int_equal(wire_file_lock(&held), SHOAL_OK);
    guest g = enter_as(&a, zmq_ctx_new(), &token);
    memcpy(asked + WIRE_KEY, "new", 3);
    say(&g, (wire_frame){.type = WIRE_FRAME_ENROL, .bytes = sizeof asked}, asked, 0);
    nanosleep(&(struct timespec){.tv_nsec = 400 * BASE_MS}, NULL); /* until that is waited for */
    assert_int_equal(pthread_create(&thread, NULL, unlock_later, &held), 0);
    wire_peer_destroy(&a.peer);
    assert_int_equal(pthread_join(thread, NULL), 0);
    leave(&g);
    assert_int_equal(wire_keys_revoke("new"), SHOAL_OK); /* which it could not, were it not in */
}

/* Several addresses: the first that answers. */
static void test_list(void **state) {
    side a, b;
    char list[600];
    start(&a, "a", "tcp://127.0.0.1:*");
    start(&b, "b", NULL);
    snprintf(list, sizeof list, "shm:nobody,tcp://127.0.0.1:1,%s", wire_address(a.peer));
    connect_to(&b, list);
    connect_fails(&b, "shm:nobody,tcp://127.0.0.1:1", SHOAL_NOT_FOUND,
                  "no hub answers at tcp://127.0.0.1:1");
    connect_fails(&b, "shm:nobody,udp:1", SHOAL_INVALID, "'udp:1' is not an address");
    connect_fails(&b, "tcp://127.0.0.1:99999", SHOAL_INVALID, "use tcp://HOST:PORT");
    connect_fails(&b, "tcp://127.0.0.1:80/abc", SHOAL_INVALID, "no key after its '/'");
    assert_int_equal(wire_listen(b.peer, "tcp://0.0.0.0:*"), SHOAL_DENIED);
    assert_non_null(strstr(shoal_error_message(), "--listen HOST:PORT"));
    wire_peer_destroy(&b.peer);
    wire_peer_destroy(&a.peer);
}

/* ---- several paths ---- */

static bool both(void *context) {
    const side *s = context;
    return s->link && wire_link_paths(s->link).open == 2;
}

static bool one(void *context) {
    const side *s = context;
    return s->link && wire_link_paths(s->link).lost > 0;
}

typedef struct come {
    const side *s;
    uint64_t bytes;
} come;

static bool all_came(void *context) {
    const come *c = context;
    return c->s->bytes >= c->bytes;
}

static void cut_first(void *context) {
    const side *s = context;
    const wire_paths *p = s->link->paths;
    shutdown(((const zmq_link *)p->open[0])->fd, SHUT_RDWR);
}

static void test_paths(void **state) {
    side a, b;
    enum { SIZE = 24 << 20 };
    start(&a, "a", "tcp://127.0.0.1:*");
    assert_int_equal(wire_listen(a.peer, "tcp://127.0.0.1:*"), SHOAL_OK);
    a.echo = true;
    start(&b, "b", NULL);
    connect_to(&b, wire_address(a.peer));
    assert_int_equal(wire_wait(b.peer, both, &b, SOON), SHOAL_OK);
    for (int round = 0; round < 3; round++) {
        uint64_t lost = wire_link_paths(b.link).lost;
        a.bytes = b.bytes = a.next = b.next = 0;
        send_pattern(b.link, 2, SIZE);
        send_pattern(a.link, 3, SIZE);
        for (uint64_t i = 0; i < 2000; i++) {
            if (round && i == 1000) wire_call(b.peer, cut_first, &b);
            send_number(&b, SHOAL__KIND__STATUS_ASK, i);
        }
        come there = {&a, SIZE}, here = {&b, SIZE};
        assert_int_equal(wire_wait(a.peer, all_came, &there, SOON), SHOAL_OK);
        assert_int_equal(wire_wait(b.peer, all_came, &here, SOON), SHOAL_OK);
        wait_number(&b, &b.next, 2000);
        if (round) assert_int_equal(wire_wait(b.peer, one, &b, SOON), SHOAL_OK);
        assert_int_equal(wire_link_paths(b.link).lost, lost + (round > 0));
        assert_int_equal(a.bytes, SIZE);
        assert_int_equal(b.bytes, SIZE);
        assert_int_equal(wire_wait(b.peer, both, &b, SOON), SHOAL_OK); /* it comes back */
    }
    assert_int_equal(a.wrong + b.wrong, 0);
    assert_int_equal(a.opened, 1);
    assert_int_equal(a.closed + b.closed, 0);
    wire_peer_destroy(&b.peer);
    wire_peer_destroy(&a.peer);
}

/* A descriptor that is another socket's by the time that its first owner is to be cut. */
static void test_identity(void **state) {
    int one[2], other[2], fd;
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, one), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
    fd = one[0];
    uint64_t identity = base_os_socket_identity(fd);
    assert_true(identity && identity != base_os_socket_identity(other[0]));
    assert_int_equal(dup2(other[0], fd), fd);
    base_os_socket_cut(fd, identity);
    base_os_socket_cut(fd, 0);
    assert_int_equal(recv(other[1], &byte, 1, MSG_DONTWAIT), -1);
    base_os_socket_cut(fd, base_os_socket_identity(fd));
    assert_int_equal(recv(other[1], &byte, 1, MSG_DONTWAIT), 0);
    assert_int_equal(base_os_socket_identity(-1), 0);
    for (int i = 0; i < 2; i++) close(one[i]), close(other[i]);
    assert_int_equal(base_os_socket_identity(fd), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_before_hello),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_gone_and_silent),
        cmocka_unit_test(test_ended_by_then),
        cmocka_unit_test(test_ends_while_it_enrols),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_shared_window),
        cmocka_unit_test(test_ignored_credit),
        cmocka_unit_test(test_flood_while_busy),
        cmocka_unit_test(test_silent_crowd),
        cmocka_unit_test(test_links_of_a_member),
        cmocka_unit_test(test_told_of_later),
        cmocka_unit_test(test_paths),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
