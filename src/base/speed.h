/* How fast a device is: the figures that plans are made of. Each is measured when a plan first
 * depends on it, and assumed until then. */
#ifndef BASE_SPEED_H
#define BASE_SPEED_H

#include "shoal/types.h"

#include <stdint.h>

/* Operations per second of products, by the class of their element type; bytes of its memory per
 * second; seconds from the start of a run that does nothing to its end; bytes per second between
 * the machine's memory and its own, and seconds for none of them. The last two are 0 for devices
 * that compute in the machine's memory. */
#define BASE_FIGURE_TABLE(X)                                                                       \
    X(PRODUCTS_F32, "products.f32", "operations/s")                                                \
    X(PRODUCTS_F64, "products.f64", "operations/s")                                                \
    X(PRODUCTS_F16, "products.f16", "operations/s")                                                \
    X(PRODUCTS_BF16, "products.bf16", "operations/s")                                              \
    X(PRODUCTS_INT, "products.int", "operations/s")                                                \
    X(STREAM, "stream", "bytes/s")                                                                 \
    X(LAUNCH, "launch", "s")                                                                       \
    X(TRANSFER, "transfer", "bytes/s")                                                             \
    X(TRANSFER_DELAY, "transfer.delay", "s")

typedef enum base_figure {
#define X(NAME, text, unit) BASE_##NAME,
    BASE_FIGURE_TABLE(X)
#undef X
        BASE_FIGURES
} base_figure;

typedef struct base_speeds {
    double of[BASE_FIGURES]; /* 0: not known */
} base_speeds;

const char *base_figure_name(base_figure figure);
const char *base_figure_unit(base_figure figure);
/* The products that an element type counts as. */
base_figure base_figure_of(shoal_dtype dtype);
/* With what an ordinary machine of so many cores would do in the place of products and streaming
 * that were not measured. */
base_speeds base_speeds_assumed(const base_speeds *measured, uint32_t threads);
/* The one roofline: seconds for so many operations on elements of a class and so many bytes of
 * memory, whichever takes longer, without the launch. Streaming that is not known takes none. */
double base_speeds_seconds(const base_speeds *speeds, base_figure products, double operations,
                           double bytes);

#endif
