#include "base/clock.h"

static int64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * BASE_SECOND + t.tv_nsec;
}

int64_t base_now(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t base_thread_time(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

int64_t base_time(void) { return read_clock(CLOCK_REALTIME); }

struct timespec base_timespec(int64_t at) {
    return (struct timespec){.tv_sec = at / BASE_SECOND, .tv_nsec = at % BASE_SECOND};
}

bool base_stopped(const volatile int *stop) {
    return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

void base_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
