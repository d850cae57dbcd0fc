/* Convolutions of f32, f64 and, by way of f32, of 16-bit numbers: those of dilated inputs as
 * several that are not, how each is divided, and the lists of offsets that find the elements of
 * windows. convolve_run.c does the work. */
#include "backend/cpu/cpu.h"

enum {
    BOX = 384 << 10,      /* bytes of a box, about: it stays in the second cache */
    DEPTH = 2048,         /* bytes of k at a time */
    DEEP = 4,             /* times as many products as places: sums in parts */
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
    BESIDE = 192 << 10,   /* bytes of results side by side, about: they stay there, too */
    SHAPES = 4,           /* of remainders along an axis at most: of two extents each */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

void cpu_split(int64_t number, uint32_t n, const int64_t *sizes, int64_t *index) {
    for (uint32_t i = n; i-- > 0; number /= sizes[i]) index[i] = number % sizes[i];
}

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

/* The same less the one element, as a number that no stride or gap makes overflow. */
static double distance(const ref_windows_axis *a, int64_t out, int64_t window) {
    return (double)(out - 1) * (double)a->stride + (double)(window - 1) * (double)a->window_gap;
}

static bool is_empty(const ref_windows *w) {
    bool empty = !w->batch || !w->features || !w->channels;
    for (uint32_t i = 0; i < w->spatial; i++) empty |= !w->axis[i].out || !w->axis[i].window;
    return empty;
}

static bool is_half(uint8_t dtype) { return dtype == SHOAL_F16 || dtype == SHOAL_BF16; }

/* What the zeros between elements are left out of; one element has none beside it. */
static int64_t gap_of(const ref_windows_axis *a) { return a->in > 1 ? a->in_gap : 1; }

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
        least *= distance(a, a->out, a->window) / (double)gap_of(a) + 1;
    }
    return least <= LARGE_BOX || least <= 8 * (double)base_type_bytes(lhs);
}

/* ---- dilated inputs ---- */

static int64_t common_divisor(int64_t a, int64_t b) {
    for (int64_t rest; b; a = b, b = rest) rest = a % b;
    return a;
}

__extension__ typedef __int128 wide; /* holds products of any two numbers */

/* 1 / a modulo n, which have no common divisor (the extended algorithm of Euclid). */
static int64_t inverse_of(int64_t a, int64_t n) {
    int64_t rest = n, x = 0, next = 1;
    for (a %= n; a;) {
        int64_t quotient = rest / a, r = rest - quotient * a, y = x - quotient * next;
        rest = a;
        a = r;
        x = next;
        next = y;
    }
    return x < 0 ? x + n : x;
}

/* The first element of the window that meets elements of the input at places of a remainder; -1:
 * none does. inverse: of the window's dilation, both without what they share, modulo `every`. */
static int64_t first_met(const ref_windows_axis *a, int64_t gap, int64_t every, int64_t inverse,
                         int64_t remainder) {
    int64_t divisor = gap / every, away = (a->before - remainder * a->stride) % gap;
    if (away < 0) away += gap;
    if (away % divisor) return -1;
    int64_t t = (int64_t)((wide)(away / divisor) * inverse % every);
    return t < a->window ? t : -1;
}

ref_windows_axis cpu_convolve_axis(const cpu_convolutions *all, uint32_t axis,
                                   const cpu_remainder *remainder, int64_t *rhs, int64_t *out) {
    const ref_windows_axis *whole = &all->whole.axis[axis];
    int64_t gap = all->axis[axis].gap, period = all->axis[axis].period;
    int64_t every = all->axis[axis].every, number = remainder->number, first = remainder->first;
    ref_windows_axis a = *whole;
    a.in_gap = 1;
    a.out = divide_up(whole->out - number, period);
    a.stride = whole->stride / (gap / period);
    a.window = divide_up(whole->window - first, every);
    a.window_gap = whole->window_gap / (gap / every);
    if (a.out > 1) a.out_step *= period;
    if (a.window > 1) a.window_step *= every;
    a.before = (whole->before - number * whole->stride - first * whole->window_gap) / gap;
    int64_t last = whole->window - 1 - first - (a.window - 1) * every;
    *rhs = (whole->reversed ? last : first) * whole->window_step;
    *out = number * whole->out_step;
    return a;
}

