/* The sockets of encrypted links: options, monitors, watches.
 *
 * The pump sees a socket as a descriptor that becomes readable once when something happens, so it
 * also asks the socket itself (`pending`) before it sleeps. */
#include "wire/zmq_link.h"

#include "base/os.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_PER_TURN = 256, BYTES_PER_TURN = 4 << 20 };

#define END_OF(watch_, field) ((zmq_end *)((char *)(watch_)-offsetof(zmq_end, field)))

shoal_status wire_zmq_fail(const char *what) {
    int error = zmq_errno();
    shoal_status status = error == EADDRINUSE ? SHOAL_BUSY
                          : error == ENOMEM   ? SHOAL_NO_MEMORY
                          : error == EINVAL   ? SHOAL_INVALID
                                              : SHOAL_IO;
    return base_fail(status, "%s: %s", what, zmq_strerror(error));
}

static bool readable(wire_peer *peer, void *socket) {
    int events = 0;
    size_t size = sizeof events;
    wire_zmq_enter(peer->zmq);
    bool asked = !zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size);
    wire_zmq_leave(peer->zmq);
    return asked && events & ZMQ_POLLIN;
}

static bool receive(const zmq_end *end, zmq_msg_t *part) {
    wire_zmq_enter(end->peer->zmq);
    bool got = zmq_msg_recv(part, end->socket, ZMQ_DONTWAIT) >= 0;
    wire_zmq_leave(end->peer->zmq);
    return got;
}

static void no_deadline(wire_watch *watch) {}

/* ---- the context ---- */

static int descriptor_of(void *socket) {
    int fd = -1;
    size_t size = sizeof fd;
    return zmq_getsockopt(socket, ZMQ_FD, &fd, &size) ? -1 : fd;
}

shoal_status wire_zmq_start(wire_peer *peer) {
    if (peer->zmq) return SHOAL_OK;
    /* Of a MiB that goes encrypted, ØMQ takes three blocks at each end. */
    base_os_memory_keep();
    wire_zmq *zmq = calloc(1, sizeof *zmq);
    if (!zmq) return base_fail(SHOAL_NO_MEMORY, "no memory for encrypted links");
    shoal_status status = wire_zmq_beats_start(zmq);
    peer->zmq = zmq;
    if (status == SHOAL_OK) status = wire_keys_own(&zmq->own);
    if (status == SHOAL_OK && !(zmq->context = zmq_ctx_new()))
        status = wire_zmq_fail("starting ØMQ");
    if (status == SHOAL_OK) status = wire_zmq_door_open(peer);
    if (status != SHOAL_OK) wire_zmq_end(peer);
    return status;
}

void wire_zmq_end(wire_peer *peer) {
    wire_zmq *zmq = peer->zmq;
    if (!zmq) return;
    while (zmq->ended) {
        zmq_listener *listener = zmq->ended;
        zmq->ended = listener->next;
        wire_zmq_free_listener(listener);
    }
    wire_zmq_beats_end(zmq);
    wire_zmq_door_close(zmq);
    if (zmq->context)
        while (zmq_ctx_term(zmq->context) && zmq_errno() == EINTR) continue;
    sodium_memzero(&zmq->own, sizeof zmq->own);
    free(zmq);
    peer->zmq = NULL;
}

/* ---- sockets ---- */

