/* Gradients of choices between bodies: the same choice between bodies that compute the gradients.
 * A body sees its arguments alone, so that these are the operands and the seeds. */
#include "graph/maker.h"
#include "graph/rules.h"

/* What the new bodies have in common. */
typedef struct choice {
    const graph_backward *b;
    uint32_t n_seeds, seeds[GRAPH_MAX_OUTPUTS];   /* values of g */
    uint32_t of_output[GRAPH_MAX_OUTPUTS];        /* which result each seed belongs to */
    uint32_t n_wanted, wanted[GRAPH_MAX_OUTPUTS]; /* operands, from 1 on */
} choice;

static shoal_status zeros(graph *g, const shoal_type *type, uint32_t *out) {
    maker m = {g, SHOAL_OK};
    *out = splat(&m, *type, 0);
    return m.status;
}

static shoal_status make_body(const choice *c, const shoal_graph *from, const shoal_graph **out) {
    graph *body;
    uint32_t outputs[GRAPH_MAX_OUTPUTS], seeds[GRAPH_MAX_OUTPUTS], wrt[GRAPH_MAX_OUTPUTS];
    uint32_t gradients[GRAPH_MAX_OUTPUTS];
    SHOAL_TRY(graph_add_region(c->b->g, &body));
    SHOAL_TRY(
        graph_extract(from, from->inputs, from->n_inputs, from->outputs, from->n_outputs, body));
    for (uint32_t i = 0; i < c->n_seeds; i++) {
        outputs[i] = graph_data(body)->outputs[c->of_output[i]];
        const shoal_type type = graph_data(body)->values[outputs[i]].type;
        SHOAL_TRY(graph_add_input(body, &type, &seeds[i]));
    }
    for (uint32_t i = 0; i < c->n_wanted; i++) wrt[i] = graph_data(body)->inputs[c->wanted[i] - 1];
    SHOAL_TRY(
        graph_differentiate(body, outputs, seeds, c->n_seeds, wrt, c->n_wanted, NULL, gradients));
    graph_clear_outputs(body);
    for (uint32_t i = 0; i < c->n_wanted; i++) {
        if (gradients[i] == GRAPH_NO_VALUE)
            SHOAL_TRY(zeros(body, &c->b->call->inputs[c->wanted[i]], &gradients[i]));
        SHOAL_TRY(graph_add_output(body, gradients[i]));
    }
    *out = graph_data(body);
    return SHOAL_OK;
}

GRADIENT(if) {
    const graph_call *call = b->call;
    choice c = {.b = b};
    const shoal_graph *first = call->regions[0];
    for (uint32_t i = 0; i < first->n_outputs; i++) {
        if (b->seeds[i] == GRAPH_NO_VALUE) continue;
        c.of_output[c.n_seeds] = i;
        c.seeds[c.n_seeds++] = b->seeds[i];
    }
    for (uint32_t i = 1; i < call->n_inputs; i++)
        if (b->wanted[i] && c.n_wanted++ < GRAPH_MAX_OUTPUTS) c.wanted[c.n_wanted - 1] = i;
    if (c.n_wanted > GRAPH_MAX_OUTPUTS)
        return base_fail(SHOAL_INVALID,
                         "%s: its gradients are those of %u operands; there may be %d of them",
                         shoal_op_name(call->op), c.n_wanted, GRAPH_MAX_OUTPUTS);
    graph *g = b->g;
    uint32_t n = call->n_inputs + c.n_seeds, out;
    uint32_t *inputs = base_arena_array(graph_arena(g), uint32_t, n);
    const shoal_graph **bodies =
        base_arena_alloc_array(graph_arena(g), sizeof *bodies, call->n_regions);
    if (!inputs || !bodies) return SHOAL_NO_MEMORY;
    memcpy(inputs, b->inputs, call->n_inputs * sizeof *inputs);
    memcpy(inputs + call->n_inputs, c.seeds, c.n_seeds * sizeof *inputs);
    for (uint16_t r = 0; r < call->n_regions; r++)
        SHOAL_TRY(make_body(&c, call->regions[r], &bodies[r]));
    SHOAL_TRY(graph_add(g, call->op, inputs, n, NULL, 0, bodies, call->n_regions, &out));
    for (uint32_t i = 0; i < c.n_wanted; i++) b->gradients[c.wanted[i]] = out + i;
    return SHOAL_OK;
}