/* The remainders of an axis, and one of each shape that there is. */
static shoal_status list_remainders(cpu_program *p, cpu_convolutions *all, uint32_t axis,
                                    cpu_remainder *examples) {
    const ref_windows_axis *a = &all->whole.axis[axis];
    int64_t gap = gap_of(a), period = gap / common_divisor(gap, a->stride), start;
    int64_t every = gap / common_divisor(gap, a->window_gap), count = smaller(period, a->out);
    int64_t inverse = inverse_of(a->window_gap / (gap / every), every);
    /* Each meets the input with elements of the window of its own. */
    cpu_remainder *list =
        base_arena_array(&p->arena, cpu_remainder, (size_t)smaller(count, a->window));
    if (!list) return SHOAL_NO_MEMORY;
    all->axis[axis].gap = gap;
    all->axis[axis].period = period;
    all->axis[axis].every = every;
    all->axis[axis].remainders = list;
    all->dilated |= gap > 1;
    for (int64_t number = 0; number < count; number++) {
        cpu_remainder r = {number, first_met(a, gap, every, inverse, number), 0};
        if (r.first < 0) {
            all->zeros = true;
            continue;
        }
        ref_windows_axis of = cpu_convolve_axis(all, axis, &r, &start, &start);
        for (; r.shape < all->axis[axis].n_shapes; r.shape++) {
            ref_windows_axis other =
                cpu_convolve_axis(all, axis, &examples[r.shape], &start, &start);
            if (other.out == of.out && other.window == of.window) break;
        }
        if (r.shape == all->axis[axis].n_shapes) examples[all->axis[axis].n_shapes++] = r;
        list[all->axis[axis].count++] = r;
    }
    return SHOAL_OK;
}

/* Whether results lie between each other, and how many places are then computed at a time. */
static bool lie_between(cpu_convolutions *all, int64_t panel, int64_t *together) {
    const ref_windows *w = &all->whole;
    uint32_t last = w->spatial - 1;
    int64_t lanes = all->axis[last].count, behind = 1, columns = w->batch / w->batch_groups, first;
    int64_t k = w->channels, groups = larger(w->feature_groups, w->batch_groups);
    if (lanes < 2 || lanes > CPU_BESIDE || w->axis[last].out_step != 1) return false;
    for (uint32_t i = 0; i < w->spatial; i++) {
        k *= divide_up(w->axis[i].window, all->axis[i].every);
        columns *= larger(1, w->axis[i].out / all->axis[i].period);
        if (i) behind *= divide_up(w->axis[i].out, all->axis[i].period);
    }
    int64_t most = BESIDE / (w->features / groups * lanes * (int64_t)all->bytes);
    most = larger(panel, smaller(PLACES, most));
    first = divide_up(w->axis[0].out, all->axis[0].period);
    together[0] = evenly(first, larger(1, most / behind));
    together[1] = evenly(w->batch / w->batch_groups, larger(1, most / (behind * first)));
    if (together[1] > 1) together[0] = first;
    together[2] = divide_up(first, together[0]);
    /* Neither the box nor the lanes of an item are divided any further. */
    double box = (double)together[1] * (double)all->bytes;
    for (uint32_t i = 0; i < w->spatial; i++) {
        const ref_windows_axis *a = &w->axis[i];
        int64_t period = all->axis[i].period, out = i ? divide_up(a->out, period) : together[0];
        box *= distance(a, (out - 1) * period + 1, i ? a->window : 1) / (double)gap_of(a) + 1;
    }
    double beside = (double)(w->features / groups * lanes * (int64_t)all->bytes) *
                    (double)(together[0] * together[1]) * (double)behind;
    return k <= DEEP * columns && box <= BOX && beside <= LARGE_BOX;
}

/* ---- division ---- */

static double box_bytes(const cpu_convolution *c) {
    const ref_windows *w = c->windows;
    double elements = (double)c->some_batch * (double)c->bytes;
    for (uint32_t i = 0; i < w->spatial; i++) {
        const ref_windows_axis *a = &w->axis[i];
        elements *= distance(a, i ? a->out : c->some_first, i ? a->window : c->some_window) + 1;
    }
    return elements;
}

