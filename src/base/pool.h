/* A pool of threads for one computation at a time. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/status.h"

typedef struct base_pool base_pool;
typedef void (*base_task)(void *context, uint32_t index);

/* A pool of `threads` threads, the caller's among them; none is started before it is needed. */
shoal_status base_pool_new(uint32_t threads, base_pool **out) SHOAL_CHECK_RESULT;
/* Ends and joins the threads; nothing may be running. NULL is allowed. */
void base_pool_destroy(base_pool **pool);
uint32_t base_pool_threads(const base_pool *pool);

/* Calls task(context, i) once for each i < n_tasks, on the caller's and the pool's threads, in any
 * order, and returns when all have ended. Never fails: where no thread can be started the caller
 * does the work. One caller at a time, never from inside a task. */
void base_pool_run(base_pool *pool, uint32_t n_tasks, base_task task, void *context);

#endif
