/* Functions: what was recorded once and runs many times; and loops: a function that repeats on the
 * workers. Ownership, errors and threads are as in shoal.h. */
#ifndef SHOAL_FUNCTION_H
#define SHOAL_FUNCTION_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- functions ---- */

/* A function: what was recorded, with its operands open. Running it records nothing: a step that is
 * repeated costs one message, whatever its size. */
typedef struct shoal_function shoal_function;

/* The function from inputs to outputs. outputs: recorded and not started, or inputs themselves;
 * inputs: started, or made from memory; all values that the outputs depend on have to be among
 * them. Nothing runs. Fails with INVALID, naming the tensor. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_function_new(shoal_session *session, shoal_tensor *const *inputs, uint32_t n_inputs,
                   shoal_tensor *const *outputs, uint32_t n_outputs, shoal_function **out);
/* Runs it with other inputs of the same types, as many as it was made with; fills as many outputs
 * as it was made with, through which no gradients pass. Returns at once; what is recorded is
 * started first. Fails with INVALID for another type. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_function_run(shoal_function *function,
                                                             shoal_tensor *const *inputs,
                                                             shoal_tensor **outputs);
/* Donates an input: a run may write its results over the input's memory, as for a cache that is
 * updated. ALWAYS: the tensor given to a run has no value afterwards, by whatever handle; using it
 * fails with INVALID, and so does a run that reads it twice. IF_LAST: only where the handle given
 * is the last one to its value, and will not be used again. */
typedef enum shoal_donate { SHOAL_DONATE_IF_LAST, SHOAL_DONATE_ALWAYS } shoal_donate;
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_function_donate(shoal_function *function,
                                                                uint32_t input, shoal_donate when);
/* Whether an output depends on an input. */
SHOAL_API bool shoal_function_uses(const shoal_function *function, uint32_t input);
/* Whether the pool is still the one that it was made for. It runs all the same if workers have come
 * or gone, but places what it recorded as placed where that was meant to lie then; after the hub
 * was lost it has to be made again. */
SHOAL_API bool shoal_function_is_current(const shoal_function *function);
SHOAL_API void shoal_function_free(shoal_function **function);

/* ---- loops ---- */

/* A loop: rounds of a function that follow each other on the workers, by one message to each. */
typedef struct shoal_loop shoal_loop;
typedef struct shoal_carry {
    uint32_t output, input;
} shoal_carry;
typedef struct shoal_repeat {
    size_t size;     /* of this structure, so that it can grow */
    uint64_t rounds; /* at most 1,000,000,000; 0: none, and carried outputs are the inputs */
    uint32_t n_carry, n_stream, n_feed;
    const shoal_carry *carry; /* an output that is an input of the next round; of the same type */
    const uint32_t *stream;   /* outputs that shoal_loop_next brings of each round */
    const uint32_t *feed;     /* inputs with an axis more, in front: round r reads element r */
    bool stops;               /* after the round in which this output, a bool [], is true */
    uint32_t stop;
    uint32_t patience_ms; /* how long it waits for a reader; 0: 60,000 */
} shoal_repeat;
/* Starts a loop and returns at once. outputs: those of the last round, as of a function; after 0
 * rounds NULL but for those that are carried. Fails with INVALID, naming the output or the input.
 * Who streams has to take: a loop that is 4,096 rounds, or 64 MiB, ahead of its reader waits, and
 * what comes behind it waits, too; after patience_ms it fails with TIMEOUT. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_function_repeat(shoal_function *function,
                                                                shoal_tensor *const *inputs,
                                                                const shoal_repeat *repeat,
                                                                shoal_tensor **outputs,
                                                                shoal_loop **loop);
/* Waits for what the next round brings, and copies it out: data[i] for stream[i], of bytes[i]
 * bytes. *more: whether there was a round; false at the end. Fails with the cause when the loop has
 * failed or was cancelled, and as every wait. One thread at a time. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_loop_next(shoal_loop *loop, void *const *data,
                                                          const size_t *bytes, bool *more);
/* Rounds so far, of a loop that stops or streams; else those that were asked for. */
SHOAL_API uint64_t shoal_loop_rounds(shoal_loop *loop);
/* Ends a loop early: its outputs fail with INTERRUPTED. Nothing when it is over. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_loop_cancel(shoal_loop *loop);
/* Gives the handle back; the loop goes on, and what it streams is dropped. */
SHOAL_API void shoal_loop_free(shoal_loop **loop);

#ifdef __cplusplus
}
#endif

#endif
