/* The opencl backend's table: which devices there are, and what they are like. */
#include "backend/opencl/device.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- what there is ---- */

static uint32_t device_count(const shoal_host *host) {
    const opencl_library *cl;
    cl_device_id id;
    uint32_t count = 0;
    if (opencl_open(&cl) || opencl_find(cl, 0, &id, &count)) return 0;
    return count;
}

static shoal_status find(uint32_t index, const opencl_library **cl, cl_device_id *id) {
    uint32_t count;
    SHOAL_TRY(opencl_open(cl));
    return opencl_find(*cl, index, id, &count);
}

/* SHOAL_OPENCL_MEMORY, in MiB: how much of the device's memory programs may use. */
static uint64_t memory_of(const opencl_library *cl, cl_device_id id) {
    const char *told = getenv("SHOAL_OPENCL_MEMORY");
    uint64_t most = told && *told ? strtoull(told, NULL, 10) << 20 : UINT64_MAX;
    uint64_t has = opencl_number(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    return has < most ? has : most;
}

/* Processors compute on the host's memory. SHOAL_OPENCL_AS=gpu: they are used as others are, with
 * memory of their own and kernels for many lanes; for tests. */
static bool is_processor(const opencl_library *cl, cl_device_id id) {
    const char *told = getenv("SHOAL_OPENCL_AS");
    cl_device_type type = 0;
    cl->GetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return type & CL_DEVICE_TYPE_CPU && !(told && !strcmp(told, "gpu"));
}

static bool shares_memory(const opencl_library *cl, cl_device_id id) {
    return is_processor(cl, id) && opencl_number(cl, id, CL_DEVICE_HOST_UNIFIED_MEMORY);
}

static shoal_status device_info(const shoal_host *host, uint32_t index, shoal_device_info *out) {
    const opencl_library *cl;
    cl_device_id id;
    char name[64], driver[24];
    SHOAL_TRY(find(index, &cl, &id));
    *out = (shoal_device_info){
        .memory = memory_of(cl, id),
        .threads = (uint32_t)opencl_number(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS),
        .flags = SHOAL_DEVICE_ASYNC | (is_processor(cl, id) ? SHOAL_DEVICE_SAME_CORES : 0u) |
                 (shares_memory(cl, id) ? SHOAL_DEVICE_HOST_MEMORY | SHOAL_DEVICE_IMPORT_HOST : 0u),
        .alignment = OPENCL_ALIGN};
    snprintf(out->name, sizeof out->name, "%s, OpenCL driver %s",
             opencl_text(cl, id, CL_DEVICE_NAME, name, sizeof name),
             opencl_text(cl, id, CL_DRIVER_VERSION, driver, sizeof driver));
    return SHOAL_OK;
}

/* ---- opening ---- */

/* What binaries depend on. */
static uint64_t identity_of(const shoal_device *device) {
    static const cl_device_info facts[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DRIVER_VERSION,
                                           CL_DEVICE_VERSION, CL_DEVICE_EXTENSIONS};
    char text[1024];
    base_str all;
    base_str_init(&all);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        base_str_format(&all, "%s\n",
                        opencl_text(device->cl, device->id, facts[i], text, sizeof text));
    base_str_text(&all, device->options);
    uint64_t hash = base_hash(all.data ? all.data : "", all.size);
    base_str_fini(&all);
    return hash;
}

static void describe(shoal_device *device) {
    const opencl_library *cl = device->cl;
    cl_device_id id = device->id;
    char extensions[1024];
    opencl_text(cl, id, CL_DEVICE_NAME, device->name, sizeof device->name);
    opencl_text(cl, id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    bool exact =
        opencl_number(cl, id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    snprintf(device->options, sizeof device->options, "-cl-std=CL1.2 -w%s",
             exact ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    device->dialect = fuse_dialect_opencl;
    device->dialect.has_f64 = opencl_number(cl, id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    device->is_cpu = is_processor(cl, id);
    device->shares = shares_memory(cl, id);
    device->units = (uint32_t)opencl_number(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS);
    device->most = memory_of(cl, id);
    /* A buffer is a pointer and a number; a formed kernel has up to so many results, too. */
    uint64_t room = opencl_number(cl, id, CL_DEVICE_MAX_PARAMETER_SIZE);
    device->loads = room > 2048 ? 48 : room < 256 ? 6 : (uint32_t)(room / 40);
    device->most_local = (size_t)opencl_number(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    device->local = device->most_local < 128 ? device->most_local : 128;
    if (!device->local) device->local = 1;
    device->identity = identity_of(device);
}

static shoal_status open_queues(shoal_device *device) {
    const opencl_library *cl = device->cl;
    cl_int code = CL_SUCCESS;
    device->context = cl->CreateContext(NULL, 1, &device->id, NULL, NULL, &code);
    if (code) return opencl_fail(device, "CreateContext", code);
    device->line = cl->CreateCommandQueue(device->context, device->id, 0, &code);
    if (!code) device->moves = cl->CreateCommandQueue(device->context, device->id, 0, &code);
    return code ? opencl_fail(device, "CreateCommandQueue", code) : SHOAL_OK;
}

static void close_all(shoal_device *device) {
    const opencl_library *cl = device->cl;
    backend_cache_fini(&device->cache);
    base_map_fini(&device->kernels);
    if (device->line) cl->ReleaseCommandQueue(device->line);
    if (device->moves) cl->ReleaseCommandQueue(device->moves);
    if (device->context) cl->ReleaseContext(device->context);
    pthread_cond_destroy(&device->changed);
    pthread_mutex_destroy(&device->building);
    pthread_mutex_destroy(&device->launching);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    const opencl_library *cl;
    cl_device_id id;
    SHOAL_TRY(find(index, &cl, &id));
    shoal_device *device = calloc(1, sizeof *device);
    if (!device) return base_fail(SHOAL_NO_MEMORY, "opencl: no memory for a device");
    device->host = host;
    device->cl = cl;
    device->id = id;
    device->queued_end = &device->queued;
    describe(device);
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->launching, NULL);
    pthread_mutex_init(&device->building, NULL);
    base_condition_init(&device->changed);
    base_map_init(&device->kernels);
    backend_cache_init(&device->cache, device->most / 4, opencl_memory_drop, device);
    shoal_status status = open_queues(device);
    if (!status && pthread_create(&device->thread, NULL, opencl_serve, device))
        status = base_fail(SHOAL_NO_MEMORY, "opencl: no thread for %s", device->name);
    if (status)
        close_all(device);
    else
        *out = device;
    return status;
}

static void device_free(shoal_device *device) {
    if (!device) return;
    pthread_mutex_lock(&device->lock);
    device->closing = true;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    pthread_join(device->thread, NULL);
    /* What the driver still owes an answer to would answer to what is gone. */
    if (!opencl_settle(device)) return;
    if (device->workspace) opencl_memory_free(device, device->workspace);
    close_all(device);
}

static void *memory_host(shoal_device *device, shoal_memory *memory) {
    return device->shares ? memory->host : NULL;
}

static uint64_t progress(shoal_device *device) { return atomic_load(&device->progress); }

const shoal_backend backend_opencl = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_backend),
    .name = "opencl",
    .summary = "GPUs and other devices of any vendor that has an OpenCL driver",
    .device_count = device_count,
    .device_info = device_info,
    .device_new = device_new,
    .device_free = device_free,
    .memory_new = opencl_memory_new,
    .memory_import = opencl_memory_import,
    .memory_free = opencl_memory_free,
    .memory_host = memory_host,
    .read = opencl_read,
    .write = opencl_write,
    .copy = opencl_copy,
    .supports = opencl_supports,
    .compile = opencl_compile,
    .executable_free = opencl_executable_free,
    .run = opencl_run,
    .progress = progress,
};
