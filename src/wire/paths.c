/* Sending on a link of several paths: which goes by which, and what has come. */
#include "wire/paths.h"

#include "base/clock.h"
#include "wire/flight.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNKS_PER_TURN = 4,
    TELLING = WIRE_GRAIN,  /* bytes of a piece that tells how fast a path is */
    WORTH_A_TRY = 4 << 20, /* bytes that wait, for a path to be tried of which nothing is known, or
                              that seemed slow: files have no more than 16 MiB on their way; */
    LOOKED_AT = 8,         /* transfers that are counted for that */
    ENOUGH_TOLD = 3,       /* pieces, for a path to be known */
};
#define KEEP 0.8 /* of what was measured before, at each piece */

bool wire_paths_kept(wire_link *link) {
    const wire_paths *p = wire_lead(link)->paths;
    return p && atomic_load(&p->kept);
}

/* ---- pieces ---- */

void wire_flight_push(wire_flight *flight, wire_piece *piece) {
    piece->next = NULL;
    if (flight->last)
        flight->last->next = piece;
    else
        flight->first = piece;
    flight->last = piece;
    flight->bytes += piece->went;
}

wire_piece *wire_flight_pop(wire_flight *flight) {
    wire_piece *piece = flight->first;
    if (!piece) return NULL;
    flight->first = piece->next;
    if (!flight->first) flight->last = NULL;
    flight->bytes -= piece->went;
    return piece;
}

void wire_item_release(wire_item *item, wire_list *through) {
    if (--item->pieces || (!item->dropped && item->frame.offset < item->frame.total)) return;
    if (item->frame.type == WIRE_FRAME_MESSAGE)
        item->link->queued -= sizeof *item + (size_t)item->frame.total;
    wire_list_push(through, item);
}

void wire_piece_end(wire_piece *piece, wire_list *through) {
    wire_item_release(piece->item, through);
    free(piece);
}

void wire_items_free(wire_list *list) {
    for (wire_item *item; (item = wire_list_pop(list));) wire_item_free(item);
}

/* ---- which path ---- */

double wire_paths_speed(const wire_framed *own) {
    return own->path.seconds > 0 ? own->path.bytes / own->path.seconds : 0;
}

void wire_paths_settle(wire_paths *p) {
    pthread_mutex_lock(&p->lead->lock);
    bool wait = p->talker;
    for (uint32_t i = 0; i < p->n_lost; i++)
        wait |= p->lost[i].number == p->last_talker && !p->lost[i].known;
    for (uint32_t i = 0; i < p->n_open && !wait; i++) {
        wire_framed *own = p->open[i];
        if (own->path.ready && (!p->talker || wire_paths_speed(own) > wire_paths_speed(p->talker)))
            p->talker = own;
    }
    if (p->talker) p->last_talker = p->talker->path.number;
    pthread_mutex_unlock(&p->lead->lock);
}

/* Of what is left, the bytes of the next piece: no more than go in about a second, as nothing else
 * is heard of the path meanwhile; and where nothing is known of it, as few as tell. */
static uint32_t piece_bytes(const wire_framed *own, uint64_t rest) {
    double known = wire_paths_speed(own);
    uint32_t most = known < WIRE_CHUNK ? (uint32_t)known / WIRE_GRAIN * WIRE_GRAIN : WIRE_CHUNK;
    if (most < WIRE_GRAIN) most = WIRE_GRAIN;
    return rest < most ? (uint32_t)rest : most;
}

/* Whether so many bytes of data wait. */
static bool waits(const wire_paths *p, uint64_t least) {
    uint64_t bytes = p->again.bytes;
    const wire_item *item = p->lead->transfers.first;
    for (int i = 0; item && i < LOOKED_AT && bytes < least; i++, item = item->next)
        bytes += item->frame.total - item->frame.offset;
    return bytes >= least;
}

/* Seconds until a path would be through with some more bytes. */
static double through(const wire_framed *own, size_t bytes) {
    return (double)(own->path.flight.bytes + bytes) / wire_paths_speed(own);
}

/* By how much a path may be faster than it was when it was last used: a single chunk that was held
 * up must not be the end of it. The slower it seemed, the longer it is left alone. */
