/* What the tests of this folder share: a peer that notes what its handlers see, another process to
 * talk to, and a folder of their own for sockets. */
#ifndef WIRE_TESTING_H
#define WIRE_TESTING_H

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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 1000000, BIG = 256 << 20 };
/* A guard against hanging: emulated, or on a busy machine, what comes may take long. */
enum { PATIENCE_S = 200, PATIENCE_MS = PATIENCE_S * 1000 };
#define SOON (base_now() + PATIENCE_S * BASE_SECOND)

/* Whether what has to come within so many seconds has. Tests run beside others, and it may
 * take longer by the factor SHOAL_SLACK (3); 1 where nothing else runs (tools/soak.sh). */
static inline bool in_time(int64_t since, int seconds) {
    const char *slack = getenv("SHOAL_SLACK");
    return (double)(base_now() - since) < (slack ? atof(slack) : 3) * seconds * BASE_SECOND;
}

static char program[1024];

/* What a Hello has to have that is put together by hand. */
static inline void fill_hello(Shoal__Hello *hello) {
    static uint32_t order = 0x01020304;
    static uint8_t key[WIRE_KEY] = {1};
    hello->order = (ProtobufCBinaryData){sizeof order, (uint8_t *)&order};
    hello->key = (ProtobufCBinaryData){sizeof key, key};
}

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

static inline shoal_status on_opened(void *context, wire_link *link, const Shoal__Hello *hello,
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
static inline uint64_t word(uint64_t ordinal, uint64_t index) {
    return (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ ordinal;
}

static inline void read_pattern(void *context, uint64_t offset, void *to, size_t n) {
    uint64_t ordinal = (uint64_t)(uintptr_t)context;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = word(ordinal, (offset + i) / 8);
        memcpy((char *)to + i, &w, n - i < 8 ? n - i : 8);
    }
}

static inline shoal_status send_pattern(wire_link *link, uint32_t ordinal, uint64_t bytes) {
    wire_transfer transfer = {.instance = 5, .channel = 1, .ordinal = ordinal, .bytes = bytes};
    wire_source source = {.context = (void *)(uintptr_t)ordinal, .read = read_pattern};
    return wire_send_data(link, &transfer, &source);
}

static inline void send_number(side *s, Shoal__Kind kind, uint64_t number) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ask.token = number;
    if (wire_send(s->link, kind, &ask.base) != SHOAL_OK) s->wrong++;
}

