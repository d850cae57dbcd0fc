#include "view/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An event as it is kept until the end. */
typedef struct kept {
    int64_t at;
    uint64_t instance, bytes;
    uint32_t slot, peer, key, label;
    uint16_t source;
    uint8_t kind, phase;
} kept;

/* A process that has told of something. */
typedef struct source {
    uint32_t peer;
    char name[VIEW_NAME];
    int64_t offset, first, last; /* its clock when it answered the first time, if early, and last */
    uint64_t doubt;              /* of the offset, the least so far */
    bool early;                  /* it answered the first time */
    bool there;                  /* it answered the last time */
} source;

struct view_recorder {
    kept *events;
    size_t n_events, room_events;
    source *sources;
    uint32_t n_sources, room_sources;
    shoal_slot *slots;
    uint32_t n_slots;
    view_labels labels;
    uint64_t lost;
    uint32_t rounds;  /* answers of the hub */
    int64_t from, to; /* the hub's clock */
    size_t most;      /* events of one process, in this round */
    bool failed;
};

view_recorder *view_recorder_new(void) { return calloc(1, sizeof(view_recorder)); }

void view_recorder_free(view_recorder *r) {
    if (r == NULL) return;
    view_labels_free(&r->labels);
    free(r->events);
    free(r->sources);
    free(r->slots);
    free(r);
}

size_t view_recorder_count(const view_recorder *r) { return r->n_events; }
size_t view_recorder_most(const view_recorder *r) { return r->most; }

/* Doubles an array when it is full. */
static bool reserve(void **data, size_t count, size_t *room, size_t item) {
    if (count < *room) return true;
    size_t more = *room > 0 ? 2 * *room : 64;
    void *larger = realloc(*data, more * item);
    if (larger == NULL) return false;
    *data = larger;
    *room = more;
    return true;
}

/* ---- taking ---- */

static void copy_name(char out[VIEW_NAME], const char *text) {
    snprintf(out, VIEW_NAME, "%s", text);
    for (char *c = out; *c != 0; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
}

void view_recorder_slots(view_recorder *r, const shoal_slot *slots, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = 0;
        while (at < r->n_slots && r->slots[at].slot != slots[i].slot) at++;
        if (at == r->n_slots) {
            shoal_slot *more = realloc(r->slots, (r->n_slots + 1) * sizeof *more);
            if (more == NULL) {
                r->failed = true;
                return;
            }
            r->slots = more;
            r->n_slots++;
        }
        r->slots[at] = slots[i];
    }
}

static source *source_of(view_recorder *r, const shoal_event_source *from) {
    for (uint32_t i = 0; i < r->n_sources; i++)
        if (r->sources[i].peer == from->peer) return &r->sources[i];
    size_t room = r->room_sources;
    if (r->n_sources == UINT16_MAX ||
        !reserve((void **)&r->sources, r->n_sources, &room, sizeof *r->sources))
        return NULL;
    r->room_sources = (uint32_t)room;
    source *made = &r->sources[r->n_sources++];
    *made = (source){.peer = from->peer, .doubt = UINT64_MAX};
    copy_name(made->name, from->name);
    return made;
}

static void keep(view_recorder *r, const shoal_event *event, uint16_t number) {
    if (r->n_events == VIEW_MOST_EVENTS) {
        r->lost++;
        return;
    }
    uint32_t label = view_label(&r->labels, event->label);
    if (label == UINT32_MAX ||
        !reserve((void **)&r->events, r->n_events, &r->room_events, sizeof *r->events)) {
        r->failed = true;
        return;
    }
    r->events[r->n_events++] = (kept){.at = event->at,
                                      .instance = event->instance,
                                      .bytes = event->bytes,
                                      .slot = event->slot,
                                      .peer = event->peer,
                                      .key = event->key,
                                      .label = label,
                                      .source = number,
                                      .kind = event->kind,
                                      .phase = event->phase};
}

