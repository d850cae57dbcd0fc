/* How much the hub takes on, and of whom. */
#ifndef HUB_LIMITS_H
#define HUB_LIMITS_H

#include "wire/wire.h"

/* What one graph, one session and the pool may take of the hub; the members' own ways stay far
 * below, so who passes them is in error or means harm, and its link is closed with a message. */
enum {
    HUB_GRAPH_LIMIT = 256 << 20, /* bytes of a decoded graph, */
    HUB_PLAN_LIMIT = 512 << 20,  /* and of what is made of it for all slots, */
    HUB_PLAN_MS = 5000,          /* in so much of the pump's time, */
    HUB_PLAN_NODE_NS = 100000,   /* and so much for each node on each slot, */
    HUB_PLAN_MOST_MS = 30000,    /* but no more than this in all */
    HUB_MAX_WAITING = 1024,      /* instances of a session that are not through */
    HUB_MAX_ROUNDS = 1000000000, /* of a loop */
    HUB_MAX_RERUNS = 100,        /* beginnings of a program that comes to no end */
    HUB_MAX_CUTS = 64,           /* of its checks, after which what derives from any has failed */
    HUB_MAX_MEMBERS = 1000,
    HUB_MAX_DEVICES = 64, /* of a member */
    HUB_MAX_NAME = 255,
    HUB_MAX_HOST = 255,
    HUB_MAX_ADDRESSES = 8,
    HUB_MAX_ADDRESS = 255,
    HUB_MUCH_FREED = 64 << 10,        /* bytes */
    HUB_MAX_REASON = 1024,            /* bytes of a failure's message */
    HUB_MAX_RECORDED = 16 << 20,      /* bytes of events in one answer */
    HUB_MAX_FRAME = WIRE_CHUNK + 256, /* to be passed on */
    HUB_MAX_RELAYED = 192 << 20,      /* bytes on their way by way of the hub, */
    HUB_MAX_QUEUED = 1 << 30,         /* and in all that wait to be read, */
    HUB_MUCH_QUEUED = 1 << 20,        /* of which so many of a member are looked into, */
    HUB_UNREAD_S = 30,                /* and so long may nothing of them be read */
    HUB_MAX_WANTED = 256 << 20,       /* questions for artifacts: bytes of their texts, */
    HUB_WANTED_HELD = 256 << 10       /* and for each, as it takes the keeper's time */
};

/* Of what the hub holds for sessions (values, programs, how values were made): one user's at most
 * half of what is left. About what each takes, with what is allocated beside it. */
#define HUB_MAX_HELD (UINT64_C(3) << 29)
enum {
    HUB_VALUE_HELD = 2048,
    HUB_PROGRAM_HELD = 4096,
    HUB_RECORD_HELD = 512,
    HUB_OPERAND_HELD = 64,
    HUB_MUCH_HELD = 16 << 20,  /* of a session's, whose end gives memory back to the system; */
    HUB_MUCH_PLANNED = 1 << 20 /* of plans; making them took far more, and so did reading them */
};

/* The largest weight or speed: sums and products of such stay finite. */
#define HUB_MOST_SPEED 1e24
/* No processor encrypts less in a second. */
#define HUB_LEAST_SEALING 1e6

#endif
