/* Convolutions at work: boxes of the input are filled, and windows multiplied with weights that
 * were packed ahead, or are packed on the way where what is summed over is divided. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <stdatomic.h>

enum {
    GRAIN = 1 << 17,      /* products that are worth a thread */
    PARTS_PER_THREAD = 8, /* that are taken together, so that the faster thread can take more */
    PANELS = 8,           /* panels that are multiplied with one block after the other */
    FEW_PLACES = 64,
};

typedef struct job {
    const cpu_run *run;
    const cpu_convolutions *c;
    const char *lhs, *rhs;
    char *out;
    int64_t some; /* items that are taken together */
    _Atomic(int64_t) next;
} job;

/* What is done at a time: places of a remainder and a part of their windows. */
typedef struct part {
    const job *j;
    const cpu_convolution *c;
    const char *rhs; /* where the remainder's weights begin, its result, blocks and sums; and */
    char *out, *packed, *sums, *lane; /* lane: or NULL, of the item's sums */
    int64_t before[SHOAL_MAX_RANK];   /* padding of each axis */
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

static int64_t first_of(const part *p, uint32_t axis) {
    const ref_windows_axis *a = &p->c->windows->axis[axis];
    return (axis ? 0 : p->first * a->stride + p->inside * a->window_gap) - p->before[axis];
}

static int64_t reach_of(const part *p, uint32_t axis) {
    const ref_windows_axis *a = &p->c->windows->axis[axis];
    int64_t out = axis ? a->out : p->some, window = axis ? a->window : p->window;
    return (out - 1) * a->stride + (window - 1) * a->window_gap + 1;
}

/* Where indices begin and end that exist. */
static void limits(const part *p, uint32_t axis, int64_t *before, int64_t *n) {
    int64_t from = first_of(p, axis), reach = reach_of(p, axis);
    *before = smaller(reach, from < 0 ? -from : 0);
    *n = smaller(reach, p->c->windows->axis[axis].in - from) - *before;
    if (*n < 0) *n = 0;
}

/* Phase after phase, each its elements. */
static void fill_line(const part *p, const char *from, char *to) {
    const cpu_convolution *c = p->c;
    uint32_t last = c->windows->spatial - 1;
    const ref_windows_axis *a = &c->windows->axis[last];
    int64_t start = first_of(p, last), reach = reach_of(p, last), phases = c->phases;
    int64_t line = (last ? c->box_steps[last - 1] : c->box_channel) / phases;
    memset(to, 0, (size_t)(line * phases) * c->bytes);
    for (int64_t phase = 0; phase < phases; phase++) {
        int64_t at = start + phase, begin = at < 0 ? divide_up(-at, phases) : 0;
        int64_t end = smaller(divide_up(reach - phase, phases), divide_up(a->in - at, phases));
        if (begin < end)
            c->pools->pick[c->bytes](
                end - begin, from + (size_t)((at + begin * phases) * a->in_step) * c->bytes,
                phases * a->in_step, to + (size_t)(phase * line + begin) * c->bytes);
    }
}

static bool is_plain(const cpu_convolution *c, uint32_t axis) {
    return axis < c->windows->spatial - 1 ||
           (c->phases == 1 && c->windows->axis[axis].in_step == 1);
}

/* Lines as they lie, between zeros: one, or all along the axis before. */
static void fill_plain(const part *p, uint32_t axis, const char *from, char *to) {
    const cpu_convolution *c = p->c;
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
    const cpu_convolution *c = p->c;
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
            if (start + i < 0 || start + i >= a->in)
                memset(to, 0, step);
            else
                fill_axis(p, axis + 1, from + (size_t)((start + i) * a->in_step) * c->bytes, to);
        }
    }
}

