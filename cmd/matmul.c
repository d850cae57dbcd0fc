/* `shoal matmul`: multiplies two files over a pool, and `shoal explain`: how it would. */
#include "check.h"
#include "output.h"
#include "product.h"
#include "progress.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Panels that are submitted and not yet read: one computes, one is on its way here, one waits. */
enum { MOST_IN_FLIGHT = 3 };

typedef struct flight {
    shoal_tensor *c;
    shoal_reading *reading;
    void *data;     /* where it is read to */
    cmd_block part; /* of the result */
    product_part parts[ARGS_MOST_SLOTS];
} flight;

typedef struct run {
    cmd_product product;
    shoal_writer *writer;
    cmd_check check;
    cmd_progress progress;
    flight flights[MOST_IN_FLIGHT];
    int64_t submitted, done, panels; /* panels: in all, of all blocks of columns */
    double flops_done;
    double place_seconds, seconds;
    uint64_t busy_ns[ARGS_MOST_SLOTS];
    double flops[ARGS_MOST_SLOTS];
    double lately_ns[ARGS_MOST_SLOTS], lately[ARGS_MOST_SLOTS]; /* the same, of the last panels */
    double first_shares[ARGS_MOST_SLOTS];
    product_part parts[ARGS_MOST_SLOTS]; /* rows summed over the panels */
} run;

/* The first columns of B; the others are placed while their predecessors are multiplied. */
static int place_b(run *r) {
    cmd_product *p = &r->product;
    double start = cmd_now();
    progress_phase(&r->progress, "placing B");
    int code = product_place(p, 0, p->n < p->block ? p->n : p->block);
    if (code == CMD_OK && p->b_placed) code = cmd_try(shoal_start(p->b_placed));
    if (code == CMD_OK) code = cmd_try(shoal_sync(p->pool.session));
    r->place_seconds = cmd_now() - start;
    return code;
}

static int64_t count_pieces(int64_t extent, int64_t piece) {
    return extent / piece + (extent % piece != 0);
}

/* The part of the result with a number: panel after panel of the rows, for each block of columns.
 */
static cmd_block part_of(const run *r, int64_t number) {
    const cmd_product *p = &r->product;
    int64_t panels = count_pieces(p->m, p->panel);
    cmd_block part = {number % panels * p->panel, p->panel, number / panels * p->block, p->block};
    if (part.rows > p->m - part.row) part.rows = p->m - part.row;
    if (part.columns > p->n - part.column) part.columns = p->n - part.column;
    return part;
}

static size_t part_bytes(const cmd_product *p, const cmd_block *part) {
    return (size_t)part->rows * (size_t)part->columns * shoal_dtype_size(p->result_dtype);
}

static int submit(run *r) {
    cmd_product *p = &r->product;
    flight *f = &r->flights[r->submitted % MOST_IN_FLIGHT];
    f->part = part_of(r, r->submitted);
    int code = CMD_OK;
    if (f->part.row == 0 && f->part.column > 0)
        code = product_place(p, f->part.column, f->part.columns);
    if (code == CMD_OK) code = product_panel(p, f->part.row, f->part.rows, &f->c);
    for (uint32_t i = 0; code == CMD_OK && i < p->n_slots; i++) f->parts[i] = product_part_of(p, i);
    if (code == CMD_OK)
        code = cmd_try(shoal_read_begin(f->c, f->data, part_bytes(p, &f->part), &f->reading));
    r->submitted++;
    return code;
}

/* To go through B takes a worker as long as so many rows (decision 200). */
static const double rows_aside = 32;

/* Shares the rows that are left by what each worker did in a second of late, so that all need as
 * long for a panel: speeds that were measured when it began are those of a moment. */
static void follow(run *r) {
    cmd_product *p = &r->product;
    double weights[ARGS_MOST_SLOTS] = {0};
    double all = 0, rows = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        if (!product_is_open(p, i)) continue;
        if (!(r->lately_ns[i] > 0)) return; /* not known yet */
        weights[i] = r->lately[i] / r->lately_ns[i];
        all += weights[i];
        rows += (double)p->panel * p->shares[i] + rows_aside;
    }
    /* Who stood still for once goes on with a little, by which it is seen how fast it is again. */
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (product_is_open(p, i))
            weights[i] = fmax(weights[i] / all * rows - rows_aside,
                              (double)p->panel * r->first_shares[i] / 16);
    product_share(p, weights);
    if (r->submitted < r->panels) product_make_up(p, part_of(r, r->submitted).rows);
}

