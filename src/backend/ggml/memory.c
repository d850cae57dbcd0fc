/* Memory of a device: buffers of ggml, of which those that were given back are kept, and boxes. */
#include "backend/ggml/device.h"

#include "base/box.h"

#include <stdlib.h>
#include <string.h>

/* ---- blocks ---- */

void ggml_memory_drop(void *context, void *block, size_t room) {
    shoal_device *device = context;
    device->ggml->backend_buffer_free(block);
}

/* At least a byte, since ggml has no place for nothing; in steps, so that blocks suit several
 * sizes. */
static size_t room_for(const shoal_device *device, size_t bytes) {
    size_t unit = device->alignment;
    while (unit < bytes / 8) unit *= 2;
    return bytes / unit * unit + unit;
}

shoal_status ggml_memory_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    const ggml_library *ggml = device->ggml;
    size_t most = device->most ? device->most : PTRDIFF_MAX / 4;
    if (bytes > most || bytes > ggml->backend_buft_get_max_size(device->kind))
        return base_fail(SHOAL_NO_MEMORY, "ggml: %s: no memory for %zu bytes, of %zu in all",
                         device->name, bytes, most);
    shoal_memory *memory = malloc(sizeof *memory);
    if (!memory) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory for a block");
    *memory = (shoal_memory){.bytes = bytes, .room = room_for(device, bytes)};
    memory->buffer = backend_cache_take(&device->cache, &memory->room, false);
    if (!memory->buffer)
        memory->buffer = ggml->backend_buft_alloc_buffer(device->kind, memory->room);
    if (!memory->buffer) {
        /* What is kept may be what is lacking. */
        backend_cache_clear(&device->cache);
        memory->buffer = ggml->backend_buft_alloc_buffer(device->kind, memory->room);
    }
    if (!memory->buffer) {
        free(memory);
        return base_fail(SHOAL_NO_MEMORY, "ggml: %s: no memory for %zu bytes", device->name, bytes);
    }
    memory->base = ggml->backend_buffer_get_base(memory->buffer);
    *out = memory;
    return SHOAL_OK;
}

shoal_status ggml_memory_import(shoal_device *device, const shoal_import *from,
                                shoal_memory **out) {
    return base_fail(SHOAL_UNSUPPORTED, "ggml: memory of others is copied, not imported");
}

void ggml_memory_free(shoal_device *device, shoal_memory *memory) {
    if (memory) backend_cache_keep(&device->cache, memory->buffer, memory->room);
    free(memory);
}

/* ---- moving bytes ---- */

/* Of a device with memory of its own: the bytes of a place as a tensor, by which alone ggml moves
 * them. */
typedef struct bytes_tensor {
    void *storage;
    ggml_context *context;
    ggml_tensor *tensor;
} bytes_tensor;

static void close_bytes(const shoal_device *device, bytes_tensor *bytes) {
    if (bytes->context) device->ggml->free(bytes->context);
    free(bytes->storage);
}

static shoal_status open_bytes(const shoal_device *device, shoal_binding place, size_t bytes,
                               bytes_tensor *out) {
    const ggml_library *ggml = device->ggml;
    const int64_t dims[] = {(int64_t)bytes};
    size_t room = ggml_context_bytes(ggml, 1);
    out->storage = malloc(room);
    if (!out->storage) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory to move bytes");
    out->context = ggml->init((ggml_settings){room, out->storage, true});
    if (out->context) out->tensor = ggml->new_tensor(out->context, GGML_I8, 1, dims);
    if (out->context && !ggml->backend_tensor_alloc(place.memory->buffer, out->tensor,
                                                    place.memory->base + place.offset))
        return SHOAL_OK;
    close_bytes(device, out);
    return base_fail(SHOAL_LOST, "ggml: %s: cannot move bytes", device->name);
}

shoal_status ggml_upload(shoal_device *device, shoal_binding to, const void *from, size_t bytes) {
    bytes_tensor there;
    if (!bytes) return SHOAL_OK;
    if (device->shares) {
        memcpy(to.memory->base + to.offset, from, bytes);
        return SHOAL_OK;
    }
    SHOAL_TRY(open_bytes(device, to, bytes, &there));
    device->ggml->backend_tensor_set(there.tensor, from, 0, bytes);
    close_bytes(device, &there);
    return SHOAL_OK;
}

static shoal_status download(shoal_device *device, void *to, shoal_binding from, size_t bytes) {
    bytes_tensor there;
    if (!bytes) return SHOAL_OK;
    SHOAL_TRY(open_bytes(device, from, bytes, &there));
    device->ggml->backend_tensor_get(there.tensor, to, 0, bytes);
    close_bytes(device, &there);
    return SHOAL_OK;
}

shoal_status ggml_move(shoal_device *device, shoal_binding to, shoal_binding from, size_t bytes) {
    if (device->shares) return ggml_upload(device, to, from.memory->base + from.offset, bytes);
    void *staged = malloc(bytes + 1);
    if (!staged) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory to move %zu bytes", bytes);
    shoal_status status = download(device, staged, from, bytes);
    if (!status) status = ggml_upload(device, to, staged, bytes);
    free(staged);
    return status;
}

/* ---- boxes ---- */

/* Only the span from a box's first element to its last goes over: a slice of rows is that alone. */
typedef struct span {
    size_t first, bytes;
} span;

