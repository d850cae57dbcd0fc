/* Attention and its gradient on f32, block by block: the scores of some queries with some keys are
 * made, used and forgotten, so that nothing of the size queries x keys is ever stored. Products are
 * those of gemm.c.
 *
 * Forward (T. Dao et al., FlashAttention, 2022; M. Milakov, N. Gimelshein, Online normalizer
 * calculation for softmax, 2018): an item is a block of queries, which meets the keys block after
 * block; when a larger score comes, what was summed before is made smaller.
 *
 * Backward: an item is all that shares keys. First the largest score and the sum of weights of each
 * query, if the keys are several blocks; then for each block of keys and of queries the weights are
 * made again, and hand gradients to q, k and v. No item's result depends on another's, so that no
 * number of threads changes a bit. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <stdatomic.h>

enum {
    QUERIES = 64, /* of a block */
    KEYS = 128,
    FEW = 3,     /* queries up to which keys are read as they lie, each for itself */
    PAGE = 4096, /* rows a multiple of this apart get into each other's way in the caches */
};

/* Strides of a tensor [leading..., group, row, column], in elements; 0 where it repeats. */
typedef struct strides {
    int64_t leading[SHOAL_MAX_RANK], group, row, column;
} strides;

typedef struct cpu_attention {
    const cpu_gemm *gemm;
    uint32_t n_leading;
    int64_t leading[SHOAL_MAX_RANK], batches, groups; /* groups: heads that share keys */
    int64_t queries, keys, depth, width;              /* width: of v's last axis */
    uint32_t q, k, v, g, o, mask, length;             /* values; GRAPH_NO_VALUE: there is none */
    strides of_q, of_k, of_v, of_g, of_o, of_mask;
    bool flags; /* the mask is bool */
    cpu_map_kernel to_i64;
    bool wraps;         /* the length is uint64: one beyond int64 comes out negative */
    bool causal, alike; /* alike: the queries are heads of one query, which see the same keys */
    int64_t shift;      /* CAUSAL */
    float scale;
    int64_t some_queries, some_keys, query_blocks;
    int64_t wide; /* room of a row of scores */
    size_t each;  /* floats of a thread */
} cpu_attention;

/* A place among keys, from outside: beyond these all are the same, and sums do not overflow. */
static int64_t in_range(int64_t place) {
    const int64_t most = INT64_C(1) << 48;
    return place < -most ? -most : place > most ? most : place;
}

/* ---- preparing ---- */

/* A group of heads with one query each is one head with several. */
static void join_group(cpu_attention *a) {
    strides *const all[] = {&a->of_q, &a->of_g, &a->of_o, &a->of_mask};
    if (a->queries > 1 || a->groups == 1) return;
    a->alike = true;
    a->queries = a->groups;
    a->groups = 1;
    for (int i = 0; i < 4; i++) {
        all[i]->row = all[i]->group;
        all[i]->group = 0;
    }
}

static bool is_backward(const shoal_node *node) { return node->op == GRAPH_ATTENTION_GRADIENT; }

static uint32_t first_of(const shoal_node *node) { return is_backward(node) ? 2 : 0; }

bool cpu_attention_reads_view(const shoal_node *node, uint32_t input) {
    return input < first_of(node) + 3;
}

bool cpu_attention_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_ATTENTION && !is_backward(node)) return false;
    uint32_t first = first_of(node);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const shoal_type *type = &g->values[node->inputs[i]].type;
        bool is_length =
            i > first + 2 && !type->rank && shoal_dtype_kind((shoal_dtype)type->dtype) != 'f';
        if (is_length ? type->dtype != SHOAL_I64 && !kernels->convert[type->dtype][SHOAL_I64]
                      : type->dtype != SHOAL_F32 && type->dtype != SHOAL_BOOL)
            return false;
        if (!base_type_count(type)) return false;
    }
    return true;
}

/* The strides of an operand whose axes are the last of [leading..., group, row, column]; without a
 * group where the rank says so. */
