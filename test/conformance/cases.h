/* The cases of the conformance suite: small graphs, mostly of one node, with their inputs. */
#ifndef CONFORMANCE_CASES_H
#define CONFORMANCE_CASES_H

#include "graph/graph.h"

enum { MAX_INPUTS = 8 };

/* How closely results must agree. NaN agrees with any NaN, except in CLOSE_BITS. */
typedef enum closeness {
    CLOSE_BITS,  /* moved, not computed: the same bytes */
    CLOSE_EXACT, /* one rounding: the same numbers, zeros with their signs */
    CLOSE_ULPS,  /* transcendental: f32, f64: 4 units in the last place; f16, bf16: 1 */
    CLOSE_UNITS, /* n units in the last place of the result, or of 1 where that is larger */
    CLOSE_SUM,   /* n terms of at most 1, in any order: n + 8 units in the last place of n */
} closeness;

typedef struct test_case {
    char name[160];
    graph *graph;
    closeness close;
    int64_t terms; /* of CLOSE_SUM, CLOSE_UNITS */
    bool large;    /* devices do parts of it at once */
    void *inputs[MAX_INPUTS];
} test_case;

/* Calls visit for each case; the case is gone afterwards. */
typedef void (*case_visitor)(void *context, const test_case *c);
shoal_status each_case(case_visitor visit, void *context);

#endif
