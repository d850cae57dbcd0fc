/* Tensors from files. */
#include "api/state.h"

#include "model/file.h"

#include <stdlib.h>
#include <string.h>

shoal_status shoal_file_load_stored(shoal_file *file, uint64_t index, shoal_session *session,
                                    shoal_tensor **out) {
    *out = NULL;
    shoal_file_tensor info;
    SHOAL_TRY(shoal_file_tensor_at(file, index, &info));
    const shoal_type *type = &info.stored;
    const void *direct = model_file_direct(file, index);
    if (direct)
        return shoal_tensor_borrow(session, (shoal_dtype)type->dtype, type->rank, type->dims,
                                   direct, model_file_release, model_file_retain(file), out);
    size_t bytes = (size_t)base_type_bytes(type);
    void *data = malloc(bytes ? bytes : 1);
    if (!data) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    base_box whole = {.rank = type->rank};
    memcpy(whole.size, type->dims, sizeof whole.size);
    shoal_status status = model_file_copy(file, index, &whole, data);
    if (status != SHOAL_OK) {
        free(data);
        return status;
    }
    return shoal_tensor_borrow(session, (shoal_dtype)type->dtype, type->rank, type->dims, data,
                               free, data, out);
}

shoal_status shoal_file_load(shoal_file *file, uint64_t index, shoal_session *session,
                             shoal_tensor **out) {
    *out = NULL;
    shoal_file_tensor info;
    shoal_tensor *stored;
    SHOAL_TRY(shoal_file_tensor_at(file, index, &info));
    const model_encoding *encoding = file->tensors[index].encoding;
    if (encoding->format == MODEL_UNREAD) return shoal_file_read(file, index, 0, 0, NULL);
    SHOAL_TRY(shoal_file_load_stored(file, index, session, &stored));
    if (encoding->format == MODEL_PLAIN) {
        *out = stored;
        return SHOAL_OK;
    }
    shoal_status status =
        shoal_dequantize(stored, encoding->name, (shoal_dtype)info.type.dtype, out);
    shoal_tensor_free(&stored);
    return status;
}
