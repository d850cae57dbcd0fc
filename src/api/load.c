/* Tensors from files. */
#include "api/state.h"

#include "model/file.h"

#include <stdlib.h>

shoal_status shoal_file_load(shoal_file *file, uint64_t index, shoal_session *session,
                             shoal_tensor **out) {
    *out = NULL;
    shoal_file_tensor info;
    SHOAL_TRY(shoal_file_tensor_at(file, index, &info));
    const void *direct = model_file_direct(file, index);
    if (direct)
        return shoal_tensor_borrow(session, (shoal_dtype)info.type.dtype, info.type.rank,
                                   info.type.dims, direct, model_file_release,
                                   model_file_retain(file), out);
    size_t bytes = (size_t)base_type_bytes(&info.type);
    void *data = malloc(bytes ? bytes : 1);
    if (!data) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    shoal_status status =
        shoal_file_read(file, index, 0, (uint64_t)base_type_count(&info.type), data);
    if (status != SHOAL_OK) {
        free(data);
        return status;
    }
    return shoal_tensor_borrow(session, (shoal_dtype)info.type.dtype, info.type.rank,
                               info.type.dims, data, free, data, out);
}
