#include "view/chrome.h"

#include "view/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/* ---- writing ---- */

/* Processes are told apart by their names, which the hub makes unique. */
static uint32_t process_of(const view_record *record, uint32_t lane) {
    uint32_t first = 0;
    while (strcmp(record->lanes[first].name, record->lanes[lane].name) != 0) first++;
    return first + 1;
}

static const char *const roles[] = {"hub", "client", "worker"};

static void add_text(cJSON *to, const char *key, const char *text) {
    cJSON *item = cJSON_AddStringToObject(to, key, text);
    if (item != NULL) view_valid(item->valuestring);
}

/* Thousandths are what the clocks can tell, and what keeps the file small. */
static void add_rounded(cJSON *to, const char *key, double value) {
    cJSON_AddNumberToObject(to, key, round(value * 1e3) / 1e3);
}

/* One line of the list; false without memory. */
static bool put(FILE *out, cJSON *event, bool *first) {
    char *text = event != NULL ? cJSON_PrintUnformatted(event) : NULL;
    cJSON_Delete(event);
    if (text == NULL) return false;
    fprintf(out, *first ? "%s" : ",\n%s", text);
    *first = false;
    cJSON_free(text);
    return true;
}

static cJSON *metadata(const char *name, uint32_t process, cJSON **args) {
    cJSON *event = cJSON_CreateObject();
    cJSON_AddStringToObject(event, "ph", "M");
    cJSON_AddStringToObject(event, "name", name);
    cJSON_AddNumberToObject(event, "pid", process);
    *args = cJSON_CreateObject();
    return event;
}

static bool put_lane(FILE *out, const view_record *record, uint32_t i, bool *first) {
    const view_lane *lane = &record->lanes[i];
    uint32_t process = process_of(record, i);
    char name[VIEW_NAME + 32];
    cJSON *args, *event;
    if (process == i + 1) {
        event = metadata("process_name", process, &args);
        add_text(args, "name", lane->name);
        cJSON_AddItemToObject(event, "args", args);
        if (!put(out, event, first)) return false;
        event = metadata("process_sort_index", process, &args);
        cJSON_AddNumberToObject(args, "sort_index",
                                lane->role == VIEW_WORKER ? (int)i : 1000 + (int)lane->role);
        cJSON_AddItemToObject(event, "args", args);
        if (!put(out, event, first)) return false;
    }
    if (lane->role == VIEW_WORKER)
        snprintf(name, sizeof name, "slot %u (%s)", lane->slot, lane->what);
    else
        snprintf(name, sizeof name, "%s", roles[lane->role]);
    event = metadata("thread_name", process, &args);
    cJSON_AddNumberToObject(event, "tid", i + 1);
    add_text(args, "name", name);
    cJSON_AddStringToObject(args, "role", roles[lane->role]);
    add_text(args, "what", lane->what);
    if (lane->slot != SHOAL_NO_SLOT) cJSON_AddNumberToObject(args, "slot", lane->slot);
    if (lane->lost) cJSON_AddTrueToObject(args, "lost");
    cJSON_AddItemToObject(event, "args", args);
    return put(out, event, first);
}

static const char *label_of(const view_record *record, const view_span *span) {
    return span->label < record->n_labels ? record->labels[span->label] : "";
}

/* What the event is called where it is shown. */
static void name_span(const view_record *record, const view_span *span, char *out, size_t room) {
    const char *label = label_of(record, span), *kind = shoal_event_name(span->kind);
    const view_lane *other = view_lane_of_slot(record, span->peer);
    char peer[VIEW_NAME];
    if (other != NULL)
        view_lane_name(record, other, peer, sizeof peer);
    else
        snprintf(peer, sizeof peer, "slot %u", span->peer);
    if (span->kind == SHOAL_EVENT_COMPUTE && label[0] != 0)
        snprintf(out, room, "%s", label);
    else if (span->kind == SHOAL_EVENT_SEND)
        snprintf(out, room, "send to %s", peer);
    else if (span->kind == SHOAL_EVENT_RECEIVE)
        snprintf(out, room, "receive from %s", peer);
    else
        snprintf(out, room, "%s%s%s", kind, label[0] != 0 ? " " : "", label);
}

static bool is_transfer(const view_span *span) {
    return (span->kind == SHOAL_EVENT_SEND || span->kind == SHOAL_EVENT_RECEIVE) && !span->mark;
}

