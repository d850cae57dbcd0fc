#include "base/box.h"

#include <string.h>

base_box base_box_whole(uint32_t rank, const int64_t *dims) {
    base_box box = {.rank = rank};
    memcpy(box.size, dims, rank * sizeof *dims);
    return box;
}

int64_t base_box_count(const base_box *box) {
    int64_t count = 1;
    for (uint32_t i = 0; i < box->rank; i++) count *= box->size[i];
    return count;
}

bool base_box_intersect(const base_box *a, const base_box *b, base_box *out) {
    out->rank = a->rank;
    bool some = true;
    for (uint32_t i = 0; i < a->rank; i++) {
        int64_t from = a->start[i] > b->start[i] ? a->start[i] : b->start[i];
        int64_t a_end = a->start[i] + a->size[i], b_end = b->start[i] + b->size[i];
        int64_t to = a_end < b_end ? a_end : b_end;
        out->start[i] = from;
        out->size[i] = to > from ? to - from : 0;
        some = some && to > from;
    }
    return some;
}

/* A box seen as rows of adjacent bytes: trailing axes that are taken whole melt into the row. */
typedef struct rows {
    uint32_t rank; /* axes outside the row */
    int64_t size[SHOAL_MAX_RANK];
    int64_t stride[SHOAL_MAX_RANK]; /* in bytes */
    size_t row;                     /* bytes of a row */
    size_t base;                    /* byte of the box's first element */
} rows;

static rows rows_of(const int64_t *dims, const int64_t *start, const int64_t *size, uint32_t rank,
                    size_t element_bytes) {
    rows r = {.row = element_bytes};
    int64_t stride = (int64_t)element_bytes;
    int64_t strides[SHOAL_MAX_RANK];
    for (uint32_t i = rank; i-- > 0; stride *= dims[i]) {
        strides[i] = stride;
        r.base += (size_t)(start[i] * stride);
    }
    uint32_t inner = rank;
    while (inner > 0) {
        inner--;
        r.row *= (size_t)size[inner];
        if (size[inner] != dims[inner]) break;
    }
    r.rank = inner;
    for (uint32_t i = 0; i < inner; i++) {
        r.size[i] = size[i];
        r.stride[i] = strides[i];
    }
    return r;
}

/* The byte at which row number `index` begins. */
static size_t row_at(const rows *r, int64_t index) {
    size_t at = r->base;
    for (uint32_t i = r->rank; i-- > 0;) {
        at += (size_t)((index % r->size[i]) * r->stride[i]);
        index /= r->size[i];
    }
    return at;
}

/* Calls for each piece of the stream range: `tensor byte, stream byte, length`. */
#define EACH_PIECE(r, offset, bytes, at, done, length, body)                                       \
    for (size_t done = 0, length; done < (bytes); done += length) {                                \
        size_t into_ = ((offset) + done) % (r).row;                                                \
        length = (r).row - into_;                                                                  \
        if (length > (bytes)-done) length = (bytes)-done;                                          \
        size_t at = row_at(&(r), (int64_t)(((offset) + done) / (r).row)) + into_;                  \
        body;                                                                                      \
    }

void base_box_gather(void *stream, const void *tensor, const int64_t *dims, const base_box *box,
                     size_t element_bytes, size_t offset, size_t bytes) {
    rows r = rows_of(dims, box->start, box->size, box->rank, element_bytes);
    EACH_PIECE(r, offset, bytes, at, done, length,
               memcpy((char *)stream + done, (const char *)tensor + at, length));
}

void base_box_scatter(void *tensor, const void *stream, const int64_t *dims, const base_box *box,
                      size_t element_bytes, size_t offset, size_t bytes) {
    rows r = rows_of(dims, box->start, box->size, box->rank, element_bytes);
    EACH_PIECE(r, offset, bytes, at, done, length,
               memcpy((char *)tensor + at, (const char *)stream + done, length));
}

void base_box_copy(void *to, const int64_t *to_dims, const int64_t *to_start, const void *from,
                   const int64_t *from_dims, const int64_t *from_start, uint32_t rank,
                   const int64_t *size, size_t element_bytes) {
    rows a = rows_of(to_dims, to_start, size, rank, element_bytes);
    rows b = rows_of(from_dims, from_start, size, rank, element_bytes);
    size_t bytes = element_bytes;
    for (uint32_t i = 0; i < rank; i++) bytes *= (size_t)size[i];
    size_t row = a.row < b.row ? a.row : b.row; /* one divides the other */
    for (size_t done = 0; done < bytes; done += row)
        memcpy((char *)to + row_at(&a, (int64_t)(done / a.row)) + done % a.row,
               (const char *)from + row_at(&b, (int64_t)(done / b.row)) + done % b.row, row);
}
