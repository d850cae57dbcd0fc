/* Loops: a function's program for many rounds. What the workers get is a graph of its own: the
 * function's, behind slices of what is fed, with an output for each thing that a round hands on. */
#include "api/function.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 60000 };
static const uint32_t NO_VALUE = UINT32_MAX;

struct shoal_loop {
    shoal_session *session; /* held */
    uint32_t era;
    uint64_t value;        /* its first output */
    uint64_t rounds;       /* asked for */
    worker_stream *stream; /* NULL: nothing comes home */
    uint64_t watched;      /* an output that is held for as long as somebody may read the stream */
    uint32_t n_stream, n_home;
    size_t *bytes; /* per stream */
};

/* The loop while it is made. */
typedef struct making {
    const shoal_function *f;
    const shoal_repeat *repeat;
    shoal_tensor *const *inputs;
    shoal_tensor *counter; /* of rounds, when something is fed; the last input */
    bool *feeds;           /* per operand */
    graph *graph;
    uint32_t *input_of;  /* per operand: the graph's input + 1, or 0 */
    uint32_t *values;    /* per operand: as a round reads it, or NO_VALUE */
    api_stored **stored; /* files that the rounds read */
    size_t n_stored;
    uint32_t *results; /* per result: its value in the graph */
    uint32_t *carry;   /* per input of the graph: output + 1 */
    uint32_t *home;    /* outputs for the client */
    uint32_t n_operands, n_home, stop, next;
    uint32_t counter_value, zero;
    base_str key;
    api_recorded *recorded;
} making;

/* ---- what is asked ---- */

static shoal_status check_numbers(const making *m) {
    const shoal_repeat *r = m->repeat;
    uint32_t n_in = m->f->n_operands, n_out = m->f->n_results;
    for (uint32_t i = 0; i < r->n_carry; i++)
        if (r->carry[i].output >= n_out || r->carry[i].input >= n_in)
            return base_fail(SHOAL_INVALID,
                             "repeat: output %u is carried to input %u; there are %u and %u",
                             r->carry[i].output, r->carry[i].input, n_out, n_in);
    for (uint32_t i = 0; i < r->n_stream; i++)
        if (r->stream[i] >= n_out)
            return base_fail(SHOAL_INVALID, "repeat: output %u is streamed; there are %u",
                             r->stream[i], n_out);
    for (uint32_t i = 0; i < r->n_feed; i++)
        if (r->feed[i] >= n_in)
            return base_fail(SHOAL_INVALID, "repeat: input %u is fed; there are %u", r->feed[i],
                             n_in);
    if (r->stops && r->stop >= n_out)
        return base_fail(SHOAL_INVALID, "repeat: output %u ends it; there are %u", r->stop, n_out);
    if (r->rounds > 1000000000)
        return base_fail(SHOAL_INVALID, "repeat: %llu rounds; the most is 1000000000",
                         (unsigned long long)r->rounds);
    return SHOAL_OK;
}

static shoal_status check_carry(const making *m) {
    char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
    const shoal_repeat *r = m->repeat;
    for (uint32_t i = 0; i < r->n_carry; i++) {
        const shoal_type *out = &m->f->results[r->carry[i].output].type;
        const shoal_type *in = &m->f->operands[r->carry[i].input];
        if (!base_type_equal(out, in))
            return base_fail(SHOAL_INVALID,
                             "repeat: output %u (%s) cannot be input %u (%s) of the next round: "
                             "they have to have one type",
                             r->carry[i].output, base_type_text(out, a), r->carry[i].input,
                             base_type_text(in, b));
        const api_stored *source = api_base(m->inputs[r->carry[i].input])->source;
        if (source)
            return base_fail(SHOAL_INVALID,
                             "repeat: input %u is %s, which is read from a file: it cannot be "
                             "carried; give a copy of it",
                             r->carry[i].input, source->name);
        bool twice = m->feeds[r->carry[i].input];
        for (uint32_t k = 0; k < i; k++) twice |= r->carry[k].input == r->carry[i].input;
        if (twice)
            return base_fail(SHOAL_INVALID, "repeat: input %u is carried, and carried again or fed",
                             r->carry[i].input);
    }
    return SHOAL_OK;
}

