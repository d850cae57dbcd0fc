/* in_range, gather, scatter and dynamic_update_slice. Of gather and scatter: boxes taken from, or
 * joined to, places that are read from a tensor. Where boxes begin is listed for some places at a
 * time, then the same elements of all these boxes are moved. A scatter is divided over threads
 * along an axis of boxes, or one that is also the operand's, so that every element is joined by one
 * thread, in the order in which updates lie. */
#include "backend/cpu/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { GRAIN = 1 << 15, LEAST_RUN = 16, LISTED = 4096, FEW_LISTED = 512, STREAMED = 8 << 20 };

static bool names(const shoal_attr *list, int64_t axis) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->u.ints[i] == axis) return true;
    return false;
}

static ref_indexing indexing_of(const shoal_graph *g, const shoal_node *node) {
    const ref_call call = {.graph = g, .node = node};
    return node->op == GRAPH_GATHER ? ref_gather_of(&call) : ref_scatter_of(&call);
}

/* ---- preparing ---- */

/* Whether a body gives its second operand: what is there is overwritten. */
static bool overwrites(const shoal_graph *body) {
    return body->n_inputs == 2 && body->n_outputs == 1 && body->outputs[0] == body->inputs[1];
}

/* Scatters of one tensor whose boxes are one element long along the axes that indices choose: then
 * updates of an element come place by place, and boxes lie inside or outside as a whole. */
static bool scatter_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    if (node->n_inputs != 3) return false;
    ref_indexing x = indexing_of(g, node);
    for (uint32_t i = 0; i < x.map->count; i++)
        if (!names(x.dropped, x.map->u.ints[i])) return false;
    uint16_t op = graph_body_op(node->regions[0]);
    return overwrites(node->regions[0]) ||
           (op < GRAPH_OP_BUILT_IN && cpu_find_map(kernels, op, x.operand->dtype));
}

uint32_t cpu_index_views(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    bool gathers = node->op == GRAPH_GATHER;
    if (!gathers && (node->op != GRAPH_SCATTER || !scatter_fits(kernels, g, node))) return 0;
    /* Elements of a box had better be side by side. */
    bool single = !indexing_of(g, node).window->count;
    return 1 << 1 | (single ? gathers ? 1 << 0 : 1 << 2 : 0);
}

/* Adds an axis, unless it is of one element or goes on where the one before it ends; `first` is the
 * first of its kind. */
static void add_axis(cpu_indexing *s, uint32_t first, cpu_index_axis axis) {
    cpu_index_axis *last = s->rank > first ? &s->axis[s->rank - 1] : NULL;
    s->count *= axis.size;
    if (axis.size == 1) return;
    if (!last || last->result != axis.size * axis.result || last->index != axis.size * axis.index ||
        last->operand != axis.size * axis.operand) {
        s->axis[s->rank++] = axis;
        return;
    }
    axis.size *= last->size;
    *last = axis;
}

/* The axes that say which place it is. Strides are those of the result, indices and operand. */
static void add_places(cpu_indexing *s, const ref_indexing *x, const int64_t *result,
                       const int64_t *indices, const int64_t *operand) {
    uint32_t axis = 0;
    for (uint32_t i = 0; i < x->result->rank; i++) {
        if (names(x->window, i)) continue;
        axis += axis == x->vector;
        cpu_index_axis place = {x->result->dims[i], result[i], indices[axis], 0};
        for (uint32_t k = 0; k < x->index_batching->count; k++)
            if (x->index_batching->u.ints[k] == axis)
                place.operand = operand[x->operand_batching->u.ints[k]];
        add_axis(s, 0, place);
        axis++;
    }
    if (!s->rank) s->axis[s->rank++] = (cpu_index_axis){1, 0, 0, 0};
    s->places = s->rank;
}