static strides strides_of(const cpu_attention *a, const ref_view *view, bool grouped) {
    strides s = {0};
    uint32_t left = view->rank, axis;
    int64_t *const last[] = {&s.column, &s.row, &s.group};
    uint32_t n = grouped ? 3 : 2;
    for (axis = 0; axis < n && left; axis++, left--)
        *last[axis] = view->dims[left - 1] == 1 ? 0 : view->from[left - 1];
    for (uint32_t i = a->n_leading; i-- > 0 && left; left--)
        s.leading[i] = view->dims[left - 1] == 1 ? 0 : view->from[left - 1];
    return s;
}

static size_t round_up(int64_t n, int64_t to) { return (size_t)((n + to - 1) / to * to); }

/* What a thread's memory is divided into. */
typedef struct memory {
    float *keys, *values, *plain_keys, *plain_queries, *plain_of, *queries, *of, *scores, *moved;
    float *mask, *most, *sum, *less, *factor;
    int64_t *seen;
} memory;

/* Returns how many floats that is. */
static size_t divide_memory(const cpu_attention *a, bool backward, float *base, memory *m) {
    int64_t panel = a->gemm->panel, rows = a->some_queries, keys = a->some_keys;
    int64_t queries = backward ? a->groups * a->queries : rows;
    int64_t wide = (int64_t)round_up(keys, panel), block = rows * a->wide;
    int64_t deep = (int64_t)round_up(a->depth, panel), broad = (int64_t)round_up(a->width, panel);
    float *seen = NULL;
    const struct {
        float **to;
        int64_t floats;
    } parts[] = {
        {&m->keys, a->depth * wide},
        {&m->values, backward ? a->width * wide : keys * broad},
        {&m->queries, rows * a->depth},
        {&m->scores, block},
        {&m->mask, a->mask == GRAPH_NO_VALUE ? 0 : block},
        {&m->most, queries},
        {&m->sum, queries},
        {&m->factor, rows},
        {&seen, rows * (int64_t)(sizeof(int64_t) / sizeof(float))},
        {&m->less, backward ? queries : 0},
        {&m->plain_keys, backward ? keys * deep : 0},
        {&m->plain_queries, backward ? rows * deep : 0},
        {&m->plain_of, backward ? rows * broad : 0},
        {&m->of, backward ? rows * a->width : 0},
        {&m->moved, backward ? block : 0},
    };
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (base) *parts[i].to = base + at;
        at += round_up(parts[i].floats, CPU_ALIGN / (int)sizeof(float));
    }
    m->seen = (int64_t *)(void *)seen;
    return at;
}

static void set_operands(const cpu_kernels *kernels, const cpu_program *p, const shoal_node *node,
                         cpu_attention *a) {
    uint32_t first = first_of(node), next = first + 3;
    const shoal_value *values = p->g->values;
    a->q = node->inputs[first];
    a->k = node->inputs[first + 1];
    a->v = node->inputs[first + 2];
    a->mask = a->length = GRAPH_NO_VALUE;
    if (next < node->n_inputs && values[node->inputs[next]].type.rank)
        a->mask = node->inputs[next++];
    if (next < node->n_inputs) a->length = node->inputs[next];
    if (a->length != GRAPH_NO_VALUE)
        a->to_i64 = kernels->convert[values[a->length].type.dtype][SHOAL_I64];
    a->wraps = a->length != GRAPH_NO_VALUE && values[a->length].type.dtype == SHOAL_U64;
    bool grouped = values[a->q].type.rank > values[a->k].type.rank;
    ref_view q = cpu_view_of(p, a->q), k = cpu_view_of(p, a->k), v = cpu_view_of(p, a->v);
    a->n_leading = k.rank - 2;
    a->batches = 1;
    for (uint32_t i = 0; i < a->n_leading; i++) a->batches *= a->leading[i] = k.dims[i];
    a->groups = grouped ? q.dims[a->n_leading] : 1;
    a->queries = q.dims[q.rank - 2];
    a->depth = q.dims[q.rank - 1];
    a->keys = k.dims[k.rank - 2];
    a->width = v.dims[v.rank - 1];
    a->of_q = strides_of(a, &q, grouped);
    a->of_k = strides_of(a, &k, false);
    a->of_v = strides_of(a, &v, false);
    if (a->mask != GRAPH_NO_VALUE) {
        ref_view mask = cpu_view_of(p, a->mask);
        a->of_mask = strides_of(a, &mask, grouped);
        a->flags = values[a->mask].type.dtype == SHOAL_BOOL;
    }
    if (!is_backward(node)) return;
    a->g = node->inputs[0];
    a->o = node->inputs[1];
    ref_view g = cpu_view_of(p, a->g), o = cpu_view_of(p, a->o);
    a->of_g = strides_of(a, &g, grouped);
    a->of_o = strides_of(a, &o, grouped);
}