static double doubt(const wire_paths *p, const wire_framed *own) {
    double idle = (double)(base_now() - own->path.measured) * 1e-9;
    return own->path.flight.bytes || idle < 1 || !waits(p, WORTH_A_TRY) ? 1 : idle;
}

/* Where nothing is known of any path: the talker, or the oldest. */
static bool is_first(const wire_paths *p, const wire_framed *own) {
    for (uint32_t i = 0; i < p->n_open; i++) {
        const wire_framed *other = p->open[i];
        if (!other->path.ready || other == own) continue;
        bool before = p->talker ? p->talker != own : other->path.number < own->path.number;
        if (before || wire_paths_speed(other)) return false;
    }
    return true;
}

/* Of a path of which nothing is known: it gets one piece to try it with, if there is enough else or
 * it is all there is. What is too small to tell anything does not wait for the one before. */
static bool may_try(const wire_paths *p, const wire_framed *own, size_t bytes) {
    bool first = is_first(p, own);
    if (first && bytes < TELLING) return true;
    return !own->path.flight.bytes && (first || waits(p, WORTH_A_TRY));
}

/* A few bytes that were held up by chance must not be the end of a path that was not very slow. */
static bool is_hardly_known(const wire_framed *own) {
    return own->path.measures < ENOUGH_TOLD && wire_paths_speed(own) >= TELLING;
}

/* Whether no other path would be through with it sooner. */
static bool is_soonest(const wire_paths *p, const wire_framed *own, size_t bytes) {
    if (!own->path.ready) return false;
    if (!wire_paths_speed(own)) return may_try(p, own, bytes);
    if (is_hardly_known(own) && !own->path.flight.bytes && waits(p, WORTH_A_TRY)) return true;
    double soon = through(own, bytes);
    bool doubted = false;
    for (uint32_t i = 0; i < p->n_open; i++) {
        const wire_framed *other = p->open[i];
        if (other == own || !other->path.ready || !wire_paths_speed(other)) continue;
        if (through(other, bytes) >= soon) continue;
        if (!doubted) soon /= doubt(p, own);
        doubted = true;
        if (through(other, bytes) < soon) return false;
    }
    return true;
}

/* ---- what has come ---- */

static void measure(wire_framed *own, const wire_piece *piece, int64_t now) {
    if (piece->went < TELLING) return;
    wire_path *path = &own->path;
    int64_t since = path->measured > piece->at ? path->measured : piece->at;
    path->bytes = KEEP * path->bytes + piece->went;
    path->seconds = KEEP * path->seconds + (double)(now - since + 1) * 1e-9;
    path->measured = now;
    path->measures += path->measures < ENOUGH_TOLD;
}

void wire_paths_acked(wire_framed *own, uint64_t come) {
    wire_list done = {0};
    wire_link *lead = wire_lead(&own->base);
    bool fresh = !own->path.ready, kept = wire_paths_kept(lead);
    own->path.ready = true;
    if (fresh && kept) wire_paths_settle(lead->paths);
    if (come <= own->path.acked || come > own->sent) return;
    own->path.acked = come;
    if (!kept) return;
    int64_t now = base_now();
    pthread_mutex_lock(&lead->lock);
    wire_flight *flight = &own->path.flight;
    while (flight->first && flight->first->end <= come) {
        measure(own, flight->first, now);
        wire_piece_end(wire_flight_pop(flight), &done);
    }
    pthread_mutex_unlock(&lead->lock);
    wire_items_free(&done);
}

/* ---- sending ---- */

/* The piece, until then the caller's, is kept until it has come. */
static void keep(wire_framed *own, wire_piece *piece, int64_t now) {
    piece->end = own->sent;
    piece->at = now;
    wire_flight_push(&own->path.flight, piece);
}

