/* Handles, and the trace: operations recorded until something is read. */
#include "api/state.h"

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
    shoal_tensor *tensor = NULL;
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
    shoal_tensor_free(&tensor->whole);
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
    api_stored_release(tensor->source);
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
    if (tensor->source) return api_stored_value(session, tensor->source, value);
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

/* Gradients of loops ask for such numbers when the trace that stated them has gone. */
static void note_number(uint16_t op, const shoal_attr *attrs, uint16_t n_attrs, shoal_tensor *out) {
    shoal_dtype dtype = (shoal_dtype)out->type.dtype;
    char kind = shoal_dtype_kind(dtype);
    if (op != GRAPH_CONSTANT || out->type.rank || (kind != 'i' && kind != 'u')) return;
    for (uint16_t i = 0; i < n_attrs; i++)
        if (attrs[i].key == SHOAL_ATTR_VALUE)
            memcpy(&out->whole_number, attrs[i].u.bytes, shoal_dtype_size(dtype));
    out->is_number = true;
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
    if (n_outputs && status == SHOAL_OK) note_number(op, attrs, n_attrs, outputs[0]);
    bool noted = false;
    for (uint32_t i = 0; i < n_inputs && status == SHOAL_OK; i++)
        noted |= inputs[i]->origin != NULL;
    if (noted)
        status = api_note(session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions, at,
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
    uint32_t level = api_batch_level(inputs, n_inputs);
    if (level) {
        const graph_call call = {op, n_inputs, NULL, n_attrs, attrs, n_regions, regions};
        return api_batch_apply(session, level, &call, inputs, at, name, outputs, n_outputs);
    }
    return scope && op != GRAPH_PLACE
               ? apply_in(scope, session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions,
                          at, name, outputs, n_outputs)
               : record(session, op, inputs, n_inputs, attrs, n_attrs, regions, n_regions, at, name,
                        outputs, n_outputs);
}
