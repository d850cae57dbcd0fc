/* Convolutions at work: boxes of the input are filled, and windows multiplied with weights that
 * were packed ahead, or are packed on the way where what is summed over is divided. */
#include "backend/cpu/cpu.h"

#include <stdatomic.h>

enum {
    GRAIN = 1 << 17,      /* products that are worth a thread */
    PARTS_PER_THREAD = 8, /* that are taken together, so that the faster thread can take more */
    PANELS = 8,           /* panels that are multiplied with one block after the other */
    FEW_PLACES = 64,
};

typedef struct job {
    const cpu_run *run;
    const cpu_convolution *c;
    const char *lhs, *rhs;
    char *out;
    int64_t count, some; /* of items of all parts and groups; taken together */
    _Atomic(int64_t) next;
} job;

/* What is done at a time: places and a part of their windows. */
typedef struct part {
    const job *j;
    char *scratch;
    int64_t group, number;               /* of the part of the sums */
    int64_t batch, batches, first, some; /* places: of the batch, along the first axis */
    int64_t n, column;                   /* of them, the first being this of the group's */
    int64_t channel, channels, inside, window, k, chunk; /* elements of windows */
    bool add;                                            /* to what earlier chunks gave */
} part;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void copy_element(char *to, const char *from, size_t bytes) {
    if (bytes == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, 8);
}

/* ---- boxes ---- */

/* The index of element `at` of a padded and dilated axis; -1: it is a zero. */
static int64_t index_of(const ref_windows_axis *a, int64_t at) {
    return at < 0 || at % a->in_gap || at / a->in_gap >= a->in ? -1 : at / a->in_gap;
}

static int64_t first_of(const part *p, uint32_t axis) {
    const ref_windows_axis *a = &p->j->c->windows->axis[axis];
    return (axis ? 0 : p->first * a->stride + p->inside * a->window_gap) - a->before;
}

static int64_t reach_of(const part *p, uint32_t axis) {
    const ref_windows_axis *a = &p->j->c->windows->axis[axis];
    int64_t out = axis ? a->out : p->some, window = axis ? a->window : p->window;
    return (out - 1) * a->stride + (window - 1) * a->window_gap + 1;
}

/* Where indices begin and end that exist, of elements that are not dilated. */
static void limits(const part *p, uint32_t axis, int64_t *before, int64_t *n) {
    int64_t from = first_of(p, axis), reach = reach_of(p, axis);
    *before = smaller(reach, from < 0 ? -from : 0);
    *n = smaller(reach, p->j->c->windows->axis[axis].in - from) - *before;
    if (*n < 0) *n = 0;
}

/* Phase after phase, each its elements. */
static void fill_line(const part *p, const char *from, char *to) {
    const cpu_convolution *c = p->j->c;
    uint32_t last = c->windows->spatial - 1;
    const ref_windows_axis *a = &c->windows->axis[last];
    int64_t start = first_of(p, last), reach = reach_of(p, last), phases = c->phases;
    int64_t line = (last ? c->box_steps[last - 1] : c->box_channel) / phases;
    int64_t index = start > 0 ? divide_up(start, a->in_gap) : 0;
    memset(to, 0, (size_t)(line * phases) * c->bytes);
    for (int64_t phase = 0; a->in_gap == 1 && phase < phases; phase++) {
        int64_t at = start + phase, begin = at < 0 ? divide_up(-at, phases) : 0;
        int64_t end = smaller(divide_up(reach - phase, phases), divide_up(a->in - at, phases));
        if (begin < end)
            c->pools->pick[c->bytes](
                end - begin, from + (size_t)((at + begin * phases) * a->in_step) * c->bytes,
                phases * a->in_step, to + (size_t)(phase * line + begin) * c->bytes);
    }
    for (; a->in_gap > 1 && index < a->in; index++) {
        int64_t at = index * a->in_gap - start;
        if (at >= reach) break;
        at = phases == 1 ? at : at % phases * line + at / phases;
        copy_element(to + (size_t)at * c->bytes, from + (size_t)(index * a->in_step) * c->bytes,
                     c->bytes);
    }
}