/* Adds what each worker did for a panel. */
static int count_work(run *r, const flight *f) {
    static const double forget = 0.7;
    const cmd_product *p = &r->product;
    static shoal_slot_time times[ARGS_MOST_SLOTS];
    uint32_t count = ARGS_MOST_SLOTS;
    if (cmd_try(shoal_tensor_times(f->c, times, &count)) != CMD_OK) return CMD_FAILED;
    if (count > ARGS_MOST_SLOTS) count = ARGS_MOST_SLOTS;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        product_part part = f->parts[i];
        double a_row = 2 * (double)part.columns * (double)part.inner;
        uint64_t before = r->busy_ns[i];
        r->flops[i] += a_row * (double)part.rows;
        if (f->part.column == 0) r->parts[i].rows += part.rows;
        if (f->part.row == 0) r->parts[i].columns += part.columns;
        r->parts[i].inner = part.inner;
        for (uint32_t j = 0; j < count; j++)
            if (times[j].slot == p->slots[i]->slot) r->busy_ns[i] += times[j].busy_ns;
        if (part.rows == 0) continue;
        r->lately[i] = forget * r->lately[i] + a_row * ((double)part.rows + rows_aside);
        r->lately_ns[i] = forget * r->lately_ns[i] + (double)(r->busy_ns[i] - before);
    }
    if (p->follows) follow(r);
    return CMD_OK;
}

static int collect(run *r) {
    const cmd_product *p = &r->product;
    flight *f = &r->flights[r->done % MOST_IN_FLIGHT];
    const cmd_block *part = &f->part;
    int code = cmd_try(shoal_read_end(&f->reading));
    if (code == CMD_OK)
        code = cmd_try(shoal_writer_box(r->writer, (int64_t[]){part->row, part->column},
                                        (int64_t[]){part->rows, part->columns}, f->data));
    if (code == CMD_OK) code = count_work(r, f);
    if (code == CMD_OK && p->input->check) check_take(&r->check, part, f->data);
    shoal_tensor_free(&f->c);
    r->done++;
    r->flops_done += 2 * (double)part->rows * (double)part->columns * (double)p->k;
    return code;
}

static double all_flops(const cmd_product *p) {
    return 2 * (double)p->m * (double)p->k * (double)p->n;
}

static int multiply(run *r) {
    cmd_product *p = &r->product;
    double start = cmd_now();
    int code = CMD_OK;
    r->panels = count_pieces(p->m, p->panel) * count_pieces(p->n, p->block);
    progress_phase(&r->progress, "multiplying");
    memcpy(r->first_shares, p->shares, sizeof r->first_shares);
    while (code == CMD_OK && r->done < r->panels && cmd_stop == 0) {
        if (r->submitted < r->panels && r->submitted - r->done < MOST_IN_FLIGHT) {
            code = submit(r);
            continue;
        }
        code = collect(r);
        if (code == CMD_OK) progress_update(&r->progress, r->flops_done, all_flops(p));
    }
    r->seconds = cmd_now() - start;
    return code;
}

/* ---- the report ---- */

static double rate(double flops, double seconds) {
    return seconds > 0 ? flops / seconds * 1e-9 : 0;
}

