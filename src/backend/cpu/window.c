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

static void split(int64_t number, uint32_t n, const int64_t *sizes, int64_t *index) {
    for (uint32_t i = n; i-- > 0; number /= sizes[i]) index[i] = number % sizes[i];
}

/* The operand's index at `place` of an axis, `inside` the window; -1: there is none. */
static int64_t index_of(const cpu_window_axis *a, int64_t place, int64_t inside) {
    int64_t at = place * a->stride + inside * a->gap - a->before;
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
    *w = (cpu_windows){.join = cpu_find_map(kernels, graph_body_op(node->regions[0]), out->dtype),
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

/* Joins n places from `first` on along the last axis with what lies there for one element. */
static void join_line(const job *j, int64_t first, int64_t n, int64_t inside, const char *from,
                      char *to) {
    const cpu_windows *w = j->w;
    const cpu_window_axis *a = &w->axis[w->rank - 1];
    _Alignas(CPU_ALIGN) char line[LINE * 8];
    int64_t start = first * a->stride + inside * a->gap - a->before;
    if (a->stride == 1 && a->base == 1 && start >= 0 && start + n <= a->in) {
        w->join(to, (const void *const[]){to, from + (size_t)start * w->bytes}, n, 0, NULL);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index_of(a, first + i, inside);
        copy_element(line + (size_t)i * w->bytes,
                     at < 0 ? j->initial : from + (size_t)at * w->bytes, w->bytes);
    }
    w->join(to, (const void *const[]){to, line}, n, 0, NULL);
}

/* Elements [first, first + n) of a line, n <= LINE. */
static void reduce_line(const job *j, const int64_t *place, int64_t first, int64_t n, char *to) {
    const cpu_windows *w = j->w;
    int64_t sizes[SHOAL_MAX_RANK], inside[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < w->rank; i++) sizes[i] = w->axis[i].window;
    for (int64_t i = 0; i < n; i++) copy_element(to + (size_t)i * w->bytes, j->initial, w->bytes);
    for (int64_t e = 0; e < w->elements; e++) {
        split(e, w->rank, sizes, inside);
        int64_t offset = offset_of(w, w->outer, place, inside);
        const char *from = j->in + (size_t)(offset < 0 ? 0 : offset) * w->bytes;
        if (offset < 0)
            w->join(to, (const void *const[]){to, j->initial}, n, 2, NULL);
        else if (w->in_line)
            join_line(j, first, n, inside[w->rank - 1], from, to);
        else
            w->join(to, (const void *const[]){to, from + (size_t)first * w->bytes}, n, 0, NULL);
    }
}

static void reduce_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_windows *w = j->w;
    int64_t sizes[SHOAL_MAX_RANK], place[SHOAL_MAX_RANK];
    for (uint32_t i = 0; i < w->outer; i++) sizes[i] = w->axis[i].out;
    for (; begin < end; begin++) {
        split(begin, w->outer, sizes, place);
        for (int64_t at = 0; at < w->line; at += LINE)
            reduce_line(j, place, at, w->line - at < LINE ? w->line - at : LINE,
                        j->out + (size_t)(begin * w->line + at) * w->bytes);
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

typedef enum order { GREATEST_FIRST, GREATEST_LAST, LEAST_FIRST, LEAST_LAST, NO_ORDER } order;

/* Which element a body selects that is one comparison of its two arguments. */
static order order_of(const shoal_graph *body) {
    static const char directions[4][3] = {"GE", "GT", "LE", "LT"};
    const shoal_node *node = &body->nodes[0];
    if (body->n_nodes != 1 || node->op != GRAPH_COMPARE || body->outputs[0] != node->first_output ||
        node->inputs[0] != body->inputs[0] || node->inputs[1] != body->inputs[1])
        return NO_ORDER;
    const char *direction = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    for (int i = 0; i < 4; i++)
        if (!strcmp(direction, directions[i])) return (order)i;
    return NO_ORDER;
}

bool cpu_scatter_windows_fits(const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_SELECT_AND_SCATTER) return false;
    uint8_t dtype = g->values[node->first_output].type.dtype;
    return (dtype == SHOAL_F32 || dtype == SHOAL_F64) && order_of(node->regions[0]) != NO_ORDER &&
           graph_body_op(node->regions[1]) == GRAPH_ADD;
}

shoal_status cpu_scatter_windows_prepare(cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    cpu_windows *w = step->u.windows = base_arena_alloc(&p->arena, sizeof *w);
    if (!w) return SHOAL_NO_MEMORY;
    *w = (cpu_windows){.bytes = shoal_dtype_size((shoal_dtype)in->dtype),
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

/* The offsets of a window's elements, in order; returns how many there are. */
static int64_t list_window(const cpu_windows *w, const int64_t *place, const int64_t *sizes,
                           int64_t element, int64_t *at) {
    int64_t inside[SHOAL_MAX_RANK];
    split(element, w->rank, sizes, inside);
    *at = offset_of(w, w->rank, place, inside);
    return *at >= 0;
}

#define SCATTER(name, type)                                                                        \
    static bool keeps_##name(uint8_t how, type best, type x) {                                     \
        return how == GREATEST_FIRST  ? best >= x                                                  \
               : how == GREATEST_LAST ? best > x                                                   \
               : how == LEAST_FIRST   ? best <= x                                                  \
                                      : best < x;                                                    \
    }                                                                                              \
    static void scatter_##name(const scatter_job *j, const int64_t *place, const int64_t *sizes,   \
                               int64_t number) {                                                   \
        const cpu_windows *w = j->w;                                                               \
        const type *in = (const type *)j->in;                                                      \
        int64_t best = -1, at;                                                                     \
        for (int64_t e = 0; e < w->elements; e++)                                                  \
            if (list_window(w, place, sizes, e, &at) &&                                            \
                (best < 0 || !keeps_##name(w->order, in[best], in[at])))                           \
                best = at;                                                                         \
        if (best >= 0) ((type *)j->out)[best] += ((const type *)j->source)[number];                \
    }
SCATTER(f32, float)
SCATTER(f64, double)

static void scatter_range(void *context, uint32_t part, int64_t begin, int64_t end) {
    const scatter_job *j = context;
    const cpu_windows *w = j->w;
    int64_t sizes[SHOAL_MAX_RANK], out[SHOAL_MAX_RANK], place[SHOAL_MAX_RANK], each = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        sizes[i] = w->axis[i].window;
        out[i] = w->axis[i].out;
        if (i >= w->apart) each *= w->axis[i].in;
    }
    for (int64_t i = begin * each; i < end * each; i++)
        copy_element(j->out + (size_t)i * w->bytes, j->initial, w->bytes);
    for (int64_t number = begin * j->places; number < end * j->places; number++) {
        split(number, w->rank, out, place);
        if (w->bytes == sizeof(float))
            scatter_f32(j, place, sizes, number);
        else
            scatter_f64(j, place, sizes, number);
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
