/* The hub's part of the instruction log: its own events, and passing on those of members. */
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_KEEP_MS = 60000, EVENTS_BURST = 100 };

void hub_note(hub *h, shoal_event_kind kind, uint64_t instance, const char *label, ...) {
    if (!base_events_on(&h->events)) return;
    char text[256];
    va_list list;
    va_start(list, label);
    vsnprintf(text, sizeof text, label, list);
    va_end(list);
    shoal_event event = {
        .kind = (uint8_t)kind, .instance = instance, .slot = SHOAL_NO_SLOT, .peer = SHOAL_NO_SLOT};
    base_event_label(&event, "%s", text);
    base_events_put(&h->events, &event);
}

static uint64_t cursor_of(const Shoal__EventsAsk *ask, uint32_t peer) {
    for (size_t i = 0; i < ask->n_cursors; i++)
        if (ask->cursors[i]->peer == peer) return ask->cursors[i]->next;
    return 0;
}

/* What the hub itself has noted, and who else will answer. */
static shoal_status answer(hub *h, hub_peer *asker, const Shoal__EventsAsk *ask, uint32_t keep,
                           uint32_t *peers, size_t n_peers) {
    Shoal__Events own = SHOAL__EVENTS__INIT;
    base_str list = {0};
    uint64_t next = cursor_of(ask, 0);
    shoal_event *events = malloc(BASE_EVENTS_ROOM * sizeof *events);
    shoal_status status = events ? base_events_record(&h->events, base_now() + keep * BASE_MS)
                                 : base_fail(SHOAL_NO_MEMORY, "no memory for events");
    if (status == SHOAL_OK) {
        size_t n = base_events_read(&h->events, &next, events, BASE_EVENTS_ROOM, &own.lost);
        status = wire_events_pack(events, n, &list);
    }
    own.token = ask->token;
    own.next = next;
    own.asked = own.now = base_now();
    own.list = (ProtobufCBinaryData){list.size, (uint8_t *)list.data};
    own.name = (char *)"hub";
    own.asked_peers = peers;
    own.n_asked_peers = n_peers;
    if (status == SHOAL_OK) hub_send(asker, SHOAL__KIND__EVENTS, &own.base);
    base_str_fini(&list);
    free(events);
    return status;
}

void hub_events_ask(hub *h, hub_peer *asker, const Shoal__EventsAsk *ask) {
    /* Each question is one to everybody. */
    int64_t asked = base_now();
    if (asked - asker->events_at < BASE_EVENTS_PAUSE && asker->events_many++ > EVENTS_BURST) {
        hub_strange(asker, "questions for events without end");
        return;
    }
    if (asked - asker->events_at >= BASE_EVENTS_PAUSE) asker->events_many = 0;
    asker->events_at = asked;
    uint32_t keep = ask->keep_ms < MOST_KEEP_MS ? ask->keep_ms : MOST_KEEP_MS;
    uint32_t *peers = calloc(h->peers.count + 1, sizeof *peers);
    size_t n = 0;
    shoal_status status = peers ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for events");
    for (size_t i = 0; peers && i < h->peers.count; i++)
        if (h->peers.data[i]->link) peers[n++] = h->peers.data[i]->number;
    asker->events_token = ask->token;
    asker->events_from.count = 0;
    for (size_t i = 0; i < n && status == SHOAL_OK; i++)
        if (!base_vec_push(&asker->events_from, peers[i])) status = SHOAL_NO_MEMORY;
    /* The list of who is asked comes before their answers. */
    if (status == SHOAL_OK) status = answer(h, asker, ask, keep, peers, n);
    for (size_t i = 0; status == SHOAL_OK && i < h->peers.count; i++) {
        hub_peer *peer = h->peers.data[i];
        Shoal__Record record = SHOAL__RECORD__INIT;
        record.token = ask->token;
        record.asker = asker->number;
        record.keep_ms = keep;
        record.next = cursor_of(ask, peer->number);
        record.asked = base_now();
        hub_send(peer, SHOAL__KIND__RECORD, &record.base);
    }
    if (status != SHOAL_OK) base_log(BASE_WARN, "hub", "%s", shoal_error_message());
    free(peers);
}

/* How far the member's clock is before ours: it was read between the question and now. Clocks that
 * cannot be told apart are one, as those of processes of one machine are. */
static void compare_clocks(Shoal__Events *events) {
    int64_t now = base_now(), around;
    events->offset = 0;
    events->doubt = UINT64_MAX;
    if (events->asked > now || base_add_overflow(events->asked, (now - events->asked) / 2, &around))
        return;
    int64_t half = (now - events->asked) / 2, offset;
    if (__builtin_sub_overflow(events->now, around, &offset)) return;
    events->doubt = (uint64_t)half;
    events->offset = offset >= -half && offset <= half ? 0 : offset;
}

/* Whether the asker waits for this peer's answer; not any more. */
static bool take_turn(hub_peer *asker, uint32_t peer) {
    for (size_t i = 0; i < asker->events_from.count; i++) {
        if (asker->events_from.data[i] != peer) continue;
        asker->events_from.data[i] = asker->events_from.data[--asker->events_from.count];
        return true;
    }
    return false;
}

void hub_events_gone(hub *h, const hub_peer *gone) {
    for (size_t i = 0; i < h->peers.count; i++) {
        hub_peer *asker = h->peers.data[i];
        if (!take_turn(asker, gone->number)) continue;
        Shoal__Events events = SHOAL__EVENTS__INIT;
        events.token = asker->events_token;
        events.peer = gone->number;
        events.name = gone->name;
        events.gone = true;
        hub_send(asker, SHOAL__KIND__EVENTS, &events.base);
    }
}

void hub_events_pass(hub *h, hub_peer *peer, Shoal__Events *events) {
    char *name = events->name;
    hub_peer *asker = hub_peer_find(h, events->asker);
    /* Who asked may have left, or asked again. */
    if (!asker || events->token != asker->events_token) return;
    if (!take_turn(asker, peer->number) || events->list.len > HUB_MAX_RECORDED) {
        hub_strange(peer, "events that nobody asked it for");
        return;
    }
    compare_clocks(events);
    events->peer = peer->number;
    events->name = peer->name;
    events->gone = false;
    hub_send(asker, SHOAL__KIND__EVENTS, &events->base);
    events->name = name; /* the message is freed with what it came with */
}
