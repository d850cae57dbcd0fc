/* Random numbers: those of Shoal's own generator where the standard leaves them to who makes them,
 * and the two generators that it names, written in operations on integers; their bits are XLA's. */
#define _XOPEN_SOURCE 700
#include "graph/stablehlo/random.h"

#include "graph/stablehlo/import.h"
#include "graph/stablehlo/special.h"

enum { PHILOX_WORDS = 4 };

/* 64 bits as two times 32. */
typedef struct halves {
    uint32_t low, high;
} halves;

static uint32_t xored(maker *m, uint32_t x, uint32_t y) { return two(m, GRAPH_XOR, x, y); }

static halves split(maker *m, uint32_t x) {
    uint32_t high = two(m, GRAPH_SHIFT_RIGHT_LOGICAL, x, number(m, x, 32));
    return (halves){convert(m, x, SHOAL_U32), convert(m, high, SHOAL_U32)};
}

static uint32_t joined(maker *m, uint32_t low, uint32_t high) {
    uint32_t x = convert(m, high, SHOAL_U64);
    x = two(m, GRAPH_SHIFT_LEFT, x, number(m, x, 32));
    return two(m, GRAPH_OR, convert(m, low, SHOAL_U64), x);
}

static shoal_type row_of(uint8_t dtype, int64_t n) {
    return (shoal_type){.dtype = dtype, .rank = 1, .dims = {n}};
}

static uint32_t element(maker *m, uint32_t state, int64_t i) {
    const shoal_type scalar = {.dtype = SHOAL_U64};
    return reshape(m, slice_along(m, state, 0, i, i + 1, 1), &scalar);
}

static uint32_t spread_to(maker *m, uint32_t scalar, int64_t n) {
    const shoal_type type = row_of(SHOAL_U64, n);
    return spread(m, scalar, &type, NULL);
}

/* start, start + 1, ... */
static uint32_t count_from(maker *m, uint32_t start, int64_t n) {
    const shoal_type type = row_of(SHOAL_I64, n);
    return add(m, spread_to(m, start, n), convert(m, numbers(m, &type, 0), SHOAL_U64));
}

/* x and y, and so on, beside each other along a new axis behind the first. */
static uint32_t stack(maker *m, const uint32_t *x, uint32_t n, const shoal_type *apart) {
    uint32_t parts[PHILOX_WORDS];
    shoal_attr along = graph_int(SHOAL_ATTR_DIMENSION, apart->rank > 2 ? 2 : 1);
    for (uint32_t i = 0; i < n; i++) parts[i] = reshape(m, x[i], apart);
    return node(m, GRAPH_CONCATENATE, parts, n, &along, 1, NULL);
}

/* ---- Threefry 2x32, of 20 rounds (J. Salmon and others, "Parallel random numbers: as easy as 1,
 * 2, 3", 2011) ---- */

static uint32_t rotated(maker *m, uint32_t x, int by) {
    return two(m, GRAPH_OR, two(m, GRAPH_SHIFT_LEFT, x, number(m, x, by)),
               two(m, GRAPH_SHIFT_RIGHT_LOGICAL, x, number(m, x, 32 - by)));
}

static halves threefry(maker *m, halves key, halves x) {
    static const int by[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t parity = xored(m, xored(m, key.low, key.high), number(m, key.low, 0x1BD11BDA));
    const uint32_t keys[3] = {key.low, key.high, parity};
    x = (halves){add(m, x.low, keys[0]), add(m, x.high, keys[1])};
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 4; k++) {
            x.low = add(m, x.low, x.high);
            x.high = xored(m, x.low, rotated(m, x.high, by[i % 2][k]));
        }
        x.low = add(m, x.low, keys[(i + 1) % 3]);
        x.high = add(m, x.high, add(m, keys[(i + 2) % 3], number(m, x.high, i + 1)));
    }
    return x;
}

/* A count gives two words. Of the first even axis, or the longest, a half takes the first words,
 * each beside its second; *used counts. */
