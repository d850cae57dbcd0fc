/* Convolutions of f32, f64 and, by way of f32, of 16-bit numbers: how they are divided, and the
 * lists of offsets that find the elements of windows. convolve_run.c does the work. */
#include "backend/cpu/cpu.h"

enum {
    BOX = 384 << 10,      /* bytes of a box, about: it stays in the second cache */
    DEPTH = 2048,         /* bytes of k at a time */
    LISTED = 8192,        /* elements of windows of a chunk, as each is listed */
    PLACES = 1024,        /* of an item at most, about, */
    ITEMS = 64,           /* and items, so that many threads have something to do, */
    WORK = 1 << 21,       /* each with so many products at least */
    PARTS = 16,           /* of the sums at most */
    FEW = 4,              /* features for which packing does not pay, */
    FEW_PLACES = 64,      /* and places of which each is better summed alone */
    BLOCK_PANELS = 14,    /* row panels of a block of weights at most */
    PANELS = 8,           /* panels that are multiplied with one block after the other */
    LARGE_BOX = 16 << 20, /* bytes that a box may have in any case */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The size that makes as few parts as `most` does, and equal ones. */
static int64_t evenly(int64_t count, int64_t most) {
    return divide_up(count, divide_up(count, larger(1, most)));
}

static ref_windows windows_of(const shoal_graph *g, const shoal_node *node) {
    ref_windows w = ref_windows_of(g, node);
    if (!w.spatial)
        w.axis[w.spatial++] = (ref_windows_axis){
            .in = 1, .window = 1, .out = 1, .stride = 1, .in_gap = 1, .window_gap = 1};
    return w;
}

/* What `out` places and `window` elements of the window reach along an axis. */
static int64_t reach(const ref_windows_axis *a, int64_t out, int64_t window) {
    return (out - 1) * a->stride + (window - 1) * a->window_gap + 1;
}

static bool is_empty(const ref_windows *w) {
    bool empty = !w->batch || !w->features || !w->channels;
    for (uint32_t i = 0; i < w->spatial; i++) empty |= !w->axis[i].out || !w->axis[i].window;
    return empty;
}

static bool is_half(uint8_t dtype) { return dtype == SHOAL_F16 || dtype == SHOAL_BF16; }

/* Windows with very large gaps would need boxes that are mostly empty. */
bool cpu_convolve_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_CONVOLUTION) return false;
    const shoal_type *lhs = &g->values[node->inputs[0]].type;
    if (lhs->dtype != SHOAL_F32 && lhs->dtype != SHOAL_F64 && !is_half(lhs->dtype)) return false;
    ref_windows w = windows_of(g, node);
    if (is_empty(&w)) return true;
    double least = sizeof(double);
    for (uint32_t i = 1; i < w.spatial; i++) {
        const ref_windows_axis *a = &w.axis[i];
        least *= (double)(a->out - 1) * (double)a->stride +
                 (double)(a->window - 1) * (double)a->window_gap + 1;
    }
    return least <= LARGE_BOX || least <= 8 * (double)base_type_bytes(lhs);
}

/* ---- division ---- */

/* A number that no stride or gap makes overflow. */
static double box_bytes(const cpu_convolution *c) {
    const ref_windows *w = c->windows;
    double elements = (double)c->some_batch * (double)c->bytes;
    for (uint32_t i = 0; i < w->spatial; i++) {
        const ref_windows_axis *a = &w->axis[i];
        elements *= (double)((i ? a->out : c->some_first) - 1) * (double)a->stride +
                    (double)((i ? a->window : c->some_window) - 1) * (double)a->window_gap + 1;
    }
    return elements;
}

static void set_how(cpu_convolution *c, int64_t columns) {
    const ref_windows *w = c->windows;
    const ref_windows_axis *last = &w->axis[w->spatial - 1];
    int64_t panel = c->gemm->panel, width = panel / 2;
    int64_t copies = 2 * panel / smaller(last->out, width);
    int64_t turns = 6 * divide_up(last->window, width) * panel / last->window;
    c->how = copies <= turns ? CPU_COPIED : CPU_TURNED;
    if (c->features > FEW) return;
    if (columns <= FEW_PLACES && 2 * last->window >= width)
        c->how = CPU_BY_WINDOW;
    else if (last->out_step == 1)
        c->how = CPU_BY_PLACE;
}

