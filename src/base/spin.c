#include "base/spin.h"

#include "base/clock.h"
#include "base/os_cpu.h"

#include <sched.h>

enum { SPIN_NS = 60000 };

bool base_spin(bool (*ready)(void *context), void *context) {
    if (ready(context)) return true;
    if (base_cpu_count() < 2) return false;
    int64_t end = base_now() + SPIN_NS;
    do {
        sched_yield();
        if (ready(context)) return true;
    } while (base_now() < end);
    return false;
}
