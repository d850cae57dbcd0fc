/* What is called of CUDA: its driver, its compiler (NVRTC) and, where it is there, cuBLAS. All are
 * opened at run time, and declared here, so that nothing of CUDA is needed to build this. */
#ifndef CUDA_LIBRARY_H
#define CUDA_LIBRARY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef int cuda_code; /* CUresult; 0: success */
enum {
    CUDA_SUCCESS = 0,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_IMAGE = 200, /* what is loaded is none of the driver's, or of the device's */
    CUDA_NO_BINARY = 209,
    CUDA_INVALID_PTX = 218,
    CUDA_UNSUPPORTED_PTX = 222,
    CUDA_LAUNCH_OUT_OF_RESOURCES = 701
};
typedef uint64_t cuda_address; /* CUdeviceptr */
typedef struct cuda_context cuda_context;
typedef struct cuda_stream cuda_stream;
typedef struct cuda_event cuda_event;
typedef struct cuda_module cuda_module;
typedef struct cuda_function cuda_function;

/* Flags. */
enum {
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_EVENT_BLOCKING = 1, /* who waits sleeps */
    CUDA_EVENT_UNTIMED = 2,
    CUDA_HOST_PORTABLE = 1,
    CUDA_KIND_HOST = 1, /* of memory */
    CUDA_KIND_DEVICE = 2
};

/* What is asked of a device. */
enum {
    CUDA_MOST_THREADS = 1, /* of a block */
    CUDA_MOST_PITCH = 11,  /* of a copy */
    CUDA_UNITS = 16,
    CUDA_MAJOR = 75,
    CUDA_MINOR = 76
};

/* CUDA_MEMCPY3D: a box, whose rows are `pitch` apart, and slices `height` rows. */
typedef struct cuda_side {
    size_t x, y, z, lod;
    int kind;
    const void *host;
    cuda_address device;
    void *array, *reserved;
    size_t pitch, height;
} cuda_side;
typedef struct cuda_box {
    cuda_side from, to;
    size_t width, height, depth; /* bytes, rows, slices */
} cuda_box;

/* name, symbol, parameters. All return cuda_code. */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(driver_version, "cuDriverGetVersion", (int *version))                                        \
    X(error_name, "cuGetErrorName", (cuda_code code, const char **name))                           \
    X(device_count, "cuDeviceGetCount", (int *count))                                              \
    X(device_get, "cuDeviceGet", (int *device, int index))                                         \
    X(device_name, "cuDeviceGetName", (char *name, int room, int device))                          \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                          \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int what, int device))                \
    X(context_retain, "cuDevicePrimaryCtxRetain", (cuda_context * *context, int device))           \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
    X(context_push, "cuCtxPushCurrent_v2", (cuda_context * context))                               \
    X(context_pop, "cuCtxPopCurrent_v2", (cuda_context * *context))                                \
    X(memory_new, "cuMemAlloc_v2", (cuda_address * address, size_t bytes))                         \
    X(memory_free, "cuMemFree_v2", (cuda_address address))                                         \
    X(host_new, "cuMemHostAlloc", (void **host, size_t bytes, unsigned flags))                     \
    X(host_free, "cuMemFreeHost", (void *host))                                                    \
    X(copy, "cuMemcpyDtoDAsync_v2",                                                                \
      (cuda_address to, cuda_address from, size_t bytes, cuda_stream * stream))                    \
    X(copy_box, "cuMemcpy3DAsync_v2", (const cuda_box *box, cuda_stream *stream))                  \
    X(stream_new, "cuStreamCreate", (cuda_stream * *stream, unsigned flags))                       \
    X(stream_free, "cuStreamDestroy_v2", (cuda_stream * stream))                                   \
    X(stream_wait, "cuStreamSynchronize", (cuda_stream * stream))                                  \
    X(event_new, "cuEventCreate", (cuda_event * *event, unsigned flags))                           \
    X(event_free, "cuEventDestroy_v2", (cuda_event * event))                                       \
    X(event_record, "cuEventRecord", (cuda_event * event, cuda_stream * stream))                   \
    X(event_wait, "cuEventSynchronize", (cuda_event * event))                                      \
    X(module_load, "cuModuleLoadData", (cuda_module * *module, const void *image))                 \
    X(module_free, "cuModuleUnload", (cuda_module * module))                                       \
    X(module_function, "cuModuleGetFunction",                                                      \
      (cuda_function * *function, cuda_module * module, const char *name))                         \
    X(launch, "cuLaunchKernel",                                                                    \
      (cuda_function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       cuda_stream *stream, void **arguments, void **extra))

