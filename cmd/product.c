#include "product.h"

#include "output.h"
#include "text.h"

#include <math.h>
#include <string.h>

enum {
    KEY_CHECK = 0x100,
    KEY_DTYPE,
    KEY_ON,
    KEY_RUN,
    KEY_PANEL,
    KEY_ROWS_B,
    KEY_SHARE,
    KEY_SPLIT,
    KEY_TRANSPOSE_A,
    KEY_TRANSPOSE_B,
    KEY_WORKERS,
};

#define PRODUCT_OPTIONS                                                                            \
    {NULL, 0, NULL, 0, "The product", 1},                                                          \
        {"transpose-a", KEY_TRANSPOSE_A, NULL, 0, "Multiply the transpose of A", 1},               \
        {"transpose-b", KEY_TRANSPOSE_B, NULL, 0, "Multiply by the transpose of B", 1},            \
        {"rows-b", KEY_ROWS_B, "I:J", 0, "Use only rows I to J of B as stored, J excluded", 1},    \
        {"dtype",                                                                                  \
         KEY_DTYPE,                                                                                \
         "TYPE",                                                                                   \
         0,                                                                                        \
         "Compute in float16, bfloat16, float32 or float64 (default: the type of A and B)",        \
         1},                                                                                       \
        {NULL, 0, NULL, 0, "The pool", 2},                                                         \
        {"hub",                                                                                    \
         'H',                                                                                      \
         "ADDRESS",                                                                                \
         0,                                                                                        \
         "The pool's hub (default: SHOAL_HUB, else shm:hub if it runs, else a pool in this "       \
         "process)",                                                                               \
         2},                                                                                       \
        {"workers", KEY_WORKERS, "N", 0, "Without a hub: number of workers in this process", 2},   \
        {"share",                                                                                  \
         KEY_SHARE,                                                                                \
         "LIST",                                                                                   \
         0,                                                                                        \
         "Shares of the workers in order of their slots, such as 50,30,20 or 50%,30%,20%; those "  \
         "left out, as in 50%,-,-, divide the rest by speed (default: all do)",                    \
         2},                                                                                       \
        {"on",                                                                                     \
         KEY_ON,                                                                                   \
         "SLOTS",                                                                                  \
         0,                                                                                        \
         "Use these slots, by worker or host, and device or backend: desk,laptop/opencl, or with " \
         "shares: desk/cpu=50%,desk/opencl=30%,laptop",                                            \
         2},                                                                                       \
        {"split",                                                                                  \
         KEY_SPLIT,                                                                                \
         "HOW",                                                                                    \
         0,                                                                                        \
         "Split by rows (default) or columns of the result, by inner (the summed dimension), or "  \
         "in a "                                                                                   \
         "grid of rows and columns, such as 2x3",                                                  \
         2},                                                                                       \
        {"panel", KEY_PANEL, "ROWS", 0, "Rows of the result to compute at a time", 2}, {           \
        NULL, 0, NULL, 0, "The report", 3                                                          \
    }

const struct argp_option product_options[] = {
    PRODUCT_OPTIONS,
    {"output", 'o', "FILE", 0, "The .npy, .safetensors or .bin file to write", 1},
    OUTPUT_OPTION_FORCE,
    {"check", KEY_CHECK, NULL, 0, "Recompute some rows in float64, and fail if they differ", 3},
    {"quiet", 'q', NULL, 0, "Print no progress and no summary", 3},
    CMD_OPTION_WIDE,
    CMD_OPTIONS_END};
const struct argp_option product_split_options[] = {PRODUCT_OPTIONS, CMD_OPTION_WIDE,
                                                    CMD_OPTIONS_END};
const struct argp_option product_explain_options[] = {
    PRODUCT_OPTIONS,
    {"run", KEY_RUN, NULL, 0, "Compute the first panel, and measure it", 3},
    CMD_OPTIONS_END};

static void take_dtype(product_input *in, const char *arg) {
    if (shoal_dtype_find(arg, &in->dtype) != SHOAL_OK || shoal_dtype_kind(in->dtype) != 'f')
        cmd_usage("--dtype '%s': must be float16, bfloat16, float32 or float64", arg);
    in->typed = true;
}

