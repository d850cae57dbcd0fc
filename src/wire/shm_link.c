/* Running a link over shared memory: frames in two rings, the socket only tells the end. */
#include "wire/shm_link.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_EVERY (300 * BASE_MS)
enum { LOOKS = 5 }; /* 1.2 to 1.5 s */
enum { FRAMES_PER_TURN = 1024, BYTES_PER_TURN = 4 << 20 };

static void *reserve(wire_link *link, size_t bytes) {
    return wire_ring_reserve(&((shm_link *)link)->out, bytes);
}

static void commit(wire_link *link, size_t bytes) {
    shm_link *own = (shm_link *)link;
    if (wire_ring_commit(&own->out, bytes)) base_os_doorbell_ring(own->doorbell);
}

static const wire_writer writer = {reserve, commit};

shoal_status wire_shm_send(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                           size_t bytes, wire_account *account) {
    return wire_outbox_send(link, &writer, kind, message, bytes, account);
}

shoal_status wire_shm_send_data(wire_link *link, const wire_transfer *transfer,
                                const wire_source *source) {
    return wire_outbox_send_data(link, &writer, transfer, source);
}

/* Takes one frame; 0: there is none, or no more can be read. Else its bytes. */
static size_t take_frame(shm_link *own) {
    size_t available;
    const uint8_t *at = wire_ring_peek(&own->ring, &available);
    if (!available) return 0;
    wire_frame frame = {0};
    if (available >= sizeof frame) memcpy(&frame, at, sizeof frame);
    size_t bytes = wire_frame_bytes(frame.bytes);
    if (frame.bytes > WIRE_CHUNK || bytes > available) {
        own->ring.broken = true;
        return 0;
    }
    wire_link_deliver(&own->base, &frame, at + sizeof frame);
    if (own->base.state != WIRE_OPEN) return 0; /* the ring is gone, too */
    if (wire_ring_consume(&own->ring, bytes)) base_os_doorbell_ring(own->doorbell);
    return bytes;
}

static bool receive(shm_link *own) {
    size_t taken = 0;
    for (int i = 0; i < FRAMES_PER_TURN && taken < BYTES_PER_TURN; i++) {
        size_t bytes = take_frame(own);
        if (!bytes) break;
        taken += bytes;
    }
    return taken;
}

bool wire_shm_progress(wire_link *link) {
    shm_link *own = (shm_link *)link;
    bool did = receive(own);
    if (link->state != WIRE_OPEN) return true;
    if (own->ring.broken && !link->closing)
        wire_close(link, SHOAL_FORMAT, "the ring in shared memory is broken: closing the link");
    if (link->waiting) did |= wire_outbox_flush(link, &writer);
    pthread_mutex_lock(&link->lock);
    bool broken = own->out.broken;
    pthread_mutex_unlock(&link->lock);
    if (!broken) return did;
    wire_link_finish(link, SHOAL_FORMAT, "the ring in shared memory is broken: closing the link");
    return true;
}

bool wire_shm_pending(wire_link *link) {
    shm_link *own = (shm_link *)link;
    if (wire_ring_pending(&own->ring)) return true;
    if (!link->waiting) return false;
    pthread_mutex_lock(&link->lock);
    bool blocked = wire_ring_blocked(&own->out);
    pthread_mutex_unlock(&link->lock);
    return !blocked;
}

void wire_shm_sleep(wire_link *link, bool sleeps) {
    wire_ring_sleep(&((shm_link *)link)->ring, sleeps);
}

/* What was complete before the end still counts. */
void wire_shm_hung_up(shm_link *own) {
    uint8_t byte;
    size_t n;
    wire_link *link = &own->base;
    shoal_status status =
        base_os_socket_receive(own->watch.fd, &byte, 1, &n, own->fds, &own->fd_count);
    if (status == SHOAL_OK && !n) return;
    if (status == SHOAL_OK)
        status = base_fail(SHOAL_FORMAT, "%s: bytes on the socket after the handshake", link->name);
    if (status != SHOAL_FORMAT)
        status = base_fail(SHOAL_LOST, "%s: the process has ended", link->name);
    char reason[WIRE_MAX_REASON];
    snprintf(reason, sizeof reason, "%s", shoal_error_message());
    while (link->state == WIRE_OPEN && receive(own)) continue;
    wire_link_finish(link, status, reason);
}

/* The system knows whether a process of this machine is stopped, so no load makes a false alarm. A
 * process that is stopped for less than a second (a debugger attaches) is left alone. The end of
 * one does not show on the socket where another, forked from it, still has that. */
void wire_shm_look(shm_link *own) {
    wire_link *link = &own->base;
    base_os_state state = base_os_process_state(own->pid);
    own->watch.deadline = base_now() + LOOK_EVERY;
    own->seen |= state != BASE_OS_ENDED;
    own->stopped = state != BASE_OS_RUNS && own->seen ? own->stopped + 1 : 0;
    if (own->stopped < LOOKS) return;
    char reason[WIRE_MAX_REASON];
    snprintf(reason, sizeof reason, "%s: the process %s", link->name,
             state == BASE_OS_ENDED ? "has ended" : "is stopped");
    wire_link_finish(link, SHOAL_LOST, reason);
}

void wire_shm_shut(wire_link *link) {
    shm_link *own = (shm_link *)link;
    wire_watch_remove(link->peer, &own->watch);
    if (own->watch.fd >= 0) close(own->watch.fd);
    if (own->doorbell >= 0) close(own->doorbell);
    for (size_t i = 0; i < own->fd_count; i++) close(own->fds[i]);
    wire_ring_fini(&own->out);
    wire_ring_fini(&own->ring);
    base_str_fini(&own->in);
    if (own->hello) wire_unpacked_free(&own->hello->base);
    free(own->address);
    free(own->path);
    own->watch.fd = own->doorbell = -1;
    own->fd_count = 0;
    own->hello = NULL;
    own->address = own->path = NULL;
}
