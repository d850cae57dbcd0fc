#include "backend/common.h"

#include "base/box.h"
#include "base/fence.h"
#include "graph/graph.h"

shoal_status backend_wait_all(const shoal_points *points) {
    for (size_t i = 0; points && i < points->n_wait; i++) {
        shoal_status status = base_fence_wait(points->wait[i], UINT32_MAX);
        while (status == SHOAL_TIMEOUT && !base_fence_reached(points->wait[i]))
            status = base_fence_wait(points->wait[i], UINT32_MAX);
        SHOAL_TRY(status);
    }
    return SHOAL_OK;
}

shoal_status backend_signal_all(const shoal_points *points, shoal_status status) {
    for (size_t i = 0; points && i < points->n_signal; i++)
        base_fence_signal(points->signal[i], status, status ? shoal_error_message() : NULL);
    return status;
}

shoal_status backend_cannot_run(const char *backend, const shoal_node *node) {
    if (node->op != GRAPH_CUSTOM)
        return base_fail(SHOAL_UNSUPPORTED, "%s: cannot run operation '%s'", backend,
                         shoal_op_name(node->op));
    return base_fail(SHOAL_UNSUPPORTED,
                     "%s: there is no operation '%.64s' here: list the plug-in that has it in "
                     "SHOAL_BACKENDS, and start the process again",
                     backend, shoal_node_attr(node, SHOAL_ATTR_NAME)->u.string);
}

backend_span backend_host_span(const void *data) {
    return (backend_span){.data = (void *)data, .size = SIZE_MAX};
}

shoal_status backend_bind(backend_span span, size_t bytes, size_t align, const char *what,
                          size_t index, void **out) {
    if (span.offset > span.size || span.size - span.offset < bytes)
        return base_fail(SHOAL_INVALID,
                         "%s %zu needs %zu bytes from %zu on, but its memory has %zu bytes", what,
                         index, bytes, span.offset, span.size);
    char *at = (char *)span.data + span.offset;
    if (bytes && (uintptr_t)at % align)
        return base_fail(SHOAL_INVALID,
                         "%s %zu is not aligned to its elements of %zu bytes; copy it to memory "
                         "that is",
                         what, index, align);
    *out = at;
    return SHOAL_OK;
}

/* Whether a box lies inside its tensor; *bytes becomes the size of the tensor. */
static shoal_status check_box(const shoal_box *box, const int64_t *dims, const int64_t *starts,
                              const char *what, size_t *bytes) {
    size_t total = box->element_bytes;
    if (box->rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "copy %s: rank %u is over the limit of %d", what, box->rank,
                         SHOAL_MAX_RANK);
    for (uint32_t i = 0; i < box->rank; i++) {
        int64_t dim = dims[i], start = starts[i], size = box->size[i];
        if (dim < 0 || start < 0 || size < 0 || start > dim || size > dim - start)
            return base_fail(SHOAL_INVALID, "copy %s: %lld+%lld is outside axis %u of %lld", what,
                             (long long)start, (long long)size, i, (long long)dim);
        if (base_mul_overflow(total, (size_t)dim, &total))
            return base_fail(SHOAL_INVALID, "copy %s: the tensor is larger than memory", what);
    }
    *bytes = total;
    return SHOAL_OK;
}

static shoal_status bind_box(backend_span to, backend_span from, const shoal_box *box,
                             void **target, void **source) {
    size_t bytes;
    SHOAL_TRY(check_box(box, box->to_dims, box->to_start, "target", &bytes));
    SHOAL_TRY(backend_bind(to, bytes, 1, "copy: target", 0, target));
    SHOAL_TRY(check_box(box, box->from_dims, box->from_start, "source", &bytes));
    return backend_bind(from, bytes, 1, "copy: source", 0, source);
}

shoal_status backend_check_box(backend_span to, backend_span from, const shoal_box *box) {
    void *target, *source;
    return bind_box(to, from, box, &target, &source);
}

static shoal_status copy_box(backend_span to, backend_span from, const shoal_box *box) {
    void *target = NULL, *source = NULL;
    SHOAL_TRY(bind_box(to, from, box, &target, &source));
    base_box_copy(target, box->to_dims, box->to_start, source, box->from_dims, box->from_start,
                  box->rank, box->size, box->element_bytes);
    return SHOAL_OK;
}

shoal_status backend_copy_box(backend_span to, backend_span from, const shoal_box *box,
                              const shoal_points *points) {
    shoal_status status = backend_wait_all(points);
    if (status == SHOAL_OK) status = copy_box(to, from, box);
    return backend_signal_all(points, status);
}