void view_recorder_take(void *recorder, const shoal_event_source *from, const shoal_event *events,
                        size_t n) {
    view_recorder *r = recorder;
    if (from->peer == 0) {
        r->rounds++;
        r->most = 0;
        for (uint32_t i = 0; i < r->n_sources; i++) r->sources[i].there = false;
    }
    source *s = source_of(r, from);
    if (s == NULL) {
        r->failed = true;
        return;
    }
    if (!from->answered) return;
    if (r->rounds == 1) {
        s->early = true;
        s->first = from->now;
    }
    s->there = true;
    s->last = from->now;
    r->lost += from->lost;
    if (n > r->most) r->most = n;
    if (from->doubt <= s->doubt) {
        s->doubt = from->doubt;
        s->offset = from->offset;
    }
    for (size_t i = 0; i < n; i++) keep(r, &events[i], (uint16_t)(s - r->sources));
}

/* ---- lanes ---- */

typedef struct closing {
    const view_recorder *r;
    view_record *out;
    size_t room_spans;
    size_t room_lanes;
    uint32_t *buckets; /* spans that are open: number + 1; UINT32_MAX: taken out */
    size_t n_buckets;
    uint16_t *lane_source; /* per lane: its source, or UINT16_MAX */
} closing;

static const shoal_slot *slot_of(const view_recorder *r, uint32_t number) {
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].slot == number) return &r->slots[i];
    return NULL;
}

static uint32_t add_lane(closing *c, uint32_t slot, uint16_t from) {
    size_t room = c->room_lanes;
    view_record *out = c->out;
    if (!reserve((void **)&out->lanes, out->n_lanes, &c->room_lanes, sizeof *out->lanes))
        return UINT32_MAX;
    if (room != c->room_lanes) {
        uint16_t *sources = realloc(c->lane_source, c->room_lanes * sizeof *sources);
        if (sources == NULL) return UINT32_MAX;
        c->lane_source = sources;
    }
    const shoal_slot *known = slot_of(c->r, slot);
    const source *s = from != UINT16_MAX ? &c->r->sources[from] : NULL;
    view_lane *lane = &out->lanes[out->n_lanes];
    *lane = (view_lane){.slot = slot, .peer = s != NULL ? s->peer : UINT32_MAX};
    bool computes = known != NULL && known->compute;
    lane->role = s != NULL && s->peer == 0 ? VIEW_HUB : computes ? VIEW_WORKER : VIEW_CLIENT;
    copy_name(lane->name, s != NULL ? s->name : known->worker);
    if (computes) copy_name(lane->what, known->backend);
    lane->lost = s != NULL && !s->there;
    c->lane_source[out->n_lanes] = from;
    return out->n_lanes++;
}

static uint32_t lane_of(closing *c, uint32_t slot, uint16_t from) {
    for (uint32_t i = 0; i < c->out->n_lanes; i++) {
        view_lane *lane = &c->out->lanes[i];
        if (lane->slot != slot) continue;
        if (c->lane_source[i] == from) return i;
        if (c->lane_source[i] != UINT16_MAX) continue;
        c->lane_source[i] = from;
        lane->peer = c->r->sources[from].peer;
        lane->lost = !c->r->sources[from].there;
        return i;
    }
    return add_lane(c, slot, from);
}

/* ---- spans ---- */

static size_t bucket_of(const closing *c, const view_span *span) {
    uint64_t h = span->instance * UINT64_C(0x9E3779B97F4A7C15);
    h ^= ((uint64_t)span->key << 32 | span->peer) * UINT64_C(0xC2B2AE3D27D4EB4F);
    h ^= ((uint64_t)span->lane << 8 | span->kind) * UINT64_C(0x165667B19E3779F9);
    return (size_t)((h ^ h >> 29) & (c->n_buckets - 1));
}

static bool same(const view_span *a, const view_span *b) {
    return a->instance == b->instance && a->key == b->key && a->peer == b->peer &&
           a->lane == b->lane && a->kind == b->kind;
}

