/* Signals: what YAML says about where values of a named scope lie.
 *
 *     layer1:
 *       shard:
 *         axis: 0               # cut along the first axis (the default); negative: from the last
 *         workers: [0, 1]       # in the order in which they joined; null: all
 *         shares: [70, 30]      # one per worker; left out: by their speeds
 *         replicated: true      # a whole copy on each, instead of parts
 *       backward: layer1_grad   # the signal under which gradients of the scope are computed
 *       compile: true           # the scope is one program
 *
 * A key that does not exist, twice the same, a value of a wrong kind, an unknown `backward`: errors
 * with line and column. */
#ifndef PLAN_SIGNAL_H
#define PLAN_SIGNAL_H

#include "base/status.h"
#include "base/vec.h"

#include <stddef.h>

typedef struct plan_mark {
    uint32_t line, column; /* from 1; 0: not from a text */
} plan_mark;

typedef struct plan_signal {
    char *name;
    char *source; /* of the text, for messages */
    plan_mark at, axis_at, workers_at;
    bool shard;
    int32_t axis;
    bool replicated;
    uint32_t n_workers; /* 0: all */
    uint32_t *workers;
    double *shares; /* n_shares of them; NULL: by speed */
    uint32_t n_shares;
    char *backward; /* NULL: the signal itself */
    bool compile;
} plan_signal;

typedef struct plan_signals {
    BASE_VEC(plan_signal *) list;
} plan_signals;

enum { PLAN_SIGNAL_TEXT = 1 << 20, PLAN_SIGNAL_WORKERS = 4096 };

/* Reads a text of at most PLAN_SIGNAL_TEXT bytes; `known` are signals that `backward` may name
 * beside its own. On failure *out is empty. Fails with FORMAT, naming source, line and column. */
shoal_status plan_signals_parse(const char *text, size_t bytes, const char *source,
                                const plan_signals *known, plan_signals *out) SHOAL_CHECK_RESULT;
/* NULL when there is none. */
plan_signal *plan_signal_find(const plan_signals *signals, const char *name);
/* Adds, or replaces the one of that name, and takes it over. */
shoal_status plan_signal_set(plan_signals *signals, plan_signal *signal) SHOAL_CHECK_RESULT;
/* A copy; strings and arrays are its own. */
shoal_status plan_signal_copy(const plan_signal *from, plan_signal **out) SHOAL_CHECK_RESULT;
void plan_signal_free(plan_signal *signal);
void plan_signals_fini(plan_signals *signals);

#endif
