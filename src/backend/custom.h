/* Operations that users have added to this process (shoal/backend.h). */
#ifndef BACKEND_CUSTOM_H
#define BACKEND_CUSTOM_H

#include "shoal/backend.h"

/* NULL: none has this name. Any thread. */
const shoal_operation *backend_custom_find(const char *name);

#endif
