/* The sending side of a link that writes frames: straight into the transport while there is room,
 * else through two queues. Messages go first, so data never overtakes a message sent before it; a
 * message may overtake data. */
#include "wire/paths.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS_PER_TURN = 4 };

void wire_list_push(wire_list *list, wire_item *item) {
    item->next = NULL;
    if (list->last)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
}

wire_item *wire_list_pop(wire_list *list) {
    wire_item *item = list->first;
    if (!item) return NULL;
    list->first = item->next;
    if (!list->first) list->last = NULL;
    return item;
}

struct wire_account {
    atomic_int refs;
    atomic_size_t bytes;
};

wire_account *wire_account_new(void) {
    wire_account *account = calloc(1, sizeof *account);
    if (account) atomic_init(&account->refs, 1);
    return account;
}

void wire_account_release(wire_account *account) {
    if (account && atomic_fetch_sub(&account->refs, 1) == 1) free(account);
}

size_t wire_account_bytes(const wire_account *account) { return atomic_load(&account->bytes); }

void wire_account_add(wire_account *account, size_t bytes) {
    atomic_fetch_add(&account->refs, 1);
    atomic_fetch_add(&account->bytes, bytes);
}

void wire_account_take(wire_account *account, size_t bytes) {
    atomic_fetch_sub(&account->bytes, bytes);
    wire_account_release(account);
}

wire_item *wire_item_message(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                             size_t bytes, wire_account *account) {
    wire_item *item = malloc(sizeof *item + bytes);
    if (!item) {
        base_fail(SHOAL_NO_MEMORY, "%s: no memory for a message of %zu bytes", link->name, bytes);
        return NULL;
    }
    *item = (wire_item){.link = link,
                        .frame = {.type = WIRE_FRAME_MESSAGE, .kind = kind, .total = bytes},
                        .account = account,
                        .charged = sizeof *item + bytes};
    if (account) wire_account_add(account, item->charged);
    protobuf_c_message_pack(message, item->body);
    return item;
}

wire_item *wire_item_data(wire_link *link, const wire_transfer *transfer,
                          const wire_source *source) {
    wire_item *item = malloc(sizeof *item);
    if (!item) {
        base_fail(SHOAL_NO_MEMORY, "%s: no memory to queue a transfer", link->name);
        return NULL;
    }
    *item = (wire_item){.link = link,
                        .source = *source,
                        .frame = {.type = WIRE_FRAME_DATA,
                                  .kind = wire_pool_tag(link->peer),
                                  .total = transfer->bytes,
                                  .instance = transfer->instance,
                                  .channel = transfer->channel,
                                  .ordinal = transfer->ordinal}};
    return item;
}

void wire_item_free(wire_item *item) {
    if (item->source.done) item->source.done(item->source.context);
    if (item->account) wire_account_take(item->account, item->charged);
    free(item);
}

void wire_outbox_count(wire_link *link, const wire_frame *frame) {
    atomic_fetch_add_explicit(&link->bytes_out, frame->bytes, memory_order_relaxed);
    if (frame->type == WIRE_FRAME_MESSAGE && frame->offset + frame->bytes == frame->total)
        atomic_fetch_add_explicit(&link->messages_out, 1, memory_order_relaxed);
}

/* A link that is closing fails; under its lock. */
static shoal_status check_open(wire_link *link) {
    if (!link->closing) return SHOAL_OK;
    return base_fail(SHOAL_CLOSED, "%s is closed%s%s", link->name, link->reason ? ": " : "",
                     link->reason ? link->reason : "");
}

/* Room for a whole small message or transfer, right now and in its turn; under the lock. */
static uint8_t *direct(wire_link *link, const wire_writer *writer, const wire_frame *frame) {
    if (link->writing || link->messages.first) return NULL;
    if (frame->type == WIRE_FRAME_DATA && link->transfers.first) return NULL;
    uint8_t *to = writer->reserve(link, wire_frame_bytes(frame->bytes));
    if (!to) return NULL;
    memcpy(to, frame, sizeof *frame);
    wire_outbox_count(link, frame);
    return to + sizeof *frame;
}

static shoal_status queue_message(wire_link *link, Shoal__Kind kind,
                                  const ProtobufCMessage *message, size_t bytes,
                                  wire_account *account) {
    if (link->queued + bytes > WIRE_MAX_QUEUE)
        return base_fail(SHOAL_NO_MEMORY, "%s: %zu bytes of messages wait and nobody reads them",
                         link->name, link->queued);
    wire_item *item = wire_item_message(link, kind, message, bytes, account);
    if (!item) return SHOAL_NO_MEMORY;
    wire_list_push(&link->messages, item);
    link->queued += sizeof *item + bytes;
    link->waiting = true;
    return SHOAL_OK;
}

shoal_status wire_outbox_send(wire_link *link, const wire_writer *writer, Shoal__Kind kind,
                              const ProtobufCMessage *message, size_t bytes,
                              wire_account *account) {
    wire_frame frame = {
        .type = WIRE_FRAME_MESSAGE, .kind = kind, .bytes = (uint32_t)bytes, .total = bytes};
    pthread_mutex_lock(&link->lock);
    shoal_status status = check_open(link);
    if (status == SHOAL_OK) {
        uint8_t *to = bytes <= WIRE_CHUNK ? direct(link, writer, &frame) : NULL;
        if (to) {
            protobuf_c_message_pack(message, to);
            writer->commit(link, wire_frame_bytes(bytes));
        } else {
            status = queue_message(link, kind, message, bytes, account);
        }
    }
    /* Once unlocked, the link may be closed by what has just been sent. */
    bool wake = link->waiting;
    wire_peer *peer = link->peer;
    pthread_mutex_unlock(&link->lock);
    if (wake) wire_peer_wake(peer);
    return status;
}