static view_span *add_span(closing *c, const view_span *span) {
    view_record *out = c->out;
    if (!reserve((void **)&out->spans, out->n_spans, &c->room_spans, sizeof *out->spans))
        return NULL;
    out->spans[out->n_spans] = *span;
    return &out->spans[out->n_spans++];
}

static bool begin_span(closing *c, view_span *span) {
    span->to = INFINITY; /* open */
    if (add_span(c, span) == NULL) return false;
    size_t at = bucket_of(c, span);
    while (c->buckets[at] != 0 && c->buckets[at] != UINT32_MAX) at = (at + 1) & (c->n_buckets - 1);
    c->buckets[at] = (uint32_t)c->out->n_spans;
    return true;
}

/* Ends the span that began alike; one that began before the record did begins with it. */
static bool end_span(closing *c, view_span *span) {
    for (size_t at = bucket_of(c, span); c->buckets[at] != 0; at = (at + 1) & (c->n_buckets - 1)) {
        if (c->buckets[at] == UINT32_MAX) continue;
        view_span *open = &c->out->spans[c->buckets[at] - 1];
        if (!same(open, span)) continue;
        open->to = span->from;
        c->buckets[at] = UINT32_MAX;
        return true;
    }
    span->to = span->from;
    span->from = 0;
    span->cut = true;
    return add_span(c, span) != NULL;
}

static bool take_event(closing *c, const kept *event) {
    const source *s = &c->r->sources[event->source];
    uint32_t lane = lane_of(c, event->slot, event->source);
    if (lane == UINT32_MAX) return false;
    double at = (double)(event->at - s->offset - c->r->from) * 1e-9;
    view_span span = {.from = at,
                      .to = at,
                      .instance = event->instance,
                      .bytes = event->bytes,
                      .lane = lane,
                      .peer = event->peer,
                      .key = event->key,
                      .label = event->label,
                      .kind = event->kind,
                      .mark = event->phase == SHOAL_EVENT_AT};
    if (event->phase == SHOAL_EVENT_BEGIN) return begin_span(c, &span);
    if (event->phase == SHOAL_EVENT_END) return end_span(c, &span);
    return add_span(c, &span) != NULL;
}

/* What is open goes on until its process was last heard; what lies outside is left out. */
static void clip(closing *c) {
    view_record *out = c->out;
    size_t kept_spans = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        view_span span = out->spans[i];
        if (isinf(span.to)) {
            const source *s = &c->r->sources[c->lane_source[span.lane]];
            double heard = (double)(s->last - s->offset - c->r->from) * 1e-9;
            span.to = heard > span.from ? heard : span.from;
            span.cut = true;
        }
        if (span.from > out->seconds || span.to < 0) continue;
        span.cut |= span.from < 0 || span.to > out->seconds;
        if (span.from < 0) span.from = 0;
        if (span.to > out->seconds) span.to = out->seconds;
        out->spans[kept_spans++] = span;
    }
    out->n_spans = kept_spans;
}

static int by_time(const void *a, const void *b) {
    const view_span *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to < y->to) - (x->to > y->to); /* what is inside comes after */
}

void view_record_sort(view_record *record) {
    if (record->n_spans > 0) qsort(record->spans, record->n_spans, sizeof *record->spans, by_time);
}

static bool fill(closing *c) {
    const view_recorder *r = c->r;
    /* Workers first, in the order of their slots. */
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].compute && add_lane(c, r->slots[i].slot, UINT16_MAX) == UINT32_MAX)
            return false;
    for (size_t i = 0; i < r->n_events; i++)
        if (!take_event(c, &r->events[i])) return false;
    return true;
}

/* Which moments of the hub's clock the record is about: from when everyone had been told to when
 * the first of them gave its last answer. Only now, since offsets become better with each answer.
 */
static void bound(view_recorder *r) {
    for (uint32_t i = 0; i < r->n_sources; i++) {
        const source *s = &r->sources[i];
        int64_t first = s->first - s->offset, last = s->last - s->offset;
        if (s->early && (i == 0 || first > r->from)) r->from = first;
        if (s->there && (i == 0 || last < r->to)) r->to = last;
    }
}

