/* Along one axis: sort by one comparison, top_k, argmax and argmin, cumulate.
 *
 * Elements are sorted by keys: unsigned numbers in the order that is wanted, with the places of the
 * elements, by their digits from the last to the first (D. Knuth, The Art of Computer
 * Programming 3, 5.2.5). Digits that all have in common cost nothing, and equal keys stay as they
 * are. NaN is larger than all numbers. */
#include "backend/cpu/cpu.h"

#include <math.h>

enum {
    GRAIN = 1 << 12,
    BLOCK = 4096,
    FEW = 64, /* keys that are looked at together; twice as many entries are inserted one by one */
    LONG = 2048,      /* from which on larger digits pay */
    WIDE = 512,       /* columns that are looked at together */
    FEW_COLUMNS = 16, /* too few to be widened line by line */
    /* Rows and columns of a block that is turned; memory likes long parts of rows. */
    TURNED = 16,
    LINES = 256,
};

typedef struct short_entry {
    uint32_t key, place;
} short_entry;
typedef struct long_entry {
    uint64_t key;
    int64_t place;
} long_entry;

/* ---- rows ---- */

static void set_rows(cpu_order *o, const shoal_type *type, int64_t axis) {
    o->length = type->dims[axis];
    o->count = o->inner = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (i != axis) o->count *= type->dims[i];
        if (i > axis) o->inner *= type->dims[i];
    }
    o->bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    o->dtype = type->dtype;
}

/* Where a row begins; its elements are `inner` apart. */
static int64_t start_of(const cpu_order *o, int64_t row) {
    return row / o->inner * o->inner * o->length + row % o->inner;
}

static void copy_element(char *to, const char *from, size_t bytes) {
    switch (bytes) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    default: memcpy(to, from, 8); break;
    }
}

static int64_t grain(const cpu_order *o) { return 1 + GRAIN / (o->length + 1); }

/* ---- keys ---- */

/* The bits of floating-point numbers as unsigned ones in the same order; -0 is +0. */
static uint64_t float_key(uint64_t bits, int width, uint64_t infinity) {
    uint64_t sign = UINT64_C(1) << (width - 1), all = sign | (sign - 1), size = bits & ~sign;
    if (size > infinity) return all;
    if (!size) return sign;
    return bits & sign ? ~bits & all : bits | sign;
}

static uint64_t key_of(uint8_t dtype, const char *from) {
    uint64_t bits = 0;
    size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
    copy_element((char *)&bits, from, bytes);
    switch (dtype) {
    case SHOAL_F32: return float_key(bits, 32, 0x7f800000);
    case SHOAL_F64: return float_key(bits, 64, UINT64_C(0x7ff) << 52);
    case SHOAL_F16: return float_key(bits, 16, 0x7c00);
    case SHOAL_BF16: return float_key(bits, 16, 0x7f80);
    default: break;
    }
    bool has_sign = shoal_dtype_kind((shoal_dtype)dtype) == 'i';
    return has_sign ? bits ^ UINT64_C(1) << (8 * bytes - 1) : bits;
}

/* Entries by rising keys, digits of which are `bits` wide, a constant; `spare` holds as many. Few
 * are inserted one by one. Returns where they are. */
#define SORT_ENTRIES(entry)                                                                        \
    static void insert_##entry(entry *x, int64_t n) {                                              \
        for (int64_t i = 1; i < n; i++) {                                                          \
            entry one = x[i];                                                                      \
            int64_t at = i;                                                                        \
            for (; at && x[at - 1].key > one.key; at--) x[at] = x[at - 1];                         \
            x[at] = one;                                                                           \
        }                                                                                          \
    }                                                                                              \
    static inline __attribute__((always_inline))                                                   \
    entry *divide_##entry(entry *x, entry *spare, int64_t n, size_t bytes, unsigned bits) {        \
        enum { MOST = 8 * sizeof x->key };                                                         \
        uint32_t counts[(MOST + 10) / 11 << 11]; /* as many digits of 8 bits need less */          \
        const size_t digits = (8 * bytes + bits - 1) / bits;                                       \
        const uint32_t mask = (1u << bits) - 1;                                                    \
        memset(counts, 0, (digits << bits) * sizeof *counts);                                      \
        for (int64_t i = 0; i < n; i++)                                                            \
            for (size_t d = 0; d < digits; d++)                                                    \
                counts[(d << bits) + (x[i].key >> bits * d & mask)]++;                             \
        for (size_t d = 0; d < digits; d++) {                                                      \
            uint32_t at = 0, *next = counts + (d << bits);                                         \
            if (next[x[0].key >> bits * d & mask] == n) continue;                                  \
            for (uint32_t i = 0; i <= mask; i++) {                                                 \
                uint32_t count = next[i];                                                          \
                next[i] = at;                                                                      \
                at += count;                                                                       \
            }                                                                                      \
            for (int64_t i = 0; i < n; i++) spare[next[x[i].key >> bits * d & mask]++] = x[i];     \
            entry *swap = x;                                                                       \
            x = spare;                                                                             \
            spare = swap;                                                                          \
        }                                                                                          \
        return x;                                                                                  \
    }                                                                                              \
    static entry *sort_##entry(entry *x, entry *spare, int64_t n, size_t bytes) {                  \
        if (n > 2 * FEW && n < LONG) return divide_##entry(x, spare, n, bytes, 8);                 \
        if (n > 2 * FEW) return divide_##entry(x, spare, n, bytes, 11);                            \
        insert_##entry(x, n);                                                                      \
        return x;                                                                                  \
    }
