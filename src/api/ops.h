/* What the files of operations share (ops.c, ops_join.c, ops_index.c, ops_nn.c). */
#ifndef API_OPS_H
#define API_OPS_H

#include "api/state.h"

shoal_status api_apply1(uint16_t op, shoal_tensor *x, const shoal_attr *attrs, uint16_t n_attrs,
                        shoal_tensor **out);
/* x in the given shape, by NumPy's rules: a new handle, or another one to x itself. */
shoal_status api_stretch(shoal_tensor *x, const shoal_type *shape, shoal_tensor **out);
/* An axis counted from the end when negative. */
shoal_status api_find_axis(const char *what, const shoal_type *type, int64_t axis, int64_t *out);

/* Makes the body of an operation, in the trace. */
typedef shoal_status (*api_make_body)(graph *g, const void *context, const shoal_graph **out);
shoal_status api_apply_body(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                            uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                            api_make_body make, const void *context, shoal_tensor **outputs,
                            uint16_t n_outputs);

#endif
