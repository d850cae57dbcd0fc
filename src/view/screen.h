/* One picture of a pool for `shoal top`: what changed between two looks at it. */
#ifndef VIEW_SCREEN_H
#define VIEW_SCREEN_H

#include "shoal/shoal.h"

#include <stdio.h>

/* A look at a pool. */
typedef struct view_look {
    shoal_pool_status status;
    const shoal_slot *slots; /* status.n_slots of them */
    const shoal_path *paths; /* n_paths of them */
    uint32_t n_paths;
    double at; /* seconds of a clock that never jumps */
} view_look;

/* What a device did per second. */
typedef struct view_rates {
    double busy; /* of 1 */
    double nodes, runs, received, sent;
} view_rates;

/* Rates that follow those between two looks by a part of the difference: an exponential moving
 * average. Begins zeroed but for `part`, in (0, 1]; 1 follows at once. */
typedef struct view_smooth {
    double part;
    struct view_smooth_slot {
        uint32_t slot, pid;
        view_rates rates;
    } * slots;
    uint32_t n;
    double programs; /* of the pool, per second */
    bool begun;
} view_smooth;
/* Takes up what went on between two looks. False without memory: then rates are those of before. */
bool view_smooth_take(view_smooth *smooth, const view_look *before, const view_look *now);
void view_smooth_fini(view_smooth *smooth);

/* From so many columns on everything is shown; fewer leave out host, backend, limit, queue and
 * paths. */
enum { VIEW_SCREEN_WIDE = 119 };
/* Writes lines of at most `columns` characters: the pool, what it does in all, a row per worker's
 * device. Rates are those of `smooth`. Names from elsewhere cannot steer the terminal. */
void view_screen_write(FILE *out, const view_smooth *smooth, const view_look *now, int columns);

#endif
