/* Links of several connections, their paths. The first connection is the link itself, which
 * handlers know; it stays that when its connection has ended and others go on. Paths are framed
 * links whose `lead` it is.
 *
 * Messages go by one path, the talker; data by each that will be through with it soonest. From when
 * a link has two paths, what has gone out is kept until the other side says that it has come, by
 * the bytes that came on that path. When one ends, both sides say how many those were in the end,
 * and what did not come goes out again: so everything comes once.
 *
 *   one side                             the other
 *   LOST path, bytes that came here  ->  ends that path, if it has not
 *                                    <-  LOST (answer) path, bytes that came there
 *
 * The queues of what waits to be sent are the link's, and so is the lock for all here that is not
 * the pump's alone. */
#ifndef WIRE_PATHS_H
#define WIRE_PATHS_H

#include "wire/framed.h"

enum {
    WIRE_MAX_PATHS = WIRE_MOST_PATHS,
    WIRE_MAX_LOST = 8,      /* paths that have ended, and are remembered */
    WIRE_MAX_ADDRESS = 320, /* bytes of a route's address */
};

/* A path that has ended. */
typedef struct wire_lost {
    uint32_t number;
    bool known;      /* what came there of what was sent here */
    uint8_t answers; /* given to the other side */
    uint64_t sent, acked, unkept, received;
    wire_flight flight;
    int64_t until; /* the end of patience */
} wire_lost;

/* An address of the other side, on the side that connects. */
typedef struct wire_route {
    char address[WIRE_MAX_ADDRESS];
    wire_link *link;  /* the connection there, be it that it opens; NULL: none */
    int64_t since;    /* when that was begun */
    int64_t at, wait; /* when it is tried next, and how long it is waited after that */
} wire_route;

struct wire_paths {
    wire_link *lead;
    uint64_t id;          /* Welcome.link */
    uint64_t incarnation; /* of the other side's process */
    bool accepting;
    wire_watch timer;
    wire_framed *open[WIRE_MAX_PATHS];
    uint32_t n_open;
    uint64_t n_ended;
    uint32_t numbers; /* given to paths so far, by who connects */
    wire_route routes[WIRE_MAX_PATHS];
    uint32_t n_routes;
    wire_lost lost[WIRE_MAX_LOST];
    uint32_t n_lost;
    /* under the link's lock */
    _Atomic bool kept;    /* there have been two */
    wire_framed *talker;  /* by which messages go; NULL: until it is known what came by the last */
    uint32_t last_talker; /* the number of that */
    wire_flight again;    /* data to be sent again */
    wire_item *reading;   /* with the lock released */
};
typedef struct wire_paths wire_paths;

/* ---- paths.c ---- */

/* Whether what goes out on the link that this is, or is a path of, is kept. Any thread. */
bool wire_paths_kept(wire_link *link);
/* Under the pump: sends what is to go by this path; true when anything went out. And whether it
 * would. */
bool wire_paths_flush(wire_framed *own, const wire_writer *writer);
bool wire_paths_pending(wire_framed *own);
/* Bytes a second that go out by it; 0: it has not been measured. */
double wire_paths_speed(const wire_framed *own);
/* So many of the bytes that were sent on this path have come. */
void wire_paths_acked(wire_framed *own, uint64_t come);
/* The data of an instance: gives it up, called with the lock, which it lets go; and whether some
 * still waits to go out, or to go out again, the lock being held. */
void wire_paths_drop(wire_link *link, uint64_t instance);
bool wire_paths_have(const wire_link *link, uint64_t instance);
/* Where there is no talker, the fastest becomes it, once it is known what came by the last. */
void wire_paths_settle(wire_paths *paths);

/* ---- lost.c ---- */

/* One more path, whose handshake is through. */
void wire_paths_join(wire_framed *own);
/* The connection has ended: true when the link goes on without it. */
bool wire_paths_lose(wire_link *link, shoal_status why, const char *message);
/* A frame LOST has come. */
void wire_paths_told(wire_framed *own, const wire_frame *frame);
/* Ends the link when what is lost has not been told of in time; the time of the next look, or 0. */
int64_t wire_paths_overdue(wire_paths *paths);
/* The link ends: frees all that is kept. */
void wire_paths_clear(wire_link *link);
/* The last. NULL is fine. */
void wire_paths_free(wire_link *link);

/* ---- routes.c: where paths lead, and who may join ---- */

/* The number that the accepting side gives a new link for more paths; 0: it has none. */
uint64_t wire_routes_offer(wire_framed *own);
/* The connecting side: tries the other addresses of who was reached, now and whenever one is lost.
 */
void wire_routes_find(wire_framed *own, uint64_t id);
/* Whether who wants to join, or answers, is the other end of that link. */
shoal_status wire_routes_check(wire_link *link, const Shoal__Hello *hello,
                               bool accepting) SHOAL_CHECK_RESULT;
/* A connection that was to be a path has not become one. */
void wire_routes_missed(const wire_link *link);
/* One that was is none any more. */
void wire_routes_ended(wire_paths *paths, const wire_link *link);
/* Looks at the time again. */
void wire_routes_look(wire_paths *paths);

#endif
