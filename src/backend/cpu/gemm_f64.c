/* The inner parts of matrix products of f64. */
#define CPU_F64_VECTORS
#include "backend/cpu/gemm.c"
