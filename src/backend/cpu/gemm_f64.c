/* The inner parts of matrix products of f64. */
#define GEMM_F64
#include "backend/cpu/gemm.c"
