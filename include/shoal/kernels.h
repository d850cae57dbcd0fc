/* Kernels on plain arrays: operations of the table, computed at once on this process's cores,
 * without a session or a pool. Results are what the same operations of shoal.h give.
 *
 * Arrays may have any strides, alignment and element type that the operation takes. A result may be
 * one of the operands (in place) or overlap it in any way; results must not overlap each other.
 * What an operation needs for one combination of shapes, strides and types is compiled at its first
 * call and kept (the 256 that were used last), so the first call takes longer.
 *
 * Any thread may call at any time; one call is computed after the other, each by all threads. All
 * functions fail with INVALID, naming the operation, the array and the fix, and with NO_MEMORY; the
 * results then have any content. */
#ifndef SHOAL_KERNELS_H
#define SHOAL_KERNELS_H

#include "shoal/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_array {
    shoal_dtype dtype;
    uint32_t rank; /* 0..SHOAL_MAX_RANK */
    const int64_t *dims;
    const int64_t *strides; /* in elements, of any sign, 0 in operands; NULL: dense, row-major */
    void *data;             /* the element whose indices are all 0 */
} shoal_array;

/* Sets how many threads kernels use. 0, as at first: the first number of the variable
 * OMP_NUM_THREADS, else one per core. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernels_set_threads(uint32_t threads);
SHOAL_API uint32_t shoal_kernels_threads(void);

/* The instruction set of kernels on "cpu": on x86-64 "avx2" or "avx512", on aarch64 "neon"; "base",
 * plain C on every processor; "avx512_vnni" and "neon_dot" with instructions for products of bytes,
 * too; "avx512_bf16" and "neon_i8mm" with those, and with others for products of bfloat16. It is
 * the best here, or the one that the variable SHOAL_CPU names. Static. Fails with INVALID where
 * that names none. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernels_instructions(const char **out);

/* Which backend computes the calls of this thread from now on, on its first device: "opencl" or
 * another that `shoal doctor` lists; NULL: "cpu". Operands are copied to a device with memory of
 * its own, and results back. Fails with NOT_FOUND, saying why, where there is no such device. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernels_use(const char *backend);
SHOAL_API const char *shoal_kernels_used(void);

/* Any operation of the table without bodies, with the attributes of its row (ir.h, shoal_op_find),
 * in any order. Takes at most 64 operands; fails with UNSUPPORTED for an operation with bodies or
 * one that only means something in a pool. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel(uint16_t op, const shoal_array *inputs,
                                                       uint32_t n_inputs, const shoal_attr *attrs,
                                                       uint16_t n_attrs, const shoal_array *outputs,
                                                       uint32_t n_outputs);

/* x / sqrt(mean(x^2) + epsilon) along an axis, times scale [dims[axis]], or NULL. Negative axes
 * count from the end, here and below. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_rms_norm(const shoal_array *x,
                                                                const shoal_array *scale,
                                                                int64_t axis, double epsilon,
                                                                const shoal_array *out);
/* (x - mean) / sqrt(variance + epsilon) along an axis, times scale, plus bias: each [dims[axis]] or
 * NULL; a bias needs a scale. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_layer_norm(const shoal_array *x,
                                                                  const shoal_array *scale,
                                                                  const shoal_array *bias,
                                                                  int64_t axis, double epsilon,
                                                                  const shoal_array *out);
/* e^x over its sum along an axis. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_softmax(const shoal_array *x, int64_t axis,
                                                               const shoal_array *out);
/* x / (1 + e^-x). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_silu(const shoal_array *x,
                                                            const shoal_array *out);
/* x * Phi(x), by erf or, with tanh, by Hendrycks and Gimpel's formula (arXiv:1606.08415). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_gelu(const shoal_array *x, bool tanh,
                                                            const shoal_array *out);
/* Rotary embedding (arXiv:2104.09864): shoal_rope of shoal.h has the arguments. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_rope(
    const shoal_array *x, const shoal_array *positions, const shoal_array *frequencies,
    int64_t axis, double theta, bool interleaved, const shoal_array *out);
/* softmax(scale * q k^T + mask) v: q [..., M, D], k [..., N, D], v [..., N, E] to out [..., M, E];
 * mask [..., M, N], what is added, or bool: where to look; NULL: none. scale 0: 1 / sqrt(D).
 * causal: row i looks at columns up to i + N - M. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_kernel_attention(const shoal_array *q, const shoal_array *k, const shoal_array *v,
                       const shoal_array *mask, double scale, bool causal, const shoal_array *out);
/* NumPy's matmul: the last axis of a with the last but one of b, or its only one; the axes before
 * these are broadcast. All of one type; of bytes, signed or not, out may be int32, for their whole
 * products. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_matmul(const shoal_array *a,
                                                              const shoal_array *b,
                                                              const shoal_array *out);

/* Quantised blocks (shoal_block_format_at): bytes are uint8 [..., blocks * format->bytes], numbers
 * [..., blocks * format->values]. */

/* The numbers of blocks, as float32, float16 or bfloat16. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_dequantize(const shoal_array *bytes,
                                                                  const char *format,
                                                                  const shoal_array *out);
/* Blocks of numbers. q8_0, q4_0 and q4_1 are rounded as ggml's reference does it, bit by bit; for
 * q4_k and q6_k the scales of least squared error near those are taken. Numbers that are not finite
 * are an error. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_quantize(const shoal_array *x,
                                                                const char *format,
                                                                const shoal_array *bytes);
/* x [..., K] times the transpose of quantised weights [N, K] to out [..., N], both float32. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_kernel_matmul_packed(const shoal_array *x,
                                                                     const shoal_array *weights,
                                                                     const char *format,
                                                                     const shoal_array *out);

#ifdef __cplusplus
}
#endif
#endif
