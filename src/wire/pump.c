/* The pump: one turn after the other of posted calls, links, descriptors and deadlines.
 *
 * Whoever runs it holds peer->pump, except while it sleeps in poll on a copy of the descriptors. So
 * a thread in wire_wait takes over while the I/O thread still sleeps; that one, once woken, sees
 * `waiters` and steps back until they have left. Only the thread that pumps drains the doorbell, so
 * a ring that wakes both is never lost. The last waiter leaves the I/O thread asleep if its poll is
 * still good: same descriptors, everyone told to ring again, nothing come in between. */
#include "wire/transport.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/spin.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#define LOOK_AT_DESCRIPTORS BASE_MS
#define CLOSE_PATIENCE (2 * BASE_SECOND)

shoal_status wire_watch_add(wire_peer *peer, wire_watch *watch) {
    if (!base_vec_push(&peer->watches, watch)) return SHOAL_NO_MEMORY;
    peer->version++;
    wire_peer_wake(peer);
    return SHOAL_OK;
}

void wire_watch_remove(wire_peer *peer, wire_watch *watch) {
    for (size_t i = 0; i < peer->watches.count; i++) {
        if (peer->watches.data[i] != watch) continue;
        peer->watches.data[i] = peer->watches.data[--peer->watches.count];
        peer->version++;
        return;
    }
}

/* Store, then look: see ring.h. */
void wire_peer_wake(wire_peer *peer) {
    atomic_store(&peer->news, true);
    if (atomic_load(&peer->sleeping) && atomic_exchange(&peer->sleeping, false))
        base_os_doorbell_ring(peer->doorbell);
}

void wire_peer_post(wire_peer *peer, wire_post_item *item) {
    item->next = NULL;
    pthread_mutex_lock(&peer->queue_lock);
    if (peer->last)
        peer->last->next = item;
    else
        peer->first = item;
    peer->last = item;
    pthread_mutex_unlock(&peer->queue_lock);
    wire_peer_wake(peer);
}

static bool run_posts(wire_peer *peer) {
    pthread_mutex_lock(&peer->queue_lock);
    wire_post_item *item = peer->first;
    peer->first = peer->last = NULL;
    pthread_mutex_unlock(&peer->queue_lock);
    bool did = item;
    while (item) {
        wire_post_item *next = item->next;
        item->call(item->context);
        item = next;
    }
    return did;
}

/* A link that was closed here ends once the other side has been told, or does not listen. */
static bool end_closing(wire_link *link, int64_t now) {
    uint64_t out = link->bytes_out;
    pthread_mutex_lock(&link->lock);
    bool closed = link->closed;
    pthread_mutex_unlock(&link->lock);
    if (!closed && (!link->close_by || out != link->close_mark)) {
        link->close_by = now + CLOSE_PATIENCE;
        link->close_mark = out;
    }
    if (!closed && now < link->close_by) return false;
    wire_link_end(link, link->why, link->reason ? link->reason : "");
    return true;
}

static bool run_links(wire_peer *peer) {
    bool did = false;
    for (size_t i = 0; i < peer->links.count; i++) {
        wire_link *link = peer->links.data[i];
        if (link->state == WIRE_OPEN && !link->down && link->transport->progress(link)) did = true;
        if (link->state == WIRE_OPEN && link->closing) did |= end_closing(link, base_now());
    }
    return did;
}

/* A callback may add and remove watches: then start over. */
static bool run_watches(wire_peer *peer) {
    bool did = false;
    for (size_t i = 0; i < peer->watches.count;) {
        wire_watch *watch = peer->watches.data[i];
        uint64_t version = peer->version;
        if (watch->pending && watch->pending(watch)) {
            watch->ready(watch);
            did = true;
        }
        i = version == peer->version ? i + 1 : 0;
    }
    return did;
}

static bool run_tickers(wire_peer *peer, int64_t now) {
    bool did = false;
    for (int part = 0; part < WIRE_PARTS; part++) {
        wire_ticker *ticker = &peer->tickers[part];
        pthread_mutex_lock(&peer->queue_lock);
        void (*call)(void *) = ticker->call && now >= ticker->next ? ticker->call : NULL;
        if (call) ticker->next = now + ticker->period;
        pthread_mutex_unlock(&peer->queue_lock);
        if (call && !peer->muted) call(peer->handlers[part].context);
        did |= call != NULL;
    }
    return did;
}

