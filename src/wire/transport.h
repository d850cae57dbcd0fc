/* What wire's own files share: the peer, its pump, links, and what a transport has to bring. Not
 * for other folders.
 *
 * Locks, in the order they are taken: the pump (handlers, links, watches), a link's lock (sending;
 * of a link by way of the hub before that of the link with the hub), the peer's queue lock (posted
 * calls). No handler and no `done` of a source is called with a link's lock or the queue lock held.
 */
#ifndef WIRE_TRANSPORT_H
#define WIRE_TRANSPORT_H

#include "base/str.h"
#include "base/vec.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    WIRE_MAX_HELLO = 64 << 10,    /* bytes of a Hello or Welcome */
    WIRE_MAX_QUEUE = 256 << 20,   /* bytes of messages that wait for a slow reader, per link */
    WIRE_INLINE = 64 << 10,       /* transfers up to this are sent by the calling thread */
    WIRE_MAX_REASON = 1024,       /* bytes of a closing message */
    WIRE_MAX_BEGUN = 576 << 20,   /* bytes of messages of which pieces have come */
    WIRE_UNPACK_FACTOR = 16,      /* bytes of an unpacked message per byte on the wire, */
    WIRE_UNPACK_LEAST = 16 << 10, /* and more than that */
};

/* What stands before every piece on a link. Multiples of 8 bytes, so that headers stay aligned. */
typedef enum wire_frame_type {
    WIRE_FRAME_MESSAGE = 1,
    WIRE_FRAME_DATA,
    WIRE_FRAME_CLOSE,
    WIRE_FRAME_COMPRESSED, /* data: its number of bytes (32 bits), then a block of LZ4 */
} wire_frame_type;

typedef struct wire_frame {
    uint32_t bytes; /* of this piece, without header and padding; at most WIRE_CHUNK */
    uint16_t type;  /* wire_frame_type */
    uint16_t kind;  /* message: Shoal__Kind; close: shoal_status; data: wire_pool_tag */
    uint64_t offset;
    uint64_t total; /* bytes of the whole message or transfer */
    uint64_t instance;
    uint32_t channel, ordinal;
} wire_frame;

/* Bytes that a piece takes on the wire. */
static inline size_t wire_frame_bytes(size_t payload) {
    return (sizeof(wire_frame) + payload + 7) & ~(size_t)7;
}

/* Something posted to the pump. */
typedef struct wire_post_item {
    struct wire_post_item *next;
    void (*call)(void *context);
    void *context;
} wire_post_item;

/* A message or a transfer that waits to be sent. */
typedef struct wire_item {
    wire_post_item post; /* for transports whose messages go through the peer's own queue */
    struct wire_item *next;
    wire_link *link;
    wire_frame frame;      /* frame.offset: bytes sent so far */
    wire_source source;    /* of a transfer */
    wire_account *account; /* of a message: on which it counts, or NULL */
    size_t charged;
    uint32_t pieces; /* that are on their way, and kept: see paths.h */
    bool dropped;    /* nobody wants it any more, and `done` has been called */
    uint8_t body[];  /* of a message */
} wire_item;

typedef struct wire_list {
    wire_item *first, *last;
} wire_list;

void wire_list_push(wire_list *list, wire_item *item);
wire_item *wire_list_pop(wire_list *list);

/* A descriptor or a deadline that the pump watches. The owner keeps it; -1: no descriptor. */
typedef struct wire_watch {
    int fd;
    bool quiet;                                /* do not poll for now */
    int64_t deadline;                          /* 0: none */
    void (*ready)(struct wire_watch *watch);   /* readable, hung up or broken */
    void (*expired)(struct wire_watch *watch); /* once; the deadline is 0 again */
    /* Whether it is ready although its descriptor may not show it. NULL: the descriptor tells. */
    bool (*pending)(struct wire_watch *watch);
    void *context; /* the owner's */
} wire_watch;

/* A transport. listen and everything of a link is called under the pump, except send, which takes
 * the link's lock itself. */
