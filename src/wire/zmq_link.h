/* Encrypted links: what their parts share. zmq.c makes links (addresses, handshake), zmq_link.c
 * runs them, zmq_socket.c has the sockets, zmq_door.c says who may come in. All of it under the
 * pump. */
#ifndef WIRE_ZMQ_LINK_H
#define WIRE_ZMQ_LINK_H

#include "base/map.h"
#include "wire/framed.h"
#include "wire/keys.h"

#include <zmq.h>

enum {
    WIRE_ZMQ_WINDOW = 8 << 20,      /* bytes under way per link and direction, */
    WIRE_ZMQ_KEY_WINDOW = 64 << 20, /* and to one listener on all links of one user */
    /* Credit is looked at when a frame is read. Until then ØMQ takes so many of a link, each of at
     * most WIRE_ZMQ_MESSAGE bytes, and leaves the rest to the connection. */
    WIRE_ZMQ_FRAMES = 64,
    WIRE_ZMQ_LINKS = 1024,     /* accepted at one address, */
    WIRE_ZMQ_KEY_LINKS = 256,  /* with one user's key, */
    WIRE_ZMQ_MEMBER_LINKS = 3, /* with one member's: its last ones may not have ended here, */
    WIRE_ZMQ_WAITING = 256,    /* and let in without having said hello, for so long: */
    WIRE_ZMQ_WAITING_MS = 2000,
    WIRE_ZMQ_CUT_MS = 200, /* then, or when a link has ended and its connection has not */
    WIRE_ZMQ_MESSAGE = WIRE_CHUNK + sizeof(wire_frame) + 128, /* with what CURVE adds */
    WIRE_ZMQ_HANDSHAKE_MS = 1900,
    WIRE_ZMQ_LINGER_MS = 1000,
};
/* The other process lives when bytes come: both sides send some every WIRE_ZMQ_BEAT. */
#define WIRE_ZMQ_BEAT_MS 300
#define WIRE_ZMQ_SILENCE_MS 1500
/* And when they make sense: no whole frame for so long, though bytes come, is the end, too. */
#define WIRE_ZMQ_GARBLED_MS 15000
/* Where there is another path, what is on its way is not left waiting for so long. */
#define WIRE_ZMQ_GARBLED_PATH_MS 5000

/* What a peer has once it uses encrypted links: a context with its own thread for connections and
 * encryption, and the door. */
typedef struct wire_zmq {
    void *context;
    wire_key_pair own; /* the user's: towards a hub, and of a hub */
    uint64_t monitors; /* made so far */
    struct zmq_listener *ended;
    struct zmq_door *door;
    /* heartbeats: see zmq_beat.c */
    pthread_mutex_t turn, use; /* of all sockets: who is next, and whose turn it is */
    pthread_cond_t stop;
    bool beats, stopping; /* under turn */
    pthread_t thread;
    BASE_VEC(struct zmq_link *) beating; /* under use */
} wire_zmq;

/* A socket and its monitor. */
typedef struct zmq_end {
    wire_peer *peer;
    void *socket, *monitor;
    wire_watch watch, monitor_watch;
    bool router;
    bool draining;
    /* A message: `id` is NULL but for a router. */
    void (*message)(struct zmq_end *end, zmq_msg_t *id, zmq_msg_t *body);
    void (*event)(struct zmq_end *end, uint16_t event, uint32_t value);
} zmq_end;

typedef struct zmq_waiting {
    int fd;
    uint64_t identity; /* ØMQ closes descriptors by itself: the number may be another's */
    int64_t until;
} zmq_waiting;

typedef struct zmq_listener {
    zmq_end end;
    struct zmq_listener *next;
    char *address;    /* as given */
    char *path;       /* of a name: where it is written down, else NULL */
    int fd, lock;     /* of the name */
    base_map members; /* by routing number: zmq_link */
    bool full;        /* it has been said that there is no room */
    /* Connections that have no link, or none any more: they get one soon, or are cut. */
    wire_watch cutter;
    BASE_VEC(zmq_waiting) waiting;
} zmq_listener;

