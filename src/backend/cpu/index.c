/* gather, scatter and dynamic_update_slice. Of the first two:
 * boxes taken from, or joined to, places that are read from a tensor. Per
 * place a box is some runs of elements side by side. A scatter is divided over threads along these
 * runs, so that every element is joined by one thread, in the order in which updates lie. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>

enum { GRAIN = 1 << 15, LEAST_RUN = 16 };

static bool names(const shoal_attr *list, int64_t axis) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->u.ints[i] == axis) return true;
    return false;
}

static ref_call call_of(const cpu_program *p, const shoal_node *node) {
    return (ref_call){.graph = p->g, .node = node};
}

static ref_indexing indexing_of(const ref_call *call) {
    return call->node->op == GRAPH_GATHER ? ref_gather_of(call) : ref_scatter_of(call);
}

/* ---- preparing ---- */

/* Whether a body gives its second operand: what is there is overwritten. */
static bool overwrites(const shoal_graph *body) {
    return body->n_inputs == 2 && body->n_outputs == 1 && body->outputs[0] == body->inputs[1];
}

/* Scatters of one tensor whose boxes are one element long along the axes that indices choose: then
 * updates of an element come place by place, and boxes lie inside or outside as a whole. */
static bool scatter_fits(const cpu_kernels *kernels, const cpu_program *p, const shoal_node *node) {
    if (node->n_inputs != 3) return false;
    ref_call call = call_of(p, node);
    ref_indexing x = ref_scatter_of(&call);
    for (uint32_t i = 0; i < x.map->count; i++)
        if (!names(x.dropped, x.map->u.ints[i])) return false;
    uint16_t op = graph_body_op(node->regions[0]);
    return overwrites(node->regions[0]) ||
           (op < GRAPH_OP_BUILT_IN && cpu_find_map(kernels, op, x.operand->dtype));
}

/* Axes of the result that are the box's, with their strides in result and operand. */
static void set_box(cpu_indexing *s, const ref_indexing *x, const int64_t *result,
                    const int64_t *operand) {
    uint32_t axis = 0;
    for (uint32_t i = 0; i < x->operand->rank; i++) {
        if (names(x->dropped, i) || names(x->operand_batching, i)) continue;
        int64_t from = x->window->u.ints[axis++];
        s->box.dims[s->box.rank] = x->result->dims[from];
        s->box.to[s->box.rank] = result[from];
        s->box.from[s->box.rank++] = operand[i];
    }
    cpu_merge_view(&s->box);
    uint32_t last = s->box.rank - 1;
    s->run = 1;
    if (s->box.rank && s->box.to[last] == 1 && s->box.from[last] == 1) {
        s->run = s->box.dims[last];
        s->box.rank--;
    }
    s->runs = 1;
    for (uint32_t i = 0; i < s->box.rank; i++) s->runs *= s->box.dims[i];
}

/* The other axes, which say which place it is. */
static void set_places(cpu_indexing *s, const ref_indexing *x, const int64_t *result,
                       const int64_t *indices, const int64_t *operand) {
    uint32_t axis = 0;
    s->places = 1;
    for (uint32_t i = 0; i < x->result->rank; i++) {
        if (names(x->window, i)) continue;
        axis += axis == x->vector;
        cpu_place *place = &s->place[s->rank++];
        *place = (cpu_place){x->result->dims[i], result[i], indices[axis], 0};
        for (uint32_t k = 0; k < x->index_batching->count; k++)
            if (x->index_batching->u.ints[k] == axis)
                place->operand = operand[x->operand_batching->u.ints[k]];
        s->places *= place->size;
        axis++;
    }
}

bool cpu_index_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step,
                       shoal_status *status) {
    const shoal_node *node = step->node;
    bool gathers = node->op == GRAPH_GATHER;
    if (node->op == GRAPH_DYNAMIC_UPDATE_SLICE) {
        step->run = cpu_update_run;
        return true;
    }
    if (!gathers && (node->op != GRAPH_SCATTER || !scatter_fits(kernels, p, node))) return false;
    int64_t result[SHOAL_MAX_RANK], indices[SHOAL_MAX_RANK + 1] = {0}, operand[SHOAL_MAX_RANK];
    ref_call call = call_of(p, node);
    ref_indexing x = indexing_of(&call);
    cpu_indexing *s = step->u.indexing = base_arena_alloc(&p->arena, sizeof *s);
    *status = s ? SHOAL_OK : SHOAL_NO_MEMORY;
    if (!s) return true;
    *s = (cpu_indexing){.bytes = shoal_dtype_size((shoal_dtype)x.operand->dtype)};
    ref_strides(x.result, result);
    ref_strides(x.indices, indices);
    ref_strides(x.operand, operand);
    set_box(s, &x, result, operand);
    set_places(s, &x, result, indices, operand);
    s->index_step = x.vector < x.indices->rank ? indices[x.vector] : 0;
    for (uint32_t i = 0; i < x.map->count; i++) {
        int64_t axis = x.map->u.ints[i];
        int64_t size = gathers ? shoal_node_attr(node, SHOAL_ATTR_SLICE_SIZES)->u.ints[axis] : 1;
        s->chosen[s->n_chosen++] = (cpu_chosen){operand[axis], x.operand->dims[axis] - size};
    }
    if (!gathers && !overwrites(node->regions[0]))
        s->join = cpu_find_map(kernels, graph_body_op(node->regions[0]), x.operand->dtype);
    step->run = gathers ? cpu_gather_run : cpu_scatter_run;
    return true;
}

/* ---- running ---- */

typedef struct job {
    const cpu_indexing *s;
    ref_call call;
    char *to;         /* of a gather: the result; of a scatter: what is joined to */
    const char *from; /* of a gather: the operand; of a scatter: updates */
} job;

