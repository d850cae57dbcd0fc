#include "pool.h"

#include <stdlib.h>

static shoal_status look_at_paths(cmd_pool *out) {
    uint32_t room = 0;
    free(out->paths);
    out->paths = NULL;
    while (true) {
        shoal_status status = shoal_paths_of(out->session, out->paths, room, &out->n_paths);
        if (status != SHOAL_OK || out->n_paths <= room) return status;
        room = out->n_paths + 8;
        free(out->paths);
        out->paths = calloc(room, sizeof *out->paths);
        if (out->paths == NULL) return SHOAL_NO_MEMORY;
    }
}

/* Workers may join between the two calls, hence the loops. */
shoal_status pool_look(cmd_pool *out) {
    uint32_t room = 0;
    free(out->slots);
    out->slots = NULL;
    while (true) {
        out->status.size = sizeof out->status;
        shoal_status status = shoal_status_of(out->session, &out->status, out->slots, room);
        if (status != SHOAL_OK) return status;
        if (out->status.n_slots <= room) return look_at_paths(out);
        room = out->status.n_slots + 8;
        free(out->slots);
        out->slots = calloc(room, sizeof *out->slots);
        if (out->slots == NULL) return SHOAL_NO_MEMORY;
    }
}

shoal_status pool_open(const shoal_options *options, cmd_pool *out) {
    *out = (cmd_pool){0};
    shoal_status status = shoal_session_open(options, &out->session);
    if (status == SHOAL_OK) status = pool_look(out);
    if (status != SHOAL_OK) pool_close(out);
    return status;
}

static bool is_stopped(void *context) {
    const cmd_pool *pool = context;
    if (pool->progress != NULL) progress_wait(pool->progress);
    return cmd_stop != 0;
}

int pool_join(const char *hub, uint32_t workers, cmd_pool *out) {
    shoal_options options = {.size = sizeof options,
                             .hub = hub,
                             .workers = workers,
                             .interrupted = is_stopped,
                             .context = out};
    const char *variable = getenv("SHOAL_HUB");
    bool named = hub != NULL || (variable != NULL && variable[0] != 0);
    if (workers > 0) options.hub = "embedded";
    if (workers == 0 && !named) {
        options.hub = cmd_hub_address(NULL);
        shoal_status status = pool_open(&options, out);
        if (status != SHOAL_NOT_FOUND) return cmd_try(status);
        options.hub = "embedded";
    }
    return cmd_try(pool_open(&options, out));
}

void pool_close(cmd_pool *pool) {
    if (pool->session != NULL) shoal_session_close(&pool->session);
    free(pool->slots);
    free(pool->paths);
    pool->slots = NULL;
}
