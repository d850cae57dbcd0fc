/* What a fuzz target brings, and what it may use. A target is one decoder of bytes from outside: it
 * is linked with libFuzzer (`make fuzz`) or with replay.c, which replays a corpus and then mutated
 * inputs (`make test`, `make soak`). */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- of the target ---- */

/* libFuzzer's name. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* The most memory that this project's code may hold at a time for an input of `size` bytes. */
size_t fuzz_limit(size_t size);

/* ---- for the target ---- */

/* Counts an input that the decoder took: where none is, or all are, the inputs try nothing. */
extern uint64_t fuzz_accepted;

/* A rule that must hold whatever the input is. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
