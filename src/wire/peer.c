/* A peer: its making and end, listening and connecting. What runs it is pump.c. */
#include "wire/zmq_link.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/os_cpu.h"
#include "wire/keys.h"
#include "wire/seal.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOINED_ROOM = 512 };

#define END_PATIENCE BASE_SECOND
/* For an address when there are others to try. */
#define ONE_PATIENCE (2 * BASE_SECOND)
#define BUSY_PATIENCE BASE_SECOND
#define BUSY_AGAIN (30 * BASE_MS)

static const wire_transport *const transports[] = {&wire_inproc, &wire_shm, &wire_zmq_transport,
                                                   &wire_relay};

/* SHOAL_TRANSPORT=zmq: encrypted links also between processes of one machine. */
static bool always_encrypted(void) {
    const char *transport = getenv("SHOAL_TRANSPORT");
    return transport && !strcmp(transport, "zmq");
}

static const wire_transport *find_transport(const char *address) {
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        size_t n = strlen(transports[i]->scheme);
        if (!strncmp(address, transports[i]->scheme, n) && (!address[n] || address[n] == ':'))
            return transports[i] == &wire_shm && always_encrypted() ? &wire_zmq_transport
                                                                    : transports[i];
    }
    base_fail(SHOAL_INVALID,
              "'%s' is not an address: use inproc, shm:NAME, shm:/PATH or "
              "tcp://HOST:PORT",
              address);
    return NULL;
}

/* A deep copy: protobuf-c has none but by way of the wire. */
static shoal_status copy_hello(const wire_peer *peer, const Shoal__Hello *hello,
                               Shoal__Hello **out) {
    Shoal__Hello own = *hello;
    char host[256];
    wire_hello_fill(peer, &own);
    if (!own.pid) own.pid = (uint32_t)getpid();
    if (!own.memory) own.memory = base_cpu_memory();
    if (!own.machine) own.machine = base_cpu_machine();
    if (!own.cores) own.cores = base_cpu_count();
    if (!own.online) own.online = base_cpu_online();
    if (!(own.sealing > 0)) own.sealing = wire_sealing_speed();
    if (!*own.version) own.version = (char *)SHOAL_PACKAGE_VERSION;
    if (!*own.host) {
        if (gethostname(host, sizeof host)) memcpy(host, "?", 2);
        host[sizeof host - 1] = 0;
        own.host = host;
    }
    if (!own.incarnation) SHOAL_TRY(base_os_random(&own.incarnation, sizeof own.incarnation));
    size_t bytes = shoal__hello__get_packed_size(&own);
    if (bytes > WIRE_MAX_HELLO)
        return base_fail(SHOAL_INVALID, "a Hello of %zu bytes, at most %d are allowed", bytes,
                         (int)WIRE_MAX_HELLO);
    uint8_t *packed = malloc(bytes ? bytes : 1);
    if (packed) shoal__hello__pack(&own, packed);
    *out = packed ? shoal__hello__unpack(NULL, bytes, packed) : NULL;
    free(packed);
    return *out ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a Hello");
}

static shoal_status init_locks(wire_peer *peer) {
    base_condition_init(&peer->turn);
    bool failed = pthread_mutex_init(&peer->pump, NULL) || pthread_mutex_init(&peer->known, NULL) ||
                  pthread_mutex_init(&peer->queue_lock, NULL) ||
                  pthread_cond_init(&peer->idle, NULL) || pthread_cond_init(&peer->yielded, NULL);
    return failed ? base_fail(SHOAL_NO_MEMORY, "no memory for the locks of a peer") : SHOAL_OK;
}

static void free_peer(wire_peer *peer) {
    wire_zmq_end(peer);
    if (peer->hello) wire_unpacked_free(&peer->hello->base);
    if (peer->doorbell >= 0) close(peer->doorbell);
    for (int i = 0; i < 2; i++) {
        free(peer->sets[i].fds);
        free(peer->sets[i].watches);
    }
    while (peer->attempts.count) free(peer->attempts.data[--peer->attempts.count]);
    free(peer->attempts.data);
    free(peer->members);
    sodium_memzero(&peer->pair, sizeof peer->pair);
    free(peer->links.data);
    free(peer->watches.data);
    free(peer->listeners.data);
    free(peer->scratch);
    free(peer);
}

