/* The trace: operations recorded until something is read, and their way to the hub. */
#include "api/state.h"

#include "backend/ref/ref.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local char location[160];

void shoal_location(const char *text) {
    size_t n = text ? strlen(text) : 0;
    if (n >= sizeof location) {
        text += n - sizeof location + 1; /* the end of a path tells more than its beginning */
        n = sizeof location - 1;
    }
    memcpy(location, n ? text : "", n);
    location[n] = 0;
}

const char *api_location(void) { return *location ? location : NULL; }

/* ---- handles ---- */

shoal_status api_tensor_alloc(shoal_session *session, const shoal_type *type, shoal_tensor **out) {
    shoal_tensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor) return base_fail(SHOAL_NO_MEMORY, "no memory for a tensor");
    atomic_init(&tensor->refs, 1);
    atomic_fetch_add(&session->refs, 1);
    tensor->session = session;
    tensor->era = session->era;
    tensor->number = ++session->next_number;
    tensor->type = *type;
    *out = tensor;
    return SHOAL_OK;
}

shoal_status api_tensor_traced(shoal_session *session, uint32_t value, shoal_tensor **out) {
    shoal_tensor *tensor;
    SHOAL_TRY(api_tensor_alloc(session, &graph_data(session->trace)->values[value].type, &tensor));
    tensor->traced = value;
    tensor->pending = session->pending.count;
    if (!base_vec_push(&session->pending, tensor)) {
        api_session_release(session);
        free(tensor);
        return SHOAL_NO_MEMORY;
    }
    *out = tensor;
    return SHOAL_OK;
}

shoal_tensor *shoal_tensor_retain(shoal_tensor *tensor) {
    if (tensor) atomic_fetch_add(&tensor->refs, 1);
    return tensor;
}

/* From any thread, garbage collectors' among them: the handle is only put on a list. */
void shoal_tensor_free(shoal_tensor **out) {
    shoal_tensor *tensor = *out;
    *out = NULL;
    if (!tensor || atomic_fetch_sub(&tensor->refs, 1) != 1) return;
    shoal_session *session = tensor->session;
    shoal_tensor_free(&tensor->base);
    shoal_tensor *head = atomic_load(&session->freed);
    do {
        tensor->next_free = head;
    } while (!atomic_compare_exchange_weak(&session->freed, &head, tensor));
    /* After the session was closed nobody drains any more. */
    api_session_release(session);
}

static void drain_one(shoal_session *session, shoal_tensor *tensor) {
    if (tensor->value != API_NO_VALUE && tensor->era == session->era) {
        /* Without memory to note it, the hub keeps the value until the session ends. */
        if (!base_vec_push(&session->released, tensor->value))
            base_log(BASE_WARN, "client", "%s", shoal_error_message());
    } else if (tensor->pending < session->pending.count &&
               session->pending.data[tensor->pending] == tensor) {
        session->pending.data[tensor->pending] = NULL;
    }
    if (tensor->origin) api_origin_release(session, tensor);
    free(tensor);
}

/* An origin that goes with its last handle gives handles back in turn, which come onto the list. */
void api_drain(shoal_session *session) {
    shoal_tensor *tensor;
    while ((tensor = atomic_exchange(&session->freed, NULL)))
        while (tensor) {
            shoal_tensor *next = tensor->next_free;
            drain_one(session, tensor);
            tensor = next;
        }
}

const shoal_type *shoal_tensor_type(const shoal_tensor *tensor) { return &tensor->type; }
shoal_session *shoal_tensor_session(const shoal_tensor *tensor) { return tensor->session; }

/* ---- recording ---- */

shoal_status api_trace_value(shoal_tensor *tensor, uint32_t *value) {
    shoal_session *session = tensor->session;
    tensor = api_base(tensor);
    SHOAL_TRY(api_check_era(tensor));
    if (!session->trace) SHOAL_TRY(graph_new(0, &session->trace));
    if (tensor->value == API_NO_VALUE) {
        *value = tensor->traced;
        return SHOAL_OK;
    }
    uintptr_t known = (uintptr_t)base_map_get(&session->inputs, tensor->value);
    if (known) {
        *value = (uint32_t)(known - 1);
        return SHOAL_OK;
    }
    SHOAL_TRY(graph_add_input(session->trace, &tensor->type, value));
    if (!base_vec_push(&session->input_values, tensor->value)) return SHOAL_NO_MEMORY;
    return base_map_set(&session->inputs, tensor->value, (void *)((uintptr_t)*value + 1));
}

