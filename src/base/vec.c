#include "base/vec.h"

#include <stdlib.h>

bool base_vec_grow(void **data, size_t *room, size_t item_bytes) {
    size_t more = *room ? 2 * *room : 8, bytes;
    void *grown = base_mul_overflow(more, item_bytes, &bytes) ? NULL : realloc(*data, bytes);
    if (!grown) {
        base_fail(SHOAL_NO_MEMORY, "no memory for %zu entries", more);
        return false;
    }
    *data = grown;
    *room = more;
    return true;
}
