/* Control flow: bodies that run as often as a value says. They see their operands alone. */
#include "backend/ref/ref.h"

#include "backend/pool.h"
#include "graph/graph.h"

#include <stdlib.h>

/* ---- if and case ---- */

static shoal_status run_branch(const ref_call *call, uint16_t branch) {
    return ref_evaluate(NULL, call->node->regions[branch], call->inputs + 1, call->outputs);
}

uint16_t ref_branch_of(const shoal_node *node, const void *selector) {
    int32_t number;
    if (node->op == GRAPH_IF) return *(const uint8_t *)selector ? 0 : 1;
    memcpy(&number, selector, sizeof number);
    return number < 0 || number >= node->n_regions ? (uint16_t)(node->n_regions - 1)
                                                   : (uint16_t)number;
}

shoal_status ref_if(const ref_call *call) {
    return run_branch(call, ref_branch_of(call->node, call->inputs[0]));
}

shoal_status ref_case(const ref_call *call) {
    return run_branch(call, ref_branch_of(call->node, call->inputs[0]));
}

/* ---- while ---- */

/* The values that go around: those of a turn are in one set, those of the next in the other. */
typedef struct turns {
    const ref_call *call;
    ref_frame *condition, *body;
    char *spare;
    void *values[2][GRAPH_MAX_OUTPUTS];
} turns;

static size_t padded(const shoal_type *type) {
    return ((size_t)base_type_bytes(type) + 63) & ~(size_t)63;
}

static shoal_status prepare(turns *t) {
    const ref_call *call = t->call;
    uint32_t n = call->node->n_inputs;
    size_t bytes = 64, at = 0;
    for (uint32_t i = 0; i < n; i++) bytes += padded(ref_input(call, i));
    t->spare = aligned_alloc(64, bytes);
    if (!t->spare)
        return base_fail(SHOAL_NO_MEMORY, "while: no memory for %zu bytes of values", bytes);
    for (uint32_t i = 0; i < n; i++) {
        t->values[0][i] = call->outputs[i];
        t->values[1][i] = t->spare + at;
        at += padded(ref_input(call, i));
        memcpy(call->outputs[i], call->inputs[i], (size_t)base_type_bytes(ref_input(call, i)));
    }
    SHOAL_TRY(ref_frame_new(call->node->regions[0], &t->condition));
    return ref_frame_new(call->node->regions[1], &t->body);
}

static shoal_status turn(turns *t) {
    const ref_call *call = t->call;
    int now = 0;
    for (;; now = !now) {
        const void *const *in = (const void *const *)t->values[now];
        uint64_t more = 0;
        SHOAL_TRY(ref_frame_run(t->condition, in, (void *const[]){&more}));
        if (!*(const uint8_t *)&more) break;
        SHOAL_TRY(backend_go_on()); /* it may have no end */
        SHOAL_TRY(ref_frame_run(t->body, in, t->values[!now]));
    }
    for (uint32_t i = 0; i < call->node->n_inputs && now; i++)
        memcpy(call->outputs[i], t->values[1][i], (size_t)base_type_bytes(ref_input(call, i)));
    return SHOAL_OK;
}

shoal_status ref_while(const ref_call *call) {
    turns t = {.call = call};
    shoal_status status = prepare(&t);
    if (!status) status = turn(&t);
    ref_frame_destroy(&t.condition);
    ref_frame_destroy(&t.body);
    free(t.spare);
    return status;
}