static void set_how(cpu_convolution *c, int64_t columns, bool beside) {
    const ref_windows *w = c->windows;
    const ref_windows_axis *last = &w->axis[w->spatial - 1];
    int64_t panel = c->gemm->panel, width = panel / 2;
    int64_t copies = 2 * panel / smaller(last->out, width);
    int64_t turns = 6 * divide_up(last->window, width) * panel / last->window;
    c->how = copies <= turns ? CPU_COPIED : CPU_TURNED;
    if (c->features > FEW) return;
    if (columns <= FEW_PLACES && 2 * last->window >= width)
        c->how = CPU_BY_WINDOW;
    else if (beside || last->out_step == 1) /* lines of results lie side by side */
        c->how = CPU_BY_PLACE;
}

/* Items, chunks and parts, for `columns` places of `k` products each. together: places of an item
 * along the first axis and of the batch, and items along that axis; NULL if no others lie between.
 */
static void divide(cpu_convolution *c, int64_t columns, int64_t k, const int64_t *together) {
    const ref_windows *w = c->windows;
    const ref_windows_axis *first = &w->axis[0];
    int64_t behind = c->places / first->out, each = k * c->features, work = columns * each;
    bool deep = !together && k > DEEP * columns;
    int64_t most = deep ? PLACES : larger(c->groups * columns / ITEMS, divide_up(WORK, each));
    most = smaller(most, PLACES);
    c->some_first = c->places > most ? larger(1, most / behind) : first->out;
    c->some_batch = c->places > most ? 1 : smaller(c->batch, most / c->places);
    if (together) {
        c->some_first = smaller(first->out, together[0]);
        c->some_batch = together[1];
    }
    int64_t lines = k / w->channels / first->window;
    c->some_window = evenly(first->window, LISTED / lines);
    while (box_bytes(c) > BOX) {
        if (c->some_window > 1 &&
            c->some_window * first->window_gap >= c->some_first * first->stride)
            c->some_window = divide_up(c->some_window, 2);
        else if (!together && c->some_batch > 1)
            c->some_batch = divide_up(c->some_batch, 2);
        else if (!together && c->some_first > 1)
            c->some_first = divide_up(c->some_first, 2);
        else if (c->some_window > 1)
            c->some_window = divide_up(c->some_window, 2);
        else
            break;
    }
    if (!together) {
        c->some_first = evenly(first->out, c->some_first);
        c->some_batch = evenly(c->batch, c->some_batch);
    }
    c->across = together ? together[2] : divide_up(first->out, c->some_first);
    c->items = c->across * divide_up(c->batch, c->some_batch);
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

static void list_columns(cpu_convolution *c) {
    const ref_windows *w = c->windows;
    int64_t sizes[SHOAL_MAX_RANK], at[SHOAL_MAX_RANK], places = 1;
    for (uint32_t i = 0; i < w->spatial; i++)
        places *= sizes[i] = i ? w->axis[i].out : c->some_first;
    for (int64_t j = 0; j < c->n; j++) {
        cpu_split(j % places, w->spatial, sizes, at);
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
        cpu_split(p % window, w->spatial, sizes, at);
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

int64_t cpu_convolve_blocks(const cpu_convolution *c) {
    if (c->how > CPU_TURNED || c->parts > 1) return 0;
    return c->groups * c->chunks * divide_up(c->k, c->depth) * blocks_of(c);
}

static size_t sums_bytes(const cpu_convolution *c) {
    if (c->parts < 2) return 0;
    return (size_t)(c->parts * c->groups * c->features * c->batch * c->places) * c->bytes;
}

static shoal_status prepare_shape(const cpu_kernels *kernels, cpu_program *p, uint8_t dtype,
                                  const ref_windows *windows, const int64_t *together,
                                  cpu_convolution *c) {
    int type = dtype == SHOAL_F64 ? CPU_F64 : CPU_F32;
    ref_windows *w = base_arena_alloc(&p->arena, sizeof *w);
    if (!w) return SHOAL_NO_MEMORY;
    *w = *windows;
    *c = (cpu_convolution){.windows = w,
                           .gemm = kernels->gemm[type],
                           .taps = kernels->taps[type],
                           .pools = kernels->pools,
                           .join = cpu_find_map(kernels, GRAPH_ADD, dtype),
                           .bytes = type == CPU_F64 ? sizeof(double) : sizeof(float),
                           .groups = w->feature_groups > 1 ? w->feature_groups : w->batch_groups,
                           .batch = w->batch / w->batch_groups,
                           .places = 1};
    c->features = w->features / c->groups;
    int64_t window = 1;
    for (uint32_t i = 0; i < w->spatial; i++) {
        c->places *= w->axis[i].out;
        window *= w->axis[i].window;
    }
    int64_t columns = c->batch * c->places;
    set_how(c, columns, together != NULL);
    divide(c, columns, w->channels * window, together);
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

shoal_status cpu_convolve_prepare(const cpu_kernels *kernels, cpu_program *p, cpu_step *step) {
    uint8_t dtype = p->g->values[step->node->first_output].type.dtype;
    cpu_convolutions *all = step->u.convolutions = base_arena_alloc(&p->arena, sizeof *all);
    if (!all) return SHOAL_NO_MEMORY;
    *all = (cpu_convolutions){.whole = windows_of(p->g, step->node),
                              .taps = kernels->taps[dtype == SHOAL_F64 ? CPU_F64 : CPU_F32],
                              .bytes = dtype == SHOAL_F64 ? sizeof(double) : sizeof(float)};
    step->run = cpu_convolve_run;
    all->zeros = is_empty(&all->whole);
    if (all->zeros) return SHOAL_OK;
    if (is_half(dtype)) {
        const uint32_t values[] = {step->node->inputs[0], step->node->inputs[1],
                                   step->node->first_output};
        all->widen = kernels->convert[dtype][SHOAL_F32];
        all->narrow = kernels->convert[SHOAL_F32][dtype];
        for (int i = 0; i < 3; i++)
            all->wide_bytes[i] =
                (size_t)base_type_count(&p->g->values[values[i]].type) * sizeof(float);
        dtype = SHOAL_F32;
    }
    uint32_t n = 1, spatial = all->whole.spatial;
    cpu_remainder examples[SHOAL_MAX_RANK][SHAPES];
    int64_t shape[SHOAL_MAX_RANK], sizes[SHOAL_MAX_RANK], start;
    all->count = 1;
    for (uint32_t i = 0; i < spatial; i++) {
        SHOAL_TRY(list_remainders(p, all, i, examples[i]));
        sizes[i] = all->axis[i].n_shapes;
        n *= all->axis[i].n_shapes;
        all->count *= all->axis[i].count;
    }
    int64_t together[3];
    bool between =
        lie_between(all, kernels->gemm[dtype == SHOAL_F64 ? CPU_F64 : CPU_F32]->panel, together);
    all->lanes = between ? all->axis[spatial - 1].count : 1;
    all->n_shapes = n;
    all->shapes = base_arena_array(&p->arena, cpu_convolution, n + (size_t)1);
    if (!all->shapes) return SHOAL_NO_MEMORY;
    for (uint32_t s = 0; s < n; s++) {
        ref_windows w = all->whole;
        cpu_split(s, spatial, sizes, shape);
        for (uint32_t i = 0; i < spatial; i++)
            w.axis[i] = cpu_convolve_axis(all, i, &examples[i][shape[i]], &start, &start);
        cpu_convolution *c = &all->shapes[s];
        SHOAL_TRY(prepare_shape(kernels, p, dtype, &w, between ? together : NULL, c));
        all->items = larger(all->items, c->groups * c->parts * c->items);
        size_t packed = (size_t)cpu_convolve_blocks(c) * c->packed_each, sums = sums_bytes(c);
        all->blocks = larger(all->blocks, cpu_convolve_blocks(c));
        if (all->packed_each < packed) all->packed_each = packed;
        if (all->sums_each < sums) all->sums_each = sums;
        size_t lane = between ? aligned(c->features * c->n, c->bytes) : 0;
        if (all->lane_each < lane) all->lane_each = lane;
        if (all->scratch_each < c->scratch_each) all->scratch_each = c->scratch_each;
    }
    all->scratch_each += (size_t)all->lanes * all->lane_each;
    return SHOAL_OK;
}
