/* Whose turn it is on a slot. Tasks run in the hub's order; but a loop may take hours, so that
 * between two of its rounds those of other sessions that wait for nobody have a turn each, and
 * further ones until they have had as much time as the round before.
 *
 * What waits for nobody cannot close a cycle of waiting, whichever rounds of a loop other slots are
 * at. A session's tasks keep their order: only its first one is looked at. */
#include "worker/state.h"

#include "base/clock.h"

enum { MOST = 256 }; /* tasks that are looked at */

void worker_task_put(worker_task *task, worker_task **at) {
    worker_slot *slot = task->slot;
    task->next = *at;
    if (!*at) slot->tail = &task->next;
    *at = task;
    atomic_store(&slot->queued, true);
}

void worker_task_take(worker_task **at) {
    worker_slot *slot = (*at)->slot;
    *at = (*at)->next;
    if (!*at) slot->tail = at;
    atomic_store(&slot->queued, slot->head != NULL);
}

/* One that has failed does nothing more. */
static bool waits_for_nobody(const worker_task *task) {
    if (task->status != SHOAL_OK) return true;
    if (!worker_lap_may_begin(task)) return false;
    for (uint32_t s = 0; s < task->program->n_steps; s++)
        if (task->waiting[s]) return false;
    return true;
}

static bool is_first_of_session(const worker_task *task) {
    const worker_task *t = task->slot->head;
    while (t != task && t->instance->session != task->instance->session) t = t->next;
    return t == task;
}

static worker_task **find_between(worker_task **at) {
    for (int n = 0; *at && n < MOST; n++, at = &(*at)->next)
        if (is_first_of_session(*at) && waits_for_nobody(*at)) return at;
    return NULL;
}

static bool is_later_round(const worker_task *task) {
    return task->instance->loop && task->instance->round;
}

worker_task **worker_next(worker_slot *slot) {
    worker_task *head = slot->head, **at = NULL;
    bool begins = worker_lap_may_begin(head);
    if (is_later_round(head)) {
        at = find_between(slot->turn ? slot->turn : &head->next);
        if (!at && (slot->left > 0 || !begins)) at = find_between(&head->next);
    }
    return at ? at : begins ? &slot->head : NULL;
}

void worker_turn_end(worker_task *task, worker_task **at) {
    worker_slot *slot = task->slot;
    bool first = at == &slot->head;
    if (first)
        slot->left = task->instance->loop ? base_now() - task->began : 0;
    else
        slot->left -= base_now() - task->began;
    slot->turn = first ? NULL : at;
    worker_task_take(at);
}