SORT_ENTRIES(short_entry)
SORT_ENTRIES(long_entry)

typedef struct job {
    const cpu_run *run;
    const cpu_order *o;
    const shoal_node *node;
} job;

static char *scratch_of(const job *j, uint32_t part) {
    return j->run->workspace + j->o->scratch + part * j->o->scratch_each;
}

/* Whether keys have four bytes, and not eight. */
static bool is_short(const cpu_order *o) { return o->bytes <= 4; }

/* The keys of a row, in the order that is wanted; `keys` has room for 8 bytes each. */
static void list_keys(const cpu_order *o, const char *from, void *keys) {
    char kind = shoal_dtype_kind((shoal_dtype)o->dtype);
    uint64_t sign = kind != 'i' ? 0 : is_short(o) ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
    void *picked = o->widen ? (char *)keys + (size_t)o->length * sizeof(uint32_t) : keys;
    const void *x = from;
    if (o->inner > 1) {
        o->pools->pick[o->bytes](o->length, from, o->inner, picked);
        x = picked;
    }
    if (o->widen) {
        o->widen(keys, &x, o->length, 0, NULL);
        x = keys;
    }
    o->pools->keys[!is_short(o)](o->length, x, kind == 'f', sign ^ (o->falling ? UINT64_MAX : 0),
                                 keys);
}

/* The places of a row's elements, in order. */
static const int64_t *order_row(const job *j, uint32_t part, int64_t row) {
    const cpu_order *o = j->o;
    const char *from =
        (const char *)j->run->at[j->node->inputs[0]] + (size_t)start_of(o, row) * o->bytes;
    int64_t *places = (int64_t *)(void *)scratch_of(j, part);
    const void *keys = places;
    void *entries = places + o->length;
    list_keys(o, from, places);
    if (is_short(o)) {
        const uint32_t *key = keys;
        short_entry *x = entries;
        for (int64_t i = 0; i < o->length; i++) x[i] = (short_entry){key[i], (uint32_t)i};
        x = sort_short_entry(x, x + o->length, o->length, sizeof *key);
        for (int64_t i = 0; i < o->length; i++) places[i] = x[i].place;
        return places;
    }
    const uint64_t *key = keys;
    long_entry *x = entries;
    for (int64_t i = 0; i < o->length; i++) x[i] = (long_entry){key[i], i};
    x = sort_long_entry(x, x + o->length, o->length, sizeof *key);
    for (int64_t i = 0; i < o->length; i++) places[i] = x[i].place;
    return places;
}

/* ---- sort and top_k ---- */

/* Whether a body looks at its first two arguments by comparing them with each other or themselves,
 * and joins what comes out: then a few pairs tell all of it. */
static bool only_compares(const shoal_graph *body) {
    for (uint32_t i = 0; i < body->n_nodes; i++) {
        const shoal_node *node = &body->nodes[i];
        bool compares = node->op == GRAPH_COMPARE;
        if (!compares && node->op != GRAPH_AND && node->op != GRAPH_OR && node->op != GRAPH_NOT)
            return false;
        for (uint32_t k = 0; compares && k < node->n_inputs; k++)
            if (node->inputs[k] != body->inputs[0] && node->inputs[k] != body->inputs[1])
                return false;
    }
    return true;
}

