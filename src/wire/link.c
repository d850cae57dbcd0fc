/* Links: what is common to all transports. */
#include "wire/paths.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP_ASSEMBLY = 256 << 10 };

shoal_status wire_link_add(wire_link *link, wire_peer *peer, const wire_transport *transport,
                           uint64_t attempt) {
    link->peer = peer;
    link->transport = transport;
    link->attempt = attempt;
    if (pthread_mutex_init(&link->lock, NULL))
        return base_fail(SHOAL_NO_MEMORY, "no memory for the lock of a link");
    if (!base_vec_push(&peer->links, link)) {
        pthread_mutex_destroy(&link->lock);
        return SHOAL_NO_MEMORY;
    }
    return SHOAL_OK;
}

shoal_status wire_link_call(wire_link *link, const char *address, const Shoal__Hello *hello,
                            uint32_t pid) {
    base_str name = {0};
    base_str_format(&name, "%s (%s, pid %u)", address, hello->name, pid);
    free(link->name);
    link->name = base_str_take(&name, NULL);
    return link->name ? SHOAL_OK : SHOAL_NO_MEMORY;
}

shoal_status wire_welcome_check(const Shoal__Welcome *welcome, const char *address) {
    if (!welcome->error) return SHOAL_OK;
    uint32_t status = welcome->error->status;
    bool known = status != SHOAL_OK && status < SHOAL_STATUS_COUNT;
    return base_fail(known ? (shoal_status)status : SHOAL_DENIED, "%s refuses: %s", address,
                     welcome->error->message);
}

void wire_link_give_up(wire_link *link, bool accepting, const char *address, shoal_status why) {
    if (accepting)
        base_log(why == SHOAL_LOST || why == SHOAL_BUSY ? BASE_DEBUG : BASE_WARN, address,
                 "refused: %s", shoal_error_message());
    else if (!link->lead)
        wire_peer_connect_failed(link->peer, link->attempt, why);
    wire_link_finish(link, why, "");
}

void wire_link_free(wire_link *link) {
    wire_paths_free(link);
    base_str_fini(&link->assembly);
    pthread_mutex_destroy(&link->lock);
    free(link->reason);
    free(link->name);
    free(link);
}

static void tell_closed(wire_link *link, shoal_status why, const char *message) {
    wire_peer *peer = link->peer;
    for (int part = 0; part < WIRE_PARTS; part++) {
        if (!(link->opened & 1u << part)) continue;
        link->opened &= ~(1u << part);
        const wire_handlers *handlers = &peer->handlers[part];
        if (!peer->muted && handlers->closed)
            handlers->closed(handlers->context, link, why, message);
    }
}

shoal_status wire_link_open(wire_link *link, const Shoal__Hello *hello, Shoal__Welcome *welcome,
                            bool accepting) {
    wire_peer *peer = link->peer;
    if (peer->muted) return base_fail(SHOAL_CLOSED, "%s is ending", peer->hello->name);
    link->state = WIRE_OPEN;
    link->since = base_now();
    if (!accepting) link->cookie = wire_peer_connected(peer, link->attempt);
    for (int part = 0; part < WIRE_PARTS; part++) {
        const wire_handlers *handlers = &peer->handlers[part];
        if (!peer->handled[part]) continue;
        if (handlers->opened) {
            shoal_status status =
                handlers->opened(handlers->context, link, hello, welcome, accepting);
            if (status != SHOAL_OK) {
                char reason[WIRE_MAX_REASON];
                snprintf(reason, sizeof reason, "%s", shoal_error_message());
                tell_closed(link, status, reason);
                base_fail(status, "%s", reason);
                if (!accepting) wire_peer_connect_failed(peer, link->attempt, status);
                return base_fail(status, "%s", reason);
            }
        }
        link->opened |= 1u << part;
    }
    if (!accepting) wire_peer_end_attempt(peer, link->attempt);
    return SHOAL_OK;
}

void wire_link_deliver_message(wire_link *link, Shoal__Kind kind, const void *body, size_t bytes) {
    wire_peer *peer = link->peer;
    if (peer->muted || link->closing) return;
    wire_part part = kind < SHOAL__KIND__HUB_END ? WIRE_HUB : WIRE_WORKER;
    const wire_handlers *handlers = &peer->handlers[part];
    atomic_fetch_add_explicit(&link->messages_in, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&link->bytes_in, bytes, memory_order_relaxed);
    if (!handlers->message) {
        wire_link_strange(link,
                          part == WIRE_HUB ? "a message for a hub" : "a message for a worker");
        return;
    }
    shoal_status status = handlers->message(handlers->context, link, kind, body, bytes);
    if (status != SHOAL_OK) wire_close(link, status, shoal_error_message());
}

