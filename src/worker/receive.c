/* What comes from other slots.
 *
 * A receive is made when its program arrives, so that data can go straight to its place; data that
 * is faster than its program waits in a staged block. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- receiving ---- */

static int receive_order(const void *a, const void *b) {
    const worker_receive *x = a, *y = b;
    if (x->channel != y->channel) return x->channel < y->channel ? -1 : 1;
    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

static worker_receive *receive_find(worker_task *task, uint32_t channel, uint32_t ordinal) {
    worker_receive key = {.channel = channel, .ordinal = ordinal};
    return task->n_receives
               ? bsearch(&key, task->receives, task->n_receives, sizeof key, receive_order)
               : NULL;
}

/* Memory for the results of an exchange step that come from elsewhere; what a client expects goes
 * straight to its place. */
static shoal_status step_buffers(worker_task *task, const worker_step *step) {
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t o = 0; o < step->n_outputs; o++) {
        uint32_t value = step->outputs[o];
        size_t bytes = (size_t)base_type_bytes(&g->values[value].type);
        for (uint32_t i = 0; i < g->n_outputs && task->slot->home && !task->values[value]; i++) {
            worker_expected *expected =
                g->outputs[i] == value
                    ? base_map_get(&task->slot->worker->expected, task->outputs[i]->value)
                    : NULL;
            if (expected && expected->buffer && expected->buffer->bytes == bytes)
                task->values[value] = worker_buffer_retain(expected->buffer);
        }
        if (!task->values[value])
            SHOAL_TRY(worker_buffer_for(task->slot, bytes, &task->values[value]));
    }
    return SHOAL_OK;
}

shoal_status worker_receives_make(worker_task *task) {
    worker_program *program = task->program;
    const shoal_graph *g = graph_data(program->graph);
    task->receives = calloc(program->n_receives ? program->n_receives : 1, sizeof *task->receives);
    if (!task->receives) return base_fail(SHOAL_NO_MEMORY, "no memory for receives");
    for (uint32_t s = 0; s < program->n_steps; s++) {
        const worker_step *step = &program->steps[s];
        if (!step->exchange) continue;
        SHOAL_TRY(step_buffers(task, step));
        for (uint32_t i = 0; i < step->n_moves; i++) {
            shoal_move move = worker_move(step, i);
            if (move.kind == SHOAL_MOVE_SEND) continue;
            SHOAL_TRY(worker_buffer_expect(task->values[step->outputs[move.output]]));
            if (move.kind != SHOAL_MOVE_RECEIVE) continue;
            const int64_t *box = worker_move_box(step, i);
            uint32_t value = step->outputs[move.output];
            const shoal_type *type = &g->values[value].type;
            worker_receive *receive = &task->receives[task->n_receives++];
            receive->channel = step->channel;
            receive->ordinal = (uint32_t)move.ordinal;
            receive->from = (uint32_t)move.slot;
            task->remote |= !worker_slot_of(task->slot->worker, receive->from);
            receive->step = s;
            receive->buffer = worker_buffer_retain(task->values[value]);
            receive->element = shoal_dtype_size((shoal_dtype)type->dtype);
            receive->box.rank = step->rank;
            memcpy(receive->dims, type->dims, sizeof receive->dims);
            memcpy(receive->box.start, box + step->rank, step->rank * sizeof *box);
            memcpy(receive->box.size, box + 2 * step->rank, step->rank * sizeof *box);
            receive->bytes = (uint64_t)base_box_count(&receive->box) * receive->element;
            task->waiting[s]++;
        }
    }
    qsort(task->receives, task->n_receives, sizeof *task->receives, receive_order);
    return SHOAL_OK;
}

uint32_t worker_task_missing(const worker_task *task) {
    const worker_program *program = task->program;
    uint32_t count = 0;
    if (task->step == program->n_steps)
        for (uint32_t s = 0; s < program->n_steps; s++) count += task->waiting[s];
    for (uint32_t i = 0; task->step < program->n_steps && i < program->steps[task->step].n_awaited;
         i++)
        count += task->waiting[program->steps[task->step].awaited[i]];
    return count;
}

bool worker_task_awaits(const worker_task *task, const worker_receive *receive) {
    if (task->step == task->program->n_steps) return true;
    const worker_step *step = &task->program->steps[task->step];
    for (uint32_t k = 0; k < step->n_awaited; k++)
        if (step->awaited[k] == receive->step) return true;
    return false;
}

worker_receive *worker_receive_find(worker_instance *instance, uint32_t channel, uint32_t ordinal,
                                    worker_task **task) {
    for (uint32_t i = 0; i < instance->n_tasks; i++) {
        *task = &instance->tasks[i];
        worker_receive *receive = receive_find(*task, channel, ordinal);
        if (receive) return receive;
    }
    return NULL;
}

/* ---- early data ---- */