shoal_status wire_peer_new(const Shoal__Hello *hello, wire_peer **out) {
    *out = NULL;
    wire_peer *peer = calloc(1, sizeof *peer);
    if (!peer) return base_fail(SHOAL_NO_MEMORY, "no memory for a peer");
    peer->doorbell = -1;
    shoal_status status = wire_key_pair_new(&peer->pair);
    if (status == SHOAL_OK) status = copy_hello(peer, hello, &peer->hello);
    if (status == SHOAL_OK) status = base_os_doorbell_new(&peer->doorbell);
    if (status == SHOAL_OK && !(peer->scratch = malloc(WIRE_CHUNK)))
        status = base_fail(SHOAL_NO_MEMORY, "no memory for a peer");
    if (status == SHOAL_OK) status = init_locks(peer);
    if (status != SHOAL_OK) {
        free_peer(peer);
        return status;
    }
    *out = peer;
    return SHOAL_OK;
}

void wire_set_number(wire_peer *peer, uint32_t number, uint64_t pool) {
    peer->hello->peer = number;
    peer->hello->pool = pool;
}

uint64_t wire_incarnation(const wire_peer *peer) { return peer->hello->incarnation; }

/* Lets what has been sent go out, but not for ever. */
static void end_links(wire_peer *peer) {
    int64_t until = base_now() + END_PATIENCE;
    base_str reason = {0};
    base_str_format(&reason, "%s has ended", peer->hello->name);
    for (size_t i = 0; i < peer->links.count; i++) {
        wire_link *link = peer->links.data[i];
        if (link->state == WIRE_OPEN)
            wire_close(link, SHOAL_CLOSED, reason.data);
        else
            wire_link_end(link, SHOAL_CLOSED, "");
    }
    base_str_fini(&reason);
    while ((peer->links.count || peer->first) && base_now() < until)
        wire_pump_once(peer, &peer->sets[1], until);
    for (size_t i = 0; i < peer->links.count; i++)
        wire_link_end(peer->links.data[i], SHOAL_CLOSED, "");
    while (peer->links.count || peer->first) wire_pump_once(peer, &peer->sets[1], 0);
}

void wire_peer_destroy(wire_peer **out) {
    wire_peer *peer = *out;
    if (!peer) return;
    /* Who ends because something failed still has to tell why. */
    char message[1024];
    snprintf(message, sizeof message, "%s", shoal_error_message());
    wire_pump_take(peer);
    peer->muted = peer->stopping = true;
    pthread_cond_signal(&peer->idle);
    wire_pump_leave(peer);
    base_os_doorbell_ring(peer->doorbell);
    if (peer->started) pthread_join(peer->thread, NULL);
    *out = NULL; /* not before: a handler that is under way may still look there */
    pthread_mutex_lock(&peer->pump);
    for (size_t i = 0; i < peer->listeners.count; i++) {
        wire_listener *listener = &peer->listeners.data[i];
        listener->transport->unlisten(peer, listener->state);
        free(listener->address);
    }
    peer->listeners.count = 0;
    if (peer->zmq) wire_zmq_door_stop(peer->zmq);
    end_links(peer);
    pthread_mutex_unlock(&peer->pump);
    pthread_mutex_destroy(&peer->pump);
    pthread_mutex_destroy(&peer->queue_lock);
    pthread_mutex_destroy(&peer->known);
    pthread_cond_destroy(&peer->turn);
    pthread_cond_destroy(&peer->idle);
    pthread_cond_destroy(&peer->yielded);
    free_peer(peer);
    (void)base_fail(SHOAL_CLOSED, "%s", message);
}

void wire_handle(wire_peer *peer, wire_part part, const wire_handlers *handlers) {
    peer->handlers[part] = *handlers;
    peer->handled[part] = true;
}

bool wire_on_loopback(const char *address) {
    static const char *const starts[] = {"tcp://127.", "tcp://localhost:", "tcp://[::1]:"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(address, starts[i], strlen(starts[i]))) return true;
    return strncmp(address, "tcp:", 4) != 0;
}

shoal_status wire_listen(wire_peer *peer, const char *address) {
    if (!wire_on_loopback(address))
        return base_fail(SHOAL_DENIED, "%s is open to a network: that takes `--listen HOST:PORT`",
                         address);
    return wire_listen_wide(peer, address);
}

