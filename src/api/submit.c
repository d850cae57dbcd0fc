/* From the trace to the hub: what is recorded becomes a program, or one that the hub has already.
 */
#include "api/state.h"

#include "backend/ref/ref.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- programs ---- */

/* ---- what was recorded ---- */

shoal_status api_recorded_new(api_stored *const *stored, size_t n, graph **g, api_recorded **out) {
    *out = calloc(1, sizeof **out);
    if (*out && n) (*out)->stored = calloc(n, sizeof *(*out)->stored);
    if (!*out || (n && !(*out)->stored)) {
        free(*out);
        *out = NULL;
        return base_fail(SHOAL_NO_MEMORY, "no memory to submit");
    }
    atomic_init(&(*out)->refs, 1);
    for (size_t i = 0; i < n; i++) (*out)->stored[i] = api_stored_retain(stored[i]);
    (*out)->n_stored = n;
    (*out)->graph = *g;
    *g = NULL;
    return SHOAL_OK;
}

void api_recorded_release(api_recorded *recorded) {
    if (!recorded || atomic_fetch_sub(&recorded->refs, 1) != 1) return;
    graph_destroy(&recorded->graph);
    for (size_t i = 0; i < recorded->n_stored; i++) api_stored_release(recorded->stored[i]);
    free(recorded->stored);
    free(recorded);
}

void api_submission_fini(api_submission *s) {
    base_str_fini(&s->simplified);
    free(s->inputs);
    free(s->outputs);
    free(s->uploads);
    free(s->upload_pointers);
}

static shoal_status list_uploads(shoal_session *session, api_submission *s) {
    s->uploads = calloc(session->n_uploads + 1, sizeof *s->uploads);
    s->upload_pointers = calloc(session->n_uploads + 1, sizeof *s->upload_pointers);
    if (!s->uploads || !s->upload_pointers)
        return base_fail(SHOAL_NO_MEMORY, "no memory to submit");
    for (size_t i = 0; i < session->n_uploads; i++) {
        shoal__upload__init(&s->uploads[i]);
        s->upload_pointers[i] = &s->uploads[i];
        s->uploads[i].value = session->uploads[i].value;
        s->uploads[i].dtype = session->uploads[i].type.dtype;
        s->uploads[i].n_dims = session->uploads[i].type.rank;
        s->uploads[i].dims = session->uploads[i].type.dims;
        size_t bytes = (size_t)base_type_bytes(&session->uploads[i].type);
        if (bytes <= WIRE_SMALL)
            s->uploads[i].data = (ProtobufCBinaryData){bytes, (void *)session->uploads[i].data};
    }
    s->message.uploads = s->upload_pointers;
    s->message.n_uploads = session->n_uploads;
    return SHOAL_OK;
}

/* The graph as the hub gets it: simplified. That is done for new programs only; those that repeat
 * are known by what was recorded. */
static shoal_status simplify(const shoal_graph *recorded, base_str *out) {
    graph *g;
    SHOAL_TRY(graph_new(0, &g));
    shoal_status status = graph_rewrite(recorded, ref_evaluate, NULL, g);
    if (status == SHOAL_OK) status = graph_encode(graph_data(g), true, out);
    graph_destroy(&g);
    return status;
}

/* Finds the program among those the hub knows; NULL: it is new. */
static api_program *find_program(shoal_session *session, const base_str *key, uint64_t hash) {
    for (size_t i = 0; i < session->programs.count; i++) {
        api_program *program = &session->programs.data[i];
        if (program->hash == hash && program->key.size == key->size &&
            !memcmp(program->key.data, key->data, key->size))
            return program;
    }
    return NULL;
}

/* A program that is new: its number, its graph for the message, and all that is needed to note it
 * once the hub has been told. */
static shoal_status new_program(shoal_session *session, const shoal_graph *recorded,
                                const base_str *key, api_submission *s, api_program *out) {
    *out = (api_program){.id = session->next_program, .hash = base_hash(key->data, key->size)};
    if (!base_vec_reserve(&session->programs)) return SHOAL_NO_MEMORY;
    graph *numbered;
    SHOAL_TRY(graph_new(0, &numbered));
    shoal_status status = graph_number_lines(recorded, numbered);
    if (status == SHOAL_OK) status = simplify(graph_data(numbered), &s->simplified);
    graph_destroy(&numbered);
    SHOAL_TRY(status);
    s->message.graph = (ProtobufCBinaryData){s->simplified.size, (uint8_t *)s->simplified.data};
    base_str_bytes(&out->key, key->data, key->size);
    return base_str_status(&out->key);
}

