/* The end of an instance here: when all its tasks are through and what they send has gone out.
 * Until then the memory is not free, whatever a receiver says of its own part: so who takes nothing
 * stays counted for what it does not take, and is told of as one that owes is. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

/* In `sends`, beside the count. */
#define OVER (1u << 31)

/* ---- telling ---- */

/* What can no longer be told by one that ends, the hub sees. */
static void tell(worker *w, const Shoal__Done *done) {
    if (w->hub && wire_send(w->hub, SHOAL__KIND__DONE, &done->base) != SHOAL_OK && !w->stopping)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
}

static void keep(worker_instance *instance, const Shoal__Done *done) {
    size_t n = shoal__done__get_packed_size(done);
    uint8_t *packed = malloc(n + 1);
    if (packed) base_str_bytes(&instance->report, packed, shoal__done__pack(done, packed));
    free(packed);
}

static void report(worker *w, worker_instance *instance, bool later) {
    Shoal__Done done = SHOAL__DONE__INIT;
    Shoal__SlotTime *times = calloc(instance->n_tasks + 1, sizeof *times);
    Shoal__SlotTime **pointers = calloc(instance->n_tasks + 1, sizeof *pointers);
    done.instance = instance->id;
    for (uint32_t i = 0; times && pointers && i < instance->n_tasks; i++) {
        shoal__slot_time__init(&times[i]);
        times[i].slot = instance->tasks[i].slot->number;
        times[i].nanoseconds = instance->tasks[i].busy;
        times[i].nodes = instance->tasks[i].program->n_nodes;
        pointers[done.n_slots++] = &times[i];
    }
    done.slots = pointers;
    Shoal__Traffic *traffic = NULL, **ways = NULL;
    worker_count_traffic(instance, &traffic, &ways, &done.n_traffic);
    done.traffic = ways;
    if (later)
        keep(instance, &done);
    else
        tell(w, &done);
    free(times);
    free(pointers);
    free(traffic);
    free(ways);
}

void worker_report_done(worker *w, worker_instance *instance) { report(w, instance, false); }

/* Without what was kept there was no memory for it: then it says no more than that it is through.
 */
static void tell_kept(worker *w, const worker_instance *instance) {
    Shoal__Done none = SHOAL__DONE__INIT;
    Shoal__Done *done =
        shoal__done__unpack(NULL, instance->report.size, (const uint8_t *)instance->report.data);
    none.instance = instance->id;
    tell(w, done && done->instance == instance->id ? done : &none);
    if (done) shoal__done__free_unpacked(done, NULL);
}

/* ---- leaving ---- */

static void finish(worker *w, worker_instance *instance) {
    if (instance->status != SHOAL_OK && !instance->loop &&
        base_map_set(&w->cancelled, instance->id, instance) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    if (instance->loop) {
        worker_loop_round_end(w, instance);
        return;
    }
    base_map_remove(&w->instances, instance->id);
    if (instance->over)
        tell_kept(w, instance);
    else
        worker_report_done(w, instance);
    worker_instance_free(w, instance);
}

/* Rounds end in order, as they are counted. */
static bool is_behind(const worker_instance *instance) {
    const worker_loop *loop = instance->loop;
    for (uint64_t i = 0; loop && i < loop->ahead + 2; i++) {
        const worker_instance *other = loop->live[i];
        if (other && other->over && other->round < instance->round) return true;
    }
    return false;
}

/* Notes one of which all has gone out. Any thread: it is looked at no more. */
static void note_gone(worker *w, worker_instance *instance) {
    instance->gone = atomic_load(&w->gone);
    while (!atomic_compare_exchange_weak(&w->gone, &instance->gone, instance)) continue;
}

/* Ends those of which all has gone out. Lock held, but not all the while: others may do the same.
 */
static void end_gone(worker *w) {
    worker_instance *instance = atomic_exchange(&w->gone, NULL);
    while (instance) {
        worker_instance *next = instance->gone;
        instance->gone = w->ending;
        w->ending = instance;
        instance = next;
    }
    for (worker_instance **at = &w->ending; (instance = *at);) {
        if (is_behind(instance)) {
            at = &instance->gone;
            continue;
        }
        *at = instance->gone;
        w->n_leaving--;
        finish(w, instance);
        at = &w->ending; /* those behind it, too */
    }
}

static void look(void *context) {
    worker *w = context;
    pthread_mutex_lock(&w->lock);
    end_gone(w);
    pthread_mutex_unlock(&w->lock);
}

void worker_sent(worker *w, worker_instance *instance) {
    if (atomic_fetch_sub(&instance->sends, 1) != OVER + 1) return;
    note_gone(w, instance);
    /* From here on the instance may have ended. Without memory the next look sees it. */
    if (!atomic_load(&w->stopping) && wire_post(w->wire, look, w) != SHOAL_OK)
        base_log(BASE_DEBUG, "worker", "%s", shoal_error_message());
}

void worker_instance_end(worker *w, worker_instance *instance) {
    if (instance->n_done < instance->n_tasks || instance->n_passing) return;
    if (instance->status != SHOAL_OK) worker_sends_drop(w, instance->id);
    if (!atomic_load(&instance->sends) && !is_behind(instance)) {
        finish(w, instance);
        return;
    }
    if (!instance->loop) {
        report(w, instance, true);
        worker_tasks_fini(instance);
    }
    instance->over = true;
    instance->over_since = base_now();
    w->n_leaving++;
    if (atomic_fetch_or(&instance->sends, OVER)) return;
    note_gone(w, instance);
    end_gone(w);
}

/* ---- what nobody takes ---- */

static void drop_waiting(worker_peer *peer, uint64_t instance) {
    size_t kept = 0, n = peer->waiting.count;
    for (size_t i = 0; i < n; i++) {
        worker_outgoing outgoing = peer->waiting.data[i];
        if (outgoing.transfer.instance == instance)
            outgoing.source.done(outgoing.source.context);
        else
            peer->waiting.data[kept++] = outgoing;
    }
    peer->waiting.count = kept;
}

void worker_sends_drop(worker *w, uint64_t instance) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&w->peers, &at, &key, &item)) {
        worker_peer *peer = item;
        drop_waiting(peer, instance);
        if (peer->link) wire_drop_data(peer->link, instance);
    }
}