/* One frame of the message that is next, in memory. Lock held, as in those that follow. */
static bool send_message(wire_paths *p, wire_framed *own, const wire_writer *writer) {
    wire_link *lead = p->lead;
    wire_item *item = lead->messages.first;
    uint64_t rest = item->frame.total - item->frame.offset;
    wire_frame frame = item->frame;
    frame.bytes = piece_bytes(own, rest);
    wire_piece *piece = frame.bytes == rest ? calloc(1, sizeof *piece) : NULL;
    bool memory = piece || frame.bytes < rest;
    uint8_t *to = memory ? writer->reserve(&own->base, wire_frame_bytes(frame.bytes)) : NULL;
    if (!to) { /* without memory it is tried again; without room, when there is some */
        free(piece);
        return false;
    }
    memcpy(to, &frame, sizeof frame);
    memcpy(to + sizeof frame, item->body + frame.offset, frame.bytes);
    writer->commit(&own->base, wire_frame_bytes(frame.bytes));
    item->frame.offset += frame.bytes;
    wire_outbox_count(lead, &frame);
    if (!piece) return true;
    wire_list_pop(&lead->messages);
    piece->item = item;
    item->pieces = 1;
    keep(own, piece, 0);
    return true;
}

/* The next piece of data for a path: one that goes out again, or a new one. */
static wire_piece next_data(const wire_paths *p, const wire_framed *own) {
    if (p->again.first) return *p->again.first;
    wire_item *item = p->lead->transfers.first;
    if (!item) return (wire_piece){0};
    uint64_t rest = item->frame.total - item->frame.offset;
    return (wire_piece){
        .item = item, .offset = item->frame.offset, .bytes = piece_bytes(own, rest)};
}

/* Takes it from where it waits; nothing of its item is freed as long as there is the piece. */
static void take_data(wire_paths *p, const wire_piece *piece) {
    wire_item *item = piece->item;
    if (p->again.first) {
        free(wire_flight_pop(&p->again));
        return;
    }
    item->pieces++;
    item->frame.offset += piece->bytes;
    if (item->frame.offset == item->frame.total) wire_list_pop(&p->lead->transfers);
}

/* One chunk; the lock is let go while it is read. An item that was dropped meanwhile is done with.
 */
static bool send_data(wire_paths *p, wire_framed *own, const wire_writer *writer,
                      wire_list *dropped) {
    wire_link *lead = p->lead;
    wire_piece next = next_data(p, own);
    if (!next.item || !is_soonest(p, own, next.bytes)) return false;
    wire_piece *piece = malloc(sizeof *piece);
    uint8_t *to = piece ? writer->reserve(&own->base, wire_frame_bytes(next.bytes)) : NULL;
    if (!to) {
        free(piece);
        return false;
    }
    *piece = next;
    take_data(p, &next);
    wire_item *item = next.item;
    wire_frame frame = item->frame;
    frame.offset = next.offset;
    frame.bytes = next.bytes;
    if (frame.bytes) {
        p->reading = item;
        pthread_mutex_unlock(&lead->lock);
        to = wire_outbox_read(&own->base, writer, &item->source, &frame, to);
        pthread_mutex_lock(&lead->lock);
        p->reading = NULL;
    }
    piece->went = frame.bytes;
    memcpy(to, &frame, sizeof frame);
    writer->commit(&own->base, wire_frame_bytes(frame.bytes));
    wire_outbox_count(lead, &frame);
    keep(own, piece, base_now());
    if (item->dropped && item->source.done) { /* see wire_paths_drop */
        item->pieces++;
        wire_list_push(dropped, item);
    }
    return true;
}

/* The closing frame is the last, so all that went by other paths has to have come. */
static bool may_close(const wire_paths *p, const wire_framed *own) {
    const wire_link *lead = p->lead;
    if (!lead->closing || lead->closed || p->talker != own || lead->messages.first ||
        lead->transfers.first || p->again.first)
        return false;
    for (uint32_t i = 0; i < p->n_open; i++)
        if (p->open[i] != own && p->open[i]->path.flight.first) return false;
    for (uint32_t i = 0; i < p->n_lost; i++)
        if (!p->lost[i].known) return false;
    return true;
}

/* Ends what nobody wants: `done` is called without the lock, which is held before and after. */
static void end_dropped(wire_link *lead, wire_list *dropped, wire_list *through) {
    if (!dropped->first) return;
    pthread_mutex_unlock(&lead->lock);
    for (wire_item *item = dropped->first; item; item = item->next) {
        item->source.done(item->source.context);
        item->source.done = NULL;
    }
    pthread_mutex_lock(&lead->lock);
    for (wire_item *item; (item = wire_list_pop(dropped));) wire_item_release(item, through);
}