static bool is_plain(const cpu_convolution *c, uint32_t axis) {
    return c->windows->axis[axis].in_gap == 1 &&
           (axis < c->windows->spatial - 1 ||
            (c->phases == 1 && c->windows->axis[axis].in_step == 1));
}

/* Lines as they lie, between zeros: one, or all along the axis before. */
static void fill_plain(const part *p, uint32_t axis, const char *from, char *to) {
    const cpu_convolution *c = p->j->c;
    uint32_t last = c->windows->spatial - 1;
    int64_t before, n, above = 0, lines = 1, height = 1, step = 0, at = 0;
    int64_t width = last ? c->box_steps[last - 1] : c->box_channel;
    size_t line = (size_t)width * c->bytes;
    limits(p, last, &before, &n);
    if (axis < last) {
        height = reach_of(p, axis);
        limits(p, axis, &above, &lines);
        step = c->windows->axis[axis].in_step;
        at = (first_of(p, axis) + above) * step;
    }
    if (n == 0) lines = 0;
    memset(to, 0, (size_t)above * line);
    at += first_of(p, last) + before;
    if (lines)
        c->taps->copy_lines(lines, before, n, width - before - n, from + at * (int64_t)c->bytes,
                            step, to + (size_t)above * line, width);
    memset(to + (size_t)(above + lines) * line, 0, (size_t)(height - above - lines) * line);
}

static void fill_axis(const part *p, uint32_t axis, const char *from, char *to) {
    const cpu_convolution *c = p->j->c;
    const ref_windows_axis *a = &c->windows->axis[axis];
    uint32_t last = c->windows->spatial - 1;
    if (axis + 2 > last && is_plain(c, axis) && is_plain(c, last)) {
        fill_plain(p, axis, from, to);
    } else if (axis == last) {
        fill_line(p, from, to);
    } else {
        int64_t start = first_of(p, axis), reach = reach_of(p, axis);
        size_t step = (size_t)c->box_steps[axis] * c->bytes;
        for (int64_t i = 0; i < reach; i++, to += step) {
            int64_t index = index_of(a, start + i);
            if (index < 0)
                memset(to, 0, step);
            else
                fill_axis(p, axis + 1, from + (size_t)(index * a->in_step) * c->bytes, to);
        }
    }
}

static void fill_box(const part *p) {
    const cpu_convolution *c = p->j->c;
    const ref_windows *w = c->windows;
    int64_t from = p->batch * w->lhs_batch + p->channel * w->lhs_channel;
    if (w->feature_groups > 1) from += p->group * w->channels * w->lhs_channel;
    if (w->batch_groups > 1) from += p->group * c->batch * w->lhs_batch;
    for (int64_t b = 0; b < p->batches; b++)
        for (int64_t i = 0; i < p->channels; i++)
            fill_axis(p, 0,
                      p->j->lhs + (size_t)(from + b * w->lhs_batch + i * w->lhs_channel) * c->bytes,
                      p->scratch + (size_t)(b * c->box_batch + i * c->box_channel) * c->bytes);
}

/* Chunk number `chunk` of an item's windows. */
static void set_chunk(part *p, int64_t chunk) {
    const cpu_convolution *c = p->j->c;
    const ref_windows *w = c->windows;
    int64_t window = w->axis[0].window, across = divide_up(window, c->some_window);
    p->chunk = chunk;
    p->channel = chunk / across * c->some_channels;
    p->channels = smaller(c->some_channels, w->channels - p->channel);
    p->inside = chunk % across * c->some_window;
    p->window = smaller(c->some_window, window - p->inside);
    p->k = c->k / c->some_channels / c->some_window * p->channels * p->window;
}

/* ---- weights ---- */

