/* Blocks of memory that were given back, kept for who asks for such a size next: fresh pages, and
 * what drivers do about new buffers, cost more than most work on them. Any thread. */
#ifndef BACKEND_CACHE_H
#define BACKEND_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BACKEND_KEPT_BLOCKS = 256 };

typedef struct backend_cache {
    void (*free)(void *context, void *block, size_t room);
    void *context;
    pthread_mutex_t lock;
    size_t n, bytes, most; /* most: bytes that are kept */
    struct {
        void *block;
        size_t room;
        int64_t since;
    } blocks[BACKEND_KEPT_BLOCKS]; /* the oldest first */
} backend_cache;

void backend_cache_init(backend_cache *cache, size_t most,
                        void (*free)(void *context, void *block, size_t room), void *context);
/* Frees all blocks. */
void backend_cache_fini(backend_cache *cache);
/* The smallest kept block that is large enough, if at most a quarter of it would lie idle; brief:
 * however much, as it is given back soon. *room becomes its size. NULL: there is none, and of many
 * that are kept some are freed for the one that will be made. */
void *backend_cache_take(backend_cache *cache, size_t *room, bool brief);
/* Takes a block, or frees it; and frees those that nobody has asked for in a while. */
void backend_cache_keep(backend_cache *cache, void *block, size_t room);
void backend_cache_clear(backend_cache *cache);

#endif
