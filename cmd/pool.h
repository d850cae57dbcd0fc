/* Opening a session and listing a pool's slots. */
#ifndef CMD_POOL_H
#define CMD_POOL_H

#include "cmd.h"

typedef struct cmd_pool {
    shoal_session *session;
    shoal_pool_status status;
    shoal_slot *slots; /* status.n_slots of them */
} cmd_pool;

/* Connects and asks for the status. On failure nothing is left to close. */
SHOAL_CHECK_RESULT shoal_status pool_open(const shoal_options *options, cmd_pool *out);
void pool_close(cmd_pool *pool);

#endif
