/* Windows: reduce_window with a body of one operation, line by line, and select_and_scatter of
 * floating-point numbers, as gradients of pooling have it. Elements are joined in the reference's
 * order, so that the bits are the same.
 *
 * A line is what lies one after another in the result: trailing axes without a window, or else the
 * last axis. */
#include "backend/cpu/cpu.h"

enum { GRAIN = 1 << 14, LINE = 1024 };

static bool is_plain(const cpu_window_axis *a) {
    return a->window == 1 && a->stride == 1 && a->base == 1 && !a->before && a->in == a->out;
}

static void set_axes(cpu_windows *w, const shoal_node *node, const shoal_type *in,
                     const shoal_type *out) {
    const shoal_attr *base = shoal_node_attr(node, SHOAL_ATTR_BASE_DILATIONS);
    const shoal_attr *gaps = shoal_node_attr(node, SHOAL_ATTR_WINDOW_DILATIONS);
    int64_t strides[SHOAL_MAX_RANK];
    ref_strides(in, strides);
    w->rank = in->rank;
    w->line = 1;
    for (uint32_t i = 0; i < in->rank; i++)
        w->axis[i] = (cpu_window_axis){
            .in = in->dims[i],
            .out = out->dims[i],
            .in_step = strides[i],
            .window = shoal_node_attr(node, SHOAL_ATTR_WINDOW_DIMENSIONS)->u.ints[i],
            .stride = shoal_node_attr(node, SHOAL_ATTR_WINDOW_STRIDES)->u.ints[i],
            .before = shoal_node_attr(node, SHOAL_ATTR_PADDING)->u.ints[2 * i],
            .base = base ? base->u.ints[i] : 1,
            .gap = gaps ? gaps->u.ints[i] : 1};
    w->outer = w->rank;
    while (w->outer && is_plain(&w->axis[w->outer - 1])) w->line *= w->axis[--w->outer].out;
    if (w->outer == w->rank && w->outer) {
        w->in_line = true;
        w->line = w->axis[--w->outer].out;
    }
    w->lines = 1;
    w->elements = 1;
    for (uint32_t i = 0; i < w->outer; i++) w->lines *= w->axis[i].out;
    for (uint32_t i = 0; i < w->rank; i++) w->elements *= w->axis[i].window;
}

/* The operand's index at `place` of an axis, `inside` the window; -1: there is none. */
static int64_t index_of(const cpu_window_axis *a, int64_t place, int64_t inside) {
    int64_t at = place * a->stride + inside * a->gap - a->before;
    if (a->base == 1) return at < 0 || at >= a->in ? -1 : at;
    return at < 0 || at % a->base || at / a->base >= a->in ? -1 : at / a->base;
}

static int64_t offset_of(const cpu_windows *w, uint32_t n, const int64_t *place,
                         const int64_t *inside) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t at = index_of(&w->axis[i], place[i], inside[i]);
        if (at < 0) return -1;
        offset += at * w->axis[i].in_step;
    }
    return offset;
}

/* Of n places from `first` on, the first and the end of those where element `inside` of the window
 * exists, along an axis that is not dilated. */
static void find_places(const cpu_window_axis *a, int64_t first, int64_t n, int64_t inside,
                        int64_t *begin, int64_t *end) {
    int64_t start = first * a->stride + inside * a->gap - a->before;
    *begin = start < 0 ? (-start + a->stride - 1) / a->stride : 0;
    *end = start < a->in ? (a->in - 1 - start) / a->stride + 1 : 0;
    if (*end > n) *end = n;
    if (*begin > *end) *begin = *end;
}

/* ---- reduce_window ---- */

bool cpu_windows_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_REDUCE_WINDOW || node->n_outputs != 1) return false;
    uint16_t op = graph_body_op(node->regions[0]);
    return op < GRAPH_OP_BUILT_IN &&
           cpu_find_map(kernels, op, g->values[node->first_output].type.dtype);
}

shoal_status cpu_windows_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    const shoal_type *out = &p->g->values[node->first_output].type;
    cpu_windows *w = step->u.windows = base_arena_alloc(&p->arena, sizeof *w);
    if (!w) return SHOAL_NO_MEMORY;
    *w = (cpu_windows){.pools = kernels->pools,
                       .join = cpu_find_map(kernels, graph_body_op(node->regions[0]), out->dtype),
                       .bytes = shoal_dtype_size((shoal_dtype)out->dtype)};
    set_axes(w, node, &p->g->values[node->inputs[0]].type, out);
    step->run = cpu_windows_run;
    return SHOAL_OK;
}

typedef struct job {
    const cpu_windows *w;
    const char *in, *initial;
    char *out;
} job;

static void copy_element(char *to, const char *from, size_t bytes) {
    switch (bytes) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    default: memcpy(to, from, 8); break;
    }
}

