/* Each allocation fails once: a scenario is run again and again, the n-th allocation of the library
 * failing in the n-th run, until a run has none left to fail. It must come to its end with a status
 * and a message, in time, and hold nothing afterwards.
 *
 *   failing CORPUS [SCENARIO] */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/os.h"
#include "fuzz.h"
#include "graph/graph.h"
#include "memory.h"
#include "model/file.h"
#include "shoal/function.h"
#include "shoal/shoal.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SECONDS = 8 };

static const char *corpus;
static char folder[] = "/tmp/shoal-failing-XXXXXX";

static shoal_status read_seed(const char *name, char *data, size_t room, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", corpus, name);
    FILE *file = fopen(path, "rb");
    if (!file) return base_fail(SHOAL_NOT_FOUND, "%s", path);
    *size = fread(data, 1, room, file);
    fclose(file);
    return SHOAL_OK;
}

static shoal_status graph_bytes_and_text(void) {
    static char data[1 << 16];
    size_t size;
    graph *g = NULL, *back = NULL;
    base_str text = {0};
    SHOAL_TRY(read_seed("graph/all", data, sizeof data, &size));
    shoal_status status = graph_decode(data, size, 0, &g);
    if (status == SHOAL_OK) status = graph_print(graph_data(g), &text);
    if (status == SHOAL_OK) status = graph_parse(text.data, text.size, 0, &back);
    base_str_clear(&text);
    if (status == SHOAL_OK) status = graph_encode(graph_data(back), true, &text);
    base_str_fini(&text);
    graph_destroy(&g);
    graph_destroy(&back);
    return status;
}

static shoal_status read_file(const char *name, uint64_t count) {
    char path[4096];
    float data[64];
    shoal_file *file = NULL;
    char *text = NULL;
    snprintf(path, sizeof path, "%s/%s", corpus, name);
    SHOAL_TRY(shoal_file_open(path, &file));
    shoal_status status = shoal_file_read(file, 0, 0, count, data);
    if (status == SHOAL_OK && shoal_file_count(file) > 1)
        status = shoal_file_meta(file, "general.name", 0, &text);
    free(text);
    shoal_file_close(&file);
    return status;
}

static shoal_status files(void) {
    char path[64];
    SHOAL_TRY(read_file("gguf/small.gguf", 6));
    SHOAL_TRY(read_file("npy/f32.npy", 6));
    SHOAL_TRY(read_file("pt/small.pt", 3));
    snprintf(path, sizeof path, "%s/x.npy", folder);
    shoal_status status = shoal_npy_write(path, SHOAL_F32, 1, (int64_t[]){2}, (float[]){1, 2});
    unlink(path);
    return status;
}

/* ---- links ---- */

typedef struct end {
    bool failed, answered;
    wire_link *link;
} end;

static shoal_status on_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                              Shoal__Welcome *welcome, bool accepting) {
    if (!accepting) ((end *)context)->link = link;
    return SHOAL_OK;
}

static shoal_status on_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                               size_t bytes) {
    ProtobufCMessage *message;
    SHOAL_TRY(wire_unpack(&shoal__status_ask__descriptor, body, bytes, &message));
    shoal_status status = SHOAL_OK;
    if (kind == SHOAL__KIND__STATUS_ASK)
        status = wire_send(link, SHOAL__KIND__STATUS, message);
    else
        ((end *)context)->answered = true;
    wire_unpacked_free(message);
    return status;
}

static void on_closed(void *context, wire_link *link, shoal_status why, const char *message) {
    end *e = context;
    if (e->link != link) return;
    e->link = NULL;
    e->failed = true;
    base_fail(why, "%s", message);
}

static void on_connect_failed(void *context, uint64_t cookie, shoal_status why,
                              const char *message) {
    ((end *)context)->failed = true;
    base_fail(why, "%s", message);
}

