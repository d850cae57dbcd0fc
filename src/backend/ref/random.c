/* Random numbers that depend on the seed, the stream and an element's number alone: Philox4x32-10
 * (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). The key is the seed, the
 * counter the number of a block and, in its upper half, the stream.
 *
 * A block is four words. Elements of up to 32 bits take word i % 4 of block i / 4; those of 64 bits
 * two words, the upper first, of block i / 2. Elements i and i + 1 (i even) of a normal
 * distribution are the cosine and the sine that Box and Muller's method makes of block i / 2. */
#include "backend/ref/ref.h"

#include <math.h>

static void philox(uint64_t key, uint64_t block, uint64_t stream, uint32_t *words) {
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    words[0] = (uint32_t)block;
    words[1] = (uint32_t)(block >> 32);
    words[2] = (uint32_t)stream;
    words[3] = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = UINT64_C(0xD2511F53) * words[0], b = UINT64_C(0xCD9E8D57) * words[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ words[1] ^ low, (uint32_t)b,
                            (uint32_t)(a >> 32) ^ words[3] ^ high, (uint32_t)a};
        memcpy(words, next, sizeof next);
        low += 0x9E3779B9;
        high += 0xBB67AE85;
    }
}

static uint64_t scalar(const ref_call *call, uint32_t input) {
    if (input >= call->node->n_inputs) return 0;
    ref_chunk one;
    ref_load(&one, ref_input(call, input)->dtype, call->inputs[input], 0, 1);
    return one.u[0];
}

/* The number in the whole tensor of element `index` of this part. */
static uint64_t number_of(const ref_call *call, int64_t index) {
    const shoal_type *type = ref_output(call);
    const shoal_attr *start = ref_attr(call, SHOAL_ATTR_START_INDICES);
    const shoal_attr *whole = ref_attr(call, SHOAL_ATTR_WHOLE_SHAPE);
    if (!start || !whole) return (uint64_t)index;
    int64_t at[SHOAL_MAX_RANK], number = 0;
    for (uint32_t i = type->rank; i-- > 0; index /= type->dims[i]) at[i] = index % type->dims[i];
    for (uint32_t i = 0; i < type->rank; i++)
        number = number * whole->u.ints[i] + at[i] + start->u.ints[i];
    return (uint64_t)number;
}

static double normal(uint64_t seed, uint64_t stream, uint64_t i) {
    uint32_t w[4];
    philox(seed, i / 2, stream, w);
    double u = (double)(((uint64_t)w[0] << 32 | w[1]) >> 11) + 1;
    double v = (double)(((uint64_t)w[2] << 32 | w[3]) >> 11);
    double radius = sqrt(-2 * log(u * 0x1p-53)), angle = 6.283185307179586477 * (v * 0x1p-53);
    return radius * (i % 2 ? sin(angle) : cos(angle));
}

static uint64_t bits(uint64_t seed, uint64_t stream, uint64_t i, size_t bytes) {
    uint32_t w[4];
    philox(seed, bytes == 8 ? i / 2 : i / 4, stream, w);
    return bytes == 8 ? (uint64_t)w[i % 2 * 2] << 32 | w[i % 2 * 2 + 1] : w[i % 4];
}

/* As many of the upper bits as the mantissa holds, so that 1 is never reached. */
static double uniform(uint64_t word, uint8_t dtype) {
    switch (dtype) {
    case SHOAL_F16: return (double)(word >> 21) * 0x1p-11;
    case SHOAL_BF16: return (double)(word >> 24) * 0x1p-8;
    case SHOAL_F32: return (double)(word >> 8) * 0x1p-24;
    default: return (double)(word >> 11) * 0x1p-53;
    }
}

shoal_status ref_random(const ref_call *call) {
    const shoal_type *type = ref_output(call);
    char how = ref_attr(call, SHOAL_ATTR_RNG_DISTRIBUTION)->u.string[0];
    uint64_t seed = scalar(call, 0), stream = scalar(call, 1);
    size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    int64_t count = base_type_count(type);
    for (int64_t k = 0; k < count; k++) {
        uint64_t i = number_of(call, k);
        ref_chunk one;
        if (how == 'B') {
            one.u[0] = bits(seed, stream, i, bytes);
            if (type->dtype == SHOAL_BOOL) one.u[0] &= 1;
        } else {
            one.d[0] = how == 'N' ? normal(seed, stream, i)
                                  : uniform(bits(seed, stream, i, bytes), type->dtype);
            ref_convert_chunk(&one, REF_D, type->dtype, 1);
        }
        ref_store(&one, type->dtype, call->outputs[0], k, 1);
    }
    return SHOAL_OK;
}