bool view_recorder_close(view_recorder *r, view_record *out) {
    bound(r);
    *out = (view_record){.lost = r->lost};
    closing c = {.r = r, .out = out, .n_buckets = 1024};
    while (c.n_buckets < 2 * r->n_events + 2) c.n_buckets *= 2;
    c.buckets = calloc(c.n_buckets, sizeof *c.buckets);
    if (r->to > r->from) out->seconds = (double)(r->to - r->from) * 1e-9;
    for (uint32_t i = 0; i < r->n_sources; i++)
        if (r->sources[i].offset != 0 && (double)r->sources[i].doubt * 1e-9 > out->doubt)
            out->doubt = (double)r->sources[i].doubt * 1e-9;
    bool good = !r->failed && c.buckets != NULL && fill(&c);
    if (good) clip(&c);
    free(c.buckets);
    free(c.lane_source);
    out->labels = r->labels.texts;
    out->n_labels = r->labels.n;
    r->labels.texts = NULL;
    r->labels.n = 0;
    if (good) view_record_sort(out);
    return good;
}

void view_record_fini(view_record *record) {
    for (uint32_t i = 0; i < record->n_labels; i++) free(record->labels[i]);
    free(record->labels);
    free(record->lanes);
    free(record->spans);
    *record = (view_record){0};
}

/* ---- names and sums ---- */

const view_lane *view_lane_of_slot(const view_record *record, uint32_t slot) {
    for (uint32_t i = 0; slot != SHOAL_NO_SLOT && i < record->n_lanes; i++)
        if (record->lanes[i].slot == slot) return &record->lanes[i];
    return NULL;
}

void view_lane_name(const view_record *record, const view_lane *lane, char *out, size_t room) {
    uint32_t alike = 0;
    for (uint32_t i = 0; i < record->n_lanes; i++)
        alike += strcmp(record->lanes[i].name, lane->name) == 0;
    if (alike > 1 && lane->role == VIEW_WORKER)
        snprintf(out, room, "%s slot %u", lane->name, lane->slot);
    else
        snprintf(out, room, "%s", lane->name);
}

view_lane_sum view_sum(const view_record *record, uint32_t lane) {
    view_lane_sum sum = {0};
    for (size_t i = 0; i < record->n_spans; i++) {
        const view_span *s = &record->spans[i];
        if (s->lane != lane) continue;
        switch (s->kind) {
        case SHOAL_EVENT_COMPUTE:
            sum.busy += s->to - s->from;
            sum.computed++;
            break;
        case SHOAL_EVENT_COMPILE: sum.compiling += s->to - s->from; break;
        case SHOAL_EVENT_WAIT: sum.waiting += s->to - s->from; break;
        case SHOAL_EVENT_RUN: sum.runs++; break;
        case SHOAL_EVENT_SEND: sum.sent += s->cut ? 0 : s->bytes; break;
        case SHOAL_EVENT_RECEIVE: sum.received += s->cut ? 0 : s->bytes; break;
        default: break;
        }
    }
    return sum;
}

static int longest_first(const void *a, const void *b) {
    const view_operation_sum *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

uint32_t view_operations(const view_record *record, view_operation_sum *out, uint32_t room) {
    view_operation_sum *sums = calloc((size_t)record->n_labels + 1, sizeof *sums);
    uint32_t n = 0;
    if (sums == NULL) return 0;
    for (uint32_t i = 0; i < record->n_labels; i++) sums[i].label = i;
    for (size_t i = 0; i < record->n_spans; i++) {
        const view_span *s = &record->spans[i];
        if (s->kind != SHOAL_EVENT_COMPUTE || s->label >= record->n_labels) continue;
        sums[s->label].count++;
        sums[s->label].seconds += s->to - s->from;
    }
    qsort(sums, record->n_labels, sizeof *sums, longest_first);
    while (n < record->n_labels && n < room && sums[n].count > 0) {
        out[n] = sums[n];
        n++;
    }
    free(sums);
    return n;
}