/* The hub knows the program now; it forgets the one that was not used for longest. */
static void note_program(shoal_session *session, const api_program *program) {
    size_t oldest = 0;
    session->next_program++;
    if (session->programs.count < API_PROGRAMS) {
        session->programs.data[session->programs.count++] = *program;
        return;
    }
    for (size_t i = 1; i < session->programs.count; i++)
        if (session->programs.data[i].used < session->programs.data[oldest].used) oldest = i;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.n_programs = 1;
    release.programs = &session->programs.data[oldest].id;
    if (worker_send(session->worker, SHOAL__KIND__RELEASE, &release.base) != SHOAL_OK)
        base_log(BASE_DEBUG, "client", "%s", shoal_error_message());
    base_str_fini(&session->programs.data[oldest].key);
    session->programs.data[oldest] = *program;
}

/* ---- what was given back ---- */

/* Marks what live handles to the trace depend on; NULL: nothing is recorded. */
static shoal_status mark_live(const shoal_session *session, bool **needed) {
    *needed = NULL;
    if (!session->trace) return SHOAL_OK;
    const shoal_graph *trace = graph_data(session->trace);
    *needed = calloc(trace->n_values + (size_t)1, sizeof **needed);
    if (!*needed) return base_fail(SHOAL_NO_MEMORY, "no memory to let go of values");
    for (size_t i = 0; i < session->pending.count; i++)
        if (session->pending.data[i]) (*needed)[session->pending.data[i]->traced] = true;
    graph_mark_needed(trace, *needed);
    return SHOAL_OK;
}

/* Whether what live handles depend on, as marked, has the value as an input. */
static bool is_read(const shoal_session *session, uint64_t value, const bool *needed) {
    uintptr_t input = (uintptr_t)base_map_get(&session->inputs, value);
    return input && needed[input - 1];
}

static int by_value(const void *key, const void *upload) {
    uint64_t value = *(const uint64_t *)key, other = ((const struct api_upload *)upload)->value;
    return (value > other) - (value < other);
}

/* NULL: the hub has heard of it. Uploads are listed as they are numbered. */
static struct api_upload *find_upload(const shoal_session *session, uint64_t value) {
    if (!session->n_uploads) return NULL;
    return bsearch(&value, session->uploads, session->n_uploads, sizeof *session->uploads,
                   by_value);
}

/* Uploads that were given back before a program has used them, and that nothing recorded reads, are
 * gone at once: the hub need never hear of them, and their memory would wait for a program that may
 * not come. */
static shoal_status withdraw(shoal_session *session) {
    size_t kept = 0, left = 0;
    bool *needed;
    if (!session->n_uploads || !session->released.count) return SHOAL_OK;
    SHOAL_TRY(mark_live(session, &needed));
    for (size_t i = 0; i < session->released.count; i++) {
        uint64_t value = session->released.data[i];
        struct api_upload *upload = find_upload(session, value);
        if (upload && !is_read(session, value, needed))
            upload->withdrawn = true;
        else
            session->released.data[kept++] = value;
    }
    free(needed);
    if (kept == session->released.count) return SHOAL_OK;
    session->released.count = kept;
    for (size_t i = 0; i < session->n_uploads; i++) {
        if (session->uploads[i].withdrawn)
            worker_withdraw(session->worker, session->uploads[i].value);
        else
            session->uploads[left++] = session->uploads[i];
    }
    session->n_uploads = left;
    return SHOAL_OK;
}