static shoal_status run_forward(const cpu_run *run, const cpu_step *step);
static shoal_status run_backward(const cpu_run *run, const cpu_step *step);

shoal_status cpu_attention_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    cpu_attention *a = base_arena_alloc(&p->arena, sizeof *a);
    if (!a) return SHOAL_NO_MEMORY;
    const shoal_attr *scale = shoal_node_attr(node, SHOAL_ATTR_SCALE);
    const shoal_attr *causal = shoal_node_attr(node, SHOAL_ATTR_CAUSAL);
    *a = (cpu_attention){.gemm = kernels->gemm[CPU_F32], .causal = causal != NULL};
    set_operands(kernels, p, node, a);
    join_group(a);
    a->shift = causal ? in_range(causal->u.i) : 0;
    a->scale = (float)(scale ? scale->u.f : 1 / sqrt((double)a->depth));
    a->query_blocks = (a->queries + QUERIES - 1) / QUERIES;
    a->some_queries = (a->queries + a->query_blocks - 1) / a->query_blocks;
    int64_t key_blocks = (a->keys + KEYS - 1) / KEYS;
    a->some_keys = (a->keys + key_blocks - 1) / key_blocks;
    a->wide = (int64_t)round_up(a->some_keys, CPU_LANES);
    memory unused;
    a->each = divide_memory(a, is_backward(node), NULL, &unused);
    step->scratch_bytes = a->each * sizeof(float) * p->threads;
    step->u.attention = a;
    step->run = is_backward(node) ? run_backward : run_forward;
    return SHOAL_OK;
}

/* ---- running ---- */

typedef struct job {
    const cpu_attention *a;
    const cpu_kernels *kernels;
    const float *q, *k, *v, *g, *o;
    const char *mask;
    float *out, *for_k, *for_v; /* out: the result, or the gradient for q */
    int64_t length, end;        /* keys from `end` on are hidden: the length, but in the range */
    float *scratch;
    _Atomic(int64_t) next;
} job;

/* Some queries of a head. */
typedef struct block {
    int64_t batch, group, first, rows;
} block;

static int64_t leading_at(const cpu_attention *a, const strides *s, int64_t batch) {
    int64_t at = 0;
    for (uint32_t i = a->n_leading; i-- > 0; batch /= a->leading[i])
        at += batch % a->leading[i] * s->leading[i];
    return at;
}

static int64_t at_query(const cpu_attention *a, const strides *s, const block *b) {
    return leading_at(a, s, b->batch) + b->group * s->group + b->first * s->row;
}

static int64_t at_key(const cpu_attention *a, const strides *s, int64_t batch, int64_t key) {
    return leading_at(a, s, batch) + key * s->row;
}

/* How many keys a query sees. */
static int64_t seen_by(const job *j, int64_t query) {
    const cpu_attention *a = j->a;
    int64_t after = a->alike ? 0 : a->queries - 1 - query; /* queries behind this one */
    int64_t seen = j->end, last = j->length - after + a->shift;
    if (a->causal && last < seen) seen = last;
    return seen < 0 ? 0 : seen;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* A left operand as products want it: one stride is 1. */
typedef struct left {
    const float *data;
    int64_t strides[2];
} left;

static left left_of(const float *x, const strides *s, int64_t rows, int64_t columns, float *copy) {
    if (s->column == 1 || columns == 1) return (left){x, {s->row, 1}};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++) copy[i * columns + k] = x[i * s->row + k * s->column];
    return (left){copy, {columns, 1}};
}

/* A right operand, where it lies or packed. */
typedef struct right {
    const float *data;
    int64_t row, panel;
} right;

