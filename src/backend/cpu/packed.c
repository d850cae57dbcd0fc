/* Products whose operands are packed, and whose numbers never go to memory: bytes that are only
 * widened to be multiplied (dot.c), and rows times quantised weights. Of a few rows these are
 * multiplied as they are decoded, each block once; of many the blocked product decodes panels of
 * them. */
#include "backend/cpu/cpu.h"

enum { GRAIN = 1 << 16 }; /* multiplications that are worth a thread */

/* ---- finding ---- */

/* How many steps read each value's memory; being a result counts, too. */
static void count_readers(const cpu_program *p, uint32_t *readers) {
    for (uint32_t s = 0; s < p->plan.n_steps; s++) {
        const fuse_step *step = &p->plan.steps[s];
        const shoal_node *node = step->kernel ? NULL : &p->g->nodes[step->node];
        for (uint32_t k = 0; node && k < node->n_inputs; k++)
            readers[cpu_root_of(p, node->inputs[k])]++;
        for (uint32_t i = 0; step->kernel && i < step->kernel->n_loads; i++) {
            const fuse_load *load = &step->kernel->loads[i];
            if (load->kind == FUSE_MEMORY) readers[cpu_root_of(p, load->value)]++;
        }
    }
    for (uint32_t i = 0; i < p->g->n_outputs; i++) readers[cpu_root_of(p, p->g->outputs[i])]++;
}

/* Whether an operand of a product is all that a node decodes, row by row along what is summed. */
static bool is_packed(const cpu_kernels *kernels, const cpu_program *p, const shoal_node *node,
                      int side) {
    uint32_t value = node->inputs[side], format;
    uint32_t maker = p->g->values[cpu_root_of(p, value)].node;
    const shoal_type *type = &p->g->values[cpu_root_of(p, value)].type;
    if (maker == SHOAL_NO_NODE || type->dtype != SHOAL_F32 || p->plan.values[value].index.start ||
        !cpu_unpacked_format(&p->g->nodes[maker], &format))
        return false;
    const ref_dot axes = cpu_dot_axes(p, node);
    const ref_axes *rows = side ? &axes.rhs_free : &axes.lhs_free;
    const ref_axes *others = side ? &axes.lhs_free : &axes.rhs_free;
    int64_t row, column, k = axes.contracting.count;
    return axes.batch.count == 1 && rows->count * k == base_type_count(type) && k > 0 &&
           (others->count <= kernels->blocks[format].most_rows ||
            (rows->count > 1 && others->count * rows->count * k > CPU_TINY_PRODUCT)) &&
           cpu_axes_collapse(rows, side, &row) &&
           cpu_axes_collapse(&axes.contracting, side, &column) && column == 1 &&
           (rows->count == 1 || row == k);
}

/* What widens an operand's bytes, seen through one transposition. */
static const shoal_node *widener_of(const shoal_graph *g, uint32_t value) {
    for (int i = 0; i < 2; i++) {
        uint32_t maker = g->values[value].node;
        if (maker == SHOAL_NO_NODE) return NULL;
        const shoal_node *node = &g->nodes[maker];
        if (cpu_widens_bytes(g, node)) return node;
        if (node->op != GRAPH_TRANSPOSE) return NULL;
        value = node->inputs[0];
    }
    return NULL;
}

void cpu_packed_choose(const cpu_kernels *kernels, const shoal_graph *g, fuse_choice *choices) {
    if (!kernels->bytes->exists) return;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t k = 0; k < g->nodes[n].n_inputs && g->nodes[n].op == GRAPH_DOT_GENERAL; k++) {
            const shoal_node *widener = widener_of(g, g->nodes[n].inputs[k]);
            if (widener) choices[widener - g->nodes] = (fuse_choice){.role = FUSE_OWN};
        }
    /* What others read, too, is widened in their regions. */
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        if (node->op == GRAPH_DOT_GENERAL || node->op == GRAPH_TRANSPOSE) continue;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            uint32_t maker = g->values[node->inputs[k]].node;
            if (maker != SHOAL_NO_NODE && cpu_widens_bytes(g, &g->nodes[maker]))
                choices[maker].role = FUSE_MAP;
        }
    }
}

/* Leaves out what widens bytes for products alone, all of which take bytes on both sides. */
static shoal_status find_bytes(const cpu_kernels *kernels, cpu_program *p,
                               const uint32_t *readers) {
    const shoal_graph *g = p->g;
    uint32_t *claims = base_arena_array(&p->arena, uint32_t, g->n_values + (size_t)1);
    bool *takes = base_arena_array(&p->arena, bool, g->n_nodes + (size_t)1);
    bool *own = base_arena_array(&p->arena, bool, g->n_nodes + (size_t)1);
    if (!claims || !takes || !own) return SHOAL_NO_MEMORY;
    for (uint32_t s = 0; s < p->plan.n_steps; s++)
        if (!p->plan.steps[s].kernel) own[p->plan.steps[s].node] = true;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        takes[n] = cpu_dot_takes_bytes(kernels, p, node);
        for (int side = 0; side < 2 && takes[n]; side++)
            claims[cpu_root_of(p, node->inputs[side])]++;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t n = 0; n < g->n_nodes; n++) {
            if (!takes[n]) continue;
            uint32_t roots[2];
            bool alone = true;
            for (int side = 0; side < 2; side++) {
                uint32_t root = roots[side] = cpu_root_of(p, g->nodes[n].inputs[side]);
                alone = alone && claims[root] == readers[root] && own[g->values[root].node];
            }
            if (alone) continue;
            takes[n] = false;
            changed = true;
            for (int side = 0; side < 2; side++) claims[roots[side]]--;
        }
    }
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (int side = 0; side < 2 && takes[n]; side++) {
            uint32_t maker = g->values[cpu_root_of(p, g->nodes[n].inputs[side])].node;
            p->packed[maker] = maker;
        }
    return SHOAL_OK;
}

