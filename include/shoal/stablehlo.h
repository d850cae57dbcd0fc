/* Programs of other systems: StableHLO's text, as JAX and torch-mlir write it, read, run,
 * differentiated and written. Ownership, errors and threads are as in shoal.h. */
#ifndef SHOAL_STABLEHLO_H
#define SHOAL_STABLEHLO_H

#include "shoal/function.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A function of a module, with all that it calls: a graph that nothing has been run of. Immutable;
 * for any thread. */
typedef struct shoal_module shoal_module;

/* Reads a module's text. file: what it is called in the places of operations ("line 12, column 5 of
 * model.mlir"); "": it has no name ("line 12, column 5"); NULL: they have none. function: the one
 * to read; NULL: @main, or the only one. Fails with FORMAT or INVALID, naming line, column and
 * operation; shapes must be static, or follow from constants. MLIR's bytecode is not read. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_parse(const char *text, size_t bytes,
                                                             const char *file, const char *function,
                                                             shoal_module **out);
/* The same of a file. Fails with NOT_FOUND or IO as well. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_open(const char *path, const char *function,
                                                            shoal_module **out);
/* What a function computes, without the operands that it was recorded with. Fails with UNSUPPORTED
 * where it reads tensors of files. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_of(const shoal_function *function,
                                                          shoal_module **out);
/* NULL inside is allowed. */
SHOAL_API void shoal_module_free(shoal_module **module);

/* Its graph: inputs and outputs are those of the function, in order. Valid as long as the module.
 */
SHOAL_API const shoal_graph *shoal_module_graph(const shoal_module *module);
/* As a function of a session, which can be run. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_function(const shoal_module *module,
                                                                shoal_session *session,
                                                                shoal_function **out);
/* Records its operations, so that gradients pass through them; outputs are new handles. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_apply(const shoal_module *module,
                                                             shoal_session *session,
                                                             shoal_tensor *const *inputs,
                                                             shoal_tensor **outputs);
/* A module with the same inputs, whose results are those of `module` and, behind them, the
 * gradients of result number `output` (floating, of one element) with respect to n_wrt inputs, each
 * named once. An input that the result does not depend on has the gradient 0. Fails with INVALID,
 * and with UNSUPPORTED where an operation has no gradient. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_gradient(const shoal_module *module,
                                                                uint32_t output,
                                                                const uint32_t *wrt, uint32_t n_wrt,
                                                                shoal_module **out);
/* The same with its inputs from number `first` on replaced by constants: data[i] are the elements
 * of input first + i, dense and row-major; they are copied. Fails with INVALID. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_bind(const shoal_module *module,
                                                            uint32_t first, const void *const *data,
                                                            shoal_module **out);
/* Its text in terms of the standard, as JAX and iree-compile read it: composites are written out.
 * The caller frees *out with free(). Fails with UNSUPPORTED, naming the operation, for what the
 * standard cannot say. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_module_text(const shoal_module *module, char **out);

#ifdef __cplusplus
}
#endif
#endif
