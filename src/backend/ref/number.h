/* Numbers of all element types, in the four classes in which the reference computes.
 *
 * Integers and bool widen to 64 bits and narrow back, so that overflow wraps; float16 and bfloat16
 * widen to float and are rounded once, to the nearest with ties to even, when a result is stored.
 */
#ifndef REF_NUMBER_H
#define REF_NUMBER_H

#include "shoal/types.h"

#include <string.h>

typedef enum ref_class {
    REF_I, /* int8 to int64 */
    REF_U, /* uint8 to uint64; bool as 0 and 1 */
    REF_F, /* float16, bfloat16, float32 */
    REF_D, /* float64 */
} ref_class;

enum { REF_CHUNK = 256 };

/* Some elements, widened. */
typedef union ref_chunk {
    int64_t i[REF_CHUNK];
    uint64_t u[REF_CHUNK];
    float f[REF_CHUNK];
    double d[REF_CHUNK];
} ref_chunk;

ref_class ref_class_of(uint8_t dtype);
/* Reads n <= REF_CHUNK elements, beginning with number `at`. */
void ref_load(ref_chunk *to, uint8_t dtype, const void *from, int64_t at, int64_t n);
/* Writes them; the chunk is of the element type's class. */
void ref_store(const ref_chunk *from, uint8_t dtype, void *to, int64_t at, int64_t n);
/* Changes a chunk of class `from` to what ref_store of `dtype` takes, so that storing rounds once.
 * Floating-point numbers saturate to integers, NaN becomes 0, as XLA does; bool is x != 0. */
void ref_convert_chunk(ref_chunk *chunk, ref_class from, uint8_t dtype, int64_t n);

float ref_from_half(uint16_t bits);
uint16_t ref_to_half(double value);
float ref_from_bfloat(uint16_t bits);
uint16_t ref_to_bfloat(double value);

#endif
