#include "pool.h"

#include <stdlib.h>

/* Workers may join between the two calls, hence the loop. */
static shoal_status list_slots(cmd_pool *out) {
    uint32_t room = 0;
    while (true) {
        out->status.size = sizeof out->status;
        shoal_status status = shoal_status_of(out->session, &out->status, out->slots, room);
        if (status != SHOAL_OK || out->status.n_slots <= room) return status;
        room = out->status.n_slots + 8;
        free(out->slots);
        out->slots = calloc(room, sizeof *out->slots);
        if (out->slots == NULL) return SHOAL_NO_MEMORY;
    }
}

shoal_status pool_open(const shoal_options *options, cmd_pool *out) {
    *out = (cmd_pool){0};
    shoal_status status = shoal_session_open(options, &out->session);
    if (status == SHOAL_OK) status = list_slots(out);
    if (status != SHOAL_OK) pool_close(out);
    return status;
}

void pool_close(cmd_pool *pool) {
    if (pool->session != NULL) shoal_session_close(&pool->session);
    free(pool->slots);
    pool->slots = NULL;
}
