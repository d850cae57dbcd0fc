/* The cuda backend's table: which devices there are, and what they are like. */
#include "backend/cuda/device.h"

#include <stdlib.h>
#include <string.h>

static int attribute(const cuda_library *cuda, int id, int what) {
    int value = 0;
    return cuda->device_attribute(&value, what, id) ? 0 : value;
}

static uint32_t device_count(const shoal_host *host) {
    const cuda_library *cuda;
    int count = 0;
    return cuda_open(&cuda) || cuda->device_count(&count) || count < 0 ? 0 : (uint32_t)count;
}

static shoal_status find(uint32_t index, const cuda_library **cuda, int *id) {
    int count = 0;
    SHOAL_TRY(cuda_open(cuda));
    cuda_code code = (*cuda)->device_count(&count);
    if (!code && index >= (uint32_t)count)
        return base_fail(SHOAL_NOT_FOUND, "cuda: there are %d devices, no number %u", count, index);
    if (!code) code = (*cuda)->device_get(id, (int)index);
    return code ? base_fail(SHOAL_NOT_FOUND, "cuda: device %u: cuDeviceGet: %s", index,
                            cuda_error(*cuda, code))
                : SHOAL_OK;
}

static void name_of(const cuda_library *cuda, int id, char *out, int room) {
    if (cuda->device_name(out, room, id)) snprintf(out, (size_t)room, "?");
}

static uint64_t memory_of(const cuda_library *cuda, int id) {
    size_t bytes = 0;
    if (cuda->device_memory(&bytes, id)) bytes = 0;
    return gpu_memory_limit("SHOAL_CUDA_MEMORY", bytes);
}

static shoal_status device_info(const shoal_host *host, uint32_t index, shoal_device_info *out) {
    const cuda_library *cuda;
    char name[48];
    int id;
    SHOAL_TRY(find(index, &cuda, &id));
    *out = (shoal_device_info){.memory = memory_of(cuda, id),
                               .threads = (uint32_t)attribute(cuda, id, CUDA_UNITS),
                               .flags = SHOAL_DEVICE_ASYNC,
                               .alignment = GPU_ALIGN};
    name_of(cuda, id, name, sizeof name);
    snprintf(out->name, sizeof out->name, "%s, CUDA driver %d.%d%s", name, cuda->version / 1000,
             cuda->version % 1000 / 10, cuda->has_cublas ? "" : ", without cuBLAS");
    return SHOAL_OK;
}

/* What binaries depend on. */
static uint64_t identity_of(const cuda_device *d) {
    char text[256];
    snprintf(text, sizeof text, "%s\n%d\n%d\n%s\n%d", d->shared.name, d->cuda->version,
             d->cuda->nvrtc_version, d->architecture, d->is_exact);
    return base_hash(text, strlen(text));
}

/* SHOAL_CUDA_TF32=1: products of f32 may round their operands to 10 bits. */
static bool asks_for_tf32(void) {
    const char *told = getenv("SHOAL_CUDA_TF32");
    return told && !strcmp(told, "1");
}

static void describe(cuda_device *d) {
    shoal_device *device = &d->shared;
    const cuda_library *cuda = d->cuda;
    name_of(cuda, d->id, device->name, sizeof device->name);
    cuda_choose_architecture(d, attribute(cuda, d->id, CUDA_MAJOR),
                             attribute(cuda, d->id, CUDA_MINOR));
    device->dialect = fuse_dialect_cuda;
    device->multiplies = cuda->has_cublas;
    device->units = (uint32_t)attribute(cuda, d->id, CUDA_UNITS);
    device->most = memory_of(cuda, d->id);
    device->loads = 48; /* of a kernel's parameters there are 4 KiB at least */
    device->most_local = (size_t)attribute(cuda, d->id, CUDA_MOST_THREADS);
    device->local = device->most_local < 128 ? device->most_local : 128;
    d->most_pitch = (size_t)attribute(cuda, d->id, CUDA_MOST_PITCH);
    d->uses_tf32 = asks_for_tf32();
    device->identity = identity_of(d);
}

static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    const cuda_library *cuda;
    int id;
    SHOAL_TRY(find(index, &cuda, &id));
    cuda_device *d = calloc(1, sizeof *d);
    if (!d) return base_fail(SHOAL_NO_MEMORY, "cuda: no memory for a device");
    d->shared.driver = &cuda_driver;
    d->cuda = cuda;
    d->id = id;
    describe(d);
    return gpu_device_open(host, &d->shared, out);
}

const shoal_backend backend_cuda = GPU_BACKEND("cuda", "NVIDIA's GPUs, by their own driver",
                                               device_count, device_info, device_new);
