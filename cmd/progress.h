/* Telling on standard error how far long work is: one line that is drawn anew on a terminal, a
 * line every few seconds elsewhere, nothing for work under a second. */
#ifndef CMD_PROGRESS_H
#define CMD_PROGRESS_H

#include "cmd.h"

typedef struct cmd_progress {
    bool on, terminal, drawn;
    bool bytes;         /* what is done are bytes, not floating operations */
    const char *what;   /* what goes on now */
    double start;       /* of that */
    double next;        /* when to draw again */
    double done, total; /* as last told; total 0: not known */
} cmd_progress;

void progress_begin(cmd_progress *p, bool quiet);
/* Work of another kind begins. */
void progress_phase(cmd_progress *p, const char *what);
/* done of total floating operations, or bytes, are done. */
void progress_update(cmd_progress *p, double done, double total);
/* Nothing more is done, but time has passed. */
void progress_wait(cmd_progress *p);
/* Clears the line. */
void progress_end(cmd_progress *p);

#endif
