/* Paths of a link that join it, and that end while others go on. */
#include "wire/paths.h"

#include "base/clock.h"
#include "base/log.h"
#include "wire/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ANSWERS = 8 }; /* to what is asked of one path again and again */
#define PATIENCE (15 * BASE_SECOND)

wire_path_count wire_link_paths(const wire_link *link) {
    const wire_paths *p = link->paths;
    return p ? (wire_path_count){p->n_open, p->n_ended} : (wire_path_count){1, 0};
}

static void look(wire_framed *own, wire_path_state *out) {
    double measured = wire_paths_speed(own);
    if (measured <= 0 && own->carrier->speed) measured = own->carrier->speed(own);
    *out = (wire_path_state){.speed = measured, .sent = own->sent, .saved = own->path.saved};
    snprintf(out->address, sizeof out->address, "%s", own->address);
}

size_t wire_link_look(const wire_link *link, wire_path_state out[WIRE_MOST_PATHS]) {
    const wire_paths *p = link->paths;
    size_t n = 0;
    if (link->transport != &wire_zmq_transport && link->transport != &wire_relay) {
        out[0] = (wire_path_state){.sent = link->bytes_out};
        snprintf(out->address, sizeof out->address, "%s", link->transport->scheme);
        return 1;
    }
    if (!p) look((wire_framed *)link, &out[n++]);
    for (uint32_t i = 0; p && i < p->n_open; i++) look(p->open[i], &out[n++]);
    return n;
}

void wire_paths_join(wire_framed *own) {
    wire_link *lead = wire_lead(&own->base);
    wire_paths *p = lead->paths;
    own->base.state = WIRE_OPEN;
    own->path.ready = !own->accepting;
    pthread_mutex_lock(&lead->lock);
    if (!p->kept) {
        p->open[0]->path.unkept = p->open[0]->sent;
        p->talker = p->open[0];
        p->kept = true;
    }
    p->open[p->n_open++] = own;
    pthread_mutex_unlock(&lead->lock);
    wire_paths_settle(p);
    base_log(BASE_INFO, lead->peer->hello->name, "%s has one more path, %s: %u", lead->name,
             own->address, p->n_open);
}

/* ---- what came ---- */

static void tell(const wire_paths *p, const wire_lost *lost, wire_framed *by, bool answer) {
    wire_frame frame = {
        .type = WIRE_FRAME_LOST, .kind = answer, .instance = lost->number, .total = lost->received};
    if (by->carrier->put(by, &frame, NULL) != SHOAL_OK)
        base_log(BASE_DEBUG, p->lead->name, "%s", shoal_error_message());
}

/* By any path that is left; should it end as well, it is asked again by another. */
static void ask(const wire_paths *p, const wire_lost *lost) {
    wire_framed *by = NULL;
    for (uint32_t i = 0; i < p->n_open; i++)
        if (!by || !by->path.ready) by = p->open[i];
    if (by) tell(p, lost, by, false);
}

/* Messages go out again in front of those that wait. Lock held. */
static void put_back(wire_link *lead, wire_list *messages) {
    for (wire_item *item = messages->first; item; item = item->next) {
        item->frame.offset = 0;
        item->pieces = 0;
    }
    if (!messages->first) return;
    messages->last->next = lead->messages.first;
    if (!lead->messages.first) lead->messages.last = messages->last;
    lead->messages.first = messages->first;
}

/* So many bytes had come there when the path ended: the rest goes out again. */
static void resolve(wire_paths *p, wire_lost *lost, uint64_t come) {
    wire_link *lead = p->lead;
    wire_list through = {0}, messages = {0};
    pthread_mutex_lock(&lead->lock);
    for (wire_piece *piece; (piece = wire_flight_pop(&lost->flight));) {
        wire_item *item = piece->item;
        if (piece->end <= come || item->dropped) {
            wire_piece_end(piece, &through);
        } else if (item->frame.type == WIRE_FRAME_MESSAGE) {
            free(piece);
            wire_list_push(&messages, item);
        } else {
            piece->went = piece->bytes;
            wire_flight_push(&p->again, piece);
        }
    }
    put_back(lead, &messages);
    lost->known = true;
    if (lead->messages.first || p->again.first) lead->waiting = true;
    pthread_mutex_unlock(&lead->lock);
    wire_items_free(&through);
    wire_paths_settle(p);
}

/* ---- the end of a path ---- */

/* Room to remember one more; NULL: too many are waited for. Lock held. */
static wire_lost *remember(wire_paths *p) {
    uint32_t at = 0;
    while (p->n_lost == WIRE_MAX_LOST && at < p->n_lost && !p->lost[at].known) at++;
    if (at == WIRE_MAX_LOST) return NULL;
    if (p->n_lost == WIRE_MAX_LOST)
        memmove(p->lost + at, p->lost + at + 1, (--p->n_lost - at) * sizeof *p->lost);
    return &p->lost[p->n_lost++];
}

/* Takes a path off those that are open; NULL where the link cannot go on without it. */
static wire_lost *take_off(wire_paths *p, uint32_t index) {
    wire_link *lead = p->lead;
    wire_framed *own = p->open[index];
    pthread_mutex_lock(&lead->lock);
    wire_lost *lost = p->n_open > 1 ? remember(p) : NULL;
    if (lost) {
        *lost = (wire_lost){.number = own->path.number,
                            .sent = own->sent,
                            .acked = own->path.acked,
                            .unkept = own->path.unkept,
                            .received = own->received,
                            .flight = own->path.flight,
                            .until = base_now() + PATIENCE};
        own->path.flight = (wire_flight){0};
        /* The other side does not know of it, or no more than that it is there. */
        lost->known = !own->path.ready;
        p->open[index] = p->open[--p->n_open];
        p->n_ended++;
        if (p->talker == own) {
            p->talker = NULL;
            /* What has gone out of it by halves goes out whole. */
            if (lead->messages.first) lead->messages.first->frame.offset = 0;
        }
    }
    pthread_mutex_unlock(&lead->lock);
    return lost;
}

