/* Running instances: one thread per device takes its tasks in the hub's order.
 *
 * A step that exchanges starts its sends and is through; what it brings is waited for by the first
 * step that reads it, or at the end. No cycle of waiting can form: all programs of an instance have
 * their steps in one common order, and a step waits only for exchanges that stand before it in that
 * order. So the sender that somebody waits for stands, if it waits itself, at an earlier step, or
 * in an earlier instance; who stands first waits for nobody. */
#include "worker/state.h"

#include "backend/pool.h"
#include "backend/registry.h"
#include "base/clock.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/spin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the end of tasks ---- */

void worker_report_failure(worker *w, uint64_t instance, uint64_t rounds, shoal_status status,
                           const char *message, uint32_t unreachable) {
    /* What a worker that ends leaves undone is for others to do: the hub sees that it is gone. */
    if (w->stopping) return;
    worker_part(w); /* then it is no failure, but something to be done again */
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = status;
    error.message = (char *)message;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = instance;
    failed.error = &error;
    failed.peer = unreachable;
    failed.rounds = rounds;
    if (w->hub && wire_send(w->hub, SHOAL__KIND__FAILED, &failed.base) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
}

void worker_instance_end_tasks(worker_instance *instance, shoal_status status, const char *message,
                               uint32_t unreachable) {
    instance->status = status;
    instance->error = strdup(message);
    for (uint32_t i = 0; i < instance->n_tasks; i++) {
        worker_task *task = &instance->tasks[i];
        if (task->state == TASK_DONE || task->status != SHOAL_OK) continue;
        task->status = status;
        task->error = strdup(message);
        task->unreachable = unreachable;
        atomic_store(&task->ended, true);
    }
}

/* The first failure of an instance is told to the hub, and ends its other tasks here. Lock held. */
static void instance_fail(worker *w, worker_instance *instance, shoal_status status,
                          const char *message, uint32_t unreachable) {
    if (instance->loop) {
        worker_loop_fail(w, instance->loop, instance->round, status, message, unreachable);
        return;
    }
    if (instance->status != SHOAL_OK) return;
    if (base_events_on(&w->events)) {
        shoal_event event = {.kind = SHOAL_EVENT_FAIL,
                             .instance = instance->id,
                             .slot = w->slots[0].number,
                             .peer = SHOAL_NO_SLOT};
        base_event_label(&event, "%s", message);
        base_events_put(&w->events, &event);
    }
    worker_report_failure(w, instance->id, 0, status, message, unreachable);
    worker_instance_end_tasks(instance, status, message, unreachable);
    worker_changed(w);
}

void worker_task_fail(worker_task *task, shoal_status status, const char *message) {
    if (task->status == SHOAL_OK) {
        task->status = status;
        task->error = strdup(message);
        atomic_store(&task->ended, true);
    }
    instance_fail(task->slot->worker, task->instance, status, message, task->unreachable);
}

/* What has failed here may be run again: the hub says when a reader is to give up. */
static void expected_done(worker *w, const worker_piece *piece) {
    worker_expected *expected = base_map_get(&w->expected, piece->value);
    if (!expected || expected->done || piece->status != SHOAL_OK) return;
    expected->done = true;
    if (piece->buffer != expected->buffer && expected->buffer &&
        piece->buffer->bytes == expected->buffer->bytes)
        /* The value was here already, or came by way of other memory. */
        memcpy(expected->buffer->host, piece->buffer->host, piece->buffer->bytes);
}

/* Gives the outputs to their pieces, as soon as they will be there in any case. Lock held. */
void worker_task_give(worker_task *task) {
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        worker_piece *piece = task->outputs[o];
        piece->buffer = worker_buffer_retain(task->values[g->outputs[o]]);
        if (task->slot->home) expected_done(task->slot->worker, piece);
    }
}

/* Lock held. */
static void fail_outputs(worker_task *task) {
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        worker_piece *piece = task->outputs ? task->outputs[o] : NULL;
        if (!piece) continue; /* of a round that was not made, or carried on */
        worker_buffer_release(piece->buffer);
        piece->buffer = NULL;
        piece->status = task->status;
        piece->error = task->error ? strdup(task->error) : NULL;
        piece->unreachable = task->unreachable;
    }
}

