/* Where the elements of a tensor, or of a box of it, lie in its file; and copies of them. */
#include "model/file.h"

#include <string.h>

enum { PAGE = 4096 };

/* Bytes from an element to the next along each axis. */
static void strides_of(const model_tensor *t, const shoal_type *stored, int64_t *strides) {
    int64_t step = (int64_t)shoal_dtype_size((shoal_dtype)stored->dtype);
    for (uint32_t a = stored->rank; a-- > 0; step *= stored->dims[a])
        strides[a] = t->strided ? t->strides[a] : step;
}

/* Elements [first, first + count) of a box, counted row by row, from anywhere in any byte order. */
static void copy_elements(const uint8_t *from, const int64_t *strides, const base_box *box,
                          size_t size, bool swapped, uint64_t first, uint64_t count, uint8_t *to) {
    for (uint64_t i = 0; i < count; i++, to += size) {
        const uint8_t *at = from;
        uint64_t rest = first + i;
        for (uint32_t a = box->rank; a-- > 0; rest /= (uint64_t)box->size[a])
            at += (int64_t)(rest % (uint64_t)box->size[a]) * strides[a];
        for (size_t b = 0; b < size; b++) to[b] = at[swapped ? size - 1 - b : b];
    }
}

void model_read_plain(const shoal_file *file, const model_tensor *t, uint64_t first, uint64_t count,
                      void *to) {
    size_t size = t->encoding->bytes;
    const uint8_t *from = file->data + t->offset;
    if (!t->swapped && !t->strided) {
        memcpy(to, from + first * size, count * size);
        return;
    }
    int64_t strides[SHOAL_MAX_RANK];
    base_box whole = base_box_whole(t->type.rank, t->type.dims);
    strides_of(t, &t->type, strides);
    copy_elements(from, strides, &whole, size, t->swapped, first, count, to);
}

static shoal_status check_box(const shoal_file *file, const model_tensor *t,
                              const shoal_type *stored, const base_box *box) {
    bool fits = box->rank == stored->rank;
    for (uint32_t a = 0; fits && a < box->rank; a++)
        fits = box->start[a] >= 0 && box->size[a] >= 0 && box->start[a] <= stored->dims[a] &&
               box->size[a] <= stored->dims[a] - box->start[a];
    if (fits) return SHOAL_OK;
    char text[BASE_TYPE_TEXT];
    return base_fail(SHOAL_INVALID, "%s: a box of rank %u that is not inside '%s', %s", file->path,
                     box->rank, t->name, base_type_text(stored, text));
}

shoal_status model_file_region(const shoal_file *file, uint64_t index, const base_box *box,
                               model_region *out) {
    const model_tensor *t = &file->tensors[index];
    shoal_type stored = model_stored_type(t);
    int64_t size = (int64_t)shoal_dtype_size((shoal_dtype)stored.dtype);
    SHOAL_TRY(check_box(file, t, &stored, box));
    *out = (model_region){.offset = t->offset, .swapped = t->swapped, .dense = true};
    out->bytes = (uint64_t)(base_box_count(box) * size);
    strides_of(t, &stored, out->strides);
    int64_t expected = size;
    for (uint32_t a = box->rank; a-- > 0;) {
        /* An axis of one element may be stepped through in any way. */
        if (out->bytes && box->size[a] > 1 && out->strides[a] != expected) out->dense = false;
        expected *= box->size[a];
        if (out->bytes) out->offset += (uint64_t)(box->start[a] * out->strides[a]);
    }
    out->alignment = PAGE;
    while (out->offset % out->alignment) out->alignment /= 2;
    return SHOAL_OK;
}

shoal_status model_file_copy(const shoal_file *file, uint64_t index, const base_box *box,
                             void *to) {
    const model_tensor *t = &file->tensors[index];
    shoal_type stored = model_stored_type(t);
    size_t size = shoal_dtype_size((shoal_dtype)stored.dtype);
    model_region region;
    SHOAL_TRY(model_file_region(file, index, box, &region));
    if (!t->swapped && !t->strided)
        base_box_gather(to, file->data + t->offset, stored.dims, box, size, 0, region.bytes);
    else if (region.bytes)
        copy_elements(file->data + region.offset, region.strides, box, size, region.swapped, 0,
                      region.bytes / size, to);
    return SHOAL_OK;
}
