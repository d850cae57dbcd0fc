/* dot_general. It is, per batch, the product of two matrices; operands whose axes do not form
 * strided matrices are copied first. What is multiplied how depends on the shape alone, so that the
 * same program gives the same bits: floats and bytes by product.c, tiny ones and other integers by
 * a loop. Of bytes that are only read as 32 bits, the bytes are multiplied. */
#include "backend/cpu/cpu.h"

enum {
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

static bool is_byte(uint8_t dtype) { return dtype == SHOAL_I8 || dtype == SHOAL_U8; }

static bool is_32(uint8_t dtype) { return dtype == SHOAL_I32 || dtype == SHOAL_U32; }

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

/* ---- bytes that are read as 32 bits ---- */

bool cpu_widens_bytes(const shoal_graph *g, const shoal_node *node) {
    return node->op == GRAPH_CONVERT && is_byte(g->values[node->inputs[0]].type.dtype) &&
           is_32(g->values[node->first_output].type.dtype);
}

/* The node that made an operand, if it lies where that put it. */
static const shoal_node *maker_of(const cpu_program *p, uint32_t value) {
    uint32_t maker = p->g->values[cpu_root_of(p, value)].node;
    bool whole = maker != SHOAL_NO_NODE && !p->plan.values[value].index.start;
    return whole ? &p->g->nodes[maker] : NULL;
}

bool cpu_dot_takes_bytes(const cpu_kernels *kernels, const cpu_program *p, const shoal_node *node) {
    if (node->op != GRAPH_DOT_GENERAL || !kernels->bytes->exists) return false;
    for (int side = 0; side < 2; side++) {
        const shoal_node *maker = maker_of(p, node->inputs[side]);
        if (!maker || !cpu_widens_bytes(p->g, maker)) return false;
    }
    ref_dot axes = cpu_dot_axes(p, node);
    return (double)axes.lhs_free.count * (double)axes.rhs_free.count *
               (double)axes.contracting.count >
           CPU_TINY_PRODUCT;
}

/* The value that is read for one: bytes, if the node that widens them is left out. */
static uint32_t source_of(const cpu_program *p, uint32_t value) {
    const shoal_node *maker = maker_of(p, value);
    if (!maker || !cpu_widens_bytes(p->g, maker)) return value;
    uint32_t n = (uint32_t)(maker - p->g->nodes);
    return p->packed[n] == n ? maker->inputs[0] : value;
}

shoal_status cpu_widen_run(const cpu_run *run, const cpu_step *step) {
    const shoal_value *values = run->program->g->values;
    const shoal_type *from = &values[step->reads[0]].type, *to = &values[step->writes[0]].type;
    cpu_convert(run->device, run->device->kernels->convert[from->dtype][to->dtype],
                run->at[step->reads[0]], 1, run->at[step->writes[0]], sizeof(int32_t),
                base_type_count(to));
    return SHOAL_OK;
}

/* ---- preparing a product ---- */

/* The parts of a product by groups, for the operands as they are and exchanged; false: none. */
static bool find_groups(const cpu_kernels *kernels, const uint8_t dtypes[2],
                        const cpu_gemm *gemms[2]) {
    const cpu_grouped *grouped = is_byte(dtypes[0]) ? kernels->bytes : kernels->bfloats;
    bool left = dtypes[0] == SHOAL_U8, right = dtypes[1] == SHOAL_U8;
    gemms[0] = &grouped->parts[left][right];
    gemms[1] = &grouped->parts[right][left];
    return grouped->exists && (is_byte(dtypes[0]) || dtypes[0] == SHOAL_BF16);
}

shoal_status cpu_dot_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    uint8_t dtype = p->g->values[node->first_output].type.dtype, from[2];
    uint32_t *reads = base_arena_array(&p->arena, uint32_t, 2);
    if (!reads) return SHOAL_NO_MEMORY;
    for (int side = 0; side < 2; side++) {
        reads[side] = source_of(p, node->inputs[side]);
        from[side] = p->g->values[reads[side]].type.dtype;
    }
    ref_dot axes = cpu_dot_axes(p, node);
    cpu_dot *dot = &step->u.dot;
    *dot = (cpu_dot){.dtype = is_half(dtype) ? SHOAL_F32 : dtype,
                     .m = axes.lhs_free.count,
                     .n = axes.rhs_free.count,
                     .k = axes.contracting.count,
                     .batch = axes.batch};
    dot->operand_dtype = dot->dtype;
    step->reads = reads;
    step->run = cpu_dot_run;
    if (!dot->m || !dot->n || !dot->k || !dot->batch.count) return SHOAL_OK;
    double work = (double)dot->m * (double)dot->n * (double)dot->k;
    bool is_vector = dot->m == 1 || dot->n == 1, is_narrowed = from[0] == dtype;
    const cpu_gemm *gemms[2];
    bool grouped =
        work > CPU_TINY_PRODUCT && !(is_vector && is_narrowed) && find_groups(kernels, from, gemms);
    bool floats = !grouped && shoal_dtype_kind((shoal_dtype)dtype) == 'f';
    set_matrix(&dot->lhs, &dot->batch, &axes.lhs_free, &axes.contracting, 0, !floats);
    set_matrix(&dot->rhs, &dot->batch, &axes.contracting, &axes.rhs_free, 1, !floats);
    if (grouped) {
        dot->dtype = from[0] == SHOAL_BF16 ? SHOAL_F32 : SHOAL_I32;
        dot->operand_dtype = from[0];
        if (is_narrowed) dot->narrow = kernels->convert[dot->dtype][dtype];
    } else if (is_half(dtype)) {
        widen(kernels, &dot->lhs, &dot->batch, &axes.lhs_free, &axes.contracting, 0, dtype);
        widen(kernels, &dot->rhs, &dot->batch, &axes.contracting, &axes.rhs_free, 1, dtype);
        dot->narrow = kernels->convert[SHOAL_F32][dtype];
    }
    if (floats) gemms[0] = gemms[1] = kernels->gemm[dot->dtype == SHOAL_F32 ? CPU_F32 : CPU_F64];
    if (grouped || (floats && work > CPU_TINY_PRODUCT)) cpu_product_prepare(gemms, p->threads, dot);
    for (int side = 0; side < 2; side++) {
        cpu_matrix *x = side ? &dot->rhs : &dot->lhs;
        size_t bytes = shoal_dtype_size((shoal_dtype)from[side]);
        x->scratch_bytes = (size_t)x->count * (bytes + (x->widen ? sizeof(float) : 0));
    }
    return SHOAL_OK;
}

