/* Sums, products, maxima and the like along axes. The operand is taken piece by piece, from memory
 * or from a region that computes it and never stores it; 16-bit numbers are widened first and
 * rounded once, at the end. */
#include "backend/cpu/cpu.h"

enum {
    GRAIN = 1 << 15,
    CHUNK = 1 << 16, /* elements of a partial result, */
    CHUNK_ROWS = 64, /* and rows of it at least */
    WIDE = 4096,     /* elements of rows that lie in memory, which is best read in long runs */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static bool is_half(uint8_t dtype) { return dtype == SHOAL_F16 || dtype == SHOAL_BF16; }

static bool is_joined(const shoal_node *node, int64_t axis) {
    const shoal_attr *axes = shoal_node_attr(node, SHOAL_ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < axes->count; i++)
        if (axes->u.ints[i] == axis) return true;
    return false;
}

/* ---- preparing ---- */

/* From the last axis on: kept ones, then joined ones, then all others. */
static void set_shape(cpu_reduce *r, const shoal_node *node, const shoal_type *in) {
    int stage = 0;
    r->outer = r->joined = r->inner = 1;
    for (uint32_t i = in->rank; i-- > 0;) {
        if (in->dims[i] == 1) continue;
        bool joined = is_joined(node, i);
        if (stage == 0 && joined) stage = 1;
        if (stage == 1 && !joined) stage = 2;
        *(stage == 0 ? &r->inner : stage == 1 ? &r->joined : &r->outer) *= in->dims[i];
    }
    r->chunk = r->inner > 0 ? CHUNK / r->inner : 1;
    if (r->chunk < CHUNK_ROWS) r->chunk = CHUNK_ROWS;
    r->n_chunks = (r->joined + r->chunk - 1) / r->chunk;
}

static void add_axis(ref_axes *axes, int64_t size, int64_t stride) {
    axes->size[axes->n] = size;
    axes->stride[0][axes->n++] = stride;
    axes->count *= size;
}

static void set_partial_axes(cpu_reduce *r, const shoal_node *node, const shoal_type *in) {
    int64_t left = r->outer, stride = left * r->n_chunks * r->inner;
    r->kept.count = r->rest.count = 1;
    for (uint32_t i = 0; i < in->rank && left > 1; i++) {
        if (in->dims[i] == 1) continue;
        left /= in->dims[i];
        stride /= in->dims[i];
        add_axis(is_joined(node, i) ? &r->rest : &r->kept, in->dims[i], stride);
    }
    if (r->n_chunks > 1) add_axis(&r->rest, r->n_chunks, r->inner);
}

bool cpu_reduce_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_REDUCE) return false;
    uint16_t op = graph_body_op(node->regions[0]);
    uint8_t dtype = g->values[node->inputs[0]].type.dtype;
    if (is_half(dtype)) dtype = SHOAL_F32;
    return op < GRAPH_OP_BUILT_IN && kernels->fold[op][dtype] && cpu_find_map(kernels, op, dtype);
}

void cpu_reduce_prepare(const cpu_kernels *kernels, const cpu_program *p, const shoal_node *node,
                        cpu_region *region, cpu_step *step) {
    const shoal_type *in = &p->g->values[region ? node->inputs[0] : step->reads[0]].type;
    uint8_t out = p->g->values[node->first_output].type.dtype;
    uint16_t op = graph_body_op(node->regions[0]);
    uint8_t dtype = is_half(in->dtype) ? SHOAL_F32 : in->dtype;
    cpu_reduce *r = &step->u.reduce;
    *r = (cpu_reduce){.fold = kernels->fold[op][in->dtype],
                      .join = cpu_find_map(kernels, op, dtype),
                      .bytes = shoal_dtype_size((shoal_dtype)dtype),
                      .in_bytes = shoal_dtype_size((shoal_dtype)in->dtype),
                      .out_bytes = shoal_dtype_size((shoal_dtype)out),
                      .region = region};
    if (is_half(in->dtype)) r->widen = kernels->convert[in->dtype][SHOAL_F32];
    if (is_half(out)) r->narrow = kernels->convert[SHOAL_F32][out];
    set_shape(r, node, in);
    set_partial_axes(r, node, in);
    r->direct = !r->narrow && r->rest.count == 1;
    step->run = cpu_reduce_run;
}

