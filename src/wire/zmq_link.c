/* Running an encrypted link: frames are messages of ØMQ, sent under the pump alone. Bytes under way
 * are limited by our own window: what the other side has consumed it tells, a quarter of the window
 * at a time. Heartbeats come whatever the other process does (zmq_beat.c), so a link on which no
 * byte comes for WIRE_ZMQ_SILENCE_MS has lost its other side. Bytes, not frames, since one frame
 * may take seconds on a slow link; that they make no frame for long is noticed, too. */
#include "wire/zmq_link.h"

#include "base/clock.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- sending ---- */

static shoal_status send_message(zmq_link *own, zmq_msg_t *message) {
    wire_zmq *zmq = own->base.peer->zmq;
    void *socket = own->listener ? own->listener->end.socket : own->end.socket;
    wire_zmq_enter(zmq);
    bool sent = !own->listener ||
                zmq_send(socket, own->id, sizeof own->id, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    sent = sent && zmq_msg_send(message, socket, ZMQ_DONTWAIT) >= 0;
    own->spoke = base_now();
    wire_zmq_leave(zmq);
    return sent ? SHOAL_OK : wire_zmq_fail(own->base.name ? own->base.name : own->address);
}

shoal_status wire_zmq_put(zmq_link *own, const wire_frame *frame, const void *payload) {
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, wire_frame_bytes(frame->bytes)))
        return base_fail(SHOAL_NO_MEMORY, "%s: no memory for a frame", own->address);
    uint8_t *to = zmq_msg_data(&message);
    memset(to, 0, zmq_msg_size(&message));
    memcpy(to, frame, sizeof *frame);
    if (frame->bytes) memcpy(to + sizeof *frame, payload, frame->bytes);
    shoal_status status = send_message(own, &message);
    if (status != SHOAL_OK) zmq_msg_close(&message);
    return status;
}

/* Only the pump writes: senders queue. */
static void *reserve_later(wire_link *link, size_t bytes) { return NULL; }
static void commit_later(wire_link *link, size_t bytes) {}
static const wire_writer queue = {reserve_later, commit_later};

static void *reserve(wire_link *link, size_t bytes) {
    zmq_link *own = (zmq_link *)link;
    own->blocked = own->sent - own->consumed_there + bytes > WIRE_ZMQ_WINDOW;
    if (own->blocked || zmq_msg_init_size(&own->draft, bytes)) return NULL;
    return zmq_msg_data(&own->draft);
}

/* A failure shows as the end of the connection. */
static void commit(wire_link *link, size_t bytes) {
    zmq_link *own = (zmq_link *)link;
    own->sent += bytes;
    if (send_message(own, &own->draft) != SHOAL_OK) zmq_msg_close(&own->draft);
}

static const wire_writer writer = {reserve, commit};

shoal_status wire_zmq_send(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                           size_t bytes) {
    return wire_outbox_send(link, &queue, kind, message, bytes);
}

shoal_status wire_zmq_send_data(wire_link *link, const wire_transfer *transfer,
                                const wire_source *source) {
    return wire_outbox_send_data(link, &queue, transfer, source);
}

bool wire_zmq_progress(wire_link *link) {
    return link->waiting && wire_outbox_flush(link, &writer);
}

bool wire_zmq_pending(wire_link *link) { return link->waiting && !((zmq_link *)link)->blocked; }

void wire_zmq_sleep(wire_link *link, bool sleeps) {}

/* ---- receiving ---- */

static void tell_consumed(zmq_link *own) {
    if (own->received - own->told < WIRE_ZMQ_WINDOW / 4) return;
    wire_frame frame = {.type = WIRE_FRAME_CREDIT, .total = own->received};
    if (wire_zmq_put(own, &frame, NULL) == SHOAL_OK) own->told = own->received;
}

static void take_credit(zmq_link *own, uint64_t consumed) {
    if (consumed > own->sent || consumed < own->consumed_there) {
        base_fail(SHOAL_FORMAT, "%s: %llu bytes of %llu are said to be read", own->base.name,
                  (unsigned long long)consumed, (unsigned long long)own->sent);
        wire_close(&own->base, SHOAL_FORMAT, shoal_error_message());
        return;
    }
    own->consumed_there = consumed;
    own->blocked = false;
}

void wire_zmq_take(zmq_link *own, const wire_frame *frame, const void *payload) {
    own->heard = base_now();
    if (frame->type == WIRE_FRAME_BEAT) return;
    if (frame->type == WIRE_FRAME_CREDIT) {
        take_credit(own, frame->total);
        return;
    }
    own->received += wire_frame_bytes(frame->bytes);
    if (own->received - own->told > WIRE_ZMQ_WINDOW) {
        wire_close(&own->base, SHOAL_FORMAT, "more bytes are under way than were allowed");
        return;
    }
    wire_link_deliver(&own->base, frame, payload);
    if (own->base.state == WIRE_OPEN) tell_consumed(own);
}

/* ---- the end ---- */

/* Who was let in may have been revoked since. */
static bool still_welcome(zmq_link *own) {
    char name[WIRE_MAX_NAME + 1];
    return !own->accepting || own->own_key ||
           wire_zmq_who(own->base.peer, own->key, name) == WIRE_GUEST_ENROLLED;
}

void wire_zmq_look(zmq_link *own) {
    int64_t now = base_now(), since = now - own->ticked;
    own->ticked = now;
    own->timer.deadline = now + WIRE_ZMQ_BEAT_MS * BASE_MS;
    if (!still_welcome(own)) {
        wire_close(&own->base, SHOAL_DENIED, "the key of this user was revoked");
        return;
    }
    /* We have been stopped or busy ourselves, and maybe the whole machine: silence is what others
     * did not say since. */
    if (since > 2 * WIRE_ZMQ_BEAT_MS * BASE_MS) own->awake = now;
    int64_t heard = own->heard > own->awake ? own->heard : own->awake;
    int64_t silence = base_os_socket_silence(own->fd), unheard = (now - heard) / BASE_MS;
    if (silence < 0 || silence > unheard) silence = unheard;
    if (silence < WIRE_ZMQ_SILENCE_MS && unheard < WIRE_ZMQ_GARBLED_MS) return;
    char reason[WIRE_MAX_REASON];
    if (silence < WIRE_ZMQ_SILENCE_MS)
        snprintf(reason, sizeof reason, "%s: for %.0f s came nothing that makes sense",
                 own->base.name, (double)unheard / 1000);
    else
        snprintf(
            reason, sizeof reason,
            "%s: nothing was heard for %.1f s: the process is stopped, or the connection is cut",
            own->base.name, (double)silence / 1000);
    wire_link_finish(&own->base, SHOAL_LOST, reason);
}

void wire_zmq_shut(wire_link *link) {
    zmq_link *own = (zmq_link *)link;
    wire_zmq_beats_remove(own);
    wire_watch_remove(link->peer, &own->timer);
    if (own->listener) {
        if (own->route) base_map_remove(&own->listener->members, own->route);
        /* There is no other way to end one of a router's connections. */
        if (own->fd >= 0 && link->why == SHOAL_LOST) shutdown(own->fd, SHUT_RDWR);
    }
    wire_zmq_close(&own->end, link->closed ? WIRE_ZMQ_LINGER_MS : 0);
    if (own->hello) wire_unpacked_free(&own->hello->base);
    free(own->address);
    free(own->dialled);
    own->dialled = NULL;
    own->hello = NULL;
    own->address = NULL;
    own->fd = -1;
}
