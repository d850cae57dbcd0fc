/* The instruction log, as a client has to do with it: what it notes itself, and asking everyone. */
#include "api/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { ANSWER_MS = 1000 };

/* ---- what is noted here ---- */

/* A label in the making. printf would take longer than recording an operation does. */
typedef struct pen {
    char *at;
    char *end; /* room for the zero is behind it */
} pen;

static void put_text(pen *p, const char *text) {
    while (*text && p->at < p->end) *p->at++ = *text++;
}

static void put_number(pen *p, uint64_t value) {
    char digits[24], *at = digits + sizeof digits - 1;
    *at = 0;
    do *--at = (char)('0' + value % 10);
    while (value /= 10);
    put_text(p, at);
}

/* "dot_general(3, 5) float32[4, 2]" */
void api_event_op(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                  uint32_t n_inputs, const shoal_tensor *output) {
    const shoal_type *type = &output->type;
    shoal_event event = {.kind = SHOAL_EVENT_OP,
                         .instance = output->number,
                         .slot = worker_home(session->worker),
                         .peer = SHOAL_NO_SLOT};
    pen p = {event.label, event.label + sizeof event.label - 1};
    put_text(&p, shoal_op_name(op));
    put_text(&p, "(");
    for (uint32_t i = 0; i < n_inputs && p.at < p.end; i++) {
        if (i) put_text(&p, ", ");
        put_number(&p, inputs[i]->number);
    }
    put_text(&p, ") ");
    put_text(&p, shoal_dtype_name((shoal_dtype)type->dtype));
    put_text(&p, "[");
    for (unsigned i = 0; i < type->rank; i++) {
        if (i) put_text(&p, ", ");
        put_number(&p, (uint64_t)type->dims[i]);
    }
    put_text(&p, "]");
    base_events_put(worker_events(session->worker), &event);
}

/* ---- what others tell ---- */

/* NULL without memory; `news` held. */
static api_source *source_of(shoal_session *session, uint32_t peer) {
    for (size_t i = 0; i < session->sources.count; i++)
        if (session->sources.data[i]->peer == peer) return session->sources.data[i];
    api_source *source = calloc(1, sizeof *source);
    if (!source || !base_vec_push(&session->sources, source)) {
        free(source);
        return NULL;
    }
    source->peer = peer;
    return source;
}

static void free_source(api_source *source) {
    if (source->answer) wire_unpacked_free(&source->answer->base);
    free(source->name);
    free(source);
}

void api_events_take(shoal_session *session, Shoal__Events *events) {
    pthread_mutex_lock(&session->news);
    api_source *source = NULL;
    if (events->token && events->token == session->events_token) {
        session->hub_told |= !events->peer;
        source = source_of(session, events->peer);
        for (size_t i = 0; !events->peer && i < events->n_asked_peers; i++) {
            api_source *other = source_of(session, events->asked_peers[i]);
            if (other) other->asked = true;
        }
    }
    if (source && events->gone) {
        source->asked = false;
    } else if (source && !source->answer) {
        source->answer = events;
        events = NULL;
    }
    pthread_mutex_unlock(&session->news);
    if (events) wire_unpacked_free(&events->base); /* too late, or once too often */
}

static bool all_told(void *context) {
    shoal_session *session = context;
    pthread_mutex_lock(&session->news);
    bool all = session->hub_told;
    for (size_t i = 0; i < session->sources.count; i++)
        all &= !session->sources.data[i]->asked || session->sources.data[i]->answer;
    pthread_mutex_unlock(&session->news);
    return all || worker_state(session->worker) != SHOAL_OK;
}

/* Sends the question; `listening` held. */
static shoal_status ask(shoal_session *session, uint32_t keep_ms) {
    Shoal__EventsAsk question = SHOAL__EVENTS_ASK__INIT;
    pthread_mutex_lock(&session->news);
    size_t n = session->sources.count;
    Shoal__Cursor *cursors = calloc(n + 1, sizeof *cursors);
    Shoal__Cursor **pointers = calloc(n + 1, sizeof *pointers);
    for (size_t i = 0; cursors && pointers && i < n; i++) {
        shoal__cursor__init(&cursors[i]);
        cursors[i].peer = session->sources.data[i]->peer;
        cursors[i].next = session->sources.data[i]->next;
        pointers[i] = &cursors[i];
        session->sources.data[i]->asked = false;
    }
    session->hub_told = false;
    question.token = session->events_token = ++session->next_token;
    pthread_mutex_unlock(&session->news);
    question.keep_ms = keep_ms;
    question.cursors = pointers;
    question.n_cursors = n;
    shoal_status status =
        cursors && pointers ? worker_send(session->worker, SHOAL__KIND__EVENTS_ASK, &question.base)
                            : base_fail(SHOAL_NO_MEMORY, "no memory to ask for events");
    free(cursors);
    free(pointers);
    return status;
}