/* Rows of the weights, `m` features and `k` elements of a chunk, as they lie or copied to `raw`. */
static const char *weights_of(const part *p, int64_t feature, int64_t m, int64_t at, int64_t k,
                              bool side_by_side, char *raw, int64_t *strides) {
    const cpu_convolution *c = p->j->c;
    const ref_windows *w = c->windows;
    const ref_windows_axis *a = &w->axis[0];
    int64_t inside = a->reversed ? a->window - 1 - p->inside : p->inside;
    int64_t from = (p->group * c->features + feature) * w->rhs_feature +
                   p->channel * w->rhs_channel + inside * a->window_step;
    for (uint32_t i = 1; i < w->spatial; i++)
        if (w->axis[i].reversed) from += (w->axis[i].window - 1) * w->axis[i].window_step;
    const char *data = p->j->rhs + (size_t)from * c->bytes;
    int64_t each = p->k / p->channels, step = c->weight_step;
    bool even = step && (at / each == (at + k - 1) / each || w->rhs_channel == step * each);
    if (even && (step == 1 || (w->rhs_feature == 1 && !side_by_side))) {
        strides[0] = w->rhs_feature;
        strides[1] = step;
        return data + (size_t)c->weights[at] * c->bytes;
    }
    strides[0] = k;
    strides[1] = 1;
    char *to = raw;
    for (int64_t f = 0; f < m; f++, data += (size_t)w->rhs_feature * c->bytes)
        for (int64_t i = 0; i < k; i++, to += c->bytes)
            copy_element(to, data + c->weights[at + i] * (int64_t)c->bytes, c->bytes);
    return raw;
}

/* Block of features number `block`, elements `at` and the next `k` of the chunk. */
static void pack_block(const part *p, int64_t block, int64_t at, int64_t k, char *to) {
    const cpu_convolution *c = p->j->c;
    int64_t feature = block * c->block, m = smaller(c->block, c->features - feature), strides[2];
    const char *from = weights_of(p, feature, m, at, k, false, p->scratch + c->raw, strides);
    c->gemm->pack_a(m, k, from, strides, to);
}

static int64_t blocks_of(const cpu_convolution *c) { return divide_up(c->features, c->block); }

static int64_t depths_of(const cpu_convolution *c) { return divide_up(c->k, c->depth); }

/* The packed blocks of all features for elements `at` on of a chunk. */
static char *packed_blocks(const part *p, int64_t at) {
    const cpu_convolution *c = p->j->c;
    int64_t chunk = p->group * c->chunks + p->chunk, depth = chunk * depths_of(c) + at / c->depth;
    return p->j->run->workspace + c->packed + (size_t)(depth * blocks_of(c)) * c->packed_each;
}

static char *scratch_of(const job *j, uint32_t thread) {
    return j->run->workspace + j->c->scratch + thread * j->c->scratch_each;
}

/* Items are blocks of all depths, chunks and groups. */
static void pack_range(void *context, uint32_t thread, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_convolution *c = j->c;
    part p = {.j = j, .scratch = scratch_of(j, thread)};
    for (; begin < end; begin++) {
        int64_t block = begin % blocks_of(c), depth = begin / blocks_of(c);
        int64_t at = depth % depths_of(c) * c->depth, chunk = depth / depths_of(c);
        p.group = chunk / c->chunks;
        set_chunk(&p, chunk % c->chunks);
        if (at < p.k)
            pack_block(&p, block, at, smaller(c->depth, p.k - at),
                       packed_blocks(&p, at) + (size_t)block * c->packed_each);
    }
}

/* ---- results ---- */

static char *sums_of(const part *p, int64_t feature, int64_t column) {
    const cpu_convolution *c = p->j->c;
    int64_t row = (p->number * c->groups + p->group) * c->features + feature;
    return p->j->run->workspace + c->sums +
           (size_t)(row * c->batch * c->places + p->column + column) * c->bytes;
}

static char *out_of(const part *p, int64_t feature) {
    const cpu_convolution *c = p->j->c;
    const ref_windows *w = c->windows;
    int64_t at = (p->group * c->features + feature) * w->out_feature + p->batch * w->out_batch +
                 p->first * w->axis[0].out_step;
    return p->j->out + (size_t)at * c->bytes;
}

