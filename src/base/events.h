/* A process's instruction log: the last events of a member of the pool, in a ring of fixed size.
 *
 * While nobody records, an event costs the look at one flag. While somebody does it is written
 * without waiting, from any thread; where readers are slower than writers they miss the oldest
 * events, and are told how many. With SHOAL_INSTRUCTION_LOG=FILE a thread writes each event as a
 * line of that file, which several processes may share (event_file.c). */
#ifndef BASE_EVENTS_H
#define BASE_EVENTS_H

#include "base/clock.h"
#include "base/status.h"
#include "shoal/event.h"

#include <stdatomic.h>

enum { BASE_EVENTS_ROOM = 1 << 14 };
/* Between two questions for all that the pool has noted: who asks more often is not answered. */
#define BASE_EVENTS_PAUSE (20 * BASE_MS)

typedef struct base_events {
    atomic_bool on;
    _Atomic(int64_t) until; /* base_now time at which recording ends */
    _Atomic(struct base_event_place *) places;
    _Atomic(uint64_t) next; /* number of the next event; the first is 1 */
    struct base_event_file *file;
} base_events;

/* who: for the file's lines, until base_events_name says another. Fails when the file that is asked
 * for cannot be written. */
shoal_status base_events_init(base_events *events, const char *who) SHOAL_CHECK_RESULT;
/* Nobody writes any more. What the file has yet to get is written. */
void base_events_fini(base_events *events);
/* The name that the hub gave. */
void base_events_name(base_events *events, const char *who);

static inline bool base_events_on(const base_events *events) {
    return atomic_load_explicit(&events->on, memory_order_acquire);
}
/* Notes an event. `at` 0: now. Any thread, never waits. */
void base_events_put(base_events *events, const shoal_event *event);
/* The same, where somebody records: base_event(events, .kind = …, .slot = …). */
#define base_event(events, ...)                                                                    \
    do {                                                                                           \
        if (base_events_on(events)) base_events_put(events, &(shoal_event){__VA_ARGS__});          \
    } while (0)

/* Records until then, or longer when that was asked for before. Any thread. */
shoal_status base_events_record(base_events *events, int64_t until) SHOAL_CHECK_RESULT;
/* Copies up to `room` events from number *from on, and moves *from behind them; *lost grows by
 * those that are gone. *from 0: from now on. Any thread. */
size_t base_events_read(base_events *events, uint64_t *from, shoal_event *out, size_t room,
                        uint64_t *lost);
/* Puts text into a label, printable. */
void base_event_label(shoal_event *event, const char *format, ...) SHOAL_PRINTF(2, 3);

/* event_file.c: the file named by SHOAL_INSTRUCTION_LOG; *out NULL when there is none. */
typedef struct base_event_file base_event_file;
shoal_status base_event_file_new(base_events *events, const char *who,
                                 base_event_file **out) SHOAL_CHECK_RESULT;
void base_event_file_name(base_event_file *file, const char *who);
void base_event_file_destroy(base_event_file **file);
/* An event as a line; unix_at: nanoseconds since 1970. Returns its length, below room. */
size_t base_event_line(const shoal_event *event, const char *who, int64_t unix_at, char *out,
                       size_t room);

#endif
