/* Links whose carrier takes whole frames: encrypted ones (zmq), and those by way of the hub
 * (relay). What they have alike: the handshake, and credits. All of it under the pump.
 *
 *   connecting side          accepting side
 *   HELLO                ->
 *                        <-  WELCOME, or WELCOME with an error
 *
 * Bytes under way are limited by a window; what the other side has consumed it tells, a quarter of
 * the window at a time. */
#ifndef WIRE_FRAMED_H
#define WIRE_FRAMED_H

#include "wire/transport.h"

/* Frames of the handshake and of flow control, beside those that all links have. */
enum {
    WIRE_FRAME_HELLO = 16, /* Hello */
    WIRE_FRAME_WELCOME,    /* Hello, of frame.offset bytes, then Welcome */
    WIRE_FRAME_CREDIT,     /* frame.total: bytes ever consumed */
    WIRE_FRAME_BEAT,       /* nothing: the process lives */
    WIRE_FRAME_ENROL,      /* public key, then name; with a token */
    WIRE_FRAME_ENROLLED,   /* the name; frame.kind: shoal_status, then the message */
};

typedef struct wire_framed wire_framed;

typedef struct wire_carrier {
    uint64_t window; /* bytes under way per link and direction */
    /* Sends one frame at once, past the queues; its payload may be NULL. */
    shoal_status (*put)(wire_framed *own, const wire_frame *frame, const void *payload);
    /* The handshake is through. */
    void (*begin)(wire_framed *own);
} wire_carrier;

/* A link of such a transport starts with this. */
struct wire_framed {
    wire_link base;
    const wire_carrier *carrier;
    char *address; /* as given, without its key */
    bool accepting;
    Shoal__Hello *hello;                           /* the other side's */
    uint64_t sent, consumed_there, received, told; /* bytes of frames that count */
    bool blocked;                                  /* by the window */
};

/* Adds the link to the peer. On failure nothing is kept; `own` is freed by the caller. */
shoal_status wire_framed_add(wire_framed *own, wire_peer *peer, const wire_transport *transport,
                             const wire_carrier *carrier, const char *address,
                             uint64_t cookie) SHOAL_CHECK_RESULT;
/* What it holds but for its common part: the last of a transport's shut. */
void wire_framed_fini(wire_framed *own);
/* Tells the other side what was read, when there is enough to tell: to be called now and then while
 * the link is held. */
void wire_framed_tell(wire_framed *own);

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

/* Whether the window lets `bytes` go out; counts them when they have. */
bool wire_framed_room(wire_framed *own, size_t bytes);
void wire_framed_went(wire_framed *own, size_t bytes);

/* A transport's send, send_data and pending: only the pump writes, senders queue. */
shoal_status wire_framed_send(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                              size_t bytes, wire_account *account) SHOAL_CHECK_RESULT;
shoal_status wire_framed_send_data(wire_link *link, const wire_transfer *transfer,
                                   const wire_source *source) SHOAL_CHECK_RESULT;
bool wire_framed_pending(wire_link *link);
void wire_framed_sleep(wire_link *link, bool sleeps);

#endif
