/* The tape: how tensors that want gradients came to be, and what users say about that.
 *
 * An operation on such tensors is noted after it has been recorded, as an origin: number of the
 * operation, attributes, bodies, operands. Handles to its results hold the origin, which holds the
 * operands, so that the tape lasts as long as somebody may ask for gradients through it. Results
 * are not held (that would be a circle): whoever asks reaches them as operands of what follows.
 *
 * What has been computed is not computed again for gradients, if they read it: such operands and
 * results stay. The rest is held for its origin alone and need not be there (shoal_tensor.links);
 * src/api/backward.c makes it anew in the rare case that it has to. */
#include "api/state.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local int mode = SHOAL_GRADIENTS_ON;

int *api_mode(void) { return &mode; }

shoal_gradient_mode shoal_gradients_mode(void) { return (shoal_gradient_mode)mode; }

shoal_gradient_mode shoal_set_gradients(shoal_gradient_mode to) {
    shoal_gradient_mode was = (shoal_gradient_mode)mode;
    mode = to;
    return was;
}

/* ---- origins ---- */

static bool is_float(const shoal_tensor *tensor) {
    return shoal_dtype_kind((shoal_dtype)tensor->type.dtype) == 'f';
}

static uint64_t bit(uint32_t i) { return UINT64_C(1) << (i < 63 ? i : 63); }

/* Bytes of what an attribute points to. */
static size_t attr_bytes(const shoal_attr *attr) {
    switch (attr->kind) {
    case SHOAL_ATTR_KIND_INTS: return attr->count * sizeof(int64_t);
    case SHOAL_ATTR_KIND_STRING: return attr->count + (size_t)1;
    case SHOAL_ATTR_KIND_BYTES: return attr->count;
    default: return 0;
    }
}