static bool opened(void *context) { return ((end *)context)->link || ((end *)context)->failed; }
static bool answered(void *context) {
    return ((end *)context)->answered || ((end *)context)->failed;
}

static shoal_status new_peer(const char *name, const char *address, end *e, wire_peer **out) {
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.name = (char *)name;
    SHOAL_TRY(wire_peer_new(&hello, out));
    wire_handlers handlers = {.context = e,
                              .opened = on_opened,
                              .message = on_message,
                              .closed = on_closed,
                              .connect_failed = on_connect_failed};
    wire_handle(*out, WIRE_WORKER, &handlers);
    wire_handle(*out, WIRE_HUB, &(wire_handlers){.context = e, .message = on_message});
    if (address) SHOAL_TRY(wire_listen(*out, address));
    return wire_start(*out);
}

static shoal_status ask(wire_peer *peer, end *e, const char *address) {
    SHOAL_TRY(wire_connect(peer, address, 1, 1000));
    SHOAL_TRY(wire_wait(peer, opened, e, base_now() + 2 * BASE_SECOND));
    if (!e->link) return base_fail(SHOAL_LOST, "not connected");
    Shoal__StatusAsk question = SHOAL__STATUS_ASK__INIT;
    question.token = 7;
    SHOAL_TRY(wire_send(e->link, SHOAL__KIND__STATUS_ASK, &question.base));
    SHOAL_TRY(wire_wait(peer, answered, e, base_now() + 2 * BASE_SECOND));
    return e->answered ? SHOAL_OK : base_fail(SHOAL_LOST, "the link was closed");
}

static shoal_status link_of_two(const char *address) {
    end a = {0}, b = {0};
    wire_peer *first = NULL, *second = NULL;
    bool other = strcmp(address, "inproc");
    shoal_status status = other ? new_peer("a", address, &a, &first) : SHOAL_OK;
    if (status == SHOAL_OK) status = new_peer("b", NULL, &b, &second);
    if (status == SHOAL_OK) status = ask(second, &b, address);
    wire_peer_destroy(&second);
    wire_peer_destroy(&first);
    return status;
}

static shoal_status links(void) {
    char address[64];
    snprintf(address, sizeof address, "shm:%s/links", folder);
    SHOAL_TRY(link_of_two("inproc"));
    return link_of_two(address);
}

/* ---- a session ---- */

static shoal_status multiply(shoal_session *s) {
    static const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1};
    float c[4] = {0};
    shoal_tensor *x = NULL, *y = NULL, *z = NULL;
    shoal_status status = shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){2, 3}, a, &x);
    if (!status) status = shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){3, 2}, b, &y);
    if (!status) status = shoal_matmul(x, y, &z);
    if (!status) status = shoal_read(z, c, sizeof c);
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_tensor_free(&z);
    FUZZ_CHECK(status || (c[0] == 4 && c[3] == 11));
    return status;
}

/* The product as a function: twice the same. */
static shoal_status repeat(shoal_session *s) {
    static const float a[4] = {1, 2, 3, 4};
    float c[4] = {0};
    shoal_tensor *x = NULL, *y = NULL, *z = NULL;
    shoal_function *f = NULL;
    shoal_status status = shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){2, 2}, a, &x);
    if (!status) status = shoal_matmul(x, x, &y);
    if (!status) status = shoal_function_new(s, &x, 1, &y, 1, &f);
    shoal_tensor_free(&y);
    if (!status) status = shoal_function_run(f, &x, &y);
    if (!status) status = shoal_function_run(f, &y, &z);
    if (!status) status = shoal_read(z, c, sizeof c);
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_tensor_free(&z);
    shoal_function_free(&f);
    FUZZ_CHECK(status || (c[0] == 199 && c[3] == 634));
    return status;
}

