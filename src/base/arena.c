/* Arenas. Large blocks of an arena that has ended are kept for the next one, a few in all: programs
 * come and go by the thousand, and fresh pages cost more than what is written to them. Others go
 * back to the system: those of a large plan would stay in the heap below what outlives it. */
#include "base/arena.h"

#include "base/os_cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct base_arena_block {
    struct base_arena_block *next;
    size_t size, used;
    size_t zeroed; /* the bytes from `used` to here are zero */
    size_t pages;  /* bytes of pages of its own; 0: it lies in the heap */
    _Alignas(64) unsigned char data[];
};

/* Zeroed at a time: most pieces are far smaller than a call of memset for each is worth. */
enum { STRIDE = 4096 };
/* Kept are blocks of 2^LEAST to 2^(LEAST + SIZES) bytes: DEEP of each size, at most 32 MiB in all.
 * A program that was never seen takes a dozen, in several arenas at once. */
enum { SIZES = 7, LEAST = 15, DEEP = 4 };
#ifdef __SANITIZE_ADDRESS__ /* which looks for what is kept in the heap alone */
static const size_t LEAST_PAGES = SIZE_MAX;
#else
static const size_t LEAST_PAGES = 1 << 17;
#endif

static _Atomic(struct base_arena_block *) spares[SIZES][DEEP];

static void release(struct base_arena_block *block) {
    if (block->pages)
        base_pages_free(block, block->pages);
    else
        free(block);
}

/* Which of the kept sizes a block of so many bytes is; SIZES or more: none. */
static unsigned size_class(size_t size) {
    return size >> LEAST ? 63 - (unsigned)__builtin_clzll(size) - LEAST : SIZES;
}

/* Keeps a block, or frees it. Not where freed memory is watched for those who still use it. */
static void give_back(struct base_arena_block *block) {
#ifndef __SANITIZE_ADDRESS__
    unsigned class = size_class(block->size);
    for (int i = 0; class < SIZES && i < DEEP; i++) {
        struct base_arena_block *none = NULL;
        if (atomic_compare_exchange_strong(&spares[class][i], &none, block)) return;
    }
#endif
    release(block);
}

void base_arena_trim(void) {
    for (unsigned i = 0; i < SIZES * DEEP; i++) {
        struct base_arena_block *block = atomic_exchange(&spares[i / DEEP][i % DEEP], NULL);
        if (block) release(block);
    }
}

/* A fresh block of `size` bytes, or NULL with a message. */
static struct base_arena_block *block_new(size_t size) {
    size_t total = (sizeof(struct base_arena_block) + size + 63) & ~(size_t)63, pages = 0;
    struct base_arena_block *block;
    if (total >= LEAST_PAGES) {
        pages = (total + BASE_PAGES_GRAIN - 1) & ~(BASE_PAGES_GRAIN - 1);
        block = base_pages_new(pages);
    } else {
        block = aligned_alloc(64, total);
        if (!block) base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", total);
    }
    if (block) {
        block->size = size;
        block->pages = pages;
    }
    return block;
}

/* A block that was kept, of at least `size` bytes and at most twice as many, or NULL. */
static struct base_arena_block *take_spare(size_t size) {
    unsigned class = size_class(size);
    for (unsigned i = 0; class < SIZES && i < 2 * DEEP && class + i / DEEP < SIZES; i++) {
        _Atomic(struct base_arena_block *) *spare = &spares[class + i / DEEP][i % DEEP];
        struct base_arena_block *block =
            atomic_load_explicit(spare, memory_order_relaxed) ? atomic_exchange(spare, NULL) : NULL;
        if (!block) continue;
        if (block->size >= size && block->size / 2 <= size) return block;
        give_back(block);
    }
    return NULL;
}

void base_arena_init(base_arena *arena, size_t limit) { *arena = (base_arena){.limit = limit}; }

void base_arena_fini(base_arena *arena) {
    for (struct base_arena_block *block = arena->blocks; block;) {
        struct base_arena_block *next = block->next;
        give_back(block);
        block = next;
    }
    *arena = (base_arena){.limit = arena->limit};
}

void base_arena_clear(base_arena *arena) {
    struct base_arena_block *newest = arena->blocks;
    if (!newest) return;
    for (struct base_arena_block *block = newest->next, *next; block; block = next) {
        next = block->next;
        give_back(block);
    }
    newest->next = NULL;
    memset(newest->data, 0, newest->used);
    newest->used = 0;
    arena->held = newest->size;
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
    struct base_arena_block *block = take_spare(size);
    if (block && arena->limit && block->size > arena->limit - arena->held) {
        give_back(block);
        block = NULL;
    }
    if (!block && !(block = block_new(size))) return NULL;
    block->used = block->zeroed = 0;
    arena->held += block->size;
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

/* The slow way: a block to take the bytes from at `at`, where they are zero. */
static struct base_arena_block *prepare(base_arena *arena, size_t *at, size_t bytes) {
    struct base_arena_block *block = arena->blocks;
    if (bytes > SIZE_MAX / 4) {
        base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
        return NULL;
    }
    if (!block || *at > block->size || block->size - *at < bytes) {
        block = grow(arena, bytes);
        if (!block) return NULL;
        *at = 0;
    }
    size_t from = block->zeroed > *at ? block->zeroed : *at, room = block->size - from;
    size_t missing = *at + bytes > from ? *at + bytes - from : 0;
    size_t more = missing > STRIDE ? missing : room < STRIDE ? room : STRIDE;
    memset(block->data + from, 0, more);
    block->zeroed = from + more;
    return block;
}

void *base_arena_alloc(base_arena *arena, size_t bytes) {
    size_t align = bytes >= 64 ? 64 : 16;
    struct base_arena_block *block = arena->blocks;
    size_t at = block ? (block->used + align - 1) & ~(align - 1) : 0;
    if (!block || at > block->zeroed || block->zeroed - at < bytes) {
        block = prepare(arena, &at, bytes);
        if (!block) return NULL;
    }
    block->used = at + bytes;
    return block->data + at;
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
