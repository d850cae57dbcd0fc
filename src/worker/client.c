/* What a client asks of its worker: values in its own memory, offered and expected. */
#include "worker/state.h"

#include <stdlib.h>

shoal_status worker_offer(worker *w, uint64_t value, const shoal_type *type, const void *data,
                          void (*release)(void *context), void *context) {
    worker_buffer *buffer;
    SHOAL_TRY(
        worker_buffer_wrap((void *)data, (size_t)base_type_bytes(type), release, context, &buffer));
    pthread_mutex_lock(&w->lock);
    worker_piece *piece = worker_piece_add(&w->slots[w->n_slots - 1], value);
    if (piece) piece->buffer = buffer;
    pthread_mutex_unlock(&w->lock);
    if (!piece) worker_buffer_release(buffer);
    return piece ? SHOAL_OK : SHOAL_NO_MEMORY;
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

/* The reader's memory is being taken back: what is still to come goes to memory of our own, so that
 * the instance, which others may need, ends as it would have. Lock held. */
static shoal_status redirect(worker *w, worker_buffer *from) {
    worker_slot *home = &w->slots[w->n_slots - 1];
    while (home->advancing) pthread_cond_wait(&w->changed, &w->lock);
    worker_buffer *to = NULL;
    for (worker_task *task = home->head; task; task = task->next) {
        for (uint32_t v = 0; v < graph_data(task->program->graph)->n_values; v++) {
            if (!task->values || task->values[v] != from) continue;
            if (!to) SHOAL_TRY(worker_buffer_new(&home->own, from->bytes, &to));
            worker_buffer_release(from);
            task->values[v] = worker_buffer_retain(to);
        }
        for (uint32_t i = 0; i < task->n_receives; i++) {
            worker_receive *receive = &task->receives[i];
            while (receive->busy) pthread_cond_wait(&w->changed, &w->lock);
            if (receive->buffer != from) continue;
            worker_buffer_release(from);
            receive->buffer = worker_buffer_retain(to);
        }
    }
    worker_buffer_release(to);
    return SHOAL_OK;
}

shoal_status worker_collect(worker *w, uint64_t value, shoal_status otherwise) {
    shoal_status status = otherwise;
    pthread_mutex_lock(&w->lock);
    worker_expected *expected = base_map_remove(&w->expected, value);
    if (!expected) {
        status = base_fail(SHOAL_INTERNAL, "nothing is expected");
    } else {
        if (expected->done)
            status = SHOAL_OK;
        else if (redirect(w, expected->buffer) != SHOAL_OK)
            status = SHOAL_NO_MEMORY;
        worker_piece_forget(&w->slots[w->n_slots - 1], value);
        worker_buffer_release(expected->buffer);
        free(expected);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}