/* One message; false when there is none. */
static bool take_message(zmq_end *end, size_t *taken) {
    zmq_msg_t id, body;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    bool got = !end->router || receive(end, &id);
    if (got && (!end->router || zmq_msg_more(&id))) got = receive(end, &body);
    if (got) {
        int more = zmq_msg_more(&body);
        while (more) { /* ours have one part: the rest is nobody's */
            zmq_msg_t rest;
            zmq_msg_init(&rest);
            more = receive(end, &rest) && zmq_msg_more(&rest);
            zmq_msg_close(&rest);
        }
        *taken += zmq_msg_size(&body);
        end->message(end, end->router ? &id : NULL, &body);
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return got;
}

/* The end may be closed by what comes. */
static void end_ready(wire_watch *watch) {
    zmq_end *end = END_OF(watch, watch);
    size_t taken = 0;
    for (int i = 0; i < FRAMES_PER_TURN && taken < BYTES_PER_TURN && end->socket; i++)
        if (!take_message(end, &taken)) break;
}

void wire_zmq_drain(zmq_end *end) {
    size_t taken = 0;
    if (end->draining) return;
    end->draining = true;
    while (end->socket && take_message(end, &taken)) continue;
    end->draining = false;
}

static bool end_pending(wire_watch *watch) {
    const zmq_end *end = END_OF(watch, watch);
    return readable(end->peer, end->socket);
}

static bool monitor_pending(wire_watch *watch) {
    const zmq_end *end = END_OF(watch, monitor_watch);
    return readable(end->peer, end->monitor);
}

static void monitor_ready(wire_watch *watch) { wire_zmq_events(END_OF(watch, monitor_watch)); }

void wire_zmq_events(zmq_end *end) {
    while (end->monitor) {
        uint8_t bytes[6];
        char rest[256];
        int n = zmq_recv(end->monitor, bytes, sizeof bytes, ZMQ_DONTWAIT);
        if (n < 0) return;
        (void)!zmq_recv(end->monitor, rest, sizeof rest, ZMQ_DONTWAIT); /* the address */
        if (n != sizeof bytes) continue;
        uint16_t event;
        uint32_t value;
        memcpy(&event, bytes, sizeof event);
        memcpy(&value, bytes + 2, sizeof value);
        if (end->router && (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                            event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL))
            wire_zmq_refused(end->peer);
        end->event(end, event, value);
    }
}

static bool set_int(void *socket, int option, int value) {
    return !zmq_setsockopt(socket, option, &value, sizeof value);
}

/* Everything before bind or connect. */
static bool set_options(zmq_end *end, const uint8_t *server_key, const wire_key_pair *own) {
    void *s = end->socket;
    int64_t most = WIRE_ZMQ_MESSAGE;
    bool right = set_int(s, ZMQ_LINGER, 0) && set_int(s, ZMQ_SNDHWM, 0) &&
                 set_int(s, ZMQ_RCVHWM, WIRE_ZMQ_FRAMES) && set_int(s, ZMQ_RECONNECT_IVL, -1) &&
                 set_int(s, ZMQ_HANDSHAKE_IVL, WIRE_ZMQ_HANDSHAKE_MS) &&

                 !zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &most, sizeof most) &&
                 !zmq_setsockopt(s, ZMQ_ZAP_DOMAIN, "shoal", 5) &&
                 !zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, own->secret, WIRE_KEY);
    if (!right) return false;
    if (!server_key) return set_int(s, ZMQ_CURVE_SERVER, 1) && set_int(s, ZMQ_ROUTER_MANDATORY, 1);
    return !zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, own->public, WIRE_KEY) &&
           !zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, server_key, WIRE_KEY);
}

/* Failures of a handshake show nowhere else, so it listens before anything is connected. */
static bool open_monitor(zmq_end *end) {
    char name[64];
    snprintf(name, sizeof name, "inproc://monitor-%llu",
             (unsigned long long)end->peer->zmq->monitors++);
    int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                 ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (zmq_socket_monitor(end->socket, name, events)) return false;
    end->monitor = zmq_socket(end->peer->zmq->context, ZMQ_PAIR);
    return end->monitor && set_int(end->monitor, ZMQ_LINGER, 0) &&
           set_int(end->monitor, ZMQ_RCVHWM, 0) && !zmq_connect(end->monitor, name);
}

shoal_status wire_zmq_open(zmq_end *end, wire_peer *peer, const uint8_t *server_key,
                           const wire_key_pair *own) {
    end->peer = peer;
    end->router = !server_key;
    end->socket = zmq_socket(peer->zmq->context, server_key ? ZMQ_DEALER : ZMQ_ROUTER);
    shoal_status status = SHOAL_OK;
    if (!end->socket || !set_options(end, server_key, own) || !open_monitor(end))
        status = wire_zmq_fail("making a socket");
    end->watch = (wire_watch){.fd = end->socket ? descriptor_of(end->socket) : -1,
                              .ready = end_ready,
                              .pending = end_pending,
                              .expired = no_deadline};
    end->monitor_watch = (wire_watch){.fd = end->monitor ? descriptor_of(end->monitor) : -1,
                                      .ready = monitor_ready,
                                      .pending = monitor_pending,
                                      .expired = no_deadline};
    /* The monitor first: who is gone must be known before who comes. */
    if (status == SHOAL_OK) status = wire_watch_add(peer, &end->monitor_watch);
    if (status == SHOAL_OK) status = wire_watch_add(peer, &end->watch);
    if (status != SHOAL_OK) wire_zmq_close(end, 0);
    return status;
}

void wire_zmq_close(zmq_end *end, int linger_ms) {
    if (!end->socket) return;
    wire_watch_remove(end->peer, &end->watch);
    wire_watch_remove(end->peer, &end->monitor_watch);
    wire_zmq_enter(end->peer->zmq);
    zmq_socket_monitor(end->socket, NULL, 0);
    if (end->monitor) zmq_close(end->monitor);
    set_int(end->socket, ZMQ_LINGER, linger_ms);
    zmq_close(end->socket);
    end->socket = end->monitor = NULL;
    wire_zmq_leave(end->peer->zmq);
}
