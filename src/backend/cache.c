#include "backend/cache.h"

#include "base/clock.h"

#include <string.h>

/* For how long a block is kept that nobody takes. */
#define CACHE_TIME (10 * BASE_SECOND)
/* Bytes that are kept in any case. */
#define CACHE_FREELY ((size_t)1 << 28)

void backend_cache_init(backend_cache *cache, size_t most,
                        void (*free)(void *context, void *block, size_t room), void *context) {
    *cache = (backend_cache){.free = free, .context = context, .most = most};
    pthread_mutex_init(&cache->lock, NULL);
}

static void *remove_block(backend_cache *cache, size_t i) {
    void *block = cache->blocks[i].block;
    cache->bytes -= cache->blocks[i].room;
    cache->n--;
    memmove(&cache->blocks[i], &cache->blocks[i + 1], (cache->n - i) * sizeof cache->blocks[0]);
    return block;
}

static void trim(backend_cache *cache, size_t most, int64_t oldest) {
    while (cache->n && (cache->bytes > most || cache->blocks[0].since < oldest)) {
        size_t room = cache->blocks[0].room;
        cache->free(cache->context, remove_block(cache, 0), room);
    }
}

void *backend_cache_take(backend_cache *cache, size_t *room, bool brief) {
    pthread_mutex_lock(&cache->lock);
    size_t best = cache->n;
    for (size_t i = 0; i < cache->n; i++) {
        size_t has = cache->blocks[i].room;
        if (has < *room || (!brief && has - *room > has / 4)) continue;
        if (best == cache->n || has <= cache->blocks[best].room)
            best = i; /* the newest, so that others age */
    }
    void *block = NULL;
    if (best < cache->n) {
        *room = cache->blocks[best].room;
        block = remove_block(cache, best);
    } else if (cache->bytes > CACHE_FREELY) {
        /* What fits nobody gives way to what is made new: large models do not hold both. */
        trim(cache, cache->bytes - CACHE_FREELY > *room ? cache->bytes - *room : CACHE_FREELY, 0);
    }
    pthread_mutex_unlock(&cache->lock);
    return block;
}

void backend_cache_keep(backend_cache *cache, void *block, size_t room) {
    int64_t now = base_now();
    if (room > cache->most) {
        cache->free(cache->context, block, room);
        return;
    }
    pthread_mutex_lock(&cache->lock);
    if (cache->n == BACKEND_KEPT_BLOCKS) trim(cache, SIZE_MAX, cache->blocks[0].since + 1);
    cache->blocks[cache->n].block = block;
    cache->blocks[cache->n].room = room;
    cache->blocks[cache->n++].since = now;
    cache->bytes += room;
    trim(cache, cache->most, now - CACHE_TIME);
    pthread_mutex_unlock(&cache->lock);
}

void backend_cache_clear(backend_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    trim(cache, 0, INT64_MAX);
    pthread_mutex_unlock(&cache->lock);
}

void backend_cache_fini(backend_cache *cache) {
    backend_cache_clear(cache);
    pthread_mutex_destroy(&cache->lock);
}
