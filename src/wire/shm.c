/* Making links over shared memory: a Unix socket to meet at, and a handshake on it.
 *
 *   connecting side                             accepting side
 *   Hello + memory file, doorbell       ->
 *                                       <-      Hello + doorbell, Welcome
 *
 * Each is a length (4 bytes) and a packed message of at most WIRE_MAX_HELLO bytes. A Welcome with
 * an error refuses. After that nothing is sent on the socket: it shows the end of the other
 * process. */
#include "wire/shm_link.h"

#include "base/clock.h"
#include "base/log.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDSHAKE_PATIENCE (5 * BASE_SECOND)
#define TRY_AGAIN (10 * BASE_MS)

typedef struct shm_listener {
    wire_watch watch;
    wire_peer *peer;
    char *address, *path;
    int fd, lock;
} shm_listener;

char *wire_shm_path(const char *address, bool create, shoal_status *status) {
    const char *name = address + strlen("shm:");
    char folder[PATH_MAX] = "";
    *status = SHOAL_INVALID;
    if (strncmp(address, "shm:", 4) || !*name || (*name != '/' && strchr(name, '/')) ||
        *name == '.') {
        base_fail(SHOAL_INVALID, "'%s' is not an address: use shm:NAME or shm:/PATH", address);
        return NULL;
    }
    base_str path = {0};
    if (*name == '/') {
        base_str_text(&path, name);
    } else {
        *status = base_os_runtime_folder(create, folder, sizeof folder);
        if (*status != SHOAL_OK) return NULL;
        base_str_format(&path, "%s/%s", folder, name);
    }
    char *text = base_str_take(&path, NULL);
    *status = text ? SHOAL_OK : SHOAL_NO_MEMORY;
    return text;
}

/* ---- the records of the handshake ---- */

static void put_record(base_str *out, const void *bytes, size_t n) {
    uint32_t size = (uint32_t)n;
    base_str_bytes(out, &size, sizeof size);
    base_str_bytes(out, bytes, n);
}

static shoal_status put_hello(wire_peer *peer, base_str *out) {
    base_str hello = {0};
    shoal_status status = wire_peer_hello(peer, 0, 0, &hello);
    if (status == SHOAL_OK) {
        put_record(out, hello.data, hello.size);
        status = base_str_status(out);
    }
    base_str_fini(&hello);
    return status;
}

static shoal_status put_welcome(const Shoal__Welcome *welcome, base_str *out) {
    size_t n = shoal__welcome__get_packed_size(welcome);
    if (n > WIRE_MAX_HELLO) return base_fail(SHOAL_INVALID, "a Welcome of %zu bytes", n);
    uint8_t *packed = malloc(n + 1);
    if (!packed) return base_fail(SHOAL_NO_MEMORY, "no memory for a Welcome");
    shoal__welcome__pack(welcome, packed);
    put_record(out, packed, n);
    free(packed);
    return base_str_status(out);
}

/* The first record in `in`; *bytes NULL: not complete yet. */
static shoal_status first_record(const base_str *in, const uint8_t **bytes, size_t *n) {
    uint32_t size;
    *bytes = NULL;
    if (in->size < sizeof size) return SHOAL_OK;
    memcpy(&size, in->data, sizeof size);
    if (size > WIRE_MAX_HELLO)
        return base_fail(SHOAL_FORMAT, "what came is no Hello: a record of %u bytes", size);
    if (in->size - sizeof size < size) return SHOAL_OK;
    *bytes = (const uint8_t *)in->data + sizeof size;
    *n = size;
    return SHOAL_OK;
}

static void drop_record(base_str *in, size_t n) {
    size_t gone = sizeof(uint32_t) + n;
    memmove(in->data, in->data + gone, in->size - gone);
    in->size -= gone;
}

/* Of the descriptors that came, the last is the other side's doorbell; the rest has served. */
static void keep_doorbell(shm_link *own) {
    own->doorbell = own->fds[--own->fd_count];
    while (own->fd_count) close(own->fds[--own->fd_count]);
}

/* ---- both sides ---- */

/* The handshake has failed, for the reason in the thread's message. */
static void give_up(shm_link *own, shoal_status why) {
    wire_link_give_up(&own->base, own->accepting, own->address, why);
}

static void timed_out(shm_link *own) {
    give_up(own, base_fail(SHOAL_TIMEOUT, "%s has not answered in time", own->address));
}

