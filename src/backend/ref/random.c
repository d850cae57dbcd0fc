/* Random numbers that depend on the seed, the stream and an element's number alone: Philox4x32-10
 * (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). The key is the seed, the
 * counter the number of a block and, in its upper half, the stream.
 *
 * A block is four words. Elements of up to 32 bits take word i % 4 of block i / 4; those of 64 bits
 * two words, the upper first, of block i / 2. Elements i and i + 1 (i even) of a normal
 * distribution are the cosine and the sine that Box and Muller's method makes of block i / 2. */
#include "backend/ref/ref.h"

#include <math.h>

static void philox(uint64_t key, uint64_t block, uint64_t stream, ref_words *w, int64_t n) {
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    for (int64_t k = 0; k < n; k++) {
        w->at[0][k] = (uint32_t)(block + (uint64_t)k);
        w->at[1][k] = (uint32_t)((block + (uint64_t)k) >> 32);
        w->at[2][k] = (uint32_t)stream;
        w->at[3][k] = (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < 10; round++, low += 0x9E3779B9, high += 0xBB67AE85)
        for (int64_t k = 0; k < n; k++) {
            uint64_t a = UINT64_C(0xD2511F53) * w->at[0][k];
            uint64_t b = UINT64_C(0xCD9E8D57) * w->at[2][k];
            w->at[0][k] = (uint32_t)(b >> 32) ^ w->at[1][k] ^ low;
            w->at[2][k] = (uint32_t)(a >> 32) ^ w->at[3][k] ^ high;
            w->at[1][k] = (uint32_t)b;
            w->at[3][k] = (uint32_t)a;
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

static uint64_t joined(const ref_words *w, int high, int64_t k) {
    return (uint64_t)w->at[high][k] << 32 | w->at[high + 1][k];
}

static void normals(const ref_words *w, int64_t n, double *cosines, double *sines) {
    for (int64_t k = 0; k < n; k++) {
        double u = (double)(joined(w, 0, k) >> 11) + 1, v = (double)(joined(w, 2, k) >> 11);
        double radius = sqrt(-2 * log(u * 0x1p-53)), angle = 6.283185307179586477 * (v * 0x1p-53);
        cosines[k] = radius * cos(angle);
        sines[k] = radius * sin(angle);
    }
}

/* n numbers of a normal distribution, from number i on. */
static void fill_normal(const ref_random_kernels *kernels, ref_chunk *to, const ref_words *w,
                        uint64_t i, int64_t n) {
    double cosines[REF_RANDOM_BLOCKS], sines[REF_RANDOM_BLOCKS];
    int64_t odd = (int64_t)(i % 2), last = n + odd;
    kernels->normals(w, (last + 1) / 2, cosines, sines);
    for (int64_t k = odd; k < last; k++) to->d[k - odd] = k % 2 ? sines[k / 2] : cosines[k / 2];
}

static void fill_bits(ref_chunk *to, const ref_words *w, uint64_t i, int64_t n, size_t bytes) {
    int64_t per = bytes == 8 ? 2 : 4, at = (int64_t)(i % (uint64_t)per);
    for (int64_t k = 0; k < n; k++, at++)
        to->u[k] = bytes == 8 ? joined(w, (int)(at % 2 * 2), at / 2) : w->at[at % 4][at / 4];
}

/* As many of the upper bits as the mantissa holds, so that 1 is never reached. */
static void make_uniform(ref_chunk *to, int64_t n, uint8_t dtype) {
    int kept = dtype == SHOAL_F16 ? 11 : dtype == SHOAL_BF16 ? 8 : dtype == SHOAL_F32 ? 24 : 53;
    int unused = (dtype == SHOAL_F64 ? 64 : 32) - kept;
    double unit = ldexp(1, -kept);
    for (int64_t k = 0; k < n; k++) to->d[k] = (double)(to->u[k] >> unused) * unit;
}

void ref_random_part(const ref_call *call, int64_t begin, int64_t end,
                     const ref_random_kernels *kernels, ref_narrow narrow) {
    static const ref_random_kernels own = {philox, normals};
    if (!kernels) kernels = &own;
    const shoal_type *type = ref_output(call);
    char how = ref_attr(call, SHOAL_ATTR_RNG_DISTRIBUTION)->u.string[0];
    uint64_t seed = scalar(call, 0), stream = scalar(call, 1);
    size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    uint64_t per = how == 'N' || bytes == 8 ? 2 : 4; /* elements of a block */
    int64_t row = INT64_MAX, n;                      /* how many in a row have numbers in a row */
    const shoal_attr *whole = ref_attr(call, SHOAL_ATTR_WHOLE_SHAPE);
    if (ref_attr(call, SHOAL_ATTR_START_INDICES) && whole && type->rank) {
        uint32_t axis = type->rank - 1;
        for (row = type->dims[axis]; axis && type->dims[axis] == whole->u.ints[axis]; axis--)
            row *= type->dims[axis - 1];
    }
    for (int64_t k = begin; k < end; k += n) {
        n = end - k < REF_CHUNK ? end - k : REF_CHUNK;
        if (n > row - k % row) n = row - k % row;
        uint64_t i = number_of(call, k);
        ref_chunk some;
        ref_words w;
        kernels->philox(seed, i / per, stream, &w,
                        (int64_t)((i % per + (uint64_t)n + per - 1) / per));
        if (how == 'N')
            fill_normal(kernels, &some, &w, i, n);
        else
            fill_bits(&some, &w, i, n, bytes);
        if (how == 'U') make_uniform(&some, n, type->dtype);
        if (how != 'B' && narrow) {
            narrow((char *)call->outputs[0] + (size_t)k * bytes, (const void *const[]){some.d}, n,
                   0, NULL);
            continue;
        }
        if (how != 'B') ref_convert_chunk(&some, REF_D, type->dtype, n);
        if (type->dtype == SHOAL_BOOL)
            for (int64_t j = 0; j < n; j++) some.u[j] &= 1;
        ref_store(&some, type->dtype, call->outputs[0], k, n);
    }
}

shoal_status ref_random(const ref_call *call) {
    ref_random_part(call, 0, base_type_count(ref_output(call)), NULL, NULL);
    return SHOAL_OK;
}
