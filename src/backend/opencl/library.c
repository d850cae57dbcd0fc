/* The ICD loader, opened at run time; the devices it shows; what its errors mean. */
#include "backend/opencl/device.h"

#include "base/dl.h"

#include <stdlib.h>
#include <string.h>

static struct {
    pthread_once_t once;
    shoal_status status;
    char why[512];
    base_dl *library; /* stays open */
    opencl_library cl;
} loader = {.once = PTHREAD_ONCE_INIT};

/* SHOAL_OPENCL_LIBRARY names another loader, or a driver to use without one. */
static shoal_status load(opencl_library *cl) {
    const char *told = getenv("SHOAL_OPENCL_LIBRARY");
    const char *const names[] = {told && *told ? told : "libOpenCL.so.1"};
    SHOAL_TRY(base_dl_open(names, 1, &loader.library));
#define FIND(name) SHOAL_TRY(base_dl_symbol(loader.library, "cl" #name, &cl->name));
    OPENCL_FUNCTIONS(FIND)
#undef FIND
    return SHOAL_OK;
}

static void load_once(void) {
    loader.status = load(&loader.cl);
    if (loader.status)
        snprintf(loader.why, sizeof loader.why,
                 "%s; install an OpenCL loader and a driver (Debian: ocl-icd-libopencl1 and, for "
                 "processors, pocl-opencl-icd)",
                 shoal_error_message());
}

shoal_status opencl_open(const opencl_library **out) {
    pthread_once(&loader.once, load_once);
    *out = &loader.cl;
    return loader.status ? base_fail(loader.status, "%s", loader.why) : SHOAL_OK;
}

/* ---- devices ---- */

enum { MOST_PLATFORMS = 32, MOST_DEVICES = 64 };

shoal_status opencl_find(const opencl_library *cl, uint32_t index, cl_device_id *device,
                         uint32_t *count) {
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint n_platforms = 0;
    base_str names;
    *count = 0;
    *device = NULL;
    cl_int code = cl->GetPlatformIDs(MOST_PLATFORMS, platforms, &n_platforms);
    if (code != CL_SUCCESS || !n_platforms)
        return base_fail(SHOAL_NOT_FOUND,
                         "the OpenCL loader finds no driver (clGetPlatformIDs: %d): install that "
                         "of the device's vendor, or pocl-opencl-icd for processors",
                         (int)code);
    base_str_init(&names);
    if (n_platforms > MOST_PLATFORMS) n_platforms = MOST_PLATFORMS;
    for (cl_uint i = 0; i < n_platforms; i++) {
        cl_device_id devices[MOST_DEVICES];
        cl_uint n = 0;
        char name[128] = "?";
        cl->GetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
        base_str_format(&names, "%s%s", i ? ", " : "", name);
        code = cl->GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MOST_DEVICES, devices, &n);
        if (code != CL_SUCCESS) continue;
        if (n > MOST_DEVICES) n = MOST_DEVICES;
        if (index >= *count && index - *count < n) *device = devices[index - *count];
        *count += n;
    }
    shoal_status status = SHOAL_OK;
    if (!*count)
        status = base_fail(SHOAL_NOT_FOUND,
                           "no OpenCL driver has a device (%s); PoCL has none when it cannot write "
                           "its cache: then set POCL_CACHE_DIR",
                           names.data ? names.data : "?");
    else if (!*device)
        status =
            base_fail(SHOAL_NOT_FOUND, "opencl: there are %u devices, no number %u", *count, index);
    base_str_fini(&names);
    return status;
}

char *opencl_text(const opencl_library *cl, cl_device_id device, cl_device_info what, char *out,
                  size_t room) {
    char text[1024] = "";
    size_t size = 0;
    if (cl->GetDeviceInfo(device, what, sizeof text - 1, text, &size) != CL_SUCCESS) *text = 0;
    const char *from = text;
    while (*from == ' ') from++;
    snprintf(out, room, "%s", *from ? from : "?");
    return out;
}

uint64_t opencl_number(const opencl_library *cl, cl_device_id device, cl_device_info what) {
    union {
        cl_uint narrow;
        cl_ulong wide;
    } number = {.wide = 0};
    size_t size = 0;
    if (cl->GetDeviceInfo(device, what, sizeof number, &number, &size) != CL_SUCCESS) return 0;
    return size == sizeof number.narrow ? number.narrow : number.wide;
}

/* ---- errors ---- */

static const char *cause_of(cl_int code) {
    switch (code) {
    case CL_DEVICE_NOT_AVAILABLE: return "the device is not available";
    case CL_COMPILER_NOT_AVAILABLE: return "its compiler is not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "no memory for a buffer";
    case CL_OUT_OF_RESOURCES: return "out of resources";
    case CL_OUT_OF_HOST_MEMORY: return "out of host memory";
    case CL_BUILD_PROGRAM_FAILURE: return "a kernel could not be built";
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: return "what came before it failed";
    case CL_INVALID_BUFFER_SIZE: return "a buffer of this size is not allowed";
    case CL_INVALID_WORK_GROUP_SIZE: return "a group of this size is not allowed";
    default: return "the driver failed";
    }
}

static bool is_memory(cl_int code) {
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
           code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
}

shoal_status opencl_fail(const shoal_device *device, const char *function, cl_int code) {
    /* What cannot be built is no fault of the device. */
    return base_fail(is_memory(code)                    ? SHOAL_NO_MEMORY
                     : code == CL_BUILD_PROGRAM_FAILURE ? SHOAL_UNSUPPORTED
                                                        : SHOAL_LOST,
                     "opencl: %s: cl%s: %s (error %d)", device->name, function, cause_of(code),
                     (int)code);
}
