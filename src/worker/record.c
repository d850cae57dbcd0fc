/* What a worker tells of what it does: its part of the pool's instruction log. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEEP_MS = 60000, MOST_KINDS = 32 };

base_events *worker_events(worker *w) { return &w->events; }

/* ---- labels ---- */

typedef struct tally {
    uint16_t op;
    uint32_t count;
    double cost;
    double dearest;         /* the cost of one */
    const shoal_type *type; /* of its result */
} tally;

static int by_cost(const void *a, const void *b) {
    const tally *x = a, *y = b;
    return (x->cost < y->cost) - (x->cost > y->cost);
}

static size_t put_shape(const shoal_type *type, char *out, size_t room) {
    size_t used = 0;
    for (unsigned i = 0; i < type->rank && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, i ? ",%lld" : "[%lld",
                                 (long long)type->dims[i]);
    if (used < room) used += (size_t)snprintf(out + used, room - used, type->rank ? "]" : "[]");
    return used;
}

void worker_label(const shoal_graph *g, uint32_t first, uint32_t last, shoal_event *out) {
    tally found[MOST_KINDS];
    uint32_t n = 0;
    for (uint32_t i = first; i < last; i++) {
        const shoal_node *node = &g->nodes[i];
        uint32_t at = 0;
        if (node->op == GRAPH_CONSTANT && last - first > 1) continue; /* nothing is done for it */
        while (at < n && found[at].op != node->op) at++;
        if (at == MOST_KINDS) continue;
        if (at == n) found[n++] = (tally){.op = node->op, .dearest = -1};
        double cost = worker_node_cost(g, node);
        found[at].count++;
        found[at].cost += cost;
        if (cost <= found[at].dearest || !node->n_outputs) continue;
        found[at].dearest = cost;
        found[at].type = &g->values[node->first_output].type;
    }
    if (n) qsort(found, n, sizeof *found, by_cost);
    char text[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < n && used < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
                                 shoal_op_name(found[i].op));
        if (!i && found[i].type && used < sizeof text)
            used += put_shape(found[i].type, text + used, sizeof text - used);
        if (found[i].count > 1 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " x%u", found[i].count);
    }
    base_event_label(out, "%s", text);
}

/* ---- events ---- */

/* Only the thread that runs the task: the label is kept with the program. */
static void label_step(const worker_task *task, shoal_event *event) {
    if (task->step == task->program->n_steps) return; /* it waits at the end */
    worker_step *step = &task->program->steps[task->step];
    if (!step->label && !step->exchange) {
        worker_label(graph_data(task->program->graph), step->first, step->last, event);
        char *copy = base_arena_array(&task->program->arena, char, sizeof event->label);
        if (copy) memcpy(copy, event->label, sizeof event->label);
        step->label = copy;
    } else if (step->label) {
        memcpy(event->label, step->label, sizeof event->label);
    }
}

void worker_event(const worker_task *task, shoal_event_kind kind, shoal_event_phase phase,
                  int64_t at) {
    base_events *events = &task->slot->worker->events;
    if (!base_events_on(events)) return;
    shoal_event event = {.at = at ? at : base_now(),
                         .instance = task->instance->id,
                         .slot = task->slot->number,
                         .peer = SHOAL_NO_SLOT,
                         .key = task->step,
                         .kind = (uint8_t)kind,
                         .phase = (uint8_t)phase};
    if (kind == SHOAL_EVENT_RUN)
        base_event_label(&event, "program %llu, %llu operations",
                         (unsigned long long)task->program->id,
                         (unsigned long long)task->program->n_nodes);
    else
        label_step(task, &event);
    base_events_put(events, &event);
}

/* Both ends know a transfer by the same key. */
static uint32_t key_of(uint32_t channel, uint32_t ordinal) { return channel << 16 ^ ordinal; }

void worker_event_send(worker *w, shoal_event_phase phase, const wire_transfer *transfer,
                       uint32_t from, uint32_t to) {
    base_event(&w->events, .instance = transfer->instance, .bytes = transfer->bytes, .slot = from,
               .peer = to, .key = key_of(transfer->channel, transfer->ordinal),
               .kind = SHOAL_EVENT_SEND, .phase = (uint8_t)phase);
}

void worker_event_receive(const worker_task *task, const worker_receive *receive,
                          shoal_event_phase phase, int64_t at) {
    base_event(&task->slot->worker->events, .at = at, .instance = task->instance->id,
               .bytes = receive->bytes, .slot = task->slot->number, .peer = receive->from,
               .key = key_of(receive->channel, receive->ordinal), .kind = SHOAL_EVENT_RECEIVE,
               .phase = (uint8_t)phase);
}

/* ---- telling ---- */