bool wire_paths_flush(wire_framed *own, const wire_writer *writer) {
    wire_link *lead = wire_lead(&own->base);
    wire_paths *p = lead->paths;
    wire_list dropped = {0}, done = {0};
    bool did = false;
    if (!lead->waiting) return false;
    pthread_mutex_lock(&lead->lock);
    while (p->talker == own && lead->messages.first && send_message(p, own, writer)) did = true;
    for (int chunks = 0; chunks < CHUNKS_PER_TURN && !own->blocked; chunks++) {
        if (!send_data(p, own, writer, &dropped)) break;
        did = true;
    }
    if (may_close(p, own)) did |= wire_outbox_close(lead, &own->base, writer);
    lead->waiting = lead->messages.first || lead->transfers.first || p->again.first ||
                    (lead->closing && !lead->closed);
    end_dropped(lead, &dropped, &done);
    pthread_mutex_unlock(&lead->lock);
    wire_items_free(&done);
    return did;
}

bool wire_paths_pending(wire_framed *own) {
    wire_link *lead = wire_lead(&own->base);
    wire_paths *p = lead->paths;
    if (!lead->waiting || own->blocked) return false;
    pthread_mutex_lock(&lead->lock);
    wire_piece next = next_data(p, own);
    bool would = (p->talker == own && lead->messages.first) ||
                 (next.item && is_soonest(p, own, next.bytes)) || may_close(p, own);
    pthread_mutex_unlock(&lead->lock);
    return would;
}

/* ---- what nobody wants any more ---- */

static bool have(const wire_flight *flight, uint64_t instance) {
    for (const wire_piece *piece = flight->first; piece; piece = piece->next)
        if (piece->item->frame.type == WIRE_FRAME_DATA && !piece->item->dropped &&
            piece->item->frame.instance == instance)
            return true;
    return false;
}

bool wire_paths_have(const wire_link *link, uint64_t instance) {
    const wire_paths *p = link->paths;
    if (!p) return false;
    const wire_item *read = p->reading;
    bool found = read && !read->dropped && read->frame.instance == instance;
    found = found || have(&p->again, instance);
    for (uint32_t i = 0; i < p->n_lost && !found; i++) found = have(&p->lost[i].flight, instance);
    return found;
}

/* One that is being read is left to who reads it, which sees that it is dropped. */
static void drop(const wire_paths *p, wire_item *item, wire_list *dropped) {
    if (item->dropped) return;
    item->dropped = true;
    if (item == p->reading || !item->source.done) return;
    item->pieces++; /* stays until `done` has been called */
    wire_list_push(dropped, item);
}

static void drop_in(const wire_paths *p, const wire_flight *flight, uint64_t instance,
                    wire_list *dropped) {
    for (const wire_piece *piece = flight->first; piece; piece = piece->next)
        if (piece->item->frame.type == WIRE_FRAME_DATA && piece->item->frame.instance == instance)
            drop(p, piece->item, dropped);
}

void wire_paths_drop(wire_link *link, uint64_t instance) {
    wire_paths *p = link->paths;
    wire_list dropped = {0}, done = {0}, kept = {0};
    if (p->reading && p->reading->frame.instance == instance) drop(p, p->reading, &dropped);
    for (wire_item *item; (item = wire_list_pop(&link->transfers));) {
        if (item->frame.instance != instance)
            wire_list_push(&kept, item);
        else if (item->pieces || item->source.done)
            drop(p, item, &dropped);
        else
            wire_list_push(&done, item);
    }
    link->transfers = kept;
    for (uint32_t i = 0; i < p->n_open; i++)
        drop_in(p, &p->open[i]->path.flight, instance, &dropped);
    for (uint32_t i = 0; i < p->n_lost; i++) drop_in(p, &p->lost[i].flight, instance, &dropped);
    wire_flight again = p->again;
    p->again = (wire_flight){0};
    drop_in(p, &again, instance, &dropped);
    for (wire_piece *piece; (piece = wire_flight_pop(&again));) {
        if (piece->item->dropped)
            wire_piece_end(piece, &done);
        else
            wire_flight_push(&p->again, piece);
    }
    end_dropped(link, &dropped, &done);
    pthread_mutex_unlock(&link->lock);
    wire_items_free(&done);
}
