/* Which devices this machine has. */
#ifndef CMD_BACKENDS_H
#define CMD_BACKENDS_H

#include "cmd.h"

#include <cjson/cJSON.h>

/* The devices of a backend, or of all (NULL), as an array of objects: `backend`, `index`,
 * `summary`, `device` (null: none found), `reason` (why none was found, or null), `memory` in bytes
 * (0: unknown) and `threads`. Among all, a backend whose library may end its process is asked in
 * another process, which has 20 s; one that is named is asked here. NULL, with the library's
 * message, for an unknown name. */
cJSON *backends_rows(const char *name);

#endif
