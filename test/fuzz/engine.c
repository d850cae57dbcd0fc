/* What libFuzzer needs besides a target: the target's limit of memory, set for every input. */
#include "fuzz.h"
#include "memory.h"

uint64_t fuzz_accepted;

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool made; /* what is made once is no part of an input */
    if (!made) __real_LLVMFuzzerTestOneInput(data, 0);
    made = true;
    memory_limit(memory_bytes() + (int64_t)fuzz_limit(size));
    int result = __real_LLVMFuzzerTestOneInput(data, size);
    memory_limit(INT64_MAX);
    return result;
}