/* n columns of a feature: to where they belong in the result, or added to that. */
static void spread(const part *p, int64_t feature, int64_t column, int64_t n, const char *from,
                   bool add) {
    const cpu_convolution *c = p->j->c;
    char *out = out_of(p, feature);
    for (int64_t i = 0; i < n; i++, from += c->bytes) {
        char *to = out + (size_t)c->outs[column + i] * c->bytes;
        if (add)
            c->join(to, (const void *const[]){to, from}, 1, 0, NULL);
        else
            copy_element(to, from, c->bytes);
    }
}

/* The step between columns in the result; 0: there is no one step. */
static int64_t step_of(const cpu_convolution *c, int64_t column, int64_t n) {
    const int64_t *outs = c->outs + column;
    int64_t step = n > 1 ? outs[1] - outs[0] : 1;
    for (int64_t i = 2; i < n; i++)
        if (outs[i] - outs[i - 1] != step) return 0;
    return step;
}

/* ---- as products ---- */

/* Whether a panel need not be packed: each half of it lies side by side in the box, and in the
 * result. Lines of the box are read for several elements of the window, so they are near. */
static bool lies_well(const part *p, int64_t column, int64_t n) {
    const cpu_convolution *c = p->j->c;
    const int64_t *at = c->columns + column;
    int64_t panel = c->gemm->panel, width = panel / 2;
    if (c->how != CPU_COPIED || n < panel || c->windows->axis[c->windows->spatial - 1].window < 3)
        return false;
    for (int64_t i = 1; i < panel; i++)
        if (i != width && at[i] != at[i - 1] + 1) return false;
    return c->parts > 1 || step_of(c, column, n) == 1;
}

static const char *box_at(const part *p, int64_t column) {
    return p->scratch + (size_t)p->j->c->columns[column] * p->j->c->bytes;
}

/* A block of m features times one panel of n columns and `k` elements from `at` on; b NULL: they
 * are in the box. */
static void multiply_panel(const part *p, int64_t feature, int64_t m, int64_t column, int64_t n,
                           int64_t at, int64_t k, const char *a, const char *b) {
    const cpu_convolution *c = p->j->c;
    const ref_windows *w = c->windows;
    int64_t panel = c->gemm->panel, strides[2] = {w->out_feature, 1};
    char *to = out_of(p, feature) + (size_t)c->outs[column] * c->bytes;
    int64_t step = c->parts > 1 ? 1 : step_of(c, column, n);
    bool add = p->add;
    if (c->parts > 1) {
        strides[0] = c->batch * c->places;
        to = sums_of(p, feature, column);
    } else if (step != 1 && step && w->out_feature == 1) {
        strides[1] = step;
    } else if (step != 1) {
        strides[0] = panel;
        to = p->scratch + c->tile;
        add = false;
    }
    if (b)
        c->gemm->block(m, n, k, a, NULL, b, panel, panel * k, to, strides, add);
    else
        c->gemm->block_listed(m, k, a, c->rows + at, box_at(p, column),
                              box_at(p, column + panel / 2), to, strides[0], add);
    for (int64_t f = 0; to == p->scratch + c->tile && f < m; f++)
        spread(p, feature + f, column, n, to + (size_t)(f * panel) * c->bytes, p->add);
}

/* At most PANELS panels, of columns `begin` up to `end`, times all blocks. */
static void multiply_panels(const part *p, int64_t begin, int64_t end, int64_t at, int64_t k,
                            const char *blocks) {
    const cpu_convolution *c = p->j->c;
    const char *panels[PANELS];
    int64_t panel = c->gemm->panel;
    for (int64_t i = begin, number = 0; i < end; i += panel, number++) {
        int64_t n = smaller(panel, end - i);
        char *to = p->scratch + c->panels + (size_t)((i - begin) * k) * c->bytes;
        panels[number] = lies_well(p, i, n) ? NULL : to;
        if (panels[number])
            (c->how == CPU_COPIED ? c->taps->copy_panel : c->taps->turn_panel)(
                k, p->scratch, c->rows + at, n, c->columns + i, to);
    }
    for (int64_t f = 0; f < c->features; f += c->block)
        for (int64_t i = begin; i < end; i += panel)
            multiply_panel(p, f, smaller(c->block, c->features - f), i, smaller(panel, end - i), at,
                           k, blocks + (size_t)(f / c->block) * c->packed_each,
                           panels[(i - begin) / panel]);
}

