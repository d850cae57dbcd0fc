/* Matrix products. Every dot_general is, per batch, the product of two matrices; operands whose
 * axes do not form strided matrices are copied first. BLAS computes one slab of the result per
 * thread; tiny products, and those of machines without BLAS, take a loop of our own. Which one is
 * taken depends on the shape alone, so that the same program gives the same bits. */
#include "backend/cpu/cpu.h"

#include <limits.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
enum {
    TINY = 4096,            /* multiplications below which BLAS is not worth its call */
    SPLIT_MATRIX = 2000000, /* multiplications from which on threads share the work, */
    SPLIT_VECTOR = 1 << 17, /* and with a vector, where memory is the limit */
    SLAB = 16,              /* slabs are multiples of this */
};

/* Whether axes are one axis to an operand; *stride is its stride, 0 for at most one element. */
static bool collapses(const ref_axes *axes, int side, int64_t *stride) {
    int64_t next = 0;
    *stride = 0;
    for (uint32_t i = axes->n; i-- > 0;) {
        if (axes->size[i] == 1) continue;
        if (*stride && axes->stride[side][i] != next) return false;
        if (!*stride) *stride = axes->stride[side][i];
        next = axes->stride[side][i] * axes->size[i];
    }
    return true;
}

static bool is_plain(const cpu_matrix *x, int64_t columns) {
    return x->column_stride == 1 && x->row_stride >= columns;
}

static bool is_transposed(const cpu_matrix *x, int64_t rows) {
    return x->row_stride == 1 && x->column_stride >= rows;
}

static void add_axes(ref_view *view, const ref_axes *axes, int side) {
    for (uint32_t i = 0; i < axes->n; i++) {
        view->dims[view->rank] = axes->size[i];
        view->from[view->rank++] = axes->stride[side][i];
    }
}

static void set_matrix(cpu_matrix *x, ref_axes *batch, const ref_axes *rows,
                       const ref_axes *columns, int side) {
    *x = (cpu_matrix){0};
    bool strided =
        collapses(rows, side, &x->row_stride) && collapses(columns, side, &x->column_stride);
    if (columns->count == 1) x->column_stride = 1;
    if (rows->count == 1) x->row_stride = x->column_stride == 1 ? columns->count : 1;
    if (columns->count == 1 && !x->row_stride) x->row_stride = 1;
    if (strided && (is_plain(x, columns->count) || is_transposed(x, rows->count))) return;
    x->pack = true;
    add_axes(&x->view, batch, side);
    add_axes(&x->view, rows, side);
    add_axes(&x->view, columns, side);
    int64_t stride = 1;
    for (uint32_t i = x->view.rank; i-- > 0; stride *= x->view.dims[i]) x->view.to[i] = stride;
    for (uint32_t i = 0; i < batch->n; i++) batch->stride[side][i] = x->view.to[i];
    x->row_stride = columns->count;
    x->column_stride = 1;
}

bool cpu_dot_prepare(const cpu_program *program, cpu_step *step) {
    const shoal_graph *g = program->g;
    uint8_t dtype = g->values[step->node->first_output].type.dtype;
    if (dtype != SHOAL_F32 && dtype != SHOAL_F64) return false;
    ref_dot axes = ref_dot_of(g, step->node);
    cpu_dot *dot = &step->u.dot;
    *dot = (cpu_dot){.dtype = dtype,
                     .m = axes.lhs_free.count,
                     .n = axes.rhs_free.count,
                     .k = axes.contracting.count,
                     .batch = axes.batch};
    step->run = cpu_dot_run;
    if (!dot->m || !dot->n || !dot->k || !dot->batch.count) return true;
    set_matrix(&dot->lhs, &dot->batch, &axes.lhs_free, &axes.contracting, 0);
    set_matrix(&dot->rhs, &dot->batch, &axes.contracting, &axes.rhs_free, 1);
    return true;
}

typedef struct job {
    const cpu_dot *dot;
    const cpu_blas *blas; /* NULL: the loop */
    cpu_matmul_kernel loop;
    const char *a, *b;
    char *c;
    size_t bytes;
    int64_t slab, n_slabs; /* along the longer side of the result */
} job;

/* y = x A' or A x for a row or column of the result, n elements of it. `matrix` is n x k. */
static void multiply_vector(const job *j, const char *matrix, bool plain, int64_t lead,
                            const char *x, int64_t step, char *y, int64_t n) {
    int k = (int)j->dot->k, trans = plain ? PLAIN : TRANSPOSED;
    int rows = plain ? (int)n : k, columns = plain ? k : (int)n;
    memset(y, 0, (size_t)n * j->bytes);
    if (j->bytes == sizeof(float))
        j->blas->sgemv(ROW_MAJOR, trans, rows, columns, 1, (const float *)matrix, (int)lead,
                       (const float *)x, (int)step, 0, (float *)y, 1);
    else
        j->blas->dgemv(ROW_MAJOR, trans, rows, columns, 1, (const double *)matrix, (int)lead,
                       (const double *)x, (int)step, 0, (double *)y, 1);
}