void product_take(void *input, int key, char *arg) {
    product_input *in = input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (in->b != NULL)
            cmd_usage("there is a third file, '%s'; a product has two, A and B", arg);
        if (strcmp(arg, "-") == 0)
            cmd_usage("'-': files are mapped into memory, so that standard input cannot be read; "
                      "name a file");
        *(in->a == NULL ? &in->a : &in->b) = arg;
        break;
    case 'o': in->out = arg; break;
    case 'H': in->hub = arg; break;
    case 'q': in->quiet = true; break;
    case KEY_CHECK: in->check = true; break;
    case KEY_DTYPE: take_dtype(in, arg); break;
    case OUTPUT_KEY_FORCE: in->force = true; break;
    case KEY_RUN: in->run = true; break;
    case KEY_PANEL: in->panel = args_count("--panel", arg, 1, INT32_MAX); break;
    case KEY_ROWS_B: in->rows_b = args_rows("--rows-b", arg); break;
    case KEY_ON: args_named_slots("--on", arg, &in->on); break;
    case KEY_SHARE: args_shares("--share", arg, &in->share); break;
    case KEY_SPLIT: in->split = args_splits("--split", arg); break;
    case KEY_TRANSPOSE_A: in->transpose_a = true; break;
    case KEY_TRANSPOSE_B: in->transpose_b = true; break;
    case KEY_WORKERS:
        in->workers = (uint32_t)args_count("--workers", arg, 1, ARGS_MOST_SLOTS);
        break;
    }
}

void product_parse(const cmd_command *command, int argc, char **argv, product_input *out) {
    *out = (product_input){.rows_b = {0, -1}, .split = {0, 1, 1}};
    cmd_parse(command, argc, argv, out);
    out->shape = command->options == product_split_options && out->a != NULL && out->b == NULL &&
                 args_shape(out->a, out->extents);
    if (out->shape && (out->transpose_a || out->transpose_b || out->rows_b.last >= 0))
        cmd_usage("%s: a shape is that of what is multiplied; --transpose-a, --transpose-b and "
                  "--rows-b are for files",
                  out->a);
    if (!out->shape && out->b == NULL)
        cmd_usage("%s needs two files, A and B%s; see 'shoal %s --help'", command->name,
                  command->options == product_split_options ? ", or a shape such as 4096x4096x4096"
                                                            : "",
                  command->name);
    if (out->hub != NULL && out->workers != 0)
        cmd_usage(
            "--hub and --workers exclude each other: a pool has a hub, or is in this process");
    if (out->on.share.count != 0 && out->share.count != 0)
        cmd_usage("--on %s and --share both give shares; give them once", out->on.share.text);
    if (out->on.count != 0 && out->share.count != 0 && out->on.count != out->share.count)
        cmd_usage("--share %s has %u share%s for the %u slot%s of --on", out->share.text,
                  out->share.count, out->share.count == 1 ? "" : "s", out->on.count,
                  out->on.count == 1 ? "" : "s");
}

/* ---- checking it against the files and the pool ---- */

static int check_shapes(cmd_product *p) {
    const product_input *in = p->input;
    if (p->a.columns != p->b.rows)
        return cmd_fail("%s%s is %lld x %lld and %s%s is %lld x %lld: the %lld columns of the "
                        "first must be as many as the %lld rows of the second%s",
                        in->a, in->transpose_a ? " (transposed)" : "", (long long)p->a.rows,
                        (long long)p->a.columns, in->b, in->transpose_b ? " (transposed)" : "",
                        (long long)p->b.rows, (long long)p->b.columns, (long long)p->a.columns,
                        (long long)p->b.rows,
                        p->a.columns == p->b.columns ? "; --transpose-b makes them so" : "");
    if (!in->typed && p->a.dtype != p->b.dtype)
        return cmd_fail("%s is %s and %s is %s: give the type to compute in with --dtype", in->a,
                        shoal_dtype_name(p->a.dtype), in->b, shoal_dtype_name(p->b.dtype));
    p->m = p->a.rows;
    p->k = p->a.columns;
    p->n = p->b.columns;
    p->dtype = in->typed ? in->dtype : p->a.dtype;
    bool is_npy = !in->out || !strcmp(output_ending(in->out), ".npy"); /* which has no bfloat16 */
    p->result_dtype = p->dtype == SHOAL_BF16 && is_npy ? SHOAL_F32 : p->dtype;
    return CMD_OK;
}

/* The worker at a place of the grid. */
static uint32_t grid_index(const cmd_product *p, uint32_t row, uint32_t column, uint32_t inner) {
    return (row * p->split.columns + column) * p->split.inner + inner;
}

