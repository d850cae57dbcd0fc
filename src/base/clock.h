/* Monotonic time and deadlines, in nanoseconds; and the time of day. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define BASE_MS INT64_C(1000000)
#define BASE_SECOND INT64_C(1000000000)
/* Of a clock of another process, ns: 73 years, so that sums and differences of a few stay in range.
 */
#define BASE_CLOCK_MOST (INT64_MAX / 4)

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t base_now(void);
/* Nanoseconds for which this thread has had a processor. */
int64_t base_thread_time(void);
/* Nanoseconds since 1970: may jump, so only for people and for other machines. */
int64_t base_time(void);
/* The time_t form of a point in base_now()'s time, for waits on CLOCK_MONOTONIC. */
struct timespec base_timespec(int64_t at);
/* Whether a host's flag, which another thread or a signal's handler sets, says to end; NULL: never.
 */
bool base_stopped(const volatile int *stop);
/* A condition whose timed waits are on CLOCK_MONOTONIC; on Linux that cannot fail. */
void base_condition_init(pthread_cond_t *condition);

#endif
