/* Monotonic time and deadlines, in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define BASE_MS INT64_C(1000000)
#define BASE_SECOND INT64_C(1000000000)

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t base_now(void);
/* The time_t form of a point in base_now()'s time, for waits on CLOCK_MONOTONIC. */
struct timespec base_timespec(int64_t at);

#endif
