/* Where a task's values lie: on the slot's device, or beside it. */
#include "worker/state.h"

#include "base/fence.h"

#include <stdlib.h>
#include <string.h>

static shoal_status wait_ready(const worker_task *task, const worker_buffer *buffer) {
    if (!buffer->ready.fence) return SHOAL_OK;
    return worker_queue_wait(buffer->queue, buffer->ready, &task->ended);
}

static void drop(void *packed, shoal_status status) { free(packed); }

/* Packs a box of a device's memory, and waits until it is there. */
static shoal_status read_now(const worker_task *task, const worker_buffer *from,
                             const shoal_box *box, size_t bytes, void **out) {
    static const int64_t zeros[SHOAL_MAX_RANK];
    worker_queue *queue = from->queue;
    shoal_fence *fence = NULL;
    *out = malloc(bytes + 1);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    shoal_status status = base_fence_new(&fence);
    shoal_point done = {fence, 1};
    shoal_points points = {&from->ready, 1, &done, 1};
    shoal_box packed = *box;
    packed.to_dims = box->size;
    packed.to_start = zeros;
    if (status == SHOAL_OK)
        status = queue->backend->read(queue->handle, *out, (shoal_binding){from->memory, 0},
                                      &packed, &points);
    bool begun = status == SHOAL_OK;
    if (begun) status = worker_queue_wait(queue, done, &task->ended);
    worker_queue_ended(queue, status);
    if (status != SHOAL_OK) {
        /* A device that is still at it writes there yet, and reaches the point then. */
        if (!begun || base_fence_reached(done))
            free(*out);
        else if (base_fence_then(done, drop, *out) != SHOAL_OK)
            base_fence_retain(fence);
        *out = NULL;
    }
    base_fence_release(&fence);
    return status;
}

shoal_status worker_stops(worker_task *task, uint32_t output, bool *stops) {
    const shoal_graph *g = graph_data(task->program->graph);
    const worker_buffer *buffer = task->values[g->outputs[output]];
    void *packed = NULL;
    if (buffer->host) {
        SHOAL_TRY(wait_ready(task, buffer));
        *stops = *buffer->host;
        return SHOAL_OK;
    }
    static const int64_t one[] = {1}, zero[] = {0};
    const shoal_box box = {1, 1, one, one, zero, one, zero};
    SHOAL_TRY(read_now(task, buffer, &box, 1, &packed));
    *stops = *(const unsigned char *)packed;
    free(packed);
    return SHOAL_OK;
}

static base_box as_box(const shoal_box *box, const int64_t *start) {
    base_box out = {.rank = box->rank};
    memcpy(out.start, start, box->rank * sizeof *start);
    memcpy(out.size, box->size, box->rank * sizeof *start);
    return out;
}

/* The elements of a box, packed. */
static shoal_status pack(const worker_task *task, const worker_buffer *from, const shoal_box *box,
                         size_t bytes, void **out) {
    base_box source = as_box(box, box->from_start);
    if (!from->host) return read_now(task, from, box, bytes, out);
    SHOAL_TRY(wait_ready(task, from));
    *out = malloc(bytes + 1);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    base_box_gather(*out, from->host, box->from_dims, &source, box->element_bytes, 0, bytes);
    return SHOAL_OK;
}

/* From one device to another, by way of the host. */
static shoal_status copy_over(const worker_task *task, worker_buffer *to, const worker_buffer *from,
                              const shoal_box *box) {
    base_box target = as_box(box, box->to_start);
    size_t bytes = (size_t)base_box_count(&target) * box->element_bytes;
    void *packed = NULL;
    shoal_status status = pack(task, from, box, bytes, &packed);
    if (status != SHOAL_OK) {
        worker_buffer_arrived(to, status);
        return status;
    }
    if (!to->host) return worker_box_write(to, box->to_dims, &target, box->element_bytes, packed);
    base_box_scatter(to->host, packed, box->to_dims, &target, box->element_bytes, 0, bytes);
    free(packed);
    return SHOAL_OK;
}

static void arrive(void *context, shoal_status status) {
    worker_buffer_arrived(context, status);
    worker_buffer_release(context);
}

/* Within a device, in its line. */
static shoal_status copy_within(worker_buffer *to, const worker_buffer *from,
                                const shoal_box *box) {
    shoal_status status = worker_queue_copy(to->queue, to, from, box);
    if (status == SHOAL_OK) {
        status = base_fence_then(worker_queue_end(to->queue), arrive, worker_buffer_retain(to));
        if (status == SHOAL_OK) return SHOAL_OK;
        worker_buffer_release(to);
    }
    worker_buffer_arrived(to, status);
    return status;
}

/* Copies a box; the target expects it. */
static shoal_status copy(const worker_task *task, worker_buffer *to, const worker_buffer *from,
                         const shoal_box *box) {
    if (to->host && from->host) {
        SHOAL_TRY(wait_ready(task, from));
        base_box_copy(to->host, box->to_dims, box->to_start, from->host, box->from_dims,
                      box->from_start, box->rank, box->size, box->element_bytes);
        return SHOAL_OK;
    }
    return to->queue == from->queue ? copy_within(to, from, box) : copy_over(task, to, from, box);
}

shoal_status worker_copy(worker_task *task, uint32_t to, uint32_t from, const shoal_box *box) {
    return copy(task, task->values[to], task->values[from], box);
}

shoal_status worker_bring(worker_task *task, uint32_t value, worker_queue *queue) {
    static const int64_t zeros[SHOAL_MAX_RANK];
    worker_buffer *from = task->values[value], *to;
    if (from->queue == queue) return SHOAL_OK;
    int64_t bytes = (int64_t)from->bytes;
    const shoal_box all = {1, 1, &bytes, &bytes, zeros, &bytes, zeros};
    SHOAL_TRY(worker_buffer_new(queue, from->bytes, &to));
    shoal_status status = worker_buffer_expect(to);
    if (status == SHOAL_OK) status = copy(task, to, from, &all);
    if (status != SHOAL_OK) {
        worker_buffer_release(to);
        return status;
    }
    task->values[value] = to;
    worker_buffer_release(from);
    return SHOAL_OK;
}