/* A callback may add and remove watches: then start over. */
static bool run_deadlines(wire_peer *peer, int64_t now) {
    bool did = false;
    for (size_t i = 0; i < peer->watches.count;) {
        wire_watch *watch = peer->watches.data[i];
        uint64_t version = peer->version;
        if (watch->deadline && now >= watch->deadline) {
            watch->deadline = 0;
            watch->expired(watch);
            did = true;
        }
        i = version == peer->version ? i + 1 : 0;
    }
    return did;
}

static int64_t next_deadline(wire_peer *peer) {
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < peer->watches.count; i++) {
        int64_t at = peer->watches.data[i]->deadline;
        if (at && at < next) next = at;
    }
    for (size_t i = 0; i < peer->links.count; i++) {
        const wire_link *link = peer->links.data[i];
        if (link->state == WIRE_OPEN && link->close_by && link->close_by < next)
            next = link->close_by;
    }
    pthread_mutex_lock(&peer->queue_lock);
    for (int part = 0; part < WIRE_PARTS; part++)
        if (peer->tickers[part].call && peer->tickers[part].next < next)
            next = peer->tickers[part].next;
    pthread_mutex_unlock(&peer->queue_lock);
    return next;
}

/* Frees the links that are gone. */
static void sweep(wire_peer *peer) {
    for (size_t i = 0; i < peer->links.count;) {
        wire_link *link = peer->links.data[i];
        if (link->state == WIRE_GONE && !link->pins) {
            peer->links.data[i] = peer->links.data[--peer->links.count];
            wire_link_free(link);
        } else {
            i++;
        }
    }
}

static bool pending(wire_peer *peer) {
    if (atomic_load(&peer->news)) return true;
    for (size_t i = 0; i < peer->watches.count; i++) {
        wire_watch *watch = peer->watches.data[i];
        if (watch->pending && watch->pending(watch)) return true;
    }
    for (size_t i = 0; i < peer->links.count; i++) {
        wire_link *link = peer->links.data[i];
        if (link->state == WIRE_OPEN && !link->down && link->transport->pending(link)) return true;
    }
    return false;
}

static void set_sleep(wire_peer *peer, bool sleeps) {
    peer->armed = sleeps;
    atomic_store(&peer->sleeping, sleeps);
    for (size_t i = 0; i < peer->links.count; i++) {
        wire_link *link = peer->links.data[i];
        if (link->state == WIRE_OPEN && !link->down) link->transport->sleep(link, sleeps);
    }
}

/* Tells everyone to ring from now on; false when something has come in the meantime. */
static bool arm(wire_peer *peer) {
    set_sleep(peer, true);
    if (!pending(peer)) return true;
    set_sleep(peer, false);
    return false;
}

/* Something has come, or somebody wants in. */
static bool spun(void *context) {
    wire_peer *peer = context;
    return pending(peer) || atomic_load(&peer->wanted);
}

static bool refresh(wire_peer *peer, wire_poll_set *set) {
    if (set->count && set->version == peer->version) return true;
    size_t need = peer->watches.count + 1;
    if (need > set->room) {
        struct pollfd *fds = realloc(set->fds, need * sizeof *fds);
        if (fds) set->fds = fds;
        wire_watch **watches = realloc(set->watches, need * sizeof *watches);
        if (watches) set->watches = watches;
        if (!fds || !watches) return false;
        set->room = need;
    }
    set->fds[0] = (struct pollfd){.fd = peer->doorbell, .events = POLLIN};
    for (size_t i = 1; i < need; i++) set->watches[i] = peer->watches.data[i - 1];
    set->count = need;
    set->version = peer->version;
    return true;
}

static void poll_descriptors(wire_peer *peer, wire_poll_set *set, int64_t until) {
    if (!refresh(peer, set)) return;
    for (size_t i = 1; i < set->count; i++)
        set->fds[i] = (struct pollfd){.fd = set->watches[i]->quiet ? -1 : set->watches[i]->fd,
                                      .events = POLLIN};
    int64_t left = until - base_now();
    int ms = left <= 0 ? 0 : left > 3600 * BASE_SECOND ? 3600000 : (int)(left / BASE_MS) + 1;
    bool io = set == &peer->sets[0];
    set->until = until;
    if (ms) {
        peer->io_polling |= io;
        pthread_mutex_unlock(&peer->pump);
    }
    int ready = poll(set->fds, (nfds_t)set->count, ms);
    if (ms) {
        pthread_mutex_lock(&peer->pump);
        if (io) peer->io_polling = false;
        if (io && peer->waiters) return; /* a waiter has taken over, and has heard it too */
    }
    peer->polled = base_now();
    if (ready <= 0) return;
    if (set->fds[0].revents) base_os_doorbell_drain(peer->doorbell);
    /* Callbacks tolerate being called for nothing; those of watches that are gone must not be. */
    for (size_t i = 1; i < set->count && set->version == peer->version; i++)
        if (set->fds[i].revents) set->watches[i]->ready(set->watches[i]);
}

