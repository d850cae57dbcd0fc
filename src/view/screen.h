/* One picture of a pool for `shoal top`: what changed between two looks at it. */
#ifndef VIEW_SCREEN_H
#define VIEW_SCREEN_H

#include "shoal/shoal.h"

#include <stdio.h>

/* A look at a pool. */
typedef struct view_look {
    shoal_pool_status status;
    const shoal_slot *slots; /* status.n_slots of them */
    double at;               /* seconds of a clock that never jumps */
} view_look;

/* Writes lines of at most `columns` characters: the pool, what it does in all, a row per worker's
 * device. Rates are those since `before`; NULL: there are none yet. Names from elsewhere cannot
 * steer the terminal. */
void view_screen_write(FILE *out, const view_look *before, const view_look *now, int columns);

#endif
