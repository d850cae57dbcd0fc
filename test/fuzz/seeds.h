/* Parts of what writes the corpora. */
#ifndef FUZZ_SEEDS_H
#define FUZZ_SEEDS_H

#include "wire/framed.h"

/* Writes an input of a target's corpus. */
void seeds_put(const char *target, const char *name, const void *data, size_t bytes);
/* What every Hello has. */
void seeds_fill(Shoal__Hello *hello);

void seeds_frames(void);
void seeds_paths(void);

#endif