size_t cpu_reduce_scratch(const cpu_reduce *r) {
    return (r->widen ? CPU_REGISTER : 0) + (r->region ? cpu_region_scratch(r->region) : 0);
}

size_t cpu_reduce_partial(const cpu_reduce *r) {
    return r->direct ? 0 : (size_t)(r->outer * r->n_chunks * r->inner) * r->bytes;
}

/* ---- running ---- */

typedef struct job {
    const cpu_run *run;
    const cpu_reduce *r;
    const char *in;
    char *out, *partial;
    const void *initial;
    int64_t slices, per_slice; /* of the inner axis */
} job;

/* Elements of the operand; n <= CPU_TILE where a region computes them. */
static const char *piece(const job *j, uint32_t part, int64_t at, int64_t n) {
    const cpu_reduce *r = j->r;
    char *scratch = j->run->workspace + r->scratch + part * cpu_reduce_scratch(r);
    return r->region
               ? cpu_region_tile(j->run, r->region, at, n, scratch + (r->widen ? CPU_REGISTER : 0))
               : j->in + (size_t)at * r->in_bytes;
}

/* n <= CPU_TILE of them, as they are joined side by side. */
static const char *wide_piece(const job *j, uint32_t part, int64_t at, int64_t n) {
    const cpu_reduce *r = j->r;
    char *scratch = j->run->workspace + r->scratch + part * cpu_reduce_scratch(r);
    const char *x = piece(j, part, at, n);
    if (!r->widen) return x;
    r->widen(scratch, (const void *const[]){x}, n, 0, NULL);
    return scratch;
}

/* Without an inner axis: items are chunks. Short ones share a piece, and what lies in memory is
 * one. */
static void fold_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_reduce *r = j->r;
    int64_t rows = r->n_chunks == 1 && r->joined < CPU_TILE ? CPU_TILE / r->joined : 1;
    for (int64_t n; begin < end; begin += n) {
        char *to = j->partial + (size_t)begin * r->bytes;
        int64_t row = begin / r->n_chunks, from = begin % r->n_chunks * r->chunk;
        int64_t last = r->joined - from < r->chunk ? r->joined : from + r->chunk;
        /* Whole rows, or whole chunks of one. */
        n = r->n_chunks == 1 ? end - begin : smaller(end - begin, (r->joined - from) / r->chunk);
        if (r->region && n > rows) n = rows;
        if (n > 1) {
            const char *x = piece(j, part, row * r->joined + from, n * (last - from));
            r->fold(to, x, n, last - from, false);
            continue;
        }
        n = 1;
        for (int64_t at = from, some; at < last; at += some) {
            some = last - at < CPU_TILE ? last - at : CPU_TILE;
            r->fold(to, piece(j, part, row * r->joined + at, some), 1, some, at > from);
        }
    }
}

/* With one: items are slices of it, for each chunk; rows are joined element by element. */
static void join_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_reduce *r = j->r;
    for (int64_t item = begin; item < end; item++) {
        int64_t column = item % j->slices * j->per_slice, chunk = item / j->slices;
        int64_t outer = chunk / r->n_chunks, from = chunk % r->n_chunks * r->chunk;
        int64_t last = r->joined - from < r->chunk ? r->joined : from + r->chunk;
        int64_t width = r->inner - column < j->per_slice ? r->inner - column : j->per_slice;
        int64_t rows = width == r->inner && width < CPU_TILE ? CPU_TILE / width : 1;
        char *to = j->partial + (size_t)(chunk * r->inner + column) * r->bytes;
        for (int64_t at = from, some; at < last; at += some) {
            some = last - at < rows ? last - at : rows;
            const char *x =
                wide_piece(j, part, (outer * r->joined + at) * r->inner + column, some * width);
            for (int64_t i = 0; i < some; i++) {
                const char *row = x + (size_t)(i * width) * r->bytes;
                if (at + i == from)
                    memcpy(to, row, (size_t)width * r->bytes);
                else
                    r->join(to, (const void *const[]){to, row}, width, 0, NULL);
            }
        }
    }
}

