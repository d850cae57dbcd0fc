/* Links between two peers in one process and between two processes (this program started again with
 * an argument): order, volume, refusals, broken and dying partners, and who runs the pump. */
#include "base/clock.h"
#include "base/os.h"
#include "wire/shm_link.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 1000000, BIG = 256 << 20 };
#define SOON (base_now() + 20 * BASE_SECOND)

static char program[1024];

/* One peer and what its handlers saw. Written under its pump; read there or after a wait. */
typedef struct side {
    wire_peer *peer;
    _Atomic(wire_link *) link;
    atomic_int opened, closed, failed, sources;
    _Atomic uint64_t cookie, received, messages, next, wrong, bytes, finished;
    _Atomic bool echo, refuse;
    uint8_t *take; /* data is copied here and not looked at */
    atomic_int why;
    char text[1200];
    bool want_accepting;
} side;

static shoal_status on_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                              Shoal__Welcome *welcome, bool accepting) {
    side *s = context;
    if (s->refuse) return base_fail(SHOAL_DENIED, "no room for %s", hello->name);
    if (accepting) {
        welcome->peer = 7;
        welcome->name = strdup("guest");
    } else if (welcome->peer != 7) {
        s->wrong++;
    }
    if (accepting == s->want_accepting) {
        s->link = link;
        s->cookie = wire_link_cookie(link);
    }
    s->opened++;
    return SHOAL_OK;
}

/* The pattern of a transfer: every 8 bytes tell where they belong. */
static uint64_t word(uint64_t ordinal, uint64_t index) {
    return (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ ordinal;
}

static void read_pattern(void *context, uint64_t offset, void *to, size_t n) {
    uint64_t ordinal = (uint64_t)(uintptr_t)context;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = word(ordinal, (offset + i) / 8);
        memcpy((char *)to + i, &w, n - i < 8 ? n - i : 8);
    }
}

static shoal_status send_pattern(wire_link *link, uint32_t ordinal, uint64_t bytes) {
    wire_transfer transfer = {.instance = 5, .channel = 1, .ordinal = ordinal, .bytes = bytes};
    wire_source source = {.context = (void *)(uintptr_t)ordinal, .read = read_pattern};
    return wire_send_data(link, &transfer, &source);
}

static void send_number(side *s, Shoal__Kind kind, uint64_t number) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ask.token = number;
    if (wire_send(s->link, kind, &ask.base) != SHOAL_OK) s->wrong++;
}

/* Messages carry rising numbers; one of 0 starts over. */
static shoal_status on_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                               size_t bytes) {
    side *s = context;
    if (kind == SHOAL__KIND__RELEASE) { /* send a big transfer back */
        return send_pattern(link, 9, BIG);
    }
    Shoal__StatusAsk *ask = shoal__status_ask__unpack(NULL, bytes, body);
    if (!ask) return base_fail(SHOAL_FORMAT, "a broken message");
    uint64_t token = ask->token;
    shoal__status_ask__free_unpacked(ask, NULL);
    if (token == UINT64_MAX) return base_fail(SHOAL_INVALID, "the number is too large");
    if (token && token != s->next) s->wrong++;
    s->next = token + 1;
    s->messages++;
    if (kind == SHOAL__KIND__STATUS_ASK && s->echo) {
        Shoal__StatusAsk back = SHOAL__STATUS_ASK__INIT;
        back.token = token;
        if (wire_send(link, SHOAL__KIND__STATUS, &back.base) != SHOAL_OK) s->wrong++;
    }
    return SHOAL_OK;
}

static shoal_status on_data(void *context, wire_link *link, const wire_transfer *transfer,
                            uint64_t offset, const void *bytes, size_t n) {
    side *s = context;
    if (transfer->instance != 5 || transfer->channel != 1) s->wrong++;
    if (s->take) memcpy(s->take + offset, bytes, n);
    for (size_t i = 0; i + 8 <= n && !s->take; i += 8) {
        uint64_t w;
        memcpy(&w, (const char *)bytes + i, 8);
        if (w != word(transfer->ordinal, (offset + i) / 8)) s->wrong++;
    }
    s->bytes += n;
    if (offset + n == transfer->bytes) s->finished++;
    return SHOAL_OK;
}