void cpu_dot_prepare_decoded(const cpu_kernels *kernels, const cpu_program *p, int side,
                             base_block_number format, cpu_step *step) {
    const shoal_block_format *f = shoal_block_format_at(format);
    ref_dot axes = cpu_dot_axes(p, step->node);
    cpu_dot *dot = &step->u.dot;
    *dot = (cpu_dot){.dtype = SHOAL_F32,
                     .operand_dtype = SHOAL_F32,
                     .m = axes.lhs_free.count,
                     .n = axes.rhs_free.count,
                     .k = axes.contracting.count,
                     .batch = axes.batch,
                     .decode = kernels->blocks[format].decode,
                     .values = f->values,
                     .bytes = f->bytes,
                     .turned = !side};
    step->run = cpu_dot_run;
    cpu_matrix *x = side ? &dot->lhs : &dot->rhs;
    if (side)
        set_matrix(x, &dot->batch, &axes.lhs_free, &axes.contracting, 0, false);
    else
        set_matrix(x, &dot->batch, &axes.contracting, &axes.rhs_free, 1, false);
    x->scratch_bytes = (size_t)x->count * sizeof(float);
    const cpu_gemm *gemm = kernels->gemm[CPU_F32];
    cpu_product_prepare((const cpu_gemm *[]){gemm, gemm}, p->threads, dot);
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
    const shoal_value *values = run->program->g->values;
    int64_t results = dot->batch.count * dot->m * dot->n;
    if (!results || !dot->k) {
        memset(out, 0, (size_t)base_type_bytes(&values[node->first_output].type));
        return SHOAL_OK;
    }
    if (dot->narrow) j.c = run->workspace + dot->wide;
    const char *ready[2];
    for (int side = 0; side < 2; side++)
        ready[side] =
            cpu_matrix_ready(run, side ? &dot->rhs : &dot->lhs, run->at[step->reads[side]],
                             shoal_dtype_size((shoal_dtype)values[step->reads[side]].type.dtype));
    j.a = ready[0];
    j.b = ready[1];
    if (dot->blocks.gemm)
        cpu_product_run(run, dot, j.a, j.b, j.c);
    else
        cpu_parallel(run->device, dot->batch.count * dot->m, 1 + LOOPED / (dot->n * dot->k),
                     multiply_rows, &j);
    if (dot->narrow)
        cpu_convert(run->device, dot->narrow, j.c, sizeof(float), out,
                    shoal_dtype_size((shoal_dtype)values[node->first_output].type.dtype), results);
    return SHOAL_OK;
}
