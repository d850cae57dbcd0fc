/* Sessions: a client's worker, the way to its hub, and what the hub has told. */
#include "api/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *shoal_version(void) { return SHOAL_PACKAGE_VERSION; }

shoal_status api_wait(const shoal_session *session, bool (*done)(void *context), void *context) {
    wire_peer *wire = worker_wire(session->worker);
    int64_t deadline = base_now() + (int64_t)session->options.timeout_ms * BASE_MS;
    for (;;) {
        int64_t slice = base_now() + 100 * BASE_MS;
        shoal_status status = wire_wait(wire, done, context, slice < deadline ? slice : deadline);
        if (status != SHOAL_TIMEOUT || base_now() >= deadline) return status;
        if (session->closed) return base_fail(SHOAL_CLOSED, "the session is closed");
        if (session->options.interrupted && session->options.interrupted(session->options.context))
            return base_fail(SHOAL_INTERRUPTED, "the wait was interrupted");
        worker_streams_widen(session->worker);
    }
}

shoal_status api_wait_begin(shoal_session *session, shoal_status status) {
    if (status == SHOAL_OK) session->waits++;
    pthread_mutex_unlock(&session->lock);
    return status;
}

void api_wait_end(shoal_session *session) {
    pthread_mutex_lock(&session->lock);
    api_wait_over(session);
    pthread_mutex_unlock(&session->lock);
}

void api_wait_over(shoal_session *session) {
    if (--session->waits == 0) pthread_cond_broadcast(&session->calm);
}

/* ---- what the hub tells ---- */

shoal_status api_status_of(const Shoal__Error *error) {
    bool known = error->status != SHOAL_OK && error->status < SHOAL_STATUS_COUNT;
    return known ? (shoal_status)error->status : SHOAL_INTERNAL;
}

static void note_failure(shoal_session *session, uint64_t value, const Shoal__Error *error) {
    shoal_status why = api_status_of(error);
    if (!session->first_failure.message)
        session->first_failure = (api_failure){why, strdup(error->message)};
    /* Only a reader asks; other values of a failed program are known to the hub as such. */
    if (worker_expected_done(session->worker, value) || base_map_get(&session->failures, value))
        return;
    api_failure *failure = calloc(1, sizeof *failure);
    if (failure && base_map_set(&session->failures, value, failure) == SHOAL_OK)
        *failure = (api_failure){why, strdup(error->message)};
    else
        free(failure);
}

void api_failure_forget(shoal_session *session, uint64_t value) {
    pthread_mutex_lock(&session->news);
    api_failure *failure = base_map_remove(&session->failures, value);
    pthread_mutex_unlock(&session->news);
    if (failure) free(failure->message);
    free(failure);
}

void api_recorded_forget(shoal_session *session) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&session->recorded, &at, &key, &item)) api_recorded_release(item);
    base_map_fini(&session->recorded);
}

static const shoal_graph *find_recorded(void *context, uint64_t stamp) {
    const shoal_session *session = context;
    const api_recorded *recorded = base_map_get(&session->recorded, stamp);
    return recorded ? graph_data(recorded->graph) : NULL;
}

/* Under news. With the user's lines in the place of numbers of nodes. */
static void take_failure(shoal_session *session, const Shoal__Outcome *outcome) {
    base_str text = {0};
    Shoal__Error error = *outcome->error;
    if (graph_put_lines(error.message, find_recorded, session, &text) == SHOAL_OK)
        error.message = text.data;
    for (size_t i = 0; i < outcome->n_outputs; i++) {
        note_failure(session, outcome->outputs[i], &error);
        worker_stream_fail(session->worker, outcome->outputs[i], api_status_of(&error),
                           error.message);
    }
    base_str_fini(&text);
}

/* Under news. */
static void take_outcome(shoal_session *session, const Shoal__Outcome *outcome) {
    if (session->outstanding && !outcome->more) session->outstanding--;
    if (outcome->error)
        take_failure(session, outcome);
    else if (outcome->n_outputs)
        api_recorded_release(base_map_remove(&session->recorded, outcome->outputs[0]));
    api_times *times = &session->times[session->n_times++ % API_TIMES];
    *times = (api_times){.program = outcome->program};
    for (size_t i = 0; i < outcome->n_slots && times->n < 64; i++)
        times->slots[times->n++] = (shoal_slot_time){.slot = outcome->slots[i]->slot,
                                                     .busy_ns = outcome->slots[i]->nanoseconds,
                                                     .nodes = outcome->slots[i]->nodes};
    for (size_t i = 0; i < outcome->n_traffic && times->n_links < 64; i++)
        times->links[times->n_links++] = (shoal_link_time){.from = outcome->traffic[i]->from,
                                                           .to = outcome->traffic[i]->to,
                                                           .bytes = outcome->traffic[i]->bytes,
                                                           .ns = outcome->traffic[i]->nanoseconds};
}