static cJSON *args_for(const view_record *record, const view_span *span) {
    cJSON *args = cJSON_CreateObject();
    cJSON_AddNumberToObject(args, "instance", (double)span->instance);
    cJSON_AddNumberToObject(args, "bytes", (double)span->bytes);
    cJSON_AddNumberToObject(args, "key", span->key);
    if (span->peer != SHOAL_NO_SLOT) cJSON_AddNumberToObject(args, "peer", span->peer);
    if (span->cut) cJSON_AddTrueToObject(args, "cut");
    if (is_transfer(span)) add_rounded(args, "dur", (span->to - span->from) * 1e6);
    add_text(args, "label", label_of(record, span));
    return args;
}

/* Transfers overlap, so they are asynchronous events, with a number of their own. */
static bool put_span(FILE *out, const view_record *record, const view_span *span, size_t number,
                     bool *first) {
    char name[VIEW_NAME + 128];
    bool transfer = is_transfer(span);
    name_span(record, span, name, sizeof name);
    for (int end = 0; end < (transfer ? 2 : 1); end++) {
        cJSON *event = cJSON_CreateObject();
        cJSON_AddStringToObject(event, "ph",
                                span->mark  ? "i"
                                : !transfer ? "X"
                                : end > 0   ? "e"
                                            : "b");
        add_text(event, "name", name);
        cJSON_AddStringToObject(event, "cat", shoal_event_name(span->kind));
        cJSON_AddNumberToObject(event, "pid", process_of(record, span->lane));
        cJSON_AddNumberToObject(event, "tid", span->lane + 1);
        add_rounded(event, "ts", (end > 0 ? span->to : span->from) * 1e6);
        if (span->mark)
            cJSON_AddStringToObject(event, "s", "t");
        else if (transfer)
            cJSON_AddNumberToObject(event, "id", (double)number + 1);
        else
            add_rounded(event, "dur", (span->to - span->from) * 1e6);
        cJSON_AddItemToObject(event, "args", args_for(record, span));
        if (!put(out, event, first)) return false;
    }
    return true;
}

bool view_chrome_write(FILE *out, const view_record *record) {
    bool first = true, good = true;
    char made_by[64];
    cJSON *other = cJSON_CreateObject();
    snprintf(made_by, sizeof made_by, "shoal %s", shoal_version());
    cJSON_AddStringToObject(other, "made_by", made_by);
    cJSON_AddNumberToObject(other, "seconds", record->seconds);
    cJSON_AddNumberToObject(other, "unix_ms", (double)record->unix_ms);
    cJSON_AddNumberToObject(other, "lost", (double)record->lost);
    cJSON_AddNumberToObject(other, "doubt", record->doubt);
    /* Event by event, so that the whole need not fit into memory as text. */
    fputs("{\"traceEvents\":[\n", out);
    for (uint32_t i = 0; good && i < record->n_lanes; i++) good = put_lane(out, record, i, &first);
    for (size_t i = 0; good && i < record->n_spans; i++)
        good = put_span(out, record, &record->spans[i], i, &first);
    fputs("\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":", out);
    first = true;
    good = put(out, other, &first) && good;
    fputs("}\n", out);
    return good;
}

/* ---- reading ---- */

enum { MOST_LANES = 1024 };

typedef struct reader {
    view_record *out;
    view_labels labels;
    size_t room_spans;
    double tids[MOST_LANES], pids[MOST_LANES]; /* of the lanes */
} reader;

static const double any = 0x1p53;

static double number(const cJSON *object, const char *key, double otherwise, double most) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > most)
        return otherwise;
    return item->valuedouble;
}

static uint32_t small(const cJSON *object, const char *key, uint32_t otherwise) {
    return (uint32_t)number(object, key, otherwise, UINT32_MAX);
}

static const char *string(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static const cJSON *args_of(const cJSON *event) {
    return cJSON_GetObjectItemCaseSensitive(event, "args");
}

static void add_lane(reader *r, const cJSON *event) {
    view_record *out = r->out;
    const cJSON *args = args_of(event);
    if (out->n_lanes == MOST_LANES) return;
    view_lane *lane = &out->lanes[out->n_lanes];
    *lane = (view_lane){.slot = small(args, "slot", SHOAL_NO_SLOT),
                        .role = VIEW_CLIENT,
                        .name = "?",
                        .lost = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(args, "lost"))};
    for (int role = 0; role < 3; role++)
        if (strcmp(string(args, "role"), roles[role]) == 0) lane->role = (view_role)role;
    snprintf(lane->what, sizeof lane->what, "%s", string(args, "what"));
    r->pids[out->n_lanes] = number(event, "pid", -1, any);
    r->tids[out->n_lanes++] = number(event, "tid", -1, any);
}