typedef void (*event_each)(void *context, const shoal_event_source *source,
                           const shoal_event *events, size_t n_events);

static bool in_range(int64_t clock) {
    return clock >= -BASE_CLOCK_MOST && clock <= BASE_CLOCK_MOST;
}

/* What a member says that makes no sense is its own loss: the others' events are told. */
static shoal_status read_answer(const Shoal__Events *answer, shoal_event **events, size_t *n) {
    shoal_status status = SHOAL_OK;
    if (!in_range(answer->now) || !in_range(answer->offset))
        status = base_fail(SHOAL_FORMAT, "the clock is out of range");
    if (status == SHOAL_OK)
        status = wire_events_unpack(answer->list.data, answer->list.len, events, n);
    if (status != SHOAL_OK && status != SHOAL_NO_MEMORY)
        base_log(BASE_WARN, "client", "what %s (member %u) tells of events is left out: %s",
                 answer->name, answer->peer, shoal_error_message());
    return status;
}

/* Tells of one source, and forgets its answer. */
static shoal_status tell(api_source *source, event_each each, void *context) {
    Shoal__Events *answer = source->answer;
    shoal_event_source out = {.peer = source->peer, .name = "?"};
    shoal_event *events = NULL;
    size_t n = 0;
    shoal_status status = SHOAL_OK;
    source->answer = NULL;
    if (answer) {
        status = read_answer(answer, &events, &n);
        char *name = strdup(answer->name);
        if (name) {
            free(source->name);
            source->name = name;
        }
    }
    if (answer && status == SHOAL_OK) {
        source->next = answer->next;
        out.answered = true;
        out.now = answer->now;
        out.offset = answer->offset;
        out.doubt = answer->doubt;
        out.lost = answer->lost;
    }
    if (source->name) out.name = source->name;
    if (status != SHOAL_NO_MEMORY) {
        status = SHOAL_OK;
        each(context, &out, events, n);
    }
    free(events);
    if (answer) wire_unpacked_free(&answer->base);
    return status;
}

static shoal_status listen(shoal_session *session, uint32_t keep_ms, event_each each,
                           void *context) {
    struct timespec next = base_timespec(session->events_asked + BASE_EVENTS_PAUSE);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    session->events_asked = base_now();
    SHOAL_TRY(ask(session, keep_ms));
    int64_t deadline = base_now() + ANSWER_MS * BASE_MS;
    shoal_status status = wire_wait(worker_wire(session->worker), all_told, session, deadline);
    pthread_mutex_lock(&session->news);
    session->events_token = 0; /* what comes now is not taken any more */
    bool told = session->hub_told;
    size_t n = session->sources.count;
    pthread_mutex_unlock(&session->news);
    if (!told && status == SHOAL_OK) status = worker_state(session->worker);
    if (!told) return base_fail_prefix(status, "asking for events: ");
    status = SHOAL_OK;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        api_source *source = session->sources.data[i];
        if (!source->asked && !source->answer && source->peer) { /* it has left */
            free_source(source);
            continue;
        }
        session->sources.data[kept++] = source;
        if (!source->asked && !source->answer) continue;
        shoal_status one = tell(source, each, context);
        if (status == SHOAL_OK) status = one;
    }
    session->sources.count = kept;
    return status;
}

shoal_status shoal_events(shoal_session *session, uint32_t keep_ms, event_each each,
                          void *context) {
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    SHOAL_TRY(api_wait_begin(session, status));
    pthread_mutex_lock(&session->listening);
    status = listen(session, keep_ms, each, context);
    pthread_mutex_unlock(&session->listening);
    api_wait_end(session);
    return status;
}

void api_events_forget(shoal_session *session) {
    for (size_t i = 0; i < session->sources.count; i++) free_source(session->sources.data[i]);
    session->sources.count = 0;
}