void worker_record(worker *w, const Shoal__Record *record) {
    Shoal__Events answer = SHOAL__EVENTS__INIT;
    base_str list = {0};
    uint32_t keep = record->keep_ms < MOST_KEEP_MS ? record->keep_ms : MOST_KEEP_MS;
    uint64_t next = record->next;
    shoal_event *events = malloc(BASE_EVENTS_ROOM * sizeof *events);
    shoal_status status = events
                              ? base_events_record(&w->events, base_now() + keep * BASE_MS)
                              : base_fail(SHOAL_NO_MEMORY, "no memory to tell what was recorded");
    if (status == SHOAL_OK) {
        size_t n = base_events_read(&w->events, &next, events, BASE_EVENTS_ROOM, &answer.lost);
        status = wire_events_pack(events, n, &list);
    }
    answer.token = record->token;
    answer.asker = record->asker;
    answer.asked = record->asked;
    answer.next = next;
    answer.list = (ProtobufCBinaryData){list.size, (uint8_t *)list.data};
    answer.now = base_now();
    if (status == SHOAL_OK) status = worker_send(w, SHOAL__KIND__RECORDED, &answer.base);
    if (status != SHOAL_OK) base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    base_str_fini(&list);
    free(events);
}

/* ---- what came over links ---- */

static uint64_t since(const worker_instance *instance, int64_t time) {
    return time > instance->came ? (uint64_t)(time - instance->came) : 0;
}

void worker_count_traffic(const worker_instance *instance, Shoal__Traffic **out,
                          Shoal__Traffic ***pointers, size_t *count) {
    size_t most = 0, n = 0;
    for (uint32_t t = 0; t < instance->n_tasks; t++) most += instance->tasks[t].n_receives;
    if (!most) return;
    Shoal__Traffic *traffic = *out = calloc(most, sizeof *traffic);
    *pointers = calloc(most, sizeof **pointers);
    if (!traffic || !*pointers) return;
    for (uint32_t t = 0; t < instance->n_tasks; t++) {
        const worker_task *task = &instance->tasks[t];
        size_t first = n;
        for (uint32_t i = 0; i < task->n_receives; i++) {
            const worker_receive *receive = &task->receives[i];
            if (!receive->ended) continue; /* from a slot of this process */
            size_t at = first;
            while (at < n && traffic[at].from != receive->from) at++;
            if (at == n) {
                shoal__traffic__init(&traffic[n]);
                (*pointers)[n] = &traffic[n];
                traffic[n].from = receive->from;
                traffic[n++].to = task->slot->number;
            }
            traffic[at].bytes += receive->bytes;
            traffic[at].nanoseconds += (uint64_t)(receive->ended - receive->began);
            traffic[at].timed += receive->bytes - receive->first;
            traffic[at].timed_ns += (uint64_t)(receive->ended - receive->timed);
            uint64_t begin = since(instance, receive->began), end = since(instance, receive->ended);
            if (!traffic[at].end || begin < traffic[at].begin) traffic[at].begin = begin;
            if (end > traffic[at].end) traffic[at].end = end;
        }
    }
    *count = n;
}

/* ---- news ---- */

enum { MOST_PATHS = 256 };

typedef struct news {
    Shoal__News all;
    size_t n;
    Shoal__Path paths[MOST_PATHS], *pointers[MOST_PATHS];
    wire_path_state states[MOST_PATHS + WIRE_MOST_PATHS];
} news;

/* Lock held. */
static void add_paths(news *of, const wire_link *link, uint32_t peer) {
    if (!link || of->n >= MOST_PATHS) return;
    size_t end = of->n + wire_link_look(link, &of->states[of->n]);
    for (; of->n < end && of->n < MOST_PATHS; of->n++) {
        const wire_path_state *state = &of->states[of->n];
        Shoal__Path *path = of->pointers[of->n] = &of->paths[of->n];
        shoal__path__init(path);
        path->peer = peer;
        path->address = (char *)state->address;
        path->speed = state->speed;
        path->sent = state->sent;
        path->saved = state->saved;
    }
}

/* Unless the hub has heard the same. Lock held. */
static void tell_news(worker *w, news *of) {
    size_t at = 0;
    uint64_t key;
    void *item;
    shoal__news__init(&of->all);
    add_paths(of, w->hub, 0);
    while (base_map_next(&w->peers, &at, &key, &item))
        add_paths(of, ((const worker_peer *)item)->link, ((const worker_peer *)item)->number);
    of->all.paths = of->pointers;
    of->all.n_paths = of->n;
    if (w->fetch.file) of->all.fetching = w->fetch.file->bytes;
    if (w->fetch.file) of->all.fetched = w->fetch.there;
    size_t n = shoal__news__get_packed_size(&of->all);
    uint8_t *packed = malloc(n + 1);
    if (!packed) return;
    uint64_t hash = base_hash(packed, shoal__news__pack(&of->all, packed));
    free(packed);
    if (hash != w->news && wire_send(w->hub, SHOAL__KIND__NEWS, &of->all.base) != SHOAL_OK)
        base_log(BASE_DEBUG, w->name, "%s", shoal_error_message());
    w->news = hash;
}

void worker_news(worker *w) {
    int64_t now = base_now();
    if (!w->heard || now - w->news_at < BASE_SECOND) return;
    w->news_at = now;
    news *of = calloc(1, sizeof *of);
    pthread_mutex_lock(&w->lock);
    if (of && w->hub) tell_news(w, of);
    pthread_mutex_unlock(&w->lock);
    free(of);
}
