/* Boxes that go to other slots, once their buffers are ready. Sends never wait for the receiver,
 * nor the thread that runs programs for what it only passes on. */
#include "worker/state.h"

#include "base/fence.h"

#include <stdlib.h>
#include <string.h>

typedef struct sending {
    worker_buffer *buffer;
    unsigned char *packed; /* what was read, where the host does not reach the buffer */
    int64_t dims[SHOAL_MAX_RANK];
    base_box box;
    size_t element;
    worker *w;
    worker_instance *instance; /* stays until all that it sends has gone out */
    wire_transfer transfer;
    uint32_t from, to; /* slots */
    bool ended;        /* for the instruction log */
} sending;

/* Said before the last bytes can be seen at the other end. */
static void end_sending(sending *s) {
    if (!s->ended) worker_event_send(s->w, SHOAL_EVENT_END, &s->transfer, s->from, s->to);
    s->ended = true;
}

static void sending_read(void *context, uint64_t offset, void *to, size_t n) {
    sending *s = context;
    if (s->packed)
        memcpy(to, s->packed + offset, n);
    else
        base_box_gather(to, s->buffer->host, s->dims, &s->box, s->element, offset, n);
    if (offset + n == s->transfer.bytes) end_sending(s);
}

static void sending_done(void *context) {
    sending *s = context;
    worker *w = s->w;
    worker_instance *instance = s->instance;
    end_sending(s);
    worker_buffer_release(s->buffer);
    free(s->packed);
    free(s);
    worker_sent(w, instance);
}

/* Sends on the peer's link, or keeps it until there is one. *unreachable: the peer that is the
 * reason of a failure. */
static shoal_status peer_send(sending *s, uint32_t *unreachable) {
    worker *w = s->w;
    wire_source source = {s, sending_read, sending_done};
    pthread_mutex_lock(&w->lock);
    worker_peer *peer = base_map_get(&w->peer_of, (uint64_t)s->to + 1);
    shoal_status status = SHOAL_OK;
    if (!peer || peer->gone) {
        status = base_fail(SHOAL_LOST, "slot %u has left the pool", s->to);
    } else if (!peer->link) {
        worker_outgoing outgoing = {s->transfer, source};
        if (!base_vec_push(&peer->waiting, outgoing)) status = SHOAL_NO_MEMORY;
        if (status == SHOAL_OK && !peer->connecting) {
            status = worker_peer_connect(w, peer, true);
            if (status != SHOAL_OK) peer->waiting.count--;
        }
    } else {
        /* Under the lock, since the link lives until its `closed` handler had it. A failure has
         * called `done` already. */
        status = wire_send_data(peer->link, &s->transfer, &source);
        if (status != SHOAL_OK && status != SHOAL_NO_MEMORY) *unreachable = peer->number;
        pthread_mutex_unlock(&w->lock);
        return status;
    }
    if (peer && status != SHOAL_OK && status != SHOAL_NO_MEMORY) *unreachable = peer->number;
    pthread_mutex_unlock(&w->lock);
    if (status != SHOAL_OK) sending_done(s);
    return status;
}

/* Between memory that the host reaches: once, from place to place. */
static shoal_status copy_straight(worker_receive *receive, const sending *s) {
    base_box_copy(receive->buffer->host, receive->dims, receive->box.start, s->buffer->host,
                  s->dims, s->box.start, receive->box.rank, receive->box.size, receive->element);
    return SHOAL_OK;
}

static shoal_status copy_packed(worker_receive *receive, const sending *s) {
    unsigned char *packed = s->packed ? s->packed : malloc(s->transfer.bytes + 1);
    if (!packed) return base_fail(SHOAL_NO_MEMORY, "no memory to hand over a box");
    if (!s->packed)
        base_box_gather(packed, s->buffer->host, s->dims, &s->box, s->element, 0,
                        s->transfer.bytes);
    shoal_status status = worker_receive_put(receive, 0, packed, s->transfer.bytes);
    if (!s->packed) free(packed);
    return status;
}

