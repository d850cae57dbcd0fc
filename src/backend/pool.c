#include "backend/pool.h"

static _Thread_local const backend_pool *asked;

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