/* Ends the connection; the link goes on. */
static wire_lost *leave(wire_paths *p, uint32_t index, const char *message) {
    wire_link *lead = p->lead, *link = &p->open[index]->base;
    char address[WIRE_MAX_ADDRESS];
    snprintf(address, sizeof address, "%s", p->open[index]->address);
    wire_lost *lost = take_off(p, index);
    if (!lost) return NULL;
    base_log(BASE_WARN, lead->peer->hello->name,
             "%s has lost its path %s (%s): goes on with %u; what was on its way is sent again",
             lead->name, address, message, p->n_open);
    link->why = SHOAL_LOST;
    link->begun = 0;
    base_str_clear(&link->assembly);
    if (link == lead)
        link->down = true;
    else
        link->state = WIRE_GONE;
    link->transport->shut(link);
    wire_routes_ended(p, link);
    return lost;
}

static uint32_t index_of(const wire_paths *p, const wire_link *link) {
    uint32_t i = 0;
    while (i < p->n_open && &p->open[i]->base != link) i++;
    return i;
}

/* That another was lost may have been said, or answered, on one that has just ended. */
static void ask_again(const wire_paths *p) {
    for (uint32_t i = 0; i < p->n_lost; i++)
        if (!p->lost[i].known) ask(p, &p->lost[i]);
}

bool wire_paths_lose(wire_link *link, shoal_status why, const char *message) {
    wire_paths *p = wire_lead(link)->paths;
    if (!p || !p->kept) return false;
    uint32_t index = index_of(p, link);
    const wire_lost *lost = index < p->n_open ? leave(p, index, message) : NULL;
    if (!lost) return false;
    if (lost->known) ask(p, lost);
    ask_again(p);
    wire_paths_settle(p);
    wire_routes_look(p);
    return true;
}

/* What the other side says of a path that has ended. */
static shoal_status hear(wire_paths *p, wire_lost *lost, uint64_t come) {
    if (lost->known) return SHOAL_OK;
    if (come < lost->acked || come > lost->sent)
        return base_fail(SHOAL_FORMAT, "%llu bytes came on a path, of %llu, after %llu",
                         (unsigned long long)come, (unsigned long long)lost->sent,
                         (unsigned long long)lost->acked);
    if (come < lost->unkept)
        return base_fail(SHOAL_LOST, "the connection was cut before there was another");
    resolve(p, lost, come);
    return SHOAL_OK;
}

void wire_paths_told(wire_framed *own, const wire_frame *frame) {
    wire_paths *p = wire_lead(&own->base)->paths;
    wire_lost *lost = NULL;
    if (!p || !p->kept) return;
    for (uint32_t i = 0; i < p->n_lost && !lost; i++)
        if (p->lost[i].number == frame->instance) lost = &p->lost[i];
    bool left = !lost;
    for (uint32_t i = 0; i < p->n_open && !lost; i++)
        if (p->open[i]->path.number == frame->instance && p->open[i] != own)
            lost = leave(p, i, "the other side has lost it");
    if (!lost) return; /* this side never had it, or has forgotten it */
    if (!frame->kind && lost->answers < MOST_ANSWERS) {
        lost->answers++;
        tell(p, lost, own, true); /* who asks again when this path ends is who has asked by it */
    }
    if (hear(p, lost, frame->total) == SHOAL_OK) {
        if (left) ask_again(p);
        return;
    }
    char reason[WIRE_MAX_REASON];
    snprintf(reason, sizeof reason, "%s: %s", p->lead->name, shoal_error_message());
    wire_link_end(p->lead, SHOAL_LOST, reason);
}

int64_t wire_paths_overdue(wire_paths *p) {
    int64_t now = base_now(), next = 0;
    for (uint32_t i = 0; i < p->n_lost; i++) {
        const wire_lost *lost = &p->lost[i];
        if (lost->known) continue;
        if (lost->until <= now) {
            char reason[WIRE_MAX_REASON];
            snprintf(reason, sizeof reason, "%s: what came on a path that was cut was not told of",
                     p->lead->name);
            wire_link_end(p->lead, SHOAL_LOST, reason);
            return 0;
        }
        if (!next || lost->until < next) next = lost->until;
    }
    return next;
}

/* ---- the end of the link ---- */

static void clear(wire_flight *flight, wire_list *through) {
    for (wire_piece *piece; (piece = wire_flight_pop(flight));) {
        piece->item->dropped = true; /* nothing of it is to come */
        wire_piece_end(piece, through);
    }
}

void wire_paths_clear(wire_link *link) {
    wire_paths *p = link->paths;
    wire_list through = {0};
    if (!p) return;
    pthread_mutex_lock(&link->lock);
    for (uint32_t i = 0; i < p->n_open; i++) clear(&p->open[i]->path.flight, &through);
    for (uint32_t i = 0; i < p->n_lost; i++) clear(&p->lost[i].flight, &through);
    clear(&p->again, &through);
    p->n_open = p->n_lost = 0;
    p->talker = NULL;
    link->queued = 0;
    pthread_mutex_unlock(&link->lock);
    wire_watch_remove(link->peer, &p->timer);
    wire_items_free(&through);
}

void wire_paths_free(wire_link *link) { free(link->paths); }