typedef struct wire_transport {
    const char *scheme; /* an address is the scheme, or starts with it and ':' */
    shoal_status (*listen)(wire_peer *peer, const char *address);
    /* Every outcome goes to wire_link_open or wire_peer_connect_failed, with the attempt's number.
     */
    void (*connect)(wire_peer *peer, const char *address, uint64_t attempt, int64_t deadline);
    /* Sends; or keeps the message or transfer and sends it in progress. For a transfer `message` is
     * NULL, and its source is the transport's from then on, in success and failure. */
    shoal_status (*send)(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                         size_t bytes, wire_account *account);
    shoal_status (*send_data)(wire_link *link, const wire_transfer *transfer,
                              const wire_source *source);
    /* Receives and sends what is possible, up to a share; true when anything was done. */
    bool (*progress)(wire_link *link);
    /* Whether progress would do something. */
    bool (*pending)(wire_link *link);
    /* The pump is about to sleep: the other side must ring from now on; or is awake again. */
    void (*sleep)(wire_link *link, bool sleeps);
    /* Gives up what the link holds outside of its memory. No send is under way or comes later. */
    void (*shut)(wire_link *link);
    /* Of a listener: stop and free. */
    void (*unlisten)(wire_peer *peer, void *listener);
} wire_transport;

extern const wire_transport wire_inproc, wire_shm, wire_zmq_transport, wire_relay;

typedef enum wire_state { WIRE_OPENING, WIRE_OPEN, WIRE_GONE } wire_state;

/* A transport's own link starts with this. */
struct wire_link {
    wire_peer *peer;
    const wire_transport *transport;
    char *name;
    uint64_t attempt; /* the number of that which it came of; 0: the other side's */
    uint64_t cookie;
    wire_link *lead; /* of a further path: the link that it is of, which handlers know */
    struct wire_paths *_Atomic paths; /* of a link that may have several; see paths.h */
    bool down;                        /* its own connection has ended, while other paths go on */
    wire_proof proof;                 /* filled in by the transport, but for the number */
    _Atomic uint64_t strange;         /* messages and data that were dropped */
    void *data[WIRE_PARTS];
    _Atomic uint64_t messages_out, messages_in, bytes_out, bytes_in, saved_out;
    /* under the pump */
    wire_state state;
    int64_t since;       /* when it was opened */
    unsigned opened;     /* bit per part that knows of it */
    base_str assembly;   /* the message being received */
    size_t begun;        /* its bytes, all of them, when it comes in pieces */
    int64_t held;        /* until then the other side gets no credit */
    int64_t close_by;    /* once closing: the end of patience, when nothing goes out */
    uint64_t close_mark; /* bytes_out at that time */
    atomic_int pins;     /* items on their way that point here */
    /* under lock */
    pthread_mutex_t lock;
    _Atomic bool closing; /* nothing more may be sent; set under the lock */
    bool closed;          /* the closing frame is out */
    shoal_status why;
    char *reason;
    wire_list messages, transfers;
    size_t queued;        /* bytes in messages, and in those that are kept: see paths.h */
    bool writing;         /* the pump is writing a chunk with the lock released */
    _Atomic bool waiting; /* something is queued or to be closed */
};

/* The link that handlers know: this one, or the one that it is a further path of. */
static inline wire_link *wire_lead(wire_link *link) { return link->lead ? link->lead : link; }

/* ---- link.c: what all transports do alike ---- */

/* Sets up a link's common part, known to the peer from now on; its memory (from calloc) is the
 * peer's. On failure nothing is kept. */
shoal_status wire_link_add(wire_link *link, wire_peer *peer, const wire_transport *transport,
                           uint64_t attempt) SHOAL_CHECK_RESULT;
/* Names it: "address (name, pid n)". */
shoal_status wire_link_call(wire_link *link, const char *address, const Shoal__Hello *hello,
                            uint32_t pid) SHOAL_CHECK_RESULT;
/* Asks the handlers; on a refusal those asked before are told that it is closed, and of an attempt
 * to connect all that it has failed. */
shoal_status wire_link_open(wire_link *link, const Shoal__Hello *hello, Shoal__Welcome *welcome,
                            bool accepting) SHOAL_CHECK_RESULT;
/* A frame has come: checks it and calls handlers; on failure the link is closed. */
void wire_link_deliver(wire_link *link, const wire_frame *frame, const void *bytes);
void wire_link_deliver_message(wire_link *link, Shoal__Kind kind, const void *body, size_t bytes);
void wire_link_deliver_data(wire_link *link, const wire_transfer *transfer, uint64_t offset,
                            const void *bytes, size_t n);
/* Fails with what the other side refuses with. */
shoal_status wire_welcome_check(const Shoal__Welcome *welcome,
                                const char *address) SHOAL_CHECK_RESULT;