shoal_status wire_listen_wide(wire_peer *peer, const char *address) {
    const wire_transport *transport = find_transport(address);
    if (!transport) return SHOAL_INVALID;
    wire_pump_take(peer);
    shoal_status status = transport->listen(peer, address);
    wire_pump_leave(peer);
    return status;
}

const char *wire_address(const wire_peer *peer) {
    return peer->listeners.count ? peer->listeners.data[0].address : "";
}

/* Signals are the host's affair: the thread takes none. */
shoal_status wire_start(wire_peer *peer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&peer->thread, NULL, wire_pump_thread, peer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return base_fail_errno(error, "starting the I/O thread");
    peer->started = true;
    return SHOAL_OK;
}

/* An attempt to connect: to one address of a list after the other. */
typedef struct wire_attempt {
    wire_post_item post;
    wire_watch again; /* the same address, a moment later */
    wire_peer *peer;
    uint64_t number; /* of this attempt: several may have the same cookie */
    uint64_t cookie;
    int64_t since; /* when it was asked for */
    int64_t deadline;
    int64_t busy_until; /* how long BUSY means: try again */
    char *address;      /* the one that is tried */
    char *next;         /* those not tried yet; NULL: none */
    char addresses[];
} wire_attempt;

static wire_attempt *find_attempt(const wire_peer *peer, uint64_t number) {
    for (size_t i = 0; i < peer->attempts.count; i++)
        if (peer->attempts.data[i]->number == number) return peer->attempts.data[i];
    return NULL;
}

void wire_peer_end_attempt(wire_peer *peer, uint64_t number) {
    for (size_t i = 0; i < peer->attempts.count; i++) {
        if (peer->attempts.data[i]->number != number) continue;
        wire_watch_remove(peer, &peer->attempts.data[i]->again);
        free(peer->attempts.data[i]);
        peer->attempts.data[i] = peer->attempts.data[--peer->attempts.count];
        return;
    }
}

static void dial(wire_attempt *attempt) {
    wire_peer *peer = attempt->peer;
    if (peer->muted) {
        wire_peer_end_attempt(peer, attempt->number);
        return;
    }
    const wire_transport *transport = find_transport(attempt->address);
    int64_t deadline = base_now() + ONE_PATIENCE;
    if (!attempt->next || deadline > attempt->deadline) deadline = attempt->deadline;
    if (transport)
        transport->connect(peer, attempt->address, attempt->number, deadline);
    else
        wire_peer_connect_failed(peer, attempt->number, SHOAL_INVALID);
}

/* Whether the member has made a link meanwhile. Of one that there was before, who asked for another
 * knows, and cannot use it any more. */
static bool has_called(const wire_attempt *attempt) {
    const wire_peer *peer = attempt->peer;
    for (size_t i = 0; i < peer->links.count; i++) {
        const wire_link *link = peer->links.data[i];
        if (link->state == WIRE_OPEN && attempt->cookie && link->proof.number == attempt->cookie &&
            link->since >= attempt->since)
            return true;
    }
    return false;
}

static void run_attempt(void *context) {
    wire_attempt *attempt = context;
    if (has_called(attempt)) {
        wire_peer_end_attempt(attempt->peer, attempt->number);
        return;
    }
    attempt->address = attempt->next;
    char *comma = strchr(attempt->address, ',');
    if (comma) *comma = 0;
    attempt->next = comma ? comma + 1 : NULL;
    attempt->busy_until = base_now() + BUSY_PATIENCE;
    dial(attempt);
}

static void no_news(wire_watch *watch) {}

static void dial_again(wire_watch *watch) {
    wire_attempt *attempt = watch->context;
    wire_watch_remove(attempt->peer, watch);
    if (attempt->address)
        dial(attempt);
    else
        run_attempt(attempt);
}

static void tell_failed(wire_peer *peer, uint64_t cookie, shoal_status why, const char *message) {
    for (int part = 0; part < WIRE_PARTS && !peer->muted; part++) {
        const wire_handlers *handlers = &peer->handlers[part];
        if (handlers->connect_failed)
            handlers->connect_failed(handlers->context, cookie, why, message);
    }
}

static void begin_attempt(void *context) {
    wire_attempt *attempt = context;
    attempt->number = ++attempt->peer->attempted;
    bool listed = base_vec_push(&attempt->peer->attempts, attempt);
    if (listed && attempt->again.deadline &&
        wire_watch_add(attempt->peer, &attempt->again) == SHOAL_OK)
        return;
    attempt->again.deadline = 0;
    if (listed) {
        run_attempt(attempt);
        return;
    }
    tell_failed(attempt->peer, attempt->cookie, SHOAL_NO_MEMORY, "no memory to connect");
    free(attempt);
}

