/* What the files of `shoal doctor` share: its findings. */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include "cmd.h"

#include <cjson/cJSON.h>

/* One finding. `state` is "ok", "none", "note" or "trouble", which makes the command fail; `advice`
 * NULL when there is nothing to do. */
void doctor_add(cJSON *rows, const char *what, const char *state, const char *detail,
                const char *advice);

/* The network (doctor_net.c): this machine's addresses and clock; the hub at `hub` (NULL: not
 * named), and what stands between; whether a hub could listen at `listen` (NULL: not asked). */
void doctor_network(cJSON *rows, const char *hub, const char *listen);

#endif