static shoal_status record(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                           uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                           const shoal_graph *const *regions, uint16_t n_regions, const char *at,
                           const char *scope, shoal_tensor **outputs, uint16_t n_outputs) {
    uint32_t few[8], first;
    uint32_t *values = n_inputs <= 8 ? few : malloc(n_inputs * sizeof *values);
    if (!values) return base_fail(SHOAL_NO_MEMORY, "no memory for %u operands", n_inputs);
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < n_inputs && status == SHOAL_OK; i++) {
        if (inputs[i]->session != session)
            status = base_fail(SHOAL_INVALID, "%s: operand %u belongs to another session",
                               shoal_op_name(op), i);
        else
            status = api_trace_value(inputs[i], &values[i]);
    }
    if (status == SHOAL_OK && !session->trace) status = graph_new(0, &session->trace);
    if (status == SHOAL_OK) status = graph_at(session->trace, at, scope);
    if (status == SHOAL_OK)
        status = graph_add(session->trace, op, values, n_inputs, attrs, n_attrs, regions, n_regions,
                           &first);
    if (values != few) free(values);
    for (uint16_t o = 0; o < n_outputs && status == SHOAL_OK; o++)
        status = api_tensor_traced(session, first + o, &outputs[o]);
    bool noted = false;
    for (uint32_t i = 0; i < n_inputs && status == SHOAL_OK; i++)
        noted |= inputs[i]->origin != NULL;
    if (noted)
        status = api_note(session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions,
                          outputs, n_outputs);
    for (uint16_t o = 0; o < n_outputs && status != SHOAL_OK; o++) shoal_tensor_free(&outputs[o]);
    if (status == SHOAL_OK && n_outputs && base_events_on(worker_events(session->worker)))
        api_event_op(session, op, inputs, n_inputs, outputs[0]);
    return status;
}

shoal_status api_apply(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                       uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                       const shoal_graph *const *regions, uint16_t n_regions,
                       shoal_tensor **outputs, uint16_t n_outputs) {
    const api_scope *scope = api_scope_now();
    return api_apply_at(session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions,
                        api_location(), scope ? scope->name : NULL, outputs, n_outputs);
}

/* In a scope: what comes from outside is brought in first. */
static shoal_status apply_in(const api_scope *scope, shoal_session *session, uint16_t op,
                             shoal_tensor *const *inputs, uint32_t n_inputs,
                             const shoal_attr *attrs, uint16_t n_attrs,
                             const shoal_graph *const *regions, uint16_t n_regions, const char *at,
                             const char *name, shoal_tensor **outputs, uint16_t n_outputs) {
    shoal_tensor *few[8], **placed = n_inputs <= 8 ? few : malloc(n_inputs * sizeof *placed);
    if (!placed) return base_fail(SHOAL_NO_MEMORY, "no memory for %u operands", n_inputs);
    shoal_status status = api_scope_operands(session, scope, inputs, n_inputs, placed);
    if (status == SHOAL_OK) {
        status = record(session, op, placed, n_inputs, attrs, n_attrs, regions, n_regions, at, name,
                        outputs, n_outputs);
        bool inside = false;
        for (uint32_t i = 0; i < n_inputs; i++) inside |= placed[i]->signal == scope->name;
        for (uint16_t o = 0; o < n_outputs && inside && status == SHOAL_OK; o++)
            outputs[o]->signal = scope->name;
        for (uint32_t i = 0; i < n_inputs; i++) shoal_tensor_free(&placed[i]);
    }
    if (placed != few) free(placed);
    return status;
}

shoal_status api_apply_at(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                          uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                          const shoal_graph *const *regions, uint16_t n_regions, const char *at,
                          const char *name, shoal_tensor **outputs, uint16_t n_outputs) {
    const api_scope *scope = api_scope_now();
    for (uint16_t o = 0; o < n_outputs; o++) outputs[o] = NULL;
    return scope && op != GRAPH_PLACE
               ? apply_in(scope, session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions,
                          at, name, outputs, n_outputs)
               : record(session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions, at, name,
                        outputs, n_outputs);
}
/* ---- submitting ---- */

/* A program as it goes to the hub. Arrays are freed by submission_fini. */
typedef struct submission {
    graph *graph;
    Shoal__Submit message;
    base_str key;
    base_str simplified; /* the graph of a program that is new */
    uint64_t *outputs;
    shoal_tensor **handles; /* per output that a handle is for */
    size_t n_handles;
    uint32_t home[1];
    Shoal__Upload *uploads;
    Shoal__Upload **upload_pointers;
} submission;

static void submission_fini(submission *s) {
    graph_destroy(&s->graph);
    base_str_fini(&s->key);
    base_str_fini(&s->simplified);
    free(s->outputs);
    free(s->handles);
    free(s->uploads);
    free(s->upload_pointers);
}

