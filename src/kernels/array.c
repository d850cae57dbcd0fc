/* Strides: see array.h. */
#include "kernels/array.h"

#include <stdlib.h>
#include <string.h>

void kernels_strides(const shoal_array *a, const shoal_type *type, int64_t *out) {
    int64_t dense = base_type_count(type) > 0; /* of no elements, none is used */
    for (uint32_t i = type->rank; i-- > 0;) {
        out[i] = a->strides ? a->strides[i] : dense;
        dense *= type->dims[i];
    }
}

shoal_status kernels_check(const char *name, const char *what, uint32_t index,
                           const shoal_array *array, shoal_type *type) {
    if (!array) return base_fail(SHOAL_INVALID, "%s: %s %u is missing", name, what, index);
    if (array->rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "%s: %s %u has %u axes; at most %d are possible", name,
                         what, index, array->rank, SHOAL_MAX_RANK);
    size_t size = shoal_dtype_size(array->dtype);
    if (!size)
        return base_fail(SHOAL_INVALID, "%s: the element type %d of %s %u does not exist", name,
                         (int)array->dtype, what, index);
    *type = (shoal_type){.dtype = (uint8_t)array->dtype, .rank = (uint8_t)array->rank};
    if (array->rank && !array->dims)
        return base_fail(SHOAL_INVALID, "%s: %s %u has no dims", name, what, index);
    for (uint32_t i = 0; i < array->rank; i++) type->dims[i] = array->dims[i];
    int64_t count, bytes, reach = 0;
    shoal_status status = base_type_elements(type, &count);
    if (status) return base_fail_prefix(status, "%s: %s %u: ", name, what, index);
    if (!count) return SHOAL_OK;
    int64_t strides[SHOAL_MAX_RANK];
    kernels_strides(array, type, strides);
    for (uint32_t i = 0; i < array->rank; i++) {
        int64_t far, stride = strides[i];
        if (stride == INT64_MIN || base_mul_overflow(llabs(stride), array->dims[i] - 1, &far) ||
            base_add_overflow(reach, far, &reach))
            return base_fail(SHOAL_INVALID, "%s: stride %lld of axis %u of %s %u is too large",
                             name, (long long)stride, i, what, index);
    }
    if (base_add_overflow(reach, 1, &reach) || base_mul_overflow(reach, (int64_t)size, &bytes))
        return base_fail(SHOAL_INVALID, "%s: %s %u reaches over more bytes than there are", name,
                         what, index);
    if (!array->data) return base_fail(SHOAL_INVALID, "%s: %s %u has no data", name, what, index);
    return SHOAL_OK;
}

void kernels_view_dense(void *data, const shoal_type *type, kernels_view *out) {
    *out = (kernels_view){.data = data, .block = *type, .plain = true};
    for (uint32_t i = 0; i < type->rank; i++) out->axis[i] = (uint8_t)i;
}

static bool is_dense(const int64_t *strides, const shoal_type *type) {
    int64_t next = 1;
    for (uint32_t i = type->rank; i-- > 0;) {
        if (type->dims[i] != 1 && strides[i] != next) return false;
        next *= type->dims[i];
    }
    return true;
}

bool kernels_view_of(const shoal_array *a, const shoal_type *type, kernels_view *out) {
    size_t size = shoal_dtype_size(a->dtype);
    char *data = a->data;
    kernels_view_dense(data, type, out);
    if (!base_type_count(type)) return true;
    if ((uintptr_t)data % size) return false;
    int64_t given[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];
    kernels_strides(a, type, given);
    if (is_dense(given, type)) return true;
    *out = (kernels_view){.block = {.dtype = type->dtype}};
    uint32_t n = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t stride = given[i];
        if (type->dims[i] == 1 || !stride) continue;
        if (stride < 0) data += stride * (type->dims[i] - 1) * (int64_t)size;
        uint32_t at = n++;
        for (; at && strides[at - 1] < llabs(stride); at--) {
            strides[at] = strides[at - 1];
            out->axis[at] = out->axis[at - 1];
            out->backwards[at] = out->backwards[at - 1];
        }
        strides[at] = llabs(stride);
        out->axis[at] = (uint8_t)i;
        out->backwards[at] = stride < 0;
    }
    int64_t next = 1;
    for (uint32_t i = n; i-- > 0;) {
        if (strides[i] != next) return false;
        out->block.dims[i] = type->dims[out->axis[i]];
        next *= out->block.dims[i];
    }
    out->block.rank = (uint8_t)n;
    out->data = data;
    return true;
}

