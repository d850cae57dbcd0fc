/* Waiting for others for long is told to the hub, which knows who waits for whom. What a client
 * owes, data of its own memory, or word that it has taken a round's results, it has: so that does
 * not take long while its link is idle. What workers owe they may have to compute first. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"

/* A round that waits to begin: who has not said that it has taken enough of those before. */
static const worker_peer *paced_by(const worker_task *task, uint64_t *brought) {
    const worker *w = task->slot->worker;
    const worker_loop *loop = task->instance->loop;
    for (size_t i = 0; loop && i < loop->paced.count; i++) {
        const worker_paced *paced = &loop->paced.data[i];
        *brought = paced->through;
        if (task->instance->round > paced->through + loop->ahead)
            return base_map_get(&w->peers, (uint64_t)paced->peer + 1);
    }
    return NULL;
}

/* Who owes something that the task waits for: a client, if there is one. *brought: what it has
 * brought already, in bytes or, at the beginning of a round, in rounds. */
static const worker_peer *debtor(const worker_task *task, uint64_t *brought) {
    const worker_peer *found = NULL;
    *brought = 0;
    if (task->state == TASK_QUEUED) return paced_by(task, brought);
    for (uint32_t i = 0; i < task->n_receives; i++) {
        const worker_receive *receive = &task->receives[i];
        const worker_peer *peer =
            base_map_get(&task->slot->worker->peer_of, (uint64_t)receive->from + 1);
        if (!peer) continue;
        if (peer->client) *brought += receive->have;
        if (receive->have == receive->bytes || !worker_task_awaits(task, receive)) continue;
        if (!found || peer->client) found = peer;
    }
    return found;
}

/* Whether all tasks of the instance that are not done wait. */
static bool all_wait(const worker_task *task) {
    const worker_instance *instance = task->instance;
    for (uint32_t i = 0; i < instance->n_tasks; i++)
        if (instance->tasks[i].state != TASK_DONE && !instance->tasks[i].waits) return false;
    return true;
}

static bool others_wait(const worker_task *task) {
    for (const worker_task *t = task->slot->head; t; t = t->next)
        if (t->instance->session != task->instance->session) return true;
    return false;
}

static void tell(const worker_task *task, const worker_peer *peer) {
    worker *w = task->slot->worker;
    const worker_loop *loop = task->instance->loop;
    Shoal__Waits waits = SHOAL__WAITS__INIT;
    waits.instance = loop ? loop->first : task->instance->id;
    waits.peer = peer->number;
    if (w->hub && all_wait(task) && wire_send(w->hub, SHOAL__KIND__WAITS, &waits.base) != SHOAL_OK)
        base_log(BASE_DEBUG, w->name, "%s", shoal_error_message());
}

void worker_owed_watch(const worker_task *task, worker_owed *owed) {
    const worker *w = task->slot->worker;
    int64_t now = base_now();
    uint64_t brought;
    const worker_peer *peer = debtor(task, &brought);
    if (!peer) {
        *owed = (worker_owed){0};
        return;
    }
    bool data = task->state == TASK_RUNNING;
    uint64_t link = peer->link ? wire_link_count(peer->link).bytes_in : 0;
    if (!owed->since)
        *owed = (worker_owed){.since = now, .late_since = now, .link = link, .brought = brought};
    if (now - owed->since > w->silence) {
        if (!peer->client || (data && link - owed->link < WORKER_SILENT_BYTES)) tell(task, peer);
        owed->since = now;
        owed->link = link;
    }
    if (now - owed->late_since > WORKER_LATE * w->silence && others_wait(task)) {
        if (brought - owed->brought < (data ? WORKER_LATE_BYTES : 1)) tell(task, peer);
        owed->late_since = now;
        owed->brought = brought;
    }
}