static void fill(const cpu_windows *w, char *to, const char *from, int64_t n) {
    static const char zeros[8];
    if (!memcmp(from, zeros, w->bytes)) {
        memset(to, 0, (size_t)n * w->bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) copy_element(to + (size_t)i * w->bytes, from, w->bytes);
}

/* What lies at n places from `first` on along the last axis, for one element of the window. */
static void take_line(const job *j, int64_t first, int64_t n, int64_t inside, const char *from,
                      char *to) {
    const cpu_windows *w = j->w;
    const cpu_window_axis *a = &w->axis[w->rank - 1];
    int64_t start = first * a->stride + inside * a->gap - a->before, begin, end;
    if (a->base == 1) {
        find_places(a, first, n, inside, &begin, &end);
        fill(w, to, j->initial, begin);
        if (begin < end)
            w->pools->pick[w->bytes](end - begin,
                                     from + (start + begin * a->stride) * (int64_t)w->bytes,
                                     a->stride, to + (size_t)begin * w->bytes);
        fill(w, to + (size_t)end * w->bytes, j->initial, n - end);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index_of(a, first + i, inside);
        copy_element(to + (size_t)i * w->bytes, at < 0 ? j->initial : from + (size_t)at * w->bytes,
                     w->bytes);
    }
}

/* Elements [first, first + n) of a line, n <= LINE; or `lines` whole lines, one after the other
 * along the axis before, n <= LINE elements together. */
static void reduce_lines(const job *j, int64_t *place, int64_t lines, int64_t first, int64_t n,
                         char *to) {
    const cpu_windows *w = j->w;
    int64_t sizes[SHOAL_MAX_RANK], inside[SHOAL_MAX_RANK], each = n / lines, row = 0;
    _Alignas(CPU_ALIGN) char taken[LINE * 8];
    for (uint32_t i = 0; i < w->rank; i++) sizes[i] = w->axis[i].window;
    if (w->outer) row = place[w->outer - 1];
    fill(w, to, j->initial, n);
    for (int64_t e = 0; e < w->elements; e++) {
        const char *more = taken;
        cpu_split(e, w->rank, sizes, inside);
        for (int64_t l = 0; l < lines; l++) {
            if (w->outer) place[w->outer - 1] = row + l;
            char *here = taken + (size_t)(l * each) * w->bytes;
            int64_t offset = offset_of(w, w->outer, place, inside);
            const char *from = j->in + (size_t)(offset < 0 ? 0 : offset) * w->bytes;
            if (offset < 0)
                fill(w, here, j->initial, each);
            else if (w->in_line)
                take_line(j, first, each, inside[w->rank - 1], from, here);
            else if (lines == 1)
                more = from + (size_t)first * w->bytes;
            else
                memcpy(here, from, (size_t)each * w->bytes);
        }
        w->join(to, (const void *const[]){to, more}, n, 0, NULL);
    }
    if (w->outer) place[w->outer - 1] = row;
}

static void reduce_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_windows *w = j->w;
    int64_t sizes[SHOAL_MAX_RANK], place[SHOAL_MAX_RANK], some = LINE / w->line;
    for (uint32_t i = 0; i < w->outer; i++) sizes[i] = w->axis[i].out;
    for (int64_t lines; begin < end; begin += lines) {
        cpu_split(begin, w->outer, sizes, place);
        char *to = j->out + (size_t)(begin * w->line) * w->bytes;
        lines = 1;
        if (some > 1 && w->outer) {
            lines = sizes[w->outer - 1] - place[w->outer - 1];
            if (lines > some) lines = some;
            if (lines > end - begin) lines = end - begin;
        }
        for (int64_t at = 0, n; at < w->line; at += n) {
            n = w->line - at < LINE ? w->line - at : LINE;
            reduce_lines(j, place, lines, at, n * lines, to + (size_t)at * w->bytes);
        }
    }
}

shoal_status cpu_windows_run(const cpu_run *run, const cpu_step *step) {
    const cpu_windows *w = step->u.windows;
    const shoal_node *node = step->node;
    job j = {w, run->at[node->inputs[0]], run->at[node->inputs[1]], run->at[node->first_output]};
    if (w->line && w->lines)
        cpu_parallel(run->device, w->lines, 1 + GRAIN / (w->line * w->elements), reduce_range, &j);
    return SHOAL_OK;
}

/* ---- select_and_scatter ---- */

/* Which element a body selects that is one comparison of its two arguments; CPU_CHOICES: another.
 */
static int order_of(const shoal_graph *body) {
    static const char directions[4][3] = {"GE", "GT", "LE", "LT"};
    const shoal_node *node = &body->nodes[0];
    if (body->n_nodes != 1 || node->op != GRAPH_COMPARE || body->outputs[0] != node->first_output ||
        node->inputs[0] != body->inputs[0] || node->inputs[1] != body->inputs[1])
        return CPU_CHOICES;
    const char *direction = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    for (int i = 0; i < 4; i++)
        if (!strcmp(direction, directions[i])) return i; /* CPU_GE and so on */
    return CPU_CHOICES;
}