/* Frees what a task holds, but for the memory that somebody is writing at this moment. */
static void task_fini(worker_task *task) {
    worker *w = task->slot->worker;
    const shoal_graph *g = graph_data(task->program->graph);
    worker_passing_drop(task);
    for (uint32_t i = 0; i < task->n_receives; i++) {
        while (task->receives[i].busy) pthread_cond_wait(&w->changed, &w->lock);
        worker_buffer_release(task->receives[i].buffer);
        free(task->receives[i].staged);
        free(task->receives[i].chunks);
    }
    for (uint32_t i = 0; task->inputs && i < g->n_inputs; i++)
        worker_piece_release(task->inputs[i]);
    for (uint32_t i = 0; task->outputs && i < g->n_outputs; i++)
        worker_piece_release(task->outputs[i]);
    for (uint32_t i = 0; task->values && i < g->n_values; i++)
        worker_buffer_release(task->values[i]);
    free(task->inputs);
    free(task->outputs);
    free(task->values);
    free(task->waiting);
    free(task->receives);
    free(task->error);
    free(task->unmade);
    task->program->users--;
}

void worker_tasks_fini(worker_instance *instance) {
    uint32_t n = instance->n_tasks;
    instance->n_tasks = instance->n_done = 0; /* the lock may be given up meanwhile */
    for (uint32_t i = 0; i < n; i++) task_fini(&instance->tasks[i]);
}

void worker_instance_free(worker *w, worker_instance *instance) {
    worker_tasks_fini(instance);
    worker_staged_drop(w, instance);
    base_str_fini(&instance->report);
    free(instance->tasks);
    free(instance->error);
    free(instance);
}

