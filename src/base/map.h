/* A hash map from a 64-bit number to a pointer: for tables of ids. Open addressing. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/status.h"

typedef struct base_map {
    struct base_map_entry *entries;
    size_t count; /* entries that hold something */
    size_t used;  /* and those that once did */
    size_t room;  /* a power of two, or 0 */
} base_map;

void base_map_init(base_map *map);
/* Frees the table, not what its pointers point to. */
void base_map_fini(base_map *map);
/* NULL when there is none. */
void *base_map_get(const base_map *map, uint64_t key);
/* Sets or replaces. `value` must not be NULL. */
shoal_status base_map_set(base_map *map, uint64_t key, void *value) SHOAL_CHECK_RESULT;
/* Removes and returns what was there, or NULL. */
void *base_map_remove(base_map *map, uint64_t key);
/* Iteration: start with *at = 0; false at the end. Removing the current entry is allowed. */
bool base_map_next(const base_map *map, size_t *at, uint64_t *key, void **value);

/* A 64-bit hash of bytes (XXH3). */
uint64_t base_hash(const void *data, size_t bytes);

#endif
