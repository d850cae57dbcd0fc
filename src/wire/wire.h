/* This process's end of the exchange: links to other peers, messages and tensor data on them.
 *
 * A peer listens on addresses, connects to others, and hands what arrives to its handlers. All
 * handlers run one after another under the pump: by the peer's own I/O thread, or by a thread that
 * waits in wire_wait (it takes the pump over, so that no thread has to be woken). A handler never
 * blocks and never computes. wire_send and wire_send_data may be called from any thread, handlers
 * included; they never block and never call a handler.
 *
 * Transports sit behind wire_transport (transport.h): `inproc` (a link of the peer to itself),
 * `shm` (rings in shared memory between processes of one machine), `zmq` (encrypted TCP, between
 * machines, and everywhere with SHOAL_TRANSPORT=zmq).
 *
 * Addresses: "inproc", "shm:NAME" (a Unix socket called NAME in the user's runtime folder, where
 * rings are agreed on and where the end of the other process shows), or "shm:/PATH",
 * or "tcp://HOST:PORT", or "tcp://HOST:PORT/KEY" with the public key of who listens; and "relay:N",
 * member N by way of the hub. */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "base/status.h"
#include "base/str.h"
#include "shoal.pb-c.h"
#include "shoal/event.h"
#include "wire/keys.h"

#include <stddef.h>

/* Protocols that are spoken, the newest and the oldest. */
enum { WIRE_PROTOCOL = 10, WIRE_OLDEST = 9 };
/* Features within them, as bits: chunks may come compressed; a hub listens to News. */
enum { WIRE_COMPRESSED = 1, WIRE_NEWS = 2, WIRE_FEATURES = WIRE_COMPRESSED | WIRE_NEWS };
enum { WIRE_MAX_MESSAGE = 64 << 20, WIRE_CHUNK = 1 << 20 };
/* Chunks that come in any order begin at multiples of this, and end there or with the transfer. */
enum { WIRE_GRAIN = 128 << 10 };
/* Members say to one another what is of these kinds alone, with a chunk and its heading. */
enum { WIRE_BETWEEN = SHOAL__KIND__FILE_ASK, WIRE_ROOM_BETWEEN = 4096 };
/* Most bytes of a value that travels in messages: numbers such as a learning rate, which change
 * with every step, cost no exchange. */
enum { WIRE_SMALL = 256 };
/* Most bytes of the text that an artifact is made of, and of the note beside one. */
enum { WIRE_MOST_TEXT = 8 << 20, WIRE_MOST_NOTE = 64 << 10 };
/* Of the digest of what an artifact was made of, and of its own. */
enum { WIRE_DIGEST = 32 };

/* Numbers from here on are those of parts of files, in place of an instance's. */
#define WIRE_FILE (UINT64_C(1) << 63)

typedef struct wire_peer wire_peer;
typedef struct wire_link wire_link;

/* A transfer: one box on its way. Who sends and who receives know it by these numbers. */
typedef struct wire_transfer {
    uint64_t instance;
    uint32_t channel;
    uint32_t ordinal;
    uint64_t bytes; /* in all */
} wire_transfer;

typedef struct wire_handlers {
    void *context;
    /* A link is up: both sides have said hello and accepted each other. Return a failure to refuse
     * the peer: it is told the message. `hello` is the other side's. On the side that connected,
     * `welcome` is what the other answered; on the side that accepted it is to be filled (its
     * strings and arrays are freed with protobuf-c's default allocator). */
    shoal_status (*opened)(void *context, wire_link *link, const Shoal__Hello *hello,
                           Shoal__Welcome *welcome, bool accepting);
    /* A message; body is valid during the call. A failure closes the link with that message. */
    shoal_status (*message)(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                            size_t bytes);
    /* Bytes [offset, offset + n) of a transfer; valid during the call. Chunks of one transfer come
     * once each: in order, but on a link that has had several paths: see WIRE_GRAIN. */
    shoal_status (*data)(void *context, wire_link *link, const wire_transfer *transfer,
                         uint64_t offset, const void *bytes, size_t n);
    /* The link is gone, for the reason given (LOST: the process ended; CLOSED: by either side). Not
     * called for a link that was never opened. The pointer is valid until this returns. */
    void (*closed)(void *context, wire_link *link, shoal_status why, const char *message);
    /* A connection attempt of wire_connect failed; `cookie` as given there. */
    void (*connect_failed)(void *context, uint64_t cookie, shoal_status why, const char *message);
} wire_handlers;

/* hello: what this peer says of itself on every new link (copied; its addresses are filled in).
 * At most two sets of handlers (a hub and a worker in one process); see wire_handle. */
shoal_status wire_peer_new(const Shoal__Hello *hello, wire_peer **out) SHOAL_CHECK_RESULT;
/* Closes all links (what was sent goes out, for at most a second), stops the I/O thread, frees.
 * Handlers are not called any more; calls posted before are. Not from a handler. */
void wire_peer_destroy(wire_peer **peer);

