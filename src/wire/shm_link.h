/* A link over shared memory: what its making (shm.c) and its running (shm_link.c) share. */
#ifndef WIRE_SHM_LINK_H
#define WIRE_SHM_LINK_H

#include "base/os.h"
#include "wire/ring.h"
#include "wire/transport.h"

typedef struct shm_link {
    wire_link base;
    wire_watch watch; /* the socket */
    char *address;    /* as given: "shm:hub" */
    char *path;
    bool accepting;
    int64_t give_up; /* of the handshake */
    bool same_user;
    uint32_t pid;        /* of the other process, as the system says */
    base_str in;         /* bytes of the handshake */
    Shoal__Hello *hello; /* the other side's, once it has come */
    int fds[BASE_OS_MAX_FDS];
    size_t fd_count;
    bool seen;           /* there was such a process, as far as we can see it */
    int stopped;         /* looks in a row at which it was stopped, or had ended */
    int doorbell;        /* the other side's; -1 */
    wire_ring out, ring; /* to write and to read */
} shm_link;

/* The path of the socket of "shm:NAME", to be freed; NULL with a status and a message. */
char *wire_shm_path(const char *address, bool create, shoal_status *status);
shoal_status wire_shm_send(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                           size_t bytes, wire_account *account) SHOAL_CHECK_RESULT;
shoal_status wire_shm_send_data(wire_link *link, const wire_transfer *transfer,
                                const wire_source *source) SHOAL_CHECK_RESULT;
bool wire_shm_progress(wire_link *link);
bool wire_shm_pending(wire_link *link);
void wire_shm_sleep(wire_link *link, bool sleeps);
void wire_shm_shut(wire_link *link);
/* The socket of an open link has become readable: the end of the other process. */
void wire_shm_hung_up(shm_link *link);
/* Looks, now and again, whether the other process has been stopped. */
void wire_shm_look(shm_link *link);

#endif