/* Whether a peer may have so many bytes more here that came early: who has many members has not
 * more for that. Lock held. */
static shoal_status may_stage(const worker *w, const worker_peer *peer, bool more, size_t n) {
    size_t at = 0, own = n, pieces = more;
    uint64_t key;
    void *item;
    while (base_map_next(&w->peers, &at, &key, &item)) {
        const worker_peer *other = item;
        if (other != peer && (!peer->user || other->user != peer->user)) continue;
        own += other->staged_bytes;
        pieces += other->staged;
    }
    size_t all = w->staged_bytes + n;
    if (pieces <= WORKER_MAX_PIECES && all < WORKER_MAX_STAGED &&
        own <= (WORKER_MAX_STAGED - all) / 2)
        return SHOAL_OK;
    return base_fail(SHOAL_NO_MEMORY,
                     "%zu MiB of one user's, in %zu pieces, came before the program", own >> 20,
                     pieces);
}

/* Where bytes that came early go on, or NULL; fails where they cannot be. */
static shoal_status find_staged(const worker *w, const worker_peer *peer,
                                const worker_instance *instance, const wire_transfer *transfer,
                                uint64_t offset, size_t n, worker_staged **out) {
    bool fits = offset <= transfer->bytes && n <= transfer->bytes - offset;
    *out = NULL;
    for (worker_staged *staged = instance->staged; staged; staged = staged->next) {
        if (staged->peer != peer->number || staged->channel != transfer->channel ||
            staged->ordinal != transfer->ordinal)
            continue;
        uint64_t end = staged->offset + staged->data.size;
        fits &= staged->bytes == transfer->bytes && (offset >= end || offset + n <= staged->offset);
        if (end == offset) *out = staged;
    }
    if (fits && (*out || offset % WIRE_GRAIN == 0)) return SHOAL_OK;
    return base_fail(SHOAL_FORMAT, "data of instance %llu is out of order",
                     (unsigned long long)transfer->instance);
}

/* Bytes for a program that has not arrived: kept until it does. Lock held. */
static shoal_status stage(worker *w, worker_peer *peer, worker_instance *instance,
                          const wire_transfer *transfer, uint64_t offset, const void *bytes,
                          size_t n) {
    worker_staged *staged;
    SHOAL_TRY(find_staged(w, peer, instance, transfer, offset, n, &staged));
    SHOAL_TRY(may_stage(w, peer, !staged, n));
    if (!staged) {
        staged = calloc(1, sizeof *staged);
        if (!staged) return base_fail(SHOAL_NO_MEMORY, "no memory for early data");
        *staged = (worker_staged){.next = instance->staged,
                                  .peer = peer->number,
                                  .channel = transfer->channel,
                                  .ordinal = transfer->ordinal,
                                  .bytes = transfer->bytes,
                                  .offset = offset,
                                  .began = base_now()};
        instance->staged = staged;
        peer->staged++;
    }
    base_str_bytes(&staged->data, bytes, n);
    SHOAL_TRY(base_str_status(&staged->data));
    w->staged_bytes += n;
    peer->staged_bytes += n;
    staged->ended = base_now();
    return SHOAL_OK;
}

static void staged_free(worker *w, worker_staged *staged) {
    worker_peer *peer = base_map_get(&w->peers, (uint64_t)staged->peer + 1);
    w->staged_bytes -= staged->data.size;
    if (peer) peer->staged_bytes -= staged->data.size;
    if (peer) peer->staged--;
    base_str_fini(&staged->data);
    free(staged);
}

void worker_staged_drop(worker *w, worker_instance *instance) {
    while (instance->staged) {
        worker_staged *staged = instance->staged;
        instance->staged = staged->next;
        staged_free(w, staged);
    }
}

/* Whether a slot is of this peer: the one that owes what comes from there. Lock held. */
static bool owes(worker *w, uint32_t peer, uint32_t slot) {
    const worker_peer *of = base_map_get(&w->peer_of, (uint64_t)slot + 1);
    return of && of->number == peer;
}

/* Takes bytes of a box: straight to where they belong, or to where they wait until all have come,
 * when the host does not reach that. */
