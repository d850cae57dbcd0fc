/* Calls, and what has been compiled for them: see run.h. */
#include "kernels/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kernels/device.h"

enum { MOST_KEPT = 256, ALIGN = 64 };

typedef struct kernel {
    char *key;
    size_t key_bytes;
    shoal_executable *executable;
    shoal_type outputs[GRAPH_MAX_JOINED];
    int32_t in_place[GRAPH_MAX_JOINED];
    uint64_t used; /* when it was, last */
} kernel;

static uint64_t calls;

static void free_kernel(kernels_device *d, kernel *k) {
    if (!k) return;
    d->backend->executable_free(d->device, k->executable);
    free(k->key);
    free(k);
}

void kernels_free_all(kernels_device *d) {
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&d->kernels, &at, &key, &value)) free_kernel(d, value);
}

/* ---- compiling ---- */

typedef struct operand {
    shoal_type type;
    kernels_view view;
    void *copy; /* dense, of what cannot be used where it lies; NULL: none */
} operand;

typedef struct running {
    const kernels_call *call;
    kernels_device *on;
    operand inputs[KERNELS_MOST_INPUTS];
    operand outputs[GRAPH_MAX_JOINED];
    shoal_binding bindings[KERNELS_MOST_INPUTS + GRAPH_MAX_JOINED];
    uint32_t n_bound;
} running;

static void add_attr(base_str *key, const shoal_attr *attr) {
    base_str_bytes(key, &attr->key, sizeof attr->key);
    base_str_bytes(key, &attr->count, sizeof attr->count);
    if (attr->kind == SHOAL_ATTR_KIND_INTS)
        base_str_bytes(key, attr->u.ints, attr->count * sizeof *attr->u.ints);
    else if (attr->kind == SHOAL_ATTR_KIND_STRING)
        base_str_bytes(key, attr->u.string, attr->count);
    else if (attr->kind == SHOAL_ATTR_KIND_BYTES)
        base_str_bytes(key, attr->u.bytes, attr->count);
    else
        base_str_bytes(key, &attr->u, sizeof attr->u.i);
}

/* What a kernel depends on. */
static shoal_status key_of(const running *r, base_str *key) {
    const kernels_call *call = r->call;
    base_str_bytes(key, &call->build, sizeof call->build);
    base_str_bytes(key, &call->op, sizeof call->op);
    base_str_bytes(key, &call->n_inputs, sizeof call->n_inputs);
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        const operand *o = &r->inputs[i];
        base_str_bytes(key, &o->type.dtype, 1);
        base_str_bytes(key, &o->type.rank, 1);
        base_str_bytes(key, o->type.dims, o->type.rank * sizeof *o->type.dims);
        base_str_bytes(key, &o->view.plain, 1);
        base_str_bytes(key, &o->view.block.rank, 1);
        base_str_bytes(key, o->view.axis, o->view.block.rank);
        base_str_bytes(key, o->view.backwards, o->view.block.rank * sizeof *o->view.backwards);
    }
    for (uint16_t i = 0; i < call->n_attrs; i++) add_attr(key, &call->attrs[i]);
    return base_str_status(key);
}

/* The value of an operand, from that of its block. */
static shoal_status undo_view(graph *g, const operand *o, uint32_t *value) {
    const kernels_view *view = &o->view;
    uint32_t rank = view->block.rank;
    int64_t reversed[SHOAL_MAX_RANK], permutation[SHOAL_MAX_RANK], axes[SHOAL_MAX_RANK];
    uint32_t n_reversed = 0, n = 0;
    if (view->plain) return SHOAL_OK;
    for (uint32_t i = 0; i < rank; i++)
        if (view->backwards[i]) reversed[n_reversed++] = i;
    for (uint32_t axis = 0; axis < o->type.rank; axis++)
        for (uint32_t i = 0; i < rank; i++) {
            if (view->axis[i] != axis) continue;
            permutation[n] = i;
            axes[n++] = axis;
        }
    shoal_attr back = graph_ints(SHOAL_ATTR_DIMENSIONS, reversed, n_reversed);
    shoal_attr turn = graph_ints(SHOAL_ATTR_PERMUTATION, permutation, rank);
    shoal_attr spread[] = {graph_ints(SHOAL_ATTR_BROADCAST_DIMENSIONS, axes, rank),
                           graph_ints(SHOAL_ATTR_SHAPE, o->type.dims, o->type.rank)};
    if (n_reversed) SHOAL_TRY(graph_add(g, GRAPH_REVERSE, value, 1, &back, 1, NULL, 0, value));
    SHOAL_TRY(graph_add(g, GRAPH_TRANSPOSE, value, 1, &turn, 1, NULL, 0, value));
    return graph_add(g, GRAPH_BROADCAST_IN_DIM, value, 1, spread, 2, NULL, 0, value);
}

