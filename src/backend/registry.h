/* The backends that this process knows, and what it offers them.
 *
 * Built-in backends stand in one list (registry.c); plug-ins are added by backend_register. Any
 * thread may call these functions. */
#ifndef BACKEND_REGISTRY_H
#define BACKEND_REGISTRY_H

#include "base/status.h"
#include "shoal/backend.h"

/* Finds a backend by name. Fails with NOT_FOUND and lists those that exist. */
shoal_status backend_find(const char *name, const shoal_backend **out) SHOAL_CHECK_RESULT;
/* Adds a backend; the table must stay valid for ever. Fails with VERSION for another ABI, INVALID
 * when the name is taken or a function missing, NO_MEMORY when there are too many. */
shoal_status backend_register(const shoal_backend *backend) SHOAL_CHECK_RESULT;
/* Backend number `index`, the built-in ones first; NULL behind the last. */
const shoal_backend *backend_at(size_t index);
/* Whether its devices are for users: `ref` and `null` are the definition and the skeleton. */
bool backend_is_lent(const shoal_backend *backend);
/* The functions that every call of a backend gets. Valid for ever. */
const shoal_host *backend_host(void);

#endif
