/* What the tests of lowering share: a pool in one process, layouts to try, and the comparison of a
 * lowered graph with the graph run whole. Asserts by cmocka. */
#ifndef PLAN_LOWER_TESTING_H
#define PLAN_LOWER_TESTING_H

#include "plan/lower.h"
#include "plan/pool_sim.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != SHOAL_OK) fail_msg("%s: %s", #call, shoal_error_message());                  \
    } while (0)

enum { CLIENT = 40, MOST_COMPUTE = 5 };

/* Memory of a test, and how it begins (with the same random numbers each time) and ends. */
extern base_arena arena;
int fresh(void **state);
int finish(void **state);

/* A pool of compute slots 10, 11, ... of two per peer, and a client. */
typedef enum speed { SLOW_SLOTS, SLOW_LINKS } speed;
extern plan_slot slots[MOST_COMPUTE + 1];
/* As fast at products of any type. */
base_speeds make_speeds(double products, double stream);
plan_pool make_pool(uint32_t compute, speed what);

/* Layout number `which` of a tensor; false when the tensor or pool has no such one. AXIS + a: axis
 * a cut over all slots by random weights, some parts empty. */
enum { ON_CLIENT, ON_ONE, ON_LAST, COPIES, GRID, SUMS, AXIS };
bool make_layout(const shoal_type *type, uint32_t compute, uint32_t which, plan_layout *out);

/* Lowers, runs the pool, and compares with the graph run whole. */
void compare(const shoal_graph *g, const plan_pool *pool, const plan_layout *inputs,
             const plan_layout *const *wanted);
/* How many plans that was: each as it is priced, and with panels wherever they can be; and how many
 * had panels. */
extern uint64_t compared, panelled;

/* Short ways to build graphs. */
int64_t extent(void); /* 0 to 8 */
uint32_t input(graph *g, shoal_dtype dtype, uint32_t rank, const int64_t *dims);
uint32_t add(graph *g, uint16_t op, const uint32_t *in, uint32_t n, const shoal_attr *attrs,
             uint16_t n_attrs);
uint32_t scalar(graph *g, float number);
uint32_t dot(graph *g, uint32_t a, uint32_t b, int64_t lhs, int64_t rhs, bool batch);
uint32_t reduce(graph *g, uint32_t value, uint32_t initial, uint16_t op, const int64_t *dimensions,
                size_t n);

/* A way to build a graph of one operation; returns its first result. Lists end with NULL. */
typedef struct layouts_case {
    uint16_t op;
    uint32_t (*build)(graph *g);
} layouts_case;
extern const layouts_case layouts_index[], layouts_window[];

#endif