shoal_status wire_connect(wire_peer *peer, const char *address, uint64_t cookie,
                          uint32_t deadline_ms) {
    return wire_connect_in(peer, address, cookie, 0, deadline_ms);
}

shoal_status wire_connect_in(wire_peer *peer, const char *address, uint64_t cookie, uint32_t in_ms,
                             uint32_t deadline_ms) {
    if (!strchr(address, ',') && !find_transport(address)) return SHOAL_INVALID;
    size_t bytes = strlen(address) + 1;
    wire_attempt *attempt = malloc(sizeof *attempt + bytes);
    if (!attempt) return base_fail(SHOAL_NO_MEMORY, "no memory to connect to %s", address);
    *attempt = (wire_attempt){.post = {.call = begin_attempt, .context = attempt},
                              .again = {.fd = -1,
                                        .deadline = in_ms ? base_now() + in_ms * BASE_MS : 0,
                                        .ready = no_news,
                                        .expired = dial_again,
                                        .context = attempt},
                              .peer = peer,
                              .cookie = cookie,
                              .since = base_now(),
                              .deadline = base_now() + (in_ms + deadline_ms) * BASE_MS,
                              .next = attempt->addresses};
    memcpy(attempt->addresses, address, bytes);
    wire_peer_post(peer, &attempt->post);
    return SHOAL_OK;
}

uint64_t wire_peer_connected(wire_peer *peer, uint64_t number) {
    wire_attempt *attempt = find_attempt(peer, number);
    if (!attempt) return 0;
    attempt->next = NULL;
    attempt->busy_until = 0;
    return attempt->cookie;
}

/* Another member takes our links once the hub has told it of us, which may be a moment later. */
static bool try_again(wire_attempt *attempt, shoal_status why) {
    int64_t now = base_now();
    if (why != SHOAL_BUSY || !attempt->peer->hello->peer || now >= attempt->busy_until ||
        now >= attempt->deadline || attempt->again.deadline)
        return false;
    attempt->again.deadline = now + BUSY_AGAIN;
    if (wire_watch_add(attempt->peer, &attempt->again) == SHOAL_OK) return true;
    attempt->again.deadline = 0;
    return false;
}

void wire_peer_connect_failed(wire_peer *peer, uint64_t number, shoal_status why) {
    char message[WIRE_MAX_REASON];
    snprintf(message, sizeof message, "%s", shoal_error_message());
    wire_attempt *attempt = find_attempt(peer, number);
    if (!attempt || try_again(attempt, why)) return;
    if (attempt->next && base_now() < attempt->deadline) {
        base_log(BASE_INFO, "wire", "%s; tries %.*s", message, (int)strcspn(attempt->next, ",/"),
                 attempt->next);
        attempt->post.call = run_attempt;
        wire_peer_post(peer, &attempt->post);
        return;
    }
    uint64_t cookie = attempt->cookie;
    wire_peer_end_attempt(peer, number);
    tell_failed(peer, cookie, why, message);
}

/* The last of the hubs that this user has joined. */
static void take_hub(void *context, const char *addresses, const uint8_t *key) {
    (void)key;
    snprintf(context, JOINED_ROOM, "%s", addresses);
}

shoal_status wire_nobody(const wire_peer *peer, const char *address) {
    char joined[JOINED_ROOM] = "";
    if (peer->hello->peer) /* a member, that looks for another */
        return base_fail(SHOAL_NOT_FOUND,
                         "nobody answers at %s: the process has ended, or a firewall is before it",
                         address);
    if (!strncmp(address, "shm:", 4) && wire_keys_each_hub(take_hub, joined) == SHOAL_OK && *joined)
        return base_fail(SHOAL_NOT_FOUND,
                         "no hub answers at %s; for the one that this user has joined set "
                         "SHOAL_HUB=%s, or start one here with `shoal hub`",
                         address, joined);
    return base_fail(SHOAL_NOT_FOUND,
                     "no hub answers at %s: start one with `shoal hub`, or check the address",
                     address);
}