static void on_finished(shoal_session *session, const Shoal__Finished *finished) {
    pthread_mutex_lock(&session->news);
    for (size_t i = 0; i < finished->n_outcomes; i++) take_outcome(session, finished->outcomes[i]);
    pthread_mutex_unlock(&session->news);
}

static shoal_status on_message(void *context, Shoal__Kind kind, const void *body, size_t bytes) {
    shoal_session *session = context;
    const ProtobufCMessageDescriptor *type =
        kind == SHOAL__KIND__FINISHED    ? &shoal__finished__descriptor
        : kind == SHOAL__KIND__STATUS    ? &shoal__status__descriptor
        : kind == SHOAL__KIND__EXPLAINED ? &shoal__explained__descriptor
        : kind == SHOAL__KIND__EVENTS    ? &shoal__events__descriptor
                                         : NULL;
    if (!type) return base_fail(SHOAL_UNSUPPORTED, "a message of kind %d is not for us", (int)kind);
    ProtobufCMessage *message;
    SHOAL_TRY(wire_unpack(type, body, bytes, &message));
    if (kind == SHOAL__KIND__FINISHED) {
        on_finished(session, (const Shoal__Finished *)message);
        wire_unpacked_free(message);
        return SHOAL_OK;
    }
    if (kind == SHOAL__KIND__EVENTS) {
        api_events_take(session, (Shoal__Events *)message);
        return SHOAL_OK;
    }
    uint64_t token = kind == SHOAL__KIND__STATUS ? ((const Shoal__Status *)message)->token
                                                 : ((const Shoal__Explained *)message)->token;
    pthread_mutex_lock(&session->news);
    for (size_t i = 0; i < session->questions.count && message; i++) {
        api_question *question = session->questions.data[i];
        if (question->token != token || question->kind != kind || question->answer) continue;
        question->answer = message;
        message = NULL;
    }
    pthread_mutex_unlock(&session->news);
    wire_unpacked_free(message); /* its asker gave up */
    return SHOAL_OK;
}

static bool answered(void *context) {
    api_question *question = context;
    shoal_session *session = question->session;
    pthread_mutex_lock(&session->news);
    bool there = question->answer;
    pthread_mutex_unlock(&session->news);
    return there || worker_state(session->worker) != SHOAL_OK;
}