static shoal_status check_feeds(const making *m) {
    char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
    for (uint32_t i = 0; i < m->f->n_operands; i++) {
        const shoal_type *in = &m->f->operands[i], *given = &m->inputs[i]->type;
        if (!m->feeds[i]) continue;
        bool fits = given->rank == in->rank + 1 && given->dtype == in->dtype &&
                    (uint64_t)given->dims[0] >= m->repeat->rounds;
        for (uint32_t k = 0; fits && k < in->rank; k++) fits = given->dims[k + 1] == in->dims[k];
        if (!fits)
            return base_fail(SHOAL_INVALID,
                             "repeat: input %u is fed from %s; %llu rounds of %s need as many, "
                             "along a first axis",
                             i, base_type_text(given, a), (unsigned long long)m->repeat->rounds,
                             base_type_text(in, b));
    }
    return SHOAL_OK;
}

static shoal_status check(const making *m) {
    char text[BASE_TYPE_TEXT];
    SHOAL_TRY(api_function_check(m->f, m->inputs, m->feeds));
    SHOAL_TRY(check_carry(m));
    SHOAL_TRY(check_feeds(m));
    const shoal_type *stop = m->repeat->stops ? &m->f->results[m->repeat->stop].type : NULL;
    if (stop && (stop->dtype != SHOAL_BOOL || stop->rank))
        return base_fail(SHOAL_INVALID,
                         "repeat: output %u (%s) cannot say whether to stop; that takes a bool[]",
                         m->repeat->stop, base_type_text(stop, text));
    return SHOAL_OK;
}

/* ---- the graph ---- */

static shoal_status add_operand(making *m, uint32_t i) {
    const shoal_type *type = &m->inputs[i]->type;
    api_stored *source = api_base(m->inputs[i])->source;
    if (m->values[i] != NO_VALUE) return SHOAL_OK;
    if (source) {
        m->stored[m->n_stored++] = source;
        return api_stored_add(m->f->session, m->graph, source, &m->values[i]);
    }
    SHOAL_TRY(graph_add_input(m->graph, type, &m->values[i]));
    m->input_of[i] = ++m->n_operands;
    return SHOAL_OK;
}

/* The inputs that a round reads, or hands on. */
static shoal_status add_operands(making *m) {
    const shoal_function *f = m->f;
    for (uint32_t i = 0; i < f->n_used; i++) SHOAL_TRY(add_operand(m, f->used[i]));
    for (uint32_t i = 0; i < f->n_results; i++)
        if (f->results[i].operand) SHOAL_TRY(add_operand(m, f->results[i].index));
    for (uint32_t i = 0; i < m->repeat->n_carry; i++)
        SHOAL_TRY(add_operand(m, m->repeat->carry[i].input));
    if (!m->counter) return SHOAL_OK;
    SHOAL_TRY(graph_add_constant(m->graph, &(shoal_type){.dtype = SHOAL_I64}, &(int64_t){0},
                                 sizeof(int64_t), &m->zero));
    return graph_add_input(m->graph, &m->counter->type, &m->counter_value);
}

/* Element `counter` of what is fed. */
static shoal_status add_feed(making *m, uint32_t i) {
    const shoal_type *type = &m->f->operands[i];
    uint32_t operands[SHOAL_MAX_RANK + 2] = {m->values[i], m->counter_value}, slice;
    int64_t sizes[SHOAL_MAX_RANK] = {1};
    for (uint32_t k = 0; k < type->rank; k++) {
        operands[k + 2] = m->zero;
        sizes[k + 1] = type->dims[k];
    }
    shoal_attr attr = graph_ints(SHOAL_ATTR_SLICE_SIZES, sizes, type->rank + 1u);
    SHOAL_TRY(graph_add(m->graph, GRAPH_DYNAMIC_SLICE, operands, type->rank + 2u, &attr, 1, NULL, 0,
                        &slice));
    shoal_attr shape = graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank);
    return graph_add(m->graph, GRAPH_RESHAPE, &slice, 1, &shape, 1, NULL, 0, &m->values[i]);
}

