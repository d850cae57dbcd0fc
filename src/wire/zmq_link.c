/* Running an encrypted link: frames are messages of ØMQ, sent under the pump alone. Heartbeats come
 * whatever the other process does (zmq_beat.c), so a link on which no byte comes for
 * WIRE_ZMQ_SILENCE_MS has lost its other side. Bytes, not frames, since one frame may take seconds
 * on a slow link; that they make no frame for long is noticed, too. */
#include "wire/paths.h"
#include "wire/zmq_link.h"

#include "base/clock.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- sending ---- */

static shoal_status send_message(zmq_link *own, zmq_msg_t *message) {
    wire_zmq *zmq = own->framed.base.peer->zmq;
    void *socket = own->listener ? own->listener->end.socket : own->end.socket;
    wire_zmq_enter(zmq);
    bool sent = !own->listener ||
                zmq_send(socket, own->id, sizeof own->id, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    sent = sent && zmq_msg_send(message, socket, ZMQ_DONTWAIT) >= 0;
    /* The connection has ended before the link was made: the number may be another's by now. */
    if (!sent && own->listener && !own->heard && zmq_errno() == EHOSTUNREACH) own->fd = -1;
    own->spoke = base_now();
    wire_zmq_leave(zmq);
    return sent
               ? SHOAL_OK
               : wire_zmq_fail(own->framed.base.name ? own->framed.base.name : own->framed.address);
}

shoal_status wire_zmq_put(wire_framed *framed, const wire_frame *frame, const void *payload) {
    zmq_link *own = (zmq_link *)framed;
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, wire_frame_bytes(frame->bytes)))
        return base_fail(SHOAL_NO_MEMORY, "%s: no memory for a frame", own->framed.address);
    uint8_t *to = zmq_msg_data(&message);
    memset(to, 0, zmq_msg_size(&message));
    memcpy(to, frame, sizeof *frame);
    if (frame->bytes) memcpy(to + sizeof *frame, payload, frame->bytes);
    shoal_status status = send_message(own, &message);
    /* There is no limit to what may wait: the connection has just ended, and its monitor says why.
     */
    bool ended = status != SHOAL_OK && !own->listener && zmq_errno() == EAGAIN;
    if (status != SHOAL_OK) zmq_msg_close(&message);
    return ended ? SHOAL_OK : status;
}

/* What was last measured while there was enough to send: little that goes out at once, as from a
 * full bucket of a shaper, tells nothing. */
static void measure(zmq_link *own) {
    double speed = base_os_socket_speed(own->fd);
    if (speed > 0) own->speed = speed;
}

double wire_zmq_speed(wire_framed *framed) {
    zmq_link *own = (zmq_link *)framed;
    if (!own->leaves) return 0;
    measure(own);
    return own->speed;
}

static void *reserve(wire_link *link, size_t bytes) {
    zmq_link *own = (zmq_link *)link;
    if (!wire_framed_room(&own->framed, bytes) || zmq_msg_init_size(&own->draft, bytes))
        return NULL;
    return zmq_msg_data(&own->draft);
}

/* A failure shows as the end of the connection. */
static void commit(wire_link *link, size_t bytes) {
    zmq_link *own = (zmq_link *)link;
    wire_framed_went(&own->framed, bytes);
    if (send_message(own, &own->draft) != SHOAL_OK) zmq_msg_close(&own->draft);
}

static void *shorten(wire_link *link, size_t bytes) {
    zmq_link *own = (zmq_link *)link;
    zmq_msg_t shorter;
    if (zmq_msg_init_size(&shorter, bytes)) return NULL;
    zmq_msg_close(&own->draft);
    own->draft = shorter;
    return zmq_msg_data(&own->draft);
}

static const wire_writer writer = {reserve, commit, shorten};

bool wire_zmq_progress(wire_link *link) {
    if (wire_paths_kept(link)) return wire_paths_flush((wire_framed *)link, &writer);
    return link->waiting && wire_outbox_flush(link, &writer);
}

/* ---- receiving ---- */

void wire_zmq_take(zmq_link *own, const wire_frame *frame, const void *payload) {
    own->heard = base_now();
    wire_framed_take(&own->framed, frame, payload);
}

/* ---- the end ---- */

void wire_zmq_look(zmq_link *own) {
    int64_t now = base_now(), since = now - own->ticked;
    own->ticked = now;
    own->timer.deadline = now + WIRE_ZMQ_BEAT_MS * BASE_MS;
    wire_framed_tell(&own->framed, true);
    measure(own);
    /* We have been stopped or busy ourselves, and maybe the whole machine: silence is what others
     * did not say since. */
    if (since > 2 * WIRE_ZMQ_BEAT_MS * BASE_MS) own->awake = now;
    int64_t heard = own->heard > own->awake ? own->heard : own->awake;
    int64_t silence = base_os_socket_silence(own->fd), unheard = (now - heard) / BASE_MS;
    if (silence < 0 || silence > unheard) silence = unheard;
    bool others = wire_link_paths(wire_lead(&own->framed.base)).open > 1;
    int64_t garbled = others ? WIRE_ZMQ_GARBLED_PATH_MS : WIRE_ZMQ_GARBLED_MS;
    if (silence < WIRE_ZMQ_SILENCE_MS && unheard < garbled) return;
    char reason[WIRE_MAX_REASON];
    if (silence < WIRE_ZMQ_SILENCE_MS)
        snprintf(reason, sizeof reason, "%s: for %.0f s came nothing that makes sense",
                 own->framed.base.name, (double)unheard / 1000);
    else
        snprintf(
            reason, sizeof reason,
            "%s: nothing was heard for %.1f s: the process is stopped, or the connection is cut",
            own->framed.base.name, (double)silence / 1000);
    wire_link_finish(&own->framed.base, SHOAL_LOST, reason);
}

void wire_zmq_shut(wire_link *link) {
    zmq_link *own = (zmq_link *)link;
    wire_zmq_beats_remove(own);
    wire_watch_remove(link->peer, &own->timer);
    if (own->listener) {
        if (own->route) base_map_remove(&own->listener->members, own->route);
        if (own->fd >= 0 && link->why == SHOAL_LOST)
            base_os_socket_cut(own->fd, own->identity);
        else if (own->fd >= 0)
            wire_zmq_abandon(own->listener, own->fd, own->identity);
    }
    wire_zmq_close(&own->end, link->closed ? WIRE_ZMQ_LINGER_MS : 0);
    wire_framed_fini(&own->framed);
    free(own->dialled);
    own->dialled = NULL;
    own->fd = -1;
}