static right right_of(const cpu_gemm *gemm, const float *x, const strides *s, int64_t rows,
                      int64_t columns, float *copy) {
    bool lies_well =
        s->column == 1 && columns % gemm->panel == 0 && s->row * (int64_t)sizeof *x % PAGE;
    if (lies_well) return (right){x, s->row, gemm->panel};
    gemm->pack_b(rows, columns, x, (const int64_t[]){s->row, s->column}, copy);
    return (right){copy, gemm->panel, gemm->panel * rows};
}

/* x's rows as columns, in panels. */
static right transposed(const cpu_gemm *gemm, const float *x, const strides *s, int64_t rows,
                        int64_t columns, float *copy) {
    gemm->pack_b(columns, rows, x, (const int64_t[]){s->column, s->row}, copy);
    return (right){copy, gemm->panel, gemm->panel * columns};
}

static void multiply(const cpu_gemm *gemm, int64_t m, int64_t n, int64_t k, const left *a,
                     const right *b, float *c, int64_t row, bool add) {
    gemm->block(m, n, k, a->data, a->strides, b->data, b->row, b->panel, c,
                (const int64_t[]){row, 1}, add);
}

/* Gives the scores of queries and of n keys from `key` on their mask: where it lies, or copied so
 * that rows have room. */
static void set_mask(const job *j, const block *b, int64_t key, const memory *m, cpu_scores *s) {
    const cpu_attention *a = j->a;
    const strides *of = &a->of_mask;
    size_t bytes = a->flags ? 1 : sizeof(float), n = (size_t)s->n;
    const char *from = j->mask + (size_t)(at_query(a, of, b) + key * of->column) * bytes;
    char *to = (char *)m->mask;
    bool fits = of->column && s->n % CPU_LANES == 0;
    s->mask_row = fits ? of->row : a->wide;
    for (int64_t i = 0; i < b->rows && !fits; i++) {
        const char *row = from + (size_t)(i * of->row) * bytes;
        char *copy = to + (size_t)(i * a->wide) * bytes;
        memset(copy + n * bytes, 0, ((size_t)a->wide - n) * bytes);
        if (of->column)
            memcpy(copy, row, n * bytes);
        else
            for (size_t k = 0; k < n; k++) memcpy(copy + k * bytes, row, bytes);
    }
    const void *data = fits ? from : to;
    s->flags = a->flags ? data : NULL;
    s->added = a->flags ? NULL : data;
}

/* The scores of queries with n keys from `key` on, but for the products. stats: where those of the
 * queries begin. */
static cpu_scores scores_of(const job *j, const block *b, int64_t key, int64_t n, int64_t stats,
                            const memory *m) {
    const cpu_attention *a = j->a;
    cpu_scores s = {.x = m->scores,
                    .rows = b->rows,
                    .n = n,
                    .row = a->wide,
                    .seen = m->seen,
                    .scale = a->scale,
                    .most = m->most + stats,
                    .sum = m->sum + stats,
                    .factor = m->factor};
    for (int64_t i = 0; i < b->rows; i++) {
        int64_t seen = seen_by(j, b->first + i) - key;
        m->seen[i] = seen < 0 ? 0 : smaller(seen, n);
    }
    if (j->mask) set_mask(j, b, key, m, &s);
    return s;
}

static cpu_scores score(const job *j, const block *b, const left *q, const right *k, int64_t key,
                        int64_t n, int64_t stats, const memory *m) {
    const cpu_attention *a = j->a;
    multiply(a->gemm, b->rows, n, a->depth, q, k, m->scores, a->wide, false);
    return scores_of(j, b, key, n, stats, m);
}

static void begin_stats(const memory *m, int64_t at, int64_t rows) {
    for (int64_t i = at; i < at + rows; i++) {
        m->most[i] = -INFINITY;
        m->sum[i] = 0;
    }
}

/* ---- forward ---- */

static bool reads_in_place(const cpu_attention *a, const block *b, const left *q) {
    return b->rows <= FEW && q->strides[1] == 1 && a->of_k.column == 1 && a->of_v.column == 1;
}