static shoal_status build(const running *r, graph *g) {
    uint32_t inputs[KERNELS_MOST_INPUTS], outputs[GRAPH_MAX_JOINED];
    for (uint32_t i = 0; i < r->call->n_inputs; i++) {
        SHOAL_TRY(graph_add_input(g, &r->inputs[i].view.block, &inputs[i]));
        SHOAL_TRY(undo_view(g, &r->inputs[i], &inputs[i]));
    }
    SHOAL_TRY(r->call->build(r->call, g, inputs, outputs));
    for (uint32_t i = 0; i < r->call->n_outputs; i++) SHOAL_TRY(graph_add_output(g, outputs[i]));
    return SHOAL_OK;
}

static bool supports(void *context, const shoal_graph *g, const shoal_node *node) {
    const kernels_device *d = context;
    return d->backend->supports(d->device, g, node);
}

static shoal_status compile(kernels_device *d, const graph *g, kernel *k) {
    shoal_compile_options options = {.size = sizeof options};
    shoal_compile_report report = {.size = sizeof report, .in_place = k->in_place};
    const shoal_graph *data = graph_data(g);
    for (uint32_t i = 0; i < data->n_outputs; i++)
        k->outputs[i] = data->values[data->outputs[i]].type;
    graph *plain;
    SHOAL_TRY(graph_expand(data, supports, d, &plain));
    shoal_status status =
        d->backend->compile(d->device, graph_data(plain), &options, &report, &k->executable);
    graph_destroy(&plain);
    return status;
}

static kernel *least_used(const kernels_device *d, uint64_t *hash) {
    kernel *least = NULL;
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&d->kernels, &at, &key, &value)) {
        kernel *k = value;
        if (least && k->used > least->used) continue;
        least = k;
        *hash = key;
    }
    return least;
}

/* Keeps a kernel in the place of the one that was used longest ago. */
static shoal_status keep(kernels_device *d, uint64_t hash, kernel *k) {
    uint64_t old;
    free_kernel(d, base_map_remove(&d->kernels, hash));
    if (d->kernels.count >= MOST_KEPT && least_used(d, &old))
        free_kernel(d, base_map_remove(&d->kernels, old));
    return base_map_set(&d->kernels, hash, k);
}

static shoal_status new_kernel(const running *r, base_str *key, uint64_t hash, kernel **out) {
    graph *g = NULL;
    kernel *k = *out = calloc(1, sizeof *k);
    if (!k) return base_fail(SHOAL_NO_MEMORY, "%s: no memory for a kernel", r->call->name);
    shoal_status status = graph_new(0, &g);
    if (!status) status = build(r, g);
    if (!status) status = compile(r->on, g, k);
    graph_destroy(&g);
    if (!status) {
        k->key = base_str_take(key, &k->key_bytes);
        status = keep(r->on, hash, k);
    }
    if (status) free_kernel(r->on, k);
    return status;
}

static shoal_status find_kernel(const running *r, kernel **out) {
    base_str key;
    base_str_init(&key);
    shoal_status status = key_of(r, &key);
    uint64_t hash = status ? 0 : base_hash(key.data, key.size);
    kernel *k = *out = base_map_get(&r->on->kernels, hash);
    if (!status && !(k && k->key_bytes == key.size && !memcmp(k->key, key.data, key.size)))
        status = new_kernel(r, &key, hash, out);
    base_str_fini(&key);
    if (!status) (*out)->used = ++calls;
    return status;
}

/* ---- running ---- */

static shoal_status copy_of(const kernels_call *call, operand *o) {
    size_t bytes = (size_t)base_type_bytes(&o->type);
    o->copy = aligned_alloc(ALIGN, (bytes + ALIGN) / ALIGN * ALIGN);
    if (!o->copy)
        return base_fail(SHOAL_NO_MEMORY, "%s: no memory for a copy of %zu bytes", call->name,
                         bytes);
    kernels_view_dense(o->copy, &o->type, &o->view);
    return SHOAL_OK;
}

static shoal_status check_inputs(running *r) {
    const kernels_call *call = r->call;
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        operand *o = &r->inputs[i];
        SHOAL_TRY(kernels_check(call->name, "operand", i, &call->inputs[i], &o->type));
        if (kernels_view_of(&call->inputs[i], &o->type, &o->view)) continue;
        SHOAL_TRY(copy_of(call, o));
        kernels_gather(&call->inputs[i], &o->type, o->copy);
    }
    return SHOAL_OK;
}

static bool meet(const char *begin, const char *end, const char *from, const char *to) {
    return begin < to && from < end;
}

/* Whether a result may be written where it lies, while operands are read. */
static bool is_apart(const running *r, const kernel *k, uint32_t index) {
    const operand *o = &r->outputs[index];
    const char *begin, *end, *from, *to;
    kernels_range(&r->call->outputs[index], &o->type, &begin, &end);
    for (uint32_t i = 0; i < r->call->n_inputs; i++) {
        const operand *in = &r->inputs[i];
        kernels_range(&r->call->inputs[i], &in->type, &from, &to);
        if (in->copy || !meet(begin, end, from, to)) continue;
        bool same = in->view.data == o->view.data &&
                    base_type_bytes(&in->view.block) == base_type_bytes(&o->type);
        if (!same || k->in_place[index] != (int32_t)i) return false;
    }
    return true;
}