static cJSON *list_workers(const run *r) {
    const cmd_product *p = &r->product;
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < p->n_slots; i++) {
        double busy = (double)r->busy_ns[i] * 1e-9;
        cJSON *row = product_row(p, i, r->parts[i]);
        cJSON_AddNumberToObject(row, "busy_seconds", busy);
        cJSON_AddNumberToObject(row, "gflops", rate(r->flops[i], busy));
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

static int report_json(const run *r) {
    const cmd_product *p = &r->product;
    cJSON *root = product_describe(p);
    cJSON_AddStringToObject(root, "output", p->input->out);
    cJSON_AddStringToObject(root, "output_dtype", shoal_dtype_name(p->result_dtype));
    cJSON_AddNumberToObject(root, "place_seconds", r->place_seconds);
    cJSON_AddNumberToObject(root, "seconds", r->seconds);
    cJSON_AddNumberToObject(root, "gflops", rate(all_flops(p), r->seconds));
    cJSON_AddItemToObject(root, "workers", list_workers(r));
    if (p->input->check) {
        cJSON *checked = cJSON_AddObjectToObject(root, "check");
        cJSON_AddNumberToObject(checked, "rows", r->check.n_rows);
        cJSON_AddNumberToObject(checked, "largest_error", r->check.error);
        cJSON_AddNumberToObject(checked, "limit", r->check.limit);
        cJSON_AddBoolToObject(checked, "ok", r->check.error <= r->check.limit);
    }
    return text_json(root);
}

/* "49,152 x 576 times 576 x 4,096 in float32" */
static void print_shape(const cmd_product *p) {
    char m[TEXT_ROOM], k[TEXT_ROOM], n[TEXT_ROOM];
    text_count(p->m, m);
    text_count(p->k, k);
    text_count(p->n, n);
    printf("%s x %s times %s x %s in %s", m, k, k, n, shoal_dtype_name(p->dtype));
}

static void report_text(const run *r) {
    static const text_column columns[] = {{"slot", "SLOT", NULL},
                                          {"worker", "WORKER", NULL},
                                          {"share_percent", "SHARE", text_show_percent},
                                          {"rows", "ROWS", text_show_count},
                                          {"columns", "COLUMNS", text_show_count},
                                          {"inner", "INNER", text_show_count},
                                          {"busy_seconds", "BUSY", text_show_seconds},
                                          {"gflops", "GFLOP/S", text_show_fixed}};
    const cmd_product *p = &r->product;
    char seconds[TEXT_ROOM], placing[TEXT_ROOM], size[TEXT_ROOM];
    double bytes = (double)p->m * (double)p->n * (double)shoal_dtype_size(p->result_dtype);
    print_shape(p);
    printf(", pool %s\n", p->pool.status.address);
    cJSON *rows = list_workers(r);
    text_table(rows, columns, sizeof columns / sizeof *columns);
    cJSON_Delete(rows);
    printf("%s, %.1f GFLOP/s ", text_seconds(r->seconds, seconds), rate(all_flops(p), r->seconds));
    if (p->b.mapped)
        puts("(the workers read A and B from the files)");
    else
        printf("(%s before that to place B)\n", text_seconds(r->place_seconds, placing));
    if (p->input->check)
        printf("check: %d rows recomputed in float64, largest relative error %.2g (limit %.2g)\n",
               r->check.n_rows, r->check.error, r->check.limit);
    printf("%s: %s\n", p->input->out, text_bytes((uint64_t)bytes, size));
}

static int finish(run *r) {
    const cmd_product *p = &r->product;
    int code = CMD_OK;
    if (p->input->check) {
        progress_phase(&r->progress, "checking");
        progress_end(&r->progress);
        code = check_finish(&r->check);
        if (code == CMD_OK && !(r->check.error <= r->check.limit))
            code = cmd_fail("check: the largest relative error is %.2g, more than %.2g; %s is not "
                            "written",
                            r->check.error, r->check.limit, p->input->out);
    }
    if (code == CMD_OK) code = cmd_try(shoal_writer_commit(&r->writer));
    if (code != CMD_OK) return code;
    /* Those that it was in the end. */
    for (uint32_t i = 0; p->follows && p->m > 0 && i < p->n_slots; i++)
        r->product.shares[i] = (double)r->parts[i].rows / (double)p->m;
    if (cmd_json) return report_json(r);
    if (!p->input->quiet) report_text(r);
    return CMD_OK;
}

static int work(run *r) {
    cmd_product *p = &r->product;
    const product_input *in = p->input;
    const shoal_type type = {(uint8_t)p->result_dtype, 2, {p->m, p->n}};
    int code = cmd_try(shoal_writer_open(in->out, &type, &r->writer));
    if (code != CMD_OK) return code;
    size_t row = (size_t)(p->n < p->block ? p->n : p->block) * shoal_dtype_size(p->result_dtype);
    for (int i = 0; i < MOST_IN_FLIGHT; i++) {
        r->flights[i].data = calloc((size_t)p->panel, row > 0 ? row : 1);
        if (r->flights[i].data == NULL)
            return cmd_fail("not enough memory for %lld rows of the result, %d times; give a "
                            "smaller --panel",
                            (long long)p->panel, MOST_IN_FLIGHT);
    }
    if (in->check) code = check_init(p, &r->check);
    if (code == CMD_OK) code = place_b(r);
    if (code == CMD_OK) code = multiply(r);
    progress_end(&r->progress);
    if (cmd_stop != 0 && (code != CMD_OK || r->done < r->panels))
        return cmd_fail("stopped at %.0f %%; %s is not written",
                        100 * r->flops_done / fmax(all_flops(p), 1), in->out);
    return code == CMD_OK ? finish(r) : code;
}

/* A result is written in the format that its name says. */
static bool has_format(const char *path) {
    const char *ending = output_ending(path);
    return !strcmp(ending, ".npy") || !strcmp(ending, ".safetensors") || !strcmp(ending, ".bin");
}

static int run_matmul(const cmd_command *self, int argc, char **argv) {
    static product_input in;
    static run r;
    product_parse(self, argc, argv, &in);
    if (in.out == NULL) cmd_usage("matmul needs a file to write: -o FILE");
    if (cmd_wide && in.quiet) cmd_usage("--wide: --quiet prints no table");
    if (output_check(in.out, in.force) != CMD_OK) return CMD_FAILED;
    if (!has_format(in.out))
        return cmd_fail("%s: a result is written as .npy, .safetensors or .bin; name it so",
                        in.out);
    cmd_catch_signals();
    progress_begin(&r.progress, in.quiet);
    int code = product_open(&in, &r.progress, &r.product);
    if (code == CMD_OK) code = work(&r);
    for (int i = 0; i < MOST_IN_FLIGHT; i++) {
        if (r.flights[i].reading && shoal_read_end(&r.flights[i].reading) != SHOAL_OK &&
            code == CMD_OK)
            code = CMD_FAILED;
        shoal_tensor_free(&r.flights[i].c);
        free(r.flights[i].data);
    }
    check_fini(&r.check);
    shoal_writer_close(&r.writer);
    product_close(&r.product);
    return cmd_stop != 0 && code != CMD_OK ? cmd_end_by_signal() : code;
}

const cmd_command cmd_matmul = {
    .name = "matmul",
    .group = CMD_COMPUTE,
    .args = "A B",
    .summary = "Multiply two matrices in files on a pool",
    .doc =
        "A and B are file.npy, file.bin, file.safetensors:tensor, file.gguf:tensor or "
        "file.pt:key.of.tensor; the name "
        "may be omitted if the file has one tensor. The result is computed in panels of rows "
        "and, where the workers lack the memory for B, in blocks of columns, so that neither "
        "operands nor result need fit into memory; the file appears once it is complete. Workers "
        "of this machine that would need blocks read A and B from the files instead, where B is "
        "no more than half of the machine's memory. A product in bfloat16 is written to a .npy as "
        "float32, as NumPy has no bfloat16.\n\nShares are "
        "proportions; with percent signs they must add up to 100. In a grid, the rows are "
        "split by the shares of the workers in each row of the grid, and the columns likewise.",
    .options = product_options,
    .take = product_take,
    .run = run_matmul};

/* ---- explain ---- */

/* What the first panel really took. */
typedef struct real {
    double seconds;
    uint32_t n_times, n_links;
    shoal_slot_time times[ARGS_MOST_SLOTS];
    shoal_link_time links[4 * ARGS_MOST_SLOTS];
} real;

static int run_really(shoal_tensor *c, real *out) {
    const shoal_type *type = shoal_tensor_type(c);
    size_t bytes =
        (size_t)(type->dims[0] * type->dims[1]) * shoal_dtype_size((shoal_dtype)type->dtype);
    void *data = malloc(bytes + 1);
    if (!data) return cmd_fail("no memory for a panel of %zu bytes", bytes);
    out->n_times = ARGS_MOST_SLOTS;
    out->n_links = 4 * ARGS_MOST_SLOTS;
    double from = cmd_now();
    int code = cmd_try(shoal_start(c));
    if (code == CMD_OK) code = cmd_try(shoal_tensor_times(c, out->times, &out->n_times));
    if (code == CMD_OK) code = cmd_try(shoal_tensor_links(c, out->links, &out->n_links));
    if (code == CMD_OK) code = cmd_try(shoal_read(c, data, bytes));
    out->seconds = cmd_now() - from;
    free(data);
    return code;
}

/* "w1 (slot 0)"; the client's memory is no worker's. */
static const char *slot_name(const cmd_product *p, uint32_t slot, char out[TEXT_ROOM]) {
    const char *name = "client";
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i]->slot == slot) name = p->slots[i]->worker;
    snprintf(out, TEXT_ROOM, "%.24s (slot %u)", name, slot);
    return out;
}