/* To a slot of this very process: the bytes go straight from memory to memory. */
static shoal_status local_send(const sending *s, worker_slot *to) {
    worker *w = s->w;
    worker_task *other = NULL;
    pthread_mutex_lock(&w->lock);
    worker_instance *instance = base_map_get(&w->instances, s->transfer.instance);
    worker_receive *receive =
        instance ? worker_receive_find(instance, s->transfer.channel, s->transfer.ordinal, &other)
                 : NULL;
    if (!receive || other->slot != to || other->state == TASK_DONE || !receive->buffer ||
        receive->bytes != s->transfer.bytes) {
        pthread_mutex_unlock(&w->lock);
        /* Where the instance is over nobody wants it. */
        return receive || !instance ? SHOAL_OK
                                    : base_fail(SHOAL_INTERNAL, "nobody expects this box");
    }
    receive->busy = true;
    pthread_mutex_unlock(&w->lock);
    worker_event_receive(other, receive, SHOAL_EVENT_BEGIN, 0);
    bool straight = receive->buffer->host && !s->packed;
    shoal_status status = straight ? copy_straight(receive, s) : copy_packed(receive, s);
    worker_event_send(w, SHOAL_EVENT_END, &s->transfer, s->from, to->number);
    pthread_mutex_lock(&w->lock);
    receive->busy = false;
    bool going = status == SHOAL_OK && other->state != TASK_DONE;
    if (status == SHOAL_OK) receive->have = receive->bytes;
    if (going) worker_receive_complete(other, receive);
    if (going) worker_pass_on(other);
    worker_changed(w);
    pthread_mutex_unlock(&w->lock);
    if (going && to->home) worker_home_advance(to);
    return status;
}

/* Whose box is there: what the host reaches, or what was read. */
static shoal_status send_on(sending *s, uint32_t *unreachable) {
    worker_slot *own = worker_slot_of(s->w, s->to);
    if (!own) return peer_send(s, unreachable);
    shoal_status status = local_send(s, own);
    s->ended = true;
    sending_done(s);
    return status;
}

/* Its operand was not made, as data did not pass a check. Whose check that was shows at the end of
 * the task, which is not to wait meanwhile for who waits for this box. */
static void end_waiting(const sending *s) {
    pthread_mutex_lock(&s->w->lock);
    for (uint32_t i = 0; i < s->instance->n_tasks; i++) {
        worker_task *task = &s->instance->tasks[i];
        if (task->slot->number != s->from || task->state != TASK_RUNNING || task->unmade) continue;
        task->unmade = strdup(shoal_error_message());
        if (task->unmade)
            atomic_store(&task->ended, true);
        else
            worker_task_fail(task, SHOAL_RANGE, shoal_error_message());
    }
    worker_changed(s->w);
    pthread_mutex_unlock(&s->w->lock);
}

/* The same, later: the task may be over by now. */
static void send_later(sending *s, shoal_status status) {
    worker *w = s->w;
    uint64_t instance = s->transfer.instance;
    uint32_t unreachable = 0;
    if (status == SHOAL_RANGE) end_waiting(s);
    if (status == SHOAL_OK)
        status = send_on(s, &unreachable);
    else
        sending_done(s);
    if (status != SHOAL_OK && status != SHOAL_RANGE)
        worker_instance_cancel(w, instance, status, shoal_error_message(), unreachable);
}

static void box_ready(void *context, shoal_status status) { send_later(context, status); }

static void box_read(void *context, shoal_status status, void *packed) {
    sending *s = context;
    s->packed = packed;
    send_later(s, status);
}

/* Sends a box as soon as its buffer is ready. */
static shoal_status send_box(worker_task *task, const worker_step *step, uint32_t i,
                             const shoal_move *move, worker_buffer *operand) {
    const shoal_type *type = &graph_data(task->program->graph)->values[step->operand].type;
    const int64_t *box = worker_move_box(step, i);
    sending *s = calloc(1, sizeof *s);
    if (!s) return base_fail(SHOAL_NO_MEMORY, "no memory to send a box");
    s->w = task->slot->worker;
    s->instance = task->instance;
    atomic_fetch_add(&s->instance->sends, 1);
    s->buffer = worker_buffer_retain(operand);
    s->element = shoal_dtype_size((shoal_dtype)type->dtype);
    s->box.rank = step->rank;
    memcpy(s->dims, type->dims, sizeof s->dims);
    memcpy(s->box.start, box, step->rank * sizeof *box);
    memcpy(s->box.size, box + 2 * step->rank, step->rank * sizeof *box);
    s->from = task->slot->number;
    s->to = (uint32_t)move->slot;
    s->transfer = (wire_transfer){.instance = task->instance->id,
                                  .channel = step->channel,
                                  .ordinal = (uint32_t)move->ordinal,
                                  .bytes = (uint64_t)base_box_count(&s->box) * s->element};
    worker_event_send(s->w, SHOAL_EVENT_BEGIN, &s->transfer, s->from, s->to);
    if (s->buffer->host && !s->buffer->ready.fence) return send_on(s, &task->unreachable);
    shoal_status status =
        s->buffer->host ? base_fence_then(s->buffer->ready, box_ready, s)
                        : worker_box_read(s->buffer, s->dims, &s->box, s->element, box_read, s);
    if (status != SHOAL_OK) sending_done(s);
    return status;
}