static void multiply_chunk(part *p) {
    const cpu_convolution *c = p->j->c;
    int64_t panel = c->gemm->panel, some = c->features > c->block ? PANELS * panel : panel;
    for (int64_t at = 0, k; at < p->k; at += k, p->add = true) {
        k = smaller(c->depth, p->k - at);
        char *blocks = c->parts > 1 ? p->scratch + c->blocks : packed_blocks(p, at);
        for (int64_t i = 0; c->parts > 1 && i < blocks_of(c); i++)
            pack_block(p, i, at, k, blocks + (size_t)i * c->packed_each);
        for (int64_t j = 0; j < p->n; j += some)
            multiply_panels(p, j, smaller(p->n, j + some), at, k, blocks);
    }
}

/* ---- for few features ---- */

/* Line by line of places. */
static void sum_places(const part *p) {
    const cpu_convolution *c = p->j->c;
    int64_t line = c->windows->axis[c->windows->spatial - 1].out, strides[2];
    if (c->windows->spatial == 1) line = p->some;
    const char *a = weights_of(p, 0, c->features, 0, p->k, true, p->scratch + c->raw, strides);
    for (int64_t f = 0; f < c->features; f++, a += (size_t)strides[0] * c->bytes) {
        char *out = out_of(p, f);
        for (int64_t j = 0; j < p->n; j += line)
            c->taps->sum_places(
                line, p->k, a, c->rows, p->scratch + (size_t)c->columns[j] * c->bytes,
                c->parts > 1 ? sums_of(p, f, j) : out + (size_t)c->outs[j] * c->bytes, p->add);
    }
}

/* Place by place, in lines of elements of windows. */
static void sum_windows(const part *p) {
    const cpu_convolution *c = p->j->c;
    int64_t line = c->windows->axis[c->windows->spatial - 1].window, strides[2];
    if (c->windows->spatial == 1) line = p->window;
    const char *a = weights_of(p, 0, c->features, 0, p->k, true, p->scratch + c->raw, strides);
    for (int64_t f = 0; f < c->features; f++, a += (size_t)strides[0] * c->bytes)
        c->taps->sum_window(p->k / line, line, a, c->rows, p->scratch, p->n, c->columns,
                            p->scratch + c->tile + (size_t)(f * FEW_PLACES) * c->bytes, p->add);
}

static void store_windows(const part *p) {
    const cpu_convolution *c = p->j->c;
    for (int64_t f = 0; f < c->features; f++) {
        const char *from = p->scratch + c->tile + (size_t)(f * FEW_PLACES) * c->bytes;
        if (c->parts > 1)
            memcpy(sums_of(p, f, 0), from, (size_t)p->n * c->bytes);
        else
            spread(p, f, 0, p->n, from, false);
    }
}

/* ---- items ---- */

static void set_item(part *p, int64_t item) {
    const cpu_convolution *c = p->j->c;
    int64_t out = c->windows->axis[0].out, across = divide_up(out, c->some_first);
    p->batch = item / across * c->some_batch;
    p->batches = smaller(c->some_batch, c->batch - p->batch);
    p->first = item % across * c->some_first;
    p->some = smaller(c->some_first, out - p->first);
    p->column = p->batch * c->places + c->places / out * p->first;
    p->n = p->batches * (c->places / out) * p->some;
}

static void convolve_item(part *p, int64_t number) {
    const cpu_convolution *c = p->j->c;
    int64_t chunks = c->chunks, of_group = number / c->items;
    p->group = of_group / c->parts;
    p->number = of_group % c->parts;
    p->add = false;
    set_item(p, number % c->items);
    int64_t end = (p->number + 1) * chunks / c->parts;
    for (int64_t chunk = p->number * chunks / c->parts; chunk < end; chunk++, p->add = true) {
        set_chunk(p, chunk);
        fill_box(p);
        if (c->how == CPU_BY_PLACE)
            sum_places(p);
        else if (c->how == CPU_BY_WINDOW)
            sum_windows(p);
        else
            multiply_chunk(p);
    }
    if (c->how == CPU_BY_WINDOW) store_windows(p);
}

