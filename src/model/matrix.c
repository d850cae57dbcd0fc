/* .bin: one matrix as the nodes of Cluster Matrix keep it: 32-bit integers, then elements in
 * row-major order, all little-endian. Version 1: the number of axes, their lengths, float32.
 * Version 2: -1, -2 or -3 for float32, float16 or bfloat16, then batch, depth, rows and columns.
 * Nothing in it says what it is but that its size is the one that its header tells. */
#include "model/file.h"

#include <string.h>

enum { VERSION_2_AXES = 4, LEAST_AXES = 2 };

static const shoal_dtype kinds[] = {SHOAL_F32, SHOAL_F16, SHOAL_BF16}; /* -1, -2, -3 */
enum { KINDS = sizeof kinds / sizeof *kinds };

static int32_t number(const shoal_file *file, uint64_t i) {
    const uint8_t *d = file->data + 4 * i;
    return (int32_t)((uint32_t)d[0] | (uint32_t)d[1] << 8 | (uint32_t)d[2] << 16 |
                     (uint32_t)d[3] << 24);
}

/* The number of axes, and the type of elements; 0: this is no such file. */
static uint32_t axes_of(const shoal_file *file, shoal_dtype *dtype) {
    int32_t first = file->bytes >= 4 ? number(file, 0) : 0;
    bool is_kind = first < 0 && first >= -KINDS;
    *dtype = is_kind ? kinds[-1 - first] : SHOAL_F32;
    if (is_kind) return VERSION_2_AXES;
    return first > 0 && first <= SHOAL_MAX_RANK ? (uint32_t)first : 0;
}

static shoal_status read_header(const shoal_file *file, model_tensor *t) {
    shoal_dtype dtype;
    uint32_t axes = axes_of(file, &dtype), skip = 0;
    int64_t count;
    t->offset = 4 * (uint64_t)(axes + 1);
    if (file->bytes < t->offset)
        return base_fail(SHOAL_FORMAT, "%s is cut off inside its header", file->path);
    for (uint32_t i = 0; i < axes; i++)
        if (number(file, i + 1) < 0)
            return base_fail(SHOAL_FORMAT, "%s: axis %u has the length %d", file->path, i,
                             number(file, i + 1));
    /* Matrices of fewer axes are stored with ones before them. */
    while (axes - skip > LEAST_AXES && number(file, skip + 1) == 1) skip++;
    t->name = "";
    t->type = (shoal_type){.dtype = (uint8_t)dtype, .rank = (uint8_t)(axes - skip)};
    for (uint32_t i = 0; i < t->type.rank; i++) t->type.dims[i] = number(file, skip + i + 1);
    if (base_type_elements(&t->type, &count) != SHOAL_OK)
        return base_fail_prefix(SHOAL_FORMAT, "%s: ", file->path);
    t->encoding = model_encoding_plain(dtype);
    t->bytes = (uint64_t)base_type_bytes(&t->type);
    if (t->bytes != file->bytes - t->offset)
        return base_fail(SHOAL_FORMAT,
                         "%s is damaged: %llu bytes of elements are there, %llu are needed",
                         file->path, (unsigned long long)(file->bytes - t->offset),
                         (unsigned long long)t->bytes);
    return SHOAL_OK;
}

/* By its name too, so that one that is damaged is told what is wrong with it. */
bool model_is_matrix(const shoal_file *file) {
    shoal_dtype dtype;
    model_tensor t;
    if (!axes_of(file, &dtype)) return false;
    return !strcmp(model_ending(file->path), ".bin") || read_header(file, &t) == SHOAL_OK;
}

shoal_status model_matrix_open(shoal_file *file) {
    model_tensor *t = base_arena_array(&file->arena, model_tensor, 1);
    if (!t) return SHOAL_NO_MEMORY;
    SHOAL_TRY(read_header(file, t));
    file->tensors = t;
    file->n_tensors = 1;
    return SHOAL_OK;
}

/* ---- writing ---- */

static void put_number(base_str *out, int64_t n) {
    uint32_t bits = (uint32_t)n;
    char bytes[4] = {(char)bits, (char)(bits >> 8), (char)(bits >> 16), (char)(bits >> 24)};
    base_str_bytes(out, bytes, sizeof bytes);
}

shoal_status model_matrix_header(const shoal_type *type, base_str *out) {
    int kind = 0;
    while (kind < KINDS && kinds[kind] != (shoal_dtype)type->dtype) kind++;
    if (kind == KINDS)
        return base_fail(SHOAL_UNSUPPORTED,
                         "a .bin holds float32, float16 or bfloat16, not %s; convert it first",
                         shoal_dtype_name((shoal_dtype)type->dtype));
    if (type->rank < LEAST_AXES || type->rank > VERSION_2_AXES)
        return base_fail(SHOAL_UNSUPPORTED, "a .bin holds 2 to 4 axes, not %u; reshape it first",
                         type->rank);
    /* Readers of version 1 alone can read float32 so, and those of both. */
    put_number(out, kind ? -1 - kind : VERSION_2_AXES);
    for (uint32_t i = 0; i < VERSION_2_AXES; i++) {
        uint32_t ones = VERSION_2_AXES - type->rank;
        int64_t dim = i < ones ? 1 : type->dims[i - ones];
        if (dim > INT32_MAX)
            return base_fail(SHOAL_UNSUPPORTED, "a .bin has no axis of length %lld",
                             (long long)dim);
        put_number(out, dim);
    }
    return base_str_status(out);
}