static span span_of(const shoal_box *box, const int64_t *dims, const int64_t *start) {
    size_t first = 0, last = 0;
    for (uint32_t i = 0; i < box->rank; i++) {
        if (!box->size[i]) return (span){0, 0};
        first = first * (size_t)dims[i] + (size_t)start[i];
        last = last * (size_t)dims[i] + (size_t)(start[i] + box->size[i] - 1);
    }
    return (span){first * box->element_bytes, (last - first + 1) * box->element_bytes};
}

static backend_span room_of(shoal_binding place) {
    return (backend_span){place.memory->base, place.memory->bytes, place.offset};
}

/* The address at which a tensor would begin whose span has been staged. */
static char *tensor_of(char *staged, span s) { return staged - s.first; }

static shoal_status stage(shoal_device *device, shoal_binding from, span s, char **out) {
    *out = malloc(s.bytes + 1);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory to stage %zu bytes", s.bytes);
    shoal_status status =
        download(device, *out, (shoal_binding){from.memory, from.offset + s.first}, s.bytes);
    if (status) free(*out);
    return status;
}

static void copy_box(char *to, const char *from, const shoal_box *box) {
    base_box_copy(to, box->to_dims, box->to_start, from, box->from_dims, box->from_start, box->rank,
                  box->size, box->element_bytes);
}

static shoal_status read_staged(shoal_device *device, char *to, shoal_binding from,
                                const shoal_box *box) {
    char *staged;
    SHOAL_TRY(backend_check_box(backend_host_span(to), room_of(from), box));
    span s = span_of(box, box->from_dims, box->from_start);
    SHOAL_TRY(stage(device, from, s, &staged));
    if (s.bytes) copy_box(to, tensor_of(staged, s), box);
    free(staged);
    return SHOAL_OK;
}

/* Writes a box whose elements are packed: run after run of those that lie together, as others may
 * be writing what is between them. */
static shoal_status write_runs(shoal_device *device, shoal_binding to, const char *packed,
                               const shoal_box *box) {
    span s = span_of(box, box->to_dims, box->to_start);
    int64_t steps[SHOAL_MAX_RANK], index[SHOAL_MAX_RANK] = {0};
    size_t run = box->element_bytes, at = 0;
    uint32_t outer = box->rank;
    bytes_tensor there;
    if (!s.bytes) return SHOAL_OK;
    int64_t step = (int64_t)box->element_bytes;
    for (uint32_t i = box->rank; i-- > 0; step *= box->to_dims[i]) steps[i] = step;
    while (outer > 0 && (outer == box->rank || box->size[outer] == box->to_dims[outer]))
        run *= (size_t)box->size[--outer];
    SHOAL_TRY(open_bytes(device, (shoal_binding){to.memory, to.offset + s.first}, s.bytes, &there));
    for (;;) {
        device->ggml->backend_tensor_set(there.tensor, packed, at, run);
        packed += run;
        uint32_t i = outer;
        while (i > 0 && ++index[i - 1] == box->size[i - 1]) {
            at -= (size_t)((box->size[i - 1] - 1) * steps[i - 1]);
            index[--i] = 0;
        }
        if (!i) break;
        at += (size_t)steps[i - 1];
    }
    close_bytes(device, &there);
    return SHOAL_OK;
}

static shoal_status write_staged(shoal_device *device, shoal_binding to, const char *from,
                                 const shoal_box *box) {
    static const int64_t zeros[SHOAL_MAX_RANK];
    shoal_box packing = *box;
    size_t bytes = box->element_bytes;
    packing.to_dims = box->size;
    packing.to_start = zeros;
    for (uint32_t i = 0; i < box->rank; i++) bytes *= (size_t)box->size[i];
    char *packed = malloc(bytes + 1);
    if (!packed) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory to stage %zu bytes", bytes);
    copy_box(packed, from, &packing);
    shoal_status status = write_runs(device, to, packed, box);
    free(packed);
    return status;
}

static shoal_status copy_staged(shoal_device *device, shoal_binding to, shoal_binding from,
                                const shoal_box *box) {
    char *staged;
    SHOAL_TRY(backend_check_box(room_of(to), room_of(from), box));
    span s = span_of(box, box->from_dims, box->from_start);
    SHOAL_TRY(stage(device, from, s, &staged));
    shoal_status status = s.bytes ? write_staged(device, to, tensor_of(staged, s), box) : SHOAL_OK;
    free(staged);
    return status;
}

shoal_status ggml_read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                       const shoal_points *points) {
    if (device->shares) return backend_copy_box(backend_host_span(to), room_of(from), box, points);
    shoal_status status = backend_wait_all(points);
    if (!status) status = read_staged(device, to, from, box);
    return backend_signal_all(points, status);
}

shoal_status ggml_write(shoal_device *device, shoal_binding to, const void *from,
                        const shoal_box *box, const shoal_points *points) {
    if (device->shares) return backend_copy_box(room_of(to), backend_host_span(from), box, points);
    shoal_status status = backend_wait_all(points);
    if (!status) status = backend_check_box(room_of(to), backend_host_span(from), box);
    if (!status) status = write_staged(device, to, from, box);
    return backend_signal_all(points, status);
}

shoal_status ggml_copy(shoal_device *device, shoal_binding to, shoal_binding from,
                       const shoal_box *box, const shoal_points *points) {
    if (device->shares) return backend_copy_box(room_of(to), room_of(from), box, points);
    shoal_status status = backend_wait_all(points);
    if (!status) status = copy_staged(device, to, from, box);
    return backend_signal_all(points, status);
}
