/* Products by cuBLAS. It has columns where we have rows: C = A B there is C' = B' A'. */
#include "backend/cuda/device.h"

static shoal_status fail(const shoal_device *device, const char *function, int code) {
    return base_fail(code == CUBLAS_NO_MEMORY ? SHOAL_NO_MEMORY : SHOAL_LOST,
                     "cuda: %s: %s: cuBLAS status %d", device->name, function, code);
}

shoal_status cuda_products_open(cuda_device *d) {
    int code = d->cuda->cublas.create(&d->cublas);
    if (code) {
        d->cublas = NULL;
        return fail(&d->shared, "cublasCreate", code);
    }
    code = d->cuda->cublas.set_stream(d->cublas, d->lanes[GPU_LINE].stream);
    if (!code) code = d->cuda->cublas.set_math(d->cublas, CUBLAS_FULL_SUMS);
    return code ? fail(&d->shared, "cublasSetStream", code) : SHOAL_OK;
}

static int type_of(uint8_t dtype) {
    switch (dtype) {
    case SHOAL_F64: return CUBLAS_F64;
    case SHOAL_F16: return CUBLAS_F16;
    case SHOAL_BF16: return CUBLAS_BF16;
    default: return CUBLAS_F32;
    }
}

/* Numbers of 16 bits are added in f32. */
static int sums_of(const cuda_device *d, uint8_t dtype) {
    if (dtype == SHOAL_F64) return CUBLAS_COMPUTE_F64;
    return dtype == SHOAL_F32 && d->uses_tf32 ? CUBLAS_COMPUTE_TF32 : CUBLAS_COMPUTE_F32;
}

static cuda_address address(gpu_spot s) { return (cuda_address)(uintptr_t)s.mem + s.at; }

shoal_status cuda_multiply(shoal_device *device, const gpu_matrices *x, const gpu_spot *args) {
    static const double one_f64 = 1, zero_f64 = 0;
    static const float one = 1, zero = 0;
    bool wide = x->dtype == SHOAL_F64;
    const void *alpha = wide ? (const void *)&one_f64 : &one;
    const void *beta = wide ? (const void *)&zero_f64 : &zero;
    int type = type_of(x->dtype);
    cuda_device *d = cuda_enter(device);
    int code = d->cuda->cublas.multiply(
        d->cublas, x->transposed[1] ? CUBLAS_T : CUBLAS_N, x->transposed[0] ? CUBLAS_T : CUBLAS_N,
        (int)x->n, (int)x->m, (int)x->k, alpha, address(args[1]), type, (int)x->lead[1],
        x->apart[1], address(args[0]), type, (int)x->lead[0], x->apart[0], beta, address(args[2]),
        type, (int)x->n, x->m * x->n, (int)x->batch, sums_of(d, x->dtype),
        CUBLAS_DEFAULT_ALGORITHM);
    cuda_leave(d, CUDA_SUCCESS);
    return code ? fail(device, "cublasGemmStridedBatchedEx", code) : SHOAL_OK;
}