/* One who calls in must not starve while the pump is busy. */
static void let_in(wire_peer *peer) {
    uint64_t seen = peer->calls;
    while (atomic_load(&peer->wanted) && peer->calls == seen)
        pthread_cond_wait(&peer->yielded, &peer->pump);
}

/* After anything was called it returns at once: somebody may have waited for just that. */
void wire_pump_once(wire_peer *peer, wire_poll_set *set, int64_t until) {
    if (peer->armed) set_sleep(peer, false);
    atomic_store(&peer->news, false);
    bool did = run_posts(peer);
    did |= run_watches(peer);
    did |= run_links(peer);
    int64_t now = base_now();
    did |= run_tickers(peer, now);
    did |= run_deadlines(peer, now);
    sweep(peer);
    if (did) {
        if (now - peer->polled >= LOOK_AT_DESCRIPTORS) poll_descriptors(peer, set, 0);
    } else if ((until <= now || !base_spin(spun, peer) || !pending(peer)) && arm(peer)) {
        int64_t next = next_deadline(peer);
        poll_descriptors(peer, set, until < next ? until : next);
    }
    if (peer->waiters > 1) pthread_cond_broadcast(&peer->turn);
}

void wire_pump_take(wire_peer *peer) {
    atomic_fetch_add(&peer->wanted, 1);
    pthread_mutex_lock(&peer->pump);
    atomic_fetch_sub(&peer->wanted, 1);
    peer->calls++;
    pthread_cond_broadcast(&peer->yielded);
}

void wire_pump_leave(wire_peer *peer) { pthread_mutex_unlock(&peer->pump); }

void *wire_pump_thread(void *context) {
    wire_peer *peer = context;
    base_os_thread_name("shoal-io");
    pthread_mutex_lock(&peer->pump);
    while (!peer->stopping) {
        if (peer->waiters) {
            pthread_cond_wait(&peer->idle, &peer->pump);
            continue;
        }
        let_in(peer);
        if (!peer->stopping && !peer->waiters) wire_pump_once(peer, &peer->sets[0], INT64_MAX);
    }
    pthread_mutex_unlock(&peer->pump);
    return NULL;
}

/* The last waiter gives the pump back. */
static void hand_back(wire_peer *peer) {
    if (!peer->io_polling) {
        pthread_cond_signal(&peer->idle);
        return;
    }
    wire_poll_set *set = &peer->sets[0];
    if (set->version == peer->version && set->until <= next_deadline(peer) && arm(peer)) return;
    base_os_doorbell_ring(peer->doorbell);
}

shoal_status wire_wait(wire_peer *peer, bool (*done)(void *context), void *context,
                       int64_t deadline) {
    shoal_status status = SHOAL_OK;
    wire_pump_take(peer);
    peer->waiters++;
    while (!done(context)) {
        if (base_now() >= deadline) {
            status = base_fail(SHOAL_TIMEOUT, "waiting for an answer: the deadline has passed");
            break;
        }
        if (peer->pumped) {
            struct timespec at = base_timespec(deadline);
            pthread_cond_timedwait(&peer->turn, &peer->pump, &at);
            continue;
        }
        peer->pumped = true;
        let_in(peer);
        wire_pump_once(peer, &peer->sets[1], deadline);
        peer->pumped = false;
    }
    peer->waiters--;
    if (peer->waiters)
        pthread_cond_broadcast(&peer->turn);
    else
        hand_back(peer);
    wire_pump_leave(peer);
    return status;
}

void wire_call(wire_peer *peer, void (*call)(void *context), void *context) {
    wire_pump_take(peer);
    call(context);
    if (peer->waiters) { /* what they wait for may be true now */
        pthread_cond_broadcast(&peer->turn);
        wire_peer_wake(peer);
    }
    wire_pump_leave(peer);
}
