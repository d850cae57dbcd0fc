/* Sums, products, maxima and minima of f32 and f64 along axes. Where the innermost axis is reduced
 * its rows are folded; where it is kept, rows are joined element by element. */
#include "backend/cpu/cpu.h"

enum { GRAIN = 1 << 15 };

static bool is_reduced(const shoal_node *node, int64_t axis) {
    const shoal_attr *axes = shoal_node_attr(node, SHOAL_ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < axes->count; i++)
        if (axes->u.ints[i] == axis) return true;
    return false;
}

bool cpu_reduce_prepare(const cpu_kernels *kernels, const cpu_program *program, cpu_step *step) {
    const shoal_type *in = &program->g->values[step->node->inputs[0]].type;
    uint16_t op = graph_body_op(step->node->regions[0]);
    if ((in->dtype != SHOAL_F32 && in->dtype != SHOAL_F64) || op >= GRAPH_OP_BUILT_IN) return false;
    int type = in->dtype == SHOAL_F32 ? CPU_F32 : CPU_F64;
    cpu_reduce *r = &step->u.reduce;
    *r = (cpu_reduce){.fold = kernels->fold[op][type],
                      .join = kernels->map[op][type],
                      .bytes = shoal_dtype_size((shoal_dtype)in->dtype),
                      .row = 1,
                      .row_is_kept = true,
                      .kept.count = 1,
                      .reduced.count = 1};
    if (!r->fold || !r->join) return false;
    /* Merge neighbours of one kind; the last becomes the row. */
    int64_t strides[SHOAL_MAX_RANK];
    ref_strides(in, strides);
    bool started = false;
    for (uint32_t i = in->rank; i-- > 0;) {
        if (in->dims[i] == 1) continue;
        bool kept = !is_reduced(step->node, i);
        ref_axes *axes = kept ? &r->kept : &r->reduced;
        if (!started || (r->row_is_kept == kept && !r->kept.n && !r->reduced.n)) {
            r->row *= in->dims[i];
            r->row_is_kept = kept;
            started = true;
            continue;
        }
        /* Axes are found from the innermost outwards and stand the other way round. */
        memmove(&axes->size[1], &axes->size[0], axes->n * sizeof axes->size[0]);
        memmove(&axes->stride[0][1], &axes->stride[0][0], axes->n * sizeof axes->stride[0][0]);
        axes->size[0] = in->dims[i];
        axes->stride[0][0] = strides[i];
        axes->n++;
        axes->count *= in->dims[i];
    }
    step->run = cpu_reduce_run;
    return true;
}

typedef struct job {
    const cpu_reduce *r;
    char *out;
    const char *in, *initial;
} job;

static void fold_rows(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_reduce *r = j->r;
    for (int64_t i = begin; i < end; i++) {
        char *acc = j->out + (size_t)i * r->bytes;
        int64_t first = ref_axes_at(&r->kept, i, 0);
        memcpy(acc, j->initial, r->bytes);
        for (int64_t k = 0; k < r->reduced.count; k++)
            r->fold(acc, j->in + (size_t)(first + ref_axes_at(&r->reduced, k, 0)) * r->bytes,
                    r->row);
    }
}

/* Items are elements of the result; a part of a row is a shorter row. */
static void join_rows(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_reduce *r = j->r;
    for (int64_t n; begin < end; begin += n) {
        int64_t inside = begin % r->row;
        n = r->row - inside < end - begin ? r->row - inside : end - begin;
        char *acc = j->out + (size_t)begin * r->bytes;
        for (int64_t i = 0; i < n; i++) memcpy(acc + (size_t)i * r->bytes, j->initial, r->bytes);
        int64_t first = ref_axes_at(&r->kept, begin / r->row, 0) + inside;
        for (int64_t k = 0; k < r->reduced.count; k++) {
            int64_t at = first + ref_axes_at(&r->reduced, k, 0);
            r->join(acc, (const void *const[]){acc, j->in + (size_t)at * r->bytes}, n, 0, NULL);
        }
    }
}

shoal_status cpu_reduce_run(const cpu_run *run, const cpu_step *step) {
    const cpu_reduce *r = &step->u.reduce;
    const shoal_node *node = step->node;
    job j = {r, run->at[node->first_output], run->at[node->inputs[0]], run->at[node->inputs[1]]};
    if (r->row_is_kept && r->row > 0 && r->kept.count > 0)
        cpu_parallel(run->device, r->row * r->kept.count, 1 + GRAIN / (1 + r->reduced.count),
                     join_rows, &j);
    else if (!r->row_is_kept && r->kept.count)
        cpu_parallel(run->device, r->kept.count, 1 + GRAIN / (1 + r->row * r->reduced.count),
                     fold_rows, &j);
    return SHOAL_OK;
}
