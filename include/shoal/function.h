/* Functions, which are recorded once and run many times, and loops, which repeat a function on the
 * workers. Ownership, errors and threads are as in shoal.h. */
#ifndef SHOAL_FUNCTION_H
#define SHOAL_FUNCTION_H

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- functions ---- */

/* A recorded program whose operands are its parameters. Running it records nothing: a repeated step
 * costs one message, whatever its size. */
typedef struct shoal_function shoal_function;

/* Makes a function from inputs to outputs, without running anything. Outputs must be recorded and
 * not started, or be inputs. Inputs must have been started or made from memory, and include all
 * such values that the outputs depend on. Fails with INVALID, naming the tensor. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_function_new(shoal_session *session, shoal_tensor *const *inputs, uint32_t n_inputs,
                   shoal_tensor *const *outputs, uint32_t n_outputs, shoal_function **out);
/* Runs it with n_inputs inputs of the same types as those it was made with, and sets n_outputs new
 * outputs, through which no gradients pass. Starts what is recorded and returns at once. Fails with
 * INVALID for an input of another type. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_function_run(shoal_function *function,
                                                             shoal_tensor *const *inputs,
                                                             shoal_tensor **outputs);
/* Donates an input: a run may write its results over the input's memory, as for a cache that is
 * updated. ALWAYS: the tensor given to a run has no value afterwards; using it by any handle fails
 * with INVALID, and so does a run that reads it twice. IF_LAST: only if the given handle is the
 * last one to its value and will not be used again. In a loop, whatever is not fed. */
typedef enum shoal_donate { SHOAL_DONATE_IF_LAST, SHOAL_DONATE_ALWAYS } shoal_donate;
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_function_donate(shoal_function *function,
                                                                uint32_t input, shoal_donate when);
/* Whether an output depends on an input. */
SHOAL_API bool shoal_function_uses(const shoal_function *function, uint32_t input);
/* Whether the pool is unchanged since it was made. If workers have joined or left it still runs,
 * but with the layouts that were recorded; if the hub was lost it has to be made again. */
SHOAL_API bool shoal_function_is_current(const shoal_function *function);
/* Releases the function; never fails. NULL inside is allowed. */
SHOAL_API void shoal_function_free(shoal_function **function);

/* ---- loops ---- */

/* Rounds of a function that run one after another on the workers, by one message to each. */
typedef struct shoal_loop shoal_loop;
/* An output that becomes an input of the next round; both have the same type. */
typedef struct shoal_carry {
    uint32_t output, input;
} shoal_carry;
typedef struct shoal_repeat {
    size_t size;     /* sizeof(shoal_repeat) */
    uint64_t rounds; /* at most 1,000,000,000; 0: none, and carried outputs are the inputs */
    uint32_t n_carry, n_stream, n_feed;
    const shoal_carry *carry;
    const uint32_t *stream; /* outputs of each round that shoal_loop_next returns */
    const uint32_t *feed;   /* inputs with one more axis, the first: round r reads its element r */
    bool stops;             /* ends after the round in which output `stop`, a bool [], is true */
    uint32_t stop;
    uint32_t patience_ms; /* how long it waits for a reader; 0: 60,000 */
} shoal_repeat;
/* Starts a loop and returns at once. outputs: those of the last round, as of a function; after 0
 * rounds NULL but for those that are carried. Fails with INVALID, naming the output or the input.
 * Streamed results have to be read: a loop that is 4,096 rounds, or 64 MiB, ahead of its reader
 * waits, with all later work, and after patience_ms fails with TIMEOUT; four times as far ahead
 * while a call waits for something else. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_function_repeat(shoal_function *function,
                                                                shoal_tensor *const *inputs,
                                                                const shoal_repeat *repeat,
                                                                shoal_tensor **outputs,
                                                                shoal_loop **loop);
/* Waits for the next round's streamed outputs and copies them: stream[i] to data[i], of bytes[i]
 * bytes. *more: false if there are no more rounds. Fails with the cause when the loop has failed,
 * after all rounds before the one that did, or was cancelled, and like every wait. For one thread
 * at a time. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_loop_next(shoal_loop *loop, void *const *data,
                                                          const size_t *bytes, bool *more);
/* Rounds that have run, of a loop that stops or streams; else the rounds asked for. */
SHOAL_API uint64_t shoal_loop_rounds(shoal_loop *loop);
/* Ends a loop early: its outputs fail with INTERRUPTED. Does nothing once it has ended. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_loop_cancel(shoal_loop *loop);
/* Releases the handle, and what the loop streams is dropped. The loop goes on while somebody holds
 * one of its outputs, or what was computed of one; else it ends early. NULL inside is allowed. */
SHOAL_API void shoal_loop_free(shoal_loop **loop);

#ifdef __cplusplus
}
#endif

#endif