/* Items, chunks and parts, for `columns` places of `k` products each. */
static void divide(cpu_convolution *c, int64_t columns, int64_t k) {
    const ref_windows *w = c->windows;
    const ref_windows_axis *first = &w->axis[0];
    int64_t behind = c->places / first->out, each = k * c->features, work = columns * each;
    bool deep = k > 4 * columns;
    int64_t most = deep ? PLACES : larger(c->groups * columns / ITEMS, divide_up(WORK, each));
    most = smaller(most, PLACES);
    c->some_first = c->places > most ? larger(1, most / behind) : first->out;
    c->some_batch = c->places > most ? 1 : smaller(c->batch, most / c->places);
    int64_t lines = k / w->channels / first->window;
    c->some_window = evenly(first->window, LISTED / lines);
    while (box_bytes(c) > BOX) {
        if (c->some_window > 1 &&
            c->some_window * first->window_gap >= c->some_first * first->stride)
            c->some_window = divide_up(c->some_window, 2);
        else if (c->some_batch > 1)
            c->some_batch = divide_up(c->some_batch, 2);
        else if (c->some_first > 1)
            c->some_first = divide_up(c->some_first, 2);
        else if (c->some_window > 1)
            c->some_window = divide_up(c->some_window, 2);
        else
            break;
    }
    c->some_first = evenly(first->out, c->some_first);
    c->some_batch = evenly(c->batch, c->some_batch);
    c->items = divide_up(first->out, c->some_first) * divide_up(c->batch, c->some_batch);
    int64_t wanted = smaller(ITEMS / (c->groups * c->items), work / c->items / WORK);
    int64_t parts = deep ? larger(1, smaller(wanted, PARTS)) : 1;
    c->some_channels = 1;
    if (c->some_window == first->window) {
        int64_t channels = smaller((int64_t)(BOX / box_bytes(c)), LISTED / (lines * first->window));
        if (c->how == CPU_BY_WINDOW) channels = 1; /* whose weights need not be copied */
        c->some_channels = larger(1, smaller(w->channels, channels));
        c->some_channels =
            evenly(w->channels, smaller(c->some_channels, divide_up(w->channels, parts)));
    }
    if (w->channels < parts)
        c->some_window = smaller(c->some_window, divide_up(first->window * w->channels, parts));
    c->some_window = evenly(first->window, c->some_window);
    if (c->some_window < first->window) c->some_channels = 1;
    c->chunks = divide_up(w->channels, c->some_channels) * divide_up(first->window, c->some_window);
    c->parts = smaller(parts, c->chunks);
}

/* ---- offsets ---- */

static void set_box(cpu_convolution *c) {
    const ref_windows *w = c->windows;
    uint32_t last = w->spatial - 1;
    bool copied = c->how == CPU_COPIED || c->how == CPU_BY_PLACE;
    const ref_windows_axis *a = &w->axis[last];
    c->phases = copied ? (a->out > 1 ? a->stride : 1) : (a->window > 1 ? a->window_gap : 1);
    int64_t step = 1;
    for (uint32_t i = w->spatial; i-- > 0;) {
        int64_t elements = i ? reach(&w->axis[i], w->axis[i].out, w->axis[i].window)
                             : reach(&w->axis[0], c->some_first, c->some_window);
        c->box_steps[i] = step;
        step *= i == last ? divide_up(elements, c->phases) * c->phases : elements;
    }
    c->box_channel = step;
    c->box_batch = step * c->some_channels;
    c->box = c->box_batch * c->some_batch;
}

/* Where element `at` of an axis lies in the box. */
static int64_t in_box(const cpu_convolution *c, uint32_t axis, int64_t at) {
    if (axis < c->windows->spatial - 1) return at * c->box_steps[axis];
    int64_t line = axis ? c->box_steps[axis - 1] : c->box_channel;
    return at % c->phases * (line / c->phases) + at / c->phases;
}

/* Numbers along axes, the last one the fastest. */
static void split(int64_t number, uint32_t n, const int64_t *sizes, int64_t *index) {
    for (uint32_t i = n; i-- > 0; number /= sizes[i]) index[i] = number % sizes[i];
}

static void list_columns(cpu_convolution *c) {
    const ref_windows *w = c->windows;
    int64_t sizes[SHOAL_MAX_RANK], at[SHOAL_MAX_RANK], places = 1;
    for (uint32_t i = 0; i < w->spatial; i++)
        places *= sizes[i] = i ? w->axis[i].out : c->some_first;
    for (int64_t j = 0; j < c->n; j++) {
        split(j % places, w->spatial, sizes, at);
        c->columns[j] = j / places * c->box_batch;
        c->outs[j] = j / places * w->out_batch;
        for (uint32_t i = 0; i < w->spatial; i++) {
            c->columns[j] += in_box(c, i, at[i] * w->axis[i].stride);
            c->outs[j] += at[i] * w->axis[i].out_step;
        }
    }
}

static void list_rows(cpu_convolution *c) {
    const ref_windows *w = c->windows;
    int64_t sizes[SHOAL_MAX_RANK], at[SHOAL_MAX_RANK], window = 1;
    for (uint32_t i = 0; i < w->spatial; i++)
        window *= sizes[i] = i ? w->axis[i].window : c->some_window;
    for (int64_t p = 0; p < c->k; p++) {
        split(p % window, w->spatial, sizes, at);
        c->rows[p] = p / window * c->box_channel;
        c->weights[p] = p / window * w->rhs_channel;
        for (uint32_t i = 0; i < w->spatial; i++) {
            const ref_windows_axis *a = &w->axis[i];
            c->rows[p] += in_box(c, i, at[i] * a->window_gap);
            c->weights[p] += (a->reversed ? -at[i] : at[i]) * a->window_step;
        }
    }
}