/* The number that this peer has in a pool, for its hello on links made from now on. From then on it
 * takes links from members alone, for numbers that they prove: see wire_know. */
void wire_set_number(wire_peer *peer, uint32_t number, uint64_t pool);
/* The random number that tells this process's peer from all others: in its hello. */
uint64_t wire_incarnation(const wire_peer *peer);

/* Who handles a message is decided by its kind: kinds below SHOAL__KIND__HUB_END go to the hub's
 * handlers, those after to the worker's; data goes to the worker's. Both hear of opened and closed
 * links: the hub's first. Call before wire_listen, wire_connect and wire_start. */
typedef enum wire_part { WIRE_HUB, WIRE_WORKER, WIRE_PARTS } wire_part;
void wire_handle(wire_peer *peer, wire_part part, const wire_handlers *handlers);

/* Listens; fails with BUSY when another process holds the address. A socket file left behind by a
 * dead process is taken over. Not from a handler. */
shoal_status wire_listen(wire_peer *peer, const char *address) SHOAL_CHECK_RESULT;
/* The same, also at an address that others than this machine can reach; wire_listen fails with
 * DENIED for those, so that nothing is ever open to a network unless somebody asked for it. */
shoal_status wire_listen_wide(wire_peer *peer, const char *address) SHOAL_CHECK_RESULT;
/* The address that others can reach this peer at, the first; "" when it does not listen. */
const char *wire_address(const wire_peer *peer);
/* All of them, without keys, with commas between them; to be freed, NULL with a message. */
char *wire_addresses(const wire_peer *peer);
/* Listens on TCP when members of the pool of the hub at `hub` may need it: at the interface
 * `listen`
 * ("HOST" or "HOST:PORT", or several with commas), else on loopback for a hub there, else where a
 * hub of this user on this machine lets others in. Does nothing otherwise. */
shoal_status wire_listen_for(wire_peer *peer, const char *hub,
                             const char *listen) SHOAL_CHECK_RESULT;
/* A member of the pool, as the hub tells of it. */
typedef struct wire_member {
    uint32_t number;
    uint32_t user; /* the same for processes of one user on one machine */
    uint8_t key[WIRE_KEY];
} wire_member;
/* The members that there are, this one among them (copied); more: beside those that were known.
 * Others get no link. A member proves its number by the key of its process, or by being of the same
 * user on the same machine. Under the pump. */
void wire_know(wire_peer *peer, const wire_member *members, size_t n, bool more);
/* One of them has left: so have the links to it by way of the hub. Under the pump. */
void wire_forget(wire_peer *peer, uint32_t number);
/* Starts the I/O thread. */
shoal_status wire_start(wire_peer *peer) SHOAL_CHECK_RESULT;

/* Connects to an address, or to the first that answers of a list with commas. The outcome comes to
 * `opened` (wire_link_cookie tells which it was) or to `connect_failed`, within deadline_ms.
 * "inproc" links the peer with itself: `opened` is called twice, with accepting true and false, for
 * the two ends. */
shoal_status wire_connect(wire_peer *peer, const char *address, uint64_t cookie,
                          uint32_t deadline_ms) SHOAL_CHECK_RESULT;
/* The same, begun after a while: unless a link to the member `cookie` has opened since, as when it
 * has called itself. */
shoal_status wire_connect_in(wire_peer *peer, const char *address, uint64_t cookie, uint32_t in_ms,
                             uint32_t deadline_ms) SHOAL_CHECK_RESULT;

/* Runs the pump until done(context) is true or the deadline (base_now time) has passed: TIMEOUT.
 * done is asked after every batch of events, under the pump: it may read what handlers write. Not
 * for use inside handlers. */
shoal_status wire_wait(wire_peer *peer, bool (*done)(void *context), void *context,
                       int64_t deadline) SHOAL_CHECK_RESULT;
/* Runs `call` under the pump, as if it were a handler; waits its turn. Not from a handler. */
void wire_call(wire_peer *peer, void (*call)(void *context), void *context);
/* Asks the pump to run `call(context)` soon, from any thread, without waiting. Calls of one thread
 * keep their order, also with its messages on inproc links. */
shoal_status wire_post(wire_peer *peer, void (*call)(void *context),
                       void *context) SHOAL_CHECK_RESULT;
/* Calls `call` under the pump about every period_ms: heartbeats, deadlines. One per part. */
void wire_tick(wire_peer *peer, wire_part part, uint32_t period_ms, void (*call)(void *context));

/* Sends a message: `message` is packed at once. Messages on one link keep their order, and while it
 * has one path, data sent later does not overtake them. Fails with CLOSED, INVALID (over
 * WIRE_MAX_MESSAGE) or NO_MEMORY. */
shoal_status wire_send(wire_link *link, Shoal__Kind kind,
                       const ProtobufCMessage *message) SHOAL_CHECK_RESULT;

/* Bytes of messages that wait to be read, on somebody's account. Counted: items that wait hold it,
 * too. Any thread. */