shoal_status worker_receive_put(worker_receive *receive, uint64_t offset, const void *bytes,
                                size_t n) {
    if (receive->buffer->host) {
        base_box_scatter(receive->buffer->host, bytes, receive->dims, &receive->box,
                         receive->element, offset, n);
        return SHOAL_OK;
    }
    if (!receive->staged && !(receive->staged = malloc(receive->bytes)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for a box of %llu bytes",
                         (unsigned long long)receive->bytes);
    memcpy(receive->staged + offset, bytes, n);
    return SHOAL_OK;
}

/* ---- which bytes are there ---- */

/* The grains of a piece of a box: whole ones, or the last. */
static void chunks_of(uint64_t offset, size_t n, uint64_t *from, uint64_t *to) {
    *from = offset / WIRE_GRAIN;
    *to = (offset + n + WIRE_GRAIN - 1) / WIRE_GRAIN;
}

static void set_chunks(worker_receive *receive, uint64_t offset, size_t n) {
    uint64_t at, to;
    for (chunks_of(offset, n, &at, &to); receive->chunks && at < to; at++)
        receive->chunks[at / 64] |= UINT64_C(1) << at % 64;
}

static bool has_chunk(const worker_receive *receive, uint64_t offset, size_t n) {
    uint64_t at, to;
    for (chunks_of(offset, n, &at, &to); at < to; at++)
        if (receive->chunks[at / 64] & UINT64_C(1) << at % 64) return true;
    return false;
}

/* Whether a piece has its place, and has not come before. By one path pieces come in order; by
 * several, whole grains come in any, and are marked from then on. */
static shoal_status expect_piece(worker_receive *receive, uint64_t bytes, uint64_t offset,
                                 size_t n) {
    uint64_t have = receive->have;
    bool fits = receive->buffer && bytes == receive->bytes && offset <= bytes &&
                n <= bytes - offset && (n || (!bytes && !receive->began));
    bool whole = offset % WIRE_GRAIN == 0 && (n % WIRE_GRAIN == 0 || offset + n == bytes);
    if (fits && !receive->chunks && offset == have) return SHOAL_OK;
    if (!fits || !whole || (!receive->chunks && (offset < have || have % WIRE_GRAIN)) ||
        (receive->chunks && has_chunk(receive, offset, n)))
        return base_fail(SHOAL_FORMAT, "a transfer of %llu bytes does not fit where it belongs",
                         (unsigned long long)bytes);
    if (receive->chunks) return SHOAL_OK;
    receive->chunks = calloc((size_t)(bytes / WIRE_GRAIN / 64 + 1), sizeof *receive->chunks);
    if (!receive->chunks) return base_fail(SHOAL_NO_MEMORY, "no memory for which chunks came");
    set_chunks(receive, 0, have);
    return SHOAL_OK;
}

/* All of a box is there. Lock held. */
void worker_receive_complete(worker_task *task, worker_receive *receive) {
    worker_event_receive(task, receive, SHOAL_EVENT_END, receive->ended);
    task->waiting[receive->step]--;
    if (receive->buffer->host) return;
    void *packed = receive->staged;
    receive->staged = NULL;
    /* Should it fail, who reads the buffer is told. */
    if (worker_box_write(receive->buffer, receive->dims, &receive->box, receive->element, packed) !=
        SHOAL_OK)
        base_log(BASE_WARN, task->slot->worker->name, "%s", shoal_error_message());
}

static void apply(worker *w, worker_instance *instance, const worker_staged *staged) {
    worker_task *task;
    worker_receive *receive =
        worker_receive_find(instance, staged->channel, staged->ordinal, &task);
    if (!receive || receive->bytes != staged->bytes || task->state == TASK_DONE ||
        !owes(w, staged->peer, receive->from) ||
        expect_piece(receive, staged->bytes, staged->offset, staged->data.size) != SHOAL_OK)
        return;
    bool first = !receive->have;
    shoal_status status =
        worker_receive_put(receive, staged->offset, staged->data.data, staged->data.size);
    if (status != SHOAL_OK) {
        worker_task_fail(task, status, shoal_error_message());
        return;
    }
    set_chunks(receive, staged->offset, staged->data.size);
    receive->have += staged->data.size;
    receive->first = receive->have;
    if (first || staged->ended > receive->ended) receive->timed = receive->ended = staged->ended;
    if (first || staged->began < receive->began) receive->began = staged->began;
    if (first) worker_event_receive(task, receive, SHOAL_EVENT_BEGIN, receive->began);
    if (receive->have == receive->bytes) worker_receive_complete(task, receive);
}

void worker_staged_apply(worker *w, worker_instance *instance) {
    for (const worker_staged *staged = instance->staged; staged; staged = staged->next)
        apply(w, instance, staged);
    worker_staged_drop(w, instance);
}

static void forget_early(worker *w, worker_instance *instance) {
    base_map_remove(&w->instances, instance->id);
    worker_staged_drop(w, instance);
    free(instance);
}

/* Instances whose program has not come, and will not: below the hub's mark, or too long ago. */
static void drop_early(worker *w) {
    size_t at = 0;
    uint64_t key;
    void *item;
    int64_t then = base_now() - WORKER_MAX_EARLY_S * BASE_SECOND;
    while (base_map_next(&w->instances, &at, &key, &item)) {
        worker_instance *instance = item;
        if (!instance->known && (key < w->low || instance->since <= then))
            forget_early(w, instance);
    }
}

void worker_staged_forget(worker *w, uint32_t peer) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&w->instances, &at, &key, &item)) {
        worker_instance *instance = item;
        if (instance->known || worker_loop_of(w, key)) continue;
        for (worker_staged **to = &instance->staged, *staged; (staged = *to);) {
            if (staged->peer == peer) {
                *to = staged->next;
                staged_free(w, staged);
            } else {
                to = &staged->next;
            }
        }
        if (!instance->staged) forget_early(w, instance);
    }
}

