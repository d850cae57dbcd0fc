/* Convolutions of f32 and f64 as matrix products: the elements under some places of the window are
 * gathered as rows, times the kernel as one matrix. Groups and rows are divided over threads. What
 * has to be gathered lies in the cache of the thread that multiplies it.
 *
 * Along k the window's elements are the outer, channels the inner numbers. Where channels lie side
 * by side, rows are gathered row by row; else places do, and columns are gathered. */
#include "backend/cpu/cpu.h"

enum {
    DEPTH = 2048,      /* bytes of k at a time */
    BLOCK = 512 << 10, /* bytes of gathered rows, about, */
    MOST_PANELS = 14,  /* and row panels of them at most */
    GRAIN = 1 << 16,   /* products that are worth a thread */
};

bool cpu_convolve_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    uint8_t dtype = g->values[node->first_output].type.dtype;
    return node->op == GRAPH_CONVOLUTION && (dtype == SHOAL_F32 || dtype == SHOAL_F64);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

shoal_status cpu_convolve_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    uint8_t dtype = p->g->values[step->node->first_output].type.dtype;
    cpu_convolution *c = &step->u.convolution;
    ref_windows *w = base_arena_alloc(&p->arena, sizeof *w);
    if (!w) return SHOAL_NO_MEMORY;
    *w = ref_windows_of(p->g, step->node);
    if (!w->spatial)
        w->axis[w->spatial++] = (ref_windows_axis){
            .in = 1, .window = 1, .out = 1, .stride = 1, .in_gap = 1, .window_gap = 1};
    int64_t groups = w->feature_groups > 1 ? w->feature_groups : w->batch_groups, places = 1;
    *c = (cpu_convolution){.windows = w,
                           .gemm = kernels->gemm[dtype == SHOAL_F32 ? CPU_F32 : CPU_F64],
                           .bytes = shoal_dtype_size((shoal_dtype)dtype),
                           .groups = groups,
                           .features = w->features / groups,
                           .k = w->channels};
    for (uint32_t i = 0; i < w->spatial; i++) {
        c->k *= w->axis[i].window;
        places *= w->axis[i].out;
    }
    c->rows = w->batch / w->batch_groups * places;
    int64_t row_bytes = c->k * (int64_t)c->bytes, tile = c->gemm->rows;
    c->some = row_bytes ? BLOCK / row_bytes / tile * tile : tile;
    if (c->some < tile) c->some = tile;
    c->some = smaller(c->some, MOST_PANELS * tile);
    int64_t panels = (c->features + c->gemm->panel - 1) / c->gemm->panel;
    size_t tiles = (size_t)(c->some * (c->k + c->features) + c->gemm->slack) * c->bytes;
    c->kernel_bytes = (size_t)(groups * c->k * panels * c->gemm->panel) * c->bytes;
    c->matrix_bytes = (size_t)(c->k * c->features) * c->bytes;
    c->scratch_each = (tiles + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN;
    step->run = cpu_convolve_run;
    return SHOAL_OK;
}

/* ---- the kernel ---- */

typedef struct job {
    const cpu_run *run;
    const cpu_convolution *c;
    const char *lhs, *rhs;
    char *out;
    int64_t blocks; /* of rows, per group */
} job;

/* Numbers along axes, the last one the fastest. */
static void split(int64_t number, uint32_t n, const int64_t *sizes, int64_t *index) {
    for (uint32_t i = n; i-- > 0; number /= sizes[i]) index[i] = number % sizes[i];
}

static void copy_element(char *to, const char *from, size_t bytes) {
    if (bytes == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, 8);
}