shoal_status cpu_packed_find(const cpu_kernels *kernels, cpu_program *p) {
    const shoal_graph *g = p->g;
    uint32_t *readers = base_arena_array(&p->arena, uint32_t, g->n_values + (size_t)1);
    p->packed = base_arena_array(&p->arena, uint32_t, g->n_nodes + (size_t)1);
    if (!readers || !p->packed) return SHOAL_NO_MEMORY;
    count_readers(p, readers);
    for (uint32_t n = 0; n < g->n_nodes; n++) p->packed[n] = SHOAL_NO_NODE;
    SHOAL_TRY(find_bytes(kernels, p, readers));
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        if (!cpu_dot_fits(kernels, g, node)) continue;
        for (int side = 0; side < 2 && p->packed[n] == SHOAL_NO_NODE; side++) {
            uint32_t root = cpu_root_of(p, node->inputs[side]);
            if (readers[root] != 1 || !is_packed(kernels, p, node, side)) continue;
            p->packed[n] = g->values[root].node;
            p->packed[p->packed[n]] = p->packed[n];
        }
    }
    return SHOAL_OK;
}

/* ---- running ---- */

shoal_status cpu_packed_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    uint32_t decoder = p->packed[node - p->g->nodes], format = 0;
    int side = p->g->values[cpu_root_of(p, node->inputs[1])].node == decoder;
    const shoal_block_format *f = cpu_unpacked_format(&p->g->nodes[decoder], &format);
    ref_dot axes = cpu_dot_axes(p, node);
    const ref_axes *free = side ? &axes.lhs_free : &axes.rhs_free;
    cpu_packed *packed = &step->u.packed;
    uint32_t *reads = base_arena_array(&p->arena, uint32_t, 2);
    if (!reads) return SHOAL_NO_MEMORY;
    if (free->count > kernels->blocks[format].most_rows) {
        reads[side] = p->g->nodes[decoder].inputs[0];
        reads[!side] = node->inputs[!side];
        step->reads = reads;
        cpu_dot_prepare_decoded(kernels, p, side, format, step);
        return SHOAL_OK;
    }
    reads[0] = node->inputs[!side];
    reads[1] = p->g->nodes[decoder].inputs[0];
    step->reads = reads;
    step->n_reads = 2;
    step->run = cpu_packed_run;
    int64_t n = (side ? &axes.rhs_free : &axes.lhs_free)->count, k = axes.contracting.count;
    *packed = (cpu_packed){.kernel = &kernels->blocks[format],
                           .product = {.m = free->count, .n = n, .blocks = k / f->values},
                           .row = (size_t)(k / f->values) * f->bytes};
    packed->product.y_strides[0] = side ? n : 1;
    packed->product.y_strides[1] = side ? 1 : free->count;
    cpu_matrix *x = &packed->x;
    if (!cpu_axes_collapse(free, !side, &x->row_stride) ||
        !cpu_axes_collapse(&axes.contracting, !side, &x->column_stride) || x->column_stride != 1)
        cpu_matrix_pack(x, &axes.batch, free, &axes.contracting, !side);
    x->scratch_bytes = (size_t)x->count * sizeof(float);
    packed->product.x_row = x->row_stride;
    const cpu_digits_kernel *digits = &kernels->digits[format];
    if (digits->prepare && free->count <= digits->most_rows) {
        packed->digits = digits;
        packed->prepared_bytes =
            (size_t)free->count * digits->bytes * (size_t)((k + CPU_PREPARED - 1) / CPU_PREPARED);
    }
    return SHOAL_OK;
}

static void multiply_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const cpu_packed *packed = context;
    cpu_block_product p = packed->product;
    p.w += (size_t)begin * packed->row;
    p.y += begin * p.y_strides[1];
    p.n = end - begin;
    if (packed->digits)
        packed->digits->dot(&p, packed->kernel);
    else
        packed->kernel->dot(&p);
}

shoal_status cpu_packed_run(const cpu_run *run, const cpu_step *step) {
    cpu_packed packed = step->u.packed;
    cpu_block_product *p = &packed.product;
    p->x = (const float *)cpu_matrix_ready(run, &packed.x, run->at[step->reads[0]], sizeof(float));
    p->w = run->at[step->reads[1]];
    p->y = run->at[step->writes[0]];
    void *prepared = run->workspace + packed.prepared;
    if (packed.digits) {
        packed.digits->prepare(p, prepared);
        p->prepared = prepared;
    }
    int64_t each = p->m * (int64_t)packed.row; /* bytes that are read, about, and so multiplied */
    if (p->m) cpu_parallel(run->device, p->n, 1 + GRAIN / each, multiply_range, &packed);
    return SHOAL_OK;
}