/* Adds weights times values, for rows whose operands are read where they lie. */
static void add_values(const cpu_attention *a, const block *b, const float *v, int64_t n,
                       const memory *m, float *out) {
    float *sums = m->values;
    for (int64_t i = 0; i < b->rows; i++, out += a->width) {
        a->gemm->vector(a->width, n, v, (const int64_t[]){1, a->of_v.row}, m->scores + i * a->wide,
                        sums);
        for (int64_t k = 0; k < a->width; k++) out[k] += sums[k];
    }
}

/* A block's meeting with n keys from `key` on. */
static void meet(const job *j, const block *b, const left *q, int64_t key, int64_t n,
                 const memory *m, float *out) {
    const cpu_attention *a = j->a;
    const float *k_at = j->k + at_key(a, &a->of_k, b->batch, key);
    const float *v_at = j->v + at_key(a, &a->of_v, b->batch, key);
    bool in_place = reads_in_place(a, b, q);
    cpu_scores s = scores_of(j, b, key, n, 0, m);
    if (in_place) {
        for (int64_t i = 0; i < b->rows; i++)
            a->gemm->vector(n, a->depth, k_at, (const int64_t[]){a->of_k.row, 1},
                            q->data + i * q->strides[0], m->scores + i * a->wide);
    } else {
        right k = transposed(a->gemm, k_at, &a->of_k, n, a->depth, m->keys);
        multiply(a->gemm, b->rows, n, a->depth, q, &k, m->scores, a->wide, false);
    }
    j->kernels->weigh(&s);
    if (key) j->kernels->scale_rows(out, b->rows, a->width, m->factor);
    if (in_place) {
        add_values(a, b, v_at, n, m, out);
        return;
    }
    right v = right_of(a->gemm, v_at, &a->of_v, n, a->width, m->values);
    left weights = {m->scores, {a->wide, 1}};
    multiply(a->gemm, b->rows, a->width, n, &weights, &v, out, a->width, key > 0);
}

static void attend(const job *j, const block *b, const memory *m) {
    const cpu_attention *a = j->a;
    int64_t most_seen = seen_by(j, b->first + b->rows - 1), size = b->rows * a->width;
    float *out = j->out + ((b->batch * a->groups + b->group) * a->queries + b->first) * a->width;
    left q = left_of(j->q + at_query(a, &a->of_q, b), &a->of_q, b->rows, a->depth, m->queries);
    begin_stats(m, 0, b->rows);
    if (!most_seen || reads_in_place(a, b, &q)) memset(out, 0, (size_t)size * sizeof *out);
    for (int64_t key = 0, n; key < most_seen; key += n) {
        n = smaller(most_seen - key, a->some_keys);
        meet(j, b, &q, key, n, m, out);
    }
    for (int64_t i = 0; i < b->rows; i++) m->factor[i] = 1 / m->sum[i];
    j->kernels->scale_rows(out, b->rows, a->width, m->factor);
}

static block block_of(const cpu_attention *a, int64_t batch, int64_t group, int64_t number) {
    int64_t first = number * a->some_queries;
    return (block){batch, group, first, smaller(a->queries - first, a->some_queries)};
}

/* Items are taken by whichever thread is free; blocks that see the most keys come first. */
static void attend_items(void *context, uint32_t part, int64_t begin, int64_t end) {
    job *j = context;
    const cpu_attention *a = j->a;
    memory m;
    divide_memory(a, false, j->scratch + part * a->each, &m);
    int64_t heads = a->batches * a->groups, items = heads * a->query_blocks, item;
    while ((item = atomic_fetch_add(&j->next, 1)) < items) {
        int64_t head = item % heads, number = a->query_blocks - 1 - item / heads;
        block b = block_of(a, head / a->groups, head % a->groups, number);
        attend(j, &b, &m);
    }
}

/* ---- backward ---- */

static int64_t stats_at(const cpu_attention *a, const block *b) {
    return b->group * a->queries + b->first;
}

/* The sums of g o of each query, and where keys are several blocks its largest score and the sum of
 * its weights. */