static shoal_status session(void) {
    shoal_options options = {
        .size = sizeof options, .hub = "embedded", .workers = 2, .threads = 2, .timeout_ms = 2000};
    shoal_session *s = NULL;
    shoal_status status = shoal_session_open(&options, &s);
    if (status == SHOAL_OK) status = multiply(s);
    if (status == SHOAL_OK) status = repeat(s);
    if (s) shoal_session_close(&s);
    return status;
}

/* An index that is out of range fails, and what is computed beside it does not. */
static shoal_status check(shoal_session *s) {
    static const int64_t a[2] = {1, 2}, lowest = 0, limit = 2;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_START_INDICES, &lowest, 1),
                                graph_ints(SHOAL_ATTR_LIMIT_INDICES, &limit, 1)};
    int64_t c[2] = {0};
    shoal_tensor *x = NULL, *y = NULL, *z = NULL;
    shoal_status status = shoal_tensor_new(s, SHOAL_I64, 1, (int64_t[]){2}, a, &x);
    if (!status) status = shoal_apply(s, GRAPH_IN_RANGE, &x, 1, attrs, 2, NULL, 0, &y, 1);
    if (!status) status = shoal_add(x, x, &z);
    if (!status) {
        status = shoal_read(y, c, sizeof c);
        FUZZ_CHECK(status);
        if (status == SHOAL_RANGE) status = shoal_read(z, c, sizeof c);
    }
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_tensor_free(&z);
    FUZZ_CHECK(status || (c[0] == 2 && c[1] == 4));
    return status;
}

static shoal_status checked(void) {
    shoal_options options = {
        .size = sizeof options, .hub = "embedded", .workers = 2, .timeout_ms = 2000};
    shoal_session *s = NULL;
    shoal_status status = shoal_session_open(&options, &s);
    if (status == SHOAL_OK) status = check(s);
    if (s) shoal_session_close(&s);
    return status;
}

static void count_events(void *context, const shoal_event_source *source, const shoal_event *events,
                         size_t n) {
    *(size_t *)context += n;
}

/* The same while it is recorded. */
static shoal_status recorded(void) {
    shoal_options options = {.size = sizeof options, .hub = "embedded", .timeout_ms = 2000};
    shoal_session *s = NULL;
    size_t n = 0;
    shoal_status status = shoal_session_open(&options, &s);
    if (status == SHOAL_OK) status = shoal_events(s, 1000, count_events, &n);
    if (status == SHOAL_OK) status = multiply(s);
    if (status == SHOAL_OK) status = shoal_events(s, 1000, count_events, &n);
    if (s) shoal_session_close(&s);
    return status;
}

/* ---- a pool ---- */

static char pool_address[64];

typedef struct part {
    pthread_t thread;
    bool started, worker;
    volatile int stop;
    atomic_bool ended;
} part;

static void *run_part(void *context) {
    part *p = context;
    shoal_hub_options h = {.size = sizeof h, .address = pool_address, .stop = &p->stop};
    shoal_worker_options w = {
        .size = sizeof w, .hub = pool_address, .threads = 1, .stop = &p->stop};
    (void)!(p->worker ? shoal_worker_run(&w) : shoal_hub_run(&h));
    atomic_store(&p->ended, true);
    return NULL;
}

static void start_part(part *p) { p->started = !pthread_create(&p->thread, NULL, run_part, p); }

static void end_part(part *p) {
    p->stop = 1;
    if (p->started) pthread_join(p->thread, NULL);
}

/* A client with a hub and a worker of their own, over shared memory. */
static shoal_status pool(void) {
    part hub = {0}, worker = {.worker = true};
    snprintf(pool_address, sizeof pool_address, "shm:%s/pool", folder);
    start_part(&hub);
    shoal_status status = SHOAL_NOT_FOUND;
    shoal_session *s = NULL;
    shoal_pool_status seen = {.size = sizeof seen};
    shoal_options options = {.size = sizeof options, .hub = pool_address, .timeout_ms = 2000};
    for (int i = 0; i < 1000 && status == SHOAL_NOT_FOUND && !hub.ended; i++, usleep(2000))
        status = shoal_session_open(&options, &s);
    start_part(&worker);
    for (int i = 0; i < 1000 && status == SHOAL_OK && seen.n_slots < 2 && !worker.ended;
         i++, usleep(2000))
        status = shoal_status_of(s, &seen, NULL, 0);
    if (status == SHOAL_OK) status = multiply(s);
    if (s) shoal_session_close(&s);
    end_part(&worker);
    end_part(&hub);
    return status;
}

