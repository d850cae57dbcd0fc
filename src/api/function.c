/* Functions: what was recorded once, to be run with other operands without recording it again. */
#include "api/function.h"

#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static shoal_status note_operands(shoal_function *f, shoal_tensor *const *inputs, base_map *known) {
    char text[BASE_TYPE_TEXT];
    for (uint32_t i = 0; i < f->n_operands; i++) {
        const shoal_tensor *x = api_base(inputs[i]);
        f->operands[i] = inputs[i]->type;
        if (x->session != f->session)
            return base_fail(SHOAL_INVALID, "function: input %u belongs to another session", i);
        if (x->source) {
            f->fixed[i] = api_stored_retain(x->source);
            continue;
        }
        SHOAL_TRY(api_check_era(x));
        if (x->value == API_NO_VALUE)
            return base_fail(SHOAL_INVALID,
                             "function: input %u (%s) is recorded and has not been started; "
                             "shoal_start it first",
                             i, base_type_text(&inputs[i]->type, text));
        if (!base_map_get(known, x->value))
            SHOAL_TRY(base_map_set(known, x->value, (void *)((uintptr_t)i + 1)));
    }
    return SHOAL_OK;
}

/* values: the traced values of the results that are outputs of the graph. */
static shoal_status note_results(shoal_function *f, shoal_tensor *const *outputs,
                                 const base_map *known, uint32_t *values) {
    char text[BASE_TYPE_TEXT];
    for (uint32_t i = 0; i < f->n_results; i++) {
        const shoal_tensor *y = api_base(outputs[i]);
        api_result *r = &f->results[i];
        *r = (api_result){
            .type = outputs[i]->type, .signal = outputs[i]->signal, .shared = outputs[i]->shared};
        if (y->session != f->session)
            return base_fail(SHOAL_INVALID, "function: output %u belongs to another session", i);
        if (y->value == API_NO_VALUE && !y->gone) {
            r->index = f->n_outputs;
            SHOAL_TRY(api_trace_value(outputs[i], &values[f->n_outputs++]));
            continue;
        }
        uintptr_t at = y->gone ? 0 : (uintptr_t)base_map_get(known, y->value);
        if (!at)
            return base_fail(SHOAL_INVALID,
                             "function: output %u (%s) was not recorded since, nor is it an input",
                             i, base_type_text(&r->type, text));
        r->operand = true;
        r->index = (uint32_t)(at - 1);
    }
    return SHOAL_OK;
}

static shoal_status extract(shoal_function *f, const base_map *known, const uint32_t *values) {
    char text[BASE_TYPE_TEXT];
    const shoal_session *session = f->session;
    const shoal_graph *trace = graph_data(session->trace);
    f->used = calloc(trace->n_inputs + (size_t)1, sizeof *f->used);
    if (!f->used) return base_fail(SHOAL_NO_MEMORY, "no memory for a function");
    SHOAL_TRY(graph_extract_used(trace, values, f->n_outputs, f->graph, f->used));
    f->n_used = graph_data(f->graph)->n_inputs;
    for (uint32_t i = 0; i < f->n_used; i++) {
        uintptr_t at = (uintptr_t)base_map_get(known, session->input_values.data[f->used[i]]);
        if (!at)
            return base_fail(
                SHOAL_INVALID,
                "function: the outputs depend on a tensor (%s) that is not among the inputs",
                base_type_text(&trace->values[trace->inputs[f->used[i]]].type, text));
        f->used[i] = (uint32_t)(at - 1);
    }
    return SHOAL_OK;
}

static shoal_status record(shoal_function *f, shoal_tensor *const *inputs,
                           shoal_tensor *const *outputs) {
    base_map known;
    base_map_init(&known);
    uint32_t *values = calloc((size_t)f->n_results + 1, sizeof *values);
    shoal_status status =
        values ? graph_new(0, &f->graph) : base_fail(SHOAL_NO_MEMORY, "no memory for a function");
    if (status == SHOAL_OK) status = note_operands(f, inputs, &known);
    if (status == SHOAL_OK) status = note_results(f, outputs, &known, values);
    if (status == SHOAL_OK && f->n_outputs) status = extract(f, &known, values);
    if (status == SHOAL_OK) status = graph_encode(graph_data(f->graph), false, &f->key);
    if (status == SHOAL_OK)
        status = api_recorded_new(f->session->stored.data, f->session->stored.count, &f->graph,
                                  &f->recorded);
    free(values);
    base_map_fini(&known);
    return status;
}

