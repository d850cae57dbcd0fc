/* Buffers and pieces: the memory that values lie in. */
#include "worker/state.h"

#include <stdlib.h>
#include <string.h>

shoal_status worker_buffer_new(const worker_slot *slot, size_t bytes, worker_buffer **out) {
    worker_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return base_fail(SHOAL_NO_MEMORY, "no memory for a buffer");
    atomic_init(&buffer->refs, 1);
    buffer->bytes = bytes;
    buffer->slot = slot;
    const shoal_backend *backend = slot->device.backend;
    shoal_status status = backend->memory_new(slot->handle, bytes, &buffer->memory);
    void *host = NULL;
    if (status == SHOAL_OK) status = backend->memory_map(slot->handle, buffer->memory, &host);
    buffer->host = host;
    if (status != SHOAL_OK) {
        if (buffer->memory) backend->memory_free(slot->handle, buffer->memory);
        free(buffer);
        return base_fail_prefix(status, "%zu bytes on %s: ", bytes, slot->info.name);
    }
    *out = buffer;
    return SHOAL_OK;
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
    if (buffer->memory) {
        const shoal_backend *backend = buffer->slot->device.backend;
        backend->memory_unmap(buffer->slot->handle, buffer->memory);
        backend->memory_free(buffer->slot->handle, buffer->memory);
    }
    if (buffer->release) buffer->release(buffer->context);
    free(buffer);
}

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
