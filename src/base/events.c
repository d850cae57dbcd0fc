#include "base/events.h"

#include "base/clock.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = sizeof(shoal_event) / 8 };
static_assert(sizeof(shoal_event) == 8 * WORDS, "events are copied by words");

/* stamp: 2n + 1 while event n is written here, 2n + 2 once it is there; skipped: the last event
 * that was to be, but is not. Words, not a struct: what a reader copies may be overwritten
 * meanwhile, and it only finds out afterwards. */
typedef struct base_event_place {
    _Atomic(uint64_t) stamp, skipped;
    _Atomic(uint64_t) words[WORDS];
} base_event_place;

static const struct {
    const char *name, *help;
} kinds[] = {
#define XX(name, text, help) {text, help},
    SHOAL_EVENT_MAP(XX)
#undef XX
};

const char *shoal_event_name(unsigned kind) {
    return kind < SHOAL_EVENT_COUNT ? kinds[kind].name : "?";
}

const char *shoal_event_help(unsigned kind) {
    return kind < SHOAL_EVENT_COUNT ? kinds[kind].help : "?";
}

shoal_status base_events_init(base_events *events, const char *who) {
    memset(events, 0, sizeof *events);
    atomic_init(&events->next, 1);
    return base_event_file_new(events, who, &events->file);
}

void base_events_fini(base_events *events) {
    base_event_file_destroy(&events->file);
    free(atomic_load(&events->places));
    atomic_store(&events->places, NULL);
    atomic_store(&events->on, false);
}

void base_events_name(base_events *events, const char *who) {
    if (events->file) base_event_file_name(events->file, who);
}

shoal_status base_events_record(base_events *events, int64_t until) {
    base_event_place *none = NULL;
    if (!atomic_load(&events->places)) {
        base_event_place *places = calloc(BASE_EVENTS_ROOM, sizeof *places);
        if (!places) return base_fail(SHOAL_NO_MEMORY, "no memory to record events");
        if (!atomic_compare_exchange_strong(&events->places, &none, places)) free(places);
    }
    int64_t now = atomic_load(&events->until);
    while (now < until && !atomic_compare_exchange_weak(&events->until, &now, until)) continue;
    atomic_store_explicit(&events->on, true, memory_order_release);
    return SHOAL_OK;
}

/* Who reads must not wait for it. */
static void skip(base_event_place *place, uint64_t number) {
    uint64_t before = atomic_load(&place->skipped);
    while (before < number && !atomic_compare_exchange_weak(&place->skipped, &before, number))
        continue;
}

void base_events_put(base_events *events, const shoal_event *event) {
    shoal_event copy = *event;
    if (!copy.at) copy.at = base_now();
    if (copy.at > atomic_load_explicit(&events->until, memory_order_relaxed)) {
        atomic_store(&events->on, false);
        return;
    }
    uint64_t number = atomic_fetch_add_explicit(&events->next, 1, memory_order_relaxed);
    base_event_place *place =
        &atomic_load_explicit(&events->places, memory_order_relaxed)[number % BASE_EVENTS_ROOM];
    /* Whoever has been overtaken by a whole ring in the middle of writing keeps the place. */
    uint64_t old = atomic_load_explicit(&place->stamp, memory_order_relaxed);
    if (old % 2 || old > 2 * number ||
        !atomic_compare_exchange_strong(&place->stamp, &old, 2 * number + 1)) {
        skip(place, number);
        return;
    }
    uint64_t words[WORDS];
    memcpy(words, &copy, sizeof words);
    for (int i = 0; i < WORDS; i++) /* none of them before the stamp */
        atomic_store_explicit(&place->words[i], words[i], memory_order_release);
    atomic_store_explicit(&place->stamp, 2 * number + 2, memory_order_release);
}

typedef enum found { FOUND, NOT_YET, GONE } found;

static found read_place(base_event_place *place, uint64_t number, shoal_event *out) {
    uint64_t words[WORDS];
    uint64_t stamp = atomic_load_explicit(&place->stamp, memory_order_acquire);
    if (stamp != 2 * number + 2) {
        /* Not begun, or being written; unless a newer one is there, or an older one was stuck in
         * its place. */
        bool skipped = atomic_load(&place->skipped) >= number;
        return stamp > 2 * number + 2 || skipped ? GONE : NOT_YET;
    }
    for (int i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&place->words[i], memory_order_acquire);
    if (atomic_load_explicit(&place->stamp, memory_order_relaxed) != stamp) return GONE;
    memcpy(out, words, sizeof *out);
    return FOUND;
}

size_t base_events_read(base_events *events, uint64_t *from, shoal_event *out, size_t room,
                        uint64_t *lost) {
    base_event_place *places = atomic_load(&events->places);
    uint64_t next = atomic_load(&events->next);
    size_t n = 0;
    if (!*from || *from > next) *from = next;
    if (next - *from > BASE_EVENTS_ROOM) {
        *lost += next - BASE_EVENTS_ROOM - *from;
        *from = next - BASE_EVENTS_ROOM;
    }
    for (; places && *from < next && n < room; ++*from) {
        found f = read_place(&places[*from % BASE_EVENTS_ROOM], *from, &out[n]);
        if (f == NOT_YET) break;
        n += f == FOUND;
        *lost += f == GONE;
    }
    return n;
}

void base_event_label(shoal_event *event, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(event->label, sizeof event->label, format, list);
    va_end(list);
    for (char *c = event->label; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
}
