/* grouped.c for bfloat16. */
#define CPU_BFLOATS
#include "backend/cpu/grouped.c"