static size_t rounded(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

/* What an origin takes of its one block of memory. */
static void *take(char **at, size_t bytes) {
    void *start = *at;
    *at += rounded(bytes);
    return start;
}

static void link_in(shoal_session *session, api_origin *origin) {
    origin->number = ++session->next_origin;
    origin->next = session->origins;
    if (origin->next) origin->next->previous = origin;
    session->origins = origin;
}

static shoal_status copy_bodies(api_origin *origin, const shoal_graph *const *regions) {
    for (uint16_t r = 0; r < origin->n_regions; r++) {
        const shoal_graph *from = regions[r];
        SHOAL_TRY(graph_new(0, &origin->bodies[r]));
        SHOAL_TRY(graph_extract(from, from->inputs, from->n_inputs, from->outputs, from->n_outputs,
                                origin->bodies[r]));
    }
    return SHOAL_OK;
}

/* An origin without its operands and results. */
static api_origin *new_origin(uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                              uint16_t n_regions, uint16_t n_outputs, const char *location) {
    size_t bytes = rounded(sizeof(api_origin)) + rounded(n_inputs * sizeof(void *)) +
                   rounded(n_outputs * sizeof(void *)) + rounded(n_attrs * sizeof *attrs) +
                   rounded(n_regions * sizeof(void *));
    size_t text = location ? strlen(location) + 1 : 0;
    for (uint16_t i = 0; i < n_attrs; i++) bytes += rounded(attr_bytes(&attrs[i]));
    char *at = calloc(1, bytes + rounded(text));
    if (!at) {
        base_fail(SHOAL_NO_MEMORY, "no memory to note an operation");
        return NULL;
    }
    api_origin *origin = take(&at, sizeof *origin);
    origin->n_inputs = n_inputs;
    origin->n_outputs = n_outputs;
    origin->n_attrs = n_attrs;
    origin->n_regions = n_regions;
    origin->inputs = take(&at, n_inputs * sizeof(void *));
    origin->outputs = take(&at, n_outputs * sizeof(void *));
    origin->bodies = take(&at, n_regions * sizeof(void *));
    shoal_attr *copies = take(&at, n_attrs * sizeof *attrs);
    origin->attrs = copies;
    for (uint16_t i = 0; i < n_attrs; i++) {
        copies[i] = attrs[i];
        size_t size = attr_bytes(&attrs[i]);
        if (!size) continue;
        copies[i].u.bytes = memcpy(take(&at, size), attrs[i].u.bytes, size);
    }
    if (text) origin->location = memcpy(take(&at, text), location, text);
    return origin;
}

/* Whether operand i is held for its origin alone. */
static bool is_link(const api_origin *origin, uint32_t reads, uint32_t i,
                    const shoal_tensor *input) {
    if (!input->origin || input->base || !is_float(input)) return false;
    bool inside = origin->again && !input->origin->leaf && input->origin->again;
    return inside || !(reads & GRAPH_READS(i));
}

static void hold_operands(api_origin *origin, shoal_tensor *const *inputs, uint32_t reads) {
    for (uint32_t i = 0; i < origin->n_inputs; i++) {
        origin->inputs[i] = shoal_tensor_retain(inputs[i]);
        if (i >= 63 || !is_link(origin, reads, i, inputs[i])) continue;
        origin->links |= bit(i);
        inputs[i]->links++;
    }
}

/* What the gradient reads of a call, whose types are those of the handles. */
static uint32_t reads_of(uint16_t op, const shoal_graph *const *regions, uint16_t n_regions) {
    graph_call call = {.op = op, .n_regions = n_regions, .regions = regions};
    return graph_reads_of(&call);
}

shoal_status api_note(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                      uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                      const shoal_graph *const *regions, uint16_t n_regions, const char *at,
                      shoal_tensor *const *outputs, uint16_t n_outputs) {
    bool passes = false;
    for (uint16_t o = 0; o < n_outputs; o++) passes = passes || is_float(outputs[o]);
    if (mode == SHOAL_GRADIENTS_OFF || !passes || !graph_is_smooth(op)) return SHOAL_OK;
    api_origin *origin = new_origin(n_inputs, attrs, n_attrs, n_regions, n_outputs, at);
    if (!origin) return SHOAL_NO_MEMORY;
    origin->op = op;
    origin->again = mode == SHOAL_GRADIENTS_AGAIN;
    const api_scope *scope = api_scope_now();
    origin->backward = scope ? scope->backward : NULL;
    link_in(session, origin);
    uint32_t reads = reads_of(op, regions, n_regions);
    hold_operands(origin, inputs, reads);
    for (uint16_t o = 0; o < n_outputs; o++) {
        origin->outputs[o] = outputs[o];
        if (is_float(outputs[o])) {
            outputs[o]->origin = origin;
            outputs[o]->result = o;
            outputs[o]->saved = !origin->again && (reads & GRAPH_READS_RESULTS);
            origin->refs++;
        } else {
            shoal_tensor_retain(outputs[o]);
        }
    }
    return copy_bodies(origin, regions);
}

void api_origin_spend(api_origin *origin) {
    if (origin->leaf || origin->spent) return;
    origin->spent = true;
    for (uint32_t i = 0; i < origin->n_inputs; i++) {
        if (i < 63 && (origin->links & bit(i))) origin->inputs[i]->links--;
        shoal_tensor_free(&origin->inputs[i]);
    }
    for (uint16_t o = 0; o < origin->n_outputs; o++)
        if (origin->outputs[o] && !origin->outputs[o]->origin)
            shoal_tensor_free(&origin->outputs[o]);
    for (uint16_t r = 0; r < origin->n_regions; r++) graph_destroy(&origin->bodies[r]);
}

void api_origin_release(shoal_session *session, shoal_tensor *tensor) {
    api_origin *origin = tensor->origin;
    tensor->origin = NULL;
    if (tensor->result < origin->n_outputs && origin->outputs[tensor->result] == tensor)
        origin->outputs[tensor->result] = NULL;
    if (--origin->refs) return;
    api_origin_spend(origin);
    if (origin->next) origin->next->previous = origin->previous;
    *(origin->previous ? &origin->previous->next : &session->origins) = origin->next;
    free(origin);
}

/* ---- what users say ---- */

static const char *origin_name(const api_origin *origin) {
    return origin->leaf ? "leaf" : shoal_op_name(origin->op);
}

shoal_status api_origin_leaf(shoal_session *session, shoal_tensor *tensor) {
    api_origin *origin = new_origin(0, NULL, 0, 0, 0, NULL);
    if (!origin) return SHOAL_NO_MEMORY;
    origin->leaf = true;
    origin->watched = 1;
    origin->refs = 1;
    link_in(session, origin);
    tensor->origin = origin;
    tensor->result = 0;
    return SHOAL_OK;
}

static shoal_status require(shoal_tensor *x, bool required) {
    char text[BASE_TYPE_TEXT];
    SHOAL_TRY(api_check(x->session));
    if (x->origin && !x->origin->leaf) {
        if (required) return SHOAL_OK;
        return base_fail(SHOAL_INVALID,
                         "requires_grad: this is a result of %s; only of leaves can it be taken "
                         "away; use detach",
                         origin_name(x->origin));
    }
    if (required && !is_float(x))
        return base_fail(SHOAL_INVALID,
                         "requires_grad: only tensors of floating-point types have gradients, not "
                         "%s",
                         base_type_text(&x->type, text));
    if (required && !x->origin) return api_origin_leaf(x->session, x);
    if (!required && x->origin) api_origin_release(x->session, x);
    return SHOAL_OK;
}

shoal_status shoal_tensor_require_gradient(shoal_tensor *x, bool required) {
    pthread_mutex_lock(&x->session->lock);
    shoal_status status = require(x, required);
    pthread_mutex_unlock(&x->session->lock);
    return status;
}

bool shoal_tensor_requires_gradient(const shoal_tensor *x) { return x->origin != NULL; }

bool shoal_tensor_is_leaf(const shoal_tensor *x) { return !x->origin || x->origin->leaf; }

const char *shoal_tensor_origin(const shoal_tensor *x) {
    return shoal_tensor_is_leaf(x) ? NULL : shoal_op_name(x->origin->op);
}

uint64_t shoal_tensor_identity(const shoal_tensor *x) {
    return x->origin ? x->origin->number << 6 | x->result : 0;
}

shoal_status shoal_tensor_watch_gradient(shoal_tensor *x) {
    if (!x->origin)
        return base_fail(SHOAL_INVALID, "retain_grad: this tensor does not require gradients");
    pthread_mutex_lock(&x->session->lock);
    x->origin->watched |= bit(x->result);
    pthread_mutex_unlock(&x->session->lock);
    return SHOAL_OK;
}

/* ---- other handles to a value ---- */

shoal_status api_alias(shoal_tensor *x, shoal_tensor **out) {
    SHOAL_TRY(api_tensor_alloc(x->session, &x->type, out));
    (*out)->base = shoal_tensor_retain(api_base(x));
    (*out)->signal = x->signal;
    (*out)->shared = x->shared;
    return SHOAL_OK;
}

shoal_status shoal_detach(shoal_tensor *x, shoal_tensor **out) {
    *out = NULL;
    pthread_mutex_lock(&x->session->lock);
    shoal_status status = api_check(x->session);
    if (status == SHOAL_OK) status = api_batch_detach(x, out);
    pthread_mutex_unlock(&x->session->lock);
    return status;
}

static shoal_status assign(shoal_tensor **x, shoal_tensor *value) {
    char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
    shoal_tensor *was = *x, *now = NULL;
    SHOAL_TRY(api_check(was->session));
    if (!base_type_equal(&was->type, &value->type) || was->session != value->session)
        return base_fail(SHOAL_INVALID, "in place: %s cannot become %s",
                         base_type_text(&was->type, a), base_type_text(&value->type, b));
    if (api_base(value)->level > api_base(was)->level)
        return base_fail(SHOAL_INVALID,
                         "vmap: in place, %s, which is the same for all indices, cannot become "
                         "another for each",
                         base_type_text(&was->type, a));
    bool leaf = was->origin && was->origin->leaf;
    if (leaf && mode != SHOAL_GRADIENTS_OFF)
        return base_fail(SHOAL_INVALID,
                         "in place: %s is a leaf that requires gradients; change it under no_grad",
                         base_type_text(&was->type, a));
    /* A parameter stays where a signal has placed it. */
    if (leaf && was->signal && was->signal != value->signal) {
        const api_scope scope = {.name = was->signal};
        shoal_tensor *placed;
        SHOAL_TRY(api_scope_adopt(&scope, value, &placed));
        shoal_status status = api_alias(placed, &now);
        shoal_tensor_free(&placed);
        SHOAL_TRY(status);
        now->signal = was->signal;
    } else {
        SHOAL_TRY(api_alias(value, &now));
        now->signal = leaf ? was->signal : value->signal;
    }
    const shoal_tensor *of = leaf || mode == SHOAL_GRADIENTS_OFF ? was : value;
    if (of->origin) {
        now->origin = of->origin;
        now->result = of->result;
        now->origin->refs++;
    }
    shoal_tensor_free(x);
    *x = now;
    return SHOAL_OK;
}

shoal_status shoal_tensor_assign(shoal_tensor **x, shoal_tensor *value) {
    shoal_session *session = (*x)->session;
    pthread_mutex_lock(&session->lock);
    shoal_status status = assign(x, value);
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* ---- what it holds ---- */

static void tell_origin(const api_origin *origin, uint64_t *numbers,
                        void (*each)(void *context, const shoal_tape_entry *entry), void *context) {
    shoal_tape_entry entry = {.number = origin->number,
                              .op = shoal_op_name(origin->op),
                              .inputs = numbers,
                              .location = origin->location};
    for (uint16_t i = 0; i < origin->n_outputs && !entry.type; i++)
        if (origin->outputs[i]) entry.type = &origin->outputs[i]->type;
    for (uint32_t i = 0; i < origin->n_inputs; i++)
        if (origin->inputs[i] && origin->inputs[i]->origin)
            numbers[entry.n_inputs++] = origin->inputs[i]->origin->number;
    if (entry.type) each(context, &entry);
}

shoal_status shoal_tape_each(shoal_session *session,
                             void (*each)(void *context, const shoal_tape_entry *entry),
                             void *context) {
    pthread_mutex_lock(&session->lock);
    api_drain(session);
    const api_origin *oldest = session->origins;
    uint32_t most = 1;
    for (const api_origin *o = session->origins; o; o = o->next) {
        oldest = o;
        if (o->n_inputs > most) most = o->n_inputs;
    }
    uint64_t *numbers = malloc(most * sizeof *numbers);
    for (const api_origin *o = oldest; numbers && o; o = o->previous)
        if (!o->leaf && !o->spent) tell_origin(o, numbers, each, context);
    pthread_mutex_unlock(&session->lock);
    if (!numbers) return base_fail(SHOAL_NO_MEMORY, "no memory to list the tape");
    free(numbers);
    return SHOAL_OK;
}