static shoal_status allocate(shoal_session *session, uint32_t n_inputs, uint32_t n_outputs,
                             shoal_function **out) {
    shoal_function *f = *out = calloc(1, sizeof *f);
    if (!f) return base_fail(SHOAL_NO_MEMORY, "no memory for a function");
    base_str_init(&f->key);
    atomic_fetch_add(&session->refs, 1);
    *f = (shoal_function){.session = session,
                          .key = f->key,
                          .n_operands = n_inputs,
                          .n_results = n_outputs,
                          .operands = calloc((size_t)n_inputs + 1, sizeof *f->operands),
                          .fixed = calloc((size_t)n_inputs + 1, sizeof *f->fixed),
                          .donate = calloc((size_t)n_inputs + 1, sizeof *f->donate),
                          .results = calloc((size_t)n_outputs + 1, sizeof *f->results)};
    return f->operands && f->fixed && f->donate && f->results
               ? SHOAL_OK
               : base_fail(SHOAL_NO_MEMORY, "no memory for a function");
}

/* The pool that it is made for, the session's lock being held. */
static shoal_status note_pool(shoal_function *f) {
    SHOAL_TRY(api_check(f->session));
    f->era = f->session->era;
    f->epoch = worker_epoch(f->session->worker);
    return SHOAL_OK;
}

shoal_status shoal_function_new(shoal_session *session, shoal_tensor *const *inputs,
                                uint32_t n_inputs, shoal_tensor *const *outputs, uint32_t n_outputs,
                                shoal_function **out) {
    shoal_status status = allocate(session, n_inputs, n_outputs, out);
    shoal_function *f = *out;
    pthread_mutex_lock(&session->lock);
    if (status == SHOAL_OK) status = note_pool(f);
    if (status == SHOAL_OK) status = record(f, inputs, outputs);
    pthread_mutex_unlock(&session->lock);
    if (status != SHOAL_OK) shoal_function_free(out);
    return status;
}

/* Operands and results of a graph as those of a function; what is not needed is left out. */
static shoal_status take_graph(shoal_function *f, const shoal_graph *g) {
    uint32_t *outputs = calloc((size_t)g->n_outputs + 1, sizeof *outputs);
    f->used = calloc((size_t)g->n_inputs + 1, sizeof *f->used);
    shoal_status status = outputs && f->used
                              ? graph_new(0, &f->graph)
                              : base_fail(SHOAL_NO_MEMORY, "no memory for a function");
    for (uint32_t i = 0; i < g->n_outputs && status == SHOAL_OK; i++) {
        const shoal_value *value = &g->values[g->outputs[i]];
        bool operand = value->node == SHOAL_NO_NODE;
        f->results[i] = (api_result){.type = value->type, .operand = operand};
        f->results[i].index = operand ? value->index : f->n_outputs;
        if (!operand) outputs[f->n_outputs++] = g->outputs[i];
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) f->operands[i] = g->values[g->inputs[i]].type;
    if (status == SHOAL_OK)
        status = graph_extract_used(g, outputs, f->n_outputs, f->graph, f->used);
    if (status == SHOAL_OK) f->n_used = graph_data(f->graph)->n_inputs;
    free(outputs);
    return status;
}

shoal_status api_function_of(shoal_session *session, const shoal_graph *g, shoal_function **out) {
    shoal_status status = allocate(session, g->n_inputs, g->n_outputs, out);
    shoal_function *f = *out;
    pthread_mutex_lock(&session->lock);
    if (status == SHOAL_OK) status = note_pool(f);
    if (status == SHOAL_OK) status = take_graph(f, g);
    pthread_mutex_unlock(&session->lock);
    if (status == SHOAL_OK) status = graph_encode(graph_data(f->graph), false, &f->key);
    if (status == SHOAL_OK) status = api_recorded_new(NULL, 0, &f->graph, &f->recorded);
    if (status != SHOAL_OK) shoal_function_free(out);
    return status;
}

void shoal_function_free(shoal_function **out) {
    shoal_function *f = *out;
    *out = NULL;
    if (!f) return;
    graph_destroy(&f->graph);
    api_recorded_release(f->recorded);
    base_str_fini(&f->key);
    for (uint32_t i = 0; f->fixed && i < f->n_operands; i++) api_stored_release(f->fixed[i]);
    free(f->fixed);
    free(f->operands);
    free(f->used);
    free(f->donate);
    free(f->results);
    api_session_release(f->session);
    free(f);
}

/* ---- running ---- */

shoal_status api_function_check(const shoal_function *f, shoal_tensor *const *inputs,
                                const bool *feeds) {
    char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
    for (uint32_t i = 0; i < f->n_operands; i++) {
        const shoal_tensor *x = inputs[i];
        if (x->session != f->session)
            return base_fail(SHOAL_INVALID, "function: input %u belongs to another session", i);
        if (!(feeds && feeds[i]) && !base_type_equal(&x->type, &f->operands[i]))
            return base_fail(SHOAL_INVALID, "function: input %u is %s; it was recorded with %s", i,
                             base_type_text(&x->type, a), base_type_text(&f->operands[i], b));
        if (f->fixed[i] && api_base(inputs[i])->source != f->fixed[i])
            return base_fail(SHOAL_INVALID,
                             "function: input %u was %s when it was recorded; with another tensor "
                             "it has to be recorded anew",
                             i, f->fixed[i]->name);
    }
    return SHOAL_OK;
}