static cJSON *really_json(const cmd_product *p, const real *r) {
    cJSON *root = cJSON_CreateObject();
    cJSON *slots = cJSON_AddArrayToObject(root, "slots");
    cJSON *links = cJSON_AddArrayToObject(root, "links");
    cJSON_AddNumberToObject(root, "seconds", r->seconds);
    for (uint32_t i = 0; i < r->n_times; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "slot", r->times[i].slot);
        cJSON_AddNumberToObject(row, "seconds", (double)r->times[i].busy_ns * 1e-9);
        cJSON_AddItemToArray(slots, row);
    }
    for (uint32_t i = 0; i < r->n_links; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "from", r->links[i].from);
        cJSON_AddNumberToObject(row, "to", r->links[i].to);
        cJSON_AddNumberToObject(row, "bytes", (double)r->links[i].bytes);
        cJSON_AddNumberToObject(row, "seconds", (double)r->links[i].ns * 1e-9);
        cJSON_AddItemToArray(links, row);
    }
    return root;
}

static void really_text(const cmd_product *p, const real *r) {
    char from[TEXT_ROOM], to[TEXT_ROOM];
    char time[TEXT_ROOM], bytes[TEXT_ROOM];
    printf("it took %s, computing and moving:\n", text_seconds(r->seconds, time));
    for (uint32_t i = 0; i < r->n_times; i++)
        printf("%-40s %11s\n", slot_name(p, r->times[i].slot, from),
               text_seconds((double)r->times[i].busy_ns * 1e-9, time));
    for (uint32_t i = 0; i < r->n_links; i++)
        printf("%-18s to %-18s %11s %11s\n", slot_name(p, r->links[i].from, from),
               slot_name(p, r->links[i].to, to), text_seconds((double)r->links[i].ns * 1e-9, time),
               text_bytes(r->links[i].bytes, bytes));
}