static void multiply(const job *j, const char *a, const char *b, char *c, int64_t m, int64_t n) {
    const cpu_dot *dot = j->dot;
    const cpu_matrix *l = &dot->lhs, *r = &dot->rhs;
    if (!j->blas) {
        j->loop(m, n, dot->k, a, (const int64_t[]){l->row_stride, l->column_stride}, b,
                (const int64_t[]){r->row_stride, r->column_stride}, c, dot->n);
        return;
    }
    bool plain_a = is_plain(l, dot->k), plain_b = is_plain(r, dot->n);
    int64_t lead_a = plain_a ? l->row_stride : l->column_stride;
    int64_t lead_b = plain_b ? r->row_stride : r->column_stride;
    if (dot->n == 1) {
        multiply_vector(j, a, plain_a, lead_a, b, r->row_stride, c, m);
    } else if (dot->m == 1) {
        multiply_vector(j, b, !plain_b, lead_b, a, l->column_stride, c, n);
    } else if (j->bytes == sizeof(float)) {
        j->blas->sgemm(ROW_MAJOR, plain_a ? PLAIN : TRANSPOSED, plain_b ? PLAIN : TRANSPOSED,
                       (int)m, (int)n, (int)dot->k, 1, (const float *)a, (int)lead_a,
                       (const float *)b, (int)lead_b, 0, (float *)c, (int)dot->n);
    } else {
        j->blas->dgemm(ROW_MAJOR, plain_a ? PLAIN : TRANSPOSED, plain_b ? PLAIN : TRANSPOSED,
                       (int)m, (int)n, (int)dot->k, 1, (const double *)a, (int)lead_a,
                       (const double *)b, (int)lead_b, 0, (double *)c, (int)dot->n);
    }
}

static void multiply_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_dot *dot = j->dot;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / j->n_slabs, from = i % j->n_slabs * j->slab;
        bool by_rows = dot->m >= dot->n;
        int64_t all = by_rows ? dot->m : dot->n;
        int64_t some = all - from < j->slab ? all - from : j->slab;
        int64_t row = by_rows ? from : 0, column = by_rows ? 0 : from;
        int64_t a = ref_axes_at(&dot->batch, batch, 0) + row * dot->lhs.row_stride;
        int64_t b = ref_axes_at(&dot->batch, batch, 1) + column * dot->rhs.column_stride;
        int64_t c = (batch * dot->m + row) * dot->n + column;
        multiply(j, j->a + (size_t)a * j->bytes, j->b + (size_t)b * j->bytes,
                 j->c + (size_t)c * j->bytes, by_rows ? some : dot->m, by_rows ? dot->n : some);
    }
}

static const char *packed(const cpu_run *run, const cpu_matrix *x, const void *data, size_t bytes) {
    if (!x->pack) return data;
    char *to = run->workspace + x->scratch;
    cpu_copy_view(run->device, &x->view, to, data, bytes);
    return to;
}

/* BLAS counts in int. */
static bool fits_blas(const cpu_dot *dot) {
    const int64_t numbers[] = {dot->m,
                               dot->n,
                               dot->k,
                               dot->lhs.row_stride,
                               dot->lhs.column_stride,
                               dot->rhs.row_stride,
                               dot->rhs.column_stride};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i] > INT_MAX) return false;
    return true;
}

shoal_status cpu_dot_run(const cpu_run *run, const cpu_step *step) {
    const cpu_dot *dot = &step->u.dot;
    const shoal_node *node = step->node;
    job j = {.dot = dot,
             .loop = run->device->kernels->matmul[dot->dtype == SHOAL_F32 ? CPU_F32 : CPU_F64],
             .c = run->at[node->first_output],
             .bytes = shoal_dtype_size((shoal_dtype)dot->dtype)};
    int64_t results = dot->batch.count * dot->m * dot->n;
    if (!results || !dot->k) {
        memset(j.c, 0, (size_t)results * j.bytes);
        return SHOAL_OK;
    }
    double work = (double)dot->m * (double)dot->n * (double)dot->k;
    if (work > TINY && fits_blas(dot)) j.blas = cpu_blas_get();
    j.a = packed(run, &dot->lhs, run->at[node->inputs[0]], j.bytes);
    j.b = packed(run, &dot->rhs, run->at[node->inputs[1]], j.bytes);
    uint32_t threads = base_pool_threads(run->device->pool);
    bool is_vector = dot->m == 1 || dot->n == 1;
    bool split = work * (double)dot->batch.count >= (is_vector ? SPLIT_VECTOR : SPLIT_MATRIX);
    int64_t side = dot->m >= dot->n ? dot->m : dot->n;
    int64_t parts = split && dot->batch.count < threads ? threads : 1;
    j.slab = ((side + parts - 1) / parts + SLAB - 1) / SLAB * SLAB;
    j.n_slabs = (side + j.slab - 1) / j.slab;
    int64_t tasks = dot->batch.count * j.n_slabs;
    cpu_parallel(run->device, tasks, split ? 1 : tasks, multiply_range, &j);
    return SHOAL_OK;
}