void wire_link_deliver_data(wire_link *link, const wire_transfer *transfer, uint64_t offset,
                            const void *bytes, size_t n) {
    wire_peer *peer = link->peer;
    if (peer->muted || link->closing) return;
    const wire_handlers *handlers = &peer->handlers[WIRE_WORKER];
    atomic_fetch_add_explicit(&link->bytes_in, n, memory_order_relaxed);
    if (!handlers->data) {
        wire_link_strange(link, "data, which is for workers");
        return;
    }
    shoal_status status = handlers->data(handlers->context, link, transfer, offset, bytes, n);
    if (status != SHOAL_OK) wire_close(link, status, shoal_error_message());
}

bool wire_link_same_holder(const wire_link *a, const wire_link *b) {
    const wire_proof *x = &a->proof, *y = &b->proof;
    return x->keyed == y->keyed && (!x->keyed || !memcmp(x->key, y->key, WIRE_KEY));
}

/* A message that comes in pieces takes its memory before anybody knows what it is: all that have
 * begun on links of one key take at most half of what is left. */
static shoal_status begin_message(wire_link *link, uint64_t total) {
    const wire_peer *peer = link->peer;
    uint64_t own = total, all = total;
    for (size_t i = 0; i < peer->links.count; i++) {
        const wire_link *other = peer->links.data[i];
        all += other->begun;
        if (wire_link_same_holder(other, link)) own += other->begun;
    }
    if (all >= WIRE_MAX_BEGUN || own > (WIRE_MAX_BEGUN - all) / 2)
        return base_fail(SHOAL_BUSY,
                         "%s: messages of %llu MiB have begun on links of one key, and not ended",
                         link->name, (unsigned long long)(own >> 20));
    link->begun = (size_t)total;
    return SHOAL_OK;
}

/* Messages are copied out before they are read: the other process could still change the ring. */
static shoal_status take_message(wire_link *link, const wire_frame *frame, const void *bytes) {
    base_str *all = &link->assembly;
    /* A member has data for us, and little to say. */
    bool between = frame->kind >= WIRE_BETWEEN && frame->total <= WIRE_CHUNK + WIRE_ROOM_BETWEEN;
    if (link->proof.number && !between) {
        wire_link_strange(link, "an order, as only the hub may");
        return SHOAL_OK;
    }
    if (frame->total > WIRE_MAX_MESSAGE || frame->offset != all->size ||
        frame->bytes > frame->total - frame->offset ||
        (frame->offset && frame->total != link->begun))
        return base_fail(SHOAL_FORMAT,
                         "%s: bytes %llu + %u of a message of %llu bytes, after %zu of them",
                         link->name, (unsigned long long)frame->offset, frame->bytes,
                         (unsigned long long)frame->total, all->size);
    if (frame->kind == SHOAL__KIND__NONE)
        return base_fail(SHOAL_FORMAT, "%s: a message of no kind", link->name);
    if (!frame->offset && frame->bytes < frame->total) SHOAL_TRY(begin_message(link, frame->total));
    base_str_bytes(all, bytes, frame->bytes);
    SHOAL_TRY(base_str_status(all));
    if (all->size < frame->total) return SHOAL_OK;
    link->begun = 0;
    wire_link_deliver_message(wire_lead(link), (Shoal__Kind)frame->kind, all->data, all->size);
    if (all->room > KEEP_ASSEMBLY) base_str_fini(all);
    base_str_clear(all);
    return SHOAL_OK;
}

static shoal_status take_data(wire_link *link, const wire_frame *frame, const void *bytes) {
    if (frame->offset > frame->total || frame->bytes > frame->total - frame->offset)
        return base_fail(SHOAL_FORMAT, "%s: bytes %llu + %u of a transfer of %llu bytes",
                         link->name, (unsigned long long)frame->offset, frame->bytes,
                         (unsigned long long)frame->total);
    if (frame->kind != wire_pool_tag(link->peer)) {
        wire_link_strange(link, "data of another pool");
        return SHOAL_OK;
    }
    wire_transfer transfer = {frame->instance, frame->channel, frame->ordinal, frame->total};
    wire_link_deliver_data(wire_lead(link), &transfer, frame->offset, bytes, frame->bytes);
    return SHOAL_OK;
}

static shoal_status take_compressed(wire_link *link, wire_frame frame, const void *bytes) {
    SHOAL_TRY(wire_expand(link, &frame, bytes));
    return take_data(link, &frame, link->peer->scratch);
}

static void take_close(wire_link *link, const wire_frame *frame, const void *bytes) {
    char reason[WIRE_MAX_REASON + 1];
    size_t n = frame->bytes < WIRE_MAX_REASON ? frame->bytes : WIRE_MAX_REASON;
    memcpy(reason, bytes, n);
    reason[n] = 0;
    bool known = frame->kind != SHOAL_OK && frame->kind < SHOAL_STATUS_COUNT;
    wire_link_end(link, known ? (shoal_status)frame->kind : SHOAL_CLOSED, reason);
}