/* Cuts the next piece of an axis, so that each part has, with the pieces before, its share of all
 * of them, to the element: what is left after rounding down goes to those that it is taken from. */
static void cut(product_axis *axis, int64_t extent, int64_t *cuts) {
    double want[ARGS_MOST_SLOTS], total = (double)extent;
    int64_t size[ARGS_MOST_SLOTS], rest = extent;
    for (uint32_t i = 0; i < axis->parts; i++) total += axis->given[i];
    for (uint32_t i = 0; i < axis->parts; i++) {
        want[i] = axis->shares[i] * total - axis->given[i];
        size[i] = (int64_t)floor(fmax(want[i], 0) + 1e-6); /* 30 % of 10 is 3 */
        rest -= size[i];
    }
    for (int64_t step = rest > 0 ? 1 : -1; rest != 0; rest -= step) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < axis->parts; i++) {
            if (step < 0 && size[i] == 0) continue;
            double off = (double)step * (want[i] - (double)size[i]);
            if (best == UINT32_MAX || off > (double)step * (want[best] - (double)size[best]))
                best = i;
        }
        size[best] += step;
    }
    cuts[0] = 0;
    for (uint32_t i = 0; i < axis->parts; i++) {
        cuts[i + 1] = cuts[i] + size[i];
        axis->given[i] += (double)size[i];
    }
}

static const args_share *shares_of(const product_input *in) {
    return in->on.share.count != 0 ? &in->on.share : &in->share;
}

/* Slot `ordinal` of those that were chosen, if it has a share above 0 or is to get one. */
static void add_slot(cmd_product *p, const shoal_slot *slot, uint32_t ordinal) {
    const args_share *share = shares_of(p->input);
    bool given = ordinal < share->count, open = !given || share->open[ordinal];
    double value = open ? slot->weight : share->values[ordinal];
    if (value <= 0 || p->n_slots == ARGS_MOST_SLOTS) return;
    p->ordinals[p->n_slots] = ordinal;
    p->slots[p->n_slots] = slot;
    p->shares[p->n_slots++] = value;
}

/* The slots of --on. */
static int add_named(cmd_product *p) {
    const args_slots *on = &p->input->on;
    uint32_t slots[ARGS_MOST_SLOTS];
    int code = cmd_try(shoal_slots_find(p->pool.session, on->names, on->count, slots));
    for (uint32_t i = 0; code == CMD_OK && i < on->count; i++)
        for (uint32_t j = 0; j < p->pool.status.n_slots; j++)
            if (p->pool.slots[j].slot == slots[i]) add_slot(p, &p->pool.slots[j], i);
    return code;
}

/* All that compute. */
static int add_all(cmd_product *p) {
    const args_share *share = &p->input->share;
    uint32_t workers = 0;
    char names[512] = "";
    for (uint32_t i = 0; i < p->pool.status.n_slots; i++) {
        const shoal_slot *slot = &p->pool.slots[i];
        if (!slot->compute) continue;
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "", slot->worker);
        add_slot(p, slot, workers++);
    }
    if (workers == 0)
        return cmd_fail("the pool %s has no workers; start one with: shoal worker",
                        p->pool.status.address);
    if (share->count != 0 && share->count != workers)
        return cmd_fail(
            "--share %s has %u share%s, but the pool has %u worker%s (%s): give one for "
            "each",
            share->text, share->count, share->count == 1 ? "" : "s", workers,
            workers == 1 ? "" : "s", names);
    return CMD_OK;
}

bool product_is_open(const cmd_product *p, uint32_t slot) {
    const args_share *share = shares_of(p->input);
    return share->count == 0 || share->open[p->ordinals[slot]];
}

/* Makes the shares add up to 1: what was left open, to what the percentages leave. */
static void settle_shares(cmd_product *p) {
    double fixed = 0, open = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        *(product_is_open(p, i) ? &open : &fixed) += p->shares[i];
    }
    for (uint32_t i = 0; i < p->n_slots; i++) {
        if (fixed <= 0 || open <= 0)
            p->shares[i] /= fixed + open;
        else if (product_is_open(p, i))
            p->shares[i] = p->shares[i] / open * (1 - fixed / 100);
        else
            p->shares[i] /= 100;
    }
}

