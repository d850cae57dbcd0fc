/* What the files share that write the corpora of the fuzz targets. */
#ifndef FUZZ_SEEDS_H
#define FUZZ_SEEDS_H

#include "wire/framed.h"

/* Writes one input of a target. */
void put(const char *target, const char *name, const void *data, size_t bytes);
/* What every Hello has. */
void fill(Shoal__Hello *hello);
/* A link of several paths, of which one ends. */
void link_paths(void);

#endif
