#include "base/clock.h"

int64_t base_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * BASE_SECOND + t.tv_nsec;
}

struct timespec base_timespec(int64_t at) {
    return (struct timespec){.tv_sec = at / BASE_SECOND, .tv_nsec = at % BASE_SECOND};
}
