/* What can be found out about the network from here, without sending anything but a TCP connect. */
#ifndef CMD_NET_H
#define CMD_NET_H

#include "cmd.h"

enum { NET_HOST = 256, NET_TEXT = 1024 };

/* Cuts "HOST:PORT" or "[HOST]:PORT"; false when it is neither. */
bool net_split(const char *text, char host[NET_HOST], char port[8]);

typedef enum net_state {
    NET_OPEN,      /* somebody listens there */
    NET_REFUSED,   /* the machine answers, but nobody listens at the port */
    NET_SILENT,    /* nothing comes back: a firewall, or no such machine */
    NET_UNREACHED, /* no way there */
    NET_UNKNOWN,   /* no such host name */
    NET_OTHER      /* `why` tells */
} net_state;
/* Connects, within seconds, and closes. `why` is the system's word for it. */
net_state net_probe(const char *host, const char *port, char why[NET_TEXT]);

/* Whether a process could listen there now: 0, or the errno of the refusal; -1 when the host is no
 * address of numbers or name that is known. */
int net_try_listen(const char *host, const char *port);
/* The process of this user that listens at a TCP port: "process 12 (name)"; false when it cannot be
 * told. */
bool net_listener(const char *port, char out[NET_TEXT]);

/* Addresses of this machine, without loopback: "192.168.1.5 (eth0), ..."; how many. */
int net_addresses(char out[NET_TEXT]);
/* Whether a hub's Unix socket is there and somebody listens at it. */
bool net_socket_alive(const char *path);

#endif
