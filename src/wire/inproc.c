/* The transport of a peer to itself: two ends of one link. Messages go through the peer's queue of
 * posted calls, so they keep their order with those; transfers are copied chunk by chunk between
 * turns of the pump. */
#include "wire/transport.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS_PER_TURN = 4 };

typedef struct inproc_link {
    wire_link base;
    struct inproc_link *other;
    bool ending; /* the closing item is on its way */
} inproc_link;

static inproc_link *other_of(wire_link *link) { return ((inproc_link *)link)->other; }

/* Both ends stay while an item is under way. */
static void post(wire_link *link, wire_item *item, void (*call)(void *)) {
    link->pins++;
    other_of(link)->base.pins++;
    item->post.call = call;
    item->post.context = item;
    wire_peer_post(link->peer, &item->post);
}

static void release(wire_item *item) {
    wire_link *link = item->link;
    other_of(link)->base.pins--;
    link->pins--;
}

static shoal_status check_open(wire_link *link) {
    return link->closing ? base_fail(SHOAL_CLOSED, "%s is closed", wire_link_name(link)) : SHOAL_OK;
}

static void deliver_message(void *context) {
    wire_item *item = context;
    wire_link *link = item->link, *other = &other_of(link)->base;
    size_t bytes = (size_t)item->frame.total;
    pthread_mutex_lock(&link->lock);
    link->queued -= bytes;
    pthread_mutex_unlock(&link->lock);
    if (other->state == WIRE_OPEN)
        wire_link_deliver_message(other, (Shoal__Kind)item->frame.kind, item->body, bytes);
    release(item);
    wire_item_free(item);
}

static shoal_status send_message(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                                 size_t bytes, wire_account *account) {
    wire_item *item = wire_item_message(link, kind, message, bytes, account);
    if (!item) return SHOAL_NO_MEMORY;
    pthread_mutex_lock(&link->lock);
    shoal_status status = check_open(link);
    if (status == SHOAL_OK && link->queued + bytes > WIRE_MAX_QUEUE)
        status = base_fail(SHOAL_NO_MEMORY, "%s: %zu bytes of messages wait to be read",
                           wire_link_name(link), link->queued);
    if (status == SHOAL_OK) {
        link->queued += bytes;
        link->messages_out++;
        link->bytes_out += bytes;
        post(link, item, deliver_message);
    }
    pthread_mutex_unlock(&link->lock);
    if (status != SHOAL_OK) wire_item_free(item);
    return status;
}

static void deliver_data(void *context) {
    wire_item *item = context;
    wire_link *link = item->link;
    bool open = link->state == WIRE_OPEN;
    if (open) {
        pthread_mutex_lock(&link->lock);
        wire_list_push(&link->transfers, item);
        pthread_mutex_unlock(&link->lock);
    }
    release(item);
    if (!open) wire_item_free(item);
}

static shoal_status send_data(wire_link *link, const wire_transfer *transfer,
                              const wire_source *source) {
    wire_item *item = wire_item_data(link, transfer, source);
    if (!item) {
        if (source->done) source->done(source->context);
        return SHOAL_NO_MEMORY;
    }
    pthread_mutex_lock(&link->lock);
    shoal_status status = check_open(link);
    if (status == SHOAL_OK) post(link, item, deliver_data);
    pthread_mutex_unlock(&link->lock);
    if (status != SHOAL_OK) wire_item_free(item);
    return status;
}

/* What this end had sent has arrived: so has its closing. */
static void deliver_close(void *context) {
    wire_item *item = context;
    wire_link *link = item->link;
    release(item);
    if (link->state == WIRE_OPEN && link->transfers.first) {
        post(link, item, deliver_close);
        return;
    }
    if (link->state == WIRE_OPEN) {
        pthread_mutex_lock(&link->lock);
        link->closed = true;
        pthread_mutex_unlock(&link->lock);
    }
    wire_item_free(item);
}

/* Closing goes behind what was posted before it. */
static void send_close(wire_link *link) {
    inproc_link *own = (inproc_link *)link;
    wire_item *item = calloc(1, sizeof *item);
    if (!item) return; /* tried again the next turn */
    own->ending = true;
    item->link = link;
    post(link, item, deliver_close);
}

