/* The inner parts of convolutions of f64. */
#define CPU_F64_VECTORS
#include "backend/cpu/taps.c"
