/* For tests: runs graphs, and the programs of a plan as a pool in one thread. Elements lie as
 * doubles between nodes, whatever the type; the tests use numbers for which that is exact. Asserts,
 * as tests may. */
#ifndef PLAN_POOL_SIM_H
#define PLAN_POOL_SIM_H

#include "plan/lower.h"

typedef struct sim_array {
    shoal_type type;
    double *data; /* NULL: nothing there yet */
} sim_array;

void sim_array_init(sim_array *array, const shoal_type *type);
void sim_array_fini(sim_array *array);

/* Runs a graph without exchanges. outputs: one array per output, for the caller to fini. */
void sim_run(const shoal_graph *g, const sim_array *inputs, sim_array *outputs);

/* The graph of a slot's program, for the caller to destroy. */
graph *sim_program(const plan_program *program);

/* Cuts the inputs as they lie, runs each program until it waits, passes what was sent, and puts the
 * outputs together. Returns NULL, or what went wrong: a wait for ever, a send that nobody receives
 * or a receive that nobody sends, a result that is not covered exactly once, copies that differ. */
const char *sim_run_pool(const shoal_graph *g, const plan_result *result,
                         const plan_layout *layouts, const sim_array *inputs, sim_array *outputs);

#endif
