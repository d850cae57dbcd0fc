#include "backend/common.h"

#include "base/box.h"
#include "base/fence.h"

shoal_status backend_wait_all(const shoal_point *points, size_t n_points) {
    for (size_t i = 0; i < n_points; i++) SHOAL_TRY(base_fence_wait(points[i], BACKEND_WAIT_MS));
    return SHOAL_OK;
}

shoal_status backend_signal_all(const shoal_point *points, size_t n_points, shoal_status status) {
    for (size_t i = 0; i < n_points; i++)
        base_fence_signal(points[i], status, status ? shoal_error_message() : NULL);
    return status;
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
static shoal_status check_region(const shoal_region *region, uint32_t rank, const int64_t *size,
                                 size_t element_bytes, const char *what, size_t *bytes) {
    size_t total = element_bytes;
    if (rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "copy %s: rank %u is over the limit of %d", what, rank,
                         SHOAL_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t dim = region->dims[i], start = region->start[i];
        if (dim < 0 || start < 0 || size[i] < 0 || start > dim || size[i] > dim - start)
            return base_fail(SHOAL_INVALID, "copy %s: %lld+%lld is outside axis %u of %lld", what,
                             (long long)start, (long long)size[i], i, (long long)dim);
        if (base_mul_overflow(total, (size_t)dim, &total))
            return base_fail(SHOAL_INVALID, "copy %s: the tensor is larger than memory", what);
    }
    *bytes = total;
    return SHOAL_OK;
}

shoal_status backend_copy_box(backend_span to, const shoal_region *to_region, backend_span from,
                              const shoal_region *from_region, uint32_t rank, const int64_t *size,
                              size_t element_bytes) {
    size_t bytes;
    void *target = NULL, *source = NULL;
    SHOAL_TRY(check_region(to_region, rank, size, element_bytes, "target", &bytes));
    SHOAL_TRY(backend_bind(to, bytes, 1, "copy: target", 0, &target));
    SHOAL_TRY(check_region(from_region, rank, size, element_bytes, "source", &bytes));
    SHOAL_TRY(backend_bind(from, bytes, 1, "copy: source", 0, &source));
    base_box_copy(target, to_region->dims, to_region->start, source, from_region->dims,
                  from_region->start, rank, size, element_bytes);
    return SHOAL_OK;
}
