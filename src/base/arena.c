#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

struct base_arena_block {
    struct base_arena_block *next;
    size_t size, used;
    _Alignas(64) unsigned char data[];
};

void base_arena_init(base_arena *arena, size_t limit) { *arena = (base_arena){.limit = limit}; }

void base_arena_fini(base_arena *arena) {
    for (struct base_arena_block *block = arena->blocks; block;) {
        struct base_arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (base_arena){.limit = arena->limit};
}

static struct base_arena_block *grow(base_arena *arena, size_t bytes) {
    /* Blocks double, so that a large graph takes few of them and a small one little memory. */
    size_t size = arena->blocks ? 2 * arena->blocks->size : 960;
    if (size > (1 << 20)) size = 1 << 20;
    if (size < bytes) size = bytes;
    if (arena->limit && (size > arena->limit || arena->held > arena->limit - size)) {
        size = bytes;
        if (size > arena->limit || arena->held > arena->limit - size) {
            base_fail(SHOAL_NO_MEMORY, "over the limit of %zu bytes for one piece of input",
                      arena->limit);
            return NULL;
        }
    }
    size_t total = (sizeof(struct base_arena_block) + size + 63) & ~(size_t)63;
    struct base_arena_block *block = aligned_alloc(64, total);
    if (!block) {
        base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", total);
        return NULL;
    }
    *block = (struct base_arena_block){.size = size};
    arena->held += size;
    /* A block made for one large piece goes behind the current one, which still has room. */
    if (arena->blocks && bytes >= size && arena->blocks->size - arena->blocks->used > 256) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    return block;
}

void *base_arena_alloc(base_arena *arena, size_t bytes) {
    size_t align = bytes >= 64 ? 64 : 16;
    struct base_arena_block *block = arena->blocks;
    if (bytes > SIZE_MAX / 4) {
        base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
        return NULL;
    }
    size_t at = block ? (block->used + align - 1) & ~(align - 1) : 0;
    if (!block || at > block->size || block->size - at < bytes) {
        block = grow(arena, bytes);
        if (!block) return NULL;
        at = 0;
    }
    block->used = at + bytes;
    return memset(block->data + at, 0, bytes);
}

void *base_arena_alloc_array(base_arena *arena, size_t size, size_t count) {
    size_t bytes;
    if (base_mul_overflow(size, count, &bytes)) bytes = SIZE_MAX;
    return base_arena_alloc(arena, bytes);
}

void *base_arena_copy(base_arena *arena, const void *data, size_t bytes) {
    void *copy = base_arena_alloc(arena, bytes);
    if (copy && bytes) memcpy(copy, data, bytes);
    return copy;
}

char *base_arena_string(base_arena *arena, const char *text) {
    return text ? base_arena_copy(arena, text, strlen(text) + 1) : NULL;
}