/* Each axis is cut in proportion to the shares of the workers that lie in each of its slices. */
static void share_axes(cmd_product *p) {
    product_axis *rows = &p->rows_axis, *columns = &p->columns_axis, *inner = &p->inner_axis;
    rows->parts = p->split.rows;
    columns->parts = p->split.columns;
    inner->parts = p->split.inner;
    memset(rows->shares, 0, sizeof rows->shares);
    memset(columns->shares, 0, sizeof columns->shares);
    memset(inner->shares, 0, sizeof inner->shares);
    for (uint32_t r = 0; r < p->split.rows; r++)
        for (uint32_t c = 0; c < p->split.columns; c++)
            for (uint32_t i = 0; i < p->split.inner; i++) {
                double share = p->shares[grid_index(p, r, c, i)];
                rows->shares[r] += share;
                columns->shares[c] += share;
                inner->shares[i] += share;
            }
    memset(inner->given, 0, sizeof inner->given);
    cut(inner, p->k, p->inner_cuts);
}

bool product_share(cmd_product *p, const double *weights) {
    const args_share *share = shares_of(p->input);
    bool any = false;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        bool open = product_is_open(p, i);
        p->shares[i] = open ? weights[i] : share->values[p->ordinals[i]];
        any |= open;
    }
    settle_shares(p);
    share_axes(p);
    return any;
}

void product_make_up(cmd_product *p, int64_t rows) {
    product_axis *axis = &p->rows_axis;
    double more[ARGS_MOST_SLOTS] = {0}, given = 0, shares = 0, part = 0.5;
    for (uint32_t i = 0; i < axis->parts; i++) {
        if (!product_is_open(p, i)) continue;
        given += axis->given[i];
        shares += axis->shares[i];
    }
    for (uint32_t i = 0; i < axis->parts && shares > 0; i++) {
        if (!product_is_open(p, i)) continue;
        more[i] = axis->given[i] - axis->shares[i] / shares * given;
        double least = axis->shares[i] * (double)rows;
        if (more[i] * part > least) part = least / more[i];
    }
    for (uint32_t i = 0; i < axis->parts; i++) axis->given[i] -= (1 - part) * more[i];
}

int product_weigh(cmd_product *p) {
    const args_share *share = shares_of(p->input);
    uint32_t slots[ARGS_MOST_SLOTS];
    double weights[ARGS_MOST_SLOTS];
    if (p->n_slots < 2 || (share->count != 0 && !share->some_open)) return CMD_OK;
    for (uint32_t i = 0; i < p->n_slots; i++) slots[i] = p->slots[i]->slot;
    int code = cmd_try(shoal_slots_weigh(p->pool.session, p->dtype, slots, p->n_slots, weights));
    if (code == CMD_OK) product_share(p, weights);
    return code;
}

static int choose_split(cmd_product *p) {
    args_split split = p->input->split;
    uint32_t given = (split.rows ? split.rows : 1) * (split.columns ? split.columns : 1);
    if (split.rows == 0) split.rows = p->n_slots;
    if (split.columns == 0) split.columns = p->n_slots;
    if (split.inner == 0) split.inner = p->n_slots;
    p->split = split;
    if (split.rows * split.columns * split.inner == p->n_slots) return CMD_OK;
    return cmd_fail("--split %ux%u needs %u workers, but %u take%s part", split.rows, split.columns,
                    given, p->n_slots, p->n_slots == 1 ? "s" : "");
}

static int product_slots(cmd_product *p) {
    int code = p->input->on.count != 0 ? add_named(p) : add_all(p);
    if (code != CMD_OK) return code;
    if (p->n_slots == 0) return cmd_fail("every worker of the pool has weight 0; give --share");
    code = choose_split(p);
    if (code != CMD_OK) return code;
    settle_shares(p);
    share_axes(p);
    return CMD_OK;
}

/* What part of its memory a slot may count on: slots of a machine share that of the machine, unless
 * what they were given is less in all. */
static double part_of_memory(const cmd_product *p, const shoal_slot *slot) {
    double told = 0;
    uint32_t beside = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        if (strcmp(p->slots[i]->host, slot->host) != 0) continue;
        beside++;
        told += (double)p->slots[i]->memory;
    }
    return told < (double)slot->machine / 2 ? 1 : 1.0 / beside;
}

