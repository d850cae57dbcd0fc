/* dot_general. It is, per batch, the product of two matrices; operands whose axes do not form
 * strided matrices are copied first. What is multiplied how depends on the shape alone, so that the
 * same program gives the same bits: f32 and f64 by product.c, tiny ones and integers by a loop. */
#include "backend/cpu/cpu.h"

enum {
    TINY = 1024,     /* multiplications that the loop does as well */
    GRAIN = 1 << 15, /* elements to convert */
    LOOPED = 1 << 18 /* multiplications of the loop that are worth a thread */
};

bool cpu_axes_collapse(const ref_axes *axes, int side, int64_t *stride) {
    bool found = false;
    int64_t next = 0;
    *stride = 0;
    for (uint32_t i = axes->n; i-- > 0;) {
        if (axes->size[i] == 1) continue;
        if (found && axes->stride[side][i] != next) return false;
        if (!found) *stride = axes->stride[side][i];
        next = axes->stride[side][i] * axes->size[i];
        found = true;
    }
    return true;
}

static bool is_plain(const cpu_matrix *x, int64_t columns) {
    return x->column_stride == 1 && x->row_stride >= columns;
}

static bool is_transposed(const cpu_matrix *x, int64_t rows) {
    return x->row_stride == 1 && x->column_stride >= rows;
}

/* ---- preparing ---- */

static bool is_half(uint8_t dtype) { return dtype == SHOAL_F16 || dtype == SHOAL_BF16; }

bool cpu_dot_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_DOT_GENERAL) return false;
    uint8_t dtype = g->values[node->first_output].type.dtype;
    return is_half(dtype) || kernels->matmul[dtype];
}

static void add_axes(ref_view *view, const ref_axes *axes, int side) {
    for (uint32_t i = 0; i < axes->n; i++) {
        view->dims[view->rank] = axes->size[i];
        view->from[view->rank++] = axes->stride[side][i];
    }
}

void cpu_matrix_pack(cpu_matrix *x, ref_axes *batch, const ref_axes *rows, const ref_axes *columns,
                     int side) {
    x->pack = true;
    add_axes(&x->view, batch, side);
    add_axes(&x->view, rows, side);
    add_axes(&x->view, columns, side);
    int64_t stride = 1;
    for (uint32_t i = x->view.rank; i-- > 0; stride *= x->view.dims[i]) x->view.to[i] = stride;
    for (uint32_t i = 0; i < batch->n; i++) batch->stride[side][i] = x->view.to[i];
    x->row_stride = columns->count;
    x->column_stride = 1;
    x->count = stride;
}

static void set_matrix(cpu_matrix *x, ref_axes *batch, const ref_axes *rows,
                       const ref_axes *columns, int side, bool any_strides) {
    bool strided = cpu_axes_collapse(rows, side, &x->row_stride) &&
                   cpu_axes_collapse(columns, side, &x->column_stride);
    if (columns->count == 1) x->column_stride = 1;
    if (rows->count == 1) x->row_stride = x->column_stride == 1 ? columns->count : 1;
    bool is_matrix = is_plain(x, columns->count) || is_transposed(x, rows->count);
    bool is_vector = rows->count == 1 || columns->count == 1;
    /* A product with a vector takes one element after the other. */
    bool is_near = (columns->count == 1 ? x->row_stride : x->column_stride) == 1;
    if (!strided || !(any_strides || (is_matrix && (is_near || !is_vector))))
        cpu_matrix_pack(x, batch, rows, columns, side);
}

/* An operand of 16-bit numbers is converted as a whole: first made dense, if it is not. */
static void widen(const cpu_kernels *kernels, cpu_matrix *x, ref_axes *batch, const ref_axes *rows,
                  const ref_axes *columns, int side, uint8_t dtype) {
    if (!x->pack) cpu_matrix_pack(x, batch, rows, columns, side);
    ref_view view = x->view;
    cpu_merge_view(&view);
    x->is_dense = !view.rank || (view.rank == 1 && view.from[0] == 1);
    x->widen = kernels->convert[dtype][SHOAL_F32];
}

ref_dot cpu_dot_axes(const cpu_program *p, const shoal_node *node) {
    const ref_view views[2] = {cpu_view_of(p, node->inputs[0]), cpu_view_of(p, node->inputs[1])};
    return ref_dot_of_views(p->g, node, (const int64_t *const[2]){views[0].from, views[1].from});
}

