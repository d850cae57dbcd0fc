/* Opening and closing a device, whoever's driver it is. */
#include "backend/gpu/gpu.h"

#include "base/clock.h"

#include <stdlib.h>

shoal_status gpu_fail_memory(const shoal_device *device, const char *what) {
    return base_fail(SHOAL_NO_MEMORY, "%s: no memory for %s", device->driver->name, what);
}

uint64_t gpu_memory_limit(const char *variable, uint64_t bytes) {
    const char *told = getenv(variable);
    uint64_t most = told && *told ? strtoull(told, NULL, 10) << 20 : UINT64_MAX;
    return bytes < most ? bytes : most;
}

static void close_all(shoal_device *device) {
    backend_cache_fini(&device->cache);
    base_map_fini(&device->kernels);
    device->driver->close(device);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->building);
    pthread_mutex_destroy(&device->launching);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

shoal_status gpu_device_open(const shoal_host *host, shoal_device *device, shoal_device **out) {
    device->host = host;
    device->queued_end = &device->queued;
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->launching, NULL);
    pthread_mutex_init(&device->building, NULL);
    base_condition_init(&device->changed);
    base_map_init(&device->kernels);
    backend_cache_init(&device->cache, device->most / 4, gpu_memory_drop, device);
    shoal_status status = device->driver->open(device);
    if (!status && pthread_create(&device->thread, NULL, gpu_serve, device))
        status =
            base_fail(SHOAL_NO_MEMORY, "%s: no thread for %s", device->driver->name, device->name);
    if (status)
        close_all(device);
    else
        *out = device;
    return status;
}

void gpu_device_free(shoal_device *device) {
    if (!device) return;
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    pthread_join(device->thread, NULL);
    /* What the driver still owes an answer to would answer to what is gone. */
    if (!gpu_settle(device)) return;
    if (device->workspace) gpu_memory_free(device, device->workspace);
    close_all(device);
}

void *gpu_memory_host(shoal_device *device, shoal_memory *memory) {
    return device->shares ? memory->host : NULL;
}

uint64_t gpu_progress(shoal_device *device) { return atomic_load(&device->progress); }