static shoal_status bind(const shoal_function *f, shoal_tensor *const *inputs, uint64_t *values) {
    for (uint32_t i = 0; i < f->n_used; i++) {
        const shoal_tensor *x = api_base(inputs[f->used[i]]);
        SHOAL_TRY(api_check_era(x));
        if (x->value == API_NO_VALUE)
            return x->source
                       ? base_fail(SHOAL_INVALID,
                                   "function: input %u is %s, which is read from a file; it "
                                   "was recorded with a tensor that was not, and has to be "
                                   "recorded anew",
                                   f->used[i], x->source->name)
                       : base_fail(SHOAL_INTERNAL, "function: input %u has no value", f->used[i]);
        values[i] = x->value;
    }
    return SHOAL_OK;
}

/* ---- donation ---- */

shoal_status shoal_function_donate(shoal_function *f, uint32_t input, shoal_donate when) {
    if (input >= f->n_operands)
        return base_fail(SHOAL_INVALID, "function: there is no input %u to donate, only %u", input,
                         f->n_operands);
    f->donate[input] = (uint8_t)(when + 1);
    return SHOAL_OK;
}

/* Whether the run reads a value by another input as well. */
static bool is_twice(const shoal_function *f, shoal_tensor *const *inputs, uint32_t at,
                     uint64_t value) {
    for (uint32_t i = 0; i < f->n_operands; i++)
        if (i != at && api_base(inputs[i])->value == value) return true;
    return false;
}

/* An operand that is a result as it stands has to stay. */
static bool is_result(const shoal_function *f, uint32_t operand) {
    for (uint32_t i = 0; i < f->n_results; i++)
        if (f->results[i].operand && f->results[i].index == operand) return true;
    return false;
}

/* The value is let go of with the message that runs the function. */
static shoal_status donate_one(const shoal_function *f, shoal_tensor *const *inputs, uint32_t i,
                               bool repeated) {
    shoal_tensor *x = api_base(inputs[i]);
    if (x->source) return SHOAL_OK; /* it holds nothing */
    bool asked = f->donate[i] == SHOAL_DONATE_ALWAYS + 1;
    bool shared = is_twice(f, inputs, i, x->value) || (!repeated && is_result(f, i));
    if (asked && shared)
        return base_fail(SHOAL_INVALID,
                         "function: input %u is donated, and is another input or a result as well",
                         i);
    /* A handle of the value, or one that stands for that and holds it alone, as a leaf does. */
    bool alone = atomic_load(&x->refs) == 1 && atomic_load(&inputs[i]->refs) == 1;
    if (shared || (!asked && !alone)) return SHOAL_OK;
    if (!base_vec_push(&f->session->released, x->value)) return SHOAL_NO_MEMORY;
    x->donated = true;
    return SHOAL_OK;
}

shoal_status api_function_give(const shoal_function *f, shoal_tensor *const *inputs,
                               const bool *feeds) {
    for (uint32_t i = 0; i < f->n_operands; i++)
        if (f->donate[i] && !(feeds && feeds[i]))
            SHOAL_TRY(donate_one(f, inputs, i, feeds != NULL));
    return SHOAL_OK;
}

void api_function_given(const shoal_function *f, shoal_tensor *const *inputs, bool sent) {
    for (uint32_t i = 0; i < f->n_operands; i++) {
        shoal_tensor *x = api_base(inputs[i]);
        if (!f->donate[i] || !x->donated) continue;
        x->donated = sent;
        if (sent) x->value = API_NO_VALUE;
    }
}

shoal_status shoal_tensor_donate(shoal_tensor *tensor) {
    shoal_session *session = tensor->session;
    pthread_mutex_lock(&session->lock);
    shoal_tensor *x = api_base(tensor);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK && x->source) { /* it holds nothing */
        pthread_mutex_unlock(&session->lock);
        return SHOAL_OK;
    }
    if (status == SHOAL_OK) status = api_room(session); /* which tells what was given back */
    if (status == SHOAL_OK) status = api_check_era(x);
    /* With the message of what still reads it, which may then write over it; what has no value yet
     * gets it there. */
    bool there = x->value != API_NO_VALUE;
    if (status == SHOAL_OK && there && !base_vec_push(&session->released, x->value))
        status = SHOAL_NO_MEMORY;
    if (status == SHOAL_OK) status = api_flush(session, NULL, NULL, 0, NULL);
    if (status == SHOAL_OK && !there && !base_vec_push(&session->released, x->value))
        status = SHOAL_NO_MEMORY;
    for (size_t i = session->released.count; status != SHOAL_OK && there && i > 0; i--)
        if (session->released.data[i - 1] == x->value)
            session->released.data[i - 1] = session->released.data[--session->released.count];
    if (status == SHOAL_OK) {
        x->donated = true;
        x->value = API_NO_VALUE;
    }
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* ---- handles and messages ---- */

