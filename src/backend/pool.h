/* What a backend may ask of who has it compile and run. While it compiles, of the pool: artifacts,
 * machine code that the hub's keeper has made of the same program for the same kind of device.
 * While it runs: whether anybody needs that yet. Whoever calls a backend says for its thread whom
 * to ask; elsewhere there is no pool, and nothing ends before it is through. */
#ifndef BACKEND_POOL_H
#define BACKEND_POOL_H

#include "base/status.h"
#include "shoal/backend.h"

#include <stdatomic.h>

typedef struct backend_pool {
    void *context;
    shoal_status (*key)(void *context, uint8_t out[32], bool *trusted);
    shoal_status (*fetch)(void *context, const shoal_artifact_ask *ask, shoal_artifact *out);
} backend_pool;

/* For calls of backends by this thread from now on; NULL: none. It stays valid until then. */
void backend_pool_set(const backend_pool *pool);

/* What ends work of this thread's own before it is through, whichever is set; NULL: nothing. They
 * stay valid until others are set. */
void backend_ends_set(const atomic_bool *task, const atomic_bool *process);
/* Fails with INTERRUPTED when what this thread computes is to end. */
shoal_status backend_go_on(void) SHOAL_CHECK_RESULT;

/* Of shoal_host. */
bool backend_run_ended(void);
shoal_status backend_artifact_key(uint8_t out[32], bool *trusted);
shoal_status backend_artifact_fetch(const shoal_artifact_ask *ask, shoal_artifact *out);

#endif
