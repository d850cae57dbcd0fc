/* An arena: many small allocations that are freed together. Not for use by two threads at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/status.h"

typedef struct base_arena {
    struct base_arena_block *blocks;
    size_t limit; /* bytes it may hold; 0: no limit */
    size_t held;
} base_arena;

/* limit: the most bytes the arena may take, for input from outside; 0 for none. */
void base_arena_init(base_arena *arena, size_t limit);
void base_arena_fini(base_arena *arena);
/* Frees all pieces, and keeps the newest block for those to come. */
void base_arena_clear(base_arena *arena);
/* Frees the blocks of arenas that have ended, which are kept for those to come, of all threads. */
void base_arena_trim(void);
/* Zeroed memory, aligned to 64 when bytes >= 64, else to 16. NULL with a message when there is no
 * memory or the limit is passed. bytes may be 0. */
void *base_arena_alloc(base_arena *arena, size_t bytes);
/* A copy of `bytes` bytes, as base_arena_alloc. */
void *base_arena_copy(base_arena *arena, const void *data, size_t bytes);
/* A copy of a string; NULL stays NULL without a message. */
char *base_arena_string(base_arena *arena, const char *text);

#define base_arena_array(arena, type, count)                                                       \
    ((type *)base_arena_alloc_array(arena, sizeof(type), (size_t)(count)))
/* As base_arena_alloc for count * size bytes, checked. */
void *base_arena_alloc_array(base_arena *arena, size_t size, size_t count);

#endif
