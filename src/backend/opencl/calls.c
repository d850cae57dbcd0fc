/* The calls of OpenCL, as backend/gpu makes them. */
#include "backend/opencl/device.h"

#include <stdlib.h>
#include <string.h>

static opencl_device *own(shoal_device *device) { return (opencl_device *)device; }

/* ---- opening ---- */

static shoal_status open_queues(shoal_device *device) {
    opencl_device *d = own(device);
    cl_int code = CL_SUCCESS;
    d->context = d->cl->CreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    if (code) return opencl_fail(device, "CreateContext", code);
    for (int i = 0; i < 2 && !code; i++)
        d->queues[i] = d->cl->CreateCommandQueue(d->context, d->id, 0, &code);
    return code ? opencl_fail(device, "CreateCommandQueue", code) : SHOAL_OK;
}

static void close_queues(shoal_device *device) {
    opencl_device *d = own(device);
    for (int i = 0; i < 2; i++)
        if (d->queues[i]) d->cl->ReleaseCommandQueue(d->queues[i]);
    if (d->context) d->cl->ReleaseContext(d->context);
}

/* ---- memory ---- */

static shoal_status allocate(shoal_device *device, size_t bytes, void *host, bool read_only,
                             void **mem) {
    opencl_device *d = own(device);
    cl_int code = CL_SUCCESS;
    *mem = d->cl->CreateBuffer(d->context,
                               (read_only ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE) |
                                   (host ? CL_MEM_USE_HOST_PTR : 0),
                               bytes, host, &code);
    return code ? opencl_fail(device, "CreateBuffer", code) : SHOAL_OK;
}

static void release(shoal_device *device, void *mem) { own(device)->cl->ReleaseMemObject(mem); }

static shoal_status move(shoal_device *device, gpu_queue queue, gpu_direction direction,
                         const gpu_rectangle *box) {
    opencl_device *d = own(device);
    static const size_t origin[3];
    const size_t to[3] = {box->to.at}, from[3] = {box->from.at};
    cl_command_queue line = d->queues[queue];
    cl_int code;
    switch (direction) {
    case GPU_READ:
        code = d->cl->EnqueueReadBufferRect(
            line, box->from.mem, CL_FALSE, from, origin, box->size, box->from.row, box->from.slice,
            box->to.row, box->to.slice, (char *)box->to.mem + box->to.at, 0, NULL, NULL);
        return code ? opencl_fail(device, "EnqueueReadBufferRect", code) : SHOAL_OK;
    case GPU_WRITE:
        code = d->cl->EnqueueWriteBufferRect(
            line, box->to.mem, CL_FALSE, to, origin, box->size, box->to.row, box->to.slice,
            box->from.row, box->from.slice, (char *)box->from.mem + box->from.at, 0, NULL, NULL);
        return code ? opencl_fail(device, "EnqueueWriteBufferRect", code) : SHOAL_OK;
    default:
        code = d->cl->EnqueueCopyBufferRect(line, box->from.mem, box->to.mem, from, to, box->size,
                                            box->from.row, box->from.slice, box->to.row,
                                            box->to.slice, 0, NULL, NULL);
        return code ? opencl_fail(device, "EnqueueCopyBufferRect", code) : SHOAL_OK;
    }
}

static shoal_status copy(shoal_device *device, gpu_spot to, gpu_spot from, size_t bytes) {
    opencl_device *d = own(device);
    cl_int code = d->cl->EnqueueCopyBuffer(d->queues[GPU_LINE], from.mem, to.mem, from.at, to.at,
                                           bytes, 0, NULL, NULL);
    return code ? opencl_fail(device, "EnqueueCopyBuffer", code) : SHOAL_OK;
}

/* ---- kernels ---- */

/* The compiler's own words, of which the first are kept. */
static shoal_status fail_build(shoal_device *device, cl_program program, cl_int code) {
    opencl_device *d = own(device);
    char log[400] = "";
    size_t size = 0;
    shoal_status status = opencl_fail(device, "BuildProgram", code);
    d->cl->GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *text = malloc(size + 1);
    if (text &&
        !d->cl->GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, text, NULL)) {
        text[size] = 0;
        snprintf(log, sizeof log, "%s", text);
    }
    free(text);
    return *log
               ? base_fail(status, "opencl: %s: a kernel could not be built: %s", device->name, log)
               : status;
}

static shoal_status build(shoal_device *device, const base_str *source, void **out) {
    opencl_device *d = own(device);
    cl_int code;
    const char *text = source->data;
    cl_program program = d->cl->CreateProgramWithSource(d->context, 1, &text, &source->size, &code);
    if (code) return opencl_fail(device, "CreateProgramWithSource", code);
    code = d->cl->BuildProgram(program, 1, &d->id, d->options, NULL, NULL);
    if (!code) {
        *out = program;
        return SHOAL_OK;
    }
    shoal_status status = fail_build(device, program, code);
    d->cl->ReleaseProgram(program);
    return status;
}