static shoal_status add_nodes(making *m) {
    const shoal_graph *g = graph_data(m->f->recorded->graph);
    base_arena *arena = graph_arena(m->graph);
    uint32_t *map = base_arena_array(arena, uint32_t, g->n_values);
    if (!map) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < g->n_inputs; i++) map[g->inputs[i]] = m->values[m->f->used[i]];
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        uint32_t *operands = base_arena_array(arena, uint32_t, node->n_inputs), first;
        if (!operands) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i < node->n_inputs; i++) operands[i] = map[node->inputs[i]];
        SHOAL_TRY(graph_at(m->graph, node->location, node->scope));
        SHOAL_TRY(graph_add(m->graph, node->op, operands, node->n_inputs, node->attrs,
                            node->n_attrs, node->regions, node->n_regions, &first));
        for (uint32_t o = 0; o < node->n_outputs; o++) map[node->first_output + o] = first + o;
    }
    SHOAL_TRY(graph_at(m->graph, NULL, NULL));
    for (uint32_t i = 0; i < m->f->n_results; i++) {
        const api_result *r = &m->f->results[i];
        m->results[i] = r->operand ? m->values[r->index] : map[g->outputs[r->index]];
    }
    return SHOAL_OK;
}

static shoal_status add_output(making *m, uint32_t value, uint32_t *number) {
    *number = m->next++;
    return graph_add_output(m->graph, value);
}

/* Each result; again for each input that it is carried to, for the client, and for who is to stop.
 */
static shoal_status add_outputs(making *m) {
    const shoal_repeat *r = m->repeat;
    uint32_t number;
    for (uint32_t i = 0; i < m->f->n_results; i++) SHOAL_TRY(add_output(m, m->results[i], &number));
    for (uint32_t i = 0; i < r->n_carry; i++) {
        number = r->carry[i].output;
        for (uint32_t k = 0; k < i; k++)
            if (r->carry[k].output == r->carry[i].output) number = m->next;
        if (number == m->next) SHOAL_TRY(add_output(m, m->results[r->carry[i].output], &number));
        m->carry[m->input_of[r->carry[i].input] - 1] = number + 1;
    }
    if (m->counter) {
        uint32_t operands[] = {m->counter_value, 0}, sum;
        SHOAL_TRY(graph_add_constant(m->graph, &(shoal_type){.dtype = SHOAL_I64}, &(int64_t){1},
                                     sizeof(int64_t), &operands[1]));
        SHOAL_TRY(graph_add(m->graph, GRAPH_ADD, operands, 2, NULL, 0, NULL, 0, &sum));
        SHOAL_TRY(add_output(m, sum, &number));
        m->carry[m->n_operands] = number + 1;
    }
    for (uint32_t i = 0; i < r->n_stream; i++)
        SHOAL_TRY(add_output(m, m->results[r->stream[i]], &m->home[m->n_home++]));
    if (!r->stops) return SHOAL_OK;
    SHOAL_TRY(add_output(m, m->results[r->stop], &m->home[m->n_home++]));
    SHOAL_TRY(add_output(m, m->results[r->stop], &number));
    m->stop = number + 1;
    return SHOAL_OK;
}

static shoal_status build(making *m) {
    SHOAL_TRY(graph_new(0, &m->graph));
    SHOAL_TRY(add_operands(m));
    for (uint32_t i = 0; i < m->f->n_operands; i++)
        if (m->feeds[i] && m->values[i] != NO_VALUE) SHOAL_TRY(add_feed(m, i));
    SHOAL_TRY(add_nodes(m));
    SHOAL_TRY(add_outputs(m));
    SHOAL_TRY(graph_encode(graph_data(m->graph), false, &m->key));
    base_str_bytes(&m->key, m->carry, (m->n_operands + 1) * sizeof *m->carry);
    base_str_bytes(&m->key, m->home, m->n_home * sizeof *m->home);
    base_str_bytes(&m->key, &m->stop, sizeof m->stop);
    SHOAL_TRY(base_str_status(&m->key));
    return api_recorded_new(m->stored, m->n_stored, &m->graph, &m->recorded);
}

