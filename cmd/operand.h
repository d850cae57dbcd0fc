/* A factor of a product: a matrix in a file, read block by block.
 *
 * `rows` x `columns` is the matrix as it is multiplied: after the cut of its stored rows and after
 * the transposition. */
#ifndef CMD_OPERAND_H
#define CMD_OPERAND_H

#include "args.h"

typedef struct cmd_operand {
    const char *text; /* as the user wrote it */
    shoal_file *file; /* NULL: it has no elements that anybody may read, but a shape for plans */
    uint64_t index;
    shoal_dtype dtype;
    bool transposed;
    bool plain, direct;     /* stored as numbers, not as blocks; and as they are in memory */
    uint64_t bytes;         /* in the file */
    bool mapped;            /* workers read it from the file themselves */
    bool whole;             /* all stored rows take part */
    int64_t first_stored;   /* first stored row that takes part */
    int64_t stored_columns; /* of the file's matrix */
    int64_t rows, columns;
} cmd_operand;

/* Opens the file of "path" or "path:tensor"; a path that exists is taken as it stands. On failure
 * the message is printed, nothing is left to close, and an exit code returned. */
int operand_file(const char *text, shoal_file **file, uint64_t *index);
/* text: "file.npy", "file.gguf:tensor", or "file.gguf" with one tensor. cut.last -1: all rows.
 * On failure the message is printed, nothing is left to close, and an exit code returned. */
int operand_open(const char *text, args_range cut, bool transposed, cmd_operand *out);
void operand_shape(const char *name, int64_t rows, int64_t columns, shoal_dtype dtype,
                   cmd_operand *out);
void operand_close(cmd_operand *operand);
/* Whether workers may read it from the file, all of which is read for its digest: much of it is
 * this matrix. */
bool operand_may_map(const cmd_operand *operand);
/* Whether a worker that maps the file computes with its rows where they lie. */
bool operand_lies(const cmd_operand *operand, shoal_dtype dtype);

/* These print their message and return an exit code. */

/* Has workers read it from the file. progress: of reading it for its digest, once for each file. */
int operand_map(cmd_operand *operand, bool (*progress)(void *context, uint64_t done, uint64_t all),
                void *context);
/* A part of the matrix. */
typedef struct cmd_block {
    int64_t row, rows, column, columns; /* the first one, and how many */
} cmd_block;
/* As a tensor of `dtype`. */
int operand_block(const cmd_operand *operand, const cmd_block *block, shoal_dtype dtype,
                  shoal_session *session, shoal_tensor **out);
/* Row `row` of the stored matrix (counted from first_stored), as double. `room` holds a stored row
 * as it is read. */
int operand_stored_row(const cmd_operand *operand, int64_t row, void *room, double *out);
/* Row `row` of the matrix as it is multiplied, as double; `room` as above. */
int operand_row(const cmd_operand *operand, int64_t row, void *room, double *out);

/* One floating element, as double. */
double operand_element(shoal_dtype dtype, const void *data, int64_t index);

#endif