/* The step between elements of a window in the weights, 0 where there is no one step. */
static int64_t step_of(const ref_windows *w) {
    int64_t step = 0, next = 0;
    for (uint32_t i = w->spatial; i-- > 0;) {
        const ref_windows_axis *a = &w->axis[i];
        if (a->window == 1) continue;
        if (a->reversed || (step && a->window_step != next)) return 0;
        if (!step) step = a->window_step;
        next = a->window_step * a->window;
    }
    return step ? step : 1;
}

static bool is_dense(const ref_windows *w, int64_t batch) {
    int64_t next = 1;
    for (uint32_t i = w->spatial; i-- > 0; next *= w->axis[i].out)
        if (w->axis[i].out > 1 && w->axis[i].out_step != next) return false;
    return batch == 1 || w->out_batch == next;
}

/* ---- memory ---- */

static size_t aligned(int64_t elements, size_t bytes) {
    size_t size = (size_t)elements * bytes;
    return (size + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN;
}

static int64_t blocks_of(const cpu_convolution *c) { return divide_up(c->features, c->block); }

static void set_memory(cpu_convolution *c) {
    bool panels = c->how <= CPU_TURNED;
    int64_t panel = c->gemm->panel, slack = c->taps->slack,
            some = c->features > c->block ? PANELS : 1;
    int64_t raw = panels ? c->block * c->depth : c->features * c->k;
    c->packed_each = aligned(c->block * c->depth + c->gemm->slack, c->bytes);
    c->panels = aligned(c->box + slack, c->bytes);
    c->raw = c->panels + (panels ? aligned(some * panel * c->depth + slack, c->bytes) : 0);
    c->blocks = c->raw + aligned(raw, c->bytes);
    c->tile = c->blocks + (panels && c->parts > 1 ? (size_t)blocks_of(c) * c->packed_each : 0);
    c->scratch_each = c->tile + aligned(c->features * (panels ? panel : FEW_PLACES), c->bytes);
}

size_t cpu_convolve_packed(const cpu_convolution *c) {
    if (c->how > CPU_TURNED || c->parts > 1 || !c->items) return 0;
    return (size_t)(c->groups * c->chunks * divide_up(c->k, c->depth) * blocks_of(c)) *
           c->packed_each;
}

size_t cpu_convolve_sums(const cpu_convolution *c) {
    if (c->parts < 2) return 0;
    return (size_t)(c->parts * c->groups * c->features * c->batch * c->places) * c->bytes;
}

shoal_status cpu_convolve_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    uint8_t dtype = p->g->values[step->node->first_output].type.dtype;
    bool half = is_half(dtype);
    int type = dtype == SHOAL_F64 ? CPU_F64 : CPU_F32;
    cpu_convolution *c = &step->u.convolution;
    ref_windows *w = base_arena_alloc(&p->arena, sizeof *w);
    if (!w) return SHOAL_NO_MEMORY;
    *w = windows_of(p->g, step->node);
    *c = (cpu_convolution){.windows = w,
                           .gemm = kernels->gemm[type],
                           .taps = kernels->taps[type],
                           .pools = kernels->pools,
                           .join = cpu_find_map(kernels, GRAPH_ADD, half ? SHOAL_F32 : dtype),
                           .bytes = type == CPU_F64 ? sizeof(double) : sizeof(float)};
    step->run = cpu_convolve_run;
    if (is_empty(w)) return SHOAL_OK;
    if (half) {
        const uint32_t values[] = {step->node->inputs[0], step->node->inputs[1],
                                   step->node->first_output};
        c->widen = kernels->convert[dtype][SHOAL_F32];
        c->narrow = kernels->convert[SHOAL_F32][dtype];
        for (int i = 0; i < 3; i++)
            c->wide_bytes[i] =
                (size_t)base_type_count(&p->g->values[values[i]].type) * sizeof(float);
    }
    c->groups = w->feature_groups > 1 ? w->feature_groups : w->batch_groups;
    c->features = w->features / c->groups;
    c->batch = w->batch / w->batch_groups;
    c->places = 1;
    int64_t window = 1;
    for (uint32_t i = 0; i < w->spatial; i++) {
        c->places *= w->axis[i].out;
        window *= w->axis[i].window;
    }
    int64_t columns = c->batch * c->places;
    set_how(c, columns);
    divide(c, columns, w->channels * window);
    set_box(c);
    c->n = c->some_batch * (c->places / w->axis[0].out) * c->some_first;
    c->k = c->some_channels * (window / w->axis[0].window) * c->some_window;
    c->depth = evenly(c->k, DEPTH / (int64_t)c->bytes);
    c->weight_step = step_of(w);
    c->dense = is_dense(w, c->batch);
    c->block = evenly(c->features, BLOCK_PANELS * c->gemm->rows);
    int64_t *lists = base_arena_array(&p->arena, int64_t, 2 * (size_t)(c->n + c->k));
    if (!lists) return SHOAL_NO_MEMORY;
    c->columns = lists;
    c->outs = lists + c->n;
    c->rows = c->outs + c->n;
    c->weights = c->rows + c->k;
    list_columns(c);
    list_rows(c);
    set_memory(c);
    return SHOAL_OK;
}
