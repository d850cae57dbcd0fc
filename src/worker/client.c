/* What a client asks of its worker: values in its own memory, offered and expected. */
#include "worker/state.h"

#include <stdlib.h>

shoal_status worker_offer(worker *w, uint64_t value, const shoal_type *type, const void *data,
                          const model_map *map, void (*release)(void *context), void *context) {
    worker_buffer *buffer;
    SHOAL_TRY(
        worker_buffer_wrap((void *)data, (size_t)base_type_bytes(type), release, context, &buffer));
    buffer->map = map;
    pthread_mutex_lock(&w->lock);
    worker_piece *piece = worker_piece_add(&w->slots[w->n_slots - 1], value);
    if (piece) piece->buffer = buffer;
    pthread_mutex_unlock(&w->lock);
    if (!piece) worker_buffer_release(buffer);
    return piece ? SHOAL_OK : SHOAL_NO_MEMORY;
}

void worker_withdraw(worker *w, uint64_t value) {
    pthread_mutex_lock(&w->lock);
    worker_piece_forget(&w->slots[w->n_slots - 1], value);
    pthread_mutex_unlock(&w->lock);
}

shoal_status worker_expect(worker *w, uint64_t value, void *data, size_t bytes) {
    worker_expected *expected = calloc(1, sizeof *expected);
    if (!expected) return base_fail(SHOAL_NO_MEMORY, "no memory to read a value");
    shoal_status status = worker_buffer_wrap(data, bytes, NULL, NULL, &expected->buffer);
    pthread_mutex_lock(&w->lock);
    if (status == SHOAL_OK) status = base_map_set(&w->expected, value, expected);
    pthread_mutex_unlock(&w->lock);
    if (status != SHOAL_OK) {
        worker_buffer_release(expected->buffer);
        free(expected);
    }
    return status;
}

bool worker_expected_done(worker *w, uint64_t value) {
    pthread_mutex_lock(&w->lock);
    const worker_expected *expected = base_map_get(&w->expected, value);
    bool done = !expected || expected->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

/* Calls `each` with all tasks of the client's memory, also those that have failed and may be
 * written to by somebody who had begun before; true when one of them returned true. Lock held. */
static bool any_task(worker *w, bool (*each)(worker_task *task, void *context), void *context) {
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&w->instances, &at, &key, &value)) {
        worker_instance *instance = value;
        for (uint32_t i = 0; i < instance->n_tasks; i++)
            if (instance->tasks[i].slot->home && each(&instance->tasks[i], context)) return true;
    }
    return false;
}

static bool is_written(worker_task *task, void *buffer) {
    for (uint32_t i = 0; i < task->n_receives; i++)
        if (task->receives[i].busy && task->receives[i].buffer == buffer) return true;
    return false;
}

static bool has_buffer(const worker_task *task, const worker_buffer *buffer) {
    for (uint32_t v = 0; task->values && v < graph_data(task->program->graph)->n_values; v++)
        if (task->values[v] == buffer) return true;
    for (uint32_t i = 0; i < task->n_receives; i++)
        if (task->receives[i].buffer == buffer) return true;
    return false;
}

static void replace(worker_buffer **at, const worker_buffer *from, worker_buffer *to) {
    if (*at != from) return;
    worker_buffer_release(*at);
    *at = to ? worker_buffer_retain(to) : NULL;
}

typedef struct redirection {
    worker_buffer *from, *to;
    shoal_status status;
} redirection;

static bool redirect_task(worker_task *task, void *context) {
    redirection *r = context;
    if (!has_buffer(task, r->from)) return false;
    if (!r->to && r->status == SHOAL_OK && task->state != TASK_DONE)
        r->status = worker_buffer_new(&task->slot->own, r->from->bytes, &r->to);
    if (!r->to && task->state != TASK_DONE)
        worker_task_fail(task, r->status, shoal_error_message());
    for (uint32_t v = 0; task->values && v < graph_data(task->program->graph)->n_values; v++)
        replace(&task->values[v], r->from, r->to);
    for (uint32_t i = 0; i < task->n_receives; i++)
        replace(&task->receives[i].buffer, r->from, r->to);
    return false;
}

/* The reader's memory is being taken back: what is still to come goes to memory of our own, so that
 * the instance, which others may need, ends as it would have; where there is none, it fails. Lock
 * held. */
static shoal_status redirect(worker *w, worker_buffer *from) {
    worker_slot *home = &w->slots[w->n_slots - 1];
    redirection r = {.from = from};
    while (home->advancing || any_task(w, is_written, from))
        pthread_cond_wait(&w->changed, &w->lock);
    any_task(w, redirect_task, &r);
    worker_buffer_release(r.to);
    return r.status;
}

shoal_status worker_collect(worker *w, uint64_t value, shoal_status otherwise) {
    shoal_status status = otherwise;
    pthread_mutex_lock(&w->lock);
    worker_expected *expected = base_map_remove(&w->expected, value);
    if (!expected) {
        status = base_fail(SHOAL_INTERNAL, "nothing is expected");
    } else {
        /* Also when it is there: the program may be run again, after a loss, and bring it again. */
        bool kept = redirect(w, expected->buffer) == SHOAL_OK;
        if (expected->done && otherwise != SHOAL_INTERRUPTED)
            status = SHOAL_OK;
        else if (!kept)
            status = SHOAL_NO_MEMORY;
        worker_piece_forget(&w->slots[w->n_slots - 1], value);
        worker_buffer_release(expected->buffer);
        free(expected);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}