static void fill_box(const part *p) {
    const cpu_convolution *c = p->c;
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
    const cpu_convolution *c = p->c;
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
    const cpu_convolution *c = p->c;
    const ref_windows *w = c->windows;
    const ref_windows_axis *a = &w->axis[0];
    int64_t inside = a->reversed ? a->window - 1 - p->inside : p->inside;
    int64_t from = (p->group * c->features + feature) * w->rhs_feature +
                   p->channel * w->rhs_channel + inside * a->window_step;
    for (uint32_t i = 1; i < w->spatial; i++)
        if (w->axis[i].reversed) from += (w->axis[i].window - 1) * w->axis[i].window_step;
    const char *data = p->rhs + (size_t)from * c->bytes;
    int64_t each = p->k / p->channels, step = c->weight_step;
    bool even = step && (at / each == (at + k - 1) / each || w->rhs_channel == step * each);
    if (even && (step == 1 || (w->rhs_feature == 1 && !side_by_side))) {
        strides[0] = w->rhs_feature;
        strides[1] = step;
        return data + (size_t)c->weights[at] * c->bytes;
    }
    char *to = raw;
    if (!side_by_side && w->rhs_feature < w->rhs_channel) { /* as they follow each other */
        strides[0] = 1;
        strides[1] = m;
        for (int64_t i = 0; i < k; i++) {
            const char *element = data + c->weights[at + i] * (int64_t)c->bytes;
            for (int64_t f = 0; f < m; f++, to += c->bytes)
                copy_element(to, element + (size_t)(f * w->rhs_feature) * c->bytes, c->bytes);
        }
        return raw;
    }
    strides[0] = k;
    strides[1] = 1;
    for (int64_t f = 0; f < m; f++, data += (size_t)w->rhs_feature * c->bytes)
        for (int64_t i = 0; i < k; i++, to += c->bytes)
            copy_element(to, data + c->weights[at + i] * (int64_t)c->bytes, c->bytes);
    return raw;
}

/* Block of features number `block`, elements `at` and the next `k` of the chunk. */
static void pack_block(const part *p, int64_t block, int64_t at, int64_t k, char *to) {
    const cpu_convolution *c = p->c;
    int64_t feature = block * c->block, m = smaller(c->block, c->features - feature), strides[2];
    const char *from = weights_of(p, feature, m, at, k, false, p->scratch + c->raw, strides);
    c->gemm->pack_a(m, k, from, strides, to);
}

static int64_t blocks_of(const cpu_convolution *c) { return divide_up(c->features, c->block); }

static int64_t depths_of(const cpu_convolution *c) { return divide_up(c->k, c->depth); }

/* The packed blocks of all features for elements `at` on of a chunk. */
static char *packed_blocks(const part *p, int64_t at) {
    const cpu_convolution *c = p->c;
    int64_t chunk = p->group * c->chunks + p->chunk, depth = chunk * depths_of(c) + at / c->depth;
    return p->packed + (size_t)(depth * blocks_of(c)) * c->packed_each;
}

/* Which of all axes' remainders a part is of. */
static void set_remainder(part *p, int64_t number) {
    const cpu_convolutions *all = p->j->c;
    int64_t counts[SHOAL_MAX_RANK] = {0}, of_axis[SHOAL_MAX_RANK], rhs, out;
    uint32_t shape = 0, spatial = all->whole.spatial;
    p->rhs = p->j->rhs;
    p->out = p->j->out;
    p->packed = p->j->run->workspace + all->packed + (size_t)number * all->packed_each;
    p->sums = p->j->run->workspace + all->sums + (size_t)number * all->sums_each;
    for (uint32_t i = 0; i < spatial; i++) counts[i] = all->axis[i].count;
    cpu_split(number, spatial, counts, of_axis);
    for (uint32_t i = 0; i < spatial; i++) {
        const cpu_remainder *r = &all->axis[i].remainders[of_axis[i]];
        p->before[i] = cpu_convolve_axis(all, i, r, &rhs, &out).before;
        p->rhs += rhs * (int64_t)all->bytes;
        p->out += out * (int64_t)all->bytes;
        shape = shape * all->axis[i].n_shapes + r->shape;
    }
    p->c = &all->shapes[shape];
}

static char *scratch_of(const job *j, uint32_t thread) {
    return j->run->workspace + j->c->scratch + thread * j->c->scratch_each;
}

