/* Running a pool: hubs and workers, the enrolment of users on other machines, and the devices of
 * this one. Programs that only use a pool do not need it. Functions may be called from any thread;
 * failures are reported as in shoal.h. */
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
/* Writes the folder's path, also when it fails because the folder does not exist (NOT_FOUND) or
 * others have access to it (DENIED). create: makes it if necessary. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_folder_path(shoal_folder folder, bool create,
                                                            char *out, size_t room);

typedef struct shoal_hub_options {
    size_t size;
    const char *address; /* NULL: "shm:hub" */
    /* Called once it listens, before the call blocks; may be NULL. addresses: all of them,
     * separated by commas; the list as a whole is also an address of the hub. */
    void (*ready)(void *context, const char *addresses);
    void *context;
    const volatile int *stop; /* the call returns soon after *stop becomes non-zero */
    /* "HOST:PORT" of one of this machine's interfaces, or of several, with commas: it listens
     * there, too, encrypted, for enrolled users only; members use all that lead here at once. PORT
     * may be 0: any. NULL: this machine only. */
    const char *listen;
    /* With `listen` it announces itself on that interface's network, so that enrolled users find it
     * without an address: a UDP port, "off", or NULL: SHOAL_BEACON, else 7400. */
    const char *beacon;
    /* For tests: exchanges overlap with computing in so many panels along an axis (2 to 64); 0:
     * where that is faster, in as many as are best. */
    uint32_t panels;
    /* Its members may ask for artifacts (machine code made of programs), which a keeper of this
     * user gives (below): they are told the public key by which this user signs them. */
    bool artifacts;
} shoal_hub_options;
/* Runs a hub in this thread until stopped. Fails with BUSY when the address is in use, and with
 * INVALID or IO. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_hub_run(const shoal_hub_options *options);

typedef struct shoal_worker_options {
    size_t size;
    /* NULL: SHOAL_HUB, else "shm:hub", else one that this user has joined and that announces itself
     * (`beacon` as a hub's). */
    const char *hub;
    const char *name; /* NULL: the hub gives one */
    /* The devices that it offers, separated by commas: "cpu", all devices of a backend; "opencl:1",
     * one of them. Each is a slot. NULL: SHOAL_BACKEND, else all that are found; of those that
     * compute on the processor only `cpu`. */
    const char *devices;
    uint32_t threads; /* of the processor; 0: all cores */
    double weight;    /* of each device; 0: 1 */
    uint64_t memory;  /* at most how many bytes of values on each device; 0: its own memory; devices
                         without such share three quarters of the machine's */
    /* Called each time it has joined a hub; may be NULL. */
    void (*ready)(void *context, const char *name, const char *hub);
    void *context;
    const volatile int *stop;
    /* The interface ("HOST" or "HOST:PORT"), or several with commas, at which others of the pool
     * may reach this worker when the hub is on another machine. NULL: SHOAL_LISTEN, else those that
     * lead to the hub's addresses. */
    const char *listen;
    const char *beacon;
    bool rejoin; /* when the hub is lost it keeps trying to join again, at least every 5 s */
    /* Folders, separated by colons, that are searched for model files, with their subfolders;
     * missing files are fetched into the first. NULL: SHOAL_MODELS, else "models" in the user's
     * cache folder, and those of llama.cpp and Hugging Face. */
    const char *models;
    /* Whose artifacts, which are machine code, its backends run: "own", those that this user has
     * signed; "hub", those that the hub's user has signed, too. NULL: SHOAL_ARTIFACTS, else
     * "own". */
    const char *artifacts;
    bool wait; /* while no hub answers it keeps trying to join its first one, at least every 5 s */
} shoal_worker_options;
/* Runs a worker in this thread until stopped; without `rejoin` also until the hub is lost (LOST,
 * within 3 s). The values that it holds are lost to the pool when it leaves. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_worker_run(const shoal_worker_options *options);

/* ---- artifacts ----
 *
 * The keeper is a process of the hub's own user that gives workers artifacts. It is told what they
 * ask for, and answers; the files go as those of models do, as digests name them. */

typedef struct shoal_keeper shoal_keeper;
/* Joins a hub as its keeper. address: of the hub; NULL: "shm:hub". folder: of the files that
 * members may fetch. Fails as joining does; a hub that has no artifacts, or another keeper, ends it
 * soon (LOST). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_keeper_open(const char *address, const char *folder,
                                                            shoal_keeper **out);
SHOAL_API void shoal_keeper_close(shoal_keeper **keeper);

/* What a worker asks for: valid until the next call of shoal_keeper_next. Words and text are as the
 * worker gave them. */