/* The first that has something to go to a client which takes nothing; NULL: none. */
static const worker_instance *first_for(const worker *w, const worker_peer *peer) {
    const worker_instance *first = NULL;
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&w->instances, &at, &key, &item)) {
        const worker_instance *instance = item;
        if (instance->over && (!first || instance->id < first->id) &&
            wire_has_data(peer->link, instance->id))
            first = instance;
    }
    return first;
}

static void tell_waits(worker *w, const worker_peer *peer, const worker_instance *instance,
                       bool slow) {
    Shoal__Waits waits = SHOAL__WAITS__INIT;
    waits.instance = instance->loop ? instance->loop->first : instance->id;
    waits.peer = peer->number;
    waits.slow = slow;
    if (w->hub && wire_send(w->hub, SHOAL__KIND__WAITS, &waits.base) != SHOAL_OK)
        base_log(BASE_DEBUG, w->name, "%s", shoal_error_message());
}

static void watch_taker(worker *w, worker_peer *peer, int64_t now) {
    uint64_t bytes = wire_link_count(peer->link).bytes_out;
    if (!peer->taken_at || bytes - peer->taken >= WORKER_SILENT_BYTES) {
        peer->taken = bytes;
        peer->taken_at = now;
    }
    if (now - peer->taken_at <= w->silence) return;
    const worker_instance *instance = first_for(w, peer);
    peer->taken_at = 0;
    if (instance) tell_waits(w, peer, instance, false);
}

/* Who takes a little is served, and told of all the same: others may wait for what it keeps. */
static void watch_slow(worker *w, worker_peer *peer, int64_t now) {
    uint64_t bytes = wire_link_count(peer->link).bytes_out;
    int64_t late = WORKER_LATE * w->silence;
    if (peer->slow_at && now - peer->slow_at <= late) return;
    bool little = peer->slow_at && bytes - peer->slow_taken < WORKER_LATE_BYTES;
    const worker_instance *instance = little ? first_for(w, peer) : NULL;
    peer->slow_at = now;
    peer->slow_taken = bytes;
    if (instance && now - instance->over_since > late) tell_waits(w, peer, instance, true);
}

void worker_leaving_watch(worker *w) {
    size_t at = 0;
    uint64_t key;
    void *item;
    int64_t now = base_now();
    pthread_mutex_lock(&w->lock);
    end_gone(w);
    while (w->n_leaving && base_map_next(&w->instances, &at, &key, &item)) {
        const worker_instance *instance = item;
        /* Of one that failed, some may have been sent since. */
        if (instance->over && instance->status != SHOAL_OK) worker_sends_drop(w, instance->id);
    }
    for (at = 0; base_map_next(&w->peers, &at, &key, &item);) {
        worker_peer *peer = item;
        if (peer->client && peer->link && w->n_leaving) {
            watch_taker(w, peer, now);
            watch_slow(w, peer, now);
        } else {
            peer->taken_at = peer->slow_at = 0;
        }
    }
    pthread_mutex_unlock(&w->lock);
}
