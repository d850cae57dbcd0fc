/* Allocations, wrapped: see memory.h. Any thread. */
#define _GNU_SOURCE
#include "memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void __real_free(void *at);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void __wrap_free(void *at);
char *__wrap_strdup(const char *text);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

/* Signed: libraries hand out blocks that our code frees (cJSON's text), which nobody has counted.
 */
static atomic_llong held, blocks, most = INT64_MAX;
static atomic_ullong count, failing;
static atomic_bool failed;

int64_t memory_bytes(void) { return held; }
int64_t memory_blocks(void) { return blocks; }
void memory_limit(int64_t bytes) { most = bytes; }
uint64_t memory_count(void) { return count; }
bool memory_failed(void) { return failed; }

void memory_fail(uint64_t n) {
    failing = n;
    failed = false;
    count = 0;
}

/* Callers of allocation, found by hashing; the lowest bit of an entry says that one has failed. */
enum { SITES = 4096 };
static atomic_uintptr_t sites[SITES];

static void note_site(const void *caller, bool fails) {
    uintptr_t site = (uintptr_t)caller << 1;
    for (size_t i = site * 0x9e3779b9 % SITES, n = 0; n < SITES; i = (i + 1) % SITES, n++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&sites[i], &none, site) && none >> 1 != site >> 1)
            continue;
        if (fails) sites[i] |= 1;
        return;
    }
}

void memory_sites(size_t *reached, size_t *unlucky) {
    *reached = *unlucky = 0;
    for (size_t i = 0; i < SITES; i++) {
        *reached += sites[i] != 0;
        *unlucky += sites[i] & 1;
    }
}

/* Whether this allocation is to fail. */
static bool refuse(size_t bytes, const void *caller) {
    if (most != INT64_MAX && (bytes > INT32_MAX || (int64_t)bytes > most - held)) {
        fprintf(stderr, "memory: %zu bytes asked for, %lld held, at most %lld allowed\n", bytes,
                (long long)held, (long long)most);
        abort();
    }
    uint64_t number = ++count;
    note_site(caller, number == failing);
    if (number != failing) return false;
    failed = true;
    return true;
}

/* In the function that the library called. */
#define refused(bytes) refuse(bytes, __builtin_return_address(0))

static void *added(void *at) {
    if (!at) return NULL;
    held += (long long)malloc_usable_size(at);
    blocks++;
    return at;
}

static void removed(void *at) {
    if (!at) return;
    held -= (long long)malloc_usable_size(at);
    blocks--;
}

void *__wrap_malloc(size_t bytes) { return refused(bytes) ? NULL : added(__real_malloc(bytes)); }

void *__wrap_calloc(size_t n, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all)) all = SIZE_MAX;
    return refused(all) ? NULL : added(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *at, size_t bytes) {
    if (refused(bytes)) return NULL;
    size_t before = at ? malloc_usable_size(at) : 0;
    void *moved = __real_realloc(at, bytes);
    if (!moved) return NULL;
    if (at) {
        held -= (long long)before;
        blocks--;
    }
    return added(moved);
}

void __wrap_free(void *at) {
    removed(at);
    __real_free(at);
}

char *__wrap_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = refused(bytes) ? NULL : added(__real_malloc(bytes));
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (refused(bytes)) return 12; /* ENOMEM */
    int error = __real_posix_memalign(out, alignment, bytes);
    if (!error) added(*out);
    return error;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return refused(bytes) ? NULL : added(__real_aligned_alloc(alignment, bytes));
}
