/* Counting and failing of allocations: malloc and its kin are wrapped by the linker (--wrap) in the
 * programs that use this. */
#ifndef TEST_FUZZ_MEMORY_H
#define TEST_FUZZ_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes and blocks held now. */
int64_t memory_bytes(void);
int64_t memory_blocks(void);
/* From now on an allocation that takes more than `bytes` in all ends the program with a message;
 * INT64_MAX: no limit. */
void memory_limit(int64_t bytes);
/* The n-th allocation from now fails, once; 0: none. */
void memory_fail(uint64_t n);
/* Allocations since memory_fail, and whether one of them was made to fail. */
uint64_t memory_count(void);
bool memory_failed(void);
/* Places in the code that have allocated, and those of which an allocation has failed. */
void memory_sites(size_t *reached, size_t *failed);

#endif