static void convolve_range(void *context, uint32_t thread, int64_t begin, int64_t end) {
    job *j = context;
    part p = {.j = j, .scratch = scratch_of(j, thread)};
    int64_t from;
    while ((from = atomic_fetch_add(&j->next, j->some)) < j->count)
        for (int64_t i = from; i < from + j->some && i < j->count; i++) convolve_item(&p, i);
}

/* Rows of sums are joined part by part; an item is a feature of a group. */
static void join_range(void *context, uint32_t thread, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_convolution *c = j->c;
    int64_t columns = c->batch * c->places;
    part p = {.j = j};
    for (; begin < end; begin++) {
        int64_t feature = begin % c->features;
        p.group = begin / c->features;
        p.number = p.column = 0;
        char *all = sums_of(&p, feature, 0);
        for (p.number = 1; p.number < c->parts; p.number++)
            c->join(all, (const void *const[]){all, sums_of(&p, feature, 0)}, columns, 0, NULL);
        for (int64_t item = 0; item < c->items; item++) {
            set_item(&p, item);
            const char *from = all + (size_t)p.column * c->bytes;
            if (c->dense)
                memcpy(out_of(&p, feature), from, (size_t)p.n * c->bytes);
            else
                spread(&p, feature, 0, p.n, from, false);
        }
    }
}

/* ---- 16-bit numbers ---- */

/* wide: the bytes of either side as float32. */
static void convert(const job *j, cpu_map_kernel kernel, size_t wide, const void *from, void *to) {
    bool widens = kernel == j->c->widen;
    cpu_convert(j->run->device, kernel, from, widens ? 2 : sizeof(float), to,
                widens ? sizeof(float) : 2, (int64_t)(wide / sizeof(float)));
}

shoal_status cpu_convolve_run(const cpu_run *run, const cpu_step *step) {
    const cpu_convolution *c = &step->u.convolution;
    const shoal_node *node = step->node;
    job j = {.run = run,
             .c = c,
             .lhs = run->at[node->inputs[0]],
             .rhs = run->at[node->inputs[1]],
             .out = run->at[node->first_output],
             .count = c->groups * c->parts * c->items};
    if (!c->items) {
        const shoal_type *type = &run->program->g->values[node->first_output].type;
        memset(j.out, 0, (size_t)base_type_bytes(type));
        return SHOAL_OK;
    }
    if (c->widen) {
        char *lhs = run->workspace + c->wide[0], *rhs = run->workspace + c->wide[1];
        convert(&j, c->widen, c->wide_bytes[0], j.lhs, lhs);
        convert(&j, c->widen, c->wide_bytes[1], j.rhs, rhs);
        j.lhs = lhs;
        j.rhs = rhs;
        j.out = run->workspace + c->wide[2];
    }
    int64_t threads = base_pool_threads(run->device->pool), sums = c->groups * c->features;
    int64_t each = c->features * c->k * c->n * divide_up(c->chunks, c->parts);
    j.some = j.count / (threads * PARTS_PER_THREAD) + 1;
    if (cpu_convolve_packed(c))
        cpu_parallel(run->device, (int64_t)(cpu_convolve_packed(c) / c->packed_each),
                     1 + GRAIN / (16 * c->block * c->depth), pack_range, &j);
    cpu_parallel(run->device, smaller(threads, j.count * each / GRAIN), 1, convolve_range, &j);
    if (c->parts > 1)
        cpu_parallel(run->device, sums, 1 + GRAIN / (c->batch * c->places * c->parts), join_range,
                     &j);
    if (c->narrow) convert(&j, c->narrow, c->wide_bytes[2], j.out, run->at[node->first_output]);
    return SHOAL_OK;
}
