/* Running instances: one thread per device takes its tasks in the hub's order; the memory slot's
 * tasks, which only copy, are run by whichever thread brings the last thing they wait for.
 *
 * A step that exchanges starts its sends and is through; what it brings is waited for by the first
 * step that reads it, or at the end. No cycle of waiting can form: all programs of an instance have
 * their steps in one common order, and a step waits only for exchanges that stand before it in that
 * order. So the sender that somebody waits for stands, if it waits itself, at an earlier step, or
 * in an earlier instance; who stands first waits for nobody. */
#include "worker/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/spin.h"

#include <stdlib.h>
#include <string.h>

enum { STALL_SECONDS = 60 };

/* ---- the end of tasks ---- */

static void report_failure(worker *w, uint64_t instance, shoal_status status, const char *message,
                           uint32_t unreachable) {
    /* What a worker that ends leaves undone is for others to do: the hub sees that it is gone. */
    if (w->stopping) return;
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = status;
    error.message = (char *)message;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = instance;
    failed.error = &error;
    failed.peer = unreachable;
    if (w->hub && wire_send(w->hub, SHOAL__KIND__FAILED, &failed.base) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
}

/* The first failure of an instance is told to the hub, and ends its other tasks here. Lock held. */
static void instance_fail(worker *w, worker_instance *instance, shoal_status status,
                          const char *message, uint32_t unreachable) {
    if (instance->status != SHOAL_OK) return;
    instance->status = status;
    instance->error = strdup(message);
    if (base_events_on(&w->events)) {
        shoal_event event = {.kind = SHOAL_EVENT_FAIL,
                             .instance = instance->id,
                             .slot = w->slots[0].number,
                             .peer = SHOAL_NO_SLOT};
        base_event_label(&event, "%s", message);
        base_events_put(&w->events, &event);
    }
    report_failure(w, instance->id, status, message, unreachable);
    for (uint32_t i = 0; i < instance->n_tasks; i++) {
        worker_task *task = &instance->tasks[i];
        if (task->state == TASK_DONE || task->status != SHOAL_OK) continue;
        task->status = status;
        task->error = strdup(message);
        task->unreachable = unreachable;
    }
    pthread_cond_broadcast(&w->changed);
}

void worker_task_fail(worker_task *task, shoal_status status, const char *message) {
    if (task->status == SHOAL_OK) {
        task->status = status;
        task->error = strdup(message);
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

/* Gives the outputs to their pieces. Lock held. */
static void task_outputs(worker_task *task) {
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        worker_piece *piece = task->outputs[o];
        if (task->status == SHOAL_OK) {
            piece->buffer = worker_buffer_retain(task->values[g->outputs[o]]);
        } else {
            piece->status = task->status;
            piece->error = task->error ? strdup(task->error) : NULL;
            piece->unreachable = task->unreachable;
        }
        if (task->slot->home) expected_done(task->slot->worker, piece);
    }
}

/* Frees what a task holds, but for the memory that somebody is writing at this moment. */
static void task_fini(worker_task *task) {
    worker *w = task->slot->worker;
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t i = 0; i < task->n_receives; i++) {
        while (task->receives[i].busy) pthread_cond_wait(&w->changed, &w->lock);
        worker_buffer_release(task->receives[i].buffer);
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
}

void worker_instance_free(worker *w, worker_instance *instance) {
    for (uint32_t i = 0; i < instance->n_tasks; i++) task_fini(&instance->tasks[i]);
    worker_staged_drop(w, instance);
    free(instance->tasks);
    free(instance->error);
    free(instance);
}

/* What came over links, per pair of slots; nothing without memory, as it is not worth a failure. */
static void count_traffic(const worker_instance *instance, Shoal__Traffic **out,
                          Shoal__Traffic ***pointers, size_t *count) {
    size_t most = 0, n = 0;
    for (uint32_t t = 0; t < instance->n_tasks; t++) most += instance->tasks[t].n_receives;
    if (!most) return;
    Shoal__Traffic *traffic = *out = calloc(most, sizeof *traffic);
    *pointers = calloc(most, sizeof **pointers);
    if (!traffic || !*pointers) return;
    for (uint32_t t = 0; t < instance->n_tasks; t++) {
        const worker_task *task = &instance->tasks[t];
        size_t first = n;
        for (uint32_t i = 0; i < task->n_receives; i++) {
            const worker_receive *receive = &task->receives[i];
            if (!receive->ended) continue; /* from a slot of this process */
            size_t at = first;
            while (at < n && traffic[at].from != receive->from) at++;
            if (at == n) {
                shoal__traffic__init(&traffic[n]);
                (*pointers)[n] = &traffic[n];
                traffic[n].from = receive->from;
                traffic[n++].to = task->slot->number;
            }
            traffic[at].bytes += receive->bytes;
            traffic[at].nanoseconds += (uint64_t)(receive->ended - receive->began);
        }
    }
    *count = n;
}

/* Tells the hub that this process's part of an instance is through. Lock held. */
static void report_done(worker *w, const worker_instance *instance) {
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
    count_traffic(instance, &traffic, &ways, &done.n_traffic);
    done.traffic = ways;
    if (w->hub && wire_send(w->hub, SHOAL__KIND__DONE, &done.base) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    free(times);
    free(pointers);
    free(traffic);
    free(ways);
}

void worker_instance_refuse(worker *w, worker_instance *instance, shoal_status status,
                            const char *message) {
    instance->status = status;
    report_failure(w, instance->id, status, message, 0);
    if (base_map_set(&w->cancelled, instance->id, w) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    base_map_remove(&w->instances, instance->id);
    report_done(w, instance);
    worker_instance_free(w, instance);
}

/* A task is through, well or not. Lock held. */
static void task_done(worker_task *task) {
    worker *w = task->slot->worker;
    worker_instance *instance = task->instance;
    task_outputs(task);
    task->state = TASK_DONE;
    if (++instance->n_done < instance->n_tasks) return;
    if (instance->status != SHOAL_OK &&
        base_map_set(&w->cancelled, instance->id, instance) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    base_map_remove(&w->instances, instance->id);
    report_done(w, instance);
    worker_instance_free(w, instance);
}

void worker_instance_cancel(worker *w, uint64_t id, shoal_status status, const char *message,
                            uint32_t unreachable) {
    worker_slot *home = NULL;
    pthread_mutex_lock(&w->lock);
    worker_instance *instance = base_map_get(&w->instances, id);
    if (instance && instance->known) {
        instance_fail(w, instance, status, message, unreachable);
        for (uint32_t i = 0; i < instance->n_tasks; i++)
            if (instance->tasks[i].slot->home) home = instance->tasks[i].slot;
    } else {
        /* Our part is over, but for what could not be delivered: who waits for it cannot know. */
        if (unreachable) report_failure(w, id, status, message, unreachable);
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
    const worker_slot *slot = context;
    return slot->device.backend->supports(slot->handle, g, node);
}

/* Puts primitives in the place of the composites for which the device has no kernel. What a
 * composite and the gradient of it have in common is there twice then: once is enough. */
static shoal_status decompose(worker_slot *slot, worker_step *step) {
    if (!graph_has_composites(graph_data(step->graph), supports, slot)) return SHOAL_OK;
    graph *plain, *simple = NULL;
    SHOAL_TRY(graph_new(0, &plain));
    shoal_status status = graph_decompose(graph_data(step->graph), supports, slot, plain);
    if (status == SHOAL_OK) status = graph_new(0, &simple);
    if (status == SHOAL_OK) status = graph_rewrite(graph_data(plain), NULL, NULL, simple);
    graph_destroy(&plain);
    graph_destroy(status == SHOAL_OK ? &step->graph : &simple);
    if (status == SHOAL_OK) step->graph = simple;
    return status;
}

static bool dies(const worker_step *step, uint32_t value) {
    for (uint32_t i = 0; i < step->n_dead; i++)
        if (step->dead[i] == value) return true;
    return false;
}

static shoal_status compile(worker_task *task, worker_step *step) {
    SHOAL_TRY(decompose(task->slot, step));
    shoal_compile_options options = {.size = sizeof options};
    shoal_compile_report report = {.size = sizeof report};
    step->in_place = base_arena_array(&task->program->arena, int32_t, step->n_outputs);
    if (!step->in_place) return SHOAL_NO_MEMORY;
    report.in_place = step->in_place;
    shoal_status status = task->slot->device.backend->compile(
        task->slot->handle, graph_data(step->graph), &options, &report, &step->executable);
    for (uint32_t o = 0; status == SHOAL_OK && o < step->n_outputs; o++)
        if (step->in_place[o] >= 0 && !dies(step, step->inputs[step->in_place[o]]))
            step->in_place[o] = -1;
    graph_destroy(&step->graph); /* the executable has what it needs */
    return status;
}

/* The memory of output o: that of an input which ends here and nobody else holds, or fresh. */
static shoal_status output_buffer(worker_task *task, const worker_step *step, uint32_t o) {
    uint32_t value = step->outputs[o];
    size_t bytes = (size_t)base_type_bytes(&graph_data(task->program->graph)->values[value].type);
    if (step->in_place[o] >= 0) {
        uint32_t input = step->inputs[step->in_place[o]];
        worker_buffer *old = task->values[input];
        if (atomic_load(&old->refs) == 1 && old->bytes == bytes) {
            task->values[value] = worker_buffer_retain(old);
            return SHOAL_OK;
        }
    }
    return worker_buffer_new(task->slot, bytes, &task->values[value]);
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

static shoal_status compute(worker_task *task, worker_step *step) {
    if (!step->executable) {
        worker_event(task, SHOAL_EVENT_COMPILE, SHOAL_EVENT_BEGIN, 0);
        shoal_status compiled = compile(task, step);
        worker_event(task, SHOAL_EVENT_COMPILE, SHOAL_EVENT_END, 0);
        SHOAL_TRY(compiled);
    }
    for (uint32_t o = 0; o < step->n_outputs; o++) SHOAL_TRY(output_buffer(task, step, o));
    size_t n = step->n_inputs + step->n_outputs;
    shoal_binding *bindings = calloc(n + 1, sizeof *bindings);
    if (!bindings) return base_fail(SHOAL_NO_MEMORY, "no memory to run");
    for (size_t i = 0; i < n; i++) {
        uint32_t value = i < step->n_inputs ? step->inputs[i] : step->outputs[i - step->n_inputs];
        bindings[i].memory = task->values[value]->memory;
    }
    shoal_fence *fence = NULL;
    shoal_status status = base_fence_new(&fence);
    if (status == SHOAL_OK) {
        shoal_point done = {fence, 1};
        status = task->slot->device.backend->run(task->slot->handle, step->executable, bindings, n,
                                                 NULL, 0, &done, 1);
        if (status == SHOAL_OK) status = backend_host()->fence_wait(done, UINT32_MAX);
    }
    base_fence_release(&fence);
    free(bindings);
    return status;
}

/* Receives not complete that the task's current step needs: at the end, all of them. Lock held. */
static uint32_t missing(const worker_task *task) {
    const worker_program *program = task->program;
    uint32_t count = 0;
    if (task->step == program->n_steps)
        for (uint32_t s = 0; s < program->n_steps; s++) count += task->waiting[s];
    for (uint32_t i = 0; task->step < program->n_steps && i < program->steps[task->step].n_awaited;
         i++)
        count += task->waiting[program->steps[task->step].awaited[i]];
    return count;
}

/* What came for the current step is the values' alone from now on: their memory may be taken. */
static void let_go(worker_task *task) {
    const worker_step *step = &task->program->steps[task->step];
    for (uint32_t i = 0; i < task->n_receives && step->n_awaited; i++) {
        worker_receive *receive = &task->receives[i];
        bool awaited = false;
        for (uint32_t k = 0; k < step->n_awaited && !awaited; k++)
            awaited = step->awaited[k] == receive->step;
        if (!awaited) continue;
        worker_buffer_release(receive->buffer);
        receive->buffer = NULL;
    }
}

/* Waits for what the current step needs; gives up when nothing at all has come in for
 * STALL_SECONDS. Lock held. */
static shoal_status await(worker_task *task) {
    worker *w = task->slot->worker;
    uint64_t before = 0;
    int64_t since = base_now();
    bool waits = missing(task) > 0;
    shoal_status status = SHOAL_OK;
    if (waits) worker_event(task, SHOAL_EVENT_WAIT, SHOAL_EVENT_BEGIN, 0);
    while (missing(task) && task->status == SHOAL_OK && !w->stopping && status == SHOAL_OK) {
        struct timespec until = base_timespec(base_now() + BASE_SECOND);
        pthread_cond_timedwait(&w->changed, &w->lock, &until);
        uint64_t have = 0, want = 0;
        for (uint32_t i = 0; i < task->n_receives; i++) {
            have += task->receives[i].have;
            want += task->receives[i].bytes;
        }
        if (have != before) since = base_now();
        before = have;
        if (base_now() - since > STALL_SECONDS * BASE_SECOND)
            status = base_fail(SHOAL_TIMEOUT, "nothing came for %d s: %llu of %llu bytes are here",
                               STALL_SECONDS, (unsigned long long)have, (unsigned long long)want);
    }
    if (waits) worker_event(task, SHOAL_EVENT_WAIT, SHOAL_EVENT_END, 0);
    if (w->stopping) return base_fail(SHOAL_CLOSED, "the worker is ending");
    if (status == SHOAL_OK && task->status != SHOAL_OK)
        status = base_fail(task->status, "%s", task->error);
    return status;
}

/* Binds the inputs; by now everything before this task has run. Lock held. */
static shoal_status bind(worker_task *task) {
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
        worker_buffer_release(task->values[value]);
        task->values[value] = worker_buffer_retain(piece->buffer);
    }
    return SHOAL_OK;
}

static void bury(worker_task *task, const worker_step *step) {
    for (uint32_t i = 0; i < step->n_dead; i++) {
        worker_buffer_release(task->values[step->dead[i]]);
        task->values[step->dead[i]] = NULL;
    }
}

static shoal_status run_task(worker_task *task) {
    worker *w = task->slot->worker;
    pthread_mutex_lock(&w->lock);
    task->state = TASK_RUNNING;
    shoal_status status =
        task->status == SHOAL_OK ? bind(task) : base_fail(task->status, "%s", task->error);
    pthread_mutex_unlock(&w->lock);
    while (status == SHOAL_OK) {
        pthread_mutex_lock(&w->lock);
        status = await(task);
        bool ended = task->step == task->program->n_steps;
        if (status == SHOAL_OK && !ended) let_go(task);
        pthread_mutex_unlock(&w->lock);
        if (status != SHOAL_OK || ended) break;
        worker_step *step = &task->program->steps[task->step];
        if (step->exchange) {
            status = worker_exchange_send(task);
        } else if (step->n_outputs) { /* else all of it is made where it is read */
            int64_t from = base_now();
            worker_event(task, SHOAL_EVENT_COMPUTE, SHOAL_EVENT_BEGIN, from);
            status = compute(task, step);
            if (status != SHOAL_OK) status = blame(task, step, status);
            int64_t to = base_now();
            worker_event(task, SHOAL_EVENT_COMPUTE, SHOAL_EVENT_END, to);
            task->busy += (uint64_t)(to - from);
        }
        bury(task, step);
        task->step++;
    }
    return status;
}

void worker_collect_garbage(worker_slot *slot) {
    while (slot->garbage) {
        worker_program *program = slot->garbage;
        slot->garbage = program->next;
        worker_program_destroy(slot, &program);
    }
}

/* Measures and tells. Lock held, but not while measuring. */
static void measure(worker_slot *slot) {
    worker *w = slot->worker;
    worker_speed speed;
    slot->measure = false;
    pthread_mutex_unlock(&w->lock);
    base_event(&w->events, .kind = SHOAL_EVENT_MEASURE, .phase = SHOAL_EVENT_BEGIN,
               .slot = slot->number, .peer = SHOAL_NO_SLOT);
    shoal_status status = worker_speed_measure(slot, &speed);
    base_event(&w->events, .kind = SHOAL_EVENT_MEASURE, .phase = SHOAL_EVENT_END,
               .slot = slot->number, .peer = SHOAL_NO_SLOT);
    pthread_mutex_lock(&w->lock);
    Shoal__Speed message = SHOAL__SPEED__INIT;
    message.slot = slot->number;
    message.flops = speed.flops;
    message.stream = speed.stream;
    if (status == SHOAL_OK && w->hub) status = wire_send(w->hub, SHOAL__KIND__SPEED, &message.base);
    if (status != SHOAL_OK) base_log(BASE_WARN, w->name, "measuring: %s", shoal_error_message());
}

static bool has_work(void *context) {
    worker_slot *slot = context;
    return atomic_load_explicit(&slot->queued, memory_order_relaxed);
}

void *worker_executor(void *argument) {
    worker_slot *slot = argument;
    worker *w = slot->worker;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        worker_collect_garbage(slot);
        if (slot->measure) measure(slot);
        worker_task *task = slot->head;
        if (!task) {
            pthread_mutex_unlock(&w->lock);
            bool more = base_spin(has_work, slot);
            pthread_mutex_lock(&w->lock);
            if (!more && !slot->head && !slot->garbage && !slot->measure && !w->stopping)
                pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        shoal_status status = run_task(task);
        pthread_mutex_lock(&w->lock);
        if (status != SHOAL_OK && task->status == SHOAL_OK)
            base_fail_prefix(status, "worker %s: ", w->name);
        if (status != SHOAL_OK) worker_task_fail(task, status, shoal_error_message());
        slot->head = task->next;
        if (!slot->head) {
            slot->tail = &slot->head;
            atomic_store(&slot->queued, false);
        }
        task_done(task);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the memory slot ---- */

/* One stretch of the first task: true when it is through. Lock held, but not while copying. */
static bool home_step(worker_task *task) {
    worker *w = task->slot->worker;
    shoal_status status = SHOAL_OK;
    if (task->state == TASK_QUEUED) {
        task->state = TASK_RUNNING;
        if (task->status == SHOAL_OK) status = bind(task);
    }
    while (status == SHOAL_OK && task->status == SHOAL_OK) {
        if (missing(task)) return false;
        if (task->step == task->program->n_steps) break;
        const worker_step *step = &task->program->steps[task->step];
        if (!step->exchange) {
            status = base_fail(SHOAL_INTERNAL, "a client's memory cannot compute");
            break;
        }
        pthread_mutex_unlock(&w->lock);
        status = worker_exchange_send(task);
        pthread_mutex_lock(&w->lock);
        bury(task, step);
        task->step++;
    }
    if (status != SHOAL_OK) worker_task_fail(task, status, shoal_error_message());
    return true;
}

static void nothing(void *context) { (void)context; }

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
        while (slot->head && home_step(slot->head)) {
            worker_task *task = slot->head;
            slot->head = task->next;
            if (!slot->head) slot->tail = &slot->head;
            task_done(task);
            ended = true;
        }
    } while (slot->again);
    slot->advancing = false;
    pthread_cond_broadcast(&w->changed); /* see redirect */
    pthread_mutex_unlock(&w->lock);
    /* Whoever waits in worker_collect is to look again. */
    if (ended && wire_post(w->wire, nothing, NULL) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
}
