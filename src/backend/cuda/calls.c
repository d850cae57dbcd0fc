/* The calls of CUDA's driver, as backend/gpu makes them: opening, memory and the line. */
#include "backend/cuda/device.h"

#include <stdlib.h>

/* What cannot be loaded is no fault of the device. */
static shoal_status meaning(cuda_code code) {
    switch (code) {
    case CUDA_OUT_OF_MEMORY:
    case CUDA_LAUNCH_OUT_OF_RESOURCES: return SHOAL_NO_MEMORY;
    case CUDA_INVALID_IMAGE:
    case CUDA_NO_BINARY:
    case CUDA_INVALID_PTX:
    case CUDA_UNSUPPORTED_PTX: return SHOAL_UNSUPPORTED;
    default: return SHOAL_LOST;
    }
}

shoal_status cuda_fail(const shoal_device *device, const char *function, cuda_code code) {
    const cuda_library *cuda = ((const cuda_device *)device)->cuda;
    return base_fail(meaning(code), "cuda: %s: %s: %s", device->name, function,
                     cuda_error(cuda, code));
}

static shoal_status result(shoal_device *device, const char *function, cuda_code code) {
    return code ? cuda_fail(device, function, code) : SHOAL_OK;
}

static void *pointer(cuda_address address) { return (void *)(uintptr_t)address; }

static cuda_address address(gpu_spot s) { return (cuda_address)(uintptr_t)s.mem + s.at; }

/* ---- opening ---- */

static shoal_status open_streams(cuda_device *d) {
    const cuda_library *cuda = d->cuda;
    cuda_code code = CUDA_SUCCESS;
    for (int i = 0; i < 2 && !code; i++)
        code = cuda->stream_new(&d->lanes[i].stream, CUDA_STREAM_NON_BLOCKING);
    if (code) return cuda_fail(&d->shared, "cuStreamCreate", code);
    for (int i = 0; i < 2 && !code; i++)
        code = cuda->event_new(&d->copied[i], CUDA_EVENT_BLOCKING | CUDA_EVENT_UNTIMED);
    if (code) return cuda_fail(&d->shared, "cuEventCreate", code);
    void *pinned = NULL;
    code = cuda->host_new(&pinned, 2 * (size_t)CUDA_HALF, CUDA_HOST_PORTABLE);
    d->pinned = pinned;
    if (code) return cuda_fail(&d->shared, "cuMemHostAlloc", code);
    return d->shared.multiplies ? cuda_products_open(d) : SHOAL_OK;
}

static shoal_status open_all(shoal_device *device) {
    cuda_device *d = (cuda_device *)device;
    cuda_code code = d->cuda->context_retain(&d->context, d->id);
    if (code) {
        d->context = NULL;
        return cuda_fail(device, "cuDevicePrimaryCtxRetain", code);
    }
    cuda_enter(device);
    shoal_status status = open_streams(d);
    cuda_leave(d, CUDA_SUCCESS);
    if (!status) status = cuda_lane_open(d, GPU_LINE);
    if (!status) status = cuda_lane_open(d, GPU_MOVES);
    return status;
}

static void close_all(shoal_device *device) {
    cuda_device *d = (cuda_device *)device;
    const cuda_library *cuda = d->cuda;
    if (!d->context) return;
    for (int i = 0; i < 2; i++)
        if (d->lanes[i].started) cuda_lane_close(&d->lanes[i]);
    cuda_enter(device);
    if (d->cublas) cuda->cublas.destroy(d->cublas);
    if (d->pinned) cuda->host_free(d->pinned);
    for (int i = 0; i < 2; i++) {
        if (d->copied[i]) cuda->event_free(d->copied[i]);
        if (d->lanes[i].stream) cuda->stream_free(d->lanes[i].stream);
    }
    cuda_leave(d, CUDA_SUCCESS);
    cuda->context_release(d->id);
}

/* ---- memory ---- */

static shoal_status allocate(shoal_device *device, size_t bytes, void *host, bool read_only,
                             void **mem) {
    cuda_device *d = cuda_enter(device);
    cuda_address made = 0;
    cuda_code code = cuda_leave(d, d->cuda->memory_new(&made, bytes));
    *mem = pointer(made);
    return result(device, "cuMemAlloc", code);
}

static void release(shoal_device *device, void *mem) {
    cuda_device *d = cuda_enter(device);
    cuda_leave(d, d->cuda->memory_free((cuda_address)(uintptr_t)mem));
}

static shoal_status copy(shoal_device *device, gpu_spot to, gpu_spot from, size_t bytes) {
    cuda_device *d = cuda_enter(device);
    return result(
        device, "cuMemcpyDtoDAsync",
        cuda_leave(d, d->cuda->copy(address(to), address(from), bytes, d->lanes[GPU_LINE].stream)));
}

/* ---- launches ---- */

static shoal_status launch(shoal_device *device, void *kernel, const gpu_spot *args,
                           uint32_t n_args, int64_t number, const size_t *global,
                           const size_t *local) {
    cuda_address *places = malloc((n_args + (size_t)1) * sizeof *places);
    void **arguments = malloc((n_args + (size_t)1) * sizeof *arguments);
    shoal_status status = SHOAL_OK;
    if (places && arguments) {
        for (uint32_t i = 0; i < n_args; i++) {
            places[i] = address(args[i]);
            arguments[i] = &places[i];
        }
        arguments[n_args] = &number;
        cuda_device *d = cuda_enter(device);
        cuda_code code =
            d->cuda->launch(kernel, (unsigned)(global[0] / local[0]),
                            (unsigned)(global[1] / local[1]), 1, (unsigned)local[0],
                            (unsigned)local[1], 1, 0, d->lanes[GPU_LINE].stream, arguments, NULL);
        status = result(device, "cuLaunchKernel", cuda_leave(d, code));
    } else {
        status = gpu_fail_memory(device, "a launch");
    }
    free(arguments);
    free(places);
    return status;
}

/* Streams begin by themselves, and functions go with their module. */
static void flush(shoal_device *device, gpu_queue queue) {}
static void forget(shoal_device *device, void *kernel) {}

static const char *source_of(const shoal_operation *operation) {
    return operation->size >= sizeof *operation ? operation->cuda : NULL;
}

const gpu_driver cuda_driver = {.name = "cuda",
                                .open = open_all,
                                .close = close_all,
                                .allocate = allocate,
                                .release = release,
                                .move = cuda_move,
                                .copy = copy,
                                .build = cuda_build,
                                .load = cuda_load,
                                .binary = cuda_binary,
                                .unload = cuda_unload,
                                .kernel = cuda_kernel,
                                .forget = forget,
                                .launch = launch,
                                .multiply = cuda_multiply,
                                .ask = cuda_ask,
                                .flush = flush,
                                .finish = cuda_finish,
                                .source_of = source_of};