void worker_instance_refuse(worker *w, worker_instance *instance, shoal_status status,
                            const char *message) {
    instance->status = status;
    worker_report_failure(w, instance->id, 0, status, message, 0);
    if (base_map_set(&w->cancelled, instance->id, w) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    base_map_remove(&w->instances, instance->id);
    worker_report_done(w, instance);
    worker_instance_free(w, instance);
}

/* A task is through, well or not. Lock held. */
void worker_task_done(worker_task *task) {
    worker *w = task->slot->worker;
    worker_instance *instance = task->instance;
    if (task->status != SHOAL_OK) fail_outputs(task);
    task->state = TASK_DONE;
    instance->n_done++;
    worker_instance_end(w, instance);
}

void worker_instance_cancel(worker *w, uint64_t id, shoal_status status, const char *message,
                            uint32_t unreachable) {
    worker_slot *home = NULL;
    pthread_mutex_lock(&w->lock);
    worker_loop *loop = worker_loop_of(w, id);
    worker_instance *instance = base_map_get(&w->instances, id);
    worker_sends_drop(w, id);
    if (loop) {
        worker_loop_fail(w, loop, id - loop->first, status, message, unreachable);
        for (uint32_t i = 0; i < loop->n_laps; i++)
            if (loop->laps[i].slot->home) home = loop->laps[i].slot;
    } else if (instance && instance->over) {
        /* What it still sent is dropped, and the hub told that it is through; but of what could not
         * be delivered first, as who waits for it cannot know. */
        if (unreachable) worker_report_failure(w, id, 0, status, message, unreachable);
        instance->status = status;
    } else if (instance && instance->known) {
        instance_fail(w, instance, status, message, unreachable);
        for (uint32_t i = 0; i < instance->n_tasks; i++)
            if (instance->tasks[i].slot->home) home = instance->tasks[i].slot;
    } else {
        /* Our part is over, but for what could not be delivered: who waits for it cannot know. */
        if (unreachable) worker_report_failure(w, id, 0, status, message, unreachable);
        if (base_map_set(&w->cancelled, id, w) != SHOAL_OK)
            base_log(BASE_WARN, w->name, "%s", shoal_error_message());
        base_map_remove(&w->instances, id);
        if (instance) worker_instance_free(w, instance);
    }
    pthread_mutex_unlock(&w->lock);
    if (home) worker_home_advance(home);
}

/* ---- steps ---- */

static bool supports(void *context, const shoal_graph *g, const shoal_node *node) {
    return worker_queue_supports(context, g, node);
}

static bool dies(const worker_step *step, uint32_t value) {
    for (uint32_t i = 0; i < step->n_dead; i++)
        if (step->dead[i] == value) return true;
    return false;
}

static shoal_status compile(const worker_task *task, worker_step *step, worker_queue *queue,
                            worker_compiled *out) {
    base_arena *arena = &task->program->arena;
    shoal_compile_options options = {.size = sizeof options, .frozen = step->frozen};
    shoal_compile_report report = {.size = sizeof report};
    const shoal_graph *g = graph_data(step->graph);
    graph *plain = NULL;
    if (!out->in_place) out->in_place = base_arena_array(arena, int32_t, step->n_outputs);
    uint32_t n = step->n_inputs + step->n_outputs;
    if (!step->bindings) step->bindings = base_arena_array(arena, shoal_binding, n);
    if (!step->wait) step->wait = base_arena_array(arena, shoal_point, n);
    if (!out->in_place || !step->bindings || !step->wait) return SHOAL_NO_MEMORY;
    report.in_place = out->in_place;
    shoal_status status = SHOAL_OK;
    if (graph_has_composites(g, supports, queue)) status = graph_expand(g, supports, queue, &plain);
    if (status == SHOAL_OK)
        status = worker_queue_compile(queue, plain ? graph_data(plain) : g, &options, &report,
                                      &out->executable);
    graph_destroy(&plain);
    for (uint32_t o = 0; status == SHOAL_OK && o < step->n_outputs; o++)
        if (out->in_place[o] >= 0 && !dies(step, step->inputs[out->in_place[o]]))
            out->in_place[o] = -1;
    /* The executable has what it needs, unless the step may have to be done beside the device. */
    if (status == SHOAL_OK && !task->slot->aside) graph_destroy(&step->graph);
    return status;
}

/* The memory of output o: that of an input which ends here and nobody else holds, or fresh. */
static shoal_status output_buffer(worker_task *task, const worker_step *step, worker_queue *queue,
                                  int32_t in_place, uint32_t o, bool *takes) {
    uint32_t value = step->outputs[o];
    size_t bytes = (size_t)base_type_bytes(&graph_data(task->program->graph)->values[value].type);
    worker_buffer_release(task->values[value]); /* of an attempt on another device */
    task->values[value] = NULL;
    if (in_place >= 0) {
        worker_buffer *old = task->values[step->inputs[in_place]];
        if (atomic_load(&old->refs) == 1 && !old->read_only && old->bytes == bytes) {
            task->values[value] = worker_buffer_retain(old);
            *takes = true;
            return SHOAL_OK;
        }
    }
    return worker_buffer_new(queue, bytes, &task->values[value]);
}

/* Names what a step was about, and the line of what costs most in it. */
static shoal_status blame(const worker_task *task, const worker_step *step, shoal_status status) {
    const shoal_graph *g = graph_data(task->program->graph);
    const shoal_node *worst = NULL;
    double most = -1;
    if (status == SHOAL_RANGE) return status; /* the kernel knew its line */
    for (uint32_t n = step->first; n < step->last; n++) {
        double cost = worker_node_cost(g, &g->nodes[n]);
        if (cost <= most || !g->nodes[n].location) continue;
        most = cost;
        worst = &g->nodes[n];
    }
    if (!worst) return status;
    return base_fail_prefix(status, "%s at %s: ", shoal_op_name(worst->op), worst->location);
}

static shoal_status submit(worker_task *task, worker_step *step, worker_queue *queue,
                           shoal_executable *executable) {
    uint32_t n = step->n_inputs + step->n_outputs, n_wait = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = i < step->n_inputs ? step->inputs[i] : step->outputs[i - step->n_inputs];
        const worker_buffer *buffer = task->values[value];
        step->bindings[i] = (shoal_binding){buffer->memory, 0};
        if (!buffer->ready.fence) continue;
        /* What is done when a call returns is not to wait inside it: that could not be ended. */
        if (!queue->line)
            SHOAL_TRY(worker_queue_wait(buffer->queue, buffer->ready, &task->ended));
        else
            step->wait[n_wait++] = buffer->ready;
    }
    SHOAL_TRY(worker_queue_run(queue, executable, step->bindings, n, step->wait, n_wait));
    for (uint32_t o = 0; o < step->n_outputs; o++)
        worker_buffer_at(task->values[step->outputs[o]], worker_queue_end(queue));
    return SHOAL_OK;
}

