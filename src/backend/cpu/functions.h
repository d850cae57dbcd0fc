/* What the files that are compiled once per instruction set share; SHOAL_CPU_SET is its name.
 * Kernels of transcendental functions and of composites are in functions.c and functions_f64.c. */
#ifndef CPU_FUNCTIONS_H
#define CPU_FUNCTIONS_H

#include "backend/cpu/cpu.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t bits_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Rows in panels of at most `most`, as equal as can be: `small` rows each, and one more for the
 * first `larger` of them. */
typedef struct cpu_row_panels {
    int64_t count, small, larger;
} cpu_row_panels;

INLINE cpu_row_panels cpu_divide_rows(int64_t m, int64_t most) {
    int64_t count = (m + most - 1) / most;
    return (cpu_row_panels){count, m / count, m % count};
}

#define CPU_JOIN(name, set) cpu_##name##_##set
#define CPU_JOIN_SET(name, set) CPU_JOIN(name, set)
#define CPU_OF_SET(name) CPU_JOIN_SET(name, SHOAL_CPU_SET)

/* XX(name): maps of f32, and of f64 where the name says so. */
/* clang-format off */
#define CPU_FUNCTION_MAP(XX)                                                                       \
    XX(exponential) XX(exponential_minus_one) XX(log) XX(log_plus_one) XX(tanh) XX(logistic)       \
    XX(erf) XX(sine) XX(cosine) XX(tan) XX(cbrt) XX(power) XX(atan2) XX(remainder) XX(silu)        \
    XX(gelu) XX(gelu_tanh) XX(silu_gradient) XX(gelu_gradient) XX(gelu_tanh_gradient)              \
    XX(exponential_f64) XX(exponential_minus_one_f64) XX(log_f64) XX(log_plus_one_f64)             \
    XX(tanh_f64) XX(logistic_f64) XX(erf_f64) XX(sine_f64) XX(cosine_f64) XX(tan_f64)              \
    XX(cbrt_f64) XX(power_f64) XX(atan2_f64) XX(remainder_f64)
/* clang-format on */
#define XX(name)                                                                                   \
    void CPU_OF_SET(name)(void *out, const void *const *in, int64_t n, unsigned scalars,           \
                          const char *ahead);
CPU_FUNCTION_MAP(XX)
#undef XX

/* XX(name, NAME): rows of f32. */
/* clang-format off */
#define CPU_ROW_MAP(XX)                                                                            \
    XX(softmax, SOFTMAX) XX(log_softmax, LOG_SOFTMAX) XX(softmax_gradient, SOFTMAX_GRADIENT)       \
    XX(cross_entropy, CROSS_ENTROPY) XX(cross_entropy_gradient, CROSS_ENTROPY_GRADIENT)            \
    XX(rms_norm, RMS_NORM) XX(rms_norm_gradient, RMS_NORM_GRADIENT)                                \
    XX(rms_norm_scale_gradient, RMS_NORM_SCALE_GRADIENT)                                           \
    XX(layer_norm, LAYER_NORM) XX(layer_norm_gradient, LAYER_NORM_GRADIENT)                        \
    XX(layer_norm_scale_gradient, LAYER_NORM_SCALE_GRADIENT)
/* clang-format on */
#define XX(name, NAME) void CPU_OF_SET(name)(const cpu_row_call *call);
CPU_ROW_MAP(XX)
#undef XX
void CPU_OF_SET(weigh)(const cpu_scores *scores);
void CPU_OF_SET(turn)(const cpu_scores *scores, float *moved, const float *less);
void CPU_OF_SET(scale_rows)(float *x, int64_t rows, int64_t n, const float *factors);
void CPU_OF_SET(dot_rows)(const float *x, int64_t x_row, const float *y, int64_t y_row,
                          int64_t rows, int64_t n, float *out);

extern const cpu_maps CPU_OF_SET(float_maps), CPU_OF_SET(integer_maps), CPU_OF_SET(half_maps);
extern const cpu_gemm CPU_OF_SET(gemm_f32), CPU_OF_SET(gemm_f64);
extern const cpu_grouped CPU_OF_SET(grouped_bytes), CPU_OF_SET(grouped_bf16);
extern const cpu_pools CPU_OF_SET(pools);
extern const ref_random_kernels CPU_OF_SET(random);
extern const cpu_taps CPU_OF_SET(taps_f32), CPU_OF_SET(taps_f64);
extern const cpu_block_kernel CPU_OF_SET(blocks)[BASE_BLOCK_COUNT];
extern const cpu_digits_kernel CPU_OF_SET(digits)[BASE_BLOCK_COUNT];
extern const cpu_fold_kernel CPU_OF_SET(folds)[GRAPH_OP_BUILT_IN][SHOAL_DTYPE_COUNT];
extern const cpu_map_kernel CPU_OF_SET(converts)[SHOAL_DTYPE_COUNT][SHOAL_DTYPE_COUNT];

#endif