static shoal_box local_box(const worker_task *task, const worker_step *step, uint32_t i,
                           const shoal_move *move) {
    const shoal_graph *g = graph_data(task->program->graph);
    const int64_t *box = worker_move_box(step, i);
    const shoal_type *from = &g->values[step->operand].type;
    const shoal_type *to = &g->values[step->outputs[move->output]].type;
    return (shoal_box){step->rank,
                       shoal_dtype_size((shoal_dtype)from->dtype),
                       box + 2 * step->rank,
                       to->dims,
                       box + step->rank,
                       from->dims,
                       box};
}

/* ---- exchanges whose operand is still on its way ---- */

/* Holds what it needs, as the task may have gone on. */
typedef struct worker_passing {
    struct worker_passing *next;
    uint32_t step;
    worker_buffer *operand, **outputs;
} worker_passing;

static void passing_free(const worker_task *task, worker_passing *p) {
    for (uint32_t o = 0; o < task->program->steps[p->step].n_outputs; o++)
        worker_buffer_release(p->outputs[o]);
    worker_buffer_release(p->operand);
    free(p->outputs);
    free(p);
}

void worker_passing_drop(worker_task *task) {
    while (task->passing) {
        worker_passing *p = task->passing;
        task->passing = p->next;
        passing_free(task, p);
    }
}

/* The current step is done when its operand has come. Lock held. */
static shoal_status pass_later(worker_task *task, const worker_step *step) {
    worker_passing *p = calloc(1, sizeof *p), **end = &task->passing;
    if (p) p->outputs = calloc((size_t)step->n_outputs + 1, sizeof(worker_buffer *));
    if (!p || !p->outputs) {
        free(p);
        return base_fail(SHOAL_NO_MEMORY, "no memory to pass a box on");
    }
    p->step = task->step;
    p->operand = worker_buffer_retain(task->values[step->operand]);
    for (uint32_t o = 0; o < step->n_outputs; o++)
        p->outputs[o] = worker_buffer_retain(task->values[step->outputs[o]]);
    while (*end) end = &(*end)->next;
    *end = p;
    task->waiting[p->step] += step->copies;
    return SHOAL_OK;
}

static shoal_status pass(worker_task *task, const worker_passing *p) {
    const worker_step *step = &task->program->steps[p->step];
    for (uint32_t i = 0; i < step->n_moves; i++) {
        shoal_move move = worker_move(step, i);
        if (move.kind == SHOAL_MOVE_SEND) SHOAL_TRY(send_box(task, step, i, &move, p->operand));
        if (move.kind != SHOAL_MOVE_LOCAL) continue;
        shoal_box box = local_box(task, step, i, &move);
        base_box_copy(p->outputs[move.output]->host, box.to_dims, box.to_start, p->operand->host,
                      box.from_dims, box.from_start, box.rank, box.size, box.element_bytes);
    }
    return SHOAL_OK;
}

/* Takes the first out of the list whose operand is there; NULL: there is none. */
static worker_passing *next_passing(worker_task *task) {
    worker_passing **at = &task->passing;
    if (task->status != SHOAL_OK) return NULL;
    while (*at && task->waiting[task->program->steps[(*at)->step].after]) at = &(*at)->next;
    worker_passing *found = *at;
    if (found) *at = found->next;
    return found;
}

void worker_pass_on(worker_task *task) {
    worker *w = task->slot->worker;
    worker_instance *instance = task->instance;
    if (!task->passing) return;
    instance->n_passing++;
    for (worker_passing *p; (p = next_passing(task));) {
        pthread_mutex_unlock(&w->lock);
        shoal_status status = pass(task, p);
        pthread_mutex_lock(&w->lock);
        task->waiting[p->step] -= task->program->steps[p->step].copies;
        passing_free(task, p);
        if (status != SHOAL_OK) worker_task_fail(task, status, shoal_error_message());
        worker_changed(w);
    }
    instance->n_passing--;
    worker_instance_end(w, instance);
}

/* ---- a step ---- */

static shoal_status send_now(worker_task *task, const worker_step *step) {
    for (uint32_t i = 0; i < step->n_moves; i++) {
        shoal_move move = worker_move(step, i);
        if (move.kind == SHOAL_MOVE_SEND)
            SHOAL_TRY(send_box(task, step, i, &move, task->values[step->operand]));
        if (move.kind != SHOAL_MOVE_LOCAL) continue;
        shoal_box box = local_box(task, step, i, &move);
        SHOAL_TRY(worker_copy(task, step->outputs[move.output], step->operand, &box));
    }
    return SHOAL_OK;
}

shoal_status worker_exchange_send(worker_task *task) {
    worker *w = task->slot->worker;
    const worker_step *step = &task->program->steps[task->step];
    if (step->after == SHOAL_NO_NODE) return send_now(task, step);
    pthread_mutex_lock(&w->lock);
    bool waits = task->waiting[step->after] > 0;
    shoal_status status = waits ? pass_later(task, step) : SHOAL_OK;
    pthread_mutex_unlock(&w->lock);
    return waits ? status : send_now(task, step);
}