bool kernels_overlaps_itself(const shoal_array *a, const shoal_type *type) {
    /* Sorted, each stride has to lead past all that the smaller ones reach. That refuses some
     * arrays without two elements in one place, which nobody makes. */
    int64_t given[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK], dims[SHOAL_MAX_RANK], reach = 1;
    uint32_t n = 0;
    if (!base_type_count(type)) return false;
    kernels_strides(a, type, given);
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t stride = llabs(given[i]);
        if (type->dims[i] == 1) continue;
        uint32_t at = n++;
        for (; at && strides[at - 1] > stride; at--) {
            strides[at] = strides[at - 1];
            dims[at] = dims[at - 1];
        }
        strides[at] = stride;
        dims[at] = type->dims[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (strides[i] < reach) return true;
        reach += strides[i] * (dims[i] - 1);
    }
    return false;
}

void kernels_range(const shoal_array *a, const shoal_type *type, const char **begin,
                   const char **end) {
    int64_t size = (int64_t)shoal_dtype_size(a->dtype), low = 0, high = size;
    *begin = *end = a->data;
    if (!base_type_count(type)) return;
    int64_t strides[SHOAL_MAX_RANK];
    kernels_strides(a, type, strides);
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t far = strides[i] * (type->dims[i] - 1) * size;
        *(far < 0 ? &low : &high) += far;
    }
    *begin += low;
    *end += high;
}

/* ---- copies ---- */

typedef struct copying {
    size_t size; /* of an element */
    uint32_t rank;
    int64_t dims[SHOAL_MAX_RANK];
    int64_t from[SHOAL_MAX_RANK], to[SHOAL_MAX_RANK]; /* strides in bytes */
} copying;

#define COPY_ROW(bytes)                                                                            \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * stride_to, from + i * stride_from, bytes)

static void copy_row(const copying *c, const char *from, char *to, int64_t n, int64_t stride_from,
                     int64_t stride_to) {
    if (stride_from == (int64_t)c->size && stride_to == stride_from)
        memcpy(to, from, (size_t)n * c->size);
    else if (c->size == 1)
        COPY_ROW(1);
    else if (c->size == 2)
        COPY_ROW(2);
    else if (c->size == 4)
        COPY_ROW(4);
    else
        COPY_ROW(8);
}

static void copy(const copying *c, uint32_t axis, const char *from, char *to) {
    if (axis + 1 >= c->rank) {
        int64_t n = c->rank ? c->dims[axis] : 1;
        copy_row(c, from, to, n, c->rank ? c->from[axis] : 0, c->rank ? c->to[axis] : 0);
        return;
    }
    for (int64_t i = 0; i < c->dims[axis]; i++)
        copy(c, axis + 1, from + i * c->from[axis], to + i * c->to[axis]);
}

static void between(const shoal_array *array, const shoal_type *type, void *dense, bool out) {
    copying c = {.size = shoal_dtype_size(array->dtype), .rank = type->rank};
    const shoal_array plain = {.rank = type->rank};
    int64_t far[SHOAL_MAX_RANK], near[SHOAL_MAX_RANK];
    if (!base_type_count(type)) return;
    kernels_strides(array, type, far);
    kernels_strides(&plain, type, near);
    for (uint32_t i = 0; i < type->rank; i++) {
        c.dims[i] = type->dims[i];
        c.from[i] = (out ? near : far)[i] * (int64_t)c.size;
        c.to[i] = (out ? far : near)[i] * (int64_t)c.size;
    }
    if (out)
        copy(&c, 0, dense, array->data);
    else
        copy(&c, 0, array->data, dense);
}

void kernels_gather(const shoal_array *from, const shoal_type *type, void *to) {
    between(from, type, to, false);
}

void kernels_scatter(const void *from, const shoal_type *type, const shoal_array *to) {
    between(to, type, (void *)from, true);
}