static uint32_t threefry_bits(maker *m, uint32_t state, const shoal_type *type, int64_t *used) {
    int64_t n = base_type_count(type), before = 1, length = 1, behind = 1;
    bool is_wide = shoal_dtype_size((shoal_dtype)type->dtype) == 8;
    uint32_t axis = type->rank;
    for (uint32_t i = 0; i < type->rank && axis == type->rank; i++)
        if (type->dims[i] % 2 == 0) axis = i;
    bool even = axis < type->rank;
    for (uint32_t i = 0; i < type->rank && !even; i++)
        if (axis == type->rank || type->dims[i] > type->dims[axis]) axis = i;
    for (uint32_t i = 0; i < type->rank; i++)
        *(i < axis ? &before : i == axis ? &length : &behind) *= type->dims[i];
    int64_t half = (length + 1) / 2;
    *used = is_wide ? n : before * half * behind;
    halves key = split(m, spread_to(m, element(m, state, 0), *used));
    halves x = threefry(m, key, split(m, count_from(m, element(m, state, 1), *used)));
    if (is_wide) return reshape(m, joined(m, x.low, x.high), type);
    const shoal_type apart = {.rank = 4, .dims = {before, half, 1, behind}};
    const shoal_type all = {.rank = 3, .dims = {before, 2 * half, behind}};
    uint32_t y = reshape(m, stack(m, (uint32_t[]){x.low, x.high}, 2, &apart), &all);
    return reshape(m, slice_along(m, y, 1, 0, length, 1), type);
}

/* ---- Philox 4x32, of 10 rounds (the same) ---- */

static halves product_of(maker *m, double factor, uint32_t x) {
    uint32_t wide_x = convert(m, x, SHOAL_U64);
    return split(m, two(m, GRAPH_MULTIPLY, wide_x, number(m, wide_x, factor)));
}

static void philox(maker *m, halves key, uint32_t *x) {
    for (int i = 0; i < 10; i++) {
        halves a = product_of(m, 0xD2511F53, x[0]), b = product_of(m, 0xCD9E8D57, x[2]);
        x[0] = xored(m, xored(m, b.high, x[1]), key.low);
        x[1] = b.low;
        x[2] = xored(m, xored(m, a.high, x[3]), key.high);
        x[3] = a.low;
        key.low = add(m, key.low, number(m, key.low, 0x9E3779B9));
        key.high = add(m, key.high, number(m, key.high, 0xBB67AE85));
    }
}

/* A count, of 128 bits, gives a block of four words: n blocks from the one of the start on. */
static void blocks_of(maker *m, uint32_t key, uint32_t start, uint32_t upper, int64_t n,
                      uint32_t *x) {
    uint32_t count = count_from(m, start, n);
    uint32_t carry = compare(m, "LT", count, spread_to(m, start, n));
    upper = add(m, spread_to(m, upper, n), convert(m, carry, SHOAL_U64));
    halves low = split(m, count), high = split(m, upper);
    const uint32_t of_count[PHILOX_WORDS] = {low.low, low.high, high.low, high.high};
    memcpy(x, of_count, sizeof of_count);
    philox(m, split(m, spread_to(m, key, n)), x);
}

/* The parts of each block, one behind the other: as many as the type has elements. */
static uint32_t in_rows(maker *m, const uint32_t *parts, uint32_t n_parts, int64_t blocks,
                        const shoal_type *type) {
    const shoal_type apart = {.rank = 2, .dims = {blocks, 1}};
    const shoal_type all = row_of(SHOAL_U32, n_parts * blocks);
    uint32_t y = reshape(m, stack(m, parts, n_parts, &apart), &all);
    return reshape(m, slice_along(m, y, 0, 0, base_type_count(type), 1), type);
}

/* The count's upper half is the third number of the state or, where there are two, the key. */
static uint32_t philox_bits(maker *m, uint32_t state, int64_t words, const shoal_type *type,
                            int64_t *used) {
    uint32_t x[PHILOX_WORDS], parts = PHILOX_WORDS;
    bool is_wide = shoal_dtype_size((shoal_dtype)type->dtype) == 8;
    if (is_wide) parts = 2;
    int64_t n = base_type_count(type);
    *used = n / parts + (n % parts != 0);
    blocks_of(m, element(m, state, 0), element(m, state, 1), element(m, state, words == 3 ? 2 : 0),
              *used, x);
    for (uint32_t i = 0; i < 2 && is_wide; i++) x[i] = joined(m, x[2 * i], x[2 * i + 1]);
    return in_rows(m, x, parts, *used, type);
}

/* The key, and the count from which the next numbers come. */
static uint32_t next_state(maker *m, uint32_t state, int64_t words, int64_t used) {
    const shoal_type single = row_of(SHOAL_U64, 1);
    uint32_t parts[3], start = element(m, state, 1);
    uint32_t next = add(m, start, number(m, start, (double)used));
    parts[0] = slice_along(m, state, 0, 0, 1, 1);
    parts[1] = reshape(m, next, &single);
    if (words == 3) {
        uint32_t carry = convert(m, compare(m, "LT", next, start), SHOAL_U64);
        parts[2] = reshape(m, add(m, element(m, state, 2), carry), &single);
    }
    shoal_attr along = graph_int(SHOAL_ATTR_DIMENSION, 0);
    return node(m, GRAPH_CONCATENATE, parts, (uint32_t)words, &along, 1, NULL);
}