/* Bytes that each slot may take, where that is known. */
static double room_of(const cmd_product *p, uint32_t index) {
    const shoal_slot *slot = p->slots[index];
    if (slot->memory == 0) return INFINITY;
    if (slot->memory < slot->bytes) return 0;
    return (double)(slot->memory - slot->bytes) * part_of_memory(p, slot);
}

/* As many columns of B as leave most of the memory to others: the next ones come while these are
 * multiplied, and A and the result take their part. */
static void choose_block(cmd_product *p) {
    const double part = 4;
    double size = (double)shoal_dtype_size(p->dtype), columns = (double)p->n;
    for (uint32_t r = 0; r < p->split.rows; r++)
        for (uint32_t c = 0; c < p->split.columns; c++)
            for (uint32_t i = 0; i < p->split.inner; i++) {
                double bytes =
                    (double)p->k * p->inner_axis.shares[i] * size * p->columns_axis.shares[c];
                double most = room_of(p, grid_index(p, r, c, i)) / part / (bytes + 1e-9);
                columns = fmin(columns, most);
            }
    p->block = columns < 1 ? 1 : (int64_t)columns;
    if (p->block > 64 && p->block < p->n) p->block -= p->block % 64;
}

/* ---- files that the workers map ---- */

static const double least_per_worker = 128; /* rows of a panel, for kernels at full speed */

/* Whether workers compute with A where its file is mapped: in memory that is nobody's. */
static bool a_lies(const cmd_product *p) {
    return p->split.inner == 1 && operand_lies(&p->a, p->dtype);
}

/* Rows of A whose panels the slots have room for, with all of B's columns, or a block of them. */
static double rows_of_panel(const cmd_product *p, int64_t columns) {
    const double bytes = 64 << 20, in_flight = 8, in_flight_on_one = 5;
    double room = bytes, size = (double)shoal_dtype_size(p->dtype);
    int64_t held = columns + (a_lies(p) ? 0 : p->k); /* per row */
    for (uint32_t i = 0; i < p->n_slots; i++) {
        double own = room_of(p, i);
        room = fmin(room, own / in_flight * p->split.rows);
        if (p->follows) room = fmin(room, own / in_flight_on_one); /* one may get nearly all */
    }
    return room / ((double)held * size + 1);
}

/* Whether workers are to read the files themselves: B's blocks would not be held at once, so that A
 * would be sent several times, but B as it lies in its file fits into the machine's memory beside
 * as much again, and panels as wide as B have enough rows. All of B is read for each panel; if it
 * had to come from a disk each time, or panels were narrow, blocks of it would be faster. */
static bool may_map(const cmd_product *p) {
    cmd_product mapped = *p;
    mapped.a.mapped = mapped.b.mapped = true;
    double bytes = (double)p->k * (double)p->n * (double)shoal_dtype_size(p->dtype);
    double enough = fmin((double)p->m, least_per_worker * p->split.rows);
    if (p->input->panel > 0) enough = (double)p->input->panel;
    bool may = p->block < p->n && p->split.columns == 1 && !p->input->shape &&
               operand_may_map(&p->a) && operand_may_map(&p->b) &&
               operand_lies(&mapped.b, p->dtype) && rows_of_panel(&mapped, p->n) >= enough;
    for (uint32_t i = 0; i < p->n_slots && may; i++)
        may = p->slots[i]->maps && 2 * bytes <= (double)p->slots[i]->machine;
    return may;
}

static bool tell_read(void *context, uint64_t done, uint64_t all) {
    if (context) progress_update(context, (double)done, (double)all);
    return cmd_stop == 0;
}

static int map_files(cmd_product *p, cmd_progress *progress) {
    if (progress) {
        progress_phase(progress, "reading");
        progress->bytes = true;
    }
    int code = operand_map(&p->a, tell_read, progress);
    if (code == CMD_OK) code = operand_map(&p->b, tell_read, progress);
    if (progress) {
        progress_end(progress);
        progress->bytes = false;
    }
    return code;
}

/* About a tenth of a second of work on a small machine, so that progress shows and little is in
 * flight; enough rows for each worker that its kernels run at full speed: they go through all of B
 * for each panel, which many rows are to share. */
