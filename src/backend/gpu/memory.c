/* Memory of a device. Blocks that were given back are kept for others of about that size, since
 * drivers take long to make new ones and give zeros or fresh pages. A device that computes on the
 * host's memory gets blocks of it, which both use. */
#include "backend/gpu/gpu.h"

#include "base/os_cpu.h"

#include <stdlib.h>

/* What lies in device->cache. */
typedef struct block {
    void *mem, *host;
} block;

static void free_host(void *host, size_t room) {
    if (room < BASE_PAGES_UNIT)
        free(host);
    else
        base_pages_free(host, room);
}

void gpu_memory_drop(void *context, void *kept, size_t room) {
    shoal_device *device = context;
    block *b = kept;
    device->driver->release(device, b->mem);
    if (b->host) free_host(b->host, room);
    free(b);
}

static shoal_status new_block(shoal_device *device, size_t room, block **out) {
    block *b = *out = calloc(1, sizeof *b);
    if (!b) return gpu_fail_memory(device, "a block");
    if (device->shares)
        b->host = room < BASE_PAGES_UNIT ? aligned_alloc(GPU_ALIGN, room) : base_pages_new(room);
    shoal_status status = device->shares && !b->host
                              ? gpu_fail_memory(device, "a block")
                              : device->driver->allocate(device, room, b->host, false, &b->mem);
    if (!status) return SHOAL_OK;
    if (b->host) free_host(b->host, room);
    free(b);
    *out = NULL;
    return status;
}

/* The room for so many bytes: in steps of an eighth, so that blocks suit several sizes. */
static size_t room_for(size_t bytes) {
    size_t unit = GPU_ALIGN;
    while (unit < bytes / 8) unit *= 2;
    if (unit > BASE_PAGES_UNIT || bytes > BASE_PAGES_UNIT / 2)
        unit = unit > BASE_PAGES_UNIT ? unit : BASE_PAGES_UNIT;
    return bytes ? (bytes + unit - 1) / unit * unit : unit;
}

/* Counts the bytes, if there is room for them; waits for memory that is about to come free. */
static shoal_status reserve(shoal_device *device, size_t room) {
    int64_t since = 0;
    uint64_t seen = 0;
    bool waits = true;
    pthread_mutex_lock(&device->lock);
    while (device->freeing && !device->lost && waits && device->used + room > device->most)
        waits = gpu_wait(device, &since, &seen);
    bool fits = room <= device->most && device->used <= device->most - room;
    if (fits) device->used += room;
    size_t used = device->used;
    pthread_mutex_unlock(&device->lock);
    return fits ? SHOAL_OK
                : base_fail(SHOAL_NO_MEMORY, "%s: %s: no memory for %zu bytes: %zu of %zu used",
                            device->driver->name, device->name, room, used, device->most);
}

static void unreserve(shoal_device *device, size_t room) {
    pthread_mutex_lock(&device->lock);
    device->used -= room;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
}

/* What the driver has not, it may have once all that is kept is given back. */
static shoal_status take_block(shoal_device *device, size_t *room, block **out) {
    *out = backend_cache_take(&device->cache, room, false);
    if (*out) return SHOAL_OK;
    shoal_status status = new_block(device, *room, out);
    if (status != SHOAL_NO_MEMORY) return status;
    backend_cache_clear(&device->cache);
    return new_block(device, *room, out);
}

shoal_status gpu_memory_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    if (device->lost) return gpu_fail_lost(device);
    size_t room = bytes < SIZE_MAX / 2 ? room_for(bytes) : SIZE_MAX, asked = room;
    SHOAL_TRY(reserve(device, room));
    shoal_memory *memory = calloc(1, sizeof *memory);
    block *b = NULL;
    shoal_status status =
        memory ? take_block(device, &room, &b) : gpu_fail_memory(device, "a block");
    if (status) {
        unreserve(device, asked);
        free(memory);
        return status;
    }
    *memory = (shoal_memory){.device = device,
                             .mem = b->mem,
                             .bytes = bytes,
                             .room = room,
                             .asked = asked,
                             .host = b->host,
                             .block = b};
    atomic_init(&memory->refs, 1);
    *out = memory;
    return SHOAL_OK;
}

shoal_status gpu_memory_import(shoal_device *device, const shoal_import *from, shoal_memory **out) {
    if (!device->shares || (uintptr_t)from->data % GPU_ALIGN || !from->bytes)
        return base_fail(SHOAL_UNSUPPORTED,
                         "%s: %s takes host memory over only where it computes on it, and "
                         "aligned to %d bytes",
                         device->driver->name, device->name, GPU_ALIGN);
    shoal_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return gpu_fail_memory(device, "a block");
    void *mem;
    shoal_status status =
        device->driver->allocate(device, from->bytes, from->data, from->read_only, &mem);
    if (status) {
        free(memory);
        return status;
    }
    *memory =
        (shoal_memory){.device = device, .mem = mem, .bytes = from->bytes, .host = from->data};
    atomic_init(&memory->refs, 1);
    *out = memory;
    return SHOAL_OK;
}

shoal_memory *gpu_memory_retain(shoal_memory *memory) {
    atomic_fetch_add(&memory->refs, 1);
    return memory;
}

void gpu_memory_release(shoal_memory *memory) {
    if (!memory || atomic_fetch_sub(&memory->refs, 1) != 1) return;
    shoal_device *device = memory->device;
    if (memory->block)
        backend_cache_keep(&device->cache, memory->block, memory->room);
    else
        device->driver->release(device, memory->mem);
    pthread_mutex_lock(&device->lock);
    device->used -= memory->asked;
    device->freeing -= memory->given_back;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    free(memory);
}

void gpu_memory_free(shoal_device *device, shoal_memory *memory) {
    if (!memory) return;
    pthread_mutex_lock(&device->lock);
    memory->given_back = true;
    device->freeing++;
    pthread_mutex_unlock(&device->lock);
    gpu_memory_release(memory);
}
