/* The ggml backend's table: which devices there are, and what they are like. */
#include "backend/ggml/device.h"

#include "base/os_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what there is ---- */

static uint32_t device_count(const shoal_host *host) {
    const ggml_library *ggml;
    if (ggml_open(&ggml)) return 0;
    size_t n = ggml->backend_dev_count();
    if (!n)
        base_fail(SHOAL_NOT_FOUND, "libggml %s has no device: install one of its backends",
                  ggml->version);
    return (uint32_t)n;
}

static shoal_status find(uint32_t index, const ggml_library **ggml, ggml_dev **dev) {
    SHOAL_TRY(ggml_open(ggml));
    size_t n = (*ggml)->backend_dev_count();
    if (index >= n)
        return base_fail(SHOAL_NOT_FOUND, "ggml: there are %zu devices, no number %u", n, index);
    *dev = (*ggml)->backend_dev_get(index);
    return SHOAL_OK;
}

/* SHOAL_GGML_AS=device: processors are used as others are, with memory of their own; for tests. */
static bool shares_memory(const ggml_library *ggml, ggml_dev *dev) {
    const char *told = getenv("SHOAL_GGML_AS");
    return ggml->backend_buft_is_host(ggml->backend_dev_buffer_type(dev)) &&
           !(told && !strcmp(told, "device"));
}

static size_t memory_of(const ggml_library *ggml, ggml_dev *dev) {
    size_t idle = 0, total = 0;
    ggml->backend_dev_memory(dev, &idle, &total);
    return total;
}

static size_t alignment_of(const ggml_library *ggml, ggml_dev *dev) {
    size_t needs = ggml->backend_buft_get_alignment(ggml->backend_dev_buffer_type(dev)), n = 64;
    while (n < needs) n *= 2;
    return n;
}

static void name_of(const ggml_library *ggml, ggml_dev *dev, char *out, size_t room) {
    snprintf(out, room, "%s: %s, ggml %s", ggml->backend_dev_name(dev),
             ggml->backend_dev_description(dev), ggml->version);
}

static shoal_status device_info(const shoal_host *host, uint32_t index, shoal_device_info *out) {
    const ggml_library *ggml;
    ggml_dev *dev;
    SHOAL_TRY(find(index, &ggml, &dev));
    bool on_host = ggml->backend_buft_is_host(ggml->backend_dev_buffer_type(dev));
    *out = (shoal_device_info){.memory = memory_of(ggml, dev),
                               .threads = on_host ? base_cpu_count() : 1,
                               .flags = (on_host ? SHOAL_DEVICE_SAME_CORES : 0u) |
                                        (shares_memory(ggml, dev) ? SHOAL_DEVICE_HOST_MEMORY : 0u),
                               .alignment = (uint32_t)alignment_of(ggml, dev)};
    name_of(ggml, dev, out->name, sizeof out->name);
    return SHOAL_OK;
}

/* ---- opening ---- */

enum { MOST_THREADS = 512 /* of ggml's */ };

/* Of devices that have threads, which are the host's. */
static void set_threads(const shoal_device *device, uint32_t threads) {
    void (*set)(ggml_engine *, int);
    void *found = device->ggml->backend_reg_get_proc_address(
        device->ggml->backend_dev_backend_reg(device->dev), "ggml_backend_set_n_threads");
    memcpy(&set, &found, sizeof set);
    if (!threads) threads = base_cpu_count();
    if (set) set(device->engine, (int)(threads < MOST_THREADS ? threads : MOST_THREADS));
}

static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    const ggml_library *ggml;
    ggml_dev *dev;
    SHOAL_TRY(find(index, &ggml, &dev));
    shoal_device *device = calloc(1, sizeof *device);
    if (!device) return base_fail(SHOAL_NO_MEMORY, "ggml: no memory for a device");
    device->host = host;
    device->ggml = ggml;
    device->dev = dev;
    device->kind = ggml->backend_dev_buffer_type(dev);
    device->alignment = alignment_of(ggml, dev);
    device->most = memory_of(ggml, dev);
    device->shares = shares_memory(ggml, dev);
    device->on_host = ggml->backend_buft_is_host(device->kind);
    name_of(ggml, dev, device->name, sizeof device->name);
    device->engine = ggml->backend_dev_init(dev, NULL);
    if (!device->engine) {
        shoal_status status = base_fail(SHOAL_LOST, "ggml: cannot open %s", device->name);
        free(device);
        return status;
    }
    set_threads(device, threads);
    backend_cache_init(&device->cache, device->most / 4, ggml_memory_drop, device);
    *out = device;
    return SHOAL_OK;
}

static void device_free(shoal_device *device) {
    if (!device) return;
    ggml_memory_free(device, device->workspace);
    backend_cache_fini(&device->cache);
    device->ggml->backend_free(device->engine);
    free(device);
}

static void *memory_host(shoal_device *device, shoal_memory *memory) {
    return device->shares ? memory->base : NULL;
}

const shoal_backend backend_ggml = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_backend),
    .name = "ggml",
    .summary = "the devices that libggml has drivers for",
    .device_count = device_count,
    .device_info = device_info,
    .device_new = device_new,
    .device_free = device_free,
    .memory_new = ggml_memory_new,
    .memory_import = ggml_memory_import,
    .memory_free = ggml_memory_free,
    .memory_host = memory_host,
    .read = ggml_read,
    .write = ggml_write,
    .copy = ggml_copy,
    .supports = ggml_supports,
    .compile = ggml_compile,
    .executable_free = ggml_executable_free,
    .run = ggml_run,
};