static shoal_status make_handles(const shoal_function *f, shoal_tensor *const *inputs,
                                 shoal_tensor **outputs) {
    for (uint32_t i = 0; i < f->n_results; i++) {
        const api_result *r = &f->results[i];
        SHOAL_TRY(r->operand ? api_alias(inputs[r->index], &outputs[i])
                             : api_tensor_alloc(f->session, &r->type, &outputs[i]));
        outputs[i]->signal = r->signal;
        outputs[i]->shared = r->shared;
    }
    return SHOAL_OK;
}

static shoal_status send(const shoal_function *f, shoal_tensor *const *inputs,
                         shoal_tensor **outputs) {
    shoal_session *session = f->session;
    api_submission s = {.message = SHOAL__SUBMIT__INIT,
                        .inputs = calloc((size_t)f->n_used + 1, sizeof *s.inputs),
                        .outputs = calloc((size_t)f->n_outputs + 1, sizeof *s.outputs)};
    shoal_status status = s.inputs && s.outputs
                              ? bind(f, inputs, s.inputs)
                              : base_fail(SHOAL_NO_MEMORY, "no memory to run a function");
    if (status == SHOAL_OK) {
        s.message.inputs = s.inputs;
        s.message.n_inputs = f->n_used;
        s.message.outputs = s.outputs;
        s.message.n_outputs = f->n_outputs;
        for (uint32_t i = 0; i < f->n_outputs; i++) s.outputs[i] = session->next_value++;
        size_t released = session->released.count;
        status = api_function_give(f, inputs, NULL);
        if (status == SHOAL_OK) status = api_submission_send(session, f->recorded, &f->key, &s);
        if (status != SHOAL_OK) session->released.count = released;
        api_function_given(f, inputs, status == SHOAL_OK);
    }
    for (uint32_t i = 0; status == SHOAL_OK && i < f->n_results; i++) {
        if (f->results[i].operand) continue;
        outputs[i]->value = s.outputs[f->results[i].index];
        outputs[i]->program = s.message.program;
    }
    api_submission_fini(&s);
    return status;
}

/* What is recorded goes first: operands may be among it. */
static shoal_status run(const shoal_function *f, shoal_tensor *const *inputs,
                        shoal_tensor **outputs) {
    shoal_session *session = f->session;
    SHOAL_TRY(api_check(session));
    SHOAL_TRY(api_function_check(f, inputs, NULL));
    SHOAL_TRY(api_room(session));
    api_drain(session);
    if (session->pending.count) SHOAL_TRY(api_flush(session, NULL, NULL, 0, NULL));
    SHOAL_TRY(make_handles(f, inputs, outputs));
    return f->n_outputs ? send(f, inputs, outputs) : SHOAL_OK;
}

shoal_status shoal_function_run(shoal_function *f, shoal_tensor *const *inputs,
                                shoal_tensor **outputs) {
    memset(outputs, 0, f->n_results * sizeof *outputs);
    pthread_mutex_lock(&f->session->lock);
    shoal_status status = run(f, inputs, outputs);
    pthread_mutex_unlock(&f->session->lock);
    for (uint32_t i = 0; i < f->n_results && status != SHOAL_OK; i++)
        shoal_tensor_free(&outputs[i]);
    return status;
}

bool shoal_function_uses(const shoal_function *f, uint32_t input) {
    if (f->fixed[input]) return true;
    for (uint32_t i = 0; i < f->n_used; i++)
        if (f->used[i] == input) return true;
    for (uint32_t i = 0; i < f->n_results; i++)
        if (f->results[i].operand && f->results[i].index == input) return true;
    return false;
}

bool shoal_function_is_current(const shoal_function *f) {
    pthread_mutex_lock(&f->session->lock);
    bool current = !f->session->closed && f->era == f->session->era &&
                   f->epoch == worker_epoch(f->session->worker);
    pthread_mutex_unlock(&f->session->lock);
    return current;
}

uint64_t shoal_tensor_value(const shoal_tensor *x) {
    pthread_mutex_lock(&x->session->lock);
    const shoal_tensor *base = x->base ? x->base : x;
    uint64_t value = base->source ? base->source->number : base->value;
    pthread_mutex_unlock(&x->session->lock);
    return value;
}

bool shoal_tensor_from_file(const shoal_tensor *x) { return (x->base ? x->base : x)->source; }
