/* Fences (shoal/backend.h): a counter that rises as work is done, and that others wait for.
 *
 * The value only rises. A failed signal marks the points that it reaches, not later ones: work that
 * was numbered 5 may fail while 6 succeeds. Any thread may do anything with a fence it holds. */
#ifndef BASE_FENCE_H
#define BASE_FENCE_H

#include "base/status.h"
#include "shoal/backend.h"

/* A fence at value 0, held once. */
shoal_status base_fence_new(shoal_fence **out) SHOAL_CHECK_RESULT;
shoal_fence *base_fence_retain(shoal_fence *fence);
/* Gives back one hold and clears the pointer; NULL is allowed. The last one frees: nobody may be
 * waiting then. */
void base_fence_release(shoal_fence **fence);

/* Reaches a point and wakes who waits for it. A status other than OK fails all points after the
 * present value up to this one; `message` says why. A point that is already reached stays as it is.
 * A NULL fence is left alone. */
void base_fence_signal(shoal_point point, shoal_status status, const char *message);
/* What is done at `point` works with what was made at `from`, an earlier value of its fence: where
 * that fails, so does the point, however it is signalled. To be called before it can be reached,
 * for one point after the other. NO_MEMORY: it is not derived. */
shoal_status base_fence_derive(shoal_point point, uint64_t from) SHOAL_CHECK_RESULT;
/* Waits until a point is reached, at most timeout_ms (0: only looks). Returns the status it was
 * reached with, with its message, or TIMEOUT. */
shoal_status base_fence_wait(shoal_point point, uint32_t timeout_ms) SHOAL_CHECK_RESULT;
/* Whether a point is reached, well or not. */
bool base_fence_reached(shoal_point point);
/* Whether it is, and all that was to be called then has returned. */
bool base_fence_settled(shoal_point point);
/* Calls `then` once, when the point is reached, with the status it was reached with and its
 * message: at once if it is, else in the thread that reaches it, which holds no lock of the fence
 * then and must not be kept. The fence is held until then. The calls of one fence come in the order
 * of their points when one thread signals it. NO_MEMORY: it will not be called. */
shoal_status base_fence_then(shoal_point point, void (*then)(void *context, shoal_status status),
                             void *context) SHOAL_CHECK_RESULT;
/* The first failure of points after `after` up to `point`, with its message, among those that are
 * reached; OK: none. */
shoal_status base_fence_failed(shoal_point point, uint64_t after) SHOAL_CHECK_RESULT;

#endif
