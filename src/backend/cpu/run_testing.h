/* What tests of kernels share: a graph run on a backend's device. Asserts by cmocka. */
#ifndef CPU_RUN_TESTING_H
#define CPU_RUN_TESTING_H

#include "backend/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != SHOAL_OK) fail_msg("%s: %s", #call, shoal_error_message());                  \
    } while (0)

/* Computes a graph from the memory of its inputs into that of its outputs. Returns the bytes of its
 * workspace. */
size_t test_run(const char *name, uint32_t threads, const shoal_graph *g, void *const *in,
                void *const *out);
/* The same into memory that is made for it; the caller frees what `out` gets. */
size_t test_run_new(const char *name, uint32_t threads, const shoal_graph *g, void *const *in,
                    float **out);

#endif