static shoal_status map_rings(shm_link *own, int memory) {
    SHOAL_TRY(wire_ring_init(&own->out, memory, own->accepting));
    return wire_ring_init(&own->ring, memory, !own->accepting);
}

/* ---- the accepting side ---- */

static void refuse(shm_link *own, shoal_status why) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Welcome welcome = SHOAL__WELCOME__INIT;
    char message[WIRE_MAX_REASON];
    snprintf(message, sizeof message, "%s", shoal_error_message());
    error.status = why;
    error.message = message;
    welcome.error = &error;
    base_str out = {0};
    if (put_hello(own->base.peer, &out) != SHOAL_OK || put_welcome(&welcome, &out) != SHOAL_OK ||
        base_os_socket_send(own->watch.fd, out.data, out.size, NULL, 0) != SHOAL_OK)
        base_log(BASE_DEBUG, own->address, "telling of a refusal: %s", shoal_error_message());
    base_str_fini(&out);
    base_fail(why, "%s", message);
    give_up(own, why);
}

static shoal_status check_guest(shm_link *own) {
    if (!own->same_user)
        return base_fail(SHOAL_DENIED, "%s serves its own user only: connect as that user",
                         own->address);
    own->base.proof.local = true;
    SHOAL_TRY(wire_hello_check(&own->base, own->hello, own->accepting, own->address));
    if (own->fd_count != 2)
        return base_fail(SHOAL_FORMAT, "a Hello with %zu descriptors, not 2", own->fd_count);
    SHOAL_TRY(base_os_shared_check(own->fds[0], WIRE_RING_FILE));
    SHOAL_TRY(base_os_doorbell_check(own->fds[1]));
    SHOAL_TRY(map_rings(own, own->fds[0]));
    keep_doorbell(own);
    return wire_link_call(&own->base, own->address, own->hello, own->pid);
}

static shoal_status answer(shm_link *own, const Shoal__Welcome *welcome) {
    wire_peer *peer = own->base.peer;
    base_str out = {0};
    shoal_status status = put_hello(peer, &out);
    if (status == SHOAL_OK) status = put_welcome(welcome, &out);
    if (status == SHOAL_OK)
        status = base_os_socket_send(own->watch.fd, out.data, out.size, &peer->doorbell, 1);
    base_str_fini(&out);
    return status;
}

static void welcome_guest(shm_link *own) {
    shoal_status status = check_guest(own);
    Shoal__Welcome *welcome = malloc(sizeof *welcome);
    if (status == SHOAL_OK && !welcome) status = base_fail(SHOAL_NO_MEMORY, "no memory");
    if (welcome) shoal__welcome__init(welcome);
    if (status == SHOAL_OK) {
        wire_shm_look(own);
        status = wire_link_open(&own->base, own->hello, welcome, true);
    }
    if (status != SHOAL_OK) {
        refuse(own, status);
    } else if ((status = answer(own, welcome)) != SHOAL_OK) {
        char reason[WIRE_MAX_REASON];
        snprintf(reason, sizeof reason, "%s", shoal_error_message());
        wire_link_finish(&own->base, SHOAL_LOST, reason);
    }
    if (welcome) wire_unpacked_free(&welcome->base);
}

/* ---- the connecting side ---- */

static shoal_status enter(shm_link *own, const Shoal__Welcome *welcome) {
    SHOAL_TRY(wire_welcome_check(welcome, own->address));
    SHOAL_TRY(wire_hello_check(&own->base, own->hello, own->accepting, own->address));
    if (own->fd_count != 1)
        return base_fail(SHOAL_FORMAT, "%s: a Hello with %zu descriptors, not 1", own->address,
                         own->fd_count);
    SHOAL_TRY(base_os_doorbell_check(own->fds[0]));
    keep_doorbell(own);
    return wire_link_call(&own->base, own->address, own->hello, own->pid);
}

static void take_welcome(shm_link *own, const uint8_t *bytes, size_t n) {
    ProtobufCMessage *message;
    shoal_status status = wire_unpack(&shoal__welcome__descriptor, bytes, n, &message);
    Shoal__Welcome *welcome = (Shoal__Welcome *)message;
    status =
        status == SHOAL_OK ? enter(own, welcome) : base_fail_prefix(status, "%s: ", own->address);
    if (status != SHOAL_OK) {
        give_up(own, status);
    } else {
        wire_shm_look(own);
        status = wire_link_open(&own->base, own->hello, welcome, false);
        if (status != SHOAL_OK) wire_close(&own->base, status, shoal_error_message());
    }
    wire_unpacked_free(message);
}