typedef struct wire_account wire_account;
/* NULL: no memory. */
wire_account *wire_account_new(void);
/* NULL is fine. */
void wire_account_release(wire_account *account);
size_t wire_account_bytes(const wire_account *account);
/* Holds it, and counts data that is on its way; the same number to end it. */
void wire_account_add(wire_account *account, size_t bytes);
void wire_account_take(wire_account *account, size_t bytes);
/* The same as wire_send; while the message waits, it counts on the account. */
shoal_status wire_send_on(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                          wire_account *account) SHOAL_CHECK_RESULT;

/* Where the bytes of a transfer come from. */
typedef struct wire_source {
    void *context;
    /* Writes bytes [offset, offset + n) to `to`. Called under the pump or by wire_send_data. */
    void (*read)(void *context, uint64_t offset, void *to, size_t n);
    /* Called once when no more will be read, whether all was sent or the link broke. */
    void (*done)(void *context);
} wire_source;

/* Sends a transfer in chunks, interleaved with messages. On failure `done` has been called. */
shoal_status wire_send_data(wire_link *link, const wire_transfer *transfer,
                            const wire_source *source) SHOAL_CHECK_RESULT;
/* Gives up what waits to be sent of an instance that nobody wants any more; any thread. */
void wire_drop_data(wire_link *link, uint64_t instance);
/* Whether some of an instance waits to be sent. */
bool wire_has_data(wire_link *link, uint64_t instance);

/* Unpacks bytes from outside; what that takes is limited by their number. Fails with FORMAT. The
 * message is freed by wire_unpacked_free, which takes NULL, too. */
shoal_status wire_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n,
                         ProtobufCMessage **out) SHOAL_CHECK_RESULT;
void wire_unpacked_free(ProtobufCMessage *message);

/* Events as `list` of the message Events. Unpacked from anybody's bytes, they are of kinds and
 * phases that exist, and their labels printable; *out is freed with free(). Fails with FORMAT. */
shoal_status wire_events_pack(const shoal_event *events, size_t n,
                              base_str *out) SHOAL_CHECK_RESULT;
shoal_status wire_events_unpack(const void *bytes, size_t size, shoal_event **out,
                                size_t *n) SHOAL_CHECK_RESULT;

/* Closes; the other side gets the message after all that was sent before. `closed` follows. */
void wire_close(wire_link *link, shoal_status why, const char *message);

/* What the other side of a link has proven. */
typedef struct wire_proof {
    bool local; /* a process of this very user: on this machine, or by the user's key */
    bool keyed; /* it has the secret key to `key`: a user's towards a hub, else its own */
    uint8_t key[WIRE_KEY];
    uint32_t number; /* of the member that it is; 0: of none */
} wire_proof;
const wire_proof *wire_link_proof(const wire_link *link);
/* A message or data that was not the other side's to send was dropped: counts it, and says so in
 * the log the first time. */
void wire_link_strange(wire_link *link, const char *what);
/* A number given to the link when it was made: of wire_connect, else 0. */
uint64_t wire_link_cookie(const wire_link *link);
/* Free for the handlers' use, one per part. */
void wire_link_set(wire_link *link, wire_part part, void *data);
void *wire_link_get(const wire_link *link, wire_part part);
/* "shm:hub-1000 (w1, pid 4711)", for messages. */
const char *wire_link_name(const wire_link *link);
/* Counters, for status. */
typedef struct wire_count {
    uint64_t messages_out, messages_in, bytes_out, bytes_in;
    uint64_t saved_out; /* bytes that did not have to go out, of chunks that went compressed */
} wire_count;
wire_count wire_link_count(const wire_link *link);
/* Connections that a link has, and how many of them were lost while others went on. Under the pump.
 */
typedef struct wire_path_count {
    uint32_t open;
    uint64_t lost;
} wire_path_count;
wire_path_count wire_link_paths(const wire_link *link);
/* Those that are open, at most WIRE_MOST_PATHS; gives their number. Under the pump. */
enum { WIRE_MOST_PATHS = 4 };
typedef struct wire_path_state {
    char address[128];
    double speed;         /* bytes a second that go out, as last measured; 0: not known */
    uint64_t sent, saved; /* bytes; that did not have to go out, as chunks were compressed */
} wire_path_state;
size_t wire_link_look(const wire_link *link, wire_path_state out[WIRE_MOST_PATHS]);
/* Until then (base_now time) the other side is not told that what it sends was read: so it sends no
 * more than a window. For links over frames; others have short ways. Under the pump. */
void wire_link_hold(wire_link *link, int64_t until);
/* Bytes of messages that wait to go out; of a link that has had several paths, to come. */
size_t wire_link_queued(wire_link *link);

/* Of members: by way of this link they reach those that they cannot reach otherwise ("relay:N", the
 * member with number N), and are reached. What comes there as RELAYED goes to wire_relayed. */
void wire_relay_by(wire_link *hub);
void wire_relayed(wire_peer *peer, const Shoal__Relay *relay);

#endif