static bool says(const shoal_graph *body, uint8_t dtype, double x, double y) {
    const void *in[2 * GRAPH_MAX_JOINED];
    uint64_t a = 0, b = 0, result = 0;
    ref_chunk one = {.d = {x}}, other = {.d = {y}};
    ref_convert_chunk(&one, REF_D, dtype, 1);
    ref_convert_chunk(&other, REF_D, dtype, 1);
    ref_store(&one, dtype, &a, 0, 1);
    ref_store(&other, dtype, &b, 0, 1);
    for (uint32_t i = 0; i < body->n_inputs; i++) in[i] = &result; /* nobody reads these */
    in[0] = &a;
    in[1] = &b;
    return !ref_evaluate(NULL, body, in, (void *const[]){&result}) && *(const uint8_t *)&result;
}

/* Whether it is an order; NaN may be the largest, or in no order at all. */
static bool is_order(const shoal_graph *body, uint8_t dtype, bool *falling) {
    const double nan = __builtin_nan("");
    bool floats = shoal_dtype_kind((shoal_dtype)dtype) == 'f';
    if (!only_compares(body)) return false;
    *falling = says(body, dtype, 1, 0);
    if (says(body, dtype, 0, 1) == *falling || says(body, dtype, 1, 1)) return false;
    if (!floats) return true;
    return !says(body, dtype, nan, nan) &&
           !says(body, dtype, *falling ? 1 : nan, *falling ? nan : 1);
}

static bool prepare_sort(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    cpu_order *o = &step->u.order;
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    *o = (cpu_order){.pools = kernels->pools, .falling = true};
    if (node->op == GRAPH_TOP_K)
        set_rows(o, in, in->rank - 1);
    else if (node->op == GRAPH_SORT && is_order(node->regions[0], in->dtype, &o->falling))
        set_rows(o, in, shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i);
    else
        return false;
    uint8_t wide = shoal_dtype_kind((shoal_dtype)in->dtype) == 'f'   ? SHOAL_F32
                   : shoal_dtype_kind((shoal_dtype)in->dtype) == 'i' ? SHOAL_I32
                                                                     : SHOAL_U32;
    o->widen = o->bytes < 4 ? kernels->convert[in->dtype][wide] : NULL;
    o->scratch_each = (size_t)o->length * (2 * sizeof(long_entry) + sizeof(int64_t));
    return o->length <= INT32_MAX;
}

/* The elements of a row, `inner` apart, in order. */
static void take_row(const char *in, const int64_t *sorted, int64_t n, int64_t inner, size_t bytes,
                     char *out) {
    if (bytes == 4)
        for (int64_t i = 0; i < n; i++) memcpy(out + i * inner * 4, in + sorted[i] * inner * 4, 4);
    else if (bytes == 8)
        for (int64_t i = 0; i < n; i++) memcpy(out + i * inner * 8, in + sorted[i] * inner * 8, 8);
    else
        for (int64_t i = 0; i < n; i++)
            copy_element(out + (size_t)(i * inner) * bytes,
                         in + (size_t)(sorted[i] * inner) * bytes, bytes);
}

static void sort_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_order *o = j->o;
    for (int64_t row = begin; row < end; row++) {
        const int64_t *sorted = order_row(j, part, row);
        for (uint32_t k = 0; k < j->node->n_inputs; k++) {
            uint32_t v = j->node->inputs[k], to = j->node->first_output + k;
            size_t bytes = shoal_dtype_size((shoal_dtype)j->run->program->g->values[v].type.dtype);
            size_t start = (size_t)start_of(o, row) * bytes;
            take_row((const char *)j->run->at[v] + start, sorted, o->length, o->inner, bytes,
                     (char *)j->run->at[to] + start);
        }
    }
}

/* The places of the first k of a row, in order: those that may still be among them are collected,
 * and from time to time the first k of these are kept, the last of which is the bound for others.
 */
