/* A layout: how a tensor is cut and which slots own the parts.
 *
 * Per axis it has integer cut points; the parts form a grid of boxes; each owning slot has
 * coordinates in that grid. Slots with equal coordinates hold equal copies. One axis more, the last
 * (number `rank`), counts summands: when it has more than one part, slots that differ only there
 * hold partial results that `combine` joins. Whole, replicated, split by rows, by columns, grids,
 * partial sums: all are this. A slot holds at most one box.
 *
 * The same structure over a node's loops says how its work is divided (lower.c). */
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include "base/arena.h"
#include "base/box.h"
#include "base/str.h"

enum { PLAN_MAX_AXES = 17, PLAN_MAX_PARTS = 4096 };

typedef struct plan_layout {
    uint32_t rank;                      /* axes, without the summand axis */
    uint32_t parts[PLAN_MAX_AXES];      /* parts per axis, >= 1; parts[rank]: summands */
    const int64_t *cuts[PLAN_MAX_AXES]; /* parts + 1 points from 0 to the extent; none for summands
                                           (NULL) */
    uint16_t combine;                   /* operation that joins summands */
    bool given; /* a user asked for it: what is computed from it follows it */
    uint32_t n_slots;
    const uint32_t *slots;  /* distinct slot numbers */
    const uint32_t *coords; /* [n_slots][rank + 1] */
} plan_layout;

/* All of these allocate in the arena and fail with NO_MEMORY or INVALID. dims: the extents. */
shoal_status plan_layout_whole(base_arena *arena, uint32_t rank, const int64_t *dims,
                               const uint32_t *slots, uint32_t n_slots,
                               plan_layout *out) SHOAL_CHECK_RESULT;
/* One axis cut between the slots in proportion to weights (NULL: equal). */
shoal_status plan_layout_split(base_arena *arena, uint32_t rank, const int64_t *dims, uint32_t axis,
                               int64_t granule, const uint32_t *slots, const double *weights,
                               uint32_t n_slots, plan_layout *out) SHOAL_CHECK_RESULT;
/* Cut points from weights: part i ends at round(sum of weights up to i / total * extent), to a
 * multiple of the granule; cuts has n + 1 elements. Fails when a weight is negative or not finite,
 * or all are zero, or the granule does not divide the extent. */
shoal_status plan_cuts(int64_t extent, int64_t granule, const double *weights, uint32_t n,
                       int64_t *cuts) SHOAL_CHECK_RESULT;

/* The general form, as the attributes CUTS and SLOTS of `place` hold it. ints: parts per axis
 * (rank numbers), then per axis its parts + 1 cut points. slots: owners in row-major order of the
 * boxes; n_slots is a multiple of the number of boxes, box after box its copies. */
shoal_status plan_layout_from_ints(base_arena *arena, uint32_t rank, const int64_t *dims,
                                   const int64_t *ints, size_t n_ints, const int64_t *slots,
                                   size_t n_slots, plan_layout *out) SHOAL_CHECK_RESULT;
/* A flat form that keeps everything: for messages, cache keys and copies. */
shoal_status plan_layout_encode(const plan_layout *layout, base_str *out) SHOAL_CHECK_RESULT;
shoal_status plan_layout_decode(base_arena *arena, const void *data, size_t bytes,
                                plan_layout *out) SHOAL_CHECK_RESULT;

/* A copy of its own. */
shoal_status plan_layout_copy(base_arena *arena, const plan_layout *from,
                              plan_layout *to) SHOAL_CHECK_RESULT;

/* Checks a layout against a shape: cuts rise from 0 to the extents, coordinates in range, slots
 * distinct, every box owned, every summand of every box present. */
shoal_status plan_layout_verify(const plan_layout *layout, uint32_t rank,
                                const int64_t *dims) SHOAL_CHECK_RESULT;
bool plan_layout_equal(const plan_layout *a, const plan_layout *b);
/* Index of a slot in layout->slots, or -1. */
int plan_layout_find(const plan_layout *layout, uint32_t slot);
/* The same, looking first where it is if layouts have their slots in one order. */
int plan_layout_find_from(const plan_layout *layout, uint32_t slot, uint32_t guess);
/* The box (without the summand axis) of the slot with index i. */
base_box plan_layout_box(const plan_layout *layout, uint32_t i);
uint32_t plan_layout_summand(const plan_layout *layout, uint32_t i);
/* The local type that the slot with index i holds. */
shoal_type plan_layout_type(const plan_layout *layout, uint32_t i, const shoal_type *global);
/* "rows 0..50..100 on 1,2" in a few words. */
void plan_layout_text(const plan_layout *layout, base_str *out);

#endif