static void on_closed(void *context, wire_link *link, shoal_status why, const char *message) {
    side *s = context;
    s->why = why;
    snprintf(s->text, sizeof s->text, "%s", message);
    s->received = wire_link_count(link).bytes_in;
    if (s->link == link) s->link = NULL;
    s->closed++;
}

static void on_failed(void *context, uint64_t cookie, shoal_status why, const char *message) {
    side *s = context;
    s->why = cookie == 42 ? why : SHOAL_OK;
    snprintf(s->text, sizeof s->text, "%s", message);
    s->failed++;
}

static void start_protocol(side *s, const char *name, const char *address, uint32_t protocol) {
    *s = (side){.want_accepting = address != NULL};
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)name;
    hello.protocol = protocol;
    assert_int_equal(wire_peer_new(&hello, &s->peer), SHOAL_OK);
    wire_handlers handlers = {.context = s,
                              .opened = on_opened,
                              .message = on_message,
                              .data = on_data,
                              .closed = on_closed,
                              .connect_failed = on_failed};
    wire_handle(s->peer, WIRE_WORKER, &handlers);
    handlers = (wire_handlers){.context = s, .message = on_message};
    wire_handle(s->peer, WIRE_HUB, &handlers);
    if (address) {
        shoal_status status = wire_listen(s->peer, address);
        if (status != SHOAL_OK) fail_msg("%s", shoal_error_message());
    }
    assert_int_equal(wire_start(s->peer), SHOAL_OK);
}

static void start(side *s, const char *name, const char *address) {
    start_protocol(s, name, address, 0);
}

typedef struct until {
    const _Atomic uint64_t *number;
    const atomic_int *count;
    uint64_t least;
} until;

static bool reached(void *context) {
    const until *u = context;
    return u->number ? *u->number >= u->least : (uint64_t)*u->count >= u->least;
}

static void wait_number(side *s, const _Atomic uint64_t *number, uint64_t least) {
    until u = {.number = number, .least = least};
    assert_int_equal(wire_wait(s->peer, reached, &u, SOON), SHOAL_OK);
}

static void wait_count(side *s, const atomic_int *count, uint64_t least) {
    until u = {.count = count, .least = least};
    assert_int_equal(wire_wait(s->peer, reached, &u, SOON), SHOAL_OK);
}

static void connect_to(side *s, const char *address) {
    int opened = s->opened, failed = s->failed;
    assert_int_equal(wire_connect(s->peer, address, 42, 5000), SHOAL_OK);
    wait_count(s, &s->opened, (uint64_t)opened + 1);
    assert_int_equal(s->failed, failed);
    assert_non_null(s->link);
    assert_int_equal(s->cookie, 42);
}

static void connect_fails(side *s, const char *address, shoal_status why, const char *text) {
    int before = s->failed;
    assert_int_equal(wire_connect(s->peer, address, 42, 2000), SHOAL_OK);
    wait_count(s, &s->failed, (uint64_t)before + 1);
    if (!strstr(s->text, text)) fail_msg("'%s' lacks '%s'", s->text, text);
    assert_int_equal(s->why, why);
}

/* ---- the other process ---- */

/* Serves at an address (argument 3) until its parent's end of standard input is gone. */
static int serve(const char *address) {
    side s;
    start(&s, "server", address);
    s.echo = true;
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) continue;
    wire_peer_destroy(&s.peer);
    return s.wrong ? 3 : 0;
}

typedef struct child {
    pid_t pid;
    int in;
} child;

static child start_child(const char *address) {
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    if (!pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]);
        close(out[0]);
        close(out[1]);
        execl(program, program, "serve", address, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    char line[6];
    assert_int_equal(read(out[0], line, 6), 6);
    close(out[0]);
    return (child){pid, in[1]};
}