static shoal_status introduce(shm_link *own) {
    wire_peer *peer = own->base.peer;
    SHOAL_TRY(base_os_socket_peer(own->watch.fd, &own->same_user, &own->pid));
    if (!own->same_user)
        return base_fail(SHOAL_DENIED, "the process that listens there belongs to another user");
    own->base.proof.local = true;
    int fds[2] = {-1, peer->doorbell};
    SHOAL_TRY(base_os_shared_new("shoal-link", WIRE_RING_FILE, &fds[0]));
    base_str out = {0};
    shoal_status status = map_rings(own, fds[0]);
    if (status == SHOAL_OK) status = put_hello(peer, &out);
    if (status == SHOAL_OK) status = base_os_socket_send(own->watch.fd, out.data, out.size, fds, 2);
    base_str_fini(&out);
    close(fds[0]);
    return status;
}

/* NOT_FOUND says what to do about it. */
static shoal_status explain(shm_link *own, shoal_status status) {
    if (status != SHOAL_NOT_FOUND) return base_fail_prefix(status, "%s: ", own->address);
    return wire_nobody(own->base.peer, own->address);
}

static void try_connect(shm_link *own) {
    int fd = -1;
    shoal_status status = SHOAL_OK;
    if (!own->path) own->path = wire_shm_path(own->address, false, &status);
    if (status == SHOAL_OK) status = base_os_socket_connect(own->path, &fd);
    if (status == SHOAL_BUSY && base_now() + TRY_AGAIN < own->give_up) {
        own->watch.deadline = base_now() + TRY_AGAIN;
        return;
    }
    own->watch.fd = fd;
    own->watch.deadline = own->give_up;
    own->base.peer->version++; /* there is a descriptor to poll now */
    if (status == SHOAL_OK) status = introduce(own);
    if (status != SHOAL_OK) give_up(own, explain(own, status));
}

/* ---- the socket ---- */

static void take_record(shm_link *own, const uint8_t *bytes, size_t n) {
    if (own->hello) {
        take_welcome(own, bytes, n);
        return;
    }
    ProtobufCMessage *message;
    shoal_status status = wire_unpack(&shoal__hello__descriptor, bytes, n, &message);
    own->hello = (Shoal__Hello *)message;
    if (status != SHOAL_OK)
        give_up(own, base_fail_prefix(status, "%s: ", own->address));
    else if (own->accepting)
        welcome_guest(own);
    else
        drop_record(&own->in, n);
}

static void socket_ready(wire_watch *watch) {
    shm_link *own = (shm_link *)((char *)watch - offsetof(shm_link, watch));
    if (own->base.state == WIRE_OPEN) {
        wire_shm_hung_up(own);
        return;
    }
    char bytes[4096];
    size_t n;
    shoal_status status =
        base_os_socket_receive(watch->fd, bytes, sizeof bytes, &n, own->fds, &own->fd_count);
    if (status == SHOAL_OK) {
        base_str_bytes(&own->in, bytes, n);
        status = base_str_status(&own->in);
    }
    while (status == SHOAL_OK && own->base.state == WIRE_OPENING) {
        const uint8_t *record;
        status = first_record(&own->in, &record, &n);
        if (status != SHOAL_OK || !record) break;
        take_record(own, record, n);
    }
    if (status != SHOAL_OK && own->base.state == WIRE_OPENING)
        give_up(own, base_fail_prefix(status, "%s: ", own->address));
}

static void socket_expired(wire_watch *watch) {
    shm_link *own = (shm_link *)((char *)watch - offsetof(shm_link, watch));
    if (own->base.state == WIRE_OPEN) {
        wire_shm_look(own);
        return;
    }
    if (watch->fd < 0 && base_now() < own->give_up)
        try_connect(own);
    else
        timed_out(own);
}

