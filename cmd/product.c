#include "product.h"

#include "output.h"
#include "text.h"

#include <math.h>
#include <string.h>

enum {
    KEY_CHECK = 0x100,
    KEY_DTYPE,
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
         "Shares of the workers in order of their slots, such as 50,30,20 or 50%,30%,20% "         \
         "(default: their weights)",                                                               \
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
    if (out->b == NULL)
        cmd_usage("%s needs two files, A and B; see 'shoal %s --help'", command->name,
                  command->name);
    if (out->hub != NULL && out->workers != 0)
        cmd_usage(
            "--hub and --workers exclude each other: a pool has a hub, or is in this process");
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

/* The compute slots that have a share above 0, with their shares. */
static int choose_slots(cmd_product *p) {
    const args_share *share = &p->input->share;
    uint32_t workers = 0;
    double sum = 0;
    char names[512] = "";
    for (uint32_t i = 0; i < p->pool.status.n_slots; i++) {
        const shoal_slot *slot = &p->pool.slots[i];
        if (!slot->compute) continue;
        size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "", slot->worker);
        double value = share->count == 0        ? slot->weight
                       : workers < share->count ? share->values[workers]
                                                : 0;
        workers++;
        if (value <= 0 || p->n_slots == ARGS_MOST_SLOTS) continue;
        p->slots[p->n_slots] = slot;
        p->shares[p->n_slots++] = value;
        sum += value;
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
    if (p->n_slots == 0) return cmd_fail("every worker of the pool has weight 0; give --share");
    for (uint32_t i = 0; i < p->n_slots; i++) p->shares[i] /= sum;
    return CMD_OK;
}

/* Cut points in proportion to weights: part i ends at round(share of the first i parts). */
static void cut(int64_t extent, const double *weights, uint32_t n, int64_t *cuts) {
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) total += weights[i];
    cuts[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += weights[i];
        int64_t end = (int64_t)llround(sum / total * (double)extent);
        cuts[i + 1] = end > extent || i == n - 1 ? extent : end;
    }
}

/* The worker at a place of the grid. */
static uint32_t grid_index(const cmd_product *p, uint32_t row, uint32_t column, uint32_t inner) {
    return (row * p->split.columns + column) * p->split.inner + inner;
}

/* Each axis is cut in proportion to the shares of the workers that lie in each of its slices. */
static void cut_axes(cmd_product *p) {
    double columns[ARGS_MOST_SLOTS] = {0}, inner[ARGS_MOST_SLOTS] = {0};
    for (uint32_t r = 0; r < p->split.rows; r++)
        for (uint32_t c = 0; c < p->split.columns; c++)
            for (uint32_t i = 0; i < p->split.inner; i++) {
                double share = p->shares[grid_index(p, r, c, i)];
                p->row_shares[r] += share;
                columns[c] += share;
                inner[i] += share;
            }
    cut(p->n, columns, p->split.columns, p->column_cuts);
    cut(p->k, inner, p->split.inner, p->inner_cuts);
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

/* About a tenth of a second of work on a small machine, so that progress shows and little is in
 * flight; enough rows for each worker that its kernels run at full speed. */
static void choose_panel(cmd_product *p) {
    const double operations = 1.6e10, bytes = 64 << 20;
    const double least = 256, most = 2048, least_per_worker = 128;
    double size = (double)shoal_dtype_size(p->dtype);
    double rows = operations / (2 * (double)p->k * (double)p->n + 1);
    double floor_rows = fmax(least, least_per_worker * p->split.rows);
    rows = fmin(fmax(rows, floor_rows), fmax(most, floor_rows));
    rows = fmin(rows, fmax(16, bytes / (((double)p->k + (double)p->n) * size + 1)));
    p->panel = p->input->panel > 0 ? p->input->panel : (int64_t)rows;
    if (p->panel > p->m) p->panel = p->m > 0 ? p->m : 1;
}

int product_open(const product_input *input, cmd_product *out) {
    *out = (cmd_product){.input = input};
    int code = operand_open(input->a, (args_range){0, -1}, input->transpose_a, &out->a);
    if (code == CMD_OK) code = operand_open(input->b, input->rows_b, input->transpose_b, &out->b);
    if (code == CMD_OK) code = check_shapes(out);
    if (code != CMD_OK) return code;
    code = pool_join(input->hub, input->workers, &out->pool);
    if (code == CMD_OK) code = choose_slots(out);
    if (code == CMD_OK) code = choose_split(out);
    if (code != CMD_OK) return code;
    choose_panel(out);
    cut_axes(out);
    return CMD_OK;
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

int product_place(cmd_product *p) {
    uint32_t slots[ARGS_MOST_SLOTS], n = 0;
    int code = operand_block(&p->b, 0, p->b.rows, p->dtype, p->pool.session, &p->b_placed);
    if (code != CMD_OK) return code;
    for (uint32_t i = 0; i < p->split.inner; i++)
        for (uint32_t c = 0; c < p->split.columns; c++)
            for (uint32_t r = 0; r < p->split.rows; r++)
                slots[n++] = p->slots[grid_index(p, r, c, i)]->slot;
    return place(&p->b_placed, p->split.inner, p->inner_cuts, p->split.columns, p->column_cuts,
                 p->split.rows, slots);
}

int product_panel(cmd_product *p, int64_t first, int64_t rows, shoal_tensor **out) {
    uint32_t slots[ARGS_MOST_SLOTS], n = 0;
    int64_t cuts[ARGS_MOST_SLOTS + 1];
    shoal_tensor *a = NULL, *c = NULL;
    *out = NULL;
    for (uint32_t r = 0; r < p->split.rows; r++)
        for (uint32_t i = 0; i < p->split.inner; i++)
            for (uint32_t col = 0; col < p->split.columns; col++)
                slots[n++] = p->slots[grid_index(p, r, col, i)]->slot;
    cut(rows, p->row_shares, p->split.rows, cuts);
    int code = operand_block(&p->a, first, rows, p->dtype, p->pool.session, &a);
    if (code == CMD_OK)
        code =
            place(&a, p->split.rows, cuts, p->split.inner, p->inner_cuts, p->split.columns, slots);
    if (code == CMD_OK) code = cmd_try(shoal_matmul(a, p->b_placed, &c));
    shoal_tensor_free(&a);
    if (code != CMD_OK || p->result_dtype == p->dtype) {
        *out = c;
        return code;
    }
    code = cmd_try(shoal_convert(c, p->result_dtype, out));
    shoal_tensor_free(&c);
    return code;
}

product_part product_part_of(const cmd_product *p, uint32_t index, int64_t rows) {
    int64_t cuts[ARGS_MOST_SLOTS + 1];
    uint32_t inner = index % p->split.inner;
    uint32_t column = index / p->split.inner % p->split.columns;
    uint32_t row = index / p->split.inner / p->split.columns;
    cut(rows, p->row_shares, p->split.rows, cuts);
    return (product_part){cuts[row + 1] - cuts[row],
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
