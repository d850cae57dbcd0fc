#include "base/spin.h"

#include "base/clock.h"
#include "base/os_cpu.h"

#include <sched.h>
#include <stdatomic.h>

enum { SPIN_NS = 60000 };

bool base_spin(bool (*ready)(void *context), void *context) {
    static atomic_uint cores;
    if (ready(context)) return true;
    if (!atomic_load_explicit(&cores, memory_order_relaxed)) atomic_store(&cores, base_cpu_count());
    if (atomic_load_explicit(&cores, memory_order_relaxed) < 2) return false;
    int64_t end = base_now() + SPIN_NS;
    do {
        sched_yield();
        if (ready(context)) return true;
    } while (base_now() < end);
    return false;
}