static void end_child(child *c) {
    int status;
    close(c->in);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- inproc ---- */

typedef struct order {
    side *s;
    uint64_t at;
    bool right;
} order;

static void check_order(void *context) {
    order *o = context;
    o->right = o->s->messages == o->at;
}

static void test_inproc(void **state) {
    side s;
    start(&s, "self", NULL);
    assert_int_equal(wire_connect(s.peer, "inproc", 42, 1000), SHOAL_OK);
    wait_count(&s, &s.opened, 2);
    assert_string_equal(wire_address(s.peer), "");
    assert_non_null(strstr(wire_link_name(s.link), "inproc (self, pid "));
    static order orders[100];
    for (uint64_t i = 0; i < 100; i++) {
        orders[i] = (order){.s = &s, .at = i};
        assert_int_equal(wire_post(s.peer, check_order, &orders[i]), SHOAL_OK);
        send_number(&s, i % 2 ? SHOAL__KIND__STATUS : SHOAL__KIND__STATUS_ASK, i);
    }
    assert_int_equal(send_pattern(s.link, 3, (5 << 20) + 3), SHOAL_OK);
    assert_int_equal(send_pattern(s.link, 4, 0), SHOAL_OK);
    wait_number(&s, &s.finished, 2);
    for (int i = 0; i < 100; i++) assert_true(orders[i].right);
    assert_int_equal(s.messages, 100);
    assert_int_equal(s.bytes, (5 << 20) + 3);
    assert_int_equal(wire_link_count(s.link).messages_out, 100);
    /* closing comes after what was sent before, to both ends */
    send_number(&s, SHOAL__KIND__STATUS, 100);
    assert_int_equal(send_pattern(s.link, 5, 3 << 20), SHOAL_OK);
    wire_close(s.link, SHOAL_TIMEOUT, "enough");
    wait_count(&s, &s.closed, 2);
    assert_int_equal(s.finished, 3);
    assert_int_equal(s.messages, 101);
    assert_int_equal(s.why, SHOAL_TIMEOUT);
    assert_string_equal(s.text, "enough");
    assert_int_equal(s.wrong, 0);
    wire_peer_destroy(&s.peer);
    assert_null(s.peer);
}

/* ---- shm: volume and order ---- */

static void test_two_peers(void **state) {
    side a, b;
    start(&a, "a", "shm:two");
    start(&b, "b", NULL);
    a.echo = true;
    assert_string_equal(wire_address(a.peer), "shm:two");
    connect_to(&b, "shm:two");
    assert_non_null(strstr(wire_link_name(b.link), "shm:two (a, pid "));
    for (uint64_t i = 0; i < 1000; i++) send_number(&b, SHOAL__KIND__STATUS_ASK, i);
    wait_number(&b, &b.messages, 1000);
    static const uint64_t sizes[] = {0, 1, 7, 8, 65536, 65537, 1 << 20, (1 << 20) + 1, 20 << 20};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(send_pattern(b.link, i, sizes[i]), SHOAL_OK);
        sum += sizes[i];
    }
    wait_number(&a, &a.finished, 9);
    assert_int_equal(a.bytes, sum);
    wire_close(b.link, SHOAL_OK, "bye");
    wait_count(&a, &a.closed, 1);
    wait_count(&b, &b.closed, 1);
    assert_int_equal(a.why, SHOAL_CLOSED);
    assert_string_equal(a.text, "bye");
    assert_int_equal(a.wrong + b.wrong, 0);
    wire_peer_destroy(&a.peer);
    wire_peer_destroy(&b.peer);
}