static void name_lanes(reader *r, const cJSON *event) {
    double pid = number(event, "pid", -1, any);
    for (uint32_t i = 0; i < r->out->n_lanes; i++)
        if (r->pids[i] == pid)
            snprintf(r->out->lanes[i].name, sizeof r->out->lanes[i].name, "%s",
                     string(args_of(event), "name"));
}

static bool kind_of(const char *name, uint8_t *out) {
    for (unsigned kind = 0; kind < SHOAL_EVENT_COUNT; kind++)
        if (strcmp(shoal_event_name(kind), name) == 0) {
            *out = (uint8_t)kind;
            return true;
        }
    return false;
}

static view_span *room_for_span(reader *r) {
    view_record *out = r->out;
    if (out->n_spans == r->room_spans) {
        size_t room = r->room_spans > 0 ? 2 * r->room_spans : 256;
        view_span *spans = realloc(out->spans, room * sizeof *spans);
        if (spans == NULL) return NULL;
        out->spans = spans;
        r->room_spans = room;
    }
    return &out->spans[out->n_spans];
}

/* An event of ours becomes a span; others are passed over. False without memory. */
static bool add_span(reader *r, const cJSON *event) {
    const cJSON *args = args_of(event);
    const char *phase = string(event, "ph");
    double tid = number(event, "tid", -2, any);
    uint32_t lane = 0;
    uint8_t kind;
    while (lane < r->out->n_lanes && r->tids[lane] != tid) lane++;
    bool ours = strcmp(phase, "X") == 0 || strcmp(phase, "b") == 0 || strcmp(phase, "i") == 0;
    if (!ours || lane == r->out->n_lanes || !kind_of(string(event, "cat"), &kind)) return true;
    if (r->out->n_spans == VIEW_MOST_EVENTS) {
        r->out->lost++;
        return true;
    }
    view_span *span = room_for_span(r);
    uint32_t label = view_label(&r->labels, string(args, "label"));
    if (span == NULL || label == UINT32_MAX) return false;
    double from = number(event, "ts", 0, 1e15) * 1e-6;
    double us = number(phase[0] == 'X' ? event : args, "dur", 0, 1e15);
    *span = (view_span){.from = from,
                        .to = phase[0] == 'i' ? from : from + us * 1e-6,
                        .instance = (uint64_t)number(args, "instance", 0, any),
                        .bytes = (uint64_t)number(args, "bytes", 0, any),
                        .lane = lane,
                        .peer = small(args, "peer", SHOAL_NO_SLOT),
                        .key = small(args, "key", 0),
                        .label = label,
                        .kind = kind,
                        .mark = phase[0] == 'i',
                        .cut = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(args, "cut"))};
    if (span->to > r->out->seconds) r->out->seconds = span->to;
    r->out->n_spans++;
    return true;
}

static bool read_events(reader *r, const cJSON *events) {
    const cJSON *event;
    r->out->lanes = calloc(MOST_LANES, sizeof *r->out->lanes);
    if (r->out->lanes == NULL) return false;
    cJSON_ArrayForEach(event, events) {
        if (strcmp(string(event, "name"), "thread_name") == 0) add_lane(r, event);
    }
    cJSON_ArrayForEach(event, events) {
        if (strcmp(string(event, "name"), "process_name") == 0) name_lanes(r, event);
    }
    cJSON_ArrayForEach(event, events) {
        if (!add_span(r, event)) return false;
    }
    view_record_sort(r->out);
    return true;
}

bool view_chrome_read(const char *text, size_t bytes, view_record *out, char *error, size_t room) {
    reader r = {.out = out};
    *out = (view_record){0};
    cJSON *json = cJSON_ParseWithLength(text, bytes);
    const cJSON *events = cJSON_GetObjectItemCaseSensitive(json, "traceEvents");
    const cJSON *other = cJSON_GetObjectItemCaseSensitive(json, "otherData");
    bool good = cJSON_IsArray(events) && strncmp(string(other, "made_by"), "shoal ", 6) == 0;
    if (!good) {
        snprintf(error, room, "%s",
                 json == NULL ? "this is no JSON"
                              : "this is JSON, but no trace that `shoal trace` wrote");
    } else {
        out->seconds = number(other, "seconds", 0, 1e9);
        out->unix_ms = (uint64_t)number(other, "unix_ms", 0, any);
        out->lost = (uint64_t)number(other, "lost", 0, any);
        out->doubt = number(other, "doubt", 0, 1e9);
        good = read_events(&r, events);
        if (!good) snprintf(error, room, "no memory for so many events");
    }
    cJSON_Delete(json);
    out->labels = r.labels.texts;
    out->n_labels = r.labels.n;
    r.labels.texts = NULL;
    r.labels.n = 0;
    view_labels_free(&r.labels);
    return good;
}
