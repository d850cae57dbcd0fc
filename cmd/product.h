/* A product of two files over a pool: what the user asked for, checked against the files and the
 * pool, and its parts as tensors. `shoal matmul` runs it, `shoal explain` shows its plan.
 *
 * The result is computed part by part, so that memory stays bounded: columns of B are placed, all
 * of them if the workers have the memory, then each panel of A's rows meets them. Within a part the
 * workers form a grid of `rows` x `columns` x `inner`: A is cut by rows and inner, B by inner and
 * columns. Rows, columns, inner and grid products differ only in the sides of that grid. */
#ifndef CMD_PRODUCT_H
#define CMD_PRODUCT_H

#include "args.h"
#include "operand.h"
#include "pool.h"

#include <cjson/cJSON.h>

typedef struct product_input {
    const char *a, *b, *out, *hub;
    bool shape;         /* no files: */
    int64_t extents[3]; /* M x K times K x N */
    uint32_t workers;   /* 0: not given */
    bool transpose_a, transpose_b, check, quiet, force, run;
    bool typed; /* dtype is given */
    shoal_dtype dtype;
    int64_t panel; /* 0: not given */
    args_range rows_b;
    args_split split;
    args_share share;
    args_slots on;
} product_input;

extern const struct argp_option product_options[], product_explain_options[],
    product_split_options[];
/* Takes an option of those tables. */
void product_take(void *input, int key, char *arg);
/* Parses; ends the process by cmd_usage when something is missing or does not go together. */
void product_parse(const cmd_command *command, int argc, char **argv, product_input *out);

/* How an axis is cut, piece by piece, so that each part of all pieces together is the share that it
 * should be, to the element. */
typedef struct product_axis {
    uint32_t parts;
    double shares[ARGS_MOST_SLOTS]; /* they add up to 1 */
    double given[ARGS_MOST_SLOTS];  /* to each part, of the pieces so far */
} product_axis;
typedef int64_t product_cuts[ARGS_MOST_SLOTS + 1];

typedef struct cmd_product {
    const product_input *input;
    cmd_operand a, b;
    cmd_pool pool;
    int64_t m, k, n;   /* the result is m x n, each element a sum of k products */
    shoal_dtype dtype; /* of the arithmetic */
    shoal_dtype result_dtype;
    int64_t panel; /* rows at a time */
    int64_t block; /* columns at a time */

    uint32_t n_slots; /* that take part: rows * columns * inner of the split */
    const shoal_slot *slots[ARGS_MOST_SLOTS];
    uint32_t ordinals[ARGS_MOST_SLOTS]; /* their places among those that --share counts */
    double shares[ARGS_MOST_SLOTS];     /* they add up to 1 */
    args_split split;
    product_axis rows_axis, columns_axis, inner_axis;
    bool follows; /* nobody said how A's rows are shared: as fast as the slots turn out to be */
    product_cuts inner_cuts, column_cuts, row_cuts; /* of the part at hand */

    cmd_block b_block;      /* of B that the next panels meet, */
    shoal_tensor *b_placed; /* held by the workers, unless they read it from its file */
} cmd_product;

/* These print their message and return an exit code. After a failure product_close is still due. */
/* progress: NULL: none is told. */
int product_open(const product_input *input, cmd_progress *progress, cmd_product *out);
/* Asks how fast the slots are, and shares the work so where the user has left that open. */
int product_weigh(cmd_product *product);
/* The same by weights that are known, one for each slot; whether anything was open. */
bool product_share(cmd_product *product, const double *weights);
/* Whether nobody gave this slot's share. */
bool product_is_open(const cmd_product *product, uint32_t slot);
/* Of the rows that somebody was given too many of, half are made up for in the next panel, which
 * has so many rows: all would be too much while several panels are under way. Percentages that were
 * given stay those of all rows. */
void product_make_up(cmd_product *product, int64_t rows);
/* Reads columns of B and says how they are to lie, in the place of those before; nothing runs yet.
 */
int product_place(cmd_product *product, int64_t first, int64_t columns);
/* The rows [first, first + rows) of the product with the columns that are placed; nothing runs yet.
 * To be asked for in order. */
int product_panel(cmd_product *product, int64_t first, int64_t rows, shoal_tensor **out);
void product_close(cmd_product *product);

/* What the worker with index i does of the part at hand. */
typedef struct product_part {
    int64_t rows, columns, inner;
} product_part;
product_part product_part_of(const cmd_product *product, uint32_t i);
/* "rows", "columns", "inner" or "2x3". */
const char *product_split_text(const cmd_product *product, char out[32]);

/* For reports: the product, and what a slot does of it. The caller owns them. */
cJSON *product_describe(const cmd_product *product);
cJSON *product_row(const cmd_product *product, uint32_t i, product_part part);

#endif
