/* Events as messages carry them. */
#include "wire/wire.h"

#include "base/clock.h"
#include "base/events.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

static void to_message(const shoal_event *event, Shoal__Event *out) {
    shoal__event__init(out);
    out->at = event->at;
    out->instance = event->instance;
    out->bytes = event->bytes;
    out->slot = event->slot;
    out->peer = event->peer;
    out->key = event->key;
    out->kind = event->kind;
    out->phase = event->phase;
    out->label = (char *)event->label;
}

shoal_status wire_events_pack(const shoal_event *events, size_t n, base_str *out) {
    Shoal__EventList list = SHOAL__EVENT_LIST__INIT;
    Shoal__Event *messages = malloc((n + 1) * sizeof *messages);
    Shoal__Event **pointers = malloc((n + 1) * sizeof *pointers);
    for (size_t i = 0; messages && pointers && i < n; i++) {
        to_message(&events[i], &messages[i]);
        pointers[i] = &messages[i];
    }
    list.events = pointers;
    list.n_events = n;
    size_t bytes = messages && pointers ? shoal__event_list__get_packed_size(&list) : 0;
    uint8_t *packed = messages && pointers ? malloc(bytes + 1) : NULL;
    shoal_status status = SHOAL_NO_MEMORY;
    if (packed) {
        shoal__event_list__pack(&list, packed);
        base_str_bytes(out, packed, bytes);
        status = base_str_status(out);
    } else {
        base_fail(SHOAL_NO_MEMORY, "no memory to tell of %zu events", n);
    }
    free(packed);
    free(pointers);
    free(messages);
    return status;
}

static shoal_status from_message(const Shoal__Event *message, shoal_event *out) {
    if (message->kind >= SHOAL_EVENT_COUNT || message->phase >= SHOAL_EVENT_PHASES)
        return base_fail(SHOAL_FORMAT, "an event of kind %u and phase %u does not exist",
                         message->kind, message->phase);
    if (message->at < 0 || message->at > BASE_CLOCK_MOST)
        return base_fail(SHOAL_FORMAT, "an event of the year %.0f of a clock",
                         (double)message->at / 365 / 86400e9);
    *out = (shoal_event){.at = message->at,
                         .instance = message->instance,
                         .bytes = message->bytes,
                         .slot = message->slot,
                         .peer = message->peer,
                         .key = message->key,
                         .kind = (uint8_t)message->kind,
                         .phase = (uint8_t)message->phase};
    base_event_label(out, "%s", message->label);
    return SHOAL_OK;
}

shoal_status wire_events_unpack(const void *bytes, size_t size, shoal_event **out, size_t *n) {
    ProtobufCMessage *message;
    *out = NULL;
    *n = 0;
    SHOAL_TRY(wire_unpack(&shoal__event_list__descriptor, bytes, size, &message));
    const Shoal__EventList *list = (const Shoal__EventList *)message;
    shoal_event *events = malloc((list->n_events + 1) * sizeof *events);
    shoal_status status =
        events ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for %zu events", list->n_events);
    for (size_t i = 0; i < list->n_events && status == SHOAL_OK; i++)
        status = from_message(list->events[i], &events[i]);
    if (status == SHOAL_OK) {
        *out = events;
        *n = list->n_events;
    } else {
        free(events);
    }
    wire_unpacked_free(message);
    return status;
}
