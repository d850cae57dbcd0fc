/* Products of f32 and f64 in blocks, over threads. For each part of k and n, panels of the right
 * operand are packed by all threads together; then blocks of rows and columns are multiplied, taken
 * by whichever thread is free. With few rows, for which packing is much of the work, a thread packs
 * the columns of its block itself, and they are still in its cache when it multiplies. Small right
 * operands that lie well are read where they are; quantised ones are decoded panel by panel. A
 * product with a vector reads the matrix once, as it lies. */
#include "backend/cpu/cpu.h"

#include <sched.h>
#include <stdatomic.h>

enum {
    DEPTH = 3200,           /* bytes of k at a time: a panel so deep stays in the second cache */
    WIDTH = 16384,          /* bytes of n at a time */
    BLOCK_PANELS = 14,      /* row panels of a block at most, */
    LEAST_PANELS = 4,       /* and where threads would have nothing to do */
    PARTS_PER_THREAD = 3,   /* blocks, and packing, so that the faster thread can take more */
    PACKED_COLUMNS = 384,   /* columns from which on packing rows pays, */
    FEW_COLUMNS = 64,       /* and where each element lies in a page of its own */
    NARROW = 6,             /* rows of a tile, up to which it waits for all that is not packed */
    FEW_ROWS = 64,          /* rows up to which each thread packs the columns that it multiplies, */
    OWN = 1 << 18,          /* so many bytes at a time, which stay in the second cache; */
    SEVERAL_ROWS = 8,       /* fewer do not pay for it, if the matrix */
    CACHED = 16 << 20,      /* has no more bytes than this, which the third cache may hold */
    NEAR = 1 << 18,         /* bytes of a matrix that the caches hold in any case */
    PAGE = 4096,            /* rows a multiple of this apart get into each other's way there */
    LINE = 64,              /* bytes that come from memory together, */
    SETS = 64,              /* places in the first cache for lines so many apart, */
    WAYS = 8,               /* and how many lines each of them has room for */
    GROUP = 4 << 20,        /* bytes of packed batches at a time */
    SPLIT_MATRIX = 1000000, /* multiplications from which on threads share the work, */
    SPLIT_VECTOR = 1 << 17, /* and with a vector, where memory is the limit */
    SLAB = 64,              /* elements of a result that is a vector are given out in these */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static size_t element_bytes(const cpu_dot *dot) {
    return shoal_dtype_size((shoal_dtype)dot->operand_dtype);
}

static size_t result_bytes(const cpu_dot *dot) { return shoal_dtype_size((shoal_dtype)dot->dtype); }

/* Bytes of packed operands: of so many rows or columns, each of `depth` elements. */
static int64_t packed_bytes(const cpu_gemm *gemm, int64_t lines, int64_t depth) {
    return lines * (divide_up(depth, gemm->group) + gemm->before) * gemm->unit;
}

static bool is_grouped(const cpu_dot *dot) { return dot->blocks.gemm->group > 1; }

static bool is_vector(const cpu_dot *dot) {
    return (dot->m == 1 || dot->n == 1) && !is_grouped(dot);
}

static double work_of(const cpu_dot *dot) {
    return (double)dot->m * (double)dot->n * (double)dot->k * (double)dot->batch.count;
}

/* ---- preparing ---- */

/* Few rows times a matrix whose columns are side by side: packing the rows, as the right operand of
 * the product of both turned, is less than packing the matrix. */
static bool is_better_turned(const cpu_dot *dot) {
    return dot->rhs.column_stride != 1 && dot->lhs.column_stride == 1 && 2 * dot->m <= dot->n;
}

static void set_operands(cpu_dot *dot) {
    cpu_blocks *b = &dot->blocks;
    const cpu_matrix *l = &dot->lhs, *r = &dot->rhs;
    *b = (cpu_blocks){.gemm = b->gemm,
                      .turned = dot->decode ? dot->turned : is_better_turned(dot),
                      .m = dot->m,
                      .n = dot->n,
                      .lhs_strides = {l->row_stride, l->column_stride},
                      .rhs_strides = {r->row_stride, r->column_stride},
                      .out_strides = {dot->n, 1}};
    if (!b->turned) return;
    b->m = dot->n;
    b->n = dot->m;
    b->lhs_strides[0] = r->column_stride;
    b->lhs_strides[1] = r->row_stride;
    b->rhs_strides[0] = l->column_stride;
    b->rhs_strides[1] = l->row_stride;
    b->out_strides[0] = 1;
    b->out_strides[1] = dot->n;
}

/* Whether a column of panels is more than has room in the first cache, as rows a power of two apart
 * share few places there. */
static bool is_crowded(int64_t row, int64_t k) {
    int64_t places = SETS;
    for (int64_t lines = row / LINE; places > 1 && lines % 2 == 0; lines /= 2) places /= 2;
    return row % LINE == 0 && places * WAYS < k;
}

/* Whether the right operand may be read where it lies, and better is. */
static bool lies_well(const cpu_dot *dot) {
    const cpu_blocks *b = &dot->blocks;
    int64_t row = b->rhs_strides[0] * (int64_t)element_bytes(dot);
    if (is_grouped(dot) || dot->decode || b->rhs_strides[1] != 1 || b->n % b->gemm->panel)
        return false;
    int64_t matrix = dot->k * row;
    bool narrow = b->gemm->rows <= NARROW && b->m > SEVERAL_ROWS;
    if (narrow && matrix <= NEAR && is_crowded(row, dot->k)) return false;
    return matrix <= NEAR ? b->m <= FEW_ROWS || row % PAGE
                          : b->m < SEVERAL_ROWS && matrix <= CACHED;
}

/* Of at most so many panels a block, and at least half of them, that with which threads that take a
 * block each in turn are done first. */
static int64_t even_panels(int64_t panels, int64_t most, uint32_t threads) {
    int64_t best = most, least = INT64_MAX;
    for (int64_t each = most; each > 0 && each >= most / 2; each--) {
        int64_t longest = divide_up(divide_up(panels, each), threads) * each;
        if (longest >= least) continue;
        best = each;
        least = longest;
    }
    return best;
}

/* Blocks of rows and columns, so many that threads are busy to the end. */
static void set_blocks(cpu_dot *dot, uint32_t threads) {
    cpu_blocks *b = &dot->blocks;
    int64_t rows = b->gemm->rows, panel = b->gemm->panel;
    int64_t wanted = threads > 1 && work_of(dot) >= SPLIT_MATRIX ? threads * PARTS_PER_THREAD : 1;
    wanted = divide_up(wanted, b->group);
    if (b->own_rhs) {
        int64_t some = OWN / packed_bytes(b->gemm, panel, b->depth);
        int64_t panels = divide_up(b->n, panel), most = divide_up(panels, wanted);
        b->rows = b->m;
        b->columns =
            even_panels(panels, some < 1 ? 1 : smaller(some, most), wanted > 1 ? threads : 1) *
            panel;
        return;
    }
    int64_t down = divide_up(b->m, BLOCK_PANELS * rows), most = b->m / (LEAST_PANELS * rows);
    if (down < wanted) down = most < wanted ? most : wanted;
    if (down < 1) down = 1;
    if (wanted > 1 && down > threads) down = divide_up(down, threads) * threads;
    int64_t across = divide_up(wanted, down);
    b->rows = divide_up(b->m, down);
    b->columns = divide_up(divide_up(b->width, panel), across) * panel;
}

void cpu_product_prepare(const cpu_gemm *const gemms[2], uint32_t threads, cpu_dot *dot) {
    cpu_blocks *b = &dot->blocks;
    int64_t bytes = (int64_t)element_bytes(dot);
    b->gemm = gemms[0];
    if (is_vector(dot)) return;
    set_operands(dot);
    b->gemm = gemms[b->turned];
    const cpu_gemm *gemm = b->gemm;
    /* Parts of k are whole groups, or blocks. */
    int64_t panel = gemm->panel, group = dot->decode ? dot->values : gemm->group;
    int64_t deep = divide_up(dot->k * gemm->unit, DEPTH * gemm->group);
    int64_t wide = divide_up(b->n * gemm->unit, WIDTH);
    b->depth = divide_up(divide_up(dot->k, deep), group) * group;
    b->width = divide_up(divide_up(b->n, wide), panel) * panel;
    b->pack_rhs = !lies_well(dot);
    b->own_rhs = b->pack_rhs && b->m <= FEW_ROWS;
    if (b->own_rhs) b->width = b->n;
    int64_t each = packed_bytes(gemm, b->width, b->depth);
    b->group = GROUP / each < 1 ? 1 : GROUP / each;
    if (b->own_rhs || b->group > dot->batch.count) b->group = dot->batch.count;
    set_blocks(dot, threads);
    if (b->own_rhs) each = packed_bytes(gemm, b->columns, b->depth);
    bool far = b->lhs_strides[1] * bytes >= PAGE / 2; /* its columns, when they are dense */
    bool soon = far || gemm->rows <= NARROW;
    b->pack_lhs =
        is_grouped(dot) || smaller(b->columns, b->n) >= (soon ? FEW_COLUMNS : PACKED_COLUMNS);
    if (b->pack_rhs) b->rhs_each = (size_t)each;
    if (dot->decode) b->decoded_each = (size_t)(panel * b->depth * bytes);
    if (b->pack_lhs)
        b->lhs_each = (size_t)(packed_bytes(gemm, b->rows, b->depth) + gemm->slack * bytes);
    b->lhs_each = (b->lhs_each + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN;
}

/* ---- running ---- */

typedef struct job {
    const cpu_run *run;
    const cpu_dot *dot;
    const char *a, *b; /* left and right, as they are multiplied */
    char *c;
    size_t bytes, result_bytes;
    int64_t batch, n_batches; /* of the group that is going on, */
    int64_t p, depth;         /* its part of k */
    int64_t j, width;         /* and of n */
    int64_t down, across;     /* blocks */
    int64_t panels, some;     /* to be packed, and how many of them at a time */
    _Atomic(int64_t) next_panel, packed;
    _Atomic(int64_t) next; /* block to be taken */
} job;

static const char *rhs_of(const job *j, int64_t batch, int64_t column) {
    const cpu_blocks *b = &j->dot->blocks;
    int64_t at = ref_axes_at(&j->dot->batch, j->batch + batch, !b->turned);
    at += j->p * b->rhs_strides[0] + (j->j + column) * b->rhs_strides[1];
    return j->b + (size_t)at * j->bytes;
}

static char *packed_rhs(const job *j, int64_t batch, int64_t column) {
    const cpu_blocks *b = &j->dot->blocks;
    return j->run->workspace + b->rhs + (size_t)batch * b->rhs_each +
           (size_t)packed_bytes(b->gemm, column, j->depth);
}

/* n columns of a right operand. */
static void pack_columns(const job *j, uint32_t part, int64_t batch, int64_t column, int64_t n,
                         char *to) {
    const cpu_dot *dot = j->dot;
    const cpu_blocks *b = &dot->blocks;
    const cpu_gemm *gemm = b->gemm;
    if (!dot->decode) {
        gemm->pack_b(j->depth, n, rhs_of(j, batch, column), b->rhs_strides, to);
        return;
    }
    int64_t row = dot->k / dot->values * dot->bytes, blocks = j->depth / dot->values;
    float *decoded = (float *)(j->run->workspace + b->decoded + part * b->decoded_each);
    for (int64_t first = 0; first < n; first += gemm->panel) {
        int64_t some = smaller(n - first, gemm->panel);
        const char *from = j->b + (j->j + column + first) * row + j->p / dot->values * dot->bytes;
        for (int64_t i = 0; i < some; i++)
            dot->decode((const uint8_t *)from + i * row, decoded + i * j->depth, (size_t)blocks);
        gemm->pack_b(j->depth, some, decoded, (const int64_t[]){1, j->depth},
                     to + packed_bytes(gemm, first, j->depth));
    }
}

/* Panels of the group's right operands, batch after batch. */
static void pack_range(const job *j, uint32_t part, int64_t begin, int64_t end) {
    const cpu_gemm *gemm = j->dot->blocks.gemm;
    int64_t panels = divide_up(j->width, gemm->panel);
    for (int64_t some; begin < end; begin += some) {
        int64_t batch = begin / panels, first = begin % panels;
        some = smaller(panels - first, end - begin);
        int64_t column = first * gemm->panel, n = smaller(some * gemm->panel, j->width - column);
        pack_columns(j, part, batch, column, n, packed_rhs(j, batch, column));
    }
}

/* Packs with the other threads until all is packed. */
static void pack_panels(job *j, uint32_t part) {
    int64_t begin;
    while ((begin = atomic_fetch_add(&j->next_panel, j->some)) < j->panels) {
        int64_t end = smaller(begin + j->some, j->panels);
        pack_range(j, part, begin, end);
        atomic_fetch_add(&j->packed, end - begin);
    }
    while (atomic_load(&j->packed) < j->panels) sched_yield();
}

/* packed: the rows of which block this thread has packed last. */
static void multiply_block(const job *j, uint32_t part, int64_t block, int64_t *packed) {
    const cpu_dot *dot = j->dot;
    const cpu_blocks *b = &dot->blocks;
    int64_t batch = block / (j->down * j->across), row = block / j->across % j->down * b->rows;
    int64_t column = block % j->across * b->columns;
    int64_t m = b->m - row < b->rows ? b->m - row : b->rows;
    int64_t n = j->width - column < b->columns ? j->width - column : b->columns;
    if (m <= 0 || n <= 0) return;
    int64_t a = ref_axes_at(&dot->batch, j->batch + batch, b->turned) + row * b->lhs_strides[0] +
                j->p * b->lhs_strides[1];
    int64_t c = (j->batch + batch) * dot->m * dot->n + row * b->out_strides[0] +
                (j->j + column) * b->out_strides[1];
    int64_t panel = b->gemm->panel;
    const char *lhs = j->a + (size_t)a * j->bytes;
    if (b->pack_lhs) {
        char *to = j->run->workspace + b->lhs + part * b->lhs_each;
        if (*packed != block / j->across) b->gemm->pack_a(m, j->depth, lhs, b->lhs_strides, to);
        *packed = block / j->across;
        lhs = to;
    }
    const char *rhs;
    if (b->own_rhs) {
        char *to = j->run->workspace + b->rhs + part * b->rhs_each;
        pack_columns(j, part, batch, column, n, to);
        rhs = to;
    } else {
        rhs = b->pack_rhs ? packed_rhs(j, batch, column) : rhs_of(j, batch, column);
    }
    b->gemm->block(m, n, j->depth, lhs, b->pack_lhs ? NULL : b->lhs_strides, rhs,
                   b->pack_rhs ? panel : b->rhs_strides[0], b->pack_rhs ? panel * j->depth : panel,
                   j->c + (size_t)c * j->result_bytes, b->out_strides, j->p > 0);
}

static void multiply_blocks(void *context, uint32_t part, int64_t begin, int64_t end) {
    job *j = context;
    int64_t blocks = j->n_batches * j->down * j->across, block, packed = -1;
    pack_panels(j, part);
    while ((block = atomic_fetch_add(&j->next, 1)) < blocks)
        multiply_block(j, part, block, &packed);
}

static void multiply_part(job *j) {
    shoal_device *device = j->run->device;
    const cpu_blocks *b = &j->dot->blocks;
    int64_t blocks = j->n_batches * j->down * j->across;
    uint32_t threads = work_of(j->dot) >= SPLIT_MATRIX ? base_pool_threads(device->pool) : 1;
    if (threads > blocks) threads = (uint32_t)blocks;
    j->panels = b->pack_rhs && !b->own_rhs ? j->n_batches * divide_up(j->width, b->gemm->panel) : 0;
    j->some = divide_up(j->panels, PARTS_PER_THREAD * threads);
    atomic_store(&j->next_panel, 0);
    atomic_store(&j->packed, 0);
    atomic_store(&j->next, 0);
    cpu_parallel(device, threads, 1, multiply_blocks, j);
}

/* Slabs of a result that is a vector, batch after batch. */
static void multiply_slabs(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_dot *dot = j->dot;
    const cpu_matrix *l = &dot->lhs, *r = &dot->rhs;
    int64_t side = dot->m * dot->n, slabs = divide_up(side, SLAB);
    for (int64_t some; begin < end; begin += some) {
        int64_t batch = begin / slabs, at = begin % slabs * SLAB;
        some = slabs - begin % slabs < end - begin ? slabs - begin % slabs : end - begin;
        int64_t n = side - at < some * SLAB ? side - at : some * SLAB;
        int64_t a = ref_axes_at(&dot->batch, batch, 0), b = ref_axes_at(&dot->batch, batch, 1);
        int64_t strides[] = {l->row_stride, l->column_stride};
        if (dot->n == 1) {
            a += at * l->row_stride;
        } else {
            b += at * r->column_stride;
            strides[0] = r->column_stride;
            strides[1] = r->row_stride;
        }
        const char *lhs = j->a + (size_t)a * j->bytes, *rhs = j->b + (size_t)b * j->bytes;
        dot->blocks.gemm->vector(n, dot->k, dot->n == 1 ? lhs : rhs, strides,
                                 dot->n == 1 ? rhs : lhs,
                                 j->c + (size_t)(batch * side + at) * j->bytes);
    }
}

void cpu_product_run(const cpu_run *run, const cpu_dot *dot, const char *a, const char *b,
                     char *c) {
    const cpu_blocks *blocks = &dot->blocks;
    job j = {.run = run,
             .dot = dot,
             .a = a,
             .b = b,
             .c = c,
             .bytes = element_bytes(dot),
             .result_bytes = result_bytes(dot)};
    if (is_vector(dot)) {
        int64_t slabs = dot->batch.count * divide_up(dot->m * dot->n, SLAB);
        cpu_parallel(run->device, slabs, 1 + SPLIT_VECTOR / 2 / (SLAB * dot->k), multiply_slabs,
                     &j);
        return;
    }
    if (blocks->turned) {
        j.a = b;
        j.b = a;
    }
    j.down = divide_up(blocks->m, blocks->rows);
    for (; j.batch < dot->batch.count; j.batch += j.n_batches) {
        j.n_batches =
            dot->batch.count - j.batch < blocks->group ? dot->batch.count - j.batch : blocks->group;
        for (j.j = 0; j.j < blocks->n; j.j += j.width) {
            j.width = blocks->n - j.j < blocks->width ? blocks->n - j.j : blocks->width;
            j.across = divide_up(j.width, blocks->columns);
            for (j.p = 0; j.p < dot->k; j.p += j.depth) {
                j.depth = dot->k - j.p < blocks->depth ? dot->k - j.p : blocks->depth;
                multiply_part(&j);
            }
        }
    }
}