/* What was given back usually goes with the next program. Now it goes alone, as far as it can. */
static shoal_status send_released(shoal_session *session) {
    uint64_t *values = session->released.data;
    size_t n = 0;
    bool *needed;
    SHOAL_TRY(withdraw(session));
    if (!session->released.count) return SHOAL_OK;
    SHOAL_TRY(mark_live(session, &needed));
    for (size_t i = 0; i < session->released.count; i++) {
        uint64_t value = values[i];
        if (find_upload(session, value) || is_read(session, value, needed)) continue;
        values[i] = values[n];
        values[n++] = value;
    }
    free(needed);
    if (!n) return SHOAL_OK;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.values = values;
    release.n_values = n;
    SHOAL_TRY(worker_send(session->worker, SHOAL__KIND__RELEASE, &release.base));
    session->released.count -= n;
    memmove(values, values + n, session->released.count * sizeof *values);
    return SHOAL_OK;
}

/* ---- room ---- */

static uint32_t outstanding(shoal_session *session) {
    pthread_mutex_lock(&session->news);
    uint32_t n = session->outstanding;
    pthread_mutex_unlock(&session->news);
    return n;
}

static bool half_through(void *context) {
    shoal_session *session = context;
    return outstanding(session) <= API_OUTSTANDING / 2 || worker_state(session->worker) != SHOAL_OK;
}

/* Waits without the lock, as long as any come through. The last that they wait for may be that the
 * hub hears what was given back: now, and, by api_idle, what is given back meanwhile. */
shoal_status api_room(shoal_session *session) {
    shoal_status status = worker_state(session->worker);
    uint32_t n = outstanding(session), before;
    if (status != SHOAL_OK || n < API_OUTSTANDING) return status;
    api_drain(session);
    SHOAL_TRY(send_released(session));
    session->waits++;
    pthread_mutex_unlock(&session->lock);
    do {
        before = n;
        status = api_wait(session, half_through, session);
        n = outstanding(session);
    } while (status == SHOAL_TIMEOUT && n < before);
    if (status == SHOAL_OK) status = worker_state(session->worker);
    pthread_mutex_lock(&session->lock);
    api_wait_over(session);
    return status == SHOAL_OK ? api_check(session) : status;
}

static void note_submit(shoal_session *session, const shoal_graph *recorded,
                        const api_submission *s) {
    base_events *events = worker_events(session->worker);
    if (!base_events_on(events)) return;
    shoal_event event = {.kind = SHOAL_EVENT_SUBMIT,
                         .instance = s->message.program & 0xFFFFFFFFFF,
                         .bytes = s->message.graph.len,
                         .slot = worker_home(session->worker),
                         .peer = SHOAL_NO_SLOT};
    worker_label(recorded, 0, recorded->n_nodes, &event);
    base_events_put(events, &event);
}

/* Until the program is through, or for a while when it fails, messages may have to name a line.
 * `news` held. */
static void keep_recorded(shoal_session *session, api_recorded *recorded, const api_submission *s) {
    if (!s->message.n_outputs) return;
    uint64_t *place = &session->recent[session->n_recent++ % API_RECENT];
    if (*place) api_recorded_release(base_map_remove(&session->recorded, *place));
    *place = s->message.outputs[0];
    if (base_map_set(&session->recorded, s->message.outputs[0], recorded) == SHOAL_OK)
        atomic_fetch_add(&recorded->refs, 1);
}

static shoal_status send(shoal_session *session, api_recorded *recorded, api_submission *s) {
    pthread_mutex_lock(&session->news);
    session->outstanding++;
    keep_recorded(session, recorded, s);
    pthread_mutex_unlock(&session->news);
    note_submit(session, graph_data(recorded->graph), s);
    shoal_status status = worker_send(session->worker, SHOAL__KIND__SUBMIT, &s->message.base);
    if (status == SHOAL_OK) return SHOAL_OK;
    pthread_mutex_lock(&session->news);
    session->outstanding--;
    if (s->message.n_outputs)
        api_recorded_release(base_map_remove(&session->recorded, s->message.outputs[0]));
    pthread_mutex_unlock(&session->news);
    return status;
}