/* Messages carry rising numbers; one of 0 starts over. */
static inline shoal_status on_message(void *context, wire_link *link, Shoal__Kind kind,
                                      const void *body, size_t bytes) {
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

static inline shoal_status on_data(void *context, wire_link *link, const wire_transfer *transfer,
                                   uint64_t offset, const void *bytes, size_t n) {
    (void)link;
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

static inline void on_closed(void *context, wire_link *link, shoal_status why,
                             const char *message) {
    side *s = context;
    s->why = why;
    snprintf(s->text, sizeof s->text, "%s", message);
    s->received = wire_link_count(link).bytes_in;
    if (s->link == link) s->link = NULL;
    s->closed++;
}

static inline void on_failed(void *context, uint64_t cookie, shoal_status why,
                             const char *message) {
    side *s = context;
    s->why = cookie == 42 ? why : SHOAL_OK;
    snprintf(s->text, sizeof s->text, "%s", message);
    s->failed++;
}

/* newest: 0: this build's range of protocols. oldest: 0: that one alone. member: no hub. */
static inline void start_as(side *s, const char *name, const char *address, uint32_t newest,
                            uint32_t oldest, bool member) {
    *s = (side){.want_accepting = address != NULL};
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)name;
    hello.protocol = newest;
    hello.oldest = oldest;
    assert_int_equal(wire_peer_new(&hello, &s->peer), SHOAL_OK);
    wire_handlers handlers = {.context = s,
                              .opened = on_opened,
                              .message = on_message,
                              .data = on_data,
                              .closed = on_closed,
                              .connect_failed = on_failed};
    wire_handle(s->peer, WIRE_WORKER, &handlers);
    handlers = (wire_handlers){.context = s, .message = on_message};
    if (!member) wire_handle(s->peer, WIRE_HUB, &handlers);
    if (address) {
        shoal_status status = wire_listen(s->peer, address);
        if (status != SHOAL_OK) fail_msg("%s", shoal_error_message());
    }
    assert_int_equal(wire_start(s->peer), SHOAL_OK);
}

static inline void start_range(side *s, const char *name, const char *address, uint32_t newest,
                               uint32_t oldest) {
    start_as(s, name, address, newest, oldest, false);
}

static inline void start(side *s, const char *name, const char *address) {
    start_as(s, name, address, 0, 0, false);
}

typedef struct until {
    const _Atomic uint64_t *number;
    const atomic_int *count;
    uint64_t least;
} until;

static inline bool reached(void *context) {
    const until *u = context;
    return u->number ? *u->number >= u->least : (uint64_t)*u->count >= u->least;
}

static inline void wait_number(side *s, const _Atomic uint64_t *number, uint64_t least) {
    until u = {.number = number, .least = least};
    assert_int_equal(wire_wait(s->peer, reached, &u, SOON), SHOAL_OK);
}

static inline void wait_count(side *s, const atomic_int *count, uint64_t least) {
    until u = {.count = count, .least = least};
    assert_int_equal(wire_wait(s->peer, reached, &u, SOON), SHOAL_OK);
}

static inline void connect_to(side *s, const char *address) {
    int opened = s->opened, failed = s->failed;
    assert_int_equal(wire_connect(s->peer, address, 42, PATIENCE_MS), SHOAL_OK);
    wait_count(s, &s->opened, (uint64_t)opened + 1);
    assert_int_equal(s->failed, failed);
    assert_non_null(s->link);
    assert_int_equal(s->cookie, 42);
}

static inline void connect_fails(side *s, const char *address, shoal_status why, const char *text) {
    int before = s->failed;
    int within = why == SHOAL_TIMEOUT ? 2000 : PATIENCE_MS;
    assert_int_equal(wire_connect(s->peer, address, 42, within), SHOAL_OK);
    wait_count(s, &s->failed, (uint64_t)before + 1);
    if (!strstr(s->text, text)) fail_msg("'%s' lacks '%s'", s->text, text);
    assert_int_equal(s->why, why);
}

/* ---- the other process ---- */

/* Serves at an address (argument 3) until its parent's end of standard input is gone. */
static inline int serve(const char *address) {
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

static inline child start_child(const char *address) {
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a stopped one would outlive a test that failed */
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]);
        close(out[0]);
        close(out[1]);
        /* Meson names the emulator of a program that is not this machine's. */
        execl("/bin/sh", "sh", "-c", "exec $MESON_EXE_WRAPPER \"$@\"", "sh", program, "serve",
              address, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    char line[6];
    assert_int_equal(read(out[0], line, 6), 6);
    close(out[0]);
    return (child){pid, in[1]};
}

static inline void end_child(child *c) {
    int status;
    close(c->in);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- a folder of their own ---- */

static char folder[256];

static inline char *path_of(const char *name, char *out, size_t room) {
    snprintf(out, room, "%s/shoal/%s", folder, name);
    return out;
}

/* Runs tests as the main function of a test program; its second life is the other process. */
static inline int test_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count) {

    if (argc == 3 && !strcmp(argv[1], "serve")) return serve(argv[2]);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    snprintf(folder, sizeof folder, "/tmp/shoal-test-XXXXXX");
    if (n < 0 || !mkdtemp(folder)) return 1;
    setenv("XDG_RUNTIME_DIR", folder, 1);
    setenv("XDG_CONFIG_HOME", folder, 1); /* sockets and keys in one folder */
    setenv("SHOAL_LOG", "error", 1);
    int failed = _cmocka_run_group_tests("wire", tests, count, NULL, NULL);
    char path[512];
    unlink(path_of("file", path, sizeof path));
    unlink(path_of("killed", path, sizeof path));
    unlink(path_of("killed.lock", path, sizeof path));
    unlink(path_of("pending", path, sizeof path));
    unlink(path_of("pending.lock", path, sizeof path));
    static const char *const left[] = {"stopped", "stopped.lock", "key", "lock", "peers",
                                       "tokens",  "hubs",         "hub", "kept"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        unlink(path_of(left[i], path, sizeof path));
    rmdir(path_of("", path, sizeof path));
    rmdir(folder);
    return failed;
}

#endif
