/* Heartbeats of encrypted links, from a thread that does nothing else: a handler may take long, and
 * the machine may be busy, and still the other side hears that this process lives. (ØMQ has
 * heartbeats of its own, but its 4.3.4 aborts the process when one is due on a connection that has
 * just broken.)
 *
 * Sockets of ØMQ take one thread at a time. The pump and this thread share them in turns, which
 * last for single calls, never while a handler runs. Who comes while the other has its turn is
 * next: a mutex alone would let a busy pump have it again and again, and nobody heard of us. */
#include "wire/zmq_link.h"

#include "base/clock.h"
#include "base/os.h"

#include <signal.h>
#include <stdlib.h>

void wire_zmq_enter(wire_zmq *zmq) {
    pthread_mutex_lock(&zmq->turn);
    pthread_mutex_lock(&zmq->use);
    pthread_mutex_unlock(&zmq->turn);
}

void wire_zmq_leave(wire_zmq *zmq) { pthread_mutex_unlock(&zmq->use); }

/* In a turn. */
static void beat(zmq_link *own, int64_t now) {
    static const wire_frame frame = {.type = WIRE_FRAME_BEAT};
    if (now - own->spoke < WIRE_ZMQ_BEAT_MS / 2 * BASE_MS) return;
    void *socket = own->listener ? own->listener->end.socket : own->end.socket;
    own->spoke = now;
    if (own->listener && zmq_send(socket, own->id, sizeof own->id, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return; /* the connection is gone: the monitor tells the pump */
    zmq_send(socket, &frame, sizeof frame, ZMQ_DONTWAIT);
    /* Its descriptor tells of a message once, and sending has taken note of it. */
    int events = 0;
    size_t size = sizeof events;
    if (!zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) && events & ZMQ_POLLIN)
        wire_peer_wake(own->framed.base.peer);
}

static void *run(void *context) {
    wire_zmq *zmq = context;
    base_os_thread_name("shoal-beat");
    pthread_mutex_lock(&zmq->turn);
    while (!zmq->stopping) {
        pthread_mutex_lock(&zmq->use);
        int64_t now = base_now();
        for (size_t i = 0; i < zmq->beating.count; i++) beat(zmq->beating.data[i], now);
        pthread_mutex_unlock(&zmq->use);
        struct timespec at = base_timespec(now + WIRE_ZMQ_BEAT_MS * BASE_MS);
        pthread_cond_timedwait(&zmq->stop, &zmq->turn, &at);
    }
    pthread_mutex_unlock(&zmq->turn);
    return NULL;
}

shoal_status wire_zmq_beats_start(wire_zmq *zmq) {
    sigset_t all, before;
    pthread_mutex_init(&zmq->turn, NULL);
    pthread_mutex_init(&zmq->use, NULL);
    base_condition_init(&zmq->stop);
    sigfillset(&all); /* signals are the host's affair */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&zmq->thread, NULL, run, zmq);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    zmq->beats = !error;
    return error ? base_fail_errno(error, "starting a thread for heartbeats") : SHOAL_OK;
}

void wire_zmq_beats_end(wire_zmq *zmq) {
    pthread_mutex_lock(&zmq->turn);
    zmq->stopping = true;
    pthread_cond_signal(&zmq->stop);
    pthread_mutex_unlock(&zmq->turn);
    if (zmq->beats) pthread_join(zmq->thread, NULL);
    pthread_cond_destroy(&zmq->stop);
    pthread_mutex_destroy(&zmq->use);
    pthread_mutex_destroy(&zmq->turn);
    free(zmq->beating.data);
}

shoal_status wire_zmq_beats_add(zmq_link *own) {
    wire_zmq *zmq = own->framed.base.peer->zmq;
    wire_zmq_enter(zmq);
    bool added = base_vec_push(&zmq->beating, own);
    wire_zmq_leave(zmq);
    return added ? SHOAL_OK : SHOAL_NO_MEMORY;
}

void wire_zmq_beats_remove(zmq_link *own) {
    wire_zmq *zmq = own->framed.base.peer->zmq;
    if (!zmq) return;
    wire_zmq_enter(zmq);
    for (size_t i = 0; i < zmq->beating.count; i++)
        if (zmq->beating.data[i] == own)
            zmq->beating.data[i--] = zmq->beating.data[--zmq->beating.count];
    wire_zmq_leave(zmq);
}
