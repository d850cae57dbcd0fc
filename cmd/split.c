/* `shoal split`: in which shares a product would best be divided, and how long each slot would
 * take, by the planner's own figures. */
#include "product.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* Shares follow the times that a plan expects, which is then made anew. */
enum { ROUNDS = 3 };

typedef struct forecast {
    cmd_product product;
    double seconds, bytes; /* of the whole plan: until the last slot is ready, and moved */
    struct {
        double flops, seconds, in, out;
    } slots[ARGS_MOST_SLOTS];
} forecast;

static double number_of(const cJSON *row, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static int read_plan(forecast *f, const char *text) {
    const cmd_product *p = &f->product;
    cJSON *plan = cJSON_Parse(text), *row;
    if (plan == NULL) return cmd_fail("the plan is no JSON: %.80s", text);
    f->seconds = number_of(plan, "seconds");
    f->bytes = number_of(plan, "bytes_moved");
    memset(f->slots, 0, sizeof f->slots);
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(plan, "slots")) {
        uint32_t i = 0;
        while (i < p->n_slots && p->slots[i]->slot != (uint32_t)number_of(row, "slot")) i++;
        if (i == p->n_slots) continue;
        f->slots[i].flops = number_of(row, "flops");
        f->slots[i].seconds = number_of(row, "seconds");
        f->slots[i].in = number_of(row, "bytes_in");
        f->slots[i].out = number_of(row, "bytes_out");
    }
    cJSON_Delete(plan);
    return CMD_OK;
}

/* Plans the whole product at once, as the shares are now. */
static int plan(forecast *f) {
    cmd_product *p = &f->product;
    shoal_tensor *c = NULL;
    char *text = NULL;
    memset(p->columns_axis.given, 0, sizeof p->columns_axis.given);
    int code = product_place(p, 0, p->n);
    if (code == CMD_OK) code = product_panel(p, 0, p->m, &c);
    if (code == CMD_OK) code = cmd_try(shoal_explain(c, true, &text));
    if (code == CMD_OK) code = read_plan(f, text);
    free(text);
    shoal_tensor_free(&c);
    return code;
}

/* To each slot and back: what the plan then expects of cables is what they carried. The hub learns
 * the speed of a link from the second mebibyte of a transfer on. */
static int try_links(const cmd_product *p) {
    enum { BYTES = 2 << 20 };
    const int64_t elements = BYTES / sizeof(float);
    float *bytes = calloc(1, BYTES);
    int code = bytes ? CMD_OK : cmd_fail("no memory for %d bytes", BYTES);
    for (uint32_t i = 0; i < p->n_slots && code == CMD_OK; i++) {
        const shoal_layout there = {
            .size = sizeof there, .copies = 1, .slots = &p->slots[i]->slot, .n_slots = 1};
        shoal_tensor *sent = NULL, *placed = NULL, *back = NULL;
        code = cmd_try(shoal_tensor_new(p->pool.session, SHOAL_F32, 1, &elements, bytes, &sent));
        if (code == CMD_OK) code = cmd_try(shoal_place(sent, &there, &placed));
        if (code == CMD_OK) code = cmd_try(shoal_negate(placed, &back));
        if (code == CMD_OK) code = cmd_try(shoal_read(back, bytes, BYTES));
        shoal_tensor_free(&sent);
        shoal_tensor_free(&placed);
        shoal_tensor_free(&back);
    }
    free(bytes);
    return code;
}

/* Gives to each slot as much as it does in the same time. false: nothing is left open, or a slot
 * had nothing to do by which it could be told. */
static bool follow(forecast *f) {
    double weights[ARGS_MOST_SLOTS];
    for (uint32_t i = 0; i < f->product.n_slots; i++) {
        if (!(f->slots[i].flops > 0) || !(f->slots[i].seconds > 0)) return false;
        weights[i] = f->slots[i].flops / f->slots[i].seconds;
    }
    return product_share(&f->product, weights);
}

/* ---- the report ---- */

static cJSON *list_slots(const forecast *f) {
    const cmd_product *p = &f->product;
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < p->n_slots; i++) {
        cJSON *row = product_row(p, i, product_part_of(p, i));
        cJSON_AddNumberToObject(row, "seconds", f->slots[i].seconds);
        cJSON_AddNumberToObject(row, "bytes_in", f->slots[i].in);
        cJSON_AddNumberToObject(row, "bytes_out", f->slots[i].out);
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

static int report_json(const forecast *f) {
    cJSON *root = product_describe(&f->product);
    cJSON_AddNumberToObject(root, "seconds", f->seconds);
    cJSON_AddNumberToObject(root, "bytes_moved", f->bytes);
    cJSON_AddItemToObject(root, "slots", list_slots(f));
    return text_json(root);
}

static void report_text(const forecast *f) {
    static const text_column columns[] = {{"slot", "SLOT", NULL},
                                          {"worker", "WORKER", NULL},
                                          {"device", "DEVICE", NULL},
                                          {"share_percent", "SHARE", text_show_percent},
                                          {"rows", "ROWS", text_show_count},
                                          {"columns", "COLUMNS", text_show_count},
                                          {"inner", "INNER", text_show_count},
                                          {"seconds", "COMPUTES", text_show_seconds},
                                          {"bytes_in", "RECEIVES", text_show_bytes},
                                          {"bytes_out", "SENDS", text_show_bytes}};
    const cmd_product *p = &f->product;
    char split[32], time[TEXT_ROOM], bytes[TEXT_ROOM];
    cJSON *rows = list_slots(f);
    text_table(rows, columns, sizeof columns / sizeof *columns);
    cJSON_Delete(rows);
    const args_slots *on = &p->input->on;
    printf("expected to take %s, with %s moved; --split %s %s ", text_seconds(f->seconds, time),
           text_bytes((uint64_t)f->bytes, bytes), product_split_text(p, split),
           on->count != 0 ? "--on" : "--share");
    for (uint32_t i = 0; i < p->n_slots; i++)
        printf("%s%s%s%.4g", i > 0 ? "," : "", on->count != 0 ? on->names[p->ordinals[i]] : "",
               on->count != 0 ? "=" : "", p->shares[i] * 100);
    putchar('\n');
}

static int run_split(const cmd_command *self, int argc, char **argv) {
    static product_input in;
    static forecast f;
    product_parse(self, argc, argv, &in);
    int code = product_open(&in, NULL, &f.product);
    if (code == CMD_OK) code = product_weigh(&f.product);
    if (code == CMD_OK) code = try_links(&f.product);
    if (code == CMD_OK) code = plan(&f);
    for (int i = 1; i < ROUNDS && code == CMD_OK && follow(&f); i++) code = plan(&f);
    if (code == CMD_OK && cmd_json)
        code = report_json(&f);
    else if (code == CMD_OK)
        report_text(&f);
    product_close(&f.product);
    return code;
}

const cmd_command cmd_split = {
    .name = "split",
    .group = CMD_COMPUTE,
    .args = "A B|MxKxN",
    .summary = "Propose shares of a product, and tell what each slot would take",
    .doc = "For two files, as matmul takes them, or for a product of M x K times K x N elements. "
           "Slots "
           "are measured if they have not been, and so are the links to them. Shares that are "
           "given stay: 50%,-,- proposes the "
           "other two.",
    .options = product_split_options,
    .take = product_take,
    .run = run_split};