static const int64_t *first_of_row(const job *j, uint32_t part, int64_t row, int64_t k) {
    const cpu_order *o = j->o;
    int64_t n = o->length, room = 2 * k + FEW, count = 0;
    int64_t *places = (int64_t *)(void *)scratch_of(j, part);
    const void *keys = places;
    const uint32_t *narrow = keys;
    const uint64_t *wide = keys;
    size_t bytes = is_short(o) ? sizeof *narrow : sizeof *wide;
    int32_t found[FEW + 1];
    long_entry *x = (long_entry *)(void *)(places + n), *spare = x + room;
    list_keys(o, (const char *)j->run->at[j->node->inputs[0]] + (size_t)(row * n) * o->bytes,
              places);
#define ENTRY(at) ((long_entry){is_short(o) ? narrow[at] : wide[at], at})
    for (int64_t at = 0, some; at < n; at += some) {
        some = n - at < room - FEW / 2 ? n - at : room - FEW / 2;
        if (!at) { /* all of them may be */
            for (int64_t i = at; i < at + some; i++) x[count++] = ENTRY(i);
        } else {
            uint64_t bound = x[k - 1].key;
            int64_t more = 0;
            for (; at + more < n && count + FEW <= room; more += some) {
                some = n - at - more < FEW ? n - at - more : FEW;
                int64_t new = o->pools->below[!is_short(o)](
                    some, (const char *)keys + (size_t)(at + more) * bytes, bound, found);
                for (int64_t i = 0; i < new; i++) x[count++] = ENTRY(at + more + found[i]);
            }
            some = more;
        }
        long_entry *sorted = sort_long_entry(x, spare, count, bytes);
        if (sorted != x) {
            spare = x;
            x = sorted;
        }
        if (count > k) count = k;
    }
#undef ENTRY
    for (int64_t i = 0; i < k; i++) places[i] = x[i].place;
    return places;
}

static void top_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_order *o = j->o;
    int64_t k = shoal_node_attr(j->node, SHOAL_ATTR_K)->u.i;
    const char *in = j->run->at[j->node->inputs[0]];
    char *out = j->run->at[j->node->first_output];
    int32_t *places = j->run->at[j->node->first_output + 1];
    bool some = k > 0 && 8 * k + FEW < o->length;
    for (int64_t row = begin; row < end; row++) {
        const int64_t *sorted = some ? first_of_row(j, part, row, k) : order_row(j, part, row);
        for (int64_t i = 0; i < k; i++) {
            copy_element(out + (size_t)(row * k + i) * o->bytes,
                         in + (size_t)(row * o->length + sorted[i]) * o->bytes, o->bytes);
            places[row * k + i] = (int32_t)sorted[i];
        }
    }
}

/* ---- argmax and argmin ---- */

/* The type with vector code that holds all elements of another one, in their order; CPU_COMPARED:
 * none. */
static int compared_as(uint8_t dtype) {
    switch (dtype) {
    case SHOAL_F16:
    case SHOAL_BF16:
    case SHOAL_F32: return CPU_F32;
    case SHOAL_U32:
    case SHOAL_F64: return CPU_F64;
    case SHOAL_I32: return CPU_I32;
    default: return CPU_COMPARED;
    }
}

static bool prepare_extreme(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    cpu_order *o = &step->u.order;
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    bool most = node->op == GRAPH_ARGMAX;
    if (!most && node->op != GRAPH_ARGMIN) return false;
    *o = (cpu_order){.pools = kernels->pools,
                     .falling = most,
                     .as = (uint8_t)compared_as(in->dtype),
                     .fold = kernels->fold[most ? GRAPH_MAXIMUM : GRAPH_MINIMUM][in->dtype]};
    set_rows(o, in, shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i);
    o->scratch_each = o->inner > 1 ? (size_t)o->length * o->bytes : 0;
    static const uint8_t types[] = {
        [CPU_F32] = SHOAL_F32, [CPU_F64] = SHOAL_F64, [CPU_I32] = SHOAL_I32};
    bool by_vectors = o->as < CPU_COMPARED;
    if (by_vectors && types[o->as] != in->dtype)
        o->widen = kernels->convert[in->dtype][types[o->as]];
    o->by_columns =
        by_vectors && o->inner >= (o->widen ? FEW_COLUMNS : 2) && o->length <= INT32_MAX / o->inner;
    return by_vectors || (o->fold && in->dtype != SHOAL_BOOL);
}

/* The first element from `from` on with the key of `best`, which is there. */
static int64_t find_key(const cpu_order *o, const char *row, int64_t from, const uint64_t *best) {
    uint64_t key = key_of(o->dtype, (const char *)best);
    while (key_of(o->dtype, row + (size_t)from * o->bytes) != key) from++;
    return from;
}