shoal_status wire_outbox_send_data(wire_link *link, const wire_writer *writer,
                                   const wire_transfer *transfer, const wire_source *source) {
    wire_item *item = wire_item_data(link, transfer, source);
    if (!item) {
        if (source->done) source->done(source->context);
        return SHOAL_NO_MEMORY;
    }
    pthread_mutex_lock(&link->lock);
    shoal_status status = check_open(link);
    uint8_t *to = NULL;
    if (status == SHOAL_OK) {
        size_t bytes = (size_t)transfer->bytes;
        item->frame.bytes = (uint32_t)bytes;
        if (transfer->bytes <= WIRE_INLINE) to = direct(link, writer, &item->frame);
        if (to) {
            if (bytes) source->read(source->context, 0, to, bytes);
            writer->commit(link, wire_frame_bytes(bytes));
        } else {
            wire_list_push(&link->transfers, item);
            link->waiting = true;
        }
    }
    wire_peer *peer = link->peer;
    pthread_mutex_unlock(&link->lock);
    if (status != SHOAL_OK || to)
        wire_item_free(item);
    else
        wire_peer_wake(peer);
    return status;
}

/* The one that is being written ends with what has been. */
void wire_drop_data(wire_link *link, uint64_t instance) {
    wire_list dropped = {0}, kept = {0};
    if (link->transport == &wire_inproc) return; /* nothing waits there for others to read */
    pthread_mutex_lock(&link->lock);
    if (wire_paths_kept(link)) { /* from one moment to the next: under the lock */
        wire_paths_drop(link, instance);
        return;
    }
    const wire_item *written = link->writing ? link->transfers.first : NULL;
    for (wire_item *item; (item = wire_list_pop(&link->transfers));) {
        bool drop = item->frame.instance == instance;
        if (drop && item == written) item->frame.total = 0;
        wire_list_push(drop && item != written ? &dropped : &kept, item);
    }
    link->transfers = kept;
    pthread_mutex_unlock(&link->lock);
    for (wire_item *item; (item = wire_list_pop(&dropped));) wire_item_free(item);
}

bool wire_has_data(wire_link *link, uint64_t instance) {
    pthread_mutex_lock(&link->lock);
    const wire_item *item = link->transfers.first;
    while (item && item->frame.instance != instance) item = item->next;
    bool has = item || wire_paths_have(link, instance);
    pthread_mutex_unlock(&link->lock);
    return has;
}

uint8_t *wire_outbox_read(wire_link *link, const wire_writer *writer, const wire_source *source,
                          wire_frame *frame, uint8_t *to) {
    source->read(source->context, frame->offset, to + sizeof *frame, frame->bytes);
    return writer->shorten ? wire_compress((wire_framed *)link, writer, frame, to) : to;
}

/* Writes the next piece of an item; under the lock, which is let go while a source is read: a chunk
 * takes a while, and senders must not wait for it. False: no room. */
static bool write_piece(wire_link *link, const wire_writer *writer, wire_item *item) {
    uint64_t rest = item->frame.total - item->frame.offset;
    wire_frame frame = item->frame;
    frame.bytes = rest < WIRE_CHUNK ? (uint32_t)rest : WIRE_CHUNK;
    uint32_t bytes = frame.bytes;
    uint8_t *to = writer->reserve(link, wire_frame_bytes(bytes));
    if (!to) return false;
    if (frame.type != WIRE_FRAME_DATA) {
        memcpy(to + sizeof frame, item->body + frame.offset, bytes);
    } else if (bytes) {
        link->writing = true;
        pthread_mutex_unlock(&link->lock);
        to = wire_outbox_read(link, writer, &item->source, &frame, to);
        pthread_mutex_lock(&link->lock);
        link->writing = false;
    }
    memcpy(to, &frame, sizeof frame);
    writer->commit(link, wire_frame_bytes(frame.bytes));
    item->frame.offset += bytes;
    wire_outbox_count(link, &frame);
    return true;
}

bool wire_outbox_close(wire_link *link, wire_link *by, const wire_writer *writer) {
    const char *reason = link->reason ? link->reason : "";
    size_t bytes = strnlen(reason, WIRE_MAX_REASON);
    wire_frame frame = {.type = WIRE_FRAME_CLOSE,
                        .kind = (uint16_t)link->why,
                        .bytes = (uint32_t)bytes,
                        .total = bytes};
    uint8_t *to = writer->reserve(by, wire_frame_bytes(bytes));
    if (!to) return false;
    memcpy(to, &frame, sizeof frame);
    memcpy(to + sizeof frame, reason, bytes);
    writer->commit(by, wire_frame_bytes(bytes));
    link->closed = by->closed = true;
    return true;
}

bool wire_outbox_flush(wire_link *link, const wire_writer *writer) {
    wire_list finished = {0};
    bool did = false;
    pthread_mutex_lock(&link->lock);
    for (int chunks = 0; chunks < CHUNKS_PER_TURN;) {
        bool message = link->messages.first;
        wire_list *list = message ? &link->messages : &link->transfers;
        wire_item *item = list->first;
        if (!item) break;
        if (!write_piece(link, writer, item)) break;
        did = true;
        chunks += !message;
        if (item->frame.offset < item->frame.total) continue;
        wire_list_pop(list);
        if (message) link->queued -= sizeof *item + (size_t)item->frame.total;
        wire_list_push(&finished, item);
    }
    bool empty = !link->messages.first && !link->transfers.first;
    if (empty && link->closing && !link->closed) did |= wire_outbox_close(link, link, writer);
    link->waiting = !empty || (link->closing && !link->closed);
    pthread_mutex_unlock(&link->lock);
    for (wire_item *item; (item = wire_list_pop(&finished));) wire_item_free(item);
    return did;
}