/* ---- starting ---- */

static shoal_status open_stream(const making *m, const api_submission *s, shoal_loop *loop) {
    uint64_t *values = calloc((size_t)m->n_home + 1, sizeof *values);
    loop->bytes = calloc((size_t)m->n_home + 1, sizeof *loop->bytes);
    if (!values || !loop->bytes) {
        free(values);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    }
    for (uint32_t i = 0; i < m->n_home; i++) {
        uint32_t result = i < m->repeat->n_stream ? m->repeat->stream[i] : m->repeat->stop;
        values[i] = s->outputs[m->home[i]];
        loop->bytes[i] = (size_t)base_type_bytes(&m->f->results[result].type);
    }
    loop->n_stream = m->repeat->n_stream;
    loop->n_home = m->n_home;
    shoal_status status = SHOAL_OK;
    if (m->n_home)
        status = worker_stream_open(m->f->session->worker, values, m->n_home,
                                    m->repeat->patience_ms ? m->repeat->patience_ms : PATIENCE_MS,
                                    &loop->stream);
    free(values);
    return status;
}

static shoal_status operand_value(shoal_tensor *tensor, uint64_t *out) {
    const shoal_tensor *x = api_base(tensor);
    SHOAL_TRY(api_check_era(x));
    *out = x->value;
    return x->value == API_NO_VALUE ? base_fail(SHOAL_INTERNAL, "repeat: an input has no value")
                                    : SHOAL_OK;
}

static shoal_status send(making *m, shoal_loop *loop, shoal_tensor **outputs) {
    shoal_session *session = m->f->session;
    uint32_t n_inputs = m->n_operands + (m->counter != NULL);
    api_submission s = {.message = SHOAL__SUBMIT__INIT,
                        .inputs = calloc((size_t)n_inputs + 1, sizeof *s.inputs),
                        .outputs = calloc((size_t)m->next + 1, sizeof *s.outputs)};
    shoal_status status =
        s.inputs && s.outputs ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    for (uint32_t i = 0; status == SHOAL_OK && i < m->f->n_operands; i++)
        if (m->input_of[i]) status = operand_value(m->inputs[i], &s.inputs[m->input_of[i] - 1]);
    if (status == SHOAL_OK && m->counter)
        status = operand_value(m->counter, &s.inputs[m->n_operands]);
    if (status == SHOAL_OK) {
        for (uint32_t i = 0; i < m->next; i++) s.outputs[i] = session->next_value++;
        s.message.inputs = s.inputs;
        s.message.n_inputs = n_inputs;
        s.message.outputs = s.outputs;
        s.message.n_outputs = m->next;
        s.message.rounds = m->repeat->rounds;
        s.message.carry = m->carry;
        s.message.n_carry = n_inputs;
        s.message.stop = m->stop;
        s.message.home = m->home;
        s.message.n_home = m->n_home;
        loop->value = s.outputs[0];
        status = open_stream(m, &s, loop);
    }
    if (status == SHOAL_OK) {
        size_t released = session->released.count;
        status = api_function_give(m->f, m->inputs, m->feeds);
        if (status == SHOAL_OK) status = api_submission_send(session, m->recorded, &m->key, &s);
        if (status != SHOAL_OK) session->released.count = released;
        api_function_given(m->f, m->inputs, status == SHOAL_OK);
    }
    for (uint32_t i = 0; status == SHOAL_OK && i < m->next; i++) {
        if (i < m->f->n_results) {
            outputs[i]->value = s.outputs[i];
            outputs[i]->program = s.message.program;
        } else if (m->n_home && i == m->home[0]) {
            loop->watched = s.outputs[i];
        } else if (!base_vec_push(&session->released, s.outputs[i])) {
            status = SHOAL_NO_MEMORY;
        }
    }
    api_submission_fini(&s);
    return status;
}