static bool progress(wire_link *link) {
    bool did = false;
    wire_link *other = &other_of(link)->base;
    if (link->closing && !((inproc_link *)link)->ending) send_close(link);
    for (int i = 0; i < CHUNKS_PER_TURN && link->state == WIRE_OPEN; i++) {
        wire_item *item = link->transfers.first; /* changed under the pump only */
        if (!item) break;
        wire_transfer transfer = {item->frame.instance, item->frame.channel, item->frame.ordinal,
                                  item->frame.total};
        uint64_t offset = item->frame.offset, rest = item->frame.total - offset;
        size_t n = rest < WIRE_CHUNK ? (size_t)rest : WIRE_CHUNK;
        if (n) item->source.read(item->source.context, offset, link->peer->scratch, n);
        item->frame.offset += n;
        link->bytes_out += n;
        did = true;
        bool last = item->frame.offset == item->frame.total;
        if (last) wire_list_pop(&link->transfers);
        if (other->state == WIRE_OPEN)
            wire_link_deliver_data(other, &transfer, offset, link->peer->scratch, n);
        if (last) wire_item_free(item);
    }
    return did;
}

static bool pending(wire_link *link) {
    return link->transfers.first || (link->closing && !((inproc_link *)link)->ending);
}

static void stay_awake(wire_link *link, bool sleeps) {}

/* Neither end is left without the other. */
static void shut(wire_link *link) {
    inproc_link *other = other_of(link);
    if (other) wire_link_finish(&other->base, link->why, link->reason ? link->reason : "");
}

static shoal_status refuse_listen(wire_peer *peer, const char *address) {
    return base_fail(SHOAL_INVALID, "inproc needs no listening: connect to it");
}

static void no_listener(wire_peer *peer, void *listener) {}

/* One end per call; NULL with a message. */
static inproc_link *new_end(wire_peer *peer, uint64_t attempt) {
    inproc_link *link = calloc(1, sizeof *link);
    if (!link || wire_link_add(&link->base, peer, &wire_inproc, attempt) != SHOAL_OK) {
        base_fail(SHOAL_NO_MEMORY, "no memory for a link");
        free(link);
        return NULL;
    }
    return link;
}

static shoal_status open_ends(wire_peer *peer, inproc_link *a, inproc_link *b) {
    Shoal__Welcome *welcome = malloc(sizeof *welcome);
    if (!welcome) return base_fail(SHOAL_NO_MEMORY, "no memory for a link");
    shoal__welcome__init(welcome);
    a->base.proof.local = b->base.proof.local = true;
    shoal_status status = wire_link_call(&a->base, "inproc", peer->hello, peer->hello->pid);
    if (status == SHOAL_OK)
        status = wire_link_call(&b->base, "inproc", peer->hello, peer->hello->pid);
    if (status == SHOAL_OK) status = wire_link_open(&a->base, peer->hello, welcome, true);
    if (status == SHOAL_OK) {
        status = wire_link_open(&b->base, peer->hello, welcome, false);
        if (status != SHOAL_OK) wire_link_finish(&a->base, status, shoal_error_message());
    }
    wire_unpacked_free(&welcome->base);
    return status;
}

static void connect_self(wire_peer *peer, const char *address, uint64_t attempt, int64_t deadline) {
    inproc_link *a = new_end(peer, 0), *b = a ? new_end(peer, attempt) : NULL;
    shoal_status status = SHOAL_NO_MEMORY;
    if (b) {
        a->other = b;
        b->other = a;
        status = open_ends(peer, a, b);
    }
    if (status == SHOAL_OK) return;
    wire_peer_connect_failed(peer, attempt, status);
    if (a) wire_link_finish(&a->base, status, "");
    if (b) wire_link_finish(&b->base, status, "");
}

const wire_transport wire_inproc = {
    .scheme = "inproc",
    .listen = refuse_listen,
    .connect = connect_self,
    .send = send_message,
    .send_data = send_data,
    .progress = progress,
    .pending = pending,
    .sleep = stay_awake,
    .shut = shut,
    .unlisten = no_listener,
};