/* What the hub knows is noted once it has been told, and not before. */
shoal_status api_submission_send(shoal_session *session, api_recorded *recorded,
                                 const base_str *key, api_submission *s) {
    api_program fresh = {0};
    api_program *known = find_program(session, key, base_hash(key->data, key->size));
    shoal_status status = SHOAL_OK;
    if (!known) status = new_program(session, graph_data(recorded->graph), key, s, &fresh);
    if (status == SHOAL_OK) status = list_uploads(session, s);
    s->message.program = known ? known->id : fresh.id;
    s->message.release = session->released.data;
    s->message.n_release = session->released.count;
    if (status == SHOAL_OK) status = send(session, recorded, s);
    if (status != SHOAL_OK) {
        base_str_fini(&fresh.key);
        return status;
    }
    session->released.count = 0;
    session->n_uploads = 0;
    (known ? known : &fresh)->used = ++session->clock;
    if (!known) note_program(session, &fresh);
    return SHOAL_OK;
}

/* ---- the trace ---- */

/* The part of the trace that live handles, and the value that is to come home, depend on. */
typedef struct cut {
    graph *graph;
    api_recorded *recorded; /* which has the graph, once it is to be sent */
    base_str key;
    shoal_tensor **handles; /* per output that a handle is for */
    size_t n_handles;
    uint32_t home[1]; /* the output that comes home */
} cut;

static void cut_fini(cut *c) {
    graph_destroy(&c->graph);
    api_recorded_release(c->recorded);
    base_str_fini(&c->key);
    free(c->handles);
}

/* What nobody holds any more is left out, with all that it alone reads: of that the program has to
 * await nothing. */
static shoal_status extract(const shoal_session *session, const uint32_t *values, uint32_t n,
                            cut *c, api_submission *s) {
    const shoal_graph *trace = graph_data(session->trace);
    uint32_t *used = calloc(trace->n_inputs + (size_t)1, sizeof *used);
    s->inputs = calloc(trace->n_inputs + (size_t)1, sizeof *s->inputs);
    shoal_status status = used && s->inputs ? graph_new(0, &c->graph)
                                            : base_fail(SHOAL_NO_MEMORY, "no memory to submit");
    if (status == SHOAL_OK) status = graph_extract_used(trace, values, n, c->graph, used);
    if (status == SHOAL_OK) s->message.n_inputs = graph_data(c->graph)->n_inputs;
    for (size_t i = 0; i < s->message.n_inputs; i++)
        s->inputs[i] = session->input_values.data[used[i]];
    s->message.inputs = s->inputs;
    free(used);
    return status;
}

static shoal_status cut_trace(shoal_session *session, shoal_tensor *home, cut *c,
                              api_submission *s) {
    uint32_t home_value = 0;
    if (home) SHOAL_TRY(api_trace_value(home, &home_value));
    size_t most = session->pending.count + 1;
    uint32_t *values = calloc(most, sizeof *values);
    s->outputs = calloc(most, sizeof *s->outputs);
    c->handles = calloc(most, sizeof *c->handles);
    if (!values || !s->outputs || !c->handles) {
        free(values);
        return base_fail(SHOAL_NO_MEMORY, "no memory to submit");
    }
    for (size_t i = 0; i < session->pending.count; i++) {
        shoal_tensor *tensor = session->pending.data[i];
        /* A handle that only the reader holds is not worth keeping, but its holder may go on; nor
         * is one that gradients only pass through. */
        uint32_t refs = tensor ? (uint32_t)atomic_load(&tensor->refs) : 0;
        if (!refs || (refs == tensor->links && !tensor->saved)) continue;
        values[c->n_handles] = tensor->traced;
        c->handles[c->n_handles] = tensor;
        s->outputs[c->n_handles++] = session->next_value++;
    }
    size_t n = c->n_handles;
    if (home) {
        c->home[0] = (uint32_t)n;
        s->message.home = c->home;
        s->message.n_home = 1;
        values[n] = home_value;
        s->outputs[n++] = session->next_value++;
    }
    s->message.outputs = s->outputs;
    s->message.n_outputs = n;
    shoal_status status = extract(session, values, (uint32_t)n, c, s);
    free(values);
    SHOAL_TRY(status);
    SHOAL_TRY(graph_encode(graph_data(c->graph), false, &c->key));
    base_str_bytes(&c->key, c->home, s->message.n_home * sizeof *c->home);
    return base_str_status(&c->key);
}

