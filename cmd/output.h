/* Files that commands write: nothing that is there is overwritten unasked, and what is written
 * appears when it is complete. */
#ifndef CMD_OUTPUT_H
#define CMD_OUTPUT_H

#include "cmd.h"

#define OUTPUT_OPTION_FORCE                                                                        \
    { "force", OUTPUT_KEY_FORCE, NULL, 0, "Overwrite the output file", 3 }
enum { OUTPUT_KEY_FORCE = 0x20000 };

/* What a file's name ends in, from its last dot on, as ".npy"; "": there is none. */
const char *output_ending(const char *path);

/* These print their message and return an exit code. */

/* Before any work: whether a file may be written there. */
int output_check(const char *path, bool force);
/* A file beside `path` to write to, which output_commit renames to it. NULL with a message. */
FILE *output_open(const char *path, char **beside);
/* Closes and renames, or removes what failed. */
int output_commit(FILE *file, char *beside, const char *path);
/* Gives it up. */
void output_drop(FILE *file, char *beside);

#endif