/* Where the first NaN of n elements of a floating-point type lies; there is one. */
static int64_t find_nan(const void *data, bool twofold) {
    int64_t i = 0;
    if (twofold)
        while (!isnan(((const double *)data)[i])) i++;
    else
        while (!isnan(((const float *)data)[i])) i++;
    return i;
}

static double element_as(const void *data, int64_t i, uint8_t as) {
    return as == CPU_F64   ? ((const double *)data)[i]
           : as == CPU_F32 ? (double)((const float *)data)[i]
                           : ((const int32_t *)data)[i];
}

/* Where the extreme element lies, as long as vectors compare such. */
static int64_t find_by_vectors(const cpu_order *o, const char *row) {
    _Alignas(CPU_ALIGN) char wide[WIDE * sizeof(double)];
    double best = 0;
    int64_t place = 0, most = o->widen ? WIDE : o->length;
    for (int64_t at = 0, n; at < o->length; at += n) {
        const void *some = row + (size_t)at * o->bytes;
        n = o->length - at < most ? o->length - at : most;
        if (o->widen) o->widen(wide, &some, n, 0, NULL);
        if (o->widen) some = wide;
        int64_t here = o->pools->extreme[o->as][!o->falling](n, some);
        if (here < 0) return at + find_nan(some, o->as == CPU_F64);
        double value = element_as(some, here, o->as);
        if (at && !(o->falling ? value > best : value < best)) continue;
        best = value;
        place = at + here;
    }
    return place;
}

/* Where the extreme element lies; of equal ones the first, and of NaN, too. Where vectors compare
 * no such elements, folds find the block, which is searched then. */
static int64_t find_extreme(const cpu_order *o, const char *row) {
    uint64_t best = 0, of_block = 0, one = 0;
    int64_t from = 0;
    if (o->as < CPU_COMPARED) return find_by_vectors(o, row);
    for (int64_t at = 0; at < o->length; at += BLOCK) {
        int64_t n = o->length - at < BLOCK ? o->length - at : BLOCK;
        o->fold(&of_block, row + (size_t)at * o->bytes, 1, n, false);
        one = best;
        if (at) o->fold(&one, &of_block, 1, 1, true);
        if (!at || key_of(o->dtype, (char *)&one) != key_of(o->dtype, (char *)&best)) {
            best = of_block;
            from = at;
        }
    }
    return find_key(o, row, from, &best);
}

/* Columns side by side, some at a time: items are all columns of all that lies before the axis. */
static void extreme_columns(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_order *o = j->o;
    const shoal_type *out = &j->run->program->g->values[j->node->first_output].type;
    _Alignas(CPU_ALIGN) char best[WIDE * sizeof(double)], wide[WIDE * sizeof(double)];
    int32_t places[WIDE];
    for (int64_t n; begin < end; begin += n) {
        int64_t column = begin % o->inner;
        n = o->inner - column < end - begin ? o->inner - column : end - begin;
        if (n > WIDE) n = WIDE;
        for (int64_t i = 0; i < n; i++) places[i] = -1;
        memset(best, 0, sizeof best);
        const char *x =
            (const char *)j->run->at[j->node->inputs[0]] + (size_t)start_of(o, begin) * o->bytes;
        for (int64_t row = 0; row < o->length; row++) {
            const void *next = x + (size_t)(row * o->inner) * o->bytes;
            if (o->widen) o->widen(wide, &next, n, 0, NULL);
            o->pools->choose[o->as][o->falling ? CPU_MOST : CPU_LEAST](
                n, o->widen ? wide : next, 1, (int32_t)(row * o->inner), best, places);
        }
        for (int64_t i = 0; i < n; i++) {
            ref_chunk one = {.i = {(places[i] - i) / o->inner}};
            ref_store(&one, out->dtype, j->run->at[j->node->first_output], begin + i, 1);
        }
    }
}

static void extreme_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_order *o = j->o;
    char *dense = scratch_of(j, part);
    const shoal_type *out = &j->run->program->g->values[j->node->first_output].type;
    for (int64_t row = begin; row < end; row++) {
        const char *x =
            (const char *)j->run->at[j->node->inputs[0]] + (size_t)start_of(o, row) * o->bytes;
        for (int64_t i = 0; i < o->length && o->inner > 1; i++)
            copy_element(dense + (size_t)i * o->bytes, x + (size_t)(i * o->inner) * o->bytes,
                         o->bytes);
        ref_chunk one = {.i = {find_extreme(o, o->inner > 1 ? dense : x)}};
        ref_store(&one, out->dtype, j->run->at[j->node->first_output], row, 1);
    }
}

