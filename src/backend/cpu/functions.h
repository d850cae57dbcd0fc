/* What the files that are compiled once per instruction set share; SHOAL_CPU_SET is its name.
 * Kernels of transcendental functions and of composites are in functions.c and functions_f64.c. */
#ifndef CPU_FUNCTIONS_H
#define CPU_FUNCTIONS_H

#include "backend/cpu/cpu.h"

#define CPU_JOIN(name, set) cpu_##name##_##set
#define CPU_JOIN_SET(name, set) CPU_JOIN(name, set)
#define CPU_OF_SET(name) CPU_JOIN_SET(name, SHOAL_CPU_SET)

/* XX(name): maps of f32, and of f64 where the name says so. */
/* clang-format off */
#define CPU_FUNCTION_MAP(XX)                                                                       \
    XX(exponential) XX(log) XX(tanh) XX(logistic) XX(erf) XX(sine) XX(cosine) XX(power) XX(silu)   \
    XX(gelu) XX(gelu_tanh) XX(exponential_f64) XX(log_f64) XX(tanh_f64) XX(logistic_f64)
/* clang-format on */
#define XX(name)                                                                                   \
    void CPU_OF_SET(name)(void *out, const void *const *in, int64_t n, unsigned scalars,           \
                          const char *ahead);
CPU_FUNCTION_MAP(XX)
#undef XX

/* XX(name): rows of f32. */
#define CPU_ROW_MAP(XX) XX(softmax) XX(log_softmax) XX(rms_norm) XX(layer_norm)
#define XX(name)                                                                                   \
    void CPU_OF_SET(name)(void *out, const void *x, const void *scale, const void *bias,           \
                          int64_t n, double epsilon);
CPU_ROW_MAP(XX)
#undef XX

extern const cpu_maps CPU_OF_SET(float_maps), CPU_OF_SET(integer_maps), CPU_OF_SET(half_maps);
extern const cpu_gemm CPU_OF_SET(gemm_f32), CPU_OF_SET(gemm_f64);
extern const cpu_fold_kernel CPU_OF_SET(folds)[GRAPH_OP_BUILT_IN][SHOAL_DTYPE_COUNT];
extern const cpu_map_kernel CPU_OF_SET(converts)[SHOAL_DTYPE_COUNT][SHOAL_DTYPE_COUNT];

#endif