void cpu_dot_prepare(const cpu_kernels *kernels, const cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    uint8_t dtype = p->g->values[node->first_output].type.dtype;
    ref_dot axes = cpu_dot_axes(p, node);
    bool floats = shoal_dtype_kind((shoal_dtype)dtype) == 'f';
    cpu_dot *dot = &step->u.dot;
    *dot = (cpu_dot){.dtype = is_half(dtype) ? SHOAL_F32 : dtype,
                     .m = axes.lhs_free.count,
                     .n = axes.rhs_free.count,
                     .k = axes.contracting.count,
                     .batch = axes.batch};
    step->run = cpu_dot_run;
    if (!dot->m || !dot->n || !dot->k || !dot->batch.count) return;
    set_matrix(&dot->lhs, &dot->batch, &axes.lhs_free, &axes.contracting, 0, !floats);
    set_matrix(&dot->rhs, &dot->batch, &axes.contracting, &axes.rhs_free, 1, !floats);
    if (is_half(dtype)) {
        widen(kernels, &dot->lhs, &dot->batch, &axes.lhs_free, &axes.contracting, 0, dtype);
        widen(kernels, &dot->rhs, &dot->batch, &axes.contracting, &axes.rhs_free, 1, dtype);
        dot->narrow = kernels->convert[SHOAL_F32][dtype];
    }
    double work = (double)dot->m * (double)dot->n * (double)dot->k;
    if (floats && work > TINY) cpu_product_prepare(kernels, p->threads, dot);
    for (int side = 0; side < 2; side++) {
        cpu_matrix *x = side ? &dot->rhs : &dot->lhs;
        size_t bytes = shoal_dtype_size((shoal_dtype)dtype);
        x->scratch_bytes = (size_t)x->count * (bytes + (x->widen ? sizeof(float) : 0));
    }
}

/* ---- running ---- */

typedef struct job {
    const cpu_dot *dot;
    cpu_matmul_kernel loop;
    const char *a, *b;
    char *c;
    size_t bytes;
} job;

/* Rows of the result, batch after batch. */
static void multiply_rows(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_dot *dot = j->dot;
    const cpu_matrix *l = &dot->lhs, *r = &dot->rhs;
    for (int64_t some; begin < end; begin += some) {
        int64_t batch = begin / dot->m, row = begin % dot->m;
        some = dot->m - row < end - begin ? dot->m - row : end - begin;
        int64_t a = ref_axes_at(&dot->batch, batch, 0) + row * l->row_stride;
        int64_t b = ref_axes_at(&dot->batch, batch, 1);
        j->loop(some, dot->n, dot->k, j->a + (size_t)a * j->bytes,
                (const int64_t[]){l->row_stride, l->column_stride}, j->b + (size_t)b * j->bytes,
                (const int64_t[]){r->row_stride, r->column_stride},
                j->c + (size_t)(begin * dot->n) * j->bytes, dot->n);
    }
}

typedef struct conversion {
    cpu_map_kernel kernel;
    const char *from;
    char *to;
    size_t from_bytes, to_bytes;
} conversion;

static void convert_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const conversion *c = context;
    c->kernel(c->to + (size_t)begin * c->to_bytes,
              (const void *const[]){c->from + (size_t)begin * c->from_bytes}, end - begin, 0, NULL);
}

void cpu_convert(shoal_device *device, cpu_map_kernel kernel, const char *from, size_t from_bytes,
                 char *to, size_t to_bytes, int64_t count) {
    conversion c = {kernel, from, to, from_bytes, to_bytes};
    cpu_parallel(device, count, GRAIN, convert_range, &c);
}

const char *cpu_matrix_ready(const cpu_run *run, const cpu_matrix *x, const char *data,
                             size_t bytes) {
    if (!x->pack) return data;
    char *to = run->workspace + x->scratch;
    char *copy = x->widen ? to + (size_t)x->count * sizeof(float) : to;
    bool copies = !(x->widen && x->is_dense);
    if (copies) cpu_copy_view(run->device, &x->view, copy, data, bytes);
    if (x->widen)
        cpu_convert(run->device, x->widen, copies ? copy : data, bytes, to, sizeof(float),
                    x->count);
    return to;
}

shoal_status cpu_dot_run(const cpu_run *run, const cpu_step *step) {
    const cpu_dot *dot = &step->u.dot;
    const shoal_node *node = step->node;
    job j = {.dot = dot,
             .loop = run->device->kernels->matmul[dot->dtype],
             .c = run->at[node->first_output],
             .bytes = shoal_dtype_size((shoal_dtype)dot->dtype)};
    char *out = j.c;
    int64_t results = dot->batch.count * dot->m * dot->n;
    if (!results || !dot->k) {
        memset(out, 0, (size_t)base_type_bytes(&run->program->g->values[node->first_output].type));
        return SHOAL_OK;
    }
    if (dot->narrow) j.c = run->workspace + dot->wide;
    size_t bytes = dot->narrow ? 2 : j.bytes;
    j.a = cpu_matrix_ready(run, &dot->lhs, run->at[node->inputs[0]], bytes);
    j.b = cpu_matrix_ready(run, &dot->rhs, run->at[node->inputs[1]], bytes);
    if (dot->blocks.gemm)
        cpu_product_run(run, dot, j.a, j.b, j.c);
    else
        cpu_parallel(run->device, dot->batch.count * dot->m, 1 + LOOPED / (dot->n * dot->k),
                     multiply_rows, &j);
    if (dot->narrow) cpu_convert(run->device, dot->narrow, j.c, sizeof(float), out, 2, results);
    return SHOAL_OK;
}
