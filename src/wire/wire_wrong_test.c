/* What goes wrong: peers that refuse, end, lie, or are not what they say. */
#include "wire/keys.h"
#include "wire/wire_testing.h"

static bool encrypted(void) {
    const char *transport = getenv("SHOAL_TRANSPORT");
    return transport && !strcmp(transport, "zmq");
}

static void no_attempts(void *context) {
    assert_int_equal(((wire_peer *)context)->attempts.count, 0);
}

static void test_refusals(void **state) {
    side a, b, c;
    start(&a, "a", "shm:strict");
    start(&b, "b", NULL);
    connect_fails(&b, "shm:nobody", SHOAL_NOT_FOUND,
                  "no hub answers at shm:nobody: start one with `shoal hub`");
    const uint8_t key[WIRE_KEY] = {1};
    assert_int_equal(wire_keys_add_hub("tcp://192.0.2.1:7400,tcp://192.0.2.2:7400", key), SHOAL_OK);
    connect_fails(&b, "shm:nobody", SHOAL_NOT_FOUND,
                  "joined set SHOAL_HUB=tcp://192.0.2.1:7400,tcp://192.0.2.2:7400, or start one");
    connect_fails(&b, "shm:../x", SHOAL_INVALID, "use shm:NAME or shm:/PATH");
    assert_int_equal(wire_connect(b.peer, "udp:1", 42, 1), SHOAL_INVALID);
    assert_non_null(strstr(shoal_error_message(), "'udp:1'"));
    a.refuse = true;
    connect_fails(&b, "shm:strict", SHOAL_DENIED, "shm:strict refuses: no room for b");
    a.refuse = false;
    start_range(&c, "c", NULL, 99, 0);
    char mismatch[160];
    snprintf(mismatch, sizeof mismatch,
             "the connecting process runs Shoal 0.1.0 (protocol 99), shm:strict runs Shoal 0.1.0 "
             "(protocol %d): install the same version",
             WIRE_PROTOCOL);
    connect_fails(&c, "shm:strict", SHOAL_VERSION, mismatch);
    /* refusing on the connecting side closes the other end with the reason */
    b.refuse = true;
    int failed = b.failed;
    assert_int_equal(wire_connect(b.peer, "shm:strict", 42, 1000), SHOAL_OK);
    wait_count(&a, &a.closed, 1);
    assert_int_equal(a.why, SHOAL_DENIED);
    assert_string_equal(a.text, "no room for a");
    assert_int_equal(b.opened + b.closed, 0);
    /* and is an outcome of the attempt, of which nothing is left */
    wait_count(&b, &b.failed, (uint64_t)failed + 1);
    assert_int_equal(b.why, SHOAL_DENIED);
    assert_string_equal(b.text, "no room for a");
    wire_call(b.peer, no_attempts, b.peer);
    b.refuse = false;
    /* a handler that fails closes the link, and both know why */
    connect_to(&b, "shm:strict");
    send_number(&b, SHOAL__KIND__STATUS, UINT64_MAX);
    wait_count(&b, &b.closed, 1);
    assert_int_equal(b.why, SHOAL_INVALID);
    assert_string_equal(b.text, "the number is too large");
    wait_count(&a, &a.closed, 2);
    wire_peer_destroy(&a.peer);
    wire_peer_destroy(&b.peer);
    wire_peer_destroy(&c.peer);
}

/* Two that speak a protocol in common find it, whichever of them is the newer; two that do not say
 * so. */
static void test_ranges(void **state) {
    static const struct {
        uint32_t newest, oldest;
        bool meets;
    } others[] = {{7, 7, true},  {9, 7, true},  {9, 5, true},  {5, 3, true}, {6, 6, true},
                  {9, 8, false}, {4, 2, false}, {8, 0, false}, {4, 4, false}};
    side a;
    start_range(&a, "a", "shm:ranges", 7, 5);
    int closed = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        side b;
        start_range(&b, "b", NULL, others[i].newest, others[i].oldest);
        if (others[i].meets) {
            connect_to(&b, "shm:ranges");
            wait_count(&a, &a.opened, (uint64_t)closed + 1);
            wire_peer_destroy(&b.peer);
            wait_count(&a, &a.closed, (uint64_t)++closed);
            continue;
        }
        char text[128];
        snprintf(text, sizeof text, "(protocol %u), shm:ranges runs Shoal 0.1.0 (protocol 7)",
                 others[i].newest);
        connect_fails(&b, "shm:ranges", SHOAL_VERSION, text);
        wire_peer_destroy(&b.peer);
    }
    assert_int_equal(a.opened, closed);
    wire_peer_destroy(&a.peer);
}

