/* What a backend may ask of the pool while it compiles: artifacts, machine code that the hub's
 * keeper has made of the same program for the same kind of device. Whoever has a backend compile
 * says for its thread whom to ask; elsewhere there is no pool. */
#ifndef BACKEND_POOL_H
#define BACKEND_POOL_H

#include "base/status.h"
#include "shoal/backend.h"

typedef struct backend_pool {
    void *context;
    shoal_status (*key)(void *context, uint8_t out[32], bool *trusted);
    shoal_status (*fetch)(void *context, const shoal_artifact_ask *ask, shoal_artifact *out);
} backend_pool;

/* For calls of backends by this thread from now on; NULL: none. It stays valid until then. */
void backend_pool_set(const backend_pool *pool);

/* Of shoal_host. */
shoal_status backend_artifact_key(uint8_t out[32], bool *trusted);
shoal_status backend_artifact_fetch(const shoal_artifact_ask *ask, shoal_artifact *out);

#endif