/* Where place number `at` begins in the result, and in the operand; false: outside of it. */
static bool find(const job *j, int64_t at, int64_t *result, int64_t *operand) {
    const cpu_indexing *s = j->s;
    int64_t index = 0;
    *result = *operand = 0;
    for (uint32_t i = s->rank; i-- > 0; at /= s->place[i].size) {
        int64_t here = at % s->place[i].size;
        *result += here * s->place[i].result;
        *operand += here * s->place[i].operand;
        index += here * s->place[i].index;
    }
    for (uint32_t i = 0; i < s->n_chosen; i++) {
        int64_t chosen = ref_index_at(&j->call, 1, index + i * s->index_step);
        int64_t last = s->chosen[i].last;
        if (j->call.node->op == GRAPH_GATHER)
            chosen = chosen < 0 ? 0 : chosen > last ? last : chosen;
        else if (chosen < 0 || chosen > last)
            return false;
        *operand += chosen * s->chosen[i].stride;
    }
    return true;
}

/* Where run number `at` of a box begins, from where the box does. */
static void find_run(const cpu_indexing *s, int64_t at, int64_t *result, int64_t *operand) {
    *result = *operand = 0;
    for (uint32_t i = s->box.rank; i-- > 0; at /= s->box.dims[i]) {
        *result += at % s->box.dims[i] * s->box.to[i];
        *operand += at % s->box.dims[i] * s->box.from[i];
    }
}

static void gather_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_indexing *s = j->s;
    for (int64_t at = begin; at < end; at++) {
        int64_t result, operand, to, from;
        find(j, at, &result, &operand);
        for (int64_t run = 0; run < s->runs; run++) {
            find_run(s, run, &to, &from);
            memcpy(j->to + (size_t)(result + to) * s->bytes,
                   j->from + (size_t)(operand + from) * s->bytes, (size_t)s->run * s->bytes);
        }
    }
}

/* Elements begin .. end - 1 of each run. */
static void scatter_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_indexing *s = j->s;
    for (int64_t at = 0; at < s->places; at++) {
        int64_t result, operand, from, to;
        if (!find(j, at, &result, &operand)) continue;
        for (int64_t run = 0; run < s->runs; run++) {
            find_run(s, run, &from, &to);
            char *there = j->to + (size_t)(operand + to + begin) * s->bytes;
            const char *update = j->from + (size_t)(result + from + begin) * s->bytes;
            if (s->join)
                s->join(there, (const void *const[]){there, update}, end - begin, 0, NULL);
            else
                memcpy(there, update, (size_t)(end - begin) * s->bytes);
        }
    }
}

shoal_status cpu_gather_run(const cpu_run *run, const cpu_step *step) {
    const cpu_indexing *s = step->u.indexing;
    const void *inputs[] = {run->at[step->reads[0]], run->at[step->reads[1]]};
    job j = {s, {run->program->g, step->node, inputs, NULL}, run->at[step->writes[0]], inputs[0]};
    int64_t each = s->run * s->runs;
    if (each) cpu_parallel(run->device, s->places, 1 + GRAIN / each, gather_range, &j);
    return SHOAL_OK;
}

/* What a result begins with: its first operand, unless it has the memory of that. */
static void begin_with_operand(const cpu_run *run, const cpu_step *step) {
    const void *from = run->at[step->reads[0]];
    void *to = run->at[step->writes[0]];
    const shoal_type *type = &run->program->g->values[step->reads[0]].type;
    ref_view all = {.rank = 1, .dims = {base_type_count(type)}, .to = {1}, .from = {1}};
    if (to != from)
        cpu_copy_view(run->device, &all, to, from, shoal_dtype_size((shoal_dtype)type->dtype));
}

bool cpu_updates_operand(const cpu_program *p, const cpu_step *step, uint32_t root) {
    if (step->run != cpu_update_run && step->run != cpu_scatter_run) return false;
    for (uint32_t k = 1; k < step->n_reads; k++)
        if (p->plan.values[step->reads[k]].root == root) return false;
    return p->plan.values[step->reads[0]].root == root;
}

shoal_status cpu_update_run(const cpu_run *run, const cpu_step *step) {
    const shoal_graph *g = run->program->g;
    const void *few[8],
        **inputs = step->n_reads <= 8 ? few : malloc(step->n_reads * sizeof *inputs);
    if (!inputs) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for %u operands", step->n_reads);
    for (uint32_t k = 0; k < step->n_reads; k++) inputs[k] = run->at[step->reads[k]];
    ref_call call = {g, step->node, inputs, &run->at[step->writes[0]]};
    ref_view view = ref_update_view(&call);
    begin_with_operand(run, step);
    cpu_copy_view(run->device, &view, run->at[step->writes[0]], inputs[1],
                  shoal_dtype_size((shoal_dtype)g->values[step->reads[0]].type.dtype));
    if (inputs != few) free(inputs);
    return SHOAL_OK;
}

shoal_status cpu_scatter_run(const cpu_run *run, const cpu_step *step) {
    const cpu_indexing *s = step->u.indexing;
    const void *inputs[] = {run->at[step->reads[0]], run->at[step->reads[1]],
                            run->at[step->reads[2]]};
    job j = {s, {run->program->g, step->node, inputs, NULL}, run->at[step->writes[0]], inputs[2]};
    begin_with_operand(run, step);
    int64_t runs = s->places * s->runs, grain = runs ? 1 + GRAIN / runs : 1;
    if (runs && s->run)
        cpu_parallel(run->device, s->run, grain < LEAST_RUN ? LEAST_RUN : grain, scatter_range, &j);
    return SHOAL_OK;
}
