/* grouped.c for bytes, with what stands in for VPDPBUSD. */
#define SHOAL_CPU_SET stands_in
#define CPU_STANDS_IN stand_in_bytes
#include "backend/cpu/grouped_testing.h"

#include "backend/cpu/grouped.c"