/* *ruined: it may have begun, and an output has the memory of an input, which then is no more what
 * it was. */
static shoal_status attempt(worker_task *task, worker_step *step, worker_queue *queue,
                            bool *ruined) {
    worker_compiled *compiled = &step->compiled[queue != &task->slot->own];
    bool takes = false;
    *ruined = false;
    if (!compiled->executable) {
        worker_event(task, SHOAL_EVENT_COMPILE, SHOAL_EVENT_BEGIN, 0);
        shoal_status status = compile(task, step, queue, compiled);
        worker_event(task, SHOAL_EVENT_COMPILE, SHOAL_EVENT_END, 0);
        SHOAL_TRY(status);
    }
    for (uint32_t i = 0; i < step->n_inputs; i++)
        SHOAL_TRY(task->program->sources[step->inputs[i]]
                      ? worker_source_bind(task, step->inputs[i], queue)
                      : worker_bring(task, step->inputs[i], queue));
    for (uint32_t o = 0; o < step->n_outputs; o++)
        SHOAL_TRY(output_buffer(task, step, queue, compiled->in_place[o], o, &takes));
    shoal_status status = submit(task, step, queue, compiled->executable);
    bool begun = status != SHOAL_OK && status != SHOAL_UNSUPPORTED && status != SHOAL_NO_MEMORY;
    *ruined = takes && begun;
    return status;
}

enum { MOST_TOLD = 16 /* failures of a device that are told */ };

/* What a device lacks is told once per operation, a failure when it is another than the last. */
static void tell_aside(const worker_task *task, const worker_step *step, shoal_status status) {
    worker_slot *slot = task->slot;
    const shoal_graph *g = graph_data(task->program->graph);
    const char *name = slot->own.name, *aside = slot->aside->name;
    for (uint32_t n = step->first; n < step->last && status == SHOAL_OK; n++) {
        uint16_t op = g->nodes[n].op;
        if (op >= GRAPH_OP_BUILT_IN || slot->told[op] || op == GRAPH_SOURCE) continue;
        slot->told[op] = true;
        base_log(BASE_WARN, slot->worker->name, "%s hands work to %s: it has no %s", name, aside,
                 shoal_op_name(op));
    }
    if (status == SHOAL_OK) return;
    const char *why = shoal_error_message();
    uint64_t hash = base_hash(why, strlen(why));
    if (hash == slot->last_told || slot->n_told == MOST_TOLD) return;
    slot->last_told = hash;
    slot->n_told++;
    base_log(BASE_WARN, slot->worker->name, "%s hands work to %s: %s", name, aside, why);
}

/* On the slot's device; where that cannot do it, has no memory left or fails, beside it. One that
 * has failed half-way over its only operands is lost with them: they are made again elsewhere. */
static shoal_status compute(worker_task *task, worker_step *step) {
    worker_slot *slot = task->slot;
    bool ruined = false, first = !step->aside && !atomic_load(&slot->own.lost);
    shoal_status status = SHOAL_OK;
    if (first || !slot->aside) {
        status = attempt(task, step, &slot->own, &ruined);
        if (ruined && slot->aside && status == SHOAL_IO)
            worker_queue_note(&slot->own, status = SHOAL_LOST);
        bool over = status == SHOAL_CLOSED || status == SHOAL_INTERRUPTED;
        if (status == SHOAL_OK || over || ruined || !slot->aside) return status;
    }
    tell_aside(task, step, status);
    return attempt(task, step, slot->aside, &ruined);
}

/* What came for the current step is the values' alone from now on: their memory may be taken. */
static void let_go(worker_task *task) {
    for (uint32_t i = 0; i < task->n_receives; i++) {
        worker_receive *receive = &task->receives[i];
        if (!worker_task_awaits(task, receive)) continue;
        worker_buffer_release(receive->buffer);
        receive->buffer = NULL;
    }
}

/* What a task waits for: asked with the lock held. */
typedef struct pause {
    const worker_task *task;
    bool (*over)(const worker_task *task);
} pause;

static bool is_over(void *context) {
    const pause *p = context;
    worker *w = p->task->slot->worker;
    pthread_mutex_lock(&w->lock);
    bool over = p->over(p->task) || w->stopping;
    pthread_mutex_unlock(&w->lock);
    return over;
}