static void choose_panel(cmd_product *p) {
    const double operations = 1.6e10, least = 256, most = 2048, enough_per_worker = 512;
    double rows = operations / (2 * (double)p->k * (double)p->block + 1);
    double floor_rows = fmax(least, least_per_worker * p->split.rows);
    floor_rows = fmax(floor_rows, fmin((double)p->m / 8, enough_per_worker * p->split.rows));
    rows = fmin(fmax(rows, floor_rows), fmax(most, floor_rows));
    rows = fmin(rows, fmax(16, rows_of_panel(p, p->block)));
    p->panel = p->input->panel > 0 ? p->input->panel : (int64_t)rows;
    if (p->panel > p->m) p->panel = p->m > 0 ? p->m : 1;
}

/* Of fewer rows of a panel one cannot tell how fast a slot is. */
static const double least_following = 64;

/* Where B lies, or how many rows somebody asked for, stays. */
static bool may_follow(const cmd_product *p) {
    const args_share *share = shares_of(p->input);
    bool may =
        p->n_slots > 1 && p->split.rows == p->n_slots && (share->count == 0 || share->some_open);
    for (uint32_t i = 0; i < p->n_slots && may; i++) may = !p->slots[i]->weighted;
    return may;
}

/* Products that take less are over before the slots have been measured. */
static bool is_worth_weighing(const cmd_product *p) {
    return 2 * (double)p->m * (double)p->k * (double)p->n > 4e9;
}

static int open_files(const product_input *input, cmd_product *out) {
    int code = operand_open(input->a, (args_range){0, -1}, input->transpose_a, &out->a);
    return code != CMD_OK ? code
                          : operand_open(input->b, input->rows_b, input->transpose_b, &out->b);
}

static int open_shape(const product_input *input, cmd_product *out) {
    shoal_dtype dtype = input->typed ? input->dtype : SHOAL_F32;
    operand_shape("A", input->extents[0], input->extents[1], dtype, &out->a);
    operand_shape("B", input->extents[1], input->extents[2], dtype, &out->b);
    return CMD_OK;
}

int product_open(const product_input *input, cmd_progress *progress, cmd_product *out) {
    *out = (cmd_product){.input = input};
    int code = input->shape ? open_shape(input, out) : open_files(input, out);
    if (code == CMD_OK) code = check_shapes(out);
    if (code == CMD_OK) code = pool_join(input->hub, input->workers, &out->pool);
    if (code == CMD_OK) code = product_slots(out);
    if (code == CMD_OK && is_worth_weighing(out)) code = product_weigh(out);
    out->pool.progress = progress;
    if (code != CMD_OK) return code;
    out->follows = may_follow(out);
    choose_block(out);
    if (may_map(out)) {
        code = map_files(out, progress);
        out->block = out->n;
    }
    if (code == CMD_OK) choose_panel(out);
    out->follows &= (double)out->panel >= least_following * out->n_slots;
    return code;
}

void product_close(cmd_product *product) {
    shoal_tensor_free(&product->b_placed);
    pool_close(&product->pool);
    operand_close(&product->a);
    operand_close(&product->b);
}

/* ---- its parts as tensors ---- */

/* Spreads a matrix, cut on both axes, over the slots: `copies` per part. */
static int place(shoal_tensor **x, uint32_t parts0, const int64_t *cuts0, uint32_t parts1,
                 const int64_t *cuts1, uint32_t copies, const uint32_t *slots) {
    int64_t cuts[2 * (ARGS_MOST_SLOTS + 1)];
    shoal_tensor *placed = NULL;
    memcpy(cuts, cuts0, (parts0 + 1) * sizeof *cuts);
    memcpy(cuts + parts0 + 1, cuts1, (parts1 + 1) * sizeof *cuts);
    const shoal_layout layout = {.size = sizeof layout,
                                 .parts = (uint32_t[]){parts0, parts1},
                                 .cuts = cuts,
                                 .copies = copies,
                                 .slots = slots,
                                 .n_slots = parts0 * parts1 * copies};
    int code = cmd_try(shoal_place(*x, &layout, &placed));
    shoal_tensor_free(x);
    *x = placed;
    return code;
}

/* The block of B as it is to lie. */
static int make_b(const cmd_product *p, shoal_tensor **out) {
    uint32_t slots[ARGS_MOST_SLOTS], n = 0;
    int code = operand_block(&p->b, &p->b_block, p->dtype, p->pool.session, out);
    if (code != CMD_OK) return code;
    for (uint32_t i = 0; i < p->split.inner; i++)
        for (uint32_t c = 0; c < p->split.columns; c++)
            for (uint32_t r = 0; r < p->split.rows; r++)
                slots[n++] = p->slots[grid_index(p, r, c, i)]->slot;
    return place(out, p->split.inner, p->inner_cuts, p->split.columns, p->column_cuts,
                 p->split.rows, slots);
}

