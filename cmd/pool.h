/* Opening a session and listing a pool's slots. */
#ifndef CMD_POOL_H
#define CMD_POOL_H

#include "progress.h"

typedef struct cmd_pool {
    shoal_session *session;
    shoal_pool_status status;
    shoal_slot *slots; /* status.n_slots of them */
    shoal_path *paths; /* n_paths of them */
    uint32_t n_paths;
    struct cmd_progress *progress; /* drawn while the session waits; NULL: none */
} cmd_pool;

/* Connects and asks for the status. On failure nothing is left to close. */
SHOAL_CHECK_RESULT shoal_status pool_open(const shoal_options *options, cmd_pool *out);
/* Asks again. */
SHOAL_CHECK_RESULT shoal_status pool_look(cmd_pool *pool);
/* The pool to compute on, whose waits end after a signal (cmd_catch_signals): at `hub`; else of
 * `workers` workers inside this process; with neither, at SHOAL_HUB, else at shm:hub if a hub
 * answers there, else inside this process. Prints its message and returns an exit code. */
int pool_join(const char *hub, uint32_t workers, cmd_pool *out);
void pool_close(cmd_pool *pool);

#endif