static void gather_stats(const job *j, const block *b, const memory *m) {
    const cpu_attention *a = j->a;
    int64_t most_seen = seen_by(j, b->first + b->rows - 1), at = stats_at(a, b);
    left g = left_of(j->g + at_query(a, &a->of_g, b), &a->of_g, b->rows, a->width, m->of);
    left o = left_of(j->o + at_query(a, &a->of_o, b), &a->of_o, b->rows, a->width, m->plain_of);
    if (g.strides[1] == 1 && o.strides[1] == 1)
        j->kernels->dot_rows(g.data, g.strides[0], o.data, o.strides[0], b->rows, a->width,
                             m->less + at);
    else
        for (int64_t i = 0; i < b->rows; i++) {
            m->less[at + i] = 0;
            for (int64_t k = 0; k < a->width; k++)
                m->less[at + i] += g.data[i * g.strides[0] + k * g.strides[1]] *
                                   o.data[i * o.strides[0] + k * o.strides[1]];
        }
    begin_stats(m, at, b->rows);
    if (a->some_keys == a->keys) return;
    left q = left_of(j->q + at_query(a, &a->of_q, b), &a->of_q, b->rows, a->depth, m->queries);
    for (int64_t key = 0, n; key < most_seen; key += n) {
        n = smaller(most_seen - key, a->some_keys);
        right k = transposed(a->gemm, j->k + at_key(a, &a->of_k, b->batch, key), &a->of_k, n,
                             a->depth, m->keys);
        cpu_scores s = score(j, b, &q, &k, key, n, at, m);
        j->kernels->weigh(&s);
    }
}

/* Keys from `first` on, packed as they are needed. */
typedef struct key_block {
    int64_t first, n;
    right keys, values, plain_keys;
    float *for_k, *for_v;
} key_block;

/* Scores become weights, and gradients of weights those of scores. What was summed before, if it
 * was, is final. */
static void turn(const job *j, cpu_scores *s, const memory *m, int64_t stats) {
    if (j->a->some_keys < j->a->keys) {
        float *sum = s->sum, unused[QUERIES];
        memset(unused, 0, sizeof unused);
        s->sum = unused;
        j->kernels->weigh(s);
        s->sum = sum;
    } else {
        j->kernels->weigh(s);
    }
    j->kernels->turn(s, m->moved, m->less + stats);
}

static void hand_back(const job *j, const block *b, const key_block *c, const memory *m) {
    const cpu_attention *a = j->a;
    int64_t n = smaller(seen_by(j, b->first + b->rows - 1) - c->first, c->n), wide = a->wide;
    if (n <= 0) return;
    const float *q_at = j->q + at_query(a, &a->of_q, b), *g_at = j->g + at_query(a, &a->of_g, b);
    float *for_q = j->out + ((b->batch * a->groups + b->group) * a->queries + b->first) * a->depth;
    left q = left_of(q_at, &a->of_q, b->rows, a->depth, m->queries);
    left g = left_of(g_at, &a->of_g, b->rows, a->width, m->of);
    cpu_scores s = score(j, b, &q, &c->keys, c->first, n, stats_at(a, b), m);
    multiply(a->gemm, b->rows, n, a->width, &g, &c->values, m->moved, wide, false);
    turn(j, &s, m, stats_at(a, b));
    right plain_q = right_of(a->gemm, q_at, &a->of_q, b->rows, a->depth, m->plain_queries);
    right plain_g = right_of(a->gemm, g_at, &a->of_g, b->rows, a->width, m->plain_of);
    left weights = {m->scores, {1, wide}}, moved = {m->moved, {1, wide}};
    multiply(a->gemm, n, a->width, b->rows, &weights, &plain_g, c->for_v, a->width, true);
    multiply(a->gemm, n, a->depth, b->rows, &moved, &plain_q, c->for_k, a->depth, true);
    moved = (left){m->moved, {wide, 1}};
    multiply(a->gemm, b->rows, a->depth, n, &moved, &c->plain_keys, for_q, a->depth, true);
}

static void clear(float *x, int64_t n) { memset(x, 0, (size_t)n * sizeof *x); }

