/* Writing a matrix to a .npy row after row: into a hidden file beside the path, which takes the
 * path's name once it is complete. What shoal_npy_write does for a whole tensor, for one that need
 * not fit into memory. */
#ifndef CMD_NPY_H
#define CMD_NPY_H

#include "cmd.h"

typedef struct cmd_npy {
    const char *path;
    char hidden[4096];
    int file;
} cmd_npy;

/* These print their message and return an exit code. dtype: one that NumPy has (not bfloat16). */
int npy_open(const char *path, bool overwrite, shoal_dtype dtype, int64_t rows, int64_t columns,
             cmd_npy *out);
int npy_append(cmd_npy *npy, const void *data, size_t bytes);
/* Gives the file its name. */
int npy_commit(cmd_npy *npy);
/* Removes the hidden file; after npy_commit it does nothing. */
void npy_close(cmd_npy *npy);

#endif