static int explain_json(const cmd_product *p, const char *plan, const real *really) {
    cJSON *root = product_describe(p), *parsed = cJSON_Parse(plan);
    if (parsed == NULL) {
        cJSON_Delete(root);
        return cmd_fail("the plan is no JSON: %.80s", plan);
    }
    cJSON_AddItemToObject(root, "plan", parsed);
    if (really) cJSON_AddItemToObject(root, "real", really_json(p, really));
    return text_json(root);
}

static void explain_text(const cmd_product *p, const char *plan, const real *really) {
    char split[32], part[TEXT_ROOM];
    int64_t panels = count_pieces(p->m, p->panel) * count_pieces(p->n, p->block);
    print_shape(p);
    printf(": split %s over %u worker%s, %lld panel%s of %s rows, at most %d in flight\n",
           product_split_text(p, split), p->n_slots, p->n_slots == 1 ? "" : "s", (long long)panels,
           panels == 1 ? "" : "s", text_count(p->panel, part), MOST_IN_FLIGHT);
    printf("the plan of the first panel, with placing B:\n%s", plan);
    size_t length = strlen(plan);
    if (length == 0 || plan[length - 1] != '\n') putchar('\n');
    if (really) really_text(p, really);
}

static int run_explain(const cmd_command *self, int argc, char **argv) {
    static product_input in;
    static cmd_product p;
    static real really;
    static cmd_progress progress;
    shoal_tensor *c = NULL;
    char *plan = NULL;
    product_parse(self, argc, argv, &in);
    progress_begin(&progress, false);
    progress_phase(&progress, "planning");
    int code = product_open(&in, &progress, &p);
    progress_phase(&progress, "planning");
    if (code == CMD_OK) code = product_place(&p, 0, p.n < p.block ? p.n : p.block);
    if (code == CMD_OK) code = product_panel(&p, 0, p.m < p.panel ? p.m : p.panel, &c);
    if (code == CMD_OK) code = cmd_try(shoal_explain(c, cmd_json, &plan));
    if (code == CMD_OK && in.run) code = run_really(c, &really);
    progress_end(&progress);
    if (code == CMD_OK && cmd_json)
        code = explain_json(&p, plan, in.run ? &really : NULL);
    else if (code == CMD_OK)
        explain_text(&p, plan, in.run ? &really : NULL);
    free(plan);
    shoal_tensor_free(&c);
    product_close(&p);
    return code;
}

const cmd_command cmd_explain = {
    .name = "explain",
    .group = CMD_COMPUTE,
    .args = "A B",
    .summary = "Show how matmul would split a product; with --run, measure it",
    .doc = "With --run, the first panel is computed, and its actual times and transfers are shown "
           "beside the plan.",
    .options = product_explain_options,
    .take = product_take,
    .run = run_explain};