/* The box's axes, the last of which is the run. */
static void add_box(cpu_indexing *s, const ref_indexing *x, const int64_t *result,
                    const int64_t *operand) {
    uint32_t axis = 0;
    for (uint32_t i = 0; i < x->operand->rank; i++) {
        if (names(x->dropped, i) || names(x->operand_batching, i)) continue;
        int64_t from = x->window->u.ints[axis++];
        add_axis(s, s->places,
                 (cpu_index_axis){x->result->dims[from], result[from], 0, operand[i]});
    }
    const cpu_index_axis *last = &s->axis[s->rank - 1];
    if (s->rank == s->places || last->result != 1 || last->operand != 1)
        s->axis[s->rank++] = (cpu_index_axis){1, 1, 0, 1};
}

/* Threads share the longest axis; those of a scatter one along which places in the operand differ,
 * whatever indices say. Parts of runs are at least LEAST_RUN long. */
static void choose_cut(cpu_indexing *s, bool gathers) {
    s->cut = s->rank - 1;
    int64_t most = s->axis[s->cut].size / LEAST_RUN;
    for (uint32_t i = 0; i + 1 < s->rank; i++) {
        const cpu_index_axis *axis = &s->axis[i];
        bool apart = gathers || i >= s->places || axis->operand;
        bool outer = axis->size == most && axis->result > s->axis[s->cut].result;
        if (!apart || (axis->size <= most && !outer)) continue;
        s->cut = i;
        most = axis->size;
    }
}