static void hand_back_batch(const job *j, int64_t batch, const memory *m) {
    const cpu_attention *a = j->a;
    int64_t heads = a->groups * a->query_blocks, rows = a->groups * a->queries;
    clear(j->out + batch * rows * a->depth, rows * a->depth);
    clear(j->for_k + batch * a->keys * a->depth, a->keys * a->depth);
    clear(j->for_v + batch * a->keys * a->width, a->keys * a->width);
    for (int64_t i = 0; i < heads; i++) {
        block b = block_of(a, batch, i / a->query_blocks, i % a->query_blocks);
        gather_stats(j, &b, m);
    }
    for (int64_t key = 0, n; key < j->end; key += n) {
        n = smaller(j->end - key, a->some_keys);
        const float *k = j->k + at_key(a, &a->of_k, batch, key);
        const float *v = j->v + at_key(a, &a->of_v, batch, key);
        const key_block c = {.first = key,
                             .n = n,
                             .keys = transposed(a->gemm, k, &a->of_k, n, a->depth, m->keys),
                             .values = transposed(a->gemm, v, &a->of_v, n, a->width, m->values),
                             .plain_keys =
                                 right_of(a->gemm, k, &a->of_k, n, a->depth, m->plain_keys),
                             .for_k = j->for_k + (batch * a->keys + key) * a->depth,
                             .for_v = j->for_v + (batch * a->keys + key) * a->width};
        for (int64_t i = 0; i < heads; i++) {
            block b = block_of(a, batch, i / a->query_blocks, i % a->query_blocks);
            hand_back(j, &b, &c, m);
        }
    }
}

static void hand_back_items(void *context, uint32_t part, int64_t begin, int64_t end) {
    job *j = context;
    const cpu_attention *a = j->a;
    memory m;
    divide_memory(a, true, j->scratch + part * a->each, &m);
    int64_t batch;
    while ((batch = atomic_fetch_add(&j->next, 1)) < a->batches) hand_back_batch(j, batch, &m);
}

/* ---- steps ---- */

/* Multiplications of one item that are worth a thread. */
enum { GRAIN = 1 << 18 };

static void start(const cpu_run *run, const cpu_step *step, job *j) {
    const cpu_attention *a = step->u.attention;
    j->a = a;
    j->kernels = run->device->kernels;
    j->q = run->at[a->q];
    j->k = run->at[a->k];
    j->v = run->at[a->v];
    j->mask = a->mask == GRAPH_NO_VALUE ? NULL : run->at[a->mask];
    j->out = run->at[step->writes[0]];
    j->scratch = (float *)(void *)(run->workspace + step->scratch);
    j->length = j->end = a->keys;
    if (a->length == GRAPH_NO_VALUE) return;
    if (a->to_i64)
        a->to_i64(&j->length, (const void *const[]){run->at[a->length]}, 1, 0, NULL);
    else
        memcpy(&j->length, run->at[a->length], sizeof j->length);
    if (a->wraps && j->length < 0) j->length = INT64_MAX; /* it was beyond what has a sign */
    j->length = in_range(j->length);
    j->end = j->length < 0 ? 0 : smaller(j->length, a->keys);
}

/* As many parts as threads are worth it; each takes items until none is left. */
static void run_items(const cpu_run *run, job *j, int64_t items, cpu_range work) {
    const cpu_attention *a = j->a;
    double each = (double)a->batches * (double)a->groups * (double)a->queries * (double)a->keys *
                  (double)(a->depth + a->width) / (double)items;
    int64_t worth = (int64_t)((double)items * each / GRAIN), threads;
    threads = smaller(base_pool_threads(run->device->pool), smaller(items, worth));
    atomic_store(&j->next, 0);
    cpu_parallel(run->device, threads > 1 ? threads : 1, 1, work, j);
}

static shoal_status run_forward(const cpu_run *run, const cpu_step *step) {
    job j = {0};
    start(run, step, &j);
    run_items(run, &j, j.a->batches * j.a->groups * j.a->query_blocks, attend_items);
    return SHOAL_OK;
}

static shoal_status run_backward(const cpu_run *run, const cpu_step *step) {
    job j = {0};
    start(run, step, &j);
    j.g = run->at[j.a->g];
    j.o = run->at[j.a->o];
    j.for_k = run->at[step->writes[1]];
    j.for_v = run->at[step->writes[2]];
    run_items(run, &j, j.a->batches, hand_back_items);
    return SHOAL_OK;
}
