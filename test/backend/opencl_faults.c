/* An OpenCL loader that fails as it is told, in front of the real one: SHOAL_OPENCL_LIBRARY=…/
 * opencl_faults.so. It counts calls, and what was made and is not yet released.
 *
 * faults_tell("fail=N,how=now|late|lost|stuck"): which call fails (0: none), and how: it returns
 * that there is no memory; an event says so, when it is one that asks for an event; it returns that
 * the device is gone; the answer to an event never comes. SHOAL_OPENCL_COUNT names a file to which
 * the number of launches is written at the end of the process. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "shoal/types.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SHOAL_API void faults_tell(const char *text);
SHOAL_API unsigned long faults_calls(void);
SHOAL_API long faults_alive(void);

static unsigned long failing;
static char how[8];
static atomic_ulong calls, launches;
static atomic_long alive;

void faults_tell(const char *text) {
    const char *fail = strstr(text, "fail="), *way = strstr(text, "how=");
    if (fail) failing = strtoul(fail + 5, NULL, 10);
    if (way) snprintf(how, sizeof how, "%.*s", (int)strcspn(way + 4, ","), way + 4);
    atomic_store(&calls, 0);
}

unsigned long faults_calls(void) { return atomic_load(&calls); }
long faults_alive(void) { return atomic_load(&alive); }

__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv("SHOAL_OPENCL_COUNT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%lu\n", atomic_load(&launches));
    fclose(file);
}

static bool is(const char *what) { return !strcmp(how, what); }

static bool fails(void) {
    unsigned long n = atomic_fetch_add(&calls, 1) + 1;
    return failing && n == failing;
}

/* What a call returns that fails. */
static cl_int refusal(void) { return is("lost") ? CL_DEVICE_NOT_AVAILABLE : CL_OUT_OF_RESOURCES; }

static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, name) : NULL;
    if (!symbol) abort();
    return symbol;
}