static shoal_status make_handles(const making *m, shoal_tensor **outputs) {
    const shoal_function *f = m->f;
    for (uint32_t i = 0; i < f->n_results; i++) {
        if (m->repeat->rounds) {
            SHOAL_TRY(api_tensor_alloc(f->session, &f->results[i].type, &outputs[i]));
            outputs[i]->signal = f->results[i].signal;
            outputs[i]->shared = f->results[i].shared;
            continue;
        }
        for (uint32_t k = 0; k < m->repeat->n_carry && !outputs[i]; k++)
            if (m->repeat->carry[k].output == i)
                SHOAL_TRY(api_alias(m->inputs[m->repeat->carry[k].input], &outputs[i]));
    }
    return SHOAL_OK;
}

/* With the session's lock held. */
static shoal_status start(making *m, shoal_loop *loop, shoal_tensor **outputs) {
    shoal_session *session = m->f->session;
    SHOAL_TRY(api_check(session));
    SHOAL_TRY(check(m));
    SHOAL_TRY(api_room(session));
    api_drain(session);
    if (session->pending.count) SHOAL_TRY(api_flush(session, NULL, NULL, 0, NULL));
    loop->era = session->era; /* from here on the lock is held, so that it stays */
    SHOAL_TRY(make_handles(m, outputs));
    if (!m->repeat->rounds || !m->f->n_results) return SHOAL_OK;
    SHOAL_TRY(build(m));
    return send(m, loop, outputs);
}

static void making_fini(making *m) {
    graph_destroy(&m->graph);
    api_recorded_release(m->recorded);
    shoal_tensor_free(&m->counter);
    base_str_fini(&m->key);
    free(m->feeds);
    free(m->input_of);
    free(m->values);
    free(m->stored);
    free(m->results);
    free(m->carry);
    free(m->home);
}

static shoal_status prepare(making *m) {
    const shoal_function *f = m->f;
    size_t n = (size_t)f->n_operands + 2, n_stored = f->recorded->n_stored;
    m->feeds = calloc(n, sizeof *m->feeds);
    m->input_of = calloc(n, sizeof *m->input_of);
    m->values = calloc(n, sizeof *m->values);
    m->stored = calloc(n + n_stored, sizeof *m->stored);
    m->carry = calloc(n, sizeof *m->carry);
    m->results = calloc((size_t)f->n_results + 1, sizeof *m->results);
    m->home = calloc((size_t)m->repeat->n_stream + 2, sizeof *m->home);
    if (!m->feeds || !m->input_of || !m->values || !m->stored || !m->carry || !m->results ||
        !m->home)
        return base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    for (size_t i = 0; i < n; i++) m->values[i] = NO_VALUE;
    for (; m->n_stored < n_stored; m->n_stored++)
        m->stored[m->n_stored] = f->recorded->stored[m->n_stored];
    SHOAL_TRY(check_numbers(m));
    for (uint32_t i = 0; i < m->repeat->n_feed; i++) m->feeds[m->repeat->feed[i]] = true;
    const int64_t first = 0;
    return m->repeat->n_feed ? shoal_tensor_new(f->session, SHOAL_I64, 0, NULL, &first, &m->counter)
                             : SHOAL_OK;
}

shoal_status shoal_function_repeat(shoal_function *f, shoal_tensor *const *inputs,
                                   const shoal_repeat *given, shoal_tensor **outputs,
                                   shoal_loop **out) {
    shoal_repeat repeat = {.size = sizeof repeat};
    *out = NULL;
    memset(outputs, 0, f->n_results * sizeof *outputs);
    if (!given || !given->size || given->size > sizeof repeat)
        return base_fail(SHOAL_INVALID, "shoal_repeat.size is %zu; set it to sizeof(shoal_repeat)",
                         given ? given->size : 0);
    memcpy(&repeat, given, given->size);
    shoal_loop *loop = calloc(1, sizeof *loop);
    if (!loop) return base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    atomic_fetch_add(&f->session->refs, 1);
    *loop = (shoal_loop){.session = f->session, .rounds = repeat.rounds};
    making m = {.f = f, .repeat = &repeat, .inputs = inputs};
    shoal_status status = prepare(&m);
    if (status == SHOAL_OK) {
        pthread_mutex_lock(&f->session->lock);
        status = start(&m, loop, outputs);
        pthread_mutex_unlock(&f->session->lock);
    }
    making_fini(&m);
    for (uint32_t i = 0; i < f->n_results && status != SHOAL_OK; i++)
        if (outputs[i]) shoal_tensor_free(&outputs[i]);
    if (status != SHOAL_OK) shoal_loop_free(&loop);
    *out = loop;
    return status;
}