/* ---- all of them ---- */

typedef struct totals {
    uint64_t coped, failed;
    int64_t slowest;
} totals;

static const struct {
    const char *name;
    shoal_status (*run)(void);
} scenarios[] = {{"graph", graph_bytes_and_text},
                 {"files", files},
                 {"links", links},
                 {"session", session},
                 {"checked", checked},
                 {"recorded", recorded},
                 {"pool", pool}};

/* Runs it with the n-th allocation failing; whether it ended as it should. */
static bool run_one(const char *name, shoal_status (*run)(void), uint64_t n, totals *t) {
    int64_t held = memory_blocks(), then = base_now();
    base_fail(SHOAL_OK, "no message");
    alarm(60);
    memory_fail(n);
    shoal_status status = run();
    bool hit = memory_failed();
    memory_fail(0);
    alarm(0);
    int64_t took = base_now() - then;
    if (took > t->slowest) t->slowest = took;
    t->coped += hit && status == SHOAL_OK;
    t->failed += hit && status != SHOAL_OK;
    bool said = status == SHOAL_OK || strcmp(shoal_error_message(), "no message");
    if (took < MOST_SECONDS * BASE_SECOND && memory_blocks() <= held && said) return true;
    fprintf(stderr, "%s: allocation %llu: %s (%s), %lld blocks left, %.1f s\n", name,
            (unsigned long long)n, shoal_status_name(status), shoal_error_message(),
            (long long)(memory_blocks() - held), (double)took / BASE_SECOND);
    return false;
}

/* As many allocations as the time allows, spread over all of them. */
static bool torture(const char *name, shoal_status (*run)(void)) {
    const char *seconds = getenv("SHOAL_FAILING_SECONDS");
    int64_t until = base_now() + (seconds ? atoi(seconds) : 10) * BASE_SECOND;
    if (run() != SHOAL_OK) { /* makes what is made once */
        fprintf(stderr, "%s: %s\n", name, shoal_error_message());
        return false;
    }
    memory_fail(0);
    if (run() != SHOAL_OK) return false;
    uint64_t count = memory_count(), stride = count * 5 / 8 | 1, tried = 0;
    while (count % stride == 0 && stride > 1) stride += 2;
    totals t = {0};
    unsigned wrong = 0;
    for (uint64_t n = 1; tried < count && base_now() < until && wrong < 10; tried++) {
        wrong += !run_one(name, run, n, &t);
        n = (n + stride - 1) % count + 1;
    }
    printf("%s: %llu of %llu allocations failed once: %llu calls coped, %llu said so; the slowest "
           "took %.2f s\n",
           name, (unsigned long long)(t.coped + t.failed), (unsigned long long)count,
           (unsigned long long)t.coped, (unsigned long long)t.failed,
           (double)t.slowest / BASE_SECOND);
    return !wrong;
}

int main(int argc, char **argv) {
    if (argc < 2 || !mkdtemp(folder)) return 2;
    corpus = argv[1];
    setenv("SHOAL_LOG", "error", 1);
    bool right = true;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (argc < 3 || !strcmp(argv[2], scenarios[i].name))
            right &= torture(scenarios[i].name, scenarios[i].run);
    rmdir(folder);
    size_t reached, unlucky;
    memory_sites(&reached, &unlucky);
    printf("of %zu places that allocate, %zu have failed\n", reached, unlucky);
    return right ? 0 : 1;
}
