/* A plug-in with an operation of one's own and no backend: the larger of the first operand and the
 * mean of the second one along its last axis, float32. */
#include "shoal/backend.h"

static shoal_status run(const shoal_host *host, void *context, const shoal_type *types,
                        const void *const *inputs, uint32_t n_inputs, const shoal_type *type,
                        void *output) {
    const float *x = inputs[0], *y = inputs[1];
    float *out = output;
    int64_t count = 1, row = type->rank ? type->dims[type->rank - 1] : 1;
    if (n_inputs != 2 || types[0].dtype != SHOAL_F32 || types[1].dtype != SHOAL_F32 ||
        type->dtype != SHOAL_F32)
        return host->fail(SHOAL_UNSUPPORTED, "it takes two tensors of float32");
    for (uint32_t a = 0; a < type->rank; a++) count *= type->dims[a];
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t k = 0; k < row; k++) sum += y[i / row * row + k];
        float mean = (float)(sum / (double)row);
        out[i] = x[i] > mean ? x[i] : mean;
    }
    return SHOAL_OK;
}

#define SOURCE(head, integer)                                                                      \
    head "{ const " integer " row = x1_dims[x1_rank - 1];"                                         \
         "  float sum = 0;"                                                                        \
         "  for (" integer " k = 0; k < row; k++) sum += x1[item / row * row + k];"                \
         "  y0[item] = fmax(x0[item], sum / row); }"
static const char opencl[] = SOURCE("void operation(long item, const __global x0_t *x0, "
                                    "const __global x1_t *x1, __global y0_t *y0)",
                                    "long");
static const char cuda[] = SOURCE("__device__ void operation(long long item, const x0_t *x0, "
                                  "const x1_t *x1, y0_t *y0)",
                                  "long long");

static const shoal_operation above_mean = {
    sizeof above_mean, "above_mean", run, NULL, opencl, cuda};

SHOAL_API extern const shoal_operation *const shoal_plugin_operations[];
const shoal_operation *const shoal_plugin_operations[] = {&above_mean, NULL};
