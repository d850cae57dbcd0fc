/* Recording what a pool does, for `shoal trace` and `shoal timeline`. */
#ifndef CMD_RECORD_H
#define CMD_RECORD_H

#include "cmd.h"
#include "view/record.h"

/* Records `seconds` from the pool at `hub`, or until `most` events have come, telling how far it is
 * on standard error after the first second; Ctrl-C ends it early and keeps what there is. Prints
 * its message and returns an exit code. Freed with view_record_fini, also when it fails. */
int record_pool(const char *hub, double seconds, int64_t most, bool quiet, view_record *out);
/* Seconds from 0.05 to 600, else a usage error. */
double record_seconds(const char *text);

#endif
