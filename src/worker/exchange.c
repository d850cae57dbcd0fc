/* Exchanges: boxes that go to and come from other slots.
 *
 * A receive is made when its program arrives, so that data can go straight to its place; data that
 * is faster than its program waits in a staged block. Sends never wait for the receiver. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/fence.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_MS = 5000, CALLED_MS = 2500 };

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

static worker_receive *instance_receive(worker_instance *instance, uint32_t channel,
                                        uint32_t ordinal, worker_task **task) {
    for (uint32_t i = 0; i < instance->n_tasks; i++) {
        *task = &instance->tasks[i];
        worker_receive *receive = receive_find(*task, channel, ordinal);
        if (receive) return receive;
    }
    return NULL;
}

/* ---- early data ---- */

/* Bytes for a program that has not arrived: kept until it does. Lock held. */
static shoal_status stage(worker *w, worker_peer *peer, worker_instance *instance,
                          const wire_transfer *transfer, uint64_t offset, const void *bytes,
                          size_t n) {
    worker_staged *staged = instance->staged;
    while (staged && (staged->peer != peer->number || staged->channel != transfer->channel ||
                      staged->ordinal != transfer->ordinal))
        staged = staged->next;
    uint64_t have = staged ? staged->data.size : 0;
    if ((staged && staged->bytes != transfer->bytes) || offset != have ||
        n > transfer->bytes - have)
        return base_fail(SHOAL_FORMAT, "data of instance %llu is out of order",
                         (unsigned long long)transfer->instance);
    if ((!staged && peer->staged >= WORKER_MAX_PIECES) ||
        n > WORKER_MAX_PEER_STAGED - peer->staged_bytes || n > WORKER_MAX_STAGED - w->staged_bytes)
        return base_fail(SHOAL_NO_MEMORY,
                         "more than %d MiB, or %d pieces, of data came before its program",
                         WORKER_MAX_PEER_STAGED >> 20, WORKER_MAX_PIECES);
    if (!staged) {
        staged = calloc(1, sizeof *staged);
        if (!staged) return base_fail(SHOAL_NO_MEMORY, "no memory for early data");
        *staged = (worker_staged){.next = instance->staged,
                                  .peer = peer->number,
                                  .channel = transfer->channel,
                                  .ordinal = transfer->ordinal,
                                  .bytes = transfer->bytes,
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
static shoal_status put(worker_receive *receive, uint64_t offset, const void *bytes, size_t n) {
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

/* All of a box is there. Lock held. */
static void complete(worker_task *task, worker_receive *receive) {
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
    worker_receive *receive = instance_receive(instance, staged->channel, staged->ordinal, &task);
    if (!receive || receive->bytes != staged->bytes || task->state == TASK_DONE ||
        !owes(w, staged->peer, receive->from) || receive->have)
        return;
    shoal_status status = put(receive, 0, staged->data.data, staged->data.size);
    if (status != SHOAL_OK) {
        worker_task_fail(task, status, shoal_error_message());
        return;
    }
    receive->have = staged->data.size;
    receive->began = staged->began;
    receive->ended = staged->ended;
    worker_event_receive(task, receive, SHOAL_EVENT_BEGIN, receive->began);
    if (receive->have == receive->bytes) complete(task, receive);
}

void worker_staged_apply(worker *w, worker_instance *instance) {
    for (const worker_staged *staged = instance->staged; staged; staged = staged->next)
        apply(w, instance, staged);
    worker_staged_drop(w, instance);
}

/* Instances whose program has not come, and will not: below the hub's mark, or too long ago. */
static void drop_early(worker *w) {
    size_t at = 0;
    uint64_t key;
    void *item;
    int64_t then = base_now() - WORKER_MAX_EARLY_S * BASE_SECOND;
    while (base_map_next(&w->instances, &at, &key, &item)) {
        worker_instance *instance = item;
        if (instance->known || (key >= w->low && instance->since > then)) continue;
        base_map_remove(&w->instances, key);
        worker_staged_drop(w, instance);
        free(instance);
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
    shoal_status status = put(receive, offset, bytes, n);
    pthread_mutex_lock(&w->lock);
    receive->busy = false;
    pthread_cond_broadcast(&w->changed);
    if (status != SHOAL_OK) return status;
    receive->have += n;
    receive->ended = base_now();
    if (receive->have == receive->bytes && task->state != TASK_DONE) complete(task, receive);
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
    worker_instance *instance = base_map_get(&w->instances, transfer->instance);
    if (peer && !instance) instance = early(w, transfer);
    if (peer && instance && !instance->known)
        status = stage(w, peer, instance, transfer, offset, bytes, n);
    else if (peer && instance)
        receive = instance_receive(instance, transfer->channel, transfer->ordinal, &task);
    if (!peer) {
        wire_link_strange(link, "data, without being a member");
    } else if (receive && !owes(w, number, receive->from)) {
        wire_link_strange(link, "data that another member owes");
    } else if (receive && task->state != TASK_DONE) { /* else it was given up meanwhile */
        if (receive->bytes != transfer->bytes || offset != receive->have ||
            n > receive->bytes - offset || !receive->buffer)
            status =
                base_fail(SHOAL_FORMAT, "a transfer of %llu bytes does not fit where it belongs",
                          (unsigned long long)transfer->bytes);
        else if (take(w, task, receive, offset, bytes, n) != SHOAL_OK)
            worker_task_fail(task, SHOAL_NO_MEMORY, shoal_error_message());
        if (task->slot->home) home = task->slot;
    }
    pthread_mutex_unlock(&w->lock);
    if (home) worker_home_advance(home);
    return status;
}

/* ---- sending ---- */

typedef struct sending {
    worker_buffer *buffer;
    unsigned char *packed; /* what was read, where the host does not reach the buffer */
    int64_t dims[SHOAL_MAX_RANK];
    base_box box;
    size_t element;
    worker *w;
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
    end_sending(s);
    worker_buffer_release(s->buffer);
    free(s->packed);
    free(s);
}

/* Calls a peer. Who cannot be called, but can call, does so once it knows that something is to come
 * (worker_peers_call): it is given the time before it is reached by way of the hub. Lock held. */
static shoal_status peer_connect(worker *w, worker_peer *peer, bool may_wait) {
    if (!peer->address) return base_fail(SHOAL_NO_MEMORY, "no memory for a peer's address");
    bool waits = may_wait && !peer->callable && peer->calls;
    shoal_status status =
        wire_connect_in(w->wire, peer->address, peer->number, waits ? CALLED_MS : 0, CONNECT_MS);
    peer->connecting = status == SHOAL_OK;
    return status;
}

void worker_peers_call(worker *w, const worker_instance *instance) {
    for (uint32_t t = 0; t < instance->n_tasks; t++)
        for (uint32_t r = 0; r < instance->tasks[t].n_receives; r++) {
            const worker_receive *receive = &instance->tasks[t].receives[r];
            worker_peer *peer = base_map_get(&w->peer_of, (uint64_t)receive->from + 1);
            if (!peer || peer->gone || peer->link || peer->connecting || peer->calls ||
                !peer->callable || receive->have == receive->bytes)
                continue;
            if (peer_connect(w, peer, false) != SHOAL_OK)
                base_log(BASE_WARN, w->name, "%s", shoal_error_message());
        }
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
            status = peer_connect(w, peer, true);
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

static worker_slot *own_slot(worker *w, uint32_t number) {
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].number == number) return &w->slots[i];
    return NULL;
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
    shoal_status status = put(receive, 0, packed, s->transfer.bytes);
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
        instance ? instance_receive(instance, s->transfer.channel, s->transfer.ordinal, &other)
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
    pthread_cond_broadcast(&w->changed);
    bool going = status == SHOAL_OK && other->state != TASK_DONE;
    if (status == SHOAL_OK) receive->have = receive->bytes;
    if (going) complete(other, receive);
    pthread_mutex_unlock(&w->lock);
    if (going && to->home) worker_home_advance(to);
    return status;
}

/* Whose box is there: what the host reaches, or what was read. */
static shoal_status send_on(sending *s, uint32_t *unreachable) {
    worker_slot *own = own_slot(s->w, s->to);
    if (!own) return peer_send(s, unreachable);
    shoal_status status = local_send(s, own);
    s->ended = true;
    sending_done(s);
    return status;
}

/* The same, later: the task may be over by now. */
static void send_later(sending *s, shoal_status status) {
    worker *w = s->w;
    uint64_t instance = s->transfer.instance;
    uint32_t unreachable = 0;
    if (status == SHOAL_OK)
        status = send_on(s, &unreachable);
    else
        sending_done(s);
    if (status != SHOAL_OK)
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
                             const shoal_move *move) {
    const shoal_type *type = &graph_data(task->program->graph)->values[step->operand].type;
    const int64_t *box = worker_move_box(step, i);
    sending *s = calloc(1, sizeof *s);
    if (!s) return base_fail(SHOAL_NO_MEMORY, "no memory to send a box");
    s->w = task->slot->worker;
    s->buffer = worker_buffer_retain(task->values[step->operand]);
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
        s->buffer->host
            ? base_fence_then(s->buffer->ready, box_ready, s)
            : worker_box_read(s->buffer, s->dims, &s->box, s->element, box_read, s);
    if (status != SHOAL_OK) sending_done(s);
    return status;
}

/* Within a slot. */
static shoal_status copy_box(worker_task *task, const worker_step *step, uint32_t i,
                             const shoal_move *move) {
    const shoal_graph *g = graph_data(task->program->graph);
    const int64_t *box = worker_move_box(step, i);
    uint32_t value = step->outputs[move->output];
    const shoal_type *from = &g->values[step->operand].type, *to = &g->values[value].type;
    const shoal_box copied = {
        step->rank, shoal_dtype_size((shoal_dtype)from->dtype), box + 2 * step->rank, to->dims,
        box + step->rank, from->dims, box};
    return worker_copy(task, value, step->operand, &copied);
}

shoal_status worker_exchange_send(worker_task *task) {
    const worker_step *step = &task->program->steps[task->step];
    for (uint32_t i = 0; i < step->n_moves; i++) {
        shoal_move move = worker_move(step, i);
        if (move.kind == SHOAL_MOVE_SEND) SHOAL_TRY(send_box(task, step, i, &move));
        if (move.kind == SHOAL_MOVE_LOCAL) SHOAL_TRY(copy_box(task, step, i, &move));
    }
    return SHOAL_OK;
}

/* ---- peers ---- */

static worker_peer *peer_entry(worker *w, uint32_t number) {
    worker_peer *peer = base_map_get(&w->peers, (uint64_t)number + 1);
    if (peer) return peer;
    peer = calloc(1, sizeof *peer);
    if (peer && base_map_set(&w->peers, (uint64_t)number + 1, peer) == SHOAL_OK) {
        peer->number = number;
        return peer;
    }
    free(peer);
    return NULL;
}

void worker_peer_free(worker_peer *peer) {
    for (size_t i = 0; i < peer->waiting.count; i++)
        peer->waiting.data[i].source.done(peer->waiting.data[i].source.context);
    free(peer->waiting.data);
    free(peer->name);
    free(peer->address);
    free(peer);
}

/* Forgets who has left, once nothing leads there. Lock held. */
static void drop_gone(worker *w, worker_peer *peer) {
    if (!peer->gone || peer->link || peer->connecting) return;
    size_t at = 0;
    uint64_t key;
    void *of;
    while (base_map_next(&w->peer_of, &at, &key, &of))
        if (of == peer) base_map_remove(&w->peer_of, key);
    base_map_remove(&w->peers, (uint64_t)peer->number + 1);
    worker_peer_free(peer);
}

/* ---- addresses ---- */

/* Names of shared memory are of use to the same user on the same machine only. */
static bool of_use(const char *address, bool same_user) {
    return !strncmp(address, "tcp:", 4) || !strncmp(address, "relay:", 6) || same_user;
}

/* A member's addresses but for those that lead nowhere from here, a list with commas. */
static char *reachable(const Shoal__PeerInfo *info, const Shoal__PeerInfo *self) {
    base_str list = {0};
    bool same = self && self->user == info->user;
    for (const char *at = info->n_addresses ? info->addresses[0] : ""; *at;) {
        int n = (int)strcspn(at, ",");
        if (of_use(at, same)) base_str_format(&list, "%s%.*s", list.size ? "," : "", n, at);
        at += n + (at[n] == ',');
    }
    if (!list.size) base_str_text(&list, "");
    return base_str_take(&list, NULL);
}

/* Whether a member has an address that another can call, beside the way by the hub. */
static bool can_call(const Shoal__PeerInfo *called, const Shoal__PeerInfo *caller) {
    bool same = caller && caller->user == called->user;
    for (const char *at = called->n_addresses ? called->addresses[0] : ""; *at;) {
        if (of_use(at, same) && strncmp(at, "relay:", 6) != 0) return true;
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return false;
}

void worker_peers_update(worker *w, const Shoal__Peers *peers) {
    pthread_mutex_lock(&w->lock);
    const Shoal__PeerInfo *self = NULL;
    for (size_t i = 0; i < peers->n_peers; i++)
        if (peers->peers[i]->peer == w->number) self = peers->peers[i];
    w->epoch = peers->epoch;
    worker_low(w, peers->low);
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&w->peers, &at, &key, &value)) {
        bool there = false;
        for (size_t i = 0; i < peers->n_peers; i++) there |= peers->peers[i]->peer + 1 == key;
        worker_peer *peer = value;
        if (there || peer->gone) continue;
        /* What it still sends, should it only have been stopped, is not for us any more. */
        peer->gone = true;
        if (peer->link) wire_close(peer->link, SHOAL_CLOSED, "it has left the pool");
        wire_relay_forget(w->wire, peer->number);
        drop_gone(w, peer);
    }
    for (size_t i = 0; i < peers->n_peers; i++) {
        const Shoal__PeerInfo *info = peers->peers[i];
        worker_peer *peer = info->peer == w->number ? NULL : peer_entry(w, info->peer);
        if (!peer) continue;
        peer->gone = false;
        if (!peer->address && !(peer->address = reachable(info, self)))
            base_log(BASE_ERROR, "worker", "no memory for the address of %s", info->name);
        peer->callable = can_call(info, self);
        peer->calls = self && can_call(self, info);
        if (!peer->name) peer->name = strdup(info->name);
        for (size_t s = 0; s < info->n_slots; s++)
            if (base_map_set(&w->peer_of, (uint64_t)info->slots[s] + 1, peer) != SHOAL_OK)
                base_log(BASE_ERROR, w->name, "%s", shoal_error_message());
    }
    pthread_mutex_unlock(&w->lock);
}

void worker_peer_opened(worker *w, wire_link *link, uint32_t number) {
    pthread_mutex_lock(&w->lock);
    worker_peer *peer = peer_entry(w, number);
    BASE_VEC(worker_outgoing) waiting = {0};
    if (peer) {
        /* Its number: a link may last longer than what we know of its other side. */
        wire_link_set(link, WIRE_WORKER, (void *)((uintptr_t)peer->number + 1));
        peer->link = link;
        peer->connecting = false;
        if (peer->gone) wire_close(link, SHOAL_CLOSED, "it has left the pool");
        memcpy(&waiting, &peer->waiting, sizeof waiting);
        memset(&peer->waiting, 0, sizeof peer->waiting);
    }
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < waiting.count; i++)
        if (wire_send_data(link, &waiting.data[i].transfer, &waiting.data[i].source) != SHOAL_OK)
            worker_instance_cancel(w, waiting.data[i].transfer.instance, SHOAL_LOST,
                                   shoal_error_message(), peer->number);
    free(waiting.data);
}

void worker_peer_closed(worker *w, worker_peer *peer, shoal_status why, const char *message) {
    char text[512];
    pthread_mutex_lock(&w->lock);
    peer->link = NULL;
    peer->connecting = false;
    snprintf(text, sizeof text, "%s was lost: %s", peer->name ? peer->name : "a peer", message);
    BASE_VEC(worker_outgoing) waiting;
    memcpy(&waiting, &peer->waiting, sizeof waiting);
    memset(&peer->waiting, 0, sizeof peer->waiting);
    /* Instances that still expect something from it cannot end. */
    BASE_VEC(uint64_t) stuck = {0};
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&w->instances, &at, &key, &value)) {
        worker_instance *instance = value;
        bool needs = false;
        for (uint32_t t = 0; t < instance->n_tasks; t++) {
            worker_task *task = &instance->tasks[t];
            for (uint32_t r = 0; r < task->n_receives && task->state != TASK_DONE; r++)
                needs |= task->receives[r].have < task->receives[r].bytes &&
                         base_map_get(&w->peer_of, (uint64_t)task->receives[r].from + 1) == peer;
        }
        if (needs && !base_vec_push(&stuck, key)) break;
    }
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < waiting.count; i++) {
        waiting.data[i].source.done(waiting.data[i].source.context);
        worker_instance_cancel(w, waiting.data[i].transfer.instance, why, text, peer->number);
    }
    for (size_t i = 0; i < stuck.count; i++)
        worker_instance_cancel(w, stuck.data[i], why, text, peer->number);
    free(waiting.data);
    free(stuck.data);
    pthread_mutex_lock(&w->lock);
    drop_gone(w, peer);
    pthread_mutex_unlock(&w->lock);
}