void worker_low(worker *w, uint64_t low) {
    if (low <= w->low) return;
    w->low = low;
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&w->cancelled, &at, &key, &item))
        if (key < low) base_map_remove(&w->cancelled, key);
    drop_early(w);
}

/* An instance that its program is still to come for; NULL: there is none, or no memory. Lock held.
 */
static worker_instance *early(worker *w, const wire_transfer *transfer) {
    if (transfer->instance < w->low || base_map_get(&w->cancelled, transfer->instance)) return NULL;
    worker_instance *instance = calloc(1, sizeof *instance);
    if (!instance) return NULL;
    instance->id = transfer->instance;
    instance->since = base_now();
    if (base_map_set(&w->instances, transfer->instance, instance) == SHOAL_OK) return instance;
    free(instance);
    return NULL;
}

/* ---- data ---- */

/* Bytes for a box that this peer owes. Lock held, but not while they are copied: only the pump
 * writes here, and the memory stays until it is done. */
static shoal_status take(worker *w, worker_task *task, worker_receive *receive, uint64_t offset,
                         const void *bytes, size_t n) {
    receive->busy = true;
    if (!receive->began) {
        receive->began = base_now();
        worker_event_receive(task, receive, SHOAL_EVENT_BEGIN, receive->began);
    }
    pthread_mutex_unlock(&w->lock);
    shoal_status status = worker_receive_put(receive, offset, bytes, n);
    pthread_mutex_lock(&w->lock);
    receive->busy = false;
    pthread_cond_broadcast(&w->changed);
    if (status != SHOAL_OK) return status;
    set_chunks(receive, offset, n);
    receive->have += n;
    receive->ended = base_now();
    if (receive->have == n) {
        receive->first = n;
        receive->timed = receive->ended;
    }
    if (receive->have == receive->bytes && task->state != TASK_DONE) {
        worker_receive_complete(task, receive);
        worker_pass_on(task);
    }
    return SHOAL_OK;
}

shoal_status worker_data(void *context, wire_link *link, const wire_transfer *transfer,
                         uint64_t offset, const void *bytes, size_t n) {
    worker *w = context;
    worker_slot *home = NULL;
    shoal_status status = SHOAL_OK;
    uint32_t number = wire_link_proof(link)->number;
    worker_task *task = NULL;
    worker_receive *receive = NULL;
    pthread_mutex_lock(&w->lock);
    worker_peer *peer = number ? base_map_get(&w->peers, (uint64_t)number + 1) : NULL;
    if (peer && transfer->instance >= WIRE_FILE) {
        worker_file_data(w, link, transfer, offset, bytes, n);
        pthread_mutex_unlock(&w->lock);
        return SHOAL_OK;
    }
    worker_instance *instance = base_map_get(&w->instances, transfer->instance);
    worker_loop *loop = peer && !instance ? worker_loop_of(w, transfer->instance) : NULL;
    if (loop && !worker_loop_expects(loop, number, transfer->instance))
        wire_link_strange(link, "data of a round that nobody expects from it");
    else if (loop && transfer->instance - loop->first < loop->upto)
        instance = worker_loop_round(w, loop, transfer->instance - loop->first);
    else if (peer && !instance && !loop)
        instance = early(w, transfer);
    if (peer && instance && !instance->known) {
        status = stage(w, peer, instance, transfer, offset, bytes, n);
        if (!instance->staged) forget_early(w, instance);
    } else if (peer && instance)
        receive = worker_receive_find(instance, transfer->channel, transfer->ordinal, &task);
    if (!peer) {
        wire_link_strange(link, "data, without being a member");
    } else if (receive && !owes(w, number, receive->from)) {
        wire_link_strange(link, "data that another member owes");
    } else if (receive && task->state != TASK_DONE) { /* else it was given up meanwhile */
        if (task->slot->home) home = task->slot;      /* the task may be over afterwards */
        status = expect_piece(receive, transfer->bytes, offset, n);
        bool taken = status != SHOAL_OK || take(w, task, receive, offset, bytes, n) == SHOAL_OK;
        if (!taken || status == SHOAL_NO_MEMORY) { /* not the sender's fault */
            worker_task_fail(task, SHOAL_NO_MEMORY, shoal_error_message());
            status = SHOAL_OK;
        }
    }
    pthread_mutex_unlock(&w->lock);
    if (home) worker_home_advance(home);
    return status;
}
