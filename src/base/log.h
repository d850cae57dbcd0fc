/* Log lines on standard error: "2026-01-31T12:34:56.789Z info hub: worker 2 joined"; the time is
 * UTC, so that logs of several machines can be read together. The level comes from SHOAL_LOG
 * (error, warn, info, debug; default warn) and base_log_set. Any thread. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/status.h"

typedef enum base_log_level { BASE_ERROR, BASE_WARN, BASE_INFO, BASE_DEBUG } base_log_level;

void base_log_set(base_log_level level);
bool base_log_on(base_log_level level);
/* who: the part that speaks ("hub", "worker 2"). What comes from elsewhere may be in the text:
 * control characters are shown as '?', so that nothing can pass for a line of its own. */
void base_log(base_log_level level, const char *who, const char *format, ...) SHOAL_PRINTF(3, 4);

#endif
