/* Buffers and pieces: the memory that values lie in. */
#include "worker/state.h"

#include "base/fence.h"

#include <stdlib.h>
#include <string.h>

shoal_status worker_buffer_new(worker_queue *queue, size_t bytes, worker_buffer **out) {
    worker_buffer *buffer = malloc(sizeof *buffer);
    if (!buffer) return base_fail(SHOAL_NO_MEMORY, "no memory for a buffer");
    *buffer = (worker_buffer){.bytes = bytes, .queue = queue};
    atomic_init(&buffer->refs, 1);
    const shoal_backend *backend = queue->backend;
    shoal_status status;
    do {
        status = atomic_load_explicit(&queue->lost, memory_order_acquire)
                     ? base_fail(SHOAL_LOST, "%s", queue->why)
                     : backend->memory_new(queue->handle, bytes, &buffer->memory);
    } while (status == SHOAL_NO_MEMORY && worker_kept_drop(queue));
    if (status != SHOAL_OK) {
        worker_queue_note(queue, status);
        free(buffer);
        return base_fail_prefix(status, "%zu bytes on %s: ", bytes, queue->info.name);
    }
    if (queue->host) buffer->host = backend->memory_host(queue->handle, buffer->memory);
    *out = buffer;
    return SHOAL_OK;
}

shoal_status worker_buffer_for(worker_slot *slot, size_t bytes, worker_buffer **out) {
    shoal_status status = worker_buffer_new(&slot->own, bytes, out);
    return status != SHOAL_OK && slot->aside ? worker_buffer_new(slot->aside, bytes, out) : status;
}

shoal_status worker_buffer_wrap(void *data, size_t bytes, void (*release)(void *), void *context,
                                worker_buffer **out) {
    worker_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
        if (release) release(context);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a buffer");
    }
    atomic_init(&buffer->refs, 1);
    buffer->host = data;
    buffer->bytes = bytes;
    buffer->release = release;
    buffer->context = context;
    *out = buffer;
    return SHOAL_OK;
}

worker_buffer *worker_buffer_retain(worker_buffer *buffer) {
    if (buffer) atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

void worker_buffer_release(worker_buffer *buffer) {
    if (!buffer || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1) return;
    /* A device that stands still gives nothing back. */
    if (buffer->memory && !atomic_load_explicit(&buffer->queue->stuck, memory_order_relaxed))
        buffer->queue->backend->memory_free(buffer->queue->handle, buffer->memory);
    base_fence_release(&buffer->ready.fence);
    if (buffer->release) buffer->release(buffer->context);
    free(buffer);
}

/* ---- bytes that come ---- */

shoal_status worker_buffer_expect(worker_buffer *buffer) {
    if (buffer->host) return SHOAL_OK;
    if (!buffer->ready.fence) SHOAL_TRY(base_fence_new(&buffer->ready.fence));
    buffer->ready.value = 1;
    atomic_fetch_add(&buffer->arriving, 1);
    return SHOAL_OK;
}

void worker_buffer_arrived(worker_buffer *buffer, shoal_status status) {
    if (buffer->host) return;
    /* A failure reaches the point before others would reach it well. */
    if (status != SHOAL_OK) base_fence_signal(buffer->ready, status, shoal_error_message());
    if (atomic_fetch_sub(&buffer->arriving, 1) == 1)
        base_fence_signal(buffer->ready, SHOAL_OK, NULL);
}

void worker_buffer_at(worker_buffer *buffer, shoal_point point) {
    if (!point.fence) return;
    shoal_fence *old = buffer->ready.fence;
    buffer->ready = (shoal_point){base_fence_retain(point.fence), point.value};
    base_fence_release(&old);
}

shoal_status worker_buffer_fill(worker_buffer *buffer, const void *bytes, size_t n) {
    if (buffer->host) {
        memcpy(buffer->host, bytes, n);
        return SHOAL_OK;
    }
    base_box all = {.rank = 1, .size = {(int64_t)n}};
    void *packed = malloc(n + 1);
    if (!packed) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", n);
    memcpy(packed, bytes, n);
    shoal_status status = worker_buffer_expect(buffer);
    if (status == SHOAL_OK) return worker_box_write(buffer, all.size, &all, 1, packed);
    free(packed);
    return status;
}

/* ---- pieces ---- */

worker_piece *worker_piece_add(worker_slot *slot, uint64_t value) {
    worker_piece *piece = calloc(1, sizeof *piece);
    if (!piece) {
        base_fail(SHOAL_NO_MEMORY, "no memory for a value");
        return NULL;
    }
    worker_piece_forget(slot, value);
    if (base_map_set(&slot->pieces, value, piece) != SHOAL_OK) {
        free(piece);
        return NULL;
    }
    piece->refs = 1;
    piece->value = value;
    return piece;
}

void worker_piece_release(worker_piece *piece) {
    if (!piece || --piece->refs) return;
    worker_buffer_release(piece->buffer);
    free(piece->error);
    free(piece);
}

void worker_piece_forget(worker_slot *slot, uint64_t value) {
    worker_piece_release(base_map_remove(&slot->pieces, value));
}