typedef struct zmq_link {
    wire_framed framed;
    zmq_end end;            /* of a link that connects */
    zmq_listener *listener; /* of a link that was accepted */
    wire_watch timer;
    char *dialled; /* as given; links that connect */
    uint64_t route;
    uint8_t id[5];
    int fd;            /* of the connection: ØMQ's, only to be asked */
    uint64_t identity; /* of it; accepted links */
    bool connected;
    bool leaves;                  /* the other side is on another machine */
    double speed;                 /* bytes a second that go out; 0: not measured yet */
    bool guessed;                 /* the other side's key: our own, for want of a better */
    wire_role role;               /* of the other side's key; accepted links */
    int64_t spoke;                /* under use */
    int64_t heard, ticked, awake; /* awake: since when we look in time */
    zmq_msg_t draft;
} zmq_link;

/* ---- zmq_socket.c ---- */

/* The peer's context, made when there is none. */
shoal_status wire_zmq_start(wire_peer *peer) SHOAL_CHECK_RESULT;
/* Waits for what still goes out, frees. NULL is fine. */
void wire_zmq_end(wire_peer *peer);
/* Opens a socket with keys, limits, monitor and watches; server_key NULL: a router that accepts.
 * On failure nothing is kept. */
shoal_status wire_zmq_open(zmq_end *end, wire_peer *peer, const uint8_t *server_key,
                           const wire_key_pair *own) SHOAL_CHECK_RESULT;
/* linger_ms: what is on its way may still go out. */
void wire_zmq_close(zmq_end *end, int linger_ms);
/* Takes all messages that have come: what was complete before the end of a connection counts. */
void wire_zmq_drain(zmq_end *end);
/* Reads the monitor until there is nothing left. */
void wire_zmq_events(zmq_end *end);
/* Fails with the errno of ØMQ. */
shoal_status wire_zmq_fail(const char *what);

/* ---- zmq_beat.c ---- */

/* Around each use of a socket. */
void wire_zmq_enter(wire_zmq *zmq);
void wire_zmq_leave(wire_zmq *zmq);
shoal_status wire_zmq_beats_start(wire_zmq *zmq) SHOAL_CHECK_RESULT;
void wire_zmq_beats_end(wire_zmq *zmq);
/* From here on the link's other side hears of us; removing one that is not there is fine. */
shoal_status wire_zmq_beats_add(zmq_link *link) SHOAL_CHECK_RESULT;
void wire_zmq_beats_remove(zmq_link *link);

/* ---- zmq_door.c: who may come in, asked on a thread of its own ---- */

shoal_status wire_zmq_door_open(wire_peer *peer) SHOAL_CHECK_RESULT;
/* Ends its thread, which uses listeners and posts calls: from then on nobody is let in. */
void wire_zmq_door_stop(wire_zmq *zmq);
void wire_zmq_door_close(wire_zmq *zmq);
/* Whether a key may have a link, by what was last read; with the name, or why not. Any thread. */
void wire_zmq_known(wire_peer *peer, const uint8_t *key, wire_guest *out);
/* A connection was refused before it could say who it is. */
void wire_zmq_refused(wire_peer *peer);
/* Somebody with a token asks to be enrolled: written down on the door's thread, then answered. */
shoal_status wire_zmq_enrol(zmq_listener *listener, zmq_msg_t *id, const uint8_t *token,
                            const uint8_t *key, const char *name) SHOAL_CHECK_RESULT;

/* ---- zmq.c ---- */

/* Of a connection that has no link any more: it is cut unless it ends by itself soon. */
void wire_zmq_abandon(zmq_listener *listener, int fd, uint64_t identity);
/* Answers who asked to be enrolled. */
void wire_zmq_answer(zmq_listener *listener, const void *id, size_t n, shoal_status status,
                     const char *text);

void wire_zmq_free_listener(zmq_listener *listener);

/* ---- zmq_link.c ---- */

bool wire_zmq_progress(wire_link *link);
void wire_zmq_shut(wire_link *link);
/* See wire_carrier. */
shoal_status wire_zmq_put(wire_framed *framed, const wire_frame *frame,
                          const void *payload) SHOAL_CHECK_RESULT;
double wire_zmq_speed(wire_framed *framed);
/* A frame has come on an open link. */
void wire_zmq_take(zmq_link *own, const wire_frame *frame, const void *payload);
/* The timer of an open link. */
void wire_zmq_look(zmq_link *own);

#endif