#define REAL(name)                                                                                 \
    static _Atomic(void *) found;                                                                  \
    if (!atomic_load(&found)) atomic_store(&found, real(#name));                                   \
    __typeof__(name) *next;                                                                        \
    *(void **)&next = atomic_load(&found)

/* Functions that return a status; `counted` becomes a thing that is alive by `by`, on success. */
#define STATUS(name, parameters, arguments, by)                                                    \
    SHOAL_API cl_int CL_API_CALL name parameters {                                                 \
        REAL(name);                                                                                \
        if (fails()) return refusal();                                                             \
        cl_int code = next arguments;                                                              \
        if (code == CL_SUCCESS) atomic_fetch_add(&alive, by);                                      \
        return code;                                                                               \
    }
/* What asks or releases: it is not made to fail. */
#define PASS(name, parameters, arguments, by)                                                      \
    SHOAL_API cl_int CL_API_CALL name parameters {                                                 \
        REAL(name);                                                                                \
        cl_int code = next arguments;                                                              \
        if (code == CL_SUCCESS) atomic_fetch_add(&alive, by);                                      \
        return code;                                                                               \
    }
/* Functions that make an object. */
#define CREATE(type, name, parameters, arguments)                                                  \
    SHOAL_API type CL_API_CALL name parameters {                                                   \
        REAL(name);                                                                                \
        if (fails()) {                                                                             \
            *code = refusal();                                                                     \
            return NULL;                                                                           \
        }                                                                                          \
        type made = next arguments;                                                                \
        if (*code == CL_SUCCESS) atomic_fetch_add(&alive, 1);                                      \
        return made;                                                                               \
    }

PASS(clGetPlatformIDs, (cl_uint n, cl_platform_id *out, cl_uint *count), (n, out, count), 0)
PASS(clGetPlatformInfo,
     (cl_platform_id id, cl_platform_info what, size_t room, void *out, size_t *size),
     (id, what, room, out, size), 0)
PASS(clGetDeviceIDs,
     (cl_platform_id id, cl_device_type type, cl_uint n, cl_device_id *out, cl_uint *count),
     (id, type, n, out, count), 0)
PASS(clGetDeviceInfo, (cl_device_id id, cl_device_info what, size_t room, void *out, size_t *size),
     (id, what, room, out, size), 0)
STATUS(clGetProgramInfo,
       (cl_program program, cl_program_info what, size_t room, void *out, size_t *size),
       (program, what, room, out, size), 0)
STATUS(clGetProgramBuildInfo,
       (cl_program program, cl_device_id id, cl_program_build_info what, size_t room, void *out,
        size_t *size),
       (program, id, what, room, out, size), 0)
PASS(clReleaseCommandQueue, (cl_command_queue queue), (queue), -1)
PASS(clReleaseContext, (cl_context context), (context), -1)
PASS(clReleaseEvent, (cl_event event), (event), -1)
PASS(clReleaseKernel, (cl_kernel kernel), (kernel), -1)
PASS(clReleaseMemObject, (cl_mem mem), (mem), -1)
PASS(clReleaseProgram, (cl_program program), (program), -1)

typedef void(CL_CALLBACK *notify_context)(const char *, const void *, size_t, void *);
CREATE(cl_context, clCreateContext,
       (const cl_context_properties *properties, cl_uint n, const cl_device_id *ids,
        notify_context notify, void *data, cl_int *code),
       (properties, n, ids, notify, data, code))
CREATE(cl_command_queue, clCreateCommandQueue,
       (cl_context context, cl_device_id id, cl_command_queue_properties properties, cl_int *code),
       (context, id, properties, code))
CREATE(cl_mem, clCreateBuffer,
       (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code),
       (context, flags, size, host, code))
CREATE(cl_program, clCreateProgramWithSource,
       (cl_context context, cl_uint n, const char **texts, const size_t *sizes, cl_int *code),
       (context, n, texts, sizes, code))
CREATE(cl_program, clCreateProgramWithBinary,
       (cl_context context, cl_uint n, const cl_device_id *ids, const size_t *sizes,
        const unsigned char **binaries, cl_int *each, cl_int *code),
       (context, n, ids, sizes, binaries, each, code))
CREATE(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *code),
       (program, name, code))

typedef void(CL_CALLBACK *notify_program)(cl_program, void *);
STATUS(clBuildProgram,
       (cl_program program, cl_uint n, const cl_device_id *ids, const char *options,
        notify_program notify, void *data),
       (program, n, ids, options, notify, data), 0)
STATUS(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
       (kernel, index, size, value), 0)
STATUS(clFinish, (cl_command_queue queue), (queue), 0)
STATUS(clFlush, (cl_command_queue queue), (queue), 0)
STATUS(clEnqueueMarkerWithWaitList,
       (cl_command_queue queue, cl_uint n, const cl_event *wait, cl_event *event),
       (queue, n, wait, event), event != NULL)
STATUS(clEnqueueCopyBuffer,
       (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t bytes,
        cl_uint n, const cl_event *wait, cl_event *event),
       (queue, from, to, from_at, to_at, bytes, n, wait, event), event != NULL)
STATUS(clEnqueueCopyBufferRect,
       (cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_at, const size_t *to_at,
        const size_t *region, size_t from_row, size_t from_slice, size_t to_row, size_t to_slice,
        cl_uint n, const cl_event *wait, cl_event *event),
       (queue, from, to, from_at, to_at, region, from_row, from_slice, to_row, to_slice, n, wait,
        event),
       event != NULL)
STATUS(clEnqueueReadBufferRect,
       (cl_command_queue queue, cl_mem mem, cl_bool blocking, const size_t *at,
        const size_t *host_at, const size_t *region, size_t row, size_t slice, size_t host_row,
        size_t host_slice, void *host, cl_uint n, const cl_event *wait, cl_event *event),
       (queue, mem, blocking, at, host_at, region, row, slice, host_row, host_slice, host, n, wait,
        event),
       event != NULL)
STATUS(clEnqueueWriteBufferRect,
       (cl_command_queue queue, cl_mem mem, cl_bool blocking, const size_t *at,
        const size_t *host_at, const size_t *region, size_t row, size_t slice, size_t host_row,
        size_t host_slice, const void *host, cl_uint n, const cl_event *wait, cl_event *event),
       (queue, mem, blocking, at, host_at, region, row, slice, host_row, host_slice, host, n, wait,
        event),
       event != NULL)

SHOAL_API cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                    cl_uint rank, const size_t *offset,
                                                    const size_t *global, const size_t *local,
                                                    cl_uint n, const cl_event *wait,
                                                    cl_event *event) {
    REAL(clEnqueueNDRangeKernel);
    if (fails()) return refusal();
    atomic_fetch_add(&launches, 1);
    cl_int code = next(queue, kernel, rank, offset, global, local, n, wait, event);
    if (code == CL_SUCCESS && event) atomic_fetch_add(&alive, 1);
    return code;
}

/* ---- answers ---- */

typedef void(CL_CALLBACK *notify_event)(cl_event, cl_int, void *);
typedef struct answer {
    notify_event notify;
    void *data;
} answer;

static void CL_CALLBACK answer_badly(cl_event event, cl_int code, void *data) {
    answer a = *(answer *)data;
    free(data);
    a.notify(event, CL_OUT_OF_RESOURCES, a.data);
}

static void CL_CALLBACK answer_never(cl_event event, cl_int code, void *data) {}

SHOAL_API cl_int CL_API_CALL clSetEventCallback(cl_event event, cl_int type, notify_event notify,
                                                void *data) {
    REAL(clSetEventCallback);
    if (!fails()) return next(event, type, notify, data);
    if (is("stuck")) return next(event, type, answer_never, NULL);
    answer *bad = is("late") ? malloc(sizeof *bad) : NULL;
    if (!bad) return refusal();
    *bad = (answer){notify, data};
    return next(event, type, answer_badly, bad);
}