bool cpu_scatter_windows_fits(const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_SELECT_AND_SCATTER) return false;
    const shoal_type *type = &g->values[node->first_output].type;
    return (type->dtype == SHOAL_F32 || type->dtype == SHOAL_F64) && type->rank &&
           base_type_count(type) <= INT32_MAX && order_of(node->regions[0]) != CPU_CHOICES &&
           graph_body_op(node->regions[1]) == GRAPH_ADD;
}

shoal_status cpu_scatter_windows_prepare(const cpu_kernels *kernels, cpu_program *p,
                                         cpu_step *step) {
    const shoal_node *node = step->node;
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    cpu_windows *w = step->u.windows = base_arena_alloc(&p->arena, sizeof *w);
    if (!w) return SHOAL_NO_MEMORY;
    *w = (cpu_windows){.pools = kernels->pools,
                       .bytes = shoal_dtype_size((shoal_dtype)in->dtype),
                       .order = (uint8_t)order_of(node->regions[0])};
    set_axes(w, node, in, &p->g->values[node->inputs[1]].type);
    /* Leading axes without a window are divided over threads: nothing of one falls into another. */
    for (w->apart = 0, w->lines = 1; w->apart < w->rank && is_plain(&w->axis[w->apart]); w->apart++)
        w->lines *= w->axis[w->apart].in;
    step->run = cpu_scatter_windows_run;
    return SHOAL_OK;
}

typedef struct scatter_job {
    const cpu_windows *w;
    const char *in, *source, *initial;
    char *out;
    int64_t places; /* of one item */
} scatter_job;

/* The elements that are selected at n <= LINE places from place[last] on along the last axis: -1
 * where there is none. */
static void select_line(const scatter_job *j, const int64_t *place, int64_t n, int32_t *at) {
    const cpu_windows *w = j->w;
    uint32_t last = w->rank - 1;
    const cpu_window_axis *a = &w->axis[last];
    int64_t sizes[SHOAL_MAX_RANK], inside[SHOAL_MAX_RANK], begin, end;
    _Alignas(CPU_ALIGN) char best[LINE * 8];
    for (uint32_t i = 0; i < last; i++) sizes[i] = w->axis[i].window;
    for (int64_t i = 0; i < n; i++) at[i] = -1;
    memset(best, 0, (size_t)n * w->bytes);
    for (int64_t line = 0; line < w->elements / a->window; line++) {
        cpu_split(line, last, sizes, inside);
        int64_t offset = offset_of(w, last, place, inside);
        if (offset < 0) continue;
        for (int64_t e = 0; e < a->window; e++) {
            find_places(a, place[last], n, e, &begin, &end);
            int64_t from = offset + (place[last] + begin) * a->stride + e - a->before;
            if (begin < end)
                w->pools->choose[w->bytes == 8][w->order](
                    end - begin, j->in + (size_t)from * w->bytes, a->stride, (int32_t)from,
                    best + (size_t)begin * w->bytes, at + begin);
        }
    }
}

static void add_line(const scatter_job *j, int64_t n, const int32_t *at, const char *source) {
    for (int64_t i = 0; i < n; i++) {
        if (at[i] < 0) continue;
        if (j->w->bytes == sizeof(float))
            ((float *)(void *)j->out)[at[i]] += ((const float *)(const void *)source)[i];
        else
            ((double *)(void *)j->out)[at[i]] += ((const double *)(const void *)source)[i];
    }
}

static void scatter_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const scatter_job *j = context;
    const cpu_windows *w = j->w;
    int64_t out[SHOAL_MAX_RANK], place[SHOAL_MAX_RANK], each = 1, n;
    int32_t at[LINE];
    for (uint32_t i = 0; i < w->rank; i++) {
        out[i] = w->axis[i].out;
        if (i >= w->apart) each *= w->axis[i].in;
    }
    fill(w, j->out + (size_t)(begin * each) * w->bytes, j->initial, (end - begin) * each);
    for (int64_t number = begin * j->places; number < end * j->places; number += n) {
        cpu_split(number, w->rank, out, place);
        n = out[w->rank - 1] - place[w->rank - 1];
        if (n > LINE) n = LINE;
        if (n > end * j->places - number) n = end * j->places - number;
        select_line(j, place, n, at);
        add_line(j, n, at, j->source + (size_t)number * w->bytes);
    }
}

shoal_status cpu_scatter_windows_run(const cpu_run *run, const cpu_step *step) {
    const cpu_windows *w = step->u.windows;
    const shoal_node *node = step->node;
    scatter_job j = {.w = w,
                     .in = run->at[node->inputs[0]],
                     .source = run->at[node->inputs[1]],
                     .initial = run->at[node->inputs[2]],
                     .out = run->at[node->first_output],
                     .places = 1};
    int64_t each = 1;
    for (uint32_t i = w->apart; i < w->rank; i++) {
        j.places *= w->axis[i].out;
        each *= w->axis[i].in;
    }
    if (w->lines)
        cpu_parallel(run->device, w->lines, 1 + GRAIN / (1 + each + j.places * w->elements),
                     scatter_range, &j);
    return SHOAL_OK;
}
