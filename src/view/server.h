/* Serves a pool's metrics over HTTP, at /metrics. */
#ifndef VIEW_SERVER_H
#define VIEW_SERVER_H

#include "shoal/shoal.h"

typedef struct view_server view_server;

enum { VIEW_ADDRESS_ROOM = 64 };

/* Where metrics are served when nothing else is said: to this machine only. */
#define VIEW_DEFAULT_ADDRESS "127.0.0.1:7480"

/* Reads "ADDRESS:PORT" (numbers; "[::1]:0" is any port of IPv6's loopback); false when it is none.
 * *open: others than this machine can reach it. */
bool view_address_check(const char *address, bool *open);

/* Serves the metrics of the pool at `hub`, on a thread of its own, until view_server_stop. False
 * with a message in `error` when the address cannot be had. */
bool view_server_start(const char *address, const char *hub, view_server **out, char *error,
                       size_t room);
/* Where it serves, the port being the real one. */
const char *view_server_address(const view_server *server);
/* Ends it; nothing for NULL inside. A request on its way is answered first, within seconds. */
void view_server_stop(view_server **server);

#endif
