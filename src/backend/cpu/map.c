/* Elementwise steps. Axes that all operands step through alike are merged; the innermost one runs
 * in the kernel, where each operand advances by one element or repeats one. */
#include "backend/cpu/cpu.h"

enum { GRAIN = 1 << 15 }; /* elements: some 10 us of work, less than waking a thread twice */

static int float_of(uint8_t dtype) {
    return dtype == SHOAL_F32 ? CPU_F32 : dtype == SHOAL_F64 ? CPU_F64 : CPU_FLOATS;
}

cpu_map_kernel cpu_map_kernel_of(const cpu_kernels *kernels, const shoal_graph *g,
                                 const shoal_node *node) {
    static const char directions[6][3] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    if (node->op >= GRAPH_OP_BUILT_IN || !node->n_inputs) return NULL;
    size_t bytes = shoal_dtype_size((shoal_dtype)g->values[node->first_output].type.dtype);
    if (node->op == GRAPH_SELECT)
        return bytes == 4 ? kernels->select[0] : bytes == 8 ? kernels->select[1] : NULL;
    int type = float_of(g->values[node->inputs[0]].type.dtype);
    if (type == CPU_FLOATS) return NULL;
    if (node->op != GRAPH_COMPARE) return kernels->map[node->op][type];
    const char *direction = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    for (int i = 0; i < 6; i++)
        if (!strcmp(direction, directions[i])) return kernels->compare[i][type];
    return NULL;
}

static bool merges(const cpu_map *map, uint32_t outer, uint32_t inner) {
    for (uint32_t k = 0; k < map->n_operands; k++)
        if (map->strides[k][outer] != map->strides[k][inner] * map->dims[inner]) return false;
    return true;
}

static void merge(cpu_map *map) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < map->rank; i++) {
        if (map->dims[i] == 1) continue;
        bool joined = n > 0 && merges(map, n - 1, i);
        uint32_t to = joined ? n - 1 : n++;
        map->dims[to] = joined ? map->dims[to] * map->dims[i] : map->dims[i];
        for (uint32_t k = 0; k < map->n_operands; k++) map->strides[k][to] = map->strides[k][i];
    }
    map->rank = n;
}

void cpu_map_prepare(const cpu_program *program, cpu_map_kernel kernel, cpu_step *step) {
    const shoal_graph *g = program->g;
    const shoal_node *node = step->node;
    const shoal_type *out = &g->values[node->first_output].type;
    cpu_map *map = &step->u.map;
    *map = (cpu_map){.kernel = kernel,
                     .rank = out->rank,
                     .n_operands = node->n_inputs,
                     .out_bytes = shoal_dtype_size((shoal_dtype)out->dtype)};
    memcpy(map->dims, out->dims, sizeof map->dims);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        const cpu_value *value = &program->values[node->inputs[k]];
        const shoal_type *type = &g->values[node->inputs[k]].type;
        map->bytes[k] = shoal_dtype_size((shoal_dtype)type->dtype);
        if (value->is_view)
            memcpy(map->strides[k], value->strides, sizeof value->strides);
        else if (type->rank == out->rank) /* else the scalar predicate of select: all 0 */
            ref_strides(type, map->strides[k]);
    }
    merge(map);
    step->run = cpu_map_run;
}

typedef struct job {
    const cpu_map *map;
    char *out;
    const char *in[CPU_MAX_OPERANDS];
    int64_t row; /* elements of the innermost axis */
} job;

static void run_row(const job *j, int64_t row, int64_t begin, int64_t n) {
    const cpu_map *map = j->map;
    const void *in[CPU_MAX_OPERANDS];
    unsigned scalars = 0;
    for (uint32_t k = 0; k < map->n_operands; k++) {
        int64_t inner = map->rank ? map->strides[k][map->rank - 1] : 0;
        int64_t at = begin * inner, rest = row;
        for (uint32_t i = map->rank; i-- > 1; rest /= map->dims[i - 1])
            at += rest % map->dims[i - 1] * map->strides[k][i - 1];
        in[k] = j->in[k] + (size_t)at * map->bytes[k];
        if (!inner) scalars |= 1u << k;
    }
    /* One element is no reason for the slower loops. */
    if (n == 1) scalars = 0;
    map->kernel(j->out + (size_t)(row * j->row + begin) * map->out_bytes, in, n, scalars);
}

static void run_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    while (begin < end) {
        int64_t row = begin / j->row, inside = begin % j->row;
        int64_t n = j->row - inside < end - begin ? j->row - inside : end - begin;
        run_row(j, row, inside, n);
        begin += n;
    }
}

shoal_status cpu_map_run(const cpu_run *run, const cpu_step *step) {
    const cpu_map *map = &step->u.map;
    job j = {.map = map, .out = run->at[step->node->first_output], .row = 1};
    int64_t count = 1;
    for (uint32_t i = 0; i < map->rank; i++) count *= map->dims[i];
    if (map->rank) j.row = map->dims[map->rank - 1];
    for (uint32_t k = 0; k < map->n_operands; k++) j.in[k] = run->at[step->node->inputs[k]];
    if (count) cpu_parallel(run->device, count, GRAIN, run_range, &j);
    return SHOAL_OK;
}