/* The kernels that move elements. */
static void choose_kernels(cpu_indexing *s, const cpu_kernels *kernels, const shoal_node *node,
                           uint8_t dtype, uint8_t index_dtype) {
    const cpu_pools *pools = kernels->pools;
    s->bytes = shoal_dtype_size((shoal_dtype)dtype);
    s->index_bytes = shoal_dtype_size((shoal_dtype)index_dtype);
    s->list = (node->op == GRAPH_GATHER ? pools->clamp : pools->drop)[index_dtype];
    if (node->op == GRAPH_GATHER) {
        s->take = pools->take[s->bytes];
    } else if (overwrites(node->regions[0])) {
        s->put = pools->put[s->bytes];
    } else {
        uint16_t op = graph_body_op(node->regions[0]);
        s->join = cpu_find_map(kernels, op, dtype);
        s->put = op == GRAPH_ADD ? pools->add[dtype] : NULL;
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
    if (!cpu_index_views(kernels, p->g, node)) return false;
    cpu_indexing *s = step->u.indexing = base_arena_alloc(&p->arena, sizeof *s);
    *status = s ? SHOAL_OK : SHOAL_NO_MEMORY;
    if (!s) return true;
    *s = (cpu_indexing){.count = 1};
    ref_indexing x = indexing_of(p->g, node);
    const ref_view result = cpu_view_of(p, gathers ? node->first_output : node->inputs[2]);
    const ref_view indices = cpu_view_of(p, node->inputs[1]);
    const ref_view operand = cpu_view_of(p, node->inputs[0]);
    /* An index vector's axis that is not there is behind the last one. */
    int64_t index_strides[SHOAL_MAX_RANK + 1] = {0};
    memcpy(index_strides, indices.from, sizeof indices.from);
    choose_kernels(s, kernels, node, x.operand->dtype, x.indices->dtype);
    add_places(s, &x, result.from, index_strides, operand.from);
    add_box(s, &x, result.from, operand.from);
    choose_cut(s, gathers);
    const cpu_index_axis *first = &s->axis[0];
    int64_t all = base_type_count(x.operand);
    s->by_rows = !gathers && s->count && !s->cut && first->operand * first->size == all;
    if (s->by_rows) s->count += all;
    s->streamed = s->count * (int64_t)s->bytes >= STREAMED && s->axis[s->places - 1].result == 1;
    s->index_step = x.vector < x.indices->rank ? index_strides[x.vector] : 0;
    for (uint32_t i = 0; i < x.map->count; i++) {
        int64_t axis = x.map->u.ints[i];
        int64_t size = gathers ? shoal_node_attr(node, SHOAL_ATTR_SLICE_SIZES)->u.ints[axis] : 1;
        s->chosen[s->n_chosen++] = (cpu_chosen){operand.from[axis], x.operand->dims[axis] - size};
    }
    step->run = gathers ? cpu_gather_run : cpu_scatter_run;
    return true;
}

/* ---- running ---- */

typedef struct job {
    const cpu_indexing *s;
    const char *indices;
    char *to;         /* of a gather: the result; of a scatter: what is joined to */
    const char *from; /* of a gather: the operand; of a scatter: updates */
    const char *rows; /* by rows, and not in place: the operand */
    const cpu_kernels *kernels;
} job;

/* A thread's part of it, with its own axes. */
typedef struct piece {
    cpu_indexing s;
    job j;
    int64_t n, list[LISTED]; /* the places that are listed: how many, where their boxes begin */
} piece;

/* Elements side by side that are no longer in the caches by the time that someone reads them. */
static void take_streamed(const piece *p, const char *from, char *to) {
    char some[FEW_LISTED * 8];
    for (int64_t at = 0, n; at < p->n; at += n) {
        n = p->n - at < FEW_LISTED ? p->n - at : FEW_LISTED;
        p->s.take(n, from, p->list + at, 1, some);
        p->j.kernels->stream(to + at * (int64_t)p->s.bytes, some, (size_t)n * p->s.bytes);
    }
}

/* The listed boxes' runs that begin `result` and `operand` elements behind. */
static void move_runs(const piece *p, int64_t result, int64_t operand) {
    const cpu_indexing *s = &p->s;
    int64_t step = s->axis[s->places - 1].result, run = s->axis[s->rank - 1].size;
    size_t bytes = s->bytes, run_bytes = (size_t)run * bytes;
    bool gathers = s->take;
    char *to = p->j.to + (gathers ? result : operand) * (int64_t)bytes;
    const char *from = p->j.from + (gathers ? operand : result) * (int64_t)bytes;
    if (run == 1 && s->streamed && gathers) {
        take_streamed(p, from, to);
    } else if (run == 1 && gathers) {
        s->take(p->n, from, p->list, step, to);
    } else if (run == 1 && s->put) {
        s->put(p->n, from, step, p->list, to);
    } else if (gathers) {
        for (int64_t i = 0; i < p->n; i++)
            memcpy(to + i * step * (int64_t)bytes, from + p->list[i] * (int64_t)bytes, run_bytes);
    } else {
        for (int64_t i = 0; i < p->n; i++) {
            char *there = to + p->list[i] * (int64_t)bytes;
            const char *update = from + i * step * (int64_t)bytes;
            if (p->list[i] < 0) continue;
            if (s->join)
                s->join(there, (const void *const[]){there, update}, run, 0, NULL);
            else
                memcpy(there, update, run_bytes);
        }
    }
}

static void move_boxes(const piece *p, uint32_t axis, int64_t result, int64_t operand) {
    const cpu_index_axis *a = &p->s.axis[axis];
    if (axis + 1 == p->s.rank) {
        move_runs(p, result, operand);
        return;
    }
    for (int64_t i = 0; i < a->size; i++)
        move_boxes(p, axis + 1, result + i * a->result, operand + i * a->operand);
}

/* Lists p->n places of the last axis of places, from the first one on. */
static void list_places(piece *p, int64_t index) {
    const cpu_indexing *s = &p->s;
    const cpu_index_axis *line = &s->axis[s->places - 1];
    for (int64_t i = 0; i < p->n && !s->n_chosen; i++) p->list[i] = i * line->operand;
    for (uint32_t i = 0; i < s->n_chosen; i++, index += s->index_step)
        s->list(p->n, p->j.indices + index * (int64_t)s->index_bytes, line->index, s->chosen[i],
                line->operand, i > 0, p->list);
}

static void move_places(piece *p, uint32_t axis, int64_t result, int64_t index, int64_t operand) {
    const cpu_index_axis *a = &p->s.axis[axis];
    bool lists = axis + 1 == p->s.places;
    /* A list that is used once had better stay in the first cache; for boxes, a longer one means
     * that they are gone through less often. */
    int64_t most = p->s.rank > p->s.places + 1 ? LISTED : FEW_LISTED;
    for (int64_t i = 0, n; i < a->size; i += n) {
        int64_t at[] = {result + i * a->result, index + i * a->index, operand + i * a->operand};
        n = !lists ? 1 : a->size - i < most ? a->size - i : most;
        if (p->j.rows && !axis)
            memcpy(p->j.to + at[2] * (int64_t)p->s.bytes, p->j.rows + at[2] * (int64_t)p->s.bytes,
                   (size_t)(n * a->operand) * p->s.bytes);
        p->n = n;
        if (lists) list_places(p, at[1]);
        if (lists)
            move_boxes(p, axis + 1, at[0], at[2]);
        else
            move_places(p, axis + 1, at[0], at[1], at[2]);
    }
}

static void move_part(void *context, uint32_t number, int64_t begin, int64_t end) {
    const job *all = context;
    piece p; /* not cleared: the list is long */
    p.s = *all->s;
    cpu_index_axis *a = &p.s.axis[p.s.cut];
    bool gathers = p.s.take;
    a->size = end - begin;
    p.j = *all;
    p.j.indices = all->indices + begin * a->index * (int64_t)p.s.index_bytes;
    p.j.to = all->to + begin * (gathers ? a->result : a->operand) * (int64_t)p.s.bytes;
    p.j.from = all->from + begin * (gathers ? a->operand : a->result) * (int64_t)p.s.bytes;
    if (all->rows) p.j.rows = all->rows + begin * a->operand * (int64_t)p.s.bytes;
    move_places(&p, 0, 0, 0, 0);
    if (p.s.streamed) all->kernels->fence();
}

static void run_indexing(const cpu_run *run, const cpu_step *step, const void *from,
                         const void *rows) {
    const cpu_indexing *s = step->u.indexing;
    job j = {s,    run->at[step->reads[1]], run->at[step->writes[0]], from,
             rows, run->device->kernels};
    int64_t size = s->axis[s->cut].size, grain = s->count ? 1 + GRAIN * size / s->count : 1;
    if (s->cut + 1 == s->rank && grain < LEAST_RUN) grain = LEAST_RUN;
    if (s->count) cpu_parallel(run->device, size, grain, move_part, &j);
}

typedef struct check {
    const cpu_run *run;
    const cpu_step *step;
    atomic_bool fails;
} check;

static void check_part(void *context, uint32_t part, int64_t begin, int64_t end) {
    check *c = context;
    const shoal_node *node = c->step->node;
    const shoal_attr *ignored = shoal_node_attr(node, SHOAL_ATTR_IGNORE_INDEX);
    uint8_t dtype = c->run->program->g->values[node->inputs[0]].type.dtype;
    const char *indices = c->run->at[node->inputs[0]];
    if (!c->run->device->kernels->pools->inside[dtype](
            end - begin, indices + begin * (int64_t)shoal_dtype_size((shoal_dtype)dtype),
            *shoal_node_attr(node, SHOAL_ATTR_START_INDICES)->u.ints,
            *shoal_node_attr(node, SHOAL_ATTR_LIMIT_INDICES)->u.ints,
            ignored ? &ignored->u.i : NULL))
        atomic_store_explicit(&c->fails, true, memory_order_relaxed);
}

shoal_status cpu_in_range_run(const cpu_run *run, const cpu_step *step) {
    const shoal_node *node = step->node;
    const void *inputs[] = {run->at[node->inputs[0]]};
    check c = {.run = run, .step = step};
    cpu_parallel(run->device, base_type_count(&run->program->g->values[node->inputs[0]].type),
                 GRAIN, check_part, &c);
    /* The pool's end orders what its threads wrote. The reference says which index it is. */
    if (!atomic_load_explicit(&c.fails, memory_order_relaxed)) return SHOAL_OK;
    ref_call call = {run->program->g, node, inputs, &run->at[node->first_output]};
    return ref_in_range(&call);
}

shoal_status cpu_gather_run(const cpu_run *run, const cpu_step *step) {
    run_indexing(run, step, run->at[step->reads[0]], NULL);
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
    const void *operand = run->at[step->reads[0]];
    bool by_rows = step->u.indexing->by_rows && operand != run->at[step->writes[0]];
    if (!by_rows) begin_with_operand(run, step);
    run_indexing(run, step, run->at[step->reads[2]], by_rows ? operand : NULL);
    return SHOAL_OK;
}