/* The handshake has failed, for the reason in the thread's message: ends the link. */
void wire_link_give_up(wire_link *link, bool accepting, const char *address, shoal_status why);
/* The end of a connection, at once. If that was all that the link had: handlers are told, queues
 * freed, memory given to the peer. */
void wire_link_finish(wire_link *link, shoal_status why, const char *message);
/* The end of a link with all its paths. */
void wire_link_end(wire_link *link, shoal_status why, const char *message);
/* Whether the other sides of two links have proven the same key. */
bool wire_link_same_holder(const wire_link *a, const wire_link *b);
/* The last: frees a link that is gone. */
void wire_link_free(wire_link *link);

/* ---- compress.c ---- */

/* Expands a chunk that came compressed, into the peer's scratch memory: *frame becomes that of the
 * chunk. Fails with FORMAT. Under the pump. */
shoal_status wire_expand(const wire_link *link, wire_frame *frame,
                         const void *bytes) SHOAL_CHECK_RESULT;

/* ---- member.c: who the other side is ---- */

/* What every Hello says of this process: versions, order of bytes, key. */
void wire_hello_fill(const wire_peer *peer, Shoal__Hello *hello);
/* Checks the other side's: that both speak a protocol, and that it is the member that it says it
 * is; once the transport knows what it has proven. Fails with BUSY when that member may be known
 * soon. */
shoal_status wire_hello_check(wire_link *link, const Shoal__Hello *hello, bool accepting,
                              const char *address) SHOAL_CHECK_RESULT;
/* Any thread. */
bool wire_member_find(wire_peer *peer, uint32_t number, wire_member *out);
bool wire_member_key(wire_peer *peer, const uint8_t *key);

/* ---- outbox.c: the queues of a link that writes frames ---- */

/* How frames get out. reserve: room for a whole frame (header and padding) or NULL for now;
 * commit: what was reserved has been filled. shorten: what was reserved is for a smaller frame;
 * gives its new place, or NULL, and it stays what it was. Of links over whole frames alone. */
typedef struct wire_writer {
    void *(*reserve)(wire_link *link, size_t bytes);
    void (*commit)(wire_link *link, size_t bytes);
    void *(*shorten)(wire_link *link, size_t bytes);
} wire_writer;

shoal_status wire_outbox_send(wire_link *link, const wire_writer *writer, Shoal__Kind kind,
                              const ProtobufCMessage *message, size_t bytes,
                              wire_account *account) SHOAL_CHECK_RESULT;
shoal_status wire_outbox_send_data(wire_link *link, const wire_writer *writer,
                                   const wire_transfer *transfer,
                                   const wire_source *source) SHOAL_CHECK_RESULT;
/* Under the pump: writes what is queued, the closing frame last; true when anything went out. */
bool wire_outbox_flush(wire_link *link, const wire_writer *writer);
/* Writes a link's closing frame by way of a connection of it; false: no room. Under its lock, as
 * the next. */
bool wire_outbox_close(wire_link *link, wire_link *by, const wire_writer *writer);
void wire_outbox_count(wire_link *link, const wire_frame *frame);
/* Reads a chunk of a transfer into what was reserved for it, compressed where that pays; gives the
 * place of the whole frame. Under the pump, without the link's lock. */
uint8_t *wire_outbox_read(wire_link *link, const wire_writer *writer, const wire_source *source,
                          wire_frame *frame, uint8_t *to);
/* New items; NULL with a message. */
wire_item *wire_item_message(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                             size_t bytes, wire_account *account);
wire_item *wire_item_data(wire_link *link, const wire_transfer *transfer,
                          const wire_source *source);
/* Calls the source's done, takes it off its account, frees. */
void wire_item_free(wire_item *item);

/* ---- relay.c ---- */

/* The link with the hub has ended: so have all that went by way of it. */
void wire_relay_end(wire_peer *peer);
/* Closes what leads to a member that has left. */
void wire_relay_forget(wire_peer *peer, uint32_t number);

/* ---- peer.c and pump.c ---- */

typedef struct wire_listener {
    const wire_transport *transport;
    void *state;
    char *address;
} wire_listener;

