/* What windows, orders and indices need along a line (pools.c). */
#ifndef CPU_POOLS_H
#define CPU_POOLS_H

#include "shoal/types.h"

#include <stdbool.h>
#include <stdint.h>

/* The two types that are computed with as they are. */
enum { CPU_F32, CPU_F64, CPU_FLOATS };
/* Those that are compared as they are. */
enum { CPU_I32 = CPU_FLOATS, CPU_COMPARED };

/* Whether n indices are from start to before limit, or `ignored` where that is not NULL. */
typedef bool (*cpu_inside_kernel)(int64_t n, const void *indices, int64_t start, int64_t limit,
                                  const int64_t *ignored);
/* list[i] becomes i * each, or with `more` what it is, and the stride times the index number i of
 * n, which are `step` apart. An index that is not within 0 .. last is clamped, or dropped, for
 * which list[i] becomes -1, and stays so. */
typedef struct cpu_chosen {
    int64_t stride, last; /* of the axis that an index chooses */
} cpu_chosen;
typedef void (*cpu_list_kernel)(int64_t n, const void *indices, int64_t step, cpu_chosen chosen,
                                int64_t each, bool more, int64_t *list);
/* Elements list[i] of `from`, to places that are `step` apart. */
typedef void (*cpu_take_kernel)(int64_t n, const void *from, const int64_t *list, int64_t step,
                                void *to);
/* Elements that are `step` apart to, or joined with, elements list[i] >= 0 of `to`, in order. */
typedef void (*cpu_put_kernel)(int64_t n, const void *from, int64_t step, const int64_t *list,
                               void *to);

enum { CPU_GE, CPU_GT, CPU_LE, CPU_LT, CPU_MOST, CPU_LEAST, CPU_CHOICES };
typedef struct cpu_pools {
    /* n elements that are `step` apart, by their bytes. */
    void (*pick[9])(int64_t n, const void *from, int64_t step, void *to);
    /* By the indices' type, and by the elements' bytes or type. */
    cpu_inside_kernel inside[SHOAL_DTYPE_COUNT];
    cpu_list_kernel clamp[SHOAL_DTYPE_COUNT], drop[SHOAL_DTYPE_COUNT];
    cpu_take_kernel take[9];
    cpu_put_kernel put[9], add[SHOAL_DTYPE_COUNT];
    /* n places, whose next elements are `step` apart and have numbers from `at` on, that far apart:
     * where the best so far does not compare so, or there is none and places is -1, they become the
     * best. MOST, LEAST: the first one stays, and NaN does. */
    void (*choose[CPU_COMPARED][CPU_CHOICES])(int64_t n, const void *x, int64_t step, int32_t at,
                                              void *best, int32_t *places);
    /* The place of the first largest, or least, of n > 0 elements; -1 where one is NaN. */
    int64_t (*extreme[CPU_COMPARED][2])(int64_t n, const void *x);
    /* Keys of n elements of four bytes, or of eight (order.c), with some bits flipped. */
    void (*keys[2])(int64_t n, const void *x, bool is_float, uint64_t flip, void *to);
    /* The places, up to n, of such keys below a bound; returns how many. One more is written. */
    int64_t (*below[2])(int64_t n, const void *keys, uint64_t bound, int32_t *places);
} cpu_pools;

#endif
