/* Running a pool: hubs and workers, who may come in from other machines, and what devices there
 * are. Programs that only use a pool need none of it. */
#ifndef SHOAL_POOL_H
#define SHOAL_POOL_H

#include "shoal/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The folders of this user where Shoal keeps files; nobody else can read them. */
typedef enum shoal_folder {
    SHOAL_FOLDER_RUNTIME, /* sockets: $XDG_RUNTIME_DIR/shoal, else /tmp/shoal-UID */
    SHOAL_FOLDER_CONFIG,  /* keys: $XDG_CONFIG_HOME/shoal, else ~/.config/shoal */
    SHOAL_FOLDER_STATE    /* logs: $XDG_STATE_HOME/shoal, else ~/.local/state/shoal */
} shoal_folder;
/* Writes the folder's path, also when it is not there (NOT_FOUND) or not ours alone (DENIED);
 * makes it when `create`. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_folder_path(shoal_folder folder, bool create,
                                                            char *out, size_t room);

typedef struct shoal_hub_options {
    size_t size;
    const char *address; /* NULL: "shm:hub" */
    /* Called once the addresses are held, before the call blocks; may be NULL. They are a list with
     * commas between them, which serves as an address of the hub. */
    void (*ready)(void *context, const char *addresses);
    void *context;
    const volatile int *stop; /* the call returns soon after *stop becomes non-zero */
    /* NULL: this machine only. "HOST:PORT" of one of its interfaces, which may be open to a
     * network: it listens there, too, encrypted, for who has enrolled. PORT may be 0: any. */
    const char *listen;
    /* With `listen` it announces itself on that interface's network, so that who has enrolled finds
     * it without an address: a UDP port, "off", or NULL: SHOAL_BEACON, else 7400. */
    const char *beacon;
    /* For tests: whatever can be done while it comes and goes is, in so many parts along an axis
     * (2 to 64); 0: what is faster so, in as many as it takes. */
    uint32_t panels;
} shoal_hub_options;
/* Runs a hub in this thread until stopped. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_hub_run(const shoal_hub_options *options);

typedef struct shoal_worker_options {
    size_t size;
    /* NULL: SHOAL_HUB, else "shm:hub", else one that this user has joined and that announces itself
     * (`beacon` as a hub's). */
    const char *hub;
    const char *name; /* NULL: the hub gives one */
    /* What it lends, with commas between: "cpu", all devices of a backend; "opencl:1", one of them.
     * Each is a slot. NULL: SHOAL_BACKEND, else all that are found; of
     * devices that compute on the processor `cpu` alone. */
    const char *devices;
    uint32_t threads; /* of the processor; 0: all cores */
    double weight;    /* of each device; 0: 1 */
    uint64_t memory;  /* most bytes for values on each device; 0: its own memory, and a share of
                         three  quarters of the machine's */
    /* Called when it has joined, each time. */
    void (*ready)(void *context, const char *name, const char *hub);
    void *context;
    const volatile int *stop;
    /* The interface ("HOST" or "HOST:PORT") at which others of the pool may reach this worker when
     * the hub is on another machine. NULL: SHOAL_LISTEN, else the one that leads to the hub. */
    const char *listen;
    const char *beacon;
    bool rejoin; /* when the hub was gone and is back; it is tried again every 5 s at least */
    /* Folders, with colons between them, where files of models are looked for, with all below them;
     * what is missing is fetched into the first. NULL: SHOAL_MODELS, else "models" in the user's
     * cache folder, and those of llama.cpp and Hugging Face. */
    const char *models;
} shoal_worker_options;
/* Runs a worker in this thread until stopped; without `rejoin` until the hub is gone (LOST, within
 * 3 s). What it held is lost to the pool when it leaves. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_worker_run(const shoal_worker_options *options);

/* ---- enrolment: who may come in from other machines ----
 *
 * Keys lie in $XDG_CONFIG_HOME/shoal (~/.config/shoal), for this user alone. */

/* What a key may be in a pool. */
typedef enum shoal_role {
    SHOAL_ROLE_CLIENT = 1, /* runs programs */
    SHOAL_ROLE_WORKER = 2, /* lends devices */
    SHOAL_ROLE_BOTH = 3
} shoal_role;
/* "client", "worker", "both"; NULL for numbers that are none. */
SHOAL_API const char *shoal_role_name(shoal_role role);
/* Fails with INVALID, naming those that there are. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_role_parse(const char *text, shoal_role *out);

/* A token for one user on one machine, good for so many seconds and for one role, at the hub that
 * this user runs here with `listen`; to be freed with free(). Fails with NOT_FOUND when there was
 * none. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_invite(uint32_t seconds, shoal_role role,
                                                       char **token);
/* Tokens that can still be used: the beginning of its public key, which names it, and when it
 * expires, in seconds since 1970. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tokens(void (*each)(void *context, const char *name,
                                                                    uint64_t expires,
                                                                    shoal_role role),
                                                       void *context);
/* The token whose name begins so can be used no more. Fails with NOT_FOUND, or INVALID when there
 * are several. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_token_cancel(const char *name);
/* Enrols this user at the token's hub, under a name (NULL: USER.HOST). The hub's addresses, for the
 * options above, are written to `hub`, of `room` bytes. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_join(const char *token, const char *name, char *hub,
                                                     size_t room);
/* Who has enrolled at this user's hub: name, public key (64 hexadecimal digits) and role. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_peers(
    void (*each)(void *context, const char *name, const char *key, shoal_role role), void *context);
/* Changes a role; links that are there end within a second. Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_peer_role(const char *name, shoal_role role);
/* Shuts somebody out; links that are there end within a second. Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_revoke(const char *name);

/* Backends of this build and the devices they find: for `doctor`. Calls back per device, and once
 * with device NULL and the reason for a backend that finds none. */
typedef struct shoal_found {
    const char *backend, *summary;
    uint32_t index;     /* which of the backend's devices */
    const char *device; /* NULL: none found */
    const char *reason; /* why none */
    uint64_t memory;
    uint32_t threads;
} shoal_found;
SHOAL_API void shoal_backends(void (*each)(void *context, const shoal_found *found), void *context);

#ifdef __cplusplus
}
#endif
#endif