void wire_link_deliver(wire_link *link, const wire_frame *frame, const void *bytes) {
    shoal_status status = SHOAL_OK;
    switch (frame->type) {
    case WIRE_FRAME_MESSAGE: status = take_message(link, frame, bytes); break;
    case WIRE_FRAME_DATA: status = take_data(link, frame, bytes); break;
    case WIRE_FRAME_COMPRESSED: status = take_compressed(link, *frame, bytes); break;
    case WIRE_FRAME_CLOSE: take_close(link, frame, bytes); break;
    default:
        status = base_fail(SHOAL_FORMAT, "%s: a frame of unknown type %u", link->name, frame->type);
    }
    if (status != SHOAL_OK) wire_close(link, status, shoal_error_message());
}

/* A further path, alone; it has nothing of its own that waits. */
static void end_path(wire_link *link) {
    bool opening = link->state == WIRE_OPENING;
    link->state = WIRE_GONE;
    link->begun = 0;
    link->transport->shut(link);
    if (opening) wire_routes_missed(link);
}

void wire_link_finish(wire_link *link, shoal_status why, const char *message) {
    if (link->state == WIRE_GONE || link->down) return;
    if (link->state == WIRE_OPENING || !wire_paths_lose(link, why, message))
        wire_link_end(link, why, message);
}

void wire_link_end(wire_link *link, shoal_status why, const char *message) {
    if (link->state == WIRE_GONE) return;
    if (link->lead && link->state == WIRE_OPENING) {
        end_path(link);
        return;
    }
    link = wire_lead(link);
    link->state = WIRE_GONE;
    wire_peer *peer = link->peer;
    for (size_t i = 0; i < peer->links.count; i++) {
        wire_link *path = peer->links.data[i];
        if (path->lead != link || path->state == WIRE_GONE) continue;
        path->closed = link->closed;
        end_path(path);
    }
    pthread_mutex_lock(&link->lock);
    if (!link->closing) {
        link->why = why;
        link->reason = strdup(message);
        link->closing = true;
    }
    wire_list messages = link->messages, transfers = link->transfers;
    link->messages = link->transfers = (wire_list){0};
    link->queued = 0;
    link->waiting = false;
    pthread_mutex_unlock(&link->lock);
    link->begun = 0;
    if (link == peer->hub) wire_relay_end(peer);
    if (!link->down) link->transport->shut(link);
    for (wire_item *item; (item = wire_list_pop(&messages));) wire_item_free(item);
    for (wire_item *item; (item = wire_list_pop(&transfers));)
        if (!item->pieces) wire_item_free(item); /* else it goes with those */
    wire_paths_clear(link);
    tell_closed(link, why, message);
}

shoal_status wire_send(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message) {
    return wire_send_on(link, kind, message, NULL);
}

shoal_status wire_send_on(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                          wire_account *account) {
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > WIRE_MAX_MESSAGE)
        return base_fail(SHOAL_INVALID, "%s: a message of %zu bytes, at most %d are allowed",
                         link->name, bytes, (int)WIRE_MAX_MESSAGE);
    return link->transport->send(link, kind, message, bytes, account);
}

shoal_status wire_send_data(wire_link *link, const wire_transfer *transfer,
                            const wire_source *source) {
    return link->transport->send_data(link, transfer, source);
}

void wire_close(wire_link *link, shoal_status why, const char *message) {
    link = wire_lead(link);
    pthread_mutex_lock(&link->lock);
    wire_peer *peer = link->peer; /* the pump may free the link as soon as it is closing */
    bool first = !link->closing;
    if (first) {
        link->why = why == SHOAL_OK ? SHOAL_CLOSED : why;
        link->reason = strdup(message ? message : "");
        link->waiting = true;
        link->closing = true;
    }
    pthread_mutex_unlock(&link->lock);
    if (first) wire_peer_wake(peer);
}

void wire_link_hold(wire_link *link, int64_t until) { link->held = until; }

uint64_t wire_link_cookie(const wire_link *link) { return link->cookie; }

void wire_link_set(wire_link *link, wire_part part, void *data) { link->data[part] = data; }

void *wire_link_get(const wire_link *link, wire_part part) { return link->data[part]; }

const char *wire_link_name(const wire_link *link) { return link->name ? link->name : ""; }

size_t wire_link_queued(wire_link *link) {
    pthread_mutex_lock(&link->lock);
    size_t bytes = link->queued;
    pthread_mutex_unlock(&link->lock);
    return bytes;
}

wire_count wire_link_count(const wire_link *link) {
    return (wire_count){link->messages_out, link->messages_in, link->bytes_out, link->bytes_in,
                        link->saved_out};
}