void worker_changed(worker *w) {
    pthread_cond_broadcast(&w->changed);
    if (w->pumping) worker_wake_pump(w);
}

/* Waits for a change; with a pause until that is over, or for half a second. Where messages of
 * other processes end it, the pump is taken over, and no other thread has to wake this one. A
 * device may be at work, or begin to move boxes, meanwhile: somebody has to look now and then
 * whether it gets on. Lock held. */
static void rest(worker_slot *slot, pause *p) {
    worker *w = slot->worker;
    int64_t until = base_now() + BASE_SECOND / 2;
    if (p && p->task->remote) {
        w->pumping++;
        pthread_mutex_unlock(&w->lock);
        shoal_status status = wire_wait(w->wire, is_over, p, until);
        (void)status; /* who waits looks */
        pthread_mutex_lock(&w->lock);
        w->pumping--;
    } else if (!p && !slot->own.line) {
        pthread_cond_wait(&w->changed, &w->lock);
    } else {
        struct timespec at = base_timespec(until);
        pthread_cond_timedwait(&w->changed, &w->lock, &at);
    }
    if (!slot->own.line) return;
    pthread_mutex_unlock(&w->lock);
    worker_queue_watch(&slot->own);
    pthread_mutex_lock(&w->lock);
    worker_part(w);
}

/* The same, for other members, who may take long. */
static void rest_for(worker_task *task, pause *p, worker_owed *owed) {
    task->waits = true;
    rest(task->slot, p);
    worker_owed_watch(task, owed);
    task->waits = false;
}

static bool has_come(const worker_task *task) {
    return !worker_task_missing(task) || task->status != SHOAL_OK || task->unmade;
}

/* Waits for what the current step needs: until it is there, the task is ended, or the worker. Lock
 * held. */
static shoal_status await(worker_task *task) {
    worker *w = task->slot->worker;
    pause p = {task, has_come};
    worker_owed owed = {0};
    bool waits = worker_task_missing(task) > 0;
    if (waits) worker_event(task, SHOAL_EVENT_WAIT, SHOAL_EVENT_BEGIN, 0);
    while (!has_come(task) && !w->stopping) rest_for(task, &p, &owed);
    if (waits) worker_event(task, SHOAL_EVENT_WAIT, SHOAL_EVENT_END, 0);
    if (w->stopping) return base_fail(SHOAL_CLOSED, "the worker is ending");
    if (task->status != SHOAL_OK) return base_fail(task->status, "%s", task->error);
    return task->unmade ? base_fail(SHOAL_RANGE, "%s", task->unmade) : SHOAL_OK;
}

/* Binds the inputs; by now everything before this task has run. Lock held. */
shoal_status worker_task_bind(worker_task *task) {
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        worker_piece *piece = task->inputs[i];
        uint32_t value = g->inputs[i];
        if (piece->status != SHOAL_OK) {
            task->unreachable = piece->unreachable;
            return base_fail(piece->status, "%s", piece->error);
        }
        if (!piece->buffer)
            return base_fail(SHOAL_INTERNAL, "value %llx is not on slot %u",
                             (unsigned long long)piece->value, task->slot->number);
        if (piece->buffer->bytes != (size_t)base_type_bytes(&g->values[value].type))
            return base_fail(SHOAL_INTERNAL, "value %llx has %zu bytes on slot %u, not as planned",
                             (unsigned long long)piece->value, piece->buffer->bytes,
                             task->slot->number);
        if (piece->buffer->map) SHOAL_TRY(model_map_check(piece->buffer->map));
        worker_buffer_release(task->values[value]);
        task->values[value] = worker_buffer_retain(piece->buffer);
        if (piece->refs > 1) continue;
        /* Nobody else has the piece any more: its memory may be taken. */
        worker_buffer_release(piece->buffer);
        piece->buffer = NULL;
    }
    return SHOAL_OK;
}

void worker_task_bury(worker_task *task, const worker_step *step) {
    for (uint32_t i = 0; i < step->n_dead; i++) {
        worker_buffer_release(task->values[step->dead[i]]);
        task->values[step->dead[i]] = NULL;
    }
}