typedef struct nvrtc_program nvrtc_program;
#define NVRTC_FUNCTIONS(X)                                                                         \
    X(version, "nvrtcVersion", (int *major, int *minor))                                           \
    X(create, "nvrtcCreateProgram",                                                                \
      (nvrtc_program * *program, const char *source, const char *name, int n_headers,              \
       const char *const *headers, const char *const *header_names))                               \
    X(compile, "nvrtcCompileProgram",                                                              \
      (nvrtc_program * program, int n_options, const char *const *options))                        \
    X(destroy, "nvrtcDestroyProgram", (nvrtc_program * *program))                                  \
    X(log_size, "nvrtcGetProgramLogSize", (nvrtc_program * program, size_t * size))                \
    X(log, "nvrtcGetProgramLog", (nvrtc_program * program, char *log))                             \
    X(ptx_size, "nvrtcGetPTXSize", (nvrtc_program * program, size_t * size))                       \
    X(ptx, "nvrtcGetPTX", (nvrtc_program * program, char *ptx))                                    \
    X(cubin_size, "nvrtcGetCUBINSize", (nvrtc_program * program, size_t * size))                   \
    X(cubin, "nvrtcGetCUBIN", (nvrtc_program * program, char *cubin))                              \
    X(n_architectures, "nvrtcGetNumSupportedArchs", (int *count))                                  \
    X(architectures, "nvrtcGetSupportedArchs", (int *numbers))

/* Of cuBLAS. */
enum {
    CUBLAS_N = 0,
    CUBLAS_T = 1,
    CUBLAS_F32 = 0, /* cudaDataType */
    CUBLAS_F64 = 1,
    CUBLAS_F16 = 2,
    CUBLAS_BF16 = 14,
    CUBLAS_COMPUTE_F32 = 68, /* cublasComputeType_t */
    CUBLAS_COMPUTE_F64 = 70,
    CUBLAS_COMPUTE_TF32 = 77,
    CUBLAS_DEFAULT_ALGORITHM = -1,
    CUBLAS_FULL_SUMS = 16, /* cublasMath_t: sums of f16 and bf16 are in f32, to the last */
    CUBLAS_NO_MEMORY = 3   /* cublasStatus_t: CUBLAS_STATUS_ALLOC_FAILED */
};
typedef struct cublas_handle cublas_handle;
#define CUBLAS_FUNCTIONS(X)                                                                        \
    X(create, "cublasCreate_v2", (cublas_handle * *handle))                                        \
    X(destroy, "cublasDestroy_v2", (cublas_handle * handle))                                       \
    X(set_stream, "cublasSetStream_v2", (cublas_handle * handle, cuda_stream * stream))            \
    X(set_math, "cublasSetMathMode", (cublas_handle * handle, int mode))                           \
    X(multiply, "cublasGemmStridedBatchedEx",                                                      \
      (cublas_handle * handle, int op_a, int op_b, int m, int n, int k, const void *alpha,         \
       cuda_address a, int type_a, int lead_a, long long apart_a, cuda_address b, int type_b,      \
       int lead_b, long long apart_b, const void *beta, cuda_address c, int type_c, int lead_c,    \
       long long apart_c, int batch, int compute, int algorithm))

#define CUDA_FIELD(name, symbol, parameters) int(*name) parameters;
typedef struct cuda_library {
    CUDA_FUNCTIONS(CUDA_FIELD)
    struct {
        NVRTC_FUNCTIONS(CUDA_FIELD)
    } nvrtc;
    struct {
        CUBLAS_FUNCTIONS(CUDA_FIELD)
    } cublas;
    bool has_cublas;
    int version, nvrtc_version; /* 12040: 12.4 */
} cuda_library;
#undef CUDA_FIELD

/* The libraries' functions, found at the first call; they stay open. Fails with NOT_FOUND, saying
 * what is missing and what to install, also where there is no device. */
shoal_status cuda_open(const cuda_library **out) SHOAL_CHECK_RESULT;
/* The driver's name of an error: "CUDA_ERROR_LAUNCH_FAILED". */
const char *cuda_error(const cuda_library *cuda, cuda_code code);

#endif
