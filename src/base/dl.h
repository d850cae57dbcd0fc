/* Libraries opened at run time, so that nothing heavy or vendor-specific is a link dependency. */
#ifndef BASE_DL_H
#define BASE_DL_H

#include "base/status.h"

typedef struct base_dl base_dl; /* an opened library */

/* Opens the first of the names (paths, or sonames that the system looks up) that can be opened; its
 * symbols stay private. Fails with NOT_FOUND, saying why for each name. Any thread. */
shoal_status base_dl_open(const char *const *names, size_t n_names,
                          base_dl **out) SHOAL_CHECK_RESULT;
/* Opens one whose symbols others see that are opened later, as extensions of an interpreter do;
 * NULL: the process itself, and what it has opened so. Fails with NOT_FOUND. Any thread. */
shoal_status base_dl_open_global(const char *name, base_dl **out) SHOAL_CHECK_RESULT;
/* Closes it; what came from it must not be used any more. */
void base_dl_close(base_dl **library);
/* Finds a symbol: *out is a `void *`, or a pointer to function. Fails with NOT_FOUND, naming symbol
 * and library. Any thread. */
shoal_status base_dl_symbol(base_dl *library, const char *symbol, void *out) SHOAL_CHECK_RESULT;
/* The symbol where the library has it; otherwise *out becomes NULL and there is no message. */
void base_dl_optional(base_dl *library, const char *symbol, void *out);
/* The name under which it was opened. */
const char *base_dl_name(const base_dl *library);

#endif
