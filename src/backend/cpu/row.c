/* Composites along the rows of a tensor: softmax, cross-entropy, the norms and their gradients, one
 * kernel call per row. */
#include "backend/cpu/cpu.h"

enum {
    GRAIN = 1 << 14, /* elements worth a thread */
    STREAMED = 8 << 20,
    CHUNK = 64, /* rows whose sums are made by one thread */
};

/* What each operand is. x, g: rows; e: an element of g per row; l: a label per row; s, b: a scale
 * and a bias for all rows. A result is a row per row, if not told otherwise. */
static const struct composite {
    const char *roles;
    bool element, sums; /* the result: an element per row, a sum over all rows */
} composites[GRAPH_OP_BUILT_IN] = {
    [GRAPH_SOFTMAX] = {"x"},
    [GRAPH_LOG_SOFTMAX] = {"x"},
    [GRAPH_SOFTMAX_GRADIENT] = {"gx"},
    [GRAPH_CROSS_ENTROPY] = {"xl", .element = true},
    [GRAPH_CROSS_ENTROPY_GRADIENT] = {"exl"},
    [GRAPH_RMS_NORM] = {"xs"},
    [GRAPH_RMS_NORM_GRADIENT] = {"gxs"},
    [GRAPH_RMS_NORM_SCALE_GRADIENT] = {"gx", .sums = true},
    [GRAPH_LAYER_NORM] = {"xsb"},
    [GRAPH_LAYER_NORM_GRADIENT] = {"gxs"},
    [GRAPH_LAYER_NORM_SCALE_GRADIENT] = {"gx", .sums = true},
};

/* The number of the operand that is a row of x, or holds labels; -1: there is none. */
static int operand(const char *roles, char role) {
    const char *at = strchr(roles, role);
    return at ? (int)(at - roles) : -1;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool cpu_row_prepare(const cpu_kernels *kernels, const cpu_program *program, cpu_step *step) {
    const shoal_node *node = step->node;
    if (node->op >= GRAPH_OP_BUILT_IN || !kernels->row[node->op]) return false;
    const struct composite *c = &composites[node->op];
    const shoal_value *values = program->g->values;
    const shoal_type *x = &values[node->inputs[operand(c->roles, 'x')]].type;
    const shoal_attr *axis = shoal_node_attr(node, SHOAL_ATTR_DIMENSION);
    const shoal_attr *epsilon = shoal_node_attr(node, SHOAL_ATTR_EPSILON);
    const shoal_attr *ignored = shoal_node_attr(node, SHOAL_ATTR_IGNORE_INDEX);
    if (x->dtype != SHOAL_F32 || axis->u.i != x->rank - 1) return false;
    int64_t n = x->dims[x->rank - 1];
    if (!n && (c->element || c->sums)) return false;
    cpu_row row = {.kernel = kernels->row[node->op],
                   .roles = c->roles,
                   .rows = n ? base_type_count(x) / n : 0,
                   .n = n,
                   .element = c->element,
                   .epsilon = epsilon ? epsilon->u.f : 0,
                   .ignores = ignored != NULL,
                   .ignored = ignored ? ignored->u.i : 0};
    int labels = operand(c->roles, 'l');
    if (labels >= 0) {
        uint8_t dtype = values[node->inputs[labels]].type.dtype;
        row.label_bytes = shoal_dtype_size((shoal_dtype)dtype);
        if (dtype != SHOAL_I64 && !(row.widen = kernels->convert[dtype][SHOAL_I64])) return false;
    }
    size_t buffers = program->threads;
    if (c->sums) {
        row.add = cpu_find_map(kernels, GRAPH_ADD, SHOAL_F32);
        row.chunk = CHUNK;
        buffers = (size_t)divide_up(row.rows, CHUNK);
    }
    step->u.row = row;
    step->scratch_bytes = (size_t)n * sizeof(float) * buffers;
    step->run = cpu_row_run;
    return true;
}

/* ---- running ---- */

typedef struct job {
    const cpu_row *row;
    const cpu_kernels *kernels;
    cpu_row_call call; /* of row 0 */
    const char *labels;
    float *scratch;
    bool streamed;
} job;

static int64_t label_of(const job *j, int64_t i) {
    int64_t label;
    const void *at = j->labels + (size_t)i * j->row->label_bytes;
    if (j->row->widen)
        j->row->widen(&label, &at, 1, 0, NULL);
    else
        memcpy(&label, at, sizeof label);
    return label;
}

/* A row whose label is ignored has no loss. */
static void leave_out(const job *j, float *out) {
    memset(out, 0, (size_t)(j->row->element ? 1 : j->row->n) * sizeof *out);
}

static void run_rows(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_row *r = j->row;
    int64_t n = r->n;
    float *row = j->scratch + part * n;
    for (int64_t i = begin; i < end; i++) {
        cpu_row_call call = j->call;
        call.x += i * n;
        if (call.g) call.g += j->labels ? i : i * n;
        float *to = call.out + (r->element ? i : i * n);
        call.out = j->streamed ? row : to;
        if (j->labels) call.label = label_of(j, i);
        if (r->ignores && call.label == r->ignored)
            leave_out(j, call.out);
        else
            r->kernel(&call);
        if (j->streamed) j->kernels->stream(to, row, (size_t)n * sizeof *row);
    }
    if (j->streamed) j->kernels->fence();
}

/* Chunks of rows, each with its own sums. */
static void run_chunks(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_row *r = j->row;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t last = (chunk + 1) * r->chunk < r->rows ? (chunk + 1) * r->chunk : r->rows;
        cpu_row_call call = j->call;
        call.out = j->scratch + chunk * r->n;
        memset(call.out, 0, (size_t)r->n * sizeof *call.out);
        for (int64_t i = chunk * r->chunk; i < last; i++) {
            call.x = j->call.x + i * r->n;
            call.g = j->call.g + i * r->n;
            r->kernel(&call);
        }
    }
}

static void run_sums(const cpu_run *run, job *j) {
    const cpu_row *r = j->row;
    int64_t chunks = divide_up(r->rows, r->chunk);
    memset(j->call.out, 0, (size_t)r->n * sizeof *j->call.out);
    cpu_parallel(run->device, chunks, 1 + GRAIN / (r->n * r->chunk), run_chunks, j);
    for (int64_t chunk = 0; chunk < chunks; chunk++)
        r->add(j->call.out, (const void *const[]){j->call.out, j->scratch + chunk * r->n}, r->n, 0,
               NULL);
}

shoal_status cpu_row_run(const cpu_run *run, const cpu_step *step) {
    const cpu_row *row = &step->u.row;
    job j = {.row = row,
             .kernels = run->device->kernels,
             .call = {.out = run->at[step->writes[0]],
                      .n = row->n,
                      .label = -1,
                      .epsilon = row->epsilon},
             .scratch = (float *)(run->workspace + step->scratch)};
    for (uint32_t k = 0; k < step->n_reads; k++) {
        const void *data = run->at[step->reads[k]];
        switch (row->roles[k]) {
        case 'x': j.call.x = data; break;
        case 's': j.call.scale = data; break;
        case 'b': j.call.bias = data; break;
        case 'l': j.labels = data; break;
        default: j.call.g = data; break;
        }
    }
    if (row->chunk) {
        run_sums(run, &j);
        return SHOAL_OK;
    }
    j.streamed = !row->element && (size_t)(row->rows * row->n) * sizeof(float) >= STREAMED;
    if (row->rows) cpu_parallel(run->device, row->rows, 1 + GRAIN / row->n, run_rows, &j);
    return SHOAL_OK;
}