int product_place(cmd_product *p, int64_t first, int64_t columns) {
    shoal_tensor_free(&p->b_placed);
    p->b_block = (cmd_block){0, p->k, first, columns};
    cut(&p->columns_axis, columns, p->column_cuts);
    memset(p->rows_axis.given, 0, sizeof p->rows_axis.given);
    return p->b.mapped ? CMD_OK : make_b(p, &p->b_placed);
}

int product_panel(cmd_product *p, int64_t first, int64_t rows, shoal_tensor **out) {
    uint32_t slots[ARGS_MOST_SLOTS], n = 0;
    const cmd_block block = {first, rows, 0, p->k};
    shoal_tensor *a = NULL, *b = NULL, *c = NULL;
    *out = NULL;
    for (uint32_t r = 0; r < p->split.rows; r++)
        for (uint32_t i = 0; i < p->split.inner; i++)
            for (uint32_t col = 0; col < p->split.columns; col++)
                slots[n++] = p->slots[grid_index(p, r, col, i)]->slot;
    cut(&p->rows_axis, rows, p->row_cuts);
    int code = operand_block(&p->a, &block, p->dtype, p->pool.session, &a);
    if (code == CMD_OK)
        code = place(&a, p->split.rows, p->row_cuts, p->split.inner, p->inner_cuts,
                     p->split.columns, slots);
    if (code == CMD_OK && p->b.mapped) code = make_b(p, &b);
    if (code == CMD_OK) code = cmd_try(shoal_matmul(a, b ? b : p->b_placed, &c));
    shoal_tensor_free(&a);
    shoal_tensor_free(&b);
    if (code != CMD_OK || p->result_dtype == p->dtype) {
        *out = c;
        return code;
    }
    code = cmd_try(shoal_convert(c, p->result_dtype, out));
    shoal_tensor_free(&c);
    return code;
}

product_part product_part_of(const cmd_product *p, uint32_t index) {
    uint32_t inner = index % p->split.inner;
    uint32_t column = index / p->split.inner % p->split.columns;
    uint32_t row = index / p->split.inner / p->split.columns;
    return (product_part){p->row_cuts[row + 1] - p->row_cuts[row],
                          p->column_cuts[column + 1] - p->column_cuts[column],
                          p->inner_cuts[inner + 1] - p->inner_cuts[inner]};
}

const char *product_split_text(const cmd_product *p, char out[32]) {
    if (p->input->split.rows == 0) return "rows";
    if (p->input->split.columns == 0) return "columns";
    if (p->input->split.inner == 0) return "inner";
    snprintf(out, 32, "%ux%u", p->split.rows, p->split.columns);
    return out;
}

cJSON *product_describe(const cmd_product *p) {
    char split[32];
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "a", p->input->a);
    if (p->input->b != NULL) cJSON_AddStringToObject(root, "b", p->input->b);
    cJSON_AddNumberToObject(root, "m", (double)p->m);
    cJSON_AddNumberToObject(root, "k", (double)p->k);
    cJSON_AddNumberToObject(root, "n", (double)p->n);
    cJSON_AddStringToObject(root, "dtype", shoal_dtype_name(p->dtype));
    cJSON_AddStringToObject(root, "pool", p->pool.status.address);
    cJSON_AddStringToObject(root, "split", product_split_text(p, split));
    cJSON_AddNumberToObject(root, "panel_rows", (double)p->panel);
    cJSON_AddNumberToObject(root, "block_columns", (double)p->block);
    cJSON_AddBoolToObject(root, "mapped", p->b.mapped);
    return root;
}

cJSON *product_row(const cmd_product *p, uint32_t i, product_part part) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "worker", p->slots[i]->worker);
    cJSON_AddNumberToObject(row, "slot", p->slots[i]->slot);
    cJSON_AddStringToObject(row, "backend", p->slots[i]->backend);
    cJSON_AddStringToObject(row, "device", p->slots[i]->name);
    cJSON_AddNumberToObject(row, "share_percent", p->shares[i] * 100);
    cJSON_AddNumberToObject(row, "rows", (double)part.rows);
    cJSON_AddNumberToObject(row, "columns", (double)part.columns);
    cJSON_AddNumberToObject(row, "inner", (double)part.inner);
    return row;
}
