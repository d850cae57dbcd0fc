/* From one layout to another: the moves of boxes between slots, by intersection. */
#ifndef PLAN_RESHARD_H
#define PLAN_RESHARD_H

#include "plan/layout.h"

/* One box that goes from a slot to a slot (the same slot: a copy in place). Coordinates are those
 * of the whole tensor. summand: which summand of `from` it belongs to. */
typedef struct plan_move {
    uint32_t from, to;
    uint32_t summand;
    base_box box;
} plan_move;

typedef struct plan_moves {
    plan_move *moves; /* in rising order of (to, summand, box start) */
    size_t count;
} plan_moves;

/* Each target slot gets, for every summand of `from`, all of its box exactly once. Among copies the
 * slot itself is the source if it can be, then a slot of the same peer, then those used least.
 * peer_of: peer number per slot, for the choice (NULL: every slot is a peer). `to` must not have
 * summands. Boxes without elements give no move. */
shoal_status plan_reshard(base_arena *arena, const plan_layout *from, const plan_layout *to,
                          uint32_t (*peer_of)(void *context, uint32_t slot), void *context,
                          plan_moves *out) SHOAL_CHECK_RESULT;
/* Elements that cross between different slots. */
int64_t plan_moves_elements(const plan_moves *moves);

#endif