static void clear_trace(shoal_session *session) {
    graph_destroy(&session->trace);
    base_map_fini(&session->inputs);
    api_stored_forget(session);
    session->input_values.count = 0;
    session->pending.count = 0;
}

static bool nothing_to_do(const shoal_session *session, const shoal_tensor *home) {
    if (home) return false;
    for (size_t i = 0; i < session->pending.count; i++)
        if (session->pending.data[i]) return false;
    return true;
}

shoal_status api_flush(shoal_session *session, shoal_tensor *home, void *data, size_t bytes,
                       uint64_t *home_value) {
    SHOAL_TRY(api_room(session));
    api_drain(session);
    if (nothing_to_do(session, home)) {
        clear_trace(session);
        return send_released(session);
    }
    api_submission s = {.message = SHOAL__SUBMIT__INIT};
    cut c = {0};
    shoal_status status = cut_trace(session, home, &c, &s);
    bool expects = false;
    if (status == SHOAL_OK && home) {
        *home_value = s.outputs[s.message.n_outputs - 1];
        status = worker_expect(session->worker, *home_value, data, bytes);
        expects = status == SHOAL_OK;
    }
    /* Once it is sent nothing may fail: the reader's memory is written to. */
    if (status == SHOAL_OK && !base_vec_reserve(&session->released)) status = SHOAL_NO_MEMORY;
    if (status == SHOAL_OK)
        status =
            api_recorded_new(session->stored.data, session->stored.count, &c.graph, &c.recorded);
    if (status == SHOAL_OK) status = api_submission_send(session, c.recorded, &c.key, &s);
    if (status != SHOAL_OK && expects)
        status = worker_collect(session->worker, *home_value, status);
    if (status == SHOAL_OK) {
        for (size_t i = 0; i < c.n_handles; i++) {
            c.handles[i]->value = s.outputs[i];
            c.handles[i]->program = s.message.program;
        }
        for (size_t i = 0; i < session->pending.count; i++) {
            shoal_tensor *tensor = session->pending.data[i];
            if (tensor) tensor->gone = tensor->value == API_NO_VALUE;
        }
        /* The copy at home is the reader's; the hub need not keep it. */
        if (home && !base_vec_push(&session->released, *home_value)) status = SHOAL_NO_MEMORY;
        clear_trace(session);
    }
    cut_fini(&c);
    api_submission_fini(&s);
    return status;
}

void api_idle(void *context) {
    shoal_session *session = context;
    if (pthread_mutex_trylock(&session->lock) != 0) return; /* a call is at it */
    if (!atomic_load(&session->closed) && session->worker &&
        worker_state(session->worker) == SHOAL_OK) {
        api_drain(session);
        if (nothing_to_do(session, NULL)) clear_trace(session);
        if (send_released(session) != SHOAL_OK)
            base_log(BASE_DEBUG, "client", "%s", shoal_error_message());
    }
    pthread_mutex_unlock(&session->lock);
}

shoal_status api_flush_explain(shoal_session *session, shoal_tensor *home, bool json, char **out) {
    api_drain(session);
    api_submission s = {.message = SHOAL__SUBMIT__INIT};
    cut c = {0};
    Shoal__ExplainAsk ask = SHOAL__EXPLAIN_ASK__INIT;
    ProtobufCMessage *answer = NULL;
    shoal_status status = cut_trace(session, home, &c, &s);
    if (status == SHOAL_OK) status = simplify(graph_data(c.graph), &s.simplified);
    if (status == SHOAL_OK) status = list_uploads(session, &s);
    if (status == SHOAL_OK) {
        s.message.graph = (ProtobufCBinaryData){s.simplified.size, (uint8_t *)s.simplified.data};
        ask.submit = &s.message;
        status = api_ask(session, SHOAL__KIND__EXPLAIN_ASK, &ask.base, &ask.token, &answer);
    }
    if (status == SHOAL_OK) {
        const Shoal__Explained *explained = (const Shoal__Explained *)answer;
        if (explained->error)
            status = base_fail(api_status_of(explained->error), "%s", explained->error->message);
        else
            *out = strdup(json ? explained->json : explained->text);
        wire_unpacked_free(answer);
    }
    cut_fini(&c);
    api_submission_fini(&s);
    return status;
}
