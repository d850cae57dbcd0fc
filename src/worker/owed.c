/* What clients owe a task: data of their own memory, or word that they have taken a round's
 * results. They compute nothing, so what does not come for long is not on its way, and others, who
 * wait behind it, are not to wait for ever. What other workers owe may take as long as it takes. */
#include "worker/state.h"

#include "base/clock.h"

/* Bytes of a client's link in one silence, else it owes in vain; and what has to have come for the
 * task itself in LATE of them while somebody else waits for its slot. */
enum { SILENT_BYTES = 60 << 10, LATE = 10, LATE_BYTES = LATE * 60 * (64 << 10) };

/* *brought: what it has brought already, in bytes or, at the beginning of a round, in rounds. */
static const worker_peer *debtor(const worker_task *task, uint64_t *brought) {
    const worker *w = task->slot->worker;
    const worker_loop *loop = task->instance->loop;
    const worker_peer *found = NULL;
    *brought = 0;
    for (size_t i = 0; task->state == TASK_QUEUED && loop && i < loop->paced.count; i++) {
        const worker_paced *paced = &loop->paced.data[i];
        const worker_peer *peer = base_map_get(&w->peers, (uint64_t)paced->peer + 1);
        if (!peer || !peer->client || task->instance->round <= paced->through + loop->ahead)
            continue;
        *brought = paced->through;
        return peer;
    }
    for (uint32_t i = 0; task->state == TASK_RUNNING && i < task->n_receives; i++) {
        const worker_receive *receive = &task->receives[i];
        const worker_peer *peer = base_map_get(&w->peer_of, (uint64_t)receive->from + 1);
        if (!peer || !peer->client) continue;
        *brought += receive->have;
        if (receive->have < receive->bytes && worker_task_awaits(task, receive)) found = peer;
    }
    return found;
}

static bool others_wait(const worker_task *task) {
    for (const worker_task *t = task->slot->head; t; t = t->next)
        if (t->instance->session != task->instance->session) return true;
    return false;
}

static shoal_status in_vain(const worker *w, const worker_peer *peer, int64_t silences) {
    return base_fail(
        SHOAL_TIMEOUT, "client %s has brought next to nothing of what it owes for %.3g s",
        peer->name ? peer->name : "?", (double)(silences * w->silence) / (double)BASE_SECOND);
}

shoal_status worker_owed_check(const worker_task *task, worker_owed *owed) {
    const worker *w = task->slot->worker;
    int64_t now = base_now();
    uint64_t brought;
    const worker_peer *peer = debtor(task, &brought);
    if (!peer) {
        *owed = (worker_owed){0};
        return SHOAL_OK;
    }
    bool data = task->state == TASK_RUNNING;
    uint64_t link = peer->link ? wire_link_count(peer->link).bytes_in : 0;
    if (!owed->since)
        *owed = (worker_owed){.since = now, .late_since = now, .link = link, .brought = brought};
    if (now - owed->since > w->silence) {
        if (data && link - owed->link < SILENT_BYTES) return in_vain(w, peer, 1);
        owed->since = now;
        owed->link = link;
    }
    if (now - owed->late_since > LATE * w->silence && others_wait(task)) {
        if (brought - owed->brought < (data ? LATE_BYTES : 1)) return in_vain(w, peer, LATE);
        owed->late_since = now;
        owed->brought = brought;
    }
    return SHOAL_OK;
}