/* The current step may begin. What waits for nothing takes no lock. */
static shoal_status step_begin(worker_task *task, bool *through) {
    worker *w = task->slot->worker;
    *through = task->step == task->program->n_steps;
    if (!*through && !task->program->steps[task->step].n_awaited && !atomic_load(&task->ended) &&
        !atomic_load(&w->stopping))
        return SHOAL_OK;
    pthread_mutex_lock(&w->lock);
    shoal_status status = await(task);
    if (status == SHOAL_OK && !*through) let_go(task);
    pthread_mutex_unlock(&w->lock);
    return status;
}

static shoal_status run_step(worker_task *task, worker_step *step) {
    if (step->exchange && step->has_operand && task->program->sources[step->operand])
        SHOAL_TRY(worker_source_bind(task, step->operand, NULL));
    if (step->exchange) return worker_exchange_send(task);
    if (!step->n_outputs) return SHOAL_OK; /* all of it is made where it is read */
    int64_t from = base_now();
    worker_event(task, SHOAL_EVENT_COMPUTE, SHOAL_EVENT_BEGIN, from);
    shoal_status status = compute(task, step);
    if (status != SHOAL_OK) status = blame(task, step, status);
    int64_t to = base_now();
    worker_event(task, SHOAL_EVENT_COMPUTE, SHOAL_EVENT_END, to);
    task->busy += (uint64_t)(to - from);
    return status;
}

shoal_status worker_task_stop(worker_task *task) {
    const worker_loop *loop = task->instance->loop;
    for (uint32_t i = 0; loop && i < loop->n_laps; i++)
        if (loop->laps[i].slot == task->slot && loop->laps[i].stop)
            return worker_stops(task, loop->laps[i].stop - 1, &task->stops);
    return SHOAL_OK;
}

static shoal_status run_steps(worker_task *task) {
    bool through = false;
    shoal_status status = SHOAL_OK;
    while (status == SHOAL_OK) {
        status = step_begin(task, &through);
        if (status != SHOAL_OK || through) break;
        worker_step *step = &task->program->steps[task->step];
        status = run_step(task, step);
        worker_task_bury(task, step);
        task->step++;
    }
    return status;
}

static shoal_status run_task(worker_task *task) {
    worker *w = task->slot->worker;
    pthread_mutex_lock(&w->lock);
    task->state = TASK_RUNNING;
    task->before = task->slot->own.submitted;
    task->began = base_now();
    shoal_status status = task->status == SHOAL_OK ? worker_task_bind(task)
                                                   : base_fail(task->status, "%s", task->error);
    pthread_mutex_unlock(&w->lock);
    backend_ends_set(&task->ended, &w->stopping);
    if (status == SHOAL_OK) status = run_steps(task);
    backend_ends_set(NULL, NULL);
    if (status == SHOAL_OK) status = worker_sources_output(task);
    return status == SHOAL_OK ? worker_task_stop(task) : status;
}

/* What was the matter with something that a task is made of. Lock held. */
static shoal_status operands_failed(worker_task *task) {
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t i = 0; task->inputs && i < g->n_inputs; i++)
        if (task->inputs[i] && task->inputs[i]->status != SHOAL_OK) {
            task->unreachable = task->inputs[i]->unreachable;
            return base_fail(task->inputs[i]->status, "%s", task->inputs[i]->error);
        }
    return SHOAL_OK;
}

/* The device is through with a task: what it was made of, and what was made, has to be well. Of
 * what came before it, only that counts: where nothing was run for it, its end is another's. Lock
 * held. */
static void task_end(worker_task *task) {
    worker *w = task->slot->worker;
    worker_queue *queue = &task->slot->own;
    shoal_status status = base_fence_failed(task->end, task->before);
    if (status == SHOAL_OK && task->last != SHOAL_OK && task->end.value > task->before)
        status = base_fail(task->last, "%s", queue->why);
    worker_queue_ended(queue, status);
    if (status != SHOAL_OK) base_fail_prefix(status, "worker %s: ", w->name);
    /* Above all, as what is made of that failed likewise, with a line of another program's. */
    shoal_status cause = operands_failed(task);
    if (cause != SHOAL_OK) status = cause;
    if (status != SHOAL_OK) worker_task_fail(task, status, shoal_error_message());
    worker_task_done(task);
}

/* A task that could not be run fails when those before it have ended: where one of them did not
 * make what it reads, that is the cause, and told first. Lock held. */
