/* Log lines on standard error: "12.345 hub: worker 2 joined". The level comes from SHOAL_LOG
 * (error, warn, info, debug; default warn) and base_log_set. Any thread. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/status.h"

typedef enum base_log_level { BASE_ERROR, BASE_WARN, BASE_INFO, BASE_DEBUG } base_log_level;

void base_log_set(base_log_level level);
bool base_log_on(base_log_level level);
/* who: the part that speaks ("hub", "worker 2"). */
void base_log(base_log_level level, const char *who, const char *format, ...) SHOAL_PRINTF(3, 4);

#endif