/* ---- what is left to be joined ---- */

/* Elements begin .. end - 1 of the result. */
static void finish_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    enum { BLOCK = 512 };
    const job *j = context;
    const cpu_reduce *r = j->r;
    _Alignas(CPU_ALIGN) char sums[BLOCK * sizeof(double)];
    for (int64_t n; begin < end; begin += n) {
        int64_t inside = begin % r->inner;
        n = r->inner - inside < end - begin ? r->inner - inside : end - begin;
        if (n > BLOCK) n = BLOCK;
        int64_t at = ref_axes_at(&r->kept, begin / r->inner, 0) + inside;
        memcpy(sums, j->partial + (size_t)at * r->bytes, (size_t)n * r->bytes);
        for (int64_t i = 1; i < r->rest.count; i++) {
            int64_t next = at + ref_axes_at(&r->rest, i, 0);
            const void *more = j->partial + (size_t)next * r->bytes;
            r->join(sums, (const void *const[]){sums, more}, n, 0, NULL);
        }
        r->join(sums, (const void *const[]){j->initial, sums}, n, 1, NULL);
        char *out = j->out + (size_t)begin * r->out_bytes;
        if (r->narrow)
            r->narrow(out, (const void *const[]){sums}, n, 0, NULL);
        else
            memcpy(out, sums, (size_t)n * r->bytes);
    }
}

/* The same for results that only lack the initial value. */
static void start_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    char *out = j->out + (size_t)begin * j->r->bytes;
    j->r->join(out, (const void *const[]){j->initial, out}, end - begin, 1, NULL);
}

static int64_t grain(int64_t elements_per_item) {
    return 1 + GRAIN / (elements_per_item > 0 ? elements_per_item : 1);
}

static void join_all(job *j) {
    const cpu_reduce *r = j->r;
    shoal_device *device = j->run->device;
    int64_t items = r->outer * r->n_chunks;
    int64_t chunk = r->joined < r->chunk ? r->joined : r->chunk;
    if (r->inner == 1) {
        cpu_parallel(device, items, grain(chunk), fold_range, j);
        return;
    }
    int64_t most = r->region || r->widen ? CPU_TILE : WIDE;
    j->per_slice = r->inner < most ? r->inner : most;
    j->slices = (r->inner + j->per_slice - 1) / j->per_slice;
    cpu_parallel(device, items * j->slices, grain(chunk * j->per_slice), join_range, j);
}

shoal_status cpu_reduce_run(const cpu_run *run, const cpu_step *step) {
    const cpu_reduce *r = &step->u.reduce;
    const shoal_node *node = step->node;
    const shoal_type *type = &run->program->g->values[node->first_output].type;
    int64_t count = base_type_count(type);
    job j = {.run = run, .r = r, .in = run->at[step->reads[0]], .out = run->at[node->first_output]};
    _Alignas(8) char wide[8];
    j.initial = run->at[node->inputs[1]];
    if (!count) return SHOAL_OK;
    if (!r->outer || !r->joined) { /* there is nothing to join */
        ref_view all = {.rank = 1, .dims = {count}, .to = {1}};
        cpu_copy_view(run->device, &all, j.out, j.initial, r->out_bytes);
        return SHOAL_OK;
    }
    if (r->narrow) { /* the initial value is as the result is */
        r->widen(wide, &j.initial, 1, 0, NULL);
        j.initial = wide;
    }
    j.partial = r->direct ? j.out : run->workspace + r->partial;
    join_all(&j);
    if (r->direct)
        cpu_parallel(run->device, count, GRAIN, start_range, &j);
    else
        cpu_parallel(run->device, count, grain(r->rest.count), finish_range, &j);
    return SHOAL_OK;
}