/* ---- Shoal's own ---- */

/* Two numbers of a normal distribution of each block, by Box and Muller's method. */
static void normal_pairs(maker *m, uint32_t *x) {
    uint32_t u[2];
    for (int i = 0; i < 2; i++) { /* 53 bits as a number in [0, 1) and (0, 1] */
        u[i] = joined(m, x[2 * i + 1], x[2 * i]);
        u[i] = convert(m, two(m, GRAPH_SHIFT_RIGHT_LOGICAL, u[i], number(m, u[i], 11)), SHOAL_F64);
        u[i] = scaled(m, i ? u[i] : shifted(m, u[i], 1), 0x1p-53);
    }
    uint32_t radius = one(m, GRAPH_SQRT, scaled(m, one(m, GRAPH_LOG, u[0]), -2));
    uint32_t angle = scaled(m, u[1], 2 * M_PI);
    x[0] = mul(m, radius, one(m, GRAPH_COSINE, angle));
    x[1] = mul(m, radius, one(m, GRAPH_SINE, angle));
}

/* As many of the upper bits as the mantissa holds. */
static uint32_t uniform_of(maker *m, uint32_t bits, uint8_t dtype) {
    int kept = dtype == SHOAL_F16 ? 11 : dtype == SHOAL_BF16 ? 8 : dtype == SHOAL_F32 ? 24 : 53;
    int unused = (dtype == SHOAL_F64 ? 64 : 32) - kept;
    uint32_t upper = two(m, GRAPH_SHIFT_RIGHT_LOGICAL, bits, number(m, bits, unused));
    return scaled(m, convert(m, upper, dtype), ldexp(1, -kept));
}

uint32_t hlo_random(maker *m, const char *how, const shoal_type *type, uint32_t seed,
                    uint32_t stream) {
    int64_t n = base_type_count(type);
    if (!n || m->status) return m->status ? 0 : splat(m, *type, 0);
    bool normal = *how == 'N', is_wide = shoal_dtype_size((shoal_dtype)type->dtype) == 8;
    uint32_t x[PHILOX_WORDS], parts = normal || is_wide ? 2 : PHILOX_WORDS;
    int64_t blocks = n / parts + (n % parts != 0);
    blocks_of(m, seed, splat(m, (shoal_type){.dtype = SHOAL_U64}, 0), stream, blocks, x);
    if (normal)
        normal_pairs(m, x);
    else
        for (uint32_t i = 0; i < 2 && is_wide; i++) x[i] = joined(m, x[2 * i + 1], x[2 * i]);
    uint32_t y = in_rows(m, x, parts, blocks, type);
    if (*how == 'U') return uniform_of(m, y, type->dtype);
    if (type->dtype == SHOAL_BOOL) y = two(m, GRAPH_AND, y, number(m, y, 1));
    return convert(m, y, type->dtype);
}

static uint32_t own(maker *m, const char *how, const shoal_type *type, const uint32_t *seeds,
                    uint32_t n_seeds) {
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank),
                                graph_int(SHOAL_ATTR_DTYPE, type->dtype),
                                graph_string(SHOAL_ATTR_RNG_DISTRIBUTION, how)};
    return node(m, GRAPH_RANDOM, seeds, n_seeds, attrs, 3, NULL);
}

/* DEFAULT: bits whose seed is the state; the next state is the state and one more. */
static void default_bits(maker *m, hlo_call *c, int64_t words, const shoal_type *type) {
    const uint32_t seeds[] = {element(m, c->in[0], 0), element(m, c->in[0], words - 1)};
    c->out[0] = add(m, c->in[0], number(m, c->in[0], 1));
    c->out[1] = own(m, "BITS", type, seeds, 2);
}

/* ---- rules ---- */