/* One group's kernel as a matrix of k rows, then as panels. */
static void pack_group(const job *j, int64_t group) {
    const cpu_convolution *c = j->c;
    const ref_windows *w = c->windows;
    int64_t sizes[SHOAL_MAX_RANK], at[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < w->spatial; i++) sizes[i] = w->axis[i].window;
    char *matrix = j->run->workspace + c->matrix, *to = matrix;
    for (int64_t k = 0; k < c->k; k++) {
        int64_t from = k % w->channels * w->rhs_channel + group * c->features * w->rhs_feature;
        split(k / w->channels, w->spatial, sizes, at);
        for (uint32_t i = 0; i < w->spatial; i++) {
            const ref_windows_axis *axis = &w->axis[i];
            from += (axis->reversed ? axis->window - 1 - at[i] : at[i]) * axis->window_step;
        }
        for (int64_t f = 0; f < c->features; f++, to += c->bytes)
            copy_element(to, j->rhs + (size_t)(from + f * w->rhs_feature) * c->bytes, c->bytes);
    }
    c->gemm->pack_b(c->k, c->features, matrix, (const int64_t[]){c->features, 1},
                    j->run->workspace + c->kernel +
                        (size_t)group * (c->kernel_bytes / (size_t)c->groups));
}

/* ---- gathering ---- */

/* A row: where its place is, and where its batch begins in the input and in the result. */
typedef struct place {
    int64_t at[SHOAL_MAX_RANK], lhs, out;
} place;

static place place_of(const cpu_convolution *c, int64_t group, int64_t row) {
    const ref_windows *w = c->windows;
    int64_t sizes[SHOAL_MAX_RANK], places = 1;
    place p = {.lhs = 0};
    for (uint32_t i = 0; i < w->spatial; i++) places *= sizes[i] = w->axis[i].out;
    split(row % places, w->spatial, sizes, p.at);
    int64_t batch = row / places;
    p.out = batch * w->out_batch + group * c->features * w->out_feature;
    for (uint32_t i = 0; i < w->spatial; i++) p.out += p.at[i] * w->axis[i].out_step;
    p.lhs = batch * w->lhs_batch;
    if (w->feature_groups > 1) p.lhs += group * w->channels * w->lhs_channel;
    if (w->batch_groups > 1) p.lhs += group * (w->batch / w->batch_groups) * w->lhs_batch;
    return p;
}

/* The offset of the first n axes of window element `inside` at a place; -1: nothing lies there. */
static int64_t offset_of(const ref_windows *w, uint32_t n, const int64_t *at,
                         const int64_t *inside) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t index = ref_windows_at(&w->axis[i], at[i], inside[i]);
        if (index < 0) return -1;
        offset += index * w->axis[i].in_step;
    }
    return offset;
}

/* Row by row: channels are side by side. */
static void gather_rows(const job *j, int64_t group, int64_t row, int64_t m, char *to) {
    const ref_windows *w = j->c->windows;
    int64_t sizes[SHOAL_MAX_RANK], inside[SHOAL_MAX_RANK];
    size_t run = (size_t)w->channels * j->c->bytes;
    for (uint32_t i = 0; i < w->spatial; i++) sizes[i] = w->axis[i].window;
    for (int64_t r = 0; r < m; r++) {
        place p = place_of(j->c, group, row + r);
        for (int64_t e = 0; e < j->c->k / w->channels; e++, to += run) {
            split(e, w->spatial, sizes, inside);
            int64_t offset = offset_of(w, w->spatial, p.at, inside);
            if (offset < 0)
                memset(to, 0, run);
            else
                memcpy(to, j->lhs + (size_t)(p.lhs + offset) * j->c->bytes, run);
        }
    }
}