static shoal_status list_uploads(shoal_session *session, submission *s) {
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

/* The part of the trace that live handles, and the value that is to come home, depend on. */
static shoal_status cut_trace(shoal_session *session, shoal_tensor *home, submission *s) {
    uint32_t home_value = 0;
    if (home) SHOAL_TRY(api_trace_value(home, &home_value));
    size_t most = session->pending.count + 1;
    uint32_t *values = calloc(most, sizeof *values);
    s->outputs = calloc(most, sizeof *s->outputs);
    s->handles = calloc(most, sizeof *s->handles);
    if (!values || !s->outputs || !s->handles) {
        free(values);
        return base_fail(SHOAL_NO_MEMORY, "no memory to submit");
    }
    for (size_t i = 0; i < session->pending.count; i++) {
        shoal_tensor *tensor = session->pending.data[i];
        /* A handle that only the reader holds is not worth keeping, but its holder may go on; nor
         * is one that gradients only pass through. */
        uint32_t refs = tensor ? (uint32_t)atomic_load(&tensor->refs) : 0;
        if (!refs || (refs == tensor->links && !tensor->saved)) continue;
        values[s->n_handles] = tensor->traced;
        s->handles[s->n_handles] = tensor;
        s->outputs[s->n_handles++] = session->next_value++;
    }
    size_t n = s->n_handles;
    if (home) {
        s->home[0] = (uint32_t)n;
        s->message.home = s->home;
        s->message.n_home = 1;
        values[n] = home_value;
        s->outputs[n++] = session->next_value++;
    }
    const shoal_graph *trace = graph_data(session->trace);
    shoal_status status = graph_new(0, &s->graph);
    if (status == SHOAL_OK)
        status =
            graph_extract(trace, trace->inputs, trace->n_inputs, values, (uint32_t)n, s->graph);
    free(values);
    s->message.outputs = s->outputs;
    s->message.n_outputs = n;
    s->message.inputs = session->input_values.data;
    s->message.n_inputs = session->input_values.count;
    return status;
}

/* The graph as the hub gets it: simplified. That is done for new programs only; those that repeat
 * are known by what was recorded. */
static shoal_status simplify(const submission *s, base_str *out) {
    graph *g;
    SHOAL_TRY(graph_new(0, &g));
    shoal_status status = graph_rewrite(graph_data(s->graph), ref_evaluate, NULL, g);
    if (status == SHOAL_OK) status = graph_encode(graph_data(g), true, out);
    graph_destroy(&g);
    return status;
}

/* Finds the program among those the hub knows, or gives it a number and encodes it. */
static shoal_status number_program(shoal_session *session, submission *s, bool *fresh) {
    SHOAL_TRY(graph_encode(graph_data(s->graph), true, &s->key));
    base_str_bytes(&s->key, s->home, s->message.n_home * sizeof *s->home);
    SHOAL_TRY(base_str_status(&s->key));
    uint64_t hash = base_hash(s->key.data, s->key.size);
    size_t oldest = 0;
    for (size_t i = 0; i < session->programs.count; i++) {
        api_program *program = &session->programs.data[i];
        if (program->used < session->programs.data[oldest].used) oldest = i;
        if (program->hash != hash || program->key.size != s->key.size ||
            memcmp(program->key.data, s->key.data, s->key.size))
            continue;
        program->used = ++session->clock;
        s->message.program = program->id;
        *fresh = false;
        return SHOAL_OK;
    }
    *fresh = true;
    s->message.program = session->next_program++;
    SHOAL_TRY(simplify(s, &s->simplified));
    s->message.graph = (ProtobufCBinaryData){s->simplified.size, (uint8_t *)s->simplified.data};
    api_program program = {s->message.program, hash, {0}, ++session->clock};
    base_str_bytes(&program.key, s->key.data, s->key.size);
    SHOAL_TRY(base_str_status(&program.key));
    if (session->programs.count < API_PROGRAMS) {
        if (base_vec_push(&session->programs, program)) return SHOAL_OK;
        base_str_fini(&program.key);
        return SHOAL_NO_MEMORY;
    }
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.n_programs = 1;
    release.programs = &session->programs.data[oldest].id;
    shoal_status status = worker_send(session->worker, SHOAL__KIND__RELEASE, &release.base);
    base_str_fini(&session->programs.data[oldest].key);
    session->programs.data[oldest] = program;
    return status;
}

static void clear_trace(shoal_session *session) {
    graph_destroy(&session->trace);
    base_map_fini(&session->inputs);
    session->input_values.count = 0;
    session->pending.count = 0;
}

static bool room_for_more(void *context) {
    shoal_session *session = context;
    pthread_mutex_lock(&session->news);
    bool room = session->outstanding < API_OUTSTANDING;
    pthread_mutex_unlock(&session->news);
    return room || worker_state(session->worker) != SHOAL_OK;
}

static shoal_status submit(shoal_session *session, submission *s) {
    s->message.release = session->released.data;
    s->message.n_release = session->released.count;
    /* Back-pressure: at most so many programs are on their way. */
    SHOAL_TRY(api_wait(session, room_for_more, session));
    SHOAL_TRY(worker_state(session->worker));
    pthread_mutex_lock(&session->news);
    session->outstanding++;
    pthread_mutex_unlock(&session->news);
    base_events *events = worker_events(session->worker);
    if (base_events_on(events)) {
        const shoal_graph *g = graph_data(s->graph);
        shoal_event event = {.kind = SHOAL_EVENT_SUBMIT,
                             .instance = s->message.program & 0xFFFFFFFFFF,
                             .bytes = s->message.graph.len,
                             .slot = worker_home(session->worker),
                             .peer = SHOAL_NO_SLOT};
        worker_label(g, 0, g->n_nodes, &event);
        base_events_put(events, &event);
    }
    shoal_status status = worker_send(session->worker, SHOAL__KIND__SUBMIT, &s->message.base);
    if (status != SHOAL_OK) {
        pthread_mutex_lock(&session->news);
        session->outstanding--;
        pthread_mutex_unlock(&session->news);
    }
    return status;
}

/* Before the handles that were given back: what is released must not be among the inputs. */
static bool nothing_to_do(const shoal_session *session, const shoal_tensor *home) {
    if (home) return false;
    for (size_t i = 0; i < session->pending.count; i++)
        if (session->pending.data[i]) return false;
    return true;
}

/* What was given back usually goes with the next program; without one it goes alone. */
static shoal_status send_released(shoal_session *session) {
    if (!session->released.count) return SHOAL_OK;
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.values = session->released.data;
    release.n_values = session->released.count;
    SHOAL_TRY(worker_send(session->worker, SHOAL__KIND__RELEASE, &release.base));
    session->released.count = 0;
    return SHOAL_OK;
}

shoal_status api_flush(shoal_session *session, shoal_tensor *home, void *data, size_t bytes,
                       uint64_t *home_value) {
    api_drain(session);
    if (nothing_to_do(session, home)) {
        clear_trace(session);
        return send_released(session);
    }
    submission s = {.message = SHOAL__SUBMIT__INIT};
    bool fresh = false;
    shoal_status status = cut_trace(session, home, &s);
    if (status == SHOAL_OK) status = number_program(session, &s, &fresh);
    if (status == SHOAL_OK) status = list_uploads(session, &s);
    if (status == SHOAL_OK && home) {
        *home_value = s.outputs[s.message.n_outputs - 1];
        status = worker_expect(session->worker, *home_value, data, bytes);
    }
    if (status == SHOAL_OK) status = submit(session, &s);
    if (status == SHOAL_OK) {
        for (size_t i = 0; i < s.n_handles; i++) {
            s.handles[i]->value = s.outputs[i];
            s.handles[i]->program = s.message.program;
        }
        for (size_t i = 0; i < session->pending.count; i++) {
            shoal_tensor *tensor = session->pending.data[i];
            if (tensor) tensor->gone = tensor->value == API_NO_VALUE;
        }
        /* The copy at home is the reader's; the hub need not keep it. */
        session->released.count = 0;
        session->n_uploads = 0;
        if (home && !base_vec_push(&session->released, *home_value)) status = SHOAL_NO_MEMORY;
        clear_trace(session);
    }
    submission_fini(&s);
    return status;
}

shoal_status api_flush_explain(shoal_session *session, shoal_tensor *home, bool json, char **out) {
    api_drain(session);
    submission s = {.message = SHOAL__SUBMIT__INIT};
    Shoal__ExplainAsk ask = SHOAL__EXPLAIN_ASK__INIT;
    ProtobufCMessage *answer = NULL;
    shoal_status status = cut_trace(session, home, &s);
    if (status == SHOAL_OK) status = simplify(&s, &s.simplified);
    if (status == SHOAL_OK) status = list_uploads(session, &s);
    if (status == SHOAL_OK) {
        s.message.graph = (ProtobufCBinaryData){s.simplified.size, (uint8_t *)s.simplified.data};
        ask.submit = &s.message;
        status = api_ask(session, SHOAL__KIND__EXPLAIN_ASK, &ask.base, &ask.token, &answer);
    }
    if (status == SHOAL_OK) {
        session->n_uploads = 0;
        const Shoal__Explained *explained = (const Shoal__Explained *)answer;
        if (explained->error)
            status =
                base_fail((shoal_status)explained->error->status, "%s", explained->error->message);
        else
            *out = strdup(json ? explained->json : explained->text);
        protobuf_c_message_free_unpacked(answer, NULL);
    }
    submission_fini(&s);
    return status;
}
