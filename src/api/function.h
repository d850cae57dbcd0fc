/* What is recorded of a function: for those who run it. */
#ifndef API_FUNCTION_H
#define API_FUNCTION_H

#include "api/state.h"

#include "shoal/function.h"

/* Where a result comes from: an output of the graph, or the operand that it is. */
typedef struct api_result {
    bool operand;
    uint32_t index;
    shoal_type type;
    const char *signal; /* as the recorded handle had them */
    bool shared;
} api_result;

struct shoal_function {
    shoal_session *session; /* held */
    uint32_t era;
    uint64_t epoch; /* of the pool that it was recorded for */
    graph *graph;   /* until it is recorded */
    api_recorded *recorded;
    base_str key;
    uint32_t n_operands, n_used, n_results, n_outputs;
    shoal_type *operands;
    api_stored **fixed; /* per operand: what it has to be, as it is part of the graph; held */
    uint32_t *used;     /* per input of the graph: the operand */
    uint8_t *donate;    /* per operand: shoal_donate + 1, or 0 */
    api_result *results;
};

/* A function of a graph, which reads no tensors of files. */
shoal_status api_function_of(shoal_session *session, const shoal_graph *g, shoal_function **out);

/* Whether the inputs are of the session and of the types it was recorded with; those numbered in
 * `feeds` are checked by who feeds them. */
shoal_status api_function_check(const shoal_function *f, shoal_tensor *const *inputs,
                                const bool *feeds);

/* Lets go of the inputs that are donated, but for those that are fed, with the next message. feeds:
 * per operand, of a loop; NULL: a run. */
shoal_status api_function_give(const shoal_function *f, shoal_tensor *const *inputs,
                               const bool *feeds);
/* What was given away has no value, or, when the message was not sent, it has it still. */
void api_function_given(const shoal_function *f, shoal_tensor *const *inputs, bool sent);

#endif