static void fail_run(worker_task *task, shoal_status status) {
    worker_slot *slot = task->slot;
    char message[512];
    if (task->status != SHOAL_OK) return;
    if (task->unmade) status = SHOAL_RANGE;
    snprintf(message, sizeof message, "%s", task->unmade ? task->unmade : shoal_error_message());
    slot->awaited = true;
    while (slot->submitted && task->status == SHOAL_OK && !slot->worker->stopping) rest(slot, NULL);
    slot->awaited = false;
    shoal_status cause = operands_failed(task);
    if (cause == SHOAL_OK)
        cause =
            base_fail_prefix(base_fail(status, "%s", message), "worker %s: ", slot->worker->name);
    worker_task_fail(task, cause, shoal_error_message());
}

/* Tasks end in the order of the line, as each looks at how those before it did that made what it
 * reads: who calls for a point may come late. */
static void task_reached(void *context, shoal_status status) {
    worker_task *task = context;
    worker_slot *slot = task->slot;
    pthread_mutex_lock(&slot->worker->lock);
    /* It waited while the device was at others before it. */
    int64_t now = base_now(), from = task->began > slot->idle_at ? task->began : slot->idle_at;
    task->busy = (uint64_t)(now - from);
    slot->idle_at = now;
    task->reached = true;
    task->last = status;
    while ((task = slot->submitted) && task->reached) {
        if (!(slot->submitted = task->next)) slot->submitted_end = &slot->submitted;
        task_end(task);
    }
    if (slot->awaited) worker_changed(slot->worker);
    pthread_mutex_unlock(&slot->worker->lock);
}

/* The thread that runs programs is through with a task, whose next round comes to its place. Lock
 * held. */
static void task_submitted(worker_task *task, worker_task **at) {
    worker_slot *slot = task->slot;
    worker *w = slot->worker;
    task->end = worker_queue_end(&slot->own);
    if (task->status == SHOAL_OK) worker_task_give(task);
    worker_task *next = task->instance->loop ? worker_lap_end(task) : NULL;
    if (next) {
        worker_task_put(next, at);
        slot->turn = &next->next;
    }
    if (task->status != SHOAL_OK) {
        worker_task_done(task);
        return;
    }
    if (!slot->submitted && base_fence_reached(task->end)) {
        task_end(task);
        return;
    }
    task->state = TASK_SUBMITTED;
    task->next = NULL;
    *slot->submitted_end = task;
    slot->submitted_end = &task->next;
    pthread_mutex_unlock(&w->lock); /* it may be reached at this moment */
    if (base_fence_then(task->end, task_reached, task) != SHOAL_OK) {
        task_reached(task, worker_queue_wait(&slot->own, task->end, NULL));
    }
    pthread_mutex_lock(&w->lock);
}

static bool has_next(const worker_task *task) { return worker_next(task->slot) != NULL; }

static bool has_work(void *context) {
    worker_slot *slot = context;
    return atomic_load_explicit(&slot->queued, memory_order_relaxed);
}

void *worker_executor(void *argument) {
    worker_slot *slot = argument;
    worker *w = slot->worker;
    worker_owed owed = {0}; /* for the first to begin */
    backend_pool_set(&w->artifacts.pool);
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        worker_collect_garbage(slot);
        worker_part(w);
        if (slot->measure && !slot->parted) worker_measure(slot);
        if (!slot->head) {
            pthread_mutex_unlock(&w->lock);
            bool more = base_spin(has_work, slot);
            pthread_mutex_lock(&w->lock);
            bool asked = slot->measure && !slot->parted;
            if (!more && !slot->head && !worker_has_garbage(slot) && !asked && !w->stopping)
                rest(slot, NULL);
            continue;
        }
        worker_task **at = worker_next(slot), *task = at ? *at : slot->head;
        if (!at) {
            pause p = {task, has_next};
            rest_for(task, &p, &owed);
            continue;
        }
        if (at == &slot->head) owed = (worker_owed){0};
        pthread_mutex_unlock(&w->lock);
        shoal_status status = run_task(task);
        pthread_mutex_lock(&w->lock);
        if (status != SHOAL_OK) fail_run(task, status);
        worker_turn_end(task, at);
        task_submitted(task, at);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
