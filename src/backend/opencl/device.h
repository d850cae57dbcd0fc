/* The driver calls of the opencl backend: any vendor's devices, by the ICD loader that the system
 * has. All that is not OpenCL's is in backend/gpu.
 *
 * Reading order: library.c (the loader, devices, errors), device.c (what a device is like, and the
 * table), calls.c (memory, queues, kernels). */
#ifndef OPENCL_DEVICE_H
#define OPENCL_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend/gpu/gpu.h"
#include "backend/opencl/opencl.h"

/* ---- library.c ---- */

/* What is called of OpenCL 1.2. */
#define OPENCL_FUNCTIONS(X)                                                                        \
    X(BuildProgram)                                                                                \
    X(CreateBuffer)                                                                                \
    X(CreateCommandQueue)                                                                          \
    X(CreateContext)                                                                               \
    X(CreateKernel)                                                                                \
    X(CreateProgramWithBinary)                                                                     \
    X(CreateProgramWithSource)                                                                     \
    X(EnqueueCopyBuffer)                                                                           \
    X(EnqueueCopyBufferRect)                                                                       \
    X(EnqueueMarkerWithWaitList)                                                                   \
    X(EnqueueNDRangeKernel)                                                                        \
    X(EnqueueReadBufferRect)                                                                       \
    X(EnqueueWriteBufferRect)                                                                      \
    X(Finish)                                                                                      \
    X(Flush)                                                                                       \
    X(GetDeviceIDs)                                                                                \
    X(GetDeviceInfo)                                                                               \
    X(GetPlatformIDs)                                                                              \
    X(GetPlatformInfo)                                                                             \
    X(GetProgramBuildInfo)                                                                         \
    X(GetProgramInfo)                                                                              \
    X(ReleaseCommandQueue)                                                                         \
    X(ReleaseContext)                                                                              \
    X(ReleaseEvent)                                                                                \
    X(ReleaseKernel)                                                                               \
    X(ReleaseMemObject)                                                                            \
    X(ReleaseProgram)                                                                              \
    X(SetEventCallback)                                                                            \
    X(SetKernelArg)

typedef struct opencl_library {
#define FIELD(name) __typeof__(cl##name) *name;
    OPENCL_FUNCTIONS(FIELD)
#undef FIELD
} opencl_library;

/* The loader's functions, found at the first call; it stays open. Fails with NOT_FOUND, saying what
 * to install. */
shoal_status opencl_open(const opencl_library **out) SHOAL_CHECK_RESULT;
/* Number `index` of all devices of all platforms, in their order; *count: how many there are. Fails
 * with NOT_FOUND, giving the reason, where there are none. */
shoal_status opencl_find(const opencl_library *cl, uint32_t index, cl_device_id *device,
                         uint32_t *count) SHOAL_CHECK_RESULT;
/* A text that the driver has about a device, "?" where it has none; returns `out`. */
char *opencl_text(const opencl_library *cl, cl_device_id device, cl_device_info what, char *out,
                  size_t room);
/* Numbers about a device, 0 where there are none. */
uint64_t opencl_number(const opencl_library *cl, cl_device_id device, cl_device_info what);
/* NO_MEMORY, LOST or, where a kernel cannot be built, UNSUPPORTED, with "NAME: FUNCTION: cause". */
shoal_status opencl_fail(const shoal_device *device, const char *function, cl_int code);

/* ---- device.c, calls.c ---- */

typedef struct opencl_device {
    shoal_device shared;
    const opencl_library *cl;
    cl_device_id id;
    cl_context context;
    cl_command_queue queues[2]; /* by gpu_queue */
    char options[128];          /* of its compiler */
} opencl_device;

extern const gpu_driver opencl_driver;

#endif
