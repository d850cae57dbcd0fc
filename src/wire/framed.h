/* Links whose carrier takes whole frames: encrypted ones (zmq), and those by way of the hub
 * (relay). What they have alike: the handshake, and credits. All of it under the pump.
 *
 *   connecting side          accepting side
 *   HELLO                ->
 *                        <-  WELCOME, or WELCOME with an error
 *
 * Beats, credits and words of lost paths do not count. Other bytes under way are limited: who
 * receives says how far the other side may go (CREDIT), a quarter of its window at a time. Before
 * the first word of that, the other side may send one chunk. */
#ifndef WIRE_FRAMED_H
#define WIRE_FRAMED_H

#include "wire/transport.h"

/* Frames of the handshake and of flow control, beside those that all links have. */
enum {
    WIRE_FRAME_HELLO = 16, /* Hello */
    WIRE_FRAME_WELCOME,    /* Hello, of frame.offset bytes, then Welcome */
    WIRE_FRAME_CREDIT,   /* frame.total: bytes that may be sent, of all that ever are; frame.offset:
                            bytes that have come */
    WIRE_FRAME_BEAT,     /* nothing: the process lives */
    WIRE_FRAME_ENROL,    /* public key, then name; with a token */
    WIRE_FRAME_ENROLLED, /* the name; frame.kind: shoal_status, then the message */
    WIRE_FRAME_LOST,     /* path frame.instance has ended, and frame.total bytes had come on it;
                            frame.kind: 1: an answer to the same */
};

/* Bytes that may be sent before anything is said of it: also the smallest window, since no frame is
 * larger. */
enum { WIRE_FIRST_CREDIT = (sizeof(wire_frame) + WIRE_CHUNK + 7) & ~7 };
/* Bytes that may be kept of what has gone out on one connection: more than any window. */
enum { WIRE_MAX_UNTOLD = 32 << 20 };

typedef struct wire_framed wire_framed;

typedef struct wire_carrier {
    /* Bytes that may be under way to us on this link for now. */
    uint64_t (*window)(const wire_framed *own);
    /* Sends one frame at once, past the queues; its payload may be NULL. */
    shoal_status (*put)(wire_framed *own, const wire_frame *frame, const void *payload);
    /* The handshake is through. */
    void (*begin)(wire_framed *own);
    /* NULL where a link has one path. Makes a connection to an address (without a key) that is to
     * be a path of the same link: it is added to the peer, and NULL with a message. */
    wire_framed *(*join)(wire_framed *lead, const char *address, uint32_t number);
    /* Bytes a second that go out on it of late, if it leaves this machine; 0: that is not known. */
    double (*speed)(wire_framed *own);
    /* The address that this connection leads to, in numbers; false when that cannot be told. */
    bool (*reached)(const wire_framed *own, char *out, size_t room);
} wire_carrier;

/* What has gone out and may have to go out again: a chunk of a box, or a message. */
typedef struct wire_piece {
    struct wire_piece *next;
    wire_item *item;
    uint64_t offset;
    uint32_t bytes, went; /* of the item, and that went out: fewer when it went compressed */
    uint64_t end;         /* bytes that have been sent on the path, with it */
    int64_t at;           /* when */
} wire_piece;

typedef struct wire_flight {
    wire_piece *first, *last;
    uint64_t bytes; /* of data, that went out */
} wire_flight;

/* A connection as one of several of a link: see paths.h. */
typedef struct wire_path {
    uint32_t number;
    bool ready;             /* the other side knows that there is this path */
    uint64_t told;          /* bytes that came, as was last said */
    uint64_t acked, unkept; /* of those sent: that have come there; that are not kept */
    wire_flight flight;     /* under the link's lock */
    uint64_t saved;         /* bytes, by compression */
    double bytes, seconds;  /* of late, for its speed, */
    uint32_t measures;      /* of so many pieces, */
    int64_t measured;       /* the last at this time */
} wire_path;

/* A link of such a transport starts with this. */
struct wire_framed {
    wire_link base;
    const wire_carrier *carrier;
    char *address; /* as given, without its key */
    bool accepting;
    Shoal__Hello *hello; /* the other side's */
    /* Bytes of frames that count, since the beginning: sent and allowed by the other side, received
     * and allowed to it. */
    uint64_t sent, may_send, received, may_come;
    uint64_t window; /* when it was last told how far it may go */
    bool blocked;    /* may_send is not enough for what is next */
    bool expands;    /* the other side takes compressed chunks */
    wire_path path;
};

/* Adds the link to the peer. On failure nothing is kept; `own` is freed by the caller. */
shoal_status wire_framed_add(wire_framed *own, wire_peer *peer, const wire_transport *transport,
                             const wire_carrier *carrier, const char *address,
                             uint64_t attempt) SHOAL_CHECK_RESULT;
/* What it holds but for its common part: the last of a transport's shut. */
void wire_framed_fini(wire_framed *own);
/* Tells the other side how far it may go, when that has grown enough: to be called now and then
 * while the link is held. And what has come, when that is kept there: at once, or when it is much.
 */
void wire_framed_tell(wire_framed *own, bool at_once);

/* The handshake has failed, for the reason in the thread's message: ends the link. */
void wire_framed_give_up(wire_framed *own, shoal_status why);
/* HELLO, or WELCOME when there is one. */
shoal_status wire_framed_hello(wire_framed *own, const Shoal__Welcome *welcome) SHOAL_CHECK_RESULT;
/* The accepting side: a HELLO has come. */
void wire_framed_guest(wire_framed *own, const uint8_t *bytes, size_t n);
/* The connecting side: something has come. */
void wire_framed_answer(wire_framed *own, const wire_frame *frame, const uint8_t *payload);
/* A frame has come on an open link. */
void wire_framed_take(wire_framed *own, const wire_frame *frame, const void *payload);

/* Whether `bytes` may go out; counts them when they have. */
bool wire_framed_room(wire_framed *own, size_t bytes);
void wire_framed_went(wire_framed *own, size_t bytes);

/* ---- compress.c ---- */

/* A chunk of data lies where a whole frame was reserved: compresses it where that is sooner there;
 * gives the place of the frame. Under the pump. */
uint8_t *wire_compress(wire_framed *own, const wire_writer *writer, wire_frame *frame, uint8_t *to);

/* A transport's send, send_data and pending: only the pump writes, senders queue. */
shoal_status wire_framed_send(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                              size_t bytes, wire_account *account) SHOAL_CHECK_RESULT;
shoal_status wire_framed_send_data(wire_link *link, const wire_transfer *transfer,
                                   const wire_source *source) SHOAL_CHECK_RESULT;
bool wire_framed_pending(wire_link *link);
void wire_framed_sleep(wire_link *link, bool sleeps);

#endif