/* Items are the blocks of all depths, chunks and groups of each remainder. */
static void pack_range(void *context, uint32_t thread, int64_t begin, int64_t end) {
    const job *j = context;
    part p = {.j = j, .scratch = scratch_of(j, thread)};
    for (; begin < end; begin++) {
        set_remainder(&p, begin % j->c->count); /* whose weights lie between each other */
        const cpu_convolution *c = p.c;
        int64_t number = begin / j->c->count, depth = number / blocks_of(c);
        if (number >= cpu_convolve_blocks(c)) continue;
        int64_t block = number % blocks_of(c), at = depth % depths_of(c) * c->depth;
        p.group = depth / depths_of(c) / c->chunks;
        set_chunk(&p, depth / depths_of(c) % c->chunks);
        if (at < p.k)
            pack_block(&p, block, at, smaller(c->depth, p.k - at),
                       packed_blocks(&p, at) + (size_t)block * c->packed_each);
    }
}

/* ---- results ---- */

/* Whether results are summed beside where they belong. */
static bool is_beside(const part *p) { return p->lane || p->c->parts > 1; }

static int64_t sums_row(const part *p) { return p->lane ? p->c->n : p->c->batch * p->c->places; }

static char *sums_of(const part *p, int64_t feature, int64_t column) {
    const cpu_convolution *c = p->c;
    if (p->lane) return p->lane + (size_t)(feature * c->n + column) * c->bytes;
    int64_t row = (p->number * c->groups + p->group) * c->features + feature;
    return p->sums + (size_t)(row * sums_row(p) + p->column + column) * c->bytes;
}

static char *out_of(const part *p, int64_t feature) {
    const cpu_convolution *c = p->c;
    const ref_windows *w = c->windows;
    int64_t at = (p->group * c->features + feature) * w->out_feature + p->batch * w->out_batch +
                 p->first * w->axis[0].out_step;
    return p->out + (size_t)at * c->bytes;
}

/* n columns of a feature: to where they belong in the result, or added to that. */
static void spread(const part *p, int64_t feature, int64_t column, int64_t n, const char *from,
                   bool add) {
    const cpu_convolution *c = p->c;
    char *out = out_of(p, feature);
    const int64_t *at = c->outs + column;
    if (!add)
        for (int64_t i = 0; i < n; i++)
            copy_element(out + (size_t)at[i] * c->bytes, from + (size_t)i * c->bytes, c->bytes);
    else if (c->bytes == sizeof(float))
        for (int64_t i = 0; i < n; i++)
            ((float *)(void *)out)[at[i]] += ((const float *)(const void *)from)[i];
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)(void *)out)[at[i]] += ((const double *)(const void *)from)[i];
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
    const cpu_convolution *c = p->c;
    const int64_t *at = c->columns + column;
    int64_t panel = c->gemm->panel, width = panel / 2;
    if (c->how != CPU_COPIED || n < panel || c->windows->axis[c->windows->spatial - 1].window < 3)
        return false;
    for (int64_t i = 1; i < panel; i++)
        if (i != width && at[i] != at[i - 1] + 1) return false;
    return is_beside(p) || step_of(c, column, n) == 1;
}

static const char *box_at(const part *p, int64_t column) {
    return p->scratch + (size_t)p->c->columns[column] * p->c->bytes;
}

/* A block of m features times one panel of n columns and `k` elements from `at` on; b NULL: they
 * are in the box. */
