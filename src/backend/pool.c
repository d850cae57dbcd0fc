#include "backend/pool.h"

static _Thread_local const backend_pool *asked;
static _Thread_local const atomic_bool *task_ended, *process_ends;

void backend_pool_set(const backend_pool *pool) { asked = pool; }

static shoal_status no_pool(void) {
    return base_fail(SHOAL_NOT_FOUND, "there is no pool to ask for artifacts");
}

shoal_status backend_artifact_key(uint8_t out[32], bool *trusted) {
    return asked ? asked->key(asked->context, out, trusted) : no_pool();
}

shoal_status backend_artifact_fetch(const shoal_artifact_ask *ask, shoal_artifact *out) {
    return asked ? asked->fetch(asked->context, ask, out) : no_pool();
}

void backend_ends_set(const atomic_bool *task, const atomic_bool *process) {
    task_ended = task;
    process_ends = process;
}

bool backend_run_ended(void) {
    return (task_ended && atomic_load_explicit(task_ended, memory_order_relaxed)) ||
           (process_ends && atomic_load_explicit(process_ends, memory_order_relaxed));
}

shoal_status backend_go_on(void) {
    if (!backend_run_ended()) return SHOAL_OK;
    return base_fail(SHOAL_INTERRUPTED, "it was given up while it ran");
}
