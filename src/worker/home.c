/* The memory slot of a client: its tasks only copy, and are run by whichever thread brings the last
 * thing they wait for. While the first one waits for results, those behind it send what they have:
 * else workers would wait for operands until results that have nothing to do with them are here. */
#include "worker/state.h"

#include "base/log.h"

enum { MOST_AT_ONCE = 8 };

/* One stretch of a task: true when it is through. Lock held, but not while copying. */
static bool home_step(worker_task *task) {
    worker *w = task->slot->worker;
    shoal_status status = SHOAL_OK;
    if (task->state == TASK_QUEUED) {
        if (!worker_lap_may_begin(task)) {
            task->instance->loop->stalled = true;
            return false;
        }
        task->state = TASK_RUNNING;
        if (task->status == SHOAL_OK) status = worker_task_bind(task);
    }
    while (status == SHOAL_OK && task->status == SHOAL_OK) {
        if (worker_task_missing(task)) return false;
        if (task->step == task->program->n_steps) break;
        const worker_step *step = &task->program->steps[task->step];
        if (!step->exchange) {
            status = base_fail(SHOAL_INTERNAL, "a client's memory cannot compute");
            break;
        }
        pthread_mutex_unlock(&w->lock);
        status = worker_exchange_send(task);
        pthread_mutex_lock(&w->lock);
        worker_task_bury(task, step);
        task->step++;
    }
    if (status == SHOAL_OK && task->status == SHOAL_OK) status = worker_task_stop(task);
    if (status != SHOAL_OK) worker_task_fail(task, status, shoal_error_message());
    return true;
}

/* Whether it may go on before those in front of it are through. Rounds of a loop keep their turn.
 */
static bool may_overtake(const worker_task *task) {
    const shoal_graph *g = graph_data(task->program->graph);
    if (task->state != TASK_QUEUED) return true;
    if (task->instance->loop || task->status != SHOAL_OK) return false;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        if (task->inputs[i]->status != SHOAL_OK || !task->inputs[i]->buffer) return false;
    return true;
}

/* Whether one of the first tasks was through; it is taken out. Only here are any: `at` stays where
 * it is while the lock is given up. */
static bool advance_one(worker_slot *slot) {
    worker_task **at = &slot->head;
    for (int n = 0; *at && n < MOST_AT_ONCE; n++, at = &(*at)->next) {
        worker_task *task = *at;
        if ((n && !may_overtake(task)) || !home_step(task)) continue;
        worker_task_take(at);
        if (task->status == SHOAL_OK) worker_task_give(task);
        worker_task *next = task->instance->loop ? worker_lap_end(task) : NULL;
        if (next) worker_task_put(next, at);
        worker_task_done(task);
        return true;
    }
    return false;
}

static void nothing(void *context) { (void)context; }

void worker_wake_pump(worker *w) {
    if (wire_post(w->wire, nothing, NULL) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
}

void worker_home_advance(worker_slot *slot) {
    worker *w = slot->worker;
    bool ended = false;
    pthread_mutex_lock(&w->lock);
    if (slot->advancing) {
        slot->again = true;
        pthread_mutex_unlock(&w->lock);
        return;
    }
    slot->advancing = true;
    do {
        slot->again = false;
        while (advance_one(slot)) ended = true;
    } while (slot->again);
    slot->advancing = false;
    pthread_cond_broadcast(&w->changed); /* see redirect */
    pthread_mutex_unlock(&w->lock);
    /* Whoever waits in worker_collect is to look again. */
    if (ended) worker_wake_pump(w);
}