/* ---- cumulate ---- */

static bool prepare_cumulate(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    cpu_order *o = &step->u.order;
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    uint16_t op = node->op == GRAPH_CUMULATE ? graph_body_op(node->regions[0]) : UINT16_MAX;
    if (op >= GRAPH_OP_BUILT_IN) return false;
    *o = (cpu_order){.join = cpu_find_map(kernels, op, in->dtype)};
    set_rows(o, in, shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i);
    o->by_columns = o->inner < TURNED && o->count > 1;
    o->scratch_each = o->by_columns ? (LINES + 1) * TURNED * o->bytes : 0;
    return o->join != NULL;
}

/* Rows whose elements are no long lines: some rows are turned, block by block, so that the next
 * elements of all of them are joined side by side. */
static void cumulate_turned(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_order *o = j->o;
    const char *in = j->run->at[j->node->inputs[0]];
    char *out = j->run->at[j->node->first_output], *so_far = scratch_of(j, part);
    size_t line = TURNED * o->bytes;
    for (int64_t row = begin, rows; row < end; row += rows) {
        rows = end - row < TURNED ? end - row : TURNED;
        for (int64_t at = 0, n; at < o->length; at += n) {
            n = o->length - at < LINES ? o->length - at : LINES;
            char *block = so_far + line;
            for (int64_t r = 0; r < rows; r++)
                cpu_copy_block(block + (size_t)r * o->bytes,
                               in + (size_t)(start_of(o, row + r) + at * o->inner) * o->bytes, 1, n,
                               0, TURNED, 0, o->inner, o->bytes);
            for (int64_t c = 0; c < n; c++) {
                char *to = block + (size_t)c * line;
                const void *first = at ? so_far : j->run->at[j->node->inputs[1]];
                o->join(to, (const void *const[]){c ? to - line : first, to}, rows,
                        !c && !at && rows > 1, NULL);
            }
            for (int64_t r = 0; r < rows; r++)
                cpu_copy_block(out + (size_t)(start_of(o, row + r) + at * o->inner) * o->bytes,
                               block + (size_t)r * o->bytes, 1, n, 0, o->inner, 0, TURNED,
                               o->bytes);
            memcpy(so_far, block + (size_t)(n - 1) * line, line);
        }
    }
}

/* Items are what lies before the axis; what lies behind it is joined side by side. */
static void cumulate_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_order *o = j->o;
    size_t line = (size_t)o->inner * o->bytes;
    for (int64_t item = begin * o->length; item < end * o->length; item++) {
        const char *in = (const char *)j->run->at[j->node->inputs[0]] + (size_t)item * line;
        char *out = (char *)j->run->at[j->node->first_output] + (size_t)item * line;
        bool first = item % o->length == 0;
        const void *so_far = first ? j->run->at[j->node->inputs[1]] : out - line;
        o->join(out, (const void *const[]){so_far, in}, o->inner, first && o->inner > 1, NULL);
    }
}

/* ---- steps ---- */

bool cpu_order_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    if (!step->node->n_inputs) return false; /* iota has nothing to look at */
    if (!prepare_sort(kernels, p, step) && !prepare_extreme(kernels, p, step) &&
        !prepare_cumulate(kernels, p, step))
        return false;
    cpu_order *o = &step->u.order;
    o->scratch_each = (o->scratch_each + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN;
    step->run = cpu_order_run;
    return true;
}

shoal_status cpu_order_run(const cpu_run *run, const cpu_step *step) {
    const cpu_order *o = &step->u.order;
    job j = {run, o, step->node};
    uint16_t op = step->node->op;
    if (!o->count || !o->length) return SHOAL_OK;
    if (op == GRAPH_CUMULATE && !o->by_columns)
        cpu_parallel(run->device, o->count / o->inner, 1 + GRAIN / (o->length * o->inner),
                     cumulate_range, &j);
    else
        cpu_parallel(run->device, o->count, grain(o),
                     op == GRAPH_SORT       ? sort_range
                     : op == GRAPH_TOP_K    ? top_range
                     : op == GRAPH_CUMULATE ? cumulate_turned
                     : o->by_columns        ? extreme_columns
                                            : extreme_range,
                     &j);
    return SHOAL_OK;
}