/* n places in a row along the last axis, which elements are for one element of the window. */
static void gather_line(const ref_windows_axis *axis, int64_t first, int64_t n, int64_t inside,
                        const char *from, size_t bytes, char *to) {
    int64_t start = first * axis->stride + inside * axis->window_gap - axis->before;
    if (axis->stride == 1 && axis->in_gap == 1 && axis->in_step == 1) {
        int64_t before = smaller(n, start < 0 ? -start : 0);
        int64_t some = smaller(n, axis->in - start) - before;
        if (some < 0) some = 0;
        memset(to, 0, (size_t)before * bytes);
        if (some)
            memcpy(to + (size_t)before * bytes, from + (size_t)(start + before) * bytes,
                   (size_t)some * bytes);
        memset(to + (size_t)(before + some) * bytes, 0, (size_t)(n - before - some) * bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += bytes) {
        int64_t at = ref_windows_at(axis, first + i, inside);
        if (at < 0)
            memset(to, 0, bytes);
        else
            copy_element(to, from + (size_t)(at * axis->in_step) * bytes, bytes);
    }
}

/* Column by column, `m` elements each. */
static void gather_columns(const job *j, int64_t group, int64_t row, int64_t m, char *to) {
    const cpu_convolution *c = j->c;
    const ref_windows *w = c->windows;
    uint32_t last = w->spatial - 1;
    int64_t sizes[SHOAL_MAX_RANK], inside[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < w->spatial; i++) sizes[i] = w->axis[i].window;
    for (int64_t r = 0, n; r < m; r += n) {
        place p = place_of(c, group, row + r);
        n = smaller(m - r, w->axis[last].out - p.at[last]);
        for (int64_t k = 0; k < c->k; k++) {
            char *column = to + (size_t)(k * m + r) * c->bytes;
            split(k / w->channels, w->spatial, sizes, inside);
            int64_t offset = offset_of(w, last, p.at, inside);
            int64_t from = p.lhs + offset + k % w->channels * w->lhs_channel;
            if (offset < 0)
                memset(column, 0, (size_t)n * c->bytes);
            else
                gather_line(&w->axis[last], p.at[last], n, inside[last],
                            j->lhs + (size_t)from * c->bytes, c->bytes, column);
        }
    }
}

/* ---- multiplying ---- */

static void multiply(const job *j, int64_t group, int64_t m, const char *a, bool by_rows,
                     char *to) {
    const cpu_convolution *c = j->c;
    int64_t panel = c->gemm->panel, depth = DEPTH / (int64_t)c->bytes;
    const char *kernel =
        j->run->workspace + c->kernel + (size_t)group * (c->kernel_bytes / (size_t)c->groups);
    const int64_t strides[] = {by_rows ? c->k : 1, by_rows ? 1 : m};
    for (int64_t p = 0; p < c->k; p += depth)
        c->gemm->block(m, c->features, smaller(depth, c->k - p),
                       a + (size_t)(p * strides[1]) * c->bytes, strides,
                       kernel + (size_t)(p * panel) * c->bytes, panel, panel * c->k, to,
                       (const int64_t[]){c->features, 1}, p > 0, NULL);
}

static void convolve_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_convolution *c = j->c;
    const ref_windows *w = c->windows;
    bool by_rows = w->lhs_channel == 1;
    char *a = j->run->workspace + c->scratch + part * c->scratch_each;
    for (; begin < end; begin++) {
        int64_t group = begin / j->blocks, row = begin % j->blocks * c->some;
        int64_t m = smaller(c->rows - row, c->some);
        char *sums = a + (size_t)(m * c->k + c->gemm->slack) * c->bytes;
        if (by_rows)
            gather_rows(j, group, row, m, a);
        else
            gather_columns(j, group, row, m, a);
        multiply(j, group, m, a, by_rows, sums);
        for (int64_t r = 0; r < m; r++, sums += (size_t)c->features * c->bytes) {
            char *out = j->out + (size_t)place_of(c, group, row + r).out * c->bytes;
            for (int64_t f = 0; f < c->features && w->out_feature != 1; f++)
                copy_element(out + (size_t)(f * w->out_feature) * c->bytes,
                             sums + (size_t)f * c->bytes, c->bytes);
            if (w->out_feature == 1) memcpy(out, sums, (size_t)c->features * c->bytes);
        }
    }
}

shoal_status cpu_convolve_run(const cpu_run *run, const cpu_step *step) {
    const cpu_convolution *c = &step->u.convolution;
    const shoal_node *node = step->node;
    job j = {.run = run,
             .c = c,
             .lhs = run->at[node->inputs[0]],
             .rhs = run->at[node->inputs[1]],
             .out = run->at[node->first_output],
             .blocks = (c->rows + c->some - 1) / c->some};
    if (!c->rows || !c->features) return SHOAL_OK;
    if (!c->k) {
        const shoal_type *type = &run->program->g->values[node->first_output].type;
        memset(j.out, 0, (size_t)base_type_bytes(type));
        return SHOAL_OK;
    }
    for (int64_t group = 0; group < c->groups; group++) pack_group(&j, group);
    cpu_parallel(run->device, c->groups * j.blocks, 1 + GRAIN / (c->some * c->k * c->features),
                 convolve_range, &j);
    return SHOAL_OK;
}
