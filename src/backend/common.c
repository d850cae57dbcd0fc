#include "backend/common.h"

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

shoal_status backend_bind(void *base, size_t size, size_t offset, size_t bytes, size_t align,
                          const char *what, size_t index, void **out) {
    if (offset > size || size - offset < bytes)
        return base_fail(SHOAL_INVALID,
                         "%s %zu needs %zu bytes from %zu on, but its memory has %zu bytes", what,
                         index, bytes, offset, size);
    char *at = (char *)base + offset;
    if (bytes && (uintptr_t)at % align)
        return base_fail(SHOAL_INVALID,
                         "%s %zu is not aligned to its elements of %zu bytes; copy it to memory "
                         "that is",
                         what, index, align);
    *out = at;
    return SHOAL_OK;
}

shoal_status backend_check_region(const shoal_region *region, uint32_t rank, const int64_t *size,
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
