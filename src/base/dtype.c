/* Element types and tensor types: the table of types.h and the arithmetic on shapes. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *mlir;
    uint8_t bytes;
    char kind;
} dtypes[] = {
#define XX(name, text, mlir, bytes, kind) {text, mlir, bytes, kind},
    SHOAL_DTYPE_MAP(XX)
#undef XX
};

const char *shoal_dtype_name(shoal_dtype dtype) {
    return (unsigned)dtype < SHOAL_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

const char *base_dtype_mlir(shoal_dtype dtype) {
    return (unsigned)dtype < SHOAL_DTYPE_COUNT ? dtypes[dtype].mlir : "?";
}

size_t shoal_dtype_size(shoal_dtype dtype) {
    return (unsigned)dtype < SHOAL_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

char shoal_dtype_kind(shoal_dtype dtype) {
    return (unsigned)dtype < SHOAL_DTYPE_COUNT ? dtypes[dtype].kind : 0;
}

shoal_status shoal_dtype_find(const char *name, shoal_dtype *out) {
    for (unsigned i = 0; i < SHOAL_DTYPE_COUNT; i++)
        if (!strcmp(name, dtypes[i].name) || !strcmp(name, dtypes[i].mlir)) {
            *out = (shoal_dtype)i;
            return SHOAL_OK;
        }
    return base_fail(SHOAL_INVALID,
                     "unknown element type '%s'; known: bool, int8 to int64, uint8 "
                     "to uint64, float16, bfloat16, float32, float64",
                     name);
}

shoal_status base_type_elements(const shoal_type *type, int64_t *out) {
    char text[BASE_TYPE_TEXT];
    if (type->dtype >= SHOAL_DTYPE_COUNT)
        return base_fail(SHOAL_INVALID, "element type %u does not exist", type->dtype);
    if (type->rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "rank %u is over the limit of %d", type->rank,
                         SHOAL_MAX_RANK);
    /* A zero-size tensor may not hide an overflow in its other dimensions. */
    int64_t bytes = dtypes[type->dtype].bytes, count = 1;
    for (unsigned i = 0; i < type->rank; i++) {
        int64_t dim = type->dims[i];
        if (dim < 0)
            return base_fail(SHOAL_INVALID, "shape %s has a negative dimension",
                             base_type_text(type, text));
        if (dim && base_mul_overflow(bytes, dim, &bytes))
            return base_fail(SHOAL_INVALID, "shape %s is larger than 2^63 bytes",
                             base_type_text(type, text));
        count *= dim;
    }
    *out = count;
    return SHOAL_OK;
}

int64_t base_type_count(const shoal_type *type) {
    int64_t count = 1;
    for (unsigned i = 0; i < type->rank; i++) count *= type->dims[i];
    return count;
}

int64_t base_type_bytes(const shoal_type *type) {
    return base_type_count(type) * (int64_t)dtypes[type->dtype].bytes;
}

bool base_type_equal(const shoal_type *a, const shoal_type *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]);
}

char *base_type_text(const shoal_type *type, char *out) {
    size_t used =
        (size_t)snprintf(out, BASE_TYPE_TEXT, "%s[", shoal_dtype_name((shoal_dtype)type->dtype));
    unsigned rank = type->rank < SHOAL_MAX_RANK ? type->rank : SHOAL_MAX_RANK;
    for (unsigned i = 0; i < rank; i++)
        used += (size_t)snprintf(out + used, BASE_TYPE_TEXT - used, i ? ", %lld" : "%lld",
                                 (long long)type->dims[i]);
    snprintf(out + used, BASE_TYPE_TEXT - used, "]");
    return out;
}

char *shoal_bytes_text(uint64_t bytes, char out[SHOAL_BYTES_ROOM]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 999.5 && unit < 6; unit++) value /= 1024;
    snprintf(out, SHOAL_BYTES_ROOM, "%.*f %s", unit > 0 && value < 99.95 ? 1 : 0, value,
             units[unit]);
    return out;
}