static void *load(shoal_device *device, const void *binary, size_t size) {
    opencl_device *d = own(device);
    const unsigned char *bytes = binary;
    cl_int code, fits;
    cl_program program =
        d->cl->CreateProgramWithBinary(d->context, 1, &d->id, &size, &bytes, &fits, &code);
    if (code) return NULL;
    if (!fits && !d->cl->BuildProgram(program, 1, &d->id, d->options, NULL, NULL)) return program;
    d->cl->ReleaseProgram(program);
    return NULL;
}

static void *binary_of(shoal_device *device, void *program, size_t *size) {
    const opencl_library *cl = own(device)->cl;
    if (cl->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL) || !*size)
        return NULL;
    unsigned char *binary = malloc(*size);
    if (binary && !cl->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL))
        return binary;
    free(binary);
    return NULL;
}

static void unload(shoal_device *device, void *program) {
    own(device)->cl->ReleaseProgram(program);
}

static shoal_status kernel(shoal_device *device, void *program, const char *name, void **out) {
    cl_int code = CL_SUCCESS;
    *out = own(device)->cl->CreateKernel(program, name, &code);
    if (!code) return SHOAL_OK;
    *out = NULL;
    return opencl_fail(device, "CreateKernel", code);
}

static void forget(shoal_device *device, void *kernel) { own(device)->cl->ReleaseKernel(kernel); }

/* Buffers have no addresses on the host: each is an object and the number of its first element. */
static cl_int set_arguments(const opencl_library *cl, cl_kernel kernel, const gpu_spot *args,
                            uint32_t n_args, int64_t number) {
    cl_int code = CL_SUCCESS;
    for (uint32_t i = 0; i < n_args && !code; i++) {
        cl_long start = (cl_long)(args[i].at / args[i].unit);
        code = cl->SetKernelArg(kernel, 2 * i, sizeof args[i].mem, &args[i].mem);
        if (!code) code = cl->SetKernelArg(kernel, 2 * i + 1, sizeof start, &start);
    }
    cl_long last = number;
    return code ? code : cl->SetKernelArg(kernel, 2 * n_args, sizeof last, &last);
}

static shoal_status launch(shoal_device *device, void *kernel, const gpu_spot *args,
                           uint32_t n_args, int64_t number, const size_t *global,
                           const size_t *local) {
    opencl_device *d = own(device);
    cl_int code = set_arguments(d->cl, kernel, args, n_args, number);
    if (code) return opencl_fail(device, "SetKernelArg", code);
    code = d->cl->EnqueueNDRangeKernel(d->queues[GPU_LINE], kernel, global[1] > 1 ? 2 : 1, NULL,
                                       global, local, 0, NULL, NULL);
    return code ? opencl_fail(device, "EnqueueNDRangeKernel", code) : SHOAL_OK;
}

/* ---- answers ---- */

typedef struct answer {
    opencl_device *device;
    gpu_answer then;
    void *context;
} answer;

static void CL_CALLBACK answered(cl_event event, cl_int code, void *context) {
    answer a = *(answer *)context;
    free(context);
    a.device->cl->ReleaseEvent(event);
    a.then(a.context,
           code >= 0 ? SHOAL_OK
                     : base_fail(SHOAL_LOST, "opencl: %s is lost: work on it failed (error %d)",
                                 a.device->shared.name, (int)code));
}

static shoal_status ask(shoal_device *device, gpu_queue queue, gpu_answer then, void *context) {
    opencl_device *d = own(device);
    cl_event event = NULL;
    answer *a = malloc(sizeof *a);
    if (!a) return gpu_fail_memory(device, "an answer");
    *a = (answer){d, then, context};
    cl_int code = d->cl->EnqueueMarkerWithWaitList(d->queues[queue], 0, NULL, &event);
    if (code) {
        free(a);
        return opencl_fail(device, "EnqueueMarkerWithWaitList", code);
    }
    code = d->cl->SetEventCallback(event, CL_COMPLETE, answered, a);
    if (!code) return SHOAL_OK;
    d->cl->ReleaseEvent(event);
    free(a);
    return opencl_fail(device, "SetEventCallback", code);
}

static void flush(shoal_device *device, gpu_queue queue) {
    own(device)->cl->Flush(own(device)->queues[queue]);
}

static void finish(shoal_device *device, gpu_queue queue) {
    own(device)->cl->Finish(own(device)->queues[queue]);
}

static const char *source_of(const shoal_operation *operation) { return operation->opencl; }

const gpu_driver opencl_driver = {.name = "opencl",
                                  .open = open_queues,
                                  .close = close_queues,
                                  .allocate = allocate,
                                  .release = release,
                                  .move = move,
                                  .copy = copy,
                                  .build = build,
                                  .load = load,
                                  .binary = binary_of,
                                  .unload = unload,
                                  .kernel = kernel,
                                  .forget = forget,
                                  .launch = launch,
                                  .ask = ask,
                                  .flush = flush,
                                  .finish = finish,
                                  .source_of = source_of};
