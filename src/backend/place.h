/* Where the values of a program lie: in the caller's inputs and outputs, or in one workspace, whose
 * parts are reused as soon as their value was read for the last time. For backends whose program is
 * a list of steps over a fuse_plan. */
#ifndef BACKEND_PLACE_H
#define BACKEND_PLACE_H

#include "backend/fuse/fuse.h"

typedef enum backend_kind {
    BACKEND_NOWHERE,
    BACKEND_INPUT,
    BACKEND_OUTPUT,
    BACKEND_CONSTANT,
    BACKEND_WORKSPACE
} backend_kind;

typedef struct backend_place {
    uint32_t last; /* for roots: number of the last step that reads or writes it */
    backend_kind kind;
    size_t place; /* input, output number or offset in the workspace */
    const void *constant;
} backend_place;

/* What a step touches: values. */
typedef struct backend_touch {
    uint32_t n_reads, n_writes;
    const uint32_t *reads, *writes;
} backend_touch;

typedef struct backend_parts backend_parts; /* of the workspace, that are taken */

typedef struct backend_places {
    const fuse_plan *plan;
    backend_place *values; /* per value of the graph; inputs and constants are settled before */
    uint32_t n_steps;
    size_t align;     /* of what lies in the workspace */
    size_t workspace; /* becomes its size */
    void *context;
    backend_touch (*touch)(void *context, uint32_t step);
    /* Whether a step may write its result number `write` over the memory of value `root`. */
    bool (*may_overwrite)(void *context, uint32_t step, uint32_t write, uint32_t root);
    /* Whether a step of one result updates that value in part, and reads no more of it; NULL: none.
     */
    bool (*updates)(void *context, uint32_t step, uint32_t root);
    /* Takes what a step needs for itself, while it runs; NULL: nothing. */
    shoal_status (*scratch)(void *context, uint32_t step, backend_parts *parts);
} backend_places;

/* The last step that touches each value, as the steps stand: for who orders them. */
void backend_find_last_uses(backend_places *places);
/* Settles all values that steps write. */
shoal_status backend_place_all(backend_places *places) SHOAL_CHECK_RESULT;
/* For `scratch`: *from becomes the offset of so many bytes in the workspace, which are kept for so
 * many steps more. */
shoal_status backend_take(backend_parts *parts, size_t bytes, uint32_t more,
                          size_t *from) SHOAL_CHECK_RESULT;
/* in_place[o]: the input whose memory output o may take over, or -1. frozen: inputs that may not
 * be written, or NULL. NULL for in_place: nobody asks. */
shoal_status backend_report_in_place(const backend_places *places, const bool *frozen,
                                     int32_t *in_place) SHOAL_CHECK_RESULT;

#endif