/* ---- while it runs ---- */

/* The worker that the loop is known to; NULL: it is gone. Session's lock held. */
static worker *worker_of(const shoal_loop *loop) {
    bool there = loop->era == loop->session->era && api_is_here(loop->session);
    return there ? loop->session->worker : NULL;
}

static bool has_news(void *context) {
    const shoal_loop *loop = context;
    return worker_stream_ready(loop->session->worker, loop->stream) ||
           worker_state(loop->session->worker) != SHOAL_OK;
}

static shoal_status take(shoal_loop *loop, void *const *data, const size_t *bytes, bool *more) {
    void **all = calloc((size_t)loop->n_home + 1, sizeof *all);
    if (!all) return base_fail(SHOAL_NO_MEMORY, "no memory to take the results of a round");
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < loop->n_stream; i++) {
        if (bytes[i] != loop->bytes[i])
            status = base_fail(SHOAL_INVALID,
                               "result %u of a round has %zu bytes; room for %zu was "
                               "given",
                               i, loop->bytes[i], bytes[i]);
        all[i] = data[i];
    }
    if (status == SHOAL_OK)
        status = worker_stream_take(loop->session->worker, loop->stream, all, loop->bytes, more);
    free(all);
    return status;
}

shoal_status shoal_loop_next(shoal_loop *loop, void *const *data, const size_t *bytes, bool *more) {
    shoal_session *session = loop->session;
    *more = false;
    if (!loop->stream) return SHOAL_OK;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK && !worker_of(loop))
        status = base_fail(SHOAL_LOST, "the loop was lost with its hub");
    SHOAL_TRY(api_wait_begin(session, status));
    status = api_wait(session, has_news, loop);
    if (status == SHOAL_OK && !worker_stream_ready(session->worker, loop->stream))
        status = worker_state(session->worker);
    if (status == SHOAL_OK) status = take(loop, data, bytes, more);
    api_wait_end(session);
    return status;
}

uint64_t shoal_loop_rounds(shoal_loop *loop) {
    pthread_mutex_lock(&loop->session->lock);
    worker *w = worker_of(loop);
    uint64_t rounds = w && loop->stream ? worker_stream_rounds(w, loop->stream) : loop->rounds;
    pthread_mutex_unlock(&loop->session->lock);
    return rounds;
}

shoal_status shoal_loop_cancel(shoal_loop *loop) {
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.n_loops = 1;
    release.loops = &loop->value;
    pthread_mutex_lock(&loop->session->lock);
    worker *w = loop->value ? worker_of(loop) : NULL;
    shoal_status status = w ? worker_send(w, SHOAL__KIND__RELEASE, &release.base) : SHOAL_OK;
    pthread_mutex_unlock(&loop->session->lock);
    return status;
}

void shoal_loop_free(shoal_loop **out) {
    shoal_loop *loop = *out;
    *out = NULL;
    if (!loop) return;
    pthread_mutex_lock(&loop->session->lock);
    worker_stream_close(worker_of(loop), &loop->stream);
    if (loop->watched && worker_of(loop) && !base_vec_push(&loop->session->released, loop->watched))
        base_log(BASE_WARN, "client", "%s", shoal_error_message());
    pthread_mutex_unlock(&loop->session->lock);
    api_session_release(loop->session);
    free(loop->bytes);
    free(loop);
}
