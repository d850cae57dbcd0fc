/* Failing with a message. A function that fails returns `base_fail(SHOAL_INVALID, "what: value;
 * what to do")`; its callers pass the status on with SHOAL_TRY. The message is kept per thread. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "shoal/types.h"

/* Records the message and returns `status`. `status` must not be SHOAL_OK. */
shoal_status base_fail(shoal_status status, const char *format, ...) SHOAL_PRINTF(2, 3);
/* Puts text before the recorded message ("reading a.npy: ") and returns `status`. */
shoal_status base_fail_prefix(shoal_status status, const char *format, ...) SHOAL_PRINTF(2, 3);
/* As base_fail, with strerror(error) appended. */
shoal_status base_fail_errno(int error, const char *format, ...) SHOAL_PRINTF(2, 3);

#define SHOAL_TRY(expression)                                                                      \
    do {                                                                                           \
        shoal_status try_status_ = (expression);                                                   \
        if (try_status_ != SHOAL_OK) return try_status_;                                           \
    } while (0)

/* Checked arithmetic for sizes from outside: true on overflow, as __builtin_*_overflow. */
#define base_mul_overflow(a, b, out) __builtin_mul_overflow(a, b, out)
#define base_add_overflow(a, b, out) __builtin_add_overflow(a, b, out)

/* Elements of a type; fails with INVALID on a negative dimension or when bytes overflow int64. */
shoal_status base_type_elements(const shoal_type *type, int64_t *out) SHOAL_CHECK_RESULT;
/* The same for a type already checked. */
int64_t base_type_count(const shoal_type *type);
/* Bytes of a type already checked. */
int64_t base_type_bytes(const shoal_type *type);
bool base_type_equal(const shoal_type *a, const shoal_type *b);

/* MLIR's name of an element type: "f32". */
const char *base_dtype_mlir(shoal_dtype dtype);

/* "float32[3, 4]", into `out` of BASE_TYPE_TEXT bytes; returns `out`. */
#define BASE_TYPE_TEXT 192
char *base_type_text(const shoal_type *type, char *out);

#endif