static shoal_status question_begin(api_question *question, uint64_t *token) {
    shoal_session *session = question->session;
    pthread_mutex_lock(&session->news);
    *token = question->token = ++session->next_token;
    bool listed = base_vec_push(&session->questions, question);
    pthread_mutex_unlock(&session->news);
    return listed ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static void question_end(api_question *question) {
    shoal_session *session = question->session;
    pthread_mutex_lock(&session->news);
    for (size_t i = 0; i < session->questions.count; i++)
        if (session->questions.data[i] == question)
            session->questions.data[i] = session->questions.data[--session->questions.count];
    pthread_mutex_unlock(&session->news);
}

shoal_status api_ask(shoal_session *session, Shoal__Kind kind, ProtobufCMessage *message,
                     uint64_t *token, ProtobufCMessage **answer) {
    api_question question = {.session = session,
                             .kind = kind == SHOAL__KIND__STATUS_ASK ? SHOAL__KIND__STATUS
                                                                     : SHOAL__KIND__EXPLAINED};
    *answer = NULL;
    SHOAL_TRY(worker_state(session->worker));
    SHOAL_TRY(question_begin(&question, token));
    shoal_status status = worker_send(session->worker, kind, message);
    if (status == SHOAL_OK) {
        session->waits++;
        pthread_mutex_unlock(&session->lock);
        status = api_wait(session, answered, &question);
        if (status == SHOAL_OK && !question.answer) status = worker_state(session->worker);
        pthread_mutex_lock(&session->lock);
        api_wait_over(session);
    }
    question_end(&question);
    /* An interruption stands, even if the answer has come since: its asker has acted on it. */
    if (question.answer && status == SHOAL_INTERRUPTED) {
        wire_unpacked_free(question.answer);
        question.answer = NULL;
    }
    *answer = question.answer;
    return *answer ? SHOAL_OK : base_fail_prefix(status, "asking the hub: ");
}

/* ---- opening ---- */

enum { DEFAULT_TIMEOUT_MS = 600000, CONNECT_MS = 5000, MAX_WORKERS = 64 };

/* The options that are given, over the defaults. */
static shoal_status settle_options(const shoal_options *given, shoal_options *out) {
    *out = (shoal_options){.size = sizeof *out};
    if (given) {
        if (given->size == 0 || given->size > sizeof *out)
            return base_fail(SHOAL_INVALID,
                             "shoal_options.size is %zu; set it to "
                             "sizeof(shoal_options)",
                             given->size);
        memcpy(out, given, given->size);
    }
    if (!out->hub) out->hub = getenv("SHOAL_HUB");
    if (!out->hub || !*out->hub) out->hub = "embedded";
    if (!out->timeout_ms) out->timeout_ms = DEFAULT_TIMEOUT_MS;
    if (!out->backend) out->backend = api_devices_default();
    if (!out->backend) out->backend = "cpu";
    if (out->workers > MAX_WORKERS)
        return base_fail(SHOAL_INVALID, "%u embedded workers; the most is %d", out->workers,
                         MAX_WORKERS);
    return SHOAL_OK;
}

/* The workers of an embedded pool take the devices in turn: more of them than there are devices
 * share these. */
static shoal_status embedded_devices(const shoal_options *options, worker_device *out,
                                     uint32_t *count) {
    api_devices found;
    SHOAL_TRY(api_devices_find(options->backend, &found));
    uint32_t n = *count = options->workers ? options->workers : found.n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i % found.n, sharing = n / found.n + (at < n % found.n), turn = i / found.n;
        out[i] = found.list[at];
        shoal_device_info info;
        SHOAL_TRY(out[i].backend->device_info(backend_host(), out[i].index, &info));
        uint32_t threads = options->threads ? options->threads : info.threads;
        uint32_t part = threads / sharing + (turn < threads % sharing);
        out[i].threads = part ? part : 1;
        out[i].share = sharing;
    }
    return SHOAL_OK;
}

shoal_status api_worker_new(shoal_session *session, bool embedded, worker **out) {
    const shoal_options *options = &session->options;
    worker_device devices[MAX_WORKERS] = {{0}};
    worker_options w = {.role = SHOAL__ROLE__CLIENT, .devices = devices, .spare = options->spare};
    char name[64];
    base_os_process_name(name, sizeof name);
    w.name = options->name ? options->name : name;
    if (embedded) {
        SHOAL_TRY(embedded_devices(options, devices, &w.n_devices));
    }
    SHOAL_TRY(worker_new(&w, out));
    worker_client client = {.context = session, .message = on_message, .tick = api_idle};
    worker_set_client(*out, &client);
    return SHOAL_OK;
}

shoal_status api_join(shoal_session *session, worker **out) {
    const shoal_options *options = &session->options;
    bool embedded = !strcmp(options->hub, "embedded");
    SHOAL_TRY(api_worker_new(session, embedded, out));
    wire_peer *wire = worker_wire(*out);
    if (embedded) {
        SHOAL_TRY(hub_new(wire, &session->hub));
        SHOAL_TRY(hub_set_panels(session->hub, options->panels));
    } else {
        /* Workers send results straight here. */
        char address[64];
        snprintf(address, sizeof address, "shm:client-%ld-%llx", (long)getpid(),
                 (unsigned long long)wire_incarnation(wire));
        SHOAL_TRY(wire_listen(wire, address));
        SHOAL_TRY(wire_listen_for(wire, options->hub, getenv("SHOAL_LISTEN")));
    }
    SHOAL_TRY(wire_start(wire));
    return worker_join(*out, embedded ? "inproc" : options->hub,
                       options->timeout_ms < CONNECT_MS ? options->timeout_ms : CONNECT_MS);
}

void api_number_from(shoal_session *session) {
    session->next_value = session->next_program = (uint64_t)worker_session(session->worker) << 40;
    session->next_value++; /* 0 is no value */
}

