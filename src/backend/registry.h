/* The backends that this process knows, and what it offers them.
 *
 * Built-in backends stand in one list (registry.c); plug-ins are added by shoal_backend_add. Any
 * thread may call these functions. */
#ifndef BACKEND_REGISTRY_H
#define BACKEND_REGISTRY_H

#include "base/status.h"
#include "shoal/backend.h"

/* Finds a backend by name; those that Shoal brings in Python are loaded by that. Fails with
 * NOT_FOUND and lists those that exist, or says why one in Python cannot be loaded. */
shoal_status backend_find(const char *name, const shoal_backend **out) SHOAL_CHECK_RESULT;
/* Loads the plug-ins that SHOAL_BACKENDS lists, once: to be called before operations of users are
 * asked for, by a thread that holds no lock that others wait for. */
void backend_plugins_load(void);
/* Backend number `index`, the built-in ones first; NULL behind the last. */
const shoal_backend *backend_at(size_t index);
/* The names of those that Shoal brings in Python, with a line on what each is; NULL behind the
 * last. As finding their devices takes seconds, they are loaded, and lent, by name alone. */
const char *backend_in_python(size_t index, const char **summary);
/* Whether its devices are lent where none are named: `ref` and `null` are the definition and the
 * skeleton, and those below are for who names them. */
bool backend_is_lent(const shoal_backend *backend);
/* Whether its library may end the process that opens it: only who names it opens it. */
bool backend_may_end_process(const shoal_backend *backend);
/* The functions that every call of a backend gets. Valid for ever. */
const shoal_host *backend_host(void);

#endif