typedef struct shoal_wanted {
    uint64_t token;
    const char *made_of; /* a digest, 64 hexadecimal digits */
    const char *target, *device, *compiler;
    const char *text; /* ends with 0; NULL: none was sent */
    size_t text_bytes;
    uint32_t user; /* whose the worker is: a number that the hub gave */
} shoal_wanted;
/* Waits for the next question. Fails with TIMEOUT, and with LOST when the hub is gone. One thread.
 */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_keeper_next(shoal_keeper *keeper,
                                                            uint32_t timeout_ms, shoal_wanted *out);
/* Answers with a file and its note. The file must not change from then on. Any thread. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_keeper_give(shoal_keeper *keeper, uint64_t token,
                                                            const char *path, const void *note,
                                                            size_t note_bytes);
/* Answers that there is none, and why: NOT_FOUND, BUSY (it may be asked again); or, with OK, that
 * it would be made of the text, which is to be sent. Any thread. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_keeper_refuse(shoal_keeper *keeper, uint64_t token,
                                                              shoal_status why,
                                                              const char *message);

/* ---- enrolment: users on other machines ----
 *
 * Keys are kept in $XDG_CONFIG_HOME/shoal (~/.config/shoal), readable by this user only. */

/* What a key may be in a pool. */
typedef enum shoal_role {
    SHOAL_ROLE_CLIENT = 1, /* runs programs */
    SHOAL_ROLE_WORKER = 2, /* offers devices */
    SHOAL_ROLE_BOTH = 3
} shoal_role;
/* "client", "worker" or "both"; NULL for a value that is no role. */
SHOAL_API const char *shoal_role_name(shoal_role role);
/* The role of a name. Fails with INVALID, listing the roles. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_role_parse(const char *text, shoal_role *out);

/* Makes a token, which enrols one user on one machine in one role within so many seconds, at the
 * hub that this user runs here with `listen`. The caller frees it with free(). Fails with NOT_FOUND
 * when there has been no such hub. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_invite(uint32_t seconds, shoal_role role,
                                                       char **token);
/* Calls `each` with every token that can still be used: its name, which is the beginning of its
 * public key, and when it expires, in seconds since 1970. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tokens(void (*each)(void *context, const char *name,
                                                                    uint64_t expires,
                                                                    shoal_role role),
                                                       void *context);
/* Cancels the token whose name begins with `name`. Fails with NOT_FOUND, or with INVALID when there
 * are several. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_token_cancel(const char *name);
/* Enrols this user at the token's hub, under a name (NULL: USER.HOST), and writes the hub's
 * addresses, for the options above, to `hub`, of `room` bytes. Fails with FORMAT for a malformed
 * token, DENIED for one that the hub does not accept, and NOT_FOUND or TIMEOUT when the hub does
 * not answer. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_join(const char *token, const char *name, char *hub,
                                                     size_t room);
/* Calls `each` with every user enrolled at this user's hub: name, public key (64 hexadecimal
 * digits) and role. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_peers(
    void (*each)(void *context, const char *name, const char *key, shoal_role role), void *context);
/* Changes a user's role; existing links end within a second. Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_peer_role(const char *name, shoal_role role);
/* Revokes a user's key; existing links end within a second. Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_revoke(const char *name);

/* A device of one of this build's backends; or a backend that finds none, with the reason. */
typedef struct shoal_found {
    const char *backend, *summary;
    uint32_t index;     /* which of the backend's devices */
    const char *device; /* NULL: none found */
    const char *reason; /* why none was found; else NULL */
    uint64_t memory;    /* bytes; 0: unknown */
    uint32_t threads;   /* compute threads or units */
    uint32_t flags;     /* SHOAL_DEVICE_* of backend.h */
    bool unasked;       /* its library may end the process that opens it: asked by its name alone */
} shoal_found;
/* Calls `each` with every device, and once for every backend without one; name: of this backend
 * alone, or NULL. Nothing may be kept. Fails with NOT_FOUND for a name that no backend has, and
 * where one in Python cannot be loaded. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_backends(
    const char *name, void (*each)(void *context, const shoal_found *found), void *context);

#ifdef __cplusplus
}
#endif
#endif
