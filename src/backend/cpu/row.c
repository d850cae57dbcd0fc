/* Composites along the rows of a tensor: softmax and the norms, one kernel call per row. */
#include "backend/cpu/cpu.h"

enum { GRAIN = 1 << 14, STREAMED = 8 << 20 };

bool cpu_row_prepare(const cpu_kernels *kernels, const cpu_program *program, cpu_step *step) {
    const shoal_node *node = step->node;
    const shoal_type *type = &program->g->values[node->first_output].type;
    const shoal_attr *axis = shoal_node_attr(node, SHOAL_ATTR_DIMENSION);
    const shoal_attr *epsilon = shoal_node_attr(node, SHOAL_ATTR_EPSILON);
    if (node->op >= GRAPH_OP_BUILT_IN || !kernels->row[node->op] || type->dtype != SHOAL_F32 ||
        axis->u.i != type->rank - 1)
        return false;
    int64_t n = type->dims[type->rank - 1];
    step->u.row = (cpu_row){.kernel = kernels->row[node->op],
                            .rows = n ? base_type_count(type) / n : 0,
                            .n = n,
                            .epsilon = epsilon ? epsilon->u.f : 0};
    step->run = cpu_row_run;
    return true;
}

typedef struct job {
    const cpu_row *row;
    const cpu_kernels *kernels;
    float *out, *scratch;
    const float *x, *scale, *bias;
    bool streamed;
} job;

static void run_rows(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    int64_t n = j->row->n;
    float *row = j->scratch + part * n;
    for (int64_t i = begin; i < end; i++) {
        float *to = j->streamed ? row : j->out + i * n;
        j->row->kernel(to, j->x + i * n, j->scale, j->bias, n, j->row->epsilon);
        if (j->streamed) j->kernels->stream(j->out + i * n, row, (size_t)n * sizeof *row);
    }
    if (j->streamed) j->kernels->fence();
}

shoal_status cpu_row_run(const cpu_run *run, const cpu_step *step) {
    const cpu_row *row = &step->u.row;
    job j = {.row = row,
             .kernels = run->device->kernels,
             .out = run->at[step->writes[0]],
             .scratch = (float *)(run->workspace + row->scratch),
             .x = run->at[step->reads[0]],
             .scale = step->n_reads > 1 ? run->at[step->reads[1]] : NULL,
             .bias = step->n_reads > 2 ? run->at[step->reads[2]] : NULL,
             .streamed = (size_t)(row->rows * row->n) * sizeof(float) >= STREAMED};
    if (row->rows) cpu_parallel(run->device, row->rows, 1 + GRAIN / row->n, run_rows, &j);
    return SHOAL_OK;
}
