/* The driver calls of the cuda backend: NVIDIA's devices, by libcuda, NVRTC and cuBLAS. All that is
 * not CUDA's is in backend/gpu.
 *
 * Launches and copies go to a stream, in which an event marks the end of each piece of work. A
 * thread waits for these events in their order, and answers. Boxes from and to the host go through
 * pinned memory, since only that is copied while others compute: another thread fills or empties
 * one half of it while the device copies the other, and answers, too. So nobody else waits for the
 * driver, and each error is seen by who answers.
 *
 * Reading order: library.h, library.c (what is called, and where it is), device.c (what a device is
 * like, and the table), calls.c (memory, the line), moves.c (boxes), build.c (kernels), product.c
 * (cuBLAS).
 *
 * Locks: `lock` of a cuda_lane guards its list. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/library.h"
#include "backend/gpu/gpu.h"

enum { CUDA_HALF = 4 << 20 /* bytes of a half of the pinned memory */ };

/* What a thread does in order: it waits for an event or moves a box, and answers. */
typedef struct cuda_job cuda_job;
typedef struct cuda_lane {
    struct cuda_device *device;
    cuda_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is a job, or none is left, or it ends */
    pthread_t thread;
    cuda_job *first, **end;
    bool started, busy, closing;
    cuda_code failed; /* the first error: nothing is moved any more */
    const char *call; /* which call failed */
} cuda_lane;

typedef struct cuda_device {
    shoal_device shared;
    const cuda_library *cuda;
    int id;
    cuda_context *context;
    cuda_lane lanes[2]; /* by gpu_queue */
    char *pinned;       /* two halves */
    cuda_event *copied[2];
    cublas_handle *cublas;
    char architecture[40]; /* the option for NVRTC */
    bool is_exact;         /* of the device's own architecture: it makes machine code */
    bool uses_tf32;
    size_t most_pitch;
} cuda_device;

extern const gpu_driver cuda_driver;

/* NO_MEMORY, UNSUPPORTED or LOST, with "cuda: NAME: FUNCTION: CUDA_ERROR_…". */
shoal_status cuda_fail(const shoal_device *device, const char *function, cuda_code code);
/* Makes the device's context that of this thread, until it leaves. */
static inline cuda_device *cuda_enter(shoal_device *device) {
    cuda_device *d = (cuda_device *)device;
    d->cuda->context_push(d->context);
    return d;
}
static inline cuda_code cuda_leave(cuda_device *d, cuda_code code) {
    cuda_context *was;
    d->cuda->context_pop(&was);
    return code;
}

/* ---- moves.c ---- */

/* Starts a lane's thread. */
shoal_status cuda_lane_open(cuda_device *device, gpu_queue queue) SHOAL_CHECK_RESULT;
void cuda_lane_close(cuda_lane *lane);
shoal_status cuda_move(shoal_device *device, gpu_queue queue, gpu_direction direction,
                       const gpu_rectangle *box);
shoal_status cuda_ask(shoal_device *device, gpu_queue queue, gpu_answer then, void *context);
void cuda_finish(shoal_device *device, gpu_queue queue);

/* ---- build.c ---- */

shoal_status cuda_build(shoal_device *device, const base_str *source, void **program);
void *cuda_load(shoal_device *device, const void *binary, size_t size);
void *cuda_binary(shoal_device *device, void *program, size_t *size);
void cuda_unload(shoal_device *device, void *program);
shoal_status cuda_kernel(shoal_device *device, void *program, const char *name, void **kernel);
/* Chooses what the compiler makes for a device of this kind. */
void cuda_choose_architecture(cuda_device *device, int major, int minor);

/* ---- product.c ---- */

shoal_status cuda_products_open(cuda_device *device) SHOAL_CHECK_RESULT;
shoal_status cuda_multiply(shoal_device *device, const gpu_matrices *product, const gpu_spot *args);

#endif
