/* Shoal's own random numbers, written in the standard's operations. */
#ifndef GRAPH_STABLEHLO_RANDOM_H
#define GRAPH_STABLEHLO_RANDOM_H

#include "graph/maker.h"

/* What the operation `random` gives: UNIFORM, NORMAL or BITS, from two numbers of uint64. */
uint32_t hlo_random(maker *m, const char *how, const shoal_type *type, uint32_t seed,
                    uint32_t stream);

#endif