/* A copy of what to poll, private to the thread that polls. */
typedef struct wire_poll_set {
    struct pollfd *fds;
    wire_watch **watches;
    size_t count, room;
    uint64_t version; /* of peer->watches when it was copied */
    int64_t until;    /* when it wakes at the latest */
} wire_poll_set;

typedef struct wire_ticker {
    void (*call)(void *context);
    int64_t period, next;
} wire_ticker;

struct wire_peer {
    Shoal__Hello *hello;
    wire_key_pair pair; /* of this process: towards members */
    pthread_mutex_t known;
    wire_member *members; /* under known */
    size_t n_members;
    wire_handlers handlers[WIRE_PARTS];
    bool handled[WIRE_PARTS];
    int doorbell;
    /* under the pump */
    pthread_mutex_t pump;
    pthread_cond_t turn;    /* waiters that do not pump: look again */
    pthread_cond_t idle;    /* the I/O thread, while waiters pump */
    pthread_cond_t yielded; /* a pumping thread that lets others in */
    int waiters;
    bool pumped;     /* a waiter pumps */
    bool io_polling; /* the I/O thread is in poll with sets[0] */
    bool muted;      /* handlers are not called any more */
    bool stopping;
    bool armed;     /* others have been told to ring */
    uint64_t calls; /* of threads that wanted the pump and have had it */
    int64_t polled; /* when descriptors were last looked at */
    BASE_VEC(wire_link *) links;
    BASE_VEC(wire_watch *) watches;
    BASE_VEC(struct wire_attempt *) attempts; /* to connect */
    uint64_t version;                         /* of watches */
    BASE_VEC(wire_listener) listeners;
    wire_poll_set sets[2]; /* of the I/O thread, of the waiter that pumps */
    void *scratch;         /* WIRE_CHUNK bytes, for a chunk on its way out or in */
    bool started;
    pthread_t thread;
    /* from any thread */
    atomic_int wanted;     /* threads that want the pump */
    _Atomic bool sleeping; /* the pump sleeps: ring */
    _Atomic bool news;     /* something was posted or queued */
    pthread_mutex_t queue_lock;
    wire_post_item *first, *last;
    wire_ticker tickers[WIRE_PARTS];
    struct wire_zmq *zmq; /* of encrypted links; NULL until there is one */
    wire_link *hub;       /* that passes frames on; under the pump */
    uint32_t relays;      /* links by way of it, made so far */
    uint64_t attempted;   /* attempts to connect, so far; under the pump */
};

/* In data, so that what an old pool's members still send to an address meets no new instance. */
static inline uint16_t wire_pool_tag(const wire_peer *peer) {
    return (uint16_t)(peer->hello->pool ^ peer->hello->pool >> 32);
}

/* Adds or removes a watch (removing one that is not there is fine). */
shoal_status wire_watch_add(wire_peer *peer, wire_watch *watch) SHOAL_CHECK_RESULT;
void wire_watch_remove(wire_peer *peer, wire_watch *watch);
/* Something is to be done that the pump may not see by itself. Any thread. */
void wire_peer_wake(wire_peer *peer);
/* Queues an item that its call frees. */
void wire_peer_post(wire_peer *peer, wire_post_item *item);
/* An attempt has led to a link, and no other address is tried: its cookie. */
uint64_t wire_peer_connected(wire_peer *peer, uint64_t attempt);
/* Handlers have taken the link. */
void wire_peer_end_attempt(wire_peer *peer, uint64_t attempt);
/* It has come to nothing: tries the next address, or tells the handlers (the message: the thread's
 * last). */
void wire_peer_connect_failed(wire_peer *peer, uint64_t attempt, shoal_status why);
/* Fails with NOT_FOUND, and says what to do. */
shoal_status wire_nobody(const wire_peer *peer, const char *address);
/* Whether an address leads to this machine alone. */
bool wire_on_loopback(const char *address);
/* This peer's Hello, with its addresses, packed; joins, path: as in it. */
shoal_status wire_peer_hello(wire_peer *peer, uint64_t joins, uint32_t path,
                             base_str *out) SHOAL_CHECK_RESULT;

/* pump.c: one turn, under the pump, until `until` at the latest (it sleeps with the pump open). */
void wire_pump_once(wire_peer *peer, wire_poll_set *set, int64_t until);
/* The pump, taken in turn with whoever pumps. */
void wire_pump_take(wire_peer *peer);
void wire_pump_leave(wire_peer *peer);
void *wire_pump_thread(void *peer);

#endif
