/* A pool's state as JSON, for `shoal status` and `shoal top`. */
#ifndef CMD_STATUS_H
#define CMD_STATUS_H

#include "pool.h"

#include <cjson/cJSON.h>

cJSON *status_json(const cmd_pool *pool);

#endif