/* A link at its beginning; NULL with a message. */
static shm_link *new_link(wire_peer *peer, const char *address, uint64_t attempt, int fd,
                          int64_t deadline) {
    shm_link *own = calloc(1, sizeof *own);
    if (!own) {
        base_fail(SHOAL_NO_MEMORY, "no memory for a link");
        return NULL;
    }
    own->doorbell = -1;
    own->give_up = deadline;
    own->watch = (wire_watch){
        .fd = fd, .deadline = deadline, .ready = socket_ready, .expired = socket_expired};
    own->address = strdup(address);
    if (!own->address || wire_link_add(&own->base, peer, &wire_shm, attempt) != SHOAL_OK) {
        free(own->address);
        free(own);
        base_fail(SHOAL_NO_MEMORY, "no memory for a link");
        return NULL;
    }
    if (wire_watch_add(peer, &own->watch) != SHOAL_OK) {
        own->watch.fd = -1; /* the caller's */
        wire_link_finish(&own->base, SHOAL_NO_MEMORY, "");
        return NULL;
    }
    return own;
}

static void connect_shm(wire_peer *peer, const char *address, uint64_t attempt, int64_t deadline) {
    shm_link *own = new_link(peer, address, attempt, -1, deadline);
    if (own)
        try_connect(own);
    else
        wire_peer_connect_failed(peer, attempt, SHOAL_NO_MEMORY);
}

/* ---- listening ---- */

static void accept_one(shm_listener *listener, int fd) {
    shm_link *own =
        new_link(listener->peer, listener->address, 0, fd, base_now() + HANDSHAKE_PATIENCE);
    if (!own) {
        close(fd);
        return;
    }
    own->accepting = true;
    shoal_status status = base_os_socket_peer(fd, &own->same_user, &own->pid);
    if (status != SHOAL_OK) give_up(own, status);
}

/* Without descriptors left, polling on would only turn in circles. */
static void listener_ready(wire_watch *watch) {
    shm_listener *listener = (shm_listener *)watch;
    int fd = -1;
    do {
        if (base_os_socket_accept(listener->fd, &fd) != SHOAL_OK) {
            base_log(BASE_WARN, listener->address, "%s", shoal_error_message());
            watch->quiet = true;
            watch->deadline = base_now() + 100 * BASE_MS;
        } else if (fd >= 0) {
            accept_one(listener, fd);
        }
    } while (fd >= 0);
}

static void listener_expired(wire_watch *watch) { watch->quiet = false; }

static void free_listener(shm_listener *listener) {
    if (listener->fd >= 0) base_os_socket_unlisten(listener->path, listener->fd, listener->lock);
    free(listener->path);
    free(listener->address);
    free(listener);
}

static shoal_status start_listening(shm_listener *listener, const char *address) {
    wire_peer *peer = listener->peer;
    shoal_status status;
    listener->path = wire_shm_path(address, true, &status);
    if (!listener->path) return status;
    listener->address = strdup(address);
    char *copy = strdup(address);
    status = listener->address && copy && base_vec_reserve(&peer->listeners)
                 ? base_os_socket_listen(listener->path, &listener->fd, &listener->lock)
                 : base_fail(SHOAL_NO_MEMORY, "no memory to listen at %s", address);
    if (status == SHOAL_OK) {
        listener->watch.fd = listener->fd;
        status = wire_watch_add(peer, &listener->watch);
    }
    if (status != SHOAL_OK) {
        free(copy);
        return base_fail_prefix(status, "%s: ", address);
    }
    peer->listeners.data[peer->listeners.count++] = (wire_listener){&wire_shm, listener, copy};
    return SHOAL_OK;
}

static shoal_status listen_shm(wire_peer *peer, const char *address) {
    shm_listener *listener = calloc(1, sizeof *listener);
    if (!listener) return base_fail(SHOAL_NO_MEMORY, "no memory to listen at %s", address);
    listener->peer = peer;
    listener->fd = -1;
    listener->watch = (wire_watch){.ready = listener_ready, .expired = listener_expired};
    shoal_status status = start_listening(listener, address);
    if (status != SHOAL_OK) free_listener(listener);
    return status;
}

static void unlisten_shm(wire_peer *peer, void *state) {
    shm_listener *listener = state;
    wire_watch_remove(peer, &listener->watch);
    free_listener(listener);
}

const wire_transport wire_shm = {
    .scheme = "shm",
    .listen = listen_shm,
    .connect = connect_shm,
    .send = wire_shm_send,
    .send_data = wire_shm_send_data,
    .progress = wire_shm_progress,
    .pending = wire_shm_pending,
    .sleep = wire_shm_sleep,
    .shut = wire_shm_shut,
    .unlisten = unlisten_shm,
};