/* The session's own copies of texts of the options. */
static shoal_status keep_options(shoal_session *session, const shoal_options *options) {
    session->options = *options;
    session->options.hub = strdup(options->hub);
    session->options.backend = strdup(options->backend);
    session->options.name = options->name ? strdup(options->name) : NULL;
    if (session->options.hub && session->options.backend &&
        !session->options.name == !options->name)
        return SHOAL_OK;
    return base_fail(SHOAL_NO_MEMORY, "no memory for a session");
}

/* ---- forks ---- */

static atomic_uint life; /* forks that have led to this process */
static pthread_once_t noted = PTHREAD_ONCE_INIT;
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static shoal_session *newest; /* of those that there are */

static void init_locks(shoal_session *session) {
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->news, NULL);
    pthread_mutex_init(&session->listening, NULL);
}

static void hold_list(void) { pthread_mutex_lock(&listing); }
static void release_list(void) { pthread_mutex_unlock(&listing); }

/* Whoever held a lock is not here, and would hold it for ever: calls are told where they are. */
static void begin_life(void) {
    atomic_fetch_add(&life, 1);
    for (shoal_session *s = newest; s; s = s->older) init_locks(s);
    release_list();
}

static void note_forks(void) { (void)pthread_atfork(hold_list, release_list, begin_life); }

static void list(shoal_session *session) {
    hold_list();
    session->older = newest;
    if (newest) newest->newer = session;
    newest = session;
    release_list();
}

static void unlist(shoal_session *session) {
    hold_list();
    if (session->older) session->older->newer = session->newer;
    if (session->newer)
        session->newer->older = session->older;
    else
        newest = session->older;
    release_list();
}

bool api_is_here(const shoal_session *session) { return session->life == atomic_load(&life); }

shoal_status api_session_new(const shoal_options *given, shoal_session **out) {
    shoal_options options;
    SHOAL_TRY(settle_options(given, &options));
    shoal_session *session = calloc(1, sizeof *session);
    if (!session) return base_fail(SHOAL_NO_MEMORY, "no memory for a session");
    pthread_once(&noted, note_forks);
    session->life = atomic_load(&life);
    init_locks(session);
    list(session);
    atomic_init(&session->refs, 1);
    base_condition_init(&session->calm);
    shoal_status status = keep_options(session, &options);
    if (status == SHOAL_OK)
        *out = session;
    else
        shoal_session_close(&session);
    return status;
}

shoal_status shoal_session_open(const shoal_options *given, shoal_session **out) {
    *out = NULL;
    const char *signals = getenv("SHOAL_CONFIG");
    if (signals && *signals) SHOAL_TRY(shoal_signals_load(signals));
    shoal_session *session = NULL;
    SHOAL_TRY(api_session_new(given, &session));
    shoal_status status = api_join(session, &session->worker);
    if (status == SHOAL_OK) {
        api_number_from(session);
        *out = session;
    } else {
        shoal_session_close(&session);
    }
    return status;
}

void shoal_session_close(shoal_session **out) {
    shoal_session *session = *out;
    *out = NULL;
    if (!session || !api_is_here(session)) return;
    pthread_mutex_lock(&session->lock);
    session->closed = true;
    api_readings_give_up(session, SHOAL_CLOSED);
    while (session->waits) pthread_cond_wait(&session->calm, &session->lock);
    api_rejoin_end(session);
    /* Handlers of this session use the worker until it is gone. */
    worker *ending = session->worker;
    worker_destroy(&ending);
    session->worker = NULL;
    hub_destroy(&session->hub);
    graph_destroy(&session->trace);
    /* What the tape holds would hold the session. */
    for (api_origin *origin = session->origins; origin; origin = origin->next)
        api_origin_spend(origin);
    pthread_mutex_unlock(&session->lock);
    api_session_release(session);
    api_spares_clear();
}

void api_session_release(shoal_session *session) {
    if (atomic_fetch_sub(&session->refs, 1) != 1) return;
    unlist(session);
    session->pending.count = 0;
    api_drain(session);
    api_forget(session);
    free(session->input_values.data);
    free(session->stored.data);
    free(session->pending.data);
    free(session->released.data);
    free(session->uploads);
    free(session->programs.data);
    free(session->workers.data);
    free(session->questions.data);
    free((char *)session->options.hub);
    free((char *)session->options.backend);
    free((char *)session->options.name);
    free(session->failed);
    free(session->ended);
    pthread_cond_destroy(&session->calm);
    free(session->sources.data);
    pthread_mutex_destroy(&session->listening);
    pthread_mutex_destroy(&session->lock);
    pthread_mutex_destroy(&session->news);
    free(session);
}

