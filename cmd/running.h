/* What runs in the background for this user, here: hubs and workers that --daemon started. */
#ifndef CMD_RUNNING_H
#define CMD_RUNNING_H

#include "daemon.h"

#include <sys/types.h>

enum { RUNNING_MOST = 256 };

typedef struct cmd_running {
    char id[DAEMON_ID];
    int fd; /* of its pid file, which its process has locked */
    pid_t pid;
} cmd_running;

/* All, workers before hubs, into `out` with room for RUNNING_MOST. Returns how many, or -1 after a
 * message. Each is closed with running_close. */
int running_list(cmd_running *out);
void running_close(cmd_running *all, int count);
/* The one with that ID, or NULL. */
const cmd_running *running_find(const cmd_running *all, int count, const char *id);
/* Whether it still runs. */
bool running_alive(const cmd_running *daemon);
/* Whether its process has ended, too, which comes a moment later. */
bool running_gone(const cmd_running *daemon);
/* "hub, worker-left", or "nothing", for messages. */
const char *running_names(const cmd_running *all, int count, char *out, size_t room);

#endif
