/* Kernels of transcendental functions and of composites (functions.c), compiled once per
 * instruction set: SHOAL_CPU_SET is its name. */
#ifndef CPU_FUNCTIONS_H
#define CPU_FUNCTIONS_H

#include "backend/cpu/cpu.h"

#define CPU_JOIN(name, set) cpu_##name##_##set
#define CPU_JOIN_SET(name, set) CPU_JOIN(name, set)
#define CPU_OF_SET(name) CPU_JOIN_SET(name, SHOAL_CPU_SET)

/* XX(name): maps of f32. */
#define CPU_FUNCTION_MAP(XX)                                                                       \
    XX(exponential) XX(log) XX(tanh) XX(logistic) XX(silu) XX(gelu) XX(gelu_tanh)
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

#endif