static shoal_status check_output(running *r, const kernel *k, uint32_t index) {
    const kernels_call *call = r->call;
    const shoal_array *array = &call->outputs[index];
    operand *o = &r->outputs[index];
    char got[BASE_TYPE_TEXT], wanted[BASE_TYPE_TEXT];
    const char *begin, *end, *from, *to;
    SHOAL_TRY(kernels_check(call->name, "result", index, array, &o->type));
    if (!base_type_equal(&o->type, &k->outputs[index]))
        return base_fail(SHOAL_INVALID, "%s: result %u is %s; give an array of %s", call->name,
                         index, base_type_text(&o->type, got),
                         base_type_text(&k->outputs[index], wanted));
    if (kernels_overlaps_itself(array, &o->type))
        return base_fail(SHOAL_INVALID,
                         "%s: elements of result %u have one place; give an array without strides "
                         "of 0",
                         call->name, index);
    kernels_range(array, &o->type, &begin, &end);
    for (uint32_t i = 0; i < index; i++) {
        kernels_range(&call->outputs[i], &r->outputs[i].type, &from, &to);
        if (meet(begin, end, from, to))
            return base_fail(SHOAL_INVALID, "%s: results %u and %u overlap; give two arrays",
                             call->name, i, index);
    }
    return SHOAL_OK;
}

static shoal_status bind(running *r, void *data, const shoal_type *type, bool read) {
    size_t bytes = (size_t)base_type_bytes(type);
    SHOAL_TRY(kernels_device_bind(r->on, data, bytes, read, &r->bindings[r->n_bound]));
    r->n_bound++;
    return SHOAL_OK;
}

/* Where each result goes: to its array, or to memory that is copied there. */
static shoal_status place_outputs(running *r, const kernel *k) {
    const kernels_call *call = r->call;
    for (uint32_t i = 0; i < call->n_outputs; i++) SHOAL_TRY(check_output(r, k, i));
    for (uint32_t i = 0; i < call->n_outputs; i++) {
        operand *o = &r->outputs[i];
        bool there = kernels_view_of(&call->outputs[i], &o->type, &o->view) && o->view.plain;
        if (there && (!kernels_device_is_host(r->on) || is_apart(r, k, i))) continue;
        SHOAL_TRY(copy_of(call, o));
    }
    return SHOAL_OK;
}

static shoal_status run(running *r) {
    const kernels_call *call = r->call;
    kernel *k;
    SHOAL_TRY(check_inputs(r));
    SHOAL_TRY(find_kernel(r, &k));
    SHOAL_TRY(place_outputs(r, k));
    for (uint32_t i = 0; i < call->n_inputs; i++)
        SHOAL_TRY(bind(r, r->inputs[i].view.data, &r->inputs[i].view.block, true));
    for (uint32_t i = 0; i < call->n_outputs; i++)
        SHOAL_TRY(bind(r, r->outputs[i].view.data, &r->outputs[i].type, false));
    SHOAL_TRY(kernels_device_run(r->on, k->executable, r->bindings, r->n_bound));
    for (uint32_t i = 0; i < call->n_outputs; i++) {
        const operand *o = &r->outputs[i];
        SHOAL_TRY(kernels_device_fetch(r->on, r->bindings[call->n_inputs + i], o->view.data,
                                       (size_t)base_type_bytes(&o->type)));
    }
    return SHOAL_OK;
}

shoal_status kernels_run(const kernels_call *call) {
    if (call->n_inputs > KERNELS_MOST_INPUTS || call->n_outputs > GRAPH_MAX_JOINED)
        return base_fail(SHOAL_INVALID, "%s: %u operands and %u results; at most %d and %d fit",
                         call->name, call->n_inputs, call->n_outputs, KERNELS_MOST_INPUTS,
                         GRAPH_MAX_JOINED);
    running *r = calloc(1, sizeof *r);
    if (!r) return base_fail(SHOAL_NO_MEMORY, "%s: no memory for a call", call->name);
    r->call = call;
    kernels_lock();
    shoal_status status = kernels_device_open(&r->on);
    if (!status) {
        status = run(r);
        shoal_status then = kernels_device_wait(r->on);
        status = status ? status : then;
    }
    for (uint32_t i = 0; i < r->n_bound; i++)
        r->on->backend->memory_free(r->on->device, r->bindings[i].memory);
    kernels_unlock();
    for (uint32_t i = 0; i < call->n_outputs && !status; i++)
        if (r->outputs[i].copy)
            kernels_scatter(r->outputs[i].copy, &r->outputs[i].type, &call->outputs[i]);
    for (uint32_t i = 0; i < call->n_inputs; i++) free(r->inputs[i].copy);
    for (uint32_t i = 0; i < call->n_outputs; i++) free(r->outputs[i].copy);
    free(r);
    return status;
}