char *wire_addresses(const wire_peer *peer) {
    base_str text = {0};
    for (size_t i = 0; i < peer->listeners.count; i++) {
        const char *address = peer->listeners.data[i].address;
        bool tcp = !strncmp(address, "tcp://", 6);
        size_t n = tcp ? 6 + strcspn(address + 6, "/") : strlen(address);
        if (i) base_str_text(&text, ",");
        base_str_bytes(&text, address, n);
    }
    return base_str_take(&text, NULL);
}

/* At each of a list of "HOST", "HOST:PORT" or "tcp://HOST:PORT"; own: at ports that are free. */
static shoal_status listen_at(wire_peer *peer, const char *list, bool own) {
    for (const char *at = list; *at;) {
        int n = (int)strcspn(at, ","), scheme = strncmp(at, "tcp://", 6) ? 0 : 6;
        const char *host = at + scheme;
        int length = n - scheme;
        const char *bracket = *host == '[' ? memchr(host, ']', (size_t)length) : NULL;
        const char *after = bracket ? bracket : host;
        const char *colon = memchr(after, ':', (size_t)(at + n - after));
        char address[512];
        if (length <= 0 || length > 400)
            return base_fail(SHOAL_INVALID, "'%s': must be HOST or HOST:PORT, and more with commas",
                             list);
        if (own && colon) length = (int)(colon - host);
        snprintf(address, sizeof address, "tcp://%.*s%s", length, host, own || !colon ? ":*" : "");
        SHOAL_TRY(wire_listen_wide(peer, address));
        at += n + (at[n] == ',');
    }
    return SHOAL_OK;
}

shoal_status wire_listen_for(wire_peer *peer, const char *hub, const char *listen) {
    const char *tcp = strstr(hub, "tcp://");
    char address[1024];
    if (listen) return listen_at(peer, listen, false);
    if (tcp) return wire_on_loopback(tcp) ? wire_listen(peer, "tcp://127.0.0.1:*") : SHOAL_OK;
    /* A hub of this user on this machine, which lets others in: so do we, where it does. */
    wire_keys_listening(address, sizeof address);
    size_t n = strlen(hub);
    bool this = !strncmp(address, hub, n) && address[n] == ',';
    tcp = this ? strstr(address, "tcp://") : NULL;
    return tcp ? listen_at(peer, tcp, true) : SHOAL_OK;
}

shoal_status wire_peer_hello(wire_peer *peer, uint64_t joins, uint32_t path, base_str *out) {
    Shoal__Hello hello = *peer->hello;
    hello.joins = joins;
    hello.path = path;
    char **addresses = calloc(peer->listeners.count + 1, sizeof *addresses);
    char *list = wire_addresses(peer), *rest = NULL;
    if (!addresses || !list) {
        free(addresses);
        free(list);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a Hello");
    }
    for (char *at = strtok_r(list, ",", &rest); at; at = strtok_r(NULL, ",", &rest))
        addresses[hello.n_addresses++] = at;
    hello.addresses = addresses;
    ProtobufCBufferSimple buffer = PROTOBUF_C_BUFFER_SIMPLE_INIT((uint8_t[512]){0});
    shoal__hello__pack_to_buffer(&hello, &buffer.base);
    base_str_bytes(out, buffer.data, buffer.len);
    PROTOBUF_C_BUFFER_SIMPLE_CLEAR(&buffer);
    free(addresses);
    free(list);
    return base_str_status(out);
}

typedef struct call_job {
    wire_post_item post;
    void (*call)(void *context);
    void *context;
} call_job;

static void run_call(void *context) {
    call_job job = *(call_job *)context;
    free(context);
    job.call(job.context);
}

shoal_status wire_post(wire_peer *peer, void (*call)(void *context), void *context) {
    call_job *job = malloc(sizeof *job);
    if (!job) return base_fail(SHOAL_NO_MEMORY, "no memory for a posted call");
    *job = (call_job){.post = {.call = run_call, .context = job}, .call = call, .context = context};
    wire_peer_post(peer, &job->post);
    return SHOAL_OK;
}

void wire_tick(wire_peer *peer, wire_part part, uint32_t period_ms, void (*call)(void *context)) {
    int64_t period = (period_ms ? period_ms : 1) * BASE_MS;
    pthread_mutex_lock(&peer->queue_lock);
    peer->tickers[part] = (wire_ticker){call, period, base_now() + period};
    pthread_mutex_unlock(&peer->queue_lock);
    wire_peer_wake(peer);
}
