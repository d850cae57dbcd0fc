/* grouped.c for bfloat16, with what stands in for VDPBF16PS. */
#define SHOAL_CPU_SET stands_in
#define CPU_STANDS_IN stand_in_bfloats
#include "backend/cpu/grouped_testing.h"

#include "backend/cpu/grouped_bf16.c"