static void test_million(void **state) {
    child c = start_child("shm:many");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:many");
    for (uint64_t i = 0; i < MANY; i++) send_number(&s, SHOAL__KIND__STATUS_ASK, i);
    wait_number(&s, &s.messages, MANY);
    assert_int_equal(s.next, MANY);
    assert_int_equal(s.wrong, 0);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

/* Both directions at once, with messages in between that must not wait for the data. */
static void test_big_data(void **state) {
    child c = start_child("shm:big");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:big");
    Shoal__Release empty = SHOAL__RELEASE__INIT;
    assert_int_equal(send_pattern(s.link, 8, BIG), SHOAL_OK);
    assert_int_equal(wire_send(s.link, SHOAL__KIND__RELEASE, &empty.base), SHOAL_OK);
    int overtaken = 0;
    for (uint64_t i = 0; i < 20; i++) {
        send_number(&s, SHOAL__KIND__STATUS_ASK, i);
        wait_number(&s, &s.messages, i + 1);
        overtaken += s.finished == 0;
    }
    assert_true(overtaken > 0);
    wait_number(&s, &s.finished, 1);
    assert_int_equal(s.bytes, BIG);
    send_number(&s, SHOAL__KIND__STATUS_ASK, 20);
    wait_number(&s, &s.messages, 21);
    assert_int_equal(s.wrong, 0);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

/* A message larger than the ring, and one that is too large for any link. */
static void test_large_message(void **state) {
    side a, b;
    start(&a, "a", "shm:large");
    start(&b, "b", NULL);
    connect_to(&b, "shm:large");
    Shoal__Explained big = SHOAL__EXPLAINED__INIT;
    size_t n = 40 << 20;
    big.token = 0;
    big.json = malloc(n + 1);
    memset(big.json, 'x', n);
    big.json[n] = 0;
    assert_int_equal(wire_send(b.link, SHOAL__KIND__STATUS, &big.base), SHOAL_OK);
    send_number(&b, SHOAL__KIND__STATUS, 1);
    wait_number(&a, &a.messages, 2);
    free(big.json);
    n = 65 << 20;
    big.json = malloc(n + 1);
    memset(big.json, 'x', n);
    big.json[n] = 0;
    assert_int_equal(wire_send(b.link, SHOAL__KIND__STATUS, &big.base), SHOAL_INVALID);
    assert_non_null(strstr(shoal_error_message(), "at most 67108864"));
    free(big.json);
    assert_int_equal(a.wrong, 0);
    wire_peer_destroy(&b.peer);
    wait_count(&a, &a.closed, 1);
    assert_string_equal(a.text, "b has ended");
    assert_true(a.received > 40 << 20);
    wire_peer_destroy(&a.peer);
}

static void test_stopped_reader(void **state) {
    child c = start_child("shm:stopped");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:stopped");
    send_number(&s, SHOAL__KIND__STATUS_ASK, 0);
    wait_number(&s, &s.messages, 1);
    kill(c.pid, SIGSTOP);
    enum { COUNT = 300000 }; /* more than a ring holds */
    for (uint64_t i = 1; i < COUNT; i++) send_number(&s, SHOAL__KIND__STATUS_ASK, i);
    assert_int_equal(send_pattern(s.link, 1, 32 << 20), SHOAL_OK);
    until u = {.number = &s.messages, .least = COUNT};
    assert_int_equal(wire_wait(s.peer, reached, &u, base_now() + 100 * BASE_MS), SHOAL_TIMEOUT);
    kill(c.pid, SIGCONT);
    wait_number(&s, &s.messages, COUNT);
    assert_int_equal(s.wrong, 0);
    wire_peer_destroy(&s.peer);
    end_child(&c);
}

/* ---- what goes wrong ---- */

static char folder[256];

static char *path_of(const char *name, char *out, size_t room) {
    snprintf(out, room, "%s/shoal/%s", folder, name);
    return out;
}

static void test_refusals(void **state) {
    side a, b, c;
    start(&a, "a", "shm:strict");
    start(&b, "b", NULL);
    connect_fails(&b, "shm:nobody", SHOAL_NOT_FOUND,
                  "no hub answers at shm:nobody: start one with `shoal hub`");
    connect_fails(&b, "shm:../x", SHOAL_INVALID, "use shm:NAME or shm:/PATH");
    assert_int_equal(wire_connect(b.peer, "tcp:1", 42, 1), SHOAL_INVALID);
    assert_non_null(strstr(shoal_error_message(), "'tcp:1'"));
    a.refuse = true;
    connect_fails(&b, "shm:strict", SHOAL_DENIED, "shm:strict refuses: no room for b");
    a.refuse = false;
    start_protocol(&c, "c", NULL, 99);
    connect_fails(&c, "shm:strict", SHOAL_VERSION,
                  "the connecting process runs Shoal 0.1.0 (protocol 99), shm:strict runs Shoal "
                  "0.1.0 (protocol 1): install the same version");
    /* refusing on the connecting side closes the other end with the reason */
    b.refuse = true;
    assert_int_equal(wire_connect(b.peer, "shm:strict", 42, 1000), SHOAL_OK);
    wait_count(&a, &a.closed, 1);
    assert_int_equal(a.why, SHOAL_DENIED);
    assert_string_equal(a.text, "no room for a");
    assert_int_equal(b.opened + b.closed, 0);
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

static bool contains(const char *bytes, size_t n, const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= n; i++)
        if (!memcmp(bytes + i, text, length)) return true;
    return false;
}

static void test_other_user(void **state) {
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
    uint32_t n = (uint32_t)shoal__hello__pack(&hello, to + 4);
    memcpy(to, &n, 4);
    return n + 4;
}

static void test_garbage_on_the_socket(void **state) {
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
    assert_true(base_now() - then < BASE_SECOND);
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
    for (uint64_t i = 0; i < 200000; i++) send_number(&s, SHOAL__KIND__STATUS_ASK, i);
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

/* ---- who runs the pump ---- */

static bool never(void *context) { return false; }

static void test_wait_timeout(void **state) {
    side s;
    start(&s, "lone", NULL);
    int64_t then = base_now();
    assert_int_equal(wire_wait(s.peer, never, NULL, then + 50 * BASE_MS), SHOAL_TIMEOUT);
    int64_t took = base_now() - then;
    assert_true(took >= 50 * BASE_MS && took < 2 * BASE_SECOND);
    assert_non_null(strstr(shoal_error_message(), "deadline"));
    assert_int_equal(wire_wait(s.peer, never, NULL, then), SHOAL_TIMEOUT);
    wire_peer_destroy(&s.peer);
}

enum { THREADS = 4, ROUNDS = 2000 };

typedef struct asker {
    side *s;
    uint64_t number;
    atomic_int *failures;
} asker;

static _Atomic uint64_t answered[THREADS];

static shoal_status on_answer(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                              size_t bytes) {
    Shoal__StatusAsk *ask = shoal__status_ask__unpack(NULL, bytes, body);
    if (!ask) return base_fail(SHOAL_FORMAT, "a broken message");
    uint64_t token = ask->token;
    shoal__status_ask__free_unpacked(ask, NULL);
    if (kind != SHOAL__KIND__STATUS_ASK) {
        answered[token % THREADS]++;
        return SHOAL_OK;
    }
    Shoal__StatusAsk back = SHOAL__STATUS_ASK__INIT;
    back.token = token;
    return wire_send(link, SHOAL__KIND__STATUS, &back.base);
}

static void nothing(void *context) { ++*(int *)context; }

static void *ask(void *context) {
    asker *a = context;
    int calls = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        Shoal__StatusAsk question = SHOAL__STATUS_ASK__INIT;
        question.token = a->number;
        until u = {.number = &answered[a->number], .least = i + 1};
        if (wire_send(a->s->link, SHOAL__KIND__STATUS_ASK, &question.base) != SHOAL_OK ||
            wire_wait(a->s->peer, reached, &u, SOON) != SHOAL_OK)
            ++*a->failures;
        if (i % 16 == 0) wire_call(a->s->peer, nothing, &calls);
    }
    if (calls != ROUNDS / 16) ++*a->failures;
    return NULL;
}

static void count_tick(void *context) { ((side *)context)->next++; }

static void test_several_waiters(void **state) {
    side a, b;
    wire_handlers handlers = {.opened = on_opened, .message = on_answer};
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    for (int i = 0; i < 2; i++) {
        side *s = i ? &b : &a;
        *s = (side){.want_accepting = i == 0};
        handlers.context = s;
        assert_int_equal(wire_peer_new(&hello, &s->peer), SHOAL_OK);
        wire_handle(s->peer, WIRE_WORKER, &handlers);
        wire_handle(s->peer, WIRE_HUB, &(wire_handlers){.context = s, .message = on_answer});
        if (!i) assert_int_equal(wire_listen(s->peer, "shm:waiters"), SHOAL_OK);
        assert_int_equal(wire_start(s->peer), SHOAL_OK);
    }
    wire_tick(b.peer, WIRE_WORKER, 1, count_tick);
    connect_to(&b, "shm:waiters");
    pthread_t threads[THREADS];
    asker askers[THREADS];
    atomic_int failures = 0;
    for (uint64_t i = 0; i < THREADS; i++) {
        askers[i] = (asker){.s = &b, .number = i, .failures = &failures};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    wait_number(&b, &b.next, 5);
    /* a call makes true what somebody waits for */
    pthread_t caller;
    assert_int_equal(pthread_create(&caller, NULL, ask, &askers[0]), 0);
    uint64_t before = answered[0];
    wait_number(&b, &answered[0], before + ROUNDS / 2);
    pthread_join(caller, NULL);
    wire_peer_destroy(&a.peer);
    wire_peer_destroy(&b.peer);
}

enum { BLOCK = 64 << 20 };

static void read_block(void *context, uint64_t offset, void *to, size_t n) {
    memcpy(to, (const char *)context + offset, n);
}

static shoal_status send_block(wire_link *link, void *block) {
    wire_transfer transfer = {.instance = 5, .channel = 1, .bytes = BLOCK};
    return wire_send_data(link, &transfer, &(wire_source){.context = block, .read = read_block});
}

static void test_speed(void **state) {
    enum { TRIPS = 20000 };
    child c = start_child("shm:speed");
    side s;
    start(&s, "client", NULL);
    connect_to(&s, "shm:speed");
    int64_t then = base_now();
    for (uint64_t i = 0; i < TRIPS; i++) {
        send_number(&s, SHOAL__KIND__STATUS_ASK, i);
        wait_number(&s, &s.messages, i + 1);
    }
    double trip = (double)(base_now() - then) / TRIPS / 1000;
    wire_peer_destroy(&s.peer);
    end_child(&c);
    side a;
    start(&a, "a", "shm:fast");
    start(&s, "b", NULL);
    connect_to(&s, "shm:fast");
    double best = 0;
    uint8_t *block = malloc(BLOCK);
    a.take = malloc(BLOCK);
    assert_true(block && a.take);
    memset(block, 1, BLOCK);
    memset(a.take, 1, BLOCK);
    for (int i = 0; i < 8; i++) {
        uint64_t before = a.finished;
        then = base_now();
        assert_int_equal(send_block(s.link, block), SHOAL_OK);
        wait_number(&a, &a.finished, before + 1);
        double rate = BLOCK / (double)(base_now() - then);
        if (rate > best) best = rate;
    }
    print_message("round trip %.1f us, one way %.1f GB/s\n", trip, best);
    wire_peer_destroy(&s.peer);
    wire_peer_destroy(&a.peer);
    free(block);
    free(a.take);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "serve")) return serve(argv[2]);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    snprintf(folder, sizeof folder, "/tmp/shoal-test-XXXXXX");
    if (n < 0 || !mkdtemp(folder)) return 1;
    setenv("XDG_RUNTIME_DIR", folder, 1);
    setenv("SHOAL_LOG", "error", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inproc),
        cmocka_unit_test(test_two_peers),
        cmocka_unit_test(test_million),
        cmocka_unit_test(test_big_data),
        cmocka_unit_test(test_large_message),
        cmocka_unit_test(test_stopped_reader),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_other_user),
        cmocka_unit_test(test_garbage_on_the_socket),
        cmocka_unit_test(test_garbage_in_the_ring),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_destroy_with_pending),
        cmocka_unit_test(test_close_unread),
        cmocka_unit_test(test_wait_timeout),
        cmocka_unit_test(test_several_waiters),
        cmocka_unit_test(test_speed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char path[512];
    unlink(path_of("file", path, sizeof path));
    unlink(path_of("killed", path, sizeof path));
    unlink(path_of("killed.lock", path, sizeof path));
    unlink(path_of("pending", path, sizeof path));
    unlink(path_of("pending.lock", path, sizeof path));
    rmdir(path_of("", path, sizeof path));
    rmdir(folder);
    return failed;
}
