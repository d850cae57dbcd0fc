/* The opencl backend's table: which devices there are, and what they are like. */
#include "backend/cuda/cuda.h"
#include "backend/opencl/device.h"

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

static uint64_t memory_of(const opencl_library *cl, cl_device_id id) {
    return gpu_memory_limit("SHOAL_OPENCL_MEMORY",
                            opencl_number(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE));
}

/* Processors compute on the host's memory. SHOAL_OPENCL_AS=gpu: they are used as others are, with
 * memory of their own and kernels for many lanes; for tests. */
static bool is_processor(const opencl_library *cl, cl_device_id id) {
    const char *told = getenv("SHOAL_OPENCL_AS");
    cl_device_type type = 0;
    cl->GetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    return type & CL_DEVICE_TYPE_CPU && !(told && !strcmp(told, "gpu"));
}

/* NVIDIA's devices, where cuda lends them: one that is lent twice is in its own way. */
static bool is_of_cuda(const shoal_host *host, const opencl_library *cl, cl_device_id id) {
    char vendor[64];
    return strstr(opencl_text(cl, id, CL_DEVICE_VENDOR, vendor, sizeof vendor), "NVIDIA") &&
           backend_cuda.device_count(host) > 0;
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
        .flags = SHOAL_DEVICE_ASYNC |
                 (is_processor(cl, id) || is_of_cuda(host, cl, id) ? SHOAL_DEVICE_SAME_CORES : 0u) |
                 (shares_memory(cl, id) ? SHOAL_DEVICE_HOST_MEMORY | SHOAL_DEVICE_IMPORT_HOST : 0u),
        .alignment = GPU_ALIGN};
    snprintf(out->name, sizeof out->name, "%s, OpenCL driver %s",
             opencl_text(cl, id, CL_DEVICE_NAME, name, sizeof name),
             opencl_text(cl, id, CL_DRIVER_VERSION, driver, sizeof driver));
    return SHOAL_OK;
}

/* ---- opening ---- */

/* What binaries depend on. */
static uint64_t identity_of(const opencl_device *device) {
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

static void describe(opencl_device *own) {
    shoal_device *device = &own->shared;
    const opencl_library *cl = own->cl;
    cl_device_id id = own->id;
    opencl_text(cl, id, CL_DEVICE_NAME, device->name, sizeof device->name);
    bool exact =
        opencl_number(cl, id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    snprintf(own->options, sizeof own->options, "-cl-std=CL1.2 -w%s",
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
    /* Of a kernel with many registers some drivers take no larger groups. */
    device->most_local = (size_t)opencl_number(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    if (device->most_local > 256) device->most_local = 256;
    device->local = device->most_local < 128 ? device->most_local : 128;
    if (!device->local) device->local = 1;
    device->identity = identity_of(own);
}

static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    const opencl_library *cl;
    cl_device_id id;
    SHOAL_TRY(find(index, &cl, &id));
    opencl_device *device = calloc(1, sizeof *device);
    if (!device) return base_fail(SHOAL_NO_MEMORY, "opencl: no memory for a device");
    device->shared.driver = &opencl_driver;
    device->cl = cl;
    device->id = id;
    describe(device);
    return gpu_device_open(host, &device->shared, out);
}

const shoal_backend backend_opencl =
    GPU_BACKEND("opencl", "GPUs and other devices of any vendor that has an OpenCL driver",
                device_count, device_info, device_new);