static void test_addresses(void **state) {
    side a;
    char path[512], lock[600];
    start(&a, "a", "shm:held");
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    wire_peer *other;
    assert_int_equal(wire_peer_new(&hello, &other), SHOAL_OK);
    assert_int_equal(wire_listen(other, "shm:held"), SHOAL_BUSY);
    assert_non_null(strstr(shoal_error_message(), "shm:held: "));
    wire_peer_destroy(&a.peer);
    assert_int_equal(access(path_of("held", path, sizeof path), F_OK), -1);
    snprintf(lock, sizeof lock, "%s.lock", path);
    assert_int_equal(access(lock, F_OK), -1);
    assert_int_equal(wire_listen(other, "shm:held"), SHOAL_OK);
    wire_peer_destroy(&other);
    /* left behind by a dead process */
    child c = start_child("shm:stale");
    kill(c.pid, SIGKILL);
    waitpid(c.pid, NULL, 0);
    close(c.in);
    assert_int_equal(access(path_of("stale", path, sizeof path), F_OK), 0);
    side b;
    start(&b, "b", NULL);
    connect_fails(&b, "shm:stale", SHOAL_NOT_FOUND, "no hub answers");
    start(&a, "a", "shm:stale");
    connect_to(&b, "shm:stale");
    wire_peer_destroy(&a.peer);
    wire_peer_destroy(&b.peer);
    /* somebody's file is left alone */
    int fd = open(path_of("file", path, sizeof path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(wire_peer_new(&hello, &other), SHOAL_OK);
    assert_int_equal(wire_listen(other, "shm:file"), SHOAL_BUSY);
    assert_non_null(strstr(shoal_error_message(), "is no socket"));
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/shoal", folder);
    chmod(path, 0755);
    assert_int_equal(wire_listen(other, "shm:open"), SHOAL_DENIED);
    assert_non_null(strstr(shoal_error_message(), "open to others (mode 755): chmod 700"));
    chmod(path, 0700);
    assert_int_equal(wire_listen(other, "inproc"), SHOAL_INVALID);
    wire_peer_destroy(&other);
}

/* Stays silent about the dead, and does not touch the living or what is none of its. */
static void test_sweep(void **state) {
    side a;
    char path[512];
    start(&a, "a", "shm:living");
    for (int i = 0; i < 2; i++) {
        child c = start_child(i ? "shm:dead1" : "shm:dead0");
        kill(c.pid, SIGKILL);
        waitpid(c.pid, NULL, 0);
        close(c.in);
    }
    close(open(path_of("file", path, sizeof path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    close(open(path_of("file.lock", path, sizeof path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    snprintf(path, sizeof path, "%s/shoal", folder);
    base_os_socket_sweep(path);
    static const struct {
        const char *name;
        bool stays;
    } expected[] = {{"living", true},      {"living.lock", true}, {"dead0", false},
                    {"dead0.lock", false}, {"dead1", false},      {"dead1.lock", false},
                    {"file", true},        {"file.lock", false}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(!access(path_of(expected[i].name, path, sizeof path), F_OK),
                         expected[i].stays);
    side b;
    start(&b, "b", NULL);
    connect_to(&b, "shm:living");
    wire_peer_destroy(&a.peer);
    wire_peer_destroy(&b.peer);
    base_os_socket_sweep("/nowhere");
}

static bool contains(const char *bytes, size_t n, const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= n; i++)
        if (!memcmp(bytes + i, text, length)) return true;
    return false;
}

static void test_other_user(void **state) {
    if (encrypted()) skip(); /* about the socket and the rings of shm */
    if (geteuid()) skip();
    side a;
    char path[100], address[120];
    snprintf(path, sizeof path, "%.80s/open", folder);
    snprintf(address, sizeof address, "shm:%s", path);
    start(&a, "a", address);
    chmod(path, 0666);
    chmod(folder, 0755);
    pid_t pid = fork();
    if (!pid) { /* says hello by hand: only system calls after a fork */
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        char answer[4096];
        uint32_t none = 0;
        if (setuid(65534) || connect(fd, (struct sockaddr *)&to, sizeof to) ||
            send(fd, &none, 4, MSG_NOSIGNAL) != 4)
            _exit(1);
        ssize_t n = recv(fd, answer, sizeof answer, 0);
        _exit(contains(answer, n > 0 ? (size_t)n : 0, "serves its own user only") ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(a.opened, 0);
    chmod(folder, 0700);
    wire_peer_destroy(&a.peer);
}

/* Connects by hand. */
static int raw_connect(const char *name) {
    char path[512];
    int fd;
    assert_int_equal(base_os_socket_connect(path_of(name, path, sizeof path), &fd), SHOAL_OK);
    return fd;
}

/* What comes until the end. */
static size_t raw_read(int fd, char *to, size_t room) {
    size_t all = 0, n, count = 0;
    int fds[BASE_OS_MAX_FDS];
    int64_t end = SOON;
    shoal_status status = SHOAL_OK;
    while (status == SHOAL_OK && base_now() < end && all < room) {
        status = base_os_socket_receive(fd, to + all, room - all, &n, fds, &count);
        all += n;
    }
    assert_int_equal(status, SHOAL_LOST);
    while (count) close(fds[--count]);
    return all;
}

static size_t raw_hello(uint8_t *to, uint32_t protocol) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.protocol = protocol;
    fill_hello(&hello);
    uint32_t n = (uint32_t)shoal__hello__pack(&hello, to + 4);
    memcpy(to, &n, 4);
    return n + 4;
}

static void test_garbage_on_the_socket(void **state) {
    if (encrypted()) skip(); /* about the socket and the rings of shm */
    side a, b;
    char answer[8192];
    uint8_t bytes[4096];
    start(&a, "a", "shm:garbage");
    uint64_t seed = 88172645463325252ull;
    for (int round = 0; round < 200; round++) {
        size_t n = raw_hello(bytes, WIRE_PROTOCOL);
        for (size_t i = round < 100 ? 0 : 4; i < sizeof bytes; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes[i] = (uint8_t)seed;
        }
        if (round >= 100) n += seed % 64;
        int fd = raw_connect("garbage");
        assert_int_equal(base_os_socket_send(fd, bytes, n, NULL, 0), SHOAL_OK);
        shutdown(fd, SHUT_WR);
        raw_read(fd, answer, sizeof answer);
        close(fd);
    }
    /* descriptors that are none of what they should be */
    int small, doorbell;
    assert_int_equal(base_os_shared_new("small", 65536, &small), SHOAL_OK);
    assert_int_equal(base_os_doorbell_new(&doorbell), SHOAL_OK);
    const struct {
        int fds[3];
        size_t count;
        const char *text;
    } cases[] = {{{0}, 0, "with 0 descriptors"},
                 {{small, doorbell}, 2, "size of"},
                 {{doorbell, doorbell}, 2, "not sealed"},
                 {{small, doorbell, doorbell}, 3, "with 3 descriptors"}};
    for (size_t i = 0; i < 4; i++) {
        size_t n = raw_hello(bytes, WIRE_PROTOCOL);
        int fd = raw_connect("garbage");
        assert_int_equal(base_os_socket_send(fd, bytes, n, cases[i].fds, cases[i].count), SHOAL_OK);
        n = raw_read(fd, answer, sizeof answer);
        if (!contains(answer, n, cases[i].text)) fail_msg("no '%s'", cases[i].text);
        close(fd);
    }
    close(small);
    close(doorbell);
    assert_int_equal(a.opened, 0);
    start(&b, "b", NULL);
    connect_to(&b, "shm:garbage"); /* it still serves */
    wire_peer_destroy(&b.peer);
    wire_peer_destroy(&a.peer);
}

/* A machine whose numbers lie in memory the other way round, and one that does not say. */
static void test_other_order(void **state) {
    if (encrypted()) skip(); /* said by hand on the socket of shm */
    static const uint8_t orders[][4] = {{1, 2, 3, 4}, {4, 3, 2}, {0}};
    side a, b;
    start(&a, "a", "shm:order");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        uint8_t bytes[256];
        char answer[4096];
        Shoal__Hello hello = SHOAL__HELLO__INIT;
        hello.protocol = WIRE_PROTOCOL;
        fill_hello(&hello);
        hello.order = (ProtobufCBinaryData){4 - i, (uint8_t *)orders[i]};
        uint32_t n = (uint32_t)shoal__hello__pack(&hello, bytes + 4);
        memcpy(bytes, &n, 4);
        int fd = raw_connect("order");
        assert_int_equal(base_os_socket_send(fd, bytes, n + 4, NULL, 0), SHOAL_OK);
        assert_true(
            contains(answer, raw_read(fd, answer, sizeof answer), "another order of bytes"));
        close(fd);
    }
    assert_int_equal(a.opened, 0);
    start(&b, "b", NULL);
    connect_to(&b, "shm:order");
    wire_peer_destroy(&b.peer);
    wire_peer_destroy(&a.peer);
}

typedef struct raw_link {
    int fd, memory, doorbell;
    wire_ring out;
} raw_link;

static raw_link raw_open(const char *name) {
    raw_link raw;
    uint8_t bytes[256];
    char answer[1];
    size_t n = raw_hello(bytes, WIRE_PROTOCOL), got = 0, count = 0;
    int fds[BASE_OS_MAX_FDS];
    raw.fd = raw_connect(name);
    assert_int_equal(base_os_shared_new("raw", WIRE_RING_FILE, &raw.memory), SHOAL_OK);
    assert_int_equal(base_os_doorbell_new(&raw.doorbell), SHOAL_OK);
    int own[2] = {raw.memory, raw.doorbell};
    assert_int_equal(base_os_socket_send(raw.fd, bytes, n, own, 2), SHOAL_OK);
    int64_t end = SOON;
    while (!got && base_now() < end)
        assert_int_equal(base_os_socket_receive(raw.fd, answer, 1, &got, fds, &count), SHOAL_OK);
    assert_int_equal(count, 1);
    close(raw.doorbell);
    raw.doorbell = fds[0]; /* theirs */
    assert_int_equal(wire_ring_init(&raw.out, raw.memory, 0), SHOAL_OK);
    return raw;
}

static void raw_close(raw_link *raw) {
    wire_ring_fini(&raw->out);
    close(raw->fd);
    close(raw->memory);
    close(raw->doorbell);
}

static void put_frame(raw_link *raw, wire_frame frame, size_t commit) {
    void *to = wire_ring_reserve(&raw->out, 2 << 20);
    assert_non_null(to);
    memcpy(to, &frame, sizeof frame);
    wire_ring_commit(&raw->out, commit);
    base_os_doorbell_ring(raw->doorbell);
}

static void test_garbage_in_the_ring(void **state) {
    if (encrypted()) skip(); /* about the socket and the rings of shm */
    side a;
    start(&a, "a", "shm:ring");
    static const struct {
        wire_frame frame;
        size_t commit;
        const char *text;
    } cases[] = {
        {{.bytes = UINT32_MAX, .type = 1}, 64, "ring in shared memory is broken"},
        {{.bytes = WIRE_CHUNK, .type = 2, .total = WIRE_CHUNK}, 64, "is broken"},
        {{.bytes = 0}, 8, "is broken"},
        {{.type = 77}, sizeof(wire_frame), "unknown type 77"},
        {{.type = 1, .kind = 70, .bytes = 8, .total = 4}, 48, "bytes 0 + 8 of a message of 4"},
        {{.type = 1, .kind = 70, .offset = 9, .total = 40}, 40, "after 0 of them"},
        {{.type = 1, .kind = 70, .total = UINT64_MAX}, 40, "of a message of"},
        {{.type = 1, .total = 0}, 40, "of no kind"},
        {{.type = 2, .offset = UINT64_MAX, .bytes = 8, .total = 8}, 48, "of a transfer of 8 bytes"},
    };
    int rounds = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        raw_link raw = raw_open("ring");
        put_frame(&raw, cases[i].frame, cases[i].commit);
        wait_count(&a, &a.closed, (uint64_t)++rounds);
        assert_int_equal(a.why, SHOAL_FORMAT);
        if (!strstr(a.text, cases[i].text)) fail_msg("'%s' lacks '%s'", a.text, cases[i].text);
        raw_close(&raw);
    }
    for (int which = 0; which < 2; which++) { /* impossible positions */
        raw_link raw = raw_open("ring");
        if (which) {
            wire_ring back;
            assert_int_equal(wire_ring_init(&back, raw.memory, 1), SHOAL_OK);
            atomic_store(&back.shared->head, UINT64_MAX / 2);
            wire_ring_fini(&back);
            for (int i = 0; i < 9; i++) assert_int_equal(send_pattern(a.link, 1, 1 << 20), 0);
        } else {
            atomic_store(&raw.out.shared->tail, UINT64_MAX / 2);
            base_os_doorbell_ring(raw.doorbell);
        }
        wait_count(&a, &a.closed, (uint64_t)++rounds);
        assert_int_equal(a.why, SHOAL_FORMAT);
        raw_close(&raw);
    }
    /* bytes after the handshake */
    raw_link raw = raw_open("ring");
    assert_int_equal(base_os_socket_send(raw.fd, "x", 1, NULL, 0), SHOAL_OK);
    wait_count(&a, &a.closed, (uint64_t)++rounds);
    assert_non_null(strstr(a.text, "bytes on the socket after the handshake"));
    raw_close(&raw);
    assert_int_equal(a.messages, 0);
    wire_peer_destroy(&a.peer);
}

static void count_done(void *context) { ++*(atomic_int *)context; }

static void read_counted(void *context, uint64_t offset, void *to, size_t n) {
    read_pattern(NULL, offset, to, n);
}

/* As send_pattern, and the end of the source is counted. */
static shoal_status send_counted(side *s, uint64_t bytes) {
    wire_transfer transfer = {.instance = 5, .channel = 1, .bytes = bytes};
    wire_source source = {.context = &s->sources, .read = read_counted, .done = count_done};
    return wire_send_data(s->link, &transfer, &source);
}

static void test_killed(void **state) {
    child c = start_child("shm:killed");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:killed");
    kill(c.pid, SIGSTOP);
    for (int i = 0; i < 5; i++) assert_int_equal(send_counted(&s, 64 << 20), SHOAL_OK);
    int64_t then = base_now();
    kill(c.pid, SIGKILL);
    wait_count(&s, &s.closed, 1);
    assert_true(in_time(then, 1));
    assert_int_equal(s.why, SHOAL_LOST);
    assert_non_null(strstr(s.text, "shm:killed (server, pid "));
    assert_non_null(strstr(s.text, "the process has ended"));
    assert_int_equal(s.sources, 5);
    assert_null(s.link);
    waitpid(c.pid, NULL, 0);
    close(c.in);
    wire_peer_destroy(&s.peer);
}

static void test_destroy_with_pending(void **state) {
    child c = start_child("shm:pending");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:pending");
    kill(c.pid, SIGSTOP);
    /* For less time than it takes to see that the other side is silent. */
    int64_t then = base_now();
    for (uint64_t i = 0; i < 200000 && base_now() - then < BASE_SECOND / 5; i++)
        send_number(&s, SHOAL__KIND__STATUS_ASK, i);
    assert_int_equal(send_counted(&s, 64 << 20), SHOAL_OK);
    assert_int_equal(send_counted(&s, 100), SHOAL_OK);
    assert_int_equal(wire_connect(s.peer, "shm:pending", 42, 60000), SHOAL_OK);
    wire_peer_destroy(&s.peer);
    assert_int_equal(s.sources, 2);
    assert_int_equal(s.closed + s.failed, 0);
    kill(c.pid, SIGKILL);
    waitpid(c.pid, NULL, 0);
    close(c.in);
    start(&s, "self", NULL);
    assert_int_equal(wire_connect(s.peer, "inproc", 42, 1000), SHOAL_OK);
    wait_count(&s, &s.opened, 2);
    for (uint64_t i = 0; i < 100; i++) send_number(&s, SHOAL__KIND__STATUS, i);
    assert_int_equal(send_counted(&s, 64 << 20), SHOAL_OK);
    wire_peer_destroy(&s.peer);
    assert_int_equal(s.sources, 1);
}

/* Both at once: the first waits for its turn at its second address when the other one has its link.
 */
static void connect_twice(void *context) {
    side *s = context;
    assert_int_equal(wire_connect(s->peer, "shm:nobody-there,inproc", 42, PATIENCE_MS), SHOAL_OK);
    assert_int_equal(wire_connect(s->peer, "inproc", 42, PATIENCE_MS), SHOAL_OK);
}

/* Two attempts with one cookie are two, each with an outcome of its own. */
static void test_one_cookie(void **state) {
    side s;
    start(&s, "self", NULL);
    assert_int_equal(wire_post(s.peer, connect_twice, &s), SHOAL_OK);
    wait_count(&s, &s.opened, 4);
    assert_int_equal(s.cookie, 42);
    assert_int_equal(s.failed, 0);
    assert_int_equal(wire_connect(s.peer, "shm:nobody-there", 42, PATIENCE_MS), SHOAL_OK);
    assert_int_equal(wire_connect(s.peer, "shm:nobody-there,shm:nobody-here", 42, PATIENCE_MS),
                     SHOAL_OK);
    wait_count(&s, &s.failed, 2);
    wire_peer_destroy(&s.peer);
    assert_int_equal(s.failed, 2);
}

/* Closing while the other side does not read ends all the same. */
static void test_close_unread(void **state) {
    child c = start_child("shm:unread");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:unread");
    kill(c.pid, SIGSTOP);
    int64_t then = base_now();
    assert_int_equal(send_counted(&s, 64 << 20), SHOAL_OK);
    wire_close(s.link, SHOAL_CLOSED, "had enough");
    assert_int_equal(send_counted(&s, 8), SHOAL_CLOSED);
    assert_non_null(strstr(shoal_error_message(), "is closed: had enough"));
    wait_count(&s, &s.closed, 1);
    assert_true(base_now() - then < 10 * BASE_SECOND);
    assert_int_equal(s.sources, 2);
    kill(c.pid, SIGCONT);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

/* A process that is stopped is lost, soon; one that only computes is not. */
static void test_stopped(void **state) {
    child c = start_child("shm:stopped");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:stopped");
    until forever = {.count = &s.closed, .least = 1};
    assert_int_equal(wire_wait(s.peer, reached, &forever, base_now() + 2 * BASE_SECOND),
                     SHOAL_TIMEOUT);
    kill(c.pid, SIGSTOP);
    int64_t then = base_now();
    wait_count(&s, &s.closed, 1);
    assert_true(in_time(then, 2));
    assert_int_equal(s.why, SHOAL_LOST);
    assert_non_null(strstr(s.text, "the process is stopped"));
    assert_non_null(strstr(s.text, "shm:stopped (server, pid "));
    kill(c.pid, SIGKILL);
    waitpid(c.pid, NULL, 0);
    close(c.in);
    wire_peer_destroy(&s.peer);
}

/* A process that serves one, is forked, and waits to be killed. */
static void serve_forked(const char *address, int tell) {
    side s;
    start(&s, "forked", address);
    assert_int_equal(write(tell, "r", 1), 1);
    wait_count(&s, &s.opened, 1);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, 0);
        sleep(6);
        _exit(0);
    }
    assert_int_equal(write(tell, &pid, sizeof pid), sizeof pid);
    while (true) pause();
}

/* Its end shows although another process still has its socket. */
static void test_killed_after_a_fork(void **state) {
    int tell[2];
    char ready;
    assert_int_equal(pipe(tell), 0);
    pid_t pid = fork(), other;
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve_forked("shm:killed", tell[1]);
    }
    side s;
    assert_int_equal(read(tell[0], &ready, 1), 1);
    start(&s, "client", NULL);
    connect_to(&s, "shm:killed");
    assert_int_equal(read(tell[0], &other, sizeof other), sizeof other);
    int64_t then = base_now();
    kill(pid, SIGKILL);
    wait_count(&s, &s.closed, 1);
    assert_true(base_now() - then < 3 * BASE_SECOND);
    assert_int_equal(s.why, SHOAL_LOST);
    if (!encrypted()) assert_non_null(strstr(s.text, "the process has ended"));
    kill(other, SIGKILL);
    waitpid(pid, NULL, 0);
    close(tell[0]);
    close(tell[1]);
    wire_peer_destroy(&s.peer);
}

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * BASE_MS}, NULL);
}

/* The machine stands still for some seconds, and we are awake first: that is nobody's end. */
static void test_all_stopped(void **state) {
    child c = start_child("shm:asleep");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:asleep");
    pid_t us = getpid(), stopper = fork();
    if (!stopper) {
        kill(c.pid, SIGSTOP);
        kill(us, SIGSTOP);
        sleep_ms(3000);
        kill(us, SIGCONT);
        sleep_ms(700);
        kill(c.pid, SIGCONT);
        _exit(0);
    }
    until forever = {.count = &s.closed, .least = 1};
    assert_int_equal(wire_wait(s.peer, reached, &forever, base_now() + 6 * BASE_SECOND),
                     SHOAL_TIMEOUT);
    waitpid(stopper, NULL, 0);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_other_user),
        cmocka_unit_test(test_garbage_on_the_socket),
        cmocka_unit_test(test_garbage_in_the_ring),
        cmocka_unit_test(test_other_order),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_killed_after_a_fork),
        cmocka_unit_test(test_all_stopped),
        cmocka_unit_test(test_destroy_with_pending),
        cmocka_unit_test(test_one_cookie),
        cmocka_unit_test(test_close_unread),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
