/* A product of two files over a pool: what the user asked for, checked against the files and the
 * pool, and its parts as tensors. `shoal matmul` runs it, `shoal explain` shows its plan.
 *
 * The rows of the result are computed panel by panel, so that memory stays bounded: B is placed
 * once, then each panel of A meets it. Within a panel the workers form a grid of `rows` x `columns`
 * x `inner`: A is cut by rows and inner, B by inner and columns. Rows, columns, inner and grid
 * products differ only in the sides of that grid. */
#ifndef CMD_PRODUCT_H
#define CMD_PRODUCT_H

#include "args.h"
#include "operand.h"
#include "pool.h"

typedef struct product_input {
    const char *a, *b, *out, *hub;
    uint32_t workers; /* 0: not given */
    bool transpose_a, transpose_b, check, quiet, force, run;
    bool typed; /* dtype is given */
    shoal_dtype dtype;
    int64_t panel; /* 0: not given */
    args_range rows_b;
    args_split split;
    args_share share;
} product_input;

extern const struct argp_option product_options[], product_explain_options[];
/* Takes an option of those tables. */
void product_take(void *input, int key, char *arg);
/* Parses; ends the process by cmd_usage when something is missing or does not go together. */
void product_parse(const cmd_command *command, int argc, char **argv, product_input *out);

typedef struct cmd_product {
    const product_input *input;
    cmd_operand a, b;
    cmd_pool pool;
    int64_t m, k, n;   /* the result is m x n, each element a sum of k products */
    shoal_dtype dtype; /* of the arithmetic */
    shoal_dtype result_dtype;
    int64_t panel; /* rows at a time */

    uint32_t n_slots; /* that take part: rows * columns * inner of the split */
    const shoal_slot *slots[ARGS_MOST_SLOTS];
    double shares[ARGS_MOST_SLOTS]; /* they add up to 1 */
    args_split split;
    double row_shares[ARGS_MOST_SLOTS]; /* how each panel is cut */
    int64_t column_cuts[ARGS_MOST_SLOTS + 1];
    int64_t inner_cuts[ARGS_MOST_SLOTS + 1];

    shoal_tensor *b_placed;
} cmd_product;

/* These print their message and return an exit code. After a failure product_close is still due. */
int product_open(const product_input *input, cmd_product *out);
/* Reads B and says how it is to lie; nothing runs yet. */
int product_place(cmd_product *product);
/* The panel of the result with rows [first, first + rows); nothing runs yet. */
int product_panel(cmd_product *product, int64_t first, int64_t rows, shoal_tensor **out);
void product_close(cmd_product *product);

/* The part of the worker with index i in a panel of so many rows. */
typedef struct product_part {
    int64_t rows, columns, inner;
} product_part;
product_part product_part_of(const cmd_product *product, uint32_t i, int64_t rows);
/* "rows", "columns", "inner" or "2x3". */
const char *product_split_text(const cmd_product *product, char out[32]);

#endif
