/* Recomputing sampled rows of a product in double precision, from the files.
 *
 * The error of an element is |c - exact| / sum |a b|, which cancellation does not blow up. Rounding
 * makes it about sqrt(k) units in the last place at most (Higham and Mary, "A new approach to
 * probabilistic rounding error analysis", 2019); a wrong part makes it far larger. */
#ifndef CMD_CHECK_H
#define CMD_CHECK_H

#include "product.h"

enum { CHECK_SPREAD = 16, CHECK_MOST_ROWS = CHECK_SPREAD + ARGS_MOST_SLOTS };

typedef struct cmd_check {
    const cmd_product *product;
    int n_rows;
    int64_t rows[CHECK_MOST_ROWS];
    double *values;      /* [n_rows][n]: what was computed */
    double error, limit; /* the largest error, and what it must not exceed */
} cmd_check;

/* These print their message and return an exit code. After a failure check_fini is still due. */
int check_init(const cmd_product *product, cmd_check *out);
/* Takes the sampled rows out of a part of the result. */
void check_take(cmd_check *check, const cmd_block *part, const void *data);
/* Sets `error` and `limit`. */
int check_finish(cmd_check *check);
void check_fini(cmd_check *check);

#endif
