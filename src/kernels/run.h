/* Computing a call: compiled once per combination of shapes, strides and types, and kept. */
#ifndef KERNELS_RUN_H
#define KERNELS_RUN_H

#include "graph/graph.h"
#include "kernels/array.h"

enum { KERNELS_MOST_INPUTS = 64 };

typedef struct kernels_call kernels_call;
/* Appends what computes the call to `g`, from the values of its operands; outputs[i] becomes the
 * value of result i. */
typedef shoal_status (*kernels_build)(const kernels_call *call, graph *g, const uint32_t *inputs,
                                      uint32_t *outputs);

struct kernels_call {
    const char *name; /* for messages */
    kernels_build build;
    uint16_t op; /* what `build` goes by, with the attributes */
    uint16_t n_attrs;
    const shoal_attr *attrs;
    const shoal_array *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
};

shoal_status kernels_run(const kernels_call *call) SHOAL_CHECK_RESULT;

#endif
