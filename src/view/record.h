/* What a pool did during some seconds: events of its processes, brought together. Lanes are where
 * things happen (a slot of a worker, a client, the hub), spans what took time there, marks what
 * took none. Times are seconds from the record's begin, by the hub's clock. */
#ifndef VIEW_RECORD_H
#define VIEW_RECORD_H

#include "shoal/shoal.h"

#include <stdio.h>

enum { VIEW_MOST_EVENTS = 1 << 20, VIEW_NAME = 160 };

typedef enum view_role { VIEW_HUB, VIEW_CLIENT, VIEW_WORKER } view_role;

typedef struct view_lane {
    uint32_t peer, slot; /* of the pool; slot SHOAL_NO_SLOT: the process itself */
    view_role role;
    char name[VIEW_NAME]; /* of the process */
    char what[VIEW_NAME]; /* "cpu"; "" for no device */
    bool lost;            /* left before the end */
} view_lane;

typedef struct view_span {
    double from, to; /* a mark: equal */
    uint64_t instance, bytes;
    uint32_t lane, peer, key;
    uint32_t label; /* of view_record.labels */
    uint8_t kind;
    bool mark, cut; /* cut: it goes on before the begin, or after the end */
} view_span;

typedef struct view_record {
    double seconds;
    uint64_t unix_ms; /* of the begin; 0: unknown */
    uint64_t lost;    /* events that came too fast, or were too many */
    double doubt;     /* seconds by which times of different machines may be apart */
    view_lane *lanes;
    uint32_t n_lanes;
    view_span *spans; /* by time */
    size_t n_spans;
    char **labels;
    uint32_t n_labels;
} view_record;

typedef struct view_recorder view_recorder;

/* NULL without memory. */
view_recorder *view_recorder_new(void);
void view_recorder_free(view_recorder *recorder);
/* Slots that are there, for names; told again when they change. */
void view_recorder_slots(view_recorder *recorder, const shoal_slot *slots, uint32_t n);
/* What a process has told: the callback of shoal_events, with the recorder as context. What there
 * is no room for is counted as lost. */
void view_recorder_take(void *recorder, const shoal_event_source *source, const shoal_event *events,
                        size_t n);
size_t view_recorder_count(const view_recorder *recorder);
/* The most that one process had to tell in the last round. */
size_t view_recorder_most(const view_recorder *recorder);
/* Brings together what was taken, from when all processes had begun to record until the last one's
 * last answer. False without memory. Freed with view_record_fini, also then. */
bool view_recorder_close(view_recorder *recorder, view_record *out);
void view_record_fini(view_record *record);

/* For what fills a record itself (a file that is read). A label's number, or UINT32_MAX without
 * memory. `table` begins zeroed, and is freed with view_labels_free. */
typedef struct view_labels {
    char **texts;
    uint32_t n, room;
    uint32_t *index;
    uint32_t buckets;
} view_labels;
uint32_t view_label(view_labels *table, const char *text);
void view_labels_free(view_labels *table);
/* Sorts spans by time. */
void view_record_sort(view_record *record);

/* The operation that names a span: "dot_general" of "dot_general[64,256], add". */
void view_operation(const char *label, char *out, size_t room);
/* The lane of a slot, or NULL. */
const view_lane *view_lane_of_slot(const view_record *record, uint32_t slot);
/* "left", "left slot 3" where a worker has several. */
void view_lane_name(const view_record *record, const view_lane *lane, char *out, size_t room);

/* ---- what it adds up to ---- */

typedef struct view_lane_sum {
    double busy, waiting, compiling;
    uint64_t computed, runs; /* parts of programs; instances */
    uint64_t sent, received; /* bytes */
} view_lane_sum;
/* Of one lane, within the record. */
view_lane_sum view_sum(const view_record *record, uint32_t lane);

typedef struct view_operation_sum {
    uint32_t label;
    uint64_t count;
    double seconds;
} view_operation_sum;
/* What was computed, by label, the longest first; at most `room`. Returns how many there are. */
uint32_t view_operations(const view_record *record, view_operation_sum *out, uint32_t room);

#endif