static shoal_status rng_bit_generator(hlo_call *c) {
    shoal_type type;
    const hlo_attr *algorithm = hlo_attr_of(c, "rng_algorithm", "algorithm");
    char name[32];
    int64_t used;
    SHOAL_TRY(hlo_need(c, 1, 2));
    const shoal_type state = *hlo_type_of(c, 0);
    int64_t words = state.rank == 1 ? state.dims[0] : 0;
    if (state.dtype != SHOAL_U64 || words < 1) return hlo_fail(c, "the state must be uint64[n]");
    hlo_call bits = *c;
    bits.types = c->types ? &c->types[1] : NULL;
    SHOAL_TRY(hlo_shape(&bits, UINT32_MAX, &type));
    char kind = shoal_dtype_kind((shoal_dtype)type.dtype);
    if (kind != 'u' && kind != 'i')
        return hlo_fail(c, "it makes integers, not %s", shoal_dtype_name((shoal_dtype)type.dtype));
    maker m = {c->s->g, SHOAL_OK};
    int64_t count = base_type_count(&type);
    if (count > INT64_MAX / 16) return hlo_fail(c, "it makes over 2^59 numbers");
    bool is_threefry = algorithm && hlo_is(algorithm->text, "THREE_FRY");
    bool is_philox = algorithm && hlo_is(algorithm->text, "PHILOX");
    if (!algorithm || hlo_is(algorithm->text, "DEFAULT")) {
        default_bits(&m, c, words, &type);
        return m.status;
    }
    if (!is_threefry && !is_philox)
        return hlo_fail(c, "there is no algorithm %s; there are DEFAULT, THREE_FRY and PHILOX",
                        hlo_copy(algorithm->text, name, sizeof name));
    if (words != 2 && (words != 3 || is_threefry))
        return hlo_fail(c, "the state of %s is uint64[2]%s, not uint64[%lld]",
                        is_philox ? "PHILOX" : "THREE_FRY", is_philox ? " or uint64[3]" : "",
                        (long long)words);
    if (!count) { /* other dimensions may be of any size */
        c->out[0] = c->in[0];
        c->out[1] = splat(&m, type, 0);
        return m.status;
    }
    uint32_t x = is_philox ? philox_bits(&m, c->in[0], words, &type, &used)
                           : threefry_bits(&m, c->in[0], &type, &used);
    c->out[0] = next_state(&m, c->in[0], words, used);
    c->out[1] = convert(&m, x, type.dtype);
    return m.status;
}

/* a + (b - a) x, of numbers in [0, 1); whole ones: what bits leave when divided by b - a. */
static uint32_t between(maker *m, uint32_t a, uint32_t b, const shoal_type *type, uint32_t seed) {
    if (shoal_dtype_kind((shoal_dtype)type->dtype) == 'f') {
        uint32_t x = own(m, "UNIFORM", type, &seed, 1);
        uint32_t width = spread(m, two(m, GRAPH_SUBTRACT, b, a), type, NULL);
        return add(m, spread(m, a, type, NULL), two(m, GRAPH_MULTIPLY, width, x));
    }
    shoal_type bits = *type;
    bits.dtype = SHOAL_U64;
    a = convert(m, a, SHOAL_U64);
    uint32_t width = two(m, GRAPH_SUBTRACT, convert(m, b, SHOAL_U64), a);
    uint32_t x =
        two(m, GRAPH_REMAINDER, own(m, "BITS", &bits, &seed, 1), spread(m, width, &bits, NULL));
    return convert(m, add(m, spread(m, a, &bits, NULL), x), type->dtype);
}

/* The standard has a state that nobody sees; a program of Shoal's has none, so that the seed is the
 * place of the operation. */
static shoal_status rng(hlo_call *c) {
    shoal_type type;
    const hlo_attr *how = hlo_attr_of(c, "rng_distribution", "distribution");
    SHOAL_TRY(hlo_need(c, 3, 1));
    SHOAL_TRY(hlo_shape(c, 2, &type));
    char kind = shoal_dtype_kind((shoal_dtype)type.dtype);
    bool normal = how && hlo_is(how->text, "NORMAL");
    if (!normal && (!how || !hlo_is(how->text, "UNIFORM")))
        return hlo_fail(c, "its rng_distribution is neither UNIFORM nor NORMAL");
    for (uint32_t i = 0; i < 2; i++)
        if (hlo_type_of(c, i)->rank || hlo_type_of(c, i)->dtype != type.dtype)
            return hlo_fail(c, "operand %u must be a number of the type of the result", i);
    if (kind == 'b' || (normal && kind != 'f'))
        return hlo_fail(c, "it makes no %s", shoal_dtype_name((shoal_dtype)type.dtype));
    maker m = {c->s->g, SHOAL_OK};
    uint32_t seed = splat(&m, (shoal_type){.dtype = SHOAL_U64}, c->s->in->steps);
    if (normal) {
        uint32_t x = own(&m, "NORMAL", &type, &seed, 1);
        x = two(&m, GRAPH_MULTIPLY, spread(&m, c->in[1], &type, NULL), x);
        c->out[0] = add(&m, spread(&m, c->in[0], &type, NULL), x);
    } else {
        c->out[0] = between(&m, c->in[0], c->in[1], &type, seed);
    }
    return m.status;
}

hlo_rule *hlo_random_rule(const char *name) {
    static const hlo_named_rule rules[] = {
        {"stablehlo.rng", rng}, {"stablehlo.rng_bit_generator", rng_bit_generator}, {NULL, NULL}};
    return hlo_look_up(rules, name);
}