static void multiply_panel(const part *p, int64_t feature, int64_t m, int64_t column, int64_t n,
                           int64_t at, int64_t k, const char *a, const char *b) {
    const cpu_convolution *c = p->c;
    const ref_windows *w = c->windows;
    int64_t panel = c->gemm->panel, strides[2] = {w->out_feature, 1};
    char *to = out_of(p, feature) + (size_t)c->outs[column] * c->bytes;
    int64_t step = is_beside(p) ? 1 : step_of(c, column, n);
    bool add = p->add;
    if (is_beside(p)) {
        strides[0] = sums_row(p);
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
    const cpu_convolution *c = p->c;
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
    const cpu_convolution *c = p->c;
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
    const cpu_convolution *c = p->c;
    int64_t line = c->windows->axis[c->windows->spatial - 1].out, strides[2];
    if (c->windows->spatial == 1) line = p->some;
    const char *a = weights_of(p, 0, c->features, 0, p->k, true, p->scratch + c->raw, strides);
    for (int64_t f = 0; f < c->features; f++, a += (size_t)strides[0] * c->bytes) {
        char *out = out_of(p, f);
        for (int64_t j = 0; j < p->n; j += line)
            c->taps->sum_places(
                line, p->k, a, c->rows, p->scratch + (size_t)c->columns[j] * c->bytes,
                is_beside(p) ? sums_of(p, f, j) : out + (size_t)c->outs[j] * c->bytes, p->add);
    }
}

/* Place by place, in lines of elements of windows. */
static void sum_windows(const part *p) {
    const cpu_convolution *c = p->c;
    int64_t line = c->windows->axis[c->windows->spatial - 1].window, strides[2];
    if (c->windows->spatial == 1) line = p->window;
    const char *a = weights_of(p, 0, c->features, 0, p->k, true, p->scratch + c->raw, strides);
    for (int64_t f = 0; f < c->features; f++, a += (size_t)strides[0] * c->bytes)
        c->taps->sum_window(p->k / line, line, a, c->rows, p->scratch, p->n, c->columns,
                            p->scratch + c->tile + (size_t)(f * FEW_PLACES) * c->bytes, p->add);
}

static void store_windows(const part *p) {
    const cpu_convolution *c = p->c;
    for (int64_t f = 0; f < c->features; f++) {
        const char *from = p->scratch + c->tile + (size_t)(f * FEW_PLACES) * c->bytes;
        if (is_beside(p))
            memcpy(sums_of(p, f, 0), from, (size_t)p->n * c->bytes);
        else
            spread(p, f, 0, p->n, from, false);
    }
}

/* ---- items ---- */

static int64_t items_of(const cpu_convolution *c) { return c->groups * c->parts * c->items; }

static void set_item(part *p, int64_t item) {
    const cpu_convolution *c = p->c;
    int64_t out = c->windows->axis[0].out;
    p->batch = item / c->across * c->some_batch;
    p->batches = smaller(c->some_batch, c->batch - p->batch);
    p->first = item % c->across * c->some_first;
    p->some = smaller(c->some_first, out - p->first);
    if (p->some < 0) p->some = 0; /* of a lane that is shorter than others */
    p->column = p->batch * c->places + c->places / out * p->first;
    p->n = p->batches * (c->places / out) * p->some;
}

static void convolve_item(part *p, int64_t number) {
    const cpu_convolution *c = p->c;
    int64_t chunks = c->chunks, of_group = number / c->items;
    p->group = of_group / c->parts;
    p->number = of_group % c->parts;
    p->add = false;
    set_item(p, number % c->items);
    int64_t end = p->some ? (p->number + 1) * chunks / c->parts : 0;
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
    if (c->how == CPU_BY_WINDOW && p->some) store_windows(p);
}

/* n results of a feature, to every `step` elements of the result. */
static void write_line(const part *p, int64_t feature, int64_t column, int64_t n, int64_t step) {
    const cpu_convolution *c = p->c;
    const char *from = sums_of(p, feature, column);
    char *to = out_of(p, feature) + (size_t)c->outs[column] * c->bytes;
    if (c->bytes == sizeof(float))
        for (int64_t i = 0; i < n; i++)
            ((float *)(void *)to)[i * step] = ((const float *)(const void *)from)[i];
    else
        for (int64_t i = 0; i < n; i++)
            ((double *)(void *)to)[i * step] = ((const double *)(const void *)from)[i];
}

/* Line after line, those of all lanes. */
static void write_lanes(const part *lanes) {
    const cpu_convolutions *all = lanes->j->c;
    uint32_t last = all->whole.spatial - 1;
    int64_t lines = last ? lanes->n / lanes->c->windows->axis[last].out : lanes->batches;
    for (int64_t f = 0; f < lanes->c->features; f++)
        for (int64_t line = 0; line < lines; line++)
            for (const part *p = lanes; p < lanes + all->lanes; p++) {
                const ref_windows_axis *a = &p->c->windows->axis[last];
                int64_t n = last ? a->out : p->some;
                if (n) write_line(p, f, line * n, n, a->out_step);
            }
}

/* An item of each remainder after the other: their results lie near each other. */
static void convolve_range(void *context, uint32_t thread, int64_t begin, int64_t end) {
    job *j = context;
    const cpu_convolutions *all = j->c;
    char *scratch = scratch_of(j, thread);
    part lanes[CPU_BESIDE];
    int64_t from, count = all->count * all->items;
    while ((from = atomic_fetch_add(&j->next, j->some)) < count)
        for (int64_t i = from; i < from + j->some && i < count; i++) {
            int64_t item = i / all->count, number = i % all->count, lane = number % all->lanes;
            part *p = &lanes[lane];
            *p = (part){.j = j, .scratch = scratch + (size_t)all->lanes * all->lane_each};
            if (all->lanes > 1) p->lane = scratch + (size_t)lane * all->lane_each;
            set_remainder(p, number);
            if (item < items_of(p->c)) convolve_item(p, item);
            if (all->lanes > 1 && lane == all->lanes - 1) write_lanes(lanes);
        }
}

/* Rows of sums are joined part by part; an item is a feature of a remainder. */
static void join_range(void *context, uint32_t thread, int64_t begin, int64_t end) {
    const job *j = context;
    part p = {.j = j};
    for (; begin < end; begin++) {
        int64_t number = begin % j->c->whole.features;
        set_remainder(&p, begin / j->c->whole.features);
        const cpu_convolution *c = p.c;
        int64_t feature = number % c->features;
        if (c->parts < 2) continue;
        p.group = number / c->features;
        p.number = p.column = 0;
        char *all = sums_of(&p, feature, 0);
        for (p.number = 1; p.number < c->parts; p.number++)
            c->join(all, (const void *const[]){all, sums_of(&p, feature, 0)}, c->batch * c->places,
                    0, NULL);
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

static void convolve(job *j) {
    const cpu_convolutions *all = j->c;
    const cpu_convolution *c = all->shapes;
    shoal_device *device = j->run->device;
    int64_t threads = base_pool_threads(device->pool), count = all->count * all->items;
    int64_t each = c->features * c->k * c->n * divide_up(c->chunks, c->parts);
    int64_t together = all->items > threads ? all->count : all->lanes;
    j->some = (count / together / (threads * PARTS_PER_THREAD) + 1) * together;
    if (all->packed_each)
        cpu_parallel(device, all->count * all->blocks, 1 + GRAIN / (16 * c->block * c->depth),
                     pack_range, j);
    cpu_parallel(device, smaller(threads, count * each / GRAIN), 1, convolve_range, j);
    if (all->sums_each)
        cpu_parallel(device, all->count * all->whole.features,
                     1 + GRAIN / (c->batch * c->places * c->parts), join_range, j);
}

/* ---- zeros between elements ---- */

/* NaN at all places where an element of the window meets a zero between elements of the input. */
static void spoil_places(const job *j, int64_t feature, const int64_t *inside) {
    const ref_windows *w = &j->c->whole;
    int64_t sizes[SHOAL_MAX_RANK], place[SHOAL_MAX_RANK], places = 1;
    for (uint32_t i = 0; i < w->spatial; i++) places *= sizes[i] = w->axis[i].out;
    for (int64_t n = 0; n < places; n++) {
        int64_t at = feature * w->out_feature;
        bool between = false;
        cpu_split(n, w->spatial, sizes, place);
        for (uint32_t i = 0; i < w->spatial; i++) {
            const ref_windows_axis *a = &w->axis[i];
            between |= (place[i] * a->stride + inside[i] * a->window_gap - a->before) %
                           j->c->axis[i].gap !=
                       0;
            at += place[i] * a->out_step;
        }
        for (int64_t b = 0; between && b < w->batch / w->batch_groups; b++, at += w->out_batch)
            if (j->c->bytes == sizeof(float))
                ((float *)(void *)j->out)[at] = NAN;
            else
                ((double *)(void *)j->out)[at] = NAN;
    }
}

/* Items are features. */
static void spoil_range(void *context, uint32_t thread, int64_t begin, int64_t end) {
    const job *j = context;
    const ref_windows *w = &j->c->whole;
    const cpu_taps *taps = j->c->taps;
    int64_t sizes[SHOAL_MAX_RANK], inside[SHOAL_MAX_RANK], window = 1;
    for (uint32_t i = 0; i < w->spatial; i++) window *= sizes[i] = w->axis[i].window;
    for (; begin < end; begin++)
        for (int64_t n = 0; n < window; n++) {
            int64_t at = begin * w->rhs_feature;
            bool finite = true;
            cpu_split(n, w->spatial, sizes, inside);
            for (uint32_t i = 0; i < w->spatial; i++) {
                const ref_windows_axis *a = &w->axis[i];
                at += (a->reversed ? a->window - 1 - inside[i] : inside[i]) * a->window_step;
            }
            for (int64_t c = 0; finite && c < w->channels; c++, at += w->rhs_channel)
                finite = taps->finite(1, j->rhs + at * (int64_t)j->c->bytes);
            if (!finite) spoil_places(j, begin, inside);
        }
}

typedef struct weights {
    const job *j;
    _Atomic(bool) spoiled; /* some are not finite */
} weights;

static void look_at_weights(void *context, uint32_t thread, int64_t begin, int64_t end) {
    weights *w = context;
    const cpu_convolutions *c = w->j->c;
    if (!c->taps->finite(end - begin, w->j->rhs + (size_t)begin * c->bytes)) w->spoiled = true;
}

/* A zero between elements, times a weight that is an infinity or NaN, is NaN. */
static void spoil(job *j) {
    const ref_windows *w = &j->c->whole;
    int64_t each = w->channels;
    for (uint32_t i = 0; i < w->spatial; i++) each *= w->axis[i].window;
    weights all = {.j = j};
    cpu_parallel(j->run->device, w->features * each, GRAIN, look_at_weights, &all);
    if (all.spoiled)
        cpu_parallel(j->run->device, w->features, 1 + GRAIN / (16 * each), spoil_range, j);
}

/* ---- 16-bit numbers ---- */

/* wide: the bytes of either side as float32. */
static void widen(const cpu_run *run, const cpu_convolutions *c, int side, const char **operand) {
    char *to = run->workspace + c->wide[side];
    cpu_convert(run->device, c->widen, *operand, 2, to, sizeof(float),
                (int64_t)(c->wide_bytes[side] / sizeof(float)));
    *operand = to;
}

shoal_status cpu_convolve_run(const cpu_run *run, const cpu_step *step) {
    const cpu_convolutions *c = step->u.convolutions;
    const shoal_node *node = step->node;
    const shoal_type *type = &run->program->g->values[node->first_output].type;
    char *out = run->at[node->first_output];
    job j = {.run = run,
             .c = c,
             .lhs = run->at[node->inputs[0]],
             .rhs = run->at[node->inputs[1]],
             .out = out};
    if (c->widen) {
        widen(run, c, 0, &j.lhs);
        widen(run, c, 1, &j.rhs);
        j.out = run->workspace + c->wide[2];
    }
    if (c->zeros) memset(j.out, 0, c->widen ? c->wide_bytes[2] : (size_t)base_type_bytes(type));
    if (c->count) convolve(&j);
    if (c->dilated) spoil(&j);
    if (c->narrow)
        cpu_convert(run->device, c->narrow, j.out, sizeof(float), out, 2,
                    (int64_t)(c->wide_bytes[2] / sizeof(float)));
    return SHOAL_OK;
}