/* ---- status ---- */

static void copy_text(char *to, size_t room, const char *from) {
    snprintf(to, room, "%s", from ? from : "");
}

static void slot_out(const Shoal__SlotStatus *from, shoal_slot *to) {
    *to = (shoal_slot){.slot = from->slot,
                       .pid = from->pid,
                       .maps = from->maps,
                       .machine = from->machine,
                       .weighted = from->weighted,
                       .compute = from->compute,
                       .bytes = from->bytes,
                       .instances = from->instances,
                       .busy_ns = from->busy_ns,
                       .nodes = from->nodes,
                       .sent = from->sent,
                       .received = from->received,
                       .queued = from->queued,
                       .relayed = from->relayed,
                       .paths = from->paths,
                       .paths_lost = from->paths_lost,
                       .fetching = from->fetching,
                       .fetched = from->fetched};
    copy_text(to->worker, sizeof to->worker, from->peer_name);
    copy_text(to->host, sizeof to->host, from->host);
    if (!from->device) return;
    copy_text(to->backend, sizeof to->backend, from->device->backend);
    copy_text(to->name, sizeof to->name, from->device->id);
    copy_text(to->device, sizeof to->device, from->device->name);
    to->threads = from->device->threads;
    to->weight = from->device->weight;
    to->memory = from->device->memory;
}

void shoal_session_counts(shoal_session *session, shoal_counts *out) {
    pthread_mutex_lock(&session->lock);
    shoal_counts counts = {.size = sizeof counts,
                           .programs = session->clock,
                           .fresh = session->next_program & ((UINT64_C(1) << 40) - 1)};
    pthread_mutex_unlock(&session->lock);
    memcpy(out, &counts, out->size < sizeof counts ? out->size : sizeof counts);
}

shoal_status shoal_status_of(shoal_session *session, shoal_pool_status *out, shoal_slot *slots,
                             uint32_t room) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ProtobufCMessage *answer;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK)
        status = api_ask(session, SHOAL__KIND__STATUS_ASK, &ask.base, &ask.token, &answer);
    pthread_mutex_unlock(&session->lock);
    if (status != SHOAL_OK) return status;
    const Shoal__Status *s = (const Shoal__Status *)answer;
    shoal_pool_status pool = {.size = sizeof pool,
                              .epoch = s->epoch,
                              .instances = s->instances,
                              .uptime_ms = s->uptime_ms,
                              .values = s->values,
                              .bytes = s->bytes,
                              .sessions = s->sessions,
                              .losses = s->losses,
                              .reruns = s->reruns,
                              .n_slots = (uint32_t)s->n_slots,
                              .unix_ms = s->unix_ms,
                              .pool = s->pool};
    copy_text(pool.version, sizeof pool.version, s->version);
    copy_text(pool.address, sizeof pool.address, *s->address ? s->address : "embedded");
    memcpy(out, &pool, out->size < sizeof pool ? out->size : sizeof pool);
    for (size_t i = 0; i < s->n_slots && i < room; i++) slot_out(s->slots[i], &slots[i]);
    wire_unpacked_free(answer);
    return SHOAL_OK;
}

static void path_out(const Shoal__News *of, const Shoal__Path *from, shoal_path *to) {
    *to = (shoal_path){.speed = from->speed, .sent = from->sent, .saved = from->saved};
    copy_text(to->worker, sizeof to->worker, of->name);
    copy_text(to->other, sizeof to->other, from->name);
    copy_text(to->address, sizeof to->address, from->address);
}

shoal_status shoal_paths_of(shoal_session *session, shoal_path *paths, uint32_t room, uint32_t *n) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ProtobufCMessage *answer;
    ask.paths = true;
    *n = 0;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK)
        status = api_ask(session, SHOAL__KIND__STATUS_ASK, &ask.base, &ask.token, &answer);
    pthread_mutex_unlock(&session->lock);
    if (status != SHOAL_OK) return status;
    const Shoal__Status *s = (const Shoal__Status *)answer;
    for (size_t i = 0; i < s->n_news; i++)
        for (size_t k = 0; k < s->news[i]->n_paths; k++, ++*n)
            if (*n < room) path_out(s->news[i], s->news[i]->paths[k], &paths[*n]);
    wire_unpacked_free(answer);
    return SHOAL_OK;
}
